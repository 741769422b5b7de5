//! Tables that share an action profile list the same actions, so that a member has the same meaning in each.
//!
//! The program may declare different lists: each table gets all actions of all lists. Code that tests which action ran
//! still sees the old positions.

use p4jet_ir as ir;
use p4jet_ir::{
    ActionId, Cfg, Expr, Field, FieldId, FieldKind, Node, NodeId, Op, Stmt, TableAction, Terminator,
};

use crate::build;

/// Joins the lists of actions of tables that share a profile.
pub(crate) fn join_lists(program: &mut ir::Program) {
    for profile in 0..program.instances.len() as u32 {
        let users: Vec<usize> = (0..program.tables.len())
            .filter(|t| program.tables[*t].profile == Some(ir::InstanceId(profile)))
            .collect();
        let mut joined: Vec<TableAction> = Vec::new();
        for listed in users.iter().flat_map(|t| &program.tables[*t].actions) {
            match joined.iter_mut().find(|known| known.action == listed.action) {
                Some(known) => {
                    known.table_only &= listed.table_only;
                    known.default_only &= listed.default_only;
                }
                None => joined.push(*listed),
            }
        }
        for table in users {
            let old = std::mem::replace(&mut program.tables[table].actions, joined.clone());
            let place = |action: ActionId| joined.iter().position(|a| a.action == action).unwrap_or(0) as u32;
            let places: Vec<u32> = old.iter().map(|a| place(a.action)).collect();
            let default = &mut program.tables[table].default.action;
            *default = places[*default as usize];
            if places.iter().enumerate().any(|(old, new)| old as u32 != *new) {
                map_old_positions(program, ir::TableId(table as u32), &places);
            }
        }
    }
}

/// Makes each application of a table report the old position of the action that ran; an action that was not in the old
/// list has the position after its end. [`ir::NO_ACTION`] stays as it is.
fn map_old_positions(program: &mut ir::Program, table: ir::TableId, places: &[u32]) {
    let (blocks, fields) = (&mut program.blocks, &mut program.fields);
    for block in blocks {
        for node in 0..block.body.nodes.len() {
            map_old_position(&mut block.body, node, table, places, fields);
        }
    }
}

fn map_old_position(
    graph: &mut Cfg,
    node: usize,
    table: ir::TableId,
    places: &[u32],
    fields: &mut Vec<Field>,
) {
    let added = NodeId(graph.nodes.len() as u32);
    let loc = graph.nodes[node].terminator_loc;
    let Terminator::Apply { table: applied, action_run: Some(run), next, .. } =
        &mut graph.nodes[node].terminator
    else {
        return;
    };
    if *applied != table {
        return;
    }
    let new = FieldId(fields.len() as u32);
    fields.push(Field { name: format!("$place{}", fields.len()), width: 32, kind: FieldKind::Temporary });
    let konst = |v: u32| Expr::constant(v, 32);
    let none_ran = build::eq(Expr::Field(new), konst(ir::NO_ACTION));
    let mut value = build::select(none_ran, konst(ir::NO_ACTION), konst(places.len() as u32));
    for (old, place) in places.iter().enumerate() {
        value = build::select(build::eq(Expr::Field(new), konst(*place)), konst(old as u32), value);
    }
    let dest = std::mem::replace(run, new);
    let terminator = Terminator::Goto(std::mem::replace(next, added));
    let stmts = vec![Stmt { op: Op::Set { dest, value }, loc }];
    graph.nodes.push(Node { label: String::new(), stmts, terminator, terminator_loc: loc });
}
