"""Embeds one chain with the least additional power, and proves it.

The problem is PA-P4SFC-E (Eqs. 5.6 to 5.31) for one chain in what earlier chains have left. The method has three steps.

1. *One device.* For each class of devices (:class:`p4jet.place.state.State`) it is computed whether the whole chain fits, and at which power.
   A chain needs no links then. If the least power equals a lower bound, the answer is proven: each function needs some device, so no embedding
   has less power than the greatest over the functions of the least power of a device for that function.
2. *Labels.* Otherwise embeddings with less power are sought. A label (k, d) means that k functions are placed and the chain is at
   node d; it extends by placing the next functions on d, or by a link. The order of labels is that of power, then delay. A label is dropped if it
   breaks a constraint, if its power is not below the best known one, if some function is left for which no device is affordable below that
   power, or if another label A of the same (k, d) dominates it, B: A's delay is not greater, and A's power plus that of the devices
   which only B has activated, and which can still serve the rest of the chain, is not greater than B's. Whatever B becomes, A can
   become too: at the worst it activates what B already has. What the chain itself takes is counted within one visit of a device only,
   and not on links. So this is a relaxation. If it finds nothing, there is nothing; if what it finds fits, that is the best. For the
   same reason ways through switches without racks can be taken in one step: the fastest one between each two switches with racks or functions.
3. *Strict labels.* If what it found does not fit, because visits or links of the chain compete with each other, the search is repeated
   link by link with what each label has taken. A dominates B then only if it has also taken no more than B of anything that could become scarce.

Interchangeable things are tried once. When a label enters a unit (a server with its IPU) or a rack that it has not touched, only the first
untouched one of each class is tried. *Proof that this loses nothing:* let E be an embedding that extends the label by another untouched unit u' of
the same class as the first one, u. Both are joined to the same switches by links with the same capacities left, and have members with the
same types and resources left. The permutation of nodes that exchanges u and u', member by member, and leaves all other nodes in place
therefore maps links to links and preserves all constraints, the delay and the power; it does not move what the label has touched. So it maps E to an
embedding of the same power that extends the label by u. For racks the permutation exchanges the switches and pairs the units by class.
The tests compare the method with the integer linear program and with brute force on random clouds.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from .errors import PlaceError
from .model import DELAY_TOLERANCE_US, RATE_TOLERANCE_GBPS, Chain, Embedding, Function
from .state import State

LABELS_MAX = 200_000
"""Labels that a search extends at most."""
LABELS_MADE_MAX = 1_000_000
"""Labels that a search makes at most: about 1 GiB."""


@dataclass(frozen=True)
class Answer:
    """The embedding of a chain, if there is one."""

    embedding: Embedding | None
    power_w: float
    """By how much the power of the cloud grows; infinite without an embedding."""
    is_proven: bool
    """Whether no embedding has less power; without an embedding, whether there is none."""
    step: str
    """``one device``, ``labels``, ``strict labels``: what decided."""
    labels: int
    seconds: float
    """Processor time, which other work on the machine hardly changes."""


Taken = dict[tuple[object, ...], float]
"""What a label has taken of things that could become scarce. Not changed after the label has been made."""


class Label(NamedTuple):
    """A beginning of an embedding: `placed` functions, and where the chain is then."""

    placed: int
    node: int
    is_ready: bool
    """Whether the chain has got functions at this node and now leaves it."""
    power: float
    delay: float
    activated: frozenset[int]
    units: frozenset[int]
    racks: frozenset[int]
    taken: Taken
    types: tuple[str, ...]
    route: tuple[int, ...]
    """The nodes passed on the way from the parent's node to this one."""
    parent: Label | None


