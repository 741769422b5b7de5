//! Another program replaces the running one under full load: no packet is lost or partly processed, and entries and
//! state of unchanged parts remain.

use crate::common::chain::{Outcome, compile};
use crate::common::set_counted;
use p4jet_control::Control;
use p4jet_dataplane::{Adapter, Cancel, Carried, EngineKind, NewPort, RunOptions, Running, Switch};
use p4jet_jit::Options;
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{Port, PortError, PortStats, Received, Sent};
use p4jet_text::Commands;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PROGRAM: &str = r#"
#include <v1model.p4>
header numbered_t { bit<8> key; bit<64> number; bit<8> version; bit<8> data; }
struct headers { numbered_t h; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control In(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    counter(4, CounterType.packets) seen;
    register<bit<32>>(4) numbers;
    direct_counter(CounterType.packets) hits;
    action to(bit<9> port, bit<8> data) { sm.egress_spec = port; hdr.h.data = data; }
    action drop() { mark_to_drop(sm); }
    EXTRA
    table t {
        key = { hdr.h.key : exact; }
        actions = { to; drop; LISTED }
        default_action = drop();
        counters = hits;
        size = SIZE;
    }
    table gone { key = { hdr.h.data : KIND; } actions = { drop; } }
    apply {
        seen.count(1);
        numbers.write(2, (bit<32>)hdr.h.number);
        hdr.h.version = VERSION;
        t.apply();
        gone.apply();
    }
}
control Eg(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), In(), Eg(), C(), D()) main;
"#;

fn switch(version: u8, changed: &[(&str, &str)]) -> Arc<Switch> {
    let mut text = PROGRAM.replace("VERSION", &version.to_string());
    for (name, value) in
        changed.iter().chain(&[("EXTRA", ""), ("LISTED", ""), ("SIZE", "64"), ("KIND", "exact")])
    {
        text = text.replace(name, value);
    }
    match compile("reload.p4", &text, Options::default()) {
        Outcome::Compiled { optimised, .. } => optimised,
        Outcome::Refused(stage) => panic!("refused by `{stage}`"),
    }
}

/// Both ends of the traffic: numbered packets arrive as fast as they are received, and sent packets are checked.
#[derive(Default)]
struct Seen {
    received: AtomicU64,
    stop: AtomicBool,
    sent: Mutex<Checked>,
}

#[derive(Default)]
struct Checked {
    next: u64,
    by_version: BTreeMap<u8, u64>,
    wrong: Vec<String>,
}

/// A handle, with true if it receives.
struct Traffic(Arc<Seen>, bool);

