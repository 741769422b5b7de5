//! One core's packets.
#![allow(unsafe_code)]

use crate::switch::{EngineKind, Switch};
use p4jet_externs::Env;
use p4jet_interp::{Arrival, Copied, Machine, Outcome, REASON_OUT_OF_FUEL, Ran};
use p4jet_ir::Begin;
use p4jet_jit::{DROP_ASSERTION, Engine};
use p4jet_packet::{BATCH_MAX, Batch, PORT_DROP, Packet, Pool};
use p4jet_tables::{View, ViewHandle};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Copies of copies of … a packet: a later one is dropped. A program that recirculates for ever does not get far beyond.
pub const GENERATIONS_MAX: u32 = 1024;
/// Most copies that come of one packet, or wait at one time.
pub const COPIES_MAX: usize = 1 << 14;
/// Not a drop: the packet's copies go on in its place.
pub const REASON_DONE: u32 = u32::MAX - 3;
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
pub(crate) fn copied(program: &p4jet_ir::Program, ran: Ran) -> Step<Copied> {
    let processed = match ran.outcome {
        Outcome::Sent { port, frame } => Processed { sent: vec![(port, frame)], dropped: Vec::new() },
        Outcome::Dropped { reason, .. } => Processed::dropped(reason_text(program, reason)),
        Outcome::Done => Processed::default(),
    };
    let copies = ran.copies.into_iter().map(|copy| (copy.made_in, copy.begin, copy)).collect();
    Step { processed, copies }
}

/// Runs the copies of a packet, and theirs, to the end, in the order in which a switch that queues before egress sends
/// them: copies made in ingress stand in the queue before the packet that made them.
pub(crate) fn run_out<C>(first: Step<C>, mut run: impl FnMut(C) -> Step<C>) -> Processed {
    enum Queued<C> {
        Copy(Begin, C),
        /// Has run: what became of it, and what it made in egress.
        Done(Processed, Vec<(Begin, C)>),
    }
    fn split<C>(queue: &mut VecDeque<(u32, Queued<C>)>, generation: u32, step: Step<C>) {
        let mut later = Vec::new();
        for (made_in, begin, copy) in step.copies {
            match made_in {
                Begin::Ingress => queue.push_back((generation + 1, Queued::Copy(begin, copy))),
                Begin::Egress => later.push((begin, copy)),
            }
        }
        queue.push_back((generation, Queued::Done(step.processed, later)));
    }
    let mut all = Processed::default();
    let mut made = 0;
    let mut queue = VecDeque::new();
    split(&mut queue, 0, first);
    while let Some((generation, queued)) = queue.pop_front() {
        let (processed, copies) = match queued {
            Queued::Copy(..) if generation > GENERATIONS_MAX || made >= COPIES_MAX => {
                (Processed::dropped(TOO_MANY_COPIES), Vec::new())
            }
            Queued::Copy(begin, copy) => {
                made += 1;
                let step = run(copy);
                if begin == Begin::Ingress {
                    split(&mut queue, generation, step);
                    continue;
                }
                (step.processed, step.copies.into_iter().map(|(_, begin, copy)| (begin, copy)).collect())
            }
            Queued::Done(processed, copies) => (processed, copies),
        };
        all.sent.extend(processed.sent);
        all.dropped.extend(processed.dropped);
        queue.extend(copies.into_iter().map(|(begin, copy)| (generation + 1, Queued::Copy(begin, copy))));
        if made >= COPIES_MAX {
            queue.retain(|(_, queued)| matches!(queued, Queued::Done(..)));
            if !all.dropped.iter().any(|why| why == TOO_MANY_COPIES) {
                all.dropped.push(TOO_MANY_COPIES.to_string());
            }
        }
    }
    all
}

const TOO_MANY_COPIES: &str =
    "too many copies came of one packet (does it recirculate or clone itself for ever?)";

