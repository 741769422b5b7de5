//! Open addressing with linear probing that readers walk while the writer changes it.
//!
//! A slot's key is written once, before its value, and never changes during the lifetime of the memory: a deleted slot keeps
//! its key and can only be reused for that key. So a reader that sees a value and then finds the key equal has the value of
//! that key.

use crate::memory::Region;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Value of a slot that was never used.
pub(crate) const EMPTY: u32 = 0;
/// Value of a slot whose key was deleted.
pub(crate) const DELETED: u32 = u32::MAX;

const CAPACITY_MIN: usize = 8;
/// A longer probe makes the table grow, regardless of its load.
const PROBE_MAX: usize = 96;
/// When more than `LOAD_MOVE` of 100 slots are in use, entries move to a larger memory. There are never more than `LOAD_MAX`.
const LOAD_MOVE: usize = 50;
const LOAD_MAX: usize = 65;
/// Tables of up to this many entries have 6 to 16 slots per entry, so that nearly every search ends where it starts: whether
/// a search continues is hard to predict.
const FEW: usize = 2048;
const LOAD_MOVE_FEW: usize = 16;
/// Memory of at least this many bytes uses large pages.
const HUGE_BYTES_MIN: usize = 2 << 20;

pub(crate) struct Probe {
    pub region: Arc<Region>,
    limbs: usize,
    capacity: usize,
    pub seed: u64,
    /// Number of slots that are not empty.
    used: usize,
    count: usize,
    crowded: bool,
}

/// Returns the hash whose high bits select the slot.
#[inline]
pub(crate) fn hash(seed: u64, key: impl Iterator<Item = u64>) -> u64 {
    key.fold(0u64, |h, limb| (h.rotate_left(32) ^ limb).wrapping_mul(seed))
}

fn random_seed() -> u64 {
    RandomState::new().hash_one(0u8) | 1
}

impl Probe {
    pub fn new(limbs: usize) -> Probe {
        Probe::with_capacity(limbs, CAPACITY_MIN)
    }

    fn with_capacity(limbs: usize, capacity: usize) -> Probe {
        let bytes = capacity * (limbs + 1) * 8;
        let region = Region::zeroed(bytes);
        if bytes >= HUGE_BYTES_MIN {
            region.advise_huge();
        }
        Probe {
            region: Arc::new(region),
            limbs,
            capacity,
            seed: random_seed(),
            used: 0,
            count: 0,
            crowded: false,
        }
    }

    pub fn mask(&self) -> u64 {
        self.capacity as u64 - 1
    }

    pub fn shift(&self) -> u64 {
        64 - u64::from(self.capacity.trailing_zeros())
    }

    fn slot(&self, index: usize) -> &[std::sync::atomic::AtomicU64] {
        let start = index * (self.limbs + 1);
        &self.region.words()[start..start + self.limbs + 1]
    }

    /// Returns the value in a slot. Only its low half shows whether the slot has one.
    pub fn value(&self, index: usize) -> u64 {
        self.slot(index)[self.limbs].load(Ordering::Relaxed)
    }

    fn state(&self, index: usize) -> u32 {
        self.value(index) as u32
    }

    pub fn set_value(&self, index: usize, value: u64) {
        self.slot(index)[self.limbs].store(value, Ordering::Release);
    }

    /// Returns the key in a slot that is not empty.
    pub fn key(&self, index: usize) -> Vec<u64> {
        self.slot(index)[..self.limbs].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// Returns the slot that has this key (live or deleted), or else the empty slot where the search ends; and its distance.
    fn search(&self, key: &[u64]) -> (usize, usize) {
        let mut index = (hash(self.seed, key.iter().copied()) >> self.shift()) as usize;
        for distance in 0.. {
            let slot = self.slot(index);
            if self.state(index) == EMPTY
                || slot.iter().zip(key).all(|(a, b)| a.load(Ordering::Relaxed) == *b)
            {
                return (index, distance);
            }
            index = (index + 1) & (self.capacity - 1);
        }
        unreachable!("there are always empty slots")
    }

    /// Returns the slot of a key, if it has a value.
    pub fn find(&self, key: &[u64]) -> Option<usize> {
        let index = self.search(key).0;
        (!matches!(self.state(index), EMPTY | DELETED)).then_some(index)
    }

    /// Sets the value of a key that has none and returns its slot; `None` if there is no room.
    pub fn set(&mut self, key: &[u64], value: u64) -> Option<usize> {
        debug_assert!(!matches!(value as u32, EMPTY | DELETED));
        let (index, distance) = self.search(key);
        if self.state(index) == EMPTY {
            if self.room() == 0 {
                return None;
            }
            self.crowded |= distance > PROBE_MAX && self.capacity < 16 * (self.count + 1);
            for (word, limb) in self.slot(index).iter().zip(key) {
                word.store(*limb, Ordering::Relaxed);
            }
            self.used += 1;
        }
        self.count += 1;
        self.set_value(index, value);
        Some(index)
    }

    /// Returns the number of empty slots that may be used.
    pub fn room(&self) -> usize {
        (self.capacity * LOAD_MAX / 100).saturating_sub(self.used)
    }

    /// True if the entries should move to a larger memory.
    pub fn nearly_full(&self) -> bool {
        let load = if self.used < FEW { LOAD_MOVE_FEW } else { LOAD_MOVE };
        (self.used + 1) * 100 > self.capacity * load || self.crowded
    }

    /// Returns an empty probe with more room.
    pub fn larger(&self, attempt: u32) -> Probe {
        let slots = if self.count < FEW { (self.count + 1) * 8 } else { (self.count + 1) * 8 / 3 + 1 };
        let fitting = slots.next_power_of_two().max(CAPACITY_MIN);
        let capacity = if self.crowded { fitting.max(2 * self.capacity) } else { fitting };
        Probe::with_capacity(self.limbs, capacity << attempt)
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of its bytes if it is large.
    pub fn huge_bytes(&self) -> Option<usize> {
        Some(self.capacity * (self.limbs + 1) * 8).filter(|bytes| *bytes >= HUGE_BYTES_MIN)
    }

    /// Deletes the entry in a slot.
    pub fn remove(&mut self, index: usize) {
        debug_assert!(!matches!(self.state(index), EMPTY | DELETED));
        self.set_value(index, DELETED.into());
        self.count -= 1;
    }
}
