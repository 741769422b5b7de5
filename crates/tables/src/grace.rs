//! Returns memory to the writer after every reader has passed a quiet point.
//!
//! Epochs may run deferred functions on a packet worker. So these functions free nothing: they only push the memory onto a
//! list, without waiting, and the writer frees or reuses it at its next change.
#![allow(unsafe_code)]

use crate::TableError;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// Maximum wait of a change for readers. A reader holds its guard for one batch of packets: microseconds.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Pause between two checks of readers that have not finished after dozens of checks.
const PAUSE: Duration = Duration::from_micros(50);

struct Node<T> {
    value: T,
    next: *mut Node<T>,
}

/// Memory that readers return to the writer.
pub(crate) struct Returns<T>(Arc<List<T>>);

/// The returned values, the last first.
struct List<T>(AtomicPtr<Node<T>>);

struct Pending<T>(*mut Node<T>);

// SAFETY: the holder of the pointer owns the node, and its value may change threads.
unsafe impl<T: Send> Send for Pending<T> {}

impl<T: Send + 'static> Returns<T> {
    pub fn new() -> Returns<T> {
        Returns(Arc::new(List(AtomicPtr::new(ptr::null_mut()))))
    }

    /// Returns `value` to the writer when all readers that are pinned now have finished.
    pub fn retire(&self, value: T) {
        let head = Arc::clone(&self.0);
        let node = Pending(Box::into_raw(Box::new(Node { value, next: ptr::null_mut() })));
        let guard = crossbeam_epoch::pin();
        guard.defer(move || {
            // Captures the whole wrapper: its field alone is not `Send`.
            let Pending(node) = { node };
            let mut first = head.0.load(Ordering::Relaxed);
            loop {
                // SAFETY: the node is not on the list yet, so it is ours.
                unsafe { (*node).next = first };
                match head.0.compare_exchange_weak(first, node, Ordering::Release, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(now) => first = now,
                }
            }
        });
        // Makes this thread, rather than one that handles packets, run the deferred function soon.
        guard.flush();
    }

    /// Takes everything that has been returned.
    pub fn take(&self) -> Vec<T> {
        let mut values = Vec::new();
        if self.0.0.load(Ordering::Relaxed).is_null() {
            return values;
        }
        let mut node = self.0.0.swap(ptr::null_mut(), Ordering::Acquire);
        while !node.is_null() {
            // SAFETY: nodes were made by `Box::into_raw`; the swap made the whole list ours.
            let Node { value, next } = *unsafe { Box::from_raw(node) };
            values.push(value);
            node = next;
        }
        values
    }
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        let mut node = *self.0.get_mut();
        while !node.is_null() {
            // SAFETY: nodes come from `Box::into_raw`, and nothing else refers to the list.
            node = unsafe { Box::from_raw(node) }.next;
        }
    }
}

/// Calls `ready` until it returns something, and advances the epoch in between.
pub(crate) fn wait<T>(mut ready: impl FnMut() -> Option<T>) -> Result<T, TableError> {
    let mut deadline = None;
    for round in 0u32.. {
        if let Some(value) = ready() {
            return Ok(value);
        }
        crossbeam_epoch::pin().flush();
        if round > 8 {
            // On a busy machine, readers need the processor to finish.
            match round {
                ..64 => std::thread::yield_now(),
                _ => std::thread::sleep(PAUSE),
            }
            let end = *deadline.get_or_insert_with(|| Instant::now() + WAIT_MAX);
            if Instant::now() > end {
                return Err(TableError::Busy);
            }
        }
    }
    unreachable!("it returns before 2^32 rounds are over")
}

/// Frees the memory of dropped tables, as far as no reader is active in them: waits until the active readers have passed, but no
/// longer than [`WAIT_MAX`].
pub fn reclaim() {
    // A reader that is stuck keeps its memory.
    let _ = readers_pass();
    crate::memory::Unmapping::wait();
}

/// Waits until every reader that is active now has passed a quiet point.
pub(crate) fn readers_pass() -> Result<(), TableError> {
    let gone = Returns::new();
    gone.retire(());
    wait(|| gone.take().pop())
}

/// Numbers that are handed out, and handed out again once no reader can know them.
pub(crate) struct Pool {
    next: u32,
    end: u32,
    free: Vec<u32>,
    retired: Vec<u32>,
    returns: Returns<Vec<u32>>,
}

/// Number of numbers that are retired together.
pub(crate) const RETIRED_TOGETHER: usize = 64;

impl Pool {
    /// Numbers from `first` to `end - 1`.
    pub fn new(first: u32, end: u32) -> Pool {
        Pool { next: first, end, free: Vec::new(), retired: Vec::new(), returns: Returns::new() }
    }

    pub fn take(&mut self) -> Result<u32, TableError> {
        if self.free.is_empty() {
            self.free = self.returns.take().concat();
        }
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        if self.next < self.end {
            self.next += 1;
            return Ok(self.next - 1);
        }
        self.send();
        let returns = &self.returns;
        self.free = wait(|| Some(returns.take().concat()).filter(|numbers| !numbers.is_empty()))?;
        Ok(self.free.pop().expect("some came back"))
    }

    /// Frees a number that readers may know.
    pub fn retire(&mut self, number: u32) {
        self.retired.push(number);
        if self.retired.len() >= RETIRED_TOGETHER {
            self.send();
        }
    }

    fn send(&mut self) {
        if !self.retired.is_empty() {
            self.returns.retire(std::mem::take(&mut self.retired));
        }
    }
}
