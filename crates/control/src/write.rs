//! Applies changes and undoes them.
//!
//! An undo step is an [`Update`] where one restores the old state exactly. Others hold what no client may set: the generation of a
//! slot, the age of an entry among those of equal priority, the time at which an idle time was set, positions in groups. The step
//! for a new entry, by far the most frequent one, is a few bytes, because a batch may have a million of them. One thing is not
//! restored: a meter whose rates are set has full buckets afterwards.

use crate::error::{CommandError, NO_MEMORY, Subject, count};
use crate::guard::{
    HEAP_BLOCK_BYTES, MemoryClaim, claim_for_places, claim_for_undo, claim_for_updates, collect_claimed,
    guarded,
};
use crate::held::each_held;
use crate::journal::Changes;
use crate::notes::{Note, Noted, Notes};
use crate::schema::{Cells, RegisterCells, Schema, check_entry_open, is_const_entry, param_names};
use crate::update::{Act, Atomicity, Cell, DEFAULT_CELL, Direct, EntryRef, Mirror, Ref, Update};
use num_bigint::BigUint;
use p4jet_dataplane::{PortSettings, QueueConfig, Switch};
use p4jet_externs::{
    Affected, CounterValue, CrcParams, Multicast, MulticastError, NODES_MAX, Node, Rates, Replica, Session,
    StateError,
};
use p4jet_ir::{InstanceId, InstanceKind, Program, TableAction, TableId};
use p4jet_tables::{Action, ActionProfile, Entry, EntryHandle, KeyMatch, SavedTimeout, TableError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The code of a change that may succeed later, because packet workers still use replaced memory.
const BUSY: &str = "BUSY";

/// Maximum time for which undoing changes waits for packet workers.
const TAKE_BACK_MAX: Duration = Duration::from_secs(10);
/// Once a worker has delayed an undo step for [`TAKE_BACK_MAX`], later steps are abandoned after this time, because each would wait a
/// second.
const TAKE_BACK_END: Duration = Duration::from_secs(20);

/// Control of a switch: changes it by [`Update`]s and reads its objects.
#[derive(Clone)]
pub struct Control {
    pub(crate) switch: Arc<Switch>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) notes: Arc<Notes>,
}

/// The outcome of a batch of updates.
#[derive(Clone, Debug)]
pub struct Written {
    /// For each update, in order: the handle of the object that it created, if any, or the refusal.
    pub results: Vec<Result<Option<u32>>>,
    /// True if the updates that were not refused are in effect.
    pub in_effect: bool,
}

/// The undo step of a change.
pub(crate) enum Undo {
    /// Removes an added entry and restores the generation of its slot. Nearly all changes are of this kind, so
    /// the others are behind a pointer.
    Insert(TableId, EntryHandle, u8),
    /// Any other step.
    Other(Box<UndoOther>),
}

/// The rarer undo steps: updates, or values that no update has or that may number millions.
pub(crate) enum UndoOther {
    /// Updates in this order. An object that one creates gets the handle beside it.
    Updates(Vec<(Update, Option<u32>)>),
    /// Deleted entries, and the generations of slots that had none.
    Entries(TableId, Vec<Removed>, Vec<(u32, u8)>),
    /// The cells that were not 0, by index; for a direct counter that is an entry's handle.
    Counters(InstanceId, Vec<(u32, CounterValue)>),
    /// The cells that were not 0.
    Registers(InstanceId, Vec<(u32, BigUint)>),
    /// The cells that had rates, by index; for a direct meter that is an entry's handle.
    Meters(InstanceId, Vec<(u32, Rates)>),
    /// The lowest generation of a table's new handles.
    GenerationMin(TableId, u8),
    /// The timeout of an entry, which was changed at this time in microseconds.
    Timeout(TableId, EntryHandle, SavedTimeout, u64),
    /// A deleted multicast group and its nodes.
    Group(u32, Vec<u32>),
    /// A multicast node that has left its group, and its position there.
    InGroup(u32, (u32, usize)),
    /// A deleted multicast node, and its position in its group.
    Node(u32, Node, Option<(u32, usize)>),
    /// A new link aggregation group.
    NoLag(u32),
    /// The members of a group with their places, and whether these were set.
    GroupMembers(InstanceId, u32, Vec<(u32, u32)>, bool),
    /// The nodes of a multicast group with their handles; `None` if the group did not exist.
    MulticastGroup(u32, Option<Vec<(u32, Node)>>),
    /// Notes.
    Notes(Vec<(Noted, Note)>),
    /// All of multicast.
    Multicast(Multicast),
    /// The queues of a port, and whether the program ran with queues.
    Port(u32, Option<Box<PortSettings>>, bool),
    /// All queues.
    Queues(Box<QueueConfig>),
}

impl From<Update> for Undo {
    fn from(update: Update) -> Undo {
        UndoOther::Updates(vec![(update, None)]).into()
    }
}

impl From<UndoOther> for Undo {
    fn from(other: UndoOther) -> Undo {
        Undo::Other(Box::new(other))
    }
}

/// A deleted entry, with the values of its direct counters and the rates of its direct meters.
pub(crate) struct Removed {
    handle: EntryHandle,
    entry: Entry,
    counts: Vec<(InstanceId, CounterValue)>,
    rates: Vec<(InstanceId, Option<Rates>)>,
    timeout: Option<SavedTimeout>,
    /// Its age among entries of the same priority.
    age: Option<u64>,
}

pub(crate) type Result<T> = std::result::Result<T, CommandError>;

/// The error of a table operation, with the field that is wrong.
fn refused(program: &Program, id: TableId, error: &TableError) -> CommandError {
    let table = &program.tables[id.index()];
    let refused = CommandError::refused(Subject::Table, error.code(), error).entity(&table.name);
    let key = |field: usize| format!("key {}", table.keys.get(field).map_or("", |key| key.name.as_str()));
    match error {
        TableError::KeyKind { field, .. }
        | TableError::KeyWidth { field, .. }
        | TableError::PrefixLength { field, .. }
        | TableError::EmptyRange { field } => refused.field(key(*field)),
        TableError::NoKey | TableError::KeyCount { .. } | TableError::Duplicate { .. } => {
            refused.field("key")
        }
        TableError::InvalidHandle(_) | TableError::ExpiredHandle { .. } => refused.field("handle"),
        TableError::UnknownAction { .. } | TableError::NoProfile | TableError::DataCount { .. } => {
            refused.field("action")
        }
        TableError::DataWidth { action, param, .. } => {
            let listed = table.actions.get(*action as usize);
            let names = listed.map(|listed| param_names(program, listed.action));
            let name = names.and_then(|names| names.get(*param).copied()).unwrap_or("");
            refused.field(format!("parameter {name}"))
        }
        TableError::InvalidMember(_)
        | TableError::MemberUsed(_)
        | TableError::MemberInGroup { .. }
        | TableError::MemberNotInGroup { .. } => refused.field("member"),
        TableError::NoGroups
        | TableError::InvalidGroup(_)
        | TableError::GroupUsed(_)
        | TableError::EmptyGroup(_) => refused.field("group"),
        TableError::Busy => refused.code(BUSY),
        TableError::NoMemory(_) => refused.code(NO_MEMORY),
        TableError::Full { .. } | TableError::ProfileFull { .. } => refused,
    }
}

impl From<MulticastError> for CommandError {
    fn from(error: MulticastError) -> CommandError {
        let field = match error {
            MulticastError::InvalidGroup(_) => "group",
            MulticastError::InvalidNode(_) | MulticastError::InGroup(..) | MulticastError::NotInGroup(..) => {
                "node"
            }
            MulticastError::Full => return CommandError::refused(Subject::Multicast, error.code(), error),
        };
        CommandError::refused(Subject::Multicast, error.code(), error).field(field)
    }
}

/// The error for a clone session that does not exist.
pub fn no_session(session: u32) -> CommandError {
    let why = format!("there is no session {session}");
    CommandError::refused(Subject::CloneSessions, "SESSION_NOT_FOUND", why).field("session")
}

/// Refuses the handle of a multicast node that no node can have.
pub(crate) fn check_node_handle(handle: u32) -> Result<()> {
    match handle < NODES_MAX {
        true => Ok(()),
        false => {
            let message = format!("found node {handle}, expected 0 to {}", NODES_MAX - 1);
            Err(CommandError::new(message).field("node"))
        }
    }
}

fn taken(what: &str, handle: u32) -> CommandError {
    CommandError::new(format!("{what} {handle} already exists")).field("handle")
}

/// An action, member or group in the form of updates.
fn act_of(action: &Action) -> Act {
    match (action.as_member(), action.as_group()) {
        (Some(member), _) => Act::Member(member.into()),
        (_, Some(group)) => Act::Group(group.into()),
        _ => Act::Action(action.clone()),
    }
}

