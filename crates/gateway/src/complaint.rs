//! Errors of a configuration, with their places.

use annotate_snippets::{Annotation, AnnotationKind, Level, Renderer, Snippet};
use std::ops::Range;

/// A mistake in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The message: found, and expected.
    pub message: String,
    /// Its byte range in the file.
    pub span: Range<usize>,
    /// Another place involved, and its role.
    pub other: Option<(Range<usize>, String)>,
    /// Valid choices and remedies.
    pub notes: Vec<String>,
}

impl Complaint {
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Complaint {
        Complaint { message: message.into(), span, other: None, notes: Vec::new() }
    }

    pub(crate) fn and(mut self, span: Range<usize>, label: impl Into<String>) -> Complaint {
        self.other = Some((span, label.into()));
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Complaint {
        self.notes.push(note.into());
        self
    }
}

impl Complaint {
    /// Formats it as one line: file, line and column, message, notes.
    pub fn line(&self, name: &str, text: &str) -> String {
        let start = first_line(&self.span, text).start;
        let line = text[..start].matches('\n').count() + 1;
        let column = text[..start].rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let notes: String = self.notes.iter().map(|note| format!("; {note}")).collect();
        format!("{name}:{line}:{column}: {}{notes}", self.message)
    }
}

/// Maximum number of complaints that are shown; the others are counted. Each requires a scan of the whole file.
pub(crate) const SHOWN_MAX: usize = 100;

/// Formats complaints about a file for users; at most the first 100.
pub fn render(complaints: &[Complaint], name: &str, text: &str, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut rendered = String::new();
    for complaint in complaints.iter().take(SHOWN_MAX) {
        let here: Annotation = AnnotationKind::Primary.span(first_line(&complaint.span, text));
        let other = complaint.other.iter().map(|(span, label)| {
            let other: Annotation = AnnotationKind::Context.span(first_line(span, text));
            other.label(label.as_str())
        });
        let snippet = Snippet::source(text).path(name).fold(true).annotation(here).annotations(other);
        let mut group = Level::ERROR.primary_title(complaint.message.as_str()).element(snippet);
        for note in &complaint.notes {
            group = group.element(Level::NOTE.no_name().message(note.as_str()));
        }
        rendered += &renderer.render(&[group]);
        rendered += "\n\n";
    }
    let count = complaints.len();
    if count > SHOWN_MAX {
        rendered += &format!("the first {SHOWN_MAX} of ");
    }
    rendered + &format!("{count} error{}\n", if count == 1 { "" } else { "s" })
}

/// Returns the part of a span on its first line.
fn first_line(span: &Range<usize>, text: &str) -> Range<usize> {
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = span.end.clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..text[start..end].find('\n').map_or(end, |at| start + at)
}
