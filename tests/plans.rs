//! Golden tests of compilation plans: `p4jet check --plan` of `plans/NAME.p4`, or of the shipped program NAME, prints
//! `plans/NAME.plan`. They show every decision of the JIT: cuts, reads and their sources, jumps past known tests, frames.
//!
//! `UPDATE=1 cargo test -p p4jet-cli --test system plans` writes the expected files again; read the diff as a review.

use crate::common::chain::{self, Outcome};
use crate::common::{program, root, run};
use std::collections::BTreeMap;
use std::fs;

fn check(name: &str, source: &str) {
    compare(name, &plan(source));
}

fn plan(source: &str) -> String {
    run(&["check", source, "--plan"]).expect_status(0).stdout
}

fn compare(name: &str, plan: &str) {
    let golden = root().join(format!("tests/plans/{name}.plan"));
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&golden, plan).expect("the golden file can be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(plan, expected, "{name}: the plan has changed");
}

fn path(path: &str) -> String {
    root().join(path).to_str().expect("the checkout has a UTF-8 path").to_string()
}

fn check_small(name: &str) {
    check(name, &path(&format!("tests/plans/{name}.p4")));
}

/// Fields are read from the frame until a statement sets them; the header moves, so they are read relative to it.
#[test]
fn reads() {
    check_small("reads");
}

/// A large table cuts the pipeline; live fields are stored, or restored from the frame and as constants.
#[test]
fn cuts() {
    check_small("cuts");
}

/// No stage ends between the read and the write of a register, though a large table lies between.
#[test]
fn registers() {
    check_small("registers");
}

#[test]
fn shipped_programs() {
    for name in ["acl_router", "basic_l2", "simple_router"] {
        check(name, program(name).to_str().expect("the checkout has a UTF-8 path"));
    }
}

#[test]
fn benchmark_programs() {
    for name in ["deep_tunnel", "ipv6_router", "twelve_tables"] {
        check(name, &path(&format!("bench/programs/{name}.p4")));
    }
}

/// Clones and replicas inherit fields of a field list or all fields; the others are constants or 0.
#[test]
fn copies() {
    check_small("copies");
}

/// The members of groups are selected for all waiting packets at once.
#[test]
fn selectors() {
    check_small("selectors");
}

/// A jump table chooses among more than eight actions.
#[test]
fn many_actions() {
    check_small("many_actions");
}

/// The path of tagged packets exists twice; on the hot one, validity and the tests of the path are constants.
#[test]
fn hot_paths() {
    let text = fs::read_to_string(path("tests/plans/hot_paths.p4")).expect("the program can be read");
    let Outcome::Compiled { optimised, .. } =
        chain::compile("hot_paths.p4", &text, p4jet_jit::Options::default())
    else {
        panic!("the program is refused");
    };
    let tagged = [[0; 12].as_slice(), &[0x81, 0, 0, 1, 8, 0]].concat();
    let seen = optimised.seen([(0, tagged.as_slice()); 64].into_iter()).expect("the packets can be traced");
    let options = p4jet_jit::Options { plan: true, ..p4jet_jit::Options::default() };
    let code = optimised.compile(&seen, options).expect("the program can be compiled");
    compare("hot_paths", code.plan().expect("a plan was requested"));
}

/// The plan of a large program would be unreadable as a golden file. Its cuts, lookups and dispatches are listed, and all
/// other lines counted by their kind.
#[test]
fn vxlan_gateway() {
    let plan = plan(program("vxlan_gateway").to_str().expect("the checkout has a UTF-8 path"));
    let mut summary = String::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for line in plan.lines() {
        let text = line.trim_start();
        let starts = ["phv:", "stage", "cut", "lookup", "prefetch", "look up", "select", "remembered"];
        if starts.iter().any(|start| text.starts_with(start)) || text.contains("jump table") {
            summary += &format!("{line}\n");
        } else if !text.is_empty() {
            *counts.entry(kind(text)).or_default() += 1;
        }
    }
    summary += "\nlines of the plan\n";
    for (kind, count) in counts {
        summary += &format!("  {kind}: {count}\n");
    }
    compare("vxlan_gateway", &summary);
}

/// The kind of a line: its first word, and the kind of its source if it moves a value.
fn kind(line: &str) -> String {
    let first = line.split(' ').next().unwrap_or_default();
    match line.split_once(" = ") {
        _ if first.ends_with(':') => "place".to_string(),
        _ if line.contains(" always at ") => "slot in memory".to_string(),
        Some((_, source)) => {
            let kind = source.split([' ', ',', '+']).next().unwrap_or_default();
            format!("{first} from {kind}")
        }
        None => first.to_string(),
    }
}
