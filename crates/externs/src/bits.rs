//! Values of any width as sequences of bits.

use crate::CallSite;
use num_bigint::BigUint;

/// Returns the number of limbs of a value.
pub(crate) fn limbs(width: u32) -> usize {
    width.div_ceil(64) as usize
}

/// Returns the arguments of a call, each as its limbs, with its width.
pub(crate) fn arguments<'a>(
    site: &'a CallSite,
    mut args: &'a [u64],
) -> impl Iterator<Item = (&'a [u64], u32)> {
    site.arg_widths.iter().map(move |width| {
        let (value, rest) = args.split_at(limbs(*width));
        args = rest;
        (value, *width)
    })
}

/// For arguments that are pairs of a length in bits and a value, returns each value with the number of its low bits
/// that count.
pub(crate) fn pieces<'a>(
    mut arguments: impl Iterator<Item = (&'a [u64], u32)>,
) -> impl Iterator<Item = (&'a [u64], u32)> {
    std::iter::from_fn(move || {
        let ((length, _), (value, width)) = (arguments.next()?, arguments.next()?);
        Some((value, saturate(length).min(u64::from(width)) as u32))
    })
}

/// Returns a value that must be small; greater than any array size if it does not fit one limb.
pub(crate) fn saturate(value: &[u64]) -> u64 {
    match value.split_first() {
        None => 0,
        Some((low, high)) if high.iter().all(|limb| *limb == 0) => *low,
        Some(_) => u64::MAX,
    }
}

/// Returns the value of limbs.
pub(crate) fn number(limbs: &[u64]) -> BigUint {
    BigUint::new(limbs.iter().flat_map(|limb| [*limb as u32, (*limb >> 32) as u32]).collect())
}

/// Stores a 64-bit number, truncated to its width, in the first result.
pub(crate) fn put(site: &CallSite, outs: &mut [u64], value: u64) {
    outs.fill(0);
    if let (Some(out), Some(width)) = (outs.first_mut(), site.out_widths.first()) {
        *out = mask_low(value, (*width).min(64));
    }
}

/// Returns the low `width` bits.
pub(crate) fn mask_low(value: u64, width: u32) -> u64 {
    if width >= 64 { value } else { value & ((1 << width) - 1) }
}

/// Appends values, most significant bit first, without gaps.
pub(crate) struct BitWriter<'a> {
    bytes: &'a mut Vec<u8>,
    /// Bits not yet written, at the low end; the higher bits do not matter.
    rest: u64,
    /// Fewer than 64 between calls.
    rest_bits: u32,
}

impl<'a> BitWriter<'a> {
    pub fn new(bytes: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter { bytes, rest: 0, rest_bits: 0 }
    }

    pub fn push(&mut self, value: &[u64], width: u32) {
        let mut full = &value[..limbs(width)];
        if !width.is_multiple_of(64)
            && let Some((top, below)) = full.split_last()
        {
            self.push_limb(mask_low(*top, width % 64), width % 64);
            full = below;
        }
        for limb in full.iter().rev() {
            self.push_limb(*limb, 64);
        }
    }

    /// Appends `bits` bits, 1 to 64; those of `limb` above them are 0.
    fn push_limb(&mut self, limb: u64, bits: u32) {
        let free = 64 - self.rest_bits;
        if bits < free {
            self.rest = self.rest << bits | limb;
            self.rest_bits += bits;
            return;
        }
        self.rest_bits = bits - free;
        // Two shifts, because `free` may be 64.
        let first = self.rest << (free - 1) << 1 | limb >> self.rest_bits;
        self.bytes.extend_from_slice(&first.to_be_bytes());
        self.rest = limb;
    }

    /// Pads with zero bits on the right to a whole byte.
    pub fn finish(self) {
        if self.rest_bits > 0 {
            let len = self.bytes.len() + self.rest_bits.div_ceil(8) as usize;
            // A copy of constant size costs less than one of the remaining bytes.
            self.bytes.extend_from_slice(&(self.rest << (64 - self.rest_bits)).to_be_bytes());
            self.bytes.truncate(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes it bit by bit.
    fn one_by_one(values: &[(Vec<u64>, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut at = 0;
        for (value, width) in values {
            for bit in (0..*width).rev() {
                if at % 8 == 0 {
                    bytes.push(0);
                }
                let one = value[bit as usize / 64] >> (bit % 64) & 1;
                bytes[at / 8] |= (one as u8) << (7 - at % 8);
                at += 1;
            }
        }
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn as_one_by_one(
            values in prop::collection::vec((prop::collection::vec(any::<u64>(), 6), prop_oneof![
                0u32..384,
                (0u32..48).prop_map(|bytes| bytes * 8),
            ]), 0..12)
        ) {
            let mut bytes = vec![];
            let mut writer = BitWriter::new(&mut bytes);
            for (value, width) in &values {
                writer.push(value, *width);
            }
            writer.finish();
            prop_assert_eq!(bytes, one_by_one(&values));
        }
    }
}
