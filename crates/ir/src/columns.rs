//! Columns: the fields that are the same part of each element of a header stack. An access with a run-time index is one
//! expression or statement over a column: [`crate::Expr::Element`], [`Op::SetElement`], [`Op::ExtractElement`]. Nested
//! indices address a single column. So a program grows with its text plus its stacks, not with their product. (One
//! `switch` arm per element was tried first: 128 elements and four statements took two minutes to compile.)
//!
//! The walks in `walk.rs` report all fields of a column as read or possibly written, so analyses need no separate
//! case; [`Op::for_each_replaced`] reports the fields that a statement certainly overwrites.
//!
//! This module determines how the columns of a program overlap. Executors that store the fields of a column at a fixed
//! distance must be able to do so for all columns at once. So of two columns that share fields, one must be a part of
//! the other: every second field, the first four …

use std::collections::HashMap;

use crate::{Column, ColumnId, FieldId, Op, Program};

/// The columns of a program, and which are parts of others.
#[derive(Debug, Default)]
pub struct Columns {
    /// The columns that are not part of another one.
    pub whole: Vec<Column>,
    /// For each field of a column: its column in `whole`, and its position there.
    pub places: HashMap<FieldId, (ColumnId, usize)>,
}

/// The position of a column in a whole column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The whole column.
    pub whole: ColumnId,
    /// Position of its first field.
    pub first: usize,
    /// Distance between its fields.
    pub step: usize,
}

impl Columns {
    /// Collects the columns of all statements. Returns an error if two share fields and neither is a part of the other:
    /// a field that both contain.
    pub fn of(program: &Program) -> Result<Columns, FieldId> {
        let mut all: Vec<Column> = Vec::new();
        let mut seen: HashMap<Column, ()> = HashMap::new();
        let mut stacks = HashMap::new();
        for_each_column(program, &mut stacks, &mut |column| {
            if seen.insert(column.clone(), ()).is_none() {
                all.push(column.clone());
            }
        });
        // Wholes come before their parts.
        all.sort_by_key(|column| std::cmp::Reverse(column.len()));
        let mut columns = Columns::default();
        for column in all {
            let known = |f: &&FieldId| columns.places.contains_key(f);
            if let Some(&shared) = column.iter().find(known) {
                columns.part(&column).ok_or(shared)?;
                continue;
            }
            let number = ColumnId(columns.whole.len() as u32);
            for (at, &field) in column.iter().enumerate() {
                if columns.places.insert(field, (number, at)).is_some() {
                    return Err(field);
                }
            }
            columns.whole.push(column);
        }
        Ok(columns)
    }

    /// Returns the position of a column of the program.
    pub fn part(&self, column: &[FieldId]) -> Option<Part> {
        let mut places = column.iter().map(|f| self.places.get(f).copied());
        let (whole, first) = places.next()??;
        let mut step = None;
        let mut before = first;
        for place in places {
            let (other, at) = place?;
            let distance = at.checked_sub(before).filter(|distance| *distance > 0 && other == whole)?;
            if *step.get_or_insert(distance) != distance {
                return None;
            }
            before = at;
        }
        Some(Part { whole, first, step: step.unwrap_or(1) })
    }
}

/// Calls `f` with the columns of all statements; those of header columns only once.
fn for_each_column(
    program: &Program,
    stacks: &mut HashMap<crate::HeaderColumn, ()>,
    f: &mut dyn FnMut(&Column),
) {
    let bodies = program.actions.iter().map(|a| &a.body).chain(program.blocks.iter().map(|b| &b.body));
    for node in bodies.flat_map(|body| &body.nodes) {
        for stmt in &node.stmts {
            match &stmt.op {
                Op::ExtractElement { headers, .. } if stacks.insert(headers.clone(), ()).is_some() => {
                    stmt.op.for_each_expr(&mut |e| e.for_each_column(f));
                }
                op => op.for_each_column(&program.headers, f),
            }
        }
        node.terminator.for_each_expr(&mut |e| e.for_each_column(f));
    }
}
