//! What subscribers of a running switch are told, and what those cost who do not listen to it.

mod common;

use common::TempDir;
use common::chain::{Outcome, compile};
use p4jet_control::client::{Client, Messages};
use p4jet_control::server::{Limits, Server};
use p4jet_control::{Control, Host, Message, Observed, PortInfo, SharedControl, Swap, parse_topics};
use p4jet_dataplane::{
    DigestCounts, EngineKind, NewPort, Notice, RunOptions, Running, Subscription, Switch, Topics, WAITING_MAX,
};
use p4jet_ports::{MemoryHandle, MemoryPort};
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

const DIGESTS: Topics = Topics { digests: true, ports: false };
const PORTS: Topics = Topics { digests: false, ports: true };

fn program(earlier: &str, engine: EngineKind) -> Arc<Switch> {
    match compile("notices.p4", &PROGRAM.replace("EARLIER", earlier), Default::default()) {
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

/// Lets packets through, not faster than they are taken in.
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

/// The digests that come until there are so many, and what was lost.
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

#[test]
fn subscribers_get_digests_of_both_engines_also_after_a_reload() {
    let mut told = Vec::new();
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let (running, handle) = start(engine);
        feed(&running, &handle, 0..10, 0);
        assert_eq!(running.digest_counts(), DigestCounts { sent: 10, unheard: 10, dropped: 0 });
        let subscription = running.subscribe(DIGESTS).unwrap();
        let of_ports = running.subscribe(PORTS).unwrap();
        feed(&running, &handle, 10..13, 7);
        // The instances have other numbers in the next program.
        running.reload(program("digest<bit<9>>(1, sm.ingress_port);", engine).program().clone()).unwrap();
        feed(&running, &handle, 13..15, 7);
        let (digests, lost) = digests(&subscription, 12);
        assert_eq!(lost, 0);
        assert_eq!(running.digest_counts(), DigestCounts { sent: 22, unheard: 10, dropped: 0 });
        assert!(of_ports.receive(Duration::ZERO).notices.is_empty());
        drop(subscription);
        feed(&running, &handle, 15..16, 0);
        assert_eq!(running.digest_counts(), DigestCounts { sent: 24, unheard: 12, dropped: 0 });
        running.finish().unwrap();
        assert!(of_ports.receive(common::DEADLINE).ended);
        assert!(running.subscribe(PORTS).is_err());
        told.push(digests);
    }
    assert_eq!(told[0], told[1], "interpreter (left) and machine code (right)");
    let names: Vec<&str> = told[0].iter().map(|(name, _)| name.as_str()).collect();
    let (two, three) = (["seen_t", "odd_t"], ["digest_0", "seen_t", "odd_t"]);
    assert_eq!(names, [&two[..], &two, &two, &three, &three].concat());
    assert_eq!(told[0][0].1, [10, 3, 7, 0xab]);
    assert_eq!((&told[0][1].1, &told[0][6].1), (&vec![7], &vec![3]));
}

#[test]
fn who_does_not_read_loses_messages_and_nobody_else_does() {
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
    fn prepare(&self, _: &Path) -> Result<Swap, String> {
        Err("not here".into())
    }

    fn prepare_queues(&self) -> Result<Swap, String> {
        Err("not here".into())
    }

    fn observe(&self, _: &[&str]) -> Result<Observed, String> {
        Err("not here".into())
    }

    fn subscribe(&self, topics: Topics) -> Result<Subscription, String> {
        self.0.subscribe(topics).map_err(|e| e.to_string())
    }

    fn ports(&self) -> Vec<PortInfo> {
        Vec::new()
    }

    fn add_port(&self, number: u32, spec: &str) -> Result<(), String> {
        let port = NewPort { number, spec: spec.into(), handles: vec![Box::new(MemoryPort::new().0)] };
        self.0.add_ports(vec![port]).map_err(|e| e.to_string())
    }

    fn remove_port(&self, number: u32) -> Result<(), String> {
        self.0.remove_port(number).map(drop).map_err(|e| e.to_string())
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
    let digest = inside.next(common::DEADLINE).unwrap();
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
    while inside.next(common::DEADLINE).is_some() {}
    assert!(inside.has_ended());
}

#[test]
fn hostile_subscribers_cost_nobody_else_anything() {
    let (running, handle) = start(EngineKind::Jit);
    let dir = TempDir::new("hostile_subscribers");
    let path = dir.file("s");
    let limits = Limits { wait: Duration::from_millis(300), clients: 16, ..Limits::default() };
    let _server = Server::unix(served(&running), Path::new(&path), limits).unwrap();
    let connect = |text: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
        stream
    };
    let subscribe = "{\"subscribe\":[\"digests\"]}\n";
    // Those that never read, one that says something, one that says no more than half of it, one that wants too much.
    let mut deaf: Vec<_> = (0..10).map(|_| connect(subscribe)).collect();
    let mut talks = connect(&format!("{subscribe}{}", "{\"command\":\"help\"}\n".repeat(10_000)));
    let mut closes = connect(subscribe);
    closes.shutdown(std::net::Shutdown::Write).unwrap();
    let mut wrong = connect("{\"subscribe\":[\"weather\"]}\n");
    let mut text = String::new();
    wrong.read_to_string(&mut text).unwrap();
    assert!(text.contains("`weather` is nothing to subscribe to"), "{text}");
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
        let mut stream = connect("{\"command\":\"help\"}\n");
        let mut answer = [0; 11];
        stream.read_exact(&mut answer).unwrap();
        let others: Vec<_> = (0..13).map(|_| connect("{\"command\":\"help\"}\n")).collect();
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
        // What was on its way; then nothing.
        let _ = stream.read_to_end(&mut all);
        assert!(all.starts_with(b"{\"ok\":true"));
    }
}
