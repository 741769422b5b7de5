//! Observations for adaptation: the paths of packets, and the numbers of table entries.

use crate::switch::Switch;
use p4jet_interp::{Arrival, Machine, Visited};
use p4jet_ir::TableId;
use p4jet_jit::{HotPath, Position, Seen, Step};
use std::collections::HashMap;

/// Maximum number of hot paths that get code of their own.
const HOT_PATHS_MAX: usize = 4;
/// A path is hot only if at least one in `HOT_SHARE` packets takes it.
const HOT_SHARE: usize = 16;
/// Number of nodes after which a path is cut off: loops make paths long.
const HOT_NODES_MAX: usize = 1000;

/// The paths that packets took.
#[derive(Default)]
pub(crate) struct Paths {
    counts: HashMap<HotPath, usize>,
    packets: usize,
}

impl Paths {
    /// Returns the number of packets.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Returns the hot paths, the most frequent first.
    pub fn hot(&self) -> Vec<HotPath> {
        let hot = self.counts.iter().filter(|(_, count)| *count * HOT_SHARE >= self.packets);
        let mut hot: Vec<(&HotPath, usize)> = hot.map(|(path, count)| (path, *count)).collect();
        hot.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        hot.into_iter().take(HOT_PATHS_MAX).map(|(path, _)| path.clone()).collect()
    }

    /// Returns the number of packets that took one of these paths.
    pub fn on(&self, paths: &[HotPath]) -> usize {
        paths.iter().filter_map(|path| self.counts.get(path)).sum()
    }
}

impl Switch {
    /// Returns the paths that these packets (with their ingress ports) would take now, one after another; the state
    /// does not change.
    pub(crate) fn paths<'f>(&self, packets: impl Iterator<Item = (u32, &'f [u8])>) -> Result<Paths, String> {
        let machine = Machine::new(self.program())?;
        let mut env = self.state().env(0);
        env.keep_dry();
        let now_us = self.now_us();
        let mut paths = Paths::default();
        for (port, frame) in packets {
            let arrival = Arrival { port, frame, now_us };
            let ran = machine.run(self.tables.as_slice(), &mut env, &arrival, None);
            let place =
                |at: &Visited| (Position { step: Step::from_u32(at.step as u32), node: at.node }, at.action);
            *paths
                .counts
                .entry(HotPath(ran.path.iter().take(HOT_NODES_MAX).map(place).collect()))
                .or_default() += 1;
            paths.packets += 1;
        }
        Ok(paths)
    }

    /// Returns the current number of entries of each table.
    pub(crate) fn entries(&self) -> Vec<u32> {
        (0..self.tables.len()).map(|t| self.table(TableId(t as u32)).len() as u32).collect()
    }

    /// Returns the observations of these packets (with their ingress ports) and of the current tables, as input to a
    /// compilation.
    pub fn seen<'f>(&self, packets: impl Iterator<Item = (u32, &'f [u8])>) -> Result<Seen, String> {
        Ok(Seen { hot_paths: self.paths(packets)?.hot(), entries: self.entries() })
    }
}
