//! How deparsers build frames.
//!
//! If the headers that leave are those that arrived, perhaps with others before them or without the first ones, changed fields are
//! written in place. Otherwise the headers are put together in a scratch area and copied before the payload. The payload never
//! moves. Where possible, the compiler decides between the two.

use super::effects::op_sets;
use super::written::Written;
use crate::graph::{Graph, PerPlace, Place, Step};
use crate::solver::{self, Budget};
use cranelift_codegen::entity::{EntityRef, PrimaryMap};
use p4jet_ir::{
    BlockKind, CopyFrame, FieldKind, HeaderId, Op, PacketCopy, PipelineHalf, ReplicaList, Terminator,
};
use std::cell::Cell;

/// How a deparser builds the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every packet leaves with the headers that it arrived with, at their places: changed fields are written
    /// back in place.
    InPlace,
    /// Code decides for each packet: in place if the headers match, else in the scratch memory.
    Checked,
    /// The emits put the headers together in the scratch memory (control flow in the deparser).
    Scratch,
}

/// The deparsers of a program.
pub struct Deparsers {
    modes: PrimaryMap<Step, Option<Mode>>,
    emits: PrimaryMap<Step, Vec<HeaderId>>,
}

impl Deparsers {
    /// The mode of the deparser of a place.
    pub fn mode_at(&self, graph: &Graph, place: Place) -> Option<Mode> {
        self.modes[graph.step(place)]
    }

    /// The headers that the deparser of a step emits, in order, if that order does not depend on the packet.
    pub fn emits(&self, step: Step) -> &[HeaderId] {
        &self.emits[step]
    }

    /// True if frames keep their place and length.
    pub fn frames_stay(&self, graph: &Graph) -> bool {
        self.modes.values().flatten().all(|mode| *mode == Mode::InPlace) && !graph.truncates()
    }
}

/// Decides how each deparser works.
pub fn deparsers(graph: &Graph, written: &Written) -> Deparsers {
    let (mut modes, mut emits) = (PrimaryMap::new(), PrimaryMap::new());
    for step in graph.steps() {
        let is_deparser = graph.block_of(step).kind == BlockKind::Deparser;
        let straight = if is_deparser { straight_emits(graph, written, step) } else { None };
        modes.push(match &straight {
            _ if !is_deparser => None,
            None => Some(Mode::Scratch),
            Some(emits) if is_always_in_place(graph, written, step, emits) => Some(Mode::InPlace),
            Some(_) => Some(Mode::Checked),
        });
        emits.push(straight.unwrap_or_default());
    }
    Deparsers { modes, emits }
}

/// The emits of a deparser that always runs the same way and does not touch the headers it emits.
fn straight_emits(graph: &Graph, written: &Written, step: Step) -> Option<Vec<HeaderId>> {
    let body = &graph.block_of(step).body;
    let mut emits = Vec::new();
    let mut node = 0usize;
    let mut seen = 0;
    loop {
        for stmt in &body.nodes[node].stmts {
            if let Op::Emit { header } = stmt.op {
                emits.push(header);
            }
            let mut sets_header = false;
            op_sets(&stmt.op, &mut |f| {
                let kind = &graph.program.fields[f.index()].kind;
                sets_header |= matches!(kind, FieldKind::Header(_) | FieldKind::Valid(_));
            });
            if sets_header {
                return None;
            }
        }
        seen += 1;
        match &body.nodes[node].terminator {
            Terminator::Return => break,
            Terminator::Goto(n) if seen <= body.nodes.len() => node = n.index(),
            _ => return None,
        }
    }
    // A header with a varbit field whose length changed would need re-assembly by parts.
    let varbit_written = emits.iter().any(|h| written.has_varbit_of(graph, *h));
    (!varbit_written).then_some(emits)
}

