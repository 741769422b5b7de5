//! Carries a script out.

use super::key::{find_key, key_match, omitted};
use super::replay::{Fresh, replay};
use super::report::{Failure, StfOutcome, compare, hex};
use super::{Call, CounterCheck, CounterIndex, Match, Name, Pattern, Statement, StatementKind};
use crate::Control;
use crate::commands::{Command, Named, check_default_action, check_entries_open, check_entry_action};
use crate::error::{CommandError, count};
use crate::names::{NameIndex, unknown};
use crate::program::param_names;
use p4jet_dataplane::{Processed, Worker};
use p4jet_ir::{InstanceId, InstanceKind, TableId};
use p4jet_tables::{Action, Entry, EntryHandle};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What carries packets through: a worker, or a stand-in.
pub trait Device {
    /// One packet in, what became of it out.
    fn process(&mut self, ingress_port: u32, frame: &[u8]) -> Processed;
}

impl Device for Worker {
    fn process(&mut self, ingress_port: u32, frame: &[u8]) -> Processed {
        self.process_one(ingress_port, frame)
    }
}

/// Most traces in one outcome: they are long.
const TRACES_MAX: usize = 2;

/// Most bytes of an unexpected packet in a one-line message.
const MESSAGE_BYTES_MAX: usize = 32;

/// Carries a script out. Statements take effect in order; the packets that left are compared with those expected, port
/// by port, at the end. A statement that fails (an unknown table) ends it.
pub fn run(script: &[Statement], control: &mut Control, worker: &mut impl Device) -> StfOutcome {
    run_with(script, control, worker, None)
}

/// [`run`]; failures come with the trace of the packet. For that the script is carried out once more, on a switch that
/// `fresh` makes; if nothing fails that costs nothing.
pub fn run_traced(
    script: &[Statement],
    control: &mut Control,
    worker: &mut impl Device,
    fresh: Fresh<'_>,
) -> StfOutcome {
    run_with(script, control, worker, Some(fresh))
}

fn run_with(
    script: &[Statement],
    control: &mut Control,
    worker: &mut impl Device,
    fresh: Option<Fresh<'_>>,
) -> StfOutcome {
    let mut runner = Runner {
        control,
        device: worker,
        // The runner for bmv2 hands 10000 - p to the CLI; larger numbers than that keep their order, too.
        priority_base: script.iter().filter_map(priority).max().unwrap_or(0).max(10_000),
        labels: HashMap::new(),
        inputs: Vec::new(),
        sent: BTreeMap::new(),
        expected: BTreeMap::new(),
        mentioned: BTreeSet::new(),
        outcome: StfOutcome::default(),
    };
    for statement in script {
        if !runner.statement(statement) {
            return runner.outcome;
        }
    }
    let mut failures = runner.compare();
    if let Some(fresh) = fresh {
        runner.trace(&mut failures, script, fresh);
    }
    let mut outcome = runner.outcome;
    outcome.failures.extend(failures.into_iter().map(|(failure, _)| failure));
    outcome.failures.sort_by_key(|failure| failure.line);
    outcome
}

fn priority(statement: &Statement) -> Option<u32> {
    match statement.kind {
        StatementKind::Add { priority, .. } => priority,
        _ => None,
    }
}

struct Runner<'a, D> {
    control: &'a mut Control,
    device: &'a mut D,
    priority_base: u32,
    /// Entries that `add … = label` made.
    labels: HashMap<&'a str, (TableId, EntryHandle)>,
    inputs: Vec<Input>,
    /// By port.
    sent: BTreeMap<u32, Vec<Sent>>,
    /// By port: line and pattern.
    expected: BTreeMap<u32, Vec<(usize, Option<&'a Pattern>)>>,
    /// Ports that some statement names: only on these an unexpected packet is a failure.
    mentioned: BTreeSet<u32>,
    outcome: StfOutcome,
}

/// A packet of the script.
struct Input {
    line: usize,
    /// What became of it, for messages.
    fate: String,
}

/// A packet that left.
struct Sent {
    /// Index of the packet it came from.
    input: usize,
    frame: Vec<u8>,
}

/// What is wrong with a statement, and where in its line.
struct Wrong {
    column: Option<usize>,
    message: String,
    /// Whether the script can go on: a check that fails does not stop it, a statement that is wrong does.
    goes_on: bool,
}

impl From<CommandError> for Wrong {
    fn from(error: CommandError) -> Wrong {
        Wrong { column: None, message: error.message, goes_on: false }
    }
}

