//! The operator's view of a running switch: metrics, and counts of lookups, actions and drops with their source lines.

use crate::common::{self, TempDir, pcap};
use num_bigint::BigUint;
use p4jet_dataplane::{
    BytePattern, CaptureSpec, EngineKind, FieldPattern, NewPort, Observer, ProgramStats, RunOptions, Running,
    Switch, TRACE_BYTES_MAX, TraceEvent, TraceSpec, Verdict,
};
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{Port, PortError, PortStats, Received, Sent};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = r#"#include <v1model.p4>
header h_t { bit<8> key; bit<8> kind; }
struct headers { h_t h; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control In(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    register<bit<32>>(4) seen;
    action to(bit<9> port) { sm.egress_spec = port; }
    action unknown() {
        mark_to_drop(sm);
    }
    table t {
        key = { hdr.h.key : exact; }
        actions = { to; unknown; }
        default_action = unknown();
        const entries = { 1 : to(1); 2 : to(2); 3 : to(1); 9 : unknown(); }
    }
    apply {
        bit<32> n;
        seen.read(n, 0);
        seen.write(0, n + 1);
        t.apply();
        if (hdr.h.kind == 7) {
            mark_to_drop(sm);
        }
    }
}
control Eg(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), In(), Eg(), C(), D()) main;
"#;

/// 64 packets: by key 1 to 4 and 9, every eighth of kind 7.
fn frames() -> Vec<Vec<u8>> {
    (0..64u8).map(|i| vec![[1, 2, 3, 4, 9, 1, 1, 1][usize::from(i % 8)], if i < 8 { 7 } else { 0 }]).collect()
}

/// Delivers its frames once.
struct Once(Vec<Vec<u8>>);

impl Port for Once {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let before = batch.len();
        while let Some(frame) = self.0.first() {
            if batch.push(pool, number, frame).is_err() {
                break;
            }
            self.0.remove(0);
        }
        Ok(if batch.len() > before { Received::Packets(batch.len() - before) } else { Received::Empty })
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        Ok(Sent { sent: frames.len(), dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }
}

fn programs() -> (Arc<Switch>, Arc<Switch>) {
    match common::chain::compile("seeing.p4", PROGRAM, p4jet_jit::Options::default()) {
        common::chain::Outcome::Compiled { reference, optimised } => (reference, optimised),
        common::chain::Outcome::Refused(stage) => panic!("refused by `{stage}`"),
    }
}

fn start(switch: &Arc<Switch>, engine: EngineKind) -> Running {
    let options = RunOptions { engine, frame_max: 2048, listener: Arc::new(|_| ()) };
    Running::start(switch, options).unwrap()
}

/// Sends another 64 packets.
fn feed(running: &Running, number: u32) {
    let before = running.stats().received;
    let port = NewPort { number, spec: "once".into(), handles: vec![Box::new(Once(frames()))] };
    running.add_ports(vec![port]).unwrap();
    until("packets", || (running.stats().received == before + 64).then_some(()));
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + common::DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "no {what} in time");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn program_counts_start_with_the_first_request() {
    let (reference, optimised) = programs();
    let mut seen: Vec<ProgramStats> = Vec::new();
    for (switch, engine) in [(reference, EngineKind::Interp), (optimised, EngineKind::Jit)] {
        let running = start(&switch, engine);
        feed(&running, 1);
        assert_eq!(running.sample().1, ProgramStats::default(), "nobody asked");
        let counting = common::set_counted(&running, true);
        assert!(counting.is_counted());
        feed(&running, 2);
        let stats = running.sample().1;
        // After a reload, even of the same program, counting continues.
        running.reload(switch.program().clone()).unwrap();
        feed(&running, 3);
        let twice = running.sample().1;
        let table = &twice.tables["In.t"];
        assert_eq!((table.hits, table.misses), (112, 16));
        common::set_counted(&running, false);
        feed(&running, 4);
        assert_eq!(running.sample().1, twice, "nobody asks any more");
        // The state was there all the time.
        assert_eq!(running.switch().state().register_read(0, 0).unwrap(), 256u32.into());
        seen.push(stats);
    }
    let stats = &seen[0];
    assert_eq!(*stats, seen[1], "interpreter (left) and machine code (right)");
    let table = &stats.tables["In.t"];
    assert_eq!((table.hits, table.misses), (56, 8));
    let actions: Vec<_> = table.actions.iter().map(|(action, n)| (action.as_str(), *n)).collect();
    assert_eq!(actions, [("In.to", 48), ("In.unknown", 16)]);
    let drops: Vec<_> =
        stats.drops.iter().map(|((why, at), n)| (why.contains("drop port"), at.as_str(), *n)).collect();
    // The table would drop 16, for 2 of which the condition decides.
    assert_eq!(drops, [(true, "seeing.p4:14", 14), (true, "seeing.p4:28", 8)]);
}

/// A switch that runs until it is dropped.
struct Switching {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Switching {
    fn start(arguments: &[&str]) -> Switching {
        let mut command = common::p4jet();
        command
            .arg("run")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Switching { child, said }
    }

