//! The search of the tree by readers.

use super::dims::{DIMS_MAX, Dims};
use super::{
    BLOCK_HEAD, CHILDREN, DEPTH_MAX, DIMS, IDS, LANES, LEAF, LINE_WORDS, LIVE, NODE, REST, ROOTS, ROW, RULE,
    Ref, SEQUENCE, Scale,
};
use crate::changes::Changes;
use crate::memory::{Region, prefetch};
use crate::view::{Lookups, View, lookup_one_by_one};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The tree as readers search it.
pub(crate) struct Searcher {
    pub(super) dims: Arc<Dims>,
    pub(super) rules: Arc<Region>,
    pub(super) rule_words: usize,
    pub(super) memory: Arc<Region>,
    pub(super) block_words: usize,
    pub(super) scale: Scale,
}

/// Number of keys searched at the same time.
const WALKS: usize = 12;
/// Smaller trees (nearly) fit the second-level cache, where switching between keys costs more than waiting.
const TOGETHER_BYTES_MIN: usize = 6 << 20;

/// The best match so far.
#[derive(Clone, Copy)]
struct Best {
    rank: (u32, u64),
    row: u32,
}

impl Best {
    const NONE: Best = Best { rank: (u32::MAX, u64::MAX), row: 0 };
}

/// A search in progress.
#[derive(Clone, Copy)]
struct Walk<'k> {
    key: &'k [u64],
    /// The key's dimensions.
    values: [u32; DIMS_MAX],
    best: Best,
    /// The subtree to search next, or none.
    at: Ref,
    /// Further subtrees to search.
    rests: [Ref; DEPTH_MAX + 8],
    waiting: usize,
}

impl Walk<'_> {
    const IDLE: Walk<'static> = Walk {
        key: &[],
        values: [0; DIMS_MAX],
        best: Best::NONE,
        at: Ref::NONE,
        rests: [Ref::NONE; DEPTH_MAX + 8],
        waiting: 0,
    };

    /// Returns the index of the child to go to.
    #[inline(always)]
    fn child(&self) -> usize {
        (self.values[self.at.dim()] >> self.at.shift() & ((1 << self.at.bits()) - 1)) as usize
    }
}

impl Searcher {
    /// Returns the lookup functions for a tree of this many bytes.
    pub fn lookups(&self, bytes: usize) -> Lookups {
        let (one, several): Lookups = match self.dims.list.len() {
            #[cfg(target_arch = "x86_64")]
            5 if std::arch::is_x86_feature_detected!("avx2") => (lookup_avx2::<5>, lookup_batch_avx2::<5>),
            #[cfg(target_arch = "x86_64")]
            _ if std::arch::is_x86_feature_detected!("avx2") => (lookup_avx2::<0>, lookup_batch_avx2::<0>),
            _ => (lookup_plain, lookup_batch_plain),
        };
        (one, if bytes < TOGETHER_BYTES_MIN { lookup_one_by_one } else { several })
    }

    /// Returns the row of the best matching rule, 0 if none matches. `N` is the number of dimensions, or 0 if only `self`
    /// knows it; `WIDE` means that AVX2 is available.
    #[inline(always)]
    fn find<const WIDE: bool, const N: usize>(&self, key: &[u64]) -> u32 {
        let mut walk = Walk::IDLE;
        self.begin::<N>(&mut walk, key);
        while walk.at != Ref::NONE {
            self.step::<WIDE, N>(&mut walk);
            self.settle(&mut walk);
        }
        walk.best.row
    }

    /// Like [`Self::find`], but the answer is that of a single state.
    #[inline(always)]
    fn find_in_one_state<const WIDE: bool, const N: usize>(&self, changes: &Changes, key: &[u64]) -> u32 {
        changes.read(|| self.find::<WIDE, N>(key), |[rule, _]| self.concerns(rule, key))
    }

    #[cold]
    #[inline(never)]
    fn find_again(&self, changes: &Changes, key: &[u64]) -> u32 {
        changes.read(|| self.find::<false, 0>(key), |[rule, _]| self.concerns(rule, key))
    }

