//! `p4jet predict`: delays of programs on devices, from the counts of their constructs.

use crate::check::constructs_of;
use crate::compile::{self, Compiled, ProgramArgs, SourceArgs};
use crate::failure::Failure;
use crate::output::{self, say};
use crate::{predict_check, predict_own};
use p4jet_predict::construct::Counts;
use p4jet_predict::error::Invalid;
use p4jet_predict::estimate::{self, Path};
use p4jet_predict::profile::{self, Profile};
use p4jet_tools::constructs;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Options of `predict`.
#[derive(clap::Args)]
pub struct Args {
    /// P4_16 program, of which each path is counted; - is standard input.
    #[arg(value_name = "PROGRAM", conflicts_with_all = ["counts", "path_share", "show"])]
    program: Option<PathBuf>,
    #[command(flatten)]
    pub source: SourceArgs,
    /// Runtime commands that the program starts with.
    #[arg(long, value_name = "FILE", requires = "program")]
    pub commands: Option<PathBuf>,
    /// Share of the packets that take a path of PROGRAM, by the path's number; repeatable.
    #[arg(long, value_name = "NUMBER:SHARE", requires = "program", conflicts_with = "pcap")]
    pub share: Vec<String>,
    /// With a profile of p4jet: packets of PROGRAM, a pcap or pcapng capture; by default one packet for each path.
    #[arg(long, value_name = "FILE", requires = "program")]
    pub pcap: Option<PathBuf>,
    /// Ingress port of the packets of --pcap.
    #[arg(long, value_name = "N", requires = "pcap")]
    pub port: Option<u32>,
    /// With a profile of p4jet: number of cores, each with its own worker.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cores: u16,
    /// With a profile of p4jet: assume that each table has this many entries, instead of those of --commands.
    #[arg(long, value_name = "N", requires = "program", value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    pub entries: Option<u32>,
    /// Predict p4jet's own speed for a fixed set of programs, measure it, and print the errors.
    #[arg(long, conflicts_with_all = ["program", "counts", "path_share", "show"])]
    check: bool,
    /// Only cases with this in their name, for --check.
    #[arg(long, value_name = "TEXT", requires = "check", default_value = "", hide_default_value = true)]
    only: String,
    #[command(flatten)]
    profiles: Profiles,
    #[command(flatten)]
    path: PathArgs,
    /// A path through the program, its share of the packets, and its constructs; repeatable, instead of --counts.
    #[arg(long, value_name = "NAME:SHARE:COUNTS", conflicts_with = "counts")]
    path_share: Vec<String>,
    /// Utilisation of the device, to be warned of queues.
    #[arg(long, value_name = "LOAD", allow_hyphen_values = true)]
    load: Option<f64>,
    /// Print the profiles' numbers with their provenance instead.
    #[arg(long, conflicts_with_all = ["counts", "path_share"])]
    show: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Profiles of devices.
#[derive(clap::Args)]
pub struct Profiles {
    /// Shipped profile or TOML file; repeatable; by default all shipped profiles.
    #[arg(long, value_name = "NAME|FILE")]
    profile: Vec<String>,
}

/// What a path does.
#[derive(clap::Args)]
pub struct PathArgs {
    /// Constructs of a path: parsed headers - 1, modified, copied, removed and added headers, tables - 1.
    #[arg(long, value_name = "N,N,N,N,N,N", allow_hyphen_values = true)]
    counts: Option<String>,
    /// Size of the frames; by default the largest of the profile.
    #[arg(long, value_name = "BYTES")]
    frame_bytes: Option<u32>,
    /// Total size of the added headers.
    #[arg(long, value_name = "BYTES")]
    added_bytes: Option<u32>,
    /// Total size of the removed headers.
    #[arg(long, value_name = "BYTES")]
    removed_bytes: Option<u32>,
    /// An extern that the path calls; repeatable.
    #[arg(long = "extern", value_name = "NAME")]
    externs: Vec<String>,
    /// Number of flows, to be warned if there are several.
    #[arg(long, value_name = "N")]
    flows: Option<u64>,
}

impl Profiles {
    /// The profiles.
    pub fn read(&self) -> Result<Vec<Profile>, Failure> {
        if self.profile.is_empty() {
            return Ok(Profile::shipped());
        }
        let read = |name: &String| {
            let found = Profile::find(name, |path| p4jet_files::read_text(path, profile::FILE_BYTES_MAX));
            found.map_err(|mistakes| Failure::Input(mistakes.to_string()))
        };
        self.profile.iter().map(read).collect()
    }
}

impl PathArgs {
    /// The path. `None` without counts.
    pub fn path(&self) -> Result<Option<Path>, Failure> {
        let counts = self.counts.as_deref().map(Counts::parse).transpose().map_err(invalid)?;
        Ok(counts.map(|counts| self.with(counts)))
    }

