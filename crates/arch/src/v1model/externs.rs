//! The externs of v1model.p4.

use p4jet_analysis::typed::Type;
use p4jet_ir as ir;
use p4jet_ir::{BinaryOp, CounterUnit, Expr, InstanceKind};
use p4jet_lower::{ExternCall, ExternObject, Lowered, Lowerer, ObjectId, Piece, Property, Value, build};

use super::{DROP_PORT, varbit};

/// Gives an extern object its state.
pub(super) fn construct(cx: &mut Lowerer<'_>, id: ObjectId) -> Lowered<()> {
    let Some(object) = cx.extern_object(id).cloned() else { return Ok(()) };
    let ext = &cx.program.externs[object.ext.index()].name;
    let kind = match ext.as_str() {
        "register" => {
            let Some(width) = object.type_args.first().and_then(|t| cx.scalar_width(t)) else {
                return cx.unsupported(object.span, "a register of anything but a scalar");
            };
            InstanceKind::Register { width, size: size(cx, &object)? }
        }
        "counter" => InstanceKind::Counter { unit: unit(cx, &object, 1)?, size: size(cx, &object)? },
        // Their state belongs to the table that names them as a property.
        "direct_counter" => return Ok(()),
        // No state at all.
        "Checksum16" => return Ok(()),
        other => {
            let what = format!("extern `{other}`");
            return cx.unsupported(object.span, what);
        }
    };
    let state = cx.add_instance(&object.name, kind, object.span);
    cx.set_state(id, state);
    Ok(())
}

/// Constructor argument 0 of arrays.
fn size(cx: &mut Lowerer<'_>, object: &ExternObject) -> Lowered<u32> {
    let size = match object.args.first() {
        Some(Some(Value::Scalar(Expr::Const { value, .. }))) => u32::try_from(value).ok(),
        Some(Some(Value::Integer(value))) => u32::try_from(value).ok(),
        _ => None,
    };
    match size {
        Some(size) => Ok(size),
        None => cx.unsupported(object.span, "an array whose size is no compile-time value"),
    }
}

/// `CounterType` in constructor argument `i`.
fn unit(cx: &mut Lowerer<'_>, object: &ExternObject, i: usize) -> Lowered<CounterUnit> {
    match object.args.get(i) {
        // enum CounterType { packets, bytes, packets_and_bytes }
        Some(Some(Value::Scalar(Expr::Const { value, .. }))) => Ok(match u32::try_from(value) {
            Ok(0) => CounterUnit::Packets,
            Ok(1) => CounterUnit::Bytes,
            _ => CounterUnit::Both,
        }),
        _ => cx.unsupported(object.span, "a counter whose type is no compile-time value"),
    }
}

/// A property of a table that v1model defines.
pub(super) fn table_property(cx: &mut Lowerer<'_>, table: ir::TableId, property: &Property) -> Lowered<()> {
    match (property.name.as_str(), &property.value) {
        ("counters", Value::Object(id)) => {
            let Some(object) = cx.extern_object(*id).cloned() else {
                return cx.unsupported(property.span, "this as table property `counters`");
            };
            if cx.program.externs[object.ext.index()].name != "direct_counter" {
                return cx.unsupported(
                    property.span,
                    "anything but a direct_counter as table property `counters`",
                );
            }
            if object.state.is_some() {
                return cx.unsupported(property.span, "a direct counter of several tables");
            }
            let unit = unit(cx, &object, 0)?;
            let state =
                cx.add_instance(&object.name, InstanceKind::DirectCounter { unit, table }, object.span);
            cx.set_state(*id, state);
            cx.ir.tables[table.index()].direct.push(state);
            Ok(())
        }
        // Ageing tells the control plane only.
        ("support_timeout", Value::Scalar(Expr::Const { value, .. })) if *value == 0u32.into() => Ok(()),
        ("counters" | "meters" | "implementation" | "support_timeout", _) => {
            cx.unsupported(property.span, format!("table property `{}`", property.name))
        }
        // P4_16 "additional properties": those of other architectures mean nothing here.
        _ => Ok(()),
    }
}

/// Lowers a call.
pub(super) fn call(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    if let Some((object, ext)) = &call.object {
        return method(cx, call, *object, ext);
    }
    match call.name.as_str() {
        "mark_to_drop" => mark_to_drop(cx, call),
        "hash" => hash(cx, call),
        "random" => {
            let (lo, hi) = (call.scalar(cx, 1)?, call.scalar(cx, 2)?);
            call.out(cx, 0, |cx, out| cx.call_extern("random", None, vec![lo, hi], vec![out], vec![]))?;
            Ok(Value::Void)
        }
        "verify_checksum" => verify_checksum(cx, call, false),
        "verify_checksum_with_payload" => verify_checksum(cx, call, true),
        "update_checksum" => update_checksum(cx, call, false),
        "update_checksum_with_payload" => update_checksum(cx, call, true),
        "log_msg" => log_msg(cx, call),
        "assert" | "assume" => {
            let check = call.scalar(cx, 0)?;
            let text = cx.source_text(call.args[0].span);
            cx.call_extern(&call.name, None, vec![check], vec![], vec![text]);
            Ok(Value::Void)
        }
        other => cx.unsupported(call.span, format!("extern function `{other}`")),
    }
}

fn method(cx: &mut Lowerer<'_>, call: &ExternCall, object: ObjectId, ext: &str) -> Lowered<Value> {
    let state = cx.extern_object(object).and_then(|o| o.state);
    match (ext, call.name.as_str()) {
        ("register", "read") => {
            let index = call.scalar(cx, 1)?;
            call.out(cx, 0, |cx, out| {
                cx.call_extern("register.read", state, vec![index], vec![out], vec![])
            })?;
        }
        ("register", "write") => {
            let (index, value) = (call.scalar(cx, 0)?, call.scalar(cx, 1)?);
            cx.call_extern("register.write", state, vec![index, value], vec![], vec![]);
        }
        ("counter", "count") => {
            let index = call.scalar(cx, 0)?;
            cx.call_extern("counter.count", state, vec![index], vec![], vec![]);
        }
        // A direct counter counts on every hit, whatever the action does (conventions §2.2): the table does it.
        ("direct_counter", "count") => {}
        ("Checksum16", "get") => {
            return Ok(Value::Scalar(hash_of(cx, call, 0, "csum16", 16)?));
        }
        (ext, name) => return cx.unsupported(call.span, format!("`{ext}.{name}`")),
    }
    Ok(Value::Void)
}

/// Sets `egress_spec` to the drop port and `mcast_grp` to 0. The old form without argument works on the target's own.
fn mark_to_drop(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    for (name, value) in [("egress_spec", DROP_PORT), ("mcast_grp", 0)] {
        match call.args.first() {
            Some(arg) => {
                let Some(index) = cx.fields_of(&arg.ty).iter().position(|(n, _)| n == name) else { continue };
                let Some(place) = arg.place.as_ref().and_then(|p| p.part(index)) else { continue };
                let Value::Scalar(old) = cx.read(&place) else { continue };
                let width = cx.width(&old);
                cx.assign(&place, Value::Scalar(Expr::constant(value, width)))?;
            }
            None => {
                if let Some(field) = cx.field_named(&format!("standard_metadata.{name}")) {
                    cx.set(field, Expr::constant(value, cx.ir.width(field)));
                }
            }
        }
    }
    Ok(Value::Void)
}

