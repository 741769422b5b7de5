//! Longest-prefix match on keys of up to 256 bits, optionally with exact fields beside the prefix: a trie.
//!
//! The key is rearranged so that the exact fields come first and the prefix field last; then every entry is a prefix of the
//! whole key, a route. The first 16 bits index an array, the root. (In large tables with at least 16 exact bits, few prefixes
//! would end in such a root, so the first 24 bits index it.) Each further level takes 8 bits. A node is a bitmap of its
//! non-empty slots, followed by one packed entry for each: a row, a node of the next level or a leaf. A route that ends inside
//! a node's level is written to all slots of the node that it covers and no longer route does; where such a slot leads further
//! down, the row is stored in the next block, as its "above". So a route is never written below the node where it ends, and a
//! search keeps the last row that it passed. A leaf holds the last one or two routes of its slot, wherever they end, so that
//! long prefixes do not need a node per byte. (Bitmap and packed entries as in poptrie: Asai and Ohara, "Poptrie: A Compressed
//! Trie with Population Count for Fast and Scalable Software IP Routing Table Lookup", 2015.)
//!
//! Blocks never change, except for their rows and entries, which are replaced by single stores. Any other change builds a new
//! block, publishes it in the entry that leads to it, and reuses the old one after readers have passed. On the path of a key
//! whose result changes, a change stores at most one row or entry. So a search that meets one change finds the answer before
//! or after it, and [`Changes`] makes a reader search again if it may have met more.

#[allow(unsafe_code)]
mod search;

pub(crate) use search::nodes;

use crate::changes::{Changes, Concern};
use crate::grace::{Returns, readers_pass};
use crate::index::packed;
use crate::key::{KeyLayout, Order, order_of};
use crate::memory::{Ahead, NoMemory, Region};
use crate::rows::SLOTS_MAX;
use crate::view::Lookups;
use crate::{KeyMatch, TableError, TableSpec};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const LIMBS_MAX: usize = 4;
/// A key. Its first bit is the highest of the last limb in use.
type Key = [u64; LIMBS_MAX];

const LEVEL_BITS: u32 = 8;
/// Bits that index the root, and a wide root.
const ROOT_BITS: u32 = 16;
const WIDE_ROOT_BITS: u32 = 24;
/// Maximum number of entries of a wide root for each route: a KiB of address space.
const WIDE_ROOT_SHARE: u32 = 256;

// An entry. Below `BLOCK` it is a row, 0 if there is none. The bits above the row hold the length of its route minus 1,
// counted from the start of the node. (In the root these bits are 0: lengths are stored elsewhere.)
const BLOCK: u32 = 1 << 31;
/// Set in an entry whose block is a leaf.
const LEAF: u32 = 1 << 30;
const ROW: u32 = LEN_ONE - 1;
const LEN_ONE: u32 = 1 << 28;

// Layout of a block, in half words. First the row of the slot that leads to it, if a route of the level above ends there.
const ABOVE: usize = 0;
/// Node: byte `i` counts the bits that are set before word `i` of the bitmap.
const BEFORE: usize = 1;
const BITMAP: usize = 2;
const ENTRIES: usize = 10;
/// Leaf: the lengths of its two routes, the longer first. If there is only one, the second length is [`NO_LEN`].
const LENS: usize = 1;
const ROWS: usize = 2;
const LEAF_KEYS: usize = 4;

/// Greater than any length.
const NO_LEN: u32 = 0xffff;

/// Maximum number of routes in a leaf.
const LEAF_ROUTES: usize = 2;

/// Blocks start at multiples of this many half words: 32 bytes, the size of the smallest block.
const UNIT: usize = 8;
/// Sizes of blocks in units. Blocks of two or more units start at a cache line.
const CLASSES: [u32; 9] = [1, 2, 4, 6, 8, 12, 16, 24, 34];
/// In the cache line before the root, after the shape of keys: a half word that is always 0.
const NONE: usize = 4;
/// The root, after that cache line.
const ROOT: usize = 2 * UNIT;
/// Maximum number of units that a change takes: a chain of nodes down to where three routes diverge, and a few full nodes.
const CHANGE_UNITS_MAX: u32 = 1024;
/// Address space for small tables. Larger tables get a number of units per route that suffices for most sets of routes; the
/// space doubles if it does not.
const SMALL_UNITS: u32 = 1 << 15;
const ROUTE_UNITS: u32 = 16;
/// Memory of more units gets large pages.
const HUGE_UNITS_MIN: u32 = 1 << 16;

/// The rearrangement of packed keys into those of the trie.
#[derive(Clone, Copy)]
struct Shape {
    /// Unused bits of the last limb.
    shift: u32,
    /// Bits of the exact fields before the lpm field: they become the first bits.
    low: u32,
    /// Number of all bits.
    bits: u32,
    /// Bits that index the root: a multiple of 8.
    root: u32,
}

/// A route: the first `len` bits of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    key: Key,
    len: u32,
}

