//! A program with its tables and extern state.

use p4jet_externs::State;
use p4jet_ir as ir;
use p4jet_jit::{Cancel, Compiled, Engine, Seen};
use p4jet_tables::{Table, TableSpec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::copies::Handed;
use crate::packet_log::{Logging, PacketLog};
use crate::queues::{Inbox, Queues};

/// Which executor runs the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Machine code.
    Jit,
    /// The reference interpreter.
    Interp,
}

/// Most workers of a switch.
pub const WORKERS_MAX: usize = 1024;

/// A worker's place in its switch.
pub(crate) struct Place {
    switch: Arc<Switch>,
    index: usize,
}

impl Place {
    pub fn switch(&self) -> &Arc<Switch> {
        &self.switch
    }

    /// The number of the worker.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.switch.taken[self.index].store(false, Ordering::Release);
    }
}

/// Lets several workers have the same registers; one needs no locks, nor do those that share the pipeline: only one of
/// them comes to a register that changes. Drops are counted by place only in programs that keep it.
fn suit(program: &mut ir::Program, workers: usize, options: &p4jet_jit::Options) -> Result<(), String> {
    check_headroom(program)?;
    match options.counted {
        true => ir::passes::place_drops(program),
        false => ir::passes::forget_drop_places(program),
    }
    if let Some(threads) = options.threads {
        if threads != workers || !(2..=p4jet_jit::THREADS_MAX).contains(&threads) {
            let max = p4jet_jit::THREADS_MAX;
            return Err(format!(
                "a pipeline on {threads} threads with {workers} workers: expected 2 to {max} of both"
            ));
        }
        let actions = program.actions.iter().map(|action| &action.body);
        let mut nodes =
            program.blocks.iter().map(|block| &block.body).chain(actions).flat_map(|body| &body.nodes);
        if nodes.any(|node| node.stmts.iter().any(|stmt| matches!(stmt.op, ir::Op::Copy(_)))) {
            return Err(
                "not supported yet: a pipeline on several threads for a program that clones, replicates, \
                        resubmits, recirculates or queues packets (run it to completion, on several cores)"
                    .to_string(),
            );
        }
    } else if workers > 1 {
        ir::atomic::add_locks(program);
        debug_assert_eq!(ir::verify::verify(program), Ok(()));
    }
    Ok(())
}

/// Machine code for a program with such tables.
pub(crate) struct Code {
    specs: Vec<TableSpec>,
    compiled: Arc<Compiled>,
}

impl Code {
    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.compiled
    }
}

fn described(program: &ir::Program, error: &p4jet_jit::Error) -> String {
    let loc = &program.locs[error.loc.index()];
    match loc.line {
        0 => error.message.clone(),
        _ => format!("{}\n  --> {}:{}:{}", error.message, loc.file, loc.line, loc.column),
    }
}

