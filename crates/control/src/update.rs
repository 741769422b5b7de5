//! Changes of a switch, as values.

use crate::notes::{Note, Noted};
use crate::queues::QueueUpdate;
use num_bigint::BigUint;
use p4jet_externs::{CounterValue, CrcParams, Rates, Replica};
use p4jet_ir::{InstanceId, TableId};
use p4jet_tables::{Action, KeyMatch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One change. Ids come from the [`Schema`](crate::Schema).
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Update {
    /// Adds an entry to a table. Creates the entry's handle.
    Insert {
        table: TableId,
        /// One match for each field of the table's key.
        key: Vec<KeyMatch>,
        /// The smallest number wins, 0 to 2147483647; 0 where entries of the table have no priority.
        priority: u32,
        act: Act,
    },
    /// Changes the action of an entry.
    Modify { table: TableId, entry: EntryRef, act: Act },
    /// Deletes an entry.
    Delete { table: TableId, entry: EntryRef },
    /// Deletes all entries of a table except const entries.
    Clear(TableId),
    /// Sets the default action of a table.
    SetDefault { table: TableId, act: Act },
    /// Restores the default action that the program declares.
    ResetDefault(TableId),
    /// Sets the idle time in milliseconds after which an entry has aged; 0 for never.
    SetTimeout { table: TableId, entry: EntryRef, timeout_ms: u32 },

    /// Adds a member to an action profile. Creates the member's handle. The action is an index in the list of a table that
    /// uses the profile.
    CreateMember { profile: InstanceId, action: Action },
    /// Changes the action of a member.
    ModifyMember { profile: InstanceId, member: Ref, action: Action },
    /// Deletes a member that nothing refers to.
    DeleteMember { profile: InstanceId, member: Ref },
    /// Adds an empty group to an action selector. Creates the group's handle.
    CreateGroup { profile: InstanceId },
    /// Deletes a group that no entry refers to.
    DeleteGroup { profile: InstanceId, group: Ref },
    /// Adds a member to a group.
    AddToGroup { profile: InstanceId, group: Ref, member: Ref },
    /// Removes a member from a group.
    RemoveFromGroup { profile: InstanceId, group: Ref, member: Ref },

    /// Replaces the members of a group. A member with weight 2 is chosen twice as often as one with weight 1, and a member with
    /// weight 0 never. Entries may refer to the group even if it is empty.
    SetGroup { profile: InstanceId, group: Ref, members: Vec<Share> },

    /// Sets one cell of a counter.
    WriteCounter { counter: InstanceId, cell: Cell, value: CounterValue },
    /// Sets all cells of a counter to 0.
    ResetCounter(InstanceId),
    /// Sets one cell of a register.
    WriteRegister { register: InstanceId, index: u32, value: BigUint },
    /// Sets all cells of a register to 0.
    ResetRegister(InstanceId),
    /// Sets the committed and the peak rate of one cell of a meter, in packets or bytes per microsecond, as the meter counts, with
    /// bursts in packets or bytes; `None` removes them.
    SetMeter { meter: InstanceId, cell: Cell, rates: Option<Rates> },
    /// Like [`Update::SetMeter`], for all cells.
    SetMeterArray { meter: InstanceId, rates: Option<Rates> },
    /// Sets the constants of a custom CRC, by its number in the schema.
    SetCrc { crc: u32, params: CrcParams },

    /// Adds a value to a parser value set, unless it is present.
    AddToValueSet { set: TableId, key: Vec<KeyMatch> },
    /// Removes a value from a parser value set, if it is present.
    RemoveFromValueSet { set: TableId, key: Vec<KeyMatch> },
    /// Removes all values from a parser value set.
    ClearValueSet(TableId),

    /// Creates a multicast group, 1 to 65535, unless it exists.
    CreateMulticastGroup(u32),
    /// Destroys a multicast group.
    DestroyMulticastGroup(u32),
    /// Creates a multicast node, which belongs to no group yet. Creates the node's handle.
    CreateNode {
        /// The replication id that its copies carry.
        replication_id: u32,
        ports: BTreeSet<u32>,
        lags: BTreeSet<u32>,
    },
    /// Changes the ports and lags of a node.
    UpdateNode { node: Ref, ports: BTreeSet<u32>, lags: BTreeSet<u32> },
    /// Creates or replaces a multicast group with these copies, all different, in one step; `None`
    /// deletes it. Its former nodes are destroyed.
    SetMulticastGroup { group: u32, replicas: Option<Vec<Replica>> },
    /// Adds a node to a multicast group.
    Associate { group: u32, node: Ref },
    /// Removes a node from a multicast group.
    Dissociate { group: u32, node: Ref },
    /// Destroys a node.
    DestroyNode(Ref),
    /// Sets the ports of a link aggregation group.
    SetLag { lag: u32, ports: BTreeSet<u32> },
    /// Creates or replaces a clone session.
    SetSession {
        session: u32,
        to: CloneDestination,
        /// The length to which copies are cut, in bytes: 1 to 65535; `None` for whole packets.
        bytes_max: Option<u32>,
    },
    /// Creates or replaces a clone session with several copies, all different. The class of
    /// service is 0 to 7; `bytes_max` as in [`Update::SetSession`].
    SetReplicas { session: u32, replicas: Vec<Replica>, class_of_service: u32, bytes_max: Option<u32> },
    /// Deletes a clone session.
    DeleteSession(u32),

    /// Sets a note about an object; `None` deletes it.
    Note { of: Noted, note: Option<Note> },
    /// Changes the output queues.
    Queue(QueueUpdate),
    /// Restores the initial state: undoes all changes except the constants of CRCs and the settings of output queues, and
    /// clears registers and counters.
    Reset,
}

impl Update {
    /// True if it sets all cells of counters, registers or meters, which may number millions.
    pub(crate) fn is_of_arrays(&self) -> bool {
        use Update::{Reset, ResetCounter, ResetRegister, SetMeterArray};
        matches!(self, ResetCounter(_) | ResetRegister(_) | SetMeterArray { .. } | Reset)
    }

    /// True if it changes a cell of this counter, register or meter.
    pub(crate) fn is_of_cells(&self, of: InstanceId) -> bool {
        match self {
            Update::WriteCounter { counter: id, .. }
            | Update::ResetCounter(id)
            | Update::WriteRegister { register: id, .. }
            | Update::ResetRegister(id)
            | Update::SetMeter { meter: id, .. }
            | Update::SetMeterArray { meter: id, .. } => *id == of,
            Update::Reset => true,
            _ => false,
        }
    }

    /// True if it creates an object with a handle.
    pub fn makes(&self) -> bool {
        matches!(
            self,
            Update::Insert { .. }
                | Update::CreateMember { .. }
                | Update::CreateGroup { .. }
                | Update::CreateNode { .. }
        )
    }
}

/// The action of an entry or of a table's default.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// An action, by its index in the table's list, with its data.
    Action(Action),
    /// A member of the table's action profile.
    Member(Ref),
    /// A group of the table's action selector.
    Group(Ref),
}

