//! P4Info: what the control plane knows about a program, for P4Runtime.
//!
//! ```text
//! typed program ─ blocks (which instances, under which names) ─ ids (ids, aliases)
//!               ─ generator (tables, actions, externs, headers, package; types and annotations)
//!               ─ entries  ─▶ proto::config::P4Info, proto::v1::WriteRequest
//!               ─ text, json, or binary (prost)
//! ```
//!
//! [`generate`] creates the messages, [`Format`] writes them. The messages of the whole protocol are in [`proto`], so that the
//! server and its clients use the same ones; [`descriptors`] describes them to clients without `.proto` files. [`constraints`] parses and evaluates `@entry_restriction` and
//! `@action_restriction`. P4Info equals p4c's, which a conformance test checks
//! (`tests/conformance/p4info.rs`); docs/p4info.md names the exceptions.
//!
//! Bounds: at most 200,000 instances and applied tables, 100 levels of instances and calls.

mod annotations;
mod blocks;
pub mod constraints;
pub mod descriptors;
mod entries;
mod generate;
mod generator;
mod ids;
mod integers;
pub mod json;
pub mod proto;
pub mod reflect;
pub mod text;
mod types;

pub use generate::{Generated, check_constraints, generate};
pub use generator::Numbered;

use reflect::Reflect;

/// The form in which a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// protobuf's text form, laid out as by p4c.
    Text,
    /// protobuf's JSON.
    Json,
    /// The wire format.
    Binary,
}

impl Format {
    /// Returns a message in this form.
    pub fn write(self, message: &dyn Reflect) -> Vec<u8> {
        match self {
            Format::Text => text::print(message, proto_file(message.full_name())).into_bytes(),
            Format::Json => json::print(message).into_bytes(),
            Format::Binary => message.encode(),
        }
    }
}

/// The file of p4lang/p4runtime that defines a message; p4c's text form names it.
fn proto_file(message: &str) -> &'static str {
    match message {
        name if name.starts_with("p4.config.v1.") => "p4/config/v1/p4info.proto",
        _ => "p4/v1/p4runtime.proto",
    }
}
