//! Errors of table operations.

use crate::{EntryHandle, MatchKind};
use std::fmt;

/// Why a table operation was refused. A refused operation changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// The table is full.
    Full {
        /// The maximum.
        size: u32,
    },
    /// An entry with this key (and priority) already exists.
    Duplicate {
        /// The existing entry.
        existing: EntryHandle,
    },
    /// No entry has this handle.
    InvalidHandle(EntryHandle),
    /// The entry with this handle was deleted; its slot has another entry now.
    ExpiredHandle {
        /// The requested handle.
        found: EntryHandle,
        /// The handle of the slot's current entry.
        current: EntryHandle,
    },
    /// The table has no key, so it cannot have entries.
    NoKey,
    /// The number of match fields differs from the number of key fields.
    KeyCount {
        /// Number of fields given.
        found: usize,
        /// Number of key fields of the table.
        expected: usize,
    },
    /// A match field is of the wrong kind.
    KeyKind {
        /// Which key field.
        field: usize,
        /// Kind given.
        found: MatchKind,
        /// Kind of the field.
        expected: MatchKind,
    },
    /// A value or mask has more bits than its field.
    KeyWidth {
        /// Which key field.
        field: usize,
        /// Bits that the value needs.
        found: u64,
        /// Bits of the field.
        expected: u32,
    },
    /// A prefix is longer than its field.
    PrefixLength {
        /// Which key field.
        field: usize,
        /// Length given.
        found: u32,
        /// Bits of the field.
        expected: u32,
    },
    /// The high end of a range is below its low end.
    EmptyRange {
        /// Which key field.
        field: usize,
    },
    /// The table has no such action.
    UnknownAction {
        /// Index given.
        found: u32,
        /// Number of actions of the table.
        expected: usize,
    },
    /// The number of action data values is wrong.
    DataCount {
        /// Which action.
        action: u32,
        /// Number of values given.
        found: usize,
        /// Number of parameters of the action.
        expected: usize,
    },
    /// A value for an action parameter has too many bits.
    DataWidth {
        /// Which action.
        action: u32,
        /// Which parameter.
        param: usize,
        /// Bits that the value needs.
        found: u64,
        /// Bits of the parameter.
        expected: u32,
    },
    /// The action profile has no room for another member or group.
    ProfileFull {
        /// Members or groups.
        what: &'static str,
        /// The maximum.
        size: u32,
    },
    /// The table has no action profile: its entries name actions.
    NoProfile,
    /// The action profile has no groups because it is not a selector.
    NoGroups,
    /// No member has this handle.
    InvalidMember(u32),
    /// No group has this handle.
    InvalidGroup(u32),
    /// Entries or groups name the member.
    MemberUsed(u32),
    /// Entries name the group.
    GroupUsed(u32),
    /// The member is in the group already.
    MemberInGroup {
        /// The member.
        member: u32,
        /// The group.
        group: u32,
    },
    /// The member is not in the group.
    MemberNotInGroup {
        /// The member.
        member: u32,
        /// The group.
        group: u32,
    },
    /// The group has no members, so no entry can name it.
    EmptyGroup(u32),
    /// Packet workers still use too much of what earlier changes replaced. The same call can succeed later.
    Busy,
    /// The system refused memory for the change: the reason.
    NoMemory(String),
}

impl From<crate::NoMemory> for TableError {
    fn from(crate::NoMemory(why): crate::NoMemory) -> TableError {
        TableError::NoMemory(why)
    }
}

