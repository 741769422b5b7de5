//! Parses a line to a [`Command`] and checks it against the program. Nothing here accesses the switch.

pub(crate) mod host;
mod meters;
pub(crate) mod profiles;
pub(crate) mod queues;
mod replication;
mod value_sets;

use self::host::HostCommand;
use self::queues::configures_queues;
use super::{both_notes, list};
use crate::error::{LineError, invalid_data, invalid_key, invalid_name};
use num_bigint::BigUint;
use num_traits::Zero;
use p4jet_control::names::{NameIndex, unknown};
use p4jet_control::schema::{PRIORITY_MAX, RegisterCells, Schema, check_direct};
use p4jet_control::value::{
    bytes_of, describe_key, hex_bytes, key_match_masked, parse_int, parse_u64, parse_value,
};
use p4jet_control::{
    Act, Cell, Cells, ControlError, EntryRef, KeyField, ObjectKind, Param, Ref, Subject, Update, count,
};
use p4jet_externs::{CounterValue, CrcParams};
use p4jet_ir::{InstanceId, Program, TableId};
use p4jet_tables::{Action, EntryHandle, KeyMatch};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Maximum number of cells that `register_read` prints without an index: more could be gigabytes of text.
const CELLS_SHOWN_MAX: u32 = 65_536;

/// An object with the name that the user gave, which answers repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Named<'a, T> {
    pub typed: &'a str,
    pub id: T,
}

/// A command whose names are resolved and whose values fit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command<'a> {
    /// An empty line or a comment.
    Nothing,
    Help(Option<&'a str>),
    ShowTables,
    ShowActions,
    SwitchInfo,
    TableInfo(TableId),
    TableShowActions(TableId),
    TableNumEntries(TableId),
    TableDump(TableId),
    TableDumpEntry(TableId, EntryHandle),
    TableDumpEntryFromKey {
        table: TableId,
        key: Vec<KeyMatch>,
        priority: u32,
    },
    CounterRead {
        counter: Named<'a, InstanceId>,
        index: u32,
    },
    RegisterRead {
        register: Named<'a, InstanceId>,
        index: Option<u32>,
    },
    MeterRead {
        meter: InstanceId,
        index: u32,
    },
    MemberDump(TableId, u32),
    GroupDump(TableId, u32),
    ProfileDump(TableId),
    MulticastDump,
    SessionRead(u32),
    ShowValueSets,
    ValueSetRead(TableId),
    ShowQueues,
    TimeElapsed,
    TimeSinceEpoch,
    /// The whole configuration.
    Dump {
        counters: bool,
    },
    Change(Change<'a>),
}

/// A change of the switch, with the words of the line that the answer repeats.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change<'a> {
    pub update: Update,
    /// The object.
    pub object: &'a str,
    /// The action.
    pub action: &'a str,
    /// A note for standard error, if the update differs from what the line says.
    pub note: Option<String>,
}

impl<'a> Change<'a> {
    pub(super) fn new(update: Update) -> Change<'a> {
        Change { update, object: "", action: "", note: None }
    }
}

impl From<Update> for Command<'_> {
    fn from(update: Update) -> Self {
        Command::Change(Change::new(update))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(super) text: &'a str,
    at: usize,
}

impl Token<'_> {
    pub(super) fn span(&self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }
}

/// Splits a line at blanks; a word that begins with `#` starts a comment.
pub(super) fn split<'a>(line: &'a str, tokens: &mut Vec<Token<'a>>) {
    tokens.clear();
    let mut start = None;
    // Blanks are ASCII, so every cut is between characters.
    for (at, byte) in line.bytes().enumerate() {
        match (byte.is_ascii_whitespace(), start) {
            (false, None) if byte == b'#' => return,
            (false, None) => start = Some(at),
            (true, Some(from)) => {
                tokens.push(Token { text: &line[from..at], at: from });
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        tokens.push(Token { text: &line[from..], at: from });
    }
}

/// Parses lines one after the other.
pub(crate) struct LineParser<'p, 'a> {
    pub(super) program: &'p Program,
    pub(super) schema: &'p Schema,
    tokens: Vec<Token<'a>>,
    /// In a file: the lines that create an object, with the positions of their changes, in order.
    makers: Vec<(usize, u32)>,
}

pub(super) type Parsed<T> = Result<T, LineError>;

/// The words of a line and where it ends.
pub(super) struct Line<'t, 'a> {
    pub(super) spec: &'static list::Spec,
    pub(super) tokens: &'t [Token<'a>],
    pub(super) end: usize,
}

