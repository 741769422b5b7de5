//! The configuration: slices, checked each by itself and all together.

use crate::calculator::{self, Demand, PRIORITY_MAX};
use p4jet_suggest::nearest;
use serde::Deserialize;
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// The configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The capacity that the slices share, in bits per second.
    pub capacity: f64,
    /// The slices, in the order of the file: the first that matches a packet has it.
    pub slices: Vec<Slice>,
}

/// A slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Its name.
    pub name: String,
    /// Its number in the program.
    pub number: u16,
    /// Packets that belong to it.
    pub matches: Vec<Match>,
    /// Its rate in bits per second.
    pub rate: f64,
    /// The length of each packet in bytes, if the slice counts packets; `None` if it counts bytes.
    pub packet_bytes: Option<u32>,
    /// The largest delay of its virtual queue, in seconds.
    pub burst_s: f64,
    /// What happens to packets above `target_s`.
    pub scheme: Scheme,
    /// The delay above which the scheme acts, in seconds; 0 for tail drop.
    pub target_s: f64,
    /// The delay in a real queue that it tolerates, in seconds.
    pub delay_s: f64,
    /// Its priority, which is its output queue.
    pub priority: u8,
}

/// The scheme of a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// Drops packets above the burst.
    TailDrop,
    /// Also marks packets above the target.
    Ecn,
    /// Also drops packets at random above the target, with this probability at the burst.
    EarlyDrop(f64),
    /// The same, but marks those that are ECN-capable.
    EarlyMark(f64),
}

/// The conditions of a match; `None` for any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    /// Destination: address and prefix length.
    pub prefix: Option<(IpAddr, u8)>,
    /// Source: address and prefix length.
    pub source: Option<(IpAddr, u8)>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Protocol of the IP payload.
    pub protocol: Option<u8>,
    /// Destination ports.
    pub port: Option<(u16, u16)>,
    /// Source ports.
    pub source_port: Option<(u16, u16)>,
    /// VNI of VXLAN.
    pub vni: Option<u32>,
    /// QFI of GTP-U.
    pub qfi: Option<u8>,
}

/// A mistake in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Found, and expected.
    pub message: String,
    /// Its byte range in the file.
    pub span: Range<usize>,
}

