#!/usr/bin/env python3
"""Two routers between two hosts, h1 - s1 - s2 - h2, in Mininet: ping, and a TCP transfer.

    sudo python3 tools/mininet/two_switches.py target/release/p4jet

Both routers run programs/simple_router; their routes are in s1.cmd and s2.cmd beside this file. With --cli Mininet's
prompt follows.
"""

import argparse
import hashlib
import os
import sys

# No folder of compiled Python beside the sources.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from mininet.cli import CLI
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.topo import Topo
from p4jet_mn import P4Host, P4Switch

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "../../programs/simple_router/simple_router.p4")
# The routers' own MAC addresses towards their hosts; they answer no ARP.
GATEWAY_MAC = {"h1": "00:00:00:00:01:01", "h2": "00:00:00:00:02:01"}

# One ICMP echo, for machines without ping(8): exit status 0 if the answer comes.
PING = """
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.settimeout(5)
def echo(sum): return struct.pack("!BBHHH", 8, 0, sum, 4711, 1) + bytes(56)
words = struct.unpack("!32H", echo(0))
total = sum(words)
s.sendto(echo(0xffff - (total % 0xffff)), (sys.argv[1], 0))
end = time.monotonic() + 5
while time.monotonic() < end:
    got = s.recv(2048)[20:]
    if got[0] == 0 and got[4:8] == struct.pack("!HH", 4711, 1): sys.exit(0)
sys.exit(1)
"""
RECEIVE = """
import hashlib, socket, sys
server = socket.create_server(("", 5001))
server.settimeout(60)
print("ready", flush=True)
stream, _ = server.accept()
stream.settimeout(60)
digest = hashlib.sha256()
while data := stream.recv(1 << 16): digest.update(data)
print(digest.hexdigest())
"""
SEND = """
import socket, sys
stream = socket.create_connection((sys.argv[1], 5001), timeout=60)
block = bytes(range(256)) * 4096
for _ in range(int(sys.argv[2])): stream.sendall(block)
"""


class TwoSwitches(Topo):
    """h1 - s1 - s2 - h2."""

    def build(self, sw_path, thrift_port):
        switches = [
            self.addSwitch(
                name,
                sw_path=sw_path,
                json_path=PROGRAM,
                thrift_port=thrift_port + i,
                commands=os.path.join(HERE, f"{name}.cmd"),
            )
            for i, name in enumerate(("s1", "s2"))
        ]
        for n, switch in enumerate(switches, 1):
            host = self.addHost(
                f"h{n}",
                ip=f"10.0.{n}.2/24",
                mac=f"00:00:00:00:0{n}:02",
                defaultRoute=f"via 10.0.{n}.1",
            )
            self.addLink(host, switch, port2=1)
        self.addLink(*switches, port1=2, port2=2)


def ping(source, target):
    """One echo there and back."""
    process = source.popen([sys.executable, "-c", PING, target.IP()])
    return process.wait(timeout=20) == 0


def transfer(source, target, megabytes):
    """Sends so much by TCP; whether it came whole."""
    receiver = target.popen([sys.executable, "-c", RECEIVE])
    assert receiver.stdout.readline() == b"ready\n"
    sender = source.popen([sys.executable, "-c", SEND, target.IP(), str(megabytes)])
    if sender.wait(timeout=120) != 0:
        receiver.kill()
        return False
    expected = hashlib.sha256(bytes(range(256)) * 4096 * megabytes).hexdigest()
    return receiver.communicate(timeout=120)[0].decode().strip() == expected


def main():
    """Builds the network, tries it, and takes it away."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("sw_path", nargs="?", default="p4jet", help="p4jet, or a link named simple_switch")
    options.add_argument("--thrift-port", type=int, default=9090, help="of s1; that of s2 is one more")
    options.add_argument("--megabytes", type=int, default=10)
    options.add_argument("--cli", action="store_true", help="Mininet's prompt at the end")
    options = options.parse_args()
    setLogLevel("warning")
    net = Mininet(
        topo=TwoSwitches(options.sw_path, options.thrift_port), host=P4Host, switch=P4Switch, controller=None
    )
    failed = []
    try:
        net.start()
        h1, h2 = net.get("h1", "h2")
        for n, host in enumerate((h1, h2), 1):
            host.setARP(f"10.0.{n}.1", GATEWAY_MAC[host.name])
        for source, target in ((h1, h2), (h2, h1)):
            what = f"ping {source} -> {target}"
            done = ping(source, target)
            print(f"{what}: {'ok' if done else 'FAILED'}")
            failed += [] if done else [what]
        what = f"TCP {h1} -> {h2}, {options.megabytes} MiB"
        done = transfer(h1, h2, options.megabytes)
        print(f"{what}: {'ok' if done else 'FAILED'}")
        failed += [] if done else [what]
        if options.cli:
            CLI(net)
    finally:
        net.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
