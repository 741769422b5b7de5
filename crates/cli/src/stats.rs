//! Statistics of a running switch: for Prometheus, for `p4jet top` and other tools.

use p4jet_control::Stats;
use p4jet_control::stats::{
    ActionStats, BatchStats, DigestStats, DropStats, NoPortStats, PortStats, QueueStats, ReceiveDrops,
    SendDrops, TableStats, WorkerStats,
};
use p4jet_dataplane::{DigestCounts, ForwardStats, PortInfo, ProgramStats, QUEUES_MAX, Running, ticks};
use p4jet_ir::TableId;
use p4jet_ports::LinkStatus;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Statistics of a running switch.
pub struct Meter {
    /// A time with the processor's tick count.
    start: (Instant, u64),
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
        let (workers, of_program) = running.sample();
        let total = ForwardStats::total(workers.iter().cloned());
        let (start, start_ticks) = self.start;
        let elapsed = start.elapsed().as_secs_f64().max(1e-6);
        let ticks_per_second = (ticks().wrapping_sub(start_ticks) as f64 / elapsed).max(1.0);
        let drops = drops(&total, &of_program);
        let ProgramStats { tables: mut counted, .. } = of_program;
        let tables = switch.program().tables.iter().zip(0..).filter(|(table, _)| !table.hidden);
        let tables = tables.map(|(table, i)| TableStats {
            entries: switch.table(TableId(i)).len() as u64,
            entries_max: u64::from(table.size),
            ..table_stats(table.name.clone(), counted.remove(&table.name))
        });
        let tables = tables.collect();
        let DigestCounts { sent, without_subscriber, dropped } = running.digest_counts();
        Stats {
            program: switch.program().name.clone(),
            uptime_seconds: Duration::from_micros(switch.now_us()).as_secs_f64(),
            reloads: running.reloads(),
            adaptations: running.adaptations(),
            interpreting: running.is_interpreting(),
            stuck: running.stuck(),
            memory_bytes: memory_bytes(),
            counted: switch.is_counted(),
            received: total.received,
            copies: total.copies,
            queued: total.queued,
            done: total.done,
            waiting: total.waiting,
            sent: total.sent.values().sum(),
            not_sent: total.not_sent,
            ports: running.ports().into_iter().map(port_stats).collect(),
            tables,
            queues: queue_stats(&switch.queues().stats()),
            drops,
            no_port: total.no_port.iter().map(|(port, n)| NoPortStats { port: *port, packets: *n }).collect(),
            no_port_others: total.no_port_others,
            digests: DigestStats { sent, without_subscriber, dropped },
            workers: workers.iter().zip(0..).map(|(w, i)| worker_stats(w, i, ticks_per_second)).collect(),
            earlier_tables: counted.into_iter().map(|(name, stats)| table_stats(name, Some(stats))).collect(),
        }
    }
}

/// Returns drops by reason and place. Drops by the traffic manager, or before places were counted, have no place.
fn drops(total: &ForwardStats, of_program: &ProgramStats) -> Vec<DropStats> {
    let mut drops = BTreeMap::new();
    let mut placed: BTreeMap<&str, u64> = BTreeMap::new();
    for ((reason, place), n) in &of_program.drops {
        *placed.entry(reason).or_default() += n;
        drops.insert((reason.as_str(), place.as_str()), *n);
    }
    for (reason, n) in &total.dropped {
        let rest = n.saturating_sub(placed.get(reason.as_str()).copied().unwrap_or(0));
        if rest > 0 {
            *drops.entry((reason, "")).or_default() += rest;
        }
    }
    let drop = |((reason, place), packets): ((&str, &str), u64)| DropStats {
        reason: reason.to_string(),
        at: Some(place.to_string()).filter(|place| !place.is_empty()),
        packets,
    };
    drops.into_iter().map(drop).collect()
}

/// The numbers of a table; without its entries.
fn table_stats(table: String, counted: Option<p4jet_dataplane::TableStats>) -> TableStats {
    let (hits, misses) = (counted.as_ref().map(|s| s.hits), counted.as_ref().map(|s| s.misses));
    let actions = counted.into_iter().flat_map(|s| s.actions);
    let actions = actions.map(|(action, runs)| ActionStats { action, runs }).collect();
    TableStats { table, hits, misses, actions, ..TableStats::default() }
}

/// The statistics of a port.
pub fn port_stats(port: PortInfo) -> PortStats {
    let (up, why_down) = match port.status {
        LinkStatus::Up => (true, None),
        LinkStatus::Down(why) => (false, Some(why)),
    };
    let stats = port.stats;
    PortStats {
        port: port.number,
        spec: port.spec,
        up,
        why_down,
        rx_packets: stats.rx_packets,
        rx_bytes: stats.rx_bytes,
        rx_dropped: ReceiveDrops {
            oversize: stats.rx_dropped_oversize,
            overrun: stats.rx_dropped_overrun,
            malformed: stats.rx_dropped_malformed,
        },
        tx_packets: stats.tx_packets,
        tx_bytes: stats.tx_bytes,
        tx_dropped: SendDrops {
            link: stats.tx_dropped,
            emulated_loss: stats.tx_dropped_loss,
            emulated_queue: stats.tx_dropped_queue,
        },
        tx_waiting: stats.tx_waiting,
    }
}

