//! The promises of the README and docs/: the demo, `bench --json`, traces that explain, and every command that the
//! documents show.
//!
//! In docs/*.md, every line of a block marked `sh` that starts with `p4jet` is run, in a folder where `programs` is the
//! checkout's and `packets.pcap` and `entries.cmd` are a workload for simple_router; it must end with status 0. A block
//! marked `runtime NAME` is loaded as runtime commands of that program. Blocks without a mark are not run.

use crate::common::chain::{Outcome, compile};
use crate::common::documents::{blocks, calls};
use crate::common::{self, TempDir, program, root, run, run_command, workload};
use p4jet_control::Control;
use p4jet_text::Commands;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn demo_does_what_the_readme_says() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("cargo run --release -- demo"), "the README begins with another command");
    // Only the binary: an empty folder, no standard input, no environment.
    let dir = TempDir::new("demo");
    let output =
        run_command(common::p4jet().args(["demo", "--seconds", "0.2"]).current_dir(dir.path()).env_clear());
    let output = output.expect_status(0).prints(&[
        "compiled to machine code in ",
        "entries loaded",
        "to a known network: leaves by port",
        "TTL 64 is now 63",
        "with TTL 1: dropped",
        "with a wrong IPv4 checksum: dropped",
        "to nowhere: dropped",
        "table ingress.ipv4_lpm",
        "Mpps",
        "ns a packet",
        "machine code",
        "interpreter",
        "to the same bytes (digest ",
    ]);
    assert_eq!(output.stderr, "");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the demo left files behind");
}