impl Mistake {
    /// Formats it: file, line and column, message.
    pub fn line(&self, name: &str, text: &str) -> String {
        let before = text.get(..self.span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        format!("{name}:{line}:{column}: {}", self.message)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    capacity_mbit: Spanned<f64>,
    #[serde(default)]
    allow_longer_delays: bool,
    #[serde(default)]
    slice: Vec<FileSlice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSlice {
    name: Spanned<String>,
    number: Spanned<i64>,
    r#match: Spanned<Vec<Spanned<FileMatch>>>,
    rate_mbit: Spanned<f64>,
    packet_bytes: Option<Spanned<i64>>,
    burst_ms: Spanned<f64>,
    scheme: Option<Spanned<String>>,
    target_ms: Option<Spanned<f64>>,
    drop_share: Option<Spanned<f64>>,
    delay_ms: Option<Spanned<f64>>,
    priority: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMatch {
    prefix: Option<Spanned<String>>,
    source: Option<Spanned<String>>,
    dscp: Option<Spanned<i64>>,
    protocol: Option<Spanned<Word>>,
    port: Option<Spanned<Word>>,
    source_port: Option<Spanned<Word>>,
    vni: Option<Spanned<i64>>,
    qfi: Option<Spanned<i64>>,
}

/// A number, or a text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a string")]
enum Word {
    Number(i64),
    Text(String),
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Word::Number(number) => write!(f, "{number}"),
            Word::Text(text) => write!(f, "{text}"),
        }
    }
}

/// The largest number of a slice, as in the program.
const NUMBER_MAX: i64 = 1023;
/// The largest number of matches of all slices, as table entries.
pub(crate) const MATCHES_MAX: usize = 65_536;
/// Rates in Mbit/s. Above the largest, the time of a byte would be rounded by more than 0.4 %.
const RATES_MBIT: RangeInclusive<f64> = 0.001..=1_000_000.0;
/// Delays in ms: below 2^40 units.
const DELAYS_MS: RangeInclusive<f64> = 0.001..=16_000.0;
const SCHEMES: [&str; 4] = ["tail-drop", "ecn", "early-drop", "early-mark"];
/// A packet of usual length, which a burst must hold.
const PACKET_BYTES: u32 = 1500;
const PROTOCOLS: [(&str, u8); 5] = [("icmp", 1), ("tcp", 6), ("udp", 17), ("icmpv6", 58), ("sctp", 132)];

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    ///
    /// All mistakes. That worst-case delays are longer than slices tolerate is one, unless the file allows it.
    pub fn parse(text: &str) -> Result<Config, Vec<Mistake>> {
        Config::read(text, true)
    }

    /// Like [`Config::parse`], but delays may be longer.
    ///
    /// # Errors
    ///
    /// All other mistakes.
    pub fn parse_any_delays(text: &str) -> Result<Config, Vec<Mistake>> {
        Config::read(text, false)
    }

    fn read(text: &str, checks_delays: bool) -> Result<Config, Vec<Mistake>> {
        let file: File = toml::from_str(text).map_err(|error| {
            let message = error.message().trim_end().replace('\n', "; ");
            vec![Mistake { message, span: error.span().unwrap_or(0..0) }]
        })?;
        let mut check = Check { mistakes: Vec::new() };
        let capacity = check.float(&file.capacity_mbit, RATES_MBIT, "the capacity in Mbit/s") * 1e6;
        let slices: Vec<Slice> = file.slice.iter().map(|slice| check.slice(slice)).collect();
        check.together(&file, &slices);
        let config = Config { capacity, slices };
        if check.mistakes.is_empty() && checks_delays && !file.allow_longer_delays {
            check.delays(&file, &config);
        }
        if check.mistakes.is_empty() { Ok(config) } else { Err(check.mistakes) }
    }

    /// What the slices demand from the link, for [`calculator`].
    pub fn demands(&self) -> Vec<Demand> {
        let demand = |slice: &Slice| Demand {
            rate: slice.rate,
            burst: slice.rate * slice.burst_s,
            bound: slice.delay_s,
        };
        self.slices.iter().map(demand).collect()
    }

    /// The priority of each slice.
    pub fn priorities(&self) -> Vec<u8> {
        self.slices.iter().map(|slice| slice.priority).collect()
    }
}

struct Check {
    mistakes: Vec<Mistake>,
}

impl Check {
    fn wrong(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.mistakes.push(Mistake { message: message.into(), span });
    }

    fn float(&mut self, found: &Spanned<f64>, range: RangeInclusive<f64>, what: &str) -> f64 {
        let value = *found.get_ref();
        if !range.contains(&value) {
            let (low, high) = range.into_inner();
            self.wrong(found.span(), format!("found {value}, expected {what}, from {low} to {high}"));
        }
        value
    }

    fn int(&mut self, found: &Spanned<i64>, range: RangeInclusive<i64>, what: &str) -> i64 {
        let value = *found.get_ref();
        if range.contains(&value) {
            return value;
        }
        let (low, high) = range.into_inner();
        self.wrong(found.span(), format!("found {value}, expected {what}, from {low} to {high}"));
        low
    }

