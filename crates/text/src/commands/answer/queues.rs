//! Output of queue commands.

use super::{Answerer, Reply};
use crate::commands::both_notes;
use p4jet_control::Queues;
use p4jet_dataplane::{PortSettings, Rate};
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl Answerer<'_> {
    /// Describes the queues.
    pub(super) fn queues_reply(self, as_data: bool) -> Reply {
        let queues = self.control.queues();
        let shown = match self.program().is_queued() {
            true => text(&queues),
            false if queues.config.wanted => text(&queues) + WITHOUT_EFFECT + "\n",
            false => "There are no output queues: none is configured\n".to_string(),
        };
        Reply::new(shown, as_data.then(|| data(&queues)))
    }

    /// The reply to a change of queues, with a note if the change has no effect yet.
    pub(crate) fn with_queues_note(self, reply: Reply) -> Reply {
        let note = (!self.program().is_queued()).then(|| WITHOUT_EFFECT.to_string());
        // The control may have given the reason.
        let note = note.filter(|_| reply.note.as_ref().is_none_or(|note| !note.contains("have no effect: ")));
        Reply { note: both_notes(reply.note, note), ..reply }
    }
}

const WITHOUT_EFFECT: &str =
    "this program was started without output queues: load it again for them to take effect";

fn rate_text(rate: Option<Rate>) -> String {
    match rate {
        None => "no limit".to_string(),
        Some(Rate::Packets(n)) => format!("{n} packets/s"),
        Some(Rate::Bits(n)) => format!("{n} bits/s"),
    }
}

/// All ports that are configured or have had packets, with all queues, in order of decreasing priority.
fn text(Queues { config, stats, follow_links }: &Queues) -> String {
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
                settings.depth(queue, *follow_links),
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

fn data(Queues { config, stats, follow_links }: &Queues) -> Value {
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
                "priority": queue, "depth": settings.depth(queue, *follow_links), "rate": rate(of.rate), "weight": of.weight,
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
