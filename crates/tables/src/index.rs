//! The reference implementation of tables that are neither exact nor of routes, with ordinary collections. It finds
//! duplicates for the writer, and entries for traces, packet tests and `bench`. It shares nothing with the structures that
//! packets use, in which interpreting workers also look up.

use crate::key::{KeyLayout, Order, matches, order_of, prefix_mask, prefix_sum};
use crate::parted::Parted;
use crate::{KeyMatch, TableSpec};
use num_bigint::BigUint;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Slots of entries, ordered for lookup.
pub(crate) struct Index {
    /// By the key as given, and its priority.
    by_key: Parted<u32>,
    hasher: RandomState,
    order: Kind,
}

enum Kind {
    /// The field with the prefix, and the number of entries for each prefix length.
    Prefix { field: usize, counts: Vec<u32> },
    /// By rank, then age.
    Ordered(BTreeMap<(u32, u64), u32>),
}

impl Index {
    pub fn new(spec: &TableSpec) -> Index {
        let order = match order_of(spec) {
            Order::Prefix(field) => {
                Kind::Prefix { field, counts: vec![0; spec.keys[field].width as usize + 1] }
            }
            Order::Exact | Order::PrefixSum | Order::Priority => Kind::Ordered(BTreeMap::new()),
        };
        Index { by_key: Parted::new(), hasher: RandomState::new(), order }
    }

    /// Returns the slot of the entry with exactly this key. `entry` returns key and priority of the entry in a slot.
    pub fn find<'a>(
        &self,
        key: &[KeyMatch],
        priority: u32,
        entry: impl Fn(u32) -> (&'a [KeyMatch], u32),
    ) -> Option<u32> {
        let hash = self.hasher.hash_one((key, priority));
        self.by_key.find(hash, |slot| entry(*slot) == (key, priority)).copied()
    }

    /// Adds an entry that is already in its slot.
    pub fn insert<'a>(&mut self, rank: (u32, u64), slot: u32, entry: impl Fn(u32) -> (&'a [KeyMatch], u32)) {
        let hash = |slot: &u32| self.hasher.hash_one(entry(*slot));
        self.by_key.insert(hash(&slot), slot, hash);
        match &mut self.order {
            Kind::Prefix { field, counts } => counts[prefix_len(&entry(slot).0[*field])] += 1,
            Kind::Ordered(by_rank) => _ = by_rank.insert(rank, slot),
        }
    }

    pub fn remove(&mut self, key: &[KeyMatch], priority: u32, rank: (u32, u64), slot: u32) {
        self.by_key.remove(self.hasher.hash_one((key, priority)), |other| *other == slot);
        match &mut self.order {
            Kind::Prefix { field, counts } => counts[prefix_len(&key[*field])] -= 1,
            Kind::Ordered(by_rank) => _ = by_rank.remove(&rank),
        }
    }

    pub fn bytes(&self) -> usize {
        self.by_key.bytes()
    }

    /// Returns the slots of the matching entries, best first.
    pub fn matching<'a>(
        &'a self,
        layout: &'a KeyLayout,
        key: &'a [BigUint],
        entry: impl Fn(u32) -> (&'a [KeyMatch], u32) + Copy + 'a,
    ) -> Box<dyn Iterator<Item = u32> + 'a> {
        match &self.order {
            Kind::Prefix { field, counts } => {
                let lens = (0..counts.len() as u32).rev().filter(|len| counts[*len as usize] > 0);
                Box::new(lens.filter_map(move |prefix_len| {
                    let fields = key.iter().enumerate().map(|(i, value)| match i == *field {
                        true => {
                            let mask = prefix_mask(layout.fields[i].width, prefix_len);
                            KeyMatch::Lpm { value: value & mask, prefix_len }
                        }
                        false => KeyMatch::Exact(value.clone()),
                    });
                    self.find(&fields.collect::<Vec<_>>(), 0, entry)
                }))
            }
            Kind::Ordered(by_rank) => Box::new(by_rank.values().copied().filter(move |slot| {
                let fields = entry(*slot).0.iter().zip(&layout.fields).zip(key);
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

/// Returns the rank of an entry; the smallest wins. Its second part is the entry's age.
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
