//! `p4jet`: the command line. What each command does, and the exit statuses, are a contract (docs/commands.md).

mod bench;
mod check;
mod churn;
mod compile;
mod cores;
mod demo;
mod failure;
mod generate;
mod output;
mod run;
mod stages;
mod test;
mod trace;
mod warnings;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A P4 switch for ordinary CPUs: compiles P4_16 to machine code and forwards packets with it.
#[derive(Parser)]
#[command(name = "p4jet", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile only; print nothing when the program is fine.
    Check(check::Args),
    /// Run packet tests (STF); one line per file, `N passed, M failed` at the end.
    Test(test::Args),
    /// Be the switch.
    Run(run::Args),
    /// Send one packet through the interpreter and tell every step.
    Trace(trace::Args),
    /// Measure throughput over memory ports.
    Bench(bench::Args),
    /// Make traffic, and table entries that go with it.
    Gen(generate::Args),
    /// Show what p4jet does; needs no file, no root, no interface.
    Demo(demo::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no failure; clap prints them to standard output.
            let status = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    let result = match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Gen(args) => generate::run(&args),
        Command::Demo(args) => demo::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.status())
        }
    }
}
