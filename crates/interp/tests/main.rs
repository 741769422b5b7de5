//! The integration tests: one program, because linking takes longer than compiling them.

mod common;
mod passes;
mod programs;