#[test]
fn bench_reports_the_cost_of_each_stage() {
    let dir = TempDir::new("stages");
    let work = workload::l3(64, 4096);
    let commands = dir.write("entries.cmd", &work.commands);
    let packets = dir.write("packets.pcap", common::pcap(&work.frames));
    let mut command = common::p4jet();
    command.arg("bench").arg(program("simple_router")).args(["--commands", &commands, "--pcap", &packets]);
    let output = run_command(command.args(["--seconds", "0.2", "--json", "--stages"])).expect_status(0);
    let line: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let stages = line["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    for name in [
        "receive",
        "parse: ParserImpl",
        "verifyChecksum",
        "ingress.ipv4_lpm: lookup",
        "ingress.ipv4_lpm: actions",
        "computeChecksum",
        "deparse: DeparserImpl",
        "send",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    let ns: f64 = stages.iter().map(|stage| stage["ns"].as_f64().unwrap()).sum();
    assert!((ns - line["stages_sum_ns"].as_f64().unwrap()).abs() < 0.1, "{line}");
    assert!(line["whole_ns"].as_f64().unwrap() > 0.0, "{line}");
    // No packet of this workload is dropped early.
    assert!(stages.iter().all(|stage| stage["packets"] == 1.0), "{line}");
}

/// A program that sends packets back to their ingress port shows which port that was.
#[test]
fn bench_plays_captures_by_their_port() {
    let dir = TempDir::new("bench-port");
    let entry = "table_add mirror set_mac 00:00:5e:00:53:01 => 00:00:5e:00:53:01 00:00:5e:00:53:91\n";
    let commands = dir.write("entries.cmd", entry);
    let frame = [&[0, 0, 0x5e, 0, 0x53, 1][..], &[2, 0, 0, 0, 0, 1], &[8, 0], &[0; 46]].concat();
    let capture = common::pcap(&[frame]);
    for (name, more, port) in [
        ("a.pcap", &[][..], "0"),
        ("a.port3.pcap", &[], "3"),
        ("a.port3.pcap", &["--port", "2", "--stages", "--churn", "1"], "2"),
        ("a.portal.pcap", &["--pipelined=2", "--rings", "64"], "0"),
    ] {
        let mut command = common::p4jet();
        command.arg("bench").arg(program("mac_mirror")).args(["--commands", &commands, "--pcap"]);
        let output =
            run_command(command.arg(dir.write(name, &capture)).args(more).args(["--seconds", "0.05"]));
        let said = output.expect_status(0).stdout;
        let ports: Vec<&str> = said.lines().filter(|line| line.starts_with("port ")).collect();
        assert!(matches!(&ports[..], [line] if line.starts_with(&format!("port {port}: "))), "{said}");
    }
    let mut command = common::p4jet();
    command.arg("bench").arg(program("mac_mirror")).arg("--pcap").arg(dir.file("a.pcap"));
    run_command(command.args(["--port", "511"]))
        .expect_status(2)
        .says(&["port 511: `mac_mirror` uses this number as its drop port"]);
}

#[test]
fn bench_json_has_the_keys_of_the_contract() {
    let dir = TempDir::new("bench");
    let keys = [
        "compile_ms",
        "cores",
        "digest",
        "drops",
        "engine",
        "entries",
        "load_ms",
        "memory_bytes",
        "mpps",
        "ns_per_packet",
        "packets",
        "per_port",
        "program",
        "seconds",
    ];
    for (name, size, work) in [
        ("basic_l2", 64, workload::l2(64, 4096)),
        ("basic_l2", 1024, workload::l2(1024, 4096)),
        ("simple_router", 64, workload::l3(64, 4096)),
        ("simple_router", 1024, workload::l3(1024, 4096)),
    ] {
        let commands = dir.write("entries.cmd", &work.commands);
        let packets = dir.write("packets.pcap", common::pcap(&work.frames));
        let mut digests = BTreeSet::new();
        for engine in ["jit", "interp"] {
            let mut command = common::p4jet();
            command.arg("bench").arg(program(name)).args(["--commands", &commands, "--pcap", &packets]);
            let output = run_command(command.args(["--seconds", "0.1", "--json", "--engine", engine]));
            let output = output.expect_status(0);
            assert_eq!(output.stdout.lines().count(), 1, "one line: {}", output.stdout);
            let line: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
            let mut found: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
            found.sort_unstable();
            let adapted = ["adapted"].into_iter().filter(|_| engine == "jit");
            let expected: Vec<&str> = adapted.chain(keys).collect();
            assert_eq!(found, expected);
            assert_eq!(line["program"], name);
            assert_eq!(line["engine"], engine);
            assert_eq!(line["cores"], 1);
            assert_eq!(line["entries"], work.entries, "{name} {size}");
            // Every packet matches an entry.
            assert_eq!(line["drops"], 0, "{name} {size} {engine}");
            let number = |key: &str| line[key].as_f64().unwrap();
            let per_port = line["per_port"].as_object().unwrap();
            let sent: f64 = per_port.values().map(|n| n.as_f64().unwrap()).sum();
            assert_eq!(sent, number("packets"));
            assert!(per_port.keys().all(|port| port.parse::<u32>().is_ok_and(|p| p < 4)), "{per_port:?}");
            assert!(number("seconds") >= 0.1 && number("packets") > 0.0);
            let mpps = number("packets") / number("seconds") / 1e6;
            assert!((number("mpps") - mpps).abs() < 0.01 * mpps + 0.002, "{line}");
            let digest = line["digest"].as_str().unwrap().to_string();
            assert!(!digest.is_empty() && digest.bytes().all(|b| b.is_ascii_hexdigit()));
            digests.insert(digest);
        }
        assert_eq!(digests.len(), 1, "{name} {size}: the engines differ");
    }
}

/// The statistics of two cores cover the packets of both.
#[test]
fn bench_on_two_cores_counts_the_packets_of_both() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("SKIPPED: there is one processor");
        return;
    }
    let dir = TempDir::new("cores");
    let load = common::workload::l2(64, 1000);
    let commands = dir.write("entries.cmd", load.commands);
    let packets = dir.write("packets.pcap", common::pcap(&load.frames));
    let line = |cores: &str| -> serde_json::Value {
        let mut command = common::p4jet();
        command.arg("bench").arg(program("basic_l2")).args(["--commands", &commands, "--pcap", &packets]);
        command.args(["--seconds", "0.1", "--json", "--cores", cores]);
        serde_json::from_str(&run_command(&mut command).expect_status(0).stdout).unwrap()
    };
    let (one, two) = (line("1"), line("2"));
    assert_eq!(one["speedup"], serde_json::Value::Null);
    assert_eq!((&two["cores"], &two["digest"]), (&2.into(), &one["digest"]));
    let sent = two["per_port"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>();
    assert_eq!(sent, two["packets"].as_u64().unwrap(), "{two}");
    for key in ["one_core_mpps", "speedup"] {
        assert!(two[key].as_f64().unwrap() > 0.0, "{two}");
    }
}

