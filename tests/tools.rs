//! The tools around the switch: what they make is run.

use crate::common::{self, TempDir, program, run};
use std::path::Path;

/// The first words of a listing's lines: the files.
fn files(listing: &str) -> Vec<String> {
    listing.lines().map(|line| line.split(": ").next().unwrap_or_default().to_string()).collect()
}

/// Every packet of a generated capture is carried by every shipped program that has entries for it.
#[test]
fn generated_entries_fit_generated_packets() {
    let mut programs = 0;
    for (protocol, transport, random, n) in [
        ("l2", "udp", "mac", "1000"),
        ("ipv4", "tcp", "port", "1000"),
        ("ipv4", "udp", "all", "1000"),
        ("ipv6", "udp", "all", "300"),
        ("ipv6", "tcp", "ip", "2000"),
        ("vxlan", "tcp", "all", "500"),
        ("gre", "udp", "ip,mac", "500"),
    ] {
        let dir = TempDir::new("gen");
        let out = dir.path().to_str().unwrap();
        let made = run(&[
            "gen", "-p", protocol, "-t", transport, "-n", n, "--random", random, "--sizes", "64,300", "-o",
            out,
        ])
        .expect_status(0);
        let files = files(&made.stdout);
        let captures: Vec<_> = files.iter().filter(|f| f.ends_with(".pcap")).collect();
        assert_eq!(captures.len(), 2, "{}", made.stdout);
        let raised = made.stdout.contains("(the headers do not fit in 64)");
        assert_eq!(raised, matches!(protocol, "ipv6" | "vxlan" | "gre"), "{}", made.stdout);
        for entries in files.iter().filter(|f| f.ends_with(".cmd")) {
            programs += 1;
            let name = Path::new(entries).file_stem().unwrap().to_str().unwrap().rsplit('.').next().unwrap();
            let program = program(name);
            for capture in &captures {
                let done = run(&[
                    "bench",
                    program.to_str().unwrap(),
                    "--commands",
                    entries,
                    "--pcap",
                    capture,
                    "--seconds",
                    "0.01",
                    "--json",
                ])
                .expect_status(0);
                let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
                assert_eq!(report["drops"], 0, "{protocol} {name}: {report}");
                assert!(report["entries"].as_u64() >= n.parse().ok(), "{protocol} {name}: {report}");
            }
        }
        let flows = files.iter().find(|f| f.ends_with(".flows.txt")).expect("the list of flows");
        let flows = std::fs::read_to_string(flows).unwrap();
        assert_eq!(flows.lines().count().to_string(), (n.parse::<u32>().unwrap() + 1).to_string());
        let columns = |line: Option<&str>| line.unwrap().trim_start_matches("# ").split(' ').count();
        assert_eq!(columns(flows.lines().next()), columns(flows.lines().last()), "{flows}");
    }
    assert_eq!(programs, 30);
}

/// Seven sizes; the same seed makes the same bytes.
#[test]
fn generated_captures_repeat() {
    let dir = TempDir::new("gen");
    let make = |folder: &str, seed: &str| {
        let out = dir.file(folder);
        let made = run(&["gen", "-n", "50", "--perf", "--random", "all", "--seed", seed, "-o", &out])
            .expect_status(0);
        let captures = files(&made.stdout).into_iter().filter(|f| f.ends_with(".pcap"));
        captures.map(|f| std::fs::read(f).unwrap()).collect::<Vec<_>>()
    };
    let first = make("a", "7");
    assert_eq!(
        first.iter().map(|c| (c.len() - 24) / 50 - 16 + 4).collect::<Vec<_>>(),
        [64, 128, 256, 512, 1024, 1280, 1518]
    );
    assert_eq!(first, make("b", "7"));
    assert_ne!(first, make("c", "8"));
}

