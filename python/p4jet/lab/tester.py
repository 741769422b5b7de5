"""The tester: sends a trace through a switch and measures loss, rates and latency.

It runs `p4jet traffic` for the load and `probe.py` for time stamps, both inside one node of a lab. Frame sizes exclude the frame
check sequence, so that a frame takes :data:`~p4jet.lab.thesis.FRAMING` bytes more on a wire.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import probe
from .errors import LabError
from .network import Node
from .rules import SWITCH_MAC, TESTER_MAC
from .switches.p4jet import P4jet, binary

DST, SRC = SWITCH_MAC, TESTER_MAC
"""Addresses of the frames that a tester sends. A MAC mirror exchanges them."""

SAMPLES = 10_000
"""Latencies that one measurement takes, about."""
PROBE = str(Path(probe.__file__).resolve())
TRIES = 5
SIZE_MIN = 14 + 20 + 8 + probe.STAMP
SIZE_MAX = 9000

Latencies = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """A capture of UDP frames of `clients` x `flows`, which a tester sends `packets` times, or in a loop until its time is up.

    Clients have source addresses from 10.1.0.1 on, flows of a client source ports from 1024 on. Frames go to the addresses in
    `destinations` in turn.
    """

    path: Path
    size: int
    clients: int = 10_000
    flows: int = 1
    packets: int = 128
    dst: str = DST
    src: str = SRC

    @property
    def frames(self) -> int:
        """Distinct frames in the capture."""
        return self.clients * self.flows

    def write(self, destinations: npt.NDArray[np.uint32] | None = None) -> Trace:
        """Writes the capture and returns the trace. `destinations` are IPv4 addresses as numbers, by default 10.0.1.2 alone."""
        if not SIZE_MIN <= self.size <= SIZE_MAX:
            raise LabError(f"frame size: found {self.size}, expected {SIZE_MIN} to {SIZE_MAX} bytes")
        if not (1 <= self.clients <= 1 << 20 and 1 <= self.flows <= 60_000 and self.frames <= 1 << 21):
            raise LabError(
                f"trace: found {self.clients} clients x {self.flows} flows; expected at most {1 << 20} clients, 60,000 flows, and "
                f"{1 << 21} frames"
            )
        number = np.arange(self.frames, dtype=np.uint32)
        frames = np.zeros((self.frames, 16 + self.size), dtype=np.uint8)
        # The header of a record: seconds, microseconds, bytes captured, bytes of the frame.
        frames[:, :16] = np.frombuffer(struct.pack("<IIII", 0, 0, self.size, self.size), dtype=np.uint8)
        frames[:, 4:8] = (number % 1_000_000).astype("<u4").view(np.uint8).reshape(-1, 4)
        body = frames[:, 16:]
        ip_length, udp_length = self.size - 14, self.size - 34
        fixed = probe.mac(self.dst) + probe.mac(self.src) + b"\x08\x00"
        # Version and header length, DSCP, length; no identification, don't fragment, TTL 64, UDP, checksum.
        fixed += struct.pack("!BBHHHBBH", 0x45, 0, ip_length, 0, 0x4000, 64, 17, 0)
        body[:, :26] = np.frombuffer(fixed, dtype=np.uint8)
        to = np.array([0x0A000102], dtype=np.uint32) if destinations is None else destinations
        body[:, 26:30] = big_endian(0x0A010001 + number // self.flows)
        body[:, 30:34] = big_endian(to[number % len(to)])
        words = body[:, 14:34].reshape(-1, 10, 2).astype(np.uint32)
        total = (words[:, :, 0] << 8 | words[:, :, 1]).sum(axis=1, dtype=np.uint32)
        total = (total & 0xFFFF) + (total >> 16)
        total = ~((total & 0xFFFF) + (total >> 16))
        body[:, 24:26] = big_endian(total)[:, 2:]
        body[:, 34:36] = big_endian(1024 + number % self.flows)[:, 2:]
        body[:, 36:40] = np.frombuffer(struct.pack("!HH", 9, udp_length), dtype=np.uint8)
        with open(self.path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            file.write(frames.data)
        return self


def p4jet_binary() -> str:
    """Returns the path of the program p4jet. Raises :class:`LabError` if there is none."""
    why = P4jet.missing()
    path = binary()
    if path is None or why is not None:
        raise LabError(str(why))
    return path


def big_endian(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Returns four bytes for each number, in network order."""
    return numbers.astype(">u4").view(np.uint8).reshape(-1, 4)


