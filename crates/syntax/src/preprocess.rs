//! The preprocessor: source files to the one token stream that the parser reads.
//!
//! P4_16 (section "Preprocessing") asks for a subset of the C preprocessor; this one has function-like macros too.
//! It works on tokens. A token that a macro's body produced has the span of the macro's use in the source, so that
//! every diagnostic points at text that the user can see.

use crate::Options;
use crate::diagnostic::Diagnostic;
use crate::lexer::{Interner, Kind, Lexer, Symbol, Token};
use crate::literal;
use crate::parser::ERRORS_MAX;
use crate::span::{FileId, SourceFile, SourceMap, Span};
use crate::suggest;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How deep `#include`s nest.
const INCLUDE_DEPTH_MAX: usize = 64;
/// How many `#include`s one compilation follows: files that include each other twice double at each level.
const INCLUDES_MAX: usize = 20_000;
/// How many tokens macros may produce in one compilation, for the same reason.
const EXPANDED_TOKENS_MAX: usize = 4_000_000;
/// How deep macro calls nest in macro arguments.
const ARGUMENT_DEPTH_MAX: usize = 100;
/// How long a text `#` and `##` may build, in bytes.
const PASTED_BYTES_MAX: usize = 64 * 1024;
/// How deep expressions in `#if` nest.
const CONDITION_DEPTH_MAX: usize = 200;
/// How large a source file may be, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What the preprocessor hands to the parser.
pub(crate) struct Output {
    /// The tokens, with [`Kind::Eof`] as the last.
    pub tokens: Vec<Token>,
    /// The pragmas in order.
    pub pragmas: Vec<Pragma>,
    pub interner: Interner,
    pub sources: SourceMap,
    pub diagnostics: Vec<Diagnostic>,
    /// A bound was exceeded: the tokens break off.
    pub aborted: bool,
}

/// `#pragma …` or `@pragma …`, which end with their line.
pub(crate) struct Pragma {
    /// Index of the token in [`Output::tokens`] that it stands before.
    pub at: usize,
    /// What follows the word `pragma`; never empty.
    pub tokens: Vec<Token>,
    pub span: Span,
}

/// Preprocesses the file `name` with `text` and all that it includes.
pub(crate) fn preprocess(name: &str, text: &str, options: &Options) -> Output {
    let mut preprocessor = Preprocessor {
        options,
        sources: SourceMap::default(),
        diagnostics: Vec::new(),
        interner: Interner::new(),
        loaded: HashMap::new(),
        once: HashSet::new(),
        line_starts: HashMap::new(),
        files: Vec::new(),
        contexts: Vec::new(),
        macros: HashMap::new(),
        tokens: Vec::new(),
        pragmas: Vec::new(),
        includes: 0,
        expanded: 0,
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
    defined "defined" pragma "pragma" file "__FILE__" line "__LINE__" va_args "__VA_ARGS__" once "once"
    include "include" define "define" undef "undef" if_ "if" ifdef "ifdef" ifndef "ifndef" elif "elif"
    elifdef "elifdef" elifndef "elifndef" else_ "else" endif "endif" error "error" warning "warning" line_directive "line"
}

const DIRECTIVES: &[&str] = &[
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif",
    "error", "warning", "line", "pragma",
];

/// A macro.
struct Macro {
    name: Span,
    /// `None` for an object-like macro.
    params: Option<Vec<Symbol>>,
    /// The last parameter takes all remaining arguments.
    variadic: bool,
    body: Vec<Token>,
    /// Its expansion is being read: its name does not expand again.
    active: Cell<bool>,
}

impl Macro {
    fn param(&self, token: &Token) -> Option<usize> {
        let params = self.params.as_ref()?;
        if token.is_word() { params.iter().position(|&p| p == token.symbol) } else { None }
    }

    fn same_as(&self, other: &Macro) -> bool {
        self.params == other.params
            && self.variadic == other.variadic
            && self.body.len() == other.body.len()
            && self.body.iter().zip(&other.body).all(|(a, b)| a.kind == b.kind && a.symbol == b.symbol)
    }
}

/// Tokens to read before the files': a macro's expansion, an argument, a directive's line.
struct Context {
    tokens: Vec<Token>,
    next: usize,
    /// The macro that is expanded, to be re-enabled at the end.
    of: Option<Rc<Macro>>,
    /// What reads this context must not read on into the one below.
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
    /// Where `#include "x"` looks first.
    dir: Option<PathBuf>,
}

struct Preprocessor<'a> {
    options: &'a Options,
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
    interner: Interner,
    loaded: HashMap<String, FileId>,
    /// Files with `#pragma once`.
    once: HashSet<FileId>,
    line_starts: HashMap<FileId, Vec<u32>>,
    files: Vec<OpenFile>,
    contexts: Vec<Context>,
    macros: HashMap<Symbol, Rc<Macro>>,
    tokens: Vec<Token>,
    pragmas: Vec<Pragma>,
    includes: usize,
    expanded: usize,
    argument_depth: usize,
    /// A bound was exceeded: nothing more is read.
    aborted: bool,
    words: Words,
}

