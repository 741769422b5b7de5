//! The native half of the Python package `p4jet`: programs, switches, packets.
//!
//! The Python half (`p4jet/*.py`) is what users see. The two exchange packets as bytes, and everything about the control plane as the
//! requests and answers of control connections (`p4jet_text::wire`), so names, values, errors and their texts are those of the binary.
//!
//! Bounds: a call takes at most `FRAMES_MAX` frames; a switch has at most one worker, so calls on one switch wait for each other.

mod program;
mod switch;

use pyo3::prelude::*;

/// The native half of the package `p4jet`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::program::{Diagnosed, Program};
    #[pymodule_export]
    use crate::switch::{Switch, run_stf};
    #[pymodule_export]
    use crate::{frame, version};
}

/// The version of p4jet.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns the frame that a text describes: hexadecimal digits, or layers such as `ip dst=10.0.0.1 / tcp dport=80`.
#[pyfunction]
fn frame(text: &str) -> PyResult<Vec<u8>> {
    p4jet_text::packet::frame(text).map_err(pyo3::exceptions::PyValueError::new_err)
}
