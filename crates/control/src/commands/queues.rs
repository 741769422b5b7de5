//! Output queues.

use super::Control;
use super::parse::{Command, Line, LineParser, Parsed, number};
use crate::error::CommandError;
use crate::queues::{Queue, QueueUpdate, WEIGHT_MAX};
use crate::update::Update;
use p4jet_dataplane::{PortSettings, QUEUES_MAX, Queues, Rate};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Whether a command of this name changes how packets are queued.
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
            Ok::<_, CommandError>(Queue { port: port()?, queue })
        };
        // 0 is no limit, as in bmv2.
        let rate = |what: &str, rate: fn(u64) -> Rate| {
            let n = word(1, what, u64::MAX)?;
            Ok::<_, CommandError>((n > 0).then(|| rate(n)))
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

impl Control {
    pub(super) fn queues_text(&self) -> String {
        let queues = self.switch.queues();
        match self.switch.program().is_queued() {
            true => text(queues),
            false if queues.are_wanted() => text(queues) + WITHOUT_EFFECT + "\n",
            false => "There are no output queues: none is configured\n".to_string(),
        }
    }

    /// What is to be said of a change that has no effect yet.
    pub(super) fn queues_note(&self) -> Option<&'static str> {
        (!self.switch.program().is_queued()).then_some(WITHOUT_EFFECT)
    }
}

const WITHOUT_EFFECT: &str =
    "this program was started without output queues: they take effect when it is loaded anew";

fn rate_text(rate: Option<Rate>) -> String {
    match rate {
        None => "no limit".to_string(),
        Some(Rate::Packets(n)) => format!("{n} packets/s"),
        Some(Rate::Bits(n)) => format!("{n} bits/s"),
    }
}

/// All ports that are configured or have had packets, with all queues, the highest priority first.
fn text(queues: &Queues) -> String {
    let (config, stats) = (queues.config(), queues.stats());
    let mut out = format!("==========\nQUEUES ({} for each port)\n", config.queues_per_port);
    let heading = format!(
        "  {:<8} {:>8} {:>20} {:>6} {:>12} {:>12} {:>12} {:>8} {:>8}\n",
        "priority", "depth", "rate", "weight", "enqueued", "dequeued", "dropped", "waiting", "at most"
    );
    let mut port_text = |name: &str, settings: &PortSettings, number: Option<u32>| {
        out += &format!("**********\n{name}: {}\n{heading}", rate_text(settings.rate));
        let stats = number.and_then(|number| stats.get(&number)).copied().unwrap_or_default();
        for queue in (0..config.queues_per_port).rev() {
            let (of, stats) = (settings.queues[queue], stats[queue]);
            out += &format!(
                "  {queue:<8} {:>8} {:>20} {:>6} {:>12} {:>12} {:>12} {:>8} {:>8}\n",
                settings.depth(queue),
                rate_text(of.rate),
                if of.weight == 0 { "strict".to_string() } else { of.weight.to_string() },
                stats.enqueued,
                stats.dequeued,
                stats.dropped,
                stats.depth,
                stats.depth_max
            );
        }
    };
    let numbers: BTreeSet<u32> = config.ports.keys().chain(stats.keys()).copied().collect();
    for number in numbers {
        port_text(&format!("port {number}"), config.port(number), Some(number));
    }
    port_text("other ports", &config.others, None);
    out + "==========\n"
}

/// The same as JSON.
pub(super) fn data(queues: &Queues) -> Value {
    let (config, stats) = (queues.config(), queues.stats());
    let rate = |rate: Option<Rate>| match rate {
        None => Value::Null,
        Some(Rate::Packets(n)) => json!({"packets_per_second": n}),
        Some(Rate::Bits(n)) => json!({"bits_per_second": n}),
    };
    let numbers: BTreeSet<u32> = config.ports.keys().chain(stats.keys()).copied().collect();
    let port = |number: Option<u32>| {
        let settings = number.map_or(&config.others, |number| config.port(number));
        let stats = number.and_then(|number| stats.get(&number)).copied().unwrap_or_default();
        let queue = |queue: usize| {
            let (of, stats) = (settings.queues[queue], stats[queue]);
            json!({
                "priority": queue, "depth": settings.depth(queue), "rate": rate(of.rate), "weight": of.weight,
                "enqueued": stats.enqueued, "dequeued": stats.dequeued, "dropped": stats.dropped,
                "waiting": stats.depth, "waiting_max": stats.depth_max,
            })
        };
        let queues: Vec<Value> = (0..config.queues_per_port).map(queue).collect();
        json!({"port": number, "rate": rate(settings.rate), "queues": queues})
    };
    let ports = numbers.into_iter().map(Some).chain([None]).map(port);
    ports.collect()
}
