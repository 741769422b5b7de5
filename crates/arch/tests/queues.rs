//! Programs with output queues, on both engines, in virtual time.

use crate::common::group::set_group;
use crate::common::{lower, lower_queued};
use p4jet_dataplane::{
    EngineKind, Event, ForwardStats, GENERATIONS_MAX, NewPort, Processed, QueueConfig, QueueSettings,
    RING_DEFAULT, Rate, RunError, RunOptions, Running, Switch, Worker,
};
use p4jet_externs::{Replica, Session};
use p4jet_ir::Program;
use p4jet_ir::turns::COPIES_MAX;
use p4jet_packet::{BATCH_MAX, Batch, PORT_DROP, Pool};
use p4jet_ports::{MemoryPort, Port, PortError, PortStats, Received, Sent, share};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program whose ingress runs `ingress` and then sends to port `h.port` with priority `h.priority`, and whose egress writes
/// the queue metadata to the header and then runs `egress`.
fn v1model(ingress: &str, egress: &str) -> String {
    format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header h_t {{
    bit<8> port; bit<8> priority; bit<16> number;
    bit<32> enq_timestamp; bit<32> enq_qdepth; bit<32> deq_timedelta; bit<32> deq_qdepth; bit<32> egress;
}}
struct headers {{ h_t h; }}
struct metadata {{ @field_list(1) bit<8> kept; }}
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t s) {{
    state start {{ b.extract(hdr.h); transition accept; }}
}}
control V(inout headers hdr, inout metadata m) {{ apply {{}} }}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{
    apply {{ s.egress_spec = (bit<9>) hdr.h.port; s.priority = (bit<3>) hdr.h.priority; {ingress} }}
}}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{
    apply {{
        hdr.h.enq_timestamp = (bit<32>) s.enq_timestamp;
        hdr.h.enq_qdepth = (bit<32>) s.enq_qdepth;
        hdr.h.deq_timedelta = s.deq_timedelta;
        hdr.h.deq_qdepth = (bit<32>) s.deq_qdepth;
        hdr.h.egress = (bit<32>) s.egress_global_timestamp;
        {egress}
    }}
}}
control C(inout headers hdr, inout metadata m) {{ apply {{}} }}
control D(packet_out b, in headers hdr) {{ apply {{ b.emit(hdr.h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#
    )
}

fn frame(port: u8, priority: u8, number: u8) -> Vec<u8> {
    let mut frame = vec![0; 24];
    (frame[0], frame[1], frame[3]) = (port, priority, number);
    frame
}

/// Port, priority, number, enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth, egress timestamp.
type Left = (u32, u8, u8, [u32; 5]);

fn left(sent: &[(u32, Vec<u8>)]) -> Vec<Left> {
    let word = |frame: &[u8], i: usize| u32::from_be_bytes(frame[4 + 4 * i..][..4].try_into().expect("24"));
    let words = |frame: &[u8]| std::array::from_fn(|i| word(frame, i));
    sent.iter().map(|(port, frame)| (*port, frame[1], frame[3], words(frame))).collect()
}

fn switch(
    program: &Program,
    engine: EngineKind,
    config: impl FnOnce(&mut QueueConfig),
    workers: usize,
) -> Arc<Switch> {
    let mut program = program.clone();
    if engine == EngineKind::Jit {
        p4jet_ir::passes::run(&mut program);
    }
    let switch = Switch::with_options(program, Default::default(), workers).expect("tables and state");
    switch.queues().configure(config);
    let to = |port, replication_id| Replica { port, replication_id };
    let replicas = vec![to(2, 0), to(2, 1)];
    let session = Session { replicas, class_of_service: 6, bytes_max: Some(24), ..Session::default() };
    switch.state().change_destinations(|d| d.sessions.set(5, Some(session.into())));
    set_group(switch.state(), 7, [to(1, 1), to(2, 2), to(1, 3)]);
    switch
}

/// Returns what `script` observes, which is the same on both engines.
#[track_caller]
fn both<T: PartialEq + std::fmt::Debug>(
    text: &str,
    config: fn(&mut QueueConfig),
    script: impl Fn(&mut Worker) -> T,
) -> T {
    let program = lower_queued(text);
    assert!(program.is_queued() && !lower(text).is_queued());
    let by = |engine| {
        let mut worker = switch(&program, engine, config, 1).worker(engine, 0).expect("an engine");
        worker.set_time(Some(1000));
        script(&mut worker)
    };
    let found = by(EngineKind::Interp);
    assert_eq!(by(EngineKind::Jit), found, "the machine code (left) and the interpreter");
    found
}

fn run_out(worker: &mut Worker) -> Vec<Left> {
    worker.run_queues_out().iter().flat_map(|(_, processed)| left(&processed.sent)).collect()
}

#[test]
fn packets_learn_how_they_waited() {
    let slow = |config: &mut QueueConfig| {
        config.change(Some(1), |port| port.queues[3].rate = Some(Rate::Packets(10_000)));
    };
    let found = both(&v1model("", ""), slow, |worker| {
        let at_once: Vec<_> = (0..3).map(|i| left(&worker.process_one(0, &frame(1, 3, i)).sent)).collect();
        worker.set_time(Some(1050));
        let late = left(&worker.process_one(0, &frame(1, 3, 3)).sent);
        let other = left(&worker.process_one(0, &frame(1, 2, 4)).sent);
        (at_once, late, other, run_out(worker))
    });
    let (at_once, late, other, queued) = found;
    assert_eq!(at_once, [vec![(1, 3, 0, [1000, 0, 0, 0, 1000])], vec![], vec![]]);
    assert_eq!(late, []);
    assert_eq!(other, [(1, 2, 4, [1050, 0, 0, 0, 1050])]);
    assert_eq!(
        queued,
        [
            (1, 3, 1, [1000, 0, 100, 2, 1100]),
            (1, 3, 2, [1000, 1, 200, 1, 1200]),
            (1, 3, 3, [1050, 2, 250, 0, 1300]),
        ]
    );
}

#[test]
fn without_queues_nothing_waits() {
    let program = lower(&v1model("", ""));
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let switch = switch(&program, engine, |config| config.wanted = true, 1);
        assert!(switch.needs_queues());
        let mut worker = switch.worker(engine, 0).unwrap();
        worker.set_time(Some(77));
        assert_eq!(left(&worker.process_one(0, &frame(1, 3, 5)).sent), [(1, 3, 5, [77, 0, 0, 0, 77])]);
        assert_eq!((worker.next_due(), worker.waiting()), (None, 0));
    }
}

#[test]
fn priorities_are_strict_and_excess_packets_are_dropped() {
    let config = |config: &mut QueueConfig| {
        config.queues_per_port = 4;
        config.change(Some(1), |port| {
            port.rate = Some(Rate::Packets(1000));
            port.queues[0].depth = Some(3);
        });
    };
    let (dropped, order) = both(&v1model("", ""), config, |worker| {
        let mut dropped = Vec::new();
        for i in 0..5 {
            for priority in [0, 3, 1, 4] {
                dropped.extend(worker.process_one(0, &frame(1, priority, i)).dropped);
            }
        }
        let order: Vec<_> = run_out(worker).into_iter().map(|(_, priority, i, _)| (priority, i)).collect();
        (dropped, order)
    });
    let no_queue = "the output queue does not exist (its priority is too high, or there are too many ports)";
    let full = "its output queue is full";
    // The very first leaves at once.
    assert_eq!(dropped, [no_queue, no_queue, no_queue, no_queue, full, no_queue]);
    let expected = (0..5).map(|i| (3, i)).chain((0..5).map(|i| (1, i))).chain((1..4).map(|i| (0, i)));
    assert_eq!(order, expected.collect::<Vec<_>>());
}

/// Clones, replicas and recirculated packets wait in the queues of their ports.
#[test]
fn copies_wait_like_others() {
    let config = |config: &mut QueueConfig| {
        config.change(None, |port| port.rate = Some(Rate::Packets(10_000)));
    };
    let ingress = r#"
        if (hdr.h.number == 1) { clone_preserving_field_list(CloneType.I2E, 5, 1); }
        if (hdr.h.number == 2) { s.mcast_grp = 7; }
    "#;
    let egress = r#"
        if (hdr.h.number == 3 && hdr.h.port == 1) { hdr.h.port = 4; recirculate_preserving_field_list(1); }
        if (hdr.h.number == 4 && s.instance_type == 0) { clone_preserving_field_list(CloneType.E2E, 5, 1); }
    "#;
    let found = both(&v1model(ingress, egress), config, |worker| {
        (1..=4)
            .map(|i| (left(&worker.process_one(0, &frame(1, 5, i)).sent), run_out(worker)))
            .collect::<Vec<_>>()
    });
    // An ingress clone has fresh metadata: priority 0.
    let at = |now: u32, waited: u32, before: u32, after: u32| [now - waited, before, waited, after, now];
    assert_eq!(found[0].0, [(2, 5, 1, at(1000, 0, 0, 1)), (1, 5, 1, at(1000, 0, 0, 0))]);
    assert_eq!(found[0].1, [(2, 5, 1, at(1100, 100, 1, 0))]);
    // The clock is at 1100: port 1 may send again, port 2 not yet.
    assert_eq!(found[1].0, [(1, 5, 2, at(1100, 0, 0, 1))]);
    assert_eq!(found[1].1, [(1, 5, 2, at(1200, 100, 1, 0)), (2, 5, 2, at(1200, 100, 0, 0))]);
    // It leaves egress at 1300 for ingress, and does not wait again.
    assert_eq!(found[2], (vec![], vec![(4, 5, 3, at(1300, 0, 0, 0))]));
    assert_eq!(found[3].0, []);
    assert_eq!(
        found[3].1,
        [(1, 5, 4, at(1400, 100, 0, 0)), (2, 5, 4, at(1400, 0, 0, 1)), (2, 5, 4, at(1500, 100, 1, 0))]
    );
}

#[test]
fn endless_recirculation_ends() {
    let text = v1model("", "recirculate_preserving_field_list(1);");
    let config = |config: &mut QueueConfig| config.change(None, |port| port.rate = Some(Rate::Packets(1)));
    for config in [|_: &mut QueueConfig| {}, config] {
        let (dropped, later) = both(&text, config, |worker| {
            let dropped = worker.process_one(0, &frame(1, 0, 0)).dropped;
            let later: Vec<_> = worker.run_queues_out().into_iter().flat_map(|(_, p)| p.dropped).collect();
            (dropped, later)
        });
        let dropped = [dropped, later].concat();
        assert!(dropped[0].contains("one packet led to too many copies"), "{dropped:?}");
        assert_eq!(dropped.len(), 1);
    }
    // In batches: counted with its reason.
    let program = lower_queued(&text);
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let mut worker = switch(&program, engine, |_| {}, 1).worker(engine, 0).unwrap();
        let mut pool = worker.pool(BATCH_MAX, 2048).unwrap();
        let mut batch = Batch::new();
        batch.push(&mut pool, 0, &frame(1, 0, 0)).unwrap();
        worker.process(&mut pool, &mut batch);
        let mut rounds = 0;
        while worker.process_copies(&mut pool, &mut batch) {
            rounds += 1;
            assert!(rounds < COPIES_MAX);
        }
        assert_eq!(rounds, 2 * GENERATIONS_MAX as usize + 1);
        let refused = worker.take_refused();
        assert_eq!(refused.map(|(_, count)| count), [1, 0, 0, 0]);
        assert!(refused[0].0.general_text().contains("too many copies"));
    }
}

/// Three replicas, each of which is recirculated and creates three more: 3, 9, 27 … copies of one packet.
#[test]
fn endless_multiplication_of_packets_ends() {
    let text = v1model("s.mcast_grp = 7;", "recirculate_preserving_field_list(1);");
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        for (program, workers) in [(lower(&text), 1), (lower_queued(&text), 1), (lower_queued(&text), 2)] {
            let switch = switch(&program, engine, |_| {}, workers);
            let mut workers: Vec<Worker> = (0..workers).map(|i| switch.worker(engine, i).unwrap()).collect();
            let mut pools: Vec<_> = workers.iter().map(|w| w.pool(BATCH_MAX, 2048).unwrap()).collect();
            let mut batch = Batch::new();
            // Each packet may create as many.
            for _ in 0..2 {
                batch.clear();
                batch.push(&mut pools[0], 0, &frame(1, 0, 0)).unwrap();
                workers[0].process(&mut pools[0], &mut batch);
                let (mut copies, mut goes_on) = (0, true);
                while goes_on {
                    goes_on = false;
                    for (worker, pool) in workers.iter_mut().zip(&mut pools) {
                        while worker.process_copies(pool, &mut batch) {
                            copies += batch.len();
                            goes_on = true;
                            assert!(copies <= COPIES_MAX);
                        }
                    }
                }
                // A copy handed to another worker takes only part of the budget along.
                assert!(copies == COPIES_MAX || (workers.len() > 1 && copies > 500), "{copies}");
                let refused: u64 = workers.iter_mut().map(|worker| worker.take_refused()[0].1).sum();
                assert!(refused > 0);
                assert!(workers.iter().all(|worker| worker.next_due().is_none()));
            }
        }
    }
}

