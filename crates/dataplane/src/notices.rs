//! Messages to subscribers: digests that the program sends, entries that age, ports that come and go.
//!
//! Workers never wait for subscribers. A thread empties the rings of digests and checks the entries with timeouts while
//! there are subscribers, and puts its messages into one bounded queue per subscriber. A subscriber that does not read
//! loses messages, which are counted; other subscribers lose nothing.

use crate::forward::{Event, Listener};
use crate::switch::Switch;
use p4jet_externs::{Digest, DigestCounts};
use p4jet_ir::TableId;
use p4jet_ports::LinkStatus;
use p4jet_tables::{Entry, EntryHandle, Life, Table};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Subscribers at a time.
pub const SUBSCRIBERS_MAX: usize = 256;
/// Messages that wait for a subscriber.
pub const WAITING_MAX: usize = 1 << 16;
/// About how many bytes these may have together.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// How often rings are looked into while digests come, and while none do.
const LOOK_BUSY: Duration = Duration::from_millis(1);
const LOOK_IDLE: Duration = Duration::from_millis(5);
/// Digests of a worker that are taken at once: others wait behind them.
const TAKEN_MAX: usize = 4096;
/// How often entries with timeouts are looked at, and how many at once: commands wait meanwhile.
const SWEEP: Duration = Duration::from_millis(20);
const SWEPT_MAX: usize = 1024;
/// Messages of workers about ports that may wait.
const PORTS_WAITING_MAX: usize = 256;

/// The topics of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    /// Digests.
    pub digests: bool,
    /// Entries that nothing has hit for as long as their timeouts say.
    pub ageing: bool,
    /// Ports added and removed, links that go down and come up.
    pub ports: bool,
}

/// Something that happened.
pub enum Notice {
    /// The program sent a message.
    Digest {
        /// The switch whose program sent it.
        switch: Arc<Switch>,
        /// The message.
        digest: Digest,
    },
    /// Nothing has hit an entry for the time of its timeout. Reported once, until something hits the entry again;
    /// a new subscriber gets those that are already idle.
    Aged {
        /// The switch whose entry it is.
        switch: Arc<Switch>,
        /// Its table.
        table: TableId,
        /// Its handle.
        handle: EntryHandle,
        /// What it is.
        entry: Entry,
        /// How long it has been idle.
        life: Life,
    },
    /// Something is new with a port.
    Port {
        /// Its number.
        number: u32,
        /// What.
        change: PortChange,
    },
}

/// What is new with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// It was added: what it is, as it was given.
    Added(String),
    /// It was removed.
    Removed,
    /// Its link is up again.
    Up,
    /// Its link is down, for this reason.
    Down(String),
    /// It failed, for this reason, and is no longer used.
    Failed(String),
}

impl Notice {
    fn is_of(&self, topics: Topics) -> bool {
        match self {
            Notice::Digest { .. } => topics.digests,
            Notice::Aged { .. } => topics.ageing,
            Notice::Port { .. } => topics.ports,
        }
    }

    /// About what it takes.
    fn bytes(&self) -> usize {
        let more = match self {
            Notice::Digest { digest, .. } => 8 * digest.limbs.len(),
            Notice::Aged { entry, .. } => 64 * (entry.key.len() + entry.action.data.len()),
            Notice::Port { change, .. } => match change {
                PortChange::Added(text) | PortChange::Down(text) | PortChange::Failed(text) => text.len(),
                PortChange::Removed | PortChange::Up => 0,
            },
        };
        size_of::<Notice>() + 32 + more
    }
}

/// What a subscriber got.
#[derive(Default)]
pub struct Received {
    /// What happened, in order. Empty if nothing did while the subscriber waited.
    pub notices: VecDeque<Arc<Notice>>,
    /// Messages that were lost after these.
    pub lost: u64,
    /// Whether nothing will follow: the switch has been stopped.
    pub ended: bool,
}

/// A subscription. Dropping it ends it.
pub struct Subscription {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
}

