//! Entries of tables whose keys are all exact. They are stored only in the structure that packets use.

use crate::by_slot::BySlot;
use crate::growing::{Growing, Store};
use crate::key::KeyLayout;
use crate::memory::Region;
use crate::probe::{DELETED, EMPTY, Probe};
use crate::quotient::Quotient;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) enum Exact {
    Direct(Direct),
    Quotient(Growing<Quotient>),
    Hash(Growing<Hash>),
}

/// An array of rows by key.
pub(crate) struct Direct {
    pub rows: Arc<Region>,
    /// The slot of the entry plus 1, by key.
    slots: BySlot<u32>,
    /// The key plus 1, by slot.
    keys: BySlot<u32>,
}

/// Keys of any width. A value has the row in its low half, which readers use, and the slot in its high half.
pub(crate) struct Hash {
    pub probe: Probe,
    /// The place of the entry in the probe plus 1, by slot.
    places: Arc<Region>,
    slot_max: u32,
}

/// Returns a number that is stored plus 1.
fn in_use(numbers: &BySlot<u32>, at: usize) -> Option<u32> {
    numbers.value(at).checked_sub(1)
}

impl Exact {
    pub fn direct(key_bits: u32) -> Exact {
        let rows = Arc::new(Region::zeroed(4 << key_bits));
        Exact::Direct(Direct { rows, slots: BySlot::new(), keys: BySlot::new() })
    }

    pub fn quotient(key_bits: u32) -> Exact {
        Exact::Quotient(Growing::new(Quotient::new(key_bits)))
    }

    pub fn hash(layout: &KeyLayout) -> Exact {
        Exact::Hash(Growing::new(Hash::new(Probe::new(layout.limbs), 0)))
    }

    /// The slot of the entry with this key.
    pub fn find(&self, key: &[u64]) -> Option<u32> {
        match self {
            Exact::Direct(direct) => in_use(&direct.slots, key[0] as usize),
            Exact::Quotient(quotient) => quotient.now.find(key[0]),
            Exact::Hash(Growing { now: Hash { probe, .. }, .. }) => {
                probe.find(key).map(|at| (probe.value(at) >> 32) as u32)
            }
        }
    }

    /// Key and row of the entry in a slot.
    pub fn get(&self, slot: u32) -> Option<(Vec<u64>, u32)> {
        match self {
            Exact::Direct(direct) => {
                let key = in_use(&direct.keys, slot as usize)?;
                Some((vec![key.into()], direct.rows.halves()[key as usize].load(Ordering::Relaxed)))
            }
            Exact::Quotient(quotient) => quotient.now.get(slot).map(|(key, row)| (vec![key], row)),
            Exact::Hash(hash) => {
                let place = hash.now.place(slot)?;
                let probe = &hash.now.probe;
                Some((probe.key(place), probe.value(place) as u32))
            }
        }
    }

    /// The row of the entry in a slot.
    pub fn row(&self, slot: u32) -> Option<u32> {
        match self {
            Exact::Direct(direct) => {
                let key = in_use(&direct.keys, slot as usize)?;
                Some(direct.rows.halves()[key as usize].load(Ordering::Relaxed))
            }
            Exact::Quotient(quotient) => quotient.now.row(slot),
            Exact::Hash(hash) => hash.now.place(slot).map(|place| hash.now.probe.value(place) as u32),
        }
    }

    /// Adds an entry whose key is new, in a free slot. True if readers need a new view.
    pub fn insert(&mut self, key: &[u64], row: u32, slot: u32) -> bool {
        match self {
            Exact::Direct(direct) => {
                *direct.slots.get_mut(key[0] as usize) = slot + 1;
                *direct.keys.get_mut(slot as usize) = key[0] as u32 + 1;
                direct.rows.halves()[key[0] as usize].store(row, Ordering::Release);
                false
            }
            Exact::Quotient(quotient) => quotient.insert(key, row, slot),
            Exact::Hash(hash) => hash.insert(key, row, slot),
        }
    }

