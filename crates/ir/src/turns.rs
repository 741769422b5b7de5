//! The bound on loops, so that no packet keeps a switch busy forever.
//!
//! Every cycle of a graph is one of these:
//!
//! * **bounded**: a counter in it only moves one way, towards a limit. It costs nothing. The bounded loops of a program
//!   may take at most [`TURNS_MAX`] turns together ([`COPY_TURNS_MAX`] if the program copies packets); nested loops
//!   multiply.
//! * **progressing**: each turn consumes at least a byte of the frame and does at most [`PROGRESS_WORK_MAX`] work. It costs
//!   nothing.
//! * **counted**: each turn passes a [`Terminator::Turn`], which deducts it from the packet's single budget of [`TURNS_MAX`]
//!   turns.
//!
//! A turn that does more than [`WORK_PER_TURN`] work counts as several, in bounded loops too. So not only the turns but also
//! the work that a packet causes in loops is bounded.
//!
//! The budget is a field. So blocks, stages and copies pass it on like any other field, and both executors exhaust it at the
//! same step.
//!
//! A bounded loop inside a progressing or counted one would run once for each of its turns, so it is counted too; and so is
//! a loop in an action that a table inside a loop runs. [`count`] inserts the necessary `Turn`s, and [`crate::verify`]
//! refuses a program that lacks one.
//!
//! # How a cycle is shown to be bounded
//!
//! A strongly connected part of the graph is bounded if it has a branch, the *guard*, that compares a field with a limit,
//! and the part changes the field only by adding constants of one sign (steps), so that
//!
//! * no step follows another without the guard between them: a step starts inside the limit, so it does not wrap;
//! * the guard does not follow itself without a step between.
//!
//! Then each time control enters the part, it passes the guard at most as often as steps fit between the ends of the field's
//! range. The part without the guard's edge is examined in the same way.

use std::collections::{HashMap, HashSet};

use num_bigint::{BigInt, BigUint};
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::components::components;
use crate::work::SEARCH_UNITS;
use crate::*;

/// Maximum number of counted turns of a packet, and of turns of all bounded loops of a program.
pub const TURNS_MAX: u32 = 1 << 16;
/// Maximum number of counted turns of a copy, and of turns of all bounded loops of a program that copies packets.
pub const COPY_TURNS_MAX: u32 = 1 << 10;
/// Maximum number of copies of one packet, copies of its copies included.
pub const COPIES_MAX: usize = 1 << 12;
/// The work that one turn may do, in operations on 64-bit words. A turn that does more counts as several.
pub const WORK_PER_TURN: u64 = 128;
/// Maximum work between two advances of a progressing loop, so that a frame of 16 KiB causes as much as all turns.
pub const PROGRESS_WORK_MAX: u64 = WORK_PER_TURN * TURNS_MAX as u64 / (16 << 10);

/// The work that the turns of a packet allow.
pub const PACKET_WORK_MAX: u64 = TURNS_MAX as u64 * WORK_PER_TURN;

/// The drop reason of a packet that has used up its turns.
pub const SPENT: &str = "loop ran too long";
/// The error of a parser in which the turns are used up.
pub const SPENT_IN_PARSER: &str = "ParserTimeout";

/// Name of [`Program::turns`].
const NAME: &str = "$turns";
/// Maximum number of guards to try for one part: loops have theirs at their start or end.
const GUARDS_MAX: usize = 16;
/// Maximum number of copies of fields to track in one node: lowering creates one for each `next` of a stack.
const COPIES_KNOWN_MAX: usize = 16;

impl Program {
    /// Returns the number of turns that a copy has taken when it starts: as many as the packet that creates it, or more if
    /// that would leave more than [`COPY_TURNS_MAX`].
    pub fn turns_of_copy(turns: FieldId) -> Expr {
        let least = || Box::new(Expr::constant(TURNS_MAX - COPY_TURNS_MAX, 32));
        let taken = || Box::new(Expr::Field(turns));
        Expr::Select(Box::new(Expr::Binary(BinaryOp::LtU, taken(), least())), least(), taken())
    }

    fn graphs(&self) -> impl Iterator<Item = &Cfg> {
        self.actions.iter().map(|a| &a.body).chain(self.blocks.iter().map(|b| &b.body))
    }

