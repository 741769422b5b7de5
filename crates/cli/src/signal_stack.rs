//! Threads without signal stacks. If the standard library handles SIGSEGV, each of its threads maps a stack for that handler
//! when it begins. The process aborts if the system refuses this memory, for example because another thread took what was free
//! when the thread was started. The library does not handle a signal whose effect is not the default when the process starts.
//! Without the handler, a stack overflow still ends the process by SIGSEGV, but prints no message.
#![allow(unsafe_code)]

/// The signals that the standard library would handle.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Runs before the standard library sets its handlers.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = hide;

extern "C" fn hide() {
    set(libc::SIG_IGN);
}

/// Restores the default effect of the signals. The first thing that `main` does.
pub fn restore() {
    set(libc::SIG_DFL);
}

fn set(effect: libc::sighandler_t) {
    for signal in SIGNALS {
        // SAFETY: no function of this process handles the signal.
        unsafe { libc::signal(signal, effect) };
    }
}

#[cfg(test)]
mod tests {
    /// A thread of the standard library has no signal stack.
    #[test]
    fn threads_map_no_signal_stack() {
        let thread = || {
            // SAFETY: the structure lives through the call, which only writes it.
            unsafe {
                let mut stack = std::mem::zeroed::<libc::stack_t>();
                assert_eq!(libc::sigaltstack(std::ptr::null(), &raw mut stack), 0);
                stack.ss_flags
            }
        };
        assert_eq!(std::thread::spawn(thread).join().unwrap(), libc::SS_DISABLE);
        super::restore();
        assert_eq!(std::thread::spawn(thread).join().unwrap(), libc::SS_DISABLE);
    }
}
