//! Several workers of one switch.

use checker::{Look, Timeline, check};
use num_bigint::BigUint;
use p4jet_dataplane::{EngineKind, ProgramError, Switch, WORKERS_MAX};
use p4jet_externs::Rate;
use p4jet_ir::TableId;
use p4jet_packet::Batch;
use p4jet_tables::{Action, Entry, EntryHandle, KeyMatch, TableError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[path = "../../tables/tests/history/checker.rs"]
mod checker;
// Not every test needs all of it.
use crate::common;

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

fn switch(workers: usize) -> Result<std::sync::Arc<Switch>, ProgramError> {
    Switch::with_options(common::lower(PROGRAM), Default::default(), workers)
}

#[test]
fn a_worker_has_one_owner_at_a_time() {
    let switch = switch(2).unwrap();
    assert_eq!(switch.workers(), 2);
    for engine in [EngineKind::Jit, EngineKind::Interp] {
        let mut first = switch.worker(engine, 0).unwrap();
        let mut second = switch.worker(EngineKind::Jit, 1).unwrap();
        assert_eq!(first.process_one(0, &[1; 14]), second.process_one(0, &[1; 14]));
        let error = |index| switch.worker(engine, index).err().unwrap().message;
        assert_eq!(error(0), "worker 0: it runs already");
        assert_eq!(error(1), "worker 1: it runs already");
        assert_eq!(error(2), "worker 2: the switch has workers 0 to 1");
        assert_eq!(switch.measured_worker(1).err().unwrap().message, "worker 1: it runs already");
        drop(first);
        assert!(switch.worker(engine, 0).is_ok());
    }
    assert!(switch.measured_worker(1).is_ok());
}

#[test]
fn a_switch_has_room_for_at_least_one_worker() {
    for wrong in [0, WORKERS_MAX + 1, usize::MAX] {
        assert_eq!(
            switch(wrong).err().unwrap().message,
            format!("{wrong} workers: expected 1 to {WORKERS_MAX}")
        );
    }
}

/// Registers in which packets count: by an action of a table, by one called from the control, in an atomic block with a branch
/// and a table, consecutively without any of those, and in cells selected by a hash.
const COUNTS: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> key; bit<32> flow; }
struct headers { h_t h; }
struct metadata {}
parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    register<bit<32>>(4) small;
    register<bit<48>>(4) middle;
    register<bit<100>>(4) wide;
    register<bit<64>>(16) hashed;
    register<bit<32>>(1) plain;
    register<bit<32>>(1) first;
    register<bit<32>>(1) second;
    register<bit<32>>(1) once;
    counter(2, CounterType.packets_and_bytes) counted;
    action count_small() {
        bit<32> x;
        small.read(x, 1);
        if (h.h.key == 5) { small.write(1, x + 2); } else { small.write(1, x + 1); }
    }
    action count_middle(bit<48> by) { bit<48> x; middle.read(x, 2); middle.write(2, x + by); }
    action count_wide() { bit<100> x; wide.read(x, 3); wide.write(3, x + 0x10000000000000001); }
    table t { key = { h.h.key: exact; } actions = { count_small; count_middle; } default_action = count_middle(1);
              const entries = { 1: count_small(); 5: count_small(); } }
    table u { actions = { count_wide; } default_action = count_wide; }
    // Enough entries for the pipeline to be cut there.
    table large { key = { h.h.flow: exact; } actions = { NoAction; } size = 100000; default_action = NoAction; }
    apply {
        t.apply();
        count_small();
        bit<32> i;
        hash(i, HashAlgorithm.crc32, 32w0, { h.h.flow }, 32w16);
        @atomic {
            bit<64> x;
            hashed.read(x, i);
            u.apply();
            large.apply();
            if (x != 0xffffffff) { hashed.write(i, x + 1); }
        }
        @atomic {
            bit<32> a;
            bit<32> b;
            second.read(b, 0);
            first.read(a, 0);
            first.write(0, b + 1);
            second.write(0, a + 1);
        }
        bit<32> p;
        plain.read(p, 0);
        p = p + 3;
        plain.write(0, p);
        once.write(0, h.h.key);
        counted.count(1);
        s.egress_spec = 1;
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out b, in headers h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Runs `packets` packets with keys 0 to 7 and several flows through each of two workers in their own threads.
fn count_by_two(engines: [EngineKind; 2], packets: u64) {
    let mut program = common::lower(COUNTS);
    p4jet_ir::passes::run(&mut program);
    let switch = Switch::with_options(program, Default::default(), 2).unwrap();
    let start = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for (index, engine) in engines.into_iter().enumerate() {
            let (switch, start) = (&switch, &start);
            scope.spawn(move || {
                let mut worker = switch.worker(engine, index).unwrap();
                let (mut pool, mut batch) = (worker.pool(256, 100).unwrap(), Batch::new());
                start.wait();
                for first in (0..packets).step_by(64) {
                    batch.clear();
                    for n in first..packets.min(first + 64) {
                        let mut frame = [0; 60];
                        frame[3] = (n % 8) as u8;
                        frame[7] = (n % 5) as u8;
                        batch.push(&mut pool, 0, &frame).unwrap();
                    }
                    worker.process(&mut pool, &mut batch);
                    assert!(batch.packets().iter().all(|packet| packet.egress_port == 1));
                }
            });
        }
    });
    let sum = |name: &str, size: u32| -> BigUint {
        let number = switch.program().instances.iter().position(|i| i.name == name).expect(name);
        (0..size).map(|cell| switch.state().register_read(number as u32, cell).unwrap()).sum()
    };
    let counter = switch.program().instances.iter().position(|i| i.name == "I.counted").unwrap();
    let counted = switch.state().counter_read(counter as u32, 1).unwrap();
    assert_eq!((counted.packets, counted.bytes), (2 * packets, 2 * 60 * packets));
    let all = BigUint::from(2 * packets);
    // Called for each packet, and by the table for keys 1 and 5; key 5 counts twice.
    assert_eq!(sum("I.small", 4), &all * 12u32 / 8u32, "an action of a table that the control calls, too");
    assert_eq!(sum("I.middle", 4), &all * 6u32 / 8u32, "an action with data");
    assert_eq!(sum("I.wide", 4), &all * 0x1_0000_0000_0000_0001u128, "an action on a cell of two words");
    assert_eq!(sum("I.hashed", 16), all, "an atomic block");
    assert_eq!(sum("I.first", 1) + sum("I.second", 1), &all * 2u32, "two registers at a time");
    assert_eq!(sum("I.plain", 1), &all * 3u32, "statements one after the other");
}