    fn copies(&self) -> bool {
        self.graphs().flat_map(|g| &g.nodes).flat_map(|n| &n.stmts).any(|s| matches!(s.op, Op::Copy(_)))
    }
}

/// Inserts a [`Terminator::Turn`] on every path around a cycle that is neither bounded nor progressing, and weighs the
/// turns.
pub fn count(program: &mut Program) {
    for Uncounted { graph, nodes, .. } in uncounted(program) {
        let spent = spent(program, graph);
        count_part(program.cfg_mut(graph), &nodes, &spent);
    }
    // The weight of a turn depends on the positions of all turns.
    for Uncounted { graph, nodes, weight: needed } in uncounted(program) {
        let body = program.cfg_mut(graph);
        for node in nodes {
            if let Terminator::Turn { weight, .. } = &mut body.nodes[node.index()].terminator {
                *weight = needed.max(*weight);
            }
        }
    }
    let Some(turns) = program.turns else { return };
    for node in passes::graphs_mut(program).flat_map(|g| &mut g.nodes) {
        for stmt in &mut node.stmts {
            if let Op::Copy(copy) = &mut stmt.op
                && !copy.set.iter().any(|(f, _)| *f == turns)
            {
                copy.set.push((turns, Program::turns_of_copy(turns)));
            }
        }
    }
}

/// Returns the terminator of a graph for spent turns. Adds [`Program::turns`] to the program.
fn spent(program: &mut Program, graph: CfgId) -> Terminator {
    if program.turns.is_none() {
        program.turns = Some(FieldId(program.fields.len() as u32));
        program.fields.push(Field { name: NAME.to_string(), width: 32, kind: FieldKind::Temporary });
    }
    if let CfgId::Block(block) = graph
        && program.blocks[block.index()].kind == BlockKind::Parser
    {
        let timeout = program.errors.iter().position(|e| e == SPENT_IN_PARSER).unwrap_or_else(|| {
            program.errors.push(SPENT_IN_PARSER.to_string());
            program.errors.len() - 1
        });
        return Terminator::Reject(Expr::constant(timeout as u32, 32));
    }
    let reason = program.drop_reasons.iter().position(|r| r == SPENT).unwrap_or_else(|| {
        program.drop_reasons.push(SPENT.to_string());
        program.drop_reasons.len() - 1
    });
    Terminator::Drop(reason as u32)
}

/// Inserts a turn on every back edge of a walk through the part, so that every cycle has one.
fn count_part(body: &mut Cfg, nodes: &[NodeId], spent: &Terminator) {
    let inside: HashSet<NodeId> = nodes.iter().copied().collect();
    let mut open = vec![false; body.nodes.len()];
    let mut seen = vec![false; body.nodes.len()];
    let mut back = Vec::new();
    // Lowering numbers nodes so that loops start with their lowest.
    let mut starts = nodes.to_vec();
    starts.sort_unstable();
    for start in starts {
        if std::mem::replace(&mut seen[start.index()], true) {
            continue;
        }
        open[start.index()] = true;
        let mut way = vec![(start, body.nodes[start.index()].targets())];
        while let Some((at, next)) = way.last_mut() {
            let at = *at;
            match next.pop().map(NodeId) {
                None => {
                    open[at.index()] = false;
                    way.pop();
                }
                Some(to) if !inside.contains(&to) => {}
                Some(to) if open[to.index()] => back.push((at, to)),
                Some(to) => {
                    if !std::mem::replace(&mut seen[to.index()], true) {
                        open[to.index()] = true;
                        way.push((to, body.nodes[to.index()].targets()));
                    }
                }
            }
        }
    }
    back.sort_unstable();
    back.dedup();
    let mut spents: HashMap<Loc, NodeId> = HashMap::new();
    for (from, to) in back {
        let loc = body.nodes[from.index()].terminator_loc;
        let mut node = |terminator| {
            body.nodes.push(Node {
                label: String::new(),
                stmts: Vec::new(),
                terminator,
                terminator_loc: loc,
            });
            NodeId(body.nodes.len() as u32 - 1)
        };
        let spent = *spents.entry(loc).or_insert_with(|| node(spent.clone()));
        let turn = node(Terminator::Turn { weight: 1, next: to, spent });
        body.nodes[from.index()].terminator.for_each_target_mut(&mut |n| {
            if *n == to {
                *n = turn;
            }
        });
    }
}

