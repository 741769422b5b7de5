//! Longest-prefix match on up to 32 bits by DIR-24-8: the first 24 bits index an array; where longer prefixes exist, its
//! entry leads to a group of 256 entries for the last 8 bits. In these arrays 0 means that no prefix of more than 8 bits
//! matches; prefixes of up to 8 bits have an array of their own, the first group, which the first 8 bits index. So a
//! default route takes a kilobyte, not 64 megabytes.
//!
//! The writer does not store a length for each entry of the arrays, but one bit for each possible prefix. It writes the
//! range of a prefix by descending the tree of longer prefixes and leaving out those that exist.

use crate::TableError;
use crate::by_slot::BySlot;
use crate::grace::Pool;
use crate::memory::{Ahead, NoMemory, Region, commit_aside};
use crate::routes::{Route, Routes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

/// Set in an entry of the first array that leads to a group.
pub(crate) const GROUP: u32 = 1 << 31;

const FIRST_ENTRIES: usize = 1 << 24;
const GROUP_ENTRIES: usize = 256;

/// Prefixes up to this long have their own array.
pub(crate) const SHORT_MAX: u32 = 8;

/// With at least this many routes the first array is in use everywhere, so it moves to large pages.
const HUGE_ROUTES_MIN: usize = 1024;
/// Entries that an insertion moves.
const STEP: usize = 1 << 14;

/// A set of prefixes, as nodes of a binary tree: the root is 1, the children of `n` are `2n` and `2n + 1`.
struct Nodes(Vec<u64>);

impl Nodes {
    fn new(bits: u32) -> Nodes {
        // The allocator maps vectors of zeros, which take no memory until written.
        Nodes(vec![0; (2usize << bits).div_ceil(64)])
    }

    fn has(&self, node: usize) -> bool {
        self.0[node / 64] >> (node % 64) & 1 == 1
    }

    fn set(&mut self, node: usize, present: bool) {
        let bit = 1 << (node % 64);
        if present {
            self.0[node / 64] |= bit;
        } else {
            self.0[node / 64] &= !bit;
        }
    }
}

/// Groups of at least this many bytes use large pages.
const HUGE_GROUPS_BYTES_MIN: usize = 1 << 20;

pub(crate) struct Lpm32 {
    pub first: First,
    pub groups: Arc<Region>,
    /// Gets large pages for the groups once there are many.
    ahead: Option<Ahead>,
    /// The entries.
    pub routes: Routes,
    /// Prefixes of up to 24 bits.
    nodes: Nodes,
    /// For each group, its prefixes of more than 24 bits; the root is the first 24 bits.
    group_nodes: BySlot<[u64; 8]>,
    pool: Pool,
}

/// The first array. It moves once, some entries with every insertion; changes during the move are made in both arrays.
pub(crate) struct First {
    /// The array that readers use.
    pub now: Arc<Region>,
    huge: bool,
    /// The array with large pages, the number of entries that have moved there, and the thread that commits its memory.
    later: Option<(Arc<Region>, usize, Option<JoinHandle<()>>)>,
}

impl First {
    fn get(&self, at: usize) -> u32 {
        self.now.halves()[at].load(Ordering::Relaxed)
    }

    fn set(&self, at: usize, entry: u32) {
        self.now.halves()[at].store(entry, Ordering::Release);
        if let Some((later, done, _)) = &self.later
            && at < *done
        {
            later.halves()[at].store(entry, Ordering::Release);
        }
    }

    /// Continues or starts the move, by this many entries. True if all entries have moved.
    fn make_huge(&mut self, most: usize) -> bool {
        if self.huge {
            return false;
        }
        if self.later.is_none() {
            // If there is no memory for it, the array stays where it is.
            let Ok(later) = NoMemory::caught(|| Region::zeroed(FIRST_ENTRIES * 4)) else { return false };
            let later = Arc::new(later);
            later.advise_huge();
            let commit = commit_aside(vec![(Arc::clone(&later), FIRST_ENTRIES * 4)]);
            self.later = Some((later, 0, commit));
        }
        let Some((later, done, commit)) = &mut self.later else { return false };
        if most < FIRST_ENTRIES && commit.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return false;
        }
        let entries = *done..FIRST_ENTRIES.min(*done + most);
        *done = entries.end;
        for (to, from) in later.halves()[entries.clone()].iter().zip(&self.now.halves()[entries]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if *done < FIRST_ENTRIES {
            return false;
        }
        self.now = Arc::clone(later);
        self.later = None;
        self.huge = true;
        true
    }
}

/// Returns the node of the first `len` bits.
fn node(prefix: u32, len: u32) -> usize {
    1 << len | (u64::from(prefix) >> (32 - len)) as usize
}

/// Returns the node, in its group, of a prefix of more than 24 bits.
fn group_node(route: Route) -> usize {
    1 << (route.len - 24) | ((route.prefix & 255) >> (32 - route.len)) as usize
}

/// Sets the row of all leaves below a node, except those below longer prefixes. Leaves are the nodes from `leaves` on.
fn paint(node: usize, leaves: usize, has: &impl Fn(usize) -> bool, leaf: &mut impl FnMut(usize)) {
    if node >= leaves {
        return leaf(node - leaves);
    }
    for child in [2 * node, 2 * node + 1] {
        if !has(child) {
            paint(child, leaves, has, leaf);
        }
    }
}

impl Lpm32 {
    /// Creates a table for keys of `width` bits and at most `size` routes.
    pub fn new(width: u32, size: u32) -> Lpm32 {
        // Twice as many as can be in use, because freed groups wait until readers have passed.
        let groups = if width > 24 { 2 * size.min(1 << 24) as usize + 256 } else { 1 };
        Lpm32 {
            first: First { now: Arc::new(Region::zeroed(FIRST_ENTRIES * 4)), huge: false, later: None },
            groups: Arc::new(Region::zeroed(groups * GROUP_ENTRIES * 4)),
            ahead: None,
            routes: Routes::new(),
            nodes: Nodes::new(24),
            group_nodes: BySlot::new(),
            pool: Pool::new(1, groups as u32),
        }
    }

    /// Adds a route that is new, in a free slot. True if readers need a new view.
    pub fn insert(&mut self, route: Route, row: u32, slot: u32) -> Result<bool, TableError> {
        if route.len > 24 {
            self.make_group(route)?;
        }
        self.set_present(route, true);
        self.show(route, row);
        self.routes.insert(route, row, slot);
        Ok(self.routes.len() >= HUGE_ROUTES_MIN && self.first.make_huge(STEP))
    }

    /// Completes a move that has started. True if readers need a new view.
    pub fn settle(&mut self) -> bool {
        self.first.later.is_some() && self.first.make_huge(FIRST_ENTRIES)
    }

    /// Sets the row of a route.
    pub fn set_row(&mut self, slot: u32, row: u32) {
        let (route, _) = self.routes.get(slot).expect("the slot is in use");
        self.show(route, row);
        self.routes.set_row(slot, row);
    }

    /// True if packets look up the route in this slot after longer ones.
    pub fn is_short(&self, slot: u32) -> bool {
        self.routes.get(slot).is_some_and(|(route, _)| route.len <= SHORT_MAX)
    }

    pub fn remove(&mut self, slot: u32) {
        let (route, _) = self.routes.get(slot).expect("the slot is in use");
        self.routes.remove(slot);
        self.set_present(route, false);
        let cover = self.cover(route);
        self.show(route, cover);
        if route.len > 24 {
            let at = (route.prefix >> 8) as usize;
            let group = self.first.get(at) & !GROUP;
            if self.group_nodes.value(group as usize) == [0; 8] {
                // The whole group now has the row of one shorter prefix.
                self.first.set(at, cover);
                self.pool.retire(group);
            }
        }
    }

    fn group_of(&self, route: Route) -> Option<u32> {
        let entry = self.first.get((route.prefix >> 8) as usize);
        (entry & GROUP != 0).then_some(entry & !GROUP)
    }

    fn make_group(&mut self, route: Route) -> Result<(), TableError> {
        if self.group_of(route).is_some() {
            return Ok(());
        }
        let group = self.pool.take()?;
        let end = (group as usize + 1) * GROUP_ENTRIES * 4;
        if end > HUGE_GROUPS_BYTES_MIN {
            let groups = &self.groups;
            let ahead = self.ahead.get_or_insert_with(|| {
                groups.advise_huge();
                Ahead::default()
            });
            ahead.reach(groups, end);
        }
        let at = (route.prefix >> 8) as usize;
        let row = self.first.get(at);
        self.rows_of(group).iter().for_each(|place| place.store(row, Ordering::Relaxed));
        self.first.set(at, group | GROUP);
        Ok(())
    }

    fn rows_of(&self, group: u32) -> &[AtomicU32] {
        &self.groups.halves()[group as usize * GROUP_ENTRIES..][..GROUP_ENTRIES]
    }

    fn set_present(&mut self, route: Route, present: bool) {
        if route.len <= 24 {
            return self.nodes.set(node(route.prefix, route.len), present);
        }
        let group = self.group_of(route).expect("long prefixes have groups") as usize;
        let (node, bits) = (group_node(route), self.group_nodes.get_mut(group));
        if present {
            bits[node / 64] |= 1 << (node % 64);
        } else {
            bits[node / 64] &= !(1 << (node % 64));
        }
    }

    /// Stores this row for everything that the route covers and no longer route does.
    fn show(&self, route: Route, row: u32) {
        if route.len > 24 {
            let group = self.group_of(route).expect("long prefixes have groups");
            return self.paint_group(group, group_node(route), row);
        }
        let from = node(route.prefix, route.len);
        let has = |node| self.nodes.has(node);
        if route.len <= SHORT_MAX {
            // `Steps` ensures that no packet gets here that has missed a change of longer routes.
            let short = self.rows_of(0);
            return paint(from, 1 << SHORT_MAX, &has, &mut |i| short[i].store(row, Ordering::Release));
        }
        paint(from, FIRST_ENTRIES, &has, &mut |i| match self.first.get(i) {
            group if group & GROUP != 0 => self.paint_group(group & !GROUP, 1, row),
            _ => self.first.set(i, row),
        });
    }

    fn paint_group(&self, group: u32, from: usize, row: u32) {
        let (rows, bits) = (self.rows_of(group), self.group_nodes.value(group as usize));
        let has = |node: usize| bits[node / 64] >> (node % 64) & 1 == 1;
        paint(from, GROUP_ENTRIES, &has, &mut |i| rows[i].store(row, Ordering::Release));
    }

    /// Returns the row of the longest shorter prefix in the same array.
    fn cover(&self, route: Route) -> u32 {
        let least = if route.len <= SHORT_MAX { 0 } else { SHORT_MAX + 1 };
        let above = (least..route.len).rev().map(|len| route.up(len));
        let found = above.into_iter().find_map(|above| {
            let exists = above.len > 24 || self.nodes.has(node(above.prefix, above.len));
            self.routes.get(exists.then(|| self.routes.find(above))??)
        });
        found.map_or(0, |(_, row)| row)
    }

    pub fn committed_bytes(&self) -> usize {
        // The bits are committed where the rows are, at most all of them.
        let later = self.first.later.as_ref().map_or(0, |(later, ..)| later.committed_bytes());
        let first = self.first.now.committed_bytes();
        let bits = (self.nodes.0.len() * 8).min(first / 8);
        first
            + later
            + self.groups.committed_bytes()
            + bits
            + self.group_nodes.bytes()
            + self.routes.committed_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_during_the_move_to_large_pages_persist() {
        let now = Arc::new(Region::zeroed(FIRST_ENTRIES * 4));
        let mut first = First { now, huge: false, later: None };
        let mut model = std::collections::HashMap::new();
        let mut random = 1u64;
        loop {
            for _ in 0..100 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Most of them are the same ones again and again, spread over the array.
                let at = ((random >> 33) as usize % 2000 * 9001) % FIRST_ENTRIES;
                first.set(at, random as u32 >> 8);
                model.insert(at, random as u32 >> 8);
            }
            if first.make_huge(STEP) {
                break;
            }
        }
        assert!(first.huge && first.later.is_none());
        let there = (0..FIRST_ENTRIES).filter(|at| first.get(*at) != model.get(at).copied().unwrap_or(0));
        assert_eq!(there.count(), 0);
    }

    /// There are groups for only a few hundred routes at a time, and each of these routes needs its own.
    #[test]
    fn groups_without_routes_are_reused() {
        let mut lpm = Lpm32::new(32, 16);
        let groups = lpm.groups.halves().len() / GROUP_ENTRIES;
        for i in 0..10 * groups as u32 {
            let route = Route { prefix: i << 8 | 1, len: 32 };
            lpm.insert(route, 7, 0).unwrap_or_else(|error| panic!("no group for route {i}: {error}"));
            lpm.remove(0);
            assert_eq!(lpm.group_of(route), None, "the group of route {i} is left");
        }
    }
}
