//! The integration tests: one program, because linking takes longer than compiling them.

mod commands;
mod common;
mod data;
mod names;
mod report;
mod server;
mod sessions;
mod state;
mod stf;
