//! A gate, which holds workers up until others have passed it.

use crate::bell::Bell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// A gate that is closed until every worker has passed it.
pub(crate) struct Gate {
    left: AtomicUsize,
    /// The bells of those that wait.
    wakes: Vec<Arc<Bell>>,
}

impl Gate {
    /// Creates a gate that opens after `passes` passes and then wakes the workers of these bells.
    pub fn new(passes: usize, wakes: Vec<Arc<Bell>>) -> Arc<Gate> {
        Arc::new(Gate { left: AtomicUsize::new(passes), wakes })
    }

    /// Records that a worker passes. The last one opens the gate and wakes those that wait.
    pub fn pass(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // A worker announces its sleep before it checks the gate.
            fence(Ordering::SeqCst);
            self.wakes.iter().for_each(|bell| bell.wake());
        }
    }

    /// True if all workers have passed.
    pub fn is_open(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}
