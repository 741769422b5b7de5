//! Statistics of a running switch: for Prometheus, for `p4jet top` and other tools.

use p4jet_dataplane::{
    DigestCounts, ForwardStats, PortInfo, ProgramStats, QUEUES_MAX, QueueStats, Running, ticks,
};
use p4jet_ir::TableId;
use p4jet_ports::LinkStatus;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Statistics of a running switch.
pub struct Meter {
    /// A time with the processor's tick count.
    start: (Instant, u64),
}

/// The statistics at one time. All counts are since the start of the switch, across all programs it has run.
pub struct Stats {
    uptime: Duration,
    program: String,
    reloads: u64,
    adaptations: u64,
    interpreting: bool,
    /// Where a worker is stuck.
    stuck: Option<String>,
    counted: bool,
    ports: Vec<PortInfo>,
    workers: Vec<ForwardStats>,
    total: ForwardStats,
    of_program: ProgramStats,
    digests: DigestCounts,
    /// Name, number of entries, maximum number of entries.
    tables: Vec<(String, usize, u32)>,
    queues: BTreeMap<u32, [QueueStats; QUEUES_MAX]>,
    ticks_per_second: f64,
    memory_bytes: Option<u64>,
}

/// Upper bounds of [`ForwardStats::batch_sizes`].
const BATCH_SIZES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

impl Meter {
    /// Must be created in advance, because it measures the processor's tick rate.
    pub fn new() -> Meter {
        Meter { start: (Instant::now(), ticks()) }
    }

    /// Reads the present statistics. Workers answer between two batches.
    pub fn read(&self, running: &Running) -> Stats {
        let switch = running.switch();
        let tables = switch.program().tables.iter().zip(0..).filter(|(table, _)| !table.hidden);
        let tables =
            tables.map(|(table, i)| (table.name.clone(), switch.table(TableId(i)).len(), table.size));
        let (workers, of_program) = running.sample();
        let total = ForwardStats::total(workers.iter().cloned());
        let (start, start_ticks) = self.start;
        let elapsed = start.elapsed().as_secs_f64().max(1e-6);
        Stats {
            uptime: Duration::from_micros(switch.now_us()),
            program: switch.program().name.clone(),
            reloads: running.reloads(),
            adaptations: running.adaptations(),
            interpreting: running.is_interpreting(),
            stuck: running.stuck(),
            counted: switch.is_counted(),
            ports: running.ports(),
            tables: tables.collect(),
            queues: switch.queues().stats(),
            total,
            workers,
            of_program,
            digests: running.digest_counts(),
            ticks_per_second: (ticks().wrapping_sub(start_ticks) as f64 / elapsed).max(1.0),
            memory_bytes: memory_bytes(),
        }
    }
}

/// Memory of this process that is in use.
fn memory_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    // Linux counts here in pages, of 4 KiB on x86-64; elsewhere they may be larger.
    Some(pages * page_bytes())
}

