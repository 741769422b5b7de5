//! Opens files that users and clients name. Opening never waits, and [`Granted`] never leaves its directory.

use nix::fcntl::{FcntlArg, OFlag, OpenHow, ResolveFlag, fcntl, openat2};
use nix::sys::stat::Mode;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The identity of a regular file, whichever of its names is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileId {
    /// The file exists.
    Existing {
        /// Its device.
        device: u64,
        /// Its inode. Another file may get this number once the file is deleted.
        inode: u64,
        /// The time of its creation, if the file system knows it.
        created: Option<SystemTime>,
    },
    /// No file of this name exists yet.
    Missing(PathBuf),
}

impl FileId {
    /// The identity of the file with this name. `None` for a device, which several may use.
    pub fn of(path: &Path) -> Option<FileId> {
        match path.metadata() {
            Ok(found) if found.is_file() => {
                let (device, inode) = (found.dev(), found.ino());
                Some(FileId::Existing { device, inode, created: found.created().ok() })
            }
            Ok(_) => None,
            Err(_) => Some(FileId::Missing(absolute(path))),
        }
    }
}

/// The path of a file that does not exist, from the root of the file system if its directory exists.
fn absolute(path: &Path) -> PathBuf {
    let Some(name) = path.file_name() else { return path.to_path_buf() };
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    match directory.unwrap_or(Path::new(".")).canonicalize() {
        Ok(directory) => directory.join(name),
        Err(_) => path.to_path_buf(),
    }
}

/// Opens a file for reading. A named FIFO has no content until a process writes to it, so it is refused; a pipe that this
/// process inherited (`/dev/stdin`, `<(command)`) is accepted.
pub fn open(path: &Path) -> io::Result<File> {
    if is_inherited(path) {
        return File::open(path);
    }
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    check(&file)?;
    Ok(file)
}

/// Opens a regular file for reading.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    check_regular(file.metadata()?.file_type())?;
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
    // A device may be endless, so its size is meaningless.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Creates a file, or empties it. It accepts a device such as `/dev/null`, a pipe that this process inherited
/// (`/dev/stdout`), and a FIFO with a reader, but not a FIFO without one, for which opening would wait.
pub fn create(path: &Path) -> io::Result<File> {
    output(path, OpenOptions::new().write(true).truncate(true))
}

/// Opens a file to append to it, and creates it if needed, by the rules of [`create`].
pub fn append(path: &Path) -> io::Result<File> {
    output(path, OpenOptions::new().append(true))
}

/// Writes a whole file, by the rules of [`create`].
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(content.as_ref())
}

/// Refuses everything that [`create`] would refuse, and every FIFO. Creates nothing.
pub fn check_output(path: &Path) -> io::Result<()> {
    if is_inherited(path) {
        return Ok(());
    }
    match path.metadata() {
        Ok(found) => check_stream(found.file_type()),
        Err(_) => Ok(()),
    }
}

/// Checks a file that a rename will replace: refuses a device, a FIFO, a directory or a socket of that name. A symbolic link
/// is followed.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) => check_regular(found.file_type()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses anything but a regular file.
pub fn check_regular(found: FileType) -> io::Result<()> {
    if found.is_file() { Ok(()) } else { Err(kind_refused(kind(found))) }
}

fn output(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    if is_inherited(path) {
        return options.create(true).open(path);
    }
    let not_waiting = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = options.create(true).custom_flags(not_waiting.bits()).open(path);
    let file = opened.map_err(|error| match path.metadata().map(|found| found.file_type()) {
        Ok(found) if found.is_fifo() => kind_refused("a FIFO without a reader"),
        Ok(found) if found.is_dir() => kind_refused("a directory"),
        _ => error,
    })?;
    let found = file.metadata()?.file_type();
    if !found.is_fifo() {
        check_stream(found)?;
    }
    // Only opening must not wait; reading from a terminal may.
    let flags = OFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(file)
}

fn is_inherited(path: &Path) -> bool {
    ["/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().any(|name| path == Path::new(name))
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd")
}

fn kind(found: FileType) -> &'static str {
    match () {
        () if found.is_fifo() => "a FIFO",
        () if found.is_dir() => "a directory",
        () if found.is_block_device() => "a block device",
        () if found.is_char_device() => "a device",
        () if found.is_socket() => "a socket",
        () if found.is_symlink() => "a symbolic link",
        () => "no regular file",
    }
}

fn kind_refused(kind: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("it is {kind}; a regular file is needed here"))
}

/// Accepts a terminal or another character device, which suits text streams.
fn check_stream(found: FileType) -> io::Result<()> {
    if found.is_char_device() { Ok(()) } else { check_regular(found) }
}

