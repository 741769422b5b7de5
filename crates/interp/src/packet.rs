//! The packet's bits: the frame with its cursor, and the output of a deparser.

use num_bigint::BigUint;

use p4jet_ir::eval::wrap;

/// A frame that a parser reads from the front.
pub(crate) struct Frame {
    pub bytes: Vec<u8>,
    /// In bits; never beyond the end.
    pub cursor: u64,
}

impl Frame {
    /// Returns the number of bits that are not parsed yet.
    pub fn available(&self) -> u64 {
        self.bytes.len() as u64 * 8 - self.cursor
    }

    /// The number in the `width` bits at `offset` after the cursor, which must lie within the packet.
    pub fn bits(&self, offset: u64, width: u32) -> BigUint {
        if width == 0 {
            return BigUint::ZERO;
        }
        let first = self.cursor + offset;
        let end = first + u64::from(width);
        let (first_byte, end_byte) = ((first / 8) as usize, end.div_ceil(8) as usize);
        let covering = BigUint::from_bytes_be(&self.bytes[first_byte..end_byte]);
        wrap(covering >> (end_byte as u64 * 8 - end), width)
    }

    /// Returns the unparsed bytes, from the next byte boundary on.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.cursor.div_ceil(8) as usize..]
    }
}

/// Bits in order of transmission.
#[derive(Default)]
pub(crate) struct Output {
    bits: Vec<bool>,
}

impl Output {
    /// Appends the low `width` bits, highest first.
    pub fn append(&mut self, value: &BigUint, width: u32) {
        self.bits.extend((0..u64::from(width)).rev().map(|bit| value.bit(bit)));
    }

    /// Returns the number of bits.
    pub fn bits(&self) -> usize {
        self.bits.len()
    }

    /// Returns the bytes, the last one padded with zeros.
    pub fn bytes(&self) -> Vec<u8> {
        self.bits
            .chunks(8)
            .map(|chunk| {
                chunk.iter().enumerate().fold(0, |byte, (index, bit)| byte | u8::from(*bit) << (7 - index))
            })
            .collect()
    }
}
