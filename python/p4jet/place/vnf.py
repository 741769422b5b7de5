"""PA-P4VNF-RA: which devices to buy for single functions, and where to put them (§3.16, Eqs. 5.2 to 5.17).

:func:`program` is the integer linear program as the thesis writes it, with one column for each instance and device. :func:`plan` solves the same
problem by counting: instances of one function with one rate are interchangeable, and so are devices of one type.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from .errors import PlaceError
from .lp import Conflict, Model, Solution
from .model import RATE_TOLERANCE_GBPS, Cloud, DeviceType, Function, Plan, Workload

GROUPS = {
    "5.6": "each instance has one device",
    "5.9": "architecture",
    "5.10": "externs",
    "5.8": "a type is installed where one of its functions is",
    "5.11": "processing resources",
    "5.12": "table entries",
    "5.13": "throughput",
    "5.14": "extern throughput",
    "5.15": "budget",
    "5.16": "devices in use have functions",
    "5.17": "devices with functions are in use",
}


@dataclass(frozen=True)
class Goal:
    """The objective µ·𝔻 / 𝔻max + ε·ℂ / ℂmax (Eq. 5.5)."""

    mu: float
    epsilon: float
    delay_max_us: float = 1.0
    """By which 𝔻 is divided; the thesis records maxima. With ε = 0 it changes nothing."""
    cost_max_usd: float = 1.0
    budget_usd: float | None = None


@dataclass(frozen=True)
class Purchase:
    """A plan for instances, and what it costs."""

    plan: Plan | None
    """``None`` if there is none, or none was found in time."""
    delay_us: float
    """𝔻: of all instances and obligatory functions."""
    cost_usd: float
    """ℂ."""
    objective: float
    bound: float
    """No plan has a smaller objective."""
    devices: dict[str, int]
    """Devices in use of each type."""
    seconds: float

    @property
    def is_proven(self) -> bool:
        """Whether no plan has a smaller objective; without a plan, whether there is none."""
        return self.bound == math.inf if self.plan is None else self.objective <= self.bound + 1e-9 * max(1.0, abs(self.bound))


def program(cloud: Cloud, workload: Workload, goal: Goal, *, is_distinct: bool = True) -> tuple[Model, dict[tuple[str, str], int]]:
    """Returns the model and its columns α by instance and device.

    With `is_distinct` equal functions on one device need their resources each, like in the thesis's evaluation; without, a type counts
    once (Eq. 5.11).
    """
    model = Model()
    _check(workload)
    required = [workload.functions[name] for name in workload.obligatory]
    alpha: dict[tuple[str, str], int] = {}
    used: dict[str, int] = {}
    for device in cloud.devices:
        kind = cloud.type_of(device)
        price = goal.epsilon * kind.price_usd / goal.cost_max_usd
        delay = sum(_delay(kind, function) for function in required)
        used[device] = model.add(f"x[{device}]", cost=price + goal.mu * delay / goal.delay_max_us)
        for instance in workload.instances:
            delay = _delay(kind, workload.functions[instance.function])
            alpha[instance.name, device] = model.add(f"alpha[{instance.name},{device}]", cost=goal.mu * delay / goal.delay_max_us)
    for instance in workload.instances:
        model.row("5.6", f"place[{instance.name}]", ((alpha[instance.name, d], 1.0) for d in cloud.devices), low=1, high=1)
    for device in cloud.devices:
        kind, x = cloud.type_of(device), used[device]
        for function in required:
            _accept(model, kind, function, x, device)
        sizes: list[tuple[int, float]] = []
        if is_distinct:
            sizes = [(alpha[i.name, device], float(workload.functions[i.function].size)) for i in workload.instances]
            sizes.append((x, float(sum(function.size for function in required))))
            for instance in workload.instances:
                _accept(model, kind, workload.functions[instance.function], alpha[instance.name, device], device)
        else:
            for name in dict.fromkeys([*(i.function for i in workload.instances), *workload.obligatory]):
                pi = model.add(f"pi[{name},{device}]")
                sizes.append((pi, float(workload.functions[name].size)))
                _accept(model, kind, workload.functions[name], pi, device)
                for instance in workload.instances:
                    if instance.function == name:
                        terms = [(alpha[instance.name, device], 1.0), (pi, -1.0)]
                        model.row("5.8", f"type[{instance.name},{device}]", terms, high=0)
                if name in workload.obligatory:
                    model.row("5.8", f"type[required,{name},{device}]", [(x, 1.0), (pi, -1.0)], high=0)
        model.row("5.11", f"resources[{device}]", sizes, high=kind.constructs)
        if kind.entries is not None:
            terms = [(alpha[i.name, device], float(workload.functions[i.function].entries)) for i in workload.instances]
            terms.append((x, float(sum(function.entries for function in required))))
            model.row("5.12", f"entries[{device}]", terms, high=kind.entries)
        terms = [(alpha[i.name, device], i.rate_gbps) for i in workload.instances]
        terms.append((x, workload.obligatory_rate_gbps * len(required)))
        model.row("5.13", f"throughput[{device}]", terms, high=kind.rate_gbps)
        for name, extern in kind.externs.items():
            terms = [(alpha[i.name, device], i.rate_gbps) for i in workload.instances if name in workload.functions[i.function].externs]
            terms += [(x, workload.obligatory_rate_gbps) for function in required if name in function.externs]
            if terms:
                model.row("5.14", f"extern[{name},{device}]", terms, high=extern.rate_gbps)
        every = [(alpha[i.name, device], 1.0) for i in workload.instances]
        model.row("5.16", f"idle[{device}]", [(x, 1.0), *((column, -1.0) for column, _ in every)], high=0)
        # Eq. 5.17 for each instance and not with one great M: the same whole numbers, a tighter relaxation.
        for column, _ in every:
            model.row("5.17", f"use[{model.names[column]}]", [(column, 1.0), (x, -1.0)], high=0)
    if goal.budget_usd is not None:
        model.row("5.15", "budget", ((used[d], cloud.type_of(d).price_usd) for d in cloud.devices), high=goal.budget_usd)
    return model, alpha


def solve(cloud: Cloud, workload: Workload, goal: Goal, *, seconds: float, is_distinct: bool = True) -> tuple[Purchase, Solution]:
    """Solves the program of :func:`program`."""
    model, alpha = program(cloud, workload, goal, is_distinct=is_distinct)
    solution = model.solve(seconds=seconds)
    places = {}
    if solution.values:
        places = {instance: device for (instance, device), column in alpha.items() if solution.values[column] > 0.5}
    bound = math.inf if solution.status == "infeasible" else solution.bound
    return _purchase(cloud, workload, goal, places if solution.values else None, bound, "vnf-ilp", solution.seconds), solution


@dataclass(frozen=True)
class _Group:
    """Interchangeable instances."""

    function: Function
    rate_gbps: float
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Limit:
    """A resource of a device type: what is there besides obligatory functions, and what one instance of each group takes."""

    name: str
    capacity: float
    needs: tuple[float, ...]


def plan(cloud: Cloud, workload: Workload, goal: Goal, *, seconds: float) -> Purchase:
    """Solves the problem with distinct functions by counting.

    1. A relaxation decides how many devices of each type are bought, N_t, and how many instances of each group they get in total. It has the
       constraints of the thesis summed over the devices of a type, so its value is a bound for every plan.
    2. The instances are packed onto the devices one by one, those with the largest needs first. If they fit, the plan has the value of the bound
       and is optimal.
    3. If not, a program with the number of instances of each group on each device, with devices of one type in descending order of use, decides
       exactly: exchanging devices of a type or instances of a group changes no constraint and no value.
    """
    begin = time.perf_counter()
    groups, offer, limits = _problem(cloud, workload)
    model, bought, shares = _relaxation(cloud, workload, goal, groups, offer, limits)
    solution = model.solve(seconds=seconds)
    if solution.status == "infeasible":
        return Purchase(None, math.inf, math.inf, math.inf, math.inf, {}, time.perf_counter() - begin)
    if solution.status != "optimal":
        return Purchase(None, math.inf, math.inf, math.inf, solution.bound, {}, time.perf_counter() - begin)
    counts = {name: [round(solution.values[column]) for column in shares[name]] for name in offer}
    packed: dict[str, list[list[int]]] | None = {}
    for name in offer:
        devices = _pack(limits[name], counts[name], round(solution.values[bought[name]]))
        if devices is None:
            packed = None
            break
        packed[name] = devices  # type: ignore[index]
    bound = solution.objective
    if packed is None:
        left = max(0.1, seconds - (time.perf_counter() - begin))
        packed, bound = _exact(cloud, workload, goal, groups, offer, limits, left)
    places = None
    if packed is not None:
        names = [list(group.names) for group in groups]
        places = {
            names[g].pop(): device
            for kind, devices in packed.items()
            for device, numbers in zip(offer[kind], devices)
            for g, number in enumerate(numbers)
            for _ in range(number)
        }
    return _purchase(cloud, workload, goal, places, bound, "vnf-counting", time.perf_counter() - begin)


def explain(cloud: Cloud, workload: Workload, goal: Goal, *, seconds: float) -> Conflict:
    """Says why there is no plan with distinct functions: from the relaxation, if that has no solution, else from the exact program."""
    # Not rounded: the amounts are those of the devices then.
    groups, offer, limits = _problem(cloud, workload, is_rounded=False)
    model, _, _ = _relaxation(cloud, workload, goal, groups, offer, limits)
    if model.solve(seconds=seconds).status == "infeasible":
        return model.conflict(seconds=seconds)
    return program(cloud, workload, goal)[0].conflict(seconds=seconds)


def _problem(
    cloud: Cloud, workload: Workload, *, is_rounded: bool = True
) -> tuple[list[_Group], dict[str, list[str]], dict[str, list[_Limit]]]:
    """Returns the groups of instances, the devices of each type that can have obligatory functions, and their limits."""
    _check(workload)
    groups = _groups(workload)
    offer: dict[str, list[str]] = {}
    for device in cloud.devices:
        offer.setdefault(cloud.devices[device].type, []).append(device)
    limits = {name: _limits(cloud.types[name], workload, groups) for name in offer}
    if is_rounded:
        limits = {name: [_rounded(limit) for limit in found] for name, found in limits.items()}
    usable = {
        name: devices
        for name, devices in offer.items()
        if all(limit.capacity >= 0 for limit in limits[name])
        and all(cloud.types[name].accepts(workload.functions[required]) for required in workload.obligatory)
    }
    return groups, usable, limits


def maxima(cloud: Cloud, workload: Workload, *, seconds: float) -> tuple[float, float]:
    """Returns 𝔻max and ℂmax for Eq. 5.5: the delay of the cheapest plan, and the cost of the fastest.

    The thesis does not say what it recorded.
    """
    cheapest = plan(cloud, workload, Goal(0, 1), seconds=seconds)
    fastest = plan(cloud, workload, Goal(1, 0), seconds=seconds)
    if cheapest.plan is None or fastest.plan is None:
        raise PlaceError(f"workload {workload.name}: found no plan, expected one; more devices on offer may help")
    return cheapest.delay_us, fastest.cost_usd


def _check(workload: Workload) -> None:
    if not workload.instances:
        raise PlaceError(f"workload {workload.name}: found no instances, expected at least one for PA-P4VNF-RA")


def _delay(kind: DeviceType, function: Function) -> float:
    # Base delay once for each function (Eq. 5.2). What the type does not accept is excluded by rows.
    return kind.base_us + kind.function_us(function) if kind.accepts(function) else 0.0


def _accept(model: Model, kind: DeviceType, function: Function, column: int, device: str) -> None:
    if not kind.architectures & function.architectures:
        model.row("5.9", f"architecture[{function.name},{device},{column}]", [(column, 1.0)], high=0)
    lacking = len(function.externs - kind.externs.keys())
    if lacking:
        model.row("5.10", f"externs[{function.name},{device},{column}]", [(column, float(lacking))], high=0)


def _groups(workload: Workload) -> list[_Group]:
    found: defaultdict[tuple[str, float], list[str]] = defaultdict(list)
    for instance in workload.instances:
        found[instance.function, instance.rate_gbps].append(instance.name)
    return [_Group(workload.functions[name], rate, tuple(names)) for (name, rate), names in found.items()]


def _limits(kind: DeviceType, workload: Workload, groups: list[_Group]) -> list[_Limit]:
    required = [workload.functions[name] for name in workload.obligatory]
    rate = workload.obligatory_rate_gbps
    found = [
        _Limit("5.11", kind.constructs - sum(f.size for f in required), tuple(float(group.function.size) for group in groups)),
        _Limit("5.13", kind.rate_gbps - rate * len(required), tuple(group.rate_gbps for group in groups)),
    ]
    if kind.entries is not None:
        needs = tuple(float(group.function.entries) for group in groups)
        found.append(_Limit("5.12", kind.entries - sum(f.entries for f in required), needs))
    for name, extern in kind.externs.items():
        needs = tuple(group.rate_gbps if name in group.function.externs else 0.0 for group in groups)
        found.append(_Limit("5.14", extern.rate_gbps - rate * sum(name in f.externs for f in required), needs))
    return found


def _rounded(limit: _Limit) -> _Limit:
    """If all needs are equal, only whole multiples of them can be used: 3.3 Gbit/s are 3 of 1 Gbit/s."""
    needs = {need for need in limit.needs if need}
    if len(needs) != 1 or limit.capacity < 0:
        return limit
    (need,) = needs
    return _Limit(limit.name, math.floor(limit.capacity / need + RATE_TOLERANCE_GBPS) * need, limit.needs)


def _relaxation(
    cloud: Cloud, workload: Workload, goal: Goal, groups: list[_Group], offer: dict[str, list[str]], limits: dict[str, list[_Limit]]
) -> tuple[Model, dict[str, int], dict[str, list[int]]]:
    model = Model()
    bought: dict[str, int] = {}
    shares: dict[str, list[int]] = {}
    for name, devices in offer.items():
        kind = cloud.types[name]
        bought[name] = model.add(f"N[{name}]", cost=_price(kind, workload, goal), high=len(devices))
        shares[name] = []
        for g, group in enumerate(groups):
            most = len(group.names) if kind.accepts(group.function) else 0
            shares[name].append(model.add(f"m[{name},{g}]", cost=goal.mu * _delay(kind, group.function) / goal.delay_max_us, high=most))
        for limit in limits[name]:
            terms = [(column, need) for column, need in zip(shares[name], limit.needs)]
            model.row(limit.name, f"{limit.name}[{name}]", [*terms, (bought[name], -limit.capacity)], high=RATE_TOLERANCE_GBPS)
        model.row("5.16", f"idle[{name}]", [(bought[name], 1.0), *((column, -1.0) for column in shares[name])], high=0)
    for g, group in enumerate(groups):
        model.row("5.6", f"place[{g}]", [(shares[name][g], 1.0) for name in offer], low=len(group.names), high=len(group.names))
    if goal.budget_usd is not None:
        model.row("5.15", "budget", [(bought[name], cloud.types[name].price_usd) for name in offer], high=goal.budget_usd)
    return model, bought, shares


def _price(kind: DeviceType, workload: Workload, goal: Goal) -> float:
    delay = sum(_delay(kind, workload.functions[name]) for name in workload.obligatory)
    return goal.epsilon * kind.price_usd / goal.cost_max_usd + goal.mu * delay / goal.delay_max_us


def _pack(limits: list[_Limit], counts: list[int], devices: int) -> list[list[int]] | None:
    """Packs instances onto devices; ``None`` if this way fails. Each device gets at least one instance."""
    if not devices:
        return None if any(counts) else []
    found = [[0] * len(counts) for _ in range(devices)]
    left = [[limit.capacity for limit in limits] for _ in range(devices)]

    def weight(g: int) -> float:
        return max((limit.needs[g] / limit.capacity for limit in limits if limit.capacity > 0), default=0.0)

    for g in sorted(range(len(counts)), key=weight, reverse=True):
        for _ in range(counts[g]):
            needs = [limit.needs[g] for limit in limits]
            fits = [d for d in range(devices) if all(n <= free + RATE_TOLERANCE_GBPS for n, free in zip(needs, left[d]))]
            if not fits:
                return None
            # The emptiest device: loads stay even, in every resource.
            best = max(fits, key=lambda d: min(free / limit.capacity if limit.capacity > 0 else 1.0 for free, limit in zip(left[d], limits)))
            found[best][g] += 1
            left[best] = [free - n for n, free in zip(needs, left[best])]
    return found if all(any(device) for device in found) else None


def _exact(
    cloud: Cloud, workload: Workload, goal: Goal, groups: list[_Group], offer: dict[str, list[str]], limits: dict[str, list[_Limit]], seconds: float
) -> tuple[dict[str, list[list[int]]] | None, float]:
    model = Model()
    numbers: dict[str, list[list[int]]] = {}
    used: dict[str, list[int]] = {}
    for name, devices in offer.items():
        kind = cloud.types[name]
        used[name] = [model.add(f"x[{name},{d}]", cost=_price(kind, workload, goal)) for d in range(len(devices))]
        numbers[name] = []
        for d in range(len(devices)):
            columns = []
            for g, group in enumerate(groups):
                most = len(group.names) if kind.accepts(group.function) else 0
                columns.append(model.add(f"n[{name},{d},{g}]", cost=goal.mu * _delay(kind, group.function) / goal.delay_max_us, high=most))
            numbers[name].append(columns)
            for limit in limits[name]:
                terms = [(column, need) for column, need in zip(columns, limit.needs)]
                model.row(limit.name, f"{limit.name}[{name},{d}]", [*terms, (used[name][d], -limit.capacity)], high=RATE_TOLERANCE_GBPS)
            for g, column in enumerate(columns):
                model.row("5.17", f"use[{name},{d},{g}]", [(column, 1.0), (used[name][d], -float(len(groups[g].names)))], high=0)
            model.row("5.16", f"idle[{name},{d}]", [(used[name][d], 1.0), *((column, -1.0) for column in columns)], high=0)
            if d:
                model.row("order", f"order[{name},{d}]", [(used[name][d], 1.0), (used[name][d - 1], -1.0)], high=0)
    for g, group in enumerate(groups):
        terms = [(columns[g], 1.0) for name in offer for columns in numbers[name]]
        model.row("5.6", f"place[{g}]", terms, low=len(group.names), high=len(group.names))
    if goal.budget_usd is not None:
        terms = [(x, cloud.types[name].price_usd) for name in offer for x in used[name]]
        model.row("5.15", "budget", terms, high=goal.budget_usd)
    solution = model.solve(seconds=seconds)
    if not solution.values:
        return None, math.inf if solution.status == "infeasible" else solution.bound
    value: Callable[[int], int] = lambda column: round(solution.values[column])  # noqa: E731
    return {name: [[value(c) for c in columns] for columns in numbers[name]] for name in offer}, solution.bound


def _purchase(
    cloud: Cloud, workload: Workload, goal: Goal, places: dict[str, str] | None, bound: float, method: str, seconds: float
) -> Purchase:
    if places is None:
        return Purchase(None, math.inf, math.inf, math.inf, bound, {}, seconds)
    functions = {instance.name: workload.functions[instance.function] for instance in workload.instances}
    used = sorted(set(places.values()))
    delay = sum(_delay(cloud.type_of(device), functions[name]) for name, device in places.items())
    delay += sum(_delay(cloud.type_of(device), workload.functions[name]) for device in used for name in workload.obligatory)
    cost = sum(cloud.type_of(device).price_usd for device in used)
    objective = goal.mu * delay / goal.delay_max_us + goal.epsilon * cost / goal.cost_max_usd
    is_proven = objective <= bound + 1e-9 * max(1.0, abs(bound))
    made = Plan(cloud.name, workload.name, method, instances=places, proven=is_proven)
    devices = dict(sorted(Counter(cloud.devices[device].type for device in used).items()))
    return Purchase(made, delay, cost, objective, bound, devices, seconds)
