//! The process around a running switch: ports, statistics, traces, captures, other programs, its end.

use crate::rights::Rights;
use crate::stats::Stats;
use p4jet_dataplane::{
    Cancel, CaptureInfo, CaptureSpec, Outcome, Subscription, Switch, Topics, Trace, TraceInfo, TraceSpec,
    Traced,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program to load.
#[derive(Clone, Debug)]
pub enum Program<'a> {
    /// A file that the switch reads, with these rights.
    File(&'a Path, &'a Rights),
    /// Texts that a client sent: the program and the files that it includes, by path. What is missing among them comes
    /// from the file system only if the rights are [`Rights::All`].
    Texts(&'a Path, Arc<BTreeMap<PathBuf, String>>, &'a Rights),
    /// A source with everything that it needs: the switch's own options and files play no part.
    Whole(&'a Source),
}

/// A program's source with all that the compiler needs, except the built-in files.
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
    /// Its path, on the machine that has the file.
    pub fn path(&self) -> &Path {
        match self {
            Program::File(path, _) | Program::Texts(path, ..) => path,
            Program::Whole(source) => &source.path,
        }
    }
}

/// What a host says of what it does not offer.
const NOT_OFFERED: &str = "not supported by this switch";

/// The process around a running switch. An error is a text for the user. Functions with a body are of hosts that offer less.
pub trait Host: Send + Sync {
    /// Compiles a program aside, while the old one runs, unless that is cancelled meanwhile. The result puts it in the
    /// old one's place; dropped, it changes nothing. An error may be several lines: diagnostics.
    /// [`SharedControl::load_program`](crate::SharedControl::load_program) limits how many compile at once.
    fn prepare(&self, program: &Program<'_>, cancel: &Cancel) -> Result<Swap, String>;

    /// As [`Self::prepare`], for the running program: compiles it again for the configured output queues.
    fn prepare_queues(&self) -> Result<Swap, String>;

    /// As [`Self::prepare`], of the program that runs, with or without counts of its lookups and actions. None if it is so already.
    fn prepare_counted(&self, counted: bool, cancel: &Cancel) -> Result<Option<Swap>, String> {
        let _ = (counted, cancel);
        Err(NOT_OFFERED.into())
    }

    /// Compiles a program aside, or the running one again if there is none given, with a state of its own.
    fn prepare_pipeline(&self, program: Option<&Program<'_>>, cancel: &Cancel) -> Result<Ready, String> {
        let _ = (program, cancel);
        Err(NOT_OFFERED.into())
    }

    /// The P4Info of the running program in binary form, and the switch with that program.
    fn p4info(&self) -> Result<(Arc<Switch>, Vec<u8>), String> {
        Err(NOT_OFFERED.into())
    }

    /// Listens to what happens from now on.
    fn subscribe(&self, topics: Topics) -> Result<Subscription, String>;

    /// All ports, in the order of their numbers.
    fn ports(&self) -> Vec<PortInfo>;

    /// Opens a port, specified as after `-i N@`.
    fn add_port(&self, number: u32, spec: &str, rights: &Rights) -> Result<(), String>;

    /// Closes a port.
    fn remove_port(&self, number: u32) -> Result<(), String>;

    /// What the switch has done. Workers are asked between two batches.
    fn stats(&self) -> Result<Stats, String> {
        Err(NOT_OFFERED.into())
    }

    /// Processes a frame as if it had come by the port.
    fn inject(&self, port: u32, frame: Vec<u8>) -> Result<(), String> {
        let _ = (port, frame);
        Err(NOT_OFFERED.into())
    }

    /// What the switch would do with a packet; nothing is sent, and nothing changes.
    fn trace_packet(&self, port: u32, frame: &[u8]) -> Result<DryRun, String> {
        let _ = (port, frame);
        Err(NOT_OFFERED.into())
    }

    /// Begins to trace packets that match. Returns the number of the trace.
    fn add_trace(&self, spec: TraceSpec) -> Result<u32, String> {
        let _ = spec;
        Err(NOT_OFFERED.into())
    }

    /// The traces.
    fn traces(&self) -> Vec<TraceInfo> {
        Vec::new()
    }

    /// The packets of a trace.
    fn traced(&self, id: u32) -> Result<Vec<Arc<Traced>>, String> {
        let _ = id;
        Err(NOT_OFFERED.into())
    }

    /// Ends a trace.
    fn remove_trace(&self, id: u32) -> Result<(), String> {
        let _ = id;
        Err(NOT_OFFERED.into())
    }

    /// The bits of a header field that traces can filter by.
    fn field_width(&self, field: &str) -> Result<u32, String> {
        let _ = field;
        Err(NOT_OFFERED.into())
    }

    /// Begins to write the frames of a port to a file.
    fn start_capture(&self, spec: CaptureSpec, rights: &Rights) -> Result<(), String> {
        let _ = (spec, rights);
        Err(NOT_OFFERED.into())
    }

    /// The captures.
    fn captures(&self) -> Vec<CaptureInfo> {
        Vec::new()
    }

    /// Ends the captures of a port; what they have written.
    fn stop_captures(&self, port: u32) -> Result<Vec<CaptureInfo>, String> {
        let _ = port;
        Err(NOT_OFFERED.into())
    }

    /// Calls `change` once while no packets are processed, so that each packet sees all of the change or none of it. `change`
    /// must not use the host. After an error it was not called.
    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), String> {
        let _ = change;
        Err(NOT_OFFERED.into())
    }

    /// Lets the switch end, soon.
    fn stop(&self);

    /// Clients were refused: who the last one was, and why. Rarely, however many they are.
    fn clients_refused(&self, why: &str) {
        let _ = why;
    }
}

/// What a switch would do with a packet.
pub struct DryRun {
    /// The switch; its program has the names in the trace.
    pub switch: Arc<Switch>,
    /// Step by step.
    pub trace: Trace,
    /// What would become of the packet.
    pub outcome: Outcome,
}

/// Puts a prepared program in place of the one that runs. No batch is carried out meanwhile.
pub type Swap = Box<dyn FnOnce() -> Result<Swapped, String> + Send>;

/// A program that is ready to run, with a state of its own.
pub struct Ready {
    /// The switch with it. Its state can be changed before it runs.
    pub switch: Arc<Switch>,
    /// The P4Info that p4jet makes of the program, in binary form.
    pub p4info: Vec<u8>,
    /// Puts it in place of the program that runs.
    pub run: Box<dyn FnOnce(Keep) -> Result<Swapped, String> + Send>,
}

/// The state with which a program begins that replaces another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Its own. That of the old program is gone.
    Own,
    /// The old program's, all of it. If something does not fit, the old program goes on.
    Old,
}

/// A program that runs now.
pub struct Swapped {
    /// The switch with it.
    pub switch: Arc<Switch>,
    /// What was carried over and what was not: lines.
    pub told: String,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its number, as the program sees it.
    pub number: u32,
    /// The interface, or what else it is.
    pub spec: String,
    /// Whether frames can flow.
    pub up: bool,
    /// What else there is to say: why it is down, what it counted.
    pub extra: Vec<(String, String)>,
}
