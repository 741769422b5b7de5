//! Reads by name, as JSON: what control connections carry. Answers are the records of dumps.

use crate::control::Control;
use crate::error::{ControlError, Result};
use crate::make_record::session_record;
use crate::named::{NamedEntry, NamedNoted, hex_text, rates_words};
use crate::read::{Entity, EntryState, GroupState, Selector};
use crate::record::{Groups, NoteRecord, Record};
use crate::schema::Schema;
use crate::update::{EntryRef, Ref};
use crate::value::{key_word, number_word};
use num_traits::Zero;
use p4jet_dataplane::QueueConfig;
use p4jet_externs::{CounterValue, Rates};
use p4jet_ir::{InstanceId, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A [`Selector`] with names in place of ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "as in Selector")]
pub enum NamedSelector {
    /// The entries of a table with their cells of direct counters and meters, const entries included.
    Entries { table: String },
    /// One entry.
    Entry { table: String, entry: NamedEntry },
    /// The default action of a table; no record for a table with an action profile whose default was not set.
    Default { table: String },
    /// The members of an action profile.
    Members { profile: String },
    /// The groups of an action selector.
    Groups { profile: String },
    /// The cells of a counter that are not 0.
    Counter { counter: String },
    /// The cells of a register that are not 0.
    Register { register: String },
    /// The cells of a meter that have rates.
    Meter { meter: String },
    /// The values of a parser value set.
    ValueSet { set: String },
    /// The multicast groups with the handles of their nodes.
    MulticastGroups {},
    /// One multicast group.
    MulticastGroup { group: u32 },
    /// The multicast nodes.
    Nodes {},
    /// The link aggregation groups.
    Lags {},
    /// The clone sessions.
    Sessions {},
    /// One clone session.
    Session { number: u32 },
    /// The settings of the output queues.
    Queues {},
    /// The constants of all custom CRCs.
    Crcs {},
    /// The constants of one custom CRC.
    Crc { name: String },
    /// The note about an object; no record if it has none.
    Note { of: NamedNoted },
    /// The notes about all objects.
    Notes {},
}

/// One page of records.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedPage {
    /// The records. Cells and the like of one object are one record.
    pub records: Vec<Record>,
    /// The place where the next page begins; none after the last page.
    pub next: Option<u64>,
}

impl Control {
    /// Reads one page of at most `max` entities, as [`Control::read`], by name.
    ///
    /// # Errors
    ///
    /// Those of [`Schema::resolve_selector`] and [`Control::read`].
    pub fn read_named(&self, selector: &NamedSelector, from: u64, max: usize) -> Result<NamedPage> {
        let resolved = self.schema().resolve_selector(selector)?;
        let page = self.read(&resolved, from, max)?;
        let mut records = Records {
            control: self,
            of: &resolved,
            records: Vec::new(),
            counters: BTreeMap::new(),
            meters: BTreeMap::new(),
            multicast: None,
        };
        for entity in page.entities {
            records.put(entity);
        }
        Ok(NamedPage { records: records.finish(), next: page.next })
    }
}

impl Schema {
    /// The selector that a named one stands for in this program.
    ///
    /// # Errors
    ///
    /// The program has no object of that name, or the key does not fit the table.
    pub fn resolve_selector(&self, named: &NamedSelector) -> Result<Selector> {
        Ok(match named {
            NamedSelector::Entries { table } => Selector::Entries(self.table(table)?),
            NamedSelector::Entry { table, entry } => {
                let id = self.table(table)?;
                match self.resolve_entry(id, entry)? {
                    EntryRef::Handle(Ref::Handle(handle)) => Selector::Entry(id, handle),
                    EntryRef::Handle(Ref::Made(_)) => {
                        return Err(
                            ControlError::new("expected the handle or the key of an entry").field("entry")
                        );
                    }
                    EntryRef::Key(of) => Selector::EntryByKey(id, of.key, of.priority),
                }
            }
            NamedSelector::Default { table } => Selector::Default(self.table(table)?),
            NamedSelector::Members { profile } => Selector::Members(self.profile(profile)?),
            NamedSelector::Groups { profile } => Selector::Groups(self.profile(profile)?),
            NamedSelector::Counter { counter } => Selector::Counter(self.counter(counter)?),
            NamedSelector::Register { register } => Selector::Register(self.register(register)?),
            NamedSelector::Meter { meter } => Selector::Meter(self.meter(meter)?),
            NamedSelector::ValueSet { set } => Selector::ValueSet(self.value_set(set)?),
            NamedSelector::MulticastGroups {} => Selector::MulticastGroups,
            NamedSelector::MulticastGroup { group } => Selector::MulticastGroup(*group),
            NamedSelector::Nodes {} => Selector::Nodes,
            NamedSelector::Lags {} => Selector::Lags,
            NamedSelector::Sessions {} => Selector::Sessions,
            NamedSelector::Session { number } => Selector::Session(*number),
            NamedSelector::Queues {} => Selector::Queues,
            NamedSelector::Crcs {} => Selector::Crcs,
            NamedSelector::Crc { name } => Selector::Crc(self.crc(name)?),
            NamedSelector::Notes {} => Selector::Notes,
            NamedSelector::Note { of } => Selector::Note(self.resolve_noted(of)?),
        })
    }
}

