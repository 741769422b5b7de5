//! Finds values for which conditions hold.
//!
//! Conditions are IR expressions over variables. Requirements are propagated inwards: `concat(a, b) & 0xf == 3` requires
//! something of four bits of `b`, and at a variable bits become fixed. If there is a choice (`a` or `b`, less than, not
//! equal) some values are tried, starting with the present bits; for few bits, all values. So this solves equalities, masks
//! and ranges of packet fields, and arithmetic with constants; of two unknowns, one keeps its value.

use super::work::{Work, size};
use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};
use p4jet_ir::eval::{eval, ones, wrap};
use p4jet_ir::{BinaryOp, Expr, FieldId, Program, UnaryOp};
use std::rc::Rc;

/// A requirement on an expression.
#[derive(Clone, Debug)]
pub(super) enum Goal {
    /// The bits of `mask` are those of `value`.
    Bits { expr: Expr, mask: BigUint, value: BigUint },
    /// The value is none of these.
    NotIn { expr: Expr, values: Vec<BigUint> },
}

impl Goal {
    pub fn holds(cond: Expr, held: bool) -> Goal {
        Goal::Bits { expr: cond, mask: BigUint::one(), value: BigUint::from(u32::from(held)) }
    }

    /// True if it holds for this value of the expression.
    pub fn holds_for(&self, found: &BigUint) -> bool {
        match self {
            Goal::Bits { mask, value, .. } => ((found ^ value) & mask).is_zero(),
            Goal::NotIn { values, .. } => !values.contains(found),
        }
    }

    pub fn expr(&self) -> &Expr {
        let (Goal::Bits { expr, .. } | Goal::NotIn { expr, .. }) = self;
        expr
    }

    /// Returns the benefit of waiting until other goals have fixed more: the smallest goes first.
    fn rank(&self) -> u32 {
        use BinaryOp::*;
        match self {
            Goal::NotIn { .. } => 6,
            Goal::Bits { expr, value, .. } => match expr {
                // Between unknowns, because other goals may determine one of them.
                Expr::Binary(op, a, b) if op.is_comparison() && !is_constant(a) && !is_constant(b) => 4,
                Expr::Binary(LtU | LeU | LtS | LeS, ..) => 3,
                Expr::Binary(Eq, ..) if value.is_zero() => 3,
                Expr::Binary(Ne, ..) if !value.is_zero() => 3,
                Expr::Binary(Eq | Ne, ..) => 1,
                Expr::Binary(And | Or | Add | Sub | Mul | Xor | Shl | ShrU, ..) => 2,
                Expr::Binary(..) => 5,
                Expr::Select(..) => 2,
                _ => 0,
            },
        }
    }
}

/// The values of variables, and the bits that are fixed.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub fixed: Vec<BigUint>,
    pub values: Vec<BigUint>,
}

impl Known {
    /// Creates values without fixed bits.
    pub fn new(values: Vec<BigUint>) -> Known {
        Known { fixed: vec![BigUint::zero(); values.len()], values }
    }

    /// Fixes bits; false if they are already fixed to other values.
    pub fn fix(&mut self, var: FieldId, mask: &BigUint, value: &BigUint) -> bool {
        let (fixed, now) = (&mut self.fixed[var.index()], &mut self.values[var.index()]);
        let change = (&*now ^ value) & mask;
        if !(&change & &*fixed).is_zero() {
            return false;
        }
        *now ^= change;
        *fixed |= mask;
        true
    }
}

/// Maximum number of goals that a search examines.
const STEPS_MAX: u32 = 4000;
/// Up to this many open bits, all values are tried; otherwise only some.
const ENUMERATED_BITS_MAX: usize = 8;
const FLIPS_MAX: usize = 32;

pub(super) struct Solver<'a> {
    /// Only its fields are used: the variables.
    pub vars: &'a Program,
    /// The cost of fixing each variable, if another one would do.
    pub costs: &'a [u8],
    pub known: Known,
    /// The steps of the whole search.
    pub work: &'a Work,
    /// The changes, to undo them.
    trail: Vec<(FieldId, BigUint, BigUint)>,
    steps: u32,
    /// True if something was abandoned that may have solutions.
    pub gave_up: bool,
}

