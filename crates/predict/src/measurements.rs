//! From the delays of micro-benchmarks to a profile (§3.3, §3.8).
//!
//! The micro-benchmarks of a construct are programs in which its count is all that varies. The delay of the program with one parsed
//! header and one table is the base delay; the slope of the delay over the count is the cost of the construct.

use crate::construct::{COUNT_MAX, Construct};
use crate::distributions::{self, Ranking};
use crate::error::{Invalid, LARGEST, SMALLEST};
use crate::lines::{self, Break, Line, Uncertainty};
use crate::profile::{
    Architecture, Correction, Economy, FRAME_BYTES_MAX, Kind, Limits, Mistake, Mistakes, Number, Profile,
    Provenance,
};
use crate::simulate::Interval;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

/// Root mean square error in µs that no line of the thesis exceeds (§3.8).
pub const RMSE_MAX_US: f64 = 0.4;

/// Maximum number of delays.
pub const DELAYS_MAX: usize = 20_000_000;

/// What varies in a family of micro-benchmarks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// The count of a construct.
    Of(Construct),
    /// The number of fields of one header that are modified. It should not matter.
    Fields(String),
}

impl Family {
    fn by_name(name: &str) -> Option<Family> {
        let is_name = |name: &&str| {
            (1..=32).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        match name.strip_prefix("fields-") {
            Some(header) => Some(header).filter(is_name).map(|header| Family::Fields(header.to_string())),
            None => Construct::by_name(name).map(Family::Of),
        }
    }

    /// The count of the base in files. Profiles count parsed headers without the one of the base.
    fn first(&self) -> u32 {
        u32::from(matches!(self, Family::Of(Construct::Parse) | Family::Fields(_)))
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Family::Of(construct) => construct.fmt(f),
            Family::Fields(header) => write!(f, "fields-{header}"),
        }
    }
}

/// Delays in µs, by round. A round measures all points once.
type Rounds = BTreeMap<(usize, u32), Vec<f64>>;

/// The delays of micro-benchmarks.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// By family and size of the frame in bytes, then by count in x(NF).
    points: BTreeMap<(Family, u32), BTreeMap<u32, Rounds>>,
    files: usize,
    delays: usize,
}

/// The columns of a file. The last one may be missing.
const COLUMNS: [&str; 5] = ["family", "count", "frame_bytes", "delay_us", "round"];

