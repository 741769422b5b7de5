//! Memory that readers share with the writer: zeroed, of atomic words, committed by the system as it is written.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Memory of at least this size is mapped, so that only touched pages take memory.
const MAPPED_BYTES_MIN: usize = 64 << 10;
/// A large page of x86-64.
const HUGE: usize = 2 << 20;
const CACHE_LINE: usize = 64;
const PAGE: usize = 4096;

/// Starts a thread that touches the first bytes of regions, so that the system commits them: a large page may take
/// milliseconds, and changes must not wait for it. Complete when the thread has finished, or if it returns none.
pub(crate) fn commit_aside(regions: Vec<(Arc<Region>, usize)>) -> Option<JoinHandle<()>> {
    p4jet_threads::spawn("commit", move || {
        regions.into_iter().for_each(|(region, bytes)| region.commit(0..bytes))
    })
    .ok()
}

/// Commits memory, in threads, ahead of the point up to which a region is filled.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The large page that contains the first byte to be filled.
    first: usize,
    /// Large pages up to this one are committed or being committed.
    pages: usize,
}

impl Ahead {
    /// Creates the state for a region that is filled from this byte on.
    pub fn behind(byte: usize) -> Ahead {
        Ahead { first: byte / HUGE, pages: byte / HUGE }
    }

    /// Notes that bytes up to this one are in use.
    pub fn reach(&mut self, region: &Arc<Region>, byte: usize) {
        if byte / HUGE + 1 < self.pages || self.pages * HUGE >= region.bytes {
            return;
        }
        let first = self.pages.max(byte / HUGE + 1);
        self.pages = first + 1 + (first - self.first) / 4;
        let (region, bytes) = (Arc::clone(region), first * HUGE..self.pages * HUGE);
        // Without a thread the memory is committed when it is used.
        drop(p4jet_threads::spawn("commit", move || region.commit(bytes)));
    }
}

/// Prefetches memory that will be read soon.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, so any address is allowed.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Unwinds a table operation when the system refuses memory. This is not reported as a panic: a change fails with
/// [`TableError::NoMemory`](crate::TableError::NoMemory), and the creation of a table unwinds with this value.
#[derive(Debug)]
pub struct NoMemory(pub String);

impl NoMemory {
    /// Unwinds the change that needs this many bytes.
    pub fn raise(bytes: usize, error: &std::io::Error) -> ! {
        let why =
            format!("the system refuses {bytes} bytes of address space for a table ({error}); see ulimit -v");
        resume_unwind(Box::new(NoMemory(why)))
    }

    /// Runs `act`, which may unwind with this. Other panics continue.
    pub(crate) fn caught<T>(act: impl FnOnce() -> T) -> Result<T, NoMemory> {
        catch_unwind(AssertUnwindSafe(act)).map_err(|panic| match panic.downcast::<NoMemory>() {
            Ok(no_memory) => *no_memory,
            Err(panic) => resume_unwind(panic),
        })
    }
}

/// Number of dropped regions whose memory still belongs to the process.
static UNMAPPING: AtomicUsize = AtomicUsize::new(0);
/// About the maximum number of threads that unmap regions. More regions are unmapped where they are dropped.
const UNMAPPING_MAX: usize = 4;
/// Maximum time to wait for their memory.
const UNMAPPING_WAIT_MAX: Duration = Duration::from_secs(2);

/// A region that is being unmapped.
pub(crate) struct Unmapping;

impl Unmapping {
    fn begin() -> Unmapping {
        UNMAPPING.fetch_add(1, Ordering::AcqRel);
        Unmapping
    }

    /// Waits until dropped regions are unmapped. Returns false if there were none.
    pub fn wait() -> bool {
        let end = Instant::now() + UNMAPPING_WAIT_MAX;
        let is_pending = || UNMAPPING.load(Ordering::Acquire) != 0;
        let waits = is_pending();
        while is_pending() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        waits
    }
}

impl Drop for Unmapping {
    fn drop(&mut self) {
        UNMAPPING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A piece of memory, initially zero.
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
    /// Unwinds with [`NoMemory`] if the system refuses memory.
    pub fn zeroed(bytes: usize) -> Region {
        let bytes = bytes.max(CACHE_LINE).next_multiple_of(CACHE_LINE);
        if bytes < MAPPED_BYTES_MIN {
            let layout = Self::layout(bytes);
            // SAFETY: the layout is not empty.
            let start = unsafe { alloc_zeroed(layout) };
            let Some(start) = NonNull::new(start) else {
                NoMemory::raise(bytes, &std::io::Error::from(std::io::ErrorKind::OutOfMemory))
            };
            return Region { start, bytes, mapped: false };
        }
        let bytes = bytes.next_multiple_of(PAGE);
        // Room to start at the boundary of a large page, so that large pages can be used.
        let slack = if bytes >= HUGE { HUGE } else { 0 };
        // SAFETY: an anonymous mapping anywhere; the parts cut off at both ends are unused.
        unsafe {
            let map = || {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes + slack,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            let mut mapped = map();
            if mapped == libc::MAP_FAILED && Unmapping::wait() {
                mapped = map();
            }
            if mapped == libc::MAP_FAILED {
                NoMemory::raise(bytes, &std::io::Error::last_os_error());
            }
            let map = mapped;
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

    /// Asks for large pages, for memory that will be filled completely.
    pub fn advise_huge(&self) {
        self.advise_huge_within(0..self.bytes);
    }

    /// Like [`Self::advise_huge`], for these bytes and the rest of their first large page.
    pub fn advise_huge_within(&self, bytes: Range<usize>) {
        let start = bytes.start / HUGE * HUGE;
        let bytes = bytes.end.min(self.bytes).next_multiple_of(PAGE).saturating_sub(start);
        if self.mapped && bytes >= HUGE {
            // SAFETY: advice about a mapping of ours; it does not change contents. Failure costs speed only.
            unsafe { libc::madvise(self.start.as_ptr().add(start).cast(), bytes, libc::MADV_HUGEPAGE) };
        }
    }

    /// Commits these bytes now without changing their contents.
    fn commit(&self, bytes: Range<usize>) {
        // Not by `madvise`, which would keep other threads from mapping memory meanwhile.
        for at in bytes.step_by(PAGE).take_while(|at| *at < self.bytes) {
            let _ = self.words()[at / 8].compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
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

    pub fn bytes(&self) -> &[AtomicU8] {
        // SAFETY: as in `words`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes) }
    }

    /// The region as pointers, initially null.
    pub fn pointers<T>(&self) -> &[AtomicPtr<T>] {
        // SAFETY: as in `words`; each region is used as only one of these types.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<*mut T>()) }
    }

    /// Memory in use: the part that the system has committed.
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
        if !self.mapped {
            // SAFETY: allocated with this layout, and there are no references left.
            return unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) };
        }
        let (start, bytes) = (self.start.as_ptr() as usize, self.bytes);
        let unmap = move || {
            // In pieces, so that other threads that change mappings do not wait long.
            for at in (0..bytes).step_by(HUGE) {
                // SAFETY: mapped with this length, and there are no references left.
                unsafe { libc::munmap((start + at) as *mut libc::c_void, HUGE.min(bytes - at)) };
            }
        };
        if bytes < 2 * HUGE || UNMAPPING.load(Ordering::Relaxed) >= UNMAPPING_MAX {
            return unmap();
        }
        // Unmapping much memory takes a while, and changes must not wait for it.
        let unmapping = Unmapping::begin();
        let aside = move || {
            let _unmapping = unmapping;
            unmap();
        };
        if p4jet_threads::spawn("unmap", aside).is_err() {
            unmap();
        }
    }
}