    /// Returns what a search for a key looks at: nodes, blocks of leaves, and single rules.
    pub fn looks_at(&self, key: &[u64]) -> [usize; 3] {
        let mut seen = [0; 3];
        let mut walk = Walk::IDLE;
        self.begin::<0>(&mut walk, key);
        while walk.at != Ref::NONE {
            match walk.at.kind() {
                NODE => seen[0] += 1,
                LEAF => seen[1] += walk.at.blocks(),
                _ => seen[2] += 1,
            }
            self.step::<false, 0>(&mut walk);
            self.settle(&mut walk);
        }
        seen
    }

    /// True if a rule matches a key.
    fn concerns(&self, rule: u64, key: &[u64]) -> bool {
        let mut values = [0; DIMS_MAX];
        let values = &mut values[..self.dims.list.len()];
        self.dims.of_key(key, values);
        let mut best = Best::NONE;
        self.try_rule(rule as u32, values, key, &mut best);
        best.row != 0
    }

    /// Like [`Self::find`] for several keys. Several searches are in progress at any time, each advancing one step at a
    /// time, so that their memory accesses overlap.
    #[inline(always)]
    fn find_all<'k, const WIDE: bool, const N: usize>(
        &self,
        changes: &Changes,
        keys: impl Iterator<Item = &'k [u64]>,
        mut put: impl FnMut(usize, u32),
    ) {
        let mut keys = keys.enumerate();
        let mut walks = [Walk::IDLE; WALKS];
        let mut of = [0; WALKS];
        let mut begins = [0; WALKS];
        let mut active = 0;
        for (walk, (number, key)) in walks.iter_mut().zip(keys.by_ref().take(WALKS)) {
            begins[active] = changes.begin();
            self.begin::<N>(walk, key);
            of[active] = number;
            active += 1;
        }
        // The first elements of `order` are the searches in progress.
        let mut order: [u8; WALKS] = std::array::from_fn(|i| i as u8);
        while active > 0 {
            let mut i = 0;
            while i < active {
                let slot = order[i] as usize;
                let walk = &mut walks[slot];
                if walk.at == Ref::NONE {
                    let mut row = walk.best.row;
                    if !changes.none_since(begins[slot])
                        && changes.any_since(begins[slot], |[rule, _]| self.concerns(rule, walk.key))
                    {
                        row = self.find_again(changes, walk.key);
                    }
                    put(of[slot], row);
                    if let Some((number, key)) = keys.next() {
                        of[slot] = number;
                        begins[slot] = changes.begin();
                        self.begin::<N>(walk, key);
                    } else {
                        active -= 1;
                        order.swap(i, active);
                        continue;
                    }
                } else {
                    self.step::<WIDE, N>(walk);
                    self.settle(walk);
                    self.prefetch(walk);
                }
                i += 1;
            }
        }
    }

    #[inline(always)]
    fn begin<'k, const N: usize>(&self, walk: &mut Walk<'k>, key: &'k [u64]) {
        let count = if N == 0 { self.dims.list.len() } else { N };
        self.dims.of_key(key, &mut walk.values[..count]);
        let words = self.memory.words();
        walk.key = key;
        walk.best = Best::NONE;
        walk.rests[0] = Ref(words[ROOTS[1]].load(Ordering::Acquire));
        walk.waiting = 1;
        walk.at = Ref(words[ROOTS[0]].load(Ordering::Acquire));
        self.settle(walk);
    }

    /// Continues with a subtree that may have a better rule, or with none.
    #[inline(always)]
    fn settle(&self, walk: &mut Walk) {
        while walk.at == Ref::NONE || walk.at.best() > self.scale.of(walk.best.rank.0) {
            if walk.waiting == 0 {
                walk.at = Ref::NONE;
                return;
            }
            walk.waiting -= 1;
            walk.at = walk.rests[walk.waiting];
        }
    }

    #[inline(always)]
    fn step<const WIDE: bool, const N: usize>(&self, walk: &mut Walk) {
        let count = if N == 0 { self.dims.list.len() } else { N };
        let (at, words) = (walk.at, self.memory.words());
        match at.kind() {
            NODE => {
                let node = &words[at.at()..];
                let rest = Ref(node[REST].load(Ordering::Acquire));
                walk.rests[walk.waiting] = rest;
                walk.waiting += usize::from(rest != Ref::NONE);
                walk.at = Ref(node[CHILDREN + walk.child()].load(Ordering::Acquire));
                return;
            }
            LEAF => self.search_leaf::<WIDE>(at, &walk.values[..count], walk.key, &mut walk.best),
            _ => self.try_rule(at.at() as u32, &walk.values[..count], walk.key, &mut walk.best),
        }
        walk.at = Ref::NONE;
    }

    /// Prefetches the memory of the next step.
    #[inline(always)]
    fn prefetch(&self, walk: &Walk) {
        let at = walk.at;
        let words = self.memory.words().as_ptr();
        match at.kind() {
            NODE => {
                prefetch(words.wrapping_add(at.at()));
                prefetch(words.wrapping_add(at.at() + CHILDREN + walk.child()));
            }
            LEAF => (0..self.block_words)
                .step_by(LINE_WORDS)
                .for_each(|word| prefetch(words.wrapping_add(at.at() + word))),
            RULE => prefetch(self.rules.words().as_ptr().wrapping_add(at.at() * self.rule_words)),
            _ => {}
        }
    }

    #[inline(always)]
    fn search_leaf<const WIDE: bool>(&self, leaf: Ref, values: &[u32], key: &[u64], best: &mut Best) {
        for block in 0..leaf.blocks() {
            let block = &self.memory.words()[leaf.at() + block * self.block_words..][..self.block_words];
            // SAFETY: spans are no longer written once readers can find the block, and they have this many half words.
            let spans = unsafe {
                std::slice::from_raw_parts(
                    block[BLOCK_HEAD..].as_ptr().cast::<[u32; LANES]>(),
                    2 * values.len(),
                )
            };
            let ternary = self.dims.ternary.min(values.len());
            // SAFETY: `WIDE` means that AVX2 is available.
            let equal = unsafe {
                if WIDE { compare_avx2(spans, values, ternary) } else { compare(spans, values, ternary) }
            };
            let mut equal = equal & block[LIVE].load(Ordering::Acquire) as u32;
            while equal != 0 {
                let lane = equal.trailing_zeros() as usize;
                let rule = (block[IDS + lane / 2].load(Ordering::Relaxed) >> (32 * (lane % 2))) as u32;
                // Better rules come first.
                if self.rank_if_matching(rule, key, best) {
                    return;
                }
                equal &= equal - 1;
            }
        }
    }

    #[inline(always)]
    fn try_rule(&self, rule: u32, values: &[u32], key: &[u64], best: &mut Best) {
        let words = &self.rules.words()[rule as usize * self.rule_words..][..self.rule_words];
        let mut differs = false;
        for (dim, value) in values.iter().enumerate() {
            let span = words[DIMS + dim].load(Ordering::Relaxed);
            let (low, high) = (span as u32, (span >> 32) as u32);
            differs |=
                if dim < self.dims.ternary { value & high != low } else { value.wrapping_sub(low) > high };
        }
        if !differs {
            self.rank_if_matching(rule, key, best);
        }
    }

    /// Examines a rule whose dimensions match. True if the whole rule matches.
    #[inline(always)]
    fn rank_if_matching(&self, rule: u32, key: &[u64], best: &mut Best) -> bool {
        let words = &self.rules.words()[rule as usize * self.rule_words..][..self.rule_words];
        if !self.dims.exact {
            let limbs = &words[DIMS + self.dims.list.len()..];
            let low = |i: usize| limbs[i].load(Ordering::Relaxed);
            let high = |i: usize| limbs[self.dims.limbs + i].load(Ordering::Relaxed);
            if !self.dims.matches(key, low, high) {
                return false;
            }
        }
        let head = words[ROW].load(Ordering::Acquire);
        let rank = ((head >> 32) as u32, words[SEQUENCE].load(Ordering::Relaxed));
        if rank < best.rank {
            *best = Best { rank, row: head as u32 };
        }
        true
    }
}

