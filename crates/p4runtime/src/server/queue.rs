//! The changes that wait for their turn.
//!
//! Each client has a line of changes, which are made in their order. The lines take turns: a client with many changes delays those of
//! others by one change at a time. Short changes do not wait for the long ones of other clients, except that a long one follows at
//! most [`SHORTS_MAX`] short ones.

use super::device::{Job, lock};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Maximum number of waiting changes.
pub const JOBS_MAX: usize = 16_384;
/// Maximum number of waiting changes of a client.
pub const JOBS_OF_CLIENT_MAX: usize = 256;
/// Maximum number of short changes after each other while a long one waits.
const SHORTS_MAX: usize = 64;

/// The line of the server's own changes.
pub const OWN: u64 = u64::MAX;

/// Puts changes into lines; the queue ends when it is dropped.
pub struct Jobs(Arc<Queue>);

/// Takes changes out of lines.
pub struct Todo(Arc<Queue>);

#[derive(Default)]
struct Queue {
    lines: Mutex<Lines>,
    arrived: Condvar,
}

#[derive(Default)]
struct Lines {
    /// The lines that are not empty, by the number of their client, the next one first.
    lines: VecDeque<(u64, VecDeque<Job>)>,
    jobs: usize,
    /// Short changes taken since the last long one.
    shorts: usize,
    has_ended: bool,
}

/// Both ends of an empty queue.
pub fn queue() -> (Jobs, Todo) {
    let queue = Arc::<Queue>::default();
    (Jobs(Arc::clone(&queue)), Todo(queue))
}

impl Jobs {
    /// Puts a change at the end of a client's line.
    ///
    /// # Errors
    /// There are too many. Returns the change, their maximum number, and whose they are.
    pub fn put(&self, client: u64, job: Job) -> Result<(), (Job, usize, &'static str)> {
        let mut lines = lock(&self.0.lines);
        if lines.jobs >= JOBS_MAX {
            return Err((job, JOBS_MAX, ""));
        }
        match lines.lines.iter_mut().find(|(of, _)| *of == client) {
            Some((_, line)) if client != OWN && line.len() >= JOBS_OF_CLIENT_MAX => {
                return Err((job, JOBS_OF_CLIENT_MAX, " of this client"));
            }
            Some((_, line)) => line.push_back(job),
            None => lines.lines.push_back((client, VecDeque::from([job]))),
        }
        lines.jobs += 1;
        drop(lines);
        self.0.arrived.notify_one();
        Ok(())
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        lock(&self.0.lines).has_ended = true;
        self.0.arrived.notify_one();
    }
}

impl Todo {
    /// The next change; waits until there is one. `None` at the end.
    pub fn take(&self) -> Option<Job> {
        let mut lines = lock(&self.0.lines);
        loop {
            if let Some(job) = lines.take() {
                return Some(job);
            }
            if lines.has_ended {
                return None;
            }
            lines = self.0.arrived.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next change, if there is one.
    pub fn try_take(&self) -> Option<Job> {
        lock(&self.0.lines).take()
    }
}

impl Lines {
    fn take(&mut self) -> Option<Job> {
        let wants_short = self.shorts < SHORTS_MAX;
        let next = self.lines.iter().position(|(_, line)| line[0].is_short == wants_short);
        let (client, mut line) = self.lines.remove(next.unwrap_or(0))?;
        let job = line.pop_front()?;
        if !line.is_empty() {
            self.lines.push_back((client, line));
        }
        self.jobs -= 1;
        self.shorts = if job.is_short { self.shorts + 1 } else { 0 };
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    /// Changes that say their number.
    struct Said(Arc<Mutex<Vec<u64>>>);

    impl Said {
        fn job(&self, number: u64, is_short: bool) -> Job {
            let said = Arc::clone(&self.0);
            let change = Box::new(move |_: Result<(), Status>| {
                lock(&said).push(number);
                None
            });
            Job { change, is_short }
        }

        /// Makes all changes.
        fn all(&self, todo: &Todo) -> Vec<u64> {
            while let Some(job) = todo.try_take() {
                let _ = (job.change)(Ok(()));
            }
            std::mem::take(&mut *lock(&self.0))
        }
    }

    #[test]
    fn clients_take_turns_and_short_changes_come_first() {
        let ((jobs, todo), said) = (queue(), Said(Arc::default()));
        for (client, number, is_short) in [
            (1, 10, false),
            (1, 11, true),
            (1, 12, false),
            (2, 20, true),
            (2, 21, true),
            (3, 30, false),
            (2, 22, true),
        ] {
            assert!(jobs.put(client, said.job(number, is_short)).is_ok());
        }
        // Changes of a client keep their order, whatever their length.
        assert_eq!(said.all(&todo), [20, 21, 22, 10, 11, 30, 12]);
    }

    #[test]
    fn long_changes_are_not_put_off_for_ever() {
        let ((jobs, todo), said) = (queue(), Said(Arc::default()));
        assert!(jobs.put(1, said.job(1, false)).is_ok());
        (0..200).for_each(|_| assert!(jobs.put(2, said.job(2, true)).is_ok()));
        assert_eq!(said.all(&todo).iter().position(|number| *number == 1), Some(SHORTS_MAX));
    }

    #[test]
    fn a_client_cannot_fill_the_queue() {
        let ((jobs, todo), said) = (queue(), Said(Arc::default()));
        let put = |client| jobs.put(client, said.job(client, true)).map_err(|(_, max, whose)| (max, whose));
        (0..JOBS_OF_CLIENT_MAX).for_each(|_| put(1).unwrap());
        assert_eq!(put(1), Err((JOBS_OF_CLIENT_MAX, " of this client")));
        put(2).unwrap();
        (0..JOBS_MAX - JOBS_OF_CLIENT_MAX - 1).for_each(|_| put(OWN).unwrap());
        assert_eq!(put(2), Err((JOBS_MAX, "")));
        assert_eq!(said.all(&todo).len(), JOBS_MAX);
        drop(jobs);
        assert!(todo.take().is_none());
    }
}
