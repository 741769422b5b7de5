//! `int` at run time: `(int) x` of a value that is not known has a bounded size, and so has what is computed of it.
//! Such an expression becomes one of fixed-width types that are wide enough for every value it can have.
//!
//! ```text
//! (bit<8>)((int) x + 1)        x of type bit<8>
//! (bit<8>)((int<10>)(int<9>) x + 10s1)
//! ```
//!
//! Parameters of type `int` are known when the program is lowered, and stay what they are.

use crate::consts::is_value;
use crate::typed::*;
use crate::types::BITS_MAX;
use p4jet_syntax::ast::{BinaryOp, UnaryOp};

/// An `int` as it is used from here on: of a fixed width, if it is known only at run time.
pub(crate) fn sized(expr: Expr) -> Expr {
    match late(&expr).then(|| signed(&expr)).flatten() {
        Some((sized, _)) => sized,
        None => expr,
    }
}

/// Operands of an operator that gives `result`: two `int`s that are compared at run time get one width.
pub(crate) fn compared(left: Expr, right: Expr, result: &Type) -> (Expr, Expr) {
    let ints = left.ty == Type::Integer && right.ty == Type::Integer && *result != Type::Integer;
    if !ints || !(late(&left) || late(&right)) {
        return (left, right);
    }
    match (signed(&left), signed(&right)) {
        (Some(a), Some(b)) => {
            let width = a.1.max(b.1);
            (extended(a, width), extended(b, width))
        }
        _ => (left, right),
    }
}

/// Whether an `int` depends on a value of fixed width that is known only at run time.
fn late(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Cast(inner) if inner.ty == Type::Integer => late(inner),
        ExprKind::Cast(inner) => !is_value(inner),
        ExprKind::Unary(_, e) => late(e),
        ExprKind::Binary(_, a, b) => late(a) || late(b),
        ExprKind::Conditional(_, a, b) => late(a) || late(b),
        _ => false,
    }
}

/// The expression as an `int<W>`, and W; `None` where nothing bounds it.
fn signed(expr: &Expr) -> Option<(Expr, u32)> {
    let make = |width: u32, kind: ExprKind| {
        let width = width.min(BITS_MAX);
        Some((Expr { ty: Type::Int(width), kind, span: expr.span }, width))
    };
    match &expr.kind {
        ExprKind::Int(n) => make(u32::try_from(n.bits()).ok()? + 1, expr.kind.clone()),
        ExprKind::Cast(inner) => match &inner.ty {
            Type::Integer => signed(inner),
            Type::Bit(w) => make(w + 1, expr.kind.clone()),
            Type::Int(w) => Some(((**inner).clone(), *w)),
            _ => None,
        },
        ExprKind::Unary(UnaryOp::Plus, e) => signed(e),
        ExprKind::Unary(op @ UnaryOp::Neg, e) => {
            let e = signed(e)?;
            let width = e.1 + 1;
            make(width, ExprKind::Unary(*op, Box::new(extended(e, width))))
        }
        ExprKind::Binary(op @ (BinaryOp::Shl | BinaryOp::Shr), a, b) => {
            let ExprKind::Int(count) = &b.kind else { return None };
            let a = signed(a)?;
            let more = if *op == BinaryOp::Shl { u32::try_from(count).ok()?.min(BITS_MAX) } else { 0 };
            let width = a.1 + more;
            make(width, ExprKind::Binary(*op, Box::new(extended(a, width)), b.clone()))
        }
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (signed(a)?, signed(b)?);
            let width = match op {
                BinaryOp::Add | BinaryOp::Sub => a.1.max(b.1) + 1,
                BinaryOp::Mul => a.1 + b.1,
                BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => a.1.max(b.1),
                _ => return None,
            };
            let (a, b) = (extended(a, width), extended(b, width));
            make(width, ExprKind::Binary(*op, Box::new(a), Box::new(b)))
        }
        ExprKind::Conditional(c, a, b) => {
            let (a, b) = (signed(a)?, signed(b)?);
            let width = a.1.max(b.1);
            let (a, b) = (extended(a, width), extended(b, width));
            make(width, ExprKind::Conditional(c.clone(), Box::new(a), Box::new(b)))
        }
        // A parameter: its value has any size.
        ExprKind::Var(_) => make(BITS_MAX, ExprKind::Cast(Box::new(expr.clone()))),
        _ => None,
    }
}

/// With a width of at least `width`, up to the limit.
fn extended((expr, from): (Expr, u32), width: u32) -> Expr {
    let width = width.min(BITS_MAX);
    if from >= width {
        return expr;
    }
    let (ty, span) = (Type::Int(width), expr.span);
    let kind = if is_value(&expr) { expr.kind } else { ExprKind::Cast(Box::new(expr)) };
    Expr { ty, kind, span }
}
