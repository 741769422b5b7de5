//! What a product needs around a switch: traffic to test it with.
//!
//! * [`traffic`]: captures of the usual protocols, with the table entries that make shipped programs carry
//!   them.
//! * [`derive`]: packets and entries for any program, derived from it.
//! * [`complexity`]: what a program and each way through it does, counted, and as a picture.
//! * [`lb`]: how evenly hashes spread hosts over servers.
//!
//! Nothing here is on a packet's way through a switch.

mod checksum;
pub mod complexity;
pub mod derive;
mod error;
pub mod lb;
mod random;
pub mod traffic;

pub use error::Error;
