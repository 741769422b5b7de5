//! The messages for subscribers of a running switch, and the absence of cost for others.

use crate::common::chain::{Outcome, compile};
use crate::common::{self, TempDir};
use p4jet_control::{Control, ControlError, Host, PortStats, Program, Rights, SharedControl, Swap};
use p4jet_dataplane::{
    Cancel, DigestCounts, EngineKind, NewPort, Notice, RunOptions, Running, Subscription, Switch, Topics,
    WAITING_MAX,
};
use p4jet_ports::{MemoryHandle, MemoryPort};
use p4jet_text::client::{Client, Messages};
use p4jet_text::server::{Limits, Server};
use p4jet_text::{Commands, Message, parse_topics};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PROGRAM: &str = r#"
#include <v1model.p4>
header h_t { bit<48> mac; bit<8> kind; bit<72> wide; }
struct headers { h_t h; }
struct meta { }
struct seen_t { bit<48> mac; bit<9> port; bit<72> wide; }
struct odd_t { bit<8> kind; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control In(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        EARLIER
        digest<seen_t>(1, { hdr.h.mac, sm.ingress_port, hdr.h.wide });
        if (hdr.h.kind == 7) { digest<odd_t>(1, { hdr.h.kind }); }
    }
}
control Eg(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), In(), Eg(), C(), D()) main;
"#;

const NONE: Topics = Topics { digests: false, ageing: false, ports: false };
const DIGESTS: Topics = Topics { digests: true, ..NONE };
const PORTS: Topics = Topics { ports: true, ..NONE };
const AGEING_ONLY: Topics = Topics { ageing: true, ..NONE };

fn program(earlier: &str, engine: EngineKind) -> Arc<Switch> {
    compiled("notices.p4", &PROGRAM.replace("EARLIER", earlier), engine)
}

fn compiled(name: &str, text: &str, engine: EngineKind) -> Arc<Switch> {
    match compile(name, text, Default::default()) {
        Outcome::Compiled { reference, optimised } => match engine {
            EngineKind::Interp => reference,
            EngineKind::Jit => optimised,
        },
        Outcome::Refused(stage) => panic!("refused by `{stage}`"),
    }
}

/// A running switch with a port 3.
fn start(engine: EngineKind) -> (Arc<Running>, MemoryHandle) {
    let options = RunOptions { engine, frame_max: 2048, listener: Arc::new(|_| ()) };
    let running = Running::start(&program("", engine), options).unwrap();
    let (port, handle) = MemoryPort::new();
    let port = NewPort { number: 3, spec: "mem".into(), handles: vec![Box::new(port)] };
    running.add_ports(vec![port]).unwrap();
    (Arc::new(running), handle)
}

fn frame(mac: u64, kind: u8) -> Vec<u8> {
    let mut frame = mac.to_be_bytes()[2..].to_vec();
    frame.push(kind);
    frame.extend([0xab, 0, 0, 0, 0, 0, 0, 0, kind]);
    frame
}

