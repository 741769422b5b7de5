//! A TAP port and the kernel at its other end, in a namespace of the test's own.
//!
//! Needs root, `ip` and /dev/net/tun, and is skipped with a message otherwise.

// Reason: setns(2).
#![allow(unsafe_code)]

use crate::netns::{DEADLINE, Namespace};
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{LinkStatus, Port, TapPort};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn frames_come_and_go() {
    crate::need_namespaces!();
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
        let echo = loop {
            batch.clear();
            port.receive(3, &mut pool, &mut batch).unwrap();
            // The kernel also sends something in IPv6.
            let ours = |frame: &[u8]| frame[12..14] == [8, 0] && frame[23] == 17;
            if let Some(packet) = batch.packets().iter().find(|packet| ours(pool.frame(packet))) {
                assert_eq!(packet.ingress_port, 3);
                break pool.frame(packet).to_vec();
            }
            assert!(Instant::now() < end);
            std::thread::yield_now();
        };
        assert_eq!(echo[42..], data);
        // The kernel accepts the reply only if it had completed the checksums itself.
        assert_eq!(port.send(&[&answer(&echo), &[1, 2, 3]]).unwrap().sent, 1);
        let (got, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..got], from.to_string().as_str()), (&data[..], "10.78.0.2:7000"));
    }
    // UDP segmentation: the kernel segments what is more than a frame before it arrives.
    let size: i32 = 1000;
    // SAFETY: pointer and length describe `size`. 103 is UDP_SEGMENT.
    let status =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, 103, (&raw const size).cast(), 4) };
    assert_eq!(status, 0);
    socket.send_to(&[7; 5003], "10.78.0.2:7000").unwrap();
    let mut lengths = Vec::new();
    let end = Instant::now() + DEADLINE;
    while lengths.iter().sum::<usize>() < 5003 {
        batch.clear();
        port.receive(3, &mut pool, &mut batch).unwrap();
        let frames = batch.packets().iter().map(|packet| pool.frame(packet));
        lengths.extend(frames.filter(|frame| frame[12..14] == [8, 0]).map(|frame| frame.len() - 42));
        assert!(Instant::now() < end, "{lengths:?}");
    }
    assert_eq!(lengths, [1000, 1000, 1000, 1000, 1000, 3]);

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
    // The port does not recreate it; once someone else does, it is used, also with several queues.
    namespace.ip("tuntap add p4tap mode tap multi_queue").unwrap();
    namespace.enter(move || {
        serve_until(&mut port, |port| port.status() == LinkStatus::Up);
        assert_eq!(port.send(&[&[0; 60]]).unwrap().sent, 1);
    });
}

/// A UDP frame with source and destination swapped; its checksums stay right.
fn answer(frame: &[u8]) -> Vec<u8> {
    let mut answer = frame.to_vec();
    for (at, len) in [(0, 6), (26, 4), (34, 2)] {
        let (first, second) = answer[at..at + 2 * len].split_at_mut(len);
        first.swap_with_slice(second);
    }
    answer
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
    crate::need_namespaces!();
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
    let bind = |_| UdpSocket::bind("10.78.0.1:0").unwrap();
    let sockets: Arc<Vec<_>> = Arc::new(namespace.enter(move || (0..FLOWS).map(bind).collect()));
    let mut owner = [None; FLOWS];
    for round in 0..2 {
        namespace.enter({
            let sockets = sockets.clone();
            move || {
                for number in 0..PER_FLOW {
                    for (flow, socket) in sockets.iter().enumerate() {
                        let data = [&number.to_be_bytes()[..], &[flow as u8]].concat();
                        socket.send_to(&data, "10.78.0.2:7000").unwrap();
                    }
                }
            }
        });
        let (mut pool, mut batch) = (Pool::new(64, 1522, 0).unwrap(), Batch::new());
        let mut next = [0; FLOWS];
        let end = Instant::now() + DEADLINE;
        while next.iter().sum::<u32>() < PER_FLOW * FLOWS as u32 {
            for worker in 0..2 {
                batch.clear();
                handles[worker].receive(0, &mut pool, &mut batch).unwrap();
                for frame in batch.packets().iter().map(|packet| pool.frame(packet)) {
                    if frame.len() != 47 || frame[23] != 17 {
                        continue;
                    }
                    let flow = usize::from(frame[46]);
                    assert_eq!(*owner[flow].get_or_insert(worker), worker, "flow {flow} changed its worker");
                    assert_eq!(frame[42..46], u32::to_be_bytes(next[flow]), "flow {flow}, in order, once");
                    next[flow] += 1;
                    // A reply by the other worker does not move the flow to it, as the kernel would normally do.
                    if round == 0 && next[flow] == PER_FLOW {
                        assert_eq!(handles[1 - worker].send(&[&answer(frame)]).unwrap().sent, 1);
                    }
                }
            }
            assert!(Instant::now() < end, "{next:?}");
        }
    }
    let firsts = owner.iter().filter(|&&worker| worker == Some(0)).count();
    assert!((1..FLOWS).contains(&firsts), "{owner:?}");

    // An interface created by someone else for a single queue.
    namespace.ip("tuntap add single mode tap").unwrap();
    let error = namespace.enter(|| TapPort::open("single", 2).unwrap_err()).to_string();
    assert!(error.contains("multi_queue"), "{error}");
}