@dataclass(frozen=True)
class Check:
    """What came back for single frames, sent slowly."""

    sent: int
    received: int
    lost: int
    bad_mac: int
    """Frames that came back with other MAC addresses than expected."""
    changed: int
    """Frames that differ elsewhere (a router changes TTL and checksum)."""
    length: int
    """Frames that came back longer or shorter."""
    example: dict[str, str]

    def fault(self) -> str | None:
        """Returns why the switch does not do what it should, or ``None``."""
        if self.lost:
            return f"{self.lost} of {self.sent} frames were lost when sent one by one"
        if self.bad_mac:
            return f"{self.bad_mac} of {self.received} frames came back with wrong MAC addresses: {self.example['bad_mac']}"
        if self.length:
            return f"{self.length} of {self.received} frames came back with another length: {self.example['length']}"
        return None


@dataclass(frozen=True)
class Measurement:
    """One run of traffic. Rates are frames per second between the warm-up and the end.

    A veth pair joins the tester to the switch. If the receive queue of the switch's end is full (a ring with XDP and AF_XDP, else the
    backlog of its processor), the kernel tells the sender that it dropped the frame. Such a refused frame is offered and lost, as
    on a cable.
    """

    size: int
    seconds: float
    sent: int
    """Frames that the generator gave to its interface, the refused ones included."""
    received: int
    offered_pps: float
    """Refused frames included."""
    received_pps: float
    rate: float | None
    """The wanted rate; ``None`` is as fast as possible."""
    refused: int = 0
    """Of the sent frames, those that the interface dropped at once because the switch's receive queue was full."""
    latencies: Latencies = field(default_factory=lambda: np.empty(0))
    """Seconds from the sender's interface to the receiver's, of the sampled frames that came back."""
    bad_mac: int = 0
    """Of the sampled frames that came back, those with wrong MAC addresses."""

    @property
    def loss(self) -> float:
        """Share of the frames that did not come back, 0 to 1."""
        return max(self.sent - self.received, 0) / max(self.sent, 1)

    @property
    def is_limited(self) -> bool:
        """True if the generator was the bottleneck: it missed its rate, or at least 99 % came back of all that it offered."""
        if self.rate is not None:
            return self.offered_pps < 0.98 * self.rate
        return self.loss <= 0.01

    def throughput(self, framing: int = 0) -> float:
        """Returns the received bits per second, with `framing` additional bytes for each frame."""
        return self.received_pps * 8 * (self.size + framing)

    def offered(self, framing: int = 0) -> float:
        """Returns the offered bits per second, with `framing` additional bytes for each frame."""
        return self.offered_pps * 8 * (self.size + framing)


