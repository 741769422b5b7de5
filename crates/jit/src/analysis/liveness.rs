//! Live slots: those that are read on some path from a program point before they are overwritten. Backward, by union.
//!
//! Liveness is found twice: for the whole pipeline, from which the cuts follow, and then for the stages that end at the cuts. In the
//! second run a slot that a stage only passes on is live no longer than until the stage has stored it.

use super::constants::Constants;
use super::deparse::{Deparsers, Mode};
use super::effects::{apply_sets, copy_sets};
use super::extracts::Extracts;
use super::inherited::{Inherited, keeps, keeps_cursor};
use super::may_defined::{MayDefined, set_steps};
use super::memos::Memos;
use super::reads::{ActionPlan, Nodes, Statement};
use super::sources::{Origin, Sources};
use super::sums::Sum;
use super::written::Written;
use crate::graph::{Graph, PerPlace, Place};
use crate::slots::{Slot, SlotSet};
use crate::solver::{self, Budget, Exceeded};
use p4jet_ir::{FieldId, Op, PacketCopy, PipelineHalf, Terminator};
use std::cell::LazyCell;
use std::collections::HashMap;

/// The part of a place with which a stage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// The whole place.
    Place,
    /// The lookup of the table that is applied there.
    Lookup,
    /// The rest after the lookup: direct counters and the action.
    Action,
}

/// The ends of stages, and the slots stored there.
pub type Ends = HashMap<(Place, At), SlotSet>;

/// A slot that is live at a cut, and the origin of its value behind it.
pub type Carried = (Slot, Origin);

/// Results that liveness depends on.
#[derive(Clone, Copy)]
pub struct LivenessInputs<'a> {
    /// The sources of values.
    pub sources: Sources<'a>,
    /// The reads of each node.
    pub nodes: &'a Nodes,
    /// Constant facts.
    pub constants: &'a Constants<'a>,
    /// May-defined slots.
    pub defined: &'a MayDefined,
    /// Slots that copies inherit.
    pub inherited: &'a Inherited,
    /// The deparsers.
    pub deparsers: &'a Deparsers,
    /// The positions of headers.
    pub extracts: &'a Extracts,
    /// Fields that statements set.
    pub written: &'a Written,
    /// Remembered lookups.
    pub memos: &'a Memos,
}

/// The live slots of a program.
pub struct Liveness<'a> {
    inputs: LivenessInputs<'a>,
    ends: Ends,
    /// The slots that are live where copies and packets begin, if `ends` are known.
    entries: Option<[SlotSet; 2]>,
    before: PerPlace<SlotSet>,
}

/// Finds the slots that are live in the whole pipeline.
pub fn liveness<'a>(inputs: LivenessInputs<'a>, budget: &mut Budget) -> Result<Liveness<'a>, Exceeded> {
    solve(inputs, Ends::new(), None, budget)
}

/// Finds the slots that are live in stages with these ends, from those that are live in the `whole` pipeline.
pub fn liveness_in_stages<'a>(
    whole: Liveness<'a>,
    ends: Ends,
    budget: &mut Budget,
) -> Result<Liveness<'a>, Exceeded> {
    if ends.is_empty() {
        return Ok(whole);
    }
    let entries = PipelineHalf::ALL.map(|begin| whole.at_begin(begin));
    solve(whole.inputs, ends, Some(entries), budget)
}

fn solve<'a>(
    inputs: LivenessInputs<'a>,
    ends: Ends,
    entries: Option<[SlotSet; 2]>,
    budget: &mut Budget,
) -> Result<Liveness<'a>, Exceeded> {
    let graph = inputs.sources.graph;
    let mut before = graph.per_place(graph.slots.none());
    let problem = Problem { inputs, ends: &ends, entries: &entries };
    solver::backward(
        graph,
        &mut before,
        &problem.dependents(),
        budget,
        |place| set_steps(graph, place),
        |into, from| into.union(from),
        |place, live| problem.at(live).before_statements(place, &mut |_, _| ()),
    )?;
    Ok(Liveness { inputs, ends, entries, before })
}

impl<'a> Liveness<'a> {
    /// The slots that are live before each place.
    pub fn sets(&self) -> impl Iterator<Item = (Place, &SlotSet)> {
        self.before.iter()
    }

    /// The slots that are live where a stage begins.
    pub fn from(&self, place: Place, at: At) -> SlotSet {
        self.with(|live| match at {
            At::Place => live.before_statements(place, &mut |_, _| ()),
            At::Lookup => live.after(place),
            At::Action => live.before_actions(place),
        })
    }