impl Preprocessor<'_> {
    fn run(&mut self, name: &str, text: &str) {
        let main = self.add_file(name.to_string(), text.to_string(), false);
        self.loaded.insert(name.to_string(), main);
        self.open(main, Path::new(name).parent().map(Path::to_path_buf));
        self.open_defines();
        loop {
            let token = self.expand_next();
            match token.kind {
                Kind::Eof if self.files.is_empty() => break,
                // The end of an included file, or of a directive that a macro swallowed.
                Kind::Eof => {}
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
        self.sources.files.push(SourceFile { name, text, builtin, included_from: None });
        id
    }

    /// Opens a file that the `#include` at `span` names.
    fn open_included(&mut self, id: FileId, dir: Option<PathBuf>, span: Span) {
        if id != span.file {
            self.sources.files[id.0 as usize].included_from.get_or_insert(span);
        }
        self.open(id, dir);
    }

    fn open(&mut self, id: FileId, dir: Option<PathBuf>) {
        let lexer = Lexer::new(id, &self.sources.files[id.0 as usize].text);
        self.files.push(OpenFile { id, lexer, conditions: Vec::new(), dir });
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
        self.open(id, None);
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
        for context in self.contexts.drain(..) {
            if let Some(of) = context.of {
                of.active.set(false);
            }
        }
    }

    // Reading.

    /// The next token, its macros not yet expanded; directives are obeyed on the way.
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
            let token = file.lexer.next(&mut self.interner, &mut self.diagnostics);
            match token.kind {
                Kind::Hash if token.line_start => self.directive(token, active),
                Kind::Eof => {
                    let file = self.files.pop().expect("the file just read");
                    // The innermost: where one `#endif` is missing, the outer ones lack theirs, too.
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

    /// The next token after macro expansion.
    fn expand_next(&mut self) -> Token {
        loop {
            let token = self.next_token();
            if !token.is_word() || token.no_expand {
                return token;
            }
            if token.symbol == self.words.line || token.symbol == self.words.file {
                return self.place_literal(token);
            }
            let Some(of) = self.macros.get(&token.symbol).cloned() else {
                return token;
            };
            if of.active.get() {
                return Token { no_expand: true, ..token };
            }
            let mut arguments = Vec::new();
            if of.params.is_some() {
                let next = self.next_token();
                if next.kind != Kind::LParen {
                    self.push_back(next);
                    return token;
                }
                match self.arguments(&of, token) {
                    Some(found) => arguments = found,
                    None => continue,
                }
            }
            let mut body = self.substitute(&of, &arguments, token);
            if self.aborted || !self.spend(body.len(), token.span) {
                continue;
            }
            if let Some(first) = body.first_mut() {
                first.line_start = token.line_start;
                first.space_before = token.space_before;
            }
            // Of macros inside of macros the outermost, whose name stands there.
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

    /// `__LINE__`, `__FILE__`
    fn place_literal(&mut self, token: Token) -> Token {
        if token.symbol == self.words.file {
            let name = self.sources.file_name(token.span).replace('\\', "\\\\").replace('"', "\\\"");
            return Token { kind: Kind::String, symbol: self.interner.intern(&name), ..token };
        }
        let text = &self.sources.files[token.span.file.0 as usize].text;
        let starts = self.line_starts.entry(token.span.file).or_insert_with(|| {
            text.bytes().enumerate().filter(|b| b.1 == b'\n').map(|b| b.0 as u32 + 1).collect()
        });
        let line = starts.partition_point(|&start| start <= token.span.lo) + 1;
        Token { kind: Kind::Integer, symbol: self.interner.intern(&line.to_string()), ..token }
    }

    /// The arguments of a call of `of`; its `(` is read.
    fn arguments(&mut self, of: &Macro, name: Token) -> Option<Vec<Vec<Token>>> {
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
        if of.variadic && arguments.len() + 1 == params {
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
        Some(arguments)
    }

    /// The body of `of` with its arguments in place.
    fn substitute(&mut self, of: &Macro, arguments: &[Vec<Token>], call: Token) -> Vec<Token> {
        let mut out: Vec<Token> = Vec::new();
        let mut expanded: Vec<Option<Vec<Token>>> = vec![None; arguments.len()];
        let mut at = 0;
        while let Some(&token) = of.body.get(at) {
            at += 1;
            if self.aborted {
                return Vec::new();
            }
            let next_is_paste = of.body.get(at).is_some_and(|t| t.kind == Kind::HashHash);
            if token.kind == Kind::Hash
                && of.params.is_some()
                && let Some(param) = of.body.get(at).and_then(|t| of.param(t))
            {
                at += 1;
                out.push(self.stringify(&arguments[param], Token { span: call.span, ..token }));
                continue;
            }
            if token.kind == Kind::HashHash && !out.is_empty() && at < of.body.len() {
                let right = of.body[at];
                at += 1;
                match of.param(&right) {
                    Some(param) => {
                        let argument = &arguments[param];
                        let is_variadic = of.variadic && param + 1 == arguments.len();
                        if is_variadic && out.last().is_some_and(|t| t.kind == Kind::Comma) {
                            // `, ## __VA_ARGS__`: the comma goes when there are no arguments.
                            if argument.is_empty() {
                                out.pop();
                            }
                            out.extend(argument);
                        } else if let Some((&first, rest)) = argument.split_first() {
                            self.paste(&mut out, first, call.span);
                            out.extend(rest);
                        }
                    }
                    None => self.paste(&mut out, Token { span: call.span, ..right }, call.span),
                }
                continue;
            }
            match of.param(&token) {
                // Beside `##` an argument stands as it was written.
                Some(param) if next_is_paste => {
                    if arguments[param].is_empty() {
                        // Nothing to paste to: what follows `##` stands alone.
                        at += 1;
                        if of.body.get(at).is_some_and(|t| of.param(t).is_none()) {
                            out.push(Token { span: call.span, ..of.body[at] });
                            at += 1;
                        }
                    } else {
                        out.extend(&arguments[param]);
                    }
                }
                Some(param) => {
                    if expanded[param].is_none() {
                        expanded[param] = Some(self.expand_list(arguments[param].clone(), call.span));
                    }
                    let argument = expanded[param].as_ref().expect("just set");
                    let start = out.len();
                    out.extend(argument);
                    if let Some(first) = out.get_mut(start) {
                        first.space_before = token.space_before;
                    }
                }
                None => out.push(Token { span: call.span, line_start: false, ..token }),
            }
            if out.len() > EXPANDED_TOKENS_MAX {
                self.spend(out.len(), call.span);
            }
        }
        out
    }

    /// Expands `tokens` by themselves.
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
        Token { kind: Kind::String, symbol: self.interner.intern(&text), ..place }
    }

    /// `last of out ## right`
    fn paste(&mut self, out: &mut Vec<Token>, right: Token, span: Span) {
        let Some(left) = out.pop() else {
            out.push(right);
            return;
        };
        let text = format!("{}{}", left.text(&self.interner), right.text(&self.interner));
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
        let message = format!(
            "`{}` and `{}` do not make one token",
            left.text(&self.interner),
            right.text(&self.interner)
        );
        self.error("bad-paste", span, message);
        out.push(left);
        out.push(right);
    }

    // Directives.

    /// Obeys the directive whose `#` was read.
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
            Some(w) if w == words.include => self.include(span),
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
            // Line markers of another preprocessor: spans tell the real place instead.
            Some(w) if w == words.line_directive => {}
            None if name.kind == Kind::Integer => {}
            _ => {
                let found = name.text(&self.interner).to_string();
                let mut diagnostic =
                    Diagnostic::error("unknown-directive", span, format!("unknown directive `#{found}`"));
                if let Some(near) = suggest::nearest(&found, DIRECTIVES.iter().copied()) {
                    diagnostic = diagnostic.note(format!("did you mean `#{near}`?"));
                }
                self.diagnostics.push(
                    diagnostic
                        .note(format!("the directives are {}", suggest::some(DIRECTIVES, DIRECTIVES.len()))),
                );
            }
        }
        // What is left of the line; an include has opened another file meanwhile.
        if let Some(file) = self.files.get_mut(depth - 1) {
            while file.lexer.next_on_line(&mut self.interner, &mut Vec::new(), true).is_some() {}
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
        // An `#elif` after the taken group is not evaluated: it may use what only other cases define.
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
        self.macros.contains_key(&name) || name == self.words.line || name == self.words.file
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
        let new = Macro { name: name.span, params, variadic, body, active: Cell::new(false) };
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

    /// Parses `(a, b, ...)`: how many tokens it has, the parameters, and whether the last is variadic.
    fn macro_params(&mut self, tokens: &[Token], name: Span) -> Option<(usize, Vec<Symbol>, bool)> {
        let mut params = Vec::new();
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
                    if params.contains(&token.symbol) {
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

    /// Whether the word `pragma` follows the `@` that was read.
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

    fn include(&mut self, span: Span) {
        let Some((name, quoted, span)) = self.include_name(span) else {
            return;
        };
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
        let mut dirs: Vec<PathBuf> = Vec::new();
        if quoted && let Some(dir) = self.files.last().and_then(|f| f.dir.clone()) {
            dirs.push(dir);
        }
        dirs.extend(self.options.include_dirs.iter().cloned());
        let mut refused = Vec::new();
        for dir in &dirs {
            let path = dir.join(&name);
            match self.load(&path) {
                Ok(Some(id)) => {
                    if !self.once.contains(&id) {
                        self.open_included(id, path.parent().map(Path::to_path_buf), span);
                    }
                    return;
                }
                Ok(None) => {}
                Err(reason) => refused.push(reason),
            }
        }
        let builtin = self.options.builtins.iter().find(|(builtin, _)| *builtin == name);
        if let Some(&(_, text)) = builtin {
            let shown = format!("<{name}>");
            let id = match self.loaded.get(&shown) {
                Some(&id) => id,
                None => {
                    let id = self.add_file(shown.clone(), text.to_string(), true);
                    self.loaded.insert(shown, id);
                    id
                }
            };
            if !self.once.contains(&id) {
                self.open_included(id, None, span);
            }
            return;
        }
        let mut diagnostic =
            Diagnostic::error("include-not-found", span, format!("cannot find include file `{name}`"));
        for reason in refused {
            diagnostic = diagnostic.note(reason);
        }
        if !dirs.is_empty() {
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
            diagnostic = diagnostic.note(format!("did you mean `<{near}>`?"));
        }
        if !names.is_empty() {
            diagnostic = diagnostic.note(format!("files that p4jet brings along: {}", suggest::list(&names)));
        }
        self.diagnostics.push(diagnostic);
    }

    /// The name after `#include`, whether it was quoted, and its span.
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
        match tokens.as_slice() {
            [token] if token.kind == Kind::String => {
                return Some((self.interner.text(token.symbol).to_string(), true, span));
            }
            [first, middle @ .., last] if first.kind == Kind::Less && last.kind == Kind::Greater => {
                return Some((middle.iter().map(|t| t.text(&self.interner)).collect(), false, span));
            }
            _ => {}
        }
        self.diagnostics.push(
            Diagnostic::error("bad-directive", span, "expected a file name after `#include`")
                .note("the forms are `#include \"file\"` and `#include <file>`"),
        );
        None
    }

    /// Reads a file, or finds it already read. `None`: there is no such file; an error says why it cannot be read.
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

    /// Evaluates the rest of the line as the condition of `#if`; what is wrong is reported and false.
    fn condition(&mut self, span: Span) -> bool {
        let line = self.line_tokens();
        // `defined X` first: X must not be expanded.
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(&token) = line.get(at) {
            at += 1;
            if token.is_word() && token.symbol == self.words.defined {
                let open = line.get(at).is_some_and(|t| t.kind == Kind::LParen);
                let name = line.get(at + open as usize).filter(|t| t.is_word());
                let closed = !open || line.get(at + 2).is_some_and(|t| t.kind == Kind::RParen);
                if let Some(name) = name.filter(|_| closed) {
                    at += if open { 3 } else { 1 };
                    let value = if self.has_macro(name.symbol) { "1" } else { "0" };
                    tokens.push(Token { kind: Kind::Integer, symbol: self.interner.intern(value), ..token });
                    continue;
                }
                self.error("bad-condition", token.span, "expected a macro name after `defined`");
                return false;
            }
            tokens.push(token);
        }
        let tokens = self.expand_list(tokens, span);
        if self.aborted {
            return false;
        }
        let mut evaluator =
            Evaluator { tokens: &tokens, at: 0, interner: &self.interner, end: span, depth: 0 };
        match evaluator.whole() {
            Ok(value) => value != 0,
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

type Value = Result<i64, (Span, String)>;

/// Evaluates a condition. The arithmetic is that of 64-bit signed integers.
struct Evaluator<'a> {
    tokens: &'a [Token],
    at: usize,
    interner: &'a Interner,
    end: Span,
    depth: usize,
}

impl Evaluator<'_> {
    fn whole(&mut self) -> Value {
        if self.tokens.is_empty() {
            return Err((self.end, "this conditional has no condition".to_string()));
        }
        let value = self.conditional(true)?;
        match self.tokens.get(self.at) {
            None => Ok(value),
            Some(token) => {
                Err((token.span, format!("unexpected `{}` in a condition", token.text(self.interner))))
            }
        }
    }

    fn kind(&self) -> Kind {
        self.tokens.get(self.at).map_or(Kind::Eof, |t| t.kind)
    }

    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(self.end, |t| t.span)
    }

    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Value) -> Value {
        if self.depth >= CONDITION_DEPTH_MAX {
            return Err((self.span(), format!("this condition nests more than {CONDITION_DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let value = parse(self);
        self.depth -= 1;
        value
    }

    /// `live`: the value matters, so that a division by zero is an error.
    fn conditional(&mut self, live: bool) -> Value {
        let condition = self.binary(0, live)?;
        if self.kind() != Kind::Question {
            return Ok(condition);
        }
        self.at += 1;
        let then = self.nested(|e| e.conditional(live && condition != 0))?;
        if self.kind() != Kind::Colon {
            return Err((self.span(), "expected `:` in a condition".to_string()));
        }
        self.at += 1;
        let other = self.nested(|e| e.conditional(live && condition == 0))?;
        Ok(if condition != 0 { then } else { other })
    }

    /// The operator here: its precedence, and how many tokens it has.
    fn operator(&self) -> Option<(Kind, u8, usize)> {
        let token = self.tokens.get(self.at)?;
        let precedence = match token.kind {
            Kind::OrOr => 1,
            Kind::AndAnd => 2,
            Kind::Pipe => 3,
            Kind::Caret => 4,
            Kind::Amp => 5,
            Kind::EqEq | Kind::NotEq => 6,
            // `>>` comes as two tokens; Shl's mirror image has no kind of its own.
            Kind::Greater if token.joint => return Some((Kind::Greater, 8, 2)),
            Kind::Less | Kind::LessEq | Kind::Greater | Kind::GreaterEq => 7,
            Kind::Shl => 8,
            Kind::Plus | Kind::Minus => 9,
            Kind::Star | Kind::Slash | Kind::Percent => 10,
            _ => return None,
        };
        Some((token.kind, precedence, 1))
    }

    fn binary(&mut self, min: u8, live: bool) -> Value {
        let mut left = self.unary(live)?;
        while let Some((kind, precedence, length)) = self.operator() {
            if precedence <= min {
                break;
            }
            let span = self.span();
            self.at += length;
            let right_live = live
                && match kind {
                    Kind::OrOr => left == 0,
                    Kind::AndAnd => left != 0,
                    _ => true,
                };
            let right = self.nested(|e| e.binary(precedence, right_live))?;
            left = match kind {
                Kind::OrOr => (left != 0 || right != 0) as i64,
                Kind::AndAnd => (left != 0 && right != 0) as i64,
                Kind::Pipe => left | right,
                Kind::Caret => left ^ right,
                Kind::Amp => left & right,
                Kind::EqEq => (left == right) as i64,
                Kind::NotEq => (left != right) as i64,
                Kind::Less => (left < right) as i64,
                Kind::LessEq => (left <= right) as i64,
                Kind::Greater if length == 2 => shift(left, right.wrapping_neg()),
                Kind::Greater => (left > right) as i64,
                Kind::GreaterEq => (left >= right) as i64,
                Kind::Shl => shift(left, right),
                Kind::Plus => left.wrapping_add(right),
                Kind::Minus => left.wrapping_sub(right),
                Kind::Star => left.wrapping_mul(right),
                _ if right == 0 && right_live => {
                    return Err((span, "division by zero in a condition".to_string()));
                }
                _ if right == 0 => 0,
                Kind::Slash => left.wrapping_div(right),
                _ => left.wrapping_rem(right),
            };
        }
        Ok(left)
    }

    fn unary(&mut self, live: bool) -> Value {
        let kind = self.kind();
        let span = self.span();
        let Some(token) = self.tokens.get(self.at) else {
            return Err((span, "expected a value at the end of this condition".to_string()));
        };
        self.at += 1;
        match kind {
            Kind::Not => Ok((self.nested(|e| e.unary(live))? == 0) as i64),
            Kind::Tilde => Ok(!self.nested(|e| e.unary(live))?),
            Kind::Minus => Ok(self.nested(|e| e.unary(live))?.wrapping_neg()),
            Kind::Plus => self.nested(|e| e.unary(live)),
            Kind::LParen => {
                let value = self.nested(|e| e.conditional(live))?;
                if self.kind() != Kind::RParen {
                    return Err((self.span(), "expected `)` in a condition".to_string()));
                }
                self.at += 1;
                Ok(value)
            }
            Kind::Integer => {
                // C's suffixes, as in `201710L`.
                let text = self.interner.text(token.symbol);
                let hex = text.starts_with("0x") || text.starts_with("0X");
                let text = if hex || text.contains(['w', 's']) {
                    text
                } else {
                    text.trim_end_matches(['u', 'U', 'l', 'L'])
                };
                match literal::parse(text) {
                    Ok(literal) => Ok(i64::try_from(literal.value).unwrap_or(i64::MAX)),
                    Err(message) => Err((span, message)),
                }
            }
            // C: a name that is no macro is 0.
            Kind::Ident | Kind::Keyword(_) => Ok((self.interner.text(token.symbol) == "true") as i64),
            _ => {
                Err((span, format!("expected a value in a condition, found `{}`", token.text(self.interner))))
            }
        }
    }
}

/// Shifts left by `by`, right when it is negative.
fn shift(value: i64, by: i64) -> i64 {
    match by {
        0..64 => value << by,
        -63..0 => value >> -by,
        ..=-64 => value >> 63,
        _ => 0,
    }
}
