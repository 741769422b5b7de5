//! What packets make the machine code of a program do, as features of p4jet's model of its own speed; and measurements of it.

use crate::failure::Failure;
use crate::lanes::Lane;
use crate::measure::{self, Tally};
use p4jet_dataplane::{EngineKind, PassedPath, PathCodes, Seen, Switch, TableUse, ticks};
use p4jet_ir::{ActionId, TableId};
use p4jet_jit::{CALLEES, CodeCounts, Position};
use p4jet_predict::own::{Features, Part, PathWork, Work};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of packets that are interpreted to find out which paths they take.
const INTERPRETED: usize = 4096;
/// Number of packets for which the code is compiled.
const SEEN: usize = 256;

/// At most this many of the frames, evenly spread.
pub fn some(frames: &[Vec<u8>], count: usize) -> impl Iterator<Item = &Vec<u8>> {
    frames.iter().step_by(frames.len().div_ceil(count).max(1))
}

/// The observations for which `bench` and `run` compile after the first packets.
pub fn seen(switch: &Switch, frames: &[Vec<u8>], port: u32) -> Result<Seen, Failure> {
    let packets = some(frames, SEEN).map(|frame| (port, frame.as_slice()));
    let mut seen = switch.seen(packets).map_err(Failure::Input)?;
    seen.keep_what_pays(switch.program());
    Ok(seen)
}

/// What these packets make the code do, without running it. `entries`: assume that every table has this many.
pub fn work(
    switch: &Switch,
    seen: &Seen,
    frames: &[Vec<u8>],
    port: u32,
    entries: Option<u32>,
) -> Result<Work, Failure> {
    of_stages(switch, seen, false, frames, port, entries)
}

/// Like [`work`], for code that is cut into the stages of a measured worker if `is_measured`.
pub fn of_stages(
    switch: &Switch,
    seen: &Seen,
    is_measured: bool,
    frames: &[Vec<u8>],
    port: u32,
    entries: Option<u32>,
) -> Result<Work, Failure> {
    let sample: Vec<&Vec<u8>> = some(frames, INTERPRETED).collect();
    let packets = sample.iter().map(|frame| (port, frame.as_slice()));
    let codes = switch.path_codes(seen, is_measured, packets).map_err(Failure::Input)?;
    let PathCodes { tables, paths, packets } = codes;
    let lines: usize = sample.iter().map(|frame| frame.len().div_ceil(64)).sum();
    let mut received = Features::default();
    for frame in &sample {
        received.add_frame(frame.len(), 1.0 / sample.len() as f64);
    }
    // The keys that are looked up compete for the caches: all tables that are used count.
    let keys = tables.iter().enumerate().filter(|(_, used)| used.lookups > 0).map(|(id, used)| {
        let present = switch.table(TableId(id as u32)).len() as f64;
        match entries {
            Some(entries) => f64::from(entries),
            None if used.keys > 0.5 * used.lookups as f64 => present,
            None => present.min(used.keys),
        }
    });
    let keys: f64 = keys.sum();
    Ok(Work {
        paths: paths.iter().map(|path| of_path(switch, path, &tables, keys)).collect(),
        packets,
        frames: received,
        lines: lines as f64 / sample.len().max(1) as f64,
        loop_frames: frames.len(),
        loop_bytes: frames.iter().map(Vec::len).sum(),
    })
}

fn of_path(switch: &Switch, path: &PassedPath, tables: &[TableUse], keys: f64) -> PathWork {
    let PassedPath { steps, code } = path;
    let mut parts: Vec<Part> = Vec::new();
    for (number, stage) in code.stages.iter().enumerate() {
        let mut around = Features::default();
        counts(&mut around, &stage.around);
        if number > 0 {
            around.add("stage", 1.0);
        }
        parts.push(Part { name: "around the stages".to_string(), stage: stage.stage, features: around });
        for (block, code) in &stage.blocks {
            let mut features = Features::default();
            counts(&mut features, code);
            parts.push(Part { name: block.clone(), stage: stage.stage, features });
        }
    }
    for lookup in &code.lookups {
        let table = switch.table(lookup.table);
        let mut features = Features::default();
        if let Some(structure) = table.structure_name() {
            let used = &tables[lookup.table.index()];
            features.add_lookup(&structure, lookup.waits, keys, used.steps, used.varies);
            if lookup.has_members {
                features.add(if lookup.waits_for_row { "member, batch waits" } else { "member" }, 1.0);
            }
            if lookup.is_remembered {
                features.add("remembered lookup", 1.0);
            }
            features.add_cells("direct counter", lookup.direct as f64, keys);
        }
        let name = &switch.program().tables[lookup.table.index()].name;
        parts.push(Part { name: format!("{name}: lookup"), stage: lookup.stage, features });
    }
    for call in &code.externs {
        let mut features = Features::default();
        let inline = if call.is_inline { ", inline" } else { "" };
        features.add(&format!("extern {}{inline}", call.function), 1.0);
        features.add(&format!("byte of {}{inline}", call.function), f64::from(call.bytes));
        if call.cells > 0 {
            features.add_cells(&format!("cell{inline}"), 1.0, f64::from(call.cells));
        }
        parts.push(Part { name: "extern functions".to_string(), stage: call.stage, features });
    }
    let decision = |(position, action): &(Position, Option<ActionId>)| {
        let action = action.map_or(u32::MAX, |action| action.index() as u32);
        (position.step.as_u32(), position.node.index() as u32, action)
    };
    PathWork { decisions: steps.0.iter().map(decision).collect(), parts }
}

