//! AF_PACKET: a network interface of the kernel as a port.
//!
//! With several workers, each has its own sockets, and the kernel distributes frames among them by the hash of their flow
//! (`PACKET_FANOUT_HASH`): each flow belongs to one worker, which sends in the order in which it received. Fragments are
//! hashed by their addresses alone, and all non-IP frames go to one worker.
//!
//! If an interface disappears, the port looks for its name and replaces the sockets, because a fanout group does not let the
//! old ones return to an interface.
//!
//! Receiving uses a ring shared with the kernel, without system calls while frames are available; sending hands over a batch
//! in one `sendmmsg`. The port changes nothing on the interface except promiscuous mode, which ends with the port.
//!
//! Why no transmit ring: it is slower. Batches of 64 over veth, Linux 6.18, one core: `sendmmsg` 2.30 Mpps of 60 bytes
//! and 2.14 of 1514, TX ring 2.18 and 1.94; the kernel copies out of the ring all the same, and allocates pages for it.
//! `PACKET_QDISC_BYPASS` gains nothing (2.27 and 2.20), and hides what is sent from tcpdump.
//!
//! **A slow link** (a `tc` qdisc with a rate, a slow card) is recognised by the bytes that the sending socket has in the
//! kernel; in bmv2, writes block once they fill the socket's buffer. If the switch has its own output queues that follow the
//! link ([`Port::room`]), the port accepts no more than that; frames that a qdisc with a lower limit refuses wait here, at
//! most a batch, and are sent again.
//!
//! **Frames arrive as on a wire.** A kernel at the other end of a veth leaves checksums and segmentation unfinished, and its
//! end, in another namespace, cannot be configured from here (`ethtool -K` on our end changes what we send, not what it
//! sends). So the port asks the kernel for a `virtio_net_hdr` before each frame, which describes the unfinished work, and does
//! it (offload.rs). A GSO frame of up to 64 KiB does not fit a slot of the ring: the kernel then queues the whole frame on the
//! socket and marks the slot (`PACKET_COPY_THRESH`, `TP_STATUS_COPY`), in the same order. A VLAN tag, which the kernel removes
//! from the frame, is restored.

// Reason: system calls on C structures.
#![allow(unsafe_code)]

use crate::interface::{self, LinkState, get_option, set_option};
use crate::offload::{Segmenter, VNET_HEADER_BYTES, VnetHeader};
use crate::ring::{RxRing, Slot};
use crate::{LinkStatus, Port, PortError, PortStats, Received, Sent};
use p4jet_packet::{BATCH_MAX, Batch, Pool, PushError};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of a slot in addition to the frame: the kernel's header, its address structure, the `virtio_net_hdr`, alignment.
const SLOT_OVERHEAD: usize = 128;
/// Bytes of a frame that the MTU does not count: an Ethernet header, two VLAN tags.
const FRAME_OVERHEAD: usize = 14 + 2 * TAG_BYTES;
/// Size of the receive ring in bytes, and its minimum number of slots: at 1 Mpps, 4096 slots last for 4 ms in which the switch
/// may be busy.
const RING_BYTES: usize = 8 << 20;
const RING_SLOTS_MIN: usize = 512;
/// Bytes of frames that may wait in the kernel: GSO frames to receive, and frames to send. The kernel's count is generous.
const SOCKET_BUFFER_BYTES: i32 = 16 << 20;
/// Maximum length of a GSO frame: an IP packet with its Ethernet header and tags, and a little more.
const GSO_FRAME_MAX: usize = (64 << 10) + 64;
/// Bytes of a VLAN tag, and of the addresses before it.
const TAG_BYTES: usize = 4;
const ADDRESSES_BYTES: usize = 12;
/// The TPID if none is given: 802.1Q.
const TPID_DEFAULT: u16 = 0x8100;
/// Number of empty receives per check of the socket for an error, because the check costs a system call.
const EMPTY_PER_LOOK: u32 = 16;
/// A link is busy if the kernel has this many bytes, by its own count: the size of a socket's buffer
/// (`net.core.wmem_default`), in which frames of bmv2 wait. It suffices for a link of 1 Gbit/s between two checks, but a delay
/// of a few milliseconds does not make a link slow.
const LINK_BYTES_MAX: usize = 212_992;
/// The kernel's count for a frame of 1500 bytes; less for short ones.
const LINK_FRAME_BYTES: usize = 2304;
/// Time after which a refused frame is sent again.
const RETRY: Duration = Duration::from_millis(1);
/// Time after a refusal during which the link gets frames one by one.
const REFUSED_LATELY: Duration = Duration::from_millis(100);
/// Interval at which the port looks for a missing interface.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A worker's handle of a network interface as a port.
#[derive(Debug)]
pub struct AfPacketPort {
    common: Arc<Common>,
    sockets: Sockets,
    /// The interface was down at the last check.
    was_down: bool,
    /// True if the interface has been renamed.
    is_renamed: bool,
    /// Set if the sockets are no longer usable: the reason.
    gone: Option<String>,
    /// When to look for the interface again.
    look_at: Instant,
    /// New sockets being opened. The kernel takes tens of milliseconds, for which frames of other ports must not wait: a
    /// thread opens them and closes the old ones.
    opening: Option<JoinHandle<Result<Sockets, PortError>>>,
    /// A GSO frame being segmented, and the `virtio_net_hdr` before it.
    gso: Vec<u8>,
    gso_rest: Option<(Segmenter, Option<Tag>)>,
    empty: u32,
    /// Set by the first [`Port::room`].
    following: Option<Following>,
    stats: PortStats,
}

