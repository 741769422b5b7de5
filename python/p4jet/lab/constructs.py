"""Micro-benchmarks of the constructs of P4: families of programs in which the count of one construct is all that varies.

    for benchmark in family("copy"):
        print(benchmark.name, benchmark.x)          # copy-0 (13, 0, 0, 0, 0, 0), copy-1 (13, 0, 1, 0, 0, 0), …
    write(Path("benchmarks"))                        # .p4, .cmd and .pcap of all

The families are those of Harkous, "Performance modelling, optimisation and applications for P4 packet processors in clouds", TU
München 2022, section 3.3. The full stack has 14 headers: Ethernet, IPv4, UDP, PTP, then ten dummies of 16 bytes. ``Base_k``
parses the first k of them. Each program has one table, which matches the ingress port and sets the egress port. The first four
headers survive, because a tester timestamps PTP messages. The slope of the latency over the count is the cost of the construct.

The programs are for v1model. Their parsers have no conditions: every packet has the shape that its benchmark's frame has.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

DUMMIES = 10
DUMMY_BYTES = 16
HEADERS = ("ethernet", "ipv4", "udp", "ptp", *(f"dummy{i}" for i in range(DUMMIES)))
"""The stack, in its order."""
FIRST = 4
"""Headers that survive."""
STACK_BYTES = 14 + 20 + 8 + 34 + DUMMIES * DUMMY_BYTES
FRAME_BYTES_MAX = 1500
GROWING_BYTES_MAX = 1300
"""Largest frame of the family ``add``, whose frames grow on their way, as in the thesis."""
PARSE, MODIFY, COPY, REMOVE, ADD, TABLE = range(6)


@dataclass(frozen=True)
class Benchmark:
    """One program of a family."""

    name: str
    """Unique, also as the name of a file: ``copy-3``, ``fields-ipv4-2``."""
    family: str
    count: int
    """How often the program has the construct; in the family ``fields``, the number of fields of one header that it modifies."""
    x: tuple[int, int, int, int, int, int]
    """Headers parsed - 1, modified, copied, removed, added, tables - 1."""
    program: str
    """P4_16 for v1model."""
    commands: str
    """Runtime commands of bmv2 and p4jet: frames from ``in_port`` leave by ``out_port``."""
    frame: bytes
    """A frame of the right shape, without frame check sequence."""
    in_port: int
    out_port: int

    @property
    def series(self) -> str:
        """What `p4jet profile fit` calls the family; the fields of each header are a family of their own."""
        return self.name.rpartition("-")[0]

    @property
    def grows(self) -> int:
        """The bytes by which the frame is longer when it returns."""
        return DUMMY_BYTES * (self.x[ADD] - self.x[REMOVE])


_TYPES = """#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dstAddr;
    bit<48> srcAddr;
    bit<16> etherType;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> totalLen;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragOffset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> hdrChecksum;
    bit<32> srcAddr;
    bit<32> dstAddr;
}

header udp_t {
    bit<16> srcPort;
    bit<16> dstPort;
    bit<16> length;
    bit<16> checksum;
}

// IEEE 1588, the common header of messages.
header ptp_t {
    bit<8>  kind;
    bit<8>  version;
    bit<16> messageLength;
    bit<8>  domain;
    bit<8>  reserved;
    bit<16> flags;
    bit<64> correction;
    bit<32> reserved2;
    bit<80> sourcePort;
    bit<16> sequence;
    bit<8>  control_;
    bit<8>  interval;
}

