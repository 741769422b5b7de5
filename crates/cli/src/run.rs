//! `p4jet run`: the switch.
#![allow(unsafe_code)]

use crate::compile::{self, EngineArg, ProgramArgs, QueueArgs};
use crate::control::{self, ControlArgs, Process};
use crate::failure::Failure;
use crate::log::{self, Level, Voice};
use crate::metrics;
use crate::output;
use crate::own_files::OwnFiles;
use crate::p4runtime::{self, P4RuntimeArgs};
use crate::stats::Meter;
use p4jet_control::{Control, Host, NotWritten, SharedControl};
use p4jet_dataplane::{
    Adaptation, Adapter, CaptureSpec, EngineKind, Event, Listener, Observer, PacketLog, QUEUES_MAX,
    RING_DEFAULT, RING_MAX, RunError, RunOptions, Running, THREADS_MAX,
};
use p4jet_ports::{FileId, LinkStatus, PortKind, PortOptions, PortSpec, PortUse};
use p4jet_text::{Users, cannot_use_state, capture_spec, captures_text, read_command};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Options of `run`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Port number, @, and IFNAME, packet:IFNAME, xdp:IFNAME, tap:NAME, fd:NUM, pcap:IN,OUT or mem; options of an
    /// emulated link may follow: ,delay=5ms,jitter=1ms,loss=1%,rate=10mbit,queue=100.
    // Options that require --p4runtime do not make clap ask for ports.
    #[arg(short = 'i', value_name = "N@SPEC",
          required_unless_present_any = ["stay", "p4runtime", "device_id", "cpu_port", "p4runtime_cert", "p4runtime_key",
                                         "p4runtime_ca"])]
    pub ports: Vec<String>,
    /// Continue when all ports have ended, and start without ports; `port_add` adds ports.
    #[arg(long)]
    pub stay: bool,
    /// Run these runtime commands before the first packet.
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// Keep the state that commands set in this file, and start with its contents: a switch that was killed comes
    /// back with its entries. --commands then has an effect only if the file does not exist yet.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Engine that executes the program.
    #[arg(long, value_enum, default_value = "jit")]
    engine: EngineArg,
    /// Maximum length of a frame.
    #[arg(long, value_name = "BYTES", default_value_t = 9216,
          value_parser = clap::value_parser!(u32).range(1024..=65535))]
    frame_max: u32,
    /// Output queues per port; by default none, and eight once runtime commands configure some.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=QUEUES_MAX as i64))]
    queues: Option<u8>,
    /// Number of workers, each on its own thread; the receive queues or flows of the ports are distributed over
    /// them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = cores)]
    cores: usize,
    /// Split the pipeline over 2 to 4 threads, for comparison with workers.
    #[arg(long, value_name = "THREADS", num_args = 0..=1, require_equals = true, default_missing_value = "4",
          value_parser = clap::value_parser!(u8).range(2..=THREADS_MAX as i64), conflicts_with = "cores")]
    pipelined: Option<u8>,
    /// With --pipelined: size of the ring between two threads in packets, in whole batches of 64.
    #[arg(long, value_name = "PACKETS", default_value_t = RING_DEFAULT, requires = "pipelined", value_parser = ring)]
    ring: usize,
    /// Do not recompile for the observed traffic.
    #[arg(long)]
    no_adapt: bool,
    /// Serve metrics for Prometheus at this address, and count tables, actions and places of drops.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = p4jet_text::server::parse_address)]
    metrics: Option<std::net::SocketAddr>,
    /// Write the frames of a port to a pcap file: port number, @, FILE, and after commas in, out, snaplen=BYTES or
    /// count=N.
    #[arg(long, value_name = "N@FILE", value_parser = capture)]
    pub capture: Vec<CaptureSpec>,
    /// Write one event per line, with time and level.
    #[arg(long, value_name = "FORM")]
    log: Option<log::Form>,
    /// Append the log to this file instead of standard error.
    #[arg(long, value_name = "FILE", requires = "log")]
    log_file: Option<PathBuf>,
    /// Lowest severity to log.
    #[arg(long, value_name = "LEVEL", default_value = "info", requires = "log")]
    log_level: log::Level,
    /// Read runtime commands from standard input even if it is not a terminal.
    #[arg(long)]
    stdin: bool,
    /// Its control sockets.
    #[command(flatten)]
    pub control: ControlArgs,
    /// Its P4Runtime server.
    #[command(flatten)]
    pub p4runtime: P4RuntimeArgs,
    /// Options that only `simple_switch` sets.
    #[arg(skip)]
    pub emulation: Emulation,
}

