//! TAP: an interface of the kernel whose other end is this port.

// Reason: system calls on C structures.
#![allow(unsafe_code)]

use crate::interface::{self, LinkState};
use crate::{LinkStatus, Port, PortError, PortStats, Received, Sent};
use p4jet_packet::{Batch, Pool};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DEVICE: &str = "/dev/net/tun";

/// Interval at which the port looks for a missing interface.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A worker's handle of a TAP interface: it receives what the kernel sends to the interface, and the kernel receives
/// what it sends.
///
/// Without `IFF_VNET_HDR` and `TUNSETOFFLOAD` the kernel completes checksums and segments frames before they arrive, so
/// frames are as on a wire. Each frame takes one system call; TAP has no alternative.
///
/// With several workers, each has a queue of the interface (`IFF_MULTI_QUEUE`), and the kernel distributes frames among
/// them by the hash of their flow. It would move a flow, out of order, to the queue to which its replies are written; so
/// frames are sent through another, detached queue, from which the kernel does not learn.
#[derive(Debug)]
pub struct TapPort {
    name: Arc<str>,
    workers: usize,
    receives: bool,
    device: File,
    /// Used for sending; absent with one worker, which uses `device`.
    writer: Option<File>,
    /// Set if the device is no longer usable: the reason.
    gone: Option<String>,
    /// When to look for the interface again.
    look_at: Instant,
    stats: PortStats,
}

impl TapPort {
    /// Creates the TAP interface `name`, or uses a persistent one of that name, and sets it up. Returns a handle for
    /// each of `workers`. The interface disappears with the port, unless it existed before.
    ///
    /// # Errors
    ///
    /// The kernel has no TAP, the name is in use, or there is no permission.
    pub fn open(name: &str, workers: usize) -> Result<Vec<TapPort>, PortError> {
        TapPort::open_for(name, workers, workers)
    }

    /// Like [`Self::open`], but only the first `receivers` handles receive.
    pub(crate) fn open_for(name: &str, workers: usize, receivers: usize) -> Result<Vec<TapPort>, PortError> {
        let workers = workers.max(1);
        let receives = |worker| worker < receivers.max(1);
        let open = |worker| attach_both(name, workers, receives(worker)).map(|files| (worker, files));
        let devices = (0..workers).map(open).collect::<Result<Vec<_>, _>>()?;
        set_up(name)?;
        let name = Arc::<str>::from(name);
        let port = |(worker, (device, writer))| TapPort {
            name: name.clone(),
            workers,
            receives: receives(worker),
            device,
            writer,
            gone: None,
            look_at: Instant::now(),
            stats: PortStats::default(),
        };
        Ok(devices.into_iter().map(port).collect())
    }

