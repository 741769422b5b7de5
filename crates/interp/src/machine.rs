//! Runs one packet.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use num_bigint::BigUint;
use num_traits::{ToPrimitive, Zero};
use p4jet_externs::Env;
use p4jet_ir::eval::{eval, wrap};
use p4jet_ir::turns::{COPIES_MAX, TURNS_MAX};
use p4jet_ir::{
    ActionId, Block, BlockId, BlockKind, Cfg, CopyFrame, DropReason, Effect, Expr, FieldId, FieldKind,
    HeaderId, Intrinsic, Keep, Loc, NodeId, Op, PacketCopy, PipelineHalf, Program, QUEUE_MAX, Queued,
    ReplicaList, SourceLoc, Stmt, TableId, Terminator,
};
use p4jet_tables::{Resolved, Table};

use crate::calls::Calls;
use crate::packet::{Frame, Output};
use crate::trace::{Absent, Cause, Matched, Since, Trace, TraceEvent, Written};
use crate::wording::is_nameless;

thread_local! {
    static PLACE: Cell<*const SourceLoc> = const { Cell::new(std::ptr::null()) };
}

/// Returns the source place of the statement that this thread is interpreting; null if it is interpreting none. A signal
/// handler may call this, and read the place before the thread continues.
pub fn interpreted() -> *const SourceLoc {
    PLACE.get()
}

/// The tables of a program, by [`TableId`], independent of how their owner stores them.
pub trait Tables {
    /// Passes one table to `look`.
    fn with(&self, table: TableId, look: &mut dyn FnMut(&Table));
}

impl Tables for [Table] {
    fn with(&self, table: TableId, look: &mut dyn FnMut(&Table)) {
        look(&self[table.index()]);
    }
}

impl Tables for [Arc<Mutex<Table>>] {
    fn with(&self, table: TableId, look: &mut dyn FnMut(&Table)) {
        look(&self[table.index()].lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Ingress port.
    pub port: u32,
    /// Its bytes.
    pub frame: &'a [u8],
    /// Microseconds since the process started.
    pub now_us: u64,
}

/// The result for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was sent.
    Sent {
        /// The egress port.
        port: u32,
        /// Its bytes.
        frame: Vec<u8>,
    },
    /// It was dropped.
    Dropped {
        /// The reason.
        reason: DropReason,
        /// Source place.
        at: Loc,
    },
    /// Its copies continue in its place.
    Done,
}

/// A copy that a packet created, waiting to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The pipeline half with which it starts.
    pub begin: PipelineHalf,
    /// The pipeline half that created it.
    pub made_in: PipelineHalf,
    /// The ingress port of the first packet.
    pub port: u32,
    /// Its bytes.
    pub frame: Vec<u8>,
    /// The output queue in which it waits: the port, and the number among the port's queues.
    pub queue: Option<(u32, u32)>,
    /// The queue metadata that egress sees; `None` if it did not wait in a queue.
    pub queued: Option<Queued>,
    /// Number of bits before the cursor.
    cursor: u64,
    /// The values of fields, by [`FieldId`].
    fields: Vec<BigUint>,
    /// The fields that the copy statement set; intrinsics do not overwrite them.
    set: Vec<FieldId>,
    /// For traces: the fields that determined its egress port.
    pub port_causes: Vec<Cause>,
}

/// The result of running a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The result for the packet itself.
    pub outcome: Outcome,
    /// The copies it created, in order.
    pub copies: Vec<Copied>,
    /// The number of copies beyond [`COPIES_MAX`], which it did not create.
    pub refused_copies: u64,
    /// The lookups in order: the table, the index of the action in its list (none: [`p4jet_tables::Action::NONE`]), and true
    /// if an entry matched.
    pub applied: Vec<(TableId, u32, bool)>,
    /// The nodes of blocks, in order.
    pub path: Vec<Visited>,
}

/// A node of a block that a packet visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visited {
    /// The index of the block among those of ingress, followed by those of egress.
    pub step: usize,
    /// The node.
    pub node: NodeId,
    /// If it applies a table: the action that ran.
    pub action: Option<ActionId>,
}

/// A program ready to run packets.
pub struct Machine<'a> {
    program: &'a Program,
    calls: Calls<'a>,
    /// [`Program::block_emitted_bytes_max`] of each block.
    emitted_bytes_max: Vec<u32>,
    /// See [`Machine::find_fast`].
    finds_fast: bool,
}

/// When this is dropped, the thread is no longer interpreting.
struct NoPlace;

impl Drop for NoPlace {
    fn drop(&mut self) {
        PLACE.set(std::ptr::null());
    }
}