/// Differences of `simple_switch` from `run`.
#[derive(Clone, Debug, Default)]
pub struct Emulation {
    /// Standard input is not read, even if it is a terminal.
    pub no_prompt: bool,
    /// There is no program: all packets are dropped until one is loaded.
    pub no_program: bool,
    /// Time to wait before the first packet.
    pub wait: Duration,
    /// The destination of `log_msg`.
    pub log: Log,
    /// If set, that log is bmv2's, down to this level; below info it has each packet's steps.
    pub log_level: Option<Level>,
    /// The initial state.
    pub restore: Option<PathBuf>,
}

/// The destination of log lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// Standard output.
    #[default]
    Output,
    /// A file, truncated at first: the size in bytes at which it is rotated, and how many older files are kept.
    File(PathBuf, (u64, u32)),
    /// Nowhere.
    Nowhere,
}

/// The command line of `run`, for command lines that are translated to it.
#[derive(clap::Parser)]
pub struct Command {
    /// Its options.
    #[command(flatten)]
    pub args: Args,
}

/// The program to run if there is none.
const NO_PROGRAM: &str = "#include <v1model.p4>
struct none {}
parser P(packet_in p, out none h, inout none m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout none h, inout none m) { apply {} }
control I(inout none h, inout none m, inout standard_metadata_t s) { apply { mark_to_drop(s); } }
control E(inout none h, inout none m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in none h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";

fn capture(text: &str) -> Result<CaptureSpec, String> {
    let (port, rest) = text.split_once('@').ok_or("expected the number of a port, @ and a file")?;
    let mut words = rest.split(',');
    let file = words.next().unwrap_or_default();
    capture_spec(port, file, &words.collect::<Vec<_>>())
}

fn cores(text: &str) -> Result<usize, String> {
    let range = 1..=p4jet_dataplane::WORKERS_MAX;
    match text.parse() {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => Err(format!("expected a number of workers from 1 to {}", range.end())),
    }
}

fn ring(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=RING_MAX).contains(&n) => Ok(n),
        _ => Err(format!("expected a number of packets from 1 to {RING_MAX}")),
    }
}

/// Interval at which the workers' counts are saved, in case one gets stuck.
const KEEP: Duration = Duration::from_secs(1);

static STOP: AtomicBool = AtomicBool::new(false);
/// Log files must be reopened, or the terminal was closed.
static HANG_UP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(signal: libc::c_int) {
    let flag = if signal == libc::SIGHUP { &HANG_UP } else { &STOP };
    flag.store(true, Ordering::Relaxed);
}

fn catch_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which is safe in a signal handler.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
    // SAFETY: as above.
    unsafe {
        let before = libc::signal(libc::SIGHUP, on_signal as *const () as libc::sighandler_t);
        // With `nohup`, the switch must outlive its terminal.
        if before == libc::SIG_IGN {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
    }
}

/// Time for which packets wait for machine code before the interpreter forwards them.
const CODE_WAIT: Duration = Duration::from_millis(50);