impl From<String> for Wrong {
    fn from(message: String) -> Wrong {
        Wrong { column: None, message, goes_on: false }
    }
}

fn at(column: usize) -> impl Fn(String) -> Wrong {
    move |message| Wrong { column: Some(column), message, goes_on: false }
}

/// A check that does not hold.
fn check_failed(message: String) -> Wrong {
    Wrong { column: None, message, goes_on: true }
}

impl<'a, D: Device> Runner<'a, D> {
    /// Whether the script goes on.
    fn statement(&mut self, statement: &'a Statement) -> bool {
        let Err(wrong) = self.perform(statement) else {
            return true;
        };
        let place = wrong.column.map_or(String::new(), |c| format!("column {c}: "));
        let failure =
            Failure { line: statement.line, message: place + &wrong.message, detail: String::new() };
        self.outcome.failures.push(failure);
        wrong.goes_on
    }

    fn perform(&mut self, statement: &'a Statement) -> Result<(), Wrong> {
        match &statement.kind {
            StatementKind::Add { table, priority, matches, call, label } => {
                let id = self.table(table)?;
                let entry = self.entry(id, *priority, table, matches, call)?;
                let named = Named { typed: table.text.as_str(), id };
                let command = Command::TableAdd { table: named, action: &call.action.text, entry };
                let handle = self.control.perform(command)?.handle;
                if let (Some(label), Some(handle)) = (label, handle) {
                    self.labels.insert(label, (id, handle));
                }
            }
            StatementKind::SetDefault { table, call } => {
                let id = self.table(table)?;
                let action = self.call(id, call)?;
                let typed = Named { typed: call.action.text.as_str(), id: action.action };
                check_default_action(&self.control.program().tables[id.index()], typed)?;
                let named = Named { typed: table.text.as_str(), id };
                let command =
                    Command::TableSetDefault { table: named, action: &call.action.text, call: action };
                self.control.perform(command)?;
            }
            StatementKind::RemoveAll => {
                let tables: Vec<_> = self.control.names().tables.sorted().map(TableId).collect();
                for id in tables {
                    if !self.control.program().tables[id.index()].const_entries {
                        self.control.perform(Command::TableClear(id))?;
                    }
                }
                self.labels.clear();
            }
            StatementKind::Packet { port, column, data } => {
                self.check_port(*port).map_err(at(*column))?;
                self.packet(statement.line, *port, data);
            }
            StatementKind::Expect { port, column, pattern } => {
                self.check_port(*port).map_err(at(*column))?;
                self.outcome.checks += 1;
                self.mentioned.insert(*port);
                self.expected.entry(*port).or_default().push((statement.line, pattern.as_ref()));
            }
            StatementKind::NoPacket => self.no_packet()?,
            StatementKind::Wait => {}
            StatementKind::CheckCounter { counter, index, check } => {
                self.outcome.checks += 1;
                let id = self.find(counter, |names| &names.counters).map(InstanceId)?;
                let index = self.counter_index(id, index)?;
                self.check_counter(counter, id, index, check.as_ref())?;
            }
            StatementKind::CounterRead { counter, index, check } => {
                let id = self.find(counter, |names| &names.counters).map(InstanceId)?;
                let check = check.map(|(cond, value)| CounterCheck { bytes: false, cond, value });
                self.outcome.checks += usize::from(check.is_some());
                let named = Named { typed: counter.text.as_str(), id };
                self.outcome.output +=
                    &self.control.answer(Command::CounterRead { counter: named, index: *index })?;
                self.check_counter(counter, id, *index, check.as_ref())?;
            }
            StatementKind::CounterWrite { counter, index, packets, bytes } => {
                let id = self.find(counter, |names| &names.counters).map(InstanceId)?;
                let counter = Named { typed: counter.text.as_str(), id };
                let command =
                    Command::CounterWrite { counter, index: *index, packets: *packets, bytes: *bytes };
                self.control.perform(command)?;
            }
            StatementKind::RegisterRead { register, index, check } => {
                let id = self.find(register, |names| &names.registers).map(InstanceId)?;
                let named = Named { typed: register.text.as_str(), id };
                let command = Command::RegisterRead { register: named, index: Some(*index) };
                self.outcome.output += &self.control.answer(command)?;
                if let Some((cond, wanted)) = check {
                    self.outcome.checks += 1;
                    let found = self.control.register_value(id, *index)?;
                    if !cond.holds(&found, &(*wanted).into()) {
                        let name = &register.text;
                        let message =
                            format!("{name}[{index}] is {found}, expected {} {wanted}", cond.text());
                        return Err(check_failed(message));
                    }
                }
            }
            StatementKind::RegisterWrite { register, index, value } => {
                let id = self.find(register, |names| &names.registers).map(InstanceId)?;
                let InstanceKind::Register { width, .. } = self.control.program().instances[id.index()].kind
                else {
                    unreachable!("the index of registers holds registers");
                };
                let value = value.value(width).map_err(at(value.column))?;
                let register = Named { typed: register.text.as_str(), id };
                self.control.perform(Command::RegisterWrite { register, index: *index, value })?;
            }
            StatementKind::RegisterReset { register } => {
                let id = self.find(register, |names| &names.registers).map(InstanceId)?;
                self.control.perform(Command::RegisterReset(id))?;
            }
            StatementKind::Unsupported { command } => {
                let why = crate::commands::later(command).unwrap_or("it comes later");
                return Err(format!("not supported yet: {command} ({why})").into());
            }
        }
        Ok(())
    }

