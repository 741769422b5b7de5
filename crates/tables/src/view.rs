//! Tables as readers see them.
#![allow(unsafe_code)]

use crate::changes::Changes;
use crate::grace::Returns;
use crate::key::{Order, order_of};
use crate::lpm32::GROUP;
use crate::memory::{Region, prefetch};
use crate::probe::{DELETED, EMPTY, hash};
use crate::profile::{SELECTED_MAX, Shared};
use crate::quotient::{BUCKET, BUCKETS_MAX, KEY_BITS_MAX};
use crate::{Action, MatchKind, TableSpec};
pub use crossbeam_epoch::Guard;
use std::any::Any;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Keys of at most this many bits index an array.
const DIRECT_BITS_MAX: u32 = 16;

/// The search structure of the packet path. It depends only on the shape of the table: see [`structure_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Structure {
    /// No key: always the default action.
    Keyless,
    /// All exact, at most 16 bits: an array indexed by the packed key.
    Direct,
    /// All exact, at most 48 bits: open addressing with buckets of four words.
    Quotient,
    /// All exact, wider: open addressing.
    Hash,
    /// One lpm key of 8 to 32 bits: DIR-24-8.
    Lpm32,
    /// Everything else: [`View::lookup`] must be called.
    Generic,
}

/// Returns the structure for tables of this shape.
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
/// A view never changes, except for [`Self::default_row`] and the memory that its pointers lead to; a single writer writes
/// these, and readers may read them at any time. A change that needs other memory creates another view, so load the pointer
/// once per batch ([`ViewHandle::load`]) and use it only while the guard is held.
///
/// **Packed key.** The key fields one after another, the first at bit 0 (least significant), as little-endian `u64` limbs:
/// `key_limbs` of them, at least one. Unused high bits are 0.
///
/// **Rows.** Row `r` is at `rows + r * row_words` (in words). Word 0 has the index of the action in its low 32 bits and, if
/// the table has a row per entry, the slot of the entry above it. Each parameter of the action follows in `ceil(width / 64)`
/// limbs. `row_words` is 1 plus the maximum number of words of action data in the table, plus 1 if entries can have timeouts:
/// then the last word is the time of the entry's last hit, in units of 2^[`HIT_SHIFT`](crate::HIT_SHIFT) µs. Row 0 means
/// "miss". Its first word is the index of the default action if that has no data; otherwise it is [`Action::DEFAULT`], and
/// `default_row` is the row to run (`default_row` is always right but takes another load). Both may change at any time.
///
/// **Tables with an action profile.** The action of a row, or of the default row, may be [`Action::MEMBER`] or
/// [`Action::GROUP`], with a slot in word 1; the words of the action to run are then elsewhere. For a group, the pointer at
/// `profile_groups + 8 * slot` (acquire) leads to `u32`s. The first (acquire) is the number of members, the second does not
/// matter, and of those that follow, number `selector % count` is the slot of a member. If the pointer is null, the group has
/// no members and no action runs. For a member, the `u32` at `profile_members + 4 * slot` (acquire) is a row at
/// `profile_rows`, whose rows have 1 word plus the maximum number of words of action data. [`select_batch`] finds the words
/// for any rows, and returns [`Action::NONE`] where no action runs.
///
/// **Structure**, by [`Self::structure`], which [`structure_of`] predicts. The result of a lookup is a row, 0 on a
/// miss. Loads marked *acquire* must be acquire loads (on x86-64 every load is).
///
/// * [`Structure::Keyless`]: always a miss.
/// * [`Structure::Direct`]: acquire `u32` at `base + 4 * key`.
/// * [`Structure::Quotient`]: buckets of four words at `base`. `p = key * seed` modulo 2^64; the search starts in bucket `i`,
///   the high half of the 128-bit product `p * buckets`, with `t = (p << shift) + step`. Load the bucket's words (acquire) and
///   take the minimum of each word xor `t`: if it is less than `step`, the row is its bits under `mask`. Otherwise, if the
///   last word is 0, it is a miss. Otherwise continue with bucket `i + 1` and `t + step`; after [`View::BUCKETS_MAX`] buckets
///   it is a miss. (A key that is not being moved is within this distance. A reader that is delayed may meet more full buckets
///   in a row.)
/// * [`Structure::Hash`]: slots of `key_limbs + 1` words at `base`: the key, then a value, of which the low 32 bits matter. `h
///   = limb0 * seed`, for each further limb `h = (rotl(h, 32) ^ limb) * seed`, modulo 2^64; the search starts in slot `h >>
///   shift`. Load the value (acquire): 0 is a miss. Then compare the key: if it is equal, the value is the row, or a miss if
///   it is `0xffff_ffff` (the key was deleted). Otherwise continue with slot `(i + 1) & mask`. There is always an empty slot.
/// * [`Structure::Lpm32`]: `k` is the key shifted left by `32 - width`. `e` = acquire `u32` at `base + 4 * (k >> 8)`. If bit
///   31 of `e` is clear, `e` is the row (or 0); otherwise the row is the acquire `u32` at `aux + 4 * ((e & 0x7fff_ffff) * 256
///   + (k & 255))`. If the row is 0, it is the acquire `u32` at `aux + 4 * (k >> 24)`, loaded after the others.
/// * [`Structure::Generic`]: call [`Self::lookup`].
#[repr(C, align(64))]
pub struct View {
    /// Points to row 0.
    pub rows: *const u64,
    /// Points to the structure.
    pub base: *const u8,
    /// Points to the second part of the structure.
    pub aux: *const u8,
    /// Quotient: the bits of a row. Hash: number of slots - 1.
    pub mask: u64,
    /// Quotient: the number of bits to shift left. Hash: 64 - log2(number of slots).
    pub shift: u64,
    /// Quotient and Hash: the multiplier.
    pub seed: u64,
    /// Quotient: number of buckets where a search may start.
    pub buckets: u64,
    /// Quotient: the difference from one bucket to the next.
    pub step: u64,
    /// Finds the row of a packed key, 0 on a miss. Set for every structure.
    ///
    /// Safety: the view must be guarded, and the pointer must lead to its `key_limbs` limbs.
    pub lookup: unsafe extern "C" fn(*const View, *const u64) -> u32,
    /// The row to run on a miss. It may change while the view is in use.
    pub default_row: AtomicU32,
    /// Which structure it is.
    pub structure: Structure,
    /// Limbs of a packed key.
    pub key_limbs: u32,
    /// Words of a row.
    pub row_words: u32,
    /// Lpm32: 32 - width.
    pub lpm_shift: u32,
    /// Like [`Self::lookup`] for several keys, but possibly faster, because memory accesses overlap. Set for every structure.
    ///
    /// Safety: the view must be guarded, and there must be this many pointers to keys, and room for as many rows.
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
    /// Keeps the targets of the pointers alive.
    keep: Keep,
}

