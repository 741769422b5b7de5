//! Delay of a path from the costs of its constructs (Eq. 4.6).
//!
//! T̂ = T_Base + a · x(NF), with the corrections of the profile's rules and the delays of externs (Eq. 5.1). It is an average for
//! one flow, a known path, deterministic processing, and no queues; [`Warning`] tells what is outside of that.

use crate::construct::{Construct, Counts};
use crate::error::{Invalid, SHARE, in_range};
use crate::profile::{Correction, FRAME_BYTES_MAX, Number, Profile, Provenance};
use serde_json::{Value as Json, json};
use std::fmt::{self, Write};

/// Size in bytes of the headers with which counts were measured (§3.3).
pub const HEADER_BYTES: u32 = 16;
/// The largest header that is common in programs: that of IPv6.
const LARGE_HEADER_BYTES: u32 = 40;

/// One path through a program, and the traffic on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path {
    /// x(NF).
    pub counts: Counts,
    /// Size of the frames in bytes; by default the largest one of the profile.
    pub frame_bytes: Option<u32>,
    /// Total size of the added headers in bytes, if known.
    pub added_bytes: Option<u32>,
    /// Total size of the removed headers in bytes, if known.
    pub removed_bytes: Option<u32>,
    /// Names of the externs that the path calls, once per call.
    pub externs: Vec<String>,
    /// Number of flows, if known.
    pub flows: Option<u64>,
    /// Utilisation of the device, from 0 to 1, if known.
    pub load: Option<f64>,
}

impl Path {
    /// A path with these constructs.
    pub fn new(counts: Counts) -> Path {
        Path { counts, ..Path::default() }
    }
}

/// A part of an estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Where it is from: a construct, or an extern.
    pub name: String,
    /// How often.
    pub count: i32,
    /// All of them together, in µs.
    pub us: f64,
    /// The least reliable of the numbers that it is computed from.
    pub provenance: Provenance,
}

/// Why an estimate may be wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// There are several flows, and profiles are measured with one.
    Flows(u64),
    /// The device is loaded, and estimates are without queues.
    Load {
        /// Its utilisation.
        load: f64,
        /// The mean time in the queue in µs by Eq. 4.10, if the profile has a standard deviation.
        wait_us: Option<f64>,
    },
    /// A rule counts headers although the device counts bytes.
    ByteThreshold {
        /// The construct.
        construct: Construct,
        /// The number of headers of the rule.
        above: u32,
        /// The bytes that the path adds or removes, if known.
        bytes: Option<u32>,
        /// Whether the estimate contains the correction.
        is_applied: bool,
    },
    /// The estimate is smaller than the delay of the smallest program.
    BelowBase {
        /// The estimate in µs.
        estimate_us: f64,
        /// The base delay in µs.
        base_us: f64,
    },
    /// The base delay is that of another frame size.
    FrameSize {
        /// The size of the path's frames.
        bytes: u32,
        /// The nearest size in the profile.
        nearest: u32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Flows(flows) => {
                write!(f, "{flows} flows: the profile was measured with one, and more can be slower")
            }
            Warning::Load { load, wait_us } => {
                write!(f, "load {load}: the estimate contains no time in queues")?;
                match wait_us {
                    Some(wait) => write!(f, " ({wait:.2} µs on average by Eq. 4.10)"),
                    None => f.write_str("; the profile has no standard deviation to compute it from"),
                }
            }
            Warning::ByteThreshold { construct, above, bytes, is_applied } => {
                let applied = if *is_applied { "applied" } else { "not applied" };
                let limit = above * HEADER_BYTES;
                write!(f, "the rule `{construct}` above {above} was {applied}: ")?;
                write!(f, "it was measured with headers of {HEADER_BYTES} B, so it stands for {limit} B; ")?;
                match bytes {
                    Some(bytes) => write!(f, "this path has {bytes} B"),
                    None => f.write_str("the bytes of this path are not known"),
                }
            }
            Warning::BelowBase { estimate_us, base_us } => {
                write!(
                    f,
                    "the estimate of {estimate_us:.2} µs is below the base delay of {base_us:.2} µs, "
                )?;
                f.write_str("because costs or counts are negative")
            }
            Warning::FrameSize { bytes, nearest } => {
                write!(
                    f,
                    "frames of {bytes} B: the profile has no base delay there; used that of {nearest} B"
                )
            }
        }
    }
}

