//! Compares the pipeline on several threads with one worker that runs each batch to completion: throughput and latency
//! by the size of the rings between the threads. `p4jet bench --pipelined`.

use crate::cores::Cores;
use crate::failure::Failure;
use crate::lanes::{self, Lane};
use crate::measure::{self, Digest, Measured, Source, Tally, round};
use crate::output::say;
use hdrhistogram::Histogram;
use p4jet_dataplane::{Pipelined, Switch};
use p4jet_packet::{Batch, Pool};
use p4jet_ports::PortError;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Default ring sizes in packets.
pub const RINGS: [usize; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
/// Maximum latency that is distinguished, in nanoseconds.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
/// Number of alternating measurements of one worker and of the threads.
const ROUNDS: usize = 5;

/// One line of the table.
struct Line {
    /// Packets; 0 for the worker.
    ring: usize,
    /// All rounds.
    measured: Measured,
    /// The median rate, and the median ratio to the worker.
    mpps: f64,
    ratio: f64,
    latency_ns: Histogram<u64>,
    /// The digest of one pass of the capture.
    digest: String,
}

/// The result of a measurement.
pub struct Comparison {
    lines: Vec<Line>,
    threads: usize,
    processors: usize,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_MAX_NS, 3).expect("the bounds are right")
}

impl Line {
    fn new(ring: usize, digest: String) -> Line {
        let (measured, latency_ns) = (Measured::default(), histogram());
        Line { ring, measured, mpps: 0.0, ratio: 1.0, latency_ns, digest }
    }

    /// Adds a round, and returns its rate.
    fn add(&mut self, (round, latency_ns): (Measured, Histogram<u64>)) -> f64 {
        let mpps = round.mpps();
        self.measured.seconds += round.seconds;
        self.measured.add(round);
        let _ = self.latency_ns.add(&latency_ns);
        mpps
    }
}

/// Measures each ring size for `seconds`, alternating with the lane's worker. `digest` is that of the worker.
pub fn measure(
    switch: &Arc<Switch>,
    lane: &mut Lane,
    rings: &[usize],
    seconds: f64,
    digest: &str,
) -> Result<Comparison, Failure> {
    let processors = lanes::processors();
    let threads = switch.workers();
    let slice = seconds / ROUNDS as f64;
    let mut worker = Line::new(0, digest.to_string());
    let (mut lines, mut alone) = (Vec::new(), Vec::new());
    for &ring in rings {
        let frame_max = lane.source.frame_max().max(1518);
        let mut pipelined = Pipelined::new(switch, ring, frame_max)?;
        let mut line = Line::new(ring, one_pass(&mut pipelined, &mut lane.source)?);
        on_threads(&mut pipelined, &mut lane.source, threads, &processors, slice.min(0.2))?;
        let (mut rates, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let one = worker.add(to_completion(lane, &processors, slice)?);
            let round = on_threads(&mut pipelined, &mut lane.source, threads, &processors, slice)?;
            let all = line.add(round);
            alone.push(one);
            rates.push(all);
            ratios.push(all / one);
        }
        (line.mpps, line.ratio) = (measure::median(rates), measure::median(ratios));
        lines.push(line);
    }
    worker.mpps = measure::median(alone);
    lines.insert(0, worker);
    Ok(Comparison { lines, threads, processors: processors.len() })
}

/// Measures a worker alone, reading the clock for each batch as the pipeline does.
fn to_completion(
    lane: &mut Lane,
    processors: &[usize],
    seconds: f64,
) -> Result<(Measured, Histogram<u64>), Failure> {
    let run = || {
        if let Some(first) = processors.first() {
            Cores::keep_to(&[*first]);
        }
        let (mut tally, mut latency_ns) = (Tally::default(), histogram());
        let (mut measured, mut batch) = (Measured::default(), Batch::new());
        let limit = Duration::from_secs_f64(seconds);
        let start = Instant::now();
        let mut received = start;
        while received - start < limit {
            batch.clear();
            lane.source.receive(&mut lane.pool, &mut batch).map_err(|e| Failure::port(&e))?;
            measured.packets += batch.len() as u64;
            lane.worker.process(&mut lane.pool, &mut batch);
            tally.count(&batch);
            let sent = Instant::now();
            let _ = latency_ns.record_n((sent - received).as_nanos() as u64, batch.len() as u64);
            received = sent;
        }
        measured.seconds = start.elapsed().as_secs_f64();
        tally.put(&mut measured);
        Ok((measured, latency_ns))
    };
    std::thread::scope(|scope| {
        let thread = p4jet_threads::spawn_scoped(scope, "measuring", run);
        let thread = thread.map_err(|e| Failure::Environment(format!("no thread to measure on: {e}")))?;
        thread.join().expect("measuring does not panic")
    })
}

