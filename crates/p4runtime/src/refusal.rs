//! Refusals of updates and reads of entities.

use p4jet_control::ControlError;
use p4jet_p4info::proto::v1;
use std::borrow::Cow;
use std::fmt;

/// The namespace of [`Reason`]s in `p4.v1.Error`.
pub const SPACE: &str = "p4jet";

/// gRPC's canonical codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "gRPC defines them")]
pub enum Code {
    Ok = 0,
    Unknown = 2,
    InvalidArgument = 3,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

/// The kinds of refusals: `code` of `p4.v1.Error` in the namespace [`SPACE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The message lacks a part, or has one that is not allowed.
    Form = 1,
    /// An id is not in the P4Info, or is that of another kind of object.
    Id = 2,
    /// A match is wrong.
    Match = 3,
    /// A byte string is empty or does not fit.
    Value = 4,
    /// The action is wrong for this use, or a parameter of it.
    Action = 5,
    /// The priority is wrong.
    Priority = 6,
    /// The entity exists.
    Exists = 7,
    /// The entity does not exist.
    Absent = 8,
    /// There is no room for it.
    Full = 9,
    /// The program or the specification does not allow clients to change it.
    Const = 10,
    /// A constraint of the program is violated.
    Constraint = 11,
    /// The role has no right to it.
    Role = 12,
    /// Something refers to the entity.
    InUse = 13,
    /// p4jet does not support it.
    Unsupported = 14,
    /// Another update of the batch was refused.
    Batch = 15,
    /// An index is outside the array.
    Index = 16,
    /// Idle timeouts are not supported here, or not in this form.
    Timeout = 17,
    /// The running program is not the one of the P4Info.
    Program = 18,
    /// Packet workers or the memory are too busy now.
    Busy = 19,
    /// A bug in p4jet.
    Fault = 20,
}

/// The most reasons that a refusal lists.
pub(crate) const REASONS_MAX: usize = 20;

/// Reasons of a refusal, of which the first ones are listed: there may be millions.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    lines: Vec<String>,
    count: usize,
}

impl Reasons {
    /// Adds a reason.
    pub fn push(&mut self, line: impl FnOnce() -> String) {
        self.count += 1;
        if self.lines.len() < REASONS_MAX {
            self.lines.push(line());
        }
    }

    /// True if there is no reason.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first reasons, and the number of others.
    pub fn into_lines(mut self) -> Vec<String> {
        let more = self.count - self.lines.len();
        if more > 0 {
            self.lines.push(format!("and {more} more"));
        }
        self.lines
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The canonical code.
    pub code: Code,
    /// The kind of refusal.
    pub reason: Reason,
    /// The message: found, expected, and the valid choices.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(code: Code, reason: Reason, message: impl Into<String>) -> Refusal {
        Refusal { code, reason, message: message.into() }
    }

    /// A refusal with the code INVALID_ARGUMENT.
    pub fn invalid(reason: Reason, message: impl Into<String>) -> Refusal {
        Refusal::new(Code::InvalidArgument, reason, message)
    }

    /// A refusal of a request that p4jet does not support.
    pub fn unsupported(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::Unimplemented, Reason::Unsupported, message)
    }

    /// Adds the name of an object at the start of the message.
    #[must_use]
    pub fn of(mut self, object: impl fmt::Display) -> Refusal {
        self.message = format!("{object}: {}", self.message);
        self
    }

    /// The message for a client.
    pub fn into_error(self) -> v1::Error {
        v1::Error {
            canonical_code: self.code as i32,
            message: self.message,
            space: SPACE.to_string(),
            code: self.reason as i32,
            details: None,
        }
    }
}

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Refusal {
        let (code, reason) = match &*error.code {
            "DUPLICATE_ENTRY" => (Code::AlreadyExists, Reason::Exists),
            "TABLE_FULL" | "NO_MEMORY" | "LIMIT" => (Code::ResourceExhausted, Reason::Full),
            "INVALID_HANDLE" | "EXPIRED_HANDLE" | "SESSION_NOT_FOUND" | "INVALID_MGRP_HANDLE" => {
                (Code::NotFound, Reason::Absent)
            }
            "INVALID_MBR_HANDLE" | "INVALID_GRP_HANDLE" => (Code::NotFound, Reason::Absent),
            "MBR_STILL_USED" | "GRP_STILL_USED" => (Code::FailedPrecondition, Reason::InUse),
            "IMMUTABLE_TABLE_ENTRIES" | "DEFAULT_ENTRY_IS_CONST" | "DEFAULT_ACTION_IS_CONST" => {
                (Code::PermissionDenied, Reason::Const)
            }
            "BUSY" | "UNAVAILABLE" => (Code::Unavailable, Reason::Busy),
            "UNSUPPORTED" => (Code::Unimplemented, Reason::Unsupported),
            "INTERNAL" => (Code::Internal, Reason::Fault),
            _ => (Code::InvalidArgument, Reason::Form),
        };
        // The object and the field, unless the message names the object.
        let place = match (&error.entity, &error.field) {
            (Some(entity), _) if error.message.contains(&**entity) => String::new(),
            (Some(entity), Some(field)) => format!("`{entity}`, {field}: "),
            (Some(entity), None) => format!("`{entity}`: "),
            (None, _) => String::new(),
        };
        let message = match code {
            // Handles are the names of entries in runtime commands.
            Code::AlreadyExists => "an entry with this key already exists",
            _ => &error.message,
        };
        Refusal::new(code, reason, place + message)
    }
}

