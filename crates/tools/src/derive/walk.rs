//! Walks through the program with a packet that is still open.

use super::solve::Goal;
use super::trail::{Base, Copies, Edge, Event, Found, Graph, Lookup, Pending, SHORT, THERE, Trail};
use super::work::{Work, size};
use crate::random::mix;
use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};
use p4jet_dataplane::Switch;
use p4jet_externs::CallSite;
use p4jet_ir::eval::ones;
use p4jet_ir::{
    ActionId, BinaryOp, BlockId, BlockKind, Cfg, CopyFrame, Effect, Expr, FieldId, HeaderField, HeaderId,
    InstanceKind, Intrinsic, Keep, Node, NodeId, Op, PacketCopy, PipelineHalf, Program, ReplicaList, TableId,
    Terminator,
};
use p4jet_tables::KeyMatch;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// From one node of a graph to another.
type Stretch = (Graph, NodeId, NodeId);

/// Maximum number of nodes on the path of one packet.
const NODES_MAX: u32 = 100_000;
/// Larger expressions are computed once instead of repeated at each use.
const SIZE_MAX: usize = 200;
/// Maximum number of copies that are followed.
const COPIES_MAX: u32 = 4;
/// Maximum number of entries of a table that are examined.
const ENTRIES_MAX: usize = 1000;
/// Maximum number of entries of a table, for each action, for which packets are created.
const ENTRIES_EACH: usize = 2;

/// A packet and its position.
#[derive(Clone)]
pub(super) struct Walker {
    pub trail: Trail,
    /// Number of tables that may still follow before the next decision.
    pub score: usize,
    /// Index of the block among those of ingress and egress.
    block: usize,
    pub node: NodeId,
    /// The running action, the node where the block continues after it, and the one if it exits.
    pub action: Option<(ActionId, NodeId, NodeId)>,
    visits: Rc<HashMap<(Graph, NodeId), u32>>,
    nodes: u32,
    copies: u32,
    /// The path without the copy that is being followed.
    pub without_copy: Option<Rc<Trail>>,
}

/// The end of a walk.
pub(super) enum Next {
    /// At a decision: each branch.
    Fork(Vec<Walker>),
    /// At the end.
    End,
    /// The path cannot be followed any further, for this reason.
    Lost(String),
}

/// The shared knowledge of walkers.
pub(super) struct Map<'a> {
    pub program: &'a Program,
    /// The switch with the existing entries.
    pub switch: &'a Switch,
    pub base: Base<'a>,
    /// The steps of all walkers.
    pub work: Rc<Work>,
    /// The ingress port, if all packets have the same.
    pub port: Option<u32>,
    /// Maximum number of times that a packet may reach the same decision.
    pub visits_max: u32,
    /// Packets that end where the parser needs more bytes, one for each place.
    pub short: RefCell<Vec<Walker>>,
    pub short_seen: RefCell<HashSet<Edge>>,
    /// Fields that are set by nodes of a graph after one node but not after another.
    pub sets: RefCell<HashMap<Stretch, Rc<HashSet<FieldId>>>>,
}

type Result<T> = std::result::Result<T, String>;

impl<'a> Map<'a> {
    fn order(&self, block: usize) -> Option<BlockId> {
        let (ingress, egress) = (&self.program.ingress, &self.program.egress);
        ingress.iter().chain(egress).nth(block).copied()
    }

    /// The first block after the first parser.
    pub fn after_parser(&self) -> usize {
        let kind = |id: &BlockId| self.program.blocks[id.index()].kind;
        self.program.ingress.iter().position(|id| kind(id) == BlockKind::Parser).map_or(0, |at| at + 1)
    }

    pub fn start(&self) -> Walker {
        let port = self.program.intrinsics.iter().find(|(i, _)| *i == Intrinsic::IngressPort);
        let port_width = port.map_or(32, |(_, field)| self.program.width(*field));
        let mut trail = Trail::new(port_width, Rc::clone(&self.work));
        if self.port.is_none() && port_width < 32 {
            // v1model: the drop port is not a port.
            trail.ask(Goal::NotIn { expr: trail.port(), values: vec![ones(port_width)] });
        }
        let mut walker = Walker {
            trail,
            score: 0,
            block: 0,
            node: NodeId(0),
            action: None,
            visits: Rc::default(),
            nodes: 0,
            copies: 0,
            without_copy: None,
        };
        self.arrive(&mut walker, &[]);
        walker
    }

