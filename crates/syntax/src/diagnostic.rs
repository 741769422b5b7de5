//! Errors and warnings with spans.

use crate::span::Span;

/// How bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The program is wrong, or needs a feature that is missing.
    Error,
    /// The program is legal but doubtful.
    Warning,
}

/// One error or warning.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// Stable short name of the kind, lower-case with dashes: `unknown-name`, `type-mismatch`, `not-supported`, …
    pub code: &'static str,
    /// What was found, and what was expected.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Text beside the caret; may be empty.
    pub label: String,
    /// Other places involved: "declared here".
    pub related: Vec<(Span, String)>,
    /// Valid choices, what to do.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            span,
            label: String::new(),
            related: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// A warning at `span`.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    /// The program is legal P4_16 but p4jet cannot do `what` yet. The message reads "not supported yet: WHAT".
    pub fn unsupported(span: Span, what: impl std::fmt::Display) -> Self {
        Self::error("not-supported", span, format!("not supported yet: {what}"))
    }

    /// Adds text beside the caret.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    /// Adds another place.
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push((span, text.into()));
        self
    }

    /// Adds a note: valid choices, what to do.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}