impl Subscription {
    /// What has happened since the last call. If that is nothing this waits, for so long at most.
    pub fn receive(&self, wait: Duration) -> Received {
        let until = Instant::now() + wait;
        let mut waiting = self.queue.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let nothing = waiting.notices.is_empty() && waiting.lost == 0;
            if !nothing || waiting.ended || left.is_zero() {
                waiting.bytes = 0;
                let notices = std::mem::take(&mut waiting.notices);
                let lost = std::mem::take(&mut waiting.lost);
                return Received { notices, lost, ended: waiting.ended };
            }
            let (guard, _) =
                self.queue.more.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
            waiting = guard;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        state.subscribers.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        self.hub.heed(&state);
    }
}

/// What waits for a subscriber.
struct Queue {
    topics: Topics,
    /// Whether it has received the entries that were idle before it began.
    knows_idle: AtomicBool,
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    notices: VecDeque<Arc<Notice>>,
    bytes: usize,
    lost: u64,
    ended: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // What is behind it is never left half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in what the subscriber wants of these and has room for; `lost` more, after them, were lost before they came
    /// here.
    fn put(&self, notices: &[Arc<Notice>], lost: u64) {
        let mut waiting = self.lock();
        for notice in notices.iter().filter(|notice| notice.is_of(self.topics)) {
            let bytes = notice.bytes();
            // Once something is lost what follows waits for the subscriber to hear of it.
            if waiting.lost > 0
                || waiting.notices.len() >= WAITING_MAX
                || waiting.bytes + bytes > WAITING_BYTES_MAX
            {
                waiting.lost += 1;
                continue;
            }
            waiting.bytes += bytes;
            waiting.notices.push_back(Arc::clone(notice));
        }
        waiting.lost += lost;
        if !waiting.notices.is_empty() || waiting.lost > 0 {
            self.more.notify_one();
        }
    }
}

/// The hub through which all messages pass.
pub(crate) struct Hub {
    state: Mutex<State>,
    /// For workers, which never wait for the state.
    from_workers: SyncSender<Notice>,
    /// Held by the thread that distributes messages.
    to_hand_out: Mutex<Receiver<Notice>>,
    /// Whether a subscriber has the topic `ports`.
    ports: AtomicBool,
    /// Messages of workers about ports that were lost.
    lost: AtomicU64,
}

#[derive(Default)]
struct State {
    subscribers: Vec<Arc<Queue>>,
    /// The one that runs, last, and those whose workers may still send something.
    switches: Vec<Sending>,
    /// What became of the digests of switches that are not among these any more.
    past: DigestCounts,
    /// Whether the thread runs.
    hands_out: bool,
    ended: bool,
}

/// A switch that sends digests.
struct Sending {
    switch: Arc<Switch>,
    /// Digests that its workers had no room for, as far as they were reported to subscribers.
    dropped: u64,
}

/// Digests, and how many more were lost.
struct Found {
    notices: Vec<Arc<Notice>>,
    lost: u64,
}

impl Sending {
    /// Takes digests, at most this many of each worker.
    fn take(&mut self, max: usize) -> Found {
        let state = self.switch.state();
        // Read first: later losses are reported the next time.
        let dropped = state.digest_counts().dropped;
        let lost = dropped - std::mem::replace(&mut self.dropped, dropped);
        let mut notices = Vec::new();
        state.take_digests(max, |digest| {
            let switch = Arc::clone(&self.switch);
            notices.push(Arc::new(Notice::Digest { switch, digest }));
        });
        Found { notices, lost }
    }
}

impl State {
    /// Passes digests to their subscribers.
    fn give(&self, found: &Found) {
        for queue in self.subscribers.iter().filter(|queue| queue.topics.digests) {
            queue.put(&found.notices, found.lost);
        }
    }

    /// Passes waiting digests to subscribers, at most this many of each worker. Returns their number.
    fn take_digests(&mut self, max: usize) -> usize {
        let found: Vec<Found> = self.switches.iter_mut().map(|sending| sending.take(max)).collect();
        found.iter().for_each(|found| self.give(found));
        found.iter().map(|found| found.notices.len()).sum()
    }

