//! Waits for one port, for callers with nothing else to do.

// Reason: poll(2).
#![allow(unsafe_code)]

use crate::Port;
use std::time::Duration;

/// Wait if there is no notification of frames.
const NAP: Duration = Duration::from_millis(1);

/// Waits until `port` may have frames, at most for `longest`. Called after [`Received::Empty`](crate::Received::Empty).
pub fn wait(port: &dyn Port, longest: Duration) {
    let Some(fd) = port.poll_fd() else { return std::thread::sleep(longest.min(NAP)) };
    let mut fd = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, alive during the call; the descriptor belongs to the port.
    unsafe { libc::poll(&raw mut fd, 1, longest.as_millis().min(i32::MAX as u128) as libc::c_int) };
    // A descriptor with an error stays ready for ever; the port reports the error itself.
    if fd.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0 {
        std::thread::sleep(NAP);
    }
}