#[test]
fn wrong_use_of_gen_is_said() {
    run(&["gen", "--sizes", "60"]).expect_status(2).says(&["a size is 60: expected 64 to 65535"]);
    run(&["gen", "-n", "0"]).expect_status(2).says(&["the number of entries is 0: expected 1 to 1000000"]);
    run(&["gen", "--entries-for", "nothing"]).expect_status(2).says(&["no entries of `nothing`", "basic_l2"]);
    let program = program("basic_l2");
    let derived = ["gen", "--program", program.to_str().unwrap()];
    run(&[&derived[..], &["--paths", "0"]].concat())
        .expect_status(2)
        .says(&["--paths 0: expected at least 1"]);
    run(&[&derived[..], &["--loops", "0"]].concat())
        .expect_status(2)
        .says(&["--loops 0: expected at least 1"]);
    run(&["gen", "-o", "/proc/nothing/here"]).expect_status(3).says(&["cannot write /proc/nothing/here"]);
}

/// Derives packets for a program; gives the report.
fn derive(program: &Path, dir: &TempDir, more: &[&str]) -> serde_json::Value {
    let mut arguments = vec!["gen", "--json", "-o", dir.path().to_str().unwrap(), "--program"];
    arguments.push(program.to_str().unwrap());
    arguments.extend(more);
    let made = run(&arguments).expect_status(0);
    serde_json::from_str(&made.stdout).unwrap()
}

/// Every packet went the way that it was made for, and so did one on each way through the parser.
#[track_caller]
fn check_ways(program: &Path, report: &serde_json::Value) {
    let packets = report["packets"].as_array().unwrap();
    assert!(packets.iter().all(|packet| packet["taken"] == true), "{}: {report}", program.display());
    assert!(report["paths"].as_u64() > Some(0), "{}: {report}", program.display());
    assert_eq!(report["paths"], report["paths_taken"], "{}", program.display());
}

#[test]
fn derived_packets_cover_the_shipped_programs() {
    for folder in common::program_folders() {
        let name = common::stem(&folder);
        let program = program(&name);
        let dir = TempDir::new("derive");
        let report = derive(program.as_ref(), &dir, &[]);
        check_ways(program.as_ref(), &report);
        assert_eq!(report["states"], report["states_taken"], "{name}");
        for (table, counts) in report["tables"].as_object().unwrap() {
            assert!(
                counts["hits"].as_u64() > Some(0) && counts["misses"].as_u64() > Some(0),
                "{name} {table}"
            );
        }
        for (action, count) in report["actions"].as_object().unwrap() {
            assert!(count.as_u64() > Some(0), "{name} {action}");
        }
        let decisions = report["decisions"].as_array().unwrap();
        let missing: Vec<_> = decisions.iter().filter(|d| d["taken"] == false).collect();
        assert!(missing.iter().all(|d| d["why"].is_string()), "{name}: {missing:?}");
        // What is always computed, what a drop port does that nothing sets, what follows where all is dropped.
        let missing_max = if decisions.len() > 100 { decisions.len() / 20 } else { 16 };
        assert!(missing.len() <= missing_max, "{name}: {missing:#?}");
        // The files are what was reported on: both engines do the same with them.
        for files in report["files"].as_array().unwrap() {
            let [capture, commands] = ["capture", "commands"].map(|key| files[key].as_str().unwrap());
            let digests = ["jit", "interp"].map(|engine| {
                let done = run(&[
                    "bench",
                    program.to_str().unwrap(),
                    "--pcap",
                    capture,
                    "--commands",
                    commands,
                    "--engine",
                    engine,
                    "--seconds",
                    "0.01",
                    "--json",
                ])
                .expect_status(0);
                let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
                report["digest"].as_str().unwrap().to_string()
            });
            assert_eq!(digests[0], digests[1], "{name} {capture}");
        }
    }
}