/// Owns the memory that a view points to.
struct Keep {
    rows: Arc<Region>,
    base: Option<Arc<Region>>,
    aux: Option<Arc<Region>>,
    _changes: Option<Arc<Changes>>,
    _searched: Option<Searched>,
    _profile: Option<Arc<Shared>>,
}

// SAFETY: the pointers lead to what `keep` owns, which is shared memory made of atomics.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// What the lookup functions of a structure search. [`View::base`] points to it.
pub(crate) type Searched = Box<dyn Any + Send + Sync>;

/// Functions for [`View::lookup`] and [`View::lookup_batch`].
pub(crate) type Lookups = (
    unsafe extern "C" fn(*const View, *const u64) -> u32,
    unsafe extern "C" fn(*const View, *const *const u64, *mut u32, usize),
);

/// The parts of a view that differ between structures.
#[derive(Default)]
pub(crate) struct Parts {
    pub base: Option<Arc<Region>>,
    pub aux: Option<Arc<Region>>,
    pub mask: u64,
    pub shift: u64,
    pub seed: u64,
    pub buckets: u64,
    pub step: u64,
    pub searched: Option<Searched>,
    /// Set for a structure whose searches have several steps that may see different states: `aux` points to it.
    pub changes: Option<Arc<Changes>>,
    /// Set for a structure with lookup functions of its own.
    pub lookups: Option<Lookups>,
}

