//! The externs of v1model.p4.

use p4jet_analysis::typed::Type;
use p4jet_ir as ir;
use p4jet_ir::{Algorithm, BinaryOp, Expr, Function, Hash};
use p4jet_lower::{ExternCall, Lowered, Lowerer, ObjectId, Property, Value, build};
use p4jet_p4info::Numbered;

use super::DROP_PORT;
use super::memory::{Memory, memory};
use crate::data::{self, hash_of};
use crate::objects::{self, Direct};

/// Creates the state of an extern object.
pub(super) fn construct(cx: &mut Lowerer<'_>, id: ObjectId) -> Lowered<()> {
    let Some(object) = cx.extern_object(id).cloned() else { return Ok(()) };
    match cx.program.externs[object.ext.index()].name.as_str() {
        "register" => objects::register(cx, id, &object),
        "counter" => objects::counter(cx, id, &object),
        "meter" => objects::meter(cx, id, &object),
        "action_profile" => objects::profile(cx, id, &object, 0, false),
        "action_selector" => objects::profile(cx, id, &object, 1, true),
        // The state of direct counters and meters belongs to the table that names them as a property; a Checksum16 has
        // none, and that of externs which the program declares is unknown.
        _ => Ok(()),
    }
}

/// Handles a table property that v1model defines.
pub(super) fn table_property(cx: &mut Lowerer<'_>, table: ir::TableId, property: &Property) -> Lowered<()> {
    match property.name.as_str() {
        "counters" => {
            let (_, state) = objects::direct(cx, table, property, Direct::Counter, "direct_counter")?;
            cx.ir.tables[table.index()].direct.push(state);
            Ok(())
        }
        // As in v1model.p4: a hit is metered whether or not the action calls `read`.
        "meters" => {
            let (_, state) = objects::direct(cx, table, property, Direct::Meter, "direct_meter")?;
            let colour = objects::meter_every_hit(cx, table, state);
            memory(cx).colours.insert(state, colour);
            Ok(())
        }
        "implementation" => {
            objects::implementation(cx, table, property, &["action_profile", "action_selector"])
        }
        "support_timeout" => {
            let Value::Scalar(Expr::Const { value, .. }) = &property.value else {
                return cx.unsupported(property.span, "a run-time value as table property `support_timeout`");
            };
            cx.ir.tables[table.index()].idle_timeout = *value != 0u32.into();
            Ok(())
        }
        // P4_16 "additional properties": those of other architectures have no effect here.
        _ => Ok(()),
    }
}

/// Returns the hash of the selector keys by the selector's algorithm. As in bmv2, its `outputWidth` has no effect.
pub(super) fn select_member(cx: &mut Lowerer<'_>, profile: ObjectId, keys: Vec<Value>) -> Lowered<Expr> {
    let Some(object) = cx.extern_object(profile).cloned() else { return Ok(build::zero(64)) };
    let number = objects::number(cx, &object, 0, "an algorithm")?;
    let member = cx.program.enums.iter().find(|e| e.name == "HashAlgorithm");
    let member = member.and_then(|e| e.members.get(number as usize)).map(|(name, _)| name.clone());
    let Some((algorithm, width)) = member.as_deref().and_then(algorithm_of) else {
        return cx.unsupported(object.span, "this algorithm of an action selector");
    };
    Ok(objects::selector_hash(cx, keys, algorithm, width))
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
            call.out(cx, 0, |cx, out| {
                cx.call_extern(Function::Random, None, vec![lo, hi], vec![out], vec![])
            })?;
            Ok(Value::Void)
        }
        "verify_checksum" => verify_checksum(cx, call, false),
        "verify_checksum_with_payload" => verify_checksum(cx, call, true),
        "update_checksum" => update_checksum(cx, call, false),
        "update_checksum_with_payload" => update_checksum(cx, call, true),
        "log_msg" => log_msg(cx, call),
        "assert" => objects::assertion(cx, call, Function::Assert),
        "assume" => objects::assertion(cx, call, Function::Assume),
        "digest" => digest(cx, call),
        // The deprecated forms list the data instead of the number of a field list.
        "clone" => Memory::clone(cx, call, None),
        "clone3" => Memory::clone(cx, call, Some(2)),
        "clone_preserving_field_list" => Memory::clone(cx, call, Some(2)),
        "resubmit" | "resubmit_preserving_field_list" => Memory::resubmit(cx, call),
        "recirculate" | "recirculate_preserving_field_list" => Memory::recirculate(cx, call),
        "truncate" => Memory::truncate(cx, call),
        _ => objects::foreign(cx, call),
    }
}

