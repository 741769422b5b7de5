//! Widths of values. A value is a row of 64-bit limbs.

/// Number of limbs of a width; at least 1.
pub fn limb_count(width: u32) -> usize {
    (width.max(1) as usize).div_ceil(64)
}

/// All ones in `width` bits, `width` at most 64.
pub fn ones(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}
