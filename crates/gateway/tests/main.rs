//! The integration tests: one program, because linking takes longer than compiling them.

mod common;
mod config;
mod icmp;
#[path = "../../../tests/common/mutate.rs"]
// Reason: the system's fuzz test uses the rest.
#[allow(dead_code)]
mod mutate;
mod mutations;
mod plan;
