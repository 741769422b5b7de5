//! The runtime commands of bmv2's CLI.
//!
//! A line goes through three steps: [`parse`] checks it against the program and gives a [`Command`], [`apply`] carries that
//! out on the switch, [`show`] makes the answer's text.

mod apply;
mod complete;
mod data;
mod host;
mod list;
mod load;
mod meters;
mod parse;
mod profiles;
mod queues;
mod replication;
mod show;
mod state;
mod value_sets;

pub(crate) use data::entry as entry_data;
pub(crate) use host::HostCommand;
pub(crate) use list::{Touches, command_names, is_command};
pub use load::LoadSummary;
pub(crate) use load::Prepared;
pub(crate) use parse::{Command, Named, check_default_action, check_entries_open, check_entry_action};
pub(crate) use queues::configures_queues;
pub(crate) use state::{Did, Header, JournalHeader, Record, Restoring};

use crate::error::CommandError;
use crate::guard::guarded;
use crate::program::Names;
use meters::MeterCommand;
use num_bigint::BigUint;
use p4jet_dataplane::Switch;
use p4jet_externs::CounterValue;
use p4jet_ir::{InstanceId, Program};
use p4jet_tables::EntryHandle;
use parse::LineParser;
use serde_json::Value;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Carries out runtime commands on a switch.
#[derive(Clone)]
pub struct Control {
    switch: Arc<Switch>,
    names: Arc<Names>,
}

/// What a command comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// For standard output: empty, or lines.
    pub text: String,
    /// For standard error.
    pub note: Option<String>,
    /// Why the command was not carried out; `text` may have announced it.
    pub refused: Option<CommandError>,
    /// What a command that reads found, or the handle of what a change made.
    pub data: Option<Value>,
    /// If it was a change that was carried out: the handle of what it made.
    pub(crate) changed: Option<Option<u32>>,
}

impl Reply {
    fn new(text: String, data: Option<Value>) -> Reply {
        Reply { text, data, ..Reply::default() }
    }

    fn number(number: u64, data: bool) -> Reply {
        Reply::new(format!("{number}\n"), data.then(|| number.into()))
    }

    /// The text, unless the command was refused.
    pub(super) fn done(self) -> Result<String, CommandError> {
        self.refused.map_or(Ok(self.text), Err)
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Reply {
        Reply { text, ..Reply::default() }
    }
}

impl From<CommandError> for Reply {
    fn from(error: CommandError) -> Reply {
        Reply { refused: Some(error), ..Reply::default() }
    }
}

impl Control {
    /// Control of a switch.
    pub fn new(switch: Arc<Switch>) -> Control {
        let names = Arc::new(Names::new(switch.program()));
        Control { switch, names }
    }

    /// The switch.
    pub fn switch(&self) -> &Arc<Switch> {
        &self.switch
    }

