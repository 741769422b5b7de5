//! A program with its tables and extern state.

use p4jet_externs::State;
use p4jet_ir as ir;
use p4jet_ir::turns::{PACKET_WORK_MAX, packet_work};
use p4jet_jit::{Cancel, Compiled, Engine, ErrorKind, Seen};
use p4jet_packet::BATCH_MAX;
use p4jet_tables::{Table, TableSpec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::copies::Handed;
use crate::packet_log::{Logging, PacketLog};
use crate::program_error::ProgramError;
use crate::queues::{Inbox, Queues};

/// The executor that runs the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Machine code.
    Jit,
    /// The reference interpreter.
    Interp,
}

/// Maximum number of workers of a switch.
pub const WORKERS_MAX: usize = 1024;

/// A worker's reservation of an index in its switch.
pub(crate) struct Place {
    switch: Arc<Switch>,
    index: usize,
}

impl Place {
    pub fn switch(&self) -> &Arc<Switch> {
        &self.switch
    }

    /// Returns the index of the worker.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.switch.taken[self.index].store(false, Ordering::Release);
    }
}

/// Adapts the program to the options. Adds register locks for several workers; a single worker needs none, nor do
/// threads that share the pipeline, because only one of them accesses a register that changes. Records the places of
/// drops if the program is counted, and removes them otherwise.
fn suit(program: &mut ir::Program, workers: usize, options: &p4jet_jit::Options) -> Result<(), ProgramError> {
    check_headroom(program)?;
    match options.counted {
        true => ir::passes::place_drops(program),
        false => ir::passes::forget_drop_places(program),
    }
    if let Some(threads) = options.threads {
        if threads != workers || !(2..=p4jet_jit::THREADS_MAX).contains(&threads) {
            let max = p4jet_jit::THREADS_MAX;
            let why = format!(
                "a pipeline on {threads} threads with {workers} workers: expected 2 to {max} of both"
            );
            return Err(ProgramError::unsupported(why));
        }
        let actions = program.actions.iter().map(|action| &action.body);
        let mut nodes =
            program.blocks.iter().map(|block| &block.body).chain(actions).flat_map(|body| &body.nodes);
        if nodes.any(|node| node.stmts.iter().any(|stmt| matches!(stmt.op, ir::Op::Copy(_)))) {
            return Err(ProgramError::unsupported(
                "not supported yet: a pipeline on several threads for a program that clones, replicates, \
                 resubmits, recirculates or queues packets (run it to completion, on several cores)",
            ));
        }
    } else if workers > 1 {
        ir::atomic::add_locks(program);
        debug_assert_eq!(ir::verify::verify(program), Ok(()));
    }
    Ok(())
}

/// Machine code for a program with tables of these specifications.
#[derive(Clone)]
pub(crate) struct Code {
    specs: Vec<TableSpec>,
    compiled: Arc<Compiled>,
}

impl Code {
    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.compiled
    }
}

