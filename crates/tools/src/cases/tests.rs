//! Every case does what it is for: it compiles, loads, and most of its packets leave.

use super::{Case, evaluation};
use crate::random::mix;
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Processed, Switch, Worker};
use p4jet_text::Commands;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Packets that both engines process.
const PACKETS: usize = 200;
/// Entries of a table, from which the usual test omits some.
const ENTRIES_MAX: usize = 20_000;

/// Returns the commands with at most [`ENTRIES_MAX`] entries of each table, and true if that is all of them.
fn reduced(commands: &str) -> (String, bool) {
    let mut counts = HashMap::new();
    let mut is_all = true;
    let keep = |line: &&str| {
        let mut words = line.split(' ');
        let (Some("table_add"), Some(table)) = (words.next(), words.next()) else { return true };
        let count = counts.entry(table.to_string()).or_insert(0);
        *count += 1;
        is_all &= *count <= ENTRIES_MAX;
        *count <= ENTRIES_MAX
    };
    let text = commands.split_inclusive('\n').filter(keep).collect();
    (text, is_all)
}

fn worker(name: &str, program: p4jet_ir::Program, commands: &str, engine: EngineKind) -> Worker {
    let switch = Switch::new(program).unwrap_or_else(|e| panic!("{name}: {e}"));
    let control = Control::new(Arc::clone(&switch));
    control.load("entries.cmd", commands).unwrap_or_else(|e| panic!("{name}: {e}"));
    switch.worker(engine, 0).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn outcome(processed: &Processed) -> String {
    format!("{:02x?} {:?}", processed.sent, processed.dropped)
}

/// Runs packets on both engines, and returns how many of them leave.
fn run(case: &Case, commands: &str) -> usize {
    let name = &case.name;
    let compiled = p4jet_compile::compile(&case.file, &case.program)
        .unwrap_or_else(|refused| panic!("{name}: {}", refused.text()));
    let mut interp = worker(name, compiled.lowered, commands, EngineKind::Interp);
    let mut jit = worker(name, compiled.program, commands, EngineKind::Jit);
    let mut sent = 0;
    // From all parts of the capture.
    for (k, frame) in case.frames.iter().step_by(case.frames.len() / PACKETS).enumerate() {
        interp.set_time(Some(1000 * k as u64));
        jit.set_time(Some(1000 * k as u64));
        let want = interp.process_one(case.port, frame);
        let got = jit.process_one(case.port, frame);
        assert_eq!(outcome(&got), outcome(&want), "{name}: packet {k}: jit (left) and interpreter differ");
        sent += usize::from(!got.sent.is_empty());
    }
    sent
}

/// Programs that drop more by design.
const DROP_MORE: [&str; 1] = ["mac mirror printed 64"];

fn check_all(is_whole: bool) {
    let mut few = Vec::new();
    for (name, build) in evaluation() {
        let case = build();
        assert_eq!(case.name, name);
        assert!(case.frames.len() >= 2 * PACKETS, "{name}: {} packets", case.frames.len());
        let (commands, is_all) = match is_whole {
            true => (case.commands.clone(), true),
            false => reduced(&case.commands),
        };
        let sent = run(&case, &commands);
        if is_all && 3 * sent < PACKETS && !DROP_MORE.contains(&name.as_str()) {
            few.push(format!("{name}: {sent} of {PACKETS}"));
        }
    }
    assert!(few.is_empty(), "few packets leave: {few:?}");
}

/// With at most 20,000 entries in each table: a million takes seconds to load.
#[test]
fn cases_run_on_both_engines() {
    check_all(false);
}

/// With all entries: `cargo test --release -p p4jet-tools -- --ignored whole_cases`.
#[test]
#[ignore = "it loads more than two million entries twice"]
fn whole_cases_run_on_both_engines() {
    check_all(true);
}

#[test]
fn there_are_enough_cases_with_short_names() {
    let cases = evaluation();
    assert!((45..=60).contains(&cases.len()), "{}", cases.len());
    let names: HashSet<&String> = cases.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), cases.len());
    assert!(names.iter().all(|name| name.len() <= 44), "{names:?}");
}

/// A hash of bytes that is the same on all machines.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = bytes.len() as u64;
    for word in words {
        sum = mix(sum ^ u64::from_le_bytes(*word));
    }
    rest.iter().fold(sum, |sum, byte| mix(sum ^ u64::from(*byte)))
}

/// Predictions of different machines are comparable only if the cases are the same everywhere. A failure here means that some
/// case has changed: new errors of predictions are then not comparable with old ones.
#[test]
fn cases_are_fixed_and_differ() {
    let mut seen = HashMap::new();
    let mut all = 0;
    for (name, build) in evaluation() {
        let case = build();
        let frames = case.frames.iter().fold(0, |sum, frame| mix(sum ^ hash(frame)));
        let work = mix(hash(case.commands.as_bytes()) ^ frames);
        if let Some(other) = seen.insert((case.program, work), name.clone()) {
            panic!("{name} and {other} are the same");
        }
        all = mix(all ^ work);
    }
    assert_eq!(all, DIGEST, "entries or packets have changed: {all:#x}");
}

const DIGEST: u64 = 0xe303d72ec6a24e80;
