//! A path through the program, with everything known about a packet that takes it.

use super::solve::{Bits, Goal, Known, Solver, support};
use super::work::{Held, Work, size};
use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};
use p4jet_externs::{CallSite, State};
use p4jet_ir::eval::{eval, ones, wrap};
use p4jet_ir::passes::fold_expr;
use p4jet_ir::{
    ActionId, BinaryOp, BlockId, Expr, Field, FieldId, FieldKind, HeaderId, NodeId, PipelineHalf, Program,
    ReplicaList, Replicas, TableId,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use crate::random::{Random, mix};

/// Maximum length of a packet in bytes.
pub(super) const FRAME_BYTES_MAX: u32 = 2048;
/// The received frame is a sequence of variables.
const WORD_BITS: u32 = 256;
const WORDS: u32 = FRAME_BYTES_MAX * 8 / WORD_BITS;
/// Its length in bytes.
const LENGTH: FieldId = FieldId(WORDS);
/// Its ingress port.
const PORT: FieldId = FieldId(WORDS + 1);
/// Number of payload bytes, if the frame then has at least Ethernet's minimum length.
const PAYLOAD_BYTES: u32 = 18;

/// Costs of fixing variables: there are plenty of other bits of the frame, but other ports require other captures.
mod cost {
    pub(super) const FRAME: u8 = 0;
    pub(super) const LENGTH: u8 = 1;
    pub(super) const DATA: u8 = 2;
    pub(super) const PORT: u8 = 3;
}

/// Returns an expression that is true if an index of this width is below a limit.
fn below(index: &Expr, limit: usize, width: u32) -> Expr {
    let limit = BigUint::from(limit);
    if limit > ones(width) {
        return Expr::constant(1u32, 1);
    }
    Expr::Binary(BinaryOp::LtU, Box::new(index.clone()), Box::new(Expr::Const { value: limit, width }))
}

/// A step that also appears in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Block(BlockId),
    Node(Rc<str>),
    Apply {
        table: TableId,
        hit: bool,
    },
    Action(ActionId),
    /// A copy starts.
    Copy,
}

/// An outcome of a decision: the graph, the node, and the number of the branch. The branches of a lookup are the actions,
/// then a miss.
pub(super) type Edge = (Graph, NodeId, u32);

/// Flag of an edge: the action is that of an existing entry.
pub(super) const THERE: u32 = 1 << 16;

/// Flag of an edge: the packet ends before the statement has enough bits.
pub(super) const SHORT: u32 = 1 << 17;

/// A control-flow graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Graph {
    Block(BlockId),
    Action(ActionId),
}

/// The required result of a lookup.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub table: TableId,
    pub keys: Vec<Expr>,
    pub found: Found,
}

#[derive(Clone, Debug)]
pub(super) enum Found {
    /// A new entry: the action's index in the table's list, and its data.
    New(u32, Vec<Expr>),
    /// An existing entry.
    Old,
    /// A miss.
    Miss,
    /// A miss; the default action must be set to this.
    Default(u32, Vec<Expr>),
}

/// The destination of copies of the packet: one port.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    pub list: ReplicaList,
    pub id: Expr,
    pub port: Expr,
    pub instance: Expr,
}

/// Variables whose values are computed from others.
struct Computed {
    how: How,
    outs: Vec<FieldId>,
}

enum How {
    /// A call of a pure function.
    Call(CallSite, Vec<Expr>),
    /// An expression that is too large to be repeated at each use.
    Value(Expr),
}

/// The bytes of a packet: those that deparsers emitted, and the offset of the rest in the received frame.
#[derive(Clone, Default)]
pub(super) struct Frame {
    prefix: Vec<Expr>,
    rest: u64,
}

/// A copy that has not started.
pub(super) struct Pending {
    pub begin: PipelineHalf,
    pub frame: Frame,
    pub cursor: u64,
    pub fields: Rc<Fields>,
    /// Fields that were set for it.
    pub set: Vec<FieldId>,
    /// The number of the group or session that determines its destination.
    pub replicas: Option<(Replicas, Expr)>,
}

pub(super) type Fields = HashMap<FieldId, Rc<Expr>>;

