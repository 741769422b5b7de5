//! A switch that runs on the calling thread.

use crate::program::Program;
use p4jet_compile::Compiled;
use p4jet_control::{Control, Event, Rights, SharedControl};
use p4jet_dataplane::{
    Cancel, EngineKind, FRAME_MAX, Notice, Options, Processed, ProgramError, Switch as DataPlane, Worker,
};
use p4jet_packet::{BATCH_MAX, Batch, PORT_DROP, Pool, REASON_DONE};
use p4jet_text::{answer, stf, wire};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of lines of a trace as text.
const TRACE_LINES_MAX: usize = 4000;

/// A packet that left: port and frame.
type Sent<'py> = (u32, Bound<'py, PyBytes>);

/// Packets that left output queues, each with the time in microseconds, and the reasons of dropped ones.
type Left<'py> = (Vec<(u64, u32, Bound<'py, PyBytes>)>, Vec<String>);

/// A switch with one worker. Its methods release the interpreter lock while they work; calls on one switch wait for each other.
#[pyclass(frozen)]
pub struct Switch {
    control: SharedControl,
    switch: Arc<DataPlane>,
    worker: Mutex<Running>,
}

/// The worker with the buffers of batches.
struct Running {
    worker: Worker,
    buffers: Option<(Pool, Batch)>,
}

/// Packets of a call of [`Switch::send_many`], one after the other.
#[derive(Default)]
struct Many {
    data: Vec<u8>,
    /// Bytes of each packet, and its port: `u32`, little-endian.
    lengths: Vec<u8>,
    ports: Vec<u8>,
    drops: BTreeMap<u32, u64>,
}

impl Many {
    fn add(&mut self, pool: &Pool, batch: &Batch) {
        for packet in batch.packets() {
            if packet.egress_port == PORT_DROP {
                if packet.drop_reason != REASON_DONE {
                    *self.drops.entry(packet.drop_reason).or_default() += 1;
                }
                continue;
            }
            self.put(packet.egress_port, pool.frame(packet));
        }
    }

    fn put(&mut self, port: u32, frame: &[u8]) {
        self.data.extend_from_slice(frame);
        self.lengths.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        self.ports.extend_from_slice(&port.to_le_bytes());
    }
}

fn refused(error: &ProgramError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

fn engine_of(name: &str) -> PyResult<EngineKind> {
    match name {
        "jit" => Ok(EngineKind::Jit),
        "interp" => Ok(EngineKind::Interp),
        other => Err(PyValueError::new_err(format!("unknown engine `{other}`; there are: jit, interp"))),
    }
}

/// Creates a switch for one engine.
fn data_plane(compiled: &Compiled, engine: EngineKind) -> Result<Arc<DataPlane>, ProgramError> {
    let program = match engine {
        EngineKind::Jit => &compiled.program,
        // The reference runs the program without passes.
        EngineKind::Interp => &compiled.lowered,
    };
    let switch = DataPlane::with_options(program.clone(), Options::default(), 1)?;
    switch.set_lowered(Arc::new(compiled.lowered.clone()));
    Ok(switch)
}

fn sent<'py>(py: Python<'py>, processed: Processed) -> (Vec<Sent<'py>>, Vec<String>) {
    let sent = processed.sent.into_iter().map(|(port, frame)| (port, PyBytes::new(py, &frame)));
    (sent.collect(), processed.dropped)
}

/// Reads the `index`th number of an array of `u32`, or its only one.
fn number(numbers: &[u8], index: usize) -> u32 {
    let at = if numbers.len() == 4 { 0 } else { 4 * index };
    u32::from_le_bytes(numbers[at..at + 4].try_into().expect("four bytes"))
}

impl Switch {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a port that the program cannot distinguish from others.
    fn check_port(&self, port: u32) -> PyResult<()> {
        let max = self.switch.port_max();
        if port <= max {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("port {port}: this program has ports 0 to {max}")))
    }

    fn check_frame(frame: &[u8]) -> PyResult<()> {
        if frame.len() <= FRAME_MAX {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("a frame of {} bytes: expected at most {FRAME_MAX}", frame.len())))
    }
}

