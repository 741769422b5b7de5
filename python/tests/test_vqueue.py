"""programs/vqueue in virtual time, against a model of the thesis's listing: two registers, with the last time and the delay.

Times of the model are integers in units of the program's clock: a microsecond is 65536 of them, or 1000 with the split clock.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from functools import cache

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import p4jet
from conftest import PROGRAMS

VQUEUE = PROGRAMS / "vqueue"
US = 65536
MBIT = 2**27
"""The cost of a byte, in 1/256 units, times the rate in Mbit/s."""


@dataclass
class Model:
    """The thesis's ``queue_manage`` for one slice."""

    per_packet: int = 0
    per_byte: int = 0
    limit: int = 0
    mark: int | None = None
    last: int = 0
    delay: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"forwarded": 0, "marked": 0, "dropped": 0})

    def packet(self, now: int, size: int, capable: bool) -> str:
        cost = self.per_packet + size * self.per_byte // 256
        drained = max(0, self.delay - (now - self.last))
        self.last, self.delay = now, drained
        if drained + cost > self.limit:
            outcome = "dropped"
        else:
            self.delay = drained + cost
            outcome = "marked" if capable and self.mark is not None and self.delay > self.mark else "forwarded"
        self.counts[outcome] += 1
        return outcome


def start(program: str = "vqueue", engine: str = "jit", *, queues: int | None = None, **define: str | None) -> p4jet.Switch:
    """A switch that routes everything to port 1, with 192.0.2.N in slice N."""
    compiled = p4jet.Program(VQUEUE / f"{program}.p4", define=define)
    switch = p4jet.Switch(compiled, engine=engine, queues=queues)  # type: ignore[arg-type]
    switch.table("routes_v4").set_default("set_next_hop", next_hop=1)
    switch.table("routes_v6").set_default("set_next_hop", next_hop=1)
    switch.table("next_hops").insert([1], "send_to", port=1, smac=0x02, dmac=0x04)
    if program != "router":
        for number in range(1, 8):
            key = [None, (0xC0000200 + number, 0xFFFFFFFF), None, None, None, None, None, None]
            switch.table("classify_v4").insert(key, "to_slice", slice=number, priority=1)
        key6 = [None, (0x20010DB8 << 96, 0xFFFFFFFF << 96), None, None, None, None, None, None]
        switch.table("classify_v6").insert(key6, "to_slice", slice=1, priority=1)
    return switch


@cache
def frame(number: int = 1, size: int = 100, tos: int = 0, *, v6: bool = False, ident: int = 7) -> bytes:
    """A frame of a slice, with `size` bytes behind the Ethernet header."""
    if v6:
        packet = IPv6(dst="2001:db8::1", tc=tos) / UDP() / Raw(bytes(size - 48))
    else:
        packet = IP(dst=f"192.0.2.{number}", tos=tos, id=ident) / UDP() / Raw(bytes(size - 28))
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet)


def check_checksum(data: bytes) -> None:
    """Checks the checksum of the IPv4 header of a frame (RFC 1071)."""
    assert sum(struct.unpack_from(">10H", data, 14)) % 0xFFFF == 0


def outcome_of(sent: p4jet.Sent, capable: bool) -> str:
    """What happened to a packet, from what left. Checks the checksum of IPv4."""
    if not sent:
        return "dropped"
    (packet,) = sent
    data = packet.data
    if data[12:14] == b"\x08\x00":
        check_checksum(data)
        ecn = data[15] & 3
    else:
        ecn = data[15] >> 4 & 3
    return "marked" if ecn == 3 else "forwarded"


def send(switch: p4jet.Switch, number: int = 1, size: int = 100, tos: int = 0, *, v6: bool = False) -> str:
    return outcome_of(switch.send(frame(number, size, tos, v6=v6)), tos & 3 != 0)


def unit_of(program: str) -> int:
    return 1000 if program == "split_clock" else US