/// Returns the lanes whose rules match, one bit each.
#[inline(always)]
fn compare(spans: &[[u32; LANES]], values: &[u32], ternary: usize) -> u32 {
    let mut differs = [0u32; LANES];
    for (dim, (value, span)) in values.iter().zip(spans.chunks_exact(2)).enumerate() {
        for lane in 0..LANES {
            let (low, high) = (span[0][lane], span[1][lane]);
            differs[lane] |=
                if dim < ternary { value & high ^ low } else { u32::from(value.wrapping_sub(low) > high) };
        }
    }
    (0..LANES).fold(0, |equal, lane| equal | u32::from(differs[lane] == 0) << lane)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn compare_avx2(spans: &[[u32; LANES]], values: &[u32], ternary: usize) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: an array of eight half words has 32 bytes.
    let load = |lanes: &[u32; LANES]| unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
    let mut equal = _mm256_set1_epi32(-1);
    for (dim, (value, span)) in values.iter().zip(spans.chunks_exact(2)).enumerate() {
        let (value, low, high) = (_mm256_set1_epi32(*value as i32), load(&span[0]), load(&span[1]));
        let this = if dim < ternary {
            _mm256_cmpeq_epi32(_mm256_and_si256(value, high), low)
        } else {
            // An unsigned "less or equal".
            let more = _mm256_sub_epi32(value, low);
            _mm256_cmpeq_epi32(_mm256_min_epu32(more, high), more)
        };
        equal = _mm256_and_si256(equal, this);
    }
    _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn compare_avx2(spans: &[[u32; LANES]], values: &[u32], ternary: usize) -> u32 {
    compare(spans, values, ternary)
}

/// # Safety
/// `view` is a view of a table with a classifier, and guarded.
#[inline(always)]
unsafe fn changes_of<'v>(view: *const View) -> &'v Changes {
    // SAFETY: such a view keeps alive its changes, to which `aux` points.
    unsafe { &*(*view).aux.cast() }
}

/// # Safety
/// `view` is a view of a table with a classifier, `key` points to its limbs.
#[inline(always)]
unsafe fn lookup<const WIDE: bool, const N: usize>(view: *const View, key: *const u64) -> u32 {
    // SAFETY: as the caller promises; such a view keeps its searcher, to which `base` points.
    unsafe {
        let searcher = &*(*view).base.cast::<Searcher>();
        let key = std::slice::from_raw_parts(key, searcher.dims.limbs);
        searcher.find_in_one_state::<WIDE, N>(changes_of(view), key)
    }
}

/// # Safety
/// Like [`lookup`], for several keys, with room for as many rows.
#[inline(always)]
unsafe fn lookup_batch<const WIDE: bool, const N: usize>(
    view: *const View,
    keys: *const *const u64,
    rows: *mut u32,
    count: usize,
) {
    // SAFETY: as the caller promises; such a view keeps its searcher, to which `base` points.
    unsafe {
        let searcher = &*(*view).base.cast::<Searcher>();
        let keys = (0..count).map(|i| std::slice::from_raw_parts(*keys.add(i), searcher.dims.limbs));
        searcher.find_all::<WIDE, N>(changes_of(view), keys, |i, row| *rows.add(i) = row);
    }
}

unsafe extern "C" fn lookup_plain(view: *const View, key: *const u64) -> u32 {
    // SAFETY: the contract of `View::lookup`.
    unsafe { lookup::<false, 0>(view, key) }
}

unsafe extern "C" fn lookup_batch_plain(
    view: *const View,
    keys: *const *const u64,
    rows: *mut u32,
    count: usize,
) {
    // SAFETY: the contract of `View::lookup_batch`.
    unsafe { lookup_batch::<false, 0>(view, keys, rows, count) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe extern "C" fn lookup_avx2<const N: usize>(view: *const View, key: *const u64) -> u32 {
    // SAFETY: the contract of `View::lookup`.
    unsafe { lookup::<true, N>(view, key) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe extern "C" fn lookup_batch_avx2<const N: usize>(
    view: *const View,
    keys: *const *const u64,
    rows: *mut u32,
    count: usize,
) {
    // SAFETY: the contract of `View::lookup_batch`.
    unsafe { lookup_batch::<true, N>(view, keys, rows, count) }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn comparisons_agree() {
        if !std::arch::is_x86_feature_detected!("avx2") {
            return;
        }
        let numbers = [0, 1, 5, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, u32::MAX];
        let lanes = |step: usize| std::array::from_fn(|lane| numbers[lane * step % 7]);
        for value in numbers {
            for ternary in 0..=2 {
                for step in 0..49 {
                    let spans = [lanes(step % 7), lanes(step / 7), lanes(1), [u32::MAX; LANES]];
                    let values = [value, value ^ 1];
                    // SAFETY: AVX2 is available.
                    let wide = unsafe { compare_avx2(&spans, &values, ternary) };
                    assert_eq!(compare(&spans, &values, ternary), wide, "{spans:x?} {values:x?} {ternary}");
                }
            }
        }
    }
}
