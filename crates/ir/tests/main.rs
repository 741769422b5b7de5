//! The integration tests: one program, because linking takes longer than compiling them.

#[cfg(feature = "random")]
mod atomic;
mod eval;
mod passes;
#[cfg(feature = "random")]
mod random;
mod text;
mod verify;
