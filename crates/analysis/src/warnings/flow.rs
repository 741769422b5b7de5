//! Reads of values that were never written, and accesses to invalid headers: an abstract interpretation of parsers,
//! controls and functions that tracks facts about each variable, to a fixed point.
//!
//! Each parser, control and function is analysed separately: `in` and `inout` parameters start with values and valid
//! headers, `out` parameters and variables without values and with invalid headers. Actions are interpreted where they are
//! called; a table may run any of its actions. A call of a parser, control, function or extern reads its inputs and writes
//! all its outputs. The analysis uses the result of `isValid()` where a condition tests it.

use super::layout::{Kind, Layout, Layouts};
use super::state::{State, Validity, join, join_into};
use crate::typed::{
    ActionId, Call, Callee, Collection, Control, Expr, ExprKind, Function, Local, Param, Parser, Program,
    Stmt, StmtKind, SwitchActionCase, TableId, Target, Transition, Type, VarId,
};
use crate::walk::params;
use p4jet_syntax::ast::{BinaryOp, Direction, UnaryOp};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

/// Maximum number of slots for the variables of a parser, control or function; the others are assumed to hold values.
const SLOTS_MAX: u32 = 1 << 15;

/// Maximum number of steps for a parser, control or function. A step is a statement, an expression, or 64 slots that are
/// copied, joined or set. Deeply nested calls of actions and nested loops may exceed it: then nothing more is reported
/// about the parser, control or function.
const STEPS_MAX: u32 = 1 << 18;

/// Maximum number of steps for a program.
const PROGRAM_STEPS_MAX: u32 = 1 << 21;

/// Number of slots handled in one step.
const SLOTS_PER_STEP: usize = 64;

/// Maximum number of fields that a message names.
const FIELDS_MAX: usize = 4;

/// Warns about uses of missing values and invalid headers.
pub(super) fn warn(program: &Program, found: &mut Vec<Diagnostic>) {
    let mut flow = Flow {
        program,
        layouts: Layouts::default(),
        vars: vec![None; program.vars.len()],
        slots: 0,
        steps: 0,
        steps_left: PROGRAM_STEPS_MAX,
        quiet: 0,
        state: None,
        ends: Ends::default(),
        seen: HashSet::new(),
        left: HashMap::new(),
        found,
    };
    // Callers need to know which headers a function leaves invalid.
    for (i, function) in program.functions.iter().enumerate() {
        flow.function(i, function);
    }
    for parser in &program.parsers {
        flow.parser(parser);
    }
    for control in &program.controls {
        flow.control(control);
    }
}

/// States at the places where control flow leaves the straight path, joined per kind of exit.
#[derive(Default)]
struct Ends {
    returned: Option<State>,
    exited: Option<State>,
    broken: Option<State>,
    continued: Option<State>,
}

struct Flow<'a> {
    program: &'a Program,
    layouts: Layouts,
    /// First slot of each tracked variable.
    vars: Vec<Option<(u32, Rc<Layout>)>>,
    slots: u32,
    /// Steps left for the current parser, control or function.
    steps: u32,
    /// Steps left for those after it.
    steps_left: u32,
    /// While this is not 0, nothing is reported: the state is not final.
    quiet: u32,
    /// The state at the current program point; `None` if it is unreachable.
    state: Option<State>,
    ends: Ends,
    seen: HashSet<(Span, &'static str)>,
    /// By function and parameter, the headers inside that are, or may be, invalid when the function returns.
    left: HashMap<(usize, usize), Vec<(u32, Validity)>>,
    found: &'a mut Vec<Diagnostic>,
}

/// Storage that an expression names.
#[derive(Clone)]
struct Place {
    /// First slots; several if an index is unknown, of which one is meant.
    starts: Vec<u32>,
    layout: Rc<Layout>,
    /// The union that this is a member of.
    union: Option<(u32, Rc<Layout>)>,
}

impl Place {
    fn exact(&self) -> bool {
        self.starts.len() == 1
    }
}

