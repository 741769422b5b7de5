//! A file of commands: all of it or nothing.

use super::parse::{Command, LineParser};
use super::{Control, Reply, apply::Undo};
use crate::error::{CommandError, LoadError};
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
}

impl Control {
    /// Carries out a file of commands: one a line, `#` starts a comment. A bad line leaves nothing of the file in effect:
    /// every line is checked against the program before the first takes effect, and changes that the tables refuse after
    /// all (a duplicate, a full table) take back those before them. Entries that the file deleted return under the handles
    /// that they had.
    pub fn load(&mut self, name: &str, text: &str) -> Result<LoadSummary, LoadError> {
        let error = |line: usize, error: CommandError| LoadError {
            file: name.to_string(),
            line,
            text: text.lines().nth(line - 1).unwrap_or("").to_string(),
            error,
        };
        let mut parser = LineParser::new(self.switch.program(), &self.names);
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
                Err(e) => return Err(error(number, e)),
            }
        }

        let mut summary = LoadSummary::default();
        let mut log: Vec<Undo> = Vec::with_capacity(steps.len());
        for step in steps {
            let (number, result) = match step {
                Step::Add { number, table, entry } => {
                    summary.entries_added += 1;
                    (number, self.add(table, entry, Some(&mut log)).map(drop))
                }
                Step::Other(other) => {
                    let (number, command) = *other;
                    let result = if command.reads() {
                        let text = self.reply_to(command).and_then(Reply::done);
                        text.map(|text| summary.output += &text)
                    } else {
                        self.change(command, Some(&mut log)).map(drop)
                    };
                    (number, result)
                }
            };
            if let Err(e) = result {
                self.take_back(log);
                return Err(error(number, e));
            }
            summary.commands += 1;
        }
        for table in 0..self.switch.program().tables.len() as u32 {
            self.switch.table(TableId(table)).publish();
        }
        Ok(summary)
    }
}

/// A command of the file. Nearly all add an entry; what takes more room than that hides behind a pointer.
enum Step<'a> {
    Add { number: usize, table: TableId, entry: Entry },
    Other(Box<(usize, Command<'a>)>),
}