/// The digest depends on everything that leaves: bytes and ports.
#[test]
fn bench_digest_depends_on_the_output() {
    let dir = TempDir::new("digest");
    let work = workload::l3(64, 256);
    let packets = dir.write("packets.pcap", common::pcap(&work.frames));
    let mut digests = BTreeSet::new();
    for commands in [
        work.commands.clone(),
        // Another MAC address for one of the ports.
        work.commands.replace("0x020000000903", "0x0200000009ff"),
        // No packet leaves at all.
        work.commands.lines().filter(|l| !l.contains("send_frame")).collect::<Vec<_>>().join("\n"),
    ] {
        let commands = dir.write("entries.cmd", commands);
        let mut command = common::p4jet();
        command.arg("bench").arg(program("simple_router")).args([
            "--commands",
            &commands,
            "--pcap",
            &packets,
        ]);
        let output = run_command(command.args(["--seconds", "0.01", "--json"])).expect_status(0);
        let line: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        digests.insert(line["digest"].as_str().unwrap().to_string());
    }
    assert_eq!(digests.len(), 3);
}

/// Returns the number of the first line of a program that contains `part`, after line `from`.
fn line_of(text: &str, from: usize, part: &str) -> usize {
    let lines = text.lines().zip(1..).skip(from);
    lines
        .into_iter()
        .find(|(l, _)| l.contains(part))
        .map(|(_, n)| n)
        .unwrap_or_else(|| panic!("no line with {part}"))
}

#[test]
fn a_trace_explains_a_drop() {
    let dir = TempDir::new("trace");
    let commands = dir.write(
        "entries.cmd",
        "table_add ipv4_lpm set_nhop 198.51.100.0/24 => 10.0.0.1 1\n\
         table_add ipv4_lpm set_nhop 203.0.113.0/24 => 10.0.0.2 2\n",
    );
    let path = program("simple_router");
    let text = fs::read_to_string(&path).unwrap();
    // `_drop` of ingress is the first of the two.
    let drop_line = line_of(&text, line_of(&text, 0, "control ingress("), "mark_to_drop");
    let apply_line = line_of(&text, 0, "ipv4_lpm.apply()");
    let near_miss = "198.51.101.7";
    let frame = workload::udp_frame(
        workload::mac(1),
        workload::mac(2),
        [192, 0, 2, 1].into(),
        near_miss.parse().unwrap(),
        64,
        1000,
        60,
    );
    let trace = |frame: &[u8], more: &[&str]| {
        let mut command = common::p4jet();
        command
            .arg("trace")
            .arg(&path)
            .args(["--commands", &commands, "--port", "3"])
            .arg(common::to_hex(frame));
        run_command(command.args(more)).expect_status(0)
    };
    let output = trace(&frame, &[]).prints(&[
        "packet of 60 bytes arrives at port 3",
        "table ingress.ipv4_lpm",
        "hdr.ipv4.dstAddr (lpm) = 0xc6336507 (198.51.101.7)",
        "miss",
        "nearest: entry 0x0: 0xc6336400 (198.51.100.0)/24",
        "ingress._drop",
        "dropped: ",
        &format!("simple_router.p4:{drop_line}:"),
        &format!("simple_router.p4:{apply_line}:"),
    ]);
    // The last lines give the reason: the field that decided and the action that wrote it.
    let dropped = &output.stdout[output.stdout.find("dropped: ").unwrap()..];
    assert!(dropped.contains("egress_spec = 0x1ff (511)"), "{dropped}");
    assert!(dropped.contains(&format!("simple_router.p4:{drop_line}:")), "{dropped}");

    // The JSON is valid and has the same content.
    let json: serde_json::Value = serde_json::from_str(&trace(&frame, &["--json"]).stdout).unwrap();
    let json = json.to_string();
    for part in ["ingress.ipv4_lpm", "hdr.ipv4.dstAddr", "ingress._drop"] {
        assert!(json.contains(part), "{json}");
    }

    // Truncated: the trace reports what is missing.
    trace(&frame[..20], &[])
        .prints(&["cannot extract hdr.ipv4: it takes 20 bytes, 6 bytes are left", "dropped: "]);
}

/// If the index of an element is itself an element, a trace names the element that was read.
#[test]
fn a_trace_follows_indices_in_indices() {
    let dir = TempDir::new("nested-indices");
    let path = dir.write(
        "nested.p4",
        r#"#include <core.p4>
#include <v1model.p4>
header a_t { bit<8> x; }
struct headers_t { a_t[3] s; }
struct meta_t { }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.s.next); p.extract(h.s.next); p.extract(h.s.next); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { if (h.s[h.s[h.s[0].x].x].x == 9) { s.egress_spec = 1; } }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.s); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#,
    );
    run(&["trace", &path, "--port", "0", "01 02 09"])
        .expect_status(0)
        .prints(&["== 0x9: true (h.s[0].x = 1, h.s[1].x = 2, h.s[2].x = 0x9 (9))", "leave by port 1"]);
}

