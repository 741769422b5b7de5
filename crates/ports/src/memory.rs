//! Ports in memory: for tests and benchmarks.

use crate::{Port, PortError, PortStats, Received, Sent};
use p4jet_packet::{Batch, CACHE_LINE, Pool, PushError};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A port with both ends in the program: a [`MemoryHandle`] inserts frames and removes frames.
///
/// ```
/// use p4jet_packet::{Batch, Pool};
/// use p4jet_ports::{MemoryPort, Port, Received};
/// let (mut port, handle) = MemoryPort::new();
/// let (mut pool, mut batch) = (Pool::new(64, 1518, 0).unwrap(), Batch::new());
/// handle.put(b"in");
/// assert_eq!(port.receive(0, &mut pool, &mut batch), Ok(Received::Packets(1)));
/// port.send(&[b"out"]).unwrap();
/// assert_eq!(handle.take(), [b"out"]);
/// assert_eq!(port.receive(0, &mut pool, &mut batch), Ok(Received::Empty));
/// drop(handle);
/// assert_eq!(port.receive(0, &mut pool, &mut batch), Ok(Received::End));
/// ```
#[derive(Debug)]
pub struct MemoryPort {
    wires: Arc<Mutex<Wires>>,
    stats: PortStats,
}

/// The other end of a [`MemoryPort`]. When the last one is dropped, the port ends once it is empty.
#[derive(Clone, Debug)]
pub struct MemoryHandle {
    wires: Arc<Mutex<Wires>>,
}

#[derive(Debug, Default)]
struct Wires {
    to_port: VecDeque<Vec<u8>>,
    from_port: Vec<Vec<u8>>,
}

// A panic of another test thread that held the lock leaves whole frames, so the content is still valid.
fn lock(wires: &Mutex<Wires>) -> MutexGuard<'_, Wires> {
    wires.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryPort {
    /// Creates a port and its other end.
    #[must_use]
    pub fn new() -> (MemoryPort, MemoryHandle) {
        let wires = Arc::<Mutex<Wires>>::default();
        (MemoryPort { wires: wires.clone(), stats: PortStats::default() }, MemoryHandle { wires })
    }
}

impl MemoryHandle {
    /// Queues a frame for the port to receive.
    pub fn put(&self, frame: &[u8]) {
        lock(&self.wires).to_port.push_back(frame.to_vec());
    }

    /// Returns the frames sent through the port since the last call, in order.
    #[must_use]
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut lock(&self.wires).from_port)
    }
}

impl Port for MemoryPort {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let mut wires = lock(&self.wires);
        let mut count = 0;
        while !batch.is_full() {
            let Some(frame) = wires.to_port.pop_front() else {
                break;
            };
            match batch.push(pool, number, &frame) {
                Ok(()) => {
                    count += 1;
                    self.stats.rx_packets += 1;
                    self.stats.rx_bytes += frame.len() as u64;
                }
                Err(PushError::Oversize) => self.stats.rx_dropped_oversize += 1,
                Err(PushError::Full) => unreachable!("room was checked"),
            }
        }
        Ok(if count > 0 || batch.is_full() {
            Received::Packets(count)
        } else if wires.to_port.is_empty() && Arc::strong_count(&self.wires) == 1 {
            Received::End
        } else {
            Received::Empty
        })
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        lock(&self.wires).from_port.extend(frames.iter().map(|frame| frame.to_vec()));
        count_sent(&mut self.stats, frames);
        Ok(Sent { sent: frames.len(), dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }
}

fn count_sent(stats: &mut PortStats, frames: &[&[u8]]) {
    stats.tx_packets += frames.len() as u64;
    stats.tx_bytes += frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
}

/// A capture that repeats for ever, for benchmarks: each frame is copied from one contiguous memory into a fresh
/// buffer, and sent frames are counted. [`Received::End`] and [`Received::Empty`] never occur.
#[derive(Debug)]
pub struct LoopPort {
    /// The frames; each starts on a line of its own.
    lines: Vec<Line>,
    frames: Vec<Frame>,
    /// Length of the longest frame in bytes.
    frame_max: u32,
    next: usize,
    stats: PortStats,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; CACHE_LINE]);

#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Offset in lines.
    line: u32,
    len: u32,
}

impl LoopPort {
    /// Plays `frames`.
    ///
    /// # Errors
    ///
    /// There are no frames, or they have more than 256 GiB.
    pub fn new<F: AsRef<[u8]>>(frames: &[F]) -> Result<LoopPort, PortError> {
        if frames.is_empty() {
            return Err(PortError::input("no packets to play: the capture is empty"));
        }
        let mut lines = Vec::new();
        let mut index = Vec::with_capacity(frames.len());
        for frame in frames {
            let frame = frame.as_ref();
            let (Ok(line), Ok(len)) = (u32::try_from(lines.len()), u32::try_from(frame.len())) else {
                return Err(PortError::input("the capture to play is longer than 256 GiB"));
            };
            index.push(Frame { line, len });
            let (whole, rest) = frame.as_chunks::<CACHE_LINE>();
            lines.extend(whole.iter().map(|bytes| Line(*bytes)));
            // Even an empty frame gets a line, so that 64 bytes from its start can be read.
            if !rest.is_empty() || whole.is_empty() {
                let mut line = Line([0; CACHE_LINE]);
                line.0[..rest.len()].copy_from_slice(rest);
                lines.push(line);
            }
        }
        let frame_max = index.iter().map(|frame| frame.len).max().unwrap_or(0);
        Ok(LoopPort { lines, frames: index, frame_max, next: 0, stats: PortStats::default() })
    }

