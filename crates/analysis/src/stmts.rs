//! Statements (P4_16, "Statements").

use crate::check::{Checker, Place, VarKind};
use crate::consts;
use crate::exprs::operator;
use crate::generic::is_poison;
use crate::members::Owner;
use crate::scopes::Symbol;
use crate::typed::*;
use num_bigint::BigInt;
use p4jet_syntax::ast::{self, BinaryOp, DeclKind};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;
use std::collections::HashMap;

impl Checker {
    /// The statements of a block, in a new scope.
    pub(crate) fn block(&mut self, block: &ast::Block) -> Vec<Stmt> {
        self.scoped(|c| c.statements(&block.stmts))
    }

    /// Statements in the current scope.
    pub(crate) fn statements(&mut self, stmts: &[ast::Stmt]) -> Vec<Stmt> {
        let mut done = Vec::with_capacity(stmts.len());
        self.declared.push(crate::check::declared(stmts.iter().filter_map(|stmt| match &stmt.kind {
            ast::StmtKind::Decl(decl) => Some(&**decl),
            _ => None,
        })));
        for stmt in stmts {
            if self.gave_up() {
                break;
            }
            self.statement(stmt, &mut done);
        }
        self.declared.pop();
        done
    }

    fn statement(&mut self, stmt: &ast::Stmt, out: &mut Vec<Stmt>) {
        let kind = self.deeper(stmt.span, |c| c.statement_kind(stmt)).flatten();
        if let Some(kind) = kind {
            out.push(Stmt { kind, span: stmt.span });
        }
    }

    /// A single statement, as the body of `if` or a loop.
    fn body(&mut self, stmt: &ast::Stmt) -> Vec<Stmt> {
        match &stmt.kind {
            ast::StmtKind::Block(block) if !atomic(block) => self.block(block),
            _ => self.scoped(|c| {
                let mut out = Vec::new();
                c.statement(stmt, &mut out);
                out
            }),
        }
    }

    fn statement_kind(&mut self, stmt: &ast::Stmt) -> Option<StmtKind> {
        let span = stmt.span;
        match &stmt.kind {
            ast::StmtKind::Empty => None,
            ast::StmtKind::Decl(decl) => self.declaration(decl),
            ast::StmtKind::Assign(left, op, right) => self.assign(left, *op, right, span),
            ast::StmtKind::Call(call) => self.call_statement(call),
            ast::StmtKind::If(condition, then, other) => {
                let condition = self.expr_of(condition, &Type::Bool, "the condition of `if`");
                let then = self.body(then);
                let other = other.as_ref().map(|s| self.body(s)).unwrap_or_default();
                Some(StmtKind::If(condition, then, other))
            }
            ast::StmtKind::Block(block) => {
                let stmts = self.block(block);
                Some(StmtKind::Block { stmts, atomic: atomic(block) })
            }
            ast::StmtKind::Return(value) => self.return_statement(value.as_ref(), span),
            ast::StmtKind::Break | ast::StmtKind::Continue => {
                let (word, kind) = match stmt.kind {
                    ast::StmtKind::Break => ("break", StmtKind::Break),
                    _ => ("continue", StmtKind::Continue),
                };
                if self.loops == 0 {
                    self.error("place", span, format!("`{word}` outside of a loop"));
                }
                Some(kind)
            }
            ast::StmtKind::Exit => {
                if self.place.in_parser() || self.place == Place::Function {
                    let place = self.place.describe();
                    let mut diagnostic = Diagnostic::error("place", span, format!("`exit` {place}"));
                    diagnostic = if self.place.in_parser() {
                        diagnostic.note("a parser ends with `transition accept` or `reject`")
                    } else {
                        diagnostic.note("`exit` belongs to controls and actions")
                    };
                    self.report(diagnostic);
                }
                Some(StmtKind::Exit)
            }
            ast::StmtKind::Switch(value, cases) => self.switch(value, cases, span),
            ast::StmtKind::For { init, cond, update, body, .. } => Some(self.scoped(|c| {
                let init = c.statements(init);
                let cond = c.expr_of(cond, &Type::Bool, "the condition of `for`");
                let update = c.statements(update);
                c.loops += 1;
                let body = c.body(body);
                c.loops -= 1;
                StmtKind::For { init, cond, update, body }
            })),
            ast::StmtKind::ForIn { ty, name, collection, body, .. } => {
                let ty = self.resolve_type(ty);
                let collection = self.collection(&ty, collection);
                self.scoped(|c| {
                    let var = c.new_var(name, ty, VarKind::Local);
                    c.declare(name, Symbol::Var(var));
                    c.loops += 1;
                    let body = c.body(body);
                    c.loops -= 1;
                    collection.map(|collection| StmtKind::ForIn { var, collection, body })
                })
            }
        }
    }