/// A packet being walked through the program, with variables for open values.
#[derive(Clone)]
pub(super) struct Trail {
    /// The steps of the whole search.
    pub work: Rc<Work>,
    held: Held,
    /// Only its fields count: the variables.
    pub vars: Rc<Program>,
    costs: Vec<u8>,
    /// Values of packet fields; 0 if absent.
    pub fields: Rc<Fields>,
    goals: Vec<Rc<Goal>>,
    computed: Vec<Rc<Computed>>,
    /// For variables that represent action data: seeds of their values, so that these are the same for all packets.
    data: Rc<HashMap<FieldId, u64>>,
    pub lookups: Vec<Rc<Lookup>>,
    pub copies: Vec<Rc<Copies>>,
    pub events: Vec<Event>,
    pub edges: Vec<Edge>,
    /// The visited nodes, in order.
    pub nodes: Vec<(Graph, NodeId)>,
    /// The number of edges and nodes before its first copy started.
    pub before_copies: Option<(usize, usize)>,
    /// True if further copies follow that are unknown.
    pub goes_on: bool,
    /// Copies, in the order in which they will start.
    pub pending: VecDeque<Rc<Pending>>,
    pub frame: Frame,
    /// The frame at the start of ingress.
    pub arrived: Frame,
    pub cursor: u64,
    pub output: Vec<Expr>,
    /// Number of bits of the received frame that were read.
    needed: u64,
    /// Headers extracted from the received frame, with their positions.
    pub headers: Vec<(HeaderId, u64)>,
    /// A packet that takes this path as far as `checked` says.
    witness: Rc<Vec<BigUint>>,
    /// Number of goals and computed variables that the witness satisfies.
    checked: (usize, usize),
}

/// A packet, and the required entries.
pub(super) struct Solution {
    pub port: u32,
    pub frame: Vec<u8>,
    /// For [`Trail::lookups`]: the values of the keys, and the action data if the entry or default must be created.
    pub lookups: Vec<(Vec<BigUint>, Vec<BigUint>)>,
    /// For [`Trail::copies`]: the number of the group or session, the port, the instance.
    pub copies: Vec<[u32; 3]>,
}

/// The reason why there is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsolved {
    /// No packet can take this path.
    Impossible,
    /// No packet was found.
    GaveUp,
}

impl std::fmt::Display for Unsolved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unsolved::Impossible => "its conditions contradict each other",
            Unsolved::GaveUp => "its conditions are not solved",
        })
    }
}

impl Trail {
    /// Creates a path; the ingress port has this many bits.
    pub fn new(port_width: u32, work: Rc<Work>) -> Trail {
        let mut trail = Trail {
            held: Held::new(&work),
            work,
            vars: Rc::default(),
            costs: Vec::new(),
            fields: Rc::default(),
            goals: Vec::new(),
            computed: Vec::new(),
            data: Rc::default(),
            lookups: Vec::new(),
            copies: Vec::new(),
            events: Vec::new(),
            edges: Vec::new(),
            nodes: Vec::new(),
            before_copies: None,
            goes_on: false,
            pending: VecDeque::new(),
            frame: Frame::default(),
            arrived: Frame::default(),
            cursor: 0,
            output: Vec::new(),
            needed: 0,
            headers: Vec::new(),
            witness: Rc::default(),
            checked: (0, 0),
        };
        (0..WORDS).for_each(|_| _ = trail.new_var(WORD_BITS, cost::FRAME));
        trail.new_var(32, cost::LENGTH);
        trail.new_var(port_width, cost::PORT);
        trail
    }

    /// Counts the bytes that it holds now.
    pub fn hold(&mut self) {
        self.held.set(self.bytes());
    }

    /// Returns about how many bytes a copy holds when it goes its own way.
    pub fn bytes(&self) -> usize {
        let steps = self.events.len() + self.edges.len() + self.nodes.len();
        let shared = self.goals.len() + self.computed.len() + self.lookups.len() + self.output.len();
        32 * steps + 64 * (shared + self.fields.len()) + 128 * self.costs.len()
    }

    /// Creates a variable.
    pub fn var(&mut self, width: u32) -> FieldId {
        self.new_var(width, cost::FRAME)
    }