/// Sends packets, but not faster than they are received.
fn feed(running: &Running, handle: &MemoryHandle, macs: std::ops::Range<u64>, kind: u8) {
    for mac in macs.clone() {
        handle.put(&frame(mac, kind));
    }
    let end = Instant::now() + common::DEADLINE;
    while running.stats().received < macs.end {
        assert!(Instant::now() < end, "{} of {} packets came", running.stats().received, macs.end);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns `count` digests, and the number of lost ones.
fn digests(subscription: &Subscription, count: usize) -> (Vec<(String, Vec<u64>)>, u64) {
    let (mut digests, mut lost) = (Vec::new(), 0);
    let end = Instant::now() + common::DEADLINE;
    while digests.len() < count {
        assert!(Instant::now() < end, "{} of {count} digests came", digests.len());
        let received = subscription.receive(Duration::from_millis(100));
        lost += received.lost;
        for notice in received.notices {
            if let Notice::Digest { switch, digest } = &*notice {
                let name = &switch.program().instances[digest.instance as usize].name;
                digests.push((name.clone(), digest.limbs.to_vec()));
            }
        }
    }
    (digests, lost)
}

/// bmv2 sends one digest for each packet: that of the last call, with the values at the end of ingress.
#[test]
fn each_call_of_digest_is_a_message_with_the_values_of_the_call() {
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let (running, handle) = start(engine);
        let later = "digest<odd_t>(1, { hdr.h.kind }); hdr.h.mac = 1; mark_to_drop(sm);";
        running.reload(program(later, engine).program().clone()).unwrap();
        let subscription = running.subscribe(DIGESTS).unwrap();
        // An equal message is also sent.
        feed(&running, &handle, 0..2, 5);
        let (digests, lost) = digests(&subscription, 4);
        let of_one = [("odd_t".to_string(), vec![5]), ("seen_t".to_string(), vec![1, 3, 5, 0xab])];
        assert_eq!((digests, lost), ([of_one.clone(), of_one].concat(), 0));
        running.finish().unwrap();
    }
}

#[test]
fn subscribers_get_digests_of_both_engines_even_after_a_reload() {
    let mut received = Vec::new();
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let (running, handle) = start(engine);
        feed(&running, &handle, 0..10, 0);
        assert_eq!(running.digest_counts(), DigestCounts { sent: 10, without_subscriber: 10, dropped: 0 });
        let subscription = running.subscribe(DIGESTS).unwrap();
        let of_ports = running.subscribe(PORTS).unwrap();
        feed(&running, &handle, 10..13, 7);
        // The instances have other numbers in the next program.
        running.reload(program("digest<bit<9>>(1, sm.ingress_port);", engine).program().clone()).unwrap();
        feed(&running, &handle, 13..15, 7);
        let (digests, lost) = digests(&subscription, 12);
        assert_eq!(lost, 0);
        assert_eq!(running.digest_counts(), DigestCounts { sent: 22, without_subscriber: 10, dropped: 0 });
        assert!(of_ports.receive(Duration::ZERO).notices.is_empty());
        drop(subscription);
        feed(&running, &handle, 15..16, 0);
        assert_eq!(running.digest_counts(), DigestCounts { sent: 24, without_subscriber: 12, dropped: 0 });
        running.finish().unwrap();
        assert!(of_ports.receive(common::DEADLINE).ended);
        assert!(running.subscribe(PORTS).is_err());
        received.push(digests);
    }
    assert_eq!(received[0], received[1], "interpreter (left) and machine code (right)");
    let names: Vec<&str> = received[0].iter().map(|(name, _)| name.as_str()).collect();
    let (two, three) = (["seen_t", "odd_t"], ["digest_0", "seen_t", "odd_t"]);
    assert_eq!(names, [&two[..], &two, &two, &three, &three].concat());
    assert_eq!(received[0][0].1, [10, 3, 7, 0xab]);
    assert_eq!((&received[0][1].1, &received[0][6].1), (&vec![7], &vec![3]));
}

#[test]
fn only_slow_subscribers_lose_messages() {
    let (running, handle) = start(EngineKind::Jit);
    let asleep = running.subscribe(DIGESTS).unwrap();
    let awake = running.subscribe(DIGESTS).unwrap();
    let all = WAITING_MAX as u64 + 3000;
    let mut got = 0;
    for begin in (0..all).step_by(1000) {
        let macs = begin..(begin + 1000).min(all);
        feed(&running, &handle, macs.clone(), 0);
        let (digests, lost) = digests(&awake, macs.clone().count());
        assert!(digests.iter().map(|(_, limbs)| limbs[0]).eq(macs), "in order");
        got += digests.len() as u64;
        assert_eq!(lost, 0);
    }
    assert_eq!(got, all);
    let received = asleep.receive(Duration::ZERO);
    assert_eq!(received.notices.len() as u64 + received.lost, all);
    assert_eq!(received.notices.len(), WAITING_MAX);
    // From now on there is room again.
    feed(&running, &handle, all..all + 1, 0);
    assert_eq!(digests(&asleep, 1), (vec![("seen_t".to_string(), vec![all, 3, 0, 0xab])], 0));
}

/// A switch without a process around it.
struct Bare(Arc<Running>);

impl Host for Bare {
    fn prepare(&self, _: &Program<'_>, _: &Cancel) -> Result<Swap, ControlError> {
        Err(ControlError::new("not here"))
    }

    fn prepare_queues(&self) -> Result<Swap, ControlError> {
        Err(ControlError::new("not here"))
    }

