//! Actions that share a control-plane name and have the same effect become one action.
//!
//! `@name(".nop")` in two controls, common in programs that come from P4_14, means one action to the control plane.

use p4jet_ir as ir;
use p4jet_ir::{Expr, FieldId, Loc, Op};

use crate::context::Lowerer;

impl Lowerer<'_> {
    /// Returns an action before `new` with the given control-plane name and the same parameters and code, apart from
    /// source places.
    pub(crate) fn twin(&self, name: &str, new: ir::ActionId) -> Option<ir::ActionId> {
        let params = |id: ir::ActionId| {
            let params = &self.ir.actions[id.index()].params;
            params.iter().map(|f| (self.ir.param_name(id, *f), self.ir.width(*f))).collect::<Vec<_>>()
        };
        let (new_params, new) = (params(new), &self.ir.actions[new.index()]);
        let same = |old: &&ir::ActionId| {
            let (old_params, old) = (params(**old), &self.ir.actions[old.index()]);
            old_params == new_params && comparable(old, &old.params) == comparable(new, &old.params)
        };
        self.actions_named.get(name)?.iter().find(same).copied()
    }
}

/// Returns the code with other parameters in place of the action's own, and without source places.
fn comparable(action: &ir::Action, params: &[FieldId]) -> ir::Cfg {
    let rename = |f: &mut FieldId| {
        if let Some(i) = action.params.iter().position(|p| p == f) {
            *f = params[i];
        }
    };
    let mut expr = |e: &mut Expr| {
        e.rewrite(&mut |e| {
            if let Expr::Field(f) = e {
                rename(f);
            }
        });
    };
    let mut body = action.body.clone();
    for node in &mut body.nodes {
        node.terminator_loc = Loc(0);
        node.terminator.for_each_expr_mut(&mut expr);
        for stmt in &mut node.stmts {
            stmt.loc = Loc(0);
            stmt.op.for_each_expr_mut(&mut expr);
            match &mut stmt.op {
                Op::Set { dest, .. } => rename(dest),
                Op::Extern { outs, .. } => outs.iter_mut().for_each(rename),
                // No column contains action data.
                Op::SetElement { .. } => {}
                // An action has none of these.
                Op::Extract { .. }
                | Op::ExtractElement { .. }
                | Op::Advance { .. }
                | Op::Lookahead { .. }
                | Op::Emit { .. }
                | Op::Copy(_)
                | Op::Truncate { .. } => {}
            }
        }
    }
    body
}
