//! String literals over several lines.
//!
//! To `cpp`, a quote without another one on its line starts no literal: it takes the rest of the line as it is, and
//! preprocesses the lines that follow like any others. So p4c, which runs `cpp`, obeys directives and expands macros inside
//! P4's literals over several lines, and programs rely on it: constraints of tables differ by `#if`. The same is done here,
//! with the white space that `cpp` leaves: each line remains a line, indented as before, with one blank between tokens, and
//! lines of directives are empty.
//!
//! ```text
//! @entry_restriction("            @entry_restriction("
//!   a == WIDTH;                     a == 32;
//! #ifdef MORE                ─▶
//!   b == 1;                         b == 1;
//! #endif
//! ")                              ")
//! ```
//!
//! Not as in `cpp`: the arguments of a macro end on its line, and so do comments and literals in apostrophes; `#include` is
//! an error.

use super::Preprocessor;
use crate::diagnostic::Diagnostic;
use crate::lexer::{Kind, Lexer, Token};

/// Directives that are obeyed inside a literal. Other lines that start with `#` are text.
const OBEYED: [&str; 13] = [
    "define", "elif", "elifdef", "elifndef", "else", "endif", "error", "if", "ifdef", "ifndef", "line",
    "undef", "warning",
];

/// Directives that are refused there.
const REFUSED: [&str; 3] = ["import", "include", "include_next"];

/// Maximum length in bytes of a literal over several lines.
const STRING_BYTES_MAX: usize = 1 << 20;

/// White space inside a line.
const BLANKS: [char; 5] = [' ', '\t', '\r', '\x0b', '\x0c'];

/// The place where a literal is closed.
struct Closed {
    /// Place of the quote in the line.
    at: usize,
    /// Number of bytes after it that `cpp` leaves unchanged.
    unexpanded: usize,
}