impl<'a> Line<'_, 'a> {
    pub(super) fn usage(&self) -> String {
        list::usage(self.spec)
    }

    pub(super) fn get(&self, index: usize, what: &str) -> Parsed<Token<'a>> {
        self.tokens.get(index).copied().ok_or_else(|| {
            let message = format!("Error: expected {what} at the end of the line; usage: {}", self.usage());
            LineError::new(message).at(self.end..self.end)
        })
    }

    pub(super) fn ends_after(&self, count: usize) -> Parsed<()> {
        match self.tokens.get(count) {
            None => Ok(()),
            Some(token) => {
                let message =
                    format!("Error: found `{}` after the last argument; usage: {}", token.text, self.usage());
                Err(LineError::new(message).at(token.span()))
            }
        }
    }

    /// The position at which an argument is missing after the given words.
    pub(super) fn after(&self, count: usize) -> Range<usize> {
        let at = self.tokens.get(count).map_or(self.end, |token| token.at);
        at..at
    }
}

/// The note on a value with bits outside its prefix or mask. Addresses are written as the user wrote them.
fn masked_note(field: &KeyField, text: &str, found: &KeyMatch) -> String {
    let write = |value: &BigUint, like: &str| match field.width {
        32 if like.contains('.') => {
            Ipv4Addr::from_bits(value.iter_u32_digits().next().unwrap_or(0)).to_string()
        }
        128 if like.contains(':') => {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&bytes_of(value, 128));
            Ipv6Addr::from(bytes).to_string()
        }
        48 if like.contains(':') => hex_bytes(value, 48),
        _ => format!("{value:#x}"),
    };
    let (outside, matches) = match found {
        KeyMatch::Lpm { value, prefix_len } => ("prefix", format!("{}/{prefix_len}", write(value, text))),
        KeyMatch::Ternary { value, mask } => {
            let (first, second) = text.split_once("&&&").unwrap_or((text, text));
            ("mask", format!("{}&&&{}", write(value, first), write(mask, second)))
        }
        _ => unreachable!("only prefixes and masks clear bits"),
    };
    let name = &field.name;
    format!("{name}: `{text}` has bits outside the {outside}, which are ignored: the entry matches {matches}")
}

pub(super) fn number(token: Token<'_>, what: &str, max: u64) -> Parsed<u64> {
    parse_u64(token.text, what, max).map_err(|why| LineError::new(format!("Error: {why}")).at(token.span()))
}

impl<'p, 'a> LineParser<'p, 'a> {
    pub(crate) fn new(program: &'p Program, schema: &'p Schema) -> Self {
        LineParser { program, schema, tokens: Vec::new(), makers: Vec::new() }
    }

    /// Records a change of a file, so that later lines can name the created object: `$7` for line 7.
    pub(crate) fn note_maker(&mut self, line: usize, position: u32, update: &Update) {
        if update.makes() {
            self.makers.push((line, position));
        }
    }

    /// A handle: a number, or `$` and the number of an earlier line of the file that creates the object.
    pub(super) fn handle(&self, token: Token<'_>, what: &str) -> Parsed<Ref> {
        let Some(line) = token.text.strip_prefix('$') else {
            // The check makes the cast exact.
            return number(token, what, u64::from(u32::MAX)).map(|handle| Ref::Handle(handle as u32));
        };
        let maker = line.parse().ok().and_then(|line: usize| {
            let place = self.makers.binary_search_by_key(&line, |(line, _)| *line).ok()?;
            Some(self.makers[place].1)
        });
        maker.map(Ref::Made).ok_or_else(|| {
            let text = token.text;
            let message = format!(
                "Error: found {text}, expected {what}, or $ and the number of an earlier line of the file that makes the object"
            );
            LineError::new(message).field("handle").at(token.span())
        })
    }