#[test]
fn registers_count_every_packet_of_two_workers() {
    count_by_two([EngineKind::Jit; 2], 200_000);
}

#[test]
fn registers_count_every_packet_of_interpreters() {
    count_by_two([EngineKind::Interp; 2], 8_000);
    count_by_two([EngineKind::Interp, EngineKind::Jit], 8_000);
}

/// A packet that reads a register, looks up a large table, and then writes the register has done so before the next one reads,
/// even if many packets run in a batch.
#[test]
fn a_register_is_written_before_the_next_packet_reads_it() {
    let declared = "register<bit<32>>(1) r; table large { key = { h.h.key: exact; } actions = { NoAction; }
                    size = 100000; default_action = NoAction; }";
    let text = PROGRAM.replace("{ apply { s.egress_spec = 1; } }", &format!(
        "{{ {declared} apply {{ bit<32> x; r.read(x, 0); large.apply(); r.write(0, x + 1); h.h.key = x; s.egress_spec = 1; }} }}"
    ));
    for engine in [EngineKind::Jit, EngineKind::Interp] {
        let switch = Switch::new(common::lower(&text)).unwrap();
        let mut worker = switch.worker(engine, 0).unwrap();
        let (mut pool, mut batch) = (worker.pool(64, 100).unwrap(), Batch::new());
        (0..64).for_each(|_| batch.push(&mut pool, 0, &[0; 14]).unwrap());
        worker.process(&mut pool, &mut batch);
        let seen = batch.packets().iter().map(|packet| pool.frame(packet)[3]);
        assert!(seen.eq(0..64), "{engine:?}");
    }
}

