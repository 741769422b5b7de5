//! p4jet's own speed: what packets make a program's machine code do ([`Work`]), and what that costs on one machine ([`Model`]).
//!
//! The cost of a packet is a sum: each [`Features`] has a number of nanoseconds, which is fitted to measurements of generated
//! programs. What the machine code consists of is counted in the code of each path (crate `p4jet-jit`, `path_code`), not measured.

mod fit;
mod model;

pub use fit::{Sample, fit};
pub use model::{Model, Prediction, ROWS_BESIDES};

use std::collections::BTreeMap;

/// How often things happen to a packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features(pub BTreeMap<String, f64>);

impl Features {
    /// Adds an amount of a feature.
    pub fn add(&mut self, name: &str, amount: f64) {
        if amount != 0.0 {
            *self.0.entry(name.to_string()).or_default() += amount;
        }
    }

    /// Adds a multiple of other features.
    pub fn add_all(&mut self, other: &Features, times: f64) {
        other.0.iter().for_each(|(name, amount)| self.add(name, amount * times));
    }

    /// Adds an amount of a feature that depends on a size: shared between the two of `sizes` that are next to it.
    fn add_at(&mut self, name: &str, amount: f64, size: f64, sizes: &[f64], scale: impl Fn(f64) -> f64) {
        let size = size.clamp(sizes[0], sizes[sizes.len() - 1]);
        let above = sizes.partition_point(|other| *other < size).max(1);
        let (low, high) = (sizes[above - 1], sizes[above]);
        let share = (scale(size) - scale(low)) / (scale(high) - scale(low));
        self.add(&format!("{name} at {low}"), amount * (1.0 - share));
        self.add(&format!("{name} at {high}"), amount * share);
    }

    /// Adds a lookup in a structure, with `steps` beyond the first access. `keys`: the number of keys that are looked up in all
    /// tables, which compete for the caches; `waits`: the batch waits, so that cache misses overlap; `varies`: the share of
    /// lookups that do not take the usual steps.
    pub fn add_lookup(&mut self, structure: &str, waits: bool, keys: f64, steps: [f64; 3], varies: f64) {
        let suffix = if waits { ", batch waits" } else { "" };
        self.add(&format!("lookup, {structure}{suffix}"), 1.0);
        let lines = lines(structure);
        // An array of 2^24 elements: nearly every key has a page of its own.
        let memory = if structure.starts_with("lpm32") { "page of a table" } else { "line of a table" };
        match waits {
            true => self.add_at(&format!("{memory}, batch waits"), lines, keys, &KEYS, f64::ln),
            false => self.add_at(memory, lines, keys, &KEYS_INLINE, f64::ln),
        }
        let is_tree = structure.starts_with("tree");
        let names = match structure {
            _ if is_tree => ["tree node", "tree block", "tree rule"],
            _ if structure.starts_with("trie") => ["trie node"; 3],
            _ => ["further step"; 3],
        };
        for (name, steps) in names.iter().zip(steps) {
            self.add(name, steps);
            if is_tree {
                self.add_at("memory of a tree", steps, keys, &KEYS, f64::ln);
            }
        }
        self.add(if is_tree { "varying tree" } else { "varying steps" }, varies);
    }

    /// Adds accesses to one of these many cells, evenly spread.
    pub fn add_cells(&mut self, name: &str, times: f64, cells: f64) {
        self.add_at(name, times, cells, &CELLS, f64::ln);
    }

    /// Adds a share of a received and sent frame.
    pub fn add_frame(&mut self, bytes: usize, share: f64) {
        self.add_at("frame", share, bytes as f64, &FRAMES, |bytes| bytes);
    }
}