class _Need:
    """A chain, prepared."""

    def __init__(self, state: State, chain: Chain) -> None:
        self.chain = chain
        self.rate = chain.rate_gbps
        try:
            self.functions: list[Function] = [state.functions[name] for name in chain.functions]
        except KeyError as error:
            known = ", ".join(state.functions)
            raise PlaceError(f"chain {chain.name}: found function {error}, expected one of: {known}") from error
        self.bound = chain.delay_us + DELAY_TOLERANCE_US
        self.distinct = {function.name: function for function in self.functions}
        self.entries = sum(function.entries for function in self.functions)
        externs: dict[str, float] = {}
        for function in self.functions:
            for name in function.externs:
                externs[name] = externs.get(name, 0.0) + self.rate
        self.externs = externs
        types = {device.name: device for device in state.cloud.types.values()}
        self.type_us: dict[str, float] = {}
        """The delay of the whole chain on one device of a type that accepts all its functions."""
        for name, device in types.items():
            delays = [state.delays.get((name, function.name)) for function in self.functions]
            if None not in delays:
                self.type_us[name] = device.base_us + sum(delay for delay in delays if delay is not None)
        least = [min((state.delays.get((name, f.name), math.inf) for name in types), default=math.inf) for f in self.functions]
        self.remaining_us = [sum(least[k:]) for k in range(len(least) + 1)]
        """No less delay after k functions, without entering a device."""
        self.gain_us = sum(max(0.0, -delay) for delay in least)
        """By how much functions with negative delays can at most make up for others."""
        self.base_us = [
            min((types[name].base_us for name in types if (name, f.name) in state.delays), default=math.inf) for f in self.functions
        ]


def single(state: State, need: _Need, excluded: Collection[tuple[str, ...]] = ()) -> tuple[float, int | None]:
    """Returns the least additional power of a single device, and one such device.

    Among equal powers it prefers the slowest type, and then the device with the least left: what fits there leaves the rest to chains
    that need it.
    """
    best: tuple[float, float, float, int] | None = None
    types, rate = state.layout.types, need.rate - RATE_TOLERANCE_GBPS
    for members in state.classes.values():
        node = next(iter(members))
        device = types[node]
        delay = need.type_us.get(device.name)
        if delay is None or delay > need.bound or state.ingress[node] < rate or state.egress[node] < rate:
            continue
        installed = state.installed[node]
        power = 0.0 if installed else device.power_w
        if best is not None and power > best[0]:
            continue
        if sum(f.size for name, f in need.distinct.items() if name not in installed) > state.size[node]:
            continue
        if need.entries > state.entries[node]:
            continue
        left = state.extern[node]
        if any(left[name] < wanted - RATE_TOLERANCE_GBPS for name, wanted in need.externs.items()):
            continue
        if excluded and (device.name,) * len(need.functions) in excluded:
            continue
        rank = (power, -delay, state.ingress[node] + sum(left[name] for name in need.externs), node)
        if best is None or rank < best:
            best = rank
    return (math.inf, None) if best is None else (best[0], best[3])


