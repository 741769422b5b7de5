//! Carries commands out on the switch, and takes them back.

use super::parse::{Command, is_const_entry};
use super::profiles::{ProfileCommand, UndoProfile};
use super::replication::UndoReplication;
use super::value_sets::ValueSetCommand;
use super::{Control, Reply, data, show};
use crate::error::{CommandError, count};
use crate::guard::guarded;
use num_bigint::BigUint;
use p4jet_dataplane::QueueConfig;
use p4jet_externs::{CounterValue, CrcParams, Rates, StateError};
use p4jet_ir::{InstanceId, InstanceKind, TableId};
use p4jet_tables::{Action, Entry, EntryHandle, KeyMatch, Life, TableError};
use std::time::{Duration, Instant};

/// How long taking changes back waits for packet workers in all.
const TAKE_BACK_MAX: Duration = Duration::from_secs(10);

/// What a change gave.
#[derive(Default)]
pub(crate) struct Done {
    /// The entry that was added.
    pub handle: Option<EntryHandle>,
    /// The member, group or node that was made.
    pub made: Option<u32>,
    /// What to say of it after it was done: the handle of what was made.
    pub told: Option<String>,
}

/// How to take a change back.
pub(super) enum Undo {
    /// The entry that was added goes. Nearly all changes are of this kind, so the others hide behind a pointer.
    Insert(TableId, EntryHandle),
    /// Anything else.
    Other(Box<UndoOther>),
}

/// How to take the rarer changes back.
pub(super) enum UndoOther {
    Modify(TableId, EntryHandle, Action),
    /// Entries that are gone, and the generations of slots that had none.
    Delete(TableId, Vec<Removed>, Vec<(u32, u8)>),
    Default(TableId, Action),
    /// By index; for a direct counter that is an entry's handle.
    Counters(InstanceId, Vec<(u32, CounterValue)>),
    Registers(InstanceId, Vec<(u32, BigUint)>),
    Crc(u32, CrcParams),
    Profile(TableId, UndoProfile),
    Replication(UndoReplication),
    Queues(Box<QueueConfig>),
    /// By index; for a direct meter that is an entry's handle.
    Meters(InstanceId, Vec<(u32, Option<Rates>)>),
    /// Milliseconds, 0 for none.
    Timeout(TableId, EntryHandle, u32),
    /// Of a value set.
    SetMembers(TableId, Vec<Entry>),
}

/// An entry that is gone, with the values of its direct counters and the rates of its direct meters.
pub(super) struct Removed {
    handle: EntryHandle,
    entry: Entry,
    counts: Vec<(InstanceId, CounterValue)>,
    rates: Vec<(InstanceId, Option<Rates>)>,
    life: Option<Life>,
}

pub(super) type Result<T> = std::result::Result<T, CommandError>;

pub(super) fn refused(error: TableError) -> CommandError {
    CommandError::refused("table", error.code(), error)
}

impl Control {
    /// Carries a change out, or leaves everything as it was.
    pub(crate) fn perform(&self, command: Command<'_>) -> Result<Done> {
        if !matches!(command, Command::ResetState) {
            return self.change(command, None);
        }
        // This one makes many changes, and each can fail.
        let mut log = Vec::new();
        guarded(|| self.change(command, Some(&mut log))).map_err(|error| self.without(log, error))
    }

    /// Takes back what a command or a file had changed before it failed. Returns what to say: the error, and what stayed.
    pub(super) fn without(&self, log: Vec<Undo>, error: CommandError) -> CommandError {
        match guarded(|| self.take_back(log)) {
            Ok(()) => error,
            Err(also) => CommandError {
                message: format!("{}; not all could be taken back: {}", error.message, also.message),
                ..error
            },
        }
    }