pub(crate) struct Lpm {
    limbs: usize,
    shape: Shape,
    field: usize,
    pub memory: Arc<Region>,
    /// The prefixes that changes concern: see [`concern`].
    pub changes: Arc<Changes>,
    units: u32,
    next: u32,
    ahead: Ahead,
    /// Free blocks by class; and pairs of class and block that are on their way back from readers.
    free: [Vec<u32>; CLASSES.len()],
    retired: Vec<(u8, u32)>,
    returns: Returns<Vec<(u8, u32)>>,
    /// The length of the route in each entry of the root.
    root_len: Region,
    /// Rows of routes that end in the root.
    short: HashMap<(usize, u32), u32>,
    /// Rows of routes that are in no slot, because longer routes that end in the same node cover all their slots.
    hidden: HashMap<Route, u32>,
}

/// Number of blocks that are retired together.
const RETIRED_TOGETHER: usize = 64;

type Slots = [u32; 1 << LEVEL_BITS];

/// The path of a search: the index of each entry that leads to a node, and the number of bits before that node.
type Trail = Vec<(usize, u32)>;

/// Returns the number of bits that index the root of a table of this size. In a wide root no route covers more than 2^8
/// entries, because each route has all bits of the exact fields.
fn root_bits(exact: u32, size: u32) -> u32 {
    let wide =
        exact + LEVEL_BITS >= WIDE_ROOT_BITS && size.saturating_mul(WIDE_ROOT_SHARE) >= 1 << WIDE_ROOT_BITS;
    if wide { WIDE_ROOT_BITS } else { ROOT_BITS }
}

/// Returns the first unit after the root.
fn first_unit(root: u32) -> u32 {
    ((ROOT + (1 << root)) / UNIT) as u32
}

/// Returns the byte from which the memory is filled completely. A wide root is not: it has no large pages, because changes
/// would wait for them.
fn filled_from(root: u32) -> usize {
    if root > ROOT_BITS { first_unit(root) as usize * UNIT * 4 } else { 0 }
}

/// True if this structure can hold the table.
pub(crate) fn serves(spec: &TableSpec) -> bool {
    let bits: u32 = spec.keys.iter().map(|key| key.width).sum();
    matches!(order_of(spec), Order::Prefix(_)) && bits <= 64 * LIMBS_MAX as u32
}

/// Returns the limbs shifted up by `by`, which is less than the width.
#[inline(always)]
fn shifted_up<const LIMBS: usize>(key: [u64; LIMBS], by: u32) -> [u64; LIMBS] {
    let (limbs, bits) = ((by / 64) as usize, by % 64);
    std::array::from_fn(|i| {
        let limb = |i: usize| if i < LIMBS { key[i] } else { 0 };
        // Two shifts, because a shift by 64 would overflow.
        limb(i.wrapping_sub(limbs)) << bits | limb(i.wrapping_sub(limbs + 1)) >> 1 >> (63 - bits)
    })
}

#[inline(always)]
fn shifted_down<const LIMBS: usize>(key: [u64; LIMBS], by: u32) -> [u64; LIMBS] {
    let (limbs, bits) = ((by / 64) as usize, by % 64);
    std::array::from_fn(|i| {
        let limb = |i: usize| if i < LIMBS { key[i] } else { 0 };
        limb(i + limbs) >> bits | limb(i + limbs + 1) << 1 << (63 - bits)
    })
}

impl Shape {
    #[inline(always)]
    fn turn<const LIMBS: usize>(self, key: [u64; LIMBS]) -> [u64; LIMBS] {
        if self.low < 64 {
            let limb = |i: usize| if i < LIMBS { key[i] } else { 0 };
            // Two shifts, because a shift by 64 would overflow.
            let rest = |i: usize| limb(i) >> self.low | limb(i.wrapping_add(1)) << 1 << (63 - self.low);
            let mut turned = std::array::from_fn(|i| {
                let below = if i == 0 { 0 } else { rest(i - 1) >> 1 >> (63 - self.shift) };
                rest(i) << self.shift | below
            });
            turned[LIMBS - 1] |= key[0] << 1 << (63 - self.low);
            return turned;
        }
        let key = shifted_up(key, self.shift);
        let mut rest = shifted_down(key, self.low);
        rest[0] = rest[0] >> self.shift << self.shift;
        let first = shifted_up(key, self.bits - self.low);
        std::array::from_fn(|i| rest[i] | first[i])
    }
}

/// Returns the length, inside the node, of the route of a row entry, or 0.
fn len_of(entry: u32) -> u32 {
    if entry == 0 { 0 } else { (entry / LEN_ONE) + 1 }
}

fn row_entry(row: u32, len: u32) -> u32 {
    debug_assert!(row <= ROW && (1..=LEVEL_BITS).contains(&len));
    row | ((len - 1) * LEN_ONE)
}

fn is_node(entry: u32) -> bool {
    entry & (BLOCK | LEAF) == BLOCK
}

fn is_leaf(entry: u32) -> bool {
    entry & (BLOCK | LEAF) == BLOCK | LEAF
}

/// Returns the half word at which the block starts.
fn start_of(entry: u32) -> usize {
    (entry & !(BLOCK | LEAF)) as usize * UNIT
}

/// Returns the slots of a node that a route of `len` bits inside it covers, if it covers `slot`.
fn range_of(slot: usize, len: u32) -> std::ops::Range<usize> {
    let first = slot >> (LEVEL_BITS - len) << (LEVEL_BITS - len);
    first..first + (1 << (LEVEL_BITS - len))
}

fn class_of(halves: usize) -> u8 {
    let units = halves.div_ceil(UNIT) as u32;
    CLASSES.iter().position(|class| *class >= units).expect("no block is larger than a full node") as u8
}