/// A hash leaves out invalid headers, and a header of 12 bits may start between bytes. The branches that decide this are not in the
/// program, so no trace shows them.
#[test]
fn a_trace_omits_branches_that_the_program_lacks() {
    let dir = TempDir::new("added-branches");
    let path = dir.write(
        "added.p4",
        r#"#include <core.p4>
#include <v1model.p4>
header a_t { bit<12> x; }
header b_t { bit<8> y; }
struct headers_t { a_t a; b_t b; }
struct meta_t { bit<16> sum; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.a); p.advance(4); p.extract(h.b); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        hash(m.sum, HashAlgorithm.crc16, 16w0, { h.b.y, m.sum }, 32w65536);
        if (h.b.isValid()) { s.egress_spec = 1; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#,
    );
    for more in [&[] as &[&str], &["--json"]] {
        let command = ["trace", &path, "--port", "0", "01 02 09"];
        let shown = run(&[&command, more].concat()).expect_status(0).stdout;
        let ways = ["if h.b.isValid(): true", "\"condition\":\"h.b.isValid()\""];
        let branches: usize = ways.map(|way| shown.matches(way).count()).iter().sum();
        assert!(branches == 1 && !shown.contains("select:") && !shown.contains("\"switch\""), "{shown}");
    }
}

#[test]
fn a_trace_shows_the_path_of_a_packet() {
    let dir = TempDir::new("trace");
    let work = workload::l3(64, 1);
    let commands = dir.write("entries.cmd", &work.commands);
    let mut command = common::p4jet();
    command.arg("trace").arg(program("simple_router")).args(["--commands", &commands, "--port", "0"]);
    let output = run_command(command.arg(common::to_hex(&work.frames[0]))).expect_status(0);
    output.prints(&[
        "parser ",
        "extract hdr.ethernet",
        "extract hdr.ipv4",
        "parse_ipv4",
        "table ingress.ipv4_lpm",
        "hit entry",
        "action ingress.set_nhop(",
        "table ingress.forward",
        "action ingress.set_dmac(",
        "table egress.send_frame",
        "hdr.ipv4.ttl: 0x40 (64) -> 0x3f (63)",
        "emit hdr.ethernet, 14 bytes",
        "emit hdr.ipv4, 20 bytes",
        "60 bytes leave by port",
    ]);
}

#[test]
fn check_prints_the_requested_output() {
    let path = program("simple_router");
    let path = path.to_str().unwrap();
    run(&["check", path, "--ir"]).expect_status(0).prints(&["ingress.ipv4_lpm", "hdr.ipv4.ttl"]);
    assert!(!run(&["check", path, "--asm"]).expect_status(0).stdout.is_empty());
    let output = run(&["check", path, "--time"]).expect_status(0);
    for stage in ["parse", "analyse", "lower", "passes", "machine code", "all"] {
        assert!(
            output.stdout.lines().any(|l| l.starts_with(stage) && l.ends_with(" ms")),
            "{}",
            output.stdout
        );
    }
}

fn documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let mut files: Vec<_> =
        entries.map(|e| e.unwrap().path()).filter(|p| p.extension() == Some("md".as_ref())).collect();
    files.sort();
    assert!(files.len() >= 4);
    files
}

#[test]
fn documented_commands_run() {
    let dir = TempDir::new("docs");
    std::os::unix::fs::symlink(root().join("programs"), dir.path().join("programs")).unwrap();
    let work = workload::l3(64, 256);
    dir.write("entries.cmd", &work.commands);
    dir.write("packets.pcap", common::pcap(&work.frames));
    let (mut called, mut loaded) = (0, 0);
    for document in documents() {
        for (mark, body) in blocks(&fs::read_to_string(&document).unwrap()) {
            if mark == "sh" {
                for call in calls(&body, dir.path()) {
                    let output = run_command(common::p4jet().args(&call).current_dir(dir.path()));
                    let call = call.join(" ");
                    assert_eq!(output.status, 0, "{}: {call}\n{}", document.display(), output.stderr);
                    called += 1;
                }
            } else if let Some(name) = mark.strip_prefix("runtime ") {
                let commands = dir.write("runtime.cmd", &body);
                let mut command = common::p4jet();
                command.arg("trace").arg(program(name)).args(["--commands", &commands, "00"]);
                let output = run_command(&mut command);
                assert_eq!(output.status, 0, "{}:\n{body}\n{}", document.display(), output.stderr);
                loaded += 1;
            }
        }
    }
    assert!(
        called >= 8 && loaded >= 4,
        "few examples are tested: {called} commands, {loaded} files of entries"
    );
}

