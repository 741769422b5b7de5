//! The texts that scripts written for bmv2's CLI parse.

use crate::program::{Names, param_names};
use crate::value::{hex, hex_bytes};
use num_bigint::BigUint;
use p4jet_ir::{ActionId, InstanceKind, Program, Table, TableId};
use p4jet_tables::{Action, Entry, EntryHandle, KeyMatch};

/// One line per table: name, implementation, key.
pub(super) fn tables(program: &Program, names: &Names) -> String {
    names.tables.sorted().map(|t| table(&program.tables[t as usize])).collect()
}

fn table(table: &Table) -> String {
    let keys: Vec<_> =
        table.keys.iter().map(|k| format!("{}({}, {})", k.name, k.kind.name(), k.width)).collect();
    format!("{:30} [implementation=None, mk={}]\n", table.name, keys.join(",\t"))
}

/// One line per action: name, parameters.
pub(super) fn actions(program: &Program, names: &Names) -> String {
    names.actions.sorted().map(|a| action(program, ActionId(a))).collect()
}

fn action(program: &Program, id: ActionId) -> String {
    let action = &program.actions[id.index()];
    let names = param_names(program, id);
    let params =
        names.iter().zip(&action.params).map(|(name, field)| format!("{name}({})", program.width(*field)));
    format!("{:30} [{}]\n", action.control_name, params.collect::<Vec<_>>().join(",\t"))
}

/// The actions of one table.
pub(super) fn table_actions(program: &Program, names: &Names, id: TableId) -> String {
    let table = &program.tables[id.index()];
    names.shapes[id.index()]
        .actions
        .sorted()
        .map(|a| action(program, table.actions[a as usize].action))
        .collect()
}

/// The table's line and its actions.
pub(super) fn table_info(program: &Program, names: &Names, id: TableId) -> String {
    let stars = "*".repeat(80);
    format!("{}{stars}\n{}", table(&program.tables[id.index()]), table_actions(program, names, id))
}

/// What there is in the program.
pub(super) fn switch_info(program: &Program, names: &Names) -> String {
    let count =
        |wanted: fn(&InstanceKind) -> bool| program.instances.iter().filter(|i| wanted(&i.kind)).count();
    let rows = [
        ("program", program.name.clone()),
        ("tables", names.tables.names().count().to_string()),
        ("actions", names.actions.names().count().to_string()),
        ("counters", count(|k| !matches!(k, InstanceKind::Register { .. })).to_string()),
        ("registers", count(|k| matches!(k, InstanceKind::Register { .. })).to_string()),
    ];
    rows.iter().map(|(name, value)| format!("{name:12}: {value}\n")).collect()
}

/// `match key:           EXACT-0a:00:02:07<TAB>LPM-c6:33:64:00/24`
pub(super) fn match_key_line(table: &Table, key: &[KeyMatch]) -> String {
    let fields = key.iter().zip(&table.keys).map(|(m, k)| match_text(m, k.width, hex_bytes, "-", ""));
    format!("{:20} {}\n", "match key:", fields.collect::<Vec<_>>().join("\t"))
}

/// The kind in bmv2's words, padded to `pad`, and the value.
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
        // bmv2 has no optional fields: there they are ternary ones.
        KeyMatch::Optional(Some(value)) => {
            ("TERNARY", format!("{} &&& {}", hex(value, width), hex(&crate::value::ones(width), width)))
        }
        KeyMatch::Optional(None) => {
            let zero = hex(&BigUint::default(), width);
            ("TERNARY", format!("{zero} &&& {zero}"))
        }
    };
    format!("{kind}{}{between}{value}", pad.get(kind.len()..).unwrap_or(""))
}

/// The lines with an action, as typed, and its data.
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

/// `Action entry: MyIngress.route - 001122334455, 0003`
fn action_entry(program: &Program, table: &Table, call: &Action) -> String {
    let name = &program.actions[table.actions[call.action as usize].action.index()].control_name;
    let data: Vec<_> = data_with_widths(program, table, call).map(|(v, w)| hex(v, w)).collect();
    format!("Action entry: {name} - {}\n", data.join(", "))
}

/// An entry in a dump.
pub(super) fn entry(
    program: &Program,
    names: &Names,
    id: TableId,
    handle: EntryHandle,
    entry: &Entry,
) -> String {
    let table = &program.tables[id.index()];
    let pad = table.keys.iter().map(|k| k.name.chars().count()).max().unwrap_or(0).max(20);
    let mut out = format!("Dumping entry {:#x}\nMatch key:\n", handle.0);
    for (m, key) in entry.key.iter().zip(&table.keys) {
        let value = match_text(m, key.width, hex, "", "          ");
        out += &format!("* {:pad$}: {value}\n", key.name);
    }
    if names.shapes[id.index()].needs_priority {
        out += &format!("Priority: {}\n", entry.priority);
    }
    out += &action_entry(program, table, &entry.action);
    out
}

/// A whole table.
pub(super) fn dump<'a>(
    program: &Program,
    names: &Names,
    id: TableId,
    entries: impl Iterator<Item = (EntryHandle, &'a Entry)>,
    default: &Action,
) -> String {
    let mut out = "==========\nTABLE ENTRIES\n".to_string();
    for (handle, e) in entries {
        out += "**********\n";
        out += &entry(program, names, id, handle, e);
    }
    out += "==========\nDumping default entry\n";
    out += &action_entry(program, &program.tables[id.index()], default);
    out += "==========\n";
    out
}