/// A part of a graph with cycles that are neither bounded nor progressing nor counted.
pub struct Uncounted {
    /// The graph.
    pub graph: CfgId,
    /// Its nodes.
    pub nodes: Vec<NodeId>,
    /// The required weight of each turn.
    pub weight: u32,
}

/// Returns every part that lacks a turn, or has one with too little weight; the innermost part if the outer ones are
/// bounded. Targets must exist.
pub fn uncounted(program: &Program) -> Vec<Uncounted> {
    examine(program).0
}

/// The work that one packet may cause, for the size of batches.
pub struct PacketWork {
    /// At least the work outside loops, and of nodes in loops with as much work as a lookup in a searched table
    /// ([`Table::is_searched`]). The turns bound the other work in loops.
    pub units: u64,
    /// True if [`uncounted`] returns nothing.
    pub is_bounded: bool,
}

/// Returns the work that one packet may cause in a counted program.
pub fn packet_work(program: &Program) -> PacketWork {
    let (uncounted, units) = examine(program);
    PacketWork { units, is_bounded: uncounted.is_empty() }
}

/// Returns the results of [`uncounted`] and of [`packet_work`].
fn examine(program: &Program) -> (Vec<Uncounted>, u64) {
    let written: Vec<HashSet<FieldId>> = program
        .actions
        .iter()
        .map(|action| {
            let mut fields: HashSet<FieldId> = action.params.iter().copied().collect();
            for stmt in action.body.nodes.iter().flat_map(|n| &n.stmts) {
                stmt.op.for_each_write(&program.headers, &mut |f| {
                    fields.insert(f);
                });
            }
            fields
        })
        .collect();
    // How often the tables are applied, and so how often their actions run, unless that is in a loop.
    let mut places = vec![(0u64, false); program.tables.len()];
    for block in &program.blocks {
        let on_cycle = block.body.on_cycles();
        for (index, node) in block.body.nodes.iter().enumerate() {
            if let Terminator::Apply { table, .. } = node.terminator {
                let (applied, looped) = &mut places[table.index()];
                *applied += 1;
                *looped |= on_cycle[index];
            }
        }
    }
    let mut applied = vec![0u64; program.actions.len()];
    let mut looped = vec![false; program.actions.len()];
    for (table, places) in program.tables.iter().zip(&places) {
        for action in &table.actions {
            applied[action.action.index()] += places.0;
            looped[action.action.index()] |= places.1;
        }
    }
    let work_of_actions: Vec<u64> = program
        .actions
        .iter()
        .map(|action| heaviest_path(&works(program, &action.body, &[]), &Part::whole(&action.body)))
        .collect();
    let work_of = |table: &Table| {
        table.actions.iter().filter_map(|action| work_of_actions.get(action.action.index()).copied()).max()
    };
    let work_of_tables: Vec<u64> = program.tables.iter().map(|t| work_of(t).unwrap_or(0)).collect();
    let mut left = u64::from(if program.copies() { COPY_TURNS_MAX } else { TURNS_MAX });
    let mut found = Vec::new();
    let mut units = 0u64;
    for graph in program.cfgs() {
        let body = program.cfg(graph);
        let runs = match graph {
            CfgId::Action(action) if looped[action.index()] => None,
            CfgId::Action(action) => Some(applied[action.index()].max(1)),
            CfgId::Block(_) => Some(1),
        };
        let whole = Part::whole(body);
        let work = works(program, body, &work_of_tables);
        // The nodes that apply the tables count the work of their actions.
        if let CfgId::Block(_) = graph {
            units = units.saturating_add(heaviest_path(&work, &whole));
        }
        let mut prover = Prover {
            program,
            body,
            sources: whole.sources(body.nodes.len()),
            written: &written,
            work: &work,
            graph,
            left: &mut left,
            found: &mut found,
            units: &mut units,
        };
        prover.examine(whole, runs);
    }
    (found, units)
}

