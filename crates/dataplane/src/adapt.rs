//! Adaptation: recompiles a running program for its traffic.
//!
//! The first code of a program suits any traffic. A thread periodically samples a few packets of each worker and asks
//! the interpreter which nodes they visit. If many packets take the same path, or if table sizes differ from those
//! that the code assumes, the thread recompiles the program for these hot paths and sizes, and the workers switch to
//! the new code between two batches.

use crate::forward::{Forwarder, Sample};
use crate::run_error::RunError;
use crate::running::Running;
use crate::seen::Paths;
use crate::switch::Switch;
use p4jet_jit::{Cancel, ENTRIES_STEPS, Seen};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between the first samples, and after a recompilation.
const WAIT_MIN: Duration = Duration::from_millis(250);
/// Maximum time between two samples.
const WAIT_MAX: Duration = Duration::from_secs(4);
/// Sampling and compiling take at most this fraction (one part in `SHARE`) of a processor's time.
const SHARE: u32 = 20;
/// Samples with fewer packets are ignored.
const PACKETS_MIN: usize = 64;
/// New hot paths must cover at least this many percentage points more of the packets than the current ones.
const GAIN_PERCENT: usize = 25;

/// A recompilation.
#[derive(Clone, Debug)]
pub struct Adaptation {
    /// Number of hot paths.
    pub hot_paths: usize,
    /// Percentage of the sampled packets that took them.
    pub percent: usize,
    /// Time of the compilation.
    pub took: Duration,
}

/// Recompiles a running switch for its packets and entries until it is dropped.
pub struct Adapter {
    stop: Option<Sender<()>>,
    cancel: Cancel,
    thread: Option<JoinHandle<()>>,
}

impl Adapter {
    /// Starts the thread, which calls `report` after each recompilation. Programs with output queues, and pipelines
    /// on several threads, are not recompiled.
    pub fn start(
        running: &Arc<Running>,
        report: impl Fn(&Adaptation) + Send + 'static,
    ) -> std::io::Result<Adapter> {
        let (stop, stopped) = channel();
        let cancel = Cancel::default();
        let mut follower =
            Follower { running: Arc::downgrade(running), report, using: None, cancel: cancel.clone() };
        let thread = p4jet_threads::spawn("adapter", move || {
            lower_priority();
            let mut wait = WAIT_MIN;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let start = processor_time();
                let Some(adapted) = follower.look() else { return };
                wait = if adapted { WAIT_MIN } else { 2 * wait };
                wait = wait.min(WAIT_MAX).max(SHARE * processor_time().saturating_sub(start));
            }
        })?;
        Ok(Adapter { stop: Some(stop), cancel, thread: Some(thread) })
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.stop.take();
        self.cancel.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Lowers the thread's priority: the workers come first.
#[allow(unsafe_code)]
fn lower_priority() {
    // SAFETY: no pointers. The call changes only this thread; an error does no harm.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
}

/// The processor time of this thread: on a busy machine, the clock would count the work of others.
#[allow(unsafe_code)]
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid during the call. The clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct Follower<F> {
    running: Weak<Running>,
    report: F,
    /// The observations for which the workers' code was compiled, and its switch.
    using: Option<(Weak<Switch>, Seen)>,
    cancel: Cancel,
}

impl<F: Fn(&Adaptation)> Follower<F> {
    /// Takes a sample and recompiles if that pays. Returns true if it did, and `None` if the switch has ended.
    fn look(&mut self) -> Option<bool> {
        let running = self.running.upgrade()?;
        let switch = running.switch();
        // Machine code for any traffic comes first.
        if switch.program().is_queued() || running.is_interpreting() {
            return Some(false);
        }
        let samples = match running.ask(|f: &mut Forwarder| f.change_sample(Sample::new())) {
            Ok(samples) => samples,
            Err(RunError::Stuck(_)) => return Some(false),
            Err(_) => return None,
        };
        let packets = || samples.iter().flatten().flat_map(|sample| sample.packets());
        if packets().count() < PACKETS_MIN {
            return Some(false);
        }
        let paths = switch.paths(packets()).ok()?;
        let using = self.using.take().filter(|(of, _)| of.as_ptr() == Arc::as_ptr(&switch));
        let using = using.map_or_else(|| seen_initially(&switch), |(_, seen)| seen);
        let mut seen = Seen { hot_paths: paths.hot(), entries: switch.entries() };
        seen.keep_what_pays(switch.program());
        let pays = pays(&paths, &using, &seen);
        let start = Instant::now();
        let mut adapted = false;
        // A failed compilation is not repeated: its observations count as those of the workers' code.
        if pays && let Ok(code) = switch.code_for_seen_unless(&seen, &self.cancel) {
            let engines = (0..switch.workers()).map(|index| switch.engine(&code, index));
            adapted = match running.change_engines(&switch, engines) {
                Ok(adapted) => adapted,
                Err(RunError::Stuck(_)) => return Some(false),
                Err(_) => return None,
            };
        }
        if adapted {
            let percent = 100 * paths.on(&seen.hot_paths) / paths.packets();
            (self.report)(&Adaptation { hot_paths: seen.hot_paths.len(), percent, took: start.elapsed() });
        }
        self.using = Some((Arc::downgrade(&switch), if pays { seen } else { using }));
        Some(adapted)
    }
}

/// Returns the observations that the first code assumes.
fn seen_initially(switch: &Switch) -> Seen {
    Seen { hot_paths: Vec::new(), entries: switch.program().tables.iter().map(|table| table.size).collect() }
}

/// True if code for the observed traffic would be sufficiently better.
fn pays(paths: &Paths, using: &Seen, seen: &Seen) -> bool {
    let more = paths.on(&seen.hot_paths).saturating_sub(paths.on(&using.hot_paths));
    let other_size = |(before, now): (&u32, &u32)| {
        // Avoids switching back and forth at a size near a step.
        let far = now.abs_diff(*before) > before / 4;
        far && ENTRIES_STEPS.iter().any(|step| (before >= step) != (now >= step))
    };
    100 * more >= GAIN_PERCENT * paths.packets() || using.entries.iter().zip(&seen.entries).any(other_size)
}
