//! The integration tests: one program, because linking takes longer than compiling them.

mod atomic;
mod common;
mod entities;
mod fuzz_writes;
mod links;
mod rates;
mod reflection;
mod shapes;
mod tables;
mod types;
