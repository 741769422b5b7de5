//! Notifications: digests and idle entries.

use super::device::{Device, lock};
use p4jet_control::{Control, Entity, Event, Selector, Subscription, Topics};
use p4jet_dataplane::Switch;
use p4jet_ir::TableId;
use p4jet_p4info::proto::v1;
use prost::Message;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Maximum wait for an event.
const WAIT: Duration = Duration::from_millis(100);
/// Maximum number of idle entries whose notification is repeated.
const REPEATED_MAX: usize = 1 << 16;

/// Times at which notifications of idle entries are repeated, by table and handle.
type Idle = BTreeMap<(TableId, u32), Instant>;

/// Notifies controllers of events until `stop` is set or the switch ends.
pub fn run(device: &Weak<Device>, mut events: Subscription, stop: &AtomicBool) {
    // Restored state may refer to other ports.
    if let Some(device) = device.upgrade() {
        device.follow_ports(None);
    }
    let mut idle = Idle::new();
    let mut of: Weak<Switch> = Weak::new();
    let (mut wait, mut next_idle) = (WAIT, None::<Instant>);
    while !stop.load(Ordering::Relaxed) && !events.has_ended() {
        let event = events.next_event(wait);
        let Some(device) = device.upgrade() else { return };
        // Also notices programs loaded by `ctl load`, and restored dumps.
        if let Some(configured) = device.running() {
            configured.pipeline.follow_restore_of(&device.switch);
        }
        let control = device.switch.control();
        if !std::ptr::eq(of.as_ptr(), Arc::as_ptr(control.switch())) {
            of = Arc::downgrade(control.switch());
            idle.clear();
            next_idle = None;
        }
        let now = Instant::now();
        match event {
            Some(Event::Digest { digest, values, .. }) => device.take_digest(&control, digest, &values, now),
            Some(Event::Aged { table, entry }) => {
                if idle.len() < REPEATED_MAX
                    && let Some(life) = entry.life
                {
                    let again = now + Duration::from_millis(u64::from(life.timeout_ms).max(1));
                    idle.insert((table, entry.handle), again);
                    next_idle = Some(next_idle.map_or(again, |next| next.min(again)));
                }
                device.send_idle(table, &entry);
            }
            Some(Event::Lost(count)) => {
                device.follow_ports(None);
                device.counts.digests_dropped.fetch_add(count, Ordering::Relaxed);
            }
            Some(Event::Port { port, .. }) => device.follow_ports(Some(port)),
            None => {}
        }
        let next_list = device.send_due_lists(now);
        if next_idle.is_some_and(|next| next <= now) {
            next_idle = device.repeat_idle(&control, &mut idle, now);
        }
        let next = next_list.into_iter().chain(next_idle).min();
        wait = next.map_or(WAIT, |next| next.saturating_duration_since(now).min(WAIT));
    }
}

/// Subscribes to these events.
pub fn subscribe(device: &Device) -> Option<Subscription> {
    device.switch.subscribe(Topics { digests: true, ageing: true, ports: true }).ok()
}

impl Device {
    /// Applies the state of all ports, or of the changed one, to groups and copies.
    pub(super) fn follow_ports(&self, changed: Option<u32>) {
        match crate::links::follow(&self.switch, changed) {
            Ok(None) => {}
            Ok(Some(note)) => (self.log)(note),
            Err(refusal) => (self.log)(format!("P4Runtime cannot follow the ports: {}", refusal.message)),
        }
    }

    fn take_digest(
        &self,
        control: &Control,
        digest: p4jet_ir::InstanceId,
        values: &[num_bigint::BigUint],
        now: Instant,
    ) {
        let Some(configured) = self.running() else { return };
        let Some((id, data)) = configured.pipeline.show_digest(control, digest, values) else { return };
        let config = configured.pipeline.wanted().get(&id).cloned();
        let Some(config) = config else { return };
        let list = lock(&self.lists).take(id, &config, data, now);
        self.send_lists(list.into_iter().collect());
    }

    /// Sends the lists that are due. Returns the time of the next one.
    fn send_due_lists(&self, now: Instant) -> Option<Instant> {
        let configured = self.running()?;
        let (due, next) = lock(&self.lists).due(&configured.pipeline.wanted(), now);
        self.send_lists(due);
        next
    }

    fn send_lists(&self, lists: Vec<v1::DigestList>) {
        for list in lists {
            let count = list.data.len() as u64;
            let id = list.digest_id;
            let update = Some(v1::StreamResponse::Digest(list));
            if !self.send_to_primaries(id, v1::StreamMessageResponse { update }) {
                self.counts.digests_dropped.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    fn send_idle(&self, table: TableId, entry: &p4jet_control::EntryState) {
        let Some(configured) = self.running() else { return };
        let Some(entry) = configured.pipeline.show_idle(&self.switch.control(), table, entry) else { return };
        let table = entry.table_id;
        // One entry per notification: some clients read only the first.
        let timeout = v1::IdleTimeoutNotification { table_entry: vec![entry], timestamp: super::now_ns() };
        let update = Some(v1::StreamResponse::IdleTimeoutNotification(timeout));
        self.send_to_primaries(table, v1::StreamMessageResponse { update });
    }

    /// Repeats the notification of entries that were idle for another timeout. Returns when the next one is due.
    fn repeat_idle(&self, control: &Control, idle: &mut Idle, now: Instant) -> Option<Instant> {
        let due: Vec<(TableId, u32)> =
            idle.iter().filter(|(_, again)| **again <= now).map(|(entry, _)| *entry).collect();
        for (table, handle) in due {
            let page = control.read(&Selector::Entry(table, handle), 0, 1).ok();
            let state = page.and_then(|page| page.entities.into_iter().next());
            let again = match state {
                Some(Entity::Entry(entry)) => entry.life.and_then(|life| {
                    // After a hit the data plane reports the entry when it is idle again.
                    let is_idle = life.timeout_ms > 0 && life.since_hit_ms >= u64::from(life.timeout_ms);
                    is_idle.then(|| {
                        self.send_idle(table, &entry);
                        now + Duration::from_millis(u64::from(life.timeout_ms))
                    })
                }),
                _ => None,
            };
            match again {
                Some(again) => idle.insert((table, handle), again),
                None => idle.remove(&(table, handle)),
            };
        }
        idle.values().min().copied()
    }

    /// Sends a message about an object to the primaries whose roles include it. Returns false if none takes it.
    fn send_to_primaries(&self, id: u32, message: v1::StreamMessageResponse) -> bool {
        let primaries = self.primaries_of(id);
        let message = bytes::Bytes::from(message.encode_to_vec());
        primaries.iter().filter(|primary| primary.put(message.clone())).count() > 0
    }
}
