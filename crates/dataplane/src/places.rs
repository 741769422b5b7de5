//! Finds the position of a header in a frame, if the parser always finds it at the same position.

use num_traits::ToPrimitive;
use p4jet_ir::{BlockKind, Expr, FieldId, FieldKind, HeaderId, NodeId, Op, Program};
use std::collections::HashSet;

/// Maximum number of visited pairs of node and cursor; a parser with more has loops.
const STEPS_MAX: usize = 10_000;

/// Returns the position in bits of a header field in a frame, if the parser extracts the header at one position only.
pub(crate) fn bit_of(program: &Program, field: FieldId) -> Option<u32> {
    let FieldKind::Header(header) = program.fields[field.index()].kind else { return None };
    let header_bit = place_of(program, header)?;
    let mut bit = header_bit;
    for f in &program.headers[header.index()].fields {
        if f.field == field {
            return f.varbit_length.is_none().then_some(bit);
        }
        if f.varbit_length.is_some() {
            return None;
        }
        bit += program.width(f.field);
    }
    None
}

fn place_of(program: &Program, header: HeaderId) -> Option<u32> {
    let parser = &program.blocks[program.ingress.first()?.index()];
    if parser.kind != BlockKind::Parser {
        return None;
    }
    let mut found = None;
    let mut seen = HashSet::new();
    let mut open = vec![(NodeId(0), Some(0u32))];
    while let Some((at, mut cursor)) = open.pop() {
        if !seen.insert((at, cursor)) {
            continue;
        }
        if seen.len() > STEPS_MAX {
            return None;
        }
        let node = &parser.body.nodes[at.index()];
        for stmt in &node.stmts {
            match &stmt.op {
                Op::Extract { header: id, varbit_length } => {
                    if *id == header {
                        let here = cursor?;
                        if found.is_some_and(|there| there != here) {
                            return None;
                        }
                        found = Some(here);
                    }
                    cursor = match varbit_length {
                        None => cursor.and_then(|bits| bits.checked_add(program.header_bits_max(*id))),
                        Some(_) => None,
                    };
                }
                Op::ExtractElement { headers, .. } => {
                    if headers.contains(&header) {
                        return None;
                    }
                    cursor = None;
                }
                Op::Advance { bits: Expr::Const { value, .. } } => {
                    cursor = cursor.and_then(|bits| bits.checked_add(value.to_u32()?));
                }
                Op::Advance { .. } => cursor = None,
                _ => {}
            }
        }
        node.terminator.for_each_target(&mut |next| open.push((next, cursor)));
    }
    found
}
