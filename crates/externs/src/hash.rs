//! Hash and checksum functions.
//!
//! [`Hash`] describes how the data are taken. The bits of the arguments follow each other without gaps, and zero bits fill
//! the last byte, as in bmv2. The result is cut or zero-extended to the width of the out argument. Calls with fixed widths serve
//! data whose headers are all valid.

use crate::bits::{self, BitWriter};
use crate::crc::Crc;
use crate::{Call, CallSite, CrcParams, Env};
use p4jet_ir::{Algorithm, Hash};
use std::sync::{Arc, LazyLock};

/// The computation of a hash.
pub(crate) fn computation(hash: Hash) -> Call {
    /// A hash of whole data.
    macro_rules! whole {
        ($f:ident) => {
            match (hash.payload, hash.pieces) {
                (false, false) => |e, s, a, o| whole(e, s, bits::arguments(s, a), o, false, $f),
                (true, false) => |e, s, a, o| whole(e, s, bits::arguments(s, a), o, true, $f),
                (false, true) => |e, s, a, o| whole(e, s, bits::pieces(bits::arguments(s, a)), o, false, $f),
                (true, true) => |e, s, a, o| whole(e, s, bits::pieces(bits::arguments(s, a)), o, true, $f),
            }
        };
    }
    /// A CRC that continues another one.
    macro_rules! continued {
        ($with:ident) => {
            match hash.pieces {
                false => |e, s, a, o| continued(e, s, a, o, false, $with),
                true => |e, s, a, o| continued(e, s, a, o, true, $with),
            }
        };
    }
    match (hash.algorithm, hash.continues) {
        (Algorithm::Crc16, false) => whole!(crc16),
        (Algorithm::Crc16, true) => continued!(with_crc16),
        (Algorithm::Crc16Custom, false) => whole!(crc16_custom),
        (Algorithm::Crc16Custom, true) => continued!(with_crc16_custom),
        (Algorithm::Crc32, false) => whole!(crc32),
        (Algorithm::Crc32, true) => continued!(with_crc32),
        (Algorithm::Crc32Custom, false) => whole!(crc32_custom),
        (Algorithm::Crc32Custom, true) => continued!(with_crc32_custom),
        (Algorithm::Csum16, _) => whole!(csum16),
        (Algorithm::Xor16, _) => whole!(xor16),
        (Algorithm::Identity, _) => whole!(identity),
        (Algorithm::Random, _) => |env, site, _, outs| {
            let value = env.random_word();
            bits::put(site, outs, value);
        },
    }
}

/// A value and the number of its low bits that count.
type Data<'a> = (&'a [u64], u32);

/// A function that computes a hash of bytes.
type OfBytes = fn(&mut Env<'_>, &CallSite, &[u8]) -> u64;

fn whole<'a>(
    env: &mut Env<'_>,
    site: &CallSite,
    data: impl Iterator<Item = Data<'a>>,
    outs: &mut [u64],
    payload: bool,
    f: OfBytes,
) {
    // Borrowed out of the environment so that `f` may use it too.
    let mut bytes = std::mem::take(&mut env.scratch);
    put_together(&mut bytes, data);
    if payload {
        bytes.extend_from_slice(env.payload());
    }
    let value = f(env, site, &bytes);
    env.scratch = bytes;
    bits::put(site, outs, value);
}

fn put_together<'a>(bytes: &mut Vec<u8>, data: impl Iterator<Item = Data<'a>>) {
    bytes.clear();
    let mut writer = BitWriter::new(bytes);
    for (value, width) in data {
        writer.push(value, width);
    }
    writer.finish();
}

fn crc16(_: &mut Env<'_>, _: &CallSite, bytes: &[u8]) -> u64 {
    static CRC: crc::Crc<u16, crc::Table<16>> = crc::Crc::<u16, crc::Table<16>>::new(&crc::CRC_16_ARC);
    u64::from(CRC.checksum(bytes))
}

fn crc32(_: &mut Env<'_>, _: &CallSite, bytes: &[u8]) -> u64 {
    static CRC: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISO_HDLC);
    u64::from(CRC.checksum(bytes))
}

/// Tables for a CRC of few bytes as the exclusive or of each byte's contribution, for code that knows the number of
/// bytes.
pub struct ByteParts {
    /// The CRC of this many zero bytes.
    pub of_zeros: [u32; 9],
    /// The contribution of a byte that is followed by this many bytes.
    pub of_byte: [[u32; 256]; 8],
}

/// Returns the tables of CRC-16 or CRC-32.
pub fn byte_parts(algorithm: Algorithm) -> Option<&'static ByteParts> {
    static CRC16_PARTS: LazyLock<ByteParts> = LazyLock::new(|| parts_of(&CRC16));
    static CRC32_PARTS: LazyLock<ByteParts> = LazyLock::new(|| parts_of(&CRC32));
    match algorithm {
        Algorithm::Crc16 => Some(&CRC16_PARTS),
        Algorithm::Crc32 => Some(&CRC32_PARTS),
        _ => None,
    }
}

