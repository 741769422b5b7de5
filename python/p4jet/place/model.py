"""The data of a placement problem: device types, functions, a cloud, chains, and plans.

Delays are in µs, rates in Gbit/s, powers in W, prices in US dollars. Names of the thesis (H. Harkous, TU München, 2022) are given where a
field corresponds to one. A function is what the thesis calls a VNF, a chain what it calls an SFC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .errors import PlaceError

CONSTRUCTS = ("parse", "modify", "copy", "remove", "add", "table")
"""Parsed, modified, copied, removed and added headers, and tables."""
KINDS = ("cpu", "npu", "fpga", "asic")
ARCHITECTURES = ("v1model", "psa", "sume")
ALIASES = {"v1m": "v1model", "pisa": "psa", "simplesumeswitch": "sume"}
"""The thesis calls the architecture of ASICs PISA in some places and PSA in others; they are one."""

DELAY_TOLERANCE_US = 1e-6
"""A chain of 10.00 µs meets a bound of 10 µs, although its delay is a sum of decimal fractions."""
RATE_TOLERANCE_GBPS = 1e-9


@dataclass(frozen=True)
class Rule:
    """A correction of a construct's cost beyond a count."""

    construct: str
    above: int
    each_us: float | None = None
    """The cost of each construct beyond `above`, instead of the usual one."""
    once_us: float | None = None
    """Added once if there are more than `above`."""


@dataclass(frozen=True)
class Extern:
    """An extern of a device type: T_d^e and δ_d^e."""

    rate_gbps: float
    latency_us: float


@dataclass(frozen=True)
class DeviceType:
    """What all devices of a type share. Read from a profile; see docs/place.md."""

    name: str
    kind: str
    architectures: frozenset[str]
    base_us: float
    """δ_d^BP: the delay of one parsed header and one table, for the frame size of the cloud."""
    cost_us: Mapping[str, float]
    """δ_d^c: of each further construct."""
    rate_gbps: float
    """T_d: of an interface, and of the port at which traffic enters or leaves the network."""
    constructs: int
    """ω_d: the greatest number of constructs installed at once."""
    power_w: float
    """P_d: of an active device."""
    price_usd: float
    """Cost_d."""
    entries: int | None = None
    """τ_d: table entries; ``None``: no limit."""
    externs: Mapping[str, Extern] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    assumed: tuple[str, ...] = ()
    """Which numbers the profile marks as assumed."""

    def construct_us(self, construct: str, count: int) -> float:
        """Returns the delay of `count` constructs beyond those that the base delay includes."""
        usual = self.cost_us[construct]
        delay = usual * count
        for rule in self.rules:
            if rule.construct == construct and count > rule.above:
                if rule.each_us is not None:
                    delay += (rule.each_us - usual) * (count - rule.above)
                if rule.once_us is not None:
                    delay += rule.once_us
        return delay

    def function_us(self, function: Function) -> float:
        """Returns Δ_d^y, the delay of a function beyond the base delay (Eq. 5.1).

        Parsed headers and tables count one less each, because the base delay has them. Raises :class:`PlaceError` if the device lacks an
        extern.
        """
        delay = 0.0
        for construct in CONSTRUCTS:
            count = function.counts[construct]
            if construct in ("parse", "table"):
                count = max(0, count - 1)
            delay += self.construct_us(construct, count)
        for name in sorted(function.externs):
            if name not in self.externs:
                raise PlaceError(
                    f"function {function.name} on {self.name}: found extern {name}, expected one of: {', '.join(self.externs) or '(none)'}"
                )
            delay += self.externs[name].latency_us
        return delay

    def accepts(self, function: Function) -> bool:
        """Whether the type has an architecture and every extern of the function (Eqs. 5.9 and 5.10)."""
        return bool(self.architectures & function.architectures) and function.externs <= self.externs.keys()


@dataclass(frozen=True)
class Function:
    """A type of network function, y."""

    name: str
    counts: Mapping[str, int]
    """σ_y^c: its constructs, with the first header and the first table."""
    architectures: frozenset[str]
    externs: frozenset[str] = frozenset()
    entries: int = 0
    """τ_f: the table entries that each instance needs."""

    @property
    def size(self) -> int:
        """ω_y: the sum of all constructs."""
        return sum(self.counts[construct] for construct in CONSTRUCTS)


@dataclass(frozen=True)
class Device:
    """A programmable device."""

    name: str
    type: str
    rack: str | None = None


@dataclass(frozen=True)
class FixedSwitch:
    """A switch that runs no functions."""

    name: str
    delay_us: float
    """k_d."""
    rack: str | None = None


@dataclass(frozen=True)
class Link:
    """A link; the rate is that of each direction: T(d_i, d_j)."""

    one: str
    other: str
    rate_gbps: float


