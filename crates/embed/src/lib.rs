//! A p4jet switch inside another Rust program: from P4 text to a switch, with typed control, and packets in and out.
//!
//! [`switch`] compiles a program. [`Control`] changes and reads its tables. A [`Worker`] processes packets on the thread that calls
//! it; several workers of one switch may run on several threads. `examples/forward.rs` is the example of docs/embedding.md.
//!
//! This crate also exports every type that its users need, so it is their only dependency.

pub use num_bigint::BigUint;
pub use p4jet_control::record;
pub use p4jet_control::{
    Act, Atomicity, Batch, Cell, CommandError, Control, Description, DryRun, Entity, EntryRef, EntryState,
    ErrorKind, Event, Host, Keep, Loaded, Mirror, NamedPage, NamedSelector, NamedUpdate, Note, Noted,
    PAGE_MAX, Page, PortChange, PortStats, Program, Published, Queue, QueueUpdate, ReadCommand, Ready, Ref,
    Rights, Schema, Selector, SharedControl, Source, Stats, Subject, Subscription, Swap, Swapped, Topics,
    Transaction, Update, Written,
};
pub use p4jet_dataplane::{
    BytePattern, Cancel, CaptureInfo, CaptureSpec, EngineKind, FieldPattern, Outcome, Processed,
    Rate as QueueRate, Switch, Trace, TraceInfo, TraceSpec, Traced, Worker,
};
pub use p4jet_externs::{CounterValue, CrcParams, Rate, Rates};
pub use p4jet_ir::{InstanceId, TableId};
pub use p4jet_tables::{Action, EntryHandle, KeyMatch};

use p4jet_syntax::Options;
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use std::sync::Arc;

/// Compiles the text of a P4_16 program for v1model or PSA, and creates a switch. `name` appears in diagnostics; files
/// next to it can be included.
///
/// # Errors
///
/// The program is refused: the code is `PROGRAM_REFUSED`, and the message has the compiler's diagnostics as `p4jet check` prints
/// them.
pub fn switch(name: &str, text: &str) -> Result<Arc<Switch>, CommandError> {
    compile(name, text).map_err(CommandError::program_refused)
}

/// Compiles a program. An error is a text with diagnostics.
fn compile(name: &str, text: &str) -> Result<Arc<Switch>, String> {
    let options = Options { builtins: p4jet_analysis::BUILTINS.to_vec(), ..Options::default() };
    let parsed = p4jet_syntax::parse_text(name, text, &options);
    let sources = parsed.sources.clone();
    let refused = |diagnostics: &[Diagnostic]| p4jet_syntax::render(diagnostics, &sources, false);
    if parsed.diagnostics.iter().any(|d| d.severity == Severity::Error) {
        return Err(refused(&parsed.diagnostics));
    }
    let (typed, diagnostics) = p4jet_analysis::analyse(&parsed.program, parsed.sources);
    let typed = typed.ok_or_else(|| refused(&diagnostics))?;
    let architecture = p4jet_arch::detect(&typed).ok_or_else(|| {
        let known = p4jet_arch::names().join(", ");
        format!("{name}: `main` does not instantiate a supported architecture; supported: {known}")
    })?;
    let mut program = p4jet_lower::lower(&typed, architecture, name).map_err(|errors| refused(&errors))?;
    p4jet_ir::verify::verify(&program).map_err(|errors| format!("{name}: {}", errors[0]))?;
    p4jet_ir::passes::run(&mut program);
    Switch::new(program)
}
