//! Steps of a trace as JSON objects. Every object has `"step"`; those from the P4 text have `"at"`.

use num_bigint::BigUint;
use p4jet_ir::{FieldId, Intrinsic, Loc, Program, TableId};
use p4jet_tables::{Entry, KeyMatch, Near};
use serde_json::{Map, Value, json};

use crate::trace::{Absent, Cause, Matched, Since, Trace, TraceEvent};
use crate::wording::{Wording, code_name, field_name};

impl Trace {
    /// Returns the trace as a JSON array with one object per step; values are hexadecimal strings.
    pub fn to_json(&self, program: &Program) -> Value {
        let mut words = Wording::new(program);
        let steps = self.events.iter().map(|event| {
            words.follow(event);
            step(program, &words, event)
        });
        Value::Array(steps.collect())
    }
}

fn hex(value: &BigUint) -> Value {
    Value::String(format!("{value:#x}"))
}

fn place(p: &Program, loc: Loc) -> Value {
    let place = &p.locs[loc.index()];
    match place.line {
        0 => Value::Null,
        line => Value::String(format!("{}:{line}:{}", place.file, place.column)),
    }
}

fn fields(p: &Program, fields: &[(FieldId, BigUint)]) -> Value {
    Value::Object(
        fields
            .iter()
            .map(|(field, value)| (field_name(p, *field).into_owned(), hex(value)))
            .collect::<Map<_, _>>(),
    )
}

fn step(p: &Program, words: &Wording<'_>, event: &TraceEvent) -> Value {
    let header_name = |h: p4jet_ir::HeaderId| &p.headers[h.index()].name;
    match event {
        TraceEvent::Arrived { port, length } => json!({"step": "arrived", "port": port, "bytes": length}),
        TraceEvent::Block { block } => {
            let block = &p.blocks[block.index()];
            json!({"step": "block", "kind": block.kind.name(), "name": block.name})
        }
        TraceEvent::Node { label } => json!({"step": "node", "label": label}),
        TraceEvent::Extract { header, at_bit, bits, fields: values, loc } => json!({
            "step": "extract", "header": header_name(*header), "at_bit": at_bit, "bits": bits,
            "fields": fields(p, values),
            "at": place(p, *loc),
        }),
        TraceEvent::TooShort { header, bits_needed, bits_available, loc } => json!({
            "step": "too_short", "header": header.map(header_name), "bits_needed": bits_needed.to_string(),
            "bits_available": bits_available, "at": place(p, *loc),
        }),
        TraceEvent::VarbitTooLong { header, bits, bits_max, loc } => json!({
            "step": "varbit_too_long", "header": header_name(*header), "bits": bits.to_string(), "bits_max": bits_max,
            "at": place(p, *loc),
        }),
        TraceEvent::Advance { bits, loc } => {
            json!({"step": "advance", "bits": bits.to_string(), "at": place(p, *loc)})
        }
        TraceEvent::Lookahead { dest, value, loc } => {
            json!({"step": "lookahead", "field": field_name(p, *dest), "value": hex(value), "at": place(p, *loc)})
        }
        TraceEvent::Set { field, old, new, loc } => json!({
            "step": "set", "field": field_name(p, *field), "old": hex(old), "new": hex(new), "at": place(p, *loc),
        }),
        TraceEvent::Branch { condition, fields: values, held, loc } => json!({
            "step": "branch", "condition": words.expr(condition), "held": held, "fields": fields(p, values),
            "at": place(p, *loc),
        }),
        TraceEvent::Switch { selector, value, matched, loc } => json!({
            "step": "switch", "selector": words.expr(selector), "value": hex(value), "matched": matched,
            "at": place(p, *loc),
        }),
        TraceEvent::Apply { table, keys, absent, matched, loc } => {
            let mut object =
                json!({"step": "apply", "table": p.tables[table.index()].name, "at": place(p, *loc)});
            let keys: Vec<Value> = p.tables[table.index()]
                .keys
                .iter()
                .zip(keys)
                .zip(absent)
                .map(|((key, value), absent)| {
                    let absent = absent.as_ref().map(|absent| absent_json(p, absent));
                    json!({
                        "name": key.name, "kind": key.kind.name(), "value": hex(value), "invalid": absent,
                    })
                })
                .collect();
            object["keys"] = Value::Array(keys);
            match matched {
                Matched::Hit { handle, entry, .. } => {
                    object["hit"] = true.into();
                    object["handle"] = handle.0.into();
                    object["entry"] = entry_json(p, *table, entry);
                }
                Matched::Miss { nearest } => {
                    object["hit"] = false.into();
                    object["nearest"] =
                        nearest.iter().map(|(near, entry)| near_json(p, *table, near, entry)).collect();
                }
            }
            object
        }
        TraceEvent::Selected { group, selector, member, loc } => json!({
            "step": "selected", "group": group, "selector": group.map(|_| selector), "member": member,
            "at": place(p, *loc),
        }),
        TraceEvent::Action { action, data } => {
            let action = &p.actions[action.index()];
            let data: Vec<_> = action.params.iter().copied().zip(data.iter().cloned()).collect();
            json!({"step": "action", "name": action.control_name, "data": fields(p, &data), "at": place(p, action.loc)})
        }
        TraceEvent::ActionEnd { action, exits } => {
            json!({"step": "action_end", "name": p.actions[action.index()].control_name, "exits": exits})
        }
        TraceEvent::Extern { function, instance, args, outs, text, loc } => json!({
            "step": "extern", "function": function, "instance": instance.map(|i| &p.instances[i.index()].name),
            "args": args.iter().map(|(value, _)| hex(value)).collect::<Vec<_>>(), "results": fields(p, outs),
            "text": text, "at": place(p, *loc),
        }),
        TraceEvent::Emit { header, valid, bits, loc } => json!({
            "step": "emit", "header": header_name(*header), "valid": valid, "bits": bits, "at": place(p, *loc),
        }),
        TraceEvent::Deparsed { header_bytes, payload_bytes } => {
            json!({"step": "deparsed", "header_bytes": header_bytes, "payload_bytes": payload_bytes})
        }
        TraceEvent::Copied { begin, to, loc } => {
            let mut object = json!({"step": "copied", "begin": begin.name(), "at": place(p, *loc)});
            if let Some((list, id, ports)) = to {
                object[list.name()] = json!(id.to_string());
                object["ports"] = json!(ports);
            }
            object
        }
        TraceEvent::Enqueued { port, queue, why } => {
            json!({"step": "enqueued", "port": port, "queue": queue, "dropped": why})
        }
        TraceEvent::CopyBegins { begin, length, queue } => {
            let mut object = json!({"step": "copy_begins", "begin": begin.name(), "bytes": length});
            if let Some((port, queued, now_us)) = queue {
                object["queue"] = json!({
                    "port": port, "number": queued.queue,
                    "waited_us": queued.value(Intrinsic::QueueTime, *now_us),
                    "enqueue_depth": queued.enqueue_depth, "dequeue_depth": queued.dequeue_depth,
                });
            }
            object
        }
        TraceEvent::Truncated { length, loc } => {
            json!({"step": "truncated", "bytes": length, "at": place(p, *loc)})
        }
        TraceEvent::Ends { waiting } => json!({"step": "trace_ends", "waiting": waiting}),
        TraceEvent::LeftOut { steps } => json!({"step": "left_out", "steps": steps}),
        TraceEvent::CopiesDropped { why } => json!({"step": "copies_dropped", "why": why}),
        TraceEvent::Done => json!({"step": "done"}),
        TraceEvent::Reject { code, loc } => {
            json!({"step": "reject", "error": code_name(p, code), "at": place(p, *loc)})
        }
        TraceEvent::Dropped { reason, loc, causes: because } => json!({
            "step": "dropped", "reason": reason.text(p), "because": causes(p, because), "at": place(p, *loc),
        }),
        TraceEvent::Sent { port, length, causes: because } => {
            json!({"step": "sent", "port": port, "bytes": length, "because": causes(p, because)})
        }
    }
}

