//! Facts about the whole program that lowering asks for before it starts: who applies what, what is declared where,
//! and whether evaluating an expression does anything.

use std::collections::{HashMap, HashSet};

use p4jet_analysis::typed::*;

/// How many call sites apply each instance.
pub(crate) fn apply_sites(program: &Program) -> HashMap<InstanceId, u32> {
    let mut sites = HashMap::new();
    let mut visit = |call: &Call| {
        if let Callee::Apply(object) = &call.callee
            && let ExprKind::Instance(id) = object.kind
        {
            *sites.entry(id).or_insert(0) += 1;
        }
    };
    for control in &program.controls {
        if let Some(body) = &control.body {
            stmts(&body.apply, &mut visit);
        }
    }
    for parser in &program.parsers {
        for state in parser.body.iter().flat_map(|b| &b.states) {
            stmts(&state.stmts, &mut visit);
        }
    }
    sites
}

/// Actions that are declared in a control, and so may see its variables.
pub(crate) fn local_actions(program: &Program) -> HashSet<ActionId> {
    let locals = program.controls.iter().filter_map(|c| c.body.as_ref()).flat_map(|b| &b.locals);
    locals
        .filter_map(|l| match l {
            Local::Action(id) => Some(*id),
            _ => None,
        })
        .collect()
}

/// Whether evaluating the expression does more than give a value: calls, and parser operations that may reject.
pub(crate) fn has_effects(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Call(call) => match &call.callee {
            Callee::IsValid(object) => has_effects(object),
            _ => true,
        },
        ExprKind::ApplyHit { .. } | ExprKind::StackNext(_) | ExprKind::StackLast(_) => true,
        ExprKind::Field(a, _)
        | ExprKind::StackLastIndex(a)
        | ExprKind::Slice(a, ..)
        | ExprKind::Unary(_, a)
        | ExprKind::Cast(a) => has_effects(a),
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => has_effects(a) || has_effects(b),
        ExprKind::SliceAt { value, lo, .. } => has_effects(value) || has_effects(lo),
        ExprKind::Conditional(a, b, c) => has_effects(a) || has_effects(b) || has_effects(c),
        ExprKind::Aggregate(parts) => parts.iter().any(has_effects),
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::String(_)
        | ExprKind::EnumMember(_)
        | ExprKind::Error(_)
        | ExprKind::Var(_)
        | ExprKind::Instance(_)
        | ExprKind::Construct { .. }
        | ExprKind::Invalid => false,
    }
}

/// Visits every call in statement position and in expressions of statements.
pub(crate) fn stmts(list: &[Stmt], visit: &mut impl FnMut(&Call)) {
    for stmt in list {
        match &stmt.kind {
            StmtKind::Call(c) => call(c, visit),
            StmtKind::Var(_, init) => init.iter().for_each(|e| expr(e, visit)),
            StmtKind::Assign(l, r) | StmtKind::AssignOp(l, _, r) => {
                expr(l, visit);
                expr(r, visit);
            }
            StmtKind::If(c, a, b) => {
                expr(c, visit);
                stmts(a, visit);
                stmts(b, visit);
            }
            StmtKind::Block { stmts: inner, .. } => stmts(inner, visit),
            StmtKind::Return(e) => e.iter().for_each(|e| expr(e, visit)),
            StmtKind::SwitchAction { cases, .. } => cases.iter().for_each(|c| stmts(&c.body, visit)),
            StmtKind::Switch { value, cases } => {
                expr(value, visit);
                cases.iter().for_each(|c| stmts(&c.body, visit));
            }
            StmtKind::For { init, cond, update, body } => {
                stmts(init, visit);
                expr(cond, visit);
                stmts(update, visit);
                stmts(body, visit);
            }
            StmtKind::ForIn { body, .. } => stmts(body, visit),
            StmtKind::Instance(_) | StmtKind::Break | StmtKind::Continue | StmtKind::Exit => {}
        }
    }
}

fn call(c: &Call, visit: &mut impl FnMut(&Call)) {
    visit(c);
    c.args.iter().flatten().for_each(|e| expr(e, visit));
}

fn expr(e: &Expr, visit: &mut impl FnMut(&Call)) {
    match &e.kind {
        ExprKind::Call(c) => call(c, visit),
        ExprKind::Field(a, _)
        | ExprKind::StackLastIndex(a)
        | ExprKind::StackNext(a)
        | ExprKind::StackLast(a)
        | ExprKind::Slice(a, ..)
        | ExprKind::Unary(_, a)
        | ExprKind::Cast(a) => expr(a, visit),
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
            expr(a, visit);
            expr(b, visit);
        }
        ExprKind::SliceAt { value, lo, .. } => {
            expr(value, visit);
            expr(lo, visit);
        }
        ExprKind::Conditional(a, b, c) => [a, b, c].into_iter().for_each(|e| expr(e, visit)),
        ExprKind::Aggregate(parts) => parts.iter().for_each(|e| expr(e, visit)),
        _ => {}
    }
}