fn check(file: &File) -> io::Result<()> {
    // The open used the non-blocking flag, which terminals and other character devices keep.
    check_stream(file.metadata()?.file_type())
}

/// A directory in which another party may have files opened.
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
        // The kernel checks every component of the path, so neither `..` nor a link that is created meanwhile leads outside.
        let how = OpenHow::new()
            .flags(flags | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)
            .mode(Mode::from_bits_truncate(mode))
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        // The empty path is invalid; the absolute path of the directory refers to the directory itself.
        let relative =
            if relative.as_os_str().is_empty() && path.is_absolute() { Path::new(".") } else { relative };
        let opened = openat2(&self.directory, relative, how).map_err(|error| match error {
            nix::errno::Errno::EXDEV => outside(),
            nix::errno::Errno::EISDIR => kind_refused("a directory"),
            error => error.into(),
        })?;
        let file = File::from(opened);
        let found = file.metadata()?;
        check_regular(found.file_type())?;
        // A hard link to a file outside leads outside too.
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
    fn a_file_is_the_same_by_every_name() {
        let folder = Folder::new("same");
        let path = |name: &str| folder.0.join(name);
        symlink("secret", path("link")).unwrap();
        fs::hard_link(path("secret"), path("hard")).unwrap();
        let id = FileId::of(&path("secret"));
        assert!(matches!(id, Some(FileId::Existing { .. })));
        for name in ["link", "hard", "granted/../secret"] {
            assert_eq!(FileId::of(&path(name)), id, "{name}");
        }
        assert_ne!(FileId::of(&path("granted/inner/a")), id);
        fs::rename(path("secret"), path("moved")).unwrap();
        assert_eq!(FileId::of(&path("moved")), id);
        let missing = FileId::of(&path("secret"));
        assert!(matches!(missing, Some(FileId::Missing(_))));
        assert_eq!(FileId::of(&path("granted/../secret")), missing);
        assert_ne!(FileId::of(&path("granted/secret")), missing);
        assert_eq!(FileId::of(Path::new("new")), FileId::of(Path::new("./new")));
        assert_eq!(FileId::of(Path::new("/dev/null")), None);
        fs::rename(path("moved"), path("secret")).unwrap();
    }

    #[test]
    fn opening_does_not_wait() {
        let folder = Folder::new("fifo");
        let path = folder.0.join("fifo");
        fifo(&path);
        // Without a writer, a plain open would wait for ever.
        assert!(open(&path).unwrap_err().to_string().contains("a FIFO"));
        assert!(check_output(&path).unwrap_err().to_string().contains("a FIFO"));
        assert!(open(&folder.0).unwrap_err().to_string().contains("a directory"));
        for refused in [create(&path), append(&path), check_replaceable(&path).map(|()| unreachable!())] {
            assert!(refused.unwrap_err().to_string().contains("a FIFO"));
        }
        // With a reader, opening does not wait.
        let mut reader =
            OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path).unwrap();
        write(&path, "text").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert!(check_replaceable(&path).unwrap_err().to_string().contains("a FIFO"));
        assert_eq!(read_text(&folder.0.join("secret"), 6).unwrap(), "secret");
        assert!(
            read_text(&folder.0.join("secret"), 5).unwrap_err().to_string().contains("more than 5 bytes")
        );
        assert!(read(Path::new("/dev/zero"), 1000).is_err());
        assert_eq!(read(Path::new("/dev/null"), 0).unwrap(), []);
    }

    #[test]
    fn devices_are_written_to_but_not_replaced() {
        let folder = Folder::new("devices");
        let null = Path::new("/dev/null");
        write(null, "nothing").unwrap();
        append(null).unwrap().write_all(b"nothing").unwrap();
        assert!(check_replaceable(null).unwrap_err().to_string().contains("a device"));
        assert!(check_replaceable(&folder.0).unwrap_err().to_string().contains("a directory"));
        assert!(create(&folder.0).unwrap_err().to_string().contains("a directory"));
        let file = folder.0.join("new");
        check_replaceable(&file).unwrap();
        check_output(&file).unwrap();
        assert!(!file.exists());
        write(&file, "first").unwrap();
        write(&file, "two").unwrap();
        append(&file).unwrap().write_all(b" more").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two more");
        check_replaceable(&file).unwrap();
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
        for itself in [top.canonicalize().unwrap(), ".".into(), "inner".into()] {
            for refused in [granted.open(&itself), granted.create(&itself)] {
                assert!(refused.unwrap_err().to_string().contains("a directory"), "{}", itself.display());
            }
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