/// What a drop reason means.
fn reason_text(program: &p4jet_ir::Program, reason: u32) -> String {
    match reason {
        DROP_ASSERTION => "an assert or assume failed".to_string(),
        REASON_OUT_OF_FUEL => "the program ran too long on this packet".to_string(),
        REASON_TOO_MANY_COPIES => TOO_MANY_COPIES.to_string(),
        _ => program.drop_reasons.get(reason as usize).cloned().unwrap_or_else(|| format!("reason {reason}")),
    }
}

/// A copy that waits for its turn.
struct Waiting {
    generation: u32,
    copy: Copied,
}

/// Runs packets on one core.
pub struct Worker {
    engine: Runner,
    views: Vec<ViewHandle>,
    pinned: Vec<*const View>,
    env: Env<'static>,
    /// Last: what is above points into it.
    switch: Arc<Switch>,
    time: Option<u64>,
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
    pub(crate) fn new(switch: &Arc<Switch>, engine: EngineKind, worker: usize) -> Result<Worker, String> {
        let engine = match engine {
            EngineKind::Jit => {
                let code = switch.code().map_err(|e| switch.describe(&e))?;
                Runner::Jit(Box::new(Engine::new(code, switch.program(), switch.state(), worker)))
            }
            EngineKind::Interp => {
                // Says now what cannot run.
                Machine::new(switch.program())?;
                Runner::Interp
            }
        };
        let env = switch.state().env(worker);
        // SAFETY: the environment borrows the state of `switch`, which this worker keeps alive and never moves (it is in
        // an Arc); `env` is dropped before `switch`, being declared before it.
        let env: Env<'static> = unsafe { std::mem::transmute(env) };
        let views: Vec<ViewHandle> = (0..switch.tables.len())
            .map(|t| switch.table(p4jet_ir::TableId(t as u32)).view_handle())
            .collect();
        Ok(Worker {
            engine,
            pinned: Vec::with_capacity(views.len()),
            views,
            env,
            switch: Arc::clone(switch),
            time: None,
            waiting: VecDeque::new(),
            refused: 0,
            own: None,
        })
    }

    /// The switch it belongs to.
    pub fn switch(&self) -> &Arc<Switch> {
        &self.switch
    }

    /// Lets time stand still at `now_us`, so that runs can be repeated; `None` lets it go on.
    pub fn set_time(&mut self, now_us: Option<u64>) {
        self.time = now_us;
    }

    /// A pool of buffers as this program needs them, for frames of at least `frame_max` bytes.
    pub fn pool(&self, count: usize, frame_max: usize) -> io::Result<Pool> {
        Pool::new(
            count,
            frame_max.max(p4jet_jit::FRAME_READABLE_BYTES),
            self.switch.program().emitted_bytes_max() as usize,
        )
    }

    /// Runs every packet of the batch through the pipeline; sets egress ports, changes the frames. The packets are of
    /// `pool`, which [`Self::pool`] made. Copies that they make wait for [`Self::process_copies`].
    pub fn process(&mut self, pool: &mut Pool, batch: &mut Batch) {
        let headroom = self.headroom(pool);
        let now = self.now();
        match &mut self.engine {
            Runner::Jit(engine) => {
                let guard = p4jet_tables::pin();
                self.pinned.clear();
                self.pinned.extend(self.views.iter().map(|v| v.load(&guard)));
                // SAFETY: the pool has the headroom and slack; the views stay until the guard is dropped; the environment
                // is of the same switch.
                unsafe { engine.run(batch.packets_mut(), &self.pinned, &mut self.env, now) };
            }
            Runner::Interp => {
                let machine = Machine::new(self.switch.program()).expect("it was possible in `new`");
                for packet in batch.packets_mut() {
                    let frame = pool.frame(packet).to_vec();
                    let arrival = Arrival { port: packet.ingress_port, frame: &frame, now_us: now };
                    let ran = machine.run(self.switch.tables.as_slice(), &mut self.env, &arrival, None);
                    put_outcome(pool, packet, headroom, ran.outcome);
                    self.refused += wait(&mut self.waiting, 0, ran.copies);
                }
            }
        }
    }

