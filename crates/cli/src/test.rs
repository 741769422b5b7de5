//! `p4jet test`: packet tests.

use crate::compile::{self, Compiled, ProgramArgs};
use crate::failure::Failure;
use crate::output::{self, say};
use clap::ValueEnum;
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Processed, ProgramError, Seen, Switch, Worker};
use p4jet_text::stf;
use p4jet_text::stf::Device;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which executors run the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engines {
    /// Machine code.
    Jit,
    /// The reference interpreter.
    Interp,
    /// All executors: the interpreter, the JIT, and the JIT recompiled for the test's packets; all must pass.
    Both,
}

/// Options of `test`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Packet tests.
    #[arg(required = true)]
    tests: Vec<PathBuf>,
    /// Engine that executes the program.
    #[arg(long, value_enum, default_value = "jit")]
    engine: Engines,
}

/// Runs each file on a fresh switch.
pub fn run(args: &Args) -> Result<(), Failure> {
    let compiled = compile::compile_counting_warnings(&args.program)?;
    // For scripts that configure output queues.
    let queued = compiled.queued()?;
    let executors: &[Executor] = match args.engine {
        Engines::Jit => &[Executor::Jit],
        Engines::Interp => &[Executor::Interp],
        Engines::Both => &[Executor::Interp, Executor::Jit, Executor::Adapted],
    };
    let (mut passed, mut failed, mut without) = (0, 0, 0);
    for path in &args.tests {
        let name = compile::stem(path);
        match run_file(&compiled, &queued, path, executors) {
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
                // One line per file goes to standard output; differences and traces are for users.
                eprint!("{}", why.details);
            }
        }
    }
    let note = if without == 0 { String::new() } else { format!(", {without} without an expectation") };
    say!("{passed} passed, {failed} failed{note}")?;
    if failed == 0 { Ok(()) } else { Err(Failure::Reported) }
}

/// An executor of packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Executor {
    Interp,
    Jit,
    /// Machine code recompiled for each packet.
    Adapted,
}

impl Executor {
    fn name(self) -> &'static str {
        match self {
            Executor::Interp => "interp",
            Executor::Jit => "jit",
            Executor::Adapted => "jit, adapted",
        }
    }

    fn engine(self) -> EngineKind {
        if self == Executor::Interp { EngineKind::Interp } else { EngineKind::Jit }
    }
}

/// A worker that gets new code for each packet.
struct Adapted {
    switch: Arc<Switch>,
    worker: Worker,
    packets: usize,
    /// Packets with the same behaviour get the same code.
    made: HashMap<Seen, Arc<p4jet_jit::Compiled>>,
}

/// After this many packets, only one in this many gets new code, because generating it takes time; the others get the
/// code of an earlier one.
const ADAPTED_ALL: usize = 32;
const ADAPTED_EVERY: usize = 8;

impl Adapted {
    fn adapt(&mut self, port: u32, frame: &[u8]) -> Result<(), String> {
        let seen = self.switch.seen(std::iter::once((port, frame)))?;
        let code = match self.made.entry(seen) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(new) => {
                let code = self.switch.code_for_seen(new.key()).map_err(|e| self.switch.program_error(&e))?;
                new.insert(code)
            }
        };
        // If copies wait in queues, it continues with its present code.
        self.worker.change_code(code);
        Ok(())
    }
}

impl Device for Adapted {
    fn process(&mut self, port: u32, frame: &[u8]) -> Processed {
        self.packets += 1;
        if (self.packets <= ADAPTED_ALL || self.packets.is_multiple_of(ADAPTED_EVERY))
            && let Err(why) = self.adapt(port, frame)
        {
            return Processed { sent: Vec::new(), dropped: vec![why] };
        }
        self.worker.process_one(port, frame)
    }

    fn wait(&mut self, us: Option<u32>) -> Vec<(u64, Processed)> {
        self.worker.wait(us)
    }
}

/// The note on a file that passed.
struct Passed {
    /// The output of its commands.
    output: String,
    /// True if it expects anything other than no unexpected packets.
    expects_something: bool,
}

/// The reason why a file failed.
struct Failed {
    /// The reason in one line.
    why: String,
    /// Differences and traces; may be empty.
    details: String,
}

