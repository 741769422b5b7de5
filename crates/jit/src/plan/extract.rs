//! The fields that an extraction loads: those that are live after it. A load that nothing uses would stay in the code.

use super::Home;
use crate::analysis::liveness::Liveness;
use crate::analysis::reads::Nodes;
use crate::graph::{Graph, StatementSite};
use crate::slots::{Slot, SlotSet};
use cranelift_codegen::entity::SecondaryMap;
use p4jet_ir::{FieldId, HeaderId, Op};
use std::collections::HashMap;

/// Slots times statements of a place beyond which all needed fields are loaded instead of those that are live.
const LIVE_AFTER_BITS_MAX: usize = 1 << 27;

/// The fields that each extraction loads.
pub type Loads = HashMap<StatementSite, Box<[bool]>>;

/// Decides which fields extractions load.
pub fn loads(graph: &Graph, nodes: &Nodes, live: &Liveness, homes: &SecondaryMap<Slot, Home>) -> Loads {
    let mut loads = HashMap::new();
    for place in graph.reached() {
        let Some(plan) = &nodes.of_place[place] else { continue };
        let stmts = &graph.node(place).stmts;
        if !stmts.iter().any(|stmt| stmt.op.may_reject()) {
            continue;
        }
        let is_worth_it = stmts.len().saturating_mul(graph.slots.count()) <= LIVE_AFTER_BITS_MAX;
        let live = if is_worth_it { live.after_statements(place) } else { Vec::new() };
        for (number, (stmt, plan)) in stmts.iter().zip(&plan.stmts).enumerate() {
            let headers: &[HeaderId] = match plan.op.of(&stmt.op) {
                Some(Op::Extract { header, .. }) => std::slice::from_ref(header),
                Some(Op::ExtractElement { headers, .. }) => headers,
                _ => continue,
            };
            loads.insert(
                StatementSite::new(place, number),
                of_headers(graph, headers, live.get(number), homes),
            );
        }
    }
    loads
}

fn of_headers(
    graph: &Graph,
    headers: &[HeaderId],
    live: Option<&SlotSet>,
    homes: &SecondaryMap<Slot, Home>,
) -> Box<[bool]> {
    let is_used = |field: FieldId| {
        let slot = graph.slots.field(field);
        live.is_none_or(|live| live.contains(slot)) && homes[slot] != Home::Nowhere
    };
    let fields = |header: &HeaderId| &graph.program.headers[header.index()].fields;
    let Some(first) = headers.first() else { return Box::default() };
    (0..fields(first).len()).map(|n| headers.iter().any(|h| is_used(fields(h)[n].field))).collect()
}
