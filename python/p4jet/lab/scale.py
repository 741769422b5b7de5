"""Flow scalability: latency and throughput with one rule or as many as a switch carries, for one flow or many.

This follows the study in `data/thesis.json`: every flow hits a rule of its own. The largest operable number of rules is searched by
halving, from `rules_max` on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .compare import latency
from .dut import CABLE, Bed, DeviceUnderTest
from .errors import LabError
from .rules import Rules
from .runner import Experiment, Run
from .store import LIMITED, MODELLED, both_qualities
from .switches import SwitchType, types
from .tester import DST, SRC, Tester, Trace
from .thesis import FRAMING

CASES = {"R1F1": (False, "1"), "RmaxF1": (True, "1"), "RmaxF1k": (True, "1000"), "RmaxFmax": (True, "max")}
"""One rule or the most, and one flow, a thousand, or one for each rule."""
NO_RULES = "the noise floor has no rules"
CAPTURE_MAX = 256 << 20
"""Bytes of a capture: it limits the flows of RmaxFmax."""
SEARCH_SECONDS = 600
"""Limit of the search for the most rules; its last try may take two minutes more."""


@dataclass(frozen=True)
class Options:
    """What to measure."""

    switches: Sequence[str]
    kinds: Sequence[str] = ("exact", "lpm", "ternary")
    size: int = 256
    """Bytes of a frame without its frame check sequence."""
    rules_max: int = 1 << 20
    """Where the search begins."""
    repetitions: int = 6
    seconds: float = 1.0
    latency_rate: float = 10_000.0
    switch_cpu: int = 0
    tester_cpu: int = 1


def experiment(options: Options, bed: Bed) -> Experiment:
    """Returns the experiment."""
    limits: dict[tuple[str, str], int] = {}

    def skip(values: dict[str, object]) -> str | None:
        if values["switch"] == CABLE:
            is_first = (values["case"], values["kind"]) == ("R1F1", options.kinds[0])
            return None if is_first else NO_RULES
        kind = types()[str(values["switch"])]
        return None if values["kind"] in kind.rule_kinds else f"{kind.title} has no {values['kind']} rules"

    def measure(run: Run) -> None:
        name, kind = str(run.values["switch"]), str(run.values["kind"])
        if name == CABLE:
            with bed.use(name) as dut:
                point(run, dut, dut.tester(), Rules(kind, 1), 1, options)
            return
        is_many, flows = CASES[str(run.values["case"])]
        if is_many and (name, kind) not in limits:
            limits[name, kind] = limit(bed, name, kind, options)
        rules = Rules(kind, limits[name, kind] if is_many else 1)
        with bed.use(name, with_rules(rules), variant=repr(rules)) as dut:
            tester = dut.tester(back=(SRC, DST))
            fault = check(dut, tester, rules, options.size)
            if fault:
                raise LabError(f"pre-flight check: {fault}")
            point(run, dut, tester, rules, rules.count if flows == "max" else int(flows), options)

    # All cases with the same rules follow each other, so that the rules are loaded once for them.
    return Experiment(
        "scale",
        {"case": list(CASES), "kind": list(options.kinds), "switch": [CABLE, *options.switches]},
        {"tester": measure},
        repetitions=options.repetitions,
        timeout=900,
        skip=skip,
        source=repr(options),
    )


def with_rules(rules: Rules) -> Callable[[SwitchType], None]:
    """Returns what prepares a switch for these rules."""
    return lambda switch: switch.set_rules(rules)


def limit(bed: Bed, name: str, kind: str, options: Options) -> int:
    """Returns the most rules, of `rules_max` and its halves, with which a switch starts and forwards.

    Frames to the first, the middle and the last rule must arrive, because a switch may drop rules silently. Raises
    :class:`LabError` if not even one rule works.
    """
    count = options.rules_max
    faults: list[str] = []
    end = time.monotonic() + SEARCH_SECONDS
    while count >= 1:
        if time.monotonic() > end:
            raise LabError(f"the search for the most {kind} rules of {name} took {SEARCH_SECONDS} s, down to {count}: {faults[-1]}")
        rules = Rules(kind, count)
        try:
            with bed.use(name, with_rules(rules), variant=repr(rules)) as dut:
                fault = check(dut, dut.tester(back=(SRC, DST)), rules, options.size)
                if fault is not None:
                    raise LabError(fault)
                return count
        except LabError as error:
            faults.append(f"{count} rules: {str(error)[:200]}")
        count //= 2
    raise LabError(f"{name} works with no number of {kind} rules: {'; '.join(faults[-2:])}")


def check(dut: DeviceUnderTest, tester: Tester, rules: Rules, size: int) -> str | None:
    """Returns why frames to the first, middle and last rule do not arrive, or ``None``."""
    picked = rules.addresses()[[0, rules.count // 2, rules.count - 1]]
    trace = Trace(dut.folder / "check.pcap", size, clients=3).write(picked)
    return tester.check(trace).fault()


def point(run: Run, dut: DeviceUnderTest, tester: Tester, rules: Rules, flows: int, options: Options) -> None:
    """Measures one case."""
    flows = min(flows, rules.count, CAPTURE_MAX // (options.size + 16))
    # Evenly over all rules; a single flow hits the middle one.
    places = np.linspace(0, rules.count - 1, flows).round().astype(np.int64) if flows > 1 else [rules.count // 2]
    trace = Trace(dut.folder / "scale.pcap", options.size, clients=flows).write(rules.addresses()[places])
    dut.warm_up(tester, trace)
    full = tester.measure(trace, options.seconds)
    quality = LIMITED if full.is_limited else "measured"
    run.metric("rules", rules.count, "rules")
    run.metric("flows", flows, "flows")
    run.metric("received_rate", full.received_pps / 1e3, "kpps", quality)
    run.metric("offered_rate", full.offered_pps / 1e3, "kpps")
    run.metric("loss", 100 * full.loss, "%", quality)
    run.metric("refused", 100 * full.refused / max(full.sent, 1), "%")
    # No wire carries the framing.
    run.metric("throughput", full.throughput(FRAMING) / 1e9, "Gbit/s", both_qualities(MODELLED, quality))
    latency(run, "latency", tester.sample(trace, options.seconds, options.latency_rate))
    trace.path.unlink()
