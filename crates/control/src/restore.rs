//! Restores the configuration from a dump, or from a state file and its journal.
//!
//! Tables and action profiles have a shape, by which entries that do not fit another program are recognised.

use crate::call::Call;
use crate::control::Control;
use crate::error::{ControlError, Result, count};
use crate::guard::{claim_for_lines, guarded};
use crate::made::Made;
use crate::named::{NamedUpdate, Names, resolve_rates};
use crate::queues::{check_port, check_weight, limit};
use crate::record::{
    Cells, Did, Group, GroupNode, Groups, JournalHeader, Member, NoteRecord, PortRecord, QueueRecord, Record,
    Register, Shape, TableDefault, TableEntry, VERSION, VERSION_SEALED, ValueSet,
};
use crate::schema::{ObjectKind, check_group, check_rates, multicast_port_max};
use crate::sealed::{FileSum, Seal, open};
use crate::update::{Act, Share, Update};
use crate::value::parse_value;
use crate::write::{Undo, UndoOther, check_node_handle};
use p4jet_dataplane::{PortSettings, QUEUES_MAX, QueueConfig, QueueSettings, Rate};
use p4jet_externs::{CounterValue, Multicast, Node};
use p4jet_ir::TableId;
use p4jet_tables::EntryHandle;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io::{self, BufRead};
use std::sync::atomic::Ordering;

/// Maximum number of records that do not fit and are reported one by one.
const REPORTED_MAX: usize = 20;
/// Number of generations that new handles skip after damage: a slot may have been reused so often since the latest known
/// handle.
const LOST_GENERATIONS: u8 = 64;
/// The highest generation below which no slot of a table gives handles after damage. A slot that has passed 255 starts there
/// again.
const GENERATION_MIN_MAX: u8 = 192;
/// The start of a state file.
const START: &[u8] = b"{\"state\":{";

impl PortRecord {
    fn settings(&self) -> PortSettings {
        let mut port = PortSettings { rate: limit(self.rate.map(Rate::from)), ..PortSettings::default() };
        for (to, from) in port.queues.iter_mut().zip(&self.queues) {
            let rate = limit(from.rate.map(Rate::from));
            *to = QueueSettings { depth: from.depth, rate, weight: from.weight };
        }
        port
    }
}

impl Control {
    /// Replaces the whole configuration: all of it or nothing.
    pub(crate) fn restore(&self, text: &str) -> Result<()> {
        self.count_change_of_others();
        let _memory = claim_for_lines(text, self.entries())?;
        let mut log = Vec::new();
        let mut restoring = Restoring { log: Some(&mut log), ..Restoring::new(self, no_command) };
        let done = guarded(|| {
            let given = restoring.next_generations();
            restoring.begin()?;
            restoring.retire_handles(given);
            restoring.read(text.as_bytes()).map_err(unreadable)?;
            let lost = restoring.report();
            match lost.is_empty() {
                true => Ok(()),
                false => {
                    let lost = lost.join("; ");
                    Err(ControlError::new(format!("the state does not fit: {lost}")))
                }
            }
        });
        if done.is_ok() {
            self.configure_queues(restoring.queues.take());
        }
        let done = done.map_err(|error| self.without(log, error));
        // Whoever sees a packet that the restored state processed sees the new number, too.
        self.notes.restores.fetch_add(1, Ordering::Relaxed);
        self.publish();
        done
    }

    fn configure_queues(&self, queues: Option<QueueConfig>) {
        self.switch.queues().configure(|config| *config = queues.unwrap_or_default());
    }
}

/// Dumps contain no runtime commands.
fn no_command(_: &Control, _: &str) -> Result<Option<Update>> {
    Err(ControlError::new("this line belongs in another file"))
}

fn unreadable(error: io::Error) -> ControlError {
    ControlError::new(error.to_string())
}

/// Parses a runtime command from the journal of an earlier version. Returns its update, if it has one.
pub type ReadCommand = fn(&Control, &str) -> Result<Option<Update>>;

