//! Control of a switch.
//!
//! * [`Control`]: changes a switch by typed [`Update`]s, one batch at a time ([`Control::write`]). [`Schema`] says what there is
//!   in the program; it holds every check. Refusals are [`CommandError`]s.
//!   [`Control::read`] gives back what is there, a page at a time.
//! * [`SharedControl`]: the same for several clients of a running switch; [`Host`] is what else they may ask of it.
//! * [`NamedUpdate`]: an update with names in place of ids, as JSON.
//! * Runtime commands, as users of bmv2 know them, are one way to make updates: [`Control::reply`], [`Control::load`].
//! * [`server`], [`client`]: the two ends of a control connection; [`wire`] is what goes over it.
//! * [`Message`]: what a switch tells those who have subscribed, over a connection
//!   ([`client::Client::subscribe`]) or in the same process ([`SharedControl::subscribe`]).
//! * [`prompt`]: the interactive prompt.
//! * [`packet`]: frames as text.
//! * [`stf`]: packet tests.
//!
//! This crate holds no table state of its own, and looks into a packet only to say how it differs from what a test expects.

pub mod client;
mod commands;
mod error;
mod files;
mod guard;
mod host;
mod journal;
mod messages;
mod named;
mod names;
pub mod packet;
mod peer;
pub mod prompt;
mod queues;
mod read;
mod rights;
mod schema;
mod sealed;
pub mod server;
mod shared;
mod state;
pub mod stf;
mod update;
mod value;
pub mod wire;
mod write;

pub use commands::{LoadSummary, Reply};
pub use error::{CommandError, ErrorKind, LoadError};
pub use files::cannot_use_state;
pub use host::{Host, Observed, PortInfo, Program, Swap, Swapped};
pub use messages::{Event, Message, Subscription, TOPICS, parse_topics};
pub use named::{Call, Crc, NamedCell, NamedEntry, NamedUpdate, RateRecord, Session};
pub use names::unknown;
pub use p4jet_dataplane::{PortChange, Topics};
pub use peer::Users;
pub use queues::{Queue, QueueUpdate};
pub use read::{Entity, EntryState, PAGE_MAX, Page, Selector};
pub use rights::{Opened, Rights};
pub use schema::Schema;
pub use shared::SharedControl;
pub use update::{Act, Atomicity, Cell, EntryRef, Mirror, Ref, Update};
pub use value::parse_value;
pub use write::{Control, Written};