    /// The slots that are live after each statement of a place.
    pub fn after_statements(&self, place: Place) -> Vec<SlotSet> {
        let graph = self.inputs.sources.graph;
        let mut all = vec![graph.slots.none(); graph.node(place).stmts.len()];
        self.with(|live| live.before_statements(place, &mut |i, live| all[i] = live.clone()));
        all
    }

    /// The slots that are live where copies or packets begin, in any stage.
    pub fn at_begin(&self, begin: PipelineHalf) -> SlotSet {
        self.with(|live| live.at_begin(begin))
    }

    /// The slots that copies inherit and that something reads, in order.
    pub fn entered(&self, begin: PipelineHalf) -> Vec<Slot> {
        let mut live = self.at_begin(begin);
        live.intersect(self.inputs.inherited.at(begin));
        live.iter().collect()
    }

    /// The slots that live across a cut, and how each gets its value back.
    pub fn carried(&self, place: Place, at: At) -> Vec<Carried> {
        let LivenessInputs { constants, defined, memos, .. } = self.inputs;
        let graph = self.inputs.sources.graph;
        if at == At::Place {
            let facts = constants.before(place);
            let live = self.before[place].clone();
            return with_origins(self.inputs.sources, place, live, defined.before(place), &facts);
        }
        let live = self.with(|live| live.after(place));
        let defined = defined.at_end(graph, place);
        let mut carried = with_origins(self.inputs.sources, place, live, &defined, &constants.at_end(place));
        if let Some((_, memo)) = memos.at(place).filter(|_| at == At::Lookup) {
            let row = graph.slots.row(memo.row_table);
            if let Err(at) = carried.binary_search_by_key(&row, |c| c.0) {
                carried.insert(at, (row, Origin::Phv));
            }
        }
        carried
    }

    /// True if ingress or egress needs the time.
    pub fn reads_time(&self) -> bool {
        use p4jet_ir::Intrinsic;
        let live = PipelineHalf::ALL.map(|begin| self.at_begin(begin));
        let mut stamps = self.inputs.sources.graph.program.intrinsics.iter().filter(|(intrinsic, _)| {
            *intrinsic == Intrinsic::IngressTimestamp || intrinsic.begin() == PipelineHalf::Egress
        });
        stamps.any(|(_, field)| live.iter().any(|live| live.contains_field(*field)))
    }

    fn with<T>(&self, ask: impl FnOnce(&Live) -> T) -> T {
        let problem = Problem { inputs: self.inputs, ends: &self.ends, entries: &self.entries };
        ask(&problem.at(&self.before))
    }
}

fn with_origins(
    sources: Sources,
    place: Place,
    mut live: SlotSet,
    defined: &SlotSet,
    facts: &super::constants::Facts,
) -> Vec<Carried> {
    let graph = sources.graph;
    let origin = |slot| sources.origin(place, slot, defined, facts);
    let slots: Vec<Slot> = live.iter().collect();
    for slot in slots {
        // The header's validity decides whether the frame has a field, live or not.
        if let Origin::Frame(at) = origin(slot) {
            live.insert_field(graph.program.headers[at.header.index()].valid);
            if !at.is_fixed {
                live.insert(graph.slots.offset(at.header));
            }
        }
    }
    live.iter().map(|slot| (slot, origin(slot))).collect()
}

/// The inputs of the liveness equations.
#[derive(Clone, Copy)]
struct Problem<'s, 'a> {
    inputs: LivenessInputs<'a>,
    ends: &'s Ends,
    entries: &'s Option<[SlotSet; 2]>,
}

impl<'s, 'a> Problem<'s, 'a> {
    fn at(self, before: &'s PerPlace<SlotSet>) -> Live<'s, 'a> {
        Live { problem: self, before }
    }

    /// The places whose liveness is computed from that of a place.
    fn dependents(&self) -> PerPlace<Vec<Place>> {
        let graph = self.inputs.sources.graph;
        let mut dependents = graph.per_place(Vec::new());
        let entries = PipelineHalf::ALL.map(|begin| graph.entry(begin));
        for place in graph.reached() {
            let mut next = self.inputs.constants.successors(place).to_vec();
            next.extend(self.inputs.constants.jumps.of(place).iter().filter_map(|(_, to)| *to));
            if graph.node(place).stmts.iter().any(|stmt| matches!(stmt.op, Op::Copy(_))) {
                next.extend(entries.iter().flatten());
            }
            next.sort_unstable();
            next.dedup();
            next.iter().for_each(|&next| dependents[next].push(place));
        }
        dependents
    }
}

