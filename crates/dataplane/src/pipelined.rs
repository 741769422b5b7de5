//! The pipeline on two to four threads, for comparison with workers that run each batch to completion: receive and
//! parse, ingress, egress, deparse and send, with a ring between neighbours.
//!
//! A batch travels over single-producer single-consumer rings as one object, a [`Load`], with its packets, buffers
//! and PHVs, and returns empty to the first thread. The number of loads is fixed, so nothing grows. Each thread is a
//! worker with its own counters and cached lookups; it has handles of the ports only if it receives or sends. The
//! border between two threads is an ordinary cut.

use crate::bell::Bell;
use crate::buffers::Buffers;
use crate::gate::Gate;
use crate::program_error::ProgramError;
use crate::switch::Switch;
use crate::worker::Worker;
use p4jet_jit::{ErrorKind, Flight};
use p4jet_packet::{BATCH_MAX, Batch, Pool};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

/// Default number of packets in a ring: the best size in the literature; larger rings make little difference.
pub const RING_DEFAULT: usize = 512;
/// Maximum number of packets in a ring.
pub const RING_MAX: usize = 1 << 18;
/// Number of polls for a load before a thread yields the processor.
pub(crate) const LOOKS: u32 = 20;
/// Time for which it yields before it sleeps: a sleeping thread is woken sooner than a yielding one is scheduled.
pub(crate) const YIELDS: Duration = Duration::from_micros(50);
/// Longest sleep.
const SLEEP: Duration = Duration::from_millis(10);

/// A batch in the pipeline.
pub(crate) struct Load {
    pub buffers: Box<Buffers>,
    pub flight: Flight,
    /// The number of the last sample to which the first thread had contributed.
    pub epoch: u64,
    /// Time of reception, for latency measurements.
    received: Instant,
}

/// A thread's place in the pipeline: the rings before and behind it.
pub(crate) struct Segment {
    thread: usize,
    threads: usize,
    from: rtrb::Consumer<Load>,
    to: rtrb::Producer<Load>,
    /// Bells of the threads that fill `from` and empty `to`; these threads may sleep.
    before: Arc<Bell>,
    after: Arc<Bell>,
    /// The bell that ends its sleep.
    own_bell: Arc<Bell>,
    /// Total number of loads, which the first thread uses.
    loads: usize,
    /// Loads that it holds itself.
    own: Vec<Load>,
    /// A gate that must be open before it takes a load.
    waits_for: Option<Arc<Gate>>,
}

/// Returns the number of batches in a ring of `ring_packets` packets.
pub(crate) fn slots(ring_packets: usize) -> Result<usize, ProgramError> {
    if !(1..=RING_MAX).contains(&ring_packets) {
        let why = format!("a ring of {ring_packets} packets: expected 1 to {RING_MAX}");
        return Err(ProgramError::unsupported(why));
    }
    Ok(ring_packets.div_ceil(BATCH_MAX))
}

/// Creates enough loads for the pipeline of a switch to fill the rings while each thread holds one.
pub(crate) fn loads(switch: &Switch, slots: usize, frame_max: usize) -> Result<Vec<Load>, ProgramError> {
    let threads = switch.workers();
    let code = switch.code().map_err(|e| switch.program_error(&e))?;
    let load = || -> std::io::Result<Load> {
        let frame_max = frame_max.max(p4jet_jit::FRAME_READABLE_BYTES);
        let pool = Pool::new(BATCH_MAX, frame_max, switch.program().emitted_bytes_max() as usize)?;
        let flight = Flight::new(&code);
        Ok(Load { buffers: Box::new(Buffers::new(pool)), flight, epoch: 0, received: Instant::now() })
    };
    let loads = (0..(threads - 1) * slots + threads).map(|_| load()).collect::<Result<Vec<_>, _>>();
    loads.map_err(|e| ProgramError::new(ErrorKind::NoMemory, format!("no memory for packets: {e}")))
}

