//! Diagnostics as text for people.

use crate::diagnostic::{Diagnostic, Severity};
use crate::span::{SourceMap, Span};
use annotate_snippets::{Annotation, AnnotationKind, Element, Level, Origin, Renderer, Snippet};
use std::ops::Range;

/// Maximum number of diagnostics whose text is shown; the others are counted.
const SHOWN_MAX: usize = 500;

/// Maximum number of bytes between the places of a diagnostic that are shown together.
const SHOWN_BYTES_MAX: usize = 1 << 16;

/// Maximum number of bytes of a line that is shown completely, because lines may be as long as files. For longer lines, the
/// text around each place is shown.
const LINE_BYTES_MAX: usize = 240;

/// Number of bytes shown on each side of a place in a line that is too long.
const SHOWN_AROUND: usize = 60;

/// Renders diagnostics: the message, file, line and column, the source line with a caret, related places and notes; and finally
/// the number of errors and warnings. Without diagnostics the text is empty.
pub fn render(diagnostics: &[Diagnostic], sources: &SourceMap, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for diagnostic in &diagnostics[..diagnostics.len().min(SHOWN_MAX)] {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Info => Level::INFO,
        };
        let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code);
        let mut group = title.elements(places(diagnostic, sources));
        let chain = include_chain(diagnostic.span, sources);
        for note in diagnostic.notes.iter().chain(&chain) {
            group = group.element(Level::NOTE.no_name().message(note.as_str()));
        }
        text += &without_bare_marks(&renderer.render(&[group]));
        text += "\n\n";
    }
    if let Some(more) = diagnostics.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        text += &format!("{more} more are not shown\n\n");
    }
    text += &summary(diagnostics);
    text
}

/// Removes lines that contain only `:::`, the mark of another file. The renderer puts one above each piece of a long line,
/// although the line before names the file.
fn without_bare_marks(text: &str) -> String {
    let is_bare = |line: &&str| {
        // Colours are `ESC [ … m`.
        let plain = line.split('\u{1b}').enumerate().map(|(i, piece)| match i {
            0 => piece,
            _ => piece.split_once('m').map_or(piece, |(_, after)| after),
        });
        plain.collect::<String>().trim() == ":::"
    };
    text.split_inclusive('\n').filter(|line| !is_bare(line)).collect()
}

/// "2 errors, 1 warning"
fn summary(diagnostics: &[Diagnostic]) -> String {
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let counted = [
        (count(Severity::Error), "error"),
        (count(Severity::Warning), "warning"),
        (count(Severity::Info), "remark"),
    ];
    let parts: Vec<String> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    if parts.is_empty() { String::new() } else { format!("{}\n", parts.join(", ")) }
}

/// Returns where the file of a diagnostic was included, where the including file was, and so on up to the program.
fn include_chain(span: Span, sources: &SourceMap) -> Vec<String> {
    let mut chain: Vec<String> = Vec::new();
    let mut file = sources.files.get(span.file.0 as usize);
    while let Some(from) = file.and_then(|file| file.included_from)
        && chain.len() < sources.files.len()
    {
        let line = sources.line_column(from).0;
        chain.push(format!("included from {}:{line}", sources.file_name(from)));
        file = sources.files.get(from.file.0 as usize);
    }
    chain
}

/// Returns the places of a diagnostic, the main one first, those in one file together.
fn places<'a>(diagnostic: &'a Diagnostic, sources: &'a SourceMap) -> Vec<Element<'a>> {
    let main = (diagnostic.span, diagnostic.label.as_str(), AnnotationKind::Primary);
    let related =
        diagnostic.related.iter().map(|(span, label)| (*span, label.as_str(), AnnotationKind::Context));
    // A token from a macro has the place of the macro's use, where the error is not visible.
    let definition = macro_at(diagnostic.span, sources);
    let definition = definition.filter(|name| diagnostic.related.iter().all(|(span, _)| span != name));
    let definition = definition.map(|name| (name, "the macro is defined here", AnnotationKind::Context));
    let mut rest: Vec<_> = std::iter::once(main).chain(related).chain(definition).collect();
    let mut elements = Vec::new();
    while let Some(&(first, ..)) = rest.first() {
        let (here, other) = rest.into_iter().partition(|(span, ..)| span.file == first.file);
        rest = other;
        elements.extend(snippets(here, sources));
    }
    elements
}