    fn subscribe(&self, topics: Topics) -> Result<Subscription, ControlError> {
        self.0.subscribe(topics).map_err(ControlError::from)
    }

    fn ports(&self) -> Vec<PortStats> {
        Vec::new()
    }

    fn add_port(&self, number: u32, spec: &str, _: &Rights) -> Result<(), ControlError> {
        let port = NewPort { number, spec: spec.into(), handles: vec![Box::new(MemoryPort::new().0)] };
        self.0.add_ports(vec![port]).map_err(ControlError::from)
    }

    fn remove_port(&self, number: u32) -> Result<(), ControlError> {
        self.0.remove_port(number).map(drop).map_err(ControlError::from)
    }

    fn stop(&self) {}
}

fn served(running: &Arc<Running>) -> SharedControl {
    SharedControl::new(Control::new(running.switch()), Some(Arc::new(Bare(Arc::clone(running)))))
}

fn next(messages: &mut Messages) -> Message {
    messages.next(Some(common::DEADLINE)).unwrap().expect("a message in time")
}

#[test]
fn messages_over_a_socket_and_in_the_same_process() {
    let (running, handle) = start(EngineKind::Jit);
    let dir = TempDir::new("messages");
    let path = dir.file("s");
    let control = served(&running);
    let _server = Server::unix(control.clone(), Path::new(&path), Limits::default()).unwrap();
    let mut all = Client::unix(Path::new(&path)).unwrap().subscribe(parse_topics([]).unwrap()).unwrap();
    let mut inside = control.subscribe(DIGESTS).unwrap();
    assert_eq!(all.next(Some(Duration::from_millis(1))).unwrap(), None);
    let mut asking = Client::unix(Path::new(&path)).unwrap();
    assert!(asking.command("port_add veth7 7", false).unwrap().ok);
    assert!(asking.command("port_remove 7", false).unwrap().ok);
    feed(&running, &handle, 0..1, 0);
    feed(&running, &handle, 1..2, 7);
    let texts: Vec<String> = (0..5).map(|_| next(&mut all).to_string()).collect();
    assert_eq!(
        texts,
        [
            "port 7: added: veth7",
            "port 7: removed",
            "digest seen_t: mac=00:00:00:00:00:00 port=3 wide=0xab0000000000000000",
            "digest seen_t: mac=00:00:00:00:00:01 port=3 wide=0xab0000000000000007",
            "digest odd_t: kind=7",
        ]
    );
    let digest = Message::next_of(&mut inside, common::DEADLINE).unwrap();
    let line = digest.to_line();
    assert!(
        line.starts_with(r#"{"event":"digest","name":"seen_t","list":1,"time_us":"#)
            && line.ends_with(concat!(
                r#","fields":{"mac":"0x000000000000","port":"0x0003","wide":"0xab0000000000000000"}}"#,
                "\n"
            )),
        "{line}"
    );
    running.finish().unwrap();
    let error = all.next(Some(common::DEADLINE)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
    while Message::next_of(&mut inside, common::DEADLINE).is_some() {}
    assert!(inside.has_ended());
}

#[test]
fn one_user_does_not_take_all_subscriptions() {
    let (running, _handle) = start(EngineKind::Jit);
    let dir = TempDir::new("one_user");
    let path = dir.file("s");
    let _server = Server::unix(served(&running), Path::new(&path), Limits::default()).unwrap();
    let subscribe = || Client::unix(Path::new(&path)).unwrap().subscribe(DIGESTS);
    let mut first: Vec<_> = (0..8).map(|_| subscribe().unwrap()).collect();
    let refused = subscribe().map(drop).unwrap_err().to_string();
    assert!(refused.contains("8 clients of user ") && refused.contains("have subscribed"), "{refused}");
    // A place is free again once the switch has noticed that a subscriber left.
    first.pop();
    let end = Instant::now() + common::DEADLINE;
    while subscribe().is_err() {
        assert!(Instant::now() < end, "the place is still taken");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn hostile_subscribers_do_not_affect_others() {
    let (running, handle) = start(EngineKind::Jit);
    let dir = TempDir::new("hostile_subscribers");
    let path = dir.file("s");
    let wait = Duration::from_millis(300);
    let limits = Limits { wait, clients: 16, subscribers_per_user: 16, ..Limits::default() };
    let _server = Server::unix(served(&running), Path::new(&path), limits).unwrap();
    let connect = |text: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        // A refused client finds the connection closed.
        let _ = stream.write_all(text.as_bytes());
        stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
        stream
    };
    let subscribe = "{\"subscribe\":[\"digests\"]}\n";
    // Clients that never read, one that sends something, one that stops after half of it, one that requests too much.
    let mut deaf: Vec<_> = (0..10).map(|_| connect(subscribe)).collect();
    let mut talks = connect(&format!("{subscribe}{}", "{\"command\":\"help\"}\n".repeat(10_000)));
    let mut closes = connect(subscribe);
    closes.shutdown(std::net::Shutdown::Write).unwrap();
    let mut wrong = connect("{\"subscribe\":[\"weather\"]}\n");
    let mut text = String::new();
    wrong.read_to_string(&mut text).unwrap();
    assert!(text.contains("unknown topic `weather`"), "{text}");
    let mut messages = Client::unix(Path::new(&path)).unwrap().subscribe(DIGESTS).unwrap();
    for begin in (0..40_000).step_by(1000) {
        feed(&running, &handle, begin..begin + 1000, 0);
        for mac in begin..begin + 1000 {
            assert_eq!(next(&mut messages).field("mac"), Some(mac.into()));
        }
    }
    // Their places are free again.
    let end = Instant::now() + common::DEADLINE;
    loop {
        let others: Vec<_> = (0..14).map(|_| connect("{\"command\":\"help\"}\n")).collect();
        let served = others.into_iter().all(|mut stream| {
            let mut answer = [0; 10];
            stream.read_exact(&mut answer).is_ok() && &answer == b"{\"ok\":true"
        });
        if served {
            break;
        }
        assert!(Instant::now() < end, "the places are still taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    for stream in deaf.iter_mut().chain([&mut talks, &mut closes]) {
        let mut all = Vec::new();
        // Messages in flight; then the end, or nothing more if the server did not need the client's place.
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let _ = stream.read_to_end(&mut all);
        assert!(all.starts_with(b"{\"ok\":true"));
    }
}

/// A table of each structure with ageing entries; one with direct counters, one with an action profile.
const AGEING: &str = r#"
#include <v1model.p4>
header h_t { bit<48> mac; bit<32> ip; bit<16> port; bit<8> small; }
struct headers { h_t h; }
struct meta { bit<8> x; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control In(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) hits;
    action_profile(8) ap;
    action to(bit<9> port) { sm.egress_spec = port; }
    action wide(bit<128> unused) { m.x = unused[7:0]; }
    table macs {
        key = { hdr.h.mac : exact; } actions = { to; NoAction; }
        support_timeout = true; counters = hits; size = 70000;
    }
    table routes { key = { hdr.h.ip : lpm; } actions = { to; wide; NoAction; } support_timeout = true; }
    table rules { key = { hdr.h.port : ternary; hdr.h.small : range; } actions = { wide; NoAction; } support_timeout = true; }
    table members {
        key = { hdr.h.small : exact; } actions = { wide; to; NoAction; }
        implementation = ap; support_timeout = true;
    }
    table ageless { key = { hdr.h.mac : exact; } actions = { to; NoAction; } }
    apply {
        sm.egress_spec = 1;
        macs.apply(); routes.apply(); rules.apply(); members.apply(); ageless.apply();
    }
}
control Eg(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), In(), Eg(), C(), D()) main;
"#;

fn ageing(engine: EngineKind) -> Arc<Switch> {
    compiled("ageing.p4", AGEING, engine)
}

/// Adds an entry, in slot 0, with a timeout to each table with ageing.
fn with_entries(switch: &Arc<Switch>, timeout_ms: u32) -> Control {
    let control = Control::new(Arc::clone(switch));
    for line in [
        "table_add macs to 1 => 1",
        "table_add routes wide 10.0.0.0/8 => 5",
        "table_add rules wide 7&&&0xff 3->9 => 5 1",
        "act_prof_create_member ap wide 5",
        "table_indirect_add members 5 => 0",
        "table_add ageless to 1 => 1",
    ] {
        control.execute(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    }
    for table in TIMED {
        control.execute(&format!("table_set_timeout {table} 0 {timeout_ms}")).unwrap();
    }
    control
}

const TIMED: [&str; 4] = ["macs", "routes", "rules", "members"];

#[test]
fn both_engines_record_hits_alike() {
    let mut seen = Vec::new();
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let switch = ageing(engine);
        with_entries(&switch, 60_000);
        let mut worker = switch.worker(engine, 0).unwrap();
        let second = 1_000_000;
        let since = |second_now: u64| -> Vec<u64> {
            let tables = (0..4).map(|id| switch.table(p4jet_ir::TableId(id)));
            let handle = p4jet_dataplane::EntryHandle(0);
            // In whole seconds, because hit times are less precise.
            tables
                .map(|t| (t.life(handle, second_now * second + 20_000).unwrap().since_hit_ms) / 1000)
                .collect()
        };
        let mut all = Vec::new();
        // Hits all entries; none; the first; routes and members; all again.
        for (now, mac, ip, port, small) in [
            (100, 1u8, 10u8, 7u8, 5u8),
            (200, 9, 9, 9, 9),
            (300, 1, 9, 9, 9),
            (400, 9, 10, 9, 5),
            (500, 1, 10, 7, 5),
        ] {
            worker.set_time(Some(now * second));
            for _ in 0..3 {
                worker.process_one(0, &[0, 0, 0, 0, 0, mac, ip, 0, 0, 1, 0, port, small]);
            }
            all.push(since(now));
        }
        assert_eq!(all[0], [0; 4]);
        assert_eq!(all[1], [100; 4]);
        assert_eq!(all[2], [0, 200, 200, 200]);
        assert_eq!(all[3], [100, 0, 300, 0]);
        assert_eq!(all[4], [0; 4]);
        seen.push(all);
    }
    assert_eq!(seen[0], seen[1], "interpreter (left) and machine code (right)");
}

#[test]
fn entries_age_and_subscribers_are_notified() {
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let options = RunOptions { engine, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start(&ageing(engine), options).unwrap();
        let (port, handle) = MemoryPort::new();
        let port = NewPort { number: 0, spec: "mem".into(), handles: vec![Box::new(port)] };
        running.add_ports(vec![port]).unwrap();
        with_entries(&running.switch(), 800);
        let subscription = running.subscribe(AGEING_ONLY).unwrap();
        let hit = || handle.put(&[0, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 7, 5]);
        let aged = |subscription: &Subscription| -> Vec<u32> {
            let notices = subscription.receive(Duration::from_millis(100)).notices;
            let tables = notices.iter().map(|notice| match &**notice {
                Notice::Aged { table, life, .. } => {
                    assert!(life.since_hit_ms >= 800, "{life:?}");
                    table.0
                }
                _ => panic!("nobody asked for that"),
            });
            tables.collect()
        };
        let all = |subscription: &Subscription| {
            let mut found = Vec::new();
            let end = Instant::now() + common::DEADLINE;
            while found.len() < 4 {
                assert!(Instant::now() < end, "only the tables {found:?} reported idle entries");
                found.extend(aged(subscription));
            }
            found.sort_unstable();
            assert_eq!(found, [0, 1, 2, 3]);
        };
        // While they are hit they are not idle.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) {
            let between = Instant::now();
            hit();
            let found = aged(&subscription);
            let stalled = between.elapsed() > Duration::from_millis(600);
            assert!(found.is_empty() || stalled, "{found:?}");
        }
        all(&subscription);
        // Reported once, even after the entries belong to another program that has the same ones.
        running.reload(running.switch().program().clone()).unwrap();
        std::thread::sleep(Duration::from_millis(1000));
        assert_eq!(aged(&subscription), [0; 0]);
        let late = running.subscribe(AGEING_ONLY).unwrap();
        all(&late);
        hit();
        all(&late);
        all(&subscription);
        let control = Control::new(running.switch());
        let dump = control.execute("table_dump_entry macs 0").unwrap();
        let life = dump.lines().last().unwrap();
        assert!(life.starts_with("Life: ") && life.ends_with("ms since hit, timeout is 800ms"), "{dump}");
        control.execute("table_set_timeout macs 0 0").unwrap();
        assert!(!control.execute("table_dump_entry macs 0").unwrap().contains("Life"));
        running.finish().unwrap();
    }
}

/// The controller shipped with l2_learning, which ends with the test.
struct Controller {
    child: std::process::Child,
    said: std::sync::mpsc::Receiver<String>,
}

impl Controller {
    fn start(socket: &str) -> Controller {
        let script = common::root().join("programs/l2_learning/controller.py");
        let mut command = std::process::Command::new("python3");
        command.arg(script).args(["--socket", socket, "--ports", "0,1,2", "--age", "2"]);
        command.arg(env!("CARGO_BIN_EXE_p4jet")).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().expect("python3 is there");
        let out = std::io::BufReader::new(child.stdout.take().unwrap());
        let (line, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            std::io::BufRead::lines(out).map_while(Result::ok).try_for_each(|text| line.send(text))
        });
        Controller { child, said }
    }

    fn says(&self, text: &str) {
        assert_eq!(self.said.recv_timeout(common::DEADLINE).expect("it says something"), text);
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_shipped_controller_learns_and_forgets() {
    let text = std::fs::read_to_string(common::program("l2_learning")).unwrap();
    let options = RunOptions { engine: EngineKind::Jit, frame_max: 2048, listener: Arc::new(|_| ()) };
    let running =
        Arc::new(Running::start(&compiled("l2_learning.p4", &text, EngineKind::Jit), options).unwrap());
    let (ports, handles): (Vec<_>, Vec<_>) = (0..3).map(|_| MemoryPort::new()).unzip();
    let ports = (0..).zip(ports).map(|(number, port)| {
        let spec = format!("mem{number}");
        NewPort { number, spec, handles: vec![Box::new(port)] }
    });
    running.add_ports(ports.collect()).unwrap();
    let dir = TempDir::new("l2_learning");
    let socket = dir.file("s");
    let _server = Server::unix(served(&running), Path::new(&socket), Limits::default()).unwrap();
    // Sends a frame from one station to another; returns the ports by which it leaves.
    let send = |from: u8, to: u8, port: usize| -> Vec<usize> {
        handles.iter().for_each(|handle| drop(handle.take()));
        let frame = [0, 0, 0x5e, 0, 0x53, to, 0, 0, 0x5e, 0, 0x53, from, 0x88, 0xb5, 1];
        let before = running.stats().received;
        handles[port].put(&frame);
        let end = Instant::now() + common::DEADLINE;
        while running.stats().received == before {
            assert!(Instant::now() < end, "the frame is not taken in");
            std::thread::sleep(Duration::from_millis(1));
        }
        (0..3).filter(|port| handles[*port].take() == [frame]).collect()
    };
    // There is no subscriber yet, and no flood group.
    assert_eq!(send(1, 2, 0), [0; 0]);
    let controller = Controller::start(&socket);
    let end = Instant::now() + common::DEADLINE;
    let mut learned = false;
    while send(1, 2, 0) != [1, 2] || !learned {
        assert!(Instant::now() < end, "nothing is flooded, or learned: {learned}");
        if let Ok(text) = controller.said.recv_timeout(Duration::from_millis(20)) {
            assert_eq!(text, "learned 0x00005e005301 at port 0");
            learned = true;
        }
    }
    assert_eq!(send(2, 1, 1), [0], "only to the station that is known");
    controller.says("learned 0x00005e005302 at port 1");
    assert_eq!(send(1, 2, 0), [1]);
    assert_eq!(send(3, 9, 2), [0, 1], "nobody has sent from there");
    controller.says("learned 0x00005e005303 at port 2");
    // A station moves.
    assert_eq!(send(2, 1, 2), [0]);
    controller.says("learned 0x00005e005302 at port 2");
    assert_eq!(send(1, 2, 0), [2]);
    // All but one are silent.
    let mut forgotten = Vec::new();
    while forgotten.len() < 2 {
        send(1, 2, 0);
        if let Ok(text) = controller.said.recv_timeout(Duration::from_millis(100)) {
            forgotten.push(text);
        }
        assert!(Instant::now() < end + common::DEADLINE, "only {forgotten:?}");
    }
    forgotten.sort_unstable();
    assert_eq!(forgotten, ["forgot 0x00005e005302", "forgot 0x00005e005303"]);
    assert_eq!(send(1, 2, 0), [1, 2]);
    running.finish().unwrap();
}