/// Returns the work of each node; `tables` has that of the heaviest action of each table.
fn works(program: &Program, body: &Cfg, tables: &[u64]) -> Vec<u64> {
    body.nodes.iter().map(|node| program.work(node, tables)).collect()
}

/// Returns the maximum work of a walk through a part that visits no node twice; a remaining cycle counts as one visit of
/// each of its nodes.
fn heaviest_path(work: &[u64], part: &Part) -> u64 {
    let mut heaviest = vec![0; part.nodes.len()];
    let mut most = 0;
    // Targets before sources. Nodes of the component itself still have 0.
    for component in components(&part.next) {
        let of = |at: &u32| part.next[*at as usize].iter().map(|to| heaviest[*to as usize]).max();
        let behind = component.iter().filter_map(of).max().unwrap_or(0);
        let own = |at: &u32| work[part.nodes[*at as usize].index()];
        let path = component.iter().map(own).fold(behind, u64::saturating_add);
        most = most.max(path);
        component.into_iter().for_each(|at| heaviest[at as usize] = path);
    }
    most
}

/// Returns how many turns a turn with this much work counts as.
fn weight(work: u64) -> u32 {
    work.div_ceil(WORK_PER_TURN).clamp(1, u64::from(TURNS_MAX) + 1) as u32
}

/// Some nodes of a graph with edges between them.
#[derive(Clone)]
struct Part {
    /// In ascending order.
    nodes: Vec<NodeId>,
    /// For each node: the indices in `nodes` of its targets.
    next: Vec<Vec<u32>>,
}

impl Part {
    /// Returns all reachable nodes.
    fn whole(body: &Cfg) -> Part {
        let mut targets: Vec<Option<Vec<u32>>> = vec![None; body.nodes.len()];
        let mut work = vec![0u32];
        while let Some(at) = work.pop() {
            if targets[at as usize].is_none() {
                work.extend(targets[at as usize].insert(body.nodes[at as usize].targets()).iter());
            }
        }
        let mut index = Vec::with_capacity(targets.len());
        let mut nodes = Vec::new();
        for (node, targets) in targets.iter().enumerate() {
            index.push(nodes.len() as u32);
            nodes.extend(targets.is_some().then_some(NodeId(node as u32)));
        }
        let mut next: Vec<Vec<u32>> = targets.into_iter().flatten().collect();
        next.iter_mut().flatten().for_each(|to| *to = index[*to as usize]);
        Part { nodes, next }
    }

    /// Returns the predecessors of each node of the graph, which has `count` nodes.
    fn sources(&self, count: usize) -> Vec<Vec<NodeId>> {
        let mut sources = vec![Vec::new(); count];
        for (from, next) in self.nodes.iter().zip(&self.next) {
            next.iter().for_each(|to| sources[self.nodes[*to as usize].index()].push(*from));
        }
        sources
    }

    /// Returns the index of a node in `nodes`.
    fn index(&self, node: NodeId) -> Option<u32> {
        self.nodes.binary_search(&node).ok().map(|index| index as u32)
    }

    /// Returns the targets of the node with this index.
    fn targets(&self, at: u32) -> impl Iterator<Item = NodeId> {
        self.next[at as usize].iter().map(|to| self.nodes[*to as usize])
    }

    /// Removes an edge.
    fn cut(&mut self, (from, to): (NodeId, NodeId)) {
        if let (Some(from), Some(to)) = (self.index(from), self.index(to)) {
            self.next[from as usize].retain(|other| *other != to);
        }
    }

    /// Returns the strongly connected parts that have a cycle, ordered by their lowest nodes.
    fn cyclic(&self) -> Vec<Part> {
        // The component of each node, and its index there.
        let mut component_of = vec![(usize::MAX, 0); self.nodes.len()];
        let mut parts = Vec::new();
        for (number, mut component) in components(&self.next).into_iter().enumerate() {
            component.sort_unstable();
            for (index, at) in component.iter().enumerate() {
                component_of[*at as usize] = (number, index as u32);
            }
            let inside = |to: &u32| {
                let (of, index) = component_of[*to as usize];
                (of == number).then_some(index)
            };
            let next: Vec<Vec<u32>> = component
                .iter()
                .map(|at| self.next[*at as usize].iter().filter_map(inside).collect())
                .collect();
            if next.len() > 1 || !next[0].is_empty() {
                let nodes = component.iter().map(|at| self.nodes[*at as usize]).collect();
                parts.push(Part { nodes, next });
            }
        }
        parts.sort_by_key(|part| part.nodes[0]);
        parts
    }