/// Liveness inside nodes, from liveness before places.
struct Live<'s, 'a> {
    problem: Problem<'s, 'a>,
    before: &'s PerPlace<SlotSet>,
}

impl<'s, 'a> Live<'s, 'a> {
    fn graph(&self) -> &'a Graph<'a> {
        self.problem.inputs.sources.graph
    }

    fn inputs(&self) -> LivenessInputs<'a> {
        self.problem.inputs
    }

    fn at_begin(&self, begin: PipelineHalf) -> SlotSet {
        let (graph, inputs) = (self.graph(), self.inputs());
        if let Some(entries) = self.problem.entries {
            return entries[begin as usize].clone();
        }
        match graph.entry(begin) {
            // Copies inherit the offsets of headers from which a stage reloads fields.
            Some(place) if graph.has_copies(begin) => {
                let (live, set) = (self.before[place].clone(), inputs.defined.before(place));
                let facts = inputs.constants.before(place);
                let mut all = graph.slots.none();
                let carried = with_origins(inputs.sources, place, live, set, &facts);
                carried.into_iter().for_each(|(slot, _)| all.insert(slot));
                all
            }
            Some(place) => self.before[place].clone(),
            None => {
                let mut live = graph.slots.none();
                graph.program.egress_port.iter().for_each(|f| live.insert_field(*f));
                live
            }
        }
    }

    /// Walks back from the end of a place and reports the live slots after each statement.
    fn before_statements(&self, place: Place, after: &mut dyn FnMut(usize, &SlotSet)) -> SlotSet {
        let (graph, inputs) = (self.graph(), self.inputs());
        let mut live = match self.problem.ends.get(&(place, At::Lookup)) {
            Some(stored) => stored.clone(),
            None => self.after(place),
        };
        let Some(plan) = &inputs.nodes.of_place[place] else { return live };
        plan.reads.add_to(graph, &mut live);
        let changed = LazyCell::new(|| inputs.defined.changed_at_end(graph, inputs.deparsers, place));
        for (i, stmt) in graph.node(place).stmts.iter().enumerate().rev() {
            after(i, &live);
            let plan = &plan.stmts[i];
            if let Some(Sum::Kept(slot)) = plan.sum.as_ref().and_then(|sum| sum.related.as_ref()) {
                live.remove(*slot);
            }
            let is_changed = |f: FieldId| changed.as_ref().is_none_or(|changed| changed.contains_field(f));
            self.through(place, &stmt.op, plan, &is_changed, &mut live);
        }
        live
    }

    /// The slots that are live after the terminator of a place has read its operands; for a table, after its lookup.
    fn after(&self, place: Place) -> SlotSet {
        match self.problem.ends.get(&(place, At::Action)) {
            Some(stored) => stored.clone(),
            None => self.before_actions(place),
        }
    }

    /// Like [`Self::after`], but for a table before its action runs.
    fn before_actions(&self, place: Place) -> SlotSet {
        let (graph, inputs) = (self.graph(), self.inputs());
        let mut live = graph.slots.none();
        let node = graph.node(place);
        match &node.terminator {
            Terminator::Apply { table, .. } => {
                let applies = inputs.nodes.applies.get(&place).into_iter();
                for action in applies.flat_map(|apply| apply.actions.values()) {
                    live.union(&self.before_action(place, action));
                }
                // A group without members runs no action.
                if graph.program.tables[table.index()].profile.is_some() {
                    self.add_before(inputs.constants.successors(place), &mut live);
                }
                apply_sets(&node.terminator, &mut |f| live.remove_field(f));
                inputs.memos.row_slot(graph, place).into_iter().for_each(|slot| live.remove(slot));
            }
            terminator => {
                self.add_before(inputs.constants.successors(place), &mut live);
                if matches!(terminator, Terminator::Return | Terminator::Reject(_) | Terminator::Egress) {
                    let mode = inputs.deparsers.mode_at(graph, place);
                    if matches!(mode, Some(Mode::Checked | Mode::Scratch)) {
                        live.insert(graph.slots.cursor());
                    }
                    if graph.after(place).is_none() {
                        graph.program.egress_port.iter().for_each(|f| live.insert_field(*f));
                    }
                }
            }
        }
        live
    }

    fn add_before(&self, places: &[Place], live: &mut SlotSet) {
        for &place in places {
            live.union(self.problem.ends.get(&(place, At::Place)).unwrap_or(&self.before[place]));
        }
    }

    fn before_action(&self, place: Place, plan: &ActionPlan) -> SlotSet {
        let graph = self.graph();
        let action = &graph.program.actions[plan.action.index()];
        let mut live = graph.slots.none();
        self.add_before(plan.next.as_slice(), &mut live);
        self.add_before(plan.exit.flatten().as_slice(), &mut live);
        let (nodes, plans) = (&action.body.nodes, &plan.nodes);
        if let ([node], [plan]) = (&nodes[..], &plans[..]) {
            plan.reads.add_to(graph, &mut live);
            for (stmt, plan) in node.stmts.iter().zip(&plan.stmts).rev() {
                self.through(place, &stmt.op, plan, &|_| true, &mut live);
            }
        } else {
            for (node, plan) in nodes.iter().zip(plans) {
                plan.reads.add_to(graph, &mut live);
                for (stmt, plan) in node.stmts.iter().zip(&plan.stmts) {
                    // A slot that an action sets on only one of its paths stays live before it.
                    let mut before = live.clone();
                    self.through(place, &stmt.op, plan, &|_| true, &mut before);
                    live.union(&before);
                }
            }
        }
        action.params.iter().for_each(|p| live.remove_field(*p));
        live
    }

    fn through_copy(&self, place: Place, copy: &PacketCopy, live: &mut SlotSet) {
        let graph = self.graph();
        let mut kept = self.at_begin(copy.begin);
        kept.intersect(self.inputs().inherited.at(copy.begin));
        copy_sets(copy, &mut |f| kept.remove_field(f));
        kept.iter().filter(|&slot| keeps(graph, place, copy, slot)).for_each(|slot| live.insert(slot));
        if keeps_cursor(copy) {
            live.insert(graph.slots.cursor());
        }
    }

    /// Turns the slots that are live after a statement into those live before it. `is_changed`: true for the emitted fields that may
    /// differ from the frame.
    fn through(
        &self,
        place: Place,
        op: &Op,
        plan: &Statement,
        is_changed: &dyn Fn(FieldId) -> bool,
        live: &mut SlotSet,
    ) {
        let (graph, inputs) = (self.graph(), self.inputs());
        let slots = graph.slots;
        match op {
            Op::Set { .. } if plan.op.of(op).is_none() => {}
            Op::Set { dest, .. } | Op::Lookahead { dest } => live.remove_field(*dest),
            Op::Extern { function, outs, .. } => {
                outs.iter().for_each(|f| live.remove_field(*f));
                if function.reads_payload() {
                    live.insert(slots.cursor());
                }
            }
            Op::Extract { header, .. } => {
                let h = &graph.program.headers[header.index()];
                live.remove_field(h.valid);
                for f in &h.fields {
                    live.remove_field(f.field);
                    f.varbit_length.iter().for_each(|l| live.remove_field(*l));
                }
                live.remove(slots.offset(*header));
            }
            // The other elements keep their values.
            Op::SetElement { .. } | Op::ExtractElement { .. } => {}
            Op::Advance { .. } => {}
            Op::Truncate { .. } => live.insert(slots.cursor()),
            Op::Copy(copy) => self.through_copy(place, copy, live),
            Op::Emit { header } => {
                let h = &graph.program.headers[header.index()];
                let in_place = inputs.deparsers.mode_at(graph, place) == Some(Mode::InPlace);
                let is_set = |f: &FieldId| is_changed(*f) && inputs.written.contains(*f);
                // The deparser leaves the header unchanged.
                if in_place && !h.fields.iter().any(|f| is_set(&f.field)) {
                    return;
                }
                live.insert_field(h.valid);
                if !in_place || inputs.extracts.fixed_offset[header.index()].is_none() {
                    live.insert(slots.offset(*header));
                }
                for f in &h.fields {
                    if is_set(&f.field) || inputs.written.has_varbit_of(graph, *header) {
                        live.insert_field(f.field);
                    }
                    f.varbit_length.iter().for_each(|l| live.insert_field(*l));
                }
            }
        }
        if op.may_reject() {
            live.insert(slots.cursor());
            // A parser error leads to one of these places too; the successors are not distinguished.
            self.add_before(inputs.constants.successors(place), live);
        }
        plan.reads.add_to(graph, live);
    }
}
