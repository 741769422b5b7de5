//! Random expressions over random widths: the interpreter, the JIT and a big-integer model give the same result.
//!
//! The operands come out of a packet and the result goes into one, so extraction and write-back at odd offsets and widths
//! are tested along the way. Blind spot: division and multiplication are rare at more than a few hundred bits.

use num_bigint::{BigInt, BigUint, Sign};
use p4jet_dataplane::{EngineKind, Switch};
use p4jet_ir::random::Rng;
use p4jet_ir::{
    BinaryOp, Block, BlockId, BlockKind, Cfg, Expr, Field, FieldId, FieldKind, Header, HeaderField, HeaderId,
    Loc, Node, Op, Program, SourceLoc, Stmt, Terminator, UnaryOp,
};

const EXPRESSIONS: u64 = 1500;
const WIDTH_MAX: usize = 520;

/// The fields `a`, `b`, `c` and the constants in the expressions.
struct Maker {
    rng: Rng,
    widths: [u32; 3],
}

impl Maker {
    fn width(&mut self) -> u32 {
        match self.rng.below(4) {
            0 => *self.rng.pick(&[1, 7, 8, 9, 16, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129, 256, 512]),
            1 => self.rng.range(1, 64) as u32,
            2 => self.rng.range(1, WIDTH_MAX) as u32,
            _ => self.widths[self.rng.below(3)],
        }
    }

    fn number(&mut self, width: u32) -> BigUint {
        let ones = (BigUint::from(1u32) << width) - 1u32;
        match self.rng.below(5) {
            0 => BigUint::ZERO,
            1 => ones,
            2 => BigUint::from(1u32) << (width - 1),
            3 => BigUint::from(self.rng.below(70)) & ones,
            _ => self.random(width),
        }
    }

    fn random(&mut self, width: u32) -> BigUint {
        let digits = (0..width.div_ceil(32)).map(|_| self.rng.next_u64() as u32).collect();
        BigUint::new(digits) & ((BigUint::from(1u32) << width) - 1u32)
    }

    fn expr(&mut self, width: u32, depth: u32) -> Expr {
        if depth == 0 || self.rng.once_in(8) {
            let field = self.widths.iter().position(|w| *w == width);
            return match field {
                Some(i) if !self.rng.once_in(4) => Expr::Field(FieldId(i as u32)),
                _ => Expr::Const { value: self.number(width), width },
            };
        }
        let sub = |s: &mut Self, w: u32| Box::new(s.expr(w, depth - 1));
        let binary = |s: &mut Self, op: BinaryOp| {
            let a = sub(s, width);
            let b = sub(s, width);
            Expr::Binary(op, a, b)
        };
        match self.rng.below(if width == 1 { 9 } else { 8 }) {
            0 | 1 => {
                use BinaryOp::*;
                let op = *self
                    .rng
                    .pick(&[Add, Sub, Mul, DivU, RemU, SatAddU, SatSubU, SatAddS, SatSubS, And, Or, Xor]);
                binary(self, op)
            }
            2 => {
                let op = *self.rng.pick(&[BinaryOp::Shl, BinaryOp::ShrU, BinaryOp::ShrS]);
                let count_width = *self.rng.pick(&[1, 4, 8, 32, 64, 70, 130]);
                let a = sub(self, width);
                Expr::Binary(op, a, Box::new(self.expr(count_width, depth - 1)))
            }
            3 => {
                let op = *self.rng.pick(&[UnaryOp::Not, UnaryOp::Neg]);
                Expr::Unary(op, sub(self, width))
            }
            4 => {
                let wide = width + self.rng.below(80) as u32;
                let lo = self.rng.below((wide - width + 1) as usize) as u32;
                Expr::Slice { value: sub(self, wide), hi: lo + width - 1, lo }
            }
            5 if width > 1 => {
                let low = self.rng.range(1, width as usize - 1) as u32;
                let a = sub(self, width - low);
                let b = sub(self, low);
                Expr::Concat(a, b)
            }
            6 if width > 1 => {
                let narrow = self.rng.range(1, width as usize - 1) as u32;
                let a = sub(self, narrow);
                if self.rng.once_in(2) { Expr::ZeroExtend(a, width) } else { Expr::SignExtend(a, width) }
            }
            8 => {
                use BinaryOp::*;
                let op = *self.rng.pick(&[Eq, Ne, LtU, LeU, LtS, LeS]);
                let w = self.width();
                let a = sub(self, w);
                let b = if self.rng.once_in(5) { a.clone() } else { sub(self, w) };
                Expr::Binary(op, a, b)
            }
            _ => {
                let c = sub(self, 1);
                let a = sub(self, width);
                let b = sub(self, width);
                Expr::Select(c, a, b)
            }
        }
    }
}

