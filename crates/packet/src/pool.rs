//! The memory of frames.

// Reason: the pool is raw mapped memory, shared by address with generated code.
#![allow(unsafe_code)]

use crate::Packet;
use std::io;
use std::ptr::{self, NonNull};

/// Bytes of a cache line; buffers start and end on one.
pub const CACHE_LINE: usize = 64;
/// Default number of buffers of a pool: many batches, yet small enough for the second-level cache.
pub const COUNT_DEFAULT: usize = 1024;

/// Bytes of a huge page on x86-64 and on arm64 with 4 KiB pages.
const HUGE_PAGE: usize = 2 << 20;
/// No port receives longer frames (a GSO frame is 64 KiB; jumbo frames are 9 to 16 KiB).
const FRAME_MAX_LIMIT: usize = 1 << 20;
/// Maximum number of bytes before a frame.
pub const HEADROOM_LIMIT: usize = 1 << 16;
const COUNT_LIMIT: usize = 1 << 20;

/// One memory of equal buffers, handed out round-robin as a ring.
///
/// ```text
/// |<-- headroom -->|<----- frame_max ----->|<- slack >= 64 ->|
/// ^ 64-aligned     ^ data, 64-aligned                        ^ next buffer
/// ```
///
/// Buffers are never freed: [`Pool::take`] returns the oldest buffer, whose last user must have finished. If at most
/// [`Pool::count`] buffers are in use at a time, none is overwritten. (Otherwise the result is a wrong frame, not a
/// memory error.)
pub struct Pool {
    /// The mapping, kept for `munmap`.
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    /// The first buffer, and one past the last.
    base: NonNull<u8>,
    bytes: usize,
    /// Offset from `base` of the next buffer to hand out.
    next: usize,
    stride: usize,
    headroom: usize,
    frame_max: usize,
}

// SAFETY: the pool is the only owner of its mapping; every access through it uses `&self` or `&mut self`.
unsafe impl Send for Pool {}
// SAFETY: `&self` only reads.
unsafe impl Sync for Pool {}