impl Flow<'_> {
    fn begin(&mut self) {
        self.vars.fill(None);
        self.slots = 0;
        self.steps_left += self.steps;
        self.steps = self.steps_left.min(STEPS_MAX);
        self.steps_left -= self.steps;
        self.quiet = 0;
        self.state = Some(State::default());
        self.ends = Ends::default();
    }

    fn control(&mut self, control: &Control) {
        let Some(body) = &control.body else { return };
        self.begin();
        self.params(&control.params);
        self.locals(&body.locals);
        self.stmts(&body.apply);
        let ends = std::mem::take(&mut self.ends);
        let end = join(join(self.state.take(), ends.returned), ends.exited);
        self.check_out_params(&control.params, end.as_ref(), "control", &control.name);
    }

    fn function(&mut self, id: usize, function: &Function) {
        let Some(body) = &function.body else { return };
        self.begin();
        self.params(&function.params);
        self.stmts(body);
        let ends = std::mem::take(&mut self.ends);
        let end = join(self.state.take(), ends.returned);
        self.check_out_params(&function.params, end.as_ref(), "function", &function.name);
        let Some(end) = end.filter(|_| self.steps > 0) else { return };
        for (i, param) in function.params.iter().enumerate() {
            let Some((start, layout)) = &self.vars[param.var.index()] else { continue };
            let mut left = Vec::new();
            layout.validities(*start, &mut |slot| match end.validity(slot) {
                Validity::Valid => {}
                other => left.push((slot - start, other)),
            });
            self.left.insert((id, i), left);
        }
    }

    fn parser(&mut self, parser: &Parser) {
        let Some(body) = &parser.body else { return };
        self.begin();
        self.params(&parser.params);
        self.locals(&body.locals);
        let mut entry: Vec<Option<State>> = vec![None; body.states.len()];
        entry[body.start as usize] = self.state.take();
        // First in, first out, so that a state with many predecessors is analysed after all of them.
        let mut work = VecDeque::from([body.start as usize]);
        let mut waits = vec![false; body.states.len()];
        let mut end = None;
        self.quiet += 1;
        while let Some(i) = work.pop_front() {
            waits[i] = false;
            self.state = entry[i].clone();
            self.parser_state(&body.states[i]);
            if self.steps == 0 {
                // The facts about the states are not final.
                return;
            }
            for target in targets(&body.states[i].transition) {
                self.spend_on_state();
                match target {
                    Target::State(next) => {
                        let next = next as usize;
                        if join_into(&mut entry[next], self.state.as_ref())
                            && !std::mem::replace(&mut waits[next], true)
                        {
                            work.push_back(next);
                        }
                    }
                    Target::Accept | Target::Reject => {
                        join_into(&mut end, self.state.as_ref());
                    }
                }
            }
        }
        self.quiet -= 1;
        for (state, entry) in body.states.iter().zip(entry) {
            self.state = entry;
            self.parser_state(state);
        }
        self.check_out_params(&parser.params, end.as_ref(), "parser", &parser.name);
    }

    fn parser_state(&mut self, state: &crate::typed::State) {
        self.stmts(&state.stmts);
        if let Transition::Select { keys, .. } = &state.transition {
            keys.iter().for_each(|key| self.read(key));
        }
    }

    // Variables.

    fn params(&mut self, params: &[Param]) {
        for param in params {
            self.declare(param.var, param.dir != Direction::Out);
        }
    }

    fn locals(&mut self, locals: &[Local]) {
        for local in locals {
            if let Local::Var(var, init) = local {
                self.variable(*var, init.as_ref());
            }
        }
    }

    fn variable(&mut self, var: VarId, init: Option<&Expr>) {
        if let Some(init) = init {
            self.read(init);
        }
        self.declare(var, false);
        if let (Some(init), Some(place)) = (init, self.var_place(var)) {
            self.store(&place, init);
        }
    }

    /// Declares a variable, with values and valid headers or without.
    fn declare(&mut self, var: VarId, full: bool) {
        if self.vars[var.index()].is_none() {
            let layout = self.layouts.of(self.program, &self.program.vars[var.index()].ty);
            let Some(end) = self.slots.checked_add(layout.size).filter(|end| *end <= SLOTS_MAX) else {
                return;
            };
            self.vars[var.index()] = Some((self.slots, layout));
            self.slots = end;
        }
        if let Some(place) = self.var_place(var) {
            self.fill(&place, full, if full { Validity::Valid } else { Validity::Invalid });
        }
    }

    fn var_place(&self, var: VarId) -> Option<Place> {
        let (start, layout) = self.vars[var.index()].as_ref()?;
        Some(Place { starts: vec![*start], layout: Rc::clone(layout), union: None })
    }

    /// Sets the facts about everything inside a place.
    fn fill(&mut self, place: &Place, written: bool, validity: Validity) {
        self.spend_on_place(place);
        let Some(state) = &mut self.state else { return };
        for &start in &place.starts {
            state.set_written(start, place.layout.size, written);
            place.layout.validities(start, &mut |slot| state.set_validity(slot, validity));
        }
    }

    /// Notes that something outside wrote a place, so all of it holds values.
    fn written_outside(&mut self, place: &Place) {
        self.leave_union(place);
        self.fill(place, true, Validity::Valid);
    }

    /// Handles that a member of a union becomes valid, which makes the others invalid.
    fn leave_union(&mut self, place: &Place) {
        if let (Some(state), Some((start, union))) = (&mut self.state, &place.union) {
            union.validities(*start, &mut |slot| state.set_validity(slot, Validity::Invalid));
        }
    }

    /// `place = value`, where the value has been read.
    fn store(&mut self, place: &Place, value: &Expr) {
        if let ExprKind::Cast(inner) = &value.kind {
            return self.store(place, inner);
        }
        if !place.exact() {
            // The element is unknown, so all are assumed to be fine.
            let source = self.quietly(|f| f.place(value));
            let invalid = matches!(value.kind, ExprKind::Invalid)
                || source.is_some_and(|source| self.header_validity(&source) == Some(Validity::Invalid));
            if !invalid {
                self.fill(place, true, Validity::Valid);
            }
            return;
        }
        match (&place.layout.kind, &value.kind) {
            (Kind::Struct(fields) | Kind::Header(fields), ExprKind::Aggregate(items))
                if items.len() == fields.len() =>
            {
                if matches!(place.layout.kind, Kind::Header(_)) {
                    return self.written_outside(place);
                }
                for ((at, layout), item) in fields.iter().zip(items) {
                    let starts = vec![place.starts[0] + at];
                    self.store(&Place { starts, layout: Rc::clone(layout), union: None }, item);
                }
            }
            (Kind::Stack(element, _), ExprKind::Aggregate(items)) => {
                for (i, item) in (0..).zip(items) {
                    let starts = vec![place.starts[0] + i * element.size];
                    self.store(&Place { starts, layout: Rc::clone(element), union: None }, item);
                }
            }
            (_, ExprKind::Invalid) => self.fill(place, true, Validity::Invalid),
            _ => {
                let source = self.quietly(|f| f.place(value));
                match source.filter(|s| s.layout.size == place.layout.size) {
                    Some(source) if source.exact() => self.copy(place, &source),
                    Some(source) => {
                        let validity = self.header_validity(&source).unwrap_or(Validity::Valid);
                        self.leave_union(place);
                        self.fill(place, true, validity);
                    }
                    None => self.written_outside(place),
                }
            }
        }
    }

    /// Returns the facts about a header that is one of several.
    fn header_validity(&self, place: &Place) -> Option<Validity> {
        let (Kind::Header(_), Some(state)) = (&place.layout.kind, &self.state) else { return None };
        let mut found = Validity::Invalid;
        for &start in &place.starts {
            match state.validity(start) {
                Validity::Valid => return Some(Validity::Valid),
                Validity::Unknown => found = Validity::Unknown,
                Validity::Invalid => {}
            }
        }
        Some(found)
    }

    /// Copies the facts about headers; missing values were reported where they were read.
    fn copy(&mut self, to: &Place, from: &Place) {
        self.spend_on_place(to);
        let Some(state) = &mut self.state else { return };
        let (to_start, from_start) = (to.starts[0], from.starts[0]);
        let mut valid = Vec::new();
        from.layout.validities(from_start, &mut |slot| valid.push((slot - from_start, state.validity(slot))));
        if let Some((start, union)) = &to.union {
            union.validities(*start, &mut |slot| state.set_validity(slot, Validity::Invalid));
        }
        state.set_written(to_start, to.layout.size, true);
        for (at, validity) in valid {
            state.set_validity(to_start + at, validity);
        }
    }

    // Statements.

    fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            if self.state.is_none() || !self.step() {
                return;
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Var(var, init) => self.variable(*var, init.as_ref()),
            StmtKind::Instance(_) => {}
            StmtKind::Assign(left, right) => {
                let place = self.written_place(left);
                self.read(right);
                if let Some(place) = place {
                    self.store(&place, right);
                }
            }
            StmtKind::AssignOp(left, _, right) => {
                self.read(left);
                self.read(right);
                if let Some(place) = self.quietly(|f| f.place(left)) {
                    self.fill(&place, true, Validity::Valid);
                }
            }
            StmtKind::Call(call) => self.call(call),
            StmtKind::If(cond, then, other) => {
                self.spend_on_state();
                let (yes, no) = self.test(cond);
                self.state = yes;
                self.stmts(then);
                let after = std::mem::replace(&mut self.state, no);
                self.stmts(other);
                self.state = join(after, self.state.take());
            }
            StmtKind::Block { stmts, .. } => self.stmts(stmts),
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.read(value);
                }
                self.ends.returned = join(self.ends.returned.take(), self.state.take());
            }
            StmtKind::Exit => self.ends.exited = join(self.ends.exited.take(), self.state.take()),
            StmtKind::Break => self.ends.broken = join(self.ends.broken.take(), self.state.take()),
            StmtKind::Continue => self.ends.continued = join(self.ends.continued.take(), self.state.take()),
            StmtKind::SwitchAction { table, cases } => self.switch_action(*table, cases),
            StmtKind::Switch { value, cases } => {
                self.read(value);
                let before = self.state.clone();
                let has_default = cases.iter().any(|case| case.has_default);
                let mut after = if has_default { None } else { before.clone() };
                for case in cases {
                    self.spend_on_state();
                    self.state = before.clone();
                    self.stmts(&case.body);
                    after = join(after, self.state.take());
                }
                self.state = after;
            }
            StmtKind::For { init, cond, update, body } => {
                self.stmts(init);
                self.repeat(|f| {
                    let (yes, no) = f.test(cond);
                    f.state = yes;
                    f.stmts(body);
                    f.state = join(f.state.take(), f.ends.continued.take());
                    f.stmts(update);
                    no
                });
            }
            StmtKind::ForIn { var, collection, body } => {
                match collection {
                    Collection::Range(lo, hi) => {
                        self.read(lo);
                        self.read(hi);
                    }
                    Collection::Elements(elements) => self.read(elements),
                }
                self.repeat(|f| {
                    let over = f.state.clone();
                    f.declare(*var, true);
                    f.stmts(body);
                    f.state = join(f.state.take(), f.ends.continued.take());
                    over
                });
            }
        }
    }

    /// Analyses a loop: `turn` runs it once, from its head back to it, and returns the state in which the loop ends.
    fn repeat(&mut self, mut turn: impl FnMut(&mut Self) -> Option<State>) {
        let outer = (self.ends.broken.take(), self.ends.continued.take());
        let mut head = self.state.clone();
        self.quiet += 1;
        loop {
            self.spend_on_state();
            self.state = head.clone();
            turn(self);
            let joined = join(head.clone(), self.state.take());
            if joined == head || self.steps == 0 {
                break;
            }
            head = joined;
        }
        self.quiet -= 1;
        self.ends.broken = None;
        self.state = head;
        let left = turn(self);
        self.state = join(left, self.ends.broken.take());
        (self.ends.broken, self.ends.continued) = outer;
    }

    fn switch_action(&mut self, table: TableId, cases: &[SwitchActionCase]) {
        let mut case_of: HashMap<u32, usize> = HashMap::new();
        for (i, case) in cases.iter().enumerate() {
            case_of.extend(case.actions.iter().map(|action| (*action, i)));
        }
        let default = cases.iter().position(|case| case.has_default);
        let mut entries: Vec<Option<State>> = vec![None; cases.len()];
        let mut after = None;
        self.outcomes(table, |action, state| match case_of.get(&action).copied().or(default) {
            Some(case) => _ = join_into(&mut entries[case], state),
            None => _ = join_into(&mut after, state),
        });
        for (case, entry) in cases.iter().zip(entries) {
            self.spend_on_state();
            self.state = entry;
            self.stmts(&case.body);
            join_into(&mut after, self.state.as_ref());
        }
        self.state = after;
    }

    // Tables and actions.

    /// Applies a table: `then` receives the state after each of its actions, by their positions in the table's list.
    fn outcomes(&mut self, id: TableId, mut then: impl FnMut(u32, Option<&State>)) {
        let table = &self.program.tables[id.index()];
        table.keys.iter().for_each(|key| self.read(&key.expr));
        let before = self.state.take();
        for (i, listed) in (0..).zip(&table.actions) {
            if !self.step() {
                break;
            }
            self.spend_on_state();
            self.state = before.clone();
            self.action(listed.action.action, &listed.action.args);
            then(i, self.state.as_ref());
        }
        if table.actions.is_empty() {
            then(0, before.as_ref());
        }
        self.state = None;
    }

    fn apply_table(&mut self, id: TableId) {
        let mut after = None;
        self.outcomes(id, |_, state| _ = join_into(&mut after, state));
        self.state = after;
    }

    /// Runs an action; missing arguments come from the control plane.
    fn action(&mut self, id: ActionId, args: &[Option<Expr>]) {
        let action = &self.program.actions[id.index()];
        let mut targets = Vec::new();
        for (param, arg) in action.params.iter().zip(args) {
            let Some(arg) = arg else {
                self.declare(param.var, param.dir != Direction::Out);
                continue;
            };
            if param.dir != Direction::Out {
                self.read(arg);
            }
            if matches!(param.dir, Direction::Out | Direction::InOut) {
                targets.push((param.var, self.written_place(arg)));
            }
            self.declare(param.var, param.dir != Direction::Out);
            if param.dir != Direction::Out
                && let Some(place) = self.var_place(param.var)
            {
                self.store(&place, arg);
            }
        }
        let outer = self.ends.returned.take();
        self.stmts(&action.body);
        self.state = join(self.state.take(), self.ends.returned.take());
        self.ends.returned = outer;
        let end = self.state.clone();
        self.check_out_params(&action.params, end.as_ref(), "action", &action.name);
        for (var, target) in targets {
            let (Some(target), Some(source)) = (target, self.var_place(var)) else { continue };
            if target.exact() && target.layout.size == source.layout.size {
                self.copy(&target, &source);
            } else {
                self.fill(&target, true, Validity::Valid);
            }
        }
    }

    /// Reports the `out` parameters that may return without a value; headers may be invalid.
    fn check_out_params(&mut self, params: &[Param], end: Option<&State>, what: &str, name: &str) {
        let Some(end) = end else { return };
        for param in params.iter().filter(|p| p.dir == Direction::Out) {
            let Some((start, layout)) = &self.vars[param.var.index()] else { continue };
            let mut missing = false;
            layout.plain_values(*start, &mut |slot| missing |= end.unwritten(slot));
            if missing {
                let var = &self.program.vars[param.var.index()];
                let whole = matches!(layout.kind, Kind::Leaf);
                let text = match whole {
                    true => {
                        format!("`out` parameter `{}` may have no value when {what} `{name}` ends", var.name)
                    }
                    false => format!(
                        "parts of `out` parameter `{}` may have no value when {what} `{name}` ends",
                        var.name
                    ),
                };
                let note = "every path must write it; otherwise the caller gets 0";
                self.report("uninitialized-out-param", var.span, text, |d| d.note(note));
            }
        }
    }

    // Calls.

    fn call(&mut self, call: &Call) {
        match &call.callee {
            Callee::TableApply(table) => self.apply_table(*table),
            Callee::Action(id) => self.action(*id, &call.args),
            Callee::SetValid(header) => self.set_header(header, Validity::Valid),
            Callee::SetInvalid(header) => self.set_header(header, Validity::Invalid),
            Callee::IsValid(header) => {
                self.place(header);
            }
            Callee::PushFront(stack, _) | Callee::PopFront(stack, _) => {
                if let Some(place) = self.place(stack) {
                    // Which elements are valid afterwards depends on which were before.
                    self.fill(&place, true, Validity::Valid);
                }
            }
            Callee::Function(id) => {
                self.outside(call);
                let params = params(self.program, &call.callee);
                for (i, (param, arg)) in params.iter().zip(&call.args).enumerate() {
                    if let (Direction::Out | Direction::InOut, Some(arg)) = (param.dir, arg) {
                        self.left_invalid((id.index(), i), arg);
                    }
                }
            }
            Callee::Method { .. } | Callee::Apply(_) | Callee::DirectApply(_) => self.outside(call),
        }
    }

    /// A call of something that is analysed separately.
    fn outside(&mut self, call: &Call) {
        let mut places = Vec::new();
        for (param, arg) in params(self.program, &call.callee).iter().zip(&call.args) {
            let Some(arg) = arg else { continue };
            if param.dir != Direction::Out {
                self.read(arg);
            }
            if matches!(param.dir, Direction::Out | Direction::InOut) {
                places.extend(self.written_place(arg));
            }
        }
        places.iter().for_each(|place| self.written_outside(place));
    }

    /// Marks the headers in an argument that the called function leaves invalid.
    fn left_invalid(&mut self, param: (usize, usize), arg: &Expr) {
        let Some(place) = self.quietly(|f| f.place(arg)).filter(Place::exact) else { return };
        let (Some(left), Some(state)) = (self.left.get(&param), &mut self.state) else { return };
        for (at, validity) in left.iter().filter(|(at, _)| *at < place.layout.size) {
            state.set_validity(place.starts[0] + at, *validity);
        }
    }

    fn set_header(&mut self, header: &Expr, validity: Validity) {
        let Some(place) = self.place(header) else { return };
        if place.exact() {
            if validity == Validity::Valid {
                self.leave_union(&place);
            }
            self.set_validity(&place, validity);
        } else if validity == Validity::Valid {
            // It may be any of them, so nothing is reported about them.
            self.set_validity(&place, validity);
        }
    }

    fn set_validity(&mut self, place: &Place, validity: Validity) {
        let Some(state) = &mut self.state else { return };
        for &start in &place.starts {
            place.layout.validities(start, &mut |slot| state.set_validity(slot, validity));
        }
    }

    // Expressions.

    /// Returns the states in which a condition is true and false.
    fn test(&mut self, cond: &Expr) -> (Option<State>, Option<State>) {
        match &cond.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => {
                let (yes, no) = self.test(inner);
                (no, yes)
            }
            ExprKind::Binary(BinaryOp::And, a, b) => {
                let (yes, no) = self.test(a);
                self.state = yes;
                let (both, not_second) = self.test(b);
                (both, join(no, not_second))
            }
            ExprKind::Binary(BinaryOp::Or, a, b) => {
                let (yes, no) = self.test(a);
                self.state = no;
                let (second, neither) = self.test(b);
                (join(yes, second), neither)
            }
            ExprKind::Call(call) => {
                let Callee::IsValid(header) = &call.callee else { return self.plain_test(cond) };
                let place = self.place(header);
                let mut no = self.state.clone();
                if let Some(place) = place {
                    if let (true, Some(no)) = (place.exact(), &mut no) {
                        place.layout.validities(place.starts[0], &mut |slot| no.test_failed(slot));
                    }
                    self.set_validity(&place, Validity::Valid);
                }
                (self.state.take(), no)
            }
            ExprKind::ApplyHit { table, miss } => {
                let (hit, missed) = self.hit_or_miss(*table);
                if *miss { (missed, hit) } else { (hit, missed) }
            }
            _ => self.plain_test(cond),
        }
    }

    fn plain_test(&mut self, cond: &Expr) -> (Option<State>, Option<State>) {
        self.read(cond);
        (self.state.clone(), self.state.take())
    }

    /// Returns the states after an entry's action and after the default action of a table.
    fn hit_or_miss(&mut self, id: TableId) -> (Option<State>, Option<State>) {
        let table = &self.program.tables[id.index()];
        let (mut hit, mut miss) = (None, None);
        self.outcomes(id, |i, state| {
            let listed = table.actions.get(i as usize);
            let marked = |name: &str| {
                listed.is_some_and(|listed| listed.annotations.iter().any(|a| a.name.text == name))
            };
            if !marked("defaultonly") {
                join_into(&mut hit, state);
            }
            let default = listed.is_none_or(|listed| listed.action.action == table.default.action);
            if default || !table.const_default && !marked("tableonly") {
                join_into(&mut miss, state);
            }
        });
        (hit, miss)
    }

    /// Handles a use of an expression's value.
    fn read(&mut self, expr: &Expr) {
        if !self.step() {
            return;
        }
        match &expr.kind {
            ExprKind::Var(_)
            | ExprKind::Field(..)
            | ExprKind::Index(..)
            | ExprKind::StackNext(_)
            | ExprKind::StackLast(_) => {
                if let Some(place) = self.place(expr)
                    // For a field of an invalid header, the other warning suffices.
                    && !self.seen.contains(&(expr.span, "invalid-header"))
                {
                    self.check_written(expr, &place);
                }
                if let Some(next) = next_inside(expr)
                    && self.state.is_some()
                {
                    let text = "`next` is the first element that has no value yet";
                    let note = "`last` is the last extracted element";
                    self.report("uninitialized", next, text.into(), |d| d.note(note));
                }
            }
            ExprKind::StackLastIndex(stack) => {
                self.place(stack);
            }
            ExprKind::Unary(UnaryOp::Not, _) | ExprKind::Binary(BinaryOp::And | BinaryOp::Or, ..) => {
                let (yes, no) = self.test(expr);
                self.state = join(yes, no);
            }
            ExprKind::Conditional(cond, a, b) => {
                let (yes, no) = self.test(cond);
                self.state = yes;
                self.read(a);
                let after = std::mem::replace(&mut self.state, no);
                self.read(b);
                self.state = join(after, self.state.take());
            }
            ExprKind::Call(call) => self.call(call),
            ExprKind::ApplyHit { table, .. } => self.apply_table(*table),
            _ => expr.operands().for_each(|operand| self.read(operand)),
        }
    }

    /// Returns the storage that an expression names, after reading all its indices and checking all headers on the path;
    /// `None` if it names none or the variable is not tracked.
    fn place(&mut self, expr: &Expr) -> Option<Place> {
        if !self.step() {
            return None;
        }
        match &expr.kind {
            ExprKind::Var(var) => self.var_place(*var),
            ExprKind::Field(base, field) => {
                let place = self.place(base)?;
                let (at, layout) = match &place.layout.kind {
                    Kind::Struct(fields) | Kind::Union(fields) => fields.get(*field as usize)?,
                    Kind::Header(fields) => {
                        self.check_valid(base, expr, &place);
                        fields.get(*field as usize)?
                    }
                    Kind::Leaf | Kind::Stack(..) => return None,
                };
                let union = matches!(place.layout.kind, Kind::Union(_)) && place.exact();
                Some(Place {
                    union: union.then(|| (place.starts[0], Rc::clone(&place.layout))),
                    starts: place.starts.iter().map(|start| start + at).collect(),
                    layout: Rc::clone(layout),
                })
            }
            ExprKind::Index(base, index) => {
                let place = self.place(base)?;
                self.read(index);
                let known = match &index.kind {
                    ExprKind::Int(i) => Some(u32::try_from(i).ok()?),
                    _ => None,
                };
                match &place.layout.kind {
                    Kind::Stack(element, n) => {
                        let wanted = match known {
                            Some(i) if i < *n => i..i + 1,
                            Some(_) => return None,
                            None => 0..*n,
                        };
                        elements(&place, element, wanted)
                    }
                    Kind::Struct(fields) => {
                        let (at, layout) = fields.get(known? as usize)?;
                        let starts = place.starts.iter().map(|start| start + at).collect();
                        Some(Place { starts, layout: Rc::clone(layout), union: None })
                    }
                    _ => None,
                }
            }
            ExprKind::StackNext(base) | ExprKind::StackLast(base) => {
                let place = self.place(base)?;
                let Kind::Stack(element, n) = &place.layout.kind else { return None };
                elements(&place, element, 0..*n)
            }
            ExprKind::Slice(value, ..) => self.place(value),
            ExprKind::SliceAt { value, lo, .. } => {
                self.read(lo);
                self.place(value)
            }
            _ => {
                self.read(expr);
                None
            }
        }
    }

    /// Returns the storage that is about to be written; writing a slice preserves the other bits, which counts as a use.
    fn written_place(&mut self, expr: &Expr) -> Option<Place> {
        if matches!(expr.kind, ExprKind::Slice(..) | ExprKind::SliceAt { .. }) {
            self.read(expr);
            return self.quietly(|f| f.place(expr));
        }
        self.place(expr)
    }

    fn quietly<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.quiet += 1;
        let result = f(self);
        self.quiet -= 1;
        result
    }

    fn step(&mut self) -> bool {
        self.spend(1);
        self.steps > 0
    }

    fn spend(&mut self, steps: usize) {
        self.steps = self.steps.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX));
    }

    /// Accounts for a copy or join of the state.
    fn spend_on_state(&mut self) {
        self.spend(self.slots as usize / SLOTS_PER_STEP);
    }

    /// Accounts for examining or setting all slots of a place.
    fn spend_on_place(&mut self, place: &Place) {
        self.spend(place.starts.len() * (1 + place.layout.size as usize / SLOTS_PER_STEP));
    }

    // Reports.

    fn check_valid(&mut self, header: &Expr, access: &Expr, place: &Place) {
        let is = match self.header_validity(place) {
            None | Some(Validity::Valid) => return,
            Some(Validity::Invalid) => "is",
            Some(Validity::Unknown) => "may be",
        };
        let text = format!("header `{}` {is} invalid here", path(self.program, header));
        let span = access.span;
        let root = root(header).map(|var| &self.program.vars[var.index()]);
        let label = match &access.kind {
            ExprKind::Field(_, field) => {
                format!("its field `{}` has no meaning then", self.field_name(header, *field))
            }
            _ => String::new(),
        };
        let note = "test it with `isValid()`; `setValid()` or `extract` makes it valid";
        self.report("invalid-header", span, text, |d| {
            let d = d.label(label).note(note);
            match root {
                Some(var) => d.related(var.span, format!("`{}` is declared here", var.name)),
                None => d,
            }
        });
    }

    fn field_name(&self, base: &Expr, field: u32) -> String {
        match &base.ty {
            Type::Struct(id, _) => self.program.structs[id.index()].fields[field as usize].name.clone(),
            _ => String::new(),
        }
    }

    fn check_written(&mut self, expr: &Expr, place: &Place) {
        self.spend_on_place(place);
        let Some(state) = &self.state else { return };
        let size = place.layout.size;
        let missing = |start: u32, layout: &Layout| {
            state.any_unwritten(start, layout.size)
                && match &layout.kind {
                    Kind::Header(_) => true,
                    // A header without facts says nothing about the others.
                    Kind::Stack(element, n) if matches!(element.kind, Kind::Header(_)) => {
                        (0..*n).map(|i| start + i * element.size).all(|header| {
                            state.validity(header) != Validity::Valid
                                && state.any_unwritten(header, element.size)
                        })
                    }
                    Kind::Union(members) => {
                        members.iter().all(|(at, member)| state.any_unwritten(start + at, member.size))
                    }
                    _ => is_missing(state, start, layout),
                }
        };
        if size == 0 || !place.starts.iter().any(|start| missing(*start, &place.layout)) {
            return;
        }
        let what = path(self.program, expr);
        let text = match &place.layout.kind {
            Kind::Leaf => format!("`{what}` may have no value here"),
            Kind::Struct(fields) | Kind::Header(fields) => {
                let decl = match &expr.ty {
                    Type::Struct(id, _) => Some(&self.program.structs[id.index()]),
                    _ => None,
                };
                let names: Vec<String> = fields
                    .iter()
                    .enumerate()
                    .filter(|(_, (at, field))| place.starts.iter().any(|start| missing(start + at, field)))
                    .map(|(i, _)| match decl {
                        Some(decl) => format!("`{}`", decl.fields[i].name),
                        None => format!("[{i}]"),
                    })
                    .collect();
                if names.is_empty() {
                    return;
                }
                let more = match names.len() > FIELDS_MAX {
                    true => format!(" and {} more", names.len() - FIELDS_MAX),
                    false => String::new(),
                };
                let shown = names.iter().take(FIELDS_MAX).cloned().collect::<Vec<_>>().join(", ");
                format!("parts of `{what}` may have no value here: {shown}{more}")
            }
            Kind::Union(_) | Kind::Stack(..) => format!("parts of `{what}` may have no value here"),
        };
        let root = root(expr).map(|var| &self.program.vars[var.index()]);
        self.report("uninitialized-use", expr.span, text, |d| match root {
            Some(var) => d.related(var.span, format!("`{}` is declared here, without a value", var.name)),
            None => d,
        });
    }

    fn report(
        &mut self,
        code: &'static str,
        span: Span,
        text: String,
        more: impl FnOnce(Diagnostic) -> Diagnostic,
    ) {
        if self.quiet == 0 && self.steps > 0 && self.seen.insert((span, code)) {
            self.found.push(more(Diagnostic::warning(code, span, text)));
        }
    }
}

