//! Stores of exact entries that move to a larger store while in use: every insertion moves a few entries, and every
//! change is made in both stores until the larger one is complete and readers switch to it. So no single change takes
//! long.

use crate::memory::{NoMemory, Region, commit_aside};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Minimum number of places that a change moves.
const STEP: usize = 256;

/// Keys with rows, by slot of the entry.
pub(crate) trait Store: Sized {
    /// Returns the place of the entry in a slot, if there is one.
    fn place(&self, slot: u32) -> Option<usize>;

    /// Returns the end of the range of places.
    fn end(&self) -> usize;

    /// Adds an entry whose key is new, in a free slot, and returns its place; `None` if there is no room.
    fn add(&mut self, key: &[u64], row: u32, slot: u32) -> Option<usize>;

    /// Sets an entry's row. False if the row does not fit.
    fn set_row(&mut self, slot: u32, row: u32) -> bool;

    /// Removes the entry in a slot.
    fn remove(&mut self, slot: u32);

    /// Returns how many changes that need room it can still take if the next one has this row; 0 if it should take
    /// none.
    fn room(&self, row: u32, slot: u32) -> usize;

    /// True if the entries should move to a larger store.
    fn nearly_full(&self, row: u32) -> bool;

    /// Returns an empty store with more room, and room for this row. `attempt` counts the earlier stores that were too
    /// small.
    fn larger(&self, row: u32, slot: u32, attempt: u32) -> Self;

    /// Copies the entries in these places. False if they do not fit.
    fn copy_to(&self, to: &mut Self, places: Range<usize>) -> bool;

    /// The memory of a large store, and how many bytes of it will be used soon.
    fn memory(&self) -> Vec<(Arc<Region>, usize)>;
}

pub(crate) struct Growing<S> {
    /// The store that readers use.
    pub now: S,
    later: Option<Box<Move<S>>>,
    /// Number of consecutive moves that failed.
    failed: u32,
}

struct Move<S> {
    to: S,
    /// The thread that commits its memory.
    commit: Option<JoinHandle<()>>,
    /// All places before this one have been moved.
    done: usize,
}

impl<S: Store> Growing<S> {
    pub fn new(store: S) -> Growing<S> {
        Growing { now: store, later: None, failed: 0 }
    }

    /// Adds an entry whose key is new, in a free slot. True if readers need a new view.
    pub fn insert(&mut self, key: &[u64], row: u32, slot: u32) -> bool {
        let mut stale = self.prepare(row, slot);
        let place = loop {
            match self.now.add(key, row, slot) {
                Some(place) => break place,
                None => self.move_now(row, slot),
            }
            stale = true;
        };
        let failed = match &mut self.later {
            Some(moving) if place < moving.done => moving.to.add(key, row, slot).is_none(),
            _ => false,
        };
        if failed {
            self.give_up();
        }
        stale
    }

    /// Sets an entry's row. True if readers need a new view.
    pub fn set_row(&mut self, slot: u32, row: u32) -> bool {
        let mut stale = self.prepare(row, slot);
        while !self.now.set_row(slot, row) {
            self.move_now(row, slot);
            stale = true;
        }
        if let Some(moving) = &mut self.later
            && moving.to.place(slot).is_some()
            && !moving.to.set_row(slot, row)
        {
            self.give_up();
        }
        stale
    }

    pub fn remove(&mut self, slot: u32) {
        self.now.remove(slot);
        if let Some(moving) = &mut self.later
            && moving.to.place(slot).is_some()
        {
            moving.to.remove(slot);
        }
    }

    /// Completes a move that has started. True if readers need a new view.
    pub fn settle(&mut self) -> bool {
        let Some(moving) = &mut self.later else { return false };
        let copied = self.now.copy_to(&mut moving.to, moving.done..self.now.end());
        if copied {
            self.arrive();
        } else {
            self.give_up();
        }
        copied
    }

    /// Returns the store in use and, during a move, the store that will replace it.
    pub fn stores(&self) -> impl Iterator<Item = &S> {
        std::iter::once(&self.now).chain(self.later.as_ref().map(|moving| &moving.to))
    }

    fn give_up(&mut self) {
        self.later = None;
        self.failed += 1;
    }

    /// Continues or starts a move. True if all entries have moved.
    fn prepare(&mut self, row: u32, slot: u32) -> bool {
        if self.later.is_none() && self.now.nearly_full(row) {
            // If there is no memory, the change succeeds as long as the present store has room.
            if let Ok(to) = NoMemory::caught(|| self.now.larger(row, slot, self.failed)) {
                let memory = to.memory();
                let commit = if memory.is_empty() { None } else { commit_aside(memory) };
                self.later = Some(Box::new(Move { to, commit, done: 0 }));
            }
        }
        let Some(moving) = &mut self.later else { return false };
        let (end, room) = (self.now.end(), self.now.room(row, slot));
        if room > 4 * end / STEP && moving.commit.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return false;
        }
        // Half of the room is reserved for another attempt.
        let step = STEP.max(2 * (end - moving.done) / room.max(1));
        let places = moving.done..end.min(moving.done + step);
        moving.done = places.end;
        if !self.now.copy_to(&mut moving.to, places) {
            self.give_up();
            return false;
        }
        if moving.done < end {
            return false;
        }
        self.arrive();
        true
    }

    fn arrive(&mut self) {
        if let Some(moving) = self.later.take() {
            self.now = moving.to;
            self.failed = 0;
        }
    }

    /// Moves all entries now, because there is no room for the next change.
    fn move_now(&mut self, row: u32, slot: u32) {
        loop {
            let to = self.now.larger(row, slot, self.failed);
            let moving = self.later.insert(Box::new(Move { to, commit: None, done: 0 }));
            if self.now.copy_to(&mut moving.to, 0..self.now.end()) {
                return self.arrive();
            }
            self.give_up();
        }
    }
}
