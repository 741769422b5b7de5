//! Standard output and input files, with failures that name a remedy.

use crate::failure::Failure;
use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Maximum size of a command or test file in bytes: more than ten million table entries.
const TEXT_BYTES_MAX: u64 = 1 << 30;

/// Prints a line: [`line`] with a format.
macro_rules! say {
    ($($arg:tt)*) => { $crate::output::line(format_args!($($arg)*)) };
}
pub(crate) use say;

/// Prints a line.
pub fn line(text: Arguments) -> Result<(), Failure> {
    write(format_args!("{text}\n"))
}

/// Prints a text unchanged.
pub fn write(text: Arguments) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_fmt(text).and_then(|()| out.flush()).map_err(|error| unwritten(&error))
}

/// Writes bytes as they are.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| unwritten(&error))
}

fn unwritten(error: &std::io::Error) -> Failure {
    match error.kind() {
        // The reader has closed the pipe, as in `p4jet trace … | head`.
        ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::Environment(format!("cannot write to standard output: {error}")),
    }
}

/// Reads a text file of the user.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    p4jet_files::read_text(path, TEXT_BYTES_MAX).map_err(|e| Failure::unreadable(path, &e))
}
