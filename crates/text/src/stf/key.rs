//! The meaning of a script's numbers for a key field, as in p4c's runner for bmv2.

use super::script::{Match, MatchValue, Number};
use crate::error::invalid_name;
use num_bigint::BigUint;
use num_traits::{One, Zero};
use p4jet_control::count;
use p4jet_control::names::unknown;
use p4jet_control::value::{ones, prefix_of};
use p4jet_ir::{Key, MatchKind};
use p4jet_tables::KeyMatch;

impl Number {
    fn bits_per_digit(&self) -> u32 {
        if self.radix == 16 { 4 } else { 1 }
    }

    fn stars(&self) -> usize {
        self.digits.bytes().filter(|b| *b == b'*').count()
    }

    /// As written.
    pub(super) fn text(&self) -> String {
        let prefix = match self.radix {
            16 => "0x",
            2 => "0b",
            _ => "",
        };
        format!("{prefix}{}", self.digits)
    }

    /// The number with stars as zeros.
    fn zeroed(&self, width: u32) -> Result<BigUint, String> {
        // The parser returns no number without digits.
        let digits = self.digits.replace('*', "0");
        let value = BigUint::parse_bytes(digits.as_bytes(), self.radix).unwrap_or_default();
        if value.bits() > u64::from(width) {
            let max = ones(width);
            return Err(format!(
                "`{}` does not fit in {}: the largest value is {max:#x}",
                self.text(),
                count(width as usize, "bit")
            ));
        }
        Ok(value)
    }

    /// The number; stars are errors.
    pub(super) fn value(&self, width: u32) -> Result<BigUint, String> {
        match self.stars() {
            0 => self.zeroed(width),
            _ => Err(format!("found `{}`, expected a number without stars", self.text())),
        }
    }

    /// Ones for the digits that matter.
    ///
    /// p4c's runner does not know the width: bits before the first written digit are free, too.
    fn mask(&self, width: u32) -> BigUint {
        if self.radix == 10 {
            return ones(width);
        }
        let ones_text: String = self
            .digits
            .chars()
            .map(|c| match (c, self.radix) {
                ('*', _) => '0',
                (_, 16) => 'f',
                _ => '1',
            })
            .collect();
        BigUint::parse_bytes(ones_text.as_bytes(), self.radix).unwrap_or_default() & ones(width)
    }

    /// The prefix length of an lpm literal: the width of its digits, so `0x0a` means /8. Stars count from
    /// the end if the literal is at least as wide as the field.
    fn prefix_len(&self, width: u32) -> Result<u32, String> {
        let fixed = self.digits.trim_end_matches('*').len();
        if self.stars() != self.digits.len() - fixed {
            return Err(format!("found `{}`, expected stars only at the end for an lpm key", self.text()));
        }
        if self.radix == 10 {
            return Ok(width);
        }
        // Field widths are below 2^32, so longer literals do not occur.
        let bits =
            |digits: usize| u32::try_from(digits).unwrap_or(u32::MAX).saturating_mul(self.bits_per_digit());
        if bits(self.digits.len()) >= width {
            Ok(width.saturating_sub(bits(self.stars())))
        } else {
            Ok(bits(fixed))
        }
    }
}

/// The match of a key field that the script omits.
pub(super) fn omitted(key: &Key) -> KeyMatch {
    match key.kind {
        MatchKind::Exact => KeyMatch::Exact(BigUint::zero()),
        MatchKind::Lpm => KeyMatch::Lpm { value: BigUint::zero(), prefix_len: 0 },
        MatchKind::Ternary => KeyMatch::Ternary { value: BigUint::zero(), mask: BigUint::zero() },
        MatchKind::Range => KeyMatch::Range { lo: BigUint::zero(), hi: ones(key.width) },
        MatchKind::Optional => KeyMatch::Optional(None),
    }
}

