//! Many copies of many packets, on both engines.

use crate::common::group::set_group;
use crate::common::lower;
use p4jet_dataplane::{COPIES_WAITING_MAX, EngineKind, LEFT_MAX, NewPort, RunOptions, Running, Switch};
use p4jet_externs::Replica;
use p4jet_ir::{DropReason, Program};
use p4jet_packet::{BATCH_MAX, Batch};
use p4jet_ports::{MemoryPort, share};
use std::sync::Arc;
use std::time::{Duration, Instant};

const FRAME: [u8; 64] = [7; 64];

/// A program that replicates each packet to group 1. Egress runs `egress`.
fn multicast(egress: &str) -> Program {
    multicast_after("", egress)
}

/// Like [`multicast`]; ingress runs `ingress`.
fn multicast_after(ingress: &str, egress: &str) -> Program {
    lower(&format!(
        r#"
#include <core.p4>
#include <v1model.p4>
struct headers {{}}
struct metadata {{ bit<32> x; }}
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t s) {{
    state start {{ transition accept; }}
}}
control V(inout headers hdr, inout metadata m) {{ apply {{}} }}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{
    apply {{ {ingress} s.mcast_grp = 1; }}
}}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{ apply {{ {egress} }} }}
control C(inout headers hdr, inout metadata m) {{ apply {{}} }}
control D(packet_out b, in headers hdr) {{ apply {{}} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#
    ))
}

/// A switch whose group 1 has this many replicas.
fn switch(program: Program, replicas: u32) -> Arc<Switch> {
    let switch = Switch::new(program).expect("tables and state");
    let replica = |replication_id| Replica { port: 1 + replication_id % 100, replication_id };
    set_group(switch.state(), 1, (0..replicas).map(replica));
    switch
}

/// Runs a full batch and its copies. Returns the number of copies that ran, and those that were refused.
fn run_batch(engine: EngineKind, replicas: u32) -> (usize, Vec<(DropReason, u64)>) {
    let mut worker = switch(multicast(""), replicas).worker(engine, 0).expect("an engine");
    let mut pool = worker.pool(BATCH_MAX, 2048).expect("memory");
    let mut batch = Batch::new();
    for _ in 0..BATCH_MAX {
        batch.push(&mut pool, 0, &FRAME).expect("there is room");
    }
    worker.process(&mut pool, &mut batch);
    let mut ran = 0;
    while worker.process_copies(&mut pool, &mut batch) {
        ran += batch.len();
    }
    (ran, worker.take_refused().into_iter().filter(|(_, refused)| *refused > 0).collect())
}

#[test]
fn each_packet_of_a_batch_has_its_own_limit_of_copies() {
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        assert_eq!(run_batch(engine, 100), (64 * 100, Vec::new()), "{engine:?}");
        assert_eq!(run_batch(engine, 1000), (64 * 1000, Vec::new()), "{engine:?}");
    }
}

#[test]
fn the_copies_that_wait_in_a_worker_are_limited() {
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let (ran, refused) = run_batch(engine, 1100);
        assert_eq!(ran, COPIES_WAITING_MAX, "{engine:?}");
        assert_eq!(refused, [(DropReason::CopiesFull, 64 * 1100 - ran as u64)], "{engine:?}");
        let (ran, refused) = run_batch(engine, 4200);
        assert_eq!(ran, COPIES_WAITING_MAX, "{engine:?}");
        let too_many = (DropReason::TooManyCopies, 64 * (4200 - 4096));
        assert_eq!(refused, [too_many, (DropReason::CopiesFull, 64 * 4096 - ran as u64)], "{engine:?}");
    }
}

