//! The link that a port emulates: frames sent are lost, queued and delayed as [`LinkSpec`] specifies.
//!
//! It acts on sent frames, like netem of Linux and the links of Mininet; to emulate both directions, configure both
//! ports. A frame passes these steps:
//!
//! 1. *Loss*. A lost frame takes no time on the line.
//! 2. *The line*, which sends one frame at a time at the rate; meanwhile at most `queue` frames wait, and further
//!    frames are dropped.
//! 3. *Delay*, with jitter distributed evenly from `delay - jitter` to `delay + jitter`, but never below 0. Frames in
//!    flight do not count towards the queue. (In netem they do, so that a long link drops frames that no queue would.)
//!
//! **Jitter does not reorder** unless requested: a frame that would overtake waits for the previous one. A link is a
//! wire, and protocols above it, above all TCP, interpret reordering as loss; netem reorders by default, and many a
//! measurement showed this effect instead of that of the delay. The price: with jitter larger than the distance of
//! frames, the average delay is more than `delay`.
//!
//! Loss and jitter use separate generators, so that changing one does not change the other. With one worker an
//! experiment repeats exactly; several workers send in an order that no seed determines.

use crate::link_spec::{LinkSpec, Loss, QUEUE_DEFAULT, Rate};
use crate::{LinkStatus, Port, PortError, PortStats, Received, Sent};
use p4jet_packet::{BATCH_MAX, Batch, Pool};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum size of the buffers of one link in bytes: 100 ms at 20 Gbit/s. Further frames are dropped as by a full
/// queue.
const BUFFER_BYTES_MAX: usize = 256 << 20;
/// Short frames count as this many bytes, because of the data stored with each.
const BUFFER_BYTES_MIN: usize = 64;
/// Number of frames that wait for a line with a rate if output queues follow it ([`Port::room`]): the others wait in
/// these queues.
const WAITING_MAX: usize = 8;
/// No frame is held.
const NEVER: u64 = u64::MAX;

/// Attaches the link that `spec` describes to the handles of a port: they share one link.
pub(crate) fn emulate(handles: Vec<Box<dyn Port>>, spec: &LinkSpec, seed: u64) -> Vec<Box<dyn Port>> {
    let link = Arc::new(Link {
        start: Instant::now(),
        next_ns: AtomicU64::new(NEVER),
        line: Mutex::new(Line::new(spec, seed)),
    });
    let wrap = |(i, port)| {
        let link = link.clone();
        Box::new(Emulated { port, link, first: i == 0, lost: 0, no_room: 0, not_sent: 0, failed: None })
            as Box<dyn Port>
    };
    handles.into_iter().enumerate().map(wrap).collect()
}

/// A handle of a port with a link behind it.
struct Emulated {
    port: Box<dyn Port>,
    link: Arc<Link>,
    first: bool,
    /// Numbers of frames lost by the link, dropped at its queue, and dropped because the port failed.
    lost: u64,
    no_room: u64,
    not_sent: u64,
    /// Why the port is no longer usable, if this was found when held frames were sent.
    failed: Option<PortError>,
}

/// Shared by the handles of a port.
struct Link {
    start: Instant,
    /// Time when the first held frame leaves, as last seen by a holder of the lock.
    next_ns: AtomicU64,
    line: Mutex<Line>,
}

/// The line itself. Times are nanoseconds from its start.
struct Line {
    spec: LinkSpec,
    queue_max: usize,
    loss_random: Random,
    jitter_random: Random,
    /// Number of frames until the next loss.
    until_loss: u64,
    /// Time when the line is free, and the fraction of a nanosecond, times the rate.
    free_ns: u64,
    free_rest: u64,
    /// Start times of the frames that wait for the line.
    starts: VecDeque<u64>,
    /// Time when the last frame leaves.
    last_ns: u64,
    /// The frames in the order in which they leave.
    held: VecDeque<Held>,
    /// Free buffers, and the total bytes of free and used buffers.
    spare: Vec<Vec<u8>>,
    buffer_bytes: usize,
}

