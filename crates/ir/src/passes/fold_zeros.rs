//! Replaces reads of fields that are always 0 by 0.
//!
//! Before
//! ```text
//! meta.clone = 0x0:1
//! meta.wanted = meta.clone
//! if meta.wanted then n1 else n2
//! ```
//! After, if nothing else sets these fields
//! ```text
//! if 0x0:1 then n1 else n2
//! ```
//!
//! Every field is 0 when a packet arrives. It remains 0 if the whole program sets it only to zeros and to fields that
//! remain 0. Values from the packet, tables, extern functions or the machine may be anything. On exit, statements that set
//! such fields are gone. Architectures test many conditions (is there a clone? a multicast group?) that never hold in most
//! programs.

use num_traits::Zero;

use crate::{Expr, FieldId, Op, Program, Terminator};

/// The pass.
pub fn fold_zeros(program: &mut Program) {
    let zero = zero_fields(program);
    let widths: Vec<u32> = program.fields.iter().map(|f| f.width).collect();
    let mut fold = |expr: &mut Expr| {
        expr.rewrite(&mut |e| {
            if let Expr::Field(f) = e
                && zero[f.index()]
            {
                *e = Expr::constant(0u32, widths[f.index()]);
            }
        });
    };
    for node in super::graphs_mut(program).flat_map(|g| &mut g.nodes) {
        node.stmts.retain(|stmt| !matches!(stmt.op, Op::Set { dest, .. } if zero[dest.index()]));
        node.stmts.iter_mut().for_each(|stmt| stmt.op.for_each_expr_mut(&mut fold));
        node.terminator.for_each_expr_mut(&mut fold);
    }
}

/// Returns for each field whether it is always 0.
fn zero_fields(program: &Program) -> Vec<bool> {
    let mut zero = vec![true; program.fields.len()];
    let mut sets: Vec<(FieldId, &Expr)> = Vec::new();
    let mut given = Vec::new();
    given.extend(program.intrinsics.iter().map(|(_, f)| *f));
    given.extend(program.blocks.iter().filter_map(|b| b.error_field));
    given.extend(program.turns);
    given.extend(program.actions.iter().flat_map(|a| &a.params));
    let bodies = program.actions.iter().map(|a| &a.body).chain(program.blocks.iter().map(|b| &b.body));
    for node in bodies.flat_map(|body| &body.nodes) {
        for stmt in &node.stmts {
            match &stmt.op {
                Op::Set { dest, value } => sets.push((*dest, value)),
                Op::Copy(copy) => {
                    sets.extend(copy.set.iter().map(|(f, value)| (*f, value)));
                    let replicas = copy.replicas.iter();
                    given.extend(replicas.flat_map(|r| [r.port, r.instance, r.class_of_service]).flatten());
                }
                op => op.for_each_write(&program.headers, &mut |f| given.push(f)),
            }
        }
        if let Terminator::Apply { hit, action_run, entry, .. } = &node.terminator {
            given.extend([hit, action_run, entry].into_iter().flatten());
        }
    }
    given.into_iter().for_each(|f| zero[f.index()] = false);
    // A field that is still assumed to be 0 may depend on one that no longer is.
    loop {
        let mut changed = false;
        for (field, value) in &sets {
            let stays = match value {
                Expr::Const { value, .. } => value.is_zero(),
                Expr::Field(f) => zero[f.index()],
                _ => false,
            };
            changed |= !stays && std::mem::replace(&mut zero[field.index()], false);
        }
        if !changed {
            return zero;
        }
    }
}
