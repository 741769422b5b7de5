//! The six constructs of P4 programs, and how many of each a path executes.

use crate::error::Invalid;
use std::fmt;

/// A construct of P4 programs whose cost a profile knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Construct {
    /// A parsed header.
    Parse,
    /// A modified header, whatever the number of its modified fields.
    Modify,
    /// A header assigned to another one.
    Copy,
    /// A removed header.
    Remove,
    /// An added header.
    Add,
    /// An applied table.
    Table,
}

impl Construct {
    /// All constructs, in the order of x(NF).
    pub const ALL: [Construct; 6] = [
        Construct::Parse,
        Construct::Modify,
        Construct::Copy,
        Construct::Remove,
        Construct::Add,
        Construct::Table,
    ];

    /// The name in profile files.
    pub fn name(self) -> &'static str {
        ["parse", "modify", "copy", "remove", "add", "table"][self as usize]
    }

    /// The construct of this name.
    pub fn by_name(name: &str) -> Option<Construct> {
        Construct::ALL.into_iter().find(|construct| construct.name() == name)
    }

    /// Whether the base delay contains one of it.
    fn is_in_base(self) -> bool {
        matches!(self, Construct::Parse | Construct::Table)
    }
}

impl fmt::Display for Construct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Maximum count of a construct.
pub const COUNT_MAX: i32 = 100_000;

/// x(NF): the constructs of one path, without the parsed header and the table that the base delay contains.
///
/// `[parsed − 1, modified, copied, removed, added, tables − 1]`. The first and the last one are −1 on a path without
/// parsed headers or tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts([i32; 6]);

impl Counts {
    /// Checks the range of each count.
    pub fn new(counts: [i32; 6]) -> Result<Counts, Invalid> {
        for construct in Construct::ALL {
            let found = counts[construct as usize];
            let min = if construct.is_in_base() { -1 } else { 0 };
            if !(min..=COUNT_MAX).contains(&found) {
                let expected = format!("a count from {min} to {COUNT_MAX}");
                return Err(Invalid::new(format!("constructs `{construct}`"), found, expected));
            }
        }
        Ok(Counts(counts))
    }

    /// Reads six numbers separated by commas, such as `10,0,3,4,0,1`.
    pub fn parse(text: &str) -> Result<Counts, Invalid> {
        const EXPECTED: &str = "six integers separated by commas: parsed headers - 1, modified, copied, removed and added \
                                headers, tables - 1";
        let invalid = || Invalid::new("counts", format!("`{text}`"), EXPECTED);
        let counts: Result<Vec<i32>, _> = text.split(',').map(|count| count.trim().parse()).collect();
        Counts::new(counts.ok().and_then(|counts| counts.try_into().ok()).ok_or_else(invalid)?)
    }

    /// The count of a construct.
    pub fn of(self, construct: Construct) -> i32 {
        self.0[construct as usize]
    }

    /// All counts, in the order of [`Construct::ALL`].
    pub fn all(self) -> [i32; 6] {
        self.0
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.0.iter().map(i32::to_string).collect();
        f.write_str(&counts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_text() {
        let decap = Counts::parse("10, 0,3,4,0,1").unwrap();
        assert_eq!(decap.of(Construct::Remove), 4);
        assert_eq!(decap.to_string(), "10,0,3,4,0,1");
        assert_eq!(Counts::parse("-1,0,0,0,0,-1").unwrap().all(), [-1, 0, 0, 0, 0, -1]);
        for wrong in ["1,2,3", "1,2,3,4,5,6,7", "", "1,2,3,4,5,x", "1,2,3,4,5,1.5"] {
            let error = Counts::parse(wrong).unwrap_err().to_string();
            assert!(error.starts_with(&format!("counts: found `{wrong}`, expected six integers")), "{error}");
        }
        let error = Counts::parse("0,-1,0,0,0,0").unwrap_err().to_string();
        assert_eq!(error, "constructs `modify`: found -1, expected a count from 0 to 100000");
        let error = Counts::parse("-2,0,0,0,0,0").unwrap_err().to_string();
        assert_eq!(error, "constructs `parse`: found -2, expected a count from -1 to 100000");
    }
}