class _Fits:
    """What of the chain fits where, by class."""

    def __init__(self, state: State, need: _Need) -> None:
        self.state, self.need = state, need
        self._segments: dict[tuple[int, int, int], bool] = {}
        self._leaves: dict[int, bool] = {}
        self._units: dict[tuple[int, int], bool] = {}

    def segment(self, node: int, begin: int, end: int) -> bool:
        """Whether functions `begin` to `end` - 1 fit on a device together."""
        key = (self.state.device_class[node], begin, end)
        found = self._segments.get(key)
        if found is None:
            found = self._segments[key] = self._segment(node, begin, end)
        return found

    def place(self, node: int, number: int) -> bool:
        return self.segment(node, number, number + 1)

    def _segment(self, node: int, begin: int, end: int) -> bool:
        state, need = self.state, self.need
        device, installed = state.layout.types[node], state.installed[node]
        rate = need.rate - RATE_TOLERANCE_GBPS
        if (begin == 0 and state.ingress[node] < rate) or (end == len(need.functions) and state.egress[node] < rate):
            return False
        delay, entries = device.base_us, 0
        new: dict[str, int] = {}
        externs: dict[str, float] = {}
        for function in need.functions[begin:end]:
            own = state.delays.get((device.name, function.name))
            if own is None:
                return False
            delay += own
            entries += function.entries
            if function.name not in installed:
                new[function.name] = function.size
            for name in function.externs:
                externs[name] = externs.get(name, 0.0) + need.rate
        return (
            sum(new.values()) <= state.size[node]
            and entries <= state.entries[node]
            and delay <= need.bound + need.gain_us
            and all(state.extern[node][name] >= wanted - RATE_TOLERANCE_GBPS for name, wanted in externs.items())
        )

    def leave(self, node: int) -> bool:
        """Whether a chain can leave a device: the obligatory functions fit."""
        key = self.state.device_class[node]
        found = self._leaves.get(key)
        if found is None:
            state = self.state
            found = state.layout.types[node].name in state.obligatory_us
            if found and not state.leaving[node]:
                wanted = [function for function in state.obligatory if function.name not in state.installed[node]]
                found = sum(function.size for function in wanted) <= state.size[node]
                found = found and sum(function.entries for function in state.obligatory) <= state.entries[node]
            self._leaves[key] = found
        return found

    def unit(self, unit: int, number: int) -> bool:
        """Whether any member of a unit can have the function."""
        key = (self.state.unit_class[unit], number)
        found = self._units.get(key)
        if found is None:
            found = self._units[key] = any(self.place(node, number) for node in self.state.layout.units[unit].members)
        return found

    def cheapest(self) -> list[list[tuple[float, int]]]:
        """Returns for each function the least powers for a device with it: up to two devices, one of which may be the one that a chain is on."""
        state = self.state
        found: list[list[tuple[float, int]]] = []
        for number in range(len(self.need.functions)):
            best: list[tuple[float, int]] = []
            for members in state.classes.values():
                node = next(iter(members))
                power = 0.0 if state.installed[node] else state.layout.types[node].power_w
                if (len(best) < 2 or power < best[-1][0]) and self.place(node, number):
                    nodes = [node] if len(members) == 1 else [node, next(other for other in members if other != node)]
                    best = sorted([*best, *((power, other) for other in nodes)])[:2]
                    if len(best) == 2 and best[-1][0] == 0.0:
                        break
            found.append(best)
        return found


def embed(
    state: State,
    chain: Chain,
    *,
    excluded: Collection[tuple[str, ...]] = (),
    labels_max: int = LABELS_MAX,
    seconds: float = 60.0,
) -> Answer:
    """Returns the embedding of a chain with the least additional power, without placing it.

    `excluded` has combinations of device types, one type for each function, that must not be used. Each search ends after `labels_max`
    labels have been extended, and all after `seconds` of time, with `is_proven` false.
    """
    begin, until = time.thread_time(), time.perf_counter() + seconds
    need = _Need(state, chain)
    fits = _Fits(state, need)
    power, node = single(state, need, excluded)
    found = None if node is None else _whole(state, chain, node)
    cheapest = fits.cheapest()
    least = max(best[0][0] if best else math.inf for best in cheapest)
    if power <= least + 1e-9:
        # Also if both are infinite: some function fits nowhere.
        return Answer(found, power, True, "one device", 0, time.thread_time() - begin)
    labels = 0
    for step in ("labels", "strict labels"):
        search = _Search(state, need, fits, cheapest, power, step == "strict labels", excluded, labels_max, until)
        other, is_complete = search.run()
        labels += search.count
        if other is None:
            return Answer(found, power, is_complete, step, labels, time.thread_time() - begin)
        embedding = _embedding(state, other)
        if state.obstacle(chain, embedding) is None:
            return Answer(embedding, other.power, is_complete, step, labels, time.thread_time() - begin)
        if not is_complete:
            break
    return Answer(found, power, False, "strict labels", labels, time.thread_time() - begin)


def _whole(state: State, chain: Chain, node: int) -> Embedding:
    name = state.layout.names[node]
    return Embedding((name,) * len(chain.functions), ((name,),) * (len(chain.functions) - 1))