    /// Reports entries that are idle now.
    fn sweep(&self) {
        let Some(Sending { switch, .. }) = self.switches.last() else { return };
        let queues: Vec<_> = self.subscribers.iter().filter(|queue| queue.topics.ageing).collect();
        if queues.is_empty() {
            return;
        }
        let (new, old): (Vec<_>, Vec<_>) =
            queues.into_iter().partition(|queue| !queue.knows_idle.swap(true, Ordering::Relaxed));
        let now_us = switch.now_us();
        let timed = switch.program().tables.iter().zip(0..).filter(|(table, _)| table.idle_timeout);
        for id in timed.map(|(_, id)| TableId(id)) {
            let notice = |table: &Table, handle: EntryHandle| {
                let (entry, life) = (table.get(handle)?, table.life(handle, now_us)?);
                let switch = Arc::clone(switch);
                Some(Arc::new(Notice::Aged { switch, table: id, handle, entry, life }))
            };
            if !new.is_empty() {
                let table = switch.table(id);
                let idle = table.idle(now_us);
                let lost = idle.len().saturating_sub(WAITING_MAX) as u64;
                let first = idle.into_iter().take(WAITING_MAX);
                let first: Vec<_> = first.filter_map(|handle| notice(&table, handle)).collect();
                drop(table);
                new.iter().for_each(|queue| queue.put(&first, lost));
            }
            let mut more = true;
            while more {
                let mut table = switch.table(id);
                let idle = table.sweep(now_us, SWEPT_MAX);
                let found: Vec<_> = idle.handles.into_iter().filter_map(|h| notice(&table, h)).collect();
                drop(table);
                more = idle.more;
                if !found.is_empty() {
                    old.iter().for_each(|queue| queue.put(&found, 0));
                }
            }
        }
    }
}

fn add(to: &mut DigestCounts, more: DigestCounts) {
    to.sent += more.sent;
    to.unheard += more.unheard;
    to.dropped += more.dropped;
}