impl Measurements {
    /// Adds the rows of a CSV file, or returns all mistakes in it. Rounds of different files are different rounds.
    pub fn read(&mut self, file: &str, text: &str) -> Result<(), Mistakes> {
        let mut mistakes = Vec::new();
        let mut wrong =
            |line: usize, message: String| mistakes.push(Mistake { file: file.to_string(), line, message });
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let (first, header) = lines.next().unwrap_or((1, ""));
        let header: Vec<&str> = header.split(',').map(str::trim).collect();
        for (at, name) in header.iter().enumerate() {
            if !COLUMNS.contains(name) || header[..at].contains(name) {
                let found = if COLUMNS.contains(name) { " twice" } else { "" };
                wrong(
                    first,
                    format!("columns: found `{name}`{found}, expected each of {} once", COLUMNS.join(", ")),
                );
            }
        }
        let column = |name: &str| header.iter().position(|found| *found == name);
        let places = COLUMNS.map(column);
        for (name, _) in COLUMNS[..4].iter().zip(places).filter(|(_, place)| place.is_none()) {
            wrong(first, format!("columns: found no `{name}`, expected one"));
        }
        let ([Some(family), Some(count), Some(bytes), Some(delay), round], true) =
            (places, mistakes.is_empty())
        else {
            return Err(Mistakes(mistakes));
        };
        let mut wrong =
            |line: usize, message: String| mistakes.push(Mistake { file: file.to_string(), line, message });
        let mut rows = 0;
        for (line, row) in lines {
            rows += 1;
            let fields: Vec<&str> = row.split(',').map(str::trim).collect();
            if fields.len() != header.len() {
                wrong(line, format!("found {} columns, expected {}", fields.len(), header.len()));
                continue;
            }
            let Some(of) = Family::by_name(fields[family]) else {
                let names = Construct::ALL.map(|construct| format!("`{construct}`")).join(", ");
                wrong(
                    line,
                    format!("family: found `{}`, expected {names} or `fields-HEADER`", fields[family]),
                );
                continue;
            };
            let mut whole = |name: &str, text: &str, min: u32, max: u32| {
                let found = text.parse().ok().filter(|found| (min..=max).contains(found));
                if found.is_none() {
                    wrong(
                        line,
                        format!("{name}: found `{text}`, expected a whole number from {min} to {max}"),
                    );
                }
                found
            };
            let count = whole("count", fields[count], of.first(), COUNT_MAX.unsigned_abs());
            let bytes = whole("frame_bytes", fields[bytes], 1, FRAME_BYTES_MAX);
            let round = round.map_or(Some(0), |round| whole("round", fields[round], 0, u32::MAX));
            let us: Option<f64> = fields[delay].parse().ok().filter(|us| (SMALLEST..=LARGEST).contains(us));
            if us.is_none() {
                let expected = "a number of µs from 1e-9 to 1e12";
                wrong(line, format!("delay_us: found `{}`, expected {expected}", fields[delay]));
            }
            if let (Some(count), Some(bytes), Some(round), Some(us)) = (count, bytes, round, us) {
                let count = if of == Family::Of(Construct::Parse) { count - 1 } else { count };
                let rounds = self.points.entry((of, bytes)).or_default().entry(count).or_default();
                rounds.entry((self.files, round)).or_default().push(us);
                self.delays += 1;
            }
        }
        if rows == 0 {
            wrong(first, "found no delays, expected at least one".to_string());
        }
        if self.delays > DELAYS_MAX {
            wrong(0, format!("found {} delays so far, expected at most {DELAYS_MAX}", self.delays));
        }
        self.files += 1;
        if mistakes.is_empty() { Ok(()) } else { Err(Mistakes(mistakes)) }
    }
}

/// What the profile is called, and what a point's delay is.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the profile.
    pub name: String,
    /// What the device is.
    pub description: Option<String>,
    /// Its kind.
    pub kind: Kind,
    /// The architectures that it runs.
    pub architectures: Vec<Architecture>,
    /// The delay of a point is the median of a round's delays instead of their mean.
    pub median: bool,
}

/// The line of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The family.
    pub family: Family,
    /// Size of its frames in bytes.
    pub frame_bytes: u32,
    /// Its points: count in x(NF), or fields; delay in µs.
    pub points: Vec<(f64, f64)>,
    /// The line, with the break if there is one.
    pub line: Line,
    /// Confidence intervals; `None` if there are too few points.
    pub uncertainty: Option<Uncertainty>,
}

impl Fit {
    /// Whether the slope may be 0: its confidence interval contains 0.
    pub fn is_flat(&self) -> bool {
        self.uncertainty.is_some_and(|found| self.line.slope.abs() <= found.slope)
    }
}

/// A base delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// Its mean or median in µs.
    pub us: f64,
    /// Half the width of its 95 % confidence interval; `None` for a single round.
    pub half_width: Option<f64>,
    /// Standard deviation of its delays in µs; `None` for a single delay.
    pub deviation_us: Option<f64>,
}

/// What was found in measurements.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The profile.
    pub profile: Profile,
    /// The lines of all families and sizes.
    pub fits: Vec<Fit>,
    /// The base delays by size of the frame.
    pub bases: BTreeMap<u32, Base>,
    /// Distributions of the base delay of the largest frames, the best one first; `None` for a single value.
    pub ranking: Option<Ranking>,
    /// What the numbers must not be taken for.
    pub warnings: Vec<String>,
    points: usize,
    delays: usize,
    median: bool,
}

