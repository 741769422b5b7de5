//! Runs the statements of a script.

use super::key::{find_key, key_match, omitted};
use super::mismatch::{Input, Mismatch, MismatchKind, Sent};
use super::report::{Failure, StfOutcome, compare};
use super::script::{Call, CounterCheck, CounterIndex, Match, Name, Pattern, Statement, StatementKind};
use crate::commands::{execute_quietly, write_one};
use crate::error::{LineError, invalid_data, invalid_key};
use p4jet_control::names::{NameIndex, unknown};
use p4jet_control::schema::PRIORITY_MAX;
use p4jet_control::{Act, Control, ControlError, ObjectKind, Update, count, param_names};
use p4jet_dataplane::{Processed, Worker};
use p4jet_ir::{InstanceId, InstanceKind, TableId};
use p4jet_tables::{Action, EntryHandle};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An executor of packets: a worker, or a substitute in tests.
pub trait Device {
    /// Processes one packet and returns its outcome.
    fn process(&mut self, ingress_port: u32, frame: &[u8]) -> Processed;

    /// Advances the time by `us` microseconds, or until the output queues are empty. Returns the outcome of the packets that
    /// left them, with the number of the call of [`Self::process`] from which each originated.
    fn wait(&mut self, _us: Option<u32>) -> Vec<(u64, Processed)> {
        Vec::new()
    }
}

impl Device for Worker {
    fn process(&mut self, ingress_port: u32, frame: &[u8]) -> Processed {
        self.process_one(ingress_port, frame)
    }

    fn wait(&mut self, us: Option<u32>) -> Vec<(u64, Processed)> {
        match us {
            Some(us) => self.run_queues_for(us),
            None => self.run_queues_out(),
        }
    }
}

/// What a script did.
pub(super) struct Played<'a> {
    pub inputs: Vec<Input>,
    pub mismatches: Vec<Mismatch<'a>>,
    /// Without the descriptions of the mismatches.
    pub outcome: StfOutcome,
}

/// Runs a script.
pub(super) fn play<'a>(
    script: &'a [Statement],
    control: &'a Control,
    device: &'a mut impl Device,
) -> Played<'a> {
    let mut runner = Runner {
        control,
        device,
        // The runner for bmv2 passes 10000 - p to the CLI; larger numbers keep their order, too.
        priority_base: script.iter().filter_map(priority).max().unwrap_or(0).clamp(10_000, PRIORITY_MAX),
        labels: HashMap::new(),
        inputs: Vec::new(),
        sent: BTreeMap::new(),
        mismatches: Vec::new(),
        expected: BTreeMap::new(),
        mentioned: BTreeSet::new(),
        outcome: StfOutcome::default(),
    };
    if script.iter().all(|statement| runner.statement(statement)) {
        runner.wait(None);
        runner.compare();
    }
    let Runner { inputs, mismatches, outcome, .. } = runner;
    Played { inputs, mismatches, outcome }
}

fn priority(statement: &Statement) -> Option<u32> {
    match statement.kind {
        StatementKind::Add { priority, .. } => priority,
        _ => None,
    }
}

struct Runner<'a, D> {
    control: &'a Control,
    device: &'a mut D,
    priority_base: u32,
    /// Entries of `add … = label`.
    labels: HashMap<&'a str, (TableId, EntryHandle)>,
    inputs: Vec<Input>,
    /// By port.
    sent: BTreeMap<u32, Vec<Sent>>,
    mismatches: Vec<Mismatch<'a>>,
    /// By port: line and pattern.
    expected: BTreeMap<u32, Vec<(usize, Option<&'a Pattern>)>>,
    /// Ports in statements: an unexpected packet is a failure only on these.
    mentioned: BTreeSet<u32>,
    outcome: StfOutcome,
}

/// The fault of a statement, and its position in the line.
struct Wrong {
    column: Option<usize>,
    message: String,
    /// True if the script can continue: after a failed check it does, after a wrong statement it does not.
    goes_on: bool,
}

