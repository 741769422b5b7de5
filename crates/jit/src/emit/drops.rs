//! Drops, and the tallies of what packets do.

use super::once::Once;
use super::slots::Reading;
use super::{Codegen, plain};
use crate::runtime::Ctx;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use p4jet_ir::{DropReason, Loc};
use p4jet_packet::{PORT_DROP, Packet, REASON_DONE};
use std::mem::offset_of;

impl Codegen<'_, '_> {
    /// The blocks where packets end; off the hot path, without parameters.
    pub(super) fn emit_drops(&mut self) {
        let mut drops: Vec<((Option<DropReason>, Loc), Block)> =
            self.blocks.drops.iter().map(|(&r, &b)| (r, b)).collect();
        drops.sort_by_key(|d| d.0);
        self.reading = Reading::Plain;
        for ((reason, loc), block) in drops {
            self.b.switch_to_block(block);
            self.tally_drop(reason, loc);
            let none = self.b.ins().iconst(types::I32, i64::from(PORT_DROP as i32));
            self.b.ins().store(plain(), none, self.current.packet, offset_of!(Packet, egress_port) as i32);
            let reason = reason.map_or(REASON_DONE, DropReason::number);
            let reason = self.b.ins().iconst(types::I32, i64::from(reason as i32));
            self.b.ins().store(plain(), reason, self.current.packet, offset_of!(Packet, drop_reason) as i32);
            self.b.ins().jump(self.blocks.next_packet, &[]);
        }
    }

    /// Counts a drop that this place carries out.
    fn tally_drop(&mut self, reason: Option<DropReason>, loc: Loc) {
        let (Some(tallies), Some(reason)) = (self.tallies, reason) else { return };
        let mut place = self.iconst(u64::from(loc.0));
        if let Some(field) = self.program().drop_place
            && matches!(reason, DropReason::Program(_))
        {
            let asked = self.get_field(field)[0];
            place = self.b.ins().select(asked, asked, place);
        }
        let first = tallies.drop_cell(reason);
        self.tally(first, place);
    }

    /// Adds 1 to the tally at this offset from `first`.
    pub(super) fn tally(&mut self, first: usize, behind: Value) {
        let base = self.once(Once::Ctx(offset_of!(Ctx, tallies)));
        let at = self.b.ins().ishl_imm_u(behind, 3);
        let at = self.b.ins().iadd(base, at);
        let at = self.b.ins().iadd_imm_u(at, 8 * first as i64);
        let n = self.b.ins().load(types::I64, plain(), at, 0);
        let n = self.b.ins().iadd_imm_u(n, 1);
        self.b.ins().store(plain(), n, at, 0);
    }

    /// The block where packets are dropped for a reason; without a reason the packet is done.
    pub(super) fn drop_block(&mut self, reason: Option<DropReason>, loc: Loc) -> Block {
        let reason = (reason, if self.tallies.is_some() { loc } else { Loc(0) });
        if let Some(&block) = self.blocks.drops.get(&reason) {
            return block;
        }
        let block = self.b.create_block();
        // A packet that is done may be the common case, if copies continue in its place.
        if reason.0.is_some() {
            self.b.set_cold_block(block);
        }
        self.blocks.drops.insert(reason, block);
        block
    }
}
