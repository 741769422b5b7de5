//! AF_PACKET ports between two kernels: two namespaces, each connected by a veth pair to a third one in which a trivial
//! switch copies frames from one port to the other. What the kernels send must arrive intact, with all offloads
//! enabled.
//!
//! Needs root and `ip`, and is skipped with a message otherwise.

// Reason: sockets of kinds that std lacks.
#![allow(unsafe_code)]

use crate::netns::{DEADLINE, Namespace};
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{AfPacketPort, LinkStatus, Port, PortOptions, PortStats, Received};
use std::io::{Read, Write};
use std::mem;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// left (10.77.0.1) l0 -- s0 switch s1 -- r0 right (10.77.0.2)
struct Network {
    left: Namespace,
    right: Namespace,
    switch: Namespace,
}

impl Network {
    fn new(mtu: usize) -> Network {
        let network = Network {
            left: Namespace::new("left"),
            right: Namespace::new("right"),
            switch: Namespace::new("switch"),
        };
        for (end, ours, theirs, host) in [(&network.left, "s0", "l0", 1), (&network.right, "s1", "r0", 2)] {
            let peer = end.name();
            network
                .switch
                .ip(&format!("link add {ours} mtu {mtu} type veth peer name {theirs} mtu {mtu} netns {peer}"))
                .unwrap();
            network.switch.ip(&format!("link set {ours} up")).unwrap();
            end.ip(&format!("addr add 10.77.0.{host}/24 dev {theirs}")).unwrap();
            end.ip(&format!("addr add fd77::{host}/64 dev {theirs} nodad")).unwrap();
            end.ip(&format!("link set {theirs} up")).unwrap();
        }
        network
    }

    fn start(&self, frame_max: usize) -> Switch {
        self.start_workers(frame_max, 1)
    }

    fn start_workers(&self, frame_max: usize, workers: usize) -> Switch {
        let stop = Arc::<AtomicBool>::default();
        let open = move |name: &'static str| AfPacketPort::open(name, frame_max, workers).unwrap();
        let pairs = self.switch.enter(move || open("s0").into_iter().zip(open("s1")).collect::<Vec<_>>());
        let work = |(left, right)| {
            let stop = stop.clone();
            self.switch.spawn(move || forward([left, right], &stop, frame_max))
        };
        let threads = pairs.into_iter().map(work).collect();
        Switch { stop, threads }
    }
}

/// For one worker.
fn open_one(name: &str, frame_max: usize) -> AfPacketPort {
    AfPacketPort::open(name, frame_max, 1).unwrap().remove(0)
}

struct Switch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<[PortStats; 2]>>,
}

