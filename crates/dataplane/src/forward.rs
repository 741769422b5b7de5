//! The packet loop of one worker: from ports through the pipeline to ports. In a pipeline of threads, it runs one part:
//! from ports or the previous thread, to ports or the next thread.
#![allow(unsafe_code)]

use crate::buffers::Buffers;
use crate::counted::{Counted, ProgramStats};
use crate::event::{Event, Listener};
use crate::followed::Followed;
use crate::gate::Gate;
use crate::mailbox::Mailbox;
use crate::pipelined::{LOOKS, Load, Segment, YIELDS};
use crate::watch::{self, Watch};
use crate::worker::Worker;
use p4jet_jit::ticks;
use p4jet_packet::{BATCH_MAX, PORT_DROP, Pool, REASON_DONE};
use p4jet_ports::{LinkStatus, Port, PortError, PortStats, Received};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

/// Longest sleep of the packet loop.
const IDLE: Duration = Duration::from_millis(50);
/// Shortest sleep: the system wakes a thread too late from a shorter one.
const SLEEP_MIN: Duration = Duration::from_micros(60);
/// Longest sleep while workers of earlier programs have packets, which others may hand over without waking the loop.
const IDLE_RETIRING: Duration = Duration::from_millis(1);
/// Number of empty rounds before the loop sleeps, so that a packet that follows soon finds it awake.
const SPINS: u32 = 200;
/// Port numbers below this are looked up by index.
const PORTS_INDEXED: usize = 1 << 12;
/// Drop reasons below this are counted by index.
const REASONS_INDEXED: usize = 256;
/// Interval at which a worker checks the links of its ports. A busy worker reads the clock only every few rounds.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_ROUNDS: u32 = 1 << 10;
/// Time after which copies pause, in [`ticks`] (2 to 8 ms), so that the worker checks its mailbox and its ports. A
/// batch of copies that has begun runs to its end.
const COPIES_SLICE: u64 = 1 << 23;
/// Time after which a worker checks its mailbox before it serves further ports, in [`ticks`] (2 to 8 ms).
const ROUND_SLICE: u64 = 1 << 23;
/// Number of program nodes and lookups after which an interpreting worker stops serving a port: milliseconds. 64 packets of an
/// ordinary program need less.
const SERVE_WORK_MAX: usize = 1 << 16;
/// Interval at which a held worker checks whether the hold has ended; the end wakes it, too.
const HOLD_LOOK: Duration = Duration::from_millis(50);

/// Maximum number of ports that do not exist for which packets are counted one by one. Programs can invent port numbers.
pub const NO_PORTS_MAX: usize = 256;

/// Maximum number of earlier programs whose packets wait in a worker. A worker visits all of them in each round, and each has
/// buffers, machine code and queues of its own.
pub(crate) const EARLIER_PROGRAMS_MAX: usize = 16;

/// Packet counts of one worker, or of all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardStats {
    /// Packets received.
    pub received: u64,
    /// Copies created. At every moment `received + copies + taken_over` is the sum of `done`, `sent`, `dropped`,
    /// `no_port`, `no_port_others`, `not_sent`, `waiting` and `handed_over`.
    pub copies: u64,
    /// Packets handed to other workers, and taken over from them. Both are 0 in the sum of all workers, where packets
    /// between workers count as `waiting`.
    pub handed_over: u64,
    /// See `handed_over`.
    pub taken_over: u64,
    /// Packets that left ingress and continued after an output queue: `copies` and `done` count each of them, too.
    pub queued: u64,
    /// Packets replaced by their copies: replicated, resubmitted, recirculated, queued.
    pub done: u64,
    /// Packets sent, by port.
    pub sent: BTreeMap<u32, u64>,
    /// Packets dropped by the program, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Packets sent to a port that does not exist, for at most [`NO_PORTS_MAX`] ports.
    pub no_port: BTreeMap<u32, u64>,
    /// Packets sent to further ports that do not exist.
    pub no_port_others: u64,
    /// Packets that a port could not send.
    pub not_sent: u64,
    /// Packets that wait now: in output queues, for another pass, or between workers.
    pub waiting: u64,
    /// Batches of packets from ports.
    pub batches: u64,
    /// Number of these batches with 1, 2, 3 to 4, 5 to 8 … 33 to 64 packets.
    pub batch_sizes: [u64; 7],
    /// Time spent on packets, in processor [`ticks`].
    pub busy_ticks: u64,
    /// True if these numbers are too low and need not balance: a worker was stuck when the switch ended, and its part
    /// is that of the last sample before.
    pub incomplete: bool,
}

impl ForwardStats {
    /// Counts packets sent to a port that does not exist.
    fn count_no_port(&mut self, port: u32, packets: u64) {
        let is_full = self.no_port.len() >= NO_PORTS_MAX;
        match self.no_port.entry(port) {
            Entry::Vacant(_) if is_full => self.no_port_others += packets,
            entry => *entry.or_default() += packets,
        }
    }