    /// Refuses a port that the program would take for another.
    fn check_port(&self, port: u32) -> Result<(), String> {
        let max = self.control.switch().port_max();
        if port <= max {
            return Ok(());
        }
        Err(format!("found port {port}, expected one that the program can tell from others: 0 to {max}"))
    }

    fn find(&self, name: &Name, index: impl Fn(&crate::program::Names) -> &NameIndex) -> Result<u32, Wrong> {
        find(index(self.control.names()), name)
    }

    fn table(&self, name: &Name) -> Result<TableId, Wrong> {
        self.find(name, |names| &names.tables).map(TableId)
    }

    fn entry(
        &self,
        id: TableId,
        priority: Option<u32>,
        name: &Name,
        matches: &'a [Match],
        call: &'a Call,
    ) -> Result<Entry, Wrong> {
        let table = &self.control.program().tables[id.index()];
        check_entries_open(table)?;
        let mut key: Vec<_> = table.keys.iter().map(|_| None).collect();
        for m in matches {
            let index = find_key(&table.keys, m).map_err(at(m.field.column))?;
            let field = &table.keys[index];
            let value = key_match(field, &m.value).map_err(|why| {
                let message = format!(
                    "Invalid match key: field {} ({}, bit<{}>): {why}",
                    field.name,
                    field.kind.name(),
                    field.width
                );
                at(m.field.column)(message)
            })?;
            if key[index].replace(value).is_some() {
                return Err(at(m.field.column)(format!(
                    "Invalid match key: field {} is given twice",
                    field.name
                )));
            }
        }
        let key = key.into_iter().zip(&table.keys).map(|(m, k)| m.unwrap_or_else(|| omitted(k))).collect();
        let priority = match (self.control.names().shapes[id.index()].needs_priority, priority) {
            (true, Some(p)) => self.priority_base - p,
            (true, None) => {
                let message = format!(
                    "table {} has ternary, range or optional keys: expected a priority (the larger number wins) after its name",
                    table.name
                );
                return Err(at(name.column)(message));
            }
            (false, _) => 0,
        };
        let action = self.call(id, call)?;
        check_entry_action(table, Named { typed: call.action.text.as_str(), id: action.action })?;
        Ok(Entry { key, priority, action })
    }

    fn call(&self, id: TableId, call: &Call) -> Result<Action, Wrong> {
        let program = self.control.program();
        let table = &program.tables[id.index()];
        let action = find(&self.control.names().shapes[id.index()].actions, &call.action)?;
        let declared = table.actions[action as usize].action;
        let params = &program.actions[declared.index()].params;
        let names = param_names(program, declared);
        let mut data: Vec<_> = params.iter().map(|_| None).collect();
        for (place, (name, number)) in call.args.iter().enumerate() {
            let column = name.as_ref().map_or(number.column, |n| n.column);
            let index = match name {
                Some(name) => names.iter().position(|n| *n == name.text),
                None => (place < params.len()).then_some(place),
            };
            let Some(index) = index else {
                let text = name.as_ref().map_or("", |n| n.text.as_str());
                let action = &call.action.text;
                let message = match (name, params.len()) {
                    (_, 0) => format!("Action {action} needs 0 parameters, found {}", call.args.len()),
                    (None, params) => {
                        let params = count(params, "parameter");
                        format!("Action {action} needs {params}, found {}", call.args.len())
                    }
                    (Some(_), _) => {
                        let choices = unknown(text, names.iter().copied(), "its parameters are");
                        format!("Action {action} has no parameter {text}: {choices}")
                    }
                };
                return Err(at(column)(message));
            };
            let width = program.width(params[index]);
            let value = number.value(width).map_err(|why| {
                at(number.column)(format!(
                    "Invalid runtime data: parameter {} (bit<{width}>): {why}",
                    names[index]
                ))
            })?;
            if data[index].replace(value).is_some() {
                return Err(at(column)(format!(
                    "Invalid runtime data: parameter {} is given twice",
                    names[index]
                )));
            }
        }
        if let Some(missing) = data.iter().position(Option::is_none) {
            let message = format!("Action {} needs the parameter {}", call.action.text, names[missing]);
            return Err(at(call.action.column)(message));
        }
        Ok(Action { action, data: data.into_iter().flatten().collect() })
    }

