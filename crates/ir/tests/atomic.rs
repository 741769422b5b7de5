//! Locks of registers: code that touches a register that is locked anywhere holds its lock, locks are taken in the order
//! of the registers' numbers, and every path releases them all. Uses random programs with random atomic parts.

use p4jet_ir::Function::{self, AtomicBegin, AtomicEnd, RegisterLock, RegisterUnlock};
use p4jet_ir::atomic::{self, add_locks};
use p4jet_ir::random::Rng;
use p4jet_ir::{
    BlockKind, Cfg, InstanceId, Loc, NodeId, Op, Program, Stmt, Terminator, random, text, verify,
};
use std::collections::{BTreeSet, HashMap};

fn call(op: &Op) -> (Option<&Function>, Option<InstanceId>) {
    match op {
        Op::Extern { function, instance, .. } => (Some(function), *instance),
        _ => (None, None),
    }
}

fn graphs(program: &Program) -> impl Iterator<Item = &Cfg> {
    program.actions.iter().map(|a| &a.body).chain(program.blocks.iter().map(|b| &b.body))
}

/// Returns the registers that a graph locks while none is held, by the path through it.
fn check(cfg: &Cfg, locked: &BTreeSet<InstanceId>, of_table: &dyn Fn(&Terminator) -> BTreeSet<InstanceId>) {
    let mut before: HashMap<NodeId, Vec<InstanceId>> = HashMap::new();
    let mut work = vec![(NodeId(0), Vec::new())];
    while let Some((at, mut held)) = work.pop() {
        if let Some(known) = before.insert(at, held.clone()) {
            assert_eq!(known, held, "n{}: held by one way and not by another", at.0);
            continue;
        }
        let node = &cfg.nodes[at.index()];
        for stmt in &node.stmts {
            match call(&stmt.op) {
                (Some(RegisterLock), Some(register)) => {
                    assert!(held.last().is_none_or(|last| *last < register), "{held:?} then {register:?}");
                    held.push(register);
                }
                (Some(RegisterUnlock), Some(register)) => assert_eq!(held.pop(), Some(register)),
                (_, Some(register)) if stmt.op.register().is_some() => {
                    assert!(
                        !locked.contains(&register) || held.contains(&register),
                        "n{} {register:?}",
                        at.0
                    );
                }
                _ => {}
            }
        }
        if !held.is_empty() {
            let inside = of_table(&node.terminator);
            assert!(inside.iter().all(|register| held.contains(register)), "{inside:?} inside {held:?}");
        }
        let mut leaves = true;
        node.terminator.for_each_target(&mut |next| {
            leaves = false;
            work.push((next, held.clone()));
        });
        assert!(!leaves || held.is_empty(), "n{}: {held:?}", at.0);
    }
}

#[test]
fn locks_are_taken_in_order_and_given_back() {
    let (mut lockers, mut marked_lockers) = (0, 0);
    for seed in 0..2000 {
        let mut program = random::program(seed);
        let mut rng = Rng::new(seed);
        let mut marked = false;
        for block in program.blocks.iter_mut().filter(|b| b.kind == BlockKind::Control) {
            // From somewhere in the first node to the end.
            if rng.once_in(2) {
                marked = true;
                let first = rng.below(block.body.nodes[0].stmts.len() + 1);
                let looped = block.body.is_on_cycle(NodeId(0));
                let mark = |function| Stmt { op: atomic::call(function, None), loc: Loc(0) };
                for (number, node) in block.body.nodes.iter_mut().enumerate().filter(|_| !looped) {
                    if number == 0 {
                        node.stmts.insert(first, mark(AtomicBegin));
                    }
                    let mut leaves = true;
                    node.terminator.for_each_target(&mut |_| leaves = false);
                    if leaves {
                        node.stmts.push(mark(AtomicEnd));
                    }
                }
            }
        }
        verify::verify(&program).unwrap_or_else(|e| panic!("seed {seed}: {}", e[0]));
        add_locks(&mut program);
        let printed = text::print(&program);
        verify::verify(&program).unwrap_or_else(|e| panic!("seed {seed}: {}\n{printed}", e[0]));
        assert!(text::parse(&printed).is_ok_and(|read| read == program), "{printed}");
        let stmts = graphs(&program).flat_map(|cfg| &cfg.nodes).flat_map(|node| &node.stmts);
        let locked: BTreeSet<InstanceId> =
            stmts.filter_map(|s| call(&s.op).1.filter(|_| call(&s.op).0 == Some(&RegisterLock))).collect();
        lockers += usize::from(!locked.is_empty());
        marked_lockers += usize::from(!locked.is_empty() && marked);
        let of_table = |terminator: &Terminator| match terminator {
            Terminator::Apply { table, .. } => {
                let actions = program.tables[table.index()].actions.iter();
                let nodes = actions.flat_map(|a| &program.actions[a.action.index()].body.nodes);
                let registers = nodes.flat_map(|n| &n.stmts).filter_map(|s| s.op.register());
                registers.filter(|register| locked.contains(register)).collect()
            }
            _ => BTreeSet::new(),
        };
        graphs(&program).for_each(|cfg| check(cfg, &locked, &of_table));
    }
    assert!(
        lockers > 100 && marked_lockers > 50,
        "{lockers} programs with locks, {marked_lockers} with marks"
    );
}

#[test]
fn marks_must_match() {
    let base = random::program(1);
    let with = |calls: &[Function]| {
        let mut program = base.clone();
        let node = &mut program.actions[0].body.nodes[0];
        node.stmts.extend(calls.iter().map(|f| Stmt { op: atomic::call(f.clone(), None), loc: Loc(0) }));
        node.terminator = Terminator::Return;
        verify::verify(&program)
    };
    assert!(with(&[AtomicBegin, AtomicBegin, AtomicEnd, AtomicEnd]).is_ok());
    for wrong in
        [&[AtomicBegin][..], &[AtomicEnd], &[AtomicEnd, AtomicBegin], &[AtomicBegin, AtomicEnd, AtomicEnd]]
    {
        let errors = with(wrong).unwrap_err();
        assert!(errors[0].message.contains("atomic part"), "{}", errors[0]);
    }
}
