//! `p4jet top`: shows the rates of a running switch periodically.

use crate::ctl;
use crate::failure::Failure;
use crate::output::{self, say};
use p4jet_control::Stats;
use p4jet_text::client::Client;
use serde::Serialize;
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Options of `top`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    address: ctl::Address,
    /// Seconds between two samples.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Sample twice, print once, and exit.
    #[arg(long)]
    once: bool,
    /// Print one line of JSON per sample.
    #[arg(long)]
    json: bool,
}

/// Shows the rates until the switch or the user ends it.
pub fn run(args: &Args) -> Result<(), Failure> {
    if !(args.interval >= 0.05 && args.interval <= 3600.0) {
        return Err(Failure::Usage(format!("--interval {}: expected 0.05 to 3600", args.interval)));
    }
    let mut client = ctl::connect(&args.address)?;
    let mut before = look(&mut client)?;
    let screen = !args.json && !args.once && std::io::stdout().is_terminal();
    loop {
        std::thread::sleep(Duration::from_secs_f64(args.interval));
        let after = look(&mut client)?;
        let rates = rates(&before, &after);
        if args.json {
            // Texts and numbers always have a JSON form.
            say!("{}", serde_json::to_string(&rates).unwrap_or_default())?;
        } else {
            let text = text(&rates);
            if screen {
                // From the upper left corner, overwriting the previous text and clearing below.
                let (rows, columns) = screen_size();
                output::write(format_args!("\x1b[H{}\x1b[J", fitted(&text, rows, columns)))?;
            } else {
                output::write(format_args!("{text}"))?;
            }
        }
        if args.once {
            return Ok(());
        }
        before = after;
    }
}

/// A sample with its time.
struct Look {
    at: Instant,
    stats: Stats,
}

fn look(client: &mut Client) -> Result<Look, Failure> {
    match client.stats().map_err(ctl::gone)? {
        Ok(stats) => Ok(Look { at: Instant::now(), stats }),
        Err(error) => Err(Failure::Input(error.message)),
    }
}

/// The rates per second.
#[derive(Serialize)]
struct Rates {
    program: String,
    uptime_seconds: f64,
    counted: bool,
    memory_bytes: Option<u64>,
    seconds: f64,
    pps: f64,
    ports: Vec<PortRates>,
    queues: Vec<QueueRates>,
    tables: Vec<TableRates>,
    drops: Vec<DropRates>,
    workers: Vec<WorkerRates>,
}

#[derive(Serialize)]
struct PortRates {
    port: u32,
    spec: String,
    up: bool,
    rx_pps: f64,
    rx_bps: f64,
    rx_dropped_pps: f64,
    tx_pps: f64,
    tx_bps: f64,
    tx_dropped_pps: f64,
}

#[derive(Serialize)]
struct QueueRates {
    port: u32,
    queue: usize,
    depth: u64,
    depth_max: u64,
    pps: f64,
    dropped_pps: f64,
}

#[derive(Serialize)]
struct TableRates {
    table: String,
    entries: u64,
    hits_per_second: f64,
    misses_per_second: f64,
    actions: Vec<ActionRates>,
}

#[derive(Serialize)]
struct ActionRates {
    action: String,
    runs_per_second: f64,
}

#[derive(Serialize)]
struct DropRates {
    reason: String,
    at: Option<String>,
    pps: f64,
    packets: u64,
}

#[derive(Serialize)]
struct WorkerRates {
    worker: usize,
    pps: f64,
    /// Fraction of 1.
    busy: f64,
    packets_per_batch: f64,
}

/// Returns the elements of a list, each with its previous version.
fn pairs<'s, T>(before: &'s [T], after: &'s [T], same: fn(&T, &T) -> bool) -> Vec<(Option<&'s T>, &'s T)> {
    after.iter().map(|now| (before.iter().find(|then| same(then, now)), now)).collect()
}

/// Returns the increase of a number.
fn more<T>((before, after): (Option<&T>, &T), number: impl Fn(&T) -> u64) -> f64 {
    number(after).saturating_sub(before.map_or(0, &number)) as f64
}

