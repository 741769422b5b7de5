"""Topologies: hosts, switches and links, from Python, TOML or the P4 tutorials' ``topology.json``."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from .errors import LabError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

End = tuple[str, "int | None"]
"""A node and its port; ``None`` stands for the lowest free port, from 0 at hosts and from 1 at switches."""

FUNCTIONS = ("mac-mirror", "forward")
"""What a file can ask of a switch without a program; types declare in `functions` which of them they have."""
PORT_MAX = 510
"""v1model's port 511 drops."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,19}")
MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")


@dataclass
class Host:
    """An end system with its own network stack. Port N is the interface ethN."""

    name: str
    addresses: list[str] = field(default_factory=list)
    """IPv4 or IPv6 with prefix length: ``10.0.0.1/24`` for port 0, ``2@10.0.2.1/24`` for port 2."""
    mac: str | None = None
    """Of port 0; ``None``: a locally administered address made of the host's number."""
    gateway: str | None = None
    """The next hop of the default route."""
    commands: list[str] = field(default_factory=list)
    """Shell commands that run on the host once the network is up."""
    cpu: int | None = None
    """The processor for the host's packets and processes."""

    def port_addresses(self) -> list[tuple[int, str]]:
        """Returns each address with its port."""
        found = []
        for text in self.addresses:
            port, _, address = text.rpartition("@")
            found.append((int(port) if port.isdecimal() else -1 if port else 0, address))
        return found


@dataclass
class Switch:
    """A switch of one of the types that `p4jet-lab types` lists. Port N is the interface ethN."""

    name: str
    type: str = "p4jet"
    program: Path | None = None
    """The P4 program."""
    commands: Path | None = None
    """Runtime commands that configure it before the first packet."""
    runtime: Path | None = None
    """The same in the form of the P4 tutorials: ``sN-runtime.json``."""
    options: dict[str, object] = field(default_factory=dict)
    """Options of the type; for p4jet those of `p4jet run`: ``{"cores": 2, "no-adapt": True}``."""
    cpu: int | None = None
    """The processor for all work of the switch, including that of the kernel."""
    function: str | None = None
    """What it does instead of running a program: ``forward`` from port to port, in both directions, or ``mac-mirror``: it sends
    frames to 02:00:00:00:00:02 back to the host at the port."""
    ports: list[int] = field(default_factory=list)
    """Of the function: pairs for ``forward``, ``[1, 2, 3, 4]`` joins 1 with 2 and 3 with 4; empty: all ports."""


@dataclass
class Link:
    """A cable between two ports. Its properties hold in each direction."""

    one: End
    other: End
    delay: float = 0.0
    """Seconds."""
    jitter: float = 0.0
    """Seconds by which the delay varies, up and down."""
    loss: float = 0.0
    """The probability, from 0 to 1, that a frame is lost."""
    rate: float | None = None
    """Bits per second; ``None``: no limit."""
    queue: int | None = None
    """Frames that can wait for the rate; ``None``: 1000."""
    mtu: int | None = None
    """Bytes of a packet without its Ethernet header; ``None``: 1500."""

    def summary(self) -> str:
        """Returns the properties for people: ``5 ms, 1 % loss, 10 Mbit/s``. Empty for a plain link."""
        parts = []
        if self.delay or self.jitter:
            parts.append(f"{self.delay * 1e3:g}{f' ± {self.jitter * 1e3:g}' if self.jitter else ''} ms")
        if self.loss:
            parts.append(f"{self.loss * 100:g} % loss")
        if self.rate:
            parts.append(f"{self.rate / 1e6:g} Mbit/s")
        return ", ".join(parts)

    def describe(self) -> str:
        """Returns the properties in p4jet's form: ``delay=5ms,rate=10000000bit``. Empty for a plain link."""
        parts = []
        if self.delay:
            parts.append(f"delay={round(self.delay * 1e9)}ns")
        if self.jitter:
            parts.append(f"jitter={round(self.jitter * 1e9)}ns")
        if self.loss:
            parts.append(f"loss={self.loss:.9f}")
        if self.rate:
            parts.append(f"rate={round(self.rate)}bit")
            if self.queue is not None:
                parts.append(f"depth={self.queue}")
        return ",".join(parts)


