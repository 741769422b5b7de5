//! The cuts of the pipeline into stages, the reason of each, and the work that prepares the next stage there.

use super::shapes::Shapes;
use crate::analysis::liveness::At;
use crate::analysis::uncut::Uncut;
use crate::graph::{Graph, Place};
use cranelift_codegen::entity::entity_impl;
use p4jet_ir::{TableId, Terminator};
use p4jet_tables::Structure;

/// A stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StageId(u32);
entity_impl!(StageId, "stage");

/// A cut, in the order of the stages that begin there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CutId(u32);
entity_impl!(CutId, "cut");

impl CutId {
    /// The stage that begins at the cut.
    pub fn stage(self) -> StageId {
        StageId(self.0 + 1)
    }
}

/// The boundary between two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The place of the cut.
    pub place: Place,
    /// The part of the place after the cut.
    pub at: At,
    /// Why the pipeline is cut.
    pub reason: Reason,
    /// The work that prepares the next stage.
    pub preparation: Preparation,
}

/// Why the pipeline is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A block, or the part of another thread, begins.
    Stop,
    /// Stages are measured one by one.
    Measured,
    /// The table is large: its lookup misses the caches or takes long.
    LargeTable,
    /// Whether a route is in a group is hard to predict, so the code that depends on it waits for the lookups of the other
    /// packets.
    Routes,
    /// The row or the member that the lookup leads to is probably not in the caches.
    FarRows,
}

/// The work at a cut that prepares the next stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// No work.
    Nothing,
    /// Each packet prefetches memory when its stage ends.
    Prefetch(Prefetch),
    /// The engine works for all waiting packets at once before the next stage runs.
    Batch(BatchWork),
}

/// The memory that a packet prefetches at a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// The memory that the lookup touches first.
    Lookup(TableId),
    /// The row that the lookup found, and its direct counters.
    Row(TableId),
}

/// Work for all packets that wait at a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchWork {
    /// [`p4jet_tables::View::lookup_batch`] looks up all keys.
    Lookup(TableId),
    /// [`p4jet_tables::select_batch`] selects a member for each row.
    Select(TableId),
}

/// Cuts at every table whose lookup touches memory that prefetching helps, and at those where looking up the keys of all packets at
/// once helps; after the lookup of large tables of routes; and where the graph stops. If `everywhere`, before and after every lookup.
pub fn cuts(graph: &Graph, shapes: &Shapes, uncut: &Uncut, everywhere: bool) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for place in graph.reached().filter(|&place| !graph.is_in_cycle(place)) {
        // Where the part of another thread begins, the order was checked before.
        if graph.stops_at(place) && !(everywhere && uncut.is_uncut(place, At::Place)) {
            cuts.push(Cut { place, at: At::Place, reason: Reason::Stop, preparation: Preparation::Nothing });
        }
        if let Terminator::Apply { table, .. } = graph.node(place).terminator
            && !uncut.is_uncut(place, At::Lookup)
        {
            let measured = everywhere.then_some(Reason::Measured);
            let large = shapes.is_large(table).then_some(Reason::LargeTable);
            let preparation = before_lookup(shapes, table);
            cuts.extend(large.or(measured).map(|reason| Cut { place, at: At::Lookup, reason, preparation }));
            let preparation = before_actions(graph, shapes, table);
            let reason = after_lookup(graph, shapes, table).or(measured);
            cuts.extend(reason.map(|reason| Cut { place, at: At::Action, reason, preparation }));
        }
    }
    cuts
}

/// The preparation of a lookup after a cut: prefetching one address does not help tries and decision trees.
fn before_lookup(shapes: &Shapes, table: TableId) -> Preparation {
    match shapes.structure(table) {
        Structure::Generic => Preparation::Batch(BatchWork::Lookup(table)),
        _ if shapes.is_large(table) => Preparation::Prefetch(Prefetch::Lookup(table)),
        _ => Preparation::Nothing,
    }
}

/// The preparation of actions after a cut.
fn before_actions(graph: &Graph, shapes: &Shapes, table: TableId) -> Preparation {
    if graph.program.tables[table.index()].profile.is_some() {
        Preparation::Batch(BatchWork::Select(table))
    } else if shapes.has_far_rows(graph.program, table) {
        Preparation::Prefetch(Prefetch::Row(table))
    } else {
        Preparation::Nothing
    }
}

fn after_lookup(graph: &Graph, shapes: &Shapes, table: TableId) -> Option<Reason> {
    if shapes.has_far_rows(graph.program, table) {
        return Some(Reason::FarRows);
    }
    let is_routes = shapes.structure(table) == Structure::Lpm32 && shapes.is_large(table);
    is_routes.then_some(Reason::Routes)
}
