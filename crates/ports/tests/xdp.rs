//! AF_XDP ports over veth pairs between namespaces, like veth.rs for AF_PACKET.
//!
//! Needs root and `ip`, and is skipped with a message otherwise.

// Reason: sockets of kinds that std lacks.
#![allow(unsafe_code)]

use crate::netns::{DEADLINE, Namespace};
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{AfPacketPort, LinkStatus, Port, PortStats, Received, XdpPort};
use std::io::{Read, Write};
use std::mem;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// An EtherType for experiments, RFC 9542: the kernels do not use it by themselves.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// left (10.78.0.1) l0 -- s0 switch s1 -- r0 right (10.78.0.2)
struct Network {
    left: Namespace,
    right: Namespace,
    switch: Namespace,
}

impl Network {
    fn new(mtu: usize, queues: u32) -> Network {
        let network = Network {
            left: Namespace::new("left"),
            right: Namespace::new("right"),
            switch: Namespace::new("switch"),
        };
        for (end, ours, theirs, host) in [(&network.left, "s0", "l0", 1), (&network.right, "s1", "r0", 2)] {
            network.join(end, ours, theirs, mtu, queues);
            end.ip(&format!("addr add 10.78.0.{host}/24 dev {theirs}")).unwrap();
            end.ip(&format!("addr add fd78::{host}/64 dev {theirs} nodad")).unwrap();
        }
        network
    }

    fn join(&self, end: &Namespace, ours: &str, theirs: &str, mtu: usize, queues: u32) {
        let (peer, queues) = (end.name(), format!("numrxqueues {queues} numtxqueues {queues}"));
        self.switch
            .ip(&format!(
                "link add {ours} mtu {mtu} {queues} type veth peer name {theirs} mtu {mtu} {queues} netns {peer}"
            ))
            .unwrap();
        self.switch.ip(&format!("link set {ours} up")).unwrap();
        end.ip(&format!("link set {theirs} up")).unwrap();
    }

    /// Opens an interface of the switch.
    fn open(&self, name: &'static str, queue: Option<u32>, workers: usize) -> Result<Vec<XdpPort>, String> {
        self.switch
            .enter(move || XdpPort::open(name, queue, 1522, workers).map_err(|error| error.to_string()))
    }

    fn start(&self, frame_max: usize) -> Switch {
        let stop = Arc::<AtomicBool>::default();
        let (ready, is_ready) = mpsc::channel();
        let thread = self.switch.spawn({
            let stop = stop.clone();
            move || {
                let ports =
                    ["s0", "s1"].map(|name| XdpPort::open(name, None, frame_max, 1).unwrap().remove(0));
                eprintln!("{:?}", ports[0].notices());
                ready.send(()).unwrap();
                forward(ports, &stop, frame_max)
            }
        });
        is_ready.recv_timeout(DEADLINE).unwrap();
        Switch { stop, thread: Some(thread) }
    }
}

struct Switch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<[PortStats; 2]>>,
}

