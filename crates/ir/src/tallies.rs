//! Optional counts of what a program does to a worker's packets: actions by table, hit and miss, and drops by reason
//! and place.

use crate::{DropReason, Loc, Program, TableId};

/// Cells before the first and after the last, so that no other worker writes to the cache lines between them.
const APART: usize = 16;

/// Counts of one worker, in cells whose numbers are the same for every executor of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tallies {
    cells: Vec<u64>,
    /// The first cell of each table. Each of its actions, and "none", has a cell for misses and one for hits.
    tables: Vec<usize>,
    /// The number of actions of each table.
    actions: Vec<usize>,
    /// The first cell of drops: each reason has one for each place.
    drops: usize,
    reasons: u32,
    places: usize,
}

impl Tallies {
    /// Creates counts that are all 0.
    pub fn new(program: &Program) -> Tallies {
        let actions: Vec<usize> = program.tables.iter().map(|t| t.actions.len()).collect();
        let mut next = APART;
        let tables = actions
            .iter()
            .map(|actions| {
                let first = next;
                next += 2 * (actions + 1);
                first
            })
            .collect();
        let (reasons, places) = (program.drop_reasons.len() as u32, program.locs.len().max(1));
        let cells = next + (reasons as usize + DropReason::EXECUTORS.len()) * places;
        Tallies { cells: vec![0; cells + APART], tables, actions, drops: next, reasons, places }
    }

    /// Returns the cells, for generated code.
    pub fn cells(&mut self) -> *mut u64 {
        self.cells.as_mut_ptr()
    }

    /// Returns the first cell of a table. After it, at twice the index of the action in the table's list (one more than
    /// the last for "none"), come misses, then hits.
    pub fn table_cell(&self, table: TableId) -> usize {
        self.tables[table.index()]
    }

    /// Returns the cell of a reason for drops without a place, followed by those for each place.
    pub fn drop_cell(&self, reason: DropReason) -> usize {
        let number = match reason {
            DropReason::Program(index) => index as usize,
            reason => {
                let behind = DropReason::EXECUTORS.iter().position(|other| *other == reason);
                self.reasons as usize + behind.expect("all reasons but the program's are listed")
            }
        };
        self.drops + number * self.places
    }

    /// Counts a lookup that led to an action of the table's list; an index beyond its end stands for none.
    pub fn applied(&mut self, table: TableId, action: u32, hit: bool) {
        let action = (action as usize).min(self.actions[table.index()]);
        let cell = self.tables[table.index()] + 2 * action + usize::from(hit);
        self.cells[cell] += 1;
    }

    /// Counts a dropped packet.
    pub fn dropped(&mut self, reason: DropReason, place: Loc) {
        let cell = self.drop_cell(reason) + place.index();
        self.cells[cell] += 1;
    }

    /// Returns the misses and hits for each action of a table's list, and finally for none.
    pub fn table(&self, table: TableId) -> impl Iterator<Item = (u64, u64)> {
        let first = self.tables[table.index()];
        let cells = &self.cells[first..first + 2 * (self.actions[table.index()] + 1)];
        cells.chunks(2).map(|cell| (cell[0], cell[1]))
    }

    /// Returns the drops: reason, place, and number.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, Loc, u64)> {
        let cells = self.cells[self.drops..].iter().enumerate().filter(|(_, n)| **n > 0);
        cells.map(|(i, n)| {
            let number = i / self.places;
            let reason = match number.checked_sub(self.reasons as usize) {
                None => DropReason::Program(number as u32),
                Some(behind) => DropReason::EXECUTORS[behind],
            };
            (reason, Loc((i % self.places) as u32), *n)
        })
    }
}
