//! The tools around the switch; their output is run.

use crate::common::{self, TempDir, program, run};
use std::path::Path;

/// Returns the first words of a listing's lines: the files.
fn files(listing: &str) -> Vec<String> {
    listing.lines().map(|line| line.split(": ").next().unwrap_or_default().to_string()).collect()
}

/// Every shipped program with entries for a generated capture forwards each of its packets.
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

/// Seven sizes; equal seeds produce equal bytes.
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
fn wrong_use_of_gen_is_reported() {
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

/// Derives packets for a program, and returns the report.
fn derive(program: &Path, dir: &TempDir, more: &[&str]) -> serde_json::Value {
    let mut arguments = vec!["gen", "--json", "-o", dir.path().to_str().unwrap(), "--program"];
    arguments.push(program.to_str().unwrap());
    arguments.extend(more);
    let made = run(&arguments).expect_status(0);
    serde_json::from_str(&made.stdout).unwrap()
}

/// Checks that every packet took its intended path, and that every path through the parser was taken.
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
        // The user plane's parsers have more paths than the search follows.
        if folder.components().any(|part| part.as_os_str() == "upf") {
            assert_eq!(report["paths_more"], true, "{name}");
            continue;
        }
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
        // Exceptions: constant decisions, the effect of a drop port that nothing sets, and code after an unconditional drop.
        let missing_max = if decisions.len() > 100 { decisions.len() / 20 } else { 16 };
        assert!(missing.len() <= missing_max, "{name}: {missing:#?}");
        // The files agree with the report: both engines process them in the same way.
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

/// The router's own entries: its routes are hit, and added entries are compatible with them.
#[test]
fn derived_packets_fit_existing_entries() {
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

/// Every construct of the language: solutions are correct, and all paths through these parsers are taken.
#[test]
fn derived_packets_take_their_paths_in_every_language_test() {
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

/// Ports that the program tests for, a header with a correct checksum, truncated packets, copies.
#[test]
fn derived_packets_use_other_ports_and_are_copied() {
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
        missing.len() <= 3 && missing.iter().all(|d| d["why"] == "an earlier step decides it"),
        "{missing:#?}"
    );
    let ports: std::collections::BTreeSet<u64> =
        report["files"].as_array().unwrap().iter().map(|file| file["port"].as_u64().unwrap()).collect();
    assert!(
        ports.contains(&0) && ports.contains(&7) && ports.iter().any(|p| (9..=11).contains(p)),
        "{ports:?}"
    );
    // All packets arrive at one port.
    let report = derive(program, &dir, &["--port", "7"]);
    check_ways(program, &report);
    assert_eq!(report["paths"], 1, "{report}");
    assert!(report["packets"].as_array().unwrap().iter().all(|packet| packet["port"] == 7), "{report}");
}

#[test]
fn derived_traffic_reports_unreachable_code() {
    let program = common::program("basic_l2");
    let dir = TempDir::new("derive");
    let out = dir.path().to_str().unwrap();
    let text = run(&["gen", "--program", program.to_str().unwrap(), "-o", out]).expect_status(0);
    text.prints(&[
        "paths through the parser  1 of 1",
        "actions run               2 of 2",
        "Decisions not taken:",
        "egress_drop",
    ]);
    run(&["gen", "--program", "x.p4", "-n", "5"]).expect_status(2);
    run(&["gen", "--program", "/no/such.p4"]).expect_status(1).says(&["/no/such.p4"]);
    run(&["gen", "--commands", "x.cmd"]).expect_status(2).says(&["--program"]);
}

/// Returns a program with these states, declarations and statements of the ingress.
fn counted_program(states: &str, declarations: &str, statements: &str) -> String {
    format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header a_t {{ bit<8> x; bit<8> y; bit<16> z; }}
header b_t {{ bit<8> x; bit<8> y; bit<16> z; varbit<64> rest; }}
struct headers_t {{ a_t a; a_t a2; b_t b; a_t[4] s; }}
struct inner_t {{ bit<5> deep; }}
struct meta_t {{ bit<32> m; bit<7> n; inner_t inner; bool flag; }}
control Sub(inout bit<32> v, inout headers_t hdr) {{ apply {{ v = v + 1; hdr.a.x = 1; }} }}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{ {states} }}
control V(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    {declarations}
    apply {{ {statements} }}
}}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{}} }}
control C(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control D(packet_out p, in headers_t h) {{ apply {{ p.emit(h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#
    )
}

/// Small programs with known results: the named counts have these values, and all others are 0.
#[test]
fn complexity_counts_the_source() {
    let start = "state start { transition accept; }";
    let checksum = "hash(m.m, HashAlgorithm.csum16, 32w0, { h.a.x, h.a.y }, 32w9);";
    let table = "action set(bit<8> v) { h.a.x = v; }
        action no() { }
        table t { key = { h.a.x: exact; m.m: ternary; h.a.z: lpm; } actions = { set; no; NoAction; } }";
    // States, declarations, statements, counts.
    let rows: &[(&str, &str, &str, &str)] = &[
        // Headers.
        ("", "", "h.a.setInvalid();", "header_removes 1"),
        ("", "", "h.a.setValid();", "header_adds 1"),
        ("", "", "h.a = h.a2;", "header_copies 1"),
        ("", "", "h.a = { 1, 2, 3 };", "header_adds 1, field_writes 3"),
        ("", "", "h.a.x = h.a2.x; h.a.y = h.a2.y; h.a.z = h.a2.z;", "header_copies 1"),
        ("", "", "h.a.x = h.a2.x; h.a.y = h.a2.y;", "field_writes 2, field_reads 2"),
        ("", "", "h.s.pop_front(2);", "stack_shifts 1, header_removes 2"),
        ("", "", "h.s.push_front(1); h.s[0].setValid();", "stack_shifts 1, header_adds 1"),
        ("", "", "h.s[m.m].x = 1;", "field_writes 1, metadata_reads 1, metadata m.m 32"),
        // Fields, of headers and of metadata; those of the architecture are separate.
        ("", "", "h.a.x = h.a.y;", "field_writes 1, field_reads 1"),
        ("", "", "h.a.x[3:0] = h.a.y[7:4];", "field_writes 1, field_reads 1"),
        ("", "", "m.m = 1;", "metadata_writes 1, metadata m.m 32"),
        (
            "",
            "",
            "m.inner.deep = (bit<5>) m.n[4:0];",
            "metadata_writes 1, metadata_reads 1, metadata m.inner.deep 5, metadata m.n 7",
        ),
        (
            "",
            "",
            "s.egress_spec = s.ingress_port;",
            "architecture_metadata_writes 1, architecture_metadata_reads 1, \
            architecture_metadata standard_metadata.egress_spec 9, \
            architecture_metadata standard_metadata.ingress_port 9",
        ),
        (
            "",
            "",
            "bit<8> v = 1; v = v + h.a.x; h.a.x = v;",
            "arithmetic_expressions 1, field_reads 1, field_writes 1",
        ),
        ("", "", "meta_t own = { 1, 2, { 3 }, true }; own.m = 4;", ""),
        // Operators.
        (
            "",
            "",
            "m.m = m.m + 1 - m.m * 2 << 3;",
            "arithmetic_expressions 4, metadata_reads 2, metadata_writes 1, metadata m.m 32",
        ),
        (
            "",
            "",
            "m.m = m.m & 3 | 4 ^ ~m.m;",
            "bitwise_expressions 4, metadata_reads 2, metadata_writes 1, metadata m.m 32",
        ),
        (
            "",
            "",
            "m.flag = !(m.m == 3) && m.m < 5 || m.m >= 6;",
            "boolean_expressions 6, metadata_reads 3, metadata_writes 1, metadata m.m 32, metadata m.flag 1",
        ),
        (
            "",
            "",
            "m.m += 1;",
            "arithmetic_expressions 1, metadata_reads 1, metadata_writes 1, metadata m.m 32",
        ),
        ("", "", "m.m = 1 + 2 + 3;", "metadata_writes 1, metadata m.m 32"),
        // Branches.
        (
            "",
            "",
            "if (h.a.isValid()) { h.a.x = 1; } else if (h.b.isValid()) { h.b.x = 1; }",
            "branches 2, field_writes 2",
        ),
        (
            "",
            "",
            "switch (h.a.x) { 1: { h.a.y = 1; } 2: { h.a.y = 2; } default: { } }",
            "branches 1, field_reads 1, field_writes 2",
        ),
        ("", "", "m.m = h.a.isValid() ? 32w1 : 2;", "branches 1, metadata_writes 1, metadata m.m 32"),
        (
            "",
            "",
            "for (bit<8> i = 0; i < 4; i = i + 1) { h.a.x = i; }",
            "branches 1, boolean_expressions 1, arithmetic_expressions 1, field_writes 1",
        ),
        ("", "", "for (bit<8> i in 8w1 .. 3) { h.a.x = i; }", "branches 1, field_writes 1"),
        // Externs: one call counts once, even if a header may be invalid or the data have many fields.
        ("", "", checksum, "checksums 1, field_reads 2, metadata_writes 1, metadata m.m 32"),
        (
            "",
            "",
            "hash(m.m, HashAlgorithm.crc16, 32w0, { h.a.x, h.a.y, h.a2.x, h.b.rest }, 32w9);",
            "externs hash(crc16) 1, field_reads 4, metadata_writes 1, metadata m.m 32",
        ),
        (
            "",
            "",
            "hash(m.m, HashAlgorithm.crc32, 32w0, { h.a }, 32w9);",
            "externs hash(crc32) 1, field_reads 3, metadata_writes 1, metadata m.m 32",
        ),
        (
            "",
            "register<bit<32>>(4) r;",
            "r.read(m.m, 0); r.write(1, m.m);",
            "register_reads 1, register_writes 1, metadata_reads 1, metadata_writes 1, metadata m.m 32",
        ),
        (
            "",
            "counter(4, CounterType.packets) c;",
            "c.count(1); c.count(2); mark_to_drop(s);",
            "externs counter.count 2, externs mark_to_drop 1",
        ),
        // Tables and actions.
        (
            "",
            table,
            "t.apply(); t.apply();",
            "tables 1, actions 2, field_reads 2, metadata_reads 1, metadata m.m 32, \
            field_writes 1, lookups exact[8]+ternary[32]+lpm[16] 2",
        ),
        (
            "",
            table,
            "if (t.apply().hit) { }",
            "tables 1, actions 2, branches 1, field_reads 2, metadata_reads 1, \
            metadata m.m 32, field_writes 1, lookups exact[8]+ternary[32]+lpm[16] 1",
        ),
        (
            "",
            table,
            "switch (t.apply().action_run) { set: { h.a.y = 1; } default: { } }",
            "tables 1, actions 2, branches 1, field_reads 2, metadata_reads 1, metadata m.m 32, field_writes 2, \
            lookups exact[8]+ternary[32]+lpm[16] 1",
        ),
        ("", "action twice() { h.a.x = 1; }", "twice(); twice();", "actions 1, field_writes 1"),
        // A table applied at two places counts once; an inout argument is read and written.
        (
            "",
            "Sub() one; Sub() two;",
            "one.apply(m.m, h); two.apply(m.m, h);",
            "arithmetic_expressions 1, field_writes 1, metadata_reads 2, metadata_writes 2, metadata m.m 32",
        ),
        // Unreachable.
        ("", table, "", ""),
        // Parsers.
        (
            "state start { p.extract(h.a); transition select(h.a.x) { 1: next; 2: next; default: accept; } }
          state next { p.extract(h.b, 16); m.m = 1; transition accept; }
          state apart { p.extract(h.a2); transition accept; }",
            "",
            "",
            "parser_states 2, transitions 4, branches_in_the_parse_graph 1, packet_headers 2, packet_fields 7, \
            field_reads 1, metadata_writes 1, metadata m.m 32",
        ),
        (
            "state start { p.extract(h.s.next); transition select(h.s.last.x, m.n) { (1, 2): start; _: accept; } }",
            "",
            "",
            "parser_states 1, transitions 2, branches_in_the_parse_graph 1, packet_headers 1, packet_fields 3, \
            field_reads 1, metadata_reads 1, metadata m.n 7",
        ),
        (
            "state start { verify(s.packet_length > 9, error.NoMatch); if (h.a.isValid()) { h.a.x = 1; } transition accept; }",
            "",
            "",
            "externs verify 1, branches_in_the_parse_graph 1, boolean_expressions 1, field_writes 1, \
            architecture_metadata_reads 1, architecture_metadata standard_metadata.packet_length 32",
        ),
    ];
    let dir = TempDir::new("counts");
    for (states, declarations, statements, expected) in rows {
        let states = if states.is_empty() { start } else { states };
        let program = dir.write("counts.p4", counted_program(states, declarations, statements));
        let done = run(&["check", &program, "--Wdisable", "--complexity", "--json"]).expect_status(0);
        let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        let mut found = std::collections::BTreeSet::new();
        for (key, value) in report["program"].as_object().unwrap() {
            match value {
                // The bits are the sum of the fields, which are compared.
                _ if key.ends_with("_bits") => {}
                serde_json::Value::Object(counts) => {
                    found.extend(counts.iter().map(|(name, n)| format!("{key} {name} {n}")));
                }
                n if n == 0 => {}
                n => drop(found.insert(format!("{key} {n}"))),
            }
        }
        let mut wanted: std::collections::BTreeSet<String> =
            expected.split(", ").filter(|count| !count.is_empty()).map(str::to_string).collect();
        if !expected.contains("parser_states") {
            wanted.extend(["parser_states 1".to_string(), "transitions 1".to_string()]);
        }
        assert_eq!(found, wanted, "{declarations} {statements} {states}");
    }
}

/// A picture of any program is well-formed, fits the width of a page, and has short lines.
#[test]
fn pictures_show_the_source_and_stay_narrow() {
    let dir = TempDir::new("pictures");
    let (svg, dot) = (dir.file("graph.svg"), dir.file("graph.dot"));
    let draw = |program: &str| {
        run(&["check", program, "--Wdisable", "--complexity", "--svg", &svg, "--dot", &dot]).expect_status(0);
        let picture = std::fs::read_to_string(&svg).unwrap();
        check_xml(&picture);
        let width = picture.split("width=\"").nth(1).and_then(|rest| rest.split('"').next());
        let width: u32 = width.and_then(|width| width.parse().ok()).expect("a width");
        assert!(width <= 1600, "{program}: {width} pixels wide");
        let texts =
            picture.split("xml:space=\"preserve\">").skip(1).filter_map(|rest| rest.split('<').next());
        for line in texts {
            let shown = line.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            assert!(shown.chars().count() <= 60, "{program}: {shown}");
        }
        picture
    };
    for folder in common::program_folders() {
        draw(common::program(&common::stem(&folder)).to_str().unwrap());
    }
    let gateway = draw(common::program("vxlan_gateway").to_str().unwrap());
    for text in
        ["parser ParserImpl", "state look_at_ethernet", "tunnels_v4.apply();", "hdr.under_v4.dstAddr: exact"]
    {
        assert!(gateway.contains(text), "{text}");
    }
    let odd = counted_program(
        "state start { p.extract(h.a); transition select(h.a.x) { 1 &&& 0xf: start; 2 .. 9: accept; default: reject; } }",
        "action very(bit<8> a_long_parameter_whose_name_goes_on_and_on_and_on_and_on) { h.a.x = 1; }",
        &format!(
            "{} log_msg(\"<b>&amp; ]]> \u{1} \\\" // 'é' \"); if (m.m < 3 && m.m > 1 {}) {{ very(1); }} {}",
            "if (h.a.x == 1) {".repeat(40) + "exit;" + &"}".repeat(40),
            "&& h.a.isValid() ".repeat(60),
            "h.a.x = h.a.x + 1;".repeat(40),
        ),
    );
    let odd = draw(&dir.write("odd.p4", odd));
    for text in [
        "if (m.m &lt; 3 &amp;&amp; m.m &gt; 1 &amp;&amp; h.a.isValid()",
        "1 &amp;&amp;&amp; 0xf → start",
        "… 25 more",
    ] {
        assert!(odd.contains(text), "{text}\n{odd}");
    }
    let states: String = (0..300)
        .map(|i| {
            let cases: String = (0..4).map(|k| format!("{k}: s{};", (i * 7 + k * 13) % 300)).collect();
            format!(
                "state s{i} {{ transition select(h.a.x) {{ {cases} 4: accept; default: s{}; }} }}",
                (i + 1) % 300
            )
        })
        .collect();
    let many = counted_program(&format!("state start {{ p.extract(h.a); transition s0; }} {states}"), "", "");
    draw(&dir.write("many.p4", many));
}

/// Checks that tags are closed in order, and that XML allows every character.
fn check_xml(text: &str) {
    let mut open = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let content = &rest[..at];
        for entity in content.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|name| entity.starts_with(name)), "&{entity}");
        }
        assert!(!content.contains("]]>"), "{content}");
        let allowed = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
        assert!(content.chars().all(allowed), "{content:?}");
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "<{tag}>");
        let name = tag.split([' ', '\n']).next().unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "</{name}>"),
            None if tag.ends_with('/') || tag.starts_with('?') => {}
            None => open.push(name),
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
}