impl Pool {
    /// Maps a pool of `count` buffers ([`COUNT_DEFAULT`] is a good value; there are at least
    /// [`BATCH_MAX`](crate::BATCH_MAX)), each for frames of up to `frame_max` bytes preceded by at least `headroom`
    /// bytes for added headers.
    ///
    /// # Errors
    ///
    /// The operating system refuses the memory, or the sizes are unreasonable (`InvalidInput`).
    pub fn new(count: usize, frame_max: usize, headroom: usize) -> io::Result<Pool> {
        if count > COUNT_LIMIT || frame_max > FRAME_MAX_LIMIT || headroom > HEADROOM_LIMIT || frame_max == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "packet pool of {count} buffers, frames of {frame_max} bytes, headroom of {headroom} bytes: at most \
                     {COUNT_LIMIT} buffers, 1 to {FRAME_MAX_LIMIT} bytes a frame, {HEADROOM_LIMIT} bytes of headroom"
                ),
            ));
        }
        let count = count.max(crate::BATCH_MAX);
        let headroom = headroom.next_multiple_of(CACHE_LINE);
        let lines = (headroom + frame_max.next_multiple_of(CACHE_LINE) + CACHE_LINE) / CACHE_LINE;
        // An odd number of lines: with a stride of 2048 the first lines of all frames would share two sets of a
        // 64-set first-level cache, 16 lines in all, and a batch would evict itself.
        let stride = (lines | 1) * CACHE_LINE;
        let bytes = count * stride;
        // A huge page must be aligned; small pools (in tests) do not need one.
        let huge = bytes >= HUGE_PAGE / 2;
        let mapping_bytes = if huge { bytes.next_multiple_of(HUGE_PAGE) + HUGE_PAGE } else { bytes };
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let mapping = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapping_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            return Err(io::Error::new(
                error.kind(),
                format!(
                    "cannot map {mapping_bytes} bytes for packets: {error}; is a memory limit (ulimit -v) set?"
                ),
            ));
        }
        let mapping = NonNull::new(mapping.cast::<u8>()).expect("mmap never gives address 0 unless asked");
        let offset = if huge { mapping.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        // SAFETY: `offset` < HUGE_PAGE, which the mapping has beyond `bytes`.
        let base = unsafe { mapping.add(offset) };
        if huge {
            // SAFETY: the range is inside our mapping. A refusal costs only speed, so the result is ignored.
            unsafe {
                libc::madvise(base.as_ptr().cast(), bytes.next_multiple_of(HUGE_PAGE), libc::MADV_HUGEPAGE)
            };
        }
        Ok(Pool { mapping, mapping_bytes, base, bytes, next: 0, stride, headroom, frame_max })
    }

    /// Returns the number of buffers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.bytes / self.stride
    }

    /// Returns the maximum number of bytes of a frame that a port may put into a buffer.
    #[inline]
    #[must_use]
    pub fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// Returns the number of writable bytes before a frame: the requested number, rounded up to a cache line.
    #[inline]
    #[must_use]
    pub fn headroom(&self) -> usize {
        self.headroom
    }

    /// Returns the distance in bytes from one buffer to the next.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the address of the oldest buffer's data, which becomes the newest. It is 64-byte-aligned;
    /// [`Pool::headroom`] bytes before it and [`Pool::frame_max`] plus 64 bytes from it on may be written.
    #[inline]
    pub fn take(&mut self) -> *mut u8 {
        let data = self.peek();
        self.advance();
        data
    }

    /// Returns a ring that hands out many buffers faster.
    #[inline]
    pub(crate) fn ring(&mut self) -> Ring<'_> {
        Ring {
            data: self.base.as_ptr().wrapping_add(self.headroom),
            bytes: self.bytes,
            stride: self.stride,
            next: self.next,
            pool: self,
        }
    }

    /// Returns the next buffer's data without handing it out.
    #[inline]
    pub(crate) fn peek(&mut self) -> *mut u8 {
        debug_assert!(self.next + self.stride <= self.bytes);
        // SAFETY: `next` is the offset of a buffer (`advance`), and `headroom` is less than its stride.
        unsafe { self.base.as_ptr().add(self.next + self.headroom) }
    }

    /// Hands out the buffer that [`Pool::peek`] returned.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += self.stride;
        if self.next == self.bytes {
            self.next = 0;
        }
    }

    /// Returns the next buffer as a slice of [`Pool::frame_max`] bytes without handing it out.
    #[inline]
    pub(crate) fn peek_slice(&mut self) -> &mut [u8] {
        let frame_max = self.frame_max;
        let data = self.peek();
        // SAFETY: `frame_max` bytes from `data` on are inside the buffer and initialised (zeroed mapping); the slice
        // borrows the pool mutably, so no other reference to pool memory lives beside it.
        unsafe { std::slice::from_raw_parts_mut(data, frame_max) }
    }

    /// Returns the bytes of `packet`.
    ///
    /// # Panics
    ///
    /// Panics if they are not in this pool: a bug in p4jet, because a packet's address comes from a pool and moves only
    /// within its buffer.
    #[inline]
    #[must_use]
    pub fn frame(&self, packet: &Packet) -> &[u8] {
        self.check(packet);
        // SAFETY: the range is inside the pool's memory (checked), which is initialised; the slice borrows the pool,
        // and whatever writes pool memory from safe code borrows it mutably.
        unsafe { packet.bytes() }
    }

    /// Returns the bytes of `packet`, to change in place.
    ///
    /// # Panics
    ///
    /// Like [`Pool::frame`].
    #[inline]
    pub fn frame_mut(&mut self, packet: &Packet) -> &mut [u8] {
        self.check(packet);
        // SAFETY: as in `frame`; the slice borrows the pool mutably.
        unsafe { std::slice::from_raw_parts_mut(packet.data, packet.len as usize) }
    }

    #[inline]
    fn check(&self, packet: &Packet) {
        let offset = packet.data.addr().wrapping_sub(self.base.addr().get());
        assert!(
            offset <= self.bytes && packet.len as usize <= self.bytes - offset,
            "packet at {:?}, {} bytes, is not of this pool at {:?}, {} bytes",
            packet.data,
            packet.len,
            self.base,
            self.bytes
        );
    }
}