    fn packet(&mut self, line: usize, port: u32, frame: &[u8]) {
        self.mentioned.insert(port);
        self.outcome.packets += 1;
        let processed = self.device.process(port, frame);
        let fate = fate(&processed);
        let input = self.inputs.len();
        for (port, frame) in processed.sent {
            self.sent.entry(port).or_default().push(Sent { input, frame });
        }
        self.inputs.push(Input { line, fate });
    }

    fn no_packet(&mut self) -> Result<(), Wrong> {
        self.outcome.checks += 1;
        for (port, sent) in &self.sent {
            let expected = self.expected.get(port).map_or(0, Vec::len);
            if let Some(extra) = sent.get(expected) {
                let message = format!("expected no packet, but {}", self.unexpected(*port, expected, extra));
                return Err(check_failed(message));
            }
        }
        Ok(())
    }

    fn unexpected(&self, port: u32, index: usize, sent: &Sent) -> String {
        let shown = &sent.frame[..sent.frame.len().min(MESSAGE_BYTES_MAX)];
        let dots = if shown.len() < sent.frame.len() { "..." } else { "" };
        let line = self.inputs[sent.input].line;
        format!(
            "port {port}, packet {}: {}{dots} came (from the packet of line {line})",
            index + 1,
            hex(shown)
        )
    }

    fn counter_index(&self, id: InstanceId, index: &CounterIndex) -> Result<u32, Wrong> {
        let label = match index {
            CounterIndex::Number(index) => return Ok(*index),
            CounterIndex::Label(label) => label,
        };
        let Some((table, handle)) = self.labels.get(label.as_str()) else {
            let choices = match self.labels.len() {
                0 => "no entry has a label".to_string(),
                _ => unknown(label, self.labels.keys().copied(), "labels are"),
            };
            return Err(format!("unknown label {label}: {choices}").into());
        };
        let instance = &self.control.program().instances[id.index()];
        match instance.kind {
            InstanceKind::DirectCounter { table: counted, .. } if counted != *table => {
                let tables = &self.control.program().tables;
                let (counted, table) = (&tables[counted.index()].name, &tables[table.index()].name);
                Err(format!(
                    "{} counts the entries of {counted}, but {label} is an entry of {table}",
                    instance.name
                )
                .into())
            }
            _ => Ok(handle.0),
        }
    }

    fn check_counter(
        &self,
        name: &Name,
        id: InstanceId,
        index: u32,
        check: Option<&CounterCheck>,
    ) -> Result<(), Wrong> {
        let count = self.control.counter_value(id, index)?;
        let Some(check) = check else {
            return Ok(());
        };
        let (found, unit) = if check.bytes { (count.bytes, "byte") } else { (count.packets, "packet") };
        if check.cond.holds(&u128::from(found), &check.value) {
            return Ok(());
        }
        let (name, cond, value) = (&name.text, check.cond.text(), check.value);
        let s = if found == 1 { "" } else { "s" };
        Err(check_failed(format!("counter {name}({index}) has {found} {unit}{s}, expected {cond} {value}")))
    }