class Topology:
    """Hosts, switches and links.

        topology = Topology("pair")
        topology.add_host("h1", "10.0.0.1/24")
        topology.add_host("h2", "10.0.0.2/24")
        topology.add_switch("s1", type="bridge")
        topology.add_link("h1", "s1:1", delay=0.005)
        topology.add_link("h2", "s1:2")
    """

    def __init__(self, name: str, *, static_arp: bool = False) -> None:
        self.name = name
        self.static_arp = static_arp
        """Whether hosts know each other's MAC addresses within a subnet, so that programs need not forward ARP."""
        self.hosts: dict[str, Host] = {}
        self.switches: dict[str, Switch] = {}
        self.links: list[Link] = []
        self._faults: list[str] = []

    def add_host(
        self,
        name: str,
        *addresses: str,
        mac: str | None = None,
        gateway: str | None = None,
        commands: Iterable[str] = (),
        cpu: int | None = None,
    ) -> Host:
        """Adds a host and returns it; see :class:`Host`."""
        self._check_new(name)
        self.hosts[name] = Host(name, list(addresses), mac, gateway, list(commands), cpu)
        return self.hosts[name]

    def add_switch(
        self,
        name: str,
        *,
        type: str = "p4jet",
        program: str | Path | None = None,
        commands: str | Path | None = None,
        runtime: str | Path | None = None,
        options: Mapping[str, object] | None = None,
        cpu: int | None = None,
        function: str | None = None,
        ports: Iterable[int] = (),
    ) -> Switch:
        """Adds a switch and returns it; see :class:`Switch`."""
        self._check_new(name)
        files = [None if file is None else Path(file) for file in (program, commands, runtime)]
        self.switches[name] = Switch(name, type, files[0], files[1], files[2], dict(options or {}), cpu, function, list(ports))
        return self.switches[name]

    def add_link(
        self,
        one: str | End,
        other: str | End,
        *,
        delay: float = 0.0,
        jitter: float = 0.0,
        loss: float = 0.0,
        rate: float | None = None,
        queue: int | None = None,
        mtu: int | None = None,
    ) -> Link:
        """Joins two ports: ``"s1:2"`` or ``("s1", 2)``; without a port, ``"h1"``, the lowest free one. See :class:`Link`."""
        link = Link(_end(one), _end(other), delay, jitter, loss, rate, queue, mtu)
        self.links.append(link)
        return link

    def _check_new(self, name: str) -> None:
        if name in self.hosts or name in self.switches:
            raise LabError(f"{name} already exists in topology {self.name}: nodes need different names")

    def numbered(self) -> list[Link]:
        """Returns the links with a port number at each end."""
        taken = {end for link in self.links for end in (link.one, link.other) if end[1] is not None}

        def number(end: End) -> End:
            if end[1] is not None:
                return end
            first = 0 if end[0] in self.hosts else 1
            port = next(port for port in range(first, first + 2 * len(self.links) + 1) if (end[0], port) not in taken)
            taken.add((end[0], port))
            return end[0], port

        return [replace(link, one=number(link.one), other=number(link.other)) for link in self.links]

    def ports(self) -> dict[str, dict[int, Link]]:
        """Returns the numbered link at each port of each node."""
        found: dict[str, dict[int, Link]] = {name: {} for name in (*self.hosts, *self.switches)}
        for link in self.numbered():
            for name, port in (link.one, link.other):
                if name in found and port is not None:
                    found[name][port] = link
        return found

    def peer(self, name: str, port: int) -> End:
        """Returns the other end of the link at a port."""
        link = self.ports()[name][port]
        return link.other if link.one == (name, port) else link.one

    def mac(self, host: str, port: int = 0) -> str:
        """Returns the MAC address of a host's port."""
        given = self.hosts[host].mac
        if given is not None and port == 0:
            return given.lower()
        number = list(self.hosts).index(host) + 1
        return f"02:00:00:{number >> 8:02x}:{number & 255:02x}:{port & 255:02x}"

    # ---- checks ----

    def check(self) -> None:
        """Raises :class:`LabError` with every fault of the topology."""
        from .switches import types

        faults = list(self._faults)
        if not NAME.fullmatch(self.name.replace("-", "_")):
            faults.append(f"name: found {self.name!r}; expected a letter, then up to 19 letters, digits, _, . or -")
        for name in (*self.hosts, *self.switches):
            if not NAME.fullmatch(name):
                faults.append(f"{name!r} cannot name a node: expected a letter, then up to 19 letters, digits, _ or .")
        if not self.hosts and not self.switches:
            faults.append("there are no hosts and no switches")
        used = self._check_links(faults)
        processors = sorted(os.sched_getaffinity(0))
        for kind, nodes in (("hosts", self.hosts.values()), ("switches", self.switches.values())):
            for node in nodes:
                if node.cpu is not None and node.cpu not in processors:
                    have = ", ".join(map(str, processors))
                    faults.append(f"{kind}.{node.name}.cpu: found {node.cpu}; the processors of this process are: {have}")
        for host in self.hosts.values():
            self._check_host(host, used, faults)
        for switch in self.switches.values():
            if switch.type not in types():
                faults.append(f"switches.{switch.name}.type: unknown type {switch.type!r}; there are: {', '.join(types())}")
            else:
                faults.extend(types()[switch.type].faults(switch, self))
            for what, file in (("program", switch.program), ("commands", switch.commands), ("runtime", switch.runtime)):
                if file is not None and not file.is_file():
                    faults.append(f"switches.{switch.name}.{what}: there is no file {file}")
            if not any(name == switch.name for name, _ in used):
                faults.append(f"switches.{switch.name}: no link leads to it")
        if faults:
            lines = "\n".join(f"  {fault}" for fault in faults)
            raise LabError(f"topology {self.name} has {len(faults)} fault{'s' if len(faults) > 1 else ''}:\n{lines}")

    def _check_links(self, faults: list[str]) -> set[tuple[str, int]]:
        """Checks the links and returns the ports that they use."""
        known = ", ".join((*self.hosts, *self.switches))
        used: set[tuple[str, int]] = set()
        for number, link in enumerate(self.numbered(), start=1):
            where = f"link {number} ({_shown(link.one)} - {_shown(link.other)})"
            for name, port in (link.one, link.other):
                if name not in self.hosts and name not in self.switches:
                    faults.append(f"{where}: unknown node {name!r}; there are: {known}")
                    continue
                if port is None or not 0 <= port <= PORT_MAX:
                    faults.append(f"{where}: found port {port} of {name}; expected 0 to {PORT_MAX}")
                elif (name, port) in used:
                    faults.append(f"{where}: port {port} of {name} already has a link")
                else:
                    used.add((name, port))
            limits = (
                ("delay", 0 <= link.delay <= 60, link.delay, "0 to 60 seconds"),
                ("jitter", 0 <= link.jitter <= 60, link.jitter, "0 to 60 seconds"),
                ("loss", 0 <= link.loss <= 1, link.loss, "0 to 1"),
                ("rate", link.rate is None or 1 <= link.rate <= 1e12, link.rate, "1 to 10^12 bits per second"),
                ("queue", link.queue is None or 1 <= link.queue <= 1_000_000, link.queue, "1 to 1000000 frames"),
                ("mtu", link.mtu is None or 68 <= link.mtu <= 65535, link.mtu, "68 to 65535 bytes"),
            )
            faults.extend(f"{where}: found {name} {found}; expected {expected}" for name, is_right, found, expected in limits if not is_right)
            if link.queue is not None and link.rate is None:
                faults.append(f"{where}: it has a queue but no rate; frames wait only for a rate")
        return used

    def _check_host(self, host: Host, used: set[tuple[str, int]], faults: list[str]) -> None:
        where = f"hosts.{host.name}"
        ports = sorted(port for name, port in used if name == host.name)
        for port, address in host.port_addresses():
            try:
                if "/" not in address:
                    raise ValueError
                ipaddress.ip_interface(address)
            except ValueError:
                faults.append(f"{where}.addresses: found {address!r}; expected an address with prefix length, such as 10.0.0.1/24")
            if port not in ports:
                have = ", ".join(map(str, ports)) or "none"
                faults.append(f"{where}.addresses: {address} is for port {port}, which has no link; ports with links: {have}")
        if host.mac is not None and (not MAC.fullmatch(host.mac) or int(host.mac[:2], 16) & 1):
            faults.append(f"{where}.mac: found {host.mac!r}; expected an address of one station, such as 02:00:00:00:00:01")
        if host.gateway is not None:
            try:
                ipaddress.ip_address(host.gateway)
            except ValueError:
                faults.append(f"{where}.gateway: found {host.gateway!r}; expected an IP address")

    # ---- files ----

    @classmethod
    def load(cls, path: str | Path) -> Topology:
        """Reads a topology in TOML, or the ``topology.json`` of the P4 tutorials; the contents decide.

        Raises :class:`LabError` if the file cannot be read or is neither. Faults of the topology itself, such as an unknown
        key, are reported by :meth:`check`, all at once.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LabError(f"{path}: {error.strerror if isinstance(error, OSError) else 'it is not UTF-8 text'}") from error
        try:
            if text.lstrip().startswith("{"):
                return _from_tutorial(path, json.loads(text))
            return _from_toml(path, tomllib.loads(text))
        except json.JSONDecodeError as error:
            raise LabError(f"{path}:{error.lineno}:{error.colno}: it is not JSON: {error.msg}") from error
        except tomllib.TOMLDecodeError as error:
            raise LabError(f"{path}: it is not TOML: {error}") from error
        except ValueError as error:
            # Python converts no numbers with more than 4300 digits.
            raise LabError(f"{path}: {error}") from error
        except RecursionError as error:
            raise LabError(f"{path}: its tables or lists are nested too deeply") from error

    # ---- picture ----

    def to_svg(self) -> str:
        """Returns a picture of the topology as SVG."""
        return _svg(self)


def _name_of(file: str) -> str:
    """Makes the name of a file or folder that of a network."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", file)[:20]
    return name if NAME.fullmatch(name.replace("-", "_")) else "network"


