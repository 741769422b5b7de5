//! `p4jet predict PROGRAM` with a profile of this machine: p4jet's own speed.

use crate::compile::{self, Compiled, ProgramArgs};
use crate::failure::Failure;
use crate::measure::{round, tables};
use crate::output::{self, say};
use crate::predict::Args;
use crate::{check, predict, profile, work};
use p4jet_dataplane::{EngineKind, Seen, Switch};
use p4jet_ir::TableId;
use p4jet_predict::own::{Features, Model, Prediction, Work};
use p4jet_predict::profile::Profile;
use p4jet_tools::derive;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Utilisations for which delays are printed.
const LOADS: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9];
/// Numbers of entries for which the memory of tables is printed.
const ENTRIES: [f64; 4] = [1e3, 1e4, 1e5, 1e6];

/// The model in a profile, if it has one.
pub fn model(profile: &Profile) -> Option<Result<Model, Failure>> {
    let section = profile.p4jet.as_ref()?;
    Some(Model::from_toml(section).map_err(|error| {
        Failure::Input(format!("profile {}: {error}; `p4jet profile` writes a new one", profile.name))
    }))
}

/// The profile of this machine.
pub fn of_this_machine() -> Result<Profile, Failure> {
    let path = profile::default_path();
    let Some(path) = path.filter(|path| path.exists()) else {
        return Err(Failure::Input(
            "there is no profile of this machine yet: run `p4jet profile` (some minutes), or name a device with --profile, \
             such as agilio-cx"
                .to_string(),
        ));
    };
    let name = path.display().to_string();
    let text = output::read_text(&path)?;
    Profile::parse(&name, &text).map_err(|mistakes| Failure::Input(mistakes.to_string()))
}

/// A path, for reports.
struct PathLine {
    share: f64,
    ns: f64,
    interval: [f64; 2],
    text: String,
    parts: Vec<(String, f64)>,
}

/// What is predicted for a program.
struct Report {
    prediction: Prediction,
    paths: Vec<PathLine>,
    tables: Vec<TableLine>,
    compile_ms: f64,
    /// Where the packets come from.
    packets: String,
}

struct TableLine {
    name: String,
    structure: String,
    entries: usize,
    bytes: usize,
    /// Predicted bytes for [`ENTRIES`].
    predicted: Vec<Option<f64>>,
}

/// Predicts a program's speed.
pub fn run(args: &Args, program: &Path, profile: &Profile, model: &Model) -> Result<(), Failure> {
    let compiled = compile::compile(&ProgramArgs { program: program.into(), source: args.source.clone() })?;
    if let Some(why) = compiled.why_not_run() {
        return Err(Failure::Input(format!("{}: {why}", compiled.lowered.name)));
    }
    let report = match args.pcap.as_deref() {
        Some(pcap) => of_capture(args, &compiled, pcap, model)?,
        None => of_paths(args, &compiled, model)?,
    };
    let cores = usize::from(args.cores);
    match args.json {
        true => say!("{}", report.json(profile, model, cores)),
        false => report.print(&compiled.lowered.name, profile, model, cores),
    }
}

/// The prediction for a capture and the entries of the commands.
fn of_capture(args: &Args, compiled: &Compiled, pcap: &Path, model: &Model) -> Result<Report, Failure> {
    let options = p4jet_jit::Options::default();
    let switch = compiled.switch(compiled.for_engine(EngineKind::Jit), options, 1)?;
    if let Some(path) = &args.commands {
        compile::load_commands(&switch, path)?;
    }
    let frames = p4jet_ports::read_capture(pcap).map_err(|e| Failure::port(&e))?;
    let port = args.port.unwrap_or(0);
    compile::check_port(&switch, port)?;
    let seen = with_entries(&switch, work::seen(&switch, &frames, port)?, args.entries);
    let work = work::work(&switch, &seen, &frames, port, args.entries)?;
    let prediction = model.predict(&work);
    let shares = work.shares();
    let lines = work.paths.iter().zip(shares).enumerate().map(|(number, (path, share))| PathLine {
        share,
        ns: prediction.paths[number],
        interval: model.interval(prediction.paths[number]),
        text: tables_of(&switch, path),
        parts: model.parts(path),
    });
    let mut paths: Vec<PathLine> = lines.collect();
    paths.sort_by(|a, b| b.share.total_cmp(&a.share));
    Ok(Report {
        paths,
        tables: table_lines(&switch, model, args.entries),
        compile_ms: model.compile_time_ms(profile::size_of(switch.program())),
        packets: format!("{} packets of {}", frames.len(), pcap.display()),
        prediction,
    })
}

/// The tables that are looked up on a path.
fn tables_of(switch: &Switch, path: &p4jet_predict::own::PathWork) -> String {
    let names = path.parts.iter().filter_map(|part| part.name.strip_suffix(": lookup"));
    let names: Vec<&str> = names.collect();
    if names.is_empty() { format!("no table of {}", switch.program().tables.len()) } else { names.join(", ") }
}