/// The delay of a point in a round.
fn middle(delays: &[f64], median: bool) -> f64 {
    match median {
        false => delays.iter().sum::<f64>() / delays.len() as f64,
        true => {
            let mut sorted = delays.to_vec();
            sorted.sort_by(f64::total_cmp);
            let at = |place: usize| sorted[place];
            (at((sorted.len() - 1) / 2) + at(sorted.len() / 2)) / 2.0
        }
    }
}

/// A number with six digits: measurements have no more.
fn rounded(value: f64) -> f64 {
    // Adding 0 makes 0 of -0.
    format!("{value:.5e}").parse::<f64>().unwrap_or(value) + 0.0
}

/// The note of a number with this confidence interval.
fn note(half_width: f64) -> String {
    format!("± {} µs (95 %)", format!("{half_width:.1e}").parse::<f64>().unwrap_or(half_width))
}

/// Fits a line to each family and makes a profile of all.
pub fn fit(measurements: &Measurements, options: &Options) -> Result<Fitted, Invalid> {
    let median = options.median;
    let bases = bases(measurements, median)?;
    let (largest, base) = bases.last_key_value().expect("`bases` returns at least one");
    let mut warnings = Vec::new();
    let ranking = {
        let rounds = &measurements.points[&(Family::Of(Construct::Parse), *largest)][&0];
        let delays: Vec<f64> = rounds.values().flatten().copied().collect();
        distributions::rank(&delays).map_err(|error| warnings.push(format!("no distribution: {error}"))).ok()
    };
    let fits: Result<Vec<Fit>, Invalid> = measurements
        .points
        .iter()
        .filter(|(_, points)| points.len() > 1)
        .map(|((family, bytes), points)| line(family, *bytes, points, median))
        .collect();
    let fits = fits?;
    for Fit { family, frame_bytes, line, .. } in fits.iter().filter(|fit| fit.line.rmse > RMSE_MAX_US) {
        warnings.push(format!(
            "{family}, {frame_bytes} B: the delays are not on a line: their root mean square error is {:.3} µs, more than {RMSE_MAX_US} µs",
            line.rmse
        ));
    }
    let mut rules = Vec::new();
    let cost_us = Construct::ALL.map(|construct| {
        // The fits are in the order of their sizes.
        match fits.iter().rfind(|fit| fit.family == Family::Of(construct)) {
            Some(fit) => cost(fit, construct, &mut rules),
            None => {
                warnings
                    .push(format!("no line for `{construct}`: the profile says 0, which is an assumption"));
                let note = Some("not measured".to_string());
                Number { value: 0.0, provenance: Provenance::Assumed, note }
            }
        }
    });
    let measured = |value: f64, half_width: Option<f64>| Number {
        value: rounded(value),
        provenance: Provenance::Measured,
        note: half_width.map(note),
    };
    let profile = Profile {
        name: options.name.clone(),
        description: options.description.clone(),
        source: Some(format!("p4jet profile fit, {} delays", measurements.delays)),
        kind: options.kind,
        architectures: options.architectures.clone(),
        deviation_us: base.deviation_us.map(|deviation| measured(deviation, None)),
        base_us: bases.iter().map(|(bytes, base)| (*bytes, measured(base.us, base.half_width))).collect(),
        cost_us,
        rules,
        externs: BTreeMap::new(),
        limits: Limits::default(),
        economy: Economy::default(),
        p4jet: None,
    };
    let points = measurements.points.values().map(BTreeMap::len).sum();
    let delays = measurements.delays;
    Ok(Fitted { profile, fits, bases, ranking, warnings, points, delays, median })
}

