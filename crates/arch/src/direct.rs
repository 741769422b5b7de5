//! Only the actions of its table may use a direct counter or meter. v1model's direct counters are free of this rule.

use p4jet_analysis::direct::misuses;
use p4jet_lower::{Diagnostic, Lowerer};

/// Refuses violations of this rule. `properties` are those of tables that name such an object.
pub(crate) fn check(cx: &mut Lowerer<'_>, properties: &[&str]) {
    let program = cx.program;
    for misuse in misuses(program, properties, None) {
        let name = &program.instances[misuse.object.index()].name;
        let Some(owner) = misuse.owner.map(|owner| &program.tables[owner.index()]) else { continue };
        let text = format!("`{name}` belongs to table `{}`, but is used {}", owner.name, misuse.place);
        cx.report(
            Diagnostic::error("place", misuse.span, text)
                .related(owner.span, "it belongs to this table")
                .note(format!("only actions that table `{}` runs can use it", owner.name)),
        );
    }
}
