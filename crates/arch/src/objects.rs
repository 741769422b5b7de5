//! Extern objects shared by architectures: arrays of registers, counters and meters, direct ones, action profiles,
//! digests.

use num_bigint::BigUint;
use p4jet_analysis::typed::Type;
use p4jet_ir as ir;
use p4jet_ir::{Algorithm, CounterUnit, Expr, Function, InstanceKind, Op};
use p4jet_lower::{
    Diagnostic, Direction, ExternCall, ExternObject, Lowered, Lowerer, ObjectId, Property, Span, Value, build,
};

use crate::data;

/// Returns constructor argument `i` as a number.
pub(crate) fn number(cx: &mut Lowerer<'_>, object: &ExternObject, i: usize, what: &str) -> Lowered<u32> {
    let number = match object.args.get(i) {
        Some(Some(Value::Scalar(Expr::Const { value, .. }))) => u32::try_from(value).ok(),
        Some(Some(Value::Integer(value))) => u32::try_from(value).ok(),
        _ => None,
    };
    match number {
        Some(number) => Ok(number),
        None => cx.unsupported(object.span, format!("{what} that is not a compile-time value below 2^32")),
    }
}

/// Returns the unit that constructor argument `i` selects. Every architecture's enum has packets, bytes, both, in this
/// order.
fn unit(cx: &mut Lowerer<'_>, object: &ExternObject, i: usize) -> Lowered<CounterUnit> {
    Ok(match number(cx, object, i, "a type of counter or meter")? {
        0 => CounterUnit::Packets,
        1 => CounterUnit::Bytes,
        _ => CounterUnit::Both,
    })
}

fn add(cx: &mut Lowerer<'_>, id: ObjectId, object: &ExternObject, kind: InstanceKind) -> ir::InstanceId {
    let state = cx.add_instance(&object.name, kind, object.span);
    cx.set_state(id, state);
    state
}

/// An array of registers whose type is type argument 0 and whose size is constructor argument 0.
pub(crate) fn register(cx: &mut Lowerer<'_>, id: ObjectId, object: &ExternObject) -> Lowered<()> {
    let Some(ty) = object.type_args.first() else {
        return cx.unsupported(object.span, "an untyped register");
    };
    if cx.has_zero_width(ty) {
        return cx.unsupported(object.span, "a register with values of type bit<0>");
    }
    let width = data::width_of(cx, ty, object.span)?;
    if width == 0 {
        return cx.unsupported(object.span, "a register of values without bits");
    }
    let size = number(cx, object, 0, "an array size")?;
    let initial = match object.args.get(1).and_then(Option::as_ref).map(|value| packed(cx, ty, value)) {
        None => BigUint::ZERO,
        Some(Some(initial)) => initial,
        Some(None) => {
            return cx.unsupported(object.span, "an initial value that is not a compile-time value");
        }
    };
    add(cx, id, object, InstanceKind::Register { width, size, initial });
    Ok(())
}

/// Returns the register cell for a compile-time value of a type.
fn packed(cx: &Lowerer<'_>, ty: &Type, value: &Value) -> Option<BigUint> {
    if let (Value::Integer(n), Some(width)) = (value, cx.scalar_width(ty)) {
        return Some(build::pattern(n, width));
    }
    value
        .leaves()
        .iter()
        .try_fold(BigUint::ZERO, |high, leaf| Some((high << cx.width(leaf)) | build::as_const(leaf)?))
}

/// An array of counters: size and unit.
pub(crate) fn counter(cx: &mut Lowerer<'_>, id: ObjectId, object: &ExternObject) -> Lowered<()> {
    let (size, unit) = (number(cx, object, 0, "an array size")?, unit(cx, object, 1)?);
    add(cx, id, object, InstanceKind::Counter { unit, size });
    Ok(())
}

/// An array of meters: size and unit.
pub(crate) fn meter(cx: &mut Lowerer<'_>, id: ObjectId, object: &ExternObject) -> Lowered<()> {
    let (size, unit) = (number(cx, object, 0, "an array size")?, unit(cx, object, 1)?);
    add(cx, id, object, InstanceKind::Meter { unit, size });
    Ok(())
}