    /// Adds up the parts of all workers, which must belong to one sample ([`crate::Running::sample`]).
    pub fn total(workers: impl IntoIterator<Item = ForwardStats>) -> ForwardStats {
        let mut total = ForwardStats::default();
        workers.into_iter().for_each(|worker| total += worker);
        let (over, taken) = (std::mem::take(&mut total.handed_over), std::mem::take(&mut total.taken_over));
        debug_assert!(total.incomplete || over >= taken, "{taken} packets taken over, {over} handed over");
        total.waiting += over.saturating_sub(taken);
        total
    }
}

impl std::ops::AddAssign for ForwardStats {
    fn add_assign(&mut self, other: ForwardStats) {
        fn add<K: Ord>(to: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
            for (key, n) in from {
                *to.entry(key).or_default() += n;
            }
        }
        self.received += other.received;
        self.copies += other.copies;
        self.queued += other.queued;
        self.handed_over += other.handed_over;
        self.taken_over += other.taken_over;
        self.done += other.done;
        add(&mut self.sent, other.sent);
        add(&mut self.dropped, other.dropped);
        for (port, n) in other.no_port {
            self.count_no_port(port, n);
        }
        self.no_port_others += other.no_port_others;
        self.not_sent += other.not_sent;
        self.waiting += other.waiting;
        self.batches += other.batches;
        for (to, from) in self.batch_sizes.iter_mut().zip(other.batch_sizes) {
            *to += from;
        }
        self.busy_ticks += other.busy_ticks;
        self.incomplete |= other.incomplete;
    }
}

/// A worker with its ports.
pub struct Forwarder {
    worker: Worker,
    /// Workers of earlier programs in whose output queues packets wait, with their buffers.
    retiring: Vec<Retiring>,
    ports: Vec<Attached>,
    /// The index of the port that is served first; any number.
    first_port: usize,
    /// By port number: index in `ports` plus 1, or 0 if there is no such port.
    places: Vec<u16>,
    buffers: Box<Buffers>,
    /// Its segment, if several threads share the pipeline.
    segment: Option<Segment>,
    counts: Counts,
    /// The active traces and captures.
    watch: Option<Box<Watch>>,
    /// Sampled packets for [`crate::Adapter`].
    sample: Option<Box<Sample>>,
    /// True while `sample` has room.
    samples: bool,
    /// Statistics of programs that it no longer runs.
    past: ProgramStats,
    pub(crate) mailbox: Arc<Mailbox<Forwarder>>,
    listener: Listener,
    /// Time of the last check of the links.
    looked: Instant,
    /// True if all its ports have ended.
    pub(crate) ended: Arc<AtomicBool>,
    /// The number of the last sample to which it contributed.
    epoch: u64,
    /// A gate that must be open before the worker processes packets, see [`crate::Running::hold_packets`].
    held: Option<Arc<Gate>>,
}

/// Sampled packets. All memory is allocated at the start.
pub(crate) struct Sample {
    bytes: Vec<u8>,
    /// The ingress port of each packet, and its end in `bytes`.
    packets: Vec<(u32, usize)>,
}

/// Maximum number of packets of a [`Sample`].
const SAMPLED_MAX: usize = 256;
/// Maximum number of bytes of a [`Sample`]: room for enough packets even if all have the usual maximum length.
const SAMPLED_BYTES_MAX: usize = 640 << 10;

impl Sample {
    /// Creates an empty sample; `None` if there is no memory for it.
    pub(crate) fn new() -> Option<Box<Sample>> {
        let mut sample = Sample { bytes: Vec::new(), packets: Vec::new() };
        sample.bytes.try_reserve_exact(SAMPLED_BYTES_MAX).ok()?;
        sample.packets.try_reserve_exact(SAMPLED_MAX).ok()?;
        Some(Box::new(sample))
    }

    /// Iterates over the packets with their ingress ports.
    pub(crate) fn packets(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut start = 0;
        self.packets
            .iter()
            .map(move |&(port, end)| (port, &self.bytes[std::mem::replace(&mut start, end)..end]))
    }

    /// Adds one packet of a received batch. Returns false if there is no room for more.
    fn take(&mut self, port: u32, buffers: &Buffers) -> bool {
        let packets = buffers.batch.packets();
        let frame = buffers.pool.frame(&packets[self.packets.len() % packets.len()]);
        if self.bytes.len() + frame.len() > SAMPLED_BYTES_MAX {
            return false;
        }
        self.bytes.extend_from_slice(frame);
        self.packets.push((port, self.bytes.len()));
        self.packets.len() < SAMPLED_MAX
    }
}

/// A worker of an earlier program, with its pool.
struct Retiring {
    worker: Worker,
    pool: Pool,
}

