//! A batch of packets.

// Reason: copies into raw pool memory, rounded up to whole cache lines.
#![allow(unsafe_code)]

use crate::pool::CACHE_LINE;
use crate::{Packet, Pool};
use std::ptr;

/// Maximum number of packets in a batch.
pub const BATCH_MAX: usize = 64;

/// Frames up to this many bytes are copied by whole cache lines when the source allows; beyond, `memcpy` is as good.
const PADDED_COPY_MAX: usize = 4 * CACHE_LINE;

/// The reason why a frame was not added to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The batch holds as many packets as it may ([`Batch::set_max`]).
    Full,
    /// The frame is longer than [`Pool::frame_max`]: drop and count it.
    Oversize,
}

/// Up to [`BATCH_MAX`] packets.
#[derive(Debug)]
pub struct Batch {
    packets: [Packet; BATCH_MAX],
    len: usize,
    /// At most [`BATCH_MAX`].
    max: usize,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Batch {
        Batch { packets: [Packet::default(); BATCH_MAX], len: 0, max: BATCH_MAX }
    }

    /// Sets the number of packets from which the batch is full: 1 to [`BATCH_MAX`], which is the default.
    pub fn set_max(&mut self, max: usize) {
        self.max = max.clamp(1, BATCH_MAX);
    }

    /// Returns the number of packets in the batch.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns how many more packets fit.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        self.max.saturating_sub(self.len)
    }

    /// True if it contains no packets.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if no more packets fit.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len >= self.max
    }

    /// Returns the packets in order of arrival.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> &[Packet] {
        &self.packets[..self.len]
    }

    /// Returns the packets, for the pipeline to change.
    #[inline]
    pub fn packets_mut(&mut self) -> &mut [Packet] {
        &mut self.packets[..self.len]
    }

    /// Removes all packets except the first `len`.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Removes the packets. Their buffers do not change until the ring of the pool returns to them.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Copies the frame `bytes` into a fresh buffer of `pool` and adds it.
    ///
    /// # Errors
    ///
    /// The batch is full, or the frame does not fit a buffer; then nothing happens.
    #[inline]
    pub fn push(&mut self, pool: &mut Pool, ingress_port: u32, bytes: &[u8]) -> Result<(), PushError> {
        self.push_padded(pool, ingress_port, bytes, bytes.len())
    }

    /// Like [`Batch::push`], for the first `len` bytes of `padded`. The more readable bytes follow the frame, the faster
    /// this is: a short frame with padding up to the next multiple of 64 bytes is copied by one or two vector moves. Bytes
    /// of the buffer beyond the frame are unspecified.
    ///
    /// # Errors
    ///
    /// Like [`Batch::push`].
    ///
    /// # Panics
    ///
    /// Panics if `padded` is shorter than `len`.
    #[inline]
    pub fn push_padded(
        &mut self,
        pool: &mut Pool,
        ingress_port: u32,
        padded: &[u8],
        len: usize,
    ) -> Result<(), PushError> {
        assert!(len <= padded.len(), "frame of {len} bytes in a source of {}", padded.len());
        let Some(slot) = self.packets[..self.max].get_mut(self.len) else {
            return Err(PushError::Full);
        };
        if len > pool.frame_max() {
            return Err(PushError::Oversize);
        }
        let data = pool.take();
        // SAFETY: `len` <= `frame_max`, and `data` is a buffer of the pool; `len` <= `padded.len()`, as asserted. The
        // source cannot overlap: safe code has no shared slice of pool memory while the pool is mutably borrowed.
        unsafe { copy_padded(padded, len, data) };
        *slot = Packet { data, len: len as u32, ingress_port, ..Packet::default() };
        self.len += 1;
        Ok(())
    }

    /// Like [`Batch::push_padded`] for frame after frame until the batch is full or `next` returns `None`; `next` returns
    /// the padded source and the length of the frame. This is the fastest way to fill a batch, because values that a
    /// single push reads and writes back each time stay in registers. Returns the number of frames added.
    ///
    /// # Panics
    ///
    /// Panics if a frame is longer than its source or than [`Pool::frame_max`].
    #[inline]
    pub fn push_all_padded<'a>(
        &mut self,
        pool: &mut Pool,
        ingress_port: u32,
        mut next: impl FnMut() -> Option<(&'a [u8], usize)>,
    ) -> usize {
        let before = self.len;
        let frame_max = pool.frame_max();
        let mut ring = pool.ring();
        let mut count = 0;
        for slot in &mut self.packets[before..self.max.max(before)] {
            let Some((padded, len)) = next() else { break };
            assert!(len <= padded.len() && len <= frame_max, "frame of {len} bytes");
            let data = ring.take();
            // SAFETY: as in `push_padded`; `ring` borrows the pool mutably.
            unsafe { copy_padded(padded, len, data) };
            *slot = Packet { data, len: len as u32, ingress_port, ..Packet::default() };
            count += 1;
        }
        ring.finish();
        self.len = before + count;
        count
    }

    /// Makes `fill` write a frame directly into a fresh buffer of [`Pool::frame_max`] bytes. `fill` returns the number of
    /// bytes it wrote, or 0 for no frame, in which case nothing happens. Returns the result of `fill`.
    ///
    /// The buffer contains remains of an earlier frame.
    ///
    /// # Errors
    ///
    /// [`PushError::Full`], before `fill` is called; [`PushError::Oversize`] if it claims more bytes than it could write.
    #[inline]
    pub fn push_with(
        &mut self,
        pool: &mut Pool,
        ingress_port: u32,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, PushError> {
        let Some(slot) = self.packets[..self.max].get_mut(self.len) else {
            return Err(PushError::Full);
        };
        let len = fill(pool.peek_slice());
        if len > pool.frame_max() {
            return Err(PushError::Oversize);
        }
        if len > 0 {
            *slot = Packet { data: pool.take(), len: len as u32, ingress_port, ..Packet::default() };
            self.len += 1;
        }
        Ok(len)
    }
}