/// Creates the segments of all threads. The first holds `loads`; each sleeps until its bell rings.
pub(crate) fn segments(loads: Vec<Load>, slots: usize, bells: &[Arc<Bell>]) -> Vec<Segment> {
    let (threads, count) = (bells.len(), loads.len());
    // Ring `t` leads to thread `t`. All loads may be on the way back at once.
    let rings = (0..threads).map(|thread| rtrb::RingBuffer::new(if thread == 0 { count } else { slots }));
    let (mut producers, consumers): (Vec<_>, Vec<_>) = rings.unzip();
    producers.rotate_left(1);
    let ends = consumers.into_iter().zip(producers).enumerate();
    let mut segments: Vec<Segment> = ends
        .map(|(thread, (from, to))| Segment {
            thread,
            threads,
            from,
            to,
            before: Arc::clone(&bells[(thread + threads - 1) % threads]),
            after: Arc::clone(&bells[(thread + 1) % threads]),
            own_bell: Arc::clone(&bells[thread]),
            loads: count,
            own: Vec::new(),
            waits_for: None,
        })
        .collect();
    segments[0].own = loads;
    segments
}

impl Segment {
    pub fn is_first(&self) -> bool {
        self.thread == 0
    }

    pub fn is_last(&self) -> bool {
        self.thread + 1 == self.threads
    }

    /// True if there is a load to work on and room in the next ring. A thread checks this before it sleeps, after it
    /// has announced that.
    pub fn is_ready(&self) -> bool {
        // As in `wake`.
        fence(Ordering::SeqCst);
        let waits = self.waits_for.as_ref().is_some_and(|gate| !gate.is_open());
        !(waits || self.to.is_full() || self.own.is_empty() && self.from.is_empty())
    }

    /// Takes a load to work on, if there is room in the next ring.
    pub fn take(&mut self) -> Option<Load> {
        if self.to.is_full() {
            return None;
        }
        if let Some(gate) = &self.waits_for {
            if !gate.is_open() {
                return None;
            }
            self.waits_for = None;
        }
        self.own.pop().or_else(|| {
            let load = self.from.pop().ok()?;
            wake(&self.before);
            Some(load)
        })
    }

    /// Returns the [`Load::epoch`] of the next load, if there is one.
    pub fn next_epoch(&self) -> Option<u64> {
        self.from.peek().ok().map(|load| load.epoch)
    }

    /// Passes a load from [`Self::take`] to the next thread.
    pub fn pass(&mut self, load: Load) {
        // There was room, and no other thread fills the ring.
        let refused = self.to.push(load);
        debug_assert!(refused.is_ok() || self.to.is_abandoned());
        wake(&self.after);
    }

    /// Takes back a load that was not needed.
    pub fn keep(&mut self, load: Load) {
        self.own.push(load);
    }

    /// True if there may be more to do: false once the previous thread has ended and its loads are done, or the next
    /// thread has ended.
    pub fn is_open(&self) -> bool {
        // Checked first, so that loads passed before the end are still found.
        let last = self.from.is_abandoned();
        !(self.to.is_abandoned() || last && self.from.is_empty())
    }

    /// True if no packets are in the pipeline; for the first thread.
    pub fn is_idle(&self) -> bool {
        self.own.len() + self.from.slots() == self.loads
    }

    /// Waits until no packets are in the pipeline; for the first thread.
    pub fn drain(&mut self) {
        while !self.is_idle() && self.is_open() {
            std::thread::yield_now();
        }
        self.own.extend(std::iter::from_fn(|| self.from.pop().ok()));
    }

    /// Sets the gate that must be open before a load is taken, if any; for the first thread.
    pub fn wait_for(&mut self, gate: Option<Arc<Gate>>) {
        self.waits_for = gate;
    }

    /// Replaces the loads, all of which must be in this segment. Returns the old ones.
    pub fn replace(&mut self, loads: Vec<Load>) -> Vec<Load> {
        self.loads = loads.len();
        std::mem::replace(&mut self.own, loads)
    }

    /// Signals to the neighbouring threads that no more loads follow.
    pub fn close(self) {
        let Segment { from, to, before, after, .. } = self;
        drop((from, to));
        wake(&before);
        wake(&after);
    }
}

