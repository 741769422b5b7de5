//! Commands about files of whoever gives the command: the switch itself neither reads nor writes them.

use crate::error::CommandError;
use p4jet_ports::CaptureReader;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

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
    /// Has the switch take the frames of a capture, as if they had come by the port.
    Inject {
        /// The port.
        port: &'a str,
        /// The capture.
        path: &'a Path,
    },
}

impl<'a> FileCommand<'a> {
    /// Reads a line, if it is a whole such command.
    pub(crate) fn parse(line: &'a str) -> Option<FileCommand<'a>> {
        let mut words = line.split_ascii_whitespace();
        let (name, first, second, more) = (words.next()?, words.next()?, words.next(), words.next());
        match (name, first, second) {
            // Digits alone are a frame.
            ("inject", port, Some(path))
                if more.is_none() && !path.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
            {
                Some(FileCommand::Inject { port, path: Path::new(path) })
            }
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

/// Frames of a capture to inject, and bytes of all.
const FRAMES_MAX: usize = 1 << 16;
const FRAMES_BYTES_MAX: usize = 64 << 20;

/// Injects the frames of a capture, one after the other, by a command for each. `send` gives the switch's answer, with its
/// refusal if there is one.
pub(crate) fn inject(
    port: &str,
    path: &Path,
    mut send: impl FnMut(&str) -> io::Result<Option<CommandError>>,
) -> io::Result<Result<String, CommandError>> {
    let frames = match frames(path) {
        Ok(frames) => frames,
        Err(error) => return Ok(Err(error)),
    };
    let count = frames.len();
    for (number, frame) in frames.iter().enumerate() {
        let digits = frame.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        if let Some(error) = send(&format!("inject {port} {digits}"))? {
            let why = format!("Error: {}, frame {}: {error}", path.display(), number + 1);
            return Ok(Err(CommandError::new(why)));
        }
    }
    Ok(Ok(format!("{count} {} injected\n", if count == 1 { "packet" } else { "packets" })))
}

/// The frames of a capture.
fn frames(path: &Path) -> Result<Vec<Vec<u8>>, CommandError> {
    let wrong = |why: &dyn std::fmt::Display| CommandError::new(format!("Error: {why}"));
    let mut reader = CaptureReader::open(path).map_err(|e| wrong(&e))?;
    let (mut frames, mut bytes) = (Vec::new(), 0);
    while let Some(frame) = reader.next_frame().map_err(|e| wrong(&e))? {
        bytes += frame.len();
        if frames.len() == FRAMES_MAX || bytes > FRAMES_BYTES_MAX {
            return Err(wrong(&format_args!(
                "{}: it has more than {FRAMES_MAX} frames or {} MiB, the most that may be injected at a time",
                path.display(),
                FRAMES_BYTES_MAX >> 20
            )));
        }
        frames.push(frame.to_vec());
    }
    Ok(frames)
}

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
