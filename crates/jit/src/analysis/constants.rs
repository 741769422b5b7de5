//! Constant facts: fields that have a known value at a program point, for every packet: a header is valid, there was no error.
//!
//! A condition that a fact decides need not be tested. A jump to a node that only tests such a condition goes directly
//! to the result: a parser path that found a header continues where the header is valid.

use super::combinations::{COMBINATIONS_MAX, Combination, Combinations, HEADERS_MAX};
use super::effects::element;
use super::inherited::Inherited;
use crate::graph::{Graph, ListedAction, PerPlace, Place, StatementId, TargetId};
use crate::slots::Slot;
use crate::solver::{self, Budget};
use crate::widths::ones;
use cranelift_codegen::entity::EntityRef;
use num_traits::ToPrimitive;
use p4jet_ir::{
    ActionId, BinaryOp, BlockKind, Expr, FieldId, FieldKind, HeaderId, Op, PipelineHalf, Program, Terminator,
    UnaryOp,
};
use std::collections::{BTreeSet, HashMap};

/// Values of the tracked fields, where known.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    values: Vec<Option<u64>>,
    /// The headers that may be valid together. What all combinations have in common is also in `values`.
    valid: Combinations,
}

impl Clone for Facts {
    fn clone(&self) -> Facts {
        Facts { values: self.values.clone(), valid: self.valid.clone() }
    }

    fn clone_from(&mut self, other: &Facts) {
        self.values.clone_from(&other.values);
        self.valid.clone_from(&other.valid);
    }
}

impl Facts {
    /// Keeps the facts that both have. Returns true if some were lost.
    fn join(&mut self, other: &Facts) -> bool {
        let mut changed = self.valid.join(&other.valid);
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            if mine.is_some() && mine != theirs {
                *mine = None;
                changed = true;
            }
        }
        changed
    }
}

/// The tracked slots.
struct Tracked {
    /// For each slot: its index in [`Facts`], if it is tracked.
    index: Vec<Option<u32>>,
    /// The number of tracked slots.
    count: usize,
    /// For each slot: its bit in a [`Combination`], if it is the validity of a header that combinations describe.
    bit: Vec<Option<u32>>,
}

/// The effect of statements and conditions on constant facts.
pub struct Evaluator<'a> {
    /// The graph.
    pub graph: &'a Graph<'a>,
    tracked: Tracked,
}

/// The constant facts of a program.
pub struct Constants<'a> {
    /// The effect of statements and conditions on facts.
    pub eval: Evaluator<'a>,
    /// The facts before each place; `None` where no packet comes.
    before: PerPlace<Option<Facts>>,
    /// The successors of each place, past nodes that only test constant facts; `None` where no packet comes.
    successors: PerPlace<Option<Vec<Place>>>,
    /// The targets of edges.
    pub jumps: Jumps,
    /// The result of the condition of each place that ends with an `if`, where it is known.
    conditions: PerPlace<Option<bool>>,
}

/// The targets of edges.
#[derive(Default)]
pub struct Jumps(PerPlace<Vec<(Edge, Option<Place>)>>);

impl Jumps {
    /// The edges by which packets leave a place, in order, with their targets (`None`: out of the switch).
    pub fn of(&self, place: Place) -> &[(Edge, Option<Place>)] {
        &self.0[place]
    }

    /// The target of an edge; `None` if packets never take it.
    pub fn get(&self, place: Place, edge: Edge) -> Option<Option<Place>> {
        let jumps = self.of(place);
        let found = jumps.binary_search_by_key(&edge, |jump| jump.0).ok()?;
        Some(jumps[found].1)
    }
}

/// An edge by which a packet leaves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// A parser error in this statement.
    Error(StatementId),
    /// This target of the terminator; the first if the condition of an `if` is known.
    Target(TargetId),
    /// After this action of the table; true if by `exit` of the action.
    Action(ListedAction, bool),
    /// No action ran, as the group had no members.
    NoAction,
    /// The block ends.
    End,
}

/// A jump skips at most this many nodes.
const SKIPS_MAX: usize = 64;
/// A jump skips no `Switch` of more cases.
const CASES_MAX: usize = 256;
/// The limit of compared facts, summed over all edges on all visits: a fifth of a second. Beyond it, no field is
/// tracked.
const COMPARED_MAX: usize = 1 << 26;

