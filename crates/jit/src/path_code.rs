//! What the machine code of single paths consists of: the input of models of its speed.
//!
//! While code is emitted, each instruction is marked with its [`Site`] instead of its source place. After Cranelift has compiled
//! the stages, the instructions of each site are summed. A path is then followed through the graph and the plan, which
//! decide what runs: the code of its places, of its actions, and of the stages that it enters. Nothing runs.

use crate::analysis::calls::Call;
use crate::analysis::constants::Edge;
use crate::analysis::liveness::At;
use crate::analysis::reads::NodePlan;
use crate::emit::Helpers;
use crate::graph::{HotPath, ListedAction, Place, Position};
use crate::plan::{Plan, StageId};
use cranelift_codegen::Context;
use cranelift_codegen::entity::{EntityRef, PrimaryMap};
use cranelift_codegen::ir::{FuncRef, Inst, InstructionData, Opcode, SourceLoc};
use p4jet_ir::{ActionId, InstanceKind, Node, Op, TableId, Terminator};
use std::collections::HashMap;
use std::ops::AddAssign;

/// The code that a path runs.
#[derive(Clone, Debug, Default)]
pub struct PathCode {
    /// The code of each stage that the path enters, in order.
    pub stages: Vec<StageCode>,
    /// The lookups in order.
    pub lookups: Vec<LookupCode>,
    /// Calls of extern functions.
    pub externs: Vec<ExternCode>,
}

/// The code of a stage.
#[derive(Clone, Debug, Default)]
pub struct StageCode {
    /// The number of the stage.
    pub stage: usize,
    /// The loop over the packets, and the restored values.
    pub around: CodeCounts,
    /// The code of each block of the program, by name, in order.
    pub blocks: Vec<(String, CodeCounts)>,
}

/// A lookup on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupCode {
    /// The table.
    pub table: TableId,
    /// The stage in which it runs.
    pub stage: usize,
    /// True if the packets of a batch wait before the lookup, so that its cache misses overlap.
    pub waits: bool,
    /// True if the packets of a batch wait for the row of the entry.
    pub waits_for_row: bool,
    /// True if the row of an earlier lookup may remember the result.
    pub is_remembered: bool,
    /// True if entries refer to members.
    pub has_members: bool,
    /// Number of direct counters and meters.
    pub direct: usize,
}

/// A call of an extern function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternCode {
    /// Its name.
    pub function: String,
    /// The bytes of its arguments.
    pub bytes: u32,
    /// The stage in which it runs.
    pub stage: usize,
    /// True if the code does what the function would.
    pub is_inline: bool,
    /// The cells of its instance, 0 without one.
    pub cells: u32,
}

/// Numbers of instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeCounts {
    /// Instructions of the compiler's intermediate form after optimisation.
    pub instructions: u32,
    /// Those that read memory.
    pub loads: u32,
    /// Those that write memory.
    pub stores: u32,
    /// Conditional branches and jump tables.
    pub branches: u32,
    /// Multiplications.
    pub multiplications: u32,
    /// Divisions.
    pub divisions: u32,
    /// Calls, by callee.
    pub calls: [u32; CALLEES.len()],
}

/// Names of the functions that code calls: those of [`CodeCounts::calls`].
pub const CALLEES: [&str; 9] = [
    "wide arithmetic",
    "extern function",
    "copies of the packet",
    "bits of a frame",
    "bits into a frame",
    "header move",
    "frame rebuilt",
    "prefetch",
    "lookup",
];

