//! Lets a search with several steps see a single state while a writer changes the structure in place.
//!
//! The writer announces a change and the keys that it concerns. Then it makes the change by stores; any mixture of old and
//! new values gives each key its old or its new answer. A change that does not concern a key never affects that key's
//! answer. So a search is correct if no change that concerns its key was announced while it ran: a change announced
//! earlier may still have been under way, and then the answer is that of the state before or after it. Otherwise the
//! reader searches again. After [`TRIES_MAX`] searches it asks the writer to wait: the writer starts no further change until
//! the reader has its answer.

use crate::TableError;
use crate::grace::wait;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Searches of a reader before it asks the writer to let it through.
const TRIES_MAX: usize = 16;
/// Number of the latest changes that the log keeps, so that readers can check which keys they concern.
const LOGGED: usize = 64;

/// The keys that a change concerns: two words whose meaning the structure defines.
pub(crate) type Concern = [u64; 2];

/// A 64-bit atomic: that of `std` or that of a model checker.
pub(crate) trait Word {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn add(&self, value: u64);
    fn acquire_fence();
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    fn add(&self, value: u64) {
        self.fetch_add(value, Ordering::SeqCst);
    }

    #[inline(always)]
    fn acquire_fence() {
        fence(Ordering::Acquire);
    }
}

/// The changes of one structure.
#[repr(C, align(64))]
pub(crate) struct Changes<W = AtomicU64, const LOG: usize = LOGGED, const TRIES: usize = TRIES_MAX> {
    /// Number of changes announced.
    count: W,
    /// Number of readers that wait for the writer to let them through.
    wanted: W,
    /// The keys that each change concerns, by its number modulo the length.
    log: [[W; 2]; LOG],
}

impl Changes {
    pub fn new() -> Changes {
        Changes::with(|| AtomicU64::new(0))
    }
}

impl<W: Word, const LOG: usize, const TRIES: usize> Changes<W, LOG, TRIES> {
    pub fn with(zero: impl Fn() -> W) -> Self {
        let log = std::array::from_fn(|_| [zero(), zero()]);
        Changes { count: zero(), wanted: zero(), log }
    }

    /// Called by the writer before a change: waits while a reader wants to be let through.
    pub fn let_readers_through(&self) -> Result<(), TableError> {
        wait(|| self.no_reader_waits().then_some(()))
    }

    pub fn no_reader_waits(&self) -> bool {
        self.wanted.load(Ordering::Acquire) == 0
    }

    /// Called by the writer: announces a change. The writer makes the change right afterwards, by release stores.
    pub fn announce(&self, concern: Concern) {
        let number = self.count.load(Ordering::Relaxed) + 1;
        for (word, value) in self.log[number as usize % LOG].iter().zip(concern) {
            // Release: a reader that sees this word instead of the one before it sees the count, too.
            word.store(value, Ordering::Release);
        }
        self.count.store(number, Ordering::Release);
    }