/// Runs the README's recorded session, the blocks marked `console`, in a copy of programs/simple_router and compares the output,
/// except for the path of the control socket, which differs from run to run.
#[test]
fn the_session_of_the_readme_is_reproducible() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let dir = TempDir::new("session");
    copy_folder(&root().join("programs/simple_router"), dir.path());
    let without_socket = |text: &str| {
        let lines = text.lines().map(|line| if line.starts_with("control: ") { "control: …" } else { line });
        lines.map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    let binaries = Path::new(env!("CARGO_BIN_EXE_p4jet")).parent().unwrap().display().to_string();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap());
    let mut compared = 0;
    for (_, session) in blocks(&readme).into_iter().filter(|(mark, _)| mark == "console") {
        for step in format!("\n{session}").split("\n$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &format!("exec 2>&1; {command}")]).env("PATH", &path).current_dir(dir.path());
            let output = run_command(&mut shell);
            assert_eq!(without_socket(&output.stdout), without_socket(expected), "$ {command}");
            compared += 1;
        }
    }
    assert!(compared >= 4, "the README shows only {compared} commands");
}

/// Copies a folder with all that is in it.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Returns the part of docs/commands.md about a command.
fn section_of<'t>(text: &'t str, command: &str) -> &'t str {
    let word = command.split(' ').next().unwrap_or(command);
    let begin = text.find(&format!("\n## `p4jet {word}")).unwrap_or(0) + 1;
    let end = text[begin..].find("\n## ").map_or(text.len(), |end| begin + end);
    &text[begin..end]
}

/// docs/commands.md has every command and option of the binary, and no others.
#[test]
fn every_option_is_documented() {
    let text = fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let common_options = &text[..text.find("## `p4jet check").unwrap()];
    let mut known = BTreeSet::from(["--help".to_string(), "--version".to_string()]);
    for command in [
        "check",
        "p4info",
        "test",
        "run",
        "ctl",
        "top",
        "trace",
        "bench",
        "bench-p4runtime",
        "gen",
        "lb",
        "predict",
        "profile",
        "profile fit",
        "queue model",
        "queue simulate",
        "queue select",
        "queue errors",
        "gateway",
        "slices",
        "slices plan",
        "slices show",
        "traffic",
        "demo",
        "completions",
        "man",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with("## ") && line.contains(&format!("`p4jet {command}"))),
            "docs/commands.md has no section for {command}"
        );
        let section = section_of(&text, command);
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = run(&words).expect_status(0).stdout;
        for line in help.lines().map(str::trim_start).filter(|l| l.starts_with('-') && !l.starts_with("- ")) {
            for option in line.split([' ', ',', '[']).filter(|w| w.starts_with('-')) {
                if option != "-h" {
                    let named = |text: &str| {
                        ["`", " ", "[", "="].iter().any(|end| text.contains(&format!("`{option}{end}")))
                    };
                    let documented = named(common_options) || named(section);
                    assert!(documented, "docs/commands.md does not have {option} of {command}");
                    known.insert(option.to_string());
                }
            }
        }
    }
    for word in text.split(|c: char| c.is_whitespace() || "`|,;()=".contains(c)) {
        if word.starts_with("--")
            && word.bytes().any(|b| b != b'-')
            && word.bytes().all(|b| b == b'-' || b.is_ascii_lowercase())
        {
            assert!(known.contains(word), "docs/commands.md has {word}, which no command knows");
        }
    }
}

/// The value of a constant of whole numbers: `1 << 16`, `16 * 1024`, `200_000`.
fn value_of(expression: &str) -> Option<u64> {
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    match expression.split_once("<<") {
        Some((value, bits)) => Some(number(value)? << number(bits)?),
        None => expression.split('*').map(number).product(),
    }
}

