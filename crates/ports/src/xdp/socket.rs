//! One AF_XDP socket: a queue of an interface, its rings, and the memory (UMEM) of its frames.
//!
//! The memory is divided into chunks. The first [`RX_CHUNKS`] circulate between the fill ring and the receive ring, the
//! others between the transmit ring and the completion ring, so that the two halves of a socket share no state and may
//! be used by different threads.

// Reason: memory that the kernel writes, and system calls on C structures.
#![allow(unsafe_code)]

use super::ring::{Consumer, Mapping, Producer};
use crate::interface::{self, set_option};
use crate::offload::complete_unmarked;
use crate::{PortStats, Sent};
use libc::xdp_desc;
use p4jet_packet::{Batch, Pool};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Number of chunks, and of entries of the rings: at 1 Mpps, 2048 last for 2 ms in which the switch may be busy. Chunks
/// are used in turn, so with more of them, each is longer out of the processor's caches: with 4096, the kernel takes 15
/// % longer to bring a frame of 1514 bytes to the port of a veth.
const RX_CHUNKS: u32 = 2048;
const TX_CHUNKS: u32 = 1024;
/// The kernel keeps this many bytes of each chunk free before a received frame.
const RX_HEADROOM: usize = 256;
const CHUNK_BYTES_MIN: usize = 2048;
/// A chunk is at most a page.
const CHUNK_BYTES_MAX: usize = 4096;
/// Maximum length of a frame that is received in one chunk.
pub(super) const SINGLE_FRAME_MAX: usize = CHUNK_BYTES_MAX - RX_HEADROOM;
/// Bytes of an Ethernet header.
const FRAME_MIN: usize = 14;
/// Maximum number of system calls of one `send`. Without `XDP_MAX_TX_SKB_BUDGET`, the kernel sends 32 frames per call;
/// and a call ends at a frame that the link refuses. The next `send` handles the rest.
const KICKS_MAX: usize = 16;
/// Number of attempts to bind to a busy queue, for a second in total.
const BIND_TRIES: u32 = 100;
const BIND_PAUSE: Duration = Duration::from_millis(10);
/// linux/if_xdp.h, since Linux 6.17: how many frames one system call sends in copy mode.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// The layout of frames in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    chunk_bytes: usize,
    /// Frames may be spread over several chunks.
    pub(super) segments: bool,
}

impl Layout {
    /// For frames of up to `frame_max` bytes.
    pub(super) fn new(frame_max: usize) -> Layout {
        let small = frame_max + RX_HEADROOM <= CHUNK_BYTES_MIN;
        let chunk_bytes = if small { CHUNK_BYTES_MIN } else { CHUNK_BYTES_MAX };
        Layout { chunk_bytes, segments: frame_max > SINGLE_FRAME_MAX }
    }
}

/// The descriptor and the memory of a socket.
struct Shared {
    fd: OwnedFd,
    memory: Mapping,
    chunk_bytes: usize,
}

// SAFETY: the mapping is ordinary memory; each chunk is accessed only by the half that owns it.
unsafe impl Sync for Shared {}
// SAFETY: as above; it is not tied to a thread.
unsafe impl Send for Shared {}

impl Shared {
    /// Returns the `len` bytes at `address` and the rest of the chunk; `None` if they are not in one chunk.
    ///
    /// # Safety
    ///
    /// The chunk is a receive chunk that the kernel has handed over, and is not returned during the lifetime of the
    /// slice.
    #[inline]
    unsafe fn frame(&self, address: u64, len: u32) -> Option<&[u8]> {
        let address = address as usize;
        let room = self.chunk_bytes - (address & (self.chunk_bytes - 1));
        if address >= self.memory.bytes() || len as usize > room {
            return None;
        }
        // SAFETY: from an address inside the mapping to at most the end of its chunk; the caller says that it
        // is ours.
        Some(unsafe { std::slice::from_raw_parts(self.memory.start().add(address), room) })
    }

