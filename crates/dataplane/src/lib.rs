//! The data plane: a compiled program with its tables and extern state, and the workers that run packets through it.
//!
//! * [`Switch`]: program, tables, extern state; shared by the control plane and all workers.
//! * [`Worker`]: runs batches on one core, by machine code or by the reference interpreter.
//! * [`Queues`]: output queues between ingress and egress.
//! * [`Running`]: the workers on their threads with the ports, for as long as packets flow.

mod budgets;
mod counted;
mod forward;
mod mailbox;
mod observer;
mod places;
mod queues;
mod reload;
mod running;
mod switch;
mod watch;
mod worker;

pub use counted::{ProgramStats, TableStats};
pub use forward::{Event, ForwardStats, Forwarder, Listener};
pub use observer::{
    CAPTURES_MAX, CaptureInfo, CaptureSpec, FieldPattern, Observer, Refused, TRACED_MAX, TRACES_MAX,
    TraceInfo, TraceSpec, Traced,
};
pub use p4jet_interp::{Matched, Trace, TraceEvent};
pub use p4jet_jit::{StageTime, ticks};
pub use p4jet_tables::EntryHandle;
pub use queues::{
    DEPTH_WITH_RATE, DEPTH_WITHOUT_RATE, PortSettings, QUEUED_PORTS_MAX, QUEUES_MAX, QueueConfig,
    QueueSettings, QueueStats, Queues, Rate,
};
pub use reload::Carried;
pub use running::{NewPort, PortInfo, RunError, RunOptions, Running};
pub use switch::{EngineKind, Switch, WORKERS_MAX};
pub use watch::{BytePattern, Did};
pub use worker::{COPIES_MAX, GENERATIONS_MAX, Processed, Worker};
