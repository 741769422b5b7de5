//! The integration tests: one program, because linking takes longer than compiling them.

mod control;
mod history;
mod model;
mod patience;
mod profiles;
mod readers;
mod timeouts;
