//! Builds IR expressions, with the folding that keeps them small and makes compile-time arguments recognisable.
//!
//! Folds only what a constant operand decides; IR passes do the rest.

use num_bigint::{BigInt, BigUint};
use num_traits::{One, Zero};
use p4jet_ir::{BinaryOp, Expr, Program, UnaryOp};

/// 2^width - 1.
pub fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - 1u32
}

/// The bits of `value` as a pattern of `width` bits, two's complement.
pub fn pattern(value: &BigInt, width: u32) -> BigUint {
    let modulus = BigInt::one() << width;
    let wrapped = ((value % &modulus) + &modulus) % &modulus;
    wrapped.to_biguint().unwrap_or_default()
}

/// Reads a pattern of `width` bits as two's complement.
pub fn signed(value: &BigUint, width: u32) -> BigInt {
    let v = BigInt::from(value.clone());
    if width > 0 && value.bit(u64::from(width - 1)) { v - (BigInt::one() << width) } else { v }
}

/// A constant 0.
pub fn zero(width: u32) -> Expr {
    Expr::constant(0u32, width)
}

/// A constant of width 1.
pub fn truth(value: bool) -> Expr {
    Expr::constant(u32::from(value), 1)
}

/// The value of a constant.
pub fn as_const(e: &Expr) -> Option<&BigUint> {
    match e {
        Expr::Const { value, .. } => Some(value),
        _ => None,
    }
}

pub(crate) fn as_truth(e: &Expr) -> Option<bool> {
    as_const(e).map(|v| !v.is_zero())
}

/// `!e` of width 1, or `~e`.
pub fn not(e: Expr) -> Expr {
    match e {
        Expr::Const { value, width } => Expr::Const { value: ones(width) ^ value, width },
        Expr::Unary(UnaryOp::Not, inner) => *inner,
        Expr::Binary(BinaryOp::Eq, a, b) => Expr::Binary(BinaryOp::Ne, a, b),
        Expr::Binary(BinaryOp::Ne, a, b) => Expr::Binary(BinaryOp::Eq, a, b),
        Expr::Binary(BinaryOp::LtU, a, b) => Expr::Binary(BinaryOp::LeU, b, a),
        Expr::Binary(BinaryOp::LeU, a, b) => Expr::Binary(BinaryOp::LtU, b, a),
        Expr::Binary(BinaryOp::LtS, a, b) => Expr::Binary(BinaryOp::LeS, b, a),
        Expr::Binary(BinaryOp::LeS, a, b) => Expr::Binary(BinaryOp::LtS, b, a),
        e => Expr::Unary(UnaryOp::Not, Box::new(e)),
    }
}

/// Two's complement.
pub fn neg(e: Expr) -> Expr {
    match e {
        Expr::Const { value, width } => Expr::Const { value: pattern(&-BigInt::from(value), width), width },
        e => Expr::Unary(UnaryOp::Neg, Box::new(e)),
    }
}

/// Conjunction of two values of width 1.
pub fn and(a: Expr, b: Expr) -> Expr {
    match (as_truth(&a), as_truth(&b)) {
        (Some(true), _) => b,
        (_, Some(true)) => a,
        (Some(false), _) | (_, Some(false)) => truth(false),
        _ => Expr::Binary(BinaryOp::And, Box::new(a), Box::new(b)),
    }
}

/// Conjunction of values of width 1.
pub fn all(list: Vec<Expr>) -> Expr {
    balanced(list, and).unwrap_or_else(|| truth(true))
}

/// Disjunction of values of width 1.
pub fn any(list: Vec<Expr>) -> Expr {
    balanced(list, or).unwrap_or_else(|| truth(false))
}

/// Concatenates expressions; the first has the highest bits. `None` if there is no expression.
pub fn concat(list: Vec<Expr>) -> Option<Expr> {
    balanced(list, |high, low| Expr::Concat(Box::new(high), Box::new(low)))
}

/// Adds expressions of one width. `None` if there is no expression.
pub fn sum(list: Vec<Expr>) -> Option<Expr> {
    balanced(list, |a, b| binary(BinaryOp::Add, a, b))
}

/// Builds a balanced tree of an associative operator, so that long lists do not become deep expressions.
fn balanced(mut list: Vec<Expr>, op: impl Fn(Expr, Expr) -> Expr) -> Option<Expr> {
    while list.len() > 1 {
        let mut pairs = list.into_iter();
        let mut halved = Vec::new();
        while let Some(a) = pairs.next() {
            halved.push(match pairs.next() {
                Some(b) => op(a, b),
                None => a,
            });
        }
        list = halved;
    }
    list.pop()
}

/// Disjunction of two values of width 1.
pub fn or(a: Expr, b: Expr) -> Expr {
    match (as_truth(&a), as_truth(&b)) {
        (Some(false), _) => b,
        (_, Some(false)) => a,
        (Some(true), _) | (_, Some(true)) => truth(true),
        _ => Expr::Binary(BinaryOp::Or, Box::new(a), Box::new(b)),
    }
}