    fn kick(&self) -> io::Result<()> {
        // SAFETY: no memory is passed.
        let status = unsafe {
            libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        interface::result(status).map(drop)
    }
}

/// The receiving half.
pub(super) struct Rx {
    shared: Arc<Shared>,
    ring: Consumer<xdp_desc>,
    fill: Producer<u64>,
    segments: bool,
}

/// The sending half.
pub(super) struct Tx {
    shared: Arc<Shared>,
    ring: Producer<xdp_desc>,
    completed: Consumer<u64>,
    free: Vec<u64>,
    segments: bool,
}

/// Opens a socket on `queue` of the interface with number `index`, to receive, and to send if `sends`. The flag is true
/// if the kernel does not copy frames.
pub(super) fn open(
    index: u32,
    queue: u32,
    layout: Layout,
    sends: bool,
) -> io::Result<(Rx, Option<Tx>, bool)> {
    let fd = interface::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
    let chunk_bytes = layout.chunk_bytes;
    let tx_chunks = if sends { TX_CHUNKS } else { 0 };
    let memory = Mapping::new((RX_CHUNKS + tx_chunks) as usize * chunk_bytes, None)?;
    let umem = libc::xdp_umem_reg {
        addr: memory.start() as u64,
        len: memory.bytes() as u64,
        chunk_size: chunk_bytes as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &umem)?;
    for (option, size) in [
        (libc::XDP_UMEM_FILL_RING, RX_CHUNKS),
        (libc::XDP_RX_RING, RX_CHUNKS),
        // Required even without sending.
        (libc::XDP_UMEM_COMPLETION_RING, TX_CHUNKS),
    ] {
        set_option(&fd, libc::SOL_XDP, option, &size)?;
    }
    if sends {
        set_option(&fd, libc::SOL_XDP, libc::XDP_TX_RING, &TX_CHUNKS)?;
        // Older kernels send 32 frames per call; `send` repeats the call.
        let _ = set_option(&fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &TX_CHUNKS);
    }
    // SAFETY: structures of integers.
    let offsets: libc::xdp_mmap_offsets = unsafe { get_structure(&fd, libc::XDP_MMAP_OFFSETS) }?;
    let mut fill = Producer::new(&fd, libc::XDP_UMEM_PGOFF_FILL_RING, offsets.fr, RX_CHUNKS)?;
    let received = Consumer::new(&fd, libc::XDP_PGOFF_RX_RING as u64, offsets.rx, RX_CHUNKS)?;
    let sending = if sends {
        let ring = Producer::new(&fd, libc::XDP_PGOFF_TX_RING as u64, offsets.tx, TX_CHUNKS)?;
        Some((ring, Consumer::new(&fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, TX_CHUNKS)?))
    } else {
        None
    };
    let chunk = |number: u32| u64::from(number) * chunk_bytes as u64;
    for number in 0..RX_CHUNKS {
        fill.write(chunk(number));
    }
    fill.publish();
    // With neither XDP_ZEROCOPY nor XDP_COPY, the kernel tries the former, then the latter.
    let segments = if layout.segments { libc::XDP_USE_SG } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP | segments,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let mut tries = 0;
    loop {
        // SAFETY: pointer and length describe `address`.
        let status = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                mem::size_of_val(&address) as libc::socklen_t,
            )
        };
        match interface::result(status as isize) {
            // A child of this process that has not yet called exec(2) may still hold a socket that we closed.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries < BIND_TRIES => {
                tries += 1;
                thread::sleep(BIND_PAUSE);
            }
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    // SAFETY: a structure of integers.
    let options: libc::xdp_options = unsafe { get_structure(&fd, libc::XDP_OPTIONS) }?;
    let shared = Arc::new(Shared { fd, memory, chunk_bytes });
    let segments = layout.segments;
    let tx = sending.map(|(ring, completed)| {
        let free = (RX_CHUNKS..RX_CHUNKS + TX_CHUNKS).rev().map(chunk).collect();
        Tx { shared: shared.clone(), ring, completed, free, segments }
    });
    let is_zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
    Ok((Rx { shared, ring: received, fill, segments }, tx, is_zero_copy))
}

