//! A worker: runs batches of packets, and the copies that they make, on one core.
#![allow(unsafe_code)]

use crate::budgets::{Budgets, NO_BUDGET};
use crate::copies::{
    Carrier, Copied, GENERATIONS_MAX, Handed, Interpreted, Made, Processed, Step, Travelling, generations,
    join, refusal, run_out, run_queued,
};
use crate::followed::{FOLLOWED_MAX, Followed};
use crate::packet_log::{Logged, Logging};
use crate::program_error::ProgramError;
use crate::queues::{Inbox, Refusal, Serving, all_rest};
use crate::switch::{EngineKind, Place, Switch};
use p4jet_externs::{Apart, Env};
use p4jet_interp::{Arrival, Machine, Outcome, Ran, Trace, TraceEvent};
use p4jet_ir::tallies::Tallies;
use p4jet_ir::turns::COPIES_MAX;
use p4jet_ir::{DropReason, PipelineHalf, Queued};
use p4jet_jit::{COPIES_WAITING_BYTES_MAX, COPIES_WAITING_MAX, Compiled, Engine, Flight, StageTime};
use p4jet_packet::{BATCH_MAX, Batch, PORT_DROP, Packet, Pool, PushError, REASON_DONE};
use p4jet_tables::{View, ViewHandle};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// See [`Worker::copies_per_round`].
const COPIES_PER_ROUND: usize = 512;
/// Longest frame in bytes that [`Worker::process_one`] accepts.
pub const FRAME_MAX: usize = 65_535;
/// Maximum number of packets that the interpreter processes before the packet loop looks at its mailbox again: each may take
/// a second.
const INTERPRETED_MAX: usize = 1;
const TOO_LONG: &str = "the packet cannot be taken in: it has more than 65,535 bytes";

/// A copy that waits to run.
struct Waiting {
    generation: u32,
    budget: u32,
    copy: Copied,
}

/// The generation and the budget of a packet in a batch, which its copies inherit.
#[derive(Clone, Copy)]
struct Maker {
    generation: u32,
    budget: u32,
}

/// The makers of a batch of received packets.
const ARRIVED: [Maker; BATCH_MAX] = [Maker { generation: 0, budget: NO_BUDGET }; BATCH_MAX];

/// The state that a worker needs only for programs with output queues.
struct Queueing {
    serving: Serving<Travelling<Copied>>,
    /// Copies for the queues of other workers, by worker.
    outgoing: Vec<Vec<Handed>>,
    /// Copies that other workers have handed over.
    incoming: Vec<Handed>,
    /// True while packets of earlier programs may wait for the same ports.
    follows: bool,
    /// Number of packets that [`Worker::process_one`] has accepted.
    arrived: u64,
}

/// Numbers of copies that were not created, or not put into a queue, by reason.
#[derive(Default)]
struct Refused {
    too_many: u64,
    copies_full: u64,
    queue_full: u64,
    no_queue: u64,
}

/// Copies that wait in no output queue.
#[derive(Default)]
struct WaitingCopies {
    /// Oldest first.
    copies: VecDeque<Waiting>,
    /// Bytes of their frames.
    bytes: usize,
}

impl WaitingCopies {
    /// Returns true if no other copy of this size may wait.
    fn is_full(&self, bytes: usize) -> bool {
        self.copies.len() >= COPIES_WAITING_MAX || self.bytes + bytes > COPIES_WAITING_BYTES_MAX
    }

    fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.copy.bytes();
        self.copies.push_back(waiting);
    }

    /// Removes the oldest copy if it `fits`.
    fn pop_if(&mut self, fits: impl FnOnce(&Copied) -> bool) -> Option<Waiting> {
        let waiting = self.copies.pop_front_if(|waiting| fits(&waiting.copy))?;
        self.bytes -= waiting.copy.bytes();
        Some(waiting)
    }
}

/// Numbers of copies created and of packets moved between workers since the last query.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moved {
    pub copies: u64,
    /// See [`crate::ForwardStats::queued`].
    pub queued: u64,
    pub handed_over: u64,
    pub taken_over: u64,
}

/// Runs packets on one core. No cache line that it writes belongs to another worker, too.
#[repr(align(128))]
pub struct Worker {
    engine: Runner,
    /// True while the interpreter runs packets because machine code is not ready yet.
    interim: bool,
    views: Vec<ViewHandle>,
    /// The views of the current batch.
    pinned: Apart<*const View>,
    env: Env<'static>,
    /// The interpreter, unless machine code runs all packets.
    machine: Option<Machine<'static>>,
    /// Present if packets are logged.
    logging: Option<Logging>,
    /// The fields above point into its switch, or into the program of `logging`. Fields are dropped in the order of
    /// their declaration, so those end first.
    place: Place,
    time: Option<u64>,
    /// True if the program reads the time. Reading the clock can cost as much as processing a packet.
    reads_time: bool,
    /// The program's [`p4jet_ir::Program::emitted_bytes_max`].
    headroom: usize,
    /// The copies in the batch; empty if ports received its packets.
    running: Vec<Copied>,
    /// Copies that the batch has created, each with the index of its maker in the batch.
    made: Vec<(usize, Copied)>,
    waiting: WaitingCopies,
    budgets: Budgets,
    queueing: Option<Box<Queueing>>,
    /// True if it belongs to a packet loop, which must not wait for it for long.
    in_loop: bool,
    /// See [`Worker::take_work`].
    work: usize,
    refused: Refused,
    moved: Moved,
    /// Injected packets of which copies wait here, by their budget, which each entry holds.
    followed: Vec<(u32, Followed)>,
    /// The number of the last sample to which it contributed, see [`Inbox::take`].
    epoch: u64,
    /// The buffers of [`Self::process_one`].
    own: Option<(Pool, Batch)>,
}

