//! Text to tokens.
//!
//! The lexer implements P4_16's lexical rules (section "Lexical constructs") and the few extra tokens that the
//! preprocessor needs. It produces tokens on demand, because text that the preprocessor skips (`#if 0`) need not follow
//! P4's rules.

use crate::diagnostic::Diagnostic;
use crate::span::{FileId, Span};
use std::collections::HashMap;
use std::rc::Rc;

/// The text of an identifier or literal. Equal texts have equal symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Symbol(pub u32);

/// The texts behind [`Symbol`]s. The keywords come first, in the order of [`KEYWORDS`].
pub(crate) struct Interner {
    symbols: HashMap<Rc<str>, Symbol>,
    texts: Vec<Rc<str>>,
}

impl Interner {
    pub(crate) fn new() -> Self {
        let mut interner = Interner { symbols: HashMap::new(), texts: Vec::new() };
        for (_, text) in KEYWORDS {
            interner.intern(text);
        }
        interner
    }

    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.symbols.get(text) {
            return symbol;
        }
        let symbol = Symbol(self.texts.len() as u32);
        let text: Rc<str> = text.into();
        self.texts.push(text.clone());
        self.symbols.insert(text, symbol);
        symbol
    }

    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        &self.texts[symbol.0 as usize]
    }

    /// Returns the number of symbols.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }
}

macro_rules! keywords {
    ($($name:ident $text:literal)*) => {
        /// The keywords, and `_`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Keyword { $($name),* }

        /// All keywords with their texts.
        pub(crate) const KEYWORDS: &[(Keyword, &str)] = &[$((Keyword::$name, $text)),*];
    };
}

keywords! {
    Abstract "abstract" Action "action" Actions "actions" Apply "apply" Bool "bool" Bit "bit" Break "break"
    Const "const" Continue "continue" Control "control" Default "default" Else "else" Entries "entries"
    Enum "enum" Error "error" Exit "exit" Extern "extern" False "false" For "for" Header "header"
    HeaderUnion "header_union" If "if" In "in" Inout "inout" Int "int" Key "key" List "list"
    MatchKind "match_kind" Out "out" Package "package" Parser "parser" Priority "priority" Return "return"
    Select "select" State "state" String "string" Struct "struct" Switch "switch" Table "table" This "this"
    Transition "transition" True "true" Tuple "tuple" Type "type" Typedef "typedef" Varbit "varbit"
    ValueSet "value_set" Void "void" DontCare "_"
}

impl Keyword {
    pub(crate) fn text(self) -> &'static str {
        KEYWORDS[self as usize].1
    }
}

macro_rules! punctuation {
    ($($name:ident $text:literal)*) => {
        /// The kind of a token.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Kind {
            /// End of a file, or of the tokens that the preprocessor expands.
            Eof,
            Ident,
            Keyword(Keyword),
            /// A literal that starts with a digit; it is checked where it is used.
            Integer,
            /// A string literal; its symbol is the raw text between the quotes.
            String,
            /// A character that starts no token.
            Unknown,
            $($name),*
        }

        impl Kind {
            /// The text of a punctuation token or keyword; the name of other tokens.
            pub(crate) fn text(self) -> &'static str {
                match self {
                    Kind::Eof => "end of file",
                    Kind::Ident => "identifier",
                    Kind::Keyword(keyword) => keyword.text(),
                    Kind::Integer => "integer",
                    Kind::String => "string",
                    Kind::Unknown => "unknown character",
                    $(Kind::$name => $text),*
                }
            }
        }

        /// Longest first, so that the first match is the longest.
        const PUNCTUATION: &[(Kind, &str)] = &[$((Kind::$name, $text)),*];
    };
}

