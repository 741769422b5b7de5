//! May-defined slots: those that a statement may have set before a program point. Extraction does not count.

use super::constants::Constants;
use super::deparse::{Deparsers, Mode};
use super::effects::{apply_sets, copy_sets, op_sets};
use super::inherited::inherited_by;
use crate::graph::{Graph, PerPlace, Place};
use crate::slots::SlotSet;
use crate::solver::{self, Budget, Exceeded};
use p4jet_ir::{
    Action, ActionId, Expr, FieldId, FieldKind, Intrinsic, Op, PipelineHalf, Program, Terminator,
};

/// The slots that statements may have set before each place.
pub struct MayDefined(PerPlace<SlotSet>);

impl MayDefined {
    /// The slots that may be set before the statements of a place.
    pub fn before(&self, place: Place) -> &SlotSet {
        &self.0[place]
    }

    /// The slots that may be set before the terminator of a place.
    pub fn at_end(&self, graph: &Graph, place: Place) -> SlotSet {
        let mut set = self.0[place].clone();
        let stmts = graph.node(place).stmts.iter();
        stmts.for_each(|stmt| define(graph.program, &mut set, &stmt.op));
        set
    }

    /// The slots that may be set before the actions of a place's table run.
    pub fn before_actions(&self, graph: &Graph, place: Place) -> SlotSet {
        let mut set = self.at_end(graph, place);
        apply_sets(&graph.node(place).terminator, &mut |f| set.insert_field(f));
        set
    }

    /// The emitted header fields that may differ from the frame where a place leaves the deparser; `None` if all fields that
    /// any statement sets may.
    pub fn changed_at_end(&self, graph: &Graph, deparsers: &Deparsers, place: Place) -> Option<SlotSet> {
        let is_straight = deparsers.mode_at(graph, place) != Some(Mode::Scratch);
        (is_straight && !graph.deparsed_before(place)).then(|| self.at_end(graph, place))
    }
}

/// Adds the slots that a statement may set to those that statements before it may have set.
pub fn define(program: &Program, defined: &mut SlotSet, op: &Op) {
    if !changes_nothing(program, defined, op) {
        op_sets(op, &mut |f| defined.insert_field(f));
    }
}

/// True if a statement changes nothing: it clears a field if the header is invalid, but no statement has set either, so the field of an
/// invalid header is 0 anyway. `setValid` clears fields in this way.
pub fn changes_nothing(program: &Program, defined: &SlotSet, op: &Op) -> bool {
    matches!(op, Op::Set { dest, value } if unmasked(program, defined, value) == Some(*dest))
}

/// The field `f` of `select(valid, f, 0)` if the expression always equals `f`: `valid` is the validity of its header, and no statement
/// has set either.
pub fn unmasked(program: &Program, defined: &SlotSet, expr: &Expr) -> Option<FieldId> {
    let (field, valid) = masked(program, expr)?;
    (!defined.contains_field(field) && !defined.contains_field(valid)).then_some(field)
}

/// The field `f`, and the validity of its header, of `select(valid, f, 0)`.
fn masked(program: &Program, expr: &Expr) -> Option<(FieldId, FieldId)> {
    let Expr::Select(cond, field, otherwise) = expr else { return None };
    let (Expr::Field(valid), Expr::Field(field), Expr::Const { value, .. }) =
        (&**cond, &**field, &**otherwise)
    else {
        return None;
    };
    let FieldKind::Header(header) = program.fields[field.index()].kind else { return None };
    (program.headers[header.index()].valid == *valid && value.bits() == 0).then_some((*field, *valid))
}

/// The slots that may be set where the statements of an action run, if those of `before` may be before the action.
pub fn in_action(graph: &Graph, before: &SlotSet, action: ActionId) -> SlotSet {
    let action = &graph.program.actions[action.index()];
    let mut set = before.clone();
    action.params.iter().for_each(|p| set.insert_field(*p));
    if action.body.nodes.len() > 1 {
        let stmts = action.body.nodes.iter().flat_map(|node| &node.stmts);
        stmts.for_each(|stmt| op_sets(&stmt.op, &mut |f| set.insert_field(f)));
    }
    set
}

