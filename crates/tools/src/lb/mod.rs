//! Measures how evenly hashes of addresses distribute hosts over servers.
//!
//! A repetition draws random addresses. Each hash of each address, modulo the number of servers, selects a server. The
//! deviation of the servers' shares from equal ones is the normalised root mean square error: with `h` hosts and `n`
//! servers that have `c` hosts each, √(Σ (c − h/n)² / n) / log₂ h. All servers count, including those without a host.

mod hash;
mod heat;

pub use hash::Hash;

use crate::Error;
use crate::random::{Random, mix};
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Every byte from 1 to 253.
    Ipv4,
    /// Any.
    Ipv6,
}

/// The hashed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The bytes of the address, as a switch does.
    Bytes,
    /// The address as a line of text, including the line end.
    Text,
}

/// The parameters of a study.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of addresses.
    pub family: Family,
    /// The hashed data.
    pub input: Input,
    /// Numbers of hosts: powers of two from 2 to this.
    pub hosts_max: u64,
    /// Numbers of servers.
    pub servers: Vec<u64>,
    /// The hashes.
    pub hashes: Vec<Hash>,
    /// Number of draws of addresses.
    pub repetitions: u64,
    /// The seed of the draws.
    pub seed: u64,
    /// Number of threads that share the repetitions. It affects only the time.
    pub threads: usize,
}

/// Maximum number of hosts.
pub const HOSTS_MAX: u64 = 1 << 24;
/// Maximum number of servers.
pub const SERVERS_MAX: u64 = 1 << 16;
/// Maximum number of repetitions.
pub const REPETITIONS_MAX: u64 = 100_000;

/// The errors of one hash with these numbers of hosts and servers, over the repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// Half of the width of the mean's 95 % confidence interval.
    pub mean_error: f64,
    /// Root of the mean square.
    pub rms: f64,
    /// The 95th percentile.
    pub p95: f64,
}

/// The results of a study.
pub struct Study {
    /// Numbers of hosts.
    pub hosts: Vec<u64>,
    /// Numbers of servers.
    pub servers: Vec<u64>,
    /// Names of the hashes.
    pub hashes: Vec<String>,
    /// By hash, number of hosts and number of servers. `None` if there are more servers than hosts.
    pub cells: Vec<Vec<Vec<Option<Cell>>>>,
}

/// Returns the error of an ideal hash: the root mean square over all draws.
pub fn ideal_rms(hosts: u64, servers: u64) -> f64 {
    let (hosts, servers) = (hosts as f64, servers as f64);
    (hosts / servers * (1.0 - 1.0 / servers)).sqrt() / hosts.log2()
}

/// Carries out a study.
pub fn study(options: &Options) -> Result<Study, Error> {
    let wrong = |text: String| Err(Error::Usage(text));
    if !options.hosts_max.is_power_of_two() || !(2..=HOSTS_MAX).contains(&options.hosts_max) {
        return wrong(format!("{} hosts: expected a power of two from 2 to {HOSTS_MAX}", options.hosts_max));
    }
    if let Some(n) = options.servers.iter().find(|n| !(1..=SERVERS_MAX).contains(*n)) {
        return wrong(format!("{n} servers: expected 1 to {SERVERS_MAX}"));
    }
    if options.servers.is_empty() || options.hashes.is_empty() {
        return wrong("expected at least one number of servers and one hash".to_string());
    }
    if !(1..=REPETITIONS_MAX).contains(&options.repetitions) {
        return wrong(format!("{} repetitions: expected 1 to {REPETITIONS_MAX}", options.repetitions));
    }
    let hosts: Vec<u64> = (1..=options.hosts_max.ilog2()).map(|bits| 1 << bits).collect();
    let errors = Mutex::new(vec![Vec::new(); options.repetitions as usize]);
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= options.repetitions {
                break;
            }
            let found = repetition(options, number);
            errors.lock().unwrap_or_else(|e| e.into_inner())[number as usize] = found;
        }
    };
    std::thread::scope(|scope| {
        // This thread is one of them, and the only one if no others can be started.
        for _ in 1..options.threads {
            if p4jet_threads::spawn_scoped(scope, "lb", work).is_err() {
                break;
            }
        }
        work();
    });
    let errors = errors.into_inner().unwrap_or_else(|e| e.into_inner());
    let mut at = 0;
    let mut cells = Vec::new();
    for _ in &options.hashes {
        let mut of_hash = Vec::new();
        for &h in &hosts {
            let mut row = Vec::new();
            for &n in &options.servers {
                let values: Vec<f64> =
                    errors.iter().map(|repetition: &Vec<f32>| f64::from(repetition[at])).collect();
                row.push((n <= h).then(|| cell(values)));
                at += 1;
            }
            of_hash.push(row);
        }
        cells.push(of_hash);
    }
    let hashes = options.hashes.iter().map(|hash| hash.name().to_string()).collect();
    Ok(Study { hosts, servers: options.servers.clone(), hashes, cells })
}

