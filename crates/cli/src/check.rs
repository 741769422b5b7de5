//! `p4jet check`: compile only.

use crate::compile::{self, Compiled, EngineArg, Format, ProgramArgs, STDIN, SourceArgs, is_stdin};
use crate::failure::Failure;
use crate::output;
use crate::output::say;
use p4jet_dataplane::{EngineKind, Seen};
use p4jet_syntax::json;
use p4jet_tools::constructs::{self, Constructs};
use p4jet_tools::{complexity, derive};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Options of `check`.
#[derive(clap::Args)]
pub struct Args {
    /// The P4_16 programs, compiled independently; - is standard input.
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// Format of diagnostics: text for people, or one JSON object per line.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    diagnostics: Format,
    /// Engine to compile for; interp skips machine code.
    #[arg(long, value_enum, default_value = "jit")]
    engine: EngineArg,
    /// Print the pipeline IR after all passes.
    #[arg(long)]
    ir: bool,
    /// Print the plan of the machine code: stages and cuts, which stages are optimised, what each stage reads and from
    /// where, lookups, extern calls.
    #[arg(long)]
    plan: bool,
    /// Print the machine code.
    #[arg(long)]
    asm: bool,
    /// Print the time of each step of the compilation.
    #[arg(long)]
    time: bool,
    /// Print the complexity of the program: in total, and on each path of a packet.
    #[arg(long, group = "report", conflicts_with_all = ["ir", "plan", "asm", "time"])]
    complexity: bool,
    /// Print what runs on each path of a packet: headers parsed, modified, copied, removed and added, tables, bytes.
    #[arg(long, group = "report", conflicts_with_all = ["ir", "plan", "asm", "time"])]
    constructs: bool,
    /// Runtime commands that the program starts with, for --constructs.
    #[arg(long, value_name = "FILE", requires = "constructs")]
    commands: Option<PathBuf>,
    /// Print JSON instead of Markdown.
    #[arg(long, requires = "report")]
    json: bool,
    /// Write the graph of parsers and controls as an SVG picture.
    #[arg(long, value_name = "FILE", requires = "complexity")]
    svg: Option<PathBuf>,
    /// Write the graph in Graphviz format.
    #[arg(long, value_name = "FILE", requires = "complexity")]
    dot: Option<PathBuf>,
}

/// Checks every program, even after one with errors.
pub fn run(args: &Args) -> Result<(), Failure> {
    let results = [args.ir, args.plan, args.asm, args.time, args.complexity, args.constructs];
    if args.programs.len() > 1 && results.contains(&true) {
        let text = "--ir, --plan, --asm, --time, --complexity and --constructs take one program";
        return Err(Failure::Usage(text.to_string()));
    }
    if args.programs.iter().filter(|program| is_stdin(program)).count() > 1 {
        return Err(Failure::Usage("- is given twice: standard input can be read only once".to_string()));
    }
    let source = SourceArgs { diagnostics: args.diagnostics, ..args.source.clone() };
    let mut wrong = false;
    for program in &args.programs {
        let name = if is_stdin(program) { STDIN.to_string() } else { program.display().to_string() };
        match check(args, program, &source, &name) {
            Ok(()) => {}
            Err(failure) if failure.status() == 1 => {
                report(failure, &name, args.diagnostics);
                wrong = true;
            }
            Err(failure) => return Err(failure),
        }
    }
    if wrong { Err(Failure::Reported) } else { Ok(()) }
}

/// Prints on standard error why a program cannot be compiled.
fn report(failure: Failure, file: &str, format: Format) {
    match (failure, format) {
        (Failure::Input(text), Format::Json) => {
            eprint!("{}", json::line_without_place(file, "internal", text.trim_end()));
        }
        (failure, _) => failure.report(),
    }
}

/// Refuses everything that `run` would refuse, for which it compiles to machine code, and wrong constraints. Accepts a correct
/// program that is not a switch, such as a library or one for another architecture.
fn check(args: &Args, program: &Path, source: &SourceArgs, name: &str) -> Result<(), Failure> {
    let mut typed = compile::front_end(&ProgramArgs { program: program.into(), source: source.clone() })?;
    if let Some(why) = typed.no_switch(&source.arch) {
        typed.show_warnings();
        return say!("{}: fine as P4, but {why}", name);
    }
    typed.check_constraints(&source.arch)?;
    let mut compiled = typed.lower(&source.arch)?;
    if args.ir {
        output::write(format_args!("{}", p4jet_ir::text::print(&compiled.program)))?;
    }
    if let Some(why) = compiled.why_not_run() {
        return say!("{}: fine as P4, but {why}", name);
    }
    if args.complexity {
        return complexity(args, &compiled);
    }
    if args.constructs {
        return constructs(args, &compiled);
    }
    let start = Instant::now();
    let switch = compiled.switch(compiled.program.clone(), p4jet_jit::Options::default(), 1)?;
    compiled.times.push(("tables", start.elapsed()));
    if args.engine == EngineArg::Jit {
        let start = Instant::now();
        let code = switch
            .compile(
                &Seen::default(),
                p4jet_jit::Options { plan: args.plan, listing: args.asm, ..Default::default() },
            )
            .map_err(|e| compiled.refused(&switch.program_error(&e)))?;
        compiled.times.push(("machine code", start.elapsed()));
        if let Some(plan) = code.plan() {
            output::write(format_args!("{plan}"))?;
        }
        if let Some(listing) = code.listing() {
            output::write(format_args!("{listing}"))?;
        }
    } else {
        switch.worker(EngineKind::Interp, 0).map_err(|error| compiled.refused(&error))?;
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

fn complexity(args: &Args, compiled: &Compiled) -> Result<(), Failure> {
    let write = |path: &PathBuf, text: String| {
        p4jet_files::write(path, text)
            .map_err(|e| Failure::Environment(format!("cannot write {}: {e}", path.display())))
    };
    let options = derive::Options::default();
    let found = complexity::complexity(&compiled.lowered, &compiled.typed, &options);
    let found = found.map_err(|error| failure(compiled, error))?;
    if let Some(path) = &args.dot {
        write(path, complexity::dot(&compiled.typed))?;
    }
    if let Some(path) = &args.svg {
        write(path, complexity::svg(&compiled.typed))?;
    }
    if args.json {
        say!("{}", found.to_json())
    } else {
        output::write(format_args!("{}", found.markdown(&compiled.lowered.name)))
    }
}

fn constructs(args: &Args, compiled: &Compiled) -> Result<(), Failure> {
    let found = constructs_of(compiled, args.commands.as_deref())?;
    if args.json {
        say!("{}", found.to_json())
    } else {
        output::write(format_args!("{}", found.markdown(&compiled.lowered.name)))
    }
}

/// What runs on each path of a program that starts with the runtime commands in a file.
pub fn constructs_of(compiled: &Compiled, commands: Option<&Path>) -> Result<Constructs, Failure> {
    let commands = match commands {
        Some(path) => Some((path.display().to_string(), output::read_text(path)?)),
        None => None,
    };
    let options = derive::Options { commands, ..derive::Options::default() };
    constructs::constructs(&compiled.lowered, &compiled.program, &options)
        .map_err(|error| failure(compiled, error))
}

/// The failure of a tool on a program.
pub fn failure(compiled: &Compiled, error: p4jet_tools::Error) -> Failure {
    match error {
        p4jet_tools::Error::Program(error) => compiled.refused(&error),
        other => other.into(),
    }
}
