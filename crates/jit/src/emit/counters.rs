//! Counters, and the time of the last hit of entries.

use super::once::Once;
use super::{Codegen, plain};
use crate::runtime::Ctx;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use p4jet_ir::InstanceId;
use p4jet_packet::Packet;
use std::mem::offset_of;

impl<'a> Codegen<'a, '_> {
    pub(super) fn counter_cell(&mut self, instance: InstanceId, index: Value) -> Value {
        let base = self.once(Once::Indirect(offset_of!(Ctx, counters), 8 * instance.0 as i32));
        let at = self.b.ins().ishl_imm_u(index, 4);
        self.b.ins().iadd(base, at)
    }

    /// Adds this packet to cell `index` of a counter, whose bounds the caller has checked.
    pub(super) fn count(&mut self, instance: InstanceId, index: Value) {
        let at = self.counter_cell(instance, index);
        let packets = self.b.ins().load(types::I64, plain(), at, 0);
        let packets = self.b.ins().iadd_imm_u(packets, 1);
        self.b.ins().store(plain(), packets, at, 0);
        let bytes = self.b.ins().load(types::I64, plain(), at, 8);
        let length = self.b.ins().uload32(plain(), self.current.packet, offset_of!(Packet, len) as i32);
        let bytes = self.b.ins().iadd(bytes, length);
        self.b.ins().store(plain(), bytes, at, 8);
    }

    /// Stores the time of this hit in the last of the row's `words`, unless it is stored already. Nothing reads the time of row 0, a
    /// miss.
    pub(super) fn note_hit(&mut self, row: Value, words: usize) {
        let last = 8 * (words as i32 - 1);
        let now = self.once(Once::Ctx(offset_of!(Ctx, now_us)));
        let now = self.b.ins().ushr_imm_u(now, i64::from(p4jet_tables::HIT_SHIFT));
        let before = self.b.ins().load(types::I64, plain(), row, last);
        // Workers that share an entry would take its memory from each other with every packet.
        let same = self.b.ins().icmp(IntCC::Equal, now, before);
        let write = self.b.create_block();
        let go_on = self.b.create_block();
        self.b.set_cold_block(write);
        self.b.ins().brif(same, go_on, &[], write, &[]);
        self.b.switch_to_block(write);
        self.b.ins().store(plain(), now, row, last);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
    }
}