    fn new_var(&mut self, width: u32, cost: u8) -> FieldId {
        let fields = &mut Rc::make_mut(&mut self.vars).fields;
        fields.push(Field { name: String::new(), width, kind: FieldKind::Temporary });
        self.costs.push(cost);
        FieldId(self.costs.len() as u32 - 1)
    }

    /// Creates a variable for action data.
    pub fn data_var(&mut self, width: u32, from: u64) -> Expr {
        let var = self.new_var(width, cost::DATA);
        Rc::make_mut(&mut self.data).insert(var, from);
        Expr::Field(var)
    }

    /// Returns the length of the packet in bytes at the start of a pass through ingress.
    pub fn length(&self) -> Expr {
        let prefix: u64 = self.frame.prefix.iter().map(|p| u64::from(p.width(&self.vars))).sum();
        let more = wrap((BigUint::one() << 32) + prefix / 8 - self.frame.rest / 8, 32);
        self.folded(Expr::Binary(
            BinaryOp::Add,
            Box::new(Expr::Field(LENGTH)),
            Box::new(Expr::Const { value: more, width: 32 }),
        ))
    }

    /// Requires that the received frame ends after the bits that were read, within the next `bits` bits.
    pub fn ask_short(&mut self, bits: u32) {
        let end = (self.cursor + u64::from(bits)).div_ceil(8);
        let compared =
            |a: Expr, b: Expr| Goal::holds(Expr::Binary(BinaryOp::LeU, Box::new(a), Box::new(b)), true);
        self.ask(compared(Expr::Field(LENGTH), Expr::constant(end - 1, 32)));
    }

    pub fn port(&self) -> Expr {
        Expr::Field(PORT)
    }

    pub fn set(&mut self, field: FieldId, value: Expr) {
        Rc::make_mut(&mut self.fields).insert(field, Rc::new(value));
    }

    pub fn field(&self, program: &Program, field: FieldId) -> Expr {
        let value = self.fields.get(&field).map(|value| (**value).clone());
        value.unwrap_or_else(|| Expr::constant(0u32, program.width(field)))
    }

    fn folded(&self, mut expr: Expr) -> Expr {
        fold_expr(&self.vars, &mut expr);
        expr
    }

    /// Returns an expression of the program as one over the variables.
    pub fn value(&self, program: &Program, expr: &Expr) -> Expr {
        let mut value = expr.clone();
        self.work.spend(size(&value, usize::MAX));
        value.rewrite(&mut |e| match e {
            // What is found without steps is never used, but must not grow.
            Expr::Field(_) | Expr::Element { .. } if self.work.is_spent() => {
                *e = Expr::constant(0u32, e.width(program));
            }
            Expr::Field(field) => {
                *e = self.field(program, *field);
                self.work.spend(size(e, usize::MAX));
            }
            Expr::Element { column, index } => {
                let index = self.folded((**index).clone());
                let width = index.width(&self.vars);
                let beyond = Expr::constant(0u32, program.width(column[0]));
                let inside = below(&index, column.len(), width);
                let chosen = self.chosen(program, column, 0, &index, width);
                *e = Expr::Select(Box::new(inside), Box::new(chosen), Box::new(beyond));
                self.work.spend(size(e, usize::MAX));
            }
            _ => {}
        });
        self.folded(value)
    }

    /// Returns the value of the field that the index selects; the indices of `fields` start with `first`.
    fn chosen(&self, program: &Program, fields: &[FieldId], first: usize, index: &Expr, width: u32) -> Expr {
        if let [field] = fields {
            return self.field(program, *field);
        }
        if let Expr::Const { value, .. } = index {
            let field = value.to_usize().and_then(|i| fields.get(i.checked_sub(first)?));
            return self.field(program, *field.unwrap_or(&fields[0]));
        }
        let (low, high) = fields.split_at(fields.len().div_ceil(2));
        let middle = first + low.len();
        let is_low = below(index, middle, width);
        let low = self.chosen(program, low, first, index, width);
        let high = self.chosen(program, high, middle, index, width);
        if low == high {
            return low;
        }
        Expr::Select(Box::new(is_low), Box::new(low), Box::new(high))
    }

    /// Returns a variable for an expression.
    pub fn computed(&mut self, value: Expr) -> Expr {
        let out = self.var(value.width(&self.vars));
        self.computed.push(Rc::new(Computed { how: How::Value(value), outs: vec![out] }));
        Expr::Field(out)
    }

