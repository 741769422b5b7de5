//! Match-action tables: the control plane's side, and the structures that the packet path reads.
//!
//! * [`Table`]: the writer's side, for the control plane: checks, handles, entries, and [`Table::lookup`], the reference
//!   implementation that the interpreter uses.
//! * [`ActionProfile`]: members and groups that the entries of several tables may name instead of actions.
//! * [`View`]: what packet workers and generated code read, without ever waiting. Its documentation is the contract with
//!   the code generator.
//!
//! # Consistency
//!
//! Every lookup sees one state: its result (action, action data, default action and group member) is what the table held
//! at one moment between the time when the reader loaded its view ([`ViewHandle::load`], once per batch) and the end of
//! the lookup. Lookups of one key never go back in time: a later lookup that loads its view afterwards sees at least what
//! an earlier one saw. A change is visible to every view that is loaded after the changing call has returned. While a
//! change that concerns several keys is under way, a lookup of one key may see it before a lookup of another does; the
//! keys of a batch are looked up independently.
//!
//! * A row that readers may see is never rewritten.
//! * Exact keys and IPv4 routes have one place each, which a single store changes.
//! * Tries and decision trees announce each change. A search that meets more than one relevant change is repeated
//!   (`changes.rs`).
//! * Before it changes something that lookups read late, the writer waits for readers that may have missed a change of
//!   what they read first (`steps.rs`).
//! * Larger changes are built separately and published by one pointer store.
//! * Replaced memory is reused only after all readers have passed a quiet point: they [`pin`] once per batch, while they
//!   use a view.
//!
//! No change waits for a whole table. A table that outgrows its memory moves to a larger one, a few entries with every
//! insertion (`growing.rs`). Short-lived threads rebuild decision trees and obtain large pages from the system.

mod action;
mod by_slot;
mod changes;
mod classifier;
mod error;
mod exact;
mod explain;
mod grace;
mod growing;
mod index;
mod key;
mod lpm;
mod lpm32;
mod memory;
mod parted;
mod probe;
mod profile;
mod quotient;
mod routes;
mod rows;
mod steps;
mod table;
mod timeouts;
mod view;

pub use error::TableError;
pub use explain::{Difference, Explanation, Hit, HitReason, Near};
pub use grace::reclaim;
pub use memory::NoMemory;
pub use p4jet_ir::{KeyMatch, MatchKind};
pub use profile::{ActionProfile, GroupPlaces, Sizes};
pub use table::Table;
pub use timeouts::{HIT_SHIFT, Idle, Life, SavedTimeout};
pub use view::{Guard, Structure, View, ViewHandle, lookup_fast, pin, select_batch, structure_of};

use num_bigint::BigUint;

/// A key field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Width in bits.
    pub width: u32,
    /// Its match kind.
    pub kind: MatchKind,
}

/// An action as a table sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionSpec {
    /// Width in bits of each action data parameter.
    pub param_widths: Vec<u32>,
}

/// The shape of a table, which never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Key fields in order.
    pub keys: Vec<KeySpec>,
    /// The actions; entries refer to them by index.
    pub actions: Vec<ActionSpec>,
    /// Maximum number of entries.
    pub size: u32,
    /// Every entry gets a row of its own, whose index is then the index of its direct counter and meter.
    /// Otherwise entries with equal action and data share a row.
    pub row_per_entry: bool,
    /// Entries can have a timeout ([`Table::set_timeout`]). Then each entry has a row of its own, whose last word holds
    /// the time of the last hit; lookups update it.
    pub idle_timeout: bool,
    /// The default action that the program declares.
    pub default: Action,
}

/// An action with its data. In a table with an action profile also a member or a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// Index in [`TableSpec::actions`], or [`Self::MEMBER`] or [`Self::GROUP`].
    pub action: u32,
    /// One value per parameter; the handle of a member or group.
    pub data: Vec<BigUint>,
}

impl Action {
    /// In row 0: the default action has data, or is a member or group, so readers use the default row.
    pub const DEFAULT: u32 = u32::MAX - 3;
    /// The data is the handle of a member.
    pub const MEMBER: u32 = u32::MAX - 2;
    /// The data is the handle of a group.
    pub const GROUP: u32 = u32::MAX - 1;
    /// No action: the result of a group without members.
    pub const NONE: u32 = u32::MAX;

    /// Returns the action that refers to the member with this handle.
    pub fn member(handle: u32) -> Action {
        Action { action: Self::MEMBER, data: vec![handle.into()] }
    }

    /// Returns the action that refers to the group with this handle.
    pub fn group(handle: u32) -> Action {
        Action { action: Self::GROUP, data: vec![handle.into()] }
    }

    /// Returns the member's handle, if this refers to a member.
    pub fn as_member(&self) -> Option<u32> {
        self.handle(Self::MEMBER)
    }

    /// Returns the group's handle, if this refers to a group.
    pub fn as_group(&self) -> Option<u32> {
        self.handle(Self::GROUP)
    }

    fn handle(&self, of: u32) -> Option<u32> {
        if self.action != of {
            return None;
        }
        u32::try_from(self.data.first()?).ok()
    }
}

/// The action to which an entry's action resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The member, if the action refers to a member or group.
    pub member: Option<u32>,
    /// The action to run; `None` for a group without members.
    pub action: Option<Action>,
}

/// A table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One match per key field.
    pub key: Vec<KeyMatch>,
    /// Of several matching entries in a table with ternary, range or optional fields, the smallest number wins; elsewhere
    /// it is ignored and 0.
    pub priority: u32,
    /// The action on a match.
    pub action: Action,
}

/// Identifies an entry for the control plane: the slot in the low 24 bits, the slot's generation above (as in bmv2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryHandle(pub u32);