/// The prediction for a packet of each path, with the entries that they need or those of the commands. All have equal shares unless
/// `--share` gives others.
fn of_paths(args: &Args, compiled: &Compiled, model: &Model) -> Result<Report, Failure> {
    let commands = match &args.commands {
        Some(path) => Some((path.display().to_string(), output::read_text(path)?)),
        None => None,
    };
    let options = derive::Options { commands, ..derive::Options::default() };
    let (sets, more) =
        derive::runs(&compiled.lowered, &options).map_err(|error| check::failure(compiled, error))?;
    let mut all: Option<Work> = None;
    let mut texts = Vec::new();
    let mut first: Option<Arc<Switch>> = None;
    for set in sets {
        let switch =
            compiled.switch(compiled.for_engine(EngineKind::Jit), p4jet_jit::Options::default(), 1)?;
        profile::load(&switch, "the derived commands", &set.commands)?;
        for run in set.runs.into_iter().filter(|run| run.way.is_some()) {
            let seen = with_entries(&switch, Seen::default(), args.entries);
            let work = work::work(&switch, &seen, std::slice::from_ref(&run.frame), run.port, args.entries)?;
            let way = run.way.map_or(String::new(), |way| way.states.join(" "));
            texts.push((work.paths.len(), way));
            match &mut all {
                None => all = Some(work),
                Some(all) => {
                    let before = all.paths.len();
                    let passes = work.packets.into_iter();
                    all.packets.extend(passes.map(|paths| paths.iter().map(|path| path + before).collect()));
                    all.paths.extend(work.paths);
                    let count = all.packets.len() as f64;
                    let mut frames = Features::default();
                    frames.add_all(&all.frames, (count - 1.0) / count);
                    frames.add_all(&work.frames, 1.0 / count);
                    (all.frames, all.lines) = (frames, all.lines + (work.lines - all.lines) / count);
                }
            }
        }
        first.get_or_insert(switch);
    }
    let (Some(mut work), Some(switch)) = (all, first) else {
        return Err(Failure::Input("no path of a packet was found; give packets with --pcap".to_string()));
    };
    // The first path of each packet is its own; others are those of copies.
    let own: Vec<usize> = work.packets.iter().filter_map(|paths| paths.first().copied()).collect();
    let shares = predict::shares(&args.share, own.len())?;
    if !shares.is_empty() {
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        if (total - 1.0).abs() > 1e-6 {
            return Err(Failure::Usage(format!("--share: the shares add up to {total}, expected 1")));
        }
        // A thousand packets in these shares.
        let of = |(number, share): &(u32, f64)| {
            vec![work.packets[*number as usize - 1].clone(); (share * 1000.0).round() as usize]
        };
        work.packets = shares.iter().flat_map(of).collect();
    }
    // These packets stand for many different ones.
    work.loop_frames = 1 << 17;
    let prediction = model.predict(&work);
    let all_shares = work.shares();
    let line = |(path, (_, way)): (&usize, &(usize, String))| PathLine {
        share: all_shares[*path],
        ns: prediction.paths[*path],
        interval: model.interval(prediction.paths[*path]),
        text: format!("{way}; {}", tables_of(&switch, &work.paths[*path])),
        parts: model.parts(&work.paths[*path]),
    };
    let mut packets = format!("one packet for each of {} paths, in equal shares", own.len());
    if !shares.is_empty() {
        packets = format!("{} paths in the given shares", shares.len());
    }
    if more {
        packets += "; there may be more paths";
    }
    Ok(Report {
        paths: own.iter().zip(&texts).map(line).collect(),
        tables: table_lines(&switch, model, args.entries),
        compile_ms: model.compile_time_ms(profile::size_of(switch.program())),
        packets,
        prediction,
    })
}

/// The observations, with this many entries in each table with a key.
fn with_entries(switch: &Switch, mut seen: Seen, entries: Option<u32>) -> Seen {
    if let Some(entries) = entries {
        let has_key = |id: TableId| !switch.program().tables[id.index()].keys.is_empty();
        seen.entries = tables(switch).map(|id| if has_key(id) { entries } else { 0 }).collect();
    }
    seen
}

fn table_lines(switch: &Switch, model: &Model, assumed: Option<u32>) -> Vec<TableLine> {
    let lines = tables(switch).filter_map(|id| {
        let table = switch.table(id);
        let structure = table.structure_name()?;
        let mut entries: Vec<f64> = ENTRIES.to_vec();
        entries.extend(assumed.map(f64::from));
        let declared = f64::from(switch.program().tables[id.index()].size);
        let fits = |entries: &f64| *entries <= declared;
        let predicted = |entries: &f64| model.table_bytes(&structure, *entries).filter(|_| fits(entries));
        let predicted = entries.iter().map(predicted).collect();
        let (entries, bytes) = (table.len(), table.memory_bytes());
        let name = switch.program().tables[id.index()].name.clone();
        Some(TableLine { name, entries, bytes, predicted, structure })
    });
    lines.collect()
}