header dummy_t {
    bit<32> a;
    bit<32> b;
    bit<32> c;
    bit<32> d;
}
"""

_FIELDS = {
    "ethernet": ("srcAddr", "dstAddr"),
    "ipv4": ("ttl", "diffserv", "identification"),
    "udp": ("srcPort", "checksum"),
    "ptp": ("domain",),
}
"""Fields to modify. The packet remains a PTP message, and its lengths stay."""


def _struct(name: str, members: Sequence[str]) -> str:
    return f"struct {name} {{\n" + "".join(f"    {member}\n" for member in members) + "}\n"


def _type(header: str) -> str:
    return "dummy_t" if header.startswith("dummy") else f"{header}_t"


def _parser(parsed: int) -> str:
    states = []
    for i, header in enumerate(HEADERS[:parsed]):
        name = "start" if i == 0 else f"parse_{header}"
        following = "accept" if i + 1 == parsed else f"parse_{HEADERS[i + 1]}"
        states.append(f"    state {name} {{\n        packet.extract(hdr.{header});\n        transition {following};\n    }}\n")
    return (
        "parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,\n"
        "                  inout standard_metadata_t standard_metadata) {\n" + "".join(states) + "}\n"
    )


def _table(name: str, key: str) -> str:
    return (
        f"    table {name} {{\n        key = {{ {key} : exact; }}\n        actions = {{ set_port; drop; }}\n"
        "        default_action = drop();\n        size = 16;\n    }\n"
    )


def _ingress(tables: Sequence[tuple[str, str]], statements: Sequence[str]) -> str:
    body = [f"{name}.apply();" for name, _ in tables] + list(statements)
    return (
        "control ingress(inout headers_t hdr, inout metadata_t meta,\n"
        "                inout standard_metadata_t standard_metadata) {\n"
        "    action drop() {\n        mark_to_drop(standard_metadata);\n    }\n\n"
        "    action set_port(bit<9> port) {\n        standard_metadata.egress_spec = port;\n    }\n\n"
        + "\n".join(_table(name, key) for name, key in tables)
        + "\n    apply {\n"
        + "".join(f"        {statement}\n" for statement in body)
        + "    }\n}\n"
    )


def _program(parsed: int, tables: Sequence[tuple[str, str]], statements: Sequence[str]) -> str:
    no_checksum = "control {}(inout headers_t hdr, inout metadata_t meta) {{\n    apply {{}}\n}}\n"
    emits = "".join(f"        packet.emit(hdr.{header});\n" for header in HEADERS)
    return "\n".join(
        [
            _TYPES,
            _struct("headers_t", [f"{_type(header)} {header};" for header in HEADERS]),
            "struct metadata_t {}\n",
            _parser(parsed),
            no_checksum.format("verifyChecksum"),
            _ingress(tables, statements),
            "control egress(inout headers_t hdr, inout metadata_t meta,\n"
            "               inout standard_metadata_t standard_metadata) {\n    apply {}\n}\n",
            no_checksum.format("computeChecksum"),
            f"control DeparserImpl(packet_out packet, in headers_t hdr) {{\n    apply {{\n{emits}    }}\n}}\n",
            "V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;\n",
        ]
    )


def frame(size: int, headers: int = len(HEADERS)) -> bytes:
    """Returns a PTP message in a frame of `size` bytes, with its first `headers` headers; what follows is zero.

    Raises :class:`LabError` if the headers do not fit, or if the frame is larger than Ethernet's 1500 bytes.
    """
    lengths = [14, 20, 8, 34] + DUMMIES * [DUMMY_BYTES]
    least = sum(lengths[:headers])
    if not 1 <= headers <= len(HEADERS) or not least <= size <= FRAME_BYTES_MAX:
        raise LabError(
            f"a frame of {size} bytes with {headers} headers: the headers need {least} bytes, a frame has at most"
            f" {FRAME_BYTES_MAX}, and there are {len(HEADERS)} headers"
        )
    ethernet = bytes.fromhex("020000000002" "020000000001" "0800")
    udp = struct.pack("!HHHH", 319, 319, (size - 34) & 0xFFFF, 0)
    ptp = bytes.fromhex("0002002c") + bytes(16) + bytes.fromhex("0000000000000000000100010000")
    dummies = b"".join(bytes([i + 1]) * DUMMY_BYTES for i in range(DUMMIES))
    return (ethernet + _ipv4(size - 14) + udp + ptp + dummies)[:least].ljust(size, b"\0")


def _ipv4(length: int) -> bytes:
    header = struct.pack("!BBHHHBBH", 0x45, 0, length & 0xFFFF, 0, 0, 64, 17, 0) + bytes([192, 0, 2, 1, 192, 0, 2, 2])
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + struct.pack("!H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + header[12:]


@dataclass(frozen=True)
class Family:
    """A family of programs."""

    name: str
    construct: int | None
    """The index of the construct in x; ``None`` if x does not vary."""
    base: int
    """The number of headers that the programs parse, unless that is what varies."""
    counts: tuple[int, ...]
    """The counts of the thesis, and 0, the base itself, where there is one."""
    size_max: int
    """Largest frame in bytes."""
    statements: Callable[[int], list[str]]
    """The statements with this many constructs."""


def _assign(header: str, fields: Sequence[str]) -> list[str]:
    return [f"hdr.{header}.{field} = {i + 1};" for i, field in enumerate(fields)]


def _modify(count: int) -> list[str]:
    return [statement for header in HEADERS[:count] for statement in _assign(header, _FIELDS.get(header, ("a",))[:1])]


def _copy(count: int) -> list[str]:
    return [f"hdr.dummy{i} = hdr.dummy{(i + 1) % DUMMIES};" for i in range(count)]


def _remove(count: int) -> list[str]:
    return [f"hdr.dummy{i}.setInvalid();" for i in range(count)]


def _add(count: int) -> list[str]:
    return [f"hdr.dummy{i}.setValid();" for i in range(count)]


def _nothing(_: int) -> list[str]:
    return []


_ALL = len(HEADERS)
FAMILIES = {
    family.name: family
    for family in (
        Family("parse", PARSE, 1, tuple(range(1, _ALL + 1)), FRAME_BYTES_MAX, _nothing),
        Family("fields", None, FIRST, (1, 2, 3), FRAME_BYTES_MAX, _nothing),
        Family("modify", MODIFY, _ALL, tuple(range(_ALL + 1)), FRAME_BYTES_MAX, _modify),
        Family("copy", COPY, _ALL, tuple(range(DUMMIES + 1)), FRAME_BYTES_MAX, _copy),
        Family("remove", REMOVE, _ALL, tuple(range(DUMMIES + 1)), FRAME_BYTES_MAX, _remove),
        Family("add", ADD, FIRST, tuple(range(DUMMIES + 1)), GROWING_BYTES_MAX, _add),
        Family("table", TABLE, FIRST, tuple(range(_ALL + 1)), FRAME_BYTES_MAX, _nothing),
    )
}
"""The seven families, by name."""


def family(name: str, *, size: int | None = None, in_port: int = 0, out_port: int = 1) -> list[Benchmark]:
    """Returns the programs of a family, by count. `size` is that of the frame in bytes, by default the largest of the family.

    ``fields`` modifies one field, and several, of Ethernet, IPv4 and UDP each: 1 or 2, of IPv4 up to 3. Its x does not vary.
    Raises :class:`LabError` for an unknown family and for a size that does not fit.
    """
    found = FAMILIES.get(name)
    if found is None:
        raise LabError(f"there is no family {name!r} of micro-benchmarks: there are {', '.join(FAMILIES)}")
    size = found.size_max if size is None else size
    if size > found.size_max:
        raise LabError(f"frames of the family {name} have at most {found.size_max} bytes, not {size}")
    ports = (in_port, out_port)
    if name == "fields":
        return [
            _benchmark(found, f"fields-{header}-{count}", count, size, ports, _assign(header, fields[:count]))
            for header, fields in list(_FIELDS.items())[:3]
            for count in range(1, len(fields) + 1)
        ]
    return [_benchmark(found, f"{name}-{count}", count, size, ports, found.statements(count)) for count in found.counts]


def _benchmark(of: Family, name: str, count: int, size: int, ports: tuple[int, int], statements: Sequence[str]) -> Benchmark:
    parsed = count if of.construct == PARSE else of.base
    added = count if of.construct == TABLE else 0
    tables = [("forward", "standard_metadata.ingress_port")] + [(f"more{i}", "hdr.udp.dstPort") for i in range(added)]
    x = [parsed - 1, 0, 0, 0, 0, added]
    if of.construct in (MODIFY, COPY, REMOVE, ADD):
        x[of.construct] = count
    elif of.construct is None:
        x[MODIFY] = 1
    in_port, out_port = ports
    commands = f"table_add forward set_port {in_port} => {out_port}\n"
    commands += "".join(f"table_add more{i} set_port 319 => {out_port}\n" for i in range(added))
    return Benchmark(
        name=name,
        family=of.name,
        count=count,
        x=(x[0], x[1], x[2], x[3], x[4], x[5]),
        program=_program(parsed, tables, statements),
        commands=commands,
        # The family `add` starts without the headers that it adds.
        frame=frame(size, FIRST if of.construct == ADD else _ALL),
        in_port=in_port,
        out_port=out_port,
    )


def write(folder: Path, *, size: int | None = None) -> list[Path]:
    """Writes NAME.p4, NAME.cmd and NAME.pcap (one frame) of every benchmark into a folder; returns the programs.

    A family whose largest frame is smaller than `size` has that one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    programs = []
    for of in FAMILIES.values():
        for benchmark in family(of.name, size=None if size is None else min(size, of.size_max)):
            program = folder / f"{benchmark.name}.p4"
            program.write_text(benchmark.program)
            program.with_suffix(".cmd").write_text(benchmark.commands)
            program.with_suffix(".pcap").write_bytes(capture(benchmark.frame))
            programs.append(program)
    return programs


def capture(frame: bytes) -> bytes:
    """Returns a pcap file with one frame."""
    pcap = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 1)
    return pcap + struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame
