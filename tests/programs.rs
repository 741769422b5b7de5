//! The shipped programs, with the binary: each compiles without messages, passes its packet tests on both engines, loads
//! its entries, forwards captures identically on both engines, and has a README whose commands work.

use crate::common::documents::{blocks, calls};
use crate::common::{self, TempDir, program_folders, run, run_command, stem, stf_files, stf_packets};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns a folder's program; there is exactly one.
fn program_of(folder: &Path) -> PathBuf {
    let path = folder.join(folder.file_name().expect("a name")).with_extension("p4");
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

fn text(path: &Path) -> String {
    path.to_str().expect("the checkout has a UTF-8 path").to_owned()
}

fn entries_of(folder: &Path) -> String {
    let path = folder.join("entries.cmd");
    assert!(path.is_file(), "{} is missing", path.display());
    text(&path)
}

#[test]
fn check_is_silent() {
    for folder in program_folders() {
        let output = run(&["check".into(), text(&program_of(&folder))]).expect_status(0);
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""), "{}", folder.display());
    }
}

#[test]
fn packet_tests_pass_on_both_engines() {
    for folder in program_folders() {
        let files = stf_files(&folder);
        assert!(!files.is_empty(), "{} has no packet tests", folder.display());
        for engine in ["interp", "jit", "both"] {
            let mut arguments = vec!["test".into(), text(&program_of(&folder)), format!("--engine={engine}")];
            arguments.extend(files.iter().map(|f| text(f)));
            let output = run(&arguments);
            let mut expected: String = files.iter().map(|f| format!("PASS {}\n", stem(f))).collect();
            expected += &format!("{} passed, 0 failed\n", files.len());
            assert_eq!(output.stdout, expected, "{}\n{}", folder.display(), output.stderr);
            assert_eq!(output.status, 0);
        }
    }
}

/// A packet test without expectations proves nothing.
#[test]
fn every_packet_test_expects_something() {
    for folder in program_folders() {
        for file in stf_files(&folder) {
            let script = fs::read_to_string(&file).unwrap();
            let mut words = script.lines().filter_map(|l| l.split_whitespace().next());
            assert!(
                words.any(|w| ["expect", "no_packet", "check_counter"].contains(&w)),
                "{} expects nothing",
                file.display()
            );
        }
    }
}

/// Returns all frames of a folder's packet tests and of its traffic.pcap.
fn frames_of(folder: &Path) -> Vec<Vec<u8>> {
    let scripts = stf_files(folder).into_iter().map(|f| fs::read_to_string(f).unwrap());
    let frames: Vec<Vec<u8>> = scripts.flat_map(|s| stf_packets(&s)).map(|(_, frame)| frame).collect();
    assert!(frames.len() > 10, "{} has few packets", folder.display());
    let traffic = folder.join("traffic.pcap");
    let traffic = if traffic.exists() { common::read_pcap(&text(&traffic)) } else { Vec::new() };
    [frames, traffic].concat()
}

#[test]
fn entries_load() {
    for folder in program_folders() {
        let (program, entries) = (text(&program_of(&folder)), entries_of(&folder));
        let output =
            run(&["trace", &program, "--commands", &entries, "--port", "0", "ffffffffffff0200000000010800"]);
        output.expect_status(0).prints(&["packet of 14 bytes arrives at port 0"]);
    }
}

/// `run` on captures: both engines write the same, non-empty files.
#[test]
fn captures_are_forwarded_alike_by_both_engines() {
    let dir = TempDir::new("captures");
    for folder in program_folders() {
        let (program, entries) = (text(&program_of(&folder)), entries_of(&folder));
        let input = dir.write("in.pcap", common::pcap(&frames_of(&folder)));
        let mut results: Vec<(Vec<Vec<Vec<u8>>>, String)> = Vec::new();
        for engine in ["jit", "interp"] {
            let outputs: Vec<String> =
                (0..4).map(|port| dir.file(&format!("{engine}-{port}.pcap"))).collect();
            let mut command = common::p4jet();
            command.args(["run", &program, "--no-control", "--engine", engine, "--commands", &entries]);
            for (port, output) in outputs.iter().enumerate() {
                let input = if port == 0 { &input } else { "" };
                command.args(["-i", &format!("{port}@pcap:{input},{output}")]);
            }
            let output = run_command(&mut command).expect_status(0);
            let captures = outputs.iter().map(|path| common::read_pcap(path)).collect();
            results.push((captures, output.stderr));
        }
        assert_eq!(results[0].0, results[1].0, "{}", folder.display());
        // The summaries, with their reasons for drops, agree too.
        assert_eq!(results[0].1, results[1].1, "{}", folder.display());
        let sent: usize = results[0].0.iter().map(Vec::len).sum();
        // One program demonstrates that it drops everything, and one sends only by ports that have no capture here.
        let silent = ["mac_mirror_printed", "services/isf"].iter().any(|name| folder.ends_with(name));
        assert_eq!(sent == 0, silent, "{}: {sent} frames get through with entries.cmd", folder.display());
    }
}