    /// Returns the value of a condition if it, or its opposite, was required before.
    pub fn decided(&self, cond: &Expr) -> Option<bool> {
        let opposite = |a: &Expr, b: &Expr| match (a, b) {
            (Expr::Binary(BinaryOp::Eq, a1, a2), Expr::Binary(BinaryOp::Ne, b1, b2))
            | (Expr::Binary(BinaryOp::Ne, a1, a2), Expr::Binary(BinaryOp::Eq, b1, b2)) => {
                a1 == b1 && a2 == b2
            }
            _ => false,
        };
        self.work.spend(self.goals.len());
        self.goals.iter().find_map(|goal| match &**goal {
            Goal::Bits { expr, mask, value } if mask.is_one() => match expr {
                expr if expr == cond => Some(value.is_one()),
                expr if opposite(expr, cond) => Some(value.is_zero()),
                _ => None,
            },
            _ => None,
        })
    }

    pub fn goals(&self) -> usize {
        self.goals.len()
    }

    /// Returns the bits that goals from this one on depend on.
    pub fn bits_asked(&self, from: usize) -> Bits {
        let mut bits = Bits::default();
        for goal in &self.goals[from..] {
            support(&self.vars, goal.expr(), &mut |var, mask| bits.add(var, mask));
        }
        bits
    }

    pub fn ask(&mut self, goal: Goal) {
        self.goals.push(Rc::new(goal));
    }

    /// Returns `width` bits of the present packet, from bit `at` on. `None` if it would become too long.
    pub fn read(&mut self, at: u64, width: u32) -> Option<Expr> {
        let end = at + u64::from(width);
        self.work.spend(1 + self.frame.prefix.len());
        let mut found: Option<Expr> = None;
        let mut start = 0;
        let mut take = |piece: Expr| {
            found = Some(match found.take() {
                Some(before) => Expr::Concat(Box::new(before), Box::new(piece)),
                None => piece,
            });
        };
        for piece in &self.frame.prefix {
            let piece_width = u64::from(piece.width(&self.vars));
            let (from, to) = (at.max(start), end.min(start + piece_width));
            if from < to {
                let (hi, lo) = ((start + piece_width - from - 1) as u32, (start + piece_width - to) as u32);
                take(self.folded(Expr::Slice { value: Box::new(piece.clone()), hi, lo }));
            }
            start += piece_width;
        }
        if end > start {
            let mut from = at.max(start) - start + self.frame.rest;
            let to = end - start + self.frame.rest;
            if to > u64::from(FRAME_BYTES_MAX) * 8 {
                return None;
            }
            self.needed = self.needed.max(to);
            while from < to {
                let word = from / u64::from(WORD_BITS);
                let word_end = (word + 1) * u64::from(WORD_BITS);
                let (hi, lo) = ((word_end - from - 1) as u32, word_end.saturating_sub(to) as u32);
                let value = Box::new(Expr::Field(FieldId(word as u32)));
                take(Expr::Slice { value, hi, lo });
                from = word_end;
            }
        }
        found
    }

    /// Returns the position of the cursor in the received frame, if it is there.
    pub fn cursor_in_frame(&self) -> Option<u64> {
        let prefix: u64 = self.frame.prefix.iter().map(|p| u64::from(p.width(&self.vars))).sum();
        self.cursor.checked_sub(prefix).map(|at| at + self.frame.rest)
    }

    /// Puts the output of a deparser before the payload.
    pub fn deparsed(&mut self) {
        let mut skip = self.cursor;
        let mut rest = Vec::new();
        for piece in std::mem::take(&mut self.frame.prefix) {
            let width = u64::from(piece.width(&self.vars));
            if skip == 0 {
                rest.push(piece);
            } else if skip < width {
                let hi = (width - skip - 1) as u32;
                rest.push(Expr::Slice { value: Box::new(piece), hi, lo: 0 });
                skip = 0;
            } else {
                skip -= width;
            }
        }
        self.frame.rest += skip;
        self.frame.prefix = std::mem::take(&mut self.output);
        self.frame.prefix.extend(rest);
        self.cursor = 0;
    }