/// Equality.
pub fn eq(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Eq, a, b)
}

/// `cond ? a : b`
pub fn select(cond: Expr, a: Expr, b: Expr) -> Expr {
    match as_truth(&cond) {
        Some(true) => a,
        Some(false) => b,
        None if a == b => a,
        None => Expr::Select(Box::new(cond), Box::new(a), Box::new(b)),
    }
}

/// Any binary operator.
pub fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    if let (Expr::Const { value: x, width }, Expr::Const { value: y, .. }) = (&a, &b)
        && let Some(value) = fold(op, x, y, *width)
    {
        return Expr::Const { value, width: if op.is_comparison() { 1 } else { *width } };
    }
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn fold(op: BinaryOp, a: &BigUint, b: &BigUint, width: u32) -> Option<BigUint> {
    use BinaryOp::*;
    let truth = |t: bool| BigUint::from(u32::from(t));
    let wrap = |v: BigUint| v & ones(width);
    Some(match op {
        Add => wrap(a + b),
        Sub => pattern(&(BigInt::from(a.clone()) - BigInt::from(b.clone())), width),
        Mul => wrap(a * b),
        DivU => {
            if b.is_zero() {
                BigUint::zero()
            } else {
                a / b
            }
        }
        RemU => {
            if b.is_zero() {
                BigUint::zero()
            } else {
                a % b
            }
        }
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Shl => match u32::try_from(b) {
            Ok(n) if n < width => wrap(a << n),
            _ => BigUint::zero(),
        },
        ShrU => match u32::try_from(b) {
            Ok(n) if n < width => a >> n,
            _ => BigUint::zero(),
        },
        Eq => truth(a == b),
        Ne => truth(a != b),
        LtU => truth(a < b),
        LeU => truth(a <= b),
        LtS => truth(signed(a, width) < signed(b, width)),
        LeS => truth(signed(a, width) <= signed(b, width)),
        SatAddU | SatSubU | SatAddS | SatSubS | ShrS => return None,
    })
}

/// Bits `hi` to `lo`.
pub fn slice(program: &Program, e: Expr, hi: u32, lo: u32) -> Expr {
    match e {
        Expr::Const { value, .. } => {
            Expr::Const { value: (value >> lo) & ones(hi - lo + 1), width: hi - lo + 1 }
        }
        e if lo == 0 && e.width(program) == hi + 1 => e,
        Expr::Slice { value, lo: inner, .. } => Expr::Slice { value, hi: hi + inner, lo: lo + inner },
        e => Expr::Slice { value: Box::new(e), hi, lo },
    }
}

/// Truncates or zero-extends to `width` bits.
pub fn resize(program: &Program, e: Expr, width: u32) -> Expr {
    let from = e.width(program);
    match e {
        e if from == width => e,
        Expr::Const { value, .. } => Expr::Const { value: value & ones(width), width },
        e if from > width => slice(program, e, width - 1, 0),
        e => Expr::ZeroExtend(Box::new(e), width),
    }
}

/// Truncates or sign-extends to `width` bits.
pub fn resize_signed(program: &Program, e: Expr, width: u32) -> Expr {
    let from = e.width(program);
    match e {
        Expr::Const { value, .. } => Expr::Const { value: pattern(&signed(&value, from), width), width },
        e if from >= width => resize(program, e, width),
        e => Expr::SignExtend(Box::new(e), width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(value: u32, width: u32) -> Expr {
        Expr::constant(value, width)
    }

    #[test]
    fn constants_are_folded_at_their_width() {
        use BinaryOp::*;
        assert_eq!(binary(Add, bits(255, 8), bits(2, 8)), bits(1, 8));
        assert_eq!(binary(Sub, bits(1, 8), bits(2, 8)), bits(255, 8));
        assert_eq!(binary(DivU, bits(1, 8), bits(0, 8)), bits(0, 8));
        assert_eq!(binary(Shl, bits(1, 8), bits(8, 32)), bits(0, 8));
        assert_eq!(binary(LtS, bits(0xff, 8), bits(0, 8)), truth(true));
        assert_eq!(binary(LtU, bits(0xff, 8), bits(0, 8)), truth(false));
        assert_eq!(not(bits(0xf0, 8)), bits(0x0f, 8));
        assert_eq!(neg(bits(1, 4)), bits(15, 4));
    }

    #[test]
    fn negative_values_are_patterns() {
        assert_eq!(pattern(&BigInt::from(-1), 8), BigUint::from(255u32));
        assert_eq!(signed(&BigUint::from(0x80u32), 8), BigInt::from(-128));
        assert_eq!(signed(&BigUint::from(0x7fu32), 8), BigInt::from(127));
    }

    #[test]
    fn many_conditions_make_a_shallow_tree() {
        let list = (0..1000).map(|i| Expr::Field(p4jet_ir::FieldId(i))).collect();
        assert_eq!(all(list).depth(), 11);
        assert_eq!(all(vec![]), truth(true));
    }
}
