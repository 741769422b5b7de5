//! The mailbox of a worker: between two batches the worker carries out what other threads have left in it.
#![allow(unsafe_code)]

use crate::forward::Forwarder;
use crate::pulse::Pulse;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A task for a worker.
pub(crate) type Letter = Box<dyn FnOnce(&mut Forwarder) + Send>;

/// One worker's letters. The check for letters is one plain load per round of the worker.
pub(crate) struct Mailbox {
    full: AtomicBool,
    /// `None` once the mailbox is closed.
    letters: Mutex<Option<Vec<Letter>>>,
    asleep: AtomicBool,
    /// An eventfd, readable when a sleeping worker should wake.
    bell: OwnedFd,
    /// The worker's pulse.
    pub(crate) pulse: Pulse,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        // SAFETY: no pointers; the descriptor is new and has no other owner.
        let bell = unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Mailbox {
            full: AtomicBool::new(false),
            letters: Mutex::new(Some(Vec::new())),
            asleep: AtomicBool::new(false),
            bell,
            pulse: Pulse::default(),
        })
    }

    /// Leaves a letter; drops it if the worker has ended.
    pub(crate) fn post(&self, letter: Letter) {
        if let Some(letters) = &mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner) {
            letters.push(letter);
        }
        self.full.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Ends the worker's sleep, if it sleeps.
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            let one = 1u64;
            // SAFETY: eight bytes of `one` are read. A full eventfd rings already.
            unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    /// Takes all letters.
    pub(crate) fn take(&self) -> Vec<Letter> {
        if !self.full.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.full.store(false, Ordering::SeqCst);
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

    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// Records whether the worker sleeps; called before and after sleep. Returns false if a letter has arrived, so
    /// the worker must not sleep.
    pub(crate) fn set_asleep(&self, asleep: bool) -> bool {
        self.asleep.store(asleep, Ordering::SeqCst);
        if !asleep {
            let mut count = 0u64;
            // SAFETY: eight bytes are written to `count`; reading an eventfd that is 0 fails at once.
            unsafe { libc::read(self.bell.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
        !self.full.load(Ordering::SeqCst)
    }

    /// Sleeps until [`Self::wake`], for at most `longest`, unless it is `ready`.
    pub(crate) fn sleep(&self, longest: Duration, ready: impl FnOnce() -> bool) {
        if self.set_asleep(true) && !ready() {
            let mut fd = libc::pollfd { fd: self.bell(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd, whose descriptor is open as long as `self`.
            unsafe { libc::poll(&raw mut fd, 1, longest.as_millis() as libc::c_int) };
        }
        self.set_asleep(false);
    }

    /// Returns the descriptor to poll for readability while asleep.
    pub(crate) fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_rings_for_sleepers_only() {
        let mailbox = Mailbox::new().unwrap();
        let rings = |mailbox: &Mailbox| {
            let mut fd = libc::pollfd { fd: mailbox.bell(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd.
            unsafe { libc::poll(&raw mut fd, 1, 0) == 1 }
        };
        assert!(mailbox.take().is_empty());
        mailbox.post(Box::new(|_| ()));
        assert!(!rings(&mailbox));
        assert!(!mailbox.set_asleep(true), "a letter waits");
        assert_eq!(mailbox.take().len(), 1);
        assert!(mailbox.set_asleep(true));
        mailbox.post(Box::new(|_| ()));
        assert!(rings(&mailbox));
        mailbox.set_asleep(false);
        assert!(!rings(&mailbox));
        assert_eq!(mailbox.take().len(), 1);
        mailbox.close();
        mailbox.post(Box::new(|_| ()));
        assert!(mailbox.take().is_empty());
    }
}