@dataclass
class Cloud:
    """Devices, fixed switches and links."""

    name: str
    types: dict[str, DeviceType]
    devices: dict[str, Device] = field(default_factory=dict)
    switches: dict[str, FixedSwitch] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    profiles: list[str] = field(default_factory=list)
    """Where the types come from: names of shipped profiles or files."""
    frame_bytes: int = 1500
    """The frame size whose base delays are used."""
    inputs: dict[str, object] = field(default_factory=dict)
    """What a generator made the cloud from."""

    def type_of(self, device: str) -> DeviceType:
        return self.types[self.devices[device].type]

    def check(self) -> None:
        """Raises :class:`PlaceError` with every fault."""
        faults = []
        names: set[str] = set()
        for name in [*self.devices, *self.switches]:
            if name in names:
                faults.append(f"node {name}: found twice, expected different names")
            names.add(name)
        for device in self.devices.values():
            if device.type not in self.types:
                faults.append(f"device {device.name}: found type {device.type!r}, expected one of: {', '.join(self.types) or '(none)'}")
        pairs: set[frozenset[str]] = set()
        for link in self.links:
            for end in (link.one, link.other):
                if end not in names:
                    faults.append(f"link {link.one} – {link.other}: found no node {end!r}, expected a device or switch of the cloud")
            if link.one == link.other:
                faults.append(f"link {link.one} – {link.other}: found one node, expected two")
            if frozenset((link.one, link.other)) in pairs:
                faults.append(f"link {link.one} – {link.other}: found twice, expected one link with the rate of both")
            pairs.add(frozenset((link.one, link.other)))
        if faults:
            more = f"\n… and {len(faults) - 20} more" if len(faults) > 20 else ""
            raise PlaceError(f"cloud {self.name}: {len(faults)} faults\n" + "\n".join(faults[:20]) + more)


@dataclass(frozen=True)
class Chain:
    """A chain of functions, in their order."""

    name: str
    functions: tuple[str, ...]
    rate_gbps: float
    """QoS_s^T. Best effort is a small rate."""
    delay_us: float
    """QoS_s^D. Best effort is a large bound."""


@dataclass(frozen=True)
class Instance:
    """A function to place by PA-P4VNF-RA, which knows no chains."""

    name: str
    function: str
    rate_gbps: float
    """QoS_f^T."""


@dataclass(frozen=True)
class Event:
    """A chain arrives or departs."""

    time_s: float
    chain: str
    is_arrival: bool


@dataclass
class Workload:
    """Functions, and chains or single instances of them."""

    name: str
    functions: dict[str, Function]
    obligatory: tuple[str, ...] = ()
    """ℱ_req: for chains on each device that a chain leaves for another node; for instances on each device in use."""
    obligatory_rate_gbps: float = 0.0
    """The rate of obligatory functions in Eq. 5.13, which the thesis leaves open. Chains do not use it."""
    chains: list[Chain] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    inputs: dict[str, object] = field(default_factory=dict)

    def check(self) -> None:
        """Raises :class:`PlaceError` with every fault."""
        faults = []
        known = ", ".join(self.functions) or "(none)"
        for name in self.obligatory:
            if name not in self.functions:
                faults.append(f"obligatory function: found {name!r}, expected one of: {known}")
        for chain in self.chains:
            if not chain.functions:
                faults.append(f"chain {chain.name}: found no functions, expected at least one")
            for name in chain.functions:
                if name not in self.functions:
                    faults.append(f"chain {chain.name}: found function {name!r}, expected one of: {known}")
        for instance in self.instances:
            if instance.function not in self.functions:
                faults.append(f"instance {instance.name}: found function {instance.function!r}, expected one of: {known}")
        for what, names in (("chain", [c.name for c in self.chains]), ("instance", [i.name for i in self.instances])):
            for name in sorted({name for name in names if names.count(name) > 1} if len(names) != len(set(names)) else ()):
                faults.append(f"{what} {name}: found twice, expected different names")
        chains = {chain.name for chain in self.chains}
        present: set[str] = set()
        for number, event in enumerate(self.events):
            if event.chain not in chains:
                faults.append(f"event {number}: found chain {event.chain!r}, expected a chain of the workload")
            elif event.is_arrival == (event.chain in present):
                found, expected = ("a second arrival", "its departure") if event.is_arrival else ("a departure", "its arrival")
                faults.append(f"event {number}: found {found} of chain {event.chain}, expected {expected} before")
            (present.add if event.is_arrival else present.discard)(event.chain)
        if any(one.time_s > other.time_s for one, other in zip(self.events, self.events[1:])):
            faults.append("events: found a time before the one of the previous event, expected the order of time")
        if faults:
            more = f"\n… and {len(faults) - 20} more" if len(faults) > 20 else ""
            raise PlaceError(f"workload {self.name}: {len(faults)} faults\n" + "\n".join(faults[:20]) + more)


@dataclass(frozen=True)
class Embedding:
    """Where a chain runs."""

    devices: tuple[str, ...]
    """The device of each function."""
    routes: tuple[tuple[str, ...], ...]
    """For each pair of successive functions, the nodes from the first one's device to the second one's; one node if they are the same."""

    @property
    def links(self) -> list[tuple[str, str]]:
        """Every directed link, as often as the chain crosses it."""
        return [hop for route in self.routes for hop in zip(route, route[1:])]


@dataclass
class Plan:
    """The result of placement."""

    cloud: str
    workload: str
    method: str
    chains: dict[str, Embedding] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    """The device of each instance."""
    rejected: list[str] = field(default_factory=list)
    """Chains that found no place."""
    proven: bool = False
    """Whether the objective is proven to be the best one; for arrivals one by one, that of each step."""


def architecture(name: str) -> str:
    """Returns the name of an architecture in one form. Raises :class:`PlaceError` for an unknown one."""
    found = ALIASES.get(name.lower(), name.lower())
    if found not in ARCHITECTURES:
        raise PlaceError(f"found architecture {name!r}, expected one of: {', '.join(ARCHITECTURES)} (pisa is psa)")
    return found


def single_device_us(device: DeviceType, functions: Sequence[Function]) -> float:
    """Returns the delay of a chain whose functions all run on one device: its base delay once and each function's delay."""
    return device.base_us + sum(device.function_us(function) for function in functions)


def counts(values: Iterable[int]) -> dict[str, int]:
    """Returns construct counts from six numbers in the order of :data:`CONSTRUCTS`."""
    return dict(zip(CONSTRUCTS, values, strict=True))
