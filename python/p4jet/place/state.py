"""What a cloud has left while chains come and go, and which of its devices are interchangeable.

Nodes, directed links and device classes have numbers here, because the embedding methods look at them thousands of times for a chain.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from .errors import PlaceError
from .model import DELAY_TOLERANCE_US, RATE_TOLERANCE_GBPS, Chain, Cloud, DeviceType, Embedding, Function, Plan, Workload

UNIT_NODES_MAX = 4
"""Larger groups of devices between switches are not compared with each other."""
UNIT_NEIGHBOURS_MAX = 2
"""A device with more neighbours counts as a switch."""
DIGITS = 9
"""Rates left are rounded, so that what returns after a departure equals what was there before the arrival."""


@dataclass(frozen=True)
class Unit:
    """Devices that hang together when all switches are taken away: a server with its IPU."""

    members: tuple[int, ...]
    cores: tuple[int, ...]
    """The switches that they are joined to."""
    inner: tuple[tuple[int, int, int], ...]
    """For each directed link between members: their places, and the link."""
    outer: tuple[tuple[int, int, int], ...]
    """For each link to a switch: place of the member, place of the switch in `cores`, directed link; both directions."""


@dataclass
class Rack:
    """A switch, all units at it, and nothing else; its links to other switches are the only way out."""

    core: int
    units: list[int]
    outside: list[tuple[int, int, int]]
    """Other switch, link to it, link from it."""


class Layout:
    """A cloud in numbers: devices first, then fixed switches."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.names = [*cloud.devices, *cloud.switches]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.types: list[DeviceType] = [cloud.types[device.type] for device in cloud.devices.values()]
        self.switch_us = [0.0] * len(self.types) + [switch.delay_us for switch in cloud.switches.values()]
        self.edges: dict[tuple[int, int], int] = {}
        self.edge_rates: list[float] = []
        self.edge_ends: list[tuple[int, int]] = []
        self.neighbours: list[list[tuple[int, int]]] = [[] for _ in self.names]
        """Of each node: the other node and the link to it."""
        for link in cloud.links:
            one, other = self.numbers[link.one], self.numbers[link.other]
            for begin, end in ((one, other), (other, one)):
                self.edges[begin, end] = len(self.edge_rates)
                self.neighbours[begin].append((end, len(self.edge_rates)))
                self.edge_rates.append(link.rate_gbps)
                self.edge_ends.append((begin, end))
        self._find_units()
        self._find_racks()
        with_units = {core for unit in self.units for core in unit.cores}
        self.is_plain = [node >= len(self.types) and node not in with_units for node in range(len(self.names))]

    def is_device(self, node: int) -> bool:
        return node < len(self.types)

    def _find_units(self) -> None:
        count = len(self.types)
        self.units: list[Unit] = []
        self.unit_of = [-1] * len(self.names)
        seen: set[int] = set()

        def is_leaf(node: int) -> bool:
            return node < count and len(self.neighbours[node]) <= UNIT_NEIGHBOURS_MAX

        for first in range(count):
            if first in seen or not is_leaf(first):
                continue
            found, wave = {first}, [first]
            while wave:
                for other, _ in self.neighbours[wave.pop()]:
                    if other not in found and is_leaf(other):
                        found.add(other)
                        wave.append(other)
            seen |= found
            if len(found) > UNIT_NODES_MAX:
                continue
            members = tuple(sorted(found, key=lambda node: (self.types[node].name, node)))
            cores = tuple(sorted({other for node in members for other, _ in self.neighbours[node] if other not in found}))
            inner, outer = [], []
            for place, node in enumerate(members):
                for other, edge in sorted(self.neighbours[node], key=lambda item: members.index(item[0]) if item[0] in found else item[0]):
                    if other in found:
                        inner.append((place, members.index(other), edge))
                    else:
                        outer.append((place, cores.index(other), edge))
                        outer.append((place, cores.index(other), self.edges[other, node]))
            for node in members:
                self.unit_of[node] = len(self.units)
            self.units.append(Unit(members, cores, tuple(inner), tuple(outer)))

    def _find_racks(self) -> None:
        self.racks: list[Rack] = []
        self.rack_of = [-1] * len(self.names)
        """Of switches only."""
        self.rack_of_unit = [-1] * len(self.units)
        units_at: defaultdict[int, list[int]] = defaultdict(list)
        for number, unit in enumerate(self.units):
            for core in unit.cores:
                units_at[core].append(number)
        for core, numbers in units_at.items():
            if all(self.units[number].cores == (core,) for number in numbers):
                outside = [(other, edge, self.edges[other, core]) for other, edge in self.neighbours[core] if self.unit_of[other] < 0]
                self.rack_of[core] = len(self.racks)
                for number in numbers:
                    self.rack_of_unit[number] = len(self.racks)
                self.racks.append(Rack(core, numbers, sorted(outside)))