def _end(end: str | End) -> End:
    """Reads ``s1:2``."""
    if not isinstance(end, str):
        return end
    name, colon, port = end.partition(":")
    if colon and not port.isdecimal():
        raise LabError(f"found end {end!r} of a link; expected NODE or NODE:PORT, such as s1:2")
    return name, int(port) if colon else None


def _shown(end: End) -> str:
    return end[0] if end[1] is None else f"{end[0]}:{end[1]}"


# ---- numbers with units ----

UNITS_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
UNITS_RATE = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def quantity(value: object, units: Mapping[str, float]) -> float:
    """Reads a number in the base unit, or a text such as ``5ms``. Raises :class:`ValueError`."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
    else:
        match = re.fullmatch(r"([0-9.]+)\s*([A-Za-z%]+)", value) if isinstance(value, str) else None
        if match is None or match[2] not in units:
            raise ValueError(f"found {value!r}; expected a number, or a number with one of the units {', '.join(units)}")
        found = float(match[1]) * units[match[2]]
    if not math.isfinite(found):
        raise ValueError(f"found {value!r}; expected a finite number")
    return found


# ---- TOML ----


class _Reader:
    """Reads the tables of a file; collects faults instead of raising them."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults

    def read(self, table: object, where: str, kinds: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
        """Returns the values of the known keys that are present and right."""
        if not isinstance(table, dict):
            self.faults.append(f"{where}: found {table!r}; expected a table with the keys {', '.join(kinds)}")
            return {}
        found = {}
        for key, value in table.items():
            if key not in kinds:
                self.faults.append(f"{where}: unknown key {key!r}; there are: {', '.join(kinds)}")
                continue
            try:
                found[key] = kinds[key](value)
            except (ValueError, LabError) as error:
                self.faults.append(f"{where}.{key}: {error}")
        return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"found {value!r}; expected a string")
    return value


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"found {value!r}; expected a list of strings")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"found {value!r}; expected a whole number")
    return value


