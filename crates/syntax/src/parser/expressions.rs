//! `expression`, arguments and key sets.

use super::{Name, Parse, Parser, join};
use crate::ast::{Arg, BinaryOp, Expr, ExprKind, IntLit, Path, TypeKind, TypeRef, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Keyword, Kind};
use crate::literal;
use crate::span::Span;

impl Parser<'_> {
    /// `expression`
    pub(super) fn expr(&mut self) -> Parse<Expr> {
        let outer = std::mem::replace(&mut self.greater_closes, false);
        let result = self.nested(Self::conditional);
        self.greater_closes = outer;
        result
    }

    /// An expression, in which `?:` is the weakest operator.
    pub(super) fn conditional(&mut self) -> Parse<Expr> {
        let left = self.unary()?;
        self.conditional_from(left)
    }

    /// Continues an expression whose first operand, with its postfix operators, is `left`.
    fn conditional_from(&mut self, left: Expr) -> Parse<Expr> {
        let condition = self.binary_from(left, 0)?;
        if !self.eat(Kind::Question) {
            return Ok(condition);
        }
        let height = self.height;
        let then = self.expr()?;
        let height = height.max(self.height);
        self.expect_after(Kind::Colon, "the second operand of `?`")?;
        // P4_16 "Expressions": precedence follows C, where `?:` is right-associative. (The precedences in the appendix,
        // read by Bison's rules, make it left-associative, which is useful only if all operands are `bool`.)
        let other = self.nested(Self::conditional)?;
        self.raise(height, self.height)?;
        let span = join(condition.span, other.span);
        let kind = ExprKind::Conditional(Box::new(condition), Box::new(then), Box::new(other));
        Ok(Expr { kind, span })
    }

    /// Returns the binary operator at the cursor, its precedence (P4_16 appendix "P4 grammar") and its number of
    /// tokens.
    fn operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let (op, precedence) = match self.kind() {
            Kind::Greater | Kind::GreaterEq if self.greater_closes => return None,
            // P4_16 "Expressions": the two `>` of a shift are contiguous.
            Kind::Greater if self.token().joint && self.kind_at(1) == Kind::Greater => {
                return Some((BinaryOp::Shr, 8, 2));
            }
            Kind::Greater if self.token().joint => return None, // `>>=`
            // `a[lo +: width]`
            Kind::Plus if self.kind_at(1) == Kind::Colon => return None,
            Kind::OrOr => (BinaryOp::Or, 1),
            Kind::AndAnd => (BinaryOp::And, 2),
            Kind::EqEq => (BinaryOp::Eq, 3),
            Kind::NotEq => (BinaryOp::Ne, 3),
            Kind::Less => (BinaryOp::Lt, 4),
            Kind::Greater => (BinaryOp::Gt, 4),
            Kind::LessEq => (BinaryOp::Le, 4),
            Kind::GreaterEq => (BinaryOp::Ge, 4),
            Kind::Pipe => (BinaryOp::BitOr, 5),
            Kind::Caret => (BinaryOp::BitXor, 6),
            Kind::Amp => (BinaryOp::BitAnd, 7),
            Kind::Shl => (BinaryOp::Shl, 8),
            Kind::PlusPlus => (BinaryOp::Concat, 9),
            Kind::Plus => (BinaryOp::Add, 9),
            Kind::Minus => (BinaryOp::Sub, 9),
            Kind::SatAdd => (BinaryOp::SatAdd, 9),
            Kind::SatSub => (BinaryOp::SatSub, 9),
            Kind::Star => (BinaryOp::Mul, 10),
            Kind::Slash => (BinaryOp::Div, 10),
            Kind::Percent => (BinaryOp::Mod, 10),
            _ => return None,
        };
        Some((op, precedence, 1))
    }

    /// Continues with operators that bind more strongly than `min`; all are left-associative.
    fn binary_from(&mut self, mut left: Expr, min: u8) -> Parse<Expr> {
        while let Some((op, precedence, tokens)) = self.operator() {
            if precedence <= min {
                break;
            }
            let height = self.height;
            for _ in 0..tokens {
                self.bump();
            }
            let right = self.nested(|p| {
                let right = p.unary()?;
                p.binary_from(right, precedence)
            })?;
            self.raise(height, self.height)?;
            let span = join(left.span, right.span);
            left = Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parse<Expr> {
        let start = self.span();
        let op = match self.kind() {
            Kind::Minus => UnaryOp::Neg,
            Kind::Plus => UnaryOp::Plus,
            Kind::Not => UnaryOp::Not,
            Kind::Tilde => UnaryOp::Complement,
            Kind::LParen => return self.parenthesised(),
            _ => {
                let primary = self.primary()?;
                return self.postfix_from(primary, false);
            }
        };
        self.bump();
        let operand = self.nested(Self::unary)?;
        self.raise(self.height, 0)?;
        Ok(Expr { kind: ExprKind::Unary(op, Box::new(operand)), span: self.since(start) })
    }

    /// `( expression )` with postfix operators, or the cast `( typeRef ) expression`.
    fn parenthesised(&mut self) -> Parse<Expr> {
        let open = self.bump().span;
        let outer = std::mem::replace(&mut self.greater_closes, false);
        let inner = self.nested(|p| p.in_parens(false));
        self.greater_closes = outer;
        let inner = inner?;
        self.expect_close(Kind::RParen, open)?;
        match inner {
            Ok(inner) => match self.cast_to_unknown(&inner) {
                Some(ty) => self.cast(open, ty),
                None => {
                    let inner = Expr { span: self.since(open), ..inner };
                    self.postfix_from(inner, false)
                }
            },
            Err(ty) => self.cast(open, ty),
        }
    }

    /// The contents of parentheses: an expression or, with `sets`, a set; or the type of a cast.
    fn in_parens(&mut self, sets: bool) -> Parse<Result<Expr, TypeRef>> {
        let left = if self.at_type() {
            let ty = self.type_ref()?;
            if self.at(Kind::RParen) {
                return Ok(Err(ty));
            }
            // A member of the type, or a constructor call.
            let left = self.type_operand(ty);
            let left = self.postfix_from(left, false)?;
            self.conditional_from(left)?
        } else if sets {
            return Ok(Ok(self.simple_keyset()?));
        } else {
            self.conditional()?
        };
        Ok(Ok(if sets { self.set_from(left)? } else { left }))
    }

    fn cast(&mut self, start: Span, ty: TypeRef) -> Parse<Expr> {
        let height = self.height;
        let operand = self.nested(Self::unary)?;
        self.raise(height, self.height)?;
        Ok(Expr { kind: ExprKind::Cast(Box::new(ty), Box::new(operand)), span: self.since(start) })
    }

    /// `(N) x` with an undeclared `N` can only be a cast.
    fn cast_to_unknown(&self, inner: &Expr) -> Option<TypeRef> {
        let ExprKind::Path(path) = &inner.kind else {
            return None;
        };
        // The tokens are `( N )`, the last of which was just read.
        let name = self.tokens[self.pos - 2];
        let undeclared = self.names[name.symbol.0 as usize].is_none();
        let operand = matches!(self.kind(), Kind::Ident | Kind::Integer | Kind::LBrace);
        if undeclared && operand {
            Some(TypeRef { kind: TypeKind::Named(path.clone(), Vec::new()), span: inner.span })
        } else {
            None
        }
    }

    fn primary(&mut self) -> Parse<Expr> {
        let start = self.span();
        self.height = 1;
        let kind = match self.kind() {
            Kind::Integer => ExprKind::Int(self.integer()),
            Kind::String => {
                let token = self.bump();
                ExprKind::String(literal::unescape(self.text(token)))
            }
            Kind::Dots => {
                self.bump();
                ExprKind::Dots
            }
            Kind::Invalid => {
                self.bump();
                ExprKind::Invalid
            }
            Kind::Keyword(keyword @ (Keyword::True | Keyword::False)) => {
                self.bump();
                ExprKind::Bool(keyword == Keyword::True)
            }
            Kind::Keyword(Keyword::This) => {
                self.bump();
                ExprKind::This
            }
            Kind::LBrace => return self.nested(Self::braces),
            _ if self.at_type() => {
                let ty = self.nested(Self::operand_type)?;
                return Ok(self.type_operand(ty));
            }
            kind if kind == Kind::Dot || Self::is_name(kind) => {
                ExprKind::Path(self.path("a name after `.`")?)
            }
            _ => return self.expected("an expression"),
        };
        Ok(Expr { kind, span: self.since(start) })
    }

    /// A type in an expression. `T[3]` is not one: it cannot be constructed and has no members.
    fn operand_type(&mut self) -> Parse<TypeRef> {
        let start = self.span();
        if !self.is_type_name_at(0) {
            return self.type_ref();
        }
        let path = self.path("a type")?;
        let args = if self.at(Kind::Less) { self.type_args()? } else { Vec::new() };
        Ok(TypeRef { kind: TypeKind::Named(path, args), span: self.since(start) })
    }

    /// A type as an operand: a constructor call or a member must follow.
    fn type_operand(&mut self, ty: TypeRef) -> Expr {
        let named = matches!(ty.kind, TypeKind::Named(..));
        let suits = match self.kind() {
            Kind::Dot => named || ty.kind == TypeKind::Error,
            Kind::LParen => named,
            _ => false,
        };
        if !suits && self.error_at != Some(self.pos) {
            let (what, cast) = match &ty.kind {
                TypeKind::Named(path, _) => (format!("`{}`", path.name.text), path.name.text.as_str()),
                _ => ("this".to_string(), "T"),
            };
            self.error_at = Some(self.pos);
            let mut diagnostic =
                Diagnostic::error("syntax", ty.span, format!("expected an expression, but {what} is a type"));
            diagnostic = if named {
                diagnostic.note(format!(
                    "a type in an expression is a cast `({cast}) e`, a constructor call `{cast}(…)`, or before `.member`"
                ))
            } else {
                diagnostic.note("a cast has its type in parentheses: `(T) e`")
            };
            self.report(diagnostic);
        }
        let span = ty.span;
        Expr { kind: ExprKind::Type(Box::new(ty)), span }
    }

    /// Reads the integer literal at the cursor.
    pub(super) fn integer(&mut self) -> IntLit {
        let token = self.bump();
        match literal::parse(self.text(token)) {
            Ok(literal) => literal,
            Err(message) => {
                self.report(
                    Diagnostic::error("bad-integer", token.span, message)
                        .note("integer literals look like 10, 0x1F, 0b1010, 0o17, 8w255, 16s0xFF"),
                );
                IntLit { value: 0.into(), width: None }
            }
        }
    }

    /// Adds postfix operators. In a statement, `<` can only start type arguments.
    pub(super) fn postfix_from(&mut self, mut base: Expr, in_statement: bool) -> Parse<Expr> {
        loop {
            let height = self.height;
            let start = base.span;
            let kind = match self.kind() {
                Kind::Dot => {
                    self.bump();
                    let member = self.name("a member's name after `.`")?;
                    self.raise(height, 0)?;
                    ExprKind::Member(Box::new(base), member)
                }
                Kind::LBracket => self.index(base)?,
                Kind::LParen => {
                    let args = self.args()?;
                    self.raise(height, self.height)?;
                    ExprKind::Call(Box::new(base), Vec::new(), args)
                }
                Kind::Less if in_statement || self.at_call_type_args() => {
                    let type_args = self.type_args()?;
                    let height = height.max(self.height);
                    if !self.at(Kind::LParen) {
                        return self.expected("`(` and the arguments after the type arguments");
                    }
                    let args = self.args()?;
                    self.raise(height, self.height)?;
                    ExprKind::Call(Box::new(base), type_args, args)
                }
                _ => return Ok(base),
            };
            base = Expr { kind, span: self.since(start) };
        }
    }

    /// `[i]`, `[hi:lo]`, `[lo+:width]` after `base`
    fn index(&mut self, base: Expr) -> Parse<ExprKind> {
        let height = self.height;
        let open = self.bump().span;
        let first = self.expr()?;
        let height = height.max(self.height);
        let base = Box::new(base);
        let first = Box::new(first);
        let kind = if self.eat(Kind::Colon) {
            ExprKind::Slice(base, first, Box::new(self.expr()?))
        } else if self.at(Kind::Plus) && self.kind_at(1) == Kind::Colon {
            self.bump();
            self.bump();
            ExprKind::PlusSlice(base, first, Box::new(self.expr()?))
        } else {
            ExprKind::Index(base, first)
        };
        self.expect_close(Kind::RBracket, open)?;
        self.raise(height, self.height)?;
        Ok(kind)
    }

    /// `( argumentList )`
    pub(super) fn args(&mut self) -> Parse<Vec<Arg>> {
        let open = self.expect(Kind::LParen)?.span;
        let mut args = Vec::new();
        let mut height = 0;
        if !self.at(Kind::RParen) {
            loop {
                let named = Self::is_name(self.kind()) && self.kind_at(1) == Kind::Assign;
                let name = if named { Some(self.name("an argument's name")?) } else { None };
                if named {
                    self.bump();
                }
                args.push(Arg { name, value: self.expr_or_dont_care()? });
                height = height.max(self.height);
                if !self.eat(Kind::Comma) {
                    break;
                }
            }
        }
        self.expect_separated(Kind::RParen, open)?;
        self.height = height;
        Ok(args)
    }

    /// Expects the end of a list with commas.
    pub(super) fn expect_separated(&mut self, kind: Kind, open: Span) -> Parse<()> {
        if self.eat(kind) {
            return Ok(());
        }
        let diagnostic = self
            .expected_error(&format!("`,` or `{}`", kind.text()))
            .related(open, format!("the list begins with this `{}`", opening(kind)));
        self.fail(diagnostic)
    }

    fn expr_or_dont_care(&mut self) -> Parse<Expr> {
        let span = self.span();
        if self.eat_keyword(Keyword::DontCare) {
            self.height = 1;
            return Ok(Expr { kind: ExprKind::DontCare, span });
        }
        self.expr()
    }

    /// `{ … }`: a list, or fields with their names.
    fn braces(&mut self) -> Parse<Expr> {
        let open = self.bump().span;
        self.open_braces += 1;
        let is_record = Self::is_name(self.kind()) && self.kind_at(1) == Kind::Assign;
        let mut exprs = Vec::new();
        let mut fields = Vec::new();
        let mut dots = false;
        let mut height = 0;
        while !self.at(Kind::RBrace) {
            // A final `...` sets omitted elements to their defaults.
            let after = if self.kind_at(1) == Kind::Comma { 2 } else { 1 };
            if self.at(Kind::Dots) && self.kind_at(after) == Kind::RBrace {
                self.bump();
                self.eat(Kind::Comma);
                dots = true;
                break;
            }
            if is_record {
                let name = self.name("a field's name")?;
                self.expect_after(Kind::Assign, "the field's name")?;
                fields.push((name, self.expr()?));
            } else {
                exprs.push(self.expr()?);
            }
            height = height.max(self.height);
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        self.expect_separated(Kind::RBrace, open)?;
        self.open_braces -= 1;
        self.raise(height, 0)?;
        let kind = if is_record { ExprKind::Record(fields, dots) } else { ExprKind::List(exprs, dots) };
        Ok(Expr { kind, span: self.since(open) })
    }

    /// `keysetExpression`
    pub(super) fn keyset(&mut self) -> Parse<Expr> {
        if !self.at(Kind::LParen) {
            return self.simple_keyset();
        }
        // `( set, … )`, `( set )`, or an expression that starts with a parenthesis.
        let open = self.bump().span;
        let first = match self.nested(|p| p.in_parens(true))? {
            Ok(first) => first,
            Err(ty) => {
                self.expect_close(Kind::RParen, open)?;
                let left = self.cast(open, ty)?;
                let left = self.conditional_from(left)?;
                return self.set_from(left);
            }
        };
        if self.at(Kind::Comma) {
            let mut sets = vec![first];
            let mut height = self.height;
            while self.eat(Kind::Comma) {
                sets.push(self.nested(Self::simple_keyset)?);
                height = height.max(self.height);
            }
            self.expect_separated(Kind::RParen, open)?;
            self.raise(height, 0)?;
            return Ok(Expr { kind: ExprKind::Tuple(sets), span: self.since(open) });
        }
        self.expect_close(Kind::RParen, open)?;
        if is_set(&first) {
            return Ok(Expr { span: self.since(open), ..first });
        }
        let operand = match self.cast_to_unknown(&first) {
            Some(ty) => self.cast(open, ty)?,
            None => self.postfix_from(Expr { span: self.since(open), ..first }, false)?,
        };
        let left = self.conditional_from(operand)?;
        self.set_from(left)
    }

    /// `simpleKeysetExpression`
    fn simple_keyset(&mut self) -> Parse<Expr> {
        let span = self.span();
        self.height = 1;
        if self.eat_keyword(Keyword::Default) {
            return Ok(Expr { kind: ExprKind::Default, span });
        }
        if self.eat_keyword(Keyword::DontCare) {
            return Ok(Expr { kind: ExprKind::DontCare, span });
        }
        let left = self.expr()?;
        self.set_from(left)
    }

    /// Continues with `&&& mask` or `.. high`.
    fn set_from(&mut self, left: Expr) -> Parse<Expr> {
        let op = match self.kind() {
            Kind::Mask => BinaryOp::Mask,
            Kind::Range => BinaryOp::Range,
            _ => return Ok(left),
        };
        let height = self.height;
        self.bump();
        let right = self.expr()?;
        self.raise(height, self.height)?;
        let span = join(left.span, right.span);
        Ok(Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span })
    }

    /// `expression`, or `expression .. expression`: what `for` iterates over.
    pub(super) fn collection(&mut self) -> Parse<Expr> {
        let left = self.expr()?;
        if self.at(Kind::Range) { self.set_from(left) } else { Ok(left) }
    }

    /// The start of a statement: `lvalue`, or the type of a direct application.
    pub(super) fn statement_operand(&mut self) -> Parse<Expr> {
        match self.kind() {
            Kind::LParen => {
                let open = self.bump().span;
                let inner = self.nested(Self::statement_operand)?;
                self.expect_close(Kind::RParen, open)?;
                let inner = Expr { span: self.since(open), ..inner };
                self.postfix_from(inner, true)
            }
            Kind::Dot if !self.is_type_name_at(0) => {
                let start = self.span();
                self.height = 1;
                let path = self.path("a name after `.`")?;
                let base = Expr { kind: ExprKind::Path(path), span: self.since(start) };
                self.postfix_from(base, true)
            }
            _ => {
                let primary = self.primary()?;
                self.postfix_from(primary, true)
            }
        }
    }

    /// A name as an expression.
    pub(super) fn path_expr(&mut self, path: Path, span: Span) -> Expr {
        self.height = 1;
        Expr { kind: ExprKind::Path(path), span }
    }

    /// True if the name at the cursor was declared, but not as a type.
    pub(super) fn at_other_name(&self) -> bool {
        self.lookup_at(0) == Some(Name::Other)
    }
}

fn is_set(expr: &Expr) -> bool {
    matches!(
        expr.kind,
        ExprKind::Default | ExprKind::DontCare | ExprKind::Binary(BinaryOp::Mask | BinaryOp::Range, ..)
    )
}

fn opening(closing: Kind) -> &'static str {
    match closing {
        Kind::RParen => "(",
        Kind::RBracket => "[",
        Kind::RBrace => "{",
        _ => "<",
    }
}
