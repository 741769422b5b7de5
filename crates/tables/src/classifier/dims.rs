//! A key as a list of numbers of at most 32 bits, its *dimensions*, by which the classifier cuts and compares.
//!
//! A field that matches by value and mask becomes one dimension for each 32 bits; a range becomes one dimension, for its
//! highest 32 bits.

use crate::key::{KeyLayout, ones, prefix_mask};
use crate::{KeyMatch, MatchKind};
use num_bigint::BigUint;

/// Maximum number of dimensions. Further bits are compared but not used for cuts.
pub(crate) const DIMS_MAX: usize = 32;

pub(crate) struct Dims {
    /// The dimensions; those with value and mask come first.
    pub list: Vec<Dim>,
    /// Number of dimensions with value and mask.
    pub ternary: usize,
    /// True if a key matches a rule whenever all dimensions match.
    pub exact: bool,
    fields: Vec<Bits>,
    pub limbs: usize,
}

/// One dimension: some bits of the packed key.
#[derive(Clone, Copy)]
pub(crate) struct Dim {
    limb: u32,
    shift: u32,
    pub width: u32,
}

/// A field of the packed key.
struct Bits {
    offset: usize,
    width: usize,
    range: bool,
}

/// The match of a rule: values and masks, and low and high ends of ranges, each laid out like the packed key.
pub(crate) struct Packed {
    pub low: Box<[u64]>,
    pub high: Box<[u64]>,
}

impl Dim {
    #[inline(always)]
    fn of(&self, key: &[u64]) -> u32 {
        let (limb, shift) = (self.limb as usize, self.shift);
        let mut value = key[limb] >> shift;
        if shift + self.width > 64 {
            value |= key[limb + 1] << (64 - shift);
        }
        (value & ((1 << self.width) - 1)) as u32
    }
}

impl Dims {
    pub fn new(layout: &KeyLayout) -> Dims {
        let (mut list, mut ranges, mut exact) = (Vec::new(), Vec::new(), true);
        let dim = |offset: u32, width| Dim { limb: offset / 64, shift: offset % 64, width };
        for field in &layout.fields {
            let end = field.offset + field.width;
            if field.kind == MatchKind::Range {
                let width = field.width.min(32);
                ranges.push(dim(end - width, width));
                exact &= field.width <= 32;
            } else {
                let mut at = end;
                while at > field.offset {
                    let width = (at - field.offset).min(32);
                    at -= width;
                    list.push(dim(at, width));
                }
            }
        }
        exact &= list.len() + ranges.len() <= DIMS_MAX;
        let ternary = list.len().min(DIMS_MAX);
        list.truncate(DIMS_MAX);
        list.extend(ranges);
        list.truncate(DIMS_MAX);
        let bits = |field: &crate::key::Field| Bits {
            offset: field.offset as usize,
            width: field.width as usize,
            range: field.kind == MatchKind::Range,
        };
        Dims { list, ternary, exact, fields: layout.fields.iter().map(bits).collect(), limbs: layout.limbs }
    }

    pub fn pack(&self, layout: &KeyLayout, key: &[KeyMatch]) -> Packed {
        let mut packed = Packed {
            low: vec![0; self.limbs].into_boxed_slice(),
            high: vec![0; self.limbs].into_boxed_slice(),
        };
        for (field, key) in layout.fields.iter().zip(key) {
            let mut place = |low: &BigUint, high: &BigUint| {
                field.place(&mut packed.low, low);
                field.place(&mut packed.high, high);
            };
            match key {
                KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => place(value, &ones(field.width)),
                KeyMatch::Optional(None) => {}
                KeyMatch::Lpm { value, prefix_len } => place(value, &prefix_mask(field.width, *prefix_len)),
                KeyMatch::Ternary { value, mask } => place(value, mask),
                KeyMatch::Range { lo, hi } => place(lo, hi),
            }
        }
        packed
    }

    /// Returns the dimensions of a rule: value and mask, or the low end and the difference to the high end.
    pub fn of_rule(&self, packed: &Packed) -> impl Iterator<Item = (u32, u32)> {
        self.list.iter().enumerate().map(|(i, dim)| {
            let (low, high) = (dim.of(&packed.low), dim.of(&packed.high));
            (low, if i < self.ternary { high } else { high - low })
        })
    }

    /// Returns the dimensions of a key.
    #[inline(always)]
    pub fn of_key(&self, key: &[u64], out: &mut [u32]) {
        for (out, dim) in out.iter_mut().zip(&self.list) {
            *out = dim.of(key);
        }
    }

    /// True if a rule matches a key in every bit of every field. `low` and `high` return limbs of the rule.
    #[cold]
    pub fn matches(&self, key: &[u64], low: impl Fn(usize) -> u64, high: impl Fn(usize) -> u64) -> bool {
        self.fields.iter().all(|field| {
            let digits = (0..field.width.div_ceil(64)).rev();
            let key = |i| digit(|limb| key[limb], key.len(), field, i);
            let low = |i| digit(&low, self.limbs, field, i);
            let high = |i| digit(&high, self.limbs, field, i);
            if field.range {
                // Iterators compare from the first element on, so the highest digit comes first.
                digits.clone().map(key).ge(digits.clone().map(low))
                    && digits.clone().map(key).le(digits.map(high))
            } else {
                digits.into_iter().all(|i| (key(i) ^ low(i)) & high(i) == 0)
            }
        })
    }
}

/// Returns digit `i`, which has 64 bits, of a field.
fn digit(limb_at: impl Fn(usize) -> u64, limbs: usize, field: &Bits, i: usize) -> u64 {
    let bit = field.offset + 64 * i;
    let (limb, shift) = (bit / 64, bit % 64);
    let mut value = limb_at(limb) >> shift;
    if shift > 0 && limb + 1 < limbs {
        value |= limb_at(limb + 1) << (64 - shift);
    }
    let bits = field.width - 64 * i;
    if bits < 64 { value & ((1 << bits) - 1) } else { value }
}
