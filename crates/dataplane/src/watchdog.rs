//! The watchdog: reads the pulses of all workers and reports those that get stuck.

use crate::event::{Event, Listener};
use crate::forward::Forwarder;
use crate::mailbox::Mailbox;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Interval of the watchdog's checks.
const LOOK: Duration = Duration::from_millis(100);

/// The watchdog's observations of a worker.
#[derive(Default)]
struct Seen {
    beat: u64,
    /// Time for which the beat has not changed.
    still: Duration,
    /// True after the worker was reported as stuck.
    reported: bool,
}

/// Checks the workers until `end` arrives, and reports those that get stuck and those that continue.
pub(crate) fn watch(mailboxes: &[Arc<Mailbox<Forwarder>>], listener: &Listener, end: &Receiver<()>) {
    let mut seen: Vec<Seen> = mailboxes.iter().map(|_| Seen::default()).collect();
    let mut last = Instant::now();
    while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let passed = last.elapsed();
        last += passed;
        for (worker, (mailbox, seen)) in mailboxes.iter().zip(&mut seen).enumerate() {
            look(worker, mailbox, seen, passed, listener);
        }
    }
}

/// Checks one worker, `passed` after the previous check.
fn look(worker: usize, mailbox: &Mailbox<Forwarder>, seen: &mut Seen, passed: Duration, listener: &Listener) {
    let pulse = &mailbox.pulse;
    // A late check shows that the watchdog did not run. Perhaps the workers did not either: the process was paused.
    seen.still += passed.min(2 * LOOK);
    let beat = pulse.beat();
    if beat != seen.beat || mailbox.is_closed() {
        // Before the event, so that a listener that acts on it finds a worker that is not stuck.
        pulse.set_still(Duration::ZERO);
        let before = std::mem::replace(seen, Seen { beat, ..Seen::default() });
        if before.reported {
            listener(Event::Unstuck(worker, before.still));
        }
        return;
    }
    pulse.set_still(seen.still);
    if !seen.reported && pulse.stuck_for().is_some() {
        seen.reported = true;
        listener(Event::Stuck(&pulse.report(worker)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pulse::STUCK_AFTER;

    /// A process that was paused, with its watchdog, has no stuck workers.
    #[test]
    fn a_pause_of_the_watchdog_counts_as_one_look() {
        let mailbox = Mailbox::new().expect("there are descriptors");
        let (sender, events) = std::sync::mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let listener: Listener = Arc::new(move |event| {
            let sender = sender.lock().expect("no holder panics");
            sender.send(matches!(event, Event::Stuck(_))).expect("the test listens");
        });
        let mut seen = Seen::default();
        let mut pass = |time: Duration| look(0, &mailbox, &mut seen, time, &listener);
        for _ in 0..3 {
            pass(20 * STUCK_AFTER);
        }
        assert_eq!(mailbox.pulse.stuck_for(), None);
        assert_eq!(events.try_iter().count(), 0, "no event");
        (0..STUCK_AFTER.as_millis() / LOOK.as_millis()).for_each(|_| pass(LOOK));
        assert!(mailbox.pulse.stuck_for().is_some());
        mailbox.pulse.looks();
        pass(LOOK);
        assert_eq!(mailbox.pulse.stuck_for(), None);
        assert_eq!(events.try_iter().collect::<Vec<_>>(), [true, false], "it gets stuck, then it continues");
    }
}
