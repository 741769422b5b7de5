//! Parser value sets: tables without names of their own, where a hit means that the value is in the set.

use super::apply::{Done, Result, Undo, UndoOther};
use super::parse::{Command, Line, LineParser, Parsed, key_match, named};
use super::{Control, Reply, data, show};
use crate::error::CommandError;
use crate::value::{ones, parse_value};
use p4jet_ir::{Key, MatchKind, TableId};
use p4jet_tables::{Action, Entry, KeyMatch, TableError};

/// What a command does with a value set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueSetCommand {
    Show,
    Get(TableId),
    Add(TableId, Vec<KeyMatch>),
    Remove(TableId, Vec<KeyMatch>),
    Clear(TableId),
}

impl ValueSetCommand {
    pub(super) fn reads(&self) -> bool {
        matches!(self, ValueSetCommand::Show | ValueSetCommand::Get(_))
    }
}

/// A field that is exactly this value.
fn exactly(key: &Key, value: num_bigint::BigUint) -> KeyMatch {
    match key.kind {
        MatchKind::Exact => KeyMatch::Exact(value),
        MatchKind::Lpm => KeyMatch::Lpm { value, prefix_len: key.width },
        MatchKind::Ternary => KeyMatch::Ternary { value, mask: ones(key.width) },
        MatchKind::Range => KeyMatch::Range { lo: value.clone(), hi: value },
        MatchKind::Optional => KeyMatch::Optional(Some(value)),
    }
}

impl<'a> LineParser<'_, 'a> {
    pub(super) fn value_set_command(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        if line.spec.name == "show_pvs" {
            line.ends_after(1)?;
            return Ok(Command::ValueSet(ValueSetCommand::Show));
        }
        let set = named(&self.names.value_sets, line.get(1, "a parser value set name")?, TableId)?.id;
        let command = match line.spec.name {
            "pvs_get" => ValueSetCommand::Get(set),
            "pvs_clear" => ValueSetCommand::Clear(set),
            name => {
                let key = self.set_member(line, set)?;
                return Ok(Command::ValueSet(match name {
                    "pvs_add" => ValueSetCommand::Add(set, key),
                    _ => ValueSetCommand::Remove(set, key),
                }));
            }
        };
        line.ends_after(2)?;
        Ok(Command::ValueSet(command))
    }

    /// One word for all fields together, the first on top, or one for each, as in a table's key.
    fn set_member(&self, line: &Line<'_, 'a>, set: TableId) -> Parsed<Vec<KeyMatch>> {
        let keys = &self.program.tables[set.index()].keys;
        let wrong =
            |at: usize, why: String| CommandError::new(format!("Error: {why}")).at(line.tokens[at].span());
        let first = line.get(2, "a value")?;
        if line.tokens.len() > 3 {
            let mut key = Vec::new();
            for (i, field) in keys.iter().enumerate() {
                let token = line.get(2 + i, &format!("a value for {}", field.name))?;
                let exact = parse_value(token.text, field.width).map(|value| exactly(field, value));
                key.push(exact.or_else(|_| key_match(field, token.text)).map_err(|why| wrong(2 + i, why))?);
            }
            line.ends_after(2 + keys.len())?;
            return Ok(key);
        }
        let width = keys.iter().map(|key| key.width).sum();
        let whole = parse_value(first.text, width);
        match (whole, keys.as_slice()) {
            (Ok(mut value), keys) => {
                let mut key = Vec::new();
                for field in keys.iter().rev() {
                    key.insert(0, exactly(field, &value & ones(field.width)));
                    value >>= field.width;
                }
                Ok(key)
            }
            (Err(_), [field]) => Ok(vec![key_match(field, first.text).map_err(|why| wrong(2, why))?]),
            (Err(why), _) => Err(wrong(2, why)),
        }
    }
}

fn refused(error: TableError) -> CommandError {
    // bmv2 has no code for what can happen here: its sets have no size.
    let why = match error {
        TableError::Full { size } => format!("the value set is full: its size is {size}"),
        other => other.to_string(),
    };
    CommandError::refused("parser value set", "ERROR", why)
}

impl Control {
    pub(super) fn value_set_reply(&self, command: &ValueSetCommand, data: bool) -> Reply {
        let program = self.program();
        match command {
            ValueSetCommand::Get(set) => {
                let keys = &program.tables[set.index()].keys;
                let members: Vec<Entry> = self.switch.table(*set).entries().map(|(_, entry)| entry).collect();
                Reply::new(
                    members.iter().map(|entry| show::set_member(keys, &entry.key)).collect(),
                    data.then(|| members.iter().map(|entry| data::set_member(keys, &entry.key)).collect()),
                )
            }
            _ => {
                let sets = || self.names.value_sets.sorted().map(|set| &program.tables[set as usize]);
                Reply::new(
                    sets().map(show::value_set).collect(),
                    data.then(|| sets().map(data::value_set).collect()),
                )
            }
        }
    }

    pub(super) fn change_value_set(
        &self,
        command: ValueSetCommand,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<Done> {
        match command {
            ValueSetCommand::Add(set, key) => {
                let mut table = self.switch.table(set);
                // As in bmv2, a value that is there already is no error.
                if table.find(&key, 0).is_none() {
                    let action = Action { action: 0, data: Vec::new() };
                    let handle = table.insert(Entry { key, priority: 0, action }).map_err(refused)?;
                    if let Some(log) = log {
                        log.push(Undo::Insert(set, handle));
                    }
                }
            }
            ValueSetCommand::Remove(set, key) => {
                let mut table = self.switch.table(set);
                // Nor is one that is not there.
                if let Some(handle) = table.find(&key, 0) {
                    let entry = table.delete(handle).map_err(refused)?;
                    if let Some(log) = log {
                        log.push(Undo::Other(Box::new(UndoOther::SetMembers(set, vec![entry]))));
                    }
                }
            }
            ValueSetCommand::Clear(set) => {
                let mut table = self.switch.table(set);
                let entries = table.entries().map(|(_, entry)| entry).collect();
                table.clear();
                if let Some(log) = log {
                    log.push(Undo::Other(Box::new(UndoOther::SetMembers(set, entries))));
                }
            }
            ValueSetCommand::Show | ValueSetCommand::Get(_) => unreachable!("not a change"),
        }
        Ok(Done::default())
    }
}
