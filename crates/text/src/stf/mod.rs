//! Packet tests in STF, the format of p4c's test suite: [`parse`] reads a script, [`run`] carries it out.

mod cursor;
mod decode;
mod key;
mod mismatch;
mod parse;
mod replay;
mod report;
mod run;

pub use parse::parse;
pub use replay::Fresh;
pub use report::{Failure, StfOutcome};
pub use run::{Device, configures_queues, run, run_traced};

use crate::error::{column, excerpt};
use std::fmt;
use std::ops::Range;

/// One line of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// 1-based.
    pub line: usize,
    /// The line as it is written.
    pub text: String,
    /// What it says.
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
        /// Stands for the entry's handle from here on.
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
        /// Where it arrives.
        port: u32,
        /// Where the line says so, 1-based.
        column: usize,
        /// The frame.
        data: Vec<u8>,
    },
    /// `expect port [pattern]`
    Expect {
        /// Where it leaves.
        port: u32,
        /// Where the line says so, 1-based.
        column: usize,
        /// What it looks like; `None` for anything.
        pattern: Option<Pattern>,
    },
    /// `no_packet`: so far no more packets left, by any port, than were expected.
    NoPacket,
    /// `wait`: what is in output queues leaves. Else there is nothing to do, since every packet is carried through at once.
    Wait,
    /// `check_counter counter(index) [packets|bytes cond number]`
    CheckCounter {
        /// The counter.
        counter: Name,
        /// Which of its cells.
        index: CounterIndex,
        /// What must hold; `None` only asks that the cell exists.
        check: Option<CounterCheck>,
    },
    /// `check_register register(index) cond number`, an extension.
    CheckRegister {
        /// The register.
        register: Name,
        /// Which of its cells.
        index: u32,
        /// The comparison.
        cond: Cond,
        /// What the cell is compared with.
        value: Number,
    },
    /// A runtime command, in its own words. STF has those for multicast, clone sessions, counters, registers and meters;
    /// the others are an extension. One that reads prints and checks nothing.
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
    /// What it must be.
    pub value: MatchValue,
}

/// What a key field must be.
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
    /// Arguments by name; without a name by place (an extension).
    pub args: Vec<(Option<Name>, Number)>,
}

/// A number as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its base: 2, 10 or 16.
    pub radix: u32,
    /// Its digits, with stars for those that do not matter (base 2 and 16 only).
    pub digits: String,
    /// 1-based.
    pub column: usize,
}

/// A cell of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterIndex {
    /// By number; for a direct counter the entry's handle.
    Number(u32),
    /// The entry that `add … = label` made.
    Label(String),
}

/// What must hold for a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterCheck {
    /// Whether bytes are meant instead of packets.
    pub bytes: bool,
    /// The comparison.
    pub cond: Cond,
    /// What it is compared with.
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

    /// Whether it holds between two values.
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

/// What an expected packet looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Half bytes; `None` for any.
    pub nibbles: Vec<Option<u8>>,
    /// Whether nothing may follow.
    pub exact: bool,
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StfError {
    /// 1-based.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// The bytes of the line that are wrong.
    pub span: Range<usize>,
    /// What was found and expected.
    pub message: String,
}

impl StfError {
    /// 1-based.
    pub fn column(&self) -> usize {
        column(&self.text, self.span.start)
    }

    /// The message with the source line and a caret under the culprit.
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
