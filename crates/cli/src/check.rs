//! `p4jet check`: compile only.

use crate::compile::{self, EngineArg, ProgramArgs};
use crate::failure::Failure;
use crate::output;
use crate::output::say;
use p4jet_dataplane::EngineKind;
use std::time::Instant;

/// Options of `check`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// With interp, no machine code is made.
    #[arg(long, value_enum, default_value = "jit")]
    engine: EngineArg,
    /// Print the pipeline IR after all passes.
    #[arg(long)]
    ir: bool,
    /// Print the machine code.
    #[arg(long)]
    asm: bool,
    /// Print the time of each stage.
    #[arg(long)]
    time: bool,
}

/// Compiles down to machine code, so that what `run` would refuse is refused here; except that a program which is no
/// switch, being a library or for another architecture, is fine here if it is right.
pub fn run(args: &Args) -> Result<(), Failure> {
    let typed = compile::front_end(&args.program)?;
    if let Some(why) = typed.no_switch(&args.program.arch) {
        typed.show_warnings();
        return say!("{}: fine as P4, but {why}", args.program.program.display());
    }
    let mut compiled = typed.lower(&args.program.arch)?;
    if args.ir {
        output::write(format_args!("{}", p4jet_ir::text::print(&compiled.program)))?;
    }
    if let Some(function) = compiled.foreign_function() {
        let why = p4jet_ir::unknown_extern(function);
        return say!("{}: fine as P4, but {why}", args.program.program.display());
    }
    let start = Instant::now();
    let switch = compile::switch(compiled.program.clone(), 1)?;
    compiled.times.push(("tables", start.elapsed()));
    if args.engine == EngineArg::Jit {
        let start = Instant::now();
        let code = switch
            .compile(p4jet_jit::Options { listing: args.asm, ..Default::default() })
            .map_err(|e| Failure::Input(switch.describe(&e)))?;
        compiled.times.push(("machine code", start.elapsed()));
        if let Some(listing) = code.listing() {
            output::write(format_args!("{listing}"))?;
        }
    } else {
        switch.worker(EngineKind::Interp, 0).map_err(Failure::Input)?;
    }
    if args.time {
        for (stage, time) in &compiled.times {
            say!("{stage:<14}{:>9.3} ms", time.as_secs_f64() * 1e3)?;
        }
        let total: f64 = compiled.times.iter().map(|(_, t)| t.as_secs_f64()).sum();
        say!("{:<14}{:>9.3} ms", "all", total * 1e3)?;
    }
    Ok(())
}
