//! The slots that a stage stores at its end, and the source of each in the next stage.

use super::Home;
use super::cuts::{BatchWork, Cut, CutId, Preparation, StageId};
use super::memory::PhvLayout;
use crate::analysis::Analyses;
use crate::analysis::extracts::InFrame;
use crate::analysis::liveness::{At, Carried, Liveness};
use crate::analysis::reads::Known;
use crate::analysis::sources::Origin;
use crate::graph::{Graph, Place};
use crate::slots::Slot;
use cranelift_codegen::entity::{PrimaryMap, SecondaryMap};
use p4jet_ir::{FieldId, HeaderId, Intrinsic, PipelineHalf, TableId, Terminator};
use std::collections::BTreeMap;

/// The packets that a stage processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Packets that arrive, or copies that begin with ingress.
    Start,
    /// Packets that wait at this cut.
    Cut(CutId),
    /// Copies that begin with egress.
    Egress,
}

/// The source of a slot where a stage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    /// This constant.
    Known(u64),
    /// The intrinsic of this field.
    Intrinsic(Intrinsic, FieldId),
    /// The PHV, at this offset.
    Phv(i32),
}

/// Fields of a header that a stage reloads from the frame, which is cheaper than storing them in the PHV.
#[derive(Clone, Debug)]
pub struct Reload {
    /// The header.
    pub header: HeaderId,
    /// True if the header is known to be valid; if not, its fields are 0 where it is not.
    pub is_valid: bool,
    /// The fields, and where they are.
    pub fields: Vec<(FieldId, InFrame)>,
    /// Slots of the header that are constants here.
    pub known: Known,
}

/// The work of a stage before its first place.
#[derive(Clone, Debug)]
pub struct StagePlan {
    /// The packets that it processes.
    pub entry: Entry,
    /// The place where it begins; `None` if packets leave at once.
    pub begin: Option<Place>,
    /// True if the stage zeroes the columns that unknown indices access.
    pub clears_arrays: bool,
    /// Slots that are 0.
    pub zeroed: Vec<Slot>,
    /// Slots that get another value, in order.
    pub restored: Vec<(Slot, Restore)>,
    /// Slots that are loaded from the image of a copy, if the packet is one.
    pub inherited: Vec<(Slot, i32)>,
    /// Fields that are reloaded from the frame.
    pub reloads: Vec<Reload>,
    /// True if the stage begins on a hot path, and the other code is cold.
    pub begins_hot: bool,
}

impl StagePlan {
    /// True if few of the packets of the stage reach a place.
    pub fn is_cold(&self, graph: &Graph, place: Place) -> bool {
        self.begins_hot && graph.is_cold(place)
    }

    /// True if packets leave a hot path by the edge. A cold block on such an edge keeps values that only the cold place needs off
    /// the hot path.
    pub fn is_side_exit(&self, graph: &Graph, from: Place, to: Place) -> bool {
        self.is_cold(graph, to) && !self.is_cold(graph, from)
    }
}

/// The work at a cut.
#[derive(Clone, Debug)]
pub struct CutPlan {
    /// The cut.
    pub cut: Cut,
    /// Slots that are stored in the PHV, and at which offset.
    pub spills: Vec<(Slot, i32)>,
    /// True if the selector of a member is stored behind the key.
    pub has_selector: bool,
}

impl CutPlan {
    /// The engine's work for all packets that wait at the cut.
    pub fn batch_work(&self) -> Option<BatchWork> {
        match self.cut.preparation {
            Preparation::Batch(work) => Some(work),
            Preparation::Nothing | Preparation::Prefetch(_) => None,
        }
    }
}

/// The inputs of the decisions.
pub struct Planner<'s> {
    /// The analyses.
    pub analyses: &'s Analyses<'s>,
    /// The PHV.
    pub memory: &'s PhvLayout,
    /// The locations of slots.
    pub homes: &'s SecondaryMap<Slot, Home>,
    /// The intrinsics that are set where a half of the pipeline begins.
    pub intrinsics: &'s [Vec<(Intrinsic, FieldId)>; 2],
}