/// An action profile whose size is constructor argument `size`.
pub(crate) fn profile(
    cx: &mut Lowerer<'_>,
    id: ObjectId,
    object: &ExternObject,
    size: usize,
    selector: bool,
) -> Lowered<()> {
    let size = number(cx, object, size, "an action profile's size")?;
    add(cx, id, object, InstanceKind::ActionProfile { size, selector });
    Ok(())
}

/// Reads a register's cell. `ty` is the register's type.
pub(crate) fn read_cell(
    cx: &mut Lowerer<'_>,
    state: Option<ir::InstanceId>,
    index: Expr,
    ty: &Type,
    span: Span,
) -> Lowered<Value> {
    let width = data::width_of(cx, ty, span)?;
    let cell = cx.temporary(width);
    cx.call_extern(Function::RegisterRead, state, vec![index], vec![cell], vec![]);
    data::unpack(cx, ty, &Expr::Field(cell), span)
}

/// Writes `value` to a register's cell.
pub(crate) fn write_cell(cx: &mut Lowerer<'_>, state: Option<ir::InstanceId>, index: Expr, value: &Value) {
    if let Some(value) = data::pack(value) {
        cx.call_extern(Function::RegisterWrite, state, vec![index, value], vec![], vec![]);
    }
}

/// The kind of object that a table's property refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    Counter,
    Meter,
}

/// Handles a property that names a direct counter or meter, an extern called `ext`: creates its state, which belongs to
/// the table.
pub(crate) fn direct(
    cx: &mut Lowerer<'_>,
    table: ir::TableId,
    property: &Property,
    direct: Direct,
    ext: &str,
) -> Lowered<(ObjectId, ir::InstanceId)> {
    let (id, object) = object_of(cx, property, &[ext])?;
    if let Some(state) = object.state {
        let taken = &cx.ir.instances[state.index()];
        let owner = match taken.kind {
            InstanceKind::DirectCounter { table, .. } | InstanceKind::DirectMeter { table, .. } => table,
            _ => table,
        };
        let (name, owner) = (&taken.name, &cx.ir.tables[owner.index()].name);
        let text = format!("{ext} `{name}` already belongs to table `{owner}`");
        let note = format!("a {ext} has a cell for each entry of one table: another table needs another one");
        return Err(cx.report(Diagnostic::error("table", property.span, text).note(note)));
    }
    let unit = unit(cx, &object, 0)?;
    let kind = match direct {
        Direct::Counter => InstanceKind::DirectCounter { unit, table },
        Direct::Meter => InstanceKind::DirectMeter { unit, table },
    };
    let state = add(cx, id, &object, kind);
    Ok((id, state))
}

/// Handles a property that names the table's action profile, an extern called one of `exts`.
pub(crate) fn implementation(
    cx: &mut Lowerer<'_>,
    table: ir::TableId,
    property: &Property,
    exts: &[&str],
) -> Lowered<()> {
    let (id, _) = object_of(cx, property, exts)?;
    cx.set_profile(table, id);
    Ok(())
}

fn object_of(cx: &mut Lowerer<'_>, property: &Property, exts: &[&str]) -> Lowered<(ObjectId, ExternObject)> {
    if let Value::Object(id) = property.value
        && let Some(object) = cx.extern_object(id).cloned()
        && exts.contains(&cx.program.externs[object.ext.index()].name.as_str())
    {
        return Ok((id, object));
    }
    let what = format!("anything but {} as table property `{}`", exts.join(" or "), property.name);
    cx.unsupported(property.span, what)
}

/// Calls a function with the cell of the matching entry, in an action of the table to which `object` belongs.
pub(crate) fn direct_call(
    cx: &mut Lowerer<'_>,
    call: &ExternCall,
    object: ObjectId,
    function: Function,
    more: Vec<Expr>,
    outs: Vec<ir::FieldId>,
) -> Lowered<()> {
    let state = cx.extern_object(object).and_then(|o| o.state);
    let kind = state.map(|s| &cx.ir.instances[s.index()].kind);
    let Some(InstanceKind::DirectCounter { table, .. } | InstanceKind::DirectMeter { table, .. }) = kind
    else {
        return Err(cx.report(without_table(call)));
    };
    let table = *table;
    let cell = Expr::Field(cx.entry_cell(table));
    let args = std::iter::once(cell).chain(more).collect();
    cx.call_extern(function, state, args, outs, vec![]);
    Ok(())
}