    /// Carries a change out, and notes how to take it back.
    pub(super) fn change(&self, command: Command<'_>, mut log: Option<&mut Vec<Undo>>) -> Result<Done> {
        let mut done = Done::default();
        let mut note = |undo: &dyn Fn() -> UndoOther| {
            if let Some(log) = &mut log {
                log.push(Undo::Other(Box::new(undo())));
            }
        };
        match command {
            Command::TableAdd { table, entry, .. } => {
                done.handle = Some(self.add(table.id, entry, log)?);
            }
            Command::TableModify { table, handle, call } => {
                let mut t = self.switch.table(table.id);
                let old = t.get(handle).map(|e| e.action);
                t.modify(handle, call).map_err(refused)?;
                if let Some(old) = old {
                    note(&|| UndoOther::Modify(table.id, handle, old.clone()));
                }
            }
            Command::TableDelete { table, handle } => {
                let (counts, rates) =
                    (self.direct_counts(table.id, handle), self.direct_rates(table.id, handle));
                let life = self.life(table.id, handle);
                let entry = self.switch.table(table.id).delete(handle).map_err(refused)?;
                note(&|| {
                    UndoOther::Delete(
                        table.id,
                        vec![Removed {
                            handle,
                            entry: entry.clone(),
                            counts: counts.clone(),
                            rates: rates.clone(),
                            life,
                        }],
                        Vec::new(),
                    )
                });
            }
            Command::TableClear(id) => {
                // Const entries stay.
                let declared = &self.program().tables[id.index()];
                let keeps_some = declared.entries.iter().any(|e| e.is_const);
                let entries: Vec<_> = match log {
                    None if !keeps_some => Vec::new(),
                    _ => {
                        let table = self.switch.table(id);
                        let all = table.entries_by_age().filter(|(h, _)| !is_const_entry(declared, *h));
                        all.collect()
                    }
                };
                let removed: Vec<_> = entries
                    .into_iter()
                    .map(|(handle, entry)| Removed {
                        handle,
                        entry,
                        counts: self.direct_counts(id, handle),
                        rates: self.direct_rates(id, handle),
                        life: self.life(id, handle),
                    })
                    .collect();
                let generations = self.switch.table(id).free_generations().collect();
                let undo = |removed| Undo::Other(Box::new(UndoOther::Delete(id, removed, generations)));
                if keeps_some {
                    let delete = |entry: &Removed| self.switch.table(id).delete(entry.handle).err();
                    let failed = removed.iter().enumerate().find_map(|(i, entry)| Some((i, delete(entry)?)));
                    if let Some((done, error)) = failed {
                        let done = removed.into_iter().take(done).collect();
                        return Err(self.without(vec![undo(done)], refused(error)));
                    }
                } else {
                    self.switch.table(id).clear();
                }
                if let Some(log) = log {
                    log.push(undo(removed));
                }
            }
            Command::TableSetDefault { table, call, .. } => {
                let mut t = self.switch.table(table.id);
                let old = t.default_action().clone();
                t.set_default(call).map_err(refused)?;
                note(&|| UndoOther::Default(table.id, old.clone()));
            }
            Command::TableResetDefault(id) => {
                let mut t = self.switch.table(id);
                let old = t.default_action().clone();
                t.reset_default().map_err(refused)?;
                note(&|| UndoOther::Default(id, old.clone()));
            }
            Command::CounterWrite { counter, index, packets, bytes } => {
                let old = self.counter_value(counter.id, index)?;
                self.write_counter(counter.id, index, CounterValue { packets, bytes })?;
                done.told = Some(format!("{}[{index}] has been updated\n", counter.typed));
                note(&|| UndoOther::Counters(counter.id, vec![(index, old)]));
            }
            Command::CounterReset(id) => {
                let old = match log {
                    None => Vec::new(),
                    Some(_) => self.counter_values(id)?,
                };
                self.switch.state().counter_reset(id.0).map_err(|e| no_cell("counter", e))?;
                if let Some(log) = log {
                    log.push(Undo::Other(Box::new(UndoOther::Counters(id, old))));
                }
            }
            Command::RegisterWrite { register, index, value } => {
                let old = self.register_value(register.id, index)?;
                self.write_register(register.id, index, &value)?;
                note(&|| UndoOther::Registers(register.id, vec![(index, old.clone())]));
            }
            Command::RegisterReset(id) => {
                let old: Vec<(u32, BigUint)> = match log {
                    None => Vec::new(),
                    Some(_) => (0..).zip(self.register_values(id)).collect(),
                };
                self.switch.state().register_reset(id.0).map_err(|e| no_cell("register", e))?;
                if let Some(log) = log {
                    log.push(Undo::Other(Box::new(UndoOther::Registers(id, old))));
                }
            }
            Command::SetCrc { calculation, params } => {
                let name = self.names.crcs.name(calculation);
                let old = self.switch.state().crc(name).unwrap_or(self.usual_crc(calculation));
                self.switch.state().set_crc(name, params);
                note(&|| UndoOther::Crc(calculation, old));
            }
            Command::IndirectAdd { table, entry } => {
                done.handle = Some(self.add(table, entry, log)?);
            }
            Command::IndirectSetDefault(table, call) => {
                let mut t = self.switch.table(table);
                let old = t.default_action().clone();
                t.set_default(call).map_err(refused)?;
                note(&|| UndoOther::Default(table, old.clone()));
            }
            Command::Profile(command) => return self.change_profile(command, log),
            Command::Replication(command) => return self.change_replication(command, log),
            Command::Meter(command) => return self.change_meter(command, log),
            Command::ValueSet(command) => return self.change_value_set(command, log),
            Command::SetTimeout { table, handle, milliseconds } => {
                let old = self.life(table, handle).map_or(0, |life| life.timeout_ms);
                let now_us = self.switch.now_us();
                self.switch.table(table).set_timeout(handle, milliseconds, now_us).map_err(refused)?;
                note(&|| UndoOther::Timeout(table, handle, old));
            }
            Command::Queue(command) => return self.change_queues(command, log),
            Command::ResetState => self.reset_state(log)?,
            Command::TimeElapsed
            | Command::TimeSinceEpoch
            | Command::Dump { .. }
            | Command::Nothing
            | Command::Help(_)
            | Command::ShowTables
            | Command::ShowActions
            | Command::SwitchInfo
            | Command::TableInfo(_)
            | Command::TableShowActions(_)
            | Command::TableNumEntries(_)
            | Command::TableDump(_)
            | Command::TableDumpEntry(..)
            | Command::TableDumpEntryFromKey { .. }
            | Command::CounterRead { .. }
            | Command::RegisterRead { .. } => unreachable!("not a change"),
        }
        Ok(done)
    }

