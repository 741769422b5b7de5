//! Calls of extern functions.

use super::once::Once;
use super::values::Limbs;
use super::{Buffer, Codegen, Error, ErrorKind, fixed, plain};
use crate::analysis::calls::Call;
use crate::analysis::reads::SumPlan;
use crate::runtime::Ctx;
use crate::widths::limb_count;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use p4jet_externs::CallSite;
use p4jet_ir::{Algorithm, DropReason, Expr, FieldId, Function, InstanceId, Loc};
use std::mem::offset_of;

/// The operands of a call.
#[derive(Clone, Copy)]
pub(super) struct Callee<'a> {
    pub function: &'a Function,
    pub instance: Option<InstanceId>,
    pub args: &'a [Expr],
    pub outs: &'a [FieldId],
    pub text: &'a [String],
    pub loc: Loc,
}

impl<'a> Codegen<'a, '_> {
    /// Emits a call as planned.
    pub(super) fn call_extern(
        &mut self,
        callee: Callee<'a>,
        call: Call,
        sum: Option<&'a SumPlan>,
    ) -> Result<(), Error> {
        let Callee { args, outs, .. } = callee;
        match call {
            Call::Mark => {}
            Call::Checksum => {
                let Some(sum) = sum else { return Err(crate::internal("a checksum that is not planned")) };
                let sum = self.csum16(args, sum)?;
                self.set_word(outs[0], sum);
            }
            Call::Hash(algorithm, bytes) => {
                let value = self.word_hash(algorithm, args, bytes)?;
                self.set_word(outs[0], value);
            }
            Call::Count(instance, size) => {
                let index = self.saturated_index(&args[0])?;
                self.if_inside(index, size, |cg| cg.count(instance, index));
            }
            Call::RegisterRead(..) if !self.is_needed(outs[0]) => {}
            Call::RegisterRead(instance, size) => {
                let index = self.saturated_index(&args[0])?;
                let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, i64::from(size));
                let zero = self.iconst(0);
                let safe = self.b.ins().select(inside, index, zero);
                let at = self.register_cell(instance, safe);
                let value = self.b.ins().load(types::I64, plain(), at, 0);
                let value = self.b.ins().select(inside, value, zero);
                self.set_field(outs[0], &[value]);
            }
            Call::RegisterWrite(instance, size) => {
                let index = self.saturated_index(&args[0])?;
                let value = self.expr(&args[1])?[0];
                self.if_inside(index, size, |cg| {
                    let at = cg.register_cell(instance, index);
                    cg.b.ins().store(plain(), value, at, 0);
                });
            }
            Call::OutOfLine => self.call_extern_out_of_line(callee)?,
        }
        Ok(())
    }

    /// Emits code that runs if an index is less than `size`.
    fn if_inside(&mut self, index: Value, size: u32, emit: impl FnOnce(&mut Self)) {
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, i64::from(size));
        let yes = self.b.create_block();
        let go_on = self.b.create_block();
        self.b.ins().brif(inside, yes, &[], go_on, &[]);
        self.b.switch_to_block(yes);
        emit(self);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    /// An index of any width as one limb; larger than any array if it does not fit.
    pub(super) fn saturated_index(&mut self, expr: &Expr) -> Result<Value, Error> {
        let limbs = self.expr(expr)?;
        let mut low = limbs[0];
        for &limb in &limbs[1..] {
            let most = self.iconst(u64::MAX);
            low = self.b.ins().select(limb, most, low);
        }
        Ok(low)
    }

    pub(super) fn register_cell(&mut self, instance: InstanceId, index: Value) -> Value {
        let base = self.once(Once::Indirect(offset_of!(Ctx, registers), 8 * instance.0 as i32));
        let at = self.b.ins().ishl_imm_u(index, 3);
        self.b.ins().iadd(base, at)
    }

    /// A hash of this many bytes, at most a word.
    pub(super) fn word_hash(
        &mut self,
        algorithm: Algorithm,
        args: &'a [Expr],
        bytes: u32,
    ) -> Result<Value, Error> {
        let mut word = self.iconst(0);
        for arg in args {
            let width = arg.width(self.program());
            let value = self.expr(arg)?[0];
            // The total is at most 64 bits, so a 64-bit argument is the only one.
            word = if width == 64 { value } else { self.b.ins().ishl_imm_u(word, i64::from(width)) };
            if width < 64 {
                word = self.b.ins().bor(word, value);
            }
        }
        let Some(parts) = p4jet_externs::byte_parts(algorithm) else { return Ok(word) };
        let mut sum = self.iconst(u64::from(parts.of_zeros[bytes as usize]));
        for (behind, of_byte) in parts.of_byte.iter().enumerate().take(bytes as usize) {
            let byte = self.b.ins().ushr_imm_u(word, 8 * behind as i64);
            let byte = self.b.ins().band_imm_u(byte, 0xff);
            let at = self.b.ins().ishl_imm_u(byte, 2);
            let table = self.iconst(of_byte.as_ptr() as u64);
            let at = self.b.ins().iadd(table, at);
            let part = self.b.ins().uload32(fixed(), at, 0);
            sum = self.b.ins().bxor(sum, part);
        }
        Ok(sum)
    }

    fn call_extern_out_of_line(&mut self, callee: Callee<'a>) -> Result<(), Error> {
        let Callee { function, instance, args, outs, text, loc } = callee;
        let program = self.program();
        let arg_widths = args.iter().map(|a| a.width(program)).collect();
        let out_widths = outs.iter().map(|&o| program.width(o)).collect();
        let site =
            CallSite::new(function.clone(), instance.map(|i| i.0), arg_widths, out_widths, text.to_vec());
        let site = site.map_err(|message| Error { kind: ErrorKind::Unsupported, message, loc })?;
        let number = self.sites.calls.insert_full(site).0;
        let mut limbs = Vec::new();
        for arg in args {
            limbs.extend(self.expr(arg)?);
        }
        let arg_limbs = limbs.len();
        let arguments = self.spill(Buffer::Arguments, &limbs);
        let out_limbs: usize = outs.iter().map(|&o| limb_count(program.width(o))).sum();
        let results = self.buffer(Buffer::Results, out_limbs);
        let number = self.iconst(number as u64);
        let cursor = self.cursor();
        let sizes = self.iconst(arg_limbs as u64 | (out_limbs as u64) << 32);
        let call = self.b.ins().call(
            self.helpers.call_extern,
            &[self.current.ctx, number, arguments, results, sizes, self.current.packet, cursor],
        );
        let failed = self.b.inst_results(call)[0];
        let drop = self.drop_block(Some(DropReason::AssertionFailed), loc);
        let go_on = self.b.create_block();
        self.b.ins().brif(failed, drop, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
        let mut at = 0;
        for &out in outs {
            let n = limb_count(program.width(out));
            let value: Limbs = (0..n)
                .map(|i| self.b.ins().load(types::I64, MemFlagsData::trusted(), results, (at + 8 * i) as i32))
                .collect();
            self.set_field(out, &value);
            at += 8 * n;
        }
        Ok(())
    }
}
