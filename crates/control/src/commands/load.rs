//! A file of commands: all of it or nothing.

use super::parse::{Command, LineParser};
use super::{Control, Reply};
use crate::error::{CommandError, LoadError};
use crate::guard::{guarded, require_memory};
use crate::journal::Changes;
use crate::update::Update;
use crate::write::{Batch, Kind, Made};

/// What a file of commands did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadSummary {
    /// Commands carried out.
    pub commands: usize,
    /// Entries added.
    pub entries_added: usize,
    /// What commands that read printed. Changes print nothing here.
    pub output: String,
    /// What else there is to say: for standard error.
    pub note: Option<String>,
}

/// A file of commands, checked against a program.
pub(crate) struct Prepared<'a> {
    name: &'a str,
    text: &'a str,
    steps: Vec<Step<'a>>,
}

impl<'a> Prepared<'a> {
    /// Reads a file for the switch that `control` has.
    pub(crate) fn new(control: &Control, name: &'a str, text: &'a str) -> Result<Self, LoadError> {
        require_memory(text, control.entries()).map_err(|e| error(name, text, 1, e))?;
        let mut parser = LineParser::new(control.program(), control.schema());
        let mut changes = 0;
        // A line end more than lines does no harm, and most lines are commands.
        let mut steps: Vec<Step<'_>> = Vec::with_capacity(text.bytes().filter(|b| *b == b'\n').count() + 1);
        for (line, number) in text.lines().zip(1..) {
            match parser.parse(line) {
                Ok(Command::Nothing) => {}
                Ok(Command::Change(change)) => {
                    parser.note_maker(number, changes, &change.update);
                    changes += 1;
                    steps.push(Step::Change(number, change.update));
                }
                Ok(command) => steps.push(Step::Read(number, Box::new(command))),
                Err(e) => return Err(error(name, text, number, e)),
            }
        }
        Ok(Prepared { name, text, steps })
    }
}

fn error(name: &str, text: &str, line: usize, error: CommandError) -> LoadError {
    LoadError {
        file: name.to_string(),
        line,
        text: text.lines().nth(line - 1).unwrap_or("").to_string(),
        error: Box::new(error),
    }
}

impl Control {
    /// Carries out a file of commands: one a line, `#` starts a comment. A bad line leaves nothing of the file in effect:
    /// every line is checked against the program before the first takes effect, and changes that the tables refuse after
    /// all (a duplicate, a full table) take back those before them. Entries that the file deleted return under the handles
    /// that they had.
    pub fn load(&self, name: &str, text: &str) -> Result<LoadSummary, LoadError> {
        self.carry_out(Prepared::new(self, name, text)?, None)
    }

    /// Carries out a file that was read for this switch. `changes` gets those that were made.
    pub(crate) fn carry_out(
        &self,
        prepared: Prepared<'_>,
        mut changes: Option<&mut Changes>,
    ) -> Result<LoadSummary, LoadError> {
        let Prepared { name, text, steps } = prepared;
        let mut summary = LoadSummary::default();
        let mut batch = Batch::new(self, steps.len());
        let mut made = Made::default();
        let mut last = 1;
        for step in steps {
            let (number, result) = match step {
                Step::Change(number, update) => {
                    summary.entries_added += usize::from(matches!(update, Update::Insert { .. }));
                    if let Some(changes) = &mut changes {
                        changes.add(self, &update, &made);
                    }
                    let kind = Kind::made_by(&update);
                    let done = batch.write(update, &made).map(|handle| {
                        made.push(kind, handle);
                        if let Some(changes) = &mut changes {
                            changes.done(handle);
                        }
                    });
                    (number, done)
                }
                Step::Read(number, command) => {
                    let read = guarded(|| self.reply_to(*command, false, None)).and_then(Reply::done);
                    let result = read.and_then(|text| {
                        summary.output += &text;
                        check_output(&summary.output)
                    });
                    (number, result)
                }
            };
            if let Err(e) = result {
                return Err(error(name, text, number, batch.take_back(e)));
            }
            summary.commands += 1;
            last = number;
        }
        batch.commit().map_err(|e| error(name, text, last, e))?;
        Ok(summary)
    }
}

/// Most bytes that the commands of a file print.
const OUTPUT_BYTES_MAX: usize = 256 << 20;

fn check_output(output: &str) -> Result<(), CommandError> {
    if output.len() <= OUTPUT_BYTES_MAX {
        return Ok(());
    }
    Err(CommandError::new(format!("Error: the commands of a file print at most {OUTPUT_BYTES_MAX} bytes")))
}

/// A command of the file, with the number of its line. Nearly all are changes; what takes more room hides behind a pointer.
enum Step<'a> {
    Change(usize, Update),
    Read(usize, Box<Command<'a>>),
}
