//! Changes that packets see completely or not at all.

// Not every test needs all of it.
use crate::common;

use num_bigint::BigUint;
use p4jet_dataplane::{EngineKind, NewPort, RunOptions, Running, Switch};
use p4jet_ir::TableId;
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{Port, PortError, PortStats, Received, Sent};
use p4jet_tables::Action;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Each packet gets two values from two tables, in ingress and in egress.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> first; bit<32> second; }
struct headers { h_t h; }
struct metadata {}
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {} }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    action set(bit<32> value) { hdr.h.first = value; }
    table first { key = { s.ingress_port: exact; } actions = { set; } default_action = set(0); }
    apply { s.egress_spec = 1; first.apply(); }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    action set(bit<32> value) { hdr.h.second = value; }
    table second { key = { s.ingress_port: exact; } actions = { set; } default_action = set(0); }
    apply { second.apply(); }
}
control C(inout headers hdr, inout metadata m) { apply {} }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Packets that were sent, and those of them with two different values.
#[derive(Default)]
struct Seen {
    sent: AtomicU64,
    mixed: AtomicU64,
}

/// A port that always has packets to receive.
struct Endless(Arc<Seen>);

impl Port for Endless {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let room = batch.room();
        (0..room).for_each(|_| batch.push(pool, number, &[0; 64]).expect("there is room"));
        Ok(Received::Packets(room))
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        let mixed = frames.iter().filter(|frame| frame[..4] != frame[4..8]).count();
        self.0.mixed.fetch_add(mixed as u64, Ordering::SeqCst);
        self.0.sent.fetch_add(frames.len() as u64, Ordering::SeqCst);
        Ok(Sent { sent: frames.len(), dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }
}

/// Changes both tables many times, with a pause in between, while packets flow. Returns how many packets were sent, and how
/// many saw half of a change.
fn mixed(engine: EngineKind, threads: Option<usize>, hold: bool) -> (u64, u64) {
    let mut program = common::lower(PROGRAM);
    p4jet_ir::passes::run(&mut program);
    let options = p4jet_dataplane::Options { threads, ..Default::default() };
    let switch = Switch::with_options(program, options, 2).expect("tables and state");
    let options = RunOptions { engine, frame_max: 2048, listener: Arc::new(|_| ()) };
    let running = Running::start(&switch, options).expect("threads");
    let seen = Arc::<Seen>::default();
    let handles = (0..2).map(|_| Box::new(Endless(Arc::clone(&seen))) as Box<dyn Port>).collect();
    running.add_ports(vec![NewPort { number: 1, spec: "endless".into(), handles }]).expect("a port");
    let deadline = Instant::now() + Duration::from_secs(60);
    for value in 1..=20u32 {
        let set = |table| {
            let action = Action { action: 0, data: vec![BigUint::from(value)] };
            switch.table(TableId(table)).set_default(action).expect("the action fits");
        };
        let change = || {
            set(0);
            std::thread::sleep(Duration::from_millis(5));
            set(1);
        };
        match hold {
            true => running.hold_packets(change).expect("the workers answer"),
            false => change(),
        }
        // Packets flow again.
        let sent = seen.sent.load(Ordering::SeqCst);
        while seen.sent.load(Ordering::SeqCst) < sent + 1000 {
            assert!(Instant::now() < deadline, "no packets after change {value}");
            std::thread::yield_now();
        }
    }
    running.finish().expect("it stops");
    (seen.sent.load(Ordering::SeqCst), seen.mixed.load(Ordering::SeqCst))
}

#[test]
fn no_packet_sees_half_of_a_change_that_holds_packets() {
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let (sent, half) = mixed(engine, None, true);
        assert!(sent > 20_000 && half == 0, "{engine:?}: {half} of {sent}");
    }
    let (sent, half) = mixed(EngineKind::Jit, Some(2), true);
    assert!(sent > 20_000 && half == 0, "pipelined: {half} of {sent}");
}

#[test]
fn packets_see_half_of_a_change_that_does_not_hold_them() {
    let (sent, half) = mixed(EngineKind::Jit, None, false);
    assert!(half > 0, "0 of {sent}");
}

#[test]
fn a_hold_ends_if_its_change_panics() {
    let switch = Switch::new(common::lower(PROGRAM)).expect("tables and state");
    let options = RunOptions { engine: EngineKind::Interp, frame_max: 2048, listener: Arc::new(|_| ()) };
    let running = Running::start(&switch, options).expect("a thread");
    let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        running.hold_packets(|| panic!("the change fails"))
    }));
    assert!(held.is_err());
    running.responds().expect("the worker continues");
    running.hold_packets(|| ()).expect("another change is possible");
    running.finish().expect("it stops");
}