impl AddAssign for CodeCounts {
    fn add_assign(&mut self, other: CodeCounts) {
        self.instructions += other.instructions;
        self.loads += other.loads;
        self.stores += other.stores;
        self.branches += other.branches;
        self.multiplications += other.multiplications;
        self.divisions += other.divisions;
        self.calls.iter_mut().zip(other.calls).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// What an instruction is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Site {
    /// The loop over packets.
    Stage,
    /// A place without the actions of its table.
    Place(Place),
    /// An action at a place.
    Action(Place, ListedAction),
    /// The end of packets that leave.
    End,
    /// The end of packets that are dropped.
    Drop,
}

/// Bits of a mark for the action; the place follows, and a bit that says that the code is cold.
const ACTION_BITS: u32 = 9;
const NO_PLACE: u32 = (1 << (31 - ACTION_BITS)) - 4;
const COLD: u32 = 1 << 31;

impl Site {
    /// The site as a source place for Cranelift. All actions beyond one number share a mark.
    pub fn mark(self) -> SourceLoc {
        let of = |place: u32, action: u32| SourceLoc::new(place.min(NO_PLACE + 3) << ACTION_BITS | action);
        match self {
            Site::Place(place) => of(place.as_u32().min(NO_PLACE - 1), 0),
            Site::Action(place, action) => {
                of(place.as_u32().min(NO_PLACE - 1), (action.as_u32() + 1).min((1 << ACTION_BITS) - 1))
            }
            Site::Stage => of(NO_PLACE, 0),
            Site::End => of(NO_PLACE + 1, 0),
            Site::Drop => of(NO_PLACE + 2, 0),
        }
    }
}

/// The code of a site: what runs always, and what is aside because it rarely runs.
#[derive(Clone, Copy, Default)]
struct Piece {
    warm: CodeCounts,
    cold: CodeCounts,
}

/// The code of each site of a stage.
#[derive(Default)]
pub struct Pieces(HashMap<u32, Piece>);

impl Pieces {
    fn at(&mut self, mark: u32) -> &mut CodeCounts {
        let piece = self.0.entry(mark & !COLD).or_default();
        if mark & COLD == 0 { &mut piece.warm } else { &mut piece.cold }
    }

    fn of(&self, site: Site, with_cold: bool) -> CodeCounts {
        let piece = self.0.get(&site.mark().bits()).copied().unwrap_or_default();
        let mut code = piece.warm;
        if with_cold {
            code += piece.cold;
        }
        code
    }

