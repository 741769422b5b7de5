//! The mailboxes of all workers: requests to all of them, and what happens if one does not answer. A change can be
//! withdrawn only until the first worker begins it.

use crate::bell::Bell;
use crate::counted::Counted;
use crate::event::{Event, Listener};
use crate::forward::{ForwardStats, Forwarder};
use crate::gate::Gate;
use crate::mailbox::Mailbox;
use crate::run_error::RunError;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Interval at which a caller that waits for a worker checks whether it is stuck.
pub(crate) const ASK: Duration = Duration::from_millis(50);

/// All workers' mailboxes.
pub(crate) struct Mailboxes {
    all: Vec<Arc<Mailbox<Forwarder>>>,
    /// The number of the last sample. Locked while letters are posted, so that all workers get them in the same
    /// order.
    samples: Mutex<u64>,
    listener: Listener,
}

/// The state of a task: it can be withdrawn until a worker begins it. After that, the other workers carry it out,
/// too, sooner or later.
#[derive(Default)]
struct Claim(AtomicU8);

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Claim {
    /// Marks the task as begun. Returns false if it was withdrawn.
    fn begin(&self) -> bool {
        self.0.compare_exchange(OPEN, BEGUN, Ordering::SeqCst, Ordering::SeqCst) != Err(WITHDRAWN)
    }

    /// Withdraws the task. Returns false if a worker has begun it.
    fn withdraw(&self) -> bool {
        self.0.compare_exchange(OPEN, WITHDRAWN, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// A task that was posted, and where each worker's answer arrives.
struct Posted<T> {
    claim: Arc<Claim>,
    answers: Vec<mpsc::Receiver<T>>,
}

impl Mailboxes {
    pub fn new(all: Vec<Arc<Mailbox<Forwarder>>>, listener: Listener) -> Mailboxes {
        Mailboxes { all, samples: Mutex::new(0), listener }
    }

    /// Returns the mailboxes, by worker.
    pub fn all(&self) -> &[Arc<Mailbox<Forwarder>>] {
        &self.all
    }

    /// Creates a gate that each worker has to pass once.
    pub fn gate(&self) -> Arc<Gate> {
        Gate::new(self.all.len(), self.bells())
    }

    /// Creates a gate that its owner opens by passing it once.
    pub fn barrier(&self) -> Arc<Gate> {
        Gate::new(1, self.bells())
    }

    fn bells(&self) -> Vec<Arc<Bell>> {
        self.all.iter().map(|mailbox| Arc::clone(mailbox.bell())).collect()
    }

    /// Returns an error if a worker is stuck.
    pub fn not_stuck(&self) -> Result<(), RunError> {
        match self.all.iter().position(|mailbox| mailbox.pulse.stuck_for().is_some()) {
            None => Ok(()),
            Some(worker) => Err(self.stuck(worker)),
        }
    }

    /// Returns the error of a stuck worker.
    fn stuck(&self, worker: usize) -> RunError {
        RunError::Stuck(self.all[worker].pulse.report(worker).to_string())
    }

    /// Gives each worker its own task and waits for the answers. The answer is `None` for a worker that is stuck
    /// while others have begun: it carries out the task when it continues, and the listener gets an event. The error
    /// [`RunError::Stuck`] means that no worker has begun, and none will.
    pub fn hand_out<T: Send + 'static, A: FnOnce(&mut Forwarder) -> T + Send + 'static>(
        &self,
        acts: impl Iterator<Item = A>,
    ) -> Result<Vec<Option<T>>, RunError> {
        let answers = self.wait(&self.post(acts))?;
        for (worker, mailbox) in self.all.iter().enumerate() {
            if answers.get(worker).is_some_and(Option::is_none) {
                (self.listener)(Event::Follows(&mailbox.pulse.report(worker)));
            }
        }
        Ok(answers)
    }

    /// Gives each worker its own request and waits for the answers. Fails if a worker is stuck; some workers may have
    /// carried out the request then.
    pub fn ask<T: Send + 'static, A: FnOnce(&mut Forwarder) -> T + Send + 'static>(
        &self,
        acts: impl Iterator<Item = A>,
    ) -> Result<Vec<T>, RunError> {
        self.not_stuck()?;
        self.all_answers(&self.post(acts))
    }

    /// Returns each worker's part of one sample, see [`Forwarder::sample`].
    pub fn sample(&self) -> Result<Vec<(ForwardStats, Counted)>, RunError> {
        self.not_stuck()?;
        let posted = {
            let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
            *samples += 1;
            let epoch = *samples;
            self.post_in_turn(self.all.iter().map(|_| move |f: &mut Forwarder| f.sample(epoch)))
        };
        self.all_answers(&posted)
    }

    /// Gives each worker its own task without waiting for it.
    pub fn leave<A: FnOnce(&mut Forwarder) + Send + 'static>(&self, acts: impl Iterator<Item = A>) {
        self.post(acts);
    }

    fn post<T: Send + 'static, A: FnOnce(&mut Forwarder) -> T + Send + 'static>(
        &self,
        acts: impl Iterator<Item = A>,
    ) -> Posted<T> {
        let _posting = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        self.post_in_turn(acts)
    }

    /// Posts letters. The caller must hold the lock of `samples`.
    fn post_in_turn<T: Send + 'static, A: FnOnce(&mut Forwarder) -> T + Send + 'static>(
        &self,
        acts: impl Iterator<Item = A>,
    ) -> Posted<T> {
        let claim = Arc::<Claim>::default();
        let post = |(mailbox, act): (&Arc<Mailbox<Forwarder>>, A)| {
            let (answer, receiver) = mpsc::sync_channel(1);
            let claim = Arc::clone(&claim);
            mailbox.post(Box::new(move |forwarder| {
                if claim.begin() {
                    // If the caller no longer waits, the answer is not needed.
                    let _ = answer.send(act(forwarder));
                }
            }));
            receiver
        };
        let answers = self.all.iter().zip(acts).map(post).collect();
        Posted { claim, answers }
    }

    fn all_answers<T>(&self, posted: &Posted<T>) -> Result<Vec<T>, RunError> {
        let answers = self.wait(posted)?.into_iter().enumerate();
        answers.map(|(worker, answer)| answer.ok_or_else(|| self.stuck(worker))).collect()
    }

    /// Waits for each worker as long as it makes progress. If one is stuck and no worker has begun, withdraws the
    /// task.
    fn wait<T>(&self, Posted { claim, answers }: &Posted<T>) -> Result<Vec<Option<T>>, RunError> {
        let answer = |(worker, answer): (usize, &mpsc::Receiver<T>)| loop {
            match answer.recv_timeout(ASK) {
                Ok(answer) => return Ok(Some(answer)),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(RunError::Stopped),
                Err(mpsc::RecvTimeoutError::Timeout) if self.all[worker].pulse.stuck_for().is_none() => {}
                Err(mpsc::RecvTimeoutError::Timeout) if claim.withdraw() => return Err(self.stuck(worker)),
                Err(mpsc::RecvTimeoutError::Timeout) => return Ok(None),
            }
        };
        answers.iter().enumerate().map(answer).collect()
    }
}