/// Returns the digest of the outputs of one pass of the capture.
fn one_pass(pipelined: &mut Pipelined, source: &mut Source) -> Result<String, Failure> {
    source.rewind();
    let (mut left, mut digest) = (source.frames(), Digest::default());
    let mut failed = None;
    pipelined.run(
        &|_| {},
        &mut |pool: &mut Pool, batch: &mut Batch| {
            failed = source.receive(pool, batch).err();
            batch.truncate(left);
            left -= batch.len();
            failed.is_none() && left > 0
        },
        &mut |pool, batch, _| digest.add(pool, batch),
    );
    source.rewind();
    refused(failed)?;
    Ok(digest.text())
}

fn on_threads(
    pipelined: &mut Pipelined,
    source: &mut Source,
    threads: usize,
    processors: &[usize],
    seconds: f64,
) -> Result<(Measured, Histogram<u64>), Failure> {
    let (mut tally, mut latency_ns) = (Tally::default(), histogram());
    let mut measured = Measured::default();
    let mut failed = None;
    let limit = Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let mut packets = 0;
    pipelined.run(
        &|thread| {
            // If there are fewer processors than threads, neighbours in the pipeline share one.
            if !processors.is_empty() {
                let at = thread * processors.len().min(threads) / threads;
                Cores::keep_to(&processors[at..=at]);
            }
        },
        &mut |pool, batch| {
            failed = source.receive(pool, batch).err();
            packets += batch.len() as u64;
            failed.is_none() && start.elapsed() < limit
        },
        &mut |_, batch, since| {
            tally.count(batch);
            let _ = latency_ns.record_n(since.as_nanos() as u64, batch.len() as u64);
        },
    );
    measured.seconds = start.elapsed().as_secs_f64();
    measured.packets = packets;
    tally.put(&mut measured);
    refused(failed)?;
    Ok((measured, latency_ns))
}

fn refused(error: Option<PortError>) -> Result<(), Failure> {
    error.map_or(Ok(()), |e| Err(Failure::port(&e)))
}

impl Comparison {
    /// Prints the table in Markdown.
    pub fn print(&self) -> Result<(), Failure> {
        say!(
            "\npipelined: {} threads on {} processors, batches of up to 64 packets; latency from receiving to sending, µs\n",
            self.threads,
            self.processors.min(self.threads)
        )?;
        say!("| ring, packets | Mpps | of one worker | p50 | p99 | p99.9 | longest |")?;
        say!("|---|---|---|---|---|---|---|")?;
        for line in &self.lines {
            let us = |ns: u64| ns as f64 / 1e3;
            let at = |quantile| us(line.latency_ns.value_at_quantile(quantile));
            let ring = if line.ring == 0 { "one worker".to_string() } else { line.ring.to_string() };
            say!(
                "| {ring} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} | {:.1} |",
                line.mpps,
                line.ratio,
                at(0.5),
                at(0.99),
                at(0.999),
                us(line.latency_ns.max())
            )?;
        }
        if self.lines.iter().any(|line| line.digest != self.lines[0].digest) {
            say!("\noutputs differ: does the program use the time or random numbers?")?;
        }
        Ok(())
    }

    /// Returns the results as JSON.
    pub fn json(&self) -> Value {
        let lines = self.lines.iter().map(|line| {
            let us = |ns: u64| round(ns as f64 / 1e3);
            let at = |quantile| us(line.latency_ns.value_at_quantile(quantile));
            json!({
                "ring": line.ring, "mpps": round(line.mpps), "ratio": round(line.ratio),
                "packets": line.measured.packets, "drops": line.measured.drops,
                "latency_us_p50": at(0.5), "latency_us_p99": at(0.99), "latency_us_p99_9": at(0.999),
                "latency_us_max": us(line.latency_ns.max()), "digest": line.digest,
            })
        });
        json!({ "threads": self.threads, "rings": lines.collect::<Value>() })
    }
}
