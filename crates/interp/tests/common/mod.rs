//! Shared by the tests.
#![allow(dead_code)]

#[path = "../../../externs/tests/common/group.rs"]
mod group;

use p4jet_externs::{Replica, Session};
use p4jet_interp::{Arrival, Machine, Outcome, Trace, build_state, build_tables};
use p4jet_ir::{Program, text, verify};
use p4jet_tables::Table;
use std::collections::VecDeque;

/// Reads a program and verifies it.
pub fn program(source: &str) -> Program {
    let program = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    if let Err(errors) = verify::verify(&program) {
        panic!("{}", errors[0]);
    }
    program
}

/// Runs packets in sequence, all at port 1, with one state.
pub fn run(program: &Program, frames: &[Vec<u8>]) -> Vec<Outcome> {
    run_traced(program, frames).into_iter().map(|(outcome, _)| outcome).collect()
}

pub fn run_traced(program: &Program, frames: &[Vec<u8>]) -> Vec<(Outcome, Trace)> {
    run_over(program, &build_tables(program).unwrap(), frames)
}

/// Like [`run`], with given tables, which may be large and slow to build.
pub fn run_over(program: &Program, tables: &[Table], frames: &[Vec<u8>]) -> Vec<(Outcome, Trace)> {
    let machine = Machine::new(program).unwrap();
    let state = build_state(program, 1).unwrap();
    let mut env = state.env(0);
    let unwatched_state = build_state(program, 1).unwrap();
    let mut unwatched_env = unwatched_state.env(0);
    frames
        .iter()
        .map(|frame| {
            let mut trace = Trace::new();
            let arrival = Arrival { port: 1, frame, now_us: 1000 };
            let mut ran = machine.run(tables, &mut env, &arrival, Some(&mut trace));
            // Only a traced run records causes.
            ran.copies.iter_mut().for_each(|copy| copy.port_causes.clear());
            // Otherwise tracing must not change the result.
            assert_eq!(ran, machine.run(tables, &mut unwatched_env, &arrival, None));
            (ran.outcome, trace)
        })
        .collect()
}

/// Returns the results for packets and for all copies that they cause.
pub fn all_outcomes(program: &Program, tables: &[Table], frames: &[Vec<u8>]) -> Vec<Vec<Outcome>> {
    let machine = Machine::new(program).unwrap();
    let state = build_state(program, 1).unwrap();
    let replica = |port, replication_id| Replica { port, replication_id };
    group::set_group(&state, 1, [replica(3, 7), replica(4, 8)]);
    group::set_group(&state, 2, [replica(5, 9)]);
    let replicas = vec![replica(6, 10)];
    let session = Session { replicas, group: Some(2), class_of_service: 3, bytes_max: Some(20) };
    state.change_destinations(|d| d.sessions.set(1, Some(session.into())));
    let mut env = state.env(0);
    let mut all = Vec::new();
    for frame in frames {
        let arrival = Arrival { port: 1, frame, now_us: 1000 };
        let first = machine.run(tables, &mut env, &arrival, None);
        let mut outcomes = vec![first.outcome];
        let mut queue = VecDeque::from(first.copies);
        while let Some(copy) = queue.pop_front() {
            let ran = machine.run_copy(tables, &mut env, copy, 1000, None);
            outcomes.push(ran.outcome);
            queue.extend(ran.copies);
        }
        all.push(outcomes);
    }
    all
}

/// Returns bytes from hexadecimal text; spaces do not matter.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

pub fn sent(port: u32, frame: &str) -> Outcome {
    Outcome::Sent { port, frame: hex(frame) }
}
