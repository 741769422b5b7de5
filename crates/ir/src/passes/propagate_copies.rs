//! Propagates copies: within a node, a read of a temporary that holds a copy of a field becomes a read of that field,
//! and a read of a field that holds a constant becomes that constant.
//!
//! Before
//! ```text
//! t = hdr.ipv4.ttl
//! meta.x = add(t, 0x1:8)
//! meta.y = 0x5:8
//! meta.z = meta.y
//! ```
//! After
//! ```text
//! t = hdr.ipv4.ttl
//! meta.x = add(hdr.ipv4.ttl, 0x1:8)
//! meta.y = 0x5:8
//! meta.z = 0x5:8
//! ```
//!
//! A copy ends when either side is written. On exit, unused copies remain, for `remove_dead_sets`; statements that set
//! a field to itself are gone.

use std::collections::HashMap;

use crate::{Expr, FieldId, FieldKind, Op, Program};

/// The pass.
pub fn propagate_copies(program: &mut Program) {
    let fields = std::mem::take(&mut program.fields);
    let headers = std::mem::take(&mut program.headers);
    for node in super::graphs_mut(program).flat_map(|g| &mut g.nodes) {
        let mut copies: HashMap<FieldId, Expr> = HashMap::new();
        // The copies of each field, so that a write takes time only for the copies that it ends.
        let mut copies_of: HashMap<FieldId, Vec<FieldId>> = HashMap::new();
        for stmt in &mut node.stmts {
            stmt.op.for_each_expr_mut(&mut |e| read_through(&copies, e));
            stmt.op.for_each_write(&headers, &mut |written| {
                copies.remove(&written);
                for dest in copies_of.remove(&written).unwrap_or_default() {
                    if copies.get(&dest) == Some(&Expr::Field(written)) {
                        copies.remove(&dest);
                    }
                }
            });
            if let Op::Set { dest, value } = &stmt.op {
                let copy = match value {
                    Expr::Const { .. } => true,
                    Expr::Field(source) => {
                        fields[dest.index()].kind == FieldKind::Temporary && source != dest
                    }
                    _ => false,
                };
                if copy {
                    if let Expr::Field(source) = value {
                        copies_of.entry(*source).or_default().push(*dest);
                    }
                    copies.insert(*dest, value.clone());
                }
            }
        }
        node.stmts.retain(
            |stmt| !matches!(&stmt.op, Op::Set { dest, value: Expr::Field(source) } if source == dest),
        );
        node.terminator.for_each_expr_mut(&mut |e| read_through(&copies, e));
    }
    program.fields = fields;
    program.headers = headers;
}

fn read_through(copies: &HashMap<FieldId, Expr>, expr: &mut Expr) {
    expr.rewrite(&mut |e| {
        if let Expr::Field(f) = e
            && let Some(source) = copies.get(f)
        {
            *e = source.clone();
        }
    });
}
