//! What readers see of a table.
#![allow(unsafe_code)]

use crate::changes::Changes;
use crate::classifier::Searcher;
use crate::grace::Returns;
use crate::key::{Order, order_of};
use crate::lpm32::GROUP;
use crate::memory::{Region, prefetch};
use crate::probe::{DELETED, EMPTY, hash};
use crate::profile::{SELECTED_MAX, Shared};
use crate::quotient::{BUCKET, BUCKETS_MAX, KEY_BITS_MAX};
use crate::{Action, MatchKind, TableSpec};
pub use crossbeam_epoch::Guard;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Keys of at most this many bits index an array.
const DIRECT_BITS_MAX: u32 = 16;

/// How the packet path finds entries. A function of the shape of the table alone: [`structure_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Structure {
    /// No key: always the default action.
    Keyless,
    /// All exact, at most 16 bits: an array indexed by the packed key.
    Direct,
    /// All exact, at most 48 bits: open addressing with buckets of four words.
    Quotient,
    /// All exact: open addressing.
    Hash,
    /// One lpm key of 8 to 32 bits: DIR-24-8.
    Lpm32,
    /// Everything else: whatever [`View::lookup`] does.
    Generic,
}

/// The structure for tables of this shape.
pub fn structure_of(spec: &TableSpec) -> Structure {
    let bits: u32 = spec.keys.iter().map(|key| key.width).sum();
    match order_of(spec) {
        _ if spec.keys.is_empty() => Structure::Keyless,
        Order::Exact if bits <= DIRECT_BITS_MAX => Structure::Direct,
        Order::Exact if bits <= KEY_BITS_MAX => Structure::Quotient,
        Order::Exact => Structure::Hash,
        Order::Prefix(_) if spec.keys.len() == 1 && (8..=32).contains(&bits) => Structure::Lpm32,
        Order::Prefix(_) | Order::PrefixSum | Order::Priority => Structure::Generic,
    }
}

