//! A p4jet switch inside another Rust program: from P4 text to a switch, with typed control, and packets in and out.
//!
//! [`switch`] compiles a program. [`Control`] changes and reads its tables. A [`Worker`], which [`worker()`] creates, processes packets
//! on the thread that calls it; a switch of [`switch_with_workers`] has several, one for each thread. `examples/forward.rs` is the
//! example of docs/embedding.md.
//!
//! This crate exports the types of its interface by name, and the crates that declare them: their signatures have further types, such
//! as [`ir::Program`].

pub use num_bigint::BigUint;
pub use p4jet_control as control;
pub use p4jet_control::describe::{ArrayInfo, CrcInfo, DigestInfo, ProfileInfo};
pub use p4jet_control::{
    Act, ActionInfo, Atomicity, Batch, Call, Cell, CloneDestination, Control, ControlError, Crc,
    DEFAULT_CELL, Description, Direct, DryRun, Entity, EntryKey, EntryRef, EntryState, ErrorKind, Event,
    GroupState, Host, Keep, KeyField, Loaded, Mark, NOTE_BYTES_MAX, NamedCell, NamedEntry, NamedNoted,
    NamedPage, NamedSelector, NamedUpdate, Note, Noted, PAGE_MAX, Page, Param, PortChange, PortStats,
    Program, Published, Queue, QueueUpdate, RateRecord, ReadCommand, Ready, Ref, Rights, Schema, Selector,
    Session as NamedSession, Share, SharedControl, Source, Stats, Subject, Subscription, Swap, Swapped,
    TableInfo, Topics, Transaction, Update, WEIGHT_MAX, Written,
};
pub use p4jet_control::{record, schema, stats, value};
pub use p4jet_dataplane as dataplane;
pub use p4jet_dataplane::{
    BytePattern, Cancel, CaptureInfo, CaptureSpec, EngineKind, FieldPattern, Injected, Outcome, PortError,
    PortSettings, Processed, QUEUES_MAX, QueueConfig, QueueSettings, Rate as QueueRate,
    Subscription as NoticeSubscription, Switch, Trace, TraceEvent, TraceInfo, TraceSpec, Traced, Verdict,
    WORKERS_MAX, Worker,
};
pub use p4jet_externs as externs;
pub use p4jet_externs::{CounterValue, CrcParams, Node, Rate, Rates, Replica, Session};
pub use p4jet_ir as ir;
pub use p4jet_ir::{InstanceId, MatchKind, TableId};
pub use p4jet_tables as tables;
pub use p4jet_tables::{Action, EntryHandle, KeyMatch, Life};

use p4jet_dataplane::RunError;
use std::sync::Arc;

/// Compiles the text of a P4_16 program for v1model or PSA, and creates a switch with one worker. `name` appears in diagnostics;
/// files next to it can be included.
///
/// # Errors
///
/// The program is refused: the code is `PROGRAM_REFUSED`, and the message has the compiler's diagnostics as `p4jet check` prints
/// them. Or the system refuses memory: the code is `NO_MEMORY`.
pub fn switch(name: &str, text: &str) -> Result<Arc<Switch>, ControlError> {
    switch_with_workers(name, text, 1)
}

/// Like [`switch`], for 1 to [`WORKERS_MAX`] workers.
///
/// # Errors
///
/// Those of [`switch`], or the number of workers is another.
pub fn switch_with_workers(name: &str, text: &str, workers: usize) -> Result<Arc<Switch>, ControlError> {
    if !(1..=WORKERS_MAX).contains(&workers) {
        let message = format!("found {workers} workers, expected 1 to {WORKERS_MAX}");
        return Err(ControlError::new(message).field("workers"));
    }
    let compiled = p4jet_compile::compile(name, text);
    let compiled = compiled.map_err(|refused| ControlError::program_refused(refused.text()))?;
    let switch = Switch::with_options(compiled.program, p4jet_dataplane::Options::default(), workers);
    switch.map_err(|error| RunError::from(error).into())
}

/// Creates the worker with this index: 0 for the only one. The first one with [`EngineKind::Jit`] compiles machine code. When a
/// worker is dropped, its index is free again.
///
/// # Errors
///
/// The program cannot be compiled to machine code: the code is `PROGRAM_REFUSED`. Or the switch has no worker of this index, or that
/// worker exists: the field is `index`.
pub fn worker(switch: &Arc<Switch>, engine: EngineKind, index: usize) -> Result<Worker, ControlError> {
    if engine == EngineKind::Jit {
        switch.code().map_err(|error| RunError::from(switch.program_error(&error)))?;
    }
    switch.worker(engine, index).map_err(|error| ControlError::new(error.message).field("index"))
}
