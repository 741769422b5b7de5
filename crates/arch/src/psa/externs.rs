//! The externs of psa.p4.

use p4jet_ir as ir;
use p4jet_ir::{Algorithm, BinaryOp, Expr, Function, Hash};
use p4jet_lower::{ExternCall, Lowered, Lowerer, ObjectId, Piece, Property, Value, build};

use super::PORT_RECIRCULATE;
use crate::data::{self, hash_of};
use crate::objects::{self, Direct};

/// Creates the state of an extern object.
pub(super) fn construct(cx: &mut Lowerer<'_>, id: ObjectId) -> Lowered<()> {
    let Some(object) = cx.extern_object(id).cloned() else { return Ok(()) };
    match cx.program.externs[object.ext.index()].name.as_str() {
        "Register" => objects::register(cx, id, &object),
        "Counter" => objects::counter(cx, id, &object),
        "Meter" => objects::meter(cx, id, &object),
        "ActionProfile" => objects::profile(cx, id, &object, 0, false),
        "ActionSelector" => objects::profile(cx, id, &object, 1, true),
        "Digest" => {
            if let Some(ty) = object.type_args.first() {
                let state = objects::digest(cx, &object.name, ty, object.span);
                cx.set_state(id, state);
            }
            Ok(())
        }
        "InternetChecksum" => {
            cx.set_packet_state(id, SUM_WIDTH);
            Ok(())
        }
        "Checksum" => {
            let (_, width) = algorithm(cx, id)?;
            cx.set_packet_state(id, width);
            Ok(())
        }
        // The state of direct counters and meters belongs to the table that names them as a property; others have none.
        _ => Ok(()),
    }
}

