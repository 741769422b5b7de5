//! Why a lookup found what it found: for traces.

use crate::key::{Order, matches, order_of, prefix_mask, prefix_sum};
use crate::{EntryHandle, KeyMatch, MatchKind, Table};
use num_bigint::BigUint;
use std::fmt;

/// What a lookup found and why, or what nearly matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The entry that applies.
    pub hit: Option<Hit>,
    /// On a miss: the entries, at most 3, that came nearest, nearest first.
    pub nearest: Vec<Near>,
}

/// The entry that applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The entry.
    pub handle: EntryHandle,
    /// Why this one.
    pub reason: HitReason,
}

/// Why an entry applies. `others` is the number of other entries that match too but lose against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitReason {
    /// Its key is the only one that can be equal.
    Equal,
    /// Its prefixes are the longest (in sum, if there are several).
    LongestPrefix {
        /// How long.
        prefix_len: u32,
        /// Matching entries that lose.
        others: usize,
    },
    /// Its priority is the best; among equals it is the oldest.
    Priority {
        /// The priority.
        priority: u32,
        /// Matching entries that lose.
        others: usize,
    },
}

/// An entry that nearly matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// The entry.
    pub handle: EntryHandle,
    /// For each key field: what is different, `None` if it matches.
    pub fields: Vec<Option<Difference>>,
}

/// Why a key field does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How the field matches.
    pub kind: MatchKind,
    /// Value in the lookup key.
    pub found: BigUint,
    /// What would match: the value, the prefix, the value under the mask, or the end of the range that was missed.
    pub expected: BigUint,
    /// Lpm and ternary: the bits that are compared.
    pub mask: Option<BigUint>,
}

/// Most entries named on a miss.
const NEAREST_MAX: usize = 3;

impl Table {
    /// Why a key finds what it finds.
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
        // Fewest fields that differ, then the smallest difference, then the oldest slot.
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

/// How much a value misses a match field by, in bits; 0 if it matches.
fn distance_of(field: &KeyMatch, width: u32, value: &BigUint) -> u64 {
    if matches(field, width, value) {
        return 0;
    }
    match field {
        // The bits from the first different one on.
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
