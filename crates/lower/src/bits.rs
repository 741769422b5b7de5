//! Bit-wise access to packets, for programs with headers that are not a whole number of bytes.
//!
//! The IR's cursor is always on a byte boundary. A program that extracts or emits a header of 3 bits is lowered with
//! fields for the remaining bits of the byte before the cursor, and for the bits of an output byte that is not complete
//! yet:
//!
//! ```text
//! p.extract(h);     switch left.count { n: h = left ++ as many whole bytes as it takes; left = what remains }
//! p.emit(h);        waiting = waiting ++ h; emit the whole bytes of it
//! ```
//!
//! The payload starts at a byte boundary: the remaining bits of a byte that the parser started are lost, and the last
//! byte of the deparser's output is padded with zeros. A header with a varbit can be extracted only on a byte boundary;
//! elsewhere the result is `error.ParserInvalidArgument`.

use std::sync::Arc;

use num_bigint::BigUint;
use p4jet_ir as ir;
use p4jet_ir::{BinaryOp, Expr, FieldId, FieldKind, HeaderColumn, HeaderId, Op, Terminator};

use crate::build;
use crate::context::{BitCursor, Kind, Lowered, Lowerer};

impl Lowerer<'_> {
    /// Creates the fields that count bits.
    pub(crate) fn count_bits(&mut self) {
        let (left, left_count) = (self.temporary(7), self.temporary(3));
        let (waiting, count) = (self.temporary(7), self.temporary(3));
        self.bit_cursor = Some(BitCursor { left, left_count, waiting, count });
    }

    /// Start of a parser, on a byte boundary.
    pub(crate) fn start_input(&mut self) {
        if let Some(bits) = self.bit_cursor {
            self.set(bits.left_count, build::zero(3));
        }
    }

    /// Returns the next `width` bits of the packet without consuming them.
    pub(crate) fn peek(&mut self, width: u32) -> FieldId {
        match self.bit_cursor {
            Some(bits) => self.next_bits(width, bits, false),
            None => {
                let dest = self.temporary(width);
                self.emit(Op::Lookahead { dest });
                dest
            }
        }
    }

    /// Returns the next `width` bits, and consumes them if `taken` is true.
    fn next_bits(&mut self, width: u32, bits: BitCursor, taken: bool) -> FieldId {
        let dest = self.temporary(width);
        let join = self.node();
        let arms: Vec<_> = (0..8u32).map(|count| (count, self.node())).collect();
        let cases = arms[1..].iter().map(|(count, node)| (BigUint::from(*count), *node)).collect();
        let value = Expr::Field(bits.left_count);
        self.add_branches(|cx| cx.terminate(Terminator::Switch { value, cases, default: arms[0].1 }));
        for (count, node) in arms {
            self.enter(node);
            let left = |cx: &Self, hi, lo| build::slice(&cx.ir, Expr::Field(bits.left), hi, lo);
            if width <= count {
                let value = left(self, count - 1, count - width);
                self.set(dest, value);
                if taken {
                    self.set(bits.left_count, Expr::constant(count - width, 3));
                }
                self.goto(join);
                continue;
            }
            let more = width - count;
            let seen = self.temporary(if taken { more.next_multiple_of(8) } else { more });
            let rest = self.ir.width(seen) - more;
            self.emit(Op::Lookahead { dest: seen });
            let mut value = build::slice(&self.ir, Expr::Field(seen), more + rest - 1, rest);
            if count > 0 {
                value = Expr::Concat(Box::new(left(self, count - 1, 0)), Box::new(value));
            }
            self.set(dest, value);
            if taken {
                self.emit(Op::Advance { bits: Expr::constant(more + rest, 32) });
                self.set(bits.left_count, Expr::constant(rest, 3));
                let low = build::resize(&self.ir, Expr::Field(seen), 7);
                self.set(bits.left, low);
            }
            self.goto(join);
        }
        self.enter(join);
        dest
    }

    /// Advances by this many bits.
    pub(crate) fn advance(&mut self, by: Expr) -> Lowered<()> {
        let Some(bits) = self.bit_cursor else {
            self.emit(Op::Advance { bits: by });
            return Ok(());
        };
        self.add_branches(|cx| cx.advance_bits(by, bits))
    }

    fn advance_bits(&mut self, by: Expr, bits: BitCursor) -> Lowered<()> {
        let by = self.snapshot_expr(by);
        let width = self.width(&by).max(3);
        let by = build::resize(&self.ir, by, width);
        let left = build::resize(&self.ir, Expr::Field(bits.left_count), width);
        let (inside, beyond, join) = (self.node(), self.node(), self.node());
        let cond = build::binary(BinaryOp::LeU, by.clone(), left.clone());
        self.terminate(Terminator::If { cond, then: inside, otherwise: beyond });
        self.enter(inside);
        let fewer = build::binary(BinaryOp::Sub, left.clone(), by.clone());
        self.set(bits.left_count, build::slice(&self.ir, fewer, 2, 0));
        self.goto(join);
        self.enter(beyond);
        let more = self.snapshot_expr(build::binary(BinaryOp::Sub, by, left));
        let part = build::slice(&self.ir, more.clone(), 2, 0);
        let whole = build::binary(BinaryOp::Xor, more, build::resize(&self.ir, part.clone(), width));
        self.emit(Op::Advance { bits: whole });
        self.set(bits.left_count, build::zero(3));
        self.when(build::not(build::eq(part.clone(), build::zero(3))), |cx| {
            let seen = cx.temporary(8);
            cx.emit(Op::Lookahead { dest: seen });
            cx.emit(Op::Advance { bits: Expr::constant(8u32, 32) });
            cx.set(bits.left, build::slice(&cx.ir, Expr::Field(seen), 6, 0));
            cx.set(bits.left_count, build::neg(part));
            Ok(())
        })?;
        self.goto(join);
        self.enter(join);
        Ok(())
    }

    /// Extracts a header; the caller handles its union.
    pub(crate) fn extract_bits(&mut self, id: HeaderId, varbit_length: Option<Expr>) -> Lowered<()> {
        if self.bit_cursor.is_none() {
            self.emit(Op::Extract { header: id, varbit_length });
            return Ok(());
        }
        let whole = (Arc::from([id]), Expr::constant(0u32, 1));
        self.extract_bits_to(id, varbit_length, whole, |cx, values| {
            let mut fields = Vec::new();
            cx.ir.headers[id.index()].for_each_field(&mut |f| fields.push(f));
            fields.into_iter().zip(values).for_each(|(field, value)| cx.set(field, value));
            Ok(())
        })
    }

    /// Extracts a header like `id` where bits are counted: by `whole` if the packet is on a byte boundary, or by passing
    /// the values of its validity and fields to `set`.
    pub(crate) fn extract_bits_to(
        &mut self,
        id: HeaderId,
        varbit_length: Option<Expr>,
        whole: (HeaderColumn, Expr),
        set: impl FnOnce(&mut Self, Vec<Expr>) -> Lowered<()>,
    ) -> Lowered<()> {
        let Some(bits) = self.bit_cursor else { return Ok(()) };
        let fixed = crate::headers::fixed_bits(&self.ir, &self.ir.headers[id.index()]) as u32;
        if varbit_length.is_some() {
            let between = build::not(build::eq(Expr::Field(bits.left_count), build::zero(3)));
            let odd = if fixed.is_multiple_of(8) { between } else { build::truth(true) };
            self.reject_when(odd, "ParserInvalidArgument")?;
            if fixed.is_multiple_of(8) {
                self.emit(match (&whole.0[..], whole.1) {
                    (&[header], Expr::Const { .. }) => Op::Extract { header, varbit_length },
                    (_, index) => Op::ExtractElement { headers: whole.0, index, varbit_length },
                });
            }
            return Ok(());
        }
        let mut values = vec![build::truth(true)];
        if fixed > 0 {
            let all = self.next_bits(fixed, bits, true);
            let mut from = fixed;
            for field in self.ir.headers[id.index()].fields.clone() {
                let width = self.ir.width(field.field);
                values.push(build::slice(&self.ir, Expr::Field(all), from - 1, from - width));
                from -= width;
            }
        }
        set(self, values)
    }

    /// Emits a header.
    pub(crate) fn emit_bits(&mut self, id: HeaderId) -> Lowered<()> {
        let Some(bits) = self.bit_cursor else {
            self.emit(Op::Emit { header: id });
            return Ok(());
        };
        self.add_branches(|cx| cx.emit_counted(id, bits))
    }

    fn emit_counted(&mut self, id: HeaderId, bits: BitCursor) -> Lowered<()> {
        let header = self.ir.headers[id.index()].clone();
        let whole_bytes = crate::headers::fixed_bits(&self.ir, &header).is_multiple_of(8);
        self.when(Expr::Field(header.valid), |cx| {
            if !whole_bytes {
                cx.append(&header, bits);
                return Ok(());
            }
            let (on_boundary, between, join) = (cx.node(), cx.node(), cx.node());
            let cond = build::eq(Expr::Field(bits.count), build::zero(3));
            cx.terminate(Terminator::If { cond, then: on_boundary, otherwise: between });
            cx.enter(on_boundary);
            cx.emit(Op::Emit { header: id });
            cx.goto(join);
            cx.enter(between);
            cx.append(&header, bits);
            cx.goto(join);
            cx.enter(join);
            Ok(())
        })
    }

    /// Appends a header's bits to the incomplete byte, and emits whole bytes.
    fn append(&mut self, header: &ir::Header, bits: BitCursor) {
        let longest: u32 = header.fields.iter().map(|f| self.ir.width(f.field)).sum();
        let width = (longest + 7).next_multiple_of(8);
        let all = self.temporary(width);
        let mut total = build::resize(&self.ir, Expr::Field(bits.count), 32);
        self.set(all, build::resize(&self.ir, Expr::Field(bits.waiting), width));
        for field in &header.fields {
            let length = match field.varbit_length {
                Some(length) => Expr::Field(length),
                None => Expr::constant(self.ir.width(field.field), 32),
            };
            let moved = build::binary(BinaryOp::Shl, Expr::Field(all), length.clone());
            let value = build::resize(&self.ir, Expr::Field(field.field), width);
            self.set(all, build::binary(BinaryOp::Or, moved, value));
            total = build::binary(BinaryOp::Add, total, length);
        }
        let total = self.snapshot_expr(total);
        let rest = self.snapshot_expr(build::slice(&self.ir, total.clone(), 2, 0));
        let (out, value, length) = self.raw_header(width);
        self.set(value, build::binary(BinaryOp::ShrU, Expr::Field(all), rest.clone()));
        let padding = build::resize(&self.ir, rest.clone(), 32);
        self.set(length, build::binary(BinaryOp::Sub, total, padding));
        self.emit(Op::Emit { header: out });
        let low = build::slice(&self.ir, Expr::Field(all), 6, 0);
        let mask = build::not(build::binary(BinaryOp::Shl, Expr::constant(0x7fu32, 7), rest.clone()));
        self.set(bits.waiting, build::binary(BinaryOp::And, low, mask));
        self.set(bits.count, rest);
    }

    /// Creates a valid header that consists only of a varbit: its value and length.
    fn raw_header(&mut self, width: u32) -> (HeaderId, FieldId, FieldId) {
        let id = HeaderId(self.ir.headers.len() as u32);
        let name = self.unique_name(Kind::Header, "$bits");
        let valid = self.field(&format!("{name}.$valid$"), 1, FieldKind::Valid(id));
        let value = self.field(&format!("{name}.value"), width, FieldKind::Header(id));
        let length = self.field(&format!("{name}.value.$length$"), 32, FieldKind::Temporary);
        let fields = vec![ir::HeaderField { field: value, varbit_length: Some(length) }];
        self.ir.headers.push(ir::Header { name, valid, fields });
        self.set(valid, build::truth(true));
        (id, value, length)
    }

    /// End of the deparser: the remaining bits become the high bits of a last byte.
    pub(crate) fn finish_output(&mut self) -> Lowered<()> {
        let Some(bits) = self.bit_cursor else { return Ok(()) };
        let waits = build::not(build::eq(Expr::Field(bits.count), build::zero(3)));
        self.add_branches(|cx| {
            cx.when(waits, |cx| {
                let (out, value, length) = cx.raw_header(8);
                let filled = build::resize(&cx.ir, Expr::Field(bits.waiting), 8);
                let count = build::resize(&cx.ir, Expr::Field(bits.count), 8);
                let zeros = build::binary(BinaryOp::Sub, Expr::constant(8u32, 8), count);
                cx.set(value, build::binary(BinaryOp::Shl, filled, zeros));
                cx.set(length, Expr::constant(8u32, 32));
                cx.emit(Op::Emit { header: out });
                cx.set(bits.waiting, build::zero(7));
                cx.set(bits.count, build::zero(3));
                Ok(())
            })
        })
    }
}
