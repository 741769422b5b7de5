//! `p4jet check`: compile only.

use crate::compile::{self, EngineArg, ProgramArgs};
use crate::failure::Failure;
use crate::output;
use crate::output::say;
use p4jet_dataplane::{EngineKind, Seen};
use p4jet_ir::Program;
use p4jet_tools::{complexity, derive};
use std::path::PathBuf;
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
    /// Print how complex the program is: in all, and on each way that a packet may take.
    #[arg(long, conflicts_with_all = ["ir", "asm", "time"])]
    complexity: bool,
    /// JSON instead of Markdown.
    #[arg(long, requires = "complexity")]
    json: bool,
    /// Write the parser's and the controls' graph as a picture.
    #[arg(long, value_name = "FILE", requires = "complexity")]
    svg: Option<PathBuf>,
    /// Write that graph as a Graphviz text.
    #[arg(long, value_name = "FILE", requires = "complexity")]
    dot: Option<PathBuf>,
}

/// Compiles down to machine code, so that what `run` would refuse is refused here; except that a program
/// which is no switch, being a library or for another architecture, is fine here if it is right.
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
    if args.complexity {
        return complexity(args, &compiled.lowered);
    }
    let start = Instant::now();
    let switch = compile::switch(compiled.program.clone(), 1)?;
    compiled.times.push(("tables", start.elapsed()));
    if args.engine == EngineArg::Jit {
        let start = Instant::now();
        let code = switch
            .compile(&Seen::default(), p4jet_jit::Options { listing: args.asm, ..Default::default() })
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

/// Ways through the parser that are counted.
const PATHS_MAX: usize = 256;
/// How often a way may come to the same decision.
const VISITS_MAX: u32 = 4;

fn complexity(args: &Args, program: &Program) -> Result<(), Failure> {
    let write = |path: &PathBuf, text: String| {
        std::fs::write(path, text)
            .map_err(|e| Failure::Environment(format!("cannot write {}: {e}", path.display())))
    };
    if let Some(path) = &args.dot {
        write(path, complexity::dot(program))?;
    }
    if let Some(path) = &args.svg {
        write(path, complexity::svg(program))?;
    }
    let options =
        derive::Options { port: None, paths_max: PATHS_MAX, visits_max: VISITS_MAX, seed: 1, commands: None };
    let found = complexity::complexity(program, &options)?;
    if args.json {
        say!("{}", found.to_json())
    } else {
        output::write(format_args!("{}", found.markdown(&program.name)))
    }
}