/// The locks that several workers need do not use up the turns of a loop.
#[test]
fn a_loop_over_registers_suits_several_workers() {
    let text = PROGRAM.replace(
        "{ apply { s.egress_spec = 1; } }",
        "{ register<bit<32>>(64) r; apply { s.egress_spec = 1;
           for (bit<32> i = 0; i < h.h.key; i = i + 1) {
             if (h.h.key == 2) { bit<32> v; r.read(v, 0); r.write(0, v + 1); }
             if (h.h.key == 3) { bit<32> v; r.read(v, 1); r.write(1, v + 1); }
             if (h.h.key == 4) { bit<32> v; r.read(v, 1); r.write(1, v + 1); } } } }",
    );
    for engine in [EngineKind::Jit, EngineKind::Interp] {
        let switch = Switch::with_options(common::lower(&text), Default::default(), 2).unwrap();
        let mut worker = switch.worker(engine, 1).unwrap();
        let mut frame = [0; 14];
        frame[3] = 3;
        assert_eq!(worker.process_one(0, &frame).sent.len(), 1);
        assert_eq!(switch.state().register_read(0, 1).unwrap(), 3u32.into(), "{engine:?}");
    }
}

/// Some packets look up a large table before they access a register, others do not: they still access it in the order in which they
/// came.
#[test]
fn packets_on_different_paths_access_a_register_in_order() {
    let bodies = [
        // A firewall: packets from inside write, packets from outside read.
        "if (h.h.key & 1 == 1) { large.apply(); r.write(0, h.h.key); } else { bit<32> x; r.read(x, 0); h.h.key = x; }",
        // The paths join before the accesses.
        "bit<32> x; if (h.h.key & 1 == 1) { large.apply(); } r.read(x, 0); r.write(0, h.h.key); h.h.key = x;",
        "bit<32> x; if (h.h.key & 1 == 1) { large.apply(); } else { if (h.h.key & 2 == 2) { other.apply(); } }
         r.read(x, 0); r.write(0, h.h.key); h.h.key = x;",
        // Actions write.
        "bit<32> x; if (h.h.key & 1 == 1) { large.apply(); } writes.apply(); r.read(x, 0); h.h.key = x + 1;",
        // All packets pass the lookup first: a stage may end there.
        "bit<32> x; large.apply(); if (h.h.key & 1 == 1) { r.write(0, h.h.key); } r.read(x, 0); h.h.key = x;",
    ];
    let table = |name: &str, action: &str, size: u32| {
        format!(
            "table {name} {{ key = {{ h.h.key: exact; }} actions = {{ {action}; }} size = {size}; default_action = {action}; }}"
        )
    };
    for body in bodies {
        let declared = format!(
            "register<bit<32>>(1) r; action keep() {{ r.write(0, h.h.key); }} {} {} {}",
            table("large", "NoAction", 100_000),
            table("other", "NoAction", 100_000),
            table("writes", "keep", 100_000)
        );
        let apply = format!("{{ {declared} apply {{ {body} s.egress_spec = 1; }} }}");
        let text = PROGRAM.replace("{ apply { s.egress_spec = 1; } }", &apply);
        let [jit, interp] = [EngineKind::Jit, EngineKind::Interp].map(|engine| {
            let switch = Switch::new(common::lower(&text)).unwrap();
            let mut worker = switch.worker(engine, 0).unwrap();
            let (mut pool, mut batch) = (worker.pool(64, 100).unwrap(), Batch::new());
            for packet in 0..64u8 {
                let mut frame = [0; 14];
                frame[3] = packet.wrapping_mul(37);
                batch.push(&mut pool, 0, &frame).unwrap();
            }
            worker.process(&mut pool, &mut batch);
            batch.packets().iter().map(|packet| pool.frame(packet)[..4].to_vec()).collect::<Vec<_>>()
        });
        assert_eq!(jit, interp, "{body}");
    }
}

/// A meter that a packet uses before and after a large table: no stage ends between the two, so that the packets of a batch use
/// it in the order in which they came.
#[test]
fn a_packet_uses_a_meter_twice_before_the_next_one() {
    let declared =
        "meter(1, MeterType.packets) m; table large { key = { h.h.key: exact; } actions = { NoAction; }
                    size = 100000; default_action = NoAction; }";
    let text = PROGRAM.replace("{ apply { s.egress_spec = 1; } }", &format!(
        "{{ {declared} apply {{ bit<32> x; bit<32> y; m.execute_meter(0, x); large.apply(); m.execute_meter(0, y);
            h.h.key = x << 8 | y; s.egress_spec = 1; }} }}"
    ));
    for engine in [EngineKind::Jit, EngineKind::Interp] {
        let switch = Switch::new(common::lower(&text)).unwrap();
        let burst = |burst| Rate { per_us: 0.0, burst };
        switch.state().meter_set_rates(0, 0, Some([burst(0), burst(40)])).unwrap();
        let mut worker = switch.worker(engine, 0).unwrap();
        let (mut pool, mut batch) = (worker.pool(64, 100).unwrap(), Batch::new());
        (0..64).for_each(|_| batch.push(&mut pool, 0, &[0; 14]).unwrap());
        worker.process(&mut pool, &mut batch);
        let seen = batch.packets().iter().map(|packet| pool.frame(packet)[2..4].to_vec());
        // The burst lasts for 20 packets: they are yellow, the others red.
        let expected = (0..64).map(|packet| if packet < 20 { vec![1, 1] } else { vec![2, 2] });
        assert!(seen.eq(expected), "{engine:?}");
    }
}

