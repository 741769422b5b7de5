//! Reads and writes of slots, as the plan says.

use super::values::Limbs;
use super::{Buffer, Codegen, plain};
use crate::analysis::extracts::InFrame;
use crate::analysis::reads::{Known, Reads};
use crate::analysis::sources::Source;
use crate::plan::Home;
use crate::slots::Slot;
use crate::widths::limb_count;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use p4jet_ir::{FieldId, HeaderId};

/// The sources of reads at a program point.
#[derive(Clone, Copy)]
pub(super) enum Reading<'a> {
    /// From the planned source of each slot.
    Planned(&'a Reads),
    /// From the slots themselves, except for constants.
    AsIs(&'a Known),
    /// From the slots themselves.
    Plain,
}

impl<'a> Codegen<'a, '_> {
    /// Reads slots in this way while `emit` runs.
    pub(super) fn reading<T>(&mut self, reading: Reading<'a>, emit: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.reading, reading);
        let result = emit(self);
        self.reading = before;
        result
    }

    /// The source of a slot at this point.
    fn source(&mut self, slot: Slot) -> Source {
        match self.reading {
            Reading::Planned(reads) => reads.source(slot).unwrap_or_else(|| {
                self.note_unplanned(format_args!("a read of {slot}"));
                Source::Zero
            }),
            Reading::AsIs(known) => known.get(slot).map_or(Source::Kept, Source::Known),
            Reading::Plain => Source::Kept,
        }
    }

    /// A slot's value now.
    pub(super) fn get(&mut self, slot: Slot) -> Limbs {
        match self.source(slot) {
            Source::Known(value) => vec![self.iconst(value)],
            Source::Zero => self.zero(self.graph().slot_width(slot)),
            Source::Frame(at) => {
                let base = self.header_base(at);
                self.load_bits(base, at.bit, self.graph().slot_width(slot))
            }
            Source::FrameIfValid(at) => {
                let (base, valid) = self.maybe_header_base(at);
                let mut value = self.load_bits(base, at.bit, self.graph().slot_width(slot));
                if let Some(valid) = valid {
                    let zero = self.iconst(0);
                    value.iter_mut().for_each(|limb| *limb = self.b.ins().select(valid, *limb, zero));
                }
                value
            }
            Source::Kept => self.get_kept(slot),
        }
    }

    /// The value that the slot itself has.
    pub(super) fn get_kept(&mut self, slot: Slot) -> Limbs {
        match self.plan.homes[slot] {
            Home::Nowhere => {
                self.note_unplanned(format_args!("a read of {slot}, which lies nowhere"));
                self.zero(self.graph().slot_width(slot))
            }
            Home::Registers => {
                let limbs = 0..self.registers[slot].len();
                limbs.map(|limb| self.b.use_var(self.registers[slot][limb])).collect()
            }
            Home::Memory(offset) => self.phv_limbs(slot, offset),
        }
    }

    /// The value of a slot in the PHV.
    pub(super) fn phv_limbs(&mut self, slot: Slot, offset: i32) -> Limbs {
        let limbs = limb_count(self.graph().slot_width(slot)) as i32;
        (0..limbs).map(|i| self.b.ins().load(types::I64, plain(), self.current.phv, offset + 8 * i)).collect()
    }

    /// The value of a field.
    pub(super) fn get_field(&mut self, field: FieldId) -> Limbs {
        self.get(self.slots().field(field))
    }

    /// A field's value; 0 if the program never sets it.
    pub(super) fn get_or_zero(&mut self, field: FieldId) -> Limbs {
        if self.is_needed(field) {
            return self.get_field(field);
        }
        self.zero(self.program().width(field))
    }

    /// True if a header is valid.
    pub(super) fn valid(&mut self, header: HeaderId) -> Value {
        self.get_field(self.program().headers[header.index()].valid)[0]
    }

    /// The offset of a header in the frame in bytes, plus one.
    pub(super) fn offset_plus_one(&mut self, header: HeaderId) -> Value {
        self.get(self.slots().offset(header))[0]
    }

    /// The cursor, in bytes.
    pub(super) fn cursor(&mut self) -> Value {
        match self.cursor {
            Some(known) => self.iconst(known),
            None => self.get_kept(self.slots().cursor())[0],
        }
    }

    /// The address from which [`InFrame::bit`] counts: the start of the frame, or of the header, which must be in the frame.
    pub(super) fn header_base(&mut self, at: InFrame) -> Value {
        let data = self.b.use_var(self.frame.data);
        if at.is_fixed {
            return data;
        }
        let plus_one = self.offset_plus_one(at.header);
        let behind = self.b.ins().iadd(data, plus_one);
        self.b.ins().iadd_imm_s(behind, -1)
    }

    /// Like [`Self::header_base`] for a header that may be invalid; also returns its validity, unless the header is known to be valid.
    pub(super) fn maybe_header_base(&mut self, at: InFrame) -> (Value, Option<Value>) {
        let base = self.header_base(at);
        let valid = self.slots().field(self.program().headers[at.header.index()].valid);
        if self.source(valid) == Source::Known(1) {
            return (base, None);
        }
        let valid = self.get(valid)[0];
        if at.is_fixed {
            return (base, Some(valid));
        }
        let data = self.b.use_var(self.frame.data);
        (self.b.ins().select(valid, base, data), Some(valid))
    }

    /// Gives a slot a value.
    pub(super) fn set(&mut self, slot: Slot, limbs: &[Value]) {
        match self.plan.homes[slot] {
            Home::Nowhere => {}
            Home::Registers => {
                for (&var, &limb) in self.registers[slot].iter().zip(limbs) {
                    self.b.def_var(var, limb);
                }
            }
            Home::Memory(offset) => {
                for (i, &limb) in limbs.iter().enumerate() {
                    self.b.ins().store(plain(), limb, self.current.phv, offset + 8 * i as i32);
                }
            }
        }
    }

    /// Gives a field a value.
    pub(super) fn set_field(&mut self, field: FieldId, limbs: &[Value]) {
        self.set(self.slots().field(field), limbs);
    }

    /// Gives a field of any width the low bits of a word.
    pub(super) fn set_word(&mut self, field: FieldId, word: Value) {
        let width = self.program().width(field);
        let mut limbs = vec![self.mask(word, width.min(64))];
        self.zero_extend(&mut limbs, width);
        self.set_field(field, &limbs);
    }

    /// True if anything reads a field.
    pub(super) fn is_needed(&self, field: FieldId) -> bool {
        self.plan.is_used(self.slots().field(field))
    }

    /// The address of a stack buffer of at least `limbs` limbs; one per purpose and size, so contents are short-lived.
    pub(super) fn buffer(&mut self, purpose: Buffer, limbs: usize) -> Value {
        let limbs = limbs.max(1).next_power_of_two();
        let b = &mut self.b;
        let slot = *self.buffers.entry((purpose, limbs)).or_insert_with(|| {
            b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * limbs as u32, 3))
        });
        self.b.ins().stack_addr(types::I64, slot, 0)
    }
}
