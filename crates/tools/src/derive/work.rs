//! The work of a search, which is bounded: a program may have any number of paths.

use p4jet_ir::Expr;
use std::cell::Cell;
use std::rc::Rc;

/// Maximum number of steps of a search. A step evaluates or creates about one operator or value, follows one node, or copies
/// [`STEP_BYTES`] of a path.
pub const STEPS_MAX: u64 = 80_000_000;
/// See [`STEPS_MAX`].
const STEP_BYTES: usize = 64;
/// Maximum number of bytes of all paths that a search holds, about.
pub const PATHS_BYTES_MAX: usize = 1 << 30;

/// The steps that a search has taken and the bytes that its paths hold, with their limits.
pub(super) struct Work {
    steps: Cell<u64>,
    bytes: Cell<usize>,
    quarters: Cell<u64>,
}

impl Work {
    pub fn new() -> Work {
        Work { steps: Cell::new(0), bytes: Cell::new(0), quarters: Cell::new(4) }
    }

    /// Sets both limits to a part of the maximum.
    pub fn allow_quarters(&self, quarters: u64) {
        self.quarters.set(quarters);
    }

    pub fn spend(&self, steps: usize) {
        self.steps.set(self.steps.get().saturating_add(steps as u64));
    }

    /// True if no steps or bytes are left: whatever is in progress ends without a result.
    pub fn is_spent(&self) -> bool {
        let quarters = self.quarters.get();
        self.steps.get() >= STEPS_MAX / 4 * quarters
            || self.bytes.get() >= PATHS_BYTES_MAX / 4 * quarters as usize
    }

    #[cfg(test)]
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }
}

/// The bytes that a path holds until it is dropped. A copy holds as many.
pub(super) struct Held {
    work: Rc<Work>,
    bytes: usize,
}

impl Held {
    pub fn new(work: &Rc<Work>) -> Held {
        Held { work: Rc::clone(work), bytes: 0 }
    }

    /// Updates the number of bytes.
    pub fn set(&mut self, bytes: usize) {
        let all = &self.work.bytes;
        all.set(all.get() - self.bytes + bytes);
        self.bytes = bytes;
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        self.work.spend(self.bytes / STEP_BYTES);
        let mut copy = Held::new(&self.work);
        copy.set(self.bytes);
        copy
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Returns the number of operators and values of an expression; if that exceeds `max`, any larger number.
pub(super) fn size(expr: &Expr, max: usize) -> usize {
    let mut found = 0;
    let mut open = vec![expr];
    while let Some(expr) = open.pop()
        && found <= max
    {
        found += 1;
        match expr {
            Expr::Const { .. } | Expr::Field(_) => {}
            Expr::Unary(_, a)
            | Expr::Element { index: a, .. }
            | Expr::Slice { value: a, .. }
            | Expr::ZeroExtend(a, _)
            | Expr::SignExtend(a, _) => open.push(a),
            Expr::Binary(_, a, b) | Expr::Concat(a, b) => open.extend([&**a, b]),
            Expr::Select(c, a, b) => open.extend([&**c, a, b]),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of dropped paths are free again; a search ends when its paths hold too many.
    #[test]
    fn paths_hold_bytes_until_they_are_dropped() {
        let work = Rc::new(Work::new());
        let mut path = Held::new(&work);
        path.set(PATHS_BYTES_MAX / 4);
        let copies = vec![path.clone(), path.clone()];
        assert!(!work.is_spent());
        let last = path.clone();
        assert!(work.is_spent(), "four quarters");
        drop(last);
        assert!(!work.is_spent());
        work.allow_quarters(3);
        assert!(work.is_spent());
        drop((copies, path));
        assert!(!work.is_spent());
        assert_eq!(work.bytes.get(), 0);
        assert_eq!(work.steps(), 3 * (PATHS_BYTES_MAX / 4 / STEP_BYTES) as u64, "copies take steps");
    }
}
