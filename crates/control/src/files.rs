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
    /// Has the switch load the program; `aside`: only once `swap_configs` comes.
    Load {
        /// The program.
        path: &'a Path,
        /// Whether it waits.
        aside: bool,
    },
}

impl<'a> FileCommand<'a> {
    /// Reads a line, if it is a whole such command.
    pub(crate) fn parse(line: &'a str) -> Option<FileCommand<'a>> {
        let mut words = line.split_ascii_whitespace();
        match (words.next()?, words.next()?, words.next()) {
            ("serialize_state", path, None) => Some(FileCommand::Save(Path::new(path))),
            ("restore", path, None) => Some(FileCommand::Restore(Path::new(path))),
            ("load", path, None) => Some(FileCommand::Load { path: Path::new(path), aside: false }),
            ("load_new_config_file", path, None) => {
                Some(FileCommand::Load { path: Path::new(path), aside: true })
            }
            _ => None,
        }
    }
}

/// Bytes of a file that holds a switch's state.
const STATE_BYTES_MAX: u64 = 1 << 30;

/// What a file says.
pub(crate) fn read(path: &Path) -> Result<String, CommandError> {
    p4jet_files::read_text(path, STATE_BYTES_MAX)
        .map_err(|e| CommandError::new(format!("Error: {}: {e}", path.display())))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    p4jet_files::check_output(path)
        .and_then(|()| fs::write(path, text))
        .map_err(|e| CommandError::new(format!("Error: {}: {e}", path.display())))
}