/// Applies records, and collects those that do not fit.
pub(crate) struct Restoring<'c, 'l> {
    control: &'c Control,
    read_command: ReadCommand,
    /// True if everything is undone when a record does not fit.
    log: Option<&'l mut Vec<Undo>>,
    lost: Vec<String>,
    /// The number of further lost records, by object.
    more: BTreeMap<String, usize>,
    /// Tables and profiles whose entries are ignored because their shape differs.
    other_tables: HashSet<String>,
    /// Actions with other parameters, by table.
    other_actions: HashSet<(String, String)>,
    queues: Option<QueueConfig>,
    /// True if a file is damaged.
    damaged: bool,
    /// True if the lost part may have given handles.
    handles_lost: bool,
    /// Number of applied records and changes.
    pub(crate) in_effect: [u64; 2],
}

/// The properties of a state file.
#[derive(Default)]
pub(crate) struct StateFile {
    /// The program, unless that line is damaged.
    pub program: Option<String>,
    /// Its serial number; dumps have none.
    pub serial: Option<u64>,
    /// True if its lines carry checksums.
    pub sealed: bool,
}

fn other_version(version: u32) -> String {
    format!(
        "its format has version {version}; this p4jet reads version {VERSION}, and version {VERSION_SEALED} with checksums"
    )
}

