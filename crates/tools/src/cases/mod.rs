//! Programs with entries and packets on which predictions of p4jet's own speed are checked.
//!
//! The set covers every shipped and every benchmark program, programs of kinds that the P4 tutorials teach (`lessons`), and
//! generated ones (`generated`). It is fixed: seeds are constants, and the same entries and packets arise on every machine.
//! No model may be fitted to it.

mod acl;
mod bench;
mod catalogue;
mod draw;
mod frames;
mod gateway;
mod generated;
mod lessons;
mod shipped;
#[cfg(test)]
mod tests;

pub use frames::internet_checksum;
pub use shipped::{l2, l3};

/// A program with entries and packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Short and unique.
    pub name: String,
    /// P4 text that includes no files but the built-in ones.
    pub program: String,
    /// The name of the program's file, for messages.
    pub file: String,
    /// Runtime commands.
    pub commands: String,
    /// The packets, which are played in a loop.
    pub frames: Vec<Vec<u8>>,
    /// Their ingress port.
    pub port: u32,
}

/// Entries and packets of a program.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Runtime commands.
    pub commands: String,
    /// The packets.
    pub frames: Vec<Vec<u8>>,
}

/// Builds a case.
pub type Build = Box<dyn Fn() -> Case + Send + Sync>;

/// Returns the names of all cases in a fixed order, each with the function that builds the case. The largest have a million
/// entries, so drop one before you build the next.
pub fn evaluation() -> Vec<(String, Build)> {
    let mut set = Set::default();
    shipped::add(&mut set);
    catalogue::add(&mut set);
    gateway::add(&mut set);
    bench::add(&mut set);
    lessons::add(&mut set);
    generated::add(&mut set);
    set.0
}

/// Cases that are collected.
#[derive(Default)]
struct Set(Vec<(String, Build)>);

impl Set {
    /// Adds a case of the program `text`.
    fn add(
        &mut self,
        name: &str,
        file: &'static str,
        text: &'static str,
        work: impl Fn() -> Workload + Send + Sync + 'static,
    ) {
        self.add_built(name, move || {
            let Workload { commands, frames } = work();
            (file.to_string(), text.to_string(), commands, frames)
        });
    }

    /// Adds a case whose program is built as well: the name of its file, its text, commands and packets.
    fn add_built(
        &mut self,
        name: &str,
        build: impl Fn() -> (String, String, String, Vec<Vec<u8>>) + Send + Sync + 'static,
    ) {
        let name = name.to_string();
        let named = name.clone();
        let build = move || {
            let (file, program, commands, frames) = build();
            Case { name: named.clone(), program, file, commands, frames, port: 0 }
        };
        self.0.push((name, Box::new(build)));
    }
}

/// Bytes of all packets of a case, about: much more than a processor's level 2 cache, as from a network card.
const FRAMES_BYTES: usize = 4 << 20;
/// Maximum number of packets, and the number of those of 60 bytes.
const FRAMES_MAX: usize = 65536;

/// Returns the number of packets of this length that a case has.
fn count(bytes: usize) -> usize {
    (FRAMES_BYTES / bytes).min(FRAMES_MAX)
}
