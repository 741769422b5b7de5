//! The running controller: keeps a switch and a file in agreement.

use crate::config::{Config, Mistake};
use crate::entries::{Changes, entries, read_entries};
use p4jet_control::Atomicity;
use p4jet_text::client::Client;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Connects to the switch.
pub type Connect = Box<dyn Fn() -> io::Result<Client> + Send>;
/// Receives events: whether it is a problem, the name of the event, and its text.
pub type Log = Arc<dyn Fn(bool, &'static str, String) + Send + Sync>;

/// Options of a controller.
pub struct Options {
    /// The configuration.
    pub path: PathBuf,
    /// Connects to the switch.
    pub connect: Connect,
    /// Receives its events.
    pub log: Log,
    /// Set to stop it. What it set on the switch stays there.
    pub stop: &'static AtomicBool,
    /// Set to make it read the file and the switch again.
    pub reload: &'static AtomicBool,
}

/// Interval of the checks of signals, of the file and of the switch.
const TURN: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(250);
const PING: Duration = Duration::from_secs(1);
/// Time that the switch may take for an answer, or for a page of its state.
const ANSWER: Duration = Duration::from_secs(20);
/// Bytes of the configuration.
pub const CONFIG_BYTES_MAX: u64 = 1 << 26;
/// Maximum number of mistakes that are reported.
pub const SHOWN_MAX: usize = 100;
/// Updates in a request.
const UPDATES_MAX: usize = 100_000;

/// Runs until it is stopped. `text` is the file that `config` comes from.
pub fn run(options: Options, text: String, config: Config) {
    let mut controller = Controller {
        stamp: stamp(&options.path),
        seen: None,
        options,
        text,
        config,
        accepted: None,
        client: None,
        is_due: true,
        complaint: String::new(),
    };
    let (mut looked, mut pinged) = (None::<Instant>, Instant::now());
    while !controller.options.stop.load(Ordering::Relaxed) {
        let again = controller.options.reload.swap(false, Ordering::Relaxed);
        if again || looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            looked = Some(Instant::now());
            controller.look(again);
            controller.connect();
            controller.is_due |= again;
        }
        if pinged.elapsed() >= PING {
            pinged = Instant::now();
            controller.ping();
        }
        if controller.is_due {
            controller.reconcile();
        }
        std::thread::sleep(TURN);
    }
}

/// Modification time and size of a file: an inexpensive sign of changed content.
fn stamp(path: &std::path::Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

struct Controller {
    options: Options,
    /// The stamps of the file when it was last read and when it was last seen.
    stamp: Option<(SystemTime, u64)>,
    seen: Option<(SystemTime, u64)>,
    text: String,
    config: Config,
    /// The last configuration that the switch accepted.
    accepted: Option<Config>,
    client: Option<Client>,
    /// True if the switch may differ from the configuration.
    is_due: bool,
    /// The last problem, reported once.
    complaint: String,
}

impl Controller {
    fn report(&self, event: &'static str, text: impl Into<String>) {
        (self.options.log)(false, event, text.into());
    }

    /// Reports a problem unless it was also the last one.
    fn complain(&mut self, event: &'static str, text: String) {
        if self.complaint != text {
            (self.options.log)(true, event, text.clone());
            self.complaint = text;
        }
    }

    /// Reads the file if it has changed and is no longer being written.
    fn look(&mut self, again: bool) {
        let stamp = stamp(&self.options.path);
        let before = std::mem::replace(&mut self.seen, stamp);
        if !again && (stamp == self.stamp || stamp != before) {
            return;
        }
        self.stamp = stamp;
        let path = self.options.path.display().to_string();
        let text = match p4jet_files::read_text(&self.options.path, CONFIG_BYTES_MAX) {
            Ok(text) => text,
            // Some editors delete the old file before they write the new one.
            Err(e) if !again && e.kind() == io::ErrorKind::NotFound => return,
            Err(e) => {
                let text = format!("cannot read {path}: {e}; the previous version stays in effect");
                return self.complain("config", text);
            }
        };
        if text == self.text {
            return;
        }
        match Config::parse(&text) {
            Ok(config) => {
                self.report("config", format!("{path} has changed"));
                (self.text, self.config, self.is_due) = (text, config, true);
                self.complaint.clear();
            }
            Err(mistakes) => {
                for mistake in mistakes.iter().take(SHOWN_MAX) {
                    (self.options.log)(true, "config", Mistake::line(mistake, &path, &text));
                }
                self.text = text;
                (self.options.log)(true, "config", "the previous version stays in effect".to_string());
            }
        }
    }

    fn connect(&mut self) {
        if self.client.is_some() {
            return;
        }
        let made = (self.options.connect)().and_then(|mut client| {
            client.set_patience(ANSWER)?;
            Ok(client)
        });
        match made {
            Ok(client) => (self.client, self.is_due) = (Some(client), true),
            Err(e) => self.complain("switch", format!("no switch: {e}")),
        }
    }

    /// Checks that the switch still answers.
    fn ping(&mut self) {
        let Some(client) = &mut self.client else { return };
        if let Err(e) = client.command("get_time_elapsed", false) {
            self.lost(&e);
        }
    }

    fn lost(&mut self, error: &io::Error) {
        self.client = None;
        self.complain("switch", format!("the switch is gone: {error}"));
    }

    /// Brings the switch to its intended state.
    fn reconcile(&mut self) {
        let Some(client) = &mut self.client else { return };
        self.is_due = false;
        match set(client, &self.config) {
            Ok(Ok(changes)) => {
                let is_new = self.accepted.as_ref() != Some(&self.config) || !self.complaint.is_empty();
                if is_new || !changes.updates.is_empty() {
                    self.report("switch", changes.summary());
                }
                self.accepted = Some(self.config.clone());
                self.complaint.clear();
            }
            Ok(Err(why)) => {
                self.complain("switch", format!("the switch refuses: {why}"));
                if let Some(accepted) = self.accepted.clone().filter(|accepted| *accepted != self.config) {
                    self.report("config", "the previous version stays in effect");
                    self.config = accepted;
                }
            }
            Err(e) => self.lost(&e),
        }
    }
}

/// Reads the state of a switch, and makes the changes to a configuration. The inner error is the switch's refusal; then nothing
/// has changed.
pub fn set(client: &mut Client, config: &Config) -> io::Result<Result<Changes, String>> {
    let actual = match read_entries(client)? {
        Ok(actual) => actual,
        Err(why) => return Ok(Err(why)),
    };
    let changes = Changes::new(&entries(config), &actual);
    for updates in changes.updates.chunks(UPDATES_MAX) {
        let results = client.write(updates.to_vec(), Atomicity::AllOrNothing)?;
        let refusal = results.into_iter().filter_map(Result::err).find(|error| &*error.code != "ABORTED");
        if let Some(error) = refusal {
            return Ok(Err(error.message));
        }
    }
    Ok(Ok(changes))
}