/// Refuses a program whose deparsers emit more bytes than buffers have room for.
fn check_headroom(program: &ir::Program) -> Result<(), String> {
    let bytes = program.emitted_bytes_max() as usize;
    if bytes <= p4jet_packet::HEADROOM_LIMIT {
        return Ok(());
    }
    let largest = program.blocks.iter().max_by_key(|block| program.block_emitted_bytes_max(block));
    let stmts = largest.into_iter().flat_map(|block| &block.body.nodes).flat_map(|node| &node.stmts);
    let emits = stmts.filter(|stmt| matches!(stmt.op, ir::Op::Emit { .. }));
    let limit = p4jet_packet::HEADROOM_LIMIT;
    let message = format!("the deparser may emit {bytes} header bytes; the limit is {limit}");
    let loc = emits.map(|stmt| stmt.loc).next_back().unwrap_or(ir::Loc(0));
    Err(described(program, &p4jet_jit::Error { message, loc }))
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // A poisoned lock means that a control operation panicked: a bug, but tables stay consistent between steps.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program with its tables and extern state.
pub struct Switch {
    program: ir::Program,
    /// As lowering made it, see [`Switch::tell_by`].
    told: OnceLock<Arc<ir::Program>>,
    pub(crate) tables: Vec<Arc<Mutex<Table>>>,
    state: State,
    code: OnceLock<Result<Arc<Compiled>, p4jet_jit::Error>>,
    options: p4jet_jit::Options,
    start: Instant,
    queues: Arc<Queues>,
    packet_log: OnceLock<Arc<PacketLog>>,
    /// What the interpreter runs for it.
    logged: OnceLock<Arc<ir::Program>>,
    /// For each worker, if there are several and output queues: what others have for it.
    pub(crate) inboxes: Box<[Inbox<Handed, p4jet_jit::Copied>]>,
    /// For each worker: whether there is one now. It has counters to itself, which it changes without a lock.
    taken: Box<[AtomicBool]>,
}

impl Switch {
    /// Sets up tables, with the program's entries, and extern state. The program is one that the verifier accepts. There
    /// is room for one worker.
    pub fn new(program: ir::Program) -> Result<Arc<Switch>, String> {
        Self::with_options(program, p4jet_jit::Options::default(), 1)
    }

    /// As [`Self::new`], with a say in code generation and room for `workers` workers.
    pub fn with_options(
        mut program: ir::Program,
        options: p4jet_jit::Options,
        workers: usize,
    ) -> Result<Arc<Switch>, String> {
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(format!("{workers} workers: expected 1 to {WORKERS_MAX}"));
        }
        suit(&mut program, workers, &options)?;
        let tables = p4jet_interp::build_tables(&program)?;
        let tables = tables.into_iter().map(|table| Arc::new(Mutex::new(table))).collect();
        let state = p4jet_interp::build_state(&program, workers).map_err(|e| e.to_string())?;
        Switch::bare(program, options, workers, tables, state).map(Arc::new)
    }

    /// A switch that begins now, without machine code, configured queues or a packet log. The program suits the options
    /// and the number of workers.
    fn bare(
        program: ir::Program,
        options: p4jet_jit::Options,
        workers: usize,
        tables: Vec<Arc<Mutex<Table>>>,
        state: State,
    ) -> Result<Switch, String> {
        let inboxes = inboxes(workers, &program)?;
        Ok(Switch {
            program,
            told: OnceLock::new(),
            tables,
            state,
            code: OnceLock::new(),
            options,
            start: Instant::now(),
            queues: Arc::default(),
            packet_log: OnceLock::new(),
            logged: OnceLock::new(),
            inboxes,
            taken: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// A switch with another program, its time, engine options and workers being those of this one; whether it counts what
    /// the program does is `counted`.
    pub(crate) fn successor(
        &self,
        mut program: ir::Program,
        counted: bool,
        told: Option<Arc<ir::Program>>,
        code: Option<Code>,
        tables: Vec<Arc<Mutex<Table>>>,
        state: State,
    ) -> Result<Arc<Switch>, String> {
        let options = p4jet_jit::Options { counted, ..self.options };
        suit(&mut program, self.workers(), &options)?;
        // Code for other tables is no use.
        let fits =
            |code: &Code| code.specs.iter().zip(&tables).all(|(spec, table)| spec == lock(table).spec());
        let code = code.filter(fits).map_or_else(OnceLock::new, |code| Ok(code.compiled).into());
        Ok(Arc::new(Switch {
            told: told.map_or_else(OnceLock::new, OnceLock::from),
            code,
            start: self.start,
            queues: Arc::clone(&self.queues),
            packet_log: self.packet_log.clone(),
            ..Switch::bare(program, options, self.workers(), tables, state)?
        }))
    }

    /// Machine code for a successor of this switch.
    pub(crate) fn code_for(
        &self,
        program: &ir::Program,
        counted: bool,
        cancel: &Cancel,
    ) -> Result<Code, String> {
        let options = p4jet_jit::Options { counted, ..self.options };
        let mut program = program.clone();
        suit(&mut program, self.workers(), &options)?;
        let specs: Vec<TableSpec> =
            p4jet_interp::build_tables(&program)?.iter().map(|table| table.spec().clone()).collect();
        let compiled = Compiled::new(&program, &specs, &Seen::default(), options, cancel)
            .map_err(|e| described(&program, &e))?;
        Ok(Code { specs, compiled: Arc::new(compiled) })
    }

    /// Whether its workers count what the program does ([`crate::Worker::tallies`]).
    pub fn is_counted(&self) -> bool {
        self.options.counted
    }

    /// The program.
    pub fn program(&self) -> &ir::Program {
        &self.program
    }

    /// Gives it the program as lowering made it, if it runs what passes made of that: traces tell more by it. The first
    /// one given stays.
    pub fn tell_by(&self, lowered: Arc<ir::Program>) {
        let shape = |p: &ir::Program| (p.tables.len(), p.actions.len(), p.instances.len());
        assert_eq!(shape(&lowered), shape(&self.program), "passes keep tables, actions and instances");
        let _ = self.told.set(lowered);
    }

    /// What [`Self::tell_by`] was given.
    pub(crate) fn lowered(&self) -> Option<&Arc<ir::Program>> {
        self.told.get()
    }

    /// Lets workers log packets, from the next worker on, and those of programs that take this one's place. The first one
    /// given stays. Threads that share the pipeline log nothing.
    pub fn log_packets(&self, log: PacketLog) {
        let _ = self.packet_log.set(Arc::new(log));
    }

    /// What a worker needs to log packets, if it shall.
    pub(crate) fn logging(&self) -> Option<Logging> {
        let log = self.packet_log.get().filter(|_| self.threads().is_none())?;
        let program = self.logged.get_or_init(|| {
            let mut program = self.told().clone();
            // As it could be made for the program that workers run, it can be for the one that this comes from.
            match suit(&mut program, self.workers(), &self.options) {
                Ok(()) => Arc::new(program),
                Err(_) => Arc::new(self.program.clone()),
            }
        });
        Some(Logging::new(Arc::clone(log), Arc::clone(program)))
    }

    /// The program that traces use.
    pub fn told(&self) -> &ir::Program {
        self.told.get().map_or(&self.program, Arc::as_ref)
    }

    /// A table, locked for the control plane. Workers running machine code are not stopped by it.
    pub fn table(&self, id: ir::TableId) -> MutexGuard<'_, Table> {
        lock(&self.tables[id.index()])
    }

    /// Registers and counters.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The highest port number that the program can distinguish from others.
    pub fn port_max(&self) -> u32 {
        self.program.port_max()
    }

    /// Microseconds since the switch started.
    pub fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Nanoseconds since the switch started.
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The output queues' configuration and statistics. They have an effect only if the program is queued
    /// ([`ir::Program::is_queued`]).
    pub fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    /// Whether it needs output queues ([`Queues::are_needed_by`]) that the program, as it was lowered, does not have.
    pub fn needs_queues(&self) -> bool {
        self.queues.are_needed_by(&self.program) && !self.program.is_queued()
    }

    /// The program's machine code, made on first use.
    pub fn code(&self) -> Result<Arc<Compiled>, p4jet_jit::Error> {
        self.code.get_or_init(|| self.compile(&Seen::default(), self.options).map(Arc::new)).clone()
    }

    /// The same, unless it is cancelled meanwhile: that error is not kept.
    pub(crate) fn code_unless(&self, cancel: &Cancel) -> Result<Arc<Compiled>, p4jet_jit::Error> {
        if let Some(code) = self.code.get() {
            return code.clone();
        }
        let made = self.compile_unless(&Seen::default(), self.options, cancel).map(Arc::new);
        if cancel.is_cancelled() { made } else { self.code.get_or_init(|| made).clone() }
    }

    /// Machine code for packets and entries like those that were seen ([`Self::seen`]), for [`crate::Worker::change_code`].
    pub fn code_for_seen(&self, seen: &Seen) -> Result<Arc<Compiled>, p4jet_jit::Error> {
        self.compile(seen, self.options).map(Arc::new)
    }

    /// The same, unless it is cancelled meanwhile.
    pub(crate) fn code_for_seen_unless(
        &self,
        seen: &Seen,
        cancel: &Cancel,
    ) -> Result<Arc<Compiled>, p4jet_jit::Error> {
        self.compile_unless(seen, self.options, cancel).map(Arc::new)
    }

    /// The program's machine code, made now.
    pub fn compile(&self, seen: &Seen, options: p4jet_jit::Options) -> Result<Compiled, p4jet_jit::Error> {
        self.compile_unless(seen, options, &Cancel::default())
    }

    /// Machine code that measures what each stage of the pipeline costs.
    pub(crate) fn measured_code(&self) -> Result<Arc<Compiled>, String> {
        let options = p4jet_jit::Options { measured: true, ..self.options };
        self.compile(&Seen::default(), options).map(Arc::new).map_err(|e| self.describe(&e))
    }

    fn compile_unless(
        &self,
        seen: &Seen,
        options: p4jet_jit::Options,
        cancel: &Cancel,
    ) -> Result<Compiled, p4jet_jit::Error> {
        let specs: Vec<TableSpec> =
            (0..self.tables.len()).map(|t| self.table(ir::TableId(t as u32)).spec().clone()).collect();
        Compiled::new(&self.program, &specs, seen, options, cancel)
    }

    /// What runs such code for a worker.
    pub(crate) fn engine(&self, code: &Arc<Compiled>, index: usize) -> Box<Engine> {
        Box::new(Engine::new(Arc::clone(code), &self.program, &self.state, index))
    }

    /// On how many threads each packet's way is, if the workers share the pipeline ([`p4jet_jit::Options::threads`]).
    pub fn threads(&self) -> Option<usize> {
        self.options.threads
    }

    /// Says where a code generation error is.
    pub fn describe(&self, error: &p4jet_jit::Error) -> String {
        described(&self.program, error)
    }

    /// How many workers there may be at a time.
    pub fn workers(&self) -> usize {
        self.taken.len()
    }

    /// Whether any worker of it is left.
    pub(crate) fn has_workers(&self) -> bool {
        self.taken.iter().any(|taken| taken.load(Ordering::Acquire))
    }

    /// The place of worker `index`, which is taken until it is dropped.
    pub(crate) fn take_place(self: &Arc<Self>, index: usize) -> Result<Place, String> {
        let Some(taken) = self.taken.get(index) else {
            return Err(format!("worker {index}: the switch has workers 0 to {}", self.workers() - 1));
        };
        // The next holder sees everything that the last one wrote.
        if taken.swap(true, Ordering::Acquire) {
            return Err(format!("worker {index}: it runs already"));
        }
        Ok(Place { switch: Arc::clone(self), index })
    }
}

/// The ways from worker to worker, if the program needs them.
fn inboxes(workers: usize, program: &ir::Program) -> Result<Box<[Inbox<Handed, p4jet_jit::Copied>]>, String> {
    if workers == 1 || !program.is_queued() {
        return Ok(Box::default());
    }
    let inboxes = (0..workers).map(|_| Inbox::new()).collect::<std::io::Result<_>>();
    inboxes.map_err(|e| format!("no way between workers: {e}"))
}
