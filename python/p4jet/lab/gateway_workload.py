"""Entries and packets for programs/vxlan_gateway.

Inbound: N virtual addresses, to which random clients send; a pool for every 16 of them, at most 16,000, with 4 back ends in a
group of 16 members; the packets get tunnels. Outbound: N routes to clients (mostly /24), 64 next hops, 64 VTEPs and VNIs; the
packets lose their tunnels. Both directions have the entries of both. Packets arrive at port 0 and leave by port 1.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

from .errors import LabError

TCP, UDP = 6, 17
EDGE, SERVERS = 1 << 31, 1 << 31 | 2
"""The gateway's own MAC addresses, towards clients and VTEPs, and towards servers."""
VTEP = 0x0A000001
VTEPS = 64
FCS = 4
SIZE_MIN = {"inbound": 64, "outbound": 114}
"""Smallest frame with its frame check sequence; outbound it contains a whole inner frame."""
ENTRIES_MAX = 1 << 20


def write(folder: Path, direction: str, entries: int, size: int, *, packets: int = 65536, seed: int = 1) -> None:
    """Writes `entries.cmd` (runtime commands), `entries.swx` (for DPDK SWX) and `packets.pcap`.

    `direction` is ``inbound`` or ``outbound``, `size` the bytes of a frame with its frame check sequence, which a capture omits.
    Equal arguments write equal files.
    """
    if direction not in SIZE_MIN:
        raise LabError(f"direction: found {direction}, expected {' or '.join(SIZE_MIN)}")
    if not 1 <= entries <= ENTRIES_MAX:
        raise LabError(f"entries: found {entries}, expected 1 to {ENTRIES_MAX}")
    if size < SIZE_MIN[direction]:
        raise LabError(f"frame size {direction}: found {size} bytes, expected at least {SIZE_MIN[direction]}")
    folder.mkdir(parents=True, exist_ok=True)
    _Workload(random.Random(seed), direction, entries, size).write(folder, packets)


def mac(number: int) -> bytes:
    """Returns a locally administered address."""
    return struct.pack("!HI", 0x0200, number)


def ipv4(source: int, destination: int, protocol: int, payload: bytes) -> bytes:
    """Returns header and payload."""
    header = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, source, destination)
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:] + payload


def dotted(address: int) -> str:
    """Returns an IPv4 address as text."""
    return ".".join(map(str, address.to_bytes(4, "big")))


def colons(number: int) -> str:
    """Returns a MAC address as text."""
    return ":".join(f"{byte:02x}" for byte in mac(number))


