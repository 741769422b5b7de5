//! TAP: an interface of the kernel whose other end is this port.

// Reason: system calls on C structures.
#![allow(unsafe_code)]

use crate::interface;
use crate::{Port, PortError, PortStats, Received, Sent};
use p4jet_packet::{Batch, Pool};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

const DEVICE: &str = "/dev/net/tun";

/// A TAP interface: what the kernel sends to it is received here, what is sent here the kernel receives.
///
/// Without `IFF_VNET_HDR` and `TUNSETOFFLOAD` the kernel completes checksums and segments frames before they come, so
/// frames are as on a wire. One system call per frame: TAP has no other way.
#[derive(Debug)]
pub struct TapPort {
    name: String,
    device: File,
    stats: PortStats,
}

impl TapPort {
    /// Creates the TAP interface `name`, or takes a persistent one of that name, and sets it up. It goes with the port,
    /// unless it was there before.
    ///
    /// # Errors
    ///
    /// The kernel has no TAP, the name is taken, or no permission.
    pub fn open(name: &str) -> Result<TapPort, PortError> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(DEVICE)
            .map_err(|error| cannot_open(name, &error))?;
        let mut request = interface::request(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes an `ifreq`.
        let status =
            unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, std::ptr::from_mut(&mut request)) };
        interface::result(status as isize).map_err(|error| refused(name, &error))?;
        // A persistent interface may have been left with offloads by its last user.
        // SAFETY: TUNSETOFFLOAD takes a number. A refusal changes nothing.
        unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, 0 as libc::c_ulong) };
        interface::set_up(name).map_err(|error| {
            PortError::environment(format!(
                "cannot set up the TAP interface `{name}`: {error}; is p4jet run as root?"
            ))
        })?;
        Ok(TapPort { name: name.to_owned(), device, stats: PortStats::default() })
    }

    fn gone(&self, error: &io::Error) -> PortError {
        PortError::environment(format!("TAP interface `{}` is gone, was it deleted? ({error})", self.name))
    }
}

impl Port for TapPort {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let mut count = 0;
        // Oversize frames do not fill the batch; they must not hold the caller for ever either.
        for _ in 0..batch.room() {
            let mut status = Ok(0);
            // A byte beyond the buffer tells a frame that is too long from one that just fits.
            let mut beyond = [0];
            let device = &mut self.device;
            let pushed = batch.push_with(pool, number, |buffer| {
                let room = buffer.len();
                status = device.read_vectored(&mut [IoSliceMut::new(buffer), IoSliceMut::new(&mut beyond)]);
                status.as_ref().map_or(0, |&len| if len > room { 0 } else { len })
            });
            debug_assert!(pushed.is_ok());
            match (status, pushed) {
                (Ok(len), Ok(pushed)) if pushed > 0 => {
                    count += 1;
                    self.stats.rx_packets += 1;
                    self.stats.rx_bytes += len as u64;
                }
                (Ok(_), _) => self.stats.rx_dropped_oversize += 1,
                (Err(error), _) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::EINTR) => {}
                    _ => return Err(self.gone(&error)),
                },
            }
        }
        Ok(if count > 0 || batch.is_full() { Received::Packets(count) } else { Received::Empty })
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        let mut result = Sent::default();
        for frame in frames {
            match self.device.write(frame) {
                Ok(len) => {
                    result.sent += 1;
                    self.stats.tx_bytes += len as u64;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EBADFD | libc::ENODEV) => return Err(self.gone(&error)),
                    // Down, its queue full, shorter than an Ethernet header: counted.
                    _ => result.dropped += 1,
                },
            }
        }
        self.stats.tx_packets += result.sent as u64;
        self.stats.tx_dropped += result.dropped as u64;
        Ok(result)
    }

    fn poll_fd(&self) -> Option<RawFd> {
        Some(self.device.as_raw_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }
}

fn cannot_open(name: &str, error: &io::Error) -> PortError {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => {
            "the kernel lacks TAP (`modprobe tun`), or the container hides it (`--device /dev/net/tun`)"
        }
        io::ErrorKind::PermissionDenied => "run p4jet as root, or give it the capability CAP_NET_ADMIN",
        _ => "is the module `tun` loaded (`modprobe tun`)?",
    };
    PortError::environment(format!("cannot create the TAP interface `{name}`: {DEVICE}: {error}; {remedy}"))
}

fn refused(name: &str, error: &io::Error) -> PortError {
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM) => "run p4jet as root, or give it the capability CAP_NET_ADMIN",
        Some(libc::EBUSY) => "another program uses the interface of that name, or it is no TAP interface",
        Some(libc::EINVAL) => {
            "an interface of that name exists and is no TAP interface, or the name is not allowed"
        }
        _ => "is the name allowed for an interface?",
    };
    PortError::environment(format!("cannot create the TAP interface `{name}`: {error}; {remedy}"))
}