/// True if a value is incomplete. A header inside something larger need not be valid, and then it has no values.
fn is_missing(state: &State, start: u32, layout: &Layout) -> bool {
    match &layout.kind {
        Kind::Leaf => state.unwritten(start),
        Kind::Header(_) if state.validity(start) != Validity::Valid => false,
        Kind::Struct(fields) | Kind::Header(fields) | Kind::Union(fields) => {
            fields.iter().any(|(at, field)| is_missing(state, start + at, field))
        }
        Kind::Stack(element, n) => (0..*n).any(|i| is_missing(state, start + i * element.size, element)),
    }
}

/// Returns elements of a stack.
fn elements(place: &Place, element: &Rc<Layout>, wanted: std::ops::Range<u32>) -> Option<Place> {
    let starts: Vec<u32> =
        place.starts.iter().flat_map(|start| wanted.clone().map(move |i| start + i * element.size)).collect();
    (!starts.is_empty()).then(|| Place { starts, layout: Rc::clone(element), union: None })
}

/// Returns the possible targets of a transition, each once.
fn targets(transition: &Transition) -> Vec<Target> {
    let mut seen = HashSet::new();
    match transition {
        Transition::Direct(target, _) => vec![*target],
        Transition::Select { cases, .. } => {
            cases.iter().map(|case| case.target).filter(|target| seen.insert(*target)).collect()
        }
    }
}