fn parts_of(crc: &Crc) -> ByteParts {
    let of_zeros: [u32; 9] = std::array::from_fn(|n| crc.checksum(&[0; 8][..n]) as u32);
    let of_byte = std::array::from_fn(|behind| {
        std::array::from_fn(|byte| {
            let mut bytes = [0; 8];
            bytes[0] = byte as u8;
            crc.checksum(&bytes[..=behind]) as u32 ^ of_zeros[behind + 1]
        })
    });
    ByteParts { of_zeros, of_byte }
}

/// Calls a function with the CRC that a call site names.
type WithCrc = fn(&mut Env<'_>, &CallSite, &mut dyn FnMut(&Crc) -> u64) -> u64;

/// Continues a CRC. The first argument is the result of the previous call, initially 0. It is the CRC of the data so
/// far xor the CRC of no data, which is not 0 with some parameters.
fn continued(
    env: &mut Env<'_>,
    site: &CallSite,
    args: &[u64],
    outs: &mut [u64],
    in_pieces: bool,
    with: WithCrc,
) {
    let mut bytes = std::mem::take(&mut env.scratch);
    let mut values = bits::arguments(site, args);
    let before = values.next().map_or(0, |(value, _)| value.first().copied().unwrap_or(0));
    match in_pieces {
        true => put_together(&mut bytes, bits::pieces(values)),
        false => put_together(&mut bytes, values),
    }
    let value = with(env, site, &mut |crc| {
        let nothing = crc.checksum(&[]);
        crc.more(before ^ nothing, &bytes) ^ nothing
    });
    env.scratch = bytes;
    bits::put(site, outs, value);
}

static CRC16: Crc = Crc::new(CrcParams::CRC16);
static CRC32: Crc = Crc::new(CrcParams::CRC32);

fn with_crc16(_: &mut Env<'_>, _: &CallSite, f: &mut dyn FnMut(&Crc) -> u64) -> u64 {
    f(&CRC16)
}

fn with_crc32(_: &mut Env<'_>, _: &CallSite, f: &mut dyn FnMut(&Crc) -> u64) -> u64 {
    f(&CRC32)
}

fn with_crc16_custom(env: &mut Env<'_>, site: &CallSite, f: &mut dyn FnMut(&Crc) -> u64) -> u64 {
    match custom_of(env, site) {
        Some(crc) => f(&crc),
        None => f(&CRC16),
    }
}

fn with_crc32_custom(env: &mut Env<'_>, site: &CallSite, f: &mut dyn FnMut(&Crc) -> u64) -> u64 {
    match custom_of(env, site) {
        Some(crc) => f(&crc),
        None => f(&CRC32),
    }
}

fn crc16_custom(env: &mut Env<'_>, site: &CallSite, bytes: &[u8]) -> u64 {
    with_crc16_custom(env, site, &mut |crc| crc.checksum(bytes))
}

fn crc32_custom(env: &mut Env<'_>, site: &CallSite, bytes: &[u8]) -> u64 {
    with_crc32_custom(env, site, &mut |crc| crc.checksum(bytes))
}

fn custom_of(env: &mut Env<'_>, site: &CallSite) -> Option<Arc<Crc>> {
    site.text.first().and_then(|name| env.custom_crc(name))
}

/// Computes the checksum of RFC 1071. An odd last byte counts as the high half of a word.
fn csum16(_: &mut Env<'_>, _: &CallSite, bytes: &[u8]) -> u64 {
    // RFC 1071, section 2 (B): the sum of words in the machine's byte order is that of the words, in that byte order. And
    // 32-bit words weigh the same modulo 2^16 - 1; 2^32 of them fit without overflow.
    let (mut high, mut low) = (0, 0);
    for_words(bytes, |word| {
        high += word >> 32;
        low += word & 0xffff_ffff;
    });
    let mut sum: u64 = high + low;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u64::from(!u16::from_be(sum as u16))
}

fn xor16(_: &mut Env<'_>, _: &CallSite, bytes: &[u8]) -> u64 {
    let mut x = 0;
    for_words(bytes, |word| x ^= word);
    x ^= x >> 32;
    u64::from(u16::from_be((x ^ x >> 16) as u16))
}

/// Iterates over groups of 8 bytes as numbers in the machine's byte order; the last one is padded with zeros.
fn for_words(bytes: &[u8], mut f: impl FnMut(u64)) {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        f(u64::from_ne_bytes(*word));
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        f(u64::from_ne_bytes(last));
    }
}

fn identity(_: &mut Env<'_>, _: &CallSite, bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |x, byte| x << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_crc_is_the_sum_of_its_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..=8)) {
            for (algorithm, crc) in [(Algorithm::Crc16, &CRC16), (Algorithm::Crc32, &CRC32)] {
                let parts = byte_parts(algorithm).unwrap();
                let zeros = parts.of_zeros[bytes.len()];
                let sum = bytes.iter().rev().zip(&parts.of_byte).fold(zeros, |sum, (byte, of_byte)| {
                    sum ^ of_byte[*byte as usize]
                });
                prop_assert_eq!(u64::from(sum), crc.checksum(&bytes));
            }
        }
    }
}