/// The limit of facts, summed over the places: 64 MiB. In a larger program only the cursor is tracked, so its code
/// tests conditions that more facts would decide.
const FACTS_MAX: usize = 4 << 20;

/// Finds the constant facts.
pub fn constants<'a>(graph: &'a Graph<'a>, inherited: &Inherited) -> Constants<'a> {
    let mut eval = Evaluator { graph, tracked: Tracked::of(graph) };
    let before = eval.propagate(inherited);
    let nothing = eval.nothing();
    let mut conditions = graph.per_place(None);
    let jumps = before.iter().map(|(place, facts)| {
        let mut jumps = Vec::new();
        let facts = facts.as_ref().unwrap_or(&nothing);
        conditions[place] = eval.for_each_edge(place, facts, &mut |edge, to, _| jumps.push((edge, to)));
        jumps.sort_unstable();
        jumps
    });
    let jumps = Jumps(jumps.collect());
    let successors = before.iter().map(|(place, facts)| {
        facts.as_ref()?;
        let mut successors: Vec<Place> = jumps.of(place).iter().filter_map(|(_, to)| *to).collect();
        successors.sort_unstable();
        successors.dedup();
        Some(successors)
    });
    let successors = successors.collect();
    Constants { eval, before, successors, jumps, conditions }
}

impl Constants<'_> {
    /// The constant facts before a place.
    pub fn before(&self, place: Place) -> Facts {
        self.before[place].clone().unwrap_or_else(|| self.eval.nothing())
    }

    /// The constant facts before the terminator of a place.
    pub fn at_end(&self, place: Place) -> Facts {
        let mut facts = self.before(place);
        let stmts = self.eval.graph.node(place).stmts.iter();
        stmts.for_each(|stmt| self.eval.learn(&mut facts, &stmt.op));
        facts
    }

    /// The result of the condition with which a place ends, if it is known.
    pub fn condition(&self, place: Place) -> Option<bool> {
        self.conditions[place]
    }

    /// The places to which jumps from a place may lead.
    pub fn successors(&self, place: Place) -> &[Place] {
        self.successors[place].as_deref().unwrap_or_else(|| self.eval.graph.successors(place))
    }
}

impl<'a> Evaluator<'a> {
    fn valid_slot(&self, header: HeaderId) -> Slot {
        self.graph.slots.field(self.graph.program.headers[header.index()].valid)
    }

    /// The value of a field, if it is known.
    pub fn known_field(&self, facts: &Facts, field: FieldId) -> Option<u64> {
        self.known(facts, self.graph.slots.field(field))
    }

    /// The validity of a header, if it is known.
    pub fn known_valid(&self, facts: &Facts, header: HeaderId) -> Option<bool> {
        self.known(facts, self.valid_slot(header)).map(|valid| valid == 1)
    }

    /// Facts without any known value.
    pub fn nothing(&self) -> Facts {
        Facts { values: vec![None; self.tracked.count], valid: Combinations::default() }
    }

    /// The value of a slot, if it is known.
    pub fn known(&self, facts: &Facts, slot: Slot) -> Option<u64> {
        facts.values[self.tracked.index[slot.index()]? as usize]
    }

    /// Forgets a field.
    pub fn forget(&self, facts: &mut Facts, field: FieldId) {
        self.put(facts, self.graph.slots.field(field), None);
    }

    fn put(&self, facts: &mut Facts, slot: Slot, value: Option<u64>) {
        self.put_value(facts, slot, value);
        if let Some(bit) = self.bit(slot) {
            facts.valid.assign(bit, |_| value.map(|valid| valid == 1));
        }
    }

    /// Sets the value of a slot, but leaves the combinations.
    fn put_value(&self, facts: &mut Facts, slot: Slot, value: Option<u64>) {
        if let Some(index) = self.tracked.index[slot.index()] {
            facts.values[index as usize] = value;
        }
    }

    /// The facts where a slot is supposed to have this value.
    fn suppose_slot(&self, facts: &mut Facts, slot: Slot, value: u64) {
        self.put_value(facts, slot, Some(value));
        if let Some(bit) = self.bit(slot) {
            facts.valid.retain(|combination| combination >> bit & 1 == Combination::from(value));
        }
    }

    /// The bit of a slot in a [`Combination`], if it has one.
    fn bit(&self, slot: Slot) -> Option<u32> {
        self.tracked.bit[slot.index()]
    }

