//! The benchmarks at their small sizes: every workload without a peer is generated, both engines process its packets in
//! the same way, and the figures are written. Needs python3; otherwise prints a message and passes.

use crate::common::{self, TempDir, root, run_command, workload};
use std::process::Command;

fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("SKIPPED: no python3");
    }
    has
}

#[test]
fn every_workload_runs() {
    if !has_python() {
        return;
    }
    let dir = TempDir::new("bench");
    let out = dir.file("out");
    let mut command = Command::new("python3");
    command.arg(root().join("bench/run.py")).args([
        "--small",
        "--rounds",
        "1",
        "--seconds",
        "0.01",
        "--out",
        &out,
    ]);
    run_command(command.arg("--p4jet").arg(common::p4jet().get_program())).expect_status(0);
    let report = std::fs::read_to_string(format!("{out}/results.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let text = std::fs::read_to_string(format!("{out}/results.md")).unwrap();
    let workloads = report["workloads"].as_array().unwrap();
    for name in ["acl 1000", "acl 10000", "ipv6 200000", "twelve tables", "deep tunnel"] {
        let found = workloads.iter().find(|w| w["workload"] == name).expect(name);
        assert!(found["mpps"]["p4jet"]["median"].as_f64().unwrap() > 0.0, "{found}");
        assert!(!found["stages"].as_array().unwrap().is_empty(), "{found}");
        assert!(text.contains(&format!("| {name} | ")), "{text}");
    }
}

/// The headers that deep_tunnel adds are correct: lengths, and the checksum of the outer IPv4 header.
#[test]
fn tunnels_are_well_formed() {
    if !has_python() {
        return;
    }
    let dir = TempDir::new("tunnel");
    let mut command = Command::new("python3");
    command.arg(root().join("bench/deep_tunnel.py")).args([
        "16",
        dir.path().to_str().unwrap(),
        "--packets",
        "300",
    ]);
    run_command(&mut command).expect_status(0);
    let mut command = common::p4jet();
    command.arg("run").arg(root().join("bench/programs/deep_tunnel.p4"));
    command.args(["--commands", &dir.file("entries.cmd")]);
    for port in 0..4 {
        let input = if port == 0 { dir.file("packets.pcap") } else { String::new() };
        command.args(["-i", &format!("{port}@pcap:{input},{}", dir.file(&format!("{port}.pcap")))]);
    }
    run_command(&mut command).expect_status(0);
    let (mut plain, mut tunnelled) = (0, 0);
    for frame in (0..4).flat_map(|port| common::read_pcap(&dir.file(&format!("{port}.pcap")))) {
        // Ethernet, the tags, IPv4, UDP, VXLAN; then the tenants' frame, which has 62 bytes.
        let tags = match frame[12..] {
            [0x88, 0xa8, ..] => 2,
            _ if frame.len() > 62 => 1,
            _ => 0,
        };
        let ipv4 = 14 + 4 * tags.max(1);
        if tags == 0 {
            plain += 1;
        } else {
            tunnelled += 1;
            assert_eq!(frame.len() - ipv4, 20 + 8 + 8 + 62, "{frame:02x?}");
            let number = |at: usize| usize::from(frame[at]) << 8 | usize::from(frame[at + 1]);
            assert_eq!(number(ipv4 + 2), frame.len() - ipv4, "total length: {frame:02x?}");
            assert_eq!(number(ipv4 + 20 + 4), frame.len() - ipv4 - 20, "UDP length: {frame:02x?}");
        }
        assert_eq!(frame[ipv4..][..2], [0x45, 0], "{frame:02x?}");
        assert_eq!(workload::checksum(&frame[ipv4..ipv4 + 20]), 0, "{frame:02x?}");
    }
    assert_eq!(plain + tunnelled, 300, "some were dropped");
    assert!(plain > 50 && tunnelled > 100, "{plain} plain, {tunnelled} tunnelled");
}

/// Every rate of the P4Runtime server is measured. Whether it reaches its goal depends on the machine.
#[test]
fn p4runtime_rates_are_measured() {
    let mut command = common::p4jet();
    let output = run_command(command.args(["bench-p4runtime", "--small", "--rounds", "1", "--json"]));
    let figures: serde_json::Value = serde_json::from_str(&output.expect_status(0).stdout).unwrap();
    let keys: Vec<&String> = figures.as_object().unwrap().keys().collect();
    let expected = [
        "writes_per_second",
        "writes_per_second_64",
        "exact_per_second",
        "routes_per_second",
        "ternary_per_second",
        "million_seconds",
        "million_packets_ratio",
        "bytes_per_entry",
        "read_seconds",
        "read_write_ms",
        "packet_ins_per_second",
        "packet_ins_ratio",
        "packet_ins_handover_ratio",
        "commit_ms",
    ];
    assert_eq!(keys, expected);
    for (key, figure) in figures.as_object().unwrap() {
        // A few entries fit into memory that was there before. On a busy machine it can happen that no packet passes while entries change.
        let may_be_zero = key == "bytes_per_entry" || key.ends_with("_ratio");
        let value = figure["value"].as_f64().unwrap();
        let is_measured = value > 0.0 || (value == 0.0 && may_be_zero);
        assert!(
            is_measured && figure["goal"].is_number() && figure["reached"].is_boolean(),
            "{key}: {figure}"
        );
    }
}
