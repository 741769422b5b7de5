//! Places where no stage may end, because the next packet would reach a register or meter too early: places inside atomic parts, and
//! places with accesses of one instance before and after, one of them a write.

use crate::graph::{Graph, PerPlace, Place};
use crate::slots::{Slot, SlotSet};
use crate::solver::{self, Budget};
use cranelift_codegen::entity::EntityRef;
use p4jet_ir::{Access, InstanceId, Node, Terminator};
use std::collections::HashMap;

/// Places times accesses of instances, beyond which no stage ends anywhere instead of only where packets stay in order.
const ACCESS_BITS_MAX: usize = 1 << 27;

/// Finds for each place whether no stage may end there.
pub fn uncut(graph: &Graph) -> PerPlace<bool> {
    let mut uncut = in_atomic_parts(graph);
    let Some(instances) = Instances::of(graph) else { return uncut };
    let Some(conflicts) = conflicts(graph, &instances) else { return graph.per_place(true) };
    conflicts.into_iter().for_each(|place| uncut[place] = true);
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

/// The registers and meters of a program. A set of accesses has two bits for each: that it is accessed, and that it is written.
struct Instances(HashMap<InstanceId, usize>);

impl Instances {
    fn of(graph: &Graph) -> Option<Instances> {
        let mut numbers: HashMap<InstanceId, usize> = HashMap::new();
        let bodies = graph.bodies();
        for stmt in bodies.iter().flat_map(|body| &body.nodes).flat_map(|node| &node.stmts) {
            if let Some((instance, _)) = stmt.op.access() {
                let next = 2 * numbers.len();
                numbers.entry(instance).or_insert(next);
            }
        }
        (!numbers.is_empty()).then_some(Instances(numbers))
    }

    fn bits(&self) -> usize {
        2 * self.0.len()
    }

    /// The accesses of these nodes.
    fn accesses(&self, nodes: &[Node]) -> SlotSet {
        let mut set = SlotSet::new(self.bits());
        for stmt in nodes.iter().flat_map(|node| &node.stmts) {
            if let Some((instance, access)) = stmt.op.access() {
                set.insert(Slot::new(self.0[&instance]));
                if access == Access::Write {
                    set.insert(Slot::new(self.0[&instance] + 1));
                }
            }
        }
        set
    }
}

/// The accesses at a place: by its statements, and by the actions that run there.
#[derive(Clone)]
struct Accesses {
    stmts: SlotSet,
    actions: SlotSet,
}

/// Reached places with accesses of one instance before and after, one of them a write; `None` if finding them takes too long.
fn conflicts(graph: &Graph, instances: &Instances) -> Option<Vec<Place>> {
    let bits = instances.bits();
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
    let mut budget = Budget::new(8 * ACCESS_BITS_MAX);
    // Up to the end of a place's statements, and from there on.
    let mut before: PerPlace<SlotSet> = own.values().map(|own| own.stmts.clone()).collect();
    solver::forward(
        graph,
        &mut before,
        graph.reached(),
        &mut budget,
        |_| bits,
        |into, from| into.union(from),
        |place, before, edge| {
            let mut behind = before.clone();
            behind.union(&own[place].actions);
            graph.successors(place).iter().for_each(|&next| edge(next, &behind));
        },
    )
    .ok()?;
    let mut predecessors = graph.per_place(Vec::new());
    for place in graph.reached() {
        graph.successors(place).iter().for_each(|&next| predecessors[next].push(place));
    }
    let mut after: PerPlace<SlotSet> = own.values().map(|own| own.actions.clone()).collect();
    solver::backward(
        graph,
        &mut after,
        &predecessors,
        &mut budget,
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
    let is_conflict = |place: &Place| {
        let (before, after) = (&before[*place], &after[*place]);
        let is_written = |bit: Slot| {
            let written = Slot::new(bit.index() + 1);
            bit.index().is_multiple_of(2) && (before.contains(written) || after.contains(written))
        };
        before.iter().any(|bit| after.contains(bit) && is_written(bit))
    };
    Some(graph.reached().filter(is_conflict).collect())
}