/// The bits of argument `i`.
fn data(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize) -> Lowered<Vec<Expr>> {
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

/// Calls a hash function on argument `i` and gives the field with its result.
fn hash_of(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize, function: &str, width: u32) -> Lowered<Expr> {
    let out = cx.temporary(width);
    let pieces = call.value(cx, i)?.pieces().unwrap_or_default();
    let has_varbit = pieces.iter().any(|p| matches!(p, Piece::Varbit { .. }));
    let sums_words = matches!(function, "csum16" | "csum16_payload" | "xor16" | "xor16_payload");
    if has_varbit && sums_words {
        varbit::sum_words(cx, &pieces, function, out);
    } else {
        let data = data(cx, call, i)?;
        cx.call_extern(function, None, data, vec![out], vec![]);
    }
    Ok(Expr::Field(out))
}

/// The extern function of crate externs for a member of `HashAlgorithm`, and the width of its result.
fn algorithm(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize) -> Lowered<(String, u32)> {
    let name = call.enum_member(cx, i)?;
    let (function, width) = match name.as_str() {
        "crc32" | "crc32_custom" => (name.as_str(), 32),
        "crc16" | "crc16_custom" | "csum16" | "xor16" => (name.as_str(), 16),
        "identity" => ("identity", 64),
        "random" => ("random_hash", 64),
        _ => return cx.unsupported(call.args[i].span, format!("HashAlgorithm.{name}")),
    };
    Ok((function.to_string(), width))
}

/// `hash(out result, algo, base, data, max)`: base + (H mod max), base if max is 0.
fn hash(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    let (function, hash_width) = algorithm(cx, call, 1)?;
    let base = call.scalar(cx, 2)?;
    let max = call.scalar(cx, 4)?;
    let Some(width) = cx.scalar_width(&call.args[0].ty) else {
        let what = format!("`hash` with a result of type {}", cx.type_name(&call.args[0].ty));
        return cx.unsupported(call.args[0].span, what);
    };
    let hashed = hash_of(cx, call, 3, &function, hash_width)?;
    // Modulo 0 is 0 in the IR, which is just what is wanted. The sum is cut to the result's width, so that cutting the
    // operands first is the same.
    let wide = hash_width.max(cx.width(&max));
    let hashed = build::resize(&cx.ir, hashed, wide);
    let max = build::resize(&cx.ir, max, wide);
    let rest = build::binary(BinaryOp::RemU, hashed, max);
    let rest = build::resize(&cx.ir, rest, width);
    let base = build::resize(&cx.ir, base, width);
    let result = build::binary(BinaryOp::Add, base, rest);
    call.out(cx, 0, |cx, out| cx.set(out, result))?;
    Ok(Value::Void)
}

/// The checksum of argument 1 by the algorithm in argument 3, in a field.
fn checksum(cx: &mut Lowerer<'_>, call: &ExternCall, payload: bool) -> Lowered<Expr> {
    let (function, width) = algorithm(cx, call, 3)?;
    let function = if payload { format!("{function}_payload") } else { function };
    hash_of(cx, call, 1, &function, width)
}

/// `verify_checksum(condition, data, checksum, algo)`: a mismatch sets `checksum_error`.
fn verify_checksum(cx: &mut Lowerer<'_>, call: &ExternCall, payload: bool) -> Lowered<Value> {
    let condition = call.scalar(cx, 0)?;
    let expected = call.scalar(cx, 2)?;
    let error = cx.field_named("standard_metadata.checksum_error");
    cx.when(condition, |cx| {
        let found = checksum(cx, call, payload)?;
        let width = cx.width(&found).max(cx.width(&expected));
        let found = build::resize(&cx.ir, found, width);
        let expected = build::resize(&cx.ir, expected, width);
        match error {
            Some(error) => cx.when(build::binary(BinaryOp::Ne, found, expected), |cx| {
                cx.set(error, build::truth(true));
                Ok(())
            }),
            None => Ok(()),
        }
    })?;
    Ok(Value::Void)
}

/// `update_checksum(condition, data, checksum, algo)`.
fn update_checksum(cx: &mut Lowerer<'_>, call: &ExternCall, payload: bool) -> Lowered<Value> {
    let condition = call.scalar(cx, 0)?;
    let Some(place) = call.args.get(2).and_then(|a| a.place.clone()) else {
        return cx.unsupported(call.span, "update_checksum without a place for the checksum");
    };
    let Some(width) = cx.scalar_width(&call.args[2].ty) else {
        return cx.unsupported(call.args[2].span, "a checksum that is no scalar");
    };
    cx.when(condition, |cx| {
        let found = checksum(cx, call, payload)?;
        let found = build::resize(&cx.ir, found, width);
        cx.assign(&place, Value::Scalar(found))
    })?;
    Ok(Value::Void)
}

/// `log_msg(text)` or `log_msg(text, { values })`: one argument per `{}` of the text.
fn log_msg(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    let Value::Text(text) = call.value(cx, 0)? else {
        return cx.unsupported(call.span, "a log message that is no compile-time text");
    };
    let args = match call.args.get(1) {
        Some(arg) if arg.ty != Type::Void => data(cx, call, 1)?,
        _ => Vec::new(),
    };
    cx.call_extern("log_msg", None, args, vec![], vec![text]);
    Ok(Value::Void)
}