/// The estimated delay of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The profile.
    pub profile: String,
    /// The delay in µs.
    pub us: f64,
    /// Its part that every program has, in µs.
    pub base_us: f64,
    /// The provenance of the base delay.
    pub base_provenance: Provenance,
    /// The other parts: constructs that occur, then externs.
    pub terms: Vec<Term>,
    /// What is outside the validity of the estimate.
    pub warnings: Vec<Warning>,
}

/// Estimates the delay of a path.
pub fn estimate(profile: &Profile, path: &Path) -> Result<Estimate, Invalid> {
    let load = path.load.map(|load| in_range("load", load, SHARE)).transpose()?;
    if let Some(bytes) = path.frame_bytes {
        in_range("frame size in bytes", bytes.into(), 1.0..=f64::from(FRAME_BYTES_MAX))?;
    }
    let mut warnings = Vec::new();
    let (base_us, base_provenance) = base(profile, path.frame_bytes, &mut warnings)?;
    let mut terms = Vec::new();
    for construct in Construct::ALL {
        let count = path.counts.of(construct);
        if count != 0 {
            let (us, provenance) = cost(profile, construct, count);
            terms.push(Term { name: construct.to_string(), count, us, provenance });
        }
        warnings.extend(byte_thresholds(profile, construct, path));
    }
    for name in &path.externs {
        let found = profile.externs.get(name).ok_or_else(|| {
            let known: Vec<String> = profile.externs.keys().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            Invalid::new("extern", format!("`{name}`"), format!("one of `{}`: {known}", profile.name))
        })?;
        match terms.iter_mut().find(|term| term.name == *name) {
            Some(term) => {
                term.count += 1;
                term.us += found.latency_us.value;
            }
            None => {
                let Number { value, provenance, .. } = found.latency_us;
                terms.push(Term { name: name.clone(), count: 1, us: value, provenance });
            }
        }
    }
    let us = base_us + terms.iter().map(|term| term.us).sum::<f64>();
    if us < base_us {
        warnings.push(Warning::BelowBase { estimate_us: us, base_us });
    }
    if let Some(flows) = path.flows.filter(|flows| *flows > 1) {
        warnings.push(Warning::Flows(flows));
    }
    if let Some(load) = load.filter(|load| *load > 0.0) {
        // The waiting time of Eq. 4.10, with λ = ρ / T.
        let wait_us = profile.deviation_us.as_ref().filter(|_| load < 1.0 && us > 0.0).map(|deviation| {
            load / us * (us * us + deviation.value * deviation.value) / (2.0 * (1.0 - load))
        });
        warnings.push(Warning::Load { load, wait_us });
    }
    Ok(Estimate { profile: profile.name.clone(), us, base_us, base_provenance, terms, warnings })
}

/// The base delay for frames of a size: between two measured sizes by linear interpolation.
fn base(
    profile: &Profile,
    frame_bytes: Option<u32>,
    warnings: &mut Vec<Warning>,
) -> Result<(f64, Provenance), Invalid> {
    let largest = profile.base_us.last_key_value().map(|(bytes, _)| *bytes);
    let no_base = || Invalid::new("base_us", "no frame sizes", "at least one");
    let bytes = frame_bytes.or(largest).ok_or_else(no_base)?;
    let below = profile.base_us.range(..=bytes).next_back();
    let above = profile.base_us.range(bytes..).next();
    match (below, above) {
        (Some((left, low)), Some((right, high))) => {
            let part = if left == right { 0.0 } else { f64::from(bytes - left) / f64::from(right - left) };
            Ok((low.value + part * (high.value - low.value), low.provenance.max(high.provenance)))
        }
        (Some((nearest, number)), None) | (None, Some((nearest, number))) => {
            warnings.push(Warning::FrameSize { bytes, nearest: *nearest });
            Ok((number.value, number.provenance))
        }
        (None, None) => Err(no_base()),
    }
}