/// The match for a value in a script.
pub(super) fn key_match(key: &Key, value: &MatchValue) -> Result<KeyMatch, String> {
    let width = key.width;
    let all = ones(width);
    let prefix = |value: BigUint, len: u32| -> Result<(BigUint, u32), String> {
        if len > width {
            let bits = count(width as usize, "bit");
            return Err(format!("the prefix length {len} is larger than the field's {bits}"));
        }
        Ok((prefix_of(value, width, len), len))
    };
    let no = |what: &str, expected: &str| {
        Err(format!("found {what}, expected {expected} for {} key", article(key.kind)))
    };
    match (key.kind, value) {
        (MatchKind::Exact, MatchValue::Value(number)) => Ok(KeyMatch::Exact(number.value(width)?)),
        (MatchKind::Exact, MatchValue::Prefix(number, len)) if *len == width => {
            Ok(KeyMatch::Exact(number.value(width)?))
        }
        (MatchKind::Exact, MatchValue::Masked(number, mask)) if mask.value(width)? == all => {
            Ok(KeyMatch::Exact(number.value(width)?))
        }
        (MatchKind::Exact, MatchValue::Prefix(..)) => no("a prefix length", "a value"),
        (MatchKind::Exact, MatchValue::Masked(..)) => no("a mask", "a value"),
        (MatchKind::Exact, MatchValue::Range(..)) => no("a range", "a value"),

        (MatchKind::Lpm, MatchValue::Value(number)) => {
            let (value, prefix_len) = prefix(number.zeroed(width)?, number.prefix_len(width)?)?;
            Ok(KeyMatch::Lpm { value, prefix_len })
        }
        (MatchKind::Lpm, MatchValue::Prefix(number, len)) => {
            let (value, prefix_len) = prefix(number.value(width)?, *len)?;
            Ok(KeyMatch::Lpm { value, prefix_len })
        }
        (MatchKind::Lpm, MatchValue::Masked(..)) => no("a mask", "`value/length` or trailing stars"),
        (MatchKind::Lpm, MatchValue::Range(..)) => no("a range", "`value/length` or trailing stars"),

        (MatchKind::Ternary, MatchValue::Value(number)) => {
            let mask = number.mask(width);
            Ok(KeyMatch::Ternary { value: number.zeroed(width)? & &mask, mask })
        }
        (MatchKind::Ternary, MatchValue::Prefix(number, len)) => {
            let (value, len) = prefix(number.value(width)?, *len)?;
            let mask = &all ^ ((BigUint::one() << (width - len)) - BigUint::one());
            Ok(KeyMatch::Ternary { value, mask })
        }
        (MatchKind::Ternary, MatchValue::Masked(number, mask)) => {
            let mask = mask.value(width)?;
            Ok(KeyMatch::Ternary { value: number.value(width)? & &mask, mask })
        }
        (MatchKind::Ternary, MatchValue::Range(..)) => no("a range", "a value with stars or `value&&&mask`"),

        (MatchKind::Range, MatchValue::Value(number)) => {
            if number.stars() == number.digits.len() {
                return Ok(omitted(key));
            }
            let value = number.value(width)?;
            Ok(KeyMatch::Range { lo: value.clone(), hi: value })
        }
        (MatchKind::Range, MatchValue::Range(lo, hi)) => {
            let (lo, hi) = (lo.value(width)?, hi.value(width)?);
            if lo > hi {
                return Err(format!("found the range {lo:#x}->{hi:#x}, whose low end is above its high end"));
            }
            Ok(KeyMatch::Range { lo, hi })
        }
        (MatchKind::Range, MatchValue::Prefix(..)) => no("a prefix length", "`low->high`"),
        (MatchKind::Range, MatchValue::Masked(..)) => no("a mask", "`low->high`"),

        (MatchKind::Optional, MatchValue::Value(number)) => {
            if number.stars() == number.digits.len() {
                return Ok(KeyMatch::Optional(None));
            }
            Ok(KeyMatch::Optional(Some(number.value(width)?)))
        }
        (MatchKind::Optional, MatchValue::Masked(number, mask)) => {
            let mask = mask.value(width)?;
            if mask.is_zero() {
                Ok(KeyMatch::Optional(None))
            } else if mask == all {
                Ok(KeyMatch::Optional(Some(number.value(width)?)))
            } else {
                no("a partial mask", "a value, or stars alone")
            }
        }
        (MatchKind::Optional, MatchValue::Prefix(..)) => no("a prefix length", "a value, or stars alone"),
        (MatchKind::Optional, MatchValue::Range(..)) => no("a range", "a value, or stars alone"),
    }
}