    /// True if a walk from `starts` that avoids `closed` nodes reaches a node that is `sought`.
    fn comes_to(
        &self,
        starts: &[NodeId],
        without: Option<(NodeId, NodeId)>,
        closed: &dyn Fn(NodeId) -> bool,
        sought: &dyn Fn(NodeId) -> bool,
    ) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut work: Vec<u32> = starts.iter().filter_map(|start| self.index(*start)).collect();
        while let Some(index) = work.pop() {
            let at = self.nodes[index as usize];
            if std::mem::replace(&mut seen[index as usize], true) || closed(at) {
                continue;
            }
            if sought(at) {
                return true;
            }
            let next = self.next[index as usize].iter();
            work.extend(next.filter(|to| Some((at, self.nodes[**to as usize])) != without));
        }
        false
    }
}

/// The change of a field to which a part only adds constants of one sign: the minimum and maximum that a node adds.
struct Steps {
    least: BigInt,
    most: BigInt,
    nodes: HashSet<NodeId>,
}

struct Prover<'a> {
    program: &'a Program,
    body: &'a Cfg,
    /// The reachable predecessors of each node.
    sources: Vec<Vec<NodeId>>,
    /// The fields that each action writes.
    written: &'a [HashSet<FieldId>],
    /// The work of each node.
    work: &'a [u64],
    graph: CfgId,
    /// Number of turns that bounded loops may still take.
    left: &'a mut u64,
    found: &'a mut Vec<Uncounted>,
    /// See [`PacketWork::units`].
    units: &'a mut u64,
}