/// The cost of `count` constructs in µs, with the corrections of the rules.
///
/// A rule with `each_us` changes the cost of those constructs only that are beyond its `above`, up to the next such rule: ten
/// added headers of `agilio-cx` cost 6 · 1.59 + 4 · 14.4 µs. The thesis could also mean 10 · 14.4, but it measured what the
/// first reading predicts.
fn cost(profile: &Profile, construct: Construct, count: i32) -> (f64, Provenance) {
    let first = profile.cost(construct);
    let mut steps = vec![(0, first)];
    let (mut us, mut provenance) = (0.0, first.provenance);
    for rule in profile.rules.iter().filter(|rule| rule.construct == construct) {
        let above = i32::try_from(rule.above).unwrap_or(i32::MAX);
        match &rule.correction {
            _ if count <= above => {}
            Correction::Each(number) => {
                steps.push((above, number));
                provenance = provenance.max(number.provenance);
            }
            Correction::Once(number) => {
                us += number.value;
                provenance = provenance.max(number.provenance);
            }
        }
    }
    steps.sort_by_key(|(above, _)| *above);
    for (at, (above, number)) in steps.iter().enumerate() {
        let end = steps.get(at + 1).map_or(count, |(next, _)| *next);
        us += f64::from(end - above) * number.value;
    }
    (us, provenance)
}

/// Warns about rules that may apply to another number of headers, because headers of this path have another size.
fn byte_thresholds<'a>(
    profile: &'a Profile,
    construct: Construct,
    path: &Path,
) -> impl Iterator<Item = Warning> + 'a {
    let bytes = match construct {
        Construct::Add => path.added_bytes,
        Construct::Remove => path.removed_bytes,
        _ => None,
    };
    let count = u32::try_from(path.counts.of(construct)).unwrap_or(0);
    let counts_bytes = matches!(construct, Construct::Add | Construct::Remove);
    let rules = profile.rules.iter().filter(move |rule| counts_bytes && rule.construct == construct);
    rules.filter_map(move |rule| {
        let limit = rule.above * HEADER_BYTES;
        let is_applied = count > rule.above;
        let is_doubtful = match bytes {
            _ if count == 0 => false,
            Some(bytes) => is_applied != (bytes > limit),
            None => is_applied || count * LARGE_HEADER_BYTES > limit,
        };
        is_doubtful.then_some(Warning::ByteThreshold { construct, above: rule.above, bytes, is_applied })
    })
}

impl Estimate {
    /// The least reliable of all numbers in the estimate.
    pub fn provenance(&self) -> Provenance {
        self.terms.iter().map(|term| term.provenance).fold(self.base_provenance, Provenance::max)
    }

    /// A table of all parts, then the warnings.
    pub fn to_text(&self) -> String {
        let mut out = format!("{}: {:.2} µs\n", self.profile, self.us);
        let mut line = |name: &str, count: Option<i32>, us: f64, provenance: Provenance| {
            let count = count.map_or(String::new(), |count| count.to_string());
            let _ = writeln!(out, "  {name:<12} {count:>6} {us:>10.2} µs  {provenance}");
        };
        line("base delay", None, self.base_us, self.base_provenance);
        for term in &self.terms {
            line(&term.name, Some(term.count), term.us, term.provenance);
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "  warning: {warning}");
        }
        out
    }

    /// Returns the values of `to_text` as JSON.
    pub fn to_json(&self) -> Json {
        let terms = self.terms.iter().map(|Term { name, count, us, provenance }| {
            json!({ "name": name, "count": count, "us": us, "provenance": provenance.name() })
        });
        json!({
            "profile": self.profile,
            "us": self.us,
            "base_us": self.base_us,
            "base_provenance": self.base_provenance.name(),
            "provenance": self.provenance().name(),
            "terms": terms.collect::<Vec<_>>(),
            "warnings": self.warnings.iter().map(Warning::to_string).collect::<Vec<_>>(),
        })
    }
}

/// The estimated delay of a program: the mean of its paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// The mean in µs.
    pub us: f64,
    /// Each path with its name and its share of the packets.
    pub paths: Vec<(String, f64, Estimate)>,
}

/// The shares of a program's paths may differ from 1 by this in total, because users round them.
const SHARES_TOLERANCE: f64 = 1e-6;

/// Estimates the delay of a program from its paths: names, shares of the packets, and constructs.
pub fn mix(profile: &Profile, paths: &[(String, f64, Path)]) -> Result<Mix, Invalid> {
    let mut estimates = Vec::new();
    for (name, share, path) in paths {
        let share = in_range(&format!("share of path `{name}`"), *share, SHARE)?;
        estimates.push((name.clone(), share, estimate(profile, path)?));
    }
    let sum: f64 = estimates.iter().map(|(_, share, _)| share).sum();
    if (sum - 1.0).abs() > SHARES_TOLERANCE {
        return Err(Invalid::new("sum of the paths' shares", sum, 1));
    }
    Ok(Mix { us: estimates.iter().map(|(_, share, estimate)| share * estimate.us).sum(), paths: estimates })
}

