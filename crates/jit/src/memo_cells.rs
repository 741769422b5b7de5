//! The memory of remembered lookups ([`crate::analysis::memos`]): cells that one worker's generated code reads and writes.

use p4jet_externs::Apart;
use p4jet_tables::View;

/// Bits of a row's number. The bits above them in the first word of a cell are its age.
pub const ROW_BITS: u32 = 28;
/// Cells of a remembered lookup; a power of two. A cell has two words: age and row, and the row that was found.
pub const CELLS: usize = 1024;
/// The first word of a cell that holds no result: no row has this number.
pub const NOTHING: u64 = u64::MAX;

/// The cells of one remembered lookup of one worker.
pub struct MemoCells {
    cells: Apart<u64>,
    /// The number of changes so far, without the low bits that fit above the row.
    epoch: u64,
}

impl MemoCells {
    /// Cells that hold no result.
    pub fn new() -> MemoCells {
        let mut cells = Apart::zeroed(2 * CELLS);
        cells.fill(NOTHING);
        MemoCells { cells, epoch: 0 }
    }

    /// The cells.
    pub fn cells(&mut self) -> *mut u64 {
        self.cells.as_mut_ptr()
    }

    /// The bits above the row in cells that are valid for these views. The caller asks for them before it reads the views.
    pub fn age(&mut self, row_view: &View, view: &View) -> u64 {
        let entries_changed = view.entries_changed();
        let changes = row_view.rows_released().wrapping_add(entries_changed);
        let epoch = changes >> (64 - ROW_BITS);
        if epoch != self.epoch || entries_changed % 2 == 1 {
            self.cells.fill(NOTHING);
            self.epoch = epoch;
        }
        changes << ROW_BITS
    }
}
