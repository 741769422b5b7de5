//! A file of commands: all of it or nothing.

use super::{Answerer, Command, LineParser, Reply, Result};
use crate::error::{LineError, LoadError};
use p4jet_control::{
    Control, ControlError, MemoryClaim, Presence, Update, claim_for_lines, count, each_held, guarded,
};
use std::fmt::Write;

/// The result of a file of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadSummary {
    /// Number of executed commands.
    pub commands: usize,
    /// Entries added.
    pub entries_added: usize,
    /// The output of reading commands. Changes print nothing here.
    pub output: String,
    /// Notes, for standard error.
    pub note: Option<String>,
}

/// A file of commands, checked against a program.
pub(crate) struct Prepared<'a> {
    steps: Vec<Step<'a>>,
    note: Option<String>,
}

impl<'a> Prepared<'a> {
    /// Parses a file for the switch of `control`.
    pub(crate) fn new(control: &Control, name: &str, text: &'a str) -> std::result::Result<Self, LoadError> {
        let _memory =
            claim_for_lines(text, control.entries()).map_err(|e| LoadError::new(name, text, 1, e.into()))?;
        let mut parser = LineParser::new(control.program(), control.schema());
        let mut changes = 0;
        let (mut note, mut more) = (None, 0);
        // Room for one line too many is harmless, and most lines are commands.
        let mut steps: Vec<Step<'_>> = Vec::with_capacity(text.bytes().filter(|b| *b == b'\n').count() + 1);
        for (line, number) in text.lines().zip(1..) {
            match parser.parse(line) {
                Ok(Command::Nothing) => {}
                Ok(Command::Change(change)) => {
                    parser.note_maker(number, changes, &change.update);
                    changes += 1;
                    match change.note {
                        None => {}
                        Some(_) if note.is_some() => more += 1,
                        Some(first) => note = Some(format!("{name}:{number}: {first}")),
                    }
                    steps.push(Step::Change(number, change.update));
                }
                Ok(command) => steps.push(Step::Read(number, Box::new(command))),
                Err(e) => return Err(LoadError::new(name, text, number, e)),
            }
        }
        if let Some(note) = note.as_mut().filter(|_| more > 0) {
            let lines = count(more, "other line");
            let _ = write!(note, "\n{name}: also on {lines}");
        }
        Ok(Prepared { steps, note })
    }

    /// The number of its commands.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }
}

/// Executes a file that was parsed for this switch, each change by `write`, and inside `hold` where a packet might overwrite
/// it. Returns the result and its last line; or the refused line and the reason. The line where it ends because the client has
/// left is refused.
pub(crate) fn carry_out(
    control: &Control,
    prepared: Prepared<'_>,
    mut presence: Presence<'_>,
    hold: impl FnMut(&mut dyn FnMut()),
    mut write: impl FnMut(Update) -> std::result::Result<Option<u32>, ControlError>,
) -> std::result::Result<(LoadSummary, usize), (usize, LineError)> {
    let mut summary = LoadSummary { note: prepared.note, ..LoadSummary::default() };
    let mut last = 1;
    let held_cells = |step: &Step<'_>| match step {
        Step::Change(_, update) => control.schema().held_cells(update),
        Step::Read(..) => 0,
    };
    each_held(prepared.steps.into_iter(), held_cells, hold, |step| {
        let number = match step {
            Step::Change(number, update) => {
                summary.entries_added += usize::from(matches!(update, Update::Insert { .. }));
                let done = presence.check(Some(&update)).and_then(|()| write(update));
                done.map_err(|error| (number, error.into()))?;
                number
            }
            Step::Read(number, command) => {
                let answerer = Answerer::new(control);
                let read = || {
                    presence.check(None)?;
                    let bytes = answerer.answer_bytes(&command);
                    let _memory = MemoryClaim::new(bytes, || "the output of this file".to_string())?;
                    summary.output +=
                        &guarded(|| answerer.reply_to(*command, false)).and_then(Reply::done)?;
                    check_output(&summary.output)
                };
                read().map_err(|error| (number, error))?;
                number
            }
        };
        summary.commands += 1;
        last = number;
        Ok(())
    })?;
    Ok((summary, last))
}

/// Maximum output of the commands of a file, in bytes.
const OUTPUT_BYTES_MAX: usize = 256 << 20;

fn check_output(output: &str) -> Result<()> {
    if output.len() <= OUTPUT_BYTES_MAX {
        return Ok(());
    }
    Err(LineError::new(format!("Error: the commands of a file print at most {OUTPUT_BYTES_MAX} bytes")))
}

/// A command of the file with its line number. Nearly all are changes; larger commands are behind a pointer.
enum Step<'a> {
    Change(usize, Update),
    Read(usize, Box<Command<'a>>),
}
