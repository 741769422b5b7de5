//! Golden tests of compilation plans: `p4jet check --plan` of `plans/NAME.p4`, or of the shipped program NAME, prints
//! `plans/NAME.plan`. They show every decision of the JIT: cuts, reads and their sources, jumps past known tests, frames.
//!
//! `UPDATE=1 cargo test -p p4jet-cli --test system plans` writes the expected files again; read the diff as a review.

use crate::common::{program, root, run};
use std::fs;

fn check(name: &str, source: &str) {
    let output = run(&["check", source, "--plan"]).expect_status(0);
    let golden = root().join(format!("tests/plans/{name}.plan"));
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&golden, &output.stdout).expect("the golden file can be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(output.stdout, expected, "{name}: the plan has changed");
}

fn check_small(name: &str) {
    let path = root().join(format!("tests/plans/{name}.p4"));
    check(name, path.to_str().expect("the checkout has a UTF-8 path"));
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
    for name in ["basic_l2", "simple_router"] {
        check(name, program(name).to_str().expect("the checkout has a UTF-8 path"));
    }
}
