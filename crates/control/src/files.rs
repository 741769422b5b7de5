//! Commands about files of whoever gives the command: the switch itself neither reads nor writes them.

use crate::error::CommandError;
use std::fs;
use std::path::Path;

/// A command that names a file of a switch's state.
pub(crate) enum FileCommand<'a> {
    /// Writes what `dump` says.
    Save(&'a Path),
    /// Has the switch restore what the file says.
    Restore(&'a Path),
}

impl<'a> FileCommand<'a> {
    /// Reads a line, if it is a whole such command.
    pub(crate) fn parse(line: &'a str) -> Option<FileCommand<'a>> {
        let mut words = line.split_ascii_whitespace();
        match (words.next()?, words.next()?, words.next()) {
            ("serialize_state", path, None) => Some(FileCommand::Save(Path::new(path))),
            ("restore", path, None) => Some(FileCommand::Restore(Path::new(path))),
            _ => None,
        }
    }
}

/// What a file says.
pub(crate) fn read(path: &Path) -> Result<String, CommandError> {
    fs::read_to_string(path).map_err(|e| CommandError::new(format!("Error: {}: {e}", path.display())))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    fs::write(path, text).map_err(|e| CommandError::new(format!("Error: {}: {e}", path.display())))
}