/// An object that has a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RefForm", into = "RefForm")]
pub enum Ref {
    /// Its handle.
    Handle(u32),
    /// The object that an earlier update of the same batch creates, by the update's position, from 0.
    Made(u32),
}

impl From<u32> for Ref {
    fn from(handle: u32) -> Ref {
        Ref::Handle(handle)
    }
}

/// A [`Ref`] as JSON: a number, or `{"made": 3}`.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = r#"expected a handle, or `{"made": N}` with the number of an earlier update of the batch"#
)]
enum RefForm {
    Handle(u32),
    Made { made: u32 },
}

impl From<RefForm> for Ref {
    fn from(form: RefForm) -> Ref {
        match form {
            RefForm::Handle(handle) => Ref::Handle(handle),
            RefForm::Made { made } => Ref::Made(made),
        }
    }
}

impl From<Ref> for RefForm {
    fn from(of: Ref) -> RefForm {
        match of {
            Ref::Handle(handle) => RefForm::Handle(handle),
            Ref::Made(made) => RefForm::Made { made },
        }
    }
}

/// A member of a group with its share of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The handle of the member.
    pub member: u32,
    /// Its weight: the number of its places in the group.
    pub weight: u32,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryRef {
    /// By its handle.
    Handle(Ref),
    /// By its key and priority.
    Key(Box<EntryKey>),
}

/// The key and priority of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryKey {
    /// One match for each field of the table's key.
    pub key: Vec<KeyMatch>,
    /// 0 where entries of the table have no priority.
    pub priority: u32,
}

impl From<u32> for EntryRef {
    fn from(handle: u32) -> EntryRef {
        EntryRef::Handle(Ref::Handle(handle))
    }
}

/// A cell of a counter or meter.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// By its index, from 0.
    Index(u32),
    /// The cell of an entry; of direct counters and meters only.
    Entry(EntryRef),
}

/// The cell of a direct counter or meter for packets that match no entry, in place of an entry's handle.
pub const DEFAULT_CELL: u32 = u32::MAX;

/// The direct counter and meter of a new entry, from its first packet on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Direct {
    /// The value of a direct counter of the table; 0 if unset.
    pub counter: Option<(InstanceId, CounterValue)>,
    /// The rates of a direct meter of the table; none if unset.
    pub meter: Option<(InstanceId, Rates)>,
}

/// The destination of the copies of a clone session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneDestination {
    /// To a port.
    Port(u32),
    /// To a multicast group.
    Group(u32),
}

/// The effect of a refused update on the rest of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// All others are applied.
    ContinueOnError,
    /// None is applied: the changes of earlier ones are undone.
    AllOrNothing,
}