/// Runs until the ports have ended, the user quits, or a signal arrives.
pub fn run(args: &Args) -> Result<(), Failure> {
    let has_address = args.control.tcp.is_some() || args.p4runtime.address.is_some();
    if args.control.allow_users != Users::default() && !has_address {
        let why = "--allow-users concerns TCP and P4Runtime: add --control-tcp or --p4runtime";
        return Err(Failure::Usage(why.to_string()));
    }
    let specs: Vec<PortSpec> = args
        .ports
        .iter()
        .map(|text| text.parse::<PortSpec>())
        .collect::<Result<_, _>>()
        .map_err(|e| Failure::port(&e))?;
    let uses = p4jet_ports::check_specs(&specs).map_err(|e| Failure::port(&e))?;
    for capture in &args.capture {
        let file = FileId::of(&capture.path);
        p4jet_ports::check_capture(&capture.path, file.as_ref(), &uses).map_err(|e| Failure::port(&e))?;
    }
    let engine = EngineKind::from(args.engine);
    let compiled = match args.emulation.no_program {
        true => compile::compile_text("none", NO_PROGRAM)?,
        false => compile::compile(&args.program)?,
    };
    let own = own_files(args);
    let captured = args.capture.iter().map(|capture| &capture.path);
    let written = specs.iter().filter_map(|spec| match &spec.kind {
        PortKind::Pcap { output, .. } => output.as_ref(),
        _ => None,
    });
    for path in captured.chain(written) {
        own.check_output(path, FileId::of(path).as_ref(), &compiled.typed.sources)
            .map_err(|e| Failure::port(&e))?;
    }
    // An empty file counts as a missing one.
    let kept = args.state.as_ref().filter(|path| path.metadata().is_ok_and(|file| file.len() > 0));
    let threads = args.pipelined.map(usize::from);
    let counted = args.metrics.is_some();
    let options = p4jet_jit::Options { counted, threads, ..p4jet_jit::Options::default() };
    let (switch, printed) = compile::switch_with(
        &compiled,
        engine,
        options,
        threads.unwrap_or(args.cores),
        // Threads that share the pipeline cannot have queues between them.
        QueueArgs { per_port: args.queues.map(usize::from), follow_links: threads.is_none() },
        args.commands.as_deref().filter(|_| kept.is_none()),
    )?;
    output::write(format_args!("{printed}"))?;
    let form = args.log.unwrap_or(log::Form::Plain);
    let files = args.log_file.clone().map(|path| log::Files { path, rotation: None });
    let voice = Voice(Arc::new(log::Log::start(form, args.log_level, files)?));
    let lines = log_to(args, &voice)?;
    if let Some(lines) = lines.as_ref().filter(|_| args.emulation.log_level >= Some(Level::Debug)) {
        let (left_out, lines) = (lines.packets_left_out(), Arc::clone(lines));
        switch.log_packets(PacketLog::new(left_out, move |packet| lines.put_packet(packet)));
    }
    let (failed, refused) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
    let options = RunOptions {
        engine,
        frame_max: args.frame_max as usize,
        listener: listener(Arc::clone(&failed), Arc::clone(&refused), lines.clone(), voice.clone()),
    };
    let running = Running::start_within(&switch, options, args.ring, Some(CODE_WAIT));
    let running = Arc::new(running.map_err(|error| match error {
        RunError::Program(error) => compiled.refused(&error),
        other => run_failure(other),
    })?);
    let (frame_max, workers) = (args.frame_max as usize, running.handles());
    let options = PortOptions { frame_max, wall_clock: false, workers, split: threads.is_some() };
    let (cpu_port, cpu) = p4runtime::cpu_port(&args.p4runtime, &running, &specs)?;
    let mut ports: Vec<_> =
        specs.iter().map(|spec| control::open(&running, spec, &options, &voice)).collect::<Result<_, _>>()?;
    ports.extend(cpu_port);
    // Their output files exist now.
    let uses = specs.iter().map(|spec| PortUse::new(spec.clone(), &spec.kind)).collect();
    let terminal = std::io::stdin().is_terminal() && !args.emulation.no_prompt;
    let has_prompt = args.stdin || terminal;
    let host = Arc::new(Process {
        voice: voice.clone(),
        observer: Observer::new(Arc::clone(&running)),
        meter: Meter::new(),
        running: Arc::clone(&running),
        program: args.program.clone(),
        compiled: Arc::new(Mutex::new(compiled)),
        engine: args.engine,
        ports: options,
        uses: Mutex::new(uses),
        own,
        stop: &STOP,
        ports_changed: AtomicBool::new(false),
        has_prompt,
    });
    for spec in &args.capture {
        if !specs.iter().any(|port| port.number == spec.port) {
            return Err(Failure::Usage(format!("--capture: there is no port {}", spec.port)));
        }
        host.observer.start_capture(spec.clone()).map_err(|error| Failure::Environment(error.to_string()))?;
    }
    let control =
        SharedControl::new(Control::new(Arc::clone(&switch)), Some(Arc::clone(&host) as Arc<dyn Host>));
    if let Some(path) = &args.emulation.restore {
        let restored = control.restore(&output::read_text(path)?);
        let note = restored.map_err(|error| Failure::Input(cannot_use_state(path, &error.into())))?;
        if let Some(note) = note {
            voice.report(Level::Warn, "state", None, format!("{}: {note}", path.display()));
        }
    }
    if let Some(path) = &args.state {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.exists()) {
            let (name, folder) = (path.display(), folder.display());
            return Err(Failure::Environment(format!(
                "cannot use state file `{name}` (--state): there is no folder `{folder}`"
            )));
        }
        let lost = control.keep(path, read_command).map_err(|e| {
            let (name, why) = (path.display().to_string(), e.to_string());
            let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(&why);
            Failure::Environment(format!("cannot use state file `{name}`: {why}"))
        })?;
        for line in lost {
            voice.report(Level::Warn, "state", None, format!("{}: {line}", path.display()));
        }
        if let (Some(kept), Some(commands)) = (kept, &args.commands) {
            let (kept, commands) = (kept.display(), commands.display());
            let text = format!("{kept} holds the state: {commands} is ignored");
            voice.report(Level::Info, "state", None, text);
        }
    }
    // Opened first, so that the first client finds the ports; unless packets must wait for the commands of clients.
    let mut ports = Some(ports);
    if args.emulation.wait.is_zero() {
        running.add_ports(ports.take().unwrap_or_default()).map_err(run_failure)?;
    }
    let servers = control::listen(&args.control, &control, &switch.program().name, &voice)?;
    let has_program = !args.emulation.no_program;
    let users = &args.control.allow_users;
    let p4runtime = p4runtime::serve(&args.p4runtime, users, &control, cpu, has_program, &voice)?;
    catch_signals();
    let start = Instant::now();
    while start.elapsed() < args.emulation.wait && !STOP.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
    }
    if let Ok(processors) = std::thread::available_parallelism()
        && args.cores > processors.get()
    {
        let text =
            format!("--cores {}: there are {processors} processors, which the workers share", args.cores);
        voice.report(Level::Warn, "start", None, text);
    }
    let ports_text = if specs.len() == 1 { "port" } else { "ports" };
    let begins = format!("{}: forwarding between {} {ports_text}", switch.program().name, specs.len());
    voice.report(Level::Info, "start", None, begins);
    if let Some(ports) = ports {
        running.add_ports(ports).map_err(run_failure)?;
    }
    let adapter = match engine == EngineKind::Jit && threads.is_none() && !args.no_adapt {
        true => Some(adapter(&running, &voice)?),
        false => None,
    };

    let metrics = match args.metrics {
        None => None,
        Some(address) => {
            let server = metrics::Server::start(address, Arc::clone(&host) as Arc<dyn Host>);
            let server = server.map_err(|e| Failure::Environment(format!("--metrics {address}: {e}")))?;
            let text = format!("metrics at http://{}/metrics", server.address());
            voice.report(Level::Info, "metrics", None, text);
            Some(server)
        }
    };
    let prompt = if has_prompt {
        let mut control = control.clone();
        let thread = p4jet_threads::spawn("prompt", move || {
            if let Err(error) = p4jet_text::prompt::interact(&mut control) {
                eprintln!("the prompt ended: {error}");
            }
            // The end of the prompt ends the switch; the end of a script does not.
            if terminal {
                STOP.store(true, Ordering::Relaxed);
            }
        });
        Some(thread.map_err(|e| Failure::Environment(format!("no thread for the prompt: {e}")))?)
    } else {
        None
    };
    // After the end of all captures, a script on standard input may still read counters.
    let script =
        |prompt: &Option<JoinHandle<()>>| !terminal && prompt.as_ref().is_some_and(|p| !p.is_finished());
    let stays = args.stay || args.p4runtime.address.is_some();
    let goes_on = || stays || host.ports_changed.load(Ordering::Relaxed) || !running.has_ended();
    let mut kept = Instant::now();
    while !STOP.load(Ordering::Relaxed) && (goes_on() || script(&prompt)) {
        std::thread::sleep(Duration::from_millis(2));
        if kept.elapsed() >= KEEP {
            kept = Instant::now();
            running.keep_numbers();
        }
        if HANG_UP.swap(false, Ordering::Relaxed) {
            let logs = lines.iter().chain([&voice.0]);
            let reopened = logs.filter(|log| log.reopen()).count();
            STOP.fetch_or(reopened == 0, Ordering::Relaxed);
        }
    }
    drop(servers);
    drop(p4runtime);
    drop(adapter);
    let not_written = control.write_state_file().err();
    let changes_lost = not_written.as_ref().map_or(0, |failed| failed.lost);
    if let Some(NotWritten { lost, why }) = not_written {
        let (level, text) = match lost {
            0 => (Level::Warn, format!("the state file holds outdated register values: {why}")),
            1 => (Level::Error, format!("the last change is lost: cannot write the state file: {why}")),
            _ => (Level::Error, format!("{lost} changes are lost: cannot write the state file: {why}")),
        };
        voice.report(level, "state", None, text);
    }
    drop(metrics);
    let finished = running.finish();
    // The process ends: the system frees millions of packets that wait in queues faster than it takes to drop them.
    std::mem::forget(Arc::clone(&running));
    let abandoned = running.abandoned();
    if !abandoned.is_empty() {
        host.observer.stop_all_captures();
        // The process ends without the worker, which may still use everything else.
        std::mem::forget(Arc::clone(&host));
        lines.iter().for_each(|lines| lines.finish());
        voice.0.finish();
        let what: Vec<String> = abandoned.iter().map(|stuck| stuck.abandoned()).collect();
        return Err(Failure::Environment(what.join("\n")));
    }
    let captures = host.observer.stop_all_captures();
    summarise(&running, &voice);
    for line in captures_text(&captures).lines() {
        voice.report(Level::Info, "capture", None, line);
    }
    lines.iter().for_each(|lines| lines.finish());
    voice.0.finish();
    finished.map_err(|e| Failure::port(&e))?;
    if let Some(why) = refused.get() {
        // Reported like a refusal before the first packet.
        return Err(Failure::Input(why.clone()));
    }
    if changes_lost > 0 {
        return Err(Failure::Environment("the state could not be saved, see above".into()));
    }
    match failed.get() {
        None => Ok(()),
        Some(1) => Err(Failure::Input("a port failed, see above".into())),
        Some(_) => Err(Failure::Environment("a port failed, see above".into())),
    }
}

