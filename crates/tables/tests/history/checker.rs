//! Checks that each lookup beside changes saw one state: see history.rs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The answers for a key, each with the number of the change that brought it.
#[derive(Clone, Default)]
pub struct Timeline(pub Vec<(usize, u64)>);

impl Timeline {
    /// Records the answer after this change.
    pub fn note(&mut self, change: usize, answer: u64) {
        if self.0.last().is_none_or(|(_, last)| *last != answer) {
            self.0.push((change, answer));
        }
    }

    /// Returns the first state from `least` to `most` with this answer.
    fn first(&self, least: usize, most: usize, answer: u64) -> Option<usize> {
        let from = self.0.partition_point(|(change, _)| *change <= least) - 1;
        let states = self.0[from..].iter().take_while(|(change, _)| *change <= most);
        states.into_iter().find(|(_, is)| *is == answer).map(|(change, _)| least.max(*change))
    }
}

/// A lookup, with the times before and after it.
#[derive(Clone, Copy)]
pub struct Look {
    pub key: usize,
    pub begin: u64,
    pub end: u64,
    pub found: u64,
}

/// Reports a lookup that fits no state. `changes` has the times before and after each change.
pub fn check(timelines: &[Timeline], changes: &[(u64, u64)], mut looks: Vec<Look>) -> Result<(), String> {
    looks.sort_unstable_by_key(|look| look.begin);
    // For each key: lookups by their ends, with the state assigned to each, and the newest state of those that have ended.
    let mut running: Vec<BinaryHeap<Reverse<(u64, usize)>>> = vec![BinaryHeap::new(); timelines.len()];
    let mut newest = vec![0; timelines.len()];
    for look in looks {
        let Look { key, begin, end, found } = look;
        while let Some(Reverse((_, state))) = running[key].peek().filter(|Reverse((end, _))| *end < begin) {
            newest[key] = newest[key].max(*state);
            running[key].pop();
        }
        let least = changes.partition_point(|(_, end)| *end < begin);
        let most = changes.partition_point(|(begin, _)| *begin < end);
        let Some(state) = timelines[key].first(least.max(newest[key]), most, found) else {
            let of = timelines[key].first(least, most, found);
            return Err(match of {
                Some(state) => {
                    format!("key {key}: found {found} of state {state}, after state {} was seen", newest[key])
                }
                None => format!("key {key}: found {found:#x}, of none of the states {least} to {most}"),
            });
        };
        running[key].push(Reverse((end, state)));
    }
    Ok(())
}