#[test]
fn psa_queues_by_class_of_service() {
    let text = r#"
#include <core.p4>
#include <psa.p4>
header h_t { bit<8> port; bit<8> class; bit<8> got; bit<8> instance; bit<32> time; }
struct headers { h_t h; }
struct user {}
struct none {}
parser IP(packet_in b, out headers hdr, inout user u, in psa_ingress_parser_input_metadata_t i, in none a, in none c) {
    state start { b.extract(hdr.h); transition accept; }
}
control IG(inout headers hdr, inout user u, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {
    apply {
        send_to_port(o, (PortId_t) (PortIdUint_t) (bit<32>) hdr.h.port);
        o.class_of_service = (ClassOfService_t) (ClassOfServiceUint_t) hdr.h.class;
        if (hdr.h.port == 9) { o.clone = true; o.clone_session_id = (CloneSessionId_t) 5; }
        if (hdr.h.port == 8) { multicast(o, (MulticastGroup_t) 7); }
    }
}
control ID(packet_out b, out none c, out none r, out none n, inout headers hdr, in user u,
           in psa_ingress_output_metadata_t i) { apply { b.emit(hdr.h); } }
parser EP(packet_in b, out headers hdr, inout user u, in psa_egress_parser_input_metadata_t i, in none n, in none x,
          in none y) { state start { b.extract(hdr.h); transition accept; } }
control EG(inout headers hdr, inout user u, in psa_egress_input_metadata_t i, inout psa_egress_output_metadata_t o) {
    apply {
        hdr.h.got = (bit<8>) (ClassOfServiceUint_t) i.class_of_service;
        hdr.h.instance = (bit<8>) (EgressInstanceUint_t) i.instance;
        hdr.h.time = (bit<32>) (TimestampUint_t) i.egress_timestamp;
    }
}
control ED(packet_out b, out none c, out none r, inout headers hdr, in user u, in psa_egress_output_metadata_t i,
           in psa_egress_deparser_input_metadata_t e) { apply { b.emit(hdr.h); } }
IngressPipeline(IP(), IG(), ID()) ip;
EgressPipeline(EP(), EG(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
"#;
    let config = |config: &mut QueueConfig| {
        config.change(None, |port| port.rate = Some(Rate::Packets(10_000)));
    };
    let found = both(text, config, |worker| {
        let mut all = Vec::new();
        for (port, class) in [(2, 0), (2, 1), (2, 200), (9, 2), (8, 3)] {
            all.extend(worker.process_one(3, &[port, class, 0, 0, 0, 0, 0, 0]).sent);
        }
        all.extend(worker.run_queues_out().into_iter().flat_map(|(_, p)| p.sent));
        let word = |frame: &[u8]| u32::from_be_bytes(frame[4..8].try_into().expect("8"));
        all.iter().map(|(port, f)| (word(f), *port, [f[0], f[1], f[2], f[3]])).collect::<Vec<_>>()
    });
    let of_port =
        |port| found.iter().filter(|(_, p, _)| *p == port).map(|(t, _, f)| (*t, *f)).collect::<Vec<_>>();
    // The session's copies have its class, 6; copies with a class above 7 wait in queue 7.
    assert_eq!(
        of_port(2),
        [
            (1000, [2, 0, 0, 0]),
            (1100, [2, 200, 200, 0]),
            (1200, [9, 2, 6, 0]),
            (1300, [9, 2, 6, 1]),
            (1400, [8, 3, 3, 2]),
            (1500, [2, 1, 1, 0]),
        ]
    );
    assert_eq!(of_port(9), [(1000, [9, 2, 2, 0])]);
    assert_eq!(of_port(1), [(1000, [8, 3, 3, 1]), (1100, [8, 3, 3, 3])]);
}

/// Batches of two workers: each port's packets leave by one of them, in order, and none is lost.
#[test]
fn two_workers_share_the_ports() {
    let program = lower_queued(&v1model("", ""));
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let switch = switch(&program, engine, |_| {}, 2);
        let mut workers: Vec<Worker> = (0..2).map(|i| switch.worker(engine, i).unwrap()).collect();
        let mut pools: Vec<_> = workers.iter().map(|w| w.pool(BATCH_MAX, 2048).unwrap()).collect();
        let mut batch = Batch::new();
        let mut sent = vec![Vec::new(); 2];
        for round in 0..20u8 {
            for (index, worker) in workers.iter_mut().enumerate() {
                let pool = &mut pools[index];
                batch.clear();
                for i in 0..4 {
                    batch.push(pool, 0, &frame(i, 0, round)).unwrap();
                }
                worker.process(pool, &mut batch);
                assert!(batch.packets().iter().all(|p| p.egress_port == PORT_DROP), "they wait");
            }
            for (index, worker) in workers.iter_mut().enumerate() {
                assert!(!worker.prepare_sleep() && worker.next_due().is_some());
                while worker.process_copies(&mut pools[index], &mut batch) {
                    for packet in batch.packets() {
                        sent[index].push((packet.egress_port, pools[index].frame(packet)[3]));
                    }
                }
                assert!(worker.prepare_sleep() && worker.next_due().is_none());
            }
        }
        for (index, sent) in sent.iter().enumerate() {
            assert_eq!(sent.len(), 80);
            for port in 0..4 {
                let rounds: Vec<u8> = sent.iter().filter(|(p, _)| *p == port).map(|(_, r)| *r).collect();
                let served = port as usize % 2 == index;
                assert_eq!(rounds.len(), if served { 40 } else { 0 });
                assert!(rounds.is_sorted(), "port {port}: {rounds:?}");
            }
        }
    }
}

#[test]
fn traces_show_queues() {
    let program = lower_queued(&v1model("s.mcast_grp = 7;", ""));
    let config = |config: &mut QueueConfig| {
        config.change(None, |port| {
            port.rate = Some(Rate::Packets(10_000));
            port.queues[0] = QueueSettings { depth: Some(1), ..QueueSettings::default() };
        });
    };
    let switch = switch(&program, EngineKind::Interp, config, 1);
    let (trace, processed): (_, Processed) = switch.trace(0, &frame(1, 0, 0)).unwrap();
    assert_eq!(processed.sent.len(), 2);
    assert_eq!(processed.dropped, ["its output queue is full"]);
    let text = trace.render(&program);
    for line in [
        "the copy enters queue 0 of port 1",
        "the copy does not enter queue 0 of port 1: its output queue is full",
        "a copy of 24 bytes begins at egress: it leaves queue 0 of port 2 after 0 us; 0 packets were there when it came, 0 are now",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
}

/// A port that receives `frames` once and counts what is sent.
struct Counting {
    frames: Vec<Vec<u8>>,
    sent: Arc<AtomicU64>,
}

impl Port for Counting {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let count = self.frames.len().min(batch.room());
        self.frames.drain(..count).for_each(|frame| batch.push(pool, number, &frame).unwrap());
        Ok(if count > 0 { Received::Packets(count) } else { Received::Empty })
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        self.sent.fetch_add(frames.len() as u64, Ordering::SeqCst);
        Ok(Sent { sent: frames.len(), dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }
}

/// A port that never receives, like a capture that was read to its end; it counts what is sent.
struct Ended {
    sent: Arc<AtomicU64>,
}

impl Port for Ended {
    fn receive(&mut self, _: u32, _: &mut Pool, _: &mut Batch) -> Result<Received, PortError> {
        Ok(Received::End)
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        self.sent.fetch_add(frames.len() as u64, Ordering::SeqCst);
        Ok(Sent { sent: frames.len(), dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }
}

/// 400 packets in slow queues of two ports.
struct Slow {
    switch: Arc<Switch>,
    running: Running,
    sent: Arc<AtomicU64>,
    deadline: Instant,
}

impl Slow {
    /// The first worker receives all of them at once, as soon as possible. Each port sends `rate` packets a second.
    fn start(program: &Program, workers: usize, rate: u64) -> Slow {
        Slow::start_within(program, workers, rate, None)
    }

    /// Like [`start`], with the interpreter if machine code takes longer.
    fn start_within(program: &Program, workers: usize, rate: u64, wait: Option<Duration>) -> Slow {
        let slow = |config: &mut QueueConfig| {
            config.change(None, |port| {
                port.rate = Some(Rate::Packets(rate));
                port.queues[0].depth = Some(1000);
            });
        };
        let switch = switch(program, EngineKind::Jit, slow, workers);
        let options = RunOptions { engine: EngineKind::Jit, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start_within(&switch, options, RING_DEFAULT, wait).unwrap();
        let sent = Arc::new(AtomicU64::new(0));
        Slow { switch, running, sent, deadline: Instant::now() + Duration::from_secs(20) }
    }

    fn add_ports(&self) {
        let port = |number: u32| {
            let handle = |worker: usize| -> Box<dyn Port> {
                let count = if number == 1 && worker == 0 { 400 } else { 0 };
                let frames = (0..count).map(|i| frame(1 + i as u8 % 2, 0, i as u8)).collect();
                Box::new(Counting { frames, sent: Arc::clone(&self.sent) })
            };
            let handles = (0..self.running.workers()).map(handle).collect();
            NewPort { number, spec: "counting".to_string(), handles }
        };
        self.running.add_ports(vec![port(1), port(2)]).unwrap();
    }

    fn wait_for(&self, what: &str, count: impl Fn() -> u64) {
        while count() < 400 {
            assert!(Instant::now() < self.deadline, "{} of 400 {what}", count());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn enqueued(&self) -> u64 {
        self.switch.queues().stats().values().map(|queues| queues[0].enqueued).sum()
    }

    fn wait_until_queued(&self) {
        self.wait_for("in queues", || self.enqueued());
    }

    /// Lets all waiting packets leave at once, and ends.
    fn hurry(self) {
        self.switch.queues().configure(|config| {
            config.change(None, |port| port.rate = Some(Rate::Packets(10_000)));
        });
        self.wait_until_sent();
    }

    fn wait_until_sent(self) {
        self.wait_for("sent", || self.sent.load(Ordering::SeqCst));
        let stats = self.running.stats();
        assert_eq!((stats.received, stats.copies, stats.done), (400, 400, 400));
        self.running.finish().unwrap();
    }
}

/// Returns the change that ingress makes to a packet's number, in a program that takes long to compile.
fn long(ifs: u32) -> (String, u16) {
    let (mut text, mut number) = (String::new(), 0u16);
    for i in 0..ifs {
        text += &format!(
            "if (hdr.h.number & 1 == {}) {{ hdr.h.number = hdr.h.number + {}; }}\n",
            i & 1,
            2 * i + 1
        );
        if u32::from(number & 1) == i & 1 {
            number = number.wrapping_add((2 * i + 1) as u16);
        }
    }
    (text, number)
}

/// Packets do not wait for the machine code of a large program.
///
/// On a busy machine the compiler may be done before the worker runs for the first time, so the test tries again.
#[test]
fn the_interpreter_forwards_until_there_is_machine_code() {
    assert!(
        (0..20).any(|_| forwards_while_compiling()),
        "no packet came through before there was machine code"
    );
}

/// Starts a switch with a large program and sends packets until machine code runs. Returns whether the interpreter forwarded any.
fn forwards_while_compiling() -> bool {
    let (text, number) = long(6000);
    let mut program = lower(&v1model(&text, ""));
    p4jet_ir::passes::run(&mut program);
    let switch = Switch::new(program).unwrap();
    let events: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let sender = Arc::clone(&events);
    let listener = move |event: Event<'_>| {
        sender.lock().unwrap().push(match event {
            Event::Interpreting => "interpreter",
            Event::MachineCode(_) => "machine code",
            Event::NoMachineCode(why) => panic!("{why}"),
            _ => "something else",
        });
    };
    let options = RunOptions { engine: EngineKind::Jit, frame_max: 2048, listener: Arc::new(listener) };
    let running = Running::start_within(&switch, options, RING_DEFAULT, Some(Duration::ZERO)).unwrap();
    let (port, handle) = MemoryPort::new();
    let handles: Vec<Box<dyn Port>> = vec![Box::new(port)];
    running.add_ports(vec![NewPort { number: 1, spec: "memory".to_string(), handles }]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let (mut put, mut got) = (0, 0);
    let mut interpreted = false;
    while events.lock().unwrap().len() < 2 || put < 2000 {
        assert!(Instant::now() < deadline, "{got} of {put} packets, {:?}", events.lock().unwrap());
        if put < got + 64 {
            handle.put(&frame(1, 0, 0));
            put += 1;
        }
        for frame in handle.take() {
            assert_eq!(u16::from_be_bytes([frame[2], frame[3]]), number);
            got += 1;
        }
        interpreted |= got > 0 && running.is_interpreting();
    }
    while got < put {
        assert!(Instant::now() < deadline, "{got} of {put} packets");
        got += handle.take().len();
    }
    assert_eq!(*events.lock().unwrap(), ["interpreter", "machine code"]);
    let stats = running.stats();
    assert_eq!((stats.received, stats.sent[&1]), (put as u64, put as u64));
    running.finish().unwrap();
    interpreted
}

/// Packets that the interpreter has put into queues leave them when machine code runs.
#[test]
fn waiting_packets_remain_when_machine_code_is_ready() {
    // Packets wait for more than a minute, until the test raises the queues' rates.
    let program = lower_queued(&v1model(&long(6000).0, ""));
    // On a busy machine, the worker may start only after the compilation has finished. Then there was nothing to see.
    let interpreted = (0..20).find_map(|_| {
        let mut slow = Slow::start_within(&program, 1, 3, Some(Duration::ZERO));
        slow.deadline = Instant::now() + Duration::from_secs(120);
        slow.add_ports();
        while slow.enqueued() == 0 {
            assert!(Instant::now() < slow.deadline, "no packet was queued");
            std::thread::yield_now();
        }
        if !slow.running.is_interpreting() {
            slow.hurry();
            return None;
        }
        Some(slow)
    });
    let slow = interpreted
        .expect("in 20 attempts, machine code was always ready before the first packet was queued");
    while slow.running.is_interpreting() {
        assert!(Instant::now() < slow.deadline, "machine code comes");
        std::thread::sleep(Duration::from_millis(1));
    }
    slow.wait_until_queued();
    let sent = slow.sent.load(Ordering::SeqCst);
    assert!(sent < 400, "{sent} of 400 packets sent when machine code came: none waited");
    slow.hurry();
}

/// A packet injected after all captures ended must leave its queue before the switch ends.
#[test]
fn packets_injected_after_the_end_are_awaited() {
    let slow = Slow::start(&lower_queued(&v1model("", "")), 1, 10);
    let handles: Vec<Box<dyn Port>> = vec![Box::new(Ended { sent: Arc::clone(&slow.sent) })];
    slow.running.add_ports(vec![NewPort { number: 1, spec: "ended".to_string(), handles }]).unwrap();
    while !slow.running.has_ended() {
        assert!(Instant::now() < slow.deadline, "it ends");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The second waits for a tenth of a second.
    (0..2).for_each(|i| slow.running.inject(1, frame(1, 0, i)).unwrap());
    while !slow.running.has_ended() {
        assert!(Instant::now() < slow.deadline, "it ends again");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(slow.sent.load(Ordering::SeqCst), 2);
    slow.running.finish().unwrap();
}

/// Packets that wait when another program is loaded leave in time; none is lost, on either worker.
#[test]
fn a_reload_loses_no_waiting_packets() {
    let program = lower_queued(&v1model("", ""));
    for workers in [1, 2] {
        let slow = Slow::start(&program, workers, 500);
        slow.add_ports();
        slow.wait_until_queued();
        let mut other = program.clone();
        p4jet_ir::passes::run(&mut other);
        let (new, _) = slow.running.reload(other).unwrap();
        assert_eq!(new.queues().config(), slow.switch.queues().config());
        slow.wait_until_sent();
    }
}

/// A program is not replaced while packets of many earlier ones wait: each keeps its buffers, code and queues.
#[test]
fn the_number_of_earlier_programs_is_bounded() {
    let program = lower_queued(&v1model("", ""));
    for workers in [1, 2] {
        // No packet leaves a queue while another one waits there.
        let config = |config: &mut QueueConfig| config.change(None, |port| port.rate = Some(Rate::Bits(1)));
        let switch = switch(&program, EngineKind::Jit, config, workers);
        let options = RunOptions { engine: EngineKind::Jit, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start(&switch, options).unwrap();
        let (port, _handle) = MemoryPort::new();
        let handles = share(Box::new(port), workers);
        running.add_ports(vec![NewPort { number: 1, spec: "memory".into(), handles }]).unwrap();
        let mut reloads = 0;
        let refused = loop {
            (0..2).for_each(|i| running.inject(1, frame(1, 0, i)).unwrap());
            match running.reload(program.clone()) {
                Ok(_) => reloads += 1,
                Err(error) => break error,
            }
            assert!(reloads < 50, "the number is not bounded");
        };
        let RunError::PacketsWait(text) = refused else { panic!("{refused}") };
        assert!(text.starts_with("packets of 16 earlier programs wait: port 1 queue 0 ("), "{text}");
        assert_eq!(reloads, 16, "{workers} workers");
        switch.queues().configure(|config| config.change(None, |port| port.rate = None));
        let deadline = Instant::now() + Duration::from_secs(60);
        while running.reload(program.clone()).is_err() {
            assert!(Instant::now() < deadline, "the packets leave");
            std::thread::sleep(Duration::from_millis(1));
        }
        running.finish().unwrap();
    }
}

/// Packets of an earlier program that wait are not lost, either.
#[test]
fn two_reloads_lose_no_waiting_packets() {
    let program = lower_queued(&v1model("", ""));
    for workers in [1, 2] {
        // Two seconds.
        let slow = Slow::start(&program, workers, 100);
        slow.add_ports();
        slow.wait_until_queued();
        let reload = || drop(slow.running.reload(program.clone()).unwrap());
        reload();
        let (port, handle) = MemoryPort::new();
        let handles = share(Box::new(port), workers);
        slow.running.add_ports(vec![NewPort { number: 3, spec: "memory".to_string(), handles }]).unwrap();
        (0..20).for_each(|i| handle.put(&frame(1 + i % 2, 0, i)));
        slow.wait_for("received", || slow.running.stats().received.saturating_sub(20));
        reload();
        slow.wait_for("sent", || slow.sent.load(Ordering::SeqCst).saturating_sub(20));
        slow.running.finish().unwrap();
    }
}

/// A delayed worker does not lose packets that others hand over to it meanwhile.
#[test]
fn no_port_receives_before_all_workers_have_it() {
    let program = lower_queued(&v1model("", ""));
    let slow = Slow::start(&program, 2, 500);
    let holds = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let held = Arc::clone(&holds);
        scope.spawn(|| {
            slow.running.ask(move |f| {
                if f.worker().index() == 1 {
                    held.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(200));
                }
            })
        });
        while !holds.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        slow.add_ports();
    });
    slow.wait_until_sent();
}

/// Packets received after another program was loaded wait behind earlier ones for the same port.
#[test]
fn a_reload_keeps_the_order() {
    const EACH: u8 = 120;
    let program = lower_queued(&v1model("", ""));
    for workers in [1, 2] {
        let slow = |config: &mut QueueConfig| {
            config.change(None, |port| {
                port.rate = Some(Rate::Packets(100));
                port.queues[0].depth = Some(1000);
            });
        };
        let switch = switch(&program, EngineKind::Jit, slow, workers);
        let options = RunOptions { engine: EngineKind::Jit, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start(&switch, options).unwrap();
        let (ports, handles): (Vec<_>, Vec<_>) = (1..=2)
            .map(|number| {
                let (port, handle) = MemoryPort::new();
                let handles = share(Box::new(port), workers);
                (NewPort { number, spec: "memory".to_string(), handles }, handle)
            })
            .unzip();
        running.add_ports(ports).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let wait = |what: &dyn Fn() -> bool| {
            while !what() {
                assert!(Instant::now() < deadline, "in time");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let put = |numbers: std::ops::Range<u8>| {
            numbers.for_each(|n| (1..=2).for_each(|port| handles[0].put(&frame(port, 0, n))));
        };
        let enqueued = || -> u64 { switch.queues().stats().values().map(|queues| queues[0].enqueued).sum() };
        put(0..EACH / 2);
        wait(&|| enqueued() == u64::from(EACH));
        let mut other = program.clone();
        p4jet_ir::passes::run(&mut other);
        running.reload(other).unwrap();
        put(EACH / 2..EACH);
        let mut sent = [Vec::new(), Vec::new()];
        while sent.iter().any(|sent| sent.len() < EACH.into()) {
            assert!(Instant::now() < deadline, "{sent:?}");
            std::thread::sleep(Duration::from_millis(1));
            for (sent, handle) in sent.iter_mut().zip(&handles) {
                sent.extend(handle.take().iter().map(|frame| frame[3]));
            }
        }
        for sent in sent {
            assert!(sent.is_sorted(), "{workers} workers: {sent:?}");
        }
        running.finish().unwrap();
    }
}

/// Flows of numbered packets, each received by one worker: the sending port checks their order.
#[derive(Default)]
struct Flows {
    /// Number of packets received and sent, by worker.
    came: [AtomicU64; FLOW_WORKERS],
    left: [AtomicU64; FLOW_WORKERS],
    /// The number of the next packet, by worker and port.
    next: Mutex<[[u64; FLOW_PORTS]; FLOW_WORKERS]>,
    wrong: Mutex<Vec<String>>,
    stop: AtomicBool,
}

const FLOW_WORKERS: usize = 3;
const FLOW_PORTS: usize = 2;
/// Maximum number of packets of a worker in flight, far fewer than a queue holds.
const FLOW_WINDOW: u64 = 100;

/// A worker's handle of a port.
struct FlowPort {
    flows: Arc<Flows>,
    worker: usize,
    brings: bool,
}

impl Port for FlowPort {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let Flows { came, left, stop, .. } = &*self.flows;
        let (came, left) = (&came[self.worker], &left[self.worker]);
        while self.brings && !stop.load(Ordering::SeqCst) && !batch.is_full() {
            let n = came.load(Ordering::SeqCst);
            if n >= left.load(Ordering::SeqCst) + FLOW_WINDOW {
                break;
            }
            let port = n as usize % FLOW_PORTS;
            let mut bytes = frame(1 + port as u8, 0, 0);
            bytes.extend((n / FLOW_PORTS as u64).to_be_bytes());
            bytes.extend([self.worker as u8, port as u8]);
            batch.push(pool, number, &bytes).expect("it fits");
            came.store(n + 1, Ordering::SeqCst);
        }
        Ok(if batch.is_empty() { Received::Empty } else { Received::Packets(batch.len()) })
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        let mut next = self.flows.next.lock().unwrap();
        for frame in frames {
            let number = u64::from_be_bytes(frame[24..32].try_into().expect("8"));
            let (worker, port) = (frame[32] as usize, frame[33] as usize);
            let expected = &mut next[worker][port];
            if number != *expected {
                let wrong = format!("{number} instead of {expected}, worker {worker}, port {port}");
                self.flows.wrong.lock().unwrap().push(wrong);
            }
            *expected = number + 1;
            self.flows.left[worker].fetch_add(1, Ordering::SeqCst);
        }
        Ok(Sent { sent: frames.len(), dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }
}

#[track_caller]
fn assert_balanced(stats: &ForwardStats) {
    let sum = |counts: &std::collections::BTreeMap<u32, u64>| counts.values().sum::<u64>();
    let dropped: u64 = stats.dropped.values().sum();
    let no_port = sum(&stats.no_port) + stats.no_port_others;
    let went = stats.done + sum(&stats.sent) + dropped + no_port + stats.not_sent + stats.waiting;
    assert_eq!(stats.received + stats.copies, went, "{stats:?}");
}

/// Makes a thread end, even if the thread that waits for it panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Programs are replaced while packets flow through slow queues: each flow keeps its order, nothing is lost, and at any time
/// every packet is accounted for.
fn reloads_beside_traffic(
    engine: EngineKind,
    workers: usize,
    reloads: usize,
    egress: &str,
    in_order: bool,
    rate: u64,
) {
    let what = format!("{engine:?}, {workers} workers, {rate} packets a second");
    let programs = ["", "hdr.h.egress = 7;"].map(|more| {
        let mut program = lower_queued(&v1model("", &format!("{more} {egress}")));
        if engine == EngineKind::Jit {
            p4jet_ir::passes::run(&mut program);
        }
        program
    });
    let slow = move |config: &mut QueueConfig| {
        config.change(None, |port| {
            port.rate = Some(Rate::Packets(rate));
            port.queues[0].depth = Some(4000);
            port.queues[1].depth = Some(4000);
        });
    };
    let switch = Switch::with_options(programs[0].clone(), Default::default(), workers).expect("a switch");
    switch.queues().configure(slow);
    let options = RunOptions { engine, frame_max: 2048, listener: Arc::new(|_| ()) };
    let running = Running::start(&switch, options).unwrap();
    let flows = Arc::new(Flows::default());
    let port = |number: u32| {
        let handle = |worker: usize| -> Box<dyn Port> {
            Box::new(FlowPort { flows: Arc::clone(&flows), worker, brings: number == 3 })
        };
        NewPort { number, spec: "flows".to_string(), handles: (0..workers).map(handle).collect() }
    };
    running.add_ports((1..=3).map(port).collect()).unwrap();
    let ended = AtomicBool::new(false);
    // All samples, and those taken while packets waited.
    let (samples, waited) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        let sampler = scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                let stats = running.stats();
                assert_balanced(&stats);
                samples.fetch_add(1, Ordering::SeqCst);
                waited.fetch_add(u64::from(stats.waiting > 0), Ordering::SeqCst);
            }
        });
        let count = |counts: &[AtomicU64]| counts.iter().map(|n| n.load(Ordering::SeqCst)).sum::<u64>();
        // At least the requested number, and until there are enough samples and packets: a busy machine takes few.
        let enough = || {
            samples.load(Ordering::SeqCst) > 50
                && waited.load(Ordering::SeqCst) > 10
                && count(&flows.came) > 1000
        };
        let deadline = Instant::now() + Duration::from_secs(120);
        for number in 0.. {
            if number >= reloads && (enough() || sampler.is_finished()) {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "{what}: {samples:?} samples, {waited:?} while packets waited"
            );
            // Some programs are loaded while packets of several earlier ones still wait, up to the maximum.
            while let Err(error) = running.reload(programs[(number + 1) % 2].clone()) {
                assert!(matches!(error, RunError::PacketsWait(_)), "{what}: {error}");
                assert!(Instant::now() < deadline, "{what}: {error}");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis([0, 1, 5][number % 3]));
        }
        flows.stop.store(true, Ordering::SeqCst);
        let deadline = Instant::now() + Duration::from_secs(60);
        while running.stats().waiting > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        ended.store(true, Ordering::SeqCst);
        let sampled = sampler.join();
        let (came, left) = (count(&flows.came), count(&flows.left));
        let stats = running.stats();
        assert_eq!((left, stats.waiting), (came, 0), "{what}: {stats:?}");
        assert_eq!(stats.received, came, "{what}");
        assert!(came > 1000, "{what}: {came} packets");
        let wrong = flows.wrong.lock().unwrap();
        assert!(
            !in_order || wrong.is_empty(),
            "{what}: {} of {came} out of order: {:?}",
            wrong.len(),
            &wrong[..wrong.len().min(5)]
        );
        sampled.expect("it balances");
    });
    running.finish().unwrap();
    assert_balanced(&running.stats());
}

#[test]
fn a_reload_beside_traffic_keeps_the_order() {
    for workers in 1..=FLOW_WORKERS {
        reloads_beside_traffic(EngineKind::Interp, workers, 100, "", true, 20_000);
    }
    reloads_beside_traffic(EngineKind::Jit, 2, 20, "", true, 20_000);
}

/// Packets of as many earlier programs as may wait do so at the same time.
#[test]
fn many_reloads_beside_packets_that_wait_keep_the_order() {
    reloads_beside_traffic(EngineKind::Interp, 2, 300, "", true, 1_000);
    reloads_beside_traffic(EngineKind::Interp, 3, 150, "", true, 300);
    reloads_beside_traffic(EngineKind::Jit, 1, 60, "", true, 3_000);
}

/// Each packet is recirculated once, so that workers of earlier programs hand packets over to each other.
#[test]
fn a_reload_loses_no_recirculated_packets() {
    let round = "if (hdr.h.priority == 0) { hdr.h.priority = 1; recirculate_preserving_field_list(1); }";
    for workers in [1, 3] {
        reloads_beside_traffic(EngineKind::Interp, workers, 60, round, false, 20_000);
    }
}

/// A packet that passes a queue is one packet, not a copy.
#[test]
fn packets_that_pass_queues_are_not_copies() {
    let program = lower_queued(&v1model("if (hdr.h.priority == 1) { clone(CloneType.I2E, 32w5); }", ""));
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let switch = switch(&program, engine, |_| (), 1);
        let options = RunOptions { engine, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start(&switch, options).unwrap();
        let (ports, _handles): (Vec<_>, Vec<_>) = (1..=2)
            .map(|number| {
                let (port, handle) = MemoryPort::new();
                (NewPort { number, spec: "memory".into(), handles: share(Box::new(port), 1) }, handle)
            })
            .unzip();
        running.add_ports(ports).unwrap();
        for priority in [0, 0, 1] {
            running.inject_and_wait(1, frame(1, priority, 0), Duration::from_secs(60)).unwrap();
        }
        let stats = running.stats();
        // The clone has two replicas, which pass a queue like every packet.
        let copied = (stats.copies - stats.queued, stats.done - stats.queued);
        assert_eq!((stats.received, stats.queued, copied), (3, 5, (2, 0)), "{engine:?}: {stats:?}");
        assert_balanced(&stats);
        running.finish().unwrap();
    }
}

/// An injected packet is followed through the queues, also those of another worker; the wait is bounded.
#[test]
fn an_injected_packet_is_followed_through_queues() {
    let program = lower_queued(&v1model("", ""));
    for workers in [1, 2] {
        let slow = |config: &mut QueueConfig| {
            config.change(Some(3), |port| port.rate = Some(Rate::Packets(1)));
            config.change(Some(3), |port| port.queues[0].depth = Some(1));
        };
        let switch = switch(&program, EngineKind::Jit, slow, workers);
        let options = RunOptions { engine: EngineKind::Jit, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start(&switch, options).unwrap();
        let (port, _handle) = MemoryPort::new();
        let handles = share(Box::new(port), workers);
        running.add_ports(vec![NewPort { number: 1, spec: "memory".into(), handles }]).unwrap();
        let inject =
            |port, ms| running.inject_and_wait(1, frame(port, 0, 0), Duration::from_millis(ms)).unwrap();
        for port in [1, 2, 3] {
            let injected = inject(port, 60_000);
            assert_eq!(
                (injected.left, injected.waits),
                (vec![(port.into(), 24)], false),
                "{workers} workers"
            );
        }
        let waits = inject(3, 5);
        assert!(waits.left.is_empty() && waits.dropped.is_empty() && waits.waits, "{workers}: {waits:?}");
        let full = inject(3, 60_000);
        assert_eq!(full.dropped.values().collect::<Vec<_>>(), [&1], "{workers}: {full:?}");
        assert!(full.left.is_empty() && !full.waits, "{workers}: {full:?}");
        running.finish().unwrap();
    }
}

/// A trace that ends before all packets have left their queues says so.
#[test]
fn a_trace_that_ends_early_says_so() {
    let program = lower_queued(&v1model("s.mcast_grp = 9;", "clone(CloneType.E2E, 32w5);"));
    let slow = |config: &mut QueueConfig| {
        config.change(None, |port| {
            port.rate = Some(Rate::Packets(1000));
            (0..8).for_each(|queue| port.queues[queue].depth = Some(10_000));
        });
    };
    let switch = switch(&program, EngineKind::Interp, slow, 1);
    let count = |replicas: u32| {
        let copies = (0..replicas).map(|replication_id| Replica { port: 1, replication_id });
        set_group(switch.state(), 9, copies);
        switch.state().change_destinations(|d| d.sessions.set(5, None));
        let (trace, _) = switch.trace(0, &frame(1, 0, 0)).unwrap();
        trace.events.iter().filter(|event| matches!(event, p4jet_dataplane::TraceEvent::Ends { .. })).count()
    };
    assert_eq!(count(10), 0);
    assert_eq!(count(4096), 1);
}