impl Switch {
    fn finish(mut self) -> [PortStats; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn forward<P: Port>(mut ports: [P; 2], stop: &AtomicBool, frame_max: usize) -> [PortStats; 2] {
    let (mut pool, mut batch) = (Pool::new(1024, frame_max, 64).unwrap(), Batch::new());
    let end = Instant::now() + DEADLINE * 3;
    while !stop.load(Ordering::Relaxed) && Instant::now() < end {
        let mut idle = true;
        for number in 0..2 {
            batch.clear();
            if ports[number].receive(number as u32, &mut pool, &mut batch).unwrap() != Received::Empty {
                let frames: Vec<&[u8]> = batch.packets().iter().map(|packet| pool.frame(packet)).collect();
                ports[1 - number].send(&frames).unwrap();
                idle = false;
            }
        }
        if idle {
            let mut fds = [0, 1].map(|i| libc::pollfd {
                fd: ports[i].poll_fd().unwrap(),
                events: libc::POLLIN,
                revents: 0,
            });
            // SAFETY: two descriptors, as it says.
            unsafe { libc::poll(fds.as_mut_ptr(), 2, 10) };
        }
    }
    ports.map(|mut port| port.stats())
}

fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = [&[2; 12][..], &ETHERTYPE, &number.to_be_bytes()].concat();
    frame.extend((frame.len()..len).map(|i| (i * 13) as u8));
    frame
}

fn number(frame: &[u8]) -> Option<u32> {
    (frame[12..14] == ETHERTYPE).then(|| u32::from_be_bytes(frame[14..18].try_into().unwrap()))
}

/// A packet socket on an interface of the namespace in which it is created; it receives only frames of [`ETHERTYPE`].
struct PacketSocket(OwnedFd);

impl PacketSocket {
    fn new(interface: &str) -> PacketSocket {
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: all zeros are a good value; pointers and lengths describe live objects; the descriptor
        // is ours.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            let mut address: libc::sockaddr_ll = mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = u16::from_ne_bytes(ETHERTYPE);
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let status = libc::bind(fd, (&raw const address).cast(), mem::size_of_val(&address) as u32);
            assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
            let room: i32 = 64 << 20;
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, (&raw const room).cast(), 4);
            PacketSocket(OwnedFd::from_raw_fd(fd))
        }
    }

    /// `priority` selects the queue on an interface that maps priorities to queues.
    fn send(&self, frame: &[u8]) -> bool {
        // SAFETY: pointer and length describe `frame`.
        unsafe {
            libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) == frame.len() as isize
        }
    }

    fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 10_000];
        // SAFETY: pointer and length describe `buffer`.
        let len = unsafe {
            libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
        };
        buffer.truncate(usize::try_from(len).ok()?);
        Some(buffer)
    }
}

/// Receives on `handles` until `enough` frames of ours have arrived. Returns the handle and the frame of each.
fn receive(handles: &mut [XdpPort], enough: usize) -> Vec<(usize, Vec<u8>)> {
    let (mut pool, mut batch) = (Pool::new(64, 1522, 0).unwrap(), Batch::new());
    let (mut found, end) = (Vec::new(), Instant::now() + DEADLINE);
    while found.len() < enough {
        assert!(Instant::now() < end, "{} of {enough} frames came", found.len());
        for (at, handle) in handles.iter_mut().enumerate() {
            batch.clear();
            handle.receive(0, &mut pool, &mut batch).unwrap();
            let frames = batch.packets().iter().map(|packet| pool.frame(packet));
            found.extend(frames.filter(|frame| number(frame).is_some()).map(|frame| (at, frame.to_vec())));
        }
    }
    found
}

/// Sends noise from left to right over TCP; it must arrive unchanged.
fn tcp(network: &Network, address: &'static str, megabytes: usize) {
    let (ready, is_ready) = mpsc::channel();
    let receiver = network.right.spawn(move || {
        let listener = TcpListener::bind(address).unwrap();
        ready.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut data = Vec::new();
        stream.read_to_end(&mut data).unwrap();
        data
    });
    is_ready.recv_timeout(DEADLINE).unwrap();
    let mut noise = 88_172_645_463_325_252u64;
    let mut data = vec![0; megabytes << 20];
    for word in data.chunks_exact_mut(8) {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        word.copy_from_slice(&noise.to_le_bytes());
    }
    let data = Arc::new(data);
    let sent = data.clone();
    let start = Instant::now();
    network.left.enter(move || {
        let mut stream = TcpStream::connect_timeout(&address.parse().unwrap(), DEADLINE).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(&sent).unwrap();
    });
    assert!(receiver.join().unwrap() == *data);
    eprintln!("{address}: {:.0} MB/s", megabytes as f64 / start.elapsed().as_secs_f64());
}

