//! Builds control-flow graphs with a cursor at the end of an open node.
//!
//! After a terminator the cursor is in a fresh node without predecessors, so that code after `return` needs no special
//! case; [`CfgBuilder::finish`] removes unreachable nodes.

use p4jet_ir::{Cfg, Expr, Loc, Node, NodeId, Op, Stmt, Terminator};

/// The target of `return` or `exit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Jump {
    /// To a node of this graph.
    Node(NodeId),
    /// [`Terminator::Return`]
    Return,
    /// [`Terminator::Exit`]
    Exit,
}

impl Jump {
    pub(crate) fn terminator(self) -> Terminator {
        match self {
            Jump::Node(n) => Terminator::Goto(n),
            Jump::Return => Terminator::Return,
            Jump::Exit => Terminator::Exit,
        }
    }
}

/// A graph under construction.
#[derive(Debug)]
pub(crate) struct CfgBuilder {
    nodes: Vec<OpenNode>,
    current: NodeId,
    /// Shared nodes that only leave the graph.
    leaving: Vec<(Jump, NodeId)>,
}

#[derive(Debug, Default)]
struct OpenNode {
    label: String,
    stmts: Vec<Stmt>,
    terminator: Option<(Terminator, Loc)>,
}

/// A place in a graph under construction.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    node: usize,
    stmts: usize,
    /// Number of nodes at that time.
    nodes: usize,
}

impl Default for CfgBuilder {
    fn default() -> Self {
        CfgBuilder { nodes: vec![OpenNode::default()], current: NodeId(0), leaving: Vec::new() }
    }
}

