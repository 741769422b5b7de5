//! The meaning of expressions, defined on unbounded numbers.

use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, ToPrimitive, Zero};

use crate::{BinaryOp, Expr, Program, UnaryOp};

/// Returns the value of `expr` for these values of the fields.
pub fn eval(program: &Program, fields: &[BigUint], expr: &Expr) -> BigUint {
    let width = expr.width(program);
    let value = match expr {
        Expr::Const { value, .. } => value.clone(),
        Expr::Field(f) => fields[f.index()].clone(),
        Expr::Element { column, index } => {
            let index = eval(program, fields, index).to_usize();
            let field = index.and_then(|index| column.get(index));
            field.map_or_else(BigUint::zero, |f| fields[f.index()].clone())
        }
        Expr::Unary(op, a) => {
            let a = eval(program, fields, a);
            match op {
                UnaryOp::Not => ones(width) - a,
                UnaryOp::Neg => wrap(two_to(width) - a, width),
            }
        }
        Expr::Binary(op, a, b) => {
            let operand_width = a.width(program);
            binary(*op, &eval(program, fields, a), &eval(program, fields, b), operand_width)
        }
        Expr::Slice { value, hi, lo } => wrap(eval(program, fields, value) >> *lo, hi - lo + 1),
        Expr::Concat(a, b) => (eval(program, fields, a) << b.width(program)) | eval(program, fields, b),
        Expr::ZeroExtend(a, _) => eval(program, fields, a),
        Expr::SignExtend(a, _) => {
            let a_width = a.width(program);
            unsigned(&signed(&eval(program, fields, a), a_width), width)
        }
        Expr::Select(cond, a, b) => {
            let chosen = if eval(program, fields, cond).is_zero() { b } else { a };
            eval(program, fields, chosen)
        }
    };
    debug_assert!(value.bits() <= u64::from(width), "a value is wider than its expression");
    value
}

fn binary(op: BinaryOp, a: &BigUint, b: &BigUint, width: u32) -> BigUint {
    match op {
        BinaryOp::Add => wrap(a + b, width),
        BinaryOp::Sub => wrap(a + two_to(width) - b, width),
        BinaryOp::Mul => wrap(a * b, width),
        BinaryOp::DivU if b.is_zero() => BigUint::zero(),
        BinaryOp::DivU => a / b,
        BinaryOp::RemU if b.is_zero() => BigUint::zero(),
        BinaryOp::RemU => a % b,
        BinaryOp::SatAddU => (a + b).min(ones(width)),
        BinaryOp::SatSubU if a < b => BigUint::zero(),
        BinaryOp::SatSubU => a - b,
        BinaryOp::SatAddS => saturated(signed(a, width) + signed(b, width), width),
        BinaryOp::SatSubS => saturated(signed(a, width) - signed(b, width), width),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Shl => match count(b, width) {
            Some(count) => wrap(a << count, width),
            None => BigUint::zero(),
        },
        BinaryOp::ShrU => match count(b, width) {
            Some(count) => a >> count,
            None => BigUint::zero(),
        },
        // BigInt rounds towards minus infinity in shifts, as two's complement does.
        BinaryOp::ShrS => unsigned(&(signed(a, width) >> count(b, width).unwrap_or(width)), width),
        BinaryOp::Eq => truth(a == b),
        BinaryOp::Ne => truth(a != b),
        BinaryOp::LtU => truth(a < b),
        BinaryOp::LeU => truth(a <= b),
        BinaryOp::LtS => truth(signed(a, width) < signed(b, width)),
        BinaryOp::LeS => truth(signed(a, width) <= signed(b, width)),
    }
}

/// Returns a shift count, unless it is the width or more.
fn count(count: &BigUint, width: u32) -> Option<u32> {
    count.to_u32().filter(|count| *count < width)
}

fn truth(b: bool) -> BigUint {
    BigUint::from(u32::from(b))
}

fn two_to(width: u32) -> BigUint {
    BigUint::one() << width
}

/// 2^width - 1
pub fn ones(width: u32) -> BigUint {
    two_to(width) - 1u32
}

/// Returns the value modulo 2^width.
pub fn wrap(value: BigUint, width: u32) -> BigUint {
    if value.bits() <= u64::from(width) { value } else { value & ones(width) }
}

/// Returns the number that the bits represent in two's complement.
fn signed(value: &BigUint, width: u32) -> BigInt {
    let number = BigInt::from(value.clone());
    if value.bit(u64::from(width) - 1) { number - BigInt::from(two_to(width)) } else { number }
}

/// Returns the bits of a number that fits two's complement of this width.
fn unsigned(number: &BigInt, width: u32) -> BigUint {
    let number =
        if number.sign() == Sign::Minus { number + BigInt::from(two_to(width)) } else { number.clone() };
    number.to_biguint().expect("it was not below -2^width")
}

fn saturated(number: BigInt, width: u32) -> BigUint {
    let half = BigInt::from(two_to(width - 1));
    unsigned(&number.clamp(-half.clone(), half - 1), width)
}
