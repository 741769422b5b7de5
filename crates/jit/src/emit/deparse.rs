//! Deparsing: the headers in front of the payload.

use super::slots::Reading;
use super::{Buffer, Codegen, fixed, plain};
use crate::plan::{EmitPlan, EndKind, EndPlan};
use crate::runtime::Ctx;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use p4jet_ir::{DropReason, HeaderId, Loc};
use p4jet_packet::Packet;
use std::mem::offset_of;

impl<'a> Codegen<'a, '_> {
    /// The current length of a header in bytes.
    pub(super) fn header_bytes(&mut self, header: HeaderId) -> Value {
        let program = self.program();
        let mut fixed = 0;
        let mut dynamic = None;
        for f in &program.headers[header.index()].fields {
            match f.varbit_length {
                None => fixed += program.width(f.field),
                Some(length) => {
                    let bits = self.get_field(length)[0];
                    let bytes = self.b.ins().ushr_imm_u(bits, 3);
                    dynamic = Some(match dynamic {
                        None => bytes,
                        Some(sum) => self.b.ins().iadd(sum, bytes),
                    });
                }
            }
        }
        match dynamic {
            None => self.iconst(u64::from(fixed / 8)),
            Some(bytes) => self.b.ins().iadd_imm_u(bytes, i64::from(fixed / 8)),
        }
    }

    /// Makes the frame that leaves a deparser.
    pub(super) fn end_deparser(&mut self, plan: &'a EndPlan) {
        self.cursor = plan.cursor;
        match &plan.kind {
            EndKind::InPlace(emits) => self.write_back(emits),
            EndKind::Shifted { shift, headers } => {
                if *shift != 0 {
                    let shift = self.b.ins().iconst(types::I64, *shift);
                    self.shift_front(shift);
                }
                for (begin, emit) in headers {
                    let begin = self.iconst(*begin);
                    self.write_at(emit, begin);
                }
            }
            EndKind::Checked(emits) => self.check_in_place(emits),
            EndKind::Scratch => self.replace_front(),
        }
        let zero = self.iconst(0);
        self.set(self.slots().cursor(), &[zero]);
        for offset in self.slots().offsets() {
            self.set(offset, &[zero]);
        }
        self.b.def_var(self.frame.out_offset, zero);
    }

    /// Writes the headers in place if they leave as they arrived; otherwise assembles them in the scratch memory.
    fn check_in_place(&mut self, emits: &'a [EmitPlan]) {
        // The offset of each header in the frame that leaves.
        let mut begins = Vec::new();
        let mut total = self.iconst(0);
        for emit in emits {
            let (valid, bytes) = self.reading(Reading::AsIs(&emit.known), |cg| {
                (cg.valid(emit.header), cg.header_bytes(emit.header))
            });
            let zero = self.iconst(0);
            let bytes = self.b.ins().select(valid, bytes, zero);
            begins.push((emit, valid, total));
            total = self.b.ins().iadd(total, bytes);
        }
        let cursor = self.cursor();
        let shift = self.b.ins().isub(cursor, total);
        let mut different = self.iconst(0);
        for &(emit, valid, begin) in begins.iter().filter(|(emit, ..)| emit.is_extracted) {
            let plus_one = self.emitted_offset(emit);
            let offset = self.b.ins().iadd_imm_s(plus_one, -1);
            let expected = self.b.ins().iadd(shift, begin);
            let apart = self.b.ins().bxor(offset, expected);
            let zero = self.iconst(0);
            let apart = self.b.ins().select(plus_one, apart, zero);
            let apart = self.b.ins().select(valid, apart, zero);
            different = self.b.ins().bor(different, apart);
        }
        let in_place = self.b.create_block();
        let rebuild = self.b.create_block();
        let done = self.b.create_block();
        self.b.ins().brif(different, rebuild, &[], in_place, &[]);
        self.b.switch_to_block(in_place);
        self.shift_front(shift);
        for (emit, _, begin) in begins {
            self.write_at(emit, begin);
        }
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(rebuild);
        for emit in emits {
            self.emit_to_scratch(emit, None);
        }
        self.replace_front();
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    fn emitted_offset(&mut self, emit: &'a EmitPlan) -> Value {
        self.reading(Reading::AsIs(&emit.known), |cg| cg.offset_plus_one(emit.header))
    }

    /// Writes the changed fields of valid headers back to the frame.
    fn write_back(&mut self, emits: &'a [EmitPlan]) {
        for emit in emits {
            if !emit.is_extracted || emit.changed.is_empty() {
                continue;
            }
            let Some(go_on) = self.if_valid(emit) else { continue };
            let offset = match emit.fixed_offset {
                Some(bytes) => self.iconst(u64::from(bytes)),
                None => {
                    let plus_one = self.emitted_offset(emit);
                    self.b.ins().iadd_imm_s(plus_one, -1)
                }
            };
            let data = self.b.use_var(self.frame.data);
            let base = self.b.ins().iadd(data, offset);
            self.write_fields(emit, base);
            self.end_if(go_on);
        }
    }

    /// Writes the header, if valid, at this offset in the frame that leaves: all of it if it was not extracted, else what has
    /// changed.
    fn write_at(&mut self, emit: &'a EmitPlan, begin: Value) {
        if emit.is_extracted && emit.changed.is_empty() && !emit.valid_changed {
            return;
        }
        let Some(go_on) = self.if_valid(emit) else { return };
        let data = self.b.use_var(self.frame.data);
        let to = self.b.ins().iadd(data, begin);
        if emit.is_extracted {
            // A header that was added after all lies there as zeros first.
            let plus_one = self.emitted_offset(emit);
            if emit.has_offset != Some(true) {
                let zero = self.b.create_block();
                let patch = self.b.create_block();
                self.b.ins().brif(plus_one, patch, &[], zero, &[]);
                self.b.switch_to_block(zero);
                self.zero_bytes(to, self.fixed_bytes(emit.header));
                self.b.ins().jump(patch, &[]);
                self.b.switch_to_block(patch);
            }
            self.write_fields(emit, to);
        } else {
            self.write_all_fields(emit, to);
        }
        self.end_if(go_on);
    }

    /// Moves the start of the frame by this many bytes, later or earlier.
    pub(super) fn shift_front(&mut self, shift: Value) {
        let data = self.b.use_var(self.frame.data);
        let data = self.b.ins().iadd(data, shift);
        self.b.ins().store(plain(), data, self.current.packet, offset_of!(Packet, data) as i32);
        self.b.def_var(self.frame.data, data);
        let length = self.b.use_var(self.frame.length);
        let length = self.b.ins().isub(length, shift);
        self.b.ins().istore32(plain(), length, self.current.packet, offset_of!(Packet, len) as i32);
        self.b.def_var(self.frame.length, length);
    }

    /// Begins code that runs only if the header is valid, until [`Self::end_if`]; `None` if the header is never valid.
    fn if_valid(&mut self, emit: &'a EmitPlan) -> Option<Option<Block>> {
        match emit.valid {
            Some(false) => return None,
            Some(true) => return Some(None),
            None => {}
        }
        let valid = self.reading(Reading::AsIs(&emit.known), |cg| cg.valid(emit.header));
        let yes = self.b.create_block();
        let go_on = self.b.create_block();
        self.b.ins().brif(valid, yes, &[], go_on, &[]);
        self.b.switch_to_block(yes);
        Some(Some(go_on))
    }

    pub(super) fn end_if(&mut self, go_on: Option<Block>) {
        if let Some(go_on) = go_on {
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(go_on);
        }
    }

    /// Stores every field that some statement sets.
    fn write_fields(&mut self, emit: &'a EmitPlan, base: Value) {
        self.reading(Reading::AsIs(&emit.known), |cg| cg.write_changed_fields(emit, base));
    }

    fn write_changed_fields(&mut self, emit: &EmitPlan, mut base: Value) {
        let (program, header) = (self.program(), emit.header);
        let mut bit = 0;
        for f in &program.headers[header.index()].fields {
            let width = program.width(f.field);
            match f.varbit_length {
                None => {
                    if emit.changed.contains_field(f.field) {
                        let limbs = self.get_field(f.field);
                        self.store_bits(base, bit, width, &limbs);
                    }
                    bit += width;
                }
                Some(length) => {
                    let bits = self.get_field(length)[0];
                    if emit.varbit_changed {
                        let limbs = self.get_field(f.field);
                        let value = self.spill(Buffer::Left, &limbs);
                        let at = self.iconst(u64::from(bit));
                        self.b.ins().call(self.helpers.write_bits, &[base, at, bits, value]);
                    }
                    let bytes = self.b.ins().ushr_imm_u(bits, 3);
                    base = self.b.ins().iadd(base, bytes);
                }
            }
        }
    }

    /// Bytes of a header without its varbits.
    pub(super) fn fixed_bytes(&self, header: HeaderId) -> u32 {
        let program = self.program();
        let fields = program.headers[header.index()].fields.iter().filter(|f| f.varbit_length.is_none());
        fields.map(|f| program.width(f.field)).sum::<u32>() / 8
    }

    /// Appends the header, if valid, to the scratch memory. Drops the packet if there is not enough room.
    pub(super) fn emit_to_scratch(&mut self, emit: &'a EmitPlan, bytes_max: Option<u32>) {
        let header = emit.header;
        let h = &self.program().headers[header.index()];
        let Some(go_on) = self.if_valid(emit) else { return };
        let scratch =
            self.b.ins().load(types::I64, fixed(), self.current.ctx, offset_of!(Ctx, scratch) as i32);
        let at = self.b.use_var(self.frame.out_offset);
        let to = self.b.ins().iadd(scratch, at);
        let bytes = self.reading(Reading::AsIs(&emit.known), |cg| cg.header_bytes(header));
        if let Some(max) = bytes_max {
            let end = self.b.ins().iadd(at, bytes);
            let fits = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, end, i64::from(max));
            let drop = self.drop_block(Some(DropReason::EmitsTooMuch), Loc(0));
            let fit = self.b.create_block();
            self.b.ins().brif(fits, fit, &[], drop, &[]);
            self.b.switch_to_block(fit);
        }
        let has_varbit = h.fields.iter().any(|f| f.varbit_length.is_some());
        let fixed_bytes = self.fixed_bytes(header);
        // A varbit that statements set is written whole below; its old bytes may be fewer than the new.
        if emit.is_extracted && !emit.varbit_changed {
            let plus_one = self.emitted_offset(emit);
            let copy = self.b.create_block();
            let zero = self.b.create_block();
            let patch = self.b.create_block();
            self.b.ins().brif(plus_one, copy, &[], zero, &[]);
            self.b.switch_to_block(copy);
            let offset = self.b.ins().iadd_imm_s(plus_one, -1);
            let data = self.b.use_var(self.frame.data);
            let from = self.b.ins().iadd(data, offset);
            if has_varbit {
                self.b.ins().call(self.helpers.copy, &[to, from, bytes]);
            } else {
                self.copy_bytes(to, from, fixed_bytes);
            }
            self.b.ins().jump(patch, &[]);
            self.b.switch_to_block(zero);
            self.zero_bytes(to, fixed_bytes);
            self.b.ins().jump(patch, &[]);
            self.b.switch_to_block(patch);
            self.write_fields(emit, to);
        } else {
            self.write_all_fields(emit, to);
        }
        let end = self.b.ins().iadd(at, bytes);
        self.b.def_var(self.frame.out_offset, end);
        self.end_if(go_on);
    }

    /// Writes a header that does not come from the frame unchanged. Fields that no statement sets are 0.
    fn write_all_fields(&mut self, emit: &'a EmitPlan, base: Value) {
        self.reading(Reading::AsIs(&emit.known), |cg| cg.write_each_field(emit, base));
    }

    fn write_each_field(&mut self, emit: &EmitPlan, mut base: Value) {
        let program = self.program();
        let h = &program.headers[emit.header.index()];
        let total: u32 =
            h.fields.iter().filter(|f| f.varbit_length.is_none()).map(|f| program.width(f.field)).sum();
        if h.fields.iter().all(|f| f.varbit_length.is_none()) {
            let covered = h
                .fields
                .iter()
                .all(|f| emit.changed.contains_field(f.field) && program.width(f.field).is_multiple_of(8));
            if !covered {
                self.zero_bytes(base, total / 8);
            }
            self.write_changed_fields(emit, base);
            return;
        }
        let mut bit = 0;
        for f in &h.fields {
            let width = program.width(f.field);
            let limbs = self.get_or_zero(f.field);
            match f.varbit_length {
                None => {
                    self.store_bits(base, bit, width, &limbs);
                    bit += width;
                }
                Some(length) => {
                    let bits = self.get_field(length)[0];
                    let value = self.spill(Buffer::Left, &limbs);
                    let at = self.iconst(u64::from(bit));
                    self.b.ins().call(self.helpers.write_bits, &[base, at, bits, value]);
                    let bytes = self.b.ins().ushr_imm_u(bits, 3);
                    base = self.b.ins().iadd(base, bytes);
                }
            }
        }
    }

    /// Replaces the parsed headers by the scratch memory.
    pub(super) fn replace_front(&mut self) {
        let scratch =
            self.b.ins().load(types::I64, fixed(), self.current.ctx, offset_of!(Ctx, scratch) as i32);
        let out = self.b.use_var(self.frame.out_offset);
        let cursor = self.cursor();
        self.b.ins().call(self.helpers.replace, &[self.current.packet, scratch, out, cursor]);
        let data =
            self.b.ins().load(types::I64, plain(), self.current.packet, offset_of!(Packet, data) as i32);
        let length = self.b.ins().uload32(plain(), self.current.packet, offset_of!(Packet, len) as i32);
        self.b.def_var(self.frame.data, data);
        self.b.def_var(self.frame.length, length);
    }
}
