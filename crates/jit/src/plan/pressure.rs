//! Which slots lie in the PHV all the time, because registers for all would take the register allocator too long.

use crate::analysis::Analyses;
use crate::analysis::liveness::Liveness;
use crate::graph::{Graph, Place};
use crate::slots::{Slot, SlotSet, memberships};
use crate::widths::limb_count;
use cranelift_codegen::entity::EntityRef;
use p4jet_ir::Op;

/// A program whose nodes weigh more than this together is compiled quickly, where each value lies in memory between two blocks
/// anyway. The gateway's nodes weigh 3,000.
const QUICK_WEIGHT: usize = 6_000;

/// In such a program the time of the register allocator grows with the code between the definition and the uses of a value: the limit of
/// the lives of values, times the weight of all nodes.
const QUICK_LIVES_MAX: usize = 40_000_000;

/// Most words of fields in registers that are passed from node to node, counted on each edge.
const PASSED_LIMBS_MAX: usize = 200_000;

/// Words of fields in registers, times the weight of all nodes: Cranelift's frontend has a cell for each word and block.
const VARIABLES_MAX: usize = 4 << 20;

/// The amount of code that a node becomes.
fn weight(graph: &Graph, place: Place) -> usize {
    if !graph.is_reached(place) {
        return 0;
    }
    let node = graph.node(place);
    let stmts = node.stmts.iter().map(|stmt| match &stmt.op {
        Op::Emit { header } | Op::Extract { header, .. } => {
            1 + graph.program.headers[header.index()].fields.len()
        }
        Op::ExtractElement { headers, .. } => headers.len(),
        _ => 1,
    });
    let mut targets = 0;
    node.terminator.for_each_target(&mut |_| targets += 1);
    1 + targets + stmts.sum::<usize>()
}

/// Most limbs live in one node that are kept in registers. The register allocator compares what is passed to a block with
/// all that is passed to it from elsewhere, and there are 16 registers.
const LIVE_AT_ONCE_MAX: usize = 512;

/// The slots to keep in memory in addition to those in arrays: those with the longest lives first, so that at most
/// `live_limbs_max` remain, and [`LIVE_AT_ONCE_MAX`] in each node.
pub fn too_many(
    analyses: &Analyses,
    live: &Liveness,
    live_limbs_max: usize,
    in_columns: &SlotSet,
) -> SlotSet {
    let graph = analyses.graph;
    let slots = graph.slots.count();
    let limbs: Vec<usize> = graph.slots.all().map(|slot| limb_count(graph.slot_width(slot))).collect();
    let limbs = |slot: Slot| limbs[slot.index()];
    let mut lives: Vec<usize> = memberships(live.sets().map(|(_, live)| live), slots)
        .into_iter()
        .zip(graph.slots.all())
        .map(|(count, slot)| count as usize * limbs(slot))
        .collect();
    in_columns.iter().for_each(|slot| lives[slot.index()] = 0);
    let mut total: usize = lives.iter().sum();
    let mut by_life: Vec<Slot> = graph.slots.all().collect();
    by_life.sort_by_key(|&slot| std::cmp::Reverse(lives[slot.index()]));
    let mut chosen = graph.slots.none();
    for &slot in &by_life {
        if total <= live_limbs_max {
            break;
        }
        total -= lives[slot.index()];
        chosen.insert(slot);
    }
    let mut elsewhere = chosen.clone();
    elsewhere.union(in_columns);
    // Live slots are passed on each edge, and there are many edges where many nodes lead to many others.
    let mut edges_in = graph.per_place(0);
    for place in graph.reached() {
        analyses.constants.successors(place).iter().for_each(|&to| edges_in[to] += 1);
    }
    let mut passed = vec![0usize; slots];
    for (place, live) in live.sets() {
        let edges = edges_in[place];
        live.iter_without(&elsewhere).for_each(|slot| passed[slot.index()] += edges * limbs(slot));
    }
    let mut total: usize = passed.iter().sum();
    by_life.sort_by_key(|&slot| std::cmp::Reverse(passed[slot.index()]));
    for &slot in &by_life {
        if total <= PASSED_LIMBS_MAX {
            break;
        }
        total -= passed[slot.index()];
        chosen.insert(slot);
        elsewhere.insert(slot);
    }
    // In a large program many other nodes lie between the few in which a slot is live.
    let all: usize = graph.reached().map(|place| weight(graph, place)).sum();
    if all > QUICK_WEIGHT {
        let mut weighted = vec![0usize; slots];
        for (place, live) in live.sets() {
            let weight = weight(graph, place);
            live.iter_without(&elsewhere).for_each(|slot| weighted[slot.index()] += weight * limbs(slot));
        }
        let mut total: usize = weighted.iter().sum();
        by_life.sort_by_key(|&slot| std::cmp::Reverse(weighted[slot.index()]));
        for &slot in &by_life {
            if total <= QUICK_LIVES_MAX / all {
                break;
            }
            total -= weighted[slot.index()];
            chosen.insert(slot);
            elsewhere.insert(slot);
        }
        // Slots with short lives cost the fewest stores and loads.
        by_life.retain(|&slot| analyses.is_used(slot) && !elsewhere.contains(slot));
        let mut in_registers: usize = by_life.iter().map(|slot| limbs(*slot)).sum();
        for &slot in by_life.iter().rev() {
            if in_registers.saturating_mul(all) <= VARIABLES_MAX {
                break;
            }
            in_registers -= limbs(slot);
            chosen.insert(slot);
            elsewhere.insert(slot);
        }
    }
    for (_, live) in live.sets() {
        let mut count: usize = live.iter_without(&elsewhere).map(limbs).sum();
        if count <= LIVE_AT_ONCE_MAX {
            continue;
        }
        let mut kept: Vec<Slot> = live.iter_without(&elsewhere).collect();
        kept.sort_by_key(|&slot| std::cmp::Reverse(lives[slot.index()]));
        for slot in kept {
            if count <= LIVE_AT_ONCE_MAX {
                break;
            }
            count -= limbs(slot);
            chosen.insert(slot);
            elsewhere.insert(slot);
        }
    }
    chosen
}
