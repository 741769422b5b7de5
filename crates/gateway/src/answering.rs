//! Answers packets that the switch hands to the controller, in a separate thread, so that a slow connection to the
//! switch or a large change does not delay replies to ping.

use crate::config::ControllerPort;
use crate::icmp::{Answer, OwnAddresses, Silence, answer};
use crate::log::{Level, Log};
use p4jet_packet::{BATCH_MAX, Batch, Pool};
use p4jet_ports::{AfPacketPort, LinkStatus, Port, Received, wait};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Frames that the switch hands over have at most a few bytes less.
const FRAME_MAX: usize = 1600;
/// Maximum time in which the thread notices that it must end.
const TURN: Duration = Duration::from_millis(100);
/// Interval at which a missing interface is looked for, and an existing one checked.
const LOOK: Duration = Duration::from_millis(250);
/// Interval at which the answers are reported.
const COUNT: Duration = Duration::from_secs(60);
/// Minimum burst of answers; otherwise the burst is that of a tenth of a second (RFC 4443, section 2.4 (f)).
const BURST_MIN: u32 = 10;

/// Answers as long as this exists.
pub(crate) struct Answering {
    interface: String,
    shared: Arc<Shared>,
}

/// Data that may change while the thread runs.
struct Shared {
    stop: AtomicBool,
    per_second: AtomicU32,
    /// `None` until the switch has a plan.
    own: Mutex<Option<Arc<OwnAddresses>>>,
}

