//! A running switch: its workers, each on its own thread, and the operations on them while packets flow.
//!
//! Workers answer requests (`Running::ask`) between two batches. A caller waits for a worker only as long as that
//! worker makes progress (`pulse`). Operators get everything else from counters, or through bounded queues from
//! threads that trace and capture (`observer`) and that notify subscribers (`notices`): packets never wait.

use crate::compiling::Compiling;
use crate::counted::ProgramStats;
use crate::event::Listener;
use crate::followed::{Followed, Injected};
use crate::forward::{EARLIER_PROGRAMS_MAX, ForwardStats, Forwarder};
use crate::gate::Gate;
use crate::mailbox::Mailbox;
use crate::mailboxes::Mailboxes;
use crate::notices::{Hub, Notice, PortChange, Subscription, Topics};
use crate::pipelined::{self, Load, RING_DEFAULT};
use crate::program_error::ProgramError;
use crate::pulse::Stuck;
use crate::queues::{Inbox, QUEUED_BYTES_MAX};
use crate::reload::{Carried, Successor};
use crate::run_error::RunError;
use crate::switch::{EngineKind, Switch};
use crate::watchdog;
use crate::worker::Worker;
use p4jet_externs::DigestCounts;
use p4jet_jit::{Cancel, Engine};
use p4jet_packet::Pool;
use p4jet_ports::{LinkStatus, Port, PortError, PortStats};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of ports. A worker polls each of them in every round.
pub const PORTS_MAX: usize = 4096;

/// Interval at which a caller checks whether an injected packet's copies have ended.
const FOLLOW_LOOK: Duration = Duration::from_micros(200);

/// Options of a running switch. The number of workers is [`Switch::workers`].
pub struct RunOptions {
    /// The executor.
    pub engine: EngineKind,
    /// Length of the longest frame, in bytes.
    pub frame_max: usize,
    /// Receives log lines, failed ports and links.
    pub listener: Listener,
}

/// A port to add.
pub struct NewPort {
    /// Its number.
    pub number: u32,
    /// Its specification, for example `veth0` or `tap:x,delay=1ms`.
    pub spec: String,
    /// One per worker, see [`p4jet_ports::open`].
    pub handles: Vec<Box<dyn Port>>,
}

/// The state of a port.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Its number.
    pub number: u32,
    /// Its specification as given, for example `veth0` or `tap:x,delay=1ms`.
    pub spec: String,
    /// The status of its link.
    pub status: LinkStatus,
    /// Its counts of frames and bytes.
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
    mailboxes: Arc<Mailboxes>,
    /// Batches between two workers, if these share the pipeline.
    slots: Option<usize>,
    reloads: AtomicU64,
    adaptations: AtomicU64,
    /// Locked while ports or the program change.
    changing: Mutex<()>,
    /// The last numbers that the workers reported; they are returned while a worker is stuck.
    kept: Mutex<Kept>,
    /// True while workers interpret because machine code is not ready yet.
    interpreting: Arc<AtomicBool>,
    /// Cancels the compilation of that machine code.
    compiling: Option<Cancel>,
}

#[derive(Clone, Default)]
struct Kept {
    sample: (Vec<ForwardStats>, ProgramStats),
    ports: Vec<PortInfo>,
}

struct Inner {
    threads: Vec<JoinHandle<Forwarder>>,
    /// Watches the workers until the sender is dropped.
    watchdog: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
    /// Workers that were stuck when the switch ended.
    abandoned: Vec<Stuck>,
    ports: Vec<(u32, String)>,
    /// The workers that have stopped, without ports: packets may wait in their queues, and freeing millions takes long.
    stopped: Vec<Forwarder>,
    /// The final statistics, once the workers have stopped.
    last: Option<(ForwardStats, Vec<PortInfo>)>,
}

