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
use p4jet_ir::{ActionId, FieldId, FieldKind, Op, TableId, Terminator};
use std::collections::{HashMap, HashSet};

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
pub struct Memos {
    list: PrimaryMap<MemoId, Memo>,
    by_place: HashMap<Place, MemoId>,
    by_row: HashMap<Position, TableId>,
    row_tables: HashSet<TableId>,
}

impl Memos {
    fn new(list: PrimaryMap<MemoId, Memo>) -> Memos {
        Memos {
            by_place: list.iter().map(|(id, memo)| (memo.place, id)).collect(),
            by_row: list.values().map(|memo| (memo.row_at, memo.row_table)).collect(),
            row_tables: list.values().map(|memo| memo.row_table).collect(),
            list,
        }
    }

    /// All remembered lookups, in the order of their ids.
    pub fn list(&self) -> &[Memo] {
        self.list.as_values_slice()
    }

    /// The lookup of a place, if it is remembered.
    pub fn at(&self, place: Place) -> Option<(MemoId, &Memo)> {
        self.by_place.get(&place).map(|id| (*id, &self.list[*id]))
    }

    /// The slot of the row that the lookup of a place finds, if a later lookup is remembered by that row.
    pub fn row_slot(&self, graph: &Graph, place: Place) -> Option<Slot> {
        self.by_row.get(&graph.position(place)).map(|table| graph.slots.row(*table))
    }

    /// True if a lookup is remembered by the row of a table.
    pub fn use_rows_of(&self, table: TableId) -> bool {
        self.row_tables.contains(&table)
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
    if !applied.iter().any(|(_, table)| is_worth_it(*table)) {
        return Memos::default();
    }
    let mut places_of: HashMap<TableId, Vec<Place>> = HashMap::new();
    applied.iter().for_each(|(place, table)| places_of.entry(*table).or_default().push(*place));
    // The one position that applies a table.
    let position_of = |table: TableId| {
        let places = places_of.get(&table)?;
        let row_at = graph.position(*places.first()?);
        // Hot paths have separate places for the same lookup; a packet reaches one of them.
        let is_one = places.iter().all(|place| graph.position(*place) == row_at)
            && !graph.is_in_cycle(graph.general(row_at));
        is_one.then_some(row_at)
    };
    let positions: HashMap<TableId, Position> =
        places_of.keys().filter_map(|table| Some((*table, position_of(*table)?))).collect();
    let setters = Setters::of(graph);
    let memos = applied.iter().filter(|(_, table)| is_worth_it(*table)).filter_map(|&(place, table)| {
        let row_table = table_that_sets_key(graph, inherited, &setters, place)?;
        let row_at = *positions.get(&row_table)?;
        // A row that came with the packet from another thread may mean something else by now.
        let is_same_thread = graph.thread_of(row_at.step) == graph.thread(place);
        (is_same_thread && row_table != table).then_some(Memo { place, table, row_at, row_table })
    });
    Memos::new(memos.collect())
}

/// Who sets the fields of a program.
struct Setters {
    /// The fields that nodes of blocks set.
    by_nodes: HashSet<FieldId>,
    /// The actions that set a field; `None` if one does so other than from its data alone.
    by_actions: HashMap<FieldId, Option<HashSet<ActionId>>>,
    /// The tables that have an action; the first two are enough.
    tables: Vec<Vec<TableId>>,
}

impl Setters {
    fn of(graph: &Graph) -> Setters {
        let program = graph.program;
        let mut by_nodes = HashSet::new();
        for place in graph.places() {
            let node = graph.node(place);
            let mut add = |f| {
                by_nodes.insert(f);
            };
            node.stmts.iter().for_each(|stmt| op_sets(&stmt.op, &mut add));
            node.terminator.for_each_result(&mut add);
            graph.block(place).error_field.into_iter().for_each(add);
        }
        let mut by_actions: HashMap<FieldId, Option<HashSet<ActionId>>> = HashMap::new();
        for (i, action) in program.actions.iter().enumerate() {
            let mut changed = HashSet::new();
            for stmt in action.body.nodes.iter().flat_map(|node| &node.stmts) {
                op_sets(&stmt.op, &mut |f| {
                    changed.insert(f);
                });
            }
            let is_untouched_data = |f: FieldId| {
                program.fields[f.index()].kind == FieldKind::ActionData(ActionId(i as u32))
                    && !changed.contains(&f)
            };
            for stmt in action.body.nodes.iter().flat_map(|node| &node.stmts) {
                let mut from_data = action.body.nodes.len() == 1;
                match &stmt.op {
                    Op::Set { value, .. } => {
                        value.for_each_field(&mut |f| from_data &= is_untouched_data(f));
                    }
                    _ => from_data = false,
                }
                op_sets(&stmt.op, &mut |f| {
                    let actions = by_actions.entry(f).or_insert_with(|| Some(HashSet::new()));
                    match actions {
                        Some(actions) if from_data => {
                            actions.insert(ActionId(i as u32));
                        }
                        other => *other = None,
                    }
                });
            }
        }
        let mut tables = vec![Vec::new(); program.actions.len()];
        for (i, table) in program.tables.iter().enumerate() {
            for action in &table.actions {
                let tables: &mut Vec<TableId> = &mut tables[action.action.index()];
                let table = TableId(i as u32);
                if tables.len() < 2 && tables.last() != Some(&table) {
                    tables.push(table);
                }
            }
        }
        Setters { by_nodes, by_actions, tables }
    }
}

/// The table whose actions alone, from their data alone, set the key of the table of a place.
fn table_that_sets_key(
    graph: &Graph,
    inherited: &Inherited,
    setters: &Setters,
    place: Place,
) -> Option<TableId> {
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
            && !setters.by_nodes.contains(f)
    };
    if !asked.iter().all(is_plain) {
        return None;
    }
    let mut tables: HashSet<TableId> = HashSet::new();
    for actions in asked.iter().filter_map(|f| setters.by_actions.get(f)) {
        // `None`: not from data alone.
        for action in actions.as_ref()? {
            tables.extend(&setters.tables[action.index()]);
            if tables.len() > 1 {
                return None;
            }
        }
    }
    let table = tables.into_iter().next()?;
    program.tables[table.index()].profile.is_none().then_some(table)
}
