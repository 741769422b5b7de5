//! Predicts the delay of P4 programs on devices, and of switches with a controller under load.
//!
//! * [`profile`]: what a construct costs on a device, and how each number was obtained.
//! * [`estimate`]: the delay of a program from the counts of its constructs.
//! * [`queueing`]: delay and stability under load, and the devices that suffice.
//! * [`simulate`]: the same, packet by packet, to see where the models of `queueing` fail.
//! * [`measurements`]: from the delays of micro-benchmarks to a profile, with [`distributions`] and [`lines`].
//! * [`thesis`]: published numbers, with which all this is tested.
//!
//! Sections, equations and tables are those of H. Harkous' doctoral thesis (TU München, 2022); §8 is an audit of it.
//! docs/predict.md tells where the thesis contradicts itself.

pub mod construct;
pub mod distributions;
pub mod error;
pub mod estimate;
pub mod lines;
pub mod measurements;
pub mod own;
pub mod profile;
pub mod queueing;
pub mod simulate;
pub mod thesis;
