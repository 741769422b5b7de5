//! Tools around a switch, mainly traffic for tests.
//!
//! * [`traffic`]: captures of common protocols, with the table entries for shipped programs to forward them.
//! * [`derive`]: packets and entries for any program, derived from it.
//! * [`complexity`]: counts and pictures of a program and of each path through it.
//! * [`constructs`]: counts of what runs on each path, for predictions.
//! * [`calibration`]: generated programs from which the speed of a machine is learned.
//! * [`cases`]: programs with entries and packets on which predictions are checked.
//! * [`lb`]: how evenly hashes distribute hosts over servers.
//!
//! Nothing here is on the packet path of a switch.

pub mod calibration;
pub mod cases;
mod checksum;
pub mod complexity;
pub mod constructs;
pub mod derive;
mod error;
pub mod lb;
mod random;
pub mod traffic;

pub use error::Error;