/// Multicasts packets with an odd first byte to a group of copies, which do much work; sends the others to port 1.
const MIXED: &str = r#"
#include <v1model.p4>
header first_t { bit<8> kind; bit<32> number; }
struct headers { first_t first; }
struct meta {}
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(h.first); transition accept; }
}
control V(inout headers h, inout meta m) { apply {} }
control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply { if (h.first.kind[0:0] == 1) { s.mcast_grp = 1; } else { s.egress_spec = 1; } }
}
control E(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply { h.first.kind = (bit<8>) s.egress_rid; if (s.egress_rid != 0) { WORK } }
}
control D(packet_out p, in headers h) { apply { p.emit(h.first); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// The work for copies does not shorten the batch of received packets that follows. The order of the copies themselves depends on
/// time: a worker pauses them to look at its ports.
#[test]
fn packets_beside_copies_leave_in_the_same_order_on_both_engines() {
    let dir = TempDir::new("mixed");
    let work: String =
        (0..150).map(|i| format!("if (h.first.number == {i}) {{ h.first.number = 7; }} ")).collect();
    let path = dir.write("mixed.p4", MIXED.replace("WORK", &work));
    let mut commands = "mc_mgrp_create 1\n".to_string();
    for copy in 0..100 {
        commands += &format!("mc_node_create {} 1\nmc_node_associate 1 {copy}\n", copy + 1);
    }
    let commands = dir.write("mixed.cmd", commands);
    // One batch for each port, and fewer copies than those at which a worker stops receiving.
    let frames = |port: u32| -> Vec<_> {
        (0..64).map(|i| [&[u8::from(i % 8 == 0)][..], &(port << 24 | i).to_be_bytes()].concat()).collect()
    };
    let inputs = [0, 1, 2].map(|port| dir.write(&format!("{port}.pcap"), common::pcap(&frames(port))));
    let [jit, interp] = ["jit", "interp"].map(|engine| {
        let outputs = [0, 1, 2].map(|port| dir.file(&format!("{engine}-{port}.pcap")));
        let mut command = common::p4jet();
        command.args(["run", &path, "--engine", engine, "--commands", &commands, "--no-control"]);
        for (port, (input, output)) in inputs.iter().zip(&outputs).enumerate() {
            command.args(["-i", &format!("{port}@pcap:{input},{output}")]);
        }
        run_command(&mut command).expect_status(0);
        let (copies, packets): (Vec<_>, Vec<_>) =
            common::read_pcap(&outputs[1]).into_iter().partition(|frame| frame[0] != 0);
        assert_eq!((copies.len(), packets.len()), (3 * 8 * 100, 3 * 56));
        packets
    });
    assert_eq!(jit, interp);
}

#[test]
fn bench_digests_agree() {
    let dir = TempDir::new("digests");
    for folder in program_folders() {
        let (program, entries) = (text(&program_of(&folder)), entries_of(&folder));
        let packets = dir.write("packets.pcap", common::pcap(&frames_of(&folder)));
        let digests = ["jit", "interp"].map(|engine| {
            let arguments =
                ["bench", &program, "--commands", &entries, "--pcap", &packets, "--seconds", "0.05"];
            let output = run_command(common::p4jet().args(arguments).args(["--json", "--engine", engine]));
            let line: serde_json::Value = serde_json::from_str(&output.expect_status(0).stdout).unwrap();
            line["digest"].as_str().unwrap().to_string()
        });
        assert_eq!(digests[0], digests[1], "{}", folder.display());
    }
}

/// A capture through simple_router; every byte of the output is known in advance.
#[test]
fn simple_router_forwards_a_capture() {
    let dir = TempDir::new("router");
    let commands = dir.write(
        "entries.cmd",
        "table_add ipv4_lpm set_nhop 198.51.100.0/24 => 10.0.0.1 1\n\
         table_add forward set_dmac 10.0.0.1 => 00:00:5e:00:53:a1\n\
         table_add send_frame rewrite_mac 1 => 00:00:5e:00:53:f1\n",
    );
    let routed = "00005e005301 00005e005302 0800 45000020 00000000 40118e91 c0000201 c6336407 03e80035 000c0000 deadbeef";
    let leaves = "00005e0053a1 00005e0053f1 0800 45000020 00000000 3f118f91 c0000201 c6336407 03e80035 000c0000 deadbeef";
    let bad_checksum = routed.replace("8e91", "8e90");
    let elsewhere = "00005e005301 00005e005302 0800 45000020 00000000 4011a8bc c0000201 08080808 03e80035 000c0000 deadbeef";
    let frames: Vec<Vec<u8>> = [routed, &bad_checksum, elsewhere, "00", routed].map(common::hex).into();
    let input = dir.write("in.pcap", common::pcap(&frames));
    for engine in ["jit", "interp"] {
        let [zero, one] = ["0", "1"].map(|port| dir.file(&format!("{engine}-{port}.pcap")));
        let program = text(&common::program("simple_router"));
        let output = run(&[
            "run",
            &program,
            "--engine",
            engine,
            "-i",
            &format!("0@pcap:{input},{zero}"),
            "-i",
            &format!("1@pcap:,{one}"),
            "--commands",
            &commands,
        ]);
        output.expect_status(0).says(&["5 packets received", "2 packets sent to port 1", "dropped: "]);
        assert_eq!(common::read_pcap(&zero), Vec::<Vec<u8>>::new());
        assert_eq!(common::read_pcap(&one), [common::hex(leaves), common::hex(leaves)]);
    }
}

/// Copies a program's folder, so that commands may write there, with the folder `include` of its family where there is one.
/// Returns the copy of the folder, too.
fn copy_of(folder: &Path) -> (TempDir, PathBuf) {
    let copy = TempDir::new("copy");
    let family = folder.ancestors().take(3).find(|f| f.join("include").is_dir()).unwrap_or(folder);
    let files = |folder: &Path| fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    let mut all = [files(folder), stf_files(folder)].concat();
    if family.join("include").is_dir() {
        all.extend(files(&family.join("include")));
    }
    for from in all.into_iter().filter(|p| p.is_file()) {
        let to = copy.path().join(from.strip_prefix(family).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
    let at = copy.path().join(folder.strip_prefix(family).unwrap());
    (copy, at)
}

/// Every call of p4jet in a README runs, in a copy of its folder, and ends with status 0.
#[test]
fn readmes_show_commands_that_run() {
    for folder in program_folders() {
        let readme =
            fs::read_to_string(folder.join("README.md")).unwrap_or_else(|e| panic!("README.md: {e}"));
        let (_copy, at) = copy_of(&folder);
        let mut made: Vec<String> = Vec::new();
        for (_, body) in blocks(&readme).into_iter().filter(|(mark, _)| mark == "sh") {
            for call in calls(&body, &at) {
                let mut command = common::p4jet();
                command.args(&call).current_dir(&at);
                if call[0] == "bench" {
                    command.args(["--seconds", "0.05"]);
                }
                let output = run_command(&mut command);
                assert_eq!(
                    output.status,
                    0,
                    "{}: p4jet {}\n{}",
                    folder.display(),
                    call.join(" "),
                    output.stderr
                );
                made.push(call[0].clone());
            }
        }
        for command in ["test", "trace", "run"] {
            assert!(
                made.iter().any(|c| c == command),
                "{} does not show `p4jet {command}`",
                folder.display()
            );
        }
    }
}

/// Runtime commands in a separate block of a README are carried out.
#[test]
fn readmes_show_runtime_commands_that_load() {
    let dir = TempDir::new("readme");
    let is_command = |l: &&str| ["table_", "register_", "counter_"].iter().any(|p| l.starts_with(p));
    for folder in program_folders() {
        let readme = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        for (_, body) in blocks(&readme).into_iter().filter(|(mark, _)| mark != "sh") {
            let commands: Vec<&str> = body.lines().filter(is_command).collect();
            let file = dir.write("readme.cmd", commands.join("\n"));
            run(&["trace", &text(&program_of(&folder)), "--commands", &file, "00"]).expect_status(0);
        }
    }
}

/// If a README states the number of packets in `traffic.pcap`, it is right.
#[test]
fn readmes_count_their_packets() {
    for folder in program_folders() {
        let readme = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        let Some((_, rest)) = readme.split_once("`traffic.pcap` has ") else { continue };
        let count: usize = rest.split_whitespace().next().unwrap().parse().unwrap();
        let frames = common::read_pcap(&text(&folder.join("traffic.pcap")));
        assert_eq!(frames.len(), count, "{}", folder.display());
    }
}
