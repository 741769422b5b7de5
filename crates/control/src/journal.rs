//! The state file of a switch: the configuration survives the process.
//!
//! `FILE` holds a snapshot, and `FILE.journal` the changes since; each change is appended before it is acknowledged.
//! Both carry checksums and the same serial number. A killed process loses nothing, because the system has all written data.
//! Only the replacement of a file waits for the disk, so a power cut may cost the last seconds.
//!
//! To replace both, p4jet writes a new journal beside the old one, then a new `FILE`, and renames each into place. At every
//! moment there is a complete `FILE`. The journal that continues it is `FILE.journal` or, between the two renames,
//! `FILE.journal.new`. A full disk can prevent the replacement, but does not harm the existing files: as long as their contents
//! are the state of the switch, changes are appended to the old journal.

use crate::changes::Changes;
use crate::control::Control;
use crate::error::count;
use crate::record::{Header, JournalHeader, Record};
use crate::restore::{ReadCommand, Restoring};
use crate::sealed::{Seal, open, seal};

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Seek};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A journal may grow to this length before it is replaced, even if the state file is smaller.
const JOURNAL_BYTES_MIN: u64 = 64 << 20;
/// After a failed replacement, the next attempt waits this many times as long as the failed one took.
const RETRY_FACTOR: u32 = 10;
/// Maximum number of damaged state files that are kept.
const KEPT_MAX: u32 = 10_000;
/// Maximum number of attempts to lock a journal that another switch keeps replacing.
const LOCK_ATTEMPTS: u32 = 100;

/// An open state file.
pub(crate) struct Journal {
    path: PathBuf,
    /// Locked, because another switch with the same file would destroy it. `None` if it could not be created.
    journal: Option<File>,
    /// Its first line; `None` if it has another form.
    header: Option<JournalHeader>,
    journal_bytes: u64,
    snapshot_bytes: u64,
    serial: u64,
    /// The new journal that continues `FILE`, as long as it could not be renamed into place.
    unplaced: Option<(File, JournalHeader)>,
    /// True if the files lack a change, or have something else: nothing is appended until they have been replaced.
    incomplete: bool,
    /// True if the files on disk are damaged or do not fit, and could not be saved under another name yet.
    must_be_kept: bool,
    /// Number of changes that the files lack.
    unsaved: u64,
    /// Time of the next attempt to replace the files, if the last one failed.
    retry: Option<Instant>,
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(ending);
    path.with_file_name(name)
}

/// The state file and all files that p4jet keeps beside it: the journal, the next versions of both, and those that were damaged.
pub fn state_files(path: &Path) -> Vec<PathBuf> {
    let endings = ["", ".journal", ".new", ".journal.new", ".old", ".old.journal"];
    let mut files: Vec<PathBuf> = endings.iter().map(|ending| beside(path, ending)).collect();
    let old = beside(path, ".old");
    let kept = |name: &std::ffi::OsStr| {
        old.file_name().is_some_and(|old| name.as_encoded_bytes().starts_with(old.as_encoded_bytes()))
    };
    let beside = fs::read_dir(folder(path)).into_iter().flatten().flatten();
    files.extend(beside.filter(|file| kept(&file.file_name())).map(|file| file.path()));
    files
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Adds the file name to an error.
fn of(path: &Path) -> impl Fn(io::Error) -> io::Error {
    let path = path.display().to_string();
    move |error| io::Error::new(error.kind(), format!("{path}: {error}"))
}

/// Opens a file for reading, if it exists and is not empty.
fn open_filled(path: &Path) -> io::Result<Option<BufReader<File>>> {
    match p4jet_files::open_regular(path) {
        Ok(file) if file.metadata()?.len() == 0 => Ok(None),
        Ok(file) => Ok(Some(BufReader::new(file))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a file that exists and is neither regular nor a symbolic link.
fn check_left(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_symlink() => p4jet_files::check_regular(found.file_type()),
        _ => Ok(()),
    }
}

/// Refuses a state file that is a device, a FIFO or a directory, or that has one beside it where p4jet needs a file.
fn check_files(path: &Path) -> io::Result<()> {
    p4jet_files::check_replaceable(path).map_err(of(path))?;
    for ending in [".journal", ".new", ".journal.new"] {
        let other = beside(path, ending);
        check_left(&other).map_err(of(&other))?;
    }
    Ok(())
}

/// Creates a file. It replaces one that an earlier attempt left, but never follows a link.
fn create(path: &Path) -> io::Result<File> {
    check_left(path).map_err(of(path))?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// Waits until the names in a file's folder are on the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// True if an error means that the disk is full, which may pass.
fn is_full(error: &io::Error) -> bool {
    let kinds = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(libc::EIO)
}

/// Gives a file a second name that does not exist yet.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // The file system does not support links.
            let mut copy = OpenOptions::new().write(true).create_new(true).open(to)?;
            let copied = io::copy(&mut File::open(from)?, &mut copy).and_then(|_| copy.sync_all());
            copied.inspect_err(|_| drop(fs::remove_file(to)))
        }
        done => done,
    }
}

/// Saves a state file and its journal under new names: both or none.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let journal = beside(path, ".journal");
    for n in 1..=KEPT_MAX {
        let old = beside(path, &if n == 1 { ".old".to_string() } else { format!(".old{n}") });
        let old_journal = beside(&old, ".journal");
        if old.symlink_metadata().is_ok() || old_journal.symlink_metadata().is_ok() {
            continue;
        }
        for (from, to) in [(path, &old), (&journal, &old_journal)] {
            match link(from, to) {
                Err(error) if error.kind() == ErrorKind::NotFound && !from.exists() => {}
                Err(error) => {
                    let _ = fs::remove_file(&old);
                    return Err(of(to)(error));
                }
                Ok(()) => {}
            }
        }
        return Ok(old);
    }
    let why = format!(
        "{} and the others up to .old{KEPT_MAX} exist; move some away",
        beside(path, ".old").display()
    );
    Err(io::Error::new(ErrorKind::AlreadyExists, why))
}

