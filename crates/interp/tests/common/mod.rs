//! What the tests share.
#![allow(dead_code)]

use p4jet_interp::{Arrival, Machine, Outcome, Trace, build_state, build_tables};
use p4jet_ir::{Program, text, verify};
use p4jet_tables::Table;

/// Reads a program and verifies it.
pub fn program(source: &str) -> Program {
    let program = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    if let Err(errors) = verify::verify(&program) {
        panic!("{}", errors[0]);
    }
    program
}

/// Runs packets one after the other, all at port 1, over one state.
pub fn run(program: &Program, frames: &[Vec<u8>]) -> Vec<Outcome> {
    run_traced(program, frames).into_iter().map(|(outcome, _)| outcome).collect()
}

pub fn run_traced(program: &Program, frames: &[Vec<u8>]) -> Vec<(Outcome, Trace)> {
    run_over(program, &build_tables(program).unwrap(), frames)
}

/// The same over given tables, which may be large and slow to make.
pub fn run_over(program: &Program, tables: &[Table], frames: &[Vec<u8>]) -> Vec<(Outcome, Trace)> {
    let machine = Machine::new(program).unwrap();
    let state = build_state(program, 1).unwrap();
    let mut env = state.env(0);
    let unwatched_state = build_state(program, 1).unwrap();
    let mut unwatched_env = unwatched_state.env(0);
    frames
        .iter()
        .map(|frame| {
            let mut trace = Trace::default();
            let arrival = Arrival { port: 1, frame, now_us: 1000 };
            let outcome = machine.run(tables, &mut env, &arrival, Some(&mut trace));
            // Being watched must not matter.
            assert_eq!(outcome, machine.run(tables, &mut unwatched_env, &arrival, None));
            (outcome, trace)
        })
        .collect()
}

/// Bytes from hexadecimal text; blanks do not matter.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

pub fn sent(port: u32, frame: &str) -> Outcome {
    Outcome::Sent { port, frame: hex(frame) }
}