    fn collection(&mut self, ty: &Type, expr: &ast::Expr) -> Option<Collection> {
        if let ast::ExprKind::Binary(BinaryOp::Range, lo, hi) = &expr.kind {
            let lo = self.expr_of(lo, ty, "the lower bound of the range");
            let hi = self.expr_of(hi, ty, "the upper bound of the range");
            if is_poison(&lo.ty) || is_poison(&hi.ty) {
                return None;
            }
            if self.numeric(&lo.ty).is_none() {
                let shown = self.show(&lo.ty);
                self.error("type-mismatch", expr.span, format!("a range needs numbers, not {shown}"));
                return None;
            }
            return Some(Collection::Range(lo, hi));
        }
        let list = Type::List(Box::new(ty.clone()));
        let hint = matches!(expr.kind, ast::ExprKind::List(..)).then_some(&list);
        let typed = self.expr(expr, hint);
        let element = match &typed.ty {
            Type::Stack(element, _) | Type::List(element) => (**element).clone(),
            other if is_poison(other) => return None,
            other => {
                let shown = self.show(other);
                self.report(
                    Diagnostic::error("type-mismatch", expr.span, format!("`for … in` over {shown}"))
                        .note("it iterates over ranges `a .. b`, lists, arrays and header stacks"),
                );
                return None;
            }
        };
        if !self.unify(ty, &element) {
            let diagnostic = self.mismatch(expr.span, ty, &element, "each element of the loop");
            self.report(diagnostic);
            return None;
        }
        Some(Collection::Elements(typed))
    }

    fn declaration(&mut self, decl: &ast::Decl) -> Option<StmtKind> {
        match &decl.kind {
            DeclKind::Const(c) => {
                self.constant(c);
                None
            }
            DeclKind::Variable(v) => {
                let (var, init) = self.variable(v);
                Some(StmtKind::Var(var, init))
            }
            DeclKind::Instance(i) => self.instance(decl, i).map(StmtKind::Instance),
            _ => {
                self.report(
                    Diagnostic::error("place", decl.span, "this declaration is not allowed among statements")
                        .note("constants, variables and instances are"),
                );
                None
            }
        }
    }

    fn assign(
        &mut self,
        left: &ast::Expr,
        op: Option<BinaryOp>,
        right: &ast::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        let target = self.lvalue(left, "cannot assign");
        let Some(op) = op else {
            let hint = (!is_poison(&target.ty)).then(|| target.ty.clone());
            let value = self.expr(right, hint.as_ref());
            if hint.is_some() && Self::is_object(&target.ty) {
                let shown = self.show(&target.ty);
                self.error("type-mismatch", span, format!("{shown} cannot be assigned to"));
                return None;
            }
            let value = self.coerce(value, &target.ty.clone(), "the assigned value");
            return Some(StmtKind::Assign(target, value));
        };
        let value = self.expr(right, None);
        if is_poison(&target.ty) || is_poison(&value.ty) {
            return None;
        }
        // Only the operands' types matter here: the operator is applied at run time.
        let combined = self.binary(op, target.clone(), value, span);
        let (ty, right) = match combined.kind {
            ExprKind::Binary(_, _, right) => (combined.ty, *right),
            _ => return None,
        };
        if ty != target.ty {
            let sign = operator(op);
            let (a, b) = (self.show(&ty), self.show(&target.ty));
            self.error("type-mismatch", span, format!("`{sign}=` gives {a}, but the left side is {b}"));
            return None;
        }
        Some(StmtKind::AssignOp(target, op, right))
    }