/// A handle's view of a link that output queues follow.
#[derive(Debug, Default)]
struct Following {
    /// Frames that the link's queue has refused, at most [`BATCH_MAX`].
    refused: VecDeque<Vec<u8>>,
    /// Time of the last refusal.
    refused_at: Option<Instant>,
    /// Time of the last attempt to send them again.
    tried_at: Option<Instant>,
}

/// Shared by the handles of an interface.
#[derive(Debug)]
struct Common {
    name: String,
    /// Maximum number of bytes of a frame to expect.
    frame_max: usize,
    /// Number of handles that receive: the first ones.
    receivers: usize,
    /// The kernel's number of the fanout group, and the interface to which it belongs.
    group: Mutex<Option<(u32, u16)>>,
}

/// The sockets of a handle, usable while the interface exists.
#[derive(Debug)]
struct Sockets {
    index: u32,
    receives: bool,
    ring: RxRing,
    rx: OwnedFd,
    tx: OwnedFd,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug)]
struct Tag {
    tpid: u16,
    tci: u16,
}

impl Common {
    /// Opens sockets on the interface and, with several receivers, joins the group. If it receives, frames arrive after
    /// [`Sockets::start`].
    fn open(&self, receives: bool) -> Result<Sockets, PortError> {
        let name = &*self.name;
        let index = interface::index(name).ok_or_else(|| interface::missing(name))?;
        if !interface::is_ethernet(name) {
            return Err(PortError::environment(format!(
                "network interface `{name}` does not carry Ethernet frames (a tunnel?): p4jet cannot use it"
            )));
        }
        let fail = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| refused(name, &what, &error)
        };
        // Protocol 0: nothing arrives before `bind`, and on the sending socket never.
        let open =
            || interface::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(fail("open a packet socket"));
        let (rx, tx) = (open()?, open()?);