/// A tunnel's ingress, counted by hand from its text.
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
    for word in
        ["p.extract(h.tunnel);", "table out_", "0x88b5", "h.ethernet.dst: exact", "if (h.tunnel.isValid())"]
    {
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

#[test]
fn delays_are_predicted() {
    let dir = TempDir::new("predict");
    let done = run(&["predict", "--profile", "agilio-cx", "--counts", "1,2,0,0,0,0"]).expect_status(0);
    done.prints(&["agilio-cx: 8.56 µs", "base delay                7.45 µs  measured"]);
    let paths = ["--path-share", "l3:0.75:1,2,0,0,0,0", "--path-share", "decap:0.25:10,0,3,4,0,1", "--json"];
    let done = run(&[&["predict", "--profile", "agilio-cx"][..], &paths].concat()).expect_status(0);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert!((report[0]["us"].as_f64().unwrap() - 10.29).abs() < 1e-9, "{report}");
    run(&["predict", "--show"]).expect_status(0).prints(&[
        "limits constructs",
        "assumed",
        "add above 6 each_us",
    ]);
    // A profile of the user, then with a mistake.
    let text = std::fs::read_to_string(common::root().join("profiles/npu.toml")).unwrap();
    let own = dir.write("own.toml", text.replace("7.45", "100.0"));
    let done = run(&["predict", "--profile", &own, "--counts=-1,0,0,0,0,0"]).expect_status(0);
    done.prints(&["npu: 99.89 µs", "warning: the estimate of 99.89 µs is below the base delay"]);
    let own = dir.write("own.toml", text.replace("7.45", "nan"));
    let done = run(&["predict", "--profile", &own, "--counts", "0,0,0,0,0,0"]).expect_status(1);
    done.says(&["own.toml:9: base_us 1500: value: found nan, expected a number from 1e-9 to 1e12"]);
    for (words, says) in [
        ("predict --counts 1,2", "counts: found `1,2`, expected six integers"),
        ("predict", "expected PROGRAM, --counts, --path-share or --show"),
        ("predict --path-share l3:x:0,0,0,0,0,0", "expected NAME:SHARE:COUNTS"),
        ("predict --path-share l3:0.5:0,0,0,0,0,0", "sum of the paths' shares: found 0.5, expected 1"),
        ("queue model --service-us 8.2 --load 0.5", "--service-us has no standard deviation"),
        ("queue model --service-us 8.2 --deviation-us 1", "expected --rate-mpps or --load"),
        (
            "queue model --counts 0,0,0,0,0,0 --load 0.5",
            "expected --service-us, or one --profile and --counts",
        ),
        ("queue errors --packets 0", "packets: found 0, expected a number from 1 to 1e9"),
    ] {
        run(&words.split(' ').collect::<Vec<_>>()).expect_status(2).says(&[says]);
    }
}

#[test]
fn profiles_are_fitted() {
    let dir = TempDir::new("profile-fit");
    let mut rows = "family,count,frame_bytes,round,delay_us\n".to_string();
    for round in 1..=3 {
        for count in 1..=10 {
            for packet in [-1.0, 0.0, 1.0] {
                let us = 7.35 + 0.11 * f64::from(count) + 0.01 * packet + 0.001 * f64::from(round % 2);
                rows += &format!("parse,{count},1500,{round},{us}\n");
            }
        }
    }
    let measured = dir.write("m.csv", &rows);
    let own = dir.path().join("own.toml");
    let own = own.to_str().unwrap();
    let words = ["profile", "fit", &measured, "--name", "own", "--kind", "npu", "-o", own];
    run(&words).expect_status(0).prints(&[
        "90 delays of 10 points, means in µs",
        "1500 B  7.4607 ± 0.0014, standard deviation 0.0087",
        "1500 B  7.4607, +0.1100 ± 0.0000 each",
        "distributions of the base delay",
        "warning: no line for `add`",
    ]);
    let done = run(&["predict", "--profile", own, "--counts", "2,0,0,0,0,0"]).expect_status(0);
    done.prints(&["own: 7.68 µs", "7.46 µs  measured", "0.22 µs  fitted"]);
    let done = run(&["profile", "fit", &measured, "--median", "--json"]).expect_status(0);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&report["profile"]["name"], &report["middle"]), (&"measured".into(), &"median".into()));
    let wrong = dir.write("wrong.csv", "family,count,frame_bytes,delay_us\nshift,1,64,1\n");
    run(&["profile", "fit", &wrong]).expect_status(1).says(&["wrong.csv:2: family: found `shift`"]);
    run(&["profile", "fit", &measured, "--name", "a b"]).expect_status(1).says(&["name: found the string"]);
    run(&["profile", "fit", &measured, "--kind", "gpu"]).expect_status(2).says(&["cpu, npu, fpga, asic"]);
    run(&["profile", "--every", "0"]).expect_status(2).says(&["--every"]);
}

