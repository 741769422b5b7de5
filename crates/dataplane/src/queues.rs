//! Output queues: where packets wait between ingress and egress.
//!
//! If queues are configured, the program is lowered so that ingress ends with a copy that names its queue; these
//! copies wait here. The worker that serves a port keeps its queues. Copies are moved by pointer, and their memory is
//! reused. A program that reads queue depths or waiting times always has queues; they follow the links: in each round
//! the worker asks its ports how many frames they accept (`Port::room`).
//!
//! A port has up to [`QUEUES_MAX`] queues. A full queue drops new packets (tail drop). Queues and ports can have
//! rates: the next packet may leave after the time that the last one takes at that rate. The scheduler decides as if
//! it acted at the very moment at which the rates allow it, even if the worker looks later. Strict queues come before
//! weighted ones, the higher number first; weighted ones share the rest by deficit round robin, in bytes.

use p4jet_ir::{Program, QUEUE_MAX, Queued};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of queues of a port.
pub const QUEUES_MAX: usize = QUEUE_MAX as usize + 1;
/// Default depth in packets of a queue that has a rate, whose port has one, or that follows the port's link: bmv2's default.
pub const DEPTH_WITH_RATE: u32 = 64;
/// Default depth in packets of any other queue: as many as a batch can put there.
pub const DEPTH_WITHOUT_RATE: u32 = 1 << 14;
/// Maximum number of ports with queues, of all workers together. A program can invent port numbers.
pub const QUEUED_PORTS_MAX: usize = 4096;
/// Maximum number of bytes in the queues that one worker serves, with [`PACKET_BYTES`] for each packet. Beyond it every queue is
/// full.
pub const QUEUED_BYTES_MAX: usize = 512 << 20;
/// Bytes that a packet in a queue counts in addition to its frame.
const PACKET_BYTES: usize = 512;
/// Bytes per turn and unit of weight.
const QUANTUM: u64 = 512;
/// Interval at which a busy link is checked for room.
const LOOK_AT_LINK: Duration = Duration::from_millis(1);
const PS_PER_S: u128 = 1_000_000_000_000;

/// The maximum rate of a queue or a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Packets per second.
    Packets(u64),
    /// Bits per second, of the frames.
    Bits(u64),
}

impl Rate {
    /// Returns the time in picoseconds that a packet takes at this rate.
    fn cost(rate: Option<Rate>, bytes: u32) -> u128 {
        match rate {
            None | Some(Rate::Packets(0) | Rate::Bits(0)) => 0,
            Some(Rate::Packets(rate)) => PS_PER_S / u128::from(rate),
            Some(Rate::Bits(rate)) => 8 * u128::from(bytes) * PS_PER_S / u128::from(rate),
        }
    }
}

/// The configuration of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// Maximum number of packets; [`DEPTH_WITH_RATE`] or [`DEPTH_WITHOUT_RATE`] if not configured.
    pub depth: Option<u32>,
    /// Its rate; unlimited if not configured.
    pub rate: Option<Rate>,
    /// Its share of the bandwidth that strict queues leave; 0 for a strict queue.
    pub weight: u32,
}

/// The configuration of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSettings {
    /// The queues, by number.
    pub queues: [QueueSettings; QUEUES_MAX],
    /// The rate of all queues together.
    pub rate: Option<Rate>,
}

impl PortSettings {
    /// Returns the maximum number of packets in a queue. `follows_link` is true if the queue follows the port's link: see
    /// [`Queues::follow_links_of`].
    pub fn depth(&self, queue: usize, follows_link: bool) -> u32 {
        let settings = &self.queues[queue];
        let is_limited = follows_link || settings.rate.or(self.rate).is_some();
        settings.depth.unwrap_or(if is_limited { DEPTH_WITH_RATE } else { DEPTH_WITHOUT_RATE })
    }
}

/// The configuration of all output queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Number of queues per port: 1 to [`QUEUES_MAX`]. Packets for a queue with a higher number are dropped.
    pub queues_per_port: usize,
    /// Settings of all ports that `ports` does not list.
    pub others: PortSettings,
    /// Settings of single ports.
    pub ports: BTreeMap<u32, PortSettings>,
    /// True if programs run with queues, even without limits.
    pub wanted: bool,
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        let (others, ports) = (PortSettings::default(), BTreeMap::new());
        QueueConfig { queues_per_port: QUEUES_MAX, others, ports, wanted: false }
    }
}