fn method(cx: &mut Lowerer<'_>, call: &ExternCall, object: ObjectId, ext: &str) -> Lowered<Value> {
    let state = cx.extern_object(object).and_then(|o| o.state);
    match (ext, call.name.as_str()) {
        ("register", "read") => {
            let index = call.scalar(cx, 1)?;
            if cx.scalar_width(&call.args[0].ty).is_some() {
                call.out(cx, 0, |cx, out| {
                    cx.call_extern(Function::RegisterRead, state, vec![index], vec![out], vec![])
                })?;
                return Ok(Value::Void);
            }
            let value = objects::read_cell(cx, state, index, &call.args[0].ty, call.span)?;
            objects::give(cx, call, 0, value)?;
        }
        ("register", "write") => {
            let (index, value) = (call.scalar(cx, 0)?, call.value(cx, 1)?);
            objects::write_cell(cx, state, index, &value);
        }
        ("counter", "count") => {
            let index = call.scalar(cx, 0)?;
            cx.call_extern(Function::Count, state, vec![index], vec![], vec![]);
        }
        // Like bmv2, the table counts every hit, regardless of the action.
        ("direct_counter", "count") => {}
        ("meter", "execute_meter") => {
            let index = call.scalar(cx, 0)?;
            let colour = cx.temporary(objects::COLOUR_WIDTH);
            cx.call_extern(Function::Meter, state, vec![index], vec![colour], vec![]);
            give_colour(cx, call, 1, colour)?;
        }
        ("direct_meter", "read") => {
            let colour = state.and_then(|s| memory(cx).colours.get(&s).copied());
            let Some(colour) = colour else {
                return Err(cx.report(objects::without_table(call)));
            };
            give_colour(cx, call, 0, colour)?;
        }
        ("Checksum16", "get") => {
            let data = data::pieces_of_valid(cx, call, 0, &build::truth(true))?;
            return Ok(Value::Scalar(hash_of(cx, Algorithm::Csum16.plain(), None, data, vec![], 16)));
        }
        _ => return objects::foreign(cx, call),
    }
    Ok(Value::Void)
}

/// Returns a colour as a number with the width of argument `i`.
fn give_colour(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize, colour: ir::FieldId) -> Lowered<()> {
    let Some(width) = cx.scalar_width(&call.args[i].ty) else {
        let what = format!("a meter's result of type {}", cx.program.type_text(&call.args[i].ty));
        return cx.unsupported(call.args[i].span, what);
    };
    let colour = build::resize(&cx.ir, Expr::Field(colour), width);
    objects::give(cx, call, i, Value::Scalar(colour))
}

