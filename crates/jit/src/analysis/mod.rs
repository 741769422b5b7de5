//! The analyses of a program before code is emitted. Each file has one analysis: a function that takes the graph and the results
//! that it depends on, and returns its own result. The dataflow analyses run on the [`crate::solver`].

pub mod calls;
pub mod combinations;
pub mod constants;
pub mod cursor;
pub mod deparse;
pub mod effects;
pub mod extracts;
pub mod indexed;
pub mod inherited;
pub mod liveness;
pub mod may_defined;
pub mod memos;
pub mod needed;
pub mod reads;
pub mod sources;
pub mod sums;
pub mod uncut;
pub mod written;

use crate::graph::Graph;
use crate::slots::{Slot, SlotKind, SlotSet};
use crate::solver::{Budget, Exceeded};
use constants::Constants;
use deparse::Deparsers;
use extracts::Extracts;
use inherited::Inherited;
use may_defined::MayDefined;
use memos::Memos;
use sources::Sources;
use sums::{Sum, Sums};
use written::Written;

/// The results that do not depend on where stages end.
pub struct Analyses<'a> {
    /// The graph.
    pub graph: &'a Graph<'a>,
    /// Slots that copies inherit.
    pub inherited: Inherited,
    /// Places where no stage may end.
    pub uncut: uncut::Uncut,
    /// Remembered lookups.
    pub memos: Memos,
    /// The positions of headers.
    pub extracts: Extracts,
    /// Fields that statements set.
    pub written: Written,
    /// The deparsers.
    pub deparsers: Deparsers,
    /// Constant facts.
    pub constants: Constants<'a>,
    /// Whole columns with an index that is unknown at compile time.
    pub is_indexed: Vec<bool>,
    /// Needed fields.
    pub needed: SlotSet,
    /// May-defined slots.
    pub defined: MayDefined,
    /// Related checksums.
    pub sums: Sums,
}

impl<'a> Analyses<'a> {
    /// Analyses a program; `memoized` are the tables whose lookups are remembered by row where that is possible.
    pub fn new(
        graph: &'a Graph<'a>,
        memoized: &[bool],
        budget: &mut Budget,
    ) -> Result<Analyses<'a>, Exceeded> {
        let inherited = inherited::inherited(graph);
        let uncut = uncut::uncut(graph);
        let memos = memos::memos(graph, &inherited, memoized);
        let extracts = cursor::extracts(graph);
        let written = written::written(graph);
        let deparsers = deparse::deparsers(graph, &written);
        let constants = constants::constants(graph, &inherited);
        let is_indexed = indexed::indexed(graph, &constants);
        let needed = needed::needed(graph, &written);
        let defined = may_defined::may_defined(graph, &constants, budget)?;
        // Sums of unchanged parts of the frame need no fields.
        let sums = sums::sums(graph, &extracts, &constants, &defined);
        Ok(Analyses {
            graph,
            inherited,
            uncut,
            memos,
            extracts,
            written,
            deparsers,
            constants,
            is_indexed,
            needed,
            defined,
            sums,
        })
    }

    /// The sources of values.
    pub fn sources(&self) -> Sources<'_> {
        Sources::new(self.graph, &self.extracts, &self.constants.eval)
    }

    /// The inputs of the analysis of reads.
    pub fn read_inputs(&self) -> reads::ReadInputs<'_> {
        reads::ReadInputs {
            sources: self.sources(),
            constants: &self.constants,
            defined: &self.defined,
            sums: &self.sums,
            memos: &self.memos,
        }
    }

    /// The inputs of liveness.
    pub fn live_inputs<'s>(&'s self, nodes: &'s reads::Nodes) -> liveness::LivenessInputs<'s> {
        liveness::LivenessInputs {
            sources: self.sources(),
            nodes,
            constants: &self.constants,
            defined: &self.defined,
            inherited: &self.inherited,
            deparsers: &self.deparsers,
            extracts: &self.extracts,
            written: &self.written,
            memos: &self.memos,
        }
    }

    /// True if some code uses a slot.
    pub fn is_used(&self, slot: Slot) -> bool {
        match self.graph.slots.kind(slot) {
            SlotKind::Field(_) => self.needed.contains(slot),
            SlotKind::Cursor | SlotKind::Offset(_) => true,
            SlotKind::Row(table) => self.memos.use_rows_of(table),
            SlotKind::Sum(_) => {
                self.sums.values().any(|sum| matches!(sum, Sum::Corrected(of, _) if *of == slot))
            }
        }
    }
}
