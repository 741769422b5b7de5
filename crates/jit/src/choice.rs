//! The form of a choice among several blocks: comparisons or a jump table.

use crate::widths::limb_count;
use p4jet_ir::{Expr, Program};

/// Cases of a `switch` up to which a chain of comparisons is used: it beats a jump table by 12 to 20 %.
const COMPARED_CASES_MAX: usize = 6;

/// A jump table with more entries leads to separate blocks, which continue at the targets. Cranelift searches the arguments of a
/// block among all entries of each table that leads to the block.
const DIRECT_ENTRIES_MAX: usize = 64;

/// The form of a choice among several blocks by a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Comparisons with one case after another.
    Compare,
    /// A jump table that leads to the targets.
    JumpTable,
    /// A jump table that leads to separate blocks, which continue at the targets.
    IndirectJumpTable,
}

impl Choice {
    /// The choice of a `switch`.
    pub fn of_switch(program: &Program, value: &Expr, cases: usize) -> Choice {
        let is_long = limb_count(value.width(program)) == 1 && cases > COMPARED_CASES_MAX;
        if is_long { Choice::of_entries(cases) } else { Choice::Compare }
    }

    /// The choice among this many entries of a jump table.
    pub fn of_entries(entries: usize) -> Choice {
        if entries <= DIRECT_ENTRIES_MAX { Choice::JumpTable } else { Choice::IndirectJumpTable }
    }
}
