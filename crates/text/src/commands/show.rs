//! The texts that scripts written for bmv2's CLI parse.

use num_bigint::BigUint;
use p4jet_control::value::{hex, hex_bytes};
use p4jet_control::{EntryState, ObjectKind, Schema, param_names};
use p4jet_ir::{ActionId, Key, Program, Table, TableId};
use p4jet_tables::{Action, ActionProfile, KeyMatch, Life};

/// One line per table: name, implementation, key.
pub(super) fn tables(program: &Program, schema: &Schema) -> String {
    schema.names(ObjectKind::Table).sorted().map(|t| table(program, &program.tables[t as usize])).collect()
}

fn table(program: &Program, table: &Table) -> String {
    let keys: Vec<_> =
        table.keys.iter().map(|k| format!("{}({}, {})", k.name, k.kind.name(), k.width)).collect();
    let profile = table.profile.map_or("None", |profile| &program.instances[profile.index()].name);
    format!("{:30} [implementation={profile}, mk={}]\n", table.name, keys.join(",\t"))
}

/// One line per action: name, parameters.
pub(super) fn actions(program: &Program, schema: &Schema) -> String {
    schema.names(ObjectKind::Action).sorted().map(|a| action(program, ActionId(a))).collect()
}

fn action(program: &Program, id: ActionId) -> String {
    let action = &program.actions[id.index()];
    let names = param_names(program, id);
    let params =
        names.iter().zip(&action.params).map(|(name, field)| format!("{name}({})", program.width(*field)));
    format!("{:30} [{}]\n", action.control_name, params.collect::<Vec<_>>().join(",\t"))
}

/// The actions of one table.
pub(super) fn table_actions(program: &Program, schema: &Schema, id: TableId) -> String {
    let table = &program.tables[id.index()];
    schema
        .names(ObjectKind::ActionOf(id))
        .sorted()
        .map(|a| action(program, table.actions[a as usize].action))
        .collect()
}

/// The table's line and its actions.
pub(super) fn table_info(program: &Program, schema: &Schema, id: TableId) -> String {
    let stars = "*".repeat(80);
    format!("{}{stars}\n{}", table(program, &program.tables[id.index()]), table_actions(program, schema, id))
}

/// The objects of a program.
pub(super) fn switch_info(program: &Program, schema: &Schema) -> String {
    let rows = switch_info_rows(program, schema);
    rows.iter().map(|(name, value)| format!("{name:12}: {value}\n")).collect()
}

/// The name of the program, then the number of objects of each kind.
pub(super) fn switch_info_rows(program: &Program, schema: &Schema) -> [(&'static str, String); 8] {
    let number = |kind| schema.names(kind).names().count().to_string();
    [
        ("program", program.name.clone()),
        ("tables", number(ObjectKind::Table)),
        ("actions", number(ObjectKind::Action)),
        ("counters", number(ObjectKind::Counter)),
        ("registers", number(ObjectKind::Register)),
        ("meters", number(ObjectKind::Meter)),
        ("profiles", number(ObjectKind::Profile)),
        ("value sets", number(ObjectKind::ValueSet)),
    ]
}

/// `match key:           EXACT-0a:00:02:07<TAB>LPM-c6:33:64:00/24`
pub(super) fn match_key_line(table: &Table, key: &[KeyMatch]) -> String {
    let fields = key.iter().zip(&table.keys).map(|(m, k)| match_text(m, k.width, hex_bytes, "-", ""));
    format!("{:20} {}\n", "match key:", fields.collect::<Vec<_>>().join("\t"))
}

/// The match kind in bmv2's words, padded to `pad`, and the value.
fn match_text(
    m: &KeyMatch,
    width: u32,
    hex: fn(&BigUint, u32) -> String,
    between: &str,
    pad: &str,
) -> String {
    let (kind, value) = match m {
        KeyMatch::Exact(value) => ("EXACT", hex(value, width)),
        KeyMatch::Lpm { value, prefix_len } => ("LPM", format!("{}/{prefix_len}", hex(value, width))),
        KeyMatch::Ternary { value, mask } => {
            ("TERNARY", format!("{} &&& {}", hex(value, width), hex(mask, width)))
        }
        KeyMatch::Range { lo, hi } => ("RANGE", format!("{} -> {}", hex(lo, width), hex(hi, width))),
        // bmv2 has no optional fields: it shows them as ternary.
        KeyMatch::Optional(Some(value)) => (
            "TERNARY",
            format!("{} &&& {}", hex(value, width), hex(&p4jet_control::value::ones(width), width)),
        ),
        KeyMatch::Optional(None) => {
            let zero = hex(&BigUint::default(), width);
            ("TERNARY", format!("{zero} &&& {zero}"))
        }
    };
    format!("{kind}{}{between}{value}", pad.get(kind.len()..).unwrap_or(""))
}

/// The lines with an action, as the user named it, and its data.
pub(super) fn action_lines(program: &Program, table: &Table, typed: &str, call: &Action) -> String {
    let data: Vec<_> = data_with_widths(program, table, call).map(|(v, w)| hex_bytes(v, w)).collect();
    format!("{:20} {typed}\n{:20} {}\n", "action:", "runtime data:", data.join("\t"))
}

fn data_with_widths<'a>(
    program: &'a Program,
    table: &Table,
    call: &'a Action,
) -> impl Iterator<Item = (&'a BigUint, u32)> {
    let action = &program.actions[table.actions[call.action as usize].action.index()];
    call.data.iter().zip(&action.params).map(|(value, field)| (value, program.width(*field)))
}

