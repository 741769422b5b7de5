//! The output queues and their changes.

use crate::control::Control;
use crate::error::ControlError;
use p4jet_dataplane::{QUEUES_MAX, QueueConfig, QueueSettings, QueueStats, Rate};
use p4jet_ir::Program;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The largest weight; a larger one would only lengthen rounds.
pub const WEIGHT_MAX: u32 = 10_000;

/// The output queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Their configuration.
    pub config: QueueConfig,
    /// The statistics of the ports that have had a packet, by port and priority.
    pub stats: BTreeMap<u32, [QueueStats; QUEUES_MAX]>,
    /// True if packets wait in the queues while a link is busy.
    pub follow_links: bool,
}

impl Control {
    /// The output queues.
    pub fn queues(&self) -> Queues {
        let queues = self.switch.queues();
        Queues {
            config: queues.config(),
            stats: queues.stats(),
            follow_links: queues.follow_links_of(self.program()),
        }
    }
}

/// A change of the output queues.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum QueueUpdate {
    /// Sets the maximum number of waiting packets.
    Depth { packets: u32, of: Queue },
    /// Sets the rate of a queue; `None` or 0 for no limit.
    Rate { rate: Option<Rate>, of: Queue },
    /// Sets the weight among queues of a port; 0 for strict priority.
    Weight { weight: u32, of: Queue },
    /// Sets the total rate of a port, or of all ports.
    PortRate { rate: Option<Rate>, port: Option<u32> },
}

/// One queue of one port; all of them without a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// The port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// The priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
}

impl Queue {
    fn change(self, config: &mut QueueConfig, change: impl Fn(&mut QueueSettings)) {
        config.change(self.port, |port| match self.queue {
            Some(queue) => change(&mut port.queues[queue]),
            None => port.queues.iter_mut().for_each(&change),
        });
    }
}

/// A rate of 0 means no limit, as in bmv2.
pub(crate) fn limit(rate: Option<Rate>) -> Option<Rate> {
    rate.filter(|rate| !matches!(rate, Rate::Packets(0) | Rate::Bits(0)))
}

/// Refuses a port to which the program cannot send.
pub(crate) fn check_port(program: &Program, port: u32) -> Result<(), ControlError> {
    let max = program.port_max();
    // The highest number drops packets, except in programs with 32-bit ports.
    let last = if max < u32::MAX - 1 { max.saturating_sub(1) } else { max };
    match port <= last {
        true => Ok(()),
        false => {
            let message =
                format!("found port {port}, expected 0 to {last}: the program sends to no other port");
            Err(ControlError::new(message).field("port"))
        }
    }
}

/// Refuses a weight that no queue has.
pub(crate) fn check_weight(weight: u32) -> Result<(), ControlError> {
    match weight <= WEIGHT_MAX {
        true => Ok(()),
        false => {
            let message = format!("found weight {weight}, expected 0 to {WEIGHT_MAX}");
            Err(ControlError::new(message).field("weight"))
        }
    }
}

impl QueueUpdate {
    /// Refuses a weight or priority that no switch has, and a port that the program does not have.
    pub(crate) fn check(&self, program: &Program) -> Result<(), ControlError> {
        if let Some(port) = self.port() {
            check_port(program, port)?;
        }
        if let QueueUpdate::Weight { weight, .. } = self {
            check_weight(*weight)?;
        }
        self.check_queue(QUEUES_MAX)
    }

    /// The port that it changes; `None` for all ports.
    pub(crate) fn port(&self) -> Option<u32> {
        match self {
            QueueUpdate::Depth { of, .. } | QueueUpdate::Rate { of, .. } | QueueUpdate::Weight { of, .. } => {
                of.port
            }
            QueueUpdate::PortRate { port, .. } => *port,
        }
    }

    /// Refuses a priority that ports do not have.
    pub(crate) fn check_queue(&self, queues: usize) -> Result<(), ControlError> {
        let (QueueUpdate::Depth { of, .. } | QueueUpdate::Rate { of, .. } | QueueUpdate::Weight { of, .. }) =
            self
        else {
            return Ok(());
        };
        let Some(queue) = of.queue.filter(|queue| *queue >= queues) else { return Ok(()) };
        let message =
            format!("found priority {queue}, expected 0 to {}: a port has {queues} queues", queues - 1);
        Err(ControlError::new(message).field("priority"))
    }

    pub(crate) fn apply(&self, config: &mut QueueConfig) {
        match *self {
            QueueUpdate::Depth { packets, of } => of.change(config, |queue| queue.depth = Some(packets)),
            QueueUpdate::Rate { rate, of } => of.change(config, |queue| queue.rate = limit(rate)),
            QueueUpdate::Weight { weight, of } => of.change(config, |queue| queue.weight = weight),
            QueueUpdate::PortRate { rate, port } => config.change(port, |port| port.rate = limit(rate)),
        }
    }
}
