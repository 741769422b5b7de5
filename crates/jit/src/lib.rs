//! Compiles the pipeline IR to machine code with Cranelift.
//!
//! [`Compiled`] is the code of one program; all workers share it. [`Engine`] runs it for one worker.
//!
//! The order of the work:
//!
//! 1. `graph` flattens the pipeline into one control-flow graph, with the nodes of hot paths once more. It never changes.
//! 2. `analysis` finds what holds at each program point. Each analysis is a function in a separate file. It takes the graph and the
//!    results that it needs, and returns its result; so the types of the arguments fix the order. The dataflow analyses share the
//!    `solver`.
//! 3. `plan` decides where values come from at each use, where slots lie, where the pipeline is cut and why, what a stage
//!    stores and how the next one gets it back. It cuts at large tables, so that the cache misses of a batch overlap.
//!    [`Compiled::plan`] is its text.
//! 4. `emit` turns the plan of each stage into one function. A read or a jump that the plan does not have is an internal error.
//! 5. Four passes remove code that Cranelift would keep, before Cranelift sees it: `unused` (loads and parameters that
//!    nothing uses), `same_params` (block parameters that always have the same value), `compares` (bytes swapped only
//!    to be compared) and `cold` (code that leads only to drops moves aside).
//! 6. Cranelift compiles each function, as the last decision of `plan` says: with optimisation or quickly.
//!
//! Every compilation is bounded by the constants of this file. Functions above one size are compiled without
//! optimisation, with a single-pass register allocator, after `constant_params`, `memory_params` and `long_ranges` have moved
//! to the stack what would live in many blocks; a program above another size is refused. A compilation can be
//! cancelled between passes and between functions. Passes whose time could grow with the square of the program count
//! their work; at their limit they stop, or skip the rest. docs/limits.md lists all limits; tests/growth.rs has
//! programs that approach them.

#![allow(unsafe_code)]

mod analysis;
mod blocks;
mod choice;
mod cold;
mod compares;
mod constant_params;
mod copies;
mod emit;
mod graph;
mod long_ranges;
mod memo_cells;
mod memory_params;
mod path_code;
mod plan;
mod region;
mod running_code;
mod runtime;
mod same_params;
mod slots;
mod solver;
mod stages;
mod unused;
mod widths;

pub use copies::{COPIES_WAITING_BYTES_MAX, COPIES_WAITING_MAX, Copied, RefusedCopies};
pub use emit::{Error, ErrorKind};
pub use graph::{HotPath, Position, Step};
pub use path_code::{CALLEES, CodeCounts, ExternCode, LookupCode, PathCode, StageCode};
pub use running_code::{RunningCode, running_code};
pub use stages::{StageTime, ticks};

use analysis::memos::Memo;
use copies::{Copies, CopyLayout};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::entity::{EntityRef, PrimaryMap};
use cranelift_codegen::ir::{AbiParam, Function, Signature, types};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleError, ModuleReloc};
use emit::{Helpers, Sites};
use graph::{Graph, Stops, ThreadId};
use memo_cells::MemoCells;
use p4jet_externs::{Apart, CallSite, Env, State};
use p4jet_ir::tallies::Tallies;
use p4jet_ir::{
    Access, InstanceId, InstanceKind, Loc, Node, PipelineHalf, Program, SourceLoc, Table, Terminator,
};
use p4jet_packet::{BATCH_MAX, Packet};
use p4jet_tables::{TableSpec, View, select_batch};
use plan::{BatchWork, Entry, Mode, ModeLimits, Plan, Shapes, StageId};
use running_code::{Inside, StageSources};
use runtime::Ctx;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that generated code may read from a frame of any length: buffers must have at least this size.
pub const FRAME_READABLE_BYTES: usize = analysis::extracts::READABLE_BYTES as usize;

/// Tables of fewer entries are looked up without a cut: they stay in the first-level caches.
const CUT_ENTRIES_MIN: u32 = 2048;

/// Table sizes at which the compiled form of a lookup may change.
pub const ENTRIES_STEPS: [u32; 2] = [plan::GENERIC_ENTRIES_MIN, CUT_ENTRIES_MIN];

/// The register allocator's time grows faster than this number. A program of 113 tables and 6,000 lines has 165,000; with
/// this limit it compiles seven times as fast. Programs of ten tables keep all values in registers.
const LIVE_LIMBS_MAX: usize = 20_000;

/// The same limit for recompilation, for which packets do not wait.
const LIVE_LIMBS_MAX_SEEN: usize = 100_000;

type Stage = unsafe extern "C" fn(*mut Ctx, *mut Packet, u64);

/// A program's machine code.
pub struct Compiled {
    /// The memory of the machine code.
    _code: Code,
    stages: Vec<Stage>,
    /// The entry of copies that skip ingress.
    egress: Option<Stage>,
    sites: Vec<CallSite>,
    copies: CopyLayout,
    /// For each stage: the work for all waiting packets before it runs.
    batch_work: Vec<Option<BatchWork>>,
    memos: Vec<Memo>,
    /// PHV offset of the keys, in limbs.
    key_limb: usize,
    phv_stride: usize,
    scratch_bytes: usize,
    instances: usize,
    reads_time: bool,
    /// True if code stores which packet it processes.
    may_loop: bool,
    listing: Option<String>,
    /// The text of the compilation plan, if requested.
    plan: Option<String>,
    /// The stages of each thread; of one unless they are cut for several.
    threads: Vec<Range<usize>>,
    /// The names of the stages and of the start of copies; empty unless they are measured.
    names: Vec<String>,
    counted: bool,
    /// The source places of the code of each stage.
    sources: Vec<StageSources>,
    /// [`Program::locs`].
    locs: Vec<SourceLoc>,
}