    pub(crate) fn parse(&mut self, line: &'a str) -> Parsed<Command<'a>> {
        let mut tokens = std::mem::take(&mut self.tokens);
        split(line, &mut tokens);
        let command = self.command(&tokens, line.trim_end().len()).and_then(|command| match &command {
            Command::Change(change) => match self.schema.check(self.program, &change.update) {
                Ok(()) => Ok(command),
                Err(error) => Err(at_field(error.into(), &tokens)),
            },
            _ => Ok(command),
        });
        self.tokens = tokens;
        command
    }

    fn command(&self, tokens: &[Token<'a>], end: usize) -> Parsed<Command<'a>> {
        let Some(first) = tokens.first() else {
            return Ok(Command::Nothing);
        };
        let Some(spec) = list::find(first.text) else {
            return Err(unknown_command(first.text).at(first.span()));
        };
        let line = Line { spec, tokens, end };
        let command = match spec.name {
            "table_add" => return self.table_add(&line),
            "table_set_default" => return self.table_set_default(&line),
            "table_modify" => return self.table_modify(&line),
            "table_dump_entry_from_key" => return self.dump_entry_from_key(&line),
            "help" => {
                line.ends_after(2)?;
                return Ok(Command::Help(tokens.get(1).map(|t| t.text)));
            }
            "show_tables" | "show_actions" | "switch_info" => {
                line.ends_after(1)?;
                match spec.name {
                    "show_tables" => Command::ShowTables,
                    "show_actions" => Command::ShowActions,
                    _ => Command::SwitchInfo,
                }
            }
            "table_info" => Command::TableInfo(self.only_table(&line)?.id),
            "table_show_actions" => Command::TableShowActions(self.only_table(&line)?.id),
            "table_num_entries" => Command::TableNumEntries(self.only_table(&line)?.id),
            "table_dump" => Command::TableDump(self.only_table(&line)?.id),
            "table_clear" => Update::Clear(self.only_table(&line)?.id).into(),
            "table_reset_default" => {
                let table = self.only_table(&line)?;
                self.check_direct(&line, table.id)?;
                Update::ResetDefault(table.id).into()
            }
            "table_dump_entry" => {
                let table = self.table(&line)?;
                let handle = entry_handle(line.get(2, "an entry handle")?)?;
                line.ends_after(3)?;
                Command::TableDumpEntry(table.id, handle)
            }
            "table_delete" => {
                let (table, handle) = self.table_and_handle(&line)?;
                self.check_direct(&line, table.id)?;
                delete(table, handle)
            }
            "counter_read" => {
                let (counter, index) = self.counter_cell(&line)?;
                line.ends_after(3)?;
                Command::CounterRead { counter, index }
            }
            "counter_write" => {
                let (counter, index) = self.counter_cell(&line)?;
                let packets = number(line.get(3, "the number of packets")?, "a number of packets", u64::MAX)?;
                let bytes = number(line.get(4, "the number of bytes")?, "a number of bytes", u64::MAX)?;
                line.ends_after(5)?;
                let value = CounterValue { packets, bytes };
                let update = Update::WriteCounter { counter: counter.id, cell: Cell::Index(index), value };
                Command::Change(Change { object: counter.typed, ..Change::new(update) })
            }
            "counter_reset" => {
                let counter = self.counter(&line)?;
                line.ends_after(2)?;
                Update::ResetCounter(counter.id).into()
            }
            "register_read" => {
                let (register, RegisterCells { size, .. }) = self.register(&line)?;
                let index = match tokens.get(2) {
                    Some(token) => {
                        Some(self.cell(*token, Subject::Register, register.id, Cells::Array(size))?)
                    }
                    None if size > CELLS_SHOWN_MAX => {
                        let name = register.typed;
                        let message = format!(
                            "Error: {name} has {size} cells, and at most {CELLS_SHOWN_MAX} are read at once: expected an \
                             index, such as register_read {name} 0"
                        );
                        return Err(LineError::new(message).at(line.after(2)));
                    }
                    None => None,
                };
                line.ends_after(3)?;
                Command::RegisterRead { register, index }
            }
            "register_write" => {
                let (register, RegisterCells { width, size }) = self.register(&line)?;
                let index = line.get(2, "an index")?;
                let index = self.cell(index, Subject::Register, register.id, Cells::Array(size))?;
                let token = line.get(3, "a value")?;
                let value = parse_value(token.text, width)
                    .map_err(|why| LineError::new(format!("Error: {why}")).at(token.span()))?;
                line.ends_after(4)?;
                Update::WriteRegister { register: register.id, index, value }.into()
            }
            "register_reset" => {
                let (register, _) = self.register(&line)?;
                line.ends_after(2)?;
                Update::ResetRegister(register.id).into()
            }
            "table_indirect_delete" => {
                self.indirect_table(&line)?;
                let (table, handle) = self.table_and_handle(&line)?;
                delete(table, handle)
            }
            "table_indirect_reset_default" => {
                let table = self.indirect_table(&line)?;
                line.ends_after(2)?;
                Update::ResetDefault(table.id).into()
            }
            "table_set_timeout" => self.timeout(&line)?,
            "get_time_elapsed" | "get_time_since_epoch" | "reset_state" => {
                line.ends_after(1)?;
                match spec.name {
                    "get_time_elapsed" => Command::TimeElapsed,
                    "get_time_since_epoch" => Command::TimeSinceEpoch,
                    _ => Update::Reset.into(),
                }
            }
            name if configures_queues(name) || name == "show_queues" => {
                return self.queue_command(&line);
            }
            "dump" => {
                let counters = tokens.get(1);
                if let Some(other) = counters.filter(|word| word.text != "counters") {
                    let message = format!("Error: found `{}`, expected `counters` or nothing", other.text);
                    return Err(LineError::new(message).at(other.span()));
                }
                line.ends_after(2)?;
                Command::Dump { counters: counters.is_some() }
            }
            name if name.starts_with("act_prof_")
                || profiles::substitute(name).is_some()
                || name.starts_with("table_dump_") =>
            {
                return self.profile_command(&line);
            }
            name if name.starts_with("table_indirect_") => return self.indirect_command(&line),
            name if name.starts_with("mc_") || name.starts_with("mirroring_") => {
                return self.replication_command(&line);
            }
            name if name.starts_with("meter_") => return self.meter_command(&line),
            name if name.starts_with("pvs_") || name == "show_pvs" => return self.value_set_command(&line),
            name @ ("restore" | "serialize_state") => {
                line.get(1, "the path of a file")?;
                line.ends_after(2)?;
                let message = format!(
                    "not supported here: {name} (the file belongs to the client: use the prompt or p4jet ctl)"
                );
                return Err(LineError::unsupported(message).at(first.span()));
            }
            name if HostCommand::NAMES.contains(&name) => {
                let message = format!(
                    "not supported here: {name} (a running switch does it, at its prompt or by p4jet ctl)"
                );
                return Err(LineError::unsupported(message).at(first.span()));
            }
            "set_crc16_parameters" => self.crc(&line, 16)?,
            "set_crc32_parameters" => self.crc(&line, 32)?,
            other => unreachable!("command {other} is listed but not parsed"),
        };
        Ok(command)
    }

    pub(super) fn table(&self, line: &Line<'_, 'a>) -> Parsed<Named<'a, TableId>> {
        named(self.schema.names(ObjectKind::Table), line.get(1, "a table name")?, TableId)
    }

    fn only_table(&self, line: &Line<'_, 'a>) -> Parsed<Named<'a, TableId>> {
        let table = self.table(line)?;
        line.ends_after(2)?;
        Ok(table)
    }

    fn table_and_handle(&self, line: &Line<'_, 'a>) -> Parsed<(Named<'a, TableId>, Ref)> {
        let table = self.table(line)?;
        let handle = self.handle(line.get(2, "an entry handle")?, "an entry handle")?;
        line.ends_after(3)?;
        Ok((table, handle))
    }

    /// The index of an action in the table's list.
    pub(super) fn action(&self, line: &Line<'_, 'a>, table: TableId) -> Parsed<Named<'a, u32>> {
        let token = line.get(2, "an action name")?;
        let text = token.text;
        let actions = self.schema.names(ObjectKind::ActionOf(table));
        if let Ok(id) = actions.find(text) {
            return Ok(Named { typed: text, id });
        }
        // An action of another table is a different mistake from an unknown name.
        let message = match self.schema.names(ObjectKind::Action).find(text) {
            Ok(_) => {
                let name = &self.program.tables[table.index()].name;
                let choices = unknown(text, actions.names(), "its actions are");
                format!("Error: Table {name} has no action {text}: {choices}")
            }
            Err(_) => LineError::from(actions.find(text).expect_err("looked up above")).message,
        };
        let error = LineError::new(message).code("UNKNOWN_NAME").field("action").choices(actions.names());
        Err(error.at(token.span()))
    }