/// Finds the may-defined slots: forward, by union.
pub fn may_defined(
    graph: &Graph,
    constants: &Constants,
    budget: &mut Budget,
) -> Result<MayDefined, Exceeded> {
    let mut before = graph.per_place(graph.slots.none());
    for begin in PipelineHalf::ALL {
        if let Some(place) = graph.entry(begin)
            && graph.has_copies(begin)
        {
            for (from, copy) in graph.copies().filter(|(_, copy)| copy.begin == begin) {
                // A copy that keeps its headers has the slots that were set where it was created.
                if !graph.keeps_headers(from, copy) {
                    before[place].union(&inherited_by(graph, copy));
                }
            }
            if begin == PipelineHalf::Egress {
                // Copies have the intrinsics of arrival only if they keep them; those of queues are set for each copy.
                let others = graph.program.intrinsics.iter();
                let others = others.filter(|(i, _)| *i != Intrinsic::EgressTimestamp);
                others.for_each(|(_, f)| before[place].insert_field(*f));
            }
        }
    }
    let actions: Vec<InAction> =
        graph.program.actions.iter().map(|action| InAction::of(graph, action)).collect();
    solver::forward(
        graph,
        &mut before,
        graph.reached(),
        budget,
        |place| set_steps(graph, place),
        |into, from| into.union(from),
        |place, before, edge| {
            let mut set = before.clone();
            let node = graph.node(place);
            for stmt in &node.stmts {
                define(graph.program, &mut set, &stmt.op);
                if let (Op::Copy(copy), Some(begin)) = (&stmt.op, graph.egress_start())
                    && graph.keeps_headers(place, copy)
                {
                    let mut inherited = set.clone();
                    copy_sets(copy, &mut |f| inherited.insert_field(f));
                    edge(begin, &inherited);
                }
            }
            apply_sets(&node.terminator, &mut |f| set.insert_field(f));
            if let Terminator::Apply { table, .. } = &node.terminator {
                let before = set.clone();
                for action in &graph.program.tables[table.index()].actions {
                    actions[action.action.index()].add_to(&mut set, &before);
                }
            }
            // A parser error, or a reject, sets the error field.
            graph.block(place).error_field.iter().for_each(|f| set.insert_field(*f));
            constants.successors(place).iter().for_each(|&next| edge(next, &set));
        },
    )?;
    Ok(MayDefined(before))
}

/// The slots that an action may set.
struct InAction {
    /// Slots that it may set unconditionally.
    always: SlotSet,
    /// Fields that it clears if their headers are invalid, each with the validity of its header.
    masked: Vec<(FieldId, FieldId)>,
}

impl InAction {
    fn of(graph: &Graph, action: &Action) -> InAction {
        let mut always = graph.slots.none();
        let mut masked_fields = Vec::new();
        action.params.iter().for_each(|p| always.insert_field(*p));
        let is_straight = action.body.nodes.len() == 1;
        for stmt in action.body.nodes.iter().flat_map(|node| &node.stmts) {
            match &stmt.op {
                Op::Set { value, .. } if is_straight && changes_nothing(graph.program, &always, &stmt.op) => {
                    masked_fields.extend(masked(graph.program, value));
                }
                op => op_sets(op, &mut |f| always.insert_field(f)),
            }
        }
        InAction { always, masked: masked_fields }
    }

    /// Adds the slots to `set` that the action may set where those of `before` may be set.
    fn add_to(&self, set: &mut SlotSet, before: &SlotSet) {
        set.union(&self.always);
        for &(field, valid) in &self.masked {
            if before.contains_field(field) || before.contains_field(valid) {
                set.insert_field(field);
            }
        }
    }
}

