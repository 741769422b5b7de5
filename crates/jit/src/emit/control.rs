//! Control flow: the blocks of places, and the jumps between them.

use super::slots::Reading;
use super::{Codegen, Error, plain};
use crate::analysis::constants::Edge;
use crate::analysis::liveness::At;
use crate::analysis::reads::{ActionPlan, NodePlan};
use crate::choice::Choice;
use crate::graph::{Place, TargetId};
use crate::path_code::Site;
use crate::plan::Entry;
use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, SourceLoc, Value, types};
use cranelift_frontend::Switch;
use num_bigint::BigUint;
use p4jet_ir::turns::TURNS_MAX;
use p4jet_ir::{DropReason, Expr, Loc, Node, NodeId, PipelineHalf, Terminator};
use p4jet_packet::Packet;
use std::collections::BTreeMap;
use std::mem::offset_of;

/// The owner of a node, which decides where the node's terminator leads.
pub(super) enum Scope<'s> {
    /// A node of a block.
    Place(Place),
    /// A node of an action that a table at `place` runs.
    Action { place: Place, blocks: &'s [Block], next: Block, exit: Block },
}

impl Scope<'_> {
    pub(super) fn place(&self) -> Place {
        match self {
            Scope::Place(place) | Scope::Action { place, .. } => *place,
        }
    }
}

