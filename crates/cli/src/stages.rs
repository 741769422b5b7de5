//! The cost of each stage of a program, from receiving to sending: `p4jet bench --stages`.

use crate::failure::Failure;
use crate::measure::{self, Source, Tally};
use crate::output::say;
use p4jet_dataplane::{Worker, ticks};
use p4jet_packet::{Batch, Pool};
use p4jet_predict::own::{Model, PathWork, Work};
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
    kind: Row,
    /// Predicted nanoseconds per received packet.
    predicted: Option<f64>,
}

/// What a row is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Receive,
    /// The stage with this number.
    Stage(usize),
    Around,
    Send,
}

/// The pipeline in stages, and undivided.
pub struct Stages {
    stages: Vec<Stage>,
    whole_ns: f64,
    whole_predicted: Option<f64>,
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
    let mut names = vec![("receive", packets, Row::Receive)];
    let times = measured.stage_times().enumerate();
    names.extend(times.map(|(number, (name, time))| (name, time.packets, Row::Stage(number))));
    names.extend([("around the stages", packets, Row::Around), ("send", packets, Row::Send)]);
    let rows = names.into_iter().zip(columns).filter(|((_, through, _), _)| *through > 0);
    let stages = rows.map(|((name, through, kind), rounds)| {
        let cycles = measure::median(rounds);
        let packets = through as f64 / packets as f64;
        Stage { name: name.to_string(), ns: cycles * ns_per_tick, cycles, packets, kind, predicted: None }
    });
    let whole_ns = measure::median(whole) * ns_per_tick;
    Ok(Stages { stages: stages.collect(), whole_ns, whole_predicted: None })
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

    /// Adds predictions: of the undivided pipeline, and of what the code does that is cut into these stages.
    pub fn predict(&mut self, model: &Model, whole: &Work, cut: &Work) {
        self.whole_predicted = Some(model.predict(whole).ns);
        let shares = cut.shares();
        for stage in &mut self.stages {
            stage.predicted = match stage.kind {
                // The model has one cost for both.
                Row::Receive => Some(model.cost(&cut.received())),
                Row::Stage(number) => {
                    let of_path = |(path, share): (&PathWork, &f64)| {
                        let parts = path.parts.iter().filter(|part| part.stage == number);
                        share * parts.map(|part| model.cost(&part.features)).sum::<f64>()
                    };
                    Some(cut.paths.iter().zip(&shares).map(of_path).sum())
                }
                Row::Around | Row::Send => None,
            };
        }
    }

    /// Returns the values of the keys `stages`, `stages_sum_ns` and `whole_ns`.
    pub fn json(&self) -> [(&'static str, Value); 4] {
        let stage = |s: &Stage| {
            let (ns, cycles) = (measure::round(s.ns), measure::round(s.cycles));
            let mut stage =
                json!({ "stage": s.name, "ns": ns, "cycles": cycles, "packets": measure::round(s.packets) });
            if let Some(predicted) = s.predicted {
                stage["predicted_ns"] = json!(measure::round(predicted));
            }
            stage
        };
        [
            ("stages", self.stages.iter().map(stage).collect()),
            ("stages_sum_ns", json!(measure::round(self.sum_ns()))),
            ("whole_ns", json!(measure::round(self.whole_ns))),
            ("whole_predicted_ns", json!(self.whole_predicted.map(measure::round))),
        ]
    }

    /// Prints a table.
    pub fn print(&self) -> Result<(), Failure> {
        let width = self.stages.iter().map(|s| s.name.chars().count()).max().unwrap_or(0).max(18);
        let is_predicted = self.whole_predicted.is_some();
        let column = |text: String| if is_predicted { format!("  {text:>9}") } else { String::new() };
        let predicted = |ns: Option<f64>| column(ns.map_or(String::new(), |ns| format!("{ns:.2}")));
        let head = column("predicted".to_string());
        say!("{:width$}  {:>8}{head}  {:>8}  {:>8}  {:>8}", "stage", "ns", "so far", "cycles", "packets")?;
        let mut sum = 0.0;
        for s in &self.stages {
            sum += s.ns;
            let (share, predicted) = (s.packets * 100.0, predicted(s.predicted));
            say!("{:width$}  {:8.2}{predicted}  {sum:8.2}  {:8.1}  {share:6.1} %", s.name, s.ns, s.cycles)?;
        }
        let whole = predicted(self.whole_predicted);
        say!("{:width$}  {:>8}{whole}  {:8.2}", "undivided pipeline", "", self.whole_ns)?;
        if is_predicted {
            say!(
                "The prediction for \"receive\" includes sending; for the code between stages there is none."
            )?;
        }
        Ok(())
    }
}