    fn life(&self, table: TableId, handle: EntryHandle) -> Option<Life> {
        self.switch.table(table).life(handle, self.switch.now_us())
    }

    /// What a custom CRC is until it is set.
    pub(super) fn usual_crc(&self, calculation: u32) -> CrcParams {
        if self.names.crc_widths[calculation as usize] == 16 { CrcParams::CRC16 } else { CrcParams::CRC32 }
    }

    /// Adds an entry.
    pub(super) fn add(
        &self,
        table: TableId,
        entry: Entry,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<EntryHandle> {
        let handle = self.switch.table(table).insert(entry).map_err(refused)?;
        self.reset_direct(table, handle)?;
        if let Some(log) = log {
            log.push(Undo::Insert(table, handle));
        }
        Ok(handle)
    }

    /// Takes changes back, the last one first. What somebody else changed meanwhile stays. A table may refuse because packet
    /// workers are slow, or because there is no memory to bring an entry back: then the error says how many changes stay.
    pub(super) fn take_back(&self, log: Vec<Undo>) -> Result<()> {
        let (mut stayed, mut first) = (0, None);
        let end = Instant::now() + TAKE_BACK_MAX;
        // Tries until `end` what workers hold up, and notes what fails for good.
        let mut settle = |act: &mut dyn FnMut() -> std::result::Result<(), TableError>| {
            let mut done = act();
            while matches!(done, Err(TableError::Busy)) && Instant::now() < end {
                done = act();
            }
            if let Err(error @ (TableError::Busy | TableError::NoMemory(_))) = done {
                stayed += 1;
                first.get_or_insert(error);
            }
        };
        for undo in log.into_iter().rev() {
            let other = match undo {
                Undo::Insert(table, handle) => {
                    settle(&mut || self.switch.table(table).delete(handle).map(drop));
                    continue;
                }
                Undo::Other(other) => *other,
            };
            match other {
                UndoOther::Modify(table, handle, action) => {
                    settle(&mut || self.switch.table(table).modify(handle, action.clone()));
                }
                UndoOther::Delete(table, removed, generations) => {
                    for (slot, generation) in generations {
                        self.switch.table(table).set_free_generation(slot, generation);
                    }
                    for Removed { handle, entry, counts, rates, life } in removed {
                        let mut restored = None;
                        settle(&mut || {
                            restored = Some(self.switch.table(table).restore(handle, entry.clone())?);
                            Ok(())
                        });
                        if let Some(handle) = restored {
                            if let Some(life) = life {
                                let hit_us = self.switch.now_us().saturating_sub(1000 * life.since_hit_ms);
                                let mut table = self.switch.table(table);
                                let _ = table.set_timeout(handle, life.timeout_ms, hit_us);
                            }
                            for (counter, value) in counts {
                                let _ = self.write_counter(counter, handle.0, value);
                            }
                            for (meter, rates) in rates {
                                let _ = self.set_meter(meter, handle.0, rates);
                            }
                        }
                    }
                }
                UndoOther::Timeout(table, handle, ms) => {
                    let _ = self.switch.table(table).set_timeout(handle, ms, self.switch.now_us());
                }
                UndoOther::Default(table, action) => {
                    settle(&mut || self.switch.table(table).set_default(action.clone()));
                }
                UndoOther::Counters(counter, values) => {
                    for (index, value) in values {
                        let _ = self.write_counter(counter, index, value);
                    }
                }
                UndoOther::Crc(calculation, params) => {
                    self.switch.state().set_crc(self.names.crcs.name(calculation), params);
                }
                UndoOther::Profile(table, undo) => settle(&mut || self.take_back_profile(table, &undo)),
                UndoOther::Queues(old) => self.take_back_queues(*old),
                UndoOther::Replication(undo) => self.take_back_replication(undo),
                UndoOther::Meters(meter, values) => {
                    for (index, rates) in values {
                        let _ = self.set_meter(meter, index, rates);
                    }
                }
                UndoOther::SetMembers(set, entries) => {
                    for entry in entries {
                        settle(&mut || self.switch.table(set).insert(entry.clone()).map(drop));
                    }
                }
                UndoOther::Registers(register, values) => {
                    for (cell, value) in values {
                        let _ = self.write_register(register, cell, &value);
                    }
                }
            }
        }
        match first {
            None => Ok(()),
            Some(error) => Err(CommandError::new(format!("{} stayed: {error}", count(stayed, "change")))),
        }
    }

    pub(super) fn dump_entry(&self, id: TableId, handle: EntryHandle, data: bool) -> Result<Reply> {
        let table = self.switch.table(id);
        let entry = table.get(handle).ok_or_else(|| refused(TableError::InvalidHandle(handle)))?;
        let life = table.life(handle, self.switch.now_us());
        let (program, names) = (self.program(), &self.names);
        Ok(Reply::new(
            show::entry(program, names, id, handle, &entry, life),
            data.then(|| data::entry(program, id, handle, &entry, life).into()),
        ))
    }

    pub(super) fn find_entry(&self, id: TableId, key: &[KeyMatch], priority: u32) -> Result<EntryHandle> {
        let found = self.switch.table(id).find(key, priority);
        // The code that bmv2 gives when no entry has the key.
        found.ok_or_else(|| CommandError::refused("table", "BAD_MATCH_KEY", "no entry has this key"))
    }

    /// The table whose entries a direct counter counts.
    pub(super) fn direct_table(&self, counter: InstanceId) -> Option<TableId> {
        match self.program().instances[counter.index()].kind {
            InstanceKind::DirectCounter { table, .. } => Some(table),
            _ => None,
        }
    }

    /// Packets and bytes of a counter at an index; for a direct counter the index is an entry's handle.
    pub(crate) fn counter_value(&self, counter: InstanceId, index: u32) -> Result<CounterValue> {
        let cell = self.counter_cell(counter, index)?;
        self.switch.state().counter_read(counter.0, cell).map_err(|e| no_cell("counter", e))
    }

    pub(super) fn write_counter(&self, counter: InstanceId, index: u32, value: CounterValue) -> Result<()> {
        let cell = self.counter_cell(counter, index)?;
        self.switch.state().counter_write(counter.0, cell, value).map_err(|e| no_cell("counter", e))
    }

    /// The cell behind an index.
    fn counter_cell(&self, counter: InstanceId, index: u32) -> Result<u32> {
        let Some(table) = self.direct_table(counter) else {
            return Ok(index);
        };
        let table = self.switch.table(table);
        let handle = EntryHandle(index);
        match table.get(handle) {
            Some(_) => Ok(table.row_of(handle)),
            None => Err(refused(TableError::InvalidHandle(handle))),
        }
    }

    /// All values in use, with their indices.
    pub(super) fn counter_values(&self, counter: InstanceId) -> Result<Vec<(u32, CounterValue)>> {
        let indices: Vec<u32> = match self.program().instances[counter.index()].kind {
            InstanceKind::Counter { size, .. } => (0..size).collect(),
            InstanceKind::DirectCounter { table, .. } => {
                self.switch.table(table).entries().map(|(handle, _)| handle.0).collect()
            }
            _ => Vec::new(),
        };
        indices.into_iter().map(|index| Ok((index, self.counter_value(counter, index)?))).collect()
    }

    /// A new entry counts from 0 and has a meter without rates, whoever had its row before.
    pub(super) fn reset_direct(&self, table: TableId, handle: EntryHandle) -> Result<()> {
        for counter in &self.names.shapes[table.index()].direct_counters {
            self.write_counter(*counter, handle.0, CounterValue::default())?;
        }
        for meter in &self.names.shapes[table.index()].direct_meters {
            self.set_meter(*meter, handle.0, None)?;
        }
        Ok(())
    }

    fn direct_counts(&self, table: TableId, handle: EntryHandle) -> Vec<(InstanceId, CounterValue)> {
        let counters = &self.names.shapes[table.index()].direct_counters;
        counters.iter().filter_map(|c| Some((*c, self.counter_value(*c, handle.0).ok()?))).collect()
    }

    fn direct_rates(&self, table: TableId, handle: EntryHandle) -> Vec<(InstanceId, Option<Rates>)> {
        let meters = &self.names.shapes[table.index()].direct_meters;
        meters.iter().filter_map(|m| Some((*m, self.meter_rates(*m, handle.0).ok()?))).collect()
    }

    /// Empties the switch: what commands set, and what packets left in registers and counters. Const entries stay; the
    /// constants of custom CRCs too.
    fn reset_state(&self, mut log: Option<&mut Vec<Undo>>) -> Result<()> {
        let program = self.program();
        for (instance, id) in program.instances.iter().zip(0..).map(|(i, id)| (i, InstanceId(id))) {
            let log = log.as_deref_mut();
            match instance.kind {
                InstanceKind::Register { .. } => drop(self.change(Command::RegisterReset(id), log)?),
                InstanceKind::Counter { .. } | InstanceKind::DirectCounter { .. } => {
                    drop(self.change(Command::CounterReset(id), log)?);
                }
                InstanceKind::Meter { .. } | InstanceKind::DirectMeter { .. } => self.reset_meter(id, log)?,
                InstanceKind::ActionProfile { .. } | InstanceKind::Digest { .. } => {}
            }
        }
        for (table, id) in program.tables.iter().zip(0..).map(|(t, id)| (t, TableId(id))) {
            if table.hidden {
                self.change_value_set(ValueSetCommand::Clear(id), log.as_deref_mut())?;
                continue;
            }
            if !table.const_entries {
                self.change(Command::TableClear(id), log.as_deref_mut())?;
            }
            self.change(Command::TableResetDefault(id), log.as_deref_mut())?;
        }
        for (_, id) in program.tables.iter().zip(0..).filter(|(t, _)| t.profile.is_some()) {
            for act in self.empty_profile(TableId(id)) {
                self.change_profile(ProfileCommand { table: TableId(id), act }, log.as_deref_mut())?;
            }
        }
        self.clear_replication(log);
        Ok(())
    }

    /// The value of a register's cell.
    pub(crate) fn register_value(&self, register: InstanceId, cell: u32) -> Result<BigUint> {
        self.switch.state().register_read(register.0, cell).map_err(|e| no_cell("register", e))
    }

    pub(super) fn write_register(&self, register: InstanceId, cell: u32, value: &BigUint) -> Result<()> {
        self.switch.state().register_write(register.0, cell, value).map_err(|e| no_cell("register", e))
    }

    pub(super) fn register_width(&self, register: InstanceId) -> u32 {
        match self.program().instances[register.index()].kind {
            InstanceKind::Register { width, .. } => width,
            _ => 0,
        }
    }

    /// The values of all of a register's cells.
    pub(super) fn register_values(&self, register: InstanceId) -> Vec<BigUint> {
        let InstanceKind::Register { size, .. } = self.program().instances[register.index()].kind else {
            return Vec::new();
        };
        (0..size).filter_map(|cell| self.register_value(register, cell).ok()).collect()
    }
}

/// A cell that is not there; the only thing that a name and value checked before leave possible.
pub(super) fn no_cell(kind: &str, error: StateError) -> CommandError {
    CommandError::refused(kind, "INVALID_INDEX", error)
}
