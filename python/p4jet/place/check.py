"""Checks plans against every constraint of the thesis. Shares no code with the methods that make plans.

Delays, sizes and sums are computed here again from the data, in plain loops.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from .model import DELAY_TOLERANCE_US, RATE_TOLERANCE_GBPS, Chain, Cloud, DeviceType, Embedding, Function, Plan, Workload


@dataclass(frozen=True)
class Violation:
    """A constraint that a plan breaks."""

    equation: str
    place: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"Eq. {self.equation}, {self.place}: found {self.found}, expected {self.expected}"


def processing_us(device: DeviceType, function: Function) -> float:
    """Returns Δ_d^y (Eq. 5.1), like :meth:`DeviceType.function_us` but by its own means."""
    total = 0.0
    for construct, count in function.counts.items():
        beyond = count - 1 if construct in ("parse", "table") and count > 0 else count
        corrections = [rule for rule in device.rules if rule.construct == construct]
        for number in range(1, beyond + 1):
            each = device.cost_us[construct]
            for rule in corrections:
                if rule.each_us is not None and number > rule.above:
                    each = rule.each_us
            total += each
        for rule in corrections:
            if rule.once_us is not None and beyond > rule.above:
                total += rule.once_us
    return total + sum(device.externs[name].latency_us for name in function.externs)


def delay_us(cloud: Cloud, workload: Workload, chain: Chain, embedding: Embedding) -> float:
    """Returns the delay of an embedded chain (Eq. 5.19)."""
    total = cloud.type_of(embedding.devices[0]).base_us
    for device, name in zip(embedding.devices, chain.functions):
        total += processing_us(cloud.type_of(device), workload.functions[name])
    for route in embedding.routes:
        for one, other in zip(route, route[1:]):
            if one in cloud.switches:
                total += cloud.switches[one].delay_us
            else:
                for name in workload.obligatory:
                    total += processing_us(cloud.type_of(one), workload.functions[name])
            if other in cloud.devices:
                total += cloud.type_of(other).base_us
    return total


def power_w(cloud: Cloud, plan: Plan) -> float:
    """Returns the power of all devices in use (Eq. 5.23): those with functions, and those that a chain crosses."""
    return sum(cloud.type_of(device).power_w for device in used_devices(cloud, plan))


def used_devices(cloud: Cloud, plan: Plan) -> set[str]:
    """Returns the devices of the cloud that a plan uses, whatever else it names."""
    used = set(plan.instances.values())
    for embedding in plan.chains.values():
        used.update(embedding.devices)
        for route in embedding.routes:
            used.update(route)
    return used & cloud.devices.keys()


def violations(cloud: Cloud, workload: Workload, plan: Plan, *, budget_usd: float | None = None) -> list[Violation]:
    """Returns every broken constraint: of PA-P4SFC-E for the chains of a plan, of PA-P4VNF-RA for its instances."""
    found: list[Violation] = []
    chains = {chain.name: chain for chain in workload.chains}
    for name in sorted({*plan.chains, *plan.rejected} - chains.keys()):
        found.append(Violation("5.6", f"chain {name}", "a chain that the workload lacks", "chains of the workload"))
    for name in plan.rejected:
        if name in plan.chains:
            found.append(Violation("5.6", f"chain {name}", "both a place and a rejection", "one of them"))
    sound = {}
    for name, embedding in plan.chains.items():
        if name in chains:
            faults = _shape(cloud, workload, chains[name], embedding)
            found += faults
            if not faults:
                sound[name] = embedding
    found += _chains(cloud, workload, chains, sound)
    if plan.instances or workload.instances:
        found += _instances(cloud, workload, plan, budget_usd)
    return found


def _shape(cloud: Cloud, workload: Workload, chain: Chain, embedding: Embedding) -> list[Violation]:
    """Placement, flow and loops of one chain: 5.6, 5.28, 5.29."""
    found = []
    place = f"chain {chain.name}"
    if len(embedding.devices) != len(chain.functions):
        return [Violation("5.6", place, f"{len(embedding.devices)} devices", f"{len(chain.functions)}, one for each function")]
    for device in embedding.devices:
        if device not in cloud.devices:
            found.append(Violation("5.6", place, f"a function on {device}", "a programmable device of the cloud"))
    if len(embedding.routes) != len(chain.functions) - 1:
        found.append(Violation("5.28", place, f"{len(embedding.routes)} routes", f"{len(chain.functions) - 1}"))
    if found:
        return found
    joined = {(link.one, link.other) for link in cloud.links} | {(link.other, link.one) for link in cloud.links}
    for number, route in enumerate(embedding.routes):
        ends = (embedding.devices[number], embedding.devices[number + 1])
        if not route or (route[0], route[-1]) != ends:
            found.append(Violation("5.28", f"{place}, link {number}", f"a route {' '.join(route)}", f"one from {ends[0]} to {ends[1]}"))
            continue
        hops = list(zip(route, route[1:]))
        for hop in hops:
            if hop not in joined:
                found.append(Violation("5.28", f"{place}, link {number}", f"a hop {hop[0]} – {hop[1]}", "links of the cloud"))
            if hops.count(hop) > 1 or (hop[1], hop[0]) in hops:
                found.append(Violation("5.29", f"{place}, link {number}", f"{hop[0]} – {hop[1]} twice", "each link once, in one direction"))
    return found


def _chains(cloud: Cloud, workload: Workload, chains: dict[str, Chain], embeddings: dict[str, Embedding]) -> list[Violation]:
    found = []
    ingress: defaultdict[str, float] = defaultdict(float)
    egress: defaultdict[str, float] = defaultdict(float)
    extern: defaultdict[tuple[str, str], float] = defaultdict(float)
    carried: defaultdict[tuple[str, str], float] = defaultdict(float)
    installed: defaultdict[str, set[str]] = defaultdict(set)
    entries: defaultdict[str, int] = defaultdict(int)
    left: set[str] = set()
    for name, embedding in embeddings.items():
        chain = chains[name]
        ingress[embedding.devices[0]] += chain.rate_gbps
        egress[embedding.devices[-1]] += chain.rate_gbps
        for device, function in zip(embedding.devices, chain.functions):
            installed[device].add(function)
            entries[device] += workload.functions[function].entries
            for used in workload.functions[function].externs:
                extern[device, used] += chain.rate_gbps
        for route in embedding.routes:
            for hop in zip(route, route[1:]):
                carried[hop] += chain.rate_gbps
                if hop[0] in cloud.devices:
                    left.add(hop[0])
    for device in left:
        for function in workload.obligatory:
            installed[device].add(function)
            entries[device] += workload.functions[function].entries
            for used in workload.functions[function].externs:
                extern[device, used] += 0.0
    for device, functions in installed.items():
        found += _capabilities(cloud, workload, device, functions)
        limit = cloud.type_of(device)
        size = sum(sum(workload.functions[function].counts.values()) for function in functions)
        if size > limit.constructs:
            found.append(Violation("5.11", device, f"{size} constructs", f"at most {limit.constructs}"))
        if limit.entries is not None and entries[device] > limit.entries:
            found.append(Violation("5.12", device, f"{entries[device]} table entries", f"at most {limit.entries}"))
    for equation, rates in (("5.26", ingress), ("5.27", egress)):
        for device, rate in rates.items():
            found += _rate(equation, device, rate, cloud.type_of(device).rate_gbps)
    for (device, name), rate in extern.items():
        if name in cloud.type_of(device).externs:
            found += _rate("5.14", f"{device}, extern {name}", rate, cloud.type_of(device).externs[name].rate_gbps)
    capacity = {}
    for link in cloud.links:
        capacity[link.one, link.other] = capacity[link.other, link.one] = link.rate_gbps
    for hop, rate in carried.items():
        found += _rate("5.30", f"link {hop[0]} → {hop[1]}", rate, capacity[hop])
    for name, embedding in embeddings.items():
        if any(v.equation == "5.10" for v in found):
            continue  # Without an extern there is no delay.
        delay = delay_us(cloud, workload, chains[name], embedding)
        if delay > chains[name].delay_us + DELAY_TOLERANCE_US:
            found.append(Violation("5.31", f"chain {name}", f"{delay:.3f} µs", f"at most {chains[name].delay_us:g} µs"))
    return found


def _instances(cloud: Cloud, workload: Workload, plan: Plan, budget_usd: float | None) -> list[Violation]:
    found = []
    known = {instance.name: instance for instance in workload.instances}
    for name in known.keys() ^ plan.instances.keys():
        found.append(Violation("5.6", f"instance {name}", "no place" if name in known else "a place", "each of the workload's, once"))
    rates: defaultdict[str, float] = defaultdict(float)
    sizes: defaultdict[str, int] = defaultdict(int)
    entries: defaultdict[str, int] = defaultdict(int)
    extern: defaultdict[tuple[str, str], float] = defaultdict(float)
    functions: defaultdict[str, set[str]] = defaultdict(set)
    for name, device in plan.instances.items():
        if device not in cloud.devices:
            found.append(Violation("5.6", f"instance {name}", f"device {device}", "a programmable device of the cloud"))
            continue
        if name not in known:
            continue
        function = workload.functions[known[name].function]
        rates[device] += known[name].rate_gbps
        functions[device].add(function.name)
        # The thesis takes the functions as distinct: sizes add up even for equal ones.
        sizes[device] += sum(function.counts.values())
        entries[device] += function.entries
        for used in function.externs:
            extern[device, used] += known[name].rate_gbps
    for device in list(functions):
        for name in workload.obligatory:
            function = workload.functions[name]
            functions[device].add(name)
            rates[device] += workload.obligatory_rate_gbps
            sizes[device] += sum(function.counts.values())
            entries[device] += function.entries
            for used in function.externs:
                extern[device, used] += workload.obligatory_rate_gbps
        limit = cloud.type_of(device)
        found += _capabilities(cloud, workload, device, functions[device])
        if sizes[device] > limit.constructs:
            found.append(Violation("5.11", device, f"{sizes[device]} constructs", f"at most {limit.constructs}"))
        if limit.entries is not None and entries[device] > limit.entries:
            found.append(Violation("5.12", device, f"{entries[device]} table entries", f"at most {limit.entries}"))
        found += _rate("5.13", device, rates[device], limit.rate_gbps)
    for (device, name), rate in extern.items():
        if name in cloud.type_of(device).externs:
            found += _rate("5.14", f"{device}, extern {name}", rate, cloud.type_of(device).externs[name].rate_gbps)
    if budget_usd is not None:
        cost = sum(cloud.type_of(device).price_usd for device in functions)
        if cost > budget_usd + 1e-6:
            found.append(Violation("5.15", "cloud", f"$ {cost:g}", f"at most $ {budget_usd:g}"))
    return found


def _capabilities(cloud: Cloud, workload: Workload, device: str, functions: set[str]) -> list[Violation]:
    found = []
    limit = cloud.type_of(device)
    for name in sorted(functions):
        function = workload.functions[name]
        if not limit.architectures & function.architectures:
            wanted = " or ".join(sorted(function.architectures))
            found.append(Violation("5.9", f"{device}, function {name}", f"architecture {', '.join(sorted(limit.architectures))}", wanted))
        for used in sorted(function.externs - limit.externs.keys()):
            found.append(Violation("5.10", f"{device}, function {name}", f"no extern {used}", "a device that has it"))
    return found


def _rate(equation: str, place: str, found: float, limit: float) -> list[Violation]:
    if found <= limit + RATE_TOLERANCE_GBPS * max(1.0, limit):
        return []
    return [Violation(equation, place, f"{found:g} Gbit/s", f"at most {limit:g} Gbit/s")]