/// The router's own entries: its routes are hit, and what is added goes with them.
#[test]
fn derived_packets_fit_entries_that_are_there() {
    let program = program("acl_router");
    let dir = TempDir::new("derive");
    let commands = program.with_file_name("entries.cmd");
    let report = derive(program.as_ref(), &dir, &["--commands", commands.to_str().unwrap(), "--seed", "5"]);
    check_ways(program.as_ref(), &report);
    let made = report["files"][0]["commands"].as_str().unwrap();
    let (made, given) = (std::fs::read_to_string(made).unwrap(), std::fs::read_to_string(commands).unwrap());
    assert!(made.starts_with(given.trim_end()), "{made}");
    let added = made.lines().skip(given.lines().count()).filter(|line| line.starts_with("table_add")).count();
    assert!(added > 3, "{made}");
    let decisions = report["decisions"].as_array().unwrap();
    let missing: Vec<_> = decisions.iter().filter(|d| d["taken"] == false).collect();
    // The default routes leave no address to miss.
    assert!(missing.len() <= 4, "{missing:?}");
    for (action, count) in report["actions"].as_object().unwrap() {
        assert!(count.as_u64() > Some(0), "{action}");
    }
}

/// Every construct of the language: what is solved is right, and all ways through these parsers are.
#[test]
fn derived_packets_go_their_ways_in_every_language_test() {
    let mut packets = 0;
    let folder = common::root().join("tests/language");
    let mut programs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    programs.retain(|path| path.extension().is_some_and(|e| e == "p4"));
    programs.sort();
    for program in programs {
        let dir = TempDir::new("derive");
        let report = derive(program.as_ref(), &dir, &[]);
        check_ways(program.as_ref(), &report);
        packets += report["packets"].as_array().unwrap().len();
    }
    assert!(packets > 300, "{packets}");
}