/// Numbers of keys between which the cost of memory is interpolated.
const KEYS: [f64; 6] = [1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0];
/// The same for tables that are looked up without a cut, which are small.
const KEYS_INLINE: [f64; 4] = [16.0, 1024.0, 4096.0, 16_384.0];
/// Numbers of cells of registers, counters and meters between which the cost of an access is interpolated.
const CELLS: [f64; 4] = [1024.0, 65_536.0, 1_048_576.0, 8_388_608.0];
/// Sizes of frames in bytes between which the cost of receiving and sending is interpolated.
const FRAMES: [f64; 10] = [60.0, 128.0, 256.0, 384.0, 512.0, 640.0, 768.0, 1024.0, 1280.0, 1518.0];
/// Numbers of packets in a loop between which the share of mispredictions is interpolated.
const LOOPS: [f64; 5] = [64.0, 512.0, 4096.0, 32_768.0, 131_072.0];
/// Bytes of the packets of a loop.
const LOOP_BYTES: [f64; 6] = [262_144.0, 1_048_576.0, 2_097_152.0, 4_194_304.0, 8_388_608.0, 33_554_432.0];
/// Paths of more instructions overlap less with those of the next packet.
const SHORT: f64 = 100.0;

/// Cache lines that a lookup reads; those of decision trees are counted by their steps.
fn lines(structure: &str) -> f64 {
    match structure {
        _ if structure.starts_with("tree") => 0.0,
        _ if structure.starts_with("direct") => 0.25,
        _ if structure.starts_with("trie") => 3.0,
        "hash of 128 bits" => 2.0,
        _ => 1.0,
    }
}

/// A part of what a path does.
#[derive(Clone, Debug)]
pub struct Part {
    /// A name for reports.
    pub name: String,
    /// The stage of the code.
    pub stage: usize,
    /// What it does.
    pub features: Features,
}

/// A decision on a path: step, node, action.
pub type Decision = (u32, u32, u32);

/// What a path does.
#[derive(Clone, Debug)]
pub struct PathWork {
    /// The decisions on the path.
    pub decisions: Vec<Decision>,
    /// Its parts.
    pub parts: Vec<Part>,
}

impl PathWork {
    /// The features of all parts.
    pub fn features(&self) -> Features {
        let mut all = Features::default();
        self.parts.iter().for_each(|part| all.add_all(&part.features, 1.0));
        let instructions = all.0.get("instruction").copied().unwrap_or(0.0);
        all.add("instruction beyond 100", (instructions - SHORT).max(0.0));
        all
    }
}

/// What packets make a program do.
#[derive(Clone, Debug)]
pub struct Work {
    /// Each path once.
    pub paths: Vec<PathWork>,
    /// The paths of each packet and its copies.
    pub packets: Vec<Vec<usize>>,
    /// The frames, of a mean packet.
    pub frames: Features,
    /// Mean number of cache lines of a frame.
    pub lines: f64,
    /// Number of frames that repeat.
    pub loop_frames: usize,
    /// Bytes of these frames.
    pub loop_bytes: usize,
}

impl Work {
    /// The features of receiving and sending a mean packet.
    pub fn received(&self) -> Features {
        let mut all = self.frames.clone();
        all.add("packet", 1.0);
        all.add_at("line of many", self.lines, self.loop_bytes as f64, &LOOP_BYTES, f64::ln);
        all.add_at("packet of many", 1.0, self.loop_bytes as f64, &LOOP_BYTES, f64::ln);
        all
    }

    /// The features of what branches of a mean packet cost that the processor mispredicts.
    pub fn mispredicted(&self) -> Features {
        let mut all = Features::default();
        let [branches, actions] = self.mispredictions();
        for (name, missed) in [("misprediction", branches), ("mispredicted action", actions)] {
            all.add_at(name, missed, self.loop_frames as f64, &LOOPS, f64::ln);
        }
        all
    }

