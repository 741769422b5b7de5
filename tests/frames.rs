//! Random and mutated frames through every shipped program, with its entries: interpreter and machine code must agree on each
//! frame, alone and in batches, and nothing may panic.
//!
//! `FRAMES=10000000 cargo test --release -p p4jet-cli --test system frames:: -- --nocapture` tries that many on each program.
//!
//! Blind spots: whether both are right (packet tests check that); entries other than the shipped ones; frames in the rings of
//! a port, which are adjacent except for what the kernel left between them (crates/ports).

use crate::common::chain::{Outcome, compile};
use crate::common::mutate::Random;
use crate::common::{self, to_hex};
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Processed, Switch, Worker};
use p4jet_ir::{InstanceKind, Program, random};
use p4jet_jit::Options;
use p4jet_packet::{BATCH_MAX, Batch, PORT_DROP, Pool};
use p4jet_text::Commands;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Maximum length of a generated frame: more than any header stack, less than a buffer.
const FRAME_MAX: usize = 2000;
const PORTS: usize = 8;
/// Boundary values.
const EDGES: [u8; 12] = [0, 1, 4, 5, 6, 0x0f, 0x40, 0x45, 0x7f, 0x80, 0xfe, 0xff];

fn frames() -> u64 {
    let slowdown = if cfg!(debug_assertions) { 20 } else { 1 };
    std::env::var("FRAMES").map_or(30_000 / slowdown, |n| n.parse().expect("FRAMES is a number"))
}

/// Returns the packets of a program's packet tests and of its capture.
fn seeds(folder: &Path) -> Vec<Vec<u8>> {
    let scripts = common::stf_files(folder).into_iter().map(|f| fs::read_to_string(f).unwrap());
    let mut seeds: Vec<_> = scripts
        .flat_map(|s| common::stf_packets(&s))
        .map(|(_, frame)| frame)
        .filter(|f| !f.is_empty())
        .collect();
    seeds.extend(common::read_pcap(&folder.join("traffic.pcap").display().to_string()).into_iter().take(200));
    assert!(!seeds.is_empty());
    seeds
}

/// Generates a frame: a modified seed, one generated for the program, or noise.
fn frame(random: &mut Random, seeds: &[Vec<u8>], program: &Program, to: &mut Vec<u8>) {
    to.clear();
    match random.below(10) {
        0 => to.resize(random.below(200), 0),
        1 => {
            to.extend(random::packet(random.next(), program));
            to.truncate(FRAME_MAX);
            return;
        }
        _ => to.extend_from_slice(&seeds[random.below(seeds.len())]),
    }
    if to.iter().all(|byte| *byte == 0) {
        to.iter_mut().for_each(|byte| *byte = random.next() as u8);
    }
    for _ in 0..random.below(6) {
        let len = to.len();
        if len == 0 {
            break;
        }
        // Headers are at the start.
        let at = if random.below(3) > 0 { random.below(len.min(64)) } else { random.below(len) };
        match random.below(8) {
            0 => to[at] ^= 1 << random.below(8),
            1 => to[at] = random.next() as u8,
            2 => to[at] = random.pick(&EDGES),
            3 => to.truncate(at),
            4 => to.resize((len + random.below(300)).min(FRAME_MAX), random.next() as u8),
            5 => drop(to.drain(at..(at + random.below(20)).min(len))),
            6 => {
                let other = &seeds[random.below(seeds.len())];
                to.truncate(at);
                to.extend_from_slice(&other[random.below(other.len())..]);
                to.truncate(FRAME_MAX);
            }
            _ => {
                let from = random.below(len);
                let n = random.below(20).min(len - from.max(at));
                to.copy_within(from..from + n, at);
            }
        }
    }
}

fn shown(processed: &Processed) -> String {
    let sent = processed.sent.iter().map(|(port, frame)| format!("{} at port {port}", to_hex(frame)));
    let dropped = processed.dropped.iter().map(|reason| format!("dropped, {reason}"));
    sent.chain(dropped).collect::<Vec<_>>().join("; ")
}

/// One engine with its packets.
struct Side {
    worker: Worker,
    pool: Pool,
    batch: Batch,
}

impl Side {
    fn new(worker: Worker) -> Side {
        let pool = worker.pool(2 * BATCH_MAX, 9216).unwrap();
        Side { worker, pool, batch: Batch::new() }
    }

    /// Returns the result for packet `i` of the batch.
    fn outcome(&self, i: usize) -> Result<(u32, &[u8]), u32> {
        let packet = &self.batch.packets()[i];
        match packet.egress_port {
            PORT_DROP => Err(packet.drop_reason),
            port => Ok((port, self.pool.frame(packet))),
        }
    }
}