/// True if packets always leave a deparser with exactly the headers extracted since the one before, if there is one:
/// nothing else changes validity, every header is extracted at most once and in the order of the emits, everything
/// extracted is emitted, and nothing is skipped.
fn is_always_in_place(graph: &Graph, written: &Written, step: Step, emits: &[HeaderId]) -> bool {
    let before = graph.deparsers().rfind(|&d| d < step);
    let first = before.map_or(Step::new(0), |d| Step::new(d.index() + 1));
    let between = |place: Place| (first..=step).contains(&graph.step(place));
    // No packet bypasses the deparser before.
    let ends_ingress = |place: Place| matches!(graph.node(place).terminator, Terminator::Egress);
    if before.is_some() && graph.places().any(|p| graph.step(p) < first && ends_ingress(p)) {
        return false;
    }
    if (first..=step).contains(&graph.egress_step()) {
        // Copies that begin in between either have the cursor at the start, and no headers, or all that the packet
        // had. A session may cut a frame within its headers.
        let session =
            |copy: &PacketCopy| copy.replicas.as_ref().is_some_and(|r| r.list == ReplicaList::Session);
        let fits = |(place, copy): (Place, &PacketCopy)| {
            copy.begin == PipelineHalf::Ingress
                || copy.frame == CopyFrame::Arrived
                || graph.just_deparsed(place)
                || (before.is_none() && graph.keeps_headers(place, copy) && !session(copy))
        };
        if !graph.copies().all(fits) {
            return false;
        }
    }
    let mut extracted = Vec::new();
    for place in graph.places() {
        for stmt in &graph.node(place).stmts {
            // The index may find any header of the column, in any order.
            if matches!(stmt.op, Op::ExtractElement { .. }) {
                return false;
            }
            if let Op::Extract { header, .. } = stmt.op {
                if between(place) {
                    extracted.push(header);
                } else if emits.contains(&header) {
                    return false;
                }
            }
        }
    }
    let valid_written = emits.iter().chain(&extracted).any(|h| {
        let header = &graph.program.headers[h.index()];
        written.contains(header.valid)
            || header.fields.iter().any(|f| f.varbit_length.is_some_and(|l| written.contains(l)))
    });
    !valid_written && extracts_in_order(graph, emits, between)
}

/// True if all paths through these places extract headers in the order of the emits.
fn extracts_in_order(graph: &Graph, emits: &[HeaderId], between: impl Fn(Place) -> bool) -> bool {
    let rank = |h: HeaderId| {
        let mut at = emits.iter().enumerate().filter(|(_, e)| **e == h).map(|(i, _)| i);
        let first = at.next()?;
        at.next().is_none().then_some(first + 1)
    };
    let in_order = Cell::new(true);
    // The highest rank of the headers extracted before each place.
    let mut before: PerPlace<usize> = graph.per_place(0);
    let mut budget = Budget::new((emits.len() + 2).saturating_mul(1 + graph.count()));
    let solved = solver::forward(
        graph,
        &mut before,
        graph.reached().filter(|&place| between(place)),
        &mut budget,
        |_| 1,
        |into, from| {
            let rises = *into < *from;
            *into = (*into).max(*from);
            rises
        },
        |place, before, edge| {
            if !between(place) || !in_order.get() {
                return;
            }
            let mut last = *before;
            for stmt in &graph.node(place).stmts {
                match &stmt.op {
                    Op::Extract { header, .. } => match rank(*header) {
                        Some(r) if r > last => last = r,
                        _ => return in_order.set(false),
                    },
                    Op::Advance { .. } => return in_order.set(false),
                    _ => {}
                }
            }
            let makes_copies = graph.node(place).stmts.iter().any(|stmt| matches!(stmt.op, Op::Copy(_)));
            graph.successors(place).iter().for_each(|&next| edge(next, &last));
            graph.egress_start().filter(|_| makes_copies).iter().for_each(|&next| edge(next, &last));
        },
    );
    solved.is_ok() && in_order.get()
}
