//! The reads of each statement and terminator, with their sources; and the simplification of each by constant facts, which decide the element
//! of a column and the side of a select.

use super::calls::{Call, call};
use super::constants::{Constants, Edge, Evaluator, Facts};
use super::effects::element;
use super::may_defined::{self, MayDefined, changes_nothing, unmasked};
use super::memos::Memos;
use super::sources::{Source, Sources};
use super::sums::{Sum, Summand, Sums, summands};
use crate::choice::Choice;
use crate::graph::{Graph, ListedAction, PerPlace, Place, StatementSite};
use crate::slots::{Slot, SlotKind, SlotSet, summed};
use cranelift_codegen::entity::{EntityRef, PrimaryMap};
use p4jet_ir::{ActionId, Expr, FieldId, Node, Op, Terminator};
use std::collections::HashMap;

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The slot that is read.
    pub slot: Slot,
    /// The source of its value.
    pub source: Source,
}

/// The reads at one program point, by slot.
#[derive(Clone, Debug, Default)]
pub struct Reads(Box<[Read]>);

impl Reads {
    /// The source of a slot, if it is read here.
    pub fn source(&self, slot: Slot) -> Option<Source> {
        // A slot that is also read as part of a column has two sources, the column's last.
        let found = self.0.get(self.0.partition_point(|read| read.slot < slot))?;
        (found.slot == slot).then_some(found.source)
    }

    /// All reads, by slot.
    pub fn iter(&self) -> impl Iterator<Item = &Read> {
        self.0.iter()
    }

    /// The slots whose own values are read. The offset of a header counts even where it is known: a later stage may not know it.
    fn kept<'s>(&'s self, graph: &'s Graph) -> impl Iterator<Item = Slot> + 's {
        let is_kept = |read: &&Read| {
            let kind = graph.slots.kind(read.slot);
            // Liveness adds the cursor at the statements that use it.
            kind != SlotKind::Cursor && (read.source == Source::Kept || matches!(kind, SlotKind::Offset(_)))
        };
        self.0.iter().filter(is_kept).map(|read| read.slot)
    }

    /// Adds the slots whose own values are read to a set of live slots.
    pub fn add_to(&self, graph: &Graph, live: &mut SlotSet) {
        self.kept(graph).for_each(|slot| live.insert(slot));
    }
}

/// A statement or terminator after its simplification by constant facts.
#[derive(Clone, Debug)]
pub enum Simplified<T> {
    /// The statement or terminator of the program.
    AsWritten,
    /// An equivalent one.
    Instead(Box<T>),
    /// No statement: it has no effect.
    Nothing,
}

impl<T> Simplified<T> {
    /// The statement or terminator to run, if any; `written` is the one in the program.
    pub fn of<'s>(&'s self, written: &'s T) -> Option<&'s T> {
        match self {
            Simplified::AsWritten => Some(written),
            Simplified::Instead(other) => Some(other),
            Simplified::Nothing => None,
        }
    }
}

/// The plan of a statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The statement to run.
    pub op: Simplified<Op>,
    /// The reads of the statement.
    pub reads: Reads,
    /// How it calls an extern function, if it does.
    pub call: Option<Call>,
    /// The sum, if it computes a checksum.
    pub sum: Option<Box<SumPlan>>,
    /// The cursor, if it is known.
    pub cursor: Option<u64>,
    /// Slots that are constants, if the statement creates copies.
    pub known: Known,
}

/// The plan of a checksum.
#[derive(Clone, Debug)]
pub struct SumPlan {
    /// The summands, unless an earlier sum is corrected.
    pub summands: Vec<Summand>,
    /// The relation to another sum.
    pub related: Option<Sum>,
}

/// The plan of a node: the node of a place, or one of an action that the table of the place runs.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Its statements, in order.
    pub stmts: Vec<Statement>,
    /// The terminator to run.
    pub terminator: Simplified<Terminator>,
    /// The form of the terminator, if it is a `switch`.
    pub choice: Choice,
    /// The reads of the terminator.
    pub reads: Reads,
}

/// An action that the table of a place runs.
#[derive(Clone, Debug)]
pub struct ActionPlan {
    /// The action.
    pub action: ActionId,
    /// Its nodes.
    pub nodes: Vec<NodePlan>,
    /// The place where packets continue when the action returns.
    pub next: Option<Place>,
    /// The place where packets continue when the action exits; `None` if it never does.
    pub exit: Option<Option<Place>>,
    /// True if the action has no effect: code jumps directly to where the packet goes next.
    pub is_empty: bool,
}