impl QueueConfig {
    /// Returns the settings of a port.
    pub fn port(&self, port: u32) -> &PortSettings {
        self.ports.get(&port).unwrap_or(&self.others)
    }

    /// Changes the settings of one port, or of all.
    pub fn change(&mut self, port: Option<u32>, mut change: impl FnMut(&mut PortSettings)) {
        self.wanted = true;
        match port {
            Some(port) => change(self.ports.entry(port).or_insert(self.others)),
            None => {
                change(&mut self.others);
                self.ports.values_mut().for_each(change);
            }
        }
    }
}

/// Statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets that entered.
    pub enqueued: u64,
    /// Packets that left.
    pub dequeued: u64,
    /// Packets dropped because it was full.
    pub dropped: u64,
    /// Packets in it.
    pub depth: u64,
    /// The maximum number of packets in it so far.
    pub depth_max: u64,
}

/// [`QueueStats`] as written by the worker that serves the queue.
#[derive(Default)]
struct Counters {
    enqueued: AtomicU64,
    dequeued: AtomicU64,
    dropped: AtomicU64,
    depth_max: AtomicU64,
}

/// Adds one; there is no other writer.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

type PortCounters = Arc<[Counters; QUEUES_MAX]>;

/// The configuration and the statistics of a switch's queues, which the control plane and the workers share. A
/// program and its successor have the same.
#[derive(Default)]
pub struct Queues {
    config: Mutex<QueueConfig>,
    /// Number of changes of the configuration.
    changes: AtomicU64,
    wanted: AtomicBool,
    follow_links: AtomicBool,
    /// At most [`QUEUED_PORTS_MAX`].
    ports: Mutex<BTreeMap<u32, PortCounters>>,
    /// Number of dropped [`Serving`]s, whose ports may make room in `ports`.
    ended: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The contents stay consistent even if a holder panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queues {
    /// Returns the configuration.
    pub fn config(&self) -> QueueConfig {
        lock(&self.config).clone()
    }

    /// Changes the configuration.
    pub fn configure(&self, change: impl FnOnce(&mut QueueConfig)) {
        let mut config = lock(&self.config);
        change(&mut config);
        config.queues_per_port = config.queues_per_port.clamp(1, QUEUES_MAX);
        self.wanted.store(config.wanted, Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }

    /// True if anything is configured, so that programs must run with queues.
    pub fn are_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Runs programs that read queue depths or waiting times ([`Program::reads_queues`]), from the next program on,
    /// with queues that follow the ports' links: packets wait in them while a link is busy.
    pub fn follow_links(&self) {
        self.follow_links.store(true, Relaxed);
    }

    /// True if a program runs with queues that follow the links.
    pub fn follow_links_of(&self, program: &Program) -> bool {
        self.follow_links.load(Relaxed) && program.reads_queues()
    }

    /// True if a program must run with queues.
    pub fn are_needed_by(&self, program: &Program) -> bool {
        self.are_wanted() || self.follow_links_of(program)
    }

    /// Returns the statistics of the queues of each port that has had a packet, by port and queue number.
    pub fn stats(&self) -> BTreeMap<u32, [QueueStats; QUEUES_MAX]> {
        let stats = |counters: &PortCounters| {
            std::array::from_fn(|i| {
                let Counters { enqueued, dequeued, dropped, depth_max } = &counters[i];
                // In this order the depth is not negative.
                let dequeued = dequeued.load(Relaxed);
                let enqueued = enqueued.load(Relaxed);
                QueueStats {
                    enqueued,
                    dequeued,
                    dropped: dropped.load(Relaxed),
                    depth: enqueued.saturating_sub(dequeued),
                    depth_max: depth_max.load(Relaxed),
                }
            })
        };
        lock(&self.ports).iter().map(|(port, counters)| (*port, stats(counters))).collect()
    }

    /// Returns the counters of a port. If there are [`QUEUED_PORTS_MAX`] other ports, forgets those that no worker serves if
    /// `may_forget`; `None` if there is no room.
    fn counters(&self, port: u32, may_forget: bool) -> Option<PortCounters> {
        let mut ports = lock(&self.ports);
        if !ports.contains_key(&port) && ports.len() >= QUEUED_PORTS_MAX {
            if !may_forget {
                return None;
            }
            ports.retain(|_, counters| Arc::strong_count(counters) > 1);
            if ports.len() >= QUEUED_PORTS_MAX {
                return None;
            }
        }
        Some(Arc::clone(ports.entry(port).or_default()))
    }
}

/// The reason why a queue refused a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue is full.
    Full,
    /// The port has no queue of that number, or there are too many ports.
    NoQueue,
}

/// A packet that waits.
struct Item<C> {
    packet: C,
    bytes: u32,
    depth: u32,
    enqueued_ns: u64,
}

struct OutputQueue<C> {
    items: VecDeque<Item<C>>,
    /// Time in picoseconds from which its rate allows the next packet.
    free_at: u128,
    /// Bytes that it may still send this turn.
    deficit: u64,
}

impl<C> OutputQueue<C> {
    /// Returns the time from which the queue's own rate lets its first packet leave.
    fn due(&self) -> u128 {
        self.items.front().map_or(u128::MAX, |item| self.free_at.max(picoseconds(item.enqueued_ns)))
    }
}

fn picoseconds(ns: u64) -> u128 {
    u128::from(ns) * 1000
}

struct OutputPort<C> {
    number: u32,
    settings: PortSettings,
    queues: [OutputQueue<C>; QUEUES_MAX],
    /// Bit mask of the queues that hold packets.
    waiting: u32,
    /// True if it does not serve this program yet, because packets of an earlier program wait there.
    held: bool,
    /// Bit mask of the queues with a weight.
    weighted: u32,
    /// True if the port or a queue has a rate.
    limited: bool,
    /// Time in picoseconds from which the port's rate allows the next packet.
    free_at: u128,
    /// The weighted queue whose turn it is.
    turn: usize,
    /// True if that queue has not had its quantum yet.
    begins_turn: bool,
    /// Number of packets that the link accepts now, if the queues follow it.
    room: Option<usize>,
    counters: PortCounters,
}

/// Iterates over the numbers of the bits that are set.
fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (bit < u32::BITS).then_some(bit as usize)
    })
}

