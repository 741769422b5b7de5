//! What a product needs around a switch: traffic to test it with.
//!
//! * [`traffic`]: captures of the usual protocols, with the table entries that make shipped programs carry them.
//!
//! Nothing here is on a packet's way through a switch.

mod error;
mod random;
pub mod traffic;

pub use error::Error;
