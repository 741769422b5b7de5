//! The compilation plan. It decides, once, everything about the code of a program that does not depend on the instructions that
//! carry it out:
//!
//! * every read: where a value comes from at each use (`Source`) and where each slot lies ([`Home`]);
//! * every jump: where each edge leads, past tests whose result is known;
//! * every cut: its reason, the values that a stage stores at its end, and how the next stage gets each value back;
//! * how the action of a row is chosen, which extern calls are inline, which values copies inherit;
//! * how each frame is assembled, which fields an extraction loads, which checksums are corrected;
//! * which places of a stage are cold, which choices are jump tables, how long rows are.
//!
//! One decision needs the emitted functions, because it depends on their size: which are optimised ([`Mode`]).
//!
//! `emit` executes the plan. `Plan::print` prints it; `p4jet check --plan` shows it.

mod copies;
mod cuts;
mod deparse;
mod dispatch;
mod extract;
mod memory;
mod mode;
mod pressure;
mod rows;
mod shapes;
mod stages;
mod text;

pub use copies::Value as CopiedValue;
pub use cuts::{BatchWork, Cut, CutId, Prefetch, Preparation, Reason, StageId};
pub use deparse::{EmitPlan, EndKind, EndPlan};
pub use dispatch::{Dispatch, Rest, Row};
pub use memory::{ImageCell, PhvLayout};
pub use mode::{Mode, ModeLimits};
pub use rows::RowWords;
pub use shapes::{GENERIC_ENTRIES_MIN, Shapes};
pub use stages::{CutPlan, Entry, Reload, Restore, StagePlan};

use crate::ANALYSIS_STEPS_MAX;
use crate::analysis::Analyses;
use crate::analysis::constants::Jumps;
use crate::analysis::liveness::{self, Carried};
use crate::analysis::memos::Memos;
use crate::analysis::reads::{self, Nodes};
use crate::graph::{Graph, Place, StatementSite};
use crate::slots::{Slot, SlotSet};
use crate::solver::{Budget, Exceeded};
use cranelift_codegen::entity::{PrimaryMap, SecondaryMap};
use p4jet_ir::{FieldId, Intrinsic, PipelineHalf, TableId};
use std::collections::HashMap;

/// The location of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// Nowhere: it is never read.
    #[default]
    Nowhere,
    /// In registers, one for each limb.
    Registers,
    /// In the PHV at this offset.
    Memory(i32),
}

/// The plan.
pub struct Plan<'a> {
    /// The graph.
    pub graph: &'a Graph<'a>,
    /// The properties of the tables.
    pub shapes: Shapes,
    /// The plans of nodes.
    pub nodes: Nodes,
    /// The jumps: the places to which edges lead.
    pub jumps: Jumps,
    /// The fields that extractions load.
    pub loads: extract::Loads,
    /// The work where deparsers end.
    pub ends: HashMap<Place, EndPlan>,
    /// The plans of emits that append to the scratch memory.
    pub emits: HashMap<StatementSite, EmitPlan>,
    /// The values that copies begin with.
    pub copies: copies::CopyPlans,
    /// The choice of the action at each place that applies a table.
    pub dispatches: HashMap<Place, Dispatch>,
    /// The words of the rows of each table.
    rows: Vec<RowWords>,
    /// The location of each slot.
    pub homes: SecondaryMap<Slot, Home>,
    /// The PHV.
    pub memory: PhvLayout,
    /// The stages: that of arriving packets, one for each cut, and that of copies that begin with egress if there are such.
    pub stages: PrimaryMap<StageId, StagePlan>,
    /// The cuts: where a stage ends and another begins ([`CutId::stage`]).
    pub cuts: PrimaryMap<CutId, CutPlan>,
    cut_ids: HashMap<(Place, liveness::At), CutId>,
    /// Remembered lookups.
    pub memos: Memos,
    /// The intrinsics that are set where a half of the pipeline begins, by half.
    pub intrinsics: [Vec<(Intrinsic, FieldId)>; 2],
    /// True if ingress or egress needs the time.
    pub reads_time: bool,
    /// True if frames keep their place and length.
    pub frames_stay: bool,
    /// True if a packet may reach a node again.
    pub may_loop: bool,
}

/// Options of planning.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Most limbs in registers, summed over the nodes where they are live.
    pub live_limbs_max: usize,
    /// True if stages are measured: the pipeline is cut before and after every lookup.
    pub is_measured: bool,
    /// True if code counts what tables and drops do.
    pub is_counted: bool,
}