    /// Uses a TAP interface whose descriptor a parent has opened and passed on, which requires no privileges. It remains
    /// open for others that have it.
    ///
    /// # Errors
    ///
    /// There is no such descriptor, or it is not one of a TAP interface configured as this port requires.
    pub fn inherit(descriptor: RawFd) -> Result<TapPort, PortError> {
        let wrong = |why: String| PortError::environment(format!("descriptor {descriptor}: {why}"));
        // Duplicates it: the number may be anything, and a descriptor that belongs to something else must not be closed
        // here.
        let copy = interface::owned(unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) });
        let copy = copy.map_err(|error| wrong(format!("{error}; did the parent pass it on?")))?;
        let mut request = interface::request("");
        // SAFETY: TUNGETIFF writes an `ifreq`; a descriptor that is not a TAP refuses it.
        let status =
            unsafe { libc::ioctl(copy.as_raw_fd(), libc::TUNGETIFF, std::ptr::from_mut(&mut request)) };
        interface::result(status as isize)
            .map_err(|_| wrong("it does not belong to a TAP interface".into()))?;
        // SAFETY: the kernel wrote the flags.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        let named = [(libc::IFF_TAP, "TAP"), (libc::IFF_NO_PI, "NO_PI"), (libc::IFF_VNET_HDR, "VNET_HDR")];
        let set = |flag: i32| flags & flag != 0;
        if !set(libc::IFF_TAP) || !set(libc::IFF_NO_PI) || set(libc::IFF_VNET_HDR) {
            let found: Vec<&str> =
                named.iter().filter(|(flag, _)| set(*flag)).map(|(_, name)| *name).collect();
            return Err(wrong(format!(
                "found the flags {}, expected IFF_TAP and IFF_NO_PI, without IFF_VNET_HDR",
                if found.is_empty() { "of TUN".to_string() } else { found.join(", ") }
            )));
        }
        // SAFETY: changes flags of a descriptor that is ours.
        let status = unsafe {
            let status = libc::fcntl(copy.as_raw_fd(), libc::F_GETFL);
            if status < 0 {
                status
            } else {
                libc::fcntl(copy.as_raw_fd(), libc::F_SETFL, status | libc::O_NONBLOCK)
            }
        };
        interface::result(status as isize).map_err(|error| wrong(error.to_string()))?;
        finish_frames(&copy);
        Ok(TapPort {
            name: Arc::from(interface::name(&request)),
            workers: 1,
            receives: true,
            device: File::from(copy),
            writer: None,
            gone: None,
            look_at: Instant::now(),
            stats: PortStats::default(),
        })
    }

    /// The interface is missing.
    fn lose(&mut self) {
        self.gone = Some(format!(
            "TAP interface `{0}` is gone: was it deleted? Frames will flow once an interface of this name exists again \
             (`ip tuntap add {0} mode tap{1}`)",
            self.name,
            if self.workers > 1 { " multi_queue" } else { "" }
        ));
        self.look_at = Instant::now();
    }

    /// Checks whether an interface with the name of the missing one exists again. The port does not recreate a deleted
    /// interface.
    fn look_for_it(&mut self) {
        let now = Instant::now();
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        if interface::index(&self.name).is_none() {
            return;
        }
        let attached = attach_both(&self.name, self.workers, self.receives);
        match attached.and_then(|both| set_up(&self.name).map(|()| both)) {
            Ok(both) => {
                (self.device, self.writer) = both;
                self.gone = None;
            }
            Err(error) => self.gone = Some(error.to_string()),
        }
    }
}

/// Returns a queue of the TAP interface `name` to receive from, and with several workers a detached one for sending;
/// only the latter for a handle that does not receive.
fn attach_both(name: &str, workers: usize, receives: bool) -> Result<(File, Option<File>), PortError> {
    let device = if receives { Some(attach(name, workers)?) } else { None };
    let device = match device {
        Some(device) if workers == 1 => return Ok((device, None)),
        device => device,
    };
    let writer = attach(name, workers)?;
    let mut request = interface::request("");
    request.ifr_ifru.ifru_flags = libc::IFF_DETACH_QUEUE as libc::c_short;
    // SAFETY: TUNSETQUEUE reads an `ifreq`.
    let status =
        unsafe { libc::ioctl(writer.as_raw_fd(), libc::TUNSETQUEUE, std::ptr::from_mut(&mut request)) };
    interface::result(status as isize).map_err(|error| refused(name, workers, &error))?;
    Ok(match device {
        Some(device) => (device, Some(writer)),
        None => (writer, None),
    })
}

/// Returns a queue of the TAP interface `name`, which is created if it does not exist.
fn attach(name: &str, workers: usize) -> Result<File, PortError> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(DEVICE)
        .map_err(|error| cannot_open(name, &error))?;
    let set = |flags: i32| {
        let mut request = interface::request(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | flags) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes an `ifreq`.
        let status =
            unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, std::ptr::from_mut(&mut request)) };
        interface::result(status as isize)
    };
    let result = match set(if workers > 1 { libc::IFF_MULTI_QUEUE } else { 0 }) {
        // A persistent one that was created for several queues also works for one.
        Err(error) if workers == 1 && error.raw_os_error() == Some(libc::EINVAL) => {
            set(libc::IFF_MULTI_QUEUE).map_err(|_| error)
        }
        result => result,
    };
    result.map_err(|error| refused(name, workers, &error))?;
    finish_frames(&device);
    Ok(device)
}