impl Planner<'_> {
    /// The work at a cut.
    pub fn cut(&self, cut: Cut, carried: &[Carried]) -> CutPlan {
        let spills = carried
            .iter()
            .filter(|(slot, origin)| self.homes[*slot] == Home::Registers && *origin == Origin::Phv);
        let table = self.table(cut.place);
        let tables = &self.analyses.graph.program.tables;
        let has_selector = table.is_some_and(|table| tables[table.index()].profile.is_some());
        CutPlan {
            cut,
            spills: spills.map(|(slot, _)| (*slot, self.memory.phv[slot])).collect(),
            has_selector,
        }
    }

    fn table(&self, place: Place) -> Option<TableId> {
        match self.analyses.graph.node(place).terminator {
            Terminator::Apply { table, .. } => Some(table),
            _ => None,
        }
    }

    /// All stages.
    pub fn stages(
        &self,
        live: &Liveness,
        cuts: &PrimaryMap<CutId, (Cut, Vec<Carried>)>,
    ) -> PrimaryMap<StageId, StagePlan> {
        let has_egress = self.analyses.graph.has_copies(PipelineHalf::Egress);
        std::iter::once(self.entry(PipelineHalf::Ingress, live))
            .chain(cuts.iter().map(|(id, (cut, carried))| self.at_cut(id, *cut, carried, live)))
            .chain(has_egress.then(|| self.entry(PipelineHalf::Egress, live)))
            .collect()
    }

    /// The stage where packets or copies begin.
    fn entry(&self, begin: PipelineHalf, live: &Liveness) -> StagePlan {
        let graph = self.analyses.graph;
        let live = live.at_begin(begin);
        // In memory only what may be read before it is set.
        let is_zeroed = |slot: &Slot| {
            let is_array = self.memory.columns.slots.contains_key(slot);
            !is_array && (live.contains(*slot) || !self.memory.in_memory.contains_key(slot))
        };
        let is_used = |slot: &Slot| self.homes[*slot] != Home::Nowhere;
        let inherited = self.memory.entered[begin as usize].iter().copied();
        let intrinsics = self.intrinsics[begin as usize]
            .iter()
            .map(|(intrinsic, field)| (graph.slots.field(*field), Restore::Intrinsic(*intrinsic, *field)));
        StagePlan {
            entry: match begin {
                PipelineHalf::Ingress => Entry::Start,
                PipelineHalf::Egress => Entry::Egress,
            },
            begin: graph.entry(begin),
            clears_arrays: true,
            zeroed: graph.slots.all().filter(is_zeroed).filter(is_used).collect(),
            restored: intrinsics.collect(),
            inherited: inherited.filter(is_used).map(|slot| (slot, self.memory.phv[&slot])).collect(),
            reloads: Vec::new(),
            begins_hot: begin == PipelineHalf::Ingress
                && graph.start().is_some_and(|place| !graph.is_cold(place)),
        }
    }

    /// The stage of packets that wait at a cut.
    fn at_cut(&self, id: CutId, cut: Cut, carried: &[Carried], live: &Liveness) -> StagePlan {
        let graph = self.analyses.graph;
        let facts = match cut.at {
            At::Place => self.analyses.constants.before(cut.place),
            _ => self.analyses.constants.at_end(cut.place),
        };
        let is_zeroed = |slot: &Slot| {
            let carried = carried.binary_search_by_key(slot, |c| c.0).ok().map(|i| carried[i].1);
            !self.memory.in_memory.contains_key(slot) && carried.is_none_or(|origin| origin == Origin::Zero)
        };
        let live = live.from(cut.place, cut.at);
        let mut restored = Vec::new();
        let mut in_frame: BTreeMap<HeaderId, Vec<(FieldId, InFrame)>> = BTreeMap::new();
        for &(slot, origin) in carried.iter().filter(|(slot, _)| self.homes[*slot] == Home::Registers) {
            match (origin, graph.slots.as_field(slot)) {
                (Origin::Zero, _) => {}
                (Origin::Known(value), _) => restored.push((slot, Restore::Known(value))),
                (Origin::Intrinsic(intrinsic), Some(field)) => {
                    restored.push((slot, Restore::Intrinsic(intrinsic, field)));
                }
                // The next stage may need it.
                (Origin::Frame(_), _) if !live.contains(slot) => {}
                (Origin::Frame(at), Some(field)) => in_frame.entry(at.header).or_default().push((field, at)),
                _ => restored.push((slot, Restore::Phv(self.memory.phv[&slot]))),
            }
        }
        let reload = |(header, fields): (HeaderId, Vec<(FieldId, InFrame)>)| {
            let valid = graph.slots.field(graph.program.headers[header.index()].valid);
            let slots = [valid, graph.slots.offset(header)];
            let is_valid = self.analyses.constants.eval.known_valid(&facts, header) == Some(true);
            let known = Known::of(&self.analyses.constants.eval, &facts, slots.into_iter());
            Reload { header, is_valid, fields, known }
        };
        StagePlan {
            entry: Entry::Cut(id),
            begin: Some(cut.place),
            clears_arrays: false,
            zeroed: graph
                .slots
                .all()
                .filter(is_zeroed)
                .filter(|slot| self.homes[*slot] != Home::Nowhere)
                .collect(),
            restored,
            inherited: Vec::new(),
            reloads: in_frame.into_iter().map(reload).collect(),
            begins_hot: !graph.is_cold(cut.place),
        }
    }
}