/// Copies the first `len` bytes of `padded` to `data`, by whole lines if `padded` is long enough.
///
/// # Safety
///
/// `len` is at most `padded.len()`, and `data` has room for `len` bytes and a cache line more. They do not overlap.
#[inline(always)]
unsafe fn copy_padded(padded: &[u8], len: usize, data: *mut u8) {
    // SAFETY: a copy rounded up to whole lines writes less than a line beyond `len`; each branch reads only what it
    // has compared with the length of `padded`.
    unsafe {
        if len <= CACHE_LINE && padded.len() >= CACHE_LINE {
            ptr::copy_nonoverlapping(padded.as_ptr(), data, CACHE_LINE);
        } else {
            copy_long(padded, len, data);
        }
    }
}

/// The part of [`copy_padded`] for more than a line. It is a separate function because otherwise the compiler merges all
/// copies into one call of `memcpy`, which takes longer than copying a line.
///
/// # Safety
///
/// As for [`copy_padded`].
#[inline(never)]
unsafe fn copy_long(padded: &[u8], len: usize, data: *mut u8) {
    let from = padded.as_ptr();
    let lines = len.next_multiple_of(CACHE_LINE);
    let bytes = if len <= PADDED_COPY_MAX && padded.len() >= lines { lines } else { len };
    // SAFETY: as in `copy_padded`.
    unsafe { ptr::copy_nonoverlapping(from, data, bytes) };
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PORT_DROP;

    #[test]
    fn frames_of_every_length_arrive_whole() {
        let mut pool = Pool::new(64, 300, 14).unwrap();
        let mut batch = Batch::new();
        let source: Vec<u8> = (0..400u32).map(|i| (i * 7) as u8).collect();
        for len in 0..=300usize {
            // Exact, padded to lines, and one byte short of that.
            for readable in [len, len.next_multiple_of(64), len + 1] {
                batch.clear();
                batch.push_padded(&mut pool, 2, &source[..readable], len).unwrap();
                let packet = batch.packets()[0];
                assert_eq!(pool.frame(&packet), &source[..len]);
                assert_eq!((packet.ingress_port, packet.egress_port), (2, PORT_DROP));
            }
        }
    }

    #[test]
    fn a_full_batch_and_a_long_frame_are_refused() {
        let mut pool = Pool::new(64, 100, 0).unwrap();
        let mut batch = Batch::new();
        assert_eq!(batch.push(&mut pool, 0, &[0; 101]), Err(PushError::Oversize));
        assert_eq!(batch.push_with(&mut pool, 0, |_| 101), Err(PushError::Oversize));
        for i in 0..BATCH_MAX {
            assert_eq!(batch.room(), BATCH_MAX - i);
            batch.push(&mut pool, 0, &[i as u8]).unwrap();
        }
        assert!(batch.is_full());
        assert_eq!(batch.push(&mut pool, 0, &[0]), Err(PushError::Full));
        assert_eq!(batch.push_all_padded(&mut pool, 0, || unreachable!()), 0);
        assert_eq!(batch.push_with(&mut pool, 0, |_| unreachable!()), Err(PushError::Full));
        for (i, packet) in batch.packets().iter().enumerate() {
            assert_eq!(pool.frame(packet), &[i as u8]);
        }
    }

    #[test]
    fn a_shorter_batch_is_full_earlier() {
        let mut pool = Pool::new(64, 100, 0).unwrap();
        let mut batch = Batch::new();
        batch.set_max(2);
        assert_eq!(batch.push_all_padded(&mut pool, 0, || Some((&[7], 1))), 2);
        assert!(batch.is_full() && batch.room() == 0);
        assert_eq!(batch.push(&mut pool, 0, &[0]), Err(PushError::Full));
        assert_eq!(batch.push_with(&mut pool, 0, |_| unreachable!()), Err(PushError::Full));
        batch.set_max(1);
        assert!(batch.is_full() && batch.room() == 0);
        assert_eq!(batch.push_all_padded(&mut pool, 0, || unreachable!()), 0);
        batch.set_max(BATCH_MAX);
        assert_eq!(batch.room(), BATCH_MAX - 2);
    }

    #[test]
    fn push_with_writes_in_place_and_0_is_no_frame() {
        let mut pool = Pool::new(64, 100, 0).unwrap();
        let mut batch = Batch::new();
        assert_eq!(batch.push_with(&mut pool, 1, |buffer| buffer.len() - 100), Ok(0));
        assert!(batch.is_empty());
        let written = batch.push_with(&mut pool, 1, |buffer| {
            buffer[..3].copy_from_slice(b"abc");
            3
        });
        assert_eq!(written, Ok(3));
        assert_eq!(pool.frame(&batch.packets()[0]), b"abc");
    }
}