impl Preprocessor<'_> {
    /// Returns the literal of which the lexer has read the first line, with all lines up to its closing quote.
    pub(super) fn continue_string(&mut self, first: Token) -> Token {
        let text = self.interner.text(first.symbol).to_string() + "\n";
        self.string_from(first, text, None)
    }

    /// Returns the literal that starts at the quote of `first`, on a line on which an earlier one was closed: `cpp` takes
    /// the text between the two for a literal, and the inside of this one for text outside literals.
    pub(super) fn inverted_string(&mut self, first: Token) -> Token {
        let Some(file) = self.files.last_mut() else { return first };
        file.lexer.reopen_string();
        let line = file.lexer.rest().lines().next().unwrap_or_default().to_string();
        self.string_from(first, String::new(), Some(line))
    }

    /// Reads a literal line by line; `line` is the unread rest of the current line, if any.
    fn string_from(&mut self, first: Token, mut text: String, mut line: Option<String>) -> Token {
        loop {
            if text.len() > STRING_BYTES_MAX {
                self.abort(first.span, format!("a string of more than {STRING_BYTES_MAX} bytes"));
                return first;
            }
            let Some(file) = self.files.last_mut() else { return first };
            let active = file.conditions.last().is_none_or(|c| c.active);
            let is_start = line.is_none();
            let Some(line) = line.take().or_else(|| file.lexer.start_line()) else {
                // The closing quote is in lines that a conditional skips.
                self.diagnostics.push(
                    Diagnostic::error("unterminated-string", first.span, "this string is never closed")
                        .note("a later `\"` is in lines that a directive skips"),
                );
                break;
            };
            let directive = line.trim_start().strip_prefix('#').filter(|_| is_start);
            let directive = directive.map(str::trim_start).unwrap_or_default();
            let directive = &directive
                [..directive.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()];
            if OBEYED.contains(&directive) {
                let file = self.files.last_mut().expect("the file just read");
                file.lexer.quiet = !active;
                let hash = file.lexer.next(&mut self.interner, &mut self.diagnostics);
                self.directive(hash, active);
                if self.aborted {
                    return first;
                }
                text.push('\n');
                continue;
            }
            if !active {
                self.skip_text_line();
                text.push('\n');
                continue;
            }
            if REFUSED.contains(&directive) {
                let directive = directive.to_string();
                let file = self.files.last_mut().expect("the file just read");
                let start = file.lexer.offset() + line.len() - line.trim_start().len();
                let span = file.lexer.span(start, start + line.trim().len());
                let message = format!("`#{directive}` inside a string that starts on an earlier line");
                self.diagnostics.push(
                    Diagnostic::error("bad-directive", span, message)
                        .related(first.span, "the string begins here")
                        .note("close the string before this line"),
                );
                self.skip_text_line();
                text.push('\n');
                continue;
            }
            let closed = self.string_line(&line, first, &mut text);
            let Some(file) = self.files.last_mut() else { return first };
            match closed {
                Some(Closed { at, unexpanded }) => {
                    file.lexer.advance(at + 1);
                    file.unexpanded_to = file.lexer.offset() + unexpanded;
                    break;
                }
                None => {
                    file.lexer.advance(line.len());
                    text.push('\n');
                }
            }
        }
        let symbol = self.interner.intern(&text);
        let hi = self
            .files
            .last()
            .map_or(first.span.hi, |f| f.lexer.span(f.lexer.offset() - 1, f.lexer.offset()).hi);
        Token { symbol, span: crate::span::Span { hi: hi.max(first.span.hi), ..first.span }, ..first }
    }

    fn skip_text_line(&mut self) {
        if let Some(file) = self.files.last_mut() {
            file.lexer.raw_line();
        }
    }

    /// Adds a line of a literal; returns where that is closed.
    fn string_line(&mut self, line: &str, first: Token, text: &mut String) -> Option<Closed> {
        let line = line.trim_end_matches(BLANKS);
        let bytes = line.as_bytes();
        let mut at = line.len() - line.trim_start_matches(BLANKS).len();
        text.extend(std::iter::repeat_n(' ', at));
        while at < bytes.len() {
            // Up to the next part that stays unchanged.
            let rest = &line[at..];
            let special = |(i, b): (usize, &u8)| {
                let comment = *b == b'/' && matches!(rest.as_bytes().get(i + 1), Some(b'/' | b'*'));
                (comment || matches!(b, b'"' | b'\'' | b'\\')).then_some(i)
            };
            let plain = rest.as_bytes().iter().enumerate().find_map(special).unwrap_or(rest.len());
            self.plain_text(&rest[..plain], first, text);
            at += plain;
            let rest = &line[at..];
            let length = match rest.as_bytes() {
                [] => break,
                // To `cpp`, a literal begins where P4's ends.
                [b'"', ..] => return Some(Closed { at, unexpanded: rest.len() - 1 }),
                [b'/', b'*', ..] => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
                [b'/', ..] => rest.len(),
                // An escaped quote of P4, with which a literal of `cpp` begins.
                [b'\\', b'"', ..] => 2 + cpp_literal(&rest[2..]),
                [b'\\', ..] => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                _ => character(rest),
            };
            // A quote in it closes P4's literal all the same.
            match closing(&rest[..length]) {
                Some(quote) => {
                    text.push_str(&rest[..quote]);
                    return Some(Closed { at: at + quote, unexpanded: length - quote - 1 });
                }
                None => text.push_str(&rest[..length]),
            }
            at += length;
        }
        None
    }

    /// Adds text without literals and comments: with macros expanded, and one blank for white space.
    fn plain_text(&mut self, plain: &str, first: Token, text: &mut String) {
        let mut lexer = Lexer::new(first.span.file, plain);
        let mut tokens = Vec::new();
        let mut ignored = Vec::new();
        loop {
            let token = lexer.next(&mut self.interner, &mut ignored);
            if token.kind == Kind::Eof {
                break;
            }
            tokens.push(Token { span: first.span, ..token });
        }
        let space_after = plain.ends_with(|c: char| c.is_ascii_whitespace());
        let any = !tokens.is_empty();
        for token in self.expand_list(tokens, first.span) {
            if token.space_before && !text.ends_with([' ', '\n']) {
                text.push(' ');
            }
            match token.kind {
                Kind::String => {
                    let what = "a string from a macro, inside a string";
                    self.diagnostics.push(
                        Diagnostic::unsupported(first.span, what)
                            .note("its quotes would end the string around it: use a macro without quotes"),
                    );
                    return;
                }
                _ => text.push_str(token.text(&self.interner)),
            }
            if text.len() > STRING_BYTES_MAX {
                return;
            }
        }
        if space_after && (any || !text.ends_with([' ', '\n'])) {
            text.push(' ');
        }
    }
}