impl Prover<'_> {
    /// Examines a part that runs `runs` times; `None` if that depends on the packet.
    fn examine(&mut self, part: Part, runs: Option<u64>) {
        // A work list instead of recursion, because bounded loops may be nested deeply.
        let mut work: Vec<(Part, Option<u64>)> =
            part.cyclic().into_iter().rev().map(|part| (part, runs)).collect();
        while let Some((mut part, runs)) = work.pop() {
            if let Some(runs) = runs
                && let Some((guard, turns)) = self.guard(&part)
                && let Some(turns) = turns.to_u64()
                && let Some(all) = turns.checked_mul(runs)
                && let Some(weighed) = all.checked_mul(weight(self.work_without(&part, guard)).into())
                && weighed <= *self.left
            {
                *self.left -= weighed;
                let inner = all + runs;
                self.count_heavy(&part, inner);
                part.cut(guard);
                work.extend(part.cyclic().into_iter().rev().map(|part| (part, Some(inner))));
                continue;
            }
            self.count_heavy(&part, PACKET_WORK_MAX / SEARCH_UNITS);
            let nodes = part.nodes.clone();
            let lightest = self.cut_turns(&mut part);
            let progresses = self.cut_progress(&mut part);
            let needed = weight(heaviest_path(self.work, &part));
            if lightest.is_none() && !progresses {
                self.found.push(Uncounted { graph: self.graph, nodes, weight: 1 });
                continue;
            }
            if lightest.is_some_and(|lightest| lightest < needed) {
                self.found.push(Uncounted { graph: self.graph, nodes, weight: needed });
            }
            work.extend(part.cyclic().into_iter().rev().map(|part| (part, None)));
        }
    }

    /// Counts the work of the heavy nodes of a part whose nodes run `runs` times.
    fn count_heavy(&mut self, part: &Part, runs: u64) {
        let work = part.nodes.iter().map(|node| self.work[node.index()]);
        let heavy = work.filter(|work| *work >= SEARCH_UNITS).fold(0, u64::saturating_add);
        *self.units = self.units.saturating_add(heavy.saturating_mul(runs));
    }

    /// Returns the maximum work of one turn of a part whose guard continues by this edge.
    fn work_without(&self, part: &Part, guard: (NodeId, NodeId)) -> u64 {
        let mut part = part.clone();
        part.cut(guard);
        heaviest_path(self.work, &part)
    }

    /// Removes the outgoing edges of turns from a part. Returns the minimum weight of these turns, if there are any.
    fn cut_turns(&self, part: &mut Part) -> Option<u32> {
        let mut lightest = None;
        let Part { nodes, next } = part;
        for (at, next) in nodes.iter().zip(next) {
            if let Terminator::Turn { weight, next: on, spent } = self.body.nodes[at.index()].terminator {
                let before = next.len();
                // The code after spent turns must end without them.
                next.retain(|to| nodes[*to as usize] == spent);
                if on != spent && next.len() < before {
                    lightest = Some(lightest.map_or(weight, |least: u32| least.min(weight)));
                }
            }
        }
        lightest
    }

    /// Removes the edges after each advance in the frame from a part. Does nothing if there are none, or if too much work
    /// lies between them.
    fn cut_progress(&self, part: &mut Part) -> bool {
        let mut rest = part.clone();
        let mut cut = false;
        for (at, next) in rest.nodes.iter().zip(&mut rest.next) {
            if self.progresses(&self.body.nodes[at.index()]) {
                cut |= !next.is_empty();
                next.clear();
            }
        }
        let is_free = cut && heaviest_path(self.work, &rest) <= PROGRESS_WORK_MAX;
        if is_free {
            *part = rest;
        }
        is_free
    }

    /// True if the cursor advances at every visit that does not end the parser.
    fn progresses(&self, node: &Node) -> bool {
        node.stmts.iter().any(|stmt| match &stmt.op {
            Op::Extract { header, .. } => {
                let fields = &self.program.headers[header.index()].fields;
                fields.iter().any(|f| f.varbit_length.is_none())
            }
            Op::Advance { bits: Expr::Const { value, .. } } => !value.is_zero(),
            _ => false,
        })
    }

    /// Returns a guard that bounds the part, and the maximum number of times that it is passed.
    fn guard(&self, part: &Part) -> Option<((NodeId, NodeId), BigInt)> {
        let steps = self.steps(part);
        if steps.is_empty() {
            return None;
        }
        let mut tried = 0;
        for (index, at) in (0..).zip(part.nodes.iter().copied()) {
            let Terminator::If { cond, then, otherwise } = &self.body.nodes[at.index()].terminator else {
                continue;
            };
            if then == otherwise {
                continue;
            }
            for (to, holds) in [(*then, true), (*otherwise, false)] {
                if !part.targets(index).any(|target| target == to) {
                    continue;
                }
                for (field, steps) in asked(cond).into_iter().filter_map(|f| Some((f, steps.get(&f)?))) {
                    tried += 1;
                    if tried > GUARDS_MAX {
                        return None;
                    }
                    let turns = self.turns(part, cond, holds, field, steps);
                    if let Some(turns) = turns
                        && self.alternate(part, (at, to), steps)
                    {
                        return Some(((at, to), turns));
                    }
                }
            }
        }
        None
    }

    /// True if the guard and the steps alternate.
    fn alternate(&self, part: &Part, guard: (NodeId, NodeId), steps: &Steps) -> bool {
        let is_step = |at: NodeId| steps.nodes.contains(&at);
        let is_guard = |at: NodeId| at == guard.0;
        if part.comes_to(&[guard.1], None, &is_step, &is_guard) {
            return false;
        }
        // After any step, the next step is reached only through the guard.
        let behind: Vec<NodeId> = steps
            .nodes
            .iter()
            .filter_map(|step| Some((*step, part.index(*step)?)))
            .flat_map(|(step, index)| part.targets(index).map(move |to| (step, to)))
            .filter(|edge| *edge != guard)
            .map(|(_, to)| to)
            .collect();
        !part.comes_to(&behind, Some(guard), &|_| false, &is_step)
    }

    /// Returns the fields that the part changes only by steps of one sign.
    fn steps(&self, part: &Part) -> HashMap<FieldId, Steps> {
        let mut by_node: HashMap<FieldId, HashMap<NodeId, BigInt>> = HashMap::new();
        let mut other: HashSet<FieldId> = HashSet::new();
        let mut tables: HashSet<TableId> = HashSet::new();
        for at in &part.nodes {
            let node = &self.body.nodes[at.index()];
            let mut copies = HashMap::new();
            for stmt in &node.stmts {
                let step = step_of(self.program, &stmt.op, &copies);
                stmt.op.for_each_write(&self.program.headers, &mut |f| {
                    copies.retain(|to, from| *to != f && *from != f);
                    if step.is_none() {
                        other.insert(f);
                    }
                });
                match (step, &stmt.op) {
                    (Some((field, step)), _) => {
                        *by_node.entry(field).or_default().entry(*at).or_default() += step;
                    }
                    (None, Op::Set { dest, value: Expr::Field(from) }) if copies.len() < COPIES_KNOWN_MAX => {
                        copies.insert(*dest, *from);
                    }
                    _ => {}
                }
            }
            node.terminator.for_each_result(&mut |f| {
                other.insert(f);
            });
            if let Terminator::Apply { table, .. } = node.terminator
                && tables.insert(table)
            {
                for action in &self.program.tables[table.index()].actions {
                    other.extend(&self.written[action.action.index()]);
                }
            }
        }
        // Errors of a parser are written where it ends.
        other.extend(self.program.blocks.iter().filter_map(|b| b.error_field));
        by_node
            .into_iter()
            .filter(|(field, _)| !other.contains(field))
            .filter_map(|(field, nodes)| {
                let least = nodes.values().min_by_key(|s| s.abs())?.clone();
                let most = nodes.values().max_by_key(|s| s.abs())?.clone();
                let one_way = nodes.values().all(|s| !s.is_zero() && s.is_positive() == most.is_positive());
                one_way.then(|| (field, Steps { least, most, nodes: nodes.into_keys().collect() }))
            })
            .collect()
    }

    /// Returns the maximum number of times that an edge is passed on which `cond` holds, or does not, if `field` makes these
    /// steps; `None` if the condition does not limit the field.
    fn turns(&self, part: &Part, cond: &Expr, holds: bool, field: FieldId, steps: &Steps) -> Option<BigInt> {
        let width = self.program.width(field);
        let limit = limit_of(cond, holds, field)?;
        let up = steps.most.is_positive();
        let (low, high): (BigInt, BigInt) = match limit.signed {
            true => (-(BigInt::one() << (width - 1)), (BigInt::one() << (width - 1)) - 1),
            false => (BigInt::zero(), (BigInt::one() << width) - 1),
        };
        let greatest = high.clone();
        let value = |v: &BigUint| {
            let v = BigInt::from(v.clone());
            if v > greatest { v - (BigInt::one() << width) } else { v }
        };
        let start = self.start(part, field).map(|v| value(&v));
        // For steps upwards; those downwards are the same with signs changed.
        let mirror = |v: BigInt| if up { v } else { -v };
        let (low, high) = if up { (low, high) } else { (-high, -low) };
        let (least, most) = (steps.least.abs(), steps.most.abs());
        let start = start.map(mirror);
        let last = match (limit.bound, limit.below == up) {
            // Less than an unknown value, and so less than the maximum.
            (Bound::Less(at), true) => at.map_or_else(|| high.clone(), |at| mirror(value(&at))) - 1,
            (Bound::AtMost(at), true) | (Bound::Is(at), _) => mirror(value(&at)),
            (Bound::Not(at), _) => {
                let at = mirror(value(&at));
                let comes_by = most.is_one() && start.as_ref().is_some_and(|start| *start < at);
                if at != high && !comes_by {
                    return None;
                }
                at - 1
            }
            _ => return None,
        };
        if &last + &most > high {
            return None;
        }
        let first = start.filter(|start| *start <= last).unwrap_or(low);
        // One more, because the first step may come before the guard, and wrap.
        Some((last - first) / least + 2)
    }

    /// Returns the value of a field at every entry of the part, if known.
    fn start(&self, part: &Part, field: FieldId) -> Option<BigUint> {
        if part.nodes.first() == Some(&NodeId(0)) {
            return None;
        }
        let mut known: Option<BigUint> = None;
        let enters: HashSet<NodeId> = part
            .nodes
            .iter()
            .flat_map(|at| &self.sources[at.index()])
            .copied()
            .filter(|from| part.index(*from).is_none())
            .collect();
        for from in enters {
            let node = &self.body.nodes[from.index()];
            if !matches!(
                node.terminator,
                Terminator::Goto(_) | Terminator::If { .. } | Terminator::Switch { .. }
            ) {
                return None;
            }
            let mut value = None;
            for stmt in &node.stmts {
                match &stmt.op {
                    Op::Set { dest, value: Expr::Const { value: set, .. } } if *dest == field => {
                        value = Some(set.clone());
                    }
                    op => op.for_each_write(&self.program.headers, &mut |f| {
                        if f == field {
                            value = None;
                        }
                    }),
                }
            }
            let value = value?;
            if *known.get_or_insert_with(|| value.clone()) != value {
                return None;
            }
        }
        known
    }
}

