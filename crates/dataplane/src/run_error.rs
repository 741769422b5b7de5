//! The reason why a running switch refuses a request.

use crate::program_error::ProgramError;
use std::fmt;

/// The reason why a running switch refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// A port with this number already exists.
    PortExists(u32),
    /// There is the maximum number of ports already.
    TooManyPorts(usize),
    /// No port has this number; the list holds the numbers of all ports.
    NoPort(u32, Vec<u32>),
    /// The frame is too long: its length and the maximum, both in bytes.
    TooLong(usize, usize),
    /// The program cannot run, or not on this number of workers.
    Program(ProgramError),
    /// The system refuses memory, threads or descriptors.
    System(String),
    /// The packets of too many earlier programs wait, or too many bytes; the text describes them.
    PacketsWait(String),
    /// A worker does not answer; the text describes what it is doing.
    Stuck(String),
    /// The switch has been stopped.
    Stopped,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::PortExists(number) => write!(f, "there is already a port {number}"),
            RunError::TooManyPorts(max) => {
                write!(f, "there are already {max} ports, which is the maximum")
            }
            RunError::NoPort(_, there) if there.is_empty() => f.write_str("the switch has no ports"),
            RunError::NoPort(number, there) => {
                let there: Vec<String> = there.iter().map(u32::to_string).collect();
                write!(f, "there is no port {number}; the ports are {}", there.join(", "))
            }
            RunError::TooLong(bytes, max) => {
                write!(f, "the frame has {bytes} bytes, and the longest that the switch takes has {max}")
            }
            RunError::Program(error) => error.fmt(f),
            RunError::System(why) | RunError::PacketsWait(why) => f.write_str(why),
            RunError::Stuck(what) => write!(f, "a worker does not answer: {what}"),
            RunError::Stopped => f.write_str("the switch has been stopped"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<ProgramError> for RunError {
    fn from(error: ProgramError) -> RunError {
        RunError::Program(error)
    }
}
