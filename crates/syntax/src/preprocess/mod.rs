//! The preprocessor: turns source files into the single token stream that the parser reads.
//!
//! P4_16 (section "Preprocessing") requires a subset of the C preprocessor. This one does what p4c does, which runs `cpp
//! -undef -x assembler-with-cpp`: a `#` that starts no directive starts a comment, and `##` may leave two tokens.
//! `against_cpp.rs` compares the two. It works on tokens. A token from a macro's body has the span of the macro's use in
//! the source, so that every diagnostic points to text that the user can see.

use crate::Options;
#[cfg(test)]
mod against_cpp;
mod condition;
mod print;
mod strings;

use crate::diagnostic::{Diagnostic, ERRORS_MAX};
use crate::lexer::{Interner, Kind, Lexer, Symbol, Token};
use crate::span::{FileId, SourceFile, SourceMap, Span};
use p4jet_suggest as suggest;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Maximum nesting depth of `#include`, as in `cpp`.
const INCLUDE_DEPTH_MAX: usize = 200;
/// Maximum number of `#include`s in one compilation: files that include each other twice double at each level.
const INCLUDES_MAX: usize = 20_000;
/// Maximum number of bytes that one compilation reads; a file counts each time it is included.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum number of tokens that macros may produce in one compilation, for the same reason.
const EXPANDED_TOKENS_MAX: usize = 1_000_000;
/// This many bytes of a text that `#` or `##` produces count as one of these tokens.
const BYTES_PER_TOKEN: usize = 16;
/// Maximum nesting depth of macro calls in macro arguments.
const ARGUMENT_DEPTH_MAX: usize = 100;
/// Maximum length in bytes of a text that `#` and `##` produce.
const PASTED_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of a source file in bytes.
pub const FILE_BYTES_MAX: u64 = BYTES_MAX;

/// The file to which an `#include` refers.
#[derive(Clone, Copy, PartialEq)]
enum Including {
    /// The first one found.
    First,
    /// `#include_next`: the first one after the directory of the current file.
    Next,
    /// `#import`: the first one found, unless it was imported before.
    Once,
}

/// The output of the preprocessor for the parser.
pub(crate) struct Output {
    /// The tokens, with [`Kind::Eof`] as the last.
    pub tokens: Vec<Token>,
    /// The pragmas in order.
    pub pragmas: Vec<Pragma>,
    pub interner: Interner,
    pub sources: SourceMap,
    pub diagnostics: Vec<Diagnostic>,
    /// A bound was exceeded, so the tokens are incomplete.
    pub aborted: bool,
}

impl Output {
    /// Prints the tokens as text, with line markers.
    pub fn print(&self) -> String {
        print::print(self)
    }
}

/// `#pragma …` or `@pragma …`, up to the end of the line.
pub(crate) struct Pragma {
    /// Index of the token in [`Output::tokens`] that follows it.
    pub at: usize,
    /// The tokens after the word `pragma`; never empty.
    pub tokens: Vec<Token>,
    pub span: Span,
}

/// Preprocesses the file `name` with `text` and everything that it includes.
pub(crate) fn preprocess(name: &str, text: &str, options: &Options) -> Output {
    let mut preprocessor = Preprocessor {
        options,
        sources: SourceMap::default(),
        diagnostics: Vec::new(),
        interner: Interner::new(),
        loaded: HashMap::new(),
        once: HashSet::new(),
        imported: HashSet::new(),
        line_starts: HashMap::new(),
        files: Vec::new(),
        contexts: Vec::new(),
        macros: HashMap::new(),
        tokens: Vec::new(),
        pragmas: Vec::new(),
        moved_lines: HashMap::new(),
        includes: 0,
        bytes: 0,
        expanded: 0,
        counter: 0,
        in_condition: false,
        argument_depth: 0,
        aborted: false,
        words: Words::default(),
    };
    preprocessor.words = Words::new(&mut preprocessor.interner);
    preprocessor.run(name, text);
    Output {
        tokens: preprocessor.tokens,
        pragmas: preprocessor.pragmas,
        interner: preprocessor.interner,
        sources: preprocessor.sources,
        diagnostics: preprocessor.diagnostics,
        aborted: preprocessor.aborted,
    }
}

macro_rules! words {
    ($($field:ident $text:literal)*) => {
        /// Words with a meaning to the preprocessor.
        struct Words { $($field: Symbol),* }

        impl Words {
            fn new(interner: &mut Interner) -> Self {
                Words { $($field: interner.intern($text)),* }
            }
        }

        impl Default for Words {
            fn default() -> Self {
                Words { $($field: Symbol(0)),* }
            }
        }
    };
}

words! {
    defined "defined" pragma "pragma" va_args "__VA_ARGS__" va_opt "__VA_OPT__" once "once"
    file "__FILE__" line "__LINE__" counter "__COUNTER__" level "__INCLUDE_LEVEL__" base_file "__BASE_FILE__"
    assembler "__ASSEMBLER__" stdc "__STDC__" has_include "__has_include" has_include_next "__has_include_next"
    include "include" include_next "include_next" import "import" define "define" undef "undef" if_ "if" ifdef "ifdef" ifndef "ifndef" elif "elif"
    elifdef "elifdef" elifndef "elifndef" else_ "else" endif "endif" error "error" warning "warning" line_directive "line"
}

const DIRECTIVES: &[&str] = &[
    "include",
    "include_next",
    "import",
    "define",
    "undef",
    "if",
    "ifdef",
    "ifndef",
    "elif",
    "elifdef",
    "elifndef",
    "else",
    "endif",
    "error",
    "warning",
    "line",
    "pragma",
];

/// A macro.
struct Macro {
    name: Span,
    /// `None` for an object-like macro.
    params: Option<Vec<Symbol>>,
    /// The last parameter takes all remaining arguments.
    variadic: bool,
    body: Vec<Token>,
    /// For each token of the body, the parameter that it names.
    body_params: Vec<Option<usize>>,
    /// Its expansion is being read, so its name does not expand again.
    active: Cell<bool>,
}