/// T4.1 of Harkous (2022), from P4 text.
#[test]
fn delays_of_programs_are_those_of_the_published_estimates() {
    let estimates = [
        ("l3fwd", [1, 2, 0, 0, 0, 0], [("t4p4s", 45.9), ("agilio-cx", 8.56), ("netfpga-sume", 3.71)]),
        (
            "l3fwd_firewall",
            [2, 2, 0, 0, 0, 1],
            [("t4p4s", 45.98), ("agilio-cx", 9.04), ("netfpga-sume", 4.01)],
        ),
        (
            "vxlan_decap_ptp",
            [10, 0, 3, 4, 0, 1],
            [("t4p4s", 44.82), ("agilio-cx", 15.48), ("netfpga-sume", 5.29)],
        ),
    ];
    for (name, x, delays) in estimates {
        let program = common::root().join(format!("programs/nf_catalogue/{name}/{name}.p4"));
        let program = program.to_str().unwrap();
        for (profile, us) in delays {
            let words = ["predict", program, "--profile", profile, "--json"];
            let done = run(&words).expect_status(0);
            let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
            let paths = report[0]["paths"].as_array().unwrap();
            let path = paths.iter().find(|path| path["x"] == serde_json::json!(x));
            let path = path.unwrap_or_else(|| panic!("{name} has no path {x:?}: {report}"));
            let found = path["estimate"]["us"].as_f64().unwrap();
            assert!((found - us).abs() < 0.005, "{name} on {profile}: {found}");
            // All packets on this path.
            let share = format!("{}:1", path["path"]);
            let done = run(&[&words[..], &["--share", &share]].concat()).expect_status(0);
            let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
            assert_eq!(report[0]["mean_us"].as_f64(), Some(found));
        }
        run(&["predict", program, "--profile", "npu", "--share", "99:1"])
            .expect_status(2)
            .says(&["the number of a path, 1 to"]);
        run(&["predict", program, "--profile", "npu", "--share", "1:0.5"])
            .expect_status(2)
            .says(&["sum of the paths' shares"]);
    }
}