/// Opens the journal, or creates it, so that no other switch can use the state file. True if it is new.
fn locked(path: &Path) -> io::Result<(File, bool)> {
    for _ in 0..LOCK_ATTEMPTS {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let (opened, is_new) = match options.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => (options.create_new(true).open(path), true),
            opened => (opened, false),
        };
        let journal = match opened {
            // Another switch was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            opened => opened.map_err(|error| match error.raw_os_error() {
                Some(libc::ELOOP) => io::Error::new(error.kind(), "it is a symbolic link, expected a file"),
                _ => error,
            })?,
        };
        p4jet_files::check_regular(journal.metadata()?.file_type())?;
        if journal.try_lock().is_err() {
            return Err(io::Error::new(ErrorKind::WouldBlock, "another switch uses this state file"));
        }
        let (ours, now) = (journal.metadata()?, path.symlink_metadata());
        if now.is_ok_and(|now| (now.dev(), now.ino()) == (ours.dev(), ours.ino())) {
            return Ok((journal, is_new));
        }
        // A switch that has since ended replaced it before it was locked here.
    }
    Err(io::Error::new(ErrorKind::WouldBlock, "another switch keeps replacing this state file"))
}

/// The first line of a journal.
enum First {
    /// There was no journal.
    Nothing,
    /// p4jet renames only complete journals into place, so something else emptied it, or the first start was killed.
    Empty,
    Sealed(JournalHeader),
    /// The form of earlier versions.
    Plain(Header),
    Damaged,
}

fn first_line(journal: &File) -> io::Result<First> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(journal);
    reader.rewind()?;
    if reader.read_until(b'\n', &mut line)? == 0 {
        return Ok(First::Empty);
    }
    let seal = open(&mut line);
    Ok(match (seal, serde_json::from_slice(&line)) {
        (Seal::Whole(_), Ok(Record::Journal(header))) => First::Sealed(header),
        (Seal::Missing, Ok(Record::State(header))) => First::Plain(header),
        _ => First::Damaged,
    })
}

