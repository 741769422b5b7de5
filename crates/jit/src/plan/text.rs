//! The text form of a plan: for each stage the restored values, the places that it reaches with their statements, and the cuts
//! where it ends. A stage from tests/plans/selectors.plan:
//!
//! ```text
//! stage 1: packets that wait at cut 0
//!   compile with optimisation
//!   zero standard_metadata.egress_port, h.ip.protocol, h.ip.src, h.ip.dst, I.send.port, $t0, cursor, offset of h.ip
//!   restore standard_metadata.egress_spec = constant 0x0
//!   restore h.ip.$valid$ = phv+0
//!   I.n3:
//!     lookup I.balance: Lpm32, 100000 entries, rows of 3 words, members of 2
//!     cut 1 after the lookup: the actions of routes wait for the other lookups
//!       select members of the batch in I.balance
//!       store h.ip.$valid$ at phv+0
//! ```

use super::{
    BatchWork, CopiedValue, CutId, CutPlan, Dispatch, EndKind, Entry, Home, Mode, Plan, Prefetch,
    Preparation, Reason, Rest, Restore, Row, RowWords, StageId, StagePlan,
};
use crate::analysis::calls::Call;
use crate::analysis::constants::Edge;
use crate::analysis::extracts::InFrame;
use crate::analysis::liveness::At;
use crate::analysis::reads::{ApplyPlan, NodePlan, Reads, Statement};
use crate::analysis::sources::Source;
use crate::analysis::sums::{Sum, Summand};
use crate::choice::Choice;
use crate::graph::{Graph, ListedAction, Place, StatementId, StatementSite, TargetId};
use crate::slots::{Slot, SlotKind};
use cranelift_codegen::entity::{EntityRef, PrimaryMap};
use p4jet_ir::{Expr, FieldId, HeaderId, Node, Op, TableId, Terminator};
use std::collections::BTreeSet;
use std::fmt::{self, Write};

impl Plan<'_> {
    /// Returns the text form. `modes` has the compilation mode of each stage.
    pub fn print(&self, modes: &PrimaryMap<StageId, Mode>) -> String {
        let mut printer = Printer { plan: self, modes, out: String::new() };
        // Writing to a string does not fail.
        _ = printer.plan();
        printer.out
    }
}

struct Printer<'p> {
    plan: &'p Plan<'p>,
    modes: &'p PrimaryMap<StageId, Mode>,
    out: String,
}

impl<'p> Printer<'p> {
    fn graph(&self) -> &'p Graph<'p> {
        self.plan.graph
    }

    fn line(&mut self, depth: usize, text: impl fmt::Display) -> fmt::Result {
        writeln!(self.out, "{:1$}{text}", "", 2 * depth)
    }

    fn field(&self, field: FieldId) -> &str {
        &self.graph().program.fields[field.index()].name
    }

    fn header(&self, header: HeaderId) -> &str {
        &self.graph().program.headers[header.index()].name
    }

    fn table(&self, table: TableId) -> &str {
        &self.graph().program.tables[table.index()].name
    }

    fn slot(&self, slot: Slot) -> String {
        match self.graph().slots.kind(slot) {
            SlotKind::Field(field) => self.field(field).to_string(),
            SlotKind::Cursor => "cursor".to_string(),
            SlotKind::Offset(header) => format!("offset of {}", self.header(header)),
            SlotKind::Row(table) => format!("row of {}", self.table(table)),
            SlotKind::Sum(sum) => format!("sum {}", sum.as_u32()),
        }
    }

    fn list(&self, slots: impl Iterator<Item = Slot>) -> String {
        slots.map(|slot| self.slot(slot)).collect::<Vec<_>>().join(", ")
    }

    fn place(&self, place: Place) -> String {
        let position = self.graph().position(place);
        let hot = if self.graph().is_hot(place) { "hot " } else { "" };
        format!("{hot}{}.n{}", self.graph().block(place).name, position.node.index())
    }

    fn to(&self, to: Option<Place>) -> String {
        to.map_or("leave".to_string(), |place| self.place(place))
    }

