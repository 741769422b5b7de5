//! Expressions over values of any width.
//!
//! A value is a row of 64-bit limbs, least significant first. Bits beyond its width are always zero. Operations of up
//! to 64 bits are inline; on wider values the cheap ones are inline, and the others call [`crate::runtime`].

use super::{Buffer, Codegen, Error};
use crate::runtime::WideOp;
use crate::widths::{limb_count, ones};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use num_bigint::BigUint;
use p4jet_ir::{BinaryOp, Expr, UnaryOp};

/// Limbs of a value, least significant first.
pub type Limbs = Vec<Value>;

/// The integer type of 8, 16, 32 or 64 bits.
pub(super) fn int(width: u32) -> Type {
    match width {
        8 => types::I8,
        16 => types::I16,
        32 => types::I32,
        _ => types::I64,
    }
}

impl Codegen<'_, '_> {
    pub(super) fn iconst(&mut self, value: u64) -> Value {
        self.b.ins().iconst(types::I64, value as i64)
    }

    pub(super) fn constant(&mut self, value: &BigUint, width: u32) -> Limbs {
        let digits = value.to_u64_digits();
        (0..limb_count(width)).map(|i| self.iconst(digits.get(i).copied().unwrap_or(0))).collect()
    }

    /// 0 of any width.
    pub(super) fn zero(&mut self, width: u32) -> Limbs {
        let zero = self.iconst(0);
        vec![zero; limb_count(width)]
    }

    /// Appends limbs of 0 up to a width.
    pub(super) fn zero_extend(&mut self, limbs: &mut Limbs, width: u32) {
        if limbs.len() < limb_count(width) {
            let zero = self.iconst(0);
            limbs.resize(limb_count(width), zero);
        }
    }

    /// Clears what lies beyond `width` (at most 64) bits.
    pub(super) fn mask(&mut self, value: Value, width: u32) -> Value {
        match width {
            64.. => value,
            // `band` with 0xffffffff would load its mask from memory.
            8 | 16 | 32 => {
                let narrow = self.b.ins().ireduce(int(width), value);
                self.b.ins().uextend(types::I64, narrow)
            }
            _ => self.b.ins().band_imm_u(value, ones(width) as i64),
        }
    }

    fn mask_top(&mut self, limbs: &mut Limbs, width: u32) {
        let used = width - 64 * (limbs.len() as u32 - 1);
        let last = limbs.len() - 1;
        limbs[last] = self.mask(limbs[last], used);
    }

    /// Converts a Cranelift boolean to a limb.
    pub(super) fn bool_limb(&mut self, value: Value) -> Value {
        if self.b.func.dfg.value_type(value) == types::I64 {
            value
        } else {
            self.b.ins().uextend(types::I64, value)
        }
    }

    fn sign_extend_limb(&mut self, value: Value, width: u32) -> Value {
        match width {
            64 => value,
            8 | 16 | 32 => {
                let narrow = self.b.ins().ireduce(int(width), value);
                self.b.ins().sextend(types::I64, narrow)
            }
            _ => {
                let up = self.b.ins().ishl_imm_u(value, i64::from(64 - width));
                self.b.ins().sshr_imm_u(up, i64::from(64 - width))
            }
        }
    }

