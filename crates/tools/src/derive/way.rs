//! A way through the program: what is known of a packet that takes it.

use super::solve::{Fixed, Goal, Solver, support, values};
use num_bigint::BigUint;
use num_traits::{ToPrimitive, Zero};
use p4jet_externs::{CallSite, State, limb_count};
use p4jet_ir::eval::{eval, ones, wrap};
use p4jet_ir::{ActionId, BlockId, Expr, Field, FieldId, FieldKind, HeaderId, NodeId, Program, TableId};
use std::collections::HashMap;

use crate::random::{Random, mix};

/// Bytes of the longest packet that is made.
pub(super) const FRAME_BYTES_MAX: u32 = 2048;
/// All bits of the frame as it arrives: the first bit is the highest.
const FRAME: FieldId = FieldId(0);
/// Its length in bytes.
const LENGTH: FieldId = FieldId(1);
/// Bytes behind what the parser takes, if the frame is not shorter than Ethernet's shortest then.
const PAYLOAD_BYTES: u32 = 18;

/// A step that a trace tells, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Block(BlockId),
    Node(String),
    Apply { table: TableId, hit: bool },
    Action(ActionId),
}

/// A decision: the graph, the node, which of its ways. Of lookups the ways are the actions, then a miss.
pub(super) type Edge = (Graph, NodeId, u32);

/// Part of an edge that says that the action is that of an entry which is there.
pub(super) const THERE: u32 = 1 << 16;

/// A control-flow graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Graph {
    Block(BlockId),
    Action(ActionId),
}

/// What a lookup has to find.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub table: TableId,
    pub keys: Vec<Expr>,
    pub found: Found,
}

#[derive(Clone, Debug)]
pub(super) enum Found {
    /// An entry to be made: the action's index in the table's list, its data.
    New(u32, Vec<Expr>),
    /// An entry that is there.
    Old,
    /// Nothing.
    Miss,
    /// Nothing; the default action is to be set to this.
    Default(u32, Vec<Expr>),
}

/// A call of a pure function.
#[derive(Clone)]
struct Call {
    site: CallSite,
    args: Vec<Expr>,
    outs: Vec<FieldId>,
}

/// A packet that is on its way, with variables for what is open.
#[derive(Clone)]
pub(super) struct Way {
    /// Only its fields count: the variables.
    pub vars: Program,
    /// What packet fields hold; 0 if not here.
    fields: HashMap<FieldId, Expr>,
    pub goals: Vec<Goal>,
    calls: Vec<Call>,
    /// Of variables that stand for action data: what their values follow from, so that they are the same for
    /// all packets.
    data: HashMap<FieldId, u64>,
    pub lookups: Vec<Lookup>,
    pub events: Vec<Event>,
    pub edges: Vec<Edge>,
    /// Where it was, in order.
    pub nodes: Vec<(Graph, NodeId)>,
    /// Bits before the frame's rest, put there by deparsers.
    prefix: Vec<Expr>,
    /// Where the rest begins in the frame as it arrived.
    rest: u64,
    pub cursor: u64,
    pub output: Vec<Expr>,
    /// Bits of the frame as it arrived that were read.
    needed: u64,
    /// Headers that were taken off the frame as it arrived, and where.
    pub headers: Vec<(HeaderId, u64)>,
}

/// A packet, and what it is to find.
pub(super) struct Solution {
    pub frame: Vec<u8>,
    /// By [`Way::lookups`]: the keys' values, and the action's data if the entry or default is to be made.
    pub lookups: Vec<(Vec<BigUint>, Vec<BigUint>)>,
}

impl Way {
    pub fn new() -> Way {
        let mut way = Way {
            vars: Program::default(),
            fields: HashMap::new(),
            goals: Vec::new(),
            calls: Vec::new(),
            data: HashMap::new(),
            lookups: Vec::new(),
            events: Vec::new(),
            edges: Vec::new(),
            nodes: Vec::new(),
            prefix: Vec::new(),
            rest: 0,
            cursor: 0,
            output: Vec::new(),
            needed: 0,
            headers: Vec::new(),
        };
        way.var(FRAME_BYTES_MAX * 8);
        way.var(32);
        way
    }