    /// Refuses a table with an action profile, and names the commands for it.
    fn check_direct(&self, line: &Line<'_, 'a>, table: TableId) -> Parsed<()> {
        check_direct(self.program, &self.program.tables[table.index()]).map_err(|error| {
            let message = format!("{error}: expected the table_indirect_ commands");
            LineError::from(ControlError { message, ..error }).at(line.tokens[1].span())
        })
    }

    fn timeout(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let table = self.table(line)?;
        let handle = self.handle(line.get(2, "an entry handle")?, "an entry handle")?;
        // The check makes the cast exact.
        let timeout_ms = number(line.get(3, "a timeout in ms")?, "a timeout", u64::from(u32::MAX))? as u32;
        line.ends_after(4)?;
        Ok(Update::SetTimeout { table: table.id, entry: EntryRef::Handle(handle), timeout_ms }.into())
    }

    fn table_add(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let table = self.table(line)?;
        self.check_direct(line, table.id)?;
        let action = self.action(line, table.id)?;
        let ir = &self.program.tables[table.id.index()];
        let needs_priority = self.schema.shape(table.id).needs_priority;
        let expected = self.program.actions[ir.actions[action.id as usize].action.index()].params.len();
        let of = format!("{} on table {}", action.typed, table.typed);
        let takes = match needs_priority {
            true => format!(", {} and a priority", count(expected, "parameter")),
            false => format!(" and {}", count(expected, "parameter")),
        };
        let words = (ir.keys.len(), expected + usize::from(needs_priority));
        let (key, rest) = key_and_rest(line, 3, words, &of, &takes)?;
        let (key, note) = self.match_key(line, table.id, key.clone(), key.end)?;
        // The last word is the priority. If one word is missing, the error names the priority.
        if needs_priority && rest.len() <= expected {
            if rest.len() == expected {
                return Err(self.priority_missing(line, table.id));
            }
            return Err(self.wrong_params(line, table.id, action, rest.len(), rest.end));
        }
        let (params_end, priority) = if needs_priority {
            (rest.end - 1, self.priority(line.tokens[rest.end - 1], table.id)?)
        } else {
            (rest.end, 0)
        };
        let call = self.action_data(line, table.id, action, rest.start..params_end)?;
        let update = Update::Insert { table: table.id, key, priority, act: Act::Action(call) };
        Ok(Command::Change(Change { update, object: table.typed, action: action.typed, note }))
    }

