//! The gateway between kernels: a client, an edge gateway, a router as IP underlay, and behind it either a
//! server-side gateway with two servers, or the Linux kernel's own VXLAN device. Both gateways are `p4jet
//! run` with programs/vxlan_gateway, filled by `p4jet gateway`.
//!
//! Needs root and `ip`, and is skipped with a message otherwise. It changes nothing outside the namespaces that it creates.

use crate::common::{self, TempDir};
use crate::netns::{DEADLINE, Namespace};
use p4jet_gateway::{Actual, Call, Table};
use p4jet_text::client::Client;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const VIP: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// Number of clients, from 203.0.113.11 on.
const CLIENTS: u8 = 24;

/// A process that ends with the test, and its output.
struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    said: Vec<String>,
}

impl Process {
    fn start(namespace: &Namespace, mut command: Command) -> Process {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        // A child runs in the namespace of the thread that created it.
        let mut child = namespace.enter(move || command.spawn().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (line, lines) = mpsc::channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|text| line.send(text)));
        Process { child, lines, said: Vec::new() }
    }

    #[track_caller]
    fn wait_for(&mut self, what: &str) {
        let end = Instant::now() + DEADLINE;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push(line);
                    if self.said.last().is_some_and(|line| line.contains(what)) {
                        return;
                    }
                }
                Err(e) => panic!("waiting for `{what}`: {e}; it said:\n{}", self.said.join("\n")),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `p4jet run` and `p4jet gateway` in a namespace.
struct Gateway {
    switch: Option<Process>,
    controller: Process,
}

fn start_switch(namespace: &Namespace, files: &TempDir, name: &str, ports: &[&str]) -> Process {
    let mut command = common::p4jet();
    command.arg("run").arg(common::program("vxlan_gateway"));
    command.args(["--control", &files.file(&format!("{name}.sock"))]);
    for port in ports {
        command.args(["-i", port]);
    }
    let mut switch = Process::start(namespace, command);
    switch.wait_for(": forwarding between ");
    switch
}

impl Gateway {
    fn start(namespace: &Namespace, files: &TempDir, name: &str, ports: &[&str], config: &str) -> Gateway {
        let socket = files.file(&format!("{name}.sock"));
        let switch = Some(start_switch(namespace, files, name, ports));
        let config = files.write(&format!("{name}.toml"), config);
        let mut command = common::p4jet();
        command.args(["gateway", &config, "--socket", &socket]);
        let mut controller = Process::start(namespace, command);
        controller.wait_for("changed: ");
        Gateway { switch, controller }
    }
}

/// client c0 -- e0 edge e1 -- a0 underlay b0 -- r0 rack
///
/// The underlay is a router. Its ARP requests get no reply: the gateways' neighbours are configured by hand.
struct Network {
    client: Namespace,
    edge: Namespace,
    _underlay: Namespace,
    rack: Namespace,
    files: TempDir,
}

const CLIENT_MAC: &str = "02:00:00:00:01:01";
const EDGE_CLIENT_MAC: &str = "02:00:00:00:00:01";
const EDGE_MAC: &str = "02:00:00:00:00:02";
/// The router's MAC addresses towards the edge and the rack.
const ROUTER_MACS: [&str; 2] = ["02:00:00:00:07:01", "02:00:00:00:07:02"];
const RACK_MAC: &str = "02:00:00:00:00:12";

/// Creates a pair of interfaces, both up.
fn join(a: (&Namespace, &str), b: (&Namespace, &str), b_mac: &str, mtu: u32) {
    let peer = b.0.name();
    let (left, right) = (a.1, b.1);
    a.0.ip(&format!("link add {left} type veth peer name {right} address {b_mac} netns {peer}")).unwrap();
    for (namespace, interface) in [a, b] {
        namespace.ip(&format!("link set {interface} mtu {mtu} up")).unwrap();
    }
}

fn write(path: &str, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{path}: {e}"));
}

impl Network {
    fn new(role: &str) -> Network {
        Network::with_underlay(role, 1600)
    }

