//! Memory that shares no cache line with any other, so that one core's writes do not slow down another's accesses.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Bytes of two cache lines: processors fetch them in pairs.
const LINES: usize = 128;

/// Types for which zero bytes are a valid value, and which need no drop.
///
/// # Safety
/// The type has these properties and is aligned to at most 128 bytes.
pub unsafe trait Zeroed {}
// SAFETY: numbers.
unsafe impl Zeroed for u8 {}
// SAFETY: numbers.
unsafe impl Zeroed for u32 {}
// SAFETY: numbers.
unsafe impl Zeroed for u64 {}
// SAFETY: a number.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: a null pointer.
unsafe impl<T> Zeroed for *const T {}
// SAFETY: an array of such values.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] {}

/// A slice on cache lines of its own.
pub struct Apart<T: Zeroed> {
    /// The allocated memory, which contains the slice.
    memory: NonNull<u8>,
    start: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its values, as a box does.
unsafe impl<T: Zeroed + Send> Send for Apart<T> {}
// SAFETY: as above.
unsafe impl<T: Zeroed + Sync> Sync for Apart<T> {}

impl<T: Zeroed> Apart<T> {
    /// Returns the layout for `len` values; `None` if it is too large. Allocators clear memory with a larger alignment by
    /// writing it; this much memory without it comes cleared from the system.
    fn layout(len: usize) -> Option<Layout> {
        let lines = size_of::<T>().checked_mul(len)?.checked_next_multiple_of(LINES)?;
        Layout::from_size_align(lines.checked_add(LINES)?, align_of::<u64>()).ok()
    }

    /// Allocates this many zeroed values, which take no memory until they are written; `None` if the system refuses.
    pub fn try_zeroed(len: usize) -> Option<Apart<T>> {
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(Self::layout(len)?) })?;
        // SAFETY: the offset is less than `LINES`, the excess of the allocation over the values.
        let start = unsafe { memory.add(memory.align_offset(LINES)) };
        Some(Apart { memory, start: start.cast(), len })
    }

    /// Like [`Self::try_zeroed`], for memory that is indispensable.
    pub fn zeroed(len: usize) -> Apart<T> {
        Self::try_zeroed(len)
            .unwrap_or_else(|| handle_alloc_error(Self::layout(len).unwrap_or(Layout::new::<T>())))
    }
}

impl<T: Zeroed> Deref for Apart<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: this many values are there, zeroed when they were allocated, aligned to `LINES`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroed> DerefMut for Apart<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroed> Drop for Apart<T> {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.memory.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_shared() {
        let mut all: Vec<Apart<u64>> = (0..100).map(|i| Apart::zeroed(i % 40)).collect();
        let mut lines = std::collections::HashMap::new();
        for (i, apart) in all.iter_mut().enumerate() {
            assert!(apart.iter().all(|word| *word == 0));
            apart.fill(i as u64);
            for word in apart.iter() {
                let line = std::ptr::from_ref(word).addr() / LINES;
                assert_eq!(*lines.entry(line).or_insert(i), i);
            }
        }
        assert!(all.iter().zip(0u64..).all(|(apart, i)| apart.iter().all(|word| *word == i)));
        assert!(Apart::<u64>::try_zeroed(usize::MAX).is_none());
    }
}