/// The error for a direct counter or meter that belongs to no table.
pub(crate) fn without_table(call: &ExternCall) -> Diagnostic {
    let text = format!("`{}` of an object that belongs to no table", call.name);
    Diagnostic::error("place", call.span, text)
        .note("it has a cell for each entry of the table that names it in a property: no table does")
}

/// Makes a direct meter measure each packet that hits its table, before the action runs; returns the field with the
/// colour.
pub(crate) fn meter_every_hit(
    cx: &mut Lowerer<'_>,
    table: ir::TableId,
    meter: ir::InstanceId,
) -> ir::FieldId {
    let name = format!("{}.$colour$", cx.ir.instances[meter.index()].name);
    let colour = cx.field(&name, COLOUR_WIDTH, ir::FieldKind::Temporary);
    let cell = Expr::Field(cx.entry_cell(table));
    let op = Op::Extern {
        function: Function::MeterDirect,
        instance: Some(meter),
        args: vec![cell],
        outs: vec![colour],
        text: vec![],
    };
    cx.before_actions(table, op);
    colour
}

/// Bits of a meter's colour: green 0, yellow 1, red 2.
pub(crate) const COLOUR_WIDTH: u32 = 2;

/// Returns the digest whose messages have the bits of a (substituted) type.
pub(crate) fn digest(cx: &mut Lowerer<'_>, name: &str, ty: &Type, span: Span) -> ir::InstanceId {
    let mut fields = Vec::new();
    data::columns(cx, ty, "", &mut fields);
    cx.add_instance(name, InstanceKind::Digest { fields }, span)
}

/// Sets `out` argument `i`, scalar or not, to a value.
pub(crate) fn give(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize, value: Value) -> Lowered<()> {
    match call.args.get(i).and_then(|a| a.place.clone()) {
        Some(place) => cx.assign(&place, value),
        None => Ok(()),
    }
}

/// Lowers `assert` or `assume`; a trace names the condition by its source text.
pub(crate) fn assertion(cx: &mut Lowerer<'_>, call: &ExternCall, function: Function) -> Lowered<Value> {
    let condition = call.scalar(cx, 0)?;
    let text = cx.source_text(call.args[0].span);
    cx.call_extern(function, None, vec![condition], vec![], vec![text]);
    Ok(Value::Void)
}

/// Lowers a call of an extern function or method that the program itself declares, with unknown behaviour. The call
/// stays in the program, so that it can be checked; executors refuse it.
pub(crate) fn foreign(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
    let name = match &call.object {
        Some((_, ext)) => format!("{ext}.{}", call.name),
        None => call.name.clone(),
    };
    let (mut args, mut outs, mut text) = (Vec::new(), Vec::new(), Vec::new());
    text.extend(call.object.as_ref().and_then(|(id, _)| Some(cx.extern_object(*id)?.name.clone())));
    let mut results = Vec::new();
    for (i, arg) in call.args.iter().enumerate() {
        match &arg.value {
            Some(Value::Text(t)) => text.push(t.clone()),
            Some(value) => args.extend(value.leaves()),
            None => {}
        }
        if arg.place.is_some() && matches!(arg.dir, Direction::Out | Direction::InOut) {
            results.push((i, result(cx, &arg.ty, arg.span, &mut outs)?));
        }
    }
    let returned = match call.ret {
        Type::Void => Value::Void,
        ref ty => result(cx, ty, call.span, &mut outs)?,
    };
    cx.call_extern(Function::Foreign(name.into()), None, args, outs, text);
    for (i, value) in results {
        give(cx, call, i, value)?;
    }
    Ok(returned)
}

/// Creates fields for a value of a (substituted) type.
fn result(cx: &mut Lowerer<'_>, ty: &Type, span: Span, outs: &mut Vec<ir::FieldId>) -> Lowered<Value> {
    let shape = cx.zero(ty, span)?;
    Ok(shape.map(&mut |leaf| {
        let field = cx.temporary(leaf.width(&cx.ir));
        outs.push(field);
        Expr::Field(field)
    }))
}

/// Returns the number that selects a member: the hash of the selector keys, without those of invalid headers.
pub(crate) fn selector_hash(
    cx: &mut Lowerer<'_>,
    keys: Vec<Value>,
    algorithm: Algorithm,
    width: u32,
) -> Expr {
    let pieces = data::of_valid(cx, &Value::Struct(keys), &build::truth(true));
    data::hash_of(cx, algorithm.plain(), None, pieces, vec![], width)
}
