//! Compile-time values: constant folding.
//!
//! `int` has no width, so a hostile program could compute values of any size; results are bounded by [`INT_BITS_MAX`].
//! A use of a constant is a copy of its value, so a short program could make many large values. [`CONSTANTS_MAX`] bounds all of
//! them together. `Checker::spend` counts each expression, in `Checker::expr`, the operands of copied constants and parameters'
//! defaults, and the values that `...` stands for.

use crate::generic::nodes;
use crate::typed::*;
use num_bigint::{BigInt, Sign};
use num_traits::{One, Signed, ToPrimitive, Zero};
use p4jet_syntax::ast::{BinaryOp, UnaryOp};

/// Maximum number of bits of a value of type `int`.
pub(crate) const INT_BITS_MAX: u64 = 1 << 16;

/// Maximum of the units of all values that the analysis of a program makes.
pub(crate) const CONSTANTS_MAX: u64 = 1 << 22;

/// Bytes of a text that count as one unit.
const TEXT_BYTES_OF_UNIT: u64 = 64;

/// Bits of an integer that count as one unit.
const INT_BITS_OF_UNIT: u64 = 512;

/// The reason why folding produced no value.
pub(crate) enum FoldError {
    /// An operand is not known at compile time.
    Unknown,
    /// The operation has no result, for this reason.
    Wrong(String),
}

/// True if an expression is a value.
pub(crate) fn is_value(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::String(_)
        | ExprKind::EnumMember(_)
        | ExprKind::Error(_)
        | ExprKind::Invalid => true,
        ExprKind::Aggregate(items) => items.iter().all(is_value),
        _ => false,
    }
}

/// Returns the number of values inside a value.
pub(crate) fn size(expr: &Expr) -> usize {
    match &expr.kind {
        ExprKind::Aggregate(items) => items.iter().map(size).sum::<usize>() + 1,
        _ => 1,
    }
}

/// Returns what an expression adds to the memory of its operands, in units of about 64 bytes, beyond the size of every
/// expression: 0 for a small number, because the text of the program bounds how many there are.
pub(crate) fn own_units(expr: &Expr) -> u64 {
    let more = match &expr.kind {
        ExprKind::Int(value) => integer_units(value),
        ExprKind::String(text) => text.len() as u64 / TEXT_BYTES_OF_UNIT,
        _ => 0,
    };
    more + nodes(&expr.ty) as u64 - 1
}

/// Returns what the operands of an expression add to a copy of it: one unit for each, at all levels, and those that
/// [`own_units`] counts.
pub(crate) fn operand_units(expr: &Expr) -> u64 {
    expr.operands().map(|operand| 1 + own_units(operand) + operand_units(operand)).sum()
}

/// Returns the units of the work of an operator, apart from its result: products and quotients of large numbers take more
/// time than other results of their size.
pub(crate) fn work_units(op: BinaryOp, left: &Expr, right: &Expr) -> u64 {
    match (op, &left.kind, &right.kind) {
        (BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod, ExprKind::Int(a), ExprKind::Int(b)) => {
            integer_units(a) * integer_units(b)
        }
        _ => 0,
    }
}

fn integer_units(value: &BigInt) -> u64 {
    value.bits() / INT_BITS_OF_UNIT
}

/// 2^`bits`
pub(crate) fn power(bits: u32) -> BigInt {
    BigInt::one() << bits
}

/// Returns `value` modulo 2^`width`, as an unsigned value.
pub(crate) fn wrap_unsigned(value: &BigInt, width: u32) -> BigInt {
    let modulus = power(width);
    let rest = value % &modulus;
    if rest.sign() == Sign::Minus { rest + modulus } else { rest }
}

/// Returns `value` modulo 2^`width` in two's complement.
pub(crate) fn wrap_signed(value: &BigInt, width: u32) -> BigInt {
    let rest = wrap_unsigned(value, width);
    if width > 0 && rest >= power(width - 1) { rest - power(width) } else { rest }
}

/// Returns `value` as a value of `ty`, which is a fixed-width type or `int`.
pub(crate) fn wrap(value: &BigInt, ty: &Type) -> BigInt {
    match ty {
        Type::Bit(w) => wrap_unsigned(value, *w),
        Type::Int(w) => wrap_signed(value, *w),
        _ => value.clone(),
    }
}

