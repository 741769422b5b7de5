//! Completion of command lines.

use super::list;
use p4jet_control::{Control, ObjectKind, TableId};

/// The start of the word before `position` (in bytes), and the words that can complete it.
pub(crate) fn complete(control: &Control, line: &str, position: usize) -> (usize, Vec<String>) {
    let before = line.get(..position).unwrap_or(line);
    let start = before.rfind(|c: char| c.is_ascii_whitespace()).map_or(0, |i| i + 1);
    let word = &before[start..];
    let words: Vec<&str> = before[..start].split_ascii_whitespace().collect();
    let names = |kind| control.schema().names(kind);
    let choices: Vec<&str> = match words.as_slice() {
        [] | ["help"] => list::COMMANDS.iter().map(|spec| spec.name).collect(),
        [command] if command.starts_with("table_") => names(ObjectKind::Table).names().collect(),
        [command] if command.starts_with("counter_") => names(ObjectKind::Counter).names().collect(),
        [command] if command.starts_with("act_prof_") => names(ObjectKind::Profile).names().collect(),
        [command] if command.starts_with("meter_") => names(ObjectKind::Meter).names().collect(),
        [command] if command.starts_with("pvs_") => names(ObjectKind::ValueSet).names().collect(),
        [command] if command.starts_with("register_") => names(ObjectKind::Register).names().collect(),
        ["table_add" | "table_set_default" | "table_modify", table] => {
            match names(ObjectKind::Table).find(table) {
                Ok(id) => names(ObjectKind::ActionOf(TableId(id))).names().collect(),
                Err(_) => Vec::new(),
            }
        }
        ["act_prof_create_member" | "act_prof_modify_member", _] => {
            names(ObjectKind::Action).names().collect()
        }
        [command] if command.starts_with("set_crc") => names(ObjectKind::Crc).names().collect(),
        [command] => list::find(command).map_or_else(Vec::new, |spec| spec.words().collect()),
        _ => Vec::new(),
    };
    // Full names, found by the start of the name or of one of its suffixes.
    let fits = |name: &&&str| name.starts_with(word) || name.contains(&format!(".{word}"));
    (start, choices.iter().filter(fits).map(|name| (*name).to_string()).collect())
}