impl<'c> Restoring<'c, '_> {
    pub(crate) fn new(control: &'c Control, read_command: ReadCommand) -> Restoring<'c, 'static> {
        Restoring {
            control,
            read_command,
            log: None,
            lost: Vec::new(),
            more: BTreeMap::new(),
            other_tables: HashSet::new(),
            other_actions: HashSet::new(),
            queues: None,
            damaged: false,
            handles_lost: false,
            in_effect: [0, 0],
        }
    }

    /// Resets the switch.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let control = self.control;
        self.apply(Update::Reset, None)?;
        for crc in control.schema.names(ObjectKind::Crc).sorted() {
            let usual = control.usual_crc(crc);
            if control
                .switch
                .state()
                .crc(control.schema.names(ObjectKind::Crc).name(crc))
                .is_some_and(|now| now != usual)
            {
                self.apply(Update::SetCrc { crc, params: usual }, None)?;
            }
        }
        Ok(())
    }

    /// Applies an update; the created object gets its former handle.
    fn apply(&mut self, update: Update, handle: Option<u32>) -> Result<()> {
        self.control.apply(update, handle, &Made::default(), self.log.as_deref_mut()).map(drop)
    }

    /// Like [`Self::apply`], if the program allows the update.
    fn write(&mut self, update: Update, handle: Option<u32>) -> Result<()> {
        self.control.check(&update)?;
        self.apply(update, handle)
    }

    /// The generations of the next handles in each table, by slot.
    fn next_generations(&self) -> Vec<(TableId, Vec<(u32, u8)>)> {
        let tables = (0..self.control.program().tables.len() as u32).map(TableId);
        tables.map(|id| (id, self.control.switch.table(id).next_generations().collect())).collect()
    }

    /// Keeps handles that were given before [`Self::begin`] from being given again.
    fn retire_handles(&self, given: Vec<(TableId, Vec<(u32, u8)>)>) {
        for (id, generations) in given {
            let mut table = self.control.switch.table(id);
            generations.into_iter().for_each(|(slot, next)| table.retire_generations(slot, next));
        }
    }

    /// Applies the queues that were set. Returns the lost records, one per line.
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.configure_queues_of_snapshot();
        if self.handles_lost {
            self.leave_out_handles();
        }
        self.control.publish();
        self.report()
    }

    /// Applies the queues of the snapshot, which must precede the journal's changes of them.
    fn configure_queues_of_snapshot(&mut self) {
        if let Some(queues) = self.queues.take() {
            self.control.configure_queues(Some(queues));
        }
    }

    /// Gives new entries only handles that no lost change gave.
    fn leave_out_handles(&self) {
        for (id, generations) in self.next_generations() {
            let mut table = self.control.switch.table(id);
            let known = generations.iter().map(|(_, next)| *next).max().unwrap_or(0);
            let known = known.max(table.generation_min());
            table.raise_generation_min(known.saturating_add(LOST_GENERATIONS).min(GENERATION_MIN_MAX));
            for (slot, next) in generations {
                let later = next.saturating_add(LOST_GENERATIONS);
                if later > table.generation_min() {
                    table.retire_generations(slot, later);
                }
            }
        }
    }

    fn report(&mut self) -> Vec<String> {
        let mut report = std::mem::take(&mut self.lost);
        for (of, n) in std::mem::take(&mut self.more) {
            report.push(format!("{of}: {} more", count(n, "record")));
        }
        report
    }

    pub(crate) fn lose(&mut self, of: &str, why: impl std::fmt::Display) {
        // A refused restore changes nothing.
        let lost = if self.log.is_none() { "not restored: " } else { "" };
        if self.lost.len() < REPORTED_MAX {
            self.lost.push(format!("{lost}{of}: {why}"));
        } else {
            self.count_more(of);
        }
    }

    /// Counts a record that is not reported on its own. Of many objects, only the first ones are named.
    fn count_more(&mut self, of: &str) {
        let named = self.more.len() < REPORTED_MAX || self.more.contains_key(of);
        *self.more.entry(if named { of } else { "others" }.to_string()).or_default() += 1;
    }

    /// Records that a file is damaged.
    pub(crate) fn damage(&mut self, of: &str, why: impl std::fmt::Display) {
        self.damaged_by(format!("{of}: {why}"));
    }

    /// Like [`Self::damage`], with a complete sentence.
    pub(crate) fn damaged_by(&mut self, text: String) {
        (self.damaged, self.handles_lost) = (true, true);
        if self.lost.len() < REPORTED_MAX {
            self.lost.push(text);
        } else {
            self.count_more("damaged lines");
        }
    }

    /// Reports the changes that could not be written to a journal.
    pub(crate) fn count_unwritten(&mut self, header: &JournalHeader) {
        if header.unwritten > 0 {
            let lost = count(header.unwritten as usize, "change");
            self.damage("journal", format!("{lost} could not be written at the time"));
        }
    }

    /// Applies the readable part of a state file or dump. An error means that the file is neither.
    pub(crate) fn read(&mut self, mut input: impl BufRead) -> io::Result<StateFile> {
        let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let mut file = StateFile::default();
        // The first readable line determines whether lines carry checksums.
        let mut sealed = None;
        let (mut sum, mut end) = (FileSum::default(), None);
        let mut cut_in_first_line = false;
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let (of, torn) = (format!("line {number}"), !line.ends_with(b"\n"));
            let seal = open(&mut line);
            if end.is_some() {
                self.damage(&of, "it follows the last line");
                continue;
            }
            match (seal, sealed) {
                (Seal::Broken, _) => self.damage(&of, "its checksum is wrong"),
                (Seal::Whole(one), _) => {
                    sealed.get_or_insert(true);
                    match serde_json::from_slice(&line) {
                        Ok(Record::State(header)) if number == 1 => {
                            if header.version != VERSION_SEALED {
                                return Err(wrong(other_version(header.version)));
                            }
                            (file.program, file.serial) = (Some(header.program), header.serial);
                        }
                        Ok(Record::End(found)) => {
                            file.serial = Some(found.serial);
                            end = Some((found, sum.clone()));
                        }
                        Ok(record) => self.put(record),
                        Err(error) => self.lose(&of, format!("not a record: {error}")),
                    }
                    sum.add(one);
                }
                (Seal::Missing, Some(false)) => match serde_json::from_slice(&line) {
                    Ok(record) => self.put(record),
                    Err(_) if torn => self.damage(&of, "it is incomplete"),
                    Err(error) => self.lose(&of, format!("not a record: {error}")),
                },
                (Seal::Missing, None) if number == 1 => match serde_json::from_slice(&line) {
                    Ok(Record::State(header)) => {
                        if header.version != VERSION {
                            return Err(wrong(other_version(header.version)));
                        }
                        sealed = Some(false);
                        (file.program, file.serial) = (Some(header.program), header.serial);
                    }
                    _ => {
                        cut_in_first_line = torn && (line.starts_with(START) || START.starts_with(&line));
                        self.damage(&of, "it cannot be read");
                    }
                },
                (Seal::Missing, _) => self.damage(&of, "it has no checksum"),
            }
        }
        match (sealed, end) {
            (None, _) if line.is_empty() && !self.damaged => return Err(wrong("it is empty".into())),
            // The journal may be intact.
            (None, _) if cut_in_first_line => sealed = Some(true),
            (None, _) => {
                let why = "it is not a p4jet state file";
                return Err(wrong(why.into()));
            }
            (Some(true), None) => self.damage("the file", "its last line is missing, so it was cut short"),
            (Some(true), Some((end, sum)))
                if !self.damaged && (end.lines, &end.sums) != (sum.lines, &sum.text()) =>
            {
                let (lines, found) = (end.lines, sum.lines);
                self.damage("the file", format!("found {found} of {lines} lines, or lines of another file"));
            }
            _ => {}
        }
        file.sealed = sealed == Some(true);
        Ok(file)
    }

    /// Applies the changes of a journal that continues the state file with this number, or any number if it is unknown.
    /// `header` is the first line of the journal, if it is readable. Returns the number of the last change.
    pub(crate) fn read_journal(
        &mut self,
        mut input: impl BufRead,
        serial: Option<u64>,
        header: Option<&JournalHeader>,
    ) -> io::Result<u64> {
        self.configure_queues_of_snapshot();
        let (mut last, mut others) = (0, 0u64);
        if header.is_none() {
            let why = "its first line is damaged or missing, so the number of changes is unknown";
            self.damage("journal", why);
        }
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let (of, torn) = (format!("journal line {number}"), !line.ends_with(b"\n"));
            let seal = open(&mut line);
            let record = matches!(seal, Seal::Whole(_)).then(|| serde_json::from_slice(&line));
            match record {
                Some(Ok(Record::Journal(_))) if number == 1 => {}
                Some(Ok(Record::Did(mut did))) => {
                    if did.serial.is_none() || serial.is_some_and(|serial| did.serial != Some(serial)) {
                        others += 1;
                        continue;
                    }
                    let place = did.number.unwrap_or(0);
                    if place <= last {
                        self.damage(&of, format!("change {place} occurs twice"));
                        continue;
                    }
                    if place > last + 1 {
                        let gap = place - last - 1;
                        let verb = if gap == 1 { "is" } else { "are" };
                        self.damaged_by(format!(
                            "{} {verb} missing before {of}",
                            count(gap as usize, "change")
                        ));
                    }
                    last = place;
                    self.did(&mut did);
                }
                Some(Ok(_)) => self.damage(&of, "not a change"),
                Some(Err(error)) => self.damage(&of, format!("not a record: {error}")),
                // Reported above.
                None if number == 1 && header.is_none() => {}
                // It was not acknowledged: the first line counts acknowledged changes.
                None if torn && header.is_some_and(|header| header.changes <= last) => {
                    // No client knows its handles.
                    let handles_lost = self.handles_lost;
                    self.damage(&of, "it is incomplete: a change that was not yet acknowledged is lost");
                    self.handles_lost = handles_lost;
                }
                None => self.damage(&of, "its checksum is wrong or missing"),
            }
        }
        if others > 0 {
            self.damage(
                "journal",
                format!("found {} of another state file", count(others as usize, "change")),
            );
        }
        if let Some(header) = header {
            if header.changes > last {
                let missing = count((header.changes - last) as usize, "change");
                self.damage(
                    "journal",
                    format!("the last {missing} of {} are missing, so it was cut short", header.changes),
                );
            }
            self.count_unwritten(header);
        }
        Ok(last)
    }

    /// Applies the changes of the journal of an earlier version, whose lines carry no checksums.
    pub(crate) fn read_plain_journal(&mut self, mut input: impl BufRead) -> io::Result<()> {
        self.configure_queues_of_snapshot();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let of = format!("journal line {number}");
            match serde_json::from_slice(&line) {
                Ok(Record::State(_)) if number == 1 => {}
                Ok(Record::Did(mut did)) => self.did(&mut did),
                Ok(_) => self.damage(&of, "not a change"),
                Err(_) if !line.ends_with(b"\n") => self.damage(&of, "it is incomplete"),
                Err(error) => self.damage(&of, format!("not a record: {error}")),
            }
        }
        Ok(())
    }

    fn put(&mut self, record: Record) {
        let (of, done) = match record {
            Record::State(_) => ("state".to_string(), Err(ControlError::new("the first line occurs twice"))),
            Record::End(_) | Record::Journal(_) => {
                ("journal".to_string(), Err(ControlError::new("this line belongs in another file")))
            }
            Record::Table(shape) => return self.compare(shape, false),
            Record::Profile(shape) => return self.compare(shape, true),
            Record::Member(member) => (member.profile.clone(), self.member(&member)),
            Record::Group(group) => (group.profile.clone(), self.group(&group)),
            Record::Entry(entry) => {
                if self.other_tables.contains(&entry.table) {
                    return self.count_more(&entry.table);
                }
                let done = self.entry(&entry);
                match done {
                    // Only the names of lost records are copied.
                    Ok(()) => {
                        self.in_effect[0] += 1;
                        return;
                    }
                    Err(error) => (entry.table, Err(error)),
                }
            }
            Record::Default(default) => (default.table.clone(), self.default(&default)),
            Record::ValueSet(set) => (set.name.clone(), self.value_set(&set)),
            Record::Register(register) => (register.name.clone(), self.register(&register)),
            Record::Counter(cells) => (cells.name.clone(), self.counter(&cells)),
            Record::Meter(cells) => (cells.name.clone(), self.meter(&cells)),
            Record::Crc(crc) => (crc.name.clone(), self.named(&NamedUpdate::SetCrc(crc), None)),
            Record::Multicast(groups) => ("multicast".to_string(), self.multicast(groups)),
            Record::Session(session) => {
                let of = format!("session {}", session.number);
                (of, self.named(&NamedUpdate::SetSession(session), None))
            }
            Record::Note(NoteRecord { of, note }) => {
                ("note".to_string(), self.named(&NamedUpdate::Note { of, note: Some(note) }, None))
            }
            Record::Queues(queues) => ("queues".to_string(), self.queues(&queues)),
            Record::Did(mut did) => return self.did(&mut did),
        };
        match done {
            Ok(()) => self.in_effect[0] += 1,
            Err(error) => self.lose(&of, error),
        }
    }

    /// The names for a record. Errors list similar names only as long as errors are reported one by one.
    fn names<'n>(&self) -> Names<'c, 'n> {
        Names::for_one(&self.control.schema, self.lost.len() < REPORTED_MAX)
    }

    /// Checks whether a table or profile has its former shape.
    fn compare(&mut self, shape: Shape, profile: bool) {
        let name = &shape.name;
        let found = match profile {
            true => self.names().profile(name).and_then(|id| self.control.schema.profile_table(id)),
            false => self.names().table(name),
        };
        let table = match &found {
            Ok(id) => *id,
            Err(error) => {
                self.lose(&shape.name, error);
                self.other_tables.insert(shape.name);
                return;
            }
        };
        if !profile && shape.key != self.control.schema.key(table) {
            self.lose(&shape.name, "its key has changed");
            self.other_tables.insert(shape.name);
            return;
        }
        if let Ok(id) = found
            && !profile
        {
            let mut table = self.control.switch.table(id);
            if let Some(log) = &mut self.log {
                let slots = shape.generations.keys();
                let old = slots.map(|slot| (*slot, table.free_generation(EntryHandle(*slot)))).collect();
                log.push(UndoOther::Entries(id, Vec::new(), old).into());
                log.push(UndoOther::GenerationMin(id, table.generation_min()).into());
            }
            shape.generations.iter().for_each(|(slot, to)| table.retire_generations(*slot, *to));
            table.raise_generation_min(shape.generation_min);
        }
        let now = self.control.schema.actions_of(table);
        for (action, params) in shape.actions {
            if now.iter().any(|now| now.name == action && now.params != params) {
                self.other_actions.insert((shape.name.clone(), action));
            }
        }
    }

    /// The action, member or group of an entry, default or member.
    fn act(&self, of: &str, id: TableId, call: &Call) -> Result<Act> {
        if let Some(name) = &call.action
            && !self.other_actions.is_empty()
            && self.other_actions.contains(&(of.to_string(), name.clone()))
        {
            return Err(ControlError::new(format!("the parameters of the action `{name}` have changed")));
        }
        self.control.schema.resolve_act(id, call, &mut self.names())
    }

    fn member(&mut self, Member { profile: name, handle, r#do: call }: &Member) -> Result<()> {
        let profile = self.names().profile(name)?;
        let table = self.control.schema.profile_table(profile)?;
        let Act::Action(action) = self.act(name, table, call)? else {
            return Err(ControlError::new("a member has an action"));
        };
        self.write(Update::CreateMember { profile, action }, Some(*handle))
    }

    fn group(&mut self, Group { profile, handle, members, weights }: &Group) -> Result<()> {
        let profile = self.names().profile(profile)?;
        let create = Update::CreateGroup { profile };
        self.control.check(&create)?;
        let of = self.control.profile(self.control.schema.profile_table(profile)?)?;
        if let Some(member) = members.iter().find(|member| of.member(**member).is_none()) {
            return Err(ControlError::new(format!("group {handle}: there is no member {member}")));
        }
        let group = (*handle).into();
        let Some(weights) = weights else {
            self.apply(create, Some(*handle))?;
            return members.iter().try_for_each(|member| {
                self.apply(Update::AddToGroup { profile, group, member: (*member).into() }, None)
            });
        };
        if weights.len() != members.len() {
            let (found, expected) = (count(weights.len(), "weight"), members.len());
            let why = format!("group {handle}: found {found}, expected {expected}");
            return Err(ControlError::new(why));
        }
        self.apply(create, Some(*handle))?;
        let members =
            members.iter().zip(weights).map(|(member, weight)| Share { member: *member, weight: *weight });
        let members = members.collect();
        self.write(Update::SetGroup { profile, group, members }, None)
    }

    fn entry(&mut self, entry: &TableEntry) -> Result<()> {
        let TableEntry { table: name, handle, key, priority, r#do: call, timeout_ms, is_const } = entry;
        if *is_const {
            // The program has it.
            return Ok(());
        }
        let table = self.names().table(name)?;
        let named = |error: ControlError| ControlError {
            message: format!("entry {handle}: {}", error.message),
            ..error
        };
        let (key, priority) = self.control.schema.resolve_key(table, key, *priority).map_err(named)?;
        let act = self.act(name, table, call)?;
        self.write(Update::Insert { table, key, priority, act }, Some(*handle))?;
        if let Some(timeout_ms) = *timeout_ms {
            // The idle time starts again.
            self.write(Update::SetTimeout { table, entry: (*handle).into(), timeout_ms }, None)?;
        }
        Ok(())
    }

    fn default(&mut self, TableDefault { table: name, r#do: call }: &TableDefault) -> Result<()> {
        let table = self.names().table(name)?;
        let act = self.act(name, table, call)?;
        self.write(Update::SetDefault { table, act }, None)
    }

    fn value_set(&mut self, ValueSet { name, key, values }: &ValueSet) -> Result<()> {
        let set = self.names().value_set(name)?;
        if *key != self.control.schema.key(set) {
            return Err(ControlError::new("its fields have changed"));
        }
        for value in values {
            let key = self.control.schema.matches(set, value)?;
            self.apply(Update::AddToValueSet { set, key }, None)?;
        }
        Ok(())
    }

    fn register(&mut self, Register { name, width, cells }: &Register) -> Result<()> {
        let id = self.names().register(name)?;
        let now = self.control.schema.register_cells(id)?.width;
        if now != *width {
            return Err(ControlError::new(format!("its cells had {width} bits, and now have {now}")));
        }
        for (index, text) in cells {
            let value = parse_value(text, now).map_err(ControlError::new)?;
            self.control.write_register(id, *index, &value)?;
        }
        Ok(())
    }

    fn counter(&mut self, Cells { name, cells }: &Cells<(u64, u64)>) -> Result<()> {
        let id = self.names().counter(name)?;
        for (index, (packets, bytes)) in cells {
            let value = CounterValue { packets: *packets, bytes: *bytes };
            self.control.write_counter(id, *index, value)?;
        }
        Ok(())
    }

    fn meter(&mut self, Cells { name, cells }: &Cells<[String; 2]>) -> Result<()> {
        let id = self.names().meter(name)?;
        for (index, rates) in cells {
            let rates = resolve_rates(rates)?;
            check_rates(Some(&rates))?;
            self.control.set_meter(id, *index, Some(rates))?;
        }
        Ok(())
    }

    fn multicast(&mut self, Groups { groups, mut nodes, mut lags }: Groups) -> Result<()> {
        // Earlier versions accepted ports that the program cannot number. The rest of the record is applied.
        let port_max = multicast_port_max(self.control.program());
        let mut keep_ports = |ports: &mut BTreeSet<u32>, of: &dyn fmt::Display| {
            for port in ports.split_off(&(port_max + 1)) {
                self.lose("multicast", format!("{of}: found port {port}, expected 0 to {port_max}"));
            }
        };
        nodes.iter_mut().for_each(|(handle, node)| {
            keep_ports(&mut node.ports, &format_args!("node {handle}"));
        });
        lags.iter_mut().for_each(|(lag, ports)| keep_ports(ports, &format_args!("lag {lag}")));
        for (lag, ports) in &lags {
            self.control.check(&Update::SetLag { lag: *lag, ports: ports.clone() })?;
        }
        let mut new = Multicast::default();
        for (lag, ports) in lags {
            new.set_lag(lag, Some(ports));
        }
        for (handle, GroupNode { rid: replication_id, ports, lags }) in nodes {
            check_node_handle(handle)?;
            let (ports_of, lags_of) = (ports.clone(), lags.clone());
            self.control.check(&Update::CreateNode { replication_id, ports: ports_of, lags: lags_of })?;
            new.insert_node(handle, Node::new(replication_id, ports, lags));
        }
        for (group, members) in groups {
            check_group(group)?;
            new.create_group(group);
            for node in members {
                new.associate(group, node)?;
            }
        }
        // The old contents are already gone and in the log.
        self.control.set_multicast(new);
        Ok(())
    }

    fn queues(&mut self, QueueRecord { per_port, others, ports }: &QueueRecord) -> Result<()> {
        if !(1..=QUEUES_MAX).contains(per_port) {
            return Err(ControlError::new(format!(
                "found {per_port} queues per port, expected 1 to {QUEUES_MAX}"
            )));
        }
        for port in ports.keys() {
            check_port(self.control.program(), *port)?;
        }
        for PortRecord { queues, .. } in ports.values().chain([others]) {
            if queues.len() != QUEUES_MAX {
                let found = count(queues.len(), "queue");
                return Err(ControlError::new(format!("found {found} per port, expected {QUEUES_MAX}")));
            }
            queues.iter().try_for_each(|queue| check_weight(queue.weight))?;
        }
        self.queues = Some(QueueConfig {
            queues_per_port: *per_port,
            others: others.settings(),
            ports: ports.iter().map(|(port, record)| (*port, record.settings())).collect(),
            wanted: true,
        });
        Ok(())
    }

    /// Applies a change from a file.
    fn named(&mut self, update: &NamedUpdate, handle: Option<u32>) -> Result<()> {
        let update = self.control.schema.resolve_with(update, &mut self.names())?;
        self.write(update, handle)
    }

    fn did(&mut self, Did { updates, commands, handles, .. }: &mut Did) {
        self.in_effect[1] += 1;
        let mut handles = handles.iter().copied().chain(std::iter::repeat(None));
        let mut before = (String::new(), None);
        for update in updates {
            update.fill_in(&mut before);
            let done = self.named(update, handles.next().flatten());
            if let Err(error) = done {
                // Texts and numbers always have a JSON form.
                let text = serde_json::to_string(update).unwrap_or_default();
                self.lose(&format!("`{text}`"), error);
            }
        }
        for line in &*commands {
            let handle = handles.next().flatten();
            let done = (self.read_command)(self.control, line).and_then(|update| match update {
                Some(update) => self.write(update, handle),
                None => Ok(()),
            });
            if let Err(error) = done {
                self.lose(&format!("`{line}`"), error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::seal;

    /// A reader of runtime commands.
    fn read_json(control: &Control, line: &str) -> Result<Option<Update>> {
        control.schema().resolve(&serde_json::from_str(line).unwrap()).map(Some)
    }

    /// Journals whose changes are runtime commands, which another crate parses.
    #[test]
    fn earlier_journals_are_read() {
        let program = || p4jet_ir::text::parse(include_str!("../tests/common/sample.ir")).unwrap();
        let control = || Control::new(p4jet_dataplane::Switch::new(program()).unwrap());
        let (now, expected) = (control(), control());
        let header = JournalHeader { changes: 2, ..JournalHeader::new(5) };
        let mut journal = header.line();
        let insert = |key: u32, action: &str, params: &str| {
            format!(
                r#"{{"insert":{{"table":"l2","key":["{key}"],"do":{{"action":"{action}","params":[{params}]}}}}}}"#
            )
        };
        let session = r#"{"set_session":{"number":1,"port":4}}"#;
        let delete = r#"{"delete":{"table":"l2","entry":0}}"#;
        let changes = [
            ([insert(1, "out", "\"2\""), insert(2, "deny", "")], [Some(0), Some(3)]),
            ([delete.to_string(), session.to_string()], [None, None]),
        ];
        for ((commands, handles), number) in changes.into_iter().zip(1..) {
            let did =
                serde_json::json!({"serial": 5, "number": number, "commands": commands, "handles": handles});
            seal(serde_json::json!({ "did": did }).to_string().into_bytes(), &mut journal);
        }
        let mut restoring = Restoring::new(&now, read_json);
        restoring.read_journal(&journal[..], Some(5), Some(&header)).unwrap();
        assert_eq!((restoring.in_effect, restoring.finish()), ([0, 2], Vec::new()));
        let l2 = expected.schema().table("l2").unwrap();
        for (text, handle) in [
            (insert(1, "out", "\"2\"").as_str(), Some(0)),
            (insert(2, "deny", "").as_str(), Some(3)),
            (delete, None),
            (session, None),
        ] {
            let update = read_json(&expected, text).unwrap().unwrap();
            expected.apply(update, handle, &Made::default(), None).unwrap();
        }
        assert_eq!(now.dump(true), expected.dump(true));
        assert_eq!(now.switch().table(l2).len(), 1);
    }

    /// Earlier versions accepted ports that the program cannot number: the rest of such a record is restored.
    #[test]
    fn earlier_states_with_other_ports_are_read() {
        let program = p4jet_ir::text::parse(include_str!("../tests/common/sample.ir")).unwrap();
        let control = Control::new(p4jet_dataplane::Switch::new(program).unwrap());
        let state = r#"{"state":{"version":1,"program":"sample"}}
{"multicast":{"groups":{"1":[0]},"nodes":{"0":{"rid":7,"ports":[1,600],"lags":[2]}},"lags":{"2":[3,512]}}}
{"session":{"number":4,"port":9}}
{"session":{"number":5,"port":512}}
"#;
        let mut restoring = Restoring::new(&control, read_json);
        restoring.read(state.as_bytes()).unwrap();
        assert_eq!(
            restoring.finish(),
            [
                "not restored: multicast: node 0: found port 600, expected 0 to 511",
                "not restored: multicast: lag 2: found port 512, expected 0 to 511",
                "not restored: session 5: found port 512, expected 0 to 511",
            ]
        );
        let multicast = control.switch().state().multicast();
        assert_eq!((&multicast.nodes()[&0].ports, &multicast.lags()[&2]), (&[1].into(), &[3].into()));
        assert_eq!(
            control
                .switch()
                .state()
                .destinations()
                .sessions
                .iter()
                .map(|(number, _)| number)
                .collect::<Vec<_>>(),
            [4]
        );
    }
}
