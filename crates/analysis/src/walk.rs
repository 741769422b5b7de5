//! A walk over everything that a program executes.

use crate::typed::*;
use p4jet_syntax::ast::Direction;

/// Receives each part of a body once.
pub trait Visit<'a> {
    /// A sequence of statements.
    fn stmts(&mut self, _: &'a [Stmt]) {}
    /// A read of an expression's value, as large as it is used: `hdr.h.x`, but not also `hdr.h`. Operands are reported
    /// separately.
    fn read(&mut self, _: &'a Expr) {}
    /// A write of a place, with the value if it is one expression.
    fn write(&mut self, _place: &'a Expr, _value: Option<&'a Expr>) {}
    /// A call. Its arguments follow.
    fn call(&mut self, _: &'a Call) {}
    /// The application of a table.
    fn apply(&mut self, _: TableId) {}
}

/// Something that contains statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// A parser.
    Parser(ParserId),
    /// A control, without the actions in it.
    Control(ControlId),
    /// An action.
    Action(ActionId),
    /// A function.
    Function(FunctionId),
    /// A table: its keys and the arguments of its actions.
    Table(TableId),
}

/// Returns all bodies of a program.
pub fn bodies(program: &Program) -> impl Iterator<Item = Body> + use<> {
    let ids = |n: usize| 0..n as u32;
    ids(program.parsers.len())
        .map(|i| Body::Parser(ParserId(i)))
        .chain(ids(program.controls.len()).map(|i| Body::Control(ControlId(i))))
        .chain(ids(program.actions.len()).map(|i| Body::Action(ActionId(i))))
        .chain(ids(program.functions.len()).map(|i| Body::Function(FunctionId(i))))
        .chain(ids(program.tables.len()).map(|i| Body::Table(TableId(i))))
}

/// Shows a body to a visitor.
pub fn walk<'a>(program: &'a Program, body: Body, visitor: &mut impl Visit<'a>) {
    let mut walk = Walk { program, visitor };
    match body {
        Body::Parser(id) => {
            let Some(body) = &program.parsers[id.index()].body else { return };
            walk.locals(&body.locals);
            for state in &body.states {
                walk.stmts(&state.stmts);
                let Transition::Select { keys, cases, .. } = &state.transition else { continue };
                keys.iter().for_each(|key| walk.expr(key));
                cases
                    .iter()
                    .flat_map(|case| &case.keysets)
                    .flat_map(KeySet::exprs)
                    .for_each(|expr| walk.expr(expr));
            }
        }
        Body::Control(id) => {
            let Some(body) = &program.controls[id.index()].body else { return };
            walk.locals(&body.locals);
            walk.stmts(&body.apply);
        }
        Body::Action(id) => walk.stmts(&program.actions[id.index()].body),
        Body::Function(id) => walk.stmts(program.functions[id.index()].body.as_deref().unwrap_or_default()),
        Body::Table(id) => {
            let table = &program.tables[id.index()];
            table.keys.iter().for_each(|key| walk.expr(&key.expr));
            let entries = table.entries.iter().map(|entry| &entry.action);
            let listed = table.actions.iter().map(|listed| &listed.action);
            let others = [&table.default].into_iter().chain(&table.empty_group_action);
            for action in listed.chain(others).chain(entries) {
                walk.arguments(&program.actions[action.action.index()].params, &action.args);
            }
        }
    }
}

struct Walk<'a, 'v, V> {
    program: &'a Program,
    visitor: &'v mut V,
}

impl<'a, V: Visit<'a>> Walk<'a, '_, V> {
    fn locals(&mut self, locals: &'a [Local]) {
        for local in locals {
            if let Local::Var(_, Some(value)) = local {
                self.expr(value);
            }
        }
    }

