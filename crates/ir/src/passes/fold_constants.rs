//! Evaluates constant expressions.
//!
//! Before
//! ```text
//! meta.x = add(add(meta.x, 0x1:8), 0x2:8)
//! if eq(0x3:8, 0x3:8) then n1 else n2
//! ```
//! After
//! ```text
//! meta.x = add(meta.x, 0x3:8)
//! goto n1
//! ```
//!
//! On exit no operator has only constant operands, constants are the right operands of commutative operators, and no
//! branch has a constant condition or a single successor. Unreachable nodes may remain.

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};

use crate::eval::{eval, ones};
use crate::{BinaryOp, Expr, Op, Program, Terminator, UnaryOp};

/// The pass.
pub fn fold_constants(program: &mut Program) {
    // Moves the graphs out of the program, because expressions look up widths of fields in it.
    let mut actions = std::mem::take(&mut program.actions);
    let mut blocks = std::mem::take(&mut program.blocks);
    let bodies = actions.iter_mut().map(|a| &mut a.body).chain(blocks.iter_mut().map(|b| &mut b.body));
    for node in bodies.flat_map(|body| &mut body.nodes) {
        for stmt in &mut node.stmts {
            stmt.op.for_each_expr_mut(&mut |e| fold_expr(program, e));
        }
        node.stmts.retain_mut(|stmt| resolve_element(&mut stmt.op));
        node.terminator.for_each_expr_mut(&mut |e| fold_expr(program, e));
        while let Some(simpler) = simpler_terminator(program, &node.terminator) {
            node.terminator = simpler;
        }
    }
    program.actions = actions;
    program.blocks = blocks;
}

/// Turns a statement on an element with a constant index into one on that field. False if the statement has no effect.
fn resolve_element(op: &mut Op) -> bool {
    match op {
        Op::Advance { bits } => return !is_zero(bits),
        Op::SetElement { column, index, value } => {
            if let Some(index) = constant(index) {
                let Some(dest) = element(column, index) else { return false };
                *op = Op::Set { dest, value: value.clone() };
            }
        }
        Op::ExtractElement { headers, index, varbit_length } => {
            if let Some(index) = constant(index) {
                let Some(header) = element(headers, index) else { return false };
                *op = Op::Extract { header, varbit_length: varbit_length.clone() };
            }
        }
        _ => {}
    }
    true
}

fn element<T: Copy>(column: &[T], index: &BigUint) -> Option<T> {
    column.get(index.to_usize()?).copied()
}

/// Folds one expression of any depth.
pub fn fold_expr(program: &Program, expr: &mut Expr) {
    expr.rewrite(&mut |e| {
        // Each step makes the expression smaller or moves a constant to the right, so this terminates.
        while let Some(simpler) = simpler_expr(program, e) {
            *e = simpler;
        }
    });
}

fn constant(expr: &Expr) -> Option<&BigUint> {
    match expr {
        Expr::Const { value, .. } => Some(value),
        _ => None,
    }
}

fn is_zero(expr: &Expr) -> bool {
    constant(expr).is_some_and(BigUint::is_zero)
}

/// Returns a simpler expression with the same value, if one is known. The operands are already simplified.
fn simpler_expr(program: &Program, expr: &Expr) -> Option<Expr> {
    let width = expr.width(program);
    let operands_constant = match expr {
        Expr::Const { .. } | Expr::Field(_) | Expr::Element { .. } => false,
        Expr::Unary(_, a)
        | Expr::Slice { value: a, .. }
        | Expr::ZeroExtend(a, _)
        | Expr::SignExtend(a, _) => constant(a).is_some(),
        Expr::Binary(_, a, b) | Expr::Concat(a, b) => constant(a).and(constant(b)).is_some(),
        Expr::Select(c, a, b) => constant(c).and(constant(a)).and(constant(b)).is_some(),
    };
    if operands_constant {
        return Some(Expr::Const { value: eval(program, &[], expr), width });
    }
    match expr {
        Expr::Const { .. } | Expr::Field(_) => None,
        Expr::Element { column, index } => constant(index).map(|index| match element(column, index) {
            Some(field) => Expr::Field(field),
            None => Expr::constant(0u32, width),
        }),
        Expr::Unary(op, a) => unary(*op, a),
        Expr::Binary(op, a, b) => binary(program, *op, a, b, width),
        Expr::Slice { value, hi, lo } => slice(program, value, *hi, *lo),
        Expr::Concat(a, b) if is_zero(a) => Some(Expr::ZeroExtend(b.clone(), width)),
        Expr::Concat(..) => None,
        Expr::ZeroExtend(a, _) | Expr::SignExtend(a, _) if a.width(program) == width => Some((**a).clone()),
        Expr::ZeroExtend(a, _) => match &**a {
            Expr::ZeroExtend(inner, _) => Some(Expr::ZeroExtend(inner.clone(), width)),
            _ => None,
        },
        Expr::SignExtend(a, _) => match &**a {
            Expr::SignExtend(inner, _) => Some(Expr::SignExtend(inner.clone(), width)),
            // The sign bit is a 0 from a zero-extension; extensions by nothing have been removed by now.
            Expr::ZeroExtend(inner, _) => Some(Expr::ZeroExtend(inner.clone(), width)),
            _ => None,
        },
        Expr::Select(c, a, b) => select(c, a, b, width),
    }
}