    fn target(&self, place: Place, edge: Edge) -> String {
        self.plan.jumps.get(place, edge).map_or("never".to_string(), |to| self.to(to))
    }

    fn in_frame(&self, at: InFrame) -> String {
        match at.is_fixed {
            true => format!("frame bit {}", at.bit),
            false => format!("frame, bit {} of {}", at.bit, self.header(at.header)),
        }
    }

    fn home(&self, slot: Slot) -> String {
        match self.plan.homes[slot] {
            Home::Nowhere => "unused".to_string(),
            Home::Registers => "register".to_string(),
            Home::Memory(offset) => format!("phv+{offset}"),
        }
    }

    fn source(&self, slot: Slot, source: Source) -> String {
        match source {
            Source::Known(value) => format!("constant {value:#x}"),
            Source::Zero => "zero".to_string(),
            Source::Frame(at) => self.in_frame(at),
            Source::FrameIfValid(at) => format!("{} if valid", self.in_frame(at)),
            Source::Kept => self.home(slot),
        }
    }

    fn plan(&mut self) -> fmt::Result {
        let memory = &self.plan.memory;
        let (stride, key, image) = (memory.stride, memory.key, memory.image_bytes);
        self.line(0, format_args!("phv: {stride} bytes per packet, key at {key}, {image} bytes of copies"))?;
        let mut in_memory: Vec<_> = memory.in_memory.iter().map(|(slot, offset)| (*offset, *slot)).collect();
        in_memory.sort_unstable();
        for (offset, slot) in in_memory {
            let text = format!("{} always at phv+{offset}", self.slot(slot));
            self.line(1, text)?;
        }
        for (id, stage) in &self.plan.stages {
            self.out.push('\n');
            self.stage(id, stage)?;
        }
        Ok(())
    }

    fn stage(&mut self, id: StageId, stage: &StagePlan) -> fmt::Result {
        let title = match stage.entry {
            Entry::Start => "packets arrive".to_string(),
            Entry::Cut(cut) => format!("packets that wait at cut {}", cut.as_u32()),
            Entry::Egress => "copies begin with egress".to_string(),
        };
        self.line(0, format_args!("stage {}: {title}", id.as_u32()))?;
        self.line(1, self.modes[id])?;
        if stage.clears_arrays && self.plan.memory.columns.bytes > 0 {
            let bytes = self.plan.memory.columns.bytes;
            self.line(1, format_args!("clear {bytes} bytes of columns"))?;
        }
        if !stage.zeroed.is_empty() {
            let slots = self.list(stage.zeroed.iter().copied());
            self.line(1, format_args!("zero {slots}"))?;
        }
        for &(slot, restore) in &stage.restored {
            let from = match restore {
                Restore::Known(value) => format!("constant {value:#x}"),
                Restore::Intrinsic(intrinsic, _) => format!("intrinsic {intrinsic:?}"),
                Restore::Phv(offset) => format!("phv+{offset}"),
            };
            let slot = self.slot(slot);
            self.line(1, format_args!("restore {slot} = {from}"))?;
        }
        for &(slot, offset) in &stage.inherited {
            let slot = self.slot(slot);
            self.line(1, format_args!("inherit {slot} = phv+{offset}"))?;
        }
        for reload in &stage.reloads {
            let condition = if reload.is_valid { "" } else { " if valid" };
            for &(field, at) in &reload.fields {
                let text = format!("reload {} = {}{condition}", self.field(field), self.in_frame(at));
                self.line(1, text)?;
            }
        }
        self.places(stage)
    }

    /// The places that a stage reaches, in the order of the graph.
    fn places(&mut self, stage: &StagePlan) -> fmt::Result {
        let begin = match stage.entry {
            Entry::Cut(cut) => self.plan.cuts[cut].cut.at,
            Entry::Start | Entry::Egress => At::Place,
        };
        let Some(first) = stage.begin else { return self.line(1, "leave") };
        let mut reached = BTreeSet::new();
        let mut work = self.successors(first, begin, true);
        while let Some(place) = work.pop() {
            if reached.insert((self.graph().order(place), place)) {
                work.extend(self.successors(place, At::Place, false));
            }
        }
        self.at_place(stage, first, begin, true)?;
        for (_, place) in reached {
            if place != first || begin != At::Place {
                self.at_place(stage, place, At::Place, false)?;
            }
        }
        Ok(())
    }

