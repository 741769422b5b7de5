//! The packet cursor before each place, and where headers lie in the frame.

use super::extracts::Extracts;
use crate::graph::{Graph, PerPlace, Place};
use crate::solver::{self, Budget};
use p4jet_ir::{BlockKind, CopyFrame, Expr, HeaderId, Op, PipelineHalf, Terminator};

/// The cursor at a program point, as far as the analysis knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cursor {
    /// No packet reaches the point.
    #[default]
    Unreached,
    /// The cursor is always at this bit.
    Bits(u32),
    /// The cursor differs between packets.
    Varying,
}

impl Cursor {
    fn join(self, other: Cursor) -> Cursor {
        use Cursor::*;
        match (self, other) {
            (Unreached, x) | (x, Unreached) => x,
            (Bits(a), Bits(b)) if a == b => Bits(a),
            _ => Varying,
        }
    }

    /// After an extract or advance of a known number of bits, or of an unknown one.
    fn advance(self, bits: Option<u32>) -> Cursor {
        use Cursor::*;
        match (self, bits) {
            (Unreached, _) => Unreached,
            (Bits(a), Some(b)) if u64::from(a) + u64::from(b) <= 1 << 24 => Bits(a + b),
            _ => Varying,
        }
    }
}

/// Finds where headers are extracted.
pub fn extracts(graph: &Graph) -> Extracts {
    let mut before: PerPlace<Cursor> = graph.per_place(Cursor::Unreached);
    if let Some(start) = graph.start() {
        before[start] = Cursor::Bits(0);
    }
    if let Some(start) = graph.egress_start()
        && graph.has_copies(PipelineHalf::Egress)
    {
        let moved = graph.copies().any(|(place, copy)| {
            copy.begin == PipelineHalf::Egress
                && copy.frame == CopyFrame::Current
                && !graph.just_deparsed(place)
        });
        let cursor = if moved { Cursor::Varying } else { Cursor::Bits(0) };
        before[start] = before[start].join(cursor);
    }
    let solved = solver::forward(
        graph,
        &mut before,
        graph.reached(),
        // A value changes twice at most.
        &mut Budget::unlimited(),
        |_| 1,
        |into, from| {
            let joined = into.join(*from);
            std::mem::replace(into, joined) != joined
        },
        |place, before, edge| {
            let (after, on_error) = through(graph, place, *before, &mut |_, _| ());
            let error_target = graph.next_step_on_error(place);
            for &next in graph.successors(place) {
                edge(next, &after);
                if Some(next) == error_target {
                    edge(next, &on_error);
                }
            }
        },
    );
    debug_assert!(solved.is_ok(), "the budget has no limit");
    let mut offsets: Vec<Vec<Cursor>> = vec![Vec::new(); graph.program.headers.len()];
    for place in graph.reached() {
        through(graph, place, before[place], &mut |header, cursor| offsets[header.index()].push(cursor));
    }
    let of_header = |seen: &Vec<Cursor>| match seen.first() {
        Some(&Cursor::Bits(b)) if seen.iter().all(|&c| c == Cursor::Bits(b)) => Some(b / 8),
        _ => None,
    };
    Extracts {
        fixed_offset: offsets.iter().map(of_header).collect(),
        is_extracted: offsets.iter().map(|seen| !seen.is_empty()).collect(),
    }
}

/// The cursor after a place, and at its parser errors. Calls `extracted` with the cursor where a header begins.
fn through(
    graph: &Graph,
    place: Place,
    mut cursor: Cursor,
    extracted: &mut dyn FnMut(HeaderId, Cursor),
) -> (Cursor, Cursor) {
    let mut on_error = Cursor::Unreached;
    for stmt in &graph.node(place).stmts {
        match &stmt.op {
            Op::Extract { header, .. } => {
                on_error = on_error.join(cursor);
                extracted(*header, cursor);
                cursor = cursor.advance(graph.header_bits(*header));
            }
            Op::ExtractElement { headers, .. } => {
                on_error = on_error.join(cursor);
                headers.iter().for_each(|header| extracted(*header, cursor));
                cursor = cursor.join(cursor.advance(graph.header_bits(headers[0])));
            }
            Op::Advance { bits } => {
                on_error = on_error.join(cursor);
                let known = match bits {
                    Expr::Const { value, .. } => u32::try_from(value).ok(),
                    _ => None,
                };
                cursor = cursor.advance(known);
            }
            Op::Lookahead { .. } => on_error = on_error.join(cursor),
            _ => {}
        }
    }
    if graph.block(place).kind == BlockKind::Deparser
        && matches!(graph.node(place).terminator, Terminator::Return)
    {
        cursor = Cursor::Bits(0);
    }
    (cursor, on_error)
}