/// Returns the errors of one draw: by hash, number of hosts, number of servers.
fn repetition(options: &Options, number: u64) -> Vec<f32> {
    let mut random = Random::new(mix(options.seed) ^ mix(number));
    // The ideal hash has its own generator, so that the addresses do not depend on the selected hashes.
    let mut ideal = Random::new(mix(options.seed ^ 0x1dea1) ^ mix(number));
    let steps = options.hosts_max.ilog2() as usize;
    let servers = &options.servers;
    // A number of servers that divides another one need not be counted separately.
    let counted: Vec<u64> = servers
        .iter()
        .copied()
        .filter(|n| !servers.iter().any(|other| other > n && other % n == 0))
        .collect();
    let fresh = || counted.iter().map(|n| vec![0u32; *n as usize]).collect::<Vec<_>>();
    let mut counts: Vec<Vec<Vec<u32>>> = options.hashes.iter().map(|_| fresh()).collect();
    let mut found = vec![0.0; options.hashes.len() * steps * servers.len()];
    let mut key = Vec::new();
    for host in 1..=options.hosts_max {
        draw(&mut random, options, &mut key);
        for (hash, counts) in options.hashes.iter().zip(&mut counts) {
            let value = hash.of(&key, &mut ideal);
            for (n, counts) in counted.iter().zip(counts) {
                let server = if n.is_power_of_two() { value & (n - 1) } else { value % n };
                counts[server as usize] += 1;
            }
        }
        if host >= 2 && host.is_power_of_two() {
            for (i, counts) in counts.iter().enumerate() {
                for (j, &n) in servers.iter().enumerate() {
                    let from = counted.iter().position(|c| c % n == 0).unwrap_or(0);
                    let at = (i * steps + host.ilog2() as usize - 1) * servers.len() + j;
                    found[at] = error(&counts[from], n, host) as f32;
                }
            }
        }
    }
    found
}

fn draw(random: &mut Random, options: &Options, key: &mut Vec<u8>) {
    key.clear();
    match options.family {
        Family::Ipv4 => {
            // 32 random bits for each byte are practically uniform.
            let (a, b) = (random.next(), random.next());
            let octet = |x: u64| 1 + (((x & 0xffff_ffff) * 253) >> 32) as u8;
            let octets = [octet(a), octet(a >> 32), octet(b), octet(b >> 32)];
            match options.input {
                Input::Bytes => key.extend(octets),
                // Writing to a Vec does not fail.
                Input::Text => {
                    drop(std::io::Write::write_fmt(key, format_args!("{}\n", Ipv4Addr::from(octets))))
                }
            }
        }
        Family::Ipv6 => {
            let address = u128::from(random.next()) << 64 | u128::from(random.next());
            match options.input {
                Input::Bytes => key.extend(address.to_be_bytes()),
                Input::Text => {
                    drop(std::io::Write::write_fmt(key, format_args!("{}\n", Ipv6Addr::from(address))));
                }
            }
        }
    }
}

