//! The four rings of an AF_XDP socket: memory shared with the kernel; one side writes entries, the other reads them.

// Reason: memory that the kernel reads and writes.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapping of memory, unmapped when dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` of `shared` at an offset, or of fresh memory.
    pub(super) fn new(bytes: usize, shared: Option<(&OwnedFd, libc::off_t)>) -> io::Result<Mapping> {
        let (kind, fd, offset) = match shared {
            Some((fd, offset)) => (libc::MAP_SHARED, fd.as_raw_fd(), offset),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                kind | libc::MAP_POPULATE,
                fd,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping {
            start: NonNull::new(start.cast()).expect("mmap never gives address 0 unless asked"),
            bytes,
        })
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `mmap` returned, unmapped once; no pointer outlives the owner.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A ring of `T`, for which any bytes are a valid value.
struct Ring<T> {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    /// Number of entries, a power of two.
    size: u32,
    /// The next entry that we write or read. It increases and wraps around; its low bits are the index.
    next: u32,
    /// The last known position of the other side: entries up to here can be written or read.
    end: u32,
    entries: *mut T,
}

// SAFETY: the ring owns its mapping; the kernel's side of it is independent of threads.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn new(socket: &OwnedFd, page: u64, offsets: libc::xdp_ring_offset, size: u32) -> io::Result<Ring<T>> {
        assert!(size.is_power_of_two());
        let bytes = offsets.desc as usize + size as usize * size_of::<T>();
        let mapping = Mapping::new(bytes, Some((socket, page as libc::off_t)))?;
        // SAFETY: `desc` is inside the mapping, which is longer.
        let entries = unsafe { mapping.start().add(offsets.desc as usize) }.cast();
        Ok(Ring { mapping, offsets, size, next: 0, end: 0, entries })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: one of the kernel's offsets, of an aligned word inside the mapping that both sides access
        // atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.start().add(offset as usize).cast()) }
    }

    fn place(&self) -> *mut T {
        // SAFETY: masked with the size, a power of two, it is the index of an entry.
        unsafe { self.entries.add((self.next & (self.size - 1)) as usize) }
    }
}

/// A ring that we fill: the fill ring and the transmit ring.
pub(super) struct Producer<T>(Ring<T>);

impl<T: Copy> Producer<T> {
    pub(super) fn new(
        socket: &OwnedFd,
        page: u64,
        offsets: libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Producer<T>> {
        let mut ring = Ring::new(socket, page, offsets, size)?;
        ring.end = size;
        Ok(Producer(ring))
    }

    /// True if there is room for `count` entries.
    #[inline]
    pub(super) fn has_room(&mut self, count: u32) -> bool {
        let ring = &mut self.0;
        if ring.end.wrapping_sub(ring.next) < count {
            // Acquire: the kernel has read the entries before they are overwritten.
            let taken = ring.word(ring.offsets.consumer).load(Ordering::Acquire);
            ring.end = taken.wrapping_add(ring.size);
        }
        ring.end.wrapping_sub(ring.next) >= count
    }

    /// Writes the next entry, which the kernel sees after [`Producer::publish`]. There must be room.
    #[inline]
    pub(super) fn write(&mut self, value: T) {
        debug_assert!(self.has_room(1));
        // SAFETY: the entry is inside the mapping, and ours until it is published.
        unsafe { self.0.place().write(value) };
        self.0.next = self.0.next.wrapping_add(1);
    }

    /// Hands over the written entries.
    #[inline]
    pub(super) fn publish(&mut self) {
        // Release: the entries, and the chunks they refer to, are written before the kernel sees them.
        self.0.word(self.0.offsets.producer).store(self.0.next, Ordering::Release);
    }

    /// True if the kernel sleeps until a system call wakes it.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.0.word(self.0.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// True if the kernel has taken everything that was published.
    pub(super) fn is_taken(&self) -> bool {
        self.0.word(self.0.offsets.consumer).load(Ordering::Relaxed) == self.0.next
    }
}

/// A ring that the kernel fills: the receive ring and the completion ring.
pub(super) struct Consumer<T>(Ring<T>);

impl<T: Copy> Consumer<T> {
    pub(super) fn new(
        socket: &OwnedFd,
        page: u64,
        offsets: libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Consumer<T>> {
        Ring::new(socket, page, offsets, size).map(Consumer)
    }

    /// Reads the kernel's position, and returns the number of available entries.
    #[inline]
    pub(super) fn look(&mut self) -> u32 {
        let ring = &mut self.0;
        // Acquire: entries are read after the number that announces them.
        ring.end = ring.word(ring.offsets.producer).load(Ordering::Acquire);
        ring.end.wrapping_sub(ring.next)
    }

    /// Returns the next of the entries available at the last [`Consumer::look`]. The kernel may reuse it after
    /// [`Consumer::release`].
    #[inline]
    pub(super) fn take(&mut self) -> Option<T> {
        if self.0.next == self.0.end {
            return None;
        }
        // SAFETY: the entry is inside the mapping, and ours until it is released; any bytes are a valid value.
        let value = unsafe { self.0.place().read() };
        self.0.next = self.0.next.wrapping_add(1);
        Some(value)
    }

    /// Like [`Consumer::take`], for the entry `ahead` of the next one.
    #[inline]
    pub(super) fn peek(&self, ahead: u32) -> Option<T> {
        let ring = &self.0;
        if ring.end.wrapping_sub(ring.next) <= ahead {
            return None;
        }
        // SAFETY: as in `take`; masked with the size, it is the index of an entry.
        Some(unsafe { ring.entries.add((ring.next.wrapping_add(ahead) & (ring.size - 1)) as usize).read() })
    }

    /// Returns the taken entries to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        // Release: the entries have been read before the kernel writes them again.
        self.0.word(self.0.offsets.consumer).store(self.0.next, Ordering::Release);
    }
}