/// Checksums and segmentation that kernels leave unfinished are completed.
#[test]
fn tcp_and_udp_go_through() {
    crate::need_namespaces!();
    let network = Network::new(1500, 1);
    let switch = network.start(1522);
    tcp(&network, "10.78.0.2:7001", 50);
    tcp(&network, "[fd78::2]:7002", 10);
    for address in ["10.78.0.2:7000", "[fd78::2]:7000"] {
        let receiver = network.right.enter(move || UdpSocket::bind(address).unwrap());
        receiver.set_read_timeout(Some(DEADLINE)).unwrap();
        let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
        let sender = network.left.enter(move || UdpSocket::bind(any).unwrap());
        let mut buffer = vec![0; 65536];
        // 1448 just fits; 8000 is sent in fragments; 0 and 1 are short frames.
        for len in [0, 1, 7, 1448, 8000] {
            let data: Vec<u8> = (0..len).map(|i| ((i * 13) >> 3) as u8).collect();
            sender.send_to(&data, address).unwrap();
            assert_eq!(receiver.recv(&mut buffer).unwrap(), len);
            assert_eq!(buffer[..len], data);
        }
    }
    let [left, right] = switch.finish();
    eprintln!("{left:?}\n{right:?}");
    assert_eq!((left.rx_dropped_malformed, left.rx_dropped_oversize), (0, 0));
    assert!(left.rx_bytes > 60 << 20 && left.rx_bytes / left.rx_packets < 1514);
}

