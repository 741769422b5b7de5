//! The results of reading commands as JSON: the counterpart of [`super::show`].
//!
//! Values of fields and parameters are hexadecimal texts of any width, such as `"0x0a000207"`; handles, indices, counts and
//! values of registers of up to 64 bits are numbers.

use super::show;
use num_bigint::BigUint;
use p4jet_control::schema::needs_priority;
use p4jet_control::value::hex;
use p4jet_control::{EntryState, ObjectKind, Schema, param_names};
use p4jet_externs::{CounterValue, Node, Rates, Session};
use p4jet_ir::{ActionId, Key, Program, Table, TableId};
use p4jet_tables::{Action, ActionProfile, KeyMatch, Life};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

fn value(value: &BigUint, width: u32) -> Value {
    format!("0x{}", hex(value, width)).into()
}

pub(super) fn tables(program: &Program, schema: &Schema) -> Value {
    schema
        .names(ObjectKind::Table)
        .sorted()
        .map(|t| Value::Object(table(program, &program.tables[t as usize])))
        .collect()
}

fn table(program: &Program, table: &Table) -> Map<String, Value> {
    let key = |k: &Key| json!({"name": k.name, "match": k.kind.name(), "width": k.width});
    let mut object = Map::new();
    object.insert("name".into(), table.name.clone().into());
    let profile = table.profile.map(|profile| program.instances[profile.index()].name.clone());
    object.insert("profile".into(), profile.into());
    object.insert("key".into(), table.keys.iter().map(key).collect());
    object
}

pub(super) fn actions(program: &Program, schema: &Schema) -> Value {
    schema.names(ObjectKind::Action).sorted().map(|a| action(program, ActionId(a))).collect()
}

fn action(program: &Program, id: ActionId) -> Value {
    let action = &program.actions[id.index()];
    let names = param_names(program, id);
    let params = names.iter().zip(&action.params);
    let params: Value =
        params.map(|(name, field)| json!({"name": name, "width": program.width(*field)})).collect();
    json!({"name": action.control_name, "params": params})
}

pub(super) fn table_actions(program: &Program, schema: &Schema, id: TableId) -> Value {
    let table = &program.tables[id.index()];
    let actions = schema.names(ObjectKind::ActionOf(id)).sorted();
    actions.map(|a| action(program, table.actions[a as usize].action)).collect()
}

pub(super) fn table_info(program: &Program, schema: &Schema, id: TableId) -> Value {
    let mut object = table(program, &program.tables[id.index()]);
    object.insert("actions".into(), table_actions(program, schema, id));
    object.into()
}

pub(super) fn switch_info(program: &Program, schema: &Schema) -> Value {
    let rows = show::switch_info_rows(program, schema);
    let number = |text: String| text.parse::<u64>().map_or(Value::String(text), Value::from);
    let (name, counts) = rows.split_first().expect("there are rows");
    let mut object = Map::new();
    object.insert(name.0.into(), name.1.clone().into());
    for (name, count) in counts {
        object.insert(name.replace(' ', "_"), number(count.clone()));
    }
    object.into()
}