/// Returns the name in the definition of the macro whose use is at a place, or ends there.
fn macro_at(span: Span, sources: &SourceMap) -> Option<Span> {
    if span.lo < span.hi {
        return sources.macros.get(&span).copied();
    }
    let ends_here = |(used, _): &(&Span, &Span)| used.file == span.file && used.hi == span.lo;
    sources.macros.iter().find(ends_here).map(|(_, name)| *name)
}

type Place<'a> = (Span, &'a str, AnnotationKind);

/// Returns the lines of one file from the first to the last place in it; if that is too much text, those of each place, and of
/// long lines only the text around the place.
fn snippets<'a>(places: Vec<Place<'a>>, sources: &'a SourceMap) -> Vec<Element<'a>> {
    let together = snippet(&places, sources);
    if together.is_some() {
        return together.into_iter().collect();
    }
    let alone = |place: &Place<'a>| {
        let one = snippet(std::slice::from_ref(place), sources);
        one.map_or_else(|| cut(*place, sources), |snippet| vec![snippet])
    };
    places.iter().flat_map(alone).collect()
}

/// Returns a place in a line that is too long.
fn cut<'a>((span, label, kind): Place<'a>, sources: &'a SourceMap) -> Vec<Element<'a>> {
    let Some(file) = sources.files.get(span.file.0 as usize) else { return Vec::new() };
    let text = file.text.as_str();
    let range = first_line(span, text);
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let end = boundary(range.end.min(range.start + SHOWN_AROUND)).max(range.start);
    let lo = boundary(range.start.saturating_sub(SHOWN_AROUND));
    let lo = text[lo..range.start].rfind('\n').map_or(lo, |at| lo + at + 1);
    let hi = boundary((end + SHOWN_AROUND).min(text.len()));
    let hi = text[end..hi].find('\n').map_or(hi, |at| end + at);
    let (line, column) = sources.line_column(span);
    let more = |is: bool| if is { "…" } else { "" };
    let (before, after) = (more(!at_line_start(text, lo)), more(!at_line_end(text, hi)));
    let shift = |at: usize| at - lo + before.len();
    let annotation: Annotation<'a> = kind.span(shift(range.start)..shift(end));
    let annotation = if label.is_empty() { annotation } else { annotation.label(label) };
    let origin = Origin::path(file.name.as_str()).line(line as usize).char_column(column as usize);
    let piece = format!("{before}{}{after}", &text[lo..hi]);
    let snippet = Snippet::source(piece).line_start(line as usize).annotation(annotation);
    vec![origin.into(), snippet.into()]
}

fn at_line_start(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_none_or(|before| before == '\n')
}

fn at_line_end(text: &str, at: usize) -> bool {
    text[at..].chars().next().is_none_or(|after| after == '\n')
}

/// Returns the lines of one file from the first to the last place in it, unless that is too much text.
fn snippet<'a>(places: &[Place<'a>], sources: &'a SourceMap) -> Option<Element<'a>> {
    let file = sources.files.get(places.first()?.0.file.0 as usize)?;
    let text = file.text.as_str();
    let ranges: Vec<Range<usize>> = places.iter().map(|(span, ..)| first_line(*span, text)).collect();
    let lo = ranges.iter().map(|r| r.start).min()?;
    let hi = ranges.iter().map(|r| r.end).max()?;
    let lo = text[..lo].rfind('\n').map_or(0, |at| at + 1);
    let hi = text[hi..].find('\n').map_or(text.len(), |at| hi + at);
    if hi - lo > SHOWN_BYTES_MAX || text[lo..hi].lines().any(|line| line.len() > LINE_BYTES_MAX) {
        return None;
    }
    let line = text[..lo].bytes().filter(|&b| b == b'\n').count() + 1;
    let annotations = places.iter().zip(ranges).map(|(&(_, label, kind), range)| {
        let annotation: Annotation = kind.span(range.start - lo..range.end - lo);
        if label.is_empty() { annotation } else { annotation.label(label) }
    });
    let snippet =
        Snippet::source(&text[lo..hi]).line_start(line).path(file.name.as_str()).annotations(annotations);
    Some(snippet.into())
}

/// Returns the part of a span on its first line: only the start of a declaration is of interest.
fn first_line(span: Span, text: &str) -> Range<usize> {
    let mut lo = (span.lo as usize).min(text.len());
    while !text.is_char_boundary(lo) {
        lo -= 1;
    }
    let mut hi = (span.hi as usize).clamp(lo, text.len());
    while !text.is_char_boundary(hi) {
        hi += 1;
    }
    let end = text[lo..hi].find('\n').map_or(hi, |at| lo + at);
    lo..end
}
