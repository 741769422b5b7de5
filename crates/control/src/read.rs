//! Reads the objects of a switch in pages.

use crate::control::Control;
use crate::error::{ControlError, Result};
use crate::notes::{Note, Noted};
use crate::schema::ObjectKind;
use crate::update::Share;
use crate::write::no_session;
use num_bigint::BigUint;
use p4jet_dataplane::PortSettings;
use p4jet_externs::{CounterValue, CrcParams, Group, MulticastError, Node, Rates, Session};
use p4jet_ir::{InstanceId, InstanceKind, TableId};
use p4jet_tables::{Action, EntryHandle, GroupPlaces, KeyMatch, Life};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of entities in a page. A lock is held while one page is read.
pub const PAGE_MAX: usize = 1024;

/// A selection of objects to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The entries of a table, including const ones, in the order of their positions.
    Entries(TableId),
    /// One entry, by its handle.
    Entry(TableId, u32),
    /// One entry, by its key and priority; 0 where entries have no priority.
    EntryByKey(TableId, Vec<KeyMatch>, u32),
    /// The default action of a table.
    Default(TableId),
    /// The members of an action profile, in the order of their handles.
    Members(InstanceId),
    /// The groups of an action selector, in the order of their handles.
    Groups(InstanceId),
    /// The cells of a counter. Cells of a direct counter are part of their entries.
    Counter(InstanceId),
    /// The cells of a register.
    Register(InstanceId),
    /// The cells of a meter. Cells of a direct meter are part of their entries.
    Meter(InstanceId),
    /// The values of a parser value set.
    ValueSet(TableId),
    /// The multicast groups.
    MulticastGroups,
    /// One multicast group.
    MulticastGroup(u32),
    /// The multicast nodes, in the order of their handles.
    Nodes,
    /// The link aggregation groups.
    Lags,
    /// The clone sessions, in the order of their numbers.
    Sessions,
    /// One clone session.
    Session(u32),
    /// The settings of output queues: first those of the ports that have none of their own, then by port.
    Queues,
    /// The constants of all custom CRCs, in the order of their numbers.
    Crcs,
    /// The constants of one custom CRC, by its number in the schema.
    Crc(u32),
    /// The note about an object; nothing if it has none.
    Note(Noted),
    /// The notes about all objects, in the order of the objects.
    Notes,
}

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Entity {
    /// An entry of a table.
    Entry(Box<EntryState>),
    /// The default action of a table. `None` for a table with an action profile whose default was not set.
    Default(Option<Action>),
    /// A member of an action profile: its handle and its action.
    Member(u32, Action),
    /// A group, by handle.
    Group(u32, GroupState),
    /// A cell of a counter, by index.
    Counter(u32, CounterValue),
    /// A cell of a register, by index.
    Register(u32, BigUint),
    /// A cell of a meter, by index.
    Meter(u32, Option<Rates>),
    /// A value of a parser value set.
    Value(Vec<KeyMatch>),
    /// A multicast group: its number and the handles of its nodes.
    MulticastGroup(u32, Vec<u32>),
    /// A multicast node, by handle.
    Node(u32, Node),
    /// A link aggregation group: its number and its ports.
    Lag(u32, BTreeSet<u32>),
    /// A clone session, by number.
    Session(u32, Session),
    /// The output queues of a port, or of all ports that have no settings of their own.
    Queues(Option<u32>, Box<PortSettings>),
    /// The constants of a custom CRC, by its number in the schema.
    Crc(u32, CrcParams),
    /// The note about an object.
    Note(Noted, Note),
}

/// The members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// The members with their weights, in the order of their handles.
    pub members: Vec<Share>,
    /// True if [`Update::SetGroup`](crate::Update::SetGroup) set them; otherwise every weight is 1.
    pub weighted: bool,
}

