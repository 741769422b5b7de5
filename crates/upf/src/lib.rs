//! The control of programs/upf by PFCP (3GPP TS 29.244): messages, the rules of sessions, and what they mean in the switch's
//! tables.
//!
//! Nothing here opens a socket or knows the time: [`Node`] takes datagrams and returns what to do, so that all of it can be
//! tested
//! and fuzzed alone. docs/upf.md says which rule becomes which entry.
#![forbid(unsafe_code)]

pub mod config;
pub mod flow;
pub mod node;
pub mod rules;
pub mod session;
pub mod switch;
pub mod wire;

pub use config::Config;
pub use node::{Node, Output};
pub use session::Session;
pub use switch::{Change, Entry, Table};
