//! `p4jet top`: shows the rates of a running switch periodically.

use crate::ctl;
use crate::failure::Failure;
use crate::output::{self, say};
use p4jet_text::client::Client;
use serde_json::{Value, json};
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
            say!("{rates}")?;
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
    stats: Value,
}

fn look(client: &mut Client) -> Result<Look, Failure> {
    let answer = client.command("stats", true).map_err(ctl::gone)?;
    match (answer.error, answer.data) {
        (None, Some(stats)) => Ok(Look { at: Instant::now(), stats }),
        (Some(error), _) => Err(Failure::Input(error.text)),
        (None, None) => Err(Failure::Input("the switch sent no statistics".into())),
    }
}

/// Returns the increase of a number.
fn more(before: Option<&Value>, after: &Value, name: &str) -> f64 {
    let number = |v: &Value| v[name].as_f64().unwrap_or(0.0);
    (number(after) - before.map_or(0.0, number)).max(0.0)
}

/// Returns the elements of a list, each with its previous version.
fn pairs<'v>(
    before: &'v Value,
    after: &'v Value,
    list: &str,
    keys: &'v [&str],
) -> Vec<(Option<&'v Value>, &'v Value)> {
    let of = |stats: &'v Value| stats[list].as_array().map(Vec::as_slice).unwrap_or_default();
    let same = |a: &Value, b: &Value| keys.iter().all(|key| a[*key] == b[*key]);
    of(after).iter().map(|now| (of(before).iter().find(|then| same(then, now)), now)).collect()
}

fn sum(kinds: &Value) -> f64 {
    kinds.as_object().into_iter().flatten().filter_map(|(_, n)| n.as_f64()).sum()
}

/// Returns the rates per second between two samples.
fn rates(before: &Look, after: &Look) -> Value {
    let seconds = after.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let (then, now) = (&before.stats, &after.stats);
    let rate = |b: Option<&Value>, a: &Value, name: &str| (more(b, a, name) / seconds).round();
    let dropped = |b: Option<&Value>, a: &Value, kinds: &str| {
        ((sum(&a[kinds]) - b.map_or(0.0, |b| sum(&b[kinds]))).max(0.0) / seconds).round()
    };
    let ports = pairs(then, now, "ports", &["port", "spec"]).into_iter().map(|(b, a)| {
        json!({
            "port": a["port"], "spec": a["spec"], "up": a["up"],
            "rx_pps": rate(b, a, "rx_packets"), "rx_bps": 8.0 * rate(b, a, "rx_bytes"),
            "rx_dropped_pps": dropped(b, a, "rx_dropped"),
            "tx_pps": rate(b, a, "tx_packets"), "tx_bps": 8.0 * rate(b, a, "tx_bytes"),
            "tx_dropped_pps": dropped(b, a, "tx_dropped"),
        })
    });
    let queues = pairs(then, now, "queues", &["port", "queue"]).into_iter().map(|(b, a)| {
        json!({
            "port": a["port"], "queue": a["queue"], "depth": a["depth"], "depth_max": a["depth_max"],
            "pps": rate(b, a, "dequeued"), "dropped_pps": rate(b, a, "dropped"),
        })
    });
    let tables = pairs(then, now, "tables", &["table"]).into_iter().map(|(b, a)| {
        let nothing = Value::Null;
        let actions = pairs(b.unwrap_or(&nothing), a, "actions", &["action"]);
        json!({
            "table": a["table"], "entries": a["entries"],
            "hits_per_second": rate(b, a, "hits"), "misses_per_second": rate(b, a, "misses"),
            "actions": actions.into_iter()
                .map(|(b, a)| json!({"action": a["action"], "runs_per_second": rate(b, a, "runs")}))
                .collect::<Vec<_>>(),
        })
    });
    let drops = pairs(then, now, "drops", &["reason", "at"]).into_iter().map(|(b, a)| {
        json!({"reason": a["reason"], "at": a["at"], "pps": rate(b, a, "packets"), "packets": a["packets"]})
    });
    let workers = pairs(then, now, "workers", &["worker"]).into_iter().map(|(b, a)| {
        let batches = more(b, a, "batches");
        let batch = if batches > 0.0 { more(b, a, "received") / batches } else { 0.0 };
        json!({
            "worker": a["worker"], "pps": rate(b, a, "received"),
            "busy": (more(b, a, "busy_seconds") / seconds * 1000.0).round() / 1000.0,
            "packets_per_batch": (batch * 10.0).round() / 10.0,
        })
    });
    json!({
        "program": now["program"], "uptime_seconds": now["uptime_seconds"], "counted": now["counted"],
        "memory_bytes": now["memory_bytes"], "seconds": (seconds * 1000.0).round() / 1000.0,
        "pps": rate(Some(then), now, "received"),
        "ports": ports.collect::<Vec<_>>(), "queues": queues.collect::<Vec<_>>(),
        "tables": tables.collect::<Vec<_>>(), "drops": drops.collect::<Vec<_>>(),
        "workers": workers.collect::<Vec<_>>(),
    })
}

