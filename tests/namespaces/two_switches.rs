//! p4jet under the name of bmv2's switch, two of them between two hosts: in Mininet, where it is installed, and connected
//! by hand with the same program, entries and addresses.

use super::{Namespace, Switch, lines, ping, tcp};
use crate::common::{self, root};
use std::fs::File;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 1, 2), Ipv4Addr::new(10, 0, 2, 2)];

fn python() -> Option<&'static str> {
    // Mininet belongs to the distribution's Python, which need not be the first in the path.
    ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        let mut command = Command::new(python);
        command.args(["-c", "import mininet.net"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// h1 - s1 - s2 - h2, as created by tools/mininet/two_switches.py.
#[test]
fn mininet() {
    crate::need_namespaces!();
    let Some(python) = python() else {
        eprintln!("SKIPPED: no Mininet: a python3 that has `mininet.net` (Debian: apt install mininet)");
        return;
    };
    // Mininet's switches are in the namespace in which it runs: one of ours, so that it does not disturb others.
    let network = Namespace::new("mininet");
    let mut command = Command::new(python);
    command.arg(root().join("tools/mininet/two_switches.py")).arg(env!("CARGO_BIN_EXE_p4jet"));
    command.args(["--megabytes", "5"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = network.enter(move || command.spawn().unwrap());
    let (stdout, stderr) = (lines(child.stdout.take()), lines(child.stderr.take()));
    let status = common::wait(&mut child, "two_switches.py");
    let (said, complained): (String, String) = (stdout.iter().collect(), stderr.iter().collect());
    assert!(status.success(), "{said}{complained}");
    assert_eq!(said, "ping h1 -> h2: ok\nping h2 -> h1: ok\nTCP h1 -> h2, 5 MiB: ok\n", "{complained}");
}

/// `p4jet NAME`, where NAME is a program of bmv2.
fn emulated(network: &Namespace, arguments: &[&str], input: Option<File>) -> Child {
    let mut command = common::p4jet();
    command.args(arguments).stdin(input.map_or_else(Stdio::null, Stdio::from));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    network.enter(move || command.spawn().unwrap())
}

#[test]
fn by_hand() {
    crate::need_namespaces!();
    let hosts = [Namespace::new("h1"), Namespace::new("h2")];
    let network = Namespace::new("switches");
    network.ip("link add s1-eth2 type veth peer name s2-eth2").unwrap();
    for (n, host) in (1..).zip(&hosts) {
        let peer = host.name();
        network
            .ip(&format!(
                "link add s{n}-eth1 type veth peer name eth0 address 00:00:00:00:0{n}:02 netns {peer}"
            ))
            .unwrap();
        network.ip(&format!("link set s{n}-eth1 up")).unwrap();
        network.ip(&format!("link set s{n}-eth2 up")).unwrap();
        host.ip(&format!("addr add 10.0.{n}.2/24 dev eth0")).unwrap();
        host.ip("link set eth0 up").unwrap();
        host.ip(&format!("neigh replace 10.0.{n}.1 lladdr 00:00:00:00:0{n}:01 dev eth0 nud permanent"))
            .unwrap();
        host.ip(&format!("route add default via 10.0.{n}.1")).unwrap();
    }
    let program = common::program("simple_router").display().to_string();
    let switches: Vec<Switch> = (1..=2)
        .map(|n| {
            let (port, interfaces) = (format!("909{n}"), [format!("1@s{n}-eth1"), format!("2@s{n}-eth2")]);
            let arguments = [
                "simple_switch",
                "-i",
                &interfaces[0],
                "-i",
                &interfaces[1],
                "--thrift-port",
                &port,
                &program,
            ];
            let mut child = emulated(&network, &arguments, None);
            let (stdout, stderr) = (lines(child.stdout.take()), lines(child.stderr.take()));
            let mut switch = Switch { child, stdin: None, stdout, stderr, said: String::new() };
            switch.wait_for_stderr("forwarding between 2 ports");
            let commands = File::open(root().join(format!("tools/mininet/s{n}.cmd"))).unwrap();
            let arguments = ["simple_switch_CLI", "--strict", "--thrift-port", &port];
            let mut cli = emulated(&network, &arguments, Some(commands));
            let said = lines(cli.stdout.take());
            let status = common::wait(&mut cli, "simple_switch_CLI");
            assert!(status.success(), "{}", said.iter().collect::<String>());
            switch
        })
        .collect();
    hosts[0].enter(|| ping(HOSTS[1], 56));
    hosts[1].enter(|| ping(HOSTS[0], 1472));
    tcp(&hosts[0], &hosts[1], HOSTS[1], 5);
    for switch in switches {
        let said = switch.finish();
        assert!(said.contains("sent to port 1") && said.contains("sent to port 2"), "{said}");
    }
}
