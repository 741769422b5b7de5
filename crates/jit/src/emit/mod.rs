//! Code emission: turns the plan of each stage into Cranelift instructions. It decides no read, jump or cut: those are in the plan.
//! Each file emits one kind of code.
//!
//! One *stage* is one function over a list of packets: `stage(ctx, packets, count)`. Stage 0 begins with the parser.
//!
//! **Cuts.** A stage ends at the key of a table that may be large: live values are stored in the packet's PHV, the slot
//! that the lookup will touch is prefetched, and the packet is queued for the stage that begins with the lookup. So the
//! cache misses of a batch overlap. A stage also ends after the lookup of a large table of routes. Where prefetching
//! one address does not help (tries, decision trees), the keys of all waiting packets are looked up in one call; at
//! most two such tables cut stages. If the number of entries is known, only large tables cut, also for what their rows
//! lead to: rows and counters are prefetched, and group members are selected for all waiting packets at once. A part of
//! the program that is atomic with respect to other packets ends no stage, and no stage ends where packets would access a
//! register in another order than they came.
//!
//! **Fields.** Inside a stage every field is an SSA value. The longest-lived fields of a large program stay in the PHV
//! all the time. A field that no statement has set is read from the frame where it is needed, at any position of its header;
//! only fields that some statement sets are written back. The fields of a column that is accessed with an unknown index
//! lie in the PHV at a fixed stride, with a bounds check and a load or store for each access. Columns whose indices are
//! all known at compile time stay in registers.
//!
//! **Misses.** A miss runs row 0 of its table. Row 0 holds the default action, or says that the default row holds it.
//!
//! **Copies.** Copies that begin with ingress start in stage 0; copies that begin with egress have a function of their
//! own. A program without copies has no code for them.
//!
//! **Watchdog.** The code of a program with loops stores which packet it processes, so that the watchdog can find the
//! packet; nothing else is recorded per packet.

mod bits;
mod checksums;
mod control;
mod copies;
mod counters;
mod deparse;
mod drops;
mod elements;
mod externs;
mod extract;
mod lookups;
mod once;
mod slots;
mod stages;
mod statements;
mod tables;
pub mod values;

use crate::copies::CopySite;
use crate::graph::{Graph, Place};
use crate::path_code::Site;
use crate::plan::{Plan, StageId, StagePlan};
use crate::slots::{Slot, Slots};
use cranelift_codegen::entity::{PrimaryMap, SecondaryMap};
use cranelift_codegen::ir::{Block, FuncRef, MemFlagsData, SigRef, StackSlot, Value};
use cranelift_frontend::{FunctionBuilder, Variable};
use indexmap::IndexSet;
use once::Once;
use p4jet_externs::CallSite;
use p4jet_ir::tallies::Tallies;
use p4jet_ir::{DropReason, Loc, Program};
use slots::Reading;
use std::collections::HashMap;

/// The reason why a program is not compiled, and its place in the program.
#[derive(Clone, Debug)]
pub struct Error {
    /// The kind of the reason.
    pub kind: ErrorKind,
    /// The reason.
    pub message: String,
    /// The source place in the program.
    pub loc: Loc,
}

/// The kind of a reason why a program cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// p4jet does not support the program, or not in this way.
    Unsupported,
    /// The program is beyond a limit.
    TooLarge,
    /// The system refuses memory.
    NoMemory,
    /// The system refuses descriptors or threads.
    System,
    /// The compilation was cancelled.
    Cancelled,
    /// A bug in p4jet.
    Internal,
}

impl Error {
    /// A bug in p4jet, at this place.
    fn bug(what: &str, loc: Loc) -> Error {
        Error { kind: ErrorKind::Internal, message: format!("bug in p4jet: {what}"), loc }
    }
}

/// Functions outside that generated code calls.
#[derive(Clone, Copy)]
pub struct Helpers {
    pub wide: FuncRef,
    pub call_extern: FuncRef,
    pub make_copies: FuncRef,
    pub make_queued_copies: FuncRef,
    pub read_bits: FuncRef,
    pub write_bits: FuncRef,
    pub copy: FuncRef,
    pub replace: FuncRef,
    pub prefetch: Option<FuncRef>,
    pub lookup: SigRef,
}

/// Data that functions called by generated code refer to by number.
#[derive(Default)]
pub struct Sites {
    pub calls: IndexSet<CallSite>,
    pub copies: Vec<CopySite>,
}

/// The inputs of emission, shared by all stages of a program.
#[derive(Clone, Copy)]
pub struct EmitInputs<'a> {
    pub plan: &'a Plan<'a>,
    pub tallies: Option<&'a Tallies>,
    pub helpers: Helpers,
    /// Most instructions and entries of jump tables that the function may have.
    pub size_max: usize,
    /// True if instructions are marked with their site instead of their source place.
    pub marks_sites: bool,
}

