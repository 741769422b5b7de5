//! Machine code that a thread makes while packets may flow already, by the interpreter.

use crate::forward::{Event, Forwarder, Listener};
use crate::mailbox::Mailbox;
use crate::running::hand_out;
use crate::switch::Switch;
use p4jet_jit::{Cancel, Compiled};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

type Made = Result<Arc<Compiled>, String>;

/// Machine code in the making. Dropping it ends that, unless workers wait for the code.
pub(crate) struct Compiling {
    cancel: Cancel,
    made: Receiver<Made>,
    /// What is to be done with the code if it was not there in time.
    late: Sender<Box<dyn FnOnce(Made) + Send>>,
}

impl Compiling {
    /// Begins.
    pub fn start(switch: &Arc<Switch>) -> std::io::Result<Compiling> {
        let cancel = Cancel::default();
        let ((done, made), (late, then)) = (channel(), channel::<Box<dyn FnOnce(Made) + Send>>());
        let (switch, cancelled) = (Arc::clone(switch), cancel.clone());
        std::thread::Builder::new().name("compiler".to_string()).spawn(move || {
            let code = switch.code_unless(&cancelled).map_err(|e| switch.describe(&e));
            // The thread shall not be the last to have the switch.
            drop(switch);
            let _ = done.send(code.clone());
            drop(done);
            if let Ok(then) = then.recv()
                && !cancelled.is_cancelled()
            {
                then(code);
            }
        })?;
        Ok(Compiling { cancel, made, late })
    }

    /// The code, if it is there in time.
    pub fn wait(&self, wait: Duration) -> Option<Made> {
        match self.made.recv_timeout(wait) {
            Ok(made) => Some(made),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err("internal error: the compiler panicked (please report)".to_string()))
            }
        }
    }

    /// Lets these workers, which interpret, change over to the code between two batches when it is there; what that can
    /// be ended with.
    pub fn change_over(
        self,
        switch: &Arc<Switch>,
        mailboxes: Vec<Arc<Mailbox>>,
        interpreting: Arc<AtomicBool>,
        listener: Listener,
    ) -> Cancel {
        listener(Event::Interpreting);
        let (switch, start): (Weak<Switch>, _) = (Arc::downgrade(switch), Instant::now());
        let then = move |made: Made| match made {
            Ok(code) => {
                let Some(switch) = switch.upgrade() else { return };
                let engines = (0..mailboxes.len()).map(|index| switch.engine(&code, index));
                let acts = engines.map(|engine| {
                    let switch = Arc::clone(&switch);
                    move |f: &mut Forwarder| match Arc::ptr_eq(f.worker().switch(), &switch) {
                        true => f.worker().change_engine(engine).is_ok(),
                        false => false,
                    }
                });
                let changed = hand_out(&mailboxes, acts).is_ok_and(|changed| changed.contains(&true));
                if changed {
                    listener(Event::MachineCode(start.elapsed()));
                    interpreting.store(false, Ordering::Relaxed);
                }
            }
            Err(why) => listener(Event::NoMachineCode(&why)),
        };
        let _ = self.late.send(Box::new(then));
        self.cancel
    }
}