#[test]
fn queues_are_predicted() {
    let system = ["--service-us", "8.2", "--deviation-us", "0.21", "--new-flows", "0.5"];
    let run_with = |command: &str, more: &[&str]| run(&[&["queue", command][..], &system, more].concat());
    let model = run_with("model", &["--load", "0.5,1", "--bound-us", "300"]).expect_status(0);
    model.prints(&[
        "252.964        193.232",
        "unstable",
        "stable below 0.008333 Mpps",
        "at most 300 µs: up to",
    ]);
    let simulated =
        run_with("simulate", &["--load", "0.5", "--packets", "100000", "--json"]).expect_status(0);
    let report: serde_json::Value = serde_json::from_str(&simulated.stdout).unwrap();
    let us = report[0]["simulated"]["us"].as_f64().unwrap();
    assert!((us / 193.232 - 1.0).abs() < 0.05, "{report}");
    let unstable = run_with("simulate", &["--load", "1", "--packets", "1000"]).expect_status(1);
    unstable.says(&["unstable: found a utilisation of the controller of 1.000"]);
    let demand = "queue select --counts 10,0,3,4,0,1 --rate-mpps 0.05 --new-flows 0.04 --bound-us 40";
    let selected = run(&demand.split(' ').collect::<Vec<_>>()).expect_status(0);
    selected.prints(&["1    netfpga-sume", "no   t4p4s", "no   npu", "the profile has no deviation_us"]);
    let errors = run(&["queue", "errors", "--packets", "1000", "--runs", "2"]).expect_status(0);
    errors.prints(&["mean absolute error of 151 cases: "]);
}

