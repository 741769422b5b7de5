//! Typed control of a switch.
//!
//! * [`Control`] changes a switch by batches of typed [`Update`]s ([`Control::write`], [`Batch`]) and reads its objects in pages
//!   ([`Control::read`]).
//! * [`Schema`] lists the objects of the program, names them, and holds every check of an update. Refusals are [`ControlError`]s.
//! * Typed accessors give one value each, and [`Control::read`] uses them too: [`Control::find_entry`],
//!   [`Control::counter_value`], [`Control::meter_rates`], [`Control::register_value`], [`Control::default_action`],
//!   [`Control::profile`], [`Control::note`]. Others give values that [`Entity`] lacks: [`Control::entries_of`],
//!   [`Control::queues`], [`Control::now_us`]. Colours of meters and the time since a hit are read from the
//!   [switch](Control::switch). P4Runtime also reads entries there, under the lock of one
//!   page: it needs these values together with the entries, and must not copy counters and meters that its client does not
//!   want. A Read of a million entries takes 0.8 s (docs/performance.md).
//! * [`SharedControl`] serves several clients of a running switch. It keeps the changes in a state file
//!   ([`SharedControl::keep`]), and changes ports and programs through the [`Host`] around the switch.
//! * [`Subscription`] gives the [`Event`]s of a switch.
//! * [`NamedUpdate`] is an update with names in place of ids, as JSON; [`NamedSelector`] is a selector, [`record::Record`] what
//!   it reads. [`Description`] is the schema as JSON.
//!
//! Runtime commands, packet tests and control connections are in the crate `p4jet-text`, which builds on this one. This crate has
//! no table state of its own and parses no packets.

mod call;
mod changes;
mod compilations;
mod control;
pub mod describe;
mod dump;
mod error;
pub mod event;
mod fields;
mod guard;
mod held;
mod host;
mod journal;
mod made;
mod make_record;
mod named;
mod named_read;
pub mod names;
mod notes;
mod presence;
mod queues;
mod read;
pub mod record;
mod restore;
mod rights;
pub mod schema;
mod sealed;
mod shared;
pub mod stats;
mod update;
pub mod value;
mod write;

pub use call::Call;
pub use control::{Control, NoteOwner};
pub use describe::{ActionInfo, Description, TableInfo};
pub use error::{ControlError, ErrorKind, INVALID_ARGUMENT, Subject, count};
pub use event::{Event, Subscription};
pub use fields::{KeyField, Param, param_names};
pub use guard::{MemoryClaim, claim_for_lines, guarded};
pub use held::each_held;
pub use host::{DryRun, Host, Keep, Program, Ready, Source, Swap, Swapped};
pub use journal::state_files;
pub use named::{Crc, NamedCell, NamedEntry, NamedNoted, NamedUpdate, RateRecord, Session};
pub use named_read::{NamedPage, NamedSelector};
pub use names::unknown;
pub use notes::{NOTE_BYTES_MAX, Note, Noted, PartChange};
pub use p4jet_dataplane::{PortChange, Topics};
pub use p4jet_externs::{CounterValue, CrcParams, Rates, Replica};
pub use p4jet_ir::{InstanceId, MatchKind, TableId};
pub use p4jet_tables::{Action, KeyMatch};
pub use presence::Presence;
pub use queues::{Queue, QueueUpdate, Queues, WEIGHT_MAX};
pub use read::{Entity, EntryState, GroupState, PAGE_MAX, Page, Selector};
pub use restore::ReadCommand;
pub use rights::{Opened, Rights};
pub use schema::{Cells, ObjectKind, RegisterCells, Schema};
pub use shared::{Loaded, NotWritten, Published, SharedControl, Transaction};
pub use stats::{PortStats, Stats};
pub use update::{
    Act, Atomicity, Cell, CloneDestination, DEFAULT_CELL, Direct, EntryKey, EntryRef, Ref, Share, Update,
};
pub use value::parse_value;
pub use write::{Batch, Mark, Written};
