//! A switch whose program has one table of every sort.
#![allow(dead_code, reason = "not every test file uses all of it")]

use p4jet_control::{Atomicity, Control, NamedUpdate};
use p4jet_dataplane::Switch;

/// The program, in the IR's text form.
pub const PROGRAM: &str = include_str!("sample.ir");

/// Control of a fresh switch with that program.
pub fn control() -> Control {
    let program = p4jet_ir::text::parse(PROGRAM).unwrap_or_else(|e| panic!("{e}"));
    Control::new(Switch::new(program).unwrap())
}

/// Carries out updates by name: one JSON object a line.
pub fn set_up(control: &Control, lines: &str) {
    let updates = lines.lines().map(|line| {
        let named: NamedUpdate = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        control.schema().resolve(&named).unwrap_or_else(|e| panic!("{line}: {e}"))
    });
    let written = control.write(updates.collect(), Atomicity::AllOrNothing);
    assert!(written.in_effect, "{written:?}");
}