fn signed(value: &BigUint, width: u32) -> BigInt {
    let value = BigInt::from(value.clone());
    if value.bit(u64::from(width) - 1) { value - (BigInt::from(1) << width) } else { value }
}

/// Modulo 2^width, never negative.
fn wrapped(value: BigInt, width: u32) -> BigUint {
    let modulus = BigInt::from(1) << width;
    let value = ((value % &modulus) + &modulus) % modulus;
    value.to_biguint().expect("it is not negative")
}

/// Evaluates an expression with big integers; written from the P4_16 specification, section 8.
fn model(e: &Expr, widths: &[u32; 3], fields: &[BigUint; 3]) -> (BigUint, u32) {
    let eval = |e: &Expr| model(e, widths, fields);
    match e {
        Expr::Const { value, width } => (value.clone(), *width),
        Expr::Field(f) => (fields[f.index()].clone(), widths[f.index()]),
        Expr::Element { column, index } => {
            let at = usize::try_from(eval(index).0).ok();
            let value = at.and_then(|at| column.get(at)).map_or(BigUint::ZERO, |f| fields[f.index()].clone());
            (value, widths[column[0].index()])
        }
        Expr::Unary(op, a) => {
            let (a, w) = eval(a);
            let a = BigInt::from(a);
            (wrapped(if *op == UnaryOp::Neg { -a } else { -a - 1 }, w), w)
        }
        Expr::Slice { value, hi, lo } => {
            (wrapped(BigInt::from(eval(value).0 >> *lo), hi - lo + 1), hi - lo + 1)
        }
        Expr::Concat(a, b) => {
            let ((a, wa), (b, wb)) = (eval(a), eval(b));
            (a * (BigUint::from(1u32) << wb) + b, wa + wb)
        }
        Expr::ZeroExtend(a, w) => (eval(a).0, *w),
        Expr::SignExtend(a, w) => {
            let (a, wa) = eval(a);
            (wrapped(signed(&a, wa), *w), *w)
        }
        Expr::Select(c, a, b) => {
            if eval(c).0 == BigUint::ZERO {
                eval(b)
            } else {
                eval(a)
            }
        }
        Expr::Binary(op, a, b) => {
            let ((x, w), (y, _)) = (eval(a), eval(b));
            let (sx, sy) = (signed(&x, w), |y: &BigUint| signed(y, w));
            let (ix, iy) = (BigInt::from(x.clone()), BigInt::from(y.clone()));
            let bool_of = |b: bool| (BigUint::from(u32::from(b)), 1);
            let clamp = |v: BigInt| {
                let half = BigInt::from(1) << (w - 1);
                wrapped(v.clamp(-half.clone(), half - 1), w)
            };
            let count = u64::try_from(&y).unwrap_or(u64::MAX).min(u64::from(w));
            let value = match op {
                BinaryOp::Eq => return bool_of(x == y),
                BinaryOp::Ne => return bool_of(x != y),
                BinaryOp::LtU => return bool_of(x < y),
                BinaryOp::LeU => return bool_of(x <= y),
                BinaryOp::LtS => return bool_of(sx < sy(&y)),
                BinaryOp::LeS => return bool_of(sx <= sy(&y)),
                BinaryOp::Add => wrapped(ix + iy, w),
                BinaryOp::Sub => wrapped(ix - iy, w),
                BinaryOp::Mul => wrapped(ix * iy, w),
                BinaryOp::DivU if iy.sign() == Sign::NoSign => BigUint::ZERO,
                BinaryOp::RemU if iy.sign() == Sign::NoSign => BigUint::ZERO,
                BinaryOp::DivU => x / y,
                BinaryOp::RemU => x % y,
                BinaryOp::SatAddU => (x + y).min((BigUint::from(1u32) << w) - 1u32),
                BinaryOp::SatSubU => wrapped((ix - iy).max(BigInt::ZERO), w),
                BinaryOp::SatAddS => clamp(sx + sy(&y)),
                BinaryOp::SatSubS => clamp(sx - sy(&y)),
                BinaryOp::And => x & y,
                BinaryOp::Or => x | y,
                BinaryOp::Xor => x ^ y,
                BinaryOp::Shl => wrapped(ix << count, w),
                BinaryOp::ShrU => x >> count,
                BinaryOp::ShrS => wrapped(sx >> count, w),
            };
            (value, w)
        }
    }
}

