//! A file of commands: all of it or nothing.

use super::parse::{Command, LineParser};
use super::{Control, Reply, apply::Undo};
use crate::error::{CommandError, LoadError};
use crate::guard::{guarded, require_memory};
use p4jet_ir::TableId;
use p4jet_tables::Entry;

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
        let mut parser = LineParser::new(control.switch.program(), &control.names);
        // A line end more than lines does no harm, and most lines are commands.
        let mut steps: Vec<Step<'_>> = Vec::with_capacity(text.bytes().filter(|b| *b == b'\n').count() + 1);
        for (line, number) in text.lines().zip(1..) {
            match parser.parse(line) {
                Ok(Command::Nothing) => {}
                Ok(Command::TableAdd { table, entry, .. }) => {
                    steps.push(Step::Add { number, table: table.id, entry })
                }
                Ok(Command::IndirectAdd { table, entry }) => steps.push(Step::Add { number, table, entry }),
                Ok(command) => steps.push(Step::Other(Box::new((number, command)))),
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
    /// How many entries all tables have.
    pub(super) fn entries(&self) -> usize {
        (0..self.program().tables.len() as u32).map(|id| self.switch.table(TableId(id)).len()).sum()
    }

    /// Carries out a file of commands: one a line, `#` starts a comment. A bad line leaves nothing of the file in effect:
    /// every line is checked against the program before the first takes effect, and changes that the tables refuse after
    /// all (a duplicate, a full table) take back those before them. Entries that the file deleted return under the handles
    /// that they had.
    pub fn load(&mut self, name: &str, text: &str) -> Result<LoadSummary, LoadError> {
        self.carry_out(Prepared::new(self, name, text)?, None)
    }

    /// Carries out a file that was read for this switch. `changes` gets those that were made: number of the line, from
    /// 1, and handle of what it made.
    pub(crate) fn carry_out(
        &mut self,
        prepared: Prepared<'_>,
        mut changes: Option<&mut Vec<(usize, Option<u32>)>>,
    ) -> Result<LoadSummary, LoadError> {
        let Prepared { name, text, steps } = prepared;
        let mut summary = LoadSummary::default();
        let mut log: Vec<Undo> = Vec::with_capacity(steps.len());
        let mut last = 1;
        for step in steps {
            let mut change = |number, made| {
                if let Some(changes) = &mut changes {
                    changes.push((number, made));
                }
            };
            let (number, result) = match step {
                Step::Add { number, table, entry } => {
                    summary.entries_added += 1;
                    let added = guarded(|| self.add(table, entry, Some(&mut log)));
                    (number, added.map(|handle| change(number, Some(handle.0))))
                }
                Step::Other(other) => {
                    let (number, command) = *other;
                    let result = if command.reads() {
                        guarded(|| self.reply_to(command, false)).and_then(Reply::done).and_then(|text| {
                            summary.output += &text;
                            check_output(&summary.output)
                        })
                    } else {
                        let done = guarded(|| self.change(command, Some(&mut log)));
                        done.map(|done| change(number, done.handle.map(|handle| handle.0).or(done.made)))
                    };
                    (number, result)
                }
            };
            if let Err(e) = result {
                return Err(error(name, text, number, self.without(log, e)));
            }
            summary.commands += 1;
            last = number;
        }
        let publish = || {
            self.publish();
            Ok(())
        };
        guarded(publish).map_err(|e| error(name, text, last, self.without(log, e)))?;
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

/// A command of the file. Nearly all add an entry; what takes more room than that hides behind a pointer.
enum Step<'a> {
    Add { number: usize, table: TableId, entry: Entry },
    Other(Box<(usize, Command<'a>)>),
}