fn article(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "an exact",
        MatchKind::Lpm => "an lpm",
        MatchKind::Ternary => "a ternary",
        MatchKind::Range => "a range",
        MatchKind::Optional => "an optional",
    }
}

/// The key field for a name in a script: first an exact match, then with `$` or `.$valid$` appended, `x.valid` for `x.$valid$`,
/// and last the final field whose name ends with it. `stack$0.f` means `stack[0].f`.
pub(super) fn find_key(keys: &[Key], field: &Match) -> Result<usize, String> {
    let name = unfold_index(&field.field.text);
    let position = |wanted: &str| keys.iter().position(|k| k.name == wanted);
    let valid = name.strip_suffix(".valid").map(|header| format!("{header}.$valid$"));
    let ends = |k: &Key, end: &str| {
        let rest = k.name.strip_suffix(end);
        rest.is_some_and(|rest| rest.ends_with('.') || rest.ends_with('$'))
    };
    let last = |end: &str| keys.iter().rposition(|k| ends(k, end));
    position(&name)
        .or_else(|| position(&format!("{name}$")))
        .or_else(|| position(&format!("{name}.$valid$")))
        .or_else(|| valid.as_deref().and_then(position))
        .or_else(|| keys.iter().rposition(|k| ends(k, &name) || ends(k, &format!("{name}$"))))
        // The same forms for a key whose name begins with the name of the headers' parameter.
        .or_else(|| last(&format!("{name}.$valid$")))
        .or_else(|| valid.as_deref().and_then(last))
        // `valid` alone is the last validity key.
        .or_else(|| if name == "valid" { last("$valid$").or_else(|| position("$valid$")) } else { None })
        .ok_or_else(|| {
            let choices = unknown(&name, keys.iter().map(|k| k.name.as_str()), "key fields of the table are");
            invalid_name("key field", &field.field.text, &choices)
        })
}