/// Returns the rates per second between two samples.
fn rates(before: &Look, after: &Look) -> Rates {
    let seconds = after.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let (then, now) = (&before.stats, &after.stats);
    let rate = |more: f64| (more / seconds).round();
    let ports = pairs(&then.ports, &now.ports, |a, b| (a.port, &a.spec) == (b.port, &b.spec));
    let ports = ports.into_iter().map(|pair| {
        let sum = |kinds: [(&str, u64); 3]| kinds.iter().map(|(_, n)| n).sum();
        PortRates {
            port: pair.1.port,
            spec: pair.1.spec.clone(),
            up: pair.1.up,
            rx_pps: rate(more(pair, |p| p.rx_packets)),
            rx_bps: 8.0 * rate(more(pair, |p| p.rx_bytes)),
            rx_dropped_pps: rate(more(pair, |p| sum(p.rx_dropped.kinds()))),
            tx_pps: rate(more(pair, |p| p.tx_packets)),
            tx_bps: 8.0 * rate(more(pair, |p| p.tx_bytes)),
            tx_dropped_pps: rate(more(pair, |p| sum(p.tx_dropped.kinds()))),
        }
    });
    let queues = pairs(&then.queues, &now.queues, |a, b| (a.port, a.queue) == (b.port, b.queue));
    let queues = queues.into_iter().map(|pair| QueueRates {
        port: pair.1.port,
        queue: pair.1.queue,
        depth: pair.1.depth,
        depth_max: pair.1.depth_max,
        pps: rate(more(pair, |q| q.dequeued)),
        dropped_pps: rate(more(pair, |q| q.dropped)),
    });
    let tables = pairs(&then.tables, &now.tables, |a, b| a.table == b.table);
    let tables = tables.into_iter().map(|pair| {
        let actions_then = pair.0.map_or(&[][..], |table| &table.actions);
        let actions = pairs(actions_then, &pair.1.actions, |a, b| a.action == b.action);
        let actions = actions.into_iter().map(|pair| ActionRates {
            action: pair.1.action.clone(),
            runs_per_second: rate(more(pair, |a| a.runs)),
        });
        TableRates {
            table: pair.1.table.clone(),
            entries: pair.1.entries,
            hits_per_second: rate(more(pair, |t| t.hits.unwrap_or(0))),
            misses_per_second: rate(more(pair, |t| t.misses.unwrap_or(0))),
            actions: actions.collect(),
        }
    });
    let drops = pairs(&then.drops, &now.drops, |a, b| (&a.reason, &a.at) == (&b.reason, &b.at));
    let drops = drops.into_iter().map(|pair| DropRates {
        reason: pair.1.reason.clone(),
        at: pair.1.at.clone(),
        pps: rate(more(pair, |d| d.packets)),
        packets: pair.1.packets,
    });
    let workers = pairs(&then.workers, &now.workers, |a, b| a.worker == b.worker);
    let workers = workers.into_iter().map(|pair| {
        let batches = more(pair, |w| w.batches);
        let batch = if batches > 0.0 { more(pair, |w| w.received) / batches } else { 0.0 };
        let busy = (pair.1.busy_seconds - pair.0.map_or(0.0, |w| w.busy_seconds)).max(0.0);
        WorkerRates {
            worker: pair.1.worker,
            pps: rate(more(pair, |w| w.received)),
            busy: (busy / seconds * 1000.0).round() / 1000.0,
            packets_per_batch: (batch * 10.0).round() / 10.0,
        }
    });
    Rates {
        program: now.program.clone(),
        uptime_seconds: now.uptime_seconds,
        counted: now.counted,
        memory_bytes: now.memory_bytes,
        seconds: (seconds * 1000.0).round() / 1000.0,
        pps: rate(more((Some(then), now), |s| s.received)),
        ports: ports.collect(),
        queues: queues.collect(),
        tables: tables.collect(),
        drops: drops.collect(),
        workers: workers.collect(),
    }
}

/// Formats 1234567.0 as 1.23M.
fn short(n: f64) -> String {
    let (scaled, unit) = match n {
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e4 => (n / 1e3, "k"),
        n => return format!("{n:.0}"),
    };
    format!("{scaled:.2}{unit}")
}