/// The base delays by size of the frame: those of the programs that parse one header.
fn bases(measurements: &Measurements, median: bool) -> Result<BTreeMap<u32, Base>, Invalid> {
    let mut bases = BTreeMap::new();
    for ((family, bytes), points) in &measurements.points {
        let Some(rounds) = points.get(&0).filter(|_| *family == Family::Of(Construct::Parse)) else {
            continue;
        };
        let middles: Vec<f64> = rounds.values().map(|delays| middle(delays, median)).collect();
        let delays: Vec<f64> = rounds.values().flatten().copied().collect();
        let mean = middle(&delays, false);
        let squares: f64 = delays.iter().map(|us| (us - mean).powi(2)).sum();
        let base = Base {
            us: middle(&middles, false),
            half_width: (middles.len() > 1).then(|| Interval::of(&middles).half_width),
            deviation_us: (delays.len() > 1).then(|| (squares / (delays.len() as f64 - 1.0)).sqrt()),
        };
        bases.insert(*bytes, base);
    }
    match bases.is_empty() {
        false => Ok(bases),
        true => Err(Invalid::new("base delay", "no delay of the family `parse` with count 1", "some")),
    }
}

/// Fits the line of a family.
fn line(
    family: &Family,
    frame_bytes: u32,
    points: &BTreeMap<u32, Rounds>,
    median: bool,
) -> Result<Fit, Invalid> {
    let numbers: BTreeSet<(usize, u32)> = points.values().flat_map(BTreeMap::keys).copied().collect();
    let of_round = |round: &(usize, u32)| -> Option<Vec<(f64, f64)>> {
        let point = |(count, rounds): (&u32, &Rounds)| {
            rounds.get(round).map(|delays| (f64::from(*count), middle(delays, median)))
        };
        points.iter().map(point).collect()
    };
    // Only complete rounds have a line of their own.
    let rounds: Vec<Vec<(f64, f64)>> = numbers.iter().filter_map(of_round).collect();
    let mean = |(count, rounds): (&u32, &Rounds)| {
        let middles: Vec<f64> = rounds.values().map(|delays| middle(delays, median)).collect();
        (f64::from(*count), middle(&middles, false))
    };
    let points: Vec<(f64, f64)> = points.iter().map(mean).collect();
    let mut line = lines::broken_line(&points)?;
    let mut uncertainty = line.uncertainty(&points, &rounds);
    if let (Some(broken), Some(found)) = (line.broken, uncertainty) {
        // A break that single rounds do not show is noise.
        let is_bend = broken.slope == line.slope || (broken.slope - line.slope).abs() > found.bend;
        let is_jump = broken.jump == 0.0 || broken.jump.abs() > found.jump;
        if !(is_bend && is_jump) {
            line = lines::line(&points)?;
            uncertainty = line.uncertainty(&points, &rounds);
        }
    }
    Ok(Fit { family: family.clone(), frame_bytes, points, line, uncertainty })
}

/// The cost of a construct, and the rules that go with it.
fn cost(fit: &Fit, construct: Construct, rules: &mut Vec<crate::profile::Rule>) -> Number {
    let half_width = |of: fn(&Uncertainty) -> f64| fit.uncertainty.map(|found| note(of(&found)));
    let (mut cost, found) = fit.line.rules(construct);
    rules.extend(found.into_iter().map(|mut rule| {
        let (number, note) = match &mut rule.correction {
            Correction::Each(number) => (number, half_width(|found| found.slope_beyond)),
            Correction::Once(number) => (number, half_width(|found| found.jump)),
        };
        number.value = rounded(number.value);
        number.note = note;
        rule
    }));
    cost.value = rounded(cost.value);
    cost.note = half_width(|found| found.slope);
    if let (true, Some(note)) = (fit.is_flat(), &cost.note) {
        cost.note = Some(format!("not distinguishable from 0: {} {note}", cost.value));
        cost.value = 0.0;
    }
    cost
}

