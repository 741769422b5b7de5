//! A TAP port and the kernel behind it, in a namespace of the test's own.
//!
//! Needs root, `ip` and /dev/net/tun; says so and passes otherwise.

// Reason: setns(2).
#![allow(unsafe_code)]

mod netns;

use netns::{DEADLINE, Namespace};
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{Port, Received, TapPort};
use std::net::UdpSocket;
use std::time::Instant;

#[test]
fn frames_come_and_go() {
    need_namespaces!();
    if !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED: no /dev/net/tun");
        return;
    }
    let namespace = Namespace::new("tap");
    let mut port = namespace.enter(|| TapPort::open("p4tap").unwrap());
    for arguments in [
        "addr add 10.78.0.1/24 dev p4tap",
        "neigh add 10.78.0.2 lladdr 02:00:00:00:00:02 dev p4tap",
        "link set p4tap mtu 3000",
    ] {
        namespace.ip(arguments).unwrap();
    }
    let busy = namespace.enter(|| TapPort::open("p4tap").unwrap_err());
    assert!(busy.to_string().contains("another program uses"), "{busy}");
    assert_eq!(namespace.enter(|| TapPort::open("lo").unwrap_err()).exit_status(), 3);

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

    namespace.ip("link del p4tap").unwrap();
    let end = Instant::now() + DEADLINE;
    let error = loop {
        batch.clear();
        match port.receive(3, &mut pool, &mut batch) {
            Ok(Received::Packets(_) | Received::Empty) => assert!(Instant::now() < end),
            Ok(Received::End) => panic!("a TAP interface has no end"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().starts_with("TAP interface `p4tap` is gone"), "{error}");
}
