//! `p4jet bench`: throughput over memory ports. Each packet of the looped capture is copied into a fresh buffer, processed,
//! and counted at the port it leaves by, as a hand-written or DPDK peer does.

use crate::churn;
use crate::compile::{self, EngineArg, ProgramArgs, QueueArgs};
use crate::failure::Failure;
use crate::lanes::{self, Lane};
use crate::measure::{self, entries, round, tables};
use crate::output::say;
use crate::pipelined;
use crate::predict_own;
use crate::stages;
use crate::work;
use p4jet_dataplane::{EngineKind, RING_MAX, Seen, Switch, THREADS_MAX, WORKERS_MAX};
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Options of `bench`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Runtime commands that set up the tables.
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// Packets: a pcap or pcapng capture, played in a loop.
    #[arg(long, value_name = "FILE")]
    pcap: PathBuf,
    /// Ingress port; by default N for a capture NAME.portN.pcap, otherwise 0.
    #[arg(long, value_name = "N")]
    port: Option<u32>,
    /// Duration of the measurement in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Number of cores, each with its own worker; with several, one core alone is measured, too.
    #[arg(long, value_name = "N", default_value_t = 1)]
    cores: usize,
    /// Engine that executes the program.
    #[arg(long, value_enum, default_value = "jit")]
    engine: EngineArg,
    /// Also measure the cost of each stage of the pipeline, and predict it if `p4jet profile` has measured this machine.
    #[arg(long)]
    stages: bool,
    /// Also measure while a second thread deletes N entries of the largest table and adds them again, one by one.
    #[arg(long, value_name = "N")]
    churn: Option<NonZeroUsize>,
    /// With --churn: changes per second of the paced measurement.
    #[arg(long, value_name = "RATE", default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1..),
          requires = "churn")]
    churn_rate: u32,
    /// Count tables, actions and drops during the measurement, as `run --metrics` does.
    #[arg(long)]
    counted: bool,
    /// Also measure the pipeline on 2 to 4 threads with rings between them.
    #[arg(long, value_name = "THREADS", num_args = 0..=1, require_equals = true, default_missing_value = "4",
          value_parser = clap::value_parser!(u8).range(2..=THREADS_MAX as i64))]
    pipelined: Option<u8>,
    /// With --pipelined: sizes of the rings in packets.
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "pipelined")]
    rings: Option<Vec<usize>>,
    /// Do not recompile for the packets and entries; implied by --stages and --pipelined.
    #[arg(long)]
    no_adapt: bool,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Code recompiled for packets and entries.
struct Adapted {
    hot_paths: usize,
    ms: f64,
}

/// Gives the workers code for these packets and the present entries.
fn adapt(
    switch: &Arc<Switch>,
    lanes: &mut [Lane],
    frames: &[Vec<u8>],
    port: u32,
) -> Result<Adapted, Failure> {
    let start = Instant::now();
    let seen = work::seen(switch, frames, port)?;
    let code = switch.code_for_seen(&seen).map_err(|e| switch.program_error(&e))?;
    for lane in lanes {
        lane.worker.change_code(&code);
    }
    Ok(Adapted { hot_paths: seen.hot_paths.len(), ms: start.elapsed().as_secs_f64() * 1e3 })
}

/// Returns the port for which `p4jet gen --program` wrote a capture, if it is not the usual one.
fn port_of(capture: &Path) -> Option<u32> {
    let (_, port) = capture.file_name()?.to_str()?.strip_suffix(".pcap")?.rsplit_once(".port")?;
    port.parse().ok()
}

