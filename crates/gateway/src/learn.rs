//! Learned stations, and the time since their last frames.
//!
//! The switch reports only stations that it does not know. So a station that may be silent is removed from the known
//! sources, but stays as a destination: if it sends a frame, the switch reports it again; otherwise it is forgotten.

use crate::plan::Location;
use p4jet_control::Topics;
use p4jet_text::Message;
use p4jet_text::client::Client;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A message of the switch about a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Learned {
    /// Its network.
    pub network: u16,
    /// Its MAC address.
    pub mac: u64,
    /// Its location.
    pub location: Location,
}

impl Learned {
    /// Reads a digest `learned_t`.
    fn new(message: &Message) -> Option<Learned> {
        let field = |name| u64::try_from(message.field(name)?).ok();
        Some(Learned {
            network: u16::try_from(field("network")?).ok()?,
            mac: field("mac")?,
            location: Location::new(field("location")?.into(), field("vid")?.into()),
        })
    }
}

/// Listens to digests as long as this exists.
pub(crate) struct Listener {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Maximum time in which a listener notices that it must end.
const NAP: Duration = Duration::from_secs(1);

impl Listener {
    /// Starts the listener, which ends when the switch is gone.
    pub fn start(client: Client, to: SyncSender<Learned>) -> io::Result<Listener> {
        let mut messages = client.subscribe(Topics { digests: true, ..Topics::default() })?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                match messages.next(Some(NAP)) {
                    Ok(None) => {}
                    Ok(Some(message)) => {
                        // If the queue is full, the next frame of the station causes another digest.
                        if let Some(learned) = Learned::new(&message) {
                            let _ = to.try_send(learned);
                        }
                    }
                    Err(_) => return,
                }
            }
        };
        let thread = p4jet_threads::spawn("digests", work)?;
        Ok(Listener { stop, thread })
    }

    /// True if the switch has stopped sending messages.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A station of a network: the network's number, and a MAC address.
pub(crate) type Station = (u16, u64);

/// The learned stations.
#[derive(Default)]
pub(crate) struct Stations {
    seen: HashMap<Station, Seen>,
    /// Number of stations of each network.
    count: HashMap<u16, usize>,
}

#[derive(Clone, Copy)]
struct Seen {
    at: Instant,
    /// True if the switch will report the station when it sends.
    asked: bool,
}

/// Stations whose state has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Aged {
    /// The switch must report these again.
    pub ask: Vec<Station>,
    /// These must be removed.
    pub forget: Vec<Station>,
}

impl Stations {
    /// Records that a station was reported.
    pub fn seen(&mut self, station: Station, now: Instant) {
        self.enter(station, Seen { at: now, asked: false });
    }

    /// Records a station that the switch had at the start.
    pub fn found(&mut self, station: Station, asked: bool, now: Instant) {
        if !self.has(station) {
            self.enter(station, Seen { at: now, asked });
        }
    }

    fn enter(&mut self, station: Station, seen: Seen) {
        if self.seen.insert(station, seen).is_none() {
            *self.count.entry(station.0).or_default() += 1;
        }
    }

    /// Keeps the stations that the switch still has.
    pub fn retain(&mut self, has: impl Fn(&Station) -> bool) {
        self.seen.retain(|station, _| has(station));
        self.count.clear();
        self.seen.keys().for_each(|(network, _)| *self.count.entry(*network).or_default() += 1);
    }

    /// Returns the number of stations of a network.
    pub fn of(&self, network: u16) -> usize {
        self.count.get(&network).copied().unwrap_or(0)
    }

    /// True if the station is known.
    pub fn has(&self, station: Station) -> bool {
        self.seen.contains_key(&station)
    }

    /// Returns stations that were silent for half of the age, and for all of it; at most `max`.
    pub fn aged(&mut self, age: Duration, now: Instant, max: usize) -> Aged {
        let mut aged = Aged::default();
        self.seen.retain(|station, seen| {
            if aged.ask.len() + aged.forget.len() >= max {
                return true;
            }
            let silent = now.saturating_duration_since(seen.at);
            if silent >= age {
                aged.forget.push(*station);
                self.count.entry(station.0).and_modify(|n| *n -= 1);
                return false;
            }
            if silent >= age / 2 && !seen.asked {
                seen.asked = true;
                aged.ask.push(*station);
            }
            true
        });
        aged.ask.sort_unstable();
        aged.forget.sort_unstable();
        aged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_stations_are_requested_and_then_forgotten() {
        let (age, begin) = (Duration::from_secs(100), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut stations = Stations::default();
        stations.seen((1, 7), at(0));
        stations.seen((1, 8), at(10));
        stations.found((1, 8), true, at(11));
        assert_eq!(stations.aged(age, at(49), 9), Aged::default());
        assert_eq!(stations.aged(age, at(50), 9), Aged { ask: vec![(1, 7)], forget: vec![] });
        assert_eq!(stations.aged(age, at(60), 9), Aged { ask: vec![(1, 8)], forget: vec![] });
        stations.seen((1, 8), at(61));
        assert_eq!(stations.aged(age, at(99), 9), Aged::default());
        assert_eq!(stations.aged(age, at(100), 9), Aged { ask: vec![], forget: vec![(1, 7)] });
        assert_eq!(stations.aged(age, at(111), 9), Aged { ask: vec![(1, 8)], forget: vec![] });
        assert_eq!((stations.of(1), stations.of(2)), (1, 0));
        // Further stations follow in the next call.
        stations.seen((1, 9), at(61));
        assert_eq!(stations.aged(age, at(200), 1).forget.len(), 1);
        assert_eq!(stations.aged(age, at(200), 1).forget.len(), 1);
        assert_eq!((stations.aged(age, at(200), 1), stations.of(1)), (Aged::default(), 0));
    }
}
