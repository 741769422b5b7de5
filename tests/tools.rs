//! The tools around the switch: what they make is run.

mod common;

use common::{TempDir, program, run};
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
    assert_eq!(programs, 23);
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
    run(&["gen", "-o", "/proc/nothing/here"]).expect_status(3).says(&["cannot write /proc/nothing/here"]);
}
