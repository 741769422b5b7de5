//! A TAP port and the kernel behind it, in a namespace of the test's own.
//!
//! Needs root, `ip` and /dev/net/tun; says so and passes otherwise.

// Reason: setns(2).
#![allow(unsafe_code)]

mod netns;

use netns::{DEADLINE, Namespace};
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{LinkStatus, Port, TapPort};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[test]
fn frames_come_and_go() {
    need_namespaces!();
    if !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED: no /dev/net/tun");
        return;
    }
    let namespace = Namespace::new("tap");
    let mut port = namespace.enter(|| TapPort::open("p4tap", 1).unwrap().remove(0));
    for arguments in [
        "addr add 10.78.0.1/24 dev p4tap",
        "neigh add 10.78.0.2 lladdr 02:00:00:00:00:02 dev p4tap",
        "link set p4tap mtu 3000",
    ] {
        namespace.ip(arguments).unwrap();
    }
    let busy = namespace.enter(|| TapPort::open("p4tap", 1).unwrap_err());
    assert!(busy.to_string().contains("another program uses"), "{busy}");
    assert_eq!(namespace.enter(|| TapPort::open("lo", 1).unwrap_err()).exit_status(), 3);

    let socket = namespace.enter(|| UdpSocket::bind("10.78.0.1:7000").unwrap());
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let (mut pool, mut batch) = (Pool::new(128, 1522, 0).unwrap(), Batch::new());
    let mut buffer = vec![0; 4000];
    for len in [1usize, 100, 1472] {
        let data: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
        // The second is too long for the pool.
        socket.send_to(&data, "10.78.0.2:7000").unwrap();
        socket.send_to(&[0; 2000], "10.78.0.2:7000").unwrap();
        let end = Instant::now() + DEADLINE;
        let mut echo = loop {
            batch.clear();
            port.receive(3, &mut pool, &mut batch).unwrap();
            // The kernel also says something in IPv6.
            let ours = |frame: &[u8]| frame[12..14] == [8, 0] && frame[23] == 17;
            if let Some(packet) = batch.packets().iter().find(|packet| ours(pool.frame(packet))) {
                assert_eq!(packet.ingress_port, 3);
                break pool.frame(packet).to_vec();
            }
            assert!(Instant::now() < end);
            std::thread::yield_now();
        };
        assert_eq!(echo[42..], data);
        // Sent back with addresses swapped, the checksums stay right: the kernel takes it only when it had completed
        // them itself.
        let (first, second) = echo[..12].split_at_mut(6);
        first.swap_with_slice(second);
        let (first, second) = echo[26..34].split_at_mut(4);
        first.swap_with_slice(second);
        assert_eq!(port.send(&[&echo, &[1, 2, 3]]).unwrap().sent, 1);
        let (got, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..got], from.to_string().as_str()), (&data[..], "10.78.0.2:7000"));
    }
    let stats = port.stats();
    assert_eq!((stats.rx_dropped_oversize, stats.tx_packets, stats.tx_dropped), (3, 3, 3));

    namespace.ip("link set p4tap down").unwrap();
    assert_eq!(port.send(&[&[0; 60]]).unwrap().dropped, 1);
    port = namespace.enter(move || {
        assert!(matches!(port.status(), LinkStatus::Down(why) if why.contains("ip link set p4tap up")));
        port
    });
    namespace.ip("link set p4tap up").unwrap();

    namespace.ip("link del p4tap").unwrap();
    port = namespace.enter(move || {
        serve_until(&mut port, |port| port.poll_fd().is_none());
        port
    });
    assert!(
        matches!(port.status(), LinkStatus::Down(why) if why.starts_with("TAP interface `p4tap` is gone"))
    );
    assert_eq!(port.send(&[&[0; 60]]).unwrap().dropped, 1);
    // Not ours to make again; once someone does, it is taken, also one for several queues.
    namespace.ip("tuntap add p4tap mode tap multi_queue").unwrap();
    namespace.enter(move || {
        serve_until(&mut port, |port| port.status() == LinkStatus::Up);
        assert_eq!(port.send(&[&[0; 60]]).unwrap().sent, 1);
    });
}

/// Receives until `done` with the port, in the namespace that the thread is in.
fn serve_until(port: &mut TapPort, done: impl Fn(&TapPort) -> bool) {
    let (mut pool, mut batch) = (Pool::new(64, 1522, 0).unwrap(), Batch::new());
    let end = Instant::now() + DEADLINE;
    while !done(port) {
        batch.clear();
        port.receive(0, &mut pool, &mut batch).unwrap();
        assert!(Instant::now() < end, "still {:?}", port.status());
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn workers_share_the_flows() {
    need_namespaces!();
    if !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED: no /dev/net/tun");
        return;
    }
    const FLOWS: usize = 32;
    const PER_FLOW: u32 = 10;
    let namespace = Namespace::new("taps");
    let mut handles = namespace.enter(|| TapPort::open("p4tap", 2).unwrap());
    namespace.ip("addr add 10.78.0.1/24 dev p4tap").unwrap();
    namespace.ip("neigh add 10.78.0.2 lladdr 02:00:00:00:00:02 dev p4tap").unwrap();
    namespace.enter(|| {
        let sockets: Vec<_> = (0..FLOWS).map(|_| UdpSocket::bind("10.78.0.1:0").unwrap()).collect();
        for number in 0..PER_FLOW {
            for (flow, socket) in sockets.iter().enumerate() {
                let data = [&number.to_be_bytes()[..], &[flow as u8]].concat();
                socket.send_to(&data, "10.78.0.2:7000").unwrap();
            }
        }
    });
    let (mut pool, mut batch) = (Pool::new(64, 1522, 0).unwrap(), Batch::new());
    let mut owner = [None; FLOWS];
    let mut next = [0; FLOWS];
    let end = Instant::now() + DEADLINE;
    while next.iter().sum::<u32>() < PER_FLOW * FLOWS as u32 {
        for (worker, handle) in handles.iter_mut().enumerate() {
            batch.clear();
            handle.receive(0, &mut pool, &mut batch).unwrap();
            for frame in batch.packets().iter().map(|packet| pool.frame(packet)) {
                if frame.len() == 47 && frame[23] == 17 {
                    let flow = usize::from(frame[46]);
                    assert_eq!(*owner[flow].get_or_insert(worker), worker, "flow {flow} changed its worker");
                    assert_eq!(frame[42..46], u32::to_be_bytes(next[flow]), "flow {flow}, in order, once");
                    next[flow] += 1;
                }
            }
        }
        assert!(Instant::now() < end, "{next:?}");
    }
    let firsts = owner.iter().filter(|&&worker| worker == Some(0)).count();
    assert!((1..FLOWS).contains(&firsts), "{owner:?}");

    // One made by someone else for a single queue.
    namespace.ip("tuntap add single mode tap").unwrap();
    let error = namespace.enter(|| TapPort::open("single", 2).unwrap_err()).to_string();
    assert!(error.contains("multi_queue"), "{error}");
}