/// The plan of the actions after the lookup of a place.
#[derive(Clone, Debug)]
pub struct ApplyPlan {
    /// The actions of the table, in order.
    pub actions: PrimaryMap<ListedAction, ActionPlan>,
    /// The place where packets continue when no action runs; `None` if an action always runs.
    pub none: Option<Option<Place>>,
}

/// Slots with a known value, in order.
#[derive(Clone, Debug, Default)]
pub struct Known(Vec<(Slot, u64)>);

impl Known {
    /// The value of a slot, if it is known.
    pub fn get(&self, slot: Slot) -> Option<u64> {
        let found = self.0.binary_search_by_key(&slot, |known| known.0).ok()?;
        Some(self.0[found].1)
    }

    /// The known values among these slots.
    pub fn of(eval: &Evaluator, facts: &Facts, slots: impl Iterator<Item = Slot>) -> Known {
        let mut known: Vec<(Slot, u64)> =
            slots.filter_map(|slot| Some((slot, eval.known(facts, slot)?))).collect();
        known.sort_unstable();
        known.dedup();
        Known(known)
    }
}

/// The plans of all nodes.
pub struct Nodes {
    /// The node of each place that packets can reach.
    pub of_place: PerPlace<Option<NodePlan>>,
    /// The plan of the actions at each place that applies a table.
    pub applies: HashMap<Place, ApplyPlan>,
}

/// Results that reads depend on.
#[derive(Clone, Copy)]
pub struct ReadInputs<'a> {
    /// The sources of values.
    pub sources: Sources<'a>,
    /// Constant facts.
    pub constants: &'a Constants<'a>,
    /// May-defined slots.
    pub defined: &'a MayDefined,
    /// Related checksums.
    pub sums: &'a Sums,
    /// Remembered lookups.
    pub memos: &'a Memos,
}

/// Decides all reads.
pub fn reads(inputs: ReadInputs) -> Nodes {
    let graph = inputs.sources.graph;
    let mut nodes = Nodes { of_place: graph.per_place(None), applies: HashMap::new() };
    for place in graph.reached() {
        nodes.of_place[place] = Some(of_place(inputs, place));
        if let Some(plan) = of_apply(inputs, place) {
            nodes.applies.insert(place, plan);
        }
    }
    nodes
}

fn of_place(inputs: ReadInputs, place: Place) -> NodePlan {
    let mut point = Point {
        inputs,
        place,
        defined: inputs.defined.before(place).clone(),
        facts: inputs.constants.before(place),
    };
    let mut plan = point.node(inputs.sources.graph.node(place), true);
    if let Some((_, memo)) = inputs.memos.at(place) {
        let mut reads = plan.reads.0.into_vec();
        point.keep(inputs.sources.graph.slots.row(memo.row_table), &mut reads);
        plan.reads = sorted(reads);
    }
    plan
}

fn of_apply(inputs: ReadInputs, place: Place) -> Option<ApplyPlan> {
    let (graph, eval) = (inputs.sources.graph, inputs.sources.eval);
    let node = graph.node(place);
    let Terminator::Apply { table, .. } = &node.terminator else { return None };
    let set = inputs.defined.before_actions(graph, place);
    let mut facts = inputs.constants.at_end(place);
    node.terminator.for_each_result(&mut |f| eval.forget(&mut facts, f));
    let jump = |edge: Edge| inputs.constants.jumps.get(place, edge);
    let of_action = |(number, action): (usize, ActionId)| {
        let listed = ListedAction::new(number);
        let defined = may_defined::in_action(graph, &set, action);
        let inside = eval.facts_in_action(&facts, action);
        let of_node = |node: &Node| {
            Point { inputs, place, defined: defined.clone(), facts: inside.clone() }.node(node, false)
        };
        let body = &graph.program.actions[action.index()].body.nodes;
        ActionPlan {
            action,
            is_empty: body[0].stmts.is_empty() && body[0].terminator == Terminator::Return,
            nodes: body.iter().map(of_node).collect(),
            next: jump(Edge::Action(listed, false)).flatten(),
            exit: jump(Edge::Action(listed, true)),
        }
    };
    let actions = graph.program.tables[table.index()].actions.iter().map(|action| action.action);
    Some(ApplyPlan { actions: actions.enumerate().map(of_action).collect(), none: jump(Edge::NoAction) })
}

/// A program point with its facts.
struct Point<'a> {
    inputs: ReadInputs<'a>,
    place: Place,
    defined: SlotSet,
    facts: Facts,
}

impl<'a> Point<'a> {
    fn graph(&self) -> &'a Graph<'a> {
        self.inputs.sources.graph
    }

