//! The search by readers: one key, or a batch whose memory accesses overlap.

use super::{
    ABOVE, BEFORE, BITMAP, BLOCK, ENTRIES, LEAF_KEYS, LENS, LEVEL_BITS, NONE, ROOT, ROW, ROWS, Shape,
    concerns, is_leaf, is_node, start_of,
};
use crate::changes::Changes;
use crate::memory::prefetch;
use crate::view::{Lookups, View};
use std::hint::select_unpredictable as select;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

/// Keys that are searched together.
const LANES: usize = 64;

/// The trie as readers see it: the start of its memory.
#[derive(Clone, Copy)]
struct Trie(*const AtomicU32);

/// Safety, of all functions: the trie is that of a guarded view, and entries come from it.
impl Trie {
    #[inline(always)]
    unsafe fn shape(self) -> Shape {
        // SAFETY: the memory starts with the shape.
        let half = |i: usize| unsafe { (*self.0.add(i)).load(Ordering::Relaxed) };
        Shape { shift: half(0), low: half(1), bits: half(2), root: half(3) }
    }

    #[inline(always)]
    fn root<const LIMBS: usize>(self, key: &[u64; LIMBS], shape: Shape) -> *const AtomicU32 {
        self.0.wrapping_add(ROOT + (key[LIMBS - 1] >> (64 - shape.root)) as usize)
    }

    #[inline(always)]
    fn block(self, entry: u32) -> *const AtomicU32 {
        self.0.wrapping_add(start_of(entry))
    }

    /// For a node, returns where the entry of a slot is, or a half word that is 0 if the slot has none; and the row that the
    /// search passes, 0 if none.
    #[inline(always)]
    unsafe fn step(self, node: u32, slot: u8) -> (*const AtomicU32, u32) {
        let node = self.block(node);
        // SAFETY: a node has its bitmap and an entry for each bit of it. What is read as bytes and words never changes
        // while readers may see it.
        unsafe {
            let above = (*node.add(ABOVE)).load(Ordering::Acquire);
            let word = usize::from(slot / 64);
            // The slots of this word up to the wanted one, which is moved to the highest bit.
            let upto = node.add(BITMAP).cast::<u64>().add(word).read() << (!slot % 64);
            let before = node.add(BEFORE).cast::<u8>().add(word).read();
            let number = usize::from(before) + upto.count_ones() as usize;
            let entry = node.wrapping_add(ENTRIES - 1 + number);
            let none = self.0.add(NONE);
            (select((upto as i64) < 0, entry, none), above & ROW)
        }
    }

    /// Returns the row of a key that leads to this leaf; `row` is the last row passed before it.
    #[inline(always)]
    unsafe fn leaf<const LIMBS: usize>(self, leaf: u32, key: &[u64; LIMBS], row: u32) -> u32 {
        let leaf = self.block(leaf);
        // SAFETY: a leaf has one route or two. What is read as words never changes while readers may see it.
        unsafe {
            let half = |i: usize| (*leaf.add(i)).load(Ordering::Acquire);
            let (above, lens) = (half(ABOVE), half(LENS));
            // Both rows are loaded, because a branch that selects one would be unpredictable.
            let rows = [half(ROWS), half(ROWS + 1)];
            // The number of leading bits in which key and route agree.
            let agreeing = |i: usize| {
                let limbs = leaf.add(LEAF_KEYS + 2 * LIMBS * i).cast::<u64>();
                (0..LIMBS).fold(0, |rest, j| match (key[j] ^ limbs.add(j).read()).leading_zeros() {
                    64 => 64 + rest,
                    bits => bits,
                })
            };
            // A leaf whose keys have one limb has room for two routes. In other leaves, a single route is compared twice.
            let second = usize::from(LIMBS == 1 || rows[1] != 0);
            let row = select(above == 0, row, above & ROW);
            let row = select(agreeing(second) >= lens >> 16, rows[1], row);
            select(agreeing(0) >= lens & 0xffff, rows[0], row)
        }
    }

    #[inline(always)]
    unsafe fn find<const LIMBS: usize>(self, key: [u64; LIMBS]) -> u32 {
        // SAFETY: the search starts at the root and follows entries.
        unsafe {
            let shape = self.shape();
            let key = shape.turn(key);
            let mut entry = (*self.root(&key, shape)).load(Ordering::Acquire);
            let (mut at, mut row) = (64 * LIMBS - shape.root as usize, 0);
            while is_node(entry) {
                at -= LEVEL_BITS as usize;
                let (next, above) = self.step(entry, (key[at / 64 % LIMBS] >> (at % 64)) as u8);
                entry = (*next).load(Ordering::Acquire);
                row = select(above == 0, row, above);
            }
            if is_leaf(entry) { self.leaf(entry, &key, row) } else { row_of(entry, row) }
        }
    }