type Goals = Vec<Rc<Goal>>;

/// Bits of variables.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits(Vec<(FieldId, BigUint)>);

impl Bits {
    pub fn meet(&self, other: &Bits) -> bool {
        self.0.iter().any(|(var, mask)| other.0.iter().any(|(v, m)| v == var && !(mask & m).is_zero()))
    }

    pub fn add(&mut self, var: FieldId, mask: BigUint) {
        match self.0.iter_mut().find(|(v, _)| *v == var) {
            Some((_, all)) => *all |= mask,
            None => self.0.push((var, mask)),
        }
    }
}

/// The result for a goal.
enum Step {
    Fail,
    /// Replaced by these goals.
    Goals(Vec<Goal>),
    /// Replaced by one of these lists of goals; true if there are no others.
    Choice(Vec<Vec<Goal>>, bool),
    Fix(FieldId, BigUint, BigUint),
}

impl<'a> Solver<'a> {
    pub fn new(vars: &'a Program, costs: &'a [u8], known: Known, work: &'a Work) -> Solver<'a> {
        Solver { vars, costs, known, work, trail: Vec::new(), steps: 0, gave_up: false }
    }

    /// Fixes bits so that all goals hold; changes nothing if no solution is found.
    pub fn solve(&mut self, goals: Goals) -> bool {
        self.steps = 0;
        let found = self.search(goals);
        self.trail.clear();
        found.is_ok()
    }

    /// True if this search, or the one for all paths, has no steps left.
    fn has_ended(&self) -> bool {
        self.steps > STEPS_MAX || self.work.is_spent()
    }

    fn take_back(&mut self, to: usize) {
        for (var, fixed, value) in self.trail.drain(to..).rev() {
            self.known.fixed[var.index()] = fixed;
            self.known.values[var.index()] = value;
        }
    }

    /// On failure, returns the bits that goals require to be different.
    fn search(&mut self, goals: Goals) -> Result<(), Bits> {
        let begin = self.trail.len();
        let result = self.search_on(goals);
        if result.is_err() {
            self.take_back(begin);
        }
        result
    }

    fn search_on(&mut self, mut goals: Goals) -> Result<(), Bits> {
        loop {
            self.steps += 1;
            self.work.spend(1 + goals.len());
            if self.has_ended() {
                self.gave_up = true;
                return Err(Bits::default());
            }
            let Some(next) = (0..goals.len()).min_by_key(|g| goals[*g].rank()) else { return Ok(()) };
            let goal = goals.swap_remove(next);
            self.work.spend(4 * size(goal.expr(), usize::MAX));
            match self.step(&goal) {
                Step::Fail => return Err(self.bits_of(&goal)),
                Step::Goals(more) => goals.extend(more.into_iter().map(Rc::new)),
                Step::Fix(var, mask, value) => {
                    let (fixed, now) = (&self.known.fixed[var.index()], &self.known.values[var.index()]);
                    self.trail.push((var, fixed.clone(), now.clone()));
                    if !self.known.fix(var, &mask, &value) {
                        return Err(self.bits_of(&goal));
                    }
                }
                Step::Choice(choices, complete) => {
                    let own = self.bits_of(&goal);
                    let mut conflict = own.clone();
                    for choice in choices {
                        self.work.spend(goals.len() + choice.len());
                        let mut goals = goals.clone();
                        goals.extend(choice.into_iter().map(Rc::new));
                        let Err(why) = self.search(goals) else { return Ok(()) };
                        if self.has_ended() {
                            return Err(why);
                        }
                        // No bits of this goal were involved, so no other choice helps. (A choice that is always wrong
                        // involves no bits.)
                        if !why.0.is_empty() && !why.meet(&own) {
                            return Err(why);
                        }
                        why.0.into_iter().for_each(|(var, mask)| conflict.add(var, mask));
                    }
                    self.gave_up |= !complete;
                    return Err(conflict);
                }
            }
        }
    }

    /// Returns the bits that a goal depends on: if it fails, goals require them to be different.
    fn bits_of(&self, goal: &Goal) -> Bits {
        let mut bits = Bits::default();
        support(self.vars, goal.expr(), &mut |var, mask| bits.add(var, mask));
        bits
    }

    fn now(&self, expr: &Expr) -> BigUint {
        eval(self.vars, &self.known.values, expr)
    }

    /// Returns the value if no variable in it can change it any more.
    fn known(&self, expr: &Expr) -> Option<BigUint> {
        if let Expr::Const { value, .. } = expr {
            return Some(value.clone());
        }
        let mut all_fixed = true;
        support(self.vars, expr, &mut |var, mask| {
            all_fixed = all_fixed && &mask & &self.known.fixed[var.index()] == mask;
        });
        all_fixed.then(|| self.now(expr))
    }

    /// Returns the cost of fixing an expression: that of its most expensive variable that is not fixed yet.
    fn cost(&self, expr: &Expr) -> u8 {
        let mut cost = 0;
        support(self.vars, expr, &mut |var, mask| {
            if &mask & &self.known.fixed[var.index()] != mask {
                cost = cost.max(self.costs[var.index()]);
            }
        });
        cost
    }

    /// Returns goals that keep the present value of an expression.
    pub fn freeze(&self, expr: &Expr) -> Vec<Goal> {
        let mut goals = Vec::new();
        support(self.vars, expr, &mut |var, mask| {
            let value = &self.known.values[var.index()] & &mask;
            goals.push(Goal::Bits { expr: Expr::Field(var), mask, value });
        });
        goals
    }

    /// For operators without a rule: tries values, all of them if there are few.
    fn try_values(&mut self, goal: &Goal) -> Step {
        let mut choices = Vec::new();
        let complete = self.other_values(goal, &mut choices);
        Step::Choice(choices, complete)
    }

    /// Adds choices that make a goal true: the open bits unchanged, one of them changed or, if they are few, any of their values.
    /// Returns true if no other choice exists.
    fn other_values(&mut self, goal: &Goal, choices: &mut Vec<Vec<Goal>>) -> bool {
        let mut open: Vec<(FieldId, u64)> = Vec::new();
        support(self.vars, goal.expr(), &mut |var, mask| {
            let all = (&self.known.fixed[var.index()] & &mask) ^ mask;
            open.extend((0..all.bits()).filter(|bit| all.bit(*bit)).map(|bit| (var, bit)));
        });
        open.sort_unstable();
        open.dedup();
        if goal.holds_for(&self.now(goal.expr())) {
            choices.push(self.freeze(goal.expr()));
        }
        let complete = open.len() <= ENUMERATED_BITS_MAX;
        let flips: Vec<u64> = match complete {
            true => (1..1 << open.len()).collect(),
            false => {
                // For wide ones, some bits from each end.
                let step = open.len().div_ceil(FLIPS_MAX);
                open = open.into_iter().step_by(step).collect();
                (0..open.len()).map(|at| 1 << at).collect()
            }
        };
        self.work.spend(flips.len() * (4 + open.len() + size(goal.expr(), usize::MAX)));
        for flip in flips {
            let flipped = |known: &mut Known| {
                for (_, (var, bit)) in open.iter().enumerate().filter(|(at, _)| flip >> at & 1 == 1) {
                    let value = &mut known.values[var.index()];
                    value.set_bit(*bit, !value.bit(*bit));
                }
            };
            flipped(&mut self.known);
            if goal.holds_for(&self.now(goal.expr())) {
                choices.push(self.freeze(goal.expr()));
            }
            flipped(&mut self.known);
        }
        complete
    }

    /// For two unknowns: one keeps its value, preferably the more expensive one.
    fn either(&self, whole: &Goal, a: &Expr, b: &Expr) -> Step {
        let with = |kept: &Expr| {
            let mut goals = self.freeze(kept);
            goals.push(whole.clone());
            goals
        };
        let (dear, cheap) = if self.cost(a) > self.cost(b) { (a, b) } else { (b, a) };
        Step::Choice(vec![with(dear), with(cheap)], false)
    }

    fn is(&self, expr: &Expr, value: BigUint) -> Goal {
        Goal::Bits { expr: expr.clone(), mask: ones(expr.width(self.vars)), value }
    }

    fn step(&mut self, goal: &Goal) -> Step {
        let Goal::Bits { expr, mask, value } = goal else { return self.not_in(goal) };
        if mask.is_zero() {
            return Step::Goals(Vec::new());
        }
        match self.known(expr) {
            Some(found) if goal.holds_for(&found) => Step::Goals(Vec::new()),
            Some(_) => Step::Fail,
            None => self.bits(goal, expr, mask, value),
        }
    }

    fn bits(&mut self, whole: &Goal, expr: &Expr, mask: &BigUint, value: &BigUint) -> Step {
        let width = expr.width(self.vars);
        let full = *mask == ones(width);
        let goal = |expr: &Expr, mask: BigUint, value: BigUint| {
            let value = value & &mask;
            Step::Goals(vec![Goal::Bits { expr: expr.clone(), mask, value }])
        };
        match expr {
            Expr::Const { .. } | Expr::Element { .. } => Step::Fail,
            Expr::Field(var) => Step::Fix(*var, mask.clone(), value & mask),
            Expr::Slice { value: inner, lo, .. } => goal(inner, mask << *lo, value << *lo),
            Expr::Concat(high, low) => {
                let low_width = low.width(self.vars);
                let bits = ones(low_width);
                let (low_mask, low_value) = (mask & &bits, value & &bits);
                let low_goal = Goal::Bits { expr: (**low).clone(), mask: low_mask, value: low_value };
                let (high_mask, high_value) = (mask >> low_width, value >> low_width);
                let high = Goal::Bits { expr: (**high).clone(), mask: high_mask, value: high_value };
                Step::Goals(vec![low_goal, high])
            }
            Expr::ZeroExtend(inner, _) => {
                let inner_width = inner.width(self.vars);
                if !((value & mask) >> inner_width).is_zero() {
                    return Step::Fail;
                }
                goal(inner, wrap(mask.clone(), inner_width), wrap(value.clone(), inner_width))
            }
            Expr::SignExtend(inner, _) if full => {
                let inner_width = inner.width(self.vars);
                let low = wrap(value.clone(), inner_width);
                let constant = Expr::Const { value: low.clone(), width: inner_width };
                let back = eval(self.vars, &[], &Expr::SignExtend(Box::new(constant), width));
                if back != *value {
                    return Step::Fail;
                }
                goal(inner, ones(inner_width), low)
            }
            Expr::Unary(UnaryOp::Not, inner) => goal(inner, mask.clone(), value ^ mask),
            Expr::Unary(UnaryOp::Neg, inner) if full => {
                goal(inner, mask.clone(), wrap((BigUint::one() << width) - value, width))
            }
            Expr::Binary(op, a, b) => self.binary(whole, (*op, a, b), mask, value),
            Expr::Select(cond, a, b) => {
                let goals = |held: bool, expr: &Expr| {
                    let (expr, mask, value) = (expr.clone(), mask.clone(), value.clone());
                    vec![Goal::holds((**cond).clone(), held), Goal::Bits { expr, mask, value }]
                };
                // First with its present value.
                let (now, other) = (goals(true, a), goals(false, b));
                let choices = if self.now(cond).is_zero() { vec![other, now] } else { vec![now, other] };
                Step::Choice(choices, true)
            }
            _ => self.try_values(whole),
        }
    }

    fn binary(
        &mut self,
        whole: &Goal,
        (op, a, b): (BinaryOp, &Expr, &Expr),
        mask: &BigUint,
        value: &BigUint,
    ) -> Step {
        use BinaryOp::*;
        let width = whole.expr().width(self.vars);
        let full = *mask == ones(width);
        let (known_a, known_b) = (self.known(a), self.known(b));
        let one = |expr: &Expr, mask: BigUint, value: BigUint| {
            let value = value & &mask;
            Step::Goals(vec![Goal::Bits { expr: expr.clone(), mask, value }])
        };
        match op {
            Eq | Ne => {
                let equal = (op == Eq) != value.is_zero();
                match (known_a, known_b, equal) {
                    (_, Some(known), true) => Step::Goals(vec![self.is(a, known)]),
                    (Some(known), None, true) => Step::Goals(vec![self.is(b, known)]),
                    (_, Some(known), false) => not_this(a, known),
                    (Some(known), None, false) => not_this(b, known),
                    (None, None, _) => self.either(whole, a, b),
                }
            }
            LtU | LeU | LtS | LeS => self.compare(whole, (op, a, b), !value.is_zero()),
            And | Or if width == 1 => {
                // Both are required, or one suffices.
                let both = (op == And) != value.is_zero();
                let held = !value.is_zero();
                let goals = [a, b].map(|side| Goal::holds(side.clone(), held));
                if both {
                    return Step::Goals(goals.into());
                }
                // A goal that already holds comes first.
                let [a, b] = goals;
                let swap = b.holds_for(&self.now(b.expr())) && !a.holds_for(&self.now(a.expr()));
                Step::Choice(if swap { vec![vec![b], vec![a]] } else { vec![vec![a], vec![b]] }, true)
            }
            And | Or => {
                let (inner, known) = match (known_a, known_b) {
                    (Some(known), _) => (b, known),
                    (_, Some(known)) => (a, known),
                    (None, None) => return self.either(whole, a, b),
                };
                // The bits that the known operand leaves open, and the result for the others.
                let open = if op == And { known.clone() } else { ones(width) ^ &known };
                let others = mask & (ones(width) ^ &open);
                let forced = if op == And { BigUint::zero() } else { others.clone() };
                if value & &others != forced {
                    return Step::Fail;
                }
                one(inner, mask & open, value.clone())
            }
            Xor => match (known_a, known_b) {
                (Some(known), _) => one(b, mask.clone(), value ^ known),
                (_, Some(known)) => one(a, mask.clone(), value ^ known),
                _ => self.either(whole, a, b),
            },
            // Low bits of sums depend only on low bits.
            Add | Sub if (mask & (mask + 1u32)).is_zero() => {
                let modulus = BigUint::one() << width;
                let mask = mask.clone();
                match (known_a, known_b) {
                    (_, Some(known)) if op == Add => one(a, mask, value + modulus - known),
                    (_, Some(known)) => one(a, mask, value + known),
                    (Some(known), _) if op == Add => one(b, mask, value + modulus - known),
                    (Some(known), _) => one(b, mask, known + modulus - value),
                    _ => self.either(whole, a, b),
                }
            }
            SatAddU | SatSubU if full => {
                let Some(known) = known_b else { return self.either_if_open(whole, a, b) };
                match op {
                    // At the maximum, any larger sum works too.
                    SatAddU if *value == ones(width) => self.try_values_and(whole, a, &[value - known]),
                    SatAddU if *value >= known => one(a, mask.clone(), value - known),
                    SatSubU if value.is_zero() => self.try_values_and(whole, a, &[known, BigUint::zero()]),
                    SatSubU if value + &known <= ones(width) => one(a, mask.clone(), value + known),
                    _ => Step::Fail,
                }
            }
            Mul => {
                let (inner, factor) = match (known_a, known_b) {
                    (Some(known), _) => (b, known),
                    (_, Some(known)) => (a, known),
                    (None, None) => return self.either(whole, a, b),
                };
                let Some(shift) = factor.trailing_zeros().filter(|_| full) else {
                    return self.try_values(whole);
                };
                // An odd factor has an inverse modulo 2^n; the zeros below it shift.
                let shift = shift as u32;
                if shift >= width || !(value & ones(shift)).is_zero() {
                    return Step::Fail;
                }
                let modulus = BigUint::one() << (width - shift);
                match (factor >> shift).modinv(&modulus) {
                    Some(inverse) => {
                        one(inner, ones(width - shift), wrap((value >> shift) * inverse, width - shift))
                    }
                    None => one(inner, ones(width - shift), value >> shift),
                }
            }
            DivU | RemU if known_b.as_ref().is_some_and(|b| b.count_ones() == 1) => {
                // By a power of two: the high bits, and the low ones.
                let low = known_b.unwrap_or_default() - 1u32;
                let (there, moved) = match op {
                    RemU => (low, 0),
                    _ => (ones(width) >> low.bits(), low.bits()),
                };
                if !(value & mask & (ones(width) ^ &there)).is_zero() {
                    return Step::Fail;
                }
                one(a, (mask & there) << moved, value << moved)
            }
            DivU if full => match known_b {
                Some(divisor) if !divisor.is_zero() => {
                    let (first, rest) = (value * &divisor, divisor - 1u32);
                    self.try_values_and(whole, a, &[first.clone(), first + rest])
                }
                _ => self.either_if_open(whole, a, b),
            },
            RemU if full => match known_b {
                Some(divisor) if !divisor.is_zero() => {
                    let now = self.now(a);
                    let near = &now - &now % &divisor + value;
                    self.try_values_and(whole, a, &[near, value.clone()])
                }
                _ => self.either_if_open(whole, a, b),
            },
            Shl | ShrU => match known_b.map(|count| count.to_u32()) {
                Some(Some(count)) if count < width => {
                    let all = ones(width);
                    let moved = |x: &BigUint| if op == Shl { x >> count } else { (x << count) & &all };
                    let empty = if op == Shl { ones(count) } else { &all ^ (&all >> count) };
                    if !(value & mask & empty).is_zero() {
                        return Step::Fail;
                    }
                    one(a, moved(mask), moved(value))
                }
                Some(_) => self.try_values(whole),
                None => self.either_if_open(whole, a, b),
            },
            _ => self.either_if_open(whole, a, b),
        }
    }

    /// Like [`Self::either`], if both are open; otherwise some values are tried.
    fn either_if_open(&mut self, whole: &Goal, a: &Expr, b: &Expr) -> Step {
        if self.known(a).is_none() && self.known(b).is_none() {
            return self.either(whole, a, b);
        }
        self.try_values(whole)
    }

    /// Tries these values of an operand, then others.
    fn try_values_and(&mut self, whole: &Goal, operand: &Expr, values: &[BigUint]) -> Step {
        let all = ones(operand.width(self.vars));
        let fitting = values.iter().filter(|value| **value <= all);
        let mut choices: Vec<Vec<Goal>> = Vec::new();
        if whole.holds_for(&self.now(whole.expr())) {
            choices.push(self.freeze(whole.expr()));
        }
        // Once they are known, it becomes clear if these are right.
        choices.extend(fitting.map(|value| vec![self.is(operand, value.clone()), whole.clone()]));
        let complete = self.other_values(whole, &mut choices);
        Step::Choice(choices, complete)
    }

    fn compare(&mut self, whole: &Goal, (op, a, b): (BinaryOp, &Expr, &Expr), wanted: bool) -> Step {
        let operand = a.width(self.vars);
        let holds = |x: &BigUint, y: &BigUint| {
            let constant = |v: &BigUint| Box::new(Expr::Const { value: v.clone(), width: operand });
            let found = eval(self.vars, &[], &Expr::Binary(op, constant(x), constant(y)));
            found.is_zero() != wanted
        };
        let (now_a, now_b) = (self.now(a), self.now(b));
        let mut choices = Vec::new();
        if holds(&now_a, &now_b) {
            choices.push(self.freeze(whole.expr()));
        }
        let mut move_a = Vec::new();
        let candidates = |open: bool, now: &BigUint| if open { around(now, operand) } else { Vec::new() };
        let (open_a, open_b) = (self.known(a).is_none(), self.known(b).is_none());
        for candidate in candidates(open_a, &now_b).into_iter().filter(|x| holds(x, &now_b)) {
            let mut goals = self.freeze(b);
            goals.push(self.is(a, candidate));
            move_a.push(goals);
        }
        let mut move_b = Vec::new();
        for candidate in candidates(open_b, &now_a).into_iter().filter(|x| holds(&now_a, x)) {
            let mut goals = self.freeze(a);
            goals.push(self.is(b, candidate));
            move_b.push(goals);
        }
        let (first, second) = if self.cost(a) > self.cost(b) { (move_b, move_a) } else { (move_a, move_b) };
        choices.extend(first);
        choices.extend(second);
        // Some bits may be fixed, so that none of these is possible.
        let complete = self.other_values(whole, &mut choices);
        Step::Choice(choices, complete)
    }

    fn not_in(&mut self, goal: &Goal) -> Step {
        let Goal::NotIn { expr, values } = goal else { return Step::Fail };
        let mut choices = Vec::new();
        let complete = self.other_values(goal, &mut choices);
        if choices.is_empty() && !complete {
            let width = expr.width(self.vars);
            let candidates = values.iter().flat_map(|value| around(value, width));
            for candidate in candidates.filter(|c| !values.contains(c)).take(16) {
                choices.push(vec![self.is(expr, candidate)]);
            }
        }
        Step::Choice(choices, complete)
    }
}

/// Returns the goal that an expression differs from a value.
fn not_this(expr: &Expr, value: BigUint) -> Step {
    Step::Goals(vec![Goal::NotIn { expr: expr.clone(), values: vec![value] }])
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Const { .. })
}