    /// The places to which a stage goes from a place where it enters at `at`; `is_begin`: where the stage begins.
    fn successors(&self, place: Place, at: At, is_begin: bool) -> Vec<Place> {
        if at == At::Place && !is_begin && self.plan.cut_at(place, At::Place).is_some() {
            return Vec::new();
        }
        let edges = self.plan.jumps.of(place);
        let is_cut = |cut: At| at < cut && self.plan.cut_at(place, cut).is_some();
        let is_cut = is_cut(At::Lookup) || is_cut(At::Action);
        let is_followed = |edge: &Edge| match edge {
            Edge::Error(_) => at == At::Place,
            Edge::Action(..) | Edge::NoAction => !is_cut,
            Edge::Target(_) | Edge::End => true,
        };
        edges.iter().filter(|(edge, _)| is_followed(edge)).filter_map(|(_, to)| *to).collect()
    }

    fn at_place(&mut self, stage: &StagePlan, place: Place, at: At, is_begin: bool) -> fmt::Result {
        let name = self.place(place);
        let cold = if stage.is_cold(self.graph(), place) { ", cold" } else { "" };
        self.line(1, format_args!("{name}{cold}:"))?;
        if at == At::Place
            && !is_begin
            && let Some(cut) = self.plan.cut_at(place, At::Place)
        {
            return self.cut(2, cut);
        }
        let node = self.graph().node(place);
        let plan = self.plan;
        let Some(plan) = &plan.nodes.of_place[place] else { return Ok(()) };
        if at == At::Place {
            self.statements(2, place, node, plan, true)?;
        }
        match &node.terminator {
            Terminator::Apply { table, .. } => {
                if at == At::Place {
                    self.reads(2, &plan.reads)?;
                    if let Some(cut) = self.plan.cut_at(place, At::Lookup) {
                        return self.cut(2, cut);
                    }
                }
                self.apply(place, *table, at)
            }
            terminator => {
                let terminator = plan.terminator.of(terminator).unwrap_or(terminator);
                let text = self.terminator(terminator, plan.choice, |number| {
                    self.target(place, Edge::Target(TargetId::new(number)))
                });
                text.map_or(Ok(()), |text| self.line(2, text))?;
                self.reads(3, &plan.reads)?;
                let ends = &self.plan.ends;
                if let Some(end) = ends.get(&place) {
                    self.end(&end.kind)?;
                }
                match self.plan.jumps.get(place, Edge::End) {
                    Some(to) => self.line(2, format_args!("-> {}", self.to(to))),
                    None => Ok(()),
                }
            }
        }
    }

    fn reads(&mut self, depth: usize, reads: &Reads) -> fmt::Result {
        for read in reads.iter() {
            let (slot, source) = (self.slot(read.slot), self.source(read.slot, read.source));
            self.line(depth, format_args!("read {slot} = {source}"))?;
        }
        Ok(())
    }

    fn statements(
        &mut self,
        depth: usize,
        place: Place,
        node: &Node,
        plan: &NodePlan,
        is_own: bool,
    ) -> fmt::Result {
        for (number, (stmt, plan)) in node.stmts.iter().zip(&plan.stmts).enumerate() {
            let Some(op) = plan.op.of(&stmt.op) else { continue };
            let text = match plan.call {
                Some(Call::OutOfLine) | None => self.op(op),
                Some(Call::Mark) => format!("{}, no code", self.op(op)),
                Some(_) => format!("{}, inline", self.op(op)),
            };
            self.line(depth, text)?;
            if is_own {
                self.extraction(depth + 1, place, number, op)?;
                self.copy(depth + 1, place, number)?;
            }
            self.sum(depth + 1, plan)?;
            self.reads(depth + 1, &plan.reads)?;
        }
        Ok(())
    }