// SAFETY: `pinned` is only valid, and only read, inside `process`.
unsafe impl Send for Worker {}

enum Runner {
    Jit(Box<Engine>),
    /// With its tallies, if the switch counts.
    Interp(Option<Tallies>),
}

impl Runner {
    /// Reuses the memory of a copy that will not run again.
    fn recycle(&mut self, copy: Copied) {
        if let (Runner::Jit(engine), Copied::Jit(copy)) = (self, copy) {
            engine.recycle(copy);
        }
    }
}

impl Refused {
    fn count(&mut self, why: Refusal) {
        match why {
            Refusal::Full => self.queue_full += 1,
            Refusal::NoQueue => self.no_queue += 1,
        }
    }
}

impl Switch {
    /// Creates worker `index`. No other worker of this index may exist; the index is free again once the worker is
    /// dropped.
    pub fn worker(self: &Arc<Self>, engine: EngineKind, index: usize) -> Result<Worker, ProgramError> {
        Worker::new(self, engine, index)
    }

    /// Like [`Self::worker`], with separate code that measures the cost of each stage of the pipeline
    /// ([`Worker::stage_times`]).
    pub fn measured_worker(self: &Arc<Self>, index: usize) -> Result<Worker, ProgramError> {
        Worker::with_code(self, self.measured_code()?, index)
    }
}

impl Worker {
    pub(crate) fn new(
        switch: &Arc<Switch>,
        engine: EngineKind,
        index: usize,
    ) -> Result<Worker, ProgramError> {
        match engine {
            EngineKind::Jit => {
                let code = switch.code().map_err(|e| switch.program_error(&e))?;
                Worker::with_code(switch, code, index)
            }
            EngineKind::Interp => {
                let tallies = switch.is_counted().then(|| Tallies::new(switch.program()));
                Worker::with_runner(switch.take_place(index)?, Runner::Interp(tallies))
            }
        }
    }

    /// Creates a worker that interprets until [`Self::change_engine`] gives it machine code.
    pub(crate) fn interim(switch: &Arc<Switch>, index: usize) -> Result<Worker, ProgramError> {
        let worker = Worker::new(switch, EngineKind::Interp, index)?;
        Ok(Worker { interim: true, ..worker })
    }

    /// Creates a worker that runs `code`, which must be compiled from the switch's program.
    pub(crate) fn with_code(
        switch: &Arc<Switch>,
        code: Arc<Compiled>,
        index: usize,
    ) -> Result<Worker, ProgramError> {
        let place = switch.take_place(index)?;
        let engine = Engine::new(code, switch.program(), switch.state(), index);
        Worker::with_runner(place, Runner::Jit(Box::new(engine)))
    }

    fn with_runner(place: Place, engine: Runner) -> Result<Worker, ProgramError> {
        let switch = place.switch();
        let logging = switch.logging();
        let machine = match (&logging, &engine) {
            (Some(logging), _) => {
                let machine = Machine::new(&logging.program);
                Some(machine.map_err(|why| ProgramError::unsupported(format!("cannot log packets: {why}")))?)
            }
            (None, Runner::Interp(_)) => {
                Some(Machine::new(switch.program()).map_err(ProgramError::unsupported)?)
            }
            (None, Runner::Jit(_)) => None,
        };
        // SAFETY: the machine borrows a program that `place` or `logging` keeps alive and never moves (it is in an Arc);
        // both are dropped after `machine`, being declared after it, and nothing replaces them.
        let machine: Option<Machine<'static>> = unsafe { std::mem::transmute(machine) };
        let reads_time = match &engine {
            Runner::Jit(engine) => logging.is_some() || engine.code().reads_time(),
            Runner::Interp(_) => true,
        };
        let env = switch.state().env(place.index());
        // SAFETY: like `machine`, for the state of the switch, which `place` keeps alive.
        let env: Env<'static> = unsafe { std::mem::transmute(env) };
        let queueing = switch.program().is_queued().then(|| {
            let outgoing = switch.inboxes.iter().map(|_| Vec::new()).collect();
            let queues = Arc::clone(switch.queues());
            let serving = match queues.follow_links_of(switch.program()) {
                true => Serving::following_links(queues),
                false => Serving::new(queues),
            };
            Box::new(Queueing { serving, outgoing, incoming: Vec::new(), follows: false, arrived: 0 })
        });
        let views: Vec<ViewHandle> = (0..switch.tables.len())
            .map(|t| switch.table(p4jet_ir::TableId(t as u32)).view_handle())
            .collect();
        Ok(Worker {
            engine,
            interim: false,
            pinned: Apart::zeroed(views.len()),
            views,
            env,
            time: None,
            reads_time,
            headroom: switch.program().emitted_bytes_max() as usize,
            machine,
            place,
            running: Vec::new(),
            made: Vec::new(),
            waiting: WaitingCopies::default(),
            budgets: Budgets::default(),
            queueing,
            in_loop: false,
            work: 0,
            logging,
            refused: Refused::default(),
            moved: Moved::default(),
            followed: Vec::new(),
            epoch: 0,
            own: None,
        })
    }

    /// Prepares it for a packet loop, which must answer requests soon: the interpreter's batches are short, and its lookups
    /// take no longer than those of machine code.
    pub(crate) fn enter_loop(&mut self) {
        self.in_loop = true;
        self.machine.iter_mut().for_each(Machine::find_fast);
    }

    /// Returns the number of nodes and lookups that the interpreter has executed since the last call.
    pub(crate) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// True if it interprets the next received batch.
    pub(crate) fn interprets_received(&self) -> bool {
        matches!(self.engine, Runner::Interp(_)) || self.logs_arrived()
    }