fn node_halves(entries: usize) -> usize {
    ENTRIES + entries
}

impl Lpm {
    pub fn new(spec: &TableSpec, layout: &KeyLayout) -> Lpm {
        let Order::Prefix(field) = order_of(spec) else { unreachable!("`serves` was asked") };
        let bits = layout.fields.iter().map(|field| field.width).sum();
        let size = spec.size.min(SLOTS_MAX);
        let root = root_bits(bits - layout.fields[field].width, size);
        let shape =
            Shape { shift: 64 * layout.limbs as u32 - bits, low: layout.fields[field].offset, bits, root };
        let first = first_unit(root);
        let units = size.saturating_mul(ROUTE_UNITS).max(SMALL_UNITS);
        let units = if root > ROOT_BITS { first + units } else { units }.next_multiple_of(HUGE_UNITS_MIN);
        let memory = Self::memory(units, root);
        for (half, value) in memory.halves().iter().zip([shape.shift, shape.low, shape.bits, shape.root]) {
            half.store(value, Ordering::Relaxed);
        }
        // Touches the first large page, so that the first change does not wait for it.
        memory.halves()[first as usize * UNIT].store(0, Ordering::Relaxed);
        Lpm {
            limbs: layout.limbs,
            shape,
            field,
            memory: Arc::new(memory),
            changes: Arc::new(Changes::new()),
            units,
            next: first,
            ahead: Self::ahead(root),
            free: Default::default(),
            retired: Vec::new(),
            returns: Returns::new(),
            root_len: Region::zeroed(1 << root),
            short: HashMap::new(),
            hidden: HashMap::new(),
        }
    }

    pub fn route(&self, layout: &KeyLayout, key: &[KeyMatch]) -> Route {
        let KeyMatch::Lpm { prefix_len, .. } = key[self.field] else { unreachable!("kinds were checked") };
        let packed = packed(layout, key);
        let turned: &[u64] = match *packed {
            [a] => &self.shape.turn([a]),
            [a, b] => &self.shape.turn([a, b]),
            [a, b, c] => &self.shape.turn([a, b, c]),
            [a, b, c, d] => &self.shape.turn([a, b, c, d]),
            _ => unreachable!("`serves` says how many limbs there are"),
        };
        let mut key = [0; LIMBS_MAX];
        key[..turned.len()].copy_from_slice(turned);
        Route { key, len: self.shape.bits - layout.fields[self.field].width + prefix_len }
    }

    pub fn lookups(&self) -> Lookups {
        search::lookups_of(self.limbs)
    }

    pub fn committed_bytes(&self) -> usize {
        let hidden = self.hidden.capacity() * (size_of::<(Route, u32)>() + 1);
        let short = self.short.capacity() * (size_of::<((usize, u32), u32)>() + 1);
        self.memory.committed_bytes() + self.root_len.committed_bytes() + hidden + short
    }

    fn half(&self, index: usize) -> &AtomicU32 {
        &self.memory.halves()[index]
    }

    fn get(&self, index: usize) -> u32 {
        self.half(index).load(Ordering::Relaxed)
    }

    /// Returns bits `depth` to `depth + 7` of a key.
    fn byte(&self, key: &Key, depth: u32) -> usize {
        let at = 64 * self.limbs as u32 - LEVEL_BITS - depth;
        (key[at as usize / 64] >> (at % 64)) as usize & 255
    }

    fn root_index(&self, key: &Key) -> usize {
        (key[self.limbs - 1] >> (64 - self.shape.root)) as usize
    }

    /// Returns the key with all bits from `len` on cleared.
    fn cut(&self, mut key: Key, len: u32) -> Key {
        for (i, limb) in key[..self.limbs].iter_mut().enumerate() {
            *limb &= mask(self.limbs, i, len);
        }
        key
    }

    // Memory.

    fn memory(units: u32, root: u32) -> Region {
        let bytes = units as usize * UNIT * 4;
        let memory = Region::zeroed(bytes);
        if units > HUGE_UNITS_MIN {
            memory.advise_huge_within(filled_from(root)..bytes);
        }
        memory
    }

    fn ahead(root: u32) -> Ahead {
        Ahead::behind(filled_from(root))
    }

    /// Makes room for one change. True if the memory was replaced.
    fn reserve(&mut self) -> bool {
        if self.units > HUGE_UNITS_MIN {
            self.ahead.reach(&self.memory, self.next as usize * UNIT * 4);
        }
        if self.units - self.next >= CHANGE_UNITS_MAX {
            return false;
        }
        // Entries can address 2^30 units, 32 GiB: more than 2^24 routes can need.
        let units = 2 * self.units;
        let memory = Self::memory(units, self.shape.root);
        for (to, from) in memory.halves().iter().zip(&self.memory.halves()[..self.next as usize * UNIT]) {
            match from.load(Ordering::Relaxed) {
                // Skips zeros: most of a wide root was never written and takes no memory.
                0 => {}
                half => to.store(half, Ordering::Relaxed),
            }
        }
        (self.memory, self.units, self.ahead) = (Arc::new(memory), units, Self::ahead(self.shape.root));
        true
    }

