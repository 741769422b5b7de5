//! Compilations for clients: a few at a time, in turns.

use crate::error::{ControlError, Result};
use p4jet_dataplane::Cancel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of simultaneous compilations; further ones wait. No batch waits for a compilation.
const COMPILATIONS_MAX: usize = 4;

/// Maximum time for which a compilation waits for others.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Interval at which a waiting compilation checks whether its client has cancelled it.
const CANCEL_CHECK: Duration = Duration::from_millis(20);

/// The user for whom a program is compiled; `None` for the switch's own prompt and its P4Runtime clients.
pub(crate) type Owner = Option<Arc<str>>;

/// The compilations that run or wait, from the oldest to the newest.
#[derive(Default)]
pub(crate) struct Compilations {
    all: Mutex<All>,
    changed: Condvar,
}

#[derive(Default)]
struct All {
    last_id: u64,
    list: Vec<One>,
}

struct One {
    id: u64,
    owner: Owner,
    runs: bool,
}

impl All {
    fn running(&self) -> usize {
        self.list.iter().filter(|one| one.runs).count()
    }

    /// The compilation that may run next: the oldest one of an owner with the fewest that run.
    fn next(&self) -> Option<u64> {
        if self.running() >= COMPILATIONS_MAX {
            return None;
        }
        let of_owner = |owner: &Owner| self.list.iter().filter(|one| one.runs && one.owner == *owner).count();
        let waiting = self.list.iter().filter(|one| !one.runs);
        waiting.min_by_key(|one| (of_owner(&one.owner), one.id)).map(|one| one.id)
    }
}

impl Compilations {
    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more compilation may run, but no longer than [`WAIT_MAX`].
    pub(crate) fn begin(&self, owner: &Owner, cancel: &Cancel) -> Result<Compilation<'_>> {
        let until = Instant::now() + WAIT_MAX;
        let mut all = self.all();
        all.last_id += 1;
        let id = all.last_id;
        all.list.push(One { id, owner: owner.clone(), runs: false });
        // From here on, dropping it removes it from the list.
        let begun = Compilation { of: self, id };
        while all.next() != Some(id) {
            let late = Instant::now() >= until;
            if late || cancel.is_cancelled() {
                drop(all);
                let text = "this compilation did not get a turn within 30 seconds, because at most four run at a time; try again later";
                return Err(if late { ControlError::limit(text) } else { ControlError::cancelled() });
            }
            all = self.changed.wait_timeout(all, CANCEL_CHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
        all.list.iter_mut().filter(|one| one.id == id).for_each(|one| one.runs = true);
        drop(all);
        // There may be room for another one.
        self.changed.notify_all();
        Ok(begun)
    }
}

/// A compilation that runs.
pub(crate) struct Compilation<'c> {
    of: &'c Compilations,
    id: u64,
}

impl Compilation<'_> {
    /// The number of compilations that run, with this one.
    pub(crate) fn running(&self) -> usize {
        self.of.all().running()
    }
}

impl Drop for Compilation<'_> {
    fn drop(&mut self) {
        self.of.all().list.retain(|one| one.id != self.id);
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    const DEADLINE: Duration = Duration::from_secs(60);

    fn waiting(compilations: &Compilations) -> usize {
        let all = compilations.all();
        all.list.len() - all.running()
    }

    #[test]
    fn users_take_turns() {
        let compilations = Compilations::default();
        let user = |name: &str| Some(Arc::from(name));
        let begin = |name: &str| compilations.begin(&user(name), &Cancel::default()).unwrap();
        let mut running: Vec<_> = (0..COMPILATIONS_MAX).map(|_| begin("many")).collect();
        let (begun, order) = channel();
        thread::scope(|scope| {
            for (i, name) in ["many", "many", "one", "many", "other"].into_iter().enumerate() {
                let (begun, begin) = (begun.clone(), &begin);
                scope.spawn(move || {
                    let compilation = begin(name);
                    begun.send(name).unwrap();
                    // Later ones run after it.
                    drop(compilation);
                });
                while waiting(&compilations) <= i {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            assert!(order.try_recv().is_err(), "all must wait");
            running.pop();
            let order: Vec<_> = (0..5).map(|_| order.recv_timeout(DEADLINE).unwrap()).collect();
            assert_eq!(order, ["one", "other", "many", "many", "many"]);
        });
    }

    #[test]
    fn a_client_that_leaves_does_not_wait() {
        let compilations = Compilations::default();
        let running: Vec<_> =
            (0..COMPILATIONS_MAX).map(|_| compilations.begin(&None, &Cancel::default()).unwrap()).collect();
        assert_eq!(running.last().map(Compilation::running), Some(COMPILATIONS_MAX));
        let cancel = Cancel::default();
        thread::scope(|scope| {
            let waits = scope.spawn(|| compilations.begin(&None, &cancel).map(drop));
            while waiting(&compilations) == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            cancel.cancel();
            assert_eq!(waits.join().unwrap(), Err(ControlError::cancelled()));
        });
        assert_eq!(waiting(&compilations), 0);
        drop(running);
        assert_eq!(compilations.begin(&None, &cancel).map(|one| one.running()).ok(), Some(1));
    }
}