    pub(super) fn priority(&self, token: Token<'_>, table: TableId) -> Parsed<u32> {
        // The check makes the cast exact.
        parse_u64(token.text, "a priority", u64::from(PRIORITY_MAX)).map(|p| p as u32).map_err(|why| {
            let kind = self.schema.shape(table).match_kind;
            let message =
                format!("Error: Table is {kind}, but could not extract a valid priority from args: {why}");
            LineError::new(message).at(token.span())
        })
    }

    pub(super) fn priority_missing(&self, line: &Line<'_, 'a>, table: TableId) -> LineError {
        let kind = self.schema.shape(table).match_kind;
        let message = format!(
            "Error: Table is {kind}, but could not extract a valid priority from args: expected a priority (the \
             smallest number wins) as the last word"
        );
        LineError::new(message).at(line.after(line.tokens.len()))
    }

    fn table_set_default(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let table = self.table(line)?;
        self.check_direct(line, table.id)?;
        let action = self.action(line, table.id)?;
        let call = self.action_data(line, table.id, action, params_after(line, 3))?;
        let update = Update::SetDefault { table: table.id, act: Act::Action(call) };
        Ok(Command::Change(Change { object: table.typed, action: action.typed, ..Change::new(update) }))
    }

    fn table_modify(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let table = self.table(line)?;
        self.check_direct(line, table.id)?;
        let action = self.action(line, table.id)?;
        let handle = self.handle(line.get(3, "an entry handle")?, "an entry handle")?;
        let call = self.action_data(line, table.id, action, params_after(line, 4))?;
        let update =
            Update::Modify { table: table.id, entry: EntryRef::Handle(handle), act: Act::Action(call) };
        Ok(Command::Change(Change { object: table.typed, action: action.typed, ..Change::new(update) }))
    }