/// Handles a table property that PSA defines.
pub(super) fn table_property(cx: &mut Lowerer<'_>, table: ir::TableId, property: &Property) -> Lowered<()> {
    match property.name.as_str() {
        // These count and measure only when their method is called.
        "psa_direct_counter" => {
            objects::direct(cx, table, property, Direct::Counter, "DirectCounter").map(|_| ())
        }
        "psa_direct_meter" => objects::direct(cx, table, property, Direct::Meter, "DirectMeter").map(|_| ()),
        "psa_implementation" => {
            objects::implementation(cx, table, property, &["ActionProfile", "ActionSelector"])
        }
        "psa_idle_timeout" => {
            let Value::Scalar(Expr::Const { value, .. }) = &property.value else {
                return cx
                    .unsupported(property.span, "a run-time value as table property `psa_idle_timeout`");
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
    let (algorithm, width) = algorithm(cx, profile)?;
    Ok(objects::selector_hash(cx, keys, algorithm, width))
}

/// Lowers a call.
pub(super) fn call(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    if let Some((object, ext)) = &call.object {
        return method(cx, call, *object, ext);
    }
    Ok(Value::Scalar(match call.name.as_str() {
        "psa_clone_i2e" | "psa_clone_e2e" => member(cx, call, 0, "clone")?,
        "psa_resubmit" => {
            build::and(build::not(member(cx, call, 0, "drop")?), member(cx, call, 0, "resubmit")?)
        }
        "psa_normal" => {
            let resubmit = member(cx, call, 0, "resubmit")?;
            build::and(build::not(member(cx, call, 0, "drop")?), build::not(resubmit))
        }
        "psa_recirculate" => {
            let port = member(cx, call, 1, "egress_port")?;
            let recirculate = Expr::constant(PORT_RECIRCULATE, cx.width(&port));
            build::and(build::not(member(cx, call, 0, "drop")?), build::eq(port, recirculate))
        }
        "assert" => return objects::assertion(cx, call, Function::Assert),
        "assume" => return objects::assertion(cx, call, Function::Assume),
        _ => return objects::foreign(cx, call),
    }))
}

/// Returns a member of the struct in argument `i`.
fn member(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize, name: &str) -> Lowered<Expr> {
    let value = call.value(cx, i)?;
    let place = cx.fields_of(&call.args[i].ty).iter().position(|(n, _)| n == name);
    match place.and_then(|place| value.parts().get(place)) {
        Some(Value::Scalar(e)) => Ok(e.clone()),
        _ => cx.unsupported(call.args[i].span, format!("an argument without `{name}`")),
    }
}

fn method(cx: &mut Lowerer<'_>, call: &ExternCall, id: ObjectId, ext: &str) -> Lowered<Value> {
    let Some(object) = cx.extern_object(id).cloned() else { return Ok(Value::Void) };
    let state = object.state;
    match (ext, call.name.as_str()) {
        ("Register", "read") => {
            let index = call.scalar(cx, 0)?;
            let Some(ty) = object.type_args.first() else {
                return cx.unsupported(call.span, "a register without type");
            };
            return objects::read_cell(cx, state, index, ty, call.span);
        }
        ("Register", "write") => {
            let (index, value) = (call.scalar(cx, 0)?, call.value(cx, 1)?);
            objects::write_cell(cx, state, index, &value);
        }
        ("Counter", "count") => {
            let index = call.scalar(cx, 0)?;
            cx.call_extern(Function::Count, state, vec![index], vec![], vec![]);
        }
        ("DirectCounter", "count") => {
            objects::direct_call(cx, call, id, Function::CountDirect, vec![], vec![])?;
        }
        ("Meter", "execute") => {
            let mut args = vec![call.scalar(cx, 0)?];
            if call.args.len() > 1 {
                args.push(colour_given(cx, call, 1)?);
            }
            let colour = cx.temporary(objects::COLOUR_WIDTH);
            cx.call_extern(Function::Meter, state, args, vec![colour], vec![]);
            return Ok(colour_found(colour));
        }
        ("DirectMeter", "execute") => {
            let more = match call.args.is_empty() {
                true => vec![],
                false => vec![colour_given(cx, call, 0)?],
            };
            let colour = cx.temporary(objects::COLOUR_WIDTH);
            objects::direct_call(cx, call, id, Function::MeterDirect, more, vec![colour])?;
            return Ok(colour_found(colour));
        }
        ("Hash", "get_hash") => return hash(cx, call, id),
        ("Random", "read") => {
            let bounds = (object.args.first().cloned().flatten(), object.args.get(1).cloned().flatten());
            let (Some(Value::Scalar(lo)), Some(Value::Scalar(hi))) = bounds else {
                return cx.unsupported(object.span, "a Random whose bounds are not scalars");
            };
            let out = cx.temporary(cx.width(&lo));
            cx.call_extern(Function::Random, None, vec![lo, hi], vec![out], vec![]);
            return Ok(Value::Scalar(Expr::Field(out)));
        }
        ("Digest", "pack") => {
            let data = data::bits(cx, call, 0)?;
            cx.call_extern(Function::SendDigest, state, data, vec![], vec![]);
        }
        ("Checksum" | "InternetChecksum", _) => return checksum(cx, call, id, ext),
        _ => return objects::foreign(cx, call),
    }
    Ok(Value::Void)
}

// ---------------------------------------------------------------------------------------------------------------------
// Colours: a meter returns green 0, yellow 1, red 2; PSA_MeterColor_t is RED, GREEN, YELLOW.

fn colour_given(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize) -> Lowered<Expr> {
    let given = call.scalar(cx, i)?;
    let width = cx.width(&given);
    let red = build::eq(given.clone(), build::zero(width));
    let less = build::binary(BinaryOp::Sub, given, Expr::constant(1u32, width));
    let less = build::resize(&cx.ir, less, objects::COLOUR_WIDTH);
    Ok(build::select(red, Expr::constant(2u32, objects::COLOUR_WIDTH), less))
}

fn colour_found(colour: ir::FieldId) -> Value {
    let found = Expr::Field(colour);
    let red = build::eq(found.clone(), Expr::constant(2u32, objects::COLOUR_WIDTH));
    let more = build::binary(BinaryOp::Add, found, Expr::constant(1u32, objects::COLOUR_WIDTH));
    let member = build::select(red, build::zero(objects::COLOUR_WIDTH), more);
    // An enum is 32 bits wide.
    Value::Scalar(Expr::ZeroExtend(Box::new(member), 32))
}

// ---------------------------------------------------------------------------------------------------------------------
// Hashes and checksums

/// The bits of a ones' complement sum.
const SUM_WIDTH: u32 = 16;

/// Returns the algorithm in constructor argument 0, and the width of its result.
fn algorithm(cx: &mut Lowerer<'_>, id: ObjectId) -> Lowered<(Algorithm, u32)> {
    let Some(object) = cx.extern_object(id).cloned() else { return Ok((Algorithm::Crc16, 16)) };
    let number = objects::number(cx, &object, 0, "an algorithm")?;
    let member = cx.program.enums.iter().find(|e| e.name == "PSA_HashAlgorithm_t");
    let member = member.and_then(|e| e.members.get(number as usize)).map(|(name, _)| name.as_str());
    Ok(match member {
        Some("IDENTITY") => (Algorithm::Identity, 64),
        Some("CRC32_CUSTOM") => (Algorithm::Crc32Custom, 32),
        Some("CRC16_CUSTOM") => (Algorithm::Crc16Custom, 16),
        Some("ONES_COMPLEMENT16") => (Algorithm::Csum16, SUM_WIDTH),
        Some("CRC32") => (Algorithm::Crc32, 32),
        // CRC16 and, as in bmv2, TARGET_DEFAULT.
        _ => (Algorithm::Crc16, 16),
    })
}

/// `get_hash(data)` or `get_hash(base, data, max)`.
fn hash(cx: &mut Lowerer<'_>, call: &ExternCall, id: ObjectId) -> Lowered<Value> {
    let (algorithm, hash_width) = algorithm(cx, id)?;
    let Some(width) = cx.scalar_width(&call.ret) else {
        let what = format!("a hash of type {}", cx.program.type_text(&call.ret));
        return cx.unsupported(call.span, what);
    };
    // Unlike v1model, psa_switch includes the fields of invalid headers, and pads to whole bytes in front.
    let i = if call.args.len() == 1 { 0 } else { 1 };
    let mut data = data::pieces(cx, call, i)?;
    let lengths = data.iter().map(|piece| data::length(cx, piece)).collect();
    let bits = build::sum(lengths).unwrap_or_else(|| build::zero(32));
    let fill = build::binary(BinaryOp::And, build::neg(bits), Expr::constant(7u32, 32));
    match build::as_const(&fill).map(|n| u32::try_from(n).unwrap_or(0)) {
        Some(0) => {}
        Some(fill) => data.insert(0, Piece::bits(build::zero(fill))),
        None => data.insert(0, Piece { length: Some(fill), ..Piece::bits(build::zero(7)) }),
    }
    let hashed = hash_of(cx, algorithm.plain(), None, data, custom_name(cx, id, algorithm), hash_width);
    if call.args.len() == 1 {
        return Ok(Value::Scalar(build::resize(&cx.ir, hashed, width)));
    }
    let (base, max) = (call.scalar(cx, 0)?, call.scalar(cx, 2)?);
    Ok(Value::Scalar(data::in_range(cx, base, hashed, max, width)))
}

/// CRCs with their own parameters are selected by name.
fn custom_name(cx: &Lowerer<'_>, id: ObjectId, algorithm: Algorithm) -> Vec<String> {
    let object = if algorithm.custom_width().is_some() { cx.extern_object(id) } else { None };
    object.map(|o| o.name.clone()).into_iter().collect()
}

/// A checksum that is computed step by step. The state of a ones' complement checksum is the sum of the words so far;
/// that of a CRC is the CRC of the data so far, xor that of no data.
fn checksum(cx: &mut Lowerer<'_>, call: &ExternCall, id: ObjectId, ext: &str) -> Lowered<Value> {
    let (algorithm, state) = match cx.extern_object(id).and_then(|o| o.packet_state) {
        Some(state) if ext == "InternetChecksum" => (Algorithm::Csum16, state),
        Some(state) => (algorithm(cx, id)?.0, state),
        None => return cx.unsupported(call.span, "a checksum without state"),
    };
    let width = cx.ir.width(state);
    let sums = algorithm == Algorithm::Csum16;
    match call.name.as_str() {
        "clear" => cx.set(state, build::zero(width)),
        "add" | "update" if sums => {
            // The checksum of a sum and more words is the complement of their sum.
            let mut data = data::pieces(cx, call, 0)?;
            data.insert(0, Piece::bits(Expr::Field(state)));
            let sum = hash_of(cx, Algorithm::Csum16.plain(), None, data, vec![], width);
            cx.set(state, build::not(sum));
        }
        "subtract" => {
            // RFC 1624: adding the complement subtracts. The checksum of the data is the complement of their sum.
            let data = data::pieces(cx, call, 0)?;
            let complement = hash_of(cx, Algorithm::Csum16.plain(), None, data, vec![], width);
            let sum = cx.temporary(width);
            cx.call_extern(
                Algorithm::Csum16.plain(),
                None,
                vec![Expr::Field(state), complement],
                vec![sum],
                vec![],
            );
            cx.set(state, build::not(Expr::Field(sum)));
        }
        "update" => {
            if !algorithm.is_crc() {
                return cx.unsupported(call.span, "a Checksum by PSA_HashAlgorithm_t.IDENTITY");
            }
            let continued = Hash { continues: true, ..algorithm.plain() };
            let (data, name) = (data::pieces(cx, call, 0)?, custom_name(cx, id, algorithm));
            let more = hash_of(cx, continued, Some(Expr::Field(state)), data, name, width);
            cx.set(state, more);
        }
        "get" => {
            let result = if sums {
                build::not(Expr::Field(state))
            } else {
                let nothing = cx.temporary(width);
                cx.call_extern(algorithm.plain(), None, vec![], vec![nothing], vec![]);
                build::binary(BinaryOp::Xor, Expr::Field(state), Expr::Field(nothing))
            };
            let Some(wanted) = cx.scalar_width(&call.ret) else {
                let what = format!("a checksum of type {}", cx.program.type_text(&call.ret));
                return cx.unsupported(call.span, what);
            };
            // The program may keep it while more data are added.
            let kept = cx.temporary(wanted);
            let result = build::resize(&cx.ir, result, wanted);
            cx.set(kept, result);
            return Ok(Value::Scalar(Expr::Field(kept)));
        }
        "get_state" => {
            let kept = cx.temporary(width);
            cx.set(kept, Expr::Field(state));
            return Ok(Value::Scalar(Expr::Field(kept)));
        }
        "set_state" => {
            let given = call.scalar(cx, 0)?;
            cx.set(state, given);
        }
        _ => return objects::foreign(cx, call),
    }
    Ok(Value::Void)
}