impl Answering {
    /// Starts, even if the interface does not exist yet.
    pub fn start(port: &ControllerPort, own: Option<Arc<OwnAddresses>>, log: Log) -> io::Result<Answering> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            per_second: AtomicU32::new(port.icmp_per_second),
            own: Mutex::new(own),
        });
        let interface = port.interface.clone();
        let mut thread = Thread {
            interface: interface.clone(),
            shared: Arc::clone(&shared),
            log,
            said: String::new(),
            counts: Counts::default(),
            bucket: Bucket::new(Instant::now()),
            identification: 0,
        };
        p4jet_threads::spawn("icmp", move || thread.run())?;
        Ok(Answering { interface, shared })
    }

    /// The interface on which it answers.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Sets the maximum number of answers per second.
    pub fn limit(&self, per_second: u32) {
        self.shared.per_second.store(per_second, Ordering::Relaxed);
    }

    /// Sets the gateway's addresses.
    pub fn set_own(&self, own: Arc<OwnAddresses>) {
        *self.shared.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

struct Thread {
    interface: String,
    shared: Arc<Shared>,
    log: Log,
    /// The state of the interface that was reported last.
    said: String,
    counts: Counts,
    bucket: Bucket,
    identification: u16,
}

impl Thread {
    fn run(&mut self) {
        let mut counted = Instant::now();
        while !self.stops() {
            match AfPacketPort::open(&self.interface, FRAME_MAX, 1) {
                Ok(handles) => {
                    let Some(mut port) = handles.into_iter().next() else { return };
                    self.serve(&mut port, &mut counted);
                }
                Err(error) => {
                    self.say(Level::Warn, format!("no answers: {error}"));
                    self.pause();
                }
            }
        }
        self.count();
    }

    fn stops(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn pause(&self) {
        let end = Instant::now() + LOOK;
        while !self.stops() && Instant::now() < end {
            std::thread::sleep(TURN);
        }
    }

    /// Reports the state of the interface if it has changed.
    fn say(&mut self, level: Level, text: String) {
        if self.said != text {
            (self.log)(level, "icmp", text.clone());
            self.said = text;
        }
    }

    fn count(&mut self) {
        if let Some(text) = self.counts.take() {
            (self.log)(Level::Info, "icmp", text);
        }
    }

    /// Answers until it is stopped or the port is no longer usable. If the interface disappears, the port waits for it.
    fn serve(&mut self, port: &mut AfPacketPort, counted: &mut Instant) {
        let mut pool = match Pool::new(BATCH_MAX, FRAME_MAX, 0) {
            Ok(pool) => pool,
            Err(error) => {
                self.say(Level::Warn, format!("no answers: {error}"));
                return self.pause();
            }
        };
        let mut batch = Batch::new();
        let mut looked: Option<Instant> = None;
        while !self.stops() {
            let now = Instant::now();
            if looked.is_none_or(|looked| now.duration_since(looked) >= LOOK) {
                looked = Some(now);
                match port.status() {
                    LinkStatus::Up => self.say(Level::Info, format!("answering by {}", self.interface)),
                    LinkStatus::Down(why) => self.say(Level::Warn, format!("no answers: {why}")),
                }
            }
            if now.duration_since(*counted) >= COUNT {
                *counted = now;
                self.count();
            }
            batch.clear();
            match port.receive(0, &mut pool, &mut batch) {
                Ok(Received::Packets(_)) => {}
                Ok(Received::Empty) => {
                    wait(port, TURN);
                    continue;
                }
                Ok(Received::End) => return self.pause(),
                Err(error) => {
                    self.say(Level::Warn, format!("no answers: {error}"));
                    return self.pause();
                }
            }
            let frames: Vec<&[u8]> = batch.packets().iter().map(|packet| pool.frame(packet)).collect();
            let answers = self.answers(&frames, now);
            let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
            match port.send(&answers) {
                Ok(sent) => self.counts.unsent += sent.dropped as u64,
                Err(error) => {
                    self.say(Level::Warn, format!("no answers: {error}"));
                    return self.pause();
                }
            }
        }
    }

    fn answers(&mut self, frames: &[&[u8]], now: Instant) -> Vec<Vec<u8>> {
        let per_second = self.shared.per_second.load(Ordering::Relaxed);
        let own = self.shared.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(own) = own else { return Vec::new() };
        let mut answers = Vec::new();
        for frame in frames {
            match answer(frame, &own, self.identification) {
                Ok(_) if !self.bucket.take(now, per_second) => self.counts.over += 1,
                Ok((kind, frame)) => {
                    self.identification = self.identification.wrapping_add(1);
                    *self.counts.answers.entry(kind).or_default() += 1;
                    answers.push(frame);
                }
                // Frames of the kernel itself, for example of IPv6.
                Err(Silence::Foreign) => {}
                Err(why) => *self.counts.silent.entry(why).or_default() += 1,
            }
        }
        answers
    }
}

/// Counts since the last report.
#[derive(Debug, Default)]
struct Counts {
    answers: BTreeMap<Answer, u64>,
    silent: BTreeMap<Silence, u64>,
    over: u64,
    unsent: u64,
}

impl Counts {
    /// Returns the counts as text, if there are any, and resets them.
    fn take(&mut self) -> Option<String> {
        fn part((what, count): (impl Display, u64)) -> String {
            format!("{count} {what}")
        }
        fn list(parts: Vec<String>) -> String {
            if parts.is_empty() { "nothing".to_string() } else { parts.join(", ") }
        }
        let Counts { answers, silent, over, unsent } = std::mem::take(self);
        let answers: Vec<_> = answers.into_iter().map(part).collect();
        let others = [("over the limit", over), ("that could not be sent", unsent)];
        let others = others.into_iter().filter(|(_, count)| *count > 0).map(part);
        let silent: Vec<_> = silent.into_iter().map(part).chain(others).collect();
        match answers.is_empty() && silent.is_empty() {
            true => None,
            false => Some(format!("answered: {}; not answered: {}", list(answers), list(silent))),
        }
    }
}

/// A token bucket.
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Bucket {
        // The bucket starts full.
        Bucket { tokens: f64::INFINITY, at: now }
    }

    /// Takes a token, if there is one.
    fn take(&mut self, now: Instant, per_second: u32) -> bool {
        let burst = f64::from((per_second / 10).max(BURST_MIN));
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + elapsed * f64::from(per_second)).min(burst);
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_per_second_are_limited() {
        let begin = Instant::now();
        let mut bucket = Bucket::new(begin);
        let mut taken =
            |at: Duration, n: usize, rate| (0..n).filter(|_| bucket.take(begin + at, rate)).count();
        assert_eq!(taken(Duration::ZERO, 500, 1000), 100, "a burst");
        assert_eq!(taken(Duration::from_millis(5), 500, 1000), 5);
        assert_eq!(taken(Duration::from_secs(9), 500, 1000), 100, "no more is saved");
        let spread: usize = (0..2000).map(|ms| taken(Duration::from_millis(10_000 + ms), 5, 1000)).sum();
        assert!((2000..=2101).contains(&spread), "{spread}");
        assert_eq!(taken(Duration::from_secs(20), 500, 5), 10, "a small limit has a burst, too");
        assert_eq!(taken(Duration::from_secs(21), 500, 5), 5);
    }

    #[test]
    fn counts_in_words() {
        let mut counts = Counts::default();
        assert_eq!(counts.take(), None);
        counts.answers.insert(Answer::TooBig, 3);
        counts.answers.insert(Answer::Echo, 40);
        counts.over = 2;
        let text = "answered: 3 too big, 40 echo reply; not answered: 2 over the limit";
        assert_eq!(counts.take().as_deref(), Some(text));
        counts.silent.insert(Silence::NoAddress, 1);
        let text = "answered: nothing; not answered: 1 no own address";
        assert_eq!(counts.take().as_deref(), Some(text));
        assert_eq!(counts.take(), None);
    }
}