struct Held {
    leaves_ns: u64,
    frame: Vec<u8>,
}

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lost,
    NoRoom,
    Leaves(u64),
}

impl Link {
    /// Each step under the lock leaves the line consistent, so a panic of another worker does not matter.
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

impl Line {
    fn new(spec: &LinkSpec, seed: u64) -> Line {
        let seed = spec.seed.unwrap_or(seed);
        Line {
            spec: *spec,
            queue_max: spec.queue.unwrap_or(QUEUE_DEFAULT),
            loss_random: Random(seed),
            // Any other position of the sequence works.
            jitter_random: Random(!seed),
            until_loss: if let Loss::Every(each) = spec.loss { each } else { 0 },
            free_ns: 0,
            free_rest: 0,
            starts: VecDeque::new(),
            last_ns: 0,
            held: VecDeque::new(),
            spare: Vec::new(),
            buffer_bytes: 0,
        }
    }

    /// True if it can hold frames.
    fn holds(&self) -> bool {
        self.spec.rate.is_some() || !self.spec.delay.is_zero() || !self.spec.jitter.is_zero()
    }

    fn loses_next(&mut self) -> bool {
        match self.spec.loss {
            Loss::None => false,
            Loss::Random(parts) => self.loss_random.below(1_000_000_000) < u64::from(parts),
            Loss::Every(each) => {
                self.until_loss -= 1;
                let lost = self.until_loss == 0;
                if lost {
                    self.until_loss = each;
                }
                lost
            }
        }
    }

    /// Returns what happens to a frame of `len` bytes that arrives now.
    fn accept(&mut self, len: usize, now: u64) -> Fate {
        if self.loses_next() {
            return Fate::Lost;
        }
        let Some(end) = self.pass(len, now) else { return Fate::NoRoom };
        let (delay, jitter) = (self.spec.delay.as_nanos() as u64, self.spec.jitter.as_nanos() as u64);
        let delay = if jitter == 0 {
            delay
        } else {
            (delay + self.jitter_random.below(2 * jitter + 1)).saturating_sub(jitter)
        };
        let mut leaves = end.saturating_add(delay);
        if !self.spec.reorder {
            leaves = leaves.max(self.last_ns);
            self.last_ns = leaves;
        }
        Fate::Leaves(leaves)
    }

    /// Returns when the frame has passed the line; `None` if the queue is full.
    fn pass(&mut self, len: usize, now: u64) -> Option<u64> {
        let (per_frame, rate) = match self.spec.rate {
            None => return Some(now),
            Some(Rate::Bits(rate)) => (len as u64 * 8 * 1_000_000_000, rate),
            Some(Rate::Packets(rate)) => (1_000_000_000, rate),
        };
        self.forget_started(now);
        let start = if self.free_ns > now {
            if self.starts.len() >= self.queue_max {
                return None;
            }
            self.starts.push_back(self.free_ns);
            self.free_ns
        } else {
            self.free_rest = 0;
            now
        };
        let parts = per_frame.saturating_add(self.free_rest);
        self.free_ns = start.saturating_add(parts / rate);
        self.free_rest = parts % rate;
        Some(self.free_ns)
    }

    /// Removes frames that no longer wait for the line.
    fn forget_started(&mut self, now: u64) {
        while self.starts.pop_front_if(|start| *start <= now).is_some() {}
    }

    /// Holds a copy of `frame` until it leaves. False if there is no memory for it.
    fn hold(&mut self, frame: &[u8], leaves_ns: u64) -> bool {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        if buffer.capacity() < frame.len().max(BUFFER_BYTES_MIN) {
            self.buffer_bytes -= buffer.capacity();
            if self.buffer_bytes + frame.len().max(BUFFER_BYTES_MIN) > BUFFER_BYTES_MAX {
                return false;
            }
            buffer.reserve_exact(frame.len().max(BUFFER_BYTES_MIN));
            self.buffer_bytes += buffer.capacity();
        }
        buffer.extend_from_slice(frame);
        let held = Held { leaves_ns, frame: buffer };
        if self.held.back().is_none_or(|last| last.leaves_ns <= leaves_ns) {
            self.held.push_back(held);
        } else {
            let at = self.held.partition_point(|other| other.leaves_ns <= leaves_ns);
            self.held.insert(at, held);
        }
        true
    }