    /// Starts ingress. Fields in `set` keep their values.
    fn arrive(&self, walker: &mut Walker, set: &[FieldId]) {
        let trail = &mut walker.trail;
        trail.arrived = trail.frame.clone();
        trail.cursor = 0;
        for (intrinsic, field) in self.program.intrinsics.iter().filter(|(_, field)| !set.contains(field)) {
            let width = self.program.width(*field);
            let value = match (intrinsic, self.port) {
                (Intrinsic::IngressPort, Some(port)) => Expr::constant(port, width),
                (Intrinsic::IngressPort, None) => trail.port(),
                (Intrinsic::PacketLength, _) => match width {
                    32 => trail.length(),
                    33.. => Expr::ZeroExtend(Box::new(trail.length()), width),
                    _ => Expr::Slice { value: Box::new(trail.length()), hi: width - 1, lo: 0 },
                },
                // Traces start at time 0, with empty queues.
                _ => continue,
            };
            trail.set(*field, value);
        }
        self.enter(walker, 0);
    }

    /// Starts the next copy, if there is one.
    fn begin_copy(&self, walker: &mut Walker) -> bool {
        let Some(copy) = walker.trail.pending.front().cloned() else { return false };
        walker.trail.hold();
        let mut without = walker.trail.clone();
        without.goes_on = true;
        if walker.copies == COPIES_MAX {
            walker.trail = without;
            walker.trail.pending.clear();
            return false;
        }
        without.pending.clear();
        walker.without_copy = Some(Rc::new(without));
        walker.copies += 1;
        let trail = &mut walker.trail;
        trail.pending.pop_front();
        trail.before_copies.get_or_insert((trail.edges.len(), trail.nodes.len()));
        trail.events.push(Event::Copy);
        (trail.frame, trail.cursor, trail.fields) =
            (copy.frame.clone(), copy.cursor, Rc::clone(&copy.fields));
        let mut set = copy.set.clone();
        if let Some((replicas, id)) = &copy.replicas {
            set.extend([replicas.port, replicas.instance, replicas.class_of_service].into_iter().flatten());
            self.replicate(trail, replicas, id);
        }
        match copy.begin {
            PipelineHalf::Ingress => self.arrive(walker, &set),
            PipelineHalf::Egress => self.depart(walker, &set),
        }
        true
    }

    /// Makes the group or session send one copy to some port.
    fn replicate(&self, trail: &mut Trail, replicas: &p4jet_ir::Replicas, id: &Expr) {
        let width = id.width(&trail.vars);
        let number_max = match replicas.list {
            ReplicaList::Group => GROUP_MAX,
            ReplicaList::Session => SESSION_MAX,
        };
        let constant = |value: u32| Box::new(Expr::constant(value, width));
        if BigUint::from(number_max) < ones(width) {
            let at_most = Expr::Binary(BinaryOp::LeU, Box::new(id.clone()), constant(number_max));
            trail.ask(Goal::holds(at_most, true));
        }
        if replicas.list == ReplicaList::Group {
            let none = Expr::Binary(BinaryOp::Eq, Box::new(id.clone()), constant(0));
            trail.ask(Goal::holds(none, false));
        }
        let from = |what: u64| mix(u64::from(number_max) << 8 | what);
        let port_width = replicas.port.map_or(9, |field| self.program.width(field)).min(9);
        let port = trail.data_var(port_width, from(0));
        let instance_width = replicas.instance.map_or(1, |field| self.program.width(field)).min(16);
        let instance = match replicas.list {
            ReplicaList::Group => trail.data_var(instance_width, from(1)),
            ReplicaList::Session => Expr::constant(0u32, instance_width),
        };
        let class = Expr::constant(0u32, 1);
        let values = [&port, &instance, &class];
        for (field, value) in
            [replicas.port, replicas.instance, replicas.class_of_service].into_iter().zip(values)
        {
            let Some(field) = field else { continue };
            let (from, to) = (value.width(&trail.vars), self.program.width(field));
            let value = value.clone();
            trail.set(field, if from == to { value } else { Expr::ZeroExtend(Box::new(value), to) });
        }
        trail.copies.push(Rc::new(Copies { list: replicas.list, id: id.clone(), port, instance }));
    }

