//! The data of hashes, checksums, digests and registers: P4 values as bits, and back.

use p4jet_analysis::typed::Type;
use p4jet_ir::{BinaryOp, Expr};
use p4jet_lower::{ExternCall, Lowered, Lowerer, Piece, Span, Value, build};

use crate::varbit;

/// The bits of argument `i`.
pub(crate) fn bits(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize) -> Lowered<Vec<Expr>> {
    let refuse = |cx: &mut Lowerer<'_>, what: &str| {
        let what = format!("{what} among the data of `{}`", call.name);
        cx.unsupported(call.args[i].span, what)
    };
    let Some(pieces) = call.value(cx, i)?.pieces() else { return refuse(cx, "something without bits") };
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bits(e) => out.push(e),
            Piece::Varbit { .. } => return refuse(cx, "a varbit"),
        }
    }
    Ok(out)
}

/// Calls a hash function on argument `i` and gives the field with its result. Words in `before` come first.
pub(crate) fn hash_of(
    cx: &mut Lowerer<'_>,
    call: &ExternCall,
    i: usize,
    function: &str,
    before: Vec<Expr>,
    width: u32,
) -> Lowered<Expr> {
    let crc =
        call.object.as_ref().and_then(|(id, _)| cx.extern_object(*id)).map(|object| object.name.clone());
    let out = cx.temporary(width);
    let pieces = call.value(cx, i)?.pieces().unwrap_or_default();
    let has_varbit = pieces.iter().any(|p| matches!(p, Piece::Varbit { .. }));
    let sums_words = matches!(function, "csum16" | "csum16_payload" | "xor16" | "xor16_payload");
    if has_varbit && sums_words {
        let pieces: Vec<Piece> = before.into_iter().map(Piece::Bits).chain(pieces).collect();
        varbit::sum_words(cx, &pieces, function, out);
    } else {
        let data = before.into_iter().chain(bits(cx, call, i)?).collect();
        // Only CRCs with constants of their own are asked for by name.
        let text = if function.contains("_custom") { crc.into_iter().collect() } else { vec![] };
        cx.call_extern(function, None, data, vec![out], text);
    }
    Ok(Expr::Field(out))
}

/// `base + (hashed mod max)`, `base` if `max` is 0, cut to `width` bits.
pub(crate) fn in_range(cx: &Lowerer<'_>, base: Expr, hashed: Expr, max: Expr, width: u32) -> Expr {
    // Modulo 0 is 0 in the IR, which is just what is wanted. The sum is cut to the result's width, so that cutting the
    // operands first is the same.
    let wide = cx.width(&hashed).max(cx.width(&max));
    let hashed = build::resize(&cx.ir, hashed, wide);
    let max = build::resize(&cx.ir, max, wide);
    let rest = build::binary(BinaryOp::RemU, hashed, max);
    let rest = build::resize(&cx.ir, rest, width);
    let base = build::resize(&cx.ir, base, width);
    build::binary(BinaryOp::Add, base, rest)
}

/// The width of all scalars of a (substituted) type together, validity bits among them.
pub(crate) fn width_of(cx: &mut Lowerer<'_>, ty: &Type, span: Span) -> Lowered<u32> {
    Ok(cx.zero(ty, span)?.leaves().iter().map(|e| cx.width(e)).sum())
}

/// All scalars of a value, the first one highest.
pub(crate) fn pack(value: &Value) -> Option<Expr> {
    value.leaves().into_iter().reduce(|high, low| Expr::Concat(Box::new(high), Box::new(low)))
}

/// The value of a (substituted) type that [`pack`] made `packed` of.
pub(crate) fn unpack(cx: &mut Lowerer<'_>, ty: &Type, packed: &Expr, span: Span) -> Lowered<Value> {
    let mut below = cx.width(packed);
    Ok(cx.zero(ty, span)?.map(&mut |leaf| {
        let hi = below - 1;
        below -= leaf.width(&cx.ir);
        build::slice(&cx.ir, packed.clone(), hi, below)
    }))
}

/// Names and widths of the bits in a (substituted) type, as [`Value::pieces`] orders them.
pub(crate) fn columns(cx: &Lowerer<'_>, ty: &Type, name: &str, out: &mut Vec<(String, u32)>) {
    if let Some(width) = cx.scalar_width(ty) {
        let name = if name.is_empty() { "value" } else { name };
        out.push((name.to_string(), width));
        return;
    }
    let inside = |part: &str| if name.is_empty() { part.to_string() } else { format!("{name}.{part}") };
    match cx.underlying(ty) {
        Type::Stack(element, n) => {
            for i in 0..n {
                columns(cx, &element, &format!("{name}[{i}]"), out);
            }
        }
        ty => {
            for (part, ty) in cx.fields_of(&ty) {
                columns(cx, &ty, &inside(&part), out);
            }
        }
    }
}
