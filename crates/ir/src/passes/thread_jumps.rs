//! Redirects jumps to their final targets, joins nodes that always follow each other, and removes unreachable nodes.
//!
//! Before
//! ```text
//! n0:
//!   if meta.x then n1 else n2
//! n1:
//!   goto n3
//! n2:
//!   meta.y = 0x1:8
//!   goto n4
//! n3:
//!   return
//! n4:
//!   meta.z = 0x2:8
//!   goto n3
//! ```
//! After
//! ```text
//! n0:
//!   if meta.x then n2 else n1
//! n1:
//!   meta.y = 0x1:8
//!   meta.z = 0x2:8
//!   return
//! n2:
//!   return
//! ```
//!
//! On exit every node but the first is reachable, no node ends with a jump to a node of which it is the only
//! predecessor, and no jump leads to a node that only jumps on. A table none of whose actions exits continues at one
//! node.

use crate::{Cfg, NodeId, Program, Terminator};

/// The pass.
pub fn thread_jumps(program: &mut Program) {
    let exiting: Vec<bool> = {
        let exits = |body: &Cfg| body.nodes.iter().any(|n| matches!(n.terminator, Terminator::Exit));
        let action_exits: Vec<bool> = program.actions.iter().map(|a| exits(&a.body)).collect();
        program.tables.iter().map(|t| t.actions.iter().any(|a| action_exits[a.action.index()])).collect()
    };
    for cfg in super::graphs_mut(program) {
        for node in &mut cfg.nodes {
            if let Terminator::Apply { table, next, exit, .. } = &mut node.terminator
                && !exiting[table.index()]
            {
                *exit = *next;
            }
        }
        follow_empty(cfg);
        join(cfg);
        remove_unreachable(cfg);
    }
}

/// Redirects edges that lead to empty nodes.
fn follow_empty(cfg: &mut Cfg) {
    let destination = ends_of_jumps(cfg);
    for node in &mut cfg.nodes {
        node.terminator.for_each_target_mut(&mut |target| *target = destination[target.index()]);
    }
    for index in 0..cfg.nodes.len() {
        let Terminator::Goto(target) = cfg.nodes[index].terminator else { continue };
        let target = &cfg.nodes[target.index()];
        let ends = matches!(
            target.terminator,
            Terminator::Return
                | Terminator::Exit
                | Terminator::Drop(_)
                | Terminator::Done
                | Terminator::Egress
        );
        if target.stmts.is_empty() && ends {
            (cfg.nodes[index].terminator, cfg.nodes[index].terminator_loc) =
                (target.terminator.clone(), target.terminator_loc);
        }
    }
}

/// Returns, for each node, the first node from there on that is not just a jump.
fn ends_of_jumps(cfg: &Cfg) -> Vec<NodeId> {
    let mut ends: Vec<Option<NodeId>> = vec![None; cfg.nodes.len()];
    let mut is_on_way = vec![false; cfg.nodes.len()];
    for start in 0..cfg.nodes.len() as u32 {
        let mut at = NodeId(start);
        let mut way = Vec::new();
        let end = loop {
            if let Some(end) = ends[at.index()] {
                break end;
            }
            let Terminator::Goto(next) = cfg.nodes[at.index()].terminator else { break at };
            // A cycle of jumps remains a cycle.
            if !cfg.nodes[at.index()].stmts.is_empty() || is_on_way[at.index()] {
                break at;
            }
            is_on_way[at.index()] = true;
            way.push(at);
            at = next;
        };
        // Each node is on one way, so all ways together are as long as the graph.
        ends[at.index()] = Some(end);
        way.into_iter().for_each(|node| ends[node.index()] = Some(end));
    }
    ends.into_iter().enumerate().map(|(index, end)| end.unwrap_or(NodeId(index as u32))).collect()
}

/// Appends each node to its only predecessor, if that has no other successor.
fn join(cfg: &mut Cfg) {
    let reachable = reachable(cfg);
    let mut leading = vec![0u32; cfg.nodes.len()];
    // The entry counts as a predecessor.
    leading[0] = 1;
    let reached: Vec<usize> = (0..cfg.nodes.len()).filter(|index| reachable[*index]).collect();
    for index in &reached {
        cfg.nodes[*index].terminator.for_each_target(&mut |n| leading[n.index()] += 1);
    }
    for index in reached {
        while let Terminator::Goto(next) = cfg.nodes[index].terminator
            && leading[next.index()] == 1
            && next.index() != index
        {
            let after = &mut cfg.nodes[next.index()];
            let stmts = std::mem::take(&mut after.stmts);
            // The emptied node, now unreachable, jumps to itself, so that it is no one's predecessor.
            let terminator = std::mem::replace(&mut after.terminator, Terminator::Goto(next));
            let terminator_loc = after.terminator_loc;
            let label = std::mem::take(&mut after.label);
            let node = &mut cfg.nodes[index];
            node.stmts.extend(stmts);
            node.terminator = terminator;
            node.terminator_loc = terminator_loc;
            if node.label.is_empty() {
                node.label = label;
            }
        }
    }
}

fn reachable(cfg: &Cfg) -> Vec<bool> {
    let mut reachable = vec![false; cfg.nodes.len()];
    let mut open = vec![NodeId(0)];
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut reachable[node.index()], true) {
            cfg.nodes[node.index()].terminator.for_each_target(&mut |n| open.push(n));
        }
    }
    reachable
}

/// Removes unreachable nodes and renumbers the others in their old order.
fn remove_unreachable(cfg: &mut Cfg) {
    let reachable = reachable(cfg);
    let mut new_id = Vec::with_capacity(reachable.len());
    let mut kept = 0;
    for reachable in &reachable {
        new_id.push(NodeId(kept));
        kept += u32::from(*reachable);
    }
    let mut keep = reachable.into_iter();
    cfg.nodes.retain(|_| keep.next() == Some(true));
    for node in &mut cfg.nodes {
        node.terminator.for_each_target_mut(&mut |n| *n = new_id[n.index()]);
    }
}
