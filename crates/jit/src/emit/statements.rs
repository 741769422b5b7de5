//! Statements.

use super::control::Scope;
use super::externs::Callee;
use super::{Codegen, Error, plain};
use crate::analysis::reads::Statement;
use crate::graph::StatementSite;
use cranelift_codegen::ir::InstBuilder;
use p4jet_ir::{Expr, FieldId, Loc, Op};

impl<'a> Codegen<'a, '_> {
    /// Emits a statement: `op` is its simplified form, `number` its number in the node.
    pub(super) fn statement(
        &mut self,
        op: &'a Op,
        plan: &'a Statement,
        number: usize,
        loc: Loc,
        scope: &Scope,
    ) -> Result<(), Error> {
        let site = StatementSite::new(scope.place(), number);
        match op {
            Op::Set { dest, value } => self.set_to(*dest, value)?,
            Op::SetElement { column, index, value } => {
                if column.iter().any(|f| self.is_needed(*f)) {
                    let value = self.expr(value)?;
                    let index = self.saturated_index(index)?;
                    let at = self.element(column, index, loc)?.address;
                    for (i, &limb) in value.iter().enumerate() {
                        self.b.ins().store(plain(), limb, at, 8 * i as i32);
                    }
                }
            }
            Op::ExtractElement { headers, index, varbit_length } => {
                let index = self.saturated_index(index)?;
                self.extract_element(headers, index, varbit_length.as_ref(), loc, site)?;
            }
            Op::Extract { header, varbit_length } => self.extract(*header, varbit_length.as_ref(), site)?,
            Op::Advance { bits } => self.advance(bits, site)?,
            Op::Lookahead { dest } => self.lookahead(*dest, site),
            Op::Emit { .. } => {
                if let Some(plan) = self.plan.emits.get(&site) {
                    let bytes_max = self.graph().output_limit(site.place);
                    self.emit_to_scratch(plan, bytes_max);
                }
            }
            Op::Copy(copy) => self.copy(copy, site)?,
            Op::Truncate { bytes } => self.truncate(bytes)?,
            Op::Extern { function, instance, args, outs, text } => {
                let Some(call) = plan.call else { return Err(crate::internal("a call that is not planned")) };
                let callee = Callee { function, instance: *instance, args, outs, text, loc };
                self.call_extern(callee, call, plan.sum.as_deref())?;
            }
        }
        Ok(())
    }

    fn set_to(&mut self, dest: FieldId, value: &Expr) -> Result<(), Error> {
        if self.is_needed(dest) {
            let value = self.expr(value)?;
            self.set_field(dest, &value);
        }
        Ok(())
    }
}
