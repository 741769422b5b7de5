//! Remembered lookups: if the key of a lookup follows from the row that an earlier lookup found (a route names a next
//! hop, whose link address is looked up next), the result is remembered by that row.
//!
//! Most packets meet few rows, so most of these lookups need no search. A remembered result holds as long as the rows
//! of the first table mean the same and the entries of the second table are unchanged. While an entry is being changed,
//! nothing is remembered from one batch to the next, because another worker may already find the new entry: see
//! [`p4jet_tables::View::rows_released`] and [`p4jet_tables::View::entries_changed`].

use super::effects::op_sets;
use super::inherited::Inherited;
use crate::graph::{Graph, Place, Position};
use crate::slots::Slot;
use cranelift_codegen::entity::{PrimaryMap, entity_impl};
use p4jet_ir::{ActionId, FieldId, FieldKind, Op, Program, TableId, Terminator};
use std::collections::HashSet;

/// A lookup that is remembered by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memo {
    /// The place of the lookup, and its table.
    pub place: Place,
    pub table: TableId,
    /// The position whose lookup finds the row, and its table.
    pub row_at: Position,
    pub row_table: TableId,
}

/// A remembered lookup of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoId(u32);
entity_impl!(MemoId, "memo");

/// The remembered lookups of a program.
#[derive(Clone, Default)]
pub struct Memos(PrimaryMap<MemoId, Memo>);

impl Memos {
    /// All remembered lookups, in the order of their ids.
    pub fn list(&self) -> &[Memo] {
        self.0.as_values_slice()
    }

    /// The lookup of a place, if it is remembered.
    pub fn at(&self, place: Place) -> Option<(MemoId, &Memo)> {
        self.0.iter().find(|(_, memo)| memo.place == place)
    }

    /// The slot of the row that the lookup of a place finds, if a later lookup is remembered by that row.
    pub fn row_slot(&self, graph: &Graph, place: Place) -> Option<Slot> {
        let memo = self.0.values().find(|memo| memo.row_at == graph.position(place))?;
        Some(graph.slots.row(memo.row_table))
    }

    /// True if a lookup is remembered by the row of a table.
    pub fn use_rows_of(&self, table: TableId) -> bool {
        self.0.values().any(|memo| memo.row_table == table)
    }
}

/// Finds the lookups that are remembered by row; only lookups in tables that are `worth_it`.
pub fn memos(graph: &Graph, inherited: &Inherited, worth_it: &[bool]) -> Memos {
    let applied: Vec<(Place, TableId)> = graph
        .places()
        .filter(|&place| graph.is_reached(place))
        .filter_map(|place| match graph.node(place).terminator {
            Terminator::Apply { table, .. } => Some((place, table)),
            _ => None,
        })
        .collect();
    let is_worth_it = |table: TableId| worth_it.get(table.index()) == Some(&true);
    let memos = applied.iter().filter(|(_, table)| is_worth_it(*table)).filter_map(|&(place, table)| {
        let row_table = table_that_sets_key(graph, inherited, place)?;
        let mut places = applied.iter().filter(|(_, table)| *table == row_table).map(|(place, _)| *place);
        let row_place = places.next()?;
        let row_at = graph.position(row_place);
        // Hot paths have separate places for the same lookup; a packet reaches one of them.
        let is_one =
            places.all(|place| graph.position(place) == row_at) && !graph.is_in_cycle(graph.general(row_at));
        // A row that came with the packet from another thread may mean something else by now.
        let is_same_thread = graph.thread_of(row_at.step) == graph.thread(place);
        (is_one && is_same_thread && row_table != table).then_some(Memo { place, table, row_at, row_table })
    });
    Memos(memos.collect())
}

/// The table whose actions alone, from their data alone, set the key of the table of a place.
fn table_that_sets_key(graph: &Graph, inherited: &Inherited, place: Place) -> Option<TableId> {
    let program = graph.program;
    let Terminator::Apply { keys, .. } = &graph.node(place).terminator else { return None };
    let mut asked = HashSet::new();
    for key in keys {
        key.for_each_field(&mut |f| {
            asked.insert(f);
        });
    }
    let is_plain = |f: &FieldId| {
        let kind = &program.fields[f.index()].kind;
        matches!(kind, FieldKind::Metadata | FieldKind::Temporary)
            && program.intrinsics.iter().all(|(_, intrinsic)| intrinsic != f)
            && !inherited.contains(graph, *f)
    };
    if asked.is_empty() || !asked.iter().all(is_plain) {
        return None;
    }
    let mut setters = HashSet::new();
    for (place, node) in graph.places().map(|place| (place, graph.node(place))) {
        let mut set = false;
        node.stmts.iter().for_each(|stmt| op_sets(&stmt.op, &mut |f| set |= asked.contains(&f)));
        node.terminator.for_each_result(&mut |f| set |= asked.contains(&f));
        set |= graph.block(place).error_field.is_some_and(|f| asked.contains(&f));
        if set {
            return None;
        }
    }
    for (i, action) in program.actions.iter().enumerate() {
        let stmts = action.body.nodes.iter().flat_map(|node| &node.stmts);
        for stmt in stmts {
            let mut set = false;
            op_sets(&stmt.op, &mut |f| set |= asked.contains(&f));
            if set {
                setters.insert(ActionId(i as u32));
                let Op::Set { value, .. } = &stmt.op else { return None };
                let mut from_data = action.body.nodes.len() == 1;
                value.for_each_field(&mut |f| from_data &= is_untouched_data(program, f));
                if !from_data {
                    return None;
                }
            }
        }
    }
    let users = |(_, table): &(usize, &p4jet_ir::Table)| {
        table.actions.iter().any(|action| setters.contains(&action.action))
    };
    let mut tables = program.tables.iter().enumerate().filter(users);
    match (tables.next(), tables.next()) {
        (Some((table, of)), None) if of.profile.is_none() => Some(TableId(table as u32)),
        _ => None,
    }
}

/// True if a field is action data that no statement changes.
fn is_untouched_data(program: &Program, field: FieldId) -> bool {
    let FieldKind::ActionData(action) = program.fields[field.index()].kind else { return false };
    let mut changed = false;
    for node in &program.actions[action.index()].body.nodes {
        node.stmts.iter().for_each(|stmt| op_sets(&stmt.op, &mut |f| changed |= f == field));
    }
    !changed
}