class Tester:
    """Generator and receiver in one node: it sends by one interface and receives by the same or another.

    `cpu` is the processor for all its programs, `back` the destination and source address that frames return with, by default
    those of the trace exchanged (two empty texts: any addresses), and `grows` the bytes by which they return longer.
    """

    def __init__(
        self,
        node: Node,
        folder: Path,
        *,
        send: str,
        receive: str | None = None,
        cpu: int | None = None,
        back: tuple[str, str] | None = None,
        grows: int = 0,
    ) -> None:
        self.node, self.folder, self.cpu, self.back, self.grows = node, folder, cpu, back, grows
        self.send, self.receive = send, receive or send

    def _returning(self, trace: Trace) -> list[str]:
        to, by = self.back or (trace.src, trace.dst)
        # With an equals sign, because a number may be negative.
        return [f"--back-dst={to}", f"--back-src={by}", f"--grows={self.grows}"]

    def check(self, trace: Trace, *, count: int = 50, seconds: float = 20) -> Check:
        """Sends `count` frames one by one and compares what comes back, for at most `seconds`.

        If some are lost, it tries once more: what was sent before may still fill the switch's queues.
        """
        command = [sys.executable, "-I", PROBE, "check", "--send", self.send, "--receive", self.receive, "--pcap", str(trace.path)]
        command += ["--count", str(min(count, trace.frames)), "--seconds", str(seconds), *self._returning(trace)]
        checked = Check(**json.loads(self.node.run(command, timeout=seconds + 20, cpu=self.cpu).stdout))
        if checked.lost:
            checked = Check(**json.loads(self.node.run(command, timeout=seconds + 20, cpu=self.cpu).stdout))
        return checked

    def measure(self, trace: Trace, seconds: float, rate: float | None = None) -> Measurement:
        """Sends the trace in a loop for `seconds`, after a tenth of that as warm-up; `rate` is in frames per second."""
        command = [p4jet_binary(), "traffic", "--json", "--send", f"packet:{self.send}", "--receive", f"packet:{self.receive}"]
        command += ["--pcap", str(trace.path), "--seconds", str(seconds)]
        if rate is not None:
            command += ["--rate", str(rate)]
        for _ in range(TRIES):
            done = self.node.run(command, timeout=1.1 * seconds + 30, cpu=self.cpu)
            found = json.loads(done.stdout)
            # No rate if the generator was stopped for the whole measurement, as happens on a machine with other load.
            if found["sent_pps"] is not None and found["sent_pps"] > 0:
                break
            if found["not_sent"] > 0 and found["sent"] == 0:
                raise LabError(f"{self.send} refused all {found['not_sent']} frames: is it up, and does the switch receive?")
        else:
            raise LabError(f"the generator got no processor time in {TRIES} runs of {seconds:g} s: other programs load the machine")
        sent = found["sent"] + found["not_sent"]
        offered_pps = found["offered_pps"]
        # More come back than are offered while the switch empties its queues of frames from the warm-up.
        received_pps = min(found["received_pps"], offered_pps)
        return Measurement(
            trace.size, found["seconds"], sent, found["received"], offered_pps, received_pps, rate, refused=found["not_sent"]
        )

    def sample(
        self, trace: Trace, seconds: float, rate: float | None = None, *, expected_pps: float | None = None
    ) -> Measurement:
        """Like :meth:`measure`, with latencies of about :data:`SAMPLES` frames.

        The kernel takes the times: when a frame is given to the interface that sends it, and when the other interface receives
        it. They exclude what generator and receiver do. Taking them slows the generator down, by about a tenth. `expected_pps`
        is the expected offered rate, if `rate` is ``None``: the kernel also takes the time of a frame that it then refuses.
        """
        expected = 1.1 * seconds * (rate or expected_pps or 1e6)
        every = 1
        while expected / every > 1.5 * SAMPLES:
            every *= 2
        measured, frames = self.watch(trace, seconds, rate, every=every)
        left, arrived = frames[frames["left"] == 1], frames[frames["left"] == 0]
        _, at, back = np.intersect1d(left["number"], arrived["number"], return_indices=True)
        latencies = (arrived["time"][back] - left["time"][at]) / 1e9
        return replace(measured, latencies=latencies, bad_mac=int((arrived["good"] == 0).sum()))

    def watch(
        self, trace: Trace, seconds: float, rate: float | None = None, *, every: int = 1, others: Sequence[str] = ()
    ) -> tuple[Measurement, npt.NDArray[Any]]:
        """Like :meth:`measure`, and returns the sampled frames: time (ns since 1970), number, interface, left, good.

        The interface is 0 for the one that sends, 1 for the one that receives if it is another, then `others`.
        """
        out = self.folder / "frames.bin"
        names = ",".join(dict.fromkeys((self.send, self.receive, *others)))
        command = [sys.executable, "-I", PROBE, "watch", "--interfaces", names, "--length", str(trace.size), "--every", str(every)]
        command += ["--out", str(out), "--dst", trace.dst, "--src", trace.src, "--seconds", str(1.1 * seconds + 60)]
        watcher = self.node.spawn([*command, *self._returning(trace)], log=self.folder / "probe.log", cpu=self.cpu)
        try:
            watcher.wait_for("watching", 20)
            measured = self.measure(trace, seconds, rate)
        finally:
            watcher.stop(30)
        output = watcher.output().strip()
        if not out.exists():
            raise LabError(f"the probe recorded no frames: {output[-400:]}")
        counts = json.loads(output.splitlines()[-1])
        if counts["dropped"] > 0.1 * counts["records"]:
            raise LabError(
                f"the probe recorded {counts['records']} frames and missed {counts['dropped']}: lower the rate, or run as root for larger "
                f"buffers"
            )
        kinds = [("time", "<i8"), ("number", "<u8"), ("interface", "<u2"), ("left", "u1"), ("good", "u1")]
        frames = np.fromfile(out, dtype=np.dtype(kinds))
        out.unlink()
        return measured, frames