class _Workload:
    def __init__(self, chance: random.Random, direction: str, entries: int, size: int) -> None:
        self.chance, self.direction, self.entries, self.size = chance, direction, entries, size
        self.pools = min((entries + 15) // 16, 16000)
        self.commands: list[str] = []
        self.swx: list[str] = []
        self._tunnels()
        self._next_hops()
        self.virtual = [0x08000000 | i for i in chance.sample(range(1 << 24), entries)]
        for i, address in enumerate(self.virtual):
            self.commands.append(f"table_add hosts_v4 balance 0 {dotted(address)} => {i % self.pools + 1} 0")
            self.swx.append(f"hosts_v4 match 0x0 {address:#x} action balance pool {i % self.pools + 1:#x}")
        self.prefixes = self._routes()

    def _tunnels(self) -> None:
        # All packets of a capture arrive at port 0.
        role = "external" if self.direction == "inbound" else "underlay"
        self.commands += [f"table_add attachments {role} 0 0 => 0 {colons(EDGE)}", f"pvs_add own_vteps_v4 {dotted(VTEP)}"]
        self.swx.append(f"attachments match 0x0 0x0 action {role} vrf 0x0 own_mac {number_of(EDGE)}")
        for v in range(1, VTEPS + 1):
            peer = VTEP + 256 * v
            self.commands += [
                f"table_add tunnels_v4 from_vtep {dotted(VTEP)} {dotted(peer)} => {v}",
                f"table_add vnis into {99 + v} => {v} 0 {colons(SERVERS)} 0 0",
                f"table_add vteps via {v} => 1 1500",
                f"table_add encapsulations encapsulate_v4 {v} => {colons(EDGE)} {colons(1 << 30 | v)} 0 "
                f"{dotted(VTEP)} {dotted(peer)} 64 49152 16383",
            ]
            # Lengths are those of the headers before the inner IPv4 header, whose length is added.
            self.swx += [
                f"tunnels_v4 match {peer:#x} {VTEP:#x} action from_vtep vtep {v:#x}",
                f"vnis match {99 + v:#x} action into network {v:#x} vrf 0x0 own_mac {number_of(SERVERS)}",
                f"vteps match {v:#x} action via port 0x1 mtu {1500:#x}",
                f"encapsulations match {v:#x} action encapsulate dmac {number_of(1 << 30 | v)} smac {number_of(EDGE)} "
                f"ethertype 0x800 ver_ihl 0x45 diffserv 0x0 total_len {20 + 16 + 14:#x} identification 0x0 "
                f"flags_offset 0x4000 ttl {64:#x} protocol {UDP:#x} hdr_checksum 0x0 source {VTEP:#x} destination {peer:#x} "
                f"port_base 0xc000 dst_port {4789:#x} udp_length {16 + 14:#x} udp_checksum 0x0 flags 0x8 reserved 0x0 vni 0x0 "
                f"reserved2 0x0 port_mask 0x3fff",
            ]

    def _next_hops(self) -> None:
        # Next hops to clients come first, then those to back ends, of which there can be 65,000.
        for hop in range(1, 65):
            self.commands.append(f"table_add next_hops local {hop} => 1 0 {colons(EDGE)} {colons(1 << 29 | hop)} 1500")
            self.swx.append(
                f"next_hops match {hop:#x} action local dmac {number_of(1 << 29 | hop)} smac {number_of(EDGE)} port 0x1 mtu {1500:#x}"
            )
        for back_end in range(4 * self.pools):
            v = self.chance.randrange(1, VTEPS + 1)
            self.commands.append(
                f"table_add next_hops tunnel {65 + back_end} => {v} {99 + v} {v} {colons(SERVERS)} {colons(back_end)}"
            )
            self.swx.append(
                f"next_hops match {65 + back_end:#x} action tunnel dmac {number_of(back_end)} smac {number_of(SERVERS)} "
                f"vtep {v:#x} vni {99 + v:#x} network {v:#x}"
            )
        for pool in range(self.pools):
            self.commands.append("act_prof_create_group members")
            for member in range(16):
                hop = 65 + 4 * pool + member % 4
                self.commands += [
                    f"act_prof_create_member members to_next_hop {hop}",
                    f"act_prof_add_member_to_group members {16 * pool + member} {pool}",
                ]
                self.swx.append(f"pools match {pool + 1:#x} {member:#x} action to_next_hop next_hop {hop:#x}")
            self.commands.append(f"table_indirect_add_with_group pools {pool + 1} => {pool}")

    def _client(self) -> int:
        """Any unicast address that no kernel uses for itself; virtual addresses are elsewhere."""
        return 0x40000000 + self.chance.randrange(0x3F000000)

    def _word(self) -> int:
        return self.chance.getrandbits(32)

    def _routes(self) -> list[tuple[int, int]]:
        # Most of them /24, as on the Internet.
        lengths = self.chance.choices([24, 23, 22, 20, 16], [60, 12, 15, 9, 4], k=4 * self.entries)
        routes: dict[tuple[int, int], int] = {}
        for length in lengths:
            prefix = self._client() >> 32 - length << 32 - length
            if len(routes) < self.entries:
                routes[prefix, length] = self.chance.randrange(1, 65)
        for (prefix, length), hop in routes.items():
            self.commands.append(f"table_add routes_v4 to_next_hop 0 {dotted(prefix)}/{length} => {hop}")
            # Inbound packets look up none, and SWX takes minutes to load many.
            if self.direction == "outbound":
                mask = 0xFFFFFFFF >> 32 - length << 32 - length
                self.swx.append(f"routes_v4 match 0x0 {prefix:#x}/{mask:#x} action to_next_hop next_hop {hop:#x}")
        return list(routes)

    def _segment(self, length: int) -> bytes:
        port = self.chance.randrange(1024, 65536)
        return struct.pack("!HHIIHHHH", port, 80, self._word(), self._word(), 0x5010, 65535, 0, 0).ljust(length, b"\0")

    def _inbound(self) -> bytes:
        ethernet = mac(EDGE) + mac(self._word() >> 2) + b"\x08\0"
        return ethernet + ipv4(self._client(), self.chance.choice(self.virtual), TCP, self._segment(self.size - 34 - FCS))

    def _outbound(self) -> bytes:
        prefix, length = self.chance.choice(self.prefixes)
        to = prefix | self.chance.getrandbits(32 - length)
        v = self.chance.randrange(1, VTEPS + 1)
        inner = mac(SERVERS) + mac(self.chance.randrange(4 * self.pools)) + b"\x08\0"
        inner += ipv4(self.chance.choice(self.virtual), to, TCP, self._segment(self.size - 84 - FCS))
        vxlan = struct.pack("!II", 0x08 << 24, 99 + v << 8)
        udp = struct.pack("!HHHH", 0xC000 | self.chance.getrandbits(14), 4789, 16 + len(inner), 0)
        return mac(EDGE) + mac(1 << 30 | v) + b"\x08\0" + ipv4(VTEP + 256 * v, VTEP, UDP, udp + vxlan + inner)

    def write(self, folder: Path, packets: int) -> None:
        """Writes the files."""
        (folder / "entries.cmd").write_text("".join(line + "\n" for line in self.commands), encoding="ascii")
        (folder / "entries.swx").write_text("".join(line + "\n" for line in self.swx), encoding="ascii")
        make = self._inbound if self.direction == "inbound" else self._outbound
        with open(folder / "packets.pcap", "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for i in range(packets):
                frame = make()
                file.write(struct.pack("<IIII", i // 1_000_000, i % 1_000_000, len(frame), len(frame)) + frame)


def number_of(number: int) -> str:
    """Returns a MAC address as a number in hex, as DPDK SWX reads it."""
    return f"0x{mac(number).hex()}"
