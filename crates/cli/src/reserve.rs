//! Memory for small allocations when the system refuses any. A failure of a large allocation, such as that of a table, is
//! reported, and one command fails; a failure of a small allocation aborts the process. Meanwhile the reserve serves small
//! allocations, such as those for the text of that error.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::{copy_nonoverlapping, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of the reserve in bytes. It belongs to the address space from the start, but no page is used before it is needed.
const RESERVE_BYTES: usize = 16 << 20;
/// Maximum size of an allocation that the reserve serves, so that it lasts for many.
const SMALL_BYTES_MAX: usize = 256 << 10;

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve { reserve: Reserve::new() };

struct WithReserve {
    reserve: Reserve,
}

// SAFETY: `System` is an allocator, `Reserve` gives each of its bytes to one allocation at a time, and every block returns to
// the one from which it came.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let block = unsafe { System.alloc(layout) };
        if block.is_null() { self.reserve.alloc(layout) } else { block }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            return block;
        }
        let block = self.reserve.alloc(layout);
        if !block.is_null() {
            // SAFETY: the block has this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.reserve.has(block) {
            self.reserve.dealloc();
        } else {
            // SAFETY: the block came from `System`.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.reserve.has(block) {
            // SAFETY: the block came from `System`.
            let moved = unsafe { System.realloc(block, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller promises that the size is valid with this alignment; the old block and the new one do not overlap
        // and have room for the bytes copied.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Hands out its bytes in sequence, and again from the start once every block has returned.
struct Reserve {
    bytes: UnsafeCell<[u8; RESERVE_BYTES]>,
    /// Number of blocks in use in the upper half; number of bytes handed out in the lower half.
    given: AtomicU64,
}

const BLOCK: u64 = 1 << 32;

// SAFETY: `given` assigns each byte to one block; the reserve itself reads and writes none.
unsafe impl Sync for Reserve {}

impl Reserve {
    const fn new() -> Reserve {
        Reserve { bytes: UnsafeCell::new([0; RESERVE_BYTES]), given: AtomicU64::new(0) }
    }

    fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.bytes.get() as usize;
        let mut first = 0;
        let take = |given: u64| {
            let used = (given % BLOCK) as usize;
            first = (start + used).next_multiple_of(layout.align()) - start;
            let end = first + layout.size();
            (layout.size() <= SMALL_BYTES_MAX && end <= RESERVE_BYTES)
                .then(|| (given / BLOCK + 1) * BLOCK + end as u64)
        };
        match self.given.fetch_update(Ordering::Acquire, Ordering::Relaxed, take) {
            // SAFETY: `first` is within the reserve.
            Ok(_) => unsafe { self.bytes.get().cast::<u8>().add(first) },
            Err(_) => null_mut(),
        }
    }

    fn has(&self, block: *mut u8) -> bool {
        (block as usize).wrapping_sub(self.bytes.get() as usize) < RESERVE_BYTES
    }

    fn dealloc(&self) {
        let give_back = |given: u64| Some(if given / BLOCK == 1 { 0 } else { given - BLOCK });
        let _ = self.given.fetch_update(Ordering::Release, Ordering::Relaxed, give_back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_all_bytes_return() {
        static RESERVE: Reserve = Reserve::new();
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        for _ in 0..3 {
            let mut end = 0;
            let mut count = 0;
            loop {
                let layout = layout(1 + count * 37 % 5000, 1 << (count % 7));
                let block = RESERVE.alloc(layout);
                if block.is_null() {
                    break;
                }
                assert!(
                    RESERVE.has(block)
                        && (block as usize).is_multiple_of(layout.align())
                        && block as usize >= end
                );
                end = block as usize + layout.size();
                count += 1;
            }
            assert!(count > 1000);
            (0..count).for_each(|_| RESERVE.dealloc());
        }
        assert!(RESERVE.alloc(layout(SMALL_BYTES_MAX + 1, 1)).is_null());
        let (one, two) = (RESERVE.alloc(layout(8, 8)), RESERVE.alloc(layout(8, 8)));
        assert_eq!(one as usize + 8, two as usize);
    }

    #[test]
    fn a_block_of_the_reserve_grows_and_shrinks() {
        static ALLOCATOR: WithReserve = WithReserve { reserve: Reserve::new() };
        let layout = Layout::from_size_align(3, 1).unwrap();
        let block = ALLOCATOR.reserve.alloc(layout);
        // SAFETY: the blocks have these sizes.
        unsafe {
            block.copy_from_nonoverlapping([1, 2, 3].as_ptr(), 3);
            let grown = ALLOCATOR.realloc(block, layout, 100);
            assert!(!ALLOCATOR.reserve.has(grown));
            assert_eq!(std::slice::from_raw_parts(grown, 3), [1, 2, 3]);
            ALLOCATOR.dealloc(grown, Layout::from_size_align(100, 1).unwrap());
        }
        assert_eq!(ALLOCATOR.reserve.given.load(Ordering::Relaxed), 0);
    }
}
