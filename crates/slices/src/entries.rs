//! Table entries of programs/vqueue, and the updates from some to others.

use crate::config::{Config, Match, Scheme, Slice, mask};
use p4jet_control::record::Record;
use p4jet_control::{Call, NamedEntry, NamedSelector, NamedUpdate};
use p4jet_text::client::Client;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

/// The place of an entry: table, key, and priority in tables that have one. Texts have the form in which a switch returns them.
pub type Place = (&'static str, Vec<String>, Option<u32>);

/// The action of an entry, with the full name, and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The action.
    pub action: String,
    /// Its parameters.
    pub params: Vec<String>,
}

/// Entries by place.
pub type Entries = BTreeMap<Place, Entry>;

const SLICES: &str = "ingress.slices";
const CLASSIFY_V4: &str = "ingress.classify_v4";
const CLASSIFY_V6: &str = "ingress.classify_v6";
/// The tables that the controller fills, and the numbers of fields of their keys.
const TABLES: [(&str, usize); 3] = [(SLICES, 1), (CLASSIFY_V4, 8), (CLASSIFY_V6, 8)];

/// Units of time in a second: microseconds with 16 binary digits behind the point.
pub(crate) const UNITS: f64 = 65_536e6;
/// The probability 1 in `slope`.
const CERTAIN: f64 = 4_294_967_296.0;

/// The entries for a configuration.
pub fn entries(config: &Config) -> Entries {
    let mut entries = Entries::new();
    let mut priority = 0;
    for slice in &config.slices {
        entries.insert((SLICES, vec![hex(slice.number.into())], None), limits(slice));
        for matching in &slice.matches {
            priority += 1;
            let to_slice =
                Entry { action: "ingress.to_slice".into(), params: vec![hex(slice.number.into())] };
            let is_v4 =
                [matching.prefix, matching.source].iter().flatten().next().map(|(ip, _)| ip.is_ipv4());
            if is_v4 != Some(false) {
                entries.insert((CLASSIFY_V4, key(matching, 32), Some(priority)), to_slice.clone());
            }
            if is_v4 != Some(true) {
                entries.insert((CLASSIFY_V6, key(matching, 128), Some(priority)), to_slice);
            }
        }
    }
    entries
}

fn hex(value: u128) -> String {
    format!("{value:#x}")
}

/// The limits of a slice.
fn limits(slice: &Slice) -> Entry {
    let units = |seconds: f64| (seconds * UNITS).round() as u128;
    let byte = 8.0 / slice.rate;
    let (per_packet, per_byte) = match slice.packet_bytes {
        Some(bytes) => (units(f64::from(bytes) * byte), 0),
        None => (0, units(byte * 256.0)),
    };
    let mut params = vec![slice.priority.into(), per_packet, per_byte, units(slice.burst_s)];
    let (name, share) = match slice.scheme {
        Scheme::TailDrop => ("tail_drop", None),
        Scheme::Ecn => ("ecn_step", None),
        Scheme::EarlyDrop(share) => ("early_drop", Some(share)),
        Scheme::EarlyMark(share) => ("early_mark", Some(share)),
    };
    if slice.scheme != Scheme::TailDrop {
        params.push(units(slice.target_s));
    }
    if let Some(share) = share {
        let per_us = share * CERTAIN / ((slice.burst_s - slice.target_s) * 1e6);
        params.push(per_us.round().clamp(1.0, CERTAIN - 1.0) as u128);
    }
    Entry { action: format!("ingress.{name}"), params: params.into_iter().map(hex).collect() }
}

/// The key of a match in the table for addresses of this width.
fn key(matching: &Match, width: u8) -> Vec<String> {
    let ternary = |value: u128, mask: u128| format!("{value:#x}&&&{mask:#x}");
    let exact = |value: Option<u128>, mask: u128| value.map_or(ternary(0, 0), |value| ternary(value, mask));
    let prefix = |prefix: Option<(IpAddr, u8)>| match prefix {
        Some((IpAddr::V4(v4), len)) => ternary(v4.to_bits().into(), mask(width, len)),
        Some((IpAddr::V6(v6), len)) => ternary(v6.to_bits(), mask(width, len)),
        None => ternary(0, 0),
    };
    let ports = |ports: Option<(u16, u16)>| {
        let (low, high) = ports.unwrap_or((0, u16::MAX));
        format!("{low:#x}->{high:#x}")
    };
    let (tunnel, id) = match (matching.vni, matching.qfi) {
        (Some(vni), _) => (Some(1), Some(vni.into())),
        (None, Some(qfi)) => (Some(2), Some(qfi.into())),
        (None, None) => (None, None),
    };
    vec![
        prefix(matching.source),
        prefix(matching.prefix),
        exact(matching.dscp.map(u128::from), 0x3f),
        exact(matching.protocol.map(u128::from), 0xff),
        ports(matching.source_port),
        ports(matching.port),
        exact(tunnel, 3),
        exact(id, 0xff_ffff),
    ]
}

