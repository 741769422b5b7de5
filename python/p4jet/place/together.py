"""Embeds all chains of a workload together, by counting.

PA-P4SFC-E for a whole workload is out of reach of integer programs beyond small clouds. This method gives a plan and a bound.

* The plan: a program decides how many devices of each type are in use and how many chains of each kind run on them, each chain on one device.
  The chains are then packed onto devices; what does not fit is embedded by the exact method, one by one.
* The bound: a program that places each function of each kind of chain on device types, without delays, links and resources. Every plan, also one that
  splits chains, satisfies its rows, which are those of the thesis summed over the devices of a type. If plan and bound have the same
  power, the plan is optimal.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from dataclasses import dataclass

from .exact import embed
from .lp import Model
from .model import DELAY_TOLERANCE_US, RATE_TOLERANCE_GBPS, Chain, Cloud, DeviceType, Embedding, Plan, Workload, single_device_us
from .state import State


@dataclass(frozen=True)
class Together:
    """A plan for all chains."""

    plan: Plan
    state: State
    power_w: float
    bound_w: float
    """No plan that has all chains has less power; infinite if there is none."""
    seconds: float


def embed_together(cloud: Cloud, workload: Workload, *, seconds: float) -> Together:
    """Embeds the chains of a workload into an empty cloud. Chains without a place are in the plan's `rejected`."""
    begin = time.perf_counter()
    state = State(cloud, workload)
    kinds: defaultdict[tuple[tuple[str, ...], float, float], list[Chain]] = defaultdict(list)
    for chain in workload.chains:
        kinds[chain.functions, chain.rate_gbps, chain.delay_us].append(chain)
    groups = list(kinds.values())
    offer = Counter(device.type for device in cloud.devices.values())
    bound = _bound(cloud, workload, groups, offer, seconds / 2)
    rest = list(workload.chains)
    kinds_left = [list(chains) for chains in groups]
    shares = _shares(cloud, workload, groups, offer, seconds / 2)
    if shares is not None:
        rest = []
        for name, (bought, counts) in shares.items():
            devices = [device for device in cloud.devices if cloud.devices[device].type == name][:bought]
            left = {device: cloud.types[name].rate_gbps for device in devices}
            # Greatest rate first, onto the emptiest device.
            for g in sorted(range(len(groups)), key=lambda g: -groups[g][0].rate_gbps):
                for _ in range(counts[g]):
                    chain = kinds_left[g].pop()
                    for device in sorted(devices, key=lambda device: -left[device]):
                        embedding = Embedding((device,) * len(chain.functions), ((device,),) * (len(chain.functions) - 1))
                        if state.obstacle(chain, embedding) is None:
                            state.place(chain, embedding)
                            left[device] -= chain.rate_gbps
                            break
                    else:
                        rest.append(chain)
    rejected = []
    for chain in rest:
        if chain.name in state.chains:
            continue
        answer = embed(state, chain, seconds=seconds)
        if answer.embedding is None:
            rejected.append(chain.name)
        else:
            state.place(chain, answer.embedding)
    plan = state.plan(workload.name, "together")
    plan.rejected = rejected
    plan.proven = not rejected and state.power_w <= bound + 1e-6
    return Together(plan, state, state.power_w, bound, time.perf_counter() - begin)


def _multiple(capacity: float, rates: list[float]) -> float:
    """If all rates are equal, only a whole multiple of them can be used."""
    if len(set(rates)) != 1:
        return capacity
    return math.floor(capacity / rates[0] + RATE_TOLERANCE_GBPS) * rates[0]