/// The steps of a visit that checks a set of slots for each edge.
pub fn set_steps(graph: &Graph, place: Place) -> usize {
    (1 + graph.edges(place)) * (32 + graph.slots.count() / 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Analyses;
    use crate::analysis::liveness::liveness;
    use crate::analysis::reads::{Simplified, Statement, reads};
    use crate::graph::{ListedAction, Stops};
    use cranelift_codegen::entity::EntityRef;
    use p4jet_ir::NodeId;

    /// `a` may arrive; `b` is added to some packets as `setValid` adds it, by an action and then by a control.
    const ADDED: &str = r#"
program "p"
errors NoError, PacketTooShort
error_packet_too_short 1
field a.$valid$: 1 valid a
field a.x: 8 in a
field b.$valid$: 1 valid b
field b.y: 8 in b
field meta.port: 9 metadata
field meta.error: 32 metadata
header a valid a.$valid$ { a.x }
header b valid b.$valid$ { b.y }
action "add"() {
  n0:
    b.y = select(b.$valid$, b.y, 0x0:8)
    b.$valid$ = 0x1:1
    return
}
table "t" {
  key a.x: 8 exact
  action "add"
  default "add"()
  size 16
}
block "parse" parser error meta.error {
  n0:
    extract a
    return
}
block "change" control {
  n0:
    BEFORE
    if eq(meta.error, 0x1:32) then n2 else n1
  n1:
    apply "t"(select(a.$valid$, a.x, 0x0:8)) next n2 exit n2
  n2:
    b.y = select(b.$valid$, b.y, 0x0:8)
    return
}
block "deparse" deparser {
  n0:
    emit a
    emit b
    return
}
ingress "parse", "change", "deparse"
egress_port meta.port
"#;

    const X: FieldId = FieldId(1);
    const Y: FieldId = FieldId(3);

    fn place(graph: &Graph, block: &str, node: u32) -> Place {
        let is_it = |p: &Place| graph.block(*p).name == block && graph.position(*p).node == NodeId(node);
        graph.places().find(is_it).expect("the place exists")
    }

    /// Checks whether the program sets `b.y`, and whether the key is `a.x` itself, with this statement before.
    fn check(before: &str, action_sets: bool, key_is_plain: bool) {
        let program = p4jet_ir::text::parse(&ADDED.replace("BEFORE", before)).unwrap();
        let graph = Graph::new(&program, Stops::Nowhere, &[]);
        let analyses = Analyses::new(&graph, &[], &mut Budget::unlimited()).unwrap();
        let nodes = reads(analyses.read_inputs());
        let place = |block: &str, node: u32| place(&graph, block, node);
        let has_effect = |stmt: &Statement| !matches!(stmt.op, Simplified::Nothing);
        let (apply, after) = (place("change", 1), place("change", 2));
        let action = &nodes.applies[&apply].actions[ListedAction::new(0)].nodes[0];
        assert_eq!(has_effect(&action.stmts[0]), action_sets, "{before}");
        assert_eq!(analyses.defined.before(after).contains_field(Y), action_sets, "{before}");
        // Behind the action the validity of `b` may be set.
        let after_plan = nodes.of_place[after].as_ref().unwrap();
        assert!(has_effect(&after_plan.stmts[0]), "{before}");
        assert!(analyses.defined.before(place("deparse", 0)).contains_field(Y), "{before}");
        let terminator = &nodes.of_place[apply].as_ref().unwrap().terminator;
        let Some(Terminator::Apply { keys, .. }) = terminator.of(&graph.node(apply).terminator) else {
            panic!("{terminator:?}");
        };
        assert_eq!(keys[0] == Expr::Field(X), key_is_plain, "{before}");
    }

    #[test]
    fn fields_of_invalid_headers_are_cleared_only_if_they_may_be_set() {
        check("meta.port = 0x1:9", false, true);
        check("b.y = 0x1:8", true, true);
        check("b.$valid$ = 0x0:1", true, true);
        check("a.x = 0x1:8", false, false);
        check("a.$valid$ = 0x0:1", false, false);
    }

    #[test]
    fn a_field_is_live_before_a_statement_that_changes_nothing() {
        let set_valid = "a.x = select(a.$valid$, a.x, 0x0:8)\n    a.$valid$ = 0x1:1";
        let program = p4jet_ir::text::parse(&ADDED.replace("BEFORE", set_valid)).unwrap();
        let graph = Graph::new(&program, Stops::Nowhere, &[]);
        let analyses = Analyses::new(&graph, &[], &mut Budget::unlimited()).unwrap();
        let nodes = reads(analyses.read_inputs());
        let live = liveness(analyses.live_inputs(&nodes), &mut Budget::unlimited()).unwrap();
        let before = live.sets().find(|(place, _)| *place == self::place(&graph, "change", 0));
        assert!(before.is_some_and(|(_, live)| live.contains_field(X)));
    }
}
