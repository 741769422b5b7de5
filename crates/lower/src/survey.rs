//! Facts about the whole program that lowering needs before it starts: applied blocks, places of declarations, and whether
//! evaluating an expression has effects.

use std::collections::{HashMap, HashSet};

use p4jet_analysis::typed::*;
use p4jet_analysis::walk::{Body, Visit, bodies, walk};

/// Returns the number of call sites that apply each instance.
pub(crate) fn apply_sites(program: &Program) -> HashMap<InstanceId, u32> {
    let mut sites = Sites(HashMap::new());
    let applying = |body: &Body| matches!(body, Body::Parser(_) | Body::Control(_));
    bodies(program).filter(applying).for_each(|body| walk(program, body, &mut sites));
    sites.0
}

struct Sites(HashMap<InstanceId, u32>);

impl<'a> Visit<'a> for Sites {
    fn call(&mut self, call: &'a Call) {
        if let Callee::Apply(object) = &call.callee
            && let ExprKind::Instance(id) = object.kind
        {
            *self.0.entry(id).or_default() += 1;
        }
    }
}

/// Returns the actions declared in a control, which may see its variables.
pub(crate) fn local_actions(program: &Program) -> HashSet<ActionId> {
    let locals = program.controls.iter().filter_map(|c| c.body.as_ref()).flat_map(|b| &b.locals);
    locals
        .filter_map(|l| match l {
            Local::Action(id) => Some(*id),
            _ => None,
        })
        .collect()
}

/// True if evaluating the expression has effects: calls, and parser operations that may reject.
pub(crate) fn has_effects(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Call(call) => match &call.callee {
            Callee::IsValid(object) => has_effects(object),
            _ => true,
        },
        ExprKind::ApplyHit { .. } | ExprKind::StackNext(_) | ExprKind::StackLast(_) => true,
        _ => e.operands().any(has_effects),
    }
}