    fn take(&mut self, class: u8) -> u32 {
        if self.free[usize::from(class)].is_empty() {
            for (class, block) in self.returns.take().into_iter().flatten() {
                self.free[usize::from(class)].push(block);
            }
        }
        if let Some(block) = self.free[usize::from(class)].pop() {
            return block;
        }
        let block = self.next;
        self.next += CLASSES[usize::from(class)].max(2);
        if class == 0 {
            self.free[0].push(block + 1);
        }
        block
    }

    fn retire(&mut self, entry: u32) {
        let block = start_of(entry);
        let halves = if is_leaf(entry) { self.leaf_halves(block) } else { node_halves(self.count(block)) };
        self.retired.push((class_of(halves), (block / UNIT) as u32));
        if self.retired.len() >= RETIRED_TOGETHER {
            self.returns.retire(std::mem::take(&mut self.retired));
        }
    }

    /// Replaces a block by another one or by nothing.
    fn replace(&mut self, place: usize, entry: u32) {
        let old = self.get(place);
        self.half(place).store(entry, Ordering::Release);
        self.retire(old);
    }

    // Nodes and leaves.

    fn bitmap(&self, node: usize) -> [u64; 4] {
        let half = |i: usize| u64::from(self.get(node + BITMAP + i));
        std::array::from_fn(|i| half(2 * i) | half(2 * i + 1) << 32)
    }

