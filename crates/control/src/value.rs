//! Numbers in the notations that commands accept, and their text forms.

use crate::error::count;
use crate::fields::KeyField;
use num_bigint::BigUint;
use num_traits::{One, Zero};
use p4jet_externs::Rate;
use p4jet_ir::MatchKind;
use p4jet_tables::KeyMatch;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Parses a value of `width` bits: an integer, or an address if the width is that of an address.
///
/// # Errors
///
/// The text has none of these forms, or the value does not fit. The error quotes the text and explains the fault.
pub fn parse_value(text: &str, width: u32) -> Result<BigUint, String> {
    let value = if text.contains(':') {
        match width {
            48 => parse_mac(text)?,
            128 => match text.parse::<Ipv6Addr>() {
                Ok(address) => BigUint::from(u128::from(address)),
                Err(_) => return Err(format!("`{text}` is not an IPv6 address")),
            },
            _ => {
                return Err(format!(
                    "`{text}` is not a number; a MAC address is for 48 bits, an IPv6 address for 128 bits, but this \
                     is bit<{width}>"
                ));
            }
        }
    } else if text.contains('.') {
        if width != 32 {
            return Err(format!(
                "`{text}` is not a number; an IPv4 address is for 32 bits, but this is bit<{width}>"
            ));
        }
        match text.parse::<Ipv4Addr>() {
            Ok(address) => BigUint::from(u32::from(address)),
            Err(_) => {
                return Err(format!("`{text}` is not an IPv4 address: expected four numbers up to 255"));
            }
        }
    } else {
        match parse_int(text) {
            Some(value) => value?,
            None => {
                let address = match width {
                    32 => " or an IPv4 address",
                    48 => " or a MAC address",
                    128 => " or an IPv6 address",
                    _ => "",
                };
                return Err(format!(
                    "`{text}` is not a number: expected an integer such as 10, 0xa, 0b1010 or 0o12{address}"
                ));
            }
        }
    };
    check_width(value, text, width)
}

fn check_width(value: BigUint, text: &str, width: u32) -> Result<BigUint, String> {
    if value.bits() > u64::from(width) {
        let max = ones(width);
        let decimal = if width <= 64 { format!(" ({max})") } else { String::new() };
        let bits = count(width as usize, "bit");
        return Err(format!("`{text}` does not fit in {bits}: the largest value is {max:#x}{decimal}"));
    }
    Ok(value)
}

fn parse_mac(text: &str) -> Result<BigUint, String> {
    let wrong = || format!("`{text}` is not a MAC address: expected six bytes such as 00:11:22:33:44:55");
    let mut value = 0u64;
    let mut count = 0;
    for part in text.split(':') {
        let byte = u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2 && !part.starts_with('+'));
        value = value << 8 | u64::from(byte.ok_or_else(wrong)?);
        count += 1;
    }
    if count == 6 { Ok(BigUint::from(value)) } else { Err(wrong()) }
}

/// Parses an integer literal as Python does with base 0. `None` if it is none; an error if it is negative or absurdly long.
pub fn parse_int(text: &str) -> Option<Result<BigUint, String>> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let bytes = digits.as_bytes();
    let (radix, digits) = match bytes {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        _ => (10, digits),
    };
    // Digits with single underscores between them; a base prefix may be followed by one, too.
    let mut after_digit = radix != 10;
    let mut small = Some(0u128);
    for byte in digits.bytes() {
        if byte == b'_' {
            if !after_digit {
                return None;
            }
            after_digit = false;
            continue;
        }
        let digit = (byte as char).to_digit(radix)?;
        small = small
            .and_then(|s| s.checked_mul(u128::from(radix)))
            .and_then(|s| s.checked_add(u128::from(digit)));
        after_digit = true;
    }
    if digits.is_empty() || !after_digit {
        return None;
    }
    // Python: 007 is an error, because it was once octal; 000 is 0.
    if radix == 10 && digits.starts_with('0') && small != Some(0) {
        return None;
    }
    if negative && small != Some(0) {
        return Some(Err(format!("`{text}` is negative: expected a value of 0 or more")));
    }
    if let Some(small) = small {
        // Nearly all values fit in 64 bits, and that conversion is cheaper.
        return Some(Ok(match u64::try_from(small) {
            Ok(value) => BigUint::from(value),
            Err(_) => BigUint::from(small),
        }));
    }
    // No field is that wide, and the time of the conversion grows with the square of the length.
    const DIGITS_MAX: usize = 10_000;
    if digits.len() > DIGITS_MAX {
        return Some(Err(format!("a number of {} digits is too large", digits.len())));
    }
    let plain: Vec<u8> = digits.bytes().filter(|b| *b != b'_').collect();
    Some(Ok(BigUint::parse_bytes(&plain, radix)?))
}

/// Parses an integer of up to 64 bits: a handle, an index, a priority. `what` names it in errors, with its article.
///
/// # Errors
///
/// The text is not an integer, or it is negative or greater than `max`.
pub fn parse_u64(text: &str, what: &str, max: u64) -> Result<u64, String> {
    let value = match parse_int(text) {
        Some(value) => value?,
        None => return Err(format!("`{text}` is not {what}: expected an integer")),
    };
    u64::try_from(&value)
        .ok()
        .filter(|v| *v <= max)
        .ok_or_else(|| format!("`{text}` is too large for {what}: the largest is {max}"))
}

