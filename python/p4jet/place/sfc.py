"""PA-P4SFC-E as an integer linear program, as the thesis writes it (§3.17, Eqs. 5.6, 5.8 to 5.12, 5.14, 5.16 to 5.31).

The chains are embedded together, into what a :class:`State` has left: for the whole workload into an empty cloud, or for one chain more.
Two rows differ in form: Eq. 5.8 (π is 1 if and only if a function of the type is there) is split as usual, and only its half that can bind is
needed, because nothing gains by a π of 1. Conditions between a type and a device (5.9, 5.10) become rows only where they forbid something.
Eq. 5.10 is corrected: the right side counts Ext_y^e·Ext_d^e.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .errors import PlaceError
from .lp import Conflict, Model, Solution
from .model import DELAY_TOLERANCE_US, Chain, Embedding
from .state import State

GROUPS = {
    "5.6": "each function of a chain has one device",
    "5.8": "a type is installed where one of its functions is",
    "5.9": "architecture",
    "5.10": "externs",
    "5.11": "processing resources",
    "5.12": "table entries",
    "5.14": "extern throughput",
    "5.16": "devices in use have functions",
    "5.17": "devices with functions are in use",
    "5.24": "obligatory functions only where a chain leaves",
    "5.25": "obligatory functions where a chain leaves",
    "5.26": "ingress throughput",
    "5.27": "egress throughput",
    "5.28": "routes between successive functions",
    "5.29": "no link in both directions",
    "5.30": "link capacity",
    "5.31": "delay bound",
    "excluded": "excluded combinations of device types",
    "moves": "bounded number of moves",
}
"""What the rows of each group say."""
COLUMNS_MAX = 2_000_000


@dataclass(frozen=True)
class Embedded:
    """The result of the program."""

    embeddings: dict[str, Embedding]
    """Empty without a solution."""
    solution: Solution
    power_w: float
    """By how much the power of the cloud grows."""
    is_proven: bool


class Program:
    """The model, and how to read its solution."""

    def __init__(
        self,
        state: State,
        chains: Sequence[Chain],
        *,
        excluded: Mapping[str, Collection[tuple[str, ...]]] | None = None,
        has_delay: bool = True,
        moved: Mapping[str, Embedding] | None = None,
        moves_max: int = 0,
    ) -> None:
        """Builds the model.

        `excluded` has, for a chain, combinations of device types that it must not use, `has_delay` false leaves out Eq. 5.31 (both for the
        agnostic baseline). With `moved`, the present embeddings of chains that are not in the state, at most `moves_max` chains may get other
        devices.
        """
        self.state, self.chains = state, list(chains)
        self.model = Model()
        layout, model = state.layout, self.model
        devices, edges = len(layout.types), len(layout.edge_rates)
        size = sum(len(c.functions) * devices + (len(c.functions) - 1) * edges for c in chains)
        if size > COLUMNS_MAX:
            raise PlaceError(f"integer program: found {size} columns for {len(chains)} chains, expected at most {COLUMNS_MAX}; use --method exact")
        names = layout.names

        # Columns.
        self.alpha: dict[tuple[int, int], list[int]] = {}
        self.gamma: dict[tuple[int, int], list[int]] = {}
        for s, chain in enumerate(self.chains):
            for k, _ in enumerate(chain.functions):
                self.alpha[s, k] = [model.add(f"alpha[{chain.name},{k},{names[d]}]") for d in range(devices)]
            for k in range(len(chain.functions) - 1):
                self.gamma[s, k] = [model.add(f"gamma[{chain.name},{k},{names[i]},{names[j]}]") for i, j in layout.edge_ends]
        types = list(dict.fromkeys([*(name for c in self.chains for name in c.functions), *(f.name for f in state.obligatory)]))
        # What is installed already is no variable: it costs nothing more.
        pi = {(name, d): model.add(f"pi[{name},{names[d]}]") for name in types for d in range(devices) if name not in state.installed[d]}
        used = {d: model.add(f"x[{names[d]}]", cost=layout.types[d].power_w) for d in range(devices) if not state.installed[d]}
        needed = {d: model.add(f"alpha_required[{names[d]}]") for d in range(devices) if not state.leaving[d]}

        into, outof = defaultdict(list), defaultdict(list)
        for edge, (begin, end) in enumerate(layout.edge_ends):
            outof[begin].append(edge)
            into[end].append(edge)

        for s, chain in enumerate(self.chains):
            for k, name in enumerate(chain.functions):
                model.row("5.6", f"place[{chain.name},{k}]", ((a, 1.0) for a in self.alpha[s, k]), low=1, high=1)
                for d in range(devices):
                    a = self.alpha[s, k][d]
                    if (name, d) in pi:
                        model.row("5.8", f"type[{chain.name},{k},{names[d]}]", [(a, 1.0), (pi[name, d], -1.0)], high=0)
                    if d in used:
                        model.row("5.17", f"use[{chain.name},{k},{names[d]}]", [(a, 1.0), (used[d], -1.0)], high=0)
        for d in range(devices):
            device = layout.types[d]
            for name in types:
                function = state.functions[name]
                if (name, d) not in pi:
                    continue
                if not device.architectures & function.architectures:
                    model.row("5.9", f"architecture[{name},{names[d]}]", [(pi[name, d], 1.0)], high=0)
                lacking = len(function.externs - device.externs.keys())
                if lacking:
                    # Σ Ext_y ≤ Σ Ext_y·Ext_d + N(1 − π) with the least N that is great enough.
                    model.row("5.10", f"externs[{name},{names[d]}]", [(pi[name, d], float(lacking))], high=0)
            model.row(
                "5.11", f"resources[{names[d]}]",
                ((pi[name, d], float(state.functions[name].size)) for name in types if (name, d) in pi), high=state.size[d],
            )  # fmt: skip
            entries = [
                (self.alpha[s, k][d], float(state.functions[name].entries))
                for s, chain in enumerate(self.chains)
                for k, name in enumerate(chain.functions)
            ]
            if d in needed:
                entries.append((needed[d], float(sum(function.entries for function in state.obligatory))))
            if state.entries[d] != float("inf") and any(amount for _, amount in entries):
                model.row("5.12", f"entries[{names[d]}]", entries, high=state.entries[d])
            for extern, left in state.extern[d].items():
                terms = [
                    (self.alpha[s, k][d], chain.rate_gbps)
                    for s, chain in enumerate(self.chains)
                    for k, name in enumerate(chain.functions)
                    if extern in state.functions[name].externs
                ]
                if terms:
                    model.row("5.14", f"extern[{extern},{names[d]}]", terms, high=left)
            if d in needed:
                for function in state.obligatory:
                    if (function.name, d) in pi:
                        terms = [(needed[d], 1.0), (pi[function.name, d], -1.0)]
                        model.row("5.8", f"type[required,{function.name},{names[d]}]", terms, high=0)
                if d in used:
                    model.row("5.17", f"use[required,{names[d]}]", [(needed[d], 1.0), (used[d], -1.0)], high=0)
                leaves = [(self.gamma[s, k][edge], -1.0) for s, c in enumerate(self.chains) for k in range(len(c.functions) - 1) for edge in outof[d]]
                model.row("5.24", f"unrequired[{names[d]}]", [(needed[d], 1.0), *leaves], high=0)
                # Eq. 5.25 with one row per link and not one with a great M: the same whole numbers, a tighter relaxation.
                for s, chain in enumerate(self.chains):
                    for k in range(len(chain.functions) - 1):
                        for edge in outof[d]:
                            terms = [(self.gamma[s, k][edge], 1.0), (needed[d], -1.0)]
                            model.row("5.25", f"required[{chain.name},{k},{names[d]},{names[layout.edge_ends[edge][1]]}]", terms, high=0)
            if d in used:
                hosted = [(self.alpha[s, k][d], -1.0) for s, c in enumerate(self.chains) for k in range(len(c.functions))]
                hosted += [(needed[d], -1.0)] if d in needed else []
                model.row("5.16", f"idle[{names[d]}]", [(used[d], 1.0), *hosted], high=0)
            first = [(self.alpha[s, 0][d], chain.rate_gbps) for s, chain in enumerate(self.chains)]
            last = [(self.alpha[s, len(chain.functions) - 1][d], chain.rate_gbps) for s, chain in enumerate(self.chains)]
            model.row("5.26", f"ingress[{names[d]}]", first, high=state.ingress[d])
            model.row("5.27", f"egress[{names[d]}]", last, high=state.egress[d])
        for s, chain in enumerate(self.chains):
            for k in range(len(chain.functions) - 1):
                for node in range(len(names)):
                    terms = [(self.gamma[s, k][edge], 1.0) for edge in outof[node]] + [(self.gamma[s, k][edge], -1.0) for edge in into[node]]
                    if layout.is_device(node):
                        terms += [(self.alpha[s, k][node], -1.0), (self.alpha[s, k + 1][node], 1.0)]
                    model.row("5.28", f"flow[{chain.name},{k},{names[node]}]", terms, low=0, high=0)
                for edge, (begin, end) in enumerate(layout.edge_ends):
                    if begin < end:
                        back = layout.edges[end, begin]
                        terms = [(self.gamma[s, k][edge], 1.0), (self.gamma[s, k][back], 1.0)]
                        model.row("5.29", f"turn[{chain.name},{k},{names[begin]},{names[end]}]", terms, high=1)
            if has_delay:
                terms = []
                for d, device in enumerate(layout.types):
                    terms.append((self.alpha[s, 0][d], device.base_us))
                    for k, name in enumerate(chain.functions):
                        # Without an entry Eqs. 5.9 and 5.10 forbid it.
                        terms.append((self.alpha[s, k][d], state.delays.get((device.name, name), 0.0)))
                for k in range(len(chain.functions) - 1):
                    for edge, (begin, end) in enumerate(layout.edge_ends):
                        delay = layout.types[end].base_us if layout.is_device(end) else 0.0
                        delay += state.obligatory_us.get(layout.types[begin].name, 0.0) if layout.is_device(begin) else layout.switch_us[begin]
                        terms.append((self.gamma[s, k][edge], delay))
                model.row("5.31", f"delay[{chain.name}]", terms, high=chain.delay_us + DELAY_TOLERANCE_US)
            for number, combination in enumerate((excluded or {}).get(chain.name, ())):
                terms = [(self.alpha[s, k][d], 1.0) for k, name in enumerate(combination) for d in range(devices) if layout.types[d].name == name]
                model.row("excluded", f"excluded[{chain.name},{number}]", terms, high=len(combination) - 1)
        for edge, (begin, end) in enumerate(layout.edge_ends):
            terms = [(self.gamma[s, k][edge], c.rate_gbps) for s, c in enumerate(self.chains) for k in range(len(c.functions) - 1)]
            if terms:
                model.row("5.30", f"link[{names[begin]},{names[end]}]", terms, high=state.edge_left[edge])
        if moved is not None:
            changes = []
            for s, chain in enumerate(self.chains):
                if chain.name in moved:
                    change = model.add(f"moved[{chain.name}]")
                    changes.append((change, 1.0))
                    for k, present in enumerate(moved[chain.name].devices):
                        terms = [(self.alpha[s, k][layout.numbers[present]], 1.0), (change, 1.0)]
                        model.row("moves", f"moved[{chain.name},{k}]", terms, low=1)
            model.row("moves", "moves", changes, high=moves_max)

    def solve(self, *, seconds: float, gap: float = 0.0) -> Embedded:
        """Solves it. Raises :class:`PlaceError` if the solver breaks a constraint of a chain."""
        solution = self.model.solve(seconds=seconds, gap=gap)
        embeddings = {}
        if solution.values:
            embeddings = {chain.name: self._embedding(s, chain, solution.values) for s, chain in enumerate(self.chains)}
        return Embedded(embeddings, solution, solution.objective, solution.status in ("optimal", "infeasible"))

    def explain(self, *, seconds: float) -> Conflict:
        """Says why there is no solution."""
        return self.model.conflict(seconds=seconds)

    def _embedding(self, s: int, chain: Chain, values: Sequence[float]) -> Embedding:
        layout = self.state.layout
        devices = [next(d for d, a in enumerate(self.alpha[s, k]) if values[a] > 0.5) for k in range(len(chain.functions))]
        routes = []
        for k in range(len(chain.functions) - 1):
            chosen: defaultdict[int, list[int]] = defaultdict(list)
            for edge, column in enumerate(self.gamma[s, k]):
                if values[column] > 0.5:
                    begin, end = layout.edge_ends[edge]
                    chosen[begin].append(end)
            # Breadth first: loops, which cost nothing between switches, stay out.
            before = {devices[k]: devices[k]}
            wave = [devices[k]]
            while devices[k + 1] not in before and wave:
                wave = [end for begin in wave for end in chosen[begin] if end not in before and before.setdefault(end, begin) == begin]
            if devices[k + 1] not in before:
                raise PlaceError(f"chain {chain.name}, link {k}: found no route in the solution, expected one")
            route = [devices[k + 1]]
            while route[-1] != devices[k]:
                route.append(before[route[-1]])
            routes.append(tuple(layout.names[node] for node in reversed(route)))
        return Embedding(tuple(layout.names[d] for d in devices), tuple(routes))