impl<C> OutputPort<C> {
    fn new(number: u32, config: &QueueConfig, counters: PortCounters) -> OutputPort<C> {
        let queue = |_| OutputQueue { items: VecDeque::new(), free_at: 0, deficit: 0 };
        let mut port = OutputPort {
            number,
            settings: PortSettings::default(),
            queues: std::array::from_fn(queue),
            waiting: 0,
            held: false,
            weighted: 0,
            limited: false,
            free_at: 0,
            turn: 0,
            begins_turn: true,
            room: None,
            counters,
        };
        port.configure(config);
        port
    }

    fn configure(&mut self, config: &QueueConfig) {
        self.settings = *config.port(self.number);
        let has_weight = |i: &usize| self.settings.queues[*i].weight > 0;
        self.weighted = (0..QUEUES_MAX).filter(has_weight).map(|i| 1 << i).sum();
        self.limited = self.settings.rate.or(self.settings.queues.iter().find_map(|q| q.rate)).is_some();
    }

    /// Returns how many of the waiting packets leave at once: they count as if they had left already.
    fn at_once(&self) -> usize {
        if self.limited { 0 } else { self.room.unwrap_or(0) }
    }

    /// Returns the maximum number of packets in a queue, not counting those that leave at once.
    fn depth_max(&self, queue: usize) -> usize {
        self.settings.depth(queue, self.room.is_some()) as usize
    }

    /// True if packets wait for the link.
    fn is_blocked(&self) -> bool {
        self.room == Some(0) && self.waiting != 0
    }