/// A table as readers see it: the contract between the tables and generated code.
///
/// A view never changes, except for [`Self::default_row`] and what its pointers lead to; all of that is written by one
/// writer and may be read at any time. A change that needs other memory makes another view, so load the pointer once per
/// batch ([`ViewHandle::load`]) and use it as long as the guard is held, no longer.
///
/// **Packed key.** The key fields one after another, the first at bit 0 (least significant), as little-endian `u64` limbs:
/// `key_limbs` of them, at least one. Unused high bits are 0.
///
/// **Rows.** Row `r` is at `rows + r * row_words` (in words). Word 0: the index of the action in the low 32 bits; above it
/// the slot of the entry, if the table has a row per entry. Then each parameter of the action in `ceil(width / 64)` limbs.
/// `row_words` is 1 + the most words that the data of any action of the table takes, and 1 more if entries can have
/// timeouts: the last word is when the entry was last hit, in units of 2^[`HIT_SHIFT`](crate::HIT_SHIFT) µs. Row 0 means
/// "miss". Its first word is the index of the default action, if that has no data; else it is [`Action::DEFAULT`], and
/// `default_row` is the row to run (`default_row` always is, but takes another load). Both may change at any time.
///
/// **Tables with an action profile.** The action of a row, the default row too, may be [`Action::MEMBER`] or
/// [`Action::GROUP`], with a slot in word 1: then the words of the action to run are elsewhere. For a group: the acquire
/// pointer at `profile_groups + 8 * slot` leads to `u32`s, of which the first (acquire) counts the members and the second is
/// of no concern; that with the number `selector % count` behind these is the slot of a member. Where the pointer is null the
/// group has no members, and no action runs. For a member: the acquire `u32` at `profile_members + 4 * slot` is a row at
/// `profile_rows`, of 1 word and the most that the data of any action takes. [`select_batch`] finds the words for any rows,
/// and gives [`Action::NONE`] where no action runs.
///
/// **Structure**, by [`Self::structure`] (known beforehand: [`structure_of`]). The result of a lookup is a row, 0 on a miss.
/// Loads marked *acquire* must be (on x86-64 every load is).
///
/// * [`Structure::Keyless`]: a miss.
/// * [`Structure::Direct`]: acquire `u32` at `base + 4 * key`.
/// * [`Structure::Quotient`]: buckets of four words at `base`. `p = key * seed` modulo 2^64; the search begins in bucket `i`,
///   the high half of the product `p * buckets` of 128 bits, with `t = (p << shift) + step`. Load its words (acquire) and take
///   the least of their exclusive ors with `t`: if that is less than `step`, the row is that under `mask`. Else, if the last
///   word is 0, it is a miss. Else go on with bucket `i + 1` and `t + step`, unless that was bucket number
///   [`View::BUCKETS_MAX`]: then it is a miss. (A key that stays is no farther away. A reader that is held up may meet more
///   full buckets, one after the other.)
/// * [`Structure::Hash`]: slots of `key_limbs + 1` words at `base`: the key, then a value, of which the low 32 bits count.
///   `h = limb0 * seed`, for each further limb `h = (rotl(h, 32) ^ limb) * seed`, modulo 2^64; the search begins in slot
///   `h >> shift`. Load the value (acquire): 0 is a miss. Then compare the key: if it is equal, the value is the row, or a
///   miss if it is `0xffff_ffff` (the key was deleted). Else go on to slot `(i + 1) & mask`. There is always an empty slot.
/// * [`Structure::Lpm32`]: `k` is the key shifted left by `32 - width`. `e` = acquire `u32` at `base + 4 * (k >> 8)`. If bit
///   31 of `e` is clear it is the row (or 0), else the row is the acquire `u32` at
///   `aux + 4 * ((e & 0x7fff_ffff) * 256 + (k & 255))`. If that is 0, the row is the acquire `u32` at `aux + 4 * (k >> 24)`,
///   loaded after the others.
/// * [`Structure::Generic`]: call [`Self::lookup`].
#[repr(C, align(64))]
pub struct View {
    /// Row 0.
    pub rows: *const u64,
    /// The structure.
    pub base: *const u8,
    /// The second part of the structure.
    pub aux: *const u8,
    /// Quotient: the bits of a row. Hash: number of slots - 1.
    pub mask: u64,
    /// Quotient: how far left. Hash: 64 - log2(number of slots).
    pub shift: u64,
    /// Quotient and Hash: the multiplier.
    pub seed: u64,
    /// Quotient: buckets where a search may begin.
    pub buckets: u64,
    /// Quotient: from one bucket to the next.
    pub step: u64,
    /// Finds the row of a packed key, 0 on a miss. Set for every structure.
    ///
    /// Safety: takes a view that is guarded and a pointer to its `key_limbs` limbs.
    pub lookup: unsafe extern "C" fn(*const View, *const u64) -> u32,
    /// The row to run on a miss. Changes while the view is in use.
    pub default_row: AtomicU32,
    /// Which structure it is.
    pub structure: Structure,
    /// Limbs of a packed key.
    pub key_limbs: u32,
    /// Words of a row.
    pub row_words: u32,
    /// Lpm32: 32 - width.
    pub lpm_shift: u32,
    /// [`Self::lookup`] of several keys, which may be faster than one by one: memory accesses overlap. Set for every
    /// structure.
    ///
    /// Safety: takes a guarded view, this many pointers to keys, and room for as many rows.
    pub lookup_batch: unsafe extern "C" fn(*const View, *const *const u64, *mut u32, usize),
    /// See [`Self::entries_changed`].
    entries_changed: AtomicU64,
    /// See [`Self::rows_released`].
    rows_released: AtomicU64,
    /// With an action profile: the groups' lists, by slot.
    pub profile_groups: *const u8,
    /// With an action profile: the members' rows, by slot.
    pub profile_members: *const u8,
    /// With an action profile: its row 0.
    pub profile_rows: *const u64,
    /// The action profile, null if the table has none.
    profile: *const Shared,
    /// What the pointers point into.
    keep: Keep,
}

/// Owns what a view points into.
struct Keep {
    rows: Arc<Region>,
    base: Option<Arc<Region>>,
    aux: Option<Arc<Region>>,
    _changes: Option<Arc<Changes>>,
    _searcher: Option<Box<Searcher>>,
    _profile: Option<Arc<Shared>>,
}

// SAFETY: the pointers lead into what `keep` owns, which is shared memory made of atomics.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// Functions for [`View::lookup`] and [`View::lookup_batch`].
pub(crate) type Lookups = (
    unsafe extern "C" fn(*const View, *const u64) -> u32,
    unsafe extern "C" fn(*const View, *const *const u64, *mut u32, usize),
);

/// What differs between structures.
#[derive(Default)]
pub(crate) struct Parts {
    pub base: Option<Arc<Region>>,
    pub aux: Option<Arc<Region>>,
    pub mask: u64,
    pub shift: u64,
    pub seed: u64,
    pub buckets: u64,
    pub step: u64,
    pub searcher: Option<Searcher>,
    /// Of a structure whose searches take several steps that may not fit together: `aux` leads there.
    pub changes: Option<Arc<Changes>>,
    /// Those of a structure that has its own.
    pub lookups: Option<Lookups>,
}

