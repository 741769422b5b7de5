//! `p4jet profile`: measures this machine.

use crate::compile;
use crate::failure::Failure;
use crate::lanes::{self, Lane};
use crate::output::say;
use crate::profile_fit;
use crate::work::{self, Calibration};
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Switch};
use p4jet_ir::{Program, TableId};
use p4jet_predict::construct::Construct;
use p4jet_predict::lines;
use p4jet_predict::own::{Features, Model, Sample};
use p4jet_predict::profile::{Architecture, Economy, Kind, Limits, Number, Profile, Provenance};
use p4jet_text::Commands as _;
use p4jet_tools::calibration;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Options of `profile`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// File of the profile; by default where `predict` looks for it: $XDG_CONFIG_HOME/p4jet/profile.toml, or
    /// ~/.config/p4jet/profile.toml.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Maximum number of entries of the tables that are measured.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1024..=1 << 20))]
    entries: u64,
    /// Also write the measurements, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    measurements: Option<PathBuf>,
    /// Measure only every N-th program: faster, less accurate.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    every: u64,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Fit a profile to the delays of micro-benchmarks.
    Fit(profile_fit::Args),
}

/// The file where `p4jet profile` writes and `p4jet predict` reads by default.
pub fn default_path() -> Option<PathBuf> {
    let folder = match std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?).join(".config"),
    };
    Some(folder.join("p4jet").join("profile.toml"))
}

/// A generated program and what is known about it.
struct Point {
    name: String,
    features: Features,
    /// Nodes and statements.
    size: usize,
    compile_ms: f64,
    /// Of its only table: structure, entries, bytes.
    table: Option<(String, usize, usize)>,
    /// The time of a packet in times of the calibration.
    ratio: f64,
}

/// Nodes and statements of a program: the measure of its compilation time.
pub fn size_of(program: &Program) -> usize {
    program.cfgs().flat_map(|id| &program.cfg(id).nodes).map(|node| 1 + node.stmts.len()).sum()
}

/// Measures this machine, or fits a profile.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(Command::Fit(args)) = &args.command {
        return profile_fit::run(args);
    }
    let path = args.output.clone().or_else(default_path);
    let path = path.ok_or_else(|| {
        Failure::Usage("neither XDG_CONFIG_HOME nor HOME is set: give the file with --output".to_string())
    })?;
    let mut calibration = Calibration::new();
    let points = points(args, &mut calibration)?;
    let calibration_ns = calibration.ns();
    let samples: Vec<Sample> = points
        .iter()
        .map(|point| Sample {
            name: point.name.clone(),
            features: point.features.clone(),
            ns: point.ratio * calibration_ns,
            is_mixture: point.name.starts_with("mixture"),
        })
        .collect();
    if let Some(file) = &args.measurements {
        let lines = samples.iter().zip(&points).map(|(sample, point)| {
            let line = json!({ "name": sample.name, "ns": sample.ns, "compile_ms": point.compile_ms, "features": sample.features.0 });
            format!("{line}\n")
        });
        write(file, lines.collect())?;
    }
    let machine = machine();
    let mut model = Model::fit(machine.clone(), calibration_ns, &samples);
    let times: Vec<(f64, f64)> = points.iter().map(|point| (point.size as f64, point.compile_ms)).collect();
    if let Ok(line) = lines::line(&times) {
        model.compile_ms = [line.intercept.max(0.0), line.slope.max(0.0)];
    }
    for (structure, entries, bytes) in points.iter().filter_map(|point| point.table.as_ref()) {
        let sizes = model.entry_bytes.entry(structure.clone()).or_default();
        sizes.push((*entries as f64, *bytes as f64 / *entries as f64));
    }
    for sizes in model.entry_bytes.values_mut() {
        sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        sizes.dedup_by(|a, b| a.0 == b.0);
    }
    model.two_workers = two_workers()?;
    let profile = profile(machine, &model, &samples)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::Environment(format!("cannot create {}: {error}", folder.display())))?;
    }
    write(&path, profile.to_toml())?;
    let [mean, _, most, _] = model.errors;
    say!(
        "{}: {} programs; {:.1} % mean error for mixtures that were left out of the fit, 90 % of them below {:.1} %",
        path.display(),
        samples.len(),
        100.0 * mean,
        100.0 * most
    )
}

fn write(path: &std::path::Path, text: String) -> Result<(), Failure> {
    p4jet_files::write(path, text)
        .map_err(|error| Failure::Environment(format!("cannot write {}: {error}", path.display())))
}

/// Builds and measures all points.
fn points(args: &Args, calibration: &mut Calibration) -> Result<Vec<Point>, Failure> {
    // Base delays need all frame sizes.
    let all = calibration::points(args.entries).into_iter().enumerate();
    let is_chosen = |number: usize, name: &str| number.is_multiple_of(args.every as usize) || is_base(name);
    let chosen: Vec<_> =
        all.filter(|(number, (name, _))| is_chosen(*number, name)).map(|(_, point)| point).collect();
    let (count, start) = (chosen.len(), Instant::now());
    let mut points: Vec<Point> = Vec::with_capacity(count);
    for (name, make) in chosen {
        points.push(point(name, make, calibration)?);
        progress(points.len(), count, start);
    }
    Ok(points)
}

/// True for the points that give the base delay by frame size.
fn is_base(name: &str) -> bool {
    name.strip_prefix("bytes ").is_some_and(|bytes| bytes.parse::<u32>().is_ok())
}

/// Shows how much is done, on a terminal.
fn progress(done: usize, of: usize, start: Instant) {
    if std::io::stderr().is_terminal() {
        let left = start.elapsed().as_secs_f64() * (of - done) as f64 / done as f64;
        eprint!(
            "\r{:3} % measured, {left:.0} s left   {}",
            100 * done / of,
            if done == of { "\n" } else { "" }
        );
    }
}

