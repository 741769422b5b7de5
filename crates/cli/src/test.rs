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
    let engines: &[EngineKind] = match args.engine {
        Engines::Jit => &[EngineKind::Jit],
        Engines::Interp => &[EngineKind::Interp],
        Engines::Both => &[EngineKind::Interp, EngineKind::Jit],
    };
    let (mut passed, mut failed) = (0, 0);
    for path in &args.tests {
        let name = compile::stem(path);
        let result = engines.iter().try_for_each(|&engine| {
            run_file(&compiled, path, engine).map_err(|failed| match engines.len() {
                1 => failed,
                _ => Failed { why: format!("{} {}", engine_name(engine), failed.why), ..failed },
            })
        });
        match result {
            Ok(()) => {
                passed += 1;
                say!("PASS {name}")?;
            }
            Err(why) => {
                failed += 1;
                say!("FAIL {name}: {}", why.why)?;
                // One line a file on standard output; the differences and traces are for people.
                eprint!("{}", why.details);
            }
        }
    }
    say!("{passed} passed, {failed} failed")?;
    if failed == 0 { Ok(()) } else { Err(Failure::Reported) }
}

fn engine_name(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Jit => "(jit)",
        EngineKind::Interp => "(interp)",
    }
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

fn run_file(compiled: &Compiled, path: &Path, engine: EngineKind) -> Result<(), Failed> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let script = stf::parse(&text).map_err(|e| format!("{}:{e}", path.display()))?;
    if script.is_empty() {
        return Err(format!("{}: no statements, so nothing was tested", path.display()).into());
    }
    let switch = Switch::new(compiled.for_engine(engine))?;
    let mut control = Control::new(switch.clone());
    let mut worker = switch.worker(engine)?;
    let fresh = || Switch::new(compiled.for_engine(engine)).map(Control::new);
    let outcome = stf::run_traced(&script, &mut control, &mut worker, &fresh);
    if outcome.passed() {
        return Ok(());
    }
    let why = outcome.report("").trim_start_matches("FAIL : ").to_string();
    Err(Failed { why, details: outcome.details() })
}