    fn call_statement(&mut self, expr: &ast::Expr) -> Option<StmtKind> {
        let ast::ExprKind::Call(callee, type_args, args) = &expr.kind else {
            self.error("statement", expr.span, "an expression is not a statement");
            return None;
        };
        let typed = self.call(callee, type_args, args, None, expr.span);
        match typed.kind {
            ExprKind::Call(call) => Some(StmtKind::Call(*call)),
            ExprKind::Construct { .. } => {
                self.report(
                    Diagnostic::error("statement", expr.span, "a constructor call is not a statement")
                        .note("an instance has a name: `T(…) name;`"),
                );
                None
            }
            // A call evaluated at compile time, such as static_assert.
            _ => None,
        }
    }

    fn return_statement(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<StmtKind> {
        if self.place.in_parser() {
            self.report(
                Diagnostic::error("place", span, "`return` in a parser state")
                    .note("a parser ends with `transition accept` or `reject`"),
            );
            return None;
        }
        match (self.return_type.clone(), value) {
            (None | Some(Type::Void), None) => Some(StmtKind::Return(None)),
            (None | Some(Type::Void), Some(value)) => {
                self.expr(value, None);
                self.error("return", value.span, "`return` with a value, where nothing is returned");
                None
            }
            (Some(ty), None) => {
                if !is_poison(&ty) {
                    let shown = self.show(&ty);
                    self.error("return", span, format!("`return` needs a value of type {shown}"));
                }
                None
            }
            (Some(ty), Some(value)) => {
                let value = self.expr_of(value, &ty, "the returned value");
                Some(StmtKind::Return(Some(value)))
            }
        }
    }

    fn switch(&mut self, value: &ast::Expr, cases: &[ast::SwitchCase], span: Span) -> Option<StmtKind> {
        if self.place.in_parser() {
            self.report(
                Diagnostic::error("place", span, "`switch` in a parser")
                    .note("parsers have `transition select`"),
            );
            return None;
        }
        let value = self.expr(value, None);
        if let Some(at) = cases.iter().position(|c| matches!(c.label.kind, ast::ExprKind::Default))
            && at + 1 != cases.len()
        {
            self.error("switch", cases[at].span, "`default` must be the last label of a `switch`");
        }
        if let Some(last) = cases.last().filter(|case| case.body.is_none()) {
            self.report(
                Diagnostic::warning("missing", last.span, "nothing follows the last label of this `switch`")
                    .note("a label without block falls through to the next; `{}` does nothing"),
            );
        }
        match value.ty.clone() {
            Type::ActionEnum(table) => self.switch_action(table, cases),
            ty @ (Type::Bit(_) | Type::Int(_) | Type::Enum(_) | Type::Error) => {
                self.switch_value(value, &ty, cases)
            }
            ty => {
                for case in cases {
                    if let Some(body) = &case.body {
                        self.block(body);
                    }
                }
                if !is_poison(&ty) {
                    let shown = self.show(&ty);
                    self.report(
                        Diagnostic::error("switch", value.span, format!("`switch` on {shown}")).note(
                            "it takes `table.apply().action_run`, `bit<W>`, `int<W>`, enums and `error`",
                        ),
                    );
                }
                None
            }
        }
    }

    fn switch_action(&mut self, table: TableId, cases: &[ast::SwitchCase]) -> Option<StmtKind> {
        let mut done = Vec::new();
        let mut seen: HashMap<u32, Span> = HashMap::new();
        let mut labels = Vec::new();
        let mut has_default = false;
        for (i, case) in cases.iter().enumerate() {
            match &case.label.kind {
                ast::ExprKind::Default => has_default = true,
                _ => {
                    if let Some(action) = self.action_label(table, &case.label) {
                        match seen.get(&action).copied() {
                            Some(first) => {
                                self.report(
                                    Diagnostic::error("switch", case.label.span, "this label occurs twice")
                                        .related(first, "first here"),
                                );
                            }
                            None => {
                                seen.insert(action, case.label.span);
                                labels.push(action);
                            }
                        }
                    }
                }
            }
            let body = match &case.body {
                Some(body) => self.block(body),
                // A label without a body falls through; the last one does nothing.
                None if i + 1 < cases.len() => continue,
                None => Vec::new(),
            };
            done.push(SwitchActionCase { actions: std::mem::take(&mut labels), has_default, body });
            has_default = false;
        }
        Some(StmtKind::SwitchAction { table, cases: done })
    }

    /// A label of a switch on `action_run`: the index of the table's action.
    fn action_label(&mut self, table: TableId, label: &ast::Expr) -> Option<u32> {
        let name = match &label.kind {
            ast::ExprKind::Path(path) => &path.name.text,
            ast::ExprKind::Type(ty) => match &ty.kind {
                ast::TypeKind::Named(path, _) => &path.name.text,
                _ => return None,
            },
            _ => {
                self.error("switch", label.span, "a label of a `switch` on `action_run` is an action's name");
                return None;
            }
        };
        if let Some(i) = self.member_place(Owner::Table(table), name) {
            return Some(i as u32);
        }
        let decl = &self.prog.tables[table.index()];
        let names: Vec<String> =
            decl.actions.iter().map(|a| self.prog.actions[a.action.action.index()].name.clone()).collect();
        let mut diagnostic = Diagnostic::error(
            "switch",
            label.span,
            format!("`{name}` is not an action of table `{}`", decl.name),
        )
        .related(decl.span, format!("table `{}` is declared here", decl.name));
        diagnostic = diagnostic.suggest(name, names.iter().map(String::as_str));
        self.report(diagnostic.choices("its actions", &names));
        None
    }

    fn switch_value(&mut self, value: Expr, ty: &Type, cases: &[ast::SwitchCase]) -> Option<StmtKind> {
        let mut done = Vec::new();
        let mut seen: HashMap<BigInt, Span> = HashMap::new();
        let mut values = Vec::new();
        let mut has_default = false;
        for (i, case) in cases.iter().enumerate() {
            match &case.label.kind {
                ast::ExprKind::Default => has_default = true,
                _ => {
                    let label = self.constant_of(&case.label, ty, "a label of this `switch`");
                    if !is_poison(&label.ty) {
                        let number = consts::number(&label.kind);
                        match number.as_ref().and_then(|number| seen.get(number)).copied() {
                            Some(first) => {
                                self.report(
                                    Diagnostic::error("switch", label.span, "this label occurs twice")
                                        .related(first, "first here"),
                                );
                            }
                            None => {
                                seen.extend(number.map(|number| (number, label.span)));
                                values.push(label);
                            }
                        }
                    }
                }
            }
            let body = match &case.body {
                Some(body) => self.block(body),
                None if i + 1 < cases.len() => continue,
                None => Vec::new(),
            };
            done.push(SwitchCase { values: std::mem::take(&mut values), has_default, body });
            has_default = false;
        }
        Some(StmtKind::Switch { value, cases: done })
    }
}

fn atomic(block: &ast::Block) -> bool {
    block.annotations.iter().any(|a| a.name.text == "atomic")
}

/// True if control never reaches the end of the statements.
pub(crate) fn ends(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| match &stmt.kind {
        StmtKind::Return(_) | StmtKind::Exit => true,
        StmtKind::If(_, then, other) => ends(then) && ends(other),
        StmtKind::Block { stmts, .. } => ends(stmts),
        StmtKind::Switch { cases, .. } => {
            cases.iter().any(|c| c.has_default) && cases.iter().all(|c| ends(&c.body))
        }
        StmtKind::SwitchAction { cases, .. } => {
            cases.iter().any(|c| c.has_default) && cases.iter().all(|c| ends(&c.body))
        }
        _ => false,
    })
}