    fn stmts(&mut self, stmts: &'a [Stmt]) {
        self.visitor.stmts(stmts);
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Call(call) => self.call(call),
            StmtKind::Var(_, Some(value)) | StmtKind::Return(Some(value)) => self.expr(value),
            StmtKind::Assign(place, value) => {
                self.expr(value);
                self.write(place, Some(value));
            }
            StmtKind::AssignOp(place, _, value) => {
                self.expr(place);
                self.expr(value);
                self.visitor.write(place, None);
            }
            StmtKind::If(cond, then, other) => {
                self.expr(cond);
                self.stmts(then);
                self.stmts(other);
            }
            StmtKind::Block { stmts, .. } => self.stmts(stmts),
            StmtKind::SwitchAction { table, cases } => {
                self.visitor.apply(*table);
                cases.iter().for_each(|case| self.stmts(&case.body));
            }
            StmtKind::Switch { value, cases } => {
                self.expr(value);
                cases.iter().for_each(|case| self.stmts(&case.body));
            }
            StmtKind::For { init, cond, update, body } => {
                self.stmts(init);
                self.expr(cond);
                self.stmts(update);
                self.stmts(body);
            }
            StmtKind::ForIn { collection, body, .. } => {
                match collection {
                    Collection::Range(lo, hi) => {
                        self.expr(lo);
                        self.expr(hi);
                    }
                    Collection::Elements(elements) => self.expr(elements),
                }
                self.stmts(body);
            }
            StmtKind::Var(_, None)
            | StmtKind::Return(None)
            | StmtKind::Instance(_)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Exit => {}
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Var(_)
            | ExprKind::Field(..)
            | ExprKind::Index(..)
            | ExprKind::StackNext(_)
            | ExprKind::StackLast(_)
            | ExprKind::StackLastIndex(_) => {
                self.visitor.read(expr);
                self.inside(expr);
            }
            ExprKind::Call(call) => self.call(call),
            ExprKind::ApplyHit { table, .. } => self.visitor.apply(*table),
            _ => expr.operands().for_each(|operand| self.expr(operand)),
        }
    }

    fn write(&mut self, place: &'a Expr, value: Option<&'a Expr>) {
        self.visitor.write(place, value);
        self.inside(place);
    }

    /// Visits the indices in a place, and the value that it is part of if that is not a place.
    fn inside(&mut self, place: &'a Expr) {
        match &place.kind {
            ExprKind::Var(_) => {}
            ExprKind::Field(base, _)
            | ExprKind::Slice(base, ..)
            | ExprKind::StackNext(base)
            | ExprKind::StackLast(base)
            | ExprKind::StackLastIndex(base) => self.inside(base),
            ExprKind::Index(base, index) => {
                self.inside(base);
                self.expr(index);
            }
            ExprKind::SliceAt { value, lo, .. } => {
                self.inside(value);
                self.expr(lo);
            }
            _ => self.expr(place),
        }
    }

    fn call(&mut self, call: &'a Call) {
        self.visitor.call(call);
        match &call.callee {
            Callee::TableApply(table) => self.visitor.apply(*table),
            Callee::SetValid(header) | Callee::SetInvalid(header) => self.inside(header),
            Callee::IsValid(header) => self.expr(header),
            Callee::PushFront(stack, _) | Callee::PopFront(stack, _) => self.write(stack, None),
            _ => self.arguments(params(self.program, &call.callee), &call.args),
        }
    }

    fn arguments(&mut self, params: &[Param], args: &'a [Option<Expr>]) {
        for (param, arg) in params.iter().zip(args) {
            let Some(arg) = arg else { continue };
            match param.dir {
                Direction::Out => self.write(arg, None),
                Direction::InOut => {
                    self.expr(arg);
                    self.visitor.write(arg, None);
                }
                _ => self.expr(arg),
            }
        }
    }
}

/// Returns the parameters of the callee; none for tables and for methods of headers and stacks.
pub fn params<'a>(program: &'a Program, callee: &Callee) -> &'a [Param] {
    let of_block = |ty: &Type| -> &'a [Param] {
        match ty {
            Type::Parser(id, _) => &program.parsers[id.index()].params,
            Type::Control(id, _) => &program.controls[id.index()].params,
            _ => &[],
        }
    };
    match callee {
        Callee::Function(id) => &program.functions[id.index()].params,
        Callee::Action(id) => &program.actions[id.index()].params,
        Callee::Method { ext, method, .. } => &program.externs[ext.index()].methods[*method as usize].params,
        Callee::Apply(object) => of_block(&object.ty),
        Callee::DirectApply(ty) => of_block(ty),
        Callee::TableApply(_)
        | Callee::SetValid(_)
        | Callee::SetInvalid(_)
        | Callee::IsValid(_)
        | Callee::PushFront(..)
        | Callee::PopFront(..) => &[],
    }
}