    /// Records a copy that will start when the packet has ended.
    fn copy(&self, trail: &mut Trail, copy: &PacketCopy) {
        let mut fields = match &copy.keep {
            Keep::All => (*trail.fields).clone(),
            Keep::Fields(kept) => {
                let value = |field: &FieldId| Some((*field, Rc::clone(trail.fields.get(field)?)));
                kept.iter().filter_map(value).collect()
            }
        };
        for (field, value) in &copy.set {
            fields.insert(*field, Rc::new(trail.value(self.program, value)));
        }
        let (frame, cursor) = match copy.frame {
            CopyFrame::Arrived => (trail.arrived.clone(), 0),
            CopyFrame::Current => (trail.frame.clone(), trail.cursor),
        };
        let replicas = copy.replicas.as_ref();
        trail.pending.push_back(Rc::new(Pending {
            begin: copy.begin,
            frame,
            cursor,
            fields: Rc::new(fields),
            set: copy.set.iter().map(|(field, _)| *field).collect(),
            replicas: replicas.map(|r| (r.clone(), trail.value(self.program, &r.id))),
        }));
    }

    fn enter(&self, walker: &mut Walker, block: usize) {
        (walker.block, walker.node, walker.action) = (block, NodeId(0), None);
        if let Some(id) = self.order(block) {
            walker.trail.events.push(Event::Block(id));
            walker.trail.output.clear();
        }
    }

    /// Starts egress. Fields in `set` keep their values.
    fn depart(&self, walker: &mut Walker, set: &[FieldId]) {
        // No packet waited in a queue.
        for (intrinsic, field) in &self.program.intrinsics {
            if intrinsic.begin() == PipelineHalf::Egress && !set.contains(field) {
                walker.trail.set(*field, Expr::constant(0u32, self.program.width(*field)));
            }
        }
        self.enter(walker, self.program.ingress.len());
    }

    fn leave(&self, walker: &mut Walker) {
        if let Some(id) = self.order(walker.block)
            && self.program.blocks[id.index()].kind == BlockKind::Deparser
        {
            walker.trail.deparsed();
        }
        match walker.block + 1 {
            next if next == self.program.ingress.len() => self.depart(walker, &[]),
            next => self.enter(walker, next),
        }
    }

    pub fn graph(&self, walker: &Walker) -> Option<(Graph, &'a Cfg)> {
        if let Some((action, ..)) = walker.action {
            return Some((Graph::Action(action), &self.program.actions[action.index()].body));
        }
        let id = self.order(walker.block)?;
        Some((Graph::Block(id), &self.program.blocks[id.index()].body))
    }

    /// Walks to the next decision, or to the start of block `until`.
    pub fn walk(&self, walker: &mut Walker, until: usize) -> Next {
        loop {
            let graph = if walker.block < until { self.graph(walker) } else { None };
            let Some((graph, body)) = graph else {
                if until == usize::MAX && self.begin_copy(walker) {
                    continue;
                }
                return Next::End;
            };
            if self.work.is_spent() {
                return Next::Lost("the search ended at its limit".to_string());
            }
            walker.nodes += 1;
            if walker.nodes > NODES_MAX {
                return Next::Lost("it loops".to_string());
            }
            let node = &body.nodes[walker.node.index()];
            self.work.spend(1 + node.stmts.len());
            walker.trail.nodes.push((graph, walker.node));
            if !node.label.is_empty() {
                walker.trail.events.push(Event::Node(node.label.as_str().into()));
            }
            match self.node(walker, graph, body, node) {
                Ok(None) => {}
                Ok(Some(next)) => return next,
                Err(why) => return Next::Lost(why),
            }
        }
    }