/// Sets `egress_spec` to the drop port and `mcast_grp` to 0. The old form without an argument changes the target's own
/// metadata.
fn mark_to_drop(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    for (name, value) in [("egress_spec", DROP_PORT), ("mcast_grp", 0)] {
        match call.args.first() {
            Some(arg) => {
                let Some(index) = cx.fields_of(&arg.ty).iter().position(|(n, _)| n == name) else { continue };
                let Some(place) = arg.place.as_ref().and_then(|p| p.part(index)) else { continue };
                let Value::Scalar(old) = cx.read(&place)? else { continue };
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

/// Returns the algorithm for a member of `HashAlgorithm`, and the width of its result.
fn algorithm_of(member: &str) -> Option<(Algorithm, u32)> {
    Some(match member {
        "crc32" => (Algorithm::Crc32, 32),
        "crc32_custom" => (Algorithm::Crc32Custom, 32),
        "crc16" => (Algorithm::Crc16, 16),
        "crc16_custom" => (Algorithm::Crc16Custom, 16),
        "csum16" => (Algorithm::Csum16, 16),
        "xor16" => (Algorithm::Xor16, 16),
        "identity" => (Algorithm::Identity, 64),
        "random" => (Algorithm::Random, 64),
        _ => return None,
    })
}

/// Returns the algorithm that argument `i` names.
fn algorithm(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize) -> Lowered<(Algorithm, u32)> {
    let name = call.enum_member(cx, i)?;
    match algorithm_of(&name) {
        Some(found) => Ok(found),
        None => cx.unsupported(call.args[i].span, format!("HashAlgorithm.{name}")),
    }
}

/// `hash(out result, algo, base, data, max)`: base + (H mod max), or base if max is 0.
fn hash(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    let (algorithm, hash_width) = algorithm(cx, call, 1)?;
    let base = call.scalar(cx, 2)?;
    let max = call.scalar(cx, 4)?;
    let Some(width) = cx.scalar_width(&call.args[0].ty) else {
        let what = format!("`hash` with a result of type {}", cx.program.type_text(&call.args[0].ty));
        return cx.unsupported(call.args[0].span, what);
    };
    let data = data::pieces_of_valid(cx, call, 3, &build::truth(true))?;
    let hashed = hash_of(cx, algorithm.plain(), None, data, vec![], hash_width);
    let result = data::in_range(cx, base, hashed, max, width);
    call.out(cx, 0, |cx, out| cx.set(out, result))?;
    Ok(Value::Void)
}

/// Returns a field with the checksum of argument 1 by the algorithm in argument 3; `condition` holds.
fn checksum(cx: &mut Lowerer<'_>, call: &ExternCall, condition: &Expr, payload: bool) -> Lowered<Expr> {
    let (algorithm, width) = algorithm(cx, call, 3)?;
    let hash = Hash { payload, ..algorithm.plain() };
    let data = data::pieces_of_valid(cx, call, 1, condition)?;
    Ok(hash_of(cx, hash, None, data, vec![], width))
}

/// `verify_checksum(condition, data, checksum, algo)`: a mismatch sets `checksum_error`.
fn verify_checksum(cx: &mut Lowerer<'_>, call: &ExternCall, payload: bool) -> Lowered<Value> {
    let condition = call.scalar(cx, 0)?;
    let expected = call.scalar(cx, 2)?;
    let error = cx.field_named("standard_metadata.checksum_error");
    cx.when(condition.clone(), |cx| {
        let found = checksum(cx, call, &condition, payload)?;
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
        let what = format!("a checksum of type {}", cx.program.type_text(&call.args[2].ty));
        return cx.unsupported(call.args[2].span, what);
    };
    cx.when(condition.clone(), |cx| {
        let found = checksum(cx, call, &condition, payload)?;
        let found = build::resize(&cx.ir, found, width);
        cx.assign(&place, Value::Scalar(found))
    })?;
    Ok(Value::Void)
}

/// `log_msg(text)` or `log_msg(text, { values })`: one argument per `{}` of the text.
fn log_msg(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    let Value::Text(text) = call.value(cx, 0)? else {
        return cx.unsupported(call.span, "a log message that is not a compile-time string");
    };
    let args = match call.args.get(1) {
        Some(arg) if arg.ty != Type::Void => data::bits(cx, call, 1)?,
        _ => Vec::new(),
    };
    cx.call_extern(Function::LogMsg, None, args, vec![], vec![text]);
    Ok(Value::Void)
}

/// `digest(receiver, data)`: sends the message at once, with the current values of the data. As in bmv2, the receiver
/// does not matter. For the control plane, as in P4Info, calls with data of one named type are one digest with that
/// name, and each other call is a digest with a number.
fn digest(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    let (data, ty) = (data::bits(cx, call, 1)?, &call.args[1].ty);
    let program = cx.program;
    let name = program.control_name(ty).unwrap_or_else(|| {
        let numbered = memory(cx).numbered_digests.get_or_insert_with(|| Numbered::of(program));
        numbered.add(call.span, ty)
    });
    let state = match memory(cx).digests.get(&name) {
        Some(state) => *state,
        None => {
            let state = objects::digest(cx, &name, ty, call.span);
            memory(cx).digests.insert(name, state);
            state
        }
    };
    cx.call_extern(Function::SendDigest, Some(state), data, vec![], vec![]);
    Ok(Value::Void)
}
