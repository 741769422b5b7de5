//! Removes `Set`s of fields that are not live.
//!
//! Before
//! ```text
//! meta.x = 0x1:8
//! meta.x = 0x2:8
//! standard_metadata.egress_spec = zext(meta.x, 9)
//! meta.x = 0x3:8
//! ```
//! After
//! ```text
//! meta.x = 0x2:8
//! standard_metadata.egress_spec = zext(meta.x, 9)
//! ```
//!
//! A field is live if some path of the packet from there on reads it before it is written. The analysis covers the whole
//! pipeline: blocks follow each other, and a table may run any of its actions. At the end of the pipeline the egress port
//! is read; where a packet is dropped, nothing is. An emit reads all fields of a header. Unused results of `Apply` are
//! removed too. Extern calls, extracts and lookaheads remain, because they have other effects.

use crate::{Begin, BlockId, Cfg, FieldId, Keep, Node, Op, Program, TableId, Terminator};

/// The pass.
pub fn remove_dead_sets(program: &mut Program) {
    let liveness = Liveness::of(program);
    let headers = std::mem::take(&mut program.headers);
    for (index, action) in program.actions.iter_mut().enumerate() {
        let ends = &liveness.action_ends[index];
        for (node, live) in action.body.nodes.iter_mut().zip(&liveness.action_nodes[index]) {
            sweep(node, live, ends, &headers);
        }
    }
    for (index, block) in program.blocks.iter_mut().enumerate() {
        let ends = &liveness.block_ends[index];
        for (node, live) in block.body.nodes.iter_mut().zip(&liveness.block_nodes[index]) {
            sweep(node, live, ends, &headers);
        }
    }
    program.headers = headers;
}

/// Removes dead sets of one node.
fn sweep(node: &mut Node, live: &NodeLive, ends: &Ends, headers: &[crate::Header]) {
    if let Terminator::Apply { hit, action_run, entry, .. } = &mut node.terminator {
        for result in [hit, action_run, entry] {
            if result.is_some_and(|f| !live.results.has(f)) {
                *result = None;
            }
        }
    }
    let mut after = live.before_terminator.clone();
    let mut dead = vec![false; node.stmts.len()];
    for (index, stmt) in node.stmts.iter().enumerate().rev() {
        match &stmt.op {
            Op::Set { dest, .. } if !after.has(*dest) => dead[index] = true,
            Op::SetElement { column, .. } if !column.iter().any(|f| after.has(*f)) => dead[index] = true,
            op => step(op, &mut after, ends, headers),
        }
    }
    let mut dead = dead.into_iter();
    node.stmts.retain(|_| dead.next() == Some(false));
}

/// Updates the live fields from after a statement to before it.
fn step(op: &Op, live: &mut FieldSet, ends: &Ends, headers: &[crate::Header]) {
    op.for_each_replaced(headers, &mut |f| live.remove(f));
    if op.may_reject() {
        live.add_all(&ends.rejected);
    }
    op.for_each_read(headers, &mut |f| live.add(f));
    if let Op::Copy(copy) = op
        && copy.keep == Keep::All
    {
        live.add_all(match copy.begin {
            Begin::Ingress => &ends.ingress,
            Begin::Egress => &ends.egress,
        });
    }
}

/// The fields that are live where control leaves a graph.
#[derive(Clone, PartialEq)]
struct Ends {
    returned: FieldSet,
    exited: FieldSet,
    rejected: FieldSet,
    /// At the start of ingress, for copies that keep all fields.
    ingress: FieldSet,
    /// At the start of egress, for such copies and for [`Terminator::Egress`].
    egress: FieldSet,
}

struct NodeLive {
    /// On entry.
    entry: FieldSet,
    /// After all statements, before the terminator.
    before_terminator: FieldSet,
    /// For `Apply`: after the lookup, before the action.
    results: FieldSet,
}

struct Liveness {
    action_nodes: Vec<Vec<NodeLive>>,
    action_ends: Vec<Ends>,
    block_nodes: Vec<Vec<NodeLive>>,
    block_ends: Vec<Ends>,
}

impl Liveness {
    fn of(program: &Program) -> Liveness {
        let empty = FieldSet::new(program.fields.len());
        let ends = Ends {
            returned: empty.clone(),
            exited: empty.clone(),
            rejected: empty.clone(),
            ingress: empty.clone(),
            egress: empty.clone(),
        };
        let nodes = |body: &Cfg| -> Vec<NodeLive> {
            let node = || NodeLive {
                entry: empty.clone(),
                before_terminator: empty.clone(),
                results: empty.clone(),
            };
            body.nodes.iter().map(|_| node()).collect()
        };
        let mut liveness = Liveness {
            action_nodes: program.actions.iter().map(|a| nodes(&a.body)).collect(),
            action_ends: vec![ends.clone(); program.actions.len()],
            block_nodes: program.blocks.iter().map(|b| nodes(&b.body)).collect(),
            block_ends: vec![ends; program.blocks.len()],
        };
        // A block that is never run could run anywhere.
        for (index, ends) in liveness.block_ends.iter_mut().enumerate() {
            let id = BlockId(index as u32);
            if !program.ingress.contains(&id) && !program.egress.contains(&id) {
                for live in [&mut ends.returned, &mut ends.rejected, &mut ends.ingress, &mut ends.egress] {
                    live.fill();
                }
            }
        }
        // The sets only grow, so this terminates.
        while liveness.round(program) {}
        liveness
    }