    fn node(&self, walker: &mut Walker, graph: Graph, body: &Cfg, node: &'a Node) -> Result<Option<Next>> {
        for (index, stmt) in (0..).zip(&node.stmts) {
            self.end_here(walker, (graph, walker.node, SHORT | index), &stmt.op);
            self.stmt(&mut walker.trail, &stmt.op)?;
        }
        let at = walker.node;
        let value = |trail: &Trail, expr: &Expr| trail.value(self.program, expr);
        match &node.terminator {
            // No path takes this many turns.
            Terminator::Goto(next) | Terminator::Turn { next, .. } => walker.node = *next,
            Terminator::If { cond, then, otherwise } => {
                let cond = value(&walker.trail, cond);
                let settled = match &cond {
                    Expr::Const { value, .. } => Some(!value.is_zero()),
                    open => walker.trail.decided(open),
                };
                if let Some(held) = settled {
                    walker.trail.edges.push((graph, at, u32::from(!held)));
                    walker.node = if held { *then } else { *otherwise };
                    return Ok(None);
                }
                self.visit(walker, graph)?;
                let branch = |held: bool, node: NodeId| {
                    let mut next = walker.clone();
                    (next.node, next.score) = (node, self.lookups_after(body, node));
                    next.trail.edges.push((graph, at, u32::from(!held)));
                    next.trail.ask(Goal::holds(cond.clone(), held));
                    next
                };
                // Most conditions without `else` concern unusual cases.
                return Ok(Some(Next::Fork(vec![branch(false, *otherwise), branch(true, *then)])));
            }
            Terminator::Switch { value: selector, cases, default } => {
                let selector = value(&walker.trail, selector);
                if let Expr::Const { value, .. } = &selector {
                    let case = cases.iter().position(|(case, _)| case == value);
                    walker.trail.edges.push((graph, at, case.unwrap_or(cases.len()) as u32));
                    walker.node = case.map_or(*default, |case| cases[case].1);
                    return Ok(None);
                }
                self.visit(walker, graph)?;
                let width = selector.width(&walker.trail.vars);
                let branch = |index: usize, node: NodeId, goal: Goal| {
                    let mut next = walker.clone();
                    (next.node, next.score) = (node, self.lookups_after(body, node));
                    next.trail.edges.push((graph, at, index as u32));
                    next.trail.ask(goal);
                    next
                };
                let mut branches = Vec::new();
                for (index, (case, node)) in cases.iter().enumerate() {
                    if self.work.is_spent() {
                        break;
                    }
                    let goal = Goal::Bits { expr: selector.clone(), mask: ones(width), value: case.clone() };
                    branches.push(branch(index, *node, goal));
                }
                let values: Vec<BigUint> = cases.iter().map(|(case, _)| case.clone()).collect();
                branches.push(branch(cases.len(), *default, Goal::NotIn { expr: selector.clone(), values }));
                return Ok(Some(Next::Fork(branches)));
            }
            Terminator::Apply { table, keys, hit, action_run, entry, next, exit, .. } => {
                let keys: Vec<Expr> = keys.iter().map(|key| value(&walker.trail, key)).collect();
                let results = [*hit, *action_run, *entry];
                self.visit(walker, graph)?;
                let branches = self.apply(walker, (graph, at), *table, &keys, results, (*next, *exit));
                return Ok(Some(Next::Fork(branches)));
            }
            Terminator::Return => match walker.action.take() {
                Some((_, next, _)) => walker.node = next,
                None => self.leave(walker),
            },
            Terminator::Exit => match walker.action.take() {
                Some((_, _, exit)) => walker.node = exit,
                None => self.leave(walker),
            },
            Terminator::Reject(code) => {
                let code = value(&walker.trail, code);
                self.reject(walker, code);
            }
            Terminator::Drop(_) | Terminator::Done => walker.block = usize::MAX,
            Terminator::Egress => self.depart(walker, &[]),
        }
        Ok(None)
    }