fn point(
    name: String,
    make: Box<dyn FnOnce() -> calibration::Point>,
    calibration: &mut Calibration,
) -> Result<Point, Failure> {
    let point = make();
    let start = Instant::now();
    let compiled = compile::compile_quietly(&format!("{name}.p4"), &point.program)?;
    let switch = compiled.switch(compiled.for_engine(EngineKind::Jit), p4jet_jit::Options::default(), 1)?;
    switch.code().map_err(|error| Failure::Input(format!("{name}: {}", error.message)))?;
    let compile_ms = start.elapsed().as_secs_f64() * 1e3;
    load(&switch, &name, &point.commands)?;
    let seen = work::seen(&switch, &point.frames, 0)?;
    let work = work::work(&switch, &seen, &point.frames, 0, None)?;
    let ratio = work::measure(&switch, &seen, &point.frames, 0, calibration)?;
    let (size, table) = (size_of(switch.program()), only_table(&switch));
    Ok(Point { features: work.features(), size, compile_ms, table, ratio, name })
}

/// Loads runtime commands.
pub fn load(switch: &Arc<Switch>, name: &str, commands: &str) -> Result<(), Failure> {
    let loaded = Control::new(Arc::clone(switch)).load(name, commands);
    loaded.map(drop).map_err(|error| Failure::Input(format!("{name}: {error}")))
}

fn only_table(switch: &Switch) -> Option<(String, usize, usize)> {
    let ids: Vec<TableId> = (0..switch.program().tables.len() as u32).map(TableId).collect();
    let [id] = ids.as_slice() else { return None };
    let table = switch.table(*id);
    Some((table.structure_name()?, table.len(), table.memory_bytes())).filter(|(_, entries, _)| *entries > 0)
}

/// The rate of two workers relative to one, if this process may use two processors.
fn two_workers() -> Result<Option<f64>, Failure> {
    if lanes::processors().len() < 2 {
        return Ok(None);
    }
    let points = calibration::points(1024);
    let Some((name, make)) = points.into_iter().find(|(name, _)| name == "1 tables, exact 48") else {
        return Ok(None);
    };
    let point = make();
    let compiled = compile::compile_quietly(&format!("{name}.p4"), &point.program)?;
    let switch = compiled.switch(compiled.for_engine(EngineKind::Jit), p4jet_jit::Options::default(), 2)?;
    load(&switch, &name, &point.commands)?;
    let lane = |index| Lane::new(&switch, EngineKind::Jit, &point.frames, 0, index, 2);
    let mut two = [lane(0)?, lane(1)?];
    lanes::at_once(&mut two, &lanes::processors(), 0.2)?;
    Ok(Some(lanes::measure(&mut two, 1.0)?.speedup))
}

/// When and where: date, processor.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let days = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs() / 86_400);
    format!("{}, {model}, {} processors", date(days as i64), lanes::processors().len())
}

/// The date of a day since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn date(days: i64) -> String {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + i64::from(month <= 2))
}

/// The profile of p4jet on this machine: as a device, from the points of one construct each, and with the model.
fn profile(machine: String, model: &Model, samples: &[Sample]) -> Result<Profile, Failure> {
    let points = |prefix: &str| -> Vec<(f64, f64)> {
        let of = samples.iter().filter_map(|sample| {
            let count: f64 = sample.name.strip_prefix(prefix)?.parse().ok()?;
            Some((count, sample.ns / 1e3))
        });
        of.collect()
    };
    let slope = |prefix: &str| {
        let value = lines::line(&points(prefix)).map_or(0.0, |line| line.slope);
        let note = Some("per construct, at 60 B or as many as the headers take".to_string());
        Number { value, provenance: Provenance::Fitted, note }
    };
    let tables: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|sample| {
            let count = sample.name.strip_suffix(" tables, exact 48")?.parse().ok()?;
            Some((count, sample.ns / 1e3))
        })
        .collect();
    let table = Number {
        value: lines::line(&tables).map_or(0.0, |line| line.slope),
        provenance: Provenance::Fitted,
        note: Some("256 entries, 48-bit keys".to_string()),
    };
    let base = points("bytes ").into_iter().map(|(bytes, us)| {
        let note = Some("with the cost of a table added".to_string());
        (bytes as u32, Number { value: us + table.value, provenance: Provenance::Measured, note })
    });
    let base_us: BTreeMap<u32, Number> = base.collect();
    if base_us.is_empty() {
        return Err(Failure::Usage(
            "--every: so few programs give no profile; use a smaller number".to_string(),
        ));
    }
    let cost = |construct: &Construct| match construct {
        Construct::Parse => slope("parse "),
        Construct::Modify => slope("fields written "),
        Construct::Copy => slope("headers copied "),
        Construct::Remove => slope("headers removed "),
        Construct::Add => slope("headers added "),
        Construct::Table => table.clone(),
    };
    let costs: Vec<Number> = Construct::ALL.iter().map(cost).collect();
    Ok(Profile {
        name: "p4jet".to_string(),
        description: Some(format!("p4jet on this machine: {machine}")),
        source: Some("p4jet profile".to_string()),
        kind: Kind::Cpu,
        architectures: vec![Architecture::V1model, Architecture::Psa],
        deviation_us: None,
        base_us,
        cost_us: costs.try_into().map_err(|_| Failure::Usage("six constructs".to_string()))?,
        rules: Vec::new(),
        externs: BTreeMap::new(),
        limits: Limits::default(),
        economy: Economy::default(),
        p4jet: Some(model.to_toml()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (days, text) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_783, "2026-11-26")] {
            assert_eq!(date(days), text);
        }
    }
}
