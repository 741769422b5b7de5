//! Records where the program requested a drop that is carried out later.
//!
//! Before
//! ```text
//! standard_metadata.egress_spec = 0x1ff:9   // router.p4:41
//! …
//! if standard_metadata.egress_spec == 0x1ff:9 then n1 else n2
//! n1: drop "egress_spec is the drop port"
//! ```
//! After
//! ```text
//! standard_metadata.egress_spec = 0x1ff:9
//! $drop_place = 7:32                        // the number of that place
//! …
//! ```
//!
//! This is not one of [`super::PASSES`]: only those who count drops by place run it, last, and pay its cost.

use crate::passes::fold_expr;
use crate::{Expr, Field, FieldId, FieldKind, Op, Program, Stmt, Terminator};
use num_traits::Zero;

/// Name of the field.
const NAME: &str = "$drop_place";

/// The pass: gives the program a [`Program::drop_place`], unless it has one.
pub fn place_drops(program: &mut Program) {
    if program.drop_place.is_some() {
        return;
    }
    let conditions = drop_conditions(program);
    let field = FieldId(program.fields.len() as u32);
    let asked: Vec<bool> = asked_fields(program, &conditions);
    let may_drop = |program: &Program, dest: FieldId, value: &Expr| {
        // A field that only contributes to a condition may be set to any value.
        !matches!(value, Expr::Const { .. })
            || !conditions.iter().any(|c| reads(c, dest))
            || conditions.iter().any(|condition| {
                let mut condition = condition.clone();
                if !reads(&condition, dest) {
                    return false;
                }
                condition.rewrite(&mut |e| {
                    if *e == Expr::Field(dest) {
                        *e = value.clone();
                    }
                });
                fold_expr(program, &mut condition);
                !matches!(&condition, Expr::Const { value, .. } if value.is_zero())
            })
    };
    // By graph and node: the statements after which the place is recorded.
    let mut behind: Vec<Vec<Vec<usize>>> = Vec::new();
    for graph in graphs(program) {
        let nodes = graph.nodes.iter().map(|node| {
            let stmts = node.stmts.iter().enumerate();
            let asks = stmts.filter(|(_, stmt)| match &stmt.op {
                Op::Set { dest, value } => asked[dest.index()] && may_drop(program, *dest, value),
                _ => false,
            });
            asks.map(|(i, _)| i).collect()
        });
        behind.push(nodes.collect());
    }
    program.fields.push(Field { name: NAME.to_string(), width: 32, kind: FieldKind::Temporary });
    program.drop_place = Some(field);
    for (graph, behind) in super::graphs_mut(program).zip(behind) {
        for (node, behind) in graph.nodes.iter_mut().zip(behind) {
            for i in behind.into_iter().rev() {
                let loc = node.stmts[i].loc;
                let op = Op::Set { dest: field, value: Expr::constant(loc.0, 32) };
                node.stmts.insert(i + 1, Stmt { op, loc });
            }
        }
    }
}

/// Undoes [`place_drops`].
pub fn forget_drop_places(program: &mut Program) {
    let Some(field) = program.drop_place.take() else { return };
    for node in super::graphs_mut(program).flat_map(|graph| &mut graph.nodes) {
        node.stmts.retain(|stmt| !matches!(stmt.op, Op::Set { dest, .. } if dest == field));
    }
    if field.index() + 1 == program.fields.len() {
        program.fields.pop();
    }
}

fn graphs(program: &Program) -> impl Iterator<Item = &crate::Cfg> {
    program.actions.iter().map(|a| &a.body).chain(program.blocks.iter().map(|b| &b.body))
}

fn reads(expr: &Expr, field: FieldId) -> bool {
    let mut found = false;
    expr.for_each_field(&mut |f| found |= f == field);
    found
}

/// Returns the conditions of the branches right before drops.
fn drop_conditions(program: &Program) -> Vec<Expr> {
    let mut conditions = Vec::new();
    for graph in graphs(program) {
        let drops = |n: crate::NodeId| matches!(graph.nodes[n.index()].terminator, Terminator::Drop(_));
        for node in &graph.nodes {
            if let Terminator::If { cond, then, otherwise } = &node.terminator {
                if drops(*then) {
                    conditions.push(cond.clone());
                } else if drops(*otherwise) {
                    conditions.push(Expr::Unary(crate::UnaryOp::Not, Box::new(cond.clone())));
                }
            }
        }
    }
    conditions
}

/// Returns the fields that the conditions read, and the fields from which temporaries among them are computed.
fn asked_fields(program: &Program, conditions: &[Expr]) -> Vec<bool> {
    let mut asked = vec![false; program.fields.len()];
    conditions.iter().for_each(|c| c.for_each_field(&mut |f| asked[f.index()] = true));
    loop {
        let before = asked.iter().filter(|a| **a).count();
        for stmt in graphs(program).flat_map(|g| &g.nodes).flat_map(|n| &n.stmts) {
            if let Op::Set { dest, value } = &stmt.op
                && asked[dest.index()]
                && program.fields[dest.index()].kind == FieldKind::Temporary
            {
                value.for_each_field(&mut |f| asked[f.index()] = true);
            }
        }
        if asked.iter().filter(|a| **a).count() == before {
            return asked;
        }
    }
}
