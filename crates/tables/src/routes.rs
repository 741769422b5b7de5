//! Prefixes of up to 32 bits with their rows, by slot, and slots by prefix: what the control plane knows of routes, apart
//! from the arrays that packets use.

use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

/// A prefix, at the high end of the word; the other bits are 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub prefix: u32,
    pub len: u32,
}

impl Route {
    /// Its first `len` bits, not more than it has.
    pub fn up(self, len: u32) -> Route {
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        Route { prefix: self.prefix & mask, len }
    }
}

/// Parts of the index, which grow one at a time, so that no insertion waits for all of it to move.
const PARTS: usize = 64;
/// In `lens`: there is no route in this slot.
const NONE: u8 = u8::MAX;

pub(crate) struct Routes {
    prefixes: Vec<u32>,
    lens: Vec<u8>,
    rows: Vec<u32>,
    /// Slots.
    index: Vec<HashTable<u32>>,
    seed: u64,
    /// By length.
    counts: [u32; 33],
    len: usize,
}

impl Routes {
    pub fn new() -> Routes {
        Routes {
            prefixes: Vec::new(),
            lens: Vec::new(),
            rows: Vec::new(),
            index: (0..PARTS).map(|_| HashTable::new()).collect(),
            seed: RandomState::new().hash_one(0u8) | 1,
            counts: [0; 33],
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    fn hash(&self, route: Route) -> u64 {
        hash(self.seed, route)
    }

    fn route(&self, slot: u32) -> Route {
        route_at(&self.prefixes, &self.lens, slot)
    }

    /// The slot of a route.
    pub fn find(&self, route: Route) -> Option<u32> {
        let hash = self.hash(route);
        self.index[part(hash)].find(hash, |slot| self.route(*slot) == route).copied()
    }

    /// The route in a slot, and its row.
    pub fn get(&self, slot: u32) -> Option<(Route, u32)> {
        let len = self.lens.get(slot as usize).filter(|len| **len != NONE)?;
        let prefix = self.prefixes[slot as usize];
        Some((Route { prefix, len: u32::from(*len) }, self.rows[slot as usize]))
    }

    /// The slots of the routes that match all 32 bits of a key, the longest first.
    pub fn matching(&self, key: u32) -> impl Iterator<Item = u32> {
        let all = Route { prefix: key, len: 32 };
        let lens = (0..=32u32).rev().filter(|len| self.counts[*len as usize] > 0);
        lens.filter_map(move |len| self.find(all.up(len)))
    }

    /// Adds a route that is new, in a free slot.
    pub fn insert(&mut self, route: Route, row: u32, slot: u32) {
        let at = slot as usize;
        if self.lens.len() <= at {
            self.prefixes.resize(at + 1, 0);
            self.lens.resize(at + 1, NONE);
            self.rows.resize(at + 1, 0);
        }
        // Not more than 32.
        (self.prefixes[at], self.lens[at], self.rows[at]) = (route.prefix, route.len as u8, row);
        let Routes { index, prefixes, lens, seed, .. } = self;
        let key = hash(*seed, route);
        index[part(key)].insert_unique(key, slot, |slot| hash(*seed, route_at(prefixes, lens, *slot)));
        self.counts[route.len as usize] += 1;
        self.len += 1;
    }

    pub fn set_row(&mut self, slot: u32, row: u32) {
        self.rows[slot as usize] = row;
    }

    pub fn remove(&mut self, slot: u32) {
        let route = self.route(slot);
        let hash = self.hash(route);
        if let Ok(found) = self.index[part(hash)].find_entry(hash, |s| *s == slot) {
            found.remove();
        }
        self.lens[slot as usize] = NONE;
        self.counts[route.len as usize] -= 1;
        self.len -= 1;
    }

    pub fn committed_bytes(&self) -> usize {
        let index: usize = self.index.iter().map(HashTable::allocation_size).sum();
        index + 9 * self.lens.len()
    }
}

fn route_at(prefixes: &[u32], lens: &[u8], slot: u32) -> Route {
    Route { prefix: prefixes[slot as usize], len: u32::from(lens[slot as usize]) }
}

fn hash(seed: u64, route: Route) -> u64 {
    let product = (u64::from(route.prefix) << 8 | u64::from(route.len)).wrapping_mul(seed);
    (product ^ product >> 32).wrapping_mul(seed)
}

/// Which part: bits of a hash that its table does not use.
fn part(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}
