//! Facts about fields at each program point that hold for every packet: a header is valid, there was no error.
//!
//! A condition that a fact decides need not be tested. A jump to a node that only tests such a condition goes directly
//! to the result: a parser path that found a header continues where the header is valid.

use crate::flow::{Flow, Place, Slot, SlotSet, chosen};
use crate::values::ones;
use num_traits::ToPrimitive;
use p4jet_ir::{
    ActionId, Begin, BinaryOp, Expr, FieldId, FieldKind, HeaderId, Op, Program, Terminator, UnaryOp,
};
use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};

/// Values of the tracked fields, where known.
#[derive(Debug, PartialEq, Eq)]
pub struct Facts(Vec<Option<u64>>);

impl Clone for Facts {
    fn clone(&self) -> Facts {
        Facts(self.0.clone())
    }

    fn clone_from(&mut self, other: &Facts) {
        self.0.clone_from(&other.0);
    }
}

impl Facts {
    /// Keeps what both know. Whether that is less than it was.
    fn join(&mut self, other: &Facts) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            if mine.is_some() && mine != theirs {
                *mine = None;
                changed = true;
            }
        }
        changed
    }
}

/// What the analysis of a program found.
#[derive(Default)]
pub struct Knowledge {
    /// For each slot: its index in [`Facts`], if it is tracked.
    index: Vec<Option<u32>>,
    /// How many are tracked.
    count: usize,
    /// For each header: headers that are valid whenever it is.
    implied: Vec<Vec<HeaderId>>,
    /// For each field: the header whose validity it is, if only extraction sets that.
    validity: Vec<Option<HeaderId>>,
    /// Before each place; `None` where no packet comes.
    before: Vec<Option<Facts>>,
    /// Where each place leads, past what is known; `None` where no packet comes.
    ways: Vec<Option<Vec<Place>>>,
}

/// A jump skips at most this many nodes.
const SKIPS_MAX: usize = 64;
/// A jump skips no `Switch` of more cases.
const CASES_MAX: usize = 256;
/// Most facts that are compared, summed over all edges on all visits: a fifth of a second. Where more would be needed, nothing is
/// known.
const COMPARED_MAX: usize = 1 << 26;

/// Most facts that are kept, summed over the places: 64 MiB. Of a larger program only the cursor is tracked, so its code
/// asks for what it could know.
const FACTS_MAX: usize = 4 << 20;

impl<'a> Flow<'a> {
    /// Finds all facts.
    pub fn find_facts(&mut self) {
        self.knowledge = Knowledge::of(self);
        self.propagate();
        if self.copies().next().is_none() {
            self.find_implied();
            if self.knowledge.implied.iter().any(|headers| !headers.is_empty()) {
                self.propagate();
            }
        }
    }

    /// What is known before a place.
    pub fn facts_before(&self, place: Place) -> Facts {
        self.knowledge.before[place].clone().unwrap_or_else(|| self.no_facts())
    }

    /// What is known before the terminator of a place.
    pub fn facts_at_end(&self, place: Place) -> Facts {
        let mut facts = self.facts_before(place);
        self.node(place).stmts.iter().for_each(|stmt| self.learn(&mut facts, &stmt.op));
        facts
    }

    /// Nothing is known.
    pub fn no_facts(&self) -> Facts {
        Facts(vec![None; self.knowledge.count])
    }

    /// The value of a slot, if it is known.
    pub fn known(&self, facts: &Facts, slot: Slot) -> Option<u64> {
        facts.0[(*self.knowledge.index.get(slot)?)? as usize]
    }

    /// Forgets a field.
    pub fn forget(&self, facts: &mut Facts, field: FieldId) {
        self.put(facts, field.index(), None);
    }

    fn put(&self, facts: &mut Facts, slot: Slot, value: Option<u64>) {
        if let Some(index) = self.knowledge.index[slot] {
            facts.0[index as usize] = value;
        }
    }

    /// A statement on an element, if it is known which: as it is for that one. `Some(None)` if there is no such element.
    pub fn settled(&self, facts: &Facts, op: &Op) -> Option<Option<Op>> {
        Some(match op {
            Op::SetElement { column, index, value } => {
                chosen(column, self.value(facts, index)?).map(|dest| Op::Set { dest, value: value.clone() })
            }
            Op::ExtractElement { headers, index, varbit_length } => {
                chosen(headers, self.value(facts, index)?)
                    .map(|header| Op::Extract { header, varbit_length: varbit_length.clone() })
            }
            _ => return None,
        })
    }