/// The largest value of a width.
pub fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - BigUint::one()
}

/// Returns `value` with all but the first `prefix_len` of its `width` bits cleared.
pub fn prefix_of(value: BigUint, width: u32, prefix_len: u32) -> BigUint {
    let host = width - prefix_len;
    if host == 0 || value.trailing_zeros().is_none_or(|zeros| zeros >= u64::from(host)) {
        return value;
    }
    (value >> host) << host
}

/// The bytes of a field, most significant first, padded to whole bytes.
pub fn bytes_of(value: &BigUint, width: u32) -> Vec<u8> {
    let len = width.div_ceil(8) as usize;
    let bytes = if value.is_zero() { Vec::new() } else { value.to_bytes_be() };
    let mut out = vec![0; len.saturating_sub(bytes.len())];
    out.extend(bytes);
    out
}

/// `0a000207`
pub fn hex(value: &BigUint, width: u32) -> String {
    bytes_of(value, width).iter().map(|b| format!("{b:02x}")).collect()
}

/// `0a:00:02:07`
pub fn hex_bytes(value: &BigUint, width: u32) -> String {
    bytes_of(value, width).iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
}

/// `lpm, bit<32>`
pub fn describe_key(key: &KeyField) -> String {
    format!("{}, bit<{}>", key.kind.name(), key.width)
}

/// An example value: the given word, if it is a value.
fn example<'t>(text: &'t str, key: &KeyField) -> &'t str {
    if parse_value(text, key.width).is_ok() { text } else { "1" }
}

/// Parses the word for one key field.
///
/// # Errors
///
/// The word does not have the form that the match kind needs, or a value does not fit the width.
pub fn key_match(key: &KeyField, text: &str) -> Result<KeyMatch, String> {
    key_match_masked(key, text).map(|(found, _)| found)
}

/// Like [`key_match`]; also returns true if the value has bits outside the prefix or mask. They are cleared, as in bmv2.
///
/// # Errors
///
/// Those of [`key_match`].
pub fn key_match_masked(key: &KeyField, text: &str) -> Result<(KeyMatch, bool), String> {
    let mut masked = false;
    let found = match key.kind {
        MatchKind::Exact => Ok(KeyMatch::Exact(parse_value(text, key.width)?)),
        MatchKind::Lpm => {
            let Some((value, len)) = text.rsplit_once('/') else {
                return Err(format!(
                    "found `{text}`, expected value/prefix-length, such as {}/{}",
                    example(text, key),
                    key.width
                ));
            };
            let value = parse_value(value, key.width)?;
            // The check makes the cast exact.
            let prefix_len = parse_u64(len, "a prefix length", u64::from(key.width))? as u32;
            masked = value.trailing_zeros().is_some_and(|zeros| zeros < u64::from(key.width - prefix_len));
            Ok(KeyMatch::Lpm { value: prefix_of(value, key.width, prefix_len), prefix_len })
        }
        MatchKind::Ternary => match text.split_once("&&&") {
            Some((value, mask)) => {
                let (value, mask) = (parse_value(value, key.width)?, parse_value(mask, key.width)?);
                let kept = &value & &mask;
                masked = kept != value;
                Ok(KeyMatch::Ternary { value: kept, mask })
            }
            None => Err(format!(
                "found `{text}`, expected value&&&mask, such as {}&&&{:#x}",
                example(text, key),
                ones(key.width)
            )),
        },
        MatchKind::Range => match text.split_once("->") {
            Some((lo, hi)) => {
                let (lo, hi) = (parse_value(lo, key.width)?, parse_value(hi, key.width)?);
                if lo > hi {
                    return Err(format!("found `{text}`, whose low end is above its high end"));
                }
                Ok(KeyMatch::Range { lo, hi })
            }
            None => {
                let example = example(text, key);
                Err(format!("found `{text}`, expected low->high, such as {example}->{example}"))
            }
        },
        MatchKind::Optional => {
            let Some((value, mask)) = text.split_once("&&&") else {
                return Ok((KeyMatch::Optional(Some(parse_value(text, key.width)?)), false));
            };
            let (value, mask) = (parse_value(value, key.width)?, parse_value(mask, key.width)?);
            if mask.is_zero() {
                Ok(KeyMatch::Optional(None))
            } else if mask == ones(key.width) {
                Ok(KeyMatch::Optional(Some(value)))
            } else {
                let all = ones(key.width);
                Err(format!("found the mask {mask:#x}, expected {all:#x} (this value) or 0 (any value)"))
            }
        }
    };
    found.map(|found| (found, masked))
}

/// A number in the form of state files: `0xa`.
pub fn number_word(value: &BigUint) -> String {
    NumberWord(value).to_string()
}

/// Formats a number for state files, such as `0xa`.
pub struct NumberWord<'a>(pub &'a BigUint);

