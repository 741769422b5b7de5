//! Entries of tables whose keys are all exact, in the structure that packets use: what it knows is not kept twice.

use crate::key::KeyLayout;
use crate::memory::Region;
use crate::probe::{DELETED, EMPTY, Probe};
use crate::quotient::Quotient;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// No slot or no place.
const NONE: u32 = u32::MAX;

pub(crate) enum Exact {
    Direct(Direct),
    Quotient(Quotient),
    Hash(Hash),
}

/// An array of rows by key.
pub(crate) struct Direct {
    pub rows: Arc<Region>,
    /// By key.
    slots: Vec<u32>,
    /// By slot.
    keys: Vec<u32>,
}

/// Keys of any width. A value has the row in its low half, which readers look at, and the slot in its high half.
pub(crate) struct Hash {
    pub probe: Probe,
    /// By slot: where in the probe the entry is.
    places: Vec<u32>,
}

impl Exact {
    pub fn direct(key_bits: u32) -> Exact {
        let (rows, slots) = (Arc::new(Region::zeroed(4 << key_bits)), vec![NONE; 1 << key_bits]);
        Exact::Direct(Direct { rows, slots, keys: Vec::new() })
    }

    pub fn quotient(key_bits: u32) -> Exact {
        Exact::Quotient(Quotient::new(key_bits))
    }

    pub fn hash(layout: &KeyLayout) -> Exact {
        Exact::Hash(Hash { probe: Probe::new(layout.limbs), places: Vec::new() })
    }

    /// The slot of the entry with this key.
    pub fn find(&self, key: &[u64]) -> Option<u32> {
        match self {
            Exact::Direct(direct) => Some(direct.slots[key[0] as usize]).filter(|slot| *slot != NONE),
            Exact::Quotient(quotient) => quotient.find(key[0]),
            Exact::Hash(Hash { probe, .. }) => probe.find(key).map(|at| (probe.value(at) >> 32) as u32),
        }
    }

    /// Key and row of the entry in a slot.
    pub fn get(&self, slot: u32) -> Option<(Vec<u64>, u32)> {
        match self {
            Exact::Direct(direct) => {
                let key = in_use(&direct.keys, slot)?;
                Some((vec![key.into()], direct.rows.halves()[key as usize].load(Ordering::Relaxed)))
            }
            Exact::Quotient(quotient) => quotient.get(slot).map(|(key, row)| (vec![key], row)),
            Exact::Hash(Hash { probe, places }) => {
                let place = in_use(places, slot)? as usize;
                Some((probe.key(place), probe.value(place) as u32))
            }
        }
    }

    /// The row of the entry in a slot.
    pub fn row(&self, slot: u32) -> Option<u32> {
        match self {
            Exact::Direct(direct) => {
                let key = in_use(&direct.keys, slot)?;
                Some(direct.rows.halves()[key as usize].load(Ordering::Relaxed))
            }
            Exact::Quotient(quotient) => quotient.row(slot),
            Exact::Hash(Hash { probe, places }) => Some(probe.value(in_use(places, slot)? as usize) as u32),
        }
    }

    /// Adds an entry whose key is new, in a free slot. True if readers need a new view.
    pub fn insert(&mut self, key: &[u64], row: u32, slot: u32) -> bool {
        match self {
            Exact::Direct(direct) => {
                direct.slots[key[0] as usize] = slot;
                *place_for(&mut direct.keys, slot) = key[0] as u32;
                direct.rows.halves()[key[0] as usize].store(row, Ordering::Release);
                false
            }
            Exact::Quotient(quotient) => quotient.insert(key[0], row, slot),
            Exact::Hash(Hash { probe, places }) => {
                let (moved, at) = probe.set(key, value(row, slot));
                *place_for(places, slot) = at as u32;
                if moved {
                    probe.live().for_each(|(at, value)| places[(value >> 32) as usize] = at as u32);
                }
                moved
            }
        }
    }

    /// Gives the entry in a slot another row. True if readers need a new view.
    pub fn set_row(&mut self, slot: u32, row: u32) -> bool {
        match self {
            Exact::Direct(direct) => {
                direct.rows.halves()[direct.keys[slot as usize] as usize].store(row, Ordering::Release);
                false
            }
            Exact::Quotient(quotient) => quotient.set_row(slot, row),
            Exact::Hash(Hash { probe, places }) => {
                probe.set_value(places[slot as usize] as usize, value(row, slot));
                false
            }
        }
    }

    pub fn remove(&mut self, slot: u32) {
        match self {
            Exact::Direct(direct) => {
                let key = std::mem::replace(&mut direct.keys[slot as usize], NONE) as usize;
                direct.rows.halves()[key].store(0, Ordering::Release);
                direct.slots[key] = NONE;
            }
            Exact::Quotient(quotient) => quotient.remove(slot),
            Exact::Hash(Hash { probe, places }) => {
                probe.remove(std::mem::replace(&mut places[slot as usize], NONE) as usize);
            }
        }
    }

    pub fn committed_bytes(&self) -> usize {
        match self {
            Exact::Direct(Direct { rows, slots, keys }) => {
                rows.committed_bytes() + 4 * (slots.len() + keys.len())
            }
            Exact::Quotient(quotient) => quotient.committed_bytes(),
            Exact::Hash(Hash { probe, places }) => probe.region.committed_bytes() + 4 * places.len(),
        }
    }
}

fn value(row: u32, slot: u32) -> u64 {
    debug_assert!(row != EMPTY && row != DELETED);
    u64::from(row) | u64::from(slot) << 32
}

fn in_use(places: &[u32], slot: u32) -> Option<u32> {
    places.get(slot as usize).copied().filter(|place| *place != NONE)
}

fn place_for(places: &mut Vec<u32>, slot: u32) -> &mut u32 {
    if places.len() <= slot as usize {
        places.resize(slot as usize + 1, NONE);
    }
    &mut places[slot as usize]
}
