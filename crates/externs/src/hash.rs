//! Hash and checksum functions.
//!
//! The arguments are concatenated in order, most significant bit first, and padded with zero bits on the right to whole
//! bytes, as bmv2 does; the `_payload` forms append the payload behind that. The result is cut or zero-extended to the
//! width of the out argument.

use crate::bits::{self, BitWriter};
use crate::crc::Crc;
use crate::{CallSite, CrcParams, Env, ExternDef};
use std::sync::Arc;

type Call = fn(&mut Env<'_>, &CallSite, args: &[u64], outs: &mut [u64]);

const fn def(name: &'static str, call: Call, uses_payload: bool, doc: &'static str) -> ExternDef {
    ExternDef { name, call, pure_function: true, uses_payload, doc }
}

/// Hash functions by name.
pub(crate) static DEFS: [ExternDef; 20] = [
    def("crc16", |e, s, a, o| hash(e, s, a, o, false, crc16), false, "CRC-16/ARC of the arguments"),
    def(
        "crc16_payload",
        |e, s, a, o| hash(e, s, a, o, true, crc16),
        true,
        "CRC-16/ARC of arguments and payload",
    ),
    custom("crc16_custom", |e, s, a, o| hash(e, s, a, o, false, crc16_custom), false),
    custom("crc16_custom_payload", |e, s, a, o| hash(e, s, a, o, true, crc16_custom), true),
    def("crc32", |e, s, a, o| hash(e, s, a, o, false, crc32), false, "CRC-32 (Ethernet) of the arguments"),
    def("crc32_payload", |e, s, a, o| hash(e, s, a, o, true, crc32), true, "CRC-32 of arguments and payload"),
    custom("crc32_custom", |e, s, a, o| hash(e, s, a, o, false, crc32_custom), false),
    custom("crc32_custom_payload", |e, s, a, o| hash(e, s, a, o, true, crc32_custom), true),
    def("csum16", |e, s, a, o| hash(e, s, a, o, false, csum16), false, "RFC 1071 checksum of the arguments"),
    def(
        "csum16_payload",
        |e, s, a, o| hash(e, s, a, o, true, csum16),
        true,
        "RFC 1071 checksum, with payload",
    ),
    def("xor16", |e, s, a, o| hash(e, s, a, o, false, xor16), false, "exclusive or of the 16-bit words"),
    def("xor16_payload", |e, s, a, o| hash(e, s, a, o, true, xor16), true, "the same, with payload"),
    def("identity", |e, s, a, o| hash(e, s, a, o, false, identity), false, "the first 8 bytes as a number"),
    def("identity_payload", |e, s, a, o| hash(e, s, a, o, true, identity), true, "the same, with payload"),
    random("random_hash"),
    random("random_hash_payload"),
    def("crc16_more", |e, s, a, o| more(e, s, a, o, with_crc16), false, MORE),
    def("crc32_more", |e, s, a, o| more(e, s, a, o, with_crc32), false, MORE),
    custom("crc16_custom_more", |e, s, a, o| more(e, s, a, o, with_crc16_custom), false),
    custom("crc32_custom_more", |e, s, a, o| more(e, s, a, o, with_crc32_custom), false),
];

const MORE: &str =
    "(crc, data...): the CRC of what has this CRC, with more data behind it; 0 is that of nothing";

const fn custom(name: &'static str, call: Call, uses_payload: bool) -> ExternDef {
    let doc = "CRC with parameters set at run time under the name that the first text gives";
    // Not pure: the parameters are state.
    ExternDef { name, call, pure_function: false, uses_payload, doc }
}

const fn random(name: &'static str) -> ExternDef {
    ExternDef {
        name,
        call: |env, site, _, outs| {
            let value = env.random_word();
            bits::put(site, outs, value);
        },
        pure_function: false,
        uses_payload: false,
        doc: "HashAlgorithm.random: a random number whatever the arguments",
    }
}

fn hash(
    env: &mut Env<'_>,
    site: &CallSite,
    args: &[u64],
    outs: &mut [u64],
    with_payload: bool,
    f: fn(&mut Env<'_>, &CallSite, &[u8]) -> u64,
) {
    // Borrowed out of the environment so that `f` may use it too.
    let mut bytes = std::mem::take(&mut env.scratch);
    bytes.clear();
    let mut writer = BitWriter::new(&mut bytes);
    for (value, width) in bits::arguments(site, args) {
        writer.push(value, width);
    }
    writer.finish();
    if with_payload {
        bytes.extend_from_slice(env.payload());
    }
    let value = f(env, site, &bytes);
    env.scratch = bytes;
    bits::put(site, outs, value);
}

fn crc16(_: &mut Env<'_>, _: &CallSite, bytes: &[u8]) -> u64 {
    static CRC: crc::Crc<u16, crc::Table<16>> = crc::Crc::<u16, crc::Table<16>>::new(&crc::CRC_16_ARC);
    u64::from(CRC.checksum(bytes))
}

fn crc32(_: &mut Env<'_>, _: &CallSite, bytes: &[u8]) -> u64 {
    static CRC: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISO_HDLC);
    u64::from(CRC.checksum(bytes))
}

/// Calls a function with the CRC that a call site names.
type WithCrc = fn(&mut Env<'_>, &CallSite, &mut dyn FnMut(&Crc) -> u64) -> u64;

/// The first argument is what the last call gave. It begins as 0, and differs from the CRC by that of no data, which the
/// parameters may make another number.
fn more(env: &mut Env<'_>, site: &CallSite, args: &[u64], outs: &mut [u64], with: WithCrc) {
    let mut bytes = std::mem::take(&mut env.scratch);
    bytes.clear();
    let mut values = bits::arguments(site, args);
    let before = values.next().map_or(0, |(value, _)| value.first().copied().unwrap_or(0));
    let mut writer = BitWriter::new(&mut bytes);
    for (value, width) in values {
        writer.push(value, width);
    }
    writer.finish();
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

/// RFC 1071. An odd last byte counts as the high half of a word.
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

/// Each 8 bytes as a number in the machine's byte order, zeros behind the last.
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