/// The update that restores a clone session.
fn session_update(session: u32, was: Option<&Session>) -> Update {
    let Some(was) = was else { return Update::DeleteSession(session) };
    if !is_plain(was) {
        let replicas = was.replicas.clone();
        let (class_of_service, bytes_max) = (was.class_of_service, was.bytes_max);
        return Update::SetReplicas { session, replicas, class_of_service, bytes_max };
    }
    let to = match (was.replicas.first(), was.group) {
        (Some(replica), _) => Mirror::Port(replica.port),
        (None, group) => Mirror::Group(group.unwrap_or(0)),
    };
    Update::SetSession { session, to, bytes_max: was.bytes_max }
}

/// Removes a multicast group and its nodes. Returns the nodes; none if there is no such group.
fn take_group(m: &mut Multicast, group: u32) -> Option<Vec<(u32, Node)>> {
    let nodes = m.groups.remove(&group)?;
    Some(nodes.into_iter().filter_map(|handle| Some((handle, m.nodes.remove(&handle)?))).collect())
}

/// True if a session has a group, or one copy of class 0 and replication id 0.
pub(crate) fn is_plain(session: &Session) -> bool {
    let one = matches!(session.replicas.as_slice(), [Replica { replication_id: 0, .. }]);
    session.class_of_service == 0 && (session.group.is_some() || one)
}

/// The error for a cell that does not exist, the only fault that the checks leave.
fn no_cell(kind: Subject, error: StateError) -> CommandError {
    CommandError::refused(kind, "INVALID_INDEX", error).field("index")
}

impl Written {
    /// The result of a batch that was undone because of one of its updates.
    fn aborted(total: usize, place: usize, error: CommandError) -> Written {
        let why = format!("not applied: update {place} of the batch was refused");
        let mut results = vec![Err(CommandError::new(why).code("ABORTED")); total];
        if let Some(refused) = results.get_mut(place) {
            *refused = Err(error);
        }
        Written { results, in_effect: false }
    }
}

/// The kind of object to which a handle belongs: handles of different kinds are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Entry(TableId),
    Member(InstanceId),
    Group(InstanceId),
    Node,
}

impl Kind {
    /// The kind of object that an update creates, if any.
    pub(crate) fn made_by(update: &Update) -> Option<Kind> {
        match update {
            Update::Insert { table, .. } => Some(Kind::Entry(*table)),
            Update::CreateMember { profile, .. } => Some(Kind::Member(*profile)),
            Update::CreateGroup { profile } => Some(Kind::Group(*profile)),
            Update::CreateNode { .. } => Some(Kind::Node),
            _ => None,
        }
    }

    fn describe(self, program: &Program) -> String {
        let instance = |id: InstanceId| &program.instances[id.index()].name;
        match self {
            Kind::Entry(table) => format!("an entry of `{}`", program.tables[table.index()].name),
            Kind::Member(profile) => format!("a member of `{}`", instance(profile)),
            Kind::Group(profile) => format!("a group of `{}`", instance(profile)),
            Kind::Node => "a multicast node".to_string(),
        }
    }
}

/// The objects that the updates of a batch have created so far.
#[derive(Default)]
pub(crate) struct Made {
    handles: Vec<Option<u32>>,
    kinds: Vec<Option<Kind>>,
}

impl Made {
    pub(crate) fn push(&mut self, kind: Option<Kind>, handle: Option<u32>) {
        self.handles.push(handle);
        self.kinds.push(kind);
    }

    /// The handle to which a reference resolves.
    pub(crate) fn resolved(&self, of: Ref) -> Option<u32> {
        match of {
            Ref::Handle(handle) => Some(handle),
            Ref::Made(place) => self.get(place).map(|(_, handle)| handle),
        }
    }

    fn get(&self, place: u32) -> Option<(Kind, u32)> {
        let place = place as usize;
        Some(((*self.kinds.get(place)?)?, (*self.handles.get(place)?)?))
    }

    /// The handles, by the position of the update.
    pub(crate) fn handles(&self) -> &[Option<u32>] {
        &self.handles
    }
}

/// A point between two updates of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    undo: usize,
    changes: Option<(usize, usize)>,
}

/// Updates that are applied one after the other as they arrive. Of a batch that can be undone, the switch keeps all changes
/// or none; if it is dropped without [`Batch::commit`], the switch keeps none.
pub struct Batch {
    control: Control,
    /// The undo steps; `None` if each update is independent.
    log: Option<Vec<Undo>>,
    made: Made,
    /// The changes for the journal.
    changes: Option<Changes>,
    /// The number of updates that the caller announced.
    expected: usize,
    /// The number of updates for which memory has been checked.
    checked: usize,
    /// Their memory.
    memory: Option<MemoryClaim>,
    /// True if the owner of the notes makes the updates.
    is_owners: bool,
    /// True if changes were settled.
    settled: bool,
}

/// Memory to undo the deletion of a member, a group, a multicast node or a clone session.
const UNDO_BYTES_PER_OBJECT: usize = 512;

/// The number of undo steps for which a batch has room from the start.
const LOG_MAX: usize = 1 << 16;

impl Batch {
    pub(crate) fn new(
        control: &Control,
        atomicity: Atomicity,
        updates: usize,
        changes: Option<Changes>,
    ) -> Batch {
        let log = (atomicity == Atomicity::AllOrNothing).then(|| Vec::with_capacity(updates.min(LOG_MAX)));
        Batch {
            control: control.clone(),
            log,
            made: Made::default(),
            changes,
            expected: updates,
            checked: 0,
            memory: None,
            settled: false,
            is_owners: false,
        }
    }

    /// Says that the owner of the notes makes the updates ([`NoteOwner`](crate::NoteOwner)).
    pub(crate) fn set_owners(&mut self) {
        self.is_owners = true;
    }

    /// Applies one update, or leaves the switch unchanged. Returns the handle of the created object. Later updates of the batch can
    /// refer to the object by [`Ref::Made`]: every call counts, including refused updates.
    ///
    /// # Errors
    ///
    /// The program does not allow the update, or a table refuses it.
    pub fn write(&mut self, update: Update) -> Result<Option<u32>> {
        self.write_at(update, None)
    }

    /// Like [`Self::write`]; the created object gets this handle, if one is given and it is free.
    ///
    /// # Errors
    ///
    /// Those of [`Self::write`], or the handle is in use or too high.
    pub fn write_at(&mut self, update: Update, handle: Option<u32>) -> Result<Option<u32>> {
        let kind = Kind::made_by(&update);
        let done = self.carry_out(update, handle);
        self.made.push(kind, done.as_ref().ok().copied().flatten());
        done
    }

    /// Like [`Self::write`] for an update that adds an entry, whose direct counter and meter get these values before packets can find
    /// the entry.
    ///
    /// # Errors
    ///
    /// Those of [`Self::write`].
    pub fn insert(&mut self, update: Update, direct: &Direct) -> Result<Option<u32>> {
        let kind = Kind::made_by(&update);
        let done = self.carry_out_with(update, None, direct);
        if let (Ok(Some(handle)), Some(changes)) = (&done, &mut self.changes) {
            let cell = || Cell::Entry((*handle).into());
            let counter =
                direct.counter.map(|(counter, value)| Update::WriteCounter { counter, cell: cell(), value });
            let meter = direct.meter.map(|(meter, rates)| Update::SetMeter {
                meter,
                cell: cell(),
                rates: Some(rates),
            });
            for update in counter.iter().chain(&meter) {
                changes.add(&self.control, update, &self.made);
                changes.done(None);
            }
        }
        self.made.push(kind, done.as_ref().ok().copied().flatten());
        done
    }

    /// Counts an update that was refused earlier.
    fn skip(&mut self) {
        self.made.push(None, None);
    }

    /// Refuses more updates if memory for the announced ones is short. Further updates are checked in growing steps.
    fn check_memory(&mut self) -> Result<()> {
        let done = self.made.handles.len();
        if done >= self.checked {
            let next = self.expected.saturating_sub(done).max(done).max(1);
            self.memory = None;
            self.memory = Some(claim_for_updates(next, self.control.entries())?);
            self.checked = done.saturating_add(next);
        }
        Ok(())
    }

    /// A mark for [`Self::take_back_to`].
    pub fn mark(&self) -> Mark {
        Mark {
            undo: self.log.as_ref().map_or(0, Vec::len),
            changes: self.changes.as_ref().map(Changes::mark),
        }
    }

