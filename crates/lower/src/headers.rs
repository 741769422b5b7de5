//! Headers that are not a whole number of bytes.
//!
//! The IR's headers, which are extracted or emitted, have whole bytes. Other headers become plain fields with a
//! validity bit.

use p4jet_ir::{FieldKind, Header, HeaderId, Op, Program};

/// Returns the number of bits of a header without its varbit.
pub(crate) fn fixed_bits(program: &Program, header: &Header) -> u64 {
    let fixed = header.fields.iter().filter(|f| f.varbit_length.is_none());
    fixed.map(|f| u64::from(program.width(f.field))).sum()
}

/// Removes headers that are not whole bytes from the program. The IR neither extracts nor emits them: their bits are
/// read and written separately.
pub(crate) fn dissolve_odd(program: &mut Program) {
    let odd: Vec<bool> = program.headers.iter().map(|h| !fixed_bits(program, h).is_multiple_of(8)).collect();
    if !odd.contains(&true) {
        return;
    }
    let mut kept = 0;
    let renumbered: Vec<Option<HeaderId>> = odd
        .iter()
        .map(|odd| {
            let id = HeaderId(kept);
            kept += u32::from(!odd);
            (!odd).then_some(id)
        })
        .collect();
    for field in &mut program.fields {
        field.kind = match field.kind {
            FieldKind::Header(h) => renumbered[h.index()].map_or(FieldKind::Temporary, FieldKind::Header),
            FieldKind::Valid(h) => renumbered[h.index()].map_or(FieldKind::Temporary, FieldKind::Valid),
            kind => kind,
        };
    }
    let mut odd = odd.into_iter();
    program.headers.retain(|_| !odd.next().unwrap_or(false));
    let bodies =
        program.actions.iter_mut().map(|a| &mut a.body).chain(program.blocks.iter_mut().map(|b| &mut b.body));
    for stmt in bodies.flat_map(|b| &mut b.nodes).flat_map(|n| &mut n.stmts) {
        match &mut stmt.op {
            Op::Extract { header, .. } | Op::Emit { header } => {
                *header = renumbered[header.index()].unwrap_or(*header);
            }
            Op::ExtractElement { headers, .. } => {
                *headers =
                    headers.iter().map(|header| renumbered[header.index()].unwrap_or(*header)).collect();
            }
            _ => {}
        }
    }
}
