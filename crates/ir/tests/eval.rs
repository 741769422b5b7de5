//! Compares expressions with a model that shares no code with them: lists of bits and schoolbook arithmetic.

use num_bigint::BigUint;
use p4jet_ir::eval::eval;
use p4jet_ir::{BinaryOp, Expr, Field, FieldId, FieldKind, Program, UnaryOp};
use proptest::prelude::*;

/// Lowest bit first.
type Bits = Vec<bool>;

fn bits(value: &BigUint, width: u32) -> Bits {
    (0..u64::from(width)).map(|bit| value.bit(bit)).collect()
}

fn number(bits: &[bool]) -> BigUint {
    bits.iter().rev().fold(BigUint::ZERO, |n, bit| n * 2u32 + u32::from(*bit))
}

fn not(a: &[bool]) -> Bits {
    a.iter().map(|bit| !bit).collect()
}

/// Sum and carry.
fn add(a: &[bool], b: &[bool], mut carry: bool) -> (Bits, bool) {
    let mut sum = Bits::new();
    for (a, b) in a.iter().zip(b) {
        sum.push(a ^ b ^ carry);
        carry = (*a && *b) || (carry && (*a || *b));
    }
    (sum, carry)
}

fn sub(a: &[bool], b: &[bool]) -> Bits {
    add(a, &not(b), true).0
}

/// `a` is at least `b` if there is no borrow.
fn less(a: &[bool], b: &[bool]) -> bool {
    !add(a, &not(b), true).1
}

fn less_signed(a: &[bool], b: &[bool]) -> bool {
    match (a[a.len() - 1], b[b.len() - 1]) {
        (true, false) => true,
        (false, true) => false,
        _ => less(a, b),
    }
}

/// Shifts towards the high end without changing the width.
fn shifted(a: &[bool], count: usize) -> Bits {
    (0..a.len()).map(|i| i >= count && a[i - count]).collect()
}

fn mul(a: &[bool], b: &[bool]) -> Bits {
    let mut product = vec![false; a.len()];
    for (i, bit) in b.iter().enumerate() {
        if *bit {
            product = add(&product, &shifted(a, i), false).0;
        }
    }
    product
}

/// Quotient and remainder by long division, both 0 where `b` is.
fn div(a: &[bool], b: &[bool]) -> (Bits, Bits) {
    let zero = vec![false; a.len()];
    if b.iter().all(|bit| !bit) {
        return (zero.clone(), zero);
    }
    let (mut quotient, mut rest) = (zero.clone(), zero);
    // One bit more, because the remainder is doubled.
    let mut wide_b = b.to_vec();
    wide_b.push(false);
    for i in (0..a.len()).rev() {
        let mut doubled = vec![a[i]];
        doubled.extend(&rest);
        if !less(&doubled, &wide_b) {
            quotient[i] = true;
            doubled = sub(&doubled, &wide_b);
        }
        doubled.pop();
        rest = doubled;
    }
    (quotient, rest)
}

fn saturated_signed(a: &[bool], b: &[bool], result: fn(&[bool], &[bool]) -> Bits) -> Bits {
    let extended = |bits: &[bool]| {
        let mut bits = bits.to_vec();
        bits.push(bits[bits.len() - 1]);
        bits
    };
    let mut sum = result(&extended(a), &extended(b));
    let sign = sum.pop().unwrap();
    if sign != sum[sum.len() - 1] {
        sum.fill(!sign);
        *sum.last_mut().unwrap() = sign;
    }
    sum
}

fn model(op: BinaryOp, a: &[bool], b: &[bool]) -> Bits {
    use BinaryOp::*;
    let width = a.len();
    let count = || {
        let high = b.iter().skip(16).any(|bit| *bit);
        let low = b.iter().take(16).rev().fold(0, |n, bit| n * 2 + usize::from(*bit));
        if high { usize::MAX } else { low }
    };
    let right = |count: usize, fill: bool| -> Bits {
        (0..width).map(|i| i.checked_add(count).filter(|i| *i < width).map_or(fill, |i| a[i])).collect()
    };
    match op {
        Add => add(a, b, false).0,
        Sub => sub(a, b),
        Mul => mul(a, b),
        DivU => div(a, b).0,
        RemU => div(a, b).1,
        SatAddU => match add(a, b, false) {
            (_, true) => vec![true; width],
            (sum, false) => sum,
        },
        SatSubU if less(a, b) => vec![false; width],
        SatSubU => sub(a, b),
        SatAddS => saturated_signed(a, b, |a, b| add(a, b, false).0),
        SatSubS => saturated_signed(a, b, sub),
        And => a.iter().zip(b).map(|(a, b)| *a && *b).collect(),
        Or => a.iter().zip(b).map(|(a, b)| *a || *b).collect(),
        Xor => a.iter().zip(b).map(|(a, b)| a != b).collect(),
        Shl => shifted(a, count()),
        ShrU => right(count(), false),
        ShrS => right(count(), a[width - 1]),
        Eq => vec![a == b],
        Ne => vec![a != b],
        LtU => vec![less(a, b)],
        LeU => vec![!less(b, a)],
        LtS => vec![less_signed(a, b)],
        LeS => vec![!less_signed(b, a)],
    }
}

