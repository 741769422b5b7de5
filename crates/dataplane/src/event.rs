//! Events of a running switch, and the function that receives them.

use crate::program_error::ProgramError;
use crate::pulse::Stuck;
use p4jet_ports::{LinkStatus, PortError};
use std::sync::Arc;
use std::time::Duration;

/// An event that listeners may receive while packets flow.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A line that the program logs (`log_msg`, a failed assertion).
    Log(&'a str),
    /// A port failed and is no longer used.
    PortFailed(u32, &'a PortError),
    /// A port's link went down, or came up again.
    Link(u32, &'a LinkStatus),
    /// A worker makes no progress.
    Stuck(&'a Stuck),
    /// This worker continues, after this time.
    Unstuck(usize, Duration),
    /// A change is complete except on this worker, which makes no progress; it makes the change when it continues.
    Follows(&'a Stuck),
    /// The interpreter runs packets until machine code is ready.
    Interpreting,
    /// Machine code replaced the interpreter after this time.
    MachineCode(Duration),
    /// Compilation failed for this reason; the interpreter continues.
    NoMachineCode(&'a ProgramError),
}

/// A function that receives events.
pub type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;
