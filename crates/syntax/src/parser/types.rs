//! `typeRef` and its parts.

use super::{Name, Parse, Parser};
use crate::ast::{Expr, ExprKind, Ident, IntLit, Path, TypeKind, TypeRef};
use crate::lexer::{Keyword, Kind};
use crate::span::Span;

impl Parser<'_> {
    /// True if a type starts here. A name that is not declared as a type does not count.
    pub(super) fn at_type(&self) -> bool {
        self.is_type_at(0)
    }

    pub(super) fn is_type_at(&self, ahead: usize) -> bool {
        use Keyword::*;
        match self.kind_at(ahead) {
            Kind::Keyword(Bool | Error | MatchKind | Bit | String | Int | Varbit | Tuple | Void) => true,
            // `list` is also a name.
            Kind::Keyword(List) => self.kind_at(ahead + 1) == Kind::Less,
            _ => self.is_type_name_at(ahead),
        }
    }

    /// `typeRef` where nothing else is allowed: any name is treated as a type's.
    pub(super) fn type_ref(&mut self) -> Parse<TypeRef> {
        let start = self.span();
        let mut ty = self.nested(Self::element_type)?;
        while self.at(Kind::LBracket) {
            let height = self.height;
            let open = self.bump().span;
            let size = self.expr()?;
            self.expect_close(Kind::RBracket, open)?;
            self.raise(height, self.height)?;
            ty = TypeRef { kind: TypeKind::Stack(Box::new(ty), Box::new(size)), span: self.since(start) };
        }
        Ok(ty)
    }

    /// `typeRef`, or `void`
    pub(super) fn type_or_void(&mut self) -> Parse<TypeRef> {
        if self.at_keyword(Keyword::Void) {
            let span = self.bump().span;
            return Ok(TypeRef { kind: TypeKind::Void, span });
        }
        self.type_ref()
    }

    fn element_type(&mut self) -> Parse<TypeRef> {
        use Keyword::*;
        if self.kind_at(1) == Kind::Less {
            self.fix_keyword(&[Bit, Int, Varbit, Tuple, List]);
        }
        let start = self.span();
        self.height = 1;
        let kind = match self.kind() {
            Kind::Keyword(keyword @ (Bool | Error | MatchKind | String)) => {
                self.bump();
                match keyword {
                    Bool => TypeKind::Bool,
                    Error => TypeKind::Error,
                    MatchKind => TypeKind::MatchKind,
                    _ => TypeKind::String,
                }
            }
            Kind::Keyword(keyword @ (Bit | Int | Varbit)) => {
                self.bump();
                if self.at(Kind::Less) {
                    let width = Box::new(self.width()?);
                    match keyword {
                        Bit => TypeKind::Bit(width),
                        Int => TypeKind::Int(width),
                        _ => TypeKind::Varbit(width),
                    }
                } else {
                    match keyword {
                        // P4_16 "Unsigned integers": `bit` is `bit<1>`.
                        Bit => TypeKind::Bit(Box::new(one(start))),
                        Int => TypeKind::Integer,
                        _ => return self.expected("`<` and the maximal width after `varbit`"),
                    }
                }
            }
            Kind::Keyword(Tuple) => {
                self.bump();
                TypeKind::Tuple(self.type_args()?)
            }
            Kind::Keyword(List) if self.kind_at(1) == Kind::Less => {
                self.bump();
                let open = self.bump().span;
                let element = self.type_arg()?;
                self.expect_close(Kind::Greater, open)?;
                TypeKind::List(Box::new(element))
            }
            kind if kind == Kind::Dot || Self::is_name(kind) => {
                let path = self.path("a type")?;
                let args = if self.at(Kind::Less) { self.type_args()? } else { Vec::new() };
                TypeKind::Named(path, args)
            }
            _ => return self.expected("a type"),
        };
        Ok(TypeRef { kind, span: self.since(start) })
    }

    /// `<width>`: `>` ends it, so that a comparison needs parentheses.
    fn width(&mut self) -> Parse<Expr> {
        let open = self.bump().span;
        let outer = std::mem::replace(&mut self.greater_closes, true);
        let width = self.conditional();
        self.greater_closes = outer;
        let width = width?;
        self.expect_close(Kind::Greater, open)?;
        Ok(width)
    }

    /// A name, possibly with a leading dot.
    pub(super) fn path(&mut self, what: &str) -> Parse<Path> {
        let global = self.eat(Kind::Dot);
        Ok(Path { global, name: self.name(what)? })
    }

    /// `< typeArgumentList >`
    pub(super) fn type_args(&mut self) -> Parse<Vec<TypeRef>> {
        let open = self.expect(Kind::Less)?.span;
        let mut args = Vec::new();
        let mut height = 0;
        if !self.at(Kind::Greater) {
            loop {
                args.push(self.type_arg()?);
                height = height.max(self.height);
                if !self.eat(Kind::Comma) {
                    break;
                }
            }
        }
        self.expect_close(Kind::Greater, open)?;
        self.raise(height, 0)?;
        Ok(args)
    }

    fn type_arg(&mut self) -> Parse<TypeRef> {
        let span = self.span();
        if self.eat_keyword(Keyword::DontCare) {
            self.height = 1;
            return Ok(TypeRef { kind: TypeKind::DontCare, span });
        }
        self.type_or_void()
    }

    /// `optTypeParameters`, declared in the current scope.
    pub(super) fn type_params(&mut self) -> Parse<Vec<Ident>> {
        let mut params = Vec::new();
        if !self.at(Kind::Less) {
            return Ok(params);
        }
        let open = self.bump().span;
        loop {
            params.push(self.declared_name("the name of a type parameter", Name::Type)?);
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        self.expect_close(Kind::Greater, open)?;
        Ok(params)
    }

    /// True if type arguments and the `(` of a call follow, at `<`.
    ///
    /// The grammar's `realTypeArgumentList` decides by the first token: a type after `<` starts type arguments, because
    /// a type cannot be compared. But `x < E.m` and `x < (bit<8>) y` exist, so this looks for the end too. The
    /// lookahead is bounded, because real lists are short.
    pub(super) fn at_call_type_args(&self) -> bool {
        const TOKENS_MAX: usize = 128;
        let unknown_name = Self::is_name(self.kind_at(1)) && self.lookup_at(1).is_none();
        let dont_care = self.kind_at(1) == Kind::Keyword(Keyword::DontCare);
        if !unknown_name && !dont_care && !self.is_type_at(1) {
            return false;
        }
        let mut angles = 0;
        let mut parens = 0;
        for ahead in 0..TOKENS_MAX {
            match self.kind_at(ahead) {
                Kind::LParen => parens += 1,
                Kind::RParen if parens == 0 => return false,
                Kind::RParen => parens -= 1,
                Kind::Eof | Kind::Semicolon | Kind::LBrace | Kind::RBrace => return false,
                _ if parens > 0 => {}
                Kind::Less => angles += 1,
                Kind::Greater => {
                    angles -= 1;
                    if angles == 0 {
                        return self.kind_at(ahead + 1) == Kind::LParen;
                    }
                }
                Kind::Comma | Kind::Dot | Kind::Integer | Kind::LBracket | Kind::RBracket => {}
                Kind::Ident | Kind::Keyword(_) => {}
                // Only in widths without parentheses, which are not operands of a comparison.
                Kind::Plus | Kind::Minus | Kind::Star | Kind::Slash if angles > 1 => {}
                _ => return false,
            }
        }
        false
    }
}

fn one(span: Span) -> Expr {
    Expr { kind: ExprKind::Int(IntLit { value: 1.into(), width: None }), span }
}