/// Formats 1234567.0 as 1.23M.
fn short(value: &Value) -> String {
    let n = value.as_f64().unwrap_or(0.0);
    let (scaled, unit) = match n {
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e4 => (n / 1e3, "k"),
        n => return format!("{n:.0}"),
    };
    format!("{scaled:.2}{unit}")
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn list<'v>(rates: &'v Value, name: &str) -> &'v [Value] {
    rates[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Formats for a screen of 80 columns; the most important lines come first, because the rest may not fit.
fn text(rates: &Value) -> String {
    let mut out = String::new();
    let memory = rates["memory_bytes"].as_f64().unwrap_or(0.0) / 1e6;
    let uptime = rates["uptime_seconds"].as_f64().unwrap_or(0.0);
    let pps = short(&rates["pps"]);
    let _ = writeln!(out, "{}: up {uptime:.0} s, {pps} packets/s, {memory:.0} MB\n", word(&rates["program"]));
    let mut line = |cells: [&str; 8]| {
        let [port, what, rest @ ..] = cells;
        let _ = write!(out, "{port:>5} {:<16}", clipped(what, 16));
        for cell in rest {
            let _ = write!(out, " {cell:>8}");
        }
        out.push('\n');
    };
    line(["PORT", "WHAT", "RX p/s", "RX b/s", "RX lost", "TX p/s", "TX b/s", "TX lost"]);
    for p in list(rates, "ports") {
        let up = if p["up"] == false { "(down) " } else { "" };
        let rates = ["rx_pps", "rx_bps", "rx_dropped_pps", "tx_pps", "tx_bps", "tx_dropped_pps"];
        let [rx, rx_bits, rx_lost, tx, tx_bits, tx_lost] = rates.map(|name| short(&p[name]));
        let (port, what) = (word(&p["port"]), up.to_string() + &word(&p["spec"]));
        line([&port, &what, &rx, &rx_bits, &rx_lost, &tx, &tx_bits, &tx_lost]);
    }
    let _ = writeln!(out, "\n{:>6} {:>9} {:>6} {:>12}", "WORKER", "p/s", "BUSY", "p/BATCH");
    for w in list(rates, "workers") {
        let busy = w["busy"].as_f64().unwrap_or(0.0) * 100.0;
        let (worker, batch) = (word(&w["worker"]), word(&w["packets_per_batch"]));
        let _ = writeln!(out, "{worker:>6} {:>9} {busy:>5.0}% {batch:>12}", short(&w["pps"]));
    }
    if !list(rates, "drops").is_empty() {
        let _ = writeln!(out, "\n{:>9} {:>12}  DROPPED", "p/s", "PACKETS");
    }
    for d in list(rates, "drops") {
        let at = d["at"].as_str().map(|at| format!(" ({at})")).unwrap_or_default();
        let _ =
            writeln!(out, "{:>9} {:>12}  {}{at}", short(&d["pps"]), word(&d["packets"]), word(&d["reason"]));
    }
    if !list(rates, "queues").is_empty() {
        let _ = writeln!(
            out,
            "\n{:>5} {:>5} {:>9} {:>9} {:>9} {:>9}",
            "PORT", "QUEUE", "p/s", "lost/s", "DEPTH", "MOST"
        );
    }
    for q in list(rates, "queues") {
        let [port, queue, depth, most] = ["port", "queue", "depth", "depth_max"].map(|name| word(&q[name]));
        let (pps, lost) = (short(&q["pps"]), short(&q["dropped_pps"]));
        let _ = writeln!(out, "{port:>5} {queue:>5} {pps:>9} {lost:>9} {depth:>9} {most:>9}");
    }
    if rates["counted"] == true {
        let _ = writeln!(out, "\n{:<38} {:>9} {:>9} {:>9}", "TABLE", "ENTRIES", "HITS/s", "MISSES/s");
        for t in list(rates, "tables") {
            let _ = writeln!(
                out,
                "{:<38} {:>9} {:>9} {:>9}",
                word(&t["table"]),
                word(&t["entries"]),
                short(&t["hits_per_second"]),
                short(&t["misses_per_second"])
            );
            // Most actions run for none of a second's packets.
            for a in list(t, "actions").iter().filter(|a| a["runs_per_second"] != 0.0) {
                let _ = writeln!(out, "  {:<46} {:>9}", word(&a["action"]), short(&a["runs_per_second"]));
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

    #[test]
    fn rates_are_of_what_happened_between() {
        let stats = |packets: u64, hits: u64| {
            json!({
                "program": "x", "counted": true, "received": packets,
                "ports": [{"port": 1, "spec": "veth0", "up": true, "rx_packets": packets, "rx_bytes": 100 * packets,
                           "rx_dropped": {"overrun": packets / 2}, "tx_packets": 0}],
                "tables": [{"table": "t", "entries": 3, "hits": hits,
                            "actions": [{"action": "a", "runs": hits}, {"action": "idle", "runs": 7}]}],
                "drops": [{"reason": "r", "at": "x.p4:3", "packets": packets}],
                "workers": [{"worker": 0, "received": packets, "batches": packets / 10, "busy_seconds": 0.25}],
            })
        };
        let at = Instant::now();
        let before = Look { at, stats: stats(1000, 5) };
        let after = Look { at: at + Duration::from_secs(2), stats: stats(3000, 45) };
        let rates = rates(&before, &after);
        assert_eq!(rates["ports"][0]["rx_pps"], 1000.0);
        assert_eq!(rates["ports"][0]["rx_bps"], 800_000.0);
        assert_eq!(rates["ports"][0]["rx_dropped_pps"], 500.0);
        assert_eq!(rates["tables"][0]["actions"][0]["runs_per_second"], 20.0);
        assert_eq!(rates["workers"][0]["packets_per_batch"], 10.0);
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