    /// Undoes the changes since a mark because of an error. Returns that error, with the changes that could not be undone.
    pub fn take_back_to(&mut self, mark: Mark, error: CommandError) -> CommandError {
        if let (Some(changes), Some(mark)) = (&mut self.changes, mark.changes) {
            changes.back_to(mark);
        }
        match &mut self.log {
            Some(log) if log.len() > mark.undo => {
                let since = log.split_off(mark.undo);
                self.control.without(since, error)
            }
            _ => error,
        }
    }

    /// Keeps the changes so far, whatever happens to later ones. Earlier marks become void.
    pub fn settle(&mut self) {
        if let Some(log) = &mut self.log {
            self.settled |= !log.is_empty();
            log.clear();
        }
    }

    fn carry_out(&mut self, update: Update, at: Option<u32>) -> Result<Option<u32>> {
        self.carry_out_with(update, at, &Direct::default())
    }

    fn carry_out_with(&mut self, update: Update, at: Option<u32>, direct: &Direct) -> Result<Option<u32>> {
        self.check_memory()?;
        let Batch { control, log, made, changes, is_owners, .. } = self;
        // The journal uses the names of the schema.
        control.check(&update)?;
        let mut note_after = None;
        if !*is_owners {
            control.check_owned(&update)?;
            note_after = control.note_after(&update, made);
        }
        let _memory = claim_for_places(&update)?;
        if let Some(changes) = changes {
            changes.add(control, &update, made);
        }
        let mut log = log.as_mut();
        let done = match (update, &mut log) {
            (Update::Insert { table, key, priority, act }, log) if *direct != Direct::default() => {
                guarded(|| {
                    let entry = Entry { key, priority, action: control.act(table, act, made)? };
                    control.add(table, entry, direct, log.as_deref_mut()).map(|handle| Some(handle.0))
                })
            }
            (update, Some(log)) => guarded(|| control.apply(update, at, made, Some(log))),
            (update, None) if at.is_some() => guarded(|| control.apply(update, at, made, None)),
            (update, None) => control.perform(update, made),
        };
        match (&mut *changes, &done) {
            (Some(changes), Ok(made)) => changes.done(*made),
            (Some(changes), Err(_)) => changes.forget(),
            (None, _) => {}
        }
        if let (Ok(_), Some(update)) = (&done, note_after) {
            if let Some(changes) = changes {
                changes.add(control, &update, made);
                changes.done(None);
            }
            // It cannot fail: the object is there.
            control.apply(update, None, made, log)?;
        }
        done
    }

    /// Ends the batch and keeps its changes.
    ///
    /// # Errors
    ///
    /// Memory is short. The changes are undone, if the batch can be undone.
    pub fn commit(mut self) -> Result<()> {
        match self.publish() {
            Ok(_) => Ok(()),
            Err(error) => Err(self.take_back(error)),
        }
    }

    /// Like [`Self::commit`], but leaves the batch open; returns the changes for the journal.
    pub(crate) fn publish(&mut self) -> Result<Option<Changes>> {
        let publish = || {
            self.control.publish();
            Ok(())
        };
        match guarded(publish) {
            // Without a log, and where changes were settled, the changes are in effect anyway.
            Err(error) if self.log.is_some() && !self.settled => Err(error),
            _ => Ok(self.keep()),
        }
    }

    /// Keeps the changes: they can no longer be undone. Returns the changes for the journal.
    fn keep(&mut self) -> Option<Changes> {
        self.log = None;
        self.changes.take()
    }

    /// Undoes all changes. The error lists those that could not be undone.
    ///
    /// # Errors
    ///
    /// Some changes could not be undone: packet workers are slow, or memory is short. The error has their number.
    pub fn undo(mut self) -> Result<()> {
        self.changes = None;
        let log = self.log.take().unwrap_or_default();
        guarded(|| self.control.take_back(log))
    }

    /// Undoes all changes because of an error. Returns that error, with the changes that could not be undone.
    pub fn take_back(mut self, error: CommandError) -> CommandError {
        self.changes = None;
        self.control.without(self.log.take().unwrap_or_default(), error)
    }
}

impl Drop for Batch {
    /// Undoes all changes if the batch has not ended: none of them is in the journal.
    fn drop(&mut self) {
        if let Some(log) = self.log.take().filter(|log| !log.is_empty()) {
            let _ = guarded(|| self.control.take_back(log));
        }
    }
}

impl Control {
    /// Control of a switch.
    pub fn new(switch: Arc<Switch>) -> Control {
        let schema = Arc::new(Schema::new(switch.program()));
        Control { switch, schema, notes: Arc::default() }
    }

    /// Control of the switch that replaced this one, with the notes about objects that it also has.
    pub(crate) fn succeed(&self, switch: Arc<Switch>) -> Control {
        let new = Control::new(switch);
        new.adopt_note_owner(self);
        for (of, note) in self.notes() {
            if let Some(of) = new.schema.find_noted(&self.schema.named_noted(&of))
                && new.is_there(&of)
            {
                new.set_note(of, Some(note));
            }
        }
        new
    }

    /// The switch.
    pub fn switch(&self) -> &Arc<Switch> {
        &self.switch
    }

    /// The names and ids of the program's objects.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The program of the switch.
    pub fn program(&self) -> &Program {
        self.switch.program()
    }

    /// Applies a batch of updates in order. Packets see one update after the other.
    pub fn write(&self, batch: Vec<Update>, atomicity: Atomicity) -> Written {
        self.write_with(batch.into_iter().map(Ok).collect(), atomicity, None, |change| change()).0
    }

    /// Like [`Self::write`], for updates of which some may already be errors. `changes`, if they are kept, are returned with the
    /// applied updates. `hold` calls a function between packets.
    pub(crate) fn write_with(
        &self,
        updates: Vec<Result<Update>>,
        atomicity: Atomicity,
        changes: Option<Changes>,
        hold: impl FnMut(&mut dyn FnMut()),
    ) -> (Written, Option<Changes>) {
        let total = updates.len();
        let mut results = Vec::with_capacity(total);
        let mut batch = Batch::new(self, atomicity, total, changes);
        let held_cells =
            |update: &Result<Update>| update.as_ref().map_or(0, |update| self.schema.held_cells(update));
        let done = each_held(updates.into_iter(), held_cells, hold, |update| {
            let done = match update {
                Ok(update) => batch.write(update),
                Err(error) => {
                    batch.skip();
                    Err(error)
                }
            };
            match done {
                Err(error) if atomicity == Atomicity::AllOrNothing => return Err(error),
                done => results.push(done),
            }
            Ok(())
        });
        if let Err(error) = done {
            return (Written::aborted(total, results.len(), batch.take_back(error)), None);
        }
        // One update is already published.
        let published = if total == 1 { Ok(batch.keep()) } else { batch.publish() };
        match published {
            Ok(changes) => (Written { results, in_effect: true }, changes),
            Err(error) => {
                let last = total.saturating_sub(1);
                (Written::aborted(total, last, batch.take_back(error)), None)
            }
        }
    }

    /// Begins a batch of about `updates` updates that arrive one after the other: all or nothing.
    pub fn batch(&self, updates: usize) -> Batch {
        Batch::new(self, Atomicity::AllOrNothing, updates, None)
    }

    /// Refuses an update that the program does not allow.
    pub(crate) fn check(&self, update: &Update) -> Result<()> {
        self.schema.check(self.program(), update)
    }

    /// Applies an update that the schema allows, or leaves the switch unchanged. `made` has the objects that earlier updates of the
    /// batch created.
    pub(crate) fn perform(&self, update: Update, made: &Made) -> Result<Option<u32>> {
        if update != Update::Reset {
            return guarded(|| self.apply(update, None, made, None));
        }
        // This update makes many changes, each of which can fail.
        let mut log = Vec::new();
        guarded(|| self.apply(update, None, made, Some(&mut log))).map_err(|error| self.without(log, error))
    }

    /// Undoes the changes before an error. Returns the error, with the changes that remain.
    pub(crate) fn without(&self, log: Vec<Undo>, error: CommandError) -> CommandError {
        match guarded(|| self.take_back(log)) {
            Ok(()) => error,
            Err(also) => CommandError {
                message: format!("{}; not all could be taken back: {}", error.message, also.message),
                ..error
            },
        }
    }