/// A key in a header that some packets lack, and a port that nothing sets.
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

/// Sends each packet to group 1.
const GROUP: &str = r#"
#include <v1model.p4>
struct headers {}
struct meta {}
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout headers hdr, inout meta m) { apply {} }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply { s.mcast_grp = 1; } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta m) { apply {} }
control D(packet_out p, in headers hdr) { apply {} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn a_trace_names_the_cause_of_a_copys_port() {
    let dir = TempDir::new("copy_causes");
    // With queues, each packet reaches egress as a copy.
    let path = dir.write("causes.p4", CAUSES);
    let commands = dir.write("queue.cmd", "table_add t go 10.0.0.9 => 3\nset_queue_depth 64\n");
    let output = run(&["trace", &path, "--commands", &commands, "ip dst=10.0.0.9"]).expect_status(0);
    output.prints(&[
        "leave by port 3\n  because standard_metadata.egress_spec = 3, written by action I.go of table I.t",
    ]);
    let path = dir.write("group.p4", GROUP);
    let group = "mc_mgrp_create 1\nmc_node_create 0 4\nmc_node_associate 1 0\n";
    let commands = dir.write("group.cmd", group);
    let output = run(&["trace", &path, "--commands", &commands, "ip"]).expect_status(0);
    output
        .prints(&["leave by port 4\n  because standard_metadata.mcast_grp = 1, written here", "group.p4:7:"]);
}

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
    let named = run(&["trace", &path, &capture]).expect_status(0);
    assert_eq!(named.stdout, output.stdout, "a path is a capture, as with --pcap");
    let output = run(&["trace", &path, "--pcap", &capture, "--first", "2"]).expect_status(0);
    assert!(!output.stdout.contains("packet 3 of"), "{}", output.stdout);
    output.prints(&["packet 2 of the capture:", "The capture has more packets; --first 2 ends here."]);
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
        .says(&["unknown layer `tpc`: did you mean `tcp`?", "layers: eth, vlan, arp, ip"]);
}