    /// The pieces of a compiled function.
    pub fn new(cx: &Context, helpers: &Helpers) -> Pieces {
        let mut pieces = Pieces::default();
        let func = &cx.func;
        for block in func.layout.blocks() {
            let mut mark = None;
            for inst in func.layout.block_insts(block) {
                let loc = func.srcloc(inst);
                if !loc.is_default() {
                    mark = Some(loc.bits());
                }
                if let Some(mark) = mark {
                    count(pieces.at(mark), cx, inst, helpers);
                }
            }
        }
        pieces
    }
}

/// Marks the instructions of cold blocks, before compilation.
pub fn mark_cold(cx: &mut Context) {
    let func = &mut cx.func;
    let cold: Vec<_> = func.layout.blocks().filter(|block| func.layout.is_cold(*block)).collect();
    for block in cold {
        let insts: Vec<Inst> = func.layout.block_insts(block).collect();
        for inst in insts {
            let loc = func.srcloc(inst);
            if !loc.is_default() {
                func.set_srcloc(inst, SourceLoc::new(loc.bits() | COLD));
            }
        }
    }
}

fn count(code: &mut CodeCounts, cx: &Context, inst: Inst, helpers: &Helpers) {
    let data = &cx.func.dfg.insts[inst];
    let opcode = data.opcode();
    code.instructions += 1;
    if opcode.can_load() && !opcode.is_call() {
        code.loads += 1;
    }
    if opcode.can_store() && !opcode.is_call() {
        code.stores += 1;
    }
    match opcode {
        Opcode::Brif | Opcode::BrTable => code.branches += 1,
        Opcode::Imul | Opcode::Umulhi | Opcode::Smulhi => code.multiplications += 1,
        Opcode::Udiv | Opcode::Urem | Opcode::Sdiv | Opcode::Srem => code.divisions += 1,
        Opcode::CallIndirect => code.calls[8] += 1,
        Opcode::Call => {
            let called = match data {
                InstructionData::Call { func_ref, .. } => callee(helpers, *func_ref),
                _ => None,
            };
            if let Some(number) = called {
                code.calls[number] += 1;
            }
        }
        _ => {}
    }
}

fn callee(helpers: &Helpers, of: FuncRef) -> Option<usize> {
    let Helpers { wide, call_extern, make_copies, make_queued_copies, .. } = *helpers;
    let Helpers { read_bits, write_bits, copy, replace, prefetch, .. } = *helpers;
    let all = [
        (wide, 0),
        (call_extern, 1),
        (make_copies, 2),
        (make_queued_copies, 2),
        (read_bits, 3),
        (write_bits, 4),
        (copy, 5),
        (replace, 6),
    ];
    let prefetch = prefetch.map(|prefetch| (prefetch, 7));
    all.into_iter().chain(prefetch).find(|(func, _)| *func == of).map(|(_, number)| number)
}

/// The number of cells of an instance; 0 if it has no number of its own.
fn cells(kind: &InstanceKind) -> u32 {
    match kind {
        InstanceKind::Register { size, .. }
        | InstanceKind::Counter { size, .. }
        | InstanceKind::Meter { size, .. } => *size,
        _ => 0,
    }
}

/// The code that a path runs.
pub fn path_code(plan: &Plan, pieces: &PrimaryMap<StageId, Pieces>, path: &HotPath) -> PathCode {
    let mut walk = Walk { plan, pieces, out: PathCode::default(), stage: StageId::new(0) };
    let Some(&(first, _)) = path.0.first() else { return walk.out };
    let start = plan.graph.start().filter(|place| plan.graph.position(*place) == first);
    let egress = plan.graph.egress_start().zip(plan.stages.last().map(|(id, _)| id));
    let Some((mut place, stage)) = start.map(|place| (place, StageId::new(0))).or(egress) else {
        return walk.out;
    };
    walk.enter(stage);
    let mut at = 0;
    loop {
        let action = path.0.get(at).and_then(|(_, action)| *action);
        walk.run(place, action);
        match walk.next(place, action, &path.0[at + 1..]) {
            Some((steps, to)) => (at, place) = (at + 1 + steps, to),
            None => break,
        }
    }
    if !matches!(plan.graph.node(place).terminator, Terminator::Drop(_) | Terminator::Done) {
        walk.add(place, Site::End);
    }
    walk.out
}

struct Walk<'p> {
    plan: &'p Plan<'p>,
    pieces: &'p PrimaryMap<StageId, Pieces>,
    out: PathCode,
    stage: StageId,
}