#[pymethods]
impl Switch {
    /// Creates a switch at time 0. `queues` is the number of output queues of each port; without it, packets leave at once.
    #[new]
    fn new(py: Python<'_>, program: &Program, engine: &str, queues: Option<usize>) -> PyResult<Switch> {
        let engine = engine_of(engine)?;
        let queued = queues.map(|_| program.queued()).transpose()?;
        let compiled = queued.as_ref().unwrap_or(&program.compiled);
        py.detach(|| {
            let switch = data_plane(compiled, engine).map_err(|error| refused(&error))?;
            if let Some(queues) = queues {
                switch.queues().configure(|config| {
                    config.queues_per_port = queues;
                    config.wanted = true;
                });
            }
            let mut worker = switch.worker(engine, 0).map_err(|error| refused(&error))?;
            worker.set_time(Some(0));
            let control = SharedControl::new(Control::new(Arc::clone(&switch)), None);
            Ok(Switch { control, switch, worker: Mutex::new(Running { worker, buffers: None }) })
        })
    }

    /// Carries out a request of the control protocol; request and answer are JSON.
    fn request(&self, py: Python<'_>, request: &str) -> PyResult<String> {
        py.detach(|| {
            let request = wire::Request::parse(request.as_bytes()).map_err(PyValueError::new_err)?;
            Ok(answer(&self.control, request, &Rights::nothing(), &Cancel::default(), &|| false).to_line())
        })
    }

    /// Returns the whole configuration in the form that `restore` takes; with `counters`, also their values.
    fn dump(&self, py: Python<'_>, counters: bool) -> String {
        py.detach(|| self.control.dump(counters))
    }

    /// The highest port.
    #[getter]
    fn port_max(&self) -> u32 {
        self.switch.port_max()
    }

    /// Sets the time in microseconds since the start. Returns the packets that left output queues meanwhile: time, port, frame, and
    /// the reasons of dropped ones.
    fn advance<'py>(&self, py: Python<'py>, to_us: u64) -> Left<'py> {
        let all = py.detach(|| self.running().worker.advance(to_us));
        let (mut left, mut dropped) = (Vec::new(), Vec::new());
        for (time_us, processed) in all {
            let frames = processed.sent.iter().map(|(port, frame)| (time_us, *port, PyBytes::new(py, frame)));
            left.extend(frames);
            dropped.extend(processed.dropped);
        }
        (left, dropped)
    }

    /// Processes one packet. Returns the packets that left and the reasons of dropped ones.
    fn send<'py>(&self, py: Python<'py>, port: u32, frame: &[u8]) -> PyResult<(Vec<Sent<'py>>, Vec<String>)> {
        self.check_port(port)?;
        Switch::check_frame(frame)?;
        let processed = py.detach(|| self.running().worker.process_one(port, frame));
        Ok(sent(py, processed))
    }

    /// Processes packets in batches: `data` has the frames one after the other, `lengths` and `ports` a little-endian `u32` for each
    /// frame, or one for all. Returns the packets that left in the same form, and the number of dropped packets by reason.
    #[expect(clippy::type_complexity, reason = "three arrays and a dictionary")]
    fn send_many<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        lengths: &[u8],
        ports: &[u8],
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, BTreeMap<String, u64>)>
    {
        let count = match lengths.len() {
            4 => data.len().checked_div(number(lengths, 0) as usize).unwrap_or(0),
            bytes => bytes / 4,
        };
        let total: u64 = (0..count).map(|index| u64::from(number(lengths, index))).sum();
        let fits = lengths.len().is_multiple_of(4) && (ports.len() == 4 || ports.len() == 4 * count);
        if !fits || total != data.len() as u64 {
            let found =
                format!("{} bytes, {} lengths, {} ports", data.len(), lengths.len() / 4, ports.len() / 4);
            return Err(PyValueError::new_err(format!("the arrays do not fit together: {found}")));
        }
        (0..ports.len() / 4).try_for_each(|index| self.check_port(number(ports, index)))?;
        let longest = (0..count).map(|index| number(lengths, index) as usize).max().unwrap_or(0);
        if longest > FRAME_MAX {
            let text = format!("a frame of {longest} bytes: expected at most {FRAME_MAX}");
            return Err(PyValueError::new_err(text));
        }
        let (many, drops) = py.detach(|| self.run_many(data, lengths, ports, count))?;
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        Ok((bytes(&many.data), bytes(&many.lengths), bytes(&many.ports), drops))
    }

    /// Returns the steps of a packet, as JSON and as text. Nothing of the switch changes.
    fn trace(&self, py: Python<'_>, port: u32, frame: &[u8]) -> PyResult<(String, String)> {
        self.check_port(port)?;
        Switch::check_frame(frame)?;
        py.detach(|| {
            let now_us = self.running().worker.time_us();
            let (trace, _) = self.switch.trace_dry(port, frame, now_us).map_err(PyRuntimeError::new_err)?;
            let program = self.switch.traced_program();
            Ok((trace.to_json(program).to_string(), trace.render_shortened(program, TRACE_LINES_MAX)))
        })
    }

    /// The time in microseconds at which the next packet can leave an output queue.
    fn next_due(&self) -> Option<u64> {
        self.running().worker.next_due_us()
    }

    /// Returns the digests that the program has sent since the last call: time in microseconds, name, and values in decimal.
    fn digests(&self) -> Vec<(u64, String, Vec<String>)> {
        let mut digests = Vec::new();
        self.switch.state().take_digests(usize::MAX, |digest| {
            let switch = Arc::clone(&self.switch);
            if let Event::Digest { digest, time_us, values } = Event::new(&Notice::Digest { switch, digest })
            {
                let name = self.switch.program().instances[digest.index()].name.clone();
                digests.push((time_us, name, values.iter().map(ToString::to_string).collect()));
            }
        });
        digests
    }

    /// Returns the lines of `log_msg` and failed assertions since the last call.
    fn take_log(&self) -> Vec<String> {
        self.running().worker.take_log()
    }
}

