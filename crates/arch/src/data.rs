//! The data of hashes, checksums, digests and registers: converts P4 values to bits and back.

use p4jet_analysis::typed::Type;
use p4jet_ir::{Algorithm, BinaryOp, Expr, FieldKind, Hash, Terminator};
use p4jet_lower::{ExternCall, Lowered, Lowerer, Piece, Span, Value, build};

/// Returns the bits of argument `i`, one expression per scalar inside; it must not have varbits.
pub(crate) fn bits(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize) -> Lowered<Vec<Expr>> {
    if cx.has_zero_width(&call.args[i].ty) {
        let what = format!("a value of type bit<0> among the data of `{}`", call.name);
        return cx.unsupported(call.args[i].span, what);
    }
    let pieces = pieces(cx, call, i)?;
    if pieces.iter().any(|p| p.length.is_some()) {
        let what = format!("a varbit among the data of `{}`", call.name);
        return cx.unsupported(call.args[i].span, what);
    }
    Ok(pieces.into_iter().map(|p| p.value).collect())
}

/// Returns the bits of argument `i`, including those of invalid headers.
pub(crate) fn pieces(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize) -> Lowered<Vec<Piece>> {
    let Some(pieces) = call.value(cx, i)?.pieces() else {
        let what = format!("something without bits among the data of `{}`", call.name);
        return cx.unsupported(call.args[i].span, what);
    };
    Ok(pieces.into_iter().map(|piece| Piece { valid: None, ..piece }).collect())
}

/// Returns the bits of argument `i` without those of invalid headers, if `given` holds.
pub(crate) fn pieces_of_valid(
    cx: &mut Lowerer<'_>,
    call: &ExternCall,
    i: usize,
    given: &Expr,
) -> Lowered<Vec<Piece>> {
    // Refuses values without bits.
    pieces(cx, call, i)?;
    let value = call.value(cx, i)?;
    Ok(of_valid(cx, &value, given))
}

/// Returns the bits of a value, each with the header that must be valid for them to count, unless `given` implies it. As in
/// bmv2, values computed from a header's fields always count.
pub(crate) fn of_valid(cx: &Lowerer<'_>, value: &Value, given: &Expr) -> Vec<Piece> {
    let mut pieces = value.pieces().unwrap_or_default();
    for piece in &mut pieces {
        if let Expr::Field(field) = piece.value
            && let FieldKind::Header(header) = cx.ir.fields[field.index()].kind
        {
            piece.valid = Some(Expr::Field(cx.ir.headers[header.index()].valid));
        }
        piece.valid.take_if(|valid| build::as_const(valid).is_some_and(|v| *v != 0u32.into()));
        piece.valid.take_if(|valid| implies(given, valid));
    }
    pieces
}

/// True if `fact` is one of the conditions whose conjunction is `given`.
fn implies(given: &Expr, fact: &Expr) -> bool {
    match given {
        Expr::Binary(BinaryOp::And, a, b) => implies(a, fact) || implies(b, fact),
        given => given == fact,
    }
}

