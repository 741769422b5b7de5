//! Explains the results of lookups, for traces.

use crate::key::{Order, matches, order_of, prefix_mask, prefix_sum};
use crate::{EntryHandle, KeyMatch, MatchKind, Table};
use num_bigint::BigUint;
use std::fmt;

/// The result of a lookup: the matching entry with the reason, or the entries that nearly matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The matching entry that wins.
    pub hit: Option<Hit>,
    /// On a miss: the nearest entries, at most 3, nearest first.
    pub nearest: Vec<Near>,
}

/// The matching entry that wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The entry.
    pub handle: EntryHandle,
    /// Why it wins.
    pub reason: HitReason,
}

/// The reason why an entry wins. `others` is the number of other entries that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitReason {
    /// Its key equals the lookup key, which only one key can do.
    Equal,
    /// Its prefix is the longest, or the sum of its prefix lengths the greatest.
    LongestPrefix {
        /// The length or sum.
        prefix_len: u32,
        /// Number of other matching entries.
        others: usize,
    },
    /// It has the best priority and is the oldest entry of that priority.
    Priority {
        /// The priority.
        priority: u32,
        /// Number of other matching entries.
        others: usize,
    },
}

/// An entry that nearly matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// The entry.
    pub handle: EntryHandle,
    /// For each key field: the difference, or `None` if the field matches.
    pub fields: Vec<Option<Difference>>,
}

/// The reason why a key field does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The match kind of the field.
    pub kind: MatchKind,
    /// Value in the lookup key.
    pub found: BigUint,
    /// The expected value: the value, the prefix, the value under the mask, or the end of the range that was
    /// exceeded.
    pub expected: BigUint,
    /// Lpm and ternary: the bits that are compared.
    pub mask: Option<BigUint>,
}

/// Maximum number of entries named on a miss.
const NEAREST_MAX: usize = 3;

impl Table {
    /// Explains the result of a lookup.
    pub fn explain(&self, key: &[BigUint]) -> Explanation {
        let mut matching = self.matching(key);
        if let Some(handle) = matching.next() {
            let entry = self.get(handle).expect("lookups find entries");
            let others = matching.count();
            let reason = match order_of(self.spec()) {
                Order::Exact => HitReason::Equal,
                Order::Prefix(_) | Order::PrefixSum => {
                    HitReason::LongestPrefix { prefix_len: prefix_sum(&entry.key), others }
                }
                Order::Priority => HitReason::Priority { priority: entry.priority, others },
            };
            return Explanation { hit: Some(Hit { handle, reason }), nearest: Vec::new() };
        }
        // Ordered by the number of fields that differ, then the difference, then the slot.
        let mut nearest: Vec<((usize, u64), EntryHandle)> = Vec::new();
        for (handle, entry) in self.entries() {
            let mut distance = (0, 0);
            for ((field, spec), value) in entry.key.iter().zip(&self.spec().keys).zip(key) {
                let differs = distance_of(field, spec.width, value);
                distance.0 += usize::from(differs > 0);
                distance.1 += differs;
            }
            let at = nearest.partition_point(|(d, _)| *d <= distance);
            if at < NEAREST_MAX {
                nearest.insert(at, (distance, handle));
                nearest.truncate(NEAREST_MAX);
            }
        }
        let near = |(_, handle): ((usize, u64), EntryHandle)| {
            let entry = self.get(handle).expect("it was found above");
            let fields = entry.key.iter().zip(&self.spec().keys).zip(key);
            let fields = fields.map(|((field, spec), value)| difference(field, spec.width, value)).collect();
            Near { handle, fields }
        };
        Explanation { hit: None, nearest: nearest.into_iter().map(near).collect() }
    }
}

/// Returns by how many bits a value misses a match field; 0 if it matches.
fn distance_of(field: &KeyMatch, width: u32, value: &BigUint) -> u64 {
    if matches(field, width, value) {
        return 0;
    }
    match field {
        // The number of bits from the highest different one down.
        KeyMatch::Exact(expected) | KeyMatch::Optional(Some(expected)) => (value ^ expected).bits(),
        KeyMatch::Lpm { value: expected, prefix_len } => ((value ^ expected) >> (width - prefix_len)).bits(),
        KeyMatch::Ternary { value: expected, mask } => ((value ^ expected) & mask).count_ones(),
        KeyMatch::Range { lo, hi } => if value < lo { lo - value } else { value - hi }.bits(),
        KeyMatch::Optional(None) => 0,
    }
}

fn difference(field: &KeyMatch, width: u32, value: &BigUint) -> Option<Difference> {
    if matches(field, width, value) {
        return None;
    }
    let (kind, expected, mask) = match field {
        KeyMatch::Exact(expected) => (MatchKind::Exact, expected, None),
        KeyMatch::Lpm { value, prefix_len } => (MatchKind::Lpm, value, Some(prefix_mask(width, *prefix_len))),
        KeyMatch::Ternary { value, mask } => (MatchKind::Ternary, value, Some(mask.clone())),
        KeyMatch::Range { lo, hi } => (MatchKind::Range, if value < lo { lo } else { hi }, None),
        KeyMatch::Optional(expected) => (MatchKind::Optional, expected.as_ref()?, None),
    };
    Some(Difference { kind, found: value.clone(), expected: expected.clone(), mask })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { kind, found, expected, mask } = self;
        match (kind, mask) {
            (MatchKind::Lpm, Some(mask)) => {
                write!(f, "found {found:#x}, expected prefix {expected:#x}/{}", mask.count_ones())
            }
            (_, Some(mask)) => write!(f, "found {found:#x}, expected {expected:#x} under mask {mask:#x}"),
            (MatchKind::Range, None) if found < expected => {
                write!(f, "found {found:#x}, expected at least {expected:#x}")
            }
            (MatchKind::Range, None) => write!(f, "found {found:#x}, expected at most {expected:#x}"),
            (_, None) => write!(f, "found {found:#x}, expected {expected:#x}"),
        }
    }
}
