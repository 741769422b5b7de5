//! One packet, as generated code sees it.

// Reason: a packet is a raw address by design, generated code reads and writes it.
#![allow(unsafe_code)]

/// [`Packet::egress_port`] of a packet that was dropped, or that the pipeline has not yet seen.
pub const PORT_DROP: u32 = u32::MAX;

/// [`Packet::drop_reason`] of a packet that was not dropped: its copies continue in its place.
pub const REASON_DONE: u32 = u32::MAX;

/// One packet. Generated code reads and writes it through the offsets of these fields.
///
/// Having a `Packet` does not give access to its bytes: read them with [`Pool::frame`](crate::Pool::frame), which checks
/// that they are in the pool, or with the unchecked [`Packet::bytes`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// First byte of the frame. At least [`Pool::headroom`](crate::Pool::headroom) writable bytes precede the place
    /// where the port put it.
    pub data: *mut u8,
    /// Bytes of the frame.
    pub len: u32,
    /// Ingress port.
    pub ingress_port: u32,
    /// Set by the pipeline: the port it leaves by, or [`PORT_DROP`].
    pub egress_port: u32,
    /// Set by the pipeline for a dropped packet: the index of the program's drop reason.
    pub drop_reason: u32,
}

// SAFETY: a packet is an address and numbers. Safe code reaches the bytes only through the pool that owns them
// (`Pool::frame`), so moving the address to another thread gives no access; `Packet::bytes` puts the duty on its caller.
unsafe impl Send for Packet {}
// SAFETY: as above; a shared packet is read-only.
unsafe impl Sync for Packet {}

impl Packet {
    /// Returns the frame, unchecked.
    ///
    /// # Safety
    ///
    /// `data` and `len` are as a [`Pool`](crate::Pool) or generated code set them, the pool is alive, its ring has not
    /// returned to this buffer since, and nothing writes the frame during the lifetime of the slice.
    #[inline]
    #[must_use]
    pub unsafe fn bytes<'a>(&self) -> &'a [u8] {
        // SAFETY: the caller holds to the contract above; pool memory is initialised (anonymous mapping, zeroed).
        unsafe { std::slice::from_raw_parts(self.data, self.len as usize) }
    }
}

impl Default for Packet {
    /// An empty frame that no pool owns.
    fn default() -> Self {
        Packet {
            data: std::ptr::NonNull::dangling().as_ptr(),
            len: 0,
            ingress_port: 0,
            egress_port: PORT_DROP,
            drop_reason: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Packet;
    use std::mem::{offset_of, size_of};

    #[test]
    fn layout_is_what_generated_code_assumes() {
        assert_eq!(size_of::<Packet>(), 24);
        assert_eq!(offset_of!(Packet, data), 0);
        assert_eq!(offset_of!(Packet, len), 8);
        assert_eq!(offset_of!(Packet, ingress_port), 12);
        assert_eq!(offset_of!(Packet, egress_port), 16);
        assert_eq!(offset_of!(Packet, drop_reason), 20);
    }
}
