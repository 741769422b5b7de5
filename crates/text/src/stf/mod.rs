//! Packet tests in STF, the format of p4c's test suite: [`parse`] parses a script, [`run`] runs it.

mod cursor;
mod decode;
mod describe;
mod key;
mod mismatch;
mod parse;
mod replay;
mod report;
mod run;
mod runner;
mod script;

pub use parse::parse;
pub use replay::Fresh;
pub use report::{Failure, StfOutcome};
pub use run::{configures_queues, run, run_traced, stops_clock};
pub use runner::Device;
pub use script::{
    Call, Cond, CounterCheck, CounterIndex, Match, MatchValue, Name, Number, Pattern, Statement,
    StatementKind, StfError,
};
