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
pub mod grpc;
pub mod stratum;
pub mod v1;

use crate::reflect::{Members, Reflect};

/// A `.proto` file that defines some of the messages.
pub struct File {
    /// Its name: `p4/v1/p4runtime.proto`.
    pub name: &'static str,
    /// Its package: `p4.v1`.
    pub package: &'static str,
    /// An empty message of each kind, in the order in which they are described.
    pub messages: Vec<Box<dyn Reflect>>,
    /// Full names and members of its enumerations.
    pub enumerations: Vec<(&'static str, Members)>,
    /// Its services.
    pub services: Vec<Service>,
}

/// A gRPC service.
pub struct Service {
    /// Full name: `p4.v1.P4Runtime`.
    pub name: &'static str,
    /// Its methods.
    pub methods: &'static [Method],
}

/// A method of a service.
pub struct Method {
    /// Name.
    pub name: &'static str,
    /// Full name of the message that it takes.
    pub request: &'static str,
    /// True if it takes a stream of them.
    pub requests: bool,
    /// Full name of the message that it returns.
    pub answer: &'static str,
    /// True if it returns a stream of them.
    pub answers: bool,
}

/// Returns an empty message of each kind that P4Runtime has.
pub fn all() -> Vec<Box<dyn Reflect>> {
    let files = [google::files(), config::files(), v1::files()];
    files.into_iter().flatten().flat_map(|file| file.messages).collect()
}

/// Returns all files: those of P4Runtime, and those of the other messages and services of the server.
pub fn files() -> Vec<File> {
    let files = [google::files(), config::files(), v1::files(), stratum::files(), grpc::files()];
    files.into_iter().flatten().collect()
}

/// Defines `files` of a module: which file has which messages, enumerations and services.
macro_rules! define_files {
    ($($name:literal in $package:literal {
        messages { $($message:ident)* }
        enumerations { $($enumeration:ident)* }
        services { $($service:ident)* }
    })*) => {
        /// Returns the files with the messages of this module.
        pub fn files() -> Vec<$crate::proto::File> {
            vec![$($crate::proto::File {
                name: $name,
                package: $package,
                messages: vec![$(Box::new($message::default())),*],
                enumerations: vec![$((
                    <$enumeration as $crate::reflect::Named>::NAME,
                    <$enumeration as $crate::reflect::Enumeration>::MEMBERS,
                )),*],
                services: vec![$($service),*],
            }),*]
        }
    };
}
use define_files;