/// The worker carries out commands while copies that take seconds wait, and so does a new program.
#[test]
fn a_worker_answers_between_copies() {
    let loops = "for (bit<32> i in 32w1..32w900) { m.x = m.x * 3 + i; if (m.x == 5) { m.x = 6; } }";
    let switch = switch(multicast(loops), 4000);
    let options = RunOptions { engine: EngineKind::Interp, frame_max: 2048, listener: Arc::new(|_| ()) };
    let running = Running::start(&switch, options).expect("a thread");
    let ports = (1..=100).map(|number| {
        let (port, _) = MemoryPort::new();
        NewPort { number, spec: "mem".to_string(), handles: share(Box::new(port), 1) }
    });
    running.add_ports(ports.collect()).expect("ports");
    running.inject(1, FRAME.to_vec()).expect("there is room");
    let stats = running.stats();
    assert!(stats.waiting > 3000, "the answer came before the copies ended: {stats:?}");
    // They run to their end beside another program.
    let next = running.prepare(multicast(""), &Default::default()).expect("it compiles");
    running.reload_prepared(next).expect("the worker answers");
    let stats = running.stats();
    assert!(stats.waiting > 2000, "the change came before the copies ended: {stats:?}");
    let deadline = Instant::now() + Duration::from_secs(120);
    while running.stats().waiting > 0 {
        assert!(Instant::now() < deadline, "{:?}", running.stats());
        std::thread::sleep(Duration::from_millis(10));
    }
    let stats = running.stats();
    assert_eq!((stats.copies, stats.sent.values().sum::<u64>()), (4000, 4000), "{stats:?}");
    running.finish().expect("it stops");
}

/// A caller that injects a packet learns of all its copies.
#[test]
fn all_that_an_injected_packet_becomes_is_reported() {
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let egress = "if (s.egress_rid % 4 == 3) { mark_to_drop(s); }";
        let switch = switch(multicast(egress), 2000);
        let options = RunOptions { engine, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start(&switch, options).expect("a thread");
        let (port, _) = MemoryPort::new();
        let handles = share(Box::new(port), 1);
        running.add_ports(vec![NewPort { number: 1, spec: "mem".to_string(), handles }]).expect("a port");
        let inject = |wait| running.inject_and_wait(1, FRAME.to_vec(), wait).expect("there is room");
        let injected = inject(Duration::from_secs(60));
        assert_eq!(injected.left.len(), LEFT_MAX, "{engine:?}");
        let to = |i: usize| 1 + (i / 3 * 4 + i % 3) as u32 % 100;
        let expected: Vec<_> = (0..LEFT_MAX).map(|i| (to(i), 64)).collect();
        assert_eq!(injected.left, expected, "{engine:?}");
        assert_eq!(injected.more + LEFT_MAX as u64, 1500, "{engine:?}");
        assert_eq!(
            injected.dropped.values().collect::<Vec<_>>(),
            [&500],
            "{engine:?}: {:?}",
            injected.dropped
        );
        assert!(!injected.waits, "{engine:?}");
        assert!(inject(Duration::ZERO).waits);
        running.finish().expect("it stops");
    }
}

/// Packets that each hold the interpreter for long do not hold it together.
#[test]
fn a_worker_answers_between_packets() {
    let loops = "for (bit<32> i in 32w1..32w900) { m.x = m.x * 3 + i; if (m.x == 5) { m.x = 6; } }";
    let switch = switch(multicast_after(&loops.repeat(8), ""), 1);
    let options = RunOptions { engine: EngineKind::Interp, frame_max: 2048, listener: Arc::new(|_| ()) };
    let running = Running::start(&switch, options).expect("a thread");
    let (port, handle) = MemoryPort::new();
    (0..BATCH_MAX).for_each(|_| handle.put(&FRAME));
    let handles = share(Box::new(port), 1);
    running.add_ports(vec![NewPort { number: 1, spec: "mem".to_string(), handles }]).expect("a port");
    let deadline = Instant::now() + Duration::from_secs(120);
    let first = loop {
        let received = running.stats().received;
        assert!(Instant::now() < deadline);
        if received > 0 {
            break received;
        }
    };
    assert!(first < BATCH_MAX as u64, "all packets were processed before the worker answered");
    running.finish().expect("it stops");
}
