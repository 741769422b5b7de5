//! The pulse of a worker: a few plain stores per batch that show what the worker does.
#![allow(unsafe_code)]

use crate::interrupt;
use p4jet_packet::Packet;
use std::fmt;
use std::mem::{MaybeUninit, size_of};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A worker that makes no progress for this time is stuck: normally it runs more than a thousand batches per second.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 5 });
/// Maximum number of a packet's bytes in a report.
const BYTES_MAX: usize = 64;

/// The activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Waiting, or carrying out a command.
    Looking,
    /// Receiving by this port.
    Receiving(u32),
    /// Running the program.
    Running,
    /// Sending by this port.
    Sending(u32),
}

/// One worker's pulse, written by the worker.
#[derive(Default)]
pub(crate) struct Pulse {
    /// The number of steps, times four, plus the activity.
    beat: AtomicU64,
    /// The port at which it receives or sends.
    port: AtomicU32,
    /// The system's number of the worker's thread.
    thread: AtomicI32,
    /// The packets of the current batch.
    packets: AtomicPtr<Packet>,
    count: AtomicUsize,
    /// Time for which the watchdog has seen no new beat.
    still_ms: AtomicU64,
}

impl Pulse {
    fn step(&self, doing: u64) {
        let beat = self.beat.load(Ordering::Relaxed);
        self.beat.store((beat & !3).wrapping_add(4 | doing), Ordering::Relaxed);
    }

    /// Records that the worker runs in this thread.
    pub fn begins(&self) {
        // SAFETY: no pointers.
        self.thread.store(unsafe { libc::gettid() }, Ordering::Relaxed);
    }

    /// Records that the worker begins a round.
    pub fn looks(&self) {
        self.step(0);
    }

    /// Records that the worker runs the program on these packets, or, if there are none, on copies.
    pub fn runs(&self, packets: &[Packet]) {
        self.packets.store(packets.as_ptr().cast_mut(), Ordering::Relaxed);
        self.count.store(packets.len(), Ordering::Relaxed);
        self.step(1);
    }

    /// Records that the worker receives.
    pub fn receives(&self, port: u32) {
        self.port.store(port, Ordering::Relaxed);
        self.step(3);
    }

    /// Records that the worker sends.
    pub fn sends(&self, port: u32) {
        self.port.store(port, Ordering::Relaxed);
        self.step(2);
    }

    /// Returns a number that changes with each step of the worker.
    pub fn beat(&self) -> u64 {
        self.beat.load(Ordering::Relaxed)
    }

    /// Records for how long the watchdog has seen no new beat.
    pub fn set_still(&self, still: Duration) {
        self.still_ms.store(still.as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns for how long the worker has made no progress, if it is stuck.
    pub fn stuck_for(&self) -> Option<Duration> {
        let still = Duration::from_millis(self.still_ms.load(Ordering::Relaxed));
        (still >= STUCK_AFTER).then_some(still)
    }

    /// Returns the worker's activity.
    pub fn doing(&self) -> Doing {
        match self.beat.load(Ordering::Relaxed) & 3 {
            1 => Doing::Running,
            2 => Doing::Sending(self.port.load(Ordering::Relaxed)),
            3 => Doing::Receiving(self.port.load(Ordering::Relaxed)),
            _ => Doing::Looking,
        }
    }

    /// Describes where the worker is stuck.
    pub fn report(&self, worker: usize) -> Stuck {
        let doing = self.doing();
        let still_for = Duration::from_millis(self.still_ms.load(Ordering::Relaxed));
        let (packets, count) = (self.packets.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed));
        let seen =
            (doing == Doing::Running).then(|| interrupt::look(self.thread.load(Ordering::Relaxed))).flatten();
        let (number, place) = seen.unzip();
        let is_of_packets = matches!(doing, Doing::Running | Doing::Sending(_)) && count > 0;
        let batch = is_of_packets.then(|| packet(packets, count, number.flatten())).flatten();
        Stuck { worker, doing, still_for, place, batch }
    }
}

/// A worker that makes no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Its number.
    pub worker: usize,
    /// Its activity.
    pub doing: Doing,
    /// Time without progress.
    pub still_for: Duration,
    /// The place in the program, such as `router.p4:41:9`, if known.
    pub place: Option<String>,
    /// The packets of the current batch, if there are any and they can be read.
    pub batch: Option<StuckBatch>,
}

/// A batch that does not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckBatch {
    /// The number of packets. The worker is stuck at one of them.
    pub packets: usize,
    /// The index of that packet, from 0, if known; otherwise the following fields describe the first packet.
    pub number: Option<usize>,
    /// Its ingress port.
    pub port: u32,
    /// Its length in bytes.
    pub length: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} has made no progress for {} s: it ", self.worker, self.still_for.as_secs())?;
        self.place(f)
    }
}

