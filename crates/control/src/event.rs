//! Events of a running switch for subscribers.

use crate::read::EntryState;
use num_bigint::BigUint;
use p4jet_dataplane::{Notice, PortChange};
use p4jet_externs::limb_count;
use p4jet_ir::{InstanceId, InstanceKind, TableId};
use p4jet_tables::{Entry, EntryHandle, Life};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The program sent a digest.
    Digest {
        /// The digest's instance.
        digest: InstanceId,
        /// Time in microseconds since the switch started.
        time_us: u64,
        /// The values of its fields, in order.
        values: Vec<BigUint>,
    },
    /// An entry was not hit for its timeout.
    Aged {
        /// Its table.
        table: TableId,
        /// The entry. Its direct counters and meters are not read.
        entry: EntryState,
    },
    /// A port was added or removed, or its link changed.
    Port {
        /// Its number.
        port: u32,
        /// The change.
        change: PortChange,
    },
    /// The subscriber read too slowly and lost this many events.
    Lost(u64),
}

impl Event {
    /// Converts a notice of the data plane to an event.
    pub fn new(notice: &Notice) -> Event {
        match notice {
            Notice::Digest { switch, digest } => {
                let sender = &switch.program().instances[digest.instance as usize];
                let declared = match &sender.kind {
                    InstanceKind::Digest { fields } => fields.as_slice(),
                    _ => &[],
                };
                let values = limbs_of_fields(declared, &digest.limbs).map(|(_, _, limbs)| value_of(limbs));
                Event::Digest {
                    digest: InstanceId(digest.instance),
                    time_us: digest.now_us,
                    values: values.collect(),
                }
            }
            Notice::Aged { table, handle, entry, life, .. } => {
                Event::Aged { table: *table, entry: aged(*handle, entry, *life) }
            }
            Notice::Port { number, change } => Event::Port { port: *number, change: change.clone() },
        }
    }
}

/// The state of an entry that has aged.
pub fn aged(handle: EntryHandle, entry: &Entry, life: Life) -> EntryState {
    EntryState {
        handle: handle.0,
        key: entry.key.clone(),
        priority: entry.priority,
        action: entry.action.clone(),
        life: Some(life),
        counters: Vec::new(),
        meters: Vec::new(),
    }
}

/// Name, width and value of each field of a digest.
pub fn limbs_of_fields<'a>(
    declared: &'a [(String, u32)],
    limbs: &'a [u64],
) -> impl Iterator<Item = (&'a str, u32, &'a [u64])> {
    let mut rest = limbs;
    declared.iter().map(move |(name, width)| {
        let (value, after) = rest.split_at(limb_count(*width).min(rest.len()));
        rest = after;
        (name.as_str(), *width, value)
    })
}

/// The value of these limbs, lowest first.
pub fn value_of(limbs: &[u64]) -> BigUint {
    BigUint::new(limbs.iter().flat_map(|limb| [*limb as u32, (*limb >> 32) as u32]).collect())
}

/// The events of a switch. Dropping it ends the subscription.
pub struct Subscription {
    from: p4jet_dataplane::Subscription,
    waiting: VecDeque<Arc<Notice>>,
    lost: u64,
    ended: bool,
}

impl Subscription {
    pub(crate) fn new(from: p4jet_dataplane::Subscription) -> Subscription {
        Subscription { from, waiting: VecDeque::new(), lost: 0, ended: false }
    }

    /// Returns the next event; waits at most this long.
    pub fn next_event(&mut self, wait: Duration) -> Option<Event> {
        self.next_as(wait, Event::new, Event::Lost)
    }

    /// Like [`Self::next_event`] in another form: `new` converts an event, `lost` a number of lost ones.
    pub fn next_as<T>(
        &mut self,
        wait: Duration,
        new: impl Fn(&Notice) -> T,
        lost: impl Fn(u64) -> T,
    ) -> Option<T> {
        if self.waiting.is_empty() && self.lost == 0 && !self.ended {
            let received = self.from.receive(wait);
            (self.waiting, self.lost, self.ended) = (received.notices, received.lost, received.ended);
        }
        if let Some(notice) = self.waiting.pop_front() {
            return Some(new(&notice));
        }
        match std::mem::take(&mut self.lost) {
            0 => None,
            messages => Some(lost(messages)),
        }
    }

    /// True if no event can follow, because the switch has stopped.
    pub fn has_ended(&self) -> bool {
        self.ended && self.waiting.is_empty() && self.lost == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_values() {
        let text = include_str!("../tests/common/sample.ir").replacen(
            "instance ",
            "instance seen digest { a: 9, b: 128, c: 48 }\ninstance ",
            1,
        );
        let program = p4jet_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let switch = p4jet_dataplane::Switch::new(program).unwrap();
        let digest = p4jet_externs::Digest { instance: 0, now_us: 7, limbs: [5, 6, 1, 9].into() };
        let values = vec![5u32.into(), (BigUint::from(1u32) << 64u32) + 6u32, 9u32.into()];
        let notice = Notice::Digest { switch, digest };
        assert_eq!(Event::new(&notice), Event::Digest { digest: InstanceId(0), time_us: 7, values });
        let notice = Notice::Port { number: 3, change: PortChange::Removed };
        assert_eq!(Event::new(&notice), Event::Port { port: 3, change: PortChange::Removed });
    }
}