impl TableError {
    /// The name of this error in bmv2 and its tools.
    pub fn code(&self) -> &'static str {
        match self {
            TableError::Full { .. } => "TABLE_FULL",
            TableError::Duplicate { .. } => "DUPLICATE_ENTRY",
            TableError::InvalidHandle(_) => "INVALID_HANDLE",
            TableError::ExpiredHandle { .. } => "EXPIRED_HANDLE",
            TableError::NoKey => "NO_TABLE_KEY",
            TableError::KeyCount { .. }
            | TableError::KeyKind { .. }
            | TableError::KeyWidth { .. }
            | TableError::PrefixLength { .. }
            | TableError::EmptyRange { .. } => "BAD_MATCH_KEY",
            TableError::UnknownAction { .. } => "INVALID_ACTION_NAME",
            TableError::DataCount { .. } | TableError::DataWidth { .. } => "BAD_ACTION_DATA",
            TableError::NoProfile => "WRONG_TABLE_TYPE",
            TableError::NoGroups => "NO_ACTION_PROFILE_SELECTION",
            TableError::InvalidMember(_) => "INVALID_MBR_HANDLE",
            TableError::InvalidGroup(_) => "INVALID_GRP_HANDLE",
            TableError::MemberUsed(_) => "MBR_STILL_USED",
            TableError::GroupUsed(_) => "GRP_STILL_USED",
            TableError::MemberInGroup { .. } => "MBR_ALREADY_IN_GRP",
            TableError::MemberNotInGroup { .. } => "MBR_NOT_IN_GRP",
            TableError::EmptyGroup(_) => "EMPTY_GRP",
            TableError::ProfileFull { .. } | TableError::Busy | TableError::NoMemory(_) => "ERROR",
        }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Full { size } => write!(f, "the table is full: it has all of its {size} entries"),
            TableError::Duplicate { existing } => {
                write!(f, "an entry with this key already exists: handle {}", existing.0)
            }
            TableError::InvalidHandle(h) => write!(f, "no entry has handle {}", h.0),
            TableError::ExpiredHandle { found, current } => {
                write!(
                    f,
                    "the entry with handle {} was deleted; its slot now holds handle {}",
                    found.0, current.0
                )
            }
            TableError::NoKey => {
                write!(f, "the table has no key, so it can have no entries, only a default action")
            }
            TableError::KeyCount { found, expected } => {
                write!(f, "found {found} match fields, expected {expected}")
            }
            TableError::KeyKind { field, found, expected } => {
                write!(f, "key field {field}: found {found} match, expected {expected}")
            }
            TableError::KeyWidth { field, found, expected } => {
                write!(f, "key field {field}: found a value of {found} bits, expected at most {expected}")
            }
            TableError::PrefixLength { field, found, expected } => {
                write!(f, "key field {field}: found prefix length {found}, expected at most {expected}")
            }
            TableError::EmptyRange { field } => {
                write!(
                    f,
                    "key field {field}: found a range whose end is below its start, expected low <= high"
                )
            }
            TableError::UnknownAction { found, expected } => {
                write!(f, "found action {found}, expected one of the table's {expected} (numbered from 0)")
            }
            TableError::DataCount { action, found, expected } => {
                write!(f, "action {action}: found {found} parameters, expected {expected}")
            }
            TableError::DataWidth { action, param, found, expected } => {
                write!(
                    f,
                    "action {action}: parameter {param}: found a value of {found} bits, expected at most {expected}"
                )
            }
            TableError::ProfileFull { what, size } => {
                write!(f, "the action profile is full: it has all of its {size} {what}")
            }
            TableError::NoProfile => {
                write!(f, "the table has no action profile: its entries name actions, not members or groups")
            }
            TableError::NoGroups => write!(f, "the action profile has no selector, so it has members only"),
            TableError::InvalidMember(member) => write!(f, "no member has handle {member}"),
            TableError::InvalidGroup(group) => write!(f, "no group has handle {group}"),
            TableError::MemberUsed(member) => {
                write!(f, "entries, a default or groups still name member {member}: change those first")
            }
            TableError::GroupUsed(group) => {
                write!(f, "entries or a default still name group {group}: change those first")
            }
            TableError::MemberInGroup { member, group } => {
                write!(f, "member {member} is in group {group} already")
            }
            TableError::MemberNotInGroup { member, group } => {
                write!(f, "member {member} is not in group {group}")
            }
            TableError::EmptyGroup(group) => {
                write!(f, "group {group} has no members: add one before an entry names it")
            }
            TableError::Busy => {
                write!(f, "packet workers still use too much of what earlier changes replaced; try again")
            }
            TableError::NoMemory(why) => write!(f, "no memory: {why}"),
        }
    }
}

impl std::error::Error for TableError {}
