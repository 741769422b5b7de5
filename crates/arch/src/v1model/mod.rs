//! v1model, with the semantics of bmv2's `simple_switch`.
//!
//! ```text
//! ingress: parser, VerifyChecksum, Ingress, traffic manager (clone, resubmit, multicast, drop, which port)
//! egress:  Egress, clone, drop, ComputeChecksum, Deparser, truncate, recirculate
//! ```
//!
//! The blocks' `hdr`, `meta` and `standard_metadata` parameters share one storage, which cannot be distinguished from
//! copies between two blocks.

mod externs;
mod manager;
mod memory;
mod pipeline;
mod standard;

use p4jet_analysis::typed;
use p4jet_ir as ir;
use p4jet_lower::{Architecture, ExternCall, Lowered, Lowerer, ObjectId, Property, Value};

/// simple_switch's default `--drop-port`, the largest 9-bit port.
pub const DROP_PORT: u32 = (1 << 9) - 1;

/// The v1model architecture.
#[derive(Clone, Copy, Debug)]
pub struct V1Model;

impl Architecture for V1Model {
    fn name(&self) -> &'static str {
        "v1model"
    }

    fn recognises(&self, program: &typed::Program) -> bool {
        crate::main_package(program) == Some(("V1Switch", 6))
    }

    fn pipeline(&self, cx: &mut Lowerer<'_>, main: ObjectId) -> Lowered<()> {
        // Direct counters count every hit of their table, with or without `count()`: a call elsewhere has no effect.
        crate::direct::check(cx, &["meters"]);
        pipeline::build(cx, main)
    }

    fn construct(&self, cx: &mut Lowerer<'_>, object: ObjectId) -> Lowered<()> {
        externs::construct(cx, object)
    }

    fn call(&self, cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
        externs::call(cx, call)
    }

    fn table_property(&self, cx: &mut Lowerer<'_>, table: ir::TableId, property: &Property) -> Lowered<()> {
        externs::table_property(cx, table, property)
    }

    fn select_member(&self, cx: &mut Lowerer<'_>, profile: ObjectId, keys: Vec<Value>) -> Lowered<ir::Expr> {
        externs::select_member(cx, profile, keys)
    }

    fn has_empty_group_actions(&self) -> bool {
        false
    }
}
