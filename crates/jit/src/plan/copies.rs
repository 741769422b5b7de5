//! The values that copies begin with.

use super::memory::PhvLayout;
use crate::analysis::effects::copy_sets;
use crate::analysis::inherited::{keeps, keeps_cursor};
use crate::analysis::reads::{Known, Nodes};
use crate::graph::{Graph, Place, StatementSite};
use crate::slots::Slot;
use p4jet_ir::{Intrinsic, Op, PacketCopy};
use std::collections::{HashMap, HashSet};

/// A statement that makes copies.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// The values in the image of the copies, by slot, with their offsets in bytes.
    pub image: Vec<(Slot, i32, Value)>,
    /// True if the copies keep the cursor.
    pub keeps_cursor: bool,
    /// The intrinsics that have their own values in copies.
    pub intrinsics: Vec<Intrinsic>,
}

/// A value in the image of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// The statement sets it, by the expression with this number.
    Set(usize),
    /// It is a constant.
    Known(u64),
    /// The packet's value.
    Kept,
    /// 0: copies do not inherit the slot.
    Zero,
}

/// Statements that make copies, by statement.
pub type CopyPlans = HashMap<StatementSite, CopyPlan>;

/// Decides which values copies inherit.
pub fn copies(graph: &Graph, nodes: &Nodes, phv: &PhvLayout) -> CopyPlans {
    let mut copies = HashMap::new();
    for place in graph.reached() {
        let Some(plan) = &nodes.of_place[place] else { continue };
        for (number, (stmt, plan)) in graph.node(place).stmts.iter().zip(&plan.stmts).enumerate() {
            if let Op::Copy(copy) = &stmt.op {
                copies
                    .insert(StatementSite::new(place, number), of_copy(graph, phv, place, copy, &plan.known));
            }
        }
    }
    copies
}

fn of_copy(graph: &Graph, phv: &PhvLayout, place: Place, copy: &PacketCopy, known: &Known) -> CopyPlan {
    let set: HashMap<Slot, usize> =
        copy.set.iter().enumerate().map(|(number, (field, _))| (graph.slots.field(*field), number)).collect();
    let value = |slot: Slot| match (set.get(&slot), known.get(slot)) {
        (Some(number), _) => Value::Set(*number),
        (None, _) if !keeps(graph, place, copy, slot) => Value::Zero,
        // The image has the unchanged slot, also where reads get it from the frame.
        (None, Some(known)) => Value::Known(known),
        (None, None) => Value::Kept,
    };
    let slots = phv.entered[copy.begin as usize].iter();
    let image = slots.map(|&slot| (slot, phv.phv[&slot], value(slot))).collect();
    let mut own = HashSet::new();
    copy_sets(copy, &mut |field| {
        own.insert(field);
    });
    let all = graph.program.intrinsics.iter();
    let intrinsics = all.filter(|(_, field)| own.contains(field)).map(|(intrinsic, _)| *intrinsic).collect();
    CopyPlan { image, keeps_cursor: keeps_cursor(copy), intrinsics }
}