fn key_match(m: &KeyMatch, width: u32) -> Map<String, Value> {
    let hex = |number: &BigUint| value(number, width);
    let fields = match m {
        KeyMatch::Exact(value) => vec![("match", "exact".into()), ("value", hex(value))],
        KeyMatch::Lpm { value, prefix_len } => {
            vec![("match", "lpm".into()), ("value", hex(value)), ("prefix_len", (*prefix_len).into())]
        }
        KeyMatch::Ternary { value, mask } => {
            vec![("match", "ternary".into()), ("value", hex(value)), ("mask", hex(mask))]
        }
        KeyMatch::Range { lo, hi } => vec![("match", "range".into()), ("low", hex(lo)), ("high", hex(hi))],
        KeyMatch::Optional(found) => {
            vec![("match", "optional".into()), ("value", found.as_ref().map(hex).into())]
        }
    };
    fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

fn key(keys: &[Key], matches: &[KeyMatch]) -> Value {
    let field = |(m, key): (&KeyMatch, &Key)| {
        let mut object = Map::new();
        object.insert("name".into(), key.name.clone().into());
        object.append(&mut key_match(m, key.width));
        Value::Object(object)
    };
    matches.iter().zip(keys).map(field).collect()
}

fn call(program: &Program, table: &Table, call: &Action) -> Value {
    if let Some(member) = call.as_member() {
        return json!({"member": member});
    }
    if let Some(group) = call.as_group() {
        return json!({"group": group});
    }
    let id = table.actions[call.action as usize].action;
    let widths = program.actions[id.index()].params.iter().map(|field| program.width(*field));
    let names = param_names(program, id).into_iter().map(str::to_string);
    let values = call.data.iter().zip(widths).map(|(v, width)| value(v, width));
    let params: Map<String, Value> = names.zip(values).collect();
    json!({"action": program.actions[id.index()].control_name, "params": params})
}

pub(crate) fn entry(program: &Program, id: TableId, state: &EntryState) -> Map<String, Value> {
    let table = &program.tables[id.index()];
    let mut object = Map::new();
    object.insert("handle".into(), state.handle.into());
    object.insert("key".into(), key(&table.keys, &state.key));
    if needs_priority(table) {
        object.insert("priority".into(), state.priority.into());
    }
    if let Value::Object(mut action) = call(program, table, &state.action) {
        object.append(&mut action);
    }
    if let Some(Life { timeout_ms, since_hit_ms }) = state.life {
        object.insert("timeout_ms".into(), timeout_ms.into());
        object.insert("since_hit_ms".into(), since_hit_ms.into());
    }
    object
}

pub(super) fn member(program: &Program, table: &Table, handle: u32, action: &Action) -> Value {
    let mut object = Map::new();
    object.insert("handle".into(), handle.into());
    if let Value::Object(mut action) = call(program, table, action) {
        object.append(&mut action);
    }
    object.into()
}

pub(super) fn group(handle: u32, members: &[u32]) -> Value {
    json!({"handle": handle, "members": members})
}

pub(super) fn profile(program: &Program, table: &Table, profile: &ActionProfile) -> Map<String, Value> {
    let mut object = Map::new();
    let members =
        profile.members().into_iter().map(|(handle, action)| member(program, table, handle, &action));
    object.insert("members".into(), members.collect());
    if profile.is_selector() {
        let groups = profile.groups().into_iter().map(|(handle, members)| group(handle, &members));
        object.insert("groups".into(), groups.collect());
    }
    object
}

pub(super) fn dump(
    program: &Program,
    id: TableId,
    entries: Vec<Value>,
    members: Option<&ActionProfile>,
    default: Option<&Action>,
) -> Value {
    let declared = &program.tables[id.index()];
    let mut object = Map::new();
    object.insert("entries".into(), entries.into());
    if let Some(members) = members {
        object.append(&mut profile(program, declared, members));
    }
    object.insert("default".into(), default.map(|action| call(program, declared, action)).into());
    object.into()
}

pub(super) fn counter(counter: CounterValue) -> Value {
    json!({"packets": counter.packets, "bytes": counter.bytes})
}

/// The value of a register's cell.
pub(super) fn cell(number: &BigUint, width: u32) -> Value {
    match u64::try_from(number) {
        Ok(small) if width <= 64 => small.into(),
        _ => value(number, width),
    }
}

pub(super) fn rates(rates: Option<&Rates>) -> Value {
    let rate = |rate: &p4jet_externs::Rate| json!({"rate": rate.per_us, "burst": rate.burst});
    rates.map(|rates| rates.iter().map(rate).collect::<Value>()).into()
}

pub(super) fn value_set(table: &Table) -> Value {
    json!({"name": table.name, "width": show::set_width(table)})
}

pub(super) fn set_member(keys: &[Key], member: &[KeyMatch]) -> Value {
    key(keys, member)
}

pub(super) fn multicast(groups: &[(u32, Vec<(u32, Node)>)], lags: &[(u32, BTreeSet<u32>)]) -> Value {
    let node = |(handle, node): &(u32, Node)| json!({"handle": handle, "rid": node.replication_id, "ports": node.ports, "lags": node.lags});
    let groups = groups.iter().map(|(number, nodes)| {
        let nodes: Value = nodes.iter().map(node).collect();
        json!({"group": number, "nodes": nodes})
    });
    let lags = lags.iter().map(|(lag, ports)| json!({"lag": lag, "ports": ports}));
    json!({"groups": groups.collect::<Value>(), "lags": lags.collect::<Value>()})
}

pub(super) fn session(session: &Session) -> Value {
    let port = session.replicas.first().map(|replica| replica.port);
    let mut value = json!({"port": port, "group": session.group});
    if let Some(bytes) = session.bytes_max {
        value["bytes"] = bytes.into();
    }
    value
}
