//! Commands about files of the client: the switch itself neither reads nor writes them.

use crate::commands::Reply;
use crate::error::LineError;
use crate::packet;
use p4jet_ports::CaptureReader;
use serde_json::Value;
use std::fmt::Write;
use std::io;
use std::path::Path;

/// A command that names a file of the client: a state, a program or a capture.
pub(crate) enum FileCommand<'a> {
    /// Writes the output of `dump`.
    Save(&'a Path),
    /// Restores the contents of the file.
    Restore(&'a Path),
    /// Loads the program; with `aside`, `swap_configs` activates it.
    Load {
        /// The program.
        path: &'a Path,
        /// True if it waits for `swap_configs`.
        aside: bool,
    },
    /// Passes the frames of a capture to the switch one after the other, as frames of the port.
    Frames {
        /// The action for each frame.
        kind: FrameCommand,
        /// The port.
        port: &'a str,
        /// The capture.
        path: &'a Path,
    },
}

/// The action of a switch for each frame of a capture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameCommand {
    /// It processes the frame.
    Inject,
    /// It traces the frame without sending anything.
    Trace,
}

impl<'a> FileCommand<'a> {
    /// Parses a line that is such a command.
    pub(crate) fn parse(line: &'a str) -> Option<FileCommand<'a>> {
        let mut words = line.split_ascii_whitespace();
        let (name, first, second, third) = (words.next()?, words.next()?, words.next(), words.next());
        let more = words.next();
        match (name, first, second) {
            ("inject", port, Some(path)) if third.is_none() && !packet::is_frame(path) => {
                Some(FileCommand::Frames { kind: FrameCommand::Inject, port, path: Path::new(path) })
            }
            ("trace", "packet", Some(port)) => {
                let path = third.filter(|path| more.is_none() && !packet::is_frame(path))?;
                Some(FileCommand::Frames { kind: FrameCommand::Trace, port, path: Path::new(path) })
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

/// Maximum size of a file with a switch's state.
const STATE_BYTES_MAX: u64 = 1 << 30;

/// Maximum number of injected frames of a capture, and of their bytes.
const FRAMES_MAX: usize = 1 << 16;
const FRAMES_BYTES_MAX: usize = 64 << 20;
/// Maximum number of traced frames of a capture: the first ones.
const TRACED_MAX: usize = 100;

/// Injects or traces the frames of a capture, with one command for each. `send` returns the switch's answer, including a
/// refusal.
pub(crate) fn each_frame(
    kind: FrameCommand,
    port: &str,
    path: &Path,
    mut send: impl FnMut(&str) -> io::Result<Reply>,
) -> io::Result<Reply> {
    let (frames, goes_on) = match frames(path, kind) {
        Ok(found) => found,
        Err(error) => return Ok(error.into()),
    };
    let (mut text, mut data) = (String::new(), Vec::new());
    for (frame, number) in frames.iter().zip(1..) {
        let digits = frame.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        // Frames do not wait for the copies of those before.
        let command = if kind == FrameCommand::Inject { "inject wait=0" } else { "trace packet" };
        let answer = send(&format!("{command} {port} {digits}"))?;
        if let Some(error) = answer.refused {
            let why = format!("Error: {}, frame {number}: {}", path.display(), error.why());
            return Ok(Reply { text, ..LineError::new(why).into() });
        }
        if kind == FrameCommand::Trace {
            let blank = if number == 1 { "" } else { "\n" };
            let _ = write!(text, "{blank}packet {number} of the capture:\n{}", answer.text);
            data.extend(answer.data);
        }
    }
    let count = frames.len();
    if goes_on {
        let _ = writeln!(text, "\nThe capture has more packets; only the first {count} are traced.");
    }
    match kind {
        FrameCommand::Inject => {
            Ok(format!("{count} {} injected\n", if count == 1 { "packet" } else { "packets" }).into())
        }
        FrameCommand::Trace if count == 0 => {
            Ok(LineError::new(format!("Error: {}: the capture has no packets", path.display())).into())
        }
        FrameCommand::Trace => Ok(Reply { text, data: Some(Value::Array(data)), ..Reply::default() }),
    }
}

/// The frames of a capture, and whether it has more than the limit.
fn frames(path: &Path, kind: FrameCommand) -> Result<(Vec<Vec<u8>>, bool), LineError> {
    let wrong = |why: &dyn std::fmt::Display| LineError::new(format!("Error: {why}"));
    let mut reader =
        CaptureReader::open(path).map_err(|e| match path.to_str().and_then(packet::layer_meant) {
            Some(layer) if !path.exists() => wrong(&format_args!("{e}: did you mean the layer `{layer}`?")),
            _ if !path.exists() => wrong(&format_args!(
                "{e}: expected a frame as hexadecimal digits or as layers, or the path of a capture"
            )),
            _ => wrong(&e),
        })?;
    let (mut frames, mut bytes) = (Vec::new(), 0);
    while let Some(frame) = reader.next_frame().map_err(|e| wrong(&e))? {
        if kind == FrameCommand::Trace && frames.len() == TRACED_MAX {
            return Ok((frames, true));
        }
        bytes += frame.len();
        if frames.len() == FRAMES_MAX || bytes > FRAMES_BYTES_MAX {
            return Err(wrong(&format_args!(
                "{}: it has more than {FRAMES_MAX} frames or {} MiB, the most that one command may inject",
                path.display(),
                FRAMES_BYTES_MAX >> 20
            )));
        }
        frames.push(frame.to_vec());
    }
    Ok((frames, false))
}

/// The error for a state file that was not restored.
pub fn cannot_use_state(path: &Path, error: &LineError) -> String {
    format!("cannot use state file `{}`: {}", path.display(), error.why())
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<String, LineError> {
    p4jet_files::read_text(path, STATE_BYTES_MAX)
        .map_err(|e| LineError::new(format!("Error: {}: {e}", path.display())))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), LineError> {
    p4jet_files::write(path, text).map_err(|e| LineError::new(format!("Error: {}: {e}", path.display())))
}
