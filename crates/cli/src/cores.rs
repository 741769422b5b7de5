//! Threads that stay on one processor, so that two that are measured do not share one.
#![allow(unsafe_code)]

use std::mem::{size_of, zeroed};

/// Processors that this thread may use, to be given back when dropped.
pub struct Cores(libc::cpu_set_t);

impl Cores {
    /// Those it may use now.
    pub fn now() -> Option<Cores> {
        // SAFETY: a set of processors is an array of bits; the call fills in as much as it is told there is.
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

    /// Lets this thread, and those that it will start, run on these processors only. Failure costs exactness only.
    pub fn keep_to(cpus: &[usize]) {
        // SAFETY: as in `now`, and the numbers are of those that a set has room for.
        unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        }
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        // SAFETY: as in `now`.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) };
    }
}
