//! Places where no stage may end, because packets would reach a register or meter in another order than they arrived: places inside
//! atomic parts, and places that only a part of the packets with access to an instance pass, or pass between two accesses. If an
//! instance is written, all its accesses belong to one stage, and all packets that reach them come there by the same stages.

use crate::analysis::liveness::At;
use crate::graph::{Graph, PerPlace, Place};
use crate::slots::{Slot, SlotSet};
use crate::solver::{self, Budget};
use cranelift_codegen::entity::EntityRef;
use p4jet_ir::{Access, InstanceId, Node, Terminator};
use std::collections::HashMap;

/// Places times instances, beyond which no stage ends anywhere instead of only where packets stay in order.
const ACCESS_BITS_MAX: usize = 1 << 27;

/// Where no stage may end.
#[derive(Clone, Debug)]
pub struct Uncut {
    /// Before the statements of a place.
    before: PerPlace<bool>,
    /// Between the statements of a place and the actions that run there.
    within: PerPlace<bool>,
}

impl Uncut {
    /// True if no stage may end at this part of a place.
    pub fn is_uncut(&self, place: Place, at: At) -> bool {
        match at {
            At::Place => self.before[place],
            At::Lookup | At::Action => self.within[place],
        }
    }
}

/// Finds where no stage may end.
pub fn uncut(graph: &Graph) -> Uncut {
    let mut uncut = Uncut { before: graph.per_place(false), within: in_atomic_parts(graph) };
    let instances = Instances::of(graph);
    if !instances.0.is_empty() && keep_order(graph, &instances, &mut uncut).is_none() {
        uncut = Uncut { before: graph.per_place(true), within: graph.per_place(true) };
    }
    uncut
}

fn in_atomic_parts(graph: &Graph) -> PerPlace<bool> {
    let nesting = |step| {
        let body = &graph.block_of(step).body;
        body.nesting().unwrap_or_else(|| vec![1; body.nodes.len()])
    };
    let nesting: Vec<Vec<i32>> = graph.steps().map(nesting).collect();
    let is_inside = |place| {
        let position = graph.position(place);
        nesting[position.step.index()][position.node.index()] > 0
    };
    graph.places().map(is_inside).collect()
}

/// The registers and meters that the program writes.
struct Instances(HashMap<InstanceId, Slot>);

impl Instances {
    fn of(graph: &Graph) -> Instances {
        let mut numbers = HashMap::new();
        let bodies = graph.bodies();
        for stmt in bodies.iter().flat_map(|body| &body.nodes).flat_map(|node| &node.stmts) {
            if let Some((instance, Access::Write)) = stmt.op.access() {
                let next = Slot::new(numbers.len());
                numbers.entry(instance).or_insert(next);
            }
        }
        Instances(numbers)
    }

    /// The instances that these nodes access.
    fn accesses(&self, nodes: &[Node]) -> SlotSet {
        let mut set = SlotSet::new(self.0.len());
        let accesses = nodes.iter().flat_map(|node| &node.stmts).filter_map(|stmt| stmt.op.access());
        accesses.filter_map(|(instance, _)| self.0.get(&instance)).for_each(|number| set.insert(*number));
        set
    }
}

/// The instances accessed at a place: by its statements, and by the actions that run there.
#[derive(Clone)]
struct Accesses {
    stmts: SlotSet,
    actions: SlotSet,
}

/// Adds the places that would change the order of accesses; `None` if finding them takes too long.
fn keep_order(graph: &Graph, instances: &Instances, uncut: &mut Uncut) -> Option<()> {
    let bits = instances.0.len();
    if bits.saturating_mul(graph.count()) > ACCESS_BITS_MAX {
        return None;
    }
    let program = graph.program;
    let actions: Vec<SlotSet> = program.actions.iter().map(|a| instances.accesses(&a.body.nodes)).collect();
    let mut own = graph.per_place(Accesses { stmts: SlotSet::new(bits), actions: SlotSet::new(bits) });
    for place in graph.reached() {
        let node = graph.node(place);
        own[place].stmts = instances.accesses(std::slice::from_ref(node));
        if let Terminator::Apply { table, .. } = node.terminator {
            for action in &program.tables[table.index()].actions {
                own[place].actions.union(&actions[action.action.index()]);
            }
        }
    }
    let after = accesses_after(graph, &own, bits)?;
    for instance in instances.0.values() {
        keep_order_of(graph, *instance, &own, &after, uncut);
    }
    Some(())
}

/// The instances accessed after the statements of each place.
fn accesses_after(graph: &Graph, own: &PerPlace<Accesses>, bits: usize) -> Option<PerPlace<SlotSet>> {
    let mut predecessors = graph.per_place(Vec::new());
    for place in graph.reached() {
        graph.successors(place).iter().for_each(|&next| predecessors[next].push(place));
    }
    let mut after: PerPlace<SlotSet> = own.values().map(|own| own.actions.clone()).collect();
    solver::backward(
        graph,
        &mut after,
        &predecessors,
        &mut Budget::new(8 * ACCESS_BITS_MAX),
        |_| bits,
        |into, from| into.union(from),
        |place, after| {
            let mut all = after[place].clone();
            for &next in graph.successors(place) {
                all.union(&after[next]);
                all.union(&own[next].stmts);
            }
            all
        },
    )
    .ok()?;
    Some(after)
}

/// Adds the places where a stage must not end because of one instance: those from which packets reach an access, unless all packets
/// that reach an access come through them first. In reverse post-order, they do if no edge that leads to an access passes over the
/// place and no place before it has an access.
fn keep_order_of(
    graph: &Graph,
    instance: Slot,
    own: &PerPlace<Accesses>,
    after: &PerPlace<SlotSet>,
    uncut: &mut Uncut,
) {
    // The last place, in this order, to which an edge from an earlier place leads.
    let mut farthest = 0;
    let order = |place: Place| graph.order(place).unwrap_or(usize::MAX);
    for place in graph.reached() {
        let in_stmts = own[place].stmts.contains(instance);
        let is_after = after[place].contains(instance);
        let is_passed_over = farthest > order(place);
        uncut.before[place] |= (in_stmts || is_after) && is_passed_over;
        uncut.within[place] |= is_after && (in_stmts || is_passed_over);
        if in_stmts || own[place].actions.contains(instance) {
            farthest = usize::MAX;
        } else if is_after {
            let leads = |next: &Place| own[*next].stmts.contains(instance) || after[*next].contains(instance);
            let next = graph.successors(place).iter().filter(|next| leads(next)).map(|&next| order(next));
            farthest = next.fold(farthest, usize::max);
        }
    }
}
