//! Refusals by a switch.

use std::fmt;
use std::ops::Range;

/// The kind of a refusal: the input is wrong, or p4jet lacks the feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command or its request is wrong.
    Wrong,
    /// The command is correct, but p4jet does not support it yet.
    Unsupported,
}

/// The code of errors without a code of their own.
pub const INVALID_ARGUMENT: &str = "INVALID_ARGUMENT";
/// The code of a change that failed for lack of memory.
pub(crate) const NO_MEMORY: &str = "NO_MEMORY";
/// The code of a bug in p4jet.
pub(crate) const INTERNAL: &str = "INTERNAL";
/// The code of an unsupported request.
const UNSUPPORTED: &str = "UNSUPPORTED";

/// The refusal of a change, a read or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// What was found, what was expected and which choices exist, in one line.
    pub message: String,
    /// A stable code: bmv2's where bmv2 has one (`TABLE_FULL`), otherwise `INVALID_ARGUMENT`, `UNKNOWN_NAME`,
    /// `UNSUPPORTED`, `BUSY`, `NO_MEMORY`, `ABORTED` or `INTERNAL`.
    pub code: Box<str>,
    /// The object that refused, by its name in the program: `ingress.ipv4_lpm`.
    pub entity: Option<Box<str>>,
    /// The part of the change that is wrong: `table`, `action`, `priority`, `handle`, `index`, `key NAME`, `parameter NAME`.
    pub field: Option<Box<str>>,
    /// The valid choices, if the list is short.
    pub choices: Box<[String]>,
    /// The bytes of the command line to which the message refers.
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

    /// An error about a feature that p4jet does not support yet.
    pub fn unsupported(message: impl Into<String>) -> CommandError {
        CommandError { code: UNSUPPORTED.into(), ..CommandError::new(message) }
    }

    /// A refusal with a code that scripts written for bmv2 expect.
    pub fn refused(kind: &str, code: &str, why: impl fmt::Display) -> CommandError {
        let message = format!("Invalid {kind} operation ({code}): {why}");
        CommandError { code: code.into(), ..CommandError::new(message) }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        if &*self.code == UNSUPPORTED { ErrorKind::Unsupported } else { ErrorKind::Wrong }
    }

    /// Returns the error with this code.
    pub fn code(self, code: &str) -> CommandError {
        CommandError { code: code.into(), ..self }
    }

    /// Adds the object, unless the error names one.
    pub fn entity(mut self, name: &str) -> CommandError {
        self.entity.get_or_insert_with(|| name.into());
        self
    }

    /// Adds the field, unless the error names one.
    pub fn field(mut self, field: impl Into<Box<str>>) -> CommandError {
        self.field.get_or_insert_with(|| field.into());
        self
    }

    /// Adds the choices.
    pub fn choices<'a>(mut self, choices: impl Iterator<Item = &'a str>) -> CommandError {
        self.choices = choices.take(CHOICES_MAX).map(str::to_string).collect();
        self
    }

    /// Adds the bytes of the command line, unless the error names some.
    pub fn at(mut self, span: Range<usize>) -> CommandError {
        self.span.get_or_insert(span);
        self
    }
}

/// Maximum number of choices in an error.
const CHOICES_MAX: usize = 100;

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

/// Formats a count with its noun, given in the singular.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