    /// Returns the maximum number of packets of the next batch that a packet loop receives.
    pub(crate) fn batch_max(&self) -> usize {
        if self.interprets_received() { INTERPRETED_MAX } else { self.place.switch().batch_max() }
    }

    /// Switches to other code of the same program ([`Switch::code_for_seen`]) and returns true. Returns false if the
    /// worker interprets, or if copies wait: only the code that created a copy can run it.
    pub fn change_code(&mut self, code: &Arc<Compiled>) -> bool {
        let engine = self.place.switch().engine(code, self.place.index());
        self.change_engine(engine).is_ok()
    }

    /// Switches to the engine `new`. Creating and dropping an engine takes long, so the caller does both: the result
    /// is the replaced engine, if that was machine code, or the refused one. A worker that interprets until machine
    /// code is ready always switches; it continues to interpret the copies that the interpreter created.
    pub(crate) fn change_engine(&mut self, mut new: Box<Engine>) -> Result<Option<Box<Engine>>, Box<Engine>> {
        let idle = self.made.is_empty() && self.waiting.copies.is_empty() && self.queueing.is_none();
        match &mut self.engine {
            Runner::Jit(engine) if idle && self.place.switch().threads().is_none() => {
                self.reads_time = self.logging.is_some() || new.code().reads_time();
                new.continue_counting(engine);
                Ok(Some(std::mem::replace(engine, new)))
            }
            Runner::Interp(tallies) if self.interim => {
                self.interim = false;
                self.reads_time = self.logging.is_some() || new.code().reads_time();
                if let Some(tallies) = tallies.take() {
                    new.set_tallies(tallies);
                }
                self.engine = Runner::Jit(new);
                Ok(None)
            }
            _ => Err(new),
        }
    }

    /// Returns the cost of each stage so far, by name; nothing unless the worker comes from
    /// [`Switch::measured_worker`].
    pub fn stage_times(&self) -> impl Iterator<Item = (&str, StageTime)> {
        let (names, times) = match &self.engine {
            Runner::Jit(engine) => (engine.stage_names(), engine.stage_times()),
            Runner::Interp(_) => ([].as_slice(), [].as_slice()),
        };
        names.iter().map(String::as_str).zip(times.iter().copied())
    }

    /// Returns its tallies so far; `None` unless its switch counts.
    pub fn tallies(&self) -> Option<&Tallies> {
        match &self.engine {
            Runner::Jit(engine) => engine.tallies(),
            Runner::Interp(tallies) => tallies.as_ref(),
        }
    }

    /// Returns its index among the workers of the switch.
    pub fn index(&self) -> usize {
        self.place.index()
    }

    /// Returns its switch.
    pub fn switch(&self) -> &Arc<Switch> {
        self.place.switch()
    }

    /// Stops the clock at `now_us`, so that runs are reproducible; `None` restarts it.
    pub fn set_time(&mut self, now_us: Option<u64>) {
        self.time = now_us;
    }

    /// Creates a pool of `count` buffers with the headroom that this program needs, for frames of at least
    /// `frame_max` bytes.
    pub fn pool(&self, count: usize, frame_max: usize) -> io::Result<Pool> {
        Pool::new(count, frame_max.max(p4jet_jit::FRAME_READABLE_BYTES), self.headroom)
    }

    /// Runs every packet of the batch through the pipeline: sets egress ports and rewrites the frames. The packets
    /// must belong to `pool`, which [`Self::pool`] created. Copies that they make wait for [`Self::process_copies`].
    pub fn process(&mut self, pool: &mut Pool, batch: &mut Batch) {
        self.run(pool, batch);
        // Most batches make no copies.
        if !self.made.is_empty() {
            self.queue_copies(batch, ARRIVED);
        }
    }

    /// Like [`Self::process`], for a batch of one injected packet. Records what becomes of it and its copies.
    pub(crate) fn process_followed(&mut self, pool: &mut Pool, batch: &mut Batch, followed: Followed) {
        let mut makers = ARRIVED;
        if self.followed.len() < FOLLOWED_MAX {
            makers[0].budget = self.budgets.open(COPIES_MAX as u32);
            self.budgets.hold(makers[0].budget);
            self.followed.push((makers[0].budget, followed));
        } else {
            followed.lose();
        }
        self.run_and_note(pool, batch, &makers);
        self.queue_copies(batch, makers);
    }

    /// Runs the batch and records the outcomes of packets that are followed.
    fn run_and_note(&mut self, pool: &mut Pool, batch: &mut Batch, makers: &[Maker; BATCH_MAX]) {
        let Refused { too_many, copies_full, .. } = self.refused;
        self.run(pool, batch);
        if self.followed.is_empty() {
            return;
        }
        let refused = [
            (DropReason::TooManyCopies, self.refused.too_many - too_many),
            (DropReason::CopiesFull, self.refused.copies_full - copies_full),
        ];
        for (budget, followed) in &self.followed {
            let packets = batch.packets().iter().zip(makers).filter(|(_, maker)| maker.budget == *budget);
            let mut is_there = false;
            for (packet, _) in packets {
                is_there = true;
                followed.note(packet, |reason| self.drop_reason(reason));
            }
            // Machine code does not report whose copies it refused.
            for (reason, n) in refused.iter().filter(|(_, n)| is_there && *n > 0) {
                followed.drop(self.drop_reason(reason.number()), *n);
            }
        }
    }