/// The files that the switch itself uses.
fn own_files(args: &Args) -> OwnFiles {
    let some = |path: &Option<PathBuf>, what| path.clone().map(|path| (path, what));
    let program = &args.program.program;
    let tls = [&args.p4runtime.certificate, &args.p4runtime.key, &args.p4runtime.ca];
    let others = [
        (!compile::is_stdin(program)).then(|| (program.clone(), "the program")),
        some(&args.commands, "the file of --commands"),
        some(&args.emulation.restore, "the file of --restore-state"),
        some(&args.log_file, "the log file"),
        some(&args.control.socket, "the control socket"),
    ];
    let tls = tls.map(|path| some(path, "a certificate or key of this switch"));
    let mut others: Vec<_> = others.into_iter().chain(tls).flatten().collect();
    if let Log::File(path, rotation) = &args.emulation.log {
        let files = log::Files { path: path.clone(), rotation: Some(*rotation) };
        others.extend(files.names().map(|path| (path, "a log file of this switch")));
    }
    OwnFiles { state: args.state.clone(), others }
}

/// Starts the adaptation of code to the traffic.
fn adapter(running: &Arc<Running>, voice: &Voice) -> Result<Adapter, Failure> {
    let voice = voice.clone();
    let report = move |Adaptation { hot_paths, percent, took }: &Adaptation| {
        let ms = took.as_secs_f64() * 1e3;
        let paths = if *hot_paths == 1 { "path" } else { "paths" };
        let text =
            format!("recompiled for {hot_paths} hot {paths}, {percent} % of the packets, in {ms:.0} ms");
        voice.report(Level::Debug, "adapt", None, text);
    };
    Adapter::start(running, report)
        .map_err(|e| Failure::Environment(format!("no thread to adapt the code: {e}")))
}