    fn next_ns(&self) -> u64 {
        self.held.front().map_or(NEVER, |held| held.leaves_ns)
    }
}

impl Emulated {
    /// Sends the frames that leave until `now`.
    fn release(&mut self, now: u64) {
        let link = self.link.clone();
        let mut line = link.lock();
        loop {
            let mut frames: [&[u8]; BATCH_MAX] = [&[]; BATCH_MAX];
            let mut count = 0;
            let due = line.held.iter().take_while(|held| held.leaves_ns <= now);
            for (to, held) in frames.iter_mut().zip(due) {
                *to = &held.frame;
                count += 1;
            }
            if count == 0 {
                break;
            }
            if self.failed.is_some() {
                self.not_sent += count as u64;
            } else if let Err(error) = self.port.send(&frames[..count]) {
                self.not_sent += count as u64;
                self.failed = Some(error);
            }
            let Line { held, spare, .. } = &mut *line;
            spare.extend(held.drain(..count).map(|held| held.frame));
        }
        link.next_ns.store(line.next_ns(), Ordering::Relaxed);
    }

    fn check(&self) -> Result<(), PortError> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

impl Port for Emulated {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        self.check()?;
        self.port.receive(number, pool, batch)
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        self.check()?;
        let mut result = Sent::default();
        let mut line = self.link.lock();
        if line.holds() {
            let now = self.link.now_ns();
            for frame in frames {
                match line.accept(frame.len(), now) {
                    Fate::Lost => self.lost += 1,
                    Fate::Leaves(at) if line.hold(frame, at) => result.sent += 1,
                    Fate::Leaves(_) | Fate::NoRoom => self.no_room += 1,
                }
            }
            self.link.next_ns.store(line.next_ns(), Ordering::Relaxed);
            result.dropped = frames.len() - result.sent;
            return Ok(result);
        }
        drop(line);
        for chunk in frames.chunks(BATCH_MAX) {
            let mut kept: [&[u8]; BATCH_MAX] = [&[]; BATCH_MAX];
            let mut count = 0;
            line = self.link.lock();
            for frame in chunk {
                if !line.loses_next() {
                    kept[count] = frame;
                    count += 1;
                }
            }
            drop(line);
            self.lost += (chunk.len() - count) as u64;
            let sent = self.port.send(&kept[..count])?.sent;
            result.sent += sent;
            result.dropped += chunk.len() - sent;
        }
        Ok(result)
    }

    fn room(&mut self) -> usize {
        let mut line = self.link.lock();
        if line.spec.rate.is_none() {
            drop(line);
            return self.port.room();
        }
        line.forget_started(self.link.now_ns());
        line.queue_max.min(WAITING_MAX).saturating_sub(line.starts.len())
    }

    fn poll_fd(&self) -> Option<RawFd> {
        self.port.poll_fd()
    }

    fn due(&mut self) -> Option<Duration> {
        let port = self.port.due();
        // Read without the lock: a value just changed by another worker is seen in the next round, and that worker sees
        // it now.
        let mut next = self.link.next_ns.load(Ordering::Relaxed);
        if next == NEVER {
            return port;
        }
        let now = self.link.now_ns();
        if next <= now {
            self.release(now);
            next = self.link.next_ns.load(Ordering::Relaxed);
        }
        let link = (next != NEVER).then(|| Duration::from_nanos(next.saturating_sub(now)));
        port.into_iter().chain(link).min()
    }

    fn status(&self) -> LinkStatus {
        self.port.status()
    }

    /// Sends held frames immediately, in order, because the end of a switch must not wait.
    fn finish(&mut self) -> Result<(), PortError> {
        self.release(NEVER);
        self.check()?;
        self.port.finish()
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.port.stats();
        stats.tx_dropped += self.not_sent;
        stats.tx_dropped_loss += self.lost;
        stats.tx_dropped_queue += self.no_room;
        if self.first {
            stats.tx_waiting += self.link.lock().held.len() as u64;
        }
        stats
    }