    /// Returns the number of non-empty slots of a node.
    fn count(&self, node: usize) -> usize {
        self.bitmap(node).iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the index of a slot's entry, if it has one.
    fn entry_at(&self, node: usize, slot: usize) -> Option<usize> {
        let bitmap = self.bitmap(node);
        let (word, bit) = (slot / 64, slot % 64);
        let before: u32 = bitmap[..word].iter().map(|word| word.count_ones()).sum();
        let inside = (bitmap[word] & ((1 << bit) - 1)).count_ones();
        (bitmap[word] >> bit & 1 == 1).then_some(node + ENTRIES + (before + inside) as usize)
    }

    fn slots(&self, node: usize) -> Slots {
        let mut slots = [0; 1 << LEVEL_BITS];
        let mut at = node + ENTRIES;
        for (word, mut bits) in self.bitmap(node).into_iter().enumerate() {
            while bits != 0 {
                slots[word * 64 + bits.trailing_zeros() as usize] = self.get(at);
                bits &= bits - 1;
                at += 1;
            }
        }
        slots
    }

    fn new_node(&mut self, above: u32, slots: &Slots) -> u32 {
        let mut bitmap = [0u64; 4];
        for (slot, entry) in slots.iter().enumerate() {
            bitmap[slot / 64] |= u64::from(*entry != 0) << (slot % 64);
        }
        let mut total = 0;
        let mut before = 0;
        for (i, word) in bitmap.iter().enumerate() {
            before |= total << (8 * i);
            total += word.count_ones();
        }
        let block = self.take(class_of(node_halves(total as usize)));
        let halves = &self.memory.halves()[block as usize * UNIT..][..node_halves(total as usize)];
        halves[ABOVE].store(above, Ordering::Relaxed);
        halves[BEFORE].store(before, Ordering::Relaxed);
        for (i, word) in bitmap.iter().enumerate() {
            halves[BITMAP + 2 * i].store(*word as u32, Ordering::Relaxed);
            halves[BITMAP + 2 * i + 1].store((*word >> 32) as u32, Ordering::Relaxed);
        }
        let entries = slots.iter().filter(|entry| **entry != 0);
        for (half, entry) in halves[ENTRIES..].iter().zip(entries) {
            half.store(*entry, Ordering::Relaxed);
        }
        BLOCK | block
    }

    fn leaf_halves(&self, leaf: usize) -> usize {
        let lens = self.get(leaf + LENS);
        let two = self.get(leaf + ROWS + 1) != 0;
        debug_assert_eq!(two, lens >> 16 != NO_LEN);
        LEAF_KEYS + 2 * self.limbs * if two { 2 } else { 1 }
    }

    /// Returns the routes of a leaf with their rows.
    fn leaf_routes(&self, leaf: usize) -> Vec<(Route, u32)> {
        let lens = self.get(leaf + LENS);
        let half = |i: usize| u64::from(self.get(leaf + LEAF_KEYS + i));
        let route = |i: usize| {
            let mut key = [0; LIMBS_MAX];
            for (j, limb) in key[..self.limbs].iter_mut().enumerate() {
                let at = 2 * (i * self.limbs + j);
                *limb = half(at) | half(at + 1) << 32;
            }
            (Route { key, len: lens >> (16 * i) & 0xffff }, self.get(leaf + ROWS + i))
        };
        (0..LEAF_ROUTES).filter(|i| self.get(leaf + ROWS + i) != 0).map(route).collect()
    }

    fn new_leaf(&mut self, above: u32, routes: &mut [(Route, u32)]) -> u32 {
        routes.sort_by_key(|(route, _)| std::cmp::Reverse(route.len));
        let size = LEAF_KEYS + 2 * self.limbs * routes.len();
        let block = self.take(class_of(size));
        let halves = &self.memory.halves()[block as usize * UNIT..][..size];
        let second = routes.get(1).map_or((NO_LEN, 0), |(route, row)| (route.len, *row));
        halves[ABOVE].store(above, Ordering::Relaxed);
        halves[LENS].store(routes[0].0.len | second.0 << 16, Ordering::Relaxed);
        halves[ROWS].store(routes[0].1, Ordering::Relaxed);
        halves[ROWS + 1].store(second.1, Ordering::Relaxed);
        let limbs = routes.iter().flat_map(|(route, _)| &route.key[..self.limbs]);
        for (pair, limb) in halves[LEAF_KEYS..].chunks_exact(2).zip(limbs) {
            pair[0].store(*limb as u32, Ordering::Relaxed);
            pair[1].store((*limb >> 32) as u32, Ordering::Relaxed);
        }
        BLOCK | LEAF | block
    }

    /// Builds the entry of a slot that `depth` bits lead to, for these routes, which are longer and start with those bits.
    fn build(&mut self, depth: u32, above: u32, routes: &mut [(Route, u32)]) -> u32 {
        match routes.len() {
            0 => return above,
            1..=LEAF_ROUTES => return self.new_leaf(above, routes),
            _ => {}
        }
        let end = depth + LEVEL_BITS;
        let mut slots = [0; 1 << LEVEL_BITS];
        // First the routes that end here, shortest first, then the others by slot.
        routes.sort_by_key(|(route, _)| {
            if route.len <= end { (route.len, 0) } else { (u32::MAX, self.byte(&route.key, depth)) }
        });
        let own = routes.partition_point(|(route, _)| route.len <= end);
        for (route, row) in &routes[..own] {
            let range = range_of(self.byte(&route.key, depth), route.len - depth);
            slots[range].fill(row_entry(*row, route.len - depth));
        }
        for (route, row) in &routes[..own] {
            if self.shown(&slots, self.byte(&route.key, depth), route.len - depth).is_none() {
                self.hidden.insert(*route, *row);
            }
        }
        let mut rest = &mut routes[own..];
        while let Some((first, _)) = rest.first() {
            let slot = self.byte(&first.key, depth);
            let same = rest.iter().take_while(|(route, _)| self.byte(&route.key, depth) == slot).count();
            let (group, others) = rest.split_at_mut(same);
            slots[slot] = self.build(end, slots[slot], group);
            rest = others;
        }
        self.new_node(above, &slots)
    }

    /// Returns the row entry of a slot: the entry itself, or what its block stores as "above".
    fn own(&self, entry: u32) -> u32 {
        if entry & BLOCK == 0 { entry } else { self.get(start_of(entry) + ABOVE) }
    }

    /// Returns the row entry of the route with `len` bits that covers `slot`, if some slot shows it.
    fn shown(&self, slots: &Slots, slot: usize, len: u32) -> Option<u32> {
        slots[range_of(slot, len)].iter().map(|entry| self.own(*entry)).find(|own| len_of(*own) == len)
    }

    // Changes.

    /// True if the memory was replaced.
    pub fn insert(&mut self, route: Route, row: u32) -> bool {
        let moved = self.reserve();
        self.changes.announce(self.concern(&route));
        if route.len <= self.shape.root {
            let index = self.root_index(&route.key);
            self.short.insert((index, route.len), row);
            self.set_in_root(index, route.len, |len| len <= route.len, row, route.len);
            return moved;
        }
        let (place, depth) = self.descend(&route, None);
        let entry = self.get(place);
        if !is_node(entry) {
            let mut routes = if is_leaf(entry) { self.leaf_routes(start_of(entry)) } else { Vec::new() };
            routes.push((route, row));
            let block = self.build(depth, self.own(entry), &mut routes);
            if is_leaf(entry) {
                self.replace(place, block);
            } else {
                self.half(place).store(block, Ordering::Release);
            }
        } else if route.len <= depth + LEVEL_BITS {
            self.insert_own(place, depth, route, row);
        } else {
            let node = start_of(entry);
            let mut slots = self.slots(node);
            slots[self.byte(&route.key, depth)] = self.build(depth + LEVEL_BITS, 0, &mut [(route, row)]);
            let new = self.new_node(self.get(node + ABOVE), &slots);
            self.replace(place, new);
        }
        moved
    }

    /// Descends as far as the route does: to the node in which it ends, to a leaf or an entry without a block on its path, or
    /// to a node whose slot for it is empty. Returns the index of the entry that leads there, and the number of bits before
    /// it.
    fn descend(&self, route: &Route, mut trail: Option<&mut Trail>) -> (usize, u32) {
        let (mut place, mut depth) = (ROOT + self.root_index(&route.key), self.shape.root);
        loop {
            let entry = self.get(place);
            if !is_node(entry) {
                return (place, depth);
            }
            if let Some(trail) = &mut trail {
                trail.push((place, depth));
            }
            if route.len <= depth + LEVEL_BITS {
                return (place, depth);
            }
            match self.entry_at(start_of(entry), self.byte(&route.key, depth)) {
                Some(next) => (place, depth) = (next, depth + LEVEL_BITS),
                None => return (place, depth),
            }
        }
    }

    fn insert_own(&mut self, place: usize, depth: u32, route: Route, row: u32) {
        let node = start_of(self.get(place));
        let mut slots = self.slots(node);
        let len = route.len - depth;
        let slot = self.byte(&route.key, depth);
        let (mut shown, mut grows, mut covered) = (false, false, 0);
        for i in range_of(slot, len) {
            let own = self.own(slots[i]);
            if len_of(own) > len {
                continue;
            }
            (shown, covered) = (true, own);
            if slots[i] & BLOCK != 0 {
                self.half(start_of(slots[i]) + ABOVE).store(row_entry(row, len), Ordering::Release);
                continue;
            }
            grows |= slots[i] == 0;
            slots[i] = row_entry(row, len);
        }
        if grows {
            let new = self.new_node(self.get(node + ABOVE), &slots);
            self.replace(place, new);
        } else {
            self.store_rows(node, &slots);
        }
        if !shown {
            self.hidden.insert(route, row);
        } else if covered != 0 && self.shown(&slots, slot, len_of(covered)).is_none() {
            // At most one route can have been shown before: the longest of those that contain the new one.
            let len = depth + len_of(covered);
            self.hidden.insert(Route { key: self.cut(route.key, len), len }, covered & ROW);
        }
    }

    /// Stores the contents of the slots in the entries of a node; empty slots stay empty.
    fn store_rows(&self, node: usize, slots: &Slots) {
        let mut at = node + ENTRIES;
        for (word, mut bits) in self.bitmap(node).into_iter().enumerate() {
            while bits != 0 {
                let entry = slots[word * 64 + bits.trailing_zeros() as usize];
                if self.get(at) != entry {
                    self.half(at).store(entry, Ordering::Release);
                }
                bits &= bits - 1;
                at += 1;
            }
        }
    }

    /// Sets the row entry of the slots that show a route, 0 for none.
    fn set_own(&self, node: usize, slot: usize, len: u32, entry: u32) {
        let mut slots = self.slots(node);
        for i in range_of(slot, len) {
            if len_of(self.own(slots[i])) == len {
                if slots[i] & BLOCK != 0 {
                    self.half(start_of(slots[i]) + ABOVE).store(entry, Ordering::Release);
                } else {
                    slots[i] = entry;
                }
            }
        }
        self.store_rows(node, &slots);
    }

    /// Sets row and length of the root's entries in the range of a route, if `which` accepts their length.
    fn set_in_root(&mut self, index: usize, range_len: u32, which: impl Fn(u32) -> bool, row: u32, len: u32) {
        let range = index..index + (1 << (self.shape.root - range_len));
        for (i, root_len) in range.clone().zip(&self.root_len.bytes()[range]) {
            if !which(root_len.load(Ordering::Relaxed).into()) {
                continue;
            }
            root_len.store(len as u8, Ordering::Relaxed);
            let halves = self.memory.halves();
            let entry = halves[ROOT + i].load(Ordering::Relaxed);
            let at = if entry & BLOCK == 0 { ROOT + i } else { start_of(entry) + ABOVE };
            halves[at].store(row, Ordering::Release);
        }
    }

    /// Returns the keys that a change of this route concerns.
    fn concern(&self, route: &Route) -> Concern {
        [route.key[self.limbs - 1], route.len.into()]
    }

    /// Sets the row of a route.
    pub fn modify(&mut self, route: Route, row: u32) {
        self.changes.announce(self.concern(&route));
        if route.len <= self.shape.root {
            let index = self.root_index(&route.key);
            self.short.insert((index, route.len), row);
            return self.set_in_root(index, route.len, |len| len == route.len, row, route.len);
        }
        let (place, depth) = self.descend(&route, None);
        let entry = self.get(place);
        let block = start_of(entry);
        if is_leaf(entry) {
            let at = self.leaf_routes(block).iter().position(|(other, _)| *other == route);
            let at = at.expect("a route that was inserted is where its bits lead");
            self.half(block + ROWS + at).store(row, Ordering::Release);
        } else if let Some(hidden) = self.hidden.get_mut(&route) {
            *hidden = row;
        } else {
            let len = route.len - depth;
            self.set_own(block, self.byte(&route.key, depth), len, row_entry(row, len));
        }
    }

    /// Removes a route. True if the memory was replaced. A removal succeeds without more memory, because the route leaves
    /// room: so a file of routes can be removed after memory ran out.
    pub fn delete(&mut self, route: Route) -> Result<bool, TableError> {
        let reserved = NoMemory::caught(|| self.reserve());
        if let Err(no_memory) = &reserved {
            self.find_room(&route, no_memory)?;
        }
        let (moved, has_room) = (matches!(reserved, Ok(true)), reserved.is_ok());
        self.changes.announce(self.concern(&route));
        if route.len <= self.shape.root {
            let index = self.root_index(&route.key);
            self.short.remove(&(index, route.len));
            let root = self.shape.root;
            let cover = (0..route.len).rev().find_map(|len| {
                let start = if len == 0 { 0 } else { index >> (root - len) << (root - len) };
                self.short.get(&(start, len)).map(|row| (*row, len))
            });
            let (row, len) = cover.unwrap_or((0, 0));
            self.set_in_root(index, route.len, |len| len == route.len, row, len);
            return Ok(moved);
        }
        let mut trail = Trail::new();
        let (place, depth) = self.descend(&route, Some(&mut trail));
        let entry = self.get(place);
        let block = start_of(entry);
        if is_leaf(entry) {
            let mut routes = self.leaf_routes(block);
            routes.retain(|(other, _)| *other != route);
            let rest = self.build(depth, self.own(entry), &mut routes);
            self.replace(place, rest);
        } else if self.hidden.remove(&route).is_none() {
            let len = route.len - depth;
            let slot = self.byte(&route.key, depth);
            let slots = self.slots(block);
            let cover = (1..len).rev().find_map(|len| {
                let hidden = Route { key: self.cut(route.key, depth + len), len: depth + len };
                let hidden = self.hidden.remove(&hidden).map(|row| row_entry(row, len));
                hidden.or_else(|| self.shown(&slots, slot, len))
            });
            self.set_own(block, slot, len, cover.unwrap_or(0));
        }
        if has_room {
            self.shrink(&route.key, &trail);
        }
        Ok(moved)
    }

    /// Makes sure, without more memory, that there is room to delete a route: room for the rest of its leaf.
    fn find_room(&mut self, route: &Route, no_memory: &NoMemory) -> Result<(), TableError> {
        if route.len <= self.shape.root {
            return Ok(());
        }
        let (place, _) = self.descend(route, None);
        let entry = self.get(place);
        if !is_leaf(entry) || self.leaf_routes(start_of(entry)).len() < LEAF_ROUTES {
            return Ok(());
        }
        let class = class_of(LEAF_KEYS + 2 * self.limbs);
        if self.free[usize::from(class)].is_empty() {
            self.returns.retire(std::mem::take(&mut self.retired));
            readers_pass()?;
            for (class, block) in self.returns.take().into_iter().flatten() {
                self.free[usize::from(class)].push(block);
            }
        }
        let room = self.units - self.next >= CLASSES[usize::from(class)].max(2);
        match room || !self.free[usize::from(class)].is_empty() {
            true => Ok(()),
            false => Err(TableError::NoMemory(no_memory.0.clone())),
        }
    }

    /// Removes empty slots from the nodes on the trail, and turns nodes with few routes into leaves.
    fn shrink(&mut self, key: &Key, trail: &Trail) {
        for (place, depth) in trail.iter().rev() {
            let node = start_of(self.get(*place));
            let slots = self.slots(node);
            let above = self.get(node + ABOVE);
            if let Some(mut routes) = self.few_routes(key, *depth, &slots) {
                let rest = self.build(*depth, above, &mut routes);
                self.replace(*place, rest);
                slots.into_iter().filter(|entry| is_leaf(*entry)).for_each(|leaf| self.retire(leaf));
                continue;
            }
            if slots.iter().filter(|entry| **entry != 0).count() < self.count(node) {
                let new = self.new_node(above, &slots);
                self.replace(*place, new);
            }
            return;
        }
    }

    /// Returns the routes in a node if they fit a leaf.
    fn few_routes(&self, key: &Key, depth: u32, slots: &Slots) -> Option<Vec<(Route, u32)>> {
        const { assert!(LEAF_ROUTES <= 2) };
        let mut routes: Vec<(Route, u32)> = Vec::new();
        for (slot, entry) in slots.iter().enumerate().filter(|(_, entry)| **entry != 0) {
            if is_node(*entry) {
                return None;
            }
            let own = self.own(*entry);
            if own != 0 {
                let first = range_of(slot, len_of(own)).start as u64;
                let at = 64 * self.limbs as u32 - LEVEL_BITS - depth;
                let mut key = self.cut(*key, depth);
                key[at as usize / 64] |= first << (at % 64);
                let route = Route { key, len: depth + len_of(own) };
                if !routes.iter().any(|(other, _)| *other == route) {
                    routes.push((route, own & ROW));
                }
            }
            if is_leaf(*entry) {
                routes.extend(self.leaf_routes(start_of(*entry)));
            }
            if routes.len() > LEAF_ROUTES {
                return None;
            }
        }
        // Two routes can hide a third one, of which they are the halves.
        let hiding = |route: &Route| {
            let len = route.len - 1;
            self.hidden.contains_key(&Route { key: self.cut(route.key, len), len })
        };
        (!routes.iter().any(|(route, _)| hiding(route))).then_some(routes)
    }
}

/// True if a change may concern a key that starts with these 64 bits.
#[inline(always)]
fn concerns(first: u64, [prefix, len]: Concern) -> bool {
    let differing = first ^ prefix;
    u64::from(differing.leading_zeros()) >= len.min(64)
}

/// Returns the bits of limb `i` of `limbs` that are among the first `len` bits of the key.
#[inline(always)]
fn mask(limbs: usize, i: usize, len: u32) -> u64 {
    let first = 64 * (limbs - 1 - i) as u32;
    match len.saturating_sub(first) {
        0 => 0,
        bits @ 1..64 => !0 << (64 - bits),
        _ => !0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, ActionSpec, KeySpec, MatchKind};

    fn trie() -> (Lpm, KeyLayout) {
        trie_of(vec![KeySpec { width: 64, kind: MatchKind::Lpm }], 4096)
    }

    fn trie_of(keys: Vec<KeySpec>, size: u32) -> (Lpm, KeyLayout) {
        let spec = TableSpec {
            keys,
            actions: vec![ActionSpec { param_widths: vec![] }],
            size,
            row_per_entry: false,
            idle_timeout: false,
            default: Action { action: 0, data: vec![] },
        };
        let layout = KeyLayout::new(&spec);
        (Lpm::new(&spec, &layout), layout)
    }

    /// Returns the number of nodes and leaves in use.
    fn blocks(trie: &Lpm) -> usize {
        fn below(trie: &Lpm, entry: u32) -> usize {
            if !is_node(entry) {
                return usize::from(is_leaf(entry));
            }
            let slots = trie.slots(start_of(entry));
            1 + slots.into_iter().map(|entry| below(trie, entry)).sum::<usize>()
        }
        (ROOT..ROOT + (1 << trie.shape.root)).map(|at| below(trie, trie.get(at))).sum()
    }

    /// Random prefixes, many of them inside others.
    fn routes(count: usize) -> Vec<KeyMatch> {
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 20
        };
        let mut all = std::collections::HashSet::new();
        while all.len() < count {
            let prefix_len = 8 + (next() % 57) as u32;
            let value =
                (0x2001 << 48 | (next() & 0x0303_0303_0303)) >> (64 - prefix_len) << (64 - prefix_len);
            all.insert(KeyMatch::Lpm { value: value.into(), prefix_len });
        }
        all.into_iter().collect()
    }

