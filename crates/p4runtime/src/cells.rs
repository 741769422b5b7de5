//! Cells: counters, meters, registers and value sets.

use crate::pipeline::{Array, Table};
use crate::refusal::{Code, Reason, Refusal, Result};
use crate::table_entry::{DEFAULT_ROW, check_colours, count, rates};
use crate::value::By;
use crate::write::Writer;
use p4jet_control::{Cell, DEFAULT_CELL, EntryRef, Update};
use p4jet_externs::CounterValue;
use p4jet_ir::{InstanceId, TableId};
use p4jet_p4info::proto::v1::{self, UpdateType};
use p4jet_tables::EntryHandle;
use std::collections::HashSet;

/// Refuses an INSERT or DELETE of an entity that can only be modified.
fn only_modified(kind: UpdateType, what: &str, name: &str) -> Result<()> {
    match kind {
        UpdateType::Modify => Ok(()),
        _ => {
            let why = format!("{what} `{name}` can only be modified: it is always there");
            Err(Refusal::invalid(Reason::Form, why))
        }
    }
}

/// The index of a cell; `None` for all cells.
pub(crate) fn index(given: Option<&v1::Index>, name: &str, size: u32) -> Result<Option<u32>> {
    let Some(v1::Index { index }) = given else { return Ok(None) };
    match u32::try_from(*index) {
        Ok(found) if found < size => Ok(Some(found)),
        _ => {
            let why = match size {
                0 => format!("`{name}` has no cells"),
                _ => format!("`{name}`: found the index {index}, expected 0 to {}", size - 1),
            };
            let code = if *index < 0 { Code::InvalidArgument } else { Code::OutOfRange };
            Err(Refusal::new(code, Reason::Index, why))
        }
    }
}