    /// Runs this worker's part of a pipeline that several threads share ([`Switch::threads`]). The packets have
    /// passed the earlier parts on the same `flight`, and belong to a pool like that of [`Self::process`].
    pub(crate) fn process_part(&mut self, batch: &mut Batch, flight: &mut Flight) {
        let Runner::Jit(engine) = &mut self.engine else {
            unreachable!("`Running` and `Pipelined` accept only machine code")
        };
        let thread = self.place.index();
        // All parts use the time at which the packet entered the first one.
        let now = flight.now_us();
        if thread == 0 && self.reads_time {
            *now = self.time.unwrap_or_else(|| self.place.switch().now_us());
        }
        self.env.set_now(*now);
        let guard = p4jet_tables::pin();
        for (pinned, view) in self.pinned.iter_mut().zip(&self.views) {
            *pinned = view.load(&guard);
        }
        // SAFETY: as in `run`; the flight belongs to the switch's code, which makes no copies.
        unsafe { engine.run_part(thread, flight, batch.packets_mut(), &self.pinned, &mut self.env) };
        self.env.release();
    }

    /// Adds a copy to the batch, unless the packet grew with each pass and no longer fits a buffer.
    fn begin_copy(
        &mut self,
        waiting: Waiting,
        pool: &mut Pool,
        batch: &mut Batch,
        makers: &mut [Maker; BATCH_MAX],
    ) {
        let Waiting { generation, budget, copy } = waiting;
        let number = batch.len();
        if copy.push(pool, batch).is_err() {
            self.refused.too_many += 1;
            note_refused(&self.followed, self.place.switch(), budget, DropReason::TooManyCopies);
            self.budgets.release(budget);
            return;
        }
        makers[number] = Maker { generation, budget };
        self.running.push(copy);
    }

    /// Fills the batch with the oldest waiting copies, or with those that may leave their output queues now, and runs
    /// it like [`Self::process`]. Returns false if there are none.
    pub fn process_copies(&mut self, pool: &mut Pool, batch: &mut Batch) -> bool {
        batch.clear();
        batch.set_max(BATCH_MAX);
        let mut makers = ARRIVED;
        if !self.queueing.as_ref().is_some_and(|queueing| queueing.follows) {
            self.take_incoming();
        }
        // The first copy determines the engine.
        let in_loop = self.in_loop;
        let batch_max = self.place.switch().batch_max();
        let has_room = |running: &[Copied]| match running.first() {
            Some(first) if in_loop && first.is_interpreted() => running.len() < INTERPRETED_MAX,
            _ => running.len() < batch_max,
        };
        // All copies of a batch begin in the same pipeline half and run in the same engine.
        let fits = |running: &[Copied], copy: &Copied| {
            running.first().is_none_or(|first| {
                first.begin() == copy.begin() && first.is_interpreted() == copy.is_interpreted()
            })
        };
        while has_room(&self.running)
            && let Some(waiting) = self.waiting.pop_if(|copy| fits(&self.running, copy))
        {
            self.begin_copy(waiting, pool, batch, &mut makers);
        }
        if batch.is_empty() && self.queueing.as_ref().is_some_and(|q| q.serving.packets() > 0) {
            let now = self.now_ns();
            self.queueing.iter_mut().for_each(|queueing| queueing.serving.refresh());
            while has_room(&self.running)
                && let Some(queueing) = &mut self.queueing
                && let Some(((generation, budget, mut copy), queued)) = queueing.serving.next(now)
            {
                copy.set_queued(queued);
                let is_interpreted = copy.is_interpreted();
                let waiting = Waiting { generation, budget: budget as u32, copy };
                if self.running.first().is_some_and(|first| first.is_interpreted() != is_interpreted) {
                    // Copies of the other engine form the next batch.
                    self.waiting.push(waiting);
                    break;
                }
                self.begin_copy(waiting, pool, batch, &mut makers);
            }
        }
        if !batch.is_empty() {
            self.run_and_note(pool, batch, &makers);
            self.queue_copies(batch, makers);
        }
        !batch.is_empty()
    }

    /// Runs the batch: received packets, or the copies in `running`, which it empties. Adds the copies that they create
    /// to `made`.
    fn run(&mut self, pool: &mut Pool, batch: &mut Batch) {
        assert!(pool.headroom() >= self.headroom, "the pool belongs to another worker");
        let now = match self.time {
            Some(now) => now,
            None if self.reads_time => self.place.switch().now_us(),
            None => 0,
        };
        self.env.set_now(now);
        let interpreted = match self.running.first() {
            Some(copy) => copy.is_interpreted(),
            None if matches!(self.engine, Runner::Interp(_)) => true,
            // The log may have got room since `batch_max`.
            None => self.logs_arrived() && (!self.in_loop || batch.len() <= INTERPRETED_MAX),
        };
        if interpreted {
            return self.interpret(pool, batch, now);
        }
        if let Some(logging) = &self.logging {
            logging.log().lose(batch.len());
            if self.running.is_empty() {
                logging.log().number(batch.len());
            }
        }
        let Runner::Jit(engine) = &mut self.engine else {
            unreachable!("only machine code makes copies that it runs")
        };
        let guard = p4jet_tables::pin();
        for (pinned, view) in self.pinned.iter_mut().zip(&self.views) {
            *pinned = view.load(&guard);
        }
        let packets = batch.packets_mut();
        // SAFETY: the pool has the headroom and slack; the views stay valid until the guard is dropped; the
        // environment belongs to the same switch; this engine created all copies.
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
        self.env.release();
        let refused = engine.take_copies(|copy| self.made.push((copy.maker(), Copied::Jit(copy))));
        self.refused.too_many += refused.too_many;
        self.refused.copies_full += refused.full;
        self.moved.copies += refused.too_many + refused.full;
    }

    /// True if received packets are logged now.
    fn logs_arrived(&self) -> bool {
        self.logging.as_ref().is_some_and(|logging| logging.log().has_room())
    }

