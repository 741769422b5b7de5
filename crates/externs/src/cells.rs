//! Cells of registers, counters and meters: their memory, their number, and errors about them.

use crate::apart::Apart;
use std::fmt;
use std::sync::atomic::AtomicU64;

/// Maximum number of cells of all instances together.
pub(crate) const CELLS_MAX: u64 = 1 << 28;

/// A counter's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The reason why state cannot be allocated, read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateError {
    /// The instances have too many cells.
    TooLarge {
        /// The instance that goes beyond the limit.
        name: String,
        /// Cells with this instance.
        cells: u64,
    },
    /// The system has no memory for an instance.
    NoMemory {
        /// The instance.
        name: String,
        /// The required number of bytes.
        bytes: u64,
    },
    /// There is no such instance, or it is of another kind.
    WrongInstance {
        /// The requested instance.
        found: u32,
        /// The expected kind.
        expected: &'static str,
    },
    /// The index is beyond the end.
    Index {
        /// Name of the instance.
        name: String,
        /// The requested index.
        found: u64,
        /// Number of cells.
        size: u64,
    },
    /// The committed rate of a meter is above its peak rate, or a rate is invalid.
    Rates {
        /// Name of the instance.
        name: String,
    },
    /// The value has too many bits.
    Width {
        /// Name of the instance.
        name: String,
        /// Number of bits of the given value.
        found: u64,
        /// Number of bits of a cell.
        expected: u32,
    },
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::TooLarge { name, cells } => {
                write!(
                    f,
                    "`{name}` makes {cells} cells of registers, counters and meters, expected at most {CELLS_MAX}"
                )
            }
            StateError::NoMemory { name, bytes } => {
                write!(f, "`{name}` needs {bytes} bytes, which the system refuses; a smaller size may do")
            }
            StateError::WrongInstance { found, expected } => {
                write!(f, "extern instance {found} is no {expected}")
            }
            StateError::Index { name, found, size } => {
                write!(f, "`{name}`: found index {found}, expected one below {size}")
            }
            StateError::Rates { name } => {
                write!(
                    f,
                    "`{name}`: expected rates that are not negative, the committed one first and not above the peak one"
                )
            }
            StateError::Width { name, found, expected } => {
                write!(f, "`{name}`: found a value of {found} bits, expected at most {expected}")
            }
        }
    }
}

impl std::error::Error for StateError {}

/// Allocates zeroed words, which take no memory until they are written. No two workers' words share a cache line.
pub(crate) fn zeroed(name: &str, words: u64) -> Result<Apart<AtomicU64>, StateError> {
    let refused = || StateError::NoMemory { name: name.to_string(), bytes: words.saturating_mul(8) };
    usize::try_from(words).ok().and_then(Apart::try_zeroed).ok_or_else(refused)
}
