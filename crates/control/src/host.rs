//! The process around a running switch: ports, statistics, traces, captures, other programs, its end.

use crate::error::ControlError;
use crate::rights::Rights;
use crate::stats::{PortStats, Stats};
use p4jet_dataplane::{
    Cancel, CaptureInfo, CaptureSpec, Injected, Outcome, Subscription, Switch, Topics, Trace, TraceInfo,
    TraceSpec, Traced,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A program to load.
#[derive(Clone, Debug)]
pub enum Program<'a> {
    /// A file that the switch reads, with these rights.
    File(&'a Path, &'a Rights),
    /// Texts from a client: the program and the files that it includes, by path. Files missing among them are read
    /// from the file system only if the rights are [`Rights::All`].
    Texts(&'a Path, Arc<BTreeMap<PathBuf, String>>, &'a Rights),
    /// A complete source: the options and files of the switch are not used.
    Whole(&'a Source),
}

/// The source of a program with everything that the compiler needs, except the built-in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The path of the program.
    pub path: PathBuf,
    /// The program and the files that it includes, by path.
    pub texts: Arc<BTreeMap<PathBuf, String>>,
    /// Folders of included files.
    pub include: Vec<PathBuf>,
    /// Macros: `NAME` or `NAME=VALUE`.
    pub define: Vec<String>,
}

impl Program<'_> {
    /// Its path on the machine with the file.
    pub fn path(&self) -> &Path {
        match self {
            Program::File(path, _) | Program::Texts(path, ..) => path,
            Program::Whole(source) => &source.path,
        }
    }
}

/// The error for a function that a host lacks.
fn not_offered() -> ControlError {
    ControlError::unsupported("not supported by this switch")
}

/// The process around a running switch. Functions with a body are optional for hosts. Errors carry a stable code, the field and
/// the valid choices ([`ControlError`]).
pub trait Host: Send + Sync {
    /// Compiles a program while the old one runs, unless `cancel` is set meanwhile. The result replaces the old program; if
    /// it is dropped, nothing changes. An error may have several lines of diagnostics.
    /// [`SharedControl::load_program`](crate::SharedControl::load_program) limits how many compile at once.
    fn prepare(&self, program: &Program<'_>, cancel: &Cancel) -> Result<Swap, ControlError>;

    /// Like [`Self::prepare`]: recompiles the running program for the configured output queues.
    fn prepare_queues(&self) -> Result<Swap, ControlError>;

    /// Like [`Self::prepare`]: recompiles the running program with or without counts of lookups and actions. `None` if nothing would
    /// change.
    fn prepare_counted(&self, counted: bool, cancel: &Cancel) -> Result<Option<Swap>, ControlError> {
        let _ = (counted, cancel);
        Err(not_offered())
    }

    /// Compiles a program with a state of its own; without a program, the running one.
    fn prepare_pipeline(
        &self,
        program: Option<&Program<'_>>,
        cancel: &Cancel,
    ) -> Result<Ready, ControlError> {
        let _ = (program, cancel);
        Err(not_offered())
    }

    /// The P4Info of the running program in binary form, and the switch with that program.
    fn p4info(&self) -> Result<(Arc<Switch>, Vec<u8>), ControlError> {
        Err(not_offered())
    }

    /// Subscribes to events from now on.
    fn subscribe(&self, topics: Topics) -> Result<Subscription, ControlError>;

    /// All ports, sorted by number.
    fn ports(&self) -> Vec<PortStats>;

    /// Opens a port, specified as after `-i N@`.
    fn add_port(&self, number: u32, spec: &str, rights: &Rights) -> Result<(), ControlError>;

    /// Like [`Self::add_port`], and captures the frames of the port in a file: both or neither.
    fn add_captured_port(
        &self,
        number: u32,
        spec: &str,
        capture: &Path,
        rights: &Rights,
    ) -> Result<(), ControlError> {
        let _ = (number, spec, capture, rights);
        Err(not_offered())
    }

    /// Closes a port.
    fn remove_port(&self, number: u32) -> Result<(), ControlError>;

    /// Reads the statistics. Workers answer between two batches.
    fn stats(&self) -> Result<Stats, ControlError> {
        Err(not_offered())
    }

    /// Processes a frame as if the port had received it. Waits for its copies, but no longer than `wait`.
    fn inject(&self, port: u32, frame: Vec<u8>, wait: Duration) -> Result<Injected, ControlError> {
        let _ = (port, frame, wait);
        Err(not_offered())
    }

    /// Traces a packet through the switch; nothing is sent or changed.
    fn trace_packet(&self, port: u32, frame: &[u8]) -> Result<DryRun, ControlError> {
        let _ = (port, frame);
        Err(not_offered())
    }

    /// Starts to trace matching packets. Returns the number of the trace.
    fn add_trace(&self, spec: TraceSpec) -> Result<u32, ControlError> {
        let _ = spec;
        Err(not_offered())
    }

    /// The traces.
    fn traces(&self) -> Vec<TraceInfo> {
        Vec::new()
    }

    /// The packets of a trace.
    fn traced(&self, id: u32) -> Result<Vec<Arc<Traced>>, ControlError> {
        let _ = id;
        Err(not_offered())
    }

    /// Ends a trace.
    fn remove_trace(&self, id: u32) -> Result<(), ControlError> {
        let _ = id;
        Err(not_offered())
    }

    /// The width of a header field by which traces can filter.
    fn field_width(&self, field: &str) -> Result<u32, ControlError> {
        let _ = field;
        Err(not_offered())
    }

    /// Starts to write the frames of a port to a file.
    fn start_capture(&self, spec: CaptureSpec, rights: &Rights) -> Result<(), ControlError> {
        let _ = (spec, rights);
        Err(not_offered())
    }

    /// The captures.
    fn captures(&self) -> Vec<CaptureInfo> {
        Vec::new()
    }

    /// Ends the captures of a port and returns what they have written.
    fn stop_captures(&self, port: u32) -> Result<Vec<CaptureInfo>, ControlError> {
        let _ = port;
        Err(not_offered())
    }

    /// Refuses a file to which the user of the switch would write a dump, if the switch itself uses it.
    fn check_dump_file(&self, path: &Path) -> Result<(), ControlError> {
        let _ = path;
        Ok(())
    }

    /// Calls `change` once while no packets are processed, so that each packet sees all of the change or none of it. `change`
    /// must not use the host. After an error it was not called.
    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), ControlError> {
        let _ = change;
        Err(not_offered())
    }

