//! Changes of a table while packets flow: how many a second, what they cost the packets, and how soon they take effect.
//! `p4jet bench --churn`.

use crate::bench;
use crate::failure::Failure;
use crate::output::say;
use p4jet_dataplane::{Matched, Processed, Switch, TraceEvent, Worker};
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{LoopPort, Port};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What was measured.
pub struct Churn {
    table: String,
    entries: usize,
    changes_per_second: f64,
    mpps: f64,
    ratio: f64,
    /// Microseconds until an entry that was added had effect, in rising order.
    effects_us: Vec<f64>,
}

/// Pairs of measurements, with changes and without.
const PAIRS: usize = 5;
/// How often an entry is taken away and brought back to see when that takes effect.
const PROBES: usize = 200;
/// An effect that is not seen for so long will not be seen.
const DEADLINE: Duration = Duration::from_secs(2);

/// Deletes and adds again the first `entries` entries of the table that has most, from a second thread.
pub fn measure(
    worker: &mut Worker,
    source: &mut LoopPort,
    pool: &mut Pool,
    seconds: f64,
    entries: usize,
) -> Result<Churn, Failure> {
    let switch = worker.switch().clone();
    let table = bench::tables(&switch).max_by_key(|id| switch.table(*id).len());
    let table = table.filter(|id| !switch.table(*id).is_empty());
    let table = table.ok_or_else(|| Failure::Usage("--churn: no table has entries".to_string()))?;
    let mut handles: Vec<_> = switch.table(table).entries().take(entries).map(|(handle, _)| handle).collect();
    let (mut rates, mut ratios, mut mpps) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let slice = seconds / (2 * PAIRS) as f64;
        let quiet = bench::measure(worker, source, pool, slice)?;
        let stop = AtomicBool::new(false);
        let (busy, changes) = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut changes = 0u64;
                'all: while !stop.load(Ordering::Relaxed) {
                    for handle in &mut handles {
                        let Ok(entry) = switch.table(table).delete(*handle) else { break 'all };
                        let Ok(new) = switch.table(table).insert(entry) else { break 'all };
                        *handle = new;
                        changes += 2;
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                }
                changes
            });
            let busy = bench::measure(worker, source, pool, slice);
            stop.store(true, Ordering::Relaxed);
            (busy, writer.join().expect("changing a table does not panic"))
        });
        let busy = busy?;
        rates.push(changes as f64 / busy.seconds);
        ratios.push(busy.mpps() / quiet.mpps());
        mpps.push(busy.mpps());
    }
    let mut effects_us = effects(worker, source, pool, &switch, table)?;
    effects_us.sort_by(f64::total_cmp);
    Ok(Churn {
        table: switch.program().tables[table.index()].name.clone(),
        entries: handles.len(),
        changes_per_second: bench::median(rates),
        mpps: bench::median(mpps),
        ratio: bench::median(ratios),
        effects_us,
    })
}

/// Brings an entry back again and again while packets flow: how long until the worker does what it says, each time. Nothing
/// if no packet at the beginning of the capture shows by its output that an entry of the table was hit.
fn effects(
    worker: &mut Worker,
    source: &mut LoopPort,
    pool: &mut Pool,
    switch: &Switch,
    table: p4jet_ir::TableId,
) -> Result<Vec<f64>, Failure> {
    source.rewind();
    let mut batch = Batch::new();
    source.receive(0, pool, &mut batch).map_err(|e| Failure::port(&e))?;
    let frames: Vec<Vec<u8>> = batch.packets().iter().map(|packet| pool.frame(packet).to_vec()).collect();
    let Some((frame, mut handle, with, without)) =
        frames.into_iter().find_map(|frame| telling(worker, switch, table, frame))
    else {
        return Ok(Vec::new());
    };
    let (stop, present) = (AtomicBool::new(false), AtomicBool::new(true));
    let seen = |what: bool| {
        let start = Instant::now();
        while present.load(Ordering::Acquire) != what {
            if start.elapsed() > DEADLINE {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut effects = Vec::new();
            while effects.len() < PROBES {
                let Ok(entry) = switch.table(table).delete(handle) else { break };
                let gone = seen(false);
                let start = Instant::now();
                let Ok(new) = switch.table(table).insert(entry) else { break };
                handle = new;
                if !gone || !seen(true) {
                    break;
                }
                effects.push(start.elapsed().as_secs_f64() * 1e6);
            }
            stop.store(true, Ordering::Relaxed);
            effects
        });
        while !stop.load(Ordering::Relaxed) {
            batch.clear();
            source.receive(0, pool, &mut batch).map_err(|e| Failure::port(&e))?;
            worker.process(pool, &mut batch);
            while worker.process_copies(pool, &mut batch) {}
            let processed = worker.process_one(0, &frame);
            if processed == with || processed == without {
                present.store(processed == with, Ordering::Release);
            }
        }
        Ok(writer.join().expect("changing a table does not panic"))
    })
}

/// A frame whose output shows whether the entry that it hits is there: with that entry, and both outputs.
fn telling(
    worker: &mut Worker,
    switch: &Switch,
    table: p4jet_ir::TableId,
    frame: Vec<u8>,
) -> Option<(Vec<u8>, p4jet_dataplane::EntryHandle, Processed, Processed)> {
    let (trace, _) = switch.trace(0, &frame).ok()?;
    let mut handle = trace.events.iter().find_map(|event| match event {
        TraceEvent::Apply { table: t, matched: Matched::Hit { handle, .. }, .. } if *t == table => {
            Some(*handle)
        }
        _ => None,
    })?;
    let with = worker.process_one(0, &frame);
    let entry = switch.table(table).delete(handle).ok()?;
    let without = worker.process_one(0, &frame);
    handle = switch.table(table).insert(entry).ok()?;
    (with != without).then_some((frame, handle, with, without))
}

impl Churn {
    fn effect_us(&self, share: f64) -> Option<f64> {
        let last = self.effects_us.len().checked_sub(1)?;
        Some(self.effects_us[(last as f64 * share) as usize])
    }

    /// For the key `churn`.
    pub fn json(&self) -> Value {
        let effect = |share| self.effect_us(share).map(bench::round);
        json!({
            "table": self.table, "entries": self.entries,
            "changes_per_second": self.changes_per_second.round(),
            "mpps": bench::round(self.mpps), "ratio": bench::round(self.ratio),
            "effect_us_median": effect(0.5), "effect_us_p95": effect(0.95), "effect_us_max": effect(1.0),
        })
    }

    /// Two lines.
    pub fn print(&self) -> Result<(), Failure> {
        say!(
            "changes of {}: {:.0} a second, {:.2} Mpps meanwhile, {:.2} of the rate without",
            self.table,
            self.changes_per_second,
            self.mpps,
            self.ratio
        )?;
        match (self.effect_us(0.5), self.effect_us(0.95), self.effect_us(1.0)) {
            (Some(median), Some(p95), Some(max)) => say!(
                "a new entry takes effect after {median:.1} µs (median of {}), {p95:.1} µs (95 of 100), {max:.1} µs (longest)",
                self.effects_us.len()
            ),
            _ => say!("no packet tells when a new entry takes effect"),
        }
    }
}
