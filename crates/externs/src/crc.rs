//! Cyclic redundancy checks whose parameters are set at run time.

/// The parameters of a CRC, in the usual (Rocksoft) terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParams {
    /// Width in bits, 8 to 64.
    pub width: u32,
    /// Polynomial without its highest term, most significant bit first.
    pub poly: u64,
    /// Initial value of the remainder.
    pub init: u64,
    /// Value that is xored with the result.
    pub xor: u64,
    /// True if each byte is processed from its least significant bit.
    pub reflect_in: bool,
    /// True if the remainder is reversed before `xor`.
    pub reflect_out: bool,
}

impl CrcParams {
    /// The parameters of `crc16`, and the initial ones of `crc16_custom`.
    pub const CRC16: CrcParams =
        CrcParams { width: 16, poly: 0x8005, init: 0, xor: 0, reflect_in: true, reflect_out: true };
    /// The parameters of `crc32`, and the initial ones of `crc32_custom`.
    pub const CRC32: CrcParams = CrcParams {
        width: 32,
        poly: 0x04c1_1db7,
        init: 0xffff_ffff,
        xor: 0xffff_ffff,
        reflect_in: true,
        reflect_out: true,
    };
}

/// A CRC ready to compute.
pub struct Crc {
    params: CrcParams,
    /// The remainder of each byte followed by this many zero bytes, in the high bits of the word.
    tables: [[u64; 256]; 8],
}

impl Crc {
    /// Prepares a CRC. The width is from 8 to 64, and no other parameter is wider.
    pub const fn new(params: CrcParams) -> Crc {
        let poly = params.poly << (64 - params.width);
        let mut tables = [[0; 256]; 8];
        let mut byte = 0;
        while byte < 256 {
            let mut remainder = (byte as u64) << 56;
            let mut bit = 0;
            while bit < 8 {
                remainder = if remainder >> 63 == 1 { remainder << 1 ^ poly } else { remainder << 1 };
                bit += 1;
            }
            tables[0][byte] = remainder;
            byte += 1;
        }
        let mut at = 256;
        while at < 8 * 256 {
            let shorter = tables[at / 256 - 1][at % 256];
            tables[at / 256][at % 256] = shorter << 8 ^ tables[0][(shorter >> 56) as usize];
            at += 1;
        }
        Crc { params, tables }
    }

    /// Returns the CRC of some bytes.
    pub fn checksum(&self, bytes: &[u8]) -> u64 {
        self.run(self.params.init << (64 - self.params.width), bytes)
    }

    /// Returns the CRC of bytes with the CRC `before`, followed by `bytes`.
    pub fn more(&self, before: u64, bytes: &[u8]) -> u64 {
        let CrcParams { width, xor, reflect_out, .. } = self.params;
        let result = (before ^ xor) & (u64::MAX >> (64 - width));
        self.run(if reflect_out { result.reverse_bits() } else { result << (64 - width) }, bytes)
    }

    /// `remainder` is in the high bits, so that one loop serves every width.
    fn run(&self, mut remainder: u64, bytes: &[u8]) -> u64 {
        let CrcParams { width, xor, reflect_in, reflect_out, .. } = self.params;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let word = u64::from_be_bytes(*word);
            let word = if reflect_in { word.reverse_bits().swap_bytes() } else { word };
            // The part of each byte is independent, so that their loads do not wait for each other.
            let mixed = (remainder ^ word).to_le_bytes();
            remainder = mixed.iter().zip(&self.tables).fold(0, |r, (byte, table)| r ^ table[*byte as usize]);
        }
        for byte in rest {
            let byte = if reflect_in { byte.reverse_bits() } else { *byte };
            remainder = remainder << 8 ^ self.tables[0][((remainder >> 56) as u8 ^ byte) as usize];
        }
        let result = if reflect_out { remainder.reverse_bits() } else { remainder >> (64 - width) };
        (result ^ xor) & (u64::MAX >> (64 - width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_may_come_in_pieces(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
            cut in 0usize..40,
            width in 8u32..=64,
            reflect_in: bool,
            reflect_out: bool,
        ) {
            let low = |v: u64| v & (u64::MAX >> (64 - width));
            let (init, xor, poly) = (low(0x9e37_79b9_7f4a_7c15), low(0x1234_5678_9abc_def1), low(0x8005));
            let crc = Crc::new(CrcParams { width, poly, init, xor, reflect_in, reflect_out });
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(crc.more(crc.checksum(first), second), crc.checksum(&bytes));
        }
    }

    /// The check values of the catalogue of parametrised CRC algorithms: CRC of "123456789".
    #[test]
    fn catalogue() {
        let crc = |width, poly, init, xor, reflect_in, reflect_out| {
            Crc::new(CrcParams { width, poly, init, xor, reflect_in, reflect_out }).checksum(b"123456789")
        };
        assert_eq!(crc(8, 0x07, 0, 0, false, false), 0xf4, "CRC-8/SMBUS");
        assert_eq!(crc(16, 0x8005, 0, 0, true, true), 0xbb3d, "CRC-16/ARC");
        assert_eq!(crc(16, 0x1021, 0xffff, 0, false, false), 0x29b1, "CRC-16/IBM-3740");
        assert_eq!(crc(32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, true, true), 0xcbf4_3926, "CRC-32");
        assert_eq!(crc(32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, false, false), 0xfc89_1918, "CRC-32/BZIP2");
        assert_eq!(crc(12, 0xf13, 0xfff, 0, false, false), 0xd4d, "CRC-12/CDMA2000");
        assert_eq!(crc(12, 0x80f, 0, 0, false, true), 0xdaf, "CRC-12/UMTS: only the result is reflected");
        assert_eq!(
            crc(64, 0x42f0_e1eb_a9ea_3693, 0, 0, false, false),
            0x6c40_df5f_0b49_7347,
            "CRC-64/ECMA-182"
        );
    }

    /// Computes it bit by bit.
    fn bit_by_bit(params: CrcParams, bytes: &[u8]) -> u64 {
        let CrcParams { width, poly, init, xor, reflect_in, reflect_out } = params;
        let mut remainder = u128::from(init);
        for byte in bytes {
            for bit in 0..8 {
                let bit = byte >> if reflect_in { bit } else { 7 - bit } & 1;
                let top = remainder >> (width - 1) & 1 ^ u128::from(bit);
                remainder = ((remainder << 1) ^ (top * u128::from(poly))) & ((1 << width) - 1);
            }
        }
        let result = remainder as u64;
        (if reflect_out { result.reverse_bits() >> (64 - width) } else { result }) ^ xor
    }

    proptest! {
        #[test]
        fn as_bit_by_bit(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            width in 8u32..=64,
            [poly, init, xor] in any::<[u64; 3]>(),
            [reflect_in, reflect_out] in any::<[bool; 2]>(),
        ) {
            let cut = |x: u64| x >> (64 - width);
            let (poly, init, xor) = (cut(poly), cut(init), cut(xor));
            let params = CrcParams { width, poly, init, xor, reflect_in, reflect_out };
            prop_assert_eq!(Crc::new(params).checksum(&bytes), bit_by_bit(params, &bytes));
        }

        #[test]
        fn as_the_crc_crate(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let arc = crc::Crc::<u16>::new(&crc::CRC_16_ARC);
            prop_assert_eq!(Crc::new(CrcParams::CRC16).checksum(&bytes), u64::from(arc.checksum(&bytes)));
            let iso = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
            prop_assert_eq!(Crc::new(CrcParams::CRC32).checksum(&bytes), u64::from(iso.checksum(&bytes)));
        }
    }
}