fn unary(op: UnaryOp, a: &Expr) -> Option<Expr> {
    match (op, a) {
        (outer, Expr::Unary(inner, a)) if outer == *inner => Some((**a).clone()),
        (UnaryOp::Not, Expr::Binary(op, a, b)) => {
            let (op, swapped) = match op {
                BinaryOp::Eq => (BinaryOp::Ne, false),
                BinaryOp::Ne => (BinaryOp::Eq, false),
                BinaryOp::LtU => (BinaryOp::LeU, true),
                BinaryOp::LeU => (BinaryOp::LtU, true),
                BinaryOp::LtS => (BinaryOp::LeS, true),
                BinaryOp::LeS => (BinaryOp::LtS, true),
                _ => return None,
            };
            let (a, b) = if swapped { (b, a) } else { (a, b) };
            Some(Expr::Binary(op, a.clone(), b.clone()))
        }
        _ => None,
    }
}

fn binary(program: &Program, op: BinaryOp, a: &Expr, b: &Expr, width: u32) -> Option<Expr> {
    use BinaryOp::*;
    let zero = || Expr::constant(0u32, width);
    let one = || Expr::constant(1u32, width);
    if constant(a).is_some() && matches!(op, Add | Mul | SatAddU | SatAddS | And | Or | Xor | Eq | Ne) {
        return Some(Expr::Binary(op, Box::new(b.clone()), Box::new(a.clone())));
    }
    if a == b {
        match op {
            Sub | SatSubU | SatSubS | Xor | Ne | LtU | LtS => return Some(zero()),
            Eq | LeU | LeS => return Some(one()),
            And | Or => return Some(a.clone()),
            _ => {}
        }
    }
    if is_zero(a) && matches!(op, Shl | ShrU | ShrS | DivU | RemU | SatSubU) {
        return Some(zero());
    }
    if is_zero(a) && op == LeU {
        return Some(one());
    }
    let value = constant(b)?;
    let operand_width = a.width(program);
    let all_ones = *value == ones(operand_width);
    if value.is_zero() {
        match op {
            Add | Sub | SatAddU | SatSubU | SatAddS | SatSubS | Or | Xor | Shl | ShrU | ShrS => {
                return Some(a.clone());
            }
            Mul | And | DivU | RemU | LtU => return Some(zero()),
            Eq if operand_width == 1 => return Some(Expr::Unary(UnaryOp::Not, Box::new(a.clone()))),
            Ne if operand_width == 1 => return Some(a.clone()),
            LeU => return Some(Expr::Binary(Eq, Box::new(a.clone()), Box::new(b.clone()))),
            _ => {}
        }
    }
    if value.is_one() {
        match op {
            Mul | DivU => return Some(a.clone()),
            RemU => return Some(zero()),
            Eq if operand_width == 1 => return Some(a.clone()),
            Ne if operand_width == 1 => return Some(Expr::Unary(UnaryOp::Not, Box::new(a.clone()))),
            _ => {}
        }
    }
    if all_ones {
        match op {
            And => return Some(a.clone()),
            Or | SatAddU => return Some(Expr::Const { value: value.clone(), width }),
            Xor => return Some(Expr::Unary(UnaryOp::Not, Box::new(a.clone()))),
            LeU => return Some(one()),
            _ => {}
        }
    }
    if matches!(op, Shl | ShrU) && value.to_u32().is_none_or(|count| count >= width) {
        return Some(zero());
    }
    // (x op c) op d, if the operator is associative.
    if let Expr::Binary(inner, x, c) = a
        && *inner == op
        && constant(c).is_some()
        && matches!(op, Add | Mul | And | Or | Xor)
    {
        let both = Expr::Binary(op, c.clone(), Box::new(b.clone()));
        let both = Expr::Const { value: eval(program, &[], &both), width };
        return Some(Expr::Binary(op, x.clone(), Box::new(both)));
    }
    // Equality of a zero-extended value: the value decides, or the result is constant.
    if let Expr::ZeroExtend(x, _) = a
        && matches!(op, Eq | Ne)
    {
        let x_width = x.width(program);
        if value.bits() > u64::from(x_width) {
            return Some(Expr::constant(u32::from(op == Ne), 1));
        }
        return Some(Expr::Binary(
            op,
            x.clone(),
            Box::new(Expr::Const { value: value.clone(), width: x_width }),
        ));
    }
    None
}

