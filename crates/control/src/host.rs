//! What a running switch can be asked for besides its tables and state: its ports, another program, its end.

use crate::rights::Rights;
use p4jet_dataplane::{Cancel, Subscription, Switch, Topics};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program to load.
#[derive(Clone, Debug)]
pub enum Program<'a> {
    /// A file that the switch reads, with these rights.
    File(&'a Path, &'a Rights),
    /// Texts that a client sent: the program and the files that it includes, by path. What is missing among them comes
    /// from the file system only if the rights are [`Rights::All`].
    Texts(&'a Path, Arc<BTreeMap<PathBuf, String>>, &'a Rights),
}

impl Program<'_> {
    /// Its path, on the machine that has the file.
    pub fn path(&self) -> &Path {
        match self {
            Program::File(path, _) | Program::Texts(path, ..) => path,
        }
    }
}

/// The process around a running switch.
pub trait Host: Send + Sync {
    /// Compiles a program aside, while the old one runs, unless that is cancelled meanwhile. What comes back puts it in the
    /// old one's place; dropped, it changes nothing. An error may be several lines: diagnostics.
    fn prepare(&self, program: &Program<'_>, cancel: &Cancel) -> Result<Swap, String>;

    /// As [`Self::prepare`], of the program that runs: made anew for the output queues that are configured by now.
    fn prepare_queues(&self) -> Result<Swap, String>;

    /// Carries out a command about what the switch does with packets: `stats`, `trace`, `capture`. These are its words.
    /// What is compiled for it can be cancelled meanwhile.
    fn observe(&self, words: &[&str], rights: &Rights, cancel: &Cancel) -> Result<Observed, String>;

    /// Listens to what happens from now on.
    fn subscribe(&self, topics: Topics) -> Result<Subscription, String>;

    /// All ports, in the order of their numbers.
    fn ports(&self) -> Vec<PortInfo>;

    /// Opens a port, specified as after `-i N@`.
    fn add_port(&self, number: u32, spec: &str, rights: &Rights) -> Result<(), String>;

    /// Closes a port.
    fn remove_port(&self, number: u32) -> Result<(), String>;

    /// Lets the switch end, soon.
    fn stop(&self);

    /// Clients were refused: who the last one was, and why. Rarely, however many they are.
    fn clients_refused(&self, why: &str) {
        let _ = why;
    }
}

/// Puts a prepared program in place of the one that runs. No command is carried out meanwhile.
pub type Swap = Box<dyn FnOnce() -> Result<Swapped, String> + Send>;

/// A program that runs now.
pub struct Swapped {
    /// The switch with it.
    pub switch: Arc<Switch>,
    /// What was carried over and what was not: lines.
    pub told: String,
}

/// What an observing command has to say.
#[derive(Default)]
pub struct Observed {
    /// For people: lines.
    pub text: String,
    /// For tools.
    pub data: serde_json::Value,
    /// What puts another switch, with the same entries, in the place of the one that runs, if it is to be done.
    pub swap: Option<Swap>,
}

/// A port, as `show_ports` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its number, as the program sees it.
    pub number: u32,
    /// The interface, or what else it is.
    pub spec: String,
    /// Whether frames can flow.
    pub up: bool,
    /// What else there is to say: why it is down, what it counted.
    pub extra: Vec<(String, String)>,
}
