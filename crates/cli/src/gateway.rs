//! `p4jet gateway`: the controller of programs/vxlan_gateway.
#![allow(unsafe_code)]

use crate::compile;
use crate::ctl::{self, Address};
use crate::failure::Failure;
use crate::log::{self, Form, Log, Voice};
use crate::output::{self, say};
use p4jet_control::Schema;
use p4jet_gateway::controller::{self, Options};
use p4jet_gateway::{Actual, Config, Level, Objects, check_all, commands, diff, plan, render, summary};
use p4jet_suggest::nearest;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Options of `gateway`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Configuration file.
    #[arg(required = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    address: Address,
    /// Write events as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show what would change, without changing anything.
    Plan(PlanArgs),
}

#[derive(clap::Args)]
struct PlanArgs {
    /// Configuration file.
    config: PathBuf,
    #[command(flatten)]
    address: Address,
    /// Compare with a switch's dump instead of with a running switch.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "tcp"])]
    state: Option<PathBuf>,
    /// One JSON document instead of commands.
    #[arg(long)]
    json: bool,
}

/// Time that a switch may take to answer with a page of its state.
const READ: Duration = Duration::from_secs(60);
/// Interval of the checks for signals.
const TURN: Duration = Duration::from_millis(20);
/// Time for the controller to end: a second.
const STOP_TURNS: u32 = 50;

static STOP: AtomicBool = AtomicBool::new(false);
static RELOAD: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(signal: libc::c_int) {
    let flag = if signal == libc::SIGHUP { &RELOAD } else { &STOP };
    flag.store(true, Ordering::Relaxed);
}

/// The program of the gateway.
const PROGRAM: &str = include_str!("../../../programs/vxlan_gateway/vxlan_gateway.p4");

/// Returns the objects of the program.
fn objects() -> Result<Objects, Failure> {
    let compiled = compile::compile_text("vxlan_gateway.p4", PROGRAM)?;
    Ok(Objects::new(Schema::new(&compiled.program)).expect("it is the gateway's program"))
}

/// Runs the controller, or shows what it would do.
pub fn run(args: &Args) -> Result<(), Failure> {
    match (&args.command, &args.config) {
        (Some(Command::Plan(args)), _) => show_plan(args),
        (None, Some(config)) => control(args, config),
        // The command line's parser does not let it through.
        (None, None) => Err(Failure::Usage("expected a configuration".into())),
    }
}

fn read(path: &Path) -> Result<(String, Config), Failure> {
    // A mistyped command is taken for a file.
    let meant = path.to_str().filter(|_| !path.exists()).and_then(|word| nearest(word, ["plan"]));
    let text = output::read_text(path).map_err(|failure| match meant {
        Some(command) => Failure::Input(format!("{}: did you mean `gateway {command}`?", failure.text())),
        None => failure,
    })?;
    match Config::parse(&text) {
        Ok(config) => Ok((text, config)),
        Err(complaints) => {
            let color = std::io::stderr().is_terminal();
            Err(Failure::Diagnosed(render(&complaints, &path.display().to_string(), &text, color)))
        }
    }
}

fn show_plan(args: &PlanArgs) -> Result<(), Failure> {
    let (_, config) = read(&args.config)?;
    let objects = objects()?;
    let mut alive = vec![true; config.back_ends.len()];
    let actual = if let Some(path) = &args.state {
        let wrong = |why| Failure::Input(format!("{}: {why}", path.display()));
        Actual::from_dump(&objects, &output::read_text(path)?).map_err(wrong)?
    } else if args.address.is_given() {
        let mut client = ctl::connect(&args.address)?;
        client.set_patience(READ).map_err(ctl::gone)?;
        let actual = Actual::read(&objects, &mut client).map_err(ctl::gone)?;
        // Back ends that its controller has removed must not be added.
        alive = check_all(&config);
        actual.map_err(Failure::Input)?
    } else {
        Actual::default()
    };
    let wanted = plan(&config, &|at| alive[at], &actual).map_err(Failure::Input)?;
    let changes = diff(&objects, &wanted, &actual);
    if args.json {
        let changes: Vec<_> = changes
            .iter()
            .map(|change| {
                serde_json::json!({
                    "act": change.kind.name(), "command": change.command(&objects),
                    "update": objects.schema().named(&change.update), "about": change.about,
                })
            })
            .collect();
        return say!("{}", serde_json::json!({ "changes": changes }));
    }
    output::write(format_args!("{}# {}\n", commands(&objects, &changes), summary(&changes)))
}

fn control(args: &Args, path: &Path) -> Result<(), Failure> {
    let (text, config) = read(path)?;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic, which is safe in a signal handler.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
    let form = if args.json { Form::Json } else { Form::Text };
    let voice = Voice(Arc::new(Log::start(form, log::Level::Info, None)?));
    let address = args.address.clone();
    let messages = voice.clone();
    let options = Options {
        path: path.to_path_buf(),
        objects: Arc::new(objects()?),
        connect: Box::new(move || {
            ctl::connect(&address).map_err(|failure| std::io::Error::other(failure.text()))
        }),
        log: Arc::new(move |level, event, text| {
            let level = match level {
                Level::Info => log::Level::Info,
                Level::Warn => log::Level::Warn,
            };
            messages.report(level, event, None, text);
        }),
        stop: &STOP,
        reload: &RELOAD,
    };
    let running = p4jet_threads::spawn("controller", move || controller::run(options, text, config));
    let running = running.map_err(|e| Failure::Environment(format!("no thread: {e}")))?;
    // It may be waiting for a silent switch, and holds nothing to save.
    let mut left = STOP_TURNS;
    while left > 0 && !running.is_finished() {
        std::thread::sleep(TURN);
        left -= u32::from(STOP.load(Ordering::Relaxed));
    }
    if running.is_finished() {
        running.join().expect("the controller does not panic");
    }
    voice.0.finish();
    Ok(())
}