    fn dump_entry_from_key(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let table = self.table(line)?.id;
        let keys = self.program.tables[table.index()].keys.len();
        let needs_priority = self.schema.shape(table).needs_priority;
        let mut end = line.tokens.len();
        let mut priority = 0;
        if needs_priority {
            if end == 2 + keys {
                return Err(self.priority_missing(line, table));
            }
            if end > 2 {
                end -= 1;
                priority = self.priority(line.tokens[end], table)?;
            }
        }
        let (key, _) = self.match_key(line, table, 2..end, end)?;
        Ok(Command::TableDumpEntryFromKey { table, key, priority })
    }

    /// The key, and a note if bits of it are ignored.
    pub(super) fn match_key(
        &self,
        line: &Line<'_, 'a>,
        table: TableId,
        words: Range<usize>,
        stop: usize,
    ) -> Parsed<(Vec<KeyMatch>, Option<String>)> {
        let fields = self.schema.key(table);
        if words.len() != fields.len() {
            let keys: Vec<_> = fields.iter().map(|k| format!("{} ({})", k.name, describe_key(k))).collect();
            let list = if keys.is_empty() { String::new() } else { format!(" ({})", keys.join(", ")) };
            let (count, found, name) = (fields.len(), words.len(), self.schema.table_name(table));
            let message = format!("Error: Table {name} needs {count} key fields{list}, found {found}");
            let at = if found > count { line.tokens[words.start + count].span() } else { line.after(stop) };
            return Err(LineError::new(message).at(at));
        }
        let (mut key, mut note) = (Vec::with_capacity(fields.len()), None);
        for (field, token) in fields.iter().zip(&line.tokens[words]) {
            let (found, masked) = key_match_masked(field, token.text).map_err(|why| {
                let fault = format_args!("{} ({}): {why}", field.name, describe_key(field));
                LineError::new(invalid_key(fault)).at(token.span())
            })?;
            if masked {
                note = both_notes(note, Some(masked_note(field, token.text, &found)));
            }
            key.push(found);
        }
        Ok((key, note))
    }

    pub(super) fn action_data(
        &self,
        line: &Line<'_, 'a>,
        table: TableId,
        action: Named<'a, u32>,
        words: Range<usize>,
    ) -> Parsed<Action> {
        let params = &self.schema.actions_of(table)[action.id as usize].params;
        if words.len() != params.len() {
            return Err(self.wrong_params(line, table, action, words.len(), words.end));
        }
        let mut data = Vec::with_capacity(params.len());
        for (Param { name, width }, token) in params.iter().zip(&line.tokens[words]) {
            data.push(parse_value(token.text, *width).map_err(|why| {
                let fault = format_args!("{name} (bit<{width}>): {why}");
                LineError::new(invalid_data(fault)).at(token.span())
            })?);
        }
        Ok(Action { action: action.id, data })
    }