    /// A new variable.
    pub fn var(&mut self, width: u32) -> FieldId {
        let field = Field { name: String::new(), width, kind: FieldKind::Temporary };
        self.vars.fields.push(field);
        FieldId(self.vars.fields.len() as u32 - 1)
    }

    /// A new variable for action data.
    pub fn data_var(&mut self, width: u32, from: u64) -> Expr {
        let var = self.var(width);
        self.data.insert(var, from);
        Expr::Field(var)
    }

    pub fn length(&self) -> Expr {
        Expr::Field(LENGTH)
    }

    pub fn set(&mut self, field: FieldId, value: Expr) {
        self.fields.insert(field, value);
    }

    pub fn field(&self, program: &Program, field: FieldId) -> Expr {
        self.fields.get(&field).cloned().unwrap_or_else(|| Expr::constant(0u32, program.width(field)))
    }

    /// What an expression of the program is over the variables.
    pub fn value(&self, program: &Program, expr: &Expr) -> Expr {
        let mut value = expr.clone();
        value.rewrite(&mut |e| match e {
            Expr::Field(field) => *e = self.field(program, *field),
            Expr::Const { .. } => {}
            other => fold(&self.vars, other),
        });
        value
    }

    /// `width` bits of the packet as it is now, from the `at`-th. `None` if it would become too long.
    pub fn read(&mut self, at: u64, width: u32) -> Option<Expr> {
        let end = at + u64::from(width);
        let mut found: Option<Expr> = None;
        let mut start = 0;
        let mut take = |piece: Expr| {
            found = Some(match found.take() {
                Some(before) => Expr::Concat(Box::new(before), Box::new(piece)),
                None => piece,
            });
        };
        for piece in &self.prefix {
            let piece_width = u64::from(piece.width(&self.vars));
            let (from, to) = (at.max(start), end.min(start + piece_width));
            if from < to {
                let (hi, lo) = ((start + piece_width - from - 1) as u32, (start + piece_width - to) as u32);
                let mut part = Expr::Slice { value: Box::new(piece.clone()), hi, lo };
                fold(&self.vars, &mut part);
                take(part);
            }
            start += piece_width;
        }
        if end > start {
            let from = at.max(start) - start + self.rest;
            let to = end - start + self.rest;
            if to > u64::from(FRAME_BYTES_MAX) * 8 {
                return None;
            }
            self.needed = self.needed.max(to);
            let hi = FRAME_BYTES_MAX * 8 - 1 - from as u32;
            take(Expr::Slice {
                value: Box::new(Expr::Field(FRAME)),
                hi,
                lo: FRAME_BYTES_MAX * 8 - to as u32,
            });
        }
        found
    }

    /// Where the cursor is in the frame as it arrived, if it is there.
    pub fn cursor_in_frame(&self) -> Option<u64> {
        let prefix: u64 = self.prefix.iter().map(|p| u64::from(p.width(&self.vars))).sum();
        self.cursor.checked_sub(prefix).map(|at| at + self.rest)
    }

