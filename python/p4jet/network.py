"""A deterministic network of switches in one process, in virtual time."""

from __future__ import annotations

import heapq
import json
import os
import random
from collections import deque
from dataclasses import dataclass, field

from .packets import Frame, frame_bytes
from .switch import Switch

MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Received:
    """A frame that reached a host."""

    time: float
    """Seconds of virtual time."""
    data: bytes


@dataclass
class _Link:
    """One direction of a link."""

    to: str
    to_port: int
    delay_us: int
    rate: float | None
    """Bits per second."""
    loss: float
    queue: int | None
    """Maximum number of frames that wait for the link."""
    busy_until_us: int = 0
    leaving_us: deque[int] = field(default_factory=deque)
    """When each frame on the link or waiting for it has left."""
    dropped: int = 0

    def send(self, now_us: int, size: int, chance: random.Random) -> int | None:
        """Returns the arrival time of a frame of `size` bytes, or ``None`` if it is lost."""
        while self.leaving_us and self.leaving_us[0] <= now_us:
            self.leaving_us.popleft()
        if self.queue is not None and len(self.leaving_us) > self.queue:
            self.dropped += 1
            return None
        start = max(now_us, self.busy_until_us)
        self.busy_until_us = start + (round(8 * size / self.rate * MICROSECONDS) if self.rate else 0)
        if self.busy_until_us > now_us:
            self.leaving_us.append(self.busy_until_us)
        if self.loss and chance.random() < self.loss:
            self.dropped += 1
            return None
        return self.busy_until_us + self.delay_us