fn run_failure(error: RunError) -> Failure {
    match error {
        RunError::System(why) => Failure::Environment(why),
        RunError::Program(_)
        | RunError::PortExists(_)
        | RunError::TooManyPorts(_)
        | RunError::TooLong(..)
        | RunError::NoPort(..)
        | RunError::PacketsWait(_)
        | RunError::Stuck(_)
        | RunError::Stopped => Failure::Input(error.to_string()),
    }
}

/// Returns the destination of `log_msg` lines, if there is one.
fn log_to(args: &Args, voice: &Voice) -> Result<Option<Arc<log::Log>>, Failure> {
    let (form, level) = match args.emulation.log_level {
        Some(level) => (log::Form::Bmv2, level),
        None => (log::Form::Plain, Level::Info),
    };
    let log = match &args.emulation.log {
        Log::Nowhere => return Ok(None),
        _ if args.log.is_some() => return Ok(Some(Arc::clone(&voice.0))),
        Log::Output => log::Log::to(form, level, Box::new(std::io::stdout()), None)?,
        Log::File(path, rotation) => {
            let refused = |e| Failure::Environment(format!("cannot write {}: {e}", path.display()));
            // It is replaced.
            p4jet_files::create(path).map_err(refused)?;
            let files = log::Files { path: path.clone(), rotation: Some(*rotation) };
            log::Log::start(form, level, Some(files))?
        }
    };
    Ok(Some(Arc::new(log)))
}

