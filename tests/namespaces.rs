//! The switch between kernels: two hosts, each in its own network namespace, connected by `p4jet run` in a third.
//! Everything the kernels send, with all offloads enabled, must arrive, except what a router drops.
//!
//! Needs root and `ip`, and is skipped with a message otherwise. It changes nothing outside the namespaces that it creates.
//! A test shows that a frame does *not* arrive by sending another one after it that does: frames keep their order.

#[path = "namespaces/rights.rs"]
mod rights;
#[path = "namespaces/slow_link.rs"]
mod slow_link;
#[path = "namespaces/two_switches.rs"]
mod two_switches;

use crate::common::{self, TempDir, workload};
use crate::netns::{DEADLINE, Namespace};
use std::io::{BufRead, BufReader, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const LEFT: Ipv4Addr = Ipv4Addr::new(10, 81, 1, 2);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 81, 2, 2);
/// A network that only the right host, which is also a router, can reach.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 81, 3, 2);
const LEFT_MAC: &str = "02:00:5e:00:53:01";
const RIGHT_MAC: &str = "02:00:5e:00:53:02";
/// The router's own addresses on its two ports.
const ROUTER_MACS: [&str; 2] = ["02:00:5e:00:53:f0", "02:00:5e:00:53:f1"];

/// Maximum time for a change to take effect: a deleted route must not be used.
const EFFECT_BOUND: Duration = Duration::from_millis(200);

/// left (10.81.1.2) l0 -- s0 switch s1 -- r0 right (10.81.2.2) r1 -- f0 far (10.81.3.2)
///
/// The hosts have static routes and neighbour entries, because the programs do not answer ARP.
struct Network {
    left: Namespace,
    right: Namespace,
    far: Namespace,
    switch: Namespace,
    files: TempDir,
}

impl Network {
    fn new() -> Network {
        let network = Network {
            left: Namespace::new("left"),
            right: Namespace::new("right"),
            far: Namespace::new("far"),
            switch: Namespace::new("switch"),
            files: TempDir::new("namespaces"),
        };
        let Network { left, right, far, switch, .. } = &network;
        for (end, ours, theirs, address, mac, router_mac) in [
            (left, "s0", "l0", LEFT, LEFT_MAC, ROUTER_MACS[0]),
            (right, "s1", "r0", RIGHT, RIGHT_MAC, ROUTER_MACS[1]),
        ] {
            let peer = end.name();
            let [a, b, c, _] = address.octets();
            switch
                .ip(&format!("link add {ours} type veth peer name {theirs} address {mac} netns {peer}"))
                .unwrap();
            switch.ip(&format!("link set {ours} up")).unwrap();
            end.ip(&format!("addr add {address}/24 dev {theirs}")).unwrap();
            end.ip(&format!("link set {theirs} up")).unwrap();
            end.ip(&format!("neigh replace {a}.{b}.{c}.1 lladdr {router_mac} dev {theirs} nud permanent"))
                .unwrap();
            end.ip(&format!("route add default via {a}.{b}.{c}.1")).unwrap();
        }
        right.ip(&format!("link add r1 type veth peer name f0 netns {}", far.name())).unwrap();
        right.ip("addr add 10.81.3.1/24 dev r1").unwrap();
        right.ip("link set r1 up").unwrap();
        far.ip(&format!("addr add {FAR}/24 dev f0")).unwrap();
        far.ip("link set f0 up").unwrap();
        far.ip("route add default via 10.81.3.1").unwrap();
        right.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
        network
    }

    /// Starts `p4jet run` with these entries; waits until it forwards.
    fn start(&self, program: &str, entries: &str, more: &[&str]) -> Switch {
        let mut command = common::p4jet();
        command.arg("run").arg(common::program(program));
        self.start_with(command, entries, more)
    }

