//! Refusals by a switch.

use p4jet_dataplane::{ObserveError, RunError};
use std::path::Path;
use std::{fmt, io};

/// The kind of a refusal: the input is wrong, or p4jet lacks the feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command or its request is wrong.
    Wrong,
    /// The command is correct, but p4jet does not support it yet.
    Unsupported,
}

impl ErrorKind {
    /// The kind of errors with this code.
    pub fn of(code: &str) -> ErrorKind {
        if code == UNSUPPORTED { ErrorKind::Unsupported } else { ErrorKind::Wrong }
    }
}

/// The code of errors without a code of their own.
pub const INVALID_ARGUMENT: &str = "INVALID_ARGUMENT";
/// The code of a change that failed for lack of memory.
pub(crate) const NO_MEMORY: &str = "NO_MEMORY";
/// The code of a change that may succeed later, because packet workers still use replaced memory.
pub(crate) const BUSY: &str = "BUSY";
/// The code of a bug in p4jet.
pub(crate) const INTERNAL: &str = "INTERNAL";
/// The code of a name that the program does not have.
pub(crate) const UNKNOWN_NAME: &str = "UNKNOWN_NAME";
/// The code of an index outside an array.
pub(crate) const INVALID_INDEX: &str = "INVALID_INDEX";
/// The code of an unsupported request.
const UNSUPPORTED: &str = "UNSUPPORTED";
/// The code of a request about a port, trace or capture that does not exist.
const NOT_FOUND: &str = "NOT_FOUND";
/// The code of a port or file that is already in use.
const ALREADY_EXISTS: &str = "ALREADY_EXISTS";
/// The code of a request beyond a maximum number.
const LIMIT: &str = "LIMIT";
/// The code of a file or interface that the client may not open.
pub(crate) const DENIED: &str = "DENIED";
/// The code of a request that a stopped or stuck switch cannot carry out.
pub(crate) const UNAVAILABLE: &str = "UNAVAILABLE";
/// The code of a failure of the operating system.
const SYSTEM: &str = "SYSTEM";
/// The code of a cancelled compilation.
const CANCELLED: &str = "CANCELLED";
/// The code of a program that does not compile or cannot run here.
const PROGRAM_REFUSED: &str = "PROGRAM_REFUSED";

pub(crate) type Result<T> = std::result::Result<T, ControlError>;

/// The refusal of a change, a read or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError {
    /// What was found, what was expected and which choices exist, in one line. Only a refused program has several lines, the
    /// compiler's diagnostics.
    pub message: String,
    /// A stable code: bmv2's where bmv2 has one (`TABLE_FULL`), otherwise `INVALID_ARGUMENT`, `UNKNOWN_NAME`,
    /// `UNSUPPORTED`, `LIMIT`, `BUSY`, `NO_MEMORY`, `ABORTED` or `INTERNAL`; of ports, programs, traces and captures, for which
    /// a switch needs a [`Host`](crate::Host), also `NOT_FOUND`, `ALREADY_EXISTS`, `DENIED`, `UNAVAILABLE`, `SYSTEM`,
    /// `CANCELLED` or `PROGRAM_REFUSED`.
    pub code: Box<str>,
    /// The part of the switch that refused.
    pub subject: Subject,
    /// The object that refused, by its name in the program: `ingress.ipv4_lpm`.
    pub entity: Option<Box<str>>,
    /// The part of the request that is wrong, for example `table`, `action`, `priority`, `handle`, `index`, `port`, `key NAME` or
    /// `parameter NAME`.
    pub field: Option<Box<str>>,
    /// The valid choices, if the list is short.
    pub choices: Box<[String]>,
}

/// The part of a switch that refused a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Subject {
    /// The check of a change or of a request, before any part of the switch.
    #[default]
    Check,
    Table,
    Counter,
    Meter,
    Register,
    ValueSet,
    Multicast,
    CloneSessions,
    Ports,
    Program,
}

impl ControlError {
    /// The error of a file that cannot be opened or read: `DENIED` if the client may not, otherwise `SYSTEM`.
    pub fn of_file(path: &Path, error: &io::Error) -> ControlError {
        let message = format!("{}: {error}", path.display());
        ControlError { message, ..ControlError::of_named_file(error) }
    }

    /// Like [`Self::of_file`], for an error that names the file where that is necessary.
    pub(crate) fn of_named_file(error: &io::Error) -> ControlError {
        let refused = ControlError::system(error.to_string()).field("file");
        match error.kind() {
            io::ErrorKind::PermissionDenied => refused.code(DENIED),
            _ => refused,
        }
    }

    /// An error with the code `INVALID_ARGUMENT`.
    pub fn new(message: impl Into<String>) -> ControlError {
        ControlError {
            message: message.into(),
            code: INVALID_ARGUMENT.into(),
            entity: None,
            field: None,
            choices: Box::default(),
            subject: Subject::Check,
        }
    }

