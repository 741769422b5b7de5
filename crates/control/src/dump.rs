//! Writes the whole configuration as JSON, one record per line: dumps and state files.
//!
//! Keys, values and names are written as in updates by name ([`NamedUpdate`](crate::NamedUpdate)).

use crate::control::Control;
use crate::describe::{ActionInfo, instances};
use crate::fields::Param;
use crate::make_record::session_record;
use crate::named::{hex_text, rates_words};
use crate::read::default_of;
use crate::record::{End, Groups, Header, NoteRecord, Record, Shape, VERSION, VERSION_SEALED};
use crate::schema::{ObjectKind, is_const_entry};
use crate::sealed::{FileSum, seal};
use crate::update::DEFAULT_CELL;
use crate::value::{key_word, number_word};
use p4jet_dataplane::QueueConfig;
use p4jet_externs::CounterValue;
use p4jet_ir::{Instance, InstanceId, InstanceKind, TableId};
use p4jet_tables::Entry;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Maximum number of cells in a record.
const CELLS_MAX: usize = 1024;

fn actions(actions: &[ActionInfo]) -> BTreeMap<String, Vec<Param>> {
    actions.iter().map(|action| (action.name.clone(), action.params.clone())).collect()
}

/// Writes records, one per line.
struct Lines<'w, W> {
    out: &'w mut W,
    /// The checksum of the lines so far, if they carry checksums.
    sum: Option<FileSum>,
    line: Vec<u8>,
}

impl<W: Write> Lines<'_, W> {
    fn put(&mut self, record: &Record) -> io::Result<()> {
        let Some(sum) = &mut self.sum else {
            serde_json::to_writer(&mut *self.out, record)?;
            return self.out.write_all(b"\n");
        };
        self.line.clear();
        sum.add(seal(serde_json::to_vec(record)?, &mut self.line));
        self.out.write_all(&self.line)
    }

    /// Writes the last line, if lines carry checksums.
    fn end(&mut self, serial: Option<u64>) -> io::Result<()> {
        match (&self.sum, serial) {
            (Some(sum), Some(serial)) => {
                let end = End { serial, lines: sum.lines, sums: sum.text() };
                self.put(&Record::End(end))
            }
            _ => Ok(()),
        }
    }

    /// Writes cells, at most [`CELLS_MAX`] in a record.
    fn cells<T>(
        &mut self,
        cells: impl Iterator<Item = (u32, T)>,
        record: impl Fn(BTreeMap<u32, T>) -> Record,
    ) -> io::Result<()> {
        let mut some = BTreeMap::new();
        for (index, value) in cells {
            some.insert(index, value);
            if some.len() == CELLS_MAX {
                self.put(&record(std::mem::take(&mut some)))?;
            }
        }
        if some.is_empty() { Ok(()) } else { self.put(&record(some)) }
    }
}

impl Control {
    /// Returns the configuration and the registers; on request also the counters: one JSON record per line.
    pub fn dump(&self, counters: bool) -> String {
        let mut text = Vec::new();
        // Writing to memory does not fail, and JSON is UTF-8.
        let _ = self.write_state(counters, None, &mut text);
        String::from_utf8(text).unwrap_or_default()
    }

    /// Writes the configuration and the registers; on request also the counters. With a
    /// serial number the result is a state file, whose lines carry checksums; otherwise a dump.
    pub(crate) fn write_state(
        &self,
        counters: bool,
        serial: Option<u64>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (program, names) = (self.program(), self.schema());
        let (version, sum) = match serial {
            Some(_) => (VERSION_SEALED, Some(FileSum::default())),
            None => (VERSION, None),
        };
        let mut out = Lines { out, sum, line: Vec::new() };
        out.put(&Record::State(Header { version, program: program.name.clone(), serial }))?;
        for profile in names.names(ObjectKind::Profile).sorted() {
            let Ok(id) = names.profile_table(InstanceId(profile)) else { continue };
            let (profile, name) =
                (InstanceId(profile), names.names(ObjectKind::Profile).name(profile).to_string());
            let (actions, generations) = (actions(names.actions_of(id)), BTreeMap::new());
            let (key, generation_min) = (Vec::new(), 0);
            out.put(&Record::Profile(Shape { name, key, actions, generations, generation_min }))?;
            let Ok(of) = self.profile(id) else { continue };
            for (handle, action) in of.members() {
                out.put(&names.member_record(profile, handle, &action))?;
            }
            for (handle, (members, weighted)) in of.groups_from(0, usize::MAX).0 {
                out.put(&names.group_record(profile, handle, &members, weighted))?;
            }
        }
        for id in names.names(ObjectKind::Table).sorted().map(TableId) {
            self.write_table(id, &mut out)?;
        }
        for id in names.names(ObjectKind::ValueSet).sorted().map(TableId) {
            let members = self.switch.table(id);
            let values: Vec<Vec<String>> =
                members.entries().map(|(_, entry)| entry.key.iter().map(key_word).collect()).collect();
            if !values.is_empty() {
                out.put(&names.value_set_record(id, values))?;
            }
        }
        self.write_instances(counters, &mut out)?;
        let state = self.switch.state();
        for crc in names.names(ObjectKind::Crc).sorted() {
            let name = names.names(ObjectKind::Crc).name(crc);
            let set = state.crc(name).filter(|set| *set != self.usual_crc(crc));
            if let Some(params) = set {
                out.put(&Record::Crc(self.schema.crc_record(crc, &params)))?;
            }
        }
        let groups = state.with_multicast(|multicast| {
            let nodes = multicast.nodes().iter().map(|(handle, node)| (*handle, node.clone().into()));
            let groups = multicast.groups().iter().map(|(number, group)| (*number, group.nodes().collect()));
            Groups { groups: groups.collect(), nodes: nodes.collect(), lags: multicast.lags().clone() }
        });
        if groups != Groups::default() {
            out.put(&Record::Multicast(groups))?;
        }
        for (number, session) in state.destinations().sessions.iter() {
            out.put(&session_record(number, session))?;
        }
        for (of, note) in self.notes() {
            let record = NoteRecord { of: self.schema.named_noted(&of), note: hex_text(&note) };
            out.put(&Record::Note(record))?;
        }
        let queues = self.switch.queues().config();
        if queues != QueueConfig::default() {
            out.put(&Record::Queues((&queues).into()))?;
        }
        out.end(serial)
    }

