//! The files and interfaces that the switch may open for a client.

use crate::error::{ControlError, DENIED};
use p4jet_files::Granted;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files and interfaces that the switch may open for a client.
#[derive(Clone, Debug)]
pub enum Rights {
    /// Everything that the switch itself may open: the client acts as the switch's own user.
    All,
    /// Regular files beneath these directories, but no interface.
    Granted(Arc<[Granted]>),
}

impl Rights {
    /// No file and no interface.
    pub fn nothing() -> Rights {
        Rights::Granted(Arc::from([]))
    }

    /// Rights to files beneath `directories`.
    ///
    /// # Errors
    ///
    /// One of them cannot be opened.
    pub fn beneath(directories: &[PathBuf]) -> Result<Rights, ControlError> {
        let granted =
            directories.iter().map(|path| Granted::new(path).map_err(|e| ControlError::of_file(path, &e)));
        Ok(Rights::Granted(granted.collect::<Result<Vec<_>, _>>()?.into()))
    }

    /// Refuses an interface, a device or an inherited descriptor unless the client has all rights.
    ///
    /// # Errors
    ///
    /// The client may not open it; the text names who may.
    pub fn check_interface(&self, spec: &str) -> Result<(), ControlError> {
        match self {
            Rights::All => Ok(()),
            Rights::Granted(_) => {
                let why = format!(
                    "`{spec}` is refused over TCP, where no command opens an interface: use the Unix socket of the switch"
                );
                Err(ControlError::new(why).code(DENIED).field("port"))
            }
        }
    }

    /// Checks that the switch may read this file for the client, and with [`Rights::Granted`] opens it.
    ///
    /// # Errors
    ///
    /// The client has no right to it, or it is not a regular file.
    pub fn input(&self, path: &Path) -> Result<Opened, ControlError> {
        match self {
            Rights::All => {
                p4jet_files::open(path).map_err(|e| ControlError::of_file(path, &e))?;
                Ok(Opened { path: path.to_path_buf(), file: None })
            }
            Rights::Granted(granted) => first(granted, path, |granted| granted.open(path)),
        }
    }

    /// Checks that the switch may write this file for the client, and with [`Rights::Granted`] creates it.
    ///
    /// # Errors
    ///
    /// The client has no right to it, or it is not a regular file.
    pub fn output(&self, path: &Path) -> Result<Opened, ControlError> {
        match self {
            Rights::All => {
                p4jet_files::check_output(path).map_err(|e| ControlError::of_file(path, &e))?;
                Ok(Opened { path: path.to_path_buf(), file: None })
            }
            Rights::Granted(granted) => first(granted, path, |granted| granted.create(path)),
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// The client has no right to it, or it cannot be read.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        match self {
            Rights::All => p4jet_files::open(path),
            Rights::Granted(granted) => try_each(granted, |granted| granted.open(path)),
        }
    }
}

/// Uses the first directory beneath which the file can be opened; if there is none, returns the last error.
fn try_each(granted: &[Granted], open: impl Fn(&Granted) -> io::Result<File>) -> io::Result<File> {
    let nothing = "it is refused over TCP, where commands open files only beneath a directory that the switch was \
                   given by --grant-dir";
    let none = Err(io::Error::new(io::ErrorKind::PermissionDenied, nothing));
    granted.iter().fold(none, |found, granted| found.or_else(|_| open(granted)))
}

fn first(
    granted: &[Granted],
    path: &Path,
    open: impl Fn(&Granted) -> io::Result<File>,
) -> Result<Opened, ControlError> {
    let file = try_each(granted, open).map_err(|e| ControlError::of_file(path, &e))?;
    Ok(Opened { path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(), file: Some(file) })
}

/// A file that can be opened by [`Self::path`] as long as this value lives.
#[derive(Debug)]
pub struct Opened {
    path: PathBuf,
    /// The descriptor behind `path`, so that no link can redirect it meanwhile.
    #[allow(dead_code, reason = "it is open as long as this value lives")]
    file: Option<File>,
}

impl Opened {
    /// The path to open.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