/// Returns the location of `next` in a place.
fn next_inside(expr: &Expr) -> Option<Span> {
    match &expr.kind {
        ExprKind::StackNext(_) => Some(expr.span),
        ExprKind::Field(base, _) | ExprKind::Index(base, _) | ExprKind::StackLast(base) => next_inside(base),
        _ => None,
    }
}

/// Returns the variable that contains a place.
pub(super) fn root(expr: &Expr) -> Option<VarId> {
    match &expr.kind {
        ExprKind::Var(var) => Some(*var),
        ExprKind::Field(base, _)
        | ExprKind::Index(base, _)
        | ExprKind::StackNext(base)
        | ExprKind::StackLast(base)
        | ExprKind::Slice(base, ..) => root(base),
        _ => None,
    }
}

/// Returns a place as the program writes it.
pub(super) fn path(program: &Program, expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Var(var) => program.vars[var.index()].name.clone(),
        ExprKind::Field(base, field) => {
            let name = match &base.ty {
                Type::Struct(id, _) => program.structs[id.index()].fields[*field as usize].name.as_str(),
                _ => "?",
            };
            format!("{}.{name}", path(program, base))
        }
        ExprKind::Index(base, index) => match &index.kind {
            ExprKind::Int(i) => format!("{}[{i}]", path(program, base)),
            _ => format!("{}[{}]", path(program, base), path(program, index)),
        },
        ExprKind::StackNext(base) => format!("{}.next", path(program, base)),
        ExprKind::StackLast(base) => format!("{}.last", path(program, base)),
        ExprKind::Slice(base, hi, lo) => format!("{}[{hi}:{lo}]", path(program, base)),
        ExprKind::Cast(inner) => path(program, inner),
        _ => "…".to_string(),
    }
}
