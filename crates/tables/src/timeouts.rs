//! Finds entries that no packet has hit for a given time.
//!
//! The last word of an entry's row holds the time of its last hit; workers write it. The writer keeps the timeouts and
//! the time of the next check of each entry, so that checking costs nothing while no entry is due.

use crate::EntryHandle;
use std::collections::{BTreeSet, HashMap};

/// The times of hits are stored in units of 2^`HIT_SHIFT` µs, about 8 ms, so that a word is not written more often than
/// that.
pub const HIT_SHIFT: u32 = 13;

/// Returns the time word of a hit.
pub(crate) fn hit_word(now_us: u64) -> u64 {
    now_us >> HIT_SHIFT
}

/// The state of an entry with a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The entry is idle after this many milliseconds without a hit.
    pub timeout_ms: u32,
    /// Milliseconds since the last hit, or since the timeout was set.
    pub since_hit_ms: u64,
}

/// An entry's timeout with the time of its last hit (see [`Table::saved_timeout`](crate::Table::saved_timeout)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedTimeout {
    pub(crate) ms: u32,
    /// The time word of the last hit.
    pub(crate) hit: u64,
    /// The time word for which the entry was reported as idle.
    pub(crate) reported: Option<u64>,
}

/// The timeouts of a table.
#[derive(Default)]
pub(crate) struct Timeouts {
    by_slot: HashMap<u32, Timeout>,
    /// When to check which slot.
    due: BTreeSet<(u64, u32)>,
}

struct Timeout {
    ms: u32,
    due_us: u64,
    /// The time word for which the entry was reported as idle, so that it is reported once.
    reported: Option<u64>,
}

impl Timeouts {
    /// Returns the timeout of the entry in a slot in milliseconds; 0 if it has none.
    pub fn get(&self, slot: u32) -> u32 {
        self.by_slot.get(&slot).map_or(0, |timeout| timeout.ms)
    }

    /// Returns the time word for which the entry in a slot was reported as idle.
    pub fn reported(&self, slot: u32) -> Option<u64> {
        self.by_slot.get(&slot).and_then(|timeout| timeout.reported)
    }

    pub fn set(&mut self, slot: u32, ms: u32, now_us: u64) {
        self.restore(slot, ms, hit_word(now_us), None);
    }

    /// Sets the timeout of an entry that was last hit at this time word, and reported as idle for the time word `reported`.
    pub fn restore(&mut self, slot: u32, ms: u32, hit: u64, reported: Option<u64>) {
        self.remove(slot);
        if ms > 0 {
            let due_us = idle_from(hit, ms);
            self.due.insert((due_us, slot));
            self.by_slot.insert(slot, Timeout { ms, due_us, reported });
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

    /// Collects the slots whose entries have become idle, after examining at most `max`; `hit` returns the time of a
    /// slot's last hit. True if more entries are due.
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
                if timeout.reported.replace(word) != Some(word) {
                    idle.push(slot);
                }
                // An entry that is hit from now on is not idle before then.
                timeout.due_us = now_us + 1000 * u64::from(timeout.ms);
            }
            self.due.insert((timeout.due_us, slot));
        }
        true
    }

    /// Returns the slots whose entries are idle, reported or not.
    pub fn idle(&self, now_us: u64, hit: impl Fn(u32) -> u64) -> Vec<u32> {
        let all = self.by_slot.iter();
        let idle = all.filter(|(slot, timeout)| idle_from(hit(**slot), timeout.ms) <= now_us);
        let mut slots: Vec<u32> = idle.map(|(slot, _)| *slot).collect();
        slots.sort_unstable();
        slots
    }
}

/// Returns the time at which an entry with this last hit is idle for certain.
fn idle_from(word: u64, ms: u32) -> u64 {
    ((word + 1) << HIT_SHIFT) + 1000 * u64::from(ms)
}

/// Entries that became idle.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// The entries that became idle since the last sweep.
    pub handles: Vec<EntryHandle>,
    /// True if there may be more at this time.
    pub more: bool,
}