// `>>`, `>>=` and `+:` are several tokens here: `bit<bit<8>>` closes two lists with what could be a shift, and the
// grammar spells the slice operator as two terminals. `Token::joint` marks contiguous `>`.
punctuation! {
    SatAddAssign "|+|=" SatSubAssign "|-|="
    Mask "&&&" Dots "..." SatAdd "|+|" SatSub "|-|" ShlAssign "<<=" Invalid "{#}"
    Range ".." Shl "<<" AndAnd "&&" OrOr "||" EqEq "==" NotEq "!=" GreaterEq ">=" LessEq "<=" PlusPlus "++"
    AddAssign "+=" SubAssign "-=" MulAssign "*=" DivAssign "/=" ModAssign "%=" AndAssign "&=" OrAssign "|="
    XorAssign "^=" HashHash "##"
    Plus "+" Minus "-" Star "*" Slash "/" Percent "%" Pipe "|" Amp "&" Caret "^" Tilde "~" LParen "(" RParen ")"
    LBracket "[" RBracket "]" LBrace "{" RBrace "}" Less "<" Greater ">" Not "!" Colon ":" Comma "," Question "?"
    Dot "." Assign "=" Semicolon ";" At "@" Hash "#"
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub kind: Kind,
    /// The text of identifiers, keywords, literals and unknown characters; unused for the others.
    pub symbol: Symbol,
    pub span: Span,
    /// White space or a comment precedes it.
    pub space_before: bool,
    /// It is the first token on its line.
    pub line_start: bool,
    /// For `>`: another token that starts with `>` follows immediately.
    pub joint: bool,
    /// The name of a macro that occurred inside its own expansion and never expands again.
    pub no_expand: bool,
}

impl Token {
    pub(crate) fn new(kind: Kind, symbol: Symbol, span: Span) -> Self {
        Token { kind, symbol, span, space_before: false, line_start: false, joint: false, no_expand: false }
    }

    /// True for what the preprocessor, which knows no keywords, considers an identifier.
    pub(crate) fn is_word(&self) -> bool {
        matches!(self.kind, Kind::Ident | Kind::Keyword(_))
    }

    /// Returns the text as it would be written; a string literal without its quotes.
    pub(crate) fn text<'a>(&self, interner: &'a Interner) -> &'a str {
        match self.kind {
            Kind::Ident | Kind::Integer | Kind::String | Kind::Unknown => interner.text(self.symbol),
            kind => kind.text(),
        }
    }
}

/// A removed backslash-newline: up to offset `at` of the spliced text, `removed` bytes are gone.
struct Splice {
    at: u32,
    removed: u32,
}

/// The tokens of one file.
pub(crate) struct Lexer {
    text: Rc<str>,
    file: FileId,
    pos: usize,
    splices: Vec<Splice>,
    line_start: bool,
    /// A string was never closed, so the ends of others are sought only within their lines.
    open_string: bool,
    /// A conditional skips the text: there are no errors, and strings end with their lines.
    pub quiet: bool,
    /// True if only the first line of the next string is read, because a preprocessor reads the others.
    by_line: bool,
    /// The string that was read last continues in the next line.
    broken: bool,
    /// The start of the last token.
    token_start: usize,
}

impl Lexer {
    /// Lexes the text of `file`.
    pub(crate) fn new(file: FileId, text: &str) -> Self {
        let (text, splices) = splice(text);
        Lexer {
            text,
            file,
            pos: 0,
            splices,
            line_start: true,
            open_string: false,
            quiet: false,
            by_line: false,
            broken: false,
            token_start: 0,
        }
    }

    /// Returns the position in the spliced text.
    pub(crate) fn offset(&self) -> usize {
        self.pos
    }

    /// Returns the rest of the text.
    pub(crate) fn rest(&self) -> &str {
        &self.text[self.pos..]
    }

