//! Several workers at once, each on its own processor with its own data: `p4jet bench --cores N`.

use crate::cores::Cores;
use crate::failure::Failure;
use crate::measure::{self, Measured, Source};
use p4jet_dataplane::{EngineKind, Switch, Worker};
use p4jet_packet::Pool;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// A worker with its packets and buffers.
pub struct Lane {
    /// The worker.
    pub worker: Worker,
    /// The packets, repeated.
    pub source: Source,
    /// The pool into which they are copied.
    pub pool: Pool,
}

impl Lane {
    /// Creates worker `index` of `count`. Its capture starts at a proportional offset, so that workers do not process
    /// the same flow at the same time.
    pub fn new(
        switch: &Arc<Switch>,
        engine: EngineKind,
        frames: &[Vec<u8>],
        port: u32,
        index: usize,
        count: usize,
    ) -> Result<Lane, Failure> {
        let worker = switch.worker(engine, index)?;
        let (begin, end) = frames.split_at(frames.len() * index / count);
        let frames: Vec<&Vec<u8>> = end.iter().chain(begin).collect();
        let source = Source::new(&frames, port)?;
        let pool = worker.pool(p4jet_packet::COUNT_DEFAULT, source.frame_max().max(1518));
        Ok(Lane { worker, source, pool: pool.map_err(measure::no_memory)? })
    }

    /// Runs for `seconds`.
    pub fn measure(&mut self, seconds: f64) -> Result<Measured, Failure> {
        measure::measure(&mut self.worker, &mut self.source, &mut self.pool, seconds)
    }
}

/// The results of several workers at once, and of one of them alone.
pub struct Together {
    /// All rounds.
    pub all: Measured,
    /// Million packets per second of the first worker alone.
    pub alone_mpps: f64,
    /// The total rate as a multiple of that of one worker.
    pub speedup: f64,
}

/// Number of measurements of one worker, and of all.
const ROUNDS: usize = 5;

/// Measures all lanes together for `seconds` in total, and between the rounds the first one alone, for the same time.
pub fn measure(lanes: &mut [Lane], seconds: f64) -> Result<Together, Failure> {
    let numbers = processors();
    let slice = seconds / ROUNDS as f64;
    let mut all = Measured::default();
    let (mut alone, mut speedups) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let one = at_once(&mut lanes[..1], &numbers, slice)?.mpps();
        let round = at_once(lanes, &numbers, slice)?;
        alone.push(one);
        speedups.push(round.mpps() / one);
        all.seconds += round.seconds;
        all.add(round);
    }
    Ok(Together { all, alone_mpps: measure::median(alone), speedup: measure::median(speedups) })
}

/// Returns the processors that this process may use.
pub fn processors() -> Vec<usize> {
    Cores::now().map_or(Vec::new(), |cores| cores.numbers())
}

/// Runs each lane on its own processor for `seconds`.
pub fn at_once(lanes: &mut [Lane], processors: &[usize], seconds: f64) -> Result<Measured, Failure> {
    // All start together: those that are ready wait for the last one, or until a thread cannot be started.
    let (count, ready, refused) = (lanes.len(), AtomicUsize::new(0), AtomicBool::new(false));
    let run = |(number, lane): (usize, &mut Lane)| {
        Cores::keep_to(&processors[number..=number]);
        ready.fetch_add(1, Ordering::SeqCst);
        while ready.load(Ordering::SeqCst) < count {
            if refused.load(Ordering::SeqCst) {
                return Ok(Measured::default());
            }
            thread::yield_now();
        }
        lane.measure(seconds)
    };
    let run = &run;
    let results: Vec<Result<Measured, Failure>> = thread::scope(|scope| {
        let spawn = |lane| p4jet_threads::spawn_scoped(scope, "measuring", move || run(lane));
        let mut threads = Vec::new();
        for lane in lanes.iter_mut().enumerate() {
            threads.push(spawn(lane).inspect_err(|_| refused.store(true, Ordering::SeqCst)));
        }
        let join = |thread: std::io::Result<thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread.join().expect("measuring does not panic"),
            Err(e) => Err(Failure::Environment(format!("no thread for {count} cores: {e}"))),
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = Measured::default();
    for result in results {
        let one = result?;
        all.seconds = all.seconds.max(one.seconds);
        all.add(one);
    }
    Ok(all)
}
