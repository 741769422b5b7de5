//! Calls of deprecated functions, and calls with written arguments that share storage: which value stays then depends on
//! the order of copying out.

use super::flow::path;
use crate::decls::text_annotation;
use crate::typed::*;
use p4jet_syntax::ast::Direction;
use p4jet_syntax::diagnostic::Diagnostic;

pub(super) fn warn(program: &Program, found: &mut Vec<Diagnostic>) {
    let mut finder = Finder { program, found };
    for parser in program.parsers.iter().filter_map(|p| p.body.as_ref()) {
        finder.locals(&parser.locals);
        parser.states.iter().for_each(|state| finder.stmts(&state.stmts));
    }
    for control in program.controls.iter().filter_map(|c| c.body.as_ref()) {
        finder.locals(&control.locals);
        finder.stmts(&control.apply);
    }
    program.actions.iter().for_each(|action| finder.stmts(&action.body));
    program.functions.iter().filter_map(|f| f.body.as_ref()).for_each(|body| finder.stmts(body));
}

struct Finder<'a> {
    program: &'a Program,
    found: &'a mut Vec<Diagnostic>,
}

impl<'a> Finder<'a> {
    fn locals(&mut self, locals: &[Local]) {
        for local in locals {
            if let Local::Var(_, Some(value)) = local {
                self.expr(value);
            }
        }
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Call(call) => self.call(call),
            StmtKind::Var(_, Some(value))
            | StmtKind::Assign(_, value)
            | StmtKind::AssignOp(_, _, value)
            | StmtKind::Return(Some(value)) => self.expr(value),
            StmtKind::If(cond, then, other) => {
                self.expr(cond);
                self.stmts(then);
                self.stmts(other);
            }
            StmtKind::Block { stmts, .. } => self.stmts(stmts),
            StmtKind::SwitchAction { cases, .. } => cases.iter().for_each(|case| self.stmts(&case.body)),
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
            StmtKind::ForIn { body, .. } => self.stmts(body),
            StmtKind::Var(_, None)
            | StmtKind::Return(None)
            | StmtKind::Instance(_)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Exit => {}
        }
    }

    /// Calls inside an expression: as a whole, or below operators.
    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Call(call) => self.call(call),
            ExprKind::Unary(_, a) | ExprKind::Cast(a) | ExprKind::Field(a, _) | ExprKind::Slice(a, ..) => {
                self.expr(a);
            }
            ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Conditional(a, b, c) => [a, b, c].into_iter().for_each(|e| self.expr(e)),
            ExprKind::Aggregate(items) => items.iter().for_each(|item| self.expr(item)),
            _ => {}
        }
    }

    fn deprecated(&mut self, function: &Function, call: &Call) {
        if !function.annotations.iter().any(|a| a.name.text == "deprecated") {
            return;
        }
        let text = format!("function `{}` is deprecated", function.name);
        let mut diagnostic = Diagnostic::warning("deprecated", call.span, text);
        if let Some(Ok(why)) = text_annotation(&function.annotations, "deprecated") {
            diagnostic = diagnostic.note(why);
        }
        self.found.push(diagnostic);
    }

    fn block_params(&self, ty: &Type) -> &'a [Param] {
        match ty {
            Type::Parser(id, _) => &self.program.parsers[id.index()].params,
            Type::Control(id, _) => &self.program.controls[id.index()].params,
            _ => &[],
        }
    }

    fn call(&mut self, call: &Call) {
        let program = self.program;
        if let Callee::Function(id) = &call.callee {
            self.deprecated(&program.functions[id.index()], call);
        }
        let params: &[Param] = match &call.callee {
            Callee::Function(id) => &program.functions[id.index()].params,
            Callee::Action(id) => &program.actions[id.index()].params,
            Callee::Method { ext, method, .. } => {
                &program.externs[ext.index()].methods[*method as usize].params
            }
            Callee::Apply(object) => self.block_params(&object.ty),
            Callee::DirectApply(ty) => self.block_params(ty),
            _ => return,
        };
        let args = || params.iter().zip(&call.args).filter_map(|(param, arg)| Some((param, arg.as_ref()?)));
        args().for_each(|(_, arg)| self.expr(arg));
        let written: Vec<&Expr> = args()
            .filter(|(param, _)| matches!(param.dir, Direction::Out | Direction::InOut))
            .map(|(_, arg)| arg)
            .collect();
        for (i, arg) in written.iter().enumerate() {
            if let Some(other) = written[..i].iter().find(|other| overlap(other, arg)) {
                let text = format!(
                    "this call writes both `{}` and `{}`, which share storage",
                    path(program, other),
                    path(program, arg)
                );
                self.found.push(
                    Diagnostic::warning("ordering", arg.span, text)
                        .related(other.span, "written first")
                        .note("arguments are copied out from left to right: the last one stays"),
                );
            }
        }
    }
}

/// Whether two places have storage in common, as far as their text tells.
fn overlap(a: &Expr, b: &Expr) -> bool {
    let (a, b) = (steps(a), steps(b));
    match (a, b) {
        (Some((x, a)), Some((y, b))) => {
            x == y && a.iter().zip(&b).all(|(a, b)| a == b || a.is_none() || b.is_none())
        }
        _ => false,
    }
}

/// The variable, and the way from it inwards; `None` for an index that is not known.
fn steps(expr: &Expr) -> Option<(VarId, Vec<Option<u64>>)> {
    let (base, step) = match &expr.kind {
        ExprKind::Var(var) => return Some((*var, Vec::new())),
        ExprKind::Field(base, field) => (base, Some(u64::from(*field))),
        ExprKind::Index(base, index) => match &index.kind {
            ExprKind::Int(i) => (base, u64::try_from(i).ok()),
            _ => (base, None),
        },
        ExprKind::StackNext(base) | ExprKind::StackLast(base) => (base, None),
        _ => return None,
    };
    let (var, mut way) = steps(base)?;
    way.push(step);
    Some((var, way))
}
