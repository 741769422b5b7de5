//! Measured times of the stages of a pipeline, if measuring was requested.

use crate::analysis::liveness::At;
use crate::plan::Plan;
use p4jet_ir::{BlockKind, Terminator};

/// The cost of a stage so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTime {
    /// By [`ticks`].
    pub ticks: u64,
    /// Packets that reached it.
    pub packets: u64,
}

impl StageTime {
    /// Adds the time since `start`; returns the present time.
    pub(crate) fn add(&mut self, start: u64, packets: u64) -> u64 {
        let now = ticks();
        self.ticks += now.wrapping_sub(start);
        self.packets += packets;
        now
    }
}

/// A clock that is read in a few nanoseconds and runs evenly: the time stamp counter where there is one.
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction, and it touches no memory.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::LazyLock;
        use std::time::Instant;
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed().as_nanos() as u64
    }
}

/// Names of the stages in order, the last of which is that of copies which begin with egress.
pub(crate) fn names(plan: &Plan) -> Vec<String> {
    let block = |place| {
        let block = plan.graph.block(place);
        match block.kind {
            BlockKind::Parser => format!("parse: {}", block.name),
            BlockKind::Control => block.name.clone(),
            BlockKind::Deparser => format!("deparse: {}", block.name),
        }
    };
    let mut names = vec![plan.graph.start().map(block).unwrap_or_default()];
    names.extend(plan.cuts.values().map(|cut| {
        match (cut.cut.at, &plan.graph.node(cut.cut.place).terminator) {
            (At::Lookup, Terminator::Apply { table, .. }) => {
                format!("{}: lookup", plan.graph.program.tables[table.index()].name)
            }
            (At::Action, Terminator::Apply { table, .. }) => {
                format!("{}: actions", plan.graph.program.tables[table.index()].name)
            }
            _ => block(cut.cut.place),
        }
    }));
    names.push("egress of copies".into());
    names
}
