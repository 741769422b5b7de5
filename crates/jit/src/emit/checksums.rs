//! Checksums: RFC 1071.

use super::values::int;
use super::{Codegen, Error};
use crate::analysis::extracts::InFrame;
use crate::analysis::reads::SumPlan;
use crate::analysis::sums::{Sum, Summand, Word};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use p4jet_ir::Expr;

impl<'a> Codegen<'a, '_> {
    /// RFC 1071 over the concatenated arguments: modulo 2^16 - 1 a value weighs 2^(its offset mod 16), so fields are
    /// added shifted by that, not assembled into words first. Section 2(B): the sum does not depend on the byte order, so
    /// all is added as a frame has it, and only the result is swapped.
    pub(super) fn csum16(&mut self, args: &'a [Expr], plan: &'a SumPlan) -> Result<Value, Error> {
        let related = plan.related.as_ref();
        let sum = match related {
            Some(Sum::Corrected(slot, changed)) => {
                // The sum is an integer to which each field adds its own part, so subtracting a field's part gives the sum of the others.
                let mut sum = self.get(*slot)[0];
                for c in changed {
                    let width = self.program().width(c.field);
                    let data = self.b.use_var(self.frame.data);
                    let old = self.frame_word(data, c.byte, width / 8);
                    let new = self.get_field(c.field)[0];
                    let new = self.frame_order(new, width);
                    let [old, new] = [old, new].map(|v| match c.before {
                        0 => v,
                        bytes => self.b.ins().ishl_imm_u(v, 8 * i64::from(bytes)),
                    });
                    sum = self.b.ins().isub(sum, old);
                    sum = self.b.ins().iadd(sum, new);
                }
                Some(sum)
            }
            _ => self.sum16(args, plan)?,
        };
        if let (Some(Sum::Kept(slot)), Some(sum)) = (related, sum) {
            self.set(*slot, &[sum]);
        }
        let sum = match sum {
            Some(sum) => self.fold16(sum),
            None => self.b.ins().iconst(types::I16, 0),
        };
        let sum = self.b.ins().bnot(sum);
        let sum = self.b.ins().bswap(sum);
        Ok(self.b.ins().uextend(types::I64, sum))
    }

    /// The sum of the arguments, neither folded nor swapped; `None` if there are none.
    pub(super) fn sum16(&mut self, args: &'a [Expr], plan: &'a SumPlan) -> Result<Option<Value>, Error> {
        let mut sum = None;
        for summand in &plan.summands {
            match summand {
                Summand::Frame(at, words) => {
                    let value = self.frame_sum(*at, words);
                    self.add_to(&mut sum, value);
                }
                &Summand::Argument(i, behind) => {
                    let width = args[i].width(self.program());
                    for (number, limb) in self.expr(&args[i])?.into_iter().enumerate() {
                        let bits = (width - 64 * number as u32).min(64);
                        self.add_swapped(&mut sum, limb, bits, behind % 16);
                    }
                }
            }
        }
        Ok(sum)
    }

    /// 1, 2 or 4 bytes of the frame as a little-endian number.
    pub(super) fn frame_word(&mut self, base: Value, byte: u32, bytes: u32) -> Value {
        let flags = MemFlagsData::new().with_notrap();
        match bytes {
            1 => self.b.ins().uload8(types::I64, flags, base, byte as i32),
            2 => self.b.ins().uload16(types::I64, flags, base, byte as i32),
            _ => self.b.ins().uload32(flags, base, byte as i32),
        }
    }

    /// A value of 8, 16 or 32 bits as [`Self::frame_word`] would load it.
    pub(super) fn frame_order(&mut self, value: Value, width: u32) -> Value {
        if width == 8 {
            return value;
        }
        let value = self.b.ins().ireduce(int(width), value);
        let value = self.b.ins().bswap(value);
        self.b.ins().uextend(types::I64, value)
    }

    pub(super) fn add_to(&mut self, sum: &mut Option<Value>, value: Value) {
        *sum = Some(match *sum {
            None => value,
            Some(sum) => self.b.ins().iadd(sum, value),
        });
    }

    /// Adds the 16-bit words of `limb`, of `bits` bits, shifted left by `shift`, with their bytes swapped.
    pub(super) fn add_swapped(&mut self, sum: &mut Option<Value>, limb: Value, bits: u32, shift: u32) {
        if bits + shift > 64 {
            let low = self.mask(limb, 32);
            let high = self.b.ins().ushr_imm_u(limb, 32);
            self.add_swapped(sum, low, 32, shift);
            return self.add_swapped(sum, high, bits - 32, shift);
        }
        // Inside one byte a shift does both.
        if bits + shift <= 8 {
            let value = self.b.ins().ishl_imm_u(limb, i64::from(shift + 8));
            return self.add_to(sum, value);
        }
        if shift >= 8 && bits + shift <= 16 {
            let value = if shift == 8 { limb } else { self.b.ins().ishl_imm_u(limb, i64::from(shift - 8)) };
            return self.add_to(sum, value);
        }
        let value = if shift == 0 { limb } else { self.b.ins().ishl_imm_u(limb, i64::from(shift)) };
        if bits + shift <= 32 {
            let width = if bits + shift <= 16 { 16 } else { 32 };
            let value = self.b.ins().ireduce(int(width), value);
            let value = self.b.ins().bswap(value);
            let value = self.b.ins().uextend(types::I64, value);
            return self.add_to(sum, value);
        }
        let value = self.b.ins().bswap(value);
        let low = self.mask(value, 32);
        self.add_to(sum, low);
        let high = self.b.ins().ushr_imm_u(value, 32);
        self.add_to(sum, high);
    }

    /// Folds an unsigned sum to 16 bits with end-around carry. By rotation: the high half of `s + rotl(s)` is the
    /// end-around sum of both halves.
    pub(super) fn fold16(&mut self, sum: Value) -> Value {
        let turned = self.b.ins().rotl_imm_u(sum, 32);
        let s = self.b.ins().iadd(sum, turned);
        let s = self.b.ins().ushr_imm_u(s, 32);
        let s = self.b.ins().ireduce(types::I32, s);
        let turned = self.b.ins().rotl_imm_u(s, 16);
        let s = self.b.ins().iadd(s, turned);
        let s = self.b.ins().ushr_imm_u(s, 16);
        self.b.ins().ireduce(types::I16, s)
    }

    /// The sum of words of a header in the frame, with their bytes swapped; 0 if the frame lacks the header.
    fn frame_sum(&mut self, start: InFrame, words: &[Word]) -> Value {
        let (base, valid) = self.maybe_header_base(start);
        let mut sum = None;
        for &Word { byte, bytes } in words {
            let word = self.frame_word(base, byte, bytes);
            self.add_to(&mut sum, word);
        }
        let zero = self.iconst(0);
        match (sum, valid) {
            (Some(sum), Some(valid)) => self.b.ins().select(valid, sum, zero),
            (Some(sum), None) => sum,
            (None, _) => zero,
        }
    }
}