def _bound(cloud: Cloud, workload: Workload, groups: list[list[Chain]], offer: Counter[str], seconds: float) -> float:
    model = Model()
    gain = _gain(cloud, workload)
    used = {name: model.add(f"N[{name}]", cost=cloud.types[name].power_w, high=count) for name, count in offer.items()}
    placed: dict[tuple[str, int, int], int] = {}
    for g, chains in enumerate(groups):
        for k, function in enumerate(chains[0].functions):
            for name in offer:
                device = cloud.types[name]
                fits = device.accepts(workload.functions[function])
                if fits:
                    # Even alone it could be too slow there.
                    alone = device.base_us + device.function_us(workload.functions[function])
                    fits = alone <= chains[0].delay_us + DELAY_TOLERANCE_US + gain
                placed[name, g, k] = model.add(f"m[{name},{g},{k}]", high=len(chains) if fits else 0)
            model.row("5.6", f"place[{g},{k}]", [(placed[name, g, k], 1.0) for name in offer], low=len(chains), high=len(chains))
    for name in offer:
        device = cloud.types[name]
        for group, place in (("5.26", 0), ("5.27", -1)):
            capacity = _multiple(device.rate_gbps, [chains[0].rate_gbps for chains in groups])
            terms = [(placed[name, g, len(c[0].functions) - 1 if place else 0], c[0].rate_gbps) for g, c in enumerate(groups)]
            model.row(group, f"{group}[{name}]", [*terms, (used[name], -capacity)], high=RATE_TOLERANCE_GBPS)
        for extern, data in device.externs.items():
            users = [
                (g, k)
                for g, chains in enumerate(groups)
                for k, function in enumerate(chains[0].functions)
                if extern in workload.functions[function].externs
            ]
            if users:
                capacity = _multiple(data.rate_gbps, [groups[g][0].rate_gbps for g, _ in users])
                terms = [(placed[name, g, k], groups[g][0].rate_gbps) for g, k in users]
                model.row("5.14", f"{extern}[{name}]", [*terms, (used[name], -capacity)], high=RATE_TOLERANCE_GBPS)
        if device.entries is not None:
            terms = [(placed[name, g, k], float(workload.functions[f].entries)) for g, c in enumerate(groups) for k, f in enumerate(c[0].functions)]
            model.row("5.12", f"entries[{name}]", [*terms, (used[name], -float(device.entries))], high=1e-9)
        for g, chains in enumerate(groups):
            for k in range(len(chains[0].functions)):
                model.row("5.17", f"use[{name},{g},{k}]", [(placed[name, g, k], 1.0), (used[name], -float(len(chains)))], high=0)
    solution = model.solve(seconds=seconds)
    if solution.status == "infeasible":
        return math.inf
    return solution.bound


def _gain(cloud: Cloud, workload: Workload) -> float:
    """Returns by how much negative delays of other functions could at most help."""
    least = min(
        (device.function_us(f) for device in cloud.types.values() for f in workload.functions.values() if device.accepts(f)), default=0.0
    )
    longest = max((len(chain.functions) for chain in workload.chains), default=0)
    return max(0.0, -least) * longest


def _shares(
    cloud: Cloud, workload: Workload, groups: list[list[Chain]], offer: Counter[str], seconds: float
) -> dict[str, tuple[int, list[int]]] | None:
    """Returns, for each type, the number of devices and of chains of each kind on them; ``None`` if whole chains do not fit."""
    model = Model()
    used = {name: model.add(f"N[{name}]", cost=cloud.types[name].power_w, high=count) for name, count in offer.items()}
    counts: dict[tuple[str, int], int] = {}
    for g, chains in enumerate(groups):
        for name in offer:
            counts[name, g] = model.add(f"m[{name},{g}]", high=len(chains) if _fits(cloud.types[name], workload, chains[0]) else 0)
        model.row("5.6", f"place[{g}]", [(counts[name, g], 1.0) for name in offer], low=len(chains), high=len(chains))
    for name in offer:
        device = cloud.types[name]
        terms = [(counts[name, g], chains[0].rate_gbps) for g, chains in enumerate(groups)]
        capacity = _multiple(device.rate_gbps, [chains[0].rate_gbps for chains in groups])
        model.row("5.26", f"ingress[{name}]", [*terms, (used[name], -capacity)], high=RATE_TOLERANCE_GBPS)
        for extern, data in device.externs.items():
            loads = [c[0].rate_gbps * sum(extern in workload.functions[f].externs for f in c[0].functions) for c in groups]
            if any(loads):
                capacity = _multiple(data.rate_gbps, [load for load in loads if load])
                terms = [(counts[name, g], load) for g, load in enumerate(loads)]
                model.row("5.14", f"{extern}[{name}]", [*terms, (used[name], -capacity)], high=RATE_TOLERANCE_GBPS)
        if device.entries is not None:
            terms = [(counts[name, g], float(sum(workload.functions[f].entries for f in c[0].functions))) for g, c in enumerate(groups)]
            model.row("5.12", f"entries[{name}]", [*terms, (used[name], -float(device.entries))], high=1e-9)
    solution = model.solve(seconds=seconds)
    if not solution.values:
        return None
    return {
        name: (round(solution.values[used[name]]), [round(solution.values[counts[name, g]]) for g in range(len(groups))]) for name in offer
    }


def _fits(device: DeviceType, workload: Workload, chain: Chain) -> bool:
    functions = [workload.functions[name] for name in chain.functions]
    return (
        all(device.accepts(function) for function in functions)
        and sum(function.size for function in {f.name: f for f in functions}.values()) <= device.constructs
        and single_device_us(device, functions) <= chain.delay_us + DELAY_TOLERANCE_US
    )