fn counts(features: &mut Features, code: &CodeCounts) {
    features.add("instruction", f64::from(code.instructions));
    features.add("load", f64::from(code.loads));
    features.add("store", f64::from(code.stores));
    features.add("branch", f64::from(code.branches));
    features.add("multiplication", f64::from(code.multiplications));
    features.add("division", f64::from(code.divisions));
    for (name, calls) in CALLEES.iter().zip(code.calls) {
        features.add(&format!("call: {name}"), f64::from(calls));
    }
}

/// A loop of integer operations and memory accesses that takes always the same time on an idle machine.
pub struct Calibration {
    words: Vec<u64>,
    /// Ticks of each run.
    runs: Vec<f64>,
    start: (Instant, u64),
}

impl Calibration {
    pub fn new() -> Calibration {
        let words = (0..2048).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        Calibration { words, runs: Vec::new(), start: (Instant::now(), ticks()) }
    }

    /// Runs the loop once; returns its time in ticks.
    fn run(&mut self) -> f64 {
        let start = ticks();
        let mut sum = 0u64;
        for _ in 0..2 {
            for i in 0..self.words.len() {
                let at = (self.words[i] >> 53) as usize;
                sum = sum.wrapping_add(self.words[at] ^ self.words[i].rotate_left(7));
            }
        }
        self.words[0] = std::hint::black_box(sum);
        let took = ticks().wrapping_sub(start) as f64;
        self.runs.push(took);
        took
    }

    /// Median time of a run in nanoseconds.
    pub fn ns(&self) -> f64 {
        let (clock, ticked) = self.start;
        let ns_per_tick = clock.elapsed().as_nanos() as f64 / ticks().wrapping_sub(ticked) as f64;
        measure::median(self.runs.clone()) * ns_per_tick
    }
}

/// Runs of a measurement: at least, and at most if the fastest two differ by more than [`AGREE`].
const RUNS: [usize; 2] = [3, 8];
const AGREE: f64 = 0.02;
/// The time of a run in seconds, and that before it which is not measured.
const RUN_SECONDS: f64 = 0.05;
const WARM_UP_SECONDS: f64 = 0.02;

/// Measures the time of a packet in times of the calibration, with the code for what was seen. Each run alternates between the
/// packets and the calibration; its result is the median. The fastest run counts, because other processes only add time.
pub fn measure(
    switch: &Arc<Switch>,
    seen: &Seen,
    frames: &[Vec<u8>],
    port: u32,
    calibration: &mut Calibration,
) -> Result<f64, Failure> {
    let mut lane = Lane::new(switch, EngineKind::Jit, frames, port, 0, 1)?;
    let code = switch.code_for_seen(seen).map_err(|e| Failure::Input(e.message))?;
    lane.worker.change_code(&code);
    let mut runs = Vec::new();
    while runs.len() < RUNS[1] {
        rounds(&mut lane, calibration, WARM_UP_SECONDS)?;
        runs.push(measure::median(rounds(&mut lane, calibration, RUN_SECONDS)?));
        runs.sort_by(f64::total_cmp);
        if runs.len() >= RUNS[0] && runs[1] <= runs[0] * (1.0 + AGREE) {
            break;
        }
    }
    Ok(runs[0])
}

/// Alternates between packets and the calibration; returns the ratio of their times for each round.
fn rounds(lane: &mut Lane, calibration: &mut Calibration, seconds: f64) -> Result<Vec<f64>, Failure> {
    let limit = Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let mut ratios = Vec::new();
    let mut tally = Tally::default();
    let Lane { worker, source, pool } = lane;
    while start.elapsed() < limit {
        let calibrated = calibration.run();
        let begin = ticks();
        let packets = measure::batches(worker, source, pool, &mut tally)?;
        let took = ticks().wrapping_sub(begin) as f64;
        ratios.push(took / packets as f64 / calibrated);
    }
    Ok(ratios)
}
