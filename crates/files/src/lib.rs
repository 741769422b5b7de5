//! Opens files that users and clients name. Opening never waits, and [`Granted`] never leaves its directory.

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens a file for reading. A named FIFO has no content before somebody writes to it, so it is refused; a pipe that this
/// process inherited (`/dev/stdin`, `<(command)`) is accepted.
pub fn open(path: &Path) -> io::Result<File> {
    if is_inherited(path) {
        return File::open(path);
    }
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    check(&file)?;
    Ok(file)
}

/// Reads a whole file of at most `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_from(open(path)?, bytes_max)
}

/// Reads a whole text file of at most `bytes_max` bytes.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Reads the rest of an open file, or of standard input, of at most `bytes_max` bytes.
pub fn read_from(file: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A device may have no end, so its size says nothing.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Refuses to write where writing would wait for a reader.
pub fn check_output(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.file_type().is_fifo() => Err(kind_refused("a FIFO")),
        _ => Ok(()),
    }
}

fn is_inherited(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

fn kind_refused(kind: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("it is {kind}; a regular file is needed here"))
}

fn check(file: &File) -> io::Result<()> {
    let kind = file.metadata()?.file_type();
    let found = if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_block_device() {
        "a block device"
    } else {
        // Reading from a terminal or another character device was asked not to wait.
        return Ok(());
    };
    Err(kind_refused(found))
}

/// A directory in which somebody else may have files opened.
#[derive(Debug)]
pub struct Granted {
    path: PathBuf,
    directory: OwnedFd,
}

impl Granted {
    /// Grants the directory `path`.
    pub fn new(path: &Path) -> io::Result<Granted> {
        let path = path.canonicalize()?;
        let directory =
            OpenOptions::new().read(true).custom_flags(OFlag::O_DIRECTORY.bits()).open(&path)?.into();
        Ok(Granted { path, directory })
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file beneath it for reading.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.beneath(path, OFlag::O_RDONLY)
    }

    /// Opens a file beneath it for writing, and creates it if needed. It is not emptied.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        self.beneath(path, OFlag::O_WRONLY | OFlag::O_CREAT)
    }

    fn beneath(&self, path: &Path, flags: OFlag) -> io::Result<File> {
        let outside = || {
            let text = format!("it is outside the granted directory {}", self.path.display());
            io::Error::new(ErrorKind::PermissionDenied, text)
        };
        let relative =
            if path.is_absolute() { path.strip_prefix(&self.path).map_err(|_| outside())? } else { path };
        let mode = if flags.contains(OFlag::O_CREAT) { 0o644 } else { 0 };
        // The kernel checks every step of the path, so neither `..` nor a link that appears meanwhile leads outside.
        let how = OpenHow::new()
            .flags(flags | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)
            .mode(Mode::from_bits_truncate(mode))
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let opened = openat2(&self.directory, relative, how).map_err(|error| match error {
            nix::errno::Errno::EXDEV => outside(),
            error => error.into(),
        })?;
        let file = File::from(opened);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(kind_refused("no regular file"));
        }
        // Another name of a file outside leads outside, too.
        if found.nlink() != 1 {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "it has several names (hard links)"));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Folder(PathBuf);

    impl Folder {
        fn new(role: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("p4jet-files-{}-{role}", std::process::id()));
            fs::create_dir_all(path.join("granted/inner")).unwrap();
            fs::write(path.join("secret"), "secret").unwrap();
            fs::write(path.join("granted/inner/a"), "a").unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn fifo(path: &Path) {
        nix::unistd::mkfifo(path, Mode::from_bits_truncate(0o600)).unwrap();
    }

    #[test]
    fn opening_does_not_wait() {
        let folder = Folder::new("fifo");
        let path = folder.0.join("fifo");
        fifo(&path);
        // Without a writer a plain open would wait for ever.
        assert!(open(&path).unwrap_err().to_string().contains("a FIFO"));
        assert!(check_output(&path).unwrap_err().to_string().contains("a FIFO"));
        assert!(open(&folder.0).unwrap_err().to_string().contains("a directory"));
        assert_eq!(read_text(&folder.0.join("secret"), 6).unwrap(), "secret");
        assert!(
            read_text(&folder.0.join("secret"), 5).unwrap_err().to_string().contains("more than 5 bytes")
        );
        assert!(read(Path::new("/dev/zero"), 1000).is_err());
        assert_eq!(read(Path::new("/dev/null"), 0).unwrap(), []);
    }

    #[test]
    fn nothing_leads_out_of_a_granted_directory() {
        let folder = Folder::new("granted");
        let top = folder.0.join("granted");
        let granted = Granted::new(&top).unwrap();
        symlink("../secret", top.join("relative")).unwrap();
        symlink(folder.0.join("secret"), top.join("absolute")).unwrap();
        symlink("..", top.join("up")).unwrap();
        symlink("inner/a", top.join("fine")).unwrap();
        fs::hard_link(folder.0.join("secret"), top.join("hard")).unwrap();
        fifo(&top.join("fifo"));
        for path in [
            "../secret",
            "inner/../../secret",
            "relative",
            "absolute",
            "up/secret",
            "/etc/passwd",
            "/proc/self/environ",
            "hard",
            "fifo",
            "inner",
            ".",
            "",
        ] {
            assert!(granted.open(Path::new(path)).is_err(), "{path} opened for reading");
            assert!(granted.create(Path::new(path)).is_err(), "{path} opened for writing");
        }
        let absolute = top.canonicalize().unwrap().join("inner/a");
        for path in ["inner/a", "fine", "inner/../inner/a", absolute.to_str().unwrap()] {
            assert_eq!(read_from(granted.open(Path::new(path)).unwrap(), 1).unwrap(), b"a", "{path}");
        }
        granted.create(Path::new("inner/new")).unwrap();
        assert!(top.join("inner/new").is_file());
        assert_eq!(fs::read_to_string(folder.0.join("secret")).unwrap(), "secret");
    }
}
