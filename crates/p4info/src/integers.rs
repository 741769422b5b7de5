//! Arithmetic on compile-time integers.

use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive};
use p4jet_syntax::ast::BinaryOp;

/// Larger products and shifts are not evaluated.
const BITS_MAX: u64 = 4_096;

/// The result of an operator on two integers.
pub enum Folded {
    /// A number.
    Int(BigInt),
    /// The result of a comparison.
    Bool(bool),
}

/// Applies an operator to two integers; `None` if the operation is not defined or not evaluated.
pub fn binary(op: BinaryOp, a: BigInt, b: BigInt) -> Option<Folded> {
    let shift = || b.to_u64().filter(|n| *n <= BITS_MAX);
    Some(Folded::Int(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul if a.bits() + b.bits() <= BITS_MAX => a * b,
        BinaryOp::Div if b.is_positive() && !a.is_negative() => a / b,
        BinaryOp::Mod if b.is_positive() && !a.is_negative() => a % b,
        BinaryOp::Shl if a.bits() <= BITS_MAX => a << shift()?,
        BinaryOp::Shr => a >> shift()?,
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Eq => return Some(Folded::Bool(a == b)),
        BinaryOp::Ne => return Some(Folded::Bool(a != b)),
        BinaryOp::Lt => return Some(Folded::Bool(a < b)),
        BinaryOp::Le => return Some(Folded::Bool(a <= b)),
        BinaryOp::Gt => return Some(Folded::Bool(a > b)),
        BinaryOp::Ge => return Some(Folded::Bool(a >= b)),
        _ => return None,
    }))
}