@pytest.mark.parametrize("program", ["vqueue", "real_queue", "split_clock"])
@pytest.mark.parametrize("cost", ["packets", "bytes"])
@pytest.mark.parametrize("scheme", ["tail_drop", "ecn_step"])
def test_like_the_listing(engine: str, program: str, cost: str, scheme: str) -> None:
    """Bursts and pauses at random times, for two slices that do not affect each other."""
    rng = random.Random(f"{cost} {scheme}")
    unit = unit_of(program)
    switch = start(program, engine)
    models: dict[int, Model] = {}
    for number in (1, 2):
        model = Model(limit=10_000 * unit)
        if cost == "packets":
            model.per_packet = 1000 * unit + 17
        else:
            model.per_byte = 256 * unit * 8 // 12
        params = {"queue": 0, "per_packet": model.per_packet, "per_byte": model.per_byte, "limit": model.limit}
        if scheme == "ecn_step":
            model.mark = params["early"] = 5_000 * unit
        switch.table("slices").insert([number], scheme, params)
        models[number] = model
    now_us = 0
    for _ in range(600):
        pause = rng.choice([0, 0, 1, 100, 300, 500, rng.randrange(1000), 12_000 if rng.random() < 0.05 else 0])
        if pause:
            switch.wait(pause / 1e6)
            now_us += pause
        number, size, tos = rng.choice([1, 2]), rng.choice([60, 100, 1500, 1500]), rng.choice([0, 1, 2])
        expected = models[number].packet(now_us * unit, size, tos != 0)
        found = send(switch, number, size, tos, v6=number == 1 and rng.random() < 0.3)
        assert found == expected, f"{now_us} us, slice {number}, {size} bytes: {models[number]}"
    for number, model in models.items():
        assert all(model.counts[name] > 5 for name in ("forwarded", "dropped")), model.counts
        assert scheme == "tail_drop" or model.counts["marked"] > 5, model.counts
        counter = switch.counter("outcomes")
        found = {name: counter[number * 4 + i][0] for i, name in enumerate(("forwarded", "marked", "dropped", "early"))}
        assert found == {**model.counts, "early": 0}