impl CfgBuilder {
    /// Creates a node without predecessors.
    pub(crate) fn node(&mut self, label: impl Into<String>) -> NodeId {
        self.nodes.push(OpenNode { label: label.into(), ..OpenNode::default() });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Returns the node at the cursor.
    pub(crate) fn current(&self) -> NodeId {
        self.current
    }

    /// Moves the cursor to a node that has no terminator yet.
    pub(crate) fn enter(&mut self, node: NodeId) {
        debug_assert!(self.nodes[node.index()].terminator.is_none());
        self.current = node;
    }

    /// Returns the place for the next statement.
    pub(crate) fn position(&self) -> Position {
        let node = self.current.index();
        Position { node, stmts: self.nodes[node].stmts.len(), nodes: self.nodes.len() }
    }

    /// Returns the statements and terminators added since the cursor was there.
    pub(crate) fn since(&self, start: Position) -> impl Iterator<Item = Result<&Op, &Terminator>> {
        let first = &self.nodes[start.node];
        let nodes =
            std::iter::once((first, start.stmts)).chain(self.nodes[start.nodes..].iter().map(|n| (n, 0)));
        nodes.flat_map(|(node, from)| {
            let stmts = node.stmts[from..].iter().map(|stmt| Ok(&stmt.op));
            stmts.chain(node.terminator.iter().map(|(terminator, _)| Err(terminator)))
        })
    }

    /// Inserts a statement at an earlier position of the cursor.
    pub(crate) fn insert(&mut self, at: Position, op: Op, loc: Loc) {
        self.nodes[at.node].stmts.insert(at.stmts, Stmt { op, loc });
    }

    /// Appends a statement.
    pub(crate) fn push(&mut self, op: Op, loc: Loc) {
        self.nodes[self.current.index()].stmts.push(Stmt { op, loc });
    }

    /// Ends the current node; the cursor moves to a fresh, unreachable node.
    pub(crate) fn terminate(&mut self, terminator: Terminator, loc: Loc) {
        self.nodes[self.current.index()].terminator = Some((terminator, loc));
        self.current = self.node("");
    }

    /// Returns a node that leads to the target of `jump`; if that leaves the graph, by `terminator`.
    pub(crate) fn leaving(&mut self, jump: Jump, terminator: Terminator, loc: Loc) -> NodeId {
        if let Jump::Node(node) = jump {
            return node;
        }
        if let Some((_, node)) = self.leaving.iter().find(|(j, _)| *j == jump) {
            return *node;
        }
        let node = self.node("");
        self.nodes[node.index()].terminator = Some((terminator, loc));
        self.leaving.push((jump, node));
        node
    }

    /// Returns the graph without unreachable nodes and with straight lines joined. An open end returns.
    pub(crate) fn finish(self, end: Loc) -> Cfg {
        let mut nodes: Vec<Node> = self
            .nodes
            .into_iter()
            .map(|n| {
                let (terminator, terminator_loc) = n.terminator.unwrap_or((Terminator::Return, end));
                Node { label: n.label, stmts: n.stmts, terminator, terminator_loc }
            })
            .collect();
        fold_constant_branches(&mut nodes);
        skip_empty(&mut nodes);
        join_lines(&mut nodes);
        prune(nodes)
    }
}

/// `if true` is a goto.
fn fold_constant_branches(nodes: &mut [Node]) {
    for node in nodes {
        if let Terminator::If { cond: Expr::Const { value, .. }, then, otherwise } = &node.terminator {
            let target = if *value == 0u32.into() { *otherwise } else { *then };
            node.terminator = Terminator::Goto(target);
        }
    }
}

/// Bypasses nodes that only jump on, except labelled ones (parser states).
fn skip_empty(nodes: &mut [Node]) {
    // Each path is walked once, because inlining leaves long chains.
    let mut forward: Vec<Option<NodeId>> = vec![None; nodes.len()];
    for start in 0..nodes.len() as u32 {
        let mut way = Vec::new();
        let mut at = NodeId(start);
        let end = loop {
            if let Some(known) = forward[at.index()] {
                break known;
            }
            // Until the end of the path is known; on a cycle of empty nodes this node is the end.
            forward[at.index()] = Some(at);
            way.push(at);
            let node = &nodes[at.index()];
            match node.terminator {
                Terminator::Goto(next) if node.stmts.is_empty() && node.label.is_empty() => at = next,
                _ => break at,
            }
        };
        way.iter().for_each(|n| forward[n.index()] = Some(end));
    }
    let forward: Vec<NodeId> = (0..).zip(&forward).map(|(i, to)| to.unwrap_or(NodeId(i))).collect();
    for node in nodes {
        node.terminator.for_each_target_mut(&mut |t| *t = forward[t.index()]);
        if let Terminator::If { then, otherwise, .. } = &node.terminator
            && then == otherwise
        {
            node.terminator = Terminator::Goto(*then);
        }
    }
}

/// Joins nodes whose only predecessor ends with a goto to that predecessor.
fn join_lines(nodes: &mut [Node]) {
    let mut predecessors = vec![0u32; nodes.len()];
    predecessors[0] += 1;
    let reachable = reachable(nodes);
    for (i, node) in nodes.iter_mut().enumerate() {
        if reachable[i] {
            node.terminator.for_each_target_mut(&mut |t| predecessors[t.index()] += 1);
        }
    }
    for i in 0..nodes.len() {
        if !reachable[i] {
            continue;
        }
        while let Terminator::Goto(next) = nodes[i].terminator {
            let n = next.index();
            if n == i || predecessors[n] != 1 {
                break;
            }
            if !nodes[n].label.is_empty() {
                // A label names the whole node, so it may move only to an empty node.
                if !nodes[i].label.is_empty() || !nodes[i].stmts.is_empty() {
                    break;
                }
                nodes[i].label = std::mem::take(&mut nodes[n].label);
            }
            let stmts = std::mem::take(&mut nodes[n].stmts);
            nodes[i].stmts.extend(stmts);
            nodes[i].terminator = std::mem::replace(&mut nodes[n].terminator, Terminator::Return);
            nodes[i].terminator_loc = nodes[n].terminator_loc;
        }
    }
}

fn reachable(nodes: &[Node]) -> Vec<bool> {
    let mut seen = vec![false; nodes.len()];
    let mut work = vec![0usize];
    seen[0] = true;
    while let Some(i) = work.pop() {
        let mut terminator = nodes[i].terminator.clone();
        terminator.for_each_target_mut(&mut |t| {
            if !std::mem::replace(&mut seen[t.index()], true) {
                work.push(t.index());
            }
        });
    }
    seen
}

/// Keeps reachable nodes, numbered so that nodes follow their predecessors, except on cycles.
fn prune(nodes: Vec<Node>) -> Cfg {
    enum Visit {
        Node(usize),
        Done(usize),
    }
    let mut seen = vec![false; nodes.len()];
    let mut order = Vec::new();
    let mut work = vec![Visit::Node(0)];
    while let Some(visit) = work.pop() {
        match visit {
            Visit::Done(i) => order.push(i),
            Visit::Node(i) if !std::mem::replace(&mut seen[i], true) => {
                work.push(Visit::Done(i));
                let mut terminator = nodes[i].terminator.clone();
                terminator.for_each_target_mut(&mut |t| work.push(Visit::Node(t.index())));
            }
            Visit::Node(_) => {}
        }
    }
    order.reverse();
    let mut renumbered = vec![NodeId(0); nodes.len()];
    for (new, old) in order.iter().enumerate() {
        renumbered[*old] = NodeId(new as u32);
    }
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    let mut kept: Vec<Node> = order.iter().filter_map(|old| nodes[*old].take()).collect();
    for node in &mut kept {
        node.terminator.for_each_target_mut(&mut |t| *t = renumbered[t.index()]);
    }
    Cfg { nodes: kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Loc = Loc(0);

    #[test]
    fn code_after_a_terminator_vanishes() {
        let mut cfg = CfgBuilder::default();
        cfg.terminate(Terminator::Return, NOWHERE);
        cfg.terminate(Terminator::Drop(0), NOWHERE);
        assert_eq!(cfg.finish(NOWHERE).nodes.len(), 1);
    }

    #[test]
    fn straight_lines_are_one_node_and_take_its_label() {
        let mut cfg = CfgBuilder::default();
        let start = cfg.node("start");
        let after = cfg.node("");
        cfg.terminate(Terminator::Goto(start), NOWHERE);
        cfg.enter(start);
        cfg.terminate(Terminator::Goto(after), NOWHERE);
        cfg.enter(after);
        cfg.terminate(Terminator::Drop(0), NOWHERE);
        let cfg = cfg.finish(NOWHERE);
        assert_eq!(cfg.nodes.len(), 1);
        assert_eq!((cfg.nodes[0].label.as_str(), &cfg.nodes[0].terminator), ("start", &Terminator::Drop(0)));
    }

    #[test]
    fn a_cycle_of_empty_nodes_ends_the_search() {
        let mut cfg = CfgBuilder::default();
        let around = cfg.node("");
        cfg.terminate(Terminator::Goto(around), NOWHERE);
        cfg.enter(around);
        cfg.terminate(Terminator::Goto(around), NOWHERE);
        assert!(!cfg.finish(NOWHERE).nodes.is_empty());
    }

    #[test]
    fn nodes_that_only_leave_are_shared() {
        let mut cfg = CfgBuilder::default();
        let a = cfg.leaving(Jump::Return, Terminator::Return, NOWHERE);
        assert_eq!(a, cfg.leaving(Jump::Return, Terminator::Return, NOWHERE));
        assert_ne!(a, cfg.leaving(Jump::Exit, Terminator::Exit, NOWHERE));
    }
}