    /// Records in the packet log whether the switch has a port.
    pub(crate) fn log_port(&self, number: u32, is_there: bool) {
        if let Some(logging) = &self.logging {
            logging.log().set_port(number, is_there);
        }
    }

    /// Like [`Self::run`], but with the interpreter.
    fn interpret(&mut self, pool: &mut Pool, batch: &mut Batch, now: u64) {
        let Some(machine) = &self.machine else { unreachable!("nothing is interpreted without it") };
        let tables = self.place.switch().tables.as_slice();
        let mut tallies = match &mut self.engine {
            Runner::Jit(engine) => engine.tallies_mut(),
            Runner::Interp(tallies) => tallies.as_mut(),
        };
        let mut arrives = match &self.logging {
            Some(logging) if self.running.is_empty() => logging.log().number(batch.len()),
            _ => 0,
        };
        let mut made_bytes = 0;
        let mut copies = self.running.drain(..);
        for (number, packet) in batch.packets_mut().iter_mut().enumerate() {
            crate::interrupt::interprets(number);
            let copy = match copies.next() {
                Some(Copied::Interp(made)) => Some(*made),
                _ => None,
            };
            let mut logged = None;
            if let Some(logging) = &self.logging {
                logged = match &copy {
                    Some(copy) => copy.logged.clone(),
                    None => Some(Logged::arrived(arrives)),
                };
                arrives += 1;
                if logged.is_none() || !logging.log().has_room() {
                    logging.log().lose(1);
                    logged = None;
                }
            }
            let mut trace = logged.is_some().then(Trace::brief);
            // Keeps the log lines of earlier packets apart from this one's.
            let said_before = if logged.is_some() { self.env.take_log() } else { Vec::new() };
            let ran = match copy {
                Some(made) => machine.run_copy(tables, &mut self.env, made.copy, now, trace.as_mut()),
                None => {
                    let frame = pool.frame(packet).to_vec();
                    let arrival = Arrival { port: packet.ingress_port, frame: &frame, now_us: now };
                    machine.run(tables, &mut self.env, &arrival, trace.as_mut())
                }
            };
            // A packet that ended inside an action still holds its register locks.
            self.env.release();
            if let Some(tallies) = &mut tallies {
                count(tallies, &ran);
            }
            self.work += ran.path.len() + ran.applied.len();
            write_outcome(pool, packet, self.headroom, ran.outcome);
            self.refused.too_many += ran.refused_copies;
            self.moved.copies += ran.refused_copies;
            let mut copies_logged = match (&logged, &trace) {
                (Some(logged), Some(trace)) => logged_copies(logged, trace),
                _ => Vec::new(),
            }
            .into_iter();
            for copy in ran.copies {
                let bytes = copy.frame.len();
                if self.made.len() >= COPIES_WAITING_MAX || made_bytes + bytes > COPIES_WAITING_BYTES_MAX {
                    self.refused.copies_full += 1;
                    self.moved.copies += 1;
                    continue;
                }
                made_bytes += bytes;
                let made = Interpreted { copy, logged: copies_logged.next() };
                self.made.push((number, Copied::Interp(Box::new(made))));
            }
            if let (Some(logging), Some(logged), Some(trace)) = (&self.logging, logged, trace) {
                logging.take(&logged, trace, self.env.take_log());
                said_before.into_iter().for_each(|line| self.env.log(line));
            }
        }
    }

    /// Queues the copies that a batch has created.
    fn queue_copies(&mut self, batch: &Batch, mut makers: [Maker; BATCH_MAX]) {
        self.moved.copies += self.made.len() as u64;
        if self.queueing.is_some() {
            self.enqueue(batch, &mut makers);
        } else {
            for (maker, copy) in self.made.drain(..) {
                let Maker { generation, budget } = &mut makers[maker];
                let refused = if self.waiting.is_full(copy.bytes()) {
                    self.refused.copies_full += 1;
                    DropReason::CopiesFull
                } else if *generation < GENERATIONS_MAX && self.budgets.charge(budget) {
                    self.waiting.push(Waiting { generation: *generation + 1, budget: *budget, copy });
                    continue;
                } else {
                    self.refused.too_many += 1;
                    DropReason::TooManyCopies
                };
                note_refused(&self.followed, self.place.switch(), *budget, refused);
                self.engine.recycle(copy);
            }
        }
        makers.iter().for_each(|maker| self.budgets.release(maker.budget));
        if !self.followed.is_empty() {
            self.forget_ended();
        }
    }

    /// Forgets followed packets of which no copy waits here.
    fn forget_ended(&mut self) {
        let budgets = &mut self.budgets;
        self.followed.retain(|(budget, _)| {
            let ended = budgets.has_one_holder(*budget);
            if ended {
                budgets.release(*budget);
            }
            !ended
        });
    }