impl View {
    /// Quotient: most buckets of a search.
    pub const BUCKETS_MAX: usize = BUCKETS_MAX;

    pub(crate) fn new(
        spec: &TableSpec,
        key_limbs: usize,
        row_words: usize,
        rows: &Arc<Region>,
        default_row: u32,
        parts: Parts,
        profile: Option<&Arc<Shared>>,
    ) -> View {
        let start =
            |region: &Option<Arc<Region>>| region.as_ref().map_or(ptr::null(), |region| region.start());
        let searcher = parts.searcher.map(Box::new);
        let structure = structure_of(spec);
        let bases = profile.map(|profile| profile.bases());
        let (lookup, lookup_batch) = parts.lookups.unwrap_or((lookup_plain, lookup_one_by_one));
        View {
            rows: rows.start().cast(),
            base: searcher.as_ref().map_or(start(&parts.base), |s| ptr::from_ref(&**s).cast()),
            aux: parts.changes.as_ref().map_or(start(&parts.aux), |changes| Arc::as_ptr(changes).cast()),
            mask: parts.mask,
            shift: parts.shift,
            seed: parts.seed,
            buckets: parts.buckets,
            step: parts.step,
            lookup,
            lookup_batch,
            default_row: AtomicU32::new(default_row),
            structure,
            key_limbs: key_limbs as u32,
            row_words: row_words as u32,
            lpm_shift: match spec.keys.as_slice() {
                [key] if key.kind == MatchKind::Lpm => 32u32.saturating_sub(key.width),
                _ => 0,
            },
            entries_changed: AtomicU64::new(0),
            rows_released: AtomicU64::new(0),
            profile_groups: bases.as_ref().map_or(ptr::null(), |bases| bases.groups),
            profile_members: bases.as_ref().map_or(ptr::null(), |bases| bases.members),
            profile_rows: bases.as_ref().map_or(ptr::null(), |bases| bases.rows),
            profile: profile.map_or(ptr::null(), Arc::as_ptr),
            keep: Keep {
                rows: Arc::clone(rows),
                base: parts.base,
                aux: parts.aux,
                _changes: parts.changes,
                _searcher: searcher,
                _profile: profile.cloned(),
            },
        }
    }

    /// A number that is raised before and after each change of what lookups find: it is odd while one is made. Where it is
    /// even, what a lookup found after this was read is found again as long as it stays the same.
    pub fn entries_changed(&self) -> u64 {
        self.entries_changed.load(Ordering::Acquire)
    }

    /// A number that is raised when a row is no more used, before it may be used for another action. What a row had that
    /// was found after this was read, it has as long as this stays the same.
    pub fn rows_released(&self) -> u64 {
        self.rows_released.load(Ordering::Acquire)
    }

    /// The words of a row: see the layout above. For tests and tools.
    pub fn row(&self, row: u32) -> Vec<u64> {
        let start = row as usize * self.row_words as usize;
        let words = &self.keep.rows.words()[start..start + self.row_words as usize];
        words.iter().map(|word| word.load(Ordering::Acquire)).collect()
    }

    /// The words of the action that [`select_batch`] finds, without what may follow them. For tests and tools.
    pub fn selected(&self, row: u32, selector: u64) -> Vec<u64> {
        // SAFETY: the view is borrowed; what is found lasts as long as the reader is pinned, and rows have their words.
        unsafe {
            let mut found = [ptr::null()];
            select_batch(self, &[row], &[selector], &mut found);
            let [words] = found;
            let row = self.row_to_run(row);
            let keep = self.keep._profile.as_ref();
            let count = match &*words.cast::<AtomicU64>() {
                action if action.load(Ordering::Relaxed) as u32 == Action::NONE => 1,
                _ if words == self.rows.add(row as usize * self.row_words as usize) => {
                    self.row_words as usize
                }
                _ => keep.map_or(1, |profile| profile.row_words()),
            };
            (0..count).map(|i| (*words.add(i).cast::<AtomicU64>()).load(Ordering::Relaxed)).collect()
        }
    }

