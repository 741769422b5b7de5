//! The packet log: every step of every packet, as long as the thread that writes the log keeps up.
//!
//! The interpreter processes logged packets, batch by batch, and reports its steps, so the log shows what happened to
//! these very packets. The number of steps that wait to be written is bounded: at the bound, workers run machine code
//! and only count the packets that are not logged.
#![allow(unsafe_code)]

use p4jet_interp::{LogLevel, Trace, TraceEvent};
use p4jet_ir::Program;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Maximum number of steps that wait to be written, of all packets: about 40 MB.
pub(crate) const STEPS_MAX: usize = 1 << 17;

/// The receiver of logged packets.
pub struct PacketLog {
    waiting: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
    arrived: AtomicU64,
    /// The ports of the switch.
    ports: Mutex<BTreeSet<u32>>,
    take: Box<dyn Fn(LoggedPacket) + Send + Sync>,
}

/// The steps of a packet or a copy.
pub struct LoggedPacket {
    /// The time at which it was processed.
    pub time: SystemTime,
    /// The system's number of the thread that processed it.
    pub thread: i32,
    /// The number of packets received before.
    pub number: u64,
    /// The number of the copy; 0 for the packet itself.
    pub copy: u32,
    program: Arc<Program>,
    trace: Trace,
    said: Vec<String>,
    /// True if it leaves by a port that the switch lacks.
    misses_port: bool,
    _weight: Weight,
}

/// A packet's share of the waiting steps.
struct Weight {
    waiting: Arc<AtomicUsize>,
    steps: usize,
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.steps, Relaxed);
    }
}

impl LoggedPacket {
    /// Passes its lines to `write` ([`Trace::write_bmv2_lines`]).
    pub fn write_lines(&self, write: &mut dyn FnMut(LogLevel, &str)) {
        self.trace.write_bmv2_lines(&self.program, &self.said, self.misses_port, write);
    }
}

impl PacketLog {
    /// Creates a log that passes packets to `take`, which must not wait, and counts packets that are not logged in
    /// `lost`.
    pub fn new(lost: Arc<AtomicU64>, take: impl Fn(LoggedPacket) + Send + Sync + 'static) -> PacketLog {
        PacketLog {
            waiting: Arc::default(),
            lost,
            arrived: AtomicU64::new(0),
            ports: Mutex::default(),
            take: Box::new(take),
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.waiting.load(Relaxed) < STEPS_MAX
    }

    /// Records whether the switch has a port.
    pub(crate) fn set_port(&self, port: u32, is_there: bool) {
        match is_there {
            true => self.ports().insert(port),
            false => self.ports().remove(&port),
        };
    }

    fn ports(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the packet leaves by a port that the switch lacks.
    fn misses_port(&self, trace: &Trace) -> bool {
        let ports = self.ports();
        trace
            .events
            .iter()
            .any(|event| matches!(event, TraceEvent::Sent { port, .. } if !ports.contains(port)))
    }

    pub(crate) fn lose(&self, packets: usize) {
        self.lost.fetch_add(packets as u64, Relaxed);
    }

    /// Reserves numbers for this many received packets and returns the first.
    pub(crate) fn number(&self, packets: usize) -> u64 {
        self.arrived.fetch_add(packets as u64, Relaxed)
    }
}

/// The identity of a logged packet or copy.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    number: u64,
    copy: u32,
    /// Number of copies of the packet so far.
    copies: Arc<AtomicU32>,
}

impl Logged {
    pub fn arrived(number: u64) -> Logged {
        Logged { number, copy: 0, copies: Arc::default() }
    }

    /// Returns the identity of the packet's next copy.
    pub fn copied(&self) -> Logged {
        let copy = self.copies.fetch_add(1, Relaxed) + 1;
        Logged { copy, ..self.clone() }
    }
}

/// A worker's share of the log.
pub(crate) struct Logging {
    log: Arc<PacketLog>,
    /// The program that the interpreter runs: the one before the passes, because its traces are more detailed.
    pub program: Arc<Program>,
}

impl Logging {
    pub fn new(log: Arc<PacketLog>, program: Arc<Program>) -> Logging {
        Logging { log, program }
    }

    pub fn log(&self) -> &PacketLog {
        &self.log
    }

    pub fn take(&self, logged: &Logged, trace: Trace, said: Vec<String>) {
        // Log lines count as steps.
        let steps = trace.events.len() + said.len() + 1;
        let waiting = Arc::clone(&self.log.waiting);
        waiting.fetch_add(steps, Relaxed);
        (self.log.take)(LoggedPacket {
            time: SystemTime::now(),
            // SAFETY: no arguments.
            thread: unsafe { libc::gettid() },
            number: logged.number,
            copy: logged.copy,
            program: Arc::clone(&self.program),
            misses_port: self.log.misses_port(&trace),
            trace,
            said,
            _weight: Weight { waiting, steps },
        });
    }
}
