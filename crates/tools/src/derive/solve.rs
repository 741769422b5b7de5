//! Finding values for which conditions hold.
//!
//! Conditions are IR expressions over variables. What they ask is carried inwards: that `concat(a, b) & 0xf
//! == 3` asks something of four bits of `b`, and at a variable bits become fixed. Where there is a choice
//! (`a` or `b`, less than, not equal) some values are tried, first those that the bits have anyway. So
//! equalities, masks and ranges of packet fields are solved, and arithmetic with constants; products of
//! unknowns are not.

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};
use p4jet_ir::eval::{eval, ones, wrap};
use p4jet_ir::{BinaryOp, Expr, FieldId, Program, UnaryOp};

/// What is asked of an expression.
#[derive(Clone, Debug)]
pub(super) enum Goal {
    /// The bits of `mask` are those of `value`.
    Bits { expr: Expr, mask: BigUint, value: BigUint },
    /// It is none of these.
    NotIn { expr: Expr, values: Vec<BigUint> },
}

impl Goal {
    pub fn holds(cond: Expr, held: bool) -> Goal {
        Goal::Bits { expr: cond, mask: BigUint::one(), value: BigUint::from(u32::from(held)) }
    }

    pub fn expr(&self) -> &Expr {
        let (Goal::Bits { expr, .. } | Goal::NotIn { expr, .. }) = self;
        expr
    }