/// Reports events while packets flow. The exit status of the first port that fails goes to `failed`. If machine code is
/// refused, the reason goes to `refused`, and the switch stops.
fn listener(
    failed: Arc<OnceLock<u8>>,
    refused: Arc<OnceLock<String>>,
    lines: Option<Arc<log::Log>>,
    voice: Voice,
) -> Listener {
    Arc::new(move |event| match event {
        Event::Log(line) => {
            if let Some(lines) = &lines {
                lines.report_of_packet(Level::Info, "log_msg", line);
            }
        }
        Event::PortFailed(number, error) => {
            let text = format!("{error}; it is no longer used");
            voice.report(Level::Error, "port_failed", Some(number), text);
            failed.get_or_init(|| error.exit_status());
        }
        Event::Interpreting => {
            let text = "the interpreter forwards until the machine code is ready";
            voice.report(Level::Debug, "interpreter", None, text);
        }
        Event::MachineCode(took) => {
            let text = format!("machine code forwards now, after {} ms more", took.as_millis());
            voice.report(Level::Debug, "machine_code", None, text);
        }
        Event::NoMachineCode(why) => {
            refused.get_or_init(|| why.to_string());
            STOP.store(true, Ordering::Relaxed);
        }
        Event::Link(number, LinkStatus::Up) => {
            voice.report(Level::Info, "link", Some(number), "the link is up again");
        }
        Event::Link(number, LinkStatus::Down(why)) => {
            voice.report(Level::Warn, "link", Some(number), why.as_str());
        }
        Event::Stuck(stuck) => {
            let port = stuck.batch.as_ref().map(|batch| batch.port);
            voice.report(Level::Error, "stuck", port, stuck.to_string());
        }
        Event::Unstuck(worker, after) => {
            let text = format!("worker {worker} continues after {} s", after.as_secs());
            voice.report(Level::Info, "stuck", None, text);
        }
        Event::Follows(stuck) => {
            let text = format!("worker {} makes a change when it continues: {stuck}", stuck.worker);
            voice.report(Level::Warn, "stuck", None, text);
        }
    })
}

