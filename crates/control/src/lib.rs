//! The control plane's text side: runtime commands as users of bmv2 know them, and packet tests in STF.
//!
//! * [`Control`]: carries out commands on a switch, one line or one file at a time.
//! * [`SharedControl`]: the same for several clients of a running switch; [`Host`] is what else they may ask of it.
//! * [`server`], [`client`]: the two ends of a control connection; [`wire`] is what goes over it.
//! * [`Message`]: what a switch tells those who have subscribed, over a connection
//!   ([`client::Client::subscribe`]) or in the same process ([`SharedControl::subscribe`]).
//! * [`prompt`]: the interactive prompt.
//! * [`packet`]: frames as text.
//! * [`stf`]: packet tests.
//!
//! This crate turns text into operations on the tables and the extern state of a [`p4jet_dataplane::Switch`]. It holds no
//! table state of its own, and looks into a packet only to say how it differs from what a test expects.

pub mod client;
mod commands;
mod error;
mod files;
mod guard;
mod host;
mod journal;
mod messages;
mod names;
pub mod packet;
mod peer;
mod program;
pub mod prompt;
mod rights;
mod sealed;
pub mod server;
mod shared;
pub mod stf;
mod value;
pub mod wire;

pub use commands::{Control, LoadSummary, Reply};
pub use error::{CommandError, ErrorKind, LoadError};
pub use files::cannot_use_state;
pub use host::{Host, Observed, PortInfo, Program, Swap, Swapped};
pub use messages::{Message, Subscription, TOPICS, parse_topics};
pub use names::unknown;
pub use p4jet_dataplane::Topics;
pub use peer::Users;
pub use rights::{Opened, Rights};
pub use shared::SharedControl;
pub use value::parse_value;
