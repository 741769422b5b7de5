"""A deterministic network of switches in one process, in virtual time."""

from __future__ import annotations

import heapq
import json
import math
import os
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from .packets import FRAME_MAX, Frame, frame_bytes
from .switch import Switch
from .values import MICROSECONDS, microseconds, whole

RECORDING = 2
"""Version of the form of recordings. In version 1, which had no first line, no line said when the network ran."""


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
        """Sends a frame now. :meth:`Network.run` carries it on.

        Raises :class:`ValueError` for a frame of more than 65,535 bytes, and :class:`TypeError` for anything that is no frame.
        """
        self._network._emit(self.name, 0, frame_bytes(frame))

    def __repr__(self) -> str:
        return f"<host {self.name}: {len(self.received)} received>"


class Network:
    """Switches and hosts, joined by links with delay, rate, loss and queues, in virtual time.

    The same network with the same `seed` and the same calls does exactly the same. A frame that loops forever ends the run:
    :meth:`run` processes at most `events_max` events. Only :meth:`run` advances the time, also that of the network's switches.
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
        """Adds a switch under a name and returns it. From now on, :meth:`run` advances its time with the network's.

        Raises :class:`ValueError` if the name is taken or the switch is ahead of the network's time.
        """
        self._check_new(name)
        self._check_time(name, switch)
        self.switches[name] = switch
        return switch

    def host(self, name: str) -> Host:
        """Adds a host. It has one port, 0."""
        self._check_new(name)
        self.hosts[name] = Host(self, name)
        return self.hosts[name]

    def _check_new(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"found {name!r} ({type(name).__name__}); expected a name")
        if name in self.switches or name in self.hosts:
            raise ValueError(f"{name} already exists in this network")

    def _check_time(self, name: str, switch: Switch) -> None:
        if switch._now_us > self._now_us:
            raise ValueError(
                f"switch {name} is at {switch.time} s, the network at {self.time} s; time does not run backwards: in a network, only "
                f"run() advances it, not the switch's wait()"
            )

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

        `delay` is in seconds, `rate` in bits per second, at least 1 (``None``: no limit), `loss` the probability from 0 to 1 that a frame
        is lost, `queue` the maximum number of frames that wait for the link (``None``: no limit).

        Raises :class:`ValueError` for anything out of range, such as a port that the switch does not have, and :class:`TypeError`.
        """
        delay_us = microseconds(delay, "delay")
        for what, found, low, high in (("rate", rate, 1, math.inf), ("loss", loss, 0, 1)):
            if found is None and what == "rate":
                continue
            if not isinstance(found, (int, float)):
                raise TypeError(f"{what}: found {found!r} ({type(found).__name__}); expected a number")
            if not (low <= found <= high and math.isfinite(found)):
                raise ValueError(f"{what}: found {found}; expected {'at least 1 bit per second' if what == 'rate' else '0 to 1'}")
        if queue is not None:
            queue = whole(queue, "queue", 0, math.inf, "expected 0 frames or more")
        ends = [self._end(one), self._end(other)]
        for end in ends:
            if end in self._links:
                raise ValueError(f"port {end[1]} of {end[0]} already has a link")
        if ends[0] == ends[1]:
            raise ValueError(f"port {ends[0][1]} of {ends[0][0]} cannot be linked with itself")
        for start, (to, to_port) in zip(ends, reversed(ends)):
            self._links[start] = _Link(to, to_port, delay_us, rate, loss, queue)

    def _end(self, end: str | tuple[str, int]) -> tuple[str, int]:
        pair = (end, 0) if isinstance(end, str) else end
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(f'found {end!r} ({type(end).__name__}); expected the name of a host, or a switch with its port: ("s1", 2)')
        name, port = pair
        if name not in self.hosts and name not in self.switches:
            known = ", ".join([*self.switches, *self.hosts])
            raise ValueError(f"unknown switch or host {name}; there are: {known}")
        if isinstance(end, str) and name in self.switches:
            raise ValueError(f'switch {name} has several ports; expected one with its name: ("{name}", 1)')
        high = 0 if name in self.hosts else self.switches[name]._native.port_max
        has = f"host {name} has only port 0" if name in self.hosts else f"switch {name} has ports 0 to {high}"
        return name, whole(port, "port", 0, high, has)

    def dropped(self, end: str | tuple[str, int]) -> int:
        """Returns the number of frames that the link lost which begins at this port. Raises :class:`ValueError` if none does."""
        name, port = self._end(end)
        if (name, port) not in self._links:
            raise ValueError(f"port {port} of {name} has no link")
        return self._links[name, port].dropped

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

        Raises :class:`RuntimeError` after `events_max` events: a frame travels in a loop. Raises :class:`ValueError` for negative
        seconds, and if a switch is ahead of the network because its :meth:`Switch.wait` was called.
        """
        self._run(None if seconds is None else self._now_us + microseconds(seconds), events_max)

    def _run(self, until_us: int | None, events_max: int) -> None:
        for name, switch in self.switches.items():
            self._check_time(name, switch)
        if self._log is not None:
            self._log.append({"time_us": self._now_us, "run_until_us": until_us, "events_max": events_max})
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
            # In a replay, the network may be later than the one that was recorded.
            self._now_us = max(self._now_us, until_us)
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
        """Begins to record: what hosts send, when the network runs, and what hosts receive, in this order."""
        self._log = [{"recording": RECORDING, "time_us": self._now_us}]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the recording as JSON, one event per line. Raises :class:`ValueError` without :meth:`record`."""
        if self._log is None:
            raise ValueError("nothing was recorded: call record() first")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in self._log)

    def replay(self, path: str | os.PathLike[str]) -> list[str]:
        """Repeats what a recording did, in a network like the one that was recorded: sends its frames, and runs in between as it did.

        The network must be in the state that the other had at :meth:`record`, so in general a new one: its time is checked. What the
        control plane of switches did is not in a recording. Returns the differences between the recording and this run, one text
        each; none if every frame arrived in the same order at the same time.

        Raises :class:`ValueError` before it sends anything, if the file is no recording, names a host that does not exist here or
        begins at another time.
        """
        wanted = self._read(path)
        self.record()
        assert self._log is not None
        for line in wanted:
            if "sent" in line:
                self.hosts[line["host"]].send(bytes.fromhex(line["sent"]))
            elif "run_until_us" in line:
                self._run(line["run_until_us"], line["events_max"])
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

    def _read(self, path: str | os.PathLike[str]) -> list[dict[str, Any]]:
        """Returns the lines of a recording after the first, all of them checked."""
        shown = os.fspath(path)
        lines: list[dict[str, Any]] = []
        with open(path, encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                try:
                    line = json.loads(text)
                    fault = _fault(line, is_first=number == 1)
                except (ValueError, RecursionError):
                    line, fault = {}, "it is not JSON"
                if not fault and number == 1 and line["time_us"] != self._now_us:
                    begins = line["time_us"] / MICROSECONDS
                    fault = f"the recording begins at {begins} s, this network is at {self.time} s; both must be in the same state"
                if not fault and "host" in line and line["host"] not in self.hosts:
                    fault = f"unknown host {line['host']}; there are: {', '.join(self.hosts) or 'none'}"
                if fault:
                    raise ValueError(f"{shown}:{number}: {fault}")
                lines.append(line)
        if not lines:
            raise ValueError(f"{shown}: it is empty; expected a recording of Network.save()")
        return lines[1:]


def _fault(line: Any, *, is_first: bool) -> str:
    """Returns what is wrong with a line of a recording; empty if nothing is."""
    if not isinstance(line, dict) or not _is_time(line.get("time_us")):
        return "it is not a line of a recording"
    if is_first:
        if "sent" in line or "received" in line:
            return "an earlier version recorded this, without the order of sending and running that a replay needs: record it again"
        if line.get("recording") != RECORDING:
            return f"found a recording of version {line.get('recording')!r}, expected {RECORDING}"
        return ""
    if "run_until_us" in line:
        until = line["run_until_us"]
        is_right = (until is None or (_is_time(until) and until >= line["time_us"])) and _is_time(line.get("events_max"))
        return "" if is_right else "expected the run_until_us and events_max of a run"
    data = line.get("sent", line.get("received"))
    try:
        is_frame = isinstance(data, str) and isinstance(line.get("host"), str) and len(bytes.fromhex(data)) <= FRAME_MAX
    except ValueError:
        is_frame = False
    return "" if is_frame else "expected a frame that a host sent or received, or a run"


def _is_time(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= 2**63


def _shown(line: dict[str, object]) -> str:
    return f"{line['received']} at {line['host']} after {line['time_us']} us"
