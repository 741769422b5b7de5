//! The data plane: a compiled program with its tables and extern state, and the workers that run packets through it.
//!
//! * [`Switch`]: program, tables, extern state; shared by the control plane and all workers.
//! * [`Worker`]: runs batches on one core, by machine code or by the reference interpreter.
//! * [`Pipelined`]: runs batches on several threads, each with a part of the pipeline.
//! * [`Queues`]: output queues between ingress and egress.
//! * [`Running`]: the workers on their threads with the ports, while packets flow.
//! * [`Subscription`]: messages about digests, idle entries and ports.

mod adapt;
mod bell;
mod budgets;
mod buffers;
mod compiling;
mod copies;
mod counted;
mod event;
mod followed;
mod forward;
mod gate;
mod interrupt;
mod mailbox;
mod mailboxes;
mod notices;
mod observer;
mod packet_log;
mod path_codes;
mod pipelined;
mod places;
mod program_error;
mod pulse;
mod queues;
mod reload;
mod run_error;
mod running;
mod seen;
mod switch;
mod tracing;
mod watch;
mod watchdog;
mod worker;

pub use adapt::{Adaptation, Adapter};
pub use copies::{GENERATIONS_MAX, Processed};
pub use counted::{ProgramStats, TableStats};
pub use event::{Event, Listener};
pub use followed::{Injected, LEFT_MAX};
pub use forward::{ForwardStats, Forwarder, NO_PORTS_MAX};
pub use notices::{Notice, PortChange, Received, SUBSCRIBERS_MAX, Subscription, Topics, WAITING_MAX};
pub use observer::{
    CAPTURES_MAX, CaptureInfo, CaptureSpec, FieldPattern, ObserveError, Observer, TRACED_MAX, TRACES_MAX,
    TraceInfo, TraceSpec, Traced,
};
pub use p4jet_externs::{Digest, DigestCounts};
pub use p4jet_interp::{LogLevel, Matched, Outcome, TRACE_BYTES_MAX, Trace, TraceEvent, value_text};
pub use p4jet_jit::{
    COPIES_WAITING_BYTES_MAX, COPIES_WAITING_MAX, Cancel, ErrorKind, Options, Seen, StageTime, THREADS_MAX,
    ticks,
};
pub use p4jet_ports::PortError;
pub use p4jet_tables::{EntryHandle, Life};
pub use packet_log::{LoggedPacket, PacketLog};
pub use path_codes::{PassedPath, PathCodes, TableUse};
pub use pipelined::{Pipelined, RING_DEFAULT, RING_MAX};
pub use program_error::ProgramError;
pub use pulse::{Doing, Stuck, StuckBatch};
pub use queues::{
    DEPTH_WITH_RATE, DEPTH_WITHOUT_RATE, PortSettings, QUEUED_PORTS_MAX, QUEUES_MAX, QueueConfig,
    QueueSettings, QueueStats, Queues, Rate,
};
pub use reload::{Carried, Successor};
pub use run_error::RunError;
pub use running::{NewPort, PORTS_MAX, PortInfo, RunOptions, Running};
pub use switch::{EngineKind, Switch, WORKERS_MAX};
pub use watch::{BytePattern, Verdict};
pub use worker::{FRAME_MAX, Worker};
