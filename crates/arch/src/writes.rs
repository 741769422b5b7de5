//! Finds the fields that blocks write, so that the glue between blocks does only what the program needs.

use std::collections::{HashMap, HashSet};

use num_bigint::BigUint;
use p4jet_ir as ir;
use p4jet_ir::{BlockId, Cfg, Expr, FieldId, Op, Terminator};

/// The fields that some blocks, or the actions of tables they apply, write.
pub(crate) struct Writes(HashMap<FieldId, Written>);

#[derive(Default)]
struct Written {
    constants: HashSet<BigUint>,
    /// True for a value that is not constant.
    other: bool,
}

impl Writes {
    pub(crate) fn of(program: &ir::Program, blocks: &[BlockId]) -> Writes {
        let mut graphs: Vec<&Cfg> = blocks.iter().map(|b| &program.blocks[b.index()].body).collect();
        let mut found: HashMap<FieldId, Written> = HashMap::new();
        for block in blocks {
            let error = program.blocks[block.index()].error_field;
            error.into_iter().for_each(|f| found.entry(f).or_default().other = true);
        }
        let mut tables = HashSet::new();
        let mut at = 0;
        while at < graphs.len() {
            for node in &graphs[at].nodes {
                for stmt in &node.stmts {
                    if let Op::Set { dest, value: Expr::Const { value, .. } } = &stmt.op {
                        found.entry(*dest).or_default().constants.insert(value.clone());
                        continue;
                    }
                    stmt.op
                        .for_each_write(&program.headers, &mut |f| found.entry(f).or_default().other = true);
                }
                node.terminator.for_each_result(&mut |f| found.entry(f).or_default().other = true);
                if let Terminator::Apply { table, .. } = node.terminator
                    && tables.insert(table)
                {
                    let actions = &program.tables[table.index()].actions;
                    graphs.extend(actions.iter().map(|a| &program.actions[a.action.index()].body));
                }
            }
            at += 1;
        }
        Writes(found)
    }

    /// True if they write the field.
    pub(crate) fn has(&self, field: FieldId) -> bool {
        self.0.contains_key(&field)
    }

    /// True if they may write anything but 0 to the field.
    pub(crate) fn has_nonzero(&self, field: FieldId) -> bool {
        let zero = BigUint::ZERO;
        self.0.get(&field).is_some_and(|w| w.other || w.constants.iter().any(|c| *c != zero))
    }

    /// True if they write this constant to the field.
    pub(crate) fn has_constant(&self, field: FieldId, value: usize) -> bool {
        self.0.get(&field).is_some_and(|w| w.constants.contains(&BigUint::from(value)))
    }
}

/// True if the blocks, or the actions of tables they apply, read a field.
pub(crate) fn reads(program: &ir::Program, blocks: &[BlockId], field: FieldId) -> bool {
    let mut graphs: Vec<&Cfg> = blocks.iter().map(|b| &program.blocks[b.index()].body).collect();
    let mut tables = HashSet::new();
    let mut found = false;
    let mut at = 0;
    while at < graphs.len() && !found {
        for node in &graphs[at].nodes {
            for stmt in &node.stmts {
                stmt.op.for_each_read(&program.headers, &mut |f| found |= f == field);
            }
            node.terminator.for_each_expr(&mut |e| e.for_each_field(&mut |f| found |= f == field));
            if let Terminator::Apply { table, .. } = node.terminator
                && tables.insert(table)
            {
                let actions = &program.tables[table.index()].actions;
                graphs.extend(actions.iter().map(|a| &program.actions[a.action.index()].body));
            }
        }
        at += 1;
    }
    found
}
