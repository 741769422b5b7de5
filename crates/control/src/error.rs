//! What goes wrong with a line from outside, and how it is shown.

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
pub(crate) const INVALID_ARGUMENT: &str = "INVALID_ARGUMENT";
/// The code of what p4jet does not carry out yet.
const UNSUPPORTED: &str = "UNSUPPORTED";

/// Why a change, a read or a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// What was found, what was expected, which choices exist; one line.
    pub message: String,
    /// A stable code: bmv2's where bmv2 has one (`TABLE_FULL`), otherwise `INVALID_ARGUMENT`, `UNKNOWN_NAME`,
    /// `UNSUPPORTED`, `NO_MEMORY`, `ABORTED` or `INTERNAL`.
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
    pub(crate) fn new(message: impl Into<String>) -> CommandError {
        CommandError {
            message: message.into(),
            code: INVALID_ARGUMENT.into(),
            entity: None,
            field: None,
            choices: Box::default(),
            span: None,
        }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> CommandError {
        CommandError { code: UNSUPPORTED.into(), ..CommandError::new(message) }
    }

    /// A refusal with a code that scripts written for bmv2 look for.
    pub(crate) fn refused(kind: &str, code: &str, why: impl fmt::Display) -> CommandError {
        let message = format!("Invalid {kind} operation ({code}): {why}");
        CommandError { code: code.into(), ..CommandError::new(message) }
    }

    /// Which kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        if &*self.code == UNSUPPORTED { ErrorKind::Unsupported } else { ErrorKind::Wrong }
    }

    pub(crate) fn code(self, code: &str) -> CommandError {
        CommandError { code: code.into(), ..self }
    }

    pub(crate) fn entity(mut self, name: &str) -> CommandError {
        self.entity.get_or_insert_with(|| name.into());
        self
    }

    pub(crate) fn field(mut self, field: impl Into<Box<str>>) -> CommandError {
        self.field.get_or_insert_with(|| field.into());
        self
    }

    pub(crate) fn choices<'a>(mut self, choices: impl Iterator<Item = &'a str>) -> CommandError {
        self.choices = choices.take(CHOICES_MAX).map(str::to_string).collect();
        self
    }

    pub(crate) fn at(mut self, span: Range<usize>) -> CommandError {
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

/// Why a file of commands was not loaded. Nothing of the file is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The file as named by the caller.
    pub file: String,
    /// 1-based.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// What is wrong with it.
    pub error: Box<CommandError>,
}

impl LoadError {
    /// The message with the source line and a caret under the culprit.
    pub fn render(&self) -> String {
        excerpt(&self.error.message, &self.file, self.line, &self.text, self.error.span.clone())
    }
}

impl fmt::Display for LoadError {
    /// One line: `FILE:LINE:COLUMN: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if let Some(span) = &self.error.span {
            write!(f, ":{}", column(&self.text, span.start))?;
        }
        write!(f, ": {}", self.error.message)
    }
}

impl std::error::Error for LoadError {}

/// The 1-based column, in characters, of a byte of a line.
pub(crate) fn column(line: &str, byte: usize) -> usize {
    line.char_indices().take_while(|(i, _)| *i < byte).count() + 1
}

/// So many of something, by its word for one.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A message in the compiler's form. Without a span the line is shown without a caret.
pub(crate) fn excerpt(
    message: &str,
    file: &str,
    line: usize,
    text: &str,
    span: Option<Range<usize>>,
) -> String {
    let gutter = " ".repeat(line.to_string().len());
    let start = span.as_ref().map(|s| column(text, s.start));
    let place = match start {
        Some(column) => format!("{file}:{line}:{column}"),
        None => format!("{file}:{line}"),
    };
    // A tab in the line stays one in front of the caret, so that the two stay aligned.
    let mut out = format!("error: {message}\n{gutter}--> {place}\n{gutter} |\n{line} | {text}\n");
    if let (Some(span), Some(start)) = (span, start) {
        let blank: String =
            text.chars().take(start - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let marks = text.get(span).map_or(1, |s| s.chars().count()).max(1);
        out += &format!("{gutter} | {blank}{}\n", "^".repeat(marks));
    }
    out
}