    #[test]
    fn nodes_shrink_when_routes_go() {
        let routes = routes(2000);
        for left in [0, 1, 10, 300] {
            let (mut trie, layout) = trie();
            let (mut fresh, _) = self::trie();
            for (row, route) in routes.iter().enumerate() {
                trie.insert(trie.route(&layout, std::slice::from_ref(route)), 1 + row as u32);
            }
            let full = blocks(&trie);
            assert!(full > 300, "the routes part in {full} blocks");
            for route in &routes[left..] {
                trie.delete(trie.route(&layout, std::slice::from_ref(route))).expect("there is memory");
            }
            for (row, route) in routes[..left].iter().enumerate() {
                fresh.insert(fresh.route(&layout, std::slice::from_ref(route)), 1 + row as u32);
            }
            assert_eq!(blocks(&trie), blocks(&fresh), "{left} routes are left");
        }
    }

    #[test]
    fn freed_memory_is_reused() {
        let routes = routes(500);
        let (mut trie, layout) = trie();
        let mut used = Vec::new();
        for _ in 0..40 {
            for route in &routes {
                trie.insert(trie.route(&layout, std::slice::from_ref(route)), 7);
            }
            for route in &routes {
                trie.delete(trie.route(&layout, std::slice::from_ref(route))).expect("there is memory");
            }
            crossbeam_epoch::pin().flush();
            used.push(trie.next);
        }
        assert!(used[39] < 4 * used[0], "{used:?}");
    }

