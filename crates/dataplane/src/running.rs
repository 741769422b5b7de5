//! A running switch: its workers, each on a thread of its own, and what can be done with them while packets flow.

use crate::compiling::Compiling;
use crate::counted::ProgramStats;
use crate::forward::{ForwardStats, Forwarder, Listener};
use crate::mailbox::Mailbox;
use crate::notices::{Hub, Notice, PortChange, Subscription, Topics};
use crate::pipelined::{self, RING_DEFAULT};
use crate::pulse;
use crate::queues::Inbox;
use crate::reload::{Carried, Successor};
use crate::switch::{EngineKind, Switch};
use crate::worker::Worker;
use p4jet_externs::DigestCounts;
use p4jet_jit::{Cancel, Engine};
use p4jet_packet::Pool;
use p4jet_ports::{LinkStatus, Port, PortError, PortStats};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a running switch was asked and cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// There is a port of this number.
    PortExists(u32),
    /// There is no port of this number; these there are.
    NoPort(u32, Vec<u32>),
    /// A frame has so many bytes, and the longest that fits so many.
    TooLong(usize, usize),
    /// The program cannot be run, or not on so many workers.
    Program(String),
    /// The system refuses memory, threads or descriptors.
    System(String),
    /// A worker does not answer; what it does.
    Stuck(String),
    /// The switch has been stopped.
    Stopped,
}

/// How often those who wait for a worker ask whether it is stuck.
const ASK: Duration = Duration::from_millis(50);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::PortExists(number) => write!(f, "there is a port {number} already"),
            RunError::NoPort(number, there) if there.is_empty() => {
                write!(f, "there is no port {number}, nor any other")
            }
            RunError::NoPort(number, there) => {
                let there: Vec<String> = there.iter().map(u32::to_string).collect();
                write!(f, "there is no port {number}; the ports are {}", there.join(", "))
            }
            RunError::TooLong(bytes, max) => {
                write!(f, "the frame has {bytes} bytes, and the longest that the switch takes has {max}")
            }
            RunError::Program(why) | RunError::System(why) => f.write_str(why),
            RunError::Stuck(what) => write!(f, "a worker does not answer: {what}"),
            RunError::Stopped => f.write_str("the switch has been stopped"),
        }
    }
}

impl std::error::Error for RunError {}

/// How to run a switch. Workers are as many as the switch has room for ([`Switch::workers`]).
pub struct RunOptions {
    /// Which executor.
    pub engine: EngineKind,
    /// Bytes of the longest frame.
    pub frame_max: usize,
    /// Who is told of log lines, failed ports and links.
    pub listener: Listener,
}

/// A port to add.
pub struct NewPort {
    /// Its number.
    pub number: u32,
    /// What it is, in words: `veth0`, `tap:x,delay=1ms`.
    pub spec: String,
    /// One per worker, see [`p4jet_ports::open`].
    pub handles: Vec<Box<dyn Port>>,
}

/// A port as it stands.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Its number.
    pub number: u32,
    /// What it is, as it was given: `veth0`, `tap:x,delay=1ms`.
    pub spec: String,
    /// Whether its link is up.
    pub status: LinkStatus,
    /// What it has carried.
    pub stats: PortStats,
}

/// A running switch. Dropping it stops it.
pub struct Running {
    inner: Mutex<Inner>,
    switch: Mutex<Arc<Switch>>,
    hub: Arc<Hub>,
    engine: EngineKind,
    frame_max: usize,
    stop: Arc<AtomicBool>,
    ended: Vec<Arc<AtomicBool>>,
    mailboxes: Vec<Arc<Mailbox>>,
    /// Batches between two workers, if these share the pipeline.
    slots: Option<usize>,
    reloads: AtomicU64,
    adaptations: AtomicU64,
    /// Locked while letters are posted, so that all workers get them in one order; the number of the last sample.
    samples: Mutex<u64>,
    /// The last numbers that the workers gave: what is told while one of them is stuck.
    kept: Mutex<Kept>,
    /// Whether workers interpret until machine code is there, and what ends its making.
    interpreting: Arc<AtomicBool>,
    compiling: Option<Cancel>,
}

#[derive(Clone, Default)]
struct Kept {
    sample: (Vec<ForwardStats>, ProgramStats),
    ports: Vec<PortInfo>,
}

