//! Statements.

use std::collections::HashSet;

use num_bigint::BigUint;
use p4jet_analysis::typed::{
    self, Call, Callee, Collection, Stmt, StmtKind, SwitchActionCase, SwitchCase, TableId, Type, TypeParamId,
    VarId,
};
use p4jet_ir::{BinaryOp, Expr, NodeId, Terminator};
use p4jet_syntax::span::Span;

use crate::build;
use crate::context::{Lowered, Lowerer};
use crate::scope::Binding;
use crate::survey::has_effects;
use crate::value::{Storage, Value};

impl Lowerer<'_> {
    /// Lowers statements in order. After a refused statement, the others are still checked.
    pub(crate) fn stmts(&mut self, list: &[Stmt]) -> Lowered<()> {
        let mut result = Ok(());
        for stmt in list {
            let outer = std::mem::replace(&mut self.span, stmt.span);
            result = self.stmt(stmt).and(result);
            self.span = outer;
        }
        result
    }

    fn stmt(&mut self, stmt: &Stmt) -> Lowered<()> {
        self.go_on()?;
        match &stmt.kind {
            StmtKind::Var(var, init) => self.declare_var(*var, init.as_ref()),
            StmtKind::Instance(id) => self.declare(*id).map(|_| ()),
            StmtKind::Assign(l, r) => {
                // P4_16 "assignment": the l-value first, then the r-value.
                let place = self.place(l)?;
                let value = self.expr(r)?;
                let value = self.cast(value, &self.ty(&r.ty), &self.ty(&l.ty), r.span)?;
                let value = self.without_invalid_fields(&place, value)?;
                self.assign(&place, value)
            }
            StmtKind::AssignOp(l, op, r) => {
                let place = self.place(l)?;
                let old = self.read(&place)?;
                let old = if has_effects(r) { self.snapshot(old) } else { old };
                let right = self.expr(r)?;
                let value = self.binary_values(*op, (old, &l.ty), (right, &r.ty), stmt.span)?;
                self.assign(&place, value)
            }
            StmtKind::Call(call) => {
                let ret = self.call_type(call);
                self.call(call, &ret).map(|_| ())
            }
            StmtKind::If(cond, then, otherwise) => {
                let cond = self.scalar(cond)?;
                if let Some(decided) = build::as_const(&cond) {
                    return self.stmts(if *decided == BigUint::ZERO { otherwise } else { then });
                }
                let (yes, no, join) = (self.node(), self.node(), self.node());
                self.terminate(Terminator::If { cond, then: yes, otherwise: no });
                self.enter(yes);
                let first = self.stmts(then);
                self.goto(join);
                self.enter(no);
                let second = self.stmts(otherwise);
                self.goto(join);
                self.enter(join);
                first.and(second)
            }
            StmtKind::Block { stmts, atomic: true } => self.atomic(|cx| cx.stmts(stmts)),
            StmtKind::Block { stmts, atomic: false } => self.stmts(stmts),
            StmtKind::Return(value) => {
                if let Some(e) = value {
                    let value = self.expr(e)?;
                    if let Some(result) = self.flow.result.clone() {
                        self.assign_storage(&result, value);
                    }
                }
                self.jump(self.flow.ret);
                Ok(())
            }
            StmtKind::Break => match self.flow.loops.last() {
                Some((_, after)) => {
                    self.goto(*after);
                    Ok(())
                }
                None => self.bug(stmt.span, "break outside a loop"),
            },
            StmtKind::Continue => match self.flow.loops.last() {
                Some((next, _)) => {
                    self.goto(*next);
                    Ok(())
                }
                None => self.bug(stmt.span, "continue outside a loop"),
            },
            StmtKind::Exit => {
                self.jump(self.flow.exit);
                Ok(())
            }
            StmtKind::SwitchAction { table, cases } => self.switch_action(*table, cases, stmt.span),
            StmtKind::Switch { value, cases } => {
                let value = self.scalar(value)?;
                self.switch(value, cases)
            }
            StmtKind::For { init, cond, update, body } => self.for_loop(init, cond, update, body),
            StmtKind::ForIn { var, collection, body } => self.for_in(*var, collection, body, stmt.span),
        }
    }

    fn switch_action(&mut self, table: TableId, cases: &[SwitchActionCase], span: Span) -> Lowered<()> {
        let run = self.temporary(32);
        self.apply_table(table, None, Some(run), span)?;
        let join = self.node();
        let mut targets = Vec::new();
        let mut default = join;
        let mut bodies = Vec::new();
        for case in cases {
            let node = self.node();
            for &action in &case.actions {
                targets.push((BigUint::from(action), node));
            }
            if case.has_default {
                default = node;
            }
            bodies.push((node, &case.body));
        }
        self.terminate(Terminator::Switch { value: Expr::Field(run), cases: targets, default });
        self.bodies(bodies, join)
    }

    fn switch(&mut self, value: Expr, cases: &[SwitchCase]) -> Lowered<()> {
        let join = self.node();
        let mut targets: Vec<(BigUint, _)> = Vec::new();
        let mut seen = HashSet::new();
        let mut default = join;
        let mut bodies = Vec::new();
        for case in cases {
            let node = self.node();
            for e in &case.values {
                let ty = self.ty(&e.ty);
                let label = self.constant(e, &ty)?;
                if seen.insert(label.clone()) {
                    targets.push((label, node));
                }
            }
            if case.has_default {
                default = node;
            }
            bodies.push((node, &case.body));
        }
        self.terminate(Terminator::Switch { value, cases: targets, default });
        self.bodies(bodies, join)
    }

    fn bodies(&mut self, bodies: Vec<(NodeId, &Vec<Stmt>)>, join: NodeId) -> Lowered<()> {
        let mut result = Ok(());
        for (node, body) in bodies {
            self.enter(node);
            result = self.stmts(body).and(result);
            self.goto(join);
        }
        self.enter(join);
        result
    }

    fn for_loop(&mut self, init: &[Stmt], cond: &typed::Expr, update: &[Stmt], body: &[Stmt]) -> Lowered<()> {
        self.stmts(init)?;
        let (head, inside, next, after) = (self.node(), self.node(), self.node(), self.node());
        self.goto(head);
        self.enter(head);
        let once = std::mem::replace(&mut self.runs_once, false);
        let result = self.scalar(cond).and_then(|cond| {
            self.terminate(Terminator::If { cond, then: inside, otherwise: after });
            self.enter(inside);
            self.flow.loops.push((next, after));
            let result = self.stmts(body);
            self.flow.loops.pop();
            self.goto(next);
            self.enter(next);
            let result = self.stmts(update).and(result);
            self.goto(head);
            result
        });
        self.runs_once = once;
        self.enter(after);
        result
    }

    fn for_in(&mut self, var: VarId, collection: &Collection, body: &[Stmt], span: Span) -> Lowered<()> {
        let declaration = &self.program.vars[var.index()];
        let ty = self.ty(&declaration.ty);
        let known = self.scopes[self.scope.0 as usize].vars.get(&var).cloned();
        let variable = match known {
            Some(Binding::Storage(storage)) => storage,
            _ => self.local(&ty, &declaration.name, declaration.span)?,
        };
        self.bind(var, Binding::Storage(variable.clone()));
        let once = std::mem::replace(&mut self.runs_once, false);
        let result = match collection {
            Collection::Elements(e) => self.for_elements(e, &variable, &ty, body, span),
            Collection::Range(lo, hi) => self.for_range(lo, hi, &variable, &ty, body, span),
        };
        self.runs_once = once;
        result
    }

    /// P4_16 "for": iterates over the elements of the collection at the start; each turn is separate code.
    fn for_elements(
        &mut self,
        e: &typed::Expr,
        variable: &Storage,
        ty: &Type,
        body: &[Stmt],
        span: Span,
    ) -> Lowered<()> {
        let elements = self.expr(e)?;
        let elements = self.snapshot(elements);
        let after = self.node();
        let mut result = Ok(());
        for element in elements.parts() {
            self.go_on()?;
            let next = self.node();
            let element = match element {
                Value::Integer(_) => self.cast(element.clone(), &Type::Integer, ty, span)?,
                element => element.clone(),
            };
            self.assign_storage(variable, element);
            self.flow.loops.push((next, after));
            result = self.stmts(body).and(result);
            self.flow.loops.pop();
            self.goto(next);
            self.enter(next);
        }
        self.goto(after);
        self.enter(after);
        result
    }

    fn for_range(
        &mut self,
        lo: &typed::Expr,
        hi: &typed::Expr,
        variable: &Storage,
        ty: &Type,
        body: &[Stmt],
        span: Span,
    ) -> Lowered<()> {
        let Some(width) = self.scalar_width(ty) else {
            return self
                .unsupported(span, format!("a loop over values of type {}", self.program.type_text(ty)));
        };
        let signed = self.is_signed(ty);
        let low = self.expr(lo)?;
        let low = if has_effects(hi) { self.snapshot(low) } else { low };
        let low = self.scalar_of(low, ty, span)?;
        let high = self.expr(hi)?;
        let high = self.scalar_of(high, ty, span)?;
        // P4_16 "for": the bounds are evaluated once, before the loop.
        let high = self.snapshot_expr(high);
        let at = self.temporary(width);
        self.set(at, low);
        let (head, inside, next, step, after) =
            (self.node(), self.node(), self.node(), self.node(), self.node());
        self.goto(head);
        self.enter(head);
        let op = if signed { BinaryOp::LeS } else { BinaryOp::LeU };
        let go_on = build::binary(op, Expr::Field(at), high.clone());
        self.terminate(Terminator::If { cond: go_on, then: inside, otherwise: after });
        self.enter(inside);
        self.assign_storage(variable, Value::Scalar(Expr::Field(at)));
        self.flow.loops.push((next, after));
        let result = self.stmts(body);
        self.flow.loops.pop();
        self.goto(next);
        self.enter(next);
        // The last value may be the type's maximum, so the loop stops before the counter would wrap. `at` never exceeds
        // `high`; the comparison "less than" shows that the loop is bounded (`p4jet_ir::turns`).
        let op = if signed { BinaryOp::LtS } else { BinaryOp::LtU };
        let more = build::binary(op, Expr::Field(at), high);
        self.terminate(Terminator::If { cond: more, then: step, otherwise: after });
        self.enter(step);
        let stepped = build::binary(BinaryOp::Add, Expr::Field(at), Expr::constant(1u32, width));
        self.set(at, stepped);
        self.goto(head);
        self.enter(after);
        result
    }

    /// Returns the type of a call's result, as far as lowering needs it when the result is discarded.
    fn call_type(&self, call: &Call) -> Type {
        match &call.callee {
            Callee::Function(id) => {
                let function = &self.program.functions[id.index()];
                match &function.ret {
                    Type::Param(p) => self.type_argument(&function.type_params, call, *p),
                    ty => self.ty(ty),
                }
            }
            Callee::Method { ext, method, .. } => {
                let method = &self.program.externs[ext.index()].methods[*method as usize];
                match &method.ret {
                    Type::Param(p) => self.type_argument(&method.type_params, call, *p),
                    ty => self.ty(ty),
                }
            }
            _ => Type::Void,
        }
    }

    fn type_argument(&self, params: &[TypeParamId], call: &Call, param: TypeParamId) -> Type {
        let at = params.iter().position(|p| *p == param);
        match at.and_then(|i| call.type_args.get(i)) {
            Some(ty) => self.ty(ty),
            None => self.ty(&Type::Param(param)),
        }
    }
}
