//! Implicit and explicit casts (P4_16, "Casts").

use crate::check::Checker;
use crate::consts::{fits, is_value, wrap};
use crate::generic::{POISON, is_poison};
use crate::typed::*;
use crate::types::short;
use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};
use p4jet_syntax::ast::StructKind;
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

impl Checker {
    /// Converts `expr` to `target` with implicit casts, or reports the mismatch. `what` names the place, as in "the
    /// value of `x`".
    pub(crate) fn coerce(&mut self, expr: Expr, target: &Type, what: &str) -> Expr {
        let span = expr.span;
        let found = self.known(&expr.ty);
        match self.try_coerce(expr, target) {
            Ok(expr) => expr,
            Err(reported) => {
                if !reported {
                    let diagnostic = self.mismatch(span, target, &found, what);
                    self.report(diagnostic);
                }
                Expr { ty: POISON, ..self.poison(span) }
            }
        }
    }

    /// "`x` must have type …, but …".
    pub(crate) fn mismatch(&mut self, span: Span, target: &Type, found: &Type, what: &str) -> Diagnostic {
        let target = self.known(target);
        let (want, have) = (self.show(&target), self.show(found));
        let mut diagnostic = Diagnostic::error(
            "type-mismatch",
            span,
            format!("{what} must be of type {want}, but this is {have}"),
        )
        .label(format!("this is {have}"));
        match (&target, found) {
            (Type::Bit(a), Type::Bit(b)) | (Type::Int(a), Type::Int(b)) if a != b => {
                diagnostic =
                    diagnostic.note(format!("a cast changes the width: `({}) …`", self.show_bare(&target)));
            }
            (Type::Bit(a), Type::Int(b)) | (Type::Int(a), Type::Bit(b)) if a == b => {
                diagnostic =
                    diagnostic.note(format!("a cast changes the sign: `({}) …`", self.show_bare(&target)));
            }
            (Type::Bool, Type::Bit(1)) => {
                diagnostic = diagnostic.note("compare with 1, or cast: `(bool) …`");
            }
            (Type::Bool, Type::Bit(_) | Type::Int(_) | Type::Integer) => {
                diagnostic = diagnostic.note("a number is not a condition: compare with 0, as in `… != 0`");
            }
            (Type::Bit(1), Type::Bool) => diagnostic = diagnostic.note("a cast converts: `(bit<1>) …`"),
            (Type::New(_), _) | (_, Type::New(_)) => {
                diagnostic = diagnostic.note(format!(
                    "a `type` is a distinct type; a cast converts: `({}) …`",
                    self.show_bare(&target)
                ));
            }
            (Type::Parser(..), Type::Parser(..)) | (Type::Control(..), Type::Control(..)) => {
                if let Some(why) = self.block_mismatch(&target, found) {
                    diagnostic = diagnostic.note(why);
                }
            }
            _ => {}
        }
        diagnostic
    }

