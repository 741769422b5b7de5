//! Failures of commands: the message and the exit status.

/// A failure that ends the command.
#[derive(Debug)]
pub enum Failure {
    /// The input is wrong: program, entries, packets, a failed packet test. Status 1.
    Input(String),
    /// Like [`Failure::Input`], with the compiler's diagnostics.
    Diagnosed(String),
    /// Like [`Failure::Input`], with everything already printed.
    Reported,
    /// Wrong usage. Status 2. The text is empty if everything has been printed.
    Usage(String),
    /// The environment refused: no such interface, no permission. Status 3.
    Environment(String),
    /// Standard output was closed: not a failure, but the end. Status 0.
    NobodyReads,
}

impl Failure {
    /// Returns the exit status of the process.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Input(_) | Failure::Diagnosed(_) | Failure::Reported => 1,
            Failure::Usage(_) => 2,
            Failure::Environment(_) => 3,
            Failure::NobodyReads => 0,
        }
    }

    /// Prints it on standard error.
    pub fn report(&self) {
        match self {
            Failure::Usage(text) if text.is_empty() => {}
            Failure::Input(text) | Failure::Usage(text) | Failure::Environment(text) => {
                let text = text.trim_end();
                if text.starts_with("error") {
                    eprintln!("{text}");
                } else {
                    eprintln!("error: {text}");
                }
            }
            Failure::Diagnosed(text) => eprint!("{text}"),
            Failure::Reported | Failure::NobodyReads => {}
        }
    }

    /// Returns its text.
    pub fn text(self) -> String {
        match self {
            Failure::Input(text)
            | Failure::Diagnosed(text)
            | Failure::Usage(text)
            | Failure::Environment(text) => text,
            Failure::Reported | Failure::NobodyReads => String::new(),
        }
    }

    /// Converts a port's error, which knows its kind.
    pub fn port(error: &p4jet_ports::PortError) -> Failure {
        match error.exit_status() {
            1 => Failure::Input(error.to_string()),
            2 => Failure::Usage(error.to_string()),
            _ => Failure::Environment(error.to_string()),
        }
    }

    /// A file could not be read: the input is wrong.
    pub fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Failure {
        Failure::Input(format!("cannot read {}: {error}", path.display()))
    }
}

/// The text of a wrong number on a command line; `None` for other faults. clap shows what Rust says, which suits no user: "invalid
/// digit found in string".
pub fn wrong_number(error: &clap::Error) -> Option<String> {
    use std::error::Error;
    use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
    let cause = error.source()?;
    let why = match cause.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => "the number is too large",
        Some(IntErrorKind::NegOverflow) => "the number is too small",
        Some(_) => "expected a whole number",
        None if cause.is::<ParseFloatError>() => "expected a number",
        None => return None,
    };
    Some(error.to_string().replacen(&cause.to_string(), why, 1))
}

impl From<p4jet_tools::Error> for Failure {
    fn from(error: p4jet_tools::Error) -> Failure {
        match error {
            p4jet_tools::Error::Input(text) => Failure::Input(text),
            p4jet_tools::Error::Program(error) => error.into(),
            p4jet_tools::Error::Usage(text) => Failure::Usage(text),
            p4jet_tools::Error::Environment(text) => Failure::Environment(text),
        }
    }
}

impl From<p4jet_dataplane::ProgramError> for Failure {
    fn from(error: p4jet_dataplane::ProgramError) -> Failure {
        Failure::Input(error.to_string())
    }
}
