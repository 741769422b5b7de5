//! Changes of a table while packets flow: their rate, their cost for the packets, and the time until they take effect.
//! `p4jet bench --churn`.

use crate::cores::Cores;
use crate::failure::Failure;
use crate::measure::{self, Source};
use crate::output::say;
use p4jet_dataplane::{EntryHandle, Matched, Processed, Switch, TraceEvent, Worker};
use p4jet_ir::TableId;
use p4jet_packet::{Batch, Pool};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The result of a measurement.
pub struct Churn {
    table: String,
    entries: usize,
    /// True if each thread had its own processor.
    apart: bool,
    /// Changes per second at full speed, and the fraction of the packet rate that remains.
    free_per_second: f64,
    free_ratio: f64,
    /// The requested changes per second, or fewer if that is too many.
    paced_per_second: f64,
    mpps: f64,
    ratio: f64,
    /// Microseconds for each of the paced changes, ascending.
    changes_us: Vec<f64>,
    /// Microseconds until an added entry took effect, ascending.
    effects_us: Vec<f64>,
}

/// Measurements: without changes, with paced changes, with changes at full speed.
const ROUNDS: usize = 5;
/// Number of times that an entry is removed and restored to observe when that takes effect.
const PROBES: usize = 1000;
/// Maximum wait for an effect.
const DEADLINE: Duration = Duration::from_secs(2);

/// The work of the second thread.
struct Changes {
    count: u64,
    /// Nanoseconds for each.
    each_ns: Vec<u32>,
}

/// Deletes and restores the first `entries` entries of the largest table, in a second thread; `rate` changes per second
/// when they are paced.
pub fn measure(
    worker: &mut Worker,
    source: &mut Source,
    pool: &mut Pool,
    seconds: f64,
    entries: usize,
    rate: f64,
) -> Result<Churn, Failure> {
    let switch = worker.switch().clone();
    let table = measure::tables(&switch).max_by_key(|id| switch.table(*id).len());
    let table = table.filter(|id| !switch.table(*id).is_empty());
    let table = table.ok_or_else(|| Failure::Usage("--churn: no table has entries".to_string()))?;
    let mut handles: Vec<_> = switch.table(table).entries().take(entries).map(|(handle, _)| handle).collect();
    let cores = Cores::now();
    let numbers = cores.as_ref().map_or(Vec::new(), Cores::numbers);
    // With more than two processors, one is left for the background work of tables.
    let (packets, changes) = numbers.split_at(numbers.len().min(1));
    let changer = Some(changes).filter(|changes| !changes.is_empty());
    if changer.is_some() {
        Cores::keep_to(packets);
    }
    let slice = seconds / (3 * ROUNDS) as f64;
    let (mut free_rates, mut free_ratios) = (Vec::new(), Vec::new());
    let (mut rates, mut ratios, mut mpps, mut changes_us) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let quiet = measure::measure(worker, source, pool, slice)?;
        for pace in [Some(rate), None] {
            let stop = AtomicBool::new(false);
            let (busy, changes) = thread::scope(|scope| {
                let writer = p4jet_threads::spawn_scoped(scope, "changing", || {
                    changer.into_iter().for_each(Cores::keep_to);
                    change(&switch, table, &mut handles, pace, &stop)
                });
                let writer = writer.map_err(no_thread)?;
                let busy = measure::measure(worker, source, pool, slice);
                stop.store(true, Ordering::Relaxed);
                Ok::<_, Failure>((busy, writer.join().expect("changing a table does not panic")))
            })?;
            let busy = busy?;
            let (per_second, ratio) = (changes.count as f64 / busy.seconds, busy.mpps() / quiet.mpps());
            if pace.is_some() {
                rates.push(per_second);
                ratios.push(ratio);
                mpps.push(busy.mpps());
                changes_us.extend(changes.each_ns.into_iter().map(|ns| f64::from(ns) / 1e3));
            } else {
                free_rates.push(per_second);
                free_ratios.push(ratio);
            }
        }
    }
    let mut effects_us = effects(worker, source, pool, &switch, table, changer)?;
    effects_us.sort_by(f64::total_cmp);
    changes_us.sort_by(f64::total_cmp);
    Ok(Churn {
        table: switch.program().tables[table.index()].name.clone(),
        entries: handles.len(),
        apart: changer.is_some(),
        free_per_second: measure::median(free_rates),
        free_ratio: measure::median(free_ratios),
        paced_per_second: measure::median(rates),
        mpps: measure::median(mpps),
        ratio: measure::median(ratios),
        changes_us,
        effects_us,
    })
}