    fn notices(&self) -> Vec<String> {
        self.port.notices()
    }
}

/// Steele, Lea and Flood's splitmix64.
struct Random(u64);

impl Random {
    /// Returns a number below `end`, with equal probabilities up to a part in 2^64 of `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryHandle, MemoryPort, PcapPort, read_capture, share};
    use std::path::Path;

    const MS: u64 = 1_000_000;
    /// Maximum time of any wait.
    const DEADLINE: Duration = Duration::from_secs(60);

    fn spec(text: &str) -> LinkSpec {
        LinkSpec::parse(&text.split(',').collect::<Vec<_>>()).unwrap()
    }

    fn line(text: &str) -> Line {
        Line::new(&spec(text), 1)
    }

    fn memory(text: &str, workers: usize) -> (Vec<Box<dyn Port>>, MemoryHandle) {
        let (port, handle) = MemoryPort::new();
        (emulate(share(Box::new(port), workers), &spec(text), 1), handle)
    }

    /// Frames of `len` bytes, numbered.
    fn frames(count: u8, len: usize) -> Vec<Vec<u8>> {
        (0..count).map(|number| vec![number; len]).collect()
    }

    fn send(port: &mut dyn Port, frames: &[Vec<u8>]) -> Sent {
        port.send(&frames.iter().map(|frame| &frame[..]).collect::<Vec<_>>()).unwrap()
    }

    /// Runs the link until it holds nothing. Returns each frame with the time at which it left.
    fn run(port: &mut dyn Port, handle: &MemoryHandle, start: Instant) -> Vec<(u8, Duration)> {
        let mut out = Vec::new();
        loop {
            let wait = port.due();
            out.extend(handle.take().iter().map(|frame| (frame[0], start.elapsed())));
            let Some(wait) = wait else { return out };
            assert!(start.elapsed() < DEADLINE);
            std::thread::sleep(wait);
        }
    }

    #[test]
    fn a_line_with_a_rate_has_room_for_few() {
        let (mut handles, _handle) = memory("rate=100pps", 1);
        assert_eq!(handles[0].room(), WAITING_MAX);
        // One is on the line, the others wait.
        send(&mut *handles[0], &frames(6, 60));
        assert_eq!(handles[0].room(), WAITING_MAX - 5);
        send(&mut *handles[0], &frames(9, 60));
        assert_eq!(handles[0].room(), 0);
        let (mut handles, _handle) = memory("delay=5ms", 1);
        send(&mut *handles[0], &frames(60, 60));
        assert_eq!(handles[0].room(), usize::MAX, "a long line is not a slow one");
    }

    #[test]
    fn each_nth_is_lost() {
        let (mut handles, handle) = memory("loss=1/3", 2);
        // The frames of all handles count.
        assert_eq!(send(&mut *handles[0], &frames(70, 60)), Sent { sent: 47, dropped: 23 });
        assert_eq!(send(&mut *handles[1], &frames(2, 60)), Sent { sent: 1, dropped: 1 });
        let numbers: Vec<u8> = handle.take().iter().map(|frame| frame[0]).collect();
        let mut want: Vec<u8> = (0..70).filter(|i| i % 3 != 2).collect();
        want.push(0);
        assert_eq!(numbers, want);
        let stats: Vec<_> = handles.iter_mut().map(|port| port.stats()).collect();
        assert_eq!((stats[0].tx_dropped_loss, stats[1].tx_dropped_loss), (23, 1));
        assert_eq!((stats[0].tx_packets, stats[0].tx_dropped, stats[0].tx_waiting), (48, 0, 0));
        assert_eq!(handles[0].due(), None);
        assert!((0..10).all(|_| line("loss=1/1").accept(60, 0) == Fate::Lost));
    }