    fn eval(&self) -> &'a Evaluator<'a> {
        self.inputs.sources.eval
    }

    /// Plans a node that begins at this point. `is_own` is true for the node of the place.
    fn node(&mut self, node: &Node, is_own: bool) -> NodePlan {
        let mut stmts = Vec::with_capacity(node.stmts.len());
        for (number, stmt) in node.stmts.iter().enumerate() {
            let related = self.inputs.sums.get(&StatementSite::new(self.place, number)).filter(|_| is_own);
            stmts.push(self.statement(&stmt.op, related));
            self.eval().learn(&mut self.facts, &stmt.op);
            may_defined::define(self.graph().program, &mut self.defined, &stmt.op);
        }
        let mut reads = Vec::new();
        let terminator = self.simplify_terminator(&node.terminator, is_own);
        if let Some(terminator) = terminator.of(&node.terminator) {
            terminator.for_each_expr(&mut |e| self.read_expr(e, &mut reads));
        }
        let program = self.graph().program;
        let field = match node.terminator {
            Terminator::Turn { .. } => program.turns,
            // The code of the drop, where all paths have met, reads it.
            Terminator::Drop(_) => program.drop_place,
            _ => None,
        };
        field.iter().for_each(|f| self.keep(self.graph().slots.field(*f), &mut reads));
        let choice = match terminator.of(&node.terminator).unwrap_or(&node.terminator) {
            Terminator::Switch { value, cases, .. } => Choice::of_switch(program, value, cases.len()),
            _ => Choice::Compare,
        };
        NodePlan { stmts, terminator, choice, reads: sorted(reads) }
    }

    fn statement(&self, op: &Op, related: Option<&Sum>) -> Statement {
        let graph = self.graph();
        let mut reads = Vec::new();
        let mut sum = None;
        let simplified = self.simplify_op(op);
        match (summed(op), simplified.of(op)) {
            (Some(args), Some(op)) => {
                let summands = summands(graph, self.inputs.sources.extracts, self.place, &self.defined, args);
                match related {
                    Some(Sum::Corrected(slot, changed)) => {
                        self.keep(*slot, &mut reads);
                        changed.iter().for_each(|c| self.read(c.field, &mut reads));
                    }
                    _ => {
                        let args = summed(op).unwrap_or_default();
                        for summand in &summands {
                            match summand {
                                Summand::Argument(i, _) => self.read_expr(&args[*i], &mut reads),
                                Summand::Frame(at, _) => self.read_position(*at, &mut reads),
                            }
                        }
                    }
                }
                sum = Some(Box::new(SumPlan { summands, related: related.cloned() }));
            }
            (None, Some(op)) => op.for_each_expr(&mut |e| self.read_expr(e, &mut reads)),
            (_, None) => {}
        }
        let call = match simplified.of(op) {
            Some(Op::Extern { function, instance, args, outs, .. }) => {
                Some(call(graph.program, function, *instance, args, outs))
            }
            _ => None,
        };
        let cursor = self.eval().known(&self.facts, graph.slots.cursor());
        let inherits = matches!(op, Op::Copy(_)).then(|| graph.slots.all()).into_iter().flatten();
        let known = Known::of(self.eval(), &self.facts, inherits);
        Statement { op: simplified, reads: sorted(reads), call, sum, cursor, known }
    }

    /// Reads a field.
    fn read(&self, field: FieldId, reads: &mut Vec<Read>) {
        let slot = self.graph().slots.field(field);
        let source = self.inputs.sources.source(self.place, slot, &self.defined, &self.facts);
        reads.push(Read { slot, source });
        if let Source::Frame(at) | Source::FrameIfValid(at) = source {
            self.read_position(at, reads);
        }
    }

    /// Reads the slots with the position of a header, and its validity.
    fn read_position(&self, at: super::extracts::InFrame, reads: &mut Vec<Read>) {
        self.read(self.graph().program.headers[at.header.index()].valid, reads);
        if !at.is_fixed {
            self.keep(self.graph().slots.offset(at.header), reads);
        }
    }

    /// Reads a slot.
    fn keep(&self, slot: Slot, reads: &mut Vec<Read>) {
        reads.push(Read { slot, source: self.inputs.sources.source_as_is(slot, &self.facts) });
    }

