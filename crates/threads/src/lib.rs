//! Starts threads without risk to the process. The standard library aborts the process if a started thread cannot map its
//! signal stack, so the address space is checked before the thread starts. Other threads may take what was free before the
//! thread begins; the `p4jet` binary therefore has no signal stacks.
#![allow(unsafe_code)]

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Stack size of a thread that does not recurse deeply: the standard library's default.
const STACK_BYTES: usize = 2 << 20;

/// Address space that must be free in addition to the stack: for the signal stack, and for what other threads allocate
/// meanwhile.
const SPARE_BYTES: usize = 32 << 20;

/// Starts a thread that runs `work`.
///
/// # Errors
///
/// Like [`builder`]; or the system allows no further thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    builder(name, STACK_BYTES).and_then(|builder| builder.spawn(work)).map_err(explained)
}

/// Starts a thread that runs `work` and ends with the scope.
///
/// # Errors
///
/// Like [`spawn`].
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    builder(name, STACK_BYTES).and_then(|builder| builder.spawn_scoped(scope, work)).map_err(explained)
}

/// Returns a builder for a thread with this name and stack size.
///
/// # Errors
///
/// [`io::ErrorKind::OutOfMemory`] if the address space lacks room for the stack and [`SPARE_BYTES`].
pub fn builder(name: &str, stack_bytes: usize) -> io::Result<Builder> {
    check_mappable(stack_bytes + SPARE_BYTES)?;
    Ok(Builder::new().name(name.to_string()).stack_size(stack_bytes))
}

/// Adds the likely cause to an error of the system.
fn explained(error: io::Error) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::WouldBlock => "the system allows no further thread, see `ulimit -u`",
        io::ErrorKind::OutOfMemory => "the address space has no room for a thread, see `ulimit -v`",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}: {why}"))
}

/// Checks that the process can get this much more address space now.
///
/// # Errors
///
/// [`io::ErrorKind::OutOfMemory`] if the system refuses it.
pub fn check_mappable(bytes: usize) -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses an address that nothing uses, and nothing reads or writes the mapping.
    let is_mappable = unsafe {
        let map = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        map != libc::MAP_FAILED && libc::munmap(map, bytes) == 0
    };
    if is_mappable { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_starts_only_with_room_for_it() {
        let thread = spawn("some", || std::thread::current().name().map(str::to_string));
        assert_eq!(thread.unwrap().join().unwrap().as_deref(), Some("some"));
        let error = explained(io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(error.to_string().ends_with("allows no further thread, see `ulimit -u`"), "{error}");
        let error = builder("huge", 1 << 60).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
