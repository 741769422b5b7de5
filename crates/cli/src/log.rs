//! The log of a running switch: one event per line, plain or, with `run --log`, as text or JSON; or bmv2's log, with each
//! packet's steps.
//!
//! Workers only put lines and packets into a bounded queue; a thread formats and writes them. Lines caused by packets are
//! limited to a number per second, except in bmv2's log. Suppressed lines are counted and reported.
#![allow(unsafe_code)]

use crate::failure::Failure;
use p4jet_dataplane::{LogLevel, LoggedPacket};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Maximum number of lines that wait to be written.
const WAITING_MAX: usize = 1 << 16;
/// Time for which the end of a switch waits for the reader of its lines.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of lines per second that packets may cause.
const PACKET_LINES_MAX: u32 = 1000;
/// Interval at which suppressed lines are reported.
const REPORT: Duration = Duration::from_secs(1);

/// The format of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Time, level, event, text.
    Text,
    /// A JSON object.
    Json,
    /// Only the text, and the port if it concerns one.
    #[value(skip)]
    Plain,
    /// That of bmv2: local time, level, thread, packet, text.
    #[value(skip)]
    Bmv2,
}

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Level {
    /// A component failed.
    Error,
    /// Something is wrong, but may recover.
    Warn,
    /// Something happened.
    Info,
    /// Performance events such as recompilations; in bmv2's log, packet events.
    Debug,
    /// In bmv2's log, each step of a packet.
    #[value(skip)]
    Trace,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Level {
        match level {
            LogLevel::Trace => Level::Trace,
            LogLevel::Debug => Level::Debug,
            LogLevel::Info => Level::Info,
            LogLevel::Error => Level::Error,
        }
    }
}

/// An entry of the queue.
enum Entry {
    Line(Line),
    Packet(Box<LoggedPacket>),
}

/// An event.
struct Line {
    time: SystemTime,
    /// The system's number of the thread that logged it.
    thread: i32,
    level: Level,
    event: &'static str,
    port: Option<u32>,
    /// For tools: the information in the text, as fields.
    more: Vec<(&'static str, Value)>,
    text: String,
}

/// Maximum number of older log files that [`Files::names`] lists.
const OLDER_MAX: u32 = 100;

/// The files of a log.
pub struct Files {
    /// The name of the current file.
    pub path: PathBuf,
    /// Maximum size of the current file in bytes, and the number of older files to keep, called F.1.txt, F.2.txt and so on:
    /// at that size it is renamed.
    pub rotation: Option<(u64, u32)>,
}

impl Files {
    /// Opens or creates the file.
    fn open(&self) -> io::Result<File> {
        p4jet_files::append(&self.path)
    }

    /// Returns the name of an older file; 0 is the current one.
    fn older(&self, number: u32) -> PathBuf {
        match (number, self.path.extension()) {
            (0, _) => self.path.clone(),
            (_, None) => self.path.with_extension(number.to_string()),
            (_, Some(extension)) => {
                self.path.with_extension(format!("{number}.{}", extension.to_string_lossy()))
            }
        }
    }

    /// The names of the current file and of the older ones, at most [`OLDER_MAX`].
    pub fn names(&self) -> impl Iterator<Item = PathBuf> {
        let kept = self.rotation.map_or(0, |(_, kept)| kept);
        (0..=kept.min(OLDER_MAX)).map(|number| self.older(number))
    }