fn wake(bell: &Bell) {
    // Orders the change of the ring before the check for a sleeper. A thread that goes to sleep announces it before
    // it checks the ring.
    fence(Ordering::SeqCst);
    bell.wake();
}

/// The pipeline of a switch on several threads, between a function that receives and one that sends.
pub struct Pipelined {
    threads: Vec<(Worker, Segment)>,
}

impl Pipelined {
    /// Creates a pipeline with rings of `ring_packets` packets, for frames of at most `frame_max` bytes. The switch
    /// must have no workers.
    pub fn new(
        switch: &Arc<Switch>,
        ring_packets: usize,
        frame_max: usize,
    ) -> Result<Pipelined, ProgramError> {
        let slots = slots(ring_packets)?;
        if switch.threads().is_none() {
            let why = "the switch was not built for a pipeline on several threads";
            return Err(ProgramError::unsupported(why));
        }
        let bells = (0..switch.workers()).map(|_| Bell::new().map(Arc::new)).collect::<Result<Vec<_>, _>>();
        let bells =
            bells.map_err(|e| ProgramError::new(ErrorKind::System, format!("no descriptors: {e}")))?;
        let segments = segments(loads(switch, slots, frame_max)?, slots, &bells);
        let threads = segments
            .into_iter()
            .enumerate()
            .map(|(thread, segment)| Ok((switch.worker(crate::EngineKind::Jit, thread)?, segment)));
        Ok(Pipelined { threads: threads.collect::<Result<_, ProgramError>>()? })
    }

    /// Stops the clock at `now_us`, so that runs are reproducible; `None` restarts it.
    pub fn set_time(&mut self, now_us: Option<u64>) {
        self.threads.iter_mut().for_each(|(worker, _)| worker.set_time(now_us));
    }

    /// Runs packets until `receive`, which fills an empty batch, returns false after the last ones. `send` gets the
    /// batches in order, with the time since they were received. Each thread first calls `started` with its number.
    pub fn run(
        &mut self,
        started: &(dyn Fn(usize) + Sync),
        receive: &mut (dyn FnMut(&mut Pool, &mut Batch) -> bool + Send),
        send: &mut (dyn FnMut(&Pool, &Batch, Duration) + Send),
    ) {
        let last = self.threads.len() - 1;
        let [(first_worker, first), others @ ..] = self.threads.as_mut_slice() else { return };
        let mut send = Some(send);
        // Set once all packets are sent: the rings stay open for the next run.
        let done = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (thread, (worker, segment)) in others.iter_mut().enumerate() {
                let mut send = if thread + 1 == last { send.take() } else { None };
                scope.spawn(move || {
                    started(thread + 1);
                    while let Some(mut load) = wait(segment, done) {
                        worker.process_part(&mut load.buffers.batch, &mut load.flight);
                        if let Some(send) = &mut send {
                            send(&load.buffers.pool, &load.buffers.batch, load.received.elapsed());
                        }
                        segment.pass(load);
                    }
                });
            }
            scope.spawn(move || {
                started(0);
                let mut more = true;
                while more && let Some(mut load) = wait(first, done) {
                    let Buffers { pool, batch, .. } = &mut *load.buffers;
                    batch.clear();
                    load.received = Instant::now();
                    more = receive(pool, batch);
                    first_worker.process_part(batch, &mut load.flight);
                    first.pass(load);
                }
                first.drain();
                done.store(true, Ordering::Relaxed);
            });
        });
    }
}

/// Waits for the next load; returns `None` once all packets are sent.
fn wait(segment: &mut Segment, done: &AtomicBool) -> Option<Load> {
    let mut looks = 0;
    let mut since: Option<Instant> = None;
    loop {
        if let Some(load) = segment.take() {
            return Some(load);
        }
        if done.load(Ordering::Relaxed) {
            return None;
        }
        looks += 1;
        match since {
            _ if looks < LOOKS => std::hint::spin_loop(),
            None => since = Some(Instant::now()),
            Some(since) if since.elapsed() < YIELDS => std::thread::yield_now(),
            Some(_) => segment.own_bell.sleep(SLEEP, || segment.is_ready()),
        }
    }
}