class Host:
    """An end point of a :class:`Network`: it sends frames and keeps those that reach it."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self.name = name
        self.received: list[Received] = []
        """The frames that reached the host, in order."""

    def send(self, frame: Frame) -> None:
        """Sends a frame now. :meth:`Network.run` carries it on."""
        self._network._emit(self.name, 0, frame_bytes(frame))

    def __repr__(self) -> str:
        return f"<host {self.name}: {len(self.received)} received>"


class Network:
    """Switches and hosts, joined by links with delay, rate, loss and queues, in virtual time.

    The same network with the same `seed` and the same frames does exactly the same. A frame that loops forever ends the run:
    :meth:`run` processes at most `events_max` events.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self.switches: dict[str, Switch] = {}
        self.hosts: dict[str, Host] = {}
        self._chance = random.Random(seed)
        self._links: dict[tuple[str, int], _Link] = {}
        self._events: list[tuple[int, int, str, int, bytes]] = []
        self._number = 0
        self._now_us = 0
        self._log: list[dict[str, object]] | None = None

    @property
    def time(self) -> float:
        """The virtual time in seconds."""
        return self._now_us / MICROSECONDS

    def add(self, name: str, switch: Switch) -> Switch:
        """Adds a switch under a name and returns it."""
        self._check_new(name)
        self.switches[name] = switch
        return switch

    def host(self, name: str) -> Host:
        """Adds a host. It has one port, 0."""
        self._check_new(name)
        self.hosts[name] = Host(self, name)
        return self.hosts[name]

    def _check_new(self, name: str) -> None:
        if name in self.switches or name in self.hosts:
            raise ValueError(f"{name} already exists in this network")

    def link(
        self,
        one: str | tuple[str, int],
        other: str | tuple[str, int],
        *,
        delay: float = 0.0,
        rate: float | None = None,
        loss: float = 0.0,
        queue: int | None = None,
    ) -> None:
        """Joins two ports in both directions: ``("s1", 2)``, or the name of a host.

        `delay` is in seconds, `rate` in bits per second (``None``: no limit), `loss` the probability from 0 to 1 that a frame is lost,
        `queue` the maximum number of frames that wait for the link (``None``: no limit).
        """
        if not (delay >= 0 and 0 <= loss <= 1 and (rate is None or rate > 0)):
            raise ValueError(f"found delay {delay}, rate {rate}, loss {loss}; expected delay >= 0, rate > 0, 0 <= loss <= 1")
        ends = [self._end(one), self._end(other)]
        for end in ends:
            if end in self._links:
                raise ValueError(f"port {end[1]} of {end[0]} already has a link")
        if ends[0] == ends[1]:
            raise ValueError(f"port {ends[0][1]} of {ends[0][0]} cannot be linked with itself")
        for start, (to, to_port) in zip(ends, reversed(ends)):
            self._links[start] = _Link(to, to_port, round(delay * MICROSECONDS), rate, loss, queue)

    def _end(self, end: str | tuple[str, int]) -> tuple[str, int]:
        name, port = (end, 0) if isinstance(end, str) else end
        if name in self.hosts:
            if port != 0:
                raise ValueError(f"host {name} has only port 0; found {port}")
        elif name not in self.switches:
            known = ", ".join([*self.switches, *self.hosts])
            raise ValueError(f"unknown switch or host {name}; there are: {known}")
        return name, port

    def dropped(self, end: str | tuple[str, int]) -> int:
        """Returns the number of frames that the link lost which begins at this port."""
        return self._links[self._end(end)].dropped

    def _emit(self, name: str, port: int, data: bytes) -> None:
        if name in self.hosts and self._log is not None:
            self._log.append({"time_us": self._now_us, "host": name, "sent": data.hex()})
        link = self._links.get((name, port))
        if link is None:
            return
        arrival = link.send(self._now_us, len(data), self._chance)
        if arrival is not None:
            self._number += 1
            heapq.heappush(self._events, (arrival, self._number, link.to, link.to_port, data))

    def run(self, seconds: float | None = None, *, events_max: int = 1_000_000) -> None:
        """Carries frames on for `seconds` of virtual time; without it, until no frame is under way.

        Raises :class:`RuntimeError` after `events_max` events: a frame travels in a loop.
        """
        until_us = None if seconds is None else self._now_us + round(seconds * MICROSECONDS)
        for _ in range(events_max):
            due = self._events[0][0] if self._events else None
            waiting = self._next_due()
            if waiting is not None and (due is None or waiting[0] < due):
                due = waiting[0]
            else:
                waiting = None
            if due is None or (until_us is not None and due > until_us):
                break
            self._now_us = max(self._now_us, due)
            if waiting is not None:
                self._advance(waiting[1])
                continue
            _, _, name, port, data = heapq.heappop(self._events)
            self._arrive(name, port, data)
        else:
            raise RuntimeError(f"{events_max} events at time {self.time} s: a frame travels in a loop")
        if until_us is not None:
            self._now_us = until_us
            for name in self.switches:
                self._advance(name)

    def _next_due(self) -> tuple[int, str] | None:
        """The next time at which a packet may leave an output queue, and its switch."""
        dues = ((switch._native.next_due(), name) for name, switch in self.switches.items())
        found = [(due, name) for due, name in dues if due is not None]
        return min(found, default=None)

    def _advance(self, name: str) -> None:
        for _, packet in self.switches[name]._advance(self._now_us):
            self._emit(name, packet.port, packet.data)

    def _arrive(self, name: str, port: int, data: bytes) -> None:
        host = self.hosts.get(name)
        if host is not None:
            host.received.append(Received(self.time, data))
            if self._log is not None:
                self._log.append({"time_us": self._now_us, "host": name, "received": data.hex()})
            return
        self._advance(name)
        for packet in self.switches[name].send(data, port):
            self._emit(name, packet.port, packet.data)

    # ---- record and replay ----

    def record(self) -> None:
        """Begins to record the frames that hosts send and receive, with their times."""
        self._log = []

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the recording as JSON, one frame per line."""
        if self._log is None:
            raise ValueError("nothing was recorded: call record() first")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in self._log)

    def replay(self, path: str | os.PathLike[str]) -> list[str]:
        """Sends the frames of a recording at their times, in a network that is at time 0.

        Returns the differences between the recording and this run, one text each; none if every frame arrived at the same time.
        """
        with open(path, encoding="utf-8") as file:
            wanted = [json.loads(line) for line in file]
        self.record()
        assert self._log is not None
        for line in wanted:
            if "sent" in line:
                self.run((line["time_us"] - self._now_us) / MICROSECONDS)
                self.hosts[line["host"]].send(bytes.fromhex(line["sent"]))
        self.run()
        got = [line for line in self._log if "received" in line]
        expected = [line for line in wanted if "received" in line]
        differences = [
            f"frame {number}: expected {_shown(want)}, received {_shown(have)}"
            for number, (want, have) in enumerate(zip(expected, got), start=1)
            if want != have
        ]
        if len(got) != len(expected):
            differences.append(f"expected {len(expected)} frames, received {len(got)}")
        return differences


def _shown(line: dict[str, object]) -> str:
    return f"{line['received']} at {line['host']} after {line['time_us']} us"