    /// A failure of the operating system.
    pub fn system(message: impl Into<String>) -> ControlError {
        ControlError::new(message).code(SYSTEM)
    }

    /// A request beyond a maximum number.
    pub fn limit(message: impl Into<String>) -> ControlError {
        ControlError::new(message).code(LIMIT)
    }

    /// A program that does not compile: the compiler's diagnostics.
    pub fn program_refused(diagnostics: impl Into<String>) -> ControlError {
        ControlError::new(diagnostics).code(PROGRAM_REFUSED)
    }

    /// A compilation that its client cancelled.
    pub fn cancelled() -> ControlError {
        ControlError::new("the compilation was cancelled").code(CANCELLED)
    }

    /// The error of a file or batch whose client has left.
    pub(crate) fn left() -> ControlError {
        ControlError::new("cancelled: the client has left").code(CANCELLED)
    }

    /// An error about a feature that p4jet does not support yet.
    pub fn unsupported(message: impl Into<String>) -> ControlError {
        ControlError { code: UNSUPPORTED.into(), ..ControlError::new(message) }
    }

    /// A refusal by a part of the switch, with a code that scripts written for bmv2 expect.
    pub fn refused(subject: Subject, code: &str, why: impl fmt::Display) -> ControlError {
        ControlError { code: code.into(), subject, ..ControlError::new(why.to_string()) }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::of(&self.code)
    }

    /// Returns the error with this subject, unless it has one.
    pub fn subject(mut self, subject: Subject) -> ControlError {
        if self.subject == Subject::Check {
            self.subject = subject;
        }
        self
    }

    /// Returns the error with this code.
    pub fn code(self, code: &str) -> ControlError {
        ControlError { code: code.into(), ..self }
    }

    /// Adds the object, unless the error names one.
    pub fn entity(mut self, name: &str) -> ControlError {
        self.entity.get_or_insert_with(|| name.into());
        self
    }

    /// Adds the field, unless the error names one.
    pub fn field(mut self, field: impl Into<Box<str>>) -> ControlError {
        self.field.get_or_insert_with(|| field.into());
        self
    }

    /// Adds the choices.
    pub fn choices<'a>(mut self, choices: impl Iterator<Item = &'a str>) -> ControlError {
        self.choices = choices.take(CHOICES_MAX).map(str::to_string).collect();
        self
    }
}

impl From<RunError> for ControlError {
    fn from(error: RunError) -> ControlError {
        let refused = ControlError::new(error.to_string());
        match error {
            RunError::PortExists(_) => refused.code(ALREADY_EXISTS).field("port"),
            RunError::TooManyPorts(_) => refused.code(LIMIT),
            RunError::NoPort(_, there) => {
                let there: Vec<String> = there.iter().map(u32::to_string).collect();
                refused.code(NOT_FOUND).field("port").choices(there.iter().map(String::as_str))
            }
            RunError::TooLong(..) => refused.field("frame"),
            RunError::Program(error) if error.is_no_memory() => refused.code(NO_MEMORY),
            RunError::Program(_) => refused.code(PROGRAM_REFUSED),
            RunError::System(_) => refused.code(SYSTEM),
            RunError::PacketsWait(_) => refused.code(LIMIT),
            RunError::Stuck(_) | RunError::Stopped => refused.code(UNAVAILABLE),
        }
    }
}

impl From<ObserveError> for ControlError {
    fn from(error: ObserveError) -> ControlError {
        let refused = ControlError::new(error.to_string());
        match error {
            ObserveError::NoField(_, names) | ObserveError::AmbiguousField(_, names) => {
                refused.code(UNKNOWN_NAME).field("field").choices(names.iter().map(String::as_str))
            }
            ObserveError::Wide(..) => refused.field("value"),
            ObserveError::Count(_) => refused.field("count"),
            ObserveError::TooMany(..) => refused.code(LIMIT),
            ObserveError::NoTrace(_) => refused.code(NOT_FOUND).field("trace"),
            ObserveError::NoCapture(_) => refused.code(NOT_FOUND).field("port"),
            ObserveError::InUse(_) => refused.code(ALREADY_EXISTS).field("file"),
            ObserveError::System(_) => refused.code(SYSTEM),
            ObserveError::Run(error) => error.into(),
        }
    }
}

/// Maximum number of choices in an error.
pub(crate) const CHOICES_MAX: usize = 100;

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ControlError {}

/// Formats a count with its noun, given in the singular.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The error for a handle that is in use.
pub(crate) fn taken(what: &str, handle: u32) -> ControlError {
    ControlError::new(format!("{what} {handle} already exists")).field("handle")
}