    /// Returns the time from which the first packet may leave.
    fn due(&self) -> u128 {
        if self.is_blocked() {
            return u128::MAX;
        }
        if !self.limited && self.waiting != 0 {
            return 0;
        }
        let queues = bits(self.waiting).map(|i| self.queues[i].due());
        self.free_at.max(queues.min().unwrap_or(u128::MAX))
    }

    /// Returns the queue that is due next and its due time, if that has been reached.
    fn pick(&mut self, now: u128) -> Option<(usize, u128)> {
        let due = self.due();
        if due > now {
            return None;
        }
        if !self.limited {
            return Some((self.choose(self.waiting), 0));
        }
        // A port without a rate serves every queue that may send when the worker looks.
        let moment = if self.settings.rate.is_some() { due } else { now };
        let ready = bits(self.waiting).filter(|i| self.queues[*i].due() <= moment);
        let queue = self.choose(ready.map(|i| 1 << i).sum());
        let moment = if self.settings.rate.is_some() { moment } else { self.queues[queue].due() };
        Some((queue, moment))
    }

    /// Returns the queue that is served next among those that are `ready`, of which there is at least one.
    fn choose(&mut self, ready: u32) -> usize {
        match (ready & !self.weighted).checked_ilog2() {
            Some(highest) => highest as usize,
            None => self.take_turn(ready),
        }
    }

    /// Picks a queue by deficit round robin among the weighted queues that are `ready`, of which there is at least
    /// one.
    fn take_turn(&mut self, ready: u32) -> usize {
        loop {
            let queue = &mut self.queues[self.turn];
            if let Some(first) = queue.items.front()
                && ready >> self.turn & 1 == 1
            {
                if std::mem::take(&mut self.begins_turn) {
                    queue.deficit += QUANTUM * u64::from(self.settings.queues[self.turn].weight);
                }
                if let Some(left) = queue.deficit.checked_sub(u64::from(first.bytes)) {
                    queue.deficit = left;
                    return self.turn;
                }
            }
            self.turn = (self.turn + 1) % QUEUES_MAX;
            self.begins_turn = true;
        }
    }

    fn next(&mut self, now: u128) -> Option<(C, u32, Queued)> {
        let (number, moment) = self.pick(now)?;
        let queue = &mut self.queues[number];
        let item = queue.items.pop_front()?;
        if queue.items.is_empty() {
            self.waiting &= !(1 << number);
            // An empty queue keeps no credit.
            queue.deficit = 0;
        }
        if self.limited {
            queue.free_at = moment + Rate::cost(self.settings.queues[number].rate, item.bytes);
            self.free_at = moment + Rate::cost(self.settings.rate, item.bytes);
        }
        count(&self.counters[number].dequeued);
        let left = queue.items.len();
        if let Some(room) = self.room.as_mut().filter(|room| **room != usize::MAX) {
            *room = room.saturating_sub(1);
        }
        let queued = Queued {
            enqueued_us: item.enqueued_ns / 1000,
            enqueue_depth: item.depth,
            // More may have counted as leaving at once than the link accepts by now.
            dequeue_depth: left.saturating_sub(self.at_once()).min(self.depth_max(number)) as u32,
            queue: number as u32,
        };
        Some((item.packet, item.bytes, queued))
    }
}

/// The queues that one worker serves. Times are nanoseconds since the switch started.
pub(crate) struct Serving<C> {
    shared: Arc<Queues>,
    /// The value of [`Queues::changes`] when the configuration was read.
    changes: u64,
    queues_per_port: usize,
    ports: Vec<OutputPort<C>>,
    /// By port number below [`Self::FEW`]: the index in `ports` plus one, or 0.
    few: Box<[u32]>,
    /// The indices of the other ports.
    many: HashMap<u32, usize>,
    /// Indices of the ports that hold packets.
    waiting: Vec<usize>,
    /// Number of packets in all queues.
    packets: usize,
    /// Bytes of these packets' frames, with [`PACKET_BYTES`] for each.
    bytes: usize,
    /// Time in picoseconds before which no packet may leave.
    earliest: u128,
    /// True if the queues follow the ports' links.
    follows_links: bool,
    /// What the links of ports that have had no packet yet accept, if it is limited.
    first_rooms: HashMap<u32, usize>,
    /// The value of [`Queues::ended`] when there were too many ports.
    refused_at: Option<u64>,
}