    /// Converts the refusal of a table to an error that names it.
    pub fn refused(&self, id: TableId) -> impl Fn(TableError) -> CommandError + '_ {
        move |error| refused(self.program(), id, &error)
    }

    /// The handle to which a reference resolves; the object must be of this kind.
    fn handle(&self, of: Ref, kind: Kind, made: &Made) -> Result<u32> {
        let place = match of {
            Ref::Handle(handle) => return Ok(handle),
            Ref::Made(place) => place,
        };
        let own = made.handles.len();
        if place as usize >= own {
            let found = match place as usize == own {
                true => "itself".to_string(),
                false => format!("update {place}, which is not an earlier one"),
            };
            let expected = match own {
                0 => "a handle, because no update comes before it".to_string(),
                _ => format!("a handle or an earlier update, 0 to {}", own - 1),
            };
            let why = format!("update {own} of the batch refers to {found}: expected {expected}");
            return Err(CommandError::new(why).field("handle"));
        }
        match made.get(place) {
            Some((found, handle)) if found == kind => Ok(handle),
            found => {
                let program = self.program();
                let found = found.map_or("nothing".to_string(), |(found, _)| found.describe(program));
                let expected = kind.describe(program);
                let why = format!(
                    "update {own} of the batch refers to update {place}, which made {found}, expected {expected}"
                );
                Err(CommandError::new(why).field("handle"))
            }
        }
    }

    /// The handle of an entry.
    pub(crate) fn entry(&self, table: TableId, entry: &EntryRef, made: &Made) -> Result<EntryHandle> {
        match entry {
            EntryRef::Handle(of) => self.handle(*of, Kind::Entry(table), made).map(EntryHandle),
            EntryRef::Key(key) => self.find_entry(table, &key.key, key.priority),
        }
    }

    fn act(&self, table: TableId, act: Act, made: &Made) -> Result<Action> {
        let profile = || {
            // The schema has already checked this.
            let profile = self.program().tables[table.index()].profile;
            profile.ok_or_else(|| self.refused(table)(TableError::NoProfile))
        };
        Ok(match act {
            Act::Action(action) => action,
            Act::Member(member) => Action::member(self.handle(member, Kind::Member(profile()?), made)?),
            Act::Group(group) => Action::group(self.handle(group, Kind::Group(profile()?), made)?),
        })
    }

    /// The index of a cell as commands count: a direct cell has the handle of its entry.
    fn cell(&self, direct: Option<TableId>, cell: &Cell, made: &Made) -> Result<u32> {
        match (cell, direct) {
            (Cell::Index(index), _) => Ok(*index),
            (Cell::Entry(entry), Some(table)) => self.entry(table, entry, made).map(|handle| handle.0),
            (Cell::Entry(_), None) => {
                Err(CommandError::new("it is not direct: expected an index").field("index"))
            }
        }
    }

    /// Applies an update that the schema allows, and records how to undo it. Returns the handle of the created object.
    /// With `at`, the object gets that handle, which it had before.
    pub(crate) fn apply(
        &self,
        update: Update,
        at: Option<u32>,
        made: &Made,
        mut log: Option<&mut Vec<Undo>>,
    ) -> Result<Option<u32>> {
        let notes = self.take_notes(&update, made);
        if notes.is_empty() {
            return self.apply_change(update, at, made, log);
        }
        let before = log.as_ref().map_or(0, |log| log.len());
        let done = self.apply_change(update, at, made, log.as_deref_mut());
        match (&done, log) {
            // Undo steps are made first, because undoing also makes notes void.
            (Ok(_), Some(log)) => log.insert(before, Control::undo_of_notes(notes)),
            (Ok(_), None) => {}
            (Err(_), _) => self.put_notes(notes),
        }
        done
    }

    fn apply_change(
        &self,
        update: Update,
        at: Option<u32>,
        made: &Made,
        mut log: Option<&mut Vec<Undo>>,
    ) -> Result<Option<u32>> {
        let mut note = |undo: &dyn Fn() -> Undo| {
            if let Some(log) = &mut log {
                log.push(undo());
            }
        };
        match update {
            Update::Insert { table, key, priority, act } => {
                let entry = Entry { key, priority, action: self.act(table, act, made)? };
                return match at {
                    None => self.add(table, entry, &Direct::default(), log).map(|handle| Some(handle.0)),
                    Some(handle) => self.add_at(table, handle, entry, log).map(|()| Some(handle)),
                };
            }
            Update::Modify { table, entry, act } => {
                let handle = self.entry(table, &entry, made)?;
                check_entry_open(&self.program().tables[table.index()], handle.0)?;
                let action = self.act(table, act, made)?;
                let mut t = self.switch.table(table);
                let old = t.get(handle).map(|e| e.action);
                t.modify(handle, action).map_err(self.refused(table))?;
                if let Some(old) = old {
                    note(&|| Update::Modify { table, entry: handle.0.into(), act: act_of(&old) }.into());
                }
            }
            Update::Delete { table, entry } => {
                let handle = self.entry(table, &entry, made)?;
                check_entry_open(&self.program().tables[table.index()], handle.0)?;
                self.delete(table, handle, log).map_err(self.refused(table))?;
            }
            Update::Clear(id) | Update::ClearValueSet(id) => {
                let bytes = log.as_ref().map_or(0, |_| self.undo_bytes_of_entries(id));
                let _memory = claim_for_undo(bytes)?;
                self.clear(id, log)?;
            }
            Update::SetDefault { table, act } => {
                let action = self.act(table, act, made)?;
                let mut t = self.switch.table(table);
                let old = t.default_action().clone();
                t.set_default(action).map_err(self.refused(table))?;
                note(&|| Update::SetDefault { table, act: act_of(&old) }.into());
            }
            Update::ResetDefault(id) => {
                let mut t = self.switch.table(id);
                let old = t.default_action().clone();
                t.reset_default().map_err(self.refused(id))?;
                note(&|| Update::SetDefault { table: id, act: act_of(&old) }.into());
            }
            Update::SetTimeout { table, entry, timeout_ms } => {
                let handle = self.entry(table, &entry, made)?;
                let now_us = self.switch.now_us();
                let mut t = self.switch.table(table);
                let old = t.saved_timeout(handle);
                t.set_timeout(handle, timeout_ms, now_us).map_err(self.refused(table))?;
                if let Some(old) = old {
                    note(&|| UndoOther::Timeout(table, handle, old, now_us).into());
                }
            }
            Update::CreateMember { profile, action } => {
                let (table, of) = self.profile_of(profile)?;
                let handle = match at {
                    None => of.create_member(action),
                    Some(handle) if of.member(handle).is_some() => return Err(taken("member", handle)),
                    Some(handle) => of.restore_member(handle, action),
                };
                let handle = handle.map_err(self.refused(table))?;
                note(&|| Update::DeleteMember { profile, member: handle.into() }.into());
                return Ok(Some(handle));
            }
            Update::ModifyMember { profile, member, action } => {
                let (table, of) = self.profile_of(profile)?;
                let handle = self.handle(member, Kind::Member(profile), made)?;
                let old = of.modify_member(handle, action).map_err(self.refused(table))?;
                note(&|| Update::ModifyMember { profile, member: handle.into(), action: old.clone() }.into());
            }
            Update::DeleteMember { profile, member } => {
                let (table, of) = self.profile_of(profile)?;
                let handle = self.handle(member, Kind::Member(profile), made)?;
                let old = of.delete_member(handle).map_err(self.refused(table))?;
                note(&|| {
                    let create = Update::CreateMember { profile, action: old.clone() };
                    UndoOther::Updates(vec![(create, Some(handle))]).into()
                });
            }
            Update::CreateGroup { profile } => {
                let (table, of) = self.profile_of(profile)?;
                let handle = match at {
                    None => of.create_group(),
                    Some(handle) if of.group(handle).is_some() => return Err(taken("group", handle)),
                    Some(handle) => of.restore_group(handle, &[]),
                };
                let handle = handle.map_err(self.refused(table))?;
                note(&|| Update::DeleteGroup { profile, group: handle.into() }.into());
                return Ok(Some(handle));
            }
            Update::DeleteGroup { profile, group } => {
                let (table, of) = self.profile_of(profile)?;
                let handle = self.handle(group, Kind::Group(profile), made)?;
                let (members, weighted) = of.group_places(handle).unwrap_or_default();
                of.delete_group(handle).map_err(self.refused(table))?;
                // The last one is applied first.
                note(&|| UndoOther::GroupMembers(profile, handle, members.clone(), weighted).into());
                note(&|| {
                    let create = (Update::CreateGroup { profile }, Some(handle));
                    UndoOther::Updates(vec![create]).into()
                });
            }
            Update::SetGroup { profile, group, members } => {
                let (table, of) = self.profile_of(profile)?;
                let group = self.handle(group, Kind::Group(profile), made)?;
                let members: Vec<_> = members.iter().map(|share| (share.member, share.places)).collect();
                let (old, weighted) = of.set_group(group, &members, true).map_err(self.refused(table))?;
                note(&|| UndoOther::GroupMembers(profile, group, old.clone(), weighted).into());
            }
            Update::Note { of, note: text } => {
                if text.is_some() && !self.is_there(&of) {
                    return Err(CommandError::new("a note about something that is not there"));
                }
                let old = self.set_note(of.clone(), text);
                note(&|| Update::Note { of: of.clone(), note: old.clone() }.into());
            }
            Update::AddToGroup { profile, group, member } => {
                let (table, of) = self.profile_of(profile)?;
                let group = self.handle(group, Kind::Group(profile), made)?;
                let member = self.handle(member, Kind::Member(profile), made)?;
                of.add_to_group(member, group).map_err(self.refused(table))?;
                note(&|| {
                    Update::RemoveFromGroup { profile, group: group.into(), member: member.into() }.into()
                });
            }
            Update::RemoveFromGroup { profile, group, member } => {
                let (table, of) = self.profile_of(profile)?;
                let group = self.handle(group, Kind::Group(profile), made)?;
                let member = self.handle(member, Kind::Member(profile), made)?;
                let was = of.group_places(group);
                of.remove_from_group(member, group).map_err(self.refused(table))?;
                note(&|| match &was {
                    Some((members, true)) => {
                        UndoOther::GroupMembers(profile, group, members.clone(), true).into()
                    }
                    _ => Update::AddToGroup { profile, group: group.into(), member: member.into() }.into(),
                });
            }
            Update::WriteCounter { counter, cell, value } => {
                let index = self.cell(self.schema.direct_table(counter), &cell, made)?;
                let old = self.counter_value(counter, index)?;
                self.write_counter(counter, index, value)?;
                note(&|| Update::WriteCounter { counter, cell: Cell::Index(index), value: old }.into());
            }
            Update::ResetCounter(id) => {
                let old = match log {
                    None => Vec::new(),
                    Some(_) => collect_claimed(self.counter_values(id), 0)?,
                };
                self.switch.state().counter_reset(id.0).map_err(|e| no_cell(Subject::Counter, e))?;
                if let Some(log) = log {
                    log.push(UndoOther::Counters(id, old).into());
                }
            }
            Update::WriteRegister { register, index, value } => {
                let old = self.register_value(register, index)?;
                self.write_register(register, index, &value)?;
                note(&|| Update::WriteRegister { register, index, value: old.clone() }.into());
            }
            Update::ResetRegister(id) => {
                let old: Vec<(u32, BigUint)> = match log {
                    None => Vec::new(),
                    // The other cells are 0 afterwards, too.
                    Some(_) => {
                        let heap_bytes =
                            HEAP_BLOCK_BYTES + self.schema.register_cells(id)?.width as usize / 8;
                        collect_claimed(self.switch.state().register_values(id.0), heap_bytes)?
                    }
                };
                self.switch.state().register_reset(id.0).map_err(|e| no_cell(Subject::Register, e))?;
                if let Some(log) = log {
                    log.push(UndoOther::Registers(id, old).into());
                }
            }
            Update::SetMeter { meter, cell, rates } => {
                let index = self.cell(self.schema.direct_table(meter), &cell, made)?;
                let old = self.meter_rates(meter, index)?;
                self.set_meter(meter, index, rates)?;
                note(&|| Update::SetMeter { meter, cell: Cell::Index(index), rates: old }.into());
            }
            Update::SetMeterArray { meter, rates } => {
                let old = match log {
                    None => Vec::new(),
                    Some(_) => collect_claimed(self.meter_values(meter), 0)?,
                };
                self.set_meters(meter, rates)?;
                if let Some(log) = log {
                    log.push(UndoOther::Meters(meter, old).into());
                }
            }
            Update::SetCrc { crc, params } => {
                let name = self.schema.crcs.name(crc);
                let old = self.switch.state().crc(name).unwrap_or(self.usual_crc(crc));
                self.switch.state().set_crc(name, params);
                note(&|| Update::SetCrc { crc, params: old }.into());
            }
            Update::AddToValueSet { set, key } => {
                let mut table = self.switch.table(set);
                // As in bmv2, adding an existing value is no error.
                if table.find(&key, 0).is_none() {
                    let action = Action { action: 0, data: Vec::new() };
                    let generation = table.next_generation();
                    let inserted = table.insert(Entry { key, priority: 0, action });
                    let handle = inserted.map_err(|error| self.refused_by_set(set, &error))?;
                    if let Some(log) = log {
                        log.push(Undo::Insert(set, handle, generation));
                    }
                }
            }
            Update::RemoveFromValueSet { set, key } => {
                let found = self.switch.table(set).find(&key, 0);
                // As in bmv2, removing a missing value is no error.
                if let Some(handle) = found {
                    self.delete(set, handle, log).map_err(|error| self.refused_by_set(set, &error))?;
                }
            }
            Update::SetSession { session, to, bytes_max } => {
                let new = match to {
                    Mirror::Port(port) => {
                        let replicas = vec![Replica { port, replication_id: 0 }];
                        Session { replicas, bytes_max, ..Session::default() }
                    }
                    Mirror::Group(group) => Session { group: Some(group), bytes_max, ..Session::default() },
                };
                let old = self.switch.state().destinations().sessions.get(&session).cloned();
                self.set_session(session, Some(new));
                note(&|| session_update(session, old.as_ref()).into());
            }
            Update::SetReplicas { session, replicas, class_of_service, bytes_max } => {
                let new = Session { replicas, group: None, class_of_service, bytes_max };
                let old = self.switch.state().destinations().sessions.get(&session).cloned();
                self.set_session(session, Some(new));
                note(&|| session_update(session, old.as_ref()).into());
            }
            Update::DeleteSession(session) => {
                let old = self.switch.state().destinations().sessions.get(&session).cloned();
                if old.is_none() {
                    return Err(no_session(session));
                }
                self.set_session(session, None);
                note(&|| session_update(session, old.as_ref()).into());
            }
            Update::Queue(update) => {
                let mut done = Ok(());
                self.switch.queues().configure(|config| {
                    done = update.check_queue(config.queues_per_port);
                    if done.is_err() {
                        return;
                    }
                    note(&|| match update.port() {
                        Some(port) => {
                            let settings = config.ports.get(&port).cloned().map(Box::new);
                            UndoOther::Port(port, settings, config.wanted).into()
                        }
                        None => UndoOther::Queues(Box::new(config.clone())).into(),
                    });
                    update.apply(config);
                });
                done?;
            }
            Update::Reset => self.reset_state(log)?,
            Update::CreateMulticastGroup(_)
            | Update::DestroyMulticastGroup(_)
            | Update::SetMulticastGroup { .. }
            | Update::CreateNode { .. }
            | Update::UpdateNode { .. }
            | Update::Associate { .. }
            | Update::Dissociate { .. }
            | Update::DestroyNode(_)
            | Update::SetLag { .. } => return self.change_multicast(update, at, made, log),
        }
        Ok(None)
    }

    fn change_multicast(
        &self,
        update: Update,
        at: Option<u32>,
        made: &Made,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<Option<u32>> {
        let node_of = |of: Ref| self.handle(of, Kind::Node, made);
        let (made, undo) = self.switch.state().change_multicast(|m| -> Result<_> {
            let (mut made, mut affected) = (None, Affected::None);
            let undo: Option<Undo>;
            match update {
                Update::CreateMulticastGroup(group) => {
                    let is_new = !m.groups.contains_key(&group);
                    m.create_group(group);
                    undo = is_new.then(|| Update::DestroyMulticastGroup(group).into());
                    affected = Affected::Group(group);
                }
                Update::DestroyMulticastGroup(group) => {
                    undo = m.groups.get(&group).map(|nodes| UndoOther::Group(group, nodes.clone()).into());
                    m.destroy_group(group);
                    affected = Affected::Group(group);
                }
                Update::SetMulticastGroup { group, replicas } => {
                    let gone = m.groups.get(&group).map_or(0, Vec::len);
                    m.check_room(replicas.as_ref().map_or(0, Vec::len).saturating_sub(gone))?;
                    undo = Some(UndoOther::MulticastGroup(group, take_group(m, group)).into());
                    if let Some(replicas) = replicas {
                        m.create_group(group);
                        for Replica { port, replication_id } in replicas {
                            let node = m.create_node(replication_id, [port].into(), BTreeSet::new())?;
                            m.associate(group, node)?;
                        }
                    }
                    affected = Affected::Group(group);
                }
                Update::CreateNode { replication_id, ports, lags } => {
                    let handle = match at {
                        None => m.create_node(replication_id, ports, lags)?,
                        Some(handle) if m.nodes.contains_key(&handle) => return Err(taken("node", handle)),
                        Some(handle) => {
                            check_node_handle(handle)?;
                            let node = Node { replication_id, ports, lags, group: None };
                            m.nodes.insert(handle, node);
                            handle
                        }
                    };
                    made = Some(handle);
                    undo = Some(Update::DestroyNode(handle.into()).into());
                }
                Update::UpdateNode { node, ports, lags } => {
                    let node = node_of(node)?;
                    let old = m.nodes.get(&node).cloned();
                    m.update_node(node, ports, lags)?;
                    affected = old.as_ref().and_then(|old| old.group).map_or(Affected::None, Affected::Group);
                    undo = old.map(|Node { ports, lags, .. }| {
                        Update::UpdateNode { node: node.into(), ports, lags }.into()
                    });
                }
                Update::Associate { group, node } => {
                    let node = node_of(node)?;
                    m.associate(group, node)?;
                    undo = Some(Update::Dissociate { group, node: node.into() }.into());
                    affected = Affected::Group(group);
                }
                Update::Dissociate { group, node } => {
                    let node = node_of(node)?;
                    let position = m.position(node);
                    m.dissociate(group, node)?;
                    undo = position.map(|position| UndoOther::InGroup(node, position).into());
                    affected = Affected::Group(group);
                }
                Update::DestroyNode(node) => {
                    let node = node_of(node)?;
                    let (old, position) = (m.nodes.get(&node).cloned(), m.position(node));
                    m.destroy_node(node)?;
                    affected = position.map_or(Affected::None, |(group, _)| Affected::Group(group));
                    undo = old.map(|old| UndoOther::Node(node, old, position).into());
                }
                Update::SetLag { lag, ports } => {
                    undo = Some(match m.lags.insert(lag, ports) {
                        Some(ports) => Update::SetLag { lag, ports }.into(),
                        None => UndoOther::NoLag(lag).into(),
                    });
                    affected = Affected::All;
                }
                _ => unreachable!("the caller chose the updates of multicast"),
            }
            Ok(((made, undo), affected))
        })?;
        if let Some(log) = log {
            log.extend(undo);
        }
        Ok(made)
    }

    /// Deletes an entry.
    fn delete(
        &self,
        table: TableId,
        handle: EntryHandle,
        log: Option<&mut Vec<Undo>>,
    ) -> std::result::Result<(), TableError> {
        let Some(log) = log else { return self.switch.table(table).delete(handle).map(drop) };
        let (counts, rates) = (self.direct_counts(table, handle), self.direct_rates(table, handle));
        let mut t = self.switch.table(table);
        let (timeout, age) = (t.saved_timeout(handle), t.age(handle));
        let entry = t.delete(handle)?;
        let removed = vec![Removed { handle, entry, counts, rates, timeout, age }];
        log.push(UndoOther::Entries(table, removed, Vec::new()).into());
        Ok(())
    }

    /// Memory to undo the deletion of all entries of a table.
    fn undo_bytes_of_entries(&self, id: TableId) -> usize {
        let (declared, shape) = (&self.program().tables[id.index()], &self.schema.shapes[id.index()]);
        let params = |action: &TableAction| self.program().actions[action.action.index()].params.len();
        let params = declared.actions.iter().map(params).max().unwrap_or(0);
        // An entry is listed before it becomes an undo step. A match has up to two values on the heap.
        let each = size_of::<Removed>()
            + size_of::<(EntryHandle, Entry)>()
            + declared.keys.len() * (size_of::<KeyMatch>() + 2 * HEAP_BLOCK_BYTES)
            + params * (size_of::<BigUint>() + HEAP_BLOCK_BYTES)
            + shape.direct_counters.len() * size_of::<(InstanceId, CounterValue)>()
            + shape.direct_meters.len() * size_of::<(InstanceId, Option<Rates>)>()
            + 4 * HEAP_BLOCK_BYTES;
        self.switch.table(id).len().saturating_mul(each)
    }

    /// Memory to undo a reset, apart from cells.
    fn undo_bytes_of_objects(&self) -> usize {
        let program = self.program();
        let mut bytes = 0usize;
        for (table, id) in program.tables.iter().zip(0..).map(|(t, id)| (t, TableId(id))) {
            bytes = bytes.saturating_add(self.undo_bytes_of_entries(id));
            if let (Some(_), Ok(of)) = (table.profile, self.profile(id)) {
                bytes = bytes.saturating_add(of.objects_count() * UNDO_BYTES_PER_OBJECT);
            }
        }
        let multicast = self.switch.state().with_multicast(|m| {
            let sets = m.nodes.values().map(|node| node.ports.len() + node.lags.len()).sum::<usize>()
                + m.lags.values().map(BTreeSet::len).sum::<usize>();
            (2 * m.nodes.len() + m.groups.len() + m.lags.len()) * UNDO_BYTES_PER_OBJECT + sets * 16
        });
        let sessions = self.switch.state().destinations().sessions.len() * UNDO_BYTES_PER_OBJECT;
        bytes.saturating_add(multicast).saturating_add(sessions)
    }

    /// Deletes all entries of a table except const ones.
    fn clear(&self, id: TableId, log: Option<&mut Vec<Undo>>) -> Result<()> {
        let declared = &self.program().tables[id.index()];
        let keeps_some = declared.entries.iter().any(|e| e.is_const);
        let entries: Vec<_> = match log {
            None if !keeps_some => Vec::new(),
            _ => {
                let table = self.switch.table(id);
                table.entries_by_age().filter(|(h, _)| !is_const_entry(declared, h.0)).collect()
            }
        };
        let removed: Vec<_> = entries
            .into_iter()
            .map(|(handle, entry)| {
                let (counts, rates) = (self.direct_counts(id, handle), self.direct_rates(id, handle));
                let table = self.switch.table(id);
                let (timeout, age) = (table.saved_timeout(handle), table.age(handle));
                Removed { handle, entry, counts, rates, timeout, age }
            })
            .collect();
        let generations = self.switch.table(id).free_generations().collect();
        let undo = |removed| UndoOther::Entries(id, removed, generations).into();
        if keeps_some {
            let delete = |entry: &Removed| self.switch.table(id).delete(entry.handle).err();
            let failed = removed.iter().enumerate().find_map(|(i, entry)| Some((i, delete(entry)?)));
            if let Some((done, error)) = failed {
                let done = removed.into_iter().take(done).collect();
                return Err(self.without(vec![undo(done)], self.refused(id)(error)));
            }
        } else {
            self.switch.table(id).clear();
        }
        if let Some(log) = log {
            log.push(undo(removed));
        }
        Ok(())
    }

    fn refused_by_set(&self, set: TableId, error: &TableError) -> CommandError {
        // bmv2 has no code for this error: its sets have no maximum size.
        let why = match error {
            TableError::Full { size } => format!("the value set is full: its size is {size}"),
            other => other.to_string(),
        };
        let name = &self.program().tables[set.index()].name;
        CommandError::refused(Subject::ValueSet, "ERROR", why).entity(name)
    }

    /// The constants of a custom CRC before it is set.
    pub(crate) fn usual_crc(&self, crc: u32) -> CrcParams {
        if self.schema.crc_widths[crc as usize] == 16 { CrcParams::CRC16 } else { CrcParams::CRC32 }
    }

    /// A table that has an action profile, and the profile.
    fn profile_of(&self, profile: InstanceId) -> Result<(TableId, ActionProfile)> {
        let table = self.schema.profile_table(profile)?;
        Ok((table, self.profile(table)?))
    }

    /// Refuses this many more members of an action profile if it has no room for them.
    ///
    /// # Errors
    ///
    /// The program has no such action profile, or the profile has no room: the code is `LIMIT`.
    pub fn check_room(&self, profile: InstanceId, more: usize) -> Result<()> {
        let (_, of) = self.profile_of(profile)?;
        let used = of.members_count();
        match self.schema.profile_size(profile) {
            Some(size) if used.saturating_add(more) > size as usize => {
                let name = self.schema.instance_name(profile);
                let room = (size as usize).saturating_sub(used);
                let why = format!(
                    "found {more} more members for `{name}`, expected at most {room}: {used} of its {size} exist"
                );
                Err(CommandError::limit(why).entity(name))
            }
            _ => Ok(()),
        }
    }

    /// The action profile of a table.
    ///
    /// # Errors
    ///
    /// The table has no action profile.
    pub fn profile(&self, table: TableId) -> Result<ActionProfile> {
        let profile = self.switch.table(table).profile().cloned();
        profile.ok_or_else(|| self.refused(table)(TableError::NoProfile))
    }

    /// Adds an entry.
    fn add(
        &self,
        table: TableId,
        entry: Entry,
        direct: &Direct,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<EntryHandle> {
        let mut t = self.switch.table(table);
        let generation = t.next_generation();
        let inserted = t.insert_prepared(entry, |row| {
            self.reset_direct(table, row);
            let state = self.switch.state();
            // The cells exist: the table has the row.
            if let Some((counter, value)) = direct.counter {
                let _ = state.counter_write(counter.0, row, value);
            }
            if let Some((meter, rates)) = direct.meter {
                let _ = state.meter_set_rates(meter.0, row, Some(rates));
            }
        });
        let handle = inserted.map_err(self.refused(table))?;
        if let Some(log) = log {
            log.push(Undo::Insert(table, handle, generation));
        }
        Ok(handle)
    }

    /// Adds an entry with its former handle.
    fn add_at(&self, table: TableId, handle: u32, entry: Entry, log: Option<&mut Vec<Undo>>) -> Result<()> {
        let mut t = self.switch.table(table);
        let (next, generation) = (t.next_generation(), t.free_generation(EntryHandle(handle)));
        let restored = t.restore_prepared(EntryHandle(handle), entry, |row| self.reset_direct(table, row));
        let got = restored.map_err(self.refused(table))?;
        if got.0 != handle {
            let _ = t.undo_insert(got, next);
            return Err(CommandError::new(format!(
                "handle {handle}: another entry has its place, or the table has no such place: its size is {}",
                t.spec().size
            )));
        }
        if let Some(log) = log {
            log.push(Undo::Insert(table, got, generation));
        }
        Ok(())
    }

    /// Called after many changes.
    pub(crate) fn publish(&self) {
        for table in 0..self.program().tables.len() as u32 {
            self.switch.table(TableId(table)).publish();
        }
    }

    /// The number of entries of all tables.
    pub fn entries(&self) -> usize {
        (0..self.program().tables.len() as u32).map(|id| self.switch.table(TableId(id)).len()).sum()
    }

    /// Undoes changes, the last one first. Changes that others made meanwhile remain. A table may refuse because packet
    /// workers are slow, or because memory for an entry is short: then the error states how many changes remain.
    pub(crate) fn take_back(&self, log: Vec<Undo>) -> Result<()> {
        let (mut stayed, mut first) = (0, None);
        let start = Instant::now();
        let end = start + TAKE_BACK_MAX;
        let mut delayed = false;
        // Retries until `end` what workers delay, and records what fails for good.
        let mut settle = |act: &mut dyn FnMut() -> Result<()>| {
            if delayed && start.elapsed() >= TAKE_BACK_END {
                stayed += 1;
                return;
            }
            let mut done = act();
            while done.as_ref().is_err_and(|error| &*error.code == BUSY) && Instant::now() < end {
                done = act();
            }
            if let Err(error) = done
                && [BUSY, NO_MEMORY].contains(&&*error.code)
            {
                stayed += 1;
                delayed |= &*error.code == BUSY;
                first.get_or_insert(error);
            }
        };
        for undo in log.into_iter().rev() {
            let other = match undo {
                Undo::Insert(table, handle, generation) => {
                    let refused = self.refused(table);
                    settle(&mut || {
                        self.switch.table(table).undo_insert(handle, generation).map_err(&refused)
                    });
                    continue;
                }
                Undo::Other(other) => *other,
            };
            match other {
                UndoOther::Updates(updates) => {
                    for (update, handle) in updates {
                        settle(&mut || self.apply(update.clone(), handle, &Made::default(), None).map(drop));
                    }
                }
                UndoOther::Entries(table, removed, generations) => {
                    for (slot, generation) in generations {
                        self.switch.table(table).set_free_generation(slot, generation);
                    }
                    let refused = self.refused(table);
                    let state = self.switch.state();
                    for Removed { handle, entry, counts, rates, timeout, age } in removed {
                        // Packets that match the restored entry are counted and metered as before.
                        let prepare = |row| {
                            for (counter, value) in &counts {
                                let _ = state.counter_write(counter.0, row, *value);
                            }
                            for (meter, rates) in &rates {
                                let _ = state.meter_set_rates(meter.0, row, *rates);
                            }
                        };
                        settle(&mut || {
                            let mut table = self.switch.table(table);
                            let restored = table.restore_aged(handle, entry.clone(), age, prepare);
                            let handle = restored.map_err(&refused)?;
                            if let Some(timeout) = timeout {
                                table.restore_timeout(handle, timeout, None);
                            }
                            Ok(())
                        });
                    }
                }
                UndoOther::GenerationMin(table, generation) => {
                    self.switch.table(table).set_generation_min(generation);
                }
                UndoOther::Timeout(table, handle, timeout, set_us) => {
                    self.switch.table(table).restore_timeout(handle, timeout, Some(set_us));
                }
                UndoOther::Counters(counter, values) => {
                    let _ = self.switch.state().counter_reset(counter.0);
                    for (index, value) in values {
                        let _ = self.write_counter(counter, index, value);
                    }
                }
                UndoOther::Registers(register, values) => {
                    let _ = self.switch.state().register_reset(register.0);
                    for (cell, value) in values {
                        let _ = self.write_register(register, cell, &value);
                    }
                }
                UndoOther::Meters(meter, values) => {
                    let _ = self.set_meters(meter, None);
                    for (index, rates) in values {
                        let _ = self.set_meter(meter, index, Some(rates));
                    }
                }
                UndoOther::Group(group, nodes) => self.put_back(Affected::Group(group), |m| {
                    for node in &nodes {
                        m.nodes.entry(*node).and_modify(|node| node.group = Some(group));
                    }
                    m.groups.insert(group, nodes);
                }),
                UndoOther::InGroup(node, (group, position)) => {
                    self.put_back(Affected::Group(group), |m| m.insert_into_group(node, group, position));
                }
                UndoOther::Node(handle, node, position) => {
                    let affected = position.map_or(Affected::None, |(group, _)| Affected::Group(group));
                    self.put_back(affected, |m| {
                        m.nodes.insert(handle, Node { group: None, ..node });
                        if let Some((group, position)) = position {
                            m.insert_into_group(handle, group, position);
                        }
                    });
                }
                UndoOther::GroupMembers(profile, group, members, weighted) => {
                    let again = || {
                        let (table, of) = self.profile_of(profile)?;
                        of.set_group(group, &members, weighted).map_err(self.refused(table))
                    };
                    settle(&mut || again().map(drop));
                }
                UndoOther::MulticastGroup(group, nodes) => self.put_back(Affected::Group(group), |m| {
                    take_group(m, group);
                    if let Some(nodes) = nodes {
                        m.groups.insert(group, nodes.iter().map(|(handle, _)| *handle).collect());
                        m.nodes.extend(nodes);
                    }
                }),
                UndoOther::Notes(notes) => self.put_notes(notes),
                UndoOther::NoLag(lag) => self.put_back(Affected::All, |m| drop(m.lags.remove(&lag))),
                UndoOther::Multicast(old) => self.set_multicast(old),
                UndoOther::Port(port, settings, wanted) => self.switch.queues().configure(|config| {
                    match settings {
                        Some(settings) => drop(config.ports.insert(port, *settings)),
                        None => drop(config.ports.remove(&port)),
                    }
                    config.wanted = wanted;
                }),
                UndoOther::Queues(old) => self.switch.queues().configure(|config| *config = *old),
            }
        }
        match first {
            None => Ok(()),
            Some(error) => Err(CommandError::new(format!("{} stayed: {error}", count(stayed, "change")))),
        }
    }

    /// The handle of the entry that has this key and priority.
    ///
    /// # Errors
    ///
    /// No entry has this key and priority: the code is `BAD_MATCH_KEY`.
    pub fn find_entry(&self, id: TableId, key: &[KeyMatch], priority: u32) -> Result<EntryHandle> {
        let found = self.switch.table(id).find(key, priority);
        // bmv2's code if no entry has the key.
        found.ok_or_else(|| {
            let name = &self.program().tables[id.index()].name;
            CommandError::refused(Subject::Table, "BAD_MATCH_KEY", "no entry has this key")
                .entity(name)
                .field("key")
        })
    }

    /// The cell behind an index of a counter or meter; for a direct one the index is an entry's handle, or [`DEFAULT_CELL`].
    fn cell_at(&self, cells: Cells, index: u32) -> Result<u32> {
        let Cells::Direct(id) = cells else { return Ok(index) };
        let table = self.switch.table(id);
        let handle = EntryHandle(index);
        match table.get(handle) {
            Some(_) => Ok(table.row_of(handle)),
            // The row of a miss.
            None if index == DEFAULT_CELL => Ok(0),
            None => Err(self.refused(id)(TableError::InvalidHandle(handle))),
        }
    }

    /// The handles of a direct counter's or meter's entries; none for other ones.
    fn direct_handles(&self, instance: InstanceId) -> Vec<u32> {
        let table = self.schema.direct_table(instance);
        table
            .map_or_else(Vec::new, |id| self.switch.table(id).entries().map(|(handle, _)| handle.0).collect())
    }

    /// Packets and bytes of a counter at an index; for a direct counter the index is an entry's handle.
    ///
    /// # Errors
    ///
    /// The program has no such counter, the index is outside the counter, or no entry has the handle.
    pub fn counter_value(&self, counter: InstanceId, index: u32) -> Result<CounterValue> {
        let cell = self.cell_at(self.schema.counter_cells(counter)?, index)?;
        self.switch.state().counter_read(counter.0, cell).map_err(|e| no_cell(Subject::Counter, e))
    }

    pub(crate) fn write_counter(&self, counter: InstanceId, index: u32, value: CounterValue) -> Result<()> {
        let cell = self.cell_at(self.schema.counter_cells(counter)?, index)?;
        self.switch.state().counter_write(counter.0, cell, value).map_err(|e| no_cell(Subject::Counter, e))
    }

    /// The values of a counter that are not 0, with their indices.
    pub(crate) fn counter_values(&self, counter: InstanceId) -> impl Iterator<Item = (u32, CounterValue)> {
        let default = self.schema.direct_table(counter).map(|_| DEFAULT_CELL);
        let direct = self.direct_handles(counter).into_iter().chain(default);
        let direct = direct.filter_map(move |index| Some((index, self.counter_value(counter, index).ok()?)));
        let direct = direct.filter(|(_, value)| *value != CounterValue::default());
        self.switch.state().counter_values(counter.0).chain(direct)
    }

    /// The rates of a meter, with the indices of the cells that have some. Those of a direct meter's default action are not among
    /// them.
    pub(crate) fn meter_values(&self, meter: InstanceId) -> impl Iterator<Item = (u32, Rates)> {
        let direct = self.direct_handles(meter).into_iter();
        let direct = direct.filter_map(move |index| Some((index, self.meter_rates(meter, index).ok()??)));
        self.switch.state().meter_values(meter.0).chain(direct)
    }

    /// Resets the direct counters and meters of a row for a new entry before packets can match it. The row may have
    /// counted for an earlier entry.
    fn reset_direct(&self, table: TableId, row: u32) {
        let state = self.switch.state();
        // The cells exist: the table has the row.
        for counter in &self.schema.shapes[table.index()].direct_counters {
            let _ = state.counter_write(counter.0, row, CounterValue::default());
        }
        for meter in &self.schema.shapes[table.index()].direct_meters {
            let _ = state.meter_set_rates(meter.0, row, None);
            let _ = state.meter_reset_counts(meter.0, row);
        }
    }

    fn direct_counts(&self, table: TableId, handle: EntryHandle) -> Vec<(InstanceId, CounterValue)> {
        let counters = &self.schema.shapes[table.index()].direct_counters;
        counters.iter().filter_map(|c| Some((*c, self.counter_value(*c, handle.0).ok()?))).collect()
    }

    fn direct_rates(&self, table: TableId, handle: EntryHandle) -> Vec<(InstanceId, Option<Rates>)> {
        let meters = &self.schema.shapes[table.index()].direct_meters;
        meters.iter().filter_map(|m| Some((*m, self.meter_rates(*m, handle.0).ok()?))).collect()
    }

    /// The rates of a meter's cell; for a direct meter the index is an entry's handle.
    ///
    /// # Errors
    ///
    /// The program has no such meter, the index is outside the meter, or no entry has the handle.
    pub fn meter_rates(&self, meter: InstanceId, index: u32) -> Result<Option<Rates>> {
        let cell = self.cell_at(self.schema.meter_cells(meter)?, index)?;
        self.switch.state().meter_rates(meter.0, cell).map_err(|e| no_cell(Subject::Meter, e))
    }

    pub(crate) fn set_meter(&self, meter: InstanceId, index: u32, rates: Option<Rates>) -> Result<()> {
        let cell = self.cell_at(self.schema.meter_cells(meter)?, index)?;
        self.switch.state().meter_set_rates(meter.0, cell, rates).map_err(|e| no_cell(Subject::Meter, e))
    }

    /// Sets the rates of all cells, except that of a direct meter's default action.
    fn set_meters(&self, meter: InstanceId, rates: Option<Rates>) -> Result<()> {
        let size = match self.program().instances[meter.index()].kind {
            InstanceKind::Meter { size, .. } => size,
            _ => 0,
        };
        (0..size).chain(self.direct_handles(meter)).try_for_each(|index| self.set_meter(meter, index, rates))
    }

    fn set_session(&self, number: u32, session: Option<Session>) {
        self.switch.state().change_destinations(|destinations| match session {
            Some(session) => drop(destinations.sessions.insert(number, session)),
            None => drop(destinations.sessions.remove(&number)),
        });
    }

    pub(crate) fn set_multicast(&self, new: Multicast) {
        self.switch.state().set_multicast(new);
    }

    /// Changes multicast back.
    fn put_back(&self, affected: Affected, change: impl FnOnce(&mut Multicast)) {
        let done: std::result::Result<(), MulticastError> =
            self.switch.state().change_multicast(|multicast| {
                change(multicast);
                Ok(((), affected))
            });
        debug_assert!(done.is_ok(), "it cannot fail");
    }

    /// Removes all groups, nodes and sessions.
    pub(crate) fn clear_replication(&self, mut log: Option<&mut Vec<Undo>>) {
        let mut note = |undo: Undo| {
            if let Some(log) = &mut log {
                log.push(undo);
            }
        };
        let state = self.switch.state();
        note(UndoOther::Multicast(state.multicast()).into());
        self.set_multicast(Multicast::default());
        for (number, session) in &state.destinations().sessions {
            note(session_update(*number, Some(session)).into());
            self.set_session(*number, None);
        }
    }

    /// Resets the switch: the effects of updates, registers and counters. Const entries and the
    /// constants of custom CRCs remain.
    fn reset_state(&self, mut log: Option<&mut Vec<Undo>>) -> Result<()> {
        // Before anything changes: cells come first, because putting them back takes no memory.
        let memory = claim_for_undo(log.as_ref().map_or(0, |_| self.undo_bytes_of_objects()))?;
        let mut change = |update| self.apply(update, None, &Made::default(), log.as_deref_mut()).map(drop);
        let program = self.program();
        for (instance, id) in program.instances.iter().zip(0..).map(|(i, id)| (i, InstanceId(id))) {
            match instance.kind {
                InstanceKind::Register { .. } => change(Update::ResetRegister(id))?,
                InstanceKind::Counter { .. } | InstanceKind::DirectCounter { .. } => {
                    change(Update::ResetCounter(id))?;
                }
                InstanceKind::Meter { .. } => change(Update::SetMeterArray { meter: id, rates: None })?,
                InstanceKind::DirectMeter { .. } => {
                    change(Update::SetMeterArray { meter: id, rates: None })?;
                    change(Update::SetMeter { meter: id, cell: Cell::Index(DEFAULT_CELL), rates: None })?;
                }
                InstanceKind::ActionProfile { .. } | InstanceKind::Digest { .. } => {}
            }
        }
        // Each table claims its own.
        drop(memory);
        for (table, id) in program.tables.iter().zip(0..).map(|(t, id)| (t, TableId(id))) {
            if table.hidden {
                change(Update::ClearValueSet(id))?;
                continue;
            }
            if !table.const_entries {
                change(Update::Clear(id))?;
            }
            change(Update::ResetDefault(id))?;
        }
        for (table, id) in program.tables.iter().zip(0..).map(|(t, id)| (t, TableId(id))) {
            let (Some(profile), Ok(of)) = (table.profile, self.profile(id)) else { continue };
            for (group, _) in of.groups() {
                change(Update::DeleteGroup { profile, group: group.into() })?;
            }
            for (member, _) in of.members() {
                change(Update::DeleteMember { profile, member: member.into() })?;
            }
        }
        self.clear_replication(log);
        Ok(())
    }

    /// The value of a register's cell.
    ///
    /// # Errors
    ///
    /// The program has no such register, or the index is outside the register.
    pub fn register_value(&self, register: InstanceId, cell: u32) -> Result<BigUint> {
        self.schema.register_cells(register)?;
        self.switch.state().register_read(register.0, cell).map_err(|e| no_cell(Subject::Register, e))
    }

    pub(crate) fn write_register(&self, register: InstanceId, cell: u32, value: &BigUint) -> Result<()> {
        self.switch.state().register_write(register.0, cell, value).map_err(|e| no_cell(Subject::Register, e))
    }

    /// The values of all cells of a register.
    ///
    /// # Errors
    ///
    /// The program has no such register.
    pub fn register_values(&self, register: InstanceId) -> Result<Vec<BigUint>> {
        let RegisterCells { size, .. } = self.schema.register_cells(register)?;
        (0..size).map(|cell| self.register_value(register, cell)).collect()
    }
}