    /// Called by a reader when a search starts.
    #[inline(always)]
    pub fn begin(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// True if no change was announced since `begin`.
    #[inline(always)]
    pub fn none_since(&self, begin: u64) -> bool {
        W::acquire_fence();
        self.count.load(Ordering::Relaxed) == begin
    }

    /// True if a change that concerns this reader may have been announced since `begin`.
    #[cold]
    pub fn any_since(&self, begin: u64, concerns: impl Fn(Concern) -> bool) -> bool {
        W::acquire_fence();
        let end = self.count.load(Ordering::Acquire);
        if end - begin >= LOG as u64 {
            return true;
        }
        let read = |word: &W| word.load(Ordering::Relaxed);
        let any = (begin + 1..=end).any(|number| {
            let [first, second] = &self.log[number as usize % LOG];
            concerns([read(first), read(second)])
        });
        W::acquire_fence();
        // The words read may belong to a later change.
        any || self.count.load(Ordering::Relaxed) - begin >= LOG as u64
    }

    /// Returns the result of a search that is correct for some state between its start and its end.
    #[inline(always)]
    pub fn read<T>(&self, search: impl Fn() -> T, concerns: impl Fn(Concern) -> bool) -> T {
        let begin = self.begin();
        let found = search();
        if self.none_since(begin) { found } else { self.read_again(begin, found, search, concerns) }
    }

    #[cold]
    fn read_again<T>(
        &self,
        mut begin: u64,
        mut found: T,
        search: impl Fn() -> T,
        concerns: impl Fn(Concern) -> bool,
    ) -> T {
        let mut tries = 1;
        while self.any_since(begin, &concerns) {
            if tries == TRIES {
                // From now on, the writer at most finishes the change that it has started.
                self.wanted.add(1);
            }
            tries += 1;
            begin = self.begin();
            found = search();
        }
        if tries > TRIES {
            self.wanted.add(u64::MAX);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Checked;
    use loom::thread;

    impl Word for Checked {
        fn load(&self, order: Ordering) -> u64 {
            Checked::load(self, order)
        }

        fn store(&self, value: u64, order: Ordering) {
            Checked::store(self, value, order);
        }

        fn add(&self, value: u64) {
            self.fetch_add(value, Ordering::SeqCst);
        }

        fn acquire_fence() {
            loom::sync::atomic::fence(Ordering::Acquire);
        }
    }

    /// A short route, and a longer one for some of its keys (0 if there is none): the smallest search with two steps.
    struct Routes<const TRIES: usize> {
        changes: Changes<Checked, 2, TRIES>,
        short: Checked,
        long: Checked,
    }

    impl<const TRIES: usize> Routes<TRIES> {
        fn new() -> Arc<Self> {
            let (changes, short, long) =
                (Changes::with(|| Checked::new(0)), Checked::new(1), Checked::new(2));
            Arc::new(Routes { changes, short, long })
        }

        fn find(&self) -> u64 {
            let search = || {
                let short = self.short.load(Ordering::Acquire);
                let long = self.long.load(Ordering::Acquire);
                if long != 0 { long } else { short }
            };
            self.changes.read(search, |[key, _]| key == 0)
        }
    }

    /// Tries every interleaving with at most three preemptions, and every reordering that the memory model allows.
    fn every_interleaving(run: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(run);
    }

    /// The routes are 1 and 2, then 3 and 2,
    /// then 3 alone, so 1 is never the answer. In between comes a change for another key, which the reader may ignore.
    #[test]
    fn a_search_meets_one_change_at_most() {
        every_interleaving(|| {
            let routes = Routes::<TRIES_MAX>::new();
            let writer = Arc::clone(&routes);
            let writer = thread::spawn(move || {
                writer.changes.announce([0, 0]);
                writer.short.store(3, Ordering::Release);
                writer.changes.announce([9, 0]);
                writer.changes.announce([0, 0]);
                writer.long.store(0, Ordering::Release);
            });
            let found = routes.find();
            assert!(found == 2 || found == 3, "found {found}");
            writer.join().expect("no panic");
            assert_eq!(routes.find(), 3);
        });
    }

    /// A reader that was disturbed once asks the writer to wait, and lets it continue afterwards.
    #[test]
    fn the_writer_waits_for_a_reader_that_asks() {
        use std::sync::atomic::AtomicUsize;
        static WAITS: AtomicUsize = AtomicUsize::new(0);
        every_interleaving(|| {
            let routes = Routes::<1>::new();
            let writer = Arc::clone(&routes);
            let writer = thread::spawn(move || {
                let let_readers_through = || {
                    while !writer.changes.no_reader_waits() {
                        WAITS.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                    }
                };
                let_readers_through();
                writer.changes.announce([0, 0]);
                writer.short.store(3, Ordering::Release);
                let_readers_through();
                writer.changes.announce([0, 0]);
                writer.long.store(0, Ordering::Release);
            });
            let found = routes.find();
            assert!(found == 2 || found == 3, "found {found}");
            writer.join().expect("no panic");
            assert_eq!(routes.find(), 3);
            assert!(routes.changes.no_reader_waits());
        });
        assert!(WAITS.load(Ordering::Relaxed) > 0, "the writer never waited");
    }
}