    fn with_underlay(role: &str, mtu: u32) -> Network {
        let name = |end: &str| Namespace::new(&format!("{role}-{end}"));
        let (client, edge, underlay, rack) = (name("client"), name("edge"), name("under"), name("rack"));
        join((&edge, "e0"), (&client, "c0"), CLIENT_MAC, 1500);
        join((&edge, "e1"), (&underlay, "a0"), ROUTER_MACS[0], mtu);
        join((&rack, "r0"), (&underlay, "b0"), ROUTER_MACS[1], mtu);
        for i in 0..CLIENTS {
            client.ip(&format!("addr add 203.0.113.{}/24 dev c0", 11 + i)).unwrap();
        }
        client
            .ip(&format!("neigh replace 203.0.113.1 lladdr {EDGE_CLIENT_MAC} dev c0 nud permanent"))
            .unwrap();
        client.ip("route add default via 203.0.113.1").unwrap();
        underlay.ip("addr add 10.1.0.254/24 dev a0").unwrap();
        underlay.ip("addr add 10.2.0.254/24 dev b0").unwrap();
        underlay.ip(&format!("neigh replace 10.1.0.1 lladdr {EDGE_MAC} dev a0 nud permanent")).unwrap();
        underlay.ip(&format!("neigh replace 10.2.0.1 lladdr {RACK_MAC} dev b0 nud permanent")).unwrap();
        underlay.enter(|| write("/proc/sys/net/ipv4/ip_forward", "1"));
        Network { client, edge, _underlay: underlay, rack, files: TempDir::new(role) }
    }

    /// Starts the edge with back ends: name, MAC address, address for health checks.
    fn edge(&self, back_ends: &[(&str, &str, String)]) -> Gateway {
        let mut config = format!(
            r#"
[[external]]
name = "internet"
port = 0
mac = "{EDGE_CLIENT_MAC}"

[[underlay]]
name = "fabric"
port = 1
mac = "{EDGE_MAC}"
addresses = ["10.1.0.1"]
mtu = 1600

[[vtep]]
name = "rack"
address = "10.2.0.1"
next_hop = "{}"

[[network]]
name = "blue"
vni = 100
mac = "02:00:00:00:00:03"
addresses = ["192.0.2.1"]
vteps = ["rack"]

[[route]]
prefix = "203.0.113.0/24"
external = "internet"
mac = "{CLIENT_MAC}"

[[vip]]
address = "{VIP}"
pool = "web"
"#,
            ROUTER_MACS[0]
        );
        let mut names = Vec::new();
        for (name, mac, health) in back_ends {
            config += &format!("\n[[back_end]]\nname = \"{name}\"\nnetwork = \"blue\"\nvtep = \"rack\"\n");
            config += &format!("mac = \"{mac}\"\nhealth = {health}\n");
            names.push(format!("\"{name}\""));
        }
        config += &format!("\n[[pool]]\nname = \"web\"\nback_ends = [{}]\n", names.join(", "));
        Gateway::start(&self.edge, &self.files, "edge", &["0@e0", "1@e1"], &config)
    }
}

/// A web server that returns its name, until dropped. Connections end with it.
struct Server {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    fn start(namespace: &Namespace, name: &'static str, addresses: &[SocketAddr]) -> Server {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for &address in addresses {
            let (ready, is_ready) = mpsc::channel();
            let stopped = Arc::clone(&stop);
            threads.push(namespace.spawn(move || {
                let listener = TcpListener::bind(address).unwrap_or_else(|e| panic!("{address}: {e}"));
                listener.set_nonblocking(true).unwrap();
                ready.send(()).unwrap();
                while !stopped.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((stream, _)) => drop(thread::spawn(move || serve(stream, name))),
                        Err(_) => thread::sleep(Duration::from_millis(1)),
                    }
                }
            }));
            is_ready.recv_timeout(DEADLINE).unwrap();
        }
        Server { stop, threads }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Answers a request with its name and as many bytes as its path says; reads as many as the request has.
fn serve(stream: TcpStream, name: &str) {
    let work = || -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut line, mut length, mut more) = (String::new(), 0u64, 0usize);
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(path) = line.strip_prefix("POST /") {
                more = path.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
        }
        let got = std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        let body = format!("{name} {got}\n") + &"x".repeat(more);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        (&stream).write_all((head + &body).as_bytes())
    };
    // The client may be gone.
    let _ = work();
}