/// An entry with its direct counters, meters and age.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryState {
    /// Its handle.
    pub handle: u32,
    /// A match for each field of the key.
    pub key: Vec<KeyMatch>,
    /// The smallest number wins; 0 where entries have no priority.
    pub priority: u32,
    /// The action, member or group.
    pub action: Action,
    /// Its timeout and age, if it has a timeout.
    pub life: Option<Life>,
    /// Its cells of direct counters.
    pub counters: Vec<(InstanceId, CounterValue)>,
    /// Its cells of direct meters.
    pub meters: Vec<(InstanceId, Option<Rates>)>,
}

/// Some of the entities that a selector chooses.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The entities.
    pub entities: Vec<Entity>,
    /// Where the next page begins; none if this was the last one.
    pub next: Option<u64>,
}

impl Page {
    fn all(entities: Vec<Entity>) -> Page {
        Page { entities, next: None }
    }

    /// One page of an ordered map: from the key `from` on.
    fn of<T>(map: &BTreeMap<u32, T>, from: u64, max: usize, entity: impl Fn(u32, &T) -> Entity) -> Page {
        let Ok(from) = u32::try_from(from) else { return Page::all(Vec::new()) };
        Page::of_rest(map.range(from..).map(|(key, value)| (*key, value)), max, entity)
    }

    /// One page of what an ordered map has from a key on.
    fn of_rest<'a, T: 'a>(
        mut rest: impl Iterator<Item = (u32, &'a T)>,
        max: usize,
        entity: impl Fn(u32, &T) -> Entity,
    ) -> Page {
        let entities = rest.by_ref().take(max).map(|(key, value)| entity(key, value)).collect();
        Page { entities, next: rest.next().map(|(key, _)| u64::from(key)) }
    }

    /// One page of what `list` gives from a handle on.
    fn from_handle<T>(
        from: u64,
        list: impl FnOnce(u32) -> (Vec<T>, Option<u32>),
        entity: impl Fn(T) -> Entity,
    ) -> Page {
        let Ok(from) = u32::try_from(from) else { return Page::all(Vec::new()) };
        let (found, next) = list(from);
        Page { entities: found.into_iter().map(entity).collect(), next: next.map(u64::from) }
    }

    /// One page of an array of `size` cells.
    fn of_cells(size: u32, from: u64, max: usize, entity: impl Fn(u32) -> Result<Entity>) -> Result<Page> {
        let end = from.saturating_add(max as u64).min(u64::from(size));
        let entities = (from..end).map(|index| entity(index as u32)).collect::<Result<_>>()?;
        Ok(Page { entities, next: (end < u64::from(size)).then_some(end) })
    }
}

impl Control {
    /// The default action of a table. As in bmv2, a table with an action profile has none until a member or group is set, although
    /// the program's action runs.
    pub fn default_action(&self, table: TableId) -> Option<Action> {
        default_of(&self.switch.table(table)).cloned()
    }

