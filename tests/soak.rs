//! A short run of bench/soak.py: a switch under load while entries, interfaces, ports and programs change; every packet must
//! be accounted for. `bench/soak.py` alone takes ten minutes.
//!
//! Needs root, `ip` and python3, and is skipped with a message otherwise.

#[allow(dead_code, reason = "only asked whether there can be namespaces")]
use crate::common::{root, run_command};
use std::process::{Command, Stdio};

#[test]
fn every_packet_is_accounted_for() {
    need_namespaces!();
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if !python.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no python3");
        return;
    }
    let mut command = Command::new("python3");
    command.arg(root().join("bench/soak.py")).args(["--p4jet", env!("CARGO_BIN_EXE_p4jet")]);
    command.args(["--seconds", "20", "--rate", "10000", "--reload", "1"]);
    let output = run_command(&mut command);
    // Failures are on standard error.
    let output = output.expect_status(0);
    let printed: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    for what in ["rules", "flaps", "reloads", "refused", "malformed", "came_back"] {
        assert!(printed[what].as_u64().is_some_and(|n| n > 0), "no {what}: {printed}");
    }
    assert_eq!(output.stderr, "");
}