/// Packets with one key; each table's result is in its own field. The next hop follows from the route alone, so the code
/// caches it.
const LOOKED_UP: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> dst; bit<32> source; bit<32> route; bit<32> hop; bit<32> rule; }
struct headers { h_t h; }
struct metadata { bit<32> hop; }
parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    action set_route(bit<32> is, bit<32> hop) { h.h.route = is; m.hop = hop; }
    action set_hop(bit<32> is) { h.h.hop = is; }
    action set_rule(bit<32> is) { h.h.rule = is; }
    table routes { key = { h.h.dst: lpm; } actions = { set_route; NoAction; } size = 100000; default_action = NoAction; }
    table hops { key = { m.hop: exact; } actions = { set_hop; NoAction; } size = 1024; default_action = NoAction; }
    table rules { key = { h.h.source: ternary; } actions = { set_rule; NoAction; } size = 1024; default_action = NoAction; }
    apply { routes.apply(); hops.apply(); rules.apply(); s.egress_spec = 1; }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out b, in headers h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

const NAMES: [&str; 3] = ["routes", "hops", "rules"];
const KEY: u32 = 0x0a01_0203;
const HOP: u32 = 5;

/// Returns the matching entries of each table, best first.
fn matching(table: usize) -> Vec<(KeyMatch, u32)> {
    let lpm = |prefix_len: u32| KeyMatch::Lpm {
        value: (KEY >> (32 - prefix_len) << (32 - prefix_len)).into(),
        prefix_len,
    };
    let ternary = |bits: u32| {
        let mask = u32::MAX << (32 - bits);
        KeyMatch::Ternary { value: (KEY & mask).into(), mask: mask.into() }
    };
    match table {
        // The last one is always present: each route leads to the hop.
        0 => [32, 24, 20, 8].map(|len| (lpm(len), 0)).into(),
        1 => vec![(KeyMatch::Exact(HOP.into()), 0)],
        _ => (1..6).map(|i| (ternary(4 * i), i)).collect(),
    }
}

enum Change {
    Insert(usize, usize),
    Modify(usize, usize),
    Delete(usize, usize),
    Default(usize),
}

