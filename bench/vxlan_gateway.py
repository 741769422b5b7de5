#!/usr/bin/env python3
"""Entries and packets for programs/vxlan_gateway.

bench/vxlan_gateway.py N FOLDER inbound|outbound [--seed S] [--packets P] [--bytes B]

Inbound: N virtual addresses, to which random clients send; a pool for every 16 of them, at most 16,000, with 4 back ends
in a group of 16 members; the packets get tunnels. Outbound: N routes to clients (mostly /24), 64 next hops, 64 VTEPs and
VNIs; the packets lose their tunnels. Both cases have the entries of both. Packets arrive at port 0 and leave by port 1.
Writes entries.cmd, entries.swx (for bench/programs/vxlan_gateway.spec) and packets.pcap, TCP in frames of B bytes including
the FCS, which a capture omits: by default 64 inbound, 114 outbound.
"""
import os
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
    # Any unicast address that no kernel uses for itself; virtual addresses are elsewhere.
    client = lambda: 0x40000000 + rnd.randrange(0x3f000000)
    number = lambda i: f"0x{mac(i).hex()}"
    address = lambda i: ":".join(f"{b:02x}" for b in mac(i))
    dotted = lambda a: ".".join(map(str, a.to_bytes(4, "big")))

    # All packets of a capture arrive at port 0.
    role = "external" if o.direction == "inbound" else "underlay"
    commands = [f"table_add attachments {role} 0 0 => 0 {address(EDGE)}",
                f"pvs_add own_vteps_v4 {dotted(VTEP)}"]
    swx = [f"attachments match 0x0 0x0 action {role} vrf 0x0 own_mac {number(EDGE)}"]
    for v in range(1, VTEPS + 1):
        commands += [f"table_add tunnels_v4 from_vtep {dotted(VTEP)} {dotted(VTEP + 256 * v)} => {v}",
                     f"table_add vnis into {99 + v} => {v} 0 {address(SERVERS)} 0 0",
                     f"table_add vteps via {v} => 1 1500",
                     f"table_add encapsulations encapsulate_v4 {v} => {address(EDGE)} {address(1 << 30 | v)} 0 "
                     f"{dotted(VTEP)} {dotted(VTEP + 256 * v)} 64 49152 16383"]
        # Lengths are those of the headers before the inner IPv4 header, whose length is added.
        swx += [f"tunnels_v4 match {VTEP + 256 * v:#x} {VTEP:#x} action from_vtep vtep {v:#x}",
                f"vnis match {99 + v:#x} action into network {v:#x} vrf 0x0 own_mac {number(SERVERS)}",
                f"vteps match {v:#x} action via port 0x1 mtu {1500:#x}",
                f"encapsulations match {v:#x} action encapsulate dmac {number(1 << 30 | v)} smac {number(EDGE)} "
                f"ethertype 0x800 ver_ihl 0x45 diffserv 0x0 total_len {20 + 16 + 14:#x} identification 0x0 "
                f"flags_offset 0x4000 ttl {64:#x} protocol {UDP:#x} hdr_checksum 0x0 source {VTEP:#x} "
                f"destination {VTEP + 256 * v:#x} port_base 0xc000 dst_port {4789:#x} udp_length {16 + 14:#x} "
                f"udp_checksum 0x0 flags 0x8 reserved 0x0 vni 0x0 reserved2 0x0 port_mask 0x3fff"]
    # Next hops to clients come first, then those to back ends, of which there can be 65,000.
    for hop in range(1, 65):
        commands.append(f"table_add next_hops local {hop} => 1 0 {address(EDGE)} {address(1 << 29 | hop)} 1500")
        swx.append(f"next_hops match {hop:#x} action local dmac {number(1 << 29 | hop)} smac {number(EDGE)} port 0x1 "
                   f"mtu {1500:#x}")
    pools = min((n + 15) // 16, 16000)
    for back_end in range(4 * pools):
        v = rnd.randrange(1, VTEPS + 1)
        commands.append(f"table_add next_hops tunnel {65 + back_end} => {v} {99 + v} {v} {address(SERVERS)} "
                        f"{address(back_end)}")
        swx.append(f"next_hops match {65 + back_end:#x} action tunnel dmac {number(back_end)} smac {number(SERVERS)} "
                   f"vtep {v:#x} vni {99 + v:#x} network {v:#x}")
    for pool in range(pools):
        commands.append("act_prof_create_group members")
        for member in range(16):
            commands += [f"act_prof_create_member members to_next_hop {65 + 4 * pool + member % 4}",
                         f"act_prof_add_member_to_group members {16 * pool + member} {pool}"]
            swx.append(f"pools match {pool + 1:#x} {member:#x} action to_next_hop next_hop "
                       f"{65 + 4 * pool + member % 4:#x}")
        commands.append(f"table_indirect_add_with_group pools {pool + 1} => {pool}")
    virtual = [0x08000000 | i for i in rnd.sample(range(1 << 24), n)]
    for i, a in enumerate(virtual):
        commands.append(f"table_add hosts_v4 balance 0 {dotted(a)} => {i % pools + 1} 0")
        swx.append(f"hosts_v4 match 0x0 {a:#x} action balance pool {i % pools + 1:#x}")
    # Most of them /24, as on the Internet.
    lengths = rnd.choices([24, 23, 22, 20, 16], [60, 12, 15, 9, 4], k=4 * n)
    routes = {}
    for length in lengths:
        prefix = client() >> 32 - length << 32 - length
        if len(routes) < n:
            routes[prefix, length] = rnd.randrange(1, 65)
    for (prefix, length), hop in routes.items():
        commands.append(f"table_add routes_v4 to_next_hop 0 {dotted(prefix)}/{length} => {hop}")
        # Inbound packets look up none, and SWX takes minutes to load many.
        if o.direction == "outbound":
            swx.append(f"routes_v4 match 0x0 {prefix:#x}/{0xffffffff >> 32 - length << 32 - length:#x} "
                       f"action to_next_hop next_hop {hop:#x}")
    prefixes = list(routes)

    def inbound():
        return (mac(EDGE) + mac(word() >> 2) + b"\x08\0"
                + ipv4(client(), rnd.choice(virtual), TCP, segment(size - 38)))

    def segment(length):
        header = struct.pack("!HHIIHHHH", rnd.randrange(1024, 65536), 80, word(), word(), 0x5010, 65535, 0, 0)
        return header.ljust(length, b"\0")

    def outbound():
        prefix, length = rnd.choice(prefixes)
        to = prefix | rnd.getrandbits(32 - length)
        v = rnd.randrange(1, VTEPS + 1)
        frame = (mac(SERVERS) + mac(rnd.randrange(4 * pools)) + b"\x08\0"
                 + ipv4(rnd.choice(virtual), to, TCP, segment(size - 88)))
        vxlan = struct.pack("!II", 0x08 << 24, 99 + v << 8)
        udp = struct.pack("!HHHH", 0xc000 | rnd.getrandbits(14), 4789, 16 + len(frame), 0)
        return (mac(EDGE) + mac(1 << 30 | v) + b"\x08\0" + ipv4(VTEP + 256 * v, VTEP, UDP, udp + vxlan + frame))

    make = inbound if o.direction == "inbound" else outbound
    write(o.folder, commands, (make() for _ in range(o.packets)))
    with open(os.path.join(o.folder, "entries.swx"), "w") as f:
        f.writelines(line + "\n" for line in swx)


main()