    /// Renames all files; the oldest is deleted. A device is not rotated.
    fn rotate(&self, kept: u32) -> io::Result<File> {
        if p4jet_files::check_replaceable(&self.path).is_err() {
            return self.open();
        }
        for number in (0..kept).rev() {
            // Some do not exist yet.
            let _ = std::fs::rename(self.older(number), self.older(number + 1));
        }
        p4jet_files::create(&self.path)
    }
}

/// The destination of text.
struct Target {
    to: Option<Box<dyn Write + Send>>,
    files: Option<Files>,
    /// Set to request that the file be reopened under its name.
    reopen: Arc<AtomicBool>,
    /// Size of the file in bytes.
    written: u64,
}

impl Target {
    /// Writes some lines. True if they were written. If there is no reader any more, later lines are discarded; a full disk
    /// may have room later.
    fn write(&mut self, text: &str) -> bool {
        if let Some(files) = &self.files {
            let file = if self.reopen.swap(false, Ordering::Relaxed) {
                Some(files.open())
            } else {
                let rotation =
                    files.rotation.filter(|(bytes_max, _)| self.written + text.len() as u64 > *bytes_max);
                rotation.filter(|_| self.written > 0).map(|(_, kept)| files.rotate(kept))
            };
            if let Some(file) = file {
                self.to = file.ok().map(|file| Box::new(file) as _);
                self.written = 0;
            }
        }
        let Some(to) = &mut self.to else { return false };
        match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
            Ok(()) => {
                self.written += text.len() as u64;
                true
            }
            Err(error) => {
                use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
                if !matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
                    self.to = None;
                }
                false
            }
        }
    }
}

/// Lines that could not be written. The log reports their number once the disk has room.
#[derive(Default)]
struct LeftOut {
    lines: AtomicU64,
    packets: Arc<AtomicU64>,
}

/// Receives events.
pub struct Log {
    level: Level,
    form: Form,
    /// Set if it writes to a file.
    reopen: Option<Arc<AtomicBool>>,
    entries: Mutex<Option<SyncSender<Entry>>>,
    left_out: Arc<LeftOut>,
    packets: Mutex<(Instant, u32)>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Writes to files, or to standard error.
    pub fn start(form: Form, level: Level, files: Option<Files>) -> Result<Log, Failure> {
        let Some(files) = files else { return Log::to(form, level, Box::new(io::stderr()), None) };
        let path = files.path.display();
        let file = files.open().map_err(|e| Failure::Environment(format!("cannot write {path}: {e}")))?;
        Log::to(form, level, Box::new(file), Some(files))
    }

    /// Writes to the given output; [`Self::reopen`] opens `files`.
    pub fn to(
        form: Form,
        level: Level,
        to: Box<dyn Write + Send>,
        files: Option<Files>,
    ) -> Result<Log, Failure> {
        let wanted = Arc::new(AtomicBool::new(false));
        let reopen = files.is_some().then(|| Arc::clone(&wanted));
        let (entries, waiting) = sync_channel(WAITING_MAX);
        let left_out = Arc::new(LeftOut::default());
        let target = Target { to: Some(to), files, reopen: wanted, written: 0 };
        let writer = {
            let left_out = Arc::clone(&left_out);
            let work = move || write(form, level, target, &waiting, &left_out);
            p4jet_threads::spawn("log", work)
        };
        let writer = writer.map_err(|e| Failure::Environment(format!("no thread for the log: {e}")))?;
        Ok(Log {
            level,
            form,
            reopen,
            entries: Mutex::new(Some(entries)),
            left_out,
            packets: Mutex::new((Instant::now(), 0)),
            writer: Mutex::new(Some(writer)),
        })
    }

    /// True if it writes plain text to standard error.
    pub fn is_for_people(&self) -> bool {
        matches!(self.form, Form::Plain) && self.reopen.is_none()
    }

    /// Queues a line for writing.
    pub fn report(&self, level: Level, event: &'static str, port: Option<u32>, text: impl Into<String>) {
        self.put(level, event, port, Vec::new(), text.into());
    }