/// Returns the error with `n` servers, given the counts for a multiple of `n`.
fn error(counts: &[u32], n: u64, hosts: u64) -> f64 {
    let n = n as usize;
    let expected = hosts as f64 / n as f64;
    let squares: f64 = (0..n)
        .map(|server| {
            let count: u32 = counts.iter().skip(server).step_by(n).sum();
            (f64::from(count) - expected).powi(2)
        })
        .sum();
    (squares / n as f64).sqrt() / (hosts as f64).log2()
}

fn cell(mut values: Vec<f64>) -> Cell {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|v| v * v).sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let p95 = values[(values.len() * 95).div_ceil(100).max(1) - 1];
    Cell {
        min: values[0],
        max: values[values.len() - 1],
        mean,
        mean_error: 1.96 * (variance / count).sqrt(),
        rms: squares.sqrt(),
        p95,
    }
}

impl Study {
    /// Returns a Markdown table of the means for the largest number of hosts; smaller is better.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let Some(hosts) = self.hosts.last() else { return text };
        writeln!(text, "Mean error with {hosts} hosts, and its 95 % confidence.\n")
            .expect("a String takes everything");
        let mut line = |cells: Vec<String>| {
            writeln!(text, "| {} |", cells.join(" | ")).expect("a String takes everything");
        };
        line(std::iter::once("servers".to_string()).chain(self.servers.iter().map(u64::to_string)).collect());
        line(vec!["---".to_string(); self.servers.len() + 1]);
        for (name, cells) in self.hashes.iter().zip(&self.cells) {
            let last = cells.last().into_iter().flatten().map(|cell| match cell {
                Some(cell) => format!("{:.2} ± {:.2}", cell.mean, cell.mean_error),
                None => String::new(),
            });
            line(std::iter::once(name.clone()).chain(last).collect());
        }
        let ideal = self.servers.iter().map(|&n| match n <= *hosts {
            true => format!("{:.2}", ideal_rms(*hosts, n)),
            false => String::new(),
        });
        line(std::iter::once("root mean square of an ideal hash".to_string()).chain(ideal).collect());
        text
    }

    /// Returns the results for programs.
    pub fn to_json(&self) -> Value {
        let cell = |cell: &Option<Cell>| match cell {
            Some(c) => json!({
                "min": c.min, "max": c.max, "mean": c.mean,
                "mean_error": c.mean_error, "rms": c.rms, "p95": c.p95,
            }),
            None => Value::Null,
        };
        let hashes = self.hashes.iter().zip(&self.cells).map(|(name, rows)| {
            let rows: Vec<Vec<Value>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
            (name.clone(), json!(rows))
        });
        json!({
            "hosts": self.hosts,
            "servers": self.servers,
            "hashes": hashes.collect::<serde_json::Map<_, _>>(),
        })
    }

    /// Returns heat maps: a row for each hash; minimum, maximum, mean and 95th percentile.
    pub fn svg(&self) -> String {
        heat::svg(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(hosts_max: u64, servers: &[u64], hashes: &[&str], repetitions: u64) -> Options {
        Options {
            family: Family::Ipv4,
            input: Input::Bytes,
            hosts_max,
            servers: servers.to_vec(),
            hashes: hashes.iter().map(|name| Hash::by_name(name).unwrap()).collect(),
            repetitions,
            seed: 1,
            threads: 2,
        }
    }

    #[track_caller]
    fn near(found: f64, expected: f64, within: f64) {
        assert!((found / expected - 1.0).abs() < within, "{found}, expected {expected}");
    }

    fn last(study: &Study, hash: usize, servers: usize) -> Cell {
        study.cells[hash].last().unwrap()[servers].unwrap()
    }

    /// Published reference values of an ideal hash.
    #[test]
    fn anchors() {
        near(ideal_rms(1 << 20, 2), 25.60, 0.001);
        near(ideal_rms(1 << 19, 2), 19.05, 0.001);
        near(ideal_rms(1 << 19, 256), 2.38, 0.002);
        let large = study(&options(1 << 20, &[2], &["random"], 200)).unwrap();
        near(last(&large, 0, 0).rms, 25.60, 0.1);
        near(last(&large, 0, 0).p95, 50.2, 0.1);
        let half = &large.cells[0][18];
        assert_eq!(large.hosts[18], 1 << 19);
        near(half[0].unwrap().rms, 19.05, 0.1);
        near(half[0].unwrap().p95, 37.3, 0.1);
        let many = study(&options(1 << 19, &[256], &["random"], 20)).unwrap();
        near(last(&many, 0, 0).rms, 2.38, 0.02);
    }

    /// Good hashes are near the ideal one.
    #[test]
    fn good_hashes_are_near_the_ideal() {
        let mut options =
            options(1 << 14, &[2, 16, 256], &["crc32", "crc32c", "0xd175", "0x8d95", "0x973afb51"], 60);
        for input in [Input::Bytes, Input::Text] {
            for family in [Family::Ipv4, Family::Ipv6] {
                (options.input, options.family) = (input, family);
                let study = study(&options).unwrap();
                for hash in 0..options.hashes.len() {
                    near(last(&study, hash, 1).rms, ideal_rms(1 << 14, 16), 0.15);
                    near(last(&study, hash, 2).rms, ideal_rms(1 << 14, 256), 0.05);
                }
            }
        }
    }

    /// Folded counts of servers equal those counted separately.
    #[test]
    fn folded_counts_are_counts() {
        let folded = study(&options(1 << 10, &[2, 3, 6, 64], &["crc32", "csum16"], 3)).unwrap();
        for (j, n) in [2, 3, 6, 64].into_iter().enumerate() {
            let alone = study(&options(1 << 10, &[n], &["crc32", "csum16"], 3)).unwrap();
            for hash in 0..2 {
                for step in 0..10 {
                    assert_eq!(folded.cells[hash][step][j], alone.cells[hash][step][0], "{n}");
                }
            }
        }
    }

    #[test]
    fn errors_by_hand() {
        // 4 hosts, servers with 3, 1, 0 and 0 of them: the empty ones count.
        near(error(&[3, 1, 0, 0], 4, 4), (6.0f64 / 4.0).sqrt() / 2.0, 1e-12);
        // The same in pairs: 3 and 1.
        near(error(&[3, 1, 0, 0], 2, 4), 1.0 / 2.0, 1e-12);
        let cell = cell(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!((cell.min, cell.max, cell.mean, cell.p95), (1.0, 4.0, 2.5, 4.0));
        let hundred = super::cell((1..=100).rev().map(f64::from).collect());
        assert_eq!(hundred.p95, 95.0);
    }

    #[test]
    fn threads_change_nothing_and_seeds_do() {
        let mut options = options(256, &[2, 4, 512], &["crc16", "random"], 9);
        let first = study(&options).unwrap();
        assert!(first.cells[0].iter().all(|row| row[2].is_none()), "more servers than hosts");
        assert!(first.cells[0][0][1].is_none() && first.cells[0][1][1].is_some());
        options.threads = 1;
        assert_eq!(study(&options).unwrap().cells, first.cells);
        options.seed = 2;
        assert_ne!(study(&options).unwrap().cells, first.cells);
    }

    #[test]
    fn pictures_have_every_cell() {
        let study = study(&options(64, &[2, 4, 8, 128], &["crc32", "random"], 5)).unwrap();
        let cells: usize = study.cells.iter().flatten().flatten().filter(|cell| cell.is_some()).count();
        assert_eq!(study.svg().matches("class=\"cell\"").count(), cells * 4);
        assert!(study.svg().ends_with("</svg>\n") && !study.svg().contains("NaN"));
    }

    #[test]
    fn wrong_options_are_refused() {
        let refused = |options: Options| match study(&options) {
            Err(Error::Usage(text)) => text,
            _ => panic!("it is accepted"),
        };
        let good = options(64, &[2], &["crc32"], 1);
        assert!(
            refused(Options { hosts_max: 63, ..good.clone() })
                .starts_with("63 hosts: expected a power of two")
        );
        assert!(refused(Options { servers: vec![0], ..good.clone() }).starts_with("0 servers"));
        assert!(refused(Options { servers: vec![], ..good.clone() }).starts_with("expected at least one"));
        assert!(refused(Options { repetitions: 0, ..good }).starts_with("0 repetitions"));
    }
}