/// Emits one stage.
struct Codegen<'a, 'f> {
    b: FunctionBuilder<'f>,
    plan: &'a Plan<'a>,
    stage: &'a StagePlan,
    helpers: Helpers,
    tallies: Option<&'a Tallies>,
    sites: &'a mut Sites,
    frame: Frame,
    current: Current,
    blocks: Blocks,
    /// The registers of each slot that lies in registers, one for each limb.
    registers: SecondaryMap<Slot, Vec<Variable>>,
    /// The number of packets that wait for each later stage.
    counts: PrimaryMap<StageId, Variable>,
    once: Onces,
    /// Stack buffers, by purpose and size.
    buffers: HashMap<(Buffer, usize), StackSlot>,
    /// The sources of reads at the program point that is being emitted.
    reading: Reading<'a>,
    /// The cursor at that program point, if known.
    cursor: Option<u64>,
    /// The first read or jump that was emitted without a plan.
    unplanned: Option<String>,
    /// Entries of jump tables so far.
    entries: usize,
    size_max: usize,
    marks_sites: bool,
}

/// The frame of the packet.
struct Frame {
    data: Variable,
    length: Variable,
    /// Bytes in the scratch memory so far.
    out_offset: Variable,
}

/// The purpose of a stack buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Buffer {
    /// The left operand of a wide operation, or a value that is written to a frame.
    Left,
    /// The right operand of a wide operation.
    Right,
    /// The result of a wide operation, or a value that is read from a frame.
    Result,
    /// The key of a lookup.
    Key,
    /// The arguments of an extern call.
    Arguments,
    /// The results of an extern call.
    Results,
    /// The image of copies.
    Image,
}

/// The packet that the stage processes.
#[derive(Clone, Copy)]
struct Current {
    ctx: Value,
    packet: Value,
    phv: Value,
    /// The number of the packet in the batch.
    number: Value,
    /// The number of the packet among those that wait for the stage.
    position: Value,
}

/// The blocks of the function.
struct Blocks {
    places: HashMap<Place, Block>,
    /// Places whose code has not been emitted yet.
    work: Vec<Place>,
    /// Blocks where packets leave a hot path, and the places where they go.
    side_exits: Vec<(Block, Place)>,
    /// The blocks where packets are dropped, by reason, and by place if drops are counted; without a reason the packet is done.
    drops: HashMap<(Option<DropReason>, Loc), Block>,
    /// The place whose code is being emitted.
    current: Option<Place>,
    finish: Block,
    next_packet: Block,
}

/// Values that are loaded once per batch.
struct Onces {
    values: HashMap<Once, Value>,
    /// The block at whose end they are loaded.
    entry: Block,
    /// True while cold code is emitted, which loads them where it needs them, so that they take no registers elsewhere.
    in_cold: bool,
}

impl<'a> Codegen<'a, '_> {
    fn graph(&self) -> &'a Graph<'a> {
        self.plan.graph
    }

    fn slots(&self) -> Slots {
        self.plan.graph.slots
    }

    fn program(&self) -> &'a Program {
        self.plan.graph.program
    }

    /// Notes a bug: the compilation ends with an error.
    fn note_unplanned(&mut self, what: impl std::fmt::Display) {
        self.unplanned.get_or_insert_with(|| what.to_string());
    }

    /// Gives up where the function has become too large.
    fn check_size(&self) -> Result<(), Error> {
        let size = self.b.func.dfg.num_insts() + self.entries;
        if size <= self.size_max { Ok(()) } else { Err(crate::too_many_instructions()) }
    }
}

/// Memory that generated code alone accesses, or that others access in a way that generated code expects.
fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_aligned()
}

/// Memory that never changes while a batch runs.
fn fixed() -> MemFlagsData {
    plain().with_readonly().with_can_move()
}

/// Emits one stage into the builder's function and finishes it.
pub fn emit<'a>(
    b: FunctionBuilder<'_>,
    inputs: EmitInputs<'a>,
    sites: &'a mut Sites,
    stage: &'a StagePlan,
    frontend: cranelift_codegen::isa::TargetFrontendConfig,
) -> Result<(), Error> {
    let mut cg = stages::prologue(b, inputs, sites, stage);
    cg.begin_stage()?;
    cg.emit_places()?;
    cg.mark(Site::End);
    cg.emit_finish();
    cg.mark(Site::Drop);
    cg.emit_drops();
    if let Some(what) = cg.unplanned {
        return Err(crate::internal(format!("not planned: {what}")));
    }
    cg.b.seal_all_blocks();
    cg.b.finalize(frontend);
    Ok(())
}