    /// Compares what left with what was expected: the failures in the order of their lines, each with the index of the
    /// packet that it is about.
    fn compare(&self) -> Vec<(Failure, Option<usize>)> {
        let mut failures = Vec::new();
        for port in &self.mentioned {
            let sent = self.sent.get(port).map_or(&[][..], Vec::as_slice);
            let expected = self.expected.get(port).map_or(&[][..], Vec::as_slice);
            for index in 0..sent.len().max(expected.len()) {
                let failure = match (expected.get(index), sent.get(index)) {
                    (Some((line, pattern)), Some(sent)) => {
                        pattern.and_then(|p| compare(p, &sent.frame)).map(|(message, detail)| {
                            let message = format!("port {port}, packet {}: {message}", index + 1);
                            (Failure { line: *line, message, detail }, Some(sent.input))
                        })
                    }
                    (Some((line, _)), None) => {
                        // Scripts expect a packet after they send it.
                        let input = self.inputs.iter().rposition(|i| i.line < *line);
                        let fate = input.map(|i| &self.inputs[i]);
                        let fate = fate.map_or(String::new(), |i| {
                            format!(" (the packet of line {} {})", i.line, i.fate)
                        });
                        let message =
                            format!("port {port}, packet {}: expected a packet, none came{fate}", index + 1);
                        Some((Failure { line: *line, message, detail: String::new() }, input))
                    }
                    (None, Some(sent)) => {
                        let message =
                            format!("expected no more packets, but {}", self.unexpected(*port, index, sent));
                        let detail = format!("  got      {}\n", hex(&sent.frame));
                        let line = self.inputs[sent.input].line;
                        Some((Failure { line, message, detail }, Some(sent.input)))
                    }
                    (None, None) => None,
                };
                failures.extend(failure);
            }
        }
        failures.sort_by_key(|(failure, _)| failure.line);
        failures
    }

    /// Adds the traces of the first packets that failed.
    fn trace(&self, failures: &mut [(Failure, Option<usize>)], script: &[Statement], fresh: Fresh<'_>) {
        // By failure; a packet that several are about is traced once.
        let mut wanted: Vec<(&mut Failure, usize)> = Vec::new();
        for (failure, input) in failures {
            if let Some(input) = *input
                && wanted.len() < TRACES_MAX
                && wanted.iter().all(|(_, other)| *other != input)
            {
                wanted.push((failure, input));
            }
        }
        if wanted.is_empty() {
            return;
        }
        let inputs: Vec<usize> = wanted.iter().map(|(_, input)| *input).collect();
        let replayed = match replay(script, &inputs, fresh) {
            Ok(replayed) => replayed,
            Err(why) => {
                wanted[0].0.detail += &format!("  no trace: {why}\n");
                return;
            }
        };
        for (failure, input) in wanted {
            let Some(replayed) = replayed.get(&input) else { continue };
            failure.detail += &replayed.trace;
            let again = fate(&replayed.processed);
            let left: Vec<_> = replayed.processed.sent.iter().map(|(p, f)| (*p, f.as_slice())).collect();
            let before = &self.inputs[input].fate;
            if again != *before || left != self.left(input) {
                failure.detail += &format!(
                    "  note: the trace is of the interpreter, where the packet {again}; in the test it {before}{}\n",
                    if again == *before { ", with other bytes" } else { "" }
                );
            }
        }
    }

    /// What left of a packet.
    fn left(&self, input: usize) -> Vec<(u32, &[u8])> {
        let all = self.sent.iter().flat_map(|(port, sent)| sent.iter().map(|s| (*port, s)));
        all.filter(|(_, s)| s.input == input).map(|(port, s)| (port, s.frame.as_slice())).collect()
    }
}

/// What became of a packet, for messages.
fn fate(processed: &Processed) -> String {
    let left = match processed.sent.as_slice() {
        [] => None,
        [(port, _)] => Some(format!("left by port {port}")),
        sent => {
            let ports: Vec<_> = sent.iter().map(|(port, _)| port.to_string()).collect();
            Some(format!("left by ports {}", ports.join(", ")))
        }
    };
    let dropped = match processed.dropped.as_slice() {
        [] => None,
        reasons => Some(format!("was dropped: {}", reasons.join("; "))),
    };
    match (left, dropped) {
        (None, None) => "went nowhere".to_string(),
        (Some(fate), None) | (None, Some(fate)) => fate,
        (Some(left), Some(dropped)) => format!("{left}; a copy {dropped}"),
    }
}

/// An object by its name: by dotted suffix, or else the only one whose name ends in the text.
fn find(index: &NameIndex, name: &Name) -> Result<u32, Wrong> {
    index.find(&name.text).or_else(|message| {
        let mut ends = index
            .names()
            .zip(index.sorted())
            .filter(|(n, _)| n.ends_with(&name.text) && !name.text.is_empty());
        match (ends.next(), ends.next()) {
            (Some((_, id)), None) => Ok(id),
            _ => Err(at(name.column)(message)),
        }
    })
}
