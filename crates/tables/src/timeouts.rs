//! Finds entries that no packet has hit for a while.
//!
//! The last word of an entry's row holds the time of its last hit; workers write it. The writer keeps the timeouts, and
//! when to check which entry again, so that checking costs nothing while no entry is due.

use crate::EntryHandle;
use std::collections::{BTreeSet, HashMap};

/// Times of hits are kept in units of so many microseconds, as a power of two: about 8 ms. So a word is written no more
/// often than that.
pub const HIT_SHIFT: u32 = 13;

/// The time word of a hit.
pub(crate) fn hit_word(now_us: u64) -> u64 {
    now_us >> HIT_SHIFT
}

/// The state of an entry with a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The milliseconds without a hit after which it is idle.
    pub timeout_ms: u32,
    /// Since the last hit, or since the timeout was set.
    pub since_hit_ms: u64,
}

/// The timeouts of a table.
#[derive(Default)]
pub(crate) struct Timeouts {
    by_slot: HashMap<u32, Timeout>,
    /// When to look at which slot.
    due: BTreeSet<(u64, u32)>,
}

struct Timeout {
    ms: u32,
    due_us: u64,
    /// The time word for which the entry was found idle, so that it is reported once.
    told: Option<u64>,
}

impl Timeouts {
    /// The timeout of the entry in a slot, in milliseconds; 0 if it has none.
    pub fn get(&self, slot: u32) -> u32 {
        self.by_slot.get(&slot).map_or(0, |timeout| timeout.ms)
    }

    pub fn set(&mut self, slot: u32, ms: u32, now_us: u64) {
        self.remove(slot);
        if ms > 0 {
            let due_us = idle_from(hit_word(now_us), ms);
            self.due.insert((due_us, slot));
            self.by_slot.insert(slot, Timeout { ms, due_us, told: None });
        }
    }

    pub fn remove(&mut self, slot: u32) {
        if let Some(timeout) = self.by_slot.remove(&slot) {
            self.due.remove(&(timeout.due_us, slot));
        }
    }

    pub fn clear(&mut self) {
        *self = Timeouts::default();
    }

    /// The slots whose entries have become idle, after looking at no more than `max`; `hit` says when one was last hit.
    /// True if that was not all that is due.
    pub fn sweep(&mut self, now_us: u64, max: usize, hit: impl Fn(u32) -> u64, idle: &mut Vec<u32>) -> bool {
        for _ in 0..max {
            let Some(&(due_us, slot)) = self.due.first().filter(|(due_us, _)| *due_us <= now_us) else {
                return false;
            };
            self.due.remove(&(due_us, slot));
            let Some(timeout) = self.by_slot.get_mut(&slot) else { continue };
            let word = hit(slot);
            timeout.due_us = idle_from(word, timeout.ms);
            if timeout.due_us <= now_us {
                if timeout.told.replace(word) != Some(word) {
                    idle.push(slot);
                }
                // A hit from now on is not idle before then.
                timeout.due_us = now_us + 1000 * u64::from(timeout.ms);
            }
            self.due.insert((timeout.due_us, slot));
        }
        true
    }

    /// The slots whose entries are idle, reported or not.
    pub fn idle(&self, now_us: u64, hit: impl Fn(u32) -> u64) -> Vec<u32> {
        let all = self.by_slot.iter();
        let idle = all.filter(|(slot, timeout)| idle_from(hit(**slot), timeout.ms) <= now_us);
        let mut slots: Vec<u32> = idle.map(|(slot, _)| *slot).collect();
        slots.sort_unstable();
        slots
    }
}

/// When an entry that was last hit at a time is idle for certain.
fn idle_from(word: u64, ms: u32) -> u64 {
    ((word + 1) << HIT_SHIFT) + 1000 * u64::from(ms)
}

/// Entries of a table that are idle.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Those that have become so.
    pub handles: Vec<EntryHandle>,
    /// Whether there may be more at this time.
    pub more: bool,
}