/// Connects from an address, which determines the back end. Called in the client's namespace.
fn connect_from(source: Ipv4Addr, timeout: Duration) -> std::io::Result<TcpStream> {
    let address = |ip: Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) },
        sin_zero: [0; 8],
    };
    let len = size_of::<libc::sockaddr_in>() as u32;
    let checked = |result: i32| if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) };
    // SAFETY: numbers only; the descriptor is ours.
    let socket = unsafe { OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0))?) };
    let time =
        libc::timeval { tv_sec: timeout.as_secs() as i64, tv_usec: i64::from(timeout.subsec_micros()) };
    let (fd, from, to) = (socket.as_raw_fd(), address(source, 0), address(VIP, 80));
    // SAFETY: the structures live during the calls, and the lengths are theirs.
    unsafe {
        for option in [libc::SO_SNDTIMEO, libc::SO_RCVTIMEO] {
            let size = size_of::<libc::timeval>() as u32;
            checked(libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const time).cast(), size))?;
        }
        checked(libc::bind(fd, (&raw const from).cast(), len))?;
        checked(libc::connect(fd, (&raw const to).cast(), len))?;
    }
    Ok(TcpStream::from(socket))
}

/// Sends a request with `up` bytes for `down` bytes, and returns the server that answered.
fn ask(source: Ipv4Addr, up: usize, down: usize, timeout: Duration) -> std::io::Result<String> {
    exchange(connect_from(source, timeout)?, up, down)
}

fn exchange(mut stream: TcpStream, up: usize, down: usize) -> std::io::Result<String> {
    let head = format!("POST /{down} HTTP/1.1\r\nHost: {VIP}\r\nContent-Length: {up}\r\n\r\n");
    stream.write_all((head + &"y".repeat(up)).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let (said, rest) = body.split_once('\n').unwrap_or(("", ""));
    let (name, got) = said.split_once(' ').unwrap_or(("", ""));
    if rest.len() != down || got != up.to_string() {
        return Err(std::io::Error::other(format!("{} bytes, and {got} arrived", rest.len())));
    }
    Ok(name.to_string())
}

fn source(client: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, 11 + client)
}

/// Returns the server of each client.
fn servers_of_clients(client: &Namespace) -> Vec<String> {
    let ask_all = || (0..CLIENTS).map(|i| ask(source(i), 10, 10, Duration::from_secs(10)).unwrap());
    client.enter(move || ask_all().collect())
}

/// The requests of a client: time and result.
type Seen = Vec<(Instant, std::io::Result<String>)>;

/// Clients that repeat requests until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Seen>>,
}

impl Load {
    fn start(client: &Namespace) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let run = |i| {
            let stopped = Arc::clone(&stop);
            client.spawn(move || {
                let mut seen = Seen::new();
                while !stopped.load(Ordering::Relaxed) {
                    let begin = Instant::now();
                    let found = ask(source(i), 2000, 5000, Duration::from_millis(500));
                    // The time of its end: a request before a change may be answered after it.
                    seen.push((Instant::now(), found));
                    thread::sleep(Duration::from_millis(20).saturating_sub(begin.elapsed()));
                }
                seen
            })
        };
        Load { clients: (0..CLIENTS).map(run).collect(), stop }
    }

    fn finish(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().map(|client| client.join().unwrap()).collect()
    }
}

const WEB_MACS: [&str; 2] = ["02:00:00:00:02:01", "02:00:00:00:02:02"];
const WEB_NAMES: [&str; 2] = ["web1", "web2"];

/// Creates a server's namespace behind the rack's gateway, with a link for health checks to the edge.
fn web(network: &Network, i: usize) -> Namespace {
    let web = Namespace::new(&format!("gw-{}", WEB_NAMES[i]));
    let at = i + 1;
    join((&network.rack, &format!("r{at}")), (&web, "w0"), WEB_MACS[i], 1500);
    web.ip(&format!("addr add 192.0.2.{}/24 dev w0", 10 + at)).unwrap();
    web.ip(&format!("addr add {VIP}/32 dev lo")).unwrap();
    // Its gateway is found by ARP, which the rack's switch answers.
    web.ip("route add default via 192.0.2.1").unwrap();
    join((&network.edge, &format!("m{at}")), (&web, "m0"), &format!("02:00:00:00:09:0{at}"), 1500);
    network.edge.ip(&format!("addr add 10.9.{at}.1/24 dev m{at}")).unwrap();
    web.ip(&format!("addr add 10.9.{at}.2/24 dev m0")).unwrap();
    web
}

