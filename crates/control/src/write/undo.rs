//! Undo steps.
//!
//! A step is an [`Update`] where one restores the old state exactly. Others hold what no client may set: the generation of a
//! slot, the age of an entry among those of equal priority, the time at which an idle time was set, positions in groups. The step
//! for a new entry, by far the most frequent one, is a few bytes, because a batch may have a million of them. One thing is not
//! restored: a meter whose rates are set has full buckets afterwards.

use crate::error::{BUSY, ControlError, NO_MEMORY, Result, count};
use crate::notes::{Note, Noted};
use crate::update::Update;
use num_bigint::BigUint;
use p4jet_dataplane::{PortSettings, QueueConfig};
use p4jet_externs::{CounterValue, Group, Multicast, Node, Place, Rates};
use p4jet_ir::{InstanceId, TableId};
use p4jet_tables::{Entry, EntryHandle, SavedTimeout};
use std::time::{Duration, Instant};

/// Maximum time for which undoing changes waits for packet workers.
const TAKE_BACK_MAX: Duration = Duration::from_secs(10);
/// Once a worker has delayed an undo step for [`TAKE_BACK_MAX`], later steps are abandoned after this time, because each would wait a
/// second.
const TAKE_BACK_END: Duration = Duration::from_secs(20);

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
    /// Deleted entries, and the generations that did not follow from entries.
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
    /// A destroyed multicast group, whose nodes remain.
    Group(u32, Group),
    /// A multicast node that has left its group, and its place there.
    InGroup(u32, Place),
    /// A destroyed multicast node; it knows its place in its group.
    Node(u32, Node),
    /// A new link aggregation group.
    NoLag(u32),
    /// The members of a group with their places, and whether these were set.
    GroupMembers(InstanceId, u32, Vec<(u32, u32)>, bool),
    /// A member that has left a group whose places were set, with its places there.
    MemberOfWeighted(InstanceId, u32, (u32, u32)),
    /// A multicast group and its nodes with their handles; `None` if the group did not exist.
    MulticastGroup(u32, Option<(Group, Vec<(u32, Node)>)>),
    /// Notes.
    Notes(Vec<(Noted, Note)>),
    /// All of multicast.
    Multicast(Multicast),
    /// The queues of a port, and whether the program ran with queues.
    Port(u32, Option<Box<PortSettings>>, bool),
    /// All queues.
    Queues(Box<QueueConfig>),
}

impl Undo {
    /// The number of cells whose old values it holds.
    pub(crate) fn cells(&self) -> usize {
        let Undo::Other(other) = self else { return 0 };
        match &**other {
            UndoOther::Counters(_, cells) => cells.len(),
            UndoOther::Registers(_, cells) => cells.len(),
            UndoOther::Meters(_, cells) => cells.len(),
            _ => 0,
        }
    }
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
    pub(crate) handle: EntryHandle,
    pub(crate) entry: Entry,
    pub(crate) counts: Vec<(InstanceId, CounterValue)>,
    pub(crate) rates: Vec<(InstanceId, Option<Rates>)>,
    pub(crate) timeout: Option<SavedTimeout>,
    /// Its age among entries of the same priority.
    pub(crate) age: Option<u64>,
}

/// Undoes changes: retries what packet workers delay, and counts what fails for good.
pub(crate) struct Retries {
    start: Instant,
    delayed: bool,
    stayed: usize,
    first: Option<ControlError>,
}

impl Retries {
    pub(crate) fn begin() -> Retries {
        Retries { start: Instant::now(), delayed: false, stayed: 0, first: None }
    }

    /// Undoes one change.
    pub(crate) fn run(&mut self, mut act: impl FnMut() -> Result<()>) {
        if self.delayed && self.start.elapsed() >= TAKE_BACK_END {
            self.stayed += 1;
            return;
        }
        let mut done = act();
        while done.as_ref().is_err_and(|error| &*error.code == BUSY) && self.start.elapsed() < TAKE_BACK_MAX {
            done = act();
        }
        if let Err(error) = done
            && [BUSY, NO_MEMORY].contains(&&*error.code)
        {
            self.stayed += 1;
            self.delayed |= &*error.code == BUSY;
            self.first.get_or_insert(error);
        }
    }

    /// An error states how many changes are left.
    pub(crate) fn end(self) -> Result<()> {
        match self.first {
            None => Ok(()),
            Some(error) => Err(ControlError::new(format!("{} left: {error}", count(self.stayed, "change")))),
        }
    }
}

/// The error because of which changes were undone, with the changes that remain.
pub(crate) fn with_rest(error: ControlError, undone: Result<()>) -> ControlError {
    match undone {
        Ok(()) => error,
        Err(also) => {
            ControlError { message: format!("{}; undoing failed: {}", error.message, also.message), ..error }
        }
    }
}