    /// What a deparser wrote stands before the payload.
    pub fn deparsed(&mut self) {
        let mut skip = self.cursor;
        let mut rest = Vec::new();
        for piece in std::mem::take(&mut self.prefix) {
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
        self.rest += skip;
        self.prefix = std::mem::take(&mut self.output);
        self.prefix.extend(rest);
        self.cursor = 0;
    }

    /// A call of a pure function: its results become variables.
    pub fn call(&mut self, site: CallSite, args: Vec<Expr>) -> Vec<Expr> {
        let outs: Vec<FieldId> = site.out_widths.clone().into_iter().map(|w| self.var(w)).collect();
        self.calls.push(Call { site, args, outs: outs.clone() });
        outs.into_iter().map(Expr::Field).collect()
    }

    /// Whether a packet that comes this far seems to exist.
    pub fn feasible(&self, program: &Program) -> bool {
        let defaults = self.defaults(program, 0, 0, None);
        Solver::new(&self.vars, &defaults).solve(self.goals.clone(), self.nothing()).is_some()
    }

    /// The value of an expression in some packet that comes this far.
    pub fn example(&self, program: &Program, expr: &Expr) -> Option<BigUint> {
        let defaults = self.defaults(program, 0, 0, None);
        let fixed = Solver::new(&self.vars, &defaults).solve(self.goals.clone(), self.nothing())?;
        Some(eval(&self.vars, &values(&defaults, &fixed), expr))
    }

    fn nothing(&self) -> Fixed {
        vec![(BigUint::zero(), BigUint::zero()); self.vars.fields.len()]
    }

    fn bytes_needed(&self) -> u32 {
        (self.needed.div_ceil(8)) as u32
    }

    /// What variables are that nothing asks anything of: random, and what the headers look like wants.
    fn defaults(&self, program: &Program, seed: u64, flavour: u64, length: Option<u32>) -> Vec<BigUint> {
        let mut random = Random::new(mix(seed));
        let length = length.unwrap_or((self.bytes_needed() + PAYLOAD_BYTES).clamp(60, FRAME_BYTES_MAX));
        let mut frame: Vec<u8> = (0..FRAME_BYTES_MAX).map(|_| random.next() as u8).collect();
        for (header, at) in &self.headers {
            dress(program, *header, *at, length, &mut frame);
        }
        let mut defaults = vec![BigUint::from_bytes_be(&frame), length.into()];
        for (var, field) in (0..).zip(&self.vars.fields).skip(2) {
            let mut random = match self.data.get(&FieldId(var)) {
                Some(from) => Random::new(mix(*from ^ flavour)),
                None => Random::new(random.next()),
            };
            let digits = (0..field.width.div_ceil(32)).map(|_| random.next() as u32).collect();
            let mut value = wrap(BigUint::new(digits), field.width);
            // Ports, mostly.
            if self.data.contains_key(&FieldId(var)) && field.width <= 9 {
                let ports = if flavour == 0 { 4u32 } else { 250 };
                value = wrap(1u32 + value % ports, field.width);
            }
            defaults.push(value);
        }
        defaults
    }

    /// A packet that goes this way. `seed` decides the bits that nothing asks anything of, `flavour` those of
    /// action data.
    pub fn solve(&self, program: &Program, state: &State, seed: u64, flavour: u64) -> Option<Solution> {
        let (mut defaults, mut fixed) = self.solve_with(program, state, (seed, flavour), None)?;
        let asked = values(&defaults, &fixed)[LENGTH.index()].to_u32()?;
        if defaults[LENGTH.index()] != asked.into() {
            // Some goal is about the length: once more with headers that fit it.
            (defaults, fixed) = self.solve_with(program, state, (seed, flavour), Some(asked))?;
        }
        let found = values(&defaults, &fixed);
        let length = found[LENGTH.index()].to_u32()?;
        if length < self.bytes_needed() || length > FRAME_BYTES_MAX {
            return None;
        }
        let mut bytes = found[FRAME.index()].to_bytes_be();
        let missing = FRAME_BYTES_MAX as usize - bytes.len();
        bytes.splice(0..0, std::iter::repeat_n(0, missing));
        bytes.truncate(length as usize);
        let value = |expr: &Expr| eval(&self.vars, &found, expr);
        let lookups = self.lookups.iter().map(|lookup| {
            let data = match &lookup.found {
                Found::New(_, data) | Found::Default(_, data) => data.iter().map(value).collect(),
                Found::Old | Found::Miss => Vec::new(),
            };
            (lookup.keys.iter().map(value).collect(), data)
        });
        let lookups = lookups.collect();
        // A checksum that the program does not look at is right, too.
        let checked = &fixed[FRAME.index()].0;
        for (header, at) in &self.headers {
            if looks_like_ipv4(program, *header) {
                let at = (at / 8) as usize;
                let word = FRAME_BYTES_MAX as usize * 8 - (at + 12) * 8;
                if (checked & (ones(16) << word)).is_zero() {
                    put_checksum(&mut bytes, at);
                }
            }
        }
        Some(Solution { frame: bytes, lookups })
    }

    fn solve_with(
        &self,
        program: &Program,
        state: &State,
        (seed, flavour): (u64, u64),
        length: Option<u32>,
    ) -> Option<(Vec<BigUint>, Fixed)> {
        let defaults = self.defaults(program, seed, flavour, length);
        let mut solver = Solver::new(&self.vars, &defaults);
        let called = |expr: &Expr| {
            let mut called = false;
            support(&self.vars, expr, &mut |var, _| {
                called |= self.calls.iter().any(|call| call.outs.contains(&var));
            });
            called
        };
        let (later, now): (Vec<Goal>, Vec<Goal>) = self.goals.iter().cloned().partition(|g| called(g.expr()));
        let mut fixed = solver.solve(now, self.nothing())?;
        // What functions are given is settled, so that their results are known.
        for call in &self.calls {
            let freeze = call.args.iter().flat_map(|arg| solver.freeze(arg, &fixed)).collect();
            fixed = solver.solve(freeze, fixed)?;
            let found = solver.values(&fixed);
            let args: Vec<BigUint> = call.args.iter().map(|arg| eval(&self.vars, &found, arg)).collect();
            for (out, value) in call.outs.iter().zip(run(&call.site, &args, state)) {
                fixed[out.index()] = (ones(self.vars.width(*out)), value);
            }
        }
        let fixed = solver.solve(later, fixed)?;
        Some((defaults, fixed))
    }
}

/// Folds an expression of constants into one.
fn fold(vars: &Program, expr: &mut Expr) {
    let constant = |e: &Expr| matches!(e, Expr::Const { .. });
    let folds = match &*expr {
        Expr::Const { .. } | Expr::Field(_) => false,
        Expr::Unary(_, a) | Expr::Slice { value: a, .. } => constant(a),
        Expr::ZeroExtend(a, _) | Expr::SignExtend(a, _) => constant(a),
        Expr::Binary(_, a, b) | Expr::Concat(a, b) => constant(a) && constant(b),
        Expr::Select(c, a, b) => constant(c) && constant(a) && constant(b),
    };
    if folds {
        let width = expr.width(vars);
        *expr = Expr::Const { value: eval(vars, &[], expr), width };
    }
}

fn run(site: &CallSite, args: &[BigUint], state: &State) -> Vec<BigUint> {
    let mut limbs = Vec::new();
    for (arg, width) in args.iter().zip(&site.arg_widths) {
        let end = limbs.len() + limb_count(*width);
        limbs.extend(arg.iter_u64_digits());
        limbs.resize(end, 0);
    }
    let mut outs = vec![0; site.out_widths.iter().map(|w| limb_count(*w)).sum()];
    (site.def.call)(&mut state.env(0), site, &limbs, &mut outs);
    let mut rest = outs.as_slice();
    let values = site.out_widths.iter().map(|width| {
        let (limbs, after) = rest.split_at(limb_count(*width));
        rest = after;
        let digits = limbs.iter().flat_map(|limb| [*limb as u32, (*limb >> 32) as u32]).collect();
        wrap(BigUint::new(digits), *width)
    });
    values.collect()
}

fn widths(program: &Program, header: HeaderId) -> Vec<u32> {
    program.headers[header.index()].fields.iter().map(|f| program.width(f.field)).collect()
}

fn looks_like_ipv4(program: &Program, header: HeaderId) -> bool {
    let widths = widths(program, header);
    widths.starts_with(&[4, 4]) && widths.iter().sum::<u32>() == 160
}

/// Gives a header that looks like a known one the lengths and versions that go with it.
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

/// The checksum of an IPv4 header without regard to options, if the frame has it all.
fn put_checksum(frame: &mut [u8], at: usize) {
    let Some(ihl) = frame.get(at).map(|first| usize::from(first & 15) * 4) else { return };
    let Some(header) = frame.get_mut(at..at + ihl.max(20)) else { return };
    header[10..12].fill(0);
    let checksum = crate::checksum::Sum::default().add(header).checksum();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}
