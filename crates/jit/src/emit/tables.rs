//! The code after a lookup: direct counters, the choice of the action, the action.

use super::once::Once;
use super::slots::Reading;
use super::values::Limbs;
use super::{Codegen, Error, fixed, plain};
use crate::analysis::liveness::At;
use crate::analysis::reads::ActionPlan;
use crate::graph::{ListedAction, Place};
use crate::path_code::Site;
use crate::plan::{Rest, Row, RowWords};
use crate::widths::limb_count;
use cranelift_codegen::entity::PrimaryMap;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use p4jet_ir::{TableId, Terminator};
use p4jet_tables::{Action as TableAction, View};
use std::mem::offset_of;

impl<'a> Codegen<'a, '_> {
    /// Continues with the found row; `selector` picks the member of a group.
    pub(super) fn apply(
        &mut self,
        place: Place,
        table: TableId,
        found: Value,
        selector: Value,
    ) -> Result<(), Error> {
        match self.plan.cut_at(place, At::Action) {
            Some(cut) => {
                self.reading(Reading::Plain, |cg| cg.cut(cut, &[found], selector));
                Ok(())
            }
            None => self.act(place, table, found, selector, None),
        }
    }

    /// Runs the action of the row that was found, or of the default row if none was.
    pub(super) fn act(
        &mut self,
        place: Place,
        table: TableId,
        found: Value,
        selector: Value,
        selected: Option<Value>,
    ) -> Result<(), Error> {
        let program = self.program();
        let t = &program.tables[table.index()];
        let Terminator::Apply { hit, action_run, entry, .. } = &self.graph().node(place).terminator else {
            unreachable!("called for tables only");
        };
        if let Some(field) = hit {
            let is_hit = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, 0);
            let is_hit = self.bool_limb(is_hit);
            self.set_field(*field, &[is_hit]);
        }
        for instance in &t.direct {
            // Row 0 counts the packets that match no entry.
            self.count(*instance, found);
        }
        if let Some(slot) = self.plan.memos.row_slot(self.graph(), place) {
            self.set(slot, &[found]);
        }
        let (Some(plan), Some(dispatch)) =
            (self.plan.nodes.applies.get(&place), self.plan.dispatches.get(&place))
        else {
            return Err(crate::internal(format!("the actions of {place} are not planned")));
        };
        let RowWords { entry: words, member: member_words } = self.plan.row_words(table);
        let mut default_to = None;
        let (row, which) = match dispatch.row {
            Row::Member { is_narrow } => {
                if t.idle_timeout {
                    let (row, _) = self.row(table, found, words);
                    self.note_hit(row, words);
                }
                match selected {
                    Some(row) => (row, self.b.ins().load(types::I32, fixed(), row, 0)),
                    None => self.select(table, found, selector, is_narrow, words, member_words),
                }
            }
            Row::Default => {
                let default = self.once(Once::Default(table));
                self.row(table, default, words)
            }
            Row::Found | Row::Resolved | Row::ResolvedLate => {
                let (row, which) = self.row(table, found, words);
                if t.idle_timeout {
                    self.note_hit(row, words);
                }
                if dispatch.row == Row::Found {
                    (row, which)
                } else {
                    let resolved = self.b.create_block();
                    self.b.append_block_param(resolved, types::I64);
                    self.b.append_block_param(resolved, types::I32);
                    if dispatch.row == Row::ResolvedLate {
                        default_to = Some(resolved);
                    } else {
                        self.default_to(resolved, table, which, words);
                    }
                    self.b.ins().jump(resolved, &[BlockArg::Value(row), BlockArg::Value(which)]);
                    self.b.switch_to_block(resolved);
                    let &[row, which] = self.b.block_params(resolved) else { unreachable!("it has two") };
                    (row, which)
                }
            }
        };
        if let Some(tallies) = self.tallies {
            let mut action = self.b.ins().uextend(types::I64, which);
            if t.profile.is_some() {
                let none = self.iconst(t.actions.len() as u64);
                action = self.b.ins().umin(action, none);
            }
            let hit = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, 0);
            let hit = self.b.ins().uextend(types::I64, hit);
            let behind = self.b.ins().ishl_imm_u(action, 1);
            let behind = self.b.ins().iadd(behind, hit);
            self.tally(tallies.table_cell(table), behind);
        }
        if let Some(field) = action_run {
            let wide = self.b.ins().uextend(types::I64, which);
            self.set_field(*field, &[wide]);
        }
        if let Some(field) = entry {
            self.set_field(*field, &[found]);
        }
        // Actions that do nothing lead straight to the successor.
        let blocks: PrimaryMap<ListedAction, Block> = plan
            .actions
            .values()
            .map(|action| match action.is_empty {
                true => self.target_block(action.next),
                false => self.b.create_block(),
            })
            .collect();
        for &action in &dispatch.compared {
            let rest = self.b.create_block();
            // Cranelift lays out the second successor directly after the branch.
            let is_other = self.b.ins().icmp_imm_u(IntCC::NotEqual, which, i64::from(action.as_u32()));
            self.b.ins().brif(is_other, rest, &[], blocks[action], &[]);
            self.b.switch_to_block(rest);
            if let Some(resolved) = default_to.take() {
                self.default_to(resolved, table, which, words);
            }
        }
        debug_assert!(default_to.is_none(), "the default row is resolved");
        match &dispatch.rest {
            Rest::Run(action) => _ = self.b.ins().jump(blocks[*action], &[]),
            Rest::JumpTable(others, choice) => {
                let none = match (plan.none, others.last()) {
                    (Some(none), _) => self.target_block(none),
                    (None, Some(&last)) => blocks[last],
                    (None, None) => {
                        return Err(crate::internal(format!("the table of {place} has no actions")));
                    }
                };
                let entry = |&action: &ListedAction| (u128::from(action.as_u32()), blocks[action]);
                let entries: Vec<(u128, Block)> = others.iter().map(entry).collect();
                self.jump_by(which, &entries, none, *choice);
            }
        }
        for ((listed, action), &block) in plan.actions.iter().zip(blocks.values()) {
            if !action.is_empty {
                self.mark(Site::Action(place, listed));
                self.b.switch_to_block(block);
                let next = self.target_block(action.next);
                let exit = match action.exit {
                    Some(exit) => self.target_block(exit),
                    None => next,
                };
                self.emit_action(place, action, row, next, exit)?;
            }
        }
        Ok(())
    }

    /// The address of the words to run, and their action, of a row of a table with an action profile; see [`View`].
    pub(super) fn select(
        &mut self,
        table: TableId,
        found: Value,
        selector: Value,
        is_narrow: bool,
        words: usize,
        member_words: usize,
    ) -> (Value, Value) {
        let default = self.once(Once::Default(table));
        let row = self.b.ins().select(found, found, default);
        let (row, which) = self.row(table, row, words);
        let [group, listed, other, member, done] = std::array::from_fn(|_| self.b.create_block());
        self.b.append_block_param(member, types::I64);
        self.b.append_block_param(done, types::I64);
        self.b.append_block_param(done, types::I32);
        let as_args = |row, which| [BlockArg::Value(row), BlockArg::Value(which)];
        let slot = self.b.ins().uload32(plain(), row, 8);
        let is =
            |cg: &mut Self, action: u32| cg.b.ins().icmp_imm_s(IntCC::Equal, which, i64::from(action as i32));
        let is_group = is(self, TableAction::GROUP);
        self.b.ins().brif(is_group, group, &[], other, &[]);

        self.b.switch_to_block(other);
        let is_member = is(self, TableAction::MEMBER);
        self.b.ins().brif(is_member, member, &[BlockArg::Value(slot)], done, &as_args(row, which));

        self.b.switch_to_block(group);
        let groups = self.view_word(table, offset_of!(View, profile_groups));
        let at = self.b.ins().ishl_imm_u(slot, 3);
        let at = self.b.ins().iadd(groups, at);
        let list = match cfg!(target_arch = "x86_64") {
            true => self.b.ins().load(types::I64, plain(), at, 0),
            false => self.b.ins().atomic_load(types::I64, plain(), at),
        };
        let none = self.b.ins().iconst(types::I32, i64::from(TableAction::NONE as i32));
        self.b.ins().brif(list, listed, &[], done, &as_args(row, none));

        self.b.switch_to_block(listed);
        let nth = if is_narrow {
            let count = self.b.ins().load(types::I32, plain(), list, 0);
            let selector = self.b.ins().ireduce(types::I32, selector);
            let nth = self.b.ins().urem(selector, count);
            self.b.ins().uextend(types::I64, nth)
        } else {
            let count = self.b.ins().uload32(plain(), list, 0);
            self.b.ins().urem(selector, count)
        };
        let at = self.b.ins().ishl_imm_u(nth, 2);
        let at = self.b.ins().iadd(list, at);
        let slot = self.b.ins().uload32(plain(), at, 8);
        self.b.ins().jump(member, &[BlockArg::Value(slot)]);

        self.b.switch_to_block(member);
        let slot = self.b.block_params(member)[0];
        let members = self.view_word(table, offset_of!(View, profile_members));
        let at = self.b.ins().ishl_imm_u(slot, 2);
        let at = self.b.ins().iadd(members, at);
        let row = self.load_row(at);
        let rows = self.view_word(table, offset_of!(View, profile_rows));
        let at = self.b.ins().imul_imm_u(row, 8 * member_words as i64);
        let at = self.b.ins().iadd(rows, at);
        let which = self.b.ins().load(types::I32, plain(), at, 0);
        self.b.ins().jump(done, &as_args(at, which));

        self.b.switch_to_block(done);
        let &[row, which] = self.b.block_params(done) else { unreachable!("it has two") };
        (row, which)
    }

    pub(super) fn row_address(&mut self, table: TableId, row: Value, words: usize) -> Value {
        let rows = self.view_word(table, offset_of!(View, rows));
        let at = self.b.ins().imul_imm_u(row, 8 * words as i64);
        self.b.ins().iadd(rows, at)
    }

    /// The address of a row of this many words, and its action.
    pub(super) fn row(&mut self, table: TableId, row: Value, words: usize) -> (Value, Value) {
        let at = self.row_address(table, row, words);
        // Not fixed: row 0 changes with the default action.
        (at, self.b.ins().load(types::I32, plain(), at, 0))
    }

    /// Jumps to `dispatch` with the row of the default action, and its action, if `which` says that row 0 has no room for it.
    /// Otherwise continues here.
    pub(super) fn default_to(&mut self, dispatch: Block, table: TableId, which: Value, words: usize) {
        let default = self.b.create_block();
        let rest = self.b.create_block();
        self.b.set_cold_block(default);
        let is_elsewhere =
            self.b.ins().icmp_imm_s(IntCC::Equal, which, i64::from(TableAction::DEFAULT as i32));
        self.b.ins().brif(is_elsewhere, default, &[], rest, &[]);

        self.b.switch_to_block(default);
        let (row, which) = self.in_cold(|cg| {
            let number = cg.once(Once::Default(table));
            cg.row(table, number, words)
        });
        self.b.ins().jump(dispatch, &[BlockArg::Value(row), BlockArg::Value(which)]);

        self.b.switch_to_block(rest);
    }

    pub(super) fn emit_action(
        &mut self,
        place: Place,
        plan: &'a ActionPlan,
        row: Value,
        next: Block,
        exit: Block,
    ) -> Result<(), Error> {
        let program = self.program();
        let action = &program.actions[plan.action.index()];
        let mut at = 8;
        for &param in &action.params {
            let limbs = limb_count(program.width(param));
            if self.is_needed(param) {
                let value: Limbs = (0..limbs)
                    .map(|i| self.b.ins().load(types::I64, fixed(), row, at + 8 * i as i32))
                    .collect();
                self.set_field(param, &value);
            }
            at += 8 * limbs as i32;
        }
        self.emit_action_nodes(place, plan, next, exit)
    }
}