    /// The rows of several packed keys, by [`Self::lookup_batch`]. For tests and tools.
    ///
    /// # Panics
    /// If a key has not its limbs.
    pub fn rows_of(&self, keys: &[&[u64]]) -> Vec<u32> {
        assert!(keys.iter().all(|key| key.len() == self.key_limbs as usize), "limbs of the keys");
        let pointers: Vec<_> = keys.iter().map(|key| key.as_ptr()).collect();
        let mut rows = vec![0; keys.len()];
        // SAFETY: the view is borrowed, every key has its limbs, and there are as many rows.
        unsafe { (self.lookup_batch)(self, pointers.as_ptr(), rows.as_mut_ptr(), keys.len()) };
        rows
    }

    fn row_to_run(&self, found: u32) -> u32 {
        if found == 0 { self.default_row.load(Ordering::Acquire) } else { found }
    }

    fn base(&self) -> &Region {
        self.keep.base.as_ref().expect("this structure has memory")
    }
}

/// The words of the actions of rows; of row 0 those of the default row. A selector picks the member of a group: the one with
/// the number `selector % members`, in the order of their handles. Memory accesses overlap.
///
/// # Safety
/// `view` is guarded, and `rows` are rows of it; there are as many selectors and places for results. The results are good as
/// long as the guard is held.
pub unsafe fn select_batch(view: *const View, rows: &[u32], selectors: &[u64], found: &mut [*const u64]) {
    // SAFETY: as the caller promises.
    unsafe {
        let view = &*view;
        for (row, found) in rows.iter().zip(&mut *found) {
            *found = view.rows.add(view.row_to_run(*row) as usize * view.row_words as usize);
            prefetch(*found);
        }
        if let Some(profile) = view.profile.as_ref() {
            let several = found.chunks_mut(SELECTED_MAX).zip(selectors.chunks(SELECTED_MAX));
            several.for_each(|(found, selectors)| profile.of_rows(found, selectors));
        }
    }
}

unsafe extern "C" fn lookup_plain(view: *const View, key: *const u64) -> u32 {
    // SAFETY: the contract of `View::lookup`.
    unsafe {
        let view = &*view;
        lookup_fast(view, std::slice::from_raw_parts(key, view.key_limbs as usize))
    }
}

pub(crate) unsafe extern "C" fn lookup_one_by_one(
    view: *const View,
    keys: *const *const u64,
    rows: *mut u32,
    count: usize,
) {
    // SAFETY: the contract of `View::lookup_batch`.
    unsafe {
        for i in 0..count {
            *rows.add(i) = ((*view).lookup)(view, *keys.add(i));
        }
    }
}

/// What generated code does, in Rust: the row of the packed key, 0 on a miss.
pub fn lookup_fast(view: &View, key: &[u64]) -> u32 {
    match view.structure {
        Structure::Keyless => 0,
        Structure::Direct => view.base().halves()[key[0] as usize].load(Ordering::Acquire),
        Structure::Quotient => lookup_quotient(view, key[0]),
        Structure::Hash => match key {
            [a] => lookup_hash(view, &[*a]),
            [a, b] => lookup_hash(view, &[*a, *b]),
            _ => lookup_hash(view, key),
        },
        Structure::Lpm32 => {
            let key = (key[0] as u32) << view.lpm_shift;
            let entry = view.base().halves()[(key >> 8) as usize].load(Ordering::Acquire);
            let groups = view.keep.aux.as_ref().expect("DIR-24-8 has two arrays").halves();
            let row = if entry & GROUP == 0 {
                entry
            } else {
                groups[(entry & !GROUP) as usize * 256 + (key & 255) as usize].load(Ordering::Acquire)
            };
            if row == 0 { groups[(key >> 24) as usize].load(Ordering::Acquire) } else { row }
        }
        Structure::Generic => {
            assert_eq!(key.len(), view.key_limbs as usize, "limbs of the key");
            // SAFETY: the view is borrowed, and the key has its limbs.
            unsafe { (view.lookup)(view, key.as_ptr()) }
        }
    }
}

#[inline]
fn lookup_quotient(view: &View, key: u64) -> u32 {
    let words = view.base().words();
    let product = key.wrapping_mul(view.seed);
    let first = ((u128::from(product) * u128::from(view.buckets)) >> 64) as usize;
    let mut tag = (product << view.shift) + view.step;
    for index in first..first + BUCKETS_MAX {
        let bucket = words[index * BUCKET..].first_chunk::<BUCKET>().expect("no search passes the end");
        let words = bucket.each_ref().map(|word| word.load(Ordering::Acquire));
        let nearest = words.iter().fold(u64::MAX, |nearest, word| nearest.min(word ^ tag));
        if nearest < view.step {
            return (nearest & view.mask) as u32;
        }
        if words[BUCKET - 1] == 0 {
            return 0;
        }
        tag += view.step;
    }
    0
}

