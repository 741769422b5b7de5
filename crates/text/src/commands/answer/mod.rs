//! Executes reading commands and formats the output of all commands.

mod meters;
mod profiles;
mod queues;
mod replication;
mod value_sets;

use super::parse::{Change, Command, LineParser};
use super::{Reply, Result, both_notes, data, list, show};
use crate::error::LineError;
use num_bigint::BigUint;
use p4jet_control::{Act, Cell, Control, Entity, EntryRef, PAGE_MAX, Ref, Schema, Selector, Update};
use p4jet_externs::CounterValue;
use p4jet_ir::{InstanceId, Program, TableId};
use p4jet_tables::EntryHandle;
use std::time::{SystemTime, UNIX_EPOCH};

/// Answers the commands of one control.
#[derive(Clone, Copy)]
pub(crate) struct Answerer<'c> {
    control: &'c Control,
}

/// Memory for each object in an answer: as text, as JSON, and as the line that is sent.
pub(crate) const ANSWER_BYTES_PER_OBJECT: usize = 4096;
/// Copies of the text of a cell in memory: the value, texts that grow and therefore take twice their length, JSON, and the line
/// that is sent.
const CELL_COPIES: usize = 12;

impl<'c> Answerer<'c> {
    pub(crate) fn new(control: &'c Control) -> Answerer<'c> {
        Answerer { control }
    }

    fn program(self) -> &'c Program {
        self.control.program()
    }

