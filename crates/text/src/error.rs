//! Errors in lines of text, and their presentation.

use p4jet_control::names::UnknownName;
use p4jet_control::{ControlError, ErrorKind, Subject};
use std::fmt;
use std::ops::Range;

/// The refusal of a runtime command, in the words of bmv2's CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// What was found, what was expected and which choices exist, in one line.
    pub message: String,
    /// A stable code ([`ControlError::code`]).
    pub code: Box<str>,
    /// The object that refused ([`ControlError::entity`]).
    pub entity: Option<Box<str>>,
    /// The part of the change that is wrong ([`ControlError::field`]).
    pub field: Option<Box<str>>,
    /// The valid choices, if the list is short.
    pub choices: Box<[String]>,
    /// The bytes of the line to which the message refers.
    pub span: Option<Range<usize>>,
}

impl LineError {
    /// An error with the code `INVALID_ARGUMENT` and exactly this message.
    pub fn new(message: impl Into<String>) -> LineError {
        let error = ControlError::new("");
        LineError { message: message.into(), ..LineError::plain(error) }
    }

    /// An error about a feature that p4jet does not support yet.
    pub(crate) fn unsupported(message: impl Into<String>) -> LineError {
        LineError::plain(ControlError::unsupported(message))
    }

    /// A switch's error, with its message unchanged.
    fn plain(error: ControlError) -> LineError {
        let ControlError { message, code, entity, field, choices, .. } = error;
        LineError { message, code, entity, field, choices, span: None }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::of(&self.code)
    }

    /// Returns the error with this code.
    pub(crate) fn code(self, code: &str) -> LineError {
        LineError { code: code.into(), ..self }
    }

    /// Adds the field, unless the error names one.
    pub(crate) fn field(mut self, field: impl Into<Box<str>>) -> LineError {
        self.field.get_or_insert_with(|| field.into());
        self
    }

    /// Adds the choices.
    pub(crate) fn choices<'a>(self, choices: impl Iterator<Item = &'a str>) -> LineError {
        let choices = ControlError::new("").choices(choices).choices;
        LineError { choices, ..self }
    }

    /// Adds the bytes of the line, unless the error names some.
    pub(crate) fn at(mut self, span: Range<usize>) -> LineError {
        self.span.get_or_insert(span);
        self
    }

    /// Adds the changes that could not be undone.
    pub(crate) fn and_not_undone(self, undone: Result<(), ControlError>) -> LineError {
        let Err(also) = undone else { return self };
        LineError { message: format!("{}; undoing failed: {also}", self.message), ..self }
    }

    /// The message without the word with which bmv2's CLI begins it.
    pub(crate) fn why(&self) -> &str {
        self.message.strip_prefix(ERROR).unwrap_or(&self.message)
    }
}

/// The word with which bmv2's CLI begins messages about requests that it refuses itself.
const ERROR: &str = "Error: ";

impl From<ControlError> for LineError {
    /// Adds the words of bmv2's CLI.
    fn from(error: ControlError) -> LineError {
        let operation = match error.subject {
            Subject::Check => None,
            Subject::Table => Some("table"),
            Subject::Counter => Some("counter"),
            Subject::Meter => Some("meter"),
            Subject::Register => Some("register"),
            Subject::ValueSet => Some("parser value set"),
            Subject::Multicast => Some("PRE"),
            Subject::CloneSessions => Some("mirroring"),
            Subject::Ports => Some("device manager"),
            Subject::Program => Some("swap"),
        };
        let why = match &*error.code {
            "ONGOING_SWAP" => {
                "a program is already prepared: activate it with swap_configs, or replace it with load"
            }
            "NO_ONGOING_SWAP" => "no program is prepared: run load_new_config_file first",
            _ => &error.message,
        };
        let message = match operation {
            Some(operation) => {
                // bmv2 has one code for each of these.
                let code = match error.subject {
                    Subject::Ports | Subject::ValueSet => "ERROR",
                    _ => &error.code,
                };
                format!("Invalid {operation} operation ({code}): {why}")
            }
            // These say already which feature is missing, or what the compiler found.
            None if AS_THEY_ARE.contains(&&*error.code) => why.to_string(),
            None => format!("{ERROR}{why}"),
        };
        LineError { message, ..LineError::plain(error) }
    }
}

impl From<UnknownName> for LineError {
    /// Uses the words of bmv2's CLI.
    fn from(error: UnknownName) -> LineError {
        let ambiguous = if error.is_ambiguous { "it is ambiguous, " } else { "" };
        let message = invalid_name(error.kind, &error.name, &format!("{ambiguous}{}", error.hint));
        LineError { message, ..LineError::plain(error.into()) }
    }
}

/// The words of bmv2's CLI about a name.
pub(crate) fn invalid_name(kind: &str, name: &str, why: &str) -> String {
    format!("Invalid {kind} name ({name}): {why}")
}

/// The words of bmv2's CLI about a field of a key, with its fault.
pub(crate) fn invalid_key(field: impl fmt::Display) -> String {
    format!("Invalid match key: field {field}")
}

/// The words of bmv2's CLI about a parameter of an action, with its fault.
pub(crate) fn invalid_data(parameter: impl fmt::Display) -> String {
    format!("Invalid runtime data: parameter {parameter}")
}

impl From<LineError> for ControlError {
    fn from(error: LineError) -> ControlError {
        let LineError { message, code, entity, field, choices, .. } = error;
        ControlError { code, entity, field, choices, ..ControlError::new(message) }
    }
}

/// The codes of errors whose message needs no more words.
const AS_THEY_ARE: [&str; 2] = ["UNSUPPORTED", "PROGRAM_REFUSED"];

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LineError {}

/// The refusal of a file of commands. Nothing of the file is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The file as named by the caller.
    pub file: String,
    /// 1-based.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// The fault.
    pub error: Box<LineError>,
}

impl LoadError {
    pub(crate) fn new(name: &str, text: &str, line: usize, error: LineError) -> LoadError {
        LoadError {
            file: name.to_string(),
            line,
            text: text.lines().nth(line.saturating_sub(1)).unwrap_or("").to_string(),
            error: Box::new(error),
        }
    }

    /// The message with the source line and a caret under the fault.
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
    // A tab in the line is repeated before the caret, so that the two stay aligned.
    let mut out = format!("error: {message}\n{gutter}--> {place}\n{gutter} |\n{line} | {text}\n");
    if let (Some(span), Some(start)) = (span, start) {
        let blank: String =
            text.chars().take(start - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let marks = text.get(span).map_or(1, |s| s.chars().count()).max(1);
        out += &format!("{gutter} | {blank}{}\n", "^".repeat(marks));
    }
    out
}