impl Macro {
    fn new(name: Span, params: Option<Vec<Symbol>>, variadic: bool, body: Vec<Token>) -> Macro {
        let index: HashMap<Symbol, usize> =
            params.iter().flatten().enumerate().map(|(i, &param)| (param, i)).collect();
        let param = |token: &Token| if token.is_word() { index.get(&token.symbol).copied() } else { None };
        let body_params = body.iter().map(param).collect();
        Macro { name, params, variadic, body, body_params, active: Cell::new(false) }
    }

    fn param_at(&self, at: usize) -> Option<usize> {
        self.body_params.get(at).copied().flatten()
    }

    fn same_as(&self, other: &Macro) -> bool {
        self.params == other.params
            && self.variadic == other.variadic
            && self.body.len() == other.body.len()
            && self.body.iter().zip(&other.body).all(|(a, b)| a.kind == b.kind && a.symbol == b.symbol)
    }
}

/// Tokens to read before those of the files: a macro's expansion, an argument, a directive's line.
struct Context {
    tokens: Vec<Token>,
    next: usize,
    /// The macro being expanded, which is re-enabled at the end.
    of: Option<Rc<Macro>>,
    /// Reading must not continue into the context below.
    barrier: bool,
}

/// An `#if` that is not closed yet.
struct Condition {
    span: Span,
    /// Text outside of it is active.
    outer: bool,
    /// Its current group is active.
    active: bool,
    /// One of its groups was or is active.
    taken: bool,
    seen_else: bool,
}

/// A file that is being read.
struct OpenFile {
    id: FileId,
    lexer: Lexer,
    conditions: Vec<Condition>,
    /// The folder in which `#include "x"` looks first.
    dir: Option<PathBuf>,
    /// Index of the directory with which the search of `#include_next` starts: see [`Preprocessor::find_include`].
    next_dir: usize,
    /// Words before this offset are no macros: see [`strings`].
    unexpanded_to: usize,
}

/// The result of looking for an included file.
struct Found {
    id: FileId,
    dir: Option<PathBuf>,
    next_dir: usize,
    /// True if it is in a folder that `-I` names.
    by_option: bool,
}

struct Preprocessor<'a> {
    options: &'a Options,
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
    interner: Interner,
    loaded: HashMap<String, FileId>,
    /// Files with `#pragma once`.
    once: HashSet<FileId>,
    /// Files that `#import` has read.
    imported: HashSet<FileId>,
    line_starts: HashMap<FileId, Vec<u32>>,
    files: Vec<OpenFile>,
    contexts: Vec<Context>,
    macros: HashMap<Symbol, Rc<Macro>>,
    tokens: Vec<Token>,
    pragmas: Vec<Pragma>,
    /// The effect of `#line`, by file: the offset from which it holds, the number to add to line numbers, and the file's
    /// name.
    moved_lines: HashMap<FileId, Vec<(u32, i64, Option<Symbol>)>>,
    includes: usize,
    bytes: u64,
    expanded: usize,
    /// `__COUNTER__`
    counter: u32,
    /// The tokens of an `#if` are being expanded, so `defined` and `__has_include` have a meaning.
    in_condition: bool,
    argument_depth: usize,
    /// A bound was exceeded, so nothing more is read.
    aborted: bool,
    words: Words,
}