/// Reads a structure of socket `fd`.
///
/// # Safety
///
/// All zeros, and any bytes, are a valid `T`.
unsafe fn get_structure<T>(fd: &OwnedFd, option: i32) -> io::Result<T> {
    // SAFETY: the caller says so.
    let mut value: T = unsafe { mem::zeroed() };
    let mut len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`.
    let status = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, (&raw mut value).cast(), &raw mut len)
    };
    interface::result(status as isize).map(|_| value)
}

impl Rx {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }

    /// Adds frames to `batch` until it is full or there are no more. With `complete`, it completes checksums that a
    /// kernel at the other end left unfinished.
    pub(super) fn receive(
        &mut self,
        number: u32,
        pool: &mut Pool,
        batch: &mut Batch,
        complete: bool,
        stats: &mut PortStats,
    ) {
        if self.ring.look() == 0 {
            self.wake();
            return;
        }
        let before = batch.len();
        if self.segments {
            self.receive_segments(number, pool, batch, stats);
        } else {
            self.receive_single(number, pool, batch, stats);
        }
        self.fill.publish();
        self.ring.release();
        self.wake();
        for packet in &batch.packets()[before..] {
            stats.rx_bytes += u64::from(packet.len);
        }
        stats.rx_packets += (batch.len() - before) as u64;
        if complete {
            for at in before..batch.len() {
                let packet = batch.packets()[at];
                complete_unmarked(pool.frame_mut(&packet));
            }
        }
    }

    /// Receives frames that are in one chunk each.
    fn receive_single(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch, stats: &mut PortStats) {
        let Rx { shared, ring, fill, .. } = self;
        let frame_max = pool.frame_max();
        batch.push_all_padded(pool, number, || {
            loop {
                let descriptor = ring.take()?;
                fill.write(descriptor.addr & !(shared.chunk_bytes as u64 - 1));
                // SAFETY: from the receive ring; the fill ring is published after the batch is filled.
                match unsafe { shared.frame(descriptor.addr, descriptor.len) } {
                    Some(padded) if descriptor.len as usize <= frame_max => {
                        return Some((padded, descriptor.len as usize));
                    }
                    Some(_) => stats.rx_dropped_oversize += 1,
                    None => stats.rx_dropped_malformed += 1,
                }
            }
        });
    }

    /// Receives frames that may be spread over several chunks.
    fn receive_segments(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch, stats: &mut PortStats) {
        while !batch.is_full() {
            // The kernel hands over a frame once it is complete; a partial frame waits.
            let mut count = 0;
            loop {
                let Some(descriptor) = self.ring.peek(count) else { return };
                count += 1;
                if descriptor.options & libc::XDP_PKT_CONTD == 0 {
                    break;
                }
            }
            let Rx { shared, ring, fill, .. } = self;
            let mut oversize = false;
            let pushed = batch.push_with(pool, number, |to| {
                let mut len = 0;
                for _ in 0..count {
                    let Some(descriptor) = ring.take() else { break };
                    fill.write(descriptor.addr & !(shared.chunk_bytes as u64 - 1));
                    // SAFETY: as in `receive_single`.
                    let piece = unsafe { shared.frame(descriptor.addr, descriptor.len) };
                    let piece = piece.map_or(&[][..], |padded| &padded[..descriptor.len as usize]);
                    match to.get_mut(len..len + piece.len()) {
                        Some(to) => to.copy_from_slice(piece),
                        None => oversize = true,
                    }
                    len += piece.len();
                }
                if oversize { 0 } else { len }
            });
            if oversize {
                stats.rx_dropped_oversize += 1;
            } else if !matches!(pushed, Ok(1..)) {
                stats.rx_dropped_malformed += 1;
            }
        }
    }

    /// Wakes a sleeping driver, because there are chunks to fill.
    #[inline]
    fn wake(&self) {
        if self.fill.needs_wakeup() {
            // SAFETY: no memory is passed.
            unsafe {
                libc::recvfrom(
                    self.shared.fd.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
        }
    }

    /// Returns the number of frames lost since the socket was opened: no room, or longer than a chunk.
    pub(super) fn lost(&self) -> u64 {
        // SAFETY: a structure of integers.
        let statistics = unsafe { get_structure(&self.shared.fd, libc::XDP_STATISTICS) };
        statistics.map_or(0, |found: libc::xdp_statistics| found.rx_dropped + found.rx_ring_full)
    }
}

impl Tx {
    /// Sends frames of up to `frame_max` bytes, and adds up their bytes.
    pub(super) fn send(&mut self, frames: &[&[u8]], frame_max: usize, bytes: &mut u64) -> Sent {
        self.reclaim();
        let mut sent = 0;
        for frame in frames {
            if self.queue(frame, frame_max) {
                sent += 1;
                *bytes += frame.len() as u64;
            }
        }
        self.ring.publish();
        let refused = self.flush().min(sent);
        sent -= refused;
        Sent { sent, dropped: frames.len() - sent }
    }

    /// Copies a frame to the ring. False if there is no room, or if the link cannot carry it.
    #[inline]
    fn queue(&mut self, frame: &[u8], frame_max: usize) -> bool {
        let chunk_bytes = self.shared.chunk_bytes;
        let pieces = frame.len().div_ceil(chunk_bytes);
        let fits = (FRAME_MIN..=frame_max).contains(&frame.len()) && (pieces == 1 || self.segments);
        if !fits || self.free.len() < pieces || !self.ring.has_room(pieces as u32) {
            return false;
        }
        for (at, piece) in frame.chunks(chunk_bytes).enumerate() {
            let Some(addr) = self.free.pop() else { return false };
            // SAFETY: a transmit chunk that the kernel does not have, inside the mapping; `piece` is no
            // longer than it, and lies elsewhere.
            unsafe {
                let to = self.shared.memory.start().add(addr as usize);
                std::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len());
            }
            let options = if at + 1 < pieces { libc::XDP_PKT_CONTD } else { 0 };
            self.ring.write(xdp_desc { addr, len: piece.len() as u32, options });
        }
        true
    }

    /// Takes back the chunks of frames that have left.
    fn reclaim(&mut self) {
        if self.completed.look() == 0 {
            return;
        }
        while let Some(address) = self.completed.take() {
            self.free.push(address);
        }
        self.completed.release();
    }

    /// True if the kernel has taken everything that was queued.
    pub(super) fn is_flushed(&self) -> bool {
        self.ring.is_taken()
    }

    /// Makes the kernel send queued frames. Returns the number of frames it dropped.
    pub(super) fn flush(&mut self) -> usize {
        let mut dropped = 0;
        for _ in 0..KICKS_MAX {
            if !self.ring.needs_wakeup() || self.ring.is_taken() {
                break;
            }
            let Err(error) = self.shared.kick() else { break };
            match error.raw_os_error() {
                // The frame was taken, but the link refused it.
                Some(libc::EBUSY) => dropped += 1,
                // It has sent its maximum for one call, or has no memory at the moment.
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {}
                // Down or deleted.
                _ => break,
            }
        }
        dropped
    }
}