/// Ports that the program asks for, a header with a right checksum, packets that end early, copies.
#[test]
fn derived_packets_come_by_other_ports_and_are_copied() {
    let dir = TempDir::new("derive");
    let program = dir.write(
        "ports.p4",
        r#"
#include <core.p4>
#include <v1model.p4>
header words_t { bit<16> a; bit<16> b; bit<16> sum; }
struct headers_t { words_t words; words_t more; }
struct meta_t { }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        transition select(s.ingress_port) { 7: words; 9 .. 11: both; default: accept; }
    }
    state words { p.extract(h.words); transition accept; }
    state both { p.extract(h.words); p.extract(h.more); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action to_group(bit<16> group) { s.mcast_grp = group; }
    table groups { key = { h.words.a: exact; } actions = { to_group; NoAction; } default_action = NoAction(); }
    apply {
        bit<16> sum = 0;
        if (s.parser_error != error.NoError) { mark_to_drop(s); return; }
        if (h.words.isValid()) {
            hash(sum, HashAlgorithm.csum16, 16w0, { h.words.a, h.words.b, h.words.sum }, 32w0x10000);
            if (sum == 0) { groups.apply(); } else { mark_to_drop(s); }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action mark() { h.words.b = 1; }
    table replicas { key = { s.egress_rid: exact; } actions = { mark; NoAction; } default_action = NoAction(); }
    apply { if (s.instance_type == 5) { replicas.apply(); } }
}
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#,
    );
    let program = Path::new(&program);
    let report = derive(program, &dir, &[]);
    check_ways(program, &report);
    assert_eq!(report["states"], report["states_taken"], "{report}");
    for (table, counts) in report["tables"].as_object().unwrap() {
        assert!(
            counts["hits"].as_u64() > Some(0) && counts["misses"].as_u64() > Some(0),
            "{table}: {report}"
        );
    }
    let decisions = report["decisions"].as_array().unwrap();
    let missing: Vec<_> = decisions.iter().filter(|d| d["taken"] == false).collect();
    assert!(
        missing.len() <= 3 && missing.iter().all(|d| d["why"] == "what came before decides it"),
        "{missing:#?}"
    );
    let ports: std::collections::BTreeSet<u64> =
        report["files"].as_array().unwrap().iter().map(|file| file["port"].as_u64().unwrap()).collect();
    assert!(
        ports.contains(&0) && ports.contains(&7) && ports.iter().any(|p| (9..=11).contains(p)),
        "{ports:?}"
    );
    // All by one.
    let report = derive(program, &dir, &["--port", "7"]);
    check_ways(program, &report);
    assert_eq!(report["paths"], 1, "{report}");
    assert!(report["packets"].as_array().unwrap().iter().all(|packet| packet["port"] == 7), "{report}");
}

#[test]
fn derived_traffic_reports_what_it_cannot_reach() {
    let program = common::program("basic_l2");
    let dir = TempDir::new("derive");
    let out = dir.path().to_str().unwrap();
    let text = run(&["gen", "--program", program.to_str().unwrap(), "-o", out]).expect_status(0);
    text.prints(&[
        "paths through the parser  1 of 1",
        "actions run               2 of 2",
        "Not made:",
        "egress_drop",
    ]);
    run(&["gen", "--program", "x.p4", "-n", "5"]).expect_status(2);
    run(&["gen", "--program", "/no/such.p4"]).expect_status(1).says(&["/no/such.p4"]);
    run(&["gen", "--commands", "x.cmd"]).expect_status(2).says(&["--program"]);
}

/// What a tunnel's ingress does, counted by hand from its text.
#[test]
fn complexity_is_counted() {
    let dir = TempDir::new("complexity");
    let program = dir.write(
        "tunnel.p4",
        r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header tunnel_t { bit<24> vni; bit<8> ttl; }
header inner_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { ethernet_t ethernet; tunnel_t tunnel; inner_t inner; }
struct meta_t { bit<4> mode; bit<20> unused; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.ethernet);
        transition select(h.ethernet.type) { 0x88b5: tunnel; 0x88b6: tunnel; default: accept; }
    }
    state tunnel { p.extract(h.tunnel); p.extract(h.inner); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(4) seen;
    action push(bit<24> vni, bit<9> port) {
        h.inner.setValid();
        h.inner.dst = h.ethernet.dst;
        h.inner.src = h.ethernet.src;
        h.inner.type = h.ethernet.type;
        h.tunnel.setValid();
        h.tunnel.vni = vni;
        h.tunnel.ttl = 64;
        m.mode = 1;
        s.egress_spec = port;
    }
    action pop(bit<9> port) {
        h.ethernet.setInvalid();
        h.tunnel.setInvalid();
        h.tunnel.ttl = h.tunnel.ttl - 1;
        s.egress_spec = port;
        seen.write(0, 1);
    }
    action drop() { mark_to_drop(s); }
    table in_ {
        key = { h.ethernet.dst : exact; s.ingress_port : exact; }
        actions = { push; drop; }
        default_action = drop();
    }
    table out_ { key = { h.tunnel.vni : ternary; } actions = { pop; drop; } default_action = drop(); }
    apply {
        if (h.tunnel.isValid()) { out_.apply(); } else { in_.apply(); }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#,
    );
    let (svg, dot) = (dir.file("graph.svg"), dir.file("graph.dot"));
    let arguments = ["check", &program, "--Wdisable", "--complexity"];
    let text = run(&[&arguments[..], &["--svg", &svg, "--dot", &dot]].concat()).expect_status(0);
    text.prints(&[
        "| Parsing | packet headers | 3 | 3 |",
        "1 × exact[48]+exact[9]",
        "| start tunnel | I.out_ |",
    ]);
    let done = run(&[&arguments[..], &["--json"]].concat()).expect_status(0);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let whole = &report["program"];
    for (key, expect) in [
        ("packet_headers", 3),
        ("packet_fields", 8),
        ("branches_in_the_parse_graph", 1),
        ("tables", 2),
        ("header_adds", 2),
        ("header_copies", 1),
        ("header_removes", 2),
        ("register_writes", 1),
        ("register_reads", 0),
        ("checksums", 0),
    ] {
        assert_eq!(whole[key], expect, "{key}: {whole}");
    }
    assert_eq!(report["depth"], 1);
    assert_eq!(whole["lookups"], serde_json::json!({ "exact[48]+exact[9]": 1, "ternary[24]": 1 }));
    assert_eq!(
        whole["metadata"]["meta.mode"].as_u64().or(whole["metadata"]["m.mode"].as_u64()),
        Some(4),
        "{whole}"
    );
    let paths = report["paths"].as_array().unwrap();
    let push =
        paths.iter().find(|p| p["counts"]["header_copies"] == 1).expect("a packet is put into a tunnel");
    assert_eq!(push["states"], serde_json::json!(["start"]));
    assert_eq!((&push["counts"]["packet_headers"], &push["counts"]["header_adds"]), (&1.into(), &2.into()));
    assert_eq!(push["counts"]["field_writes"], 2, "{push}");
    let pop =
        paths.iter().find(|p| p["counts"]["header_removes"] == 2).expect("a packet is taken out of a tunnel");
    assert_eq!((&pop["counts"]["packet_headers"], &pop["counts"]["header_adds"]), (&3.into(), &0.into()));
    assert_eq!(pop["counts"]["lookups"], serde_json::json!({ "ternary[24]": 1 }));
    let svg = std::fs::read_to_string(svg).unwrap();
    let dot = std::fs::read_to_string(dot).unwrap();
    for word in ["extract h.tunnel", "table I.out_", "0x88b5"] {
        assert!(svg.contains(word) && dot.contains(word), "{word}\n{dot}");
    }
}

#[test]
fn every_language_test_has_a_complexity() {
    for entry in std::fs::read_dir(common::root().join("tests/language")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "p4") {
            let dir = TempDir::new("complexity");
            let picture = dir.file("graph.svg");
            run(&["check", path.to_str().unwrap(), "--complexity", "--svg", &picture]).expect_status(0);
            assert!(std::fs::read_to_string(picture).unwrap().ends_with("</svg>\n"), "{}", path.display());
        }
    }
}

#[test]
fn load_balance_is_studied() {
    let dir = TempDir::new("lb");
    let svg = dir.file("heat.svg");
    let done = run(&["lb", "--hosts", "1024", "--repetitions", "10", "--svg", &svg]).expect_status(0);
    done.prints(&[
        "Mean error with 1024 hosts",
        "| crc32c | ",
        "| random | ",
        "| root mean square of an ideal hash | 1.60 | ",
    ]);
    assert!(std::fs::read_to_string(svg).unwrap().contains("0xd175, 95th percentile"));
    let arguments = ["lb", "--hosts", "256", "--hash", "crc32,random", "--servers", "2,512", "--json"];
    let report: serde_json::Value = serde_json::from_str(&run(&arguments).expect_status(0).stdout).unwrap();
    let cells = report["hashes"]["crc32"].as_array().unwrap();
    assert_eq!(cells.len(), 8);
    assert!(cells[7][0]["mean"].as_f64() > Some(0.0) && cells[7][1].is_null(), "{report}");
    run(&["lb", "--hosts", "1000"]).expect_status(2).says(&["1000 hosts: expected a power of two"]);
    run(&["lb", "--hash", "md5"]).expect_status(2).says(&["unknown hash `md5`", "crc32c"]);
}

/// A key in a header that some packets do not have, and no port that anything chooses.
const CAUSES: &str = r#"#include <core.p4>
#include <v1model.p4>
header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header ip_t { bit<96> rest; bit<32> src; bit<32> dst; }
struct headers { eth_t eth; ip_t ip; }
struct meta {}
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.eth); transition select(hdr.eth.type) { 0x800: ip; default: accept; } }
    state ip { p.extract(hdr.ip); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply {} }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    action go(bit<9> port) { s.egress_spec = port; }
    table t { key = { hdr.ip.dst: exact; } actions = { go; NoAction; } }
    table late { key = { hdr.ip.src: exact; } actions = { NoAction; } }
    apply {
        t.apply();
        hdr.ip.setInvalid();
        late.apply();
    }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn a_trace_names_the_cause() {
    let dir = TempDir::new("causes");
    let path = dir.write("causes.p4", CAUSES);
    let commands = dir.write("go.cmd", "table_add t go 10.0.0.9 => 3\n");
    let trace = |frame: &str| run(&["trace", &path, "--commands", &commands, frame]).expect_status(0);
    // Without the header, nothing chooses a port.
    trace("ip6").prints(&[
        "key hdr.ip.dst (exact) = 0: hdr.ip was never extracted\n",
        "leave by port 0\n  because standard_metadata.egress_spec = 0, which the program never wrote\n",
    ]);
    let output = trace("ip dst=10.0.0.9").prints(&[
        "key hdr.ip.dst (exact) = 0xa000009 (10.0.0.9)\n",
        ": hdr.ip was made invalid at ",
        "causes.p4:18:",
        "leave by port 3\n  because standard_metadata.egress_spec = 3, written by action I.go of table I.t",
    ]);
    assert!(!output.stdout.contains("never"), "{}", output.stdout);
    let json = run(&["trace", &path, "--commands", &commands, "--json", "ip6"]).expect_status(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let steps = json.as_array().unwrap();
    let apply = steps.iter().find(|step| step["step"] == "apply").unwrap();
    assert_eq!(apply["keys"][0]["invalid"], serde_json::json!({"header": "hdr.ip", "since": "never valid"}));
    let sent = steps.last().unwrap();
    assert_eq!(sent["because"][0]["field"], "standard_metadata.egress_spec");
    assert_eq!(sent["because"][0]["written"], false);
}

#[test]
fn captures_and_layers_are_traced() {
    let dir = TempDir::new("layers");
    let path = dir.write("causes.p4", CAUSES);
    let frames = [vec![0; 60], vec![1; 61], vec![2; 62]];
    let capture = dir.write("three.pcap", common::pcap(&frames));
    let output = run(&["trace", &path, "--pcap", &capture]).expect_status(0);
    for (i, frame) in frames.iter().enumerate() {
        let text = format!("packet {} of the capture:\npacket of {} bytes arrives", i + 1, frame.len());
        assert!(output.stdout.contains(&text), "{}", output.stdout);
    }
    let output = run(&["trace", &path, "--pcap", &capture, "--first", "2"]).expect_status(0);
    assert!(!output.stdout.contains("packet 3 of"), "{}", output.stdout);
    output.prints(&["packet 2 of the capture:", "The capture goes on; --first 2 ends here."]);
    let output = run(&["trace", &path, "--pcap", &capture, "--json"]).expect_status(0);
    let documents = output.stdout.lines().filter(|l| serde_json::from_str::<serde_json::Value>(l).is_ok());
    assert_eq!(documents.count(), 3, "{}", output.stdout);
    run(&["trace", &path, "--pcap", &capture, "00"]).expect_status(2);
    run(&["trace", &path, "--pcap", &dir.file("none.pcap")]).expect_status(1).says(&["none.pcap"]);

    // The words of an expression may be one argument or several.
    run(&["trace", &path, "--port", "2", "ip dst=10.0.0.1 / tcp dport=80"])
        .expect_status(0)
        .prints(&["packet of 54 bytes arrives at port 2", "hdr.ip.dst = 0xa000001 (10.0.0.1)"]);
    run(&["trace", &path, "ip", "dst=10.0.0.7"]).expect_status(0).prints(&["(10.0.0.7)"]);
    run(&["trace", &path, "ip dst=10.0.0.1 / tpc"])
        .expect_status(2)
        .says(&["unknown layer `tpc`: did you mean `tcp`?", "layers: eth, vlan, ip"]);
}

#[test]
fn check_takes_several_programs_and_standard_input() {
    let dir = TempDir::new("several");
    let fine = dir.write("fine.p4", CAUSES);
    let wrong = dir.write("wrong.p4", CAUSES.replace("hdr.ip.dst: exact", "hdr.ip.dts: exact"));
    run(&["check", &fine, &fine]).expect_status(0);
    // What comes after a wrong program is checked, too.
    let output = run(&["check", &wrong, &fine, &dir.file("none.p4"), &wrong]).expect_status(1);
    assert_eq!(output.stderr.matches("unknown-field").count(), 2, "{}", output.stderr);
    output.says(&["none.p4"]);
    run(&["check", &fine, &fine, "--ir"]).expect_status(2).says(&["--ir", "one program"]);
    run(&["check", "-", "-"]).expect_status(2).says(&["twice"]);

    let check_stdin = |text: &str, more: &[&str]| {
        let path = dir.write("stdin.p4", text);
        let input = std::fs::File::open(path).unwrap();
        common::run_command(common::p4jet().args(["check", "-"]).args(more).stdin(input))
    };
    check_stdin(CAUSES, &[]).expect_status(0);
    check_stdin("control C( {}", &[]).expect_status(1).says(&["--> <stdin>:1:12"]);
}

#[test]
fn diagnostics_as_json() {
    let dir = TempDir::new("json");
    let wrong = dir.write("wrong.p4", CAUSES.replace("hdr.ip.dst: exact", "hdr.ip.dts: exact"));
    let none = dir.file("none.p4");
    let output = run(&["check", &wrong, &none, "--diagnostics", "json"]).expect_status(1);
    let objects: Vec<serde_json::Value> =
        output.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let error = objects.iter().find(|object| object["severity"] == "error").unwrap();
    assert_eq!(error["file"], wrong.as_str());
    assert_eq!(error["line"], 14, "{error}");
    assert_eq!(error["column"], 30, "{error}");
    assert_eq!(error["end"], serde_json::json!({"line": 14, "column": 33}));
    assert_eq!(error["code"], "unknown-field");
    assert_eq!(error["choices"][0], "dst", "{error}");
    assert!(error["choices"].as_array().unwrap().len() >= 3, "{error}");
    assert!(error["message"].as_str().unwrap().contains("dts"), "{error}");
    let last = objects.last().unwrap();
    assert_eq!(last["file"], none.as_str());
    assert!(last["line"].is_null());
    // A fine program has warnings at most.
    let fine = dir.write("fine.p4", CAUSES);
    let output = run(&["check", &fine, "--diagnostics", "json"]).expect_status(0);
    for line in output.stderr.lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect(line);
        assert_eq!(object["severity"], "warning");
    }
}