// SAFETY: after `finalize_definitions` the module is only memory: code that is never written again, freed on drop.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

/// The memory of machine code, which is freed with it, also if a compilation fails.
struct Code(ManuallyDrop<JITModule>);

impl std::ops::Deref for Code {
    type Target = JITModule;

    fn deref(&self) -> &JITModule {
        &self.0
    }
}

impl std::ops::DerefMut for Code {
    fn deref_mut(&mut self) -> &mut JITModule {
        &mut self.0
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: engines hold an `Arc` of what owns this, so no code of the module runs any more; the module is not used again.
        unsafe { ManuallyDrop::take(&mut self.0).free_memory() };
    }
}

/// Options of compilation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Keep the assembly text ([`Compiled::listing`]).
    pub listing: bool,
    /// Keep the text of the compilation plan ([`Compiled::plan`]).
    pub plan: bool,
    /// Tables of at least this many entries end a stage; `None` for the default.
    pub cut_entries_min: Option<u32>,
    /// Most limbs live in nodes, summed over the nodes, that are kept in registers; `None` for the default.
    pub live_limbs_max: Option<usize>,
    /// Functions of more instructions are compiled without optimisation; `None` for the default.
    pub optimised_max: Option<usize>,
    /// Cut the pipeline where blocks begin, and before and after every lookup, and measure what each stage costs
    /// ([`Engine::stage_times`]).
    pub measured: bool,
    /// Count what tables and drops do ([`Engine::tallies`]).
    pub counted: bool,
    /// Cut the pipeline for this many threads, 2 to [`THREADS_MAX`], each of which runs a part of it
    /// ([`Engine::run_part`]).
    pub threads: Option<usize>,
}

/// The observed traffic and table sizes for which code is compiled; empty if nothing was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The hot paths, the most frequent first.
    pub hot_paths: Vec<HotPath>,
    /// The number of entries of each table; empty for the sizes that the program declares.
    pub entries: Vec<u32>,
}

/// Smaller programs gain nothing from hot paths: their constant facts are known without copied nodes, and copies cost time.
const HOT_PATHS_NODES_MIN: usize = 100;

impl Seen {
    /// Removes observations that do not make this program's code faster: hot paths, if the program is small.
    pub fn keep_what_pays(&mut self, program: &Program) {
        if nodes(program) < HOT_PATHS_NODES_MIN {
            self.hot_paths.clear();
        }
    }
}

fn nodes(program: &Program) -> usize {
    program.blocks.iter().map(|b| b.body.nodes.len()).sum()
}

/// Most threads for which a pipeline is cut.
pub const THREADS_MAX: usize = 4;

fn internal(error: impl std::fmt::Display) -> Error {
    let message = format!("internal error in code generation (please report): {error}");
    Error { kind: ErrorKind::Internal, message, loc: Loc(0) }
}

/// The error for a failure of Cranelift's module, which also holds the memory of the machine code.
fn of_module(error: ModuleError) -> Error {
    match error {
        ModuleError::Allocation { err } => {
            let message = format!("no memory for machine code: {err}");
            Error { kind: ErrorKind::NoMemory, message, loc: Loc(0) }
        }
        other => internal(other),
    }
}

/// Nodes and statements of a program beyond which machine code is refused; actions count once per table that runs them.
const SIZE_MAX: usize = 500_000;

/// Nodes times slots beyond which machine code is refused. At this limit, one slot set per node takes 128 MiB; up to four exist at once.
const LIVENESS_BITS_MAX: usize = 1 << 30;

/// Words of sets of slots that the analyses of a program may visit until they reach a fixed point.
const ANALYSIS_STEPS_MAX: usize = 1 << 29;

/// Bytes of stack for one function: threads have 2 MiB.
const STACK_BYTES_MAX: u32 = 3 << 19;

/// Instructions of Cranelift's and entries of jump tables, over all functions, beyond which machine code is refused: it would
/// take more than two seconds. The largest of p4c's samples, switch.p4, has a tenth.
const INSTRUCTIONS_MAX: usize = 400_000;

/// Cancels a compilation. Clones cancel the same one.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels the compilation. The compiler checks for it between passes and between functions, each of which is bounded.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if the compilation is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), Error> {
        match self.is_cancelled() {
            true => {
                let message = "the compilation was cancelled".to_string();
                Err(Error { kind: ErrorKind::Cancelled, message, loc: Loc(0) })
            }
            false => Ok(()),
        }
    }
}

fn too_large(what: &str, found: usize, most: usize) -> Error {
    let message = format!(
        "not supported yet: machine code for a program of {found} {what} (at most {most}); `--engine interp` runs it \
         without machine code"
    );
    Error { kind: ErrorKind::TooLarge, message, loc: Loc(0) }
}

/// Like [`too_large`], for a count that ended at the limit.
fn too_many(what: &str, most: usize) -> Error {
    let message = format!(
        "not supported yet: machine code for a program of too many {what}: the limit is {most}; `--engine interp` runs it \
         without machine code"
    );
    Error { kind: ErrorKind::TooLarge, message, loc: Loc(0) }
}

fn too_many_steps() -> Error {
    too_many("steps of analysis (branches times fields, until nothing changes)", ANALYSIS_STEPS_MAX)
}

fn too_many_instructions() -> Error {
    too_many("instructions and entries of jump tables", INSTRUCTIONS_MAX)
}

/// The size of a function: its instructions and entries of jump tables.
fn size_of(func: &Function) -> usize {
    func.dfg.num_insts()
        + func.dfg.jump_tables.values().map(|table| table.all_branches().len()).sum::<usize>()
}