    /// Adds a call of a pure function: its results become variables.
    pub fn call(&mut self, site: CallSite, args: Vec<Expr>) -> Vec<Expr> {
        let outs: Vec<FieldId> = site.out_widths().iter().map(|w| self.var(*w)).collect();
        let how = How::Call(site, args);
        self.computed.push(Rc::new(Computed { how, outs: outs.clone() }));
        outs.into_iter().map(Expr::Field).collect()
    }

    /// Ensures that the witness takes the path so far.
    pub fn check(&mut self, base: &Base) -> Result<(), Unsolved> {
        let (goals, computed) = self.checked;
        self.witness(base);
        let holds = |goal: &Rc<Goal>| {
            self.work.spend(size(goal.expr(), usize::MAX));
            goal.holds_for(&eval(&self.vars, &self.witness, goal.expr()))
        };
        if !self.goals[goals..].iter().chain([&self.long_enough()]).all(holds) {
            // First as similar as possible to the last one, then entirely different.
            let fresh = |seed| self.defaults(base, seed, &HashSet::new(), None);
            let mut found = self.solve_from(base, (*self.witness).clone());
            if found.is_err() && computed < self.computed.len() {
                found = found.or_else(|_| self.solve_from(base, fresh(1)));
            }
            self.witness = Rc::new(found?.values);
        }
        self.checked = (self.goals.len(), self.computed.len());
        Ok(())
    }

    /// Completes the witness with values for all variables.
    fn witness(&mut self, base: &Base) {
        let (from, computed) = (self.witness.len(), self.checked.1);
        if from == self.costs.len() && computed == self.computed.len() {
            return;
        }
        let more = self.defaults_from(base, from, self.costs.len() as u64, &HashSet::new());
        let witness = Rc::make_mut(&mut self.witness);
        witness.extend(more);
        for computed in &self.computed[computed..] {
            self.work.spend(computed.size());
            let found = computed.run(&self.vars, witness, base.state);
            for (out, value) in computed.outs.iter().zip(found) {
                witness[out.index()] = value;
            }
        }
        self.checked.1 = self.computed.len();
    }

    /// Returns the value of an expression in some packet that takes the path so far.
    pub fn example(&mut self, base: &Base, expr: &Expr) -> Result<BigUint, Unsolved> {
        self.check(base)?;
        Ok(eval(&self.vars, &self.witness, expr))
    }

    /// Returns the goal that the frame contains everything that is read of it.
    fn long_enough(&self) -> Rc<Goal> {
        let (needed, length) = (Expr::constant(self.bytes_needed(), 32), Expr::Field(LENGTH));
        Rc::new(Goal::holds(Expr::Binary(BinaryOp::LeU, Box::new(needed), Box::new(length)), true))
    }

    fn bytes_needed(&self) -> u32 {
        (self.needed.div_ceil(8)) as u32
    }

    /// Returns values for variables without goals: random, or as usual for the headers. Action data are those of other
    /// packets, except for variables in `fresh`.
    fn defaults(
        &self,
        base: &Base,
        seed: u64,
        fresh: &HashSet<FieldId>,
        length: Option<u32>,
    ) -> Vec<BigUint> {
        self.work.spend(WORDS as usize);
        let mut random = Random::new(mix(seed));
        let length = length.unwrap_or((self.bytes_needed() + PAYLOAD_BYTES).clamp(60, FRAME_BYTES_MAX));
        let mut frame: Vec<u8> = Vec::with_capacity(FRAME_BYTES_MAX as usize);
        (0..FRAME_BYTES_MAX / 8).for_each(|_| frame.extend(random.next().to_be_bytes()));
        for (header, at) in &self.headers {
            dress(base.program, *header, *at, length, &mut frame);
        }
        let words = frame.chunks((WORD_BITS / 8) as usize).map(BigUint::from_bytes_be);
        let mut defaults: Vec<BigUint> = words.collect();
        defaults.extend([length.into(), base.port.into()]);
        defaults.extend(self.defaults_from(base, defaults.len(), random.next(), fresh));
        defaults
    }