    /// How much is gained by waiting until other goals have fixed more: the smallest goes first.
    fn rank(&self) -> u32 {
        use BinaryOp::*;
        match self {
            Goal::NotIn { .. } => 3,
            Goal::Bits { expr, value, .. } => match expr {
                // Between unknowns: others may make one of them known.
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

/// The bits of each variable that are fixed: which, and what they are.
pub(super) type Fixed = Vec<(BigUint, BigUint)>;

/// How many goals a search may look at.
const STEPS_MAX: u32 = 4000;

pub(super) struct Solver<'a> {
    /// Only its fields count: the variables.
    pub vars: &'a Program,
    /// What bits are that nothing fixes.
    pub defaults: &'a [BigUint],
    steps: u32,
}

/// What came of a goal.
enum Step {
    Fail,
    /// These goals in its place.
    Goals(Vec<Goal>),
    /// One of these lists of goals.
    Choice(Vec<Vec<Goal>>),
    Fix(FieldId, BigUint, BigUint),
}

impl<'a> Solver<'a> {
    pub fn new(vars: &'a Program, defaults: &'a [BigUint]) -> Solver<'a> {
        Solver { vars, defaults, steps: 0 }
    }

    /// Fixes what has to be for all goals to hold.
    pub fn solve(&mut self, goals: Vec<Goal>, fixed: Fixed) -> Option<Fixed> {
        self.steps = 0;
        self.search(goals, fixed)
    }

    fn search(&mut self, mut goals: Vec<Goal>, mut fixed: Fixed) -> Option<Fixed> {
        loop {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return None;
            }
            let Some(next) = (0..goals.len()).min_by_key(|g| goals[*g].rank()) else { return Some(fixed) };
            let goal = goals.swap_remove(next);
            match self.step(goal, &fixed) {
                Step::Fail => return None,
                Step::Goals(more) => goals.extend(more),
                Step::Fix(var, mask, value) => {
                    let (old_mask, old_value) = &mut fixed[var.index()];
                    if !((&*old_value ^ &value) & &*old_mask & &mask).is_zero() {
                        return None;
                    }
                    *old_value |= value & &mask;
                    *old_mask |= mask;
                }
                Step::Choice(mut choices) => {
                    let last = choices.pop()?;
                    for choice in choices {
                        let mut goals = goals.clone();
                        goals.extend(choice);
                        if let Some(found) = self.search(goals, fixed.clone()) {
                            return Some(found);
                        }
                    }
                    goals.extend(last);
                }
            }
        }
    }

    /// The variables' values: what is fixed, the defaults elsewhere.
    pub fn values(&self, fixed: &Fixed) -> Vec<BigUint> {
        values(self.defaults, fixed)
    }

    fn now(&self, expr: &Expr, fixed: &Fixed) -> BigUint {
        eval(self.vars, &self.values(fixed), expr)
    }

    /// The value if no variable in it can change it any more.
    fn known(&self, expr: &Expr, fixed: &Fixed) -> Option<BigUint> {
        if let Expr::Const { value, .. } = expr {
            return Some(value.clone());
        }
        let mut all_fixed = true;
        support(self.vars, expr, &mut |var, mask| {
            all_fixed &= &mask & &fixed[var.index()].0 == mask;
        });
        all_fixed.then(|| self.now(expr, fixed))
    }

    /// Goals that keep an expression as it is now.
    pub fn freeze(&self, expr: &Expr, fixed: &Fixed) -> Vec<Goal> {
        let values = self.values(fixed);
        let mut goals = Vec::new();
        support(self.vars, expr, &mut |var, mask| {
            let value = &values[var.index()] & &mask;
            goals.push(Goal::Bits { expr: Expr::Field(var), mask, value });
        });
        goals
    }

    /// Keeps it if it is as wanted; nothing else can be done.
    fn as_it_is(&self, expr: &Expr, fixed: &Fixed, wanted: impl Fn(&BigUint) -> bool) -> Step {
        if wanted(&self.now(expr, fixed)) { Step::Goals(self.freeze(expr, fixed)) } else { Step::Fail }
    }

    fn is(&self, expr: &Expr, value: BigUint) -> Goal {
        Goal::Bits { expr: expr.clone(), mask: ones(expr.width(self.vars)), value }
    }

    fn step(&self, goal: Goal, fixed: &Fixed) -> Step {
        match goal {
            Goal::NotIn { expr, values } => self.not_in(&expr, &values, fixed),
            Goal::Bits { mask, .. } if mask.is_zero() => Step::Goals(Vec::new()),
            Goal::Bits { expr, mask, value } => match self.known(&expr, fixed) {
                Some(found) if (&found ^ &value) & &mask == BigUint::zero() => Step::Goals(Vec::new()),
                Some(_) => Step::Fail,
                None => self.bits(expr, mask, value, fixed),
            },
        }
    }

    fn bits(&self, expr: Expr, mask: BigUint, value: BigUint, fixed: &Fixed) -> Step {
        let width = expr.width(self.vars);
        let full = mask == ones(width);
        let goal = |expr: Expr, mask: BigUint, value: BigUint| {
            let value = value & &mask;
            Step::Goals(vec![Goal::Bits { expr, mask, value }])
        };
        match expr {
            Expr::Const { .. } => unreachable!("constants are known"),
            Expr::Field(var) => Step::Fix(var, mask.clone(), value & mask),
            Expr::Slice { value: inner, lo, .. } => goal(*inner, mask << lo, value << lo),
            Expr::Concat(high, low) => {
                let low_width = low.width(self.vars);
                let low_mask = wrap(mask.clone(), low_width);
                let low_goal = Goal::Bits { value: &value & &low_mask, mask: low_mask, expr: *low };
                let high = Goal::Bits { expr: *high, mask: mask >> low_width, value: value >> low_width };
                Step::Goals(vec![low_goal, high])
            }
            Expr::ZeroExtend(inner, _) => {
                let inner_width = inner.width(self.vars);
                if !((&value & &mask) >> inner_width).is_zero() {
                    return Step::Fail;
                }
                goal(*inner, wrap(mask, inner_width), wrap(value, inner_width))
            }
            Expr::SignExtend(ref inner, _) if full => {
                let inner_width = inner.width(self.vars);
                let low = wrap(value.clone(), inner_width);
                let constant = Expr::Const { value: low.clone(), width: inner_width };
                let back = eval(self.vars, &[], &Expr::SignExtend(Box::new(constant), width));
                if back != value {
                    return Step::Fail;
                }
                goal((**inner).clone(), ones(inner_width), low)
            }
            Expr::Unary(UnaryOp::Not, inner) => goal(*inner, mask.clone(), &value ^ mask),
            Expr::Unary(UnaryOp::Neg, ref inner) if full => {
                goal((**inner).clone(), mask, wrap((BigUint::one() << width) - value, width))
            }
            Expr::Binary(op, ref a, ref b) => self.binary(op, a, b, &expr, mask, value, fixed),
            Expr::Select(cond, a, b) => {
                let way = |held: bool, expr: Expr| {
                    let then = Goal::Bits { expr, mask: mask.clone(), value: value.clone() };
                    vec![Goal::holds((*cond).clone(), held), then]
                };
                Step::Choice(vec![way(true, *a), way(false, *b)])
            }
            other => self.as_it_is(&other, fixed, |found| ((found ^ &value) & &mask).is_zero()),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a goal")]
    fn binary(
        &self,
        op: BinaryOp,
        a: &Expr,
        b: &Expr,
        whole: &Expr,
        mask: BigUint,
        value: BigUint,
        fixed: &Fixed,
    ) -> Step {
        use BinaryOp::*;
        let width = whole.width(self.vars);
        let (known_a, known_b) = (self.known(a, fixed), self.known(b, fixed));
        let as_it_is = || self.as_it_is(whole, fixed, |found| ((found ^ &value) & &mask).is_zero());
        let one = |expr: &Expr, mask: BigUint, value: BigUint| {
            let value = value & &mask;
            Step::Goals(vec![Goal::Bits { expr: expr.clone(), mask, value }])
        };
        match op {
            Eq | Ne => {
                let equal = (op == Eq) != value.is_zero();
                let (left, right, known) = match (known_a, known_b) {
                    (_, Some(known)) => (a, b, known),
                    (Some(known), None) => (b, a, known),
                    (None, None) => (a, b, self.now(b, fixed)),
                };
                let asked = match equal {
                    true => self.is(left, known),
                    false => Goal::NotIn { expr: left.clone(), values: vec![known] },
                };
                let mut goals = self.freeze(right, fixed);
                goals.push(asked);
                if equal {
                    // The other way round: `left` may be more constrained than `right`.
                    let mut other = self.freeze(left, fixed);
                    other.push(self.is(right, self.now(left, fixed)));
                    return Step::Choice(vec![goals, other]);
                }
                Step::Goals(goals)
            }
            LtU | LeU | LtS | LeS => {
                let wanted = !value.is_zero();
                let holds = |x: &BigUint, y: &BigUint| {
                    let operand = a.width(self.vars);
                    let constant = |v: &BigUint| Box::new(Expr::Const { value: v.clone(), width: operand });
                    let found = eval(self.vars, &[], &Expr::Binary(op, constant(x), constant(y)));
                    found.is_zero() != wanted
                };
                let (now_a, now_b) = (self.now(a, fixed), self.now(b, fixed));
                let mut choices = Vec::new();
                if holds(&now_a, &now_b) {
                    choices.push(self.freeze(a, fixed).into_iter().chain(self.freeze(b, fixed)).collect());
                }
                for candidate in around(&now_b, a.width(self.vars)) {
                    if holds(&candidate, &now_b) {
                        let mut goals = self.freeze(b, fixed);
                        goals.push(self.is(a, candidate));
                        choices.push(goals);
                    }
                }
                for candidate in around(&now_a, a.width(self.vars)) {
                    if holds(&now_a, &candidate) {
                        let mut goals = self.freeze(a, fixed);
                        goals.push(self.is(b, candidate));
                        choices.push(goals);
                    }
                }
                Step::Choice(choices)
            }
            And | Or if width == 1 => {
                // Both are forced, or one of them is enough.
                let both = (op == And) != value.is_zero();
                let held = !value.is_zero();
                let (a, b) = (Goal::holds(a.clone(), held), Goal::holds(b.clone(), held));
                if both { Step::Goals(vec![a, b]) } else { Step::Choice(vec![vec![a], vec![b]]) }
            }
            And | Or => {
                let (inner, known) = match (known_a, known_b) {
                    (Some(known), _) => (b, known),
                    (_, Some(known)) => (a, known),
                    (None, None) => return as_it_is(),
                };
                // The bits that the known operand leaves open, and what it makes of the others.
                let open = if op == And { known.clone() } else { ones(width) ^ &known };
                let others = &mask & (ones(width) ^ &open);
                let forced = if op == And { BigUint::zero() } else { others.clone() };
                if &value & &others != forced {
                    return Step::Fail;
                }
                one(inner, mask & open, value)
            }
            Xor => match (known_a, known_b) {
                (Some(known), _) => one(b, mask, value ^ known),
                (_, Some(known)) => one(a, mask, value ^ known),
                _ => as_it_is(),
            },
            // Low bits of sums depend on low bits only.
            Add | Sub if (&mask & (&mask + 1u32)).is_zero() => {
                let modulus = BigUint::one() << width;
                match (known_a, known_b) {
                    (_, Some(known)) if op == Add => one(a, mask, value + modulus - known),
                    (_, Some(known)) => one(a, mask, value + known),
                    (Some(known), _) if op == Add => one(b, mask, value + modulus - known),
                    (Some(known), _) => one(b, mask, known + modulus - value),
                    _ => as_it_is(),
                }
            }
            Mul => {
                let (inner, factor) = match (known_a, known_b) {
                    (Some(known), _) => (b, known),
                    (_, Some(known)) => (a, known),
                    (None, None) => return as_it_is(),
                };
                match factor.trailing_zeros() {
                    Some(count) if factor.bits() == count + 1 => {
                        let count = Expr::constant(count, 64);
                        let shifted = Expr::Binary(Shl, Box::new(inner.clone()), Box::new(count));
                        Step::Goals(vec![Goal::Bits { expr: shifted, mask, value }])
                    }
                    Some(_) if mask == ones(width) && (&value % &factor).is_zero() => {
                        one(inner, mask, value / factor)
                    }
                    _ => as_it_is(),
                }
            }
            Shl | ShrU => match known_b.as_ref().and_then(BigUint::to_u32) {
                Some(count) if count < width => {
                    let all = ones(width);
                    let moved = |x: &BigUint| if op == Shl { x >> count } else { (x << count) & &all };
                    let empty = if op == Shl { ones(count) } else { &all ^ (&all >> count) };
                    if !(&value & &mask & empty).is_zero() {
                        return Step::Fail;
                    }
                    one(a, moved(&mask), moved(&value))
                }
                _ => as_it_is(),
            },
            _ => as_it_is(),
        }
    }

    fn not_in(&self, expr: &Expr, values: &[BigUint], fixed: &Fixed) -> Step {
        let now = self.now(expr, fixed);
        let mut choices = Vec::new();
        if !values.contains(&now) {
            choices.push(self.freeze(expr, fixed));
        }
        let width = expr.width(self.vars);
        let candidates = values.iter().flat_map(|value| around(value, width));
        for candidate in candidates.filter(|c| !values.contains(c)).take(16) {
            choices.push(vec![self.is(expr, candidate)]);
        }
        Step::Choice(choices)
    }
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Const { .. })
}

pub(super) fn values(defaults: &[BigUint], fixed: &Fixed) -> Vec<BigUint> {
    let both = defaults.iter().zip(fixed);
    both.map(|(default, (mask, value))| (default ^ (default & mask)) | value).collect()
}

/// Values worth a try where this one decides: its neighbours and the ends.
fn around(value: &BigUint, width: u32) -> Vec<BigUint> {
    let modulus = BigUint::one() << width;
    let half = BigUint::one() << (width - 1);
    let mut found = vec![value.clone(), wrap(value + 1u32, width), wrap(value + &modulus - 1u32, width)];
    found.extend([BigUint::zero(), &half - 1u32, half, modulus - 1u32]);
    found
}

/// Calls `f` with each variable in the expression and the bits of it that count.
pub(super) fn support(vars: &Program, expr: &Expr, f: &mut dyn FnMut(FieldId, BigUint)) {
    match expr {
        Expr::Const { .. } => {}
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

    /// Variables x and y of 16 bits; both are 0x1234 if nothing else is asked.
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

    /// Solves, and sees to it that what was found is a solution; gives x and y.
    fn solve(goals: &[Goal]) -> Option<(u32, u32)> {
        let vars = vars();
        let defaults = vec![BigUint::from(0x1234u32); 2];
        let nothing = vec![(BigUint::zero(), BigUint::zero()); 2];
        let fixed = Solver::new(&vars, &defaults).solve(goals.to_vec(), nothing)?;
        let found = values(&defaults, &fixed);
        for goal in goals {
            let now = eval(&vars, &found, goal.expr());
            assert!(
                match goal {
                    Goal::Bits { mask, value, .. } => (now ^ value) & mask == BigUint::zero(),
                    Goal::NotIn { values, .. } => !values.contains(&now),
                },
                "{goal:?} with {found:?}"
            );
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
        // What is the case anyway stays.
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
