//! `int` at run time: if `x` is not constant, `(int) x` has a bounded size, and so has everything computed from it.
//! Such an expression becomes one of fixed-width types that are wide enough for every possible value.
//!
//! ```text
//! (bit<8>)((int) x + 1)        x of type bit<8>
//! (bit<8>)((int<10>)(int<9>) x + 10s1)
//! ```
//!
//! Parameters of type `int` are known when the program is lowered, and remain unchanged.

use crate::consts::is_value;
use crate::typed::*;
use p4jet_syntax::ast::{BinaryOp, UnaryOp};

/// Converts an `int` that is known only at run time to a fixed width.
pub(crate) fn sized(expr: Expr) -> Expr {
    match late(&expr).then(|| signed(&expr)).flatten() {
        Some((sized, _)) => sized,
        None => expr,
    }
}

/// Converts the operands of an operator whose result type is `result`: two `int`s compared at run time get the same
/// width.
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

/// True if an `int` depends on a fixed-width value that is known only at run time.
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

/// Returns the expression as an `int<W>`, and W; `None` if nothing bounds it.
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
        // The value of a parameter has any size.
        ExprKind::Var(_) => make(BITS_MAX, ExprKind::Cast(Box::new(expr.clone()))),
        _ => None,
    }
}

/// Extends the expression to at least `width` bits, up to the limit.
fn extended((expr, from): (Expr, u32), width: u32) -> Expr {
    let width = width.min(BITS_MAX);
    if from >= width {
        return expr;
    }
    let (ty, span) = (Type::Int(width), expr.span);
    let kind = if is_value(&expr) { expr.kind } else { ExprKind::Cast(Box::new(expr)) };
    Expr { ty, kind, span }
}
