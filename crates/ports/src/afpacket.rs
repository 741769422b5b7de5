//! AF_PACKET: a network interface of the kernel as a port.
//!
//! Receiving goes through a ring shared with the kernel, without system calls while frames are there; sending hands a
//! batch over in one `sendmmsg`. Nothing on the interface is changed but promiscuous mode, which ends with the port.
//!
//! Why no transmit ring: it is slower. Batches of 64 over veth, Linux 6.18, one core: `sendmmsg` 2.30 Mpps of 60 bytes
//! and 2.14 of 1514, TX ring 2.18 and 1.94; the kernel copies out of the ring all the same, and allocates pages for it.
//! `PACKET_QDISC_BYPASS` gains nothing (2.27 and 2.20), and hides what is sent from tcpdump.
//!
//! **Frames arrive as on a wire.** A kernel at the other end of a veth leaves checksums and segmentation undone, and
//! its end, in another namespace, is out of our reach (`ethtool -K` on our end changes what we send, not what it
//! sends). So the port asks the kernel for a `virtio_net_hdr` before each frame, which says what is undone, and does it
//! (offload.rs). A GSO frame of up to 64 KiB does not fit a slot of the ring: the kernel then queues the whole on the
//! socket and marks the slot (`PACKET_COPY_THRESH`, `TP_STATUS_COPY`), in the same order. A VLAN tag, which the kernel
//! takes out of the frame, is put back.

// Reason: system calls on C structures.
#![allow(unsafe_code)]

use crate::interface::{self, get_option, set_option};
use crate::offload::{Segmenter, VNET_HEADER_BYTES, VnetHeader};
use crate::ring::{RxRing, Slot};
use crate::{Port, PortError, PortStats, Received, Sent};
use p4jet_packet::{BATCH_MAX, Batch, Pool, PushError};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Bytes of a slot beside the frame: the kernel's header, its address structure, the `virtio_net_hdr`, alignment.
const SLOT_OVERHEAD: usize = 128;
/// Bytes of the receive ring, and its fewest slots: at 1 Mpps, 4096 slots are 4 ms in which the switch may be busy.
const RING_BYTES: usize = 8 << 20;
const RING_SLOTS_MIN: usize = 512;
/// Bytes of frames that may wait in the kernel: GSO frames to receive, frames to send. The kernel counts generously.
const SOCKET_BUFFER_BYTES: i32 = 16 << 20;
/// The longest GSO frame: an IP packet with its Ethernet header and tags, and a little.
const GSO_FRAME_MAX: usize = (64 << 10) + 64;
/// Bytes of a VLAN tag, and of the addresses before it.
const TAG_BYTES: usize = 4;
const ADDRESSES_BYTES: usize = 12;
/// What an absent TPID means: 802.1Q.
const TPID_DEFAULT: u16 = 0x8100;
/// Every so many empty receives the socket is asked for an error: it costs a system call.
const EMPTY_PER_CHECK: u32 = 16;

/// A network interface as a port.
#[derive(Debug)]
pub struct AfPacketPort {
    name: String,
    index: u32,
    was_down: bool,
    ring: RxRing,
    rx: OwnedFd,
    tx: OwnedFd,
    /// A GSO frame being cut, and the `virtio_net_hdr` before it.
    gso: Vec<u8>,
    gso_rest: Option<(Segmenter, Option<Tag>)>,
    empty: u32,
    stats: PortStats,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug)]
struct Tag {
    tpid: u16,
    tci: u16,
}

