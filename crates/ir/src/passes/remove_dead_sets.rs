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

use crate::{BlockId, Cfg, FieldId, Keep, Node, Op, PipelineHalf, Program, Terminator};

/// Maximum number of nodes, times fields: 32 MiB for the live ones, which each round reads. Larger programs keep their dead sets.
const LIVENESS_BITS_MAX: usize = 1 << 28;

/// The pass.
pub fn remove_dead_sets(program: &mut Program) {
    let numbers = Numbers::of(program);
    let graphs = program.actions.iter().map(|a| &a.body).chain(program.blocks.iter().map(|b| &b.body));
    let nodes: usize = graphs.map(|graph| graph.nodes.len()).sum();
    if nodes.saturating_mul(numbers.count) > LIVENESS_BITS_MAX {
        return;
    }
    let liveness = Liveness::of(program, &numbers);
    let of_actions = program.actions.iter().zip(&liveness.actions).map(|(action, live)| (&action.body, live));
    let of_blocks = program.blocks.iter().zip(&liveness.blocks).map(|(block, live)| (&block.body, live));
    let dead: Vec<Vec<Dead>> =
        of_actions.chain(of_blocks).map(|(body, live)| liveness.dead(program, body, live)).collect();
    for (graph, dead) in super::graphs_mut(program).zip(dead) {
        for (node, dead) in graph.nodes.iter_mut().zip(dead) {
            sweep(node, dead);
        }
    }
}

/// What a node does in vain: each statement, and each result of its lookup.
struct Dead {
    stmts: Vec<bool>,
    results: Vec<FieldId>,
}

fn sweep(node: &mut Node, dead: Dead) {
    if let Terminator::Apply { hit, action_run, entry, .. } = &mut node.terminator {
        for result in [hit, action_run, entry] {
            if result.is_some_and(|f| dead.results.contains(&f)) {
                *result = None;
            }
        }
    }
    let mut dead = dead.stmts.into_iter();
    node.stmts.retain(|_| dead.next() == Some(false));
}

/// The number of each field in sets. The action data of different actions has the same numbers, because an action reads only
/// its own: otherwise the sets of a program with many actions would grow with the square of their number.
struct Numbers {
    of: Vec<u32>,
    count: usize,
}

impl Numbers {
    fn of(program: &Program) -> Numbers {
        const NONE: u32 = u32::MAX;
        let mut of = vec![NONE; program.fields.len()];
        let mut data_max = 0;
        for action in &program.actions {
            data_max = data_max.max(action.params.len() as u32);
            (0..).zip(&action.params).for_each(|(number, param)| of[param.index()] = number);
        }
        let mut count = data_max;
        for number in of.iter_mut().filter(|number| **number == NONE) {
            *number = count;
            count += 1;
        }
        Numbers { of, count: count as usize }
    }
}

/// The fields that are live at the ends of a graph and on entry to its nodes.
#[derive(Clone, Default)]
struct Live {
    returned: FieldSet,
    exited: FieldSet,
    rejected: FieldSet,
    /// At the start of ingress, for copies that keep all fields.
    ingress: FieldSet,
    /// At the start of egress, for such copies and for [`Terminator::Egress`].
    egress: FieldSet,
    nodes: Vec<FieldSet>,
}

/// The fields that are live around the action of a table, wherever it is applied.
#[derive(Clone, Default)]
struct Around {
    /// After the lookup, before the action.
    before: FieldSet,
    returned: FieldSet,
    exited: FieldSet,
}

struct Liveness<'a> {
    numbers: &'a Numbers,
    actions: Vec<Live>,
    blocks: Vec<Live>,
    tables: Vec<Around>,
}

