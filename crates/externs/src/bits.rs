//! Values of any width as bits in a row.

use crate::CallSite;

/// Limbs that a value takes.
pub(crate) fn limbs(width: u32) -> usize {
    width.div_ceil(64) as usize
}

/// The arguments of a call, each as its limbs, with its width.
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

/// A value that must be small: larger than any array if it does not fit one limb.
pub(crate) fn saturate(value: &[u64]) -> u64 {
    match value.split_first() {
        None => 0,
        Some((low, high)) if high.iter().all(|limb| *limb == 0) => *low,
        Some(_) => u64::MAX,
    }
}

/// Puts a 64-bit number into the first result, cut to its width.
pub(crate) fn put(site: &CallSite, outs: &mut [u64], value: u64) {
    outs.fill(0);
    if let (Some(out), Some(width)) = (outs.first_mut(), site.out_widths.first()) {
        *out = mask_low(value, (*width).min(64));
    }
}

/// The low `width` bits.
pub(crate) fn mask_low(value: u64, width: u32) -> u64 {
    if width >= 64 { value } else { value & ((1 << width) - 1) }
}

/// Appends values, most significant bit first, without gaps.
pub(crate) struct BitWriter<'a> {
    bytes: &'a mut Vec<u8>,
    /// Bits not yet written, in the low end; fewer than 8 between calls.
    rest: u64,
    rest_bits: u32,
}

impl<'a> BitWriter<'a> {
    pub fn new(bytes: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter { bytes, rest: 0, rest_bits: 0 }
    }

    pub fn push(&mut self, value: &[u64], width: u32) {
        let mut left = width;
        while left > 0 {
            // At most 32 bits at a time, up to a half-limb boundary, so that they come from one limb.
            let bits = if left.is_multiple_of(32) { 32 } else { left % 32 };
            left -= bits;
            let chunk = mask_low(value[(left / 64) as usize] >> (left % 64), bits);
            self.rest = self.rest << bits | chunk;
            self.rest_bits += bits;
            while self.rest_bits >= 8 {
                self.rest_bits -= 8;
                self.bytes.push((self.rest >> self.rest_bits) as u8);
            }
        }
    }

    /// Pads with zero bits on the right to a whole byte.
    pub fn finish(self) {
        if self.rest_bits > 0 {
            self.bytes.push((self.rest << (8 - self.rest_bits)) as u8);
        }
    }
}
