#!/usr/bin/env python3
"""Entries and packets for bench/programs/deep_tunnel.p4.

bench/deep_tunnel.py N FOLDER [--seed S] [--packets P]

N tunnels that end here or pass, in turn, and N stations for which one starts. A third of the packets each has ten headers of
which six are removed, ten of which one is removed and the tunnel's addresses change, and four to which six are added. Writes entries.cmd and
packets.pcap, frames of 62 and 120 bytes.
"""
import struct
import sys
from frames import arguments, ipv4, mac, write

PORTS = 4
TCP, UDP = 6, 17


def main():
    o = arguments(__doc__, "tunnels, and stations")
    n, rnd = o.n, o.rnd
    if not 1 <= n <= 1 << 24:
        sys.exit(f"N is {n}, expected 1 to {1 << 24}")
    word = lambda: rnd.getrandbits(32)
    tunnels = [(0x0a000000 | word() >> 8, i) for i in rnd.sample(range(1 << 24), n)]
    stations = [(rnd.randrange(1, 4095), i) for i in rnd.sample(range(1 << 30), n)]
    address = lambda i: f"0x{mac(i).hex()}"
    commands = []
    for i, (destination, vni) in enumerate(tunnels):
        if i % 2 == 0:
            commands.append(f"table_add tunnels end {destination} {vni} => {i // 2 % PORTS} {rnd.randrange(1, 4095)}")
        else:
            commands.append(f"table_add tunnels pass {destination} {vni} => {i // 2 % PORTS} {address(1 << 31)} "
                            f"{address(1 << 31 | i)} 0x0afffffe 0x{0x0a000000 | word() >> 8:08x} {rnd.getrandbits(24)}")
    for i, (vid, station) in enumerate(stations):
        commands.append(f"table_add stations begin {vid} {address(station)} => {i % PORTS} {address(1 << 31)} "
                        f"{address(1 << 31 | i)} {rnd.randrange(1, 4095)} {rnd.randrange(1, 4095)} 0x0afffffe "
                        f"0x{0x0a000000 | word() >> 8:08x} {rnd.getrandbits(24)}")

    def inner(vid, station):
        tcp = struct.pack("!HHIIHHHH", rnd.getrandbits(16), 443, word(), word(), 0x5010, 65535, 0, 0)
        return (mac(station) + mac(rnd.getrandbits(30)) + struct.pack("!HHH", 0x8100, vid, 0x0800)
                + ipv4(word(), word(), TCP, tcp + bytes(4)))

    def outer(destination, vni):
        frame = inner(rnd.randrange(1, 4095), rnd.getrandbits(30))
        vxlan = struct.pack("!II", 0x08 << 24, vni << 8)
        udp = struct.pack("!HHHH", 0xc000 | rnd.getrandbits(14), 4789, 16 + len(frame), 0)
        tags = struct.pack("!HHHHH", 0x88a8, rnd.randrange(1, 4095), 0x8100, rnd.randrange(1, 4095), 0x0800)
        return mac(1 << 31) + mac(1 << 31 | 1) + tags + ipv4(word(), destination, UDP, udp + vxlan + frame)

    ends, passes = tunnels[0::2], tunnels[1::2] or tunnels
    makes = [lambda: outer(*rnd.choice(ends)), lambda: outer(*rnd.choice(passes)), lambda: inner(*rnd.choice(stations))]
    write(o.folder, commands, (rnd.choice(makes)() for _ in range(o.packets)))


main()
