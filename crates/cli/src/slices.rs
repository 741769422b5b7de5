//! `p4jet slices`: the controller of programs/vqueue.
#![allow(unsafe_code)]

use crate::ctl::{self, Address};
use crate::failure::Failure;
use crate::log::{self, Form, Log, Voice};
use crate::output::{self, say};
use p4jet_slices::calculator::{self, Demand, SEARCHED_MAX};
use p4jet_slices::controller::{self, Options, SHOWN_MAX};
use p4jet_slices::{Config, Counts, Reading, commands, entries};
use p4jet_suggest::nearest;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Options of `slices`.
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
    /// Calculate worst-case delays, the capacity that the slices need, and their best priorities.
    Plan(PlanArgs),
    /// Show the rate, virtual delay, drops and marks of each slice of a running switch.
    Show(ShowArgs),
}

#[derive(clap::Args)]
struct PlanArgs {
    /// Configuration file.
    config: PathBuf,
    /// Print the runtime commands for an empty switch instead.
    #[arg(long, conflicts_with = "json")]
    commands: bool,
    /// One line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ShowArgs {
    /// Configuration file, for the names of the slices.
    config: PathBuf,
    #[command(flatten)]
    address: Address,
    /// Time over which rates are measured.
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// One line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Interval of the checks for signals.
const TURN: Duration = Duration::from_millis(20);
/// Time for the controller to end: a second.
const STOP_TURNS: u32 = 50;
/// The longest time over which rates are measured.
const SECONDS_MAX: f64 = 3600.0;

static STOP: AtomicBool = AtomicBool::new(false);
static RELOAD: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(signal: libc::c_int) {
    let flag = if signal == libc::SIGHUP { &RELOAD } else { &STOP };
    flag.store(true, Ordering::Relaxed);
}

/// Runs the controller, or one of the commands.
pub fn run(args: &Args) -> Result<(), Failure> {
    match (&args.command, &args.config) {
        (Some(Command::Plan(args)), _) => plan(args),
        (Some(Command::Show(args)), _) => show(args),
        (None, Some(config)) => control(args, config),
        // The command line's parser does not let it through.
        (None, None) => Err(Failure::Usage("expected a configuration".into())),
    }
}

/// Reads a file; `is_planned`: worst-case delays are what the user wants to know, not mistakes.
fn read(path: &Path, is_planned: bool) -> Result<(String, Config), Failure> {
    // A mistyped command is taken for a file.
    let meant = path.to_str().filter(|_| !path.exists()).and_then(|word| nearest(word, ["plan", "show"]));
    let text = output::read_text(path).map_err(|failure| match meant {
        Some(command) => Failure::Input(format!("{}: did you mean `slices {command}`?", failure.text())),
        None => failure,
    })?;
    let config = if is_planned { Config::parse_any_delays(&text) } else { Config::parse(&text) };
    match config {
        Ok(config) => Ok((text, config)),
        Err(mistakes) => {
            let name = path.display().to_string();
            let mut lines: Vec<String> =
                mistakes.iter().take(SHOWN_MAX).map(|mistake| mistake.line(&name, &text)).collect();
            if mistakes.len() > SHOWN_MAX {
                lines.push(format!("{} errors more", mistakes.len() - SHOWN_MAX));
            }
            Err(Failure::Input(lines.join("\n")))
        }
    }
}

/// Capacities are rounded up to whole Mbit/s.
fn mbit(capacity: f64) -> f64 {
    (capacity / 1e6 - 1e-6).ceil()
}

fn plan(args: &PlanArgs) -> Result<(), Failure> {
    let (_, config) = read(&args.config, true)?;
    if args.commands {
        return output::write(format_args!("{}", commands(&entries(&config))));
    }
    let (demands, priorities) = (config.demands(), config.priorities());
    let delays = calculator::delays(config.capacity, &demands, &priorities);
    let is_enough = calculator::is_enough(config.capacity, &demands, &priorities);
    let least = mbit(calculator::least_capacity(&demands, &priorities));
    let best = calculator::best_priorities(&demands);
    if args.json {
        let slices = config.slices.iter().zip(&demands).zip(&delays).enumerate().map(|(at, ((slice, demand), delay))| {
            serde_json::json!({
                "name": slice.name, "number": slice.number, "priority": slice.priority,
                "rate_mbit": demand.rate / 1e6, "burst_mbit": demand.burst / 1e6, "bound_ms": demand.bound * 1e3,
                "worst_case_ms": delay.is_finite().then_some(delay * 1e3),
                "best_priority": best.as_ref().map(|(priorities, _)| priorities[at]),
            })
        });
        return say!(
            "{}",
            serde_json::json!({
                "capacity_mbit": config.capacity / 1e6, "enough": is_enough, "least_capacity_mbit": least,
                "best_capacity_mbit": best.as_ref().map(|(_, capacity)| mbit(*capacity)),
                "slices": slices.collect::<Vec<_>>(),
            })
        );
    }
    say!("capacity {} Mbit/s: {}", config.capacity / 1e6, if is_enough { "enough" } else { "not enough" })?;
    say!(
        "{:20} {:>8} {:>12} {:>12} {:>14} {:>10}",
        "slice",
        "priority",
        "rate, Mbit/s",
        "burst, Mbit",
        "worst case, ms",
        "bound, ms"
    )?;
    for ((slice, Demand { rate, burst, bound }), delay) in config.slices.iter().zip(&demands).zip(&delays) {
        say!(
            "{:20} {:>8} {:>12.3} {:>12.3} {:>14.3} {:>10.3}{}",
            slice.name,
            slice.priority,
            rate / 1e6,
            burst / 1e6,
            delay * 1e3,
            bound * 1e3,
            if *delay > bound * (1.0 + 1e-9) { "  exceeded" } else { "" }
        )?;
    }
    say!("least capacity with these priorities: {least} Mbit/s")?;
    match best {
        Some((priorities, capacity)) => {
            let named = config.slices.iter().zip(priorities);
            let named: Vec<String> =
                named.map(|(slice, priority)| format!("{} {priority}", slice.name)).collect();
            say!("best priorities: {}, with {} Mbit/s", named.join(", "), mbit(capacity))
        }
        None if config.slices.is_empty() => Ok(()),
        None => say!("best priorities: not searched for more than {SEARCHED_MAX} slices"),
    }
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    if !(0.001..=SECONDS_MAX).contains(&args.seconds) {
        let text = format!("--seconds {}: expected 0.001 to {SECONDS_MAX}", args.seconds);
        return Err(Failure::Usage(text));
    }
    let (_, config) = read(&args.config, true)?;
    let mut client = ctl::connect(&args.address)?;
    let mut reading = || Reading::read(&mut client).map_err(ctl::gone)?.map_err(Failure::Input);
    let before = reading()?;
    std::thread::sleep(Duration::from_secs_f64(args.seconds));
    let now = reading()?;
    let seconds = (now.time_s - before.time_s).max(1e-6);
    let rows = config.slices.iter().map(|slice| {
        let counts = |reading: &Reading| reading.counts.get(&slice.number).copied().unwrap_or_default();
        let (total, delay) = (counts(&now), now.delays_s.get(&slice.number).copied().unwrap_or(0.0));
        (slice, total, total.since(counts(&before)), delay)
    });
    if args.json {
        let slices = rows.map(|(slice, total, recent, delay)| {
            let counts = |counts: Counts| {
                serde_json::json!({
                    "forwarded": counts.forwarded.0 + counts.marked.0, "marked": counts.marked.0,
                    "dropped": counts.dropped.0 + counts.dropped_early.0, "dropped_early": counts.dropped_early.0,
                })
            };
            serde_json::json!({
                "name": slice.name, "number": slice.number, "rate_mbit": recent.bits() as f64 / seconds / 1e6,
                "limit_mbit": slice.rate / 1e6, "delay_ms": delay * 1e3, "limit_ms": slice.burst_s * 1e3,
                "packets": counts(total), "recent_packets": counts(recent),
            })
        });
        return say!("{}", serde_json::json!({ "seconds": seconds, "slices": slices.collect::<Vec<_>>() }));
    }
    say!(
        "{:20} {:>12} {:>12} {:>10} {:>10} {:>12} {:>10} {:>10}",
        "slice",
        "rate, Mbit/s",
        "of",
        "delay, ms",
        "of",
        "forwarded/s",
        "marked/s",
        "dropped/s"
    )?;
    for (slice, _, recent, delay) in rows {
        let per_second = |packets: u64| packets as f64 / seconds;
        say!(
            "{:20} {:>12.3} {:>12.3} {:>10.3} {:>10.3} {:>12.1} {:>10.1} {:>10.1}",
            slice.name,
            recent.bits() as f64 / seconds / 1e6,
            slice.rate / 1e6,
            delay * 1e3,
            slice.burst_s * 1e3,
            per_second(recent.forwarded.0 + recent.marked.0),
            per_second(recent.marked.0),
            per_second(recent.dropped.0 + recent.dropped_early.0)
        )?;
    }
    Ok(())
}

fn control(args: &Args, path: &Path) -> Result<(), Failure> {
    let (text, config) = read(path, false)?;
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
        connect: Box::new(move || {
            ctl::connect(&address).map_err(|failure| std::io::Error::other(failure.text()))
        }),
        log: Arc::new(move |is_problem, event, text| {
            let level = if is_problem { log::Level::Warn } else { log::Level::Info };
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
