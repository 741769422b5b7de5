//! Errors in lines of text, and their presentation.

use p4jet_control::CommandError;
use std::fmt;
use std::ops::Range;

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
    pub error: Box<CommandError>,
}

impl LoadError {
    pub(crate) fn new(name: &str, text: &str, line: usize, error: CommandError) -> LoadError {
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
