//! The error of a wrong input.

use std::fmt;
use std::ops::RangeInclusive;

/// An input outside its valid range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The input.
    pub what: String,
    /// Its value.
    pub found: String,
    /// The valid values.
    pub expected: String,
}

impl Invalid {
    pub(crate) fn new(what: impl ToString, found: impl ToString, expected: impl ToString) -> Invalid {
        Invalid { what: what.to_string(), found: found.to_string(), expected: expected.to_string() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {}, expected {}", self.what, self.found, self.expected)
    }
}

impl std::error::Error for Invalid {}

/// The smallest accepted number greater than 0, in any unit.
pub(crate) const SMALLEST: f64 = 1e-9;
/// The largest accepted number, in any unit.
pub(crate) const LARGEST: f64 = 1e12;
/// Numbers that must not be negative.
pub(crate) const FROM_ZERO: RangeInclusive<f64> = 0.0..=LARGEST;
/// Numbers that must be greater than 0.
pub(crate) const POSITIVE: RangeInclusive<f64> = SMALLEST..=LARGEST;
/// Numbers of either sign.
pub(crate) const SIGNED: RangeInclusive<f64> = -LARGEST..=LARGEST;
/// Shares and probabilities.
pub(crate) const SHARE: RangeInclusive<f64> = 0.0..=1.0;

/// Checks that a number is in a range, which also excludes NaN.
pub(crate) fn in_range(what: &str, found: f64, range: RangeInclusive<f64>) -> Result<f64, Invalid> {
    match range.contains(&found) {
        true => Ok(found),
        false => Err(Invalid::new(what, found, expected(&range))),
    }
}

/// Describes a range.
pub(crate) fn expected(range: &RangeInclusive<f64>) -> String {
    let short = |number: f64| match number.abs() {
        size if size == 0.0 || (1e-3..1e6).contains(&size) => number.to_string(),
        _ => format!("{number:e}"),
    };
    format!("a number from {} to {}", short(*range.start()), short(*range.end()))
}
