//! A port without an interface, whose other end is a controller in this process: the CPU port.

// Reason: eventfd(2), poll(2), and writing to a ring's memory before it has values.
#![allow(unsafe_code)]

use crate::{Port, PortError, PortStats, Received, Sent};
use p4jet_packet::{Batch, Pool, PushError};
use rtrb::{Consumer, Producer, RingBuffer};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of a ring between a worker and the controller, in each direction.
pub const CONTROLLER_RING_BYTES: usize = 1 << 20;
/// Bytes before each frame in a ring: its length.
const LENGTH_BYTES: usize = 4;

/// A signal from one side to the other, which costs a system call only if the other side waits.
struct Bell {
    descriptor: OwnedFd,
    /// The other side waits, or is about to.
    waits: AtomicBool,
    /// The descriptor is readable.
    rung: AtomicBool,
}

impl Bell {
    fn new() -> io::Result<Bell> {
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is fresh, and nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Bell { descriptor, waits: AtomicBool::new(false), rung: AtomicBool::new(false) })
    }

    /// After something was put into the ring.
    fn ring(&self) {
        // The ring before `waits`, as the other side writes `waits` before it looks into the ring once more.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::SeqCst) {
            let one = 1u64.to_ne_bytes();
            // SAFETY: eight bytes, as eventfd demands. It cannot be full.
            unsafe { libc::write(self.descriptor.as_raw_fd(), one.as_ptr().cast(), one.len()) };
            // Afterwards, so that the other side does not read before there is something to read.
            self.rung.store(true, Ordering::SeqCst);
        }
    }

    /// Before the ring is looked into a last time.
    fn will_wait(&self) {
        self.waits.store(true, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    fn quieten(&self) {
        if self.rung.load(Ordering::Relaxed) && self.rung.swap(false, Ordering::SeqCst) {
            let mut count = [0u8; 8];
            // SAFETY: eight bytes, as eventfd demands.
            unsafe { libc::read(self.descriptor.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        }
    }
}

/// Puts a frame into a ring. False if it has no room.
fn put(ring: &mut Producer<u8>, parts: [&[u8]; 2]) -> bool {
    let len = parts[0].len() + parts[1].len();
    let Ok(mut chunk) = ring.write_chunk_uninit(LENGTH_BYTES + len) else { return false };
    let (mut first, mut second) = chunk.as_mut_slices();
    for mut part in [&(len as u32).to_ne_bytes()[..], parts[0], parts[1]] {
        while !part.is_empty() {
            if first.is_empty() {
                std::mem::swap(&mut first, &mut second);
            }
            let step = part.len().min(first.len());
            let (to, rest) = std::mem::take(&mut first).split_at_mut(step);
            to.write_copy_of_slice(&part[..step]);
            (first, part) = (rest, &part[step..]);
        }
    }
    prefetch_to_write(first.as_ptr().cast());
    // SAFETY: the parts have as many bytes as the chunk, so all of it is written.
    unsafe { chunk.commit_all() };
    true
}

/// Cache lines that [`prefetch_to_write`] fetches: enough for the next short frame.
const LINES_AHEAD: usize = 2;

/// Takes the cache lines from `at` on back from the other side's core, which has read them, before the next frame is put there.
fn prefetch_to_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..LINES_AHEAD {
        let at = at.wrapping_add(64 * line);
        // SAFETY: a prefetch only moves memory into the cache, and has no effect at an invalid address.
        unsafe { std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, LINES_AHEAD);
}

/// Takes the next frame out of a ring, through `scratch` if it is not in one piece.
fn take<T>(ring: &mut Consumer<u8>, scratch: &mut Vec<u8>, then: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let chunk = ring.read_chunk(LENGTH_BYTES).ok()?;
    let (first, second) = chunk.as_slices();
    let mut length = [0; LENGTH_BYTES];
    length[..first.len()].copy_from_slice(first);
    length[first.len()..].copy_from_slice(second);
    let length = u32::from_ne_bytes(length) as usize;
    let chunk = ring.read_chunk(LENGTH_BYTES + length).ok()?;
    let (first, second) = chunk.as_slices();
    let result = if first.len() == LENGTH_BYTES + length {
        then(&first[LENGTH_BYTES..])
    } else {
        scratch.clear();
        scratch.extend_from_slice(first);
        scratch.extend_from_slice(second);
        then(&scratch[LENGTH_BYTES..])
    };
    chunk.commit_all();
    Some(result)
}

/// A worker's handle of a CPU port.
struct ControllerPort {
    /// To the controller.
    to: Producer<u8>,
    to_bell: Arc<Bell>,
    /// From the controller, to the first worker.
    from: Option<(Consumer<u8>, Arc<Bell>)>,
    /// True if the controller knows that the worker waits.
    said_to_wait: bool,
    scratch: Vec<u8>,
    stats: PortStats,
    sent: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    dropped: AtomicU64,
}

/// Time for which the controller collects frames without the bell while many come. Ringing costs a worker a system call, so it must
/// be rare among them.
const COLLECT: Duration = Duration::from_micros(100);

/// The controller's end of the rings for frames that the switch sends to a CPU port.
pub struct FromSwitch {
    rings: Vec<Consumer<u8>>,
    /// Number of frames since the last wait.
    recent: usize,
    bell: Arc<Bell>,
    scratch: Vec<u8>,
    counts: Arc<Counts>,
}

/// The controller's end of the rings for frames that the switch receives from a CPU port.
pub struct ToSwitch {
    ring: Producer<u8>,
    bell: Arc<Bell>,
    frame_max: usize,
}

/// A CPU port: its handles, and the controller's two sides.
type Opened = (Vec<Box<dyn Port>>, FromSwitch, ToSwitch);

/// Opens a CPU port with a handle for each worker, and the controller's two sides of it. The rings between are bounded: the
/// switch drops frames that find no room and counts them.
///
/// # Errors
///
/// The system refuses a descriptor.
pub fn controller_port(workers: usize, frame_max: usize) -> Result<Opened, PortError> {
    let bell = || Bell::new().map(Arc::new).map_err(|e| PortError::environment(format!("no eventfd: {e}")));
    let (in_bell, out_bell) = (bell()?, bell()?);
    let counts = Arc::<Counts>::default();
    let (to_switch, from_controller) = RingBuffer::new(CONTROLLER_RING_BYTES);
    let mut from_controller = Some((from_controller, Arc::clone(&out_bell)));
    let (mut handles, mut rings) = (Vec::new(), Vec::new());
    for _ in 0..workers {
        let (to, from) = RingBuffer::new(CONTROLLER_RING_BYTES);
        rings.push(from);
        handles.push(Box::new(ControllerPort {
            to,
            to_bell: Arc::clone(&in_bell),
            from: from_controller.take(),
            said_to_wait: false,
            scratch: Vec::with_capacity(LENGTH_BYTES + frame_max),
            stats: PortStats::default(),
            sent: Arc::clone(&counts),
        }) as Box<dyn Port>);
    }
    let from = FromSwitch { rings, recent: 0, bell: in_bell, scratch: Vec::new(), counts };
    Ok((handles, from, ToSwitch { ring: to_switch, bell: out_bell, frame_max }))
}

impl Port for ControllerPort {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let Some((ring, bell)) = &mut self.from else { return Ok(Received::End) };
        let mut count = 0;
        loop {
            if batch.is_full() {
                return Ok(Received::Packets(count));
            }
            let stats = &mut self.stats;
            let taken = take(ring, &mut self.scratch, |frame| match batch.push(pool, number, frame) {
                Ok(()) => {
                    stats.rx_packets += 1;
                    stats.rx_bytes += frame.len() as u64;
                    1
                }
                Err(PushError::Oversize | PushError::Full) => {
                    stats.rx_dropped_oversize += 1;
                    0
                }
            });
            match taken {
                Some(taken) => count += taken,
                None if count > 0 => break,
                None if self.said_to_wait && !bell.rung.load(Ordering::Relaxed) => {
                    return Ok(Received::Empty);
                }
                None => {
                    bell.quieten();
                    bell.will_wait();
                    self.said_to_wait = true;
                }
            }
        }
        self.said_to_wait = false;
        Ok(Received::Packets(count))
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        let mut result = Sent::default();
        for frame in frames {
            if put(&mut self.to, [frame, &[]]) {
                result.sent += 1;
                self.stats.tx_packets += 1;
                self.stats.tx_bytes += frame.len() as u64;
            } else {
                result.dropped += 1;
            }
        }
        if result.sent > 0 {
            self.to_bell.ring();
        }
        if result.dropped > 0 {
            self.stats.tx_dropped += result.dropped as u64;
            self.sent.dropped.fetch_add(result.dropped as u64, Ordering::Relaxed);
        }
        Ok(result)
    }

    fn poll_fd(&self) -> Option<RawFd> {
        self.from.as_ref().map(|(_, bell)| bell.descriptor.as_raw_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }
}

impl FromSwitch {
    /// Passes frames that the switch sent to `each`, those of one worker in order, until none is left or `max` were passed. If
    /// there are none, waits for frames, at most for `wait`. After several frames, it first waits for [`COLLECT`] in such a way that
    /// the switch need not wake it.
    pub fn receive(&mut self, max: usize, wait: Duration, mut each: impl FnMut(&[u8])) -> usize {
        let mut count = self.drain(max, &mut each);
        if count == 0 && std::mem::take(&mut self.recent) > 1 {
            std::thread::sleep(COLLECT.min(wait));
            count = self.drain(max, &mut each);
        }
        self.recent += count;
        if count > 0 {
            return count;
        }
        self.bell.quieten();
        self.bell.will_wait();
        count = self.drain(max, &mut each);
        if count == 0 {
            let mut fd =
                libc::pollfd { fd: self.bell.descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one structure, alive during the call.
            unsafe { libc::poll(&raw mut fd, 1, wait.as_millis().min(i32::MAX as u128) as libc::c_int) };
            count = self.drain(max, &mut each);
        }
        self.bell.waits.store(false, Ordering::Relaxed);
        self.bell.quieten();
        self.recent = count;
        count
    }

    fn drain(&mut self, max: usize, each: &mut impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        let mut more = true;
        // By turns, so that no worker waits behind another.
        while more && count < max {
            more = false;
            for ring in &mut self.rings {
                if count < max && take(ring, &mut self.scratch, &mut *each).is_some() {
                    count += 1;
                    more = true;
                }
            }
        }
        count
    }

    /// Frames that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// True if the switch has closed the port.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.rings.iter().all(Consumer::is_abandoned)
    }
}

impl ToSwitch {
    /// Gives the switch a frame, `header` and `payload` together, as if it had arrived at the port. False if there is no room.
    pub fn put(&mut self, header: &[u8], payload: &[u8]) -> bool {
        let is_put = put(&mut self.ring, [header, payload]);
        if is_put {
            self.bell.ring();
        }
        is_put
    }

    /// The maximum length of a frame.
    #[must_use]
    pub fn frame_max(&self) -> usize {
        self.frame_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_pass_in_both_directions_whole_and_in_order() {
        let (mut handles, mut from, mut to) = controller_port(2, 1518).unwrap();
        let (mut pool, mut batch) = (Pool::new(128, 1518, 0).unwrap(), Batch::new());
        assert_eq!(handles[0].receive(9, &mut pool, &mut batch), Ok(Received::Empty));
        assert_eq!(handles[1].receive(9, &mut pool, &mut batch), Ok(Received::End));
        // Several times around the ring.
        for round in 0..4000u32 {
            let frame: Vec<u8> = (0..round % 1500).map(|i| (i ^ round) as u8).collect();
            assert!(to.put(&frame[..frame.len() / 3], &frame[frame.len() / 3..]));
            assert_eq!(handles[0].receive(9, &mut pool, &mut batch), Ok(Received::Packets(1)));
            assert_eq!(pool.frame(&batch.packets()[0]), frame);
            batch.clear();
            handles[round as usize % 2].send(&[&frame, b"x"]).unwrap();
            let mut seen = Vec::new();
            assert_eq!(from.receive(64, Duration::ZERO, |frame| seen.push(frame.to_vec())), 2);
            assert_eq!(seen, [frame, b"x".to_vec()]);
        }
        assert_eq!(handles[0].receive(9, &mut pool, &mut batch), Ok(Received::Empty));
    }

    #[test]
    fn packets_without_room_are_dropped_and_counted() {
        let (mut handles, mut from, mut to) = controller_port(1, 1518).unwrap();
        let frame = [7; 1000];
        let room = CONTROLLER_RING_BYTES / (1000 + LENGTH_BYTES);
        let put = (0..room + 10).filter(|_| to.put(&frame, &[])).count();
        assert_eq!(put, room);
        let sent: usize = (0..room + 10).map(|_| handles[0].send(&[&frame]).unwrap().sent).sum();
        assert_eq!((sent, from.dropped(), handles[0].stats().tx_dropped), (room, 10, 10));
        assert_eq!(from.receive(usize::MAX, Duration::ZERO, |_| ()), room);
        drop(handles);
        assert!(from.is_abandoned());
    }

    #[test]
    fn frames_that_follow_each_other_seldom_ring() {
        const FRAMES: u32 = 2000;
        let (mut handles, mut from, _) = controller_port(1, 1518).unwrap();
        let (bell, mut port) = (Arc::clone(&from.bell), handles.remove(0));
        let controller = std::thread::spawn(move || {
            let mut left = FRAMES as usize;
            while left > 0 {
                left -= from.receive(64, Duration::from_secs(5), |_| ());
            }
        });
        let mut rings = 0;
        for _ in 0..FRAMES {
            rings += u32::from(bell.waits.load(Ordering::Relaxed));
            assert_eq!(port.send(&[b"frame"]).unwrap().sent, 1);
            let begun = std::time::Instant::now();
            while begun.elapsed() < COLLECT / 10 {
                std::hint::spin_loop();
            }
        }
        controller.join().unwrap();
        assert!(rings < FRAMES / 4, "{rings} of {FRAMES} frames rang");
    }

    #[test]
    fn waiting_sides_wake_up() {
        let (mut handles, mut from, mut to) = controller_port(1, 1518).unwrap();
        let mut port = handles.remove(0);
        let worker = std::thread::spawn(move || {
            let (mut pool, mut batch) = (Pool::new(128, 1518, 0).unwrap(), Batch::new());
            let mut left = 1000;
            while left > 0 {
                if port.receive(9, &mut pool, &mut batch).unwrap() == Received::Empty {
                    crate::wait(&*port, Duration::from_secs(5));
                    continue;
                }
                for packet in batch.packets() {
                    port.send(&[pool.frame(packet)]).unwrap();
                    left -= 1;
                }
                batch.clear();
            }
        });
        for round in 0..1000u32 {
            assert!(to.put(&round.to_be_bytes(), b"payload"));
            let mut seen = Vec::new();
            let begun = std::time::Instant::now();
            while seen.is_empty() {
                from.receive(64, Duration::from_secs(5), |frame| seen.extend_from_slice(frame));
                assert!(begun.elapsed() < Duration::from_secs(4), "a wake-up was lost");
            }
            assert_eq!(seen[..4], round.to_be_bytes());
        }
        worker.join().unwrap();
    }
}
