//! Longest prefix of up to 32 bits by DIR-24-8: the first 24 bits index an array; where longer prefixes exist, its entry
//! leads to a group of 256 for the last 8 bits.

use crate::TableError;
use crate::grace::Pool;
use crate::memory::Region;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Set in an entry of the first array that leads to a group.
pub(crate) const GROUP: u32 = 1 << 31;

const FIRST_ENTRIES: usize = 1 << 24;

/// With so many routes the first array is touched all over, so that large pages pay.
const HUGE_ROUTES_MIN: usize = 4096;
/// A prefix this short covers a large part of the first array.
const HUGE_PREFIX_MAX: u32 = 6;

/// In `first_len`: the entry leads to a group.
const IN_GROUP: u8 = u8::MAX;
/// Entries of the first array that are looked at together.
const BLOCK: usize = 256;

pub(crate) struct Lpm32 {
    pub first: Arc<Region>,
    pub groups: Arc<Region>,
    /// For each entry of `first` and `groups`, the length of the prefix that it comes from.
    first_len: Vec<u8>,
    group_len: Vec<u8>,
    /// Prefixes longer than 24 bits in each group.
    long: Vec<u32>,
    pool: Pool,
    routes: usize,
    huge: bool,
}

/// A route with its prefix at the high end of the word.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub prefix: u32,
    pub len: u32,
}

impl Route {
    fn first_range(self) -> std::ops::Range<usize> {
        let start = (self.prefix >> 8) as usize;
        start..start + (1 << (24 - self.len))
    }

    fn group_range(self, group: u32) -> std::ops::Range<usize> {
        let start = group as usize * 256 + (self.prefix & 255) as usize;
        start..start + (1 << (32 - self.len))
    }
}

/// Which entries a change concerns: by the length of the prefix they come from.
#[derive(Clone, Copy)]
enum Which {
    UpTo(u8),
    Exactly(u8),
}

impl Which {
    fn concerns(self, len: u8) -> bool {
        match self {
            Which::UpTo(most) => len <= most,
            Which::Exactly(wanted) => len == wanted,
        }
    }

    fn concerns_all(self, lens: &[u8]) -> bool {
        match self {
            Which::UpTo(most) => lens.iter().fold(0, |max, len| max.max(*len)) <= most,
            Which::Exactly(wanted) => {
                lens.iter().fold(0, |differences, len| differences | (len ^ wanted)) == 0
            }
        }
    }
}

/// Sets the entries concerned. Lengths are written only where they change, so that their memory stays uncommitted.
fn set(rows: &[AtomicU32], lens: &mut [u8], which: Which, row: u32, len: u8) {
    if which.concerns_all(lens) {
        rows.iter().for_each(|entry| entry.store(row, Ordering::Release));
        if !Which::Exactly(len).concerns_all(lens) {
            lens.fill(len);
        }
        return;
    }
    for (entry, entry_len) in rows.iter().zip(lens) {
        if which.concerns(*entry_len) {
            entry.store(row, Ordering::Release);
            *entry_len = len;
        }
    }
}

impl Lpm32 {
    /// For keys of `width` bits and at most `size` routes.
    pub fn new(width: u32, size: u32) -> Lpm32 {
        // As many again as can be needed, because freed ones wait for readers to pass.
        let groups = if width > 24 { 2 * size.min(1 << 24) as usize + 256 } else { 1 };
        Lpm32 {
            first: Arc::new(Region::zeroed(FIRST_ENTRIES * 4)),
            groups: Arc::new(Region::zeroed(groups * 256 * 4)),
            // The allocator maps vectors of zeros, too: they cost nothing until written.
            first_len: vec![0; FIRST_ENTRIES],
            group_len: vec![0; groups * 256],
            long: Vec::new(),
            pool: Pool::new(0, groups as u32),
            routes: 0,
            huge: false,
        }
    }