impl Preprocessor<'_> {
    fn run(&mut self, name: &str, text: &str) {
        let main = self.add_file(name.to_string(), text.to_string(), false);
        self.loaded.insert(name.to_string(), main);
        self.open(main, Path::new(name).parent().map(Path::to_path_buf), 1);
        self.open_defines();
        loop {
            let token = self.expand_next();
            match token.kind {
                Kind::Eof if self.files.is_empty() => break,
                // The end of an included file, or of a directive that a macro swallowed.
                Kind::Eof => {}
                // p4c's lexer treats text after a `#` as a comment.
                Kind::Hash if self.contexts.is_empty() => self.skip_line(),
                Kind::At if self.contexts.is_empty() && self.at_pragma() => self.at_pragma_line(token.span),
                _ => self.tokens.push(token),
            }
        }
        let end = self.sources.files[main.0 as usize].text.len() as u32;
        let span = Span { file: main, lo: end, hi: end };
        self.tokens.push(Token { line_start: true, ..Token::new(Kind::Eof, Symbol(0), span) });
    }

    fn add_file(&mut self, name: String, text: String, builtin: bool) -> FileId {
        let id = FileId(self.sources.files.len() as u32);
        self.sources.files.push(SourceFile { name, text, builtin, library: false, included_from: None });
        id
    }

    /// Opens a file that the `#include` at `span` names.
    fn open_included(&mut self, found: Found, span: Span) {
        let Found { id, dir, next_dir, by_option } = found;
        if id != span.file && self.sources.files[id.0 as usize].included_from.is_none() {
            let library = by_option || self.sources.files[span.file.0 as usize].library;
            let file = &mut self.sources.files[id.0 as usize];
            (file.included_from, file.library) = (Some(span), library);
        }
        self.bytes += self.sources.files[id.0 as usize].text.len() as u64;
        if self.bytes > BYTES_MAX {
            let message = format!(
                "the program has more than {BYTES_MAX} bytes, a file counted each time it is included"
            );
            self.abort(span, message);
            return;
        }
        self.open(id, dir, next_dir);
    }

    fn open(&mut self, id: FileId, dir: Option<PathBuf>, next_dir: usize) {
        let lexer = Lexer::new(id, &self.sources.files[id.0 as usize].text);
        self.files.push(OpenFile { id, lexer, conditions: Vec::new(), dir, next_dir, unexpanded_to: 0 });
    }

    /// `-D` definitions are a file of `#define` lines that is read before the program.
    fn open_defines(&mut self) {
        if self.options.defines.is_empty() {
            return;
        }
        let mut text = String::new();
        for (name, value) in &self.options.defines {
            let value = value.as_deref().unwrap_or("1");
            text += &format!("#define {} {}\n", name.replace(['\n', '\\'], " "), value.replace('\n', " "));
        }
        let id = self.add_file("<command line>".to_string(), text, true);
        self.open(id, None, 1);
    }

    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(code, span, message));
    }

    /// Reports that a bound was exceeded and stops reading.
    fn abort(&mut self, span: Span, message: String) {
        if !self.aborted {
            self.aborted = true;
            self.error("limit-exceeded", span, message);
        }
        self.files.clear();
        // An incomplete program need not be parsed.
        self.tokens.clear();
        self.pragmas.clear();
        for context in self.contexts.drain(..) {
            if let Some(of) = context.of {
                of.active.set(false);
            }
        }
    }

    // Reading.

    /// Returns the next token without macro expansion; handles directives on the way.
    fn next_token(&mut self) -> Token {
        loop {
            if let Some(context) = self.contexts.last_mut() {
                if let Some(&token) = context.tokens.get(context.next) {
                    context.next += 1;
                    return token;
                }
                if context.barrier {
                    let span = context.tokens.last().map_or(NO_SPAN, |t| t.span);
                    return Token::new(Kind::Eof, Symbol(0), span);
                }
                if let Some(of) = &context.of {
                    of.active.set(false);
                }
                self.contexts.pop();
                continue;
            }
            let Some(file) = self.files.last_mut() else {
                return Token::new(Kind::Eof, Symbol(0), NO_SPAN);
            };
            if self.diagnostics.len() >= ERRORS_MAX {
                let span = self.diagnostics[ERRORS_MAX - 1].span;
                self.abort(span, format!("gave up after {ERRORS_MAX} errors"));
                continue;
            }
            let active = file.conditions.last().is_none_or(|c| c.active);
            file.lexer.quiet = !active;
            let mut token = file.lexer.next(&mut self.interner, &mut self.diagnostics);
            let broken = file.lexer.take_broken();
            token.no_expand = file.lexer.token_start() < file.unexpanded_to;
            match token.kind {
                Kind::String if active && token.no_expand => return self.inverted_string(token),
                Kind::String if broken => return self.continue_string(token),
                Kind::Hash if token.line_start => self.directive(token, active),
                Kind::Eof => {
                    let file = self.files.pop().expect("the file just read");
                    // Only the innermost: if one `#endif` is missing, those of outer conditions are too.
                    if let Some(condition) = file.conditions.last() {
                        self.diagnostics.push(
                            Diagnostic::error(
                                "unterminated-if",
                                condition.span,
                                "this conditional is never closed",
                            )
                            .note("every `#if`, `#ifdef` and `#ifndef` needs an `#endif` in the same file"),
                        );
                    }
                    return token;
                }
                _ if active => return token,
                _ => {}
            }
        }
    }

    fn push_back(&mut self, token: Token) {
        if token.kind != Kind::Eof {
            self.contexts.push(Context { tokens: vec![token], next: 0, of: None, barrier: false });
        }
    }

    /// Returns the next token after macro expansion.
    fn expand_next(&mut self) -> Token {
        loop {
            let token = self.next_token();
            if !token.is_word() || token.no_expand {
                return token;
            }
            if self.is_special(token.symbol) {
                return self.special(token);
            }
            if self.in_condition && self.is_question(token.symbol) {
                return self.answer(token);
            }
            let Some(of) = self.macros.get(&token.symbol).cloned() else {
                return token;
            };
            if of.active.get() {
                return Token { no_expand: true, ..token };
            }
            let (mut arguments, mut rest_is_missing) = (Vec::new(), false);
            if of.params.is_some() {
                let next = self.next_token();
                if next.kind != Kind::LParen {
                    self.push_back(next);
                    return token;
                }
                match self.arguments(&of, token) {
                    Some(found) => (arguments, rest_is_missing) = found,
                    None => continue,
                }
            }
            let mut body = self.substitute(&of, &arguments, rest_is_missing, token);
            if self.aborted || !self.spend(body.len(), token.span) {
                continue;
            }
            if let Some(first) = body.first_mut() {
                first.line_start = token.line_start;
                first.space_before = token.space_before;
            }
            // For nested macros, the outermost, whose name is at that place.
            self.sources.macros.entry(token.span).or_insert(of.name);
            of.active.set(true);
            self.contexts.push(Context { tokens: body, next: 0, of: Some(of), barrier: false });
        }
    }

    fn spend(&mut self, tokens: usize, span: Span) -> bool {
        self.expanded += tokens + 1;
        if self.expanded > EXPANDED_TOKENS_MAX {
            let message = format!("macros produce more than {EXPANDED_TOKENS_MAX} tokens");
            self.abort(span, message);
        }
        !self.aborted
    }

    /// True for a name whose value depends on its place, and that no `#define` changes.
    fn is_special(&self, name: Symbol) -> bool {
        let w = &self.words;
        [w.line, w.file, w.counter, w.level, w.base_file, w.assembler, w.stdc].contains(&name)
    }

    fn special(&mut self, token: Token) -> Token {
        let place = token.span;
        let w = &self.words;
        let number = match token.symbol {
            name if name == w.file || name == w.base_file => {
                let is_base = name == w.base_file;
                let given = self.moved_line(place).and_then(|(_, name)| name).filter(|_| !is_base);
                let file = if is_base { FileId(0) } else { place.file };
                let symbol = given.unwrap_or_else(|| {
                    let name = &self.sources.files[file.0 as usize].name;
                    self.interner.intern(&name.replace('\\', "\\\\").replace('"', "\\\""))
                });
                return Token { kind: Kind::String, symbol, ..token };
            }
            name if name == w.line => {
                (self.line_of(place) + self.moved_line(place).map_or(0, |m| m.0)).to_string()
            }
            name if name == w.counter => {
                self.counter += 1;
                (self.counter - 1).to_string()
            }
            // The file of the `-D` options is open in addition to the program.
            name if name == w.level => (self.files.len().max(1) - 1).to_string(),
            _ => "1".to_string(),
        };
        Token { kind: Kind::Integer, symbol: self.interner.intern(&number), ..token }
    }

    fn line_of(&mut self, place: Span) -> i64 {
        let text = &self.sources.files[place.file.0 as usize].text;
        let starts = self.line_starts.entry(place.file).or_insert_with(|| {
            text.bytes().enumerate().filter(|b| b.1 == b'\n').map(|b| b.0 as u32 + 1).collect()
        });
        starts.partition_point(|&start| start <= place.lo) as i64 + 1
    }

    /// Returns the effect of the last `#line` before a place.
    fn moved_line(&self, place: Span) -> Option<(i64, Option<Symbol>)> {
        let moved = self.moved_lines.get(&place.file)?;
        let after = moved.partition_point(|m| m.0 <= place.lo);
        moved[..after].last().map(|m| (m.1, m.2))
    }

    /// True for a word that is an operator in a condition.
    fn is_question(&self, name: Symbol) -> bool {
        let w = &self.words;
        [w.defined, w.has_include, w.has_include_next].contains(&name)
    }

    /// Evaluates `defined X` or `__has_include(<x>)` to 1 or 0.
    fn answer(&mut self, question: Token) -> Token {
        let yes = if question.symbol == self.words.defined {
            self.answer_defined(question)
        } else {
            self.answer_has_include(question)
        };
        let symbol = self.interner.intern(if yes { "1" } else { "0" });
        Token { kind: Kind::Integer, symbol, ..question }
    }

    fn answer_defined(&mut self, question: Token) -> bool {
        let mut name = self.next_token();
        let open = name.kind == Kind::LParen;
        if open {
            name = self.next_token();
        }
        let closed = name.is_word() && (!open || self.next_token().kind == Kind::RParen);
        if !closed {
            self.error("bad-condition", question.span, "expected a macro name after `defined`");
            return false;
        }
        self.has_macro(name.symbol)
    }

    fn answer_has_include(&mut self, question: Token) -> bool {
        let mut tokens = Vec::new();
        if self.next_token().kind == Kind::LParen {
            loop {
                let token = self.next_token();
                if matches!(token.kind, Kind::RParen | Kind::Eof) {
                    break;
                }
                tokens.push(token);
            }
        }
        let tokens = self.expand_list(tokens, question.span);
        let Some((name, quoted)) = self.file_name_of(&tokens) else {
            self.error("bad-condition", question.span, "expected `(\"file\")` or `(<file>)`");
            return false;
        };
        let after = if question.symbol == self.words.has_include_next { self.next_dir() } else { 0 };
        self.find_include(&name, quoted, after).is_ok_and(|found| found.is_some())
    }

    /// Reads the arguments of a call of `of`, after its `(`; and returns whether the variadic ones are omitted.
    fn arguments(&mut self, of: &Macro, name: Token) -> Option<(Vec<Vec<Token>>, bool)> {
        let params = of.params.as_ref().map_or(0, Vec::len);
        let mut arguments = vec![Vec::new()];
        let mut depth = 0;
        loop {
            let token = self.next_token();
            match token.kind {
                Kind::Eof => {
                    if !self.aborted {
                        let macro_name = self.interner.text(name.symbol);
                        let message = format!("the call of macro `{macro_name}` is never closed");
                        self.diagnostics.push(
                            Diagnostic::error("macro-call", name.span, message)
                                .note("expected `)` before the end of the file"),
                        );
                    }
                    return None;
                }
                Kind::LParen => depth += 1,
                Kind::RParen if depth == 0 => break,
                Kind::RParen => depth -= 1,
                Kind::Comma if depth == 0 && !(of.variadic && arguments.len() == params) => {
                    arguments.push(Vec::new());
                    continue;
                }
                _ => {}
            }
            if !self.spend(0, name.span) {
                return None;
            }
            arguments.last_mut().expect("at least one").push(token);
        }
        if params == 0 && arguments.len() == 1 && arguments[0].is_empty() {
            arguments.clear();
        }
        // `f(a)` for `f(x, ...)` leaves the variadic part empty.
        let mut rest_is_missing =
            of.variadic && params == 1 && arguments.iter().all(Vec::is_empty) && arguments.len() == 1;
        if of.variadic && arguments.len() + 1 == params {
            rest_is_missing = true;
            arguments.push(Vec::new());
        }
        if arguments.len() != params {
            let macro_name = self.interner.text(name.symbol);
            let message = format!(
                "macro `{macro_name}` called with {}, but it takes {}",
                count(arguments.len(), "argument"),
                if of.variadic { format!("at least {}", params - 1) } else { params.to_string() },
            );
            self.diagnostics
                .push(Diagnostic::error("macro-call", name.span, message).related(of.name, "defined here"));
            return None;
        }
        Some((arguments, rest_is_missing))
    }

    /// Returns the body of `of` with its arguments substituted.
    fn substitute(
        &mut self,
        of: &Macro,
        arguments: &[Vec<Token>],
        rest_is_missing: bool,
        call: Token,
    ) -> Vec<Token> {
        let mut out: Vec<Token> = Vec::new();
        let mut expanded: Vec<Option<Vec<Token>>> = vec![None; arguments.len()];
        let skipped = self.skipped_options(of, arguments);
        let is_paste = |at: usize| of.body.get(at).is_some_and(|t| t.kind == Kind::HashHash);
        // True after `##`; and true if its left operand is an argument without tokens.
        let (mut pasting, mut left_is_empty) = (false, false);
        let mut at = 0;
        while let Some(&token) = of.body.get(at) {
            if self.aborted {
                return Vec::new();
            }
            if skipped.get(at).copied().unwrap_or(false) {
                at += 1;
                continue;
            }
            let stringified = match token.kind {
                Kind::Hash if of.params.is_some() => of.param_at(at + 1),
                _ => None,
            };
            let param = of.param_at(at);
            at += if stringified.is_some() { 2 } else { 1 };
            let next_is_paste = is_paste(at) && at + 1 < of.body.len();
            if stringified.is_none() && param.is_none() && !pasting && !next_is_paste {
                out.push(Token { span: call.span, line_start: false, ..token });
                continue;
            }
            let mut tokens = if let Some(param) = stringified {
                vec![self.stringify(&arguments[param], Token { span: call.span, ..token })]
            } else if let Some(param) = param {
                let is_rest = of.variadic && param + 1 == arguments.len();
                if pasting && is_rest && out.last().is_some_and(|t| t.kind == Kind::Comma) {
                    // `, ## __VA_ARGS__`: the comma is removed if the call omits the arguments.
                    pasting = false;
                    if rest_is_missing {
                        out.pop();
                    }
                    arguments[param].clone()
                } else if pasting || next_is_paste {
                    // Next to `##` an argument is not expanded.
                    arguments[param].clone()
                } else {
                    if expanded[param].is_none() {
                        expanded[param] = Some(self.expand_list(arguments[param].clone(), call.span));
                    }
                    expanded[param].clone().unwrap_or_default()
                }
            } else {
                vec![Token { span: call.span, line_start: false, ..token }]
            };
            if let Some(first) = tokens.first_mut() {
                first.space_before = token.space_before && !pasting;
            }
            if !pasting {
                left_is_empty = tokens.is_empty();
                out.extend(tokens);
            } else if let Some((&first, rest)) = tokens.split_first() {
                match left_is_empty {
                    true => out.push(first),
                    false => self.paste(&mut out, first, call.span),
                }
                left_is_empty = false;
                out.extend(rest);
            }
            pasting = next_is_paste;
            at += usize::from(next_is_paste);
            if out.len() > EXPANDED_TOKENS_MAX {
                self.spend(out.len(), call.span);
            }
        }
        out
    }

    /// Returns which tokens of a body `__VA_OPT__(…)` removes: itself and its parentheses, and their contents if the
    /// variadic argument is empty.
    fn skipped_options(&mut self, of: &Macro, arguments: &[Vec<Token>]) -> Vec<bool> {
        let va_opt = self.words.va_opt;
        let is_option = |t: &Token| t.is_word() && t.symbol == va_opt;
        if !of.variadic || !of.body.iter().any(is_option) {
            return Vec::new();
        }
        let rest = arguments.last().cloned().unwrap_or_default();
        let span = rest.first().map_or(NO_SPAN, |t| t.span);
        let is_empty = self.expand_list(rest, span).is_empty();
        let mut skipped = vec![false; of.body.len()];
        let mut at = 0;
        while at < of.body.len() {
            if !is_option(&of.body[at]) || of.body.get(at + 1).is_none_or(|t| t.kind != Kind::LParen) {
                at += 1;
                continue;
            }
            let mut depth = 0;
            let mut end = at + 1;
            while let Some(token) = of.body.get(end) {
                match token.kind {
                    Kind::LParen => depth += 1,
                    Kind::RParen => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
                end += 1;
            }
            skipped[at..=at + 1].fill(true);
            if is_empty {
                skipped[at..end.min(of.body.len())].fill(true);
            }
            if let Some(last) = skipped.get_mut(end) {
                *last = true;
            }
            at = end + 1;
        }
        skipped
    }

    /// Expands `tokens` in isolation.
    fn expand_list(&mut self, tokens: Vec<Token>, span: Span) -> Vec<Token> {
        if !tokens.iter().any(Token::is_word) {
            return tokens;
        }
        if self.argument_depth >= ARGUMENT_DEPTH_MAX {
            self.abort(
                span,
                format!("macro calls nest more than {ARGUMENT_DEPTH_MAX} deep in macro arguments"),
            );
            return Vec::new();
        }
        self.argument_depth += 1;
        self.contexts.push(Context { tokens, next: 0, of: None, barrier: true });
        let mut out = Vec::new();
        loop {
            let token = self.expand_next();
            if token.kind == Kind::Eof {
                break;
            }
            if !self.spend(0, span) {
                break;
            }
            out.push(token);
        }
        self.contexts.pop();
        self.argument_depth -= 1;
        out
    }

    /// `#param`
    fn stringify(&mut self, argument: &[Token], place: Token) -> Token {
        let mut text = String::new();
        for (index, token) in argument.iter().enumerate() {
            if index > 0 && (token.space_before || token.line_start) {
                text.push(' ');
            }
            if token.kind == Kind::String {
                let inner = self.interner.text(token.symbol);
                text += "\\\"";
                text += &inner.replace('\\', "\\\\").replace('"', "\\\"");
                text += "\\\"";
            } else {
                text += token.text(&self.interner);
            }
            if text.len() > PASTED_BYTES_MAX {
                self.abort(place.span, format!("`#` builds a string of more than {PASTED_BYTES_MAX} bytes"));
                break;
            }
        }
        self.spend(text.len() / BYTES_PER_TOKEN, place.span);
        Token { kind: Kind::String, symbol: self.interner.intern(&text), ..place }
    }

    /// `last of out ## right`
    fn paste(&mut self, out: &mut Vec<Token>, right: Token, span: Span) {
        let Some(left) = out.pop() else {
            out.push(right);
            return;
        };
        let text = format!("{}{}", left.text(&self.interner), right.text(&self.interner));
        if !self.spend(text.len() / BYTES_PER_TOKEN, span) {
            return;
        }
        if text.len() > PASTED_BYTES_MAX {
            self.abort(span, format!("`##` builds a token of more than {PASTED_BYTES_MAX} bytes"));
            return;
        }
        if left.kind != Kind::String && right.kind != Kind::String {
            let mut lexer = Lexer::new(span.file, &text);
            lexer.quiet = true;
            let token = lexer.next(&mut self.interner, &mut Vec::new());
            if lexer.rest().is_empty() && !matches!(token.kind, Kind::Eof | Kind::Unknown) {
                out.push(Token {
                    span,
                    space_before: left.space_before,
                    line_start: left.line_start,
                    ..token
                });
                return;
            }
        }
        // `cpp` leaves two tokens when it preprocesses assembler.
        out.push(left);
        out.push(right);
    }

    // Directives.

    /// Handles the directive whose `#` was read.
    fn directive(&mut self, hash: Token, active: bool) {
        let depth = self.files.len();
        let Some(name) = self.next_on_line() else {
            return; // `#` alone is legal.
        };
        let words = &self.words;
        let word = if name.is_word() { Some(name.symbol) } else { None };
        let span = join(hash.span, name.span);
        match word {
            Some(w) if w == words.if_ || w == words.ifdef || w == words.ifndef => {
                let holds = active
                    && if w == words.if_ {
                        self.condition(span)
                    } else {
                        let negated = w == words.ifndef;
                        self.is_defined(span) != negated
                    };
                self.push_condition(Condition {
                    span,
                    outer: active,
                    active: holds,
                    taken: holds,
                    seen_else: false,
                });
            }
            Some(w) if w == words.elif || w == words.elifdef || w == words.elifndef => {
                let plain = w == words.elif;
                let negated = w == words.elifndef;
                self.else_if(span, plain, negated);
            }
            Some(w) if w == words.else_ => match self.last_condition() {
                Some(condition) if !condition.seen_else => {
                    condition.active = condition.outer && !condition.taken;
                    condition.taken = true;
                    condition.seen_else = true;
                }
                Some(condition) => {
                    let opened = condition.span;
                    self.diagnostics.push(
                        Diagnostic::error("bad-conditional", span, "a second `#else`")
                            .related(opened, "for the conditional that begins here"),
                    );
                }
                None => self.error("bad-conditional", span, "`#else` without `#if`"),
            },
            Some(w) if w == words.endif => {
                if self.files.last_mut().and_then(|f| f.conditions.pop()).is_none() {
                    self.error("bad-conditional", span, "`#endif` without `#if`");
                }
            }
            _ if !active => {}
            Some(w) if w == words.include => self.include(span, Including::First),
            Some(w) if w == words.include_next => self.include(span, Including::Next),
            Some(w) if w == words.import => self.include(span, Including::Once),
            Some(w) if w == words.define => self.define(span),
            Some(w) if w == words.undef => {
                if let Some(name) = self.macro_name(span) {
                    self.macros.remove(&name.symbol);
                }
            }
            Some(w) if w == words.error || w == words.warning => {
                let text = self.raw_line();
                self.diagnostics.push(if w == self.words.error {
                    Diagnostic::error("error-directive", span, format!("#error {text}"))
                } else {
                    Diagnostic::warning("warning-directive", span, format!("#warning {text}"))
                });
            }
            Some(w) if w == words.pragma => self.hash_pragma(span),
            Some(w) if w == words.line_directive => {
                let number = self.line_tokens();
                let number = self.expand_list(number, span);
                self.move_line(span, &number);
            }
            // A comment, as in scripts (including `# 7 "file"`), unless it looks like a directive.
            _ => {
                let found = name.text(&self.interner).to_string();
                let near = suggest::nearest(&found, DIRECTIVES.iter().copied());
                if let Some(near) = near.filter(|_| word.is_some() && !name.space_before) {
                    let message =
                        format!("`#{found}` is not a directive: p4jet treats this line as a comment");
                    let warning = Diagnostic::warning("unknown-directive", span, message);
                    self.diagnostics.push(warning.meant(format!("#{near}")));
                }
            }
        }
        // Skips the rest of the line; an include has opened another file meanwhile.
        if let Some(file) = self.files.get_mut(depth - 1) {
            while file.lexer.next_on_line(&mut self.interner, &mut Vec::new(), true).is_some() {}
        }
    }

    fn skip_line(&mut self) {
        if let Some(file) = self.files.last_mut() {
            while file.lexer.next_on_line(&mut self.interner, &mut Vec::new(), true).is_some() {}
        }
    }

    /// `#line 7 "file"`: sets `__LINE__` and `__FILE__` from the next line on. Diagnostics show the real place.
    fn move_line(&mut self, span: Span, tokens: &[Token]) {
        let number = tokens.first().and_then(|t| self.interner.text(t.symbol).parse::<i32>().ok());
        let (Some(number), Some(Kind::Integer)) = (number, tokens.first().map(|t| t.kind)) else {
            self.error("bad-directive", span, "expected a line number after `#line`");
            return;
        };
        let name = tokens.get(1).filter(|t| t.kind == Kind::String).map(|t| t.symbol);
        let name = name.or_else(|| self.moved_line(span).and_then(|(_, name)| name));
        let delta = i64::from(number) - self.line_of(span) - 1;
        let moved = self.moved_lines.entry(span.file).or_default();
        // A file may be included again.
        let at = moved.partition_point(|m| m.0 < span.lo);
        match moved.get_mut(at) {
            Some(known) if known.0 == span.lo => *known = (span.lo, delta, name),
            _ => moved.insert(at, (span.lo, delta, name)),
        }
    }

    fn next_on_line(&mut self) -> Option<Token> {
        let file = self.files.last_mut()?;
        file.lexer.next_on_line(&mut self.interner, &mut self.diagnostics, true)
    }

    fn line_tokens(&mut self) -> Vec<Token> {
        let mut tokens = Vec::new();
        while let Some(token) = self.next_on_line() {
            tokens.push(token);
        }
        tokens
    }

    fn raw_line(&mut self) -> String {
        self.files.last_mut().map_or(String::new(), |f| f.lexer.raw_line().to_string())
    }

    fn last_condition(&mut self) -> Option<&mut Condition> {
        self.files.last_mut()?.conditions.last_mut()
    }

    fn push_condition(&mut self, condition: Condition) {
        if let Some(file) = self.files.last_mut() {
            file.conditions.push(condition);
        }
    }

    fn else_if(&mut self, span: Span, plain: bool, negated: bool) {
        let Some(condition) = self.last_condition() else {
            self.error("bad-conditional", span, "`#elif` without `#if`");
            return;
        };
        if condition.seen_else {
            let opened = condition.span;
            self.diagnostics.push(
                Diagnostic::error("bad-conditional", span, "`#elif` after `#else`")
                    .related(opened, "for the conditional that begins here"),
            );
            return;
        }
        let candidate = condition.outer && !condition.taken;
        if let Some(file) = self.files.last_mut() {
            file.lexer.quiet = !candidate;
        }
        // An `#elif` after the active group is not evaluated: it may use what only other cases define.
        let holds = candidate && if plain { self.condition(span) } else { self.is_defined(span) != negated };
        if let Some(condition) = self.last_condition() {
            condition.active = holds;
            condition.taken |= holds;
        }
    }

    fn macro_name(&mut self, span: Span) -> Option<Token> {
        match self.next_on_line() {
            Some(token) if token.is_word() && token.symbol != self.words.defined => Some(token),
            Some(token) => {
                let found = token.text(&self.interner).to_string();
                self.error("bad-directive", token.span, format!("expected a macro name, found `{found}`"));
                None
            }
            None => {
                self.error("bad-directive", span, "expected a macro name, found the end of the line");
                None
            }
        }
    }

    fn is_defined(&mut self, span: Span) -> bool {
        self.macro_name(span).is_some_and(|name| self.has_macro(name.symbol))
    }

    fn has_macro(&self, name: Symbol) -> bool {
        let w = &self.words;
        let asks = name == w.has_include || name == w.has_include_next;
        asks || self.is_special(name) || self.macros.contains_key(&name)
    }

    fn define(&mut self, span: Span) {
        let Some(name) = self.macro_name(span) else {
            return;
        };
        let mut body = self.line_tokens();
        let mut params = None;
        let mut variadic = false;
        if body.first().is_some_and(|t| t.kind == Kind::LParen && !t.space_before) {
            let Some((length, list, rest)) = self.macro_params(&body, name.span) else {
                return;
            };
            params = Some(list);
            variadic = rest;
            body.drain(..length);
        }
        for end in [body.first(), body.last()].into_iter().flatten() {
            if end.kind == Kind::HashHash {
                let span = end.span;
                self.error("bad-paste", span, "`##` at the edge of a macro's body has nothing to paste");
                return;
            }
        }
        let new = Macro::new(name.span, params, variadic, body);
        if let Some(old) = self.macros.get(&name.symbol)
            && !old.same_as(&new)
        {
            let text = self.interner.text(name.symbol);
            self.diagnostics.push(
                Diagnostic::warning(
                    "macro-redefined",
                    name.span,
                    format!("macro `{text}` is defined again, differently"),
                )
                .related(old.name, "first defined here"),
            );
        }
        self.macros.insert(name.symbol, Rc::new(new));
    }

    /// Parses `(a, b, ...)`. Returns its number of tokens, the parameters, and whether the last is variadic.
    fn macro_params(&mut self, tokens: &[Token], name: Span) -> Option<(usize, Vec<Symbol>, bool)> {
        let mut params = Vec::new();
        let mut seen = HashSet::new();
        let mut at = 1;
        let mut last = name;
        if tokens.get(1).is_some_and(|t| t.kind == Kind::RParen) {
            return Some((2, params, false));
        }
        loop {
            let variadic = match tokens.get(at) {
                Some(token) if token.kind == Kind::Dots => {
                    params.push(self.words.va_args);
                    true
                }
                Some(token) if token.is_word() => {
                    if !seen.insert(token.symbol) {
                        let text = self.interner.text(token.symbol).to_string();
                        self.error("bad-directive", token.span, format!("a second macro parameter `{text}`"));
                        return None;
                    }
                    params.push(token.symbol);
                    // GNU: `#define f(args...)`
                    let named_rest = tokens.get(at + 1).is_some_and(|t| t.kind == Kind::Dots);
                    at += named_rest as usize;
                    named_rest
                }
                other => {
                    let span = other.map_or(last, |t| t.span);
                    self.error("bad-directive", span, "expected a macro parameter: a name or `...`");
                    return None;
                }
            };
            at += 1;
            match tokens.get(at) {
                Some(token) if token.kind == Kind::RParen => return Some((at + 1, params, variadic)),
                Some(token) if token.kind == Kind::Comma && !variadic => last = token.span,
                other => {
                    let span = other.map_or(last, |t| t.span);
                    let expected = if variadic { "`)`" } else { "`,` or `)`" };
                    self.error(
                        "bad-directive",
                        span,
                        format!("expected {expected} in the macro's parameter list"),
                    );
                    return None;
                }
            }
            at += 1;
        }
    }

    // Pragmas.

    /// True if the word `pragma` follows the `@` that was read.
    fn at_pragma(&self) -> bool {
        self.files.last().is_some_and(|file| {
            let after = file.lexer.rest().strip_prefix("pragma");
            after.is_some_and(|a| !a.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
        })
    }

    fn at_pragma_line(&mut self, at: Span) {
        let word = self.next_on_line();
        let mut tokens = Vec::new();
        if let Some(file) = self.files.last_mut() {
            while let Some(token) = file.lexer.next_on_line(&mut self.interner, &mut self.diagnostics, false)
            {
                tokens.push(token);
            }
        }
        let tokens = self.expand_list(tokens, at);
        self.pragma(join(at, word.map_or(at, |w| w.span)), tokens);
    }

    fn hash_pragma(&mut self, span: Span) {
        let tokens = self.line_tokens();
        if tokens.first().is_some_and(|t| t.is_word() && t.symbol == self.words.once) {
            self.once.insert(span.file);
            return;
        }
        self.pragma(span, tokens);
    }

    fn pragma(&mut self, span: Span, tokens: Vec<Token>) {
        match tokens.last() {
            Some(last) if tokens[0].is_word() => {
                let span = join(span, last.span);
                self.pragmas.push(Pragma { at: self.tokens.len(), tokens, span });
            }
            _ => self.diagnostics.push(Diagnostic::warning(
                "bad-pragma",
                span,
                "ignored a pragma without a name",
            )),
        }
    }

    // Includes.

    fn include(&mut self, span: Span, including: Including) {
        let Some((name, quoted, span)) = self.include_name(span) else {
            return;
        };
        let after = if including == Including::Next { self.next_dir() } else { 0 };
        if self.files.len() > INCLUDE_DEPTH_MAX {
            let chain: Vec<String> = self
                .files
                .iter()
                .rev()
                .take(3)
                .map(|f| format!("`{}`", self.sources.files[f.id.0 as usize].name))
                .collect();
            let message = format!("includes nest more than {INCLUDE_DEPTH_MAX} deep");
            let note = format!("the innermost files are {}: does one include itself?", chain.join(", "));
            self.abort(span, message);
            if let Some(last) = self.diagnostics.last_mut() {
                last.notes.push(note);
            }
            return;
        }
        self.includes += 1;
        if self.includes > INCLUDES_MAX {
            self.abort(span, format!("more than {INCLUDES_MAX} includes"));
            return;
        }
        let refused = match self.find_include(&name, quoted, after) {
            Ok(Some(found)) => {
                if including == Including::Once && !self.imported.insert(found.id) {
                    return;
                }
                if !self.once.contains(&found.id) {
                    self.open_included(found, span);
                }
                return;
            }
            Ok(None) => Vec::new(),
            Err(refused) => refused,
        };
        let dirs: Vec<PathBuf> = self.search_dirs(quoted).into_iter().skip(after).flatten().collect();
        let verb = if refused.is_empty() { "find" } else { "read" };
        let mut diagnostic =
            Diagnostic::error("include-not-found", span, format!("cannot {verb} include file `{name}`"));
        for reason in refused {
            diagnostic = diagnostic.note(reason);
        }
        if let crate::Files::Whole(_) = self.options.files {
            let why =
                "the program can include only the files that came with it and those that come with p4jet";
            diagnostic = diagnostic.note(why);
        } else if !dirs.is_empty() {
            let shown: Vec<String> =
                dirs.iter()
                    .map(|d| {
                        if d.as_os_str().is_empty() {
                            "`.`".to_string()
                        } else {
                            format!("`{}`", d.display())
                        }
                    })
                    .collect();
            diagnostic = diagnostic.note(format!("searched in {}", shown.join(", ")));
        }
        let names: Vec<&str> = self.options.builtins.iter().map(|b| b.0).collect();
        if let Some(near) = suggest::nearest(&name, names.iter().copied()) {
            diagnostic = diagnostic.meant(format!("<{near}>"));
        }
        if !names.is_empty() {
            diagnostic = diagnostic.choices("include files that come with p4jet", &names);
        }
        self.diagnostics.push(diagnostic);
    }

    /// Returns the directories to search for an include: that of the including file, if the name is quoted, and those of
    /// `-I`.
    fn search_dirs(&self, quoted: bool) -> Vec<Option<PathBuf>> {
        let own = self.files.last().and_then(|f| f.dir.clone()).filter(|_| quoted);
        std::iter::once(own).chain(self.options.include_dirs.iter().cloned().map(Some)).collect()
    }

    /// Returns the index of the directory with which `#include_next` starts.
    fn next_dir(&self) -> usize {
        self.files.last().map_or(1, |f| f.next_dir)
    }

    /// Looks for a file from the directory numbered `after` of [`Preprocessor::search_dirs`] on, then among those that
    /// come with p4jet. The error names the files that exist but could not be read.
    fn find_include(&mut self, name: &str, quoted: bool, after: usize) -> Result<Option<Found>, Vec<String>> {
        let dirs = self.search_dirs(quoted);
        let count = dirs.len();
        let mut refused = Vec::new();
        for (i, dir) in dirs.into_iter().enumerate().skip(after) {
            let Some(dir) = dir else { continue };
            let path = dir.join(name);
            match self.load(&path) {
                Ok(Some(id)) => {
                    let dir = path.parent().map(Path::to_path_buf);
                    return Ok(Some(Found { id, dir, next_dir: i + 1, by_option: i > 0 }));
                }
                Ok(None) => {}
                Err(reason) => refused.push(reason),
            }
        }
        let builtin = self.options.builtins.iter().find(|(builtin, _)| *builtin == name);
        if let Some(&(_, text)) = builtin.filter(|_| after <= count) {
            let shown = format!("<{name}>");
            let id = match self.loaded.get(&shown) {
                Some(&id) => id,
                None => {
                    let id = self.add_file(shown.clone(), text.to_string(), true);
                    self.loaded.insert(shown, id);
                    id
                }
            };
            return Ok(Some(Found { id, dir: None, next_dir: count + 1, by_option: false }));
        }
        if refused.is_empty() { Ok(None) } else { Err(refused) }
    }

    /// Returns the file that `"x"` or `<x>` names, and whether it is quoted.
    fn file_name_of(&self, tokens: &[Token]) -> Option<(String, bool)> {
        match tokens {
            [token] if token.kind == Kind::String => {
                Some((self.interner.text(token.symbol).to_string(), true))
            }
            [first, middle @ .., last] if first.kind == Kind::Less && last.kind == Kind::Greater => {
                Some((middle.iter().map(|t| t.text(&self.interner)).collect(), false))
            }
            _ => None,
        }
    }

    /// Reads the name after `#include`. Returns it with whether it was quoted, and its span.
    fn include_name(&mut self, directive: Span) -> Option<(String, bool, Span)> {
        let file = self.files.last_mut()?;
        let rest = file.lexer.rest();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let raw = &rest[blank..];
        let closing = match raw.as_bytes().first() {
            Some(b'"') => Some('"'),
            Some(b'<') => Some('>'),
            _ => None,
        };
        if let Some(closing) = closing {
            let line = raw.split('\n').next().unwrap_or_default();
            if let Some(end) = line[1..].find(closing) {
                let name = line[1..1 + end].to_string();
                let start = file.lexer.offset() + blank;
                file.lexer.advance(blank + end + 2);
                let span = file.lexer.span(start, start + end + 2);
                if name.is_empty() {
                    self.error("bad-directive", span, "empty file name in `#include`");
                    return None;
                }
                return Some((name, closing == '"', span));
            }
            let note = format!("expected `{closing}` before the end of the line");
            self.diagnostics.push(
                Diagnostic::error(
                    "bad-directive",
                    directive,
                    "the file name of this `#include` is not closed",
                )
                .note(note),
            );
            return None;
        }
        // A macro may stand for the name.
        let tokens = self.line_tokens();
        let span = tokens.first().map_or(directive, |t| t.span);
        let tokens = self.expand_list(tokens, directive);
        if let Some((name, quoted)) = self.file_name_of(&tokens) {
            return Some((name, quoted, span));
        }
        self.diagnostics.push(
            Diagnostic::error("bad-directive", span, "expected a file name after `#include`")
                .note("the forms are `#include \"file\"` and `#include <file>`"),
        );
        None
    }

    /// Reads a file unless it was read before. `None` if there is no such file; the error says why it cannot be read.
    fn load(&mut self, path: &Path) -> Result<Option<FileId>, String> {
        let name = path.display().to_string();
        if let Some(&id) = self.loaded.get(&name) {
            return Ok(Some(id));
        }
        match self.options.files.read(path) {
            Ok(text) => {
                let id = self.add_file(name.clone(), text, false);
                self.loaded.insert(name, id);
                Ok(Some(id))
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(format!("cannot read `{name}`: {error}")),
        }
    }

    // Conditions.

    /// Evaluates the rest of the line as the condition of `#if`; an invalid condition is reported and false.
    fn condition(&mut self, span: Span) -> bool {
        let line = self.line_tokens();
        self.in_condition = true;
        let tokens = self.expand_list(line, span);
        self.in_condition = false;
        if self.aborted {
            return false;
        }
        match condition::evaluate(&tokens, &self.interner, span) {
            Ok(holds) => holds,
            Err((span, message)) => {
                self.error("bad-condition", span, message);
                false
            }
        }
    }
}

const NO_SPAN: Span = Span { file: FileId(0), lo: 0, hi: 0 };

fn join(a: Span, b: Span) -> Span {
    if a.file == b.file { Span { file: a.file, lo: a.lo.min(b.lo), hi: a.hi.max(b.hi) } } else { a }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
