//! The properties of a program's tables, and which of the tables are worth a cut or a remembered lookup.

use p4jet_ir::{Program, TableId};
use p4jet_tables::Structure;

/// Tables of [`Structure::Generic`] with at least this many entries are worth a cut: their lookups are long.
pub const GENERIC_ENTRIES_MIN: u32 = 64;
/// At most this many of them cut, the largest first: what lies between cuts is compiled for each path there.
const GENERIC_CUTS_MAX: usize = 2;

/// The properties of a program's tables that decide about cuts and remembered lookups.
pub struct Shapes {
    /// The lookup structures.
    pub structures: Vec<Structure>,
    /// The number of entries that they may get, or had if that was observed.
    pub sizes: Vec<u32>,
    /// True if the sizes were observed.
    pub are_observed: bool,
    /// Tables with at least this many entries are prefetched before lookup.
    pub entries_min: u32,
}

impl Shapes {
    /// The lookup structure of a table.
    pub fn structure(&self, table: TableId) -> Structure {
        self.structures[table.index()]
    }

    /// The number of entries that a table may get, or had if that was observed.
    pub fn size(&self, table: TableId) -> u32 {
        self.sizes[table.index()]
    }

    /// True if a table is worth a cut: its lookup touches memory that prefetching helps, or is long.
    pub fn is_large(&self, table: TableId) -> bool {
        let size = self.size(table);
        match self.structure(table) {
            Structure::Quotient | Structure::Hash | Structure::Lpm32 => size >= self.entries_min,
            Structure::Generic => size >= self.generic_entries_min(),
            Structure::Keyless | Structure::Direct => false,
        }
    }

    /// True if the rows of a table are worth a cut: selecting a member takes long, and rows that belong to one entry each
    /// do not all stay in the caches. The sizes must have been observed.
    pub fn has_far_rows(&self, program: &Program, table: TableId) -> bool {
        let t = &program.tables[table.index()];
        let is_large = self.size(table) >= self.entries_min;
        self.are_observed && (t.profile.is_some() || is_large && !t.direct.is_empty())
    }

    /// True if it pays to remember the results of lookups in a table by row: reading a remembered result is cheaper than a search.
    pub fn is_memoized(&self, table: TableId) -> bool {
        let is_searched =
            matches!(self.structure(table), Structure::Quotient | Structure::Hash | Structure::Generic);
        is_searched && !self.is_large(table)
    }

    fn generic_entries_min(&self) -> u32 {
        if self.entries_min < GENERIC_ENTRIES_MIN {
            return self.entries_min;
        }
        let tables = self.sizes.iter().zip(&self.structures);
        let mut sizes: Vec<u32> =
            tables.filter(|(_, s)| **s == Structure::Generic).map(|(size, _)| *size).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.get(GENERIC_CUTS_MAX).map_or(0, |next| next.saturating_add(1)).max(GENERIC_ENTRIES_MIN)
    }
}
