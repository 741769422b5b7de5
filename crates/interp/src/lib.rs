//! The reference interpreter: runs a [`Program`] on one packet. It is written to be obviously correct, and can trace
//! every step ([`Trace`]).
//!
//! The documentation of [`p4jet_ir`] defines the meaning of the IR. Where it leaves a choice, this crate decides:
//!
//! * Emitting a varbit whose length field exceeds the field's width emits the whole width.
//! * Intrinsic values are truncated to the width of their field, the egress port to 32 bits. Without
//!   [`Program::egress_port`], packets leave by port 0.
//! * When an extern function fails (`assert`), its results are stored, then the packet is dropped.
//! * On a hit, direct counters count before the action runs.

mod bmv2;
mod calls;
mod json;
mod machine;
mod packet;
mod render;
mod setup;
mod trace;
mod wording;

pub use bmv2::LogLevel;
pub use machine::{Arrival, Copied, Machine, Outcome, Ran, Tables, Visited, interpreted};
pub use render::value_text;
pub use setup::{TablesError, build_state, build_tables, given_entries, succeeding_state};
pub use trace::{Cause, Matched, TRACE_BYTES_MAX, Trace, TraceEvent};
