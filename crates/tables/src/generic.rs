//! Every table that has no structure of its own: tuple-space search.
//!
//! Entries are partitioned by a mask into groups, each a hash table from the key under the mask to a short list of rules,
//! best first. Groups are searched in the order of the best rule that they can hold, and the search ends when no later
//! group can hold a better one. A rule says all that an entry matches, so its group may be coarser than its own mask: that
//! keeps groups few (as TupleMerge does: Daly et al., "TupleMerge: Fast Software Packet Processing for Online Packet
//! Classification", 2019). Ranges are partitioned by the prefix that their ends share.
//!
//! A table with one lpm field and otherwise exact ones has a group per prefix length and one rule per list.
#![allow(unsafe_code)]

use crate::grace::Pool;
use crate::key::{KeyLayout, Order, ones, order_of, prefix_mask};
use crate::memory::Region;
use crate::probe::{DELETED, EMPTY, Probe, hash};
use crate::rows::SLOTS_MAX;
use crate::view::View;
use crate::{KeyMatch, MatchKind, TableError, TableSpec};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Masks of groups keep whole chunks of so many bits of a field's mask: coarse first, the last is the mask itself.
const CHUNKS: [u32; 4] = [16, 8, 4, 1];
/// Longest list in a group that is coarser than the rule's mask.
const LIST_MAX: usize = 8;

// Words of a rule; its value and mask follow, then low and high end of each range.
/// Row, and above bit 32 the next rule of the list (0: none).
const LINK: usize = 0;
const PRIORITY: usize = 1;
const SEQUENCE: usize = 2;
const VALUE: usize = 3;

/// A range field of the key.
#[derive(Clone, Copy, Debug)]
struct RangeField {
    offset: usize,
    width: usize,
    limbs: usize,
}

struct Group {
    mask: Box<[u64]>,
    /// No rule of the group is better.
    best: (u32, u64),
    probe: Probe,
    rules: usize,
}

pub(crate) struct Generic {
    limbs: usize,
    rule_words: usize,
    ranges: Arc<[RangeField]>,
    /// One group per mask as it is, because no two rules of one have the same key.
    prefix: bool,
    rules: Arc<Region>,
    pool: Pool,
    groups: Vec<Option<Group>>,
    by_mask: HashMap<Box<[u64]>, usize>,
}

/// Where an entry's rule is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    group: u32,
    rule: u32,
}

/// What readers search.
pub(crate) struct Snapshot {
    limbs: usize,
    rule_words: usize,
    ranges: Arc<[RangeField]>,
    rules: Arc<Region>,
    groups: Vec<SnapshotGroup>,
    masks: Vec<u64>,
}

struct SnapshotGroup {
    best: (u32, u64),
    memory: Arc<Region>,
    slot_mask: u64,
    shift: u64,
    seed: u64,
}

/// A match in packed form.
struct Packed {
    value: Box<[u64]>,
    mask: Box<[u64]>,
    ranges: Vec<u64>,
}

impl Generic {
    pub fn new(spec: &TableSpec, layout: &KeyLayout) -> Generic {
        let ranges: Arc<[RangeField]> = layout
            .fields
            .iter()
            .filter(|field| field.kind == MatchKind::Range)
            .map(|field| RangeField {
                offset: field.offset as usize,
                width: field.width as usize,
                limbs: field.width.div_ceil(64) as usize,
            })
            .collect();
        let rule_words = VALUE + 2 * layout.limbs + ranges.iter().map(|r| 2 * r.limbs).sum::<usize>();
        // As many again as there can be entries: those that wait for readers to pass.
        let capacity = 2 * spec.size.min(SLOTS_MAX) + 1024;
        Generic {
            limbs: layout.limbs,
            rule_words,
            ranges,
            prefix: matches!(order_of(spec), Order::Prefix(_)),
            rules: Arc::new(Region::zeroed(capacity as usize * rule_words * 8)),
            pool: Pool::new(1, capacity),
            groups: Vec::new(),
            by_mask: HashMap::new(),
        }
    }

