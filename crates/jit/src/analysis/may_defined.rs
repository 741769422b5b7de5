//! May-defined slots: those that a statement may have set before a program point. Extraction does not count.

use super::constants::Constants;
use super::deparse::{Deparsers, Mode};
use super::effects::{apply_sets, copy_sets, op_sets};
use super::inherited::inherited_by;
use crate::graph::{Graph, Place};
use crate::slots::SlotSet;
use crate::solver::{self, Budget, Exceeded, PerPlace};
use p4jet_ir::{ActionId, Begin, Intrinsic, Op, Terminator};

/// The slots that statements may have set before each place.
pub struct MayDefined(PerPlace<SlotSet>);

impl MayDefined {
    /// The slots that may be set before the statements of a place.
    pub fn before(&self, place: Place) -> &SlotSet {
        &self.0[place]
    }

    /// The slots that may be set before the terminator of a place.
    pub fn at_end(&self, graph: &Graph, place: Place) -> SlotSet {
        let mut set = self.0[place].clone();
        let stmts = graph.node(place).stmts.iter();
        stmts.for_each(|stmt| op_sets(&stmt.op, &mut |f| set.insert_field(f)));
        set
    }

    /// The slots that may be set before the actions of a place's table run.
    pub fn before_actions(&self, graph: &Graph, place: Place) -> SlotSet {
        let mut set = self.at_end(graph, place);
        apply_sets(&graph.node(place).terminator, &mut |f| set.insert_field(f));
        set
    }

    /// Of the header fields that a deparser emits, those that may differ from what the frame has, where a place leaves the
    /// deparser; `None` if all fields that statements set anywhere may.
    pub fn changed_at_end(&self, graph: &Graph, deparsers: &Deparsers, place: Place) -> Option<SlotSet> {
        let is_straight = deparsers.mode_at(graph, place) != Some(Mode::Scratch);
        (is_straight && !graph.deparsed_before(place)).then(|| self.at_end(graph, place))
    }
}

/// The slots that may be set where the statements of an action run, if those of `before` may be before the action.
pub fn in_action(graph: &Graph, before: &SlotSet, action: ActionId) -> SlotSet {
    let action = &graph.program.actions[action.index()];
    let mut set = before.clone();
    action.params.iter().for_each(|p| set.insert_field(*p));
    if action.body.nodes.len() > 1 {
        let stmts = action.body.nodes.iter().flat_map(|node| &node.stmts);
        stmts.for_each(|stmt| op_sets(&stmt.op, &mut |f| set.insert_field(f)));
    }
    set
}

/// Finds the may-defined slots: forward, by union.
pub fn may_defined(
    graph: &Graph,
    constants: &Constants,
    budget: &mut Budget,
) -> Result<MayDefined, Exceeded> {
    let mut before = graph.per_place(graph.slots.none());
    for begin in Begin::ALL {
        if let Some(place) = graph.entry(begin)
            && graph.has_copies(begin)
        {
            for (from, copy) in graph.copies().filter(|(_, copy)| copy.begin == begin) {
                // A copy that keeps its headers has what was set where it was made.
                if !graph.keeps_headers(from, copy) {
                    before[place].union(&inherited_by(graph, copy));
                }
            }
            if begin == Begin::Egress {
                // Copies have the intrinsics of arrival only if they keep them, and those of queues of their own.
                let others = graph.program.intrinsics.iter();
                let others = others.filter(|(i, _)| *i != Intrinsic::EgressTimestamp);
                others.for_each(|(_, f)| before[place].insert_field(*f));
            }
        }
    }
    let in_action = |action: &p4jet_ir::Action| {
        let mut set = graph.slots.none();
        for stmt in action.body.nodes.iter().flat_map(|node| &node.stmts) {
            op_sets(&stmt.op, &mut |f| set.insert_field(f));
        }
        action.params.iter().for_each(|p| set.insert_field(*p));
        set
    };
    let actions: Vec<SlotSet> = graph.program.actions.iter().map(in_action).collect();
    solver::forward(
        graph,
        &mut before,
        graph.reached(),
        budget,
        |place| set_steps(graph, place),
        |into, from| into.union(from),
        |place, before, edge| {
            let mut set = before.clone();
            let node = graph.node(place);
            for stmt in &node.stmts {
                op_sets(&stmt.op, &mut |f| set.insert_field(f));
                if let (Op::Copy(copy), Some(begin)) = (&stmt.op, graph.egress_start())
                    && graph.keeps_headers(place, copy)
                {
                    let mut inherited = set.clone();
                    copy_sets(copy, &mut |f| inherited.insert_field(f));
                    edge(begin, &inherited);
                }
            }
            apply_sets(&node.terminator, &mut |f| set.insert_field(f));
            if let Terminator::Apply { table, .. } = &node.terminator {
                for action in &graph.program.tables[table.index()].actions {
                    set.union(&actions[action.action.index()]);
                }
            }
            // A parser error, or a reject, sets the error field.
            graph.block(place).error_field.iter().for_each(|f| set.insert_field(*f));
            constants.successors(place).iter().for_each(|&next| edge(next, &set));
        },
    )?;
    Ok(MayDefined(before))
}

/// The steps of a visit that looks at a set of slots for each edge.
pub fn set_steps(graph: &Graph, place: Place) -> usize {
    (1 + graph.edges(place)) * (32 + graph.slots.count() / 64)
}