/// Makes the kernel complete frames. A persistent interface may have been left with offloads by its last user.
fn finish_frames(device: &impl AsRawFd) {
    // SAFETY: TUNSETOFFLOAD takes a number. A refusal changes nothing.
    unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, 0 as libc::c_ulong) };
}

fn set_up(name: &str) -> Result<(), PortError> {
    interface::set_up(name).map_err(|error| {
        PortError::environment(format!(
            "cannot set up the TAP interface `{name}`: {error}; is p4jet run as root?"
        ))
    })
}

impl Port for TapPort {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        if self.gone.is_some() {
            self.look_for_it();
            return Ok(Received::Empty);
        }
        let mut count = 0;
        // Oversize frames do not fill the batch, but must not occupy the caller for ever, either.
        for _ in 0..batch.room() {
            let mut status = Ok(0);
            // A byte beyond the buffer distinguishes a frame that is too long from one that just fits.
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
                    _ => {
                        self.lose();
                        break;
                    }
                },
            }
        }
        Ok(if count > 0 || batch.is_full() { Received::Packets(count) } else { Received::Empty })
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        let mut result = Sent::default();
        for frame in frames {
            if self.gone.is_some() {
                result.dropped += 1;
                continue;
            }
            match self.writer.as_mut().unwrap_or(&mut self.device).write(frame) {
                Ok(len) => {
                    result.sent += 1;
                    self.stats.tx_bytes += len as u64;
                }
                Err(error) => {
                    // Otherwise it is down, its queue is full, or the frame is shorter than an Ethernet header.
                    if let Some(libc::EBADFD | libc::ENODEV) = error.raw_os_error() {
                        self.lose();
                    }
                    result.dropped += 1;
                }
            }
        }
        self.stats.tx_packets += result.sent as u64;
        self.stats.tx_dropped += result.dropped as u64;
        Ok(result)
    }

    fn poll_fd(&self) -> Option<RawFd> {
        // The device of a deleted interface is always ready, to report that.
        if self.gone.is_some() { None } else { Some(self.device.as_raw_fd()) }
    }

    fn status(&self) -> LinkStatus {
        if let Some(why) = &self.gone {
            return LinkStatus::Down(why.clone());
        }
        let mut request = interface::request("");
        // SAFETY: TUNGETIFF writes an `ifreq`.
        let status = unsafe {
            libc::ioctl(self.device.as_raw_fd(), libc::TUNGETIFF, std::ptr::from_mut(&mut request))
        };
        let name = interface::name(&request);
        // One that was moved to another namespace cannot be queried, but works from there.
        match interface::index(&name).map(interface::state) {
            _ if status < 0 => LinkStatus::Down(format!("TAP interface `{}` is gone", self.name)),
            Some(LinkState::Down) => LinkStatus::Down(format!(
                "TAP interface `{name}` is down; frames will flow once it is up (`ip link set {name} up`)"
            )),
            _ => LinkStatus::Up,
        }
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

fn refused(name: &str, workers: usize, error: &io::Error) -> PortError {
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM) => "run p4jet as root, or give it the capability CAP_NET_ADMIN",
        Some(libc::EBUSY) => "another program uses the interface of that name, or it is not a TAP interface",
        Some(libc::EINVAL) if workers > 1 => {
            "an interface of that name exists and is not a TAP interface, or one without queues for several workers (`ip \
             tuntap add NAME mode tap multi_queue` makes one with them), or the name is not allowed"
        }
        Some(libc::EINVAL) => {
            "an interface of that name exists and is not a TAP interface, or the name is not allowed"
        }
        _ => "is the name allowed for an interface?",
    };
    PortError::environment(format!("cannot create the TAP interface `{name}`: {error}; {remedy}"))
}