/// Returns the field and the constant if the statement is `field = field + constant`, or if it adds a constant to a copy of
/// the field.
fn step_of(program: &Program, op: &Op, copies: &HashMap<FieldId, FieldId>) -> Option<(FieldId, BigInt)> {
    let Op::Set { dest, value: Expr::Binary(op, a, b) } = op else { return None };
    let (Expr::Field(field), Expr::Const { value, .. }) = (&**a, &**b) else { return None };
    if field != dest && copies.get(field) != Some(dest) {
        return None;
    }
    let width = program.width(*dest);
    let value = BigInt::from(value.clone());
    // Adding almost the whole range means subtracting.
    let value = if value >= BigInt::one() << (width - 1) { value - (BigInt::one() << width) } else { value };
    match op {
        BinaryOp::Add => Some((*dest, value)),
        BinaryOp::Sub => Some((*dest, -value)),
        _ => None,
    }
}

/// Returns the fields that a comparison tests directly.
fn asked(cond: &Expr) -> Vec<FieldId> {
    match cond {
        Expr::Field(field) => vec![*field],
        Expr::Unary(UnaryOp::Not, inner) => asked(inner),
        Expr::Binary(op, a, b) if op.is_comparison() => {
            let field = |e: &Expr| if let Expr::Field(f) = e { Some(*f) } else { None };
            field(a).into_iter().chain(field(b)).collect()
        }
        _ => Vec::new(),
    }
}

