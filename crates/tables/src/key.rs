//! Keys as packed bits: the first key field starts at bit 0, the next directly above it; stored as little-endian limbs.

use crate::rows::big;
use crate::{KeyMatch, MatchKind, TableError, TableSpec};
use num_bigint::BigUint;

/// The positions of the fields in a packed key.
#[derive(Clone, Debug)]
pub(crate) struct KeyLayout {
    pub fields: Vec<Field>,
    pub limbs: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub offset: u32,
    pub width: u32,
    pub kind: MatchKind,
}

/// Which entry wins among several that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A key matches only if it is equal.
    Exact,
    /// The longest prefix of the only lpm field, which has this index.
    Prefix(usize),
    /// The greatest sum of prefix lengths, then the oldest entry.
    PrefixSum,
    /// The smallest priority number, then the oldest entry.
    Priority,
}

pub(crate) fn order_of(spec: &TableSpec) -> Order {
    let lpm: Vec<usize> = (0..spec.keys.len()).filter(|i| spec.keys[*i].kind == MatchKind::Lpm).collect();
    match lpm.as_slice() {
        _ if spec.keys.iter().any(|key| key.kind.needs_priority()) => Order::Priority,
        [] => Order::Exact,
        [field] => Order::Prefix(*field),
        _ => Order::PrefixSum,
    }
}

impl KeyLayout {
    pub fn new(spec: &TableSpec) -> KeyLayout {
        let mut offset = 0;
        let fields = spec
            .keys
            .iter()
            .map(|key| {
                let field = Field { offset, width: key.width, kind: key.kind };
                offset += key.width;
                field
            })
            .collect();
        KeyLayout { fields, limbs: offset.div_ceil(64).max(1) as usize }
    }

    /// Packs one value per field.
    pub fn pack<'a>(&self, values: impl IntoIterator<Item = &'a BigUint>) -> Box<[u64]> {
        let mut limbs = vec![0; self.limbs].into_boxed_slice();
        for (field, value) in self.fields.iter().zip(values) {
            field.place(&mut limbs, value);
        }
        limbs
    }
}

impl KeyLayout {
    /// Returns one value per field of a packed key.
    pub fn unpack(&self, limbs: &[u64]) -> Vec<BigUint> {
        self.fields.iter().map(|field| field.of(limbs)).collect()
    }
}

impl Field {
    /// Returns the field's value in a packed key.
    fn of(&self, limbs: &[u64]) -> BigUint {
        let mut value = Vec::with_capacity(self.width.div_ceil(64) as usize);
        for at in (0..self.width).step_by(64) {
            let (limb, shift) = ((self.offset + at) as usize / 64, (self.offset + at) % 64);
            let mut digit = limbs[limb] >> shift;
            if shift > 0 && limb + 1 < limbs.len() {
                digit |= limbs[limb + 1] << (64 - shift);
            }
            let bits = self.width - at;
            value.push(if bits < 64 { digit & ((1 << bits) - 1) } else { digit });
        }
        big(&value)
    }

    /// Ors a value into a packed key.
    pub fn place(&self, limbs: &mut [u64], value: &BigUint) {
        for (i, digit) in value.iter_u64_digits().enumerate() {
            let bit = self.offset as usize + 64 * i;
            let (limb, shift) = (bit / 64, bit % 64);
            limbs[limb] |= digit << shift;
            if shift > 0 && digit >> (64 - shift) != 0 {
                limbs[limb + 1] |= digit >> (64 - shift);
            }
        }
    }
}

/// Returns the mask of the highest `prefix_len` of `width` bits.
pub(crate) fn prefix_mask(width: u32, prefix_len: u32) -> BigUint {
    let one = || BigUint::from(1u32);
    ((one() << prefix_len) - 1u32) << (width - prefix_len)
}

pub(crate) fn ones(width: u32) -> BigUint {
    (BigUint::from(1u32) << width) - 1u32
}

/// Checks match fields and clears their don't-care bits.
pub(crate) fn check(spec: &TableSpec, key: &mut [KeyMatch]) -> Result<(), TableError> {
    if spec.keys.is_empty() {
        return Err(TableError::NoKey);
    }
    if key.len() != spec.keys.len() {
        return Err(TableError::KeyCount { found: key.len(), expected: spec.keys.len() });
    }
    for (field, (given, spec)) in key.iter_mut().zip(&spec.keys).enumerate() {
        let width = spec.width;
        let fits = |value: &BigUint| {
            if value.bits() > u64::from(width) {
                return Err(TableError::KeyWidth { field, found: value.bits(), expected: width });
            }
            Ok(())
        };
        if kind_of(given) != spec.kind {
            return Err(TableError::KeyKind { field, found: kind_of(given), expected: spec.kind });
        }
        match given {
            KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => fits(value)?,
            KeyMatch::Optional(None) => {}
            KeyMatch::Lpm { value, prefix_len } => {
                fits(value)?;
                if *prefix_len > width {
                    return Err(TableError::PrefixLength { field, found: *prefix_len, expected: width });
                }
                // Most prefixes have no such bits; testing is cheaper than masking.
                if value.trailing_zeros().is_some_and(|zeros| zeros < u64::from(width - *prefix_len)) {
                    *value &= prefix_mask(width, *prefix_len);
                }
            }
            KeyMatch::Ternary { value, mask } => {
                fits(value)?;
                fits(mask)?;
                *value &= &*mask;
            }
            KeyMatch::Range { lo, hi } => {
                fits(lo)?;
                fits(hi)?;
                if lo > hi {
                    return Err(TableError::EmptyRange { field });
                }
            }
        }
    }
    Ok(())
}

fn kind_of(key: &KeyMatch) -> MatchKind {
    match key {
        KeyMatch::Exact(_) => MatchKind::Exact,
        KeyMatch::Lpm { .. } => MatchKind::Lpm,
        KeyMatch::Ternary { .. } => MatchKind::Ternary,
        KeyMatch::Range { .. } => MatchKind::Range,
        KeyMatch::Optional(_) => MatchKind::Optional,
    }
}

/// True if a value matches: the definition of the match kinds, written as plainly as possible.
pub(crate) fn matches(key: &KeyMatch, width: u32, value: &BigUint) -> bool {
    match key {
        KeyMatch::Exact(expected) | KeyMatch::Optional(Some(expected)) => value == expected,
        KeyMatch::Optional(None) => true,
        KeyMatch::Lpm { value: expected, prefix_len } => {
            value >> (width - prefix_len) == expected >> (width - prefix_len)
        }
        KeyMatch::Ternary { value: expected, mask } => value & mask == *expected,
        KeyMatch::Range { lo, hi } => lo <= value && value <= hi,
    }
}

/// Returns the sum of the prefix lengths of an entry's lpm fields.
pub(crate) fn prefix_sum(key: &[KeyMatch]) -> u32 {
    key.iter().map(|k| if let KeyMatch::Lpm { prefix_len, .. } = k { *prefix_len } else { 0 }).sum()
}