    /// Creates a packet that ends where the parser needs more bytes: one for each place.
    fn end_here(&self, walker: &mut Walker, edge: Edge, op: &Op) {
        let bits = match op {
            Op::Extract { header, .. } => {
                let fixed = |field: &&HeaderField| field.varbit_length.is_none();
                let fields = self.program.headers[header.index()].fields.iter().filter(fixed);
                fields.map(|field| self.program.width(field.field)).sum()
            }
            Op::ExtractElement { headers, .. } => {
                let fixed = |field: &&HeaderField| field.varbit_length.is_none();
                let fields = self.program.headers[headers[0].index()].fields.iter().filter(fixed);
                fields.map(|field| self.program.width(field.field)).sum()
            }
            Op::Lookahead { dest } => self.program.width(*dest),
            _ => return,
        };
        let in_first_pass = walker.copies == 0 && walker.block < self.after_parser();
        if bits == 0 || !in_first_pass || self.short_seen.borrow().contains(&edge) {
            return;
        }
        walker.trail.hold();
        let mut walker = walker.clone();
        walker.trail.ask_short(bits);
        if walker.trail.check(&self.base).is_err() {
            return;
        }
        self.short_seen.borrow_mut().insert(edge);
        walker.trail.edges.push(edge);
        let code = Expr::constant(self.program.error_packet_too_short, 32);
        self.reject(&mut walker, code);
        self.short.borrow_mut().push(walker);
    }

    fn reject(&self, walker: &mut Walker, code: Expr) {
        let block = self.order(walker.block).map(|id| &self.program.blocks[id.index()]);
        if let Some(field) = block.and_then(|b| b.error_field) {
            walker.trail.set(field, code);
        }
        self.leave(walker);
    }

    fn visit(&self, walker: &mut Walker, graph: Graph) -> Result<()> {
        let visits = Rc::make_mut(&mut walker.visits).entry((graph, walker.node)).or_default();
        *visits += 1;
        if *visits > self.visits_max {
            return Err(format!("it reaches the same decision more than {} times", self.visits_max));
        }
        // Its branches will be copies.
        walker.trail.hold();
        Ok(())
    }

    /// Returns the value of an expression, which is fixed if it is open.
    fn settle(&self, trail: &mut Trail, expr: &Expr) -> Result<BigUint> {
        let expr = trail.value(self.program, expr);
        if let Expr::Const { value, .. } = expr {
            return Ok(value);
        }
        let value = trail.example(&self.base, &expr).map_err(|why| why.to_string())?;
        let mask = ones(expr.width(&trail.vars));
        trail.ask(Goal::Bits { expr, mask, value: value.clone() });
        Ok(value)
    }

    /// Like [`Self::settle`], for a number of bits: whole bytes, at most `bits_max`.
    fn settle_bits(&self, trail: &mut Trail, expr: &Expr, bits_max: u32) -> Result<u32> {
        let bits = trail.value(self.program, expr);
        let width = bits.width(&trail.vars);
        if !matches!(bits, Expr::Const { .. }) {
            let mask = ones(width.min(3));
            trail.ask(Goal::Bits { expr: bits.clone(), mask, value: BigUint::zero() });
            if BigUint::from(bits_max) < ones(width) {
                let at_most =
                    Expr::Binary(BinaryOp::LeU, Box::new(bits), Box::new(Expr::constant(bits_max, width)));
                trail.ask(Goal::holds(at_most, true));
            }
        }
        self.settle(trail, expr)?.to_u32().ok_or_else(|| TOO_LONG.to_string())
    }

    /// Returns a possible value of an index, preferably that of an element; `None` if it is beyond all elements.
    fn settle_index(&self, trail: &mut Trail, index: &Expr, count: usize) -> Result<Option<usize>> {
        let open = trail.value(self.program, index);
        let (width, limit) = (open.width(&trail.vars), BigUint::from(count));
        if !matches!(open, Expr::Const { .. }) && limit <= ones(width) {
            let limit = Expr::Const { value: limit, width };
            trail.hold();
            let mut inside = trail.clone();
            inside.ask(Goal::holds(Expr::Binary(BinaryOp::LtU, Box::new(open), Box::new(limit)), true));
            if inside.check(&self.base).is_ok() {
                *trail = inside;
            }
        }
        Ok(self.settle(trail, index)?.to_usize().filter(|index| *index < count))
    }

