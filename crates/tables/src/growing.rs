//! Stores of exact entries that move to a larger store while in use: every insertion moves a few entries, and every
//! change is made in both stores, until the larger one is complete and readers switch to it. So no change takes long.

use crate::memory::{NoMemory, Region, commit_aside};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Places that a change moves, at least.
const STEP: usize = 256;

/// Keys with rows, by slot of the entry.
pub(crate) trait Store: Sized {
    /// Where the entry in a slot is, if there is one.
    fn place(&self, slot: u32) -> Option<usize>;

    /// Behind the last place.
    fn end(&self) -> usize;

    /// Adds an entry whose key is new, in a free slot: where. None if there is no room.
    fn add(&mut self, key: &[u64], row: u32, slot: u32) -> Option<usize>;

    /// Gives an entry another row. False if the row does not fit.
    fn set_row(&mut self, slot: u32, row: u32) -> bool;

    /// Takes the entry in a slot away.
    fn remove(&mut self, slot: u32);

    /// How many changes it can take that need room, the next with this row, or 0 if it should not have any.
    fn room(&self, row: u32, slot: u32) -> usize;

    /// Whether it is time to move.
    fn nearly_full(&self, row: u32) -> bool;

    /// An empty store with more room, also for this row. The number counts the earlier stores that were too small.
    fn larger(&self, row: u32, slot: u32, attempt: u32) -> Self;

    /// Copies the entries in these places. False if there is no room.
    fn copy_to(&self, to: &mut Self, places: Range<usize>) -> bool;

    /// If it is large, its memory, and how many bytes of that will be used soon.
    fn memory(&self) -> Vec<(Arc<Region>, usize)>;
}

pub(crate) struct Growing<S> {
    /// What readers use.
    pub now: S,
    later: Option<Box<Move<S>>>,
    /// Moves in turn that came to nothing.
    failed: u32,
}

struct Move<S> {
    to: S,
    /// Whether its memory is there.
    commit: Option<JoinHandle<()>>,
    /// Places before this have been moved.
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

    /// Gives an entry another row. True if readers need a new view.
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

    /// Completes the move that was begun. True if readers need a new view.
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

    /// What is in use now, and if it is moving, what will be.
    pub fn stores(&self) -> impl Iterator<Item = &S> {
        std::iter::once(&self.now).chain(self.later.as_ref().map(|moving| &moving.to))
    }

    fn give_up(&mut self) {
        self.later = None;
        self.failed += 1;
    }

    /// Continues or starts the move. True if everything has moved.
    fn prepare(&mut self, row: u32, slot: u32) -> bool {
        if self.later.is_none() && self.now.nearly_full(row) {
            // Without memory for it the change succeeds as long as there is room here.
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
        // Half of the room is for another attempt.
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

    /// Moves at once: there is no room for the next change.
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