    /// Queues the copies that a batch has created, in a program with output queues.
    fn enqueue(&mut self, batch: &Batch, makers: &mut [Maker; BATCH_MAX]) {
        if self.made.is_empty() {
            return;
        }
        // The makers that continue in a queue, as a bit mask.
        let mut continue_in_queue = 0u64;
        for (maker, copy) in &self.made {
            let packet = &batch.packets()[*maker];
            let ended = packet.egress_port == PORT_DROP && packet.drop_reason == REASON_DONE;
            if ended && copy.queue().is_some() && generations(copy.made_in(), copy.begin()) == 0 {
                continue_in_queue |= 1 << maker;
            }
        }
        self.moved.queued += u64::from(continue_in_queue.count_ones());
        let now = self.now_ns();
        let (workers, own) = (self.place.switch().inboxes.len(), self.place.index());
        let Some(queueing) = &mut self.queueing else { return };
        queueing.serving.refresh();
        let mut made = std::mem::take(&mut self.made);
        for (maker, copy) in made.drain(..) {
            let Maker { generation, budget } = &mut makers[maker];
            let generation = *generation + generations(copy.made_in(), copy.begin());
            let queue = copy.queue();
            let refuse = |budget, reason| note_refused(&self.followed, self.place.switch(), budget, reason);
            if queue.is_none() && self.waiting.is_full(copy.bytes()) {
                self.refused.copies_full += 1;
                refuse(*budget, DropReason::CopiesFull);
                self.engine.recycle(copy);
                continue;
            }
            if generation > GENERATIONS_MAX || !self.budgets.charge(budget) {
                self.refused.too_many += 1;
                refuse(*budget, DropReason::TooManyCopies);
                self.engine.recycle(copy);
                continue;
            }
            let budget = *budget;
            let Some(queue) = queue else {
                self.waiting.push(Waiting { generation, budget, copy });
                continue;
            };
            if workers > 1 && queue.0 as usize % workers != own {
                let followed = followed_by(&self.followed, budget).cloned();
                let copies_left = self.budgets.take_along(budget);
                let travelling = (generation, 0, copy);
                let handed = Handed { queue, enqueued_ns: now, copies_left, travelling, followed };
                queueing.outgoing[queue.0 as usize % workers].push(handed);
                continue;
            }
            let bytes = copy.bytes();
            let travelling = (generation, u64::from(budget), copy);
            if let Err((back, why)) = queueing.serving.enqueue(queue, travelling, bytes, now) {
                self.refused.count(why);
                refuse(budget, refusal(why));
                self.budgets.release(budget);
                self.engine.recycle(back.2);
            }
        }
        self.made = made;
        self.hand_over();
    }

    /// Hands copies to the workers that serve their queues.
    fn hand_over(&mut self) {
        let Some(queueing) = &mut self.queueing else { return };
        for (outgoing, inbox) in queueing.outgoing.iter_mut().zip(&self.place.switch().inboxes) {
            if outgoing.is_empty() {
                continue;
            }
            let all = outgoing.len();
            inbox.put(outgoing, self.epoch, |spare| self.engine.recycle(Copied::Jit(spare)));
            self.moved.handed_over += (all - outgoing.len()) as u64;
            for handed in outgoing.drain(..) {
                self.refused.count(Refusal::Full);
                if let Some(followed) = handed.followed {
                    followed.drop(DropReason::QueueFull.text(self.place.switch().program()).to_string(), 1);
                }
                self.engine.recycle(handed.travelling.2);
            }
        }
    }

