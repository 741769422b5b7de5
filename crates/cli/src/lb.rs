//! `p4jet lb`: how evenly hashes spread hosts over servers.

use crate::failure::Failure;
use crate::output::{self, say};
use clap::ValueEnum;
use p4jet_tools::lb::{self, Family, Hash, Input};
use std::path::PathBuf;

/// Options of `lb`.
#[derive(clap::Args)]
pub struct Args {
    /// Kind of the hosts' addresses.
    #[arg(long, value_enum, default_value = "ipv4")]
    family: FamilyArg,
    /// Input of the hash: the bytes of the address, or its text with a newline.
    #[arg(long, value_enum, default_value = "bytes")]
    input: InputArg,
    /// Largest number of hosts, a power of two; smaller powers of two are studied, too.
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    hosts: u64,
    /// Numbers of servers.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "2,4,8,16,32,64,128,256")]
    servers: Vec<u64>,
    /// Hashes, or polynomials in Koopman's notation as koopman:0xd175; by default all hashes.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    hash: Vec<String>,
    /// Number of draws of addresses.
    #[arg(long, value_name = "N", default_value_t = 50)]
    repetitions: u64,
    /// Seed of the draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of threads; by default one per core.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write heat maps as an SVG picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FamilyArg {
    Ipv4,
    Ipv6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InputArg {
    Bytes,
    Text,
}

/// Maximum number of threads.
const THREADS_MAX: usize = 1024;

/// Runs the study.
pub fn run(args: &Args) -> Result<(), Failure> {
    let all: Vec<String> = Hash::names().into_iter().map(str::to_string).collect();
    let names = if args.hash.is_empty() { &all } else { &args.hash };
    let hashes: Result<Vec<Hash>, String> = names.iter().map(|name| Hash::by_name(name)).collect();
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let study = lb::study(&lb::Options {
        family: if args.family == FamilyArg::Ipv4 { Family::Ipv4 } else { Family::Ipv6 },
        input: if args.input == InputArg::Bytes { Input::Bytes } else { Input::Text },
        hosts_max: args.hosts,
        servers: args.servers.clone(),
        hashes: hashes.map_err(Failure::Usage)?,
        repetitions: args.repetitions,
        seed: args.seed,
        threads: args.threads.unwrap_or_else(cores).clamp(1, THREADS_MAX),
    })?;
    if let Some(path) = &args.svg {
        p4jet_files::write(path, study.svg())
            .map_err(|e| Failure::Environment(format!("cannot write {}: {e}", path.display())))?;
    }
    if args.json { say!("{}", study.to_json()) } else { output::write(format_args!("{}", study.markdown())) }
}
