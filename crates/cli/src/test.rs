//! `p4jet test`: packet tests.

use crate::compile::{self, Compiled, ProgramArgs};
use crate::failure::Failure;
use crate::output::say;
use clap::ValueEnum;
use p4jet_control::{Control, stf};
use p4jet_dataplane::{EngineKind, Switch};
use std::path::{Path, PathBuf};

/// Which executors run the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engines {
    /// Machine code.
    Jit,
    /// The reference interpreter.
    Interp,
    /// One after the other; a test passes if it passes on both.
    Both,
}

/// Options of `test`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// The packet tests.
    #[arg(required = true)]
    tests: Vec<PathBuf>,
    /// Which executor.
    #[arg(long, value_enum, default_value = "jit")]
    engine: Engines,
}

/// Runs each file on a fresh switch.
pub fn run(args: &Args) -> Result<(), Failure> {
    let compiled = compile::compile(&args.program)?;
    // For scripts that configure output queues.
    let queued = compiled.queued()?;
    let engines: &[EngineKind] = match args.engine {
        Engines::Jit => &[EngineKind::Jit],
        Engines::Interp => &[EngineKind::Interp],
        Engines::Both => &[EngineKind::Interp, EngineKind::Jit],
    };
    let (mut passed, mut failed, mut without) = (0, 0, 0);
    for path in &args.tests {
        let name = compile::stem(path);
        match run_file(&compiled, &queued, path, engines) {
            Ok(Passed { output, expects_something }) => {
                passed += 1;
                without += usize::from(!expects_something);
                let note = if expects_something { "" } else { " (no expectation)" };
                say!("PASS {name}{note}")?;
                eprint!("{output}");
            }
            Err(why) => {
                failed += 1;
                say!("FAIL {name}: {}", why.why)?;
                // One line a file on standard output; the differences and traces are for people.
                eprint!("{}", why.details);
            }
        }
    }
    let note = if without == 0 { String::new() } else { format!(", {without} without an expectation") };
    say!("{passed} passed, {failed} failed{note}")?;
    if failed == 0 { Ok(()) } else { Err(Failure::Reported) }
}

fn engine_name(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Jit => "jit",
        EngineKind::Interp => "interp",
    }
}

/// What is to be said of a file that passed.
struct Passed {
    /// What its commands printed.
    output: String,
    /// Whether it asks for anything but that nothing unexpected leaves.
    expects_something: bool,
}

/// Why a file failed.
struct Failed {
    /// In one line.
    why: String,
    /// Differences and traces; may be empty.
    details: String,
}

impl From<String> for Failed {
    fn from(why: String) -> Failed {
        Failed { why: why.trim_end().replace('\n', "; "), details: String::new() }
    }
}

fn run_file(
    compiled: &Compiled,
    queued: &Compiled,
    path: &Path,
    engines: &[EngineKind],
) -> Result<Passed, Failed> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let script = stf::parse(&text).map_err(|errors| wrong_script(path, &errors))?;
    if script.is_empty() {
        return Err(format!("{}: no statements, so nothing was tested", path.display()).into());
    }
    let (mut passed, mut failed) = (Vec::new(), Vec::<(&str, Failed)>::new());
    for &engine in engines {
        let compiled = if stf::configures_queues(&script) { queued } else { compiled };
        match run_script(compiled, &script, engine) {
            Ok(outcome) => passed.push(outcome),
            Err(why) => failed.push((engine_name(engine), why)),
        }
    }
    let Some((engine, first)) = failed.pop() else {
        let expects_something = passed.iter().all(|outcome| outcome.checks > 0);
        let output = passed.into_iter().next().map_or(String::new(), |outcome| outcome.output);
        return Ok(Passed { output, expects_something });
    };
    Err(match failed.pop() {
        None if engines.len() == 1 => first,
        None => Failed { why: format!("({engine}) {}", first.why), details: first.details },
        // Most often it is the program or the script that is wrong, and the engines agree.
        Some((other, second)) if second.why == first.why => {
            Failed { why: format!("({other}, {engine}) {}", first.why), details: second.details }
        }
        Some((other, second)) => Failed {
            why: format!("({other}) {}; ({engine}) {}", second.why, first.why),
            details: format!("({other})\n{}({engine})\n{}", second.details, first.details),
        },
    })
}

fn wrong_script(path: &Path, errors: &[stf::StfError]) -> Failed {
    let file = path.display().to_string();
    let first = errors.first().map_or(String::new(), |error| format!("{file}: {error}"));
    let more = match errors.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    Failed { why: first + &more, details: errors.iter().map(|error| error.render(&file)).collect() }
}

fn run_script(
    compiled: &Compiled,
    script: &[stf::Statement],
    engine: EngineKind,
) -> Result<stf::StfOutcome, Failed> {
    let switch = Switch::new(compiled.for_engine(engine))?;
    let mut control = Control::new(switch.clone());
    let mut worker = switch.worker(engine, 0)?;
    if switch.program().is_queued() {
        // Rates are of a time that goes on when the script waits.
        worker.set_time(Some(0));
    }
    // The traces are of the interpreter, which knows the program as lowering made it.
    let fresh = || Switch::new(compiled.for_engine(EngineKind::Interp)).map(Control::new);
    let outcome = stf::run_traced(script, &mut control, &mut worker, &fresh);
    if outcome.passed() {
        return Ok(outcome);
    }
    let why = outcome.report("").trim_start_matches("FAIL : ").to_string();
    Err(Failed { why, details: outcome.details() })
}
