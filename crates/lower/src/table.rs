//! Tables: keys, actions, entries, and applying them.
//!
//! Each table of each control instance becomes one [`ir::Table`] the first time it is applied. An action that several
//! tables of the instance list becomes one [`ir::Action`], unless it is bound to arguments: then it becomes one for each
//! table, all with one control-plane name.

use std::collections::{HashMap, HashSet};

use num_bigint::{BigInt, BigUint};
use num_traits::{One, ToPrimitive, Zero};
use p4jet_analysis::control_names::{NameSpace, ObjectKind};
use p4jet_analysis::typed::{self, ExprKind, KeySet, Type};
use p4jet_ir as ir;
use p4jet_ir::{FieldId, FieldKind, KeyMatch, MatchKind, Terminator};
use p4jet_syntax::ast::{BinaryOp, Direction, StructKind};
use p4jet_syntax::span::Span;

use crate::arch::{Arg, Property};
use crate::build;
use crate::cfg::Jump;
use crate::context::{Flow, Kind, Lowered, Lowerer, TableEffects, full_name};
use crate::scope::{GLOBAL, ScopeId};
use crate::value::{ObjectId, Value};

/// The `size`, in P4Runtime and bmv2, of a table that declares none.
const SIZE_DEFAULT: u32 = 1024;

/// The size of an entry, without its key and data, in parts of expressions.
const ENTRY_PARTS: usize = 16;

/// The match kind of keys that do not take part in the match but select a member of a group.
const SELECTOR: &str = "selector";

