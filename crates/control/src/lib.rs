//! The control plane's text side: runtime commands as users of bmv2 know them, and packet tests in STF.
//!
//! * [`Control`]: carries out commands on a switch, one line or one file at a time.
//! * [`prompt`]: the interactive prompt.
//! * [`stf`]: packet tests.
//!
//! This crate turns text into operations on the tables and the extern state of a [`p4jet_dataplane::Switch`]. It holds no
//! table state of its own, and looks into a packet only to say how it differs from what a test expects.

mod commands;
mod error;
mod names;
mod program;
pub mod prompt;
pub mod stf;
mod value;

pub use commands::{Control, LoadSummary};
pub use error::{CommandError, ErrorKind, LoadError};
