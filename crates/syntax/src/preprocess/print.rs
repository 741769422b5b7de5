//! Prints preprocessed tokens as text, as `cpp` does: no directive and no macro is left, and line markers
//! (`# 12 "router.p4"`) name the origin of what follows.

use super::{Output, Pragma};
use crate::lexer::{Interner, Kind, Token};
use crate::span::{FileId, SourceMap};
use std::fmt::Write as _;

/// A larger gap between two lines of a file becomes a line marker instead of empty lines.
const EMPTY_LINES_MAX: u32 = 8;

/// Prints the tokens and pragmas of `output`.
pub(super) fn print(output: &Output) -> String {
    let mut printer = Printer::new(&output.sources);
    let mut pragmas = output.pragmas.iter().peekable();
    for (at, token) in output.tokens.iter().enumerate() {
        while let Some(pragma) = pragmas.next_if(|pragma| pragma.at <= at) {
            printer.pragma(pragma, &output.interner);
        }
        if token.kind != Kind::Eof {
            printer.token(token, &output.interner);
        }
    }
    printer.text.push('\n');
    printer.text
}

struct Printer<'a> {
    sources: &'a SourceMap,
    /// For each file, the offset of each line's first byte.
    lines: Vec<Vec<u32>>,
    text: String,
    /// The place at which the text ends, as a reader of the line markers computes it.
    file: Option<FileId>,
    line: u32,
    /// The last token, if it is on this line: a token that would merge with it gets a space.
    last: Option<Token>,
}

impl<'a> Printer<'a> {
    fn new(sources: &'a SourceMap) -> Self {
        let starts = |text: &str| {
            let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1)).collect()
        };
        let lines = sources.files.iter().map(|file| starts(&file.text)).collect();
        Printer { sources, lines, text: String::new(), file: None, line: 0, last: None }
    }

    /// Moves to the line of a byte. Returns its column, counted from 0.
    fn go_to(&mut self, file: FileId, offset: u32) -> u32 {
        let starts = &self.lines[file.0 as usize];
        let line = starts.partition_point(|start| *start <= offset) as u32;
        let column = offset - starts[line as usize - 1];
        // The arguments of a macro may be on later lines than the tokens that follow its call in the output.
        let is_near = self.file == Some(file) && line >= self.line && line - self.line <= EMPTY_LINES_MAX;
        match is_near {
            true if line == self.line => return column,
            true => (self.line..line).for_each(|_| self.text.push('\n')),
            false => {
                if !self.text.is_empty() {
                    self.text.push('\n');
                }
                let name =
                    self.sources.files[file.0 as usize].name.replace('\\', "\\\\").replace('"', "\\\"");
                let _ = writeln!(self.text, "# {line} \"{name}\"");
            }
        }
        (self.file, self.line, self.last) = (Some(file), line, None);
        column
    }

    fn token(&mut self, token: &Token, interner: &Interner) {
        let column = self.go_to(token.span.file, token.span.lo);
        match self.last {
            None => (0..column).for_each(|_| self.text.push(' ')),
            Some(last) if token.space_before || may_merge(&last, token) => self.text.push(' '),
            Some(_) => {}
        }
        self.write(token, interner);
    }

    fn write(&mut self, token: &Token, interner: &Interner) {
        let text = token.text(interner);
        match token.kind {
            Kind::String => {
                let _ = write!(self.text, "\"{text}\"");
                self.line += text.bytes().filter(|byte| *byte == b'\n').count() as u32;
            }
            _ => self.text.push_str(text),
        }
        self.last = Some(*token);
    }

    /// A pragma gets a separate line, because it ends with its line.
    fn pragma(&mut self, pragma: &Pragma, interner: &Interner) {
        self.go_to(pragma.span.file, pragma.span.lo);
        if self.last.is_some() {
            self.text.push('\n');
        }
        let source = &self.sources.files[pragma.span.file.0 as usize].text;
        let sign = if source.as_bytes().get(pragma.span.lo as usize) == Some(&b'#') { '#' } else { '@' };
        let _ = write!(self.text, "{sign}pragma");
        for token in &pragma.tokens {
            self.text.push(' ');
            self.write(token, interner);
        }
        // The next token needs a new line, and a marker with the line's number.
        self.file = None;
    }
}

/// True if the second token, directly after the first, could be read as another one.
fn may_merge(first: &Token, second: &Token) -> bool {
    let is_word = |token: &Token| matches!(token.kind, Kind::Ident | Kind::Keyword(_) | Kind::Integer);
    let is_bracket = |token: &Token| {
        matches!(
            token.kind,
            Kind::LParen | Kind::RParen | Kind::LBracket | Kind::RBracket | Kind::Semicolon | Kind::Comma
        )
    };
    match (is_word(first), is_word(second)) {
        (true, true) => true,
        (true, false) | (false, true) => false,
        // `>>` is two tokens, and the first one knows whether they were contiguous.
        (false, false) if first.kind == Kind::Greater && second.kind == Kind::Greater => !first.joint,
        (false, false) => !is_bracket(first) && !is_bracket(second),
    }
}
