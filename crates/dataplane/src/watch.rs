//! What a worker does for those who look at live packets: finds the packets to trace, copies frames to capture.
//!
//! Nothing here waits: what finds its queue full is counted and left.

use crate::forward::Buffers;
use crate::worker::Worker;
use p4jet_packet::{PORT_DROP, REASON_DONE};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender};
use std::time::{Duration, SystemTime};

/// Packets that wait to be traced.
pub(crate) const FOUND_MAX: usize = 64;
/// Bytes that wait to be written to a capture.
const CAPTURE_BYTES_MAX: usize = 16 << 20;
/// Parts, each of one batch, that wait to be written to a capture.
pub(crate) const CHUNKS_MAX: usize = 4096;

/// Bytes that a frame must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BytePattern {
    /// Bytes before them.
    pub at: usize,
    /// What they are, as far as `mask` has ones.
    pub value: Vec<u8>,
    /// As many.
    pub mask: Vec<u8>,
}

impl BytePattern {
    fn matches(&self, frame: &[u8]) -> bool {
        let end = self.at.saturating_add(self.value.len());
        frame.get(self.at..end).is_some_and(|bytes| {
            bytes
                .iter()
                .zip(&self.value)
                .zip(&self.mask)
                .all(|((byte, value), mask)| byte & mask == value & mask)
        })
    }
}

/// A trace's cheap filter: packets that pass may be what it wants.
pub(crate) struct Sought {
    pub id: u32,
    pub port: Option<u32>,
    pub patterns: Vec<BytePattern>,
    /// Whether there are enough.
    pub done: AtomicBool,
    /// Packets that passed when too many waited.
    pub missed: AtomicU64,
    /// How many wait, of all traces.
    pub waiting: Arc<AtomicUsize>,
    pub inbox: Sender<Found>,
}

/// A packet that passed.
pub(crate) struct Found {
    pub trace: u32,
    pub port: u32,
    pub frame: Vec<u8>,
    pub now_us: u64,
    pub did: Did,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// It left.
    Sent {
        /// By this port.
        port: u32,
        /// Its bytes.
        frame: Vec<u8>,
    },
    /// It was dropped, for this reason.
    Dropped(String),
    /// Its copies went on in its place.
    Done,
}

/// Frames of one batch.
pub(crate) struct Chunk {
    /// Since the epoch.
    pub time: Duration,
    /// Length of each frame, and how many bytes of it are there.
    pub frames: Vec<(u32, u32)>,
    pub bytes: Vec<u8>,
}

/// A capture under way.
pub(crate) struct Capturing {
    pub port: u32,
    pub received: bool,
    pub sent: bool,
    /// Bytes kept of each frame.
    pub snaplen: usize,
    /// Frames still wanted.
    pub left: AtomicU64,
    /// Bytes that wait to be written.
    pub waiting: AtomicUsize,
    /// Frames not written because too many waited, or the file takes no more.
    pub dropped: AtomicU64,
    pub inbox: SyncSender<Chunk>,
}

impl Capturing {
    fn take<'f>(&self, frames: impl Iterator<Item = &'f [u8]>) {
        if self.left.load(Ordering::Relaxed) == 0 {
            return;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut chunk = Chunk { time: now, frames: Vec::new(), bytes: Vec::new() };
        for frame in frames {
            let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
                0 => None,
                u64::MAX => Some(u64::MAX),
                left => Some(left - 1),
            });
            if left.is_err() {
                break;
            }
            let kept = &frame[..frame.len().min(self.snaplen)];
            chunk.frames.push((frame.len() as u32, kept.len() as u32));
            chunk.bytes.extend_from_slice(kept);
        }
        let (n, bytes) = (chunk.frames.len() as u64, chunk.bytes.len());
        if n == 0 {
            return;
        }
        let waiting = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        if waiting + bytes > CAPTURE_BYTES_MAX || self.inbox.try_send(chunk).is_err() {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// What one worker looks for.
#[derive(Default)]
pub(crate) struct Watch {
    pub traces: Vec<Arc<Sought>>,
    pub captures: Vec<Arc<Capturing>>,
}

/// A packet of a batch under way that a trace looks for.
pub(crate) struct Sighted {
    trace: Arc<Sought>,
    port: u32,
    /// In the batch.
    number: usize,
    /// As it came.
    frame: Vec<u8>,
}

impl Watch {
    pub fn new(traces: Vec<Arc<Sought>>, captures: Vec<Arc<Capturing>>) -> Watch {
        Watch { traces, captures }
    }

    /// Looks at a batch that came by a port.
    pub fn received(&self, port: u32, buffers: &mut Buffers) {
        let Buffers { pool, batch, sighted } = buffers;
        for capture in self.captures.iter().filter(|c| c.received && c.port == port) {
            capture.take(batch.packets().iter().map(|packet| pool.frame(packet)));
        }
        for trace in &self.traces {
            if trace.port.is_some_and(|wanted| wanted != port) || trace.done.load(Ordering::Relaxed) {
                continue;
            }
            for (number, packet) in batch.packets().iter().enumerate() {
                let frame = pool.frame(packet);
                if !trace.patterns.iter().all(|pattern| pattern.matches(frame)) {
                    continue;
                }
                if trace.waiting.fetch_add(1, Ordering::Relaxed) >= FOUND_MAX {
                    trace.waiting.fetch_sub(1, Ordering::Relaxed);
                    trace.missed.fetch_add(1, Ordering::Relaxed);
                } else {
                    sighted.push(Sighted { trace: Arc::clone(trace), port, number, frame: frame.to_vec() });
                }
            }
        }
    }

    /// Looks at frames that leave by a port.
    pub fn sends(&self, port: u32, frames: &[&[u8]]) {
        for capture in self.captures.iter().filter(|c| c.sent && c.port == port) {
            capture.take(frames.iter().copied());
        }
    }
}

/// Reports the results of the matching packets of a batch after it has been processed.
pub(crate) fn processed(buffers: &mut Buffers, worker: &Worker) {
    let Buffers { pool, batch, sighted } = buffers;
    for Sighted { trace, port, number, frame } in sighted.drain(..) {
        let packet = &batch.packets()[number];
        let did = match (packet.egress_port, packet.drop_reason) {
            (PORT_DROP, REASON_DONE) => Did::Done,
            (PORT_DROP, reason) => Did::Dropped(worker.drop_reason(reason)),
            (port, _) => Did::Sent { port, frame: pool.frame(packet).to_vec() },
        };
        let now_us = worker.switch().now_us();
        // There is no reader, so the trace is not needed.
        let _ = trace.inbox.send(Found { trace: trace.id, port, frame, now_us, did });
    }
}