struct Attached {
    number: u32,
    port: Box<dyn Port>,
    /// The gate that opens when all workers can send to the port; it receives nothing before.
    waits_for: Option<Arc<Gate>>,
    ended: bool,
    sent: u64,
    /// Counts of the frames of [`Forwarder::inject`].
    injected: PortStats,
    status: LinkStatus,
}

impl Attached {
    /// True if it receives packets.
    fn receives(&mut self) -> bool {
        if self.gate_is_open() {
            self.waits_for = None;
        }
        self.waits_for.is_none() && !self.ended
    }

    /// True if it waits for a gate that is open now.
    fn gate_is_open(&self) -> bool {
        self.waits_for.as_ref().is_some_and(|gate| gate.is_open())
    }
}

/// [`ForwardStats`] in the form in which the packet loop counts.
struct Counts {
    stats: ForwardStats,
    /// By drop reason.
    dropped: Box<[u64; REASONS_INDEXED]>,
    /// Drop reasons of [`REASONS_INDEXED`] and above.
    dropped_rare: BTreeMap<u32, u64>,
}

impl Counts {
    fn drop_one(&mut self, reason: u32) {
        match self.dropped.get_mut(reason as usize) {
            Some(count) => *count += 1,
            None => *self.dropped_rare.entry(reason).or_default() += 1,
        }
    }

    /// Returns the drops by reason, with the texts of `worker`'s program.
    fn drops(&self, worker: &Worker) -> BTreeMap<String, u64> {
        let mut drops = self.stats.dropped.clone();
        let indexed = self.dropped.iter().zip(0..).map(|(n, reason)| (reason, *n));
        for (reason, n) in indexed.chain(self.dropped_rare.iter().map(|(reason, n)| (*reason, *n))) {
            if n > 0 {
                *drops.entry(worker.drop_reason(reason)).or_default() += n;
            }
        }
        drops
    }
}

impl Forwarder {
    /// Creates a forwarder without ports, for frames of at most `frame_max` bytes.
    pub(crate) fn new(
        mut worker: Worker,
        frame_max: usize,
        listener: Listener,
        ended: Arc<AtomicBool>,
    ) -> std::io::Result<Forwarder> {
        let pool = worker.pool(p4jet_packet::COUNT_DEFAULT, frame_max)?;
        worker.enter_loop();
        Ok(Forwarder {
            worker,
            retiring: Vec::new(),
            ports: Vec::new(),
            first_port: 0,
            places: Vec::new(),
            buffers: Box::new(Buffers::new(pool)),
            segment: None,
            counts: Counts {
                stats: ForwardStats::default(),
                dropped: Box::new([0; REASONS_INDEXED]),
                dropped_rare: BTreeMap::new(),
            },
            watch: None,
            sample: None,
            samples: false,
            past: ProgramStats::default(),
            mailbox: Arc::new(Mailbox::new()?),
            listener,
            looked: Instant::now(),
            ended,
            epoch: 0,
            held: None,
        })
    }

    /// Its segment, if several threads share the pipeline.
    pub(crate) fn segment(&mut self) -> &mut Option<Segment> {
        &mut self.segment
    }

    /// Returns its part of a sample of all workers. Packets that leave it from now on are not in the sample, and
    /// reach another worker only after that one has contributed, too.
    pub(crate) fn sample(&mut self, epoch: u64) -> (ForwardStats, Counted) {
        self.epoch = self.epoch.max(epoch);
        self.worker.set_epoch(self.epoch);
        self.retiring.iter_mut().for_each(|retiring| retiring.worker.set_epoch(self.epoch));
        (self.stats(), self.counted())
    }

    /// Returns its statistics.
    pub fn stats(&self) -> ForwardStats {
        let mut stats = self.counts.stats.clone();
        stats.dropped = self.counts.drops(&self.worker);
        for attached in &self.ports {
            *stats.sent.entry(attached.number).or_default() += attached.sent;
        }
        stats.sent.retain(|_, n| *n > 0);
        let retiring = self.retiring.iter().map(|retiring| &retiring.worker);
        stats.waiting = retiring.chain([&self.worker]).map(|worker| worker.copies_waiting() as u64).sum();
        stats
    }

    /// Replaces the active traces and captures.
    pub(crate) fn set_watch(&mut self, watch: Option<Box<Watch>>) {
        self.watch = watch;
    }

    /// Replaces the sample, or stops sampling. Returns the previous sample.
    pub(crate) fn change_sample(&mut self, sample: Option<Box<Sample>>) -> Option<Box<Sample>> {
        self.samples = sample.is_some();
        std::mem::replace(&mut self.sample, sample)
    }

