//! Checksums over varbit fields.
//!
//! Extern functions take values of fixed width. For sums of 16-bit words that is no obstacle: words of zeros in front
//! change nothing, so the data are shifted together at run time at the right end of a value that is wide enough for the
//! longest varbits.

use p4jet_ir::{BinaryOp, Expr, FieldId, Terminator};
use p4jet_lower::{Lowerer, Piece, build};

/// Calls `csum16` or its like on the pieces, whatever the lengths of the varbits are.
pub(crate) fn sum_words(cx: &mut Lowerer<'_>, pieces: &[Piece], function: &str, out: FieldId) {
    let bits_max: u32 = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Bits(e) | Piece::Varbit { value: e, .. } => cx.width(e),
        })
        .sum();
    // Up to 7 bits are added to fill the last byte.
    let width = (bits_max + 7).next_multiple_of(16);
    let konst = |v: u32| Expr::constant(v, 32);
    let mut data: Option<Expr> = None;
    let mut length = konst(0);
    for (value, bits) in runs(cx, pieces) {
        let value = build::resize(&cx.ir, value, width);
        data = Some(match data {
            Some(data) => {
                let shifted = build::binary(BinaryOp::Shl, data, bits.clone());
                set(cx, build::binary(BinaryOp::Or, shifted, value))
            }
            None => value,
        });
        length = build::binary(BinaryOp::Add, length, bits);
    }
    let data = data.unwrap_or_else(|| build::zero(width));
    let length = set(cx, length);
    // As bmv2 does, the last byte is filled up with zeros.
    let seven = build::binary(BinaryOp::And, build::neg(length.clone()), konst(7));
    let fill = set(cx, seven);
    let data = build::binary(BinaryOp::Shl, data, fill.clone());
    let data = set(cx, data);
    let bytes = build::binary(BinaryOp::Add, length, fill);
    let odd = build::slice(&cx.ir, bytes, 3, 3);

    // The words are counted from the left end of the data, and the payload goes on where they end: with an odd number
    // of bytes there must be an odd number of bytes in front as well.
    let (odd_node, even_node, join) = (cx.node(), cx.node(), cx.node());
    cx.terminate(Terminator::If { cond: odd, then: odd_node, otherwise: even_node });
    for (node, width) in [(odd_node, width + 8), (even_node, width)] {
        cx.enter(node);
        let data = build::resize(&cx.ir, data.clone(), width);
        cx.call_extern(function, None, vec![data], vec![out], vec![]);
        cx.goto(join);
    }
    cx.enter(join);
}

/// The pieces with their lengths; neighbours of fixed width are one.
fn runs(cx: &Lowerer<'_>, pieces: &[Piece]) -> Vec<(Expr, Expr)> {
    let konst = |v: u32| Expr::constant(v, 32);
    let mut out = Vec::new();
    let mut run: Option<Expr> = None;
    for piece in pieces {
        match piece {
            Piece::Bits(e) => {
                run = Some(match run {
                    Some(run) => Expr::Concat(Box::new(run), Box::new(e.clone())),
                    None => e.clone(),
                });
            }
            Piece::Varbit { value, length } => {
                out.extend(run.take().map(|run| (run.clone(), konst(cx.width(&run)))));
                out.push((value.clone(), length.clone()));
            }
        }
    }
    out.extend(run.map(|run| (run.clone(), konst(cx.width(&run)))));
    out
}

fn set(cx: &mut Lowerer<'_>, value: Expr) -> Expr {
    let field = cx.temporary(cx.width(&value));
    cx.set(field, value);
    Expr::Field(field)
}
