//! The messages of P4Info and P4Runtime, version 1.5 with what 1.6 adds so far.
//!
//! They are written by hand: no `.proto` file is copied, and nothing needs `protoc`. The descriptions are ours; what the
//! fields mean is defined in the P4Runtime specification, whose sections they name in quotes. Types of fields are prost's, with
//! byte strings as slices of the decoded buffer.

#[macro_use]
mod macros;
pub(crate) mod kinds;

pub mod config;
pub mod google;
pub mod stratum;
pub mod v1;

use crate::reflect::Reflect;

/// Returns an empty message of each kind.
pub fn all() -> Vec<Box<dyn Reflect>> {
    let mut all = google::all();
    all.extend(config::all());
    all.extend(v1::all());
    all
}

/// Defines `all` of a module, which returns an empty message of each kind of a module.
macro_rules! list_all {
    ($($name:ident)*) => {
        /// Returns an empty message of each kind.
        pub fn all() -> Vec<Box<dyn $crate::reflect::Reflect>> {
            vec![$(Box::new($name::default())),*]
        }
    };
}
use list_all;
