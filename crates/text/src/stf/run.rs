//! Runs a script and explains what went wrong.

use super::describe::describe;
use super::replay::Fresh;
use super::report::StfOutcome;
use super::runner::{Device, Played, play};
use super::script::{Statement, StatementKind};
use p4jet_control::Control;

/// True if a script configures output queues, so that the program must be lowered with them.
pub fn configures_queues(script: &[Statement]) -> bool {
    let name = |statement: &Statement| match &statement.kind {
        StatementKind::Command { words } => words.first().map(|word| word.text.clone()),
        _ => None,
    };
    script.iter().filter_map(name).any(|name| crate::commands::configures_queues(&name))
}

/// True if a script advances the clock, so that the worker's must be stopped.
pub fn stops_clock(script: &[Statement]) -> bool {
    script.iter().any(|statement| matches!(statement.kind, StatementKind::Wait { us: Some(_) }))
}

/// Runs a script. Statements take effect in order; at the end the packets that left are compared with the expected ones, port
/// by port. A wrong statement, such as one with an unknown table, ends the script.
pub fn run(script: &[Statement], control: &Control, worker: &mut impl Device) -> StfOutcome {
    run_with(script, control, worker, None)
}

/// Like [`run`]; failures include the trace of the packet. For that the script is replayed on a switch from
/// `fresh`; without failures that costs nothing.
pub fn run_traced(
    script: &[Statement],
    control: &Control,
    worker: &mut impl Device,
    fresh: Fresh<'_>,
) -> StfOutcome {
    run_with(script, control, worker, Some(fresh))
}

fn run_with(
    script: &[Statement],
    control: &Control,
    worker: &mut impl Device,
    fresh: Option<Fresh<'_>>,
) -> StfOutcome {
    let Played { inputs, mismatches, mut outcome } = play(script, control, worker);
    outcome.failures.extend(describe(mismatches, &inputs, script, fresh));
    outcome.failures.sort_by_key(|failure| failure.line);
    outcome
}
