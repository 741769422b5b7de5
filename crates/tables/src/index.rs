//! The reference meaning of tables that are neither exact nor of routes, in ordinary collections: finds duplicates for the
//! writer and entries for the interpreter. It shares nothing with the structures that packets use.

use crate::key::{KeyLayout, Order, matches, order_of, prefix_mask, prefix_sum};
use crate::{KeyMatch, TableSpec};
use num_bigint::BigUint;
use std::collections::{BTreeMap, HashMap};

/// Entries, by slot, as a key finds them.
pub(crate) enum Index {
    /// For each prefix length, by the packed key with the bits behind the prefix cleared.
    Prefix { field: usize, by_len: Vec<HashMap<Box<[u64]>, u32>> },
    /// By rank, then age; and by the key as written, to find duplicates.
    Ordered { by_key: HashMap<(Vec<KeyMatch>, u32), u32>, by_rank: BTreeMap<(u32, u64), u32> },
}

impl Index {
    pub fn new(spec: &TableSpec) -> Index {
        match order_of(spec) {
            Order::Prefix(field) => {
                let lengths = 0..=spec.keys[field].width;
                Index::Prefix { field, by_len: lengths.map(|_| HashMap::new()).collect() }
            }
            Order::Exact | Order::PrefixSum | Order::Priority => {
                Index::Ordered { by_key: HashMap::new(), by_rank: BTreeMap::new() }
            }
        }
    }

    /// The slot of the entry with exactly this key.
    pub fn find(&self, layout: &KeyLayout, key: &[KeyMatch], priority: u32) -> Option<u32> {
        match self {
            Index::Prefix { field, by_len } => {
                by_len[prefix_len(&key[*field])].get(&packed(layout, key)).copied()
            }
            Index::Ordered { by_key, .. } => by_key.get(&(key.to_vec(), priority)).copied(),
        }
    }

    pub fn insert(
        &mut self,
        layout: &KeyLayout,
        key: &[KeyMatch],
        priority: u32,
        rank: (u32, u64),
        slot: u32,
    ) {
        match self {
            Index::Prefix { field, by_len } => {
                by_len[prefix_len(&key[*field])].insert(packed(layout, key), slot);
            }
            Index::Ordered { by_key, by_rank } => {
                by_key.insert((key.to_vec(), priority), slot);
                by_rank.insert(rank, slot);
            }
        }
    }

    pub fn remove(&mut self, layout: &KeyLayout, key: &[KeyMatch], priority: u32, rank: (u32, u64)) {
        match self {
            Index::Prefix { field, by_len } => {
                by_len[prefix_len(&key[*field])].remove(&packed(layout, key));
            }
            Index::Ordered { by_key, by_rank } => {
                by_key.remove(&(key.to_vec(), priority));
                by_rank.remove(&rank);
            }
        }
    }

    /// The slots of the entries that match, best first.
    pub fn matching<'a>(
        &'a self,
        layout: &'a KeyLayout,
        key: &'a [BigUint],
        key_in: impl Fn(u32) -> &'a [KeyMatch] + 'a,
    ) -> Box<dyn Iterator<Item = u32> + 'a> {
        match self {
            Index::Prefix { field, by_len } => {
                Box::new(by_len.iter().enumerate().rev().filter_map(|(len, by_key)| {
                    if by_key.is_empty() {
                        return None;
                    }
                    let mut key = key.to_vec();
                    key[*field] &= prefix_mask(layout.fields[*field].width, len as u32);
                    by_key.get(&layout.pack(&key)).copied()
                }))
            }
            Index::Ordered { by_rank, .. } => Box::new(by_rank.values().copied().filter(move |slot| {
                let fields = key_in(*slot).iter().zip(&layout.fields).zip(key);
                fields.into_iter().all(|((field, spec), value)| matches(field, spec.width, value))
            })),
        }
    }
}

fn prefix_len(key: &KeyMatch) -> usize {
    let KeyMatch::Lpm { prefix_len, .. } = key else { unreachable!("kinds were checked") };
    *prefix_len as usize
}

fn value_of(key: &KeyMatch) -> &BigUint {
    match key {
        KeyMatch::Exact(value) | KeyMatch::Lpm { value, .. } => value,
        _ => unreachable!("only exact and lpm fields are packed"),
    }
}

pub(crate) fn packed(layout: &KeyLayout, key: &[KeyMatch]) -> Box<[u64]> {
    layout.pack(key.iter().map(value_of))
}

/// Where an entry stands: the smallest wins. The second part is its age.
pub(crate) fn rank(spec: &TableSpec, key: &[KeyMatch], priority: u32, sequence: u64) -> (u32, u64) {
    let lpm_bits =
        || spec.keys.iter().filter(|k| k.kind == crate::MatchKind::Lpm).map(|k| k.width).sum::<u32>();
    match order_of(spec) {
        Order::Exact => (0, 0),
        Order::Prefix(_) => (lpm_bits() - prefix_sum(key), 0),
        Order::PrefixSum => (lpm_bits() - prefix_sum(key), sequence),
        Order::Priority => (priority, sequence),
    }
}
