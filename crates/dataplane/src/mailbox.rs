//! The mailbox of a worker: between two batches the worker carries out what other threads have left in it.

use crate::bell::Bell;
use crate::pulse::Pulse;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// A task for a worker of type `W`.
pub(crate) type Letter<W> = Box<dyn FnOnce(&mut W) + Send>;

/// One worker's letters. The check for letters is one plain load per round of the worker.
pub(crate) struct Mailbox<W> {
    /// `None` once the mailbox is closed.
    letters: Mutex<Option<Vec<Letter<W>>>>,
    bell: Arc<Bell>,
    /// The worker's pulse.
    pub(crate) pulse: Pulse,
}

impl<W> Mailbox<W> {
    pub(crate) fn new() -> io::Result<Mailbox<W>> {
        let bell = Arc::new(Bell::new()?);
        Ok(Mailbox { letters: Mutex::new(Some(Vec::new())), bell, pulse: Pulse::default() })
    }

    /// Leaves a letter; drops it if the worker has ended.
    pub(crate) fn post(&self, letter: Letter<W>) {
        if let Some(letters) = &mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner) {
            letters.push(letter);
        }
        self.bell.call();
    }

    /// Takes all letters.
    pub(crate) fn take(&self) -> Vec<Letter<W>> {
        if !self.bell.take_call() {
            return Vec::new();
        }
        self.letters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Drops all letters, including later ones, because the worker has ended: callers that wait for an answer notice
    /// it.
    pub(crate) fn close(&self) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// True if the worker has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Returns the worker's bell.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_rings_for_sleepers_only() {
        let mailbox = Mailbox::<()>::new().unwrap();
        assert!(mailbox.take().is_empty());
        mailbox.post(Box::new(|_| ()));
        assert!(!mailbox.bell().rings());
        assert!(!mailbox.bell().set_asleep(true), "a letter waits");
        assert_eq!(mailbox.take().len(), 1);
        assert!(mailbox.bell().set_asleep(true));
        mailbox.post(Box::new(|_| ()));
        assert!(mailbox.bell().rings());
        mailbox.bell().set_asleep(false);
        assert!(!mailbox.bell().rings());
        assert_eq!(mailbox.take().len(), 1);
        mailbox.close();
        mailbox.post(Box::new(|_| ()));
        assert!(mailbox.take().is_empty());
    }
}
