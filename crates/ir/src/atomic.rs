//! Parts of a program that are atomic with respect to other packets, and the locks that make them atomic where several
//! workers share registers.
//!
//! P4_16, "Concurrency model": a block with `@atomic`, and the body of an action, run as if no other packet ran
//! meanwhile. Like bmv2, p4jet also treats consecutive statements of a control as atomic. Lowering puts
//! [`Function::AtomicBegin`] and [`Function::AtomicEnd`] around `@atomic` blocks and around actions that a control calls itself, if they touch registers. One worker
//! needs no more, as long as it lets no other packet run between them. For several workers, [`add_locks`] adds
//! [`Function::RegisterLock`] and [`Function::RegisterUnlock`] around code that touches a register twice, one lock for each register, taken in a fixed order.

use crate::*;
use std::collections::{BTreeMap, BTreeSet};

impl Op {
    /// Returns the register that the statement reads or writes.
    pub fn register(&self) -> Option<InstanceId> {
        match self {
            Op::Extern { function: Function::RegisterRead | Function::RegisterWrite, instance, .. } => {
                *instance
            }
            _ => None,
        }
    }

    /// Returns the change in the number of enclosing atomic parts.
    fn nesting(&self) -> i32 {
        match self {
            Op::Extern { function: Function::AtomicBegin, .. } => 1,
            Op::Extern { function: Function::AtomicEnd, .. } => -1,
            _ => 0,
        }
    }

    /// True if the packet may leave the graph here.
    fn may_leave(&self) -> bool {
        self.may_reject() || matches!(self, Op::Emit { .. })
    }
}

impl Cfg {
    /// True if the program reads or writes a register.
    pub fn touches_registers(&self) -> bool {
        self.nodes.iter().flat_map(|node| &node.stmts).any(|stmt| stmt.op.register().is_some())
    }

    /// Returns the number of atomic parts around the end of each node; `None` if that depends on the path to the node,
    /// or if a part ends that has not started. 0 for unreachable nodes.
    pub fn nesting(&self) -> Option<Vec<i32>> {
        let mut before: Vec<Option<i32>> = vec![None; self.nodes.len()];
        let mut after = vec![0; self.nodes.len()];
        let mut work = vec![(NodeId(0), 0)];
        while let Some((at, nesting)) = work.pop() {
            match before[at.index()].replace(nesting) {
                Some(known) if known != nesting => return None,
                Some(_) => continue,
                None => {}
            }
            let mut nesting = nesting;
            for stmt in &self.nodes[at.index()].stmts {
                nesting += stmt.op.nesting();
                if nesting < 0 {
                    return None;
                }
            }
            after[at.index()] = nesting;
            self.nodes[at.index()].terminator.for_each_target(&mut |next| work.push((next, nesting)));
        }
        Some(after)
    }
}

impl Program {
    /// The registers that packets both read and write. A write from outside must not come between the two: an atomic part of the
    /// program would overwrite it.
    pub fn updated_registers(&self) -> BTreeSet<InstanceId> {
        let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
        let nodes = self.cfgs().flat_map(|graph| &self.cfg(graph).nodes);
        for stmt in nodes.flat_map(|node| &node.stmts) {
            match &stmt.op {
                Op::Extern { function: Function::RegisterRead, instance, .. } => read.extend(*instance),
                Op::Extern { function: Function::RegisterWrite, instance, .. } => written.extend(*instance),
                _ => {}
            }
        }
        &read & &written
    }
}

/// A program point: before a statement of a node, or before its terminator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    graph: CfgId,
    node: NodeId,
    /// The number of the statement that follows.
    stmt: usize,
}

/// Something atomic: a marked part, the body of an action, or statements of one node.
#[derive(Default)]
struct Part {
    registers: BTreeSet<InstanceId>,
    /// Number of reads and writes; only the difference between one and more matters.
    accesses: usize,
    /// The places where it starts, and those where it ends.
    begins: Vec<Place>,
    ends: Vec<Place>,
}

/// Makes every atomic part lock the registers that it touches, in the order of their numbers, so that no two packets
/// wait for each other. Consecutive statements of a control that touch registers, without a branch between them, are
/// atomic too: bmv2's compiler turns them into an action. A register that no part touches twice needs no lock.
///
/// Packets may leave parsers and deparsers at statements inside them; there, only statements between these are atomic.
pub fn add_locks(program: &mut Program) {
    let mut parts = Vec::new();
    for action in (0..program.actions.len() as u32).map(ActionId) {
        parts.extend(action_part(program, action));
    }
    for block in (0..program.blocks.len() as u32).map(BlockId) {
        block_parts(program, block, &mut parts);
    }
    let locked: BTreeSet<InstanceId> = parts
        .iter()
        .filter(|part| part.accesses > 1)
        .flat_map(|part| part.registers.iter().copied())
        .collect();
    // The calls to insert at each place. Where one part ends and another starts, the end comes first.
    let mut inserted: BTreeMap<Place, Vec<Op>> = BTreeMap::new();
    for part in parts {
        let registers: Vec<InstanceId> = part.registers.intersection(&locked).copied().collect();
        for place in part.begins {
            let locks = registers.iter().map(|register| call(Function::RegisterLock, Some(*register)));
            inserted.entry(place).or_default().extend(locks);
        }
        for place in part.ends {
            let unlocks =
                registers.iter().rev().map(|register| call(Function::RegisterUnlock, Some(*register)));
            inserted.entry(place).or_default().extend(unlocks);
        }
    }
    // In reverse order, so that places stay valid.
    for (Place { graph, node, stmt }, calls) in inserted.into_iter().rev() {
        let node = &mut program.cfg_mut(graph).nodes[node.index()];
        let loc = node.stmts.get(stmt).map_or(node.terminator_loc, |stmt| stmt.loc);
        node.stmts.splice(stmt..stmt, calls.into_iter().map(|op| Stmt { op, loc }));
    }
}

