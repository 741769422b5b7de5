//! `p4jet run`: the switch.
#![allow(unsafe_code)]

use crate::compile::{self, EngineArg, ProgramArgs};
use crate::failure::Failure;
use crate::output::{self, say};
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Forwarder};
use p4jet_ports::{Port, PortOptions, PortSpec};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of `run`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// A port: number, @, and IFNAME, packet:IFNAME, tap:NAME, pcap:IN,OUT or mem.
    #[arg(short = 'i', value_name = "N@SPEC", required = true)]
    ports: Vec<String>,
    /// Runtime commands to carry out before the first packet.
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// Which executor.
    #[arg(long, value_enum, default_value = "jit")]
    engine: EngineArg,
    /// Bytes of the longest frame.
    #[arg(long, value_name = "BYTES", default_value_t = 9216,
          value_parser = clap::value_parser!(u32).range(1024..=65535))]
    frame_max: u32,
    /// Read runtime commands from standard input although it is no terminal.
    #[arg(long)]
    stdin: bool,
}

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

fn catch_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which is safe in a signal handler.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
}

/// Runs until the ports have ended, the user leaves, or a signal comes.
pub fn run(args: &Args) -> Result<(), Failure> {
    let specs: Vec<PortSpec> = args
        .ports
        .iter()
        .map(|text| text.parse::<PortSpec>())
        .collect::<Result<_, _>>()
        .map_err(|e| Failure::port(&e))?;
    p4jet_ports::check_specs(&specs).map_err(|e| Failure::port(&e))?;
    let engine = EngineKind::from(args.engine);
    let compiled = compile::compile(&args.program)?;
    let switch = compile::switch(compiled.for_engine(engine))?;
    let worker = switch.worker(engine).map_err(Failure::Input)?;
    if let Some(path) = &args.commands {
        output::write(format_args!("{}", compile::load_commands(&switch, path)?))?;
    }
    let options = PortOptions { frame_max: args.frame_max as usize, wall_clock: false, workers: 1 };
    let mut ports: Vec<(u32, Box<dyn Port>)> = Vec::new();
    for spec in &specs {
        compile::check_port(&switch, spec.number)?;
        let port = p4jet_ports::open(spec, &options).map_err(|e| Failure::port(&e))?;
        // One worker: one handle.
        for port in port {
            for notice in port.notices() {
                eprintln!("port {}: {notice}", spec.number);
            }
            ports.push((spec.number, port));
        }
    }
    let mut forwarder = Forwarder::new(worker, ports, args.frame_max as usize)
        .map_err(|e| Failure::Environment(format!("no memory for packets: {e}")))?;
    catch_signals();
    eprintln!("{}: forwarding between {} ports", switch.program().name, specs.len());

    let terminal = std::io::stdin().is_terminal();
    let prompt = (args.stdin || terminal).then(|| {
        let mut control = Control::new(Arc::clone(&switch));
        std::thread::spawn(move || {
            if let Err(error) = p4jet_control::prompt::interact(&mut control) {
                eprintln!("the prompt ended: {error}");
            }
            // Someone who leaves the prompt leaves the switch; a script that has said all it had to say does not.
            if terminal {
                STOP.store(true, Ordering::Relaxed);
            }
        })
    });
    let mut port_failed = None;
    let mut log_read = true;
    forwarder.run(
        &STOP,
        &mut |line| {
            // The switch goes on when nobody reads its log any more.
            if log_read && let Err(failure) = say!("{line}") {
                failure.report();
                log_read = false;
            }
        },
        &mut |number, error| {
            eprintln!("port {number}: {error}; it is no longer used");
            port_failed.get_or_insert(error.exit_status());
        },
    );
    if let (Some(prompt), false) = (prompt, terminal) {
        // All captures are through: the script on standard input may want to read counters.
        while !prompt.is_finished() && !STOP.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    summarise(&mut forwarder);
    forwarder.finish().map_err(|e| Failure::port(&e))?;
    match port_failed {
        None => Ok(()),
        Some(1) => Err(Failure::Input("a port failed, see above".into())),
        Some(_) => Err(Failure::Environment("a port failed, see above".into())),
    }
}

fn summarise(forwarder: &mut Forwarder) {
    let stats = forwarder.stats().clone();
    let packets = |n: u64| if n == 1 { "1 packet".to_string() } else { format!("{n} packets") };
    eprintln!("{} received", packets(stats.received));
    if stats.copies > 0 {
        eprintln!("{} copied, {} ended in their copies", packets(stats.copies), packets(stats.done));
    }
    for (port, &n) in &stats.sent {
        eprintln!("{} sent to port {port}", packets(n));
    }
    for (&reason, &n) in &stats.dropped {
        eprintln!("{} dropped: {}", packets(n), forwarder.worker().drop_reason(reason));
    }
    for (port, &n) in &stats.no_port {
        eprintln!("{} dropped: the program sent to port {port}, which does not exist", packets(n));
    }
    if stats.not_sent > 0 {
        eprintln!("{} lost: the port could not send", packets(stats.not_sent));
    }
    for (port, s) in forwarder.port_stats() {
        for (n, why) in [
            (s.rx_dropped_oversize, "longer than --frame-max"),
            (s.rx_dropped_overrun, "lost before p4jet saw them: they came faster than they were read"),
            (s.rx_dropped_malformed, "delivered incomplete by the operating system"),
        ] {
            if n > 0 {
                eprintln!("{} at port {port}: {why}", packets(n));
            }
        }
    }
}