    /// Runs the oldest copies that wait, as [`Self::process`] does with packets: they are the batch afterwards. False if
    /// none wait.
    pub fn process_copies(&mut self, pool: &mut Pool, batch: &mut Batch) -> bool {
        batch.clear();
        let headroom = self.headroom(pool);
        let now = self.now();
        if let Runner::Interp = self.engine {
            let machine = Machine::new(self.switch.program()).expect("it was possible in `new`");
            while batch.len() < BATCH_MAX
                && let Some(Waiting { generation, copy }) = self.waiting.pop_front()
            {
                if batch.push(pool, copy.port, &copy.frame).is_err() {
                    // It grew, pass by pass, beyond what buffers hold.
                    self.refused += 1;
                    continue;
                }
                let ran = machine.run_copy(self.switch.tables.as_slice(), &mut self.env, copy, now, None);
                let packet = batch.packets_mut().last_mut().expect("it was pushed");
                put_outcome(pool, packet, headroom, ran.outcome);
                self.refused += wait(&mut self.waiting, generation, ran.copies);
            }
        }
        !batch.is_empty()
    }

    /// Copies that were not made, since the last call: [`GENERATIONS_MAX`], [`COPIES_MAX`].
    pub fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    fn headroom(&self, pool: &Pool) -> usize {
        let headroom = self.switch.program().emitted_bytes_max() as usize;
        assert!(pool.headroom() >= headroom, "the pool is not of this worker");
        headroom
    }

    fn now(&mut self) -> u64 {
        let now = self.time.unwrap_or_else(|| self.switch.now_us());
        self.env.set_now(now);
        now
    }

    /// What a [`p4jet_packet::Packet::drop_reason`] means.
    pub fn drop_reason(&self, reason: u32) -> String {
        reason_text(self.switch.program(), reason)
    }

    /// Lines that `log_msg` and failed assertions wrote since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        self.env.take_log()
    }

    /// One packet with all copies that come of it; for tests and tools. Frames of up to 65,535 bytes; longer ones are
    /// dropped.
    pub fn process_one(&mut self, ingress_port: u32, frame: &[u8]) -> Processed {
        if frame.len() > 65_535 {
            return Processed::dropped("the packet cannot be taken in: it has more than 65,535 bytes");
        }
        if let Runner::Interp = self.engine {
            let now = self.now();
            let program = self.switch.program();
            let machine = Machine::new(program).expect("it was possible in `new`");
            let tables = self.switch.tables.as_slice();
            let arrival = Arrival { port: ingress_port, frame, now_us: now };
            let first = copied(program, machine.run(tables, &mut self.env, &arrival, None));
            return run_out(first, |copy| {
                copied(program, machine.run_copy(tables, &mut self.env, copy, now, None))
            });
        }
        let (mut pool, mut batch) = match self.own.take() {
            Some(own) => own,
            None => match self.pool(64, 65_535) {
                Ok(pool) => (pool, Batch::new()),
                Err(e) => return Processed::dropped(format!("no memory for packets: {e}")),
            },
        };
        batch.clear();
        let result = match batch.push(&mut pool, ingress_port, frame) {
            Err(e) => Processed::dropped(format!("the packet cannot be taken in: {e:?}")),
            Ok(()) => {
                self.process(&mut pool, &mut batch);
                let packet = batch.packets()[0];
                if packet.egress_port == PORT_DROP {
                    Processed::dropped(self.drop_reason(packet.drop_reason))
                } else {
                    let frame = pool.frame(&packet).to_vec();
                    Processed { sent: vec![(packet.egress_port, frame)], dropped: Vec::new() }
                }
            }
        };
        self.own = Some((pool, batch));
        result
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

/// Queues copies made by one of `generation`; gives how many there was no room for.
fn wait(waiting: &mut VecDeque<Waiting>, generation: u32, copies: Vec<Copied>) -> u64 {
    let room = if generation < GENERATIONS_MAX { COPIES_MAX.saturating_sub(waiting.len()) } else { 0 };
    let refused = copies.len().saturating_sub(room) as u64;
    waiting.extend(copies.into_iter().take(room).map(|copy| Waiting { generation: generation + 1, copy }));
    refused
}