    /// Does the work of [`Checker::coerce`]; an error is true if it has been reported.
    pub(crate) fn try_coerce(&mut self, mut expr: Expr, target: &Type) -> Result<Expr, bool> {
        let target = self.known(target);
        expr.ty = self.known(&expr.ty);
        if is_poison(&expr.ty) || is_poison(&target) {
            return Ok(Expr { ty: POISON, ..expr });
        }
        if expr.ty == target {
            return Ok(expr);
        }
        let span = expr.span;
        // `int` to a fixed width, also in the branches of a conditional.
        if expr.ty == Type::Integer && matches!(target, Type::Bit(_) | Type::Int(_)) {
            match expr.kind {
                ExprKind::Int(value) => return Ok(self.fit(value, &target, span)),
                ExprKind::Conditional(c, a, b) => {
                    let a = self.try_coerce(*a, &target)?;
                    let b = self.try_coerce(*b, &target)?;
                    let kind = ExprKind::Conditional(c, Box::new(a), Box::new(b));
                    return Ok(Expr { ty: target, kind, span });
                }
                kind => {
                    let inner = crate::integers::sized(Expr { kind, ..expr });
                    return Ok(Expr { ty: target.clone(), kind: ExprKind::Cast(Box::new(inner)), span });
                }
            }
        }
        // The specification requires a cast in the next two cases; programs rely on p4c, which does not.
        if let (Type::Integer, ExprKind::Int(value), Type::New(_)) = (&expr.ty, &expr.kind, &target)
            && let base @ (Type::Bit(_) | Type::Int(_)) = self.base(&target)
        {
            let value = value.clone();
            return Ok(Expr { ty: target, ..self.fit(value, &base, span) });
        }
        if target == Type::Integer && matches!(expr.ty, Type::Bit(_) | Type::Int(_)) {
            return Ok(self.cast_value(expr, target));
        }
        // A serializable enum to its underlying type.
        if let Type::Enum(id) = &expr.ty
            && let Some(underlying) = self.prog.enums[id.index()].underlying.clone()
        {
            if underlying == target {
                return Ok(self.cast_value(expr, target));
            }
            if target == Type::Integer {
                return Ok(self.cast_value(expr, target));
            }
        }
        // A `{ … }` that was checked without an expected type.
        if let (ExprKind::Aggregate(_), Type::Tuple(types)) = (&expr.kind, &expr.ty) {
            let wanted: Option<Vec<Type>> = match &target {
                Type::Struct(id, _) if self.prog.structs[id.index()].kind != StructKind::HeaderUnion => {
                    Some(self.fields(&target).into_iter().map(|(_, t)| t).collect())
                }
                Type::Tuple(wanted) => Some(wanted.clone()),
                Type::List(element) => Some(vec![(**element).clone(); types.len()]),
                Type::Stack(element, n) => Some(vec![(**element).clone(); *n as usize]),
                _ => None,
            };
            if let Some(wanted) = wanted {
                if wanted.len() != types.len() {
                    return Err(false);
                }
                let ExprKind::Aggregate(items) = expr.kind else { return Err(false) };
                let mut done = Vec::with_capacity(items.len());
                for (item, ty) in items.into_iter().zip(&wanted) {
                    done.push(self.try_coerce(item, ty)?);
                }
                let ty = self.known(&target);
                return Ok(Expr { ty, kind: ExprKind::Aggregate(done), span });
            }
        }
        if self.unify(&target, &expr.ty) {
            // A control passed for a control type keeps its own type.
            expr.ty = self.known(&expr.ty);
            return Ok(expr);
        }
        Err(false)
    }

    /// Converts an `int` value to a fixed width; a value that does not fit is truncated with a warning.
    fn fit(&mut self, value: BigInt, target: &Type, span: Span) -> Expr {
        if !fits(&value, target) {
            let wrapped = wrap(&value, target);
            let shown = self.show(target);
            let negative = value.is_negative() && !matches!(self.base(target), Type::Int(_));
            self.report(Diagnostic::warning(
                if negative { "mismatch" } else { "overflow" },
                span,
                format!("{} does not fit into {shown} and becomes {}", short(&value), short(&wrapped)),
            ));
        }
        Expr { ty: target.clone(), kind: ExprKind::Int(wrap(&value, target)), span }
    }

    /// Makes a legal cast, folded if the value is known.
    pub(crate) fn cast_value(&mut self, expr: Expr, target: Type) -> Expr {
        let span = expr.span;
        let base = self.base(&target);
        let kind = match (&expr.kind, &base) {
            (ExprKind::Int(v), Type::Bool) => ExprKind::Bool(!v.is_zero()),
            (ExprKind::Int(v), ty) => ExprKind::Int(wrap(v, ty)),
            (ExprKind::Bool(b), Type::Bit(1)) => {
                ExprKind::Int(if *b { BigInt::one() } else { BigInt::zero() })
            }
            (ExprKind::Bool(b), Type::Bool) => ExprKind::Bool(*b),
            _ => ExprKind::Cast(Box::new(expr)),
        };
        Expr { ty: target, kind, span }
    }