/// The number of block arguments, on all edges together.
fn passed(func: &Function) -> usize {
    let of_inst = |inst| -> usize {
        blocks::destinations(&func.dfg, inst).iter().map(|call| call.len(&func.dfg.value_lists)).sum()
    };
    func.layout.blocks().filter_map(|block| func.layout.last_inst(block)).map(of_inst).sum()
}

/// Nodes and statements of blocks, with those of the actions at each place where a table runs them.
fn size(program: &Program) -> usize {
    let of = |node: &Node| 1 + node.stmts.len();
    let actions: Vec<usize> =
        program.actions.iter().map(|action| action.body.nodes.iter().map(of).sum()).collect();
    let of_table = |table: &Table| table.actions.iter().map(|action| actions[action.action.index()]).sum();
    let tables: Vec<usize> = program.tables.iter().map(of_table).collect();
    let with_actions = |node: &Node| match node.terminator {
        Terminator::Apply { table, .. } => of(node) + tables[table.index()],
        _ => of(node),
    };
    program.blocks.iter().flat_map(|block| &block.body.nodes).map(with_actions).sum()
}

impl Compiled {
    /// Compiles a program whose tables have the given shapes, for packets and entries like those that were seen, unless
    /// that is cancelled meanwhile.
    pub fn new(
        program: &Program,
        tables: &[TableSpec],
        seen: &Seen,
        options: Options,
        cancel: &Cancel,
    ) -> Result<Compiled, Error> {
        Compiled::with_path_codes(program, tables, seen, options, None, cancel).map(|(compiled, _)| compiled)
    }

    /// Compiles a program, as [`Self::new`] does, and returns what the code of each of these paths consists of.
    pub fn path_codes(
        program: &Program,
        tables: &[TableSpec],
        seen: &Seen,
        options: Options,
        paths: &[HotPath],
        cancel: &Cancel,
    ) -> Result<Vec<PathCode>, Error> {
        let compiled = Compiled::with_path_codes(program, tables, seen, options, Some(paths), cancel)?;
        Ok(compiled.1)
    }

