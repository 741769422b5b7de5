//! One core's packets.
#![allow(unsafe_code)]

use crate::switch::{EngineKind, Place, Switch};
use p4jet_externs::{Apart, Env};
use p4jet_interp::{Arrival, Machine, Outcome, REASON_EMITS_TOO_MUCH, REASON_OUT_OF_FUEL, Ran};
use p4jet_ir::Begin;
use p4jet_jit::{Compiled, DROP_ASSERTION, Engine, StageTime};
use p4jet_packet::{BATCH_MAX, Batch, PORT_DROP, Packet, Pool, PushError, REASON_DONE};
use p4jet_tables::{View, ViewHandle};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Copies of copies of … a packet: a later one is dropped. A program that recirculates for ever does not get far beyond.
pub const GENERATIONS_MAX: u32 = 1024;
/// Most copies that come of one packet, or wait at one time.
pub const COPIES_MAX: usize = 1 << 12;
/// Longest frame that [`Worker::process_one`] takes.
const FRAME_MAX: usize = 65_535;
const TOO_LONG: &str = "the packet cannot be taken in: it has more than 65,535 bytes";
/// Why a copy was not made.
pub const REASON_TOO_MANY_COPIES: u32 = u32::MAX - 2;

/// What became of one packet and its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processed {
    /// Packets that left: port and bytes, in order.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// Why some were dropped.
    pub dropped: Vec<String>,
}

impl Processed {
    fn dropped(why: impl Into<String>) -> Processed {
        Processed { sent: Vec::new(), dropped: vec![why.into()] }
    }
}

/// What became of one packet or copy, and what it made.
pub(crate) struct Step<C> {
    processed: Processed,
    /// With the half of the pipeline that made it and the one where it begins.
    copies: Vec<(Begin, Begin, C)>,
}

/// What the interpreter says of one packet.
pub(crate) fn copied(program: &p4jet_ir::Program, ran: Ran) -> Step<p4jet_interp::Copied> {
    let processed = match ran.outcome {
        Outcome::Sent { port, frame } => Processed { sent: vec![(port, frame)], dropped: Vec::new() },
        Outcome::Dropped { reason, .. } => Processed::dropped(reason_text(program, reason)),
        Outcome::Done => Processed::default(),
    };
    let copies = ran.copies.into_iter().map(|copy| (copy.made_in, copy.begin, copy)).collect();
    Step { processed, copies }
}

/// Runs the copies of a packet, and theirs, to the end, in the order in which a switch that queues before egress sends
/// them: copies made in ingress stand in the queue before the packet that made them, also those that begin with ingress (a
/// clone that is parsed again); those that egress sends back begin when all before them have left.
pub(crate) fn run_out<C>(first: Step<C>, mut run: impl FnMut(C) -> Step<C>) -> Processed {
    enum Queued<C> {
        /// Made in, begins with.
        Copy(Begin, Begin, C),
        /// Has run: what became of it, and what it made in egress.
        Done(Processed, Vec<(Begin, C)>),
    }
    /// What stands in the queue after a packet has gone through ingress.
    fn split<C>(generation: u32, step: Step<C>) -> Vec<(u32, Queued<C>)> {
        let (mut queue, mut later) = (Vec::new(), Vec::new());
        for (made_in, begin, copy) in step.copies {
            match made_in {
                Begin::Ingress => queue.push((generation + 1, Queued::Copy(made_in, begin, copy))),
                Begin::Egress => later.push((begin, copy)),
            }
        }
        queue.push((generation, Queued::Done(step.processed, later)));
        queue
    }
    let mut all = Processed::default();
    let mut made = 0;
    let mut queue = VecDeque::from(split(0, first));
    while let Some((generation, queued)) = queue.pop_front() {
        let (processed, copies) = match queued {
            Queued::Copy(..) if generation > GENERATIONS_MAX || made >= COPIES_MAX => {
                (Processed::dropped(TOO_MANY_COPIES), Vec::new())
            }
            Queued::Copy(made_in, begin, copy) => {
                made += 1;
                let step = run(copy);
                if begin == Begin::Ingress {
                    let queued = split(generation, step);
                    match made_in {
                        Begin::Ingress => queued.into_iter().rev().for_each(|q| queue.push_front(q)),
                        Begin::Egress => queue.extend(queued),
                    }
                    continue;
                }
                (step.processed, step.copies.into_iter().map(|(_, begin, copy)| (begin, copy)).collect())
            }
            Queued::Done(processed, copies) => (processed, copies),
        };
        all.sent.extend(processed.sent);
        all.dropped.extend(processed.dropped);
        let copies = copies.into_iter();
        queue.extend(copies.map(|(begin, copy)| (generation + 1, Queued::Copy(Begin::Egress, begin, copy))));
        if made >= COPIES_MAX {
            queue.retain(|(_, queued)| matches!(queued, Queued::Done(..)));
            if !all.dropped.iter().any(|why| why == TOO_MANY_COPIES) {
                all.dropped.push(TOO_MANY_COPIES.to_string());
            }
        }
    }
    all
}

