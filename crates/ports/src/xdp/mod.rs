//! AF_XDP: a network interface of the kernel as a port, which takes frames before the kernel creates packets of its own
//! for them.
//!
//! A small program (bpf.rs) on the interface hands frames that arrive on a queue to the socket of that queue
//! (socket.rs). Each queue has its own socket and memory; handle `q % receivers` receives queue `q`. The kernel,
//! including its stack and tcpdump, no longer sees the frames of these queues.
//!
//! Program and sockets belong to descriptors, so everything is restored when the process ends for any reason.
//! Nothing else on the interface is changed except promiscuous mode, which ends in the same way.
//!
//! **Frames arrive as on a wire**, or nearly: XDP does not report what a kernel at the other end of a veth has left
//! unfinished. The kernel itself makes that end segment its GSO frames while a program is on this one. Unfinished
//! checksums are recognised and completed (offload.rs). VLAN tags that the other end left to the link are lost with the
//! packet in which the kernel had stored them; [`Port::notices`] names the remedy.

// Reason: system calls on C structures.
#![allow(unsafe_code)]

mod bpf;
mod ring;
mod socket;

use crate::afpacket::{bind, bound_to};
use crate::interface::{self, LinkState, set_option};
use crate::{LinkStatus, Port, PortError, PortStats, Received, Sent};
use bpf::{Mode, Program};
use p4jet_packet::{Batch, Pool};
use socket::{Layout, Rx, SINGLE_FRAME_MAX, Tx};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a frame in addition to the payload that the MTU counts: Ethernet header and two VLAN tags.
const FRAME_OVERHEAD: usize = 22;
/// Interval at which the interface's state is checked while nothing is received.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The clock is read once in this many empty receives.
const EMPTY_PER_LOOK: u32 = 16;

/// A network interface, or one queue of it, as a port: the handle of one worker.
pub struct XdpPort {
    interface: Arc<Interface>,
    worker: usize,
    part: Part,
    /// Generation of the interface when `part` was taken.
    generation: u32,
    /// The queue to start with, so that none waits for the others for ever.
    first: usize,
    /// Polls all queues; the same descriptor during the life of the port.
    epoll: OwnedFd,
    /// True if the transmit ring contains frames that the kernel did not take.
    unsent: bool,
    empty: u32,
    stats: PortStats,
    /// Number of frames lost in sockets that are closed now.
    lost_before: u64,
}

/// A worker's part of an interface.
#[derive(Default)]
struct Part {
    rx: Vec<Rx>,
    /// Shared with workers that have no queue of their own, if there are any; otherwise there is no contention for the
    /// lock.
    tx: Option<Arc<Mutex<Tx>>>,
}

/// Shared by the handles of a port.
struct Interface {
    name: String,
    queue: Option<u32>,
    frame_max: usize,
    workers: usize,
    /// Number of handles that receive: the first ones.
    receivers: usize,
    /// Incremented each time there are new parts to take.
    generation: AtomicU32,
    is_up: AtomicBool,
    /// True if checksums may be unfinished.
    completes: AtomicBool,
    /// Maximum length of a frame to send.
    send_max: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    device: Option<Device>,
    /// The part of each worker, until it takes it.
    parts: Vec<Part>,
    status: LinkStatus,
    looked: Instant,
    is_opening: bool,
}

/// Open resources of an interface, except its sockets.
struct Device {
    /// The frame length for which it was opened.
    frame_max: usize,
    completes: bool,
    notices: Vec<String>,
    /// A packet socket that receives nothing: it keeps the interface in promiscuous mode, and detects its deletion.
    watch: OwnedFd,
    /// Detaches the program when dropped.
    _program: Program,
}

impl XdpPort {
    /// Opens the interface `name`, all of its queues or only `queue`, for frames of up to `frame_max` bytes. Returns
    /// one handle for each of `workers` workers (at least one).
    ///
    /// An interface that is down can be opened: frames flow once it is up, and [`Port::status`] reports it.
    ///
    /// # Errors
    ///
    /// There is no such interface or queue, another program uses it, the kernel has no AF_XDP, or there is no
    /// permission.
    pub fn open(
        name: &str,
        queue: Option<u32>,
        frame_max: usize,
        workers: usize,
    ) -> Result<Vec<XdpPort>, PortError> {
        XdpPort::open_for(name, queue, frame_max, workers, workers)
    }