    fn extraction(&mut self, depth: usize, place: Place, number: usize, op: &Op) -> fmt::Result {
        let header = match op {
            Op::Extract { header, .. } => Some(*header),
            Op::ExtractElement { headers, .. } => headers.first().copied(),
            _ => None,
        };
        if let Some(header) = header
            && let Some(loads) = self.plan.loads.get(&StatementSite::new(place, number))
        {
            let fields = self.graph().program.headers[header.index()].fields.iter().zip(loads);
            let loaded: Vec<&str> =
                fields.filter(|(_, loaded)| **loaded).map(|(f, _)| self.field(f.field)).collect();
            if !loaded.is_empty() {
                let loaded = loaded.join(", ");
                self.line(depth, format_args!("load {loaded}"))?;
            }
        }
        match self.plan.jumps.get(place, Edge::Error(StatementId::new(number))) {
            Some(to) => self.line(depth, format_args!("on error -> {}", self.to(to))),
            None => Ok(()),
        }
    }

    fn copy(&mut self, depth: usize, place: Place, number: usize) -> fmt::Result {
        let plan = self.plan;
        let Some(copy) = plan.copies.get(&StatementSite::new(place, number)) else { return Ok(()) };
        for &(slot, _, value) in &copy.image {
            let value = match value {
                CopiedValue::Set(_) => "set".to_string(),
                CopiedValue::Known(value) => format!("constant {value:#x}"),
                CopiedValue::Kept => self.home(slot),
                CopiedValue::Zero => continue,
            };
            let slot = self.slot(slot);
            self.line(depth, format_args!("copy {slot} = {value}"))?;
        }
        Ok(())
    }

    fn sum(&mut self, depth: usize, plan: &Statement) -> fmt::Result {
        let Some(sum) = &plan.sum else { return Ok(()) };
        match &sum.related {
            Some(Sum::Corrected(slot, changed)) => {
                let fields: Vec<&str> = changed.iter().map(|c| self.field(c.field)).collect();
                let text = format!("correct {} for {}", self.slot(*slot), fields.join(", "));
                return self.line(depth, text);
            }
            Some(Sum::Kept(slot)) => {
                let slot = self.slot(*slot);
                self.line(depth, format_args!("keep {slot}"))?;
            }
            None => {}
        }
        for summand in &sum.summands {
            if let Summand::Frame(at, words) = summand {
                let bytes: u32 = words.iter().map(|word| word.bytes).sum();
                let at = self.in_frame(*at);
                self.line(depth, format_args!("add {bytes} bytes from {at}"))?;
            }
        }
        Ok(())
    }

    fn op(&self, op: &Op) -> String {
        let column = |fields: &[FieldId]| fields.first().map_or("", |f| self.field(*f)).to_string();
        match op {
            Op::Set { dest, value } => {
                let unused = if self.plan.is_used(self.graph().slots.field(*dest)) { "" } else { ", unused" };
                format!("set {} to {}{unused}", self.field(*dest), self.expr(value))
            }
            Op::SetElement { column: fields, .. } => format!("set an element of {}", column(fields)),
            Op::ExtractElement { headers, .. } => {
                format!("extract an element of {}", headers.first().map_or("", |h| self.header(*h)))
            }
            Op::Extract { header, .. } => format!("extract {}", self.header(*header)),
            Op::Advance { .. } => "advance".to_string(),
            Op::Lookahead { dest } => format!("look ahead for {}", self.field(*dest)),
            Op::Emit { header } => format!("emit {}", self.header(*header)),
            Op::Copy(copy) => format!("copy to {:?}", copy.begin),
            Op::Truncate { .. } => "truncate".to_string(),
            Op::Extern { function, .. } => format!("call {function}"),
        }
    }

    fn expr(&self, expr: &Expr) -> String {
        p4jet_ir::text::print_expr(self.graph().program, expr)
    }

