#!/usr/bin/env python3
"""Entries and packets for bench/programs/twelve_tables.p4: every packet hits every table.

bench/twelve_tables.py N FOLDER [--seed S] [--packets P]

N entries (a power of two) in each of the twelve tables. Each table maps to a shuffled number below N, and the xor of such
numbers is one too. Writes entries.cmd and packets.pcap, UDP frames of 60 bytes.
"""
import struct, sys
from frames import arguments, ipv4, mac, write

PORTS = 4


def main():
    o = arguments(__doc__, "entries in each table, a power of two")
    n, rnd = o.n, o.rnd
    if n < 1 or n & (n - 1) or n > 1 << 14:
        sys.exit(f"N is {n}, expected a power of two, at most {1 << 14}")
    macs = lambda: [mac(i) for i in rnd.sample(range(1 << 30), n)]
    ports = lambda: rnd.sample(range(1, 1 << 16), n)
    sources, destinations = macs(), macs()
    addresses = rnd.sample(range(10 << 24, 11 << 24), n)
    prefixes = [p << 8 for p in rnd.sample(range(20 << 16, 200 << 16), n)]
    source_ports, destination_ports = ports(), ports()
    commands = []

    def table(name, action, keys, data):
        """A row per key; `data` makes the action's data of a number below N."""
        numbers = rnd.sample(range(n), n)
        commands.extend(f"table_add {name} {action} {key} => {data(i)}" for key, i in zip(keys, numbers))

    numbers = range(n)
    hexadecimal = lambda addresses: [f"0x{a.hex()}" for a in addresses]
    table("stations", "set_station", hexadecimal(sources), str)
    table("bridges", "set_bridge", hexadecimal(destinations), str)
    table("tenants", "set_tenant", addresses, str)
    table("services", "set_service", [f"17 {p}" for p in source_ports], str)
    table("segments", "set_segment", [f"17 {p}" for p in destination_ports], str)
    table("routes", "set_route", [f"0x{p:08x}/24" for p in prefixes], str)
    table("zones", "set_zone", numbers, str)
    table("contracts", "set_contract", numbers, str)
    table("classes", "set_class", numbers, lambda i: i & 0xff)
    table("next_hops", "set_next_hop", numbers, str)
    table("neighbours", "set_link", numbers, lambda i: f"{i} 0x{mac(1 << 31 | i).hex()}")
    table("links", "send", numbers, lambda i: f"{i % PORTS} 0x{mac(1 << 31 | n + i).hex()}")

    def frame():
        udp = struct.pack("!HHHH", rnd.choice(source_ports), rnd.choice(destination_ports), 26, 0) + bytes(18)
        packet = ipv4(rnd.choice(addresses), rnd.choice(prefixes) | rnd.randrange(256), 17, udp)
        return rnd.choice(destinations) + rnd.choice(sources) + b"\x08\x00" + packet

    write(o.folder, commands, (frame() for _ in range(o.packets)))


main()
