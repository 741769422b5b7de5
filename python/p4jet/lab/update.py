"""Rule updates under traffic: how long until frames follow a changed rule, and how many changes a second are accepted.

This follows the study in `data/thesis.json`. Frames flow from port 1 to port 2. The controller takes T1, redirects them to port 3,
and takes T2. T3 is when the last frame arrives from port 2, T4 when the first arrives from port 3, by the kernel's time stamps. All
times are of one clock. Response time is T4 - T1, update rate 1 / (T2 - T1). Updates go back and forth between the two ports.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import stats
from .dut import CABLE, Bed, DeviceUnderTest
from .errors import LabError
from .rules import KINDS, Rules
from .runner import Experiment, Run
from .scale import NO_RULES
from .switches import types
from .tester import DST, SRC, Trace
from .thesis import FRAMING

GAP_SECONDS = (0.1, 0.2)
"""Random time between two updates, so that they hit no rhythm of the switch."""
CALL_SECONDS = 0.05
"""Time for one update. Traffic lasts long enough for all of them."""
RECORDS_MAX = 100_000
"""Frames that a run records at most, about; at higher rates it records a part of them."""
FLOOR_SECONDS = 1.0
"""Traffic over a cable, for the noise floor."""
PORTS = (2, 3)
"""The ports between which a rule changes."""


@dataclass(frozen=True)
class Options:
    """What to measure."""

    switches: Sequence[str]
    kinds: Sequence[str] = ("exact", "lpm", "ternary", "register")
    sizes: Sequence[int] = (256, 1000, 1500)
    rates: Sequence[int] = (10, 50, 100)
    """Offered Mbit/s, framing included. The study's cards took 100 to 6000."""
    updates: int = 20
    """Of one run: as many as the study has repetitions."""
    repetitions: int = 6
    switch_cpu: int = 0
    tester_cpu: int = 1


def experiment(options: Options, bed: Bed) -> Experiment:
    """Returns the experiment. `bed` has three links."""

    def skip(values: dict[str, object]) -> str | None:
        if values["switch"] == CABLE:
            return None if values["kind"] == options.kinds[0] else NO_RULES
        kind = types()[str(values["switch"])]
        return None if values["kind"] in kind.rule_kinds else f"{kind.title} has no {values['kind']} rules"

    def measure(run: Run) -> None:
        rules = Rules(str(run.values["kind"]), 1)
        if run.values["switch"] == CABLE:
            with bed.use(CABLE) as dut:
                floor(run, dut, rules, int(str(run.values["size"])), int(str(run.values["rate"])) * 1e6)
            return
        with bed.use(str(run.values["switch"]), lambda switch: switch.set_rules(rules), variant=rules.kind) as dut:
            rate = int(str(run.values["rate"])) * 1e6
            point(run, dut, rules, int(str(run.values["size"])), rate, options.updates)

    return Experiment(
        "update",
        {
            "size": list(options.sizes),
            "rate": list(options.rates),
            "kind": list(options.kinds or KINDS),
            "switch": [CABLE, *options.switches],
        },
        {"tester": measure},
        repetitions=options.repetitions,
        timeout=120,
        skip=skip,
        source=repr(options),
    )