impl<'a> Codegen<'a, '_> {
    /// Emits the code of all places that the stage reaches.
    pub(super) fn emit_places(&mut self) -> Result<(), Error> {
        loop {
            if let Some(place) = self.blocks.work.pop() {
                self.emit_place(place)?;
            } else if let Some((block, place)) = self.blocks.side_exits.pop() {
                self.b.switch_to_block(block);
                let to = self.block_of(place);
                self.b.ins().jump(to, &[]);
            } else {
                return Ok(());
            }
        }
    }

    /// The block of a place, as the target of a jump from the current code; without a place, the block where the packet leaves.
    pub(super) fn target_block(&mut self, to: Option<Place>) -> Block {
        let Some(place) = to else { return self.blocks.finish };
        let is_side_exit = |from| self.stage.is_side_exit(self.graph(), from, place);
        if self.blocks.current.is_some_and(is_side_exit) {
            let block = self.b.create_block();
            self.b.set_cold_block(block);
            self.blocks.side_exits.push((block, place));
            return block;
        }
        self.block_of(place)
    }

    fn is_cold(&self, place: Place) -> bool {
        self.stage.is_cold(self.graph(), place)
    }

    fn block_of(&mut self, place: Place) -> Block {
        if let Some(&block) = self.blocks.places.get(&place) {
            return block;
        }
        let block = self.b.create_block();
        if self.is_cold(place) {
            self.b.set_cold_block(block);
        }
        self.blocks.places.insert(place, block);
        self.blocks.work.push(place);
        block
    }

    fn emit_place(&mut self, place: Place) -> Result<(), Error> {
        let block = self.blocks.places[&place];
        self.b.switch_to_block(block);
        self.blocks.current = Some(place);
        self.mark(Site::Place(place));
        self.once.in_cold = self.is_cold(place);
        if let Some(cut) = self.plan.cut_at(place, At::Place)
            && self.stage.entry != Entry::Cut(cut)
        {
            let none = self.iconst(0);
            self.reading(Reading::Plain, |cg| cg.cut(cut, &[], none));
            return Ok(());
        }
        let plan = self.plan.nodes.of_place[place].as_ref();
        let plan = plan.ok_or_else(|| crate::internal(format!("{place} is not planned")))?;
        self.emit_node(self.graph().node(place), plan, &Scope::Place(place))
    }

    pub(super) fn emit_node(
        &mut self,
        node: &'a Node,
        plan: &'a NodePlan,
        scope: &Scope,
    ) -> Result<(), Error> {
        for (number, (stmt, plan)) in node.stmts.iter().zip(&plan.stmts).enumerate() {
            self.check_size()?;
            self.set_source(stmt.loc);
            if let Some(op) = plan.op.of(&stmt.op) {
                self.reading = Reading::Planned(&plan.reads);
                self.cursor = plan.cursor;
                self.statement(op, plan, number, stmt.loc, scope)?;
            }
        }
        self.set_source(node.terminator_loc);
        self.reading = Reading::Planned(&plan.reads);
        self.cursor = None;
        match plan.terminator.of(&node.terminator) {
            Some(terminator) => self.terminator(terminator, plan.choice, node.terminator_loc, scope),
            None => Ok(()),
        }
    }

    /// Emits the nodes of an action whose data has been loaded.
    pub(super) fn emit_action_nodes(
        &mut self,
        place: Place,
        plan: &'a ActionPlan,
        next: Block,
        exit: Block,
    ) -> Result<(), Error> {
        let nodes = &self.program().actions[plan.action.index()].body.nodes;
        let blocks: Vec<Block> = nodes.iter().map(|_| self.b.create_block()).collect();
        self.b.ins().jump(blocks[0], &[]);
        for ((node, plan), &block) in nodes.iter().zip(&plan.nodes).zip(&blocks) {
            self.b.switch_to_block(block);
            self.emit_node(node, plan, &Scope::Action { place, blocks: &blocks, next, exit })?;
        }
        Ok(())
    }

    /// Sets the source place of the instructions that follow.
    fn set_source(&mut self, loc: Loc) {
        if loc != Loc(0) && !self.marks_sites {
            self.b.set_srcloc(SourceLoc::new(loc.0));
        }
    }

    /// Marks the instructions that follow with their site, if that is requested.
    pub(super) fn mark(&mut self, site: Site) {
        if self.marks_sites {
            self.b.set_srcloc(site.mark());
        }
    }

    /// Emits the work at the end of the block of `place`, and follows an edge.
    pub(super) fn leave_step(&mut self, place: Place, edge: Edge) {
        if let Some(plan) = self.plan.ends.get(&place)
            && edge == Edge::End
        {
            self.end_deparser(plan);
        }
        if self.graph().ends_ingress(place) {
            self.load_intrinsics(PipelineHalf::Egress);
        }
        self.follow(place, edge);
    }

    /// Jumps along an edge.
    fn follow(&mut self, place: Place, edge: Edge) {
        let block = self.edge_block(place, edge);
        self.b.ins().jump(block, &[]);
    }

    /// The block to which an edge leads.
    pub(super) fn edge_block(&mut self, place: Place, edge: Edge) -> Block {
        match self.plan.jumps.get(place, edge) {
            Some(to) => self.target_block(to),
            None => {
                self.note_unplanned(format_args!("a jump from {place}"));
                self.blocks.finish
            }
        }
    }

    pub(super) fn emit_finish(&mut self) {
        self.b.switch_to_block(self.blocks.finish);
        self.reading = Reading::Plain;
        let port = match self.program().egress_port {
            Some(field) => self.get_field(field)[0],
            None => self.iconst(0),
        };
        let port = self.b.ins().ireduce(types::I32, port);
        self.b.ins().store(plain(), port, self.current.packet, offset_of!(Packet, egress_port) as i32);
        self.b.ins().jump(self.blocks.next_packet, &[]);
    }

    /// The block to which the terminator's target with this number leads.
    fn target(&mut self, scope: &Scope, number: usize, node: NodeId) -> Block {
        match scope {
            Scope::Place(place) => self.edge_block(*place, Edge::Target(TargetId::new(number))),
            Scope::Action { blocks, .. } => blocks[node.index()],
        }
    }

    /// `choice` is the form of a `switch`.
    fn terminator(
        &mut self,
        terminator: &'a Terminator,
        choice: Choice,
        loc: Loc,
        scope: &Scope,
    ) -> Result<(), Error> {
        match terminator {
            Terminator::Goto(to) => {
                let to = self.target(scope, 0, *to);
                self.b.ins().jump(to, &[]);
            }
            Terminator::If { cond, then, otherwise } => {
                let cond = self.condition(cond)?;
                let then = self.target(scope, 0, *then);
                let otherwise = self.target(scope, 1, *otherwise);
                self.b.ins().brif(cond, then, &[], otherwise, &[]);
            }
            Terminator::Turn { weight, next, spent } => {
                let turns = self.program().turns.expect("the verifier asks for it");
                let taken = self.get_field(turns)[0];
                let taken = self.b.ins().iadd_imm_u(taken, i64::from(*weight));
                self.set_field(turns, &[taken]);
                let more = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, taken, i64::from(TURNS_MAX));
                let spent = self.target(scope, 1, *spent);
                let next = self.target(scope, 0, *next);
                self.b.ins().brif(more, spent, &[], next, &[]);
            }
            Terminator::Switch { value, cases, default } => {
                self.switch(value, cases, *default, choice, scope)?
            }
            Terminator::Apply { table, keys, selector, .. } => {
                let Scope::Place(place) = *scope else {
                    return Err(Error::bug("a table inside an action", loc));
                };
                let key = self.pack_key(*table, keys)?;
                let selector = match selector {
                    Some(selector) => self.expr(selector)?[0],
                    None => self.iconst(0),
                };
                match self.plan.cut_at(place, At::Lookup) {
                    Some(cut) => self.reading(Reading::Plain, |cg| cg.cut(cut, &key, selector)),
                    None => {
                        let found = self.lookup_at(place, *table, &key);
                        self.apply(place, *table, found, selector)?;
                    }
                }
            }
            Terminator::Return => match scope {
                Scope::Place(place) => self.leave_step(*place, Edge::End),
                Scope::Action { next, .. } => {
                    self.b.ins().jump(*next, &[]);
                }
            },
            Terminator::Exit => match scope {
                Scope::Place(place) => self.note_unplanned(format_args!("an exit at {place}")),
                Scope::Action { exit, .. } => {
                    self.b.ins().jump(*exit, &[]);
                }
            },
            Terminator::Reject(error) => {
                let place = scope.place();
                let code = self.expr(error)?;
                if let Some(field) = self.graph().block(place).error_field {
                    self.set_field(field, &code);
                }
                self.leave_step(place, Edge::End);
            }
            Terminator::Drop(reason) => {
                let block = self.drop_block(Some(DropReason::Program(*reason)), loc);
                self.b.ins().jump(block, &[]);
            }
            Terminator::Done => {
                let block = self.drop_block(None, Loc(0));
                self.b.ins().jump(block, &[]);
            }
            Terminator::Egress => {
                self.load_intrinsics(PipelineHalf::Egress);
                self.follow(scope.place(), Edge::End);
            }
        }
        Ok(())
    }

    fn switch(
        &mut self,
        value: &Expr,
        cases: &[(BigUint, NodeId)],
        default: NodeId,
        choice: Choice,
        scope: &Scope,
    ) -> Result<(), Error> {
        let width = value.width(self.program());
        let limbs = self.expr(value)?;
        let default = self.target(scope, cases.len(), default);
        if choice != Choice::Compare {
            let mut entries = Vec::new();
            for (number, (case, to)) in cases.iter().enumerate() {
                let case = case.to_u64_digits().first().copied().unwrap_or(0);
                entries.push((case.into(), self.target(scope, number, *to)));
            }
            self.jump_by(limbs[0], &entries, default, choice);
            return Ok(());
        }
        for (number, (case, to)) in cases.iter().enumerate() {
            let to = self.target(scope, number, *to);
            let want = self.constant(case, width);
            let equal = self.equal(&limbs, &want);
            let rest = self.b.create_block();
            self.b.ins().brif(equal, to, &[], rest, &[]);
            self.b.switch_to_block(rest);
        }
        self.b.ins().jump(default, &[]);
        Ok(())
    }

    /// Goes to the block of the entry that has this value.
    pub(super) fn jump_by(
        &mut self,
        value: Value,
        entries: &[(u128, Block)],
        default: Block,
        choice: Choice,
    ) {
        self.entries += entries.len();
        let mut switch = Switch::new();
        if choice != Choice::IndirectJumpTable {
            entries.iter().for_each(|&(entry, to)| switch.set_entry(entry, to));
            return switch.emit(&mut self.b, value, default);
        }
        let mut between: BTreeMap<Block, Block> = BTreeMap::new();
        for to in entries.iter().map(|(_, to)| *to).chain([default]) {
            between.entry(to).or_insert_with(|| self.b.create_block());
        }
        entries.iter().for_each(|(entry, to)| switch.set_entry(*entry, between[to]));
        switch.emit(&mut self.b, value, between[&default]);
        for (to, between) in between {
            self.b.switch_to_block(between);
            self.b.seal_block(between);
            self.b.ins().jump(to, &[]);
        }
    }

    /// True if two values of the same width are equal.
    pub(super) fn equal(&mut self, x: &[Value], y: &[Value]) -> Value {
        if x.len() == 1 {
            return self.b.ins().icmp(IntCC::Equal, x[0], y[0]);
        }
        let mut all = self.b.ins().bxor(x[0], y[0]);
        for i in 1..x.len() {
            let d = self.b.ins().bxor(x[i], y[i]);
            all = self.b.ins().bor(all, d);
        }
        self.b.ins().icmp_imm_u(IntCC::Equal, all, 0)
    }
}
