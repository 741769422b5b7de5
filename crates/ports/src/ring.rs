//! The receive ring of a packet socket: memory shared with the kernel, TPACKET_V2.
//!
//! Version 2 is used because version 3 hands over blocks of frames when they are full or a timer of at least 1 ms
//! expires, which would add milliseconds to each hop. Version 2 hands over each frame at once. The advantage of version
//! 3, frames of any length in one ring, matters only for GSO frames; these come through the socket's queue instead (see
//! `PACKET_COPY_THRESH` in afpacket.rs).

// Reason: memory that the kernel writes.
#![allow(unsafe_code)]

use crate::interface::set_option;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel allocates blocks of this many contiguous bytes; the slot size must divide it, so that slot `i` is at `i *
/// slot`.
const BLOCK_BYTES: usize = 64 << 10;

/// A receive ring.
pub(crate) struct RxRing {
    memory: NonNull<u8>,
    bytes: usize,
    slot_bytes: usize,
    /// Offset of the slot that the kernel fills next.
    at: usize,
}

// SAFETY: the ring owns its mapping; the kernel's side of it is independent of threads.
unsafe impl Send for RxRing {}

/// A filled slot.
pub(crate) struct Slot<'a> {
    /// `TP_STATUS_*`.
    pub status: u32,
    /// Bytes of the frame.
    pub len: usize,
    /// The bytes of the frame in the slot, and the bytes after them: padding for fast copies.
    pub padded: &'a [u8],
    /// Number of bytes of `padded` that belong to the frame.
    pub captured: usize,
    /// The bytes right before the frame: the `virtio_net_hdr`, if one was requested.
    pub before: &'a [u8],
    /// VLAN tag, if the status contains the flag for one: TCI and TPID.
    pub vlan_tci: u16,
    pub vlan_tpid: u16,
    /// `PACKET_HOST`, `PACKET_OUTGOING`, …
    pub packet_type: u8,
}

impl RxRing {
    /// Sets up a ring of `slots` slots of `slot_bytes` bytes each, a power of two.
    pub(crate) fn new(socket: &OwnedFd, slots: usize, slot_bytes: usize) -> io::Result<RxRing> {
        assert!(slot_bytes.is_power_of_two() && (512..=BLOCK_BYTES).contains(&slot_bytes));
        let bytes = (slots * slot_bytes).next_multiple_of(BLOCK_BYTES);
        set_option(
            socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as i32),
        )?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: (bytes / BLOCK_BYTES) as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: (bytes / slot_bytes) as u32,
        };
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).expect("mmap never gives address 0 unless asked");
        Ok(RxRing { memory, bytes, slot_bytes, at: 0 })
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: `at` is the offset of a slot, which starts with the status word of its header; it is aligned, as
        // slots are, and both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(self.at).cast()) }
    }

    /// Returns the next slot, if the kernel has filled it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Slot<'_>> {
        // Acquire: the frame is read after the status that announces it.
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is ours until `release`, which needs `&mut self`: the kernel does not write it. It is inside
        // the mapping.
        let slot: &[u8] =
            unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(self.at), self.slot_bytes) };
        // SAFETY: the slot starts with this header, is longer and aligned to 512 bytes; any bytes are valid integers.
        let header = unsafe { slot.as_ptr().cast::<libc::tpacket2_hdr>().read() };
        // The kernel's address structure follows, `sockaddr_ll`; its packet type is at offset 10.
        let packet_type = slot[mem::size_of::<libc::tpacket2_hdr>().next_multiple_of(16) + 10];
        // The kernel's offsets are inside the slot; `min` makes this code independent of that.
        let start = usize::from(header.tp_mac).min(slot.len());
        let (before, padded) = slot.split_at(start);
        Some(Slot {
            status,
            len: header.tp_len as usize,
            captured: (header.tp_snaplen as usize).min(padded.len()),
            padded,
            before,
            vlan_tci: header.tp_vlan_tci,
            vlan_tpid: header.tp_vlan_tpid,
            packet_type,
        })
    }

    /// Returns the slot of [`RxRing::peek`] to the kernel.
    #[inline]
    pub(crate) fn release(&mut self) {
        // Release: the frame has been read before the kernel owns the slot again.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.at += self.slot_bytes;
        if self.at == self.bytes {
            self.at = 0;
        }
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: exactly what `mmap` returned, unmapped once; slots borrow the ring and are gone.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

impl std::fmt::Debug for RxRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RxRing({} slots of {} bytes)", self.bytes / self.slot_bytes, self.slot_bytes)
    }
}