pub(crate) const TOO_MANY_COPIES: &str =
    "too many copies came of one packet (does it recirculate or clone itself for ever?)";

/// What a drop reason means.
fn reason_text(program: &p4jet_ir::Program, reason: u32) -> String {
    match reason {
        DROP_ASSERTION => "an assert or assume failed".to_string(),
        REASON_EMITS_TOO_MUCH => "a loop of the deparser emits too many bytes".to_string(),
        REASON_OUT_OF_FUEL => "the program ran too long on this packet".to_string(),
        REASON_TOO_MANY_COPIES => TOO_MANY_COPIES.to_string(),
        _ => program.drop_reasons.get(reason as usize).cloned().unwrap_or_else(|| format!("reason {reason}")),
    }
}

/// A copy as the engine that made it keeps it.
enum Copied {
    Jit(p4jet_jit::Copied),
    Interp(p4jet_interp::Copied),
}

impl Copied {
    fn begin(&self) -> Begin {
        match self {
            Copied::Jit(copy) => copy.begin(),
            Copied::Interp(copy) => copy.begin,
        }
    }

    fn made_in(&self) -> Begin {
        match self {
            Copied::Jit(copy) => copy.made_in(),
            Copied::Interp(copy) => copy.made_in,
        }
    }

    fn push(&self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PushError> {
        match self {
            Copied::Jit(copy) => copy.push(pool, batch),
            Copied::Interp(copy) => batch.push(pool, copy.port, &copy.frame),
        }
    }
}

/// A copy that waits for its turn.
struct Waiting {
    generation: u32,
    copy: Copied,
}

/// Runs packets on one core. What it writes shares no cache line with what another worker has.
#[repr(align(128))]
pub struct Worker {
    engine: Runner,
    views: Vec<ViewHandle>,
    /// The views of the batch that runs.
    pinned: Apart<*const View>,
    env: Env<'static>,
    /// Last: what is above points into its switch.
    place: Place,
    time: Option<u64>,
    /// Whether the program cares what time it is: asking costs as much as many a packet.
    reads_time: bool,
    /// What [`p4jet_ir::Program::emitted_bytes_max`] says.
    headroom: usize,
    /// The copies that the batch is made of; empty if its packets arrived.
    running: Vec<Copied>,
    /// What the batch has made, with the number of the maker in the batch.
    made: Vec<(usize, Copied)>,
    /// Copies, oldest first.
    waiting: VecDeque<Waiting>,
    refused: u64,
    /// For [`Self::process_one`].
    own: Option<(Pool, Batch)>,
}

// SAFETY: `pinned` is only valid, and only read, inside `process`.
unsafe impl Send for Worker {}

enum Runner {
    Jit(Box<Engine>),
    Interp,
}

impl Worker {
    pub(crate) fn new(switch: &Arc<Switch>, engine: EngineKind, index: usize) -> Result<Worker, String> {
        match engine {
            EngineKind::Jit => {
                let code = switch.code().map_err(|e| switch.describe(&e))?;
                Worker::with_code(switch, code, index)
            }
            EngineKind::Interp => {
                // Says now what cannot run.
                Machine::new(switch.program())?;
                Ok(Worker::with_runner(switch.take_place(index)?, Runner::Interp))
            }
        }
    }

    /// `code` is the switch's program's.
    pub(crate) fn with_code(
        switch: &Arc<Switch>,
        code: Arc<Compiled>,
        index: usize,
    ) -> Result<Worker, String> {
        let place = switch.take_place(index)?;
        let engine = Engine::new(code, switch.program(), switch.state(), index);
        Ok(Worker::with_runner(place, Runner::Jit(Box::new(engine))))
    }