fn addresses(i: usize) -> [SocketAddr; 2] {
    [SocketAddr::new(VIP.into(), 80), format!("10.9.{}.2:80", i + 1).parse().unwrap()]
}

fn run_dump(socket: &str) -> Actual {
    let mut client = Client::unix(std::path::Path::new(socket)).unwrap();
    Actual::from_dump(&crate::controller::OBJECTS, &client.command("dump", false).unwrap().output).unwrap()
}

/// Two gateways, two servers with the same address; one of them dies and comes back under load.
#[test]
fn two_gateways_and_two_servers() {
    need_namespaces!();
    let network = Network::new("gw");
    let webs = [0, 1].map(|i| web(&network, i));
    let mut servers = [0, 1].map(|i| Some(Server::start(&webs[i], WEB_NAMES[i], &addresses(i))));
    let rack = format!(
        r#"
[[underlay]]
name = "fabric"
port = 0
mac = "{RACK_MAC}"
addresses = ["10.2.0.1"]
mtu = 1600

[[vtep]]
name = "edge"
address = "10.1.0.1"
next_hop = "{}"

[[network]]
name = "blue"
vni = 100
mac = "02:00:00:00:00:13"
addresses = ["192.0.2.1"]
ports = [{{ port = 1 }}, {{ port = 2 }}]
vteps = ["edge"]

[[route]]
prefix = "0.0.0.0/0"
network = "blue"
vtep = "edge"
mac = "02:00:00:00:00:03"
"#,
        ROUTER_MACS[1]
    );
    let _rack = Gateway::start(&network.rack, &network.files, "rack", &["0@r0", "1@r1", "2@r2"], &rack);
    let health = |i: usize| format!("{{ http = \"http://10.9.{}.2/\" }}", i + 1);
    let back_ends = [0, 1].map(|i| (WEB_NAMES[i], WEB_MACS[i], health(i)));
    let mut edge = network.edge(&back_ends);

    let before = servers_of_clients(&network.client);
    let shares = before.iter().fold(BTreeMap::new(), |mut shares, name| {
        *shares.entry(name.as_str()).or_insert(0) += 1;
        shares
    });
    assert!(WEB_NAMES.iter().all(|name| shares.get(name) > Some(&2)), "{shares:?}");

    // Much data in both directions through both, in segments of maximum length.
    let name = network.client.enter(|| ask(source(0), 4_000_000, 4_000_000, DEADLINE)).unwrap();
    assert_eq!(name, before[0]);

    let load = Load::start(&network.client);
    thread::sleep(Duration::from_millis(500));
    let died = Instant::now();
    servers[1] = None;
    edge.controller.wait_for("web2: dead");
    thread::sleep(Duration::from_millis(2500).saturating_sub(died.elapsed()));
    let back = Instant::now();
    servers[1] = Some(Server::start(&webs[1], WEB_NAMES[1], &addresses(1)));
    edge.controller.wait_for("web2: alive again");
    thread::sleep(Duration::from_millis(500));
    let seen = load.finish();

    let mut requests = 0;
    for (i, (seen, mine)) in seen.iter().zip(&before).enumerate() {
        requests += seen.len();
        for (at, found) in seen {
            match found {
                Ok(name) if name == mine => {}
                // The other one, in the meantime.
                Ok(name) => assert!(mine == "web2" && name == "web1" && *at > died, "client {i}: {name}"),
                Err(e) => {
                    assert!(mine == "web2" && *at > died, "client {i} of {mine}: {e}");
                    // Half a second of it is the client's own timeout.
                    let outage = at.saturating_duration_since(died);
                    assert!(
                        *at > back || outage < Duration::from_millis(2500),
                        "client {i}: {e} after {outage:?}"
                    );
                }
            }
        }
        assert!(seen.len() > 20, "client {i}: {}", seen.len());
    }
    // The servers were learned, the edge through the tunnel.
    let dump = run_dump(&network.files.file("rack.sock"));
    let places: Vec<_> = dump.state.entries.iter().filter(|((table, _), _)| *table == Table::Macs).collect();
    for (i, mac) in [0x0200_0000_0201u128, 0x0200_0000_0202].into_iter().enumerate() {
        let at = places.iter().find(|((_, key), _)| key[1].value == mac).map(|(_, call)| (*call).clone());
        assert_eq!(at, Some(Call::new("local", [i as u128 + 1, 0])), "{places:?}");
    }
    assert!(places.iter().any(|(_, call)| call.action == "remote"), "{places:?}");
    eprintln!("{requests} requests of {CLIENTS} clients; {shares:?}");
    // On a busy machine a server may miss health checks, and its clients are elsewhere for a while.
    let end = Instant::now() + DEADLINE;
    let mut now = servers_of_clients(&network.client);
    while now != before && Instant::now() < end {
        thread::sleep(Duration::from_millis(500));
        now = servers_of_clients(&network.client);
    }
    assert_eq!(now, before, "all are where they were");
}