    fn wrong_params(
        &self,
        line: &Line<'_, 'a>,
        table: TableId,
        action: Named<'a, u32>,
        found: usize,
        end: usize,
    ) -> LineError {
        let params = &self.schema.actions_of(table)[action.id as usize].params;
        let list: Vec<_> =
            params.iter().map(|Param { name, width }| format!("{name} bit<{width}>")).collect();
        let list = if list.is_empty() { String::new() } else { format!(" ({})", list.join(", ")) };
        let expected = params.len();
        let message =
            format!("Error: Action {} needs {expected} parameters{list}, found {found}", action.typed);
        let at = if found > expected { line.tokens[end - found + expected].span() } else { line.after(end) };
        LineError::new(message).at(at)
    }

    fn counter(&self, line: &Line<'_, 'a>) -> Parsed<Named<'a, InstanceId>> {
        named(self.schema.names(ObjectKind::Counter), line.get(1, "a counter name")?, InstanceId)
    }

    fn counter_cell(&self, line: &Line<'_, 'a>) -> Parsed<(Named<'a, InstanceId>, u32)> {
        let counter = self.counter(line)?;
        let cells = self.schema.counter_cells(counter.id)?;
        let index = self.cell(line.get(2, "an index")?, Subject::Counter, counter.id, cells)?;
        Ok((counter, index))
    }

    /// An index into an array. The index of a direct cell is the handle of an entry.
    pub(super) fn cell(&self, token: Token<'_>, kind: Subject, of: InstanceId, cells: Cells) -> Parsed<u32> {
        if let Cells::Direct(_) = cells {
            return entry_handle(token).map(|handle| handle.0);
        }
        // The check makes the cast exact.
        let index = number(token, "an index", u64::from(u32::MAX))? as u32;
        let checked = self.schema.check_index(kind, of, cells, index);
        checked.map_err(|error| LineError::from(error).at(token.span()))?;
        Ok(index)
    }

    /// The custom CRC with this name and width in bits.
    fn crc_named(&self, token: Token<'a>, width: u32) -> Parsed<u32> {
        let (text, crcs) = (token.text, self.schema.names(ObjectKind::Crc));
        let width_of = |crc: u32| self.schema.crc_width(crc).unwrap_or(0);
        let found = crcs.find(text).ok();
        if let Some(crc) = found.filter(|crc| width_of(*crc) == width) {
            return Ok(crc);
        }
        let choices: Vec<_> =
            crcs.sorted().filter(|crc| width_of(*crc) == width).map(|crc| crcs.name(crc)).collect();
        let why = match found {
            Some(crc) => format!("it is a crc{0}_custom: expected set_crc{0}_parameters", width_of(crc)),
            None if choices.is_empty() => format!("the program has no crc{width}_custom"),
            None => unknown(text, choices.into_iter(), "those of the program are"),
        };
        Err(LineError::new(invalid_name(&format!("crc{width}_custom"), text, &why)).at(token.span()))
    }

    fn crc(&self, line: &Line<'_, 'a>, width: u32) -> Parsed<Command<'a>> {
        let token = line.get(1, "the name of a custom CRC")?;
        let crc = self.crc_named(token, width)?;
        let max = (1u64 << width) - 1;
        let constant = |index: usize, what: &str| number(line.get(index, what)?, what, max);
        let params = CrcParams {
            width,
            poly: constant(2, "a polynomial")?,
            init: constant(3, "an initial remainder")?,
            xor: constant(4, "a final xor value")?,
            reflect_in: flag(line.get(5, "true or false (whether data is reflected)")?)?,
            reflect_out: flag(line.get(6, "true or false (whether the remainder is reflected)")?)?,
        };
        line.ends_after(7)?;
        Ok(Update::SetCrc { crc, params }.into())
    }

    /// The register with its width and size.
    fn register(&self, line: &Line<'_, 'a>) -> Parsed<(Named<'a, InstanceId>, RegisterCells)> {
        let register =
            named(self.schema.names(ObjectKind::Register), line.get(1, "a register name")?, InstanceId)?;
        Ok((register, self.schema.register_cells(register.id)?))
    }
}