    /// A condition to branch on: any integer, true if not 0.
    pub(super) fn condition(&mut self, expr: &Expr) -> Result<Value, Error> {
        match expr {
            Expr::Binary(op, a, b) if op.is_comparison() => self.compare(*op, a, b),
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let a = self.condition(a)?;
                let b = self.condition(b)?;
                let a = self.narrow_condition(a);
                let b = self.narrow_condition(b);
                Ok(if *op == BinaryOp::And { self.b.ins().band(a, b) } else { self.b.ins().bor(a, b) })
            }
            _ => Ok(self.expr(expr)?[0]),
        }
    }

    fn narrow_condition(&mut self, value: Value) -> Value {
        if self.b.func.dfg.value_type(value) == types::I8 {
            value
        } else {
            self.b.ins().ireduce(types::I8, value)
        }
    }

    fn compare(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Result<Value, Error> {
        let width = a.width(self.program());
        let x = self.expr(a)?;
        let y = self.expr(b)?;
        Ok(self.compare_limbs(op, &x, &y, width))
    }

    fn compare_limbs(&mut self, op: BinaryOp, x: &Limbs, y: &Limbs, width: u32) -> Value {
        if x.len() == 1 {
            let (code, signed) = match op {
                BinaryOp::Eq => (IntCC::Equal, false),
                BinaryOp::Ne => (IntCC::NotEqual, false),
                BinaryOp::LtU => (IntCC::UnsignedLessThan, false),
                BinaryOp::LeU => (IntCC::UnsignedLessThanOrEqual, false),
                BinaryOp::LtS => (IntCC::SignedLessThan, true),
                _ => (IntCC::SignedLessThanOrEqual, true),
            };
            let (mut a, mut b) = (x[0], y[0]);
            if signed {
                a = self.sign_extend_limb(a, width);
                b = self.sign_extend_limb(b, width);
            }
            return self.b.ins().icmp(code, a, b);
        }
        match op {
            BinaryOp::Eq | BinaryOp::Ne => {
                let mut difference = None;
                for (&a, &b) in x.iter().zip(y) {
                    let differing = self.b.ins().bxor(a, b);
                    self.or_limb(&mut difference, differing);
                }
                let code = if op == BinaryOp::Eq { IntCC::Equal } else { IntCC::NotEqual };
                self.b.ins().icmp_imm_u(code, difference.expect("at least one limb"), 0)
            }
            BinaryOp::LtU => self.sub_limbs(x, y).1,
            BinaryOp::LeU => {
                let greater = self.sub_limbs(y, x).1;
                self.b.ins().bxor_imm_u(greater, 1)
            }
            _ => {
                // Flipping the sign bits turns the signed order into the unsigned one.
                let bit = (width - 1) % 64;
                let flip = |cg: &mut Self, v: &Limbs| {
                    let mut v = v.clone();
                    let last = v.len() - 1;
                    let sign = cg.iconst(1 << bit);
                    v[last] = cg.b.ins().bxor(v[last], sign);
                    v
                };
                let (x, y) = (flip(self, x), flip(self, y));
                let unsigned = if op == BinaryOp::LtS { BinaryOp::LtU } else { BinaryOp::LeU };
                self.compare_limbs(unsigned, &x, &y, width)
            }
        }
    }

    fn add_limbs(&mut self, x: &Limbs, y: &Limbs) -> Limbs {
        let add = |cg: &mut Self, a, b| {
            let sum = cg.b.ins().iadd(a, b);
            (sum, cg.b.ins().icmp(IntCC::UnsignedLessThan, sum, a))
        };
        self.chain_limbs(x, y, add).0
    }

    /// Difference and borrow.
    fn sub_limbs(&mut self, x: &Limbs, y: &Limbs) -> (Limbs, Value) {
        self.chain_limbs(x, y, |cg, a, b| {
            let difference = cg.b.ins().isub(a, b);
            (difference, cg.b.ins().icmp(IntCC::UnsignedLessThan, a, b))
        })
    }

    /// Applies `op` limb by limb, and to each result the carry of the limb before. `op` returns a limb and its carry.
    fn chain_limbs(
        &mut self,
        x: &Limbs,
        y: &Limbs,
        op: impl Fn(&mut Self, Value, Value) -> (Value, Value),
    ) -> (Limbs, Value) {
        let mut out = Vec::with_capacity(x.len());
        let mut carry: Option<Value> = None;
        for (&a, &b) in x.iter().zip(y) {
            let (mut limb, mut carried) = op(self, a, b);
            if let Some(carry) = carry {
                let carry = self.bool_limb(carry);
                let (next, again) = op(self, limb, carry);
                (limb, carried) = (next, self.b.ins().bor(carried, again));
            }
            out.push(limb);
            carry = Some(carried);
        }
        (out, carry.expect("at least one limb"))
    }

    /// Bits `lo` to `lo + width - 1`.
    pub(super) fn slice_limbs(&mut self, x: &[Value], lo: u32, width: u32) -> Limbs {
        let (skip, shift) = ((lo / 64) as usize, lo % 64);
        let mut out = Vec::new();
        for i in 0..limb_count(width) {
            let mut limb = x[skip + i];
            if shift != 0 {
                limb = self.b.ins().ushr_imm_u(limb, i64::from(shift));
                if let Some(&next) = x.get(skip + i + 1) {
                    // Skipped where the wanted bits end before it.
                    if width - 64 * (i as u32) > 64 - shift {
                        let high = self.b.ins().ishl_imm_u(next, i64::from(64 - shift));
                        limb = self.b.ins().bor(limb, high);
                    }
                }
            }
            out.push(limb);
        }
        self.mask_top(&mut out, width);
        out
    }

    /// Puts `x` (of `width` bits) at bit `at` of the accumulating limbs.
    pub(super) fn place_limbs(&mut self, out: &mut [Option<Value>], x: &[Value], width: u32, at: u32) {
        let (skip, shift) = ((at / 64) as usize, at % 64);
        for (i, &limb) in x.iter().enumerate() {
            let low = if shift == 0 { limb } else { self.b.ins().ishl_imm_u(limb, i64::from(shift)) };
            self.or_limb(&mut out[skip + i], low);
            let bits_here = (width - 64 * i as u32).min(64);
            if shift != 0 && bits_here > 64 - shift {
                let high = self.b.ins().ushr_imm_u(limb, i64::from(64 - shift));
                self.or_limb(&mut out[skip + i + 1], high);
            }
        }
    }

    fn or_limb(&mut self, into: &mut Option<Value>, value: Value) {
        *into = Some(match *into {
            None => value,
            Some(old) => self.b.ins().bor(old, value),
        });
    }

    pub(super) fn filled(&mut self, limbs: Vec<Option<Value>>) -> Limbs {
        limbs.into_iter().map(|l| l.unwrap_or_else(|| self.iconst(0))).collect()
    }

    fn shift_left_const(&mut self, x: &Limbs, width: u32, by: u32) -> Limbs {
        if by >= width {
            return self.zero(width);
        }
        let low = self.slice_limbs(x, 0, width - by);
        let mut out = vec![None; x.len()];
        self.place_limbs(&mut out, &low, width - by, by);
        self.filled(out)
    }

    /// The count of a shift as one limb, at least 2^32 if it is that large.
    fn shift_count(&mut self, count: &Limbs) -> Value {
        let mut low = count[0];
        if count.len() > 1 {
            let mut rest = count[1];
            for &limb in &count[2..] {
                rest = self.b.ins().bor(rest, limb);
            }
            let huge = self.iconst(1 << 32);
            low = self.b.ins().select(rest, huge, low);
        }
        low
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Limbs, Error> {
        self.check_size()?;
        let width = expr.width(self.program());
        Ok(match expr {
            Expr::Const { value, width } => self.constant(value, *width),
            Expr::Field(f) => self.get_field(*f),
            Expr::Element { column, index } => self.get_element(column, index)?,
            Expr::Unary(UnaryOp::Not, a) => {
                let a = self.expr(a)?;
                // A mask that fits an instruction: that of `band` after `bnot` would be loaded.
                if width < 32 {
                    return Ok(vec![self.b.ins().bxor_imm_u(a[0], ones(width) as i64)]);
                }
                let mut out: Limbs = a.iter().map(|&l| self.b.ins().bnot(l)).collect();
                self.mask_top(&mut out, width);
                out
            }
            Expr::Unary(UnaryOp::Neg, a) => {
                let a = self.expr(a)?;
                let mut out = if a.len() == 1 {
                    vec![self.b.ins().ineg(a[0])]
                } else {
                    let zero = self.zero(width);
                    self.sub_limbs(&zero, &a).0
                };
                self.mask_top(&mut out, width);
                out
            }
            Expr::Binary(op, a, b) if op.is_comparison() => {
                let value = self.compare(*op, a, b)?;
                vec![self.bool_limb(value)]
            }
            Expr::Binary(op, a, b) if op.is_shift() => {
                let x = self.expr(a)?;
                if let Expr::Const { value, .. } = &**b {
                    let by = u32::try_from(value).unwrap_or(u32::MAX).min(width);
                    return Ok(self.shift_const(*op, &x, width, by));
                }
                let count = self.expr(b)?;
                let count = self.shift_count(&count);
                self.shift(*op, &x, width, count)
            }
            Expr::Binary(op, a, b) => {
                let x = self.expr(a)?;
                let y = self.expr(b)?;
                self.arithmetic(*op, &x, &y, width)
            }
            Expr::Slice { value, hi, lo } => {
                let x = self.expr(value)?;
                self.slice_limbs(&x, *lo, hi - lo + 1)
            }
            Expr::Concat(a, b) => {
                let (wa, wb) = (a.width(self.program()), b.width(self.program()));
                let x = self.expr(a)?;
                let y = self.expr(b)?;
                let mut out = vec![None; limb_count(width)];
                self.place_limbs(&mut out, &y, wb, 0);
                self.place_limbs(&mut out, &x, wa, wb);
                self.filled(out)
            }
            Expr::ZeroExtend(a, w) => {
                let mut x = self.expr(a)?;
                self.zero_extend(&mut x, *w);
                x
            }
            Expr::SignExtend(a, w) => {
                let wa = a.width(self.program());
                let mut x = self.expr(a)?;
                let last = x.len() - 1;
                x[last] = self.sign_extend_limb(x[last], wa - 64 * last as u32);
                if x.len() < limb_count(*w) {
                    let sign = self.b.ins().sshr_imm_u(x[last], 63);
                    x.resize(limb_count(*w), sign);
                }
                self.mask_top(&mut x, *w);
                x
            }
            Expr::Select(c, a, b) => {
                let c = self.condition(c)?;
                let x = self.expr(a)?;
                let y = self.expr(b)?;
                x.iter().zip(&y).map(|(&x, &y)| self.b.ins().select(c, x, y)).collect()
            }
        })
    }

    fn shift_const(&mut self, op: BinaryOp, x: &Limbs, width: u32, by: u32) -> Limbs {
        match op {
            BinaryOp::Shl => self.shift_left_const(x, width, by),
            BinaryOp::ShrU if by >= width => self.zero(width),
            BinaryOp::ShrU => {
                let mut out = self.slice_limbs(x, by, width - by);
                self.zero_extend(&mut out, width);
                out
            }
            _ => {
                let count = self.iconst(u64::from(by));
                self.shift(op, x, width, count)
            }
        }
    }

    /// P4_16: a left or logical right shift by the width or more gives 0, an arithmetic right shift the sign. Cranelift
    /// takes counts modulo 64, so the count is compared first.
    fn shift(&mut self, op: BinaryOp, x: &Limbs, width: u32, count: Value) -> Limbs {
        if x.len() > 1 {
            let op = match op {
                BinaryOp::Shl => WideOp::Shl,
                BinaryOp::ShrU => WideOp::ShrU,
                _ => WideOp::ShrS,
            };
            return self.wide(op, x, &[count], width);
        }
        let small = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, count, i64::from(width));
        let zero = self.iconst(0);
        vec![match op {
            BinaryOp::Shl => {
                let shifted = self.b.ins().ishl(x[0], count);
                let shifted = self.mask(shifted, width);
                self.b.ins().select(small, shifted, zero)
            }
            BinaryOp::ShrU => {
                let shifted = self.b.ins().ushr(x[0], count);
                self.b.ins().select(small, shifted, zero)
            }
            _ => {
                let signed = self.sign_extend_limb(x[0], width);
                let most = self.iconst(63);
                let count = self.b.ins().select(small, count, most);
                let shifted = self.b.ins().sshr(signed, count);
                self.mask(shifted, width)
            }
        }]
    }

    fn arithmetic(&mut self, op: BinaryOp, x: &Limbs, y: &Limbs, width: u32) -> Limbs {
        use BinaryOp::*;
        match op {
            And | Or | Xor => x
                .iter()
                .zip(y)
                .map(|(&a, &b)| match op {
                    And => self.b.ins().band(a, b),
                    Or => self.b.ins().bor(a, b),
                    _ => self.b.ins().bxor(a, b),
                })
                .collect(),
            Add | Sub if x.len() > 1 => {
                let mut out = if op == Add { self.add_limbs(x, y) } else { self.sub_limbs(x, y).0 };
                self.mask_top(&mut out, width);
                out
            }
            _ if x.len() > 1 => {
                let op = match op {
                    Mul => WideOp::Mul,
                    DivU => WideOp::DivU,
                    RemU => WideOp::RemU,
                    SatAddU => WideOp::SatAddU,
                    SatSubU => WideOp::SatSubU,
                    SatAddS => WideOp::SatAddS,
                    _ => WideOp::SatSubS,
                };
                self.wide(op, x, y, width)
            }
            _ => vec![self.arithmetic_limb(op, x[0], y[0], width)],
        }
    }

    fn arithmetic_limb(&mut self, op: BinaryOp, x: Value, y: Value, width: u32) -> Value {
        use BinaryOp::*;
        match op {
            Add => {
                let v = self.b.ins().iadd(x, y);
                self.mask(v, width)
            }
            Sub => {
                let v = self.b.ins().isub(x, y);
                self.mask(v, width)
            }
            Mul => {
                let v = self.b.ins().imul(x, y);
                self.mask(v, width)
            }
            DivU | RemU => {
                let zero = self.iconst(0);
                let one = self.iconst(1);
                let divisor = self.b.ins().select(y, y, one);
                let v =
                    if op == DivU { self.b.ins().udiv(x, divisor) } else { self.b.ins().urem(x, divisor) };
                self.b.ins().select(y, v, zero)
            }
            SatAddU => {
                let v = self.b.ins().iadd(x, y);
                let most = self.iconst(ones(width));
                // Below 64 bits the sum itself shows an overflow; at 64 the carry does.
                let over = if width == 64 {
                    self.b.ins().icmp(IntCC::UnsignedLessThan, v, x)
                } else {
                    self.b.ins().icmp(IntCC::UnsignedGreaterThan, v, most)
                };
                self.b.ins().select(over, most, v)
            }
            SatSubU => {
                let v = self.b.ins().isub(x, y);
                let zero = self.iconst(0);
                let under = self.b.ins().icmp(IntCC::UnsignedLessThan, x, y);
                self.b.ins().select(under, zero, v)
            }
            _ => {
                let a = self.sign_extend_limb(x, width);
                let b = self.sign_extend_limb(y, width);
                let v = if op == SatAddS { self.b.ins().iadd(a, b) } else { self.b.ins().isub(a, b) };
                let most = self.iconst(ones(width - 1));
                let out = if width == 64 {
                    // Overflow iff the result's sign differs from a's while the effective operands agree.
                    let av = self.b.ins().bxor(a, v);
                    let other = if op == SatAddS { self.b.ins().bxor(b, v) } else { self.b.ins().bxor(a, b) };
                    let both = self.b.ins().band(av, other);
                    let overflow = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, both, 0);
                    let sign = self.b.ins().sshr_imm_u(a, 63);
                    let limit = self.b.ins().bxor(sign, most);
                    self.b.ins().select(overflow, limit, v)
                } else {
                    let least = self.b.ins().bnot(most);
                    let v = self.b.ins().smin(v, most);
                    self.b.ins().smax(v, least)
                };
                self.mask(out, width)
            }
        }
    }

    /// A wide operation out of line.
    fn wide(&mut self, op: WideOp, x: &[Value], y: &[Value], width: u32) -> Limbs {
        let n = limb_count(width);
        let a = self.spill(Buffer::Left, x);
        let b = self.spill(Buffer::Right, y);
        let out = self.buffer(Buffer::Result, n);
        let op = self.iconst(op as u64);
        let w = self.iconst(u64::from(width));
        self.b.ins().call(self.helpers.wide, &[op, w, a, b, out]);
        self.reload(out, n)
    }

    /// Stores limbs in a stack buffer; returns its address.
    pub(super) fn spill(&mut self, purpose: Buffer, limbs: &[Value]) -> Value {
        let address = self.buffer(purpose, limbs.len());
        for (i, &limb) in limbs.iter().enumerate() {
            self.b.ins().store(MemFlagsData::trusted(), limb, address, i as i32 * 8);
        }
        address
    }

    pub(super) fn reload(&mut self, address: Value, limbs: usize) -> Limbs {
        (0..limbs)
            .map(|i| self.b.ins().load(types::I64, MemFlagsData::trusted(), address, i as i32 * 8))
            .collect()
    }
}