#[test]
fn check_takes_several_programs_and_standard_input() {
    let dir = TempDir::new("several");
    let fine = dir.write("fine.p4", CAUSES);
    let wrong = dir.write("wrong.p4", CAUSES.replace("hdr.ip.dst: exact", "hdr.ip.dts: exact"));
    run(&["check", &fine, &fine]).expect_status(0);
    // Programs after a wrong one are also checked.
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
    // So is every other command with a program.
    let with_stdin = |words: &[&str]| {
        let input = std::fs::File::open(dir.write("stdin.p4", CAUSES)).unwrap();
        common::run_command(common::p4jet().args(words).stdin(input)).expect_status(0)
    };
    with_stdin(&["trace", "-", "eth", "/", "ip"]).prints(&["arrives at port 0"]);
    let test = dir.write("any.stf", "packet 0 00\nexpect 0 00$\n");
    with_stdin(&["test", "-", &test]).prints(&["1 passed, 0 failed"]);
    let out = dir.file("of-stdin");
    with_stdin(&["gen", "--program", "-", "--out", &out]).prints(&["stdin.pcap"]);
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
    assert_eq!(last["code"], "unreadable");
    run(&["check", &none]).expect_status(1).says(&["error[unreadable]: cannot read"]);
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
    let page = |name: &str| std::fs::read_to_string(Path::new(&pages).join(name)).unwrap();
    let trace = page("p4jet-trace.1");
    for part in ["pcap", "[\\fB\\-I\\fR <\\fIDIR\\fR>]…", ".SH \"EXIT STATUS\"", "Wrong usage"] {
        assert!(trace.contains(part), "{part}: {trace}");
    }
    assert!(page("p4jet-check.1").contains(" <\\fIPROGRAM\\fR>…\n"));
    assert!(page("p4jet.1").contains("<\\fICOMMAND\\fR>\n"));
    let file = dir.write("file", "");
    run(&["man", &file]).expect_status(3).says(&["cannot write", &file]);
}

