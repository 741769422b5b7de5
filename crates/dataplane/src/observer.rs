//! Observes live packets: full traces of packets that match a filter, and captures of ports.
//!
//! Workers copy the packets into bounded queues and continue; other threads do the rest. The interpreter traces a
//! packet against the tables and state of that moment, in an environment that keeps all changes to itself.

use crate::places::bit_of;
use crate::run_error::RunError;
use crate::running::Running;
use crate::switch::Switch;
use crate::watch::{BytePattern, CHUNKS_MAX, Capturing, Chunk, Found, Sought, Verdict, Watch};
use num_bigint::BigUint;
use p4jet_interp::{Outcome, TraceEvent};
use p4jet_ir::{FieldId, FieldKind, Program};
use p4jet_ports::{CaptureWriter, FileId, PortError};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of traces at a time.
pub const TRACES_MAX: usize = 64;
/// Maximum number of packets of a trace.
pub const TRACED_MAX: u32 = 1000;
/// Maximum number of captures at a time.
pub const CAPTURES_MAX: usize = 64;
/// Maximum number of lines per traced packet; an endless loop makes hundreds of thousands.
const LINES_MAX: usize = 4000;
/// Maximum number of bytes that all traces keep. With more, the trace that exceeds it takes no further packets.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Maximum wait for the writer of a capture that ends: at most 16 MB wait for it.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(10);
/// Interval at which the tracer checks whether another program runs.
const LOOK: Duration = Duration::from_millis(200);

/// The filter of a trace. A packet must match all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSpec {
    /// Ingress port; any port if `None`.
    pub port: Option<u32>,
    /// Byte patterns of the frame.
    pub bytes: Vec<BytePattern>,
    /// Values of header fields that the parser extracts.
    pub fields: Vec<FieldPattern>,
    /// Number of packets; at most [`TRACED_MAX`].
    pub count: u32,
}

/// A pattern of a header field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPattern {
    /// The name of the field, such as `hdr.ipv4.dstAddr`, or an unambiguous suffix of it.
    pub field: String,
    /// The value; only bits that are 1 in `mask` count.
    pub value: BigUint,
    /// Mask of the bits that count.
    pub mask: BigUint,
}

/// The state of a trace.
#[derive(Clone, Debug)]
pub struct TraceInfo {
    /// Its number.
    pub id: u32,
    /// Its filter.
    pub spec: TraceSpec,
    /// Packets traced.
    pub taken: u32,
    /// Packets that matched the byte filter but arrived too fast to be traced.
    pub missed: u64,
    /// Memory of the packets taken.
    pub kept_bytes: usize,
}

/// A traced packet.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The ingress port.
    pub port: u32,
    /// The received bytes.
    pub frame: Vec<u8>,
    /// Time in microseconds since the switch started.
    pub now_us: u64,
    /// The outcome in the workers' engine.
    pub verdict: Verdict,
    /// True if the interpreter, a moment later, had the same outcome.
    pub agrees: bool,
    /// The interpreter's steps, as text.
    pub text: String,
    /// The interpreter's steps, for tools.
    pub json: serde_json::Value,
}

/// The state of a capture, current or final.
#[derive(Clone, Debug)]
pub struct CaptureInfo {
    /// The port.
    pub port: u32,
    /// The name of its file.
    pub path: PathBuf,
    /// The file, unless it is a device.
    pub file: Option<FileId>,
    /// Frames written.
    pub written: u64,
    /// Frames not written because they arrived too fast.
    pub dropped: u64,
    /// The error after which nothing more is written.
    pub failed: Option<PortError>,
}

/// The selection of frames to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureSpec {
    /// The port.
    pub port: u32,
    /// The file; an existing one is replaced.
    pub path: PathBuf,
    /// True to capture received frames.
    pub received: bool,
    /// True to capture sent frames.
    pub sent: bool,
    /// Maximum number of bytes kept of each frame; by default all.
    pub snaplen: Option<u32>,
    /// Maximum number of frames; by default all.
    pub count: Option<u64>,
}