def point(run: Run, dut: DeviceUnderTest, rules: Rules, size: int, rate: float, updates: int) -> None:
    """Measures one kind of rule, frame size and offered rate in bits per second."""
    tester = dut.tester(back=(SRC, DST))
    switch = dut.switch
    assert switch is not None
    switch.update_rule(0, PORTS[0])
    trace = Trace(dut.folder / "update.pcap", size, clients=1).write(rules.addresses())
    pps = rate / 8 / (size + FRAMING)
    seconds = 0.5 + updates * (GAP_SECONDS[1] + CALL_SECONDS)
    every = _every(pps, seconds)
    calls: list[tuple[int, int, int]] = []
    faults: list[LabError] = []
    stop = threading.Event()
    chance = random.Random(run.seed)

    def update() -> None:
        # After the warm-up of the traffic.
        stop.wait(0.3)
        for number in range(updates):
            if stop.wait(chance.uniform(*GAP_SECONDS)):
                return
            to = PORTS[1 - number % 2]
            before = time.time_ns()
            try:
                switch.update_rule(0, to)
            except LabError as error:
                faults.append(error)
                return
            calls.append((before, time.time_ns(), to))

    updater = threading.Thread(target=update, daemon=True)
    updater.start()
    try:
        others = [dut.node.interface(port) for port in PORTS]
        measured, frames = tester.watch(trace, seconds, pps, every=every, others=others)
    finally:
        stop.set()
        updater.join(30)
    if faults:
        raise faults[0]
    answered = responses(frames, calls)
    if not answered:
        raise LabError(f"no update of {len(calls)} took effect while frames flowed")
    run.metric("updates", len(answered), "updates")
    run.metric("offered_rate", measured.offered_pps / 1e3, "kpps")
    # Lost frames, also those that a full receive queue refused, make the time between two that arrive longer.
    left = int((frames["left"] == 1).sum())
    share = min((len(frames) - left) / left, 1.0) if left > 0 else 1.0
    run.metric("frame_interval", 1e3 * every / measured.offered_pps / share, "ms")
    times = [1e3 * (first - before) / 1e9 for before, _, first, _ in answered]
    run.sample("response_time", times, "ms")
    run.metric("response_time_mean", stats.mean(times), "ms")
    run.metric("response_time_sd", stats.sd(times), "ms")
    run.metric("response_time_median", stats.median(times), "ms")
    run.metric("interruption", stats.median([1e3 * (first - last) / 1e9 for _, _, first, last in answered]), "ms")
    calls_ms = [1e3 * (after - before) / 1e9 for before, after, _, _ in answered]
    run.metric("update_time", stats.median(calls_ms), "ms")
    run.metric("update_rate", 1e3 / stats.median(calls_ms), "updates/s")


def floor(run: Run, dut: DeviceUnderTest, rules: Rules, size: int, rate: float) -> None:
    """Measures the time between frames that arrive over a cable: no update can be seen sooner than in the next frame."""
    trace = Trace(dut.folder / "update.pcap", size, clients=1).write(rules.addresses())
    pps = rate / 8 / (size + FRAMING)
    measured, frames = dut.tester().watch(trace, FLOOR_SECONDS, pps, every=_every(pps, FLOOR_SECONDS))
    gaps = np.diff(np.sort(frames["time"][frames["left"] == 0])) / 1e6
    if not len(gaps):
        raise LabError(f"found {len(frames)} recorded frames of the cable, expected at least two that arrive: choose a higher rate")
    run.metric("offered_rate", measured.offered_pps / 1e3, "kpps")
    run.metric("frame_interval", stats.mean(gaps.tolist()), "ms")
    run.metric("frame_interval_max", float(gaps.max()), "ms")
    run.sample("frame_gap", gaps.tolist(), "ms")


def _every(pps: float, seconds: float) -> int:
    """Returns N, a power of two, such that recording every N-th frame stays within the limit."""
    every = 1
    while 2 * pps * seconds / every > RECORDS_MAX:
        every *= 2
    return every


def responses(
    frames: npt.NDArray[Any], calls: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int, int, int]]:
    """Returns T1, T2, T4 and T3 in nanoseconds of each update that took effect before the next.

    `frames` are those of :meth:`Tester.watch`, where interface 1 is port 2 and interface 2 is port 3; `calls` have T1, T2 and the
    new port of each update.
    """
    arrived = frames[frames["left"] == 0]
    found = []
    for number, (before, after, to) in enumerate(calls):
        until = calls[number + 1][0] if number + 1 < len(calls) else np.iinfo(np.int64).max
        new = arrived["time"][(arrived["interface"] == PORTS.index(to) + 1) & (arrived["time"] > before) & (arrived["time"] < until)]
        old = arrived["time"][(arrived["interface"] == 2 - PORTS.index(to)) & (arrived["time"] < until)]
        if len(new) and len(old):
            found.append((before, after, int(new.min()), int(old.max())))
    return found
