//! Places in source text.

use std::collections::HashMap;

/// A source file of one compilation: an index into [`SourceMap::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Consecutive bytes in one file. Tokens from a macro have the span of the macro's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub lo: u32,
    /// One past the last byte.
    pub hi: u32,
}

impl Span {
    /// No place: the program is not at fault.
    pub const NOWHERE: Span = Span { file: FileId(u32::MAX), lo: 0, hi: 0 };
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its path as the user or the `#include` named it; `<core.p4>` style names for built-in files.
    pub name: String,
    /// Its text.
    pub text: String,
    /// True if it is one of the standard includes that come with p4jet.
    pub builtin: bool,
    /// True if it is in a folder that `-I` names, or a file from there includes it: a library, of which a program need
    /// not use everything.
    pub library: bool,
    /// The first `#include` that opened it.
    pub included_from: Option<Span>,
}

/// All files of one compilation.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    /// Files in the order of first reading; the user's program is the first.
    pub files: Vec<SourceFile>,
    /// For each use of a macro in a file, the name in its `#define`.
    pub macros: HashMap<Span, Span>,
}

impl SourceMap {
    /// Returns the 1-based line and column (in characters) of the first byte of `span`.
    pub fn line_column(&self, span: Span) -> (u32, u32) {
        let text = &self.files[span.file.0 as usize].text;
        let lo = (span.lo as usize).min(text.len());
        let before = &text.as_bytes()[..lo];
        let line = before.iter().filter(|&&b| b == b'\n').count() as u32 + 1;
        let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |p| p + 1);
        // The number of characters is the number of bytes that are not continuation bytes.
        let column = before[start..].iter().filter(|&&b| b & 0xc0 != 0x80).count() as u32 + 1;
        (line, column)
    }

    /// Returns the name of the file that contains `span`.
    pub fn file_name(&self, span: Span) -> &str {
        &self.files[span.file.0 as usize].name
    }
}