/// Runs a packet test. Returns its failures as text; none if it passes, and the number of its checks.
#[pyfunction]
pub fn run_stf(
    py: Python<'_>,
    program: &Program,
    engine: &str,
    name: &str,
    text: &str,
) -> PyResult<(String, usize)> {
    let engine = engine_of(engine)?;
    let script = stf::parse(text).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(|error| error.render(name)).collect();
        PyValueError::new_err(errors.concat())
    })?;
    let queued = stf::configures_queues(&script).then(|| program.queued()).transpose()?;
    let compiled = queued.as_ref().unwrap_or(&program.compiled);
    py.detach(|| {
        let outcome = (|| {
            let switch = data_plane(compiled, engine)?;
            let control = Control::new(Arc::clone(&switch));
            let mut worker = switch.worker(engine, 0)?;
            if switch.program().is_queued() || stf::stops_clock(&script) {
                worker.set_time(Some(0));
            }
            let fresh = || data_plane(compiled, EngineKind::Interp).map(Control::new).map_err(String::from);
            Ok(stf::run_traced(&script, &control, &mut worker, &fresh))
        })();
        let outcome = outcome.map_err(|error: ProgramError| refused(&error))?;
        if outcome.passed() {
            return Ok((String::new(), outcome.checks));
        }
        Ok((outcome.report(name) + &outcome.details(), outcome.checks))
    })
}

impl Switch {
    fn run_many(
        &self,
        data: &[u8],
        lengths: &[u8],
        ports: &[u8],
        count: usize,
    ) -> PyResult<(Many, BTreeMap<String, u64>)> {
        let mut running = self.running();
        let Running { worker, buffers } = &mut *running;
        let mut many = Many::default();
        many.data.reserve(data.len());
        many.lengths.reserve(4 * count);
        many.ports.reserve(4 * count);
        let mut drops = BTreeMap::<String, u64>::new();
        let mut rest = data;
        let mut next = |index: usize| {
            let (frame, after) = rest.split_at(number(lengths, index) as usize);
            rest = after;
            (number(ports, index), frame)
        };
        if self.switch.program().is_queued() {
            for index in 0..count {
                let (port, frame) = next(index);
                let processed = worker.process_one(port, frame);
                processed.sent.iter().for_each(|(port, frame)| many.put(*port, frame));
                processed.dropped.into_iter().for_each(|why| *drops.entry(why).or_default() += 1);
            }
            return Ok((many, drops));
        }
        if buffers.is_none() {
            let pool = worker.pool(2 * BATCH_MAX, FRAME_MAX);
            *buffers =
                Some((pool.map_err(|error| PyRuntimeError::new_err(error.to_string()))?, Batch::new()));
        }
        let (pool, batch) = buffers.as_mut().expect("just created");
        let mut index = 0;
        while index < count {
            batch.clear();
            while index < count && !batch.is_full() {
                let (port, frame) = next(index);
                // Neither too long nor one too many.
                let _ = batch.push(pool, port, frame);
                index += 1;
            }
            worker.process(pool, batch);
            loop {
                many.add(pool, batch);
                if !worker.process_copies(pool, batch) {
                    break;
                }
            }
        }
        for (reason, count) in std::mem::take(&mut many.drops) {
            *drops.entry(worker.drop_reason(reason)).or_default() += count;
        }
        let refused = worker.take_refused().into_iter().filter(|(_, count)| *count > 0);
        refused.for_each(|(reason, count)| {
            *drops.entry(reason.general_text().to_string()).or_default() += count
        });
        Ok((many, drops))
    }
}
