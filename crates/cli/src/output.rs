//! Standard output and input files, with failures that say what to do.

use crate::failure::Failure;
use std::fmt::Arguments;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// Bytes of the largest command or test file: more than ten million table entries.
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

/// Prints a text as it is.
pub fn write(text: Arguments) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_fmt(text).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        // Whoever reads has seen enough, as in `p4jet trace … | head`.
        ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::Environment(format!("cannot write to standard output: {error}")),
    })
}

/// Reads a text file of the user.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let unreadable = |e: std::io::Error| Failure::unreadable(path, &e);
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    // A device may have no end.
    file.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        return Err(Failure::Input(format!(
            "cannot read {}: it has more than {TEXT_BYTES_MAX} bytes",
            path.display()
        )));
    }
    Ok(text)
}