impl AfPacketPort {
    /// Opens the interface `name` for frames of up to `frame_max` bytes (longer ones still arrive if the pool has room,
    /// at a cost).
    ///
    /// An interface that is down is opened: frames flow once it is up, and [`Port::notices`] says so.
    ///
    /// # Errors
    ///
    /// There is no such interface, or no permission.
    pub fn open(name: &str, frame_max: usize) -> Result<AfPacketPort, PortError> {
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
        // Since Linux 4.20; on an older kernel `receive` sorts them out.
        let _ = set_option(&rx, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
        for (socket, force, plain) in
            [(&rx, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (&tx, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            // Forcing needs CAP_NET_ADMIN; without, the system's limit applies. Less room, more loss in bursts.
            if set_option(socket, libc::SOL_SOCKET, force, &SOCKET_BUFFER_BYTES).is_err() {
                let _ = set_option(socket, libc::SOL_SOCKET, plain, &SOCKET_BUFFER_BYTES);
            }
        }
        let slot_bytes = (frame_max + SLOT_OVERHEAD).next_power_of_two().clamp(2048, 64 << 10);
        let slots = (RING_BYTES / slot_bytes).max(RING_SLOTS_MIN);
        let ring = RxRing::new(&rx, slots, slot_bytes).map_err(fail("map a receive ring"))?;
        bind(&rx, index, libc::ETH_P_ALL as u16).map_err(fail("bind to it"))?;
        bind(&tx, index, 0).map_err(fail("bind to it"))?;
        let promiscuous = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(&rx, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)
            .map_err(fail("set promiscuous mode"))?;
        let was_down = !interface::is_up(name).map_err(fail("read its state"))?;
        Ok(AfPacketPort {
            name: name.to_owned(),
            index,
            was_down,
            ring,
            rx,
            tx,
            gso: vec![0; VNET_HEADER_BYTES + GSO_FRAME_MAX],
            gso_rest: None,
            empty: 0,
            stats: PortStats::default(),
        })
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
            let Some(slot) = self.ring.peek() else { break };
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
                let fetched = fetch(&self.rx, &slot, &mut self.gso);
                // Released before it is looked at: all of it is in `gso` now.
                self.ring.release();
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
            self.ring.release();
            if let Some(result) = result {
                self.count(result);
            }
        }
    }

    /// Takes on the frame of `len` bytes in `gso`.
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

    /// Has the interface gone? An interface that is merely down will come back.
    fn check(&mut self) -> Result<(), PortError> {
        // Reading the error also clears it; poll(2) would report it for ever.
        let [error] = get_option(&self.rx, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or([0]);
        if error != 0 {
            self.was_down = true;
        }
        if self.was_down {
            if !interface::exists(&self.rx, self.index) {
                return Err(self.gone());
            }
            self.was_down = !interface::is_up(&self.name).unwrap_or(false);
        }
        Ok(())
    }

    fn gone(&self) -> PortError {
        PortError::environment(format!(
            "network interface `{}` is gone: it was deleted, renamed or moved to another namespace while p4jet ran",
            self.name
        ))
    }
}

impl Port for AfPacketPort {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let before = batch.len();
        self.drain(number, pool, batch);
        let count = batch.len() - before;
        if count > 0 || batch.is_full() {
            return Ok(Received::Packets(count));
        }
        self.empty = self.empty.wrapping_add(1);
        if self.was_down || self.empty.is_multiple_of(EMPTY_PER_CHECK) {
            self.check()?;
        }
        Ok(Received::Empty)
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        let mut sent = 0;
        let mut bytes = 0;
        let mut rest = frames;
        while !rest.is_empty() {
            let chunk = &rest[..rest.len().min(BATCH_MAX)];
            let taken = match send_many(&self.tx, chunk) {
                Ok(taken) => {
                    sent += taken;
                    bytes += chunk[..taken].iter().map(|frame| frame.len() as u64).sum::<u64>();
                    taken
                }
                // The error is about the first frame, and none of the chunk was sent.
                Err(error) => match error.raw_os_error() {
                    Some(libc::ENXIO | libc::ENODEV) => return Err(self.gone()),
                    Some(libc::EINTR) => 0,
                    // Down, or no room to queue: what is true for this frame is true for the others.
                    Some(libc::ENETDOWN | libc::EAGAIN | libc::ENOMEM) => rest.len(),
                    // Longer than the link's MTU, shorter than an Ethernet header, or the queue of the link is full.
                    _ => 1,
                },
            };
            rest = &rest[taken..];
        }
        let dropped = frames.len() - sent;
        self.stats.tx_packets += sent as u64;
        self.stats.tx_bytes += bytes;
        self.stats.tx_dropped += dropped as u64;
        Ok(Sent { sent, dropped })
    }

    fn poll_fd(&self) -> Option<RawFd> {
        Some(self.rx.as_raw_fd())
    }

    fn stats(&mut self) -> PortStats {
        // `tpacket_stats`: frames, and how many of them found no room. Reading sets both to 0.
        let [_, drops] = get_option(&self.rx, libc::SOL_PACKET, libc::PACKET_STATISTICS).unwrap_or([0; 2]);
        self.stats.rx_dropped_overrun += u64::from(drops);
        self.stats
    }

    fn notices(&self) -> Vec<String> {
        let name = &self.name;
        let down =
            format!("interface `{name}` is down; frames will flow once it is up (`ip link set {name} up`)");
        if self.was_down { vec![down] } else { Vec::new() }
    }
}

/// Adds `frame`, completed as `vnet` says, with its tag put back. `Ok(0)`: that cannot be done, nothing was added.
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
    /// Lets `fill` write a frame to `to` with room for the tag, and inserts the tag behind the addresses. The length of
    /// the whole; 0 when `fill` wrote less than the addresses.
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

/// Why a long frame is lost.
enum Lost {
    Overrun,
    Oversize,
}

/// Brings the whole frame of `slot` and the `virtio_net_hdr` before it to `to`, from the slot, or from the socket when
/// the slot was too short. The length of the frame.
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
        // MSG_TRUNC: the whole length, also when it did not fit.
        Ok(len) if len > to.len() => Err(Lost::Oversize),
        Ok(len) => len.checked_sub(VNET_HEADER_BYTES).ok_or(Lost::Overrun),
        Err(_) => Err(Lost::Overrun),
    }
}

/// Hands over at most `BATCH_MAX` frames in one system call. How many the kernel took; an error when it did not take
/// the first.
fn send_many(tx: &OwnedFd, frames: &[&[u8]]) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_MAX];
    // SAFETY: `mmsghdr` holds integers and pointers; all zeros are a good value: no address, no data, no options.
    let mut messages: [libc::mmsghdr; BATCH_MAX] = unsafe { mem::zeroed() };
    for ((part, message), frame) in parts.iter_mut().zip(&mut messages).zip(frames) {
        // The kernel does not write what is sent.
        *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    let count = frames.len().min(BATCH_MAX);
    // SAFETY: the first `count` messages point to as many parts, and these to the frames; all live until it returns.
    let taken = unsafe {
        libc::sendmmsg(tx.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, libc::MSG_DONTWAIT as _)
    };
    interface::result(taken as isize)
}

fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` holds integers; all zeros are a good value.
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
