//! The bell of a worker: ends its sleep.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One worker's bell. It rings only for a worker that sleeps.
pub(crate) struct Bell {
    /// True if the worker is called: it must not sleep.
    called: AtomicBool,
    asleep: AtomicBool,
    /// An eventfd, readable when the sleeping worker should wake.
    eventfd: OwnedFd,
}

impl Bell {
    pub fn new() -> io::Result<Bell> {
        // SAFETY: no pointers; the descriptor is new and has no other owner.
        let eventfd = unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Bell { called: AtomicBool::new(false), asleep: AtomicBool::new(false), eventfd })
    }

    /// Calls the worker: it wakes, or does not go to sleep.
    pub fn call(&self) {
        self.called.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Returns true once after a call. Without one, this is one plain load.
    pub fn take_call(&self) -> bool {
        let called = self.called.load(Ordering::Relaxed);
        if called {
            self.called.store(false, Ordering::SeqCst);
        }
        called
    }

    /// Ends the worker's sleep, if it sleeps.
    pub fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            let one = 1u64;
            // SAFETY: eight bytes of `one` are read. A full eventfd rings already.
            unsafe { libc::write(self.eventfd.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    /// True if the descriptor is readable.
    #[cfg(test)]
    pub fn rings(&self) -> bool {
        let mut fd = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&raw mut fd, 1, 0) == 1 }
    }

    #[cfg(test)]
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// Records whether the worker sleeps; called before and after sleep. Returns false if the worker is called, so it
    /// must not sleep.
    pub fn set_asleep(&self, asleep: bool) -> bool {
        self.asleep.store(asleep, Ordering::SeqCst);
        if !asleep {
            let mut count = 0u64;
            // SAFETY: eight bytes are written to `count`; reading an eventfd that is 0 fails at once.
            unsafe { libc::read(self.eventfd.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
        !self.called.load(Ordering::SeqCst)
    }

    /// Sleeps until [`Self::wake`], for at most `longest`, unless it is `ready`.
    pub fn sleep(&self, longest: Duration, ready: impl FnOnce() -> bool) {
        if self.set_asleep(true) && !ready() {
            let mut fd = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd, whose descriptor is open as long as `self`.
            unsafe { libc::poll(&raw mut fd, 1, longest.as_millis() as libc::c_int) };
        }
        self.set_asleep(false);
    }

    /// Returns the descriptor to poll for readability while asleep.
    pub fn fd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }
}