    /// `choice` is the form of a `switch`.
    fn terminator(
        &self,
        terminator: &Terminator,
        choice: Choice,
        target: impl Fn(usize) -> String,
    ) -> Option<String> {
        Some(match terminator {
            Terminator::If { cond, .. } => {
                format!("if {} -> {}, else {}", self.expr(cond), target(0), target(1))
            }
            Terminator::Goto(_) => format!("-> {}", target(0)),
            Terminator::Switch { value, cases, .. } => {
                let mut text = format!("switch {}", self.expr(value));
                for (number, (case, _)) in cases.iter().enumerate() {
                    _ = write!(text, " {case:#x} -> {},", target(number));
                }
                format!("{text} else {}{}", target(cases.len()), self::choice(choice))
            }
            Terminator::Turn { .. } => format!("turn -> {}, spent {}", target(0), target(1)),
            Terminator::Drop(reason) => {
                let reasons = &self.graph().program.drop_reasons;
                format!("drop {:?}", reasons.get(*reason as usize).map_or("", |reason| reason.as_str()))
            }
            Terminator::Done => "done".to_string(),
            Terminator::Reject(_) => "reject".to_string(),
            Terminator::Return | Terminator::Exit | Terminator::Egress | Terminator::Apply { .. } => {
                return None;
            }
        })
    }

    fn apply(&mut self, place: Place, table: TableId, at: At) -> fmt::Result {
        let name = self.table(table).to_string();
        if at != At::Action {
            let (structure, size) = (self.plan.shapes.structure(table), self.plan.shapes.size(table));
            let RowWords { entry, member } = self.plan.row_words(table);
            let members = match self.graph().program.tables[table.index()].profile {
                Some(_) => format!(", members of {member}"),
                None => String::new(),
            };
            let text =
                format!("lookup {name}: {structure:?}, {size} entries, rows of {entry} words{members}");
            self.line(2, text)?;
            if let Some((_, memo)) = self.plan.memos.at(place) {
                let row = self.table(memo.row_table).to_string();
                self.line(3, format_args!("remembered by the row of {row}"))?;
            }
            if let Some(cut) = self.plan.cut_at(place, At::Action) {
                return self.cut(2, cut);
            }
        }
        let plan = self.plan;
        let Some(dispatch) = plan.dispatches.get(&place) else { return Ok(()) };
        self.dispatch(table, dispatch)?;
        let Some(plan) = plan.nodes.applies.get(&place) else { return Ok(()) };
        self.actions(place, plan)
    }