/// True if `value` is a value of `ty` without conversion.
pub(crate) fn fits(value: &BigInt, ty: &Type) -> bool {
    wrap(value, ty) == *value
}

/// Applies an operator to a value of type `ty`.
pub(crate) fn unary(op: UnaryOp, operand: &ExprKind, ty: &Type) -> Option<ExprKind> {
    match (op, operand) {
        (UnaryOp::Not, ExprKind::Bool(b)) => Some(ExprKind::Bool(!b)),
        (UnaryOp::Plus, ExprKind::Int(v)) => Some(ExprKind::Int(v.clone())),
        (UnaryOp::Neg, ExprKind::Int(v)) => Some(ExprKind::Int(wrap(&-v, ty))),
        (UnaryOp::Complement, ExprKind::Int(v)) => Some(ExprKind::Int(wrap(&(-v - BigInt::one()), ty))),
        _ => None,
    }
}

/// Applies an operator to two values; the left one has type `left_ty`, the result type `ty`.
pub(crate) fn binary(op: BinaryOp, left: &Expr, right: &Expr, ty: &Type) -> Result<ExprKind, FoldError> {
    match (&left.kind, &right.kind) {
        (ExprKind::Int(a), ExprKind::Int(b)) => integers(op, a, b, &left.ty, &right.ty, ty),
        (ExprKind::Bool(a), ExprKind::Bool(b)) => match op {
            BinaryOp::And => Ok(ExprKind::Bool(*a && *b)),
            BinaryOp::Or => Ok(ExprKind::Bool(*a || *b)),
            BinaryOp::Eq => Ok(ExprKind::Bool(a == b)),
            BinaryOp::Ne => Ok(ExprKind::Bool(a != b)),
            _ => Err(FoldError::Unknown),
        },
        // Short circuit: the right side is not evaluated (P4_16, "Expressions on Booleans").
        (ExprKind::Bool(false), _) if op == BinaryOp::And => Ok(ExprKind::Bool(false)),
        (ExprKind::Bool(true), _) if op == BinaryOp::Or => Ok(ExprKind::Bool(true)),
        (ExprKind::Bool(_), _) if matches!(op, BinaryOp::And | BinaryOp::Or) => Ok(right.kind.clone()),
        _ => match (op, equal(left, right)) {
            (BinaryOp::Eq, Some(same)) => Ok(ExprKind::Bool(same)),
            (BinaryOp::Ne, Some(same)) => Ok(ExprKind::Bool(!same)),
            _ => Err(FoldError::Unknown),
        },
    }
}

/// True if two values are equal; `None` if one is not a value.
pub(crate) fn equal(left: &Expr, right: &Expr) -> Option<bool> {
    match (&left.kind, &right.kind) {
        (ExprKind::Int(a), ExprKind::Int(b)) => Some(a == b),
        (ExprKind::Bool(a), ExprKind::Bool(b)) => Some(a == b),
        (ExprKind::String(a), ExprKind::String(b)) => Some(a == b),
        (ExprKind::EnumMember(a), ExprKind::EnumMember(b)) | (ExprKind::Error(a), ExprKind::Error(b)) => {
            Some(a == b)
        }
        (ExprKind::Invalid, ExprKind::Invalid) => Some(true),
        (ExprKind::Invalid, ExprKind::Aggregate(_)) | (ExprKind::Aggregate(_), ExprKind::Invalid)
            if is_value(left) && is_value(right) =>
        {
            Some(false)
        }
        (ExprKind::Aggregate(a), ExprKind::Aggregate(b)) => {
            if !is_value(left) || !is_value(right) {
                return None;
            }
            if a.len() != b.len() {
                return Some(false);
            }
            let mut same = true;
            for (x, y) in a.iter().zip(b) {
                same &= equal(x, y)?;
            }
            Some(same)
        }
        _ => None,
    }
}