    /// Returns the number of nodes on the way of a key.
    unsafe fn nodes<const LIMBS: usize>(self, key: [u64; LIMBS]) -> usize {
        // SAFETY: as in `find`.
        unsafe {
            let shape = self.shape();
            let key = shape.turn(key);
            let mut entry = (*self.root(&key, shape)).load(Ordering::Acquire);
            let (mut at, mut nodes) = (64 * LIMBS - shape.root as usize, 0);
            while is_node(entry) {
                at -= LEVEL_BITS as usize;
                nodes += 1;
                entry =
                    (*self.step(entry, (key[at / 64 % LIMBS] >> (at % 64)) as u8).0).load(Ordering::Acquire);
            }
            nodes
        }
    }

    /// True if a change may concern this key.
    #[inline(always)]
    unsafe fn is_concerned<const LIMBS: usize>(self, key: [u64; LIMBS], concern: [u64; 2]) -> bool {
        // SAFETY: the memory starts with the shape.
        let turned = unsafe { self.shape() }.turn(key);
        concerns(turned[LIMBS - 1], concern)
    }

    /// Up to [`LANES`] keys descend together, level by level. A level takes two rounds, because in all but small nodes the
    /// entry is some cache lines after the bitmap: so each round prefetches all that the next one needs.
    #[inline(always)]
    unsafe fn find_all<const LIMBS: usize>(self, keys: &[*const u64], rows: &mut [u32]) {
        // Only elements that were written are read.
        let mut turned = [const { MaybeUninit::<[u64; LIMBS]>::uninit() }; LANES];
        // The entry that each key has reached.
        let mut entries = [const { MaybeUninit::<u32>::uninit() }; LANES];
        // The lanes that are at a node, and where their next entries are.
        let mut nodes = [const { MaybeUninit::<u8>::uninit() }; LANES];
        let mut nexts = [const { MaybeUninit::<*const AtomicU32>::uninit() }; LANES];
        // The lanes that are at a leaf. There is always room for another one.
        let mut leaves = [const { MaybeUninit::<u8>::uninit() }; LANES + 1];
        let (mut nodes_count, mut leaves_count) = (0, 0);
        // SAFETY: as in `find`; pointers lead to keys; there are at most as many keys as lanes, no list is longer, and there
        // are as many rows. A key has a byte for every level. What is read of a lane was written in the round before.
        unsafe {
            let shape = self.shape();
            for (key, turned) in keys.iter().zip(&mut turned) {
                let key = key.cast::<[u64; LIMBS]>().read();
                let key = turned.write(if shape.shift | shape.low == 0 { key } else { shape.turn(key) });
                prefetch(self.root(key, shape));
            }
            for lane in 0..keys.len() {
                let key = turned.get_unchecked(lane).assume_init_ref();
                let entry = (*self.root(key, shape)).load(Ordering::Acquire);
                prefetch(if entry & BLOCK != 0 { self.block(entry) } else { self.0 });
                entries.get_unchecked_mut(lane).write(entry);
                *rows.get_unchecked_mut(lane) = row_of(entry, 0);
                nodes.get_unchecked_mut(nodes_count).write(lane as u8);
                nodes_count += usize::from(is_node(entry));
                leaves.get_unchecked_mut(leaves_count).write(lane as u8);
                leaves_count += usize::from(is_leaf(entry));
            }
            let bytes = turned.as_ptr().cast::<u8>();
            let mut at = 64 * LIMBS - shape.root as usize;
            while nodes_count > 0 {
                at -= LEVEL_BITS as usize;
                // The position of this byte of the key in memory.
                let byte = if cfg!(target_endian = "little") { at / 8 } else { (at / 8) ^ 7 };
                for i in 0..nodes_count {
                    let lane = usize::from(nodes.get_unchecked(i).assume_init());
                    let slot = *bytes.add(lane * 8 * LIMBS + byte);
                    let (next, above) = self.step(entries.get_unchecked(lane).assume_init(), slot);
                    prefetch(next);
                    nexts.get_unchecked_mut(i).write(next);
                    let row = rows.get_unchecked_mut(lane);
                    *row = select(above == 0, *row, above);
                }
                let mut still = 0;
                for i in 0..nodes_count {
                    let lane = nodes.get_unchecked(i).assume_init();
                    let entry = (*nexts.get_unchecked(i).assume_init()).load(Ordering::Acquire);
                    prefetch(if entry & BLOCK != 0 { self.block(entry) } else { self.0 });
                    entries.get_unchecked_mut(usize::from(lane)).write(entry);
                    let row = rows.get_unchecked_mut(usize::from(lane));
                    *row = row_of(entry, *row);
                    nodes.get_unchecked_mut(still).write(lane);
                    still += usize::from(is_node(entry));
                    leaves.get_unchecked_mut(leaves_count).write(lane);
                    leaves_count += usize::from(is_leaf(entry));
                }
                nodes_count = still;
            }
            for i in 0..leaves_count {
                let lane = usize::from(leaves.get_unchecked(i).assume_init());
                let entry = entries.get_unchecked(lane).assume_init();
                let row = rows.get_unchecked_mut(lane);
                *row = self.leaf(entry, turned.get_unchecked(lane).assume_init_ref(), *row);
            }
        }
    }
}

/// # Safety
/// The view is of such a table, and guarded.
#[inline(always)]
unsafe fn changes_of<'v>(view: *const View) -> &'v Changes {
    // SAFETY: such a view keeps alive its changes, to which `aux` points.
    unsafe { &*(*view).aux.cast() }
}