fn entry_json(p: &Program, table: TableId, entry: &Entry) -> Value {
    let keys = &p.tables[table.index()].keys;
    let matches: Vec<Value> = keys
        .iter()
        .zip(&entry.key)
        .map(|(key, m)| match m {
            KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => json!({"name": key.name, "value": hex(v)}),
            KeyMatch::Lpm { value, prefix_len } => {
                json!({"name": key.name, "value": hex(value), "prefix_len": prefix_len})
            }
            KeyMatch::Ternary { value, mask } => {
                json!({"name": key.name, "value": hex(value), "mask": hex(mask)})
            }
            KeyMatch::Range { lo, hi } => json!({"name": key.name, "lo": hex(lo), "hi": hex(hi)}),
            KeyMatch::Optional(None) => json!({"name": key.name}),
        })
        .collect();
    json!({"priority": entry.priority, "key": matches})
}

/// Returns an entry that nearly matched, with the values that would have matched.
fn near_json(p: &Program, table: TableId, near: &Near, entry: &Entry) -> Value {
    let keys = &p.tables[table.index()].keys;
    let differences: Vec<Value> = keys
        .iter()
        .zip(&near.fields)
        .filter_map(|(key, difference)| {
            let d = difference.as_ref()?;
            let mask = d.mask.as_ref().map(hex);
            Some(
                json!({"name": key.name, "found": hex(&d.found), "expected": hex(&d.expected), "mask": mask}),
            )
        })
        .collect();
    let mut object = entry_json(p, table, entry);
    object["handle"] = near.handle.0.into();
    object["differences"] = Value::Array(differences);
    object
}

fn causes(p: &Program, causes: &[Cause]) -> Value {
    let cause = |cause: &Cause| {
        let by = cause.written.and_then(|w| w.by);
        json!({
            "field": field_name(p, cause.field),
            "value": hex(&cause.value),
            "written": cause.written.is_some(),
            "action": by.map(|(action, _)| &p.actions[action.index()].control_name),
            "table": by.map(|(_, table)| &p.tables[table.index()].name),
            "at": cause.written.map(|w| place(p, w.loc)),
            "invalid": cause.absent.as_ref().map(|absent| absent_json(p, absent)),
        })
    };
    Value::Array(causes.iter().map(cause).collect())
}

fn absent_json(p: &Program, absent: &Absent) -> Value {
    let since = match absent.since {
        Since::Ever => json!("never valid"),
        Since::Here(loc) => place(p, loc),
        Since::TheCopyBegan => Value::Null,
    };
    json!({"header": p.headers[absent.header.index()].name, "since": since})
}