    /// Returns the number of frames in one round.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Returns the length of the longest frame in bytes.
    #[must_use]
    pub fn frame_max(&self) -> usize {
        self.frame_max as usize
    }

    /// Starts the next [`Port::receive`] at the first frame.
    pub fn rewind(&mut self) {
        self.next = 0;
    }
}

impl Port for LoopPort {
    #[inline]
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let memory = self.lines.as_flattened_bytes();
        if self.frame_max as usize <= pool.frame_max() {
            let (frames, mut at, mut bytes) = (&self.frames[..], self.next, 0);
            let count = batch.push_all_padded(pool, number, || {
                let Frame { line, len } = frames[at];
                at += 1;
                if at == frames.len() {
                    at = 0;
                }
                bytes += u64::from(len);
                Some((&memory[line as usize * CACHE_LINE..], len as usize))
            });
            self.next = at;
            self.stats.rx_packets += count as u64;
            self.stats.rx_bytes += bytes;
            return Ok(Received::Packets(count));
        }
        let (mut count, mut bytes, mut oversize) = (0, 0, 0);
        // If a frame fits, the batch gets full; a capture in which none fits is traversed once.
        while count > 0 || oversize < self.frames.len() {
            let Frame { line, len } = self.frames[self.next];
            let padded = &memory[line as usize * CACHE_LINE..];
            match batch.push_padded(pool, number, padded, len as usize) {
                Ok(()) => {
                    count += 1;
                    bytes += u64::from(len);
                }
                Err(PushError::Oversize) => oversize += 1,
                Err(PushError::Full) => break,
            }
            self.next += 1;
            if self.next == self.frames.len() {
                self.next = 0;
            }
        }
        self.stats.rx_dropped_oversize += oversize as u64;
        self.stats.rx_packets += count as u64;
        self.stats.rx_bytes += bytes;
        Ok(Received::Packets(count))
    }

    #[inline]
    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        count_sent(&mut self.stats, frames);
        Ok(Sent { sent: frames.len(), dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }
}

/// The bytes of lines.
trait AsFlattenedBytes {
    fn as_flattened_bytes(&self) -> &[u8];
}

impl AsFlattenedBytes for [Line] {
    // Reason: alignment requires a type of its own, and there is no safe view of an array of such arrays as bytes.
    #[allow(unsafe_code)]
    #[inline]
    fn as_flattened_bytes(&self) -> &[u8] {
        // SAFETY: `Line` is `repr(C)`, 64 bytes, 64-byte-aligned, so without padding; every byte is initialised.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len() * CACHE_LINE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_fills_only_the_room_there_is() {
        let (mut port, handle) = MemoryPort::new();
        let (mut pool, mut batch) = (Pool::new(128, 100, 0).unwrap(), Batch::new());
        for i in 0..70 {
            handle.put(&[i]);
        }
        batch.push(&mut pool, 9, b"already there").unwrap();
        assert_eq!(port.receive(1, &mut pool, &mut batch), Ok(Received::Packets(63)));
        assert_eq!(port.receive(1, &mut pool, &mut batch), Ok(Received::Packets(0)));
        assert_eq!((batch.packets()[0].ingress_port, batch.packets()[1].ingress_port), (9, 1));
        batch.clear();
        handle.put(&[0; 101]);
        assert_eq!(port.receive(1, &mut pool, &mut batch), Ok(Received::Packets(7)));
        assert_eq!(port.receive(1, &mut pool, &mut batch), Ok(Received::Empty));
        assert_eq!(
            port.stats(),
            PortStats { rx_packets: 70, rx_bytes: 70, rx_dropped_oversize: 1, ..PortStats::default() }
        );
    }

    #[test]
    fn loop_plays_every_frame_whole_for_ever() {
        let frames: Vec<Vec<u8>> =
            [0, 1, 60, 64, 65, 128, 300].map(|len| (0..len).map(|i| i as u8 ^ 0x5a).collect()).to_vec();
        let mut port = LoopPort::new(&frames).unwrap();
        let (mut pool, mut batch) = (Pool::new(64, 200, 0).unwrap(), Batch::new());
        let fit = &frames[..6];
        for round in 0..10 {
            batch.clear();
            assert_eq!(port.receive(0, &mut pool, &mut batch), Ok(Received::Packets(64)));
            for (i, packet) in batch.packets().iter().enumerate() {
                assert_eq!(pool.frame(packet), fit[(round * 64 + i) % 6]);
            }
        }
        assert_eq!(port.stats().rx_packets, 640);
        assert!(matches!(port.stats().rx_dropped_oversize, 106..=107));
        assert_eq!(port.send(&[b"abc", b"de"]), Ok(Sent { sent: 2, dropped: 0 }));
        assert_eq!((port.stats().tx_packets, port.stats().tx_bytes), (2, 5));
    }

    #[test]
    fn loop_of_oversize_frames_returns() {
        let mut port = LoopPort::new(&[vec![0; 300]]).unwrap();
        let (mut pool, mut batch) = (Pool::new(64, 200, 0).unwrap(), Batch::new());
        assert_eq!(port.receive(0, &mut pool, &mut batch), Ok(Received::Packets(0)));
        assert_eq!(LoopPort::new::<Vec<u8>>(&[]).unwrap_err().exit_status(), 1);
    }
}