impl<'a> Machine<'a> {
    /// Prepares a program that the verifier accepts. An extern function without an implementation is an error.
    pub fn new(program: &'a Program) -> Result<Machine<'a>, String> {
        let emitted_bytes_max = program.blocks.iter().map(|b| program.block_emitted_bytes_max(b)).collect();
        Ok(Machine { program, calls: Calls::new(program)?, emitted_bytes_max, finds_fast: false })
    }

    /// From now on, lookups that no trace records use the structures that machine code uses, whose time does not grow
    /// with the number of entries. By default all lookups use the tables' reference implementation, which shares
    /// nothing with those structures.
    pub fn find_fast(&mut self) {
        self.finds_fast = true;
    }

    /// Runs one packet to its end. `tables` are those of the program; `env` has the state of its extern instances.
    pub fn run(
        &self,
        tables: &(impl Tables + ?Sized),
        env: &mut Env,
        packet: &Arrival,
        mut trace: Option<&mut Trace>,
    ) -> Ran {
        if let Some(trace) = &mut trace {
            trace.add(TraceEvent::Arrived { port: packet.port, length: packet.frame.len() });
        }
        let start = Copied {
            begin: PipelineHalf::Ingress,
            made_in: PipelineHalf::Ingress,
            port: packet.port,
            frame: packet.frame.to_vec(),
            queue: None,
            queued: None,
            cursor: 0,
            fields: vec![BigUint::zero(); self.program.fields.len()],
            set: Vec::new(),
            port_causes: Vec::new(),
        };
        self.go(tables, env, start, packet.now_us, trace)
    }

    /// Runs a copy to its end.
    pub fn run_copy(
        &self,
        tables: &(impl Tables + ?Sized),
        env: &mut Env,
        copy: Copied,
        now_us: u64,
        mut trace: Option<&mut Trace>,
    ) -> Ran {
        if let Some(trace) = &mut trace {
            let queue = copy.queue.zip(copy.queued).map(|((port, _), queued)| (port, queued, now_us));
            trace.add(TraceEvent::CopyBegins { begin: copy.begin, length: copy.frame.len(), queue });
        }
        self.go(tables, env, copy, now_us, trace)
    }

    fn go(
        &self,
        tables: &(impl Tables + ?Sized),
        env: &mut Env,
        start: Copied,
        now_us: u64,
        trace: Option<&mut Trace>,
    ) -> Ran {
        let _none = NoPlace;
        let program = self.program;
        let mut run = Run {
            program,
            whole: start.set.is_empty() && start.begin == PipelineHalf::Ingress,
            calls: &self.calls,
            emitted_bytes_max: &self.emitted_bytes_max,
            finds_fast: self.finds_fast,
            output_bytes_max: 0,
            tables: &|table, look| tables.with(table, look),
            env,
            fields: start.fields,
            arrived: if start.begin == PipelineHalf::Ingress { start.frame.clone() } else { Vec::new() },
            frame: Frame { bytes: start.frame, cursor: start.cursor },
            output: Output::default(),
            port: start.port,
            half: start.begin,
            copies: Vec::new(),
            refused_copies: 0,
            applied: Vec::new(),
            path: Vec::new(),
            step: 0,
            recorder: trace.map(|trace| Recorder::new(trace, program, start.port_causes)),
        };
        run.env.set_now(now_us);
        let mut gone = None;
        if start.begin == PipelineHalf::Ingress {
            for (intrinsic, field) in &program.intrinsics {
                if start.set.contains(field) {
                    continue;
                }
                match intrinsic {
                    Intrinsic::IngressPort => run.put(*field, start.port.into()),
                    Intrinsic::PacketLength => run.put(*field, run.frame.bytes.len().into()),
                    Intrinsic::IngressTimestamp => run.put(*field, now_us.into()),
                    _ => {}
                }
            }
            gone = run.blocks(0, &program.ingress);
            run.half = PipelineHalf::Egress;
        }
        let queued = start.queued.unwrap_or(Queued { enqueued_us: now_us, ..Queued::default() });
        let gone = gone.or_else(|| {
            for (intrinsic, field) in &program.intrinsics {
                let set = start.begin == PipelineHalf::Egress && start.set.contains(field);
                if intrinsic.begin() == PipelineHalf::Egress && !set {
                    run.put(*field, queued.value(*intrinsic, now_us).into());
                }
            }
            run.blocks(program.ingress.len(), &program.egress)
        });
        let outcome = match gone {
            Some(Gone::Dropped { reason, at }) => {
                run.record_end(|run| TraceEvent::Dropped {
                    reason,
                    loc: at,
                    causes: run.causes_of_decision(),
                });
                Outcome::Dropped { reason, at }
            }
            Some(Gone::Done) => {
                run.record_end(|_| TraceEvent::Done);
                Outcome::Done
            }
            None => {
                let port = program.egress_port.map_or(BigUint::zero(), |f| run.fields[f.index()].clone());
                let port = wrap(port, 32).to_u32().expect("it was cut to 32 bits");
                run.record_end(|run| TraceEvent::Sent {
                    port,
                    length: run.frame.bytes.len(),
                    causes: run.causes_of_port(),
                });
                Outcome::Sent { port, frame: run.frame.bytes }
            }
        };
        Ran {
            outcome,
            copies: run.copies,
            refused_copies: run.refused_copies,
            applied: run.applied,
            path: run.path,
        }
    }
}

/// The reason and place of a packet's end.
enum Gone {
    Dropped { reason: DropReason, at: Loc },
    Done,
}

/// The end of a graph.
enum End {
    Return,
    Exit,
    Egress,
    Gone(Gone),
}

/// Returns where the program requested the drop that is being carried out, if it records that.
fn program_drop_place(program: &Program, fields: &[BigUint]) -> Option<Loc> {
    let place = fields[program.drop_place?.index()].to_u32().filter(|place| *place != 0)?;
    Some(Loc(place))
}

/// Access to the tables.
type WithTable<'a> = &'a dyn Fn(TableId, &mut dyn FnMut(&Table));

/// The running action and the table that runs it.
type Doer = Option<(ActionId, TableId)>;

/// One packet being processed.
struct Run<'a, 'e, 't> {
    program: &'a Program,
    /// True if it is run from its arrival, so that all writes happened here.
    whole: bool,
    calls: &'a Calls<'a>,
    emitted_bytes_max: &'a [u32],
    /// See [`Machine::find_fast`].
    finds_fast: bool,
    /// The limit for the current block.
    output_bytes_max: u32,
    tables: WithTable<'a>,
    env: &'a mut Env<'e>,
    fields: Vec<BigUint>,
    frame: Frame,
    /// The frame at the start of ingress.
    arrived: Vec<u8>,
    output: Output,
    /// The ingress port of the first packet.
    port: u32,
    half: PipelineHalf,
    copies: Vec<Copied>,
    refused_copies: u64,
    applied: Vec<(TableId, u32, bool)>,
    path: Vec<Visited>,
    /// The current block, as in [`Visited::step`].
    step: usize,
    recorder: Option<Recorder<'t>>,
}

