//! Counts of what one packet does.

use serde_json::{Value, json};

/// What a packet, or one of its copies, does until it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Headers that parsers extract.
    pub parsed: u32,
    /// Headers of which fields are written, each once, except added ones and targets of copies.
    pub modified: u32,
    /// Headers assigned from another one.
    pub copied: u32,
    /// Headers that become invalid.
    pub removed: u32,
    /// Headers that become valid otherwise than by an extract or a copy.
    pub added: u32,
    /// The lookups, in order.
    pub lookups: Vec<Lookup>,
    /// Bytes that parsers extract or skip.
    pub parsed_bytes: u64,
    /// Headers that deparsers emit.
    pub emitted: u32,
    /// Their bytes.
    pub emitted_bytes: u64,
    /// Emitted headers that do not have the same distance from the payload as in the received frame.
    pub moved: u32,
    /// Their bytes.
    pub moved_bytes: u64,
    /// Bits of the header fields that are written, without copies and checksums, as often as they are written.
    pub written_bits: u64,
    /// Number of these writes.
    pub fields_written: u32,
    /// Bytes of the headers assigned from another one.
    pub copied_bytes: u64,
    /// Internet checksums that are computed.
    pub checksums: u32,
    /// Their data in bytes.
    pub checksum_bytes: u64,
    /// The other extern calls, by function and instance, in the order of their first call.
    pub externs: Vec<Calls>,
    /// Conditions and selections of the program's text.
    pub branches: u32,
    /// Copies of the packet that it creates.
    pub packet_copies: u32,
}

/// A lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The table's control-plane name.
    pub table: String,
    /// Match kind and width in bits of each key field.
    pub keys: Vec<(&'static str, u32)>,
    /// Maximum number of entries.
    pub size: u32,
    /// Number of direct counters that count the packet.
    pub counters: u32,
    /// True if an entry matched.
    pub hit: bool,
    /// The control-plane name of the action; `None` if the entry names a group without members.
    pub action: Option<String>,
    /// Bits of the action's data.
    pub data_bits: u32,
}

/// Calls of an extern function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// The function: `crc32`, `register.read`, `counter.count`.
    pub function: String,
    /// The control-plane name of its instance.
    pub instance: Option<String>,
    /// Number of calls.
    pub calls: u32,
    /// The bytes on which all of them work: the data of hashes and messages, the cells of registers, the payload if it is part.
    pub bytes: u64,
}

impl Lookup {
    /// Returns the width of the key in bits.
    pub fn key_bits(&self) -> u32 {
        self.keys.iter().map(|(_, bits)| bits).sum()
    }

    /// Returns the kinds and widths of the key: `exact[32]+lpm[32]`.
    pub fn key_text(&self) -> String {
        let parts: Vec<String> = self.keys.iter().map(|(kind, bits)| format!("{kind}[{bits}]")).collect();
        parts.join("+")
    }
}

impl Counts {
    /// Returns the number of lookups.
    pub fn tables(&self) -> u32 {
        self.lookups.len() as u32
    }

    /// Returns x(NF): \[parsed − 1, modified, copied, removed, added, tables − 1\]. The base delay of a device contains one
    /// parsed header and one table; a packet without one has 0 there, not −1.
    pub fn x(&self) -> [u32; 6] {
        let (parsed, tables) = (self.parsed.saturating_sub(1), self.tables().saturating_sub(1));
        [parsed, self.modified, self.copied, self.removed, self.added, tables]
    }

    /// Adds a call of an extern function.
    pub(super) fn add_call(&mut self, function: &str, instance: Option<&str>, bytes: u64) {
        let same = |calls: &&mut Calls| calls.function == function && calls.instance.as_deref() == instance;
        match self.externs.iter_mut().find(same) {
            Some(calls) => {
                calls.calls += 1;
                calls.bytes += bytes;
            }
            None => self.externs.push(Calls {
                function: function.to_string(),
                instance: instance.map(str::to_string),
                calls: 1,
                bytes,
            }),
        }
    }

    /// Returns the counts for programs.
    pub fn to_json(&self) -> Value {
        let lookup = |lookup: &Lookup| {
            let keys: Vec<Value> =
                lookup.keys.iter().map(|(kind, bits)| json!({ "kind": kind, "bits": bits })).collect();
            json!({
                "table": lookup.table, "keys": keys, "key_bits": lookup.key_bits(), "size": lookup.size,
                "counters": lookup.counters, "hit": lookup.hit, "action": lookup.action,
                "data_bits": lookup.data_bits,
            })
        };
        let calls = |calls: &Calls| {
            json!({
                "function": calls.function, "instance": calls.instance, "calls": calls.calls,
                "bytes": calls.bytes,
            })
        };
        json!({
            "parsed": self.parsed,
            "modified": self.modified,
            "copied": self.copied,
            "removed": self.removed,
            "added": self.added,
            "tables": self.tables(),
            "lookups": self.lookups.iter().map(lookup).collect::<Vec<_>>(),
            "parsed_bytes": self.parsed_bytes,
            "emitted": self.emitted,
            "emitted_bytes": self.emitted_bytes,
            "moved": self.moved,
            "moved_bytes": self.moved_bytes,
            "fields_written": self.fields_written,
            "written_bits": self.written_bits,
            "copied_bytes": self.copied_bytes,
            "checksums": self.checksums,
            "checksum_bytes": self.checksum_bytes,
            "externs": self.externs.iter().map(calls).collect::<Vec<_>>(),
            "branches": self.branches,
            "packet_copies": self.packet_copies,
        })
    }
}