impl Journal {
    /// Opens a state file and applies its contents. Returns a report in lines: damaged or unsuitable records, and the names under
    /// which the original files are saved. Without a file, `control` is unchanged.
    pub fn open(
        control: &Control,
        path: &Path,
        read_command: ReadCommand,
    ) -> io::Result<(Journal, Vec<String>)> {
        check_files(path)?;
        let journal_path = beside(path, ".journal");
        let mut report = Vec::new();
        let (journal, is_new) = match locked(&journal_path) {
            Ok((journal, is_new)) => (Some(journal), is_new),
            Err(error) if is_full(&error) => {
                report.push(format!("{}: {error}", journal_path.display()));
                (None, false)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(of(path)(error)),
            Err(error) => return Err(of(&journal_path)(error)),
        };
        // Keeps the lock until the file is gone.
        let new = journal.as_ref().filter(|_| is_new).map(File::try_clone);
        let opened = Journal::open_locked(control, path, read_command, (journal, is_new), report);
        if opened.is_err() && is_new {
            let _ = fs::remove_file(&journal_path);
        }
        drop(new);
        opened
    }

    /// The same, with the journal, which may be new, and a report that begins with these lines.
    fn open_locked(
        control: &Control,
        path: &Path,
        read_command: ReadCommand,
        (journal, is_new): (Option<File>, bool),
        mut report: Vec<String>,
    ) -> io::Result<(Journal, Vec<String>)> {
        let journal_path = beside(path, ".journal");
        let first = match &journal {
            Some(journal) if !is_new => first_line(journal).map_err(of(&journal_path))?,
            _ => First::Nothing,
        };
        let read = |journal: &File| -> io::Result<BufReader<File>> {
            let mut again = journal.try_clone()?;
            again.rewind()?;
            Ok(BufReader::new(again))
        };
        let mut restoring = Restoring::new(control, read_command);
        let (mut serial, mut is_other) = (0, None);
        let mut last = None;
        if let Some(snapshot) = open_filled(path).map_err(of(path))? {
            restoring.begin().map_err(|e| io::Error::other(e.to_string()))?;
            let file = restoring.read(snapshot).map_err(of(path))?;
            let now = &control.program().name;
            is_other = file.program.filter(|program| program != now);
            serial = file.serial.unwrap_or(0);
            let replacement = replacement(&beside(path, ".journal.new"), file.serial);
            match (&first, &journal) {
                (First::Sealed(header), Some(journal))
                    if file.serial.is_none_or(|s| s == header.serial) && file.sealed =>
                {
                    serial = header.serial;
                    let journal = read(journal).map_err(of(&journal_path))?;
                    let read = restoring.read_journal(journal, Some(serial), Some(header));
                    last = Some(read.map_err(of(&journal_path))?);
                }
                (First::Damaged, Some(journal)) => {
                    let journal = read(journal).map_err(of(&journal_path))?;
                    restoring.read_journal(journal, file.serial, None).map_err(of(&journal_path))?;
                }
                (First::Plain(header), Some(journal)) if !file.sealed && header.serial == file.serial => {
                    // A dump has no serial number, and no journal continues it.
                    if file.serial.is_some() {
                        let journal = read(journal).map_err(of(&journal_path))?;
                        restoring.read_plain_journal(journal).map_err(of(&journal_path))?;
                    }
                }
                // The switch ended during a replacement: `FILE` has all acknowledged changes.
                _ if let Some(header) = &replacement => restoring.count_unwritten(header),
                // Earlier versions emptied the journal first and numbered it afterwards.
                (First::Nothing | First::Empty | First::Plain(_), _) if !file.sealed => {}
                (First::Nothing | First::Empty, _) => {
                    let text = "the journal is missing or empty, so changes since the snapshot are lost";
                    restoring.damaged_by(text.into());
                }
                (First::Sealed(header), _) if file.serial.is_none() => {
                    if header.changes > 0 {
                        let text =
                            "the journal continues another state file, so its changes are not restored";
                        restoring.damaged_by(text.into());
                    }
                }
                (First::Sealed(JournalHeader { serial: found, .. }), _) => {
                    let is = serial;
                    let why = match *found > is {
                        true => "the state file is older, so changes since the snapshot are lost",
                        false => "the journal is older, so changes since it was written are lost",
                    };
                    let text =
                        format!("the journal continues state file number {found}, and this is number {is}");
                    restoring.damaged_by(format!("{text}: {why}"));
                }
                (First::Plain(_) | First::Damaged, _) => {
                    let text =
                        "the journal does not continue this state file, so its changes are not restored";
                    restoring.damaged_by(text.into());
                }
            }
        } else {
            // A journal whose state file is missing.
            let gone = |what: &str| format!("it is missing or empty, and {what}");
            match (&first, &journal) {
                (First::Sealed(header), Some(journal)) => {
                    serial = header.serial;
                    restoring.damage("state file", gone("only the changes in its journal are left"));
                    let journal = read(journal).map_err(of(&journal_path))?;
                    restoring.read_journal(journal, Some(serial), Some(header)).map_err(of(&journal_path))?;
                }
                (First::Damaged, Some(journal)) => {
                    restoring.damage("state file", gone("its journal is damaged"));
                    let journal = read(journal).map_err(of(&journal_path))?;
                    restoring.read_journal(journal, None, None).map_err(of(&journal_path))?;
                }
                (First::Plain(header), Some(journal)) => {
                    serial = header.serial.unwrap_or(0);
                    restoring.damage("state file", gone("only the changes in its journal are left"));
                    let journal = read(journal).map_err(of(&journal_path))?;
                    restoring.read_plain_journal(journal).map_err(of(&journal_path))?;
                }
                // A first start that was killed before its first dump leaves an empty journal and no state file.
                (First::Empty, _) if path.symlink_metadata().is_ok() => {
                    restoring.damage("state file", gone("its journal is empty, so all changes are lost"));
                }
                _ => {}
            }
        }
        let [records, changes] = restoring.in_effect;
        let lost = restoring.finish();
        let bytes = |file: io::Result<fs::Metadata>| file.map_or(0, |file| file.len());
        let journal_bytes = journal.as_ref().map_or(0, |journal| bytes(journal.metadata()));
        let snapshot_bytes = bytes(path.metadata());
        let mut journal = Journal {
            path: path.to_path_buf(),
            journal,
            header: match first {
                // A killed switch may not have counted its last change.
                First::Sealed(header) => {
                    Some(JournalHeader { changes: last.unwrap_or(header.changes), ..header })
                }
                _ => None,
            },
            journal_bytes,
            snapshot_bytes,
            serial,
            unplaced: None,
            // The next change can continue files that have everything.
            incomplete: last.is_none() || !lost.is_empty(),
            must_be_kept: !lost.is_empty(),
            unsaved: 0,
            retry: None,
        };
        if let Some(program) = is_other {
            report.push(format!(
                "it belongs to the program {program}, but {} is running",
                control.program().name
            ));
        }
        report.extend(lost.iter().cloned());
        if !lost.is_empty() {
            let (records, changes) = (count(records as usize, "record"), count(changes as usize, "change"));
            report.push(format!("restored: {records} from the snapshot, {changes} from the journal"));
        }
        match journal.replace(control) {
            Ok(kept) => report.extend(kept),
            Err(error) if is_full(&error) && !journal.incomplete => report.push(format!(
                "there is no room for a new state file: changes are appended to the old journal as long as they fit: {error}"
            )),
            Err(error) if is_full(&error) || journal.must_be_kept => {
                report.push(format!("no change is saved until this problem is solved: {error}"));
            }
            Err(error) => return Err(error),
        }
        Ok((journal, report))
    }

    /// Writes a new state file and begins a new journal. Returns the names under which damaged files are saved, if any; an error
    /// has them, too.
    pub fn replace(&mut self, control: &Control) -> io::Result<Option<String>> {
        let began = Instant::now();
        let kept = self.keep_damaged();
        let done = match kept {
            Ok(kept) => match self.try_replace(control) {
                Ok(()) => Ok(kept),
                Err(error) => Err(match kept {
                    Some(kept) => io::Error::new(error.kind(), format!("{error}; {kept}")),
                    None => error,
                }),
            },
            Err(error) => Err(error),
        };
        self.retry = done.is_err().then(|| Instant::now() + RETRY_FACTOR * began.elapsed());
        done.map_err(of(&self.path))
    }

    /// Saves the files under other names, if they are damaged. Returns a note with these names.
    fn keep_damaged(&mut self) -> io::Result<Option<String>> {
        if !self.must_be_kept {
            return Ok(None);
        }
        let old = set_aside(&self.path)?;
        self.must_be_kept = false;
        Ok(Some(format!("the original file is kept as {}", old.display())))
    }

    fn try_replace(&mut self, control: &Control) -> io::Result<()> {
        let (hidden, hidden_journal) = (beside(&self.path, ".new"), beside(&self.path, ".journal.new"));
        let header = JournalHeader::new(self.serial.max(self.header.as_ref().map_or(0, |h| h.serial)) + 1);
        let first = header.line();
        self.unplaced = None;
        let written = (|| {
            let journal = create(&hidden_journal)?;
            journal.try_lock().map_err(|_| io::Error::other("another process has locked the new journal"))?;
            journal.write_all_at(&first, 0)?;
            journal.sync_all()?;
            let mut out = BufWriter::with_capacity(1 << 16, create(&hidden)?);
            control.write_state(false, Some(header.serial), &mut out)?;
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            // Otherwise a power cut could destroy both the old and the new file.
            file.sync_all()?;
            let bytes = file.metadata()?.len();
            p4jet_files::check_replaceable(&self.path)?;
            fs::rename(&hidden, &self.path)?;
            Ok((journal, bytes))
        })();
        let (journal, bytes) = written.inspect_err(|_: &io::Error| {
            let _ = fs::remove_file(&hidden);
            let _ = fs::remove_file(&hidden_journal);
        })?;
        (self.snapshot_bytes, self.serial) = (bytes, header.serial);
        // Until the new journal has its name, nothing may be appended: the next start would not find it.
        self.incomplete = true;
        let journal_path = beside(&self.path, ".journal");
        let placed = check_left(&journal_path).and_then(|()| fs::rename(&hidden_journal, &journal_path));
        if let Err(error) = placed {
            self.unplaced = Some((journal, header));
            return Err(of(&journal_path)(error));
        }
        (self.journal, self.journal_bytes, self.header) = (Some(journal), first.len() as u64, Some(header));
        (self.incomplete, self.unsaved) = (false, 0);
        // Both files exist even if this fails; only a power cut could reveal the difference.
        let _ = sync_folder(&self.path);
        Ok(())
    }

    /// Records changes: all of them or none. While the configuration `is_whole`, a new state file may replace a long journal;
    /// while an array is half set, it may not.
    pub fn note(&mut self, control: &Control, changes: Changes, is_whole: bool) -> io::Result<()> {
        let is_long = self.journal_bytes > JOURNAL_BYTES_MIN.max(2 * self.snapshot_bytes);
        // A long journal that cannot be replaced grows further.
        if is_whole && is_long && !self.incomplete && self.is_due() && self.replace(control).is_ok() {
            return Ok(());
        }
        if !self.incomplete && self.append(changes).is_ok() {
            return Ok(());
        }
        if !is_whole {
            self.mark_unwritten();
            let why = "writing it failed; the next attempt is due when the array is set";
            return Err(of(&self.path)(io::Error::other(why)));
        }
        // If a change cannot be appended, a new state file holds it, if the disk has room.
        if let Some(retry) = self.retry.filter(|_| !self.is_due()) {
            self.mark_unwritten();
            let left = retry.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            let why = format!("writing it failed; the next attempt is due in {} ms", left.as_millis());
            return Err(of(&self.path)(io::Error::other(why)));
        }
        self.replace(control).map(drop).inspect_err(|_| self.mark_unwritten())
    }

    /// Number of changes that the files lack.
    pub fn unsaved(&self) -> u64 {
        self.unsaved
    }

    /// True if the files may be replaced now.
    fn is_due(&self) -> bool {
        self.retry.is_none_or(|retry| Instant::now() >= retry)
    }

    fn append(&mut self, changes: Changes) -> io::Result<()> {
        let (Some(journal), Some(header)) = (&self.journal, &mut self.header) else {
            return Err(io::Error::other("there is no journal"));
        };
        let found = journal.metadata()?;
        if found.nlink() == 0 || found.len() != self.journal_bytes {
            self.incomplete = true;
            return Err(io::Error::other("the journal was deleted, or something else wrote to it"));
        }
        let number = header.changes + 1;
        let mut line = Vec::new();
        seal(changes.into_record(header.serial, number)?, &mut line);
        let written = journal.write_all_at(&line, self.journal_bytes).and_then(|()| {
            header.changes = number;
            journal.write_all_at(&header.line(), 0)
        });
        match written {
            Ok(()) => self.journal_bytes += line.len() as u64,
            Err(_) => {
                // Part of a line is useless.
                header.changes = number - 1;
                let _ = journal.set_len(self.journal_bytes);
                self.incomplete = true;
            }
        }
        written
    }

    /// Records in the first line of the journal that continues `FILE` that a change could not be written: even a full disk has
    /// room there.
    pub(crate) fn mark_unwritten(&mut self) {
        self.incomplete = true;
        self.unsaved += 1;
        let continues = match &mut self.unplaced {
            Some((journal, header)) => Some((&*journal, header)),
            None => self.journal.as_ref().zip(self.header.as_mut()),
        };
        if let (Some((journal, header)), false) = (continues, self.must_be_kept) {
            header.unwritten += 1;
            let _ = journal.write_all_at(&header.line(), 0);
        }
    }
}

/// The first line of this journal, if it has no changes yet and continues the state file with this number.
fn replacement(path: &Path, serial: Option<u64>) -> Option<JournalHeader> {
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let first = opened.and_then(|journal| first_line(&journal));
    match first {
        Ok(First::Sealed(header)) if Some(header.serial) == serial && header.changes == 0 => Some(header),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder for a test.
    fn folder(role: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("p4jet-{role}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A new state file, its switch, and what opening it reports.
    fn opened(file: &Path) -> (Control, Journal, Vec<String>) {
        let program = p4jet_ir::text::parse(include_str!("../tests/common/sample.ir")).unwrap();
        let control = Control::new(p4jet_dataplane::Switch::new(program).unwrap());
        let (journal, report) = Journal::open(&control, file, |_, _| Ok(None)).unwrap();
        (control, journal, report)
    }

    #[test]
    fn files_are_set_aside_together_or_not_at_all() {
        let folder = folder("aside");
        // The longest name that leaves room for `.journal` and `.old`, but not for both.
        let file = folder.join("s".repeat(247));
        fs::write(&file, "state").unwrap();
        fs::write(beside(&file, ".journal"), "journal").unwrap();
        set_aside(&file).unwrap_err();
        let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, [file.clone(), beside(&file, ".journal")]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_long_journal_is_not_replaced_while_an_array_is_half_set() {
        let folder = folder("whole");
        let file = folder.join("state");
        let (control, mut journal, _) = opened(&file);
        let changes = || {
            let mut changes = Changes::default();
            changes.add(control.schema(), &crate::Update::Reset, &crate::made::Made::default());
            changes.done(None);
            changes
        };
        let serial = |journal: &Journal| journal.header.as_ref().unwrap().serial;
        let first = serial(&journal);
        // The rest of the file is a hole.
        journal.journal_bytes = JOURNAL_BYTES_MIN.max(2 * journal.snapshot_bytes) + 1;
        journal.journal.as_ref().unwrap().set_len(journal.journal_bytes).unwrap();
        journal.note(&control, changes(), false).unwrap();
        assert_eq!(serial(&journal), first);
        journal.note(&control, changes(), true).unwrap();
        assert_ne!(serial(&journal), first);
        drop(journal);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn unwritten_changes_are_counted_although_the_new_journal_has_no_place() {
        let folder = folder("unplaced");
        let file = folder.join("state");
        let (control, mut journal, _) = opened(&file);
        let (name, moved) = (beside(&file, ".journal"), folder.join("moved"));
        fs::rename(&name, &moved).unwrap();
        fs::create_dir(&name).unwrap();
        let error = journal.replace(&control).unwrap_err().to_string();
        assert!(error.contains("state.journal: it is a directory"), "{error}");
        journal.mark_unwritten();
        drop(journal);
        fs::remove_dir(&name).unwrap();
        fs::rename(&moved, &name).unwrap();
        let (_, journal, report) = opened(&file);
        assert!(
            report.contains(&"journal: 1 change could not be written at the time".to_string()),
            "{report:?}"
        );
        drop(journal);
        let (_, _, report) = opened(&file);
        assert_eq!(report, Vec::<String>::new(), "it is reported once");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_failed_replacement_names_the_files_that_were_kept() {
        let folder = folder("kept");
        let file = folder.join("state");
        let (control, mut journal, report) = opened(&file);
        assert_eq!(report, Vec::<String>::new());
        journal.must_be_kept = true;
        // Something takes the place of a file that p4jet needs.
        fs::create_dir(beside(&file, ".new")).unwrap();
        let error = journal.replace(&control).unwrap_err().to_string();
        let kept = format!("the original file is kept as {}", beside(&file, ".old").display());
        assert!(error.contains("state.new: ") && error.ends_with(&kept), "{error}");
        fs::remove_dir(beside(&file, ".new")).unwrap();
        assert_eq!(journal.replace(&control).unwrap(), None, "it is reported once");
        drop(journal);
        fs::remove_dir_all(folder).unwrap();
    }
}