    /// With `paths`, instructions are marked with their site instead of their source place.
    fn with_path_codes(
        program: &Program,
        tables: &[TableSpec],
        seen: &Seen,
        options: Options,
        paths: Option<&[HotPath]>,
        cancel: &Cancel,
    ) -> Result<(Compiled, Vec<PathCode>), Error> {
        let size = size(program);
        if size > SIZE_MAX {
            return Err(too_large("nodes and statements", size, SIZE_MAX));
        }
        let bits = graph::liveness_bits(program);
        if bits > LIVENESS_BITS_MAX {
            return Err(too_large("nodes, times fields and headers", bits, LIVENESS_BITS_MAX));
        }
        let stops = match options.threads {
            Some(threads) => Stops::Threads(threads),
            None if options.measured => Stops::Blocks,
            None => Stops::Nowhere,
        };
        let hot_paths = if stops == Stops::Nowhere { seen.hot_paths.as_slice() } else { &[] };
        let graph = Graph::new(program, stops, hot_paths);
        cancel.check()?;
        if options.threads.is_some() {
            refuse_shared_registers(&graph)?;
        }
        let planning = plan::PlanOptions {
            live_limbs_max: options.live_limbs_max.unwrap_or(match hot_paths {
                [] => LIVE_LIMBS_MAX,
                _ => LIVE_LIMBS_MAX_SEEN,
            }),
            is_measured: options.measured,
            is_counted: options.counted,
        };
        let shapes = shapes(program, tables, seen, options);
        let plan = Plan::new(&graph, shapes, planning).map_err(|_| too_many_steps())?;
        cancel.check()?;

        let (isa, quick) = (target(true)?, target(false)?);
        let mut builder = JITBuilder::with_isa(isa, cranelift_module::default_libcall_names());
        builder.symbol("p4jet_wide", runtime::wide as *const u8);
        builder.symbol("p4jet_read_bits", runtime::read_bits as *const u8);
        builder.symbol("p4jet_write_bits", runtime::write_bits as *const u8);
        builder.symbol("p4jet_copy", runtime::copy as *const u8);
        builder.symbol("p4jet_replace", runtime::replace as *const u8);
        builder.symbol("p4jet_call_extern", runtime::call_extern as *const u8);
        builder.symbol("p4jet_make_copies", runtime::make_copies as *const u8);
        builder.symbol("p4jet_make_queued_copies", runtime::make_queued_copies as *const u8);
        let region = region::RegionSize::default();
        builder.memory_provider(Box::new(region::Region::new(region.clone())));
        let mut module = Code(ManuallyDrop::new(JITModule::new(builder)));

        let signature = |module: &JITModule, params: usize, returns: Option<types::Type>| {
            let mut s = module.make_signature();
            s.params = vec![AbiParam::new(types::I64); params];
            s.returns = returns.into_iter().map(AbiParam::new).collect();
            s
        };
        let mut import = |name: &str, params: usize, returns: bool| -> Result<FuncId, Error> {
            let s = signature(&module, params, returns.then_some(types::I64));
            module.declare_function(name, Linkage::Import, &s).map_err(of_module)
        };
        let wide = import("p4jet_wide", 5, false)?;
        let read_bits = import("p4jet_read_bits", 5, false)?;
        let write_bits = import("p4jet_write_bits", 4, false)?;
        let copy = import("p4jet_copy", 3, false)?;
        let replace = import("p4jet_replace", 4, false)?;
        let call_extern = import("p4jet_call_extern", 7, true)?;
        let make_copies = import("p4jet_make_copies", 6, false)?;
        let make_queued_copies = import("p4jet_make_queued_copies", 8, false)?;
        let prefetch = declare_prefetch(&mut module)?;
        let lookup = signature(&module, 2, Some(types::I32));
        let stage_signature = signature(&module, 3, None);

        let mut sites = Sites::default();
        let tallies = options.counted.then(|| Tallies::new(program));
        let mut listing = options.listing.then(String::new);
        let mut builder_cx = FunctionBuilderContext::new();
        let mut functions: PrimaryMap<StageId, Emitted> = PrimaryMap::new();
        let mut instructions = 0;
        for (stage, stage_plan) in &plan.stages {
            let id = module
                .declare_function(&format!("stage_{}", stage.as_u32()), Linkage::Local, &stage_signature)
                .map_err(of_module)?;
            let mut cx = module.make_context();
            cx.func.signature = stage_signature.clone();
            let helpers = Helpers {
                wide: module.declare_func_in_func(wide, &mut cx.func),
                read_bits: module.declare_func_in_func(read_bits, &mut cx.func),
                write_bits: module.declare_func_in_func(write_bits, &mut cx.func),
                copy: module.declare_func_in_func(copy, &mut cx.func),
                replace: module.declare_func_in_func(replace, &mut cx.func),
                call_extern: module.declare_func_in_func(call_extern, &mut cx.func),
                make_copies: module.declare_func_in_func(make_copies, &mut cx.func),
                prefetch: prefetch.map(|p| module.declare_func_in_func(p, &mut cx.func)),
                lookup: cx.func.import_signature(lookup.clone()),
                make_queued_copies: module.declare_func_in_func(make_queued_copies, &mut cx.func),
            };
            let frontend = module.target_config();
            let b = FunctionBuilder::new(&mut cx.func, &mut builder_cx);
            let (tallies, size_max) = (tallies.as_ref(), INSTRUCTIONS_MAX - instructions);
            let marks_sites = paths.is_some();
            let inputs = emit::EmitInputs { plan: &plan, tallies, helpers, size_max, marks_sites };
            emit::emit(b, inputs, &mut sites, stage_plan, frontend)?;
            instructions += size_of(&cx.func);
            if instructions > INSTRUCTIONS_MAX {
                return Err(too_many_instructions());
            }
            cx.set_disasm(options.listing);
            functions.push(Emitted { id, cx, helpers, mode: Mode::Optimised });
            cancel.check()?;
        }
        let sizes = functions.values().map(|function| size_of(&function.cx.func)).collect();
        let limits = ModeLimits::new(sizes, options.optimised_max, *seen != Seen::default());
        let targets = Targets { optimising: module.isa(), quick: &*quick, marks_sites: paths.is_some() };
        compile_all(targets, limits, &mut functions, cancel)?;
        let smallest_alignment = module.isa().function_alignment().minimum;
        for Emitted { cx, .. } in functions.values() {
            let code = cx.compiled_code().ok_or_else(|| internal("no code was generated"))?;
            let alignment = code.buffer.alignment.max(smallest_alignment);
            region.add(code.code_buffer().len(), alignment as usize, code.buffer.relocs().len());
        }
        if let Some(prefetch) = prefetch {
            region.add(PREFETCH.len(), PREFETCH_ALIGNMENT as usize, 0);
            module.define_function_bytes(prefetch, PREFETCH_ALIGNMENT, PREFETCH, &[]).map_err(of_module)?;
        }
        for ((stage, stage_plan), Emitted { id, cx, .. }) in plan.stages.iter().zip(functions.values()) {
            let code = cx.compiled_code().ok_or_else(|| internal("no code was generated"))?;
            let relocations: Vec<_> =
                code.buffer.relocs().iter().map(|r| ModuleReloc::from_mach_reloc(r, &cx.func, *id)).collect();
            let alignment = code.buffer.alignment.max(smallest_alignment);
            module
                .define_function_bytes(*id, alignment.into(), code.code_buffer(), &relocations)
                .map_err(of_module)?;
            if let Some(text) = &mut listing {
                let is_egress = stage_plan.entry == Entry::Egress;
                let what = if is_egress { ", of copies that begin with egress" } else { "" };
                text.push_str(&format!(
                    "; stage {}{what}\n{}\n",
                    stage.as_u32(),
                    code.vcode.as_deref().unwrap_or("")
                ));
            }
        }
        module.finalize_definitions().map_err(of_module)?;
        let sources = functions.values().map(|Emitted { id, cx, .. }| sources(&module, *id, cx)).collect();
        let mut stages: Vec<Stage> = functions
            .values()
            .map(|function| {
                let code = module.get_finalized_function(function.id);
                // SAFETY: compiled above with exactly this signature.
                unsafe { std::mem::transmute::<*const u8, Stage>(code) }
            })
            .collect();
        let path_codes = match paths {
            Some(paths) => {
                let pieces = functions.values().map(|f| path_code::Pieces::new(&f.cx, &f.helpers)).collect();
                paths.iter().map(|path| path_code::path_code(&plan, &pieces, path)).collect()
            }
            None => Vec::new(),
        };
        let ages = program.tables.iter().any(|table| table.idle_timeout);
        let reads_time = ages || !sites.calls.is_empty() || !sites.copies.is_empty() || plan.reads_time;
        let egress = if plan.stages.last().is_some_and(|(_, stage)| stage.entry == Entry::Egress) {
            stages.pop()
        } else {
            None
        };
        let compiled = Compiled {
            _code: module,
            stages,
            egress,
            sites: sites.calls.into_iter().collect(),
            copies: CopyLayout::new(&graph, &plan.memory, sites.copies),
            batch_work: std::iter::once(None)
                .chain(plan.cuts.values().map(plan::CutPlan::batch_work))
                .collect(),
            memos: plan.memos.list().to_vec(),
            key_limb: plan.memory.key as usize / 8,
            phv_stride: plan.memory.stride as usize,
            scratch_bytes: program.emitted_bytes_max() as usize + 64,
            instances: program.instances.len(),
            reads_time,
            may_loop: plan.may_loop,
            listing,
            plan: options
                .plan
                .then(|| plan.print(&functions.values().map(|function| function.mode).collect())),
            threads: threads(&plan, options.threads.unwrap_or(1)),
            names: if options.measured { stages::names(&plan) } else { Vec::new() },
            counted: options.counted,
            sources,
            locs: program.locs.clone(),
        };
        Ok((compiled, path_codes))
    }

