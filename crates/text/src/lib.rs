//! The text interface of a switch: a layer over the typed interface of `p4jet-control`.
//!
//! * [`Commands`]: the runtime commands of bmv2.
//! * [`server`], [`client`]: the two ends of a control connection; [`wire`] is their protocol.
//! * [`Message`]: messages to subscribers ([`client::Client::subscribe`], [`Message::next_of`]).
//! * [`prompt`]: the interactive prompt.
//! * [`packet`]: frames as text.
//! * [`stf`]: packet tests.

pub mod client;
mod commands;
mod error;
mod files;
mod messages;
pub mod packet;
mod peer;
pub mod prompt;
pub mod server;
mod shared;
pub mod stf;
pub mod wire;

pub use commands::{Commands, LoadSummary, Notation, Reply, capture_spec, captures_text, runtime_command};
pub use error::{LineError, LoadError};
pub use files::cannot_use_state;
pub use messages::{Message, TOPICS, parse_topics};
pub use peer::{Peer, Users};
pub use shared::{answer, read_command, reply};