impl Run<'_, '_, '_> {
    fn blocks(&mut self, first: usize, blocks: &[BlockId]) -> Option<Gone> {
        for (number, block) in blocks.iter().enumerate() {
            self.step = first + number;
            match self.block(*block) {
                End::Gone(gone) => return Some(gone),
                End::Egress => break,
                End::Return | End::Exit => {}
            }
        }
        None
    }

    fn block(&mut self, id: BlockId) -> End {
        let block = &self.program.blocks[id.index()];
        self.record(|_| TraceEvent::Block { block: id });
        self.output = Output::default();
        self.output_bytes_max = self.emitted_bytes_max[id.index()];
        let end = self.graph(&block.body, Some(block), None);
        if let End::Gone(_) = end {
            return end;
        }
        if block.kind == BlockKind::Deparser {
            let mut bytes = self.output.bytes();
            let header_bytes = bytes.len();
            let payload_bytes = self.frame.payload().len();
            bytes.extend_from_slice(self.frame.payload());
            self.frame = Frame { bytes, cursor: 0 };
            self.record(|_| TraceEvent::Deparsed { header_bytes, payload_bytes });
        }
        end
    }

    /// Runs the graph of a block or of an action.
    fn graph(&mut self, graph: &Cfg, block: Option<&Block>, doer: Doer) -> End {
        let mut at = NodeId(0);
        loop {
            let node = &graph.nodes[at.index()];
            let loc = node.terminator_loc;
            if block.is_some() {
                self.path.push(Visited { step: self.step, node: at, action: None });
            }
            if !node.label.is_empty() {
                self.record(|_| TraceEvent::Node { label: node.label.clone() });
            }
            for stmt in &node.stmts {
                match self.stmt(stmt, doer) {
                    Ok(()) => {}
                    Err(Stop::Rejected(code)) => {
                        self.reject(block, code, stmt.loc);
                        return End::Return;
                    }
                    Err(Stop::Dropped(reason)) => {
                        return End::Gone(Gone::Dropped { reason, at: stmt.loc });
                    }
                }
            }
            at = match &node.terminator {
                Terminator::Goto(next) => *next,
                Terminator::If { cond, then, otherwise } => {
                    let held = !self.eval(cond).is_zero();
                    self.decided(&[cond]);
                    self.record_branch(loc, |run| {
                        let condition = run.explained(cond).unwrap_or_else(|| cond.clone());
                        let fields = run.values(&run.fields_of(&[&condition]));
                        TraceEvent::Branch { condition, fields, held, loc }
                    });
                    if held { *then } else { *otherwise }
                }
                Terminator::Switch { value: selector, cases, default } => {
                    let value = self.eval(selector);
                    let case = cases.iter().find(|(case, _)| *case == value);
                    self.decided(&[selector]);
                    self.record_branch(loc, |run| TraceEvent::Switch {
                        selector: run.explained(selector).unwrap_or_else(|| selector.clone()),
                        value: value.clone(),
                        matched: case.is_some(),
                        loc,
                    });
                    case.map_or(*default, |(_, node)| *node)
                }
                Terminator::Turn { weight, next, spent } => {
                    let field = self.program.turns.expect("the verifier asks for it");
                    let taken = &mut self.fields[field.index()];
                    *taken += *weight;
                    if *taken > TURNS_MAX.into() {
                        self.decided(&[]);
                        *spent
                    } else {
                        *next
                    }
                }
                Terminator::Apply { table, keys, hit, action_run, entry, selector, next, exit } => {
                    let results = [*hit, *action_run, *entry];
                    let end = self.apply(*table, keys, results, selector.as_ref(), loc);
                    let number = self.applied.last().map_or(usize::MAX, |applied| applied.1 as usize);
                    let action = self.program.tables[table.index()].actions.get(number);
                    if let (Some(visited), Some(action)) = (self.path.last_mut(), action) {
                        visited.action = Some(action.action);
                    }
                    match end {
                        End::Return => *next,
                        End::Exit => *exit,
                        gone => return gone,
                    }
                }
                Terminator::Return => return End::Return,
                Terminator::Exit => return End::Exit,
                Terminator::Reject(code) => {
                    let code = self.eval(code);
                    self.record(|_| TraceEvent::Reject { code: code.clone(), loc });
                    self.reject(block, code, loc);
                    return End::Return;
                }
                Terminator::Drop(reason) => {
                    let asked = program_drop_place(self.program, &self.fields);
                    return End::Gone(Gone::Dropped {
                        reason: DropReason::Program(*reason),
                        at: asked.unwrap_or(loc),
                    });
                }
                Terminator::Done => return End::Gone(Gone::Done),
                Terminator::Egress => return End::Egress,
            };
        }
    }

    fn reject(&mut self, block: Option<&Block>, code: BigUint, loc: Loc) {
        let field = block.and_then(|b| b.error_field).expect("only parsers with an error field reject");
        self.set(field, code, loc, None, &[]);
    }

    fn apply(
        &mut self,
        id: TableId,
        keys: &[Expr],
        [hit, action_run, entry]: [Option<FieldId>; 3],
        selector: Option<&Expr>,
        loc: Loc,
    ) -> End {
        let keys_read: Vec<&Expr> = keys.iter().chain(selector).collect();
        let key_exprs = keys;
        let table = &self.program.tables[id.index()];
        let keys: Vec<BigUint> = keys.iter().map(|key| self.eval(key)).collect();
        let mut found = None;
        let detail = match &self.recorder {
            None if self.finds_fast => Detail::Row,
            None => Detail::Nothing,
            Some(recorder) if recorder.trace.is_full() && self.finds_fast => Detail::Row,
            Some(recorder) if recorder.trace.is_brief() || recorder.trace.is_full() => Detail::Result,
            Some(_) => Detail::Explanation,
        };
        // The low 64 bits of the selector; hashes have no more.
        let number = selector.map_or(0, |s| self.eval(s).iter_u64_digits().next().unwrap_or(0));
        (self.tables)(id, &mut |table| found = Some(look_up(table, &keys, number, detail)));
        let LookedUp { row, named, call, matched } = found.expect("`with` looks");
        if let Some(matched) = matched {
            self.record(|run| {
                let absent = |key| run.causes(&run.fields_of(&[key])).into_iter().find_map(|c| c.absent);
                let absent = key_exprs.iter().map(absent).collect();
                TraceEvent::Apply { table: id, keys: keys.clone(), absent, matched, loc }
            });
        } else if let Some(recorder) = &mut self.recorder {
            recorder.trace.leave_out();
        }
        let Resolved { member, action: call } = call;
        if let Some(group) = named.as_group() {
            self.record(|_| TraceEvent::Selected { group: Some(group), selector: number, member, loc });
        } else if member.is_some() {
            self.record(|_| TraceEvent::Selected { group: None, selector: 0, member, loc });
        }
        self.decided(&keys_read);
        let index = call.as_ref().map_or(p4jet_tables::Action::NONE, |call| call.action);
        self.applied.push((id, index, row.is_some()));
        if let Some(row) = row.filter(|_| table.idle_timeout && !self.env.is_dry()) {
            let now_us = self.env.now_us();
            (self.tables)(id, &mut |table| table.hit(row, now_us));
        }
        for instance in &table.direct {
            let bytes = self.frame.bytes.len();
            // Row 0 counts the packets that match no entry.
            self.env.count(instance.0, row.unwrap_or(0), bytes);
        }
        if let Some(f) = hit {
            self.set(f, u32::from(row.is_some()).into(), loc, None, &keys_read);
        }
        if let Some(f) = action_run {
            self.set(f, index.into(), loc, None, &keys_read);
        }
        if let Some(f) = entry {
            self.set(f, row.unwrap_or(0).into(), loc, None, &keys_read);
        }
        // A group without members: no action runs.
        let Some(call) = call else { return End::Return };
        let id = (table.actions[call.action as usize].action, id);
        let action = &self.program.actions[id.0.index()];
        self.record(|_| TraceEvent::Action { action: id.0, data: call.data.clone() });
        for (param, value) in action.params.iter().zip(call.data) {
            self.set(*param, value, loc, Some(id), &[]);
        }
        let end = self.graph(&action.body, None, Some(id));
        self.record(|_| TraceEvent::ActionEnd { action: id.0, exits: matches!(end, End::Exit) });
        end
    }

    fn stmt(&mut self, stmt: &Stmt, doer: Doer) -> Result<(), Stop> {
        let loc = stmt.loc;
        if let Some(place) = self.program.locs.get(loc.index()).filter(|place| place.line > 0) {
            PLACE.set(place);
        }
        match &stmt.op {
            Op::Set { dest, value } => {
                let number = self.eval(value);
                let origin = self.recorder.as_ref().and_then(|_| self.explained(value));
                self.set(*dest, number, loc, doer, &[value]);
                self.note_origin(*dest, origin);
            }
            Op::SetElement { column, index, value } => {
                let chosen = self.eval(index).to_usize().and_then(|i| column.get(i)).copied();
                if let Some(dest) = chosen {
                    let number = self.eval(value);
                    let origin = self.recorder.as_ref().and_then(|_| self.explained(value));
                    self.set(dest, number, loc, doer, &[index, value]);
                    self.note_origin(dest, origin);
                }
            }
            Op::Extract { header, varbit_length } => self.extract(*header, varbit_length.as_ref(), loc)?,
            Op::ExtractElement { headers, index, varbit_length } => {
                let chosen = self.eval(index).to_usize().and_then(|i| headers.get(i)).copied();
                if let Some(header) = chosen {
                    self.extract(header, varbit_length.as_ref(), loc)?;
                }
            }
            Op::Advance { bits } => {
                let bits = self.eval(bits);
                self.whole_bytes(&bits)?;
                self.need(None, &bits, loc)?;
                self.frame.cursor += bits.to_u64().expect("the frame has that many bits");
                self.record(|_| TraceEvent::Advance { bits, loc });
            }
            Op::Lookahead { dest } => {
                let width = self.program.width(*dest);
                self.need(None, &width.into(), loc)?;
                let value = self.frame.bits(0, width);
                self.record(|_| TraceEvent::Lookahead { dest: *dest, value: value.clone(), loc });
                self.set_untold(*dest, value, loc, doer, &[]);
            }
            Op::Emit { header } => {
                self.emit(*header, loc);
                if self.output.bits() > 8 * self.output_bytes_max as usize {
                    self.decided(&[]);
                    return Err(Stop::Dropped(DropReason::EmitsTooMuch));
                }
            }
            Op::Truncate { bytes } => {
                let parsed = self.frame.cursor.div_ceil(8) as usize;
                let bytes = self.eval(bytes).to_usize().unwrap_or(usize::MAX).max(parsed);
                self.frame.bytes.truncate(bytes);
                self.record(|run| TraceEvent::Truncated { length: run.frame.bytes.len(), loc });
            }
            Op::Copy(copy) => self.copy(copy, loc),
            Op::Extern { function, instance, args, outs, text } => {
                let site = self.calls.site(&stmt.op);
                let values: Vec<BigUint> = args.iter().map(|arg| self.eval(arg)).collect();
                let results = site.call(self.env, &self.frame, &values);
                if function.effect() == Effect::Marks {
                    return Ok(());
                }
                self.record(|run| TraceEvent::Extern {
                    function: function.to_string(),
                    instance: *instance,
                    args: args
                        .iter()
                        .zip(&values)
                        .map(|(arg, value)| (value.clone(), arg.width(run.program)))
                        .collect(),
                    outs: outs.iter().copied().zip(results.iter().cloned()).collect(),
                    text: text.clone(),
                    loc,
                });
                for (out, value) in outs.iter().zip(results) {
                    self.set_untold(*out, value, loc, doer, &args.iter().collect::<Vec<_>>());
                }
                if self.env.take_failed() {
                    self.decided(&args.iter().collect::<Vec<_>>());
                    return Err(Stop::Dropped(DropReason::AssertionFailed));
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, copy: &PacketCopy, loc: Loc) {
        let (frame, mut cursor) = match copy.frame {
            CopyFrame::Arrived => (self.arrived.clone(), 0),
            CopyFrame::Current => (self.frame.bytes.clone(), self.frame.cursor),
        };
        if copy.begin == PipelineHalf::Ingress {
            cursor = 0;
        }
        let mut fields = match &copy.keep {
            Keep::All => self.fields.clone(),
            Keep::Fields(kept) => {
                let mut fields = vec![BigUint::zero(); self.fields.len()];
                for field in kept {
                    fields[field.index()] = self.fields[field.index()].clone();
                }
                fields
            }
        };
        for (field, value) in &copy.set {
            fields[field.index()] = self.eval(value);
        }
        let set: Vec<FieldId> = copy.set.iter().map(|(field, _)| *field).collect();
        let queue = copy.queue.as_ref().map(|queue| {
            let port = self.eval(&queue.port).to_u32().unwrap_or(u32::MAX);
            (port, self.eval(&queue.number).to_u32().unwrap_or(u32::MAX).min(QUEUE_MAX))
        });
        let mut copied = Copied {
            begin: copy.begin,
            made_in: self.half,
            port: self.port,
            frame,
            queue,
            queued: None,
            cursor,
            fields,
            set,
            port_causes: self.causes_of_copy(copy),
        };
        let Some(replicas) = &copy.replicas else {
            self.create(copied);
            self.record(|_| TraceEvent::Copied { begin: copy.begin, to: None, loc });
            return;
        };
        let id = self.eval(&replicas.id);
        // No group or session has a number beyond 64 bits.
        let number = id.to_u64().unwrap_or(u64::MAX);
        let targets = match replicas.list {
            ReplicaList::Group => self.env.destinations().group(number),
            ReplicaList::Session => self.env.destinations().session(number),
        };
        let (class_of_service, bytes_max) = (targets.class_of_service, targets.bytes_max);
        let destinations: Vec<_> = targets.replicas().collect();
        if let Some(bytes_max) = bytes_max {
            copied.frame.truncate(bytes_max as usize);
            copied.cursor = copied.cursor.min(8 * copied.frame.len() as u64);
        }
        let ports = destinations.iter().map(|r| r.port).collect();
        self.record(|_| TraceEvent::Copied { begin: copy.begin, to: Some((replicas.list, id, ports)), loc });
        copied
            .set
            .extend([replicas.port, replicas.instance, replicas.class_of_service].into_iter().flatten());
        for (number, replica) in destinations.iter().enumerate() {
            if self.copies.len() >= COPIES_MAX {
                self.refused_copies += (destinations.len() - number) as u64;
                break;
            }
            let mut copied = copied.clone();
            for (field, value) in [
                (replicas.port, replica.port),
                (replicas.instance, replica.replication_id),
                (replicas.class_of_service, class_of_service),
            ] {
                if let Some(f) = field {
                    copied.fields[f.index()] = wrap(value.into(), self.program.width(f));
                }
            }
            copied.queue = copied.queue.map(|(_, number)| match replicas.class_of_service {
                Some(_) => (replica.port, class_of_service.min(QUEUE_MAX)),
                None => (replica.port, number),
            });
            self.create(copied);
        }
    }

    /// Adds a copy, unless the packet has created [`COPIES_MAX`].
    fn create(&mut self, copied: Copied) {
        match self.copies.len() < COPIES_MAX {
            true => self.copies.push(copied),
            false => self.refused_copies += 1,
        }
    }

    fn extract(&mut self, id: HeaderId, varbit_length: Option<&Expr>, loc: Loc) -> Result<(), Stop> {
        let program = self.program;
        let header = &program.headers[id.index()];
        let varbit_bits = varbit_length.map_or(BigUint::zero(), |bits| self.eval(bits));
        let mut needed = BigUint::zero();
        for f in &header.fields {
            let width = program.width(f.field);
            if f.varbit_length.is_none() {
                needed += width;
                continue;
            }
            self.whole_bytes(&varbit_bits)?;
            if varbit_bits > width.into() {
                self.record(|_| TraceEvent::VarbitTooLong {
                    header: id,
                    bits: varbit_bits.clone(),
                    bits_max: width,
                    loc,
                });
                return Err(Stop::Rejected(program.error_header_too_short.into()));
            }
            needed += &varbit_bits;
        }
        self.need(Some(id), &needed, loc)?;
        let varbit_bits = varbit_bits.to_u32().expect("it is at most a width");
        let at_bit = self.frame.cursor;
        for f in &header.fields {
            let width = if f.varbit_length.is_some() { varbit_bits } else { program.width(f.field) };
            let value = self.frame.bits(0, width);
            self.frame.cursor += u64::from(width);
            self.set_untold(f.field, value, loc, None, &[]);
            if let Some(length) = f.varbit_length {
                self.set_untold(length, varbit_bits.into(), loc, None, &[]);
            }
        }
        self.set_untold(header.valid, 1u32.into(), loc, None, &[]);
        self.record(|run| TraceEvent::Extract {
            header: id,
            at_bit,
            bits: run.frame.cursor - at_bit,
            fields: run.values(&header.fields.iter().map(|f| f.field).collect::<Vec<_>>()),
            loc,
        });
        Ok(())
    }

    /// Rejects unless this many bits are left.
    fn need(&mut self, header: Option<HeaderId>, bits: &BigUint, loc: Loc) -> Result<(), Stop> {
        let bits_available = self.frame.available();
        if *bits <= bits_available.into() {
            return Ok(());
        }
        self.record(|_| TraceEvent::TooShort { header, bits_needed: bits.clone(), bits_available, loc });
        Err(Stop::Rejected(self.program.error_packet_too_short.into()))
    }

    /// The cursor never leaves byte boundaries.
    fn whole_bytes(&self, bits: &BigUint) -> Result<(), Stop> {
        if (bits % 8u32).is_zero() {
            return Ok(());
        }
        Err(Stop::Rejected(self.program.error_invalid_argument.into()))
    }

    fn emit(&mut self, id: HeaderId, loc: Loc) {
        let header = &self.program.headers[id.index()];
        let valid = !self.fields[header.valid.index()].is_zero();
        let mut bits = 0;
        if valid {
            for f in &header.fields {
                let max = self.program.width(f.field);
                // A length beyond 32 bits is certainly too long.
                let width =
                    f.varbit_length.map_or(max, |l| self.fields[l.index()].to_u32().unwrap_or(max).min(max));
                self.output.append(&self.fields[f.field.index()], width);
                bits += u64::from(width);
            }
        }
        self.record(|_| TraceEvent::Emit { header: id, valid, bits, loc });
    }

    fn eval(&self, expr: &Expr) -> BigUint {
        eval(self.program, &self.fields, expr)
    }

    /// Sets a field to a value truncated to its width.
    fn put(&mut self, field: FieldId, value: BigUint) {
        self.fields[field.index()] = wrap(value, self.program.width(field));
    }

    /// Writes a field, and traces the write if the field has a name in the program.
    fn set(&mut self, field: FieldId, value: BigUint, loc: Loc, doer: Doer, reads: &[&Expr]) {
        let named = !matches!(
            self.program.fields[field.index()].kind,
            FieldKind::Temporary | FieldKind::ActionData(_)
        );
        if named {
            self.record(|run| TraceEvent::Set {
                field,
                old: run.fields[field.index()].clone(),
                new: value.clone(),
                loc,
            });
        }
        self.set_untold(field, value, loc, doer, reads);
    }

    /// Writes a field; the trace shows it as part of another step.
    fn set_untold(&mut self, field: FieldId, value: BigUint, loc: Loc, doer: Doer, reads: &[&Expr]) {
        debug_assert!(
            value.bits() <= u64::from(self.program.width(field)),
            "a value is wider than its field"
        );
        let reads = if self.recorder.is_some() { self.fields_of(reads) } else { Vec::new() };
        // Outside actions, the architecture writes it, using what the program wrote.
        if Some(field) == self.program.egress_port && doer.is_none() && !reads.is_empty() {
            let causes = self.causes(&reads);
            self.recorder.iter_mut().for_each(|recorder| recorder.port.clone_from(&causes));
        }
        let old = std::mem::replace(&mut self.fields[field.index()], value);
        if let Some(recorder) = &mut self.recorder {
            recorder.count += 1;
            let same = old == self.fields[field.index()];
            let write = &mut recorder.writes[field.index()];
            // If a write does not change the value, the earlier write remains responsible.
            if write.is_none() || !same || self.program.fields[field.index()].kind == FieldKind::Temporary {
                let written = Written { loc, by: doer };
                *write = Some(Write { written, reads, time: recorder.count, origin: None });
            }
        }
    }

    // The rest is needed only for traces.

    /// Adds an event to the trace, if there is one with room.
    fn record(&mut self, event: impl FnOnce(&Self) -> TraceEvent) {
        match &mut self.recorder {
            Some(recorder) if recorder.trace.is_full() => recorder.trace.leave_out(),
            _ => self.record_end(event),
        }
    }

    /// Adds the end of the packet to the trace, even if that is full.
    fn record_end(&mut self, event: impl FnOnce(&Self) -> TraceEvent) {
        let event = self.recorder.is_some().then(|| event(self));
        if let (Some(recorder), Some(event)) = (&mut self.recorder, event) {
            recorder.trace.add(event);
        }
    }

    /// Adds an event for a branch. A branch without a place, in a program that has places, is not in the program's text.
    fn record_branch(&mut self, loc: Loc, event: impl FnOnce(&Self) -> TraceEvent) {
        if loc != Loc(0) || self.program.locs.len() == 1 {
            self.record(event);
        }
    }

    /// Records the expression from which an unnamed field was computed.
    fn note_origin(&mut self, field: FieldId, origin: Option<Expr>) {
        if let Some(recorder) = &mut self.recorder
            && is_nameless(self.program, field)
            && let Some(write) = &mut recorder.writes[field.index()]
        {
            write.origin = origin;
        }
    }

    /// Returns the expression with unnamed fields replaced by the expressions from which they were computed, if these still
    /// have the same values. `None` if it becomes too large.
    fn explained(&self, expr: &Expr) -> Option<Expr> {
        let writes = &self.recorder.as_ref()?.writes;
        let written = |f: FieldId| writes[f.index()].as_ref();
        let mut expr = expr.clone();
        expr.rewrite(&mut |e| {
            let Expr::Field(field) = e else { return };
            let Some(Write { origin: Some(origin), time, .. }) = written(*field) else { return };
            let mut unchanged = true;
            origin.for_each_field(&mut |f| unchanged &= written(f).is_none_or(|w| w.time < *time));
            if unchanged {
                *e = origin.clone();
            }
        });
        let mut size = 0;
        expr.rewrite(&mut |_| size += 1);
        (size <= EXPLAINED_MAX).then_some(expr)
    }

    /// Records the fields that decided the packet's present path.
    fn decided(&mut self, exprs: &[&Expr]) {
        if self.recorder.is_some() {
            let fields = self.fields_of(exprs);
            self.recorder.iter_mut().for_each(|recorder| recorder.decision.clone_from(&fields));
        }
    }

    /// Returns the fields that the expressions read now, each once, in order.
    fn fields_of(&self, exprs: &[&Expr]) -> Vec<FieldId> {
        let mut fields = Vec::new();
        for expr in exprs {
            let mut expr = (*expr).clone();
            // Only the selected field of a column is read, or none if the index is too large.
            expr.rewrite(&mut |e| {
                if let Expr::Element { column, index } = &*e {
                    index.for_each_field(&mut |f| fields.push(f));
                    fields.extend(self.eval(index).to_usize().and_then(|i| column.get(i)));
                    // It may be part of another index.
                    *e = Expr::constant(self.eval(e), e.width(self.program));
                }
            });
            expr.for_each_field(&mut |f| fields.push(f));
        }
        let mut seen = HashSet::new();
        fields.retain(|f| seen.insert(*f));
        fields
    }

    fn values(&self, fields: &[FieldId]) -> Vec<(FieldId, BigUint)> {
        fields.iter().map(|f| (*f, self.fields[f.index()].clone())).collect()
    }

    fn causes_of_decision(&self) -> Vec<Cause> {
        self.recorder.as_ref().map(|recorder| self.causes(&recorder.decision)).unwrap_or_default()
    }

    /// Returns what determined the port. The architecture copies it from a field of the program, which may have changed
    /// since.
    fn causes_of_port(&self) -> Vec<Cause> {
        match &self.recorder {
            Some(recorder) if !recorder.port.is_empty() => recorder.port.clone(),
            _ => self.causes(self.program.egress_port.as_slice()),
        }
    }

    /// Returns what determines the egress port of a copy: the number of its group or session, or its port.
    fn causes_of_copy(&self, copy: &PacketCopy) -> Vec<Cause> {
        if self.recorder.is_none() || copy.begin == PipelineHalf::Ingress {
            return Vec::new();
        }
        let set_port = || copy.set.iter().find(|(field, _)| Some(*field) == self.program.egress_port);
        let value = match (&copy.replicas, &copy.queue) {
            (Some(replicas), _) => Some(&replicas.id),
            (None, Some(queue)) => Some(&queue.port),
            (None, None) => set_port().map(|(_, value)| value),
        };
        let fields = value.map_or_else(Vec::new, |value| self.fields_of(&[value]));
        match fields.is_empty() || fields == self.program.egress_port.as_slice() {
            true => self.causes_of_port(),
            false => self.causes(&fields),
        }
    }

    /// Returns the header of a field, if it is invalid.
    fn absent(&self, field: FieldId) -> Option<Absent> {
        let FieldKind::Header(header) = self.program.fields[field.index()].kind else { return None };
        let valid = self.program.headers[header.index()].valid;
        if !self.fields[valid.index()].is_zero() {
            return None;
        }
        let write = self.recorder.as_ref().and_then(|recorder| recorder.writes[valid.index()].as_ref());
        let since = match write {
            Some(write) => Since::Here(write.written.loc),
            None if self.whole => Since::Ever,
            None => Since::TheCopyBegan,
        };
        Some(Absent { header, since })
    }

    /// Returns the writes of these fields. A temporary is replaced by the fields from which it was computed.
    fn causes(&self, fields: &[FieldId]) -> Vec<Cause> {
        let Some(recorder) = &self.recorder else { return Vec::new() };
        let mut causes = Vec::new();
        let mut seen = HashSet::new();
        let mut open: Vec<FieldId> = fields.iter().rev().copied().collect();
        while let Some(field) = open.pop() {
            if !seen.insert(field) {
                continue;
            }
            let write = recorder.writes[field.index()].as_ref();
            match write {
                Some(write)
                    if self.program.fields[field.index()].kind == FieldKind::Temporary
                        && !write.reads.is_empty() =>
                {
                    open.extend(write.reads.iter().rev());
                }
                _ => causes.push(Cause {
                    field,
                    value: self.fields[field.index()].clone(),
                    written: write.map(|write| write.written),
                    absent: self.absent(field),
                    of_copy: !self.whole,
                }),
            }
        }
        causes
    }
}

/// The reason why a statement is the last one.
enum Stop {
    /// It fails with this error code, and the parser rejects.
    Rejected(BigUint),
    /// It drops the packet.
    Dropped(DropReason),
}

struct LookedUp {
    /// On a hit, the entry's row.
    row: Option<u32>,
    /// The action of the entry or the default action.
    named: p4jet_tables::Action,
    /// The result.
    call: Resolved,
    /// For traces.
    matched: Option<Matched>,
}

/// The detail of a lookup in a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Nothing, and the lookup uses the structure that machine code uses.
    Row,
    Nothing,
    Result,
    /// Includes the explanation, which requires examining all entries.
    Explanation,
}

fn look_up(table: &Table, keys: &[BigUint], selector: u64, detail: Detail) -> LookedUp {
    if detail == Detail::Row {
        let (row, named) = table.look_up_row(keys);
        let call = table.resolve(&named, selector);
        return LookedUp { row: (row != 0).then_some(row), named, call, matched: None };
    }
    let explained = || (detail == Detail::Explanation).then(|| table.explain(keys));
    let entry_of = |handle| table.get(handle).expect("the table gives handles of its entries");
    match table.lookup(keys) {
        Some(handle) => {
            let entry = entry_of(handle);
            let named = entry.action.clone();
            let call = table.resolve(&named, selector);
            let matched = (detail != Detail::Nothing).then(|| {
                let reason = explained().and_then(|explained| explained.hit).map(|hit| hit.reason);
                Matched::Hit { handle, entry, reason }
            });
            LookedUp { row: Some(table.row_of(handle)), named, call, matched }
        }
        None => {
            let matched = (detail != Detail::Nothing).then(|| {
                let nearest = explained().map_or_else(Vec::new, |explained| explained.nearest).into_iter();
                Matched::Miss { nearest: nearest.map(|near| (near.clone(), entry_of(near.handle))).collect() }
            });
            let named = table.default_action().clone();
            let call = table.resolve(&named, selector);
            LookedUp { row: None, named, call, matched }
        }
    }
}

/// Maximum size of an expression in a trace.
const EXPLAINED_MAX: usize = 100;

/// A trace, and the state needed to record it.
struct Recorder<'t> {
    trace: &'t mut Trace,
    /// The last write of each field.
    writes: Vec<Option<Write>>,
    /// The fields that the last branch, switch or lookup read.
    decision: Vec<FieldId>,
    /// The fields from which the egress port was last computed.
    port: Vec<Cause>,
    /// Number of writes so far.
    count: u64,
}

impl<'t> Recorder<'t> {
    fn new(trace: &'t mut Trace, program: &Program, port: Vec<Cause>) -> Recorder<'t> {
        let writes = program.fields.iter().map(|_| None).collect();
        Recorder { trace, writes, decision: Vec::new(), port, count: 0 }
    }
}

struct Write {
    written: Written,
    /// The fields from which the value was computed.
    reads: Vec<FieldId>,
    /// The time: [`Recorder::count`] including this write.
    time: u64,
    /// For an unnamed field, the expression that has its value.
    origin: Option<Expr>,
}