class _Search:
    """Steps 2 and 3."""

    def __init__(
        self,
        state: State,
        need: _Need,
        fits: _Fits,
        cheapest: list[list[tuple[float, int]]],
        cutoff: float,
        is_strict: bool,
        excluded: Collection[tuple[str, ...]],
        labels_max: int,
        until: float,
    ) -> None:
        self.state, self.need, self.fits, self.cheapest = state, need, fits, cheapest
        self.cutoff = cutoff - 1e-9
        self.is_strict = is_strict
        self.excluded = excluded
        self.labels_max, self.until = labels_max, until
        self.count = 0
        """Labels that have been made."""
        self.extended = 0
        self._heap: list[tuple[float, float, int, int, Label]] = []
        self._best: dict[tuple[object, ...], list[Label]] = {}
        self._useful: dict[tuple[int, int], bool] = {}
        layout = state.layout
        worst = max((device.base_us for device in layout.types), default=0.0)
        worst += max(state.obligatory_us.values(), default=0.0) + max(layout.switch_us, default=0.0)
        slowest = max(state.delays.values(), default=0.0)
        # No route between two functions has more nodes than the cloud.
        self._is_loose = len(need.functions) * (slowest + worst * (len(layout.names) + 1)) <= need.bound

    def run(self) -> tuple[Label | None, bool]:
        """Returns the best complete label below the cutoff, and whether the search came to its end."""
        state, need = self.state, self.need
        self._start()
        total = len(need.functions)
        while self._heap:
            _, _, _, _, label = heapq.heappop(self._heap)
            if label.placed == total:
                return label, True
            if self.extended >= self.labels_max or self.count > LABELS_MADE_MAX or time.perf_counter() > self.until:
                return None, False
            self.extended += 1
            if state.layout.is_device(label.node) and not label.is_ready:
                self._place(label)
            if label.placed and (label.is_ready or not state.layout.is_device(label.node) or label.parent is not None):
                self._move(label)
        return None, True

    def _start(self) -> None:
        state, layout = self.state, self.state.layout
        for racks in state.rack_classes.values():
            core = layout.racks[next(iter(racks))].core
            if layout.is_device(core):
                self._start_on(core)
            for units in state.units_at[(core,)].values():
                self._start_in(next(iter(units)))
        for cores in list(state.units_at):
            if len(cores) == 1 and layout.rack_of[cores[0]] >= 0:
                continue
            for units in state.units_at[cores].values():
                self._start_in(next(iter(units)))
        for node in range(len(layout.types)):
            if layout.unit_of[node] < 0 and layout.rack_of[node] < 0:
                self._start_on(node)

    def _start_in(self, unit: int) -> None:
        for node in self.state.layout.units[unit].members:
            self._start_on(node)

    def _start_on(self, node: int) -> None:
        if not self.fits.place(node, 0):
            return
        layout = self.state.layout
        device = layout.types[node]
        unit = layout.unit_of[node]
        rack = layout.rack_of[node] if unit < 0 else layout.rack_of_unit[unit]
        power = 0.0 if self.state.installed[node] else device.power_w
        if power >= self.cutoff:
            return
        activated = frozenset() if self.state.installed[node] else frozenset((node,))
        units = frozenset() if unit < 0 else frozenset((unit,))
        racks = frozenset() if rack < 0 else frozenset((rack,))
        self._place(Label(0, node, False, power, device.base_us, activated, units, racks, {}, (), (node,), None))

    def _place(self, label: Label) -> None:
        """Gives the device one function, two, … as long as they fit together."""
        state, need = self.state, self.need
        node, begin = label.node, label.placed
        device = state.layout.types[node].name
        delay, taken, types = label.delay, label.taken, label.types
        for end in range(begin + 1, len(need.functions) + 1):
            if not self.fits.segment(node, begin, end):
                return
            function = need.functions[end - 1]
            delay += state.delays[device, function.name]
            if delay + need.remaining_us[end] > need.bound:
                return
            if self.is_strict:
                taken = dict(taken)
                if not self._install(taken, node, [function]):
                    return
                for name in function.externs:
                    if not self._take(taken, ("extern", node, name), need.rate, state.extern[node][name], need.externs[name]):
                        return
                if not self._take(taken, ("entries", node), function.entries, state.entries[node], self._entries_max()):
                    return
            if self.excluded:
                types = (*types, device)
                if end == len(need.functions) and types in self.excluded:
                    continue
            self._push(Label(end, node, True, label.power, delay, label.activated, label.units, label.racks, taken, types, (), label))

    def _move(self, label: Label) -> None:
        state, layout, need = self.state, self.state.layout, self.need
        node, number = label.node, label.placed
        # The next function needs another device than this one: one that is affordable, or that the label has activated.
        left = self.cutoff - label.power
        for k in range(number, len(need.functions)):
            others = [power for power, other in self.cheapest[k] if other != node or k > number]
            if others and others[0] < left:
                continue
            if not any(self.fits.place(other, k) for other in label.activated if other != node or k > number):
                return
        delay, taken = label.delay, label.taken
        if layout.is_device(node):
            if not self.fits.leave(node):
                return
            delay += state.obligatory_us[layout.types[node].name]
            if self.is_strict:
                taken = dict(taken)
                if not self._install(taken, node, state.obligatory):
                    return
                if not state.leaving[node] and ("left", node) not in taken:
                    needed = sum(function.entries for function in state.obligatory)
                    if needed:
                        taken["left", node] = 1.0
                        if not self._take(taken, ("entries", node), needed, state.entries[node], self._entries_max()):
                            return
        else:
            delay += layout.switch_us[node]
        if delay + need.base_us[number] + need.remaining_us[number] > need.bound:
            return
        if layout.unit_of[node] >= 0:
            for other, edge in layout.neighbours[node]:
                if layout.unit_of[other] >= 0:
                    self._enter(label, other, edge, (other,), delay, taken, label.units, label.racks)
                else:
                    self._enter_switch(label, other, edge, (other,), delay, taken)
            return
        for cores in state.cores_at.get(node, ()):
            for units in state.units_at[cores].values():
                first = next((unit for unit in units if unit not in label.units), None)
                touched = [unit for unit in label.units if unit in units]
                for unit in touched if first is None else [*touched, first]:
                    if len(cores) == 1 and not self.fits.unit(unit, number):
                        continue
                    for member in layout.units[unit].members:
                        if (node, member) in layout.edges:
                            edge = layout.edges[node, member]
                            self._enter(label, member, edge, (member,), delay, taken, label.units | {unit}, label.racks)
        if self.is_strict:
            for other, edge in layout.neighbours[node]:
                if layout.unit_of[other] < 0:
                    self._enter_switch(label, other, edge, (other,), delay, taken)
        else:
            for route, extra in state.shortcuts(node, need.rate):
                self._enter_switch(label, route[-1], None, route, delay + extra, taken)

    def _enter_switch(self, label: Label, node: int, edge: int | None, route: tuple[int, ...], delay: float, taken: Taken) -> None:
        """Enters a switch, whose rack may be a new one."""
        state = self.state
        racks, rack = label.racks, state.layout.rack_of[node]
        if rack >= 0 and rack not in racks:
            if rack != next(number for number in state.rack_classes[state.rack_class[rack]] if number not in racks):
                return
            racks = racks | {rack}
        self._enter(label, node, edge, route, delay, taken, label.units, racks)

    def _enter(
        self,
        label: Label,
        node: int,
        edge: int | None,
        route: tuple[int, ...],
        delay: float,
        taken: Taken,
        units: frozenset[int],
        racks: frozenset[int],
    ) -> None:
        """Takes a link, or a route whose links have been checked."""
        state, layout, need = self.state, self.state.layout, self.need
        if edge is not None and state.edge_left[edge] < need.rate - RATE_TOLERANCE_GBPS:
            return
        power, activated = label.power, label.activated
        if layout.is_device(node):
            delay += layout.types[node].base_us
            if not state.installed[node] and node not in activated:
                power += layout.types[node].power_w
                activated = activated | {node}
                if power >= self.cutoff:
                    return
            if delay + need.remaining_us[label.placed] > need.bound:
                return
        elif delay + need.base_us[label.placed] + need.remaining_us[label.placed] > need.bound:
            return
        if self.is_strict and edge is not None:
            taken = dict(taken)
            if not self._take(taken, ("edge", edge), need.rate, state.edge_left[edge], need.rate * (len(need.functions) - 1)):
                return
        self._push(Label(label.placed, node, False, power, delay, activated, units, racks, taken, label.types, route, label))

    def _install(self, taken: Taken, node: int, functions: list[Function]) -> bool:
        """Records what a device newly installs, if its size could be exceeded, and whether it is not."""
        state = self.state
        names = {**self.need.distinct, **{function.name: function for function in state.obligatory}}
        if sum(function.size for name, function in names.items() if name not in state.installed[node]) <= state.size[node]:
            return True
        for function in functions:
            if function.name not in state.installed[node]:
                taken["size", node, function.name] = 1.0
        return sum(function.size for name, function in names.items() if ("size", node, name) in taken) <= state.size[node]

    def _take(self, taken: Taken, key: tuple[object, ...], amount: float, left: float, most: float) -> bool:
        """Records what is taken, if it could be exceeded by the whole chain, and whether it is not."""
        if not amount or most <= left:
            return True
        taken[key] = taken.get(key, 0.0) + amount
        return taken[key] <= left + RATE_TOLERANCE_GBPS

    def _entries_max(self) -> int:
        return self.need.entries + sum(function.entries for function in self.state.obligatory)

    def _push(self, label: Label) -> None:
        key = (label.placed, label.node, label.is_ready, label.types)
        others = self._best.get(key)
        if others is None:
            self._best[key] = [label]
        else:
            for other in others:
                if self._dominates(other, label):
                    return
            others[:] = [other for other in others if not self._dominates(label, other)]
            others.append(label)
        self.count += 1
        heapq.heappush(self._heap, (label.power, label.delay, -label.placed, self.count, label))

    def _dominates(self, one: Label, other: Label) -> bool:
        if one.power > other.power + 1e-9 or (one.delay > other.delay + 1e-12 and not self._is_loose):
            return False
        if other.activated and other.activated != one.activated:
            types, extra = self.state.layout.types, 0.0
            for node in other.activated:
                if node not in one.activated and self._is_useful(node, other.placed):
                    extra += types[node].power_w
            if one.power + extra > other.power + 1e-9:
                return False
        if self.is_strict:
            return all(amount <= other.taken.get(key, 0.0) + 1e-12 for key, amount in one.taken.items())
        return True

    def _is_useful(self, node: int, placed: int) -> bool:
        """Whether an activated device can still serve the rest of the chain: as a host of a function, or as a way to one.

        A device in a unit at one switch is a way to the other members of its unit only.
        """
        key = (node, placed)
        found = self._useful.get(key)
        if found is None:
            layout = self.state.layout
            unit = layout.unit_of[node]
            found = unit < 0 or len(layout.units[unit].cores) > 1
            found = found or any(self.fits.unit(unit, number) for number in range(placed, len(self.need.functions)))
            self._useful[key] = found
        return found


def _embedding(state: State, label: Label) -> Embedding:
    names = state.layout.names
    steps: list[Label] = []
    at: Label | None = label
    while at is not None:
        steps.append(at)
        at = at.parent
    devices: list[str] = []
    routes: list[tuple[str, ...]] = []
    route: list[str] = []
    for before, step in zip(steps[::-1], steps[-2::-1]):
        for _ in range(step.placed - before.placed):
            device = names[step.node]
            if devices:
                routes.append(tuple(_simple(route)))
            devices.append(device)
            route = [device]
        route += [names[node] for node in step.route]
    return Embedding(tuple(devices), tuple(routes))


def _simple(route: list[str]) -> list[str]:
    """Returns a route without loops."""
    found: list[str] = []
    for node in route:
        if node in found:
            del found[found.index(node) + 1 :]
        else:
            found.append(node)
    return found
