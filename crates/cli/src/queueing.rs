//! `p4jet queue`: delay and stability of a switch with a controller under load.

use crate::failure::Failure;
use crate::output::{self, say};
use crate::predict::{PathArgs, Profiles, invalid};
use clap::ValueEnum;
use p4jet_predict::error::Invalid;
use p4jet_predict::estimate;
use p4jet_predict::queueing::{self, Demand, Error, Model, Service, System};
use p4jet_predict::simulate::{self, ErrorMap, Law};
use p4jet_predict::thesis;
use serde_json::json;

/// Options of `queue`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Compute the delay at some rates, by two models of queues.
    Model(ModelArgs),
    /// Simulate packets at some rates.
    Simulate(SimulateArgs),
    /// Show which devices keep a bound on the delay.
    Select(SelectArgs),
    /// Compare a model with simulation in 151 cases of the published study.
    Errors(ErrorsArgs),
}

/// The controller, and how many packets it sees.
#[derive(clap::Args)]
struct ControllerArgs {
    /// Share of packets of new flows, which go to the controller and back.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_hyphen_values = true)]
    new_flows: f64,
    /// Mean service time of the controller.
    #[arg(long, value_name = "US", default_value_t = thesis::CONTROLLERS_US[1], allow_hyphen_values = true)]
    controller_us: f64,
    /// Standard deviation of that time; by default 10 % of it.
    #[arg(long, value_name = "US", allow_hyphen_values = true)]
    controller_deviation_us: Option<f64>,
}

impl ControllerArgs {
    fn service(&self) -> Result<Service, Invalid> {
        let deviation =
            self.controller_deviation_us.unwrap_or(thesis::CONTROLLER_VARIATION * self.controller_us);
        Service::new(self.controller_us, deviation)
    }
}

/// A switch with a controller, and rates.
#[derive(clap::Args)]
struct SystemArgs {
    /// Mean service time of the data plane, instead of --profile and --counts.
    #[arg(long, value_name = "US", conflicts_with_all = ["profile", "counts"], allow_hyphen_values = true)]
    service_us: Option<f64>,
    /// Standard deviation of that time; by default that of the profile.
    #[arg(long, value_name = "US", allow_hyphen_values = true)]
    deviation_us: Option<f64>,
    #[command(flatten)]
    profiles: Profiles,
    #[command(flatten)]
    path: PathArgs,
    #[command(flatten)]
    controller: ControllerArgs,
    /// External rates in packets per µs.
    #[arg(long, value_name = "MPPS,…", value_delimiter = ',', allow_hyphen_values = true)]
    rate_mpps: Vec<f64>,
    /// Utilisations of the controller (of the data plane without new flows), instead of rates.
    #[arg(
        long,
        value_name = "LOAD,…",
        value_delimiter = ',',
        conflicts_with = "rate_mpps",
        allow_hyphen_values = true
    )]
    load: Vec<f64>,
}

impl SystemArgs {
    /// The system and the rates.
    fn read(&self) -> Result<(System, Vec<f64>), Failure> {
        let data_plane = match self.service_us {
            Some(mean) => Service::new(mean, known("--service-us", self.deviation_us)?),
            None => {
                let expected = "expected --service-us, or one --profile and --counts";
                let path = self.path.path()?.ok_or_else(|| Failure::Usage(expected.to_string()))?;
                let [profile] = &self.profiles.read()?[..] else {
                    return Err(Failure::Usage(expected.to_string()));
                };
                let found = estimate::estimate(profile, &path).map_err(invalid)?;
                for warning in &found.warnings {
                    eprintln!("warning: {warning}");
                }
                let of_profile = profile.deviation_us.as_ref().map(|number| number.value);
                Service::new(found.us, known(&profile.name, self.deviation_us.or(of_profile))?)
            }
        };
        let system = data_plane
            .and_then(|data_plane| {
                System::new(data_plane, self.controller.service()?, self.controller.new_flows)
            })
            .map_err(invalid)?;
        let rates = match (&self.rate_mpps[..], &self.load[..]) {
            ([], []) => return Err(Failure::Usage("expected --rate-mpps or --load".to_string())),
            ([], loads) => {
                let rates: Result<Vec<f64>, Invalid> =
                    loads.iter().map(|load| system.rate_at_load(*load)).collect();
                rates.map_err(invalid)?
            }
            (rates, _) => rates.to_vec(),
        };
        Ok((system, rates))
    }
}

/// A standard deviation that must be known.
fn known(of: &str, deviation: Option<f64>) -> Result<f64, Failure> {
    deviation
        .ok_or_else(|| Failure::Usage(format!("{of} has no standard deviation: expected --deviation-us")))
}

