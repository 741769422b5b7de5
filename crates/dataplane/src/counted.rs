//! Counts of a program's lookups and drops, by the names of its tables, actions, drop reasons and source lines.
//!
//! Workers count in plain memory of their own ([`Tallies`]), by number; names are looked up when statistics are read.

use crate::switch::Switch;
use p4jet_ir::tallies::Tallies;
use p4jet_ir::{Loc, Program, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts of a program's lookups and drops, while they are counted ([`crate::Running::prepare_counted`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramStats {
    /// Lookups, by table.
    pub tables: BTreeMap<String, TableStats>,
    /// Drops by reason and place (`router.p4:41`; empty if the architecture knows none).
    pub drops: BTreeMap<(String, String), u64>,
}

/// The results of lookups in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Number of runs of each action.
    pub actions: BTreeMap<String, u64>,
}

/// One worker's counts.
pub(crate) struct Counted {
    /// Counts of programs that it no longer runs.
    pub past: ProgramStats,
    /// Tallies of the programs that it runs.
    pub now: Vec<(Arc<Switch>, Tallies)>,
}

impl ProgramStats {
    pub(crate) fn add(&mut self, counted: Counted) {
        *self += counted.past;
        for (switch, tallies) in &counted.now {
            self.add_tallies(switch.program(), tallies);
        }
    }

    /// Adds the tallies of a program.
    pub(crate) fn add_tallies(&mut self, program: &Program, tallies: &Tallies) {
        for (table, i) in program.tables.iter().zip(0..) {
            let stats = self.tables.entry(table.name.clone()).or_default();
            // The last tally is "no action", of groups without members.
            let mut actions = table.actions.iter();
            for (misses, hits) in tallies.table(TableId(i)) {
                stats.misses += misses;
                stats.hits += hits;
                if let Some(action) = actions.next() {
                    let name = &program.actions[action.action.index()].control_name;
                    *stats.actions.entry(name.clone()).or_default() += misses + hits;
                }
            }
        }
        for (reason, place, n) in tallies.drops() {
            let key = (reason.text(program).to_string(), place_text(program, place));
            *self.drops.entry(key).or_default() += n;
        }
    }
}

fn place_text(program: &Program, place: Loc) -> String {
    match program.locs.get(place.index()) {
        Some(loc) if loc.line > 0 => format!("{}:{}", loc.file, loc.line),
        _ => String::new(),
    }
}

impl std::ops::AddAssign for ProgramStats {
    fn add_assign(&mut self, other: ProgramStats) {
        for (name, from) in other.tables {
            let to = self.tables.entry(name).or_default();
            to.hits += from.hits;
            to.misses += from.misses;
            for (action, n) in from.actions {
                *to.actions.entry(action).or_default() += n;
            }
        }
        for (drop, n) in other.drops {
            *self.drops.entry(drop).or_default() += n;
        }
    }
}