impl fmt::Display for NumberWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nearly all fit in 64 bits, which is faster.
        match u64::try_from(self.0) {
            Ok(small) => write!(f, "{small:#x}"),
            Err(_) => write!(f, "{:#x}", self.0),
        }
    }
}

/// The inverse of [`key_match`].
pub fn key_word(key: &KeyMatch) -> String {
    KeyWord(key).to_string()
}

/// Formats a match so that [`key_match`] reads it.
pub struct KeyWord<'a>(pub &'a KeyMatch);

impl fmt::Display for KeyWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => NumberWord(value).fmt(f),
            KeyMatch::Lpm { value, prefix_len } => write!(f, "{}/{prefix_len}", NumberWord(value)),
            KeyMatch::Ternary { value, mask } => write!(f, "{}&&&{}", NumberWord(value), NumberWord(mask)),
            KeyMatch::Range { lo, hi } => write!(f, "{}->{}", NumberWord(lo), NumberWord(hi)),
            KeyMatch::Optional(None) => f.write_str("0&&&0"),
        }
    }
}

/// `0.125:9000`
pub fn parse_rate(text: &str) -> Option<Rate> {
    let (per_us, burst) = text.split_once(':')?;
    let (per_us, burst) = (per_us.parse::<f64>().ok()?, burst.parse::<u64>().ok()?);
    (per_us.is_finite() && per_us >= 0.0).then_some(Rate { per_us, burst })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str, width: u32) -> Result<u128, String> {
        parse_value(text, width).map(|v| u128::try_from(&v).unwrap())
    }

    #[test]
    fn integers_as_python_reads_them() {
        let good = [("10", 10), ("0xA", 10), ("0Xa", 10), ("0b1010", 10), ("0o12", 10), ("0", 0), ("000", 0)];
        let more = [("1_000", 1000), ("0x_ff", 255), ("+7", 7), ("-0", 0)];
        for (text, expected) in good.into_iter().chain(more) {
            assert_eq!(value(text, 16), Ok(expected), "{text}");
        }
        for text in ["", "x", "0x", "010", "1__0", "_1", "1_", "0x_", "+", "-", "1e3", "0b2", "++1", "0x-1"] {
            assert!(value(text, 16).unwrap_err().contains("is not a number"), "{text}");
        }
        assert_eq!(value("-1", 16).unwrap_err(), "`-1` is negative: expected a value of 0 or more");
        let wide = "0x1".to_string() + &"0".repeat(40);
        assert_eq!(parse_value(&wide, 161).unwrap(), BigUint::one() << 160);
    }

    #[test]
    fn addresses_only_where_they_fit() {
        assert_eq!(value("192.0.2.7", 32), Ok(0xc000_0207));
        assert_eq!(value("00:11:22:33:44:55", 48), Ok(0x0011_2233_4455));
        assert_eq!(value("2001:db8::1", 128), Ok(0x2001_0db8_0000_0000_0000_0000_0000_0001));
        assert!(value("192.0.2.7", 48).unwrap_err().contains("for 32 bits, but this is bit<48>"));
        assert!(value("192.0.2.256", 32).unwrap_err().contains("is not an IPv4 address"));
        assert!(value("00:11:22:33:44", 48).unwrap_err().contains("is not a MAC address"));
        assert!(value("00:11:22:33:44:55:66", 48).unwrap_err().contains("is not a MAC address"));
        assert!(value("00:11:22:33:44:5x", 48).unwrap_err().contains("is not a MAC address"));
        assert!(value("00:11:22:33:44:55", 32).unwrap_err().contains("for 48 bits"));
        assert!(value("1:2", 128).unwrap_err().contains("is not an IPv6 address"));
    }

    #[test]
    fn too_wide_tells_width_and_maximum() {
        assert_eq!(value("511", 9), Ok(511));
        assert_eq!(
            value("512", 9).unwrap_err(),
            "`512` does not fit in 9 bits: the largest value is 0x1ff (511)",
            "even within the last byte"
        );
        assert!(value("0x100000000", 32).unwrap_err().contains("0xffffffff (4294967295)"));
    }

    #[test]
    fn shows_whole_bytes() {
        assert_eq!(hex(&BigUint::from(3u32), 9), "0003");
        assert_eq!(hex_bytes(&BigUint::from(0x0a00_0207u32), 32), "0a:00:02:07");
        assert_eq!(hex(&BigUint::zero(), 1), "00");
    }

    #[test]
    fn cuts_to_the_prefix() {
        let value = BigUint::from(0xc633_6407u32);
        assert_eq!(prefix_of(value.clone(), 32, 24), BigUint::from(0xc633_6400u32));
        assert_eq!(prefix_of(value.clone(), 32, 0), BigUint::zero());
        assert_eq!(prefix_of(value.clone(), 32, 32), value);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*", width in 1u32..200) {
            let _ = parse_value(&text, width);
        }

        #[test]
        fn decimal_and_hex_agree(v: u128) {
            prop_assert_eq!(value(&v.to_string(), 128), Ok(v));
            prop_assert_eq!(value(&format!("{v:#x}"), 128), Ok(v));
        }
    }
}
