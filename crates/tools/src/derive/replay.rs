//! Finds the causes of a packet's decisions: earlier decisions by which fields were set or not.

use super::solve::Bits;
use super::trail::{Edge, Graph};
use super::walk::{Map, Next, Walker};
use p4jet_ir::{ActionId, Cfg, FieldId, Node, NodeId, Program, Terminator};
use std::collections::HashSet;
use std::rc::Rc;

/// Fields that code sets.
type Sets = Rc<HashSet<FieldId>>;

/// A packet's path with the branches that it did not take.
pub(super) struct Replay {
    edges: Vec<Edge>,
    /// The visited nodes, with the number of earlier decisions.
    nodes: Vec<(Graph, NodeId, usize)>,
    others: Vec<Other>,
    /// Decisions whose outcome followed from earlier ones, with the fields set only on their other branches.
    settled: Vec<(usize, Sets)>,
}

/// Another branch of a decision.
struct Other {
    /// The index of the decision.
    number: usize,
    walker: Walker,
    /// Fields that are set only there.
    sets: Sets,
    /// The bits that it depends on.
    bits: Bits,
}

impl Map<'_> {
    /// Walks a path again.
    pub fn replay(&self, edges: &[Edge]) -> Option<Replay> {
        let mut walker = self.start();
        let mut replay =
            Replay { edges: edges.to_vec(), nodes: Vec::new(), others: Vec::new(), settled: Vec::new() };
        loop {
            let (nodes, made) = (walker.trail.nodes.len(), walker.trail.edges.len());
            let next = self.walk(&mut walker, usize::MAX);
            // Between two forks, all decisions are determined.
            let mut at = made;
            for (graph, node) in &walker.trail.nodes[nodes..] {
                replay.nodes.push((*graph, *node, at));
                let Some(edge) = walker.trail.edges.get(at) else { continue };
                if (edge.0, edge.1) == (*graph, *node) {
                    replay.settled.push((at, self.set_elsewhere(*edge)));
                    at += 1;
                }
            }
            let Next::Fork(branches) = next else { return Some(replay) };
            let (number, goals) = (walker.trail.edges.len(), walker.trail.goals());
            let wanted = edges.get(number)?;
            let taken = branches.iter().position(|walker| walker.trail.edges.get(number) == Some(wanted))?;
            for (index, other) in branches.iter().enumerate() {
                if index != taken {
                    let (sets, bits) =
                        (self.set_only(other, &branches[taken]), other.trail.bits_asked(goals));
                    replay.others.push(Other { number, walker: other.clone(), sets, bits });
                }
            }
            walker = branches.into_iter().nth(taken)?;
        }
    }

    /// Returns the fields that are set on the other branches of a decision, but not on the one taken.
    fn set_elsewhere(&self, edge: Edge) -> Sets {
        let body = body(self.program, edge.0);
        let mut targets = Vec::new();
        body.nodes[edge.1.index()].terminator.for_each_target(&mut |target| targets.push(target));
        let mut elsewhere = HashSet::new();
        if let Some(taken) = targets.get(edge.2 as usize).copied() {
            for other in targets.iter().filter(|other| **other != taken) {
                let sets = self.set_between(edge.0, *other, taken);
                self.work.spend(sets.len());
                elsewhere.extend(sets.iter());
            }
        }
        Rc::new(elsewhere)
    }

    /// Returns the fields set by nodes after one node but not after another.
    fn set_between(&self, graph: Graph, from: NodeId, not: NodeId) -> Sets {
        if let Some(known) = self.sets.borrow().get(&(graph, from, not)) {
            return Rc::clone(known);
        }
        let body = body(self.program, graph);
        self.work.spend(2 * body.nodes.len());
        let mut sets = HashSet::new();
        let only = reachable(body, from).into_iter().zip(reachable(body, not));
        for (node, _) in body.nodes.iter().zip(only).filter(|(_, (here, there))| *here && !there) {
            set_by(self.program, node, &mut sets);
        }
        let sets = Rc::new(sets);
        self.sets.borrow_mut().insert((graph, from, not), Rc::clone(&sets));
        sets
    }

    /// Returns the fields set after a branch, but not after the one taken.
    fn set_only(&self, other: &Walker, taken: &Walker) -> Sets {
        let Some((graph, body)) = self.graph(other) else { return Sets::default() };
        match graph {
            Graph::Action(id) if other.node == NodeId(0) => {
                let mut sets: HashSet<FieldId> =
                    self.program.actions[id.index()].params.iter().copied().collect();
                body.nodes.iter().for_each(|node| set_by(self.program, node, &mut sets));
                Rc::new(sets)
            }
            _ => self.set_between(graph, other.node, taken.node),
        }
    }
}

/// True if a path reaches a decision.
pub(super) fn comes_to(trail: &[Edge], decision: &Edge) -> bool {
    trail.iter().any(|made| (made.0, made.1) == (decision.0, decision.1))
}

impl Replay {
    /// Returns the decision to change in order to reach a wanted one: the wanted one itself, or the last one that leads away
    /// from it.
    pub fn on_the_way_to(&self, map: &Map, wanted: Edge) -> Option<Edge> {
        if comes_to(&self.edges, &wanted) {
            return Some(wanted);
        }
        self.edges.iter().rev().find_map(|edge| {
            let body = body(map.program, edge.0);
            map.work.spend(body.nodes.len() / 4);
            let mut targets = Vec::new();
            match &body.nodes[edge.1.index()].terminator {
                Terminator::Apply { .. } => return None,
                other => other.for_each_target(&mut |target| targets.push(target)),
            }
            let leads = |from: &NodeId| {
                let here = reachable(body, *from);
                match edge.0 == wanted.0 {
                    true => here[wanted.1.index()],
                    // To the next block.
                    false => body.nodes.iter().zip(here).any(|(node, here)| {
                        let ends = matches!(node.terminator, Terminator::Drop(_) | Terminator::Done);
                        let mut goes_on = false;
                        node.terminator.for_each_target(&mut |_| goes_on = true);
                        here && !ends && !goes_on
                    }),
                }
            };
            let taken = targets.get(edge.2 as usize)?;
            if leads(taken) {
                return None;
            }
            let other = targets.iter().position(leads)?;
            Some((edge.0, edge.1, other as u32))
        })
    }