/// A program that writes times and random numbers to packets, and one in which they determine ports.
const TIMED: &str = r#"#include <v1model.p4>
header h_t { bit<8> kind; bit<48> now; bit<48> since; bit<32> any; bit<16> sum; }
struct headers { h_t h; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control In(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    register<bit<48>>(1) last;
    apply {
        bit<48> before;
        last.read(before, 0);
        last.write(0, sm.ingress_global_timestamp);
        sm.egress_spec = 1;
        if (hdr.h.kind == 1) {
            hdr.h.now = sm.ingress_global_timestamp;
            hdr.h.since = sm.ingress_global_timestamp - before;
            random(hdr.h.any, 0, 0xffffffff);
            hash(hdr.h.sum, HashAlgorithm.csum16, 16w0, { hdr.h.now, hdr.h.any }, 32w65536);
        } else if (hdr.h.kind == 2) {
            sm.egress_spec = 2 + (bit<9>)sm.ingress_global_timestamp[0:0];
        } else if (hdr.h.kind == 3) {
            hdr.h.now = 5;
        }
    }
}
control Eg(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), In(), Eg(), C(), D()) main;
"#;

/// Values that depend on time or chance are not expectations.
#[test]
fn derived_packet_tests_do_not_depend_on_time() {
    let dir = TempDir::new("timed");
    let path = dir.write("timed.p4", TIMED);
    let (out, stf) = (dir.file("out"), dir.file("tests"));
    run(&["gen", "--program", &path, "--out", &out, "--stf", &stf])
        .expect_status(0)
        .prints(&["a packet test with", "whose output ports or lengths depend on time or chance"]);
    let tests = common::stf_files(dir.path());
    let text: String = tests.iter().map(|test| std::fs::read_to_string(test).unwrap()).collect();
    // Both times, the random number and the sum over them; the kind is known.
    let stars = format!("expect 1 01{}", "**".repeat(6 + 6 + 4 + 2));
    assert!(text.contains(&stars), "{text}");
    assert!(text.contains("expect 1 03000000000005"), "{text}");
    assert!(!text.contains("packet 0 02"), "{text}");
    for _ in 0..3 {
        let mut words = vec!["test", &path, "--engine", "both"];
        words.extend(tests.iter().map(|test| test.to_str().unwrap()));
        run(&words).expect_status(0).prints(&["0 failed"]);
    }
}

#[test]
fn derived_packet_tests_pass_on_both_engines() {
    for name in ["basic_l2", "simple_router"] {
        let dir = TempDir::new("stf");
        let path = program(name);
        let path = path.to_str().unwrap();
        let (out, stf) = (dir.file("out"), dir.file("tests"));
        let entries = program(name).with_file_name("entries.cmd");
        let (more, entries) = (TempDir::new("stf_entries"), entries.to_str().unwrap());
        let (some_out, some_stf) = (more.file("out"), more.file("tests"));
        let sets =
            run(&["gen", "--program", path, "--commands", entries, "--out", &some_out, "--stf", &some_stf])
                .expect_status(0)
                .stdout;
        assert!(
            !sets.contains("packet test with 0 packets") && !sets.contains("capture with 0 packets"),
            "{sets}"
        );
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
        // The expectations are effective: a different frame is detected.
        let text = std::fs::read_to_string(&tests[0]).unwrap();
        let other = dir.write("other.stf", text.replacen("\nexpect ", "\nexpect 1 00$\nexpect ", 1));
        run(&["test", path, &other]).expect_status(1);
    }
}