        set_option(&rx, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)
            .map_err(fail("ask for offload information"))?;
        set_option(&rx, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1)
            .map_err(fail("ask for long frames"))?;
        // Since Linux 4.20; on an older kernel, `receive` filters them.
        let _ = set_option(&rx, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
        for (socket, force, plain) in
            [(&rx, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (&tx, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            // Forcing requires CAP_NET_ADMIN; without it, the system's limit applies. Less room means more loss in bursts.
            if set_option(socket, libc::SOL_SOCKET, force, &SOCKET_BUFFER_BYTES).is_err() {
                let _ = set_option(socket, libc::SOL_SOCKET, plain, &SOCKET_BUFFER_BYTES);
            }
        }
        // Smaller slots are more numerous. Frames that do not fit one, if the MTU grows, still arrive, only more slowly.
        let frame_max =
            interface::mtu(name).map_or(self.frame_max, |mtu| self.frame_max.min(mtu + FRAME_OVERHEAD));
        let slot_bytes = (frame_max + SLOT_OVERHEAD).next_power_of_two().clamp(2048, 64 << 10);
        let slots = if receives { (RING_BYTES / slot_bytes).max(RING_SLOTS_MIN) } else { RING_SLOTS_MIN };
        let ring = RxRing::new(&rx, slots, slot_bytes).map_err(fail("map a receive ring"))?;
        let in_group = receives && self.receivers > 1;
        if in_group {
            interface::refuse_all(&rx).map_err(fail("set a filter"))?;
        }
        bind(&rx, index, if receives { libc::ETH_P_ALL as u16 } else { 0 }).map_err(fail("bind to it"))?;
        bind(&tx, index, 0).map_err(fail("bind to it"))?;
        if in_group {
            self.join(&rx, index).map_err(fail("share it between workers (PACKET_FANOUT)"))?;
        }
        let promiscuous = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(&rx, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)
            .map_err(fail("set promiscuous mode"))?;
        Ok(Sockets { index, receives, ring, rx, tx })
    }

    /// Joins the group of the interface, or creates one.
    ///
    /// The group is by hash, without `PACKET_FANOUT_FLAG_ROLLOVER`, which would break the order within a flow, and without
    /// `PACKET_FANOUT_FLAG_DEFRAG`, which would reassemble fragments that must be forwarded unchanged.
    fn join(&self, rx: &OwnedFd, index: u32) -> io::Result<()> {
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        let join = |id: u16, flags: u32| {
            let how = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING | flags;
            set_option(rx, libc::SOL_PACKET, libc::PACKET_FANOUT, &(u32::from(id) | how << 16)).or_else(
                |_| {
                    // Before Linux 5.11, `receive` filters them.
                    let how = libc::PACKET_FANOUT_HASH | flags;
                    set_option(rx, libc::SOL_PACKET, libc::PACKET_FANOUT, &(u32::from(id) | how << 16))
                },
            )
        };
        if let Some((of, id)) = *group
            && of == index
            && join(id, 0).is_ok()
        {
            return Ok(());
        }
        // This is the first handle, or the group belongs to a deleted interface that had the same number.
        join(0, libc::PACKET_FANOUT_FLAG_UNIQUEID)?;
        let [id] = get_option(rx, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        *group = Some((index, id as u16));
        Ok(())
    }
}

impl Sockets {
    /// Enables reception. With several receivers, this must wait until each of them has joined the group: otherwise a flow
    /// would move from one to another, and arrive twice before that.
    fn start(&self, common: &Common) -> Result<(), PortError> {
        if self.receives && common.receivers > 1 {
            interface::accept_all(&self.rx)
                .map_err(|error| refused(&common.name, "take off a filter", &error))?;
        }
        Ok(())
    }

    /// True if the interface is still the one to which they were bound, not deleted or moved to another namespace.
    fn are_bound(&self) -> bool {
        bound_to(&self.rx) == Some(self.index)
    }
}

impl AfPacketPort {
    /// Opens the interface `name` for frames of up to `frame_max` bytes (longer ones still arrive if the pool has room, at a
    /// cost). Returns a handle for each of `workers`, among which the kernel distributes the flows.
    ///
    /// An interface that is down can be opened: frames flow once it is up, and [`Port::notices`] reports it.
    ///
    /// # Errors
    ///
    /// There is no such interface, or no permission.
    pub fn open(name: &str, frame_max: usize, workers: usize) -> Result<Vec<AfPacketPort>, PortError> {
        AfPacketPort::open_for(name, frame_max, workers, workers)
    }

    /// Like [`Self::open`], but only the first `receivers` handles receive.
    pub(crate) fn open_for(
        name: &str,
        frame_max: usize,
        workers: usize,
        receivers: usize,
    ) -> Result<Vec<AfPacketPort>, PortError> {
        let common = Arc::new(Common {
            name: name.to_owned(),
            frame_max,
            receivers: receivers.max(1),
            group: Mutex::default(),
        });
        let open = |worker| common.open(worker < common.receivers);
        let sockets = (0..workers.max(1)).map(open).collect::<Result<Vec<_>, _>>()?;
        sockets.iter().try_for_each(|sockets| sockets.start(&common))?;
        let port = |sockets: Sockets| AfPacketPort {
            is_renamed: false,
            was_down: interface::state_at(&sockets.rx, sockets.index) != LinkState::Up,
            common: common.clone(),
            sockets,
            gone: None,
            look_at: Instant::now(),
            opening: None,
            gso: vec![0; VNET_HEADER_BYTES + GSO_FRAME_MAX],
            gso_rest: None,
            empty: 0,
            following: None,
            stats: PortStats::default(),
        };
        Ok(sockets.into_iter().map(port).collect())
    }

    /// Adds frames to `batch` until it is full or the ring is empty.
    fn drain(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) {
        while !batch.is_full() {
            if let Some((segmenter, tag)) = &mut self.gso_rest {
                let (frame, tag) = (&self.gso[VNET_HEADER_BYTES..], *tag);
                let result = batch.push_with(pool, number, |to| match tag {
                    None => segmenter.next_segment(frame, to),
                    Some(tag) => tag.insert(to, |to| segmenter.next_segment(frame, to)),
                });
                if segmenter.is_done() {
                    self.gso_rest = None;
                }
                self.count(result);
                continue;
            }
            let Some(slot) = self.sockets.ring.peek() else { break };
            let tag = (slot.status & libc::TP_STATUS_VLAN_VALID != 0).then_some(Tag {
                tpid: if slot.status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
                    TPID_DEFAULT
                } else {
                    slot.vlan_tpid
                },
                tci: slot.vlan_tci,
            });
            let vnet =
                slot.before.last_chunk().map_or_else(VnetHeader::default, |bytes| VnetHeader::parse(*bytes));
            let outgoing = slot.packet_type == libc::PACKET_OUTGOING;
            if slot.captured < slot.len || vnet.is_gso() {
                let fetched = fetch(&self.sockets.rx, &slot, &mut self.gso);
                // The slot can be released now, because `gso` contains everything.
                self.sockets.ring.release();
                match fetched {
                    _ if outgoing => {}
                    Ok(len) => self.start_long(len, tag, number, pool, batch),
                    Err(Lost::Overrun) => self.stats.rx_dropped_overrun += 1,
                    Err(Lost::Oversize) => self.stats.rx_dropped_oversize += 1,
                }
                continue;
            }
            let result = if outgoing {
                None
            } else if tag.is_none() && vnet.is_complete() {
                Some(batch.push_padded(pool, number, slot.padded, slot.len).map(|()| slot.len))
            } else {
                Some(push_completed(batch, pool, number, &slot.padded[..slot.len], &vnet, tag))
            };
            self.sockets.ring.release();
            if let Some(result) = result {
                self.count(result);
            }
        }
    }

    /// Starts with the frame of `len` bytes in `gso`.
    fn start_long(&mut self, len: usize, tag: Option<Tag>, number: u32, pool: &mut Pool, batch: &mut Batch) {
        let (vnet, rest) = self.gso.split_first_chunk().expect("longer than a virtio_net_hdr");
        let (vnet, frame) = (VnetHeader::parse(*vnet), &rest[..len]);
        if !vnet.is_gso() {
            let result = push_completed(batch, pool, number, frame, &vnet, tag);
            self.count(result);
            return;
        }
        match Segmenter::new(&vnet, frame) {
            None => self.stats.rx_dropped_malformed += 1,
            Some(segmenter) if segmenter.frame_max() + tag.map_or(0, |_| TAG_BYTES) > pool.frame_max() => {
                self.stats.rx_dropped_oversize += 1;
            }
            Some(segmenter) => self.gso_rest = Some((segmenter, tag)),
        }
    }

    #[inline]
    fn count(&mut self, pushed: Result<usize, PushError>) {
        match pushed {
            Ok(0) => self.stats.rx_dropped_malformed += 1,
            Ok(len) => {
                self.stats.rx_packets += 1;
                self.stats.rx_bytes += len as u64;
            }
            Err(PushError::Oversize) => self.stats.rx_dropped_oversize += 1,
            Err(PushError::Full) => unreachable!("room was checked"),
        }
    }

    /// Hands frames to the kernel, in order. Returns how many it accepted and how many are lost; its queue refused the others,
    /// if any.
    fn hand_over(&mut self, frames: &[&[u8]]) -> Handed {
        let mut handed = Handed::default();
        let mut bytes = 0;
        // Handles that know that the interface is gone no longer ask the kernel.
        let mut rest = if self.gone.is_some() { &[] } else { frames };
        handed.lost = frames.len() - rest.len();
        while !rest.is_empty() {
            let chunk = &rest[..rest.len().min(BATCH_MAX)];
            match send_many(&self.sockets.tx, chunk) {
                Ok(taken) => {
                    handed.taken += taken;
                    bytes += chunk[..taken].iter().map(|frame| frame.len() as u64).sum::<u64>();
                    rest = &rest[taken..];
                }
                // The error concerns the first frame, and none of the chunk was sent.
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The queue of the link, or the socket, is full: the frames may be sent later.
                    Some(libc::ENOBUFS | libc::EAGAIN) if self.following.is_some() => break,
                    Some(libc::ENXIO | libc::ENODEV) => {
                        self.lose();
                        handed.lost += rest.len();
                        break;
                    }
                    // Down, or no room to queue: the same holds for the other frames.
                    Some(libc::ENETDOWN | libc::EAGAIN | libc::ENOMEM) => {
                        handed.lost += rest.len();
                        break;
                    }
                    // Longer than the link's MTU, shorter than an Ethernet header, or the queue of the link is full.
                    _ => {
                        handed.lost += 1;
                        rest = &rest[1..];
                    }
                },
            }
        }
        self.stats.tx_packets += handed.taken as u64;
        self.stats.tx_bytes += bytes;
        self.stats.tx_dropped += handed.lost as u64;
        handed
    }

    /// Sends frames again that the link's queue refused, once it is time. True if none is left.
    fn try_again(&mut self) -> bool {
        let Some(following) = &mut self.following else { return true };
        if following.refused.is_empty() {
            return true;
        }
        let now = Instant::now();
        if following.tried_at.is_some_and(|at| now.duration_since(at) < RETRY) {
            return false;
        }
        let mut refused = mem::take(&mut following.refused);
        let frames: Vec<&[u8]> = refused.iter().map(|frame| &frame[..]).collect();
        let handed = self.hand_over(&frames);
        refused.drain(..handed.taken + handed.lost);
        let done = refused.is_empty();
        if let Some(following) = &mut self.following {
            following.tried_at = Some(now);
            if !done {
                following.refused_at = Some(now);
            }
            following.refused = refused;
        }
        done
    }

    /// Returns the bytes that the sending socket has in the kernel, by the kernel's count.
    fn bytes_under_way(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: TIOCOUTQ, which sockets call SIOCOUTQ, writes an int.
        let status = unsafe {
            libc::ioctl(self.sockets.tx.as_raw_fd(), libc::TIOCOUTQ, std::ptr::from_mut(&mut bytes))
        };
        // If the kernel returns no number, the link accepts everything.
        if status < 0 { 0 } else { usize::try_from(bytes).unwrap_or(0) }
    }

    /// Checks for changes of the interface. An interface that is merely down recovers without help.
    fn look(&mut self) {
        // Reading the error also clears it; otherwise poll(2) would report it for ever.
        self.look_at = Instant::now() + LOOK_EVERY;
        let [error] = get_option(&self.sockets.rx, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or([0]);
        if error != 0 || self.was_down || self.is_renamed {
            let Sockets { rx, index, .. } = &self.sockets;
            self.is_renamed = !interface::is_called(rx, *index, &self.common.name);
            // A renamed interface is the same one, until another one has its old name.
            let replaced =
                self.is_renamed && interface::index(&self.common.name).is_some_and(|named| named != *index);
            if !self.sockets.are_bound() || replaced {
                self.lose();
                return;
            }
            self.was_down = interface::state_at(&self.sockets.rx, self.sockets.index) != LinkState::Up;
        }
    }

    /// The interface is missing.
    fn lose(&mut self) {
        self.gone = Some(interface::gone(&self.common.name));
        self.look_at = Instant::now();
    }

    /// Checks whether an interface with the name of the missing one exists again.
    fn look_for_it(&mut self) {
        if let Some(opening) = self.opening.take_if(|opening| opening.is_finished()) {
            match opening.join() {
                Ok(Ok(sockets)) => {
                    // Includes the losses of the old ring.
                    self.stats();
                    let old = mem::replace(&mut self.sockets, sockets);
                    // Without a thread, this one closes them.
                    let _ = p4jet_threads::spawn("closing", move || drop(old));
                    self.gone = None;
                    (self.was_down, self.is_renamed) = (true, false);
                }
                // Unless it disappeared again meanwhile.
                Ok(Err(error)) if interface::index(&self.common.name).is_some() => {
                    self.gone = Some(error.to_string());
                }
                Ok(Err(_)) => {}
                // Tried again.
                Err(_) => {}
            }
            return;
        }
        let now = Instant::now();
        if self.opening.is_some() || now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        if interface::index(&self.common.name).is_some() {
            let (common, receives) = (self.common.clone(), self.sockets.receives);
            let open =
                move || common.open(receives).and_then(|sockets| sockets.start(&common).map(|()| sockets));
            self.opening = p4jet_threads::spawn("opening", open).ok();
        }
    }
}

impl Port for AfPacketPort {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let before = batch.len();
        if self.gone.is_none() {
            self.drain(number, pool, batch);
        }
        let count = batch.len() - before;
        if count > 0 || batch.is_full() {
            return Ok(Received::Packets(count));
        }
        self.empty = self.empty.wrapping_add(1);
        if self.gone.is_some() {
            self.look_for_it();
        } else if self.empty.is_multiple_of(EMPTY_PER_LOOK) && Instant::now() >= self.look_at {
            self.look();
        }
        Ok(Received::Empty)
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        let mut handed = match self.try_again() {
            true => self.hand_over(frames),
            // They wait behind those that were refused before.
            false => Handed::default(),
        };
        if let Some(following) = &mut self.following {
            let waiting = &frames[handed.taken + handed.lost..];
            let kept = waiting.len().min(BATCH_MAX.saturating_sub(following.refused.len()));
            following.refused.extend(waiting[..kept].iter().map(|frame| frame.to_vec()));
            if !waiting.is_empty() {
                let now = Some(Instant::now());
                (following.refused_at, following.tried_at) = (now, now);
            }
            let dropped = waiting.len() - kept;
            self.stats.tx_dropped += dropped as u64;
            handed.taken += kept;
            handed.lost += dropped;
        }
        Ok(Sent { sent: handed.taken, dropped: handed.lost })
    }

    fn room(&mut self) -> usize {
        self.following.get_or_insert_default();
        if self.gone.is_some() {
            return usize::MAX;
        }
        if !self.try_again() {
            return 0;
        }
        let room = LINK_BYTES_MAX.saturating_sub(self.bytes_under_way()) / LINK_FRAME_BYTES;
        let refused_at = self.following.as_ref().and_then(|following| following.refused_at);
        match refused_at {
            Some(at) if at.elapsed() < REFUSED_LATELY => room.min(1),
            _ => room,
        }
    }

    fn due(&mut self) -> Option<Duration> {
        (!self.try_again()).then_some(RETRY)
    }

    fn poll_fd(&self) -> Option<RawFd> {
        Some(self.sockets.rx.as_raw_fd())
    }

    fn stats(&mut self) -> PortStats {
        // `tpacket_stats`: frames, and how many of them found no room. Reading sets both to 0.
        let [_, drops] =
            get_option(&self.sockets.rx, libc::SOL_PACKET, libc::PACKET_STATISTICS).unwrap_or([0; 2]);
        self.stats.rx_dropped_overrun += u64::from(drops);
        let waiting = self.following.as_ref().map_or(0, |following| following.refused.len());
        PortStats { tx_waiting: waiting as u64, ..self.stats }
    }

    fn status(&self) -> LinkStatus {
        let name = &self.common.name;
        if let Some(why) = &self.gone {
            return LinkStatus::Down(why.clone());
        }
        interface::state_at(&self.sockets.rx, self.sockets.index).status(name)
    }

    fn notices(&self) -> Vec<String> {
        let name = &self.common.name;
        let down = match self.status() {
            LinkStatus::Up => None,
            LinkStatus::Down(why) => Some(why),
        };
        // The port does not change this, because it would outlast the switch.
        let merges = interface::merges_segments(name).then(|| {
            format!(
                "interface `{name}` merges the TCP segments that it receives (LRO), so they cannot be forwarded \
                 unchanged: disable it with `ethtool -K {name} lro off`"
            )
        });
        down.into_iter().chain(merges).collect()
    }
}

/// The result of handing frames to the kernel.
#[derive(Clone, Copy, Debug, Default)]
struct Handed {
    taken: usize,
    lost: usize,
}

/// Adds `frame`, completed as `vnet` describes, with its tag restored. `Ok(0)` if that is impossible; then nothing was added.
fn push_completed(
    batch: &mut Batch,
    pool: &mut Pool,
    number: u32,
    frame: &[u8],
    vnet: &VnetHeader,
    tag: Option<Tag>,
) -> Result<usize, PushError> {
    if frame.len() + tag.map_or(0, |_| TAG_BYTES) > pool.frame_max() {
        return Err(PushError::Oversize);
    }
    let complete = |to: &mut [u8]| {
        let to = &mut to[..frame.len()];
        to.copy_from_slice(frame);
        if vnet.complete_checksum(to) { to.len() } else { 0 }
    };
    batch.push_with(pool, number, |to| match tag {
        None => complete(to),
        Some(tag) => tag.insert(to, complete),
    })
}

impl Tag {
    /// Makes `fill` write a frame to `to` with room for the tag, and inserts the tag after the addresses. Returns the total
    /// length; 0 if `fill` wrote less than the addresses.
    fn insert(self, to: &mut [u8], fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let len = fill(&mut to[TAG_BYTES..]);
        if len < ADDRESSES_BYTES {
            return 0;
        }
        to.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES_BYTES, 0);
        to[ADDRESSES_BYTES..][..2].copy_from_slice(&self.tpid.to_be_bytes());
        to[ADDRESSES_BYTES + 2..][..2].copy_from_slice(&self.tci.to_be_bytes());
        len + TAG_BYTES
    }
}