/// The output queues that have held a packet.
fn queue_stats(queues: &BTreeMap<u32, [p4jet_dataplane::QueueStats; QUEUES_MAX]>) -> Vec<QueueStats> {
    let queues = queues.iter().flat_map(|(port, queues)| {
        queues.iter().enumerate().map(|(queue, stats)| QueueStats {
            port: *port,
            queue,
            enqueued: stats.enqueued,
            dequeued: stats.dequeued,
            dropped: stats.dropped,
            depth: stats.depth,
            depth_max: stats.depth_max,
        })
    });
    queues.filter(|stats| stats.enqueued + stats.dropped > 0).collect()
}

fn worker_stats(worker: &ForwardStats, number: usize, ticks_per_second: f64) -> WorkerStats {
    let sizes = BATCH_SIZES.into_iter().zip(worker.batch_sizes);
    WorkerStats {
        worker: number,
        received: worker.received,
        copies: worker.copies,
        busy_seconds: worker.busy_ticks as f64 / ticks_per_second,
        batches: worker.batches,
        batch_sizes: sizes.map(|(up_to, batches)| BatchStats { up_to, batches }).collect(),
    }
}

/// The resident memory of this process.
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

/// The numbers for Prometheus: its text format, 0.0.4.
pub fn prometheus(stats: &Stats) -> String {
    let mut out = Exposition(String::new());
    let none: [(&str, &str); 0] = [];
    let version = env!("CARGO_PKG_VERSION");
    out.family("p4jet_info", "gauge", "The running program and the version of p4jet.");
    out.sample("p4jet_info", &[("program", &stats.program), ("version", version)], 1.0);
    out.family("p4jet_uptime_seconds", "gauge", "Seconds since the switch started.");
    out.sample("p4jet_uptime_seconds", &none, stats.uptime_seconds);
    let help = "1 while the interpreter forwards because machine code is not ready yet.";
    out.family("p4jet_interpreting", "gauge", help);
    out.sample("p4jet_interpreting", &none, f64::from(u8::from(stats.interpreting)));
    out.family(
        "p4jet_stuck",
        "gauge",
        "1 while a worker makes no progress; its counts are then those of an earlier sample.",
    );
    out.sample("p4jet_stuck", &none, f64::from(u8::from(stats.stuck.is_some())));
    for (name, help, n) in [
        ("p4jet_reloads_total", "Programs that replaced the running one.", stats.reloads),
        (
            "p4jet_adaptations_total",
            "Recompilations of the program for the observed traffic.",
            stats.adaptations,
        ),
        ("p4jet_received_packets_total", "Packets received by workers.", stats.received),
        (
            "p4jet_copies_total",
            "Copies of packets: clones, replicas, resubmitted and queued packets.",
            stats.copies,
        ),
        ("p4jet_done_packets_total", "Packets that ended because their copies replaced them.", stats.done),
        ("p4jet_not_sent_packets_total", "Packets that a port could not send.", stats.not_sent),
        ("p4jet_digests_total", "Digests that programs sent.", stats.digests.sent),
        (
            "p4jet_digests_without_subscriber_total",
            "Digests sent without a subscriber.",
            stats.digests.without_subscriber,
        ),
        (
            "p4jet_digests_dropped_total",
            "Digests lost because subscribers were too slow.",
            stats.digests.dropped,
        ),
    ] {
        out.family(name, "counter", help);
        out.sample(name, &none, n as f64);
    }
    if let Some(bytes) = stats.memory_bytes {
        out.family("process_resident_memory_bytes", "gauge", "Memory in use.");
        out.sample("process_resident_memory_bytes", &none, bytes as f64);
    }
    prometheus_ports(stats, &mut out);
    prometheus_queues(stats, &mut out);
    prometheus_program(stats, &mut out);
    prometheus_workers(stats, &mut out);
    out.0
}