/// `Action entry: MyIngress.route - 001122334455, 0003`, `Index: member(0)`
fn action_entry(program: &Program, table: &Table, call: &Action) -> String {
    if let Some(member) = call.as_member() {
        return format!("Index: member({member})\n");
    }
    if let Some(group) = call.as_group() {
        return format!("Index: group({group})\n");
    }
    let name = &program.actions[table.actions[call.action as usize].action.index()].control_name;
    let data: Vec<_> = data_with_widths(program, table, call).map(|(v, w)| hex(v, w)).collect();
    format!("Action entry: {name} - {}\n", data.join(", "))
}

/// An entry in a dump.
pub(super) fn entry(program: &Program, schema: &Schema, id: TableId, state: &EntryState) -> String {
    let table = &program.tables[id.index()];
    let pad = table.keys.iter().map(|k| k.name.chars().count()).max().unwrap_or(0).max(20);
    let mut out = format!("Dumping entry {:#x}\nMatch key:\n", state.handle);
    for (m, key) in state.key.iter().zip(&table.keys) {
        let value = match_text(m, key.width, hex, "", "          ");
        out += &format!("* {:pad$}: {value}\n", key.name);
    }
    if schema.shape(id).needs_priority {
        out += &format!("Priority: {}\n", state.priority);
    }
    out += &action_entry(program, table, &state.action);
    if let Some(Life { timeout_ms, since_hit_ms }) = state.life {
        out += &format!("Life: {since_hit_ms}ms since hit, timeout is {timeout_ms}ms\n");
    }
    out
}

/// A member of an action profile; its actions are those of `table`.
pub(super) fn member(program: &Program, table: &Table, handle: u32, action: &Action) -> String {
    format!("Dumping member {handle}\n{}", action_entry(program, table, action))
}

/// A group of an action profile.
pub(super) fn group(handle: u32, members: &[u32]) -> String {
    let members: Vec<_> = members.iter().map(u32::to_string).collect();
    format!("Dumping group {handle}\nMembers: [{}]\n", members.join(", "))
}

/// A whole action profile.
pub(super) fn profile(program: &Program, table: &Table, profile: &ActionProfile) -> String {
    let mut out = "==========\nMEMBERS\n".to_string();
    for (handle, action) in profile.members() {
        out += "**********\n";
        out += &member(program, table, handle, &action);
    }
    if profile.is_selector() {
        out += "==========\nGROUPS\n";
        for (handle, members) in profile.groups() {
            out += "**********\n";
            out += &group(handle, &members);
        }
    }
    out
}

/// A value set and the total width of its fields.
pub(super) fn value_set(table: &Table) -> String {
    format!("{:30} [compressed bitwidth:{}]\n", table.name, set_width(table))
}

pub(super) fn set_width(table: &Table) -> u32 {
    table.keys.iter().map(|key| key.width).sum()
}

/// A member of a value set: one number, as in bmv2, if possible; otherwise the fields one after the other.
pub(super) fn set_member(keys: &[Key], member: &[KeyMatch]) -> String {
    let mut whole = (BigUint::default(), 0);
    let joined = member.iter().zip(keys).all(|(m, key)| {
        let KeyMatch::Exact(value) = m else { return false };
        whole = ((&whole.0 << key.width) | value, whole.1 + key.width);
        true
    });
    if joined {
        return format!("{}\n", hex(&whole.0, whole.1));
    }
    let field = |(m, key): (&KeyMatch, &Key)| match m {
        KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => hex(value, key.width),
        KeyMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", hex(value, key.width)),
        KeyMatch::Ternary { value, mask } => format!("{}&&&{}", hex(value, key.width), hex(mask, key.width)),
        KeyMatch::Range { lo, hi } => format!("{}->{}", hex(lo, key.width), hex(hi, key.width)),
        KeyMatch::Optional(None) => "0&&&0".to_string(),
    };
    format!("{}\n", member.iter().zip(keys).map(field).collect::<Vec<_>>().join(" "))
}

/// The lines after the entries of a table.
pub(super) fn behind_entries(
    program: &Program,
    id: TableId,
    members: Option<&ActionProfile>,
    default: Option<&Action>,
) -> String {
    let declared = &program.tables[id.index()];
    let mut out = members.map_or_else(String::new, |members| profile(program, declared, members));
    out += "==========\nDumping default entry\n";
    out += &match default {
        Some(default) => action_entry(program, declared, default),
        None => "EMPTY\n".to_string(),
    };
    out += "==========\n";
    out
}
