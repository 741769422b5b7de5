//! A recursive-descent parser of the P4_16 grammar (appendix "P4 grammar").
//!
//! The grammar is not context-free: whether `(a) - b` is a cast and `a < b > (c)` a call depends on which names are
//! types (terminals IDENTIFIER and TYPE_IDENTIFIER). So the parser keeps the scopes of names, but only to know whether
//! each is a type; the analysis resolves names. Where the grammar requires a type, any name is accepted, so that a
//! misspelt type is reported as such and not as a syntax error.
//!
//! Errors: the function that finds one reports it and returns [`Failed`]; the nearest list of statements, declarations,
//! fields … skips to its next element. A second error at the same token is not reported.

mod declarations;
mod expressions;
mod statements;
mod tables;
mod types;

use crate::ast::{Annotation, AnnotationBody, AnnotationToken, Ident, Program};
use crate::diagnostic::{Diagnostic, ERRORS_MAX};
use crate::lexer::{Interner, Keyword, Kind, Symbol, Token};
use crate::literal;
use crate::preprocess::Pragma;
use crate::span::Span;
use p4jet_suggest as suggest;

/// Maximum nesting depth of blocks, parentheses, types …, which bounds the parser's stack.
const NESTING_MAX: u32 = 256;
/// Maximum height of the tree of an expression: `a + b + c …` does not nest, but its tree is as high as it is long. It
/// bounds the stack of all code that walks the tree.
const EXPRESSION_HEIGHT_MAX: u32 = 1000;
/// The error has been reported.
#[derive(Debug)]
struct Failed;

type Parse<T> = Result<T, Failed>;

/// Parses preprocessed tokens, of which the last is [`Kind::Eof`].
pub(crate) fn parse(
    tokens: Vec<Token>,
    pragmas: &[Pragma],
    interner: &Interner,
) -> (Program, Vec<Diagnostic>) {
    let mut parser = Parser {
        tokens,
        pos: 0,
        pragmas,
        interner,
        diagnostics: Vec::new(),
        error_at: None,
        depth: 0,
        height: 0,
        open_braces: 0,
        greater_closes: false,
        in_state: false,
        names: vec![None; interner.len()],
        globals: vec![None; interner.len()],
        shadowed: Vec::new(),
        scopes: Vec::new(),
    };
    let decls = parser.program();
    parser.finish_pragmas(true);
    (Program { decls }, parser.diagnostics)
}

/// The meaning of a name, as far as the grammar is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// TYPE_IDENTIFIER
    Type,
    /// IDENTIFIER
    Other,
}

struct Parser<'a> {
    tokens: Vec<Token>,
    pos: usize,
    /// The pragmas that have not been consumed yet.
    pragmas: &'a [Pragma],
    interner: &'a Interner,
    diagnostics: Vec<Diagnostic>,
    /// The token of the last error.
    error_at: Option<usize>,
    depth: u32,
    /// Height of the expression or type that was parsed last.
    height: u32,
    /// Number of open `{` of expressions and lists.
    open_braces: u32,
    /// In `bit<…>` without parentheses, where `>` is not an operator.
    greater_closes: bool,
    /// In a parser state, where fewer statements are allowed.
    in_state: bool,
    /// The meaning of each symbol in the current scope, and in the outermost one.
    names: Vec<Option<Name>>,
    globals: Vec<Option<Name>>,
    /// The meaning of symbols before the declarations of the open scopes.
    shadowed: Vec<(Symbol, Option<Name>)>,
    /// For each open scope, the length of `shadowed` at its start.
    scopes: Vec<usize>,
}