/// The span of the word that caused an error.
fn at_field(error: LineError, tokens: &[Token<'_>]) -> LineError {
    let word = match error.field.as_deref() {
        Some("table" | "action profile") => 1,
        Some("action") => 2,
        _ => return error,
    };
    match tokens.get(word) {
        Some(token) => error.at(token.span()),
        None => error,
    }
}

fn delete<'a>(table: Named<'a, TableId>, handle: Ref) -> Command<'a> {
    let update = Update::Delete { table: table.id, entry: EntryRef::Handle(handle) };
    Command::Change(Change { object: table.typed, ..Change::new(update) })
}

pub(super) fn named<'a, T>(
    index: &NameIndex,
    token: Token<'a>,
    id: impl Fn(u32) -> T,
) -> Parsed<Named<'a, T>> {
    match index.find(token.text) {
        Ok(found) => Ok(Named { typed: token.text, id: id(found) }),
        Err(error) => Err(LineError::from(error).at(token.span())),
    }
}

/// The words of the match fields, which begin at `start`, and those after them. `=>` separates them; it may be
/// missing if the line has exactly as many words as both need. `of` names the object, and `takes` the words that follow the keys.
pub(super) fn key_and_rest(
    line: &Line<'_, '_>,
    start: usize,
    (keys, rest): (usize, usize),
    of: &str,
    takes: &str,
) -> Parsed<(Range<usize>, Range<usize>)> {
    let end = line.tokens.len();
    if let Some(arrow) = (start..end).find(|at| line.tokens[*at].text == "=>") {
        return Ok((start..arrow, arrow + 1..end));
    }
    // `ctl table_add t a 9 => 1`: the shell consumed `>` and the word after it.
    let torn = line.tokens.last().is_some_and(|token| token.text == "=");
    if end == start + keys + rest && !torn {
        return Ok((start..start + keys, start + keys..end));
    }
    let hint = if torn { "; in a shell, quote '=>'" } else { "" };
    let (found, usage) = (end.saturating_sub(start), line.usage());
    let follow = if found == 1 { "follows" } else { "follow" };
    let message = format!(
        "Error: {of} takes {}{takes}, but {} {follow}{hint}; usage: {usage}",
        count(keys, "key"),
        count(found, "word"),
    );
    Err(LineError::new(message).at(line.after(end)))
}

/// The words of the parameters, which a `=>` may introduce.
pub(super) fn params_after(line: &Line<'_, '_>, start: usize) -> Range<usize> {
    let skip = line.tokens.get(start).is_some_and(|t| t.text == "=>");
    let start = (start + usize::from(skip)).min(line.tokens.len());
    start..line.tokens.len()
}

pub(super) fn entry_handle(token: Token<'_>) -> Parsed<EntryHandle> {
    // The check makes the cast exact.
    number(token, "an entry handle", u64::from(u32::MAX)).map(|handle| EntryHandle(handle as u32))
}

fn flag(token: Token<'_>) -> Parsed<bool> {
    match token.text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        // As in bmv2, every number except 0 is true.
        text => match parse_int(text) {
            Some(Ok(number)) => Ok(!number.is_zero()),
            _ => {
                let message = format!("Error: found `{}`, expected true or false", token.text);
                Err(LineError::new(message).at(token.span()))
            }
        },
    }
}

fn unknown_command(name: &str) -> LineError {
    if let Some(why) = list::lacking(name) {
        return LineError::unsupported(format!("not supported yet: {name} ({why})"));
    }
    let suggestion = list::suggestion(name);
    LineError::new(format!("*** Unknown syntax: {name}{suggestion} (`help` lists the commands)"))
}