    /// Checks that no worker is stuck, so that a change can be made.
    fn responds(&self) -> Result<(), ControlError> {
        Ok(())
    }

    /// Requests that the switch stop.
    fn stop(&self);

    /// Reports that a program is not loaded, because its client has left.
    fn load_cancelled(&self, program: &Path) {
        let _ = program;
    }

    /// Reports refused clients: the last one and the reason. Called rarely, however many clients are refused.
    fn clients_refused(&self, why: &str) {
        let _ = why;
    }
}

/// The trace of a packet that was not sent.
pub struct DryRun {
    /// The switch; its program has the names in the trace.
    pub switch: Arc<Switch>,
    /// The steps.
    pub trace: Trace,
    /// The outcome.
    pub outcome: Outcome,
}

/// Replaces the running program by a prepared one. No batch is applied meanwhile.
pub type Swap = Box<dyn FnOnce() -> Result<Swapped, ControlError> + Send>;

/// A program that is ready to run, with a state of its own.
pub struct Ready {
    /// The switch with the program. Its state can be changed before it runs.
    pub switch: Arc<Switch>,
    /// The P4Info that p4jet generates for the program, in binary form.
    pub p4info: Vec<u8>,
    /// Replaces the running program by this one.
    pub run: Box<dyn FnOnce(Keep) -> Result<Swapped, ControlError> + Send>,
}

/// The initial state of a program that replaces another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Its own; that of the old program is discarded.
    Own,
    /// All of the old program's state. If something does not fit, the old program continues.
    Old,
}

/// The program that runs after a swap.
pub struct Swapped {
    /// The switch with the program.
    pub switch: Arc<Switch>,
    /// What was kept and what was lost, in lines.
    pub report: String,
}