    fn slice(&mut self, file: &FileSlice) -> Slice {
        let name = file.name.get_ref().clone();
        if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
            self.wrong(file.name.span(), "expected a name of 1 to 64 bytes, without control characters");
        }
        let rate = self.float(&file.rate_mbit, RATES_MBIT, "a rate in Mbit/s") * 1e6;
        let burst_ms = self.float(&file.burst_ms, DELAYS_MS, "a delay in ms");
        let packet_bytes =
            file.packet_bytes.as_ref().map(|bytes| self.int(bytes, 1..=65_535, "a length in bytes") as u32);
        let packet_ms = f64::from(packet_bytes.unwrap_or(PACKET_BYTES)) * 8e3 / rate;
        if burst_ms < packet_ms && RATES_MBIT.contains(file.rate_mbit.get_ref()) {
            let bytes = packet_bytes.unwrap_or(PACKET_BYTES);
            let why = format!(
                "found {burst_ms}, expected at least {packet_ms:.3}: a packet of {bytes} bytes takes that many milliseconds at this rate"
            );
            self.wrong(file.burst_ms.span(), why);
        }
        let word = file.scheme.as_ref().map_or("tail-drop", |scheme| scheme.get_ref().as_str());
        let share = |check: &mut Check| match &file.drop_share {
            Some(share) => check.float(share, 0.000_001..=1.0, "a probability"),
            None => 0.1,
        };
        let scheme = match word {
            "ecn" => Scheme::Ecn,
            "early-drop" => Scheme::EarlyDrop(share(self)),
            "early-mark" => Scheme::EarlyMark(share(self)),
            _ => Scheme::TailDrop,
        };
        if let Some(scheme) = file.scheme.as_ref().filter(|_| !SCHEMES.contains(&word)) {
            let hint =
                nearest(word, SCHEMES).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            self.wrong(scheme.span(), format!("found `{word}`, expected {}{hint}", SCHEMES.join(", ")));
        }
        if let Some(share) = &file.drop_share
            && !matches!(scheme, Scheme::EarlyDrop(_) | Scheme::EarlyMark(_))
        {
            self.wrong(
                share.span(),
                format!("`{word}` has no drop_share: only early-drop and early-mark have"),
            );
        }
        let target_ms = match (&file.target_ms, scheme) {
            (None, Scheme::TailDrop) => 0.0,
            (Some(target), Scheme::TailDrop) => {
                self.wrong(target.span(), "tail-drop has no target_ms: the other schemes have");
                0.0
            }
            (None, _) => {
                self.wrong(
                    file.name.span(),
                    format!("`{word}` needs target_ms: the delay above which it acts"),
                );
                0.0
            }
            (Some(target), _) => {
                let value = self.float(target, DELAYS_MS, "a delay in ms");
                if value >= burst_ms {
                    let why = format!(
                        "found {value}, expected less than burst_ms, {burst_ms}, where all packets are dropped"
                    );
                    self.wrong(target.span(), why);
                }
                value
            }
        };
        let delay_ms = file
            .delay_ms
            .as_ref()
            .map_or(burst_ms, |delay| self.float(delay, 0.001..=3_600_000.0, "a delay in ms"));
        let number = self.int(&file.number, 1..=NUMBER_MAX, "the number of a slice") as u16;
        let priorities = 0..=i64::from(PRIORITY_MAX);
        let priority =
            file.priority.as_ref().map_or(0, |found| self.int(found, priorities, "a priority")) as u8;
        if file.r#match.get_ref().is_empty() {
            self.wrong(file.r#match.span(), "expected at least one match; `{}` matches every packet");
        }
        let matches = file.r#match.get_ref().iter().map(|found| self.matching(found)).collect();
        let (burst_s, target_s, delay_s) = (burst_ms / 1e3, target_ms / 1e3, delay_ms / 1e3);
        Slice { name, number, matches, rate, packet_bytes, burst_s, scheme, target_s, delay_s, priority }
    }

    fn matching(&mut self, found: &Spanned<FileMatch>) -> Match {
        let file = found.get_ref();
        let prefix = file.prefix.as_ref().and_then(|prefix| self.prefix(prefix));
        let source = file.source.as_ref().and_then(|prefix| self.prefix(prefix));
        if let (Some((a, _)), Some((b, _))) = (prefix, source)
            && a.is_ipv4() != b.is_ipv4()
        {
            self.wrong(found.span(), "prefix and source have different versions of IP: no packet has both");
        }
        if file.vni.is_some() && file.qfi.is_some() {
            self.wrong(found.span(), "no packet has both a VNI and a QFI: use two matches");
        }
        Match {
            prefix,
            source,
            dscp: file.dscp.as_ref().map(|dscp| self.int(dscp, 0..=63, "a DSCP") as u8),
            protocol: file.protocol.as_ref().map(|protocol| self.protocol(protocol)),
            port: file.port.as_ref().map(|ports| self.ports(ports)),
            source_port: file.source_port.as_ref().map(|ports| self.ports(ports)),
            vni: file.vni.as_ref().map(|vni| self.int(vni, 0..=0xff_ffff, "a VNI") as u32),
            qfi: file.qfi.as_ref().map(|qfi| self.int(qfi, 0..=63, "a QFI") as u8),
        }
    }