    /// The text of the compilation plan, if requested.
    pub fn plan(&self) -> Option<&str> {
        self.plan.as_deref()
    }

    /// The assembly, if requested.
    pub fn listing(&self) -> Option<&str> {
        self.listing.as_deref()
    }

    /// True if the code reads the time.
    pub fn reads_time(&self) -> bool {
        self.reads_time
    }

    /// Number of lookups whose result is remembered by the row that led to them.
    pub fn memos(&self) -> usize {
        self.memos.len()
    }

    /// Number of stages that packets which arrive go through: one more than there are cuts.
    pub fn stages(&self) -> usize {
        self.stages.len()
    }
}

/// The properties of a program's tables that decide about cuts and remembered lookups.
fn shapes(program: &Program, tables: &[TableSpec], seen: &Seen, options: Options) -> Shapes {
    let are_observed = seen.entries.len() == tables.len();
    Shapes {
        structures: tables.iter().map(p4jet_tables::structure_of).collect(),
        are_observed,
        sizes: match are_observed {
            true => seen.entries.clone(),
            false => program.tables.iter().map(|table| table.size).collect(),
        },
        entries_min: options.cut_entries_min.unwrap_or(CUT_ENTRIES_MIN),
    }
}

/// The source places of a function whose code lies in memory.
fn sources(module: &JITModule, id: FuncId, cx: &Context) -> StageSources {
    let buffer = cx.compiled_code().map(|code| &code.buffer);
    let mut places: Vec<(u32, Loc)> = Vec::new();
    for range in buffer.iter().flat_map(|buffer| buffer.get_srclocs_sorted()) {
        let loc = Loc(range.loc.bits());
        if !range.loc.is_default() && places.last().is_none_or(|(_, last)| *last != loc) {
            places.push((range.start, loc));
        }
    }
    let bytes = buffer.map_or(0, |buffer| buffer.data().len());
    StageSources { begin: module.get_finalized_function(id) as usize, bytes, places }
}

/// Refuses registers that two threads use: the next packet would reach a register in one part before the last packet reaches it in another.
fn refuse_shared_registers(graph: &Graph) -> Result<(), Error> {
    let program = graph.program;
    // By instance: a bit for each thread that accesses it, and whether a statement writes it.
    let mut accesses: HashMap<InstanceId, (u32, bool)> = HashMap::new();
    for place in graph.reached() {
        let node = graph.node(place);
        let applied = match node.terminator {
            Terminator::Apply { table, .. } => program.tables[table.index()].actions.as_slice(),
            _ => &[],
        };
        let actions = applied.iter().flat_map(|action| &program.actions[action.action.index()].body.nodes);
        for stmt in actions.chain([node]).flat_map(|node| &node.stmts) {
            let Some((instance, access)) = stmt.op.access() else { continue };
            let (threads, written) = accesses.entry(instance).or_default();
            *threads |= 1 << graph.thread(place).as_u32();
            *written |= access == Access::Write;
            if *written && threads.count_ones() > 1 {
                return Err(Error {
                    kind: ErrorKind::Unsupported,
                    message: "not supported yet: a pipeline on several threads for a program that writes a register or meter \
                              in one part of it and uses it in another"
                        .to_string(),
                    loc: stmt.loc,
                });
            }
        }
    }
    Ok(())
}

/// The stages of each thread.
fn threads(plan: &Plan, count: usize) -> Vec<Range<usize>> {
    let of = |thread: usize| {
        let thread = ThreadId::new(thread);
        let is_before = |cut: &&plan::CutPlan| plan.graph.thread(cut.cut.place) <= thread;
        plan.cuts.values().take_while(is_before).count() + 1
    };
    (0..count).map(|thread| if thread == 0 { 0..of(0) } else { of(thread - 1)..of(thread) }).collect()
}

/// This machine, as a target for optimised code or for quick compilation.
fn target(optimising: bool) -> Result<Arc<dyn TargetIsa>, Error> {
    let mut flags = settings::builder();
    let (level, allocator) = if optimising { ("speed", "backtracking") } else { ("none", "single_pass") };
    flags.set("opt_level", level).map_err(internal)?;
    flags.set("regalloc_algorithm", allocator).map_err(internal)?;
    flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }).map_err(internal)?;
    flags.set("is_pic", "false").map_err(internal)?;
    flags.set("use_colocated_libcalls", "false").map_err(internal)?;
    // Generated code handles no secrets, and the mitigation costs a fifth of the router's rate.
    flags.set("enable_table_access_spectre_mitigation", "false").map_err(internal)?;
    let isa = cranelift_native::builder().map_err(internal)?;
    isa.finish(settings::Flags::new(flags)).map_err(internal)
}

/// The targets of compilation.
#[derive(Clone, Copy)]
struct Targets<'t> {
    optimising: &'t dyn TargetIsa,
    quick: &'t dyn TargetIsa,
    /// See [`path_code`].
    marks_sites: bool,
}

/// The function of a stage.
struct Emitted {
    id: FuncId,
    cx: Context,
    helpers: Helpers,
    mode: Mode,
}

