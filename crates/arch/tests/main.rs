//! The integration tests: one program, because linking takes longer than compiling them.

mod behaviour;
mod common;
mod copies;
mod golden;
mod hashes;
mod hold;
mod psa;
mod queues;
mod workers;