    fn rule(&self, rule: u32) -> &[AtomicU64] {
        let start = rule as usize * self.rule_words;
        &self.rules.words()[start..start + self.rule_words]
    }

    fn link(&self, rule: u32) -> (u32, u32) {
        let word = self.rule(rule)[LINK].load(Ordering::Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    fn set_link(&self, rule: u32, row: u32, next: u32) {
        self.rule(rule)[LINK].store(u64::from(row) | u64::from(next) << 32, Ordering::Release);
    }

    fn rank(&self, rule: u32) -> (u32, u64) {
        let words = self.rule(rule);
        (words[PRIORITY].load(Ordering::Relaxed) as u32, words[SEQUENCE].load(Ordering::Relaxed))
    }

    fn pack(&self, layout: &KeyLayout, key: &[KeyMatch]) -> Packed {
        let mut packed = Packed {
            value: vec![0; self.limbs].into(),
            mask: vec![0; self.limbs].into(),
            ranges: Vec::new(),
        };
        for (field, key) in layout.fields.iter().zip(key) {
            let (value, mask) = match key {
                KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => {
                    (value.clone(), ones(field.width))
                }
                KeyMatch::Optional(None) => continue,
                KeyMatch::Lpm { value, prefix_len } => (value.clone(), prefix_mask(field.width, *prefix_len)),
                KeyMatch::Ternary { value, mask } => (value.clone(), mask.clone()),
                KeyMatch::Range { lo, hi } => {
                    for end in [lo, hi] {
                        let from = packed.ranges.len();
                        packed.ranges.extend(end.iter_u64_digits());
                        packed.ranges.resize(from + field.width.div_ceil(64) as usize, 0);
                    }
                    let shared = prefix_mask(field.width, field.width - (lo ^ hi).bits() as u32);
                    (lo & &shared, shared)
                }
            };
            field.place(&mut packed.value, &value);
            field.place(&mut packed.mask, &mask);
        }
        packed
    }

    /// The mask reduced to chunks of ones, counted from each field's high end.
    fn coarsen(layout: &KeyLayout, mask: &[u64], chunk: u32) -> Box<[u64]> {
        let mut coarse = mask.to_vec().into_boxed_slice();
        for field in &layout.fields {
            let mut end = field.width;
            while end > 0 {
                let start = end.saturating_sub(chunk);
                let bits = (field.offset + start..field.offset + end).map(|bit| bit as usize);
                if !bits.clone().all(|bit| mask[bit / 64] >> (bit % 64) & 1 == 1) {
                    bits.for_each(|bit| coarse[bit / 64] &= !(1 << (bit % 64)));
                }
                end = start;
            }
        }
        coarse
    }

    fn list_len(&self, mut rule: u32) -> usize {
        let mut len = 0;
        while rule != 0 {
            len += 1;
            rule = self.link(rule).1;
        }
        len
    }

    /// The mask of the group that a new rule goes to.
    fn choose(&self, layout: &KeyLayout, packed: &Packed) -> Box<[u64]> {
        if self.prefix {
            return packed.mask.clone();
        }
        for chunk in CHUNKS {
            let mask = Self::coarsen(layout, &packed.mask, chunk);
            let Some(group) = self.by_mask.get(&mask) else { return mask };
            let group = self.groups[*group].as_ref().expect("by_mask names groups that exist");
            let head = group.probe.get(&masked(&packed.value, &mask)).unwrap_or(0);
            if self.list_len(head) < LIST_MAX {
                return mask;
            }
        }
        packed.mask.clone()
    }

    /// True if there must be a new snapshot.
    pub fn insert(
        &mut self,
        layout: &KeyLayout,
        key: &[KeyMatch],
        rank: (u32, u64),
        row: u32,
    ) -> Result<(Place, bool), TableError> {
        let packed = self.pack(layout, key);
        let new = self.pool.take()?;
        let mask = self.choose(layout, &packed);
        let mut stale = false;
        let at = match self.by_mask.get(&mask) {
            Some(at) => *at,
            None => {
                stale = true;
                let at = self.groups.iter().position(Option::is_none).unwrap_or(self.groups.len());
                if at == self.groups.len() {
                    self.groups.push(None);
                }
                let (probe, best) = (Probe::new(self.limbs), rank);
                self.groups[at] = Some(Group { mask: mask.clone(), best, probe, rules: 0 });
                self.by_mask.insert(mask.clone(), at);
                at
            }
        };
        let group_key = masked(&packed.value, &mask);
        let group = self.groups[at].as_ref().expect("found or made above");
        let (before, after) = self.neighbours(group.probe.get(&group_key).unwrap_or(0), rank);
        let words = self.rule(new);
        words[PRIORITY].store(rank.0.into(), Ordering::Relaxed);
        words[SEQUENCE].store(rank.1, Ordering::Relaxed);
        let fields = packed.value.iter().chain(&packed.mask).chain(&packed.ranges);
        for (word, value) in words[VALUE..].iter().zip(fields) {
            word.store(*value, Ordering::Relaxed);
        }
        self.set_link(new, row, after);
        if before != 0 {
            self.set_link(before, self.link(before).0, new);
        }
        let group = self.groups[at].as_mut().expect("found or made above");
        if before == 0 {
            stale |= group.probe.set(&group_key, new);
        }
        group.rules += 1;
        if rank < group.best {
            group.best = rank;
            stale = true;
        }
        Ok((Place { group: at as u32, rule: new }, stale))
    }

    /// Of a list: the last rule that is better than `rank`, and the next.
    fn neighbours(&self, head: u32, rank: (u32, u64)) -> (u32, u32) {
        let (mut before, mut after) = (0, head);
        while after != 0 && self.rank(after) < rank {
            (before, after) = (after, self.link(after).1);
        }
        (before, after)
    }

    /// Gives a rule another row.
    pub fn modify(&mut self, place: Place, row: u32) {
        self.set_link(place.rule, row, self.link(place.rule).1);
    }

    /// True if there must be a new snapshot.
    pub fn delete(&mut self, place: Place) -> bool {
        let at = place.group as usize;
        let value: Vec<u64> = self.rule(place.rule)[VALUE..VALUE + self.limbs]
            .iter()
            .map(|w| w.load(Ordering::Relaxed))
            .collect();
        let group = self.groups[at].as_ref().expect("an entry's group exists");
        let group_key = masked(&value, &group.mask);
        let mut before = 0;
        let mut rule = group.probe.get(&group_key).expect("an entry's rule is on its list");
        while rule != place.rule {
            (before, rule) = (rule, self.link(rule).1);
        }
        let next = self.link(rule).1;
        if before != 0 {
            self.set_link(before, self.link(before).0, next);
        }
        let group = self.groups[at].as_mut().expect("an entry's group exists");
        if before == 0 {
            if next != 0 {
                group.probe.set(&group_key, next);
            } else {
                group.probe.remove(&group_key);
            }
        }
        group.rules -= 1;
        let gone = group.rules == 0;
        if gone {
            self.by_mask.remove(&group.mask);
            self.groups[at] = None;
        }
        self.pool.retire(place.rule);
        gone
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut groups: Vec<&Group> = self.groups.iter().flatten().collect();
        groups.sort_unstable_by_key(|group| group.best);
        Snapshot {
            limbs: self.limbs,
            rule_words: self.rule_words,
            ranges: Arc::clone(&self.ranges),
            rules: Arc::clone(&self.rules),
            masks: groups.iter().flat_map(|group| group.mask.iter().copied()).collect(),
            groups: groups
                .iter()
                .map(|group| SnapshotGroup {
                    best: group.best,
                    memory: Arc::clone(&group.probe.region),
                    slot_mask: group.probe.mask(),
                    shift: group.probe.shift(),
                    seed: group.probe.seed,
                })
                .collect(),
        }
    }

    pub fn committed_bytes(&self) -> usize {
        let probes = self.groups.iter().flatten().map(|group| group.probe.region.committed_bytes());
        self.rules.committed_bytes() + probes.sum::<usize>()
    }
}

fn masked(value: &[u64], mask: &[u64]) -> Box<[u64]> {
    value.iter().zip(mask).map(|(v, m)| v & m).collect()
}

impl Snapshot {
    /// The row of the best rule that matches. `LIMBS` is the number of limbs, or 0 if only `self` knows it.
    #[inline]
    fn lookup<const LIMBS: usize>(&self, key: &[u64]) -> u32 {
        let limbs = if LIMBS == 0 { self.limbs } else { LIMBS };
        let key = &key[..limbs];
        let mut best = (u32::MAX, u64::MAX);
        let mut row = 0;
        for (group, mask) in self.groups.iter().zip(self.masks.chunks_exact(limbs)) {
            if best <= group.best {
                break;
            }
            let wanted = || key.iter().zip(mask).map(|(k, m)| k & m);
            let memory = group.memory.words();
            let mut index = hash(group.seed, wanted()) >> group.shift;
            let mut rule = loop {
                let slot = &memory[index as usize * (limbs + 1)..][..limbs + 1];
                let value = slot[limbs].load(Ordering::Acquire) as u32;
                if value == EMPTY {
                    break 0;
                }
                if wanted().zip(slot).all(|(k, word)| k == word.load(Ordering::Relaxed)) {
                    break if value == DELETED { 0 } else { value };
                }
                index = (index + 1) & group.slot_mask;
            };
            while rule != 0 {
                let words = &self.rules.words()[rule as usize * self.rule_words..][..self.rule_words];
                let link = words[LINK].load(Ordering::Acquire);
                let rank =
                    (words[PRIORITY].load(Ordering::Relaxed) as u32, words[SEQUENCE].load(Ordering::Relaxed));
                if rank >= best {
                    break;
                }
                if self.rule_matches(words, key) {
                    (best, row) = (rank, link as u32);
                    break;
                }
                rule = (link >> 32) as u32;
            }
        }
        row
    }

    #[inline]
    fn rule_matches(&self, words: &[AtomicU64], key: &[u64]) -> bool {
        let word = |i: usize| words[i].load(Ordering::Relaxed);
        let limbs = key.len();
        (0..limbs).all(|i| (key[i] ^ word(VALUE + i)) & word(VALUE + limbs + i) == 0) && {
            let mut at = VALUE + 2 * limbs;
            self.ranges.iter().all(|range| {
                let (lo, hi) = (at, at + range.limbs);
                at += 2 * range.limbs;
                // From the highest limb down, as numbers of several digits compare.
                let digits = (0..range.limbs).rev();
                let field = |i: usize| digit(key, range, i);
                digits.clone().map(field).ge(digits.clone().map(|i| word(lo + i)))
                    && digits.clone().map(field).le(digits.map(|i| word(hi + i)))
            })
        }
    }
}

/// Limb `i` of a field of the key.
#[inline]
fn digit(key: &[u64], range: &RangeField, i: usize) -> u64 {
    let bit = range.offset + 64 * i;
    let (limb, shift) = (bit / 64, bit % 64);
    let mut value = key[limb] >> shift;
    if shift > 0 && limb + 1 < key.len() {
        value |= key[limb + 1] << (64 - shift);
    }
    let bits = range.width - 64 * i;
    if bits < 64 { value & ((1 << bits) - 1) } else { value }
}

/// # Safety
/// `view` is a view of a generic table, `key` points to its limbs.
unsafe extern "C" fn lookup<const LIMBS: usize>(view: *const View, key: *const u64) -> u32 {
    // SAFETY: as the caller promises; a generic view keeps its snapshot, to which `base` points.
    unsafe {
        let snapshot = &*(*view).base.cast::<Snapshot>();
        snapshot.lookup::<LIMBS>(std::slice::from_raw_parts(key, snapshot.limbs))
    }
}

/// The lookup function for keys of so many limbs.
pub(crate) fn lookup_of(limbs: usize) -> unsafe extern "C" fn(*const View, *const u64) -> u32 {
    match limbs {
        1 => lookup::<1>,
        2 => lookup::<2>,
        3 => lookup::<3>,
        4 => lookup::<4>,
        5 => lookup::<5>,
        _ => lookup::<0>,
    }
}