class State:
    """Chains in a cloud, and what is left.

    Two devices have the same class if they have the same type, functions and resources left. Two units have the same class if their
    members and links have, and they are joined to the same switches; two racks, if their switches and the classes of their units are the
    same and their links lead to the same switches. Exchanging two units, or two racks, of one class therefore changes nothing else: it
    maps every embedding to one of the same power and delay, that fits if the first one does.
    """

    def __init__(self, cloud: Cloud, workload: Workload, *, layout: Layout | None = None) -> None:
        self.cloud = cloud
        self.functions: dict[str, Function] = workload.functions
        self.obligatory = [workload.functions[name] for name in workload.obligatory]
        self.layout = layout or Layout(cloud)
        types = self.layout.types
        self.ingress = [device.rate_gbps for device in types]
        self.egress = [device.rate_gbps for device in types]
        self.size = [device.constructs for device in types]
        self.entries: list[float] = [float("inf") if device.entries is None else device.entries for device in types]
        self.extern = [{name: extern.rate_gbps for name, extern in device.externs.items()} for device in types]
        self.installed: list[dict[str, int]] = [{} for _ in types]
        """How many instances of each function a device has."""
        self.leaving = [0] * len(types)
        """How many chains leave a device for another node."""
        self.edge_left = list(self.layout.edge_rates)
        self.chains: dict[str, tuple[Chain, Embedding]] = {}
        self.power_w = 0.0
        self.delays: dict[tuple[str, str], float] = {
            (device.name, function.name): device.function_us(function)
            for device in cloud.types.values()
            for function in self.functions.values()
            if device.accepts(function)
        }
        """Δ_d^y by type and function; without an entry the type does not accept the function."""
        self.obligatory_us = {
            device.name: sum(self.delays[device.name, function.name] for function in self.obligatory)
            for device in cloud.types.values()
            if all(device.accepts(function) for function in self.obligatory)
        }
        """Δ_d^req; without an entry a chain cannot leave a device of the type."""
        self._ids: dict[Hashable, int] = {}
        self._keys: dict[int, Hashable] = {}
        self._holders: dict[int, int] = {}
        self._next = 0
        self.device_class = [-1] * len(types)
        self.classes: defaultdict[int, dict[int, None]] = defaultdict(dict)
        """Devices of each class."""
        self.unit_class = [-1] * len(self.layout.units)
        self.units_at: defaultdict[tuple[int, ...], defaultdict[int, dict[int, None]]] = defaultdict(lambda: defaultdict(dict))
        """Units by the switches that they are joined to, then by class."""
        self.cores_at: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
        self.rack_class = [-1] * len(self.layout.racks)
        self.rack_classes: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self._rack_units: list[dict[int, int]] = [{} for _ in self.layout.racks]
        for unit in self.layout.units:
            for core in unit.cores:
                if unit.cores not in self.cores_at[core]:
                    self.cores_at[core].append(unit.cores)
        self._shortcuts: dict[tuple[int, float], list[tuple[tuple[int, ...], float]]] = {}
        self._classify(range(len(types)), range(len(self.edge_left)))

    def shortcuts(self, node: int, rate: float) -> list[tuple[tuple[int, ...], float]]:
        """Returns the fastest ways from a switch to each other one that is no plain fixed switch, through plain ones only.

        A plain switch is fixed, has no units, and so is no destination. Each way consists of the nodes after the first one, and the delay of
        the plain ones among them. All its links have the rate left, each for itself.
        """
        known = self._shortcuts.get((node, rate))
        if known is not None:
            return known
        layout = self.layout
        heap: list[tuple[float, int, tuple[int, ...]]] = [(0.0, node, ())]
        found: dict[int, tuple[tuple[int, ...], float]] = {}
        done: set[int] = set()
        while heap:
            delay, at, route = heapq.heappop(heap)
            if at in done:
                continue
            done.add(at)
            if route and not layout.is_plain[at]:
                found[at] = (route, delay)
                continue
            after = delay + (layout.switch_us[at] if route else 0.0)
            for other, edge in layout.neighbours[at]:
                if layout.unit_of[other] < 0 and other not in done and self.edge_left[edge] >= rate - RATE_TOLERANCE_GBPS:
                    heapq.heappush(heap, (after, other, (*route, other)))
        ways = self._shortcuts[node, rate] = list(found.values())
        return ways

    def is_active(self, device: int) -> bool:
        return bool(self.installed[device])

    def active(self) -> list[str]:
        """Returns the devices in use."""
        return [self.layout.names[device] for device in range(len(self.installed)) if self.installed[device]]

    def plan(self, workload: str, method: str) -> Plan:
        """Returns the chains that are in the cloud."""
        return Plan(self.cloud.name, workload, method, {name: embedding for name, (_, embedding) in self.chains.items()})

    def delay_us(self, chain: Chain, embedding: Embedding) -> float:
        """Returns Δ^s (Eq. 5.19)."""
        layout = self.layout
        nodes = [layout.numbers[name] for name in embedding.devices]
        total = layout.types[nodes[0]].base_us
        for node, name in zip(nodes, chain.functions):
            total += self.delays[layout.types[node].name, name]
        for begin, end in embedding.links:
            one, other = layout.numbers[begin], layout.numbers[end]
            total += self.obligatory_us[layout.types[one].name] if layout.is_device(one) else layout.switch_us[one]
            if layout.is_device(other):
                total += layout.types[other].base_us
        return total

    def obstacle(self, chain: Chain, embedding: Embedding) -> str | None:
        """Returns why an embedding does not fit into what is left; ``None`` if it fits."""
        layout = self.layout
        nodes = [layout.numbers[name] for name in embedding.devices]
        leaves = {layout.numbers[begin] for begin, _ in embedding.links if layout.is_device(layout.numbers[begin])}
        rate = chain.rate_gbps
        wanted: defaultdict[int, set[str]] = defaultdict(set)
        entries: defaultdict[int, int] = defaultdict(int)
        extern: defaultdict[tuple[int, str], float] = defaultdict(float)
        for node, name in zip(nodes, chain.functions):
            if (layout.types[node].name, name) not in self.delays:
                return f"{layout.names[node]} does not accept {name}"
            wanted[node].add(name)
            entries[node] += self.functions[name].entries
            for used in self.functions[name].externs:
                extern[node, used] += rate
        for node in leaves:
            if layout.types[node].name not in self.obligatory_us:
                return f"{layout.names[node]} does not accept an obligatory function"
            wanted[node] |= {function.name for function in self.obligatory}
            if not self.leaving[node]:
                entries[node] += sum(function.entries for function in self.obligatory)
        for node, names in wanted.items():
            if sum(self.functions[name].size for name in names if name not in self.installed[node]) > self.size[node]:
                return f"{layout.names[node]} has no room for {', '.join(sorted(names))}"
            if entries[node] > self.entries[node]:
                return f"{layout.names[node]} has {self.entries[node]:g} table entries left"
        for (node, used), needed in extern.items():
            if needed > self.extern[node][used] + RATE_TOLERANCE_GBPS:
                return f"{used} of {layout.names[node]} has {self.extern[node][used]:g} Gbit/s left"
        for left, node in ((self.ingress, nodes[0]), (self.egress, nodes[-1])):
            if rate > left[node] + RATE_TOLERANCE_GBPS:
                return f"{layout.names[node]} has {left[node]:g} Gbit/s left"
        load: defaultdict[int, float] = defaultdict(float)
        for begin, end in embedding.links:
            load[layout.edges[layout.numbers[begin], layout.numbers[end]]] += rate
        for edge, needed in load.items():
            if needed > self.edge_left[edge] + RATE_TOLERANCE_GBPS:
                one, other = layout.edge_ends[edge]
                return f"link {layout.names[one]} → {layout.names[other]} has {self.edge_left[edge]:g} Gbit/s left"
        delay = self.delay_us(chain, embedding)
        if delay > chain.delay_us + DELAY_TOLERANCE_US:
            return f"the delay is {delay:.3f} µs, the bound {chain.delay_us:g} µs"
        return None

    def place(self, chain: Chain, embedding: Embedding) -> None:
        """Takes what an embedding needs. Raises :class:`PlaceError` if it does not fit."""
        if chain.name in self.chains:
            raise PlaceError(f"chain {chain.name}: found it in the cloud already, expected a new one")
        obstacle = self.obstacle(chain, embedding)
        if obstacle:
            raise PlaceError(f"chain {chain.name}: {obstacle}")
        self.chains[chain.name] = (chain, embedding)
        self._change(chain, embedding, 1)

    def remove(self, name: str) -> tuple[Chain, Embedding]:
        """Gives back what a chain took, and returns it. Raises :class:`PlaceError` if it is not in the cloud."""
        if name not in self.chains:
            raise PlaceError(f"chain {name}: found it nowhere, expected a chain in the cloud")
        chain, embedding = self.chains.pop(name)
        self._change(chain, embedding, -1)
        return chain, embedding

    def _change(self, chain: Chain, embedding: Embedding, sign: int) -> None:
        layout, rate = self.layout, sign * chain.rate_gbps
        nodes = [layout.numbers[name] for name in embedding.devices]
        edges = [layout.edges[layout.numbers[begin], layout.numbers[end]] for begin, end in embedding.links]
        leaves = {layout.edge_ends[edge][0] for edge in edges if layout.is_device(layout.edge_ends[edge][0])}
        touched = leaves.union(nodes)
        before = {node: bool(self.installed[node]) for node in touched}
        self.ingress[nodes[0]] = round(self.ingress[nodes[0]] - rate, DIGITS)
        self.egress[nodes[-1]] = round(self.egress[nodes[-1]] - rate, DIGITS)
        for node, name in zip(nodes, chain.functions):
            self._install(node, self.functions[name], sign)
            for used in self.functions[name].externs:
                self.extern[node][used] = round(self.extern[node][used] - rate, DIGITS)
        for node in leaves:
            self.leaving[node] += sign
            if self.leaving[node] == (1 if sign > 0 else 0):
                for function in self.obligatory:
                    self._install(node, function, sign)
        for edge in edges:
            self.edge_left[edge] = round(self.edge_left[edge] - rate, DIGITS)
        for node in touched:
            self.power_w += (bool(self.installed[node]) - before[node]) * layout.types[node].power_w
        self._classify(touched, edges)

    def _install(self, node: int, function: Function, sign: int) -> None:
        counts = self.installed[node]
        counts[function.name] = counts.get(function.name, 0) + sign
        if counts[function.name] == (1 if sign > 0 else 0):
            self.size[node] -= sign * function.size
        if not counts[function.name]:
            del counts[function.name]
        self.entries[node] -= sign * function.entries

    def _class(self, key: Hashable, old: int) -> int:
        """Returns the class of a key for something whose class was `old`. Classes without members are forgotten."""
        new = self._ids.get(key, -1)
        if new == old >= 0:
            return new
        if new < 0:
            new = self._ids[key] = self._next
            self._keys[new], self._holders[new] = key, 0
            self._next += 1
        self._holders[new] += 1
        if old >= 0:
            self._holders[old] -= 1
            if not self._holders[old]:
                del self._ids[self._keys.pop(old)], self._holders[old]
        return new

    def _classify(self, devices: Iterable[int], edges: Iterable[int]) -> None:
        layout = self.layout
        units: set[int] = set()
        racks: set[int] = set()
        for node in devices:
            key: Hashable = (
                layout.types[node].name,
                self.ingress[node],
                self.egress[node],
                self.size[node],
                self.entries[node],
                tuple(self.extern[node].values()),
                frozenset(self.installed[node]),
                self.leaving[node] > 0,
            )
            old = self.device_class[node]
            number = self._class(key, old)
            if number != old:
                if old >= 0:
                    del self.classes[old][node]
                    if not self.classes[old]:
                        del self.classes[old]
                self.device_class[node] = number
                self.classes[number][node] = None
            (units if layout.unit_of[node] >= 0 else racks).add(layout.unit_of[node] if layout.unit_of[node] >= 0 else layout.rack_of[node])
        for edge in edges:
            one, other = layout.edge_ends[edge]
            if layout.unit_of[one] < 0 and layout.unit_of[other] < 0:
                self._shortcuts.clear()
            for node in (one, other):
                if layout.unit_of[node] >= 0:
                    units.add(layout.unit_of[node])
                elif layout.rack_of[node] >= 0:
                    racks.add(layout.rack_of[node])
        for number in units:
            unit = layout.units[number]
            key = (
                tuple(self.device_class[node] for node in unit.members),
                tuple((place, other, self.edge_left[edge]) for place, other, edge in unit.inner),
                tuple((place, core, self.edge_left[edge]) for place, core, edge in unit.outer),
            )
            old = self.unit_class[number]
            new = self._class(key, old)
            if new == old:
                continue
            groups, rack = self.units_at[unit.cores], layout.rack_of_unit[number]
            if old >= 0:
                del groups[old][number]
                if not groups[old]:
                    del groups[old]
            groups[new][number] = None
            self.unit_class[number] = new
            if rack >= 0:
                counts = self._rack_units[rack]
                if old >= 0:
                    counts[old] -= 1
                    if not counts[old]:
                        del counts[old]
                counts[new] = counts.get(new, 0) + 1
                racks.add(rack)
        racks.discard(-1)
        for number in racks:
            rack_ = layout.racks[number]
            key = (
                self.device_class[rack_.core] if layout.is_device(rack_.core) else -1 - layout.switch_us[rack_.core],
                tuple((other, self.edge_left[there], self.edge_left[back]) for other, there, back in rack_.outside),
                frozenset(self._rack_units[number].items()),
            )
            old = self.rack_class[number]
            new = self._class(key, old)
            if new != old:
                if old >= 0:
                    del self.rack_classes[old][number]
                    if not self.rack_classes[old]:
                        del self.rack_classes[old]
                self.rack_class[number] = new
                self.rack_classes[new][number] = None