/// The reason why a trace or capture is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObserveError {
    /// The program has no header field of this name; the list holds the names of all.
    NoField(String, Vec<String>),
    /// Several header fields end with this name.
    AmbiguousField(String, Vec<String>),
    /// The value or mask of this field has more than this number of bits.
    Wide(String, u64),
    /// A trace cannot keep this number of packets.
    Count(u32),
    /// There is the maximum number of these already.
    TooMany(&'static str, usize),
    /// There is no trace with this number.
    NoTrace(u32),
    /// Nothing is captured at this port.
    NoCapture(u32),
    /// Another capture writes this file.
    InUse(PathBuf),
    /// The system refuses a file or a thread.
    System(String),
    /// The workers do not answer.
    Run(RunError),
}

impl fmt::Display for ObserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObserveError::NoField(name, _) => write!(f, "the program has no header field `{name}`"),
            ObserveError::AmbiguousField(name, names) => {
                write!(f, "`{name}` may be any of {}", names.join(", "))
            }
            ObserveError::Wide(name, width) => {
                write!(f, "`{name}` has {width} bits: the value or mask has more")
            }
            ObserveError::Count(count) => write!(f, "{count} packets: expected 1 to {TRACED_MAX}"),
            ObserveError::TooMany(what, max) => {
                write!(f, "there are {max} {what} already, which is the maximum")
            }
            ObserveError::NoTrace(id) => write!(f, "there is no trace {id}"),
            ObserveError::NoCapture(port) => write!(f, "nothing is captured at port {port}"),
            ObserveError::InUse(path) => write!(f, "{} is being written already", path.display()),
            ObserveError::System(why) => f.write_str(why),
            ObserveError::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ObserveError {}

impl From<RunError> for ObserveError {
    fn from(error: RunError) -> ObserveError {
        ObserveError::Run(error)
    }
}

/// Traces and captures packets of a running switch. Dropping it ends the traces and completes the captures.
pub struct Observer {
    inner: Arc<Inner>,
}

struct Inner {
    running: Arc<Running>,
    state: Mutex<State>,
    /// Number of packets that wait to be traced.
    waiting: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    last_id: u32,
    traces: BTreeMap<u32, Tracing>,
    captures: Vec<Capture>,
    /// The switch for which the traces' filters were created.
    switch: Option<Arc<Switch>>,
    tracer: Option<Sender<Found>>,
}

impl State {
    fn check_new_capture(&self, path: &Path, id: Option<&FileId>) -> Result<(), ObserveError> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(ObserveError::TooMany("captures", CAPTURES_MAX));
        }
        match id.is_some() && self.captures.iter().any(|capture| capture.file.as_ref() == id) {
            true => Err(ObserveError::InUse(path.into())),
            false => Ok(()),
        }
    }
}

struct Tracing {
    spec: TraceSpec,
    sought: Arc<Sought>,
    packets: Vec<Arc<Traced>>,
    kept_bytes: usize,
}

struct Capture {
    path: PathBuf,
    file: Option<FileId>,
    capturing: Arc<Capturing>,
    writer: JoinHandle<()>,
    written: Arc<Written>,
}

#[derive(Default)]
struct Written {
    frames: AtomicU64,
    failed: Mutex<Option<PortError>>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the current filters to the workers.
    fn spread(&self, state: &State) -> Result<(), RunError> {
        let traces: Vec<_> = state.traces.values().map(|trace| Arc::clone(&trace.sought)).collect();
        let captures: Vec<_> = state.captures.iter().map(|c| Arc::clone(&c.capturing)).collect();
        let all = move || {
            let nothing = traces.is_empty() && captures.is_empty();
            (!nothing).then(|| Box::new(Watch::new(traces.clone(), captures.clone())))
        };
        self.running.run_on_workers(move |f| f.set_watch(all()))
    }