impl Hub {
    pub fn new(switch: &Arc<Switch>) -> Arc<Hub> {
        let (from_workers, to_hand_out) = sync_channel(PORTS_WAITING_MAX);
        switch.state().hear_digests(false);
        let switches = vec![Sending { switch: Arc::clone(switch), dropped: 0 }];
        Arc::new(Hub {
            state: Mutex::new(State { switches, ..State::default() }),
            from_workers,
            to_hand_out: Mutex::new(to_hand_out),
            ports: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is behind it is never left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forwards events of workers to a listener, and those of ports to subscribers.
    pub fn listener(self: &Arc<Hub>, listener: Listener) -> Listener {
        let hub = Arc::clone(self);
        Arc::new(move |event| {
            listener(event);
            if hub.ports.load(Ordering::Relaxed) {
                let (number, change) = match event {
                    Event::Log(_)
                    | Event::Stuck(_)
                    | Event::Unstuck(..)
                    | Event::Follows(_)
                    | Event::Interpreting
                    | Event::MachineCode(_)
                    | Event::NoMachineCode(_) => return,
                    Event::PortFailed(number, error) => (number, PortChange::Failed(error.to_string())),
                    Event::Link(number, LinkStatus::Up) => (number, PortChange::Up),
                    Event::Link(number, LinkStatus::Down(why)) => (number, PortChange::Down(why.clone())),
                };
                if hub.from_workers.try_send(Notice::Port { number, change }).is_err() {
                    hub.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    }

    /// Reports an event outside the workers.
    pub fn tell(&self, notice: Notice) {
        let notice = [Arc::new(notice)];
        self.lock().subscribers.iter().for_each(|queue| queue.put(&notice, 0));
    }

    /// Lets the workers know whether anybody listens.
    fn heed(&self, state: &State) {
        let any = |wanted: fn(&Topics) -> bool| state.subscribers.iter().any(|queue| wanted(&queue.topics));
        self.ports.store(any(|topics| topics.ports), Ordering::Relaxed);
        if let Some(Sending { switch, .. }) = state.switches.last() {
            switch.state().hear_digests(any(|topics| topics.digests));
        }
    }

    pub fn subscribe(self: &Arc<Hub>, topics: Topics) -> Result<Subscription, String> {
        let knows_idle = AtomicBool::new(!topics.ageing);
        let queue = Queue { topics, knows_idle, waiting: Mutex::default(), more: Condvar::new() };
        let queue = Arc::new(queue);
        let mut state = self.lock();
        if state.ended {
            return Err("the switch has been stopped".to_string());
        }
        if state.subscribers.len() >= SUBSCRIBERS_MAX {
            return Err(format!("there are {SUBSCRIBERS_MAX} subscribers already, which is the maximum"));
        }
        if !state.hands_out {
            let hub = Arc::clone(self);
            let thread = p4jet_threads::spawn("notices", move || hub.hand_out());
            thread.map_err(|e| format!("no thread for notices: {e}"))?;
            state.hands_out = true;
        }
        state.subscribers.push(Arc::clone(&queue));
        self.heed(&state);
        Ok(Subscription { hub: Arc::clone(self), queue })
    }

    /// Another program runs, or will when all workers have changed over.
    pub fn follow(&self, switch: &Arc<Switch>) {
        self.lock().switches.push(Sending { switch: Arc::clone(switch), dropped: 0 });
    }

    /// No worker has changed over to this one, and none will.
    pub fn unfollow(&self, switch: &Arc<Switch>) {
        self.lock().switches.retain(|sending| !Arc::ptr_eq(&sending.switch, switch));
    }

    /// Takes what is left of switches that send nothing more, and lets go of them.
    pub fn collect(&self) {
        self.collect_from(&mut self.lock());
    }

    fn collect_from(&self, state: &mut State) {
        let Some(last) = state.switches.pop() else { return };
        let earlier = std::mem::take(&mut state.switches);
        let (runs, ended): (Vec<_>, Vec<_>) = earlier.into_iter().partition(|s| s.switch.has_workers());
        state.switches = runs;
        state.switches.push(last);
        for mut sending in ended {
            let found = sending.take(usize::MAX);
            state.give(&found);
            add(&mut state.past, sending.switch.state().digest_counts());
        }
    }

    /// What became of all digests so far.
    pub fn digest_counts(&self) -> DigestCounts {
        let mut state = self.lock();
        self.collect_from(&mut state);
        let mut sum = state.past;
        for sending in &state.switches {
            add(&mut sum, sending.switch.state().digest_counts());
        }
        sum
    }

    /// The switch has stopped: subscribers get the remaining messages and then the end.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.take_digests(usize::MAX);
        for queue in &state.subscribers {
            queue.lock().ended = true;
            queue.more.notify_one();
        }
    }

    /// Distributes messages until there is no subscriber.
    fn hand_out(&self) {
        let ports = self.to_hand_out.lock().unwrap_or_else(PoisonError::into_inner);
        // From before anybody listened.
        while ports.try_recv().is_ok() {}
        let (mut look, mut swept) = (LOOK_BUSY, None::<Instant>);
        loop {
            let port = match ports.recv_timeout(look) {
                Ok(notice) => Some(Arc::new(notice)),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut state = self.lock();
            if state.subscribers.is_empty() || state.ended {
                state.hands_out = false;
                return;
            }
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if port.is_some() || lost > 0 {
                let port: Vec<_> = port.into_iter().collect();
                for queue in state.subscribers.iter().filter(|queue| queue.topics.ports) {
                    queue.put(&port, lost);
                }
            }
            if swept.is_none_or(|swept| swept.elapsed() >= SWEEP) {
                state.sweep();
                swept = Some(Instant::now());
            }
            look = match state.take_digests(TAKEN_MAX) {
                0 => LOOK_IDLE,
                1..TAKEN_MAX => LOOK_BUSY,
                // There are more.
                _ => Duration::ZERO,
            };
            if state.switches.len() > 1 {
                self.collect_from(&mut state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_comes_after_what_is_not() {
        let topics = Topics { ports: true, ..Topics::default() };
        let queue = Queue {
            topics,
            knows_idle: AtomicBool::new(true),
            waiting: Mutex::default(),
            more: Condvar::new(),
        };
        let notice = |number| Arc::new(Notice::Port { number, change: PortChange::Up });
        queue.put(&[notice(1), notice(2)], 3);
        // In order: not before the subscriber has heard of the loss.
        queue.put(&[notice(6)], 0);
        let waiting = queue.lock();
        assert_eq!((waiting.notices.len(), waiting.lost), (2, 4));
    }
}