    #[test]
    fn random_loss_has_the_requested_probability_and_repeats() {
        let lost = |line: &mut Line| -> Vec<bool> {
            (0..100_000).map(|_| line.accept(60, 0) == Fate::Lost).collect()
        };
        let first = lost(&mut line("loss=5%"));
        let count = first.iter().filter(|&&lost| lost).count();
        // 5000 with a standard deviation of 69.
        assert!((4600..5400).contains(&count), "{count}");
        assert_eq!(lost(&mut line("loss=5%")), first);
        // Jitter does not change what is lost; another seed does.
        assert_eq!(lost(&mut line("loss=5%,delay=1ms,jitter=1ms")), first);
        assert_ne!(lost(&mut line("loss=5%,seed=2")), first);
        assert!(lost(&mut line("loss=1")).iter().all(|&lost| lost));
    }

    #[test]
    fn the_rate_spaces_frames_and_the_queue_is_bounded() {
        // A frame of 1250 bytes takes 1 ms.
        let mut line10 = line("rate=10mbit,queue=2,delay=5ms");
        let at = |ms: u64| Fate::Leaves(ms * MS);
        // One on the line, two wait.
        let fates: Vec<_> = (0..5).map(|_| line10.accept(1250, 0)).collect();
        assert_eq!(fates, [at(6), at(7), at(8), Fate::NoRoom, Fate::NoRoom]);
        // At 1 ms one more may wait; at 10 ms the line is free.
        let fates: Vec<_> = [MS - 1, MS, MS, 10 * MS].map(|now| line10.accept(1250, now)).into();
        assert_eq!(fates, [Fate::NoRoom, at(9), Fate::NoRoom, at(16)]);
        // Fractions of nanoseconds are not lost: 64 bytes at 3 Gbit/s take 170 and two thirds.
        let mut fast = line("rate=3gbit,queue=10000");
        let last = (0..3000).map(|_| fast.accept(64, 0)).last();
        assert_eq!(last, Some(Fate::Leaves(512_000)));
        let mut packets = line("rate=1000pps,queue=0");
        assert_eq!([0, 0, MS].map(|now| packets.accept(9000, now)), [at(1), Fate::NoRoom, at(2)]);
    }

    #[test]
    fn jitter_keeps_the_order_by_default() {
        let times = |text: &str| -> Vec<u64> {
            let mut line = line(text);
            let time = |i| match line.accept(60, i * MS / 10) {
                Fate::Leaves(at) => at,
                fate => panic!("{fate:?}"),
            };
            (0..10_000).map(time).collect()
        };
        let kept = times("delay=5ms,jitter=2ms");
        assert!(kept.is_sorted() && kept == times("delay=5ms,jitter=2ms"));
        assert!(kept != times("delay=5ms,jitter=2ms,seed=9"));
        let free = times("delay=5ms,jitter=2ms,reorder");
        assert!(!free.is_sorted());
        let delays: Vec<u64> = free.iter().enumerate().map(|(i, at)| at - i as u64 * MS / 10).collect();
        let (least, most) = (*delays.iter().min().unwrap(), *delays.iter().max().unwrap());
        assert!((3 * MS..3 * MS + MS / 10).contains(&least) && (7 * MS - MS / 10..=7 * MS).contains(&most));
        let mean = delays.iter().sum::<u64>() / 10_000;
        assert!((4_900_000..5_100_000).contains(&mean), "{mean}");
        // No frame leaves before it arrived.
        assert!(times("jitter=1ms,reorder").iter().enumerate().all(|(i, &at)| at >= i as u64 * MS / 10));
    }

    #[test]
    fn frames_are_late_whole_and_in_order() {
        let (mut handles, handle) = memory("delay=50ms", 1);
        let port = &mut *handles[0];
        assert_eq!(port.due(), None);
        let start = Instant::now();
        assert_eq!(send(port, &frames(200, 300)), Sent { sent: 200, dropped: 0 });
        let wait = port.due().unwrap();
        assert!(wait <= Duration::from_millis(50) && handle.take().is_empty());
        assert_eq!((port.stats().tx_waiting, port.stats().tx_packets), (200, 0));
        let out = run(port, &handle, start);
        assert!(out.iter().map(|(number, _)| *number).eq(0..200));
        assert!(out.iter().all(|(_, time)| *time >= Duration::from_millis(50)), "{out:?}");
        let stats = port.stats();
        assert_eq!((stats.tx_waiting, stats.tx_packets, stats.tx_bytes), (0, 200, 60_000));
        // Buffers are reused for frames of any length.
        send(port, &frames(100, 500));
        send(port, &[vec![7; 20]]);
        assert_eq!(run(port, &handle, Instant::now()).len(), 101);
    }