/// A program that extracts `a`, `b`, `c`, sets `result` to the expression and sends it with the rest.
fn program(widths: &[u32; 3], expr: Expr, width: u32) -> Program {
    let header = HeaderId(0);
    let mut fields: Vec<Field> = widths
        .iter()
        .zip(["a", "b", "c"])
        .map(|(&width, name)| Field { name: format!("h.{name}"), width, kind: FieldKind::Header(header) })
        .collect();
    fields.push(Field { name: "h.result".into(), width, kind: FieldKind::Header(header) });
    let total: u32 = widths.iter().sum::<u32>() + width;
    if !total.is_multiple_of(8) {
        fields.push(Field { name: "h.rest".into(), width: 8 - total % 8, kind: FieldKind::Header(header) });
    }
    let header_fields =
        (0..fields.len()).map(|i| HeaderField { field: FieldId(i as u32), varbit_length: None }).collect();
    let valid = FieldId(fields.len() as u32);
    fields.push(Field { name: "h.$valid$".into(), width: 1, kind: FieldKind::Valid(header) });
    let error = FieldId(fields.len() as u32);
    fields.push(Field { name: "error".into(), width: 32, kind: FieldKind::Metadata });
    let block = |name: &str, kind, op, error_field| Block {
        name: name.into(),
        kind,
        body: Cfg {
            nodes: vec![Node {
                label: String::new(),
                stmts: vec![Stmt { op, loc: Loc(0) }],
                terminator: Terminator::Return,
                terminator_loc: Loc(0),
            }],
        },
        error_field,
    };
    Program {
        name: "expression".into(),
        fields,
        headers: vec![Header { name: "h".into(), valid, fields: header_fields }],
        blocks: vec![
            block("p", BlockKind::Parser, Op::Extract { header, varbit_length: None }, Some(error)),
            block("c", BlockKind::Control, Op::Set { dest: FieldId(3), value: expr }, None),
            block("d", BlockKind::Deparser, Op::Emit { header }, None),
        ],
        ingress: vec![BlockId(0), BlockId(1)],
        egress: vec![BlockId(2)],
        errors: vec!["NoError".into(), "PacketTooShort".into()],
        error_packet_too_short: 1,
        locs: vec![SourceLoc::default()],
        ..Program::default()
    }
}

/// The values one after the other, the last bits 0.
fn frame(values: &[(BigUint, u32)]) -> Vec<u8> {
    let mut all = BigUint::ZERO;
    let mut bits = 0;
    for (value, width) in values {
        all = (all << *width) | value;
        bits += width;
    }
    let bytes = bits.div_ceil(8);
    let all = (all << (bytes * 8 - bits)).to_bytes_be();
    let mut out = vec![0; bytes as usize];
    let skip = out.len().saturating_sub(all.len());
    if all != [0] {
        out[skip..].copy_from_slice(&all);
    }
    out
}

#[test]
fn interpreter_jit_and_integers_agree() {
    for seed in 0..EXPRESSIONS {
        let mut maker = Maker { rng: Rng::new(seed), widths: [1; 3] };
        maker.widths = [maker.width(), maker.width(), maker.width()];
        let widths = maker.widths;
        let width = maker.width();
        let expr = maker.expr(width, 3);
        let lowered = program(&widths, expr.clone(), width);
        p4jet_ir::verify::verify(&lowered).unwrap_or_else(|e| panic!("seed {seed}: {}", e[0]));
        let mut optimised = lowered.clone();
        p4jet_ir::passes::run(&mut optimised);
        let reference = Switch::new(lowered).unwrap();
        let fast = Switch::new(optimised).unwrap();
        let mut interp = reference.worker(EngineKind::Interp, 0).unwrap();
        let mut jit = fast.worker(EngineKind::Jit, 0).unwrap();
        for _ in 0..4 {
            let values = [maker.number(widths[0]), maker.number(widths[1]), maker.number(widths[2])];
            let mut parts: Vec<(BigUint, u32)> = values.iter().cloned().zip(widths).collect();
            parts.push((BigUint::ZERO, width));
            let input = frame(&parts);
            let (result, result_width) = model(&expr, &widths, &values);
            assert_eq!(result_width, width);
            parts[3].0 = result;
            let want = vec![(0, frame(&parts))];
            let text = || format!("seed {seed}: {expr:?} with {values:x?}");
            assert_eq!(interp.process_one(0, &input).sent, want, "interpreter, {}", text());
            assert_eq!(jit.process_one(0, &input).sent, want, "jit, {}", text());
        }
    }
}
