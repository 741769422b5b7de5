//! What a running switch tells as it runs: one event a line, plainly or, with `run --log`, for people or as JSON.
//!
//! Workers only put lines into a bounded queue; a thread writes them. What packets cause is limited to so many lines a
//! second. What was left out is counted and told.

use crate::failure::Failure;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Lines that wait to be written.
const WAITING_MAX: usize = 1 << 16;
/// How long the end of a switch waits for whoever reads its lines.
const LINGER: Duration = Duration::from_secs(1);
/// Lines a second that packets may cause.
const PACKET_LINES_MAX: u32 = 1000;
/// How often it is told that lines were left out.
const TELL: Duration = Duration::from_secs(1);

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Time, level, event, text.
    Text,
    /// A JSON object.
    Json,
    /// The text alone, with the port if it is about one.
    #[value(skip)]
    Plain,
}

/// How grave an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Level {
    /// Something ended that should not.
    Error,
    /// Something is wrong that may pass.
    Warn,
    /// Something happened.
    Info,
    /// Something that concerns only how fast packets are: code made anew.
    Debug,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// An event.
struct Line {
    time: SystemTime,
    level: Level,
    event: &'static str,
    port: Option<u32>,
    /// For tools: what the text says in words.
    more: Vec<(&'static str, Value)>,
    text: String,
}

/// A log file that may have been moved away.
struct Anew {
    path: PathBuf,
    wanted: AtomicBool,
}

fn appended(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// Takes events.
pub struct Log {
    level: Level,
    form: Form,
    anew: Option<Arc<Anew>>,
    lines: Mutex<Option<SyncSender<Line>>>,
    left_out: Arc<AtomicU64>,
    packets: Mutex<(Instant, u32)>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Writes to a file, or to standard error.
    pub fn start(form: Form, level: Level, file: Option<&Path>) -> Result<Log, Failure> {
        let Some(path) = file else { return Log::to(form, level, Box::new(io::stderr()), None) };
        let file = appended(path);
        let refused = |e| Failure::Environment(format!("cannot write {}: {e}", path.display()));
        Log::to(form, level, Box::new(file.map_err(refused)?), Some(path.to_path_buf()))
    }

    /// Writes where it is told; `file` is what [`Self::reopen`] opens.
    pub fn to(
        form: Form,
        level: Level,
        to: Box<dyn Write + Send>,
        file: Option<PathBuf>,
    ) -> Result<Log, Failure> {
        let anew = file.map(|path| Arc::new(Anew { path, wanted: AtomicBool::new(false) }));
        let (lines, waiting) = sync_channel(WAITING_MAX);
        let left_out = Arc::new(AtomicU64::new(0));
        let writer = {
            let left_out = Arc::clone(&left_out);
            let anew = anew.clone();
            let work = move || write(form, to, anew.as_deref(), &waiting, &left_out);
            std::thread::Builder::new().name("log".into()).spawn(work)
        };
        let writer = writer.map_err(|e| Failure::Environment(format!("no thread for the log: {e}")))?;
        Ok(Log {
            level,
            form,
            anew,
            lines: Mutex::new(Some(lines)),
            left_out,
            packets: Mutex::new((Instant::now(), 0)),
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Writes a line, soon.
    pub fn tell(&self, level: Level, event: &'static str, port: Option<u32>, text: impl Into<String>) {
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
        let line = Line { time: SystemTime::now(), level, event, port, more, text };
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.as_ref().is_none_or(|lines| lines.try_send(line).is_err()) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The same of a line that a packet caused; all of them if nothing else is written there.
    pub fn tell_of_packet(&self, level: Level, event: &'static str, text: &str) {
        if level > self.level {
            return;
        }
        if self.form != Form::Plain {
            let mut packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
            let (since, lines) = &mut *packets;
            if since.elapsed() >= Duration::from_secs(1) {
                (*since, *lines) = (Instant::now(), 0);
            }
            *lines += 1;
            if *lines > PACKET_LINES_MAX {
                self.left_out.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        self.tell(level, event, None, text);
    }

    /// From the next line on it writes to a file of the name that it was given; false: it writes to none.
    pub fn reopen(&self) -> bool {
        self.anew.iter().for_each(|anew| anew.wanted.store(true, Ordering::Relaxed));
        self.anew.is_some()
    }

    /// Waits until all is written, or nobody has read it for [`LINGER`].
    pub fn finish(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take();
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

/// Where messages go.
#[derive(Clone)]
pub struct Voice(pub Arc<Log>);

impl Voice {
    /// Tells of an event; `port` is the one that it is about.
    pub fn tell(&self, level: Level, event: &'static str, port: Option<u32>, text: impl Into<String>) {
        self.0.tell(level, event, port, text);
    }

    /// The same with fields that only JSON has.
    pub fn tell_more(
        &self,
        level: Level,
        event: &'static str,
        more: Vec<(&'static str, Value)>,
        text: impl Into<String>,
    ) {
        self.0.put(level, event, None, more, text.into());
    }
}

/// Writes lines as they come, until no more can. If nobody reads them any more, they are thrown away.
fn write(
    form: Form,
    to: Box<dyn Write + Send>,
    anew: Option<&Anew>,
    waiting: &Receiver<Line>,
    left_out: &AtomicU64,
) {
    let mut to = Some(to);
    let mut put = |line: Line| {
        if let Some(Anew { path, .. }) = anew.filter(|anew| anew.wanted.swap(false, Ordering::Relaxed)) {
            to = appended(path).ok().map(|file| Box::new(file) as _);
        }
        let done =
            to.as_mut().map(|to| to.write_all(text_of(form, &line).as_bytes()).and_then(|()| to.flush()));
        if let Some(Err(_)) = done {
            to = None;
        }
    };
    let mut told = Instant::now();
    loop {
        let line = waiting.recv_timeout(TELL);
        let ended = matches!(line, Err(RecvTimeoutError::Disconnected));
        if let Ok(line) = line {
            put(line);
        }
        if ended || told.elapsed() >= TELL {
            told = Instant::now();
            let n = left_out.swap(0, Ordering::Relaxed);
            if n > 0 {
                let text = format!("{n} lines left out: there were too many");
                put(Line {
                    time: SystemTime::now(),
                    level: Level::Warn,
                    event: "left_out",
                    port: None,
                    more: Vec::new(),
                    text,
                });
            }
        }
        if ended {
            return;
        }
    }
}

fn text_of(form: Form, line: &Line) -> String {
    let time = timestamp(line.time);
    match form {
        Form::Plain => match line.port {
            Some(port) => format!("port {port}: {}\n", line.text),
            None => line.text.clone() + "\n",
        },
        Form::Text => {
            let mut text = format!("{time} {:<5} {}", line.level.name(), line.event);
            if let Some(port) = line.port {
                let _ = write!(text, " port={port}");
            }
            // One event is one line, whatever a packet or a program puts in.
            let said: String = line.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            text + ": " + &said + "\n"
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
    // Years begin in March, so that the day that not all have is the last. 400 years have 146,097 days; the first of
    // March of the year 0 was 719,468 days before 1970.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Five months in a row have 153 days.
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
    fn times_are_written_as_rfc_3339_says() {
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
    fn nobody_waits_for_a_reader() {
        let start = Instant::now();
        let log = Log::to(Form::Plain, Level::Info, Box::new(Stuck), None).expect("a log");
        for _ in 0..2 * WAITING_MAX {
            log.tell_of_packet(Level::Info, "log_msg", "line");
        }
        assert!(log.left_out.load(Ordering::Relaxed) >= WAITING_MAX as u64 - 1);
        drop(log);
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_file_that_was_moved_is_made_anew() {
        let path = std::env::temp_dir().join(format!("p4jet-log-{}", std::process::id()));
        let moved = path.with_extension("1");
        let log = Log::start(Form::Plain, Level::Info, Some(&path)).expect("a log");
        log.tell(Level::Info, "start", None, "one");
        let start = Instant::now();
        while std::fs::read_to_string(&path).expect("a file") != "one\n" {
            assert!(start.elapsed() < Duration::from_secs(10));
        }
        std::fs::rename(&path, &moved).expect("moved");
        assert!(log.reopen());
        log.tell(Level::Info, "start", None, "two");
        drop(log);
        assert_eq!([&moved, &path].map(|p| std::fs::read_to_string(p).expect("a file")), ["one\n", "two\n"]);
        [&moved, &path].into_iter().for_each(|p| std::fs::remove_file(p).expect("removed"));
    }

    #[test]
    fn an_event_is_a_line() {
        let time = SystemTime::UNIX_EPOCH;
        let line = Line {
            time,
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
}
