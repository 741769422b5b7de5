//! Direct counters and meters belong to one table, and only its actions may call them: elsewhere there is no matching entry.
//! Other tables may run the same actions.

use crate::typed::*;
use crate::walk::{Body, Visit, bodies, walk};
use p4jet_syntax::span::Span;
use std::collections::{HashMap, HashSet};

/// A call of a direct counter or meter where it has no entry.
pub struct Misuse {
    /// The call.
    pub span: Span,
    /// The counter or meter.
    pub object: InstanceId,
    /// The table that it belongs to.
    pub owner: Option<TableId>,
    /// Where the call is: "in an action of table `t`".
    pub place: String,
}

/// Finds such calls. `properties` are those of tables that name such an object; objects of the extern type `orphans` are
/// included even if they belong to no table.
pub fn misuses(program: &Program, properties: &[&str], orphans: Option<&str>) -> Vec<Misuse> {
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
    let is_orphan = |instance: &Instance| {
        let Type::Extern(id, _) = &instance.ty else { return false };
        orphans == Some(program.externs[id.index()].name.as_str())
    };
    let ids = (0..).map(InstanceId).zip(&program.instances);
    let mut direct: HashSet<InstanceId> = ids.filter(|(_, i)| is_orphan(i)).map(|(id, _)| id).collect();
    direct.extend(owners.keys());
    let mut found = Vec::new();
    if direct.is_empty() {
        return found;
    }
    // One step for each table and each action that it may run: what each action does itself, and which actions it calls.
    let actions: Vec<Uses> = (0..program.actions.len() as u32)
        .map(|i| Uses::of(program, Body::Action(ActionId(i)), &direct))
        .collect();
    let mut seen = HashSet::new();
    let mut report = |(span, object): (Span, InstanceId), place: String| {
        if seen.insert(span) {
            found.push(Misuse { span, object, owner: owners.get(&object).copied(), place });
        }
    };
    let reached: Vec<HashSet<ActionId>> =
        program.tables.iter().map(|table| run_by(table, &actions)).collect();
    for (table, of_table) in program.tables.iter().zip(&reached) {
        for action in of_table {
            // Actions that the owner also runs may be shared: in other tables the call has no effect, as in p4c.
            let is_own = |object| owners.get(object).is_some_and(|t| reached[t.index()].contains(action));
            let foreign = actions[action.index()].direct.iter().filter(|(_, object)| !is_own(object));
            foreign.for_each(|used| report(*used, format!("in an action of table `{}`", table.name)));
        }
    }
    let elsewhere = bodies(program).filter(|body| !matches!(body, Body::Action(_)));
    let mut reached = HashSet::new();
    for body in elsewhere {
        let uses = Uses::of(program, body, &direct);
        let mut open = uses.calls;
        uses.direct.into_iter().for_each(|used| report(used, "outside of its actions".into()));
        while let Some(action) = open.pop() {
            if reached.insert(action) {
                let uses = &actions[action.index()];
                let place = "in an action that runs without the table";
                uses.direct.iter().for_each(|used| report(*used, place.into()));
                open.extend(&uses.calls);
            }
        }
    }
    found.sort_by_key(|misuse| misuse.span);
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

/// The places where a body calls direct counters and meters, and the actions that it calls.
struct Uses<'a> {
    objects: &'a HashSet<InstanceId>,
    direct: Vec<(Span, InstanceId)>,
    calls: Vec<ActionId>,
}

impl<'a> Uses<'a> {
    fn of(program: &Program, body: Body, objects: &'a HashSet<InstanceId>) -> Self {
        let mut uses = Uses { objects, direct: Vec::new(), calls: Vec::new() };
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
                    && self.objects.contains(&object)
                {
                    self.direct.push((call.span, object));
                }
            }
            _ => {}
        }
    }
}