/// Options of `queue model`.
#[derive(clap::Args)]
struct ModelArgs {
    #[command(flatten)]
    system: SystemArgs,
    /// Also print the highest rates whose mean delay is at most this.
    #[arg(long, value_name = "US", allow_hyphen_values = true)]
    bound_us: Option<f64>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

/// How much to simulate.
#[derive(clap::Args)]
struct RunsArgs {
    /// Counted packets of a run.
    #[arg(long, value_name = "N", default_value_t = 1_300_000)]
    packets: u64,
    /// Packets before them that are not counted; by default 5 %.
    #[arg(long, value_name = "N")]
    warm_up: Option<u64>,
    /// Number of runs.
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u64,
    /// Seed of the first run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of threads; by default one per core.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl RunsArgs {
    fn options(&self) -> simulate::Options {
        let default = simulate::Options::default();
        let Self { packets, runs, seed, .. } = *self;
        let warm_up = self.warm_up.unwrap_or(packets / 20);
        simulate::Options { packets, warm_up, runs, seed, threads: self.threads.unwrap_or(default.threads) }
    }
}

/// Options of `queue simulate`.
#[derive(clap::Args)]
struct SimulateArgs {
    #[command(flatten)]
    system: SystemArgs,
    /// Distribution of service times at both servers.
    #[arg(long, value_enum, default_value = "erlang")]
    law: LawArg,
    #[command(flatten)]
    runs: RunsArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

/// Options of `queue select`.
#[derive(clap::Args)]
struct SelectArgs {
    #[command(flatten)]
    profiles: Profiles,
    #[command(flatten)]
    path: PathArgs,
    #[command(flatten)]
    controller: ControllerArgs,
    /// External rate in packets per µs.
    #[arg(long, value_name = "MPPS", allow_hyphen_values = true)]
    rate_mpps: f64,
    /// Largest accepted mean delay.
    #[arg(long, value_name = "US", allow_hyphen_values = true)]
    bound_us: f64,
    /// Model of the queues.
    #[arg(long, value_enum, default_value = "refined")]
    model: ModelArg,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

/// Options of `queue errors`.
#[derive(clap::Args)]
struct ErrorsArgs {
    /// Model of the queues.
    #[arg(long, value_enum, default_value = "refined")]
    model: ModelArg,
    #[command(flatten)]
    runs: RunsArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LawArg {
    Exponential,
    Erlang,
    Lognormal,
    Deterministic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModelArg {
    Simple,
    Refined,
}

impl ModelArg {
    fn model(self) -> Model {
        match self {
            ModelArg::Simple => Model::Simple,
            ModelArg::Refined => Model::Refined,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Model(args) => model(args),
        Command::Simulate(args) => simulate(args),
        Command::Select(args) => select(args),
        Command::Errors(args) => errors(args),
    }
}

fn model(args: &ModelArgs) -> Result<(), Failure> {
    let (system, rates) = args.system.read()?;
    let found = queueing::sweep(system, &rates, args.bound_us).map_err(invalid)?;
    if args.json { say!("{}", found.to_json()) } else { output::write(format_args!("{}", found.to_text())) }
}

fn simulate(args: &SimulateArgs) -> Result<(), Failure> {
    let (system, rates) = args.system.read()?;
    let law = match args.law {
        LawArg::Exponential => Law::Exponential,
        LawArg::Erlang => Law::Erlang,
        LawArg::Lognormal => Law::Lognormal,
        LawArg::Deterministic => Law::Deterministic,
    };
    let mut documents = Vec::new();
    for rate in rates {
        let found = simulate::simulate(system, rate, law, &args.runs.options()).map_err(failed)?;
        if args.json {
            documents.push(json!({ "rate_mpps": rate, "simulated": found.to_json() }));
        } else {
            output::write(format_args!("rate                   {rate:>12.6} Mpps\n{}", found.to_text()))?;
        }
    }
    if args.json { say!("{}", json!(documents)) } else { Ok(()) }
}

fn select(args: &SelectArgs) -> Result<(), Failure> {
    let path = args.path.path()?.ok_or_else(|| Failure::Usage("expected --counts".to_string()))?;
    let demand = Demand {
        path,
        rate_mpps: args.rate_mpps,
        new_flow_share: args.controller.new_flows,
        controller: args.controller.service().map_err(invalid)?,
        bound_us: args.bound_us,
        model: args.model.model(),
    };
    let found = queueing::select(&args.profiles.read()?, &demand).map_err(invalid)?;
    if args.json { say!("{}", found.to_json()) } else { output::write(format_args!("{}", found.to_text())) }
}

fn errors(args: &ErrorsArgs) -> Result<(), Failure> {
    let compared = simulate::compare(&simulate::grid(), args.model.model(), &args.runs.options());
    let map = ErrorMap::new(compared.map_err(failed)?);
    if args.json { say!("{}", map.to_json()) } else { output::write(format_args!("{}", map.to_text())) }
}

fn failed(error: Error) -> Failure {
    match error {
        Error::Invalid(error) => invalid(error),
        unstable @ Error::Unstable { .. } => Failure::Input(unstable.to_string()),
    }
}
