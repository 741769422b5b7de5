//! Memory that readers share with the writer: zeroed, of atomic words, committed by the system as it is written.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// From this size on memory is mapped, so that only touched pages cost anything.
const MAPPED_BYTES_MIN: usize = 64 << 10;
/// A large page of x86-64.
const HUGE: usize = 2 << 20;
const CACHE_LINE: usize = 64;
const PAGE: usize = 4096;

/// A piece of memory, all zero at first.
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
    mapped: bool,
}

// SAFETY: a region is plain memory that is only accessed through atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// # Panics
    /// If the system gives no memory.
    pub fn zeroed(bytes: usize) -> Region {
        let bytes = bytes.max(CACHE_LINE).next_multiple_of(CACHE_LINE);
        if bytes < MAPPED_BYTES_MIN {
            let layout = Self::layout(bytes);
            // SAFETY: the layout is not empty.
            let start = unsafe { alloc_zeroed(layout) };
            let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
            return Region { start, bytes, mapped: false };
        }
        let bytes = bytes.next_multiple_of(PAGE);
        // Room to begin at a large page, so that large pages can be used.
        let slack = if bytes >= HUGE { HUGE } else { 0 };
        // SAFETY: an anonymous mapping anywhere; what is cut off at both ends is unused.
        unsafe {
            let map = libc::mmap(
                std::ptr::null_mut(),
                bytes + slack,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            if map == libc::MAP_FAILED {
                let error = std::io::Error::last_os_error();
                panic!(
                    "the system refuses {bytes} bytes of address space for a table ({error}); see ulimit -v"
                );
            }
            let head = if slack > 0 { (map as usize).next_multiple_of(HUGE) - map as usize } else { 0 };
            let start = map.cast::<u8>().add(head);
            if head > 0 {
                libc::munmap(map, head);
            }
            if slack > head {
                libc::munmap(start.add(bytes).cast(), slack - head);
            }
            let start = NonNull::new(start).expect("mmap never maps address 0 by itself");
            Region { start, bytes, mapped: true }
        }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, CACHE_LINE).expect("a small size")
    }

    /// Asks for large pages: for memory that will be filled all over.
    pub fn advise_huge(&self) {
        if self.mapped && self.bytes >= HUGE {
            // SAFETY: advice about a mapping of ours; it does not change contents. Failure costs speed only.
            unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_HUGEPAGE) };
        }
    }

    /// Which large page a byte is in.
    pub fn huge_page_of(byte: usize) -> usize {
        byte / HUGE
    }

    /// Asks for a large page now in the place of small ones, whose contents it takes over, while readers go on.
    pub fn collapse(&self, page: usize) {
        /// `MADV_COLLAPSE` of Linux 6.1.
        const COLLAPSE: i32 = 25;
        debug_assert!(self.mapped && (page + 1) * HUGE <= self.bytes);
        // SAFETY: advice about a part of a mapping of ours; it does not change contents. Failure costs speed only.
        unsafe { libc::madvise(self.start.as_ptr().add(page * HUGE).cast(), HUGE, COLLAPSE) };
    }

    pub fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }

    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: aligned to a cache line, zero is valid, and everything accesses it atomically, as words of one size.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    pub fn halves(&self) -> &[AtomicU32] {
        // SAFETY: as in `words`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 4) }
    }

    /// As pointers, all null at first.
    pub fn pointers<T>(&self) -> &[AtomicPtr<T>] {
        // SAFETY: as in `words`; a region is used in one of these ways only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<*mut T>()) }
    }

    /// Memory in use: what the system has committed.
    pub fn committed_bytes(&self) -> usize {
        if !self.mapped {
            return self.bytes;
        }
        let mut pages = vec![0u8; self.bytes.div_ceil(PAGE)];
        // SAFETY: the mapping is ours and there is a byte for each of its pages.
        let rc = unsafe { libc::mincore(self.start.as_ptr().cast(), self.bytes, pages.as_mut_ptr()) };
        if rc != 0 { self.bytes } else { pages.iter().filter(|page| **page & 1 == 1).count() * PAGE }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated exactly so, and nobody has a reference any more.
        unsafe {
            if self.mapped {
                libc::munmap(self.start.as_ptr().cast(), self.bytes);
            } else {
                dealloc(self.start.as_ptr(), Self::layout(self.bytes));
            }
        }
    }
}