    fn with_runner(place: Place, engine: Runner) -> Worker {
        let switch = place.switch();
        let reads_time = match &engine {
            Runner::Jit(engine) => engine.code().reads_time(),
            Runner::Interp => true,
        };
        let env = switch.state().env(place.index());
        // SAFETY: the environment borrows the state of the switch, which `place` keeps alive and never moves (it is in
        // an Arc); `env` is dropped before `place`, being declared before it.
        let env: Env<'static> = unsafe { std::mem::transmute(env) };
        let views: Vec<ViewHandle> = (0..switch.tables.len())
            .map(|t| switch.table(p4jet_ir::TableId(t as u32)).view_handle())
            .collect();
        Worker {
            engine,
            pinned: Apart::zeroed(views.len()),
            views,
            env,
            time: None,
            reads_time,
            headroom: switch.program().emitted_bytes_max() as usize,
            place,
            running: Vec::new(),
            made: Vec::new(),
            waiting: VecDeque::new(),
            refused: 0,
            own: None,
        }
    }

    /// What the stages have cost so far, by name; nothing unless it comes from [`Switch::measured_worker`].
    pub fn stage_times(&self) -> impl Iterator<Item = (&str, StageTime)> {
        let (names, times) = match &self.engine {
            Runner::Jit(engine) => (engine.stage_names(), engine.stage_times()),
            Runner::Interp => ([].as_slice(), [].as_slice()),
        };
        names.iter().map(String::as_str).zip(times.iter().copied())
    }

    /// Its number among the workers of the switch.
    pub fn index(&self) -> usize {
        self.place.index()
    }

    /// The switch it belongs to.
    pub fn switch(&self) -> &Arc<Switch> {
        self.place.switch()
    }

    /// Lets time stand still at `now_us`, so that runs can be repeated; `None` lets it go on.
    pub fn set_time(&mut self, now_us: Option<u64>) {
        self.time = now_us;
    }

    /// A pool of buffers as this program needs them, for frames of at least `frame_max` bytes.
    pub fn pool(&self, count: usize, frame_max: usize) -> io::Result<Pool> {
        Pool::new(count, frame_max.max(p4jet_jit::FRAME_READABLE_BYTES), self.headroom)
    }

    /// Runs every packet of the batch through the pipeline; sets egress ports, changes the frames. The packets are of
    /// `pool`, which [`Self::pool`] made. Copies that they make wait for [`Self::process_copies`].
    pub fn process(&mut self, pool: &mut Pool, batch: &mut Batch) {
        self.run(pool, batch);
        self.wait(&[0; BATCH_MAX]);
    }

    /// Runs the oldest copies that wait, as [`Self::process`] does with packets: they are the batch afterwards. False if
    /// none wait.
    pub fn process_copies(&mut self, pool: &mut Pool, batch: &mut Batch) -> bool {
        batch.clear();
        let mut generations = [0; BATCH_MAX];
        while batch.len() < BATCH_MAX
            && let Some(Waiting { generation, copy }) = self.waiting.pop_front()
        {
            // A batch begins at one place.
            if self.running.first().is_some_and(|first| first.begin() != copy.begin()) {
                self.waiting.push_front(Waiting { generation, copy });
                break;
            }
            let number = batch.len();
            if copy.push(pool, batch).is_err() {
                // It grew, pass by pass, beyond what buffers hold.
                self.refused += 1;
                continue;
            }
            generations[number] = generation;
            self.running.push(copy);
        }
        if !batch.is_empty() {
            self.run(pool, batch);
            self.wait(&generations);
        }
        !batch.is_empty()
    }

    /// Runs the batch: packets that arrived, or the copies of `running`, which is empty then. What they make goes to
    /// `made`.
    fn run(&mut self, pool: &mut Pool, batch: &mut Batch) {
        assert!(pool.headroom() >= self.headroom, "the pool is not of this worker");
        let now = match self.time {
            Some(now) => now,
            None if self.reads_time => self.place.switch().now_us(),
            None => 0,
        };
        self.env.set_now(now);
        match &mut self.engine {
            Runner::Jit(engine) => {
                let guard = p4jet_tables::pin();
                for (pinned, view) in self.pinned.iter_mut().zip(&self.views) {
                    *pinned = view.load(&guard);
                }
                let packets = batch.packets_mut();
                // SAFETY: the pool has the headroom and slack; the views stay until the guard is dropped; the environment
                // is of the same switch; all copies are of this engine.
                unsafe {
                    if self.running.is_empty() {
                        engine.run(packets, &self.pinned, &mut self.env, now);
                    } else {
                        let copies = self.running.iter().filter_map(|copy| match copy {
                            Copied::Jit(copy) => Some(copy),
                            Copied::Interp(_) => None,
                        });
                        engine.run_copies(packets, copies, &self.pinned, &mut self.env, now);
                    }
                }
                for copy in self.running.drain(..) {
                    if let Copied::Jit(copy) = copy {
                        engine.recycle(copy);
                    }
                }
                self.refused += engine.take_copies(|copy| self.made.push((copy.maker(), Copied::Jit(copy))));
            }
            Runner::Interp => {
                let machine = Machine::new(self.place.switch().program()).expect("it was possible in `new`");
                let tables = self.place.switch().tables.as_slice();
                let mut copies = self.running.drain(..);
                for (number, packet) in batch.packets_mut().iter_mut().enumerate() {
                    let ran = match copies.next() {
                        Some(Copied::Interp(copy)) => {
                            machine.run_copy(tables, &mut self.env, copy, now, None)
                        }
                        _ => {
                            let frame = pool.frame(packet).to_vec();
                            let arrival = Arrival { port: packet.ingress_port, frame: &frame, now_us: now };
                            machine.run(tables, &mut self.env, &arrival, None)
                        }
                    };
                    put_outcome(pool, packet, self.headroom, ran.outcome);
                    self.made.extend(ran.copies.into_iter().map(|copy| (number, Copied::Interp(copy))));
                }
            }
        }
    }

