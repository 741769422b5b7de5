//! Prefixes of up to 32 bits with their rows, by slot, and slots by prefix: the control plane's record of routes,
//! separate from the arrays that packets use.

use crate::by_slot::BySlot;
use crate::parted::Parted;
use std::hash::{BuildHasher, RandomState};

/// A prefix, at the high end of the word; the other bits are 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub prefix: u32,
    pub len: u32,
}

impl Route {
    /// Returns the route of its first `len` bits; `len` is at most its length.
    pub fn up(self, len: u32) -> Route {
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        Route { prefix: self.prefix & mask, len }
    }
}

pub(crate) struct Routes {
    prefixes: BySlot<u32>,
    /// Lengths plus 1; 0 where there is no route.
    lens: BySlot<u8>,
    rows: BySlot<u32>,
    /// Slots.
    index: Parted<u32>,
    seed: u64,
    /// By length.
    counts: [u32; 33],
    len: usize,
}

impl Routes {
    pub fn new() -> Routes {
        Routes {
            prefixes: BySlot::new(),
            lens: BySlot::new(),
            rows: BySlot::new(),
            index: Parted::new(),
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

    /// Returns the slot of a route.
    pub fn find(&self, route: Route) -> Option<u32> {
        let hash = self.hash(route);
        self.index.find(hash, |slot| self.route(*slot) == route).copied()
    }

    /// Returns the route in a slot, and its row.
    pub fn get(&self, slot: u32) -> Option<(Route, u32)> {
        let len = u32::from(self.lens.value(slot as usize)).checked_sub(1)?;
        Some((Route { prefix: self.prefixes.value(slot as usize), len }, self.rows.value(slot as usize)))
    }

    /// Returns the slots of the routes that match all 32 bits of a key, the longest first.
    pub fn matching(&self, key: u32) -> impl Iterator<Item = u32> {
        let all = Route { prefix: key, len: 32 };
        let lens = (0..=32u32).rev().filter(|len| self.counts[*len as usize] > 0);
        lens.filter_map(move |len| self.find(all.up(len)))
    }

    /// Adds a route that is new, in a free slot.
    pub fn insert(&mut self, route: Route, row: u32, slot: u32) {
        let at = slot as usize;
        *self.prefixes.get_mut(at) = route.prefix;
        // Not more than 33.
        *self.lens.get_mut(at) = route.len as u8 + 1;
        *self.rows.get_mut(at) = row;
        let Routes { index, prefixes, lens, seed, .. } = self;
        index.insert(hash(*seed, route), slot, |slot| hash(*seed, route_at(prefixes, lens, *slot)));
        self.counts[route.len as usize] += 1;
        self.len += 1;
    }

    pub fn set_row(&mut self, slot: u32, row: u32) {
        *self.rows.get_mut(slot as usize) = row;
    }

    pub fn remove(&mut self, slot: u32) {
        let route = self.route(slot);
        let hash = self.hash(route);
        self.index.remove(hash, |s| *s == slot);
        *self.lens.get_mut(slot as usize) = 0;
        self.counts[route.len as usize] -= 1;
        self.len -= 1;
    }

    pub fn committed_bytes(&self) -> usize {
        self.index.bytes() + self.prefixes.bytes() + self.lens.bytes() + self.rows.bytes()
    }
}

/// Returns the route in a slot that is in use.
fn route_at(prefixes: &BySlot<u32>, lens: &BySlot<u8>, slot: u32) -> Route {
    let len = u32::from(lens.value(slot as usize)) - 1;
    Route { prefix: prefixes.value(slot as usize), len }
}

fn hash(seed: u64, route: Route) -> u64 {
    let product = (u64::from(route.prefix) << 8 | u64::from(route.len)).wrapping_mul(seed);
    (product ^ product >> 32).wrapping_mul(seed)
}
