//! Calls of deprecated functions, and calls whose `out` arguments share storage: the resulting value depends on the
//! order of copying out.

use super::flow::path;
use crate::decls::text_annotation;
use crate::typed::*;
use crate::walk::{Visit, bodies, params, walk};
use p4jet_syntax::ast::Direction;
use p4jet_syntax::diagnostic::Diagnostic;

pub(super) fn warn(program: &Program, found: &mut Vec<Diagnostic>) {
    bodies(program).for_each(|body| walk(program, body, &mut Finder { program, found }));
}

struct Finder<'a, 'f> {
    program: &'a Program,
    found: &'f mut Vec<Diagnostic>,
}

impl Finder<'_, '_> {
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
}

impl<'a> Visit<'a> for Finder<'a, '_> {
    fn call(&mut self, call: &'a Call) {
        let program = self.program;
        if let Callee::Function(id) = &call.callee {
            self.deprecated(&program.functions[id.index()], call);
        }
        let params = params(program, &call.callee);
        let args = || params.iter().zip(&call.args).filter_map(|(param, arg)| Some((param, arg.as_ref()?)));
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

/// True if two places share storage, as far as their text shows.
fn overlap(a: &Expr, b: &Expr) -> bool {
    let (a, b) = (steps(a), steps(b));
    match (a, b) {
        (Some((x, a)), Some((y, b))) => {
            x == y && a.iter().zip(&b).all(|(a, b)| a == b || a.is_none() || b.is_none())
        }
        _ => false,
    }
}

/// Returns the variable, and the path from it inwards; `None` for an unknown index.
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