struct Inner {
    threads: Vec<JoinHandle<Forwarder>>,
    /// Watches the workers until the sender is gone.
    watchdog: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
    /// Workers that were stuck when the switch ended.
    abandoned: Vec<String>,
    ports: Vec<(u32, String)>,
    /// Of workers that are no more.
    last: Option<(ForwardStats, Vec<PortInfo>)>,
}

/// Closes a mailbox when the worker ends, however it ends.
struct Closed(Arc<Mailbox>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is never left half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Starts the workers, without ports.
    pub fn start(switch: &Arc<Switch>, options: RunOptions) -> Result<Running, RunError> {
        Running::start_with_ring(switch, options, RING_DEFAULT)
    }

    /// The same, with so many packets between two workers if these share the pipeline.
    pub fn start_with_ring(
        switch: &Arc<Switch>,
        options: RunOptions,
        ring_packets: usize,
    ) -> Result<Running, RunError> {
        Running::start_within(switch, options, ring_packets, None)
    }

    /// The same; if there is no machine code within this time, the interpreter runs packets until it is there. Workers that
    /// share the pipeline, or that hand each other copies for output queues, wait for it: both need code that all have.
    pub fn start_within(
        switch: &Arc<Switch>,
        options: RunOptions,
        ring_packets: usize,
        wait: Option<Duration>,
    ) -> Result<Running, RunError> {
        let RunOptions { engine, frame_max, listener } = options;
        let stop = Arc::new(AtomicBool::new(false));
        let hub = Hub::new(switch);
        let listener = hub.listener(listener);
        let system =
            |e: std::io::Error| RunError::System(format!("no memory or descriptor for a worker: {e}"));
        let may_interpret = engine == EngineKind::Jit
            && switch.threads().is_none()
            && !(switch.program().is_queued() && switch.workers() > 1);
        let mut compiling = None;
        if let Some(wait) = wait.filter(|_| may_interpret) {
            let begun = Compiling::start(switch)
                .map_err(|e| RunError::System(format!("no thread to make machine code: {e}")))?;
            match begun.wait(wait) {
                Some(made) => _ = made.map_err(RunError::Program)?,
                None => compiling = Some(begun),
            }
        }
        let mut forwarders = Vec::new();
        for index in 0..switch.workers() {
            let worker = match compiling.is_some() {
                true => Worker::interim(switch, index),
                false => switch.worker(engine, index),
            }
            .map_err(RunError::Program)?;
            let ended = Arc::new(AtomicBool::new(false));
            let listener = Arc::clone(&listener);
            forwarders.push(Forwarder::new(worker, frame_max, listener, ended).map_err(system)?);
        }
        let ended = forwarders.iter().map(|f| Arc::clone(&f.ended)).collect();
        let mailboxes: Vec<_> = forwarders.iter().map(|f| Arc::clone(&f.mailbox)).collect();
        let mut slots = None;
        if switch.threads().is_some() {
            if engine != EngineKind::Jit {
                let why = "only machine code runs on several threads one after the other".to_string();
                return Err(RunError::Program(why));
            }
            let of_ring = pipelined::slots(ring_packets).map_err(RunError::Program)?;
            let loads = pipelined::loads(switch, of_ring, frame_max).map_err(RunError::System)?;
            let segments = pipelined::segments(loads, of_ring, &mailboxes);
            for (forwarder, segment) in forwarders.iter_mut().zip(segments) {
                *forwarder.segment() = Some(segment);
            }
            slots = Some(of_ring);
        }
        let mut running = Running {
            inner: Mutex::new(Inner {
                threads: Vec::new(),
                watchdog: None,
                abandoned: Vec::new(),
                ports: Vec::new(),
                last: None,
            }),
            switch: Mutex::new(Arc::clone(switch)),
            hub,
            engine,
            frame_max,
            stop,
            ended,
            mailboxes,
            slots,
            reloads: AtomicU64::new(0),
            adaptations: AtomicU64::new(0),
            samples: Mutex::new(0),
            kept: Mutex::default(),
            interpreting: Arc::new(AtomicBool::new(compiling.is_some())),
            compiling: None,
        };
        for (mut forwarder, index) in forwarders.into_iter().zip(0..) {
            let stop = Arc::clone(&running.stop);
            let thread = std::thread::Builder::new().name(format!("worker {index}")).spawn(move || {
                let _closed = Closed(Arc::clone(&forwarder.mailbox));
                forwarder.run(&stop);
                forwarder.finish_segment();
                forwarder
            });
            let inner = running.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
            inner.threads.push(thread.map_err(system)?);
        }
        running.compiling = compiling.map(|compiling| {
            let (mailboxes, interpreting) = (running.mailboxes.clone(), Arc::clone(&running.interpreting));
            compiling.change_over(switch, mailboxes, interpreting, Arc::clone(&listener))
        });
        let (end, ended) = mpsc::channel();
        let mailboxes = running.mailboxes.clone();
        let watchdog = std::thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || pulse::watch(&mailboxes, &listener, &ended));
        let inner = running.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.watchdog = Some((end, watchdog.map_err(system)?));
        Ok(running)
    }

    /// The switch as it is now: [`Self::reload`] puts another in its place.
    pub fn switch(&self) -> Arc<Switch> {
        Arc::clone(&lock(&self.switch))
    }

    /// Listens to what happens from now on.
    pub fn subscribe(&self, topics: Topics) -> Result<Subscription, RunError> {
        self.hub.subscribe(topics).map_err(RunError::System)
    }

    /// What became of the digests that programs sent.
    pub fn digest_counts(&self) -> DigestCounts {
        self.hub.digest_counts()
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// How many handles a port has: one for each worker; where these share the pipeline, one to receive and one to send.
    pub fn handles(&self) -> usize {
        if self.slots.is_some() { 2 } else { self.workers() }
    }

    /// Bytes of the longest frame.
    pub fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// Lets every worker carry out `act` between two batches; what it gave, in the workers' order. The caller waits
    /// for a batch, the packets do not. If a worker is stuck, that is the error, and it does not carry out `act` later.
    pub fn ask<T: Send + 'static>(
        &self,
        act: impl Fn(&mut Forwarder) -> T + Send + Sync + 'static,
    ) -> Result<Vec<T>, RunError> {
        let act = Arc::new(act);
        self.hand_out(
            (0..self.workers()).map(|_| Arc::clone(&act)).map(|act| move |f: &mut Forwarder| act(f)),
        )
    }

    /// Gives each worker its own task.
    fn hand_out<T: Send + 'static, A: FnOnce(&mut Forwarder) -> T + Send + 'static>(
        &self,
        acts: impl Iterator<Item = A>,
    ) -> Result<Vec<T>, RunError> {
        self.not_stuck()?;
        let (withdrawn, answers) = {
            let _posting = lock(&self.samples);
            self.post(acts)
        };
        let answers = self.answers(&answers);
        withdrawn.store(answers.is_err(), Ordering::SeqCst);
        answers
    }

    /// Waits for all.
    fn answers<T>(&self, answers: &[mpsc::Receiver<T>]) -> Result<Vec<T>, RunError> {
        answers.iter().enumerate().map(|(worker, answer)| self.answer(worker, answer)).collect()
    }

    /// Waits for a worker's answer as long as it makes progress.
    fn answer<T>(&self, worker: usize, answer: &mpsc::Receiver<T>) -> Result<T, RunError> {
        loop {
            match answer.recv_timeout(ASK) {
                Ok(answer) => return Ok(answer),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(RunError::Stopped),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let pulse = &self.mailboxes[worker].pulse;
                    if pulse.stuck_for().is_some() {
                        return Err(RunError::Stuck(pulse.report(worker).to_string()));
                    }
                }
            }
        }
    }

    /// The error if a worker is stuck.
    fn not_stuck(&self) -> Result<(), RunError> {
        let stuck = |(_, mailbox): &(usize, &Arc<Mailbox>)| mailbox.pulse.stuck_for().is_some();
        match self.mailboxes.iter().enumerate().find(stuck) {
            None => Ok(()),
            Some((worker, mailbox)) => Err(RunError::Stuck(mailbox.pulse.report(worker).to_string())),
        }
    }

    /// Whether all workers answer. To be asked before what must not be done by some of them only.
    pub fn responds(&self) -> Result<(), RunError> {
        self.ask(|_| ()).map(drop)
    }

    /// Posts each worker its own task. The caller has locked `samples`. Who sets the flag withdraws what has not begun.
    fn post<T: Send + 'static, A: FnOnce(&mut Forwarder) -> T + Send + 'static>(
        &self,
        acts: impl Iterator<Item = A>,
    ) -> (Arc<AtomicBool>, Vec<mpsc::Receiver<T>>) {
        let withdrawn = Arc::new(AtomicBool::new(false));
        let post = |(mailbox, act): (&Arc<Mailbox>, A)| {
            let (answer, receiver) = mpsc::sync_channel(1);
            let withdrawn = Arc::clone(&withdrawn);
            mailbox.post(Box::new(move |forwarder| {
                if !withdrawn.load(Ordering::SeqCst) {
                    // Nobody waits any more: the answer is for nobody.
                    let _ = answer.send(act(forwarder));
                }
            }));
            receiver
        };
        let answers = self.mailboxes.iter().zip(acts).map(post).collect();
        (withdrawn, answers)
    }

    /// Adds ports. No worker receives from one of them before all can send to them: what one receives another may send.
    pub fn add_ports(&self, ports: Vec<NewPort>) -> Result<(), RunError> {
        self.responds()?;
        let mut by_worker: Vec<Vec<(u32, Box<dyn Port>)>> =
            self.mailboxes.iter().map(|_| Vec::new()).collect();
        let mut added = Vec::new();
        {
            let mut inner = lock(&self.inner);
            let mut there = inner.ports.clone();
            for NewPort { number, spec, handles } in ports {
                added.push((number, spec.clone()));
                assert_eq!(handles.len(), self.handles(), "as many handles as a port has");
                if there.iter().any(|(n, _)| *n == number) {
                    return Err(RunError::PortExists(number));
                }
                there.push((number, spec));
                let workers = by_worker.len();
                let with_handle = match self.slots {
                    None => (0..workers).collect(),
                    Some(_) => vec![0, workers - 1],
                };
                for (worker, handle) in with_handle.into_iter().zip(handles) {
                    by_worker[worker].push((number, handle));
                }
            }
            there.sort();
            inner.ports = there;
        }
        let attach = |ports: Vec<(u32, Box<dyn Port>)>| {
            move |f: &mut Forwarder| ports.into_iter().for_each(|(number, port)| f.attach(number, port))
        };
        self.hand_out(by_worker.into_iter().map(attach))?;
        let numbers: Vec<u32> = added.iter().map(|(number, _)| *number).collect();
        self.ask(move |f| f.receive_from(&numbers))?;
        for (number, spec) in added {
            self.hub.tell(Notice::Port { number, change: PortChange::Added(spec) });
        }
        Ok(())
    }

    /// Takes a port away and closes it; what it has carried, and whether closing it failed.
    pub fn remove_port(&self, number: u32) -> Result<(PortStats, Option<PortError>), RunError> {
        self.responds()?;
        {
            let mut inner = lock(&self.inner);
            let there = inner.ports.len();
            inner.ports.retain(|(n, _)| *n != number);
            if inner.ports.len() == there {
                return Err(RunError::NoPort(number, inner.ports.iter().map(|(n, _)| *n).collect()));
            }
        }
        let handles = self.ask(move |f| f.detach(number))?;
        self.hub.tell(Notice::Port { number, change: PortChange::Removed });
        let (mut stats, mut failed) = (PortStats::default(), None);
        for (mut handle, injected) in handles.into_iter().flatten() {
            let closed = handle.finish();
            stats += handle.stats();
            stats += injected;
            failed = failed.or(closed.err());
        }
        Ok((stats, failed))
    }

    /// Lets a worker process a frame as if it had come by this port, with all that it counts and tells.
    pub fn inject(&self, port: u32, frame: Vec<u8>) -> Result<(), RunError> {
        if frame.len() > self.frame_max {
            return Err(RunError::TooLong(frame.len(), self.frame_max));
        }
        // The first worker has a handle of every port, also where several share the pipeline.
        let taken = self.hand_out(std::iter::once(move |f: &mut Forwarder| f.inject(port, &frame)))?;
        match taken[..] {
            [true] => Ok(()),
            _ => Err(RunError::NoPort(port, lock(&self.inner).ports.iter().map(|(n, _)| *n).collect())),
        }
    }

    /// The ports, by number.
    pub fn ports(&self) -> Vec<PortInfo> {
        let ports = {
            let inner = lock(&self.inner);
            if let Some((_, ports)) = &inner.last {
                return ports.clone();
            }
            inner.ports.clone()
        };
        let numbers: Vec<u32> = ports.iter().map(|(number, _)| *number).collect();
        let seen = self.ask(move |f| numbers.iter().map(|n| f.port(*n)).collect::<Vec<_>>());
        let (seen, stuck) = match seen {
            Ok(seen) => (seen, None),
            Err(RunError::Stuck(what)) => (Vec::new(), Some(what)),
            Err(_) => (Vec::new(), None),
        };
        let kept = lock(&self.kept).ports.clone();
        let infos: Vec<PortInfo> = (ports.into_iter().enumerate())
            .map(|(i, (number, spec))| {
                let mut info = merged(number, spec, seen.iter().filter_map(|of| of[i].clone()));
                if let Some(what) = &stuck {
                    let before = kept.iter().find(|kept| kept.number == number);
                    before.iter().for_each(|before| info.stats += before.stats);
                    info.status = LinkStatus::Down(what.clone());
                }
                info
            })
            .collect();
        if stuck.is_none() {
            lock(&self.kept).ports.clone_from(&infos);
        }
        infos
    }

    /// What all workers together have done.
    pub fn stats(&self) -> ForwardStats {
        ForwardStats::total(self.sample().0)
    }

    /// What each worker has done, and what the program has, as far as it was counted ([`Self::set_counted`]); after the
    /// end what all workers have done together.
    ///
    /// No worker waits for another, yet the numbers fit together ([`ForwardStats::copies`]): what a worker hands over
    /// after it gave its part, the others take after they gave theirs. While a worker is stuck, they are those of the last
    /// time.
    pub fn sample(&self) -> (Vec<ForwardStats>, ProgramStats) {
        let mut program = ProgramStats::default();
        if let Some((stats, _)) = &lock(&self.inner).last {
            return (vec![stats.clone()], program);
        }
        if self.not_stuck().is_err() {
            return lock(&self.kept).sample.clone();
        }
        let (_, answers) = {
            let mut samples = lock(&self.samples);
            *samples += 1;
            let epoch = *samples;
            self.post((0..self.workers()).map(|_| move |f: &mut Forwarder| f.sample(epoch)))
        };
        let Ok(parts) = self.answers(&answers) else { return lock(&self.kept).sample.clone() };
        let (stats, counted): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        counted.into_iter().for_each(|counted| program.add(counted));
        lock(&self.kept).sample = (stats.clone(), program.clone());
        (stats, program)
    }

    /// Keeps the numbers of now, for the case that a worker gets stuck before they are asked for again.
    pub fn keep_numbers(&self) {
        self.sample();
        self.ports();
    }

    /// What a worker is stuck at, if one is.
    pub fn stuck(&self) -> Option<String> {
        self.not_stuck().err().map(|error| error.to_string())
    }

    /// What the program has done, as far as it was counted: [`Self::set_counted`].
    pub fn program_stats(&self) -> ProgramStats {
        self.sample().1
    }

    /// Puts another program in the running one's place: [`Self::prepare`] and [`Self::reload_prepared`].
    pub fn reload(&self, program: p4jet_ir::Program) -> Result<(Arc<Switch>, Carried), RunError> {
        self.reload_prepared(self.prepare(program, &Cancel::default())?)
    }

    /// Makes what takes longest of another program, its machine code, unless that is cancelled meanwhile. It runs in the
    /// thread of the caller; packets and other calls do not wait for it.
    pub fn prepare(&self, program: p4jet_ir::Program, cancel: &Cancel) -> Result<Successor, RunError> {
        let switch = self.switch();
        self.successor(&switch, program, switch.is_counted(), cancel)
    }

    fn successor(
        &self,
        switch: &Arc<Switch>,
        program: p4jet_ir::Program,
        counted: bool,
        cancel: &Cancel,
    ) -> Result<Successor, RunError> {
        let with_code = (self.engine == EngineKind::Jit).then_some(cancel);
        Successor::new(switch, program, counted, with_code).map_err(RunError::Program)
    }

    /// Puts another program in the running one's place: carries over what is unchanged ([`Switch::succeed`]), and lets
    /// every worker change over between two batches. If it fails the old one goes on. The control plane must not change
    /// anything meanwhile.
    pub fn reload_prepared(&self, next: Successor) -> Result<(Arc<Switch>, Carried), RunError> {
        // Somebody may have changed his mind meanwhile.
        let switch = self.switch();
        let counted = switch.is_counted();
        let next = match next.is_counted() == counted {
            true => next,
            false => {
                let (program, told) = next.into_programs();
                let mut next = self.successor(&switch, program, counted, &Cancel::default())?;
                told.into_iter().for_each(|told| next.tell_by(told));
                next
            }
        };
        let reloaded = self.change_over(next)?;
        self.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(reloaded)
    }

    /// How often another program was put in place.
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// Whether the interpreter runs packets because machine code is not there yet.
    pub fn is_interpreting(&self) -> bool {
        self.interpreting.load(Ordering::Relaxed)
    }

    fn stop_compiling(&self) {
        self.compiling.iter().for_each(Cancel::cancel);
    }

    /// How often an [`crate::Adapter`] has given the workers other code.
    pub fn adaptations(&self) -> u64 {
        self.adaptations.load(Ordering::Relaxed)
    }

    /// Lets the workers go on with engines for the same switch, by worker, unless another runs by then: those engines,
    /// or what ran, come back. Whether any worker did.
    pub(crate) fn change_engines(
        &self,
        switch: &Arc<Switch>,
        engines: impl Iterator<Item = Box<Engine>>,
    ) -> Result<bool, RunError> {
        let acts = engines.map(|engine| {
            let switch = Arc::clone(switch);
            move |f: &mut Forwarder| match Arc::ptr_eq(f.worker().switch(), &switch) {
                true => f.worker().change_engine(engine),
                false => Err(engine),
            }
        });
        // They are dropped here, not in the workers: it takes a while.
        let back = self.hand_out(acts)?;
        let changed = back.iter().any(Result::is_ok);
        self.adaptations.fetch_add(changed.into(), Ordering::Relaxed);
        Ok(changed)
    }

    /// Begins, or ends, to count what the program does ([`Self::program_stats`]): the workers change over to code that
    /// does, as [`Self::reload`] lets them to another program. That code is a little slower.
    pub fn set_counted(&self, counted: bool) -> Result<Arc<Switch>, RunError> {
        match self.prepare_counted(counted, &Cancel::default())? {
            Some(next) => self.replace_same(next),
            None => Ok(self.switch()),
        }
    }

    /// Makes the machine code for [`Self::replace_same`]; `None` if there is nothing to do.
    pub fn prepare_counted(&self, counted: bool, cancel: &Cancel) -> Result<Option<Successor>, RunError> {
        let switch = self.switch();
        if switch.is_counted() == counted {
            return Ok(None);
        }
        let mut next = self.successor(&switch, switch.program().clone(), counted, cancel)?;
        switch.lowered().into_iter().for_each(|told| next.tell_by(Arc::clone(told)));
        Ok(Some(next))
    }

    /// Lets the workers change over to other code of the same program, unless that does not run any more.
    pub fn replace_same(&self, next: Successor) -> Result<Arc<Switch>, RunError> {
        let switch = self.switch();
        if !next.is_of(&switch) {
            let why = "another program, or other code, was put in place meanwhile: try again";
            return Err(RunError::Program(why.to_string()));
        }
        self.change_over(next).map(|(new, _)| new)
    }

    fn change_over(&self, next: Successor) -> Result<(Arc<Switch>, Carried), RunError> {
        self.responds()?;
        let old = self.switch();
        let (new, carried) = old.succeed_by(next).map_err(RunError::Program)?;
        let mut acts = Vec::new();
        for index in 0..self.workers() {
            let worker = new.worker(self.engine, index).map_err(RunError::Program)?;
            let pool = worker
                .pool(p4jet_packet::COUNT_DEFAULT, self.frame_max)
                .map_err(|e| RunError::System(format!("no memory for packets: {e}")))?;
            acts.push(move |f: &mut Forwarder| f.change_over(worker, pool));
        }
        let loads = match self.slots {
            None => None,
            Some(slots) => {
                let loads = pipelined::loads(&new, slots, self.frame_max).map_err(RunError::System)?;
                // What is on its way gets to its end by the old program; nothing comes until all have changed over.
                let drain = |f: &mut Forwarder| {
                    if let Some(segment) = f.segment() {
                        segment.drain();
                        segment.replace(Vec::new());
                    }
                };
                self.hand_out(std::iter::once(drain))?;
                Some(loads)
            }
        };
        self.hub.follow(&new);
        let replaced: Vec<Option<(Worker, Pool)>> = self.hand_out(acts.into_iter())?;
        if let Some(loads) = loads {
            let go_on = |f: &mut Forwarder| {
                if let Some(segment) = f.segment() {
                    segment.replace(loads);
                }
            };
            self.hand_out(std::iter::once(go_on))?;
        }
        *lock(&self.switch) = Arc::clone(&new);
        // All of them have the code of the new one.
        self.interpreting.store(false, Ordering::Relaxed);
        self.stop_compiling();
        // Here, not in the workers: it takes a while.
        drop(replaced);
        drop(old);
        self.hub.collect();
        Ok((new, carried))
    }

    /// Whether all ports have come to their end (captures have; interfaces never do).
    pub fn has_ended(&self) -> bool {
        let ended = || self.ended.iter().all(|ended| ended.load(Ordering::SeqCst));
        // A worker that has nothing more to do may still be given packets by one that has; it says so before it takes
        // them.
        ended() && !self.switch().inboxes.iter().any(Inbox::is_filled) && ended()
    }

    /// Stops the workers and closes the ports; the first failure of those. What was done can be asked afterwards. A worker
    /// that is stuck is left behind with its ports: [`Self::abandoned`].
    pub fn finish(&self) -> Result<(), PortError> {
        self.stop.store(true, Ordering::Relaxed);
        self.stop_compiling();
        self.mailboxes.iter().for_each(|mailbox| mailbox.wake());
        let mut inner = lock(&self.inner);
        let mut result = Ok(());
        let mut parts = Vec::new();
        let mut forwarders: Vec<Forwarder> = Vec::new();
        let threads: Vec<_> = inner.threads.drain(..).collect();
        for (worker, thread) in threads.into_iter().enumerate() {
            let pulse = &self.mailboxes[worker].pulse;
            while !thread.is_finished() && pulse.stuck_for().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            if !thread.is_finished() {
                inner.abandoned.push(pulse.report(worker).to_string());
                continue;
            }
            match thread.join() {
                Ok(forwarder) => forwarders.push(forwarder),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        for forwarder in &mut forwarders {
            let done = forwarder.finish();
            result = result.and(done);
            parts.push(forwarder.stats());
        }
        let stats = ForwardStats::total(parts);
        if let Some((end, watchdog)) = inner.watchdog.take() {
            drop(end);
            let _ = watchdog.join();
        }
        self.hub.end();
        if inner.last.is_none() {
            let ports = inner.ports.iter().map(|(number, spec)| {
                merged(*number, spec.clone(), forwarders.iter_mut().filter_map(|f| f.port(*number)))
            });
            inner.last = Some((stats, ports.collect()));
        }
        result
    }
}

impl Running {
    /// What the workers do that were stuck when [`Self::finish`] stopped the others.
    pub fn abandoned(&self) -> Vec<String> {
        lock(&self.inner).abandoned.clone()
    }
}

/// Gives each worker its own task, and waits for what they give.
pub(crate) fn hand_out<T: Send + 'static, A: FnOnce(&mut Forwarder) -> T + Send + 'static>(
    mailboxes: &[Arc<Mailbox>],
    acts: impl Iterator<Item = A>,
) -> Result<Vec<T>, RunError> {
    let answers: Vec<mpsc::Receiver<T>> = mailboxes
        .iter()
        .zip(acts)
        .map(|(mailbox, act)| {
            let (answer, receiver) = mpsc::sync_channel(1);
            mailbox.post(Box::new(move |forwarder| {
                // Nobody waits any more: the answer is for nobody.
                let _ = answer.send(act(forwarder));
            }));
            receiver
        })
        .collect();
    answers.into_iter().map(|answer| answer.recv().map_err(|_| RunError::Stopped)).collect()
}

/// A port of which each worker has a handle.
fn merged(number: u32, spec: String, handles: impl Iterator<Item = (PortStats, LinkStatus)>) -> PortInfo {
    let mut info = PortInfo { number, spec, status: LinkStatus::Up, stats: PortStats::default() };
    for (stats, status) in handles {
        info.stats += stats;
        if status != LinkStatus::Up {
            info.status = status;
        }
    }
    info
}

impl Drop for Running {
    fn drop(&mut self) {
        if !lock(&self.inner).threads.is_empty() {
            let _ = self.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p4jet_packet::Batch;
    use p4jet_ports::{Received, Sent};
    use std::time::Instant;

    const BACK: &str = r#"
program "back"
field m.port: 9 metadata
block "c" control { n0: return }
ingress "c"
egress_port m.port
intrinsic ingress_port m.port
"#;
    const FRAME: [u8; 4] = [0xde, 0xad, 0xbe, 0xef];

    /// Brings one frame; sending takes until the gate is gone.
    struct Blocking {
        frames: usize,
        gate: mpsc::Receiver<()>,
    }

    impl Port for Blocking {
        fn receive(
            &mut self,
            number: u32,
            pool: &mut Pool,
            batch: &mut Batch,
        ) -> Result<Received, PortError> {
            if self.frames == 0 {
                return Ok(Received::Empty);
            }
            self.frames -= 1;
            batch.push(pool, number, &FRAME).expect("it has room");
            Ok(Received::Packets(1))
        }

        fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
            let _ = self.gate.recv();
            Ok(Sent { sent: frames.len(), dropped: 0 })
        }

        fn stats(&mut self) -> PortStats {
            PortStats::default()
        }
    }

    /// A switch whose worker sends a packet by port 7 and waits for the gate; what it tells.
    fn stuck() -> (Running, mpsc::Sender<()>, mpsc::Receiver<String>) {
        let program = p4jet_ir::text::parse(BACK).unwrap();
        let switch = Switch::new(program).unwrap();
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let listener: Listener = Arc::new(move |event| {
            let text = match event {
                crate::Event::Stuck(stuck) => stuck.to_string(),
                crate::Event::Unstuck(worker, _) => format!("worker {worker} goes on"),
                other => panic!("{other:?}"),
            };
            let _ = lock(&tell).send(text);
        });
        let options = RunOptions { engine: EngineKind::Interp, frame_max: 2048, listener };
        let running = Running::start(&switch, options).unwrap();
        let (open, gate) = mpsc::channel();
        let handles: Vec<Box<dyn Port>> = vec![Box::new(Blocking { frames: 1, gate })];
        running.add_ports(vec![NewPort { number: 7, spec: "blocking".into(), handles }]).unwrap();
        (running, open, told)
    }

    #[test]
    fn a_stuck_worker_is_told_of_and_nobody_waits_for_it() {
        let (running, gate, told) = stuck();
        let long = Duration::from_secs(60);
        let what = told.recv_timeout(long).expect("the watchdog tells");
        let expected = "it sends by port 7, packet from port 7, 4 bytes: deadbeef";
        assert!(what.starts_with("worker 0 has made no progress for ") && what.ends_with(expected), "{what}");
        let start = Instant::now();
        for refused in [
            running.responds(),
            running.remove_port(7).map(drop),
            running.reload(p4jet_ir::text::parse(BACK).unwrap()).map(drop),
            running.add_ports(Vec::new()),
        ] {
            let Err(RunError::Stuck(what)) = refused else { panic!("{refused:?}") };
            assert!(what.contains("worker 0"), "{what}");
        }
        assert!(matches!(&running.ports()[0].status, LinkStatus::Down(why) if why.contains("worker 0")));
        assert!(running.stuck().is_some_and(|what| what.contains("sends by port 7")));
        assert!(start.elapsed() < long, "nothing waits for the worker");
        // It goes on, and nothing was half done.
        drop(gate);
        assert_eq!(told.recv_timeout(long).as_deref(), Ok("worker 0 goes on"));
        running.remove_port(7).expect("the port is still there");
        assert_eq!(running.stats().sent, [(7, 1)].into());
        running.finish().unwrap();
        assert_eq!(running.abandoned(), [""; 0]);
    }

    #[test]
    fn the_switch_ends_though_a_worker_is_stuck() {
        let (running, gate, told) = stuck();
        told.recv_timeout(Duration::from_secs(60)).expect("the watchdog tells");
        running.finish().unwrap();
        let abandoned = running.abandoned();
        drop(gate);
        assert_eq!(abandoned.len(), 1);
        assert!(
            abandoned[0].contains("worker 0") && abandoned[0].contains("sends by port 7"),
            "{abandoned:?}"
        );
    }
}
