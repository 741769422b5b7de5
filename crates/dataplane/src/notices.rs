//! Messages to subscribers: digests that the program sends, entries that age, ports that come and go.
//!
//! Workers never wait for subscribers. A thread empties the rings of digests and checks the entries with timeouts while
//! there are subscribers, and puts its messages into one bounded queue per subscriber. A subscriber that does not read
//! loses messages, which are counted; other subscribers lose nothing.

use crate::event::{Event, Listener};
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
/// Approximate maximum number of their bytes.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Interval at which digests are fetched while there are some, and while there are none.
const LOOK_BUSY: Duration = Duration::from_millis(1);
const LOOK_IDLE: Duration = Duration::from_millis(5);
/// Maximum number of digests fetched from a worker at once; the other workers' digests wait meanwhile.
const TAKEN_MAX: usize = 4096;
/// Interval at which entries with timeouts are checked, and their maximum number per table lock: commands wait
/// meanwhile.
const SWEEP: Duration = Duration::from_millis(20);
const SWEPT_MAX: usize = 1024;
/// Messages of workers about ports that may wait.
const PORTS_WAITING_MAX: usize = 256;

/// The topics of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    /// Digests.
    pub digests: bool,
    /// Entries that no packet has hit for the time of their timeouts.
    pub ageing: bool,
    /// Ports that are added, removed or fail, and links that go down or come up.
    pub ports: bool,
}

/// A message to subscribers.
pub enum Notice {
    /// The program sent a message.
    Digest {
        /// The switch whose program sent it.
        switch: Arc<Switch>,
        /// The message.
        digest: Digest,
    },
    /// No packet has hit an entry for the time of its timeout. Reported once, until a packet hits the entry again; a
    /// new subscriber gets the entries that are already idle.
    Aged {
        /// The switch whose entry it is.
        switch: Arc<Switch>,
        /// Its table.
        table: TableId,
        /// Its handle.
        handle: EntryHandle,
        /// Its content.
        entry: Entry,
        /// Its timeout and its idle time.
        life: Life,
    },
    /// A port has changed.
    Port {
        /// Its number.
        number: u32,
        /// The change.
        change: PortChange,
    },
}

/// A change of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// It was added, with this specification.
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

    /// Returns its approximate size in memory.
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

/// The messages that a subscriber received.
#[derive(Default)]
pub struct Received {
    /// The messages, in order. Empty if none arrived while the subscriber waited.
    pub notices: VecDeque<Arc<Notice>>,
    /// Number of messages lost after these.
    pub lost: u64,
    /// True if no more messages follow because the switch has been stopped.
    pub ended: bool,
}

/// A subscription. Dropping it ends it.
pub struct Subscription {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
}

impl Subscription {
    /// Returns the messages since the last call. If there are none, waits for one, for at most `wait`.
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
        self.hub.note_topics(&state);
    }
}

/// A subscriber's queue of messages.
struct Queue {
    topics: Topics,
    /// True once it has received the entries that were idle before it began.
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
        // Data behind this lock is never left half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the messages that the subscriber wants and has room for. `lost` is the number of later messages that were
    /// lost before they came here.
    fn put(&self, notices: &[Arc<Notice>], lost: u64) {
        let mut waiting = self.lock();
        for notice in notices.iter().filter(|notice| notice.is_of(self.topics)) {
            let bytes = notice.bytes();
            // After a loss, no message is added until the subscriber has received the count.
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
    /// Port messages of workers, which never wait for `state`.
    from_workers: SyncSender<Notice>,
    /// Held by the thread that distributes messages.
    to_hand_out: Mutex<Receiver<Notice>>,
    /// True if a subscriber has the topic `ports`.
    ports: AtomicBool,
    /// Number of workers' port messages that were lost.
    lost: AtomicU64,
}

#[derive(Default)]
struct State {
    subscribers: Vec<Arc<Queue>>,
    /// The switches whose workers may still send digests; the running one is the last.
    switches: Vec<Sending>,
    /// Digest counts of switches that are no longer in `switches`.
    past: DigestCounts,
    /// True while the thread runs.
    hands_out: bool,
    ended: bool,
}

/// A switch that sends digests.
struct Sending {
    switch: Arc<Switch>,
    /// Number of digests dropped for lack of room that subscribers already know of.
    dropped: u64,
}

/// Digests fetched from a switch, and the number of lost ones.
struct Found {
    notices: Vec<Arc<Notice>>,
    lost: u64,
}

impl Sending {
    /// Fetches at most `max` digests of each worker.
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

    /// Passes at most `max` waiting digests of each worker to subscribers. Returns their number.
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
    to.without_subscriber += more.without_subscriber;
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
        // Data behind this lock is never left half changed.
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
    pub fn publish(&self, notice: Notice) {
        let notice = [Arc::new(notice)];
        self.lock().subscribers.iter().for_each(|queue| queue.put(&notice, 0));
    }

    /// Records for the workers which topics have subscribers.
    fn note_topics(&self, state: &State) {
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
        self.note_topics(&state);
        Ok(Subscription { hub: Arc::clone(self), queue })
    }

    /// Adds the switch of the next program, before the workers switch to it.
    pub fn follow(&self, switch: &Arc<Switch>) {
        self.lock().switches.push(Sending { switch: Arc::clone(switch), dropped: 0 });
    }

    /// Removes a switch to which no worker has switched, and none will.
    pub fn unfollow(&self, switch: &Arc<Switch>) {
        self.lock().switches.retain(|sending| !Arc::ptr_eq(&sending.switch, switch));
    }

    /// Fetches the last digests of switches without workers, and drops those switches.
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

    /// Returns the digest counts of all switches so far.
    pub fn digest_counts(&self) -> DigestCounts {
        let mut state = self.lock();
        self.collect_from(&mut state);
        let mut sum = state.past;
        for sending in &state.switches {
            add(&mut sum, sending.switch.state().digest_counts());
        }
        sum
    }

    /// Passes the remaining messages to subscribers and ends their subscriptions.
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
        // Discards messages from before the first subscription.
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
                // More digests wait.
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
    fn lost_counts_follow_messages() {
        let topics = Topics { ports: true, ..Topics::default() };
        let queue = Queue {
            topics,
            knows_idle: AtomicBool::new(true),
            waiting: Mutex::default(),
            more: Condvar::new(),
        };
        let notice = |number| Arc::new(Notice::Port { number, change: PortChange::Up });
        queue.put(&[notice(1), notice(2)], 3);
        // Not before the subscriber has received the count of the lost messages.
        queue.put(&[notice(6)], 0);
        let waiting = queue.lock();
        assert_eq!((waiting.notices.len(), waiting.lost), (2, 4));
    }
}