    /// Creates the filter of a trace for the running program.
    fn sought(&self, id: u32, spec: &TraceSpec, program: &Program, inbox: Sender<Found>) -> Sought {
        let mut patterns = spec.bytes.clone();
        for wanted in &spec.fields {
            // If the program no longer has the field, packets pass this filter, but the tracer discards them.
            if let Ok(field) = field_named(program, &wanted.field)
                && let Some(bit) = bit_of(program, field)
            {
                patterns.push(bytes_of(bit, program.width(field), wanted));
            }
        }
        Sought {
            id,
            port: spec.port,
            patterns,
            done: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            waiting: Arc::clone(&self.waiting),
            inbox,
        }
    }

    /// Traces a packet that passed a filter, and keeps the trace if all field patterns match.
    fn trace(&self, found: &Found) {
        let switch = self.running.switch();
        let spec = match self.state().traces.get(&found.trace) {
            Some(trace) if !trace.sought.done.load(Ordering::Relaxed) => trace.spec.clone(),
            _ => return,
        };
        let Ok((trace, outcome)) = switch.trace_dry(found.port, &found.frame, found.now_us) else { return };
        let program = switch.traced_program();
        if !spec.fields.iter().all(|wanted| has_field(program, &trace.events, wanted)) {
            return;
        }
        let agrees = match (&found.verdict, &outcome) {
            (Verdict::Sent { port, frame }, Outcome::Sent { port: p, frame: f }) => port == p && frame == f,
            (Verdict::Dropped(why), Outcome::Dropped { reason, .. }) => why == reason.text(program),
            (Verdict::Done, Outcome::Done) => true,
            _ => false,
        };
        let traced = Traced {
            port: found.port,
            frame: found.frame.clone(),
            now_us: found.now_us,
            verdict: found.verdict.clone(),
            agrees,
            text: trace.render_shortened(program, LINES_MAX),
            json: trace.to_json(program),
        };
        let mut state = self.state();
        let kept: usize = state.traces.values().map(|tracing| tracing.kept_bytes).sum();
        if let Some(tracing) = state.traces.get_mut(&found.trace) {
            let bytes = trace.bytes() + 2 * found.frame.len();
            tracing.kept_bytes += bytes;
            tracing.packets.push(Arc::new(traced));
            let enough = tracing.packets.len() >= tracing.spec.count as usize;
            if enough || kept + bytes > KEPT_BYTES_MAX {
                tracing.sought.done.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Rebuilds the filters if another program runs, because its fields may lie elsewhere.
    fn follow_program(&self) {
        let switch = self.running.switch();
        let mut state = self.state();
        if state.switch.as_ref().is_some_and(|old| Arc::ptr_eq(old, &switch)) {
            return;
        }
        let Some(inbox) = state.tracer.clone() else { return };
        for (id, tracing) in &mut state.traces {
            let new = self.sought(*id, &tracing.spec, switch.traced_program(), inbox.clone());
            new.done.store(tracing.sought.done.load(Ordering::Relaxed), Ordering::Relaxed);
            new.missed.store(tracing.sought.missed.load(Ordering::Relaxed), Ordering::Relaxed);
            tracing.sought = Arc::new(new);
        }
        state.switch = Some(switch);
        // This fails only if the switch has been stopped; then no packets arrive.
        let _ = self.spread(&state);
    }
}

impl Observer {
    /// Creates an observer without traces or captures.
    pub fn new(running: Arc<Running>) -> Observer {
        let waiting = Arc::new(AtomicUsize::new(0));
        Observer { inner: Arc::new(Inner { running, state: Mutex::default(), waiting }) }
    }

    /// Starts a trace and returns its number.
    pub fn add_trace(&self, mut spec: TraceSpec) -> Result<u32, ObserveError> {
        let switch = self.inner.running.switch();
        let program = switch.traced_program();
        for wanted in &mut spec.fields {
            let field = field_named(program, &wanted.field)?;
            let width = u64::from(program.width(field));
            if wanted.value.bits() > width || wanted.mask.bits() > width {
                return Err(ObserveError::Wide(wanted.field.clone(), width));
            }
        }
        if !(1..=TRACED_MAX).contains(&spec.count) {
            return Err(ObserveError::Count(spec.count));
        }
        let mut state = self.inner.state();
        if state.traces.len() >= TRACES_MAX {
            return Err(ObserveError::TooMany("traces", TRACES_MAX));
        }
        let inbox = match &state.tracer {
            Some(inbox) => inbox.clone(),
            None => {
                let (inbox, found) = channel();
                start_tracer(Arc::downgrade(&self.inner), Arc::clone(&self.inner.waiting), found)?;
                state.tracer = Some(inbox.clone());
                inbox
            }
        };
        state.last_id += 1;
        let id = state.last_id;
        let sought = Arc::new(self.inner.sought(id, &spec, program, inbox));
        if state.traces.is_empty() {
            state.switch = Some(Arc::clone(&switch));
        }
        state.traces.insert(id, Tracing { spec, sought, packets: Vec::new(), kept_bytes: 0 });
        if let Err(error) = self.inner.spread(&state) {
            state.traces.remove(&id);
            return Err(error.into());
        }
        Ok(id)
    }

    /// Returns the width in bits of a header field ([`FieldPattern::field`]).
    pub fn field_width(&self, name: &str) -> Result<u32, ObserveError> {
        let switch = self.inner.running.switch();
        let program = switch.traced_program();
        field_named(program, name).map(|field| program.width(field))
    }

    /// Returns the state of all traces.
    pub fn traces(&self) -> Vec<TraceInfo> {
        let state = self.inner.state();
        let info = |(id, tracing): (&u32, &Tracing)| TraceInfo {
            id: *id,
            spec: tracing.spec.clone(),
            taken: tracing.packets.len() as u32,
            missed: tracing.sought.missed.load(Ordering::Relaxed),
            kept_bytes: tracing.kept_bytes,
        };
        state.traces.iter().map(info).collect()
    }

    /// Returns the packets of a trace.
    pub fn traced(&self, id: u32) -> Result<Vec<Arc<Traced>>, ObserveError> {
        let state = self.inner.state();
        state.traces.get(&id).map(|tracing| tracing.packets.clone()).ok_or_else(|| no_trace(id))
    }

    /// Ends a trace and drops its packets.
    pub fn remove_trace(&self, id: u32) -> Result<(), ObserveError> {
        let mut state = self.inner.state();
        let removed = state.traces.remove(&id).ok_or_else(|| no_trace(id))?;
        self.inner.spread(&state).map_err(|error| {
            state.traces.insert(id, removed);
            error.into()
        })
    }

    /// Checks that a capture to the file `id`, called `path`, could be started. Opens nothing.
    pub fn check_new_capture(&self, path: &Path, id: Option<&FileId>) -> Result<(), ObserveError> {
        self.inner.state().check_new_capture(path, id)
    }

    /// Starts to write frames to a file.
    pub fn start_capture(&self, spec: CaptureSpec) -> Result<(), ObserveError> {
        let path = spec.path.clone();
        self.start_capture_in(spec, &path)
    }

    /// Like [`Self::start_capture`], but opens the file by the name `opened`, such as /proc/self/fd/7.
    pub fn start_capture_in(&self, spec: CaptureSpec, opened: &Path) -> Result<(), ObserveError> {
        let mut state = self.inner.state();
        state.check_new_capture(&spec.path, FileId::of(opened).as_ref())?;
        // Creating the file empties it, so a stuck worker is found first.
        self.inner.running.responds()?;
        let file = CaptureWriter::create(opened).map_err(|e| ObserveError::System(e.to_string()))?;
        let (inbox, chunks) = sync_channel(CHUNKS_MAX);
        let capturing = Arc::new(Capturing {
            port: spec.port,
            received: spec.received,
            sent: spec.sent,
            snaplen: spec.snaplen.map_or(usize::MAX, |n| n as usize),
            left: AtomicU64::new(spec.count.unwrap_or(u64::MAX)),
            waiting: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            inbox,
        });
        let written = Arc::new(Written::default());
        let writer = {
            // The thread must not hold the observer: it ends when there is no sender.
            let (capturing, written) = (Arc::downgrade(&capturing), Arc::clone(&written));
            let write = move || write_capture(file, &chunks, &capturing, &written);
            p4jet_threads::spawn("capture", write)
        };
        let writer = writer.map_err(|e| ObserveError::System(format!("no thread for a capture: {e}")))?;
        // The file exists now.
        let id = FileId::of(opened);
        state.captures.push(Capture { path: spec.path, file: id, capturing, writer, written });
        self.inner.spread(&state).map_err(|error| {
            // The writer ends when the other end of its channel is dropped.
            state.captures.pop();
            error.into()
        })
    }

    /// Returns the state of all captures.
    pub fn captures(&self) -> Vec<CaptureInfo> {
        self.inner.state().captures.iter().map(Capture::info).collect()
    }

    /// Ends the captures of a port and returns their final state.
    pub fn stop_captures(&self, port: u32) -> Result<Vec<CaptureInfo>, ObserveError> {
        let stopped = self.stop(|capture| capture.capturing.port == port);
        if stopped.is_empty() {
            return Err(ObserveError::NoCapture(port));
        }
        Ok(stopped)
    }

    /// Ends all captures and returns their final state.
    pub fn stop_all_captures(&self) -> Vec<CaptureInfo> {
        self.stop(|_| true)
    }

    fn stop(&self, which: impl Fn(&Capture) -> bool) -> Vec<CaptureInfo> {
        let mut state = self.inner.state();
        let (stopped, left) = std::mem::take(&mut state.captures).into_iter().partition(|c| which(c));
        state.captures = left;
        // A stopped switch no longer holds any of them. A stuck worker keeps them, but takes no more frames.
        let _ = self.inner.spread(&state);
        drop(state);
        let stopped: Vec<Capture> = stopped;
        stopped.into_iter().map(Capture::finish).collect()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        {
            let mut state = self.inner.state();
            state.traces.clear();
            // Ends the tracer.
            state.tracer = None;
        }
        self.stop_all_captures();
    }
}

impl Capture {
    fn info(&self) -> CaptureInfo {
        CaptureInfo {
            port: self.capturing.port,
            path: self.path.clone(),
            file: self.file.clone(),
            written: self.written.frames.load(Ordering::Relaxed),
            dropped: self.capturing.dropped.load(Ordering::Relaxed),
            failed: self.written.failed.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Waits until all frames are written, but no longer than [`WRITE_WAIT_MAX`].
    fn finish(self) -> CaptureInfo {
        // A worker that is stuck never drops its reference, so the queue gets an end instead.
        self.capturing.left.store(0, Ordering::Relaxed);
        let end = || Chunk { time: Duration::ZERO, frames: Vec::new(), bytes: Vec::new() };
        let until = Instant::now() + WRITE_WAIT_MAX;
        let mut has_end = false;
        while !self.writer.is_finished() && Instant::now() < until {
            has_end = has_end || self.capturing.inbox.try_send(end()).is_ok();
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut info = self.info();
        if !self.writer.is_finished() {
            let why =
                format!("{}: it has taken no data for {} s", self.path.display(), WRITE_WAIT_MAX.as_secs());
            info.failed = info.failed.or(Some(PortError::environment(why)));
        }
        info
    }
}

/// Writes frames as they arrive, until all senders have ended or a chunk without frames arrives. After a failure it continues to empty the queue.
fn write_capture(
    mut file: CaptureWriter,
    chunks: &Receiver<Chunk>,
    capturing: &Weak<Capturing>,
    written: &Written,
) {
    let fail = |error: PortError| {
        written.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    };
    let mut failed = false;
    loop {
        let chunk = match chunks.try_recv() {
            Ok(chunk) => chunk,
            Err(_) => {
                // Makes all frames so far visible to readers of the file.
                if !failed && let Err(error) = file.flush() {
                    failed = true;
                    fail(error);
                }
                match chunks.recv() {
                    Ok(chunk) => chunk,
                    Err(_) => break,
                }
            }
        };
        if chunk.frames.is_empty() {
            break;
        }
        let mut at = 0;
        let mut n = 0;
        for (whole, kept) in &chunk.frames {
            let frame = &chunk.bytes[at..at + *kept as usize];
            at += frame.len();
            if failed {
                continue;
            }
            match file.write_cut(chunk.time, frame, *whole) {
                Ok(()) => n += 1,
                Err(error) => {
                    failed = true;
                    fail(error);
                }
            }
        }
        written.frames.fetch_add(n, Ordering::Relaxed);
        if let Some(capturing) = capturing.upgrade() {
            capturing.waiting.fetch_sub(chunk.bytes.len(), Ordering::Relaxed);
            capturing.dropped.fetch_add(chunk.frames.len() as u64 - n, Ordering::Relaxed);
        }
    }
    if let Err(error) = file.finish() {
        fail(error);
    }
}

fn no_trace(id: u32) -> ObserveError {
    ObserveError::NoTrace(id)
}

fn start_tracer(
    inner: Weak<Inner>,
    waiting: Arc<AtomicUsize>,
    found: Receiver<Found>,
) -> Result<(), ObserveError> {
    let work = move || {
        loop {
            let found = match found.recv_timeout(LOOK) {
                Ok(found) => Some(found),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let Some(inner) = inner.upgrade() else { return };
            match found {
                Some(found) => {
                    inner.trace(&found);
                    waiting.fetch_sub(1, Ordering::Relaxed);
                }
                None => inner.follow_program(),
            }
        }
    };
    let thread = p4jet_threads::spawn("tracer", work);
    thread.map(drop).map_err(|e| ObserveError::System(format!("no thread for traces: {e}")))
}

/// Returns the header field with this name, or the only one whose name ends with it.
fn field_named(program: &Program, name: &str) -> Result<FieldId, ObserveError> {
    let is_end =
        |whole: &str| whole.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let fields = program.fields.iter().zip(0..).filter(|(f, _)| matches!(f.kind, FieldKind::Header(_)));
    let found: Vec<(&str, FieldId)> =
        fields.filter(|(f, _)| is_end(&f.name)).map(|(f, i)| (f.name.as_str(), FieldId(i))).collect();
    match found[..] {
        [(_, field)] => Ok(field),
        [] => {
            let fields = program.fields.iter().filter(|field| matches!(field.kind, FieldKind::Header(_)));
            Err(ObserveError::NoField(name.to_string(), fields.map(|field| field.name.clone()).collect()))
        }
        _ => match found.iter().find(|(whole, _)| *whole == name) {
            Some((_, field)) => Ok(*field),
            None => {
                let names = found.iter().map(|(whole, _)| (*whole).to_string()).collect();
                Err(ObserveError::AmbiguousField(name.to_string(), names))
            }
        },
    }
}

/// True if the parser extracted a matching value.
fn has_field(program: &Program, events: &[TraceEvent], wanted: &FieldPattern) -> bool {
    let Ok(field) = field_named(program, &wanted.field) else { return false };
    let want = &wanted.value & &wanted.mask;
    events.iter().any(|event| match event {
        TraceEvent::Extract { fields, .. } => {
            fields.iter().any(|(f, value)| *f == field && value & &wanted.mask == want)
        }
        _ => false,
    })
}

/// Converts a field pattern to a byte pattern for a field that begins at `bit` of the frame.
fn bytes_of(bit: u32, width: u32, wanted: &FieldPattern) -> BytePattern {
    let bytes = (bit % 8 + width).div_ceil(8) as usize;
    let shift = bytes as u32 * 8 - bit % 8 - width;
    let laid_out = |value: &BigUint| {
        let digits = (value << shift).to_bytes_be();
        let mut all = vec![0; bytes.saturating_sub(digits.len())];
        all.extend(digits);
        all
    };
    let value = laid_out(&(&wanted.value & &wanted.mask));
    BytePattern { at: bit as usize / 8, value, mask: laid_out(&wanted.mask) }
}

impl CaptureSpec {
    /// Selects all frames of a port, in both directions.
    pub fn all(port: u32, path: &Path) -> CaptureSpec {
        let path = path.to_path_buf();
        CaptureSpec { port, path, received: true, sent: true, snaplen: None, count: None }
    }
}