/// Refuses a program whose deparsers emit more bytes than buffers have room for.
fn check_headroom(program: &ir::Program) -> Result<(), ProgramError> {
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
    Err(ProgramError::new(ErrorKind::TooLarge, message).at(program, loc))
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // A poisoned lock means that a control operation panicked: a bug, but tables stay consistent between steps.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program with its tables and extern state.
pub struct Switch {
    program: ir::Program,
    /// The program before the passes, see [`Switch::set_lowered`].
    lowered: OnceLock<Arc<ir::Program>>,
    pub(crate) tables: Vec<Arc<Mutex<Table>>>,
    state: State,
    code: OnceLock<Result<Arc<Compiled>, p4jet_jit::Error>>,
    options: p4jet_jit::Options,
    batch_max: usize,
    start: Instant,
    queues: Arc<Queues>,
    packet_log: OnceLock<Arc<PacketLog>>,
    /// The program that the interpreter runs for logged packets.
    logged: OnceLock<Arc<ir::Program>>,
    /// For each worker, the packets that others hand to it; empty unless there are output queues and several workers.
    pub(crate) inboxes: Box<[Inbox<Handed, p4jet_jit::Copied>]>,
    /// True for each index with a worker. That worker changes its own counters without a lock.
    taken: Box<[AtomicBool]>,
}

impl Switch {
    /// Sets up tables, with the program's entries, and extern state, for one worker. The verifier must accept the
    /// program.
    pub fn new(program: ir::Program) -> Result<Arc<Switch>, ProgramError> {
        Self::with_options(program, p4jet_jit::Options::default(), 1)
    }

    /// Like [`Self::new`], with options of code generation and for `workers` workers.
    pub fn with_options(
        mut program: ir::Program,
        options: p4jet_jit::Options,
        workers: usize,
    ) -> Result<Arc<Switch>, ProgramError> {
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(ProgramError::unsupported(format!("{workers} workers: expected 1 to {WORKERS_MAX}")));
        }
        suit(&mut program, workers, &options)?;
        let tables = p4jet_interp::build_tables(&program)?;
        let tables = tables.into_iter().map(|table| Arc::new(Mutex::new(table))).collect();
        let state = p4jet_interp::build_state(&program, workers)?;
        Switch::bare(program, options, workers, tables, state).map(Arc::new)
    }

    /// Creates a switch whose clock starts now, without machine code, configured queues or a packet log. The program
    /// must be adapted to the options and the number of workers ([`suit`]).
    fn bare(
        program: ir::Program,
        options: p4jet_jit::Options,
        workers: usize,
        tables: Vec<Arc<Mutex<Table>>>,
        state: State,
    ) -> Result<Switch, ProgramError> {
        let inboxes = inboxes(workers, &program)?;
        let work = packet_work(&program);
        if !work.is_bounded {
            // The verifier finds this, but a release runs it only before the passes.
            let what = "internal error: a loop is neither bounded nor counted by turns (please report)";
            return Err(ProgramError::new(ErrorKind::Internal, what));
        }
        let batch_max = PACKET_WORK_MAX / work.units.max(1);
        Ok(Switch {
            program,
            batch_max: batch_max.clamp(1, BATCH_MAX as u64) as usize,
            lowered: OnceLock::new(),
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

    /// Creates a switch with another program and with the clock, engine options and number of workers of this one.
    /// `counted` turns the counting of lookups and drops on or off.
    pub(crate) fn successor(
        &self,
        mut program: ir::Program,
        counted: bool,
        lowered: Option<Arc<ir::Program>>,
        code: Option<Code>,
        tables: Vec<Arc<Mutex<Table>>>,
        state: State,
    ) -> Result<Arc<Switch>, ProgramError> {
        let options = p4jet_jit::Options { counted, ..self.options };
        suit(&mut program, self.workers(), &options)?;
        // Code for tables of other specifications does not fit.
        let fits =
            |code: &Code| code.specs.iter().zip(&tables).all(|(spec, table)| spec == lock(table).spec());
        let code = code.filter(fits).map_or_else(OnceLock::new, |code| Ok(code.compiled).into());
        Ok(Arc::new(Switch {
            lowered: lowered.map_or_else(OnceLock::new, OnceLock::from),
            code,
            start: self.start,
            queues: Arc::clone(&self.queues),
            packet_log: self.packet_log.clone(),
            ..Switch::bare(program, options, self.workers(), tables, state)?
        }))
    }

    /// Compiles machine code for a successor of this switch.
    pub(crate) fn code_for(
        &self,
        program: &ir::Program,
        counted: bool,
        cancel: &Cancel,
    ) -> Result<Code, ProgramError> {
        let options = p4jet_jit::Options { counted, ..self.options };
        let mut program = program.clone();
        suit(&mut program, self.workers(), &options)?;
        let specs: Vec<TableSpec> =
            p4jet_interp::build_tables(&program)?.iter().map(|table| table.spec().clone()).collect();
        let compiled = Compiled::new(&program, &specs, &Seen::default(), options, cancel)
            .map_err(|e| ProgramError::of_code(&program, &e))?;
        Ok(Code { specs, compiled: Arc::new(compiled) })
    }

    /// True if its workers count lookups and drops ([`crate::Worker::tallies`]).
    pub fn is_counted(&self) -> bool {
        self.options.counted
    }

    /// Returns the maximum number of packets in a received batch. A worker cannot leave a batch that it has begun. So the
    /// [`PacketWork::units`](p4jet_ir::turns::PacketWork) of a batch are at most [`PACKET_WORK_MAX`], or those of one packet if
    /// that is more.
    pub(crate) fn batch_max(&self) -> usize {
        self.batch_max
    }

    /// Returns the program.
    pub fn program(&self) -> &ir::Program {
        &self.program
    }

    /// Sets the program before the passes, if passes have transformed the one that runs: traces of it are more
    /// detailed. Later calls have no effect.
    pub fn set_lowered(&self, lowered: Arc<ir::Program>) {
        let shape = |p: &ir::Program| (p.tables.len(), p.actions.len(), p.instances.len());
        assert_eq!(shape(&lowered), shape(&self.program), "passes keep tables, actions and instances");
        let _ = self.lowered.set(lowered);
    }

    /// Returns the program set by [`Self::set_lowered`].
    pub(crate) fn lowered(&self) -> Option<&Arc<ir::Program>> {
        self.lowered.get()
    }

    /// Logs packets of workers created from now on, and of successors of this switch. Later calls have no effect.
    /// Threads that share the pipeline log nothing.
    pub fn log_packets(&self, log: PacketLog) {
        let _ = self.packet_log.set(Arc::new(log));
    }

    /// Returns a worker's share of the packet log, if packets are logged.
    pub(crate) fn logging(&self) -> Option<Logging> {
        let log = self.packet_log.get().filter(|_| self.threads().is_none())?;
        let program = self.logged.get_or_init(|| {
            let mut program = self.traced_program().clone();
            // This succeeds, as it did for the transformed program that workers run.
            match suit(&mut program, self.workers(), &self.options) {
                Ok(()) => Arc::new(program),
                Err(_) => Arc::new(self.program.clone()),
            }
        });
        Some(Logging::new(Arc::clone(log), Arc::clone(program)))
    }

    /// Returns the program that traces use.
    pub fn traced_program(&self) -> &ir::Program {
        self.lowered.get().map_or(&self.program, Arc::as_ref)
    }

    /// Locks a table for the control plane. Workers that run machine code do not wait for the lock.
    pub fn table(&self, id: ir::TableId) -> MutexGuard<'_, Table> {
        lock(&self.tables[id.index()])
    }

    /// Returns the extern state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the highest port number that the program can distinguish from others.
    pub fn port_max(&self) -> u32 {
        self.program.port_max()
    }

    /// Returns the microseconds since the switch started.
    pub fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Returns the nanoseconds since the switch started.
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Returns the output queues' configuration and statistics. The configuration has an effect only if the program
    /// is queued ([`ir::Program::is_queued`]).
    pub fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    /// True if it needs output queues ([`Queues::are_needed_by`]) but the program was lowered without them.
    pub fn needs_queues(&self) -> bool {
        self.queues.are_needed_by(&self.program) && !self.program.is_queued()
    }

    /// Returns the program's machine code, compiled on first use.
    pub fn code(&self) -> Result<Arc<Compiled>, p4jet_jit::Error> {
        self.code.get_or_init(|| self.compile(&Seen::default(), self.options).map(Arc::new)).clone()
    }

    /// Like [`Self::code`], unless `cancel` stops the compilation; that error is not kept.
    pub(crate) fn code_unless(&self, cancel: &Cancel) -> Result<Arc<Compiled>, p4jet_jit::Error> {
        if let Some(code) = self.code.get() {
            return code.clone();
        }
        let made = self.compile_unless(&Seen::default(), self.options, cancel).map(Arc::new);
        if cancel.is_cancelled() { made } else { self.code.get_or_init(|| made).clone() }
    }

    /// Compiles machine code for the observed packets and entries ([`Self::seen`]), for
    /// [`crate::Worker::change_code`].
    pub fn code_for_seen(&self, seen: &Seen) -> Result<Arc<Compiled>, p4jet_jit::Error> {
        self.compile(seen, self.options).map(Arc::new)
    }

    /// Like [`Self::code_for_seen`], unless `cancel` stops the compilation.
    pub(crate) fn code_for_seen_unless(
        &self,
        seen: &Seen,
        cancel: &Cancel,
    ) -> Result<Arc<Compiled>, p4jet_jit::Error> {
        self.compile_unless(seen, self.options, cancel).map(Arc::new)
    }

    /// Compiles the program to machine code.
    pub fn compile(&self, seen: &Seen, options: p4jet_jit::Options) -> Result<Compiled, p4jet_jit::Error> {
        self.compile_unless(seen, options, &Cancel::default())
    }

    /// Compiles machine code that measures the cost of each stage of the pipeline.
    pub(crate) fn measured_code(&self) -> Result<Arc<Compiled>, ProgramError> {
        let options = p4jet_jit::Options { measured: true, ..self.options };
        self.compile(&Seen::default(), options).map(Arc::new).map_err(|e| self.program_error(&e))
    }

    fn compile_unless(
        &self,
        seen: &Seen,
        options: p4jet_jit::Options,
        cancel: &Cancel,
    ) -> Result<Compiled, p4jet_jit::Error> {
        Compiled::new(&self.program, &self.table_specs(), seen, options, cancel)
    }

    pub(crate) fn table_specs(&self) -> Vec<TableSpec> {
        (0..self.tables.len()).map(|t| self.table(ir::TableId(t as u32)).spec().clone()).collect()
    }

    /// Returns the options of compilation.
    pub(crate) fn options(&self) -> p4jet_jit::Options {
        self.options
    }

    /// Creates the engine that runs this code for worker `index`.
    pub(crate) fn engine(&self, code: &Arc<Compiled>, index: usize) -> Box<Engine> {
        Box::new(Engine::new(Arc::clone(code), &self.program, &self.state, index))
    }

    /// Returns the number of threads that share the pipeline, if they do ([`p4jet_jit::Options::threads`]).
    pub fn threads(&self) -> Option<usize> {
        self.options.threads
    }

    /// Converts a code generation error, whose place in the program it looks up.
    pub fn program_error(&self, error: &p4jet_jit::Error) -> ProgramError {
        ProgramError::of_code(&self.program, error)
    }

    /// Returns the maximum number of workers at a time.
    pub fn workers(&self) -> usize {
        self.taken.len()
    }

    /// True while it has workers.
    pub(crate) fn has_workers(&self) -> bool {
        self.taken.iter().any(|taken| taken.load(Ordering::Acquire))
    }

    /// Reserves the index of a worker until the place is dropped.
    pub(crate) fn take_place(self: &Arc<Self>, index: usize) -> Result<Place, ProgramError> {
        let Some(taken) = self.taken.get(index) else {
            let last = self.workers() - 1;
            return Err(ProgramError::unsupported(format!(
                "worker {index}: the switch has workers 0 to {last}"
            )));
        };
        // The next holder must see all writes of the last one.
        if taken.swap(true, Ordering::Acquire) {
            return Err(ProgramError::unsupported(format!("worker {index}: it runs already")));
        }
        Ok(Place { switch: Arc::clone(self), index })
    }
}

/// Creates the inboxes between workers, if the program needs them.
fn inboxes(
    workers: usize,
    program: &ir::Program,
) -> Result<Box<[Inbox<Handed, p4jet_jit::Copied>]>, ProgramError> {
    if workers == 1 || !program.is_queued() {
        return Ok(Box::default());
    }
    let inboxes = (0..workers).map(|_| Inbox::new()).collect::<std::io::Result<_>>();
    inboxes.map_err(|e| ProgramError::new(ErrorKind::System, format!("no channel between workers: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn batches_are_small_where_each_packet_may_search_often() {
        let batch_max = |key: &str, turns: u32| {
            let text = format!(
                "program searches errors NoError, PacketTooShort error_packet_too_short 1 error_header_too_short 1 \
                 field x: 8 metadata field j: 16 temp action a() {{ n0: return }} \
                 table t {{ key k: 8 {key} action a default a() size 1 }} \
                 block c control {{ n0: j = 0x0:16 goto n1 n1: if ltu(j, {turns:#x}:16) then n2 else n4 \
                 n2: apply t(x) next n3 exit n3 n3: j = add(j, 0x1:16) goto n1 n4: return }} ingress c"
            );
            let program = ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(ir::verify::verify(&program), Ok(()));
            Switch::new(program).map(|switch| switch.batch_max()).unwrap()
        };
        assert_eq!([batch_max("ternary", 100), batch_max("exact", 5000)], [BATCH_MAX; 2]);
        assert_eq!(batch_max("ternary", 1000), 8);
        assert_eq!(batch_max("ternary", 5000), 1);
    }

    /// A pass that lost a turn would make packets that never end.
    #[test]
    fn a_loop_without_a_bound_is_refused() {
        let of = |node: &str| {
            let text = format!(
                "program loops errors NoError, PacketTooShort error_packet_too_short 1 error_header_too_short 1 \
                 drop_reasons \"loop ran too long\" field $turns: 32 temp turns $turns \
                 block c control {{ n0: {node} n1: drop \"loop ran too long\" }} ingress c"
            );
            let program = ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
            Switch::new(program).map(|_| ()).map_err(|error| (error.kind, error.message))
        };
        assert_eq!(of("turn n0 else n1"), Ok(()));
        let why = "internal error: a loop is neither bounded nor counted by turns (please report)";
        assert_eq!(of("goto n0"), Err((ErrorKind::Internal, why.to_string())));
    }

    /// 400 lookups that may each compare many entries, without a loop.
    #[test]
    fn batches_are_small_where_a_packet_searches_often_without_a_loop() {
        let batch_max = |lookups: usize| {
            let nodes: String =
                (0..lookups).map(|n| format!("n{n}: apply t(x) next n{0} exit n{0} ", n + 1)).collect();
            let text = format!(
                "program searches errors NoError, PacketTooShort error_packet_too_short 1 error_header_too_short 1 \
                 field x: 8 metadata action a() {{ n0: return }} \
                 table t {{ key k: 8 ternary action a default a() size 1 }} \
                 block c control {{ {nodes} n{lookups}: return }} ingress c"
            );
            let program = ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
            Switch::new(program).map(|switch| switch.batch_max()).unwrap()
        };
        assert_eq!([batch_max(1), batch_max(100)], [BATCH_MAX; 2]);
        assert_eq!(batch_max(400), 20);
    }

    /// The processor time of this thread.
    fn time() -> Duration {
        let text =
            std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
        let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
        Duration::from_nanos(ns.expect("the first number is the time in nanoseconds"))
    }

    /// A loop that calls the function as often as a packet may.
    fn loop_of(function: &ir::Function, large: bool) -> Arc<Switch> {
        use ir::Function as F;
        let on = match function {
            F::RegisterRead | F::RegisterWrite | F::RegisterLock | F::RegisterUnlock => " on r",
            F::Count => " on c",
            F::Meter => " on m",
            F::SendDigest => " on d",
            _ => "",
        };
        let (datum, count) = if large { ("w", 16) } else { ("x", 1) };
        let args: Vec<&str> = match function {
            F::Hash(hash) => {
                let (length, own) = if large { ("0x800:32", "0x40:32") } else { ("0x8:32", "0x40:32") };
                let data = [own, "o"].into_iter().chain([length, datum].into_iter().cycle().take(2 * count));
                let skip = |(i, _): &(usize, &str)| hash.pieces || i % 2 == 1;
                let data = data.enumerate().filter(skip).map(|(_, arg)| arg);
                hash.continues.then_some("o").into_iter().chain(data).collect()
            }
            F::Random => vec!["0x0:8", datum],
            F::LogMsg | F::SendDigest => vec![datum; count],
            F::Assert | F::Assume => vec!["0x1:1"],
            F::RegisterRead | F::Count | F::Meter => vec!["x"],
            F::RegisterWrite => vec!["x", datum],
            _ => vec![],
        };
        let more = match function {
            F::LogMsg if large => format!(" text \"{}{}\"", "{}".repeat(count), "x".repeat(60_000)),
            F::LogMsg => format!(" text \"{}\"", "{".repeat(60_000)),
            F::AtomicBegin => " call atomic.end()".to_string(),
            _ => String::new(),
        };
        let wide = matches!(function, F::Random | F::RegisterRead);
        let out = match function.result_count() {
            Some(1) if wide => "v = ",
            Some(1) => "o = ",
            _ => "",
        };
        // Reads the result, so that it is computed.
        let used = if wide { "v" } else { "o" };
        let text = format!(
            "program calls errors NoError, PacketTooShort error_packet_too_short 1 error_header_too_short 1 \
             field x: 8 metadata field o: 64 metadata field v: 2048 metadata field w: 2048 metadata \
             instance r register 2048 size 256 instance c counter packets_and_bytes size 256 instance m meter packets size 256 \
             instance d digest {{ x: 8 }} instance kept register 1 size 1 \
             block c control {{ n0: x = 0xff:8 w = not(0x0:2048) goto n1 \
             n1: {out}call {function}{on}({args}){more} call register.write on kept(0x0:8, eq({used}, 0x0:{bits})) \
             goto n1 }} ingress c",
            args = args.join(", "),
            bits = if wide { 2048 } else { 64 },
        );
        let mut program = ir::text::parse(&text).unwrap_or_else(|e| panic!("{function}: {e}"));
        ir::turns::count(&mut program);
        assert_eq!(ir::verify::verify(&program), Ok(()), "{function}");
        Switch::new(program).unwrap_or_else(|e| panic!("{function}: {e}"))
    }

    /// The work of each function is estimated so that a batch ends soon, however large its operands and frames are.
    #[test]
    fn a_batch_of_any_calls_ends_within_a_second() {
        let frame = vec![0xa5; 60_000];
        let mut slow = Vec::new();
        for function in ir::Function::all() {
            // The first two need entries; `Count` and `Meter` do the same. `AtomicBegin` stands for the last.
            use ir::Function::{AtomicEnd, CountDirect, MeterDirect};
            if matches!(function, CountDirect | MeterDirect | AtomicEnd) {
                continue;
            }
            for large in [false, true] {
                let switch = loop_of(&function, large);
                let mut worker =
                    switch.worker(EngineKind::Jit, 0).unwrap_or_else(|e| panic!("{function}: {e}"));
                let (start, packets) = (time(), 3);
                for _ in 0..packets {
                    let dropped = worker.process_one(0, &frame).dropped;
                    assert_eq!(dropped, [ir::turns::SPENT], "{function}");
                }
                let batch = (time() - start) * switch.batch_max() as u32 / packets;
                if batch > Duration::from_secs(1) {
                    slow.push(format!("{function}, large: {large}: {batch:?}"));
                }
            }
        }
        assert!(slow.is_empty(), "{slow:#?}");
    }
}
