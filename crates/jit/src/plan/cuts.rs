//! Where the pipeline is cut into stages, and why.

use super::shapes::Shapes;
use crate::analysis::liveness::At;
use crate::graph::{Graph, Place};
use crate::solver::PerPlace;
use p4jet_ir::{TableId, Terminator};
use p4jet_tables::Structure;

/// Where one stage ends and another begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// At a lookup, after the statements and the key.
    pub place: Place,
    /// What comes after the cut.
    pub at: At,
    /// Why the pipeline is cut.
    pub reason: Reason,
}

/// Why the pipeline is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A block, or the part of another thread, begins.
    Stop,
    /// Stages are measured one by one.
    Measured,
    /// The lookup touches memory that is prefetched.
    Prefetch,
    /// The keys of all waiting packets are looked up in one call.
    Batch,
    /// Whether a route is in a group is hard to predict: what depends on it waits for the lookups of the other packets.
    Routes,
    /// What the lookup leads to is prefetched, or selected for all waiting packets at once.
    FarRows,
}

/// Cuts at every table whose lookup touches memory that prefetching helps, and at those where looking up the keys of all packets at
/// once helps; after the lookup of large tables of routes; and where the graph stops. If `everywhere`, before and after every lookup.
pub fn cuts(graph: &Graph, shapes: &Shapes, uncut: &PerPlace<bool>, everywhere: bool) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for place in graph.reached().filter(|&place| !graph.is_in_cycle(place)) {
        if graph.stops_at(place) {
            cuts.push(Cut { place, at: At::Place, reason: Reason::Stop });
        }
        if let Terminator::Apply { table, .. } = graph.node(place).terminator
            && !uncut[place]
        {
            let lookup = before_lookup(shapes, table).or(everywhere.then_some(Reason::Measured));
            cuts.extend(lookup.map(|reason| Cut { place, at: At::Lookup, reason }));
            let action = after_lookup(graph, shapes, table).or(everywhere.then_some(Reason::Measured));
            cuts.extend(action.map(|reason| Cut { place, at: At::Action, reason }));
        }
    }
    cuts
}

fn before_lookup(shapes: &Shapes, table: TableId) -> Option<Reason> {
    let reason = match shapes.structure(table) {
        Structure::Generic => Reason::Batch,
        _ => Reason::Prefetch,
    };
    shapes.is_large(table).then_some(reason)
}

fn after_lookup(graph: &Graph, shapes: &Shapes, table: TableId) -> Option<Reason> {
    if shapes.has_far_rows(graph.program, table) {
        return Some(Reason::FarRows);
    }
    let is_routes = shapes.structure(table) == Structure::Lpm32 && shapes.is_large(table);
    is_routes.then_some(Reason::Routes)
}