/// Measures a program with its entries on a capture.
pub fn run(args: &Args) -> Result<(), Failure> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(Failure::Usage(format!(
            "--seconds {}: expected more than 0, at most 3600",
            args.seconds
        )));
    }
    // One core always exists, even if their number is unknown.
    let cores_max = lanes::processors().len().clamp(1, WORKERS_MAX - 1);
    if !(1..=cores_max).contains(&args.cores) {
        return Err(Failure::Usage(format!(
            "--cores {}: expected 1 to {cores_max}, the processors that this process may use",
            args.cores
        )));
    }
    let engine = EngineKind::from(args.engine);
    if args.stages && engine != EngineKind::Jit {
        return Err(Failure::Usage("--stages: only machine code has stages (--engine jit)".to_string()));
    }
    if args.pipelined.is_some() && engine != EngineKind::Jit {
        return Err(Failure::Usage(
            "--pipelined: only machine code is cut into parts (--engine jit)".to_string(),
        ));
    }
    let rings = args.rings.as_deref().unwrap_or(&pipelined::RINGS);
    if let Some(ring) = rings.iter().find(|ring| !(1..=RING_MAX).contains(*ring)) {
        return Err(Failure::Usage(format!("--rings {ring}: expected rings of 1 to {RING_MAX} packets")));
    }
    let start = Instant::now();
    let compiled = compile::compile(&args.program)?;
    // One more for `measured_worker`.
    let workers = args.cores + usize::from(args.stages);
    let options = p4jet_jit::Options { counted: args.counted, ..p4jet_jit::Options::default() };
    let mut switch = compiled.switch(compiled.for_engine(engine), options, workers)?;
    // The first worker causes the compilation to machine code.
    drop(switch.worker(engine, 0)?);
    let compile_ms = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    if let Some(path) = &args.commands {
        // The output of commands that read would not be JSON.
        compile::load_commands(&switch, path)?;
        if switch.needs_queues() {
            (switch, _) =
                compile::switch_with(&compiled, engine, options, workers, QueueArgs::default(), Some(path))?;
        }
    }
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let frames = p4jet_ports::read_capture(&args.pcap).map_err(|e| Failure::port(&e))?;
    let port = args.port.or_else(|| port_of(&args.pcap)).unwrap_or(0);
    compile::check_port(&switch, port)?;
    let mut lanes = (0..args.cores)
        .map(|index| Lane::new(&switch, engine, &frames, port, index, args.cores))
        .collect::<Result<Vec<_>, _>>()?;
    let adapts = engine == EngineKind::Jit && !args.no_adapt && !args.stages && args.pipelined.is_none();
    let adapted = match adapts && !switch.program().is_queued() {
        true => Some(adapt(&switch, &mut lanes, &frames, port)?),
        false => None,
    };
    let Lane { worker, source, pool } = &mut lanes[0];
    let digest = measure::digest(worker, source, pool)?;
    let warm_up = args.seconds.min(0.5);
    let (m, together) = match lanes.as_mut_slice() {
        [lane] => {
            lane.measure(warm_up)?;
            (lane.measure(args.seconds)?, None)
        }
        lanes => {
            lanes::at_once(lanes, &lanes::processors(), warm_up)?;
            let together = lanes::measure(lanes, args.seconds)?;
            (together.all, Some((together.alone_mpps, together.speedup)))
        }
    };
    // The rest concerns one worker.
    let Lane { worker, source, pool } = &mut lanes[0];
    let stages = match args.stages {
        true => {
            let mut measured = switch.measured_worker(args.cores)?;
            let mut stages = stages::measure(worker, &mut measured, source, pool, args.seconds)?;
            // Without a profile of this machine there is nothing to compare with.
            if let Some(model) =
                predict_own::of_this_machine().ok().and_then(|profile| predict_own::model(&profile))
            {
                let work = |is_measured| {
                    work::of_stages(&switch, &Seen::default(), is_measured, &frames, port, None)
                };
                stages.predict(&model?, &work(false)?, &work(true)?);
            }
            Some((stages, measure::digest(&mut measured, source, pool)?))
        }
        false => None,
    };
    let churn = match args.churn {
        Some(n) => {
            let (n, rate) = (n.get(), f64::from(args.churn_rate));
            Some(churn::measure(worker, source, pool, args.seconds, n, rate)?)
        }
        None => None,
    };
    let pipelined = match args.pipelined {
        Some(threads) => {
            // They have their own workers and entries.
            let threads = usize::from(threads);
            let options = p4jet_jit::Options { threads: Some(threads), ..options };
            let commands = args.commands.as_deref();
            let (other, _) =
                compile::switch_with(&compiled, engine, options, threads, QueueArgs::default(), commands)?;
            Some(pipelined::measure(&other, &mut lanes[0], rings, args.seconds, &digest)?)
        }
        None => None,
    };
    let entries = entries(&switch);
    let memory_bytes: usize = tables(&switch).map(|id| switch.table(id).memory_bytes()).sum();
    let engine_name = if engine == EngineKind::Jit { "jit" } else { "interp" };
    if args.json {
        let per_port: serde_json::Map<String, serde_json::Value> =
            m.per_port.iter().map(|(p, n)| (p.to_string(), json!(n))).collect();
        let mut line = json!({
            "program": switch.program().name, "engine": engine_name, "entries": entries, "cores": args.cores,
            "seconds": round(m.seconds), "packets": m.packets, "mpps": round(m.mpps()),
            "ns_per_packet": round(1e3 / m.mpps()), "drops": m.drops, "per_port": per_port,
            "compile_ms": round(compile_ms), "load_ms": round(load_ms), "digest": digest,
            "memory_bytes": memory_bytes,
        });
        if let Some((alone, speedup)) = together {
            line["one_core_mpps"] = json!(round(alone));
            line["speedup"] = json!(round(speedup));
        }
        if let Some(Adapted { hot_paths, ms }) = adapted {
            line["adapted"] = json!({ "hot_paths": hot_paths, "ms": round(ms) });
        }
        if let Some((stages, digest)) = stages {
            line["stages_digest"] = json!(digest);
            for (key, value) in stages.json() {
                line[key] = value;
            }
        }
        if let Some(churn) = churn {
            line["churn"] = churn.json();
        }
        if let Some(pipelined) = pipelined {
            line["pipelined"] = pipelined.json();
        }
        say!("{line}")?;
    } else {
        say!(
            "{}: {:.2} Mpps, {:.1} ns a packet ({engine_name}, {entries} entries, {} packets in {:.2} s, {} dropped)",
            switch.program().name,
            m.mpps(),
            1e3 / m.mpps(),
            m.packets,
            m.seconds,
            m.drops
        )?;
        if let Some((alone, speedup)) = together {
            say!("{} cores: {speedup:.2} times one core, which has {alone:.2} Mpps", args.cores)?;
        }
        for (port, n) in &m.per_port {
            say!("port {port}: {n} packets")?;
        }
        say!("compiled in {compile_ms:.2} ms, entries loaded in {load_ms:.1} ms, digest {digest}")?;
        if let Some(Adapted { hot_paths, ms }) = adapted {
            let paths = if hot_paths == 1 { "path" } else { "paths" };
            say!("recompiled for these entries, {hot_paths} hot {paths}, in {ms:.2} ms")?;
        }
        say!("tables take {:.1} MB", memory_bytes as f64 / 1e6)?;
        if let Some((stages, digest)) = stages {
            say!("cut into stages, digest {digest}")?;
            stages.print()?;
        }
        if let Some(churn) = churn {
            churn.print()?;
        }
        if let Some(pipelined) = pipelined {
            pipelined.print()?;
        }
    }
    Ok(())
}
