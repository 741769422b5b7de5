//! The reason why a switch cannot run a program.

use p4jet_externs::StateError;
use p4jet_interp::TablesError;
use p4jet_ir::{Loc, Program, SourceLoc};
use p4jet_jit::ErrorKind;
use p4jet_tables::TableError;
use std::fmt;

/// The reason why a switch cannot run a program, or not in the way that the caller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    /// The kind of the reason.
    pub kind: ErrorKind,
    /// The reason.
    pub message: String,
    /// The place in the program, if there is one.
    pub place: Option<SourceLoc>,
}

impl ProgramError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> ProgramError {
        ProgramError { kind, message: message.into(), place: None }
    }

    /// p4jet does not support this.
    pub(crate) fn unsupported(message: impl Into<String>) -> ProgramError {
        ProgramError::new(ErrorKind::Unsupported, message)
    }

    /// True if the system refuses memory.
    pub fn is_no_memory(&self) -> bool {
        self.kind == ErrorKind::NoMemory
    }

    /// Adds the place.
    pub(crate) fn at(self, program: &Program, loc: Loc) -> ProgramError {
        let place = &program.locs[loc.index()];
        ProgramError { place: (place.line > 0).then(|| place.clone()), ..self }
    }

    pub(crate) fn of_code(program: &Program, error: &p4jet_jit::Error) -> ProgramError {
        ProgramError::new(error.kind, error.message.as_str()).at(program, error.loc)
    }
}

/// The message, and the place on a second line.
impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.place {
            Some(place) => write!(f, "\n  --> {}:{}:{}", place.file, place.line, place.column),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ProgramError {}

impl From<ProgramError> for String {
    fn from(error: ProgramError) -> String {
        error.to_string()
    }
}

impl From<TablesError> for ProgramError {
    fn from(error: TablesError) -> ProgramError {
        let kind = match &error {
            TablesError::NoMemory(_) | TablesError::Entry(_, TableError::NoMemory(_)) => ErrorKind::NoMemory,
            TablesError::Entry(..) => ErrorKind::Unsupported,
        };
        ProgramError::new(kind, error.to_string())
    }
}

impl From<StateError> for ProgramError {
    fn from(error: StateError) -> ProgramError {
        let kind = match &error {
            StateError::TooLarge { .. } => ErrorKind::TooLarge,
            StateError::NoMemory { .. } => ErrorKind::NoMemory,
            StateError::WrongInstance { .. }
            | StateError::Index { .. }
            | StateError::Rates { .. }
            | StateError::Width { .. } => ErrorKind::Unsupported,
        };
        ProgramError::new(kind, error.to_string())
    }
}