/// Maximum size of the errors in the details of a status, in bytes.
pub const DETAILS_BYTES_MAX: usize = 1 << 20;
/// Maximum number of errors of a request that have their whole message, with choices.
pub const DESCRIBED_MAX: usize = 20;
/// Bytes of the message of any other error.
const SHORT_BYTES: usize = 96;

/// The results of the parts of a request. Most requests have no errors, so the list is made with the first.
pub(crate) struct Errors {
    total: usize,
    list: Option<Vec<v1::Error>>,
    described: usize,
    /// Bytes of all messages.
    bytes: usize,
}

impl Errors {
    /// No errors of a request with this many parts.
    pub fn new(total: usize) -> Errors {
        Errors { total, list: None, described: 0, bytes: 0 }
    }

    /// Sets the error of a part. Later errors have shorter messages, and none once all messages fill the details.
    pub fn put(&mut self, place: usize, refusal: Refusal) {
        let mut error = refusal.into_error();
        if self.described < DESCRIBED_MAX {
            self.described += 1;
        } else if error.message.len() > SHORT_BYTES {
            error.message = cut(&error.message, SHORT_BYTES).into_owned();
        }
        if self.bytes + error.message.len() > DETAILS_BYTES_MAX {
            error.message = String::new();
        }
        self.bytes += error.message.len();
        self.list.get_or_insert_with(|| vec![v1::Error::default(); self.total])[place] = error;
    }

    /// One result per part, with code 0 for those without an error; `None` if no part has one.
    pub fn finish(self) -> Option<Vec<v1::Error>> {
        self.list
    }
}

/// A text in a message: its first bytes, if it is longer.
pub(crate) fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    match text.floor_char_boundary(bytes_max) {
        end if end < text.len() => format!("{}…", &text[..end]).into(),
        _ => text.into(),
    }
}

/// The result of a step.
pub type Result<T> = std::result::Result<T, Refusal>;

/// Maximum number of choices in a message.
const CHOICES_MAX: usize = 8;

/// Lists choices: `` 1 (`a`), 2 (`b`) and 3 more ``. One without a name is its id.
pub(crate) fn choices<'a>(all: impl Iterator<Item = (u32, &'a str)>) -> String {
    let mut all = all.peekable();
    if all.peek().is_none() {
        return "there is none".to_string();
    }
    let choice = |(id, name): (u32, &str)| match name {
        "" => id.to_string(),
        name => format!("{id} (`{name}`)"),
    };
    let some: Vec<String> = all.by_ref().take(CHOICES_MAX).map(choice).collect();
    let rest = all.count();
    match rest {
        0 => some.join(", "),
        rest => format!("{} and {rest} more", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_bounded_messages() {
        let mut errors = Errors::new(200_000);
        for place in (0..200_000).rev() {
            errors.put(place, Refusal::invalid(Reason::Id, "é".repeat(300)));
        }
        let errors = errors.finish().unwrap();
        let lengths: Vec<usize> = errors.iter().rev().map(|error| error.message.len()).collect();
        assert_eq!((lengths[0], lengths[DESCRIBED_MAX - 1]), (600, 600));
        assert_eq!(lengths[DESCRIBED_MAX], SHORT_BYTES + "…".len());
        assert!(lengths.iter().sum::<usize>() <= DETAILS_BYTES_MAX);
        assert!(errors.iter().all(|error| error.code == Reason::Id as i32));
        assert_eq!(Errors::new(3).finish(), None);
    }
}