/// A pool whose position stays in registers while many buffers are taken.
pub(crate) struct Ring<'a> {
    pool: &'a mut Pool,
    /// Data of the first buffer.
    data: *mut u8,
    bytes: usize,
    stride: usize,
    next: usize,
}

impl Ring<'_> {
    /// Like [`Pool::take`].
    #[inline(always)]
    pub(crate) fn take(&mut self) -> *mut u8 {
        // Inside the pool, as in `Pool::peek`.
        let data = self.data.wrapping_add(self.next);
        self.next += self.stride;
        if self.next == self.bytes {
            self.next = 0;
        }
        data
    }

    /// Tells the pool which buffers were taken.
    #[inline(always)]
    pub(crate) fn finish(self) {
        self.pool.next = self.next;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: exactly what `mmap` returned, unmapped once; slices of it borrow the pool, so none is left.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("count", &self.count())
            .field("stride", &self.stride)
            .field("headroom", &self.headroom)
            .field("frame_max", &self.frame_max)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;

    /// A packet in a fresh buffer.
    fn packet(pool: &mut Pool, frame: &[u8]) -> Packet {
        let mut batch = Batch::new();
        batch.push(pool, 1, frame).unwrap();
        batch.packets()[0]
    }

    #[test]
    fn buffers_are_aligned_apart_and_come_round() {
        for (count, frame_max, headroom) in [(64, 60, 0), (1024, 1518, 100), (100, 9216, 128), (1, 1, 1)] {
            let mut pool = Pool::new(count, frame_max, headroom).unwrap();
            assert!(pool.headroom() >= headroom && pool.count() >= count);
            assert_eq!(pool.stride() % (2 * CACHE_LINE), CACHE_LINE, "odd number of lines");
            let first: Vec<usize> = (0..pool.count()).map(|_| pool.take().addr()).collect();
            assert!(first.iter().all(|a| a % CACHE_LINE == 0));
            assert!(first.windows(2).all(|w| w[1] - w[0] == pool.stride()));
            assert!(pool.stride() >= pool.headroom() + frame_max + CACHE_LINE);
            assert_eq!(pool.take().addr(), first[0]);
            let end = pool.base.addr().get() + pool.bytes;
            assert!(first.last().unwrap() + frame_max + CACHE_LINE <= end);
        }
    }

    #[test]
    fn every_byte_is_writable_also_with_huge_pages() {
        let mut pool = Pool::new(1024, 2000, 64).unwrap();
        for i in 0..pool.count() {
            let packet = packet(&mut pool, &[i as u8; 2000]);
            assert!(pool.frame(&packet).iter().all(|&b| b == i as u8));
            pool.frame_mut(&packet)[0] = 7;
            assert_eq!(pool.frame(&packet)[0], 7);
        }
    }

    #[test]
    fn unreasonable_sizes_are_refused() {
        for (count, frame_max, headroom) in
            [(usize::MAX, 1, 1), (1, usize::MAX, 1), (1, 1, usize::MAX), (1, 0, 0)]
        {
            let error = Pool::new(count, frame_max, headroom).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    #[should_panic(expected = "is not of this pool")]
    fn a_foreign_packet_is_refused() {
        let pool = Pool::new(64, 100, 0).unwrap();
        let mut other = Pool::new(64, 100, 0).unwrap();
        let packet = packet(&mut other, b"frame");
        let _ = pool.frame(&packet);
    }
}