    /// Skips `bytes` of [`Lexer::rest`].
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.pos += bytes;
    }

    /// Returns the span of a part of the spliced text.
    pub(crate) fn span(&self, lo: usize, hi: usize) -> Span {
        let lo_source = self.source_offset(lo);
        // Computed from the last byte, so that a splice after the token is not part of it.
        let hi_source = if hi > lo { self.source_offset(hi - 1) + 1 } else { lo_source };
        Span { file: self.file, lo: lo_source, hi: hi_source }
    }

    fn source_offset(&self, pos: usize) -> u32 {
        let pos = pos as u32;
        let index = self.splices.partition_point(|s| s.at <= pos);
        if index == 0 { pos } else { pos + self.splices[index - 1].removed }
    }

    /// Returns the next token, across line ends.
    pub(crate) fn next(&mut self, interner: &mut Interner, diagnostics: &mut Vec<Diagnostic>) -> Token {
        let space_before = self.skip_space(false, diagnostics);
        let line_start = std::mem::take(&mut self.line_start);
        self.by_line = !self.quiet;
        let token = self.token(interner, diagnostics, space_before, line_start, self.quiet);
        self.by_line = false;
        token
    }

    /// True, once, if the string that [`Lexer::next`] returned continues in the next line.
    pub(crate) fn take_broken(&mut self) -> bool {
        std::mem::take(&mut self.broken)
    }

    /// Returns where the last token starts.
    pub(crate) fn token_start(&self) -> usize {
        self.token_start
    }

    /// Goes back behind the quote at which the last token, a string, starts.
    pub(crate) fn reopen_string(&mut self) {
        self.pos = self.token_start + 1;
        self.broken = false;
    }

    /// Goes to the start of the next line and returns it; `None` at the end of the text.
    pub(crate) fn start_line(&mut self) -> Option<String> {
        let rest = self.rest();
        let end = rest.find('\n').filter(|end| end + 1 < rest.len());
        match end {
            Some(end) => self.pos += end + 1,
            None => {
                self.pos = self.text.len();
                return None;
            }
        }
        self.line_start = true;
        self.rest().lines().next().map(str::to_string)
    }

    /// Returns the next token of this line. Only strings of a pragma may continue over several lines.
    pub(crate) fn next_on_line(
        &mut self,
        interner: &mut Interner,
        diagnostics: &mut Vec<Diagnostic>,
        strings_end_with_line: bool,
    ) -> Option<Token> {
        let space_before = self.skip_space(true, diagnostics);
        match self.rest().as_bytes().first() {
            None | Some(b'\n') => None,
            Some(_) => Some(self.token(interner, diagnostics, space_before, false, strings_end_with_line)),
        }
    }

    /// Skips the rest of the line and returns its raw text, including comments.
    pub(crate) fn raw_line(&mut self) -> &str {
        let start = self.pos;
        self.pos += self.rest().find('\n').unwrap_or(self.text.len() - start);
        self.text[start..self.pos].trim()
    }

    /// Skips white space and comments, but not the end of a directive's line. True if there was any.
    fn skip_space(&mut self, one_line: bool, diagnostics: &mut Vec<Diagnostic>) -> bool {
        let start = self.pos;
        let text = self.text.clone();
        let bytes = text.as_bytes();
        while let Some(&byte) = bytes.get(self.pos) {
            match byte {
                b'\n' if one_line => break,
                b'\n' => {
                    self.pos += 1;
                    self.line_start = true;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.pos += 1,
                b'/' if bytes.get(self.pos + 1) == Some(&b'/') => {
                    self.pos += text[self.pos..].find('\n').unwrap_or(text.len() - self.pos);
                }
                b'/' if bytes.get(self.pos + 1) == Some(&b'*') => match text[self.pos + 2..].find("*/") {
                    Some(length) => self.pos += length + 4,
                    None => {
                        if !self.quiet {
                            let span = self.span(self.pos, self.pos + 2);
                            diagnostics.push(
                                Diagnostic::error(
                                    "unterminated-comment",
                                    span,
                                    "this comment is never closed",
                                )
                                .note("a comment that begins with `/*` ends with the next `*/`"),
                            );
                        }
                        self.pos = text.len();
                    }
                },
                0xef if bytes[self.pos..].starts_with("\u{feff}".as_bytes()) => self.pos += 3,
                _ => break,
            }
        }
        self.pos > start
    }

    fn token(
        &mut self,
        interner: &mut Interner,
        diagnostics: &mut Vec<Diagnostic>,
        space_before: bool,
        line_start: bool,
        strings_end_with_line: bool,
    ) -> Token {
        let start = self.pos;
        self.token_start = start;
        let text = self.text.clone();
        let rest = &text[start..];
        let word = |s: &str| s.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let (kind, symbol) = match rest.as_bytes().first() {
            None => (Kind::Eof, Symbol(0)),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => {
                let length = word(rest);
                self.pos += length;
                let symbol = interner.intern(&rest[..length]);
                (KEYWORDS.get(symbol.0 as usize).map_or(Kind::Ident, |k| Kind::Keyword(k.0)), symbol)
            }
            Some(b'0'..=b'9') => {
                let length = word(rest);
                self.pos += length;
                (Kind::Integer, interner.intern(&rest[..length]))
            }
            Some(b'"') => {
                let length = self.string(rest, strings_end_with_line, diagnostics);
                (Kind::String, interner.intern(&rest[1..1 + length]))
            }
            // Only in a directive; elsewhere an apostrophe starts no token.
            Some(b'\'') if strings_end_with_line && character(rest).is_some() => {
                let length = character(rest).unwrap_or(1);
                self.pos += length;
                (Kind::Unknown, interner.intern(&rest[..length]))
            }
            Some(_) => match PUNCTUATION.iter().find(|(_, p)| rest.starts_with(p)) {
                Some(&(kind, punctuation)) => {
                    self.pos += punctuation.len();
                    (kind, Symbol(0))
                }
                None => {
                    // Consecutive characters of this kind are one token, so that a binary file causes only a few
                    // errors.
                    let length = rest
                        .char_indices()
                        .find(|(_, c)| c.is_ascii() && !c.is_ascii_control() && !"$`'\\".contains(*c))
                        .map_or(rest.len(), |(at, _)| at);
                    let length = match rest[..length].find(['\n', ' ', '\t', '\r']) {
                        Some(blank) => blank,
                        None => length,
                    };
                    self.pos += length;
                    (Kind::Unknown, interner.intern(&rest[..length]))
                }
            },
        };
        let joint = kind == Kind::Greater && text.as_bytes().get(self.pos) == Some(&b'>');
        let span = self.span(start, self.pos);
        Token { kind, symbol, span, space_before, line_start, joint, no_expand: false }
    }

    /// Skips a string literal and returns the length of its raw text.
    ///
    /// P4_16 "String literals": it extends to the first quote preceded by an even number of backslashes; line ends are
    /// allowed inside.
    fn string(&mut self, rest: &str, ends_with_line: bool, diagnostics: &mut Vec<Diagnostic>) -> usize {
        let bytes = rest.as_bytes();
        let mut at = 1;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' if self.by_line && rest[..at].contains('\n') => {
                    self.broken = true;
                    let line = rest.find('\n').unwrap_or(at);
                    self.pos += line;
                    return rest[1..line].trim_end_matches('\r').len();
                }
                b'"' => {
                    self.pos += at + 1;
                    return at - 1;
                }
                b'\\' if at + 1 < bytes.len() => at += 2,
                b'\n' if ends_with_line || self.open_string => break,
                _ => at += 1,
            }
        }
        let line = rest.find('\n').unwrap_or(rest.len());
        if !self.quiet {
            self.open_string = true;
            let span = self.span(self.pos, self.pos + 1);
            diagnostics.push(Diagnostic::error("unterminated-string", span, "this string is never closed"));
        }
        self.pos += line;
        line - 1
    }
}

/// Returns the length of the character constant at the start of `rest`, if it is closed on the same line.
fn character(rest: &str) -> Option<usize> {
    let mut bytes = rest.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\'' => return Some(at + 1),
            b'\n' => return None,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    None
}

/// Removes backslash-newline (P4_16 "Preprocessing").
fn splice(text: &str) -> (Rc<str>, Vec<Splice>) {
    if !text.contains("\\\n") && !text.contains("\\\r\n") {
        return (text.into(), Vec::new());
    }
    let mut spliced = String::with_capacity(text.len());
    let mut splices = Vec::new();
    let mut removed = 0;
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, after) = rest.split_at(at);
        spliced.push_str(before);
        let length = if after.starts_with("\\\n") {
            2
        } else if after.starts_with("\\\r\n") {
            3
        } else {
            spliced.push('\\');
            rest = &after[1..];
            continue;
        };
        removed += length;
        splices.push(Splice { at: spliced.len() as u32, removed });
        rest = &after[length as usize..];
    }
    spliced.push_str(rest);
    (spliced.into(), splices)
}