impl From<ProgramError> for Failed {
    fn from(error: ProgramError) -> Failed {
        error.to_string().into()
    }
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
    executors: &[Executor],
) -> Result<Passed, Failed> {
    let text = output::read_text(path).map_err(Failure::text)?;
    let script = stf::parse(&text).map_err(|errors| wrong_script(path, &errors))?;
    if script.is_empty() {
        return Err(format!("{}: no statements, so nothing was tested", path.display()).into());
    }
    let (mut passed, mut failed) = (Vec::new(), Vec::<(&str, Failed)>::new());
    for &executor in executors {
        let compiled = if stf::configures_queues(&script) { queued } else { compiled };
        match run_script(compiled, &script, executor) {
            Ok(outcome) => passed.push(outcome),
            Err(why) => failed.push((executor.name(), why)),
        }
    }
    if failed.is_empty() {
        let expects_something = passed.iter().all(|outcome| outcome.checks > 0);
        let output = passed.into_iter().next().map_or(String::new(), |outcome| outcome.output);
        return Ok(Passed { output, expects_something });
    }
    if executors.len() == 1 {
        return Err(failed.swap_remove(0).1);
    }
    // Usually the program or the script is wrong, and the engines agree.
    if failed.iter().all(|(_, one)| one.why == failed[0].1.why) {
        let names: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
        let why = format!("({}) {}", names.join(", "), failed[0].1.why);
        return Err(Failed { why, details: failed.swap_remove(0).1.details });
    }
    let why: Vec<String> = failed.iter().map(|(name, one)| format!("({name}) {}", one.why)).collect();
    let details = failed.iter().map(|(name, one)| format!("({name})\n{}", one.details)).collect();
    Err(Failed { why: why.join("; "), details })
}

/// Runs a text as a packet test, on both engines.
pub fn check(compiled: &Compiled, text: &str) -> Result<(), String> {
    let script =
        stf::parse(text).map_err(|errors| errors.first().map_or(String::new(), |error| error.to_string()))?;
    let queued = if stf::configures_queues(&script) { Some(compiled.queued()) } else { None };
    let queued = queued.transpose().map_err(Failure::text)?;
    for executor in [Executor::Interp, Executor::Jit] {
        run_script(queued.as_ref().unwrap_or(compiled), &script, executor).map_err(|failed| failed.why)?;
    }
    Ok(())
}

fn wrong_script(path: &Path, errors: &[stf::StfError]) -> Failed {
    let file = path.display().to_string();
    let first = errors.first().map_or(String::new(), |error| format!("{file}: {error}"));
    let more = match errors.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let mut details: Vec<String> = errors.iter().map(|error| error.render(&file)).collect();
    // `why` has the message of the first.
    if let Some(first) = details.first_mut() {
        *first = first.split_once('\n').map_or(String::new(), |(_, place)| place.to_string());
    }
    Failed { why: first + &more, details: details.concat() }
}

fn run_script(
    compiled: &Compiled,
    script: &[stf::Statement],
    executor: Executor,
) -> Result<stf::StfOutcome, Failed> {
    let switch = Switch::new(compiled.for_engine(executor.engine()))?;
    let control = Control::new(switch.clone());
    let mut worker = switch.worker(executor.engine(), 0)?;
    if switch.program().is_queued() || stf::stops_clock(script) {
        // Rates refer to a clock that continues while the script waits.
        worker.set_time(Some(0));
    }
    // Traces come from the interpreter, which runs the program as lowered.
    let fresh =
        || Switch::new(compiled.for_engine(EngineKind::Interp)).map(Control::new).map_err(String::from);
    let outcome = match executor {
        Executor::Adapted => {
            let mut device = Adapted { switch, worker, packets: 0, made: HashMap::new() };
            stf::run_traced(script, &control, &mut device, &fresh)
        }
        Executor::Interp | Executor::Jit => stf::run_traced(script, &control, &mut worker, &fresh),
    };
    if outcome.passed() {
        return Ok(outcome);
    }
    let why = outcome.report("").trim_start_matches("FAIL : ").to_string();
    Err(Failed { why, details: outcome.details() })
}
