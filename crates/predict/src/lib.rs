//! Predicts the delay of P4 programs.
pub mod construct;
pub mod error;
pub mod estimate;
pub mod profile;
pub mod queueing;
pub mod simulate;
pub mod thesis;