impl Walk<'_> {
    fn enter(&mut self, stage: StageId) {
        self.stage = stage;
        let around = self.pieces[stage].of(Site::Stage, false);
        self.out.stages.push(StageCode { stage: stage.as_u32() as usize, around, blocks: Vec::new() });
    }

    fn add(&mut self, place: Place, site: Site) {
        let is_cold = self.plan.stages[self.stage].is_cold(self.plan.graph, place);
        let code = self.pieces[self.stage].of(site, is_cold);
        let name = &self.plan.graph.block(place).name;
        let Some(stage) = self.out.stages.last_mut() else { return };
        match stage.blocks.last_mut().filter(|(last, _)| last == name) {
            Some((_, sum)) => *sum += code,
            None => stage.blocks.push((name.clone(), code)),
        }
    }

    /// Adds the code of a place, and of the stages that begin there.
    fn run(&mut self, place: Place, action: Option<ActionId>) {
        self.add(place, Site::Place(place));
        let plan = self.plan;
        let cuts = [At::Place, At::Lookup, At::Action].map(|at| plan.cut_at(place, at));
        let mut lookup_stage = 0;
        for (number, cut) in cuts.iter().enumerate() {
            if let Some(cut) = cut {
                self.enter(cut.stage());
                self.add(place, Site::Place(place));
            }
            if number < 2 {
                lookup_stage = self.stage.as_u32() as usize;
            }
        }
        if let Some(node) = &plan.nodes.of_place[place] {
            self.externs(plan.graph.node(place), node);
        }
        let Terminator::Apply { table, .. } = &plan.graph.node(place).terminator else { return };
        let declared = &plan.graph.program.tables[table.index()];
        self.out.lookups.push(LookupCode {
            table: *table,
            stage: lookup_stage,
            waits: cuts[1].is_some(),
            waits_for_row: cuts[2].is_some(),
            is_remembered: plan.memos.at(place).is_some(),
            has_members: declared.profile.is_some(),
            direct: declared.direct.len(),
        });
        let (Some(action), Some(apply)) = (action, plan.nodes.applies.get(&place)) else { return };
        let found = apply.actions.iter().find(|(_, listed)| listed.action == action);
        if let Some((listed, action)) = found {
            self.add(place, Site::Action(place, listed));
            let nodes = &plan.graph.program.actions[action.action.index()].body.nodes;
            nodes.iter().zip(&action.nodes).for_each(|(node, plan)| self.externs(node, plan));
        }
    }

    fn externs(&mut self, node: &Node, plan: &NodePlan) {
        for (stmt, plan) in node.stmts.iter().zip(&plan.stmts) {
            if let (Some(call), Op::Extern { function, instance, args, .. }) = (plan.call, &stmt.op)
                && call != Call::Mark
            {
                let bits: u32 = args.iter().map(|arg| arg.width(self.plan.graph.program)).sum();
                let (function, bytes) = (function.to_string(), bits.div_ceil(8));
                self.out.externs.push(ExternCode {
                    function,
                    bytes,
                    stage: self.stage.as_u32() as usize,
                    is_inline: call != Call::OutOfLine,
                    cells: instance.map_or(0, |instance| {
                        cells(&self.plan.graph.program.instances[instance.index()].kind)
                    }),
                });
            }
        }
    }

    /// The next place whose code runs, and the number of steps of `rest` before it; none if the packet leaves.
    fn next(
        &self,
        place: Place,
        action: Option<ActionId>,
        rest: &[(Position, Option<ActionId>)],
    ) -> Option<(usize, Place)> {
        let graph = self.plan.graph;
        let (next, _) = rest.first()?;
        let here = next.step == graph.step(place);
        let terminator = &graph.node(place).terminator;
        let mut nodes = Vec::new();
        terminator.for_each_target(&mut |node| nodes.push(node));
        let edges = self.plan.jumps.of(place);
        let targets = edges.iter().filter(|(edge, _)| matches!(edge, Edge::Target(_))).count();
        let is_taken = |edge: &Edge| match (edge, terminator) {
            // If there is one, its condition is known.
            (Edge::Target(number), _) => {
                here && (targets == 1 || nodes.get(number.index()) == Some(&next.node))
            }
            (Edge::Action(number, exits), Terminator::Apply { table, next: after, exit, .. }) => {
                let listed = graph.program.tables[table.index()].actions.get(number.index());
                let to = if *exits { exit } else { after };
                here && listed.map(|listed| listed.action) == action && *to == next.node
            }
            (Edge::Action(..), _) => false,
            (Edge::NoAction, _) => here && action.is_none(),
            (Edge::End, Terminator::Return | Terminator::Reject(_) | Terminator::Egress) => !here,
            (Edge::End, _) => false,
            (Edge::Error(_), Terminator::Return | Terminator::Reject(_) | Terminator::Egress) => false,
            (Edge::Error(_), _) => !here,
        };
        let taken = edges.iter().filter(|(edge, _)| is_taken(edge)).map(|(_, to)| *to);
        let found = |to: Option<Place>| {
            let to = to?;
            let steps = rest.iter().position(|(position, _)| *position == graph.position(to))?;
            Some((steps, to))
        };
        taken.filter_map(found).min_by_key(|(steps, _)| *steps)
    }
}