    /// Holds packets in output queues until the packets of `earlier`, the workers of earlier programs, have left the
    /// same ports: this keeps the order within a flow. While there are earlier workers, the caller first calls
    /// [`Self::take_incoming`], of this worker before the earlier ones: every other worker hands over its copies of
    /// an earlier program before those of this one.
    pub(crate) fn follow<'w>(&mut self, earlier: impl ExactSizeIterator<Item = &'w Worker>) {
        if let Some(queueing) = &mut self.queueing {
            queueing.follows = earlier.len() > 0;
            let serving = |worker: &'w Worker| worker.queueing.as_ref().map(|queueing| &queueing.serving);
            queueing.serving.follow(earlier.filter_map(serving));
        }
    }

    /// Queues the copies that other workers have handed over.
    pub(crate) fn take_incoming(&mut self) {
        let Some(queueing) = &mut self.queueing else { return };
        let Some(inbox) = self.place.switch().inboxes.get(self.place.index()) else { return };
        if !inbox.is_filled() {
            return;
        }
        inbox.take(&mut queueing.incoming, self.epoch, || match &mut self.engine {
            Runner::Jit(engine) => engine.take_spare(),
            Runner::Interp(_) => None,
        });
        self.moved.taken_over += queueing.incoming.len() as u64;
        queueing.serving.refresh();
        for Handed { queue, enqueued_ns, copies_left, mut travelling, followed } in
            queueing.incoming.drain(..)
        {
            let bytes = travelling.2.bytes();
            let budget = self.budgets.open(copies_left);
            travelling.1 = u64::from(budget);
            let entered = queueing.serving.enqueue(queue, travelling, bytes, enqueued_ns);
            match (followed, &entered) {
                (Some(followed), Ok(())) if self.followed.len() < FOLLOWED_MAX => {
                    self.budgets.hold(budget);
                    self.followed.push((budget, followed));
                }
                (Some(followed), Ok(())) => followed.lose(),
                (Some(followed), Err((_, why))) => {
                    followed.drop(refusal(*why).text(self.place.switch().program()).to_string(), 1);
                }
                (None, _) => {}
            }
            if let Err((back, why)) = entered {
                self.refused.count(why);
                self.budgets.release(budget);
                self.engine.recycle(back.2);
            }
        }
    }

    /// Returns the time until [`Self::process_copies`] has work even if no new packets arrive; `None` if nothing
    /// waits.
    pub fn next_due(&self) -> Option<Duration> {
        if !self.waiting.copies.is_empty() || self.inbox().is_some_and(Inbox::is_filled) {
            return Some(Duration::ZERO);
        }
        let queueing = self.queueing.as_ref()?;
        queueing.serving.next_due(self.now_ns())
    }

    /// True if its output queues follow the ports' links, see [`Self::set_room`].
    pub(crate) fn follows_links(&self) -> bool {
        self.queueing.as_ref().is_some_and(|queueing| queueing.serving.follows_links())
    }

    /// Sets the number of packets that the link of a port accepts now.
    pub(crate) fn set_room(&mut self, port: u32, room: usize) {
        if let Some(queueing) = &mut self.queueing {
            queueing.serving.set_room(port, room);
        }
    }

    /// Returns the number of packets in the output queues that this worker serves.
    pub fn waiting(&self) -> usize {
        self.queueing.as_ref().map_or(0, |q| q.serving.packets())
    }

    /// Returns the number of waiting copies, in output queues or outside.
    pub(crate) fn copies_waiting(&self) -> usize {
        self.waiting.copies.len() + self.waiting()
    }

    /// Returns the number of bytes of these copies.
    pub(crate) fn bytes_waiting(&self) -> usize {
        self.waiting.bytes + self.queueing.as_ref().map_or(0, |queueing| queueing.serving.bytes())
    }

    /// Returns true if the copies outside output queues must run before the next packets are received, so that a
    /// further batch has room for its copies.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.copies.len() >= COPIES_MAX
    }

    /// Records that it has contributed to sample `epoch`: workers that have not accept nothing that it hands over
    /// from now on.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Returns the numbers of copies created and packets moved between workers since the last call.
    pub(crate) fn take_moved(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// Returns true if the worker of a replaced program can be dropped: no packet waits in it, nor in another worker
    /// of its switch that could hand it over.
    pub(crate) fn can_be_dropped(&self) -> bool {
        let rests = self.copies_waiting() == 0 && self.next_due().is_none();
        let inboxes = &self.place.switch().inboxes;
        self.inbox().into_iter().for_each(|inbox| inbox.set_resting(rests));
        rests && all_rest(inboxes)
    }

    /// Returns the maximum number of copies that the packet loop runs before it polls its ports again: all that wait,
    /// so that their number does not grow as long as copies make no copies; at most about 2 ms of work.
    pub(crate) fn copies_per_round(&self) -> usize {
        self.copies_waiting().clamp(COPIES_PER_ROUND, COPIES_MAX)
    }

    /// Prepares for sleep: from now on [`Self::wake_fd`] becomes readable when another worker hands packets over.
    /// Returns false if that has happened already, so there is work to do.
    pub fn prepare_sleep(&self) -> bool {
        self.inbox().is_none_or(Inbox::sleep)
    }

    /// Returns the descriptor that becomes readable when another worker hands packets to this one while it sleeps;
    /// `None` if no worker can.
    pub fn wake_fd(&self) -> Option<RawFd> {
        self.inbox().map(Inbox::wake_fd)
    }

    fn inbox(&self) -> Option<&Inbox<Handed, p4jet_jit::Copied>> {
        self.place.switch().inboxes.get(self.place.index())
    }

    fn now_ns(&self) -> u64 {
        match self.time {
            Some(now_us) => now_us.saturating_mul(1000),
            None => self.place.switch().now_ns(),
        }
    }

    /// Returns how many copies were not created, or not put into a queue, since the last call, by drop reason.
    pub fn take_refused(&mut self) -> [(DropReason, u64); 4] {
        let Refused { too_many, copies_full, queue_full, no_queue } = std::mem::take(&mut self.refused);
        [
            (DropReason::TooManyCopies, too_many),
            (DropReason::CopiesFull, copies_full),
            (DropReason::QueueFull, queue_full),
            (DropReason::NoQueue, no_queue),
        ]
    }

    /// Returns the text of a [`p4jet_packet::Packet::drop_reason`].
    pub fn drop_reason(&self, reason: u32) -> String {
        DropReason::of_number(reason).text(self.place.switch().program()).to_string()
    }

    /// Returns the lines that `log_msg` and failed assertions wrote since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        self.env.take_log()
    }

    /// Runs one packet and all its copies; for tests and tools. Frames may have up to 65,535 bytes; longer ones are
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
        let mut steps = Steps { worker: self, pool, batch };
        let processed = match steps.worker.queueing.take() {
            None => run_out(first, |copy| steps.run(copy, None, 0)),
            Some(mut queueing) => {
                let origin = queueing.arrived;
                queueing.arrived += 1;
                let now_us = steps.worker.now_ns() / 1000;
                let all = run_queued(&mut queueing.serving, Some((origin, first)), now_us, &mut steps);
                steps.worker.queueing = Some(queueing);
                join(all.into_iter().map(|(_, processed)| processed))
            }
        };
        let Steps { pool, batch, .. } = steps;
        self.own = Some((pool, batch));
        processed
    }

    /// Runs [`Self::process_one`], then [`Self::run_queues_out`].
    pub fn process_and_wait(&mut self, ingress_port: u32, frame: &[u8]) -> Processed {
        let first = self.process_one(ingress_port, frame);
        let later = self.run_queues_out().into_iter().map(|(_, processed)| processed);
        join(std::iter::once(first).chain(later))
    }

    /// Advances the stopped clock ([`Self::set_time`]) until the output queues are empty. Returns the outcome of each
    /// packet that left them, with the number of the [`Self::process_one`] call that it comes from.
    pub fn run_queues_out(&mut self) -> Vec<(u64, Processed)> {
        let mut all = Vec::new();
        while let Some(due_us) = self.next_due_us() {
            all.extend(self.run_queues_at(due_us));
        }
        all
    }

    /// Advances the stopped clock by `us` microseconds. Returns the same as [`Self::run_queues_out`].
    pub fn run_queues_for(&mut self, us: u32) -> Vec<(u64, Processed)> {
        let to_us = self.time_us() + u64::from(us);
        let mut all = Vec::new();
        while let Some(due_us) = self.next_due_us().filter(|due_us| *due_us <= to_us) {
            all.extend(self.run_queues_at(due_us));
        }
        self.time = Some(to_us);
        all
    }

    /// Advances the stopped clock to `to_us`. Returns the outcome of each packet that left an output queue until then, with the time
    /// in microseconds at which it left.
    pub fn advance(&mut self, to_us: u64) -> Vec<(u64, Processed)> {
        let mut all = Vec::new();
        while let Some(due_us) = self.next_due_us().filter(|due_us| *due_us <= to_us) {
            let left = self.run_queues_at(due_us);
            all.extend(left.into_iter().map(|(_, processed)| (due_us, processed)));
        }
        self.time = Some(self.time_us().max(to_us));
        all
    }

    /// Returns the time in microseconds: that of the stopped clock, or the switch's.
    pub fn time_us(&self) -> u64 {
        self.now_ns() / 1000
    }

    /// Returns the time in microseconds, not before now, at which the next packet can leave an output queue of [`Self::process_one`].
    pub fn next_due_us(&self) -> Option<u64> {
        let (queueing, _) = self.queueing.as_ref().zip(self.own.as_ref())?;
        let due_ns = queueing.serving.next_due_ns()?;
        Some(due_ns.div_ceil(1000).max(self.time_us()))
    }

    /// Sets the stopped clock and runs the packets that can leave their output queues then.
    fn run_queues_at(&mut self, now_us: u64) -> Vec<(u64, Processed)> {
        let (Some(mut queueing), Some((pool, batch))) = (self.queueing.take(), self.own.take()) else {
            return Vec::new();
        };
        self.time = Some(now_us);
        let mut steps = Steps { worker: self, pool, batch };
        let all = run_queued(&mut queueing.serving, None, now_us, &mut steps);
        let Steps { pool, batch, .. } = steps;
        (self.queueing, self.own) = (Some(queueing), Some((pool, batch)));
        all
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
        let too_many = self.refused.too_many;
        self.run(pool, batch);
        let packet = batch.packets()[0];
        let mut processed = match (packet.egress_port, packet.drop_reason) {
            (PORT_DROP, REASON_DONE) => Processed::default(),
            (PORT_DROP, reason) => Processed::dropped(self.drop_reason(reason)),
            (port, _) => Processed { sent: vec![(port, pool.frame(&packet).to_vec())], dropped: Vec::new() },
        };
        processed.refuse_copies(self.refused.too_many - too_many);
        let made = |(_, copy): (usize, Copied)| Made {
            made_in: copy.made_in(),
            begin: copy.begin(),
            queue: copy.queue(),
            bytes: copy.bytes(),
            copy,
        };
        Step { processed, copies: self.made.drain(..).map(made).collect() }
    }
}