    fn schema(self) -> &'c Schema {
        self.control.schema()
    }

    /// Checks a line against the program.
    pub(crate) fn parse(self, line: &str) -> Result<Command<'_>> {
        LineParser::new(self.program(), self.schema()).parse(line)
    }

    /// Memory for an answer whose length grows with the state of the switch; 0 for a short one.
    pub(crate) fn answer_bytes(self, command: &Command<'_>) -> usize {
        let control = self.control;
        let of_profile = |table| control.profile(table).map_or(0, |of| of.objects_count());
        let objects = match command {
            Command::TableDump(table) | Command::ValueSetRead(table) => {
                control.entries_of(*table).unwrap_or(0)
            }
            Command::GroupDump(table, _) | Command::ProfileDump(table) => of_profile(*table),
            Command::MulticastDump | Command::ShowValueSets | Command::Dump { .. } => control.objects(),
            _ => 0,
        };
        let cells = match command {
            Command::Dump { counters } => control.cells_text_bytes(*counters),
            Command::RegisterRead { register, index: None } => {
                // A 0 takes a few bytes.
                let size = control.schema().register_cells(register.id).map_or(0, |cells| cells.size);
                8 * size as usize + control.register_text_bytes(register.id)
            }
            _ => 0,
        };
        objects.saturating_mul(ANSWER_BYTES_PER_OBJECT).saturating_add(cells.saturating_mul(CELL_COPIES))
    }

    /// Runs a reading command. For a change it returns nothing.
    pub(crate) fn reply_to(self, command: Command<'_>, data: bool) -> Result<Reply> {
        let (program, schema) = (self.program(), self.schema());
        Ok(match command {
            Command::Nothing => Reply::default(),
            Command::Help(None) => list::help().into(),
            Command::Help(Some(name)) => match list::find(name) {
                Some(spec) => list::help_for(spec).into(),
                None => {
                    return Err(LineError::new(format!("*** No help on {name}{}", list::suggestion(name))));
                }
            },
            Command::ShowTables => {
                Reply::new(show::tables(program, schema), data.then(|| data::tables(program, schema)))
            }
            Command::ShowActions => {
                Reply::new(show::actions(program, schema), data.then(|| data::actions(program, schema)))
            }
            Command::SwitchInfo => Reply::new(
                show::switch_info(program, schema),
                data.then(|| data::switch_info(program, schema)),
            ),
            Command::TableInfo(id) => Reply::new(
                show::table_info(program, schema, id),
                data.then(|| data::table_info(program, schema, id)),
            ),
            Command::TableShowActions(id) => Reply::new(
                show::table_actions(program, schema, id),
                data.then(|| data::table_actions(program, schema, id)),
            ),
            Command::TableNumEntries(id) => Reply::number(self.control.entries_of(id)? as u64, data),
            Command::TableDump(id) => self.dump_table(id, data)?,
            Command::TableDumpEntry(id, handle) => self.dump_entry(id, handle, data)?,
            Command::TableDumpEntryFromKey { table, key, priority } => {
                let handle = self.control.find_entry(table, &key, priority)?;
                self.dump_entry(table, handle, data)?
            }
            Command::CounterRead { counter, index } => {
                let direct = self.direct_line(counter.id);
                match self.control.counter_value(counter.id, index) {
                    Ok(value) => {
                        let CounterValue { packets, bytes } = value;
                        let name = counter.typed;
                        Reply::new(
                            format!("{direct}{name}[{index}]= ({bytes} bytes, {packets} packets)\n"),
                            data.then(|| data::counter(value)),
                        )
                    }
                    Err(error) => Reply { text: direct, ..error.into() },
                }
            }
            Command::RegisterRead { register, index: Some(index) } => {
                let value: BigUint = self.control.register_value(register.id, index)?;
                let width = self.schema().register_cells(register.id)?.width;
                let text = format!("{}[{index}]= {value}\n", register.typed);
                Reply::new(text, data.then(|| data::cell(&value, width)))
            }
            Command::RegisterRead { register, index: None } => {
                let values = self.control.register_values(register.id)?;
                let width = self.schema().register_cells(register.id)?.width;
                let texts: Vec<_> = values.iter().map(BigUint::to_string).collect();
                let text = format!("{}= {}\n", register.typed, texts.join(", "));
                let data = data.then(|| values.iter().map(|value| data::cell(value, width)).collect());
                let note = Some("register index omitted, reading entire array".to_string());
                Reply { note, ..Reply::new(text, data) }
            }
            Command::ShowQueues => self.queues_reply(data),
            Command::MemberDump(table, member) => self.member_reply(table, member, data)?,
            Command::GroupDump(table, group) => self.group_reply(table, group, data)?,
            Command::ProfileDump(table) => self.profile_reply(table, data)?,
            Command::MulticastDump => self.multicast_reply(data)?,
            Command::SessionRead(session) => self.session_reply(session, data)?,
            Command::ShowValueSets => self.value_sets_reply(data),
            Command::ValueSetRead(set) => self.value_set_reply(set, data)?,
            Command::MeterRead { meter, index } => self.meter_reply(meter, index, data)?,
            Command::Dump { counters } => self.control.dump(counters).into(),
            Command::TimeElapsed => Reply::number(self.control.now_us(), data),
            Command::TimeSinceEpoch => {
                // A clock before 1970 is wrong.
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Reply::number(since.as_micros() as u64, data)
            }
            Command::Change(_) => Reply::default(),
        })
    }

    /// Applies a change by `write`, and returns the output of bmv2's CLI. `write` returns the handle of the created object and a
    /// note; nothing if another program has been loaded.
    pub(crate) fn change_reply(
        self,
        change: Change<'_>,
        data: bool,
        write: impl FnOnce(Update) -> Option<(Result<Option<u32>>, Option<String>)>,
    ) -> Option<Reply> {
        let mut text = self.announce(&change);
        let report = match &change.update {
            Update::Insert { .. } => "Entry has been added",
            Update::CreateMember { .. } => "Member has been created",
            Update::CreateGroup { .. } => "Group has been created",
            Update::CreateNode { .. } => "node was created",
            _ => "",
        };
        let updated = match &change.update {
            Update::WriteCounter { cell: Cell::Index(index), .. } => {
                format!("{}[{index}] has been updated\n", change.object)
            }
            _ => String::new(),
        };
        let (done, note) = write(change.update)?;
        let note = both_notes(change.note, note);
        let made = match done {
            Ok(made) => made,
            Err(error) => return Some(Reply { text, note, ..error.into() }),
        };
        if let Some(handle) = made {
            text += &format!("{report} with handle {handle}\n");
        }
        text += &updated;
        let data = made.filter(|_| data).map(|handle| serde_json::json!({"handle": handle}));
        Some(Reply { note, ..Reply::new(text, data) })
    }

    /// Reads all objects of a selector, in pages, between which locks are released.
    fn read_all(self, selector: &Selector, mut put: impl FnMut(Entity)) -> Result<()> {
        let mut from = Some(0);
        while let Some(at) = from {
            let page = self.control.read(selector, at, PAGE_MAX)?;
            page.entities.into_iter().for_each(&mut put);
            from = page.next;
        }
        Ok(())
    }

    /// The whole table.
    fn dump_table(self, id: TableId, data: bool) -> Result<Reply> {
        let (program, schema) = (self.program(), self.schema());
        let mut text = "==========\nTABLE ENTRIES\n".to_string();
        let mut entries = Vec::new();
        self.read_all(&Selector::Entries(id), |entity| {
            let Entity::Entry(state) = entity else { return };
            text += "**********\n";
            text += &show::entry(program, schema, id, &state);
            if data {
                entries.push(data::entry(program, id, &state).into());
            }
        })?;
        let profile = self.control.profile(id).ok();
        let default = self.control.default_action(id);
        let (profile, default) = (profile.as_ref(), default.as_ref());
        text += &show::behind_entries(program, id, profile, default);
        let data = data.then(|| data::dump(program, id, entries, profile, default));
        Ok(Reply::new(text, data))
    }

    pub(super) fn dump_entry(self, id: TableId, handle: EntryHandle, data: bool) -> Result<Reply> {
        let page = self.control.read(&Selector::Entry(id, handle.0), 0, 1)?;
        let (program, schema) = (self.program(), self.schema());
        Ok(match page.entities.first() {
            Some(Entity::Entry(state)) => Reply::new(
                show::entry(program, schema, id, state),
                data.then(|| data::entry(program, id, state).into()),
            ),
            _ => Reply::default(),
        })
    }

    /// Adds the table to the output of a direct counter.
    fn direct_line(self, counter: InstanceId) -> String {
        let table =
            self.schema().direct_table(counter).map(|table| &self.program().tables[table.index()].name);
        table.map_or_else(String::new, |name| format!("this is the direct counter for table {name}\n"))
    }

    /// The output of bmv2's CLI before a change.
    fn announce(self, change: &Change<'_>) -> String {
        let program = self.program();
        let kind = |table: &TableId| self.schema().shape(*table).match_kind;
        let Change { update, object, action, note: _ } = change;
        match update {
            Update::Insert { table, key, act: Act::Action(call), .. } => {
                let ir = &program.tables[table.index()];
                let key = show::match_key_line(ir, key);
                let action = show::action_lines(program, ir, action, call);
                format!("Adding entry to {} match table {object}\n{key}{action}", kind(table))
            }
            Update::Insert { table, .. } => {
                format!("Adding entry to indirect match table {}\n", program.tables[table.index()].name)
            }
            Update::SetDefault { table, act: Act::Action(call) } => {
                let action = show::action_lines(program, &program.tables[table.index()], action, call);
                format!("Setting default action of {object}\n{action}")
            }
            Update::Modify { table, entry, .. } => {
                format!("Modifying entry {} for {} match table {object}\n", handle_of(entry), kind(table))
            }
            Update::Delete { entry, .. } => format!("Deleting entry {} from {object}\n", handle_of(entry)),
            Update::WriteCounter { counter, .. } => match self.schema().direct_table(*counter) {
                Some(table) => {
                    format!("writing to direct counter for table {}\n", program.tables[table.index()].name)
                }
                None => String::new(),
            },
            Update::ResetCounter(counter) => self.direct_line(*counter),
            Update::SetTimeout { entry, timeout_ms, .. } => {
                format!("Setting a {timeout_ms} ms timeout for entry {}\n", handle_of(entry))
            }
            other => replication::announce(other),
        }
    }
}

/// The handle of the entry that a command names.
fn handle_of(entry: &EntryRef) -> u32 {
    match entry {
        EntryRef::Handle(Ref::Handle(handle)) => *handle,
        EntryRef::Handle(Ref::Made(_)) | EntryRef::Key(_) => unreachable!("commands name entries by handle"),
    }
}