fn integers(
    op: BinaryOp,
    a: &BigInt,
    b: &BigInt,
    left_ty: &Type,
    right_ty: &Type,
    ty: &Type,
) -> Result<ExprKind, FoldError> {
    let number = |value: BigInt| {
        if value.bits() > INT_BITS_MAX {
            return Err(FoldError::Wrong(format!(
                "the value has more than {INT_BITS_MAX} bits, the limit of p4jet for `int`"
            )));
        }
        Ok(ExprKind::Int(wrap(&value, ty)))
    };
    let saturated = |value: BigInt| {
        let (lo, hi) = match ty {
            Type::Int(w) if *w > 0 => (-power(w - 1), power(w - 1) - 1),
            Type::Bit(w) => (BigInt::zero(), power(*w) - 1),
            _ => return Err(FoldError::Unknown),
        };
        Ok(ExprKind::Int(value.clamp(lo, hi)))
    };
    match op {
        BinaryOp::Add => number(a + b),
        BinaryOp::Sub => number(a - b),
        BinaryOp::Mul => number(a * b),
        BinaryOp::SatAdd => saturated(a + b),
        BinaryOp::SatSub => saturated(a - b),
        BinaryOp::Div | BinaryOp::Mod => {
            if b.is_zero() {
                return Err(FoldError::Wrong("division by zero".into()));
            }
            if a.is_negative() || b.is_negative() {
                return Err(FoldError::Wrong(
                    "division and modulo are not defined for negative numbers".into(),
                ));
            }
            number(if op == BinaryOp::Div { a / b } else { a % b })
        }
        BinaryOp::BitAnd => number(a & b),
        BinaryOp::BitOr => number(a | b),
        BinaryOp::BitXor => number(a ^ b),
        BinaryOp::Eq => Ok(ExprKind::Bool(a == b)),
        BinaryOp::Ne => Ok(ExprKind::Bool(a != b)),
        BinaryOp::Lt => Ok(ExprKind::Bool(a < b)),
        BinaryOp::Le => Ok(ExprKind::Bool(a <= b)),
        BinaryOp::Gt => Ok(ExprKind::Bool(a > b)),
        BinaryOp::Ge => Ok(ExprKind::Bool(a >= b)),
        BinaryOp::Shl => {
            if a.is_zero() {
                return Ok(ExprKind::Int(BigInt::zero()));
            }
            match (left_ty, b.to_u64()) {
                // P4_16: shifting a fixed-width value by its width or more gives 0.
                (Type::Bit(w) | Type::Int(w), Some(n)) if n < u64::from(*w) => number(a << n),
                (Type::Bit(_) | Type::Int(_), _) => Ok(ExprKind::Int(BigInt::zero())),
                (_, Some(n)) if n <= INT_BITS_MAX => number(a << n),
                _ => Err(FoldError::Wrong(format!(
                    "the value has more than {INT_BITS_MAX} bits, the limit of p4jet for `int`"
                ))),
            }
        }
        BinaryOp::Shr => {
            let count = b.to_u64().map_or(INT_BITS_MAX, |n| n.min(INT_BITS_MAX));
            // Shifting a BigInt right rounds down, which is the arithmetic shift.
            number(a >> count)
        }
        BinaryOp::Concat => match (left_ty, right_ty) {
            (Type::Bit(_) | Type::Int(_), Type::Bit(w) | Type::Int(w)) => {
                number((a << *w) + wrap_unsigned(b, *w))
            }
            _ => Err(FoldError::Unknown),
        },
        BinaryOp::And | BinaryOp::Or | BinaryOp::Mask | BinaryOp::Range => Err(FoldError::Unknown),
    }
}

/// Returns bits `hi` to `lo` of a value.
pub(crate) fn slice(value: &BigInt, hi: u32, lo: u32) -> BigInt {
    wrap_unsigned(&(value >> lo), hi - lo + 1)
}

/// Returns the number that represents a value in comparisons.
pub(crate) fn number(value: &ExprKind) -> Option<BigInt> {
    match value {
        ExprKind::Int(n) => Some(n.clone()),
        ExprKind::Bool(b) => Some(BigInt::from(u8::from(*b))),
        ExprKind::EnumMember(n) | ExprKind::Error(n) => Some(BigInt::from(*n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_wrap_as_twos_complement() {
        let n = |v: i64| BigInt::from(v);
        assert_eq!(wrap(&n(-1), &Type::Bit(8)), n(255));
        assert_eq!(wrap(&n(256), &Type::Bit(8)), n(0));
        assert_eq!(wrap(&n(128), &Type::Int(8)), n(-128));
        assert_eq!(wrap(&n(-129), &Type::Int(8)), n(127));
        assert_eq!(wrap(&n(1), &Type::Int(1)), n(-1));
        assert_eq!(wrap(&n(-5), &Type::Integer), n(-5));
        assert_eq!(wrap(&n(5), &Type::Bit(0)), n(0));
        assert_eq!(slice(&n(-1), 7, 4), n(15));
    }
}