fn prometheus_ports(stats: &Stats, out: &mut Exposition) {
    out.family("p4jet_port_up", "gauge", "1 if frames can flow.");
    for port in &stats.ports {
        let up = f64::from(port.up);
        out.sample("p4jet_port_up", &[("port", &port.port.to_string()), ("spec", &port.spec)], up);
    }
    type Of = fn(&PortStats) -> u64;
    let families: [(&str, &str, &str, Of); 5] = [
        ("p4jet_port_receive_packets_total", "counter", "Frames received.", |p| p.rx_packets),
        ("p4jet_port_receive_bytes_total", "counter", "Bytes of the frames.", |p| p.rx_bytes),
        ("p4jet_port_transmit_packets_total", "counter", "Frames sent.", |p| p.tx_packets),
        ("p4jet_port_transmit_bytes_total", "counter", "Bytes of the frames.", |p| p.tx_bytes),
        ("p4jet_port_waiting_packets", "gauge", "Frames that the emulated link holds.", |p| p.tx_waiting),
    ];
    for (name, kind, help, of) in families {
        out.family(name, kind, help);
        for port in &stats.ports {
            out.sample(name, &[("port", &port.port.to_string())], of(port) as f64);
        }
    }
    type Kinds = fn(&PortStats) -> [(&'static str, u64); 3];
    let families: [(&str, &str, Kinds); 2] = [
        ("p4jet_port_receive_dropped_packets_total", "Frames that arrived but were not processed.", |port| {
            port.rx_dropped.kinds()
        }),
        ("p4jet_port_transmit_dropped_packets_total", "Frames that could not be sent.", |port| {
            port.tx_dropped.kinds()
        }),
    ];
    for (name, help, kinds) in families {
        out.family(name, "counter", help);
        for port in &stats.ports {
            for (kind, n) in kinds(port) {
                out.sample(name, &[("port", &port.port.to_string()), ("kind", kind)], n as f64);
            }
        }
    }
}

fn prometheus_queues(stats: &Stats, out: &mut Exposition) {
    type Of = fn(&QueueStats) -> u64;
    let families: [(&str, &str, &str, Of); 5] = [
        ("p4jet_queue_enqueued_packets_total", "counter", "Packets that entered the queue.", |q| q.enqueued),
        ("p4jet_queue_dequeued_packets_total", "counter", "Packets that left the queue.", |q| q.dequeued),
        (
            "p4jet_queue_dropped_packets_total",
            "counter",
            "Packets dropped because the queue was full.",
            |q| q.dropped,
        ),
        ("p4jet_queue_packets", "gauge", "Packets in the queue.", |q| q.depth),
        ("p4jet_queue_packets_max", "gauge", "Largest number of packets in the queue.", |q| q.depth_max),
    ];
    for (name, kind, help, of) in families {
        out.family(name, kind, help);
        for queue in &stats.queues {
            let labels = [("port", queue.port.to_string()), ("queue", queue.queue.to_string())];
            let labels = labels.each_ref().map(|(label, text)| (*label, text.as_str()));
            out.sample(name, &labels, of(queue) as f64);
        }
    }
}

fn prometheus_program(stats: &Stats, out: &mut Exposition) {
    out.family("p4jet_table_entries", "gauge", "Entries in the table.");
    for table in &stats.tables {
        out.sample("p4jet_table_entries", &[("table", &table.table)], table.entries as f64);
    }
    out.family("p4jet_table_entries_max", "gauge", "Capacity of the table in entries.");
    for table in &stats.tables {
        out.sample("p4jet_table_entries_max", &[("table", &table.table)], table.entries_max as f64);
    }
    let mut tables: Vec<_> = stats.tables.iter().chain(&stats.earlier_tables).collect();
    tables.retain(|table| table.hits.is_some());
    tables.sort_by(|a, b| a.table.cmp(&b.table));
    out.family("p4jet_table_hits_total", "counter", "Lookups that found an entry.");
    for table in &tables {
        out.sample("p4jet_table_hits_total", &[("table", &table.table)], table.hits.unwrap_or(0) as f64);
    }
    out.family("p4jet_table_misses_total", "counter", "Lookups that found none.");
    for table in &tables {
        out.sample("p4jet_table_misses_total", &[("table", &table.table)], table.misses.unwrap_or(0) as f64);
    }
    out.family("p4jet_action_runs_total", "counter", "Runs of the action by the table.");
    for table in &tables {
        for ActionStats { action, runs } in &table.actions {
            let labels = [("table", table.table.as_str()), ("action", action)];
            out.sample("p4jet_action_runs_total", &labels, *runs as f64);
        }
    }
    let name = "p4jet_dropped_packets_total";
    out.family(name, "counter", "Packets dropped, by reason and by the source line that caused the drop.");
    for DropStats { reason, at, packets } in &stats.drops {
        let labels = [("reason", reason.as_str()), ("place", at.as_deref().unwrap_or(""))];
        out.sample(name, &labels, *packets as f64);
    }
    let name = "p4jet_no_port_packets_total";
    out.family(name, "counter", "Packets sent to a port that does not exist.");
    for NoPortStats { port, packets } in &stats.no_port {
        out.sample(name, &[("port", &port.to_string())], *packets as f64);
    }
    if stats.no_port_others > 0 {
        out.sample(name, &[("port", "other")], stats.no_port_others as f64);
    }
}

fn prometheus_workers(stats: &Stats, out: &mut Exposition) {
    let name = "p4jet_worker_busy_seconds_total";
    out.family(name, "counter", "Time that the worker spent on packets.");
    for worker in &stats.workers {
        out.sample(name, &[("worker", &worker.worker.to_string())], worker.busy_seconds);
    }
    let name = "p4jet_worker_batch_packets";
    out.family(name, "histogram", "Packets in a batch from a port.");
    for worker in &stats.workers {
        let number = worker.worker.to_string();
        let mut sum = 0;
        for BatchStats { up_to, batches } in &worker.batch_sizes {
            sum += batches;
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
