//! The statements of a script.

use crate::error::{column, excerpt};
use std::fmt;
use std::ops::Range;

/// One line of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// 1-based.
    pub line: usize,
    /// The line as written.
    pub text: String,
    /// Its statement.
    pub kind: StatementKind,
}

/// A name as written, without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// 1-based.
    pub column: usize,
}

/// The kinds of statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `add table [priority] key:value… action(args) [= label]`
    Add {
        /// The table.
        table: Name,
        /// The larger number wins.
        priority: Option<u32>,
        /// Key fields; those left out match anything (exact ones: 0).
        matches: Vec<Match>,
        /// The action.
        call: Call,
        /// Denotes the entry's handle in later lines.
        label: Option<String>,
    },
    /// `setdefault table action(args)`
    SetDefault {
        /// The table.
        table: Name,
        /// The action.
        call: Call,
    },
    /// `remove all`: removes the entries of every table, except const ones.
    RemoveAll,
    /// `packet port data`
    Packet {
        /// The ingress port.
        port: u32,
        /// Its column, 1-based.
        column: usize,
        /// The frame.
        data: Vec<u8>,
    },
    /// `expect port [pattern]`
    Expect {
        /// The egress port.
        port: u32,
        /// Its column, 1-based.
        column: usize,
        /// The expected frame; `None` for any.
        pattern: Option<Pattern>,
    },
    /// `no_packet`: no packet has left so far, by any port, that no `expect` matches.
    NoPacket,
    /// `wait [us]`: empties the output queues, which has no effect without queues, because every packet is processed at once; or
    /// advances the clock, an extension.
    Wait {
        /// By how many microseconds the clock advances; `None`: until the output queues are empty.
        us: Option<u32>,
    },
    /// `check_counter counter(index) [packets|bytes cond number]`
    CheckCounter {
        /// The counter.
        counter: Name,
        /// The index of the cell.
        index: CounterIndex,
        /// The condition; `None` only requires that the cell exists.
        check: Option<CounterCheck>,
    },
    /// `check_register register(index) cond number`, an extension.
    CheckRegister {
        /// The register.
        register: Name,
        /// The index of the cell.
        index: u32,
        /// The comparison.
        cond: Cond,
        /// The number with which the cell is compared.
        value: Number,
    },
    /// A runtime command as written. STF has those for multicast, clone sessions, counters, registers and meters;
    /// the others are an extension. A reading command prints and checks nothing.
    Command {
        /// The keyword and the arguments, without quotes.
        words: Vec<Name>,
    },
}

/// One key field of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The key field.
    pub field: Name,
    /// Its match.
    pub value: MatchValue,
}

/// The match of a key field.
#[derive(Clone, Debug, PartialEq)]
pub enum MatchValue {
    /// A number, with stars for digits that do not matter.
    Value(Number),
    /// `value/length`
    Prefix(Number, u32),
    /// `value&&&mask`, an extension.
    Masked(Number, Number),
    /// `low->high`, an extension.
    Range(Number, Number),
}

/// An action with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The action.
    pub action: Name,
    /// Arguments by name, or without names by position (an extension).
    pub args: Vec<(Option<Name>, Number)>,
}

/// A number as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its base: 2, 10 or 16.
    pub radix: u32,
    /// Its digits, with stars for those that are free (base 2 and 16 only).
    pub digits: String,
    /// 1-based.
    pub column: usize,
}

/// A cell of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterIndex {
    /// By index; for a direct counter by the entry's handle.
    Number(u32),
    /// The entry of `add … = label`.
    Label(String),
}

/// A condition on a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterCheck {
    /// True for bytes, false for packets.
    pub bytes: bool,
    /// The comparison.
    pub cond: Cond,
    /// The number with which it is compared.
    pub value: u128,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cond {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Cond {
    /// As written.
    pub fn text(self) -> &'static str {
        match self {
            Cond::Eq => "==",
            Cond::Ne => "!=",
            Cond::Lt => "<",
            Cond::Le => "<=",
            Cond::Gt => ">",
            Cond::Ge => ">=",
        }
    }

    /// True if the comparison holds between two values.
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            Cond::Eq => a == b,
            Cond::Ne => a != b,
            Cond::Lt => a < b,
            Cond::Le => a <= b,
            Cond::Gt => a > b,
            Cond::Ge => a >= b,
        }
    }
}

/// The pattern of an expected packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Half bytes; `None` for any.
    pub nibbles: Vec<Option<u8>>,
    /// True if the frame must end here.
    pub exact: bool,
}

/// An error in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StfError {
    /// 1-based.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// The wrong bytes of the line.
    pub span: Range<usize>,
    /// What was found and what was expected.
    pub message: String,
}

impl StfError {
    /// 1-based.
    pub fn column(&self) -> usize {
        column(&self.text, self.span.start)
    }

    /// The message with the source line and a caret under the fault.
    pub fn render(&self, file: &str) -> String {
        excerpt(&self.message, file, self.line, &self.text, Some(self.span.clone()))
    }
}

impl fmt::Display for StfError {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column(), self.message)
    }
}

impl std::error::Error for StfError {}
