#!/usr/bin/env python3
"""Entries and packets for programs/vxlan_gateway.

bench/vxlan_gateway.py N FOLDER inbound|outbound [--seed S] [--packets P] [--bytes B]

Inbound: N virtual addresses, to each of which any client sends; a pool for every 16 of them, at most 16,000, of 4 back ends
in a group of 16 members; the packets get tunnels. Outbound: N routes to clients (mostly /24), 64 next hops, 64 VTEPs and
VNIs; the packets lose their tunnels. The entries of both are there in both cases. Writes entries.cmd and packets.pcap, TCP in
frames of B bytes with the FCS, which a capture leaves out: 64 inbound, 114 outbound if not said.
"""
import struct
import sys
from frames import arguments, ipv4, mac, write

TCP, UDP = 6, 17
EDGE, SERVERS = 1 << 31, 1 << 31 | 2  # the gateway's own MAC addresses
VTEP = 0x0a000001
VTEPS = 64


def main():
    def more(parser):
        parser.add_argument("direction", choices=["inbound", "outbound"])
        parser.add_argument("--bytes", type=int)

    o = arguments(__doc__, "virtual addresses, and routes", more)
    n, rnd = o.n, o.rnd
    if not 1 <= n <= 1 << 20:
        sys.exit(f"N is {n}, expected 1 to {1 << 20}")
    smallest = 64 if o.direction == "inbound" else 114
    size = o.bytes or smallest
    if size < smallest:
        sys.exit(f"--bytes is {size}, expected at least {smallest}")
    word = lambda: rnd.getrandbits(32)
    address = lambda i: ":".join(f"{b:02x}" for b in mac(i))
    dotted = lambda a: ".".join(map(str, a.to_bytes(4, "big")))

    # All packets of a capture come in by port 0.
    role = "external" if o.direction == "inbound" else "underlay"
    commands = [f"table_add attachments {role} 0 0 => 0 {address(EDGE)}",
                f"pvs_add own_vteps_v4 {dotted(VTEP)}"]
    for v in range(1, VTEPS + 1):
        commands += [f"table_add tunnels_v4 from_vtep {dotted(VTEP)} {dotted(VTEP + 256 * v)} => {v}",
                     f"table_add vnis into {99 + v} => {v} 0 {address(SERVERS)} 0 0",
                     f"table_add vteps via {v} => 1 1500",
                     f"table_add encapsulations encapsulate_v4 {v} => {address(EDGE)} {address(1 << 30 | v)} 0 "
                     f"{dotted(VTEP)} {dotted(VTEP + 256 * v)} 64 49152 16383"]
    # Next hops to clients first, then to back ends, of which there can be 65,000.
    for hop in range(1, 65):
        commands.append(f"table_add next_hops local {hop} => 0 0 {address(EDGE)} {address(1 << 29 | hop)} 1500")
    pools = min((n + 15) // 16, 16000)
    for back_end in range(4 * pools):
        v = rnd.randrange(1, VTEPS + 1)
        commands.append(f"table_add next_hops tunnel {65 + back_end} => {v} {99 + v} {v} {address(SERVERS)} "
                        f"{address(back_end)}")
    for pool in range(pools):
        commands.append("act_prof_create_group members")
        for member in range(16):
            commands += [f"act_prof_create_member members to_next_hop {65 + 4 * pool + member % 4}",
                         f"act_prof_add_member_to_group members {16 * pool + member} {pool}"]
        commands.append(f"table_indirect_add_with_group pools {pool + 1} => {pool}")
    virtual = [0x08000000 | i for i in rnd.sample(range(1 << 24), n)]
    for i, a in enumerate(virtual):
        commands.append(f"table_add hosts_v4 balance 0 {dotted(a)} => {i % pools + 1} 0")
    # Most of them /24, as on the Internet.
    lengths = rnd.choices([24, 23, 22, 20, 16], [60, 12, 15, 9, 4], k=4 * n)
    routes = {}
    for length in lengths:
        prefix = (0x40000000 | rnd.getrandbits(30)) >> 32 - length << 32 - length
        if len(routes) < n:
            routes[prefix, length] = rnd.randrange(1, 65)
    for (prefix, length), hop in routes.items():
        commands.append(f"table_add routes_v4 to_next_hop 0 {dotted(prefix)}/{length} => {hop}")
    prefixes = list(routes)

    def inbound():
        return (mac(EDGE) + mac(word() >> 2) + b"\x08\0"
                + ipv4(word(), rnd.choice(virtual), TCP, segment(size - 38)))

    def segment(length):
        header = struct.pack("!HHIIHHHH", rnd.randrange(1024, 65536), 80, word(), word(), 0x5010, 65535, 0, 0)
        return header.ljust(length, b"\0")

    def outbound():
        prefix, length = rnd.choice(prefixes)
        client = prefix | rnd.getrandbits(32 - length)
        v = rnd.randrange(1, VTEPS + 1)
        frame = (mac(SERVERS) + mac(rnd.randrange(4 * pools)) + b"\x08\0"
                 + ipv4(rnd.choice(virtual), client, TCP, segment(size - 88)))
        vxlan = struct.pack("!II", 0x08 << 24, 99 + v << 8)
        udp = struct.pack("!HHHH", 0xc000 | rnd.getrandbits(14), 4789, 16 + len(frame), 0)
        return (mac(EDGE) + mac(1 << 30 | v) + b"\x08\0" + ipv4(VTEP + 256 * v, VTEP, UDP, udp + vxlan + frame))

    make = inbound if o.direction == "inbound" else outbound
    write(o.folder, commands, (make() for _ in range(o.packets)))


main()
