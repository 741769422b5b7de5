//! Diagnostics as JSON, for editors and scripts.

use crate::diagnostic::{Diagnostic, Severity};
use crate::span::{SourceMap, Span};
use serde_json::{Value, json};

/// Maximum number of diagnostics that are written, as in text.
const SHOWN_MAX: usize = 500;

/// Returns one JSON object per line for each diagnostic.
pub fn lines(diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
    let shown = &diagnostics[..diagnostics.len().min(SHOWN_MAX)];
    let mut text: String = shown.iter().map(|d| format!("{}\n", object(d, sources))).collect();
    if let Some(more) = diagnostics.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        text += &format!("{}\n", without_place(None, "info", None, &format!("{more} more are not shown")));
    }
    text
}

fn object(diagnostic: &Diagnostic, sources: &SourceMap) -> Value {
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    };
    let related = diagnostic.related.iter().map(|(span, text)| {
        let mut place = place(*span, sources);
        place["message"] = text.as_str().into();
        place
    });
    let mut object = place(diagnostic.span, sources);
    object["severity"] = severity.into();
    object["code"] = diagnostic.code.into();
    object["message"] = diagnostic.message.as_str().into();
    object["label"] = diagnostic.label.as_str().into();
    object["notes"] = diagnostic.notes.clone().into();
    object["choices"] = diagnostic.choices.clone().into();
    object["related"] = related.collect();
    object
}

/// Lines and columns count from 1; the end is the first character after the place. [`Span::NOWHERE`] gives the program's file, and null for the rest.
fn place(span: Span, sources: &SourceMap) -> Value {
    if span == Span::NOWHERE {
        let file = sources.files.first().map(|file| file.name.as_str());
        return json!({ "file": file, "line": null, "column": null, "end": null });
    }
    let (line, column) = sources.line_column(span);
    let (end_line, end_column) = sources.line_column(Span { lo: span.hi, ..span });
    json!({
        "file": sources.file_name(span),
        "line": line,
        "column": column,
        "end": { "line": end_line, "column": end_column },
    })
}

fn without_place(file: Option<&str>, severity: &str, code: Option<&str>, message: &str) -> Value {
    json!({
        "file": file, "line": null, "column": null, "end": null, "severity": severity, "code": code,
        "message": message, "label": "", "notes": [], "choices": [], "related": [],
    })
}

/// Returns a line for an error without a place in a program.
pub fn line_without_place(file: &str, code: &str, message: &str) -> String {
    format!("{}\n", without_place(Some(file), "error", Some(code), message))
}