impl Lowerer<'_> {
    /// Applies a table at this point.
    pub(crate) fn apply_table(
        &mut self,
        id: typed::TableId,
        hit: Option<FieldId>,
        action_run: Option<FieldId>,
        span: Span,
    ) -> Lowered<()> {
        let table = self.table(id)?;
        let declaration = &self.program.tables[id.index()];
        let (mut keys, mut inputs) = (Vec::new(), Vec::new());
        // The number of keys before the last key with effects. Their values are kept.
        let snapshots =
            declaration.keys.iter().rposition(|k| crate::survey::has_effects(&k.expr)).unwrap_or(0);
        for (i, key) in declaration.keys.iter().enumerate() {
            if key.match_kind == SELECTOR {
                let value = self.expr(&key.expr)?;
                inputs.push(if i < snapshots { self.snapshot(value) } else { value });
                continue;
            }
            let value = self.key_value(&key.expr)?;
            keys.push(if i < snapshots { self.snapshot_expr(value) } else { value });
        }
        let outer = std::mem::replace(&mut self.span, span);
        let applied = self.apply_with_selector(table, declaration, keys, inputs, [hit, action_run]);
        self.span = outer;
        applied
    }

    fn apply_with_selector(
        &mut self,
        table: ir::TableId,
        declaration: &typed::Table,
        keys: Vec<ir::Expr>,
        inputs: Vec<Value>,
        [hit, action_run]: [Option<FieldId>; 2],
    ) -> Lowered<()> {
        let selector = self.selector(table, inputs)?;
        let action = declaration.empty_group_action.as_ref();
        let has_effect = selector.is_some() && self.arch.has_empty_group_actions();
        let Some(action) = action.filter(|_| has_effect) else {
            self.apply_lowered(table, keys, hit, action_run, selector);
            return Ok(());
        };
        let run = action_run.unwrap_or_else(|| self.temporary(32));
        self.apply_lowered(table, keys, hit, Some(run), selector);
        let ran_none = build::eq(ir::Expr::Field(run), ir::Expr::constant(ir::NO_ACTION, 32));
        self.when(ran_none, |cx| {
            let place = declaration.actions.iter().position(|listed| listed.action.action == action.action);
            let value = ir::Expr::constant(place.unwrap_or(0) as u32, 32);
            cx.emit(ir::Op::Set { dest: run, value });
            let args = cx.action_args(action.action, &action.args)?;
            if args.iter().any(|arg| arg.dir == Direction::None && arg.value.is_none()) {
                return cx.unsupported(action.span, "an action with arguments missing here");
            }
            cx.inline_action(action.action, args)
        })
    }

    /// Returns the value that a table matches: 0 for a field of an invalid header, regardless of its value.
    ///
    /// This is what bmv2's `MatchKeyBuilder` does for keys that name a field, with or without a constant mask. p4c copies
    /// any other expression to a temporary first, so it has the field's value.
    fn key_value(&mut self, key: &typed::Expr) -> Lowered<ir::Expr> {
        match &key.kind {
            ExprKind::Field(base, index)
                if self.struct_kind(&self.ty(&base.ty)) == Some(StructKind::Header) =>
            {
                let header = self.expr(base)?;
                match header.parts().get(*index as usize).cloned() {
                    Some(field) => {
                        let field = self.scalar_of(field, &self.ty(&key.ty), key.span)?;
                        let invalid = build::zero(self.width(&field));
                        Ok(build::select(header.is_valid(), field, invalid))
                    }
                    None => self.bug(key.span, "a field of something without fields"),
                }
            }
            ExprKind::Binary(BinaryOp::BitAnd, field, mask) if matches!(mask.kind, ExprKind::Int(_)) => {
                let field = self.key_value(field)?;
                let mask = self.scalar(mask)?;
                Ok(build::binary(ir::BinaryOp::And, field, mask))
            }
            ExprKind::Binary(BinaryOp::BitAnd, mask, field) if matches!(mask.kind, ExprKind::Int(_)) => {
                let mask = self.scalar(mask)?;
                let field = self.key_value(field)?;
                Ok(build::binary(ir::BinaryOp::And, mask, field))
            }
            _ => self.scalar(key),
        }
    }

    /// Returns the expression that selects a member where an entry of the table names a group.
    fn selector(&mut self, table: ir::TableId, inputs: Vec<Value>) -> Lowered<Option<ir::Expr>> {
        let arch = self.arch;
        match self.profiles.get(&table) {
            Some(profile) if self.has_groups(table) => arch.select_member(self, *profile, inputs).map(Some),
            _ => Ok(None),
        }
    }

    /// Applies a table of the IR.
    pub(crate) fn apply_lowered(
        &mut self,
        table: ir::TableId,
        keys: Vec<ir::Expr>,
        hit: Option<FieldId>,
        action_run: Option<FieldId>,
        selector: Option<ir::Expr>,
    ) {
        let next = self.node();
        let exits = self.table_effects(table).exits;
        let exit = if exits { self.jump_node(self.flow.exit) } else { next };
        self.terminate(Terminator::Apply {
            table,
            keys,
            hit,
            action_run,
            entry: self.entry_cells.get(&table).copied(),
            selector,
            next,
            exit,
        });
        self.enter(next);
    }

    /// Returns the possible effects of a table's actions. Computed once, because tables have many actions and are applied
    /// at many places.
    pub(crate) fn table_effects(&mut self, table: ir::TableId) -> TableEffects {
        let (tables, actions) = (&self.ir.tables, &self.ir.actions);
        *self.table_effects.entry(table).or_insert_with(|| {
            let listed = &tables[table.index()].actions;
            let bodies = || listed.iter().map(|a| &actions[a.action.index()].body);
            let exits = |body: &ir::Cfg| body.nodes.iter().any(|n| n.terminator == Terminator::Exit);
            TableEffects {
                exits: bodies().any(exits),
                touches_registers: bodies().any(ir::Cfg::touches_registers),
            }
        })
    }

    /// Returns the IR table of a table of the current instance.
    fn table(&mut self, id: typed::TableId) -> Lowered<ir::TableId> {
        let scope = self.block_scope();
        if let Some(known) = self.scopes[scope.0 as usize].tables.get(&id) {
            return Ok(*known);
        }
        let declaration = &self.program.tables[id.index()];
        let outer_span = std::mem::replace(&mut self.span, declaration.span);
        let result = self.in_scope(scope, |cx| cx.make_table(id, scope, declaration));
        self.span = outer_span;
        result
    }

    fn make_table(
        &mut self,
        id: typed::TableId,
        scope: ScopeId,
        declaration: &typed::Table,
    ) -> Lowered<ir::TableId> {
        let name = full_name(self.path(), &declaration.control_name);
        self.claim(ObjectKind::Table, &name, declaration.span, scope);
        let name = self.unique_name(Kind::Table, &name);
        let loc = self.loc(declaration.span);
        let table = ir::TableId(self.ir.tables.len() as u32);
        self.scope_mut(scope).tables.insert(id, table);
        let entries_count = declaration.entries.len() as u32;
        self.ir.tables.push(ir::Table {
            name,
            keys: Vec::new(),
            actions: Vec::new(),
            default: ir::ActionCall { action: 0, data: Vec::new() },
            const_default: declaration.const_default,
            size: declaration.size.filter(|s| *s > 0).unwrap_or(SIZE_DEFAULT).max(entries_count),
            entries: Vec::new(),
            const_entries: declaration.const_entries,
            direct: Vec::new(),
            hidden: false,
            profile: None,
            idle_timeout: false,
            loc,
        });
        self.properties(table, declaration)?;

        let mut keys = Vec::new();
        for key in &declaration.keys {
            if key.match_kind == SELECTOR {
                continue;
            }
            let ty = self.ty(&key.expr.ty);
            let Some(width) = self.scalar_width(&ty) else {
                let what = format!("a table key of type {}", self.program.type_text(&ty));
                return self.unsupported(key.span, what);
            };
            let Some(kind) = match_kind(&key.match_kind) else {
                return self.unsupported(key.span, format!("match kind `{}`", key.match_kind));
            };
            keys.push(ir::Key { name: key.name.clone(), width, kind });
        }
        self.ir.tables[table.index()].keys = keys.clone();

        let mut actions: Vec<ir::TableAction> = Vec::new();
        let mut names = HashSet::new();
        let mut positions = HashMap::new();
        for (i, listed) in declaration.actions.iter().enumerate() {
            self.grow_expressions(1);
            let action = self.table_action(table, &listed.action)?;
            self.check_name_is_new(&mut names, action, listed.action.span)?;
            positions.entry(listed.action.action).or_insert(i);
            let has = |name: &str| listed.annotations.iter().any(|a| a.name.text == name);
            actions.push(ir::TableAction {
                action,
                table_only: has("tableonly"),
                default_only: has("defaultonly"),
            });
        }
        let position = |id| positions.get(&id).copied();
        let default = match position(declaration.default.action) {
            Some(i) => i as u32,
            None => {
                // The default `NoAction`, which the program need not list.
                let action = self.table_action(table, &declaration.default)?;
                self.check_name_is_new(&mut names, action, declaration.span)?;
                actions.push(ir::TableAction { action, table_only: false, default_only: true });
                actions.len() as u32 - 1
            }
        };
        self.ir.tables[table.index()].actions = actions;
        let data = self.action_data(&declaration.default)?;
        self.ir.tables[table.index()].default = ir::ActionCall { action: default, data };

        if self.ir.tables[table.index()].profile.is_some()
            && let Some(entry) = declaration.entries.first()
        {
            return self.unsupported(entry.span, "entries in a table whose actions are in an action profile");
        }
        let mut entries = Vec::new();
        let priorities = self.priorities(declaration)?;
        for ((place, entry), priority) in declaration.entries.iter().enumerate().zip(priorities) {
            self.grow_expressions(ENTRY_PARTS + declaration.keys.len());
            self.go_on()?;
            let mut key = Vec::new();
            for (i, typed_key) in declaration.keys.iter().enumerate() {
                let (Some(set), Some(span)) = (entry.keysets.get(i), entry.keyset_spans.get(i)) else {
                    return self.bug(entry.span, "an entry without key");
                };
                let ty = self.ty(&typed_key.expr.ty);
                key.push(self.key_match(set, &keys[i], &ty, *span)?);
            }
            let Some(action) = position(entry.action.action) else {
                return self.bug(entry.span, "an entry whose action the table does not list");
            };
            let data = self.action_data(&entry.action)?;
            let action = ir::ActionCall { action: action as u32, data };
            let loc = self.loc(entry.span);
            let shown_priority = declaration.shown_priority(place);
            entries.push(ir::Entry { key, priority, shown_priority, is_const: entry.is_const, action, loc });
        }
        entries.sort_by_key(|e| e.priority);
        self.ir.tables[table.index()].entries = entries;
        Ok(table)
    }

    /// Refuses an action whose control-plane name is that of another one in the table's list.
    fn check_name_is_new(
        &mut self,
        listed: &mut HashSet<String>,
        action: ir::ActionId,
        span: Span,
    ) -> Lowered<()> {
        let name = self.ir.actions[action.index()].control_name.clone();
        if listed.insert(name.clone()) {
            return Ok(());
        }
        let what = format!("a table with two actions of the control-plane name `{name}`");
        // Actions that differ have been reported at their declarations.
        let claim = self.claims.get(&(NameSpace::Actions, name));
        if claim.is_some_and(|c| c.contested) {
            return Ok(());
        }
        self.unsupported(span, what)
    }

    /// Returns the field with the cell of the matching entry of `table`, 0 on a miss, while its action runs.
    pub fn entry_cell(&mut self, table: ir::TableId) -> FieldId {
        if let Some(field) = self.entry_cells.get(&table) {
            return *field;
        }
        let name = format!("{}.$entry$", self.ir.tables[table.index()].name);
        let field = self.field(&name, 32, FieldKind::Temporary);
        self.entry_cells.insert(table, field);
        field
    }

    /// Makes a table run a statement before each action. Called while the table's properties are read.
    pub fn before_actions(&mut self, table: ir::TableId, op: ir::Op) {
        self.on_hit.entry(table).or_default().push(op);
    }

    /// Makes an action profile hold the actions of a table's entries. Called while the table's properties are read.
    pub fn set_profile(&mut self, table: ir::TableId, profile: ObjectId) {
        self.ir.tables[table.index()].profile = self.extern_object(profile).and_then(|o| o.state);
        self.profiles.insert(table, profile);
    }

    fn has_groups(&self, table: ir::TableId) -> bool {
        let profile = self.ir.tables[table.index()].profile;
        profile.is_some_and(|p| {
            matches!(
                self.ir.instances[p.index()].kind,
                ir::InstanceKind::ActionProfile { selector: true, .. }
            )
        })
    }

    fn properties(&mut self, table: ir::TableId, declaration: &typed::Table) -> Lowered<()> {
        for (name, e) in &declaration.properties {
            // Defines the priorities of entries: [`Lowerer::priorities`].
            if name == "priority_delta" || name == "largest_priority_wins" {
                continue;
            }
            let value = match &e.kind {
                // The object has no name of its own, and other tables may create instances of the same type.
                ExprKind::Construct { constructor, args } => {
                    let object = format!("{}.{name}", self.ir.tables[table.index()].name);
                    let ty = self.ty(&e.ty);
                    Value::Object(self.make(&ty, *constructor, args, object, true, e.span)?)
                }
                _ => self.expr(e)?,
            };
            let property = Property { name: name.clone(), value, span: e.span };
            let arch = self.arch;
            arch.table_property(self, table, &property)?;
        }
        Ok(())
    }

    /// Returns the IR priority of each entry, where smaller is more important: its position among the entries, from 1,
    /// when sorted by the priorities of P4_16; or bmv2's `@priority`. So entries added at run time compare with those of
    /// the program as in bmv2 (p4c's `frontends/p4/entryPriorities.cpp` sorts, `backends/bmv2/common/control.h` numbers).
    fn priorities(&mut self, table: &typed::Table) -> Lowered<Vec<u32>> {
        let mut order: Vec<usize> = (0..table.entries.len()).collect();
        if table.entries.iter().any(|e| e.priority.is_some()) {
            let given = self.given_priorities(table)?;
            // The sort is stable: of equal priorities, the first entry comes first.
            match table.largest_priority_wins {
                true => order.sort_by(|a, b| given[*b].cmp(&given[*a])),
                false => order.sort_by(|a, b| given[*a].cmp(&given[*b])),
            }
        }
        let mut priorities = vec![0; order.len()];
        for (place, entry) in (1..).zip(order) {
            priorities[entry] = self.bmv2_priority(&table.entries[entry], place)?;
        }
        Ok(priorities)
    }

    /// P4_16 "entry priorities": an entry without a priority is `priority_delta` less important than the one before it.
    fn given_priorities(&mut self, table: &typed::Table) -> Lowered<Vec<BigInt>> {
        let delta = match table.properties.iter().find(|(name, _)| name == "priority_delta") {
            Some((_, typed::Expr { kind: ExprKind::Int(delta), .. })) => delta.clone(),
            _ => BigInt::one(),
        };
        let mut given: Vec<BigInt> = Vec::new();
        for entry in &table.entries {
            let priority = match (&entry.priority, given.last()) {
                (Some(given), _) => given.clone(),
                (None, Some(last)) if table.largest_priority_wins => last - &delta,
                (None, Some(last)) => last + &delta,
                (None, None) => BigInt::one(),
            };
            if priority.to_i32().is_none_or(|p| p < 0) {
                return self.unsupported(entry.span, "a priority beyond 31 bits");
            }
            given.push(priority);
        }
        Ok(given)
    }

    fn bmv2_priority(&mut self, entry: &typed::Entry, position: u32) -> Lowered<u32> {
        let Some(annotation) = entry.annotations.iter().find(|a| a.name.text == "priority") else {
            return Ok(position);
        };
        match annotation.body.integer().and_then(|n| n.to_u32()) {
            Some(priority) if priority <= i32::MAX as u32 => Ok(priority),
            _ => self.unsupported(annotation.span, "a `@priority` that is not an integer literal below 2^31"),
        }
    }

    fn key_match(&mut self, set: &KeySet, key: &ir::Key, ty: &Type, span: Span) -> Lowered<KeyMatch> {
        let all = build::ones(key.width);
        let refuse = |cx: &mut Self, what: &str| {
            let what = format!("{what} as {} key", key.kind.name());
            cx.unsupported(span, what)
        };
        Ok(match set {
            KeySet::Any => match key.kind {
                MatchKind::Exact => return refuse(self, "a don't-care"),
                MatchKind::Lpm => KeyMatch::Lpm { value: BigUint::zero(), prefix_len: 0 },
                MatchKind::Ternary => KeyMatch::Ternary { value: BigUint::zero(), mask: BigUint::zero() },
                MatchKind::Range => KeyMatch::Range { lo: BigUint::zero(), hi: all },
                MatchKind::Optional => KeyMatch::Optional(None),
            },
            KeySet::Value(e) => {
                let value = self.constant(e, ty)?;
                match key.kind {
                    MatchKind::Exact => KeyMatch::Exact(value),
                    MatchKind::Lpm => KeyMatch::Lpm { value, prefix_len: key.width },
                    MatchKind::Ternary => KeyMatch::Ternary { value, mask: all },
                    MatchKind::Range => KeyMatch::Range { lo: value.clone(), hi: value },
                    MatchKind::Optional => KeyMatch::Optional(Some(value)),
                }
            }
            KeySet::Mask(value, mask) => {
                let value = self.constant(value, ty)?;
                let mask = self.constant(mask, ty)?;
                let value = value & &mask;
                match key.kind {
                    MatchKind::Ternary => KeyMatch::Ternary { value, mask },
                    MatchKind::Lpm => match prefix_len(&mask, key.width) {
                        Some(prefix_len) => KeyMatch::Lpm { value, prefix_len },
                        None => return refuse(self, "a mask that is not a prefix"),
                    },
                    MatchKind::Exact if mask == all => KeyMatch::Exact(value),
                    MatchKind::Optional if mask == all => KeyMatch::Optional(Some(value)),
                    MatchKind::Optional if mask.is_zero() => KeyMatch::Optional(None),
                    MatchKind::Range if mask == all => KeyMatch::Range { lo: value.clone(), hi: value },
                    MatchKind::Range if mask.is_zero() => KeyMatch::Range { lo: BigUint::zero(), hi: all },
                    _ => return refuse(self, "a mask"),
                }
            }
            KeySet::Range(lo, hi) => {
                let lo = self.constant(lo, ty)?;
                let hi = self.constant(hi, ty)?;
                match key.kind {
                    MatchKind::Range if lo <= hi => KeyMatch::Range { lo, hi },
                    // Compared as bits, so a range from a negative number to 0 or more is empty.
                    MatchKind::Range => {
                        return refuse(self, "a range whose low end is above its high end (as bits)");
                    }
                    _ if lo == hi => match key.kind {
                        MatchKind::Exact => KeyMatch::Exact(lo),
                        MatchKind::Lpm => KeyMatch::Lpm { value: lo, prefix_len: key.width },
                        MatchKind::Ternary => KeyMatch::Ternary { value: lo, mask: all },
                        _ => KeyMatch::Optional(Some(lo)),
                    },
                    _ => return refuse(self, "a range"),
                }
            }
            KeySet::ValueSet(_) => return refuse(self, "a value set"),
        })
    }

    /// Returns the values of action data in an action reference.
    fn action_data(&mut self, action: &typed::ActionRef) -> Lowered<Vec<BigUint>> {
        let declaration = &self.program.actions[action.action.index()];
        let mut data = Vec::new();
        for (i, param) in declaration.params.iter().enumerate() {
            if param.dir != Direction::None {
                continue;
            }
            let ty = self.ty(&self.program.vars[param.var.index()].ty);
            let Some(Some(e)) = action.args.get(i) else {
                return self.unsupported(action.span, "an action with arguments missing here");
            };
            let value = self.expr(e)?;
            let value = self.cast(value, &self.ty(&e.ty), &ty, e.span)?;
            for scalar in value.data() {
                match scalar {
                    ir::Expr::Const { value, .. } => data.push(value),
                    _ => {
                        let what = "this expression where a compile-time value is needed";
                        return self.unsupported(e.span, what);
                    }
                }
            }
        }
        Ok(data)
    }

    /// Returns the IR action for an action in a table's list.
    fn table_action(&mut self, table: ir::TableId, action: &typed::ActionRef) -> Lowered<ir::ActionId> {
        let id = action.action;
        let declaration = &self.program.actions[id.index()];
        let local = self.local_actions.contains(&id);
        let home = if local { self.block_scope() } else { GLOBAL };
        let on_hit = self.on_hit.get(&table).cloned().unwrap_or_default();
        let bound = !on_hit.is_empty() || declaration.params.iter().any(|p| p.dir != Direction::None);
        if !bound && let Some(known) = self.scopes[home.0 as usize].actions.get(&id) {
            return Ok(*known);
        }
        let path = full_name(&self.scopes[home.0 as usize].path, &declaration.control_name);
        let name = self.unique_name(Kind::Action, &path);
        let loc = self.loc(declaration.span);
        let ir_id = ir::ActionId(self.ir.actions.len() as u32);
        let (fields, headers) = (self.ir.fields.len(), self.ir.headers.len());
        let (control_name, params, body) = (path.clone(), Vec::new(), ir::Cfg::default());
        self.ir.actions.push(ir::Action { name, control_name, params, body, loc });
        let scope = self.new_scope(home, path.clone(), false);

        // Tables may be applied several times.
        let runs_once = std::mem::replace(&mut self.runs_once, false);
        let in_table_action = std::mem::replace(&mut self.in_table_action, true);
        let outer_span = std::mem::replace(&mut self.span, declaration.span);
        let flow = Flow { ret: Jump::Return, result: None, exit: Jump::Exit, loops: Vec::new() };
        let body = self.graph(flow, |cx| {
            on_hit.into_iter().for_each(|op| cx.emit(op));
            // Arguments of directional parameters are expressions of the enclosing control, evaluated when the table runs
            // the action: nothing happens between the lookup and the action.
            let mut args: Vec<Arg> = cx.action_args(id, &action.args)?;
            cx.action_params(ir_id, declaration, &mut args, scope)?;
            cx.inline_action(id, args)
        });
        self.runs_once = runs_once;
        self.in_table_action = in_table_action;
        self.span = outer_span;
        self.ir.actions[ir_id.index()].body = body?;
        let mut action = ir_id;
        // Only the new action uses the fields created for it.
        if let (Some(twin), true) = (self.twin(&path, ir_id), headers == self.ir.headers.len()) {
            for field in self.ir.fields.split_off(fields) {
                self.release_name(Kind::Field, &field.name);
            }
            if let Some(dropped) = self.ir.actions.pop() {
                self.release_name(Kind::Action, &dropped.name);
            }
            action = twin;
        } else {
            self.claim(ObjectKind::Action, &path, declaration.span, home);
            self.actions_named.entry(path).or_default().push(ir_id);
        }
        if !bound {
            self.scope_mut(home).actions.insert(id, action);
        }
        Ok(action)
    }

    /// Creates fields for the parameters that are action data, and passes them as arguments.
    fn action_params(
        &mut self,
        ir_id: ir::ActionId,
        declaration: &typed::Action,
        args: &mut [Arg],
        scope: ScopeId,
    ) -> Lowered<()> {
        for (param, arg) in declaration.params.iter().zip(args) {
            if param.dir != Direction::None {
                continue;
            }
            let var = &self.program.vars[param.var.index()];
            let ty = self.in_scope(scope, |cx| cx.ty(&var.ty));
            let name = format!("{}.{}", self.ir.actions[ir_id.index()].name, param.control_name);
            arg.value = Some(self.data_fields(ir_id, &ty, &name, var.span)?);
            arg.place = None;
        }
        Ok(())
    }

    /// Gives a field of action data this name, which the control plane uses, if a variable has it: that of the parameter where a
    /// control calls the action itself.
    fn give_name(&mut self, field: ir::FieldId, name: &str) {
        if self.ir.fields[field.index()].name == name {
            return;
        }
        let is_variable = |f: &ir::Field| f.name == name && !matches!(f.kind, FieldKind::ActionData(_));
        if let Some(variable) = self.ir.fields.iter().position(is_variable) {
            let number = std::mem::replace(&mut self.ir.fields[field.index()].name, name.to_string());
            self.ir.fields[variable].name = number;
        }
    }

    /// Creates fields for the action data of a parameter: one per scalar inside, named by its path. Headers are valid.
    fn data_fields(&mut self, action: ir::ActionId, ty: &Type, name: &str, span: Span) -> Lowered<Value> {
        if let Some(width) = self.scalar_width(ty) {
            let field = self.field(name, width, FieldKind::ActionData(action));
            self.give_name(field, name);
            self.ir.actions[action.index()].params.push(field);
            return Ok(Value::Scalar(ir::Expr::Field(field)));
        }
        let mut parts = Vec::new();
        match self.underlying(ty) {
            Type::Stack(element, n) => {
                for i in 0..n {
                    parts.push(self.data_fields(action, &element, &format!("{name}[{i}]"), span)?);
                }
                if self.is_header(&element) {
                    return Ok(Value::Stack { elements: parts, next: build::zero(32) });
                }
                Ok(Value::Struct(parts))
            }
            t @ (Type::Struct(..) | Type::Tuple(_))
                if self.struct_kind(&t) != Some(StructKind::HeaderUnion) =>
            {
                for (field, ty) in self.fields_of(&t) {
                    parts.push(self.data_fields(action, &ty, &format!("{name}.{field}"), span)?);
                }
                Ok(match self.struct_kind(&t) {
                    Some(StructKind::Header) => Value::Header { valid: build::truth(true), fields: parts },
                    _ => Value::Struct(parts),
                })
            }
            other => {
                let what = format!("an action parameter of type {}", self.program.type_text(&other));
                self.unsupported(span, what)
            }
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Value sets

    /// The hidden table of a parser value set: a hit means that the keys are in the set.
    pub(crate) fn value_set(&mut self, id: typed::ValueSetId, key_names: &[String]) -> Lowered<ir::TableId> {
        let scope = self.block_scope();
        if let Some(known) = self.scopes[scope.0 as usize].value_sets.get(&id) {
            return Ok(*known);
        }
        let set = &self.program.value_sets[id.index()];
        let name = full_name(&self.scopes[scope.0 as usize].path, &set.name);
        self.claim(ObjectKind::ValueSet, &name, set.span, scope);
        let name = self.unique_name(Kind::Table, &name);
        let ty = self.ty(&set.ty);
        // P4_16 "parser value sets": each field of a struct is one key, with the match kind of `@match`.
        let mut parts: Vec<(String, Type, MatchKind)> = Vec::new();
        match &ty {
            Type::Struct(..) => self.value_set_keys(&ty, "", MatchKind::Exact, &mut parts, set.span)?,
            _ => {
                let tys = match &ty {
                    Type::Tuple(tys) => tys.clone(),
                    ty => vec![ty.clone()],
                };
                let kind = self.match_annotation(&set.annotations, set.span)?;
                for (i, ty) in tys.into_iter().enumerate() {
                    parts.push((key_names.get(i).cloned().unwrap_or_else(|| format!("f{i}")), ty, kind));
                }
            }
        }
        let mut keys = Vec::new();
        for (name, ty, kind) in parts {
            let Some(width) = self.scalar_width(&ty) else {
                let what = format!("a value set of type {}", self.program.type_text(&ty));
                return self.unsupported(set.span, what);
            };
            keys.push(ir::Key { name, width, kind });
        }
        let member = self.member_action();
        let loc = self.loc(set.span);
        self.ir.tables.push(ir::Table {
            name,
            keys,
            actions: vec![ir::TableAction { action: member, table_only: false, default_only: false }],
            default: ir::ActionCall { action: 0, data: Vec::new() },
            const_default: true,
            size: set.size.max(1),
            entries: Vec::new(),
            const_entries: false,
            direct: Vec::new(),
            hidden: true,
            profile: None,
            idle_timeout: false,
            loc,
        });
        let table = ir::TableId(self.ir.tables.len() as u32 - 1);
        self.scope_mut(scope).value_sets.insert(id, table);
        Ok(table)
    }

    fn value_set_keys(
        &mut self,
        ty: &Type,
        prefix: &str,
        inherited: MatchKind,
        parts: &mut Vec<(String, Type, MatchKind)>,
        span: Span,
    ) -> Lowered<()> {
        let Type::Struct(id, _) = ty else { return Ok(()) };
        let declared = &self.program.structs[id.index()].fields;
        for ((field, ty), declared) in self.fields_of(ty).into_iter().zip(declared) {
            let kind = match declared.annotations.iter().any(|a| a.name.text == "match") {
                true => self.match_annotation(&declared.annotations, span)?,
                false => inherited,
            };
            let name = format!("{prefix}{field}");
            match ty {
                Type::Struct(..) => self.value_set_keys(&ty, &format!("{name}."), kind, parts, span)?,
                ty => parts.push((name, ty, kind)),
            }
        }
        Ok(())
    }

    fn match_annotation(
        &mut self,
        annotations: &[p4jet_syntax::ast::Annotation],
        span: Span,
    ) -> Lowered<MatchKind> {
        use p4jet_syntax::ast::AnnotationBody;
        let Some(annotation) = annotations.iter().find(|a| a.name.text == "match") else {
            return Ok(MatchKind::Exact);
        };
        let kind = match &annotation.body {
            AnnotationBody::Tokens(tokens) => tokens.first().and_then(|t| match_kind(&t.text)),
            _ => None,
        };
        match kind {
            Some(kind) => Ok(kind),
            None => self.unsupported(span, "this `@match`"),
        }
    }

    fn member_action(&mut self) -> ir::ActionId {
        if let Some(known) = self.member_action {
            return known;
        }
        let name = self.unique_name(Kind::Action, "$member");
        let node = ir::Node {
            label: String::new(),
            stmts: Vec::new(),
            terminator: Terminator::Return,
            terminator_loc: ir::Loc(0),
        };
        let body = ir::Cfg { nodes: vec![node] };
        let (control_name, params) = (name.clone(), Vec::new());
        self.ir.actions.push(ir::Action { name, control_name, params, body, loc: ir::Loc(0) });
        let id = ir::ActionId(self.ir.actions.len() as u32 - 1);
        self.member_action = Some(id);
        id
    }
}

fn match_kind(name: &str) -> Option<MatchKind> {
    MatchKind::ALL.into_iter().find(|k| k.name() == name)
}

/// Returns the length of the prefix that a mask selects, if it selects one.
fn prefix_len(mask: &BigUint, width: u32) -> Option<u32> {
    let ones = mask.count_ones() as u32;
    let prefix = if ones == 0 { BigUint::zero() } else { build::ones(ones) << (width - ones) };
    (*mask == prefix).then_some(ones)
}