impl Liveness<'_> {
    fn of<'a>(program: &Program, numbers: &'a Numbers) -> Liveness<'a> {
        let live =
            |body: &Cfg| Live { nodes: vec![FieldSet::default(); body.nodes.len()], ..Live::default() };
        let mut liveness = Liveness {
            numbers,
            actions: program.actions.iter().map(|a| live(&a.body)).collect(),
            blocks: program.blocks.iter().map(|b| live(&b.body)).collect(),
            tables: vec![Around::default(); program.tables.len()],
        };
        // A block that is never run could run anywhere.
        for (index, live) in liveness.blocks.iter_mut().enumerate() {
            let id = BlockId(index as u32);
            if !program.ingress.contains(&id) && !program.egress.contains(&id) {
                for live in [&mut live.returned, &mut live.rejected, &mut live.ingress, &mut live.egress] {
                    live.fill(numbers.count);
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
        let mut after = FieldSet::default();
        if let Some(port) = program.egress_port {
            self.add(&mut after, port);
        }
        let order: Vec<BlockId> = program.ingress.iter().chain(&program.egress).copied().collect();
        for id in order.iter().rev() {
            let mut rejected = after.clone();
            if let Some(error) = program.blocks[id.index()].error_field {
                self.remove(&mut rejected, error);
            }
            let live = &mut self.blocks[id.index()];
            changed |= live.returned.add_all(&after);
            changed |= live.rejected.add_all(&rejected);
            changed |= self.block(program, *id);
            after = self.blocks[id.index()].nodes[0].clone();
        }
        let before = |list: &[BlockId], blocks: &[Live]| match list.first() {
            Some(block) => blocks[block.index()].nodes[0].clone(),
            None => FieldSet::default(),
        };
        let ingress = before(&program.ingress, &self.blocks);
        let egress = before(&program.egress, &self.blocks);
        for live in &mut self.blocks {
            changed |= live.ingress.add_all(&ingress);
            changed |= live.egress.add_all(&egress);
        }
        for index in 0..program.blocks.len() as u32 {
            if !order.contains(&BlockId(index)) {
                changed |= self.block(program, BlockId(index));
            }
        }
        for (table, around) in program.tables.iter().zip(&self.tables) {
            for action in &table.actions {
                let live = &mut self.actions[action.action.index()];
                changed |= live.returned.add_all(&around.returned);
                changed |= live.exited.add_all(&around.exited);
            }
        }
        for (index, action) in program.actions.iter().enumerate() {
            let mut live = std::mem::take(&mut self.actions[index]);
            changed |= self.graph(program, &action.body, &mut live);
            self.actions[index] = live;
        }
        for (index, table) in program.tables.iter().enumerate() {
            for action in &table.actions {
                let mut before = self.actions[action.action.index()].nodes[0].clone();
                for param in &program.actions[action.action.index()].params {
                    self.remove(&mut before, *param);
                }
                changed |= self.tables[index].before.add_all(&before);
            }
        }
        changed
    }

    fn block(&mut self, program: &Program, id: BlockId) -> bool {
        let body = &program.blocks[id.index()].body;
        let mut live = std::mem::take(&mut self.blocks[id.index()]);
        let mut changed = self.graph(program, body, &mut live);
        // Fields that are live after a table are live after its actions.
        for node in &body.nodes {
            if let Terminator::Apply { table, next, exit, .. } = &node.terminator {
                let around = &mut self.tables[table.index()];
                changed |= around.returned.add_all(&live.nodes[next.index()]);
                changed |= around.exited.add_all(&live.nodes[exit.index()]);
            }
        }
        self.blocks[id.index()] = live;
        changed
    }

    fn graph(&self, program: &Program, body: &Cfg, live: &mut Live) -> bool {
        let mut changed = false;
        for (index, node) in body.nodes.iter().enumerate().rev() {
            let mut at = self.before_terminator(program, node, live);
            for stmt in node.stmts.iter().rev() {
                self.step(program, &stmt.op, &mut at, live);
            }
            changed |= live.nodes[index].add_all(&at);
        }
        changed
    }

    /// Returns the fields that are live after all statements of a node.
    fn before_terminator(&self, program: &Program, node: &Node, ends: &Live) -> FieldSet {
        let mut live = match &node.terminator {
            Terminator::Return => ends.returned.clone(),
            Terminator::Exit => ends.exited.clone(),
            Terminator::Reject(_) => ends.rejected.clone(),
            Terminator::Egress => ends.egress.clone(),
            // Fields that are live after the table are live at the ends of the actions.
            Terminator::Apply { table, .. } => self.tables[table.index()].before.clone(),
            _ => FieldSet::default(),
        };
        match &node.terminator {
            Terminator::Drop(_) => program.drop_place.iter().for_each(|place| self.add(&mut live, *place)),
            Terminator::Apply { .. } => node.terminator.for_each_result(&mut |f| self.remove(&mut live, f)),
            other => other.for_each_target(&mut |n| {
                live.add_all(&ends.nodes[n.index()]);
            }),
        }
        node.terminator.for_each_expr(&mut |e| e.for_each_field(&mut |f| self.add(&mut live, f)));
        live
    }

    /// Updates the live fields from after a statement to before it.
    fn step(&self, program: &Program, op: &Op, live: &mut FieldSet, ends: &Live) {
        op.for_each_replaced(&program.headers, &mut |f| self.remove(live, f));
        if op.may_reject() {
            live.add_all(&ends.rejected);
        }
        op.for_each_read(&program.headers, &mut |f| self.add(live, f));
        if let Op::Copy(copy) = op
            && copy.keep == Keep::All
        {
            live.add_all(match copy.begin {
                PipelineHalf::Ingress => &ends.ingress,
                PipelineHalf::Egress => &ends.egress,
            });
        }
    }

    /// Returns what the nodes of a graph do in vain.
    fn dead(&self, program: &Program, body: &Cfg, live: &Live) -> Vec<Dead> {
        let of = |node: &Node| {
            let mut results = Vec::new();
            if let Terminator::Apply { table, .. } = node.terminator {
                let used = &self.tables[table.index()].before;
                node.terminator.for_each_result(&mut |f| results.extend((!self.has(used, f)).then_some(f)));
            }
            let mut after = self.before_terminator(program, node, live);
            let mut stmts = vec![false; node.stmts.len()];
            for (index, stmt) in node.stmts.iter().enumerate().rev() {
                match &stmt.op {
                    Op::Set { dest, .. } if !self.has(&after, *dest) => stmts[index] = true,
                    Op::SetElement { column, .. } if !column.iter().any(|f| self.has(&after, *f)) => {
                        stmts[index] = true;
                    }
                    op => self.step(program, op, &mut after, live),
                }
            }
            Dead { stmts, results }
        };
        body.nodes.iter().map(of).collect()
    }

    fn has(&self, set: &FieldSet, f: FieldId) -> bool {
        let number = self.numbers.of[f.index()] as usize;
        set.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    fn add(&self, set: &mut FieldSet, f: FieldId) {
        let number = self.numbers.of[f.index()] as usize;
        if set.words.len() <= number / 64 {
            set.words.resize(number / 64 + 1, 0);
        }
        set.words[number / 64] |= 1 << (number % 64);
    }

    fn remove(&self, set: &mut FieldSet, f: FieldId) {
        let number = self.numbers.of[f.index()] as usize;
        if let Some(word) = set.words.get_mut(number / 64) {
            *word &= !(1 << (number % 64));
        }
    }
}

/// A set of numbers of fields. Words behind the last are 0.
#[derive(Clone, Default)]
struct FieldSet {
    words: Vec<u64>,
}

impl FieldSet {
    fn fill(&mut self, count: usize) {
        self.words = vec![u64::MAX; count.div_ceil(64)];
    }

    /// True if any field was new.
    fn add_all(&mut self, other: &FieldSet) -> bool {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        let mut new = false;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            new |= *other & !*word != 0;
            *word |= other;
        }
        new
    }
}