    /// Sets the row of the entry in a slot. True if readers need a new view.
    pub fn set_row(&mut self, slot: u32, row: u32) -> bool {
        match self {
            Exact::Direct(direct) => {
                let key = in_use(&direct.keys, slot as usize).expect("the slot is in use");
                direct.rows.halves()[key as usize].store(row, Ordering::Release);
                false
            }
            Exact::Quotient(quotient) => quotient.set_row(slot, row),
            Exact::Hash(hash) => hash.set_row(slot, row),
        }
    }

    pub fn remove(&mut self, slot: u32) {
        match self {
            Exact::Direct(direct) => {
                let key = in_use(&direct.keys, slot as usize).expect("the slot is in use") as usize;
                *direct.keys.get_mut(slot as usize) = 0;
                direct.rows.halves()[key].store(0, Ordering::Release);
                *direct.slots.get_mut(key) = 0;
            }
            Exact::Quotient(quotient) => quotient.remove(slot),
            Exact::Hash(hash) => hash.remove(slot),
        }
    }

    /// Completes a move that has started. True if readers need a new view.
    pub fn settle(&mut self) -> bool {
        match self {
            Exact::Direct(_) => false,
            Exact::Quotient(quotient) => quotient.settle(),
            Exact::Hash(hash) => hash.settle(),
        }
    }

    pub fn committed_bytes(&self) -> usize {
        match self {
            Exact::Direct(Direct { rows, slots, keys }) => {
                rows.committed_bytes() + slots.bytes() + keys.bytes()
            }
            Exact::Quotient(quotient) => quotient.stores().map(Quotient::committed_bytes).sum(),
            Exact::Hash(hash) => hash
                .stores()
                .map(|hash| hash.probe.region.committed_bytes() + hash.places.committed_bytes())
                .sum(),
        }
    }
}

fn value(row: u32, slot: u32) -> u64 {
    debug_assert!(row != EMPTY && row != DELETED);
    u64::from(row) | u64::from(slot) << 32
}

impl Hash {
    fn new(probe: Probe, slot_max: u32) -> Hash {
        let slots = probe.capacity().max(slot_max as usize + 1);
        Hash { probe, places: Arc::new(Region::zeroed(4 * slots)), slot_max }
    }
}

impl Store for Hash {
    fn place(&self, slot: u32) -> Option<usize> {
        let place = self.places.halves().get(slot as usize)?.load(Ordering::Relaxed);
        (place as usize).checked_sub(1)
    }

    fn end(&self) -> usize {
        self.probe.capacity()
    }

    fn add(&mut self, key: &[u64], row: u32, slot: u32) -> Option<usize> {
        let in_places = self.places.halves().get(slot as usize)?;
        let place = self.probe.set(key, value(row, slot))?;
        in_places.store(place as u32 + 1, Ordering::Relaxed);
        self.slot_max = self.slot_max.max(slot);
        Some(place)
    }

    fn set_row(&mut self, slot: u32, row: u32) -> bool {
        let place = self.place(slot).expect("the slot is in use");
        self.probe.set_value(place, value(row, slot));
        true
    }

    fn remove(&mut self, slot: u32) {
        let place = self.place(slot).expect("the slot is in use");
        self.probe.remove(place);
        self.places.halves()[slot as usize].store(0, Ordering::Relaxed);
    }

    fn room(&self, _row: u32, slot: u32) -> usize {
        if (slot as usize) < self.places.halves().len() { self.probe.room() } else { 0 }
    }

    fn nearly_full(&self, _row: u32) -> bool {
        self.probe.nearly_full()
    }

    fn larger(&self, _row: u32, slot: u32, attempt: u32) -> Hash {
        Hash::new(self.probe.larger(attempt), self.slot_max.max(slot))
    }

    fn copy_to(&self, to: &mut Hash, places: Range<usize>) -> bool {
        places.into_iter().all(|place| match self.probe.value(place) {
            value if matches!(value as u32, EMPTY | DELETED) => true,
            value => to.add(&self.probe.key(place), value as u32, (value >> 32) as u32).is_some(),
        })
    }

    fn memory(&self) -> Vec<(Arc<Region>, usize)> {
        let Some(bytes) = self.probe.huge_bytes() else { return Vec::new() };
        let slots = (self.slot_max as usize + 1) * 9 / 8;
        vec![(Arc::clone(&self.probe.region), bytes), (Arc::clone(&self.places), slots * 4)]
    }
}
