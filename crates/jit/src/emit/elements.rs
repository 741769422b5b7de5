//! Elements of columns that an unknown index finds.

use super::values::Limbs;
use super::{Codegen, Error, plain};
use crate::widths::limb_count;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use p4jet_ir::columns::Part;
use p4jet_ir::{Expr, FieldId, Loc};

/// The address of an element.
pub(super) struct ElementAddress {
    /// True if the element exists.
    pub inside: Value,
    pub address: Value,
}

impl<'a> Codegen<'a, '_> {
    /// The address of the element with an index in a column. If there is none, this is the address of a spare element that
    /// nothing reads.
    pub(super) fn element(
        &mut self,
        column: &[FieldId],
        index: Value,
        loc: Loc,
    ) -> Result<ElementAddress, Error> {
        let graph = self.graph();
        let part = graph.columns.part(column);
        let Some((part, begin)) =
            part.and_then(|part| Some((part, self.plan.memory.columns.begins[part.whole.index()]?)))
        else {
            return Err(Error::bug("a column that is in no memory", loc));
        };
        let bytes = 8 * limb_count(self.program().width(column[0])) as i64;
        Ok(self.found(part, column.len(), graph.columns.whole[part.whole.index()].len(), bytes, begin, index))
    }

    pub(super) fn found(
        &mut self,
        part: Part,
        count: usize,
        whole: usize,
        bytes: i64,
        begin: i32,
        index: Value,
    ) -> ElementAddress {
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, count as i64);
        let behind = self.b.ins().imul_imm_u(index, part.step as i64 * bytes);
        // The spare element lies after the last one of the whole column.
        let beyond = self.iconst((whole - part.first) as u64 * bytes as u64);
        let behind = self.b.ins().select(inside, behind, beyond);
        let at = self.b.ins().iadd(self.current.phv, behind);
        let first = i64::from(self.plan.memory.columns.at + begin) + part.first as i64 * bytes;
        ElementAddress { inside, address: self.b.ins().iadd_imm_s(at, first) }
    }

    /// The value of the element with an index; 0 if there is none.
    pub(super) fn get_element(&mut self, column: &[FieldId], index: &Expr) -> Result<Limbs, Error> {
        let zero = self.iconst(0);
        let limbs = limb_count(self.program().width(column[0]));
        let index = self.saturated_index(index)?;
        let found = self.element(column, index, Loc(0))?;
        let value = (0..limbs).map(|i| {
            let limb = self.b.ins().load(types::I64, plain(), found.address, 8 * i as i32);
            self.b.ins().select(found.inside, limb, zero)
        });
        Ok(value.collect())
    }
}
