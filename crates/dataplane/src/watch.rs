//! A worker's part in traces and captures: finds packets to trace and copies frames to capture.
//!
//! Nothing here waits: if a queue is full, the packet is counted and skipped.

use crate::worker::Worker;
use p4jet_packet::{Batch, PORT_DROP, Pool, REASON_DONE};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender};
use std::time::{Duration, SystemTime};

/// Maximum number of packets that wait to be traced.
pub(crate) const FOUND_MAX: usize = 64;
/// Maximum number of bytes that wait to be written to a capture.
const CAPTURE_BYTES_MAX: usize = 16 << 20;
/// Maximum number of chunks, each of one batch, that wait to be written to a capture.
pub(crate) const CHUNKS_MAX: usize = 4096;

/// A pattern of bytes at a fixed offset of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BytePattern {
    /// Offset in the frame.
    pub at: usize,
    /// The bytes; only bits that are 1 in `mask` count.
    pub value: Vec<u8>,
    /// Mask of the bits that count, of the same length.
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

/// A trace's cheap filter: packets that pass may match the trace.
pub(crate) struct Sought {
    pub id: u32,
    pub port: Option<u32>,
    pub patterns: Vec<BytePattern>,
    /// True once the trace has enough packets.
    pub done: AtomicBool,
    /// Number of packets that passed while too many waited.
    pub missed: AtomicU64,
    /// Number of waiting packets of all traces.
    pub waiting: Arc<AtomicUsize>,
    pub inbox: Sender<Found>,
}

/// A packet that passed the filter, with its outcome.
pub(crate) struct Found {
    pub trace: u32,
    pub port: u32,
    pub frame: Vec<u8>,
    pub now_us: u64,
    pub verdict: Verdict,
}

/// The outcome of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was sent.
    Sent {
        /// The egress port.
        port: u32,
        /// Its bytes.
        frame: Vec<u8>,
    },
    /// It was dropped, for this reason.
    Dropped(String),
    /// Its copies replaced it.
    Done,
}

/// Frames of one batch.
pub(crate) struct Chunk {
    /// Time since the Unix epoch.
    pub time: Duration,
    /// Length of each frame, and the number of its bytes that were kept.
    pub frames: Vec<(u32, u32)>,
    pub bytes: Vec<u8>,
}

/// An active capture.
pub(crate) struct Capturing {
    pub port: u32,
    pub received: bool,
    pub sent: bool,
    /// Maximum number of bytes kept of each frame.
    pub snaplen: usize,
    /// Number of frames still to be captured.
    pub left: AtomicU64,
    /// Number of bytes that wait to be written.
    pub waiting: AtomicUsize,
    /// Number of frames not written because too many waited, or because writing failed.
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

/// The traces and captures that one worker serves.
#[derive(Default)]
pub(crate) struct Watch {
    pub traces: Vec<Arc<Sought>>,
    pub captures: Vec<Arc<Capturing>>,
}

/// A packet of the current batch that passed a trace's filter.
pub(crate) struct Sighted {
    trace: Arc<Sought>,
    port: u32,
    /// Index in the batch.
    number: usize,
    /// The frame as received.
    frame: Vec<u8>,
}

impl Watch {
    pub fn new(traces: Vec<Arc<Sought>>, captures: Vec<Arc<Capturing>>) -> Watch {
        Watch { traces, captures }
    }

    /// Checks a batch that a port received.
    pub fn received(&self, port: u32, pool: &Pool, batch: &Batch, sighted: &mut Vec<Sighted>) {
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

    /// Captures frames that a port sends.
    pub fn sends(&self, port: u32, frames: &[&[u8]]) {
        for capture in self.captures.iter().filter(|c| c.sent && c.port == port) {
            capture.take(frames.iter().copied());
        }
    }
}

/// Reports the results of the matching packets of a batch after it has been processed.
pub(crate) fn processed(pool: &Pool, batch: &Batch, sighted: &mut Vec<Sighted>, worker: &Worker) {
    for Sighted { trace, port, number, frame } in sighted.drain(..) {
        let packet = &batch.packets()[number];
        let verdict = match (packet.egress_port, packet.drop_reason) {
            (PORT_DROP, REASON_DONE) => Verdict::Done,
            (PORT_DROP, reason) => Verdict::Dropped(worker.drop_reason(reason)),
            (port, _) => Verdict::Sent { port, frame: pool.frame(packet).to_vec() },
        };
        let now_us = worker.switch().now_us();
        // Fails only if the trace has ended.
        let _ = trace.inbox.send(Found { trace: trace.id, port, frame, now_us, verdict });
    }
}
