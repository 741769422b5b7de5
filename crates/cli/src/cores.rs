//! Processors: pins threads to them, so that two measured threads do not share one, and counts their time.
#![allow(unsafe_code)]

use std::mem::{size_of, zeroed};

/// The processors that this thread may use, restored when dropped.
pub struct Cores(libc::cpu_set_t);

impl Cores {
    /// Returns those that it may use now.
    pub fn now() -> Option<Cores> {
        // SAFETY: a set of processors is an array of bits; the call fills in as many bytes as its argument says.
        unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) == 0).then_some(Cores(set))
        }
    }

    /// Their numbers.
    pub fn numbers(&self) -> Vec<usize> {
        // SAFETY: the set has this many bits.
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &self.0) }).collect()
    }

    /// Restricts this thread, and those that it will start, to these processors. A failure only affects precision.
    pub fn keep_to(cpus: &[usize]) {
        restrict(0, cpus);
    }
}

/// Restricts each thread of this process to the processors that `of` returns for its name. A failure only affects precision.
pub fn place_threads(of: impl Fn(&str) -> Vec<usize>) {
    for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let Some(id) = thread.file_name().to_str().and_then(|id| id.parse().ok()) else { continue };
        restrict(id, &of(name.trim_end()));
    }
}

/// Restricts a thread to processors; 0 is this thread.
fn restrict(thread: libc::pid_t, cpus: &[usize]) {
    // SAFETY: a set of processors is an array of bits with room for the numbers; the call reads as many bytes as its argument says.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &set);
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        // SAFETY: as in `now`.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) };
    }
}

/// Seconds of processor time that all threads of this process have had.
pub fn process_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure in.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