    /// Returns the defaults of the variables from one on; for a witness, also those of the frame.
    fn defaults_from(&self, base: &Base, from: usize, seed: u64, fresh: &HashSet<FieldId>) -> Vec<BigUint> {
        if from == 0 {
            return self.defaults(base, seed, fresh, None);
        }
        let mut random = Random::new(mix(seed));
        let vars = (0..).map(FieldId).zip(&self.vars.fields).skip(from);
        let value = |(var, field): (FieldId, &Field)| {
            let data = self.data.get(&var);
            let shared = data.filter(|_| !fresh.contains(&var));
            let mut random = Random::new(shared.map_or_else(|| random.next(), |from| mix(*from)));
            let digits = (0..field.width.div_ceil(32)).map(|_| random.next() as u32).collect();
            let value = wrap(BigUint::new(digits), field.width);
            match data {
                // Ports, mostly.
                Some(_) if field.width <= 9 => {
                    let ports = if shared.is_some() { 4u32 } else { 250 };
                    wrap(1u32 + value % ports, field.width)
                }
                _ => value,
            }
        };
        vars.map(value).collect()
    }

    /// Returns the variables that represent action data in an expression.
    pub fn data_in(&self, expr: &Expr) -> Vec<FieldId> {
        let mut found = Vec::new();
        support(&self.vars, expr, &mut |var, _| {
            if self.data.contains_key(&var) {
                found.push(var);
            }
        });
        found
    }

    /// Returns all variables that represent action data.
    pub fn data(&self) -> impl Iterator<Item = FieldId> {
        self.data.keys().copied()
    }

    /// Finds a packet that takes this path. `seed` determines the bits without goals; the action data variables in
    /// `fresh` have values of their own.
    pub fn solve(&self, base: &Base, seed: u64, fresh: &HashSet<FieldId>) -> Result<Solution, Unsolved> {
        let default = self.defaults(base, seed, fresh, None);
        let default_length = default[LENGTH.index()].clone();
        let mut known = self.solve_from(base, default)?;
        if known.values[LENGTH.index()] != default_length {
            // Some goal concerns the length: repeated with headers that fit it.
            let length = known.values[LENGTH.index()].to_u32().filter(|length| *length <= FRAME_BYTES_MAX);
            known = self.solve_from(base, self.defaults(base, seed, fresh, length))?;
        }
        self.solution(base, &known)
    }

    /// Returns the packet that was observed to take this path, if it does.
    pub fn solve_as_seen(&mut self, base: &Base) -> Result<Solution, Unsolved> {
        self.check(base)?;
        let mut known = Known::new((*self.witness).clone());
        // None of it may change any more.
        known.fixed.iter_mut().zip(&self.vars.fields).for_each(|(fixed, field)| *fixed = ones(field.width));
        self.solution(base, &known)
    }

    fn solution(&self, base: &Base, known: &Known) -> Result<Solution, Unsolved> {
        let length = known.values[LENGTH.index()].to_u32().ok_or(Unsolved::GaveUp)?;
        if length < self.bytes_needed() || length > FRAME_BYTES_MAX {
            return Err(Unsolved::GaveUp);
        }
        let mut frame = bytes(&known.values);
        frame.truncate(length as usize);
        let value = |expr: &Expr| eval(&self.vars, &known.values, expr);
        let lookups = self.lookups.iter().map(|lookup| {
            let data = match &lookup.found {
                Found::New(_, data) | Found::Default(_, data) => data.iter().map(value).collect(),
                Found::Old | Found::Miss => Vec::new(),
            };
            (lookup.keys.iter().map(value).collect(), data)
        });
        let lookups = lookups.collect();
        let number = |expr: &Expr| value(expr).to_u32().ok_or(Unsolved::GaveUp);
        let copies = self.copies.iter().map(|c| Ok([number(&c.id)?, number(&c.port)?, number(&c.instance)?]));
        let copies = copies.collect::<Result<_, _>>()?;
        let port = known.values[PORT.index()].to_u32().ok_or(Unsolved::GaveUp)?;
        // Checksums that the program does not check are also correct.
        let checked = bytes(&known.fixed);
        for (header, at) in &self.headers {
            let at = (at / 8) as usize;
            if looks_like_ipv4(base.program, *header) && checked[at + 10..at + 12] == [0, 0] {
                put_checksum(&mut frame, at);
            }
        }
        Ok(Solution { port, frame, lookups, copies })
    }