    /// Like [`Self::open`], but only the first `receivers` handles receive.
    pub(crate) fn open_for(
        name: &str,
        queue: Option<u32>,
        frame_max: usize,
        workers: usize,
        receivers: usize,
    ) -> Result<Vec<XdpPort>, PortError> {
        let index = interface::index(name).ok_or_else(|| interface::missing(name))?;
        let workers = workers.max(1);
        let interface = Arc::new(Interface {
            name: name.to_owned(),
            queue,
            frame_max,
            workers,
            receivers: receivers.clamp(1, workers),
            generation: AtomicU32::new(0),
            is_up: AtomicBool::new(false),
            completes: AtomicBool::new(false),
            send_max: AtomicUsize::new(0),
            state: Mutex::new(State {
                device: None,
                parts: Vec::new(),
                status: LinkStatus::Up,
                looked: Instant::now(),
                is_opening: false,
            }),
        });
        let opened = interface.open(index)?;
        interface.take_on(&mut interface.state(), opened);
        let handle = |worker| {
            let epoll = create_epoll().map_err(|error| refused(name, "poll", &error))?;
            let mut port = XdpPort {
                interface: interface.clone(),
                worker,
                part: Part::default(),
                // Differs from the interface's generation, so that the part is taken at once.
                generation: u32::MAX,
                first: 0,
                epoll,
                unsent: false,
                empty: 0,
                stats: PortStats::default(),
                lost_before: 0,
            };
            port.take_part();
            Ok(port)
        };
        (0..workers).map(handle).collect()
    }

    /// Continues with the newly opened sockets of the interface.
    #[cold]
    fn take_part(&mut self) {
        self.lost_before += self.lost();
        let mut state = self.interface.state();
        // Read under the lock, so that it belongs to the part.
        self.generation = self.interface.generation.load(Ordering::Relaxed);
        let part = state.parts.get_mut(self.worker).map(std::mem::take).unwrap_or_default();
        drop(state);
        // The old sockets leave the poll set when they are closed.
        let old = std::mem::replace(&mut self.part, part);
        if old.tx.is_some() {
            aside(move || drop(old));
        }
        self.unsent = false;
        for rx in &self.part.rx {
            // If this fails, the port is only checked less often.
            let _ = add_to_epoll(&self.epoll, rx.fd());
        }
    }

    #[inline]
    fn follow(&mut self) {
        if self.generation != self.interface.generation.load(Ordering::Relaxed) {
            self.take_part();
        }
    }

    fn lost(&self) -> u64 {
        self.part.rx.iter().map(Rx::lost).sum()
    }
}

impl Port for XdpPort {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        self.follow();
        let before = batch.len();
        let completes = self.interface.completes.load(Ordering::Relaxed);
        let sockets = self.part.rx.len();
        for at in self.first..self.first + sockets {
            if batch.is_full() {
                break;
            }
            let rx = &mut self.part.rx[at % sockets];
            rx.receive(number, pool, batch, completes, &mut self.stats);
        }
        self.first = (self.first + 1) % sockets.max(1);
        let count = batch.len() - before;
        if count > 0 || batch.is_full() {
            return Ok(Received::Packets(count));
        }
        if self.unsent
            && let Some(tx) = &self.part.tx
        {
            let mut tx = lock(tx);
            let refused = (tx.flush() as u64).min(self.stats.tx_packets);
            self.unsent = !tx.is_flushed();
            self.stats.tx_packets -= refused;
            self.stats.tx_dropped += refused;
        }
        self.empty = self.empty.wrapping_add(1);
        if self.empty.is_multiple_of(EMPTY_PER_LOOK) {
            self.interface.look();
        }
        Ok(Received::Empty)
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        self.follow();
        let sent = match &self.part.tx {
            Some(tx) if self.interface.is_up.load(Ordering::Relaxed) => {
                let frame_max = self.interface.send_max.load(Ordering::Relaxed);
                let mut tx = lock(tx);
                let sent = tx.send(frames, frame_max, &mut self.stats.tx_bytes);
                self.unsent = !tx.is_flushed();
                sent
            }
            _ => Sent { sent: 0, dropped: frames.len() },
        };
        self.stats.tx_packets += sent.sent as u64;
        self.stats.tx_dropped += sent.dropped as u64;
        Ok(sent)
    }

    fn poll_fd(&self) -> Option<RawFd> {
        Some(self.epoll.as_raw_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats.rx_dropped_overrun = self.lost_before + self.lost();
        self.stats
    }

    fn status(&self) -> LinkStatus {
        self.interface.state().status.clone()
    }

    fn notices(&self) -> Vec<String> {
        let state = self.interface.state();
        let mut notices = state.device.as_ref().map_or_else(Vec::new, |device| device.notices.clone());
        if let LinkStatus::Down(why) = &state.status {
            notices.push(why.clone());
        }
        notices
    }
}