/// Compiles all functions to machine code, on all processors.
fn compile_all(
    targets: Targets<'_>,
    limits: ModeLimits,
    functions: &mut PrimaryMap<StageId, Emitted>,
    cancel: &Cancel,
) -> Result<(), Error> {
    let compile = |Emitted { cx, mode, .. }: &mut Emitted| {
        cancel.check()?;
        let size = size_of(&cx.func);
        // Following long chains of aliases takes long.
        cx.func.dfg.resolve_all_aliases();
        same_params::remove_same_params(&mut cx.func);
        compares::compare_unswapped(&mut cx.func);
        // Last, because the other passes leave unused code.
        unused::remove_unused(&mut cx.func);
        cold::spread_cold(&mut cx.func);
        if targets.marks_sites {
            path_code::mark_cold(cx);
        }
        *mode = limits.mode(size, passed(&cx.func));
        if *mode != Mode::Optimised {
            constant_params::remove_constant_params(&mut cx.func);
            memory_params::pass_in_memory(&mut cx.func);
            long_ranges::spill_long_ranges(&mut cx.func);
        }
        let isa = if *mode == Mode::Optimised { targets.optimising } else { targets.quick };
        let code = cx.compile(isa, &mut ControlPlane::default()).map_err(|e| internal(format!("{e:?}")))?;
        let stack = code.buffer.frame_layout().map_or(0, |frame| frame.frame_to_fp_offset);
        if stack > STACK_BYTES_MAX {
            return Err(too_large("bytes of stack", stack as usize, STACK_BYTES_MAX as usize));
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(functions.len());
    // The largest function first, so that the last ones are small.
    let mut order: Vec<_> = functions.values_mut().collect();
    order.sort_by_key(|function| function.cx.func.dfg.num_insts());
    if threads < 2 {
        return order.into_iter().try_for_each(compile);
    }
    let work = Mutex::new(order);
    let run = || loop {
        let Some(function) = work.lock().unwrap_or_else(PoisonError::into_inner).pop() else { return Ok(()) };
        compile(function)?;
    };
    std::thread::scope(|scope| {
        // Without another thread this one does all the work.
        let spawn = |_| p4jet_threads::spawn_scoped(scope, "compiler", run).ok();
        let others: Vec<_> = (1..threads).map_while(spawn).collect();
        let mut result = run();
        for other in others {
            let theirs = other.join().unwrap_or_else(|_| Err(internal("a thread panicked")));
            result = result.and(theirs);
        }
        result
    })
}

/// Cranelift has no prefetch instruction: a function of two instructions that clobbers nothing replaces it.
fn declare_prefetch(module: &mut JITModule) -> Result<Option<FuncId>, Error> {
    if cfg!(not(target_arch = "x86_64")) {
        return Ok(None);
    }
    let signature = Signature {
        params: vec![AbiParam::new(types::I64)],
        returns: vec![],
        call_conv: CallConv::PreserveAll,
    };
    module.declare_function("prefetch", Linkage::Local, &signature).map(Some).map_err(of_module)
}

/// prefetcht0 [rdi]; ret
const PREFETCH: &[u8] = &[0x0f, 0x18, 0x0f, 0xc3];
const PREFETCH_ALIGNMENT: u64 = 16;

/// Runs compiled code for one worker. It shares no cache line with the engines of other workers.
#[repr(align(128))]
pub struct Engine {
    compiled: Arc<Compiled>,
    flight: Flight,
    rows: Apart<u32>,
    selected: Apart<*const u64>,
    memos: Vec<MemoCells>,
    memo_bases: Vec<*mut u64>,
    ages: Apart<u64>,
    scratch: Apart<u8>,
    registers: Vec<*mut u64>,
    counters: Vec<*mut u64>,
    copies: Copies,
    /// The cost of each stage, in the order of the names.
    times: Vec<StageTime>,
    /// The tallies, if the code counts.
    tallies: Option<Tallies>,
}

/// The state of a batch on its way from stage to stage.
pub struct Flight {
    queues: Apart<[u32; BATCH_MAX]>,
    queue_bases: Vec<*mut u32>,
    counts: Apart<u64>,
    phv: Apart<u64>,
    /// The time at which the batch set out, in microseconds.
    now_us: u64,
}

// SAFETY: the raw pointers lead into `queues`, whose memory does not move.
unsafe impl Send for Flight {}

impl Flight {
    /// The state of a batch that has not run yet.
    pub fn new(compiled: &Compiled) -> Flight {
        let stages = compiled.stages.len();
        let mut queues = Apart::<[u32; BATCH_MAX]>::zeroed(stages);
        Flight {
            queue_bases: queues.iter_mut().map(|q| q.as_mut_ptr()).collect(),
            queues,
            counts: Apart::zeroed(stages),
            phv: Apart::zeroed(compiled.phv_stride * BATCH_MAX / 8),
            now_us: 0,
        }
    }

    /// The time at which the batch set out, in microseconds.
    pub fn now_us(&mut self) -> &mut u64 {
        &mut self.now_us
    }
}

// SAFETY: the raw pointers lead into memory that the engine owns or that `State`, shared and atomic, keeps; see `new`.
unsafe impl Send for Engine {}

impl Engine {
    /// An engine for worker `worker` of `state`, which must be the state of the compiled program and outlive the engine.
    pub fn new(compiled: Arc<Compiled>, program: &Program, state: &State, worker: usize) -> Engine {
        let mut memos: Vec<MemoCells> = compiled.memos.iter().map(|_| MemoCells::new()).collect();
        let mut registers = vec![std::ptr::null_mut(); compiled.instances];
        let mut counters = vec![std::ptr::null_mut(); compiled.instances];
        for (i, instance) in program.instances.iter().enumerate() {
            match instance.kind {
                InstanceKind::Register { .. } => registers[i] = state.register_base(i as u32) as *mut u64,
                InstanceKind::Counter { .. } | InstanceKind::DirectCounter { .. } => {
                    counters[i] = state.counter_base(i as u32, worker) as *mut u64;
                }
                _ => {}
            }
        }
        Engine {
            flight: Flight::new(&compiled),
            rows: Apart::zeroed(BATCH_MAX),
            selected: Apart::zeroed(BATCH_MAX),
            ages: Apart::zeroed(memos.len()),
            memo_bases: memos.iter_mut().map(MemoCells::cells).collect(),
            memos,
            scratch: Apart::zeroed(compiled.scratch_bytes),
            registers,
            counters,
            copies: Copies::new(),
            times: vec![StageTime::default(); compiled.names.len()],
            tallies: compiled.counted.then(|| Tallies::new(program)),
            compiled,
        }
    }

    /// Takes over the tallies of the engine that it replaces.
    pub fn continue_counting(&mut self, other: &mut Engine) {
        if self.tallies.is_some() && other.tallies.is_some() {
            std::mem::swap(&mut self.tallies, &mut other.tallies);
        }
    }

    /// Sets the tallies at the start; does nothing unless the code counts.
    pub fn set_tallies(&mut self, tallies: Tallies) {
        if self.tallies.is_some() {
            self.tallies = Some(tallies);
        }
    }

    /// The tallies, for events outside the code.
    pub fn tallies_mut(&mut self) -> Option<&mut Tallies> {
        self.tallies.as_mut()
    }

    /// The code that the engine runs.
    pub fn code(&self) -> &Compiled {
        &self.compiled
    }

    /// Runs the packets through the whole pipeline: sets their egress ports, changes them in place.
    ///
    /// # Safety
    /// Every packet lies in a buffer with as much headroom as [`Program::emitted_bytes_max`], with room for
    /// [`FRAME_READABLE_BYTES`] and 64 bytes of slack after the longest frame.
    /// `views` are the views of the program's tables in order, valid for the call; `env` belongs to the same state as the
    /// engine. At most [`BATCH_MAX`] packets.
    pub unsafe fn run(
        &mut self,
        packets: &mut [Packet],
        views: &[*const View],
        env: &mut Env<'_>,
        now_us: u64,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            self.copies.begin(&self.compiled.copies, PipelineHalf::Ingress, packets);
            self.go(packets, PipelineHalf::Ingress, false, views, env, now_us);
        }
    }

    /// Runs copies that begin at the same place, as [`Self::run`] does with packets that arrive: `packets` are those made
    /// of them, in order ([`Copied::push`]).
    ///
    /// # Safety
    /// The conditions of [`Self::run`]; an engine of the same code created the copies.
    pub unsafe fn run_copies<'c>(
        &mut self,
        packets: &mut [Packet],
        copies: impl Iterator<Item = &'c Copied> + Clone,
        views: &[*const View],
        env: &mut Env<'_>,
        now_us: u64,
    ) {
        let mut begin = PipelineHalf::Ingress;
        for (phv, copied) in self.flight.phv.chunks_mut(self.compiled.phv_stride / 8).zip(copies.clone()) {
            begin = copied.begin();
            // SAFETY: a PHV begins with room for the image.
            unsafe { copies::enter(&self.compiled.copies, copied, phv.as_mut_ptr(), now_us) };
        }
        // SAFETY: as the caller promises.
        unsafe {
            self.copies.begin(&self.compiled.copies, begin, packets);
            self.copies.begin_copies(packets, copies);
            self.go(packets, begin, true, views, env, now_us);
        }
    }

    /// Takes the copies that the last batch created, in the order of the packets that created them, and returns the numbers of
    /// those that were refused.
    pub fn take_copies(&mut self, take: impl FnMut(Copied)) -> RefusedCopies {
        self.copies.take(self.compiled.stages.len() > 1, take)
    }

    /// The names of the stages; empty unless they are measured.
    pub fn stage_names(&self) -> &[String] {
        &self.compiled.names
    }

    /// The cost of the stages so far, in the order of [`Self::stage_names`].
    pub fn stage_times(&self) -> &[StageTime] {
        &self.times
    }

    /// Memory for a copy that another worker makes.
    pub fn take_spare(&mut self) -> Option<Copied> {
        self.copies.take_spare()
    }

    /// The tallies so far; `None` unless the code counts.
    pub fn tallies(&self) -> Option<&Tallies> {
        self.tallies.as_ref()
    }

    /// Takes back a copy that has run, so that its memory is used again.
    pub fn recycle(&mut self, copied: Copied) {
        self.copies.recycle(copied);
    }

    /// Runs a thread's part of the pipeline, as [`Self::run`] does with all of it: the packets of `flight` have gone through
    /// the parts before.
    ///
    /// # Safety
    /// The conditions of [`Self::run`]; `flight` belongs to the same code, which makes no copies.
    pub unsafe fn run_part(
        &mut self,
        thread: usize,
        flight: &mut Flight,
        packets: &mut [Packet],
        views: &[*const View],
        env: &mut Env<'_>,
    ) {
        std::mem::swap(&mut self.flight, flight);
        let now_us = self.flight.now_us;
        let (stages, first) = (self.compiled.threads[thread].clone(), self.compiled.stages[0]);
        // SAFETY: as the caller promises; the context is of these packets.
        unsafe {
            let mut ctx = self.begin(packets, thread == 0, false, views, env, now_us);
            let _inside = Inside::enter(&raw const ctx, &raw const *self.compiled);
            if thread == 0 {
                first(&mut ctx, packets.as_mut_ptr(), packets.len() as u64);
            }
            self.stages(&mut ctx, stages, packets, views);
        }
        std::mem::swap(&mut self.flight, flight);
    }

    /// # Safety
    /// The conditions of [`Self::run`]; the PHVs are those of copies if `of_copies`.
    unsafe fn go(
        &mut self,
        packets: &mut [Packet],
        begin: PipelineHalf,
        of_copies: bool,
        views: &[*const View],
        env: &mut Env<'_>,
        now_us: u64,
    ) {
        let (number, first) = match begin {
            PipelineHalf::Ingress => (0, self.compiled.stages[0]),
            PipelineHalf::Egress => {
                let code = self.compiled.egress.expect("copies begin there, so the code exists");
                (self.compiled.stages.len(), code)
            }
        };
        // SAFETY: the caller's promises, and memory sized by the layout of the code.
        unsafe {
            let mut ctx = self.begin(packets, true, of_copies, views, env, now_us);
            let _inside = Inside::enter(&raw const ctx, &raw const *self.compiled);
            let start = if self.times.is_empty() { 0 } else { ticks() };
            first(&mut ctx, packets.as_mut_ptr(), packets.len() as u64);
            if !self.times.is_empty() {
                self.times[number].add(start, packets.len() as u64);
            }
            self.stages(&mut ctx, 0..self.compiled.stages.len(), packets, views);
        }
    }

    /// The argument of stages, valid as long as the arguments here. `fresh`: no stage has run yet.
    ///
    /// # Safety
    /// The views are valid.
    unsafe fn begin(
        &mut self,
        packets: &[Packet],
        fresh: bool,
        of_copies: bool,
        views: &[*const View],
        env: &mut Env<'_>,
        now_us: u64,
    ) -> Ctx {
        assert!(packets.len() <= BATCH_MAX);
        if fresh {
            self.flight.counts.fill(0);
        }
        for ((memo, memory), age) in self.compiled.memos.iter().zip(&mut self.memos).zip(self.ages.iter_mut())
        {
            // SAFETY: the views are valid for the call.
            *age = unsafe { memory.age(&*views[memo.row_table.index()], &*views[memo.table.index()]) };
        }
        Ctx {
            views: views.as_ptr(),
            phv: self.flight.phv.as_mut_ptr().cast(),
            now_us,
            queues: self.flight.queue_bases.as_ptr(),
            counts: self.flight.counts.as_mut_ptr(),
            rows: self.rows.as_mut_ptr(),
            selected: self.selected.as_ptr(),
            memos: self.memo_bases.as_ptr(),
            ages: self.ages.as_ptr(),
            registers: self.registers.as_ptr(),
            counters: self.counters.as_ptr(),
            tallies: self.tallies.as_mut().map_or(std::ptr::null_mut(), Tallies::cells),
            scratch: self.scratch.as_mut_ptr(),
            env: std::ptr::from_mut(env).cast(),
            sites: self.compiled.sites.as_ptr(),
            packets: packets.as_ptr(),
            of_copies: of_copies.into(),
            copy_layout: &self.compiled.copies,
            copies: &mut self.copies,
            packet: if self.compiled.may_loop { packets.as_ptr() } else { std::ptr::null() },
        }
    }

    /// Runs these stages, except stage 0.
    ///
    /// # Safety
    /// The conditions of [`Self::run`]; the context belongs to these packets and views.
    #[inline(always)]
    unsafe fn stages(
        &mut self,
        ctx: &mut Ctx,
        stages: Range<usize>,
        packets: &mut [Packet],
        views: &[*const View],
    ) {
        debug_assert_eq!(self.flight.queues.len(), self.compiled.stages.len());
        let measured = !self.times.is_empty();
        let mut start = if measured { ticks() } else { 0 };
        for stage in stages.start.max(1)..stages.end {
            // SAFETY: generated code writes counts through the pointer that the context has.
            let count = unsafe { *ctx.counts.add(stage) };
            if count == 0 {
                continue;
            }
            if let Some(work) = self.compiled.batch_work[stage] {
                let mut keys = [std::ptr::null::<u64>(); BATCH_MAX];
                let count = count as usize;
                let (queue, stride) = (self.flight.queue_bases[stage], self.compiled.phv_stride / 8);
                for (i, key) in keys.iter_mut().enumerate().take(count) {
                    // SAFETY: stage code has put `count` numbers of packets into the queue; each has a PHV.
                    *key = unsafe {
                        let number = *queue.add(i) as usize;
                        ctx.phv.cast::<u64>().cast_const().add(number * stride + self.compiled.key_limb)
                    };
                }
                match work {
                    BatchWork::Lookup(table) => {
                        let view = views[table.index()];
                        // SAFETY: the view is valid for the call; stage code has put a whole key into each PHV.
                        unsafe { ((*view).lookup_batch)(view, keys.as_ptr(), ctx.rows, count) };
                    }
                    BatchWork::Select(table) => {
                        let mut selectors = [0; BATCH_MAX];
                        let waiting = keys.iter().zip(self.rows.iter_mut()).zip(&mut selectors).take(count);
                        for ((key, row), selector) in waiting {
                            // SAFETY: the row lies there, and the selector after it.
                            unsafe { (*row, *selector) = (**key as u32, *key.add(1)) };
                        }
                        let (rows, found) = (&self.rows[..count], &mut self.selected[..count]);
                        // SAFETY: the view is valid for the call, and lookups in it gave the rows.
                        unsafe { select_batch(views[table.index()], rows, &selectors[..count], found) };
                    }
                }
            }
            // SAFETY: the caller's promises, and memory sized by the layout of the code.
            unsafe { self.compiled.stages[stage](ctx, packets.as_mut_ptr(), count) };
            if measured {
                start = self.times[stage].add(start, count);
            }
        }
    }
}
