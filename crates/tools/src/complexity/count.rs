//! Counts of operations.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// A counted number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// States of parsers.
    ParserStates,
    /// Edges that leave states.
    Transitions,
    /// Decisions of parsers.
    ParserBranches,
    /// Headers that parsers extract.
    Headers,
    /// Their fields.
    Fields,
    /// Tables.
    Tables,
    /// Actions that run.
    Actions,
    /// Decisions outside parsers.
    Branches,
    /// Internet checksums.
    Checksums,
    /// Reads of registers.
    RegisterReads,
    /// Writes of registers.
    RegisterWrites,
    /// Headers that become valid.
    HeaderAdds,
    /// Headers that are assigned from another one.
    HeaderCopies,
    /// Headers that become invalid.
    HeaderRemoves,
    /// `push_front` and `pop_front`.
    StackShifts,
    /// Header fields whose value is used.
    FieldReads,
    /// Header fields that are set.
    FieldWrites,
    /// Sums, products, shifts.
    Arithmetic,
    /// `&`, `|`, `^`, `~`.
    Bitwise,
    /// Comparisons, and operations on their results.
    Boolean,
    /// Fields of the program's metadata whose value is used.
    MetadataReads,
    /// Fields of the program's metadata that are set.
    MetadataWrites,
    /// Fields of the architecture's metadata whose value is used.
    ArchitectureReads,
    /// Fields of the architecture's metadata that are set.
    ArchitectureWrites,
}

/// In the order of [`What`]: group and name.
const NAMES: [(&str, &str); 24] = [
    ("Parsing", "parser states"),
    ("Parsing", "transitions"),
    ("Parsing", "branches in the parse graph"),
    ("Parsing", "packet headers"),
    ("Parsing", "packet fields"),
    ("Processing", "tables"),
    ("Processing", "actions"),
    ("Processing", "branches"),
    ("Processing", "checksums"),
    ("State accesses", "register reads"),
    ("State accesses", "register writes"),
    ("Packet modification", "header adds"),
    ("Packet modification", "header copies"),
    ("Packet modification", "header removes"),
    ("Packet modification", "stack shifts"),
    ("Action complexity", "field reads"),
    ("Action complexity", "field writes"),
    ("Action complexity", "arithmetic expressions"),
    ("Action complexity", "bitwise expressions"),
    ("Action complexity", "boolean expressions"),
    ("Program metadata", "metadata reads"),
    ("Program metadata", "metadata writes"),
    ("Architecture metadata", "architecture metadata reads"),
    ("Architecture metadata", "architecture metadata writes"),
];

/// Counts of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    numbers: [usize; NAMES.len()],
    /// The program's metadata fields that are read or written, with their widths.
    pub metadata: BTreeMap<String, u32>,
    /// The architecture's metadata fields.
    pub architecture_metadata: BTreeMap<String, u32>,
    /// Calls of externs other than registers and checksums, by name: `hash(crc32)`, `counter.count`.
    pub externs: BTreeMap<String, usize>,
    /// Lookups by kind and widths of the key: `exact[48]`.
    pub lookups: BTreeMap<String, usize>,
}

impl Index<What> for Counts {
    type Output = usize;
    fn index(&self, what: What) -> &usize {
        &self.numbers[what as usize]
    }
}

impl IndexMut<What> for Counts {
    fn index_mut(&mut self, what: What) -> &mut usize {
        &mut self.numbers[what as usize]
    }
}

fn bits(fields: &BTreeMap<String, u32>) -> u64 {
    fields.values().map(|width| u64::from(*width)).sum()
}

impl Counts {
    /// Returns the bits of the program's metadata.
    pub fn metadata_bits(&self) -> u64 {
        bits(&self.metadata)
    }

    /// Returns the bits of the architecture's metadata.
    pub fn architecture_metadata_bits(&self) -> u64 {
        bits(&self.architecture_metadata)
    }

    /// Adds both; a field counts once.
    pub(super) fn add(mut self, other: &Counts) -> Counts {
        self.combine(other, |a, b| a + b);
        self.metadata.extend(other.metadata.clone());
        self.architecture_metadata.extend(other.architecture_metadata.clone());
        self
    }

    /// Returns the maximum of each.
    pub(super) fn max(mut self, other: &Counts) -> Counts {
        self.combine(other, usize::max);
        if other.metadata_bits() > self.metadata_bits() {
            self.metadata = other.metadata.clone();
        }
        if other.architecture_metadata_bits() > self.architecture_metadata_bits() {
            self.architecture_metadata = other.architecture_metadata.clone();
        }
        self
    }

    fn combine(&mut self, other: &Counts, of: impl Fn(usize, usize) -> usize) {
        for (mine, others) in self.numbers.iter_mut().zip(other.numbers) {
            *mine = of(*mine, others);
        }
        for (mine, others) in [(&mut self.externs, &other.externs), (&mut self.lookups, &other.lookups)] {
            for (name, count) in others {
                let mine = mine.entry(name.clone()).or_default();
                *mine = of(*mine, *count);
            }
        }
    }

    /// Returns the rows of a table: group, name, count.
    pub(super) fn rows(&self) -> Vec<(&'static str, &'static str, String)> {
        let numbers = NAMES.iter().zip(self.numbers);
        let mut rows: Vec<_> = numbers.map(|((group, what), n)| (*group, *what, n.to_string())).collect();
        rows.push(("Program metadata", "metadata fields", self.metadata.len().to_string()));
        rows.push(("Program metadata", "metadata bits", self.metadata_bits().to_string()));
        let fields = self.architecture_metadata.len().to_string();
        rows.push(("Architecture metadata", "architecture metadata fields", fields));
        let bits = self.architecture_metadata_bits().to_string();
        rows.push(("Architecture metadata", "architecture metadata bits", bits));
        rows.push(("Extern calls", "count × name", list(&self.externs)));
        rows.push(("Lookups", "count × kind[bits of the key]", self.lookups_text()));
        rows
    }

    /// `2 × exact[48], 1 × lpm[32]`
    pub(super) fn lookups_text(&self) -> String {
        list(&self.lookups)
    }

    pub(super) fn to_json(&self) -> Value {
        let mut value = json!({});
        for ((_, what), n) in NAMES.iter().zip(self.numbers) {
            value[what.replace(' ', "_")] = json!(n);
        }
        value["metadata"] = json!(self.metadata);
        value["metadata_bits"] = json!(self.metadata_bits());
        value["architecture_metadata"] = json!(self.architecture_metadata);
        value["architecture_metadata_bits"] = json!(self.architecture_metadata_bits());
        value["externs"] = json!(self.externs);
        value["lookups"] = json!(self.lookups);
        value
    }
}

fn list(counts: &BTreeMap<String, usize>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} × {name}")).collect();
    if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
}
