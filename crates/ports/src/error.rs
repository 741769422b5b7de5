//! Errors of ports, by their cause.

use std::fmt;

/// The cause of an error, which determines the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The input is wrong: a corrupt capture, a missing file.
    Input,
    /// The command is wrong: a port specification that does not parse, a kind that is not supported.
    Usage,
    /// The environment refused: no such interface, no permission, disk full.
    Environment,
}

/// A port error: a message that names the finding, the likely cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortError {
    kind: ErrorKind,
    message: String,
}

impl PortError {
    /// The input is wrong.
    pub fn input(message: impl Into<String>) -> PortError {
        PortError { kind: ErrorKind::Input, message: message.into() }
    }

    /// The command is wrong: a port specification that does not parse, a kind that is not supported.
    pub fn usage(message: impl Into<String>) -> PortError {
        PortError { kind: ErrorKind::Usage, message: message.into() }
    }

    /// The environment refused.
    pub fn environment(message: impl Into<String>) -> PortError {
        PortError { kind: ErrorKind::Environment, message: message.into() }
    }

    /// Returns the cause.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the exit status of p4jet when this error ends it: 1 input, 2 usage, 3 environment.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self.kind {
            ErrorKind::Input => 1,
            ErrorKind::Usage => 2,
            ErrorKind::Environment => 3,
        }
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PortError {}