impl Fitted {
    /// The fits as text, for users.
    pub fn to_text(&self) -> String {
        let middle = if self.median { "medians" } else { "means" };
        let mut out =
            format!("{} delays of {} points, {middle} in µs (± 95 % confidence)\n", self.delays, self.points);
        out += "base delay\n";
        for (bytes, base) in &self.bases {
            let half_width = plus_minus(base.half_width);
            let deviation = base.deviation_us.map(|found| format!(", standard deviation {found:.4}"));
            let _ =
                writeln!(out, "  {bytes:>5} B  {:.4}{half_width}{}", base.us, deviation.unwrap_or_default());
        }
        out += "lines\n";
        for fit in &self.fits {
            let Line { intercept, slope, broken, rmse } = fit.line;
            let of = |number: fn(&Uncertainty) -> f64| plus_minus(fit.uncertainty.as_ref().map(number));
            let half_width = of(|found| found.slope);
            let flat = if fit.is_flat() { ", not distinguishable from 0" } else { "" };
            let mut text = format!("{intercept:.4}, {slope:+.4}{half_width} each{flat}");
            if let Some(Break { above, slope: beyond, jump }) = broken {
                let _ = write!(text, "; above {above}:");
                if beyond != slope {
                    let _ = write!(text, " {beyond:+.4}{} each", of(|found| found.slope_beyond));
                }
                if jump != 0.0 {
                    let comma = if beyond == slope { "" } else { "," };
                    let _ = write!(text, "{comma} {jump:+.4}{} once", of(|found| found.jump));
                }
            }
            let _ = writeln!(
                out,
                "  {:<16} {:>5} B  {text}; RMSE {rmse:.4}",
                fit.family.to_string(),
                fit.frame_bytes
            );
        }
        if let Some(ranking) = &self.ranking {
            let bytes = self.bases.last_key_value().map_or(0, |(bytes, _)| *bytes);
            let _ = write!(out, "distributions of the base delay of {bytes} B\n{}", ranking.to_text());
        }
        self.warnings.iter().for_each(|warning| {
            let _ = writeln!(out, "warning: {warning}");
        });
        out
    }

    /// Returns the values of `to_text` and the profile as JSON.
    pub fn to_json(&self) -> Json {
        let fit = |fit: &Fit| {
            let uncertainty = fit.uncertainty.map(|found| {
                json!({ "slope": found.slope, "slope_beyond": found.slope_beyond, "jump": found.jump })
            });
            json!({
                "family": fit.family.to_string(),
                "frame_bytes": fit.frame_bytes,
                "points": fit.points,
                "line": fit.line.to_json(),
                "half_widths": uncertainty,
                "may_be_flat": fit.is_flat(),
            })
        };
        let base = |(bytes, base): (&u32, &Base)| json!({ "frame_bytes": bytes, "us": base.us, "half_width": base.half_width, "deviation_us": base.deviation_us });
        json!({
            "delays": self.delays,
            "points": self.points,
            "middle": if self.median { "median" } else { "mean" },
            "base": self.bases.iter().map(base).collect::<Vec<_>>(),
            "lines": self.fits.iter().map(fit).collect::<Vec<_>>(),
            "distributions": self.ranking.as_ref().map(Ranking::to_json),
            "warnings": self.warnings,
            "profile": self.profile.to_json(),
        })
    }
}