    fn put(
        &self,
        level: Level,
        event: &'static str,
        port: Option<u32>,
        more: Vec<(&'static str, Value)>,
        text: String,
    ) {
        if level > self.level {
            return;
        }
        let line = Line { time: SystemTime::now(), thread: thread_number(), level, event, port, more, text };
        if !self.enter(Entry::Line(line)) {
            self.left_out.lines.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds it to the queue, if there is room.
    fn enter(&self, entry: Entry) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.as_ref().is_some_and(|entries| entries.try_send(entry).is_ok())
    }

    /// Queues the trace of a packet for writing.
    pub fn put_packet(&self, packet: LoggedPacket) {
        if !self.enter(Entry::Packet(Box::new(packet))) {
            self.left_out.packets.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the counter of packets that were not passed to [`Self::put_packet`].
    pub fn packets_left_out(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.left_out.packets)
    }

    /// Like [`Self::report`], for a line caused by a packet; all of them are written if nothing else is.
    pub fn report_of_packet(&self, level: Level, event: &'static str, text: &str) {
        if level > self.level {
            return;
        }
        if !matches!(self.form, Form::Plain | Form::Bmv2) {
            let mut packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
            let (since, lines) = &mut *packets;
            if since.elapsed() >= Duration::from_secs(1) {
                (*since, *lines) = (Instant::now(), 0);
            }
            *lines += 1;
            if *lines > PACKET_LINES_MAX {
                self.left_out.lines.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        self.report(level, event, None, text);
    }

    /// Reopens the file under its name before the next line. False if it writes to none.
    pub fn reopen(&self) -> bool {
        self.reopen.iter().for_each(|wanted| wanted.store(true, Ordering::Relaxed));
        self.reopen.is_some()
    }

    /// Waits until everything is written, or nothing has been read for [`LINGER`].
    pub fn finish(&self) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let start = Instant::now();
            while !writer.is_finished() && start.elapsed() < LINGER {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The destination of messages.
#[derive(Clone)]
pub struct Voice(pub Arc<Log>);

impl Voice {
    /// Logs an event; `port` is the port that it concerns.
    pub fn report(&self, level: Level, event: &'static str, port: Option<u32>, text: impl Into<String>) {
        self.0.report(level, event, port, text);
    }

    /// Like [`Self::report`], with fields that appear only in JSON.
    pub fn report_with_fields(
        &self,
        level: Level,
        event: &'static str,
        more: Vec<(&'static str, Value)>,
        text: impl Into<String>,
    ) {
        self.0.put(level, event, None, more, text.into());
    }
}

/// Writes entries until the queue is closed.
fn write(form: Form, level: Level, mut target: Target, waiting: &Receiver<Entry>, left_out: &LeftOut) {
    let mut reported = Instant::now();
    loop {
        let entry = waiting.recv_timeout(REPORT);
        let ended = matches!(entry, Err(RecvTimeoutError::Disconnected));
        match entry {
            Ok(Entry::Line(line)) if !target.write(&text_of(form, &line)) => {
                left_out.lines.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Entry::Packet(packet)) if !target.write(&packet_text(&packet, level)) => {
                left_out.packets.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        if ended || reported.elapsed() >= REPORT {
            reported = Instant::now();
            report_left_out(form, &mut target, left_out);
        }
        if ended {
            return;
        }
    }
}

/// Reports lines that were not written, if any, as soon as that can be written.
fn report_left_out(form: Form, target: &mut Target, left_out: &LeftOut) {
    let (lines, packets) = (&left_out.lines, &left_out.packets);
    for (count, what) in [
        (lines, "lines suppressed: there were too many, or they could not be written"),
        (packets, "packets and copies are not logged: they came faster than the log could be written"),
    ] {
        let n = count.swap(0, Ordering::Relaxed);
        if n == 0 {
            continue;
        }
        let line = Line {
            time: SystemTime::now(),
            thread: thread_number(),
            level: Level::Warn,
            event: "left_out",
            port: None,
            more: Vec::new(),
            text: format!("{n} {what}"),
        };
        if !target.write(&text_of(form, &line)) {
            count.fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// Returns the lines of a packet up to this level.
fn packet_text(packet: &LoggedPacket, level_max: Level) -> String {
    let mut text = String::new();
    packet.write_lines(&mut |level, line| {
        let of_packet = level != LogLevel::Info;
        let level = Level::from(level);
        if level > level_max {
            return;
        }
        text += &bmv2_prefix(packet.time, level, packet.thread);
        // Messages of the program are on separate lines, as in bmv2.
        if of_packet {
            let _ = write!(text, "[{}.{}] [cxt 0] ", packet.number, packet.copy);
        }
        text.push_str(line);
        text.push('\n');
    });
    text
}

/// Returns the prefix of a line of bmv2's log.
fn bmv2_prefix(time: SystemTime, level: Level, thread: i32) -> String {
    let level = match level {
        Level::Error => 'E',
        Level::Warn => 'W',
        Level::Info => 'I',
        Level::Debug => 'D',
        Level::Trace => 'T',
    };
    let (hours, minutes, seconds, ms) = local_time(time);
    format!("[{hours:02}:{minutes:02}:{seconds:02}.{ms:03}] [bmv2] [{level}] [thread {thread}] ")
}

/// Returns hours, minutes, seconds and milliseconds.
fn local_time(time: SystemTime) -> (i32, i32, i32, u32) {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = libc::time_t::try_from(since.as_secs()).unwrap_or(libc::time_t::MAX);
    // SAFETY: `tm` holds integers and a pointer that is not used; all zeros are a valid value.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid; a year that does not fit leaves zeros.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    (local.tm_hour, local.tm_min, local.tm_sec, since.subsec_millis())
}

/// Returns the system's number of this thread.
fn thread_number() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

fn text_of(form: Form, line: &Line) -> String {
    let time = timestamp(line.time);
    match form {
        Form::Plain => match line.port {
            Some(port) => format!("port {port}: {}\n", line.text),
            None => line.text.clone() + "\n",
        },
        Form::Bmv2 => bmv2_prefix(line.time, line.level, line.thread) + &line.text + "\n",
        Form::Text => {
            let mut text = format!("{time} {:<5} {}", line.level.name(), line.event);
            if let Some(port) = line.port {
                let _ = write!(text, " port={port}");
            }
            // One event is one line, even if text from a packet or program has line ends.
            let clean: String = line.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            text + ": " + &clean + "\n"
        }
        Form::Json => {
            let mut object = Map::new();
            object.insert("time".into(), time.into());
            object.insert("level".into(), line.level.name().into());
            object.insert("event".into(), line.event.into());
            if let Some(port) = line.port {
                object.insert("port".into(), port.into());
            }
            object.extend(line.more.iter().map(|(name, value)| (name.to_string(), value.clone())));
            object.insert("text".into(), line.text.as_str().into());
            Value::Object(object).to_string() + "\n"
        }
    }
}

/// RFC 3339, in UTC, to the microsecond.
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years start in March, so that a leap day is the last day. 400 years have 146,097 days; the first of March of the year 0
    // was 719,468 days before 1970.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Five consecutive months have 153 days.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!(
        "{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        400 * era + year + next,
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_micros()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000007Z"),
            (951_782_399, "2000-02-28T23:59:59.000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000007Z"),
            (1_795_275_296, "2026-11-21T15:34:56.000007Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(7);
            assert_eq!(timestamp(time), text);
        }
    }

    /// A reader that has stopped reading.
    struct Stuck;

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_secs(60));
            Ok(0)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn writers_do_not_wait_for_a_reader() {
        let start = Instant::now();
        let log = Log::to(Form::Plain, Level::Info, Box::new(Stuck), None).expect("a log");
        for _ in 0..2 * WAITING_MAX {
            log.report_of_packet(Level::Info, "log_msg", "line");
        }
        assert!(log.left_out.lines.load(Ordering::Relaxed) >= WAITING_MAX as u64 - 1);
        drop(log);
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_moved_file_is_recreated() {
        let path = std::env::temp_dir().join(format!("p4jet-log-{}", std::process::id()));
        let moved = path.with_extension("1");
        let files = Files { path: path.clone(), rotation: None };
        let log = Log::start(Form::Plain, Level::Info, Some(files)).expect("a log");
        log.report(Level::Info, "start", None, "one");
        let start = Instant::now();
        while std::fs::read_to_string(&path).expect("a file") != "one\n" {
            assert!(start.elapsed() < Duration::from_secs(10));
        }
        std::fs::rename(&path, &moved).expect("moved");
        assert!(log.reopen());
        log.report(Level::Info, "start", None, "two");
        drop(log);
        assert_eq!([&moved, &path].map(|p| std::fs::read_to_string(p).expect("a file")), ["one\n", "two\n"]);
        [&moved, &path].into_iter().for_each(|p| std::fs::remove_file(p).expect("removed"));
    }

    #[test]
    fn each_event_is_one_line() {
        let time = SystemTime::UNIX_EPOCH;
        let line = Line {
            time,
            thread: 7,
            level: Level::Warn,
            event: "link",
            port: Some(3),
            more: vec![("packets", 7.into())],
            text: "down\n\"gone\"".into(),
        };
        assert_eq!(
            text_of(Form::Text, &line),
            "1970-01-01T00:00:00.000000Z warn  link port=3: down \"gone\"\n"
        );
        assert_eq!(text_of(Form::Plain, &line), "port 3: down\n\"gone\"\n");
        assert_eq!(
            text_of(Form::Json, &line),
            "{\"time\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"warn\",\"event\":\"link\",\"port\":3,\
             \"packets\":7,\"text\":\"down\\n\\\"gone\\\"\"}\n"
        );
    }

    #[test]
    fn a_large_file_becomes_an_older_one() {
        let dir = std::env::temp_dir().join(format!("p4jet-log-rotation-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let files = Files { path: dir.join("s.txt"), rotation: Some((10, 2)) };
        let log = Log::start(Form::Plain, Level::Info, Some(files)).expect("a log");
        ["first", "2nd", "third line, longer than a file", "fourth", "fifth"]
            .into_iter()
            .for_each(|line| log.report(Level::Info, "start", None, line));
        drop(log);
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
        assert_eq!(read("s.txt").as_deref(), Some("fifth\n"));
        assert_eq!(read("s.1.txt").as_deref(), Some("fourth\n"));
        assert_eq!(read("s.2.txt").as_deref(), Some("third line, longer than a file\n"));
        assert_eq!(read("s.3.txt"), None, "two are kept");
        std::fs::remove_dir_all(&dir).expect("removed");
    }

    /// A disk that refuses this many writes.
    struct Full(u32, Arc<Mutex<Vec<u8>>>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Err(io::Error::from_raw_os_error(libc::ENOSPC))
                }
                None => {
                    self.1.lock().expect("no holder panics").extend(bytes);
                    Ok(bytes.len())
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_again_after_a_full_disk() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = Log::to(Form::Plain, Level::Info, Box::new(Full(2, Arc::clone(&written))), None);
        let log = log.expect("a log");
        (1..=3).for_each(|n| log.report(Level::Info, "start", None, n.to_string()));
        drop(log);
        let written = String::from_utf8(written.lock().expect("no holder panics").clone()).expect("text");
        let left_out = "2 lines suppressed: there were too many, or they could not be written\n";
        assert_eq!(written, format!("3\n{left_out}"));
    }

    #[test]
    fn bmv2s_lines() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_275_296_007);
        let line = Line {
            time,
            thread: 7,
            level: Level::Info,
            event: "log_msg",
            port: None,
            more: Vec::new(),
            text: "n = 3".into(),
        };
        let text = text_of(Form::Bmv2, &line);
        // Hours and minutes depend on the time zone.
        assert_eq!((&text[..1], &text[7..]), ("[", "56.007] [bmv2] [I] [thread 7] n = 3\n"));
    }
}