impl Switch {
    /// Returns the total counts of each port, and the number of workers that received more than stray frames.
    fn finish_workers(mut self) -> ([PortStats; 2], usize) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut sum, mut busy) = ([PortStats::default(); 2], 0);
        for thread in self.threads.drain(..) {
            let [left, right] = thread.join().unwrap();
            sum[0] += left;
            sum[1] += right;
            busy += usize::from(left.rx_packets + right.rx_packets > 100);
        }
        (sum, busy)
    }

    fn finish(self) -> [PortStats; 2] {
        self.finish_workers().0
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn forward(mut ports: [AfPacketPort; 2], stop: &AtomicBool, frame_max: usize) -> [PortStats; 2] {
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

/// FNV-1a, 64 bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Sends `megabytes` of noise from left to right and returns MB/s; the digests must agree.
fn tcp(network: &Network, address: &'static str, megabytes: usize) -> f64 {
    let (ready, is_ready) = mpsc::channel();
    let receiver = network.right.spawn(move || {
        let listener = TcpListener::bind(address).unwrap();
        ready.send(()).unwrap();
        let (mut stream, _) = accept(&listener);
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (mut digest, mut buffer, mut total) = (Digest::new(), vec![0; 1 << 18], 0);
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => break,
                len => {
                    digest.update(&buffer[..len]);
                    total += len;
                }
            }
        }
        stream.write_all(b"done").unwrap();
        (digest, total)
    });
    is_ready.recv_timeout(DEADLINE).unwrap();
    let start = Instant::now();
    let sent = network.left.enter(move || {
        let mut stream = TcpStream::connect_timeout(&address.parse().unwrap(), DEADLINE).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (mut digest, mut noise, mut buffer) =
            (Digest::new(), 88_172_645_463_325_252u64, vec![0u8; 1 << 20]);
        for _ in 0..megabytes {
            for word in buffer.chunks_exact_mut(8) {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                word.copy_from_slice(&noise.to_le_bytes());
            }
            digest.update(&buffer);
            stream.write_all(&buffer).unwrap();
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut done = Vec::new();
        stream.read_to_end(&mut done).unwrap();
        assert_eq!(done, b"done");
        digest
    });
    let seconds = start.elapsed().as_secs_f64();
    let (received, total) = receiver.join().unwrap();
    assert_eq!((received, total), (sent, megabytes << 20));
    megabytes as f64 / seconds
}

fn accept(listener: &TcpListener) -> (TcpStream, std::net::SocketAddr) {
    listener.set_nonblocking(true).unwrap();
    let end = Instant::now() + DEADLINE;
    loop {
        match listener.accept() {
            Ok((stream, from)) => {
                stream.set_nonblocking(false).unwrap();
                return (stream, from);
            }
            Err(error) => {
                assert!(error.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < end, "{error}")
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn raw_socket(domain: i32, protocol: i32) -> OwnedFd {
    // SAFETY: numbers only; the returned descriptor belongs to this process.
    unsafe {
        let fd = libc::socket(domain, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

/// Sends one ICMP echo of `len` data bytes, like ping(8), and returns the round trip time.
fn ping(len: usize) -> Duration {
    // `UdpSocket` is only a wrapper with a timeout here: the messages are ICMP.
    let socket = UdpSocket::from(raw_socket(libc::AF_INET, libc::IPPROTO_ICMP));
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut request = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    request.extend((0..len).map(|i| (i * 7) as u8));
    let sum: u32 =
        request.chunks(2).map(|pair| (u32::from(pair[0]) << 8) | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    request[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    let start = Instant::now();
    socket.send_to(&request, "10.77.0.2:0").unwrap();
    let mut reply = vec![0; 70_000];
    loop {
        let len = socket.recv(&mut reply).unwrap();
        let icmp = &reply[20..len];
        if icmp[0] == 0 && icmp[4..8] == request[4..8] {
            assert_eq!(icmp[8..], request[8..]);
            return start.elapsed();
        }
        assert!(start.elapsed() < DEADLINE);
    }
}

#[test]
fn ping_goes_through() {
    crate::need_namespaces!();
    let network = Network::new(1500);
    let switch = network.start(1522);
    for len in [0, 56, 1472, 4000] {
        // The first one also resolves addresses.
        let times: Vec<Duration> = (0..5).map(|_| network.left.enter(move || ping(len))).collect();
        eprintln!("ping of {len} bytes: {times:?}");
    }
    let [left, right] = switch.finish();
    assert!(left.rx_packets > 20 && right.rx_packets > 20);
    for stats in [left, right] {
        assert_eq!((stats.rx_dropped_oversize, stats.rx_dropped_malformed, stats.tx_dropped), (0, 0, 0));
    }
}

#[test]
fn udp_goes_through() {
    crate::need_namespaces!();
    let network = Network::new(1500);
    let switch = network.start(1522);
    for address in ["10.77.0.2:7000", "[fd77::2]:7000"] {
        let (ready, is_ready) = mpsc::channel();
        let receiver = network.right.spawn(move || {
            let socket = UdpSocket::bind(address).unwrap();
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            ready.send(()).unwrap();
            let mut buffer = vec![0; 65536];
            loop {
                let (len, from) = socket.recv_from(&mut buffer).unwrap();
                socket.send_to(&buffer[..len], from).unwrap();
                if len == 3 {
                    return;
                }
            }
        });
        is_ready.recv_timeout(DEADLINE).unwrap();
        network.left.enter(move || {
            let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
            let socket = UdpSocket::bind(any).unwrap();
            socket.connect(address).unwrap();
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            let mut buffer = vec![0; 65536];
            // 1448 just fits; 8000 is sent in fragments; 0 and 1 are short frames.
            for len in [0, 1, 7, 1448, 8000, 30_000] {
                let data: Vec<u8> = (0..len).map(|i| ((i * 13) >> 3) as u8).collect();
                socket.send(&data).unwrap();
                assert_eq!(socket.recv(&mut buffer).unwrap(), len);
                assert_eq!(buffer[..len], data);
            }
            // UDP segmentation: ten datagrams of 1000 bytes, and one of 3, as one frame on this side.
            let size: i32 = 1000;
            // SAFETY: pointer and length describe `size`. 103 is UDP_SEGMENT.
            let status = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_UDP,
                    103,
                    (&raw const size).cast(),
                    mem::size_of_val(&size) as u32,
                )
            };
            assert_eq!(status, 0);
            let data: Vec<u8> = (0..10_003u32).map(|i| (i / 1000) as u8).collect();
            assert_eq!(socket.send(&data).unwrap(), data.len());
            for i in 0..11 {
                let len = socket.recv(&mut buffer).unwrap();
                assert_eq!(len, if i < 10 { 1000 } else { 3 });
                assert!(buffer[..len].iter().all(|&byte| byte == i));
            }
        });
        receiver.join().unwrap();
    }
    switch.finish();
}

#[test]
fn tcp_arrives_intact() {
    crate::need_namespaces!();
    let network = Network::new(1500);
    let switch = network.start(1522);
    eprintln!("IPv4: {:.0} MB/s", tcp(&network, "10.77.0.2:7001", 100));
    eprintln!("IPv6: {:.0} MB/s", tcp(&network, "[fd77::2]:7002", 20));
    let [left, right] = switch.finish();
    eprintln!("{left:?}\n{right:?}");
    assert_eq!((left.rx_dropped_malformed, left.rx_dropped_oversize), (0, 0));
    // No frame is longer than the link carries.
    assert!(left.rx_bytes > 120 << 20 && left.rx_bytes / left.rx_packets < 1514);
}

#[test]
fn tcp_arrives_intact_through_several_workers() {
    crate::need_namespaces!();
    let network = Network::new(1500);
    let switch = network.start_workers(1522, 3);
    // Each direction of a connection has a separate hash: the probability that all 16 go to one worker is 1 in 3^15.
    for port in 0..8 {
        let address: &str = Box::leak(format!("10.77.0.2:{}", 7100 + port).into_boxed_str());
        tcp(&network, address, 5);
    }
    let ([left, right], busy) = switch.finish_workers();
    eprintln!("{left:?}\n{right:?}");
    assert!(busy > 1, "all by one worker");
    assert_eq!((left.rx_dropped_malformed, left.rx_dropped_oversize), (0, 0));
    assert!(left.rx_bytes > 40 << 20 && left.rx_bytes / left.rx_packets < 1514);
}

#[test]
fn jumbo_frames_need_a_pool_for_them() {
    crate::need_namespaces!();
    let network = Network::new(9000);
    let switch = network.start(9018);
    eprintln!("{:.0} MB/s", tcp(&network, "10.77.0.2:7003", 20));
    assert_eq!(switch.finish()[0].rx_dropped_oversize, 0);
    // Longer ones are counted, whether or not they arrive complete.
    let switch = network.start(1522);
    network.left.enter(|| ping(56));
    network.left.enter(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for len in [1600, 5000] {
            socket.send_to(&vec![0; len], "10.77.0.2:9").unwrap();
        }
    });
    network.left.enter(|| ping(56));
    assert_eq!(switch.finish()[0].rx_dropped_oversize, 2);
}

/// Sends one frame on `interface`.
fn send_frame(interface: &str, frame: &[u8]) {
    send_frames(interface, [frame]);
}

/// Sends frames on `interface`.
fn send_frames<F: AsRef<[u8]>>(interface: &str, frames: impl IntoIterator<Item = F>) {
    let socket = raw_socket(libc::AF_PACKET, 0);
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: all zeros are a good value; pointers and lengths describe live objects.
    unsafe {
        let mut address: libc::sockaddr_ll = mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        for frame in frames {
            let frame = frame.as_ref();
            let sent = libc::sendto(
                socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const address).cast(),
                mem::size_of_val(&address) as u32,
            );
            assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
        }
    }
}

/// Returns the next frame for which `wanted` holds; skips others (the kernels send IPv6 by themselves).
fn next_frame(port: &mut AfPacketPort, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut pool, mut batch) = (Pool::new(64, 1522, 0).unwrap(), Batch::new());
    let end = Instant::now() + DEADLINE;
    loop {
        batch.clear();
        port.receive(0, &mut pool, &mut batch).unwrap();
        if let Some(packet) = batch.packets().iter().find(|packet| wanted(pool.frame(packet))) {
            return pool.frame(packet).to_vec();
        }
        assert!(Instant::now() < end, "no such frame came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn vlan_tags_are_put_back_and_own_frames_not_seen() {
    crate::need_namespaces!();
    let network = Network::new(1500);
    let mut port = network.switch.enter(|| open_one("s0", 1522));
    let mut frame = vec![0x02; 12];
    // Outer 802.1ad, inner 802.1Q, then an EtherType for experiments (RFC 9542).
    frame.extend([0x88, 0xa8, 0x20, 0x05, 0x81, 0x00, 0x00, 0x07, 0x88, 0xb5]);
    for (skip, data) in [(4, 40), (0, 40), (0, 1492), (8, 46)] {
        let mut frame = [&frame[..12], &frame[12 + skip..]].concat();
        frame.extend((0..data).map(|i| i as u8));
        let sent = frame.clone();
        // Frames of our own must not be received.
        port.send(&[&[&[0x04; 12][..], &frame[12..]].concat()]).unwrap();
        network.left.enter(move || send_frame("l0", &sent));
        assert_eq!(next_frame(&mut port, |frame| frame[0] & !6 == 0), frame);
    }
}

/// Receives until `done` with the port, in the namespace that the thread is in.
fn serve_until(port: &mut AfPacketPort, done: impl Fn(&AfPacketPort) -> bool) {
    let (mut pool, mut batch) = (Pool::new(64, 1522, 0).unwrap(), Batch::new());
    let end = Instant::now() + DEADLINE;
    while !done(port) {
        batch.clear();
        port.receive(0, &mut pool, &mut batch).unwrap();
        assert!(Instant::now() < end, "still {:?}", port.status());
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn is_down(port: &AfPacketPort, why: &str) -> bool {
    matches!(port.status(), LinkStatus::Down(text) if text.contains(why))
}

#[test]
fn down_up_gone_and_back() {
    crate::need_namespaces!();
    let network = Network::new(1500);
    network.switch.ip("link set s0 down").unwrap();
    let mut port = network.switch.enter(|| open_one("s0", 1522));
    let notice = "interface `s0` is down; frames will flow once it is up (`ip link set s0 up`)";
    assert_eq!(port.notices(), [notice]);
    assert_eq!(port.status(), LinkStatus::Down(notice.into()));
    let frame = [&[2; 12][..], &[0x88, 0xb5], &[9; 50]].concat();
    assert_eq!(port.send(&[&frame, &frame]).unwrap().dropped, 2);
    let mut sent = frame.clone();
    let is_ours = |frame: &[u8]| frame[12..14] == [0x88, 0xb5];
    let exchange = |port: &mut AfPacketPort, sent: &[u8]| {
        // The kernel reports the carrier a little later.
        serve_until(port, |port| port.status() == LinkStatus::Up);
        // Too short, valid, too long: the valid one is sent.
        let result = port.send(&[&[1, 2, 3], &frame, &[2; 2000]]).unwrap();
        assert_eq!((result.sent, result.dropped), (1, 2));
        network.left.enter({
            let sent = sent.to_vec();
            move || send_frame("l0", &sent)
        });
        assert_eq!(next_frame(port, is_ours), sent);
    };
    for _ in 0..2 {
        network.switch.ip("link set s0 up").unwrap();
        exchange(&mut port, &sent);
        network.switch.ip("link set s0 down").unwrap();
        sent[20] += 1;
    }
    // A renamed interface is still the same one.
    network.switch.ip("link set s0 name other").unwrap();
    network.switch.ip("link set other up").unwrap();
    exchange(&mut port, &sent);
    // Until another one has its old name.
    let peer = network.left.name();
    network.switch.ip(&format!("link add s0 type veth peer name l1 netns {peer}")).unwrap();
    network.switch.ip("link set s0 up").unwrap();
    network.left.ip("link set l1 up").unwrap();
    port = network.switch.enter(move || {
        serve_until(&mut port, |port| is_down(port, "gone"));
        serve_until(&mut port, |port| port.status() == LinkStatus::Up);
        port
    });
    network.left.enter({
        let sent = sent.clone();
        move || send_frame("l1", &sent)
    });
    assert_eq!(next_frame(&mut port, is_ours), sent);
    // And back: it is the first one again.
    network.switch.ip("link del s0").unwrap();
    network.switch.ip("link set other down").unwrap();
    network.switch.ip("link set other name s0").unwrap();
    network.switch.ip("link set s0 up").unwrap();
    port = network.switch.enter(move || {
        serve_until(&mut port, |port| is_down(port, "gone"));
        serve_until(&mut port, |port| port.status() == LinkStatus::Up);
        port
    });
    exchange(&mut port, &sent);
    network.switch.ip("link set s0 down").unwrap();
    network.switch.ip("link set s0 name other").unwrap();
    network.switch.ip("link set other up").unwrap();
    exchange(&mut port, &sent);
    network.left.ip("link set l0 down").unwrap();
    serve_until(&mut port, |port| is_down(port, "has no carrier"));
    network.left.ip("link set l0 up").unwrap();
    network.switch.ip("link set other down").unwrap();
    network.switch.ip("link set other name s0").unwrap();

    // Deleted while down, deleted while up, moved away and back with the same number between two checks.
    for round in 0..3 {
        if round < 2 {
            if round == 0 {
                network.switch.ip("link set s0 down").unwrap();
            }
            network.switch.ip("link del s0").unwrap();
            // Both ways of detection.
            if round == 1 {
                assert_eq!(port.send(&[&frame, &frame]).unwrap().dropped, 2);
            }
            port = network.switch.enter(move || {
                serve_until(&mut port, |port| is_down(port, "interface `s0` is gone: deleted, renamed"));
                port
            });
            let before = port.stats();
            assert_eq!(port.send(&[&frame, &frame]).unwrap().dropped, 2);
            assert_eq!(port.stats().tx_dropped, before.tx_dropped + 2);
            let peer = network.left.name();
            network.switch.ip(&format!("link add s0 type veth peer name l0 netns {peer}")).unwrap();
        } else {
            let (away, back) = (network.right.name(), network.switch.name());
            network.switch.ip(&format!("link set s0 netns {away}")).unwrap();
            network.right.ip(&format!("link set s0 netns {back}")).unwrap();
        }
        network.switch.ip("link set s0 up").unwrap();
        network.left.ip("link set l0 up").unwrap();
        port = network.switch.enter(move || {
            if round == 2 {
                serve_until(&mut port, |port| is_down(port, "gone"));
            }
            serve_until(&mut port, |port| port.status() == LinkStatus::Up);
            port
        });
        sent[20] += 1;
        exchange(&mut port, &sent);
    }
}

/// A UDP frame of the flow `flow`, its `number` in the data. The checksum is absent, as UDP over IPv4 allows.
fn udp_frame(flow: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut ip = [0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, flow, 10, 2, 0, flow];
    let sum: u32 = ip.chunks(2).map(|pair| (u32::from(pair[0]) << 8) | u32::from(pair[1])).sum();
    ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    frame.extend(ip);
    frame.extend([0x10, flow, 0x20, flow, 0, 12, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame
}

#[test]
fn workers_share_the_flows() {
    crate::need_namespaces!();
    const FLOWS: u8 = 32;
    const PER_FLOW: u32 = 50;
    let network = Network::new(1500);
    let mut handles = network.switch.enter(|| AfPacketPort::open("s0", 1522, 3).unwrap());
    let mut owner: Vec<Option<usize>> = vec![None; usize::from(FLOWS)];
    // The second time after the interface was deleted and created again.
    for round in 0..2 {
        network.left.enter(move || {
            let frames = (0..PER_FLOW).flat_map(|number| (0..FLOWS).map(move |flow| udp_frame(flow, number)));
            send_frames("l0", frames);
        });
        // The other workers do not see what the switch sends.
        for handle in &mut handles {
            assert_eq!(handle.send(&[&udp_frame(200, 0)]).unwrap().sent, 1);
        }
        let mut next = vec![0; usize::from(FLOWS)];
        let (mut pool, mut batch) = (Pool::new(64, 1522, 0).unwrap(), Batch::new());
        let end = Instant::now() + DEADLINE;
        let mut empty = 0;
        while next.iter().sum::<u32>() < PER_FLOW * u32::from(FLOWS) || empty < 300 {
            empty += 1;
            for (worker, handle) in handles.iter_mut().enumerate() {
                batch.clear();
                handle.receive(0, &mut pool, &mut batch).unwrap();
                for frame in batch.packets().iter().map(|packet| pool.frame(packet)) {
                    if frame.len() != 46 || frame[23] != 17 || frame[26..28] != [10, 1] {
                        continue;
                    }
                    empty = 0;
                    let flow = usize::from(frame[29]);
                    assert_eq!(*owner[flow].get_or_insert(worker), worker, "flow {flow} changed its worker");
                    assert_eq!(frame[42..], u32::to_be_bytes(next[flow]), "flow {flow}, in order, once");
                    next[flow] += 1;
                }
            }
            assert!(Instant::now() < end, "{next:?}");
        }
        let mut counts = [0; 3];
        owner.drain(..).for_each(|worker| counts[worker.unwrap()] += 1);
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
        owner.resize(usize::from(FLOWS), None);
        if round == 0 {
            network.switch.ip("link del s0").unwrap();
            handles = network.switch.enter(move || {
                for handle in &mut handles {
                    serve_until(handle, |port| is_down(port, "gone"));
                }
                handles
            });
            let peer = network.left.name();
            network.switch.ip(&format!("link add s0 type veth peer name l0 netns {peer}")).unwrap();
            network.switch.ip("link set s0 up").unwrap();
            network.left.ip("link set l0 up").unwrap();
            handles = network.switch.enter(move || {
                for handle in &mut handles {
                    serve_until(handle, |port| port.status() == LinkStatus::Up);
                }
                handles
            });
        }
    }
}

#[test]
fn without_permission_the_remedy_is_named() {
    crate::need_namespaces!();
    let namespace = Namespace::new("poor");
    let error = namespace.enter(|| {
        // SAFETY: numbers only. The bare system call changes only this thread, which ends here.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) }, 0);
        AfPacketPort::open("lo", 1522, 1).unwrap_err()
    });
    assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
    assert_eq!(error.exit_status(), 3);
}

/// If threads share the pipeline, one of them receives and another sends.
#[test]
fn one_handle_receives_all_and_the_other_sends() {
    crate::need_namespaces!();
    const FRAMES: u32 = 320;
    let network = Network::new(1500);
    let mut handles = network.switch.enter(|| {
        let options = PortOptions { workers: 2, split: true, ..PortOptions::default() };
        p4jet_ports::open(&"0@s0".parse().unwrap(), &options).unwrap()
    });
    network.left.enter(|| {
        send_frames("l0", (0..FRAMES).map(|number| udp_frame(number as u8 % 32, number)));
    });
    let (mut pool, mut batch) = (Pool::new(64, 1522, 0).unwrap(), Batch::new());
    let end = Instant::now() + DEADLINE;
    let (mut next, mut empty) = (0u32, 0);
    while next < FRAMES || empty < 300 {
        assert_eq!(handles[1].send(&[&udp_frame(200, 0)]).unwrap().sent, 1);
        for (handle, receives) in handles.iter_mut().zip([true, false]) {
            batch.clear();
            handle.receive(0, &mut pool, &mut batch).unwrap();
            for frame in batch.packets().iter().map(|packet| pool.frame(packet)) {
                assert!(receives, "{frame:?}");
                if frame.len() == 46 && frame[23] == 17 && frame[26..28] == [10, 1] {
                    assert_eq!(frame[42..], u32::to_be_bytes(next), "in order, once");
                    (next, empty) = (next + 1, 0);
                }
            }
        }
        empty += 1;
        assert!(Instant::now() < end, "{next} of {FRAMES}");
    }
}