#[test]
fn completions_and_manual_pages_come_from_the_command_line() {
    for shell in ["bash", "zsh", "fish"] {
        run(&["completions", shell]).expect_status(0).prints(&["p4jet", "trace", "pcap"]);
    }
    run(&["completions", "tcsh"]).expect_status(2).says(&["bash", "fish"]);
    run(&["man"]).expect_status(0).prints(&[".TH p4jet 1"]);
    let dir = TempDir::new("man");
    let pages = dir.file("pages");
    run(&["man", &pages]).expect_status(0);
    let page = std::fs::read_to_string(Path::new(&pages).join("p4jet-trace.1")).unwrap();
    assert!(page.contains("pcap"), "{page}");
    let file = dir.write("file", "");
    run(&["man", &file]).expect_status(3).says(&["cannot write", &file]);
}

#[test]
fn derived_packet_tests_pass_on_both_engines() {
    for name in ["basic_l2", "simple_router"] {
        let dir = TempDir::new("stf");
        let path = program(name);
        let path = path.to_str().unwrap();
        let (out, stf) = (dir.file("out"), dir.file("tests"));
        run(&["gen", "--program", path, "--out", &out, "--stf", &stf])
            .expect_status(0)
            .prints(&["a packet test with"]);
        let tests = common::stf_files(dir.path());
        let text: String = tests.iter().map(|test| std::fs::read_to_string(test).unwrap()).collect();
        for part in ["table_add", "\npacket 0 ", "\nexpect ", "\nno_packet\n"] {
            assert!(text.contains(part), "{name}: {part}: {text}");
        }
        let mut words =
            vec!["test".to_string(), path.to_string(), "--engine".to_string(), "both".to_string()];
        words.extend(tests.iter().map(|test| test.to_str().unwrap().to_string()));
        run(&words).expect_status(0).prints(&[&format!("{} passed, 0 failed\n", tests.len())]);
        // The expectations are looked at: another frame is noticed.
        let text = std::fs::read_to_string(&tests[0]).unwrap();
        let other = dir.write("other.stf", text.replacen("\nexpect ", "\nexpect 1 00$\nexpect ", 1));
        run(&["test", path, &other]).expect_status(1);
    }
}
