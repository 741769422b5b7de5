//! The integration tests: one program, because linking takes longer than compiling them.

mod descriptors;
mod golden;
mod messages;
mod python;
mod random;