impl Port for Traffic {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        if !self.1 || self.0.stop.load(Ordering::Relaxed) {
            return Ok(Received::Empty);
        }
        while !batch.is_full() {
            let n = self.0.received.fetch_add(1, Ordering::Relaxed);
            let mut frame = [0u8; 60];
            frame[0] = (n % 3) as u8;
            frame[1..9].copy_from_slice(&n.to_be_bytes());
            batch.push(pool, number, &frame).unwrap();
        }
        Ok(Received::Packets(batch.len()))
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        let mut seen = self.0.sent.lock().unwrap();
        for frame in frames {
            let number = u64::from_be_bytes(frame[1..9].try_into().unwrap());
            let right = frame.len() == 60 && frame[10] == frame[0] + 10 && u64::from(frame[0]) == number % 3;
            if number != seen.next || !right {
                let wrong = format!("{number} instead of {}: {frame:?}", seen.next);
                seen.wrong.push(wrong);
            }
            seen.next = number + 1;
            *seen.by_version.entry(frame[9]).or_default() += 1;
        }
        Ok(Sent { sent: frames.len(), dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }
}

/// Runs the first program, replaces it by the others in sequence under full load, and checks every packet.
fn reload_under_load(engine: EngineKind, programs: &[Arc<Switch>]) -> (Arc<Switch>, Vec<Carried>) {
    reload_and_adapt(engine, programs, false)
}

/// Like [`reload_under_load`], but waits with each program until its code has been adapted to the packets.
fn reload_and_adapt(
    engine: EngineKind,
    programs: &[Arc<Switch>],
    adapts: bool,
) -> (Arc<Switch>, Vec<Carried>) {
    let control = Control::new(Arc::clone(&programs[0]));
    for key in 0..3 {
        control.execute(&format!("table_add t to {key} => 0 {}", key + 10)).unwrap();
    }
    control.execute("table_add gone drop 99 =>").unwrap();
    let options = RunOptions { engine, frame_max: 1518, listener: Arc::new(|_| ()) };
    let running = Arc::new(Running::start(&programs[0], options).unwrap());
    let adapter = adapts.then(|| Adapter::start(&running, |_| ()).unwrap());
    let seen = Arc::new(Seen::default());
    let handle = |n| -> Box<dyn Port> { Box::new(Traffic(Arc::clone(&seen), n == 0)) };
    let handles = (0..running.handles()).map(handle).collect();
    let port = NewPort { number: 0, spec: "traffic".to_string(), handles };
    running.add_ports(vec![port]).unwrap();
    let wait = |version: u8| {
        let start = Instant::now();
        while !seen.sent.lock().unwrap().by_version.contains_key(&version) {
            assert!(start.elapsed() < Duration::from_secs(20), "no packet of version {version}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let adapted = || !adapts || running.adaptations() >= u64::from(version);
        while !adapted() {
            assert!(start.elapsed() < Duration::from_secs(60), "version {version} is not adapted");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait(1);
    let mut carried = Vec::new();
    for (switch, version) in programs[1..].iter().zip(2..) {
        let (_, kept) = running.reload(switch.program().clone()).unwrap();
        carried.push(kept);
        wait(version);
    }
    if adapts {
        // All packets take one path, so there is nothing to adapt a second time.
        let adaptations = running.adaptations();
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(running.adaptations(), adaptations);
    }
    drop(adapter);
    seen.stop.store(true, Ordering::Relaxed);
    running.finish().unwrap();
    let (stats, sent) = (running.stats(), seen.sent.lock().unwrap());
    assert_eq!(sent.wrong, [""; 0]);
    let all = seen.received.load(Ordering::Relaxed);
    assert_eq!((stats.received, stats.sent[&0]), (all, all));
    assert_eq!(sent.by_version.values().sum::<u64>(), all);
    assert_eq!(sent.by_version.len(), programs.len());
    assert_eq!(stats.dropped, BTreeMap::new());
    // State continued without a gap.
    let switch = running.switch();
    let control = Control::new(Arc::clone(&switch));
    let counted = format!("seen[1]= ({} bytes, {all} packets)\n", all * 60);
    assert_eq!(control.execute("counter_read seen 1").unwrap(), counted);
    assert_eq!(
        control.execute("register_read numbers 2").unwrap(),
        format!("numbers[2]= {}\n", (all - 1) as u32)
    );
    (switch, carried)
}

#[test]
fn no_packet_is_lost_and_unchanged_state_stays() {
    for engine in [EngineKind::Jit, EngineKind::Interp] {
        let programs: Vec<_> = (1..=6).map(|version| switch(version, &[])).collect();
        let (last, carried) = reload_under_load(engine, &programs);
        let all = last.state().counter_read(0, 1).unwrap().packets;
        for carried in carried {
            assert_eq!(carried.lost, [""; 0]);
            assert_eq!(carried.entries_copied, 0);
            assert_eq!(carried.kept.len(), 5, "{carried:?}");
        }
        // The direct counters are those of the same entries.
        let control = Control::new(last);
        let hits: u64 = (0..3)
            .map(|entry| {
                let text = control.execute(&format!("counter_read hits {entry}")).unwrap();
                text.split(", ").nth(1).unwrap().split(' ').next().unwrap().parse::<u64>().unwrap()
            })
            .sum();
        assert_eq!(hits, all);
    }
}

#[test]
fn no_packet_is_lost_when_code_is_adapted() {
    let workers = |version, counted: bool| {
        let options = Options { counted, ..Options::default() };
        Switch::with_options(switch(version, &[]).program().clone(), options, 1).unwrap()
    };
    for counted in [false, true] {
        let programs: Vec<_> = (1..=3).map(|version| workers(version, counted)).collect();
        let (last, carried) = reload_and_adapt(EngineKind::Jit, &programs, true);
        assert!(carried.iter().all(|carried| carried.lost.is_empty()), "{carried:?}");
        assert_eq!(last.is_counted(), counted);
    }
}

#[test]
fn no_packet_is_lost_between_threads() {
    for threads in 2..=4 {
        let programs: Vec<_> = (1..=4)
            .map(|version| {
                let options = Options { threads: Some(threads), ..Options::default() };
                let one = switch(version, &[]);
                Switch::with_options(one.program().clone(), options, threads).unwrap()
            })
            .collect();
        let (_, carried) = reload_under_load(EngineKind::Jit, &programs);
        assert!(carried.iter().all(|carried| carried.lost.is_empty()), "{carried:?}");
    }
}

/// Members and groups of an action profile may exist without entries. They stay if they fit.
#[test]
fn members_of_a_changed_profile_stay_if_they_fit_and_are_reported_otherwise() {
    let table = "action_profile(16) some;
        table chosen { key = { hdr.h.data : KIND; } actions = { to; } implementation = some; }";
    let with = |kind| {
        switch(1, &[("EXTRA", table), ("gone.apply();", "gone.apply(); chosen.apply();"), ("KIND", kind)])
    };
    let before = with("exact");
    let options = RunOptions { engine: EngineKind::Interp, frame_max: 1518, listener: Arc::new(|_| ()) };
    let running = Running::start(&before, options).unwrap();
    Control::new(before).execute("act_prof_create_member some to 1 2").unwrap();
    let reload = |switch: Arc<Switch>| {
        let (switch, carried) = running.reload(switch.program().clone()).unwrap();
        (Control::new(switch), carried.lost)
    };
    let (control, lost) = reload(with("ternary"));
    assert_eq!(lost, [] as [&str; 0]);
    assert!(control.execute("act_prof_dump_member some 0").unwrap().contains("In.to"));
    control.execute("act_prof_create_member some to 3 4").unwrap();
    let changed = |changes: &[(&str, &str)]| {
        let table = changes.iter().fold(table.to_string(), |table, (old, new)| table.replace(old, new));
        switch(
            1,
            &[("EXTRA", &table), ("gone.apply();", "gone.apply(); chosen.apply();"), ("KIND", "ternary")],
        )
    };
    // Larger, with another list of actions.
    let (control, lost) = reload(changed(&[("(16)", "(32)"), ("{ to; }", "{ drop; to; }")]));
    assert_eq!(lost, [] as [&str; 0]);
    control.execute("table_indirect_add chosen 5&&&255 => 1 1").unwrap();
    // Smaller, and large enough.
    let (control, lost) = reload(changed(&[("(16)", "(2)"), ("{ to; }", "{ to; drop; }")]));
    assert_eq!(lost, [] as [&str; 0]);
    assert!(control.execute("act_prof_dump some").unwrap().contains("In.to"));
    let (_, lost) = reload(changed(&[("(16)", "(1)")]));
    assert!(lost[0].starts_with("action profile `In.some`: member 1: "), "{lost:?}");
    assert!(lost[1].starts_with("table `In.chosen`: entry 0x0: "), "{lost:?}");
    let (_, lost) = reload(changed(&[("action_profile(16) some;", ""), ("implementation = some;", "")]));
    let words =
        "action profile `In.some`: no table of the new program has it; its members and groups are lost";
    assert_eq!(lost, [words]);
    // Nothing is in it any more.
    assert_eq!(reload(with("exact")).1, [] as [&str; 0]);
}

#[test]
fn changed_state_is_copied_if_it_fits_and_reported_otherwise() {
    let larger =
        [("SIZE", "128"), ("EXTRA", "action other() { }"), ("LISTED", "other;"), ("KIND", "ternary")];
    let (last, carried) = reload_under_load(EngineKind::Jit, &[switch(1, &[]), switch(2, &larger)]);
    assert_eq!(carried[0].entries_copied, 3);
    assert_eq!(carried[0].lost, ["table `In.gone`: the keys are different now; 1 entry lost"]);
    assert_eq!(carried[0].kept, ["In.seen", "In.numbers", "In.hits"]);
    // Tables without entries lose nothing.
    let before = switch(1, &[]);
    let options = RunOptions { engine: EngineKind::Interp, frame_max: 1518, listener: Arc::new(|_| ()) };
    let running = Running::start(&before, options).unwrap();
    let (_, lossless) = running.reload(switch(2, &larger).program().clone()).unwrap();
    assert_eq!(lossless.lost, [] as [String; 0]);
    let uncounted = [("direct_counter(CounterType.packets) hits;", ""), ("counters = hits;", "")];
    let (_, carried) = reload_under_load(EngineKind::Jit, &[switch(1, &[]), switch(2, &uncounted)]);
    assert_eq!(
        carried[0].lost,
        ["direct counter `In.hits` of `In.t`: the new program has none with this name; its counts are lost"]
    );
    let control = Control::new(last);
    assert!(control.execute("table_dump t").unwrap().contains("Dumping entry 0x2"));
    assert_eq!(control.execute("table_num_entries gone").unwrap(), "0\n");
}

#[test]
fn a_program_that_does_not_fit_leaves_the_old_one_running() {
    let running = Running::start(
        &switch(1, &[]),
        RunOptions { engine: EngineKind::Jit, frame_max: 1518, listener: Arc::new(|_| ()) },
    )
    .unwrap();
    let before = running.switch();
    let mut program = before.program().clone();
    let loc = program.tables[0].loc;
    program.tables[0].entries.push(p4jet_ir::Entry {
        key: Vec::new(),
        priority: 0,
        shown_priority: 1,
        is_const: true,
        action: p4jet_ir::ActionCall { action: 0, data: Vec::new() },
        loc,
    });
    assert!(running.reload(program).is_err());
    assert!(Arc::ptr_eq(&running.switch(), &before));
}

/// Machine code is generated before the point at which nothing else can happen.
#[test]
fn prepared_programs_are_not_compiled_again() {
    let options = RunOptions { engine: EngineKind::Jit, frame_max: 1518, listener: Arc::new(|_| ()) };
    let running = Running::start(&switch(1, &[]), options).unwrap();
    Control::new(running.switch()).execute("table_add t to 1 => 0 11").unwrap();
    for changed in [[("SIZE", "64")], [("SIZE", "128")]] {
        let next = running.prepare(switch(2, &changed).program().clone(), &Cancel::default()).unwrap();
        let code = Arc::clone(next.code().unwrap());
        let (new, _) = running.reload_prepared(next).unwrap();
        assert!(Arc::ptr_eq(&new.code().ok().unwrap(), &code), "{changed:?}");
    }
    // Code without counting is of no use to a switch that counts by now.
    let next = running.prepare(switch(3, &[]).program().clone(), &Cancel::default()).unwrap();
    set_counted(&running, true);
    let (new, _) = running.reload_prepared(next).unwrap();
    assert!(new.is_counted());
    assert_eq!(Control::new(new).execute("table_num_entries t").unwrap(), "1\n");
}