/// Returns the length up to and including the quote that ends a literal, or to the end.
fn cpp_literal(rest: &str) -> usize {
    closing(rest).map_or(rest.len(), |quote| quote + 1)
}

/// Returns the first quote that no backslash precedes.
fn closing(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at),
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    None
}

/// Returns the length of a literal in apostrophes, which ends with the line at the latest.
fn character(rest: &str) -> usize {
    let mut bytes = rest.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\'' => return at + 1,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::super::preprocess;
    use crate::Options;
    use crate::lexer::Kind;

    /// The tokens of a program, strings with their quotes; or the first error.
    fn tokens(text: &str) -> Result<Vec<String>, String> {
        let output = preprocess("main.p4", text, &Options::default());
        if let Some(error) = output.diagnostics.first() {
            return Err(error.message.clone());
        }
        let shown = |t: &crate::lexer::Token| match t.kind {
            Kind::String => format!("\"{}\"", t.text(&output.interner)),
            _ => t.text(&output.interner).to_string(),
        };
        Ok(output.tokens.iter().filter(|t| t.kind != Kind::Eof).map(shown).collect())
    }

    /// The text is what `cpp -C -undef -nostdinc -x assembler-with-cpp` of GCC 12 makes of it.
    #[test]
    fn white_space_comments_and_macros_are_as_cpp_leaves_them() {
        let text = "#define FOO 42\n#define F(x) x*x\n#define A\nbefore \"first  FOO   line\n   FOO ==   1;   // comment FOO here\n\
                    #if defined(A)\n\ta::b == F(3)  &&  FOOBAR != 'FOO' ;\n#else\n     no FOO\n#endif\n  # not FOO a directive\n  \
                    /* c FOO */  x   FOO  \n it's FOO\n   \\\"FOO\\\" FOO\n\n last FOO \") after(FOO) FOO\nFOO\n";
        let expected = "\"first  FOO   line\n   42 == 1; // comment FOO here\n\n a::b == 3*3 && FOOBAR != 'FOO' ;\n\n\n\n  \
                        # not 42 a directive\n  /* c FOO */ x 42\n it's FOO\n   \\\"FOO\\\" FOO\n\n last 42 \"";
        let tokens = tokens(text).unwrap();
        assert_eq!(tokens[0], "before");
        assert_eq!(tokens[1], expected);
        assert_eq!(tokens[2..].join(" "), ") after ( FOO ) FOO 42");
    }

    #[test]
    fn a_string_on_one_line_is_left_alone() {
        assert_eq!(tokens("#define A 1\n\"A  // A\" A\n").unwrap(), ["\"A  // A\"", "1"]);
    }

    #[test]
    fn faults_are_reported() {
        assert_eq!(
            tokens("\"a\n#include <core.p4>\n\"\n").unwrap_err(),
            "`#include` inside a string that starts on an earlier line"
        );
        assert_eq!(tokens("\"a\n#if 0\n\"\n#endif\n").unwrap_err(), "this string is never closed");
        assert_eq!(tokens("\"a\n b\n").unwrap_err(), "this string is never closed");
        assert_eq!(tokens("\"a\n#if 1\n\"\n").unwrap_err(), "this conditional is never closed");
    }

    #[test]
    fn a_string_that_macros_make_too_long_is_refused() {
        let mut text = String::from(
            "#define A xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
        );
        for (outer, inner) in ["B A", "C B", "D C", "E D"].iter().filter_map(|pair| pair.split_once(' ')) {
            text += &format!("#define {outer} {}\n", [inner; 20].join(" "));
        }
        let error = tokens(&format!("{text}\"\nE\n\"\n")).unwrap_err();
        assert_eq!(error, "a string of more than 1048576 bytes");
    }
}