fn summarise(running: &Running, voice: &Voice) {
    use serde_json::Value;
    // The port and the reason, if any, and the words around a number of packets.
    let say = |n: u64, port: Option<u32>, reason: Option<&str>, text: String| {
        let mut fields: Vec<(&str, Value)> = vec![("packets", n.into())];
        fields.extend(port.map(|port| ("port", port.into())));
        fields.extend(reason.map(|reason| ("reason", reason.into())));
        voice.report_with_fields(Level::Info, "stop", fields, text);
    };
    let (stats, ports) = (running.stats(), running.ports());
    let packets = |n: u64| if n == 1 { "1 packet".to_string() } else { format!("{n} packets") };
    say(stats.received, None, None, format!("{} received", packets(stats.received)));
    // A packet that leaves its output queue is still the same packet.
    let (copies, done) = (stats.copies.saturating_sub(stats.queued), stats.done.saturating_sub(stats.queued));
    if copies > 0 || done > 0 {
        say(
            copies,
            None,
            None,
            format!("{} copied, {} ended in their copies", packets(copies), packets(done)),
        );
    }
    for (port, &n) in &stats.sent {
        say(n, Some(*port), None, format!("{} sent to port {port}", packets(n)));
    }
    for (reason, &n) in &stats.dropped {
        say(n, None, Some(reason), format!("{} dropped: {reason}", packets(n)));
    }
    for (port, &n) in &stats.no_port {
        let text = format!("{} dropped: the program sent to port {port}, which does not exist", packets(n));
        say(n, Some(*port), Some("no_port"), text);
    }
    if stats.no_port_others > 0 {
        let n = stats.no_port_others;
        let text = format!("{} dropped: the program sent to other ports that do not exist", packets(n));
        say(n, None, Some("no_port"), text);
    }
    if stats.not_sent > 0 {
        let text = format!("{} lost: the port could not send", packets(stats.not_sent));
        say(stats.not_sent, None, Some("not_sent"), text);
    }
    if stats.waiting > 0 {
        let text = format!("{} still waited and were not sent", packets(stats.waiting));
        say(stats.waiting, None, Some("waiting"), text);
    }
    for port in &ports {
        for (n, why) in [
            (port.stats.tx_dropped_loss, "lost by the emulated link"),
            (port.stats.tx_dropped_queue, "dropped: the queue of the emulated link was full"),
        ] {
            if n > 0 {
                say(n, Some(port.number), Some(why), format!("of these {n} at port {}: {why}", port.number));
            }
        }
    }
    for port in &ports {
        for (n, why) in [
            (port.stats.rx_dropped_oversize, "longer than --frame-max"),
            (
                port.stats.rx_dropped_overrun,
                "lost before p4jet saw them: they came faster than they were read",
            ),
            (port.stats.rx_dropped_malformed, "delivered incomplete by the operating system"),
        ] {
            if n > 0 {
                let text = format!("{} at port {}: {why}", packets(n), port.number);
                say(n, Some(port.number), Some(why), text);
            }
        }
    }
}
