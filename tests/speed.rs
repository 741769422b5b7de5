//! Lower bounds of the promised speed: a program is compiled within 30 ms (the gateway with 15 tables within 300), and
//! the shipped router forwards 8 million packets per second on one core. Only in builds with optimisation. Real
//! measurements: docs/performance.md.
//!
//! Test machines are shared and slow at times, so compilations are measured by processor time, and the best of several
//! attempts counts. The tests take turns, because two simultaneous measurements would disturb each other.

// Reason: the system says how much processor time was used.
#![allow(unsafe_code)]

mod common;

use common::{TempDir, program, run, run_command, workload};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const COMPILE_MS_MAX: f64 = 30.0;
/// Limit for the applications, each of which is as large as the others together.
const APPLICATION_COMPILE_MS_MAX: f64 = 300.0;
const MPPS_MIN: f64 = 8.0;
const TRIES: usize = 8;

static TURN: Mutex<()> = Mutex::new(());

/// Returns the processor time of all processes that were started here and have ended.
fn used() -> Duration {
    // SAFETY: a structure of integers, which the call fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage), 0);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[test]
#[cfg_attr(debug_assertions, ignore = "says nothing without optimisation")]
fn compiles_within_30_ms() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for folder in common::program_folders() {
        let name = common::stem(&folder);
        let path = program(&name);
        let is_upf = folder.components().any(|part| part.as_os_str() == "upf");
        let is_application = name == "vxlan_gateway" || is_upf;
        let most = if is_application { APPLICATION_COMPILE_MS_MAX } else { COMPILE_MS_MAX };
        let mut times: Vec<f64> = Vec::new();
        while times.len() < TRIES && times.iter().all(|time| *time >= most) {
            let before = used();
            run(&["check", path.to_str().unwrap()]).expect_status(0);
            times.push((used() - before).as_secs_f64() * 1e3);
        }
        println!("{name}: from text to machine code in {times:?} ms");
        assert!(times.iter().any(|time| *time < most), "{name}: {times:?} ms, expected {most} at least once");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "says nothing without optimisation")]
fn forwards_8_mpps() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = TempDir::new("speed");
    let work = workload::l3(64, 4096);
    let commands = dir.write("entries.cmd", &work.commands);
    let packets = dir.write("packets.pcap", common::pcap(&work.frames));
    let mut tries = Vec::new();
    while tries.len() < TRIES {
        let mut command = common::p4jet();
        command.arg("bench").arg(program("simple_router")).args([
            "--commands",
            &commands,
            "--pcap",
            &packets,
        ]);
        let output = run_command(command.args(["--seconds", "0.5", "--json"])).expect_status(0);
        let line: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        tries.push(line["mpps"].as_f64().unwrap());
        if tries.last().is_some_and(|mpps| *mpps >= MPPS_MIN) {
            println!("simple_router, 64 routes: {tries:?} Mpps");
            return;
        }
    }
    panic!("simple_router, 64 routes: {tries:?} Mpps, expected {MPPS_MIN} at least once");
}
