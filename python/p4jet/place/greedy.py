"""The greedy heuristic of the thesis (§3.19): the whole chain on the first device of a fixed order that has room."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import PlaceError
from .exact import Answer
from .model import DELAY_TOLERANCE_US, RATE_TOLERANCE_GBPS, Chain, DeviceType, Embedding, single_device_us
from .state import State


@dataclass(frozen=True)
class Settings:
    """What the thesis leaves open."""

    size_min: float
    """thr_size: a device with fewer constructs left is not looked at again. The smallest expected chain."""
    rate_min_gbps: float
    """thr_rate: likewise for the rate. The smallest expected throughput."""
    is_rate_per_function: bool
    """Whether a chain charges a device its rate once for each function, and not once."""
    is_shared: bool = True
    """Whether functions of one type on a device need their resources once (Eq. 5.11)."""


def order(types: Mapping[str, DeviceType]) -> list[tuple[str, float]]:
    """Returns the types in the order of power / (rate + constructs), each normalised to 0 … 1 over the types (Eq. 5.32), with that ratio.

    Equal ratios keep the order of the names. A sum of 0 in the denominator gives an infinite ratio, unless the power is 0 too.
    """
    devices = [types[name] for name in sorted(types)]

    def norm(values: list[float]) -> list[float]:
        low, high = min(values), max(values)
        return [(value - low) / (high - low) if high > low else 0.0 for value in values]

    powers = norm([device.power_w for device in devices])
    sums = [one + other for one, other in zip(norm([d.rate_gbps for d in devices]), norm([float(d.constructs) for d in devices]))]
    ratios = [power / total if total else math.inf if power else 0.0 for power, total in zip(powers, sums)]
    return sorted(((device.name, ratio) for device, ratio in zip(devices, ratios)), key=lambda item: item[1])


class Greedy:
    """Embeds chains one by one into a state, which it changes, and keeps its own account of rates and resources."""

    def __init__(self, state: State, settings: Settings) -> None:
        if state.chains:
            raise PlaceError(f"greedy: found {len(state.chains)} chains in the cloud, expected an empty one")
        self.state, self.settings = state, settings
        layout = state.layout
        self.order: list[int] = []
        for name, _ in order(state.cloud.types):
            self.order += [node for node, device in enumerate(layout.types) if device.name == name]
        self._rate = [device.rate_gbps for device in layout.types]
        self._size = [float(device.constructs) for device in layout.types]
        self._extern = [{name: extern.rate_gbps for name, extern in device.externs.items()} for device in layout.types]
        self._entries = list(state.entries)
        self._installed: list[set[str]] = [set() for _ in layout.types]

    def embed(self, chain: Chain) -> Answer:
        """Places a chain and returns where; the additional power is not proven to be the least."""
        begin = time.thread_time()
        state, settings = self.state, self.settings
        functions = [state.functions[name] for name in chain.functions]
        types = {
            name
            for name, device in state.cloud.types.items()
            if all(device.accepts(function) for function in functions)
            and single_device_us(device, functions) <= chain.delay_us + DELAY_TOLERANCE_US
        }
        rate = chain.rate_gbps * (len(functions) if settings.is_rate_per_function else 1)
        entries = sum(function.entries for function in functions)
        externs: dict[str, float] = {}
        for function in functions:
            for name in function.externs:
                externs[name] = externs.get(name, 0.0) + chain.rate_gbps
        for place, node in enumerate(self.order):
            if state.layout.types[node].name not in types or self._rate[node] < rate - RATE_TOLERANCE_GBPS:
                continue
            if any(self._extern[node][name] < wanted - RATE_TOLERANCE_GBPS for name, wanted in externs.items()):
                continue
            if settings.is_shared:
                size = sum(function.size for function in {f.name: f for f in functions}.values() if function.name not in self._installed[node])
            else:
                size = sum(function.size for function in functions)
            if size > self._size[node] or entries > self._entries[node]:
                continue
            self._rate[node] -= rate
            self._size[node] -= size
            self._entries[node] -= entries
            self._installed[node].update(chain.functions)
            for name, wanted in externs.items():
                self._extern[node][name] -= wanted
            if self._size[node] < settings.size_min or self._rate[node] < settings.rate_min_gbps - RATE_TOLERANCE_GBPS:
                del self.order[place]
            device = state.layout.names[node]
            embedding = Embedding((device,) * len(functions), ((device,),) * (len(functions) - 1))
            before = state.power_w
            state.place(chain, embedding)
            return Answer(embedding, state.power_w - before, False, "greedy", 0, time.thread_time() - begin)
        return Answer(None, math.inf, False, "greedy", 0, time.thread_time() - begin)