    pub(crate) fn program(&self) -> &Program {
        self.switch.program()
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Carries out one command. The answer is empty or ends with a line end.
    pub fn execute(&mut self, line: &str) -> Result<String, CommandError> {
        self.reply(line, false).done()
    }

    /// Carries out one command. What one that reads prints; changes print nothing here.
    pub(crate) fn execute_quietly(&mut self, line: &str) -> Result<String, CommandError> {
        let command = LineParser::new(self.switch.program(), &self.names).parse(line)?;
        if command.reads() {
            return self.reply_to(command, false)?.done();
        }
        self.perform(command).map(|_| String::new())
    }

    /// Carries out one command. With `data`, what a command that reads found comes as JSON, too.
    pub fn reply(&mut self, line: &str, data: bool) -> Reply {
        let parsed = LineParser::new(self.switch.program(), &self.names).parse(line);
        let reply_to = |command| guarded(|| self.reply_to(command, data));
        let mut reply = match parsed.and_then(reply_to) {
            Ok(reply) => reply,
            Err(error) => return error.into(),
        };
        if let Some(newer) = line.split_ascii_whitespace().next().and_then(profiles::substitute) {
            reply.note = Some(format!("This is a deprecated command, use '{newer}' instead"));
        }
        reply
    }

    /// Carries out a command and tells about it.
    fn reply_to(&mut self, command: Command<'_>, data: bool) -> Result<Reply, CommandError> {
        let program = self.switch.program();
        let names = &self.names;
        Ok(match command {
            Command::Nothing => Reply::default(),
            Command::Help(None) => list::help().into(),
            Command::Help(Some(name)) => match list::find(name) {
                Some(spec) => list::help_for(spec).into(),
                None => format!("*** No help on {name}{}\n", list::suggestion(name)).into(),
            },
            Command::ShowTables => {
                Reply::new(show::tables(program, names), data.then(|| data::tables(program, names)))
            }
            Command::ShowActions => {
                Reply::new(show::actions(program, names), data.then(|| data::actions(program, names)))
            }
            Command::SwitchInfo => {
                Reply::new(show::switch_info(program, names), data.then(|| data::switch_info(program, names)))
            }
            Command::TableInfo(id) => Reply::new(
                show::table_info(program, names, id),
                data.then(|| data::table_info(program, names, id)),
            ),
            Command::TableShowActions(id) => Reply::new(
                show::table_actions(program, names, id),
                data.then(|| data::table_actions(program, names, id)),
            ),
            Command::TableNumEntries(id) => Reply::number(self.switch.table(id).len() as u64, data),
            Command::TableDump(id) => {
                let (table, now_us) = (self.switch.table(id), self.switch.now_us());
                Reply::new(
                    show::dump(program, names, id, &table, now_us),
                    data.then(|| data::dump(program, id, &table, now_us)),
                )
            }
            Command::TableDumpEntry(id, handle) => self.dump_entry(id, handle, data)?,
            Command::TableDumpEntryFromKey { table, key, priority } => {
                let handle = self.find_entry(table, &key, priority)?;
                self.dump_entry(table, handle, data)?
            }
            Command::CounterRead { counter, index } => {
                let direct = self.direct_line(counter.id);
                match self.counter_value(counter.id, index) {
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
                let value: BigUint = self.register_value(register.id, index)?;
                let width = self.register_width(register.id);
                let text = format!("{}[{index}]= {value}\n", register.typed);
                Reply::new(text, data.then(|| data::cell(&value, width)))
            }
            Command::RegisterRead { register, index: None } => {
                let values = self.register_values(register.id);
                let width = self.register_width(register.id);
                let texts: Vec<_> = values.iter().map(BigUint::to_string).collect();
                let text = format!("{}= {}\n", register.typed, texts.join(", "));
                let data = data.then(|| values.iter().map(|value| data::cell(value, width)).collect());
                let note = Some("register index omitted, reading entire array".to_string());
                Reply { note, ..Reply::new(text, data) }
            }
            Command::Queue(command) if command.reads() => {
                Reply::new(self.queues_text(), data.then(|| queues::data(self.switch.queues())))
            }
            Command::Profile(command) if command.reads() => self.profile_reply(&command, data)?,
            Command::Replication(command) if command.reads() => self.replication_reply(&command, data)?,
            Command::ValueSet(command) if command.reads() => self.value_set_reply(&command, data),
            Command::Meter(MeterCommand::Get { meter, index }) => self.meter_reply(meter, index, data)?,
            Command::Dump { counters } => {
                let mut text = Vec::new();
                // Writing to memory does not fail, and JSON is text.
                let _ = self.write_state(counters, None, &mut text);
                String::from_utf8(text).unwrap_or_default().into()
            }
            Command::TimeElapsed => Reply::number(self.switch.now_us(), data),
            Command::TimeSinceEpoch => {
                // A clock before 1970 is none.
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Reply::number(since.as_micros() as u64, data)
            }
            change => {
                let mut text = self.announce(&change);
                let note = match change {
                    Command::Queue(_) => self.queues_note(),
                    _ => None,
                };
                let done = match self.perform(change) {
                    Ok(done) => done,
                    Err(error) => return Ok(Reply { text, ..error.into() }),
                };
                if let Some(EntryHandle(handle)) = done.handle {
                    text += &format!("Entry has been added with handle {handle}\n");
                }
                text += &done.told.unwrap_or_default();
                let made = done.handle.map(|handle| handle.0).or(done.made);
                let data = made.filter(|_| data).map(|handle| serde_json::json!({"handle": handle}));
                Reply { note: note.map(str::to_string), changed: Some(made), ..Reply::new(text, data) }
            }
        })
    }

    /// Says of a direct counter which table's it is.
    fn direct_line(&self, counter: InstanceId) -> String {
        let table = self.direct_table(counter).map(|table| &self.program().tables[table.index()].name);
        table.map_or_else(String::new, |name| format!("this is the direct counter for table {name}\n"))
    }

    /// What bmv2's CLI prints before it carries out a change.
    fn announce(&self, command: &Command<'_>) -> String {
        let program = self.switch.program();
        match command {
            Command::TableAdd { table, action, entry } => {
                let ir = &program.tables[table.id.index()];
                let kind = self.names.shapes[table.id.index()].match_kind;
                let key = show::match_key_line(ir, &entry.key);
                let action = show::action_lines(program, ir, action, &entry.action);
                format!("Adding entry to {kind} match table {}\n{key}{action}", table.typed)
            }
            Command::TableSetDefault { table, action, call } => {
                let action = show::action_lines(program, &program.tables[table.id.index()], action, call);
                format!("Setting default action of {}\n{action}", table.typed)
            }
            Command::TableModify { table, handle, .. } => {
                let kind = self.names.shapes[table.id.index()].match_kind;
                format!("Modifying entry {} for {kind} match table {}\n", handle.0, table.typed)
            }
            Command::TableDelete { table, handle } => {
                format!("Deleting entry {} from {}\n", handle.0, table.typed)
            }
            Command::IndirectAdd { table, .. } => {
                format!("Adding entry to indirect match table {}\n", program.tables[table.index()].name)
            }
            Command::Replication(command) => command.announce(),
            Command::CounterWrite { counter, .. } => match self.direct_table(counter.id) {
                Some(table) => {
                    format!("writing to direct counter for table {}\n", program.tables[table.index()].name)
                }
                None => String::new(),
            },
            Command::CounterReset(counter) => self.direct_line(*counter),
            Command::SetTimeout { handle, milliseconds, .. } => {
                format!("Setting a {milliseconds} ms timeout for entry {}\n", handle.0)
            }
            _ => String::new(),
        }
    }
}
