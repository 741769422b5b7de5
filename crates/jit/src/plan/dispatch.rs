//! The choice of the action after a lookup: the row to run, and the actions to compare first.

use super::shapes::Shapes;
use crate::choice::Choice;
use crate::graph::{Graph, ListedAction, Place};
use cranelift_codegen::entity::EntityRef;
use p4jet_ir::{Table, TableAction, Terminator};
use p4jet_tables::Structure;
use std::collections::HashMap;

/// Actions of a table up to which a chain of comparisons is used instead of a jump table.
const COMPARED_ACTIONS_MAX: usize = 8;

/// The choice of the action at a place that applies a table.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The row to run.
    pub row: Row,
    /// The actions to compare one after another.
    pub compared: Vec<ListedAction>,
    /// The choice among the other actions.
    pub rest: Rest,
}

/// The row whose action runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// The default row: the table has no key.
    Default,
    /// The row of a member, to which the found row leads. `is_narrow`: a 32-bit division selects the member.
    Member { is_narrow: bool },
    /// The found row. The actions have no data, so row 0 holds any default action.
    Found,
    /// The found row, or the default row if row 0 has no room for the default action; resolved before the first comparison.
    Resolved,
    /// Like [`Row::Resolved`], but resolved only after the first comparison has failed.
    ResolvedLate,
}

/// The choice among the actions that are not compared.
#[derive(Clone, Debug)]
pub enum Rest {
    /// One action is left, and runs.
    Run(ListedAction),
    /// A jump table of these actions, in this form. A row of another action leads to where no action runs or, if an action always runs, to the
    /// last of these.
    JumpTable(Vec<ListedAction>, Choice),
}

/// Plans the choice of the action for each place that applies a table. If `is_counted`, code counts the actions that run.
pub fn dispatches(graph: &Graph, shapes: &Shapes, is_counted: bool) -> HashMap<Place, Dispatch> {
    let dispatch = |place| match &graph.node(place).terminator {
        Terminator::Apply { table, action_run, .. } => {
            let is_keyless = shapes.structure(*table) == Structure::Keyless;
            // Before the first comparison, counters and `action_run` need the action.
            let may_be_late = !is_counted && action_run.is_none();
            let table = &graph.program.tables[table.index()];
            Some((place, dispatch(graph, place, table, is_keyless, may_be_late)))
        }
        _ => None,
    };
    graph.reached().filter_map(dispatch).collect()
}

fn dispatch(graph: &Graph, place: Place, table: &Table, is_keyless: bool, may_be_late: bool) -> Dispatch {
    let mut order: Vec<ListedAction> = (0..table.actions.len()).map(ListedAction::new).collect();
    let hot_action = graph.hot_action(place);
    let hot = table.actions.iter().position(|action| hot_action == Some(action.action));
    if let Some(hot) = hot {
        order[..=hot].rotate_right(1);
    }
    // A group without members runs no action.
    let always_runs = table.profile.is_none();
    let compared = match order.len() {
        count @ 1..=COMPARED_ACTIONS_MAX if always_runs => count - 1,
        _ => usize::from(hot.is_some()),
    };
    let others = order.split_off(compared);
    let has_data = |action: &TableAction| !graph.program.actions[action.action.index()].params.is_empty();
    let is_narrow = match &graph.node(place).terminator {
        Terminator::Apply { selector: Some(selector), .. } => selector.width(graph.program) <= 32,
        _ => true,
    };
    let row = match () {
        () if table.profile.is_some() => Row::Member { is_narrow },
        () if is_keyless => Row::Default,
        () if !table.actions.iter().any(has_data) => Row::Found,
        () if compared > 0 && may_be_late => Row::ResolvedLate,
        () => Row::Resolved,
    };
    let rest = match others[..] {
        [last] if always_runs => Rest::Run(last),
        _ => {
            let choice = Choice::of_entries(others.len());
            Rest::JumpTable(others, choice)
        }
    };
    Dispatch { row, compared: order, rest }
}
