//! The data plane: a compiled program with its tables and extern state, and the workers that run packets through it.
//!
//! * [`Switch`]: program, tables, extern state; shared by the control plane and all workers.
//! * [`Worker`]: runs batches on one core, by machine code or by the reference interpreter.
//! * [`forward`]: the packet loop between ports.

mod forward;
mod switch;
mod worker;

pub use forward::{ForwardStats, Forwarder};
pub use p4jet_interp::{Matched, Trace, TraceEvent};
pub use p4jet_jit::{StageTime, ticks};
pub use p4jet_tables::EntryHandle;
pub use switch::{EngineKind, Switch, WORKERS_MAX};
pub use worker::{COPIES_MAX, GENERATIONS_MAX, Processed, Worker};