    fn with(&self, counts: Counts) -> Path {
        Path {
            counts,
            frame_bytes: self.frame_bytes,
            added_bytes: self.added_bytes,
            removed_bytes: self.removed_bytes,
            externs: self.externs.clone(),
            flows: self.flows,
            load: None,
        }
    }
}

/// A wrong value on the command line.
pub fn invalid(error: Invalid) -> Failure {
    Failure::Usage(error.to_string())
}

/// Prints the estimates.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.check || (args.program.is_some() && args.profiles.profile.is_empty()) {
        let profile = match args.profiles.profile.as_slice() {
            [] => predict_own::of_this_machine()?,
            [_] => args.profiles.read()?.remove(0),
            _ => return Err(Failure::Usage("--check: expected one --profile, of p4jet".to_string())),
        };
        let model = predict_own::model(&profile).unwrap_or_else(|| {
            let name = &profile.name;
            Err(Failure::Input(format!(
                "profile {name}: it has no model of p4jet; `p4jet profile` writes one"
            )))
        })?;
        return match &args.program {
            Some(program) => predict_own::run(args, program, &profile, &model),
            None => predict_check::run(&model, &args.only, args.json),
        };
    }
    let profiles = args.profiles.read()?;
    if args.show {
        return match args.json {
            true => say!("{}", json!(profiles.iter().map(Profile::to_json).collect::<Vec<_>>())),
            false => {
                profiles.iter().try_for_each(|profile| output::write(format_args!("{}", profile.to_text())))
            }
        };
    }
    if let Some(program) = &args.program {
        let (own, others): (Vec<Profile>, Vec<Profile>) =
            profiles.into_iter().partition(|profile| profile.p4jet.is_some());
        for profile in &own {
            if let Some(model) = predict_own::model(profile) {
                predict_own::run(args, program, profile, &model?)?;
            }
        }
        return if others.is_empty() { Ok(()) } else { of_program(args, program, &others) };
    }
    let (mut texts, mut documents) = (Vec::new(), Vec::new());
    if let Some(path) = args.path.path()? {
        let path = Path { load: args.load, ..path };
        for profile in &profiles {
            let estimate = estimate::estimate(profile, &path).map_err(invalid)?;
            texts.push(estimate.to_text());
            documents.push(estimate.to_json());
        }
    } else if args.path_share.is_empty() {
        return Err(Failure::Usage("expected PROGRAM, --counts, --path-share or --show".to_string()));
    } else {
        let paths: Result<Vec<_>, Failure> =
            args.path_share.iter().map(|text| named_path(text, args)).collect();
        let paths = paths?;
        for profile in &profiles {
            let mix = estimate::mix(profile, &paths).map_err(invalid)?;
            texts.push(mix.to_text());
            documents.push(mix.to_json());
        }
    }
    if args.json { say!("{}", json!(documents)) } else { output::write(format_args!("{}", texts.join("\n"))) }
}