    /// What a statement that went well leaves known.
    pub fn learn(&self, facts: &mut Facts, op: &Op) {
        if let Some(settled) = self.settled(facts, op) {
            settled.iter().for_each(|op| self.learn(facts, op));
            return;
        }
        match op {
            Op::Set { dest, value } => {
                let value = self.value(facts, value);
                self.put(facts, dest.index(), value);
            }
            op => {
                op.for_each_write(&self.program.headers, &mut |f| self.forget(facts, f));
                let cursor = self.known(facts, self.cursor_slot());
                // What is far behind the longest frame was never reached.
                let behind =
                    |bits: Option<u64>| match cursor? + bits?.is_multiple_of(8).then_some(bits? / 8)? {
                        cursor if cursor < 1 << 16 => Some(cursor),
                        _ => None,
                    };
                match op {
                    Op::Extract { header, .. } => {
                        self.put(facts, self.program.headers[header.index()].valid.index(), Some(1));
                        self.put(facts, self.offset_slot(*header), cursor.map(|bytes| bytes + 1));
                        let bits = self.header_bits(*header).map(u64::from);
                        self.put(facts, self.cursor_slot(), behind(bits));
                    }
                    Op::ExtractElement { headers, .. } => {
                        headers.iter().for_each(|header| self.put(facts, self.offset_slot(*header), None));
                        self.put(facts, self.cursor_slot(), None);
                    }
                    Op::Advance { bits } => {
                        self.put(facts, self.cursor_slot(), behind(self.value(facts, bits)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// What is known behind the end of the block of a place, if it is left there: a deparser leaves no header where it was.
    pub fn learn_end(&self, facts: &mut Facts, place: Place) {
        if self.deparse[self.places[place].step].is_some() {
            self.put(facts, self.cursor_slot(), Some(0));
            for header in 0..self.program.headers.len() {
                self.put(facts, self.offset_slot(HeaderId(header as u32)), Some(0));
            }
        }
    }

    /// What is known inside an action: of one node, before its statements.
    pub fn facts_in_action(&self, facts: &Facts, action: ActionId) -> Facts {
        let of_action = &self.program.actions[action.index()];
        if of_action.body.nodes.len() > 1 {
            return self.facts_after_action(facts, action);
        }
        let mut facts = facts.clone();
        of_action.params.iter().for_each(|&param| self.forget(&mut facts, param));
        facts
    }

    /// What is known after an action, whatever way it took.
    pub fn facts_after_action(&self, facts: &Facts, action: ActionId) -> Facts {
        let mut facts = facts.clone();
        self.learn_action(&mut facts, action);
        facts
    }

    fn learn_action(&self, facts: &mut Facts, action: ActionId) {
        let action = &self.program.actions[action.index()];
        action.params.iter().for_each(|&param| self.forget(facts, param));
        if let [node] = action.body.nodes.as_slice() {
            node.stmts.iter().for_each(|stmt| self.learn(facts, &stmt.op));
            return;
        }
        for stmt in action.body.nodes.iter().flat_map(|node| &node.stmts) {
            stmt.op.for_each_write(&self.program.headers, &mut |f| self.forget(facts, f));
        }
    }

    /// The value of an expression, if it is known.
    pub fn value(&self, facts: &Facts, expr: &Expr) -> Option<u64> {
        let width = expr.width(self.program);
        if width > 64 {
            return None;
        }
        let value = |e: &Expr| self.value(facts, e);
        match expr {
            Expr::Const { value, .. } => value.to_u64(),
            Expr::Field(f) => self.known(facts, f.index()),
            Expr::Element { column, index } => match chosen(column, value(index)?) {
                Some(f) => self.known(facts, f.index()),
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

    /// What is known where `expr` has this value.
    pub fn suppose(&self, facts: &mut Facts, expr: &Expr, value: u64) {
        match (expr, value) {
            (Expr::Field(f), _) => {
                self.put(facts, f.index(), Some(value));
                if value == 1
                    && let Some(header) = self.knowledge.validity[f.index()]
                {
                    for implied in &self.knowledge.implied[header.index()] {
                        self.put(facts, self.program.headers[implied.index()].valid.index(), Some(1));
                    }
                }
            }
            (Expr::Unary(UnaryOp::Not, a), _) => {
                let width = a.width(self.program);
                if width <= 64 {
                    self.suppose(facts, a, value ^ ones(width));
                }
            }
            (Expr::Binary(BinaryOp::And, a, b), 1) | (Expr::Binary(BinaryOp::Or, a, b), 0)
                if a.width(self.program) == 1 =>
            {
                self.suppose(facts, a, value);
                self.suppose(facts, b, value);
            }
            (Expr::Binary(BinaryOp::Eq, a, b), 1) | (Expr::Binary(BinaryOp::Ne, a, b), 0) => {
                if let Some(value) = self.value(facts, b) {
                    self.suppose(facts, a, value);
                }
            }
            _ => {}
        }
    }

    /// Where a jump to a place leads in the end: past nodes that do nothing but ask what is known.
    pub fn resolve(&self, to: Option<Place>, facts: &Facts) -> Option<Place> {
        let mut place = to?;
        for _ in 0..SKIPS_MAX {
            let node = self.node(place);
            if self.stops_at(place) || !node.stmts.is_empty() {
                break;
            }
            place = match &node.terminator {
                Terminator::Goto(next) => self.sibling(place, *next),
                Terminator::If { cond, then, otherwise } => match self.value(facts, cond) {
                    Some(0) => self.sibling(place, *otherwise),
                    Some(_) => self.sibling(place, *then),
                    None => break,
                },
                Terminator::Switch { value, cases, default } => match self.value(facts, value) {
                    // Searching many for every jump would take long.
                    Some(value) if cases.len() <= CASES_MAX => {
                        let value = value.into();
                        let case = cases.iter().find(|(case, _)| *case == value);
                        self.sibling(place, case.map_or(*default, |(_, node)| *node))
                    }
                    _ => break,
                },
                Terminator::Return | Terminator::Exit if !self.ends_with_work(place) => {
                    match self.next_step(place) {
                        Some(next) => next,
                        None => break,
                    }
                }
                _ => break,
            };
        }
        Some(place)
    }

    /// Whether more than a jump happens where the block of a place is left.
    fn ends_with_work(&self, place: Place) -> bool {
        let step = self.places[place].step;
        self.deparse[step].is_some() || step + 1 == self.program.ingress.len()
    }

    /// Tells `visit` where a packet goes from a place, by the facts before it, and what is known there.
    fn for_each_edge(&self, place: Place, before: &Facts, visit: &mut dyn FnMut(Option<Place>, &Facts)) {
        let node = self.node(place);
        let mut facts = before.clone();
        // What is known behind one of several edges, in memory that the next one uses again.
        let mut there = Facts(Vec::new());
        let mut edge = |to: Option<Place>, facts: &Facts| visit(self.resolve(to, facts), facts);
        let reject = |there: &mut Facts, facts: &Facts| {
            there.clone_from(facts);
            self.block(place).error_field.iter().for_each(|&f| self.forget(there, f));
            self.learn_end(there, place);
        };
        for stmt in &node.stmts {
            if stmt.op.may_reject() {
                reject(&mut there, &facts);
                edge(self.next_step_on_error(place), &there);
            }
            self.learn(&mut facts, &stmt.op);
        }
        match &node.terminator {
            Terminator::Goto(next) => edge(Some(self.sibling(place, *next)), &facts),
            Terminator::If { cond, then, otherwise } => {
                let known = self.value(&facts, cond);
                for (value, node) in [(1, then), (0, otherwise)] {
                    if known.is_none_or(|known| known == value) {
                        there.clone_from(&facts);
                        self.suppose(&mut there, cond, value);
                        edge(Some(self.sibling(place, *node)), &there);
                    }
                }
            }
            Terminator::Switch { value, cases, default } => {
                for (case, node) in cases {
                    there.clone_from(&facts);
                    if let Some(case) = case.to_u64() {
                        self.suppose(&mut there, value, case);
                    }
                    edge(Some(self.sibling(place, *node)), &there);
                }
                edge(Some(self.sibling(place, *default)), &facts);
            }
            // No condition tests what a turn writes.
            Terminator::Turn { next, spent, .. } => {
                edge(Some(self.sibling(place, *next)), &facts);
                edge(Some(self.sibling(place, *spent)), &facts);
            }
            Terminator::Apply { table, next, exit, .. } => {
                node.terminator.for_each_result(&mut |f| self.forget(&mut facts, f));
                let table = &self.program.tables[table.index()];
                for action in table.actions.iter().map(|action| action.action) {
                    there.clone_from(&facts);
                    self.learn_action(&mut there, action);
                    if self.may_exit(action) {
                        edge(Some(self.behind_action(place, action, *exit)), &there);
                    }
                    edge(Some(self.behind_action(place, action, *next)), &there);
                }
                // A group without members runs none.
                if table.profile.is_some() {
                    edge(Some(self.sibling(place, *next)), &facts);
                }
            }
            Terminator::Return | Terminator::Exit => {
                self.learn_end(&mut facts, place);
                edge(self.next_step(place), &facts)
            }
            Terminator::Reject(_) => {
                reject(&mut there, &facts);
                edge(self.after(place), &there);
            }
            Terminator::Egress => edge(self.after(place), &facts),
            Terminator::Drop(_) | Terminator::Done => {}
        }
    }

    /// How many edges [`Self::for_each_edge`] finds, at most.
    pub fn edges(&self, place: Place) -> usize {
        let node = self.node(place);
        let targets = match &node.terminator {
            Terminator::Switch { cases, .. } => cases.len() + 1,
            Terminator::Apply { table, .. } => 2 * self.program.tables[table.index()].actions.len() + 1,
            _ => 2,
        };
        targets + node.stmts.iter().filter(|stmt| stmt.op.may_reject()).count()
    }

    /// What is known where packets or copies begin: fields are 0 that copies do not bring along.
    fn facts_at(&self, begin: Begin) -> Facts {
        let brought: &SlotSet = self.brought(begin);
        let mut facts = self.no_facts();
        for (slot, index) in self.knowledge.index.iter().enumerate() {
            if let Some(index) = index
                && !(self.has_copies(begin) && brought.contains(slot))
            {
                facts.0[*index as usize] = Some(0);
            }
        }
        facts
    }

    fn propagate(&mut self) {
        let mut before: Vec<Option<Facts>> = vec![None; self.places.len()];
        let mut work = BTreeSet::new();
        for begin in Begin::ALL {
            if (begin == Begin::Ingress || self.has_copies(begin))
                && let Some(place) = self.entry(begin)
            {
                match &mut before[place] {
                    Some(facts) => _ = facts.join(&self.facts_at(begin)),
                    facts => *facts = Some(self.facts_at(begin)),
                }
                work.insert((self.order[place], place));
            }
        }
        let mut compared = 0;
        while let Some((_, place)) = work.pop_first() {
            compared += self.edges(place) * (1 + self.knowledge.count);
            if compared > COMPARED_MAX {
                self.knowledge.index.fill(None);
                self.knowledge.count = 0;
                before = vec![Some(self.no_facts()); self.places.len()];
                break;
            }
            // Taken out while the edges are followed, of which one may lead back here.
            let facts = before[place].take().expect("queued when something came to be known");
            let mut to_itself: Option<Facts> = None;
            self.for_each_edge(place, &facts, &mut |to, there| {
                let Some(to) = to else { return };
                if to == place {
                    match &mut to_itself {
                        Some(known) => _ = known.join(there),
                        unknown => *unknown = Some(there.clone()),
                    }
                    return;
                }
                let changed = match &mut before[to] {
                    Some(known) => known.join(there),
                    unknown => {
                        *unknown = Some(there.clone());
                        true
                    }
                };
                if changed {
                    work.insert((self.order[to], to));
                }
            });
            let mut facts = facts;
            if to_itself.is_some_and(|there| facts.join(&there)) {
                work.insert((self.order[place], place));
            }
            before[place] = Some(facts);
        }
        let ways = before.iter().enumerate().map(|(place, facts)| {
            let mut ways = BTreeSet::new();
            self.for_each_edge(place, facts.as_ref()?, &mut |to, _| ways.extend(to));
            Some(ways.into_iter().collect())
        });
        let ways = ways.collect();
        self.knowledge.ways = ways;
        self.knowledge.before = before;
    }

    /// The places to which jumps from a place may lead.
    pub fn ways(&self, place: Place) -> Vec<Place> {
        self.knowledge.ways[place].clone().unwrap_or_else(|| self.successors(place))
    }

    /// A header that is only ever extracted behind another is valid only if that one is.
    fn find_implied(&mut self) {
        let valid = |h: usize| self.program.headers[h].valid;
        let count = self.program.headers.len();
        let once_set: Vec<bool> = (0..count).map(|h| !self.written.contains(&valid(h))).collect();
        let mut implied: Vec<Option<BTreeSet<usize>>> = vec![None; count];
        // Unless validity is tracked nothing is implied.
        let is_tracked = (0..count).any(|h| self.knowledge.index[valid(h).index()].is_some());
        for place in (0..self.places.len()).filter(|_| is_tracked) {
            let Some(mut facts) = self.knowledge.before[place].clone() else { continue };
            for stmt in &self.node(place).stmts {
                let now: LazyCell<BTreeSet<usize>, _> = LazyCell::new(|| {
                    let holds = |h: &usize| once_set[*h] && self.known(&facts, valid(*h).index()) == Some(1);
                    (0..count).filter(holds).collect()
                });
                stmt.op.for_each_extracted(&mut |header| {
                    let implied = &mut implied[header.index()];
                    *implied = Some(match implied.take() {
                        None => now.clone(),
                        Some(before) => before.intersection(&now).copied().collect(),
                    });
                });
                drop(now);
                self.learn(&mut facts, &stmt.op);
            }
        }
        let mut validity = vec![None; self.program.fields.len()];
        for h in (0..count).filter(|&h| once_set[h]) {
            validity[valid(h).index()] = Some(HeaderId(h as u32));
        }
        self.knowledge.implied = implied
            .into_iter()
            .map(|headers| headers.into_iter().flatten().map(|h| HeaderId(h as u32)).collect())
            .collect();
        self.knowledge.validity = validity;
    }
}

impl Knowledge {
    /// Nothing yet, of the fields that branches ask for and of validity.
    fn of(flow: &Flow) -> Knowledge {
        let program: &Program = flow.program;
        let mut tracked = vec![false; program.fields.len()];
        program.headers.iter().for_each(|h| tracked[h.valid.index()] = true);
        for place in 0..flow.places.len() {
            if let Terminator::If { cond: asked, .. } | Terminator::Switch { value: asked, .. } =
                &flow.node(place).terminator
            {
                asked.for_each_field(&mut |f| tracked[f.index()] = true);
            }
        }
        // What is known of an index settles which element is meant.
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
        // What they are copied from is known then, too.
        follow_copies(program, indices, &mut tracked);
        // These get their values from outside.
        program.intrinsics.iter().for_each(|(_, f)| tracked[f.index()] = false);
        for (tracked, field) in tracked.iter_mut().zip(&program.fields) {
            *tracked &= field.width <= 64;
        }
        let wanted = tracked.iter().filter(|tracked| **tracked).count() + 1 + program.headers.len();
        let all = wanted.saturating_mul(flow.places.len()) <= FACTS_MAX;
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
        Knowledge {
            index: index.collect(),
            count: count as usize,
            implied: vec![Vec::new(); program.headers.len()],
            validity: vec![None; program.fields.len()],
            before: Vec::new(),
            ways: Vec::new(),
        }
    }
}

/// Marks the fields, and those from which statements compute their values. What a packet or an element gives is not known.
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
    use crate::flow::Stops;
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

    fn places(flow: &Flow, kind: BlockKind, nodes: &[u32]) -> Vec<Place> {
        let at = |node: u32| {
            let is_it =
                |place: &Place| flow.block(*place).kind == kind && flow.places[*place].node == NodeId(node);
            (0..flow.places.len()).find(is_it).expect("the place exists")
        };
        nodes.iter().map(|&node| at(node)).collect()
    }

    #[test]
    fn a_parser_path_leads_past_questions_that_it_answers() {
        let program = p4jet_ir::text::parse(TWO_HEADERS).unwrap();
        let flow = Flow::new(&program, Stops::Nowhere, &[], &[]);
        let parse = places(&flow, BlockKind::Parser, &[0, 1, 2]);
        let ask = places(&flow, BlockKind::Control, &[0, 1, 2, 3, 4]);
        // Too short for `a`: neither is valid. Else as the switch says, which jumps past an empty node.
        assert_eq!(flow.ways(parse[0]), [parse[1], ask[4]]);
        // Too short for `b`, or both are valid.
        assert_eq!(flow.ways(parse[1]), [ask[1], ask[4]]);
        assert_eq!(flow.ways(ask[1]), [ask[2]], "what was extracted behind `a` has `a`");
        assert_eq!(flow.known(&flow.facts_before(ask[2]), 0), Some(1));
        assert_eq!(flow.known(&flow.facts_before(ask[4]), 2), Some(0));
        assert_eq!(flow.known(&flow.facts_before(ask[4]), 0), None);
    }

    #[test]
    fn validity_that_a_statement_takes_away_is_not_implied() {
        let text = TWO_HEADERS.replace("    meta.port = 0x1:9\n", "    a.$valid$ = b.y[0:0]\n");
        let program = p4jet_ir::text::parse(&text).unwrap();
        let flow = Flow::new(&program, Stops::Nowhere, &[], &[]);
        let ask = places(&flow, BlockKind::Control, &[0, 1, 2, 3]);
        assert_eq!(flow.ways(ask[1]), [ask[2], ask[3]]);
    }
}