/// Returns values to try where this one is the boundary: its neighbours and the extremes.
fn around(value: &BigUint, width: u32) -> Vec<BigUint> {
    let modulus = BigUint::one() << width;
    let half = BigUint::one() << (width - 1);
    let mut found = vec![value.clone(), wrap(value + 1u32, width), wrap(value + &modulus - 1u32, width)];
    found.extend([BigUint::zero(), &half - 1u32, half, modulus - 1u32]);
    found
}

/// Calls `f` with each variable in the expression and its relevant bits.
pub(super) fn support(vars: &Program, expr: &Expr, f: &mut dyn FnMut(FieldId, BigUint)) {
    match expr {
        // Elements are selected by conditions here.
        Expr::Const { .. } | Expr::Element { .. } => {}
        Expr::Field(var) => f(*var, ones(vars.width(*var))),
        Expr::Slice { value, hi, lo } => match **value {
            Expr::Field(var) => f(var, ones(hi - lo + 1) << *lo),
            ref inner => support(vars, inner, f),
        },
        Expr::Unary(_, a) | Expr::ZeroExtend(a, _) | Expr::SignExtend(a, _) => support(vars, a, f),
        Expr::Binary(_, a, b) | Expr::Concat(a, b) => {
            support(vars, a, f);
            support(vars, b, f);
        }
        Expr::Select(c, a, b) => {
            support(vars, c, f);
            support(vars, a, f);
            support(vars, b, f);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p4jet_ir::{Field, FieldKind};

    /// Variables x and y of 16 bits; both are 0x1234 by default.
    fn vars() -> Program {
        let field = |name: &str| Field { name: name.to_string(), width: 16, kind: FieldKind::Temporary };
        Program { fields: vec![field("x"), field("y")], ..Program::default() }
    }

    fn x() -> Expr {
        Expr::Field(FieldId(0))
    }

    fn y() -> Expr {
        Expr::Field(FieldId(1))
    }

    fn number(value: u32) -> Expr {
        Expr::constant(value, 16)
    }

    fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        Expr::Binary(op, Box::new(a), Box::new(b))
    }

    /// Solves the goals, checks the solution, and returns x and y.
    fn solve(goals: &[Goal]) -> Option<(u32, u32)> {
        let vars = vars();
        let known = Known::new(vec![BigUint::from(0x1234u32); 2]);
        let work = Work::new();
        let mut solver = Solver::new(&vars, &[0, 0], known, &work);
        if !solver.solve(goals.iter().cloned().map(Rc::new).collect()) {
            assert!(solver.known.fixed.iter().all(BigUint::is_zero), "what was tried is taken back");
            return None;
        }
        let found = solver.known.values;
        for goal in goals {
            let now = eval(&vars, &found, goal.expr());
            assert!(goal.holds_for(&now), "{goal:?} with {found:?}");
        }
        Some((found[0].to_u32().unwrap(), found[1].to_u32().unwrap()))
    }

    fn yes(cond: Expr) -> Goal {
        Goal::holds(cond, true)
    }

    #[test]
    fn equalities_masks_ranges() {
        use BinaryOp::*;
        let masked = binary(Eq, binary(And, x(), number(0xff00)), number(0x4500));
        assert_eq!(solve(&[yes(masked.clone())]), Some((0x4534, 0x1234)));
        assert_eq!(solve(&[yes(binary(Eq, binary(And, x(), number(0xff00)), number(0x4501)))]), None);
        let range = [yes(binary(LeU, number(0x2000), x())), yes(binary(LtU, x(), number(0x2002)))];
        assert!(matches!(solve(&range), Some((0x2000..=0x2001, _))));
        assert_eq!(solve(&[yes(binary(LtU, x(), number(0)))]), None);
        let not = Goal::NotIn { expr: x(), values: vec![0x1234u32.into(), 0x1235u32.into()] };
        assert!(solve(&[not, yes(binary(LtU, x(), number(0x1234)))]).is_some());
        // A value that already satisfies the goal stays.
        assert_eq!(solve(&[yes(binary(Ne, x(), number(7)))]), Some((0x1234, 0x1234)));
    }

    #[test]
    fn arithmetic_and_parts() {
        use BinaryOp::*;
        let sum = binary(Add, x(), number(0xffff));
        assert_eq!(solve(&[yes(binary(Eq, sum, number(5)))]), Some((6, 0x1234)));
        let shifted = binary(Shl, Expr::ZeroExtend(Box::new(x()), 32), Expr::constant(2u32, 3));
        assert_eq!(solve(&[yes(binary(Eq, shifted.clone(), Expr::constant(20u32, 32)))]), Some((5, 0x1234)));
        assert_eq!(solve(&[yes(binary(Eq, shifted, Expr::constant(21u32, 32)))]), None);
        let middle =
            Expr::Slice { value: Box::new(Expr::Concat(Box::new(x()), Box::new(y()))), hi: 23, lo: 8 };
        assert_eq!(solve(&[yes(binary(Eq, middle, number(0xabcd)))]), Some((0x12ab, 0xcd34)));
        let times = |factor: u32| binary(Mul, x(), number(factor));
        assert_eq!(solve(&[yes(binary(Eq, times(8), number(48)))]), Some((6, 0x1234)));
        assert_eq!(solve(&[yes(binary(Eq, times(12), number(36)))]), Some((3, 0x1234)));
        let product = binary(Mul, x(), y());
        assert_eq!(solve(&[yes(binary(Eq, product, number(7)))]), None, "not solved, and said so");
    }

    #[test]
    fn choices_are_taken_back() {
        use BinaryOp::*;
        let either = binary(Or, binary(Eq, x(), number(1)), binary(Eq, y(), number(2)));
        assert_eq!(solve(&[yes(either.clone()), yes(binary(Ne, x(), number(1)))]).map(|(_, y)| y), Some(2));
        let picked = Expr::Select(Box::new(either), Box::new(number(10)), Box::new(y()));
        assert!(solve(&[yes(binary(Eq, picked, number(3)))]).is_some_and(|(_, y)| y == 3));
        // Between variables.
        let goals = [yes(binary(Eq, x(), y())), yes(binary(LtU, y(), number(9)))];
        assert!(solve(&goals).is_some_and(|(x, y)| x == y && y < 9));
    }
}
