//! The runtime commands of bmv2's CLI.
//!
//! A line takes three steps: [`parse`] checks it against the program and returns a [`Command`]; the control applies the
//! update in it, or an [`Answerer`] reads; [`show`] and [`data`] format the answer. [`runtime_command`] turns an update into a line.

mod answer;
mod complete;
mod data;
mod format;
mod list;
mod load;
mod observe;
mod parse;
mod show;

pub(crate) use answer::{ANSWER_BYTES_PER_OBJECT, Answerer};
pub(crate) use complete::complete;
pub(crate) use data::entry as entry_data;
pub use format::{Notation, runtime_command};
pub(crate) use list::{Touches, command_names, is_command};
pub use load::LoadSummary;
pub(crate) use load::{Prepared, carry_out};
pub use observe::{capture_spec, captures_text};
pub(crate) use observe::{observe, stats_reply};
pub(crate) use parse::host::HostCommand;
pub(crate) use parse::queues::configures_queues;
pub(crate) use parse::{Command, LineParser};

use crate::error::{LineError, LoadError};
use p4jet_control::{Atomicity, Control, ControlError, Presence, Update, guarded};
use serde_json::Value;

type Result<T> = std::result::Result<T, LineError>;

/// Executors of runtime commands: a [`Control`], or a [`SharedControl`](p4jet_control::SharedControl), which also executes commands
/// about the switch as a whole.
pub trait Commands {
    /// Runs one command. With `data`, the results of a reading command are also returned as JSON.
    fn reply(&self, line: &str, data: bool) -> Reply;

    /// Runs a file of commands: one per line, `#` starts a comment. If a line is wrong, nothing of the file takes effect:
    /// every line is checked against the program first, and if a table still refuses a change (a duplicate, a full table),
    /// the changes before it are undone. Entries that the file deleted return with their
    /// handles.
    ///
    /// # Errors
    ///
    /// Nothing of the file is in effect.
    fn load(&self, name: &str, text: &str) -> std::result::Result<LoadSummary, LoadError>;

    /// The start of the word before `position` (in bytes), and the words that can complete it.
    fn complete(&self, line: &str, position: usize) -> (usize, Vec<String>);

    /// Runs one command. The answer is empty or ends with a line end.
    ///
    /// # Errors
    ///
    /// The command is wrong, or the switch refuses it.
    fn execute(&self, line: &str) -> Result<String> {
        self.reply(line, false).done()
    }
}

impl Commands for Control {
    fn reply(&self, line: &str, data: bool) -> Reply {
        let answerer = Answerer::new(self);
        let reply = answerer.parse(line).and_then(|command| match command {
            Command::Change(change) => {
                let queues = matches!(change.update, Update::Queue(_));
                let write = |update| Some((write_one(self, update), None));
                let reply = answerer.change_reply(change, data, write).unwrap_or_default();
                Ok(if queues { answerer.with_queues_note(reply) } else { reply })
            }
            reading => guarded(|| answerer.reply_to(reading, data)),
        });
        match reply {
            Ok(reply) => Reply { note: both_notes(deprecated(line), reply.note), ..reply },
            Err(error) => error.into(),
        }
    }

    fn load(&self, name: &str, text: &str) -> std::result::Result<LoadSummary, LoadError> {
        let prepared = Prepared::new(self, name, text)?;
        let mut batch = self.batch(prepared.len());
        let presence = Presence::new(&|| false);
        let write = |update| batch.write(update);
        let (line, error) = match carry_out(self, prepared, presence, |change| change(), write) {
            Ok((summary, last)) => match batch.commit() {
                Ok(()) => return Ok(summary),
                Err(error) => (last, error.into()),
            },
            Err((line, error)) => (line, error.and_not_undone(batch.undo())),
        };
        Err(LoadError::new(name, text, line, error))
    }

    fn complete(&self, line: &str, position: usize) -> (usize, Vec<String>) {
        complete(self, line, position)
    }
}

/// Applies one update; returns the handle of the created object.
pub(crate) fn write_one(control: &Control, update: Update) -> Result<Option<u32>> {
    let mut written = control.write(vec![update], Atomicity::ContinueOnError);
    Ok(written.results.pop().unwrap_or(Ok(None))?)
}

/// Memory for the answer to a command; 0 if it is short.
pub(crate) fn answer_bytes(control: &Control, line: &str) -> usize {
    let name = line.split_ascii_whitespace().next().unwrap_or("");
    let reads_many = name.contains("dump") || ["register_read", "pvs_get", "show_pvs"].contains(&name);
    let answerer = Answerer::new(control);
    match reads_many.then(|| answerer.parse(line)) {
        Some(Ok(command)) => answerer.answer_bytes(&command),
        // The answer is an error, or short.
        Some(Err(_)) | None => 0,
    }
}

/// Runs one command. Returns the output of a reading command; changes print nothing here.
pub(crate) fn execute_quietly(control: &Control, line: &str) -> Result<String> {
    let answerer = Answerer::new(control);
    match answerer.parse(line)? {
        Command::Change(change) => write_one(control, change.update).map(|_| String::new()),
        reading => guarded(|| answerer.reply_to(reading, false))?.done(),
    }
}

/// Joins two notes, one per line.
pub(crate) fn both_notes(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}\n{other}")),
        (one, other) => one.or(other),
    }
}

/// The note on a command with an older spelling.
pub(crate) fn deprecated(line: &str) -> Option<String> {
    let newer = line.split_ascii_whitespace().next().and_then(parse::profiles::substitute)?;
    Some(format!("This is a deprecated command, use '{newer}' instead"))
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// For standard output: empty, or lines.
    pub text: String,
    /// For standard error.
    pub note: Option<String>,
    /// The reason why the command failed; `text` may have announced it.
    pub refused: Option<LineError>,
    /// The results of a reading command, or the handle of a created object.
    pub data: Option<Value>,
}

impl Reply {
    fn new(text: String, data: Option<Value>) -> Reply {
        Reply { text, data, ..Reply::default() }
    }

    fn number(number: u64, data: bool) -> Reply {
        Reply::new(format!("{number}\n"), data.then(|| number.into()))
    }

    /// The text, unless the command was refused.
    pub(crate) fn done(self) -> Result<String> {
        self.refused.map_or(Ok(self.text), Err)
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Reply {
        Reply { text, ..Reply::default() }
    }
}

impl From<ControlError> for Reply {
    fn from(error: ControlError) -> Reply {
        LineError::from(error).into()
    }
}

impl From<LineError> for Reply {
    fn from(error: LineError) -> Reply {
        Reply { refused: Some(error), ..Reply::default() }
    }
}
