//! Why a switch refuses something.

use std::fmt;
use std::ops::Range;

/// Whether the input is wrong, or p4jet lacks the feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command, or what it asks for, is wrong.
    Wrong,
    /// A correct command that p4jet does not carry out yet.
    Unsupported,
}

/// The code of an error that has no code of its own.
pub const INVALID_ARGUMENT: &str = "INVALID_ARGUMENT";
/// The code of a change for which there is no memory.
pub(crate) const NO_MEMORY: &str = "NO_MEMORY";
/// The code of a bug of p4jet.
pub(crate) const INTERNAL: &str = "INTERNAL";
/// The code of what p4jet does not carry out yet.
const UNSUPPORTED: &str = "UNSUPPORTED";

/// Why a change, a read or a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// What was found, what was expected, which choices exist; one line.
    pub message: String,
    /// A stable code: bmv2's where bmv2 has one (`TABLE_FULL`), otherwise `INVALID_ARGUMENT`, `UNKNOWN_NAME`,
    /// `UNSUPPORTED`, `BUSY`, `NO_MEMORY`, `ABORTED` or `INTERNAL`.
    pub code: Box<str>,
    /// The object that refused, by its name in the program: `ingress.ipv4_lpm`.
    pub entity: Option<Box<str>>,
    /// The part of the change that is wrong: `table`, `action`, `priority`, `handle`, `index`, `key NAME`, `parameter NAME`.
    pub field: Option<Box<str>>,
    /// What the field may be, if that is a short list.
    pub choices: Box<[String]>,
    /// The bytes of the command line that the message is about.
    pub span: Option<Range<usize>>,
}

impl CommandError {
    /// An error with the code `INVALID_ARGUMENT`.
    pub fn new(message: impl Into<String>) -> CommandError {
        CommandError {
            message: message.into(),
            code: INVALID_ARGUMENT.into(),
            entity: None,
            field: None,
            choices: Box::default(),
            span: None,
        }
    }

    /// An error about what p4jet does not carry out.
    pub fn unsupported(message: impl Into<String>) -> CommandError {
        CommandError { code: UNSUPPORTED.into(), ..CommandError::new(message) }
    }

    /// A refusal with a code that scripts written for bmv2 look for.
    pub fn refused(kind: &str, code: &str, why: impl fmt::Display) -> CommandError {
        let message = format!("Invalid {kind} operation ({code}): {why}");
        CommandError { code: code.into(), ..CommandError::new(message) }
    }

    /// Which kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        if &*self.code == UNSUPPORTED { ErrorKind::Unsupported } else { ErrorKind::Wrong }
    }

    /// The same with this code.
    pub fn code(self, code: &str) -> CommandError {
        CommandError { code: code.into(), ..self }
    }

    /// The same about this object, unless it names one.
    pub fn entity(mut self, name: &str) -> CommandError {
        self.entity.get_or_insert_with(|| name.into());
        self
    }

    /// The same about this field, unless it names one.
    pub fn field(mut self, field: impl Into<Box<str>>) -> CommandError {
        self.field.get_or_insert_with(|| field.into());
        self
    }

    /// The same with these choices.
    pub fn choices<'a>(mut self, choices: impl Iterator<Item = &'a str>) -> CommandError {
        self.choices = choices.take(CHOICES_MAX).map(str::to_string).collect();
        self
    }

    /// The same about these bytes of a command line, unless it names some.
    pub fn at(mut self, span: Range<usize>) -> CommandError {
        self.span.get_or_insert(span);
        self
    }
}

/// Most choices that an error carries.
const CHOICES_MAX: usize = 100;

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

/// So many of something, by its word for one.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