impl Mix {
    /// The mean, then each path.
    pub fn to_text(&self) -> String {
        let mut out = format!("mean: {:.2} µs\n", self.us);
        for (name, share, estimate) in &self.paths {
            let _ = write!(out, "path {name}, {:.1} % of the packets, {}", 100.0 * share, estimate.to_text());
        }
        out
    }

    /// Returns the values of `to_text` as JSON.
    pub fn to_json(&self) -> Json {
        let path = |(name, share, estimate): &(String, f64, Estimate)| {
            let estimate = estimate.to_json();
            json!({ "path": name, "share": share, "estimate": estimate })
        };
        json!({ "us": self.us, "paths": self.paths.iter().map(path).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thesis::{DEVICES, NFS};

    fn profile(name: &str) -> Profile {
        Profile::shipped_as(name).unwrap()
    }

    fn path(counts: &str) -> Path {
        Path::new(Counts::parse(counts).unwrap())
    }

    fn us(device: &str, counts: &str) -> f64 {
        estimate(&profile(device), &path(counts)).unwrap().us
    }

    #[test]
    fn all_estimates_of_table_4_1() {
        for nf in &NFS {
            for (at, device) in DEVICES.iter().enumerate() {
                let estimate = estimate(&profile(device), &Path::new(nf.counts())).unwrap();
                let (printed, unrounded) = (nf.estimated_us[at], nf.unrounded_us[at]);
                assert_eq!(format!("{:.1}", estimate.us), format!("{printed:.1}"), "{} {device}", nf.name);
                assert_eq!(format!("{:.2}", estimate.us), format!("{unrounded:.2}"), "{} {device}", nf.name);
                let error = (estimate.us / nf.measured_us[at] - 1.0) * 100.0;
                assert_eq!(
                    format!("{error:+.2}"),
                    format!("{:+.2}", nf.error_percent[at]),
                    "{} {device}",
                    nf.name
                );
                assert!(error.abs() < 5.0);
            }
        }
    }

    #[test]
    fn the_worked_example() {
        let estimate = estimate(&profile("agilio-cx"), &path("1,2,0,0,0,0")).unwrap();
        assert!((estimate.us - 8.56).abs() < 1e-9);
        let expected = "agilio-cx: 8.56 µs\n\
                        \x20 base delay                7.45 µs  measured\n\
                        \x20 parse             1       0.11 µs  fitted\n\
                        \x20 modify            2       1.00 µs  fitted\n";
        assert_eq!(estimate.to_text(), expected);
        assert_eq!(estimate.provenance(), Provenance::Fitted);
        assert_eq!(estimate.to_json()["terms"][1]["us"], 1.0);
    }

    /// §3.8: Base_4 with ten added headers was measured at 75.4 µs.
    #[test]
    fn a_slope_beyond_a_threshold_holds_only_beyond_it() {
        let added = |count: u32| us("agilio-cx", &format!("3,0,0,0,{count},0"));
        assert_eq!(format!("{:.1}", added(10)), "74.9");
        let whole_slope = us("agilio-cx", "3,0,0,0,0,0") + 10.0 * 14.4;
        assert_eq!(format!("{whole_slope:.1}"), "151.8");
        assert!((added(10) / 75.4 - 1.0).abs() < 0.01);
        assert!((added(6) - added(5) - 1.59).abs() < 1e-9);
        assert!((added(7) - added(6) - 14.4).abs() < 1e-9);
        let removed = |count: u32| us("agilio-cx", &format!("13,0,0,{count},0,0"));
        assert!((removed(7) - removed(6) - 1.43).abs() < 1e-9);
        assert!((removed(8) - removed(7) - 1.43 - 17.68).abs() < 1e-9);
        assert!((removed(9) - removed(8) - 1.43).abs() < 1e-9);
    }

    /// Several rules of one construct follow each other.
    #[test]
    fn slopes_follow_each_other() {
        let mut device = profile("agilio-cx");
        let number = |value| Number { value, provenance: Provenance::Assumed, note: None };
        for (above, value) in [(2, 100.0), (4, 1000.0)] {
            let correction = Correction::Each(number(value));
            device.rules.insert(0, crate::profile::Rule { construct: Construct::Table, above, correction });
        }
        let found = estimate(&device, &path("0,0,0,0,0,5")).unwrap();
        assert!((found.us - found.base_us - (2.0 * 0.37 + 2.0 * 100.0 + 1000.0)).abs() < 1e-9, "{found:?}");
        assert_eq!(found.provenance(), Provenance::Assumed);
    }

    /// The table of §8.1: Eq. 5.1 of the catalogue's functions on the devices of T5.6.
    #[test]
    fn delays_of_the_catalogue() {
        let rows = [
            ("L2Fwd", "0,1,0,0,0,0", false, ["0.00", "0.50", "0.00", "0.00"]),
            ("L3Fwd", "1,2,0,0,0,0", false, ["0.00", "1.11", "0.17", "0.00"]),
            ("FW, Tunneling", "2,0,0,0,0,0", false, ["0.00", "0.22", "0.34", "0.00"]),
            ("VDecap", "6,0,3,4,0,1", false, ["-1.08", "7.59", "1.07", "0.00"]),
            ("LB", "2,0,0,0,0,0", true, ["90.00", "40.22", "0.84", "0.20"]),
            ("NAT", "2,2,0,0,0,0", false, ["0.00", "1.22", "0.34", "0.00"]),
        ];
        for (name, counts, hashes, printed) in rows {
            for (device, printed) in ["cpu", "npu", "fpga", "asic"].iter().zip(printed) {
                let mut path = path(counts);
                path.externs.extend(hashes.then(|| "siphash24".to_string()));
                let found = estimate(&profile(device), &path).unwrap();
                assert_eq!(format!("{:.2}", found.us - found.base_us + 1e-12), printed, "{name} {device}");
            }
        }
    }

    #[test]
    fn warnings_outside_validity() {
        let warnings = |device: &str, path: &Path| -> Vec<String> {
            estimate(&profile(device), path).unwrap().warnings.iter().map(Warning::to_string).collect()
        };
        assert_eq!(warnings("t4p4s", &path("1,2,0,0,0,0")), [""; 0]);
        assert_eq!(
            warnings("t4p4s", &path("10,0,3,4,0,1")),
            [
                "the estimate of 44.82 µs is below the base delay of 45.90 µs, because costs or counts are negative"
            ]
        );
        let flows = |flows| Path { flows: Some(flows), ..path("0,0,0,0,0,0") };
        assert_eq!(warnings("t4p4s", &flows(1)), [""; 0]);
        assert_eq!(
            warnings("t4p4s", &flows(1000)),
            ["1000 flows: the profile was measured with one, and more can be slower"]
        );
        let load = |load| Path { load: Some(load), ..path("0,0,0,0,0,0") };
        assert_eq!(warnings("t4p4s", &load(0.0)), [""; 0]);
        assert_eq!(
            warnings("t4p4s", &load(0.5)),
            ["load 0.5: the estimate contains no time in queues (23.18 µs on average by Eq. 4.10)"]
        );
        let unknown = "; the profile has no standard deviation to compute it from";
        assert_eq!(
            warnings("cpu", &load(0.5)),
            [format!("load 0.5: the estimate contains no time in queues{unknown}")]
        );
        assert_eq!(
            warnings("t4p4s", &Path { frame_bytes: Some(64), ..path("0,0,0,0,0,0") }),
            ["frames of 64 B: the profile has no base delay there; used that of 1500 B"]
        );
        let error = estimate(&profile("t4p4s"), &load(1.5)).unwrap_err().to_string();
        assert_eq!(error, "load: found 1.5, expected a number from 0 to 1");
        let empty = Path { frame_bytes: Some(0), ..path("0,0,0,0,0,0") };
        let error = estimate(&profile("t4p4s"), &empty).unwrap_err().to_string();
        assert_eq!(error, "frame size in bytes: found 0, expected a number from 1 to 65535");
    }

    #[test]
    fn counts_that_stand_for_bytes() {
        let applied = |counts: &str, added: Option<u32>, removed: Option<u32>| -> Vec<(u32, bool)> {
            let path = Path { added_bytes: added, removed_bytes: removed, ..path(counts) };
            let warnings = estimate(&profile("agilio-cx"), &path).unwrap().warnings;
            warnings
                .into_iter()
                .map(|warning| match warning {
                    Warning::ByteThreshold { above, is_applied, .. } => (above, is_applied),
                    other => panic!("{other}"),
                })
                .collect()
        };
        // Unknown sizes: two headers of 40 B are 80 B, three are 120 B.
        assert_eq!(applied("0,0,0,0,2,0", None, None), []);
        assert_eq!(applied("0,0,0,0,3,0", None, None), [(6, false)]);
        assert_eq!(applied("0,0,0,0,7,0", None, None), [(6, true)]);
        assert_eq!(applied("0,0,0,2,0,0", None, None), []);
        assert_eq!(applied("0,0,0,3,0,0", None, None), [(7, false)]);
        // Known sizes: 6 · 16 = 96 B and 7 · 16 = 112 B.
        assert_eq!(applied("0,0,0,0,0,0", Some(97), Some(113)), []);
        assert_eq!(applied("0,0,0,0,3,0", Some(96), None), []);
        assert_eq!(applied("0,0,0,0,3,0", Some(97), None), [(6, false)]);
        assert_eq!(applied("0,0,0,0,7,0", Some(97), None), []);
        assert_eq!(applied("0,0,0,0,7,0", Some(56), None), [(6, true)]);
        assert_eq!(applied("0,0,0,8,0,0", None, Some(112)), [(7, true)]);
        assert_eq!(applied("0,0,0,8,0,0", None, Some(113)), []);
        let path = Path { added_bytes: Some(97), ..path("0,0,0,0,3,0") };
        assert_eq!(
            estimate(&profile("agilio-cx"), &path).unwrap().warnings[0].to_string(),
            "the rule `add` above 6 was not applied: it was measured with headers of 16 B, so it stands for 96 B; \
             this path has 97 B"
        );
    }

    #[test]
    fn base_delays_between_measured_sizes() {
        let mut device = profile("agilio-cx");
        let assumed = Number { value: 5.45, provenance: Provenance::Assumed, note: None };
        device.base_us.insert(500, assumed);
        let found = |bytes| estimate(&device, &Path { frame_bytes: bytes, ..path("0,0,0,0,0,0") }).unwrap();
        assert_eq!(found(None).us, 7.45);
        assert_eq!(found(None).provenance(), Provenance::Measured);
        assert!((found(Some(750)).us - 5.95).abs() < 1e-9);
        assert_eq!(found(Some(750)).provenance(), Provenance::Assumed);
        assert_eq!((found(Some(500)).us, found(Some(500)).warnings), (5.45, vec![]));
        assert_eq!(found(Some(499)).warnings, [Warning::FrameSize { bytes: 499, nearest: 500 }]);
        assert_eq!((found(Some(499)).us, found(Some(1501)).us), (5.45, 7.45));
        assert_eq!(found(Some(1501)).warnings, [Warning::FrameSize { bytes: 1501, nearest: 1500 }]);
    }

    #[test]
    fn programs_are_the_mean_of_their_paths() {
        let paths = |shares: [f64; 2]| {
            let path = |name: &str, share, counts| (name.to_string(), share, path(counts));
            [path("l3", shares[0], "1,2,0,0,0,0"), path("decap", shares[1], "10,0,3,4,0,1")]
        };
        let found = mix(&profile("agilio-cx"), &paths([0.75, 0.25])).unwrap();
        assert!((found.us - (0.75 * 8.56 + 0.25 * 15.48)).abs() < 1e-9);
        assert!(found.to_text().contains("path decap, 25.0 % of the packets, agilio-cx: 15.48 µs\n"));
        assert_eq!(found.to_json()["paths"][0]["share"], 0.75);
        let error = mix(&profile("agilio-cx"), &paths([0.75, 0.5])).unwrap_err().to_string();
        assert_eq!(error, "sum of the paths' shares: found 1.25, expected 1");
        let error = mix(&profile("agilio-cx"), &paths([-0.75, 0.5])).unwrap_err().to_string();
        assert_eq!(error, "share of path `l3`: found -0.75, expected a number from 0 to 1");
    }

    #[test]
    fn unknown_externs_list_the_known_ones() {
        let path = Path { externs: vec!["md5".to_string()], ..Path::default() };
        let error = |device: &str| estimate(&profile(device), &path).unwrap_err().to_string();
        assert_eq!(error("cpu"), "extern: found `md5`, expected one of `cpu`: `siphash24`");
        assert_eq!(error("t4p4s"), "extern: found `md5`, expected one of `t4p4s`: none");
    }
}