    /// Returns the counts of the program's lookups and drops.
    pub(crate) fn counted(&self) -> Counted {
        let workers = self.retiring.iter().map(|retiring| &retiring.worker).chain([&self.worker]);
        let counts = |worker: &Worker| Some((Arc::clone(worker.switch()), worker.tallies()?.clone()));
        Counted { past: self.past.clone(), now: workers.filter_map(counts).collect() }
    }

    /// Returns the worker.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Returns the counts of its handle of a port, and the status of the link.
    pub fn port(&mut self, number: u32) -> Option<(PortStats, LinkStatus)> {
        let place = self.place(number)?;
        let attached = &mut self.ports[place];
        let mut stats = attached.port.stats();
        stats += attached.injected;
        Some((stats, attached.port.status()))
    }

    /// Adds its handle of a port. It sends by the port at once, and receives when the gate is open: then all workers
    /// have their handles.
    pub(crate) fn attach(&mut self, number: u32, port: Box<dyn Port>, gate: Arc<Gate>) {
        let (status, waits_for) = (port.status(), Some(gate));
        let injected = PortStats::default();
        self.ports.push(Attached { number, port, waits_for, ended: false, sent: 0, injected, status });
        self.index_ports();
        self.worker.log_port(number, true);
        self.ended.store(false, Ordering::Release);
    }

    /// Removes its handle of a port. Returns it with the counts of [`Self::inject`].
    pub(crate) fn detach(&mut self, number: u32) -> Option<(Box<dyn Port>, PortStats)> {
        let at = self.ports.iter().position(|p| p.number == number)?;
        let attached = self.ports.remove(at);
        *self.counts.stats.sent.entry(number).or_default() += attached.sent;
        self.index_ports();
        self.worker.log_port(number, false);
        Some((attached.port, attached.injected))
    }

    fn index_ports(&mut self) {
        self.places.clear();
        for (attached, place) in self.ports.iter().zip(1..) {
            let number = attached.number as usize;
            if number < PORTS_INDEXED {
                if self.places.len() <= number {
                    self.places.resize(number + 1, 0);
                }
                self.places[number] = place;
            }
        }
    }

    /// Switches to another program's worker. Returns the old worker and its pool, to be dropped elsewhere, unless
    /// packets wait in it, in output queues or as copies that take long: these run beside the new program's.
    pub(crate) fn change_over(&mut self, mut worker: Worker, pool: Pool) -> Option<(Worker, Pool)> {
        self.run_copies(usize::MAX);
        self.keep_drops();
        worker.enter_loop();
        worker.set_epoch(self.epoch);
        let worker = std::mem::replace(&mut self.worker, worker);
        let pool = std::mem::replace(&mut self.buffers.pool, pool);
        if !worker.switch().program().is_queued() && worker.copies_waiting() == 0 {
            Self::keep_tallies(&mut self.past, &worker);
            return Some((worker, pool));
        }
        self.retiring.push(Retiring { worker, pool });
        // From the first packet on, the new program lets packets of earlier ones leave first.
        self.worker.follow(self.retiring.iter().map(|retiring| &retiring.worker));
        None
    }

