//! Access to fields in packet memory: network byte order, any bit offset, any width.

use super::Codegen;
use super::values::{Limbs, int};
use crate::widths::{limb_count, ones};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

/// A bounds check precedes, and buffers have slack after the frame, so loads and stores may be rounded up to a
/// machine word.
fn packet_flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// The type of a machine word that holds this many bytes, at most 8.
fn word(bytes: u32) -> Type {
    int(8 * bytes.next_power_of_two())
}

impl Codegen<'_, '_> {
    fn load_word(&mut self, base: Value, offset: i32, ty: Type) -> Value {
        if ty == types::I8 {
            return self.b.ins().uload8(types::I64, packet_flags(), base, offset);
        }
        let v = self.b.ins().load(ty, packet_flags(), base, offset);
        let v = self.b.ins().bswap(v);
        if ty == types::I64 { v } else { self.b.ins().uextend(types::I64, v) }
    }

    fn store_word(&mut self, value: Value, base: Value, offset: i32, ty: Type) {
        let v = if ty == types::I64 { value } else { self.b.ins().ireduce(ty, value) };
        let v = if ty == types::I8 { v } else { self.b.ins().bswap(v) };
        self.b.ins().store(packet_flags(), v, base, offset);
    }

    /// Loads `width` bits that begin `bit` bits after `base`, most significant first.
    pub(super) fn load_bits(&mut self, base: Value, bit: u32, width: u32) -> Limbs {
        (0..limb_count(width))
            .map(|i| {
                let lo = 64 * i as u32;
                let part = (width - lo).min(64);
                self.load_limb(base, bit + width - lo - part, part)
            })
            .collect()
    }

    fn load_limb(&mut self, base: Value, bit: u32, width: u32) -> Value {
        let (byte, skip) = ((bit / 8) as i32, bit % 8);
        let bytes = (skip + width).div_ceil(8);
        if bytes == 9 {
            let high = self.load_word(base, byte, types::I64);
            let high = self.b.ins().ishl_imm_u(high, i64::from(skip));
            let low = self.load_word(base, byte + 8, types::I8);
            let low = self.b.ins().ushr_imm_u(low, i64::from(8 - skip));
            let all = self.b.ins().bor(high, low);
            return if width == 64 { all } else { self.b.ins().ushr_imm_u(all, i64::from(64 - width)) };
        }
        let ty = word(bytes);
        let mut v = self.load_word(base, byte, ty);
        let right = ty.bits() - skip - width;
        if right > 0 {
            v = self.b.ins().ushr_imm_u(v, i64::from(right));
        }
        if skip > 0 { self.mask(v, width) } else { v }
    }

    /// Stores limbs as `width` bits that begin `bit` bits after `base`.
    pub(super) fn store_bits(&mut self, base: Value, bit: u32, width: u32, limbs: &[Value]) {
        for (i, &limb) in limbs.iter().enumerate() {
            let lo = 64 * i as u32;
            let part = (width - lo).min(64);
            self.store_limb(base, bit + width - lo - part, part, limb);
        }
    }

    fn store_limb(&mut self, base: Value, bit: u32, width: u32, value: Value) {
        let (byte, skip) = ((bit / 8) as i32, bit % 8);
        if skip == 0 && width.is_multiple_of(8) {
            let mut at = byte;
            let mut left = width;
            while left > 0 {
                let piece = [64, 32, 16, 8].into_iter().find(|&p| p <= left).expect("a multiple of 8");
                left -= piece;
                let v = if left == 0 { value } else { self.b.ins().ushr_imm_u(value, i64::from(left)) };
                self.store_word(v, base, at, word(piece / 8));
                at += piece as i32 / 8;
            }
            return;
        }
        let bytes = (skip + width).div_ceil(8);
        if bytes == 9 {
            let low = width - (64 - skip);
            let high = self.b.ins().ushr_imm_u(value, i64::from(low));
            self.store_limb(base, bit, 64 - skip, high);
            let rest = self.mask(value, low);
            self.store_limb(base, bit + 64 - skip, low, rest);
            return;
        }
        // Read, change, write a word that holds the field.
        let ty = word(bytes);
        let right = ty.bits() - skip - width;
        let old = self.load_word(base, byte, ty);
        let keep = self.iconst(!(ones(width) << right));
        let old = self.b.ins().band(old, keep);
        let new = if right == 0 { value } else { self.b.ins().ishl_imm_u(value, i64::from(right)) };
        let v = self.b.ins().bor(old, new);
        self.store_word(v, base, byte, ty);
    }

    /// Copies a fixed number of bytes.
    pub(super) fn copy_bytes(&mut self, to: Value, from: Value, bytes: u32) {
        let mut at = 0;
        while at < bytes {
            let piece = [8, 4, 2, 1].into_iter().find(|&p| p <= bytes - at).expect("at least one byte");
            let v = self.b.ins().load(word(piece), packet_flags(), from, at as i32);
            self.b.ins().store(packet_flags(), v, to, at as i32);
            at += piece;
        }
    }

    /// Zeroes a fixed number of bytes.
    pub(super) fn zero_bytes(&mut self, to: Value, bytes: u32) {
        let zero = self.iconst(0);
        let mut at = 0;
        while at < bytes {
            let piece = [8, 4, 2, 1].into_iter().find(|&p| p <= bytes - at).expect("at least one byte");
            let v = if piece == 8 { zero } else { self.b.ins().ireduce(word(piece), zero) };
            self.b.ins().store(packet_flags(), v, to, at as i32);
            at += piece;
        }
    }
}