    /// Returns the rest of the next line on standard error that contains these words.
    fn says(&mut self, words: &str) -> String {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap() > 0 {
            if let Some((_, rest)) = line.split_once(words) {
                return rest.trim().to_string();
            }
            line.clear();
        }
        panic!("it never said `{words}`");
    }
}

impl Drop for Switching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A client that keeps sending is disconnected.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn prometheus_gets_its_numbers() {
    let dir = TempDir::new("metrics");
    let program = dir.write("seeing.p4", PROGRAM);
    let captured = dir.write("in.pcap", pcap(&frames()));
    let port = format!("0@pcap:{captured},{}", dir.file("out.pcap"));
    let other = format!("1@pcap:{},{}", dir.write("none.pcap", pcap(&[])), dir.file("out1.pcap"));
    let arguments = [program.as_str(), "-i", &port, "-i", &other, "--metrics", "127.0.0.1:0", "--stdin"];
    let mut switch = Switching::start(&arguments);
    let url = switch.says("metrics at http://");
    let address = url.strip_suffix("/metrics").unwrap().to_string();
    // A silent client and one that sends nonsense do not affect others.
    let silent: Vec<_> = (0..8).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert_eq!(get(&address, &format!("{}\r\n\r\n", "x".repeat(20_000))), "");
    assert!(get(&address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(get(&address, "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    let text = until("64 packets", || {
        let text = get(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        text.contains("\np4jet_received_packets_total 64\n").then_some(text)
    });
    drop(silent);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let name = program.as_str();
    for line in [
        "p4jet_info{program=\"seeing\",version=\"0.1.0\"} 1",
        "p4jet_port_up{port=\"0\",spec=\"pcap:",
        "p4jet_port_receive_packets_total{port=\"0\"} 64",
        "p4jet_port_receive_bytes_total{port=\"0\"} 128",
        "p4jet_port_transmit_packets_total{port=\"1\"} 35",
        "p4jet_no_port_packets_total{port=\"2\"} 7",
        "p4jet_table_entries{table=\"In.t\"} 4",
        "p4jet_table_hits_total{table=\"In.t\"} 56",
        "p4jet_table_misses_total{table=\"In.t\"} 8",
        "p4jet_action_runs_total{table=\"In.t\",action=\"In.to\"} 48",
        &format!("place=\"{name}:14\"}} 14"),
        &format!("place=\"{name}:28\"}} 8"),
        "p4jet_worker_batch_packets_sum{worker=\"0\"} 64",
        "p4jet_worker_busy_seconds_total{worker=\"0\"} ",
        "process_resident_memory_bytes ",
    ] {
        assert!(body.contains(line), "no `{line}` in\n{body}");
    }
    // Every sample belongs to a declared family and has a number.
    let mut family = "";
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap();
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(family), "{line} under {family}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}

fn field(name: &str, value: u32) -> FieldPattern {
    FieldPattern { field: name.into(), value: value.into(), mask: BigUint::from(0xffu32) }
}

#[test]
fn live_packets_are_traced_without_being_counted_twice() {
    let (reference, optimised) = programs();
    optimised.set_lowered(Arc::new(reference.program().clone()));
    let running = Arc::new(start(&optimised, EngineKind::Jit));
    let observer = Observer::new(Arc::clone(&running));
    let add = |port, bytes: &[BytePattern], fields: &[FieldPattern], count| {
        observer.add_trace(TraceSpec { port, bytes: bytes.to_vec(), fields: fields.to_vec(), count })
    };
    assert!(
        add(None, &[], &[field("h.nothing", 1)], 1)
            .unwrap_err()
            .to_string()
            .contains("no header field `h.nothing`")
    );
    assert!(add(None, &[], &[field("key", 256)], 1).unwrap_err().to_string().contains("8 bits"));
    assert!(add(None, &[], &[], 0).unwrap_err().to_string().contains("expected 1 to 1000"));
    let of_key_2 = add(None, &[], &[field("hdr.h.key", 2)], 3).unwrap();
    let of_kind_7 =
        add(None, &[BytePattern { at: 1, value: vec![7], mask: vec![0xff] }], &[field("key", 9)], 10)
            .unwrap();
    let elsewhere = add(Some(5), &[], &[], 10).unwrap();
    feed(&running, 1);
    let taken = |id| observer.traced(id).unwrap();
    until("traces", || (taken(of_key_2).len() == 3 && taken(of_kind_7).len() == 1).then_some(()));
    assert_eq!(taken(elsewhere).len(), 0);
    for packet in taken(of_key_2) {
        assert_eq!((packet.port, packet.frame[0]), (1, 2));
        assert!(packet.text.contains("extract hdr.h"), "{}", packet.text);
        let sent = Verdict::Sent { port: 2, frame: packet.frame.clone() };
        let dropped = packet.frame[1] == 7;
        assert!(packet.agrees && (packet.verdict == sent) != dropped, "{packet:?}");
        assert!(packet.json.as_array().is_some_and(|steps| steps.len() > 3));
    }
    let packet = &taken(of_kind_7)[0];
    assert!(matches!(&packet.verdict, Verdict::Dropped(why) if why.contains("drop port")) && packet.agrees);
    assert!(packet.text.contains("seeing.p4:28"), "{}", packet.text);
    // The effects of traces on the register are not visible elsewhere.
    assert_eq!(running.switch().state().register_read(0, 0).unwrap(), 64u32.into());
    // The trace ends after the requested number; another program is traced with its own names.
    common::set_counted(&running, true);
    feed(&running, 2);
    assert_eq!(taken(of_key_2).len(), 3);
    until("second trace", || (taken(of_kind_7).len() == 2).then_some(()));
    let infos: Vec<_> = observer.traces().iter().map(|t| (t.id, t.taken, t.missed)).collect();
    assert_eq!(infos, [(of_key_2, 3, 0), (of_kind_7, 2, 0), (elsewhere, 0, 0)]);
    observer.remove_trace(of_key_2).unwrap();
    assert!(observer.remove_trace(of_key_2).is_err() && observer.traced(of_key_2).is_err());
}

/// The memory of a trace does not grow with the packet's steps, nor that of all traces with their packets.
#[test]
fn traces_of_long_loops_are_bounded() {
    let work = "for (bit<16> i = 0; i < 6000; i = i + 1) { m.a = m.a + i; m.a = m.a ^ 7; } t.apply();";
    let text = PROGRAM.replace("struct meta { }", "struct meta { bit<16> a; }").replace("t.apply();", work);
    let chain = common::chain::compile("long.p4", &text, p4jet_jit::Options::default());
    let common::chain::Outcome::Compiled { reference, optimised } = chain else { panic!("it is refused") };
    optimised.set_lowered(Arc::new(reference.program().clone()));
    // One through a running switch, and one of `p4jet trace`.
    for trace in [optimised.trace_dry(1, &[1, 0], 0).unwrap().0, reference.trace(1, &[1, 0]).unwrap().0] {
        assert!(
            matches!(trace.events[..], [.., TraceEvent::LeftOut { .. }, TraceEvent::Sent { port: 1, .. }]),
            "{:?}",
            trace.events.last()
        );
        assert!(trace.bytes() <= TRACE_BYTES_MAX && trace.events.len() < 10_000, "{}", trace.bytes());
        assert!(trace.render(reference.program()).contains(" further steps are left out\n"));
    }
    let running = Arc::new(start(&optimised, EngineKind::Jit));
    let observer = Observer::new(Arc::clone(&running));
    let id = observer.add_trace(TraceSpec { count: 20, ..TraceSpec::default() }).unwrap();
    feed(&running, 1);
    until("full traces", || (observer.traces()[0].kept_bytes > 64 << 20).then_some(()));
    let taken = observer.traces()[0].taken;
    feed(&running, 2);
    let packets = observer.traced(id).unwrap();
    assert!((4..20).contains(&taken) && packets.len() == taken as usize, "{taken}, {}", packets.len());
    let json: usize = packets.iter().map(|packet| packet.json.to_string().len()).sum();
    assert!(json < 64 << 20, "{json}");
}

#[test]
fn packets_that_come_too_fast_to_be_traced_are_counted() {
    let (_, optimised) = programs();
    let running = Arc::new(start(&optimised, EngineKind::Jit));
    let observer = Observer::new(Arc::clone(&running));
    let id = observer.add_trace(TraceSpec { count: 1000, ..TraceSpec::default() }).unwrap();
    for port in 0..40 {
        feed(&running, port);
    }
    // The workers did not wait for the tracer.
    let all = until("all looked at", || {
        let info = &observer.traces()[0];
        (info.taken == 1000 || u64::from(info.taken) + info.missed == 40 * 64).then(|| info.clone())
    });
    assert!(all.taken >= 64, "{all:?}");
    assert_eq!(observer.traced(id).unwrap().len(), all.taken as usize);
}

#[test]
fn captures_have_received_and_sent_frames() {
    let dir = TempDir::new("captures");
    let (_, optimised) = programs();
    let running = Arc::new(start(&optimised, EngineKind::Jit));
    let observer = Observer::new(Arc::clone(&running));
    let path = |name: &str| std::path::PathBuf::from(dir.file(name));
    let spec = |port, name: &str| CaptureSpec::all(port, &path(name));
    observer.start_capture(CaptureSpec { sent: false, ..spec(3, "in.pcap") }).unwrap();
    observer.start_capture(CaptureSpec { received: false, ..spec(1, "out.pcap") }).unwrap();
    observer.start_capture(CaptureSpec { count: Some(5), snaplen: Some(1), ..spec(3, "cut.pcap") }).unwrap();
    let again = observer.start_capture(spec(1, "out.pcap"));
    assert!(again.unwrap_err().to_string().contains("is being written already"));
    assert!(
        observer
            .start_capture(spec(1, "no/such/folder.pcap"))
            .unwrap_err()
            .to_string()
            .contains("cannot create capture")
    );
    running
        .add_ports(vec![NewPort { number: 1, spec: "once".into(), handles: vec![Box::new(Once(vec![]))] }])
        .unwrap();
    feed(&running, 3);
    assert!(observer.stop_captures(7).unwrap_err().to_string().contains("nothing is captured at port 7"));
    let stopped = observer.stop_captures(3).unwrap();
    assert_eq!(stopped.iter().map(|c| (c.written, c.dropped)).collect::<Vec<_>>(), [(64, 0), (5, 0)]);
    // No longer looked at.
    feed(&running, 4);
    running.finish().unwrap();
    let rest = observer.stop_all_captures();
    assert_eq!(rest.iter().map(|c| (c.port, c.written)).collect::<Vec<_>>(), [(1, 2 * 35)]);
    assert_eq!(common::read_pcap(&dir.file("in.pcap")), frames());
    let sent: Vec<Vec<u8>> = frames().into_iter().filter(|f| [1, 3].contains(&f[0]) && f[1] != 7).collect();
    assert_eq!(common::read_pcap(&dir.file("out.pcap")), [sent.clone(), sent].concat());
    let cut = std::fs::read(dir.file("cut.pcap")).unwrap();
    // A header of 24 bytes and, for each of two frames, 16 and its first byte.
    assert_eq!((cut.len(), &cut[24 + 8..24 + 17]), (24 + 5 * 17, &[1, 0, 0, 0, 2, 0, 0, 0, 1][..]));
}

#[test]
fn an_operator_looks_by_ctl() {
    let dir = TempDir::new("looks");
    let program = dir.write("seeing.p4", PROGRAM);
    let arrived = dir.write("arrived.pcap", pcap(&frames()));
    let empty = format!("1@pcap:{},", dir.write("none.pcap", pcap(&[])));
    let (socket, captured) = (dir.file("socket"), dir.file("captured.pcap"));
    let capture = format!("1@{captured},out,count=10");
    let arguments = [program.as_str(), "-i", &empty, "--stay", "--control", &socket, "--capture", &capture];
    let mut switch = Switching::start(&arguments);
    switch.says(": forwarding between");
    let ctl = |words: &[&str]| {
        let command = ["ctl", "--json", "--socket", &socket].iter().chain(words).copied().collect::<Vec<_>>();
        let answer: serde_json::Value = serde_json::from_str(&common::run(&command).stdout).unwrap();
        answer
    };
    assert_eq!(ctl(&["stats", "on"])["data"]["counted"], true);
    assert_eq!(ctl(&["trace", "add", "h.key=2&&&0xff", "count=2"])["data"]["id"], 1);
    assert_eq!(ctl(&["trace", "add", "bytes=0:04", "port=1"])["data"]["id"], 2);
    for wrong in [
        &["trace", "add", "port=9"][..],
        &["trace", "add", "h.key"],
        &["trace", "add", "bytes=1:0"],
        &["trace", "show", "7"],
        &["capture", "start", "9", "x"],
        &["capture", "start", "1", "x", "sideways"],
        &["stats", "of"],
    ] {
        assert_eq!(ctl(wrong)["ok"], false, "{wrong:?}");
    }
    assert_eq!(ctl(&["port_add", &format!("pcap:{arrived},"), "3"])["ok"], true);
    let stats = until("64 packets", || {
        let stats = ctl(&["stats"])["data"].take();
        (stats["received"] == 64).then_some(stats)
    });
    assert_eq!((&stats["program"], &stats["counted"]), (&"seeing".into(), &true.into()));
    let table = &stats["tables"][0];
    assert_eq!((&table["table"], &table["hits"], &table["misses"]), (&"In.t".into(), &56.into(), &8.into()));
    let places: Vec<_> =
        stats["drops"].as_array().unwrap().iter().map(|d| d["at"].as_str().unwrap()).collect();
    assert_eq!(places, [format!("{program}:14"), format!("{program}:28")]);
    let shown = until("two traces", || {
        let shown = ctl(&["trace", "show"])["data"].take();
        (shown.as_array().unwrap().len() == 2).then_some(shown)
    });
    assert_eq!(
        (&shown[1]["port"], &shown[1]["frame"], &shown[1]["agrees"]),
        (&3.into(), &"0200".into(), &true.into())
    );
    assert_eq!((&shown[1]["did"]["outcome"], &shown[1]["did"]["port"]), (&"sent".into(), &2.into()));
    let text = common::run(&["ctl", "--socket", &socket, "trace", "show", "1"]).stdout;
    assert!(text.contains("the worker did the same: sent 2 bytes to port 2"), "{text}");
    let list = common::run(&["ctl", "--socket", &socket, "trace", "list"]).stdout;
    assert_eq!(list, "trace 1: h.key=0x2&&&0xff 2 of 2 taken\ntrace 2: port=1 bytes=0:04/ff 0 of 1 taken\n");
    assert_eq!(ctl(&["trace", "remove", "1"])["ok"], true);
    let rates = ["top", "--once", "--json", "--interval", "0.1", "--socket", &socket];
    let rates: serde_json::Value =
        serde_json::from_str(&common::run(&rates).expect_status(0).stdout).unwrap();
    assert_eq!((&rates["program"], &rates["pps"]), (&"seeing".into(), &0.0.into()));
    assert_eq!(rates["tables"][0]["actions"].as_array().unwrap().len(), 2);
    let text =
        common::run(&["top", "--once", "--interval", "0.1", "--socket", &socket]).expect_status(0).stdout;
    for part in ["seeing: up ", "In.t  ", "seeing.p4:28)", "WORKER"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let stopped = ctl(&["capture", "stop", "1"]);
    assert_eq!((&stopped["data"][0]["written"], &stopped["data"][0]["dropped"]), (&10.into(), &0.into()));
    assert_eq!(common::read_pcap(&captured).len(), 10);
}

/// `show_queues` prints the depth that applies: 64 where queues follow the links, unless a command sets another.
#[test]
fn the_depth_of_queues_is_that_in_force() {
    let dir = TempDir::new("depths");
    for (reads, default) in [("deq_qdepth", 64), ("packet_length", 16384)] {
        let text = PROGRAM.replace("hdr.h.kind == 7", &format!("hdr.h.kind == 7 || sm.{reads} == 9"));
        let program = dir.write("depths.p4", text);
        let socket = dir.file("socket");
        let mut switch = Switching::start(&[program.as_str(), "-i", "1@mem", "--stay", "--control", &socket]);
        switch.says(": forwarding between");
        let ctl = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            common::run(&[&["ctl", "--socket", &socket], &words[..]].concat()).expect_status(0).stdout
        };
        ctl("set_queue_depth 7 5 2");
        let shown = ctl("show_queues");
        let depths: Vec<&str> =
            shown.lines().filter_map(|l| l.strip_prefix("  ")?.split_whitespace().nth(1)).collect();
        let depth = |depth: usize| depths.iter().filter(|d| **d == depth.to_string()).count();
        assert_eq!((depth(7), depth(default)), (1, 15), "{shown}");
    }
}

#[test]
fn the_log_has_an_event_a_line_and_packets_cannot_flood_it() {
    let dir = TempDir::new("log");
    let logging = PROGRAM.replace("t.apply();", "t.apply();\n        log_msg(\"kind {}\", {hdr.h.kind});");
    let program = dir.write("seeing.p4", logging);
    let many: Vec<_> = frames().into_iter().cycle().take(5000).collect();
    let (arrived, file) = (dir.write("in.pcap", pcap(&many)), dir.file("log"));
    let (port, other) = (format!("0@pcap:{arrived},"), format!("1@pcap:,{}", dir.file("out.pcap")));
    let start = Instant::now();
    let arguments =
        ["run", &program, "-i", &port, "-i", &other, "--log", "json", "--log-file", &file, "--no-control"];
    let said = common::run(&arguments).expect_status(0);
    let seconds = start.elapsed().as_secs() as usize + 1;
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""));
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| lines.iter().filter(|l| l["event"] == event).collect::<Vec<_>>();
    assert!(of("start")[0]["text"].as_str().unwrap().contains("forwarding between 2 ports"));
    assert!(of("stop").iter().any(|l| l["text"] == "5000 packets received"));
    let logged = of("log_msg");
    assert!(logged[0]["text"] == "kind 7" && logged[0]["level"] == "info");
    assert!(logged.len() <= 1000 * seconds, "{} in {seconds} s", logged.len());
    let left_out: usize = of("left_out")
        .iter()
        .map(|l| l["text"].as_str().unwrap().split(' ').next().unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(logged.len() + left_out, 5000);
    // Only events of sufficient severity.
    let arguments = ["run", &program, "-i", &port, "--log", "text", "--log-level", "error", "--no-control"];
    assert_eq!(common::run(&arguments).expect_status(0).stderr, "");
}