/// Why a long frame was lost.
enum Lost {
    Overrun,
    Oversize,
}

/// Copies the whole frame of `slot` and the `virtio_net_hdr` before it to `to`, from the slot, or from the socket if the slot
/// was too short. Returns the length of the frame.
fn fetch(rx: &OwnedFd, slot: &Slot<'_>, to: &mut [u8]) -> Result<usize, Lost> {
    if slot.captured == slot.len {
        let from = slot.before.len().saturating_sub(VNET_HEADER_BYTES);
        let (header, frame) = to.split_at_mut(VNET_HEADER_BYTES);
        let frame = frame.get_mut(..slot.len).ok_or(Lost::Oversize)?;
        header.copy_from_slice(&slot.before[from..]);
        frame.copy_from_slice(&slot.padded[..slot.len]);
        return Ok(slot.len);
    }
    if slot.status & libc::TP_STATUS_COPY == 0 {
        return Err(Lost::Overrun);
    }
    // SAFETY: the kernel writes at most `to.len()` bytes to `to`.
    let got = unsafe {
        libc::recv(rx.as_raw_fd(), to.as_mut_ptr().cast(), to.len(), libc::MSG_DONTWAIT | libc::MSG_TRUNC)
    };
    match interface::result(got) {
        // MSG_TRUNC returns the whole length even if the frame did not fit.
        Ok(len) if len > to.len() => Err(Lost::Oversize),
        Ok(len) => len.checked_sub(VNET_HEADER_BYTES).ok_or(Lost::Overrun),
        Err(_) => Err(Lost::Overrun),
    }
}