impl Interface {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Opens the interface with number `index`, and distributes its queues among the workers.
    fn open(&self, index: u32) -> Result<(Device, Vec<Part>), PortError> {
        let name = &self.name;
        if !interface::is_ethernet(name) {
            return Err(PortError::environment(format!(
                "network interface `{name}` does not carry Ethernet frames (a tunnel?): p4jet cannot use it"
            )));
        }
        let fail = |what: &'static str| move |error: io::Error| refused(name, what, &error);
        let (receiving, sending) = interface::queues(name);
        let queues = match self.queue {
            None => 0..receiving,
            Some(queue) if queue < receiving => queue..queue + 1,
            Some(queue) => {
                return Err(PortError::usage(format!(
                    "network interface `{name}` has no receive queue {queue}: it has 0 to {}",
                    receiving - 1
                )));
            }
        };
        let watch = watch(index).map_err(fail("set promiscuous mode"))?;
        let program = Program::attach(index, receiving).map_err(fail("attach an XDP program"))?;
        let mtu = interface::mtu(name).map_err(fail("read its MTU"))?;
        let frame_max = mtu + FRAME_OVERHEAD;
        let mut layout = Layout::new(frame_max);
        let mut parts: Vec<Part> = (0..self.workers).map(|_| Part::default()).collect();
        let mut senders = Vec::new();
        let mut is_zero_copy = true;
        let mut open = |queue: u32, sends: bool| -> Result<_, PortError> {
            let (rx, tx, zero_copy) = match open_free(index, queue, layout, sends) {
                // Not every kernel and driver supports this. Longer frames are then lost and counted, which does not
                // matter if they are too long for the switch.
                Err(error)
                    if layout.segments
                        && matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) =>
                {
                    if self.frame_max > SINGLE_FRAME_MAX {
                        return Err(too_long(name, mtu, &error));
                    }
                    layout = Layout::new(SINGLE_FRAME_MAX);
                    open_free(index, queue, layout, sends)
                }
                result => result,
            }
            .map_err(|error| refused(name, &format!("open queue {queue}"), &error))?;
            is_zero_copy &= zero_copy;
            Ok((rx, tx.map(|tx| Arc::new(Mutex::new(tx)))))
        };
        for (at, queue) in queues.clone().enumerate() {
            // A worker sends on its first queue. If there are fewer transmit than receive queues, it sends on another
            // worker's.
            let (rx, tx) = open(queue, at < self.receivers && queue < sending)?;
            program.add(queue, rx.fd()).map_err(fail("hand its frames to a socket"))?;
            let part = &mut parts[at % self.receivers];
            part.rx.push(rx);
            if let Some(tx) = tx {
                part.tx = Some(tx.clone());
                senders.push(tx);
            }
        }
        if senders.is_empty() {
            senders.extend(open(0, true)?.1);
        }
        for (worker, part) in parts.iter_mut().enumerate() {
            part.tx.get_or_insert_with(|| senders[worker % senders.len()].clone());
        }

        let driver = interface::driver(name);
        let mut notices = vec![format!(
            "interface `{name}`: AF_XDP on {}, {}, {}",
            if queues.len() == 1 {
                format!("queue {}", queues.start)
            } else {
                format!("{} queues", queues.len())
            },
            if program.mode == Mode::Native { "native mode" } else { "generic mode" },
            if is_zero_copy { "zero-copy" } else { "copied by the kernel" },
        )];
        if let Mode::Generic(code) = program.mode {
            notices.push(format!(
                "interface `{name}`: native XDP was refused ({}); generic XDP is slower{}",
                io::Error::from_raw_os_error(code),
                native_remedy(name, code, receiving),
            ));
        }
        if driver == "veth" {
            notices.push(format!(
                "interface `{name}`: VLAN tags that a VLAN interface at the other end of the veth adds are lost, \
                 unless `ethtool -K PEER txvlan off` is run there; AF_PACKET (`packet:{name}`) keeps them"
            ));
        }
        let completes = driver == "veth" || program.mode != Mode::Native;
        Ok((Device { frame_max, completes, notices, watch, _program: program }, parts))
    }

    /// Makes the handles continue with the new sockets.
    fn take_on(&self, state: &mut State, (device, parts): (Device, Vec<Part>)) {
        self.completes.store(device.completes, Ordering::Relaxed);
        (state.device, state.parts) = (Some(device), parts);
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.read_link(state);
    }

    /// Checks that the interface still exists and is up, if it is time. Never waits.
    #[cold]
    fn look(self: &Arc<Self>) {
        let Ok(mut state) = self.state.try_lock() else { return };
        if state.is_opening || state.looked.elapsed() < LOOK_EVERY {
            return;
        }
        state.looked = Instant::now();
        let send_max = self.send_max.load(Ordering::Relaxed);
        let named = interface::index(&self.name);
        // Deleted, replaced by another one with its name, or carrying longer frames now: it is opened again.
        let is_old = |device: &mut Device| {
            let bound = bound_to(&device.watch);
            bound.is_none() || (named.is_some() && bound != named) || device.frame_max < send_max
        };
        let old = state.device.take_if(is_old);
        if old.is_some() {
            // Handles close their sockets when they see this.
            state.parts.clear();
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        match named {
            Some(index) if state.device.is_none() => {
                let interface = self.clone();
                state.is_opening = aside(move || {
                    drop(old);
                    let opened = interface.open(index);
                    let mut state = interface.state();
                    state.is_opening = false;
                    match opened {
                        Ok(opened) => interface.take_on(&mut state, opened),
                        Err(error) => state.status = LinkStatus::Down(error.to_string()),
                    }
                });
            }
            _ => {
                if let Some(old) = old {
                    aside(move || drop(old));
                }
                self.read_link(&mut state);
            }
        }
    }

    fn read_link(&self, state: &mut State) {
        let name = &self.name;
        let link = state.device.as_ref().map_or(LinkState::Gone, |device| {
            let index = bound_to(&device.watch);
            index.map_or(LinkState::Gone, |index| interface::state_at(&device.watch, index))
        });
        state.status = link.status(name);
        if let Ok(mtu) = interface::mtu(name) {
            self.send_max.store(mtu + FRAME_OVERHEAD, Ordering::Relaxed);
        }
        self.is_up.store(state.status == LinkStatus::Up, Ordering::Relaxed);
    }
}

