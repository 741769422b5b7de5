//! The requests of `clone`, `resubmit`, `recirculate` and `truncate`: calls record them in hidden fields of the packet,
//! and the traffic manager carries them out. As in bmv2, the last call of each wins, and fields are preserved with their
//! values at the time of the traffic manager.

use std::collections::HashMap;

use p4jet_analysis::typed::Type;
use p4jet_ir as ir;
use p4jet_ir::{BinaryOp, Expr, FieldId, FieldKind};
use p4jet_lower::{ExternCall, Lowered, Lowerer, Storage, Value, build};
use p4jet_p4info::Numbered;

/// The state of one lowering.
#[derive(Default)]
pub(super) struct Memory {
    /// The user's metadata.
    pub(super) meta: Option<(Type, Storage)>,
    /// Lists of fields to preserve; number n is at n - 1.
    pub(super) lists: Vec<Vec<FieldId>>,
    /// The numbers in `lists` of the lists that calls name, so that the fields of each are searched once.
    named_lists: HashMap<num_bigint::BigInt, Expr>,
    pub(super) clone: Option<CloneRequest>,
    /// The number of the list to preserve; 0 for no request. `recirculate` is the same.
    pub(super) resubmit: Option<FieldId>,
    pub(super) recirculate: Option<FieldId>,
    pub(super) truncate: Option<TruncateRequest>,
    /// The digests by their names.
    pub(super) digests: HashMap<String, ir::InstanceId>,
    /// The calls of digests without a named type, numbered as in P4Info.
    pub(super) numbered_digests: Option<Numbered>,
    /// The fields with the colours of direct meters.
    pub(super) colours: HashMap<ir::InstanceId, FieldId>,
}

#[derive(Clone, Copy)]
pub(super) struct CloneRequest {
    /// Like [`Memory::resubmit`].
    pub(super) list: FieldId,
    pub(super) session: FieldId,
}

#[derive(Clone, Copy)]
pub(super) struct TruncateRequest {
    pub(super) wanted: FieldId,
    pub(super) bytes: FieldId,
}

pub(super) fn memory<'m>(cx: &'m mut Lowerer<'_>) -> &'m mut Memory {
    if !cx.memory.is::<Memory>() {
        cx.memory = Box::new(Memory::default());
    }
    cx.memory.downcast_mut().expect("its type was just checked")
}

impl Memory {
    /// `clone(type, session)`, with the list of fields in argument `list`. The type is redundant: it follows from the
    /// place of the call.
    pub(super) fn clone(cx: &mut Lowerer<'_>, call: &ExternCall, list: Option<usize>) -> Lowered<Value> {
        let session = call.scalar(cx, 1)?;
        let list = match list {
            Some(i) => field_list(cx, call, i)?,
            None => list_number(cx, Vec::new()),
        };
        let request = match memory(cx).clone {
            Some(request) => request,
            None => {
                let list = hidden(cx, "$clone.list$", LIST_WIDTH);
                let session = hidden(cx, "$clone.session$", cx.width(&session));
                *memory(cx).clone.insert(CloneRequest { list, session })
            }
        };
        cx.set(request.list, list);
        cx.set(request.session, session);
        Ok(Value::Void)
    }

    pub(super) fn resubmit(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
        let list = field_list(cx, call, 0)?;
        let field = match memory(cx).resubmit {
            Some(field) => field,
            None => {
                let field = hidden(cx, "$resubmit.list$", LIST_WIDTH);
                *memory(cx).resubmit.insert(field)
            }
        };
        cx.set(field, list);
        Ok(Value::Void)
    }

    pub(super) fn recirculate(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
        let list = field_list(cx, call, 0)?;
        let field = match memory(cx).recirculate {
            Some(field) => field,
            None => {
                let field = hidden(cx, "$recirculate.list$", LIST_WIDTH);
                *memory(cx).recirculate.insert(field)
            }
        };
        cx.set(field, list);
        Ok(Value::Void)
    }

    /// `truncate(length)`: the minimum length counts.
    pub(super) fn truncate(cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value> {
        let bytes = call.scalar(cx, 0)?;
        let request = match memory(cx).truncate {
            Some(request) => request,
            None => {
                let wanted = hidden(cx, "$truncate.wanted$", 1);
                let bytes = hidden(cx, "$truncate.bytes$", cx.width(&bytes));
                *memory(cx).truncate.insert(TruncateRequest { wanted, bytes })
            }
        };
        let before = Expr::Field(request.bytes);
        let shorter = build::binary(BinaryOp::LtU, before.clone(), bytes.clone());
        let keep = build::and(Expr::Field(request.wanted), shorter);
        cx.set(request.bytes, build::select(keep, before, bytes));
        cx.set(request.wanted, build::truth(true));
        Ok(Value::Void)
    }
}

const LIST_WIDTH: u32 = 16;

fn hidden(cx: &mut Lowerer<'_>, name: &str, width: u32) -> FieldId {
    cx.field(name, width, FieldKind::Temporary)
}

/// Returns the number of the list that argument `i` names: the fields of the user's metadata that are marked
/// `@field_list(number)`; in the deprecated forms, the fields among the data themselves.
fn field_list(cx: &mut Lowerer<'_>, call: &ExternCall, i: usize) -> Lowered<Expr> {
    let mut fields = Vec::new();
    if !call.name.ends_with("_preserving_field_list") {
        for leaf in call.value(cx, i)?.leaves() {
            if let Expr::Field(field) = leaf
                && cx.ir.fields[field.index()].kind != FieldKind::Temporary
            {
                fields.push(field);
            }
        }
        return Ok(list_number(cx, fields));
    }
    let index = call.constant(cx, i)?.into();
    if let Some(number) = memory(cx).named_lists.get(&index) {
        return Ok(number.clone());
    }
    if let Some((ty, storage)) = memory(cx).meta.clone() {
        marked(cx, &ty, &storage, &index, &mut fields);
    }
    let number = list_number(cx, fields);
    memory(cx).named_lists.insert(index, number.clone());
    Ok(number)
}

fn list_number(cx: &mut Lowerer<'_>, mut fields: Vec<FieldId>) -> Expr {
    fields.sort_unstable();
    fields.dedup();
    let lists = &mut memory(cx).lists;
    let place = lists.iter().position(|list| *list == fields).unwrap_or_else(|| {
        lists.push(fields);
        lists.len() - 1
    });
    Expr::constant(place + 1, LIST_WIDTH)
}

/// Collects the fields marked with a number.
fn marked(
    cx: &Lowerer<'_>,
    ty: &Type,
    storage: &Storage,
    index: &num_bigint::BigInt,
    out: &mut Vec<FieldId>,
) {
    let Type::Struct(id, _) = ty else { return };
    let declared = &cx.program.structs[id.index()].fields;
    for (((_, ty), declared), part) in cx.fields_of(ty).iter().zip(declared).zip(storage.parts()) {
        let lists = declared.annotations.iter().filter(|a| a.name.text == "field_list");
        if lists.filter_map(|a| cx.annotation_numbers(a)).flatten().any(|n| n == *index) {
            out.extend(part.leaves());
        } else {
            marked(cx, ty, part, index, out);
        }
    }
}