/// Runs both on their batches, then on the resulting copies.
fn compare_batches(program: &str, [interp, jit]: [&mut Side; 2], frames: &[Vec<u8>], now_us: u64) {
    for side in [&mut *interp, &mut *jit] {
        side.worker.set_time(Some(now_us));
        side.batch.clear();
        for (frame, port) in frames.iter().zip(0..) {
            side.batch.push(&mut side.pool, port % PORTS as u32, frame).unwrap();
        }
        side.worker.process(&mut side.pool, &mut side.batch);
    }
    let mut copies = false;
    loop {
        assert_eq!(interp.batch.len(), jit.batch.len(), "{program}: copies of a batch");
        for i in 0..interp.batch.len() {
            let (want, got) = (interp.outcome(i), jit.outcome(i));
            if want != got {
                let side = |outcome: Result<(u32, &[u8]), u32>, worker: &Worker| match outcome {
                    Ok((port, bytes)) => format!("{} at port {port}", to_hex(bytes)),
                    Err(reason) => worker.drop_reason(reason),
                };
                let (want, got) = (side(want, &interp.worker), side(got, &jit.worker));
                assert_eq!(
                    got,
                    want,
                    "{program}: machine code (left) and interpreter (right), {} {i} of a batch of {}: {}",
                    if copies { "copy" } else { "packet" },
                    frames.len(),
                    frames.iter().map(|f| to_hex(f)).collect::<Vec<_>>().join(" ")
                );
            }
        }
        copies = true;
        let [a, b] = [&mut *interp, &mut *jit].map(|s| s.worker.process_copies(&mut s.pool, &mut s.batch));
        assert_eq!(a, b, "{program}: copies wait on one engine only");
        if !a {
            break;
        }
    }
    assert_eq!(jit.worker.take_refused(), interp.worker.take_refused(), "{program}");
    assert_eq!(jit.worker.take_log(), interp.worker.take_log(), "{program}");
}

/// Gives a worker code for these frames.
fn adapt(switch: &Arc<Switch>, worker: &mut Worker, frames: &[Vec<u8>]) {
    let packets = frames.iter().zip(0..).map(|(frame, i)| (i % PORTS as u32, frame.as_slice()));
    let seen = switch.seen(packets).expect("the program runs");
    let code = switch.code_for_seen(&seen).unwrap_or_else(|e| panic!("{}", switch.program_error(&e)));
    assert!(worker.change_code(&code), "copies wait");
}

fn try_program(folder: &Path) {
    let name = common::stem(folder);
    let text = common::text_with_includes(&common::program(&name));
    let Outcome::Compiled { reference, optimised } = compile(&name, &text, Options::default()) else {
        panic!("{name} does not compile");
    };
    let mut controls = [&reference, &optimised].map(|switch| Control::new(Arc::clone(switch)));
    let entries = fs::read_to_string(folder.join("entries.cmd")).unwrap();
    for control in &mut controls {
        control.load("entries.cmd", &entries).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let program = reference.program().clone();
    let seeds = seeds(folder);
    let mut interp = Side::new(reference.worker(EngineKind::Interp, 0).unwrap());
    let mut jit = Side::new(optimised.worker(EngineKind::Jit, 0).unwrap());
    // In a batch, packets access registers in another order.
    let batches = !program.instances.iter().any(|i| matches!(i.kind, InstanceKind::Register { .. }));
    let mut batch: Vec<Vec<u8>> = vec![Vec::new(); BATCH_MAX];
    let (mut number, end) = (0, frames());
    // From there on with code for packets like these, renewed each time their number has quadrupled.
    let mut adapt_at = 64;
    let (mut forwarded, mut dropped) = (0u64, 0u64);
    while number < end {
        let mut random = Random::from_number(number);
        let n = 1 + random.below(BATCH_MAX.min((end - number) as usize));
        batch[..n].iter_mut().for_each(|to| frame(&mut random, &seeds, &program, to));
        if number >= adapt_at {
            adapt_at = 4 * number;
            adapt(&optimised, &mut jit.worker, &batch[..n]);
        }
        if batches && random.below(8) > 0 {
            compare_batches(&name, [&mut interp, &mut jit], &batch[..n], number);
        } else {
            for (i, frame) in batch[..n].iter().enumerate() {
                let one = |side: &mut Side| {
                    side.worker.set_time(Some(number + i as u64));
                    side.worker.process_one((i % PORTS) as u32, frame)
                };
                let (want, got) = (one(&mut interp), one(&mut jit));
                assert!(
                    want == got,
                    "{name}: the engines differ on {} at port {}\n  interpreter: {}\n  machine code: {}",
                    to_hex(frame),
                    i % PORTS,
                    shown(&want),
                    shown(&got)
                );
                forwarded += want.sent.len() as u64;
                dropped += want.dropped.len() as u64;
            }
        }
        number += n as u64;
    }
    for instance in &program.instances {
        for command in ["register_read", "counter_read"] {
            for i in 0..PORTS {
                let line = format!("{command} {} {i}", instance.name);
                let [want, got] = controls.each_mut().map(|control| control.execute(&line));
                assert_eq!(got, want, "{name}: {line}");
            }
        }
    }
    println!("{name}: {number} frames; of those tried alone {forwarded} left, {dropped} were dropped");
    // A program of a paper with its mistakes, which drops everything.
    assert!(number < 1000 || (forwarded > 0) == (name != "mac_mirror_printed"), "{name}: none left");
}

#[test]
fn engines_agree_on_any_frame() {
    common::program_folders().iter().for_each(|folder| try_program(folder));
}