    /// Records the validity on which all combinations agree.
    fn agree(&self, facts: &mut Facts) {
        let (always, ever) = facts.valid.always_and_ever();
        for h in 0..self.graph.program.headers.len().min(HEADERS_MAX) {
            let bit = 1 << h;
            if always & bit != 0 || ever & bit == 0 {
                self.put_value(facts, self.valid_slot(HeaderId(h as u32)), Some(u64::from(ever & bit != 0)));
            }
        }
    }

    /// The result of a condition on validity for one combination, if that decides it.
    fn holds(&self, combination: Combination, cond: &Expr) -> Option<bool> {
        match cond {
            Expr::Field(f) => {
                let bit = self.bit(self.graph.slots.field(*f))?;
                Some(combination >> bit & 1 == 1)
            }
            Expr::Unary(UnaryOp::Not, a) => Some(!self.holds(combination, a)?),
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let absorbing = *op == BinaryOp::Or;
                match (self.holds(combination, a), self.holds(combination, b)) {
                    (Some(result), _) | (_, Some(result)) if result == absorbing => Some(absorbing),
                    (Some(_), Some(_)) => Some(!absorbing),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The result of a condition, if it is known.
    pub fn condition(&self, facts: &Facts, cond: &Expr) -> Option<bool> {
        match self.value(facts, cond) {
            Some(value) => Some(value != 0),
            None => facts.valid.agree(|combination| self.holds(combination, cond)),
        }
    }

    /// The statement with the index resolved, if the index is known. `Some(None)` if the column has no such element.
    pub fn with_known_index(&self, facts: &Facts, op: &Op) -> Option<Option<Op>> {
        Some(match op {
            Op::SetElement { column, index, value } => {
                element(column, self.value(facts, index)?).map(|dest| Op::Set { dest, value: value.clone() })
            }
            Op::ExtractElement { headers, index, varbit_length } => {
                element(headers, self.value(facts, index)?)
                    .map(|header| Op::Extract { header, varbit_length: varbit_length.clone() })
            }
            _ => return None,
        })
    }

    /// Changes facts to those after a statement without parser error.
    pub fn learn(&self, facts: &mut Facts, op: &Op) {
        if let Some(resolved) = self.with_known_index(facts, op) {
            resolved.iter().for_each(|op| self.learn(facts, op));
            return;
        }
        match op {
            Op::Set { dest, value } => {
                let slot = self.graph.slots.field(*dest);
                match (self.value(facts, value), self.bit(slot)) {
                    (None, Some(bit)) => {
                        self.put_value(facts, slot, None);
                        facts.valid.assign(bit, |combination| self.holds(combination, value));
                        self.agree(facts);
                    }
                    (value, _) => self.put(facts, slot, value),
                }
            }
            op => {
                let extracts = matches!(op, Op::Extract { .. } | Op::ExtractElement { .. });
                op.for_each_write(&self.graph.program.headers, &mut |f| match extracts {
                    // Combinations change less than they would if the validity were just forgotten.
                    true => self.put_value(facts, self.graph.slots.field(f), None),
                    false => self.forget(facts, f),
                });
                let cursor = self.known(facts, self.graph.slots.cursor());
                // No cursor lies far behind the longest frame.
                let behind =
                    |bits: Option<u64>| match cursor? + bits?.is_multiple_of(8).then_some(bits? / 8)? {
                        cursor if cursor < 1 << 16 => Some(cursor),
                        _ => None,
                    };
                match op {
                    Op::Extract { header, .. } => {
                        self.put(facts, self.valid_slot(*header), Some(1));
                        self.put(facts, self.graph.slots.offset(*header), cursor.map(|bytes| bytes + 1));
                        let bits = self.graph.header_bits(*header).map(u64::from);
                        self.put(facts, self.graph.slots.cursor(), behind(bits));
                    }
                    Op::ExtractElement { headers, .. } => {
                        headers
                            .iter()
                            .for_each(|header| self.put(facts, self.graph.slots.offset(*header), None));
                        // No header changes if the index is too large.
                        let bits = headers.iter().map(|header| self.bit(self.valid_slot(*header)));
                        let bits = bits.chain([None]);
                        facts.valid.assign_one_of(bits);
                        self.agree(facts);
                        self.put(facts, self.graph.slots.cursor(), None);
                    }
                    Op::Advance { bits } => {
                        self.put(facts, self.graph.slots.cursor(), behind(self.value(facts, bits)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// The constant facts after the end of the block of a place, if it is left there: a deparser leaves no header where it was.
    pub fn learn_end(&self, facts: &mut Facts, place: Place) {
        if self.graph.block(place).kind == BlockKind::Deparser {
            self.put(facts, self.graph.slots.cursor(), Some(0));
            self.graph.slots.offsets().for_each(|slot| self.put(facts, slot, Some(0)));
        }
    }

    /// The constant facts inside an action: of one node, before its statements.
    pub fn facts_in_action(&self, facts: &Facts, action: ActionId) -> Facts {
        let of_action = &self.graph.program.actions[action.index()];
        if of_action.body.nodes.len() > 1 {
            let mut facts = facts.clone();
            self.learn_action(&mut facts, action);
            return facts;
        }
        let mut facts = facts.clone();
        of_action.params.iter().for_each(|&param| self.forget(&mut facts, param));
        facts
    }

    /// Changes facts to those after an action, on every path through it.
    fn learn_action(&self, facts: &mut Facts, action: ActionId) {
        let action = &self.graph.program.actions[action.index()];
        action.params.iter().for_each(|&param| self.forget(facts, param));
        if let [node] = action.body.nodes.as_slice() {
            node.stmts.iter().for_each(|stmt| self.learn(facts, &stmt.op));
            return;
        }
        for stmt in action.body.nodes.iter().flat_map(|node| &node.stmts) {
            stmt.op.for_each_write(&self.graph.program.headers, &mut |f| self.forget(facts, f));
        }
    }

    /// The value of an expression, if it is known.
    pub fn value(&self, facts: &Facts, expr: &Expr) -> Option<u64> {
        let width = expr.width(self.graph.program);
        if width > 64 {
            return None;
        }
        let value = |e: &Expr| self.value(facts, e);
        match expr {
            Expr::Const { value, .. } => value.to_u64(),
            Expr::Field(f) => self.known_field(facts, *f),
            Expr::Element { column, index } => match element(column, value(index)?) {
                Some(f) => self.known_field(facts, f),
                None => Some(0),
            },
            Expr::Unary(UnaryOp::Not, a) => Some(value(a)? ^ ones(width)),
            Expr::Unary(UnaryOp::Neg, a) => Some(value(a)?.wrapping_neg() & ones(width)),
            Expr::Binary(BinaryOp::And, a, b) => match (value(a), value(b)) {
                (Some(0), _) | (_, Some(0)) => Some(0),
                (a, b) => Some(a? & b?),
            },
            Expr::Binary(BinaryOp::Or, a, b) => match (value(a), value(b)) {
                (Some(all), _) | (_, Some(all)) if all == ones(width) => Some(all),
                (a, b) => Some(a? | b?),
            },
            Expr::Binary(op, a, b) => {
                let (a, b) = (value(a)?, value(b)?);
                match op {
                    BinaryOp::Eq => Some(u64::from(a == b)),
                    BinaryOp::Ne => Some(u64::from(a != b)),
                    BinaryOp::LtU => Some(u64::from(a < b)),
                    BinaryOp::LeU => Some(u64::from(a <= b)),
                    BinaryOp::Xor => Some(a ^ b),
                    BinaryOp::Add => Some(a.wrapping_add(b) & ones(width)),
                    BinaryOp::Sub => Some(a.wrapping_sub(b) & ones(width)),
                    _ => None,
                }
            }
            Expr::Slice { value: a, hi, lo } => Some(value(a)? >> lo & ones(hi - lo + 1)),
            Expr::ZeroExtend(a, _) => value(a),
            Expr::Select(c, a, b) => match value(c)? {
                0 => value(b),
                _ => value(a),
            },
            Expr::SignExtend(..) | Expr::Concat(..) => None,
        }
    }

    /// The constant facts where `expr` has this value.
    pub fn suppose(&self, facts: &mut Facts, expr: &Expr, value: u64) {
        self.suppose_parts(facts, expr, value);
        if expr.width(self.graph.program) == 1 {
            facts.valid.retain(|combination| {
                self.holds(combination, expr).is_none_or(|holds| u64::from(holds) == value)
            });
        }
        self.agree(facts);
    }

    /// Adds the facts that follow for parts of `expr` if it has this value.
    fn suppose_parts(&self, facts: &mut Facts, expr: &Expr, value: u64) {
        match (expr, value) {
            (Expr::Field(f), _) => self.suppose_slot(facts, self.graph.slots.field(*f), value),
            (Expr::Unary(UnaryOp::Not, a), _) => {
                let width = a.width(self.graph.program);
                if width <= 64 {
                    self.suppose_parts(facts, a, value ^ ones(width));
                }
            }
            (Expr::Binary(BinaryOp::And, a, b), 1) | (Expr::Binary(BinaryOp::Or, a, b), 0)
                if a.width(self.graph.program) == 1 =>
            {
                self.suppose_parts(facts, a, value);
                self.suppose_parts(facts, b, value);
            }
            (Expr::Binary(BinaryOp::Eq, a, b), 1) | (Expr::Binary(BinaryOp::Ne, a, b), 0) => {
                if let Some(value) = self.value(facts, b) {
                    self.suppose_parts(facts, a, value);
                }
            }
            _ => {}
        }
    }

    /// The final target of a jump to a place, past nodes that only test constant facts.
    fn resolve(&self, to: Option<Place>, facts: &Facts) -> Option<Place> {
        let mut place = to?;
        for _ in 0..SKIPS_MAX {
            let node = self.graph.node(place);
            if self.graph.stops_at(place) || !node.stmts.is_empty() {
                break;
            }
            place = match &node.terminator {
                Terminator::Goto(next) => self.graph.sibling(place, *next),
                Terminator::If { cond, then, otherwise } => match self.condition(facts, cond) {
                    Some(false) => self.graph.sibling(place, *otherwise),
                    Some(true) => self.graph.sibling(place, *then),
                    None => break,
                },
                Terminator::Switch { value, cases, default } => match self.value(facts, value) {
                    // Searching many for every jump would take long.
                    Some(value) if cases.len() <= CASES_MAX => {
                        let value = value.into();
                        let case = cases.iter().find(|(case, _)| *case == value);
                        self.graph.sibling(place, case.map_or(*default, |(_, node)| *node))
                    }
                    _ => break,
                },
                Terminator::Return if !self.ends_with_work(place) => match self.graph.next_step(place) {
                    Some(next) => next,
                    None => break,
                },
                _ => break,
            };
        }
        Some(place)
    }

    /// True if more than a jump happens where the block of a place is left.
    fn ends_with_work(&self, place: Place) -> bool {
        self.graph.block(place).kind == BlockKind::Deparser || self.graph.ends_ingress(place)
    }

    /// Calls `visit` with each edge by which packets leave a place, its target by the facts before the place (`None`: out of the
    /// switch), and the constant facts there. Returns the result of the condition of an `if`, if it is known.
    fn for_each_edge(
        &self,
        place: Place,
        before: &Facts,
        visit: &mut dyn FnMut(Edge, Option<Place>, &Facts),
    ) -> Option<bool> {
        let mut condition = None;
        let node = self.graph.node(place);
        let mut facts = before.clone();
        // The facts after one of several edges, in memory that the next edge reuses.
        let mut there = Facts::default();
        let mut edge =
            |edge: Edge, to: Option<Place>, facts: &Facts| visit(edge, self.resolve(to, facts), facts);
        let reject = |there: &mut Facts, facts: &Facts| {
            there.clone_from(facts);
            self.graph.block(place).error_field.iter().for_each(|&f| self.forget(there, f));
            self.learn_end(there, place);
        };
        for (number, stmt) in node.stmts.iter().enumerate() {
            if stmt.op.may_reject() {
                reject(&mut there, &facts);
                edge(Edge::Error(StatementId::new(number)), self.graph.next_step_on_error(place), &there);
            }
            self.learn(&mut facts, &stmt.op);
        }
        match &node.terminator {
            Terminator::Goto(next) => {
                edge(Edge::Target(TargetId::new(0)), Some(self.graph.sibling(place, *next)), &facts)
            }
            Terminator::If { cond, then, otherwise } => {
                condition = self.condition(&facts, cond);
                let mut number = 0;
                for (value, node) in [(true, then), (false, otherwise)] {
                    if condition.is_none_or(|known| known == value) {
                        there.clone_from(&facts);
                        self.suppose(&mut there, cond, value.into());
                        edge(
                            Edge::Target(TargetId::new(number)),
                            Some(self.graph.sibling(place, *node)),
                            &there,
                        );
                        number += 1;
                    }
                }
            }
            Terminator::Switch { value, cases, default } => {
                for (number, (case, node)) in cases.iter().enumerate() {
                    there.clone_from(&facts);
                    if let Some(case) = case.to_u64() {
                        self.suppose(&mut there, value, case);
                    }
                    edge(Edge::Target(TargetId::new(number)), Some(self.graph.sibling(place, *node)), &there);
                }
                edge(
                    Edge::Target(TargetId::new(cases.len())),
                    Some(self.graph.sibling(place, *default)),
                    &facts,
                );
            }
            // No condition tests the field that a turn writes.
            Terminator::Turn { next, spent, .. } => {
                edge(Edge::Target(TargetId::new(0)), Some(self.graph.sibling(place, *next)), &facts);
                edge(Edge::Target(TargetId::new(1)), Some(self.graph.sibling(place, *spent)), &facts);
            }
            Terminator::Apply { table, next, exit, .. } => {
                node.terminator.for_each_result(&mut |f| self.forget(&mut facts, f));
                let table = &self.graph.program.tables[table.index()];
                for (number, action) in table.actions.iter().map(|action| action.action).enumerate() {
                    let listed = ListedAction::new(number);
                    there.clone_from(&facts);
                    self.learn_action(&mut there, action);
                    if may_exit(self.graph.program, action) {
                        let to = self.graph.sibling_after(place, action, *exit);
                        edge(Edge::Action(listed, true), Some(to), &there);
                    }
                    let to = self.graph.sibling_after(place, action, *next);
                    edge(Edge::Action(listed, false), Some(to), &there);
                }
                // A group without members runs none.
                if table.profile.is_some() {
                    edge(Edge::NoAction, Some(self.graph.sibling(place, *next)), &facts);
                }
            }
            Terminator::Return => {
                self.learn_end(&mut facts, place);
                edge(Edge::End, self.graph.next_step(place), &facts)
            }
            Terminator::Reject(_) => {
                reject(&mut there, &facts);
                edge(Edge::End, self.graph.after(place), &there);
            }
            Terminator::Egress => edge(Edge::End, self.graph.after(place), &facts),
            Terminator::Drop(_) | Terminator::Done | Terminator::Exit => {}
        }
        condition
    }

    /// The constant facts where packets or copies begin: fields that copies do not inherit are 0.
    fn facts_at(&self, begin: PipelineHalf, inherited: &Inherited) -> Facts {
        let mut facts = self.nothing();
        if self.tracked.bit.iter().any(Option::is_some) {
            facts.valid = Combinations::none_valid();
        }
        for slot in self.graph.slots.all() {
            if self.graph.has_copies(begin) && inherited.at(begin).contains(slot) {
                self.put(&mut facts, slot, None);
            } else {
                self.put(&mut facts, slot, Some(0));
            }
        }
        facts
    }

    /// The facts before each place; `None` where no packet comes. If finding them takes too long, nothing is tracked any more.
    fn propagate(&mut self, inherited: &Inherited) -> PerPlace<Option<Facts>> {
        let graph = self.graph;
        let join = |into: &mut Option<Facts>, from: &Option<Facts>| match (into, from) {
            (Some(into), Some(from)) => into.join(from),
            (into, from) => {
                *into = from.clone();
                true
            }
        };
        let mut before: PerPlace<Option<Facts>> = graph.per_place(None);
        let mut entries = BTreeSet::new();
        for begin in PipelineHalf::ALL {
            if (begin == PipelineHalf::Ingress || graph.has_copies(begin))
                && let Some(place) = graph.entry(begin)
            {
                join(&mut before[place], &Some(self.facts_at(begin, inherited)));
                entries.insert(place);
            }
        }
        let combinations = if self.tracked.bit.iter().any(Option::is_some) { COMBINATIONS_MAX } else { 0 };
        let solved = solver::forward(
            graph,
            &mut before,
            entries.into_iter(),
            &mut Budget::new(COMPARED_MAX),
            |place| graph.edges(place) * (1 + self.tracked.count + combinations),
            join,
            |place, before, edge| {
                let before = before.as_ref().expect("a place is queued when facts reach it");
                // The solver compares stored values.
                let mut behind = None;
                self.for_each_edge(place, before, &mut |_, to, facts| {
                    let Some(to) = to else { return };
                    match &mut behind {
                        Some(behind) => Facts::clone_from(behind, facts),
                        none => *none = Some(facts.clone()),
                    }
                    edge(to, &behind);
                });
            },
        );
        if solved.is_err() {
            self.tracked.index.fill(None);
            self.tracked.bit.fill(None);
            self.tracked.count = 0;
            before = graph.per_place(Some(self.nothing()));
        }
        before
    }
}

/// True if an action may end the block that runs it.
fn may_exit(program: &Program, action: ActionId) -> bool {
    let nodes = &program.actions[action.index()].body.nodes;
    nodes.iter().any(|node| matches!(node.terminator, Terminator::Exit))
}

impl Tracked {
    /// The fields that branches test, validity, and the fields that indices are computed from.
    fn of(graph: &Graph) -> Tracked {
        let program: &Program = graph.program;
        let mut tracked = vec![false; program.fields.len()];
        program.headers.iter().for_each(|h| tracked[h.valid.index()] = true);
        for place in graph.places() {
            if let Terminator::If { cond: asked, .. } | Terminator::Switch { value: asked, .. } =
                &graph.node(place).terminator
            {
                asked.for_each_field(&mut |f| tracked[f.index()] = true);
            }
        }
        // A known index determines the element.
        let mut indices = Vec::new();
        let bodies = program.blocks.iter().map(|b| &b.body).chain(program.actions.iter().map(|a| &a.body));
        for node in bodies.flat_map(|body| &body.nodes) {
            for stmt in &node.stmts {
                if let Op::SetElement { index, .. } | Op::ExtractElement { index, .. } = &stmt.op {
                    index.for_each_field(&mut |f| indices.push(f));
                }
            }
            let mut visit = |e: &Expr| {
                e.clone().rewrite(&mut |e| {
                    if let Expr::Element { index, .. } = e {
                        index.for_each_field(&mut |f| indices.push(f));
                    }
                });
            };
            node.stmts.iter().for_each(|stmt| stmt.op.for_each_expr(&mut visit));
            node.terminator.for_each_expr(&mut visit);
        }
        // The fields they are copied from are then tracked, too.
        follow_copies(program, indices, &mut tracked);
        // These get their values from outside.
        program.intrinsics.iter().for_each(|(_, f)| tracked[f.index()] = false);
        for (tracked, field) in tracked.iter_mut().zip(&program.fields) {
            *tracked &= field.width <= 64;
        }
        let wanted = tracked.iter().filter(|tracked| **tracked).count() + 1 + program.headers.len();
        let all = wanted.saturating_mul(graph.count()) <= FACTS_MAX;
        let mut count = 0;
        let fields = tracked.into_iter().map(|tracked| tracked && all);
        // The cursor, and where headers begin.
        let others = std::iter::once(true).chain(std::iter::repeat_n(all, program.headers.len()));
        let index = fields.chain(others).map(|tracked| {
            tracked.then(|| {
                count += 1;
                count - 1
            })
        });
        let mut index: Vec<Option<u32>> = index.collect();
        // Rows and sums are not tracked.
        index.resize(graph.slots.count(), None);
        let mut bit = vec![None; graph.slots.count()];
        // A combination takes as much memory as a value.
        if wanted.saturating_add(COMBINATIONS_MAX).saturating_mul(graph.count()) <= FACTS_MAX {
            for (h, header) in (0..).zip(program.headers.iter().take(HEADERS_MAX)) {
                let slot = graph.slots.field(header.valid);
                bit[slot.index()] = index[slot.index()].map(|_| h);
            }
        }
        Tracked { index, count: count as usize, bit }
    }
}

/// Marks the fields, and those from which statements compute their values. Values from packets or elements are unknown.
fn follow_copies(program: &Program, mut open: Vec<FieldId>, tracked: &mut [bool]) {
    let mut sources: HashMap<FieldId, Vec<FieldId>> = HashMap::new();
    if !open.is_empty() {
        let bodies = program.blocks.iter().map(|b| &b.body).chain(program.actions.iter().map(|a| &a.body));
        for stmt in bodies.flat_map(|body| &body.nodes).flat_map(|node| &node.stmts) {
            if let Op::Set { dest, value } = &stmt.op {
                let mut is_plain = true;
                value.for_each_column(&mut |_| is_plain = false);
                if is_plain {
                    value.for_each_field(&mut |f| sources.entry(*dest).or_default().push(f));
                }
            }
        }
    }
    while let Some(field) = open.pop() {
        let kind = program.fields[field.index()].kind;
        if matches!(kind, FieldKind::Metadata | FieldKind::Temporary)
            && !std::mem::replace(&mut tracked[field.index()], true)
        {
            open.extend(sources.get(&field).into_iter().flatten());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::inherited;
    use crate::graph::Stops;
    use p4jet_ir::{BlockKind, NodeId};

    const TWO_HEADERS: &str = r#"
program "p"
errors NoError, PacketTooShort
error_packet_too_short 1
field a.$valid$: 1 valid a
field a.x: 8 in a
field b.$valid$: 1 valid b
field b.y: 8 in b
field meta.port: 9 metadata
field meta.error: 32 metadata
header a valid a.$valid$ { a.x }
header b valid b.$valid$ { b.y }
block "parse" parser error meta.error {
  n0:
    extract a
    switch a.x { 0x1: n1 } else n2
  n1:
    extract b
    return
  n2:
    return
}
block "ask" control {
  n0:
    if b.$valid$ then n1 else n4
  n1:
    meta.port = 0x1:9
    if a.$valid$ then n2 else n3
  n2:
    meta.port = 0x2:9
    return
  n3:
    meta.port = 0x3:9
    return
  n4:
    meta.port = 0x4:9
    return
}
ingress "parse", "ask"
egress_port meta.port
"#;

    fn places(graph: &Graph, kind: BlockKind, nodes: &[u32]) -> Vec<Place> {
        let at = |node: u32| {
            let is_it = |place: &Place| {
                graph.block(*place).kind == kind && graph.position(*place).node == NodeId(node)
            };
            graph.places().find(is_it).expect("the place exists")
        };
        nodes.iter().map(|&node| at(node)).collect()
    }

    fn find<'a>(graph: &'a Graph<'a>) -> Constants<'a> {
        constants(graph, &inherited::inherited(graph))
    }

    #[test]
    fn a_parser_path_leads_past_tests_whose_result_it_knows() {
        let program = p4jet_ir::text::parse(TWO_HEADERS).unwrap();
        let graph = Graph::new(&program, Stops::Nowhere, &[]);
        let found = find(&graph);
        let parse = places(&graph, BlockKind::Parser, &[0, 1, 2]);
        let ask = places(&graph, BlockKind::Control, &[0, 1, 2, 3, 4]);
        // Too short for `a`: neither is valid. Else as the switch says, which jumps past an empty node.
        assert_eq!(found.successors(parse[0]), [parse[1], ask[4]]);
        // Too short for `b`, or both are valid.
        assert_eq!(found.successors(parse[1]), [ask[1], ask[4]]);
        assert_eq!(found.successors(ask[1]), [ask[2]], "what was extracted behind `a` has `a`");
        let known = |place: Place, field: u32| found.eval.known_field(&found.before(place), FieldId(field));
        assert_eq!(known(ask[2], 0), Some(1));
        assert_eq!(known(ask[4], 2), Some(0));
        assert_eq!(known(ask[4], 0), None);
    }

    #[test]
    fn validity_that_a_statement_clears_is_not_implied() {
        let text = TWO_HEADERS.replace("    meta.port = 0x1:9\n", "    a.$valid$ = b.y[0:0]\n");
        let program = p4jet_ir::text::parse(&text).unwrap();
        let graph = Graph::new(&program, Stops::Nowhere, &[]);
        let ask = places(&graph, BlockKind::Control, &[0, 1, 2, 3]);
        assert_eq!(find(&graph).successors(ask[1]), [ask[2], ask[3]]);
    }

    #[test]
    fn a_test_of_one_header_decides_the_others_that_come_with_it() {
        let text =
            TWO_HEADERS.replace("    meta.port = 0x4:9\n", "    a.$valid$ = 0x0:1\n    b.$valid$ = 0x0:1\n");
        let program = p4jet_ir::text::parse(&text).unwrap();
        let graph = Graph::new(&program, Stops::Nowhere, &[]);
        let ask = places(&graph, BlockKind::Control, &[0, 1, 2]);
        assert_eq!(find(&graph).successors(ask[1]), [ask[2]]);
        // No packet has `b` without `a`.
        let text = text.replace("if b.$valid$ then", "if and(b.$valid$, not(a.$valid$)) then");
        let program = p4jet_ir::text::parse(&text).unwrap();
        let graph = Graph::new(&program, Stops::Nowhere, &[]);
        let parse = places(&graph, BlockKind::Parser, &[0, 1]);
        let ask = places(&graph, BlockKind::Control, &[0, 4]);
        assert_eq!(find(&graph).successors(parse[1]), [ask[1]]);
    }
}
