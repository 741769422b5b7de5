//! The hashes to compare.

use crate::checksum::Sum;
use crate::random::Random;
use p4jet_externs::{Crc, CrcParams};
use p4jet_suggest::did_you_mean;
use std::sync::Arc;

/// A hash.
#[derive(Clone)]
pub struct Hash {
    name: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Crc(Arc<Crc>),
    /// RFC 1071, complemented.
    Checksum,
    /// A number independent of the address: the ideal.
    Random,
}

/// Names and parameters of the CRCs: width, polynomial without its highest term, initial value, final xor, true if
/// reflected.
const CRCS: [(&str, u32, u64, u64, u64, bool); 7] = [
    ("crc8", 8, 0x07, 0, 0, false),
    ("crc16", 16, 0x8005, 0, 0, true),
    ("crc32", 32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, true),
    ("crc32c", 32, 0x1edc_6f41, 0xffff_ffff, 0xffff_ffff, true),
    // In Koopman's notation, which includes the highest term but not the lowest: 0x8d95 is 0x11b2b in full.
    ("0x8d95", 16, 0x1b2b, 0xffff, 0, true),
    ("0xd175", 16, 0xa2eb, 0xffff, 0, true),
    ("0x973afb51", 32, 0x2e75_f6a3, 0xffff_ffff, 0, true),
];

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Hash {
    /// Returns the names of all hashes.
    pub fn names() -> Vec<&'static str> {
        CRCS.iter().map(|crc| crc.0).chain(["csum16", "random"]).collect()
    }

    /// Returns the hash with this name: one of [`Self::names`], or a polynomial in Koopman's notation, such as
    /// `koopman:0xa2eb`: its highest bit is the highest term, and the lowest term is implicit. The initial value is all
    /// ones, and it is reflected.
    pub fn by_name(name: &str) -> Result<Hash, String> {
        let kind = match name {
            "csum16" => Kind::Checksum,
            "random" => Kind::Random,
            _ => Kind::Crc(Arc::new(Crc::new(crc_params(name)?))),
        };
        Ok(Hash { name: name.to_string(), kind })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the hash of these bytes.
    pub(super) fn of(&self, bytes: &[u8], random: &mut Random) -> u64 {
        match &self.kind {
            Kind::Crc(crc) => crc.checksum(bytes),
            Kind::Checksum => u64::from(Sum::default().add(bytes).checksum()),
            Kind::Random => random.next(),
        }
    }
}

fn crc_params(name: &str) -> Result<CrcParams, String> {
    if let Some(&(_, width, poly, init, xor, reflect)) = CRCS.iter().find(|crc| crc.0 == name) {
        return Ok(CrcParams { width, poly, init, xor, reflect_in: reflect, reflect_out: reflect });
    }
    let unknown = || {
        let (hint, names) = (did_you_mean(name, Hash::names()), Hash::names().join(", "));
        format!("unknown hash `{name}`: {hint}expected koopman:0x… or one of {names}")
    };
    let digits = name.strip_prefix("koopman:0x").ok_or_else(unknown)?;
    let koopman = u64::from_str_radix(digits, 16).map_err(|_| unknown())?;
    let width = 64 - koopman.leading_zeros();
    if width < 8 {
        return Err(format!("`{name}` is a polynomial of {width} bits: expected 8 to 64"));
    }
    let ones = u64::MAX >> (64 - width);
    let poly = (koopman << 1 | 1) & ones;
    Ok(CrcParams { width, poly, init: ones, xor: 0, reflect_in: true, reflect_out: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, bytes: &[u8]) -> u64 {
        Hash::by_name(name).unwrap().of(bytes, &mut Random::new(0))
    }

    #[test]
    fn known_values() {
        assert_eq!(of("crc32", &[213, 1, 1, 1]), 0x5f10_fd57);
        assert_eq!(of("csum16", &[213, 1, 1, 1]), 0x29fd);
        // The catalogue's check values, of "123456789".
        assert_eq!(of("crc8", b"123456789"), 0xf4);
        assert_eq!(of("crc16", b"123456789"), 0xbb3d);
        assert_eq!(of("crc32c", b"123456789"), 0xe306_9283);
    }

    /// The names in Koopman's notation have the meaning of that notation.
    #[test]
    fn notations_agree() {
        for name in ["0x8d95", "0xd175", "0x973afb51"] {
            assert_eq!(of(name, b"some bytes"), of(&format!("koopman:{name}"), b"some bytes"), "{name}");
        }
        // CRC-32 is 0x82608edb there; only the final xor is missing.
        assert_eq!(of("koopman:0x82608edb", b"123456789") ^ 0xffff_ffff, of("crc32", b"123456789"));
    }

    #[test]
    fn unknown_names_are_refused() {
        for name in ["crc33", "koopman:0x", "koopman:12", "koopman:0x3f", "koopman:0x11112222333344445"] {
            assert!(Hash::by_name(name).is_err(), "{name}");
        }
    }
}