    /// Returns other paths that may reach this decision with this outcome, those that branch last first.
    pub fn others_for(&self, map: &Map, wanted: Edge) -> Vec<Walker> {
        let Some(at) = self.edges.iter().position(|edge| (edge.0, edge.1) == (wanted.0, wanted.1)) else {
            return Vec::new();
        };
        // Relevant fields, each at a time given by the number of earlier decisions.
        let mut open: Vec<(FieldId, usize)> = Vec::new();
        let (mut turns, mut matter, mut asked) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut ask = |number: usize, open: &mut Vec<(FieldId, usize)>| {
            if asked.insert(number) {
                let edge = self.edges[number];
                let node = &body(map.program, edge.0).nodes[edge.1.index()];
                fields_of_decision(&node.terminator, &mut |field| open.push((field, number)));
            }
        };
        ask(at, &mut open);
        while let Some((field, before)) = open.pop() {
            if !matter.insert(field) {
                continue;
            }
            map.work.spend(self.nodes.len() + self.settled.len());
            if map.work.is_spent() {
                return Vec::new();
            }
            // Where it would have received another value.
            let settled =
                self.settled.iter().filter(|(number, sets)| *number < before && sets.contains(&field));
            settled.for_each(|(number, _)| ask(*number, &mut open));
            // Where it got its value, to which a decision led.
            for (graph, node, made) in self.nodes.iter().rev().filter(|(.., made)| *made <= before) {
                let node = &body(map.program, *graph).nodes[node.index()];
                if *made < before && set_by_lookup(map.program, node, field) {
                    turns.insert(*made);
                    ask(*made, &mut open);
                    break;
                }
                let mut sets = HashSet::new();
                set_here(node, map.program, &mut sets);
                if sets.contains(&field) {
                    for stmt in &node.stmts {
                        stmt.op.for_each_expr(&mut |expr| {
                            expr.for_each_field(&mut |field| open.push((field, *made)))
                        });
                    }
                    if let Some(number) = made.checked_sub(1) {
                        turns.insert(number);
                        ask(number, &mut open);
                    }
                    break;
                }
            }
        }
        // If it depends on bits: others that concern the same bits.
        let wanted = self.others.iter().find(|other| {
            let last = other.walker.trail.edges.last();
            other.number == at && last.is_some_and(|edge| super::plain(edge) == wanted)
        });
        let good = |other: &&Other| {
            other.number < at
                && (turns.contains(&other.number)
                    || other.sets.iter().any(|field| matter.contains(field))
                    || wanted.is_some_and(|wanted| wanted.bits.meet(&other.bits)))
        };
        self.others.iter().rev().filter(good).map(|other| other.walker.clone()).collect()
    }
}

fn body(program: &Program, graph: Graph) -> &Cfg {
    match graph {
        Graph::Block(id) => &program.blocks[id.index()].body,
        Graph::Action(id) => &program.actions[id.index()].body,
    }
}

fn fields_of_decision(terminator: &Terminator, f: &mut dyn FnMut(FieldId)) {
    match terminator {
        Terminator::If { cond, .. } => cond.for_each_field(f),
        Terminator::Switch { value, .. } => value.for_each_field(f),
        Terminator::Apply { keys, .. } => keys.iter().for_each(|key| key.for_each_field(f)),
        _ => {}
    }
}

/// True if the node's lookup, or an action that it finds, sets this field.
fn set_by_lookup(program: &Program, node: &Node, field: FieldId) -> bool {
    let Terminator::Apply { table, hit, action_run, .. } = &node.terminator else { return false };
    let actions = &program.tables[table.index()].actions;
    let params = |action: ActionId| program.actions[action.index()].params.contains(&field);
    [*hit, *action_run].contains(&Some(field)) || actions.iter().any(|listed| params(listed.action))
}

/// Collects the fields that the node's statements set.
fn set_here(node: &Node, program: &Program, sets: &mut HashSet<FieldId>) {
    for stmt in &node.stmts {
        stmt.op.for_each_write(&program.headers, &mut |field| _ = sets.insert(field));
    }
}

/// Collects the fields that the node sets, including its lookup and the actions of its table.
fn set_by(program: &Program, node: &Node, sets: &mut HashSet<FieldId>) {
    set_here(node, program, sets);
    if let Terminator::Apply { table, hit, action_run, .. } = &node.terminator {
        sets.extend([hit, action_run].into_iter().flatten());
        for listed in &program.tables[table.index()].actions {
            let action = &program.actions[listed.action.index()];
            sets.extend(&action.params);
            action.body.nodes.iter().for_each(|node| set_here(node, program, sets));
        }
    }
}

/// Returns the nodes of a graph that may follow one, including it.
fn reachable(body: &Cfg, from: NodeId) -> Vec<bool> {
    let mut seen = vec![false; body.nodes.len()];
    let mut work = vec![from];
    while let Some(at) = work.pop() {
        if !std::mem::replace(&mut seen[at.index()], true) {
            body.nodes[at.index()].terminator.for_each_target(&mut |next| work.push(next));
        }
    }
    seen
}
