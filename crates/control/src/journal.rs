//! The state file of a switch: what the control plane set survives the process.
//!
//! `FILE` has all of it as it was at one time, `FILE.journal` the changes since, each appended before it is answered. A
//! process that is killed loses nothing: the system has what was written. Nothing waits for the disk except the file
//! that replaces another, so the last seconds before a power cut may be lost.

use crate::commands::{Control, Did, Header, Record, Restoring};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The journal may grow to this before it is replaced, however little there is otherwise.
const JOURNAL_BYTES_MIN: u64 = 64 << 20;

/// An open state file.
pub(crate) struct Journal {
    path: PathBuf,
    /// Locked: another switch with the same file would destroy it.
    journal: File,
    journal_bytes: u64,
    snapshot_bytes: u64,
    serial: u64,
    /// A change could not be written: the file has a hole.
    incomplete: bool,
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(ending);
    path.with_file_name(name)
}

/// A file, if there is one with something in it.
fn open(path: &Path) -> io::Result<Option<BufReader<File>>> {
    match File::open(path) {
        Ok(file) if file.metadata()?.len() == 0 => Ok(None),
        Ok(file) => Ok(Some(BufReader::new(file))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps a state file and its journal as they are, in files that are new: only what fits the program goes on.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let names = (1..).map(|n| if n == 1 { ".old".to_string() } else { format!(".old{n}") });
    let mut free = names.map(|ending| beside(path, &ending)).filter(|old| !old.exists());
    let old = free.next().unwrap_or_else(|| beside(path, ".old"));
    fs::copy(path, &old)?;
    fs::copy(beside(path, ".journal"), beside(&old, ".journal"))?;
    Ok(old)
}

impl Journal {
    /// Opens a state file and puts what it has into effect; what did not fit, and where it is kept, one a line. Without a
    /// file `control` stays as it is.
    pub fn open(control: &Control, path: &Path) -> io::Result<(Journal, Vec<String>)> {
        let wrong = |path: &Path| {
            let path = path.display().to_string();
            move |e: io::Error| io::Error::new(e.kind(), format!("{path}: {e}"))
        };
        let journal_path = beside(path, ".journal");
        let journal = OpenOptions::new().read(true).append(true).create(true).open(&journal_path);
        let journal = journal.map_err(wrong(&journal_path))?;
        journal.try_lock().map_err(|_| {
            let why = format!("{}: another switch uses this state file", path.display());
            io::Error::new(ErrorKind::WouldBlock, why)
        })?;
        let mut lost = Vec::new();
        let mut serial = 0;
        if let Some(snapshot) = open(path).map_err(wrong(path))? {
            let mut restoring = Restoring::new(control);
            restoring.begin().map_err(|e| io::Error::other(e.to_string()))?;
            let header = restoring.read(snapshot, true).map_err(wrong(path))?;
            // Restored from a dump, the file has no number, and no journal goes on from it.
            let (program, now) = (header.as_ref().map(|h| h.program.clone()), &control.program().name);
            if let Some(found) = header.and_then(|header| header.serial) {
                serial = found;
                let goes_on = header_of(&journal)?.and_then(|header| header.serial) == Some(serial);
                if goes_on {
                    let again = File::open(&journal_path).map_err(wrong(&journal_path))?;
                    restoring.read(BufReader::new(again), false).map_err(wrong(&journal_path))?;
                }
            }
            let torn = usize::from(restoring.torn);
            lost = restoring.finish().into_iter().map(|line| format!("left out: {line}")).collect();
            if lost.len() > torn {
                let old = set_aside(path).map_err(wrong(path))?;
                lost.push(format!("the file as it was is kept as {}", old.display()));
            }
            if let Some(program) = program.filter(|program| program != now) {
                lost.insert(0, format!("it is of the program {program}, and {now} runs now"));
            }
        }
        let path = path.to_path_buf();
        let (journal_bytes, snapshot_bytes, incomplete) = (0, 0, false);
        let mut journal = Journal { path, journal, journal_bytes, snapshot_bytes, serial, incomplete };
        journal.replace(control)?;
        Ok((journal, lost))
    }

    /// Writes a new snapshot, from which on the journal begins anew.
    pub fn replace(&mut self, control: &Control) -> io::Result<()> {
        let serial = self.serial + 1;
        let hidden = beside(&self.path, ".new");
        let written = (|| {
            let mut out = BufWriter::with_capacity(1 << 16, File::create(&hidden)?);
            control.write_state(false, Some(serial), &mut out)?;
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            // Otherwise a power cut could leave neither the old one nor the new one.
            file.sync_data()?;
            let bytes = file.metadata()?.len();
            fs::rename(&hidden, &self.path)?;
            Ok(bytes)
        })();
        let wrong = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", self.path.display()));
        self.snapshot_bytes = written.inspect_err(|_| drop(fs::remove_file(&hidden))).map_err(wrong)?;
        // The old journal goes on from another snapshot, so it is not read even if it stays.
        self.serial = serial;
        self.incomplete = true;
        self.journal.set_len(0)?;
        let header = Header::new(control.program().name.clone(), Some(serial));
        self.journal_bytes = 0;
        self.append(&Record::State(header))?;
        self.incomplete = false;
        Ok(())
    }

    /// Notes changes, all of them or none.
    pub fn note(
        &mut self,
        control: &Control,
        commands: Vec<String>,
        handles: Vec<Option<u32>>,
    ) -> io::Result<()> {
        // What could not be written then is written now, with all the rest.
        if self.incomplete || self.journal_bytes > JOURNAL_BYTES_MIN.max(2 * self.snapshot_bytes) {
            return self.replace(control);
        }
        self.append(&Record::Did(Did { commands, handles }))
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let written = self.journal.write_all(&line);
        self.incomplete |= written.is_err();
        self.journal_bytes += line.len() as u64;
        written
    }
}

/// The first record of a journal.
fn header_of(journal: &File) -> io::Result<Option<Header>> {
    use io::{BufRead, Seek};
    let mut first = Vec::new();
    let mut reader = BufReader::new(journal);
    reader.rewind()?;
    reader.read_until(b'\n', &mut first)?;
    Ok(match serde_json::from_slice(&first) {
        Ok(Record::State(header)) => Some(header),
        _ => None,
    })
}