/// Calls a hash function and returns the field with its result. The function's `first` argument is not part of the data.
pub(crate) fn hash_of(
    cx: &mut Lowerer<'_>,
    hash: Hash,
    first: Option<Expr>,
    mut pieces: Vec<Piece>,
    text: Vec<String>,
    width: u32,
) -> Expr {
    let out = cx.temporary(width);
    if hash.algorithm == Algorithm::Random {
        pieces.clear();
    }
    let mut headers: Vec<Expr> = Vec::new();
    for valid in pieces.iter().filter_map(|p| p.valid.as_ref()) {
        if !headers.contains(valid) {
            headers.push(valid.clone());
        }
    }
    let first: Vec<Expr> = first.into_iter().collect();
    let call = |cx: &mut Lowerer<'_>, hash: Hash, data: Vec<Expr>| {
        cx.call_extern(hash, None, [first.clone(), data].concat(), vec![out], text.clone());
    };
    let whole = pieces.iter().map(|p| p.value.clone()).collect();
    let by_length = |cx: &mut Lowerer<'_>| {
        let data = joined(cx, &pieces).into_iter().flat_map(|p| [length(cx, &p), p.value]).collect();
        call(cx, hash.in_pieces(), data);
    };
    if pieces.iter().any(|p| p.length.is_some()) {
        by_length(cx);
    } else if headers.is_empty() {
        call(cx, hash, whole);
    } else {
        // If all headers are valid, or only one is involved, the call needs no lengths.
        let one = headers.len() == 1;
        let (all, some, join) = (cx.node(), cx.node(), cx.node());
        let cond = build::all(headers);
        cx.add_branches(|cx| cx.terminate(Terminator::If { cond, then: all, otherwise: some }));
        cx.enter(all);
        call(cx, hash, whole);
        cx.goto(join);
        cx.enter(some);
        if one {
            let others = pieces.iter().filter(|p| p.valid.is_none()).map(|p| p.value.clone());
            call(cx, hash, others.collect());
        } else {
            by_length(cx);
        }
        cx.goto(join);
        cx.enter(join);
    }
    Expr::Field(out)
}

/// Joins pieces that count under the same condition, up to 64 bits, because every piece costs time.
fn joined(cx: &Lowerer<'_>, pieces: &[Piece]) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match out.last_mut() {
            Some(Piece { value, length: None, valid })
                if piece.length.is_none()
                    && *valid == piece.valid
                    && cx.width(value) + cx.width(&piece.value) <= 64 =>
            {
                *value = Expr::Concat(Box::new(value.clone()), Box::new(piece.value.clone()));
            }
            _ => out.push(piece.clone()),
        }
    }
    out
}

/// Returns how many bits of a piece count, width 32.
pub(crate) fn length(cx: &Lowerer<'_>, piece: &Piece) -> Expr {
    let length = match &piece.length {
        Some(length) => length.clone(),
        None => Expr::constant(cx.width(&piece.value), 32),
    };
    match &piece.valid {
        Some(valid) => build::select(valid.clone(), length, build::zero(32)),
        None => length,
    }
}

/// Returns `base + (hashed mod max)`, or `base` if `max` is 0, truncated to `width` bits.
pub(crate) fn in_range(cx: &Lowerer<'_>, base: Expr, hashed: Expr, max: Expr, width: u32) -> Expr {
    // Modulo 0 is 0 in the IR, as required here. The sum is truncated to the result's width, so the operands can be
    // truncated first.
    let wide = cx.width(&hashed).max(cx.width(&max));
    let hashed = build::resize(&cx.ir, hashed, wide);
    let max = build::resize(&cx.ir, max, wide);
    let rest = build::binary(BinaryOp::RemU, hashed, max);
    let rest = build::resize(&cx.ir, rest, width);
    let base = build::resize(&cx.ir, base, width);
    build::binary(BinaryOp::Add, base, rest)
}

/// Returns the total width of the scalars of a (substituted) type, including validity bits.
pub(crate) fn width_of(cx: &mut Lowerer<'_>, ty: &Type, span: Span) -> Lowered<u32> {
    Ok(cx.zero(ty, span)?.leaves().iter().fold(0, |sum, e| cx.width(e).saturating_add(sum)))
}

/// Packs all scalars of a value, the first one highest.
pub(crate) fn pack(value: &Value) -> Option<Expr> {
    build::concat(value.leaves())
}

/// Returns the value of a (substituted) type that [`pack`] packed into `packed`.
pub(crate) fn unpack(cx: &mut Lowerer<'_>, ty: &Type, packed: &Expr, span: Span) -> Lowered<Value> {
    let mut below = cx.width(packed);
    Ok(cx.zero(ty, span)?.map(&mut |leaf| {
        let hi = below - 1;
        below -= leaf.width(&cx.ir);
        build::slice(&cx.ir, packed.clone(), hi, below)
    }))
}

/// Lists names and widths of the bits in a (substituted) type, in the order of [`Value::pieces`].
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