/// Closes a mailbox when its worker ends, even by a panic.
struct Closed(Arc<Mailbox<Forwarder>>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Data behind these locks is never left half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the compilation and waits for it for at most `wait`. Returns `None` if the code is ready by then: the
/// switch holds it.
fn compile_within(switch: &Arc<Switch>, wait: Duration) -> Result<Option<Compiling>, RunError> {
    let compiling = Compiling::start(switch)
        .map_err(|e| RunError::System(format!("no thread to compile machine code: {e}")))?;
    match compiling.wait(wait) {
        Some(made) => Ok(made.map(|_| None)?),
        None => Ok(Some(compiling)),
    }
}

/// Creates the workers of a switch, without ports. With `interim` they interpret until machine code is ready.
fn forwarders(
    switch: &Arc<Switch>,
    engine: EngineKind,
    frame_max: usize,
    interim: bool,
    listener: &Listener,
) -> Result<Vec<Forwarder>, RunError> {
    let forwarder = |index| {
        let worker = match interim {
            true => Worker::interim(switch, index),
            false => switch.worker(engine, index),
        };
        let worker = worker?;
        let ended = Arc::new(AtomicBool::new(false));
        Forwarder::new(worker, frame_max, Arc::clone(listener), ended).map_err(|e| no_worker(&e))
    };
    (0..switch.workers()).map(forwarder).collect()
}

/// Puts rings of `ring_packets` packets between the workers. Returns the number of batches per ring.
fn share_pipeline(
    switch: &Arc<Switch>,
    engine: EngineKind,
    frame_max: usize,
    ring_packets: usize,
    forwarders: &mut [Forwarder],
) -> Result<usize, RunError> {
    if engine != EngineKind::Jit {
        let why = "only machine code runs on several threads one after the other";
        return Err(ProgramError::unsupported(why).into());
    }
    let slots = pipelined::slots(ring_packets)?;
    let loads = pipelined::loads(switch, slots, frame_max).map_err(|e| RunError::System(e.to_string()))?;
    let bells: Vec<_> = forwarders.iter().map(|f| Arc::clone(f.mailbox.bell())).collect();
    for (forwarder, segment) in forwarders.iter_mut().zip(pipelined::segments(loads, slots, &bells)) {
        *forwarder.segment() = Some(segment);
    }
    Ok(slots)
}

fn no_worker(error: &std::io::Error) -> RunError {
    RunError::System(format!("no memory, descriptor or thread for a worker: {error}"))
}

impl Running {
    /// Starts the workers, without ports.
    pub fn start(switch: &Arc<Switch>, options: RunOptions) -> Result<Running, RunError> {
        Running::start_with_ring(switch, options, RING_DEFAULT)
    }

    /// Like [`Self::start`], with rings of `ring_packets` packets between the workers if these share the pipeline.
    pub fn start_with_ring(
        switch: &Arc<Switch>,
        options: RunOptions,
        ring_packets: usize,
    ) -> Result<Running, RunError> {
        Running::start_within(switch, options, ring_packets, None)
    }

    /// Like [`Self::start_with_ring`]; if machine code takes longer than `wait`, the interpreter runs packets until
    /// it is ready. Workers that share the pipeline, or that hand each other copies for output queues, always wait
    /// for machine code: both need the same code in all workers.
    pub fn start_within(
        switch: &Arc<Switch>,
        options: RunOptions,
        ring_packets: usize,
        wait: Option<Duration>,
    ) -> Result<Running, RunError> {
        let RunOptions { engine, frame_max, listener } = options;
        let hub = Hub::new(switch);
        let listener = hub.listener(listener);
        let may_interpret = engine == EngineKind::Jit
            && switch.threads().is_none()
            && !(switch.program().is_queued() && switch.workers() > 1);
        let compiling = match wait.filter(|_| may_interpret) {
            Some(wait) => compile_within(switch, wait)?,
            None => None,
        };
        let mut forwarders = forwarders(switch, engine, frame_max, compiling.is_some(), &listener)?;
        let slots = match switch.threads() {
            Some(_) => Some(share_pipeline(switch, engine, frame_max, ring_packets, &mut forwarders)?),
            None => None,
        };
        let mailboxes = forwarders.iter().map(|f| Arc::clone(&f.mailbox)).collect();
        let mut running = Running {
            inner: Mutex::new(Inner {
                threads: Vec::new(),
                watchdog: None,
                abandoned: Vec::new(),
                ports: Vec::new(),
                stopped: Vec::new(),
                last: None,
            }),
            switch: Mutex::new(Arc::clone(switch)),
            hub,
            engine,
            frame_max,
            stop: Arc::new(AtomicBool::new(false)),
            ended: forwarders.iter().map(|f| Arc::clone(&f.ended)).collect(),
            mailboxes: Arc::new(Mailboxes::new(mailboxes, Arc::clone(&listener))),
            slots,
            reloads: AtomicU64::new(0),
            adaptations: AtomicU64::new(0),
            changing: Mutex::new(()),
            kept: Mutex::default(),
            interpreting: Arc::new(AtomicBool::new(compiling.is_some())),
            compiling: None,
        };
        running.start_threads(forwarders, Arc::clone(&listener))?;
        running.compiling = compiling.map(|compiling| {
            let (mailboxes, interpreting) =
                (Arc::clone(&running.mailboxes), Arc::clone(&running.interpreting));
            compiling.change_over(switch, mailboxes, interpreting, listener)
        });
        Ok(running)
    }

    /// Starts the workers' threads and the watchdog.
    fn start_threads(&mut self, forwarders: Vec<Forwarder>, listener: Listener) -> Result<(), RunError> {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (mut forwarder, index) in forwarders.into_iter().zip(0..) {
            let stop = Arc::clone(&self.stop);
            let thread = p4jet_threads::spawn(&format!("worker {index}"), move || {
                let _closed = Closed(Arc::clone(&forwarder.mailbox));
                forwarder.run(&stop);
                forwarder.finish_segment();
                forwarder
            });
            inner.threads.push(thread.map_err(|e| no_worker(&e))?);
        }
        let (end, ended) = mpsc::channel();
        let mailboxes = Arc::clone(&self.mailboxes);
        let watchdog =
            p4jet_threads::spawn("watchdog", move || watchdog::watch(mailboxes.all(), &listener, &ended));
        inner.watchdog = Some((end, watchdog.map_err(|e| no_worker(&e))?));
        Ok(())
    }

    /// Returns the current switch; [`Self::reload`] replaces it.
    pub fn switch(&self) -> Arc<Switch> {
        Arc::clone(&lock(&self.switch))
    }

    /// Subscribes to messages of these topics, from now on.
    pub fn subscribe(&self, topics: Topics) -> Result<Subscription, RunError> {
        self.hub.subscribe(topics).map_err(RunError::System)
    }

    /// Returns how many digests programs sent, and how many of them had no subscriber or were lost.
    pub fn digest_counts(&self) -> DigestCounts {
        self.hub.digest_counts()
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.mailboxes.all().len()
    }

    /// Returns the number of handles per port: one for each worker; if these share the pipeline, one to receive and
    /// one to send.
    pub fn handles(&self) -> usize {
        if self.slots.is_some() { 2 } else { self.workers() }
    }

    /// Returns the length of the longest frame, in bytes.
    pub fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// Runs `act` on every worker between two batches and returns the answers in the workers' order. The caller waits
    /// for a batch; packets do not wait. Fails if a worker is stuck. In that case other workers may have run `act`,
    /// and the stuck one may run it later.
    pub fn ask<T: Send + 'static>(
        &self,
        act: impl Fn(&mut Forwarder) -> T + Send + Sync + 'static,
    ) -> Result<Vec<T>, RunError> {
        self.mailboxes.ask(self.for_each(act))
    }

    /// Runs `act` on every worker between two batches. A worker that gets stuck meanwhile runs it when it continues.
    /// Fails if a worker is stuck already; then no worker runs `act`.
    pub(crate) fn run_on_workers(
        &self,
        act: impl Fn(&mut Forwarder) + Send + Sync + 'static,
    ) -> Result<(), RunError> {
        self.responds()?;
        self.mailboxes.hand_out(self.for_each(act)).map(drop)
    }

    fn for_each<T>(
        &self,
        act: impl Fn(&mut Forwarder) -> T + Send + Sync + 'static,
    ) -> impl Iterator<Item = impl FnOnce(&mut Forwarder) -> T + Send + 'static> {
        let act = Arc::new(act);
        (0..self.workers()).map(move |_| {
            let act = Arc::clone(&act);
            move |f: &mut Forwarder| act(f)
        })
    }

    /// Checks that all workers answer. A change that fails this check has not begun.
    pub fn responds(&self) -> Result<(), RunError> {
        self.ask(|_| ()).map(drop)
    }

    /// Calls `change` while no worker processes packets, so that each packet sees all of the change or none of it.
    /// Packets wait in their ports meanwhile. A packet that waits in an output queue, or as one of many copies, may
    /// run its ingress before the change and its egress after it. Fails without calling `change` if a worker is
    /// stuck.
    ///
    /// `change` must not wait for a worker: after five seconds the watchdog reports the workers as stuck, and requests to them
    /// fail.
    pub fn hold_packets<R>(&self, change: impl FnOnce() -> R) -> Result<R, RunError> {
        /// Opens the gate when dropped, even after an error or a panic.
        struct Hold(Arc<Gate>);
        impl Drop for Hold {
            fn drop(&mut self) {
                self.0.pass();
            }
        }
        let _one = lock(&self.changing);
        self.responds()?;
        let hold = Hold(self.mailboxes.barrier());
        if self.slots.is_some() {
            self.drain(Arc::clone(&hold.0))?;
        } else {
            let gate = Arc::clone(&hold.0);
            self.ask(move |f| f.hold(Arc::clone(&gate)))?;
        }
        Ok(change())
    }

    /// Checks that a port of this number can be added now.
    pub fn check_new_port(&self, number: u32) -> Result<(), RunError> {
        self.responds()?;
        check_room(&lock(&self.inner).ports, number)
    }

    /// Adds ports. No worker receives from one of them before all workers can send to it.
    pub fn add_ports(&self, ports: Vec<NewPort>) -> Result<(), RunError> {
        let _one = lock(&self.changing);
        self.responds()?;
        self.attach(ports)
    }

    fn attach(&self, ports: Vec<NewPort>) -> Result<(), RunError> {
        let mut there = lock(&self.inner).ports.clone();
        let mut by_worker: Vec<Vec<(u32, Box<dyn Port>)>> = (0..self.workers()).map(|_| Vec::new()).collect();
        let mut added = Vec::new();
        for NewPort { number, spec, handles } in ports {
            assert_eq!(handles.len(), self.handles(), "as many handles as a port has");
            check_room(&there, number)?;
            there.push((number, spec.clone()));
            added.push((number, spec));
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
        let gate = self.mailboxes.gate();
        self.mailboxes.hand_out(by_worker.into_iter().map(|ports| {
            let gate = Arc::clone(&gate);
            move |f: &mut Forwarder| {
                ports.into_iter().for_each(|(number, port)| f.attach(number, port, Arc::clone(&gate)));
                gate.pass();
            }
        }))?;
        lock(&self.inner).ports = there;
        for (number, spec) in added {
            self.hub.publish(Notice::Port { number, change: PortChange::Added(spec) });
        }
        Ok(())
    }

    /// Removes a port and closes it. Returns its counts, and the error if closing failed.
    pub fn remove_port(&self, number: u32) -> Result<(PortStats, Option<PortError>), RunError> {
        let _one = lock(&self.changing);
        self.responds()?;
        self.detach(number)
    }

    fn detach(&self, number: u32) -> Result<(PortStats, Option<PortError>), RunError> {
        let numbers = |inner: &Inner| inner.ports.iter().map(|(n, _)| *n).collect::<Vec<_>>();
        let there = numbers(&lock(&self.inner));
        if !there.contains(&number) {
            return Err(RunError::NoPort(number, there));
        }
        // A stuck worker closes its handle itself when it continues.
        let handles = self.mailboxes.hand_out(self.for_each(move |f| f.detach(number)))?;
        lock(&self.inner).ports.retain(|(n, _)| *n != number);
        self.hub.publish(Notice::Port { number, change: PortChange::Removed });
        let (mut stats, mut failed) = (PortStats::default(), None);
        for (mut handle, injected) in handles.into_iter().flatten().flatten() {
            let closed = handle.finish();
            stats += handle.stats();
            stats += injected;
            failed = failed.or(closed.err());
        }
        Ok((stats, failed))
    }

    /// Makes a worker process a frame as if it had arrived at this port, including counts, traces and captures. Its
    /// copies may still wait when this returns.
    pub fn inject(&self, port: u32, frame: Vec<u8>) -> Result<(), RunError> {
        self.inject_with(port, frame, None)
    }

    /// Like [`Self::inject`]; then waits for the packet's copies, but no longer than `wait`. Returns what became of
    /// them.
    pub fn inject_and_wait(&self, port: u32, frame: Vec<u8>, wait: Duration) -> Result<Injected, RunError> {
        if wait.is_zero() {
            self.inject(port, frame)?;
            return Ok(Injected { waits: true, ..Injected::default() });
        }
        let followed = Followed::default();
        let until = Instant::now() + wait;
        self.inject_with(port, frame, Some(followed.clone()))?;
        while !followed.has_ended() && Instant::now() < until {
            std::thread::sleep(FOLLOW_LOOK);
        }
        Ok(followed.injected())
    }

    fn inject_with(&self, port: u32, frame: Vec<u8>, followed: Option<Followed>) -> Result<(), RunError> {
        if frame.len() > self.frame_max {
            return Err(RunError::TooLong(frame.len(), self.frame_max));
        }
        // Threads that share the pipeline have no free load while the program changes.
        let _none = self.slots.map(|_| lock(&self.changing));
        // The first worker has a handle of every port, even if several workers share the pipeline.
        let taken =
            self.mailboxes.ask(std::iter::once(move |f: &mut Forwarder| f.inject(port, &frame, followed)))?;
        match taken[..] {
            [true] => Ok(()),
            _ => Err(RunError::NoPort(port, lock(&self.inner).ports.iter().map(|(n, _)| *n).collect())),
        }
    }

    /// Returns the state of all ports, by number.
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
        let kept = lock(&self.kept).ports.clone();
        let (seen, stuck) = match seen {
            Ok(seen) => (seen, None),
            Err(RunError::Stuck(what)) => (Vec::new(), Some(what)),
            Err(_) => return kept,
        };
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

    /// Returns the sum of all workers' statistics.
    pub fn stats(&self) -> ForwardStats {
        ForwardStats::total(self.sample().0)
    }

    /// Returns the statistics of each worker, and of the program as far as it counts ([`Self::prepare_counted`]). After
    /// the end there is only one part, the sum of all workers.
    ///
    /// No worker waits for another, yet the numbers are consistent ([`ForwardStats::copies`]): packets that a worker
    /// hands over after it reported are taken over by others only after they reported. While a worker is stuck, the
    /// result is that of the last successful call.
    pub fn sample(&self) -> (Vec<ForwardStats>, ProgramStats) {
        let mut program = ProgramStats::default();
        if let Some((stats, _)) = &lock(&self.inner).last {
            return (vec![stats.clone()], program);
        }
        let Ok(parts) = self.mailboxes.sample() else { return lock(&self.kept).sample.clone() };
        let (stats, counted): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        counted.into_iter().for_each(|counted| program.add(counted));
        lock(&self.kept).sample = (stats.clone(), program.clone());
        (stats, program)
    }

    /// Keeps the current numbers, in case a worker gets stuck before the next request.
    pub fn keep_numbers(&self) {
        self.sample();
        self.ports();
    }

    /// Describes the activity of a stuck worker, if one is stuck.
    pub fn stuck(&self) -> Option<String> {
        self.mailboxes.not_stuck().err().map(|error| error.to_string())
    }

    /// Replaces the running program: [`Self::prepare`], then [`Self::reload_prepared`].
    pub fn reload(&self, program: p4jet_ir::Program) -> Result<(Arc<Switch>, Carried), RunError> {
        self.reload_prepared(self.prepare(program, &Cancel::default())?)
    }

    /// Compiles another program to machine code, the slowest step of a reload, unless `cancel` stops it. Runs in the
    /// caller's thread; packets and other calls do not wait.
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
        Ok(Successor::new(switch, program, counted, with_code)?)
    }

    /// Replaces the running program: carries over what is unchanged ([`Switch::succeed`]); each worker switches
    /// between two batches. If it fails, the old program continues. The control plane must not change anything
    /// meanwhile.
    pub fn reload_prepared(&self, next: Successor) -> Result<(Arc<Switch>, Carried), RunError> {
        let _one = lock(&self.changing);
        // The program may have changed meanwhile.
        let switch = self.switch();
        let counted = switch.is_counted();
        let next = match next.is_counted() == counted {
            true => next,
            false => {
                let (program, lowered) = next.into_programs();
                let mut next = self.successor(&switch, program, counted, &Cancel::default())?;
                lowered.into_iter().for_each(|lowered| next.set_lowered(lowered));
                next
            }
        };
        self.can_change_over()?;
        let reloaded = self.change_over(next)?;
        self.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(reloaded)
    }

    /// Creates a switch with another program and a separate state, for [`Self::start_over`]. It receives no packet before.
    pub fn begin(&self, next: Successor) -> Result<Arc<Switch>, RunError> {
        Ok(self.switch().begin_by(next)?)
    }

    /// Puts a switch of [`Self::begin`] in the running one's place, whose state ends: every worker changes over between two
    /// batches. If it fails, the old switch keeps running.
    pub fn start_over(&self, new: Arc<Switch>) -> Result<(), RunError> {
        let _one = lock(&self.changing);
        self.can_change_over()?;
        self.change_over_to(new)?;
        self.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of reloads.
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// True while the interpreter runs packets because machine code is not ready yet.
    pub fn is_interpreting(&self) -> bool {
        self.interpreting.load(Ordering::Relaxed)
    }

    fn stop_compiling(&self) {
        self.compiling.iter().for_each(Cancel::cancel);
    }

    /// Returns how often an [`crate::Adapter`] has replaced the workers' code.
    pub fn adaptations(&self) -> u64 {
        self.adaptations.load(Ordering::Relaxed)
    }

    /// Switches each worker to its engine, unless another switch runs by then. Returns true if any worker did.
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
        // Replaced and refused engines come back and are dropped here, not in the workers: dropping takes long.
        self.responds()?;
        let back = self.mailboxes.hand_out(acts)?;
        // A worker that does not answer switches when it continues.
        let changed = back.iter().any(|back| !matches!(back, Some(Err(_))));
        self.adaptations.fetch_add(changed.into(), Ordering::Relaxed);
        Ok(changed)
    }

    /// Compiles machine code that counts the program's lookups and drops ([`Self::sample`]), or does not, for
    /// [`Self::replace_same`]. Code that counts is a little slower. Returns `None` if there is nothing to do.
    pub fn prepare_counted(&self, counted: bool, cancel: &Cancel) -> Result<Option<Successor>, RunError> {
        let switch = self.switch();
        if switch.is_counted() == counted {
            return Ok(None);
        }
        let mut next = self.successor(&switch, switch.program().clone(), counted, cancel)?;
        switch.lowered().into_iter().for_each(|lowered| next.set_lowered(Arc::clone(lowered)));
        Ok(Some(next))
    }

    /// Switches the workers to other code of the same program. Fails if that program no longer runs.
    pub fn replace_same(&self, next: Successor) -> Result<Arc<Switch>, RunError> {
        let _one = lock(&self.changing);
        let switch = self.switch();
        if !next.is_of(&switch) {
            let why = "another program or other code was loaded meanwhile: try again";
            return Err(ProgramError::unsupported(why).into());
        }
        self.can_change_over()?;
        self.change_over(next).map(|(new, _)| new)
    }

    /// Checks before a change of the program that all workers answer, and that not too many packets of earlier programs wait.
    fn can_change_over(&self) -> Result<(), RunError> {
        let waiting = self.ask(|f| f.waiting())?;
        let programs = waiting.iter().map(|(programs, _)| *programs).max().unwrap_or(0);
        let bytes = waiting.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let what = match (programs >= EARLIER_PROGRAMS_MAX, bytes > QUEUED_BYTES_MAX) {
            (false, false) => return Ok(()),
            (true, _) => format!("packets of {programs} earlier programs wait"),
            (false, true) => format!("{bytes} bytes of packets wait in one worker"),
        };
        const NAMED_MAX: usize = 4;
        let stats = self.switch().queues().stats();
        let queues = stats.iter().flat_map(|(port, queues)| {
            let used = queues.iter().zip(0..).filter(|(queue, _)| queue.depth > 0);
            used.map(move |(queue, number)| format!("port {port} queue {number} ({})", queue.depth))
        });
        let mut queues: Vec<String> = queues.take(NAMED_MAX + 1).collect();
        if queues.len() > NAMED_MAX {
            queues[NAMED_MAX] = "others".to_string();
        }
        let place = if queues.is_empty() { String::new() } else { format!(": {}", queues.join(", ")) };
        let max = format!("{EARLIER_PROGRAMS_MAX} earlier programs and {QUEUED_BYTES_MAX} bytes");
        Err(RunError::PacketsWait(format!(
            "{what}{place}; expected less than {max} (the program can be changed when packets have left)"
        )))
    }

    /// Switches all workers to another program, or none. A worker that gets stuck meanwhile switches when it continues.
    fn change_over(&self, next: Successor) -> Result<(Arc<Switch>, Carried), RunError> {
        let (new, carried) = self.switch().succeed_by(next)?;
        self.change_over_to(Arc::clone(&new))?;
        Ok((new, carried))
    }

    fn change_over_to(&self, new: Arc<Switch>) -> Result<(), RunError> {
        let old = self.switch();
        let mut loads = match self.slots {
            None => None,
            Some(slots) => Some(
                pipelined::loads(&new, slots, self.frame_max).map_err(|e| RunError::System(e.to_string()))?,
            ),
        };
        let gate = self.mailboxes.gate();
        let mut acts = Vec::new();
        for index in 0..self.workers() {
            let worker = new.worker(self.engine, index)?;
            let pool = worker
                .pool(p4jet_packet::COUNT_DEFAULT, self.frame_max)
                .map_err(|e| RunError::System(format!("no memory for packets: {e}")))?;
            let (loads, gate) = (loads.take(), Arc::clone(&gate));
            acts.push(move |f: &mut Forwarder| -> (Option<(Worker, Pool)>, Vec<Load>) {
                let worker = f.change_over(worker, pool);
                let loads = match (f.segment(), loads) {
                    (Some(segment), Some(loads)) => segment.replace(loads),
                    _ => Vec::new(),
                };
                gate.pass();
                (worker, loads)
            });
        }
        if self.slots.is_some() {
            self.drain(gate)?;
        }
        self.hub.follow(&new);
        let replaced = self.mailboxes.hand_out(acts.into_iter());
        if let Err(error @ RunError::Stuck(_)) = replaced {
            self.hub.unfollow(&new);
            self.set_gate(None);
            return Err(error);
        }
        let replaced = replaced?;
        *lock(&self.switch) = new;
        // All workers have the new program's code.
        self.interpreting.store(false, Ordering::Relaxed);
        self.stop_compiling();
        // Dropped here, not in the workers: it takes long.
        drop(replaced);
        drop(old);
        self.hub.collect();
        Ok(())
    }

    /// Waits until the current program has processed all packets in a pipeline on several threads. No more enter
    /// before the gate is open.
    fn drain(&self, gate: Arc<Gate>) -> Result<(), RunError> {
        let drain = move |f: &mut Forwarder| {
            if let Some(segment) = f.segment() {
                segment.drain();
                segment.wait_for(Some(gate));
            }
        };
        let drained = self.mailboxes.ask(std::iter::once(drain));
        if drained.is_err() {
            // It may have begun: then it waits for a stuck worker and continues with the old program.
            self.set_gate(None);
        }
        drained.map(drop)
    }

    /// Sets the gate that the first of several threads waits for before it takes in more packets; the thread need not
    /// answer now.
    fn set_gate(&self, gate: Option<Arc<Gate>>) {
        self.mailboxes.leave(std::iter::once(move |f: &mut Forwarder| {
            if let Some(segment) = f.segment() {
                segment.wait_for(gate);
            }
        }));
    }

    /// True if all ports have ended (captures end; interfaces never do).
    pub fn has_ended(&self) -> bool {
        let ended = || self.ended.iter().all(|ended| ended.load(Ordering::SeqCst));
        // An idle worker may still get packets from a busy one; it clears its flag before it takes them.
        ended() && !self.switch().inboxes.iter().any(Inbox::is_filled) && ended()
    }

    /// Stops the workers and closes the ports. Returns the first error of the ports. Statistics remain available;
    /// packets that wait are freed with `self`. A
    /// stuck worker is left behind with its ports: [`Self::abandoned`].
    pub fn finish(&self) -> Result<(), PortError> {
        self.stop.store(true, Ordering::Relaxed);
        self.stop_compiling();
        self.mailboxes.all().iter().for_each(|mailbox| mailbox.bell().wake());
        let mut inner = lock(&self.inner);
        let mut result = Ok(());
        let mut parts = Vec::new();
        let mut forwarders: Vec<Forwarder> = Vec::new();
        let threads: Vec<_> = inner.threads.drain(..).collect();
        for (worker, thread) in threads.into_iter().enumerate() {
            let pulse = &self.mailboxes.all()[worker].pulse;
            while !thread.is_finished() && pulse.stuck_for().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            if !thread.is_finished() {
                inner.abandoned.push(pulse.report(worker));
                let known = lock(&self.kept).sample.0.get(worker).cloned();
                parts.push(ForwardStats { incomplete: true, ..known.unwrap_or_default() });
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
        forwarders.iter_mut().for_each(Forwarder::drop_ports);
        inner.stopped.append(&mut forwarders);
        result
    }
}

impl Running {
    /// Returns the workers that were stuck when [`Self::finish`] stopped the others.
    pub fn abandoned(&self) -> Vec<Stuck> {
        lock(&self.inner).abandoned.clone()
    }
}

/// Checks that a port of this number can be added to these.
fn check_room(there: &[(u32, String)], number: u32) -> Result<(), RunError> {
    if there.iter().any(|(n, _)| *n == number) {
        return Err(RunError::PortExists(number));
    }
    if there.len() >= PORTS_MAX {
        return Err(RunError::TooManyPorts(PORTS_MAX));
    }
    Ok(())
}

/// Merges the workers' handles of a port into its state.
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

    const BACK: &str = r#"
program "back"
field m.port: 9 metadata
block "c" control { n0: return }
ingress "c"
egress_port m.port
intrinsic ingress_port m.port
"#;
    const FRAME: [u8; 4] = [0xde, 0xad, 0xbe, 0xef];

    /// A port that receives `frames` frames; sending blocks until the gate is dropped.
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

    const LONG: Duration = Duration::from_secs(60);

    /// Returns a switch whose last worker sends a packet by port 7 and waits for the gate, with the gate and the
    /// events.
    fn stuck_of(workers: usize) -> (Running, mpsc::Sender<()>, mpsc::Receiver<String>) {
        let program = p4jet_ir::text::parse(BACK).unwrap();
        let switch = Switch::with_options(program, p4jet_jit::Options::default(), workers).unwrap();
        let (sender, events) = mpsc::channel();
        let sender = Mutex::new(sender);
        let listener: Listener = Arc::new(move |event| {
            let text = match event {
                crate::Event::Stuck(stuck) => stuck.to_string(),
                crate::Event::Unstuck(worker, _) => format!("worker {worker} continues"),
                crate::Event::Follows(stuck) => format!("worker {} follows", stuck.worker),
                other => panic!("{other:?}"),
            };
            let _ = lock(&sender).send(text);
        });
        let options = RunOptions { engine: EngineKind::Interp, frame_max: 2048, listener };
        let running = Running::start(&switch, options).unwrap();
        let (open, gate) = mpsc::channel();
        let mut handles = idle(workers - 1);
        handles.push(Box::new(Blocking { frames: 1, gate }));
        running.add_ports(vec![NewPort { number: 7, spec: "blocking".into(), handles }]).unwrap();
        (running, open, events)
    }

    fn stuck() -> (Running, mpsc::Sender<()>, mpsc::Receiver<String>) {
        stuck_of(1)
    }

    /// Returns handles of a port that receives nothing.
    fn idle(workers: usize) -> Vec<Box<dyn Port>> {
        (0..workers)
            .map(|_| Box::new(Blocking { frames: 0, gate: mpsc::channel().1 }) as Box<dyn Port>)
            .collect()
    }

    /// Waits for an event that is `expected`: on a busy machine others come first.
    fn wait_for(events: &mpsc::Receiver<String>, expected: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LONG;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let text = events.recv_timeout(left).expect("the event comes");
            if expected(&text) {
                return text;
            }
        }
    }

    /// Waits until the last worker of [`stuck_of`] sends; it gets no further.
    fn wait_until_sending(running: &Running) {
        let deadline = Instant::now() + LONG;
        let pulse = &running.mailboxes.all().last().expect("there is one").pulse;
        while pulse.doing() != crate::Doing::Sending(7) {
            assert!(Instant::now() < deadline, "it never sends");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// One of two workers gets stuck after it answered the check: the change is made, and that worker makes it later.
    #[test]
    fn a_worker_that_gets_stuck_during_a_change_follows() {
        let (running, gate, events) = stuck_of(2);
        wait_until_sending(&running);
        let new = |number| NewPort { number, spec: "idle".into(), handles: idle(2) };
        running.attach(vec![new(8), new(9)]).expect("the first worker has the ports");
        wait_for(&events, |text| text == "worker 1 follows");
        let numbers = || running.ports().iter().map(|port| port.number).collect::<Vec<_>>();
        assert_eq!(numbers(), [7, 8, 9]);
        assert!(matches!(running.attach(vec![new(8)]), Err(RunError::PortExists(8))));
        assert!(matches!(running.check_new_port(8), Err(RunError::Stuck(_))));
        running.detach(9).expect("the first worker has none of it");
        assert_eq!(numbers(), [7, 8]);
        assert!(matches!(running.detach(9), Err(RunError::NoPort(9, _))));
        let old = running.switch();
        let next = running.prepare(p4jet_ir::text::parse(BACK).unwrap(), &Cancel::default()).unwrap();
        let (new_switch, _) = running.change_over(next).expect("the first worker runs the new program");
        assert!(Arc::ptr_eq(&running.switch(), &new_switch) && !Arc::ptr_eq(&old, &new_switch));
        drop(old);
        // It continues, and has made every change.
        drop(gate);
        wait_for(&events, |text| text == "worker 1 continues");
        let switch = Arc::clone(&new_switch);
        let same = running.ask(move |f| Arc::ptr_eq(f.worker().switch(), &switch)).unwrap();
        assert_eq!(same, [true, true]);
        let there = running.ask(|f| [7, 8, 9].map(|number| f.port(number).is_some())).unwrap();
        assert_eq!(there, [[true, true, false]; 2]);
        running.remove_port(8).expect("it is there once");
        assert_eq!(running.ask(|f| f.port(8).is_some()).unwrap(), [false, false]);
        running.finish().unwrap();
    }

    #[test]
    fn the_number_of_ports_is_limited() {
        let switch = Switch::new(p4jet_ir::text::parse(BACK).unwrap()).unwrap();
        let options = RunOptions { engine: EngineKind::Interp, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start(&switch, options).unwrap();
        let new = |number| NewPort { number, spec: "idle".into(), handles: idle(1) };
        // Numbers without an index, too.
        let numbers = (0..PORTS_MAX as u32 - 1).chain([u32::MAX - 1]);
        running.add_ports(numbers.map(new).collect()).unwrap();
        let max = Err(RunError::TooManyPorts(PORTS_MAX));
        assert_eq!(running.check_new_port(5000), max);
        assert_eq!(running.add_ports(vec![new(5000)]), max);
        assert_eq!(running.check_new_port(7), Err(RunError::PortExists(7)));
        assert_eq!(running.ports().len(), PORTS_MAX);
        running.remove_port(7).unwrap();
        running.add_ports(vec![new(5000)]).unwrap();
        running.finish().unwrap();
    }

    /// A change that no worker has begun is withdrawn from all.
    #[test]
    fn a_change_that_no_worker_has_begun_is_withdrawn() {
        let (running, gate, events) = stuck();
        wait_until_sending(&running);
        let port = NewPort { number: 8, spec: "idle".into(), handles: idle(1) };
        assert!(matches!(running.attach(vec![port]), Err(RunError::Stuck(_))));
        assert!(matches!(running.detach(7), Err(RunError::Stuck(_))));
        let next = running.prepare(p4jet_ir::text::parse(BACK).unwrap(), &Cancel::default()).unwrap();
        let old = running.switch();
        assert!(matches!(running.change_over(next), Err(RunError::Stuck(_))));
        drop(gate);
        wait_for(&events, |text| text == "worker 0 continues");
        assert!(Arc::ptr_eq(&running.switch(), &old));
        let switch = Arc::clone(&old);
        let there = running.ask(move |f| {
            (Arc::ptr_eq(f.worker().switch(), &switch), f.port(7).is_some(), f.port(8).is_some())
        });
        assert_eq!(there.unwrap(), [(true, true, false)]);
        let port = NewPort { number: 8, spec: "idle".into(), handles: idle(1) };
        running.add_ports(vec![port]).expect("there is no such port yet");
        running.finish().unwrap();
    }

    /// The second of two threads gets stuck before a change begins, so the first waits until the change is given up.
    /// Then both continue with the old program.
    #[test]
    fn a_pipeline_that_could_not_change_continues() {
        let options = p4jet_jit::Options { threads: Some(2), ..p4jet_jit::Options::default() };
        let switch = Switch::with_options(p4jet_ir::text::parse(BACK).unwrap(), options, 2).unwrap();
        let options = RunOptions { engine: EngineKind::Jit, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start(&switch, options).unwrap();
        let (open, gate) = mpsc::channel();
        let receives = Blocking { frames: 1, gate: mpsc::channel().1 };
        let sends = Blocking { frames: 0, gate };
        let handles: Vec<Box<dyn Port>> = vec![Box::new(receives), Box::new(sends)];
        running.add_ports(vec![NewPort { number: 7, spec: "blocking".into(), handles }]).unwrap();
        wait_until_sending(&running);
        let next = running.prepare(p4jet_ir::text::parse(BACK).unwrap(), &Cancel::default()).unwrap();
        assert!(matches!(running.change_over(next), Err(RunError::Stuck(_))));
        assert!(Arc::ptr_eq(&running.switch(), &switch));
        drop(open);
        let deadline = Instant::now() + LONG;
        while running.responds().is_err() {
            assert!(Instant::now() < deadline, "they never continue");
            std::thread::sleep(Duration::from_millis(10));
        }
        running.inject(7, FRAME.to_vec()).expect("there is room for a packet");
        while running.stats().sent != [(7, 2)].into() {
            assert!(Instant::now() < deadline, "{:?}", running.stats());
            std::thread::sleep(Duration::from_millis(1));
        }
        running.finish().unwrap();
    }

    /// A sleeping worker is not reported as running the program.
    #[test]
    fn a_sleeping_worker_runs_nothing() {
        let switch = Switch::new(p4jet_ir::text::parse(BACK).unwrap()).unwrap();
        let options = RunOptions { engine: EngineKind::Interp, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Running::start(&switch, options).unwrap();
        let mailbox = &running.mailboxes.all()[0];
        let deadline = Instant::now() + LONG;
        let is_looking = || mailbox.pulse.doing() == crate::Doing::Looking;
        let mut found = 0;
        while found < 10 {
            assert!(Instant::now() < deadline, "{found} times");
            found += u32::from(is_looking() && mailbox.bell().is_asleep() && is_looking());
            std::thread::sleep(Duration::from_millis(2));
        }
        running.finish().unwrap();
    }

    #[test]
    fn a_stuck_worker_is_reported_and_no_call_waits_for_it() {
        let (running, gate, events) = stuck();
        let expected = "it sends by port 7, packet from port 7, 4 bytes: deadbeef";
        let what = wait_for(&events, |what| what.ends_with(expected));
        assert!(what.starts_with("worker 0 has made no progress for "), "{what}");
        let start = Instant::now();
        for refused in [
            running.responds(),
            running.check_new_port(8),
            running.remove_port(7).map(drop),
            running.reload(p4jet_ir::text::parse(BACK).unwrap()).map(drop),
            running.add_ports(Vec::new()),
        ] {
            let Err(RunError::Stuck(what)) = refused else { panic!("{refused:?}") };
            assert!(what.contains("worker 0"), "{what}");
        }
        assert!(matches!(&running.ports()[0].status, LinkStatus::Down(why) if why.contains("worker 0")));
        assert!(running.stuck().is_some_and(|what| what.contains("sends by port 7")));
        assert!(start.elapsed() < LONG, "nothing waits for the worker");
        // It continues, and no change was half done.
        drop(gate);
        wait_for(&events, |what| what == "worker 0 continues");
        running.remove_port(7).expect("the port is still there");
        assert_eq!(running.stats().sent, [(7, 1)].into());
        running.finish().unwrap();
        assert_eq!(running.abandoned(), []);
    }

    /// A capture ends, with all its frames, though a worker holds it and is stuck.
    #[test]
    fn a_capture_ends_though_a_worker_is_stuck() {
        let path = std::env::temp_dir().join(format!("p4jet-stuck-{}.pcap", std::process::id()));
        let switch = Switch::new(p4jet_ir::text::parse(BACK).unwrap()).unwrap();
        let options = RunOptions { engine: EngineKind::Interp, frame_max: 2048, listener: Arc::new(|_| ()) };
        let running = Arc::new(Running::start(&switch, options).unwrap());
        let observer = crate::Observer::new(Arc::clone(&running));
        observer.start_capture(crate::CaptureSpec::all(7, &path)).unwrap();
        let (open, gate) = mpsc::channel();
        let handles: Vec<Box<dyn Port>> = vec![Box::new(Blocking { frames: 1, gate })];
        running.add_ports(vec![NewPort { number: 7, spec: "blocking".into(), handles }]).unwrap();
        let deadline = Instant::now() + LONG;
        while running.stuck().is_none() {
            assert!(Instant::now() < deadline, "it gets stuck");
            std::thread::sleep(Duration::from_millis(10));
        }
        // A capture that is refused empties no file.
        let kept = path.with_extension("kept");
        std::fs::write(&kept, "kept").unwrap();
        let refused = observer.start_capture(crate::CaptureSpec::all(7, &kept));
        assert!(matches!(refused, Err(crate::ObserveError::Run(RunError::Stuck(_)))), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept");
        std::fs::remove_file(kept).unwrap();
        let (sender, stopped) = mpsc::channel();
        std::thread::spawn(move || sender.send(observer.stop_captures(7)));
        let stopped =
            stopped.recv_timeout(LONG).expect("it does not wait for the worker").expect("there is one");
        assert_eq!((stopped[0].written, &stopped[0].failed), (2, &None), "it came and was about to leave");
        drop(open);
        running.finish().unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_switch_ends_though_a_worker_is_stuck() {
        let (running, gate, events) = stuck();
        wait_for(&events, |what| what.contains("sends by port 7"));
        running.finish().unwrap();
        let abandoned = running.abandoned();
        assert!(running.stats().incomplete, "the worker did not report its statistics");
        drop(gate);
        assert_eq!(abandoned.len(), 1);
        let text = abandoned[0].abandoned();
        for part in ["worker 0 did not stop within ", " s; the process ends without it", "sends by port 7"] {
            assert!(text.contains(part), "{text}");
        }
    }

    /// The last sample of an abandoned worker is older than what others took over from it.
    #[test]
    fn a_total_without_a_worker_is_incomplete() {
        let taken = ForwardStats { taken_over: 3, sent: [(1, 3)].into(), ..ForwardStats::default() };
        let abandoned = ForwardStats { incomplete: true, received: 1, ..ForwardStats::default() };
        let total = ForwardStats::total([abandoned, taken]);
        assert_eq!((total.received, total.waiting, total.incomplete), (1, 0, true));
    }
}