    fn stmt(&self, trail: &mut Trail, op: &Op) -> Result<()> {
        match op {
            Op::Set { dest, value } => {
                let mut value = trail.value(self.program, value);
                if size(&value, SIZE_MAX) > SIZE_MAX {
                    value = trail.computed(value);
                }
                trail.set(*dest, value);
            }
            Op::SetElement { column, index, value } => {
                if let Some(index) = self.settle_index(trail, index, column.len())? {
                    return self.stmt(trail, &Op::Set { dest: column[index], value: value.clone() });
                }
            }
            Op::ExtractElement { headers, index, varbit_length } => {
                if let Some(index) = self.settle_index(trail, index, headers.len())? {
                    let varbit_length = varbit_length.clone();
                    return self.stmt(trail, &Op::Extract { header: headers[index], varbit_length });
                }
            }
            Op::Extract { header, varbit_length } => {
                let varbit = match varbit_length {
                    Some(length) => {
                        let fields = &self.program.headers[header.index()].fields;
                        let varbit = fields.iter().find(|field| field.varbit_length.is_some());
                        let bits_max = varbit.map_or(0, |field| self.program.width(field.field));
                        self.settle_bits(trail, length, bits_max)?
                    }
                    None => 0,
                };
                self.extract(trail, *header, varbit)?;
            }
            Op::Advance { bits } => {
                let bits = self.settle_bits(trail, bits, ADVANCE_BITS_MAX)?;
                if bits > 0 {
                    take(trail, bits)?;
                }
            }
            Op::Lookahead { dest } => {
                let value = trail.read(trail.cursor, self.program.width(*dest)).ok_or(TOO_LONG)?;
                trail.set(*dest, value);
            }
            Op::Emit { header } => self.emit(trail, *header)?,
            Op::Extern { function, instance, args, outs, text } => {
                let arg_widths: Vec<u32> = args.iter().map(|arg| arg.width(self.program)).collect();
                let out_widths: Vec<u32> = outs.iter().map(|out| self.program.width(*out)).collect();
                let args: Vec<Expr> = args.iter().map(|arg| trail.value(self.program, arg)).collect();
                let kind = instance.map(|i| &self.program.instances[i.index()].kind);
                let pure = function.effect() == Effect::Pure && !function.reads_payload();
                let found = match kind {
                    _ if pure
                        && let Ok(call) = CallSite::new(
                            function.clone(),
                            None,
                            arg_widths,
                            out_widths.clone(),
                            text.clone(),
                        ) =>
                    {
                        trail.call(call, args)
                    }
                    Some(InstanceKind::Register { initial, .. }) => {
                        let first = |width: &u32| Expr::constant(initial.clone(), *width);
                        out_widths.iter().map(first).collect()
                    }
                    // Meters are green.
                    Some(InstanceKind::Meter { .. } | InstanceKind::DirectMeter { .. }) => {
                        out_widths.iter().map(|width| Expr::constant(0u32, *width)).collect()
                    }
                    // A guess, which the run of the packet will check.
                    _ => out_widths.iter().map(|width| Expr::Field(trail.var(*width))).collect::<Vec<_>>(),
                };
                for (out, value) in outs.iter().zip(found) {
                    trail.set(*out, value);
                }
            }
            Op::Copy(copy) => self.copy(trail, copy),
            // Only a parser to which the packet returns reads the end of a frame.
            Op::Truncate { .. } => {}
        }
        Ok(())
    }

    fn extract(&self, trail: &mut Trail, header: HeaderId, varbit_bits: u32) -> Result<()> {
        let fields = &self.program.headers[header.index()];
        if let Some(at) = trail.cursor_in_frame()
            && at % 8 == 0
        {
            trail.headers.push((header, at));
        }
        for field in &fields.fields {
            let width = self.program.width(field.field);
            let Some(length) = field.varbit_length else {
                let value = take(trail, width)?;
                trail.set(field.field, value);
                continue;
            };
            if varbit_bits > width || !varbit_bits.is_multiple_of(8) {
                return Err(format!("{varbit_bits} bits are no length of a varbit of {width}"));
            }
            let value = match varbit_bits {
                0 => Expr::constant(0u32, width),
                bits if bits == width => take(trail, bits)?,
                bits => Expr::ZeroExtend(Box::new(take(trail, bits)?), width),
            };
            trail.set(field.field, value);
            trail.set(length, Expr::constant(varbit_bits, self.program.width(length)));
        }
        trail.set(fields.valid, Expr::constant(1u32, 1));
        Ok(())
    }