#[test]
fn jumbo_frames_lie_in_several_chunks() {
    crate::need_namespaces!();
    let network = Arc::new(Network::new(9000, 1));
    let switch = network.start(9018);
    tcp(&network, "10.78.0.2:7003", 20);
    let (left, right) =
        (network.left.enter(|| PacketSocket::new("l0")), network.right.enter(|| PacketSocket::new("r0")));
    for len in [60, 1514, 3840, 3841, 4096, 4097, 9014] {
        assert!(left.send(&frame(7, len)));
        let end = Instant::now() + DEADLINE;
        let arrived = loop {
            assert!(Instant::now() < end, "a frame of {len} bytes did not come");
            match right.receive() {
                Some(arrived) => break arrived,
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(arrived == frame(7, len), "{len}");
    }
    assert_eq!(switch.finish()[0].rx_dropped_oversize, 0);
    // An MTU that grows while the port is open.
    network.switch.ip("link set s0 mtu 1500").unwrap();
    network.switch.enter({
        let network = network.clone();
        move || {
            let mut port = XdpPort::open("s0", None, 9018, 1).unwrap().remove(0);
            network.switch.ip("link set s0 mtu 9000").unwrap();
            let left = network.left.enter(|| PacketSocket::new("l0"));
            let (mut pool, mut batch) = (Pool::new(64, 9018, 0).unwrap(), Batch::new());
            let end = Instant::now() + DEADLINE;
            while !batch.packets().iter().any(|packet| packet.len == 9000) {
                assert!(Instant::now() < end);
                left.send(&frame(1, 9000));
                batch.clear();
                port.receive(0, &mut pool, &mut batch).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    // Longer than the pool's frames, and counted.
    let switch = network.start(1522);
    for len in [1600, 5000, 100] {
        assert!(left.send(&frame(1, len)));
    }
    let end = Instant::now() + DEADLINE;
    while right.receive().is_none() {
        assert!(Instant::now() < end);
    }
    assert_eq!(switch.finish()[0].rx_dropped_oversize, 2);
}

/// A hundred thousand frames, no faster than veth's queue of 256 can be emptied, arrive complete and in
/// order.
#[test]
fn a_burst_arrives_in_order() {
    crate::need_namespaces!();
    const COUNT: u32 = 100_000;
    let network = Network::new(1500, 1);
    let switch = network.start(1522);
    let (left, right) =
        (network.left.enter(|| PacketSocket::new("l0")), network.right.enter(|| PacketSocket::new("r0")));
    let (seen, end) = (Arc::new(AtomicU32::new(0)), Instant::now() + DEADLINE);
    let seen_by_sender = Arc::clone(&seen);
    let arrived = thread::spawn(move || {
        let mut next = 0;
        while next < COUNT && Instant::now() < end {
            match right.receive() {
                Some(frame) => {
                    assert_eq!((number(&frame), frame.len()), (Some(next), 60));
                    next += 1;
                    seen.store(next, Ordering::Relaxed);
                }
                None => thread::yield_now(),
            }
        }
        next
    });
    let mut refused = 0;
    for at in 0..COUNT {
        while !left.send(&frame(at, 60)) {
            refused += 1;
            thread::yield_now();
        }
        // A veth pair has 256 places.
        while at - seen_by_sender.load(Ordering::Relaxed).min(at) > 200 && Instant::now() < end {
            thread::yield_now();
        }
    }
    let arrived = arrived.join().unwrap();
    let [s0, s1] = switch.finish();
    eprintln!("{refused} refused\n{s0:?}\n{s1:?}");
    assert_eq!(arrived, COUNT);
}

#[test]
fn queues_belong_to_workers() {
    crate::need_namespaces!();
    let network = Network::new(1500, 2);
    // A frame of the other end arrives on the queue that the socket sending it uses.
    let senders = || {
        network.left.enter(|| {
            [0, 1].map(|queue| XdpPort::open("l0", Some(queue), 1522, 1).err().map(|error| error.to_string()))
        })
    };
    assert_eq!(senders(), [None, None]);
    let mut left = network.left.enter(|| XdpPort::open("l0", None, 1522, 2).unwrap());
    let send = |left: &mut Vec<XdpPort>, queue: usize, at: u32| {
        assert_eq!(left[queue].send(&[&frame(at, 60)]).unwrap().sent, 1);
    };
    // (workers, queue, handle of queue 0, handle of queue 1)
    for (workers, queue, handles) in
        [(1, None, [0, 0]), (2, None, [0, 1]), (3, None, [0, 1]), (2, Some(1), [9, 0])]
    {
        let mut right = network.open("s0", queue, workers).unwrap();
        assert_eq!(right.len(), workers);
        eprintln!("{:?}", right[0].notices());
        for (from, handle) in handles.into_iter().enumerate().filter(|(_, handle)| *handle < workers) {
            for at in 0..5 {
                send(&mut left, from, at);
            }
            let found = receive(&mut right, 5);
            let expected: Vec<_> = (0..5).map(|at| (handle, frame(at, 60))).collect();
            assert_eq!(found, expected, "{workers} workers, queue {from}");
        }
        // All send, including those without a queue.
        for handle in &mut right {
            assert_eq!(handle.send(&[&frame(3, 60), &frame(4, 99)]).unwrap().sent, 2);
            assert_eq!(receive(&mut left, 2).len(), 2);
        }
    }
    let error = network.open("s0", Some(2), 1).err().unwrap();
    assert_eq!(error, "network interface `s0` has no receive queue 2: it has 0 to 1");
}

#[test]
fn only_one_program_has_an_interface() {
    crate::need_namespaces!();
    let network = Network::new(1500, 1);
    let first = network.open("s0", None, 1).unwrap();
    let error = network.open("s0", None, 1).err().unwrap();
    assert!(
        error.starts_with("cannot attach an XDP program for network interface `s0`: ")
            && error.contains("another program uses it through XDP (`ip link show dev s0`"),
        "{error}"
    );
    drop(first);
    network.open("s0", None, 1).unwrap();
}

/// A veth whose other end has more transmit queues than this end has receive queues refuses native mode.
#[test]
fn generic_mode_where_native_is_refused() {
    crate::need_namespaces!();
    let network = Network::new(1500, 1);
    let peer = network.left.name();
    network
        .switch
        .ip(&format!("link add s2 numrxqueues 1 numtxqueues 1 type veth peer name l2 numrxqueues 2 numtxqueues 2 netns {peer}"))
        .unwrap();
    network.switch.ip("link set s2 up").unwrap();
    network.left.ip("link set l2 up").unwrap();
    let mut port = network.open("s2", None, 1).unwrap();
    let notices = port[0].notices();
    assert!(
        notices[0] == "interface `s2`: AF_XDP on queue 0, generic mode, copied by the kernel"
            && notices[1].starts_with("interface `s2`: native XDP was refused (No space left on device")
            && notices[1].contains("(`ethtool -L s2 rx N`)"),
        "{notices:?}"
    );
    let left = network.left.enter(|| PacketSocket::new("l2"));
    assert!(left.send(&frame(1, 300)));
    assert_eq!(receive(&mut port, 1), [(0, frame(1, 300))]);
    assert_eq!(port[0].send(&[&frame(2, 400)]).unwrap().sent, 1);
    let end = Instant::now() + DEADLINE;
    while left.receive().is_none_or(|arrived| arrived != frame(2, 400)) {
        assert!(Instant::now() < end);
    }
}

#[test]
fn down_up_gone_and_back() {
    crate::need_namespaces!();
    let network = Network::new(1500, 1);
    let mut other = network.open("s1", None, 1).unwrap();
    network.switch.ip("link set s0 down").unwrap();
    let network = Arc::new(network);
    let inside = network.clone();
    // Interfaces are looked up in the namespace of the thread.
    network.switch.enter(move || {
        let network = inside;
        let mut port = XdpPort::open("s0", None, 1522, 1).unwrap();
        let down = "interface `s0` is down; frames will flow once it is up (`ip link set s0 up`)";
        assert_eq!(port[0].status(), LinkStatus::Down(down.into()));
        assert_eq!(port[0].notices().last().unwrap(), down);
        assert_eq!(port[0].send(&[&frame(0, 60), &frame(1, 60)]).unwrap().dropped, 2);
        let (mut pool, mut batch) = (Pool::new(64, 1522, 0).unwrap(), Batch::new());
        let mut until = |port: &mut Vec<XdpPort>, up: bool| {
            let end = Instant::now() + DEADLINE;
            while (port[0].status() == LinkStatus::Up) != up {
                assert!(Instant::now() < end);
                batch.clear();
                port[0].receive(0, &mut pool, &mut batch).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            port[0].status()
        };
        for round in 0..3 {
            if round == 2 {
                network.switch.ip("link del s0").unwrap();
                let LinkStatus::Down(gone) = until(&mut port, false) else { panic!() };
                assert!(gone.starts_with("interface `s0` is gone"), "{gone}");
                assert_eq!(port[0].send(&[&frame(0, 60)]).unwrap().dropped, 1);
                network.join(&network.left, "s0", "l0", 1500, 1);
            }
            network.switch.ip("link set s0 up").unwrap();
            until(&mut port, true);
            let left = network.left.enter(|| PacketSocket::new("l0"));
            // Too short, valid, too long: the valid one is sent.
            let sent = port[0].send(&[&[1, 2, 3], &frame(round, 60), &frame(round, 2000)]).unwrap();
            assert_eq!((sent.sent, sent.dropped), (1, 2));
            let end = Instant::now() + DEADLINE;
            while left.receive().is_none_or(|arrived| arrived != frame(round, 60)) {
                assert!(Instant::now() < end);
            }
            assert!(left.send(&frame(round + 10, 60)));
            assert_eq!(receive(&mut port, 1), [(0, frame(round + 10, 60))]);
            if round < 1 {
                network.switch.ip("link set s0 down").unwrap();
                until(&mut port, false);
            }
        }
        let stats = port[0].stats();
        assert_eq!((stats.tx_packets, stats.tx_dropped), (3, 9));
    });
    // The other port does not notice.
    let right = network.right.enter(|| PacketSocket::new("r0"));
    assert!(right.send(&frame(1, 60)));
    assert_eq!(receive(&mut other, 1).len(), 1);
}

#[test]
fn without_permission_the_remedy_is_named() {
    crate::need_namespaces!();
    let namespace = Namespace::new("poor");
    let error = namespace.enter(|| {
        // SAFETY: numbers only. The bare system call changes only this thread, which ends here.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) }, 0);
        XdpPort::open("lo", None, 1522, 1).err().unwrap()
    });
    assert!(
        error.to_string().contains("setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep"),
        "{error}"
    );
    assert_eq!(error.exit_status(), 3);
}

/// A generator: 64 frames in one system call.
struct Generator {
    socket: PacketSocket,
    /// Kept alive for `messages`, which point here.
    _frames: Vec<Vec<u8>>,
    _parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers lead to memory that it owns.
unsafe impl Send for Generator {}

impl Generator {
    fn new(interface: &str, len: usize) -> Generator {
        let frames: Vec<Vec<u8>> = (0..64).map(|at| frame(at, len)).collect();
        let part = |frame: &Vec<u8>| libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        };
        let mut parts: Vec<_> = frames.iter().map(part).collect();
        // SAFETY: integers and pointers; all zeros are a good value.
        let mut messages: Vec<libc::mmsghdr> = parts.iter().map(|_| unsafe { mem::zeroed() }).collect();
        for (message, part) in messages.iter_mut().zip(&mut parts) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        Generator { socket: PacketSocket::new(interface), _frames: frames, _parts: parts, messages }
    }

    fn send(&mut self) -> usize {
        // SAFETY: there are this many messages, each of one part, which is a frame; all are alive.
        let sent = unsafe { libc::sendmmsg(self.socket.0.as_raw_fd(), self.messages.as_mut_ptr(), 64, 0) };
        usize::try_from(sent).unwrap_or(0)
    }
}

/// Returns the nanoseconds to bring a frame to the port, and to forward an available frame.
fn costs(network: &Network, xdp: bool, len: usize) -> [f64; 2] {
    const ROUNDS: usize = 200;
    const FRAMES: usize = 512;
    let mut ports = network.switch.enter(move || {
        ["s0", "s1"].map(|name| -> Box<dyn Port> {
            if xdp {
                Box::new(XdpPort::open(name, None, 1522, 1).unwrap().remove(0))
            } else {
                Box::new(AfPacketPort::open(name, 1522, 1).unwrap().remove(0))
            }
        })
    });
    let mut generator = network.left.enter(move || Generator::new("l0", len));
    let (mut pool, mut batch) = (Pool::new(1024, 1522, 64).unwrap(), Batch::new());
    let (mut times, mut count) = ([Duration::ZERO; 2], 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut offered = 0;
        while offered < FRAMES {
            offered += generator.send();
        }
        times[0] += start.elapsed();
        let start = Instant::now();
        loop {
            batch.clear();
            if ports[0].receive(0, &mut pool, &mut batch).unwrap() == Received::Empty {
                break;
            }
            let frames: Vec<&[u8]> = batch.packets().iter().map(|packet| pool.frame(packet)).collect();
            count += ports[1].send(&frames).unwrap().sent;
        }
        times[1] += start.elapsed();
    }
    assert!(count >= ROUNDS * FRAMES * 99 / 100, "{count}");
    times.map(|time| time.as_nanos() as f64 / count as f64)
}

/// The benefit of AF_XDP on a veth, where the kernel copies: the generator's part, in which the kernel brings the frame
/// to the port, and the switch's.
#[test]
#[ignore = "a measurement"]
fn against_af_packet() {
    crate::need_namespaces!();
    let network = Network::new(1500, 1);
    for len in [60, 512, 1514] {
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            for xdp in [false, true] {
                runs[usize::from(xdp)].push(costs(&network, xdp, len));
            }
        }
        let [[packet_in, packet], [xdp_in, xdp]] = runs.map(|runs| {
            [0, 1].map(|part| {
                let mut times: Vec<f64> = runs.iter().map(|run| run[part]).collect();
                times.sort_by(f64::total_cmp);
                times[2]
            })
        });
        eprintln!(
            "{len} bytes: to the port {packet_in:.0} ns by AF_PACKET, {xdp_in:.0} by AF_XDP: {:.2} times as fast; \
             forwarding {packet:.0} ns, {xdp:.0}: {:.2} times",
            packet_in / xdp_in,
            packet / xdp,
        );
    }
}