impl<C> Drop for Serving<C> {
    fn drop(&mut self) {
        self.ports.clear();
        self.shared.ended.fetch_add(1, Relaxed);
    }
}

impl<C> Serving<C> {
    const FEW: usize = 512;

    pub fn new(shared: Arc<Queues>) -> Serving<C> {
        let mut serving = Serving {
            shared,
            changes: u64::MAX,
            queues_per_port: QUEUES_MAX,
            ports: Vec::new(),
            few: vec![0; Self::FEW].into(),
            many: HashMap::new(),
            waiting: Vec::new(),
            packets: 0,
            bytes: 0,
            earliest: 0,
            follows_links: false,
            first_rooms: HashMap::new(),
            refused_at: None,
        };
        serving.refresh();
        serving
    }

    /// Like [`Self::new`], with queues that follow the ports' links.
    pub fn following_links(shared: Arc<Queues>) -> Serving<C> {
        let mut serving = Serving::new(shared);
        serving.follows_links = true;
        serving
    }

    /// True if the queues follow the ports' links: then the packet loop calls [`Self::set_room`] in each round.
    pub fn follows_links(&self) -> bool {
        self.follows_links
    }

    /// Sets the number of packets that the link of a port accepts now.
    pub fn set_room(&mut self, port: u32, room: usize) {
        let Some(index) = self.known(port) else {
            match room {
                usize::MAX => drop(self.first_rooms.remove(&port)),
                _ => drop(self.first_rooms.insert(port, room)),
            }
            return;
        };
        let port = &mut self.ports[index];
        if port.is_blocked() && room > 0 {
            self.earliest = 0;
        }
        port.room = Some(room);
    }

    fn is_blocked(&self) -> bool {
        self.follows_links && self.waiting.iter().any(|index| self.ports[*index].is_blocked())
    }