#[allow(unsafe_code)]
fn page_bytes() -> u64 {
    // SAFETY: no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// Returns the kinds of drops at a port, with their counts.
fn receive_drops(port: &PortInfo) -> [(&'static str, u64); 3] {
    let stats = &port.stats;
    [
        ("oversize", stats.rx_dropped_oversize),
        ("overrun", stats.rx_dropped_overrun),
        ("malformed", stats.rx_dropped_malformed),
    ]
}

fn send_drops(port: &PortInfo) -> [(&'static str, u64); 3] {
    let stats = &port.stats;
    [
        ("link", stats.tx_dropped),
        ("emulated_loss", stats.tx_dropped_loss),
        ("emulated_queue", stats.tx_dropped_queue),
    ]
}

impl Stats {
    /// Returns drops by reason and place. Drops before places were counted, or by the traffic manager, have none.
    fn drops(&self) -> BTreeMap<(&str, &str), u64> {
        let mut drops = BTreeMap::new();
        let mut placed: BTreeMap<&str, u64> = BTreeMap::new();
        for ((reason, place), n) in &self.of_program.drops {
            *placed.entry(reason).or_default() += n;
            drops.insert((reason.as_str(), place.as_str()), *n);
        }
        for (reason, n) in &self.total.dropped {
            let rest = n.saturating_sub(placed.get(reason.as_str()).copied().unwrap_or(0));
            if rest > 0 {
                *drops.entry((reason, "")).or_default() += rest;
            }
        }
        drops
    }

    /// Returns the output queues that were used: port, number, statistics.
    fn queues(&self) -> impl Iterator<Item = (u32, usize, &QueueStats)> {
        let queues = self.queues.iter().flat_map(|(port, queues)| {
            queues.iter().enumerate().map(|(number, stats)| (*port, number, stats))
        });
        queues.filter(|(_, _, stats)| stats.enqueued + stats.dropped > 0)
    }

    fn busy_seconds(&self, worker: &ForwardStats) -> f64 {
        worker.busy_ticks as f64 / self.ticks_per_second
    }

    /// Returns the statistics for tools.
    pub fn json(&self) -> Value {
        let total = &self.total;
        let ports = self.ports.iter().map(|port| {
            let (up, why) = match &port.status {
                LinkStatus::Up => (true, Value::Null),
                LinkStatus::Down(why) => (false, json!(why)),
            };
            let stats = &port.stats;
            let kinds = |kinds: [(&'static str, u64); 3]| -> Value {
                Value::Object(kinds.into_iter().map(|(kind, n)| (kind.to_string(), json!(n))).collect())
            };
            json!({
                "port": port.number, "spec": port.spec, "up": up, "why_down": why,
                "rx_packets": stats.rx_packets, "rx_bytes": stats.rx_bytes,
                "rx_dropped": kinds(receive_drops(port)),
                "tx_packets": stats.tx_packets, "tx_bytes": stats.tx_bytes,
                "tx_dropped": kinds(send_drops(port)), "tx_waiting": stats.tx_waiting,
            })
        });
        let tables = self.tables.iter().map(|(name, entries, entries_max)| {
            let stats = self.of_program.tables.get(name);
            json!({
                "table": name, "entries": entries, "entries_max": entries_max,
                "hits": stats.map(|s| s.hits), "misses": stats.map(|s| s.misses),
                "actions": stats.map(|s| &s.actions).into_iter().flatten()
                    .map(|(action, n)| json!({"action": action, "runs": n})).collect::<Vec<_>>(),
            })
        });
        let drops = self.drops();
        let drops = drops.iter().map(|((reason, place), n)| {
            let place = if place.is_empty() { Value::Null } else { json!(place) };
            json!({"reason": reason, "at": place, "packets": n})
        });
        let no_port = total.no_port.iter().map(|(port, n)| json!({"port": port, "packets": n}));
        let queues = self.queues().map(|(port, queue, stats)| {
            json!({
                "port": port, "queue": queue, "enqueued": stats.enqueued, "dequeued": stats.dequeued,
                "dropped": stats.dropped, "depth": stats.depth, "depth_max": stats.depth_max,
            })
        });
        let workers = self.workers.iter().zip(0..).map(|(worker, i)| {
            json!({
                "worker": i, "received": worker.received, "copies": worker.copies,
                "busy_seconds": self.busy_seconds(worker), "batches": worker.batches,
                "batch_sizes": BATCH_SIZES.iter().zip(worker.batch_sizes)
                    .map(|(up_to, n)| json!({"up_to": up_to, "batches": n})).collect::<Vec<_>>(),
            })
        });
        json!({
            "program": self.program, "uptime_seconds": self.uptime.as_secs_f64(), "reloads": self.reloads,
            "adaptations": self.adaptations, "interpreting": self.interpreting, "stuck": self.stuck,
            "memory_bytes": self.memory_bytes, "counted": self.counted,
            "received": total.received, "copies": total.copies, "done": total.done,
            "waiting": total.waiting,
            "sent": total.sent.values().sum::<u64>(), "not_sent": total.not_sent,
            "ports": ports.collect::<Vec<_>>(), "tables": tables.collect::<Vec<_>>(),
            "queues": queues.collect::<Vec<_>>(), "drops": drops.collect::<Vec<_>>(), "no_port": no_port.collect::<Vec<_>>(),
            "digests": {
                "sent": self.digests.sent, "unheard": self.digests.unheard, "dropped": self.digests.dropped,
            },
            "workers": workers.collect::<Vec<_>>(),
        })
    }

    /// Returns them for Prometheus in its text format, 0.0.4.
    pub fn prometheus(&self) -> String {
        let mut out = Exposition(String::new());
        let total = &self.total;
        let none: [(&str, &str); 0] = [];
        let version = env!("CARGO_PKG_VERSION");
        out.family("p4jet_info", "gauge", "The program that runs, and who runs it.");
        out.sample("p4jet_info", &[("program", &self.program), ("version", version)], 1.0);
        out.family("p4jet_uptime_seconds", "gauge", "Since the switch began.");
        out.sample("p4jet_uptime_seconds", &none, self.uptime.as_secs_f64());
        let help = "1 while the interpreter forwards because machine code is not there yet.";
        out.family("p4jet_interpreting", "gauge", help);
        out.sample("p4jet_interpreting", &none, f64::from(u8::from(self.interpreting)));
        out.family(
            "p4jet_stuck",
            "gauge",
            "1 while a worker makes no progress and the counts are those from before.",
        );
        out.sample("p4jet_stuck", &none, f64::from(u8::from(self.stuck.is_some())));
        for (name, help, n) in [
            ("p4jet_reloads_total", "Programs put in place of the running one.", self.reloads),
            (
                "p4jet_adaptations_total",
                "Times that the program was recompiled for the traffic.",
                self.adaptations,
            ),
            ("p4jet_received_packets_total", "Packets taken in.", total.received),
            (
                "p4jet_copies_total",
                "Copies of packets made: clones, replicas, resubmitted, queued.",
                total.copies,
            ),
            ("p4jet_done_packets_total", "Packets that ended with their copies in their place.", total.done),
            ("p4jet_not_sent_packets_total", "Packets that a port could not send.", total.not_sent),
            ("p4jet_digests_total", "Digests that programs sent.", self.digests.sent),
            ("p4jet_digests_unheard_total", "Digests sent without a subscriber.", self.digests.unheard),
            ("p4jet_digests_dropped_total", "Digests lost: they came too fast.", self.digests.dropped),
        ] {
            out.family(name, "counter", help);
            out.sample(name, &none, n as f64);
        }
        if let Some(bytes) = self.memory_bytes {
            out.family("process_resident_memory_bytes", "gauge", "Memory in use.");
            out.sample("process_resident_memory_bytes", &none, bytes as f64);
        }
        self.prometheus_ports(&mut out);
        self.prometheus_queues(&mut out);
        self.prometheus_program(&mut out);
        self.prometheus_workers(&mut out);
        out.0
    }

    fn prometheus_ports(&self, out: &mut Exposition) {
        out.family("p4jet_port_up", "gauge", "1 if frames can flow.");
        for port in &self.ports {
            let up = f64::from(port.status == LinkStatus::Up);
            out.sample("p4jet_port_up", &[("port", &port.number.to_string()), ("spec", &port.spec)], up);
        }
        type Of = fn(&PortInfo) -> u64;
        let families: [(&str, &str, &str, Of); 5] = [
            ("p4jet_port_receive_packets_total", "counter", "Frames received.", |p| p.stats.rx_packets),
            ("p4jet_port_receive_bytes_total", "counter", "Bytes of them.", |p| p.stats.rx_bytes),
            ("p4jet_port_transmit_packets_total", "counter", "Frames sent.", |p| p.stats.tx_packets),
            ("p4jet_port_transmit_bytes_total", "counter", "Bytes of them.", |p| p.stats.tx_bytes),
            ("p4jet_port_waiting_packets", "gauge", "Frames that the emulated link holds.", |p| {
                p.stats.tx_waiting
            }),
        ];
        for (name, kind, help, of) in families {
            out.family(name, kind, help);
            for port in &self.ports {
                out.sample(name, &[("port", &port.number.to_string())], of(port) as f64);
            }
        }
        type Kinds = fn(&PortInfo) -> [(&'static str, u64); 3];
        let families: [(&str, &str, Kinds); 2] = [
            (
                "p4jet_port_receive_dropped_packets_total",
                "Frames that came but were not taken in.",
                receive_drops,
            ),
            ("p4jet_port_transmit_dropped_packets_total", "Frames that could not leave.", send_drops),
        ];
        for (name, help, kinds) in families {
            out.family(name, "counter", help);
            for port in &self.ports {
                for (kind, n) in kinds(port) {
                    out.sample(name, &[("port", &port.number.to_string()), ("kind", kind)], n as f64);
                }
            }
        }
    }

    fn prometheus_queues(&self, out: &mut Exposition) {
        type Of = fn(&QueueStats) -> u64;
        let families: [(&str, &str, &str, Of); 5] = [
            ("p4jet_queue_enqueued_packets_total", "counter", "Packets that entered.", |q| q.enqueued),
            ("p4jet_queue_dequeued_packets_total", "counter", "Packets that left.", |q| q.dequeued),
            ("p4jet_queue_dropped_packets_total", "counter", "Packets that found it full.", |q| q.dropped),
            ("p4jet_queue_packets", "gauge", "Packets in it.", |q| q.depth),
            ("p4jet_queue_packets_max", "gauge", "The most there have been.", |q| q.depth_max),
        ];
        for (name, kind, help, of) in families {
            out.family(name, kind, help);
            for (port, queue, stats) in self.queues() {
                let labels = [("port", port.to_string()), ("queue", queue.to_string())];
                let labels = labels.each_ref().map(|(label, text)| (*label, text.as_str()));
                out.sample(name, &labels, of(stats) as f64);
            }
        }
    }

    fn prometheus_program(&self, out: &mut Exposition) {
        out.family("p4jet_table_entries", "gauge", "Entries in the table.");
        for (table, entries, _) in &self.tables {
            out.sample("p4jet_table_entries", &[("table", table)], *entries as f64);
        }
        out.family("p4jet_table_entries_max", "gauge", "Most entries that the table has room for.");
        for (table, _, entries_max) in &self.tables {
            out.sample("p4jet_table_entries_max", &[("table", table)], f64::from(*entries_max));
        }
        let tables = &self.of_program.tables;
        out.family("p4jet_table_hits_total", "counter", "Lookups that found an entry.");
        for (table, stats) in tables {
            out.sample("p4jet_table_hits_total", &[("table", table)], stats.hits as f64);
        }
        out.family("p4jet_table_misses_total", "counter", "Lookups that found none.");
        for (table, stats) in tables {
            out.sample("p4jet_table_misses_total", &[("table", table)], stats.misses as f64);
        }
        out.family("p4jet_action_runs_total", "counter", "How often the table ran the action.");
        for (table, stats) in tables {
            for (action, n) in &stats.actions {
                out.sample("p4jet_action_runs_total", &[("table", table), ("action", action)], *n as f64);
            }
        }
        let name = "p4jet_dropped_packets_total";
        out.family(
            name,
            "counter",
            "Packets dropped, by reason and the place in the program that asked for it.",
        );
        for ((reason, place), n) in self.drops() {
            out.sample(name, &[("reason", reason), ("place", place)], n as f64);
        }
        let name = "p4jet_no_port_packets_total";
        out.family(name, "counter", "Packets sent to a port that does not exist.");
        for (port, n) in &self.total.no_port {
            out.sample(name, &[("port", &port.to_string())], *n as f64);
        }
    }

    fn prometheus_workers(&self, out: &mut Exposition) {
        let name = "p4jet_worker_busy_seconds_total";
        out.family(name, "counter", "Time that the worker spent on packets.");
        for (worker, i) in self.workers.iter().zip(0..) {
            out.sample(name, &[("worker", &i.to_string())], self.busy_seconds(worker));
        }
        let name = "p4jet_worker_batch_packets";
        out.family(name, "histogram", "Packets in a batch from a port.");
        for (worker, i) in self.workers.iter().zip(0..) {
            let number = i.to_string();
            let mut sum = 0;
            for (up_to, n) in BATCH_SIZES.iter().zip(worker.batch_sizes) {
                sum += n;
                let labels = [("worker", number.as_str()), ("le", &up_to.to_string())];
                out.sample("p4jet_worker_batch_packets_bucket", &labels, sum as f64);
            }
            let labels = [("worker", number.as_str()), ("le", "+Inf")];
            out.sample("p4jet_worker_batch_packets_bucket", &labels, worker.batches as f64);
            let labels = [("worker", number.as_str())];
            out.sample("p4jet_worker_batch_packets_sum", &labels, worker.received as f64);
            out.sample("p4jet_worker_batch_packets_count", &labels, worker.batches as f64);
        }
    }
}

/// Prometheus' text format.
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if i == 0 { '{' } else { ',' });
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = Exposition(String::new());
        out.family("a_total", "counter", "Some.");
        out.sample("a_total", &[("x", "say \"\\\n\""), ("y", "")], 3.0);
        out.sample("a_total", &[], 12345678901.0);
        assert_eq!(
            out.0,
            "# HELP a_total Some.\n# TYPE a_total counter\na_total{x=\"say \\\"\\\\\\n\\\"\",y=\"\"} 3\n\
             a_total 12345678901\n"
        );
    }
}
