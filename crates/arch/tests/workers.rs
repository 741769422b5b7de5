//! Several workers of one switch.

use p4jet_dataplane::{EngineKind, Switch, WORKERS_MAX};

// Not every test needs all of it.
#[allow(dead_code)]
mod common;

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> key; }
struct headers { h_t h; }
struct metadata {}
parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { s.egress_spec = 1; } }
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out b, in headers h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

fn switch(workers: usize) -> Result<std::sync::Arc<Switch>, String> {
    Switch::with_options(common::lower(PROGRAM), Default::default(), workers)
}

#[test]
fn a_worker_is_had_by_one_at_a_time() {
    let switch = switch(2).unwrap();
    assert_eq!(switch.workers(), 2);
    for engine in [EngineKind::Jit, EngineKind::Interp] {
        let mut first = switch.worker(engine, 0).unwrap();
        let mut second = switch.worker(EngineKind::Jit, 1).unwrap();
        assert_eq!(first.process_one(0, &[1; 14]), second.process_one(0, &[1; 14]));
        let error = |index| switch.worker(engine, index).err().unwrap();
        assert_eq!(error(0), "worker 0: it runs already");
        assert_eq!(error(1), "worker 1: it runs already");
        assert_eq!(error(2), "worker 2: the switch has workers 0 to 1");
        assert_eq!(switch.measured_worker(1).err().unwrap(), "worker 1: it runs already");
        drop(first);
        assert!(switch.worker(engine, 0).is_ok());
    }
    assert!(switch.measured_worker(1).is_ok());
}

#[test]
fn a_switch_has_room_for_at_least_one_worker() {
    for wrong in [0, WORKERS_MAX + 1, usize::MAX] {
        assert_eq!(switch(wrong).err().unwrap(), format!("{wrong} workers: expected 1 to {WORKERS_MAX}"));
    }
}
