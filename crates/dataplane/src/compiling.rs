//! Compiles in a background thread. Packets wait for machine code for a short time at most; then workers forward with
//! the interpreter and switch to the machine code between two batches. The interpreter still runs the copies that it
//! has created.

use crate::event::{Event, Listener};
use crate::forward::Forwarder;
use crate::mailboxes::{ASK, Mailboxes};
use crate::program_error::ProgramError;
use crate::run_error::RunError;
use crate::switch::Switch;
use p4jet_jit::{Cancel, Compiled, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

type Made = Result<Arc<Compiled>, ProgramError>;

/// A compilation in progress. Dropping it cancels the compilation.
pub(crate) struct Compiling {
    cancel: Cancel,
    made: Receiver<Made>,
    /// Channel for the function that handles code that was not ready in time.
    late: Sender<Box<dyn FnOnce(Made) + Send>>,
    /// True if workers wait for the code.
    awaited: bool,
}

impl Drop for Compiling {
    fn drop(&mut self) {
        if !self.awaited {
            self.cancel.cancel();
        }
    }
}

impl Compiling {
    /// Starts to compile the switch's program.
    pub fn start(switch: &Arc<Switch>) -> std::io::Result<Compiling> {
        let switch = Arc::clone(switch);
        // The thread drops its reference to the switch here, so that it never holds the last one.
        Compiling::start_with(move |cancel| switch.code_unless(cancel).map_err(|e| switch.program_error(&e)))
    }

    fn start_with(make: impl FnOnce(&Cancel) -> Made + Send + 'static) -> std::io::Result<Compiling> {
        let cancel = Cancel::default();
        let ((done, made), (late, then)) = (channel(), channel::<Box<dyn FnOnce(Made) + Send>>());
        let cancelled = cancel.clone();
        p4jet_threads::spawn("compiler", move || {
            let code = catch_unwind(AssertUnwindSafe(|| make(&cancelled)))
                .unwrap_or_else(|_| Err(bug("the compiler panicked")));
            let _ = done.send(code.clone());
            drop(done);
            if let Ok(then) = then.recv()
                && !cancelled.is_cancelled()
            {
                then(code);
            }
        })?;
        Ok(Compiling { cancel, made, late, awaited: false })
    }

    /// Waits for the code, for at most `wait`.
    pub fn wait(&self, wait: Duration) -> Option<Made> {
        match self.made.recv_timeout(wait) {
            Ok(made) => Some(made),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(bug("the compiler ended without code"))),
        }
    }

    /// Switches the workers from the interpreter to the code, between two batches, when it is ready. Returns a handle
    /// that cancels this.
    pub fn change_over(
        mut self,
        switch: &Arc<Switch>,
        mailboxes: Arc<Mailboxes>,
        interpreting: Arc<AtomicBool>,
        listener: Listener,
    ) -> Cancel {
        listener(Event::Interpreting);
        let (switch, start): (Weak<Switch>, _) = (Arc::downgrade(switch), Instant::now());
        let cancel = self.cancel.clone();
        let cancelled = cancel.clone();
        let then = move |made: Made| match made {
            Ok(code) => {
                if hand_out(&code, &switch, &mailboxes, &cancelled) {
                    listener(Event::MachineCode(start.elapsed()));
                    interpreting.store(false, Ordering::Relaxed);
                }
            }
            Err(error) => listener(Event::NoMachineCode(&error)),
        };
        self.awaited = self.late.send(Box::new(then)).is_ok();
        cancel
    }
}

fn bug(what: &str) -> ProgramError {
    ProgramError::new(ErrorKind::Internal, format!("internal error: {what} (please report)"))
}

/// Gives the code to the workers as soon as none is stuck. Returns false if they run another program by then, or end.
fn hand_out(code: &Arc<Compiled>, switch: &Weak<Switch>, mailboxes: &Mailboxes, cancelled: &Cancel) -> bool {
    while !cancelled.is_cancelled() {
        let Some(switch) = switch.upgrade() else { return false };
        if mailboxes.not_stuck().is_ok() {
            let engines = (0..mailboxes.all().len()).map(|index| switch.engine(code, index));
            let acts = engines.map(|engine| {
                let switch = Arc::clone(&switch);
                move |f: &mut Forwarder| {
                    Arc::ptr_eq(f.worker().switch(), &switch) && f.worker().change_engine(engine).is_ok()
                }
            });
            match mailboxes.hand_out(acts) {
                // A worker that does not answer yet switches later.
                Ok(changed) => return changed.iter().any(|changed| *changed != Some(false)),
                Err(RunError::Stuck(_)) => {}
                Err(_) => return false,
            }
        }
        drop(switch);
        std::thread::sleep(ASK);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn recorder() -> (Listener, Receiver<String>) {
        let (sender, events) = channel();
        let sender = Mutex::new(sender);
        let listener: Listener = Arc::new(move |event| {
            let text = match event {
                Event::NoMachineCode(why) => why.to_string(),
                other => format!("{other:?}"),
            };
            let _ = sender.lock().expect("no holder panics").send(text);
        });
        (listener, events)
    }

    /// A panic of the compiler while packets flow is reported like any other error.
    #[test]
    fn a_late_panic_is_reported() {
        let program = p4jet_ir::text::parse("program \"none\"\n").expect("it is IR");
        let switch = Switch::new(program).expect("it has no state");
        let (panic_now, waits) = channel::<()>();
        let compiling = Compiling::start_with(move |_| {
            let _ = waits.recv();
            panic!("as the test wants")
        })
        .expect("there are threads");
        assert!(compiling.wait(Duration::ZERO).is_none());
        let (listener, events) = recorder();
        let mailboxes = Arc::new(Mailboxes::new(Vec::new(), Arc::clone(&listener)));
        let interpreting = Arc::new(AtomicBool::new(true));
        compiling.change_over(&switch, mailboxes, interpreting, listener);
        let long = Duration::from_secs(60);
        assert_eq!(events.recv_timeout(long).as_deref(), Ok("Interpreting"));
        drop(panic_now);
        let why = events.recv_timeout(long).expect("the listener gets the failure");
        assert!(why.contains("the compiler panicked"), "{why}");
    }

    #[test]
    fn dropping_cancels() {
        let (sender, events) = channel();
        let compiling = Compiling::start_with(move |cancel| {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !cancel.is_cancelled() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = sender.send(cancel.is_cancelled());
            Err(bug("cancelled"))
        })
        .expect("there are threads");
        drop(compiling);
        assert_eq!(events.recv_timeout(Duration::from_secs(120)), Ok(true));
    }
}
