//! Errors of tools, by their cause.

use p4jet_dataplane::ProgramError;
use p4jet_ports::{ErrorKind, PortError};
use std::fmt;
use std::path::Path;

/// An error that ends a tool.
#[derive(Debug)]
pub enum Error {
    /// The input is wrong: the program, its entries.
    Input(String),
    /// A switch cannot run the program.
    Program(ProgramError),
    /// The tool was used wrongly.
    Usage(String),
    /// The environment refused: the disk is full, no permission.
    Environment(String),
}

impl Error {
    /// A file cannot be written.
    pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> Error {
        Error::Environment(format!("cannot write {}: {error}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input(text) | Error::Usage(text) | Error::Environment(text) => f.write_str(text),
            Error::Program(error) => error.fmt(f),
        }
    }
}

impl From<PortError> for Error {
    fn from(error: PortError) -> Error {
        match error.kind() {
            ErrorKind::Input => Error::Input(error.to_string()),
            ErrorKind::Usage => Error::Usage(error.to_string()),
            ErrorKind::Environment => Error::Environment(error.to_string()),
        }
    }
}
