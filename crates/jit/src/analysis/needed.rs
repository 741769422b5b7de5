//! Needed fields: those whose value some code reads. The others get no storage.

use super::written::Written;
use crate::graph::Graph;
use crate::slots::SlotSet;
use p4jet_ir::{FieldId, FieldKind, Op, Terminator};

/// Finds the needed fields.
pub fn needed(graph: &Graph, written: &Written) -> SlotSet {
    let program = graph.program;
    let mut needed = graph.slots.none();
    for node in graph.bodies().iter().flat_map(|body| &body.nodes) {
        for stmt in &node.stmts {
            stmt.op.for_each_expr(&mut |e| e.for_each_field(&mut |f| needed.insert_field(f)));
            if let Op::Emit { header: header_id } = stmt.op {
                let header = &program.headers[header_id.index()];
                needed.insert_field(header.valid);
                for f in &header.fields {
                    if written.contains(f.field) || written.has_varbit_of(graph, header_id) {
                        needed.insert_field(f.field);
                    }
                    f.varbit_length.iter().for_each(|f| needed.insert_field(*f));
                }
            }
        }
        node.terminator.for_each_expr(&mut |e| e.for_each_field(&mut |f| needed.insert_field(f)));
        if let Terminator::Turn { .. } = node.terminator {
            program.turns.iter().for_each(|f| needed.insert_field(*f));
        }
    }
    program.egress_port.iter().chain(&program.drop_place).for_each(|f| needed.insert_field(*f));
    // Whether the frame has a field depends on the header's validity.
    let validity = |f: FieldId| match program.fields[f.index()].kind {
        FieldKind::Header(h) => Some(program.headers[h.index()].valid),
        _ => None,
    };
    let fields = needed.iter().filter_map(|slot| graph.slots.as_field(slot));
    let validities: Vec<FieldId> = fields.filter_map(validity).collect();
    validities.into_iter().for_each(|f| needed.insert_field(f));
    needed
}