    /// The share of each path among all packets and copies, per packet.
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.paths.len()];
        for path in self.packets.iter().flatten() {
            shares[*path] += 1.0 / self.packets.len() as f64;
        }
        shares
    }

    /// Number of copies of a mean packet.
    pub fn copies(&self) -> f64 {
        self.shares().iter().sum::<f64>() - if self.packets.is_empty() { 0.0 } else { 1.0 }
    }

    /// The features of a mean packet.
    pub fn features(&self) -> Features {
        let mut all = self.received();
        all.add("copy of a packet", self.copies());
        for (path, share) in self.paths.iter().zip(self.shares()) {
            all.add_all(&path.features(), share);
        }
        all.add_all(&self.mispredicted(), 1.0);
        all
    }

    /// Branches of a mean packet whose direction is not the most frequent one after the same decisions; and actions.
    pub fn mispredictions(&self) -> [f64; 2] {
        // After each beginning of a path: how often each node follows, with each action.
        type Next = BTreeMap<(u32, u32), BTreeMap<u32, f64>>;
        let mut after: BTreeMap<(bool, &[Decision]), Next> = BTreeMap::new();
        for passes in &self.packets {
            for (pass, path) in passes.iter().enumerate() {
                let decisions = &self.paths[*path].decisions;
                for (number, (step, node, action)) in decisions.iter().enumerate() {
                    let next = after.entry((pass > 0, &decisions[..number])).or_default();
                    *next.entry((*step, *node)).or_default().entry(*action).or_default() += 1.0;
                }
            }
        }
        let mut missed = [0.0; 2];
        for next in after.values() {
            let totals: Vec<f64> = next.values().map(|actions| actions.values().sum()).collect();
            missed[0] += totals.iter().sum::<f64>() - totals.iter().copied().fold(0.0, f64::max);
            for (actions, total) in next.values().zip(totals) {
                missed[1] += total - actions.values().copied().fold(0.0, f64::max);
            }
        }
        missed.map(|missed| missed / self.packets.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(decisions: &[Decision], instructions: f64) -> PathWork {
        let mut features = Features::default();
        features.add("instruction", instructions);
        PathWork {
            decisions: decisions.to_vec(),
            parts: vec![Part { name: "all".to_string(), stage: 0, features }],
        }
    }

    fn work(paths: Vec<PathWork>, packets: Vec<Vec<usize>>) -> Work {
        Work { paths, packets, frames: Features::default(), lines: 1.0, loop_frames: 64, loop_bytes: 262_144 }
    }

    #[test]
    fn only_the_first_of_equal_decisions_is_mispredicted() {
        // Two branches that always agree: half of the packets take each side.
        let paths = vec![
            path(&[(0, 0, 9), (0, 1, 9), (0, 3, 9), (0, 4, 9)], 10.0),
            path(&[(0, 0, 9), (0, 2, 9), (0, 3, 9), (0, 5, 9)], 10.0),
        ];
        let work = work(paths, vec![vec![0], vec![1], vec![0], vec![1]]);
        assert_eq!(work.mispredictions(), [0.5, 0.0]);
    }

    #[test]
    fn actions_count_apart_and_the_most_frequent_is_predicted() {
        let paths = vec![path(&[(0, 0, 1)], 10.0), path(&[(0, 0, 2)], 10.0)];
        let work = work(paths, vec![vec![0], vec![0], vec![0], vec![1]]);
        assert_eq!(work.mispredictions(), [0.0, 0.25]);
    }

    #[test]
    fn features_of_a_packet_are_those_of_its_paths_and_copies() {
        let paths = vec![path(&[(0, 0, 9)], 130.0), path(&[(1, 0, 9)], 20.0)];
        let features = work(paths, vec![vec![0, 1, 1], vec![0]]).features().0;
        assert_eq!(features["packet"], 1.0);
        assert_eq!(features["copy of a packet"], 1.0);
        assert_eq!(features["instruction"], 150.0);
        assert_eq!(features["instruction beyond 100"], 30.0);
        assert_eq!(features["line of many at 262144"], 1.0);
    }

    #[test]
    fn sizes_are_interpolated_by_their_logarithm() {
        let mut features = Features::default();
        features.add_lookup("hash of 64 bits", true, 2048.0, [0.0; 3], 0.0);
        assert!((features.0["line of a table, batch waits at 1024"] - 0.5).abs() < 1e-12);
        assert!((features.0["line of a table, batch waits at 4096"] - 0.5).abs() < 1e-12);
    }
}
