//! Direct counters and meters belong to one table, and only its actions may use them, because elsewhere there is no matching
//! entry. Other tables may run the same actions. v1model's direct counters are free of this rule.

use p4jet_analysis::typed::*;
use p4jet_analysis::walk::{Body, Visit, bodies, walk};
use p4jet_lower::{Diagnostic, Lowerer, Span};
use std::collections::{HashMap, HashSet};

/// Refuses violations of this rule. `properties` are those of tables that name such an object.
pub(crate) fn check(cx: &mut Lowerer<'_>, properties: &[&str]) {
    for diagnostic in find(cx.program, properties) {
        cx.report(diagnostic);
    }
}

fn find(program: &Program, properties: &[&str]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut owners: HashMap<InstanceId, TableId> = HashMap::new();
    for (i, table) in (0..).zip(&program.tables) {
        for (name, value) in &table.properties {
            let ExprKind::Instance(object) = value.kind else { continue };
            if !properties.contains(&name.as_str()) {
                continue;
            }
            // Lowering of the table reports that it cannot belong to a second one.
            owners.entry(object).or_insert(TableId(i));
        }
    }
    if owners.is_empty() {
        return found;
    }
    // One step for each table and each action that it may run: what each action does itself, and which actions it calls.
    let actions: Vec<Uses> = (0..program.actions.len() as u32)
        .map(|i| Uses::of(program, Body::Action(ActionId(i)), &owners))
        .collect();
    let mut seen = HashSet::new();
    let mut refuse = |(span, object): (Span, InstanceId), place: String| {
        if !seen.insert(span) {
            return;
        }
        let name = &program.instances[object.index()].name;
        let owner = &program.tables[owners[&object].index()];
        let text = format!("`{name}` belongs to table `{}`, but is used {place}", owner.name);
        found.push(
            Diagnostic::error("place", span, text)
                .related(owner.span, format!("table `{}` has it", owner.name))
                .note(format!("only actions that table `{}` runs can use it", owner.name)),
        );
    };
    let reached: Vec<HashSet<ActionId>> =
        program.tables.iter().map(|table| run_by(table, &actions)).collect();
    for (table, of_table) in program.tables.iter().zip(&reached) {
        for action in of_table {
            // Actions that the owner also runs may be shared: in other tables the call has no effect, as in p4c.
            let foreign = actions[action.index()].direct.iter();
            let foreign = foreign.filter(|(_, object)| !reached[owners[object].index()].contains(action));
            foreign.for_each(|used| refuse(*used, format!("in an action of table `{}`", table.name)));
        }
    }
    let elsewhere = bodies(program).filter(|body| !matches!(body, Body::Action(_)));
    let mut reached = HashSet::new();
    for body in elsewhere {
        let uses = Uses::of(program, body, &owners);
        let mut open = uses.calls;
        uses.direct.into_iter().for_each(|used| refuse(used, "outside of its actions".into()));
        while let Some(action) = open.pop() {
            if reached.insert(action) {
                let uses = &actions[action.index()];
                let place = "in an action that runs without the table";
                uses.direct.iter().for_each(|used| refuse(*used, place.into()));
                open.extend(&uses.calls);
            }
        }
    }
    found.sort_by_key(|d| d.span);
    found
}

/// Returns the actions that a table runs, and those that these call.
fn run_by(table: &Table, actions: &[Uses]) -> HashSet<ActionId> {
    let mut open: Vec<ActionId> = table.actions.iter().map(|listed| listed.action.action).collect();
    let mut reached: HashSet<ActionId> = open.iter().copied().collect();
    while let Some(action) = open.pop() {
        open.extend(actions[action.index()].calls.iter().filter(|called| reached.insert(**called)));
    }
    reached
}

/// The places where a body uses objects that belong to tables, and the actions that it calls.
struct Uses<'a> {
    owners: &'a HashMap<InstanceId, TableId>,
    direct: Vec<(Span, InstanceId)>,
    calls: Vec<ActionId>,
}

impl<'a> Uses<'a> {
    fn of(program: &Program, body: Body, owners: &'a HashMap<InstanceId, TableId>) -> Self {
        let mut uses = Uses { owners, direct: Vec::new(), calls: Vec::new() };
        walk(program, body, &mut uses);
        uses
    }
}

impl Visit<'_> for Uses<'_> {
    fn call(&mut self, call: &Call) {
        match &call.callee {
            Callee::Action(action) => self.calls.push(*action),
            Callee::Method { object, .. } => {
                if let ExprKind::Instance(object) = object.kind
                    && self.owners.contains_key(&object)
                {
                    self.direct.push((call.span, object));
                }
            }
            _ => {}
        }
    }
}