#[test]
fn documented_limits_are_those_of_the_code() {
    let text = std::fs::read_to_string(root().join("docs/limits.md")).expect("the page is there");
    let mut compared = 0;
    for line in text.lines().filter(|line| line.contains("` in `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, value, place] = cells[..] else { panic!("{line}: expected three cells") };
        let (name, file) = place.trim_matches('`').split_once("` in `").expect("`NAME` in `FILE`");
        let code = std::fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let declared = format!("const {name}:");
        let constant = code.lines().find(|line| line.contains(&declared));
        let constant = constant.unwrap_or_else(|| panic!("{file} has no {name}"));
        let expression = constant.split_once('=').expect("it has a value").1.trim_end_matches(';');
        let expected = value_of(expression).unwrap_or_else(|| panic!("{constant}: not understood"));
        assert_eq!(value.replace(',', "").parse(), Ok(expected), "{line}");
        compared += 1;
    }
    assert!(compared > 30, "only {compared} rows have a constant");
}

/// docs/errors.md has every code of an error, and no others.
#[test]
fn every_error_code_is_documented() {
    let text = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = p4jet_syntax::diagnostic::ERRORS
        .iter()
        .map(|(code, about)| format!("| `{code}` | {about} |"))
        .collect();
    assert_eq!(rows, expected);
}

/// docs/commands.md names every runtime command there is.
#[test]
fn every_runtime_command_is_documented() {
    let text = fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let source = fs::read_to_string(program("simple_router")).unwrap();
    let Outcome::Compiled { optimised, .. } = compile("simple_router.p4", &source, Default::default()) else {
        panic!("simple_router compiles");
    };
    let help = Control::new(optimised).execute("help").unwrap();
    let commands: Vec<&str> = help.split_whitespace().filter(|w| w.contains('_')).collect();
    assert!(commands.len() > 15, "{help}");
    for command in commands {
        assert!(
            text.contains(&format!("`{command}`")) || text.contains(&format!("`{command} ")),
            "docs/commands.md does not have {command}"
        );
    }
}

/// Files that the documents name exist.
#[test]
fn documents_name_files_that_exist() {
    let mut documents = documents();
    documents.extend(["README.md", "ARCHITECTURE.md"].map(|name| root().join(name)));
    let is_path = |w: &&str| {
        let starts = ["crates/", "docs/", "programs/", "tests/", "p4/", "bench/"];
        starts.iter().any(|s| w.starts_with(s))
            // This repository has none: it is a file of another project.
            && !w.ends_with(".proto")
            && w.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_.-".contains(&b))
    };
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for word in text.split(|c: char| c.is_whitespace() || "`|,;()[]:#".contains(c)) {
            let word = word.trim_end_matches('.');
            if is_path(&word) {
                assert!(root().join(word).exists(), "{} names {word}", document.display());
            }
        }
    }
}

/// Every "`NAME` in FILE" in a document exists.
#[test]
fn documents_name_code_that_exists() {
    let mut checked = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap().replace('\n', " ");
        for (at, phrase) in text.match_indices("` in crates/") {
            let name = text[..at].rsplit('`').next().unwrap_or("");
            let rest = &text[at + phrase.len() - "crates/".len()..];
            let path = rest.split(|c: char| c.is_whitespace() || ",;:)`".contains(c)).next().unwrap_or("");
            let path = root().join(path.trim_end_matches('.'));
            let code = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert!(code.contains(name), "{}: no `{name}` in {}", document.display(), path.display());
            checked += 1;
        }
    }
    assert!(checked >= 5, "{checked}");
}

/// A crate that disables its unit tests or its examples, to save CI a compilation, has none.
#[test]
fn targets_without_test_builds_have_no_tests() {
    let mut left_out = 0;
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        let folder = folder.unwrap().path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let is_left_out = |what: &str| manifest.lines().any(|line| line == format!("{what} = false"));
        let (no_tests, no_examples) = (is_left_out("test"), is_left_out("doctest"));
        left_out += usize::from(no_tests || no_examples);
        for path in rust_files(&folder.join("src")) {
            let text = fs::read_to_string(&path).unwrap();
            assert!(!(no_tests && text.contains("#[test]")), "{} has tests that never run", path.display());
            let fences = text.lines().filter_map(|line| {
                let line = line.trim_start();
                line.strip_prefix("//! ```").or_else(|| line.strip_prefix("/// ```"))
            });
            let is_example = |fence: &str| fence.is_empty() || fence.starts_with("rust");
            let examples = fences.step_by(2).filter(|fence| is_example(fence)).count();
            assert!(!(no_examples && examples > 0), "{} has examples that never run", path.display());
        }
    }
    assert!(left_out > 0);
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let mut files: Vec<_> =
        files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs")).collect();
    files.extend(folders.iter().flat_map(|folder| rust_files(folder)));
    files
}