fn slice(program: &Program, value: &Expr, hi: u32, lo: u32) -> Option<Expr> {
    let of = |value: &Expr, hi, lo| Some(Expr::Slice { value: Box::new(value.clone()), hi, lo });
    if lo == 0 && hi + 1 == value.width(program) {
        return Some(value.clone());
    }
    match value {
        Expr::Slice { value, lo: inner, .. } => of(value, hi + inner, lo + inner),
        Expr::Concat(a, b) => {
            let low = b.width(program);
            if hi < low {
                of(b, hi, lo)
            } else if lo >= low {
                of(a, hi - low, lo - low)
            } else {
                None
            }
        }
        Expr::ZeroExtend(a, _) => {
            let from = a.width(program);
            if lo >= from {
                Some(Expr::constant(0u32, hi - lo + 1))
            } else if hi < from {
                of(a, hi, lo)
            } else {
                None
            }
        }
        Expr::SignExtend(a, _) if hi < a.width(program) => of(a, hi, lo),
        _ => None,
    }
}

fn select(c: &Expr, a: &Expr, b: &Expr, width: u32) -> Option<Expr> {
    if let Some(c) = constant(c) {
        return Some(if c.is_zero() { b.clone() } else { a.clone() });
    }
    if a == b {
        return Some(a.clone());
    }
    if let Expr::Unary(UnaryOp::Not, c) = c {
        return Some(Expr::Select(c.clone(), Box::new(b.clone()), Box::new(a.clone())));
    }
    if width == 1
        && let (Some(a), Some(_)) = (constant(a), constant(b))
    {
        // The two constants differ.
        return Some(if a.is_one() { c.clone() } else { Expr::Unary(UnaryOp::Not, Box::new(c.clone())) });
    }
    None
}

fn simpler_terminator(program: &Program, terminator: &Terminator) -> Option<Terminator> {
    match terminator {
        Terminator::If { cond, then, otherwise } => match cond {
            Expr::Const { value, .. } => {
                Some(Terminator::Goto(if value.is_zero() { *otherwise } else { *then }))
            }
            _ if then == otherwise => Some(Terminator::Goto(*then)),
            Expr::Unary(UnaryOp::Not, inner) => {
                Some(Terminator::If { cond: (**inner).clone(), then: *otherwise, otherwise: *then })
            }
            _ => None,
        },
        Terminator::Switch { value, cases, default } => {
            if let Expr::Const { value, .. } = value {
                let case = cases.iter().find(|(case, _)| case == value);
                return Some(Terminator::Goto(case.map_or(*default, |(_, node)| *node)));
            }
            if cases.iter().any(|(_, node)| node == default) {
                let cases = cases.iter().filter(|(_, node)| node != default).cloned().collect();
                return Some(Terminator::Switch { value: value.clone(), cases, default: *default });
            }
            if cases.is_empty() {
                return Some(Terminator::Goto(*default));
            }
            if value.width(program) == 1 {
                let way = |bit: u32| {
                    cases.iter().find(|(case, _)| *case == bit.into()).map_or(*default, |(_, node)| *node)
                };
                return Some(Terminator::If { cond: value.clone(), then: way(1), otherwise: way(0) });
            }
            None
        }
        _ => None,
    }
}