    #[test]
    fn frames_leave_at_the_rate() {
        // 10 ms each.
        let (mut handles, handle) = memory("rate=1mbit,queue=30", 1);
        let start = Instant::now();
        assert_eq!(send(&mut *handles[0], &frames(50, 1250)), Sent { sent: 31, dropped: 19 });
        let out = run(&mut *handles[0], &handle, start);
        assert_eq!(out.len(), 31);
        for (number, time) in out {
            assert!(time >= Duration::from_millis(10) * (u32::from(number) + 1), "{number}: {time:?}");
        }
        let stats = handles[0].stats();
        assert_eq!((stats.tx_packets, stats.tx_dropped_queue, stats.tx_dropped_loss), (31, 19, 0));
    }

    #[test]
    fn reordered_frames_leave_in_the_order_of_their_times() {
        let (mut handles, handle) = memory("delay=20ms,jitter=20ms,reorder", 1);
        send(&mut *handles[0], &frames(100, 60));
        let out = run(&mut *handles[0], &handle, Instant::now());
        let mut numbers: Vec<u8> = out.iter().map(|(number, _)| *number).collect();
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..100));
    }

    #[test]
    fn any_handle_sends_frames_that_another_held() {
        let (mut handles, handle) = memory("delay=1ms", 2);
        send(&mut *handles[0], &frames(3, 60));
        assert_eq!(run(&mut *handles[1], &handle, Instant::now()).len(), 3);
        assert_eq!(handles[0].due(), None);
        assert_eq!(handles.iter_mut().map(|port| port.stats().tx_packets).sum::<u64>(), 3);
    }

    #[test]
    fn finish_sends_held_frames() {
        let path = std::env::temp_dir().join(format!("p4jet-link-{}.pcap", std::process::id()));
        let port = PcapPort::open(None, Some(&path), false).unwrap();
        let mut handles = emulate(vec![Box::new(port)], &spec("delay=1000s,rate=1mbit"), 0);
        let sent = frames(100, 60);
        send(&mut *handles[0], &sent);
        assert!(handles[0].due().unwrap() > Duration::from_secs(900));
        handles[0].finish().unwrap();
        assert_eq!(read_capture(&path).unwrap(), sent);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn memory_is_bounded() {
        let mut line = line("delay=1000s");
        let frame = vec![0; 1 << 20];
        let held = (0..300).filter(|_| line.hold(&frame, 0)).count();
        assert_eq!((held, line.buffer_bytes), (256, 256 << 20));
        // A frame that left makes room for another one.
        let first = line.held.pop_front().unwrap();
        line.spare.push(first.frame);
        assert!(line.hold(&frame, 0) && !line.hold(&[0], 0));
    }

    #[test]
    fn a_port_that_fails_later_is_reported() {
        let port = PcapPort::open(None, Some(Path::new("/dev/full")), false).unwrap();
        let mut handles = emulate(vec![Box::new(port)], &spec("delay=1ns"), 0);
        let port = &mut *handles[0];
        let many = frames(100, 1000);
        let end = Instant::now() + DEADLINE;
        let error = loop {
            let slices: Vec<&[u8]> = many.iter().map(|frame| &frame[..]).collect();
            if let Err(error) = port.send(&slices) {
                break error;
            }
            std::thread::sleep(Duration::from_micros(1));
            port.due();
            assert!(Instant::now() < end);
        };
        assert!(error.to_string().contains("space"), "{error}");
        assert_eq!(port.finish(), Err(error));
        let stats = port.stats();
        assert!(stats.tx_dropped > 0 && stats.tx_waiting == 0);
    }
}