    /// Returns the number of packets in all queues.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Returns the number of bytes that count towards [`QUEUED_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds packets until those in queues of earlier programs have left the same ports, and takes over the times
    /// from which the rates allow the next packet.
    pub fn follow<'s>(&mut self, earlier: impl Iterator<Item = &'s Serving<C>>)
    where
        C: 's,
    {
        self.ports.iter_mut().for_each(|port| port.held = false);
        self.earliest = 0;
        for earlier in earlier {
            for before in &earlier.ports {
                let Some(index) = self.port(before.number) else { continue };
                let port = &mut self.ports[index];
                port.held |= before.waiting != 0;
                port.free_at = port.free_at.max(before.free_at);
                for (queue, before) in port.queues.iter_mut().zip(&before.queues) {
                    queue.free_at = queue.free_at.max(before.free_at);
                }
            }
        }
    }

    /// Reads the configuration if it has changed.
    pub fn refresh(&mut self) {
        let changes = self.shared.changes.load(Relaxed);
        if changes == self.changes {
            return;
        }
        let config = lock(&self.shared.config);
        self.changes = changes;
        self.earliest = 0;
        self.queues_per_port = config.queues_per_port;
        self.ports.iter_mut().for_each(|port| port.configure(&config));
    }

    fn known(&self, number: u32) -> Option<usize> {
        match self.few.get(number as usize) {
            Some(index) => (*index as usize).checked_sub(1),
            None => self.many.get(&number).copied(),
        }
    }

    fn port(&mut self, number: u32) -> Option<usize> {
        let known = self.known(number);
        if known.is_some() || self.ports.len() >= QUEUED_PORTS_MAX {
            return known;
        }
        let ended = self.shared.ended.load(Relaxed);
        let index = self.ports.len();
        let Some(counters) = self.shared.counters(number, self.refused_at != Some(ended)) else {
            self.refused_at = Some(ended);
            return None;
        };
        let mut port = OutputPort::new(number, &lock(&self.shared.config), counters);
        port.room = self.follows_links.then(|| self.first_rooms.remove(&number).unwrap_or(usize::MAX));
        self.ports.push(port);
        match self.few.get_mut(number as usize) {
            Some(place) => *place = index as u32 + 1,
            None => drop(self.many.insert(number, index)),
        }
        Some(index)
    }

    /// Puts a packet into a queue, or gives it back.
    pub fn enqueue(
        &mut self,
        (port, number): (u32, u32),
        packet: C,
        bytes: usize,
        now_ns: u64,
    ) -> Result<(), (C, Refusal)> {
        let number = number as usize;
        if number >= self.queues_per_port {
            return Err((packet, Refusal::NoQueue));
        }
        let Some(index) = self.port(port) else { return Err((packet, Refusal::NoQueue)) };
        let port = &mut self.ports[index];
        let (depth_max, at_once) = (port.depth_max(number), port.at_once());
        let (queue, counters) = (&mut port.queues[number], &port.counters[number]);
        let waiting = queue.items.len();
        let depth = waiting.saturating_sub(at_once);
        if depth >= depth_max || waiting >= depth_max.max(DEPTH_WITHOUT_RATE as usize) {
            count(&counters.dropped);
            return Err((packet, Refusal::Full));
        }
        let all_bytes = self.bytes + PACKET_BYTES + bytes;
        if all_bytes > QUEUED_BYTES_MAX {
            count(&counters.dropped);
            return Err((packet, Refusal::Full));
        }
        self.bytes = all_bytes;
        let (bytes, depth) = (bytes as u32, depth as u32);
        queue.items.push_back(Item { packet, bytes, depth, enqueued_ns: now_ns });
        count(&counters.enqueued);
        if u64::from(depth) >= counters.depth_max.load(Relaxed) {
            counters.depth_max.store(u64::from(depth) + 1, Relaxed);
        }
        if port.waiting == 0 {
            self.waiting.push(index);
        }
        port.waiting |= 1 << number;
        self.earliest = self.earliest.min(port.due());
        self.packets += 1;
        Ok(())
    }

    /// Removes a packet that may leave, with the metadata of its queue. All such packets of one port come before
    /// those of another.
    pub fn next(&mut self, now_ns: u64) -> Option<(C, Queued)> {
        let now = picoseconds(now_ns);
        if self.earliest > now {
            return None;
        }
        for place in 0..self.waiting.len() {
            let port = &mut self.ports[self.waiting[place]];
            if port.held {
                continue;
            }
            if let Some((packet, bytes, queued)) = port.next(now) {
                self.packets -= 1;
                self.bytes -= PACKET_BYTES + bytes as usize;
                if port.waiting == 0 {
                    self.waiting.swap_remove(place);
                }
                return Some((packet, queued));
            }
        }
        self.earliest = self.due();
        None
    }

    fn due(&self) -> u128 {
        let waiting = self.waiting.iter().map(|index| &self.ports[*index]);
        waiting.filter(|port| !port.held).map(OutputPort::due).min().unwrap_or(u128::MAX)
    }

    /// Returns the time from which the next packet may leave, rounded up; `None` if none waits.
    pub fn next_due_ns(&self) -> Option<u64> {
        let due = self.due();
        // It is unknown when earlier programs release their ports.
        (self.packets > 0 && due < u128::MAX).then(|| u64::try_from(due.div_ceil(1000)).unwrap_or(u64::MAX))
    }

    /// Returns the time until the next packet may leave.
    pub fn next_due(&self, now_ns: u64) -> Option<Duration> {
        let due = self.next_due_ns().map(|due| Duration::from_nanos(due.saturating_sub(now_ns)));
        // There is no notification when a link has room again.
        due.into_iter().chain(self.is_blocked().then_some(LOOK_AT_LINK)).min()
    }
}

/// Packets for the worker that serves their queues, and memory on its way back.
pub(crate) struct Inbox<P, M> {
    content: Mutex<Content<P, M>>,
    /// Total numbers of packets put in and taken out.
    put: AtomicU64,
    taken: AtomicU64,
    /// True if another program's worker has replaced this one and nothing waits in it.
    resting: AtomicBool,
    /// True if there are packets.
    filled: AtomicBool,
    /// True if the worker sleeps, or is about to.
    asleep: AtomicBool,
    /// A socket pair that wakes the worker: the worker's end, and that of the others.
    wake: (UnixDatagram, UnixDatagram),
}