    /// Like [`Self::start`], with a command that names the program.
    fn start_with(&self, mut command: Command, entries: &str, more: &[&str]) -> Switch {
        let commands = self.files.write("entries.cmd", entries);
        command.args(["-i", "0@s0", "-i", "1@s1", "--commands", &commands]).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A child runs in the namespace of the thread that created it.
        let mut child = self.switch.enter(move || command.spawn().unwrap());
        let (stdin, stdout, stderr) =
            (child.stdin.take(), lines(child.stdout.take()), lines(child.stderr.take()));
        let mut switch = Switch { child, stdin, stdout, stderr, said: String::new() };
        switch.wait_for_stderr("forwarding between 2 ports");
        switch
    }
}

/// Returns the lines of a pipe as they arrive, read by a thread so that the writer never waits.
fn lines(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (to, from) = mpsc::channel();
    let mut reader = BufReader::new(pipe.unwrap());
    thread::spawn(move || {
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            if to.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    from
}

/// `p4jet run`; killed when dropped.
struct Switch {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
    /// The part that has been read.
    said: String,
}

impl Switch {
    fn wait_for_stderr(&mut self, what: &str) {
        let mut said = String::new();
        let end = Instant::now() + DEADLINE;
        while !said.contains(what) {
            match self.stderr.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => said += &line,
                Err(error) => panic!("waiting for `{what}`: {error}; the switch said:\n{said}"),
            }
        }
        self.said += &said;
    }

    /// Returns the text after `what` on a line that has been read.
    fn said_earlier(&self, what: &str) -> String {
        let line = self.said.lines().find_map(|line| line.strip_prefix(what));
        line.unwrap_or_else(|| panic!("no `{what}` in:\n{}", self.said)).to_string()
    }

    /// Sends a runtime command, waits for the line of the answer that contains `expected`, and returns it.
    fn command(&mut self, command: &str, expected: &str) -> String {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
        let mut said = String::new();
        let end = Instant::now() + DEADLINE;
        loop {
            match self.stdout.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(expected) => return line,
                Ok(line) => said += &line,
                Err(error) => panic!("waiting for `{expected}` after `{command}`: {error}; it said:\n{said}"),
            }
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a number that is our child's process, which was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Waits for the end; returns the exit status and standard error.
    fn wait(&mut self) -> (Option<i32>, String) {
        let status = common::wait(&mut self.child, "p4jet run");
        (status.code(), self.stderr.iter().collect())
    }

    /// Ends the switch with SIGTERM, and returns its summary.
    fn finish(mut self) -> String {
        self.signal(libc::SIGTERM);
        let (status, said) = self.wait();
        assert_eq!(status, Some(0), "{said}");
        said
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Handles of the routes in [`simple_router_entries`]: in the order of their lines, from 0.
const ROUTE_TO_RIGHT: u32 = 1;

fn simple_router_entries() -> String {
    format!(
        "table_add ipv4_lpm set_nhop 10.81.1.0/24 => {LEFT} 0\n\
         table_add ipv4_lpm set_nhop 10.81.2.0/24 => {RIGHT} 1\n\
         table_add ipv4_lpm set_nhop 10.81.3.0/24 => {RIGHT} 1\n\
         table_add forward set_dmac {LEFT} => {LEFT_MAC}\n\
         table_add forward set_dmac {RIGHT} => {RIGHT_MAC}\n\
         table_add send_frame rewrite_mac 0 => {}\n\
         table_add send_frame rewrite_mac 1 => {}\n",
        ROUTER_MACS[0], ROUTER_MACS[1]
    )
}

fn acl_router_entries() -> String {
    format!(
        "table_add ipv4_lpm set_next_hop 10.81.1.0/24 => 1\n\
         table_add ipv4_lpm set_next_hop 10.81.2.0/23 => 2\n\
         table_add next_hops send_to 1 => {LEFT_MAC} 0\n\
         table_add next_hops send_to 2 => {RIGHT_MAC} 1\n\
         table_add send_frame rewrite_mac 0 => {}\n\
         table_add send_frame rewrite_mac 1 => {}\n\
         table_add acl_v4 deny 0&&&0 {RIGHT}&&&255.255.255.255 17&&&0xff 0->65535 7666->7666 => 10\n",
        ROUTER_MACS[0], ROUTER_MACS[1]
    )
}

fn raw_socket(domain: i32, protocol: i32) -> OwnedFd {
    // SAFETY: numbers only; the returned descriptor belongs to this process.
    unsafe {
        let fd = libc::socket(domain, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

/// Sends one ICMP echo of `len` data bytes, like ping(8).
fn ping(to: Ipv4Addr, len: usize) {
    // `UdpSocket` is only a wrapper with a timeout here: the messages are ICMP.
    let socket = UdpSocket::from(raw_socket(libc::AF_INET, libc::IPPROTO_ICMP));
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut request = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    request.extend((0..len).map(|i| (i * 7) as u8));
    let sum = workload::checksum(&request);
    request[2..4].copy_from_slice(&sum.to_be_bytes());
    socket.send_to(&request, (to, 0)).unwrap();
    let mut reply = vec![0; 70_000];
    let end = Instant::now() + DEADLINE;
    loop {
        let len = socket.recv(&mut reply).unwrap();
        let icmp = &reply[20..len];
        if icmp[0] == 0 && icmp[4..8] == request[4..8] {
            assert_eq!(icmp[8..], request[8..]);
            return;
        }
        assert!(Instant::now() < end);
    }
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

fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let end = Instant::now() + DEADLINE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) => {
                assert!(error.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < end, "{error}");
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends `megabytes` of noise from `from` to `to` and compares the digests of both ends.
fn tcp(from: &Namespace, to: &Namespace, address: Ipv4Addr, megabytes: usize) {
    let (ready, is_ready) = mpsc::channel();
    let receiver = to.spawn(move || {
        let listener = TcpListener::bind((address, 7001)).unwrap();
        ready.send(()).unwrap();
        let mut stream = accept(&listener);
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
    let sent = from.enter(move || {
        let mut stream = TcpStream::connect_timeout(&(address, 7001).into(), DEADLINE).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (mut digest, mut noise, mut buffer) =
            (Digest::new(), common::mutate::Random(88_172_645_463_325_252), vec![0u8; 1 << 20]);
        for _ in 0..megabytes {
            for word in buffer.chunks_exact_mut(8) {
                word.copy_from_slice(&noise.next().to_le_bytes());
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
    eprintln!("{megabytes} MiB in {seconds:.2} s");
}

#[test]
fn ping_and_tcp_go_through_simple_router() {
    need_namespaces!();
    let network = Network::new();
    let switch = network.start("simple_router", &simple_router_entries(), &[]);
    for len in [0, 56, 1472, 4000] {
        network.left.enter(move || ping(RIGHT, len));
        network.right.enter(move || ping(LEFT, len));
    }
    network.left.enter(|| ping(FAR, 56));
    tcp(&network.left, &network.right, RIGHT, 100);
    tcp(&network.right, &network.left, LEFT, 10);
    let said = switch.finish();
    assert!(said.contains("sent to port 0") && said.contains("sent to port 1"), "{said}");
    assert!(!said.contains("does not exist"), "{said}");
}

#[test]
fn ping_and_tcp_go_through_acl_router() {
    need_namespaces!();
    let network = Network::new();
    let switch = network.start("acl_router", &acl_router_entries(), &[]);
    for len in [0, 56, 1472, 4000] {
        network.left.enter(move || ping(RIGHT, len));
        network.right.enter(move || ping(LEFT, len));
    }
    tcp(&network.left, &network.right, RIGHT, 20);
    switch.finish();
}

/// A UDP socket in `host` that returns datagrams as texts, with their TTLs on arrival.
struct Listener {
    arrived: mpsc::Receiver<(String, u8)>,
}

fn listen(host: &Namespace, address: Ipv4Addr, port: u16) -> Listener {
    let (to, arrived) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    host.spawn(move || {
        let socket = UdpSocket::bind((address, port)).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let on: i32 = 1;
        // SAFETY: pointer and length describe `on`.
        let status = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_RECVTTL,
                (&raw const on).cast(),
                mem::size_of_val(&on) as u32,
            )
        };
        assert_eq!(status, 0);
        ready.send(()).unwrap();
        // Ends at the latest when nothing has arrived for the time of the deadline.
        while let Some(datagram) = receive_with_ttl(&socket) {
            let end = datagram.0 == "end";
            if to.send(datagram).is_err() || end {
                return;
            }
        }
    });
    is_ready.recv_timeout(DEADLINE).unwrap();
    Listener { arrived }
}

/// The next datagram and its TTL.
fn receive_with_ttl(socket: &UdpSocket) -> Option<(String, u8)> {
    let mut data = [0u8; 2048];
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: `msghdr` holds integers and pointers; all zeros are a good value. What is set points to arrays that live
    // longer and have the lengths given; the macros walk what the kernel wrote there; an IP_TTL message holds an int.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control);
        let len = usize::try_from(libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0)).ok()?;
        let text = String::from_utf8_lossy(&data[..len]).into_owned();
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::IP_TTL {
            return None;
        }
        let ttl = libc::CMSG_DATA(header).cast::<i32>().read_unaligned();
        Some((text, ttl as u8))
    }
}

impl Listener {
    /// Returns all datagrams until the text `end`.
    fn until_end(self) -> Vec<(String, u8)> {
        let mut all = Vec::new();
        let end = Instant::now() + DEADLINE;
        loop {
            let datagram = self.arrived.recv_timeout(end.saturating_duration_since(Instant::now()));
            match datagram.expect("the datagram `end` arrives") {
                (text, _) if text == "end" => return all,
                datagram => all.push(datagram),
            }
        }
    }
}

/// Sends texts by UDP, each with a TTL.
fn send(from: &Namespace, to: Ipv4Addr, port: u16, datagrams: &[(&'static str, u32)]) {
    let datagrams = datagrams.to_vec();
    from.enter(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for (text, ttl) in datagrams {
            socket.set_ttl(ttl).unwrap();
            socket.send_to(text.as_bytes(), (to, port)).unwrap();
        }
    });
}

#[test]
fn ttl_1_dies_in_acl_router() {
    need_namespaces!();
    let network = Network::new();
    let switch = network.start("acl_router", &acl_router_entries(), &[]);
    let listener = listen(&network.right, RIGHT, 7002);
    send(&network.left, RIGHT, 7002, &[("dies", 1), ("lives", 2), ("dies too", 1), ("end", 64)]);
    assert_eq!(listener.until_end(), [("lives".to_string(), 1)]);
    let said = switch.finish();
    assert!(said.contains("dropped: "), "{said}");
}

/// TTL 0 and 1 are dropped in the switch (RFC 1812, section 5.3.1). A host would accept a packet with TTL 0 (RFC 1122,
/// section 3.2.1.7), so a wrongly forwarded one would be seen.
#[test]
fn ttl_1_dies_in_simple_router() {
    need_namespaces!();
    let network = Network::new();
    let switch = network.start("simple_router", &simple_router_entries(), &[]);
    let listener = listen(&network.far, FAR, 7003);
    send(&network.left, FAR, 7003, &[("dies", 1), ("dies at the next hop", 2), ("lives", 3), ("end", 64)]);
    assert_eq!(listener.until_end(), [("lives".to_string(), 1)]);

    let listener = listen(&network.right, RIGHT, 53);
    network.left.enter(|| {
        send_frame("l0", &udp(RIGHT, 0, "dies in the switch"));
        send_frame("l0", &udp(RIGHT, 1, "dies in the switch"));
        send_frame("l0", &udp(RIGHT, 64, "end"));
    });
    assert_eq!(listener.until_end(), []);
    switch.finish();
}

/// Returns a frame from the left host to UDP port 53, with this text.
fn udp(to: Ipv4Addr, ttl: u8, text: &str) -> Vec<u8> {
    // These addresses do not matter: simple_router writes new ones.
    let (mac_to, mac_from) = (workload::mac(1), workload::mac(2));
    let size = 42 + text.len() as u16;
    let mut frame = workload::udp_frame(mac_to, mac_from, LEFT, to, ttl, 7000, size);
    frame[42..].copy_from_slice(text.as_bytes());
    frame
}

/// Sends one frame on `interface`.
fn send_frame(interface: &str, frame: &[u8]) {
    let socket = raw_socket(libc::AF_PACKET, 0);
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: all zeros are a good value; pointers and lengths describe what they are of.
    unsafe {
        let mut address: libc::sockaddr_ll = mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
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

/// The program writes a new, correct checksum: if it had forwarded the packet, the right kernel would have accepted it.
#[test]
fn a_wrong_checksum_dies() {
    need_namespaces!();
    let network = Network::new();
    for (program, entries) in
        [("simple_router", simple_router_entries()), ("acl_router", acl_router_entries())]
    {
        let switch = network.start(program, &entries, &[]);
        let listener = listen(&network.right, RIGHT, 53);
        network.left.enter(|| {
            let mut wrong = udp(RIGHT, 64, "wrong");
            wrong[24] ^= 0x01;
            send_frame("l0", &udp(RIGHT, 64, "right"));
            send_frame("l0", &wrong);
            send_frame("l0", &udp(RIGHT, 64, "end"));
        });
        assert_eq!(listener.until_end(), [("right".to_string(), 63)], "{program}");
        let said = switch.finish();
        assert!(said.contains("dropped: "), "{said}");
    }
}

/// Sends a datagram every millisecond until dropped. Each contains its time of sending, in microseconds since the start.
struct Stream {
    stop: Arc<AtomicBool>,
    start: Instant,
    /// The time of sending of the last datagram that arrived.
    last_sent: Arc<AtomicU64>,
}

impl Stream {
    fn new(network: &Network) -> Stream {
        let (stop, last_sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let start = Instant::now();
        let (ready, is_ready) = mpsc::channel();
        network.right.spawn({
            let (stop, last_sent) = (stop.clone(), last_sent.clone());
            move || {
                let socket = UdpSocket::bind((RIGHT, 7004)).unwrap();
                socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                ready.send(()).unwrap();
                let mut stamp = [0; 8];
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(8) = socket.recv(&mut stamp) {
                        last_sent.store(u64::from_le_bytes(stamp), Ordering::SeqCst);
                    }
                }
            }
        });
        is_ready.recv_timeout(DEADLINE).unwrap();
        network.left.spawn({
            let stop = stop.clone();
            move || {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                while !stop.load(Ordering::Relaxed) && start.elapsed() < 3 * DEADLINE {
                    let stamp = start.elapsed().as_micros() as u64;
                    // An ICMP error of the right kernel about unwanted datagrams is not a failure.
                    let _ = socket.send_to(&stamp.to_le_bytes(), (RIGHT, 7004));
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Stream { stop, start, last_sent }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Waits until something arrives that was sent after `time`; returns how long after `time` it was sent.
    fn wait_for_arrival_after(&self, time: u64) -> Duration {
        let end = Instant::now() + DEADLINE;
        loop {
            let last = self.last_sent.load(Ordering::SeqCst);
            if last > time {
                return Duration::from_micros(last - time);
            }
            assert!(Instant::now() < end, "nothing arrives");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_route_that_is_removed_is_not_used_any_more() {
    need_namespaces!();
    let network = Network::new();
    let mut switch = network.start("simple_router", &simple_router_entries(), &["--stdin"]);
    let stream = Stream::new(&network);
    stream.wait_for_arrival_after(0);
    let mut handle = ROUTE_TO_RIGHT;
    for _ in 0..3 {
        let sent = stream.now();
        switch.command(&format!("table_delete ipv4_lpm {handle}"), "Deleting entry");
        let answered = stream.now();
        // Several times the bound, so that a late packet would be seen.
        thread::sleep(EFFECT_BOUND * 3);
        let last = stream.last_sent.load(Ordering::SeqCst);
        let late = Duration::from_micros(last.saturating_sub(answered));
        eprintln!(
            "deleted in {} us; the last packet to arrive was sent {late:?} after the answer",
            answered - sent
        );
        assert!(late < EFFECT_BOUND, "packets flow {late:?} after their route was removed");
        // The route back still works, and so does the switch.
        assert!(stream.now() - last > 2 * EFFECT_BOUND.as_micros() as u64, "the stream has not stopped");

        let sent = stream.now();
        let add = format!("table_add ipv4_lpm set_nhop 10.81.2.0/24 => {RIGHT} 1");
        let answer = switch.command(&add, "Entry has been added with handle");
        let after = stream.wait_for_arrival_after(sent);
        eprintln!("added: the first packet to arrive was sent {after:?} after the command");
        handle = answer.trim().rsplit(' ').next().unwrap().parse().unwrap();
    }
    switch.command("table_num_entries ipv4_lpm", "3");
    drop(stream);
    // The end of standard input does not end the switch; a signal does.
    drop(switch.stdin.take());
    let said = switch.finish();
    assert!(said.contains(" received\n"), "{said}");
}

#[test]
fn an_access_list_changes_while_traffic_flows() {
    need_namespaces!();
    let network = Network::new();
    let mut switch = network.start("acl_router", &acl_router_entries(), &["--stdin"]);
    let listener = listen(&network.right, RIGHT, 7666);
    send(&network.left, RIGHT, 7666, &[("denied", 64); 3]);
    // The next command affects the following packets, so these must have passed before.
    let end = Instant::now() + DEADLINE;
    while !switch.command("counter_read acl_v4_counter 0", "packets)").contains("3 packets") {
        assert!(Instant::now() < end, "the rule does not count what it denies");
        thread::sleep(Duration::from_millis(5));
    }
    switch.command("table_modify acl_v4 permit 0", "Modifying entry");
    send(&network.left, RIGHT, 7666, &[("permitted", 64), ("end", 64)]);
    assert_eq!(listener.until_end(), [("permitted".to_string(), 63)]);
    switch.finish();
}

#[test]
fn wrong_commands_leave_the_switch_running() {
    need_namespaces!();
    let network = Network::new();
    let mut switch = network.start("simple_router", &simple_router_entries(), &["--stdin"]);
    for (command, answer) in [
        ("table_add nosuch set_nhop 1.2.3.4/24 => 1.2.3.4 1", "Invalid table name (nosuch)"),
        ("table_add ipv4_lpm set_nhop 10.81.2.0/24 => 1.2.3.4 1", "DUPLICATE_ENTRY"),
        ("table_delete ipv4_lpm 77", "INVALID_HANDLE"),
        ("load_new_config_file new.json", "found none for this JSON"),
        ("\u{0}\u{fffd}", "Unknown syntax"),
        ("table_num_entries forward", "2"),
    ] {
        switch.command(command, answer);
    }
    network.left.enter(|| ping(RIGHT, 56));
    switch.finish();
}

/// SIGINT and SIGTERM end the switch cleanly; the deletion of an interface during the run is a refusal of the
/// environment, status 3, and the other port continues until then.
#[test]
fn ends_in_good_order() {
    need_namespaces!();
    let network = Network::new();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut switch = network.start("simple_router", &simple_router_entries(), &[]);
        let start = Instant::now();
        switch.signal(signal);
        let (status, said) = switch.wait();
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains(" received\n"), "{said}");
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    let mut switch = network.start("simple_router", &simple_router_entries(), &[]);
    network.switch.ip("link del s0").unwrap();
    switch.wait_for_stderr("port 0: interface `s0` is gone");
    switch.signal(libc::SIGTERM);
    let (status, said) = switch.wait();
    assert_eq!(status, Some(0), "{said}");
}