/// The records of a page.
struct Records<'c> {
    control: &'c Control,
    of: &'c Selector,
    records: Vec<Record>,
    /// Cells of counters by index, or by the handle of the entry.
    counters: BTreeMap<u32, BTreeMap<u32, (u64, u64)>>,
    /// Likewise of meters.
    meters: BTreeMap<u32, BTreeMap<u32, [String; 2]>>,
    multicast: Option<Groups>,
}

impl Records<'_> {
    fn put(&mut self, entity: Entity) {
        let (control, schema) = (self.control, self.control.schema());
        match (entity, self.of) {
            (
                Entity::Entry(entry),
                Selector::Entries(table) | Selector::Entry(table, _) | Selector::EntryByKey(table, ..),
            ) => {
                self.entry(*table, *entry);
            }
            (Entity::Default(Some(action)), Selector::Default(table)) => {
                self.records.push(schema.default_record(*table, &action));
            }
            (Entity::Member(handle, action), Selector::Members(id)) => {
                self.records.push(schema.member_record(*id, handle, &action));
            }
            (Entity::Group(handle, GroupState { members, weighted }), Selector::Groups(id)) => {
                let members: Vec<_> = members.iter().map(|share| (share.member, share.weight)).collect();
                self.records.push(schema.group_record(*id, handle, &members, weighted));
            }
            (Entity::Counter(index, value), Selector::Counter(id)) => self.counter_cell(*id, index, value),
            (Entity::Register(index, value), Selector::Register(id)) if !value.is_zero() => {
                let word = number_word(&value);
                if let Some(Record::Register(register)) = self.records.last_mut() {
                    register.cells.insert(index, word);
                } else {
                    self.records.push(schema.register_record(*id, [(index, word)].into()));
                }
            }
            (Entity::Meter(index, rates), Selector::Meter(id)) => self.meter_cell(*id, index, rates),
            (Entity::Value(key), Selector::ValueSet(id)) => {
                let words = key.iter().map(key_word).collect();
                if let Some(Record::ValueSet(set)) = self.records.last_mut() {
                    set.values.push(words);
                } else {
                    self.records.push(schema.value_set_record(*id, vec![words]));
                }
            }
            (Entity::MulticastGroup(group, nodes), _) => drop(self.groups().groups.insert(group, nodes)),
            (Entity::Node(handle, node), _) => {
                self.groups().nodes.insert(handle, node.into());
            }
            (Entity::Lag(lag, ports), _) => drop(self.groups().lags.insert(lag, ports)),
            (Entity::Session(number, session), _) => {
                self.records.push(session_record(number, &session));
            }
            (Entity::Queues(port, settings), _) => {
                if !matches!(self.records.last(), Some(Record::Queues(_))) {
                    let config = control.switch().queues().config();
                    // The ports follow one by one.
                    let config = QueueConfig { ports: BTreeMap::new(), ..config };
                    self.records.push(Record::Queues((&config).into()));
                }
                if let (Some(Record::Queues(queues)), Some(port)) = (self.records.last_mut(), port) {
                    queues.ports.insert(port, settings.as_ref().into());
                }
            }
            (Entity::Crc(crc, params), _) => {
                self.records.push(Record::Crc(control.schema().crc_record(crc, &params)))
            }
            (Entity::Note(of, note), _) => {
                let (of, note) = (schema.named_noted(&of), hex_text(&note));
                self.records.push(Record::Note(NoteRecord { of, note }));
            }
            // Cells that are 0; nothing else comes with another selector.
            _ => {}
        }
    }

    fn entry(&mut self, id: TableId, entry: EntryState) {
        let control = self.control;
        let EntryState { handle, key, priority, action, life, counters, meters } = entry;
        let timeout_ms = life.map(|life| life.timeout_ms);
        self.records.push(control.entry_record(id, handle, &key, priority, &action, timeout_ms));
        for (id, value) in counters {
            self.counter_cell(id, handle, value);
        }
        for (id, rates) in meters {
            self.meter_cell(id, handle, rates);
        }
    }

    fn counter_cell(&mut self, counter: InstanceId, index: u32, value: CounterValue) {
        if value != CounterValue::default() {
            self.counters.entry(counter.0).or_default().insert(index, (value.packets, value.bytes));
        }
    }

    fn meter_cell(&mut self, meter: InstanceId, index: u32, rates: Option<Rates>) {
        if let Some(rates) = rates {
            self.meters.entry(meter.0).or_default().insert(index, rates_words(&rates));
        }
    }

    /// The record of groups, nodes and lags.
    fn groups(&mut self) -> &mut Groups {
        self.multicast.get_or_insert_default()
    }

    fn finish(self) -> Vec<Record> {
        let Records { control, mut records, counters, meters, multicast, .. } = self;
        let schema = control.schema();
        let counter = |(id, cells)| schema.counter_record(InstanceId(id), cells);
        records.extend(counters.into_iter().map(counter));
        let meter = |(id, cells)| schema.meter_record(InstanceId(id), cells);
        records.extend(meters.into_iter().map(meter));
        records.extend(multicast.map(Record::Multicast));
        records
    }
}
