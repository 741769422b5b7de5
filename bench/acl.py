#!/usr/bin/env python3
"""Access lists of realistic shape for programs/acl_router, with packets that follow them.

bench/acl.py KIND N FOLDER [--seed S] [--packets P] [--noise SHARE]

KIND is acl, fw or ipc, as in the seeds of ClassBench (Taylor and Turner, 2005): access control lists (long, nested
prefixes, exact destination ports), firewalls (many wildcards, port ranges on both sides) and IP chains (between them).
N is the number of IPv4 rules. More specific rules mostly come first. Writes

    entries.cmd    rules, routes, next hops, for `p4jet bench --commands`
    packets.pcap   P frames of 60 bytes: headers drawn evenly from the rules, and SHARE of them random

Needs no third-party module.
"""
import argparse, os, random, struct

TCP, UDP, ICMP, GRE, ESP = 6, 17, 1, 47, 50
ANY_PORT, HIGH, LOW = (0, 65535), (1024, 65535), (1, 1023)
SERVICES = [80, 443, 53, 25, 22, 21, 23, 110, 143, 123, 161, 389, 445, 139, 135, 1433, 1521, 3306, 3389, 5060, 8080,
            1723, 2049, 5432, 5631, 6000, 6789, 7070, 8443, 1080, 3128, 514, 515, 587, 636, 993, 995, 1812, 27000]

# For each kind: prefix lengths of sources and destinations, the number of different ones per rule, classes of source and
# destination ports, and protocols. Every list has pairs of a value and its weight.
KINDS = {
    "acl": dict(
        src=[(0, 8), (8, 1), (16, 6), (20, 4), (22, 6), (23, 4), (24, 20), (26, 8), (27, 10), (28, 10), (30, 8), (32, 35)],
        dst=[(0, 3), (16, 5), (20, 4), (22, 6), (24, 22), (26, 7), (27, 8), (28, 8), (29, 7), (30, 6), (32, 45)],
        distinct=(0.35, 0.25),
        sport=[("any", 96), ("high", 2), ("exact", 2)],
        dport=[("any", 22), ("high", 5), ("low", 2), ("exact", 58), ("range", 13)],
        protocol=[(TCP, 70), (UDP, 18), (ICMP, 5), (0, 5), (GRE, 1), (ESP, 1)]),
    "fw": dict(
        src=[(0, 38), (8, 3), (16, 7), (20, 3), (24, 14), (28, 5), (30, 2), (32, 38)],
        dst=[(0, 28), (8, 2), (16, 8), (20, 3), (24, 17), (28, 6), (30, 2), (32, 45)],
        distinct=(0.3, 0.3),
        sport=[("any", 58), ("high", 20), ("low", 2), ("exact", 14), ("range", 6)],
        dport=[("any", 24), ("high", 14), ("low", 4), ("exact", 42), ("range", 16)],
        protocol=[(TCP, 58), (UDP, 24), (ICMP, 8), (0, 8), (GRE, 2)]),
    "ipc": dict(
        src=[(0, 14), (8, 3), (12, 2), (16, 8), (20, 4), (22, 4), (24, 18), (27, 5), (28, 6), (30, 4), (32, 44)],
        dst=[(0, 12), (8, 2), (14, 2), (16, 9), (20, 4), (23, 4), (24, 20), (27, 5), (28, 5), (30, 4), (32, 46)],
        distinct=(0.3, 0.3),
        sport=[("any", 68), ("high", 11), ("low", 2), ("exact", 14), ("range", 5)],
        dport=[("any", 38), ("high", 10), ("low", 3), ("exact", 38), ("range", 11)],
        protocol=[(TCP, 50), (UDP, 28), (ICMP, 8), (0, 11), (GRE, 1), (ESP, 2)]),
}


def pick(rnd, weighted):
    return rnd.choices([what for what, _ in weighted], [weight for _, weight in weighted])[0]


def mask_of(length):
    return 0xffffffff << (32 - length) & 0xffffffff


def prefixes(rnd, lengths, distinct):
    """By length: different prefixes of a tree. Most grow from a shorter one of the tree, large branches faster."""
    by_length, tree = {0: [0]}, [(rnd.randrange(1, 223) << 24, 8) for _ in range(12)]
    seen = {(0, 0)}
    for _ in range(distinct):
        length = pick(rnd, lengths)
        for _ in range(8):
            value, base = rnd.choice(tree)
            if base <= length:
                break
        else:
            value, base = rnd.choice(tree[:12])
            value, base = (value, base) if base <= length else (0, 0)
        value |= rnd.getrandbits(32) & ~mask_of(base) & mask_of(length)
        if length and (value, length) not in seen:
            seen.add((value, length))
            by_length.setdefault(length, []).append(value)
            tree.append((value, length))
    return by_length