    fn write_table(&self, id: TableId, out: &mut Lines<'_, impl Write>) -> io::Result<()> {
        let declared = &self.program().tables[id.index()];
        let table = self.switch.table(id);
        let (key, actions) = (self.schema.key(id).to_vec(), actions(self.schema.actions_of(id)));
        let generations = table.retired_generations().collect();
        let (name, generation_min) = (declared.name.clone(), table.generation_min());
        out.put(&Record::Table(Shape { name, key, actions, generations, generation_min }))?;
        if !declared.const_entries {
            for (handle, entry) in table.entries_by_age() {
                if !is_const_entry(declared, handle.0) {
                    let timeout_ms = table.life(handle, 0).map(|life| life.timeout_ms);
                    let Entry { key, priority, action } = &entry;
                    out.put(&self.entry_record(id, handle.0, key, *priority, action, timeout_ms))?;
                }
            }
        }
        match default_of(&table) {
            Some(default) if table.is_default_set() => out.put(&self.schema.default_record(id, default)),
            _ => Ok(()),
        }
    }

    fn write_instances(&self, counters: bool, out: &mut Lines<'_, impl Write>) -> io::Result<()> {
        let state = self.switch.state();
        for (id, instance) in instances(self.program()) {
            match instance.kind {
                InstanceKind::Register { .. } => {
                    let cells =
                        state.register_values(id.0).map(|(index, value)| (index, number_word(&value)));
                    out.cells(cells, |cells| self.schema.register_record(id, cells))?;
                }
                InstanceKind::Counter { .. } | InstanceKind::DirectCounter { .. } if counters => {
                    let cells = self
                        .counter_values(id)
                        .map(|(index, CounterValue { packets, bytes })| (index, (packets, bytes)));
                    out.cells(cells, |cells| self.schema.counter_record(id, cells))?;
                }
                InstanceKind::Meter { .. } | InstanceKind::DirectMeter { .. } => {
                    let default = self.schema.direct_table(id).map(|_| DEFAULT_CELL);
                    let default = default.and_then(|cell| Some((cell, self.meter_rates(id, cell).ok()??)));
                    let rates = self.meter_values(id).chain(default);
                    let rates = rates.map(|(index, rates)| (index, rates_words(&rates)));
                    out.cells(rates, |cells| self.schema.meter_record(id, cells))?;
                }
                InstanceKind::Counter { .. }
                | InstanceKind::DirectCounter { .. }
                | InstanceKind::Digest { .. }
                | InstanceKind::ActionProfile { .. } => {}
            }
        }
        Ok(())
    }

    /// The number of objects in a dump, apart from cells.
    pub fn objects(&self) -> usize {
        let profiles = self.schema.names(ObjectKind::Profile).sorted().filter_map(|id| {
            Some(self.profile(self.schema.profile_table(InstanceId(id)).ok()?).ok()?.objects_count())
        });
        let state = self.switch.state();
        let multicast = state.with_multicast(|m| m.nodes().len() + m.groups().len() + m.lags().len());
        self.entries() + profiles.sum::<usize>() + multicast + state.destinations().sessions.len()
    }

    /// The approximate length of all cells in a dump, in bytes.
    pub fn cells_text_bytes(&self, counters: bool) -> usize {
        let state = self.switch.state();
        let of = |(id, instance): (InstanceId, &Instance)| match instance.kind {
            InstanceKind::Register { .. } => self.register_text_bytes(id),
            InstanceKind::Counter { .. } if counters => {
                state.counter_values(id.0).count() * cell_text_bytes(128)
            }
            InstanceKind::Meter { .. } => state.meter_values(id.0).count() * cell_text_bytes(256),
            // The cells of entries are part of these.
            _ => 0,
        };
        instances(self.program()).map(of).sum()
    }

    /// The approximate length of the cells of a register that are not 0, in bytes.
    pub fn register_text_bytes(&self, register: InstanceId) -> usize {
        let width = self.schema.register_cells(register).map_or(0, |cells| cells.width);
        self.switch.state().register_values(register.0).count() * cell_text_bytes(width)
    }
}

/// The maximum length of a cell of this width, as a decimal number with index and punctuation.
fn cell_text_bytes(width: u32) -> usize {
    20 + width as usize / 3
}