/// A value of this width, including the extreme values.
fn value(width: u32) -> impl Strategy<Value = BigUint> {
    let all = (BigUint::from(1u32) << width) - 1u32;
    let random = proptest::collection::vec(any::<u32>(), width.div_ceil(32) as usize);
    prop_oneof![
        4 => random.prop_map({ let all = all.clone(); move |digits| BigUint::new(digits) & &all }),
        1 => Just(BigUint::ZERO),
        1 => Just(all.clone()),
        1 => Just(BigUint::from(1u32) << (width - 1)),
        1 => Just(all.clone() >> 1),
        1 => (0u32..=width).prop_map(move |small| BigUint::from(small) & &all),
    ]
}

fn widths() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..=600, 1u32..=9, Just(32), Just(63), Just(64), Just(65), Just(128)]
}

fn operands() -> impl Strategy<Value = (u32, BigUint, BigUint)> {
    widths().prop_flat_map(|width| (Just(width), value(width), value(width)))
}

/// A program with two fields.
fn program(a_width: u32, b_width: u32) -> Program {
    let field = |name: &str, width| Field { name: name.to_string(), width, kind: FieldKind::Metadata };
    Program { fields: vec![field("a", a_width), field("b", b_width)], ..Program::default() }
}

fn a() -> Box<Expr> {
    Box::new(Expr::Field(FieldId(0)))
}

fn b() -> Box<Expr> {
    Box::new(Expr::Field(FieldId(1)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn binary((width, x, y) in operands()) {
        let p = program(width, width);
        for op in BinaryOp::ALL {
            let expected = number(&model(op, &bits(&x, width), &bits(&y, width)));
            let found = eval(&p, &[x.clone(), y.clone()], &Expr::Binary(op, a(), b()));
            prop_assert_eq!(&found, &expected, "{}({:#x}, {:#x}) of width {}", op.name(), &x, &y, width);
            // The same after folding.
            let constants = [&x, &y].map(|v| Box::new(Expr::constant(v.clone(), width)));
            let [x, y] = constants;
            let mut folded = Expr::Binary(op, x, y);
            p4jet_ir::passes::fold_expr(&p, &mut folded);
            let result_width = if op.is_comparison() { 1 } else { width };
            prop_assert_eq!(folded, Expr::constant(expected, result_width));
        }
    }

    #[test]
    fn shifts_by_any_width((width, x) in widths().prop_flat_map(|w| (Just(w), value(w))),
                           (count_width, count) in widths().prop_flat_map(|w| (Just(w), value(w)))) {
        let p = program(width, count_width);
        for op in [BinaryOp::Shl, BinaryOp::ShrU, BinaryOp::ShrS] {
            let expected = number(&model(op, &bits(&x, width), &bits(&count, count_width)));
            let found = eval(&p, &[x.clone(), count.clone()], &Expr::Binary(op, a(), b()));
            prop_assert_eq!(found, expected, "{}({:#x}, {:#x}) of width {}", op.name(), &x, &count, width);
        }
    }

    #[test]
    fn the_other_shapes((width, x, y) in operands(), more in 0u32..70, at in any::<u32>(), high in any::<u32>()) {
        let p = program(width, width);
        let fields = [x.clone(), y.clone()];
        let (xb, yb) = (bits(&x, width), bits(&y, width));
        let lo = at % width;
        let hi = lo + high % (width - lo);
        let mut concat = yb.clone();
        concat.extend(&xb);
        let extended = |fill| {
            let mut bits = xb.clone();
            bits.resize((width + more) as usize, fill);
            bits
        };
        let negative = xb[width as usize - 1];
        let checks = [
            (Expr::Unary(UnaryOp::Not, a()), not(&xb)),
            (Expr::Unary(UnaryOp::Neg, a()), sub(&vec![false; width as usize], &xb)),
            (Expr::Slice { value: a(), hi, lo }, xb[lo as usize..=hi as usize].to_vec()),
            (Expr::Concat(a(), b()), concat),
            (Expr::ZeroExtend(a(), width + more), extended(false)),
            (Expr::SignExtend(a(), width + more), extended(negative)),
            (Expr::Select(Box::new(Expr::Slice { value: a(), hi: lo, lo }), a(), b()),
             if xb[lo as usize] { xb.clone() } else { yb.clone() }),
        ];
        for (expr, expected) in checks {
            prop_assert_eq!(expr.width(&p) as usize, expected.len());
            prop_assert_eq!(eval(&p, &fields, &expr), number(&expected), "{:?} of {:#x} and {:#x}", &expr, &x, &y);
        }
    }
}
