//! The integration tests: one program, because linking takes longer than compiling them.

mod constants;
mod dump;
mod golden;