    /// True if the memory is another now.
    pub fn insert(&mut self, route: Route, row: u32) -> Result<bool, TableError> {
        let index = (route.prefix >> 8) as usize;
        let now = self.first.halves()[index].load(Ordering::Relaxed);
        let new_group = route.len > 24 && now & GROUP == 0;
        let group = if new_group { self.pool.take()? } else { now & !GROUP };
        // Nothing fails from here on.
        let moved = !self.huge && (self.routes >= HUGE_ROUTES_MIN || route.len <= HUGE_PREFIX_MAX);
        if moved {
            self.move_to_huge();
        }
        self.routes += 1;
        if new_group {
            let len = std::mem::replace(&mut self.first_len[index], IN_GROUP);
            let all = group as usize * 256..(group as usize + 1) * 256;
            set(
                &self.groups.halves()[all.clone()],
                &mut self.group_len[all],
                Which::UpTo(IN_GROUP),
                now,
                len,
            );
        }
        if route.len > 24 {
            self.set_in_group(route, group, Which::UpTo(route.len as u8), row, route.len);
            self.first.halves()[index].store(group | GROUP, Ordering::Release);
            if self.long.len() <= group as usize {
                self.long.resize(group as usize + 1, 0);
            }
            self.long[group as usize] += 1;
        } else {
            self.replace(route, Which::UpTo(route.len as u8), row, route.len);
        }
        Ok(moved)
    }

    /// Gives a route another row.
    pub fn modify(&mut self, route: Route, row: u32) {
        self.replace(route, Which::Exactly(route.len as u8), row, route.len);
    }

    /// Takes a route away; `cover` is the row and length of the next shorter prefix that contains it, or (0, 0).
    pub fn delete(&mut self, route: Route, cover: (u32, u32)) {
        self.replace(route, Which::Exactly(route.len as u8), cover.0, cover.1);
        self.routes -= 1;
        if route.len > 24 {
            let index = (route.prefix >> 8) as usize;
            let entry = &self.first.halves()[index];
            let group = entry.load(Ordering::Relaxed) & !GROUP;
            self.long[group as usize] -= 1;
            if self.long[group as usize] == 0 {
                // What is left in the group all comes from one prefix.
                let start = group as usize * 256;
                self.first_len[index] = self.group_len[start];
                entry.store(self.groups.halves()[start].load(Ordering::Relaxed), Ordering::Release);
                self.pool.retire(group);
            }
        }
    }

    fn set_in_group(&mut self, route: Route, group: u32, which: Which, row: u32, len: u32) {
        let range = route.group_range(group);
        set(&self.groups.halves()[range.clone()], &mut self.group_len[range], which, row, len as u8);
    }

    fn replace(&mut self, route: Route, which: Which, row: u32, len: u32) {
        let Lpm32 { first, first_len, groups, group_len, .. } = self;
        if route.len > 24 {
            let group = first.halves()[(route.prefix >> 8) as usize].load(Ordering::Relaxed) & !GROUP;
            return self.set_in_group(route, group, which, row, len);
        }
        let range = route.first_range();
        let blocks = first.halves()[range.clone()].chunks(BLOCK).zip(first_len[range].chunks_mut(BLOCK));
        for (rows, lens) in blocks {
            // No change concerns the length that stands for a group.
            set(rows, lens, which, row, len as u8);
            if !lens.contains(&IN_GROUP) {
                continue;
            }
            for (entry, _) in rows.iter().zip(lens).filter(|(_, len)| **len == IN_GROUP) {
                let start = (entry.load(Ordering::Relaxed) & !GROUP) as usize * 256;
                let all = start..start + 256;
                set(&groups.halves()[all.clone()], &mut group_len[all], which, row, len as u8);
            }
        }
    }

    fn move_to_huge(&mut self) {
        let region = Region::zeroed(FIRST_ENTRIES * 4);
        region.advise_huge();
        for (to, from) in region.words().iter().zip(self.first.words()) {
            let from = from.load(Ordering::Relaxed);
            if from != 0 {
                to.store(from, Ordering::Relaxed);
            }
        }
        self.first = Arc::new(region);
        self.huge = true;
    }

    pub fn committed_bytes(&self) -> usize {
        // The lengths are committed where the rows are, a quarter of their size.
        (self.first.committed_bytes() + self.groups.committed_bytes()) / 4 * 5
    }
}