/// Opening and closing wait in the kernel for tens of milliseconds, during which a worker has other ports to serve.
///
/// False if no thread can be started. Then dropping `work` closes the sockets that it holds.
fn aside(work: impl FnOnce() + Send + 'static) -> bool {
    p4jet_threads::spawn("xdp", work).is_ok()
}

/// A worker that panicked leaves the rings as they were.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Like [`socket::open`], but waits briefly if the queue is in use, because the kernel frees it only some time after
/// its socket was closed.
fn open_free(index: u32, queue: u32, layout: Layout, sends: bool) -> io::Result<(Rx, Option<Tx>, bool)> {
    const WAIT: Duration = Duration::from_secs(1);
    let start = Instant::now();
    loop {
        match socket::open(index, queue, layout, sends) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && start.elapsed() < WAIT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

fn create_epoll() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    interface::owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

fn add_to_epoll(epoll: &OwnedFd, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: the kernel reads `event`.
    let status =
        unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
    interface::result(status as isize).map(drop)
}

/// See [`Device::watch`].
fn watch(index: u32) -> io::Result<OwnedFd> {
    let socket = interface::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    bind(&socket, index, 0)?;
    let membership = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    Ok(socket)
}

/// Returns the remedy for native mode being refused with `code`, as far as drivers agree on its meaning.
fn native_remedy(name: &str, code: i32, receiving: u32) -> String {
    match code {
        libc::ENOSPC => format!(
            "; of a veth, the other end must not have more queues to send than the {receiving} to receive here \
             (`ethtool -L {name} rx N`)"
        ),
        libc::ERANGE | libc::EINVAL => {
            format!("; the MTU may be too large for it (`ip link set {name} mtu N`)")
        }
        _ => String::new(),
    }
}

/// The error for frames that are longer than a chunk, if the system refused to divide them.
fn too_long(name: &str, mtu: usize, error: &io::Error) -> PortError {
    PortError::environment(format!(
        "network interface `{name}` has an MTU of {mtu}, but this kernel or driver has AF_XDP carry at most \
         {SINGLE_FRAME_MAX} bytes ({error}): `ip link set {name} mtu {}`, or use `packet:{name}`",
        SINGLE_FRAME_MAX - FRAME_OVERHEAD
    ))
}

/// The system refused to `what` for the interface `name`.
fn refused(name: &str, what: &str, error: &io::Error) -> PortError {
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            ": AF_XDP needs root or the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF \
             (`sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep p4jet`)"
                .to_owned()
        }
        Some(libc::EBUSY | libc::EEXIST) => format!(
            ": another program uses it through XDP (`ip link show dev {name}` names its program): stop that, or \
             `ip link set dev {name} xdp off`"
        ),
        Some(libc::ENODEV | libc::ENXIO) => ": it vanished just now".to_owned(),
        Some(libc::ENOMEM | libc::ENOBUFS) => {
            ": not enough memory may be locked: root, the capability CAP_IPC_LOCK or `ulimit -l` decide on that"
                .to_owned()
        }
        Some(libc::EAFNOSUPPORT | libc::ENOSYS) => format!(
            ": this kernel is built without AF_XDP (CONFIG_XDP_SOCKETS, CONFIG_BPF_SYSCALL); use `packet:{name}`"
        ),
        Some(libc::EINVAL | libc::EOPNOTSUPP) => {
            format!(": the kernel (Linux 5.9 is needed) or the driver cannot do that; use `packet:{name}`")
        }
        _ => String::new(),
    };
    PortError::environment(format!("cannot {what} for network interface `{name}`: {error}{remedy}"))
}