impl<'a> Plan<'a> {
    /// Plans the code of a program whose tables have these shapes.
    pub fn new(graph: &'a Graph<'a>, shapes: Shapes, options: PlanOptions) -> Result<Plan<'a>, Exceeded> {
        let tables = (0..shapes.sizes.len() as u32).map(TableId);
        let memoized: Vec<bool> = tables.map(|table| shapes.is_memoized(table)).collect();
        let mut budget = Budget::new(ANALYSIS_STEPS_MAX);
        let mut analyses = Analyses::new(graph, &memoized, &mut budget)?;
        let nodes = reads::reads(analyses.read_inputs());
        let whole = liveness::liveness(analyses.live_inputs(&nodes), &mut budget)?;
        let cuts = cuts::cuts(graph, &shapes, &analyses.uncut, options.is_measured);
        let carried = |cut: Cut| (cut, whole.carried(cut.place, cut.at));
        let cuts: PrimaryMap<CutId, (Cut, Vec<Carried>)> = cuts.into_iter().map(carried).collect();
        let memory = PhvLayout::new(&analyses, &whole, cuts.as_values_slice(), options.live_limbs_max);
        let ends = memory.ends(graph, cuts.as_values_slice());
        let live = liveness::liveness_in_stages(whole, ends, &mut budget)?;
        let homes = homes(&analyses, &memory);
        let loads = extract::loads(graph, &nodes, &live, &homes);
        let (ends, emits) = deparse::plans(&analyses);
        let copies = copies::copies(graph, &nodes, &memory);
        let dispatches = dispatch::dispatches(graph, &shapes, options.is_counted);
        let intrinsics = PipelineHalf::ALL.map(|begin| intrinsics(graph, begin, &live.at_begin(begin)));
        let planner =
            stages::Planner { analyses: &analyses, memory: &memory, homes: &homes, intrinsics: &intrinsics };
        let stages = planner.stages(&live, &cuts);
        let cut_ids = cuts.iter().map(|(id, (cut, _))| ((cut.place, cut.at), id)).collect();
        let cuts = cuts.values().map(|(cut, carried)| planner.cut(*cut, carried)).collect();
        let (reads_time, frames_stay) = (live.reads_time(), analyses.deparsers.frames_stay(graph));
        let (jumps, memos) =
            (std::mem::take(&mut analyses.constants.jumps), std::mem::take(&mut analyses.memos));
        Ok(Plan {
            graph,
            shapes,
            nodes,
            jumps,
            loads,
            ends,
            emits,
            copies,
            dispatches,
            rows: rows::row_words(graph.program),
            homes,
            memory,
            stages,
            cuts,
            cut_ids,
            memos,
            intrinsics,
            reads_time,
            frames_stay,
            may_loop: graph.may_loop(),
        })
    }

    /// The cut there, if there is one.
    pub fn cut_at(&self, place: Place, at: liveness::At) -> Option<CutId> {
        self.cut_ids.get(&(place, at)).copied()
    }

    /// The words of the rows of a table.
    pub fn row_words(&self, table: TableId) -> RowWords {
        self.rows[table.index()]
    }

    /// True if generated code uses the PHV.
    pub fn has_phv(&self) -> bool {
        !self.cuts.is_empty() || self.memory.image_bytes > 0 || !self.memory.in_memory.is_empty()
    }

    /// True if anything reads a slot.
    pub fn is_used(&self, slot: Slot) -> bool {
        self.homes[slot] != Home::Nowhere
    }
}

/// The intrinsics that are set where a half begins, if these slots are live there.
fn intrinsics(graph: &Graph, begin: PipelineHalf, live: &SlotSet) -> Vec<(Intrinsic, FieldId)> {
    let all = graph.program.intrinsics.iter().copied();
    all.filter(|(intrinsic, field)| intrinsic.begin() == begin && live.contains_field(*field)).collect()
}

fn homes(analyses: &Analyses, memory: &PhvLayout) -> SecondaryMap<Slot, Home> {
    let mut homes = SecondaryMap::new();
    for slot in analyses.graph.slots.all().filter(|slot| analyses.is_used(*slot)) {
        homes[slot] = memory.in_memory.get(&slot).map_or(Home::Registers, |offset| Home::Memory(*offset));
    }
    homes
}
