//! The cost of each stage of a program, from receiving to sending: `p4jet bench --stages`.

use crate::failure::Failure;
use crate::measure::{self, Source, Tally};
use crate::output::say;
use p4jet_dataplane::{Worker, ticks};
use p4jet_packet::{Batch, Pool};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A stage's share of the time of all packets.
struct Stage {
    name: String,
    /// Nanoseconds per received packet, whether or not it reached the stage.
    ns: f64,
    cycles: f64,
    /// Number of packets that reached it, per received packet.
    packets: f64,
}

/// The pipeline in stages, and undivided.
pub struct Stages {
    stages: Vec<Stage>,
    whole_ns: f64,
}

/// Number of batches that are timed together: the median of such rounds excludes those in which another process had the
/// processor.
const ROUND: usize = 16;
/// Number of rounds of one kind before those of the other, so that noise affects both.
const TURN: usize = 32;
/// Maximum number of rounds; more do not improve a median.
const ROUNDS_MAX: usize = 20_000;

/// Measures for at most `seconds`, half of them with `measured`, which is [`p4jet_dataplane::Switch::measured_worker`].
pub fn measure(
    worker: &mut Worker,
    measured: &mut Worker,
    source: &mut Source,
    pool: &mut Pool,
    seconds: f64,
) -> Result<Stages, Failure> {
    let mut tally = Tally::default();
    let limit = Duration::from_secs_f64(seconds);
    let (clock_start, ticks_start) = (Instant::now(), ticks());
    // Ticks of each round: of the whole pipeline, and of each column: receiving, the stages, the code around them,
    // sending.
    let mut whole = Vec::new();
    let mut columns = vec![Vec::new(); measured.stage_times().count() + 3];
    let mut packets = 0;
    while clock_start.elapsed() < limit && whole.len() < ROUNDS_MAX {
        for _ in 0..TURN {
            let round = round(worker, source, pool, &mut tally)?;
            whole.push((round.receive + round.process + round.send) as f64 / round.packets as f64);
        }
        for _ in 0..TURN {
            let before: Vec<u64> = measured.stage_times().map(|(_, time)| time.ticks).collect();
            let round = round(measured, source, pool, &mut tally)?;
            let stages = measured.stage_times().zip(before).map(|((_, after), before)| after.ticks - before);
            let stages: Vec<u64> = stages.collect();
            let around = round.process.saturating_sub(stages.iter().sum());
            let all = [round.receive].into_iter().chain(stages).chain([around, round.send]);
            for (column, ticks) in columns.iter_mut().zip(all) {
                column.push(ticks as f64 / round.packets as f64);
            }
            packets += round.packets;
        }
    }
    let ns_per_tick = clock_start.elapsed().as_nanos() as f64 / ticks().wrapping_sub(ticks_start) as f64;
    let mut names = vec![("receive", packets)];
    names.extend(measured.stage_times().map(|(name, time)| (name, time.packets)));
    names.extend([("around the stages", packets), ("send", packets)]);
    let rows = names.into_iter().zip(columns).filter(|((_, through), _)| *through > 0);
    let stages = rows.map(|((name, through), rounds)| {
        let cycles = measure::median(rounds);
        let share = through as f64 / packets as f64;
        Stage { name: name.to_string(), ns: cycles * ns_per_tick, cycles, packets: share }
    });
    Ok(Stages { stages: stages.collect(), whole_ns: measure::median(whole) * ns_per_tick })
}

/// Ticks of some batches.
struct Round {
    packets: u64,
    receive: u64,
    process: u64,
    send: u64,
}

fn round(
    worker: &mut Worker,
    source: &mut Source,
    pool: &mut Pool,
    tally: &mut Tally,
) -> Result<Round, Failure> {
    let mut round = Round { packets: 0, receive: 0, process: 0, send: 0 };
    let mut batch = Batch::new();
    let mut last = ticks();
    let since = |last: &mut u64| {
        let now = ticks();
        now.wrapping_sub(std::mem::replace(last, now))
    };
    for _ in 0..ROUND {
        batch.clear();
        source.receive(pool, &mut batch).map_err(|e| Failure::port(&e))?;
        round.packets += batch.len() as u64;
        round.receive += since(&mut last);
        worker.process(pool, &mut batch);
        loop {
            round.process += since(&mut last);
            tally.count(&batch);
            round.send += since(&mut last);
            if !worker.process_copies(pool, &mut batch) {
                break;
            }
        }
    }
    Ok(round)
}

impl Stages {
    fn sum_ns(&self) -> f64 {
        self.stages.iter().map(|stage| stage.ns).sum()
    }

    /// Returns the values of the keys `stages`, `stages_sum_ns` and `whole_ns`.
    pub fn json(&self) -> [(&'static str, Value); 3] {
        let stage = |s: &Stage| {
            let (ns, cycles) = (measure::round(s.ns), measure::round(s.cycles));
            json!({ "stage": s.name, "ns": ns, "cycles": cycles, "packets": measure::round(s.packets) })
        };
        [
            ("stages", self.stages.iter().map(stage).collect()),
            ("stages_sum_ns", json!(measure::round(self.sum_ns()))),
            ("whole_ns", json!(measure::round(self.whole_ns))),
        ]
    }

    /// Prints a table.
    pub fn print(&self) -> Result<(), Failure> {
        let width = self.stages.iter().map(|s| s.name.chars().count()).max().unwrap_or(0).max(18);
        say!("{:width$}  {:>8}  {:>8}  {:>8}  {:>8}", "stage", "ns", "so far", "cycles", "packets")?;
        let mut sum = 0.0;
        for s in &self.stages {
            sum += s.ns;
            let share = s.packets * 100.0;
            say!("{:width$}  {:8.2}  {sum:8.2}  {:8.1}  {share:6.1} %", s.name, s.ns, s.cycles)?;
        }
        say!("{:width$}  {:>8}  {:8.2}", "undivided pipeline", "", self.whole_ns)
    }
}
