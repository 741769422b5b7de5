#!/usr/bin/env python3
"""A seeded IPv6 routing workload for bench/programs/ipv6_router.p4: routes like those of the global table, and packets to them.

bench/ipv6.py N FOLDER [--packets 65536] [--size 60] [--seed 1]

Writes  FOLDER/entries.cmd   N routes (lengths and clustering below), 64 next hops, 4 ports
        FOLDER/packets.pcap  packets of SIZE bytes without FCS, destinations drawn evenly from the prefixes

Lengths follow the global table of the mid-2020s: almost half are /48, then /32, /44, /40, /36, /29; few are longer. Prefixes up
to /32 are allocations in the blocks of the five registries, mostly consecutive with gaps; longer ones are inside an
allocation, mostly at its start, and a holder with many prefixes gets more of them; some /48 are assigned individually from
blocks for that purpose. Needs no third-party module.
"""
import argparse, ipaddress, os, random, struct

# How often each length is tried; some /48 exist already and are not counted twice.
LENGTHS = {20: 1, 22: 1, 24: 2, 28: 3, 29: 33, 30: 6, 31: 5, 32: 125, 33: 22, 34: 16, 35: 12, 36: 52, 37: 8, 38: 14, 39: 10,
           40: 82, 41: 8, 42: 26, 43: 10, 44: 94, 45: 14, 46: 26, 47: 22, 48: 500, 52: 1, 56: 3, 60: 1, 64: 2, 128: 1}
# Blocks for allocations of /32 and shorter as (first 16 bits, number of /16, weight), and blocks for single /48.
ALLOCATIONS = [(0x2001, 1, 6), (0x2400, 16, 24), (0x2600, 16, 16), (0x2800, 16, 12), (0x2a00, 16, 28), (0x2a10, 6, 8),
               (0x2c0f, 1, 6)]
SINGLES = ["2001:678::/29", "2001:7f8::/32", "2001:df0::/29", "2001:13c0::/30", "2001:43f8::/29", "2620::/23"]
SINGLE_SHARE = 0.25  # of the /48
NEXT_HOPS, PORTS = 64, 4


def ones(n):
    return (1 << n) - 1


class Routes:
    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.routes = {}  # (prefix, length): next hop
        self.holders = []  # (prefix, length), once per announcement
        self.next = {}  # first free /32 per /16
        self.singles = [ipaddress.ip_network(s) for s in SINGLES]

    def allocation(self, length):
        """The next free allocation in some registry's block, in steps of its size."""
        rnd = self.rnd
        first, count, _ = rnd.choices(ALLOCATIONS, [w for *_, w in ALLOCATIONS])[0]
        if length <= 24:
            return (first + rnd.randrange(count) << 112) & ~ones(128 - length) | rnd.getrandbits(8) << 104
        top = first + min(rnd.randrange(count), rnd.randrange(count))
        step = 1 << max(32 - length, 0)
        at = self.next.get(top, 0x200 if top == 0x2001 else 0)
        at += -at % step + step * rnd.choice([0, 0, 0, 1, 3, 7])
        if at + step > 1 << 16:  # full: anywhere
            at = rnd.randrange(1 << 16) & ~(step - 1)
        self.next[top] = at + step
        return top << 112 | at << 96

    def part(self, length):
        """A part of some holder's allocation."""
        rnd = self.rnd
        if not self.holders:
            return self.allocation(32)
        prefix, size = rnd.choice(self.holders)
        bits = length - size
        at = rnd.getrandbits(bits) if rnd.random() < 0.3 else min(int(rnd.expovariate(1 / 24)), ones(bits))
        # For hosts and similar prefixes, the subnet is near and the rest arbitrary.
        if length > 64:
            at = at << (length - 64) & ones(bits) | rnd.getrandbits(length - 64)
        self.holders.append((prefix, size))
        return prefix | at << (128 - length)

    def add(self):
        rnd = self.rnd
        length = rnd.choices(list(LENGTHS), list(LENGTHS.values()))[0]
        if length <= 32:
            prefix = self.allocation(length)
        elif length == 48 and rnd.random() < SINGLE_SHARE:
            block = rnd.choice(self.singles)
            at = rnd.getrandbits(48 - block.prefixlen)
            prefix = int(block.network_address) | min(at, rnd.getrandbits(48 - block.prefixlen)) << 80
        else:
            prefix = self.part(length)
        prefix &= ~ones(128 - length)
        if (prefix, length) in self.routes:
            return
        self.routes[prefix, length] = rnd.randrange(NEXT_HOPS)
        if 24 < length <= 32:
            self.holders.append((prefix, length))


def mac(i):
    return "02:00:00:00:{:02x}:{:02x}".format(i >> 8, i & 255)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("n", type=int)
    a.add_argument("folder")
    a.add_argument("--packets", type=int, default=65536)
    a.add_argument("--size", type=int, default=60)
    a.add_argument("--seed", type=int, default=1)
    o = a.parse_args()
    if o.n < 1 or o.packets < 1:
        a.error("expected at least one route and one packet")
    if o.size < 54:
        a.error("a packet has at least 54 bytes: the headers")
    table = Routes(o.seed)
    while len(table.routes) < o.n:
        table.add()
    os.makedirs(o.folder, exist_ok=True)
    with open(os.path.join(o.folder, "entries.cmd"), "w") as f:
        for (prefix, length), hop in table.routes.items():
            f.write(f"table_add ipv6_lpm set_nhop {ipaddress.IPv6Address(prefix)}/{length} => {hop} {hop % PORTS}\n")
        for hop in range(NEXT_HOPS):
            f.write(f"table_add neighbors set_dmac {hop} => {mac(0x100 + hop)}\n")
        for port in range(PORTS):
            f.write(f"table_add send_frame rewrite_mac {port} => {mac(0x900 + port)}\n")
    rnd, keys = table.rnd, list(table.routes)
    with open(os.path.join(o.folder, "packets.pcap"), "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        ethernet = bytes.fromhex("020000000001" "020000000002" "86dd")
        payload = o.size - 54
        for k in range(o.packets):
            prefix, length = rnd.choice(keys)
            to = prefix | rnd.getrandbits(128 - length) if length < 128 else prefix
            source = 0x2001_0DB8 << 96 | rnd.getrandbits(64)
            # Next header 59: none follows (RFC 8200, section 4.7).
            ipv6 = struct.pack("!IHBB", 6 << 28, payload, 59, 64) + source.to_bytes(16, "big") + to.to_bytes(16, "big")
            f.write(struct.pack("<IIII", k // 1000000, k % 1000000, o.size, o.size))
            f.write(ethernet + ipv6 + bytes(payload))


main()