/// `extra[0].h` for `extra$0.h`.
fn unfold_index(name: &str) -> String {
    for (at, _) in name.rmatch_indices('$') {
        let rest = &name[at + 1..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if digits > 0 {
            return format!("{}[{}]{}", &name[..at], &rest[..digits], &rest[digits..]);
        }
    }
    name.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stf::{StatementKind, parse};

    fn first_match(text: &str) -> Match {
        match parse(&format!("add t 1 {text} a()")).unwrap().remove(0).kind {
            StatementKind::Add { mut matches, .. } => matches.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn check(kind: MatchKind, width: u32, text: &str) -> String {
        let key = Key { name: "k".into(), width, kind };
        match key_match(&key, &first_match(&format!("k:{text}")).value) {
            Ok(KeyMatch::Exact(v)) => format!("{v:x}"),
            Ok(KeyMatch::Lpm { value, prefix_len }) => format!("{value:x}/{prefix_len}"),
            Ok(KeyMatch::Ternary { value, mask }) => format!("{value:x}&{mask:x}"),
            Ok(KeyMatch::Range { lo, hi }) => format!("{lo:x}->{hi:x}"),
            Ok(KeyMatch::Optional(Some(v))) => format!("{v:x}"),
            Ok(KeyMatch::Optional(None)) => "any".into(),
            Err(e) => e,
        }
    }

    #[test]
    fn exact_values() {
        assert_eq!(check(MatchKind::Exact, 16, "0x0A"), "a");
        assert_eq!(check(MatchKind::Exact, 32, "10.0.0.1"), "a000001");
        assert_eq!(check(MatchKind::Exact, 48, "02:00:00:00:0a:01"), "20000000a01");
        assert!(check(MatchKind::Exact, 32, "02:00:00:00:0a:01").contains("does not fit in 32 bits"));
        assert_eq!(check(MatchKind::Exact, 16, "0x1*"), "found `0x1*`, expected a number without stars");
        assert_eq!(
            check(MatchKind::Exact, 8, "256"),
            "`256` does not fit in 8 bits: the largest value is 0xff"
        );
        assert_eq!(check(MatchKind::Exact, 8, "1->2"), "found a range, expected a value for an exact key");
    }

    #[test]
    fn lpm_counts_digits() {
        assert_eq!(check(MatchKind::Lpm, 32, "0xC63364**"), "c6336400/24");
        assert_eq!(check(MatchKind::Lpm, 32, "0xC6336407"), "c6336407/32");
        assert_eq!(check(MatchKind::Lpm, 32, "0xC6336407/24"), "c6336400/24");
        assert_eq!(check(MatchKind::Lpm, 32, "0x********"), "0/0");
        assert_eq!(check(MatchKind::Lpm, 9, "0x1**"), "100/1");
        assert_eq!(check(MatchKind::Lpm, 32, "7"), "7/32");
        assert_eq!(
            check(MatchKind::Lpm, 8, "0b10**0001"),
            "found `0b10**0001`, expected stars only at the end for an lpm key"
        );
        assert_eq!(check(MatchKind::Lpm, 8, "1/9"), "the prefix length 9 is larger than the field's 8 bits");
    }

    #[test]
    fn ternary_masks() {
        assert_eq!(check(MatchKind::Ternary, 32, "0x****0101"), "101&ffff");
        assert_eq!(
            check(MatchKind::Ternary, 16, "0x06"),
            "6&ff",
            "what p4c's runner does with a short literal"
        );
        assert_eq!(check(MatchKind::Ternary, 16, "6"), "6&ffff");
        assert_eq!(check(MatchKind::Ternary, 4, "0b1*0*"), "8&a");
        assert_eq!(check(MatchKind::Ternary, 16, "0x0806&&&0x00ff"), "6&ff");
        assert_eq!(check(MatchKind::Ternary, 16, "0x0806/8"), "800&ff00");
    }

    #[test]
    fn range_and_optional() {
        assert_eq!(check(MatchKind::Range, 16, "1024->0x7ff"), "400->7ff");
        assert_eq!(
            check(MatchKind::Range, 16, "3->2"),
            "found the range 0x3->0x2, whose low end is above its high end"
        );
        assert_eq!(check(MatchKind::Range, 16, "5"), "5->5");
        assert_eq!(check(MatchKind::Range, 16, "0x****"), "0->ffff");
        assert_eq!(check(MatchKind::Optional, 8, "0x11"), "11");
        assert_eq!(check(MatchKind::Optional, 8, "0x**"), "any");
        assert_eq!(check(MatchKind::Optional, 8, "3&&&0"), "any");
        assert_eq!(check(MatchKind::Optional, 8, "3&&&0xff"), "3");
    }

    #[test]
    fn names_of_key_fields() {
        let names = ["hdr.eth.dst", "extra[0].h", "hdr.ip.$valid$", "meta.x$", "data.$valid$", "a.f", "b.f"];
        let keys: Vec<Key> =
            names.iter().map(|n| Key { name: n.to_string(), width: 8, kind: MatchKind::Exact }).collect();
        let find = |text: &str| find_key(&keys, &first_match(&format!("{text}:1"))).map(|i| names[i]);
        assert_eq!(find("hdr.eth.dst"), Ok("hdr.eth.dst"));
        assert_eq!(find("eth.dst"), Ok("hdr.eth.dst"));
        assert_eq!(find("extra$0.h"), Ok("extra[0].h"));
        assert_eq!(find("extra[0].h"), Ok("extra[0].h"));
        assert_eq!(find("hdr.ip.valid"), Ok("hdr.ip.$valid$"));
        assert_eq!(find("ip.$valid$"), Ok("hdr.ip.$valid$"));
        assert_eq!(find("ip"), Ok("hdr.ip.$valid$"));
        assert_eq!(find("data"), Ok("data.$valid$"));
        assert_eq!(find("meta.x"), Ok("meta.x$"));
        assert_eq!(find("f"), Ok("b.f"), "the last by suffix");
        assert_eq!(find("x"), Ok("meta.x$"));
        assert_eq!(find("ip.$valid"), Ok("hdr.ip.$valid$"));
        assert_eq!(find("valid"), Ok("data.$valid$"));
        assert!(
            find("th.dst")
                .unwrap_err()
                .starts_with("Invalid key field name (th.dst): did you mean `hdr.eth.dst`?")
        );
    }
}