/// Packets of two workers during changes: the result of a lookup was in the table at some moment while the packet was
/// processed.
fn packets_see_one_state(busy: usize, rounds: u64) {
    let mut program = common::lower(LOOKED_UP);
    p4jet_ir::passes::run(&mut program);
    let switch = Switch::with_options(program, Default::default(), 2).unwrap();
    let tables = NAMES.map(|name| {
        let is = |table: &p4jet_ir::Table| table.name == format!("I.{name}");
        TableId(switch.program().tables.iter().position(is).expect(name) as u32)
    });
    let pool_of = [0, 1, 2].map(matching);
    let action = |table: usize, version: usize| {
        let data = [version as u32, HOP].into_iter().take(if table == 0 { 2 } else { 1 });
        Action { action: 0, data: data.map(BigUint::from).collect() }
    };
    let entry = |table: usize, i: usize, version: usize| {
        let (key, priority) = pool_of[table][i].clone();
        Entry { key: vec![key], priority, action: action(table, version) }
    };
    let mut handles: Vec<Vec<Option<EntryHandle>>> =
        pool_of.iter().map(|pool| vec![None; pool.len()]).collect();
    let mut present: Vec<Vec<Option<usize>>> = pool_of.iter().map(|pool| vec![None; pool.len()]).collect();
    let mut defaults = [0; 3];
    handles[0][3] = Some(switch.table(tables[0]).insert(entry(0, 3, 1)).unwrap());
    present[0][3] = Some(1);
    let mut version = 1;
    for round in 0..rounds {
        // The changes of a round, and their results.
        let mut random = round + 1;
        let mut below = |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % end
        };
        let mut timelines = vec![Timeline::default(); 3];
        let mut plan = Vec::new();
        loop {
            for (table, timeline) in timelines.iter_mut().enumerate() {
                let best = present[table].iter().flatten().next();
                timeline.note(plan.len(), *best.unwrap_or(&defaults[table]) as u64);
            }
            if plan.len() == 3000 {
                break;
            }
            version += 1;
            let table = below(3);
            let i = below(present[table].len());
            let stays = table == 0 && i == 3;
            let change = match &mut present[table][i] {
                _ if below(64) == 0 => {
                    // Every second action has no data.
                    defaults[table] = if version % 2 == 0 || table == 0 { 0 } else { version };
                    Change::Default(table)
                }
                Some(_) if !stays && below(2) == 0 => {
                    present[table][i] = None;
                    Change::Delete(table, i)
                }
                Some(is) => {
                    *is = version;
                    Change::Modify(table, i)
                }
                none => {
                    *none = Some(version);
                    Change::Insert(table, i)
                }
            };
            plan.push((change, version));
        }
        let (clock, stop) = (AtomicU64::new(1), AtomicBool::new(false));
        let tick = || clock.fetch_add(1, Ordering::SeqCst);
        let (changes, looks) = std::thread::scope(|scope| {
            let (switch, stop, tick) = (&switch, &stop, &tick);
            for _ in 0..busy {
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let workers: Vec<_> = (0..2)
                .map(|index| {
                    scope.spawn(move || {
                        let mut worker = switch.worker(EngineKind::Jit, index).unwrap();
                        let (mut pool, mut batch) = (worker.pool(64, 100).unwrap(), Batch::new());
                        let mut looks = Vec::new();
                        let mut frame = [0; 60];
                        frame[..4].copy_from_slice(&KEY.to_be_bytes());
                        frame[4..8].copy_from_slice(&KEY.to_be_bytes());
                        while !stop.load(Ordering::Relaxed) && looks.len() < 300_000 {
                            batch.clear();
                            (0..20).for_each(|_| batch.push(&mut pool, 0, &frame).unwrap());
                            let begin = tick();
                            worker.process(&mut pool, &mut batch);
                            let end = tick();
                            for packet in batch.packets().iter().step_by(19) {
                                let frame = pool.frame(packet);
                                looks.extend((0..3).map(|key| {
                                    let at = 8 + 4 * key;
                                    let found = u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
                                    Look { key, begin, end, found: found.into() }
                                }));
                            }
                        }
                        looks
                    })
                })
                .collect();
            let mut changes = Vec::new();
            for (change, version) in &plan {
                let begin = tick();
                let since = Instant::now();
                loop {
                    let done = match *change {
                        Change::Insert(t, i) => switch
                            .table(tables[t])
                            .insert(entry(t, i, *version))
                            .map(|handle| handles[t][i] = Some(handle)),
                        Change::Modify(t, i) => {
                            let handle = handles[t][i].expect("it is there");
                            switch.table(tables[t]).modify(handle, action(t, *version))
                        }
                        Change::Delete(t, i) => {
                            let handle = handles[t][i].expect("it is there");
                            switch.table(tables[t]).delete(handle).map(|_| handles[t][i] = None)
                        }
                        Change::Default(t) if version % 2 == 0 || t == 0 => {
                            switch.table(tables[t]).set_default(Action { action: 1, data: vec![] })
                        }
                        Change::Default(t) => switch.table(tables[t]).set_default(action(t, *version)),
                    };
                    let Err(error) = done else { break };
                    assert_eq!(error, TableError::Busy);
                    assert!(since.elapsed() < Duration::from_secs(60), "packets do not pass");
                }
                changes.push((begin, tick()));
            }
            stop.store(true, Ordering::Relaxed);
            let looks: Vec<Look> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
            (changes, looks)
        });
        if let Err(error) = check(&timelines, &changes, looks) {
            panic!("beside {busy} busy threads, tables {NAMES:?}: {error}");
        }
    }
}

#[test]
fn packets_beside_changes_see_one_state() {
    packets_see_one_state(0, 4);
    packets_see_one_state(2, 4);
}
