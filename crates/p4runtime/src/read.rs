//! Reads of entities.
//!
//! Each pattern of a request becomes a list of [`Source`]s, which are read one after the other in pieces. Batches wait while a piece
//! is read, so a Read that fits in one piece sees each batch completely or not at all.

use crate::cells::index;
use crate::notes::note;
use crate::pipeline::{Array, Pipeline, Profile, Register, Table, ValueSet};
use crate::profiles::{self, Style, style};
use crate::refusal::{Code, Errors, Reason, Refusal, Result};
use crate::replication;
use crate::session::RoleView;
use crate::table_entry::{DEFAULT_ROW, show_colours, show_rates};
use crate::value::{handle_of_id, id_of_handle};
use p4jet_control::{Control, Entity as Read, Noted, Selector, SharedControl};
use p4jet_externs::CounterValue;
use p4jet_ir::{CounterUnit, InstanceId, InstanceKind};
use p4jet_p4info::proto::v1::{self, Entity, EntityKind, ReplicationType, TableAction, TableActionType};
use p4jet_tables::{EntryHandle, KeyMatch};
use prost::Message;

/// Maximum number of entities of a page.
pub const PAGE_MAX: usize = 1024;
/// Maximum number of entities that are read while batches wait: about 20 ms.
const PIECE_MAX: usize = 16 * PAGE_MAX;
/// Bytes of entities after which a piece ends.
pub const PIECE_BYTES_MAX: usize = 2 << 20;
/// Number of entities that are read before their bytes are counted. With the longest metadata, they have 2 MiB.
const STEP_MAX: usize = 32;

/// Reads the entities that match the patterns, page by page. `page` returns false to stop.
///
/// # Errors
/// One result per pattern, if a pattern is wrong: code 0 for the right ones, whose entities were read.
pub fn read(
    pipeline: &Pipeline,
    switch: &SharedControl,
    role: &RoleView,
    wanted: &[v1::Entity],
    page: &mut dyn FnMut(Vec<v1::Entity>) -> bool,
) -> std::result::Result<(), Vec<v1::Error>> {
    let role = &pipeline.view(role);
    let mut errors = Errors::new(wanted.len());
    for (place, pattern) in wanted.iter().enumerate() {
        match read_one(pipeline, switch, role, pattern, page) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(refusal) => errors.put(place, refusal),
        }
    }
    errors.finish().map_or(Ok(()), Err)
}

