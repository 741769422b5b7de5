//! The integration tests: one program, because linking takes longer than compiling them.

mod api;
mod golden;
mod hostile;
mod summary;
