//! `p4jet profile fit`: from the delays of micro-benchmarks to a profile.

use crate::failure::Failure;
use crate::output::{self, say};
use clap::builder::PossibleValuesParser;
use p4jet_predict::measurements::{self, Measurements, Options};
use p4jet_predict::profile::{Architecture, Kind, Profile};
use std::path::PathBuf;

/// Options of `profile fit`.
#[derive(clap::Args)]
pub struct Args {
    /// CSV files of delays, with the columns family, count, frame_bytes, delay_us and, optionally, round.
    #[arg(required = true, value_name = "MEASUREMENTS")]
    measurements: Vec<PathBuf>,
    /// Name of the profile: letters, digits, - and _.
    #[arg(long, value_name = "NAME", default_value = "measured")]
    name: String,
    /// What the device is.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Kind of the device.
    #[arg(long, value_parser = names(Kind::ALL, Kind::name), default_value = "cpu")]
    kind: String,
    /// An architecture that the device runs; repeatable.
    #[arg(long, value_parser = names(Architecture::ALL, Architecture::name), default_value = "v1model")]
    architecture: Vec<String>,
    /// Use the medians of delays, which outliers hardly change, instead of the means.
    #[arg(long)]
    median: bool,
    /// Write the profile to this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> PossibleValuesParser {
    PossibleValuesParser::new(all.iter().map(|one| name(*one)).collect::<Vec<_>>())
}

/// Prints the fits and writes the profile.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut measurements = Measurements::default();
    for path in &args.measurements {
        let read = measurements.read(&path.display().to_string(), &output::read_text(path)?);
        read.map_err(|mistakes| Failure::Input(mistakes.to_string()))?;
    }
    let kind = Kind::ALL.iter().find(|kind| kind.name() == args.kind);
    let is_given = |arch: &&Architecture| args.architecture.iter().any(|given| given == arch.name());
    let options = Options {
        name: args.name.clone(),
        description: args.description.clone(),
        kind: *kind.expect("clap accepts only these names"),
        architectures: Architecture::ALL.iter().filter(is_given).copied().collect(),
        median: args.median,
    };
    let fitted =
        measurements::fit(&measurements, &options).map_err(|error| Failure::Input(error.to_string()))?;
    let text = fitted.profile.to_toml();
    // What `predict` refuses must not be written, such as a wrong name.
    Profile::parse("profile", &text).map_err(|mistakes| Failure::Input(mistakes.to_string()))?;
    if let Some(path) = &args.output {
        p4jet_files::write(path, text)
            .map_err(|error| Failure::Environment(format!("cannot write {}: {error}", path.display())))?;
    }
    if args.json { say!("{}", fitted.to_json()) } else { output::write(format_args!("{}", fitted.to_text())) }
}