/// Returns false if no more pages are wanted.
fn read_one(
    pipeline: &Pipeline,
    switch: &SharedControl,
    role: &RoleView,
    pattern: &Entity,
    page: &mut dyn FnMut(Vec<Entity>) -> bool,
) -> Result<bool> {
    let sources = pipeline.sources(role, pattern)?;
    let mut sources = sources.iter();
    let (mut source, mut from) = (sources.next(), 0u64);
    while source.is_some() {
        let piece = switch.at_one_moment(|control| -> Result<Vec<Entity>> {
            pipeline.check_program(control)?;
            pipeline.follow_restore(control);
            let mut out = Vec::new();
            let (mut left, mut bytes) = (PIECE_MAX, 0);
            while let Some(now) = source.filter(|_| left > 0 && bytes < PIECE_BYTES_MAX) {
                // Entities that a filter rejects cost time, too.
                let before = out.len();
                let (next, looked_at) =
                    pipeline.read_source(control, now, from, left.min(STEP_MAX), &mut out)?;
                left = left.saturating_sub(looked_at.max(1));
                bytes += out[before..].iter().map(Message::encoded_len).sum::<usize>();
                match next {
                    Some(next) => from = next,
                    None => (source, from) = (sources.next(), 0),
                }
            }
            Ok(out)
        })?;
        let mut piece = piece.into_iter().peekable();
        while piece.peek().is_some() {
            if !page(piece.by_ref().take(PAGE_MAX).collect()) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Entities to read.
enum Source<'a> {
    Entries(&'a Table, Filter),
    Default(&'a Table, Filter),
    DirectCounters(&'a Table, Filter, InstanceId),
    DirectMeters(&'a Table, Filter, InstanceId),
    Counter(u32, InstanceId, std::ops::Range<u32>),
    /// The last value is true if the counts of its colours are wanted.
    Meter(u32, &'a Array, std::ops::Range<u32>, bool),
    Register(u32, &'a Register, std::ops::Range<u32>),
    ValueSet(u32, &'a ValueSet),
    Members(u32, &'a Profile, Option<u32>),
    Groups(u32, &'a Profile, Option<u32>),
    MulticastGroups,
    /// One group, which must exist.
    MulticastGroup(u32),
    Sessions,
    Session(u32),
    Digest(v1::DigestEntry),
}

/// The wanted entries, and the wanted parts of them.
#[derive(Clone, Default)]
struct Filter {
    key: Option<Vec<KeyMatch>>,
    /// 0 matches any.
    priority: i32,
    action: Option<u32>,
    cookie: u64,
    metadata: bytes::Bytes,
    counter: bool,
    meter: bool,
    colours: bool,
    since_hit: bool,
    /// True if the cell of the default entry is wanted.
    is_default: bool,
}

impl Filter {
    /// True if at most one entry of the table matches.
    fn is_one(&self, table: &Table) -> bool {
        self.key.is_some() && (!table.has_priority || self.priority != 0)
    }

    /// The note about an entry, if the filter lets the entry through.
    fn noted(&self, control: &Control, of: &Noted) -> Option<v1::TableEntry> {
        let noted = note::<v1::TableEntry>(control, of).unwrap_or_default();
        let wanted = (self.cookie == 0 || self.cookie == noted.controller_metadata)
            && (self.metadata.is_empty() || self.metadata == noted.metadata);
        wanted.then_some(noted)
    }
}

/// The configuration of a direct meter in a row, if there is one.
fn show_meter(control: &Control, table: &Table, meter: InstanceId, row: u32) -> Option<v1::MeterConfig> {
    let rates = control.switch().state().meter_rates(meter.0, row).ok().flatten();
    rates.as_ref().map(|rates| show_rates(table.meter_type, rates))
}

impl Pipeline {
    fn sources(&self, role: &RoleView, pattern: &Entity) -> Result<Vec<Source<'_>>> {
        let Some(pattern) = &pattern.entity else {
            return Err(Refusal::invalid(Reason::Form, "the entity is unset"));
        };
        match pattern {
            EntityKind::TableEntry(entry) => self.entry_sources(role, entry),
            EntityKind::CounterEntry(entry) => {
                if entry.counter_id == 0 {
                    let all = self.counters.iter().filter(|(id, _)| role.covers(**id, None));
                    return Ok(all.map(|(id, c)| Source::Counter(*id, c.instance, 0..c.size)).collect());
                }
                let counter = self.counter(entry.counter_id)?;
                let cells = cells(index(entry.index.as_ref(), &counter.name, counter.size)?, counter.size);
                let visible = role.covers(entry.counter_id, None);
                let source = Source::Counter(entry.counter_id, counter.instance, cells);
                Ok(Some(source).filter(|_| visible).into_iter().collect())
            }
            EntityKind::MeterEntry(entry) => {
                let counted = entry.counter_data.is_some();
                if entry.meter_id == 0 {
                    let all = self.meters.iter().filter(|(id, _)| role.covers(**id, None));
                    return Ok(all.map(|(id, m)| Source::Meter(*id, m, 0..m.size, counted)).collect());
                }
                let meter = self.meter(entry.meter_id)?;
                let cells = cells(index(entry.index.as_ref(), &meter.name, meter.size)?, meter.size);
                let visible = role.covers(entry.meter_id, None);
                let source = Source::Meter(entry.meter_id, meter, cells, counted);
                Ok(Some(source).filter(|_| visible).into_iter().collect())
            }
            EntityKind::RegisterEntry(entry) => {
                if entry.register_id == 0 {
                    let all = self.registers.iter().filter(|(id, _)| role.covers(**id, None));
                    return Ok(all.map(|(id, r)| Source::Register(*id, r, 0..r.size)).collect());
                }
                let register = self.register(entry.register_id)?;
                let cells = cells(index(entry.index.as_ref(), &register.name, register.size)?, register.size);
                let visible = role.covers(entry.register_id, None);
                let source = Source::Register(entry.register_id, register, cells);
                Ok(Some(source).filter(|_| visible).into_iter().collect())
            }
            EntityKind::DirectCounterEntry(entry) => self.direct_sources(
                role,
                entry.table_entry.as_ref(),
                "counter",
                |table| table.counter,
                Source::DirectCounters,
            ),
            EntityKind::DirectMeterEntry(entry) => {
                let colours = entry.counter_data.is_some();
                self.direct_sources(
                    role,
                    entry.table_entry.as_ref(),
                    "meter",
                    |table| table.meter,
                    |table, filter, meter| Source::DirectMeters(table, Filter { colours, ..filter }, meter),
                )
            }
            EntityKind::ValueSetEntry(entry) => {
                if entry.value_set_id == 0 {
                    let all = self.value_sets.iter().filter(|(id, _)| role.covers(**id, None));
                    return Ok(all.map(|(id, set)| Source::ValueSet(*id, set)).collect());
                }
                let set = self.value_set(entry.value_set_id)?;
                let source = Source::ValueSet(entry.value_set_id, set);
                let visible = role.covers(entry.value_set_id, None);
                Ok(Some(source).filter(|_| visible).into_iter().collect())
            }
            EntityKind::ActionProfileMember(member) => {
                let wanted = (member.member_id != 0).then(|| handle_of_id(member.member_id));
                self.profile_sources(role, member.action_profile_id, |id, profile| {
                    Source::Members(id, profile, wanted)
                })
            }
            EntityKind::ActionProfileGroup(group) => {
                let wanted = (group.group_id != 0).then(|| handle_of_id(group.group_id));
                self.profile_sources(role, group.action_profile_id, |id, profile| {
                    Source::Groups(id, profile, wanted)
                })
            }
            EntityKind::PacketReplicationEngineEntry(entry) => {
                let source = match &entry.r#type {
                    Some(ReplicationType::MulticastGroupEntry(group)) => match group.multicast_group_id {
                        0 => Source::MulticastGroups,
                        group => Source::MulticastGroup(group),
                    },
                    Some(ReplicationType::CloneSessionEntry(session)) => match session.session_id {
                        0 => Source::Sessions,
                        session => Source::Session(session),
                    },
                    None => {
                        let why = "neither a multicast group nor a clone session is set";
                        return Err(Refusal::invalid(Reason::Form, why));
                    }
                };
                let visible = role.covers(0, Some("packet_replication_engine_manager"));
                Ok(Some(source).filter(|_| visible).into_iter().collect())
            }
            EntityKind::DigestEntry(entry) => {
                let digests = self.read_digests(role, entry.digest_id)?;
                Ok(digests.into_iter().map(Source::Digest).collect())
            }
            EntityKind::ExternEntry(entry) => match (entry.extern_type_id, entry.extern_id) {
                (0, 0) => Ok(Vec::new()),
                (0x81..=0xfe, _) => Err(Refusal::unsupported("there are no externs of this type")),
                (found, _) => {
                    let why = format!("found the extern type {found:#x}, expected 0x81 to 0xfe");
                    Err(Refusal::invalid(Reason::Id, why))
                }
            },
        }
    }

    /// The sources of one profile, or of all that are visible.
    fn profile_sources<'a>(
        &'a self,
        role: &RoleView,
        id: u32,
        source: impl Fn(u32, &'a Profile) -> Source<'a>,
    ) -> Result<Vec<Source<'a>>> {
        if id != 0 {
            let profile = self.profile(id)?;
            let visible = role.covers(id, None);
            return Ok(Some(source(id, profile)).filter(|_| visible).into_iter().collect());
        }
        let visible = self.profiles.iter().filter(|(id, _)| role.covers(**id, None));
        Ok(visible.map(|(id, profile)| source(*id, profile)).collect())
    }

    fn entry_sources(&self, role: &RoleView, entry: &v1::TableEntry) -> Result<Vec<Source<'_>>> {
        let mut filter = Filter {
            priority: entry.priority,
            cookie: entry.controller_metadata,
            metadata: entry.metadata.clone(),
            counter: entry.counter_data.is_some(),
            meter: entry.meter_config.is_some(),
            colours: entry.meter_counter_data.is_some(),
            since_hit: entry.time_since_last_hit.is_some(),
            ..Filter::default()
        };
        let of_table = |table, filter: &Filter| match entry.is_default_action {
            true => Source::Default(table, filter.clone()),
            false => Source::Entries(table, filter.clone()),
        };
        if entry.table_id == 0 {
            let filtered = !entry.r#match.is_empty()
                || entry.action.is_some()
                || entry.priority != 0
                || entry.controller_metadata != 0
                || !entry.metadata.is_empty();
            if filtered {
                let why =
                    "`table_id` is 0 for all tables, so nothing else may be set but what is to be shown";
                return Err(Refusal::invalid(Reason::Form, why));
            }
            let all = self.tables.values().filter(|table| role.covers(table.id, table.role.as_deref()));
            return Ok(all.map(|table| of_table(table, &filter)).collect());
        }
        let table = self.table(entry.table_id)?;
        if !role.covers(table.id, table.role.as_deref()) {
            return Ok(Vec::new());
        }
        let invalid = |why: &str| Err(Refusal::invalid(Reason::Form, why).of(format!("`{}`", table.name)));
        if filter.counter && table.counter.is_none() {
            return invalid("there is no direct counter, so `counter_data` must be unset");
        }
        if filter.meter && table.meter.is_none() {
            return invalid("there is no direct meter, so `meter_config` must be unset");
        }
        if filter.colours && table.meter.is_none() {
            return invalid("there is no direct meter, so `meter_counter_data` must be unset");
        }
        if filter.since_hit && !table.idle_timeout {
            let why = "time_since_last_hit must not be set for tables which do not support idle timeout";
            return Err(Refusal::invalid(Reason::Timeout, why));
        }
        if let Some(TableAction { r#type: Some(TableActionType::Action(action)) }) = &entry.action
            && table.profile.is_none()
            && action.action_id != 0
        {
            if !table.actions.iter().any(|listed| listed.id == action.action_id) {
                return invalid("it has no action with this id");
            }
            filter.action = Some(action.action_id);
        }
        if entry.is_default_action {
            if !entry.r#match.is_empty() || entry.priority != 0 {
                return invalid("the default entry has no `match` and no `priority`");
            }
        } else if !entry.r#match.is_empty() {
            let Some(key) = self.wanted_key(table, &entry.r#match)? else { return Ok(Vec::new()) };
            filter.key = Some(key);
        }
        Ok(vec![of_table(table, &filter)])
    }

    fn direct_sources<'a>(
        &'a self,
        role: &RoleView,
        entry: Option<&v1::TableEntry>,
        what: &str,
        cell: impl Fn(&Table) -> Option<InstanceId>,
        source: impl Fn(&'a Table, Filter, InstanceId) -> Source<'a>,
    ) -> Result<Vec<Source<'a>>> {
        let none = v1::TableEntry::default();
        let entry = entry.unwrap_or(&none);
        if entry.table_id == 0 {
            let visible = |table: &&Table| role.covers(table.id, table.role.as_deref());
            let all = self.tables.values().filter(visible);
            return Ok(all.filter_map(|t| Some(source(t, Filter::default(), cell(t)?))).collect());
        }
        let table = self.table(entry.table_id)?;
        let Some(instance) = cell(table) else {
            let why = format!("`{}` has no direct {what}", table.name);
            return Err(Refusal::invalid(Reason::Form, why));
        };
        if !role.covers(table.id, table.role.as_deref()) {
            return Ok(Vec::new());
        }
        let mut filter = Filter { priority: entry.priority, ..Filter::default() };
        if entry.is_default_action {
            filter.is_default = true;
            return Ok(vec![source(table, filter, instance)]);
        }
        if !entry.r#match.is_empty() {
            let Some(key) = self.wanted_key(table, &entry.r#match)? else {
                // A string of the key has no number.
                let is_one = !table.has_priority || entry.priority != 0;
                return if is_one { Err(absent_entry(table)) } else { Ok(Vec::new()) };
            };
            filter.key = Some(key);
        }
        Ok(vec![source(table, filter, instance)])
    }

    /// Reads entities of a source from a position, at most about `max`. Returns the position of the next piece, if any, and the number of
    /// visited entities.
    fn read_source(
        &self,
        control: &Control,
        source: &Source<'_>,
        from: u64,
        max: usize,
        out: &mut Vec<Entity>,
    ) -> Result<(Option<u64>, usize)> {
        match source {
            Source::Entries(table, filter) => self.each_entry(control, table, filter, from, max, |entry| {
                let shown = self.show_entry(control, table, filter, entry);
                out.extend(shown.map(|entry| entity(EntityKind::TableEntry(entry))));
            }),
            Source::Default(table, filter) => {
                let shown = self.show_default(control, table, filter);
                out.extend(shown.map(|entry| entity(EntityKind::TableEntry(entry))));
                Ok((None, 1))
            }
            Source::DirectCounters(table, filter, counter) => {
                if filter.is_default {
                    let entry =
                        v1::TableEntry { table_id: table.id, is_default_action: true, ..Default::default() };
                    let value = control.switch().state().counter_read(counter.0, DEFAULT_ROW);
                    let data = Some(show_count(control, *counter, value.unwrap_or_default()));
                    let direct = v1::DirectCounterEntry { table_entry: Some(entry), data };
                    out.push(entity(EntityKind::DirectCounterEntry(direct)));
                    return Ok((None, 1));
                }
                self.each_entry_there(control, table, filter, from, max, |found| {
                    let value =
                        control.switch().state().counter_read(counter.0, found.row).unwrap_or_default();
                    let data = Some(show_count(control, *counter, value));
                    let table_entry = Some(self.show_entry_key(table, &found));
                    let direct = v1::DirectCounterEntry { table_entry, data };
                    out.push(entity(EntityKind::DirectCounterEntry(direct)));
                })
            }
            Source::DirectMeters(table, filter, meter) => {
                if filter.is_default {
                    let entry =
                        v1::TableEntry { table_id: table.id, is_default_action: true, ..Default::default() };
                    let config = show_meter(control, table, *meter, DEFAULT_ROW);
                    let counter_data =
                        filter.colours.then(|| show_colours(control, *meter, DEFAULT_ROW)).flatten();
                    let direct = v1::DirectMeterEntry { table_entry: Some(entry), config, counter_data };
                    out.push(entity(EntityKind::DirectMeterEntry(direct)));
                    return Ok((None, 1));
                }
                self.each_entry_there(control, table, filter, from, max, |found| {
                    let config = show_meter(control, table, *meter, found.row);
                    let counted = filter.colours.then(|| show_colours(control, *meter, found.row));
                    let counter_data = counted.flatten();
                    let table_entry = Some(self.show_entry_key(table, &found));
                    let direct = v1::DirectMeterEntry { table_entry, config, counter_data };
                    out.push(entity(EntityKind::DirectMeterEntry(direct)));
                })
            }
            Source::Digest(entry) => {
                out.push(entity(EntityKind::DigestEntry(entry.clone())));
                Ok((None, 1))
            }
            Source::Counter(id, counter, cells) => Ok(each_cell(cells, from, max, |index| {
                let value = control.counter_value(*counter, index).unwrap_or_default();
                let data = Some(show_count(control, *counter, value));
                let cell = v1::CounterEntry { counter_id: *id, index: Some(at(index)), data };
                out.push(entity(EntityKind::CounterEntry(cell)));
            })),
            Source::Meter(id, meter, cells, counted) => Ok(each_cell(cells, from, max, |index| {
                let rates = control.meter_rates(meter.instance, index).ok().flatten();
                let config = rates.as_ref().map(|rates| show_rates(meter.meter_type, rates));
                let counted = counted.then(|| show_colours(control, meter.instance, index));
                let (index, counter_data) = (Some(at(index)), counted.flatten());
                let cell = v1::MeterEntry { meter_id: *id, index, config, counter_data };
                out.push(entity(EntityKind::MeterEntry(cell)));
            })),
            Source::Register(id, register, cells) => {
                let mut failed = None;
                let done = each_cell(cells, from, max, |index| {
                    let value = control.register_value(register.instance, index).unwrap_or_default();
                    match self
                        .with_types(control, true, |types| crate::data::show(&register.spec, types, &value))
                    {
                        Ok(data) => {
                            let (index, data) = (Some(at(index)), Some(data));
                            let cell = v1::RegisterEntry { register_id: *id, index, data };
                            out.push(entity(EntityKind::RegisterEntry(cell)));
                        }
                        Err(refusal) => failed = Some(refusal),
                    }
                });
                failed.map_or(Ok(done), |refusal| Err(refusal.of(format!("register `{}`", register.name))))
            }
            Source::Members(id, profile, wanted) => {
                if style(control, profile)? == Style::OneShots {
                    return Ok((None, 1));
                }
                let (table, selector) = (self.profile_table(profile)?, Selector::Members(profile.instance));
                read_page(control, &selector, *wanted, from, max, |read| match read {
                    Read::Member(handle, action) if wanted.is_none_or(|wanted| wanted == handle) => {
                        out.push(entity(EntityKind::ActionProfileMember(v1::ActionProfileMember {
                            action_profile_id: *id,
                            member_id: id_of_handle(handle),
                            action: self.show_action(table, &action),
                        })));
                    }
                    _ => {}
                })
            }
            Source::Groups(id, profile, wanted) => {
                if style(control, profile)? == Style::OneShots {
                    return Ok((None, 1));
                }
                let selector = Selector::Groups(profile.instance);
                read_page(control, &selector, *wanted, from, max, |read| match read {
                    Read::Group(handle, group) if wanted.is_none_or(|wanted| wanted == handle) => {
                        let group = profiles::show_group(control, *id, profile, handle, &group.members);
                        out.push(entity(EntityKind::ActionProfileGroup(group)));
                    }
                    _ => {}
                })
            }
            Source::MulticastGroups => {
                read_page(control, &Selector::MulticastGroups, None, from, max, |read| {
                    if let Read::MulticastGroup(group, _) = read {
                        out.push(multicast_group(replication::show_group(control, group)));
                    }
                })
            }
            Source::MulticastGroup(wanted) => {
                let before = out.len();
                let done = read_page(control, &Selector::MulticastGroups, Some(*wanted), from, max, |read| {
                    if let Read::MulticastGroup(group, _) = read
                        && group == *wanted
                    {
                        out.push(multicast_group(replication::show_group(control, group)));
                    }
                });
                match out.len() == before {
                    true => Err(absent(format!("there is no multicast group {wanted}"))),
                    false => done,
                }
            }
            Source::Sessions => read_page(control, &Selector::Sessions, None, from, max, |read| {
                if let Read::Session(number, session) = read {
                    out.push(clone_session(replication::show_session(control, number, &session)));
                }
            }),
            Source::Session(wanted) => {
                // The only error of this selector is that there is none.
                let missing = |_| absent(format!("there is no clone session {wanted}"));
                for read in control.read(&Selector::Session(*wanted), 0, 1).map_err(missing)?.entities {
                    if let Read::Session(number, session) = read {
                        out.push(clone_session(replication::show_session(control, number, &session)));
                    }
                }
                Ok((None, 1))
            }
            Source::ValueSet(id, set) => {
                let table = control.switch().table(set.table);
                let member = |(_, entry): (EntryHandle, p4jet_tables::Entry)| v1::ValueSetMember {
                    r#match: self.show_key(&set.keys, &entry.key),
                };
                let members: Vec<_> = table.entries().map(member).collect();
                let looked_at = members.len();
                let entry = v1::ValueSetEntry { value_set_id: *id, members };
                out.push(entity(EntityKind::ValueSetEntry(entry)));
                Ok((None, looked_at))
            }
        }
    }

    /// Calls `each` for the entries of a table whose key and priority match the filter.
    fn each_entry(
        &self,
        control: &Control,
        table: &Table,
        filter: &Filter,
        from: u64,
        max: usize,
        mut each: impl FnMut(Found<'_>),
    ) -> Result<(Option<u64>, usize)> {
        if let Some(key) = filter.key.as_ref().filter(|_| filter.is_one(table)) {
            let priority = self.priority(table, filter.priority)?;
            let handle = table.find(control, key, filter.priority, priority);
            let t = control.switch().table(table.table);
            if let Some((handle, entry)) = handle.and_then(|handle| Some((handle, t.get(handle)?))) {
                each(Found { handle, entry, row: t.row_of(handle), table: &t });
            }
            return Ok((None, 1));
        }
        let t = control.switch().table(table.table);
        let (entries, next) = t.entries_from(from, max);
        for (handle, entry) in entries {
            let wanted = filter.key.as_ref().is_none_or(|key| *key == entry.key)
                && (filter.priority == 0 || table.show_priority(handle, entry.priority) == filter.priority);
            if wanted {
                each(Found { handle, entry, row: t.row_of(handle), table: &t });
            }
        }
        Ok((next, max))
    }

    /// Like [`Self::each_entry`], but refuses an entry that does not exist if only that one is wanted.
    fn each_entry_there(
        &self,
        control: &Control,
        table: &Table,
        filter: &Filter,
        from: u64,
        max: usize,
        mut each: impl FnMut(Found<'_>),
    ) -> Result<(Option<u64>, usize)> {
        let mut is_there = false;
        let done = self.each_entry(control, table, filter, from, max, |found| {
            is_there = true;
            each(found);
        })?;
        if filter.is_one(table) && !is_there { Err(absent_entry(table)) } else { Ok(done) }
    }

    /// An entry without its action.
    fn show_entry_key(&self, table: &Table, found: &Found<'_>) -> v1::TableEntry {
        v1::TableEntry {
            table_id: table.id,
            r#match: self.show_key(&table.keys, &found.entry.key),
            priority: table.show_priority(found.handle, found.entry.priority),
            ..v1::TableEntry::default()
        }
    }

    /// An entry whose idle timeout has expired.
    pub(crate) fn show_idle(
        &self,
        control: &Control,
        table: p4jet_ir::TableId,
        entry: &p4jet_control::EntryState,
    ) -> Option<v1::TableEntry> {
        let noted = Noted::Entry(table, entry.handle);
        let noted = note::<v1::TableEntry>(control, &noted).unwrap_or_default();
        let table = self.table_of(table)?;
        let timeout_ms = entry.life.map_or(0, |life| life.timeout_ms);
        Some(v1::TableEntry {
            table_id: table.id,
            r#match: self.show_key(&table.keys, &entry.key),
            priority: table.show_priority(EntryHandle(entry.handle), entry.priority),
            controller_metadata: noted.controller_metadata,
            metadata: noted.metadata,
            idle_timeout_ns: match noted.idle_timeout_ns {
                0 => i64::from(timeout_ms) * 1_000_000,
                ns => ns,
            },
            ..v1::TableEntry::default()
        })
    }

    fn show_entry(
        &self,
        control: &Control,
        table: &Table,
        filter: &Filter,
        found: Found<'_>,
    ) -> Option<v1::TableEntry> {
        let action = self.show_act(control, table, found.table.profile(), &found.entry.action);
        if let Some(wanted) = filter.action
            && !matches!(&action, Some(TableAction { r#type: Some(TableActionType::Action(a)) }) if a.action_id == wanted)
        {
            return None;
        }
        let noted = filter.noted(control, &Noted::Entry(table.table, found.handle.0))?;
        let is_const = table.is_const(control, found.handle);
        let (state, now_us) = (control.switch().state(), control.switch().now_us());
        let life = found.table.life(found.handle, now_us).filter(|_| !is_const);
        let elapsed_ns = |ms: u64| v1::IdleTimeout { elapsed_ns: (ms as i64).saturating_mul(1_000_000) };
        let counter = table.counter.filter(|_| filter.counter);
        let meter = table.meter.filter(|_| filter.meter);
        let colours = table.meter.filter(|_| filter.colours);
        Some(v1::TableEntry {
            action,
            is_const,
            controller_metadata: noted.controller_metadata,
            metadata: noted.metadata,
            idle_timeout_ns: match noted.idle_timeout_ns {
                0 => life.map_or(0, |life| i64::from(life.timeout_ms) * 1_000_000),
                ns => ns,
            },
            time_since_last_hit: (filter.since_hit && !is_const)
                .then(|| found.table.since_hit_ms(found.handle, now_us))
                .flatten()
                .map(elapsed_ns),
            counter_data: counter.map(|counter| {
                let value = state.counter_read(counter.0, found.row).unwrap_or_default();
                show_count(control, counter, value)
            }),
            meter_config: meter.and_then(|meter| show_meter(control, table, meter, found.row)),
            meter_counter_data: colours.and_then(|meter| show_colours(control, meter, found.row)),
            ..self.show_entry_key(table, &found)
        })
    }

    /// What a table does with packets that match no entry.
    pub(crate) fn show_default_act(&self, control: &Control, table: &Table) -> Option<TableAction> {
        let action = control.default_action(table.table).unwrap_or_else(|| {
            // The program's action runs.
            let declared = &control.program().tables[table.table.index()].default;
            p4jet_tables::Action { action: declared.action, data: declared.data.clone() }
        });
        self.show_act(control, table, None, &action)
    }

    fn show_default(&self, control: &Control, table: &Table, filter: &Filter) -> Option<v1::TableEntry> {
        let action = self.show_default_act(control, table);
        if let Some(wanted) = filter.action
            && !matches!(&action, Some(TableAction { r#type: Some(TableActionType::Action(a)) }) if a.action_id == wanted)
        {
            return None;
        }
        let noted = filter.noted(control, &Noted::Default(table.table))?;
        Some(v1::TableEntry {
            table_id: table.id,
            is_default_action: true,
            action,
            controller_metadata: noted.controller_metadata,
            metadata: noted.metadata,
            counter_data: table.counter.filter(|_| filter.counter).map(|counter| {
                let value = control.switch().state().counter_read(counter.0, DEFAULT_ROW);
                show_count(control, counter, value.unwrap_or_default())
            }),
            meter_config: table
                .meter
                .filter(|_| filter.meter)
                .and_then(|meter| show_meter(control, table, meter, DEFAULT_ROW)),
            meter_counter_data: table
                .meter
                .filter(|_| filter.colours)
                .and_then(|meter| show_colours(control, meter, DEFAULT_ROW)),
            ..v1::TableEntry::default()
        })
    }
}

/// Gives `each` one page of the objects that a selector chooses, or the first one from the number `only` on. Returns where the next
/// page begins and the number of objects.
fn read_page(
    control: &Control,
    selector: &Selector,
    only: Option<u32>,
    from: u64,
    max: usize,
    each: impl FnMut(Read),
) -> Result<(Option<u64>, usize)> {
    let (from, max) = only.map_or((from, max), |only| (only.into(), 1));
    let page = control.read(selector, from, max)?;
    let looked_at = page.entities.len();
    page.entities.into_iter().for_each(each);
    Ok((page.next.filter(|_| only.is_none()), looked_at))
}

/// An entry of a table that is locked.
struct Found<'a> {
    handle: EntryHandle,
    entry: p4jet_tables::Entry,
    row: u32,
    table: &'a p4jet_tables::Table,
}

fn entity(kind: EntityKind) -> Entity {
    Entity { entity: Some(kind) }
}

fn at(index: u32) -> v1::Index {
    v1::Index { index: index.into() }
}

fn cells(index: Option<u32>, size: u32) -> std::ops::Range<u32> {
    index.map_or(0..size, |index| index..index + 1)
}

fn each_cell(
    cells: &std::ops::Range<u32>,
    from: u64,
    max: usize,
    mut each: impl FnMut(u32),
) -> (Option<u64>, usize) {
    let begin = cells.start.max(from as u32);
    let end = cells.end.min(begin.saturating_add(max as u32)).max(begin);
    (begin..end).for_each(&mut each);
    ((end < cells.end).then_some(end.into()), (end - begin) as usize)
}

/// A count; the number that the counter does not count is 0.
fn show_count(control: &Control, counter: InstanceId, value: CounterValue) -> v1::CounterData {
    let (packets, bytes) = match control.program().instances[counter.index()].kind {
        InstanceKind::Counter { unit, .. } | InstanceKind::DirectCounter { unit, .. } => {
            (unit != CounterUnit::Bytes, unit != CounterUnit::Packets)
        }
        _ => (true, true),
    };
    let shown = |value: u64, counted: bool| if counted { value as i64 } else { 0 };
    v1::CounterData { byte_count: shown(value.bytes, bytes), packet_count: shown(value.packets, packets) }
}

fn multicast_group(group: v1::MulticastGroupEntry) -> Entity {
    let r#type = Some(ReplicationType::MulticastGroupEntry(group));
    entity(EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type }))
}

fn clone_session(session: v1::CloneSessionEntry) -> Entity {
    let r#type = Some(ReplicationType::CloneSessionEntry(session));
    entity(EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type }))
}

/// The refusal of an entry that does not exist.
fn absent_entry(table: &Table) -> Refusal {
    absent(format!("`{}` has no entry with this key", table.name))
}

/// The refusal of a read of a single entity that does not exist.
fn absent(what: String) -> Refusal {
    Refusal::new(Code::NotFound, Reason::Absent, what)
}