    fn solve_from(&self, base: &Base, values: Vec<BigUint>) -> Result<Known, Unsolved> {
        self.work.spend(2 * values.len());
        let mut solver = Solver::new(&self.vars, &self.costs, Known::new(values), &self.work);
        let solved = self.solve_with(base, &mut solver);
        match solved {
            true => Ok(solver.known),
            false if solver.gave_up || self.work.is_spent() => Err(Unsolved::GaveUp),
            false => Err(Unsolved::Impossible),
        }
    }

    fn solve_with(&self, base: &Base, solver: &mut Solver) -> bool {
        // For each goal, the last of the computed variables in it.
        let computer: HashMap<FieldId, usize> = (0..)
            .zip(&self.computed)
            .flat_map(|(index, computed)| computed.outs.iter().map(move |out| (*out, index)))
            .collect();
        let mut goals: Vec<Vec<Rc<Goal>>> = vec![Vec::new(); self.computed.len() + 1];
        for goal in self.goals.iter().chain([&self.long_enough()]) {
            self.work.spend(size(goal.expr(), usize::MAX));
            let mut last = 0;
            support(&self.vars, goal.expr(), &mut |var, _| {
                last = last.max(computer.get(&var).map_or(0, |index| index + 1));
            });
            goals[last].push(Rc::clone(goal));
        }
        if !solver.solve(std::mem::take(&mut goals[0])) {
            return false;
        }
        for (computed, goals) in self.computed.iter().zip(&goals[1..]) {
            self.work.spend(4 * computed.size());
            if !goals.is_empty() {
                computed.suit(solver, goals, base.state);
            }
            // The arguments of functions are fixed, so that their results are known.
            let freeze = computed.args().iter().flat_map(|arg| solver.freeze(arg)).map(Rc::new).collect();
            if !solver.solve(freeze) {
                return false;
            }
            let found = computed.run(&self.vars, &solver.known.values, base.state);
            for (out, value) in computed.outs.iter().zip(found) {
                solver.known.values[out.index()] = value;
                solver.known.fixed[out.index()] = ones(self.vars.width(*out));
            }
            if !solver.solve(goals.clone()) {
                // Another argument may work.
                solver.gave_up = true;
                return false;
            }
        }
        true
    }
}

/// The state before any packet.
pub(super) struct Base<'a> {
    pub program: &'a Program,
    /// The extern state, on which functions may depend.
    pub state: &'a State,
    /// The ingress port of packets if the program does not test it.
    pub port: u32,
}

impl Computed {
    fn args(&self) -> &[Expr] {
        match &self.how {
            How::Call(_, args) => args,
            How::Value(value) => std::slice::from_ref(value),
        }
    }

    fn size(&self) -> usize {
        self.args().iter().map(|arg| size(arg, usize::MAX)).sum()
    }

    fn run(&self, vars: &Program, values: &[BigUint], state: &State) -> Vec<BigUint> {
        let mut args: Vec<BigUint> = self.args().iter().map(|arg| eval(vars, values, arg)).collect();
        match &self.how {
            How::Call(site, _) => {
                args = site.call_with_numbers(&mut state.env(0), &args);
                args
            }
            How::Value(_) => args,
        }
    }

