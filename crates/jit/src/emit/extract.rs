//! Parsing: extraction, and moves of the cursor.

use super::{Buffer, Codegen, Error, plain};
use crate::analysis::constants::Edge;
use crate::graph::StatementSite;
use crate::widths::limb_count;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use num_bigint::BigUint;
use p4jet_ir::{Expr, FieldId, Header, HeaderId, Loc};
use p4jet_packet::Packet;
use std::mem::offset_of;

/// The headers that an extraction may extract.
#[derive(Clone, Copy)]
pub(super) enum Extracted<'h> {
    Header(HeaderId),
    /// One of these headers, chosen by an index that is inside the column.
    Element {
        headers: &'h [HeaderId],
        index: Value,
        loc: Loc,
    },
}

impl<'a> Codegen<'a, '_> {
    /// Ends the block with an error unless `ok`; continues in a new block.
    pub(super) fn check(&mut self, ok: Value, code: u32, site: StatementSite) {
        let fail = self.b.create_block();
        let go_on = self.b.create_block();
        self.b.set_cold_block(fail);
        self.b.ins().brif(ok, go_on, &[], fail, &[]);
        self.b.switch_to_block(fail);
        if let Some(field) = self.graph().block(site.place).error_field {
            let limbs = self.constant(&BigUint::from(code), self.program().width(field));
            self.set_field(field, &limbs);
        }
        self.leave_step(site.place, Edge::Error(site.statement));
        self.b.switch_to_block(go_on);
    }

    /// Checks that `bytes` follow the cursor; returns the cursor's address.
    pub(super) fn require(&mut self, bytes: u64, site: StatementSite) -> Value {
        let cursor = self.cursor();
        let end = self.b.ins().iadd_imm_u(cursor, bytes as i64);
        let length = self.b.use_var(self.frame.length);
        let ok = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, length);
        self.check(ok, self.program().error_packet_too_short, site);
        let data = self.b.use_var(self.frame.data);
        self.b.ins().iadd(data, cursor)
    }

    /// Extracts the header that an index finds, if there is one.
    pub(super) fn extract_element(
        &mut self,
        headers: &[HeaderId],
        index: Value,
        varbit: Option<&Expr>,
        loc: Loc,
        site: StatementSite,
    ) -> Result<(), Error> {
        let (yes, go_on) = (self.b.create_block(), self.b.create_block());
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, headers.len() as i64);
        self.b.ins().brif(inside, yes, &[], go_on, &[]);
        self.b.switch_to_block(yes);
        self.extract_to(Extracted::Element { headers, index, loc }, varbit, site)?;
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
        Ok(())
    }

    pub(super) fn extract(
        &mut self,
        header: HeaderId,
        varbit: Option<&Expr>,
        site: StatementSite,
    ) -> Result<(), Error> {
        self.extract_to(Extracted::Header(header), varbit, site)
    }

    /// True if `holds` is true for this part of a header that the extraction may extract.
    pub(super) fn is_any_part(
        &self,
        to: Extracted,
        part: impl Fn(&Header) -> FieldId,
        holds: impl Fn(&Self, FieldId) -> bool,
    ) -> bool {
        let holds = |header: &HeaderId| holds(self, part(&self.program().headers[header.index()]));
        match to {
            Extracted::Header(header) => holds(&header),
            Extracted::Element { headers, .. } => headers.iter().any(holds),
        }
    }

    pub(super) fn set_part(
        &mut self,
        to: Extracted,
        part: impl Fn(&Header) -> FieldId,
        limbs: &[Value],
    ) -> Result<(), Error> {
        let program = self.program();
        let field = |header: &HeaderId| part(&program.headers[header.index()]);
        match to {
            Extracted::Header(header) => self.set_field(field(&header), limbs),
            Extracted::Element { headers, index, loc } => {
                let column: Vec<FieldId> = headers.iter().map(field).collect();
                let at = self.element(&column, index, loc)?.address;
                for (i, &limb) in limbs.iter().enumerate() {
                    self.b.ins().store(plain(), limb, at, 8 * i as i32);
                }
            }
        }
        Ok(())
    }

    /// Notes where in the frame a header begins, plus one.
    pub(super) fn set_offset(&mut self, to: Extracted, offset: Value) -> Result<(), Error> {
        match to {
            Extracted::Header(header) => self.set(self.slots().offset(header), &[offset]),
            Extracted::Element { headers, index, loc } => {
                let graph = self.graph();
                let program = self.program();
                let column: Vec<FieldId> = headers.iter().map(|h| program.headers[h.index()].valid).collect();
                let part = graph.columns.part(&column);
                let Some((part, begin)) = part.and_then(|part| {
                    Some((part, self.plan.memory.columns.offsets_begin[part.whole.index()]?))
                }) else {
                    return Err(Error::bug("offsets in no memory", loc));
                };
                let whole = graph.columns.whole[part.whole.index()].len();
                let at = self.found(part, column.len(), whole, 8, begin, index).address;
                self.b.ins().store(plain(), offset, at, 0);
            }
        }
        Ok(())
    }

    pub(super) fn extract_to(
        &mut self,
        to: Extracted,
        varbit: Option<&Expr>,
        site: StatementSite,
    ) -> Result<(), Error> {
        let program = self.program();
        // The headers of a column have the same layout.
        let header = match to {
            Extracted::Header(header) => header,
            Extracted::Element { headers, .. } => headers[0],
        };
        let h = &program.headers[header.index()];
        let fixed_bits: u32 =
            h.fields.iter().filter(|f| f.varbit_length.is_none()).map(|f| program.width(f.field)).sum();
        let fixed_bytes = fixed_bits / 8;
        let cursor = self.cursor();
        let mut var_bytes = None;
        if let (Some(length), Some(field)) = (varbit, h.fields.iter().find(|f| f.varbit_length.is_some())) {
            let bits = self.clamped(length)?;
            let rest = self.b.ins().band_imm_u(bits, 7);
            let whole = self.b.ins().icmp_imm_u(IntCC::Equal, rest, 0);
            self.check(whole, self.program().error_invalid_argument, site);
            let fits = self.b.ins().icmp_imm_u(
                IntCC::UnsignedLessThanOrEqual,
                bits,
                i64::from(program.width(field.field)),
            );
            self.check(fits, program.error_header_too_short, site);
            var_bytes = Some(self.b.ins().ushr_imm_u(bits, 3));
        }
        let mut end = self.b.ins().iadd_imm_u(cursor, i64::from(fixed_bytes));
        if let Some(bytes) = var_bytes {
            end = self.b.ins().iadd(end, bytes);
        }
        let length = self.b.use_var(self.frame.length);
        let ok = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, length);
        self.check(ok, program.error_packet_too_short, site);
        let data = self.b.use_var(self.frame.data);
        // Fields at a known offset are loaded here, once.
        let (mut base, mut bit) = match self.cursor.and_then(|bytes| u32::try_from(8 * bytes).ok()) {
            Some(bits) => (data, bits),
            None => (self.b.ins().iadd(data, cursor), 0),
        };
        let loads = self.plan.loads.get(&site);
        let is_loaded = |number: usize| loads.is_some_and(|loads| loads.get(number) == Some(&true));
        for (number, f) in h.fields.iter().enumerate() {
            let width = program.width(f.field);
            let part = |h: &Header| h.fields[number].field;
            match (f.varbit_length, var_bytes) {
                (Some(length_field), Some(bytes)) => {
                    let of = |h: &Header| h.fields[number].varbit_length.unwrap_or(length_field);
                    let mut length = vec![self.b.ins().ishl_imm_u(bytes, 3)];
                    length[0] = self.mask(length[0], program.width(length_field).min(64));
                    self.zero_extend(&mut length, program.width(length_field));
                    self.set_part(to, of, &length)?;
                    if self.is_any_part(to, part, Self::is_needed) {
                        let n = limb_count(width);
                        let out = self.buffer(Buffer::Result, n);
                        let at = self.iconst(u64::from(bit));
                        let bits = self.b.ins().ishl_imm_u(bytes, 3);
                        let limbs = self.iconst(n as u64);
                        self.b.ins().call(self.helpers.read_bits, &[base, at, bits, out, limbs]);
                        let value = self.reload(out, n);
                        self.set_part(to, part, &value)?;
                    }
                    base = self.b.ins().iadd(base, bytes);
                }
                _ => {
                    if is_loaded(number) {
                        let value = self.load_bits(base, bit, width);
                        self.set_part(to, part, &value)?;
                    }
                    bit += width;
                }
            }
        }
        let one = self.iconst(1);
        self.set_part(to, |h| h.valid, &[one])?;
        let offset = self.b.ins().iadd_imm_u(cursor, 1);
        self.set_offset(to, offset)?;
        self.set(self.slots().cursor(), &[end]);
        Ok(())
    }

    /// A count of bits as one limb. Values above 2^40 are clamped to about 2^40; the low three bits are kept.
    pub(super) fn clamped(&mut self, expr: &Expr) -> Result<Value, Error> {
        let limbs = self.expr(expr)?;
        let huge = self.iconst(1 << 40);
        let low = self.b.ins().band_imm_u(limbs[0], 7);
        let huge = self.b.ins().bor(huge, low);
        let mut over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, limbs[0], huge);
        for &limb in &limbs[1..] {
            let more = self.b.ins().icmp_imm_u(IntCC::NotEqual, limb, 0);
            over = self.b.ins().bor(over, more);
        }
        Ok(self.b.ins().select(over, huge, limbs[0]))
    }

    pub(super) fn advance(&mut self, bits: &Expr, site: StatementSite) -> Result<(), Error> {
        let bits = self.clamped(bits)?;
        let rest = self.b.ins().band_imm_u(bits, 7);
        let whole = self.b.ins().icmp_imm_u(IntCC::Equal, rest, 0);
        self.check(whole, self.program().error_invalid_argument, site);
        let bytes = self.b.ins().ushr_imm_u(bits, 3);
        let cursor = self.cursor();
        let end = self.b.ins().iadd(cursor, bytes);
        let length = self.b.use_var(self.frame.length);
        let ok = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, length);
        self.check(ok, self.program().error_packet_too_short, site);
        self.set(self.slots().cursor(), &[end]);
        Ok(())
    }

    /// Reads bits ahead of the cursor.
    pub(super) fn lookahead(&mut self, dest: FieldId, site: StatementSite) {
        let width = self.program().width(dest);
        let at = self.require(u64::from(width.div_ceil(8)), site);
        if self.is_needed(dest) {
            let v = self.load_bits(at, 0, width);
            self.set_field(dest, &v);
        }
    }

    /// Cuts the frame, but not before the cursor.
    pub(super) fn truncate(&mut self, bytes: &Expr) -> Result<(), Error> {
        let bytes = self.saturated_index(bytes)?;
        let cursor = self.cursor();
        let bytes = self.b.ins().umax(bytes, cursor);
        let length = self.b.use_var(self.frame.length);
        let length = self.b.ins().umin(bytes, length);
        self.b.def_var(self.frame.length, length);
        let length = self.b.ins().ireduce(types::I32, length);
        self.b.ins().store(plain(), length, self.current.packet, offset_of!(Packet, len) as i32);
        Ok(())
    }
}