impl Parser<'_> {
    // The cursor.

    fn token(&self) -> Token {
        self.tokens[self.pos]
    }

    fn kind(&self) -> Kind {
        self.tokens[self.pos].kind
    }

    fn kind_at(&self, ahead: usize) -> Kind {
        self.tokens.get(self.pos + ahead).map_or(Kind::Eof, |t| t.kind)
    }

    fn at(&self, kind: Kind) -> bool {
        self.kind() == kind
    }

    fn at_keyword(&self, keyword: Keyword) -> bool {
        self.kind() == Kind::Keyword(keyword)
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// Returns the span of the previous token.
    fn last_span(&self) -> Span {
        self.tokens[self.pos.saturating_sub(1)].span
    }

    fn bump(&mut self) -> Token {
        let token = self.token();
        if token.kind != Kind::Eof {
            self.pos += 1;
        }
        token
    }

    fn eat(&mut self, kind: Kind) -> bool {
        let found = self.at(kind);
        if found {
            self.bump();
        }
        found
    }

    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        self.eat(Kind::Keyword(keyword))
    }

    /// Returns the span from `start` to the previous token.
    fn since(&self, start: Span) -> Span {
        join(start, self.last_span())
    }

    fn text(&self, token: Token) -> &str {
        token.text(self.interner)
    }

    // Names.

    /// True if a token of this kind is the grammar's `name`.
    fn is_name(kind: Kind) -> bool {
        matches!(
            kind,
            Kind::Ident
                | Kind::Keyword(
                    Keyword::Apply
                        | Keyword::Key
                        | Keyword::Actions
                        | Keyword::State
                        | Keyword::Entries
                        | Keyword::Type
                        | Keyword::Priority
                        | Keyword::List
                )
        )
    }

    /// `name`; `what` describes its owner.
    fn name(&mut self, what: &str) -> Parse<Ident> {
        let token = self.token();
        if Self::is_name(token.kind) {
            self.bump();
            return Ok(self.ident(token));
        }
        if let Kind::Keyword(keyword) = token.kind
            && keyword != Keyword::DontCare
        {
            let message = format!("expected {what}, found keyword `{}`", keyword.text());
            return self.fail(
                Diagnostic::error("syntax", token.span, message)
                    .note("keywords cannot be names; choose another name"),
            );
        }
        self.expected(what)
    }

    fn ident(&self, token: Token) -> Ident {
        Ident { text: self.text(token).to_string(), span: token.span }
    }

    /// Reads a name that is declared here: it stands for `name` until the end of the scope.
    fn declared_name(&mut self, what: &str, name: Name) -> Parse<Ident> {
        let symbol = self.token().symbol;
        let ident = self.name(what)?;
        self.declare(symbol, name);
        Ok(ident)
    }

    fn declare(&mut self, symbol: Symbol, name: Name) {
        let slot = symbol.0 as usize;
        if self.scopes.is_empty() {
            self.globals[slot] = Some(name);
        } else {
            self.shadowed.push((symbol, self.names[slot]));
        }
        self.names[slot] = Some(name);
    }

    /// Returns the meaning of the name at `ahead`; `None` if it was not declared.
    fn lookup_at(&self, ahead: usize) -> Option<Name> {
        let token = self.tokens.get(self.pos + ahead)?;
        if Self::is_name(token.kind) { self.names[token.symbol.0 as usize] } else { None }
    }

    /// True if a TYPE_IDENTIFIER, possibly with a leading dot, is at `ahead`.
    fn is_type_name_at(&self, ahead: usize) -> bool {
        if self.kind_at(ahead) != Kind::Dot {
            return self.lookup_at(ahead) == Some(Name::Type);
        }
        match self.tokens.get(self.pos + ahead + 1) {
            Some(token) if Self::is_name(token.kind) => {
                self.globals[token.symbol.0 as usize] == Some(Name::Type)
            }
            _ => false,
        }
    }

    /// Parses in a new scope.
    fn scope<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        self.scopes.push(self.shadowed.len());
        let result = parse(self);
        let start = self.scopes.pop().expect("pushed above");
        while self.shadowed.len() > start {
            let (symbol, before) = self.shadowed.pop().expect("longer than start");
            self.names[symbol.0 as usize] = before;
        }
        result
    }

    /// Parses one nesting level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= NESTING_MAX {
            return self.too_deep(format!("this nests more than {NESTING_MAX} deep"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Records that an expression's tree is one level higher than its parts.
    fn raise(&mut self, part: u32, other: u32) -> Parse<()> {
        self.height = part.max(other) + 1;
        if self.height > EXPRESSION_HEIGHT_MAX {
            return self.too_deep(format!(
                "this expression has more than {EXPRESSION_HEIGHT_MAX} operators in a row"
            ));
        }
        Ok(())
    }

    /// A program that exceeds a bound is generated, or hostile: its other errors are of no use.
    fn too_deep<T>(&mut self, message: String) -> Parse<T> {
        let diagnostic =
            Diagnostic::error("limit-exceeded", self.span(), message).note("split it into smaller parts");
        let failed = self.fail(diagnostic);
        self.give_up();
        failed
    }

    fn give_up(&mut self) {
        self.pos = self.tokens.len() - 1;
        self.error_at = Some(self.pos);
        self.pragmas = &[];
    }

    // Errors.

    /// Reports an error at the current token, unless there was one already.
    fn fail<T>(&mut self, diagnostic: Diagnostic) -> Parse<T> {
        if self.error_at != Some(self.pos) {
            self.error_at = Some(self.pos);
            self.report(diagnostic);
        }
        Err(Failed)
    }

    /// Reports an error after which parsing continues normally.
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
        if self.diagnostics.len() >= ERRORS_MAX && self.pos + 1 < self.tokens.len() {
            let message = format!("gave up after {ERRORS_MAX} errors");
            self.diagnostics.push(Diagnostic::error("syntax", self.span(), message));
            self.give_up();
        }
    }

    /// The current token, for messages.
    fn found(&self) -> String {
        let token = self.token();
        match token.kind {
            Kind::Eof => "the end of the file".to_string(),
            Kind::Keyword(Keyword::DontCare) => "`_`".to_string(),
            Kind::Keyword(keyword) => format!("keyword `{}`", keyword.text()),
            Kind::String => "a string".to_string(),
            Kind::Integer if self.text(token).len() > 40 => "an integer".to_string(),
            _ => format!("`{}`", shorten(self.text(token))),
        }
    }

    fn expected<T>(&mut self, what: &str) -> Parse<T> {
        let diagnostic = self.expected_error(what);
        self.fail(diagnostic)
    }

    fn expected_error(&self, what: &str) -> Diagnostic {
        if self.at(Kind::Unknown) {
            let found = shorten(self.text(self.token()));
            return Diagnostic::error(
                "bad-character",
                self.span(),
                format!("unexpected character `{found}`"),
            )
            .label(format!("expected {what}"));
        }
        let message = format!("expected {what}, found {}", self.found());
        let span = match self.kind() {
            // Where the text ends, rather than the empty line after it.
            Kind::Eof if self.pos > 0 => Span { lo: self.last_span().hi, ..self.last_span() },
            _ => self.span(),
        };
        let diagnostic = Diagnostic::error("syntax", span, message);
        match self.kind() {
            Kind::Mask => diagnostic.note("a mask `a &&& b` is allowed only in a key set"),
            Kind::Range => {
                diagnostic.note("a range `a .. b` is allowed only in a key set and after `in` in `for`")
            }
            Kind::Hash => diagnostic.note("a preprocessor directive must be the first on its line"),
            Kind::Ident => match self.text(self.token()) {
                "and" => diagnostic.note("the operator is written `&&`"),
                "or" => diagnostic.note("the operator is written `||`"),
                _ if self.pos > 0 && self.text(self.tokens[self.pos - 1]) == "not" => {
                    diagnostic.note("the operator is written `!`")
                }
                _ => diagnostic,
            },
            Kind::Keyword(Keyword::Else) => diagnostic.note(
                "`else` must follow the single statement of its `if`; put several statements between `{` and `}`",
            ),
            _ => diagnostic,
        }
    }

    /// Expects `kind` after `what`. The error points to the end of the previous token, where it is missing.
    fn expect_after(&mut self, kind: Kind, what: &str) -> Parse<()> {
        if self.eat(kind) {
            return Ok(());
        }
        if self.at(Kind::Unknown) || self.pos == 0 {
            return self.expected(&format!("`{}`", kind.text()));
        }
        let wanted = kind.text();
        let message = format!("expected `{wanted}` after {what}, found {}", self.found());
        let before = self.last_span();
        let diagnostic = if self.token().line_start || self.at(Kind::Eof) || self.at(Kind::RBrace) {
            let end = Span { lo: before.hi, ..before };
            Diagnostic::error("syntax", end, message).label(format!("expected `{wanted}`"))
        } else {
            let diagnostic = self.expected_error("");
            Diagnostic { message, label: format!("expected `{wanted}`"), ..diagnostic }
        };
        self.fail(diagnostic)
    }

    /// Expects the `;` that ends `what`. If the next token can only start something else, parsing continues.
    fn semicolon(&mut self, what: &str) -> Parse<()> {
        if self.expect_after(Kind::Semicolon, what).is_ok() {
            return Ok(());
        }
        if self.token().line_start || self.at(Kind::RBrace) { Ok(()) } else { Err(Failed) }
    }

    fn expect(&mut self, kind: Kind) -> Parse<Token> {
        if self.at(kind) {
            return Ok(self.bump());
        }
        self.expected(&format!("`{}`", kind.text()))
    }

    /// Expects the `kind` that closes what `open` opened.
    fn expect_close(&mut self, kind: Kind, open: Span) -> Parse<()> {
        if self.eat(kind) {
            return Ok(());
        }
        let or = if matches!(kind, Kind::RParen | Kind::Greater | Kind::RBracket) {
            "an operator or "
        } else {
            ""
        };
        let diagnostic =
            self.expected_error(&format!("{or}`{}`", kind.text())).related(open, "to close what opens here");
        self.fail(match self.kind() {
            Kind::Assign if kind == Kind::RParen => diagnostic.note("`=` assigns; to compare, write `==`"),
            _ => diagnostic,
        })
    }

    /// Reports an undeclared word that is similar to one of `choices`, and treats it as that keyword.
    fn fix_keyword(&mut self, choices: &[Keyword]) {
        let token = self.token();
        if token.kind != Kind::Ident || self.lookup_at(0).is_some() {
            return;
        }
        let text = self.text(token).to_string();
        let near = suggest::nearest(&text, choices.iter().map(|c| c.text()));
        if let Some(&keyword) = near.and_then(|near| choices.iter().find(|c| c.text() == near)) {
            self.report(
                Diagnostic::error("syntax", token.span, format!("unknown word `{text}`"))
                    .meant(keyword.text()),
            );
            // Unless the limit of errors was reached.
            if !self.at(Kind::Eof) {
                self.tokens[self.pos].kind = Kind::Keyword(keyword);
            }
        }
    }

    // Recovery.

    /// True at a keyword that can only start a declaration at top level.
    fn at_top_level_keyword(&self) -> bool {
        use Keyword::*;
        let token = self.token();
        let declares = matches!(
            token.kind,
            Kind::Keyword(
                Control | Parser | Package | Header | HeaderUnion | Struct | Extern | Typedef | Enum
            )
        );
        declares && (token.line_start || Self::is_name(self.kind_at(1)))
    }

    /// Skips to the end of the erroneous element: after its `;` or block, or before the end of the list. `unclosed` of
    /// the element's own braces were open at the error.
    fn recover(&mut self, mut unclosed: u32) {
        let start = self.pos;
        loop {
            match self.kind() {
                Kind::RBrace if unclosed > 0 => {
                    self.bump();
                    unclosed -= 1;
                }
                Kind::Eof | Kind::RBrace => return,
                Kind::Semicolon => {
                    self.bump();
                    // The rest of an `if` continues as a statement.
                    self.eat_keyword(Keyword::Else);
                    return;
                }
                Kind::LBrace if unclosed > 0 => self.skip_braces(),
                Kind::LBrace => {
                    self.skip_braces();
                    // `= { … };`, `struct { … } name;`
                    if Self::is_name(self.kind())
                        && self.kind_at(1) == Kind::Semicolon
                        && !self.token().line_start
                    {
                        self.bump();
                    }
                    self.eat(Kind::Semicolon);
                    self.eat_keyword(Keyword::Else);
                    return;
                }
                _ if self.pos > start && (self.at_top_level_keyword() || self.at_element_keyword()) => return,
                _ => {
                    self.bump();
                }
            }
        }
    }

    /// True at something that a parser or control can contain, but a block of statements cannot.
    fn at_member_keyword(&self) -> bool {
        use Keyword::*;
        match self.kind() {
            Kind::Keyword(Action | Table) => Self::is_name(self.kind_at(1)),
            Kind::Keyword(Apply) => self.kind_at(1) == Kind::LBrace,
            Kind::Keyword(State) => Self::is_name(self.kind_at(1)) && self.kind_at(2) == Kind::LBrace,
            _ => false,
        }
    }

    /// True if a line starts with a keyword that starts a statement or a local declaration.
    fn at_element_keyword(&self) -> bool {
        use Keyword::*;
        let Kind::Keyword(keyword) = self.kind() else {
            return false;
        };
        let begins = matches!(
            keyword,
            Action
                | Actions
                | Apply
                | Bit
                | Bool
                | Const
                | Entries
                | Exit
                | For
                | If
                | Key
                | Return
                | State
                | Switch
                | Table
                | Transition
                | Varbit
        );
        begins && self.token().line_start
    }

    /// Skips `{ … }`.
    fn skip_braces(&mut self) {
        let mut depth = 0;
        loop {
            match self.kind() {
                Kind::Eof => return,
                Kind::LBrace => depth += 1,
                Kind::RBrace => depth -= 1,
                // The closing brace is missing.
                _ if self.at_top_level_keyword() && self.token().line_start => return,
                _ => {}
            }
            self.bump();
            if depth == 0 {
                return;
            }
        }
    }

    /// Parses `{ element … }`. An error in one element does not affect the others.
    fn braced(&mut self, what: &str, element: impl FnMut(&mut Self) -> Parse<()>) -> Parse<()> {
        self.braced_until(what, |_| false, element)
    }

    /// Like [`Parser::braced`]; `outside` recognises what cannot be in the list, so that its `}` is missing.
    fn braced_until(
        &mut self,
        what: &str,
        outside: impl Fn(&Self) -> bool,
        element: impl FnMut(&mut Self) -> Parse<()>,
    ) -> Parse<()> {
        let open = self.span();
        if !self.eat(Kind::LBrace) {
            let missing = self.expected::<()>(&format!("`{{` to begin {what}"));
            // Something on a separate line is probably the first element.
            if !self.token().line_start || matches!(self.kind(), Kind::RBrace | Kind::Eof) || outside(self) {
                return missing;
            }
        }
        self.elements(what, open, outside, element)
    }

    /// Parses the elements of a list and its `}`; the list starts at `open`.
    fn elements(
        &mut self,
        what: &str,
        open: Span,
        outside: impl Fn(&Self) -> bool,
        mut element: impl FnMut(&mut Self) -> Parse<()>,
    ) -> Parse<()> {
        loop {
            if self.eat(Kind::RBrace) {
                return Ok(());
            }
            if self.at(Kind::Eof) || self.at_top_level_keyword() || outside(self) {
                let diagnostic = self
                    .expected_error(&format!("`}}` to end {what}"))
                    .related(open, format!("{what} begins here"));
                // The elements so far are valid.
                let _ = self.fail::<()>(diagnostic);
                return Ok(());
            }
            let start = self.pos;
            let outer = std::mem::take(&mut self.open_braces);
            if element(self).is_err() {
                self.recover(self.open_braces);
                // A brace here belongs to the list.
                if self.pos == start && !self.at(Kind::RBrace) {
                    self.bump();
                }
            }
            self.open_braces = outer;
        }
    }

    // Annotations.

    /// `optAnnotations`, and pragmas.
    fn annotations(&mut self) -> Parse<Vec<Annotation>> {
        let mut annotations = Vec::new();
        loop {
            self.finish_pragmas(false);
            while let Some((pragma, rest)) = self.pragmas.split_first()
                && pragma.at == self.pos
            {
                self.pragmas = rest;
                annotations.push(self.pragma(pragma));
            }
            if !self.at(Kind::At) {
                return Ok(annotations);
            }
            annotations.push(self.annotation()?);
        }
    }

    /// Warns about pragmas where annotations are not allowed.
    fn finish_pragmas(&mut self, all: bool) {
        while let Some((pragma, rest)) = self.pragmas.split_first()
            && (all || pragma.at < self.pos)
        {
            self.pragmas = rest;
            self.diagnostics.push(
                Diagnostic::warning(
                    "ignored-pragma",
                    pragma.span,
                    "ignored a pragma that precedes nothing it can apply to",
                )
                .note("pragmas are allowed where annotations are: before declarations and blocks"),
            );
        }
    }

    fn pragma(&self, pragma: &Pragma) -> Annotation {
        let (name, rest) = pragma.tokens.split_first().expect("pragmas have names");
        let tokens: Vec<_> = rest.iter().map(|&t| self.annotation_token(t)).collect();
        let body = if tokens.is_empty() { AnnotationBody::Empty } else { AnnotationBody::Tokens(tokens) };
        Annotation { name: self.ident(*name), body, span: pragma.span }
    }

    fn annotation_token(&self, token: Token) -> AnnotationToken {
        let is_string = token.kind == Kind::String;
        let text = if is_string { literal::unescape(self.text(token)) } else { self.text(token).to_string() };
        AnnotationToken { text, is_string, span: token.span }
    }

    /// `@name`, `@name(…)`, `@name[…]`
    fn annotation(&mut self) -> Parse<Annotation> {
        let start = self.bump().span;
        let token = self.token();
        if !token.is_word() {
            return self.expected("the annotation's name after `@`");
        }
        self.bump();
        let name = self.ident(token);
        let body = match self.kind() {
            Kind::LParen => AnnotationBody::Tokens(self.annotation_tokens()?),
            Kind::LBracket => self.structured_annotation()?,
            _ => AnnotationBody::Empty,
        };
        Ok(Annotation { name, body, span: self.since(start) })
    }

    fn annotation_tokens(&mut self) -> Parse<Vec<AnnotationToken>> {
        let open = self.bump().span;
        let mut tokens = Vec::new();
        let mut depth = 0;
        loop {
            match self.kind() {
                Kind::Eof => {
                    let failed = self.fail(
                        Diagnostic::error("syntax", open, "this `(` of an annotation is never closed")
                            .note("parentheses in an annotation must match"),
                    );
                    // It has swallowed the rest of the program.
                    self.give_up();
                    return failed;
                }
                Kind::LParen => depth += 1,
                Kind::RParen if depth == 0 => {
                    self.bump();
                    return Ok(tokens);
                }
                Kind::RParen => depth -= 1,
                _ => {}
            }
            let token = self.bump();
            tokens.push(self.annotation_token(token));
        }
    }

    fn structured_annotation(&mut self) -> Parse<AnnotationBody> {
        let open = self.bump().span;
        let is_pairs = Self::is_name(self.kind()) && self.kind_at(1) == Kind::Assign;
        let mut pairs = Vec::new();
        let mut exprs = Vec::new();
        while !self.at(Kind::RBracket) {
            if is_pairs {
                let key = self.name("a key")?;
                self.expect(Kind::Assign)?;
                pairs.push((key, self.expr()?));
            } else {
                exprs.push(self.expr()?);
            }
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        self.expect_close(Kind::RBracket, open)?;
        Ok(if is_pairs { AnnotationBody::KeyValues(pairs) } else { AnnotationBody::Exprs(exprs) })
    }

    /// Reports annotations where the grammar allows none.
    fn no_annotations(&mut self, annotations: &[Annotation], before: &str) {
        if let Some(annotation) = annotations.first() {
            let message = format!("an annotation is not allowed before {before}");
            self.report(
                Diagnostic::error("syntax", annotation.span, message)
                    .note("annotations are allowed before declarations, blocks and `for`"),
            );
        }
    }
}

fn join(a: Span, b: Span) -> Span {
    if a.file == b.file { Span { file: a.file, lo: a.lo.min(b.lo), hi: a.hi.max(b.hi) } } else { a }
}

/// Shortens a text for messages.
fn shorten(text: &str) -> String {
    if text.chars().count() <= 40 { text.to_string() } else { text.chars().take(40).chain(['…']).collect() }
}
