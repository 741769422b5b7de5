//! Messages from the workers to the control plane.
//!
//! Each worker has its own ring. Sending waits for no lock and allocates nothing; messages that do not fit are counted.

use crate::apart::Apart;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A message to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The instance that sent it.
    pub instance: u32,
    /// The time in microseconds since the switch started.
    pub now_us: u64,
    /// The limbs of its values, in sequence.
    pub limbs: Box<[u64]>,
}

/// Counts of sent and lost messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestCounts {
    /// All sent messages.
    pub sent: u64,
    /// The part of them that was sent without a subscriber.
    pub without_subscriber: u64,
    /// The part of them that was lost because earlier messages still waited.
    pub dropped: u64,
}

/// Words of a ring: some thousands of messages.
const RING_WORDS: usize = 1 << 15;
/// Words before the limbs: instance and number of limbs, time.
const HEAD_WORDS: usize = 2;

/// Number of checks of a ring that another sender uses before a sender gives up a message.
const LOOKS: u32 = 1000;

/// The messages of one worker.
struct Ring {
    words: Apart<AtomicU64>,
    /// Written by senders: words ever inserted, messages kept, without_subscriber, dropped.
    sender: Apart<AtomicU64>,
    /// Number of words ever removed.
    taken: Apart<AtomicU64>,
    /// True while a sender uses the ring. Normally there is only one sender, so none waits.
    busy: AtomicBool,
}

const PUT: usize = 0;
const KEPT: usize = 1;
const WITHOUT_SUBSCRIBER: usize = 2;
const DROPPED: usize = 3;

impl Ring {
    fn new() -> Ring {
        Ring {
            words: Apart::zeroed(RING_WORDS),
            sender: Apart::zeroed(4),
            taken: Apart::zeroed(1),
            busy: AtomicBool::new(false),
        }
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[at as usize % RING_WORDS]
    }

    fn count(&self, what: usize) {
        self.sender[what].fetch_add(1, Ordering::Relaxed);
    }

    /// Inserts a message if there is room.
    fn put(&self, instance: u32, now_us: u64, limbs: &[u64]) {
        let mut looks = 0;
        while self.busy.swap(true, Ordering::Acquire) {
            looks += 1;
            if looks == LOOKS {
                return self.count(DROPPED);
            }
            std::hint::spin_loop();
        }
        let put = self.sender[PUT].load(Ordering::Relaxed);
        let used = put - self.taken[0].load(Ordering::Acquire);
        let words = (HEAD_WORDS + limbs.len()) as u64;
        if used + words > RING_WORDS as u64 {
            self.count(DROPPED);
        } else {
            self.word(put).store(u64::from(instance) | (limbs.len() as u64) << 32, Ordering::Relaxed);
            self.word(put + 1).store(now_us, Ordering::Relaxed);
            for (at, limb) in (put + HEAD_WORDS as u64..).zip(limbs) {
                self.word(at).store(*limb, Ordering::Relaxed);
            }
            self.sender[PUT].store(put + words, Ordering::Release);
            // Only the current sender writes this.
            let kept = self.sender[KEPT].load(Ordering::Relaxed);
            self.sender[KEPT].store(kept + 1, Ordering::Relaxed);
        }
        self.busy.store(false, Ordering::Release);
    }

    /// Removes the oldest message. Only one thread may do so at a time.
    fn take(&self) -> Option<Digest> {
        let taken = self.taken[0].load(Ordering::Relaxed);
        if taken == self.sender[PUT].load(Ordering::Acquire) {
            return None;
        }
        let head = self.word(taken).load(Ordering::Relaxed);
        let now_us = self.word(taken + 1).load(Ordering::Relaxed);
        let begin = taken + HEAD_WORDS as u64;
        let end = begin + (head >> 32);
        let limbs = (begin..end).map(|at| self.word(at).load(Ordering::Relaxed)).collect();
        self.taken[0].store(end, Ordering::Release);
        Some(Digest { instance: head as u32, now_us, limbs })
    }
}

/// The messages of all workers of a program.
pub(crate) struct Digests {
    /// Empty if the program has no digests.
    rings: Vec<Ring>,
    /// Held by the thread that takes messages.
    taking: Mutex<()>,
}

impl Digests {
    pub fn new(workers: usize) -> Digests {
        Digests { rings: (0..workers).map(|_| Ring::new()).collect(), taking: Mutex::new(()) }
    }

    /// Called by the worker; `heard` is true if there is a subscriber.
    pub fn send(&self, worker: usize, heard: bool, instance: u32, now_us: u64, limbs: &[u64]) {
        let Some(ring) = self.rings.get(worker) else { return };
        if heard { ring.put(instance, now_us, limbs) } else { ring.count(WITHOUT_SUBSCRIBER) }
    }

    fn taking(&self) -> MutexGuard<'_, ()> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes at most this many messages of each worker, the oldest first.
    pub fn take(&self, max: usize, mut to: impl FnMut(Digest)) {
        let _one = self.taking();
        for ring in &self.rings {
            std::iter::from_fn(|| ring.take()).take(max).for_each(&mut to);
        }
    }

    pub fn counts(&self) -> DigestCounts {
        let sum = |what: usize| self.rings.iter().map(|ring| ring.sender[what].load(Ordering::Relaxed)).sum();
        let (without_subscriber, dropped): (u64, u64) = (sum(WITHOUT_SUBSCRIBER), sum(DROPPED));
        DigestCounts { sent: sum(KEPT) + without_subscriber + dropped, without_subscriber, dropped }
    }
}
