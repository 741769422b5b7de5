//! `p4jet`: the command line. The effects of commands and the exit statuses are a contract (docs/commands.md).

mod bench;
mod bench_p4runtime;
mod bmv2_json;
mod check;
mod churn;
mod compile;
mod control;
mod cores;
mod ctl;
mod demo;
mod failure;
mod gateway;
mod generate;
mod lanes;
mod lb;
mod log;
mod measure;
mod metrics;
mod output;
mod own_files;
mod p4c;
mod p4info;
mod p4runtime;
mod pipelined;
mod predict;
mod predict_check;
mod predict_own;
mod profile;
mod profile_fit;
mod queueing;
mod reserve;
mod run;
mod shell;
mod signal_stack;
mod simple_switch;
mod simple_switch_cli;
mod slices;
mod stages;
mod stats;
mod test;
mod top;
mod trace;
mod traffic;
mod warnings;
mod work;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use p4jet_suggest as suggest;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// A P4 switch for ordinary CPUs: compiles P4_16 to machine code and forwards packets with it.
#[derive(Parser)]
#[command(
    name = "p4jet",
    version,
    arg_required_else_help = true,
    after_help = "As simple_switch, simple_switch_grpc, simple_switch_CLI, p4c, p4c-bm2-ss or p4c-bm2-psa (by a link of that \
                        name, or with that word in place of a command), p4jet takes the command line of that program."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile programs and report errors; print nothing if all is well.
    Check(check::Args),
    /// Write a program's P4Info or its declared entries.
    P4info(p4info::Args),
    /// Run packet tests (STF): one line per file, then `N passed, M failed`.
    Test(test::Args),
    /// Run the switch.
    Run(Box<run::Args>),
    /// Send commands to a running switch.
    Ctl(ctl::Args),
    /// Show the rates of a running switch.
    Top(top::Args),
    /// Run one packet through the interpreter and print every step.
    Trace(trace::Args),
    /// Measure throughput over memory ports.
    Bench(bench::Args),
    /// Measure the rates of the P4Runtime server, with a built-in program.
    BenchP4runtime(bench_p4runtime::Args),
    /// Send frames into a switch and measure what comes out: rate, loss, latency.
    Traffic(traffic::Args),
    /// Generate traffic, and table entries that forward it.
    Gen(generate::Args),
    /// Measure how evenly hashes distribute hosts over servers.
    Lb(lb::Args),
    /// Predict the delay of a program on devices, from the counts of its constructs.
    Predict(predict::Args),
    /// Measure this machine for predictions of p4jet's own speed, or make the profile of another device.
    Profile(profile::Args),
    /// Predict the delay of a switch with a controller under load.
    Queue(queueing::Args),
    /// Control a VXLAN gateway: fill its tables from a configuration, check its back ends, learn stations.
    Gateway(gateway::Args),
    /// Control slices with bounded rate and delay: fill the tables of programs/vqueue from a configuration.
    Slices(slices::Args),
    /// Demonstrate p4jet on a shipped router; needs no files, no root, no interface.
    Demo(demo::Args),
    /// Print a shell completion script.
    Completions(shell::CompletionsArgs),
    /// Print the manual page, or write one per command.
    Man(shell::ManArgs),
}

/// Programs of bmv2 and p4c that p4jet emulates.
#[derive(Clone, Copy)]
enum Emulated {
    SimpleSwitch { grpc: bool },
    SimpleSwitchCli,
    P4c(p4c::Tool),
}

/// Their names.
const EMULATED: [&str; 7] = [
    "simple_switch",
    "simple_switch_grpc",
    "simple_switch_CLI",
    "p4c",
    "p4c-bm2-ss",
    "p4c-bm2-psa",
    "p4test",
];

/// Returns the program of bmv2 or p4c to emulate, by the name of this executable or by its first argument, and that program's
/// arguments.
fn emulated(args: &[OsString]) -> Option<(Emulated, &[OsString])> {
    args.iter().take(2).enumerate().find_map(|(at, name)| {
        let emulated = match Path::new(name).file_name()?.to_str()? {
            "simple_switch" => Emulated::SimpleSwitch { grpc: false },
            "simple_switch_grpc" => Emulated::SimpleSwitch { grpc: true },
            "simple_switch_CLI" => Emulated::SimpleSwitchCli,
            name => Emulated::P4c(p4c::Tool::by_name(name)?),
        };
        Some((emulated, &args[at + 1..]))
    })
}

fn main() -> ExitCode {
    signal_stack::restore();
    full_files_are_errors();
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some((emulated, args)) = emulated(&args) {
        return status(match emulated {
            Emulated::SimpleSwitch { grpc } => simple_switch::run(args, grpc),
            Emulated::SimpleSwitchCli => simple_switch_cli::run(args),
            Emulated::P4c(tool) => p4c::run(tool, args),
        });
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not failures; clap prints them to standard output.
            let status = if error.use_stderr() { 2 } else { 0 };
            match failure::wrong_number(&error) {
                Some(text) => eprint!("{text}"),
                None => drop(error.print()),
            }
            if let Some(meant) = command_meant(&error) {
                eprintln!("\ndid you mean `{meant}`?");
            }
            return ExitCode::from(status);
        }
    };
    status(match cli.command {
        Command::Check(args) => check::run(&args),
        Command::P4info(args) => p4info::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::BenchP4runtime(args) => bench_p4runtime::run(&args),
        Command::Traffic(args) => traffic::run(&args),
        Command::Gen(args) => generate::run(&args),
        Command::Lb(args) => lb::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Queue(args) => queueing::run(&args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Slices(args) => slices::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => shell::completions(&args, Cli::command()),
        Command::Man(args) => shell::man(&args, Cli::command()),
    })
}

/// Returns the command that was probably meant, if clap itself suggests none.
fn command_meant(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand || error.get(ContextKind::SuggestedSubcommand).is_some() {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let command = Cli::command();
    let names = command.get_subcommands().map(clap::Command::get_name).chain(EMULATED);
    suggest::nearest(word, names).map(str::to_string)
}

/// Makes a write beyond the maximum file size (`ulimit -f`) fail like one to a full disk, instead of ending the process
/// by a signal.
#[allow(unsafe_code)]
fn full_files_are_errors() {
    // SAFETY: no handler runs, and there is no other thread yet.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn status(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.status())
        }
    }
}