def test_rate_and_delay(engine: str) -> None:
    """12 Mbit/s and 10 ms, offered 20 Mbit/s of 1500 bytes: the rate holds, and the delay stays under its limit."""
    switch = start(engine=engine)
    switch.table("slices").insert([1], "tail_drop", queue=0, per_packet=0, per_byte=MBIT // 12, limit=10_000 * US)
    sent = 0
    for packet in range(3334):
        sent += send(switch, 1, 1500) == "forwarded"
        switch.wait(0.0006)
        delay = switch.register("queues")[1] - round(switch.time * 1e6) * US
        assert delay <= 10_000 * US
    # Two seconds at 12 Mbit/s, and the burst of 10 packets.
    assert sent == pytest.approx(2000.4 + 10, abs=2)


def test_packets_and_bytes_cost_the_same_for_full_packets(engine: str) -> None:
    switch = start(engine=engine)
    both = {"queue": 0, "limit": 10_000 * US}
    switch.table("slices").insert([1], "tail_drop", per_packet=1000 * US, per_byte=0, **both)
    switch.table("slices").insert([2], "tail_drop", per_packet=0, per_byte=MBIT // 12, **both)
    for size, passed in ((1500, [10, 10]), (500, [10, 30])):
        switch.wait(1)
        counts = [sum(send(switch, number, size) == "forwarded" for _ in range(60)) for number in (1, 2)]
        assert counts == passed


@pytest.mark.parametrize("scheme", ["early_drop", "early_mark"])
def test_early_drop_is_linear(engine: str, scheme: str) -> None:
    """The share of packets that are dropped, or marked, grows from 0 at the threshold to 50 % at the limit."""
    switch = start(engine=engine)
    limit_us, early_us = 30_000, 10_000
    slope = round(0.5 * 2**32 / (limit_us - early_us))
    switch.table("slices").insert(
        [1], scheme, queue=0, per_packet=US, per_byte=0, limit=limit_us * US, early=early_us * US, slope=slope
    )
    hit = "dropped" if scheme == "early_drop" else "marked"
    tos = 0 if scheme == "early_drop" else 2
    for delay_us, share in ((9_000, 0.0), (15_000, 0.125), (20_000, 0.25), (29_000, 0.475)):
        hits = 0
        for _ in range(500):
            # The register is where the control plane sets it, so that each packet finds the same delay.
            switch.register("queues")[1] = (round(switch.time * 1e6) + delay_us - 1) * US
            hits += send(switch, 1, 100, tos) == hit
        # Six standard deviations.
        assert hits / 500 == pytest.approx(share, abs=6 * (share * (1 - share) / 500) ** 0.5)


def test_marks_instead_of_drops(engine: str) -> None:
    """early_mark drops what is not ECN-capable; early_drop drops it whatever it is."""
    switch = start(engine=engine)
    same = {"queue": 0, "per_packet": US, "per_byte": 0, "limit": 100 * US, "early": 10 * US, "slope": 2**32 - 1}
    switch.table("slices").insert([1], "early_mark", same)
    switch.table("slices").insert([2], "early_drop", same)
    found = {}
    for number in (1, 2):
        for tos in (0, 1, 2):
            switch.register("queues")[number] = 50 * US
            found[number, tos] = send(switch, number, 100, tos)
    assert found == {(1, 0): "dropped", (1, 1): "marked", (1, 2): "marked", (2, 0): "dropped", (2, 1): "dropped", (2, 2): "dropped"}
    counter = switch.counter("outcomes")
    assert [counter[4 + i][0] for i in range(4)] == [0, 2, 0, 1] and [counter[8 + i][0] for i in range(4)] == [0, 0, 0, 3]


@pytest.mark.parametrize(
    ("program", "start_at", "before_us"),
    [
        # The end of a second of the split clock, and of its 32-bit seconds.
        ("split_clock", "0", 1_000_000),
        ("split_clock", "41", 1_000_000),
        ("split_clock", str(2**32 - 1), 1_000_000),
        # The end of v1model's 48-bit microseconds.
        ("vqueue", str(2**48 - 1_000_000), 1_000_000),
    ],
)
def test_the_clock_wraps(engine: str, program: str, start_at: str, before_us: int) -> None:
    """Nothing special happens around the end of a second, or of the whole clock: the listing without a wrap is the model."""
    unit = unit_of(program)
    rng = random.Random(5)
    switch = start(program, engine, CLOCK_START=start_at)
    model = Model(per_packet=1000 * unit, limit=10_000 * unit, mark=5_000 * unit)
    params = {"queue": 0, "per_packet": 1000 * unit, "per_byte": 0, "limit": 10_000 * unit, "early": 5_000 * unit}
    switch.table("slices").insert([1], "ecn_step", params)
    now_us = before_us - 40_000
    switch.wait(now_us / 1e6)
    crossed = False
    for _ in range(200):
        expected = model.packet(now_us * unit, 100, True)
        assert send(switch, 1, 100, 2) == expected, f"{now_us - before_us} us from the wrap, {model}"
        pause = rng.choice([1, 100, 400, 800])
        switch.wait(pause / 1e6)
        now_us += pause
        crossed = crossed or now_us > before_us and model.delay > 0
    assert crossed and min(model.counts.values()) > 3


@pytest.mark.parametrize("program", ["vqueue", "split_clock"])
def test_a_wrap_in_an_empty_queue(engine: str, program: str) -> None:
    """A slice that is silent for seconds has no delay afterwards."""
    unit = unit_of(program)
    switch = start(program, engine, CLOCK_START=str(2**32 - 2) if program == "split_clock" else str(2**48 - 2_000_000))
    switch.table("slices").insert([1], "tail_drop", queue=0, per_packet=1000 * unit, per_byte=0, limit=3000 * unit)
    for pause in (0.0, 0.5, 1.0, 1.7, 4.4, 10.0, 20.0):
        switch.wait(pause)
        assert [send(switch) for _ in range(5)] == ["forwarded"] * 3 + ["dropped"] * 2


def test_earlier_packets_of_another_worker(engine: str) -> None:
    """A packet whose time is before that of the one before it, as with several workers, adds its cost and drains nothing."""
    switch = start(engine=engine)
    switch.table("slices").insert([1], "tail_drop", queue=0, per_packet=1000 * US, per_byte=0, limit=3000 * US)
    # What a worker 20 us ahead has left.
    switch.register("queues")[1] = 1020 * US
    assert send(switch) == "forwarded" and switch.register("queues")[1] == 2020 * US


def test_changes_keep_the_queue_and_other_slices(engine: str) -> None:
    switch = start(engine=engine)
    slices = switch.table("slices")
    for number in (1, 2):
        slices.insert([number], "tail_drop", queue=0, per_packet=1000 * US, per_byte=0, limit=3000 * US)
        assert [send(switch, number) for _ in range(2)] == ["forwarded"] * 2
    slices.modify([1], "ecn_step", queue=3, per_packet=500 * US, per_byte=0, limit=3000 * US, early=2000 * US)
    assert [send(switch, 1, 100, 2) for _ in range(3)] == ["marked", "marked", "dropped"]
    assert [send(switch, 2) for _ in range(2)] == ["forwarded", "dropped"]


# ---- output queues ----


def send_and_wait(switch: p4jet.Switch, data: bytes, seconds: float) -> list[tuple[float, p4jet.Packet]]:
    """Sends a frame and waits. Returns what left, each with its time."""
    now = switch.time
    return [(now, packet) for packet in switch.send(data)] + switch.wait(seconds)


def saturate(switch: p4jet.Switch, rate_mbit: float, seconds: float, offered_mbit: float) -> list[tuple[float, float]]:
    """Offers 1500-byte packets of slice 1 evenly, and returns for each that left the time and its wait in the queue, in seconds."""
    switch.set_queue(1, depth=20_000)
    switch.set_port_rate(1, bits_per_second=round(rate_mbit * 1e6))
    entered: dict[int, float] = {}
    left: list[tuple[float, float]] = []
    gap = 1500 * 8 / offered_mbit / 1e6
    for number in range(round(seconds / gap)):
        ident = number % 65536
        entered[ident] = switch.time
        for time, packet in send_and_wait(switch, frame(1, 1500, ident=ident), gap):
            left.append((time, time - entered[int.from_bytes(packet.data[18:20], "big")]))
    return left


def test_real_delay_is_limited(engine: str) -> None:
    """A link of 20 Mbit/s and a slice of 24 Mbit/s: only real_queue keeps the delay of 30 ms, and it does not waste the link."""
    delays = {}
    for program in ("vqueue", "real_queue"):
        switch = start(program, engine, queues=8)
        switch.table("slices").insert([1], "tail_drop", queue=7, per_packet=0, per_byte=MBIT // 24, limit=30_000 * US)
        left = saturate(switch, 20, 0.6, 23)
        late = [wait for time, wait in left if time > 0.3]
        delays[program] = max(late)
        # Frames of 1514 bytes.
        assert len(late) == pytest.approx(0.3 * 20e6 / 8 / 1514, rel=0.03)
    assert delays["vqueue"] > 0.06
    assert 0.025 < delays["real_queue"] <= 0.03


def test_real_delay_marks(engine: str) -> None:
    """The mark follows the real delay, too, when the virtual one is low."""
    switch = start("real_queue", engine, queues=8)
    params = {"queue": 7, "per_packet": 0, "per_byte": MBIT // 1000, "limit": 100_000 * US, "early": 5_000 * US}
    switch.table("slices").insert([1], "ecn_step", params)
    switch.set_queue(1, depth=1000)
    switch.set_port_rate(1, bits_per_second=12_000_000)
    marks = []
    for _ in range(60):
        marks += [packet.data[15] & 3 == 3 for _, packet in send_and_wait(switch, frame(1, 1500, 2), 0.0005)]
    assert marks[0] is False and marks[-1] is True
    switch.wait(1)
    assert [packet.data[15] & 3 for _, packet in send_and_wait(switch, frame(1, 1500, 2), 1)] == [2]


def test_priority_chooses_the_queue(engine: str) -> None:
    switch = start("vqueue", engine, queues=8)
    for number, priority in ((1, 2), (2, 5)):
        switch.table("slices").insert([number], "unlimited", queue=priority)
    switch.set_port_rate(1, packets_per_second=1000)
    left = [packet for number in (1, 1, 1, 2, 2) for _, packet in send_and_wait(switch, frame(number), 0)]
    left += [packet for _, packet in switch.wait(1)]
    assert [packet.data[33] for packet in left] == [1, 2, 2, 1, 1]


# ---- the record in the identification ----


def test_record_in_the_identification(engine: str) -> None:
    """Virtual delay in ms, real delay in ms, drops since the last packet that left; what does not fit is carried over."""
    switch = start("vqueue", engine, TELEMETRY=None)
    switch.table("slices").insert([1], "tail_drop", queue=0, per_packet=1000 * US, per_byte=0, limit=3000 * US)

    def records(count: int) -> list[tuple[int, int, int]]:
        found = []
        for _ in range(count):
            for packet in switch.send(frame(1)):
                check_checksum(packet.data)
                ip = Ether(packet.data)[IP]
                found.append((ip.id & 63, ip.id >> 6 & 63, ip.id >> 12))
        return found

    assert records(3 + 20) == [(1, 0, 0), (2, 0, 0), (3, 0, 0)]
    switch.wait(0.0015)
    assert records(1) == [(2, 0, 15)]
    switch.wait(0.001)
    assert records(1 + 1) == [(2, 0, 5)]
    switch.wait(0.001)
    assert records(1) == [(2, 0, 1)]
    # A packet without a slice keeps its identification.
    assert [Ether(packet.data)[IP].id for packet in switch.send(frame(9))] == [7]


def test_record_of_the_real_delay(engine: str) -> None:
    for program, expected in (("real_queue", 20 << 6), ("meters", 20)):
        switch = start(program, engine, queues=8, TELEMETRY=None)
        if program == "meters":
            switch.table("slices").insert([1], "tail_drop", queue=0)
        else:
            switch.table("slices").insert([1], "tail_drop", queue=0, per_packet=1, per_byte=0, limit=100_000 * US)
        switch.set_queue(1, packets_per_second=100)
        left = [packet for _ in range(3) for _, packet in send_and_wait(switch, frame(1), 0)] + [
            packet for _, packet in switch.wait(1)
        ]
        for packet in left:
            check_checksum(packet.data)
        assert Ether(left[2].data)[IP].id & 0xFFF == expected


# ---- meters ----


def test_meters(engine: str) -> None:
    """Two rates, three colours: above the committed rate packets are marked, above the peak rate dropped."""
    switch = start("meters", engine)
    switch.table("slices").insert([1], "tail_drop", queue=0)
    switch.table("slices").insert([2], "ecn_step", queue=0)
    for number in (1, 2):
        # 1 Mbyte/s with 2000 bytes, and 2 Mbyte/s with 5000.
        switch.meter("meters").set(number, (1e6, 2000), (2e6, 5000))
    switch.wait(1)
    found = {number: [send(switch, number, 986, 2) for _ in range(7)] for number in (1, 2)}
    assert found[1] == ["forwarded"] * 5 + ["dropped"] * 2
    assert found[2] == ["forwarded"] * 2 + ["marked"] * 3 + ["dropped"] * 2
    assert switch.counter("outcomes")[2 * 4 + 1] == (3, 3000)
    # Sustained: 2 Mbyte/s pass.
    passed = 0
    for _ in range(2000):
        passed += send(switch, 1, 986) == "forwarded"
        switch.wait(0.00025)
    assert passed == pytest.approx(1000, abs=10)


def test_router(engine: str) -> None:
    switch = start("router", engine)
    assert [send(switch) for _ in range(3)] == ["forwarded"] * 3