def _numbers(value: object) -> list[int]:
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        raise ValueError(f"found {value!r}; expected a list of whole numbers")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"found {value!r}; expected true or false")
    return value


def _table(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"found {value!r}; expected a table")
    return value


def _ends(value: object) -> list[End]:
    ends = _texts(value)
    if len(ends) != 2:
        raise ValueError(f'found {value!r}; expected two ends, such as ["h1", "s1:1"]')
    return [_end(end) for end in ends]


def _from_toml(path: Path, document: dict[str, Any]) -> Topology:
    topology = Topology(_name_of(path.stem))
    reader = _Reader(topology._faults)

    def file(value: object) -> Path:
        return path.parent / _text(value)

    root = reader.read(
        document,
        str(path),
        {"name": _text, "static_arp": _truth, "hosts": _table, "switches": _table, "links": lambda value: value},
    )
    topology.name = root.get("name", topology.name)
    topology.static_arp = root.get("static_arp", False)
    for name, table in root.get("hosts", {}).items():
        keys = {"address": _texts, "addresses": _texts, "mac": _text, "gateway": _text, "commands": _texts, "cpu": _number}
        host = reader.read(table, f"hosts.{name}", keys)
        host["addresses"] = host.pop("address", []) + host.get("addresses", [])
        topology.hosts[name] = Host(name, **host)
    for name, table in root.get("switches", {}).items():
        keys_switch: dict[str, Callable[[Any], Any]] = {
            "type": _text, "program": file, "commands": file, "runtime": file, "options": _table, "cpu": _number,
            "function": _text, "ports": _numbers,
        }
        if name in topology.hosts:
            topology._faults.append(f"switches.{name}: a host has this name, too; nodes need different names")
            continue
        topology.switches[name] = Switch(name, **reader.read(table, f"switches.{name}", keys_switch))
    links = root.get("links", [])
    if not isinstance(links, list):
        topology._faults.append(f"links: found {links!r}; expected [[links]] with ends")
        links = []
    for number, table in enumerate(links, start=1):
        keys_link: dict[str, Callable[[Any], Any]] = {
            "ends": _ends,
            "delay": lambda value: quantity(value, UNITS_TIME),
            "jitter": lambda value: quantity(value, UNITS_TIME),
            "loss": lambda value: quantity(value, {"%": 0.01}),
            "rate": lambda value: quantity(value, UNITS_RATE),
            "queue": _number,
            "mtu": _number,
        }
        link = reader.read(table, f"link {number}", keys_link)
        if "ends" in link:
            one, other = link.pop("ends")
            topology.links.append(Link(one, other, **link))
        elif not (isinstance(table, dict) and "ends" in table):
            topology._faults.append(f'link {number}: the key ends is missing, such as ends = ["h1", "s1:1"]')
    return topology