    /// Changes the arguments of the results so that they satisfy goals, if possible. Other variables of the goals stay
    /// open.
    fn suit(&self, solver: &mut Solver, goals: &[Rc<Goal>], state: &State) {
        let vars = solver.vars;
        solver.work.spend(vars.fields.len());
        let before = solver.known.clone();
        let mut wanted = |results: Option<Vec<BigUint>>| {
            let known = &mut solver.known;
            for (out, value) in self.outs.iter().zip(results.iter().flatten()) {
                known.values[out.index()] = value.clone();
                known.fixed[out.index()] = ones(vars.width(*out));
            }
            let solved = solver.solve(goals.to_vec());
            let found = std::mem::replace(&mut solver.known, before.clone());
            solved.then(|| self.outs.iter().map(|out| found.values[out.index()].clone()).collect::<Vec<_>>())
        };
        if wanted(Some(self.run(vars, &before.values, state))).is_some() {
            return;
        }
        let Some(wanted) = wanted(None) else { return };
        match &self.how {
            How::Value(value) => {
                let mask = ones(value.width(vars));
                let goal = Goal::Bits { expr: value.clone(), mask, value: wanted[0].clone() };
                solver.solve(vec![Rc::new(goal)]);
            }
            // Any 16 open bits can produce any Internet checksum. Usually the last ones are the checksum itself.
            How::Call(_, args) => {
                let [wanted] = wanted.as_slice() else { return };
                if *wanted > ones(16) {
                    return;
                }
                let words = args.iter().rev().filter(|arg| arg.width(vars) == 16);
                for word in words {
                    let Some(rest) = self.with(solver, word, BigUint::zero(), state) else { continue };
                    // The sum of the inverted target and the present sum: modulo 2^16 - 1.
                    let sum = ones(16) - wanted + rest;
                    let sum = if sum > ones(16) { sum - ones(16) } else { sum };
                    // Zero has two representations.
                    let other = if sum.is_zero() { ones(16) } else { &sum % ones(16) };
                    for sum in [sum, other] {
                        if self.with(solver, word, sum.clone(), state).as_ref() == Some(wanted) {
                            let goal = Goal::Bits { expr: word.clone(), mask: ones(16), value: sum };
                            solver.solve(vec![Rc::new(goal)]);
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Returns the result for this value of an argument, if the value is possible.
    fn with(&self, solver: &mut Solver, arg: &Expr, value: BigUint, state: &State) -> Option<BigUint> {
        solver.work.spend(self.size() + solver.vars.fields.len());
        let before = solver.known.clone();
        let goal = Goal::Bits { expr: arg.clone(), mask: ones(arg.width(solver.vars)), value };
        let solved = solver.solve(vec![Rc::new(goal)]);
        let found = std::mem::replace(&mut solver.known, before);
        solved.then(|| self.run(solver.vars, &found.values, state).swap_remove(0))
    }
}

/// Returns the words of a frame as bytes.
fn bytes(words: &[BigUint]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_BYTES_MAX as usize);
    for word in &words[..WORDS as usize] {
        let bytes = word.to_bytes_be();
        frame.resize(frame.len() + (WORD_BITS / 8) as usize - bytes.len(), 0);
        frame.extend(bytes);
    }
    frame
}

fn widths(program: &Program, header: HeaderId) -> Vec<u32> {
    program.headers[header.index()].fields.iter().map(|f| program.width(f.field)).collect()
}

fn looks_like_ipv4(program: &Program, header: HeaderId) -> bool {
    let widths = widths(program, header);
    widths.starts_with(&[4, 4]) && widths.iter().sum::<u32>() == 160
}

/// Sets consistent lengths and versions in a header that looks like a known one.
fn dress(program: &Program, header: HeaderId, at_bit: u64, length: u32, frame: &mut [u8]) {
    let widths = widths(program, header);
    let bits: u32 = widths.iter().sum();
    let name = program.headers[header.index()].name.rsplit('.').next().unwrap_or_default().to_lowercase();
    let at = (at_bit / 8) as usize;
    let Some(bytes) = frame.get_mut(at..at + bits as usize / 8) else { return };
    let rest = (length as usize).saturating_sub(at) as u16;
    if widths == [48, 48, 16] {
        // Unicast, locally administered.
        for first in [0, 6] {
            bytes[first] = bytes[first] & 0xfc | 2;
        }
    } else if looks_like_ipv4(program, header) {
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&rest.to_be_bytes());
        bytes[6..9].copy_from_slice(&[0, 0, 64]);
    } else if widths.first() == Some(&4) && bits == 320 {
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&rest.saturating_sub(40).to_be_bytes());
        bytes[7] = 64;
    } else if name.contains("udp") && bits == 64 {
        bytes[4..6].copy_from_slice(&rest.to_be_bytes());
    } else if name.contains("vxlan") && bits == 64 {
        bytes[0] = 8;
    }
}

/// Sets the checksum of an IPv4 header without options, if the frame contains all of it.
fn put_checksum(frame: &mut [u8], at: usize) {
    let Some(ihl) = frame.get(at).map(|first| usize::from(first & 15) * 4) else { return };
    let Some(header) = frame.get_mut(at..at + ihl.max(20)) else { return };
    header[10..12].fill(0);
    let checksum = crate::checksum::Sum::default().add(header).checksum();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}