    fn with_table(table: u64, value: u64, prefix_len: u32) -> [KeyMatch; 2] {
        [KeyMatch::Exact(table.into()), KeyMatch::Lpm { value: value.into(), prefix_len }]
    }

    #[test]
    fn only_large_tables_with_exact_bits_have_a_wide_root() {
        let bits = |exact: u32, size| {
            let keys = [(exact, MatchKind::Exact), (32, MatchKind::Lpm)].into_iter();
            let keys = keys.filter(|(width, _)| *width > 0).map(|(width, kind)| KeySpec { width, kind });
            trie_of(keys.collect(), size).0.shape.root
        };
        assert_eq!([bits(0, 1 << 24), bits(15, 1 << 24), bits(16, (1 << 16) - 1)], [16; 3]);
        assert_eq!([bits(16, 1 << 16), bits(24, 1 << 20), bits(128, u32::MAX)], [24; 3]);
    }

    #[test]
    fn a_wide_root_moves_without_being_written() {
        let keys = [(16, MatchKind::Exact), (32, MatchKind::Lpm)];
        let keys = keys.into_iter().map(|(width, kind)| KeySpec { width, kind });
        let (mut trie, layout) = trie_of(keys.collect(), 1 << 16);
        let routes: Vec<[KeyMatch; 2]> = (0..100)
            .map(|i| match i % 4 {
                0 => with_table(7, i << 24, 8),
                1 => with_table(7 + i, 0, 0),
                n => with_table(7, i << 24 | n << 8, 24),
            })
            .collect();
        for (row, route) in routes.iter().enumerate() {
            assert!(!trie.insert(trie.route(&layout, route), 1 + row as u32));
        }
        trie.next = trie.units - CHANGE_UNITS_MAX + 1;
        let before = Arc::clone(&trie.memory);
        assert!(trie.insert(trie.route(&layout, &with_table(9, 1 << 31, 30)), 1000), "the memory is another");
        // A large page or two after the root, if the system has them, and a few small ones.
        assert!(trie.committed_bytes() < 8 << 20, "{} bytes", trie.committed_bytes());
        let root = ROOT..ROOT + (1 << WIDE_ROOT_BITS);
        let written = |memory: &Region| {
            memory.halves()[root.clone()].iter().filter(|half| half.load(Ordering::Relaxed) != 0).count()
        };
        assert_eq!(written(&trie.memory), written(&before) + 1);
        for (row, route) in routes.iter().enumerate() {
            let row = 1 + row as u32;
            trie.modify(trie.route(&layout, route), row + 100);
            trie.delete(trie.route(&layout, route)).expect("there is memory");
        }
        trie.delete(trie.route(&layout, &with_table(9, 1 << 31, 30))).expect("there is memory");
        assert_eq!((blocks(&trie), written(&trie.memory)), (0, 0));
    }
}