impl Stuck {
    /// Returns the message that the process ends without this worker.
    pub fn abandoned(&self) -> String {
        struct Place<'s>(&'s Stuck);
        impl fmt::Display for Place<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.place(f)
            }
        }
        format!(
            "worker {} did not stop within {} s; the process ends without it. It {}",
            self.worker,
            STUCK_AFTER.as_secs(),
            Place(self)
        )
    }

    /// Writes the activity and the place.
    fn place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.doing {
            Doing::Looking => write!(f, "carries out a command")?,
            Doing::Receiving(port) => write!(f, "receives by port {port}")?,
            Doing::Running => write!(f, "runs the program")?,
            Doing::Sending(port) => write!(f, "sends by port {port}")?,
        }
        if let Some(place) = &self.place {
            write!(f, " at {place}")?;
        }
        let Some(StuckBatch { packets, number, port, length, bytes }) = &self.batch else { return Ok(()) };
        match (packets, number) {
            (1, _) => write!(f, ", packet from port {port}, {length} bytes:")?,
            (n, Some(number)) => {
                write!(f, ", packet {} of {n} from port {port}, {length} bytes:", number + 1)?
            }
            (n, None) => {
                write!(f, ", one of {n} packets from port {port}, of which the first has {length} bytes:")?
            }
        }
        write!(f, " ")?;
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if bytes.len() < *length as usize { f.write_str("…") } else { Ok(()) }
    }
}

/// Reads one of these packets: the one with this number, or the first. Another thread may free or change them
/// meanwhile; the kernel copies them, or reports that the memory is gone.
fn packet(packets: *const Packet, count: usize, number: Option<usize>) -> Option<StuckBatch> {
    let number = number.filter(|number| *number < count);
    let mut packet = MaybeUninit::<Packet>::uninit();
    let at = packets.wrapping_add(number.unwrap_or(0));
    if !copy(at.cast(), packet.as_mut_ptr().cast(), size_of::<Packet>()) {
        return None;
    }
    // SAFETY: the kernel has written it whole; it is an address and numbers, which may have any value.
    let packet = unsafe { packet.assume_init() };
    let mut bytes = vec![0; BYTES_MAX.min(packet.len as usize)];
    if !copy(packet.data, bytes.as_mut_ptr(), bytes.len()) {
        bytes.clear();
    }
    Some(StuckBatch { packets: count, number, port: packet.ingress_port, length: packet.len, bytes })
}

/// Copies memory of this process that another thread may have freed. Returns false if it is gone.
fn copy(from: *const u8, to: *mut u8, bytes: usize) -> bool {
    let local = libc::iovec { iov_base: to.cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: bytes };
    // SAFETY: the caller's buffer has that many bytes; `from` is only an address to the kernel, which checks it.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), ptr::from_ref(&local), 1, ptr::from_ref(&remote), 1, 0)
    };
    usize::try_from(copied) == Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_gone_is_not_read() {
        let bytes = [1u8, 2, 3];
        let mut copied = [0; 3];
        assert!(copy(bytes.as_ptr(), copied.as_mut_ptr(), 3));
        assert_eq!(copied, bytes);
        assert!(!copy(ptr::without_provenance(8), copied.as_mut_ptr(), 3));
        assert_eq!(packet(ptr::without_provenance(8), 1, None), None);
    }

    #[test]
    fn a_report_names_the_packet_and_the_place() {
        let batch = StuckBatch { packets: 1, number: None, port: 3, length: 66, bytes: vec![0xab, 0xcd] };
        let mut stuck = Stuck {
            worker: 1,
            doing: Doing::Running,
            still_for: Duration::from_secs(7),
            place: None,
            batch: Some(batch.clone()),
        };
        assert_eq!(
            stuck.to_string(),
            "worker 1 has made no progress for 7 s: it runs the program, packet from port 3, 66 bytes: abcd…"
        );
        stuck.place = Some("router.p4:41:9".to_string());
        stuck.batch = Some(StuckBatch { packets: 5, number: Some(2), ..batch });
        assert_eq!(
            stuck.to_string(),
            "worker 1 has made no progress for 7 s: it runs the program at router.p4:41:9, packet 3 of 5 from port \
             3, 66 bytes: abcd…"
        );
    }

    #[test]
    fn a_thread_that_runs_no_program_is_nowhere() {
        let (sender, events) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: no pointers.
            sender.send(unsafe { libc::gettid() }).expect("the test waits");
            let _ = ended.recv();
        });
        let id = events.recv().expect("the thread sends its number");
        assert_eq!(interrupt::look(id), None);
        drop(end);
        thread.join().expect("the signal did not end it");
        assert_eq!(interrupt::look(id), None, "it is gone");
    }
}