    fn emit(&self, trail: &mut Trail, header: HeaderId) -> Result<()> {
        let fields = &self.program.headers[header.index()];
        if self.settle(trail, &Expr::Field(fields.valid))?.is_zero() {
            return Ok(());
        }
        for field in &fields.fields {
            let value = trail.field(self.program, field.field);
            let Some(length) = field.varbit_length else {
                trail.output.push(value);
                continue;
            };
            let bits = self.settle(trail, &Expr::Field(length))?.to_u32().unwrap_or(0);
            if bits > 0 {
                trail.output.push(Expr::Slice { value: Box::new(value), hi: bits - 1, lo: 0 });
            }
        }
        Ok(())
    }

    /// Handles the possible results of a lookup: new entries, existing entries, a miss.
    fn apply(
        &self,
        walker: &Walker,
        (graph, at): (Graph, NodeId),
        id: TableId,
        keys: &[Expr],
        [hit, action_run, entry]: [Option<FieldId>; 3],
        (next, exit): (NodeId, NodeId),
    ) -> Vec<Walker> {
        let table = &self.program.tables[id.index()];
        let count = table.actions.len() as u32;
        let there = self.switch.table(id);
        let mut branches = Vec::new();
        let mut branch = |edge: u32,
                          is_hit: bool,
                          action: u32,
                          data: Data,
                          found: &dyn Fn(Vec<Expr>) -> Found,
                          goals: Vec<Goal>| {
            if self.work.is_spent() {
                return;
            }
            let mut walker = walker.clone();
            let trail = &mut walker.trail;
            trail.edges.push((graph, at, edge));
            goals.into_iter().for_each(|goal| trail.ask(goal));
            let Some(listed) = table.actions.get(action as usize) else { return };
            let code = &self.program.actions[listed.action.index()];
            let data: Vec<Expr> = match data {
                Data::Known(values) => {
                    let pairs = values.iter().zip(&code.params);
                    pairs.map(|(v, p)| Expr::constant(v.clone(), self.program.width(*p))).collect()
                }
                Data::Same(values) => values,
                Data::Open => (0..)
                    .zip(&code.params)
                    .map(|(i, p)| {
                        let from = mix(u64::from(listed.action.0) << 32 | i);
                        trail.data_var(self.program.width(*p), from)
                    })
                    .collect(),
            };
            for (param, value) in code.params.iter().zip(&data) {
                trail.set(*param, value.clone());
            }
            for (field, value) in [(hit, u32::from(is_hit)), (action_run, action), (entry, 0)] {
                if let Some(field) = field {
                    trail.set(field, Expr::constant(value, self.program.width(field)));
                }
            }
            trail.lookups.push(Rc::new(Lookup { table: id, keys: keys.to_vec(), found: found(data) }));
            trail.events.push(Event::Apply { table: id, hit: is_hit });
            trail.events.push(Event::Action(listed.action));
            walker.action = Some((listed.action, next, exit));
            walker.node = NodeId(0);
            // Existing entries, the first action, a miss.
            walker.score =
                if is_hit { (2 * (count - action) - u32::from(edge == action)) as usize } else { 0 };
            branches.push(walker);
        };
        // Equal keys have equal results.
        let before = walker.trail.lookups.iter().find(|lookup| lookup.table == id && lookup.keys == keys);
        let before = before.map(|lookup| lookup.found.clone());
        let may_be_old = matches!(before, None | Some(Found::Old));
        let data_of = |index: u32, as_default: bool| match &before {
            None => Some(Data::Open),
            Some(Found::New(same, data)) if !as_default && *same == index => Some(Data::Same(data.clone())),
            Some(Found::Default(same, data)) if as_default && *same == index => {
                Some(Data::Same(data.clone()))
            }
            Some(_) => None,
        };
        let mut made = vec![0; table.actions.len()];
        let mut single_values = Vec::new();
        for (_, entry) in there.entries().take(ENTRIES_MAX) {
            self.work.spend(1);
            if let [KeyMatch::Exact(value)] = entry.key.as_slice() {
                single_values.push(value.clone());
            }
            let Some(action) = there.resolve(&entry.action, 0).action else { continue };
            let Some(made) = made.get_mut(action.action as usize).filter(|made| **made < ENTRIES_EACH) else {
                continue;
            };
            *made += 1;
            if !may_be_old {
                continue;
            }
            let goals = entry.key.iter().zip(keys).flat_map(|(m, key)| matching(m, key, &walker.trail));
            let data = Data::Known(action.data);
            branch(action.action | THERE, true, action.action, data, &|_| Found::Old, goals.collect());
        }
        if !table.const_entries && !keys.is_empty() {
            for (index, listed) in (0..).zip(&table.actions) {
                if let Some(data) = data_of(index, false).filter(|_| !listed.default_only) {
                    branch(index, true, index, data, &|data| Found::New(index, data), Vec::new());
                }
            }
        }
        let default = there.default_action();
        if let Some(default) = there.resolve(default, 0).action
            && matches!(before, None | Some(Found::Miss))
        {
            let goals = match keys {
                [key] if !single_values.is_empty() => {
                    vec![Goal::NotIn { expr: key.clone(), values: single_values }]
                }
                _ => Vec::new(),
            };
            branch(count, false, default.action, Data::Known(default.data), &|_| Found::Miss, goals);
        }
        if keys.is_empty() && !table.const_default && table.profile.is_none() {
            for (index, listed) in (0..).zip(&table.actions) {
                if let Some(data) = data_of(index, true).filter(|_| !listed.table_only) {
                    let found = |data| Found::Default(index, data);
                    branch(count + 1 + index, false, index, data, &found, Vec::new());
                }
            }
        }
        branches
    }