/// The far end is the kernel's VXLAN device, with the server behind it.
#[test]
fn the_kernel_is_the_far_end() {
    need_namespaces!();
    let network = Network::new("kern");
    let rack = &network.rack;
    rack.ip(&format!("link set r0 address {RACK_MAC}")).unwrap();
    rack.ip("addr add 10.2.0.1/24 dev r0").unwrap();
    rack.ip("route add 10.1.0.0/24 via 10.2.0.254").unwrap();
    let made = rack.ip("link add vx0 type vxlan id 100 dstport 4789 local 10.2.0.1 remote 10.1.0.1");
    if let Err(why) = made {
        eprintln!("SKIPPED: this kernel has no VXLAN: {why}");
        return;
    }
    rack.ip(&format!("link set vx0 address {} mtu 1500 up", WEB_MACS[0])).unwrap();
    // Between veths nothing segments frames that the kernel leaves to hardware, and a packet socket does not receive
    // such frames of a tunnel: the kernel must segment itself.
    rack.ip("link set vx0 gso_max_segs 1").unwrap();
    rack.ip("addr add 192.0.2.11/24 dev vx0").unwrap();
    rack.ip(&format!("addr add {VIP}/32 dev lo")).unwrap();
    // The ARP request for the gateway goes through the tunnel, and so does the reply.
    rack.ip("route add 203.0.113.0/24 via 192.0.2.1").unwrap();
    let _server = Server::start(rack, "kernel", &[SocketAddr::new(VIP.into(), 80)]);
    join((&network.edge, "m1"), (rack, "m0"), "02:00:00:00:09:01", 1500);
    network.edge.ip("addr add 10.9.1.1/24 dev m1").unwrap();
    rack.ip("addr add 10.9.1.2/24 dev m0").unwrap();
    let health: SocketAddr = "10.9.1.2:8080".parse().unwrap();
    let _health = Server::start(rack, "health", &[health]);
    let _edge = network.edge(&[("kernel", WEB_MACS[0], format!("{{ tcp = \"{health}\" }}"))]);
    assert!(servers_of_clients(&network.client).iter().all(|name| name == "kernel"));
    let much = network.client.enter(|| ask(source(3), 4_000_000, 4_000_000, DEADLINE)).unwrap();
    assert_eq!(much, "kernel");
}

const VIP_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);