# ---- the P4 tutorials ----


def _from_tutorial(path: Path, document: object) -> Topology:
    """Reads ``topology.json`` of https://github.com/p4lang/tutorials as utils/run_exercise.py does."""
    topology = Topology(_name_of(path.resolve().parent.name))
    reader = _Reader(topology._faults)
    root = reader.read(document, str(path), {"hosts": _table, "switches": _table, "links": lambda value: value})
    for name, table in root.get("hosts", {}).items():
        host = reader.read(table, f"hosts.{name}", {"ip": _text, "mac": _text, "commands": _texts})
        topology.hosts[name] = Host(name, [host["ip"]] if "ip" in host else [], host.get("mac"), None, [_tutorial_command(command) for command in host.get("commands", [])])
    for name, table in root.get("switches", {}).items():
        keys_switch: dict[str, Callable[[Any], Any]] = {
            "runtime_json": _text, "cli_input": _text, "program": _text, "cpu_port": str, "priority_queues": str,
        }
        switch = reader.read(table, f"switches.{name}", keys_switch)
        # As utils/p4runtime_switch.py numbers them.
        number = len(topology.switches)
        spec = Switch(name, options={"p4runtime": f"127.0.0.1:{50051 + number}", "device-id": number})
        if "runtime_json" in switch:
            spec.runtime = _tutorial_file(path, switch["runtime_json"])
        if "cli_input" in switch:
            spec.commands = _tutorial_file(path, switch["cli_input"])
        if "cpu_port" in switch:
            spec.options["cpu-port"] = switch["cpu_port"]
        if "priority_queues" in switch:
            spec.options["queues"] = switch["priority_queues"]
        spec.program = _tutorial_program(path, switch.get("program"), spec.runtime)
        topology.switches[name] = spec
    links = root.get("links", [])
    for number, link in enumerate(links if isinstance(links, list) else [links], start=1):
        where = f"link {number}"
        if not isinstance(link, list) or not 2 <= len(link) <= 4 or not all(isinstance(end, str) for end in link[:2]):
            topology._faults.append(f'{where}: found {link!r}; expected ["h1", "s1-p1"], then latency and bandwidth')
            continue
        try:
            ends = [_tutorial_end(end) for end in link[:2]]
            # A number is in milliseconds, a text has a unit ("5ms"); Mininet reads a text without one as microseconds.
            latency = link[2] if len(link) > 2 else 0
            if isinstance(latency, str):
                delay = quantity(float(latency) * 1e-6 if re.fullmatch(r"[0-9.]+", latency) else latency, UNITS_TIME)
            else:
                delay = quantity(latency, {}) * 1e-3
            # Megabits per second. Mininet's queues hold 1000 frames.
            bandwidth = link[3] if len(link) > 3 else None
            rate = None if bandwidth is None else quantity(bandwidth, {}) * 1e6
        except ValueError as error:
            topology._faults.append(f"{where}: {error}")
            continue
        topology.links.append(Link(ends[0], ends[1], delay=delay, rate=rate))
    return topology