/// Returns the row of an entry, or else the last row passed.
#[inline(always)]
fn row_of(entry: u32, before: u32) -> u32 {
    select(entry as i32 > 0, entry & ROW, before)
}

/// # Safety
/// The contract of [`View::lookup`], for a view of such a table with keys of `LIMBS` limbs.
#[inline(always)]
unsafe fn one<const LIMBS: usize>(view: *const View, key: *const u64) -> u32 {
    // SAFETY: as the caller promises.
    unsafe {
        let (trie, key) = (Trie((*view).base.cast()), key.cast::<[u64; LIMBS]>().read());
        changes_of(view).read(|| trie.find::<LIMBS>(key), |concern| trie.is_concerned(key, concern))
    }
}

/// # Safety
/// The contract of [`View::lookup_batch`], for a view of such a table with keys of `LIMBS` limbs.
#[inline(always)]
unsafe fn many<const LIMBS: usize>(view: *const View, keys: *const *const u64, rows: *mut u32, count: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let keys = std::slice::from_raw_parts(keys, count);
        let rows = std::slice::from_raw_parts_mut(rows, count);
        let (trie, changes) = (Trie((*view).base.cast()), changes_of(view));
        for (keys, rows) in keys.chunks(LANES).zip(rows.chunks_mut(LANES)) {
            let begin = changes.begin();
            trie.find_all::<LIMBS>(keys, rows);
            if !changes.none_since(begin) {
                for (key, row) in keys.iter().zip(rows) {
                    let is_concerned =
                        |concern| trie.is_concerned(key.cast::<[u64; LIMBS]>().read(), concern);
                    if changes.any_since(begin, is_concerned) {
                        *row = ((*view).lookup)(view, *key);
                    }
                }
            }
        }
    }
}

/// # Safety
/// Like [`one`].
unsafe extern "C" fn lookup<const LIMBS: usize>(view: *const View, key: *const u64) -> u32 {
    // SAFETY: the same contract.
    unsafe { one::<LIMBS>(view, key) }
}

/// # Safety
/// Like [`many`].
unsafe extern "C" fn batch<const LIMBS: usize>(
    view: *const View,
    keys: *const *const u64,
    rows: *mut u32,
    count: usize,
) {
    // SAFETY: the same contract.
    unsafe { many::<LIMBS>(view, keys, rows, count) }
}

/// [`one`] and [`many`] for processors that count bits in one instruction, as nearly all do.
#[cfg(target_arch = "x86_64")]
mod counting {
    use super::{View, many, one};

    /// # Safety
    /// As for [`one`]; the processor must have these features.
    #[target_feature(enable = "popcnt,lzcnt,bmi1,bmi2")]
    pub unsafe extern "C" fn lookup<const LIMBS: usize>(view: *const View, key: *const u64) -> u32 {
        // SAFETY: the same contract.
        unsafe { one::<LIMBS>(view, key) }
    }

    /// # Safety
    /// As for [`many`]; the processor must have these features.
    #[target_feature(enable = "popcnt,lzcnt,bmi1,bmi2")]
    pub unsafe extern "C" fn batch<const LIMBS: usize>(
        view: *const View,
        keys: *const *const u64,
        rows: *mut u32,
        count: usize,
    ) {
        // SAFETY: the same contract.
        unsafe { many::<LIMBS>(view, keys, rows, count) }
    }

    pub fn available() -> bool {
        use std::arch::is_x86_feature_detected as has;
        has!("popcnt") && has!("lzcnt") && has!("bmi1") && has!("bmi2")
    }
}

/// Returns the number of nodes on the way of a key in the trie of a view.
pub(crate) fn nodes(view: &View, key: &[u64]) -> usize {
    let trie = Trie(view.base.cast());
    let limbs = |i: usize| key.get(i).copied().unwrap_or(0);
    // SAFETY: the view is borrowed, and it is that of a trie with keys of this many limbs.
    unsafe {
        match key.len() {
            1 => trie.nodes::<1>([limbs(0)]),
            2 => trie.nodes::<2>([limbs(0), limbs(1)]),
            3 => trie.nodes::<3>([limbs(0), limbs(1), limbs(2)]),
            _ => trie.nodes::<4>([limbs(0), limbs(1), limbs(2), limbs(3)]),
        }
    }
}

/// Returns the lookup functions for keys of this many limbs.
pub(super) fn lookups_of(limbs: usize) -> Lookups {
    #[cfg(target_arch = "x86_64")]
    if counting::available() {
        return match limbs {
            1 => (counting::lookup::<1>, counting::batch::<1>),
            2 => (counting::lookup::<2>, counting::batch::<2>),
            3 => (counting::lookup::<3>, counting::batch::<3>),
            _ => (counting::lookup::<4>, counting::batch::<4>),
        };
    }
    match limbs {
        1 => (lookup::<1>, batch::<1>),
        2 => (lookup::<2>, batch::<2>),
        3 => (lookup::<3>, batch::<3>),
        _ => (lookup::<4>, batch::<4>),
    }
}