/// Reads `NAME:SHARE:COUNTS`.
fn named_path(text: &str, args: &Args) -> Result<(String, f64, Path), Failure> {
    let wrong = || {
        Failure::Usage(format!("--path-share {text}: expected NAME:SHARE:COUNTS, such as l3:0.9:1,2,0,0,0,0"))
    };
    let mut parts = text.splitn(3, ':');
    let (Some(name), Some(share), Some(counts)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    let counts = Counts::parse(counts).map_err(invalid)?;
    let path = Path { load: args.load, ..args.path.with(counts) };
    Ok((name.to_string(), share.parse().map_err(|_| wrong())?, path))
}

/// Prints the estimates of each path of a program, and of their mix if shares are given.
fn of_program(args: &Args, program: &std::path::Path, profiles: &[Profile]) -> Result<(), Failure> {
    let compiled = compile::compile(&ProgramArgs { program: program.into(), source: args.source.clone() })?;
    let found = paths(args, &compiled)?;
    let shares = shares(&args.share, found.paths.len())?;
    let (mut texts, mut documents) = (Vec::new(), Vec::new());
    for profile in profiles {
        let mut text = format!("{}\n", profile.name);
        let mut warnings = Vec::new();
        let (mut lines, mut mixed) = (Vec::new(), Vec::new());
        for (number, path) in (1..).zip(&found.paths) {
            let x = path.x();
            let counts = Counts::new(x.map(|n| i32::try_from(n).unwrap_or(i32::MAX))).map_err(invalid)?;
            let calls =
                path.counts.externs.iter().filter(|calls| profile.externs.contains_key(&calls.function));
            let externs = calls.flat_map(|calls| (0..calls.calls).map(|_| calls.function.clone()));
            let mut estimated = Path { load: args.load, ..args.path.with(counts) };
            estimated.externs.extend(externs);
            let estimate = estimate::estimate(profile, &estimated).map_err(invalid)?;
            let unknown = path.counts.externs.iter().map(|calls| &calls.function);
            for function in unknown.filter(|function| !profile.externs.contains_key(*function)) {
                warnings.push(format!("the profile has no extern {function}, which counts as nothing"));
            }
            warnings.extend(estimate.warnings.iter().map(|warning| format!("path {number}: {warning}")));
            let tables: Vec<&str> = path.tables().collect();
            text += &format!(
                "  path {number:>3} {:>10.2} µs  [{}]  {}{}{}\n",
                estimate.us,
                x.map(|n| n.to_string()).join(" "),
                path.states.join(" "),
                if tables.is_empty() { "" } else { "; " },
                tables.join(" ")
            );
            lines.push(json!({
                "path": number, "states": path.states, "tables": tables, "decisions": path.decisions, "sent": path.sent,
                "x": x, "estimate": estimate.to_json()
            }));
            if let Some((_, share)) = shares.iter().find(|(of, _)| *of == number) {
                mixed.push((number.to_string(), *share, estimated));
            }
        }
        let mean = match mixed.is_empty() {
            true => Value::Null,
            false => {
                let mean = estimate::mix(profile, &mixed).map_err(invalid)?.us;
                text += &format!("  mean     {mean:>10.2} µs\n");
                json!(mean)
            }
        };
        warnings.sort();
        warnings.dedup();
        warnings.iter().for_each(|warning| text += &format!("  warning: {warning}\n"));
        if found.more {
            text += "  There may be more paths.\n";
        }
        texts.push(text);
        documents.push(json!({
            "profile": profile.name, "paths": lines, "paths_more": found.more, "mean_us": mean, "warnings": warnings
        }));
    }
    if args.json { say!("{}", json!(documents)) } else { output::write(format_args!("{}", texts.join("\n"))) }
}

fn paths(args: &Args, compiled: &Compiled) -> Result<constructs::Constructs, Failure> {
    if let Some(why) = compiled.why_not_run() {
        return Err(Failure::Input(format!("{}: {why}", compiled.lowered.name)));
    }
    constructs_of(compiled, args.commands.as_deref())
}

/// Reads `NUMBER:SHARE`, for each path at most once.
pub fn shares(texts: &[String], paths: usize) -> Result<Vec<(u32, f64)>, Failure> {
    let mut shares: Vec<(u32, f64)> = Vec::new();
    for text in texts {
        let read = text.split_once(':').and_then(|(of, share)| Some((of.parse().ok()?, share.parse().ok()?)));
        let found = read.filter(|(of, _)| (1..=paths as u32).contains(of));
        let Some((of, share)) = found else {
            return Err(Failure::Usage(format!(
                "--share {text}: expected NUMBER:SHARE with the number of a path, 1 to {paths}, such as 1:0.9"
            )));
        };
        if shares.iter().any(|(other, _)| *other == of) {
            return Err(Failure::Usage(format!("--share {text}: path {of} has a share already")));
        }
        shares.push((of, share));
    }
    Ok(shares)
}