def _tutorial_end(end: str) -> End:
    """Reads ``h1`` or ``s1-p2``."""
    match = re.fullmatch(r"([^-]+)(?:-p([0-9]+))?", end)
    if match is None:
        raise ValueError(f"found end {end!r}; expected a host, or a switch with its port, such as s1-p2")
    return match[1], int(match[2]) if match[2] else None


def _tutorial_command(command: str) -> str:
    """Returns the command for iproute2: route and arp are in no package that systems still install by default.

    "replace" instead of "add", because the route to a host's own subnet, which one exercise adds, exists.
    """
    for pattern, replacement in (
        (r"route add default gw (\S+) dev (\S+)", r"ip route replace default via \1 dev \2"),
        (r"arp -i (\S+) -s (\S+) (\S+)", r"ip neigh replace \2 lladdr \3 dev \1"),
        (r"ip route add (.*)", r"ip route replace \1"),
    ):
        if re.fullmatch(pattern, command.strip()):
            return re.sub(pattern, replacement, command.strip())
    return command


def _tutorial_file(path: Path, name: str) -> Path:
    """Finds a file that the tutorials name relative to the folder of the exercise: that of the topology, or one above it."""
    folder = path.resolve().parent
    candidates = [folder / name, folder.parent / name]
    return next((file for file in candidates if file.exists()), candidates[0])


def _tutorial_program(path: Path, program: str | None, runtime: Path | None) -> Path | None:
    """Finds the P4 text of which ``build/basic.json`` is made, the output of p4c that the files of an exercise name."""
    if program is None and runtime is not None and runtime.is_file():
        try:
            found = json.loads(runtime.read_text(encoding="utf-8")).get("bmv2_json")
        except (ValueError, AttributeError, RecursionError, OSError):
            # The switch reports what is wrong with the file when it reads the entries.
            return None
        program = found if isinstance(found, str) else None
    if program is None:
        return None
    source = _tutorial_file(path, Path(program).stem + ".p4")
    return source if source.exists() else _tutorial_file(path, program)


# ---- picture ----


