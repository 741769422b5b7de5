//! Follows an injected packet and its copies until all of them have ended.

use p4jet_packet::{PORT_DROP, Packet, REASON_DONE};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of injected packets that one worker follows at a time.
pub(crate) const FOLLOWED_MAX: usize = 64;
/// Maximum number of packets that [`Injected::left`] names.
pub const LEFT_MAX: usize = 1024;

/// What became of an injected packet and its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// The egress port and the bytes of packets that left, in order; at most [`LEFT_MAX`].
    pub left: Vec<(u32, u32)>,
    /// Number of further packets that left.
    pub more: u64,
    /// Numbers of dropped packets, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// True if the list may be incomplete: copies still waited, or nobody followed them.
    pub waits: bool,
}

/// An injected packet, shared by the workers that hold it or its copies, and by the caller.
#[derive(Clone, Default)]
pub(crate) struct Followed(Arc<Mutex<Injected>>);

impl Followed {
    fn lock(&self) -> MutexGuard<'_, Injected> {
        // Data behind this lock is never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what became of one packet. `text` returns the text of a drop reason.
    pub fn note(&self, packet: &Packet, text: impl FnOnce(u32) -> String) {
        match (packet.egress_port, packet.drop_reason) {
            (PORT_DROP, REASON_DONE) => {}
            (PORT_DROP, reason) => self.drop(text(reason), 1),
            (port, _) => {
                let mut injected = self.lock();
                match injected.left.len() < LEFT_MAX {
                    true => injected.left.push((port, packet.len)),
                    false => injected.more += 1,
                }
            }
        }
    }

    /// Records dropped packets.
    pub fn drop(&self, reason: String, packets: u64) {
        *self.lock().dropped.entry(reason).or_default() += packets;
    }

    /// Records that nobody follows the packet's copies.
    pub fn lose(&self) {
        self.lock().waits = true;
    }

    /// True if only the caller is left.
    pub fn has_ended(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Returns what has been recorded.
    pub fn injected(&self) -> Injected {
        let injected = self.lock().clone();
        Injected { waits: injected.waits || !self.has_ended(), ..injected }
    }
}
