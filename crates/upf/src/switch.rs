//! The switch's tables as plain data: entries, and changes of them in an order that is safe for packets.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A table of programs/upf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Table {
    // In the order in which entries are added: what is named by others comes first.
    Peers,
    Encapsulations,
    Copies,
    Rules,
    FiltersV4,
    FiltersV6,
    Teids,
    UesV4,
    UesV6,
}

impl Table {
    /// Its name in the program.
    pub fn name(self) -> &'static str {
        match self {
            Table::Peers => "peers",
            Table::Encapsulations => "encapsulations",
            Table::Copies => "copies",
            Table::Rules => "rules",
            Table::FiltersV4 => "filters_v4",
            Table::FiltersV6 => "filters_v6",
            Table::Teids => "teids",
            Table::UesV4 => "ues_v4",
            Table::UesV6 => "ues_v6",
        }
    }
}

/// A field of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Equal.
    Exact(u128),
    /// Equal where the mask has ones.
    Ternary(u128, u128),
    /// Between two values, both included.
    Range(u16, u16),
}

/// What identifies an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its table.
    pub table: Table,
    /// Its fields, in the order of the program.
    pub fields: Vec<Field>,
    /// Of ternary tables; the smallest wins.
    pub priority: Option<u32>,
}

/// What an entry does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its name in the program.
    pub name: &'static str,
    /// Its arguments.
    pub data: Vec<u128>,
}

/// A key with its action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it matches.
    pub key: Key,
    /// What it does.
    pub action: Action,
}

/// One step of a request; a request is done as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new entry.
    Add(Entry),
    /// Another action for an entry that there is.
    Modify(Entry),
    /// Its end.
    Remove(Key),
    /// Rates of a meter cell: bytes per second and bytes, committed and peak.
    Rate {
        /// Cell of `rates`.
        cell: u32,
        /// Committed rate and burst.
        committed: (u64, u64),
        /// Peak rate and burst.
        peak: (u64, u64),
    },
    /// A value of a register.
    Register {
        /// Its name in the program.
        name: &'static str,
        /// Its cell.
        cell: u32,
        /// The value.
        value: u64,
    },
}

/// Entries by their keys.
pub type Entries = BTreeMap<Key, Action>;

/// The changes that make `after` from `before`: what is named by others is added first and removed last, and in between the
/// entries by
/// which packets find it change, so that no packet meets a rule that is not there.
pub fn difference(before: &Entries, after: &Entries) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut removed, mut modified) = (Vec::new(), Vec::new());
    for (key, action) in after {
        match before.get(key) {
            None => changes.push(Change::Add(Entry { key: key.clone(), action: action.clone() })),
            Some(old) if old != action => {
                modified.push(Change::Modify(Entry { key: key.clone(), action: action.clone() }));
            }
            Some(_) => {}
        }
    }
    for key in before.keys().rev() {
        if !after.contains_key(key) {
            removed.push(Change::Remove(key.clone()));
        }
    }
    changes.extend(modified);
    changes.extend(removed);
    changes
}

impl Entry {
    /// As the runtime command `table_add`.
    pub fn command(&self) -> String {
        let mut text = format!("table_add {} {}", self.key.table.name(), self.action.name);
        for field in &self.key.fields {
            let _ = match field {
                Field::Exact(value) => write!(text, " {value:#x}"),
                Field::Ternary(value, mask) => write!(text, " {value:#x}&&&{mask:#x}"),
                Field::Range(low, high) => write!(text, " {low}->{high}"),
            };
        }
        text += " =>";
        for value in &self.action.data {
            let _ = write!(text, " {value:#x}");
        }
        if let Some(priority) = self.key.priority {
            let _ = write!(text, " {priority}");
        }
        text
    }
}