    /// The choice of the action, unless the row decides it alone.
    fn dispatch(&mut self, table: TableId, dispatch: &Dispatch) -> fmt::Result {
        let actions = &self.graph().program.tables[table.index()].actions;
        let name = |listed: &ListedAction| {
            let action = actions
                .get(listed.index())
                .map(|action| &self.graph().program.actions[action.action.index()]);
            action.map_or("", |action| action.name.as_str())
        };
        let compared: Vec<&str> = dispatch.compared.iter().map(name).collect();
        let mut parts = Vec::new();
        match dispatch.row {
            Row::Resolved => parts.push("resolve row 0".to_string()),
            Row::ResolvedLate => parts.push("resolve row 0 after the first comparison".to_string()),
            Row::Default => parts.push("take the default row".to_string()),
            Row::Member { is_narrow } => {
                let bits = if is_narrow { 32 } else { 64 };
                parts.push(format!("take the member's row by a {bits}-bit division"));
            }
            Row::Found => {}
        }
        if !compared.is_empty() {
            parts.push(format!("compare {}", compared.join(", ")));
        }
        match &dispatch.rest {
            Rest::Run(_) if compared.is_empty() => {}
            Rest::Run(last) => parts.push(format!("else {}", name(last))),
            Rest::JumpTable(actions, choice) => {
                parts.push(format!("choose among {}{}", actions.len(), self::choice(*choice)));
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        self.line(2, parts.join("; "))
    }

    fn actions(&mut self, place: Place, apply: &ApplyPlan) -> fmt::Result {
        for plan in apply.actions.values() {
            let action = &self.graph().program.actions[plan.action.index()];
            let next = self.to(plan.next);
            let exit = plan.exit.map_or(String::new(), |exit| format!(", exit {}", self.to(exit)));
            self.line(2, format_args!("action {} -> {next}{exit}", action.name))?;
            for (number, (node, plan)) in action.body.nodes.iter().zip(&plan.nodes).enumerate() {
                if action.body.nodes.len() > 1 {
                    self.line(3, format_args!("n{number}:"))?;
                }
                self.statements(3, place, node, plan, false)?;
                let Some(terminator) = plan.terminator.of(&node.terminator) else { continue };
                let mut targets = Vec::new();
                terminator.for_each_target(&mut |to| targets.push(format!("n{}", to.index())));
                let target = |number: usize| targets.get(number).cloned().unwrap_or_default();
                let text = self.terminator(terminator, plan.choice, target);
                text.map_or(Ok(()), |text| self.line(3, text))?;
                self.reads(4, &plan.reads)?;
            }
        }
        if let Some(none) = apply.none {
            let none = self.to(none);
            self.line(2, format_args!("no action -> {none}"))?;
        }
        Ok(())
    }

    fn end(&mut self, end: &EndKind) -> fmt::Result {
        let header = |emit: &super::EmitPlan| {
            let changed = self.list(emit.changed.iter());
            let name = self.header(emit.header);
            match (emit.is_extracted, changed.as_str()) {
                (true, "") => name.to_string(),
                (true, changed) => format!("{name} (write {changed})"),
                (false, _) => format!("{name} (write all)"),
            }
        };
        let text = match end {
            EndKind::InPlace(emits) => {
                format!("leave in place: {}", emits.iter().map(header).collect::<Vec<_>>().join(", "))
            }
            EndKind::Shifted { shift, headers } => {
                let headers: Vec<String> =
                    headers.iter().map(|(begin, emit)| format!("{} at {begin}", header(emit))).collect();
                format!("leave {shift} bytes later: {}", headers.join(", "))
            }
            EndKind::Checked(emits) => {
                format!(
                    "leave in place if possible: {}",
                    emits.iter().map(header).collect::<Vec<_>>().join(", ")
                )
            }
            EndKind::Scratch => "leave from the scratch memory".to_string(),
        };
        self.line(2, text)
    }

    fn cut(&mut self, depth: usize, id: CutId) -> fmt::Result {
        let plan = self.plan;
        let CutPlan { cut, spills, .. } = &plan.cuts[id];
        let reason = match cut.reason {
            Reason::Stop => "a block begins",
            Reason::Measured => "stages are measured",
            Reason::LargeTable => "the table is large",
            Reason::Routes => "the actions of routes wait for the other lookups",
            Reason::FarRows => "rows or members may not be in the caches",
        };
        let what = match cut.at {
            At::Place => "here",
            At::Lookup => "before the lookup",
            At::Action => "after the lookup",
        };
        self.line(depth, format_args!("cut {} {what}: {reason}", id.as_u32()))?;
        let preparation = match cut.preparation {
            Preparation::Nothing => None,
            Preparation::Prefetch(Prefetch::Lookup(table)) => Some(("prefetch", table)),
            Preparation::Prefetch(Prefetch::Row(table)) => Some(("prefetch the row of", table)),
            Preparation::Batch(BatchWork::Lookup(table)) => Some(("look up the keys of the batch in", table)),
            Preparation::Batch(BatchWork::Select(table)) => Some(("select members of the batch in", table)),
        };
        if let Some((work, table)) = preparation {
            let text = format!("{work} {}", self.table(table));
            self.line(depth + 1, text)?;
        }
        for &(slot, offset) in spills {
            let slot = self.slot(slot);
            self.line(depth + 1, format_args!("store {slot} at phv+{offset}"))?;
        }
        Ok(())
    }
}

/// The form of a choice, after what is chosen.
fn choice(choice: Choice) -> &'static str {
    match choice {
        Choice::Compare => "",
        Choice::JumpTable => ", by jump table",
        Choice::IndirectJumpTable => ", by jump table with separate blocks",
    }
}