/// Hands over at most `BATCH_MAX` frames in one system call. Returns how many the kernel accepted; an error if it did not
/// accept the first one.
fn send_many(tx: &OwnedFd, frames: &[&[u8]]) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_MAX];
    // SAFETY: `mmsghdr` holds integers and pointers; all zeros are a valid value: no address, no data, no options.
    let mut messages: [libc::mmsghdr; BATCH_MAX] = unsafe { mem::zeroed() };
    for ((part, message), frame) in parts.iter_mut().zip(&mut messages).zip(frames) {
        // The kernel does not write what is sent.
        *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    let count = frames.len().min(BATCH_MAX);
    // SAFETY: the first `count` messages point to as many parts, and these to the frames; all outlive the call.
    let taken = unsafe {
        libc::sendmmsg(tx.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, libc::MSG_DONTWAIT as _)
    };
    interface::result(taken as isize)
}

/// Returns the number of the interface to which a packet socket is bound; `None` if it no longer exists.
pub(crate) fn bound_to(socket: &OwnedFd) -> Option<u32> {
    // SAFETY: `sockaddr_ll` holds integers; all zeros are a valid value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut len = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `address`, and any bytes are valid integers.
    let status = unsafe {
        libc::getsockname(socket.as_raw_fd(), std::ptr::from_mut(&mut address).cast(), &raw mut len)
    };
    // -1 once the interface no longer exists.
    if status < 0 { None } else { u32::try_from(address.sll_ifindex).ok() }
}

/// Binds a packet socket to the interface of number `index`, to receive `protocol`, 0 for nothing.
pub(crate) fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` holds integers; all zeros are a valid value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: pointer and length describe `address`.
    let status = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            mem::size_of_val(&address) as libc::socklen_t,
        )
    };
    interface::result(status as isize).map(drop)
}

/// The system refused to `what` for the interface `name`.
fn refused(name: &str, what: &str, error: &io::Error) -> PortError {
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            ": AF_PACKET needs root or the capability CAP_NET_RAW (`sudo setcap cap_net_raw,cap_net_admin+ep p4jet`)"
        }
        Some(libc::ENODEV | libc::ENXIO) => ": it vanished just now",
        Some(libc::ENOMEM | libc::ENOBUFS) => ": not enough memory in the kernel for the ring",
        Some(libc::EAFNOSUPPORT) => ": this kernel is built without packet sockets (CONFIG_PACKET)",
        _ => "",
    };
    PortError::environment(format!("cannot {what} for network interface `{name}`: {error}{remedy}"))
}
