//! The controller of programs/vqueue, and the calculation of worst-case delays.
//!
//! * [`calculator`]: delays of slices on a link with strict priorities, and their inversions.
//! * [`Config`]: the slices, read from a file and checked ([`Mistake`]), also against the calculator.
//! * [`entries()`]: the table entries for them; [`Changes`]: the updates from one set of entries to another.
//! * [`controller`]: keeps a switch and a file in agreement.
//! * [`Reading`]: what a switch has counted for each slice.
//!
//! All state is on the switch: a controller that starts reads it there.

pub mod calculator;
mod config;
pub mod controller;
mod entries;
mod reading;

pub use config::{Config, Match, Mistake, Scheme, Slice};
pub use entries::{Changes, Entries, Entry, Place, commands, entries, read_entries};
pub use reading::{Counts, Reading};