    /// Adds the reads of an expression. An unknown index may choose any field of its column, so all of them must be where the index finds
    /// them.
    fn read_expr(&self, expr: &Expr, reads: &mut Vec<Read>) {
        match expr {
            Expr::Const { .. } => {}
            Expr::Field(f) => self.read(*f, reads),
            Expr::Element { column, index } => {
                self.read_expr(index, reads);
                let slots = column.iter().map(|f| self.graph().slots.field(*f));
                reads.extend(slots.map(|slot| Read { slot, source: Source::Kept }));
            }
            Expr::Unary(_, a)
            | Expr::Slice { value: a, .. }
            | Expr::ZeroExtend(a, _)
            | Expr::SignExtend(a, _) => self.read_expr(a, reads),
            Expr::Binary(_, a, b) | Expr::Concat(a, b) => {
                self.read_expr(a, reads);
                self.read_expr(b, reads);
            }
            Expr::Select(c, a, b) => {
                self.read_expr(c, reads);
                self.read_expr(a, reads);
                self.read_expr(b, reads);
            }
        }
    }

    fn simplify_op(&self, op: &Op) -> Simplified<Op> {
        if changes_nothing(self.graph().program, &self.defined, op) {
            return Simplified::Nothing;
        }
        let simplified = match self.eval().with_known_index(&self.facts, op) {
            Some(None) => return Simplified::Nothing,
            Some(Some(simplified)) => Some(simplified),
            None => None,
        };
        let mut has_choice = false;
        simplified.as_ref().unwrap_or(op).for_each_expr(&mut |e| has_choice |= self.has_choice(e));
        match simplified {
            None if !has_choice => Simplified::AsWritten,
            simplified => {
                let mut simplified = simplified.unwrap_or_else(|| op.clone());
                simplified.for_each_expr_mut(&mut |e| self.simplify(e));
                Simplified::Instead(Box::new(simplified))
            }
        }
    }

    fn simplify_terminator(&self, terminator: &Terminator, is_own: bool) -> Simplified<Terminator> {
        if let Terminator::If { cond, then, otherwise } = terminator
            && let Some(known) = match is_own {
                true => self.inputs.constants.condition(self.place),
                false => self.eval().condition(&self.facts, cond),
            }
        {
            let to = if known { *then } else { *otherwise };
            return Simplified::Instead(Box::new(Terminator::Goto(to)));
        }
        let mut has_choice = false;
        terminator.for_each_expr(&mut |e| has_choice |= self.has_choice(e));
        if !has_choice {
            return Simplified::AsWritten;
        }
        let mut simplified = terminator.clone();
        simplified.for_each_expr_mut(&mut |e| self.simplify(e));
        Simplified::Instead(Box::new(simplified))
    }

    /// True if an expression has a select or an index that [`Self::simplify`] replaces.
    fn has_choice(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Const { .. } | Expr::Field(_) => false,
            Expr::Element { index, .. } => {
                self.eval().value(&self.facts, index).is_some() || self.has_choice(index)
            }
            Expr::Unary(_, a)
            | Expr::Slice { value: a, .. }
            | Expr::ZeroExtend(a, _)
            | Expr::SignExtend(a, _) => self.has_choice(a),
            Expr::Binary(_, a, b) | Expr::Concat(a, b) => self.has_choice(a) || self.has_choice(b),
            Expr::Select(c, a, b) => {
                unmasked(self.graph().program, &self.defined, expr).is_some()
                    || self.eval().value(&self.facts, c).is_some()
                    || self.has_choice(c)
                    || self.has_choice(a)
                    || self.has_choice(b)
            }
        }
    }

    /// Replaces elements with a known index, selects with a known condition, and fields that need no mask.
    fn simplify(&self, expr: &mut Expr) {
        let width = |e: &Expr| e.width(self.graph().program);
        expr.rewrite(&mut |e| match e {
            Expr::Element { column, index } => {
                let Some(number) = self.eval().value(&self.facts, index) else { return };
                *e = match element(column, number) {
                    Some(field) => Expr::Field(field),
                    None => Expr::Const { value: 0u32.into(), width: width(e) },
                };
            }
            // First, because facts about the field may be fewer: an index that contains the select must stay known.
            Expr::Select(c, a, b) if let Some(known) = self.eval().value(&self.facts, c) => {
                let side = if known == 0 { b } else { a };
                let side = std::mem::replace(&mut **side, Expr::Const { value: 0u32.into(), width: 1 });
                *e = side;
            }
            Expr::Select(..) => {
                if let Some(field) = unmasked(self.graph().program, &self.defined, e) {
                    *e = Expr::Field(field);
                }
            }
            _ => {}
        });
    }
}

/// Sorts reads by slot and removes duplicates.
fn sorted(mut reads: Vec<Read>) -> Reads {
    reads.sort_by_key(|read| (read.slot, read.source == Source::Kept));
    reads.dedup();
    Reads(reads.into_boxed_slice())
}
