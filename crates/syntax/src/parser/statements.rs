//! `statement`, `blockStatement` and the statements of parser states.

use super::{Failed, Name, Parse, Parser};
use crate::ast::{
    Annotation, BinaryOp, Block, Decl, DeclKind, Expr, ExprKind, Instance, Stmt, StmtKind, SwitchCase,
    TypeKind, TypeRef, VarDecl,
};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Keyword, Kind};
use crate::span::Span;

impl Parser<'_> {
    /// `blockStatement`, after its annotations.
    pub(super) fn block(&mut self, annotations: Vec<Annotation>, what: &str) -> Parse<Block> {
        let open = self.span();
        let mut stmts = Vec::new();
        self.scope(|p| {
            p.braced_until(what, Self::at_member_keyword, |p| {
                stmts.push(p.nested(Self::statement)?);
                Ok(())
            })
        })?;
        Ok(Block { annotations, stmts, span: self.since(open) })
    }

    /// `statementOrDeclaration`
    pub(super) fn statement(&mut self) -> Parse<Stmt> {
        use Keyword::*;
        let start = self.span();
        let annotations = self.annotations()?;
        self.fix_statement_keyword()?;
        if self.in_state
            && let Kind::Keyword(keyword @ (Switch | Return | Exit | For | Break | Continue)) = self.kind()
        {
            // P4_16 `parserStatement`
            let message = format!("`{}` is not allowed in a parser state", keyword.text());
            self.report(Diagnostic::error("syntax", self.span(), message).note(
                "statements in a parser state: assignments, calls, `if`, blocks, variables and constants; \
                 a state ends with `transition`",
            ));
        }
        let kind = match self.kind() {
            Kind::LBrace => {
                return Ok(Stmt {
                    kind: StmtKind::Block(self.block(annotations, "the block")?),
                    span: self.since(start),
                });
            }
            Kind::Keyword(For) => self.for_loop(annotations)?,
            Kind::Keyword(Const) => {
                let kind = self.constant()?;
                StmtKind::Decl(Box::new(Decl { annotations, kind, span: self.since(start) }))
            }
            Kind::Semicolon | Kind::Keyword(If | Switch | Return | Exit | Break | Continue) => {
                let what = format!("`{}`", self.kind().text());
                self.no_annotations(&annotations, &what);
                self.keyword_statement()?
            }
            _ => {
                let kind = self.declaration_or_simple(start, annotations)?;
                let what = match kind {
                    StmtKind::Decl(_) => "the declaration",
                    StmtKind::Assign(..) => "the assignment",
                    _ => "the call",
                };
                self.semicolon(what)?;
                kind
            }
        };
        Ok(Stmt { kind, span: self.since(start) })
    }

    /// Statements that start with a keyword, and `;`.
    fn keyword_statement(&mut self) -> Parse<StmtKind> {
        let token = self.bump();
        let kind = match token.kind {
            Kind::Semicolon => return Ok(StmtKind::Empty),
            Kind::Keyword(Keyword::If) => return self.conditional_statement(),
            Kind::Keyword(Keyword::Switch) => return self.switch(),
            Kind::Keyword(Keyword::Return) => {
                StmtKind::Return(if self.at(Kind::Semicolon) { None } else { Some(self.expr()?) })
            }
            Kind::Keyword(Keyword::Exit) => StmtKind::Exit,
            Kind::Keyword(Keyword::Break) => StmtKind::Break,
            _ => StmtKind::Continue,
        };
        self.semicolon(&format!("`{}`", token.kind.text()))?;
        Ok(kind)
    }

    /// `( expression )` after a keyword
    fn parenthesised_after(&mut self, keyword: &str) -> Parse<Expr> {
        let open = self.span();
        if !self.eat(Kind::LParen) {
            return self.expected(&format!("`(` after `{keyword}`"));
        }
        let expr = self.expr()?;
        self.expect_close(Kind::RParen, open)?;
        Ok(expr)
    }

    /// `if`, and the `else if`s that follow; a long chain of them does not nest here, but counts as nesting because
    /// other code walks the tree recursively.
    fn conditional_statement(&mut self) -> Parse<StmtKind> {
        let mut branches = Vec::new();
        let mut last = None;
        let mut start = self.last_span();
        loop {
            let condition = self.parenthesised_after("if")?;
            let then = Box::new(self.nested(Self::branch)?);
            branches.push((start, condition, then));
            if self.kind_at(1) == Kind::LBrace || self.kind_at(1) == Kind::Keyword(Keyword::If) {
                self.fix_keyword(&[Keyword::Else]);
            }
            let fused = self.fused_else_if();
            if !fused && !self.eat_keyword(Keyword::Else) {
                break;
            }
            if branches.len() > super::EXPRESSION_HEIGHT_MAX as usize {
                return self.too_deep(format!("more than {} `else if`", super::EXPRESSION_HEIGHT_MAX));
            }
            start = self.span();
            if !fused && !self.eat_keyword(Keyword::If) {
                last = Some(Box::new(self.nested(Self::branch)?));
                break;
            }
        }
        let mut otherwise = last;
        while branches.len() > 1 {
            let (start, condition, then) = branches.pop().expect("more than one");
            let span = self.since(start);
            otherwise = Some(Box::new(Stmt { kind: StmtKind::If(condition, then, otherwise), span }));
        }
        let (_, condition, then) = branches.pop().expect("the first");
        Ok(StmtKind::If(condition, then, otherwise))
    }

    /// Reports and skips another language's word for `else if`.
    fn fused_else_if(&mut self) -> bool {
        let token = self.token();
        let is_word = token.kind == Kind::Ident && matches!(self.text(token), "elseif" | "elsif" | "elif");
        if !is_word || self.kind_at(1) != Kind::LParen || self.lookup_at(0).is_some() {
            return false;
        }
        let message = format!("expected `else if`, found `{}`", self.text(token));
        self.report(Diagnostic::error("syntax", token.span, message));
        self.bump();
        true
    }

    /// A statement outside a block; it still has its own scope.
    fn branch(&mut self) -> Parse<Stmt> {
        if self.at(Kind::RBrace) || self.at(Kind::Eof) {
            return self.expected("a statement");
        }
        self.scope(Self::statement)
    }

    /// `switch ( expression ) { switchCases }`
    fn switch(&mut self) -> Parse<StmtKind> {
        let selector = self.parenthesised_after("switch")?;
        let mut cases = Vec::new();
        self.braced("the switch", |p| {
            let start = p.span();
            let span = p.span();
            let label = if p.eat_keyword(Keyword::Default) {
                Expr { kind: ExprKind::Default, span }
            } else if p.at(Kind::LBrace) {
                return p.expected("a switch label: an action, an expression or `default`");
            } else {
                p.expr()?
            };
            p.expect_after(Kind::Colon, "the switch label")?;
            let annotations = p.annotations()?;
            let body = if p.at(Kind::LBrace) {
                Some(p.block(annotations, "the case's block")?)
            } else {
                p.no_annotations(&annotations, "a switch label");
                None
            };
            cases.push(SwitchCase { label, body, span: p.since(start) });
            Ok(())
        })?;
        Ok(StmtKind::Switch(selector, cases))
    }

    /// `forStatement`, after its annotations
    fn for_loop(&mut self, mut annotations: Vec<Annotation>) -> Parse<StmtKind> {
        self.bump();
        let open = self.span();
        if !self.eat(Kind::LParen) {
            return self.expected("`(` after `for`");
        }
        self.scope(|p| {
            let mut init = Vec::new();
            if !p.at(Kind::Semicolon) {
                let start = p.span();
                let of_variable = p.annotations()?;
                if p.at_declaration() {
                    let ty = p.type_ref()?;
                    let symbol = p.token().symbol;
                    let name = p.name("the loop variable's name")?;
                    if p.eat_keyword(Keyword::In) {
                        let collection = p.collection()?;
                        p.expect_close(Kind::RParen, open)?;
                        p.declare(symbol, Name::Other);
                        let body = Box::new(p.nested(Self::branch)?);
                        annotations.extend(of_variable);
                        return Ok(StmtKind::ForIn { annotations, ty, name, collection, body });
                    }
                    let (ty, init_expr) = p.variable_rest(ty)?;
                    p.declare(symbol, Name::Other);
                    let kind = DeclKind::Variable(VarDecl { ty, name, init: init_expr });
                    let decl = Decl { annotations: of_variable, kind, span: p.since(start) };
                    init.push(Stmt { kind: StmtKind::Decl(Box::new(decl)), span: p.since(start) });
                } else {
                    let kind = p.declaration_or_simple(start, of_variable)?;
                    init.push(Stmt { kind, span: p.since(start) });
                }
                while p.eat(Kind::Comma) {
                    let start = p.span();
                    let annotations = p.annotations()?;
                    let kind = p.declaration_or_simple(start, annotations)?;
                    init.push(Stmt { kind, span: p.since(start) });
                }
            }
            p.expect_after(Kind::Semicolon, "the beginning of `for`")?;
            let cond = p.expr()?;
            p.expect_after(Kind::Semicolon, "the condition of `for`")?;
            let mut update = Vec::new();
            while !p.at(Kind::RParen) {
                let start = p.span();
                let kind = p.declaration_or_simple(start, Vec::new())?;
                if matches!(kind, StmtKind::Decl(_)) {
                    let message = "a declaration is not allowed in the update of `for`";
                    p.report(Diagnostic::error("syntax", p.since(start), message));
                }
                update.push(Stmt { kind, span: p.since(start) });
                if !p.eat(Kind::Comma) {
                    break;
                }
            }
            p.expect_close(Kind::RParen, open)?;
            let body = Box::new(p.nested(Self::branch)?);
            Ok(StmtKind::For { annotations, init, cond, update, body })
        })
    }

    /// True if the declaration of a variable starts here: with a type, or with two consecutive names.
    pub(super) fn at_declaration(&self) -> bool {
        if self.at_type() {
            // `T.apply()`, `error.E`
            let after_name = if self.at(Kind::Dot) { 2 } else { 1 };
            return self.kind_at(after_name) != Kind::Dot;
        }
        let name = if self.at(Kind::Dot) { 1 } else { 0 };
        Self::is_name(self.kind_at(name)) && Self::is_name(self.kind_at(name + 1))
    }

    /// A variable, an instance, an assignment or a call, without its `;`.
    fn declaration_or_simple(&mut self, start: Span, annotations: Vec<Annotation>) -> Parse<StmtKind> {
        if self.at_declaration() {
            let ty = self.type_ref()?;
            match self.kind() {
                // Direct application of a specialised type.
                Kind::Dot => {
                    let span = ty.span;
                    let base = Expr { kind: ExprKind::Type(Box::new(ty)), span };
                    let operand = self.postfix_from(base, true)?;
                    return self.assignment_or_call(operand, annotations);
                }
                Kind::LParen => return self.local_instance(start, annotations, ty),
                _ => return self.variable(start, annotations, ty),
            }
        }
        let operand = if Self::is_name(self.kind()) && self.kind_at(1) == Kind::Less && !self.at_type() {
            // `f<T>(x);`, or `Unknown<T> x;`
            let start = self.span();
            let path = self.path("a name")?;
            let type_args = self.type_args()?;
            let height = self.height;
            if Self::is_name(self.kind()) {
                let ty = TypeRef { kind: TypeKind::Named(path, type_args), span: self.since(start) };
                return self.variable(start, annotations, ty);
            }
            let base = self.path_expr(path, start);
            if !self.at(Kind::LParen) {
                return self.expected("`(` and the arguments after the type arguments");
            }
            let args = self.args()?;
            self.raise(height, self.height)?;
            let call =
                Expr { kind: ExprKind::Call(Box::new(base), type_args, args), span: self.since(start) };
            self.postfix_from(call, true)?
        } else {
            if !self.at_operand() {
                return self.expected("a statement");
            }
            self.statement_operand()?
        };
        self.assignment_or_call(operand, annotations)
    }

    fn at_operand(&self) -> bool {
        matches!(self.kind(), Kind::LParen | Kind::Dot | Kind::Keyword(Keyword::This | Keyword::Error))
            || Self::is_name(self.kind())
            || self.at_type()
    }

    fn assignment_or_call(&mut self, left: Expr, annotations: Vec<Annotation>) -> Parse<StmtKind> {
        let what = if matches!(left.kind, ExprKind::Call(..)) { "a call" } else { "an assignment" };
        self.no_annotations(&annotations, what);
        let (op, tokens) = match self.kind() {
            Kind::Assign => (None, 1),
            Kind::MulAssign => (Some(BinaryOp::Mul), 1),
            Kind::DivAssign => (Some(BinaryOp::Div), 1),
            Kind::ModAssign => (Some(BinaryOp::Mod), 1),
            Kind::AddAssign => (Some(BinaryOp::Add), 1),
            Kind::SubAssign => (Some(BinaryOp::Sub), 1),
            Kind::SatAddAssign => (Some(BinaryOp::SatAdd), 1),
            Kind::SatSubAssign => (Some(BinaryOp::SatSub), 1),
            Kind::ShlAssign => (Some(BinaryOp::Shl), 1),
            Kind::Greater if self.token().joint && self.kind_at(1) == Kind::GreaterEq => {
                (Some(BinaryOp::Shr), 2)
            }
            Kind::AndAssign => (Some(BinaryOp::BitAnd), 1),
            Kind::OrAssign => (Some(BinaryOp::BitOr), 1),
            Kind::XorAssign => (Some(BinaryOp::BitXor), 1),
            _ if matches!(left.kind, ExprKind::Call(..)) => return Ok(StmtKind::Call(left)),
            Kind::PlusPlus | Kind::EqEq => {
                let message = format!("expected `=` or `(…)` to make a statement, found {}", self.found());
                let note = if self.at(Kind::EqEq) {
                    "an assignment is `a = b`"
                } else {
                    "to add 1, write `a = a + 1`"
                };
                return self.fail(Diagnostic::error("syntax", self.span(), message).note(note));
            }
            Kind::Keyword(Keyword::In) => {
                let diagnostic = self
                    .expected_error("`=` or `(…)`")
                    .note("declare the variable of a loop in the loop: `for (bit<8> i in 1 .. 6)`");
                return self.fail(diagnostic);
            }
            _ => {
                let diagnostic = self.expected_error("`=` or `(…)` to make a statement of this expression");
                return self.fail(match &left.kind {
                    ExprKind::Member(_, name) if self.at(Kind::Semicolon) => {
                        diagnostic.note(format!("a call has parentheses: `{}()`", name.text))
                    }
                    _ => diagnostic,
                });
            }
        };
        for _ in 0..tokens {
            self.bump();
        }
        let value = self.expr()?;
        Ok(StmtKind::Assign(left, op, value))
    }

    /// `name optInitializer` after the type
    fn variable(&mut self, start: Span, annotations: Vec<Annotation>, ty: TypeRef) -> Parse<StmtKind> {
        let symbol = self.token().symbol;
        if let TypeKind::Named(path, _) = &ty.kind
            && !Self::is_name(self.kind())
        {
            let note =
                format!("`{}` is a type here, so this starts the declaration of a variable", path.name.text);
            let diagnostic = self.expected_error("the variable's name").note(note);
            return self.fail(diagnostic);
        }
        let name = self.name("the variable's name")?;
        let (ty, init) = self.variable_rest(ty)?;
        self.declare(symbol, Name::Other);
        let kind = DeclKind::Variable(VarDecl { ty, name, init });
        Ok(StmtKind::Decl(Box::new(Decl { annotations, kind, span: self.since(start) })))
    }

    /// Parses what follows a variable's name.
    pub(super) fn variable_rest(&mut self, ty: TypeRef) -> Parse<(TypeRef, Option<Expr>)> {
        let ty = self.array_suffix(ty)?;
        let init = if self.eat(Kind::Assign) { Some(self.expr()?) } else { None };
        Ok((ty, init))
    }

    /// `T(args) x;` in a block. The grammar has no such statement; the analysis reports that no instance is allowed
    /// here, because it knows the reason.
    fn local_instance(&mut self, start: Span, annotations: Vec<Annotation>, ty: TypeRef) -> Parse<StmtKind> {
        let args = self.args()?;
        if !Self::is_name(self.kind()) {
            let span = ty.span;
            let callee = Expr { kind: ExprKind::Type(Box::new(ty)), span };
            let call =
                Expr { kind: ExprKind::Call(Box::new(callee), Vec::new(), args), span: self.since(span) };
            let operand = self.postfix_from(call, true)?;
            return self.assignment_or_call(operand, annotations);
        }
        let name = self.declared_name("the instance's name", Name::Other)?;
        let init = if self.eat(Kind::Assign) { Some(self.object_initializer()?) } else { None };
        let kind = DeclKind::Instance(Instance { ty, args, name, init });
        Ok(StmtKind::Decl(Box::new(Decl { annotations, kind, span: self.since(start) })))
    }

    /// Treats a misspelt word as a keyword if the next tokens fit that keyword.
    fn fix_statement_keyword(&mut self) -> Parse<()> {
        use Keyword::*;
        if self.kind() != Kind::Ident {
            return Ok(());
        }
        let token = self.token();
        if self.text(token) == "while" && self.lookup_at(0).is_none() && self.block_follows_parens() {
            return self.fail(Diagnostic::error("syntax", token.span, "P4 has no `while`").note(
                "loops are `for (start; condition; step) { … }` and `for (bit<8> i in 1 .. 6) { … }`",
            ));
        }
        match self.kind_at(1) {
            Kind::Semicolon => self.fix_keyword(&[Return, Exit, Break, Continue]),
            Kind::LParen if self.block_follows_parens() => self.fix_keyword(&[If, For, Switch]),
            Kind::Less if self.kind_at(2) == Kind::Integer => self.fix_keyword(&[Bit, Int, Varbit]),
            Kind::Keyword(True | False | Select) | Kind::Integer => self.fix_keyword(&[Return, Transition]),
            next if self.in_state && Self::is_name(next) => self.fix_keyword(&[Const, Transition]),
            next if Self::is_name(next) || self.is_type_at(1) => self.fix_keyword(&[Const, Return]),
            _ => {}
        }
        Ok(())
    }

    /// True if `( … ) {` follows the word at the cursor.
    fn block_follows_parens(&self) -> bool {
        let mut depth = 0;
        for ahead in 1..200 {
            match self.kind_at(ahead) {
                Kind::LParen => depth += 1,
                Kind::RParen => depth -= 1,
                Kind::Eof | Kind::LBrace | Kind::RBrace => return false,
                _ => {}
            }
            if depth == 0 {
                return self.kind_at(ahead + 1) == Kind::LBrace;
            }
        }
        false
    }

    /// Parses with other rules for statements.
    pub(super) fn with_state_rules<T>(
        &mut self,
        in_state: bool,
        parse: impl FnOnce(&mut Self) -> Result<T, Failed>,
    ) -> Parse<T> {
        let outer = std::mem::replace(&mut self.in_state, in_state);
        let result = parse(self);
        self.in_state = outer;
        result
    }
}