    /// Returns the representation of a type, without serializable enums and `type`s.
    pub(crate) fn base(&self, ty: &Type) -> Type {
        match ty {
            Type::Enum(id) => self.prog.enums[id.index()].underlying.clone().unwrap_or_else(|| ty.clone()),
            Type::New(id) => self.base(&self.prog.new_types[id.index()].ty),
            _ => ty.clone(),
        }
    }

    /// `(target) expr`
    pub(crate) fn explicit_cast(&mut self, expr: Expr, target: &Type, span: Span) -> Expr {
        let from = self.known(&expr.ty);
        let target = self.known(target);
        if is_poison(&from) || is_poison(&target) {
            return self.poison(span);
        }
        let mut expr = Expr { span, ..expr };
        if from == target {
            return expr;
        }
        if let (Type::Tuple(_), ExprKind::Aggregate(_)) = (&from, &expr.kind) {
            return self.coerce(expr, &target, "the operand of the cast");
        }
        // A conditional of `int`s takes the cast inside.
        if from == Type::Integer && matches!(target, Type::Bit(_) | Type::Int(_)) && !is_value(&expr) {
            return self.coerce(expr, &target, "the operand of the cast");
        }
        if self.castable(&from, &target, &expr) {
            return self.cast_value(expr, target);
        }
        // Goes through the enum's underlying type, to which an implicit cast leads.
        if let Type::Enum(id) = &from
            && let Some(underlying) = self.prog.enums[id.index()].underlying.clone()
        {
            expr = self.cast_value(expr, underlying.clone());
            if self.castable(&underlying, &target, &expr) {
                return self.cast_value(expr, target);
            }
        }
        let (want, have) = (self.show(&target), self.show(&from));
        let mut diagnostic = Diagnostic::error("cast", span, format!("{have} cannot be cast to {want}"));
        match (&from, &target) {
            (Type::Bit(a), Type::Int(b)) => {
                diagnostic = diagnostic.note(format!(
                    "a cast changes the width or the sign, not both: `(int<{b}>)(int<{a}>) …` or `(int<{b}>)(bit<{b}>) …`"
                ));
            }
            (Type::Int(a), Type::Bit(b)) => {
                diagnostic = diagnostic.note(format!(
                    "a cast changes the width or the sign, not both: `(bit<{b}>)(bit<{a}>) …` or `(bit<{b}>)(int<{b}>) …`"
                ));
            }
            (Type::Bit(_) | Type::Int(_), Type::Bool) => {
                diagnostic =
                    diagnostic.note("only `bit<1>` can be cast to `bool`; compare with 0, as in `… != 0`");
            }
            _ => {}
        }
        self.report(diagnostic);
        self.poison(span)
    }

    /// The table of "Explicit casts".
    fn castable(&self, from: &Type, target: &Type, expr: &Expr) -> bool {
        match (from, target) {
            (Type::Bit(1), Type::Bool) | (Type::Bool, Type::Bit(1)) | (Type::Bool, Type::Bool) => true,
            (Type::Integer, Type::Bool) => {
                matches!(&expr.kind, ExprKind::Int(v) if v.is_zero() || v.is_one())
            }
            (Type::Bit(_), Type::Bit(_)) | (Type::Int(_), Type::Int(_)) => true,
            (Type::Bit(a), Type::Int(b)) | (Type::Int(a), Type::Bit(b)) => a == b,
            (Type::Integer, Type::Bit(_) | Type::Int(_)) => true,
            (Type::Bit(_) | Type::Int(_), Type::Integer) => true,
            // One step out of a `type` or into one; an `int` gets its width on the way in.
            (Type::New(id), _) if self.prog.new_types[id.index()].ty == *target => true,
            (_, Type::New(id)) => {
                let inner = &self.prog.new_types[id.index()].ty;
                inner == from || *from == Type::Integer && self.castable(from, inner, expr)
            }
            (_, Type::Enum(id)) => match &self.prog.enums[id.index()].underlying {
                Some(underlying) => underlying == from || *from == Type::Integer,
                None => false,
            },
            _ => false,
        }
    }
}