#[inline]
fn lookup_hash(view: &View, key: &[u64]) -> u32 {
    let limbs = key.len();
    let words: &[AtomicU64] = view.base().words();
    let mut index = hash(view.seed, key.iter().copied()) >> view.shift;
    loop {
        let slot = &words[index as usize * (limbs + 1)..][..limbs + 1];
        let value = slot[limbs].load(Ordering::Acquire) as u32;
        if value == EMPTY {
            return 0;
        }
        if key.iter().zip(slot).all(|(k, word)| *k == word.load(Ordering::Relaxed)) {
            return if value == DELETED { 0 } else { value };
        }
        index = (index + 1) & view.mask;
    }
}

/// Announces that this thread reads views, until the guard is dropped. Pin once per batch of packets, never for long: what
/// writers replace stays allocated meanwhile, and after many changes they wait.
pub fn pin() -> Guard {
    crossbeam_epoch::pin()
}

/// Where readers find the current [`View`] of a table. Cheap to clone; may outlive the table, which then stays as it was.
#[derive(Clone)]
pub struct ViewHandle(Arc<Current>);

struct Current(AtomicPtr<View>);

impl ViewHandle {
    pub(crate) fn new(view: View) -> ViewHandle {
        ViewHandle(Arc::new(Current(AtomicPtr::new(Box::into_raw(Box::new(view))))))
    }

    /// The current view, to be used as long as the guard is held.
    pub fn load(&self, _guard: &Guard) -> *const View {
        self.0.0.load(Ordering::Acquire)
    }

    /// The current view.
    pub fn get<'g>(&self, guard: &'g Guard) -> &'g View {
        // SAFETY: views are freed only after all guards are gone that were there when it was replaced.
        unsafe { &*self.load(guard) }
    }

    /// To be called before each change of what lookups find, and then [`Self::entries_changed`] or [`Self::replace`].
    pub(crate) fn entries_change(&self) {
        let guard = pin();
        let changed = &self.get(&guard).entries_changed;
        changed.store(changed.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        // Who sees the change sees this, too.
        fence(Ordering::Release);
    }

    /// To be called after each change of what lookups find.
    pub(crate) fn entries_changed(&self) {
        let guard = pin();
        let changed = &self.get(&guard).entries_changed;
        changed.store((changed.load(Ordering::Relaxed) | 1) + 1, Ordering::Release);
    }

    /// To be called when a row is no more used, before it is given back.
    pub(crate) fn row_released(&self) {
        let guard = pin();
        let released = &self.get(&guard).rows_released;
        released.store(released.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    pub(crate) fn replace(&self, mut view: View, returns: &Returns<Box<View>>) {
        {
            let guard = pin();
            let now = self.get(&guard);
            *view.entries_changed.get_mut() = (now.entries_changed() | 1) + 1;
            *view.rows_released.get_mut() = now.rows_released();
        }
        let old = self.0.0.swap(Box::into_raw(Box::new(view)), Ordering::AcqRel);
        // SAFETY: it came from `Box::into_raw` and the swap made it ours. Readers may still use it; the box only carries it
        // until they have passed.
        returns.retire(unsafe { Box::from_raw(old) });
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: it came from `Box::into_raw` and no handle is left to load it from.
        let view = unsafe { Box::from_raw(*self.0.get_mut()) };
        // A reader may have loaded it before its handle went.
        pin().defer(move || drop(view));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActionSpec, KeySpec, Table};

    /// A reader that is held up may meet full buckets as far as it looks: each was full when it came there.
    #[test]
    fn a_search_ends_where_no_key_can_be() {
        let table = Table::new(TableSpec {
            keys: vec![KeySpec { width: 48, kind: MatchKind::Exact }],
            actions: vec![ActionSpec { param_widths: vec![] }],
            size: 16,
            row_per_entry: false,
            idle_timeout: false,
            default: Action { action: 0, data: vec![] },
        });
        let guard = pin();
        let views = table.view_handle();
        let view = views.get(&guard);
        // As of deleted keys: the greatest distance.
        view.base().words().iter().for_each(|word| word.store(63 * view.step, Ordering::Relaxed));
        for key in 0..10_000 {
            assert_eq!(lookup_fast(view, &[key]), 0);
        }
    }
}