impl From<ControlError> for Wrong {
    fn from(error: ControlError) -> Wrong {
        LineError::from(error).into()
    }
}

impl From<LineError> for Wrong {
    fn from(error: LineError) -> Wrong {
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

/// A failed check.
fn check_failed(message: String) -> Wrong {
    Wrong { column: None, message, goes_on: true }
}

impl<'a, D: Device> Runner<'a, D> {
    /// True if the script continues.
    fn statement(&mut self, statement: &'a Statement) -> bool {
        let Err(wrong) = self.perform(statement) else {
            return true;
        };
        let place = wrong.column.map_or(String::new(), |c| format!("column {c}: "));
        let detail = wrong.column.map_or(String::new(), |column| caret(&statement.text, column));
        let failure = Failure { line: statement.line, message: place + &wrong.message, detail };
        self.outcome.failures.push(failure);
        wrong.goes_on
    }

    fn perform(&mut self, statement: &'a Statement) -> Result<(), Wrong> {
        match &statement.kind {
            StatementKind::Add { table, priority, matches, call, label } => {
                let id = self.table(table)?;
                let update = self.entry(id, *priority, table, matches, call)?;
                let handle = self.write(update)?.map(EntryHandle);
                if let (Some(label), Some(handle)) = (label, handle) {
                    self.labels.insert(label, (id, handle));
                }
            }
            StatementKind::SetDefault { table, call } => {
                let id = self.table(table)?;
                let act = Act::Action(self.call(id, call)?);
                self.write(Update::SetDefault { table: id, act })?;
            }
            StatementKind::RemoveAll => {
                let tables: Vec<_> =
                    self.control.schema().names(ObjectKind::Table).sorted().map(TableId).collect();
                for id in tables {
                    if !self.control.program().tables[id.index()].const_entries {
                        self.write(Update::Clear(id))?;
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
            StatementKind::NoPacket => self.no_packet(statement.line),
            StatementKind::Wait { us } => self.wait(*us),
            StatementKind::CheckCounter { counter, index, check } => {
                self.outcome.checks += 1;
                let id = self.find(counter, ObjectKind::Counter).map(InstanceId)?;
                let index = self.counter_index(id, index)?;
                self.check_counter(counter, id, index, check.as_ref())?;
            }
            StatementKind::CheckRegister { register, index, cond, value } => {
                self.outcome.checks += 1;
                let id = self.find(register, ObjectKind::Register).map(InstanceId)?;
                let width = self.control.schema().register_cells(id)?.width;
                let wanted = value.value(width).map_err(at(value.column))?;
                let found = self.control.register_value(id, *index)?;
                if !cond.holds(&found, &wanted) {
                    let (name, cond) = (&register.text, cond.text());
                    return Err(check_failed(format!(
                        "register {name}({index}) is {found} ({found:#x}), expected {cond} {}",
                        value.text()
                    )));
                }
            }
            StatementKind::Command { words } => {
                let printed = self.command(words)?;
                self.outcome.output += &printed;
            }
        }
        Ok(())
    }

    /// Applies an update; returns the handle of the created object.
    fn write(&self, update: Update) -> Result<Option<u32>, LineError> {
        write_one(self.control, update)
    }

    /// Refuses a port that the program cannot distinguish from another.
    fn check_port(&self, port: u32) -> Result<(), String> {
        let max = self.control.program().port_max();
        if port <= max {
            return Ok(());
        }
        Err(format!("found port {port}, expected one that the program can distinguish: 0 to {max}"))
    }

    fn find(&self, name: &Name, kind: ObjectKind) -> Result<u32, Wrong> {
        find(self.control.schema().names(kind), name)
    }

    fn table(&self, name: &Name) -> Result<TableId, Wrong> {
        self.find(name, ObjectKind::Table).map(TableId)
    }

    fn entry(
        &self,
        id: TableId,
        priority: Option<u32>,
        name: &Name,
        matches: &'a [Match],
        call: &'a Call,
    ) -> Result<Update, Wrong> {
        let table = &self.control.program().tables[id.index()];
        let mut key: Vec<_> = table.keys.iter().map(|_| None).collect();
        for m in matches {
            let index = find_key(&table.keys, m).map_err(at(m.field.column))?;
            let field = &table.keys[index];
            let value = key_match(field, &m.value).map_err(|why| {
                let (name, kind, width) = (&field.name, field.kind.name(), field.width);
                at(m.field.column)(invalid_key(format_args!("{name} ({kind}, bit<{width}>): {why}")))
            })?;
            if key[index].replace(value).is_some() {
                return Err(at(m.field.column)(invalid_key(format_args!("{} is given twice", field.name))));
            }
        }
        let key = key.into_iter().zip(&table.keys).map(|(m, k)| m.unwrap_or_else(|| omitted(k))).collect();
        let priority = match (self.control.schema().shape(id).needs_priority, priority) {
            (true, Some(p)) if p <= PRIORITY_MAX => self.priority_base - p,
            (true, Some(p)) => {
                return Err(at(name.column)(format!("found priority {p}, expected 0 to {PRIORITY_MAX}")));
            }
            (true, None) => {
                let message = format!(
                    "table {} has ternary, range or optional keys: expected a priority (the larger number wins) after its name",
                    table.name
                );
                return Err(at(name.column)(message));
            }
            (false, _) => 0,
        };
        let act = Act::Action(self.call(id, call)?);
        Ok(Update::Insert { table: id, key, priority, act })
    }

    fn call(&self, id: TableId, call: &Call) -> Result<Action, Wrong> {
        let program = self.control.program();
        let table = &program.tables[id.index()];
        let action = find(self.control.schema().names(ObjectKind::ActionOf(id)), &call.action)?;
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
                at(number.column)(invalid_data(format_args!("{} (bit<{width}>): {why}", names[index])))
            })?;
            if data[index].replace(value).is_some() {
                return Err(at(column)(invalid_data(format_args!("{} is given twice", names[index]))));
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
        let input = self.inputs.len();
        for (output, (port, frame)) in processed.sent.iter().enumerate() {
            self.sent.entry(*port).or_default().push(Sent { input, output, frame: frame.clone() });
        }
        self.inputs.push(Input { line, port, processed });
    }

    /// Advances the time; without `us` until the output queues are empty.
    fn wait(&mut self, us: Option<u32>) {
        for (input, later) in self.device.wait(us) {
            let input = input as usize;
            let Some(Input { processed, .. }) = self.inputs.get_mut(input) else { continue };
            for (port, frame) in &later.sent {
                let output = processed.sent.len();
                self.sent.entry(*port).or_default().push(Sent { input, output, frame: frame.clone() });
                processed.sent.push((*port, frame.clone()));
            }
            processed.dropped.extend(later.dropped);
        }
    }

    /// The first packet of each port that left although no `expect` so far matches it.
    fn no_packet(&mut self, line: usize) {
        self.outcome.checks += 1;
        for (port, sent) in &self.sent {
            let index = self.expected.get(port).map_or(0, Vec::len);
            if let Some(extra) = sent.get(index) {
                let kind = MismatchKind::Unwanted(extra.clone());
                self.mismatches.push(Mismatch { line, port: *port, index, kind });
                return;
            }
        }
    }

    /// Runs a runtime command; returns its output if it is a reading command.
    fn command(&mut self, words: &[Name]) -> Result<String, Wrong> {
        let (mut line, mut starts) = (String::new(), Vec::new());
        for word in words {
            starts.push(line.len());
            line = line + &word.text + " ";
        }
        execute_quietly(self.control, line.trim_end()).map_err(|error| {
            let Some(span) = error.span else { return error.into() };
            // An argument missing at the end has no position.
            let word = starts.iter().rposition(|start| *start <= span.start).filter(|_| !span.is_empty());
            Wrong { column: word.map(|i| words[i].column), message: error.message, goes_on: false }
        })
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

    /// Compares the packets that left with the expected ones.
    fn compare(&mut self) {
        let mut mismatches = Vec::new();
        for port in &self.mentioned {
            let sent = self.sent.get(port).map_or(&[][..], Vec::as_slice);
            let expected = self.expected.get(port).map_or(&[][..], Vec::as_slice);
            for index in 0..sent.len().max(expected.len()) {
                let (line, kind) = match (expected.get(index), sent.get(index)) {
                    (Some((line, pattern)), Some(sent)) => match pattern {
                        Some(pattern) if compare(pattern, &sent.frame).is_some() => {
                            let other = self.expected_elsewhere(*port, index, &sent.frame);
                            (*line, MismatchKind::Differs(pattern, sent.clone(), other))
                        }
                        _ => continue,
                    },
                    (Some((line, pattern)), None) => (*line, self.missing(*line, *pattern)),
                    (None, Some(sent)) => (self.inputs[sent.input].line, MismatchKind::Extra(sent.clone())),
                    (None, None) => continue,
                };
                mismatches.push(Mismatch { line, port: *port, index, kind });
            }
        }
        self.mismatches.extend(mismatches);
        self.mismatches.sort_by_key(|mismatch| mismatch.line);
    }

    /// The line that expects this frame on the port, if another frame left in its stead.
    fn expected_elsewhere(&self, port: u32, index: usize, frame: &[u8]) -> Option<usize> {
        let sent = self.sent.get(&port)?;
        let others = self.expected.get(&port)?.iter().zip(sent).enumerate().filter(|(i, _)| *i != index);
        let mut unmet = others.filter_map(|(_, ((line, pattern), sent))| {
            let pattern = pattern.filter(|p| compare(p, &sent.frame).is_some())?;
            compare(pattern, frame).is_none().then_some(*line)
        });
        unmet.next()
    }

    fn missing(&self, line: usize, pattern: Option<&'a Pattern>) -> MismatchKind<'a> {
        // The packets that left by a port without expectations for them.
        let idle = self.sent.iter().flat_map(|(port, sent)| {
            let expected = self.expected.get(port).map_or(0, Vec::len);
            sent.iter().skip(expected).map(|sent| (*port, sent))
        });
        let idle: Vec<(u32, &Sent)> = idle.collect();
        // Scripts expect a packet after they send it.
        let input = self.inputs.iter().rposition(|i| i.line < line);
        let fits = |sent: &Sent| pattern.is_some_and(|p| compare(p, &sent.frame).is_none());
        let instead = idle
            .iter()
            .find(|(_, sent)| fits(sent))
            .or_else(|| idle.iter().find(|(_, sent)| pattern.is_some() && Some(sent.input) == input));
        let instead = instead.map(|(port, sent)| (*port, (*sent).clone()));
        MismatchKind::Missing { pattern, instead, input }
    }
}

/// A line with a mark under a column.
fn caret(text: &str, column: usize) -> String {
    // A tab in the line is repeated before the mark, so that the two stay aligned.
    let blank: String = text.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    format!("  | {text}\n  | {blank}^\n")
}

/// An object by name: by dotted suffix, otherwise the only one whose name ends with the text.
fn find(index: &NameIndex, name: &Name) -> Result<u32, Wrong> {
    index.find(&name.text).or_else(|error| {
        let mut ends = index
            .names()
            .zip(index.sorted())
            .filter(|(n, _)| n.ends_with(&name.text) && !name.text.is_empty());
        match (ends.next(), ends.next()) {
            (Some((_, id)), None) => Ok(id),
            _ => Err(at(name.column)(LineError::from(error).message)),
        }
    })
}