def _svg(topology: Topology) -> str:
    places = _places(topology)
    width = 120 + max((x for x, _ in places.values()), default=0)
    height = 100 + max((y for _, y in places.values()), default=0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="12" text-anchor="middle">',
        f"<title>{escape(topology.name)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]

    def text(x: float, y: float, words: str, style: str = "") -> str:
        return f'<text x="{x:.0f}" y="{y:.0f}"{style}>{escape(words)}</text>'

    for link in topology.numbered():
        if link.one[0] not in places or link.other[0] not in places:
            continue
        (x1, y1), (x2, y2) = places[link.one[0]], places[link.other[0]]
        lines.append(f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#666" stroke-width="1.5"/>')
        for (name, port), part in ((link.one, 0.3), (link.other, 0.7)):
            if name in topology.switches:
                lines.append(text(x1 + (x2 - x1) * part, y1 + (y2 - y1) * part - 3, str(port), ' fill="#06c" font-size="10"'))
        words = link.summary()
        if words:
            lines.append(text((x1 + x2) / 2, (y1 + y2) / 2 + 12, words, ' fill="#a40" font-size="10"'))
    for name, (x, y) in places.items():
        if name in topology.switches:
            lines.append(f'<rect x="{x - 32:.0f}" y="{y - 17:.0f}" width="64" height="34" rx="5" fill="#dbe9f9" stroke="#06c"/>')
            lines.append(text(x, y + 4, name, ' font-weight="bold"'))
            lines.append(text(x, y + 31, topology.switches[name].type, ' font-size="10" fill="#444"'))
        else:
            lines.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="19" fill="#f4f4f4" stroke="#444"/>')
            lines.append(text(x, y + 4, name, ' font-weight="bold"'))
            for row, address in enumerate(topology.hosts[name].addresses):
                lines.append(text(x, y + 33 + 12 * row, address, ' font-size="10" fill="#444"'))
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _places(topology: Topology) -> dict[str, tuple[float, float]]:
    """Places nodes so that linked ones are near and others are apart: springs and repulsion (Fruchterman and Reingold 1991)."""
    names = [*topology.switches, *topology.hosts]
    count = len(names)
    ideal = 110.0
    radius = ideal * max(1.0, count / 6)
    at = [complex(math.cos(2 * math.pi * i / max(count, 1)), math.sin(2 * math.pi * i / max(count, 1))) * radius for i in range(count)]
    index = {name: i for i, name in enumerate(names)}
    edges = [(index[link.one[0]], index[link.other[0]]) for link in topology.links if link.one[0] in index and link.other[0] in index]
    rounds = 200 if count <= 100 else 0
    for step in range(rounds):
        move = [0j] * count
        for i in range(count):
            for j in range(i + 1, count):
                apart = at[i] - at[j] or complex(1, i - j)
                push = apart / abs(apart) * min(ideal**2 / abs(apart), 10 * ideal)
                move[i] += push
                move[j] -= push
        for i, j in edges:
            apart = at[i] - at[j]
            pull = apart * abs(apart) / ideal
            move[i] -= pull
            move[j] += pull
        reach = ideal * (1 - step / rounds)
        for i in range(count):
            if abs(move[i]) > 0:
                at[i] += move[i] / abs(move[i]) * min(abs(move[i]), reach)
    left, top = min((p.real for p in at), default=0.0), min((p.imag for p in at), default=0.0)
    return {name: (60 + p.real - left, 40 + p.imag - top) for name, p in zip(names, at)}


def set_programs(topology: Topology, programs: Sequence[str]) -> None:
    """Sets the programs of switches: ``FILE`` for all p4jet and bmv2 switches, ``SWITCH=FILE`` for one."""
    for text in sorted(programs, key=lambda text: "=" in text):
        name, equals, file = text.partition("=")
        if not equals:
            for switch in topology.switches.values():
                switch.program = Path(text)
        elif name in topology.switches:
            topology.switches[name].program = Path(file)
        else:
            raise LabError(f"--program {text}: unknown switch {name!r}; there are: {', '.join(topology.switches)}")