/// Deletes and restores one entry after another until `stop` is set; with `pace`, at most that many changes per second,
/// which are timed.
fn change(
    switch: &Switch,
    table: TableId,
    handles: &mut [EntryHandle],
    pace: Option<f64>,
    stop: &AtomicBool,
) -> Changes {
    let mut changes = Changes { count: 0, each_ns: Vec::new() };
    let begin = Instant::now();
    loop {
        for handle in &mut *handles {
            let wait = |changes: &Changes| {
                let due = pace.map_or(0.0, |pace| changes.count as f64 / pace);
                while begin.elapsed().as_secs_f64() < due && !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                Instant::now()
            };
            let done = |changes: &mut Changes, start: Instant| {
                changes.count += 1;
                if pace.is_some() {
                    changes.each_ns.push(start.elapsed().as_nanos().try_into().unwrap_or(u32::MAX));
                }
            };
            let start = wait(&changes);
            let Ok(entry) = switch.table(table).delete(*handle) else { return changes };
            done(&mut changes, start);
            // The next round needs the entry.
            let start = wait(&changes);
            let Ok(new) = switch.table(table).insert(entry) else { return changes };
            done(&mut changes, start);
            *handle = new;
            if stop.load(Ordering::Relaxed) {
                return changes;
            }
        }
    }
}

/// Restores an entry repeatedly while packets flow, and measures the time until the worker uses it. Empty if no packet at
/// the start of the capture shows by its output that it matched an entry of the table.
fn effects(
    worker: &mut Worker,
    source: &mut Source,
    pool: &mut Pool,
    switch: &Switch,
    table: TableId,
    changer: Option<&[usize]>,
) -> Result<Vec<f64>, Failure> {
    source.rewind();
    let port = source.port();
    let mut batch = Batch::new();
    source.receive(pool, &mut batch).map_err(|e| Failure::port(&e))?;
    let frames: Vec<Vec<u8>> = batch.packets().iter().map(|packet| pool.frame(packet).to_vec()).collect();
    let Some((frame, mut handle, with, without)) =
        frames.into_iter().find_map(|frame| revealing_frame(worker, switch, table, port, frame))
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
        let writer = p4jet_threads::spawn_scoped(scope, "changing", || {
            changer.into_iter().for_each(Cores::keep_to);
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
        let writer = writer.map_err(no_thread)?;
        while !stop.load(Ordering::Relaxed) {
            batch.clear();
            source.receive(pool, &mut batch).map_err(|e| Failure::port(&e))?;
            worker.process(pool, &mut batch);
            while worker.process_copies(pool, &mut batch) {}
            let processed = worker.process_one(port, &frame);
            if processed == with || processed == without {
                present.store(processed == with, Ordering::Release);
            }
        }
        Ok(writer.join().expect("changing a table does not panic"))
    })
}

fn no_thread(error: std::io::Error) -> Failure {
    Failure::Environment(format!("no thread to change a table: {error}"))
}

/// Returns a frame whose output shows whether its matching entry is present, with that entry and both outputs.
fn revealing_frame(
    worker: &mut Worker,
    switch: &Switch,
    table: TableId,
    port: u32,
    frame: Vec<u8>,
) -> Option<(Vec<u8>, EntryHandle, Processed, Processed)> {
    let (trace, _) = switch.trace(port, &frame).ok()?;
    let mut handle = trace.events.iter().find_map(|event| match event {
        TraceEvent::Apply { table: t, matched: Matched::Hit { handle, .. }, .. } if *t == table => {
            Some(*handle)
        }
        _ => None,
    })?;
    let with = worker.process_one(port, &frame);
    let entry = switch.table(table).delete(handle).ok()?;
    let without = worker.process_one(port, &frame);
    handle = switch.table(table).insert(entry).ok()?;
    (with != without).then_some((frame, handle, with, without))
}

/// Returns a quantile of sorted values.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share) as usize])
}

impl Churn {
    /// Returns the value of the key `churn`.
    pub fn json(&self) -> Value {
        let quantile = |of, share| quantile(of, share).map(measure::round);
        let (changes, effects) = (&self.changes_us, &self.effects_us);
        json!({
            "table": self.table, "entries": self.entries, "cores": if self.apart { 2 } else { 1 },
            "changes_per_second": self.free_per_second.round(), "ratio_at_most_changes": measure::round(self.free_ratio),
            "paced_per_second": self.paced_per_second.round(),
            "mpps": measure::round(self.mpps), "ratio": measure::round(self.ratio),
            "change_us_median": quantile(changes, 0.5), "change_us_p99": quantile(changes, 0.99),
            "change_us_max": quantile(changes, 1.0),
            "effect_us_median": quantile(effects, 0.5), "effect_us_p99": quantile(effects, 0.99),
            "effect_us_max": quantile(effects, 1.0),
        })
    }

    /// Prints a few lines.
    pub fn print(&self) -> Result<(), Failure> {
        let spread = |of: &[f64]| {
            let [median, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(of, share).unwrap_or(0.0));
            format!("{median:.1} µs (median of {}), {p99:.1} µs (99 of 100), {max:.1} µs (longest)", of.len())
        };
        say!(
            "changes of {}: {:.0} per second at full speed, packets at {:.2} of their rate without changes",
            self.table,
            self.free_per_second,
            self.free_ratio
        )?;
        say!(
            "at {:.0} changes per second: {:.2} Mpps, {:.2} of the rate without changes; a change takes {}",
            self.paced_per_second,
            self.mpps,
            self.ratio,
            spread(&self.changes_us)
        )?;
        if !self.apart {
            say!("both threads shared one processor, so these figures are meaningless")?;
        }
        match self.effects_us.as_slice() {
            [] => say!("no packet shows when a new entry takes effect"),
            effects => say!("a new entry takes effect after {}", spread(effects)),
        }
    }
}
