//! Whole-system tests, which run the binary. There is one file per subject, but a single test binary, because each
//! further binary links the whole compiler again.

// Reason: sockets of kinds that std lacks.
#![allow(unsafe_code)]

mod common;
#[macro_use]
#[path = "../crates/ports/tests/netns/mod.rs"]
mod netns;

mod bad_input;
mod bench;
mod changes;
mod constructs;
mod control;
mod controller;
mod demo_and_docs;
mod differences;
mod frames;
mod gateway;
mod gateway_namespaces;
mod growth;
mod language;
mod namespaces;
mod notices;
mod p4runtime;
mod pipelined;
mod plans;
mod predict_p4jet;
mod programs;
mod reload;
mod seeing;
mod slices;
mod soak;
mod tools;
mod warnings;