impl View {
    /// Quotient: maximum number of buckets that a search examines.
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
        let structure = structure_of(spec);
        let bases = profile.map(|profile| profile.bases());
        let (lookup, lookup_batch) = parts.lookups.unwrap_or((lookup_plain, lookup_one_by_one));
        View {
            rows: rows.start().cast(),
            base: parts.searched.as_ref().map_or(start(&parts.base), |s| ptr::from_ref(&**s).cast()),
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
                _searched: parts.searched,
                _profile: profile.cloned(),
            },
        }
    }

    /// A number that is incremented before and after each change of what lookups find, so it is odd during a change. If it is
    /// even and stays the same, a lookup that started after it was read can be repeated with the same result.
    pub fn entries_changed(&self) -> u64 {
        self.entries_changed.load(Ordering::Acquire)
    }

    /// A number that is incremented when a row is no longer used, before it may be used for another action. While it stays the
    /// same, a row found after reading it keeps its contents.
    pub fn rows_released(&self) -> u64 {
        self.rows_released.load(Ordering::Acquire)
    }

    /// Returns the words of a row: see the layout above. For tests and tools.
    pub fn row(&self, row: u32) -> Vec<u64> {
        let start = row as usize * self.row_words as usize;
        let words = &self.keep.rows.words()[start..start + self.row_words as usize];
        words.iter().map(|word| word.load(Ordering::Acquire)).collect()
    }

    /// Returns the words of the action that [`select_batch`] finds, without what may follow them. For tests and tools.
    pub fn selected(&self, row: u32, selector: u64) -> Vec<u64> {
        // SAFETY: the view is borrowed; results last as long as the reader is pinned, and rows are long enough.
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

    /// Returns the rows of several packed keys, by [`Self::lookup_batch`]. For tests and tools.
    ///
    /// # Panics
    /// Panics if a key has the wrong number of limbs.
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

/// Finds the words of the actions of rows; row 0 means the default row. A selector picks the member of a group with the
/// number `selector % members`, in the order of their handles. Memory accesses overlap.
///
/// # Safety
/// `view` is guarded, and `rows` are rows of it; there are as many selectors and places for results. The results are valid as
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

/// Looks up a packed key like generated code. Returns its row, 0 on a miss.
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

/// Returns the number of buckets, slots or arrays beyond the first that a lookup of a packed key reads.
pub(crate) fn further_steps(view: &View, key: &[u64]) -> usize {
    let words = || view.base().words();
    match view.structure {
        Structure::Quotient => {
            let product = key[0].wrapping_mul(view.seed);
            let first = ((u128::from(product) * u128::from(view.buckets)) >> 64) as usize;
            let tag = |number: usize| (product << view.shift) + view.step * (number as u64 + 1);
            let ends = |number: &usize| {
                let bucket = &words()[(first + number) * BUCKET..][..BUCKET];
                let read: Vec<u64> = bucket.iter().map(|word| word.load(Ordering::Acquire)).collect();
                read[BUCKET - 1] == 0 || read.iter().any(|word| word ^ tag(*number) < view.step)
            };
            (0..BUCKETS_MAX).find(ends).unwrap_or(BUCKETS_MAX)
        }
        Structure::Hash => {
            let limbs = key.len();
            let first = hash(view.seed, key.iter().copied()) >> view.shift;
            let ends = |number: &u64| {
                let slot = &words()[((first + number) & view.mask) as usize * (limbs + 1)..][..limbs + 1];
                slot[limbs].load(Ordering::Acquire) as u32 == EMPTY
                    || key.iter().zip(slot).all(|(k, word)| *k == word.load(Ordering::Relaxed))
            };
            (0..=view.mask).find(ends).unwrap_or(0) as usize
        }
        Structure::Lpm32 => {
            let key = (key[0] as u32) << view.lpm_shift;
            let entry = view.base().halves()[(key >> 8) as usize].load(Ordering::Acquire);
            usize::from(entry & GROUP != 0)
        }
        Structure::Keyless | Structure::Direct | Structure::Generic => 0,
    }
}

/// Announces that this thread reads views, until the guard is dropped. Pin once per batch of packets, and never for long:
/// meanwhile replaced memory stays allocated, and after many changes writers wait.
pub fn pin() -> Guard {
    crossbeam_epoch::pin()
}

/// Where readers find the current [`View`] of a table. Cheap to clone. It may outlive the table, which then no longer changes.
#[derive(Clone)]
pub struct ViewHandle(Arc<Current>);

struct Current(AtomicPtr<View>);

impl ViewHandle {
    pub(crate) fn new(view: View) -> ViewHandle {
        ViewHandle(Arc::new(Current(AtomicPtr::new(Box::into_raw(Box::new(view))))))
    }

    /// Returns the current view, which may be used as long as the guard is held.
    pub fn load(&self, _guard: &Guard) -> *const View {
        self.0.0.load(Ordering::Acquire)
    }

    /// Returns the current view.
    pub fn get<'g>(&self, guard: &'g Guard) -> &'g View {
        // SAFETY: a view is freed only after all guards that existed when it was replaced are gone.
        unsafe { &*self.load(guard) }
    }

    /// Must be called before each change of what lookups find, which [`Self::entries_changed`] or [`Self::replace`] must
    /// follow.
    pub(crate) fn entries_change(&self) {
        let guard = pin();
        let changed = &self.get(&guard).entries_changed;
        changed.store(changed.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        // A reader that sees the change sees this too.
        fence(Ordering::Release);
    }

    /// Must be called after each change of what lookups find.
    pub(crate) fn entries_changed(&self) {
        let guard = pin();
        let changed = &self.get(&guard).entries_changed;
        changed.store((changed.load(Ordering::Relaxed) | 1) + 1, Ordering::Release);
    }

    /// Must be called when a row is no longer used, before it is released.
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
        // SAFETY: it came from `Box::into_raw` and the swap made it ours. Readers may still use it; the box only stores it
        // until they have passed.
        returns.retire(unsafe { Box::from_raw(old) });
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: it came from `Box::into_raw` and no handle is left from which to load it.
        let view = unsafe { Box::from_raw(*self.0.get_mut()) };
        // A reader may have loaded the view before its handle was dropped.
        let guard = pin();
        guard.defer(move || drop(view));
        // A view may own gigabytes, and this thread may not pin for a long time.
        guard.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActionSpec, KeySpec, Table};

    /// A delayed reader may meet only full buckets: each was full when the reader came to it.
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
        // As deleted keys leave them: with the greatest distance.
        view.base().words().iter().for_each(|word| word.store(63 * view.step, Ordering::Relaxed));
        for key in 0..10_000 {
            assert_eq!(lookup_fast(view, &[key]), 0);
        }
    }
}