    /// Reads one page of at most `max` entities ([`PAGE_MAX`] at most). The first page begins `from` 0, each other one where
    /// [`Page::next`] of the page before says; the last one has none. A page may be empty although others follow. Each page
    /// has its entities as they are at one moment; what changes between two pages may be in either form, or missing.
    ///
    /// # Errors
    ///
    /// The program has no such table, counter, register or the like; there is no such entry, multicast group or session; or the cells are those of a
    /// direct counter or meter, which are part of their entries.
    pub fn read(&self, selector: &Selector, from: u64, max: usize) -> Result<Page> {
        let max = max.clamp(1, PAGE_MAX);
        let state = self.switch.state();
        let unknown = |kind| self.schema.names(kind).no_such();
        let instance = |id: &InstanceId, kind| {
            self.program()
                .instances
                .get(id.index())
                .map(|instance| &instance.kind)
                .ok_or_else(|| unknown(kind))
        };
        let table = |id: &TableId, hidden: bool| match self.program().tables.get(id.index()) {
            Some(table) if table.hidden == hidden => Ok(()),
            _ => Err(unknown(if hidden { ObjectKind::ValueSet } else { ObjectKind::Table })),
        };
        Ok(match selector {
            Selector::Entries(id) => {
                table(id, false)?;
                self.entries_page(*id, from, max)
            }
            Selector::Entry(id, handle) => {
                table(id, false)?;
                let t = self.switch.table(*id);
                match t.get(EntryHandle(*handle)) {
                    Some(entry) => Page::all(vec![self.entry_state(*id, &t, EntryHandle(*handle), entry)]),
                    None => {
                        let error = p4jet_tables::TableError::InvalidHandle(EntryHandle(*handle));
                        return Err(self.refused(*id)(error));
                    }
                }
            }
            Selector::EntryByKey(id, key, priority) => {
                table(id, false)?;
                let handle = self.find_entry(*id, key, *priority)?;
                return self.read(&Selector::Entry(*id, handle.0), from, max);
            }
            Selector::Default(id) => {
                table(id, false)?;
                Page::all(vec![Entity::Default(self.default_action(*id))])
            }
            Selector::Members(profile) => {
                let profile = self.profile(self.schema.profile_table(*profile)?)?;
                let entity = |(handle, action)| Entity::Member(handle, action);
                Page::from_handle(from, |from| profile.members_from(from, max), entity)
            }
            Selector::Groups(profile) => {
                let profile = self.profile(self.schema.profile_table(*profile)?)?;
                let share = |(member, weight)| Share { member, weight };
                let entity = |(handle, (members, weighted)): (u32, GroupPlaces)| {
                    let members = members.into_iter().map(share).collect();
                    Entity::Group(handle, GroupState { members, weighted })
                };
                Page::from_handle(from, |from| profile.groups_from(from, max), entity)
            }
            Selector::Counter(id) => match instance(id, ObjectKind::Counter)? {
                InstanceKind::Counter { size, .. } => Page::of_cells(*size, from, max, |index| {
                    Ok(Entity::Counter(index, self.counter_value(*id, index)?))
                })?,
                InstanceKind::DirectCounter { .. } => return Err(self.direct(*id, "counter")),
                _ => return Err(unknown(ObjectKind::Counter)),
            },
            Selector::Register(id) => match instance(id, ObjectKind::Register)? {
                InstanceKind::Register { size, .. } => Page::of_cells(*size, from, max, |index| {
                    Ok(Entity::Register(index, self.register_value(*id, index)?))
                })?,
                _ => return Err(unknown(ObjectKind::Register)),
            },
            Selector::Meter(id) => match instance(id, ObjectKind::Meter)? {
                InstanceKind::Meter { size, .. } => Page::of_cells(*size, from, max, |index| {
                    Ok(Entity::Meter(index, self.meter_rates(*id, index)?))
                })?,
                InstanceKind::DirectMeter { .. } => return Err(self.direct(*id, "meter")),
                _ => return Err(unknown(ObjectKind::Meter)),
            },
            Selector::ValueSet(id) => {
                table(id, true)?;
                let t = self.switch.table(*id);
                let (entries, next) = t.entries_from(from, max);
                Page { entities: entries.map(|(_, entry)| Entity::Value(entry.key)).collect(), next }
            }
            Selector::MulticastGroups => {
                state.with_multicast(|multicast| Page::of(multicast.groups(), from, max, multicast_group))
            }
            Selector::MulticastGroup(number) => state.with_multicast(|multicast| {
                let group = multicast.groups().get(number).ok_or(MulticastError::InvalidGroup(*number))?;
                Ok::<_, ControlError>(Page::all(vec![multicast_group(*number, group)]))
            })?,
            Selector::Nodes => {
                let entity = |handle, node: &Node| Entity::Node(handle, node.clone());
                state.with_multicast(|multicast| Page::of(multicast.nodes(), from, max, entity))
            }
            Selector::Lags => {
                let entity = |lag, ports: &BTreeSet<u32>| Entity::Lag(lag, ports.clone());
                state.with_multicast(|multicast| Page::of(multicast.lags(), from, max, entity))
            }
            Selector::Sessions => {
                let destinations = state.destinations();
                let first = u32::try_from(from).unwrap_or(u32::MAX);
                let entity =
                    |number, session: &std::sync::Arc<Session>| Entity::Session(number, (**session).clone());
                Page::of_rest(destinations.sessions.iter_from(first), max, entity)
            }
            Selector::Session(number) => {
                let destinations = state.destinations();
                let session = destinations.sessions.get(*number).ok_or_else(|| no_session(*number))?;
                Page::all(vec![Entity::Session(*number, (**session).clone())])
            }
            Selector::Queues => {
                let queues = self.switch.queues().config();
                // The place of a port is the number behind its own.
                let mut entities = Vec::new();
                if from == 0 {
                    entities.push(Entity::Queues(None, Box::new(queues.others)));
                }
                let first = u32::try_from(from.saturating_sub(1)).unwrap_or(u32::MAX);
                let beyond = from > u64::from(u32::MAX) + 1;
                let mut rest = queues.ports.range(first..).filter(|_| !beyond);
                let some = rest.by_ref().take(max - entities.len());
                entities
                    .extend(some.map(|(port, settings)| Entity::Queues(Some(*port), Box::new(*settings))));
                Page { entities, next: rest.next().map(|(port, _)| u64::from(*port) + 1) }
            }
            Selector::Crcs => {
                let size = self.schema.description().crcs.len() as u32;
                Page::of_cells(size, from, max, |crc| Ok(Entity::Crc(crc, self.crc(crc))))?
            }
            Selector::Crc(crc) => match self.schema.crc_width(*crc) {
                Some(_) => Page::all(vec![Entity::Crc(*crc, self.crc(*crc))]),
                None => return Err(unknown(ObjectKind::Crc)),
            },
            Selector::Notes => {
                let (notes, next) = self.notes.page(from, max);
                Page { entities: notes.into_iter().map(|(of, note)| Entity::Note(of, note)).collect(), next }
            }
            Selector::Note(of) => {
                let note = self.note(of).map(|note| Entity::Note(of.clone(), note));
                Page::all(note.into_iter().collect())
            }
        })
    }