impl Report {
    fn print(&self, name: &str, profile: &Profile, model: &Model, cores: usize) -> Result<(), Failure> {
        let Prediction { ns, interval: [low, high], .. } = self.prediction;
        say!("{name}: {ns:.1} ns a packet ({low:.1} to {high:.1}), {:.1} Mpps per core", 1e3 / ns)?;
        say!("for {}; nine of ten measurements are expected in the range", self.packets)?;
        say!("by {}: {}", profile.name, model.measured)?;
        say!("\n{:>8}  {:>6}  where the time goes", "ns", "share")?;
        for (part, of_part) in &self.prediction.parts {
            say!("{of_part:8.2}  {:5.1} %  {part}", 100.0 * of_part / ns)?;
        }
        say!("\n{:>6}  {:>8}  {:>6}  path", "number", "ns", "share")?;
        for (number, path) in (1..).zip(&self.paths) {
            say!("{number:6}  {:8.1}  {:5.1} %  {}", path.ns, 100.0 * path.share, path.text)?;
        }
        if cores > 1 {
            let (rate, source) = scaled(model, ns, cores);
            say!("\n{cores} cores: {rate:.1} Mpps ({source})")?;
        }
        if !self.tables.is_empty() {
            say!(
                "\n{:>9}  {:>10}  bytes with 1,000 / 10,000 / 100,000 / 1,000,000 entries; table",
                "entries",
                "bytes"
            )?;
            for table in &self.tables {
                let predicted: Vec<String> =
                    table.predicted[..ENTRIES.len()].iter().map(bytes_text).collect();
                let (predicted, structure) = (predicted.join(" / "), &table.structure);
                say!("{:9}  {:>10}  {predicted}; {} ({structure})", table.entries, table.bytes, table.name)?;
            }
        }
        say!("\ncompiles in {:.1} ms", self.compile_ms)?;
        let delays =
            LOADS.map(|load| format!("{load}: {:.3}", Model::sojourn_ns(&self.prediction, load) / 1e3));
        say!("mean delay in µs by load, with Poisson arrivals: {}", delays.join(", "))?;
        for feature in &self.prediction.unknown {
            say!("warning: the profile has no cost of \"{feature}\", which counts as nothing")?;
        }
        Ok(())
    }

    fn json(&self, profile: &Profile, model: &Model, cores: usize) -> Value {
        let Prediction { ns, interval, .. } = self.prediction;
        let parts = |parts: &[(String, f64)]| -> Vec<Value> {
            parts.iter().map(|(part, ns)| json!({ "part": part, "ns": round(*ns) })).collect()
        };
        let path = |path: &PathLine| {
            json!({
                "ns": round(path.ns), "interval_ns": path.interval.map(round), "share": path.share, "path": path.text,
                "parts": parts(&path.parts),
            })
        };
        let table = |table: &TableLine| {
            let predicted = ENTRIES.iter().zip(&table.predicted);
            let predicted: Vec<Value> =
                predicted.map(|(entries, bytes)| json!({ "entries": entries, "bytes": bytes })).collect();
            json!({
                "table": table.name, "structure": table.structure, "entries": table.entries, "bytes": table.bytes,
                "predicted": predicted,
            })
        };
        let delays = LOADS.map(|load| {
            let delay = Model::sojourn_ns(&self.prediction, load);
            json!({ "load": load, "rate_mpps": round(load * 1e3 / ns), "delay_us": round(delay / 1e3) })
        });
        let (rate, source) = scaled(model, ns, cores);
        json!({
            "profile": profile.name, "measured": model.measured, "packets": self.packets,
            "ns": round(ns), "interval_ns": interval.map(round), "mpps_per_core": round(1e3 / ns),
            "cores": { "cores": cores, "mpps": round(rate), "provenance": source },
            "parts": parts(&self.prediction.parts),
            "paths": self.paths.iter().map(path).collect::<Vec<_>>(),
            "tables": self.tables.iter().map(table).collect::<Vec<_>>(),
            "compile_ms": round(self.compile_ms), "delays": delays, "unknown": self.prediction.unknown,
        })
    }
}

fn bytes_text(bytes: &Option<f64>) -> String {
    match bytes {
        None => "-".to_string(),
        Some(bytes) if *bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        Some(bytes) => format!("{:.1} MB", bytes / 1e6),
    }
}

/// The rate of several workers in Mpps, and where the number comes from.
fn scaled(model: &Model, ns: f64, cores: usize) -> (f64, &'static str) {
    let one = 1e3 / ns;
    match model.two_workers {
        _ if cores == 1 => (one, "predicted"),
        // Each further core adds as much as the second one.
        Some(ratio) => {
            (one * (1.0 + (cores - 1) as f64 * (ratio - 1.0)), "scaled as two cores that were measured")
        }
        None => (one * cores as f64, "assumed to scale with the cores; only one could be measured"),
    }
}
