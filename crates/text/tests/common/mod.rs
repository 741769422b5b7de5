//! A switch whose program has one table of every sort.
#![allow(dead_code, reason = "not every test file uses all of it")]

use p4jet_control::Control;
use p4jet_dataplane::Switch;
use p4jet_text::Commands;

/// The program, in the IR's text form.
pub const PROGRAM: &str = include_str!("../../../control/tests/common/sample.ir");

/// Control of a fresh switch with that program.
pub fn control() -> Control {
    let program = p4jet_ir::text::parse(PROGRAM).unwrap_or_else(|e| panic!("{e}"));
    Control::new(Switch::new(program).unwrap())
}

/// Carries out lines and gives all that they print; errors are marked.
pub fn session(control: &Control, lines: &str) -> String {
    let mut out = String::new();
    for line in lines.lines() {
        match control.execute(line.trim()) {
            Ok(text) => out += &text,
            Err(error) => out += &format!("! {error}\n"),
        }
    }
    out
}