    fn direct(&self, id: InstanceId, kind: &str) -> ControlError {
        let name = self.schema.instance_name(id);
        let message = format!("`{name}` is a direct {kind}: read it with its table's entries");
        ControlError::new(message).entity(name).field(kind)
    }

    /// The constants of a custom CRC: those of the ordinary CRC unless others are set.
    fn crc(&self, crc: u32) -> CrcParams {
        let set = self.switch.state().crc(self.schema.names(ObjectKind::Crc).name(crc));
        set.unwrap_or_else(|| self.usual_crc(crc))
    }

    fn entries_page(&self, id: TableId, from: u64, max: usize) -> Page {
        let t = self.switch.table(id);
        let (entries, next) = t.entries_from(from, max);
        let entities = entries.map(|(handle, entry)| self.entry_state(id, &t, handle, entry)).collect();
        Page { entities, next }
    }

    fn entry_state(
        &self,
        id: TableId,
        table: &p4jet_tables::Table,
        handle: EntryHandle,
        entry: p4jet_tables::Entry,
    ) -> Entity {
        let (state, shape) = (self.switch.state(), &self.schema.shape(id));
        let row = table.row_of(handle);
        let counters = shape.direct_counters.iter();
        let counters =
            counters.filter_map(|counter| Some((*counter, state.counter_read(counter.0, row).ok()?)));
        let meters = shape.direct_meters.iter();
        let meters = meters.filter_map(|meter| Some((*meter, state.meter_rates(meter.0, row).ok()?)));
        Entity::Entry(Box::new(EntryState {
            handle: handle.0,
            key: entry.key,
            priority: entry.priority,
            action: entry.action,
            life: table.life(handle, self.switch.now_us()),
            counters: counters.collect(),
            meters: meters.collect(),
        }))
    }
}

fn multicast_group(number: u32, group: &Group) -> Entity {
    Entity::MulticastGroup(number, group.nodes().collect())
}

/// The default action, member or group of a table. As in bmv2, a table with an action profile has none until a member or group
/// is set, although the program's action runs.
pub(crate) fn default_of(table: &p4jet_tables::Table) -> Option<&Action> {
    let default = table.default_action();
    let unset = table.profile().is_some() && default.as_member().or(default.as_group()).is_none();
    (!unset).then_some(default)
}