impl Writer<'_> {
    fn cells(&self, given: Option<&v1::Index>, array: &Array) -> Result<std::ops::Range<u32>> {
        Ok(match index(given, &array.name, array.size)? {
            Some(index) => index..index + 1,
            None => 0..array.size,
        })
    }

    /// Sets a cell of a counter, or all.
    pub(crate) fn counter_entry(&mut self, kind: UpdateType, entry: &v1::CounterEntry) -> Result<()> {
        let counter = self.pipeline.counter(entry.counter_id)?;
        self.role.check(entry.counter_id, &counter.name, None)?;
        only_modified(kind, "the counter", &counter.name)?;
        let cells = self.cells(entry.index.as_ref(), counter)?;
        let Some(data) = &entry.data else { return Ok(()) };
        let value = count(data)?;
        if entry.index.is_none() && value == CounterValue::default() {
            return self.make(Update::ResetCounter(counter.instance)).map(drop);
        }
        for index in cells {
            let cell = Cell::Index(index);
            self.make(Update::WriteCounter { counter: counter.instance, cell, value })?;
        }
        Ok(())
    }

    /// Sets the rates of a cell of a meter, or of all.
    pub(crate) fn meter_entry(&mut self, kind: UpdateType, entry: &v1::MeterEntry) -> Result<()> {
        let meter = self.pipeline.meter(entry.meter_id)?;
        self.role.check(entry.meter_id, &meter.name, None)?;
        only_modified(kind, "the meter", &meter.name)?;
        entry.counter_data.as_ref().map_or(Ok(()), check_colours)?;
        let rates = entry.config.as_ref().map(|config| rates(meter.meter_type, config)).transpose()?;
        let meter_id = meter.instance;
        let cells = self.cells(entry.index.as_ref(), meter)?;
        let update = match entry.index {
            Some(_) => Update::SetMeter { meter: meter_id, cell: Cell::Index(cells.start), rates },
            None => Update::SetMeterArray { meter: meter_id, rates },
        };
        self.make(update)?;
        if entry.counter_data.is_some() {
            // The cells exist.
            let state = self.control.switch().state();
            cells.for_each(|cell| drop(state.meter_reset_counts(meter_id.0, cell)));
        }
        Ok(())
    }

    /// The table of a direct counter or meter, and that instance.
    fn direct<'e>(
        &self,
        what: &str,
        given: Option<&'e v1::TableEntry>,
        instance: impl Fn(&Table) -> Option<InstanceId>,
    ) -> Result<(&Table, InstanceId, &'e v1::TableEntry)> {
        let Some(given) = given else {
            return Err(Refusal::invalid(Reason::Form, "`table_entry` is unset"));
        };
        let table = self.pipeline.table(given.table_id)?;
        self.role.check(table.id, &table.name, table.role.as_deref())?;
        let Some(instance) = instance(table) else {
            return Err(Refusal::invalid(Reason::Form, format!("`{}` has no direct {what}", table.name)));
        };
        Ok((table, instance, given))
    }

    /// The entry of a direct counter or meter; `None` for the default entry.
    fn entry_of(&self, table: &Table, given: &v1::TableEntry) -> Result<Option<EntryHandle>> {
        if given.is_default_action {
            return Ok(None);
        }
        let key = self.pipeline.wanted_key(table, &given.r#match)?;
        let priority = self.pipeline.priority(table, given.priority)?;
        self.found(table, key.as_deref(), given.priority, priority).map(Some)
    }

    /// Sets the counter of an entry.
    pub(crate) fn direct_counter_entry(
        &mut self,
        kind: UpdateType,
        entry: &v1::DirectCounterEntry,
    ) -> Result<()> {
        only_modified(kind, "a direct counter of the", "table_entry")?;
        let (table, counter, given) = self.direct("counter", entry.table_entry.as_ref(), |t| t.counter)?;
        let value = entry.data.as_ref().map(count).transpose()?;
        let handle = self.entry_of(table, given)?;
        let Some(value) = value else { return Ok(()) };
        let cell = cell_of(handle);
        self.make(Update::WriteCounter { counter, cell, value }).map(drop)
    }

    /// Sets the rates of the meter of an entry.
    pub(crate) fn direct_meter_entry(
        &mut self,
        kind: UpdateType,
        entry: &v1::DirectMeterEntry,
    ) -> Result<()> {
        only_modified(kind, "a direct meter of the", "table_entry")?;
        let (table, meter, given) = self.direct("meter", entry.table_entry.as_ref(), |t| t.meter)?;
        entry.counter_data.as_ref().map_or(Ok(()), check_colours)?;
        let rates = entry.config.as_ref().map(|config| rates(table.meter_type, config)).transpose()?;
        let handle = self.entry_of(table, given)?;
        if entry.counter_data.is_some() {
            let row_of = |handle| self.control.switch().table(table.table).row_of(handle);
            self.reset_colours(meter, handle.map_or(DEFAULT_ROW, row_of));
        }
        let cell = cell_of(handle);
        self.make(Update::SetMeter { meter, cell, rates }).map(drop)
    }

    /// Sets a cell of a register, or all.
    pub(crate) fn register_entry(&mut self, kind: UpdateType, entry: &v1::RegisterEntry) -> Result<()> {
        let register = self.pipeline.register(entry.register_id)?;
        self.role.check(entry.register_id, &register.name, None)?;
        only_modified(kind, "the register", &register.name)?;
        let index = index(entry.index.as_ref(), &register.name, register.size)?;
        let data = entry.data.clone().unwrap_or_default();
        let read = |types: &crate::data::Types<'_>| crate::data::read(&register.spec, types, &data);
        let value = self
            .pipeline
            .with_types(&self.control, true, read)
            .map_err(|refusal| refusal.of(format!("register `{}`", register.name)))?;
        let instance = register.instance;
        if index.is_none() && value.bits() == 0 {
            return self.make_each([Update::ResetRegister(instance)].into_iter());
        }
        let cells = index.map_or(0..register.size, |index| index..index + 1);
        let write = |index| Update::WriteRegister { register: instance, index, value: value.clone() };
        self.make_each(cells.map(write))
    }

    /// Replaces the members of a value set.
    pub(crate) fn value_set_entry(&mut self, kind: UpdateType, entry: &v1::ValueSetEntry) -> Result<()> {
        let set = self.pipeline.value_set(entry.value_set_id)?;
        self.role.check(entry.value_set_id, &set.name, None)?;
        only_modified(kind, "the value set", &set.name)?;
        let mut keys = Vec::with_capacity(entry.members.len());
        if i64::from(set.size) < entry.members.len() as i64 && set.size > 0 {
            let why =
                format!("`{}`: found {} members, its size is {}", set.name, entry.members.len(), set.size);
            return Err(Refusal::new(Code::ResourceExhausted, Reason::Full, why));
        }
        for member in &entry.members {
            let key = self.pipeline.key(&set.name, &set.keys, &member.r#match, By::Update)?;
            keys.push(key);
        }
        let mut known = HashSet::new();
        if !keys.iter().all(|key| known.insert(key)) {
            let why = format!("`{}`: two members are the same", set.name);
            return Err(Refusal::new(Code::AlreadyExists, Reason::Exists, why));
        }
        self.replace_set(set.table, keys)
    }

    /// Changes the members of a value set. Each packet sees the old members or the new ones.
    fn replace_set(&mut self, set: TableId, keys: Vec<Vec<p4jet_tables::KeyMatch>>) -> Result<()> {
        let old: Vec<_> = self.control.switch().table(set).entries().map(|(_, entry)| entry.key).collect();
        let (known, wanted): (HashSet<_>, HashSet<_>) = (old.iter().collect(), keys.iter().collect());
        let gone: Vec<_> = old.iter().filter(|key| !wanted.contains(key)).cloned().collect();
        let new: Vec<_> = keys.iter().filter(|key| !known.contains(key)).cloned().collect();
        let is_one_step = gone.len() + new.len() <= 1;
        let change = |writer: &mut Self| {
            for key in gone {
                writer.make(Update::RemoveFromValueSet { set, key })?;
            }
            for key in new {
                writer.make(Update::AddToValueSet { set, key })?;
            }
            Ok(())
        };
        if is_one_step { change(self) } else { self.together(change) }
    }
}

/// The direct cell of an entry, or of the default entry.
fn cell_of(handle: Option<EntryHandle>) -> Cell {
    handle.map_or(Cell::Index(DEFAULT_CELL), |handle| Cell::Entry(EntryRef::from(handle.0)))
}