/// Reads the entries of a switch. The inner error says that it runs another program, or does not answer as expected.
pub fn read_entries(client: &mut Client) -> io::Result<Result<Entries, String>> {
    let schema = match client.schema()? {
        Ok(schema) => schema,
        Err(error) => return Ok(Err(error.message)),
    };
    let mut entries = Entries::new();
    for (table, fields) in TABLES {
        let info = schema.tables.iter().find(|info| info.name == table);
        let fits = info.is_some_and(|info| info.key.len() == fields);
        // With meters, an action of the same name has fewer parameters.
        let limits =
            info.and_then(|info| info.actions.iter().find(|action| action.name == "ingress.tail_drop"));
        if !fits || table == SLICES && limits.is_none_or(|action| action.params.len() != 4) {
            let name = &schema.program;
            return Ok(Err(format!(
                "the switch runs `{name}`, expected programs/vqueue: no such table `{table}`"
            )));
        }
        let records = match client.read_all(&NamedSelector::Entries { table: table.to_string() })? {
            Ok(records) => records,
            Err(error) => return Ok(Err(error.message)),
        };
        for record in records {
            let Record::Entry(entry) = record else { continue };
            let Call { action: Some(action), params, .. } = entry.r#do else { continue };
            entries.insert((table, entry.key, entry.priority), Entry { action, params });
        }
    }
    Ok(Ok(entries))
}

/// Updates, in an order in which each packet meets the old or the new limits of a slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The updates.
    pub updates: Vec<NamedUpdate>,
    /// The number of entries to add, to change and to remove.
    pub counts: [usize; 3],
}

impl Changes {
    /// The updates from one set of entries to another. Slices are there before packets are classified into them, and removed
    /// after that. What is equal stays untouched.
    pub fn new(wanted: &Entries, actual: &Entries) -> Changes {
        let mut changes = Changes::default();
        for table in [SLICES, CLASSIFY_V4, CLASSIFY_V6] {
            for (place, entry) in wanted.iter().filter(|(place, _)| place.0 == table) {
                let before = actual.get(place);
                if before == Some(entry) {
                    continue;
                }
                let call = Call {
                    action: Some(entry.action.clone()),
                    params: entry.params.clone(),
                    ..Call::default()
                };
                let (table, key, priority) = (table.to_string(), place.1.clone(), place.2);
                changes.counts[usize::from(before.is_some())] += 1;
                changes.updates.push(match before {
                    Some(_) => {
                        NamedUpdate::Modify { table, entry: NamedEntry::Key { key, priority }, r#do: call }
                    }
                    None => NamedUpdate::Insert { table, key, priority, r#do: call },
                });
            }
        }
        for table in [CLASSIFY_V6, CLASSIFY_V4, SLICES] {
            let gone = actual.keys().filter(|place| place.0 == table && !wanted.contains_key(*place));
            for (_, key, priority) in gone {
                let entry = NamedEntry::Key { key: key.clone(), priority: *priority };
                changes.counts[2] += 1;
                changes.updates.push(NamedUpdate::Delete { table: table.to_string(), entry });
            }
        }
        changes
    }

    /// The counts as text.
    pub fn summary(&self) -> String {
        match self.counts {
            [0, 0, 0] => "nothing to change".to_string(),
            [add, change, remove] => format!("{add} to add, {change} to change, {remove} to remove"),
        }
    }
}

/// Entries as runtime commands for an empty switch.
pub fn commands(entries: &Entries) -> String {
    let mut text = String::new();
    for ((table, key, priority), Entry { action, params }) in entries {
        let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_string();
        let priority = priority.map_or(String::new(), |priority| format!(" {priority}"));
        let (key, params) = (key.join(" "), params.join(" "));
        text += &format!("table_add {} {} {key} => {params}{priority}\n", last(table), last(action));
    }
    text
}