    /// Returns the number of lookups that may follow a node in its graph.
    fn lookups_after(&self, body: &Cfg, node: NodeId) -> usize {
        self.work.spend(body.nodes.len() / 8);
        let mut seen = vec![false; body.nodes.len()];
        let mut work = vec![node];
        let mut count = 0;
        while let Some(at) = work.pop() {
            if std::mem::replace(&mut seen[at.index()], true) {
                continue;
            }
            let terminator = &body.nodes[at.index()].terminator;
            count += usize::from(matches!(terminator, Terminator::Apply { .. }));
            terminator.for_each_target(&mut |next| work.push(next));
        }
        count
    }
}

/// Data of an action to run.
enum Data {
    Known(Vec<BigUint>),
    /// The data of an earlier lookup.
    Same(Vec<Expr>),
    Open,
}

/// Maximum number of bits skipped in a packet.
const ADVANCE_BITS_MAX: u32 = 2048;

/// Maximum number of a multicast group or clone session in runtime commands.
const GROUP_MAX: u32 = 65_535;
const SESSION_MAX: u32 = 32_767;

const TOO_LONG: &str = "the packet would be too long";

/// Consumes bits of the packet.
fn take(trail: &mut Trail, bits: u32) -> Result<Expr> {
    let value = trail.read(trail.cursor, bits).ok_or(TOO_LONG)?;
    trail.cursor += u64::from(bits);
    Ok(value)
}

/// Returns the goals for a key field to match.
fn matching(key_match: &KeyMatch, key: &Expr, trail: &Trail) -> Vec<Goal> {
    let width = key.width(&trail.vars);
    let bits =
        |mask: BigUint, value: &BigUint| vec![Goal::Bits { expr: key.clone(), mask, value: value.clone() }];
    match key_match {
        KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => bits(ones(width), value),
        KeyMatch::Optional(None) => Vec::new(),
        KeyMatch::Lpm { value, prefix_len } => {
            let low = (BigUint::one() << (width - prefix_len)) - 1u32;
            bits(ones(width) ^ low, value)
        }
        KeyMatch::Ternary { value, mask } => bits(mask.clone(), value),
        KeyMatch::Range { lo, hi } => {
            let below =
                |a: Expr, b: Expr| Goal::holds(Expr::Binary(BinaryOp::LeU, Box::new(a), Box::new(b)), true);
            let constant = |value: &BigUint| Expr::Const { value: value.clone(), width };
            vec![below(constant(lo), key.clone()), below(key.clone(), constant(hi))]
        }
    }
}
