//! The records of dumps and state files: one JSON object a line.
//!
//! Keys, values and names are written as in [`NamedUpdate`].

use crate::call::Call;
pub use crate::fields::{KeyField, Param};
use crate::named::{Crc, NamedNoted, NamedUpdate, RateRecord, Session};
use crate::sealed::seal;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The version of dumps, and of the state files of earlier versions: lines without checksums.
pub(crate) const VERSION: u32 = 1;
/// The version of state files: every line carries a checksum, and the last line has the number of lines.
pub(crate) const VERSION_SEALED: u32 = 2;

/// A line of a state file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the types say what they are")]
pub enum Record {
    /// The first line.
    State(Header),
    Table(Shape),
    Profile(Shape),
    Member(Member),
    Group(Group),
    Entry(TableEntry),
    Default(TableDefault),
    ValueSet(ValueSet),
    Register(Register),
    Counter(Cells<(u64, u64)>),
    Meter(Cells<[String; 2]>),
    Crc(Crc),
    Multicast(Groups),
    Session(Session),
    Note(NoteRecord),
    Queues(QueueRecord),
    /// The last line of a state file.
    End(End),
    /// The first line of a journal.
    Journal(JournalHeader),
    /// Changes after the snapshot: all of a line or none. The journal contains these lines.
    #[serde(skip_serializing)]
    Did(Did),
}

/// The first line of a state file or dump.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// The name of the program.
    pub program: String,
    /// The number of a state file. The journal that continues it has the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
}

/// The last line of a state file, by which a truncated file is recognised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The number of the state file.
    pub serial: u64,
    /// Number of lines before this one.
    pub lines: u64,
    /// The checksum of these lines.
    pub sums: String,
}

/// The first line of a journal. It has a fixed length and is rewritten after every change: a truncated journal has fewer
/// changes than its first line states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalHeader {
    /// The version of the format.
    pub version: u32,
    /// The number of the state file that the journal continues.
    pub serial: u64,
    /// Number of changes in the journal.
    pub changes: u64,
    /// Number of changes that could not be written.
    pub unwritten: u64,
}

impl JournalHeader {
    pub(crate) fn new(serial: u64) -> JournalHeader {
        JournalHeader { version: VERSION_SEALED, serial, changes: 0, unwritten: 0 }
    }

    /// Formats the line, whose length does not depend on the numbers.
    pub(crate) fn line(&self) -> Vec<u8> {
        let JournalHeader { version, serial, changes, unwritten } = self;
        let object = format!(
            r#"{{"journal":{{"version":{version},"serial":{serial:>20},"changes":{changes:>20},"unwritten":{unwritten:>20}}}}}"#
        );
        let mut line = Vec::new();
        seal(object.into_bytes(), &mut line);
        line
    }
}

/// The shape of a table or action profile, by which entries that do not fit another program are recognised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Its name.
    pub name: String,
    /// The fields of its key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<KeyField>,
    /// Its actions, with their parameters.
    pub actions: BTreeMap<String, Vec<Param>>,
    /// The generations of the next entries, which their handles carry in the upper bits, by position: of deleted entries, and of
    /// entries that are older than others which their position had.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub generations: BTreeMap<u32, u8>,
    /// The least generation of new handles.
    #[serde(default, skip_serializing_if = "is_0")]
    pub generation_min: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_0(n: &u8) -> bool {
    *n == 0
}

/// A member of an action profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The action profile.
    pub profile: String,
    /// Its handle.
    pub handle: u32,
    /// Its action.
    pub r#do: Call,
}

/// A group of an action selector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The action profile.
    pub profile: String,
    /// Its handle.
    pub handle: u32,
    /// The handles of its members.
    pub members: Vec<u32>,
    /// The weight of each, if weights were set.
    #[serde(rename = "places", default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Vec<u32>>,
}

/// A client's note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoteRecord {
    /// The object.
    pub of: NamedNoted,
    /// Pairs of hexadecimal digits.
    pub note: String,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntry {
    /// The table.
    pub table: String,
    /// Its handle.
    pub handle: u32,
    /// The words of its key.
    pub key: Vec<String>,
    /// The priority, if entries have one: the smallest number wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Its action, member or group.
    pub r#do: Call,
    /// Its idle timeout, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// True if it is `const` in the program. Dumps and state files do not contain such entries.
    #[serde(default, rename = "const", skip_serializing_if = "std::ops::Not::not")]
    pub is_const: bool,
}

/// The default action of a table, if it was set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDefault {
    /// The table.
    pub table: String,
    /// The action, member or group.
    pub r#do: Call,
}

/// The values of a parser value set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueSet {
    /// Its name.
    pub name: String,
    /// The fields of its key.
    pub key: Vec<KeyField>,
    /// The words of each value.
    pub values: Vec<Vec<String>>,
}

/// Cells of a register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Its name.
    pub name: String,
    /// Its width in bits.
    pub width: u32,
    /// The cells that are not 0.
    pub cells: BTreeMap<u32, String>,
}

/// The cells in use, by index; of direct counters and meters by the handle of the entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cells<T> {
    /// Its name.
    pub name: String,
    /// The cells in use.
    pub cells: BTreeMap<u32, T>,
}

/// Multicast groups, nodes and link aggregation groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// The nodes of each group, in order.
    pub groups: BTreeMap<u32, Vec<u32>>,
    /// The nodes by handle.
    pub nodes: BTreeMap<u32, GroupNode>,
    /// The ports of link aggregation groups.
    pub lags: BTreeMap<u32, BTreeSet<u32>>,
}

/// A multicast node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupNode {
    /// The replication id of its copies.
    pub rid: u32,
    /// The ports of its copies.
    pub ports: BTreeSet<u32>,
    /// The link aggregation groups of its copies.
    pub lags: BTreeSet<u32>,
}

/// The output queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueRecord {
    /// Queues of each port.
    pub per_port: usize,
    /// The settings of ports that are not listed.
    pub others: PortRecord,
    /// The ports that have settings of their own.
    pub ports: BTreeMap<u32, PortRecord>,
}

/// The queues of one port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortRecord {
    /// By priority.
    pub queues: Vec<OneQueue>,
    /// The rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateRecord>,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneQueue {
    /// Maximum number of waiting packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateRecord>,
    /// 0 for strict priority.
    pub weight: u32,
}

/// Changes of a journal.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Did {
    /// The number of the state file that these changes follow. Earlier versions do not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// The position in the journal, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The changes.
    #[serde(default)]
    pub updates: Vec<NamedUpdate>,
    /// The changes in journals of earlier versions: runtime commands.
    #[serde(default)]
    pub commands: Vec<String>,
    /// For each change, the handle of the object that it created, if any.
    pub handles: Vec<Option<u32>>,
}

impl Record {
    /// Parses a line of a dump. Lines of state files also have a checksum.
    ///
    /// # Errors
    ///
    /// The line is not a record of this version.
    pub fn parse(line: &str) -> Result<Record, String> {
        serde_json::from_str(line).map_err(|e| e.to_string())
    }
}