/// The limit that a comparison sets to a field.
struct Limit {
    bound: Bound,
    /// True if the field is below the bound rather than above it.
    below: bool,
    signed: bool,
}

enum Bound {
    /// Less (or greater) than this; `None`: than an unknown value.
    Less(Option<BigUint>),
    /// At most (or at least) this.
    AtMost(BigUint),
    /// Equal to this.
    Is(BigUint),
    /// Not equal to this.
    Not(BigUint),
}

fn limit_of(cond: &Expr, holds: bool, field: FieldId) -> Option<Limit> {
    use BinaryOp::{Eq, LeS, LeU, LtS, LtU, Ne};
    let (op, a, b) = match cond {
        Expr::Unary(UnaryOp::Not, inner) => return limit_of(inner, !holds, field),
        // A field of one bit.
        Expr::Field(f) if *f == field => {
            return Some(Limit { bound: Bound::Is(u32::from(holds).into()), below: true, signed: false });
        }
        Expr::Binary(op, a, b) => (*op, &**a, &**b),
        _ => return None,
    };
    let is_left = *a == Expr::Field(field);
    let other = if is_left { b } else { a };
    if !is_left && *b != Expr::Field(field) {
        return None;
    }
    let constant = match other {
        Expr::Const { value, .. } => Some(value.clone()),
        _ => None,
    };
    let signed = matches!(op, LtS | LeS);
    let bound = match (op, holds) {
        (LtU | LtS, true) | (LeU | LeS, false) => Bound::Less(constant),
        (LeU | LeS, true) | (LtU | LtS, false) => Bound::AtMost(constant?),
        (Eq, true) | (Ne, false) => Bound::Is(constant?),
        (Ne, true) | (Eq, false) => Bound::Not(constant?),
        _ => return None,
    };
    Some(Limit { bound, below: is_left == holds, signed })
}