struct Content<P, M> {
    packets: Vec<P>,
    spare: Vec<M>,
    /// The highest sample number among the workers that put packets in: the last sample to which each contributed.
    epoch: u64,
}

impl<P, M> Inbox<P, M> {
    pub fn new() -> std::io::Result<Inbox<P, M>> {
        let wake = UnixDatagram::pair()?;
        wake.0.set_nonblocking(true)?;
        wake.1.set_nonblocking(true)?;
        Ok(Inbox {
            content: Mutex::new(Content { packets: Vec::new(), spare: Vec::new(), epoch: 0 }),
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            resting: AtomicBool::new(false),
            filled: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            wake,
        })
    }

    /// Puts packets in, as far as there is room, and takes memory out. `epoch` is the number of the last sample to
    /// which the caller contributed.
    pub fn put(&self, packets: &mut Vec<P>, epoch: u64, mut spare: impl FnMut(M)) {
        let mut content = lock(&self.content);
        let room = INBOX_MAX.saturating_sub(content.packets.len()).min(packets.len());
        content.packets.extend(packets.drain(..room));
        content.epoch = content.epoch.max(epoch);
        content.spare.drain(..).for_each(&mut spare);
        self.put.fetch_add(room as u64, SeqCst);
        self.filled.store(true, SeqCst);
        drop(content);
        if self.asleep.swap(false, SeqCst) {
            // If the send fails, the socket is full and the worker wakes anyway.
            drop(self.wake.1.send(&[0]));
        }
    }

    /// True if there are packets.
    pub fn is_filled(&self) -> bool {
        self.filled.load(SeqCst)
    }

    /// Appends the packets to `packets`, and puts spare memory in, one piece per packet, as far as there is any. The
    /// packets stay if a worker that put some in has contributed to a sample after `epoch`, the last one to which the
    /// caller contributed: in that later sample they would count as taken over, but not as handed over.
    pub fn take(&self, packets: &mut Vec<P>, epoch: u64, spare: impl FnMut() -> Option<M>) {
        let mut content = lock(&self.content);
        if content.epoch > epoch {
            return;
        }
        self.filled.store(false, SeqCst);
        let count = content.packets.len();
        packets.append(&mut content.packets);
        content.spare.extend(std::iter::from_fn(spare).take(count));
        if count > 0 {
            // In this order: see `all_rest`.
            self.resting.store(false, SeqCst);
            self.taken.fetch_add(count as u64, SeqCst);
        }
    }

    /// Records whether this worker, of a replaced program, is empty.
    pub fn set_resting(&self, resting: bool) {
        self.resting.store(resting, SeqCst);
    }

    /// Prepares the worker's sleep until [`Self::wake_fd`] becomes readable. Returns false if packets are there
    /// already.
    pub fn sleep(&self) -> bool {
        let mut byte = [0; 1];
        while self.wake.0.recv(&mut byte).is_ok() {}
        self.asleep.store(true, SeqCst);
        if self.is_filled() {
            self.asleep.store(false, SeqCst);
            return false;
        }
        true
    }

    /// Returns the descriptor that becomes readable when packets have arrived since [`Self::sleep`].
    pub fn wake_fd(&self) -> RawFd {
        self.wake.0.as_raw_fd()
    }
}

/// Returns true if no packet waits in the workers with these inboxes, or between them, and none will: only a worker
/// in which packets wait can put some into the inbox of another.
pub(crate) fn all_rest<P, M>(inboxes: &[Inbox<P, M>]) -> bool {
    let put = || -> u64 { inboxes.iter().map(|inbox| inbox.put.load(SeqCst)).sum() };
    let before = put();
    let taken: u64 = inboxes.iter().map(|inbox| inbox.taken.load(SeqCst)).sum();
    // If nothing was put in meanwhile, workers that rested still rest.
    before == taken && inboxes.iter().all(|inbox| inbox.resting.load(SeqCst)) && put() == before
}

/// Maximum number of packets in an inbox.
const INBOX_MAX: usize = 1 << 14;

#[cfg(test)]
mod tests;