/// Returns the injected packet that a budget belongs to.
fn followed_by(all: &[(u32, Followed)], budget: u32) -> Option<&Followed> {
    all.iter().find(|(followed, _)| *followed == budget).map(|(_, followed)| followed)
}

/// Records a copy that was refused, if it is followed.
fn note_refused(all: &[(u32, Followed)], switch: &Switch, budget: u32, reason: DropReason) {
    if let Some(followed) = followed_by(all, budget) {
        followed.drop(reason.text(switch.program()).to_string(), 1);
    }
}

/// Runs copies one at a time.
struct Steps<'w> {
    worker: &'w mut Worker,
    pool: Pool,
    batch: Batch,
}

impl Carrier<Copied> for Steps<'_> {
    fn run(&mut self, mut copy: Copied, queued: Option<Queued>, _now_us: u64) -> Step<Copied> {
        queued.into_iter().for_each(|queued| copy.set_queued(queued));
        self.worker.step(&mut self.pool, &mut self.batch, |worker, pool, batch| {
            copy.push(pool, batch)?;
            worker.running.push(copy);
            Ok(())
        })
    }
}

/// Returns the log identities of a packet's copies, in order.
fn logged_copies(logged: &Logged, trace: &Trace) -> Vec<Logged> {
    let mut copies = Vec::new();
    for event in &trace.events {
        match event {
            // The same packet after its output queue.
            TraceEvent::Copied { begin: PipelineHalf::Egress, to: None, .. } => copies.push(logged.clone()),
            TraceEvent::Copied { to: None, .. } => copies.push(logged.copied()),
            TraceEvent::Copied { to: Some((_, _, ports)), .. } => {
                copies.extend(ports.iter().map(|_| logged.copied()));
            }
            _ => {}
        }
    }
    copies
}

/// Adds what the interpreter reports of a packet to the tallies.
fn count(tallies: &mut Tallies, ran: &Ran) {
    for (table, action, hit) in &ran.applied {
        tallies.applied(*table, *action, *hit);
    }
    if let Outcome::Dropped { reason, at } = ran.outcome {
        // A drop in the deparser has no place in the program.
        let at = if reason == DropReason::EmitsTooMuch { p4jet_ir::Loc(0) } else { at };
        tallies.dropped(reason, at);
    }
}

/// Writes the interpreter's outcome into a packet.
fn write_outcome(pool: &mut Pool, packet: &mut Packet, headroom: usize, outcome: Outcome) {
    match outcome {
        Outcome::Sent { port, frame } => {
            packet.egress_port = port;
            // Added bytes go into the headroom, as in generated code.
            let growth = frame.len().saturating_sub(packet.len as usize);
            assert!(growth <= headroom, "emitted_bytes_max bounds what a program adds");
            packet.data = packet.data.wrapping_sub(growth);
            packet.len = frame.len() as u32;
            pool.frame_mut(packet).copy_from_slice(&frame);
        }
        Outcome::Dropped { reason, .. } => {
            packet.egress_port = PORT_DROP;
            packet.drop_reason = reason.number();
        }
        Outcome::Done => {
            packet.egress_port = PORT_DROP;
            packet.drop_reason = REASON_DONE;
        }
    }
}