    /// Queues what a batch of packets of these generations has made.
    fn wait(&mut self, generations: &[u32; BATCH_MAX]) {
        for (maker, copy) in self.made.drain(..) {
            let generation = generations[maker];
            if generation < GENERATIONS_MAX && self.waiting.len() < COPIES_MAX {
                self.waiting.push_back(Waiting { generation: generation + 1, copy });
            } else {
                self.refused += 1;
            }
        }
    }

    /// Copies that were not made, since the last call: [`GENERATIONS_MAX`], [`COPIES_MAX`].
    pub fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// What a [`p4jet_packet::Packet::drop_reason`] means.
    pub fn drop_reason(&self, reason: u32) -> String {
        reason_text(self.place.switch().program(), reason)
    }

    /// Lines that `log_msg` and failed assertions wrote since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        self.env.take_log()
    }

    /// One packet with all copies that come of it; for tests and tools. Frames of up to 65,535 bytes; longer ones are
    /// dropped.
    pub fn process_one(&mut self, ingress_port: u32, frame: &[u8]) -> Processed {
        if frame.len() > FRAME_MAX {
            return Processed::dropped(TOO_LONG);
        }
        let (mut pool, mut batch) = match self.own.take() {
            Some(own) => own,
            None => match self.pool(64, FRAME_MAX) {
                Ok(pool) => (pool, Batch::new()),
                Err(e) => return Processed::dropped(format!("no memory for packets: {e}")),
            },
        };
        let first = self.step(&mut pool, &mut batch, |_, pool, batch| batch.push(pool, ingress_port, frame));
        let processed = run_out(first, |copy| {
            self.step(&mut pool, &mut batch, |worker, pool, batch| {
                copy.push(pool, batch)?;
                worker.running.push(copy);
                Ok(())
            })
        });
        self.own = Some((pool, batch));
        processed
    }

    /// Runs the one packet that `push` puts into the batch.
    fn step(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        push: impl FnOnce(&mut Worker, &mut Pool, &mut Batch) -> Result<(), PushError>,
    ) -> Step<Copied> {
        batch.clear();
        if push(self, pool, batch).is_err() {
            return Step { processed: Processed::dropped(TOO_LONG), copies: Vec::new() };
        }
        self.run(pool, batch);
        let packet = batch.packets()[0];
        let processed = match (packet.egress_port, packet.drop_reason) {
            (PORT_DROP, REASON_DONE) => Processed::default(),
            (PORT_DROP, reason) => Processed::dropped(self.drop_reason(reason)),
            (port, _) => Processed { sent: vec![(port, pool.frame(&packet).to_vec())], dropped: Vec::new() },
        };
        let copies = self.made.drain(..).map(|(_, copy)| (copy.made_in(), copy.begin(), copy)).collect();
        Step { processed, copies }
    }
}

/// Writes what the interpreter says into a packet.
fn put_outcome(pool: &mut Pool, packet: &mut Packet, headroom: usize, outcome: Outcome) {
    match outcome {
        Outcome::Sent { port, frame } => {
            packet.egress_port = port;
            // Growth goes into the headroom, as in generated code.
            let growth = frame.len().saturating_sub(packet.len as usize);
            assert!(growth <= headroom, "emitted_bytes_max bounds what a program adds");
            packet.data = packet.data.wrapping_sub(growth);
            packet.len = frame.len() as u32;
            pool.frame_mut(packet).copy_from_slice(&frame);
        }
        Outcome::Dropped { reason, .. } => {
            packet.egress_port = PORT_DROP;
            packet.drop_reason = reason;
        }
        Outcome::Done => {
            packet.egress_port = PORT_DROP;
            packet.drop_reason = REASON_DONE;
        }
    }
}