    /// Returns the number of earlier programs whose packets wait here, and the bytes of all packets that wait.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let retiring = self.retiring.iter().map(|retiring| &retiring.worker);
        (self.retiring.len(), retiring.chain([&self.worker]).map(Worker::bytes_waiting).sum())
    }

    /// Converts drop reasons to text before another program's worker runs.
    fn keep_drops(&mut self) {
        self.counts.stats.dropped = self.counts.drops(&self.worker);
        self.counts.dropped.fill(0);
        self.counts.dropped_rare.clear();
    }

    /// Adds the tallies of a worker that will not run again to `past`.
    fn keep_tallies(past: &mut ProgramStats, worker: &Worker) {
        if let Some(tallies) = worker.tallies() {
            past.add_tallies(worker.switch().program(), tallies);
        }
    }

    /// Forwards until `stop` is set.
    pub(crate) fn run(&mut self, stop: &AtomicBool) {
        self.mailbox.pulse.begins();
        let mut empty_rounds = 0;
        let mut rounds = 0u32;
        let mut idle_since = Instant::now();
        let mut ended = false;
        while self.keeps_running(stop) {
            self.mailbox.pulse.looks();
            let letters = self.mailbox.take();
            if ended && !letters.is_empty() {
                ended = false;
                // Before the letters, so that a caller who injects a packet finds more work.
                self.ended.store(false, Ordering::SeqCst);
            }
            for letter in letters {
                letter(self);
                self.wait_while_held();
            }
            let before = self.counts.stats.received;
            let mut due: Option<Duration> = None;
            let relays = self.segment.as_ref().is_some_and(|segment| !segment.is_first());
            let relayed = relays && self.relay();
            if relayed && ended {
                ended = false;
            }
            let round = ticks();
            let ports = self.ports.len();
            let first = if self.first_port < ports { self.first_port } else { 0 };
            for i in (first..ports).chain(0..first) {
                if !relays {
                    let received = self.counts.stats.received;
                    self.serve(i);
                    if self.counts.stats.received != received && ticks().wrapping_sub(round) > ROUND_SLICE {
                        // The other ports come first in the next round.
                        self.first_port = i + 1;
                        break;
                    }
                }
                if let Some(next) = self.ports[i].port.due() {
                    due = Some(due.map_or(next, |due| due.min(next)));
                }
            }
            if ended && self.worker.next_due().is_some() {
                ended = false;
                self.ended.store(false, Ordering::SeqCst);
            }
            self.run_retiring();
            self.run_copies(self.worker.copies_per_round());
            self.mailbox.pulse.looks();
            for line in self.worker.take_log() {
                (self.listener)(Event::Log(&line));
            }
            rounds = rounds.wrapping_add(1);
            if self.counts.stats.received != before || relayed {
                empty_rounds = 0;
                if rounds.is_multiple_of(LOOK_ROUNDS) {
                    self.look_at_links();
                }
                continue;
            }
            empty_rounds += 1;
            let mut patient = empty_rounds <= SPINS;
            if self.segment.is_some() && empty_rounds >= LOOKS {
                if empty_rounds == LOOKS {
                    idle_since = Instant::now();
                }
                patient = idle_since.elapsed() < YIELDS;
                if patient {
                    std::thread::yield_now();
                }
            }
            if !patient {
                if let Some(next) = self.next_due() {
                    due = Some(due.map_or(next, |due| due.min(next)));
                }
                if !ended && due.is_none() && self.has_all_received() {
                    ended = true;
                    self.ended.store(true, Ordering::Release);
                }
                self.look_at_links();
                self.sleep(due);
            }
        }
    }

    /// Runs the waiting copies. From the end of the current letter, the worker then processes no packets or letters
    /// until the gate is open.
    pub(crate) fn hold(&mut self, gate: Arc<Gate>) {
        self.run_copies(usize::MAX);
        self.held = Some(gate);
    }

    fn wait_while_held(&mut self) {
        let Some(gate) = self.held.take() else { return };
        while !gate.is_open() {
            self.mailbox.bell().sleep(HOLD_LOOK, || gate.is_open());
            // Waiting letters keep it awake.
            std::thread::yield_now();
        }
    }

    fn keeps_running(&self, stop: &AtomicBool) -> bool {
        match &self.segment {
            None => !stop.load(Ordering::Relaxed),
            Some(segment) if segment.is_first() => !stop.load(Ordering::Relaxed) && segment.is_open(),
            // It stops when the one before has.
            Some(segment) => segment.is_open(),
        }
    }

    /// True if no more packets arrive unless ports are added. Other workers account for packets that they hand over.
    fn has_all_received(&self) -> bool {
        let at_end = || !self.ports.is_empty() && self.ports.iter().all(|p| p.ended);
        match &self.segment {
            None => at_end(),
            Some(segment) if segment.is_first() => segment.is_idle() && at_end(),
            Some(_) => true,
        }
    }

    /// Returns the time until output queues have work.
    fn next_due(&self) -> Option<Duration> {
        let retiring = self.retiring.iter().map(|retiring| &retiring.worker);
        retiring.chain([&self.worker]).filter_map(Worker::next_due).min()
    }

    /// Continues with packets in the output queues of replaced programs, in the order of the programs.
    fn run_retiring(&mut self) {
        if self.retiring.is_empty() {
            return;
        }
        self.worker.take_incoming();
        self.retiring.iter_mut().rev().for_each(|retiring| retiring.worker.take_incoming());
        for at in 0..self.retiring.len() {
            let (earlier, now) = self.retiring.split_at_mut(at);
            now[0].worker.follow(earlier.iter().map(|retiring| &retiring.worker));
            self.swap_with_retiring(at);
            self.run_copies(self.worker.copies_per_round());
            self.swap_with_retiring(at);
        }
        let past = &mut self.past;
        self.retiring.retain(|retiring| {
            let is_done = retiring.worker.can_be_dropped();
            if is_done {
                Self::keep_tallies(past, &retiring.worker);
            }
            !is_done
        });
        self.worker.follow(self.retiring.iter().map(|retiring| &retiring.worker));
    }

    /// Swaps the current program's worker with that of an earlier one, or back.
    fn swap_with_retiring(&mut self, at: usize) {
        self.keep_drops();
        let Retiring { worker, pool, .. } = &mut self.retiring[at];
        std::mem::swap(&mut self.worker, worker);
        std::mem::swap(&mut self.buffers.pool, pool);
    }

    /// Waits until the other threads have processed their packets, then lets those threads end.
    pub(crate) fn finish_segment(&mut self) {
        if let Some(mut segment) = self.segment.take() {
            if segment.is_first() {
                segment.drain();
            }
            segment.close();
        }
    }

    /// Flushes and closes the ports. Returns the first error.
    pub(crate) fn finish(&mut self) -> Result<(), PortError> {
        let mut result = Ok(());
        for port in &mut self.ports {
            let done = port.port.finish();
            if result.is_ok() {
                result = done;
            }
        }
        result
    }

    /// Drops its handles of all ports.
    pub(crate) fn drop_ports(&mut self) {
        self.ports.clear();
        self.index_ports();
    }

    /// Receives one batch from one port and processes it to the end, or passes it to the next thread.
    fn serve(&mut self, i: usize) {
        if self.worker.is_behind() || !self.ports[i].receives() {
            return;
        }
        let mut load = match &mut self.segment {
            None => None,
            Some(segment) => match segment.take() {
                None => return,
                load => load,
            },
        };
        if let Some(load) = &mut load {
            std::mem::swap(&mut self.buffers, &mut load.buffers);
        }
        if load.is_some() {
            self.receive(i, self.worker.batch_max());
            self.process_received(i, load);
            return;
        }
        // An interpreting worker takes smaller batches. It serves the port until it has received as many packets as one batch of
        // machine code, so that both engines send in the same order, or until it has done much work.
        let (mut room, mut work) = (BATCH_MAX, 0);
        // The work for copies since the previous batch does not count.
        self.worker.take_work();
        while room > 0 && work <= SERVE_WORK_MAX && self.ports[i].receives() {
            self.receive(i, self.worker.batch_max().min(room));
            let n = self.buffers.batch.len();
            if n == 0 {
                break;
            }
            self.process_received(i, None);
            room -= n;
            if !self.worker.interprets_received() {
                break;
            }
            work += self.worker.take_work();
        }
        if room < BATCH_MAX {
            self.run_copies_of_received();
        }
    }

    /// Receives at most `max` packets from a port into the batch.
    fn receive(&mut self, i: usize, max: usize) {
        let Buffers { pool, batch, .. } = &mut *self.buffers;
        batch.clear();
        batch.set_max(max);
        let Attached { number, port, ended, .. } = &mut self.ports[i];
        self.mailbox.pulse.receives(*number);
        match port.receive(*number, pool, batch) {
            Ok(Received::Packets(_) | Received::Empty) => {}
            Ok(Received::End) => *ended = true,
            Err(error) => {
                (self.listener)(Event::PortFailed(*number, &error));
                *ended = true;
            }
        }
    }

    /// Runs waiting copies after received packets.
    fn run_copies_of_received(&mut self) {
        let start = ticks();
        self.run_copies(self.worker.copies_per_round());
        self.counts.stats.busy_ticks += ticks().wrapping_sub(start);
    }

    /// Runs a frame through the pipeline as if a port had received it. Returns false if it has no such port, or if
    /// the frame is too long for its buffers. `followed` learns what becomes of it.
    pub(crate) fn inject(&mut self, number: u32, frame: &[u8], followed: Option<Followed>) -> bool {
        let Some(place) = self.place(number) else { return false };
        let mut load = None;
        if let Some(segment) = &mut self.segment {
            // All loads return to this thread, so there is one.
            segment.drain();
            load = segment.take();
            match &mut load {
                Some(load) => std::mem::swap(&mut self.buffers, &mut load.buffers),
                // The next thread has ended.
                None => return false,
            }
        }
        let Buffers { pool, batch, .. } = &mut *self.buffers;
        batch.clear();
        let taken = batch.push(pool, number, frame).is_ok();
        if taken {
            self.buffers.followed = followed;
            let injected = &mut self.ports[place].injected;
            injected.rx_packets += 1;
            injected.rx_bytes += frame.len() as u64;
        }
        let is_whole = load.is_none();
        self.process_received(place, load);
        if taken && is_whole {
            self.run_copies_of_received();
        }
        taken
    }

    /// Processes the batch in the buffers to the end. If several threads share the pipeline, the buffers belong to
    /// `load`; the batch is then passed to the next thread.
    fn process_received(&mut self, i: usize, mut load: Option<Load>) {
        let number = self.ports[i].number;
        let received = !self.buffers.batch.is_empty();
        if received {
            if let Some(watch) = &mut self.watch {
                let Buffers { pool, batch, sighted, .. } = &mut *self.buffers;
                watch.received(number, pool, batch, sighted);
            }
            if self.samples {
                let sample = self.sample.as_mut();
                self.samples = sample.is_some_and(|sample| sample.take(number, &self.buffers));
            }
            let start = ticks();
            let batch = &mut self.buffers.batch;
            let stats = &mut self.counts.stats;
            stats.received += batch.len() as u64;
            stats.batches += 1;
            stats.batch_sizes[batch.len().next_power_of_two().ilog2() as usize] += 1;
            self.mailbox.pulse.runs(batch.packets());
            match &mut load {
                Some(load) => self.worker.process_part(batch, &mut load.flight),
                None => {
                    self.ask_for_room();
                    let Buffers { pool, batch, followed, .. } = &mut *self.buffers;
                    match followed.take() {
                        None => self.worker.process(pool, batch),
                        Some(followed) => self.worker.process_followed(pool, batch, followed),
                    }
                    self.send_processed();
                }
            }
            self.counts.stats.busy_ticks += ticks().wrapping_sub(start);
        }
        if let (Some(mut load), Some(segment)) = (load, &mut self.segment) {
            std::mem::swap(&mut self.buffers, &mut load.buffers);
            if received {
                load.epoch = self.epoch;
                self.counts.stats.handed_over += load.buffers.batch.len() as u64;
                segment.pass(load);
            } else {
                segment.keep(load);
            }
        }
    }

    /// Processes one batch from the previous thread and passes it to the next, or to the ports. Returns false if
    /// there is none.
    fn relay(&mut self) -> bool {
        let Some(segment) = &mut self.segment else { return false };
        // It left the first thread after that one contributed to a sample that lacks this one's part: see
        // `Inbox::take`.
        if segment.is_last() && segment.next_epoch().is_some_and(|epoch| epoch > self.epoch) {
            return false;
        }
        let (last, Some(mut load)) = (segment.is_last(), segment.take()) else { return false };
        if last {
            self.counts.stats.taken_over += load.buffers.batch.len() as u64;
        }
        let start = ticks();
        std::mem::swap(&mut self.buffers, &mut load.buffers);
        self.mailbox.pulse.runs(self.buffers.batch.packets());
        self.worker.process_part(&mut self.buffers.batch, &mut load.flight);
        if last {
            self.send_processed();
        }
        std::mem::swap(&mut self.buffers, &mut load.buffers);
        self.counts.stats.busy_ticks += ticks().wrapping_sub(start);
        // The ports may not have sent it yet, and the first thread may end once it has this load back.
        if self.ended.load(Ordering::Relaxed) {
            self.ended.store(false, Ordering::SeqCst);
        }
        if let Some(segment) = &mut self.segment {
            segment.pass(load);
        }
        true
    }

    /// Sends a processed batch of received packets.
    fn send_processed(&mut self) {
        if !self.buffers.sighted.is_empty() {
            let Buffers { pool, batch, sighted, .. } = &mut *self.buffers;
            watch::processed(pool, batch, sighted, &self.worker);
        }
        // Only in a pipeline of threads.
        if let Some(followed) = self.buffers.followed.take() {
            followed.note(&self.buffers.batch.packets()[0], |reason| self.worker.drop_reason(reason));
        }
        self.send();
    }

    /// Asks the links how many packets they accept now, if output queues follow them.
    fn ask_for_room(&mut self) {
        if self.worker.follows_links() {
            for attached in &mut self.ports {
                self.worker.set_room(attached.number, attached.port.room());
            }
        }
    }

    /// Runs waiting copies, and those that may leave their output queues: about `most`, and for no longer than
    /// [`COPIES_SLICE`].
    fn run_copies(&mut self, most: usize) {
        let mut ran = 0;
        let start = ticks();
        self.mailbox.pulse.runs(&[]);
        loop {
            self.ask_for_room();
            if ran >= most
                || (ran > 0 && ticks().wrapping_sub(start) > COPIES_SLICE)
                || !self.worker.process_copies(&mut self.buffers.pool, &mut self.buffers.batch)
            {
                break;
            }
            ran += self.buffers.batch.len();
            self.send();
            self.mailbox.pulse.runs(&[]);
        }
        let moved = self.worker.take_moved();
        self.counts.stats.copies += moved.copies;
        self.counts.stats.queued += moved.queued;
        self.counts.stats.handed_over += moved.handed_over;
        self.counts.stats.taken_over += moved.taken_over;
        for (reason, refused) in self.worker.take_refused() {
            if refused > 0 {
                *self.counts.dropped_rare.entry(reason.number()).or_default() += refused;
            }
        }
    }

    /// Returns the index of a port in `ports`.
    fn place(&self, number: u32) -> Option<usize> {
        if (number as usize) < PORTS_INDEXED {
            return self.places.get(number as usize).and_then(|place| (*place as usize).checked_sub(1));
        }
        self.ports.iter().position(|p| p.number == number)
    }

    /// Sends the batch, with one call per egress port.
    fn send(&mut self) {
        const SENT: u32 = PORT_DROP;
        let packets = self.buffers.batch.packets();
        // The egress port of each packet, or `SENT` once it is done.
        let mut to = [SENT; BATCH_MAX];
        for (to, packet) in to.iter_mut().zip(packets) {
            *to = packet.egress_port;
            if packet.egress_port == PORT_DROP {
                match packet.drop_reason {
                    REASON_DONE => self.counts.stats.done += 1,
                    reason => self.counts.drop_one(reason),
                }
            }
        }
        for first in 0..packets.len() {
            let number = to[first];
            if number == SENT {
                continue;
            }
            let mut frames: [&[u8]; BATCH_MAX] = [&[]; BATCH_MAX];
            let mut n = 0;
            for i in first..packets.len() {
                if to[i] == number {
                    frames[n] = self.buffers.pool.frame(&packets[i]);
                    n += 1;
                    to[i] = SENT;
                }
            }
            let Some(place) = self.place(number) else {
                self.counts.stats.count_no_port(number, n as u64);
                continue;
            };
            if let Some(watch) = &self.watch {
                watch.sends(number, &frames[..n]);
            }
            let attached = &mut self.ports[place];
            self.mailbox.pulse.sends(number);
            match attached.port.send(&frames[..n]) {
                Ok(sent) => {
                    attached.sent += sent.sent as u64;
                    self.counts.stats.not_sent += sent.dropped as u64;
                }
                Err(error) => {
                    self.counts.stats.not_sent += n as u64;
                    if !attached.ended {
                        (self.listener)(Event::PortFailed(number, &error));
                        attached.ended = true;
                    }
                }
            }
        }
    }

    /// Reports links that changed.
    fn look_at_links(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let only_sends = self.segment.as_ref().is_some_and(Segment::is_last);
        for attached in &mut self.ports {
            // It receives nothing, but checks whether its interface is gone.
            if only_sends && attached.receives() {
                let Buffers { pool, batch, .. } = &mut *self.buffers;
                batch.clear();
                self.mailbox.pulse.receives(attached.number);
                let _ = attached.port.receive(attached.number, pool, batch);
                self.mailbox.pulse.looks();
            }
            let status = attached.port.status();
            if status != attached.status {
                // One report is enough.
                if self.worker.index() == 0 {
                    (self.listener)(Event::Link(attached.number, &status));
                }
                attached.status = status;
            }
        }
    }

    /// Waits until a port may have received packets, a letter arrives, or work falls due.
    fn sleep(&self, due: Option<Duration>) {
        let mut fds: Vec<libc::pollfd> = Vec::with_capacity(1 + self.ports.len());
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        fds.push(poll(self.mailbox.bell().fd()));
        let idle = if self.retiring.is_empty() { IDLE } else { IDLE_RETIRING };
        let mut longest = due.map_or(idle, |due| due.min(idle));
        // A thread that waits for a load does not receive.
        let waits = self.segment.as_ref().is_some_and(|segment| !segment.is_first() || !segment.is_ready());
        for attached in self.ports.iter().filter(|p| !p.ended && p.waits_for.is_none() && !waits) {
            match attached.port.poll_fd() {
                Some(fd) => fds.push(poll(fd)),
                // There is no notification for new frames.
                None => longest = longest.min(Duration::from_micros(100)),
            }
        }
        if longest < SLEEP_MIN {
            return;
        }
        fds.extend(self.worker.wake_fd().map(poll));
        let asleep = self.mailbox.bell().set_asleep(true);
        let loaded = || waits && self.segment.as_ref().is_some_and(|s| s.is_ready() || !s.is_open());
        let opened = || {
            fence(Ordering::SeqCst);
            self.ports.iter().any(Attached::gate_is_open)
        };
        if !asleep || !self.worker.prepare_sleep() || loaded() || opened() {
            self.mailbox.bell().set_asleep(false);
            return;
        }
        let timeout = libc::timespec {
            tv_sec: longest.as_secs() as libc::time_t,
            tv_nsec: longest.subsec_nanos() as libc::c_long,
        };
        // SAFETY: the array is valid for its length; the descriptors belong to open ports and the mailbox.
        let woken = unsafe {
            libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &raw const timeout, std::ptr::null())
        };
        self.mailbox.bell().set_asleep(false);
        // A descriptor in error stays ready forever; the port reports the error itself.
        if woken > 0 && fds.iter().any(|f| f.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_ports_take_bounded_memory() {
        let of = |ports: std::ops::Range<u32>| {
            let mut stats = ForwardStats::default();
            ports.for_each(|port| stats.count_no_port(port, 2));
            stats
        };
        let one = of(0..1000);
        assert_eq!((one.no_port.len(), one.no_port_others), (NO_PORTS_MAX, 2 * (1000 - NO_PORTS_MAX as u64)));
        let mut total = ForwardStats::total([one, of(900..2000)]);
        assert_eq!(total.no_port.len(), NO_PORTS_MAX);
        assert_eq!(total.no_port.values().sum::<u64>() + total.no_port_others, 2 * (1000 + 1100));
        total.count_no_port(0, 1);
        assert_eq!(total.no_port[&0], 3);
    }
}