/// Opens a socket for ICMP messages, of IPv4 with their IP header. `UdpSocket` is only a wrapper with a timeout.
fn icmp_socket(is_v4: bool) -> UdpSocket {
    let (domain, protocol) =
        if is_v4 { (libc::AF_INET, libc::IPPROTO_ICMP) } else { (libc::AF_INET6, libc::IPPROTO_ICMPV6) };
    // SAFETY: numbers only; the returned descriptor belongs to this process.
    let socket = unsafe {
        let fd = libc::socket(domain, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        UdpSocket::from(OwnedFd::from_raw_fd(fd))
    };
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket
}

/// Sends until a message with this type and code arrives from this address, and returns all of it.
#[track_caller]
fn icmp_from(from: IpAddr, kind: u8, code: u8, mut send: impl FnMut(&UdpSocket)) -> Vec<u8> {
    let socket = icmp_socket(from.is_ipv4());
    let end = Instant::now() + DEADLINE;
    let mut bytes = [0; 2000];
    loop {
        assert!(Instant::now() < end, "no ICMP message {kind}, {code} from {from}");
        send(&socket);
        while let Ok((len, source)) = socket.recv_from(&mut bytes) {
            let message = &bytes[if from.is_ipv4() { 20 } else { 0 }..len];
            if source.ip() == from && message[..2] == [kind, code] {
                return message.to_vec();
            }
        }
    }
}

/// Sends one echo of `len` bytes, like ping(8).
#[track_caller]
fn ping(to: IpAddr, len: usize) {
    let mut request = vec![if to.is_ipv4() { 8 } else { 128 }, 0, 0, 0, 0x12, 0x34, 0, 1];
    request.extend((0..len).map(|i| (i * 7) as u8));
    if to.is_ipv4() {
        let sum: u32 =
            request.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        request[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let reply = icmp_from(to, if to.is_ipv4() { 0 } else { 129 }, 0, |socket| {
        socket.send_to(&request, (to, 0)).unwrap();
    });
    assert_eq!(reply[4..], request[4..]);
}

/// Sends a UDP packet with this TTL, like traceroute(8): `from` reports that it went no further.
#[track_caller]
fn probe(to: IpAddr, ttl: u32, from: &str) {
    let from: IpAddr = from.parse().unwrap();
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let udp = UdpSocket::bind((any, 0)).unwrap();
    match to {
        IpAddr::V4(_) => udp.set_ttl(ttl).unwrap(),
        IpAddr::V6(_) => {
            let size = size_of::<u32>() as u32;
            // SAFETY: the number lives during the call, and the length is its.
            let set = unsafe {
                let value = (&raw const ttl).cast();
                libc::setsockopt(udp.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, value, size)
            };
            assert_eq!(set, 0);
        }
    }
    let (kind, ports_at) = if to.is_ipv4() { (11, 8 + 20) } else { (3, 8 + 40) };
    let said = icmp_from(from, kind, 0, |_| drop(udp.send_to(b"probe", (to, 33434))));
    let port = udp.local_addr().unwrap().port();
    assert_eq!(said[ports_at..ports_at + 4], [port.to_be_bytes(), 33434u16.to_be_bytes()].concat());
}

/// Clients, servers and the underlay all have an MTU of 1500, so nothing of maximum length fits a tunnel: the gateways
/// must notify the senders, on both sides, in both versions of IP. They answer pings and traceroutes, directly and
/// through the tunnel, and continue after the switch and its interface were gone.
#[test]
fn path_mtu_traceroute_and_ping() {
    need_namespaces!();
    let network = Network::with_underlay("icmp", 1500);
    let (client, edge) = (&network.client, &network.edge);
    let web = Namespace::new("icmp-web");
    join((&network.rack, "r1"), (&web, "w0"), WEB_MACS[0], 1500);
    let rack_mac = "02:00:00:00:00:13";
    web.ip("addr add 192.0.2.11/24 dev w0").unwrap();
    web.ip("route add default via 192.0.2.1").unwrap();
    for (namespace, address, gateway, mac, interface) in [
        (&web, "2001:db8:2::11", "2001:db8:2::1", rack_mac, "w0"),
        (client, "2001:db8:9::11", "2001:db8:9::1", EDGE_CLIENT_MAC, "c0"),
    ] {
        namespace.ip(&format!("addr add {address}/64 dev {interface} nodad")).unwrap();
        namespace.ip(&format!("neigh replace {gateway} lladdr {mac} dev {interface} nud permanent")).unwrap();
        namespace.ip(&format!("route add default via {gateway} dev {interface}")).unwrap();
    }
    web.ip(&format!("addr add {VIP}/32 dev lo")).unwrap();
    web.ip(&format!("addr add {VIP_V6}/128 dev lo nodad")).unwrap();
    let _server =
        Server::start(&web, "web1", &[SocketAddr::new(VIP.into(), 80), SocketAddr::new(VIP_V6.into(), 80)]);

    let rack = format!(
        r#"
[controller]
interface = "gw0"

[[underlay]]
name = "fabric"
port = 0
mac = "{RACK_MAC}"
addresses = ["10.2.0.1"]

[[vtep]]
name = "edge"
address = "10.1.0.1"
next_hop = "{}"

[[network]]
name = "blue"
vni = 100
mac = "{rack_mac}"
addresses = ["192.0.2.1", "2001:db8:2::1"]
ports = [{{ port = 1 }}]
vteps = ["edge"]

[[network.station]]
mac = "{}"
address = "192.0.2.11"
port = 1

[[route]]
prefix = "2001:db8:2::11/128"
network = "blue"
port = 1
mac = "{}"

[[route]]
prefix = "0.0.0.0/0"
network = "blue"
vtep = "edge"
mac = "02:00:00:00:00:03"

[[route]]
prefix = "::/0"
network = "blue"
vtep = "edge"
mac = "02:00:00:00:00:03"
"#,
        ROUTER_MACS[1], WEB_MACS[0], WEB_MACS[0]
    );
    let ports = ["0@r0", "1@r1", "510@tap:gw0"];
    let _rack = Gateway::start(&network.rack, &network.files, "rack", &ports, &rack);
    let config = format!(
        r#"
[controller]
interface = "gw0"

[[external]]
name = "internet"
port = 0
mac = "{EDGE_CLIENT_MAC}"
addresses = ["203.0.113.1", "2001:db8:9::1"]

[[underlay]]
name = "fabric"
port = 1
mac = "{EDGE_MAC}"
addresses = ["10.1.0.1"]

[[vtep]]
name = "rack"
address = "10.2.0.1"
next_hop = "{}"

[[network]]
name = "blue"
vni = 100
mac = "02:00:00:00:00:03"
addresses = ["192.0.2.2", "2001:db8:2::2"]
vteps = ["rack"]

[[route]]
prefix = "203.0.113.0/24"
external = "internet"
mac = "{CLIENT_MAC}"

[[route]]
prefix = "2001:db8:9::/64"
external = "internet"
mac = "{CLIENT_MAC}"

[[back_end]]
name = "web1"
network = "blue"
vtep = "rack"
mac = "{}"

[[pool]]
name = "web"
back_ends = ["web1"]

[[vip]]
address = "{VIP}"
pool = "web"

[[vip]]
address = "{VIP_V6}"
pool = "web"
"#,
        ROUTER_MACS[0], WEB_MACS[0]
    );
    let ports = ["0@e0", "1@e1", "510@tap:gw0"];
    let mut gateway = Gateway::start(edge, &network.files, "edge", &ports, &config);

    let patience = Duration::from_secs(20);
    client.enter(move || {
        let much = ask(source(0), 1_000_000, 1_000_000, patience);
        assert_eq!(much.unwrap(), "web1");
        let stream = TcpStream::connect((VIP_V6, 80)).unwrap();
        for time in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
            time(&stream, Some(patience)).unwrap();
        }
        assert_eq!(exchange(stream, 1_000_000, 1_000_000).unwrap(), "web1");
    });
    let gone_further = |vip: IpAddr, from: &'static str| client.enter(move || probe(vip, 1, from));
    gone_further(VIP.into(), "203.0.113.1");
    gone_further(VIP_V6.into(), "2001:db8:9::1");
    // Through the tunnel: the rack's gateway answers one, and the edge the other, as an address of the network.
    web.enter(|| {
        let (client, client_v6) = (source(0).into(), "2001:db8:9::11".parse().unwrap());
        probe(client, 1, "192.0.2.1");
        probe(client, 2, "192.0.2.2");
        probe(client_v6, 1, "2001:db8:2::1");
        probe(client_v6, 2, "2001:db8:2::2");
        ping("192.0.2.1".parse().unwrap(), 56);
        ping("2001:db8:2::1".parse().unwrap(), 56);
    });
    let pings = || {
        client.enter(|| {
            ping("203.0.113.1".parse().unwrap(), 1204);
            ping("2001:db8:9::1".parse().unwrap(), 1184);
        });
    };
    pings();

    // The file changes and is restored.
    for (text, from) in
        [(config.replace("\"203.0.113.1\"", "\"203.0.113.2\""), "203.0.113.2"), (config, "203.0.113.1")]
    {
        network.files.write("edge.toml", &text);
        gateway.controller.wait_for("changed: ");
        gone_further(VIP.into(), from);
    }

    // The switch ends, and its interface with it; both return.
    gateway.switch = None;
    gateway.controller.wait_for("no answers: ");
    gateway.switch = Some(start_switch(edge, &network.files, "edge", &ports));
    gateway.controller.wait_for("answering by gw0");
    pings();
}