fn plus_minus(half_width: Option<f64>) -> String {
    half_width.map(|found| format!(" ± {found:.4}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::Counts;
    use crate::estimate::{Path, estimate};
    use rand_distr::{Distribution, Gamma};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    fn options(median: bool) -> Options {
        Options {
            name: "own".to_string(),
            description: None,
            kind: Kind::Cpu,
            architectures: vec![Architecture::V1model],
            median,
        }
    }

    fn read(text: &str) -> Measurements {
        let mut measurements = Measurements::default();
        measurements.read("m.csv", text).unwrap();
        measurements
    }

    /// The families of §3.3 on a device that follows a profile, with gamma-distributed delays: their counts and first counts.
    fn modelled(profile: &Profile, rounds: u32, packets: usize) -> String {
        let mut text = "family,count,frame_bytes,round,delay_us\n".to_string();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let families =
            [("parse", 14), ("modify", 14), ("copy", 10), ("remove", 10), ("add", 10), ("table", 14)];
        let deviation = profile.deviation_us.as_ref().unwrap().value;
        for round in 1..=rounds {
            for (construct, (name, most)) in families.iter().enumerate() {
                for count in i32::from(*name == "parse")..=*most {
                    let mut x = [13, 0, 0, 0, 0, 0];
                    if matches!(*name, "add" | "table") {
                        x[0] = 3;
                    }
                    x[construct] = if *name == "parse" { count - 1 } else { count };
                    let mean = estimate(profile, &Path::new(Counts::new(x).unwrap())).unwrap().us;
                    let law = Gamma::new((mean / deviation).powi(2), deviation.powi(2) / mean).unwrap();
                    let bytes = if *name == "add" { 1300 } else { 1500 };
                    for _ in 0..packets {
                        let _ = writeln!(text, "{name},{count},{bytes},{round},{}", law.sample(&mut random));
                    }
                }
            }
        }
        text
    }

    #[test]
    fn a_modelled_device_yields_its_profile() {
        for name in ["t4p4s", "netfpga-sume", "agilio-cx"] {
            let profile = Profile::shipped_as(name).unwrap();
            let found = fit(&read(&modelled(&profile, 5, 400)), &options(false)).unwrap();
            let text = found.to_text();
            let own = Profile::parse("own.toml", &found.profile.to_toml()).unwrap();
            assert_eq!(own, found.profile);
            let base = |profile: &Profile| profile.base_us[&1500].value;
            assert!((base(&own) - base(&profile)).abs() < 0.4, "{text}");
            let deviation = |profile: &Profile| profile.deviation_us.as_ref().unwrap().value;
            assert!((deviation(&own) / deviation(&profile) - 1.0).abs() < 0.05, "{text}");
            assert!(found.warnings.is_empty(), "{text}");
            assert!(found.fits.iter().all(|fit| fit.line.rmse < RMSE_MAX_US), "{text}");
            for construct in Construct::ALL {
                let (own_cost, cost) = (own.cost(construct), profile.cost(construct));
                assert!((own_cost.value - cost.value).abs() < 0.03, "{construct}\n{text}");
                if cost.value == 0.0 {
                    let note = own_cost.note.as_deref().unwrap();
                    assert!(
                        own_cost.value == 0.0 && note.starts_with("not distinguishable from 0: "),
                        "{note}"
                    );
                }
            }
            let shape = |profile: &Profile| -> Vec<(Construct, u32, bool)> {
                let of = |rule: &crate::profile::Rule| {
                    (rule.construct, rule.above, matches!(rule.correction, Correction::Each(_)))
                };
                let mut rules: Vec<_> = profile.rules.iter().map(of).collect();
                rules.sort();
                rules
            };
            assert_eq!(shape(&own), shape(&profile), "{text}");
            for (own, rule) in
                own.rules.iter().flat_map(|own| profile.rules.iter().map(move |rule| (own, rule)))
            {
                if let (Correction::Each(own), Correction::Each(of))
                | (Correction::Once(own), Correction::Once(of)) = (&own.correction, &rule.correction)
                {
                    assert!((own.value - of.value).abs() < 0.1, "{text}");
                }
            }
            // Gamma contains Erlang's distribution; with these shapes, normal and lognormal are near.
            let best = found.ranking.unwrap().fits[0].distribution.name();
            assert!(["gamma", "erlang", "lognormal", "normal"].contains(&best), "{best}");
        }
    }

    #[test]
    fn medians_ignore_outliers() {
        let mut text = "round,delay_us,family,count,frame_bytes\n".to_string();
        for round in 0..3 {
            for count in 1..=5 {
                for _ in 0..20 {
                    let _ = writeln!(text, "{round},{},parse,{count},64", 10.0 + f64::from(count));
                }
                let _ = writeln!(text, "{round},{},parse,{count},64\n", 1000 * count * (round + 1));
            }
        }
        let means = fit(&read(&text), &options(false)).unwrap();
        let medians = fit(&read(&text), &options(true)).unwrap();
        assert!(means.fits[0].line.slope > 50.0 && means.warnings.iter().any(|text| text.contains("`copy`")));
        assert_eq!(medians.profile.cost(Construct::Parse).value, 1.0);
        assert_eq!(medians.profile.base_us[&64].value, 11.0);
        assert_eq!(medians.profile.cost(Construct::Copy).provenance, Provenance::Assumed);
        assert!(
            medians.to_text().starts_with("315 delays of 5 points, medians in µs"),
            "{}",
            medians.to_text()
        );
        assert_eq!(medians.to_json()["lines"][0]["line"]["slope"], 1.0);
    }

    /// One mean for each point suffices for lines, not for a deviation or a distribution.
    #[test]
    fn single_delays_have_no_distribution() {
        let rows: String =
            (1..=8).map(|count| format!("parse,{count},256,{}\n", 5.0 + 0.5 * f64::from(count))).collect();
        let found =
            fit(&read(&format!("family,count,frame_bytes,delay_us\n{rows}")), &options(false)).unwrap();
        assert!((found.profile.cost(Construct::Parse).value - 0.5).abs() < 1e-9);
        assert_eq!(found.profile.deviation_us, None);
        assert!(
            found.ranking.is_none() && found.warnings[0].starts_with("no distribution: samples: found 1")
        );
        assert_eq!(found.to_json()["distributions"], Json::Null);
        let error =
            fit(&read("family,count,frame_bytes,delay_us\nadd,0,64,1\n"), &options(false)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "base delay: found no delay of the family `parse` with count 1, expected some"
        );
    }

    #[test]
    fn fields_of_a_header_have_a_line_but_no_cost() {
        let rows: String = (1..=3).map(|count| format!("fields-ipv4,{count},64,{count}\n")).collect();
        let rows = format!("family,count,frame_bytes,delay_us\nparse,1,64,5\n{rows}");
        let found = fit(&read(&rows), &options(false)).unwrap();
        assert_eq!(found.fits.len(), 1);
        assert!(
            found.to_text().contains("fields-ipv4         64 B  0.0000, +1.0000 ± 0.0000 each"),
            "{}",
            found.to_text()
        );
        assert_eq!(found.profile.cost(Construct::Modify).value, 0.0);
    }

    #[test]
    fn mistakes_name_line_found_and_expected() {
        let check = |text: &str, expected: &[&str]| {
            let found = Measurements::default().read("m.csv", text).unwrap_err().to_string();
            assert_eq!(found, expected.join("\n"));
        };
        let header = "family,count,frame_bytes,delay_us\n";
        check(
            "",
            &[
                "m.csv:1: columns: found ``, expected each of family, count, frame_bytes, delay_us, round once",
                "m.csv:1: columns: found no `family`, expected one",
                "m.csv:1: columns: found no `count`, expected one",
                "m.csv:1: columns: found no `frame_bytes`, expected one",
                "m.csv:1: columns: found no `delay_us`, expected one",
            ],
        );
        check(
            "\nfamily,count,frame_bytes,delay_us,count\n",
            &[
                "m.csv:2: columns: found `count` twice, expected each of family, count, frame_bytes, delay_us, round once",
            ],
        );
        check(header, &["m.csv:1: found no delays, expected at least one"]);
        check(
            &format!("{header}parse,1,64\nshift,1,64,1\nfields-,1,64,1\nparse,0,0,nan\nparse,1,64,-1\n"),
            &[
                "m.csv:2: found 3 columns, expected 4",
                "m.csv:3: family: found `shift`, expected `parse`, `modify`, `copy`, `remove`, `add`, `table` or `fields-HEADER`",
                "m.csv:4: family: found `fields-`, expected `parse`, `modify`, `copy`, `remove`, `add`, `table` or `fields-HEADER`",
                "m.csv:5: count: found `0`, expected a whole number from 1 to 100000",
                "m.csv:5: frame_bytes: found `0`, expected a whole number from 1 to 65535",
                "m.csv:5: delay_us: found `nan`, expected a number of µs from 1e-9 to 1e12",
                "m.csv:6: delay_us: found `-1`, expected a number of µs from 1e-9 to 1e12",
            ],
        );
    }
}
