//! `p4jet demo`: the main functions without files, root or an interface.

use crate::compile;
use crate::failure::Failure;
use crate::measure;
use crate::output::say;
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Switch};
use p4jet_text::Commands;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

/// Options of `demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Duration of the measurement in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

const PROGRAM: &str = include_str!("../../../programs/simple_router/simple_router.p4");
const ROUTES: u32 = 1024;
const NEXT_HOPS: u32 = 64;
const PORTS: u32 = 4;
const PACKETS: u32 = 16_384;

/// Compiles the shipped router, forwards generated traffic, and shows the results and the speed.
pub fn run(args: &Args) -> Result<(), Failure> {
    if !(args.seconds > 0.0 && args.seconds <= 60.0) {
        return Err(Failure::Usage(format!("--seconds {}: expected more than 0, at most 60", args.seconds)));
    }
    let compiled = compile::compile_text("simple_router.p4", PROGRAM)?;
    let switch = compiled.switch(compiled.program.clone(), p4jet_jit::Options::default(), 1)?;
    let start = Instant::now();
    switch.code().map_err(|e| compiled.refused(&switch.program_error(&e)))?;
    let code_time = start.elapsed();
    let total: f64 =
        compiled.times.iter().map(|(_, t)| t.as_secs_f64()).sum::<f64>() + code_time.as_secs_f64();
    say!("simple_router.p4: an IPv4 router in P4_16, {} lines", PROGRAM.lines().count())?;
    let stages: Vec<String> =
        compiled.times.iter().map(|(s, t)| format!("{s} {:.2}", t.as_secs_f64() * 1e3)).collect();
    say!(
        "compiled to machine code in {:.2} ms ({}, machine code {:.2})\n",
        total * 1e3,
        stages.join(", "),
        code_time.as_secs_f64() * 1e3
    )?;

    let commands = entries();
    load(&switch, &commands)?;
    say!(
        "{} entries loaded ({ROUTES} routes, {NEXT_HOPS} next hops, {PORTS} ports)\n",
        measure::entries(&switch)
    )?;

    say!("What it does with single packets:")?;
    let mut worker = switch.worker(EngineKind::Jit, 0)?;
    let mut wrong_checksum = packet(route(3) | 7, 64);
    wrong_checksum[24] ^= 0x55;
    let samples = [
        ("to a known network", packet(route(3) | 7, 64)),
        ("with TTL 1", packet(route(3) | 7, 1)),
        ("with a wrong IPv4 checksum", wrong_checksum),
        ("to nowhere", packet(0x0101_0101, 64)),
    ];
    for (what, frame) in &samples {
        let result = worker.process_one(0, frame);
        match result.sent.first() {
            Some((port, out)) => say!(
                "  {what}: leaves by port {port} for {}, TTL {} is now {}, checksum {:02x}{:02x} is now {:02x}{:02x}",
                mac(&out[0..6]),
                frame[22],
                out[22],
                frame[24],
                frame[25],
                out[24],
                out[25]
            )?,
            None => say!("  {what}: dropped ({})", result.dropped.join("; "))?,
        }
    }

    drop(worker);
    let reference = compiled.switch(compiled.lowered.clone(), p4jet_jit::Options::default(), 1)?;
    load(&reference, &commands)?;
    let (trace, _) = reference.trace(0, &samples[3].1).map_err(Failure::Input)?;
    say!("\nWhy the last one was dropped (from `p4jet trace`):")?;
    for line in trace.render(reference.program()).lines() {
        say!("  {line}")?;
    }

    say!("\nHow fast, one core, 60-byte packets, memory ports:")?;
    let frames: Vec<Vec<u8>> = (0..PACKETS)
        .map(|i| {
            let random = scramble(i);
            packet(route(random % ROUTES) | (random >> 24), 64)
        })
        .collect();
    let mut source = measure::Source::new(&frames, 0)?;
    let mut digests = Vec::new();
    for (name, switch, engine, seconds) in [
        ("machine code", &switch, EngineKind::Jit, args.seconds),
        ("interpreter", &reference, EngineKind::Interp, args.seconds / 4.0),
    ] {
        let mut worker = switch.worker(engine, 0)?;
        let mut pool = worker
            .pool(p4jet_packet::COUNT_DEFAULT, 1518)
            .map_err(|e| Failure::Environment(format!("no memory for packets: {e}")))?;
        digests.push(measure::digest(&mut worker, &mut source, &mut pool)?);
        let m = measure::measure(&mut worker, &mut source, &mut pool, seconds)?;
        say!("  {name:<13}{:>10.3} Mpps {:>10.1} ns a packet", m.mpps(), 1e3 / m.mpps())?;
    }
    if digests[0] != digests[1] {
        return Err(Failure::Input("internal error: the engines' outputs differ (please report)".into()));
    }
    say!("  both forwarded {PACKETS} packets to the same bytes (digest {})", digests[0])?;
    say!("\nNext: p4jet run PROGRAM.p4 -i 0@IFNAME -i 1@IFNAME (docs/commands.md)")?;
    Ok(())
}

fn load(switch: &Arc<Switch>, commands: &str) -> Result<(), Failure> {
    let control = Control::new(Arc::clone(switch));
    control.load("demo", commands).map_err(|e| Failure::Input(e.to_string()))?;
    Ok(())
}

/// Returns the network of route `i`: a /24.
fn route(i: u32) -> u32 {
    0x0a00_0000 + (i << 8)
}

/// Spreads numbers (Knuth's multiplicative hashing).
fn scramble(i: u32) -> u32 {
    i.wrapping_mul(2_654_435_761)
}

fn entries() -> String {
    let ip = |a: u32| a.to_be_bytes().map(|b| b.to_string()).join(".");
    let mut text = String::new();
    // Writing to a String cannot fail.
    for i in 0..ROUTES {
        let hop = i % NEXT_HOPS;
        let _ = writeln!(
            text,
            "table_add ipv4_lpm set_nhop {}/24 => {} {}",
            ip(route(i)),
            ip(0xc0a8_0001 + hop),
            hop % PORTS
        );
    }
    for hop in 0..NEXT_HOPS {
        let _ = writeln!(
            text,
            "table_add forward set_dmac {} => 02:00:00:00:01:{hop:02x}",
            ip(0xc0a8_0001 + hop)
        );
    }
    for port in 0..PORTS {
        let _ = writeln!(text, "table_add send_frame rewrite_mac {port} => 02:00:00:00:09:{port:02x}");
    }
    text
}

/// An Ethernet frame of 60 bytes with IPv4 and UDP; RFC 1071 checksum.
fn packet(destination: u32, ttl: u8) -> Vec<u8> {
    let mut frame = vec![0u8; 60];
    frame[0..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[22] = ttl;
    frame[23] = 17;
    frame[26..30].copy_from_slice(&0xc000_0201u32.to_be_bytes());
    frame[30..34].copy_from_slice(&destination.to_be_bytes());
    let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame[34..38].copy_from_slice(&[0x04, 0xd2, 0x00, 0x35]);
    frame[38..40].copy_from_slice(&26u16.to_be_bytes());
    frame
}

fn mac(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
}
