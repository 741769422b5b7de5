//! Values of integer and string literals.

use num_bigint::BigInt;

/// An integer literal.
#[derive(Clone, Debug, PartialEq)]
pub struct IntLit {
    /// Its value (never negative).
    pub value: BigInt,
    /// `(8, false)` for `8w`, `(8, true)` for `8s`.
    pub width: Option<(u32, bool)>,
}

/// More digits than any target's width needs; reading decimal digits takes quadratic time.
const DIGITS_MAX: usize = 20_000;

/// Reads an integer literal (P4_16 "Integer literals"); the error describes what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<IntLit, String> {
    let (width, digits) = match text.find(['w', 's', 'W', 'S']) {
        Some(at) if text[..at].bytes().all(|b| b.is_ascii_digit() || b == b'_') => {
            let (width, rest) = text.split_at(at);
            if rest.starts_with(['W', 'S']) {
                return Err(format!(
                    "integer literal `{}`: the width is followed by a lowercase `w` or `s`",
                    short(text)
                ));
            }
            if width.contains('_') {
                return Err(format!("integer literal `{}`: `_` is not allowed in the width", short(text)));
            }
            let Ok(bits) = width.parse::<u32>() else {
                return Err(format!("integer literal `{}`: the width is too large", short(text)));
            };
            (Some((bits, rest.starts_with('s'))), &rest[1..])
        }
        _ => (None, text),
    };
    let (radix, name, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, "hexadecimal", &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, "octal", &digits[2..]),
        [b'0', b'd' | b'D', ..] => (10, "decimal", &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, "binary", &digits[2..]),
        _ => (10, "decimal", digits),
    };
    let plain: Vec<u8> = digits.bytes().filter(|&b| b != b'_').collect();
    if plain.len() > DIGITS_MAX {
        return Err(format!("integer literal of more than {DIGITS_MAX} digits"));
    }
    if let Some(&bad) = plain.iter().find(|&&b| !(b as char).is_digit(radix)) {
        return Err(format!(
            "integer literal `{}`: `{}` is not a valid {name} digit",
            short(text),
            bad as char
        ));
    }
    match BigInt::parse_bytes(&plain, radix) {
        Some(value) => Ok(IntLit { value, width }),
        None => Err(format!("integer literal `{}` has no digits", short(text))),
    }
}

/// Shortens a literal for messages.
fn short(text: &str) -> String {
    if text.len() <= 40 { text.to_string() } else { format!("{}…", &text[..40]) }
}

/// Returns the text of a string literal: `\"` and `\\` stand for the character after the backslash. P4_16 defines no
/// other escape sequences and leaves them to the consumer of the string, so other backslashes remain.
pub(crate) fn unescape(raw: &str) -> String {
    if !raw.contains('\\') {
        return raw.to_string();
    }
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(&next @ ('"' | '\\')) if c == '\\' => {
                out.push(next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}
