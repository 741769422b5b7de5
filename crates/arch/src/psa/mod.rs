//! PSA, the Portable Switch Architecture, version 1.2.
//!
//! ```text
//! ingress: defaults, IngressParser, Ingress, drop?, IngressDeparser, replication (clone, drop, resubmit, multicast, unicast)
//! egress:  EgressParser, Egress, EgressDeparser, queueing (clone, drop, recirculate)
//! ```
//!
//! Where the specification leaves a choice, p4jet follows bmv2's `psa_switch`. The ingress deparser runs only for packets
//! whose metadata it determines: not for one that is dropped without a clone.

mod externs;
mod pipeline;

use p4jet_analysis::typed;
use p4jet_ir as ir;
use p4jet_lower::{Architecture, ExternCall, Lowered, Lowerer, ObjectId, Property, Value};

/// A packet sent to this port enters ingress again.
pub const PORT_RECIRCULATE: u32 = 0xffff_fffa;

/// The PSA architecture.
#[derive(Clone, Copy, Debug)]
pub struct Psa;

impl Architecture for Psa {
    fn name(&self) -> &'static str {
        "psa"
    }

    fn recognises(&self, program: &typed::Program) -> bool {
        crate::main_package(program) == Some(("PSA_Switch", 4))
    }

    fn pipeline(&self, cx: &mut Lowerer<'_>, main: ObjectId) -> Lowered<()> {
        crate::direct::check(cx, &["psa_direct_counter", "psa_direct_meter"]);
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
        true
    }
}
