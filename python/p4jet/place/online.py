"""Chains that arrive and depart, and re-optimisation with a bounded number of moves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .exact import Answer, embed
from .model import Chain, Embedding, Event, Plan, Workload
from .sfc import Program
from .state import State

Embedder = Callable[[State, Chain], Answer]
"""Returns where a chain could go, without placing it."""


@dataclass
class Log:
    """What happened to each arrival."""

    method: str
    answers: dict[str, Answer] = field(default_factory=dict)
    """By chain."""
    power_w: list[float] = field(default_factory=list)
    """After each event."""
    functions: int = 0
    """Functions of all chains that found a place."""
    functions_until_reject: int = 0
    """Those before the first chain without a place."""
    moves: int = 0
    is_full: bool = False
    """Whether a chain has found no place."""

    @property
    def seconds(self) -> list[float]:
        return [answer.seconds for answer in self.answers.values()]

    @property
    def rejected(self) -> list[str]:
        return [name for name, answer in self.answers.items() if answer.embedding is None]

    @property
    def is_proven(self) -> bool:
        return all(answer.is_proven for answer in self.answers.values())


def arrivals(workload: Workload) -> list[Event]:
    """Returns the events of a workload; without any, each chain arrives in turn and stays."""
    return workload.events or [Event(float(number), chain.name, True) for number, chain in enumerate(workload.chains)]


def run(
    state: State,
    workload: Workload,
    embedder: Embedder = embed,
    *,
    method: str = "exact",
    admission_moves: int = 0,
    until_s: float = math.inf,
    stop_at_reject: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Log:
    """Embeds each arrival and removes each departure.

    `admission_moves` allows that many other chains to be moved for a chain that finds no place. `until_s` ends the run, in seconds of this
    machine's clock from now on.
    """
    chains = {chain.name: chain for chain in workload.chains}
    log = Log(method)
    events = arrivals(workload)
    begin = time.perf_counter()
    for number, event in enumerate(events):
        if time.perf_counter() - begin > until_s:
            break
        if progress is not None and number % 100 == 0:
            progress(number, len(events))
        chain = chains[event.chain]
        if not event.is_arrival:
            if chain.name in state.chains:
                state.remove(chain.name)
        else:
            answer = embedder(state, chain)
            # A greedy method places what it finds itself.
            if answer.embedding is not None and chain.name not in state.chains:
                state.place(chain, answer.embedding)
            elif answer.embedding is None and admission_moves:
                moved = admit(state, chain, moves_max=admission_moves)
                if moved is not None:
                    log.moves += len(moved)
                    answer = Answer(state.chains[chain.name][1], 0.0, False, "moves", answer.labels, answer.seconds)
            log.answers[chain.name] = answer
            if answer.embedding is not None:
                log.functions += len(chain.functions)
            if not log.is_full and answer.embedding is None:
                log.is_full = True
                if stop_at_reject:
                    break
            if not log.is_full:
                log.functions_until_reject += len(chain.functions)
        log.power_w.append(state.power_w)
    return log


def admit(state: State, chain: Chain, *, moves_max: int, tries_max: int = 200) -> dict[str, tuple[Embedding, Embedding]] | None:
    """Places a chain by moving at most `moves_max` others; returns what moved from where to where, or ``None`` if that fails.

    It tries the removal of single chains, those of the greatest rate first, and if several moves are allowed of all chains that start on one
    device. The state is as before if it fails.
    """
    by_device: dict[str, list[str]] = {}
    for name, (_, embedding) in state.chains.items():
        by_device.setdefault(embedding.devices[0], []).append(name)
    candidates = [[name] for name in sorted(state.chains, key=lambda name: -state.chains[name][0].rate_gbps)]
    candidates += [names for names in by_device.values() if 1 < len(names) <= moves_max]
    # Equal chains on devices of one class give equal results.
    seen: set[object] = set()
    tries = 0
    for names in candidates:
        if not moves_max or tries >= tries_max:
            break
        key = tuple(
            sorted(
                (state.chains[n][0].functions, state.chains[n][0].rate_gbps, state.chains[n][0].delay_us)
                + tuple(state.device_class[state.layout.numbers[d]] for d in state.chains[n][1].devices)
                for n in names
            )
        )
        if key in seen:
            continue
        seen.add(key)
        tries += 1
        removed = [state.remove(name) for name in names]
        if _place_all(state, [chain, *(other for other, _ in removed)]):
            moved = {other.name: (old, state.chains[other.name][1]) for other, old in removed}
            return {name: (old, new) for name, (old, new) in moved.items() if old != new}
        for other, old in removed:
            state.place(other, old)
    return None


def _place_all(state: State, chains: list[Chain]) -> bool:
    """Places all chains or none."""
    placed: list[str] = []
    for chain in chains:
        answer = embed(state, chain, seconds=1.0)
        if answer.embedding is None:
            for name in placed:
                state.remove(name)
            return False
        state.place(chain, answer.embedding)
        placed.append(chain.name)
    return True


@dataclass(frozen=True)
class Improvement:
    """What re-optimisation did."""

    moved: dict[str, tuple[Embedding, Embedding]]
    power_before_w: float
    power_w: float
    is_proven: bool
    """Whether no plan with that many moves has less power."""
    seconds: float


def improve(state: State, *, moves_max: int, seconds: float) -> Improvement:
    """Lowers the power by moving at most `moves_max` chains.

    First single devices are emptied, those with the fewest chains per watt first: all their chains are removed and embedded again with the least
    additional power; if that lowers the power of the cloud, they stay there, otherwise they return. Then, for each class of idle devices, one
    device is put in use for the chains of another one, and devices are emptied again; that stays if the power is lower in the end.
    """
    begin = time.perf_counter()
    before, until = state.power_w, begin + seconds
    original = {name: embedding for name, (_, embedding) in state.chains.items()}
    _empty_devices(state, original, moves_max, until)
    is_changed = True
    while is_changed and time.perf_counter() < until:
        is_changed = False
        idle = [next(iter(devices)) for devices in list(state.classes.values()) if not state.is_active(next(iter(devices)))]
        for node in sorted(idle, key=lambda node: (state.layout.types[node].power_w, node)):
            present, power = {name: embedding for name, (_, embedding) in state.chains.items()}, state.power_w
            device = state.layout.names[node]
            if _begin_with(state, device, original, moves_max):
                _empty_devices(state, original, moves_max, until, keep=device)
            if state.power_w < power - 1e-9:
                is_changed = True
                break
            _restore(state, present)
    moved = {name: (old, state.chains[name][1]) for name, old in original.items() if state.chains[name][1] != old}
    return Improvement(moved, before, state.power_w, False, time.perf_counter() - begin)


def _moved(state: State, original: dict[str, Embedding]) -> set[str]:
    return {name for name, embedding in original.items() if state.chains[name][1] != embedding}


def _users(state: State) -> dict[str, list[str]]:
    """Returns the chains of each device, devices with the fewest chains per watt first."""
    users: dict[str, set[str]] = {}
    for name, (_, embedding) in state.chains.items():
        for device in {*embedding.devices, *(node for route in embedding.routes for node in route if node in state.cloud.devices)}:
            users.setdefault(device, set()).add(name)
    order = sorted(users, key=lambda device: (len(users[device]) / max(state.cloud.type_of(device).power_w, 1e-9), device))
    return {device: sorted(users[device]) for device in order}


def _restore(state: State, embeddings: dict[str, Embedding]) -> None:
    changed = [state.remove(name)[0] for name, embedding in embeddings.items() if state.chains[name][1] != embedding]
    for chain in changed:
        state.place(chain, embeddings[chain.name])


def _empty_devices(state: State, original: dict[str, Embedding], moves_max: int, until: float, *, keep: str = "") -> None:
    is_changed = True
    while is_changed:
        is_changed = False
        moved = _moved(state, original)
        tried: set[object] = set()
        for device, names in _users(state).items():
            # A chain that has moved before may move again: it counts once.
            if device == keep or len(moved.union(names)) > moves_max or time.perf_counter() > until:
                continue
            chains = [state.chains[name] for name in names]
            key = (
                state.device_class[state.layout.numbers[device]],
                tuple(sorted((chain.functions, chain.rate_gbps, chain.delay_us) for chain, _ in chains)),
                # Split chains differ by what else they use.
                device if any(len(set(embedding.devices)) > 1 for _, embedding in chains) else "",
            )
            if key in tried:
                continue
            tried.add(key)
            power = state.power_w
            removed = [state.remove(name) for name in names]
            # The most demanding ones first.
            ranked = sorted(removed, key=lambda item: (item[0].delay_us, -item[0].rate_gbps))
            is_placed = _place_all(state, [chain for chain, _ in ranked])
            if is_placed and state.power_w < power - 1e-9:
                is_changed = True
                break
            for name in names if is_placed else ():
                state.remove(name)
            for chain, embedding in removed:
                state.place(chain, embedding)


def _begin_with(state: State, device: str, original: dict[str, Embedding], moves_max: int) -> bool:
    """Moves all chains of some device to an idle one."""
    moved = _moved(state, original)
    for other, names in _users(state).items():
        if len(moved.union(names)) > moves_max:
            continue
        removed = [state.remove(name) for name in names]
        placed = []
        for chain, _ in removed:
            embedding = Embedding((device,) * len(chain.functions), ((device,),) * (len(chain.functions) - 1))
            if state.obstacle(chain, embedding) is not None:
                break
            state.place(chain, embedding)
            placed.append(chain.name)
        if len(placed) == len(removed):
            return True
        for name in placed:
            state.remove(name)
        for chain, embedding in removed:
            state.place(chain, embedding)
    return False


def improve_exactly(state: State, *, moves_max: int, seconds: float) -> Improvement:
    """Like :func:`improve`, by an integer program for all chains together, in which at most `moves_max` chains get other devices.

    Routes may change without being counted. Only for small clouds: the program has a column for each chain, function and device. If it finds
    nothing in time, nothing changes.
    """
    before, present = state.power_w, dict(state.chains)
    for name in present:
        state.remove(name)
    try:
        chains = [chain for chain, _ in present.values()]
        program = Program(state, chains, moved={name: embedding for name, (_, embedding) in present.items()}, moves_max=moves_max)
        result = program.solve(seconds=seconds)
        new = result.embeddings if result.embeddings and result.power_w <= before + 1e-6 else {}
        for name, (chain, embedding) in present.items():
            state.place(chain, new.get(name, embedding))
    except BaseException:
        for name, (chain, embedding) in present.items():
            if name not in state.chains:
                state.place(chain, embedding)
        raise
    moved = {name: (old, state.chains[name][1]) for name, (_, old) in present.items() if state.chains[name][1].devices != old.devices}
    return Improvement(moved, before, state.power_w, result.is_proven and bool(new), result.solution.seconds)


def plan_of(state: State, workload: Workload, log: Log) -> Plan:
    """Returns the chains in the cloud after a run, and what was rejected."""
    plan = state.plan(workload.name, log.method)
    plan.rejected = log.rejected
    plan.proven = log.is_proven and log.method == "exact"
    return plan
