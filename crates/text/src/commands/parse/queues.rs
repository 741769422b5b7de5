//! Output queues.

use super::{Command, Line, LineParser, Parsed, number};
use crate::error::LineError;
use p4jet_control::Update;
use p4jet_control::{Queue, QueueUpdate, WEIGHT_MAX};
use p4jet_dataplane::{QUEUES_MAX, Rate};

/// True if a command of this name changes the queues.
pub(crate) fn configures_queues(name: &str) -> bool {
    name.starts_with("set_queue_") || name.starts_with("set_port_")
}

impl<'a> LineParser<'_, 'a> {
    pub(super) fn queue_command(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let word = |at: usize, what: &str, max: u64| number(line.get(at, what)?, what, max);
        let given = |at: usize| at < line.tokens.len();
        let port = || match given(2) {
            true => word(2, "a port", u64::from(u32::MAX)).map(|port| Some(port as u32)),
            false => Ok(None),
        };
        let of = || {
            let queue = match given(3) {
                true => Some(word(3, "a priority", QUEUES_MAX as u64 - 1)? as usize),
                false => None,
            };
            Ok::<_, LineError>(Queue { port: port()?, queue })
        };
        // 0 means no limit, as in bmv2.
        let rate = |what: &str, rate: fn(u64) -> Rate| {
            let n = word(1, what, u64::MAX)?;
            Ok::<_, LineError>((n > 0).then(|| rate(n)))
        };
        let (packets, bits) = ("a number of packets per second", "a number of bits per second");
        let (update, end) = match line.spec.name {
            "set_queue_depth" => {
                let packets = word(1, "a number of packets", u64::from(u32::MAX))? as u32;
                (QueueUpdate::Depth { packets, of: of()? }, 4)
            }
            "set_queue_rate" => (QueueUpdate::Rate { rate: rate(packets, Rate::Packets)?, of: of()? }, 4),
            "set_queue_bitrate" => (QueueUpdate::Rate { rate: rate(bits, Rate::Bits)?, of: of()? }, 4),
            "set_queue_weight" => {
                let weight = word(1, "a weight", u64::from(WEIGHT_MAX))? as u32;
                (QueueUpdate::Weight { weight, of: of()? }, 4)
            }
            "set_port_rate" => {
                (QueueUpdate::PortRate { rate: rate(packets, Rate::Packets)?, port: port()? }, 3)
            }
            "set_port_bitrate" => (QueueUpdate::PortRate { rate: rate(bits, Rate::Bits)?, port: port()? }, 3),
            "show_queues" => {
                line.ends_after(1)?;
                return Ok(Command::ShowQueues);
            }
            other => unreachable!("command {other} is listed but not parsed"),
        };
        line.ends_after(end)?;
        Ok(Update::Queue(update).into())
    }
}
