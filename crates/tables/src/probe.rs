//! Open addressing with linear probing that readers walk while the writer changes it.
//!
//! A slot's key is written once, before its value, and never changes while the memory lives: a deleted slot keeps its key
//! and can only be taken by that key again. So a reader that sees a value and then finds the key equal has the value of
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
/// Longer probes than this make the table grow, whatever its load.
const PROBE_MAX: usize = 96;
/// From so many bytes on, large pages.
const HUGE_BYTES_MIN: usize = 2 << 20;

pub(crate) struct Probe {
    pub region: Arc<Region>,
    limbs: usize,
    capacity: usize,
    pub seed: u64,
    /// Slots that are not empty.
    used: usize,
    live: usize,
}

/// The hash whose high bits choose the slot.
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
        Probe { region: Arc::new(region), limbs, capacity, seed: random_seed(), used: 0, live: 0 }
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

    fn value(&self, index: usize) -> u32 {
        self.slot(index)[self.limbs].load(Ordering::Relaxed) as u32
    }

    fn set_value(&self, index: usize, value: u32) {
        self.slot(index)[self.limbs].store(u64::from(value), Ordering::Release);
    }

    /// The slot that has this key (live or deleted), or else the empty one where the search ends; and its distance.
    fn search(&self, key: &[u64]) -> (usize, usize) {
        let mut index = (hash(self.seed, key.iter().copied()) >> self.shift()) as usize;
        for distance in 0.. {
            let slot = self.slot(index);
            if self.value(index) == EMPTY
                || slot.iter().zip(key).all(|(a, b)| a.load(Ordering::Relaxed) == *b)
            {
                return (index, distance);
            }
            index = (index + 1) & (self.capacity - 1);
        }
        unreachable!("half of the slots are empty")
    }

    /// Gives a key a value. True if the memory is another now.
    pub fn set(&mut self, key: &[u64], value: u32) -> bool {
        debug_assert!(value != EMPTY && value != DELETED);
        let mut moved = false;
        let (mut index, mut distance) = self.search(key);
        if self.value(index) == EMPTY {
            let full = (self.used + 1) * 2 > self.capacity;
            let crowded = distance > PROBE_MAX && self.capacity < 16 * (self.live + 1);
            if full || crowded {
                let fitting = ((self.live + 1) * 8 / 3 + 1).next_power_of_two().max(CAPACITY_MIN);
                self.rebuild(if full { fitting } else { 2 * self.capacity });
                moved = true;
                (index, distance) = self.search(key);
                let _ = distance;
            }
            for (word, limb) in self.slot(index).iter().zip(key) {
                word.store(*limb, Ordering::Relaxed);
            }
            self.used += 1;
            self.live += 1;
        } else if self.value(index) == DELETED {
            self.live += 1;
        }
        self.set_value(index, value);
        moved
    }

    pub fn remove(&mut self, key: &[u64]) {
        let (index, _) = self.search(key);
        debug_assert!(self.value(index) != EMPTY && self.value(index) != DELETED);
        self.set_value(index, DELETED);
        self.live -= 1;
    }

    fn rebuild(&mut self, capacity: usize) {
        let mut new = Probe::with_capacity(self.limbs, capacity);
        for index in 0..self.capacity {
            let value = self.value(index);
            if value == EMPTY || value == DELETED {
                continue;
            }
            let old = self.slot(index);
            let mut at = (hash(new.seed, old[..self.limbs].iter().map(|w| w.load(Ordering::Relaxed)))
                >> new.shift()) as usize;
            while new.value(at) != EMPTY {
                at = (at + 1) & (capacity - 1);
            }
            for (to, from) in new.slot(at).iter().zip(old) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        new.used = self.live;
        new.live = self.live;
        *self = new;
    }
}
