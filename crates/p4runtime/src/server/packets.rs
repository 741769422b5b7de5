//! Packets to and from controllers, and the thread that delivers those from the switch.

use super::device::Device;
use super::roles::Role;
use bytes::Bytes;
use p4jet_p4info::proto::v1;
use p4jet_ports::FromSwitch;
use prost::Message;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Maximum number of packets that are delivered together.
const AT_ONCE: usize = 64;
/// Maximum time that the thread waits for packets before it checks whether the server has ended.
const WAIT: Duration = Duration::from_millis(100);

/// Delivers packets from a CPU port to primaries until `stop` is set or the port is closed.
pub fn bring(device: &Weak<Device>, mut from: FromSwitch, stop: &AtomicBool) {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    while !stop.load(Ordering::Relaxed) && !from.is_abandoned() {
        let mut count = 0;
        from.receive(AT_ONCE, WAIT, |frame| {
            if count == frames.len() {
                frames.push(Vec::with_capacity(2048));
            }
            frames[count].clear();
            frames[count].extend_from_slice(frame);
            count += 1;
        });
        if count == 0 {
            continue;
        }
        let Some(device) = device.upgrade() else { return };
        let counts = &device.counts;
        let receivers = device.receivers();
        let configured = device.known();
        let (Some(configured), false) = (configured, receivers.is_empty()) else {
            counts.packet_ins_dropped.fetch_add(count as u64, Ordering::Relaxed);
            continue;
        };
        configured.pipeline.follow_restore_of(&device.switch);
        let packets: Vec<Bytes> =
            frames[..count].iter().filter_map(|frame| configured.packet_in(frame)).collect();
        counts.packet_ins_short.fetch_add((count - packets.len()) as u64, Ordering::Relaxed);
        for (primary, role) in receivers {
            let dropped = match role {
                None => primary.put_packets(packets.iter().cloned()),
                Some(role) => {
                    primary.put_packets(packets.iter().filter(|packet| takes(&role, packet)).cloned())
                }
            };
            counts.packet_ins_dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }
}

/// True if a role with a configuration takes a packet, which is a StreamMessageResponse in binary form.
fn takes(role: &Role, packet: &Bytes) -> bool {
    match v1::StreamMessageResponse::decode(packet.clone()) {
        Ok(v1::StreamMessageResponse { update: Some(v1::StreamResponse::Packet(packet)) }) => {
            role.takes_packet(&packet)
        }
        _ => false,
    }
}

/// A controller's packets on their way to the switch.
pub type ToSwitch = Arc<std::sync::Mutex<p4jet_ports::ToSwitch>>;