/// Formats for a screen of 80 columns; the most important lines come first, because the rest may not fit.
fn text(rates: &Rates) -> String {
    let mut out = String::new();
    let memory = rates.memory_bytes.unwrap_or(0) as f64 / 1e6;
    let (program, uptime, pps) = (&rates.program, rates.uptime_seconds, short(rates.pps));
    let _ = writeln!(out, "{program}: up {uptime:.0} s, {pps} packets/s, {memory:.0} MB\n");
    let mut line = |cells: [&str; 8]| {
        let [port, what, rest @ ..] = cells;
        let _ = write!(out, "{port:>5} {:<16}", clipped(what, 16));
        for cell in rest {
            let _ = write!(out, " {cell:>8}");
        }
        out.push('\n');
    };
    line(["PORT", "WHAT", "RX p/s", "RX b/s", "RX lost", "TX p/s", "TX b/s", "TX lost"]);
    for p in &rates.ports {
        let up = if p.up { "" } else { "(down) " };
        let rates = [p.rx_pps, p.rx_bps, p.rx_dropped_pps, p.tx_pps, p.tx_bps, p.tx_dropped_pps];
        let [rx, rx_bits, rx_lost, tx, tx_bits, tx_lost] = rates.map(short);
        let (port, what) = (p.port.to_string(), up.to_string() + &p.spec);
        line([&port, &what, &rx, &rx_bits, &rx_lost, &tx, &tx_bits, &tx_lost]);
    }
    let _ = writeln!(out, "\n{:>6} {:>9} {:>6} {:>12}", "WORKER", "p/s", "BUSY", "p/BATCH");
    for w in &rates.workers {
        let (busy, batch) = (w.busy * 100.0, w.packets_per_batch);
        let _ = writeln!(out, "{:>6} {:>9} {busy:>5.0}% {batch:>12.1}", w.worker, short(w.pps));
    }
    if !rates.drops.is_empty() {
        let _ = writeln!(out, "\n{:>9} {:>12}  DROPPED", "p/s", "PACKETS");
    }
    for d in &rates.drops {
        let at = d.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
        let _ = writeln!(out, "{:>9} {:>12}  {}{at}", short(d.pps), d.packets, d.reason);
    }
    if !rates.queues.is_empty() {
        let _ = writeln!(
            out,
            "\n{:>5} {:>5} {:>9} {:>9} {:>9} {:>9}",
            "PORT", "QUEUE", "p/s", "lost/s", "DEPTH", "MOST"
        );
    }
    for QueueRates { port, queue, depth, depth_max, pps, dropped_pps } in &rates.queues {
        let (pps, lost) = (short(*pps), short(*dropped_pps));
        let _ = writeln!(out, "{port:>5} {queue:>5} {pps:>9} {lost:>9} {depth:>9} {depth_max:>9}");
    }
    if rates.counted {
        let _ = writeln!(out, "\n{:<38} {:>9} {:>9} {:>9}", "TABLE", "ENTRIES", "HITS/s", "MISSES/s");
        for t in &rates.tables {
            let (hits, misses) = (short(t.hits_per_second), short(t.misses_per_second));
            let _ = writeln!(out, "{:<38} {:>9} {hits:>9} {misses:>9}", t.table, t.entries);
            // In most seconds most actions run for no packet.
            for a in t.actions.iter().filter(|a| a.runs_per_second != 0.0) {
                let _ = writeln!(out, "  {:<46} {:>9}", a.action, short(a.runs_per_second));
            }
        }
    } else {
        let _ = writeln!(out, "\ntables and actions are not counted: `p4jet ctl stats on`");
    }
    out
}

/// Returns at most this many characters of a text.
fn clipped(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// Returns as much of a text as the screen has room for; each line clears the previous one.
fn fitted(text: &str, rows: usize, columns: usize) -> String {
    let lines = text.lines().take(rows.saturating_sub(1));
    lines.map(|line| line.chars().take(columns).collect::<String>() + "\x1b[K\r\n").collect()
}

#[allow(unsafe_code)]
fn screen_size() -> (usize, usize) {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes one `winsize`.
    let done = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    match (done, size.ws_row, size.ws_col) {
        (0, rows, columns) if rows > 0 && columns > 0 => (rows.into(), columns.into()),
        _ => (24, 80),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_cover_the_time_between_samples() {
        let stats = |packets: u64, hits: u64| -> Stats {
            let stats = json!({
                "program": "x", "counted": true, "received": packets,
                "ports": [{"port": 1, "spec": "veth0", "up": true, "rx_packets": packets, "rx_bytes": 100 * packets,
                           "rx_dropped": {"overrun": packets / 2}, "tx_packets": 0}],
                "tables": [{"table": "t", "entries": 3, "hits": hits,
                            "actions": [{"action": "a", "runs": hits}, {"action": "idle", "runs": 7}]}],
                "drops": [{"reason": "r", "at": "x.p4:3", "packets": packets}],
                "workers": [{"worker": 0, "received": packets, "batches": packets / 10, "busy_seconds": 0.25}],
            });
            serde_json::from_value(stats).unwrap()
        };
        let at = Instant::now();
        let before = Look { at, stats: stats(1000, 5) };
        let after = Look { at: at + Duration::from_secs(2), stats: stats(3000, 45) };
        let rates = rates(&before, &after);
        assert_eq!(rates.ports[0].rx_pps, 1000.0);
        assert_eq!(rates.ports[0].rx_bps, 800_000.0);
        assert_eq!(rates.ports[0].rx_dropped_pps, 500.0);
        assert_eq!(rates.tables[0].actions[0].runs_per_second, 20.0);
        assert_eq!(rates.workers[0].packets_per_batch, 10.0);
        let text = text(&rates);
        for part in ["veth0", "800.00k", "r (x.p4:3)", "a  "] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        // Numbers are below their names on a screen of 80 columns, and actions that never run are absent.
        assert!(!text.contains("idle"), "{text}");
        let expected = "\
 PORT WHAT               RX p/s   RX b/s  RX lost   TX p/s   TX b/s  TX lost
    1 veth0                1000  800.00k      500        0        0        0

WORKER       p/s   BUSY      p/BATCH
     0      1000     0%         10.0
";
        assert!(text.contains(expected), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80));
        assert_eq!(fitted("abc\ndef\nghi", 3, 2), "ab\x1b[K\r\nde\x1b[K\r\n");
    }
}