    fn prefix(&mut self, found: &Spanned<String>) -> Option<(IpAddr, u8)> {
        let text = found.get_ref();
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, len.parse::<u8>().ok()),
            None => (text.as_str(), Some(if text.contains(':') { 128 } else { 32 })),
        };
        let (Ok(address), Some(len)) = (address.parse::<IpAddr>(), len) else {
            self.wrong(
                found.span(),
                format!("found `{text}`, expected a prefix such as 192.0.2.0/24 or 2001:db8::/32"),
            );
            return None;
        };
        let (width, bits) = match address {
            IpAddr::V4(v4) => (32, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (128, v6.to_bits()),
        };
        if len > width {
            self.wrong(found.span(), format!("found /{len}, expected at most /{width}"));
            return None;
        }
        if bits & !(mask(width, len)) != 0 {
            self.wrong(found.span(), format!("`{text}` has bits beyond its length of {len}"));
            return None;
        }
        Some((address, len))
    }

    fn protocol(&mut self, found: &Spanned<Word>) -> u8 {
        let word = found.get_ref().to_string();
        let named = PROTOCOLS.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
        named.or_else(|| word.parse().ok()).unwrap_or_else(|| {
            let names = PROTOCOLS.map(|(name, _)| name).join(", ");
            self.wrong(found.span(), format!("found `{word}`, expected a protocol: {names}, or 0 to 255"));
            0
        })
    }

    /// One port, or a range such as `80-443`. 0 stands for packets without ports.
    fn ports(&mut self, found: &Spanned<Word>) -> (u16, u16) {
        let word = found.get_ref().to_string();
        let (low, high) = word.split_once('-').unwrap_or((&word, &word));
        match (low.trim().parse::<u16>(), high.trim().parse::<u16>()) {
            (Ok(low), Ok(high)) if 0 < low && low <= high => (low, high),
            _ => {
                let why =
                    format!("found `{word}`, expected a port from 1 to 65535, or a range such as \"80-443\"");
                self.wrong(found.span(), why);
                (1, 1)
            }
        }
    }

    /// Checks what concerns several slices.
    fn together(&mut self, file: &File, slices: &[Slice]) {
        let (mut names, mut numbers, mut matches) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (file, slice) in file.slice.iter().zip(slices) {
            if names.insert(&slice.name, ()).is_some() {
                self.wrong(file.name.span(), format!("another slice has the name `{}`", slice.name));
            }
            if let Some(other) = numbers.insert(slice.number, &slice.name) {
                let number = slice.number;
                self.wrong(file.number.span(), format!("the slice `{other}` has the number {number}, too"));
            }
            for (found, matching) in file.r#match.get_ref().iter().zip(&slice.matches) {
                if let Some(other) = matches.insert(matching, &slice.name) {
                    let why = format!("the slice `{other}` has the same match, so this one has no effect");
                    self.wrong(found.span(), why);
                }
            }
        }
        let count: usize = slices.iter().map(|slice| slice.matches.len()).sum();
        if count > MATCHES_MAX {
            self.wrong(0..0, format!("found {count} matches, expected at most {MATCHES_MAX}"));
        }
    }

    /// Checks the worst-case delays.
    fn delays(&mut self, file: &File, config: &Config) {
        let (demands, priorities) = (config.demands(), config.priorities());
        if calculator::is_enough(config.capacity, &demands, &priorities) {
            return;
        }
        let needed = (calculator::least_capacity(&demands, &priorities) / 1e6 - 1e-6).ceil();
        let remedy =
            format!("these slices need capacity_mbit = {needed}; `allow_longer_delays = true` accepts it");
        let rates: f64 = demands.iter().map(|demand| demand.rate).sum::<f64>() / 1e6;
        if rates > config.capacity / 1e6 * (1.0 + 1e-9) {
            let why = format!(
                "the rates of all slices together are {rates} Mbit/s, more than the capacity: {remedy}"
            );
            self.wrong(file.capacity_mbit.span(), why);
        }
        let delays = calculator::delays(config.capacity, &demands, &priorities);
        for ((file, slice), delay) in file.slice.iter().zip(&config.slices).zip(delays) {
            if delay > slice.delay_s * (1.0 + 1e-9) {
                let span = file.delay_ms.as_ref().map_or(file.burst_ms.span(), Spanned::span);
                let (name, bound) = (&slice.name, slice.delay_s * 1e3);
                let delay =
                    if delay.is_finite() { format!("{:.3} ms", delay * 1e3) } else { "unlimited".into() };
                let why =
                    format!("the worst-case delay of `{name}` is {delay}, more than {bound} ms: {remedy}");
                self.wrong(span, why);
            }
        }
    }
}

/// A mask of `len` ones at the top of `width` bits.
pub(crate) fn mask(width: u8, len: u8) -> u128 {
    let ones = |bits: u8| if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    ones(width) & !ones(width - len)
}