    /// Walks everything backwards once. True if anything changed.
    fn round(&mut self, program: &Program) -> bool {
        let mut changed = false;
        let mut after = FieldSet::new(program.fields.len());
        if let Some(port) = program.egress_port {
            after.add(port);
        }
        let order: Vec<BlockId> = program.ingress.iter().chain(&program.egress).copied().collect();
        for id in order.iter().rev() {
            let block = &program.blocks[id.index()];
            let ends = &mut self.block_ends[id.index()];
            changed |= ends.returned.add_all(&after);
            let mut rejected = after.clone();
            if let Some(error) = block.error_field {
                rejected.remove(error);
            }
            changed |= ends.rejected.add_all(&rejected);
            changed |= self.block(program, *id);
            after = self.block_nodes[id.index()][0].entry.clone();
        }
        let before = |list: &[BlockId], nodes: &[Vec<NodeLive>]| match list.first() {
            Some(block) => nodes[block.index()][0].entry.clone(),
            None => FieldSet::new(program.fields.len()),
        };
        let ingress = before(&program.ingress, &self.block_nodes);
        let egress = before(&program.egress, &self.block_nodes);
        for ends in &mut self.block_ends {
            changed |= ends.ingress.add_all(&ingress);
            changed |= ends.egress.add_all(&egress);
        }
        for index in 0..program.blocks.len() as u32 {
            if !order.contains(&BlockId(index)) {
                changed |= self.block(program, BlockId(index));
            }
        }
        for (index, action) in program.actions.iter().enumerate() {
            let mut nodes = std::mem::take(&mut self.action_nodes[index]);
            changed |= self.graph(program, &action.body, &mut nodes, &self.action_ends[index]);
            self.action_nodes[index] = nodes;
        }
        changed
    }

    fn block(&mut self, program: &Program, id: BlockId) -> bool {
        let body = &program.blocks[id.index()].body;
        let mut nodes = std::mem::take(&mut self.block_nodes[id.index()]);
        let mut changed = self.graph(program, body, &mut nodes, &self.block_ends[id.index()]);
        // Fields that are live after a table are live after its actions.
        for node in &body.nodes {
            if let Terminator::Apply { table, next, exit, .. } = &node.terminator {
                for action in &program.tables[table.index()].actions {
                    let ends = &mut self.action_ends[action.action.index()];
                    changed |= ends.returned.add_all(&nodes[next.index()].entry);
                    changed |= ends.exited.add_all(&nodes[exit.index()].entry);
                }
            }
        }
        self.block_nodes[id.index()] = nodes;
        changed
    }

    fn graph(&self, program: &Program, body: &Cfg, nodes: &mut [NodeLive], ends: &Ends) -> bool {
        let mut changed = false;
        for (index, node) in body.nodes.iter().enumerate().rev() {
            let mut live = FieldSet::new(program.fields.len());
            match &node.terminator {
                Terminator::Return => live.add_all(&ends.returned),
                Terminator::Exit => live.add_all(&ends.exited),
                Terminator::Reject(_) => live.add_all(&ends.rejected),
                Terminator::Egress => live.add_all(&ends.egress),
                Terminator::Drop(_) => {
                    program.drop_place.iter().for_each(|place| live.add(*place));
                    false
                }
                _ => false,
            };
            node.terminator.for_each_target(&mut |n| {
                live.add_all(&nodes[n.index()].entry);
            });
            if let Terminator::Apply { table, .. } = &node.terminator {
                live = self.before_actions(program, *table);
                changed |= nodes[index].results.add_all(&live);
                node.terminator.for_each_result(&mut |f| live.remove(f));
            }
            node.terminator.for_each_expr(&mut |e| e.for_each_field(&mut |f| live.add(f)));
            changed |= nodes[index].before_terminator.add_all(&live);
            for stmt in node.stmts.iter().rev() {
                step(&stmt.op, &mut live, ends, &program.headers);
            }
            changed |= nodes[index].entry.add_all(&live);
        }
        changed
    }

    /// Returns the fields that are live between a table's lookup and its action. Fields that are live after the table are
    /// live at the ends of the actions.
    fn before_actions(&self, program: &Program, table: TableId) -> FieldSet {
        let mut live = FieldSet::new(program.fields.len());
        for action in &program.tables[table.index()].actions {
            let mut before = self.action_nodes[action.action.index()][0].entry.clone();
            for param in &program.actions[action.action.index()].params {
                before.remove(*param);
            }
            live.add_all(&before);
        }
        live
    }
}

#[derive(Clone, PartialEq)]
struct FieldSet {
    words: Vec<u64>,
}

impl FieldSet {
    fn new(fields: usize) -> FieldSet {
        FieldSet { words: vec![0; fields.div_ceil(64)] }
    }

    fn has(&self, f: FieldId) -> bool {
        self.words[f.index() / 64] >> (f.index() % 64) & 1 == 1
    }

    fn add(&mut self, f: FieldId) {
        self.words[f.index() / 64] |= 1 << (f.index() % 64);
    }

    fn remove(&mut self, f: FieldId) {
        self.words[f.index() / 64] &= !(1 << (f.index() % 64));
    }

    fn fill(&mut self) {
        self.words.fill(u64::MAX);
    }

    /// True if any field was new.
    fn add_all(&mut self, other: &FieldSet) -> bool {
        let mut new = false;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            new |= *other & !*word != 0;
            *word |= other;
        }
        new
    }
}