def port(rnd, kind):
    if kind == "exact":
        return (one := rnd.choice(SERVICES) if rnd.random() < 0.8 else rnd.randrange(1, 65536), one)
    if kind == "range":
        low = rnd.choice([1, 20, 137, 1024, 2000, 5000, 6000, 6881, 8000, 30000]) + rnd.randrange(100)
        return (low, min(65535, low + rnd.choice([1, 2, 3, 7, 10, 31, 100, 500, 1000, 9999, 30000])))
    return {"any": ANY_PORT, "high": HIGH, "low": LOW}[kind]


def rules_of(rnd, kind, count):
    shape = KINDS[kind]
    pools = [prefixes(rnd, shape[side], int(count * share) + 20)
             for side, share in zip(("src", "dst"), shape["distinct"])]

    def address(side):
        length = pick(rnd, shape[("src", "dst")[side]])
        nearest = min(pools[side], key=lambda known: abs(known - length))
        values = pools[side][nearest]
        # Some networks have many rules.
        return values[int(len(values) * rnd.random() ** 1.5)], nearest

    rules = {}
    while len(rules) < count:
        protocol = pick(rnd, shape["protocol"])
        with_ports = protocol in (TCP, UDP)
        sport = port(rnd, pick(rnd, shape["sport"])) if with_ports else ANY_PORT
        dport = port(rnd, pick(rnd, shape["dport"])) if with_ports else ANY_PORT
        rule = (address(0), address(1), protocol, sport, dport)
        if rule[0][1] + rule[1][1] == 0 and sport == dport == ANY_PORT:
            continue  # would hide everything
        width = (32 - rule[0][1] + 32 - rule[1][1] + (8 if protocol == 0 else 0)
                 + sum((high - low + 1).bit_length() - 1 for low, high in (sport, dport)))
        rules.setdefault(rule, width + rnd.gauss(0, 4))
    return sorted(rules, key=rules.get)


def header(rnd, rule):
    (src, src_len), (dst, dst_len), protocol, sport, dport = rule
    protocol = protocol or rnd.choice([TCP, TCP, UDP])
    return (src | rnd.getrandbits(32) & ~mask_of(src_len), dst | rnd.getrandbits(32) & ~mask_of(dst_len),
            protocol, rnd.randint(*sport), rnd.randint(*dport))


def checksum(b):
    s = sum(struct.unpack(f"!{len(b) // 2}H", b))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff


def frame(src, dst, protocol, sport, dport, size=60):
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, size - 14, 0, 0, 64, protocol, 0, src, dst)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    packet = bytes.fromhex("00005e0053f1" "00005e0053a1" "0800") + ip + struct.pack("!HH", sport, dport)
    return packet.ljust(size, b"\0")


def dotted(n):
    return ".".join(str(n >> k & 255) for k in (24, 16, 8, 0))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("kind", choices=sorted(KINDS))
    a.add_argument("n", type=int)
    a.add_argument("folder")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--packets", type=int, default=65536)
    a.add_argument("--noise", type=float, default=0.1)
    o = a.parse_args()
    if o.n < 1 or o.packets < 1:
        a.error("expected at least one rule and one packet")
    rnd = random.Random(f"{o.kind} {o.n} {o.seed}")
    os.makedirs(o.folder, exist_ok=True)
    rules = rules_of(rnd, o.kind, o.n)
    with open(f"{o.folder}/entries.cmd", "w") as f:
        for priority, ((src, src_len), (dst, dst_len), protocol, sport, dport) in enumerate(rules, 1):
            f.write(f"table_add acl_v4 {'permit' if rnd.random() < 0.7 else 'deny'}"
                    f" {dotted(src)}&&&{mask_of(src_len):#x} {dotted(dst)}&&&{mask_of(dst_len):#x}"
                    f" {protocol}&&&{0xff if protocol else 0:#x}"
                    f" {sport[0]}->{sport[1]} {dport[0]}->{dport[1]} => {priority}\n")
        # Every destination has a route, selected by its first six bits.
        for i in range(64):
            f.write(f"table_add ipv4_lpm set_next_hop {i << 2}.0.0.0/6 => {i}\n")
            f.write(f"table_add next_hops send_to {i} => 02:00:00:00:01:{i:02x} {i % 4}\n")
        for i in range(4):
            f.write(f"table_add send_frame rewrite_mac {i} => 02:00:00:00:09:{i:02x}\n")
    with open(f"{o.folder}/packets.pcap", "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        nowhere = ((0, 0), (0, 0), 0, ANY_PORT, ANY_PORT)
        for i in range(o.packets):
            b = frame(*header(rnd, nowhere if rnd.random() < o.noise else rnd.choice(rules)))
            f.write(struct.pack("<IIII", i // 1000000, i % 1000000, len(b), len(b)) + b)


main()