/// A call without arguments.
pub fn call(function: Function, instance: Option<InstanceId>) -> Op {
    Op::Extern { function, instance, args: Vec::new(), outs: Vec::new(), text: Vec::new() }
}

/// The whole body of an action, if it touches registers.
fn action_part(program: &mut Program, action: ActionId) -> Option<Part> {
    let body = &mut program.actions[action.index()].body;
    if !body.touches_registers() {
        return None;
    }
    if body.is_on_cycle(NodeId(0)) {
        // Gives the entry a separate node.
        let again = NodeId(body.nodes.len() as u32);
        for node in &mut body.nodes {
            node.terminator.for_each_target_mut(&mut |to| {
                if *to == NodeId(0) {
                    *to = again;
                }
            });
        }
        let terminator_loc = body.nodes[0].terminator_loc;
        let first = Node {
            label: String::new(),
            stmts: Vec::new(),
            terminator: Terminator::Goto(again),
            terminator_loc,
        };
        let old = std::mem::replace(&mut body.nodes[0], first);
        body.nodes.push(old);
    }
    let place = |node, stmt| Place { graph: CfgId::Action(action), node: NodeId(node), stmt };
    let mut part = Part { begins: vec![place(0, 0)], ..Part::default() };
    for (number, (node, cycle)) in (0..).zip(body.nodes.iter().zip(body.on_cycles())) {
        for register in node.stmts.iter().filter_map(|stmt| stmt.op.register()) {
            part.registers.insert(register);
            part.accesses += 1 + usize::from(cycle);
        }
        if node.terminator.leaves() {
            part.ends.push(place(number, node.stmts.len()));
        }
    }
    Some(part)
}

/// The marked parts of a control, and elsewhere the consecutive statements.
fn block_parts(program: &Program, block: BlockId, parts: &mut Vec<Part>) {
    let graph = CfgId::Block(block);
    let block = &program.blocks[block.index()];
    let body = &block.body;
    let marked = block.kind == BlockKind::Control;
    // The marked part that surrounds the start of a node, and the number of parts nested in it.
    let mut before: Vec<Option<Option<(usize, i32)>>> = vec![None; body.nodes.len()];
    let on_cycles = body.on_cycles();
    let mut same = Vec::new();
    let mut work = vec![(NodeId(0), None)];
    while let Some((at, part)) = work.pop() {
        if let Some(known) = before[at.index()] {
            // After jump threading, two paths may lead into a part: it is one part.
            if let (Some((a, _)), Some((b, _))) = (known, part) {
                same.push((a, b));
            }
            continue;
        }
        before[at.index()] = Some(part);
        let (mut part, node) = (part, &body.nodes[at.index()]);
        let cycle = usize::from(on_cycles[at.index()]);
        // Consecutive statements outside of any part: the first one, and the end.
        let mut together: Option<Part> = None;
        for (number, stmt) in node.stmts.iter().enumerate() {
            let place = Place { graph, node: at, stmt: number };
            let behind = Place { stmt: number + 1, ..place };
            let nesting = if marked { stmt.op.nesting() } else { 0 };
            if nesting != 0 || stmt.op.may_leave() {
                parts.extend(together.take());
            }
            part = match (part, nesting) {
                (None, 1) => {
                    parts.push(Part { begins: vec![behind], ..Part::default() });
                    Some((parts.len() - 1, 0))
                }
                (Some((open, 0)), -1) => {
                    parts[open].ends.push(place);
                    None
                }
                (Some((open, inside)), _) => Some((open, inside + nesting)),
                (None, _) => None,
            };
            let Some(register) = stmt.op.register() else { continue };
            let of = match part {
                Some((open, _)) => &mut parts[open],
                None => together.get_or_insert_with(|| Part { begins: vec![place], ..Part::default() }),
            };
            of.registers.insert(register);
            of.accesses += 1;
            match part {
                Some(_) => of.accesses += cycle,
                None => of.ends = vec![behind],
            }
        }
        parts.extend(together);
        if let Some((open, _)) = part {
            if let Terminator::Apply { table, .. } = &node.terminator {
                for action in &program.tables[table.index()].actions {
                    let stmts =
                        program.actions[action.action.index()].body.nodes.iter().flat_map(|n| &n.stmts);
                    for register in stmts.filter_map(|stmt| stmt.op.register()) {
                        parts[open].registers.insert(register);
                        // The action is a part of its own inside this one.
                        parts[open].accesses += 2;
                    }
                }
            }
            if node.terminator.leaves() {
                parts[open].ends.push(Place { graph, node: at, stmt: node.stmts.len() });
            }
        }
        node.terminator.for_each_target(&mut |next| work.push((next, part)));
    }
    // Maps each part to the first equal one.
    let mut first: Vec<usize> = (0..parts.len()).collect();
    for (a, b) in same {
        let (from, to) = (first[a].max(first[b]), first[a].min(first[b]));
        first.iter_mut().filter(|part| **part == from).for_each(|part| *part = to);
    }
    for (from, &to) in first.iter().enumerate().filter(|(from, to)| from != *to) {
        let other = std::mem::take(&mut parts[from]);
        parts[to].registers.extend(other.registers);
        parts[to].accesses += other.accesses;
        parts[to].begins.extend(other.begins);
        parts[to].ends.extend(other.ends);
    }
}

impl Terminator {
    /// True if it leaves the graph.
    fn leaves(&self) -> bool {
        let mut leads = false;
        self.for_each_target(&mut |_| leads = true);
        !leads
    }
}
