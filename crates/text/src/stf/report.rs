//! The outcome of a script.

use super::script::Pattern;
use p4jet_control::count;

/// The outcome of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StfOutcome {
    /// All failures, in the order of the lines.
    pub failures: Vec<Failure>,
    /// The output of reading statements.
    pub output: String,
    /// Number of packets sent in.
    pub packets: usize,
    /// Number of statements with an expectation: `expect`, `no_packet`, checks. A script without any proves little.
    pub checks: usize,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The line of the script, 1-based; 0 if there is none.
    pub line: usize,
    /// The failure in one line.
    pub message: String,
    /// Details: expected and actual packet, and the packet's trace. May be empty.
    pub detail: String,
}

impl StfOutcome {
    /// True if nothing failed.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// `PASS name` or `FAIL name: reason`, without a line end.
    pub fn report(&self, name: &str) -> String {
        let Some(first) = self.failures.first() else {
            return format!("PASS {name}");
        };
        let more = match self.failures.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        format!("FAIL {name}: {first}{more}")
    }

    /// The rest of [`Self::report`]: the details of the first failure, and the other failures with theirs.
    pub fn details(&self) -> String {
        let Some((first, others)) = self.failures.split_first() else {
            return String::new();
        };
        others.iter().fold(first.detail.clone(), |all, f| format!("{all}{f}\n{}", f.detail))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

/// The difference between a packet and the expected one, as bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The difference in one line.
    pub message: String,
    /// The lines that show it.
    pub detail: String,
    /// True if all bytes that both packets have are equal.
    pub length_only: bool,
}

/// The difference between a packet and the expected one. `None` if there is none.
pub(super) fn compare(pattern: &Pattern, got: &[u8]) -> Option<Difference> {
    let nibble = |i: usize| if i.is_multiple_of(2) { got[i / 2] >> 4 } else { got[i / 2] & 15 };
    let differs = |i: &usize| pattern.nibbles[*i].is_some_and(|n| n != nibble(*i));
    let common = pattern.nibbles.len().min(got.len() * 2);
    let expected_bytes = pattern.nibbles.len().div_ceil(2);
    let (message, at, length_only) = if let Some(at) = (0..common).find(differs) {
        let at = at / 2;
        (format!("byte {at} is {:02x}, expected {}", got[at], digits(pattern, at)), at, false)
    } else if pattern.nibbles.len() > common {
        (format!("{}, expected at least {expected_bytes}", count(got.len(), "byte")), got.len(), true)
    } else if pattern.exact && got.len() * 2 > pattern.nibbles.len() {
        (format!("{}, expected {expected_bytes}", count(got.len(), "byte")), expected_bytes, true)
    } else {
        return None;
    };
    Some(Difference { message, detail: show(pattern, got, at), length_only })
}

/// The two hex digits of a byte in the notation of scripts.
fn digits(pattern: &Pattern, byte: usize) -> String {
    let digit = |n: &Option<u8>| n.map_or('*', |n| char::from_digit(u32::from(n), 16).unwrap_or('?'));
    pattern.nibbles[byte * 2..].iter().take(2).map(digit).collect()
}

/// Maximum number of bytes shown of each of two packets; more would not fit on a line.
const SHOWN_MAX: usize = 64;

/// The expected and the actual bytes, one above the other, with a mark under byte `at`.
fn show(pattern: &Pattern, got: &[u8], at: usize) -> String {
    let expected_bytes = pattern.nibbles.len().div_ceil(2);
    let all = expected_bytes.max(got.len());
    // Of long packets, only the part around the difference is shown.
    let start = if all <= SHOWN_MAX { 0 } else { at.saturating_sub(SHOWN_MAX / 2).min(all - SHOWN_MAX) };
    let end = all.min(start + SHOWN_MAX);
    let expected: String =
        (start.min(expected_bytes)..end.min(expected_bytes)).map(|i| digits(pattern, i)).collect();
    let end_mark = if pattern.exact && expected_bytes <= end { "$" } else { "" };
    let dots = |more: bool| if more { "..." } else { "" };
    let before = dots(start > 0);
    let blank = " ".repeat(before.len() + 2 * (at - start));
    format!(
        "  expected {before}{expected}{end_mark}{}\n  got      {before}{}{}\n           {blank}^^ byte {at}\n",
        dots(expected_bytes > end),
        hex(&got[start.min(got.len())..end.min(got.len())]),
        dots(got.len() > end),
    )
}

/// A packet without an expectation.
pub(super) fn show_frame(frame: &[u8]) -> String {
    let dots = if frame.len() > SHOWN_MAX { "..." } else { "" };
    format!("  got      {}{dots}\n", hex(&frame[..frame.len().min(SHOWN_MAX)]))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stf::{StatementKind, parse};

    fn check(pattern: &str, got: &[u8]) -> Option<(String, String)> {
        match parse(&format!("expect 1 {pattern}")).unwrap().remove(0).kind {
            StatementKind::Expect { pattern: Some(pattern), .. } => {
                compare(&pattern, got).map(|d| (d.message, d.detail))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_prefix_is_enough_without_the_end_mark() {
        assert_eq!(check("01 0*", &[1, 2, 3]), None);
        assert_eq!(check("01 **$", &[1, 2]), None);
        assert_eq!(check("010", &[1, 2]), None);
        assert_eq!(check("01 **$", &[1, 2, 3]).unwrap().0, "3 bytes, expected 2");
        assert_eq!(check("01 ** 03", &[1, 2]).unwrap().0, "2 bytes, expected at least 3");
        assert_eq!(check("01 02", &[1]).unwrap().0, "1 byte, expected at least 2");
        assert_eq!(check("$", &[1]).unwrap().0, "1 byte, expected 0");
        assert_eq!(check("$", &[]), None);
    }

    #[test]
    fn marks_the_first_difference() {
        let (message, detail) = check("0102 3* 04", &[1, 2, 0x40, 4, 5]).unwrap();
        assert_eq!(message, "byte 2 is 40, expected 3*");
        assert_eq!(detail, "  expected 01023*04\n  got      0102400405\n               ^^ byte 2\n");
    }

    #[test]
    fn shows_the_part_of_a_long_packet_that_differs() {
        let got: Vec<u8> = (0..200).collect();
        let (message, detail) = check(&(hex(&got[..199]) + "00$"), &got).unwrap();
        assert_eq!(message, "byte 199 is c7, expected 00");
        assert!(detail.lines().all(|line| line.len() < 160), "{detail}");
        assert!(detail.contains("expected ...88") && detail.contains("c600$"), "{detail}");
    }
}
