"""The closed loop: `p4jet-place loop` brings a plan up in the lab, with p4jet switches, and compares it with what it measures.

Each function of a chain is a p4jet switch with its program of programs/nf_catalogue, and so is each obligatory function where the chain
leaves a device. The fixed switches on the way between two devices are the delay of the link between their p4jet switches.

A software switch takes some 20 to 100 µs, not the few µs of the thesis's devices. So the plan is made with a profile of this type of
switch, which the same command measures first: on the same path, with one function. The comparison therefore tests whether delays add
up (Eq. 5.1), and what a function on another device costs, not the numbers of the thesis.

The model charges the base delay once for each device, however many functions run there, because they share one pass. Here each
function is a process of its own, so the profile has its delay as that of an extern, ``pass-NAME``; the base delay is what remains of a
chain without its functions.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..lab import inventory, plots, stats
from ..lab.dut import is_root, processors
from ..lab.network import Lab
from ..lab.report import Report
from ..lab.runner import Experiment, Run, execute
from ..lab.store import Row, Store, default_path
from ..lab.switches.p4jet import PROGRAMS, programs_folder
from ..lab.tester import DST, SIZE_MAX, SIZE_MIN, Tester, Trace, p4jet_binary
from ..lab.topology import Topology
from . import check, files
from .errors import PlaceError
from .exact import embed
from .generate import load_inputs, make_cloud, make_workload
from .model import CONSTRUCTS, Chain, Cloud, Embedding, Plan, Workload
from .online import plan_of, run
from .state import State

Progress = Callable[[str], None]

REFERENCE = "reference"
"""A p4jet switch that only sends what comes by one port to the other."""
PROFILE = "p4jet.toml"
SWITCHES_MAX = 60
DELAY_MIN_US = 0.1
"""A measured difference that is less counts as this much: a profile has no delays of 0."""
WARM_UP_SECONDS = 0.2
FULL_SPEED_SECONDS = 0.3
CONSTRUCTS_OF = {"one device": 1000, "two devices": 14}
"""The capacity of each device in the two plans that the command makes itself, by the plan's name."""


@dataclass(frozen=True)
class Switch:
    """How a function becomes a switch: frames come by port 0 and leave by port 1."""

    program: str
    commands: str


SWITCHES = {
    "FW": Switch("firewall", "table_add rules permit 0.0.0.0&&&0.0.0.0 0.0.0.0&&&0.0.0.0 0&&&0 0->65535 => 10\n"),
    "NAT": Switch(
        "nat", "table_add translations translate_source 0.0.0.0&&&0.0.0.0 0&&&0 0.0.0.0&&&0.0.0.0 0&&&0 => 203.0.113.1 40000 1 1\n"
    ),
    "L3Fwd": Switch("l3fwd", f"table_add ipv4_lpm route 0.0.0.0/0 => {DST} 1\n"),
    "L2Fwd": Switch("l2fwd", f"table_add hops to_next_hop {DST} => {DST} 1\n"),
    "LB": Switch("load_balancer", "".join(f"table_add servers to_server {bucket} => 1\n" for bucket in range(256))),
}
"""The functions of the catalogue that take the tester's frames: UDP over IPv4, without tunnels."""


@dataclass(frozen=True)
class Step:
    """A switch on a path."""

    function: str
    """Of :data:`SWITCHES`, or :data:`REFERENCE`."""
    delay_us: float = 0.0
    """Of the link on which frames come."""


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    repetitions: int = 6
    seconds: float = 1.0
    size: int = 256
    """Bytes of a frame, without frame check sequence."""
    link_us: float = 500.0
    """Of the fixed switch, in the plans that the command makes itself."""
    rate_gbps: float = 0.004
    """Of a chain in these plans, and of the frames that measure single functions."""
    switch_cpu: int = 0
    tester_cpu: int = 1
    programs: Path | None = None


QUICK = {"repetitions": 3, "seconds": 0.3}


@dataclass
class Calibration:
    """What single functions take, in µs. Each repetition has a median; of several repetitions the median counts, because other programs
    disturb some of them."""

    alone: dict[str, list[float]]
    """Of a path with one function, for each repetition."""
    passes: dict[str, list[float]]
    """What a function adds behind a reference switch."""
    base: list[float]
    """What a path with one function takes beyond that."""
    crossings: dict[float, float]
    """What a link with a delay adds to a path of two reference switches, by the delay."""
    rates: dict[str, float] = field(default_factory=dict)
    """The most Gbit/s of a path with one function."""

    @property
    def base_us(self) -> float:
        return max(DELAY_MIN_US, stats.median(self.base))

    def pass_us(self, function: str) -> float:
        return max(DELAY_MIN_US, stats.median(self.passes[function]))

    @property
    def disturbed(self) -> list[str]:
        """What came out as less than :data:`DELAY_MIN_US`, which other programs must have caused."""
        return [name for name, values in {"base delay": self.base, **self.passes}.items() if stats.median(values) < DELAY_MIN_US]

    def lab_delay_us(self, link_us: float) -> float:
        """Returns the delay to emulate so that a chain that crosses the link to another device pays `link_us` and the base delay.

        Emulation itself takes time, which the link must have less. Raises :class:`PlaceError` if the link is shorter than that.
        """
        needed = link_us + self.base_us - (self.crossings[link_us] - link_us)
        if needed < 0:
            raise PlaceError(
                f"the plan has fixed switches of {link_us:g} µs between two devices; the lab's links take at least {link_us - needed:.0f} µs"
            )
        return needed


@dataclass(frozen=True)
class Placed:
    """A plan with its cloud and workload."""

    name: str
    cloud: Cloud
    workload: Workload
    plan: Plan

    def chains(self) -> Iterator[tuple[Chain, Embedding]]:
        """Yields the chains that have a place."""
        for chain in self.workload.chains:
            if chain.name in self.plan.chains:
                yield chain, self.plan.chains[chain.name]

    def delay_us(self, chain: Chain, embedding: Embedding) -> float:
        """Returns the delay of the model (Eq. 5.19)."""
        return check.delay_us(self.cloud, self.workload, chain, embedding)

    def rate_gbps(self, chain: Chain, embedding: Embedding) -> float:
        """Returns the most that the model lets the chain carry, alone in the cloud: the least rate of its devices, externs and links."""
        limits = [self.cloud.type_of(device).rate_gbps for device in embedding.devices]
        for device, name in zip(embedding.devices, chain.functions):
            externs = self.cloud.type_of(device).externs
            limits += [externs[extern].rate_gbps for extern in self.workload.functions[name].externs]
        rates = {frozenset((link.one, link.other)): link.rate_gbps for link in self.cloud.links}
        limits += [rates[frozenset(hop)] for hop in embedding.links]
        return min(limits)

    def where(self, chain: Chain, embedding: Embedding) -> str:
        """Returns which functions run on which devices, as text."""
        parts: list[tuple[str, list[str]]] = []
        for device, name in zip(embedding.devices, chain.functions):
            if not parts or parts[-1][0] != device:
                parts.append((device, []))
            parts[-1][1].append(name)
        return "; ".join(f"{device}: {' → '.join(names)}" for device, names in parts)


def steps(workload: Workload, cloud: Cloud, chain: Chain, embedding: Embedding) -> list[Step]:
    """Returns the switches of a chain in their order, with the delays of the plan between devices.

    Raises :class:`PlaceError` for a function that the lab has no frames for.
    """
    found: list[Step] = []
    pending = 0.0

    def add(name: str) -> None:
        nonlocal pending
        if name not in SWITCHES:
            raise PlaceError(f"chain {chain.name}: found function {name!r}; the loop has frames for {', '.join(SWITCHES)}")
        found.append(Step(name, pending))
        pending = 0.0

    for number, name in enumerate(chain.functions):
        add(name)
        if number == len(embedding.routes):
            break
        for one, other in zip(embedding.routes[number], embedding.routes[number][1:]):
            if one in cloud.switches:
                pending += cloud.switches[one].delay_us
            else:
                for obligatory in workload.obligatory:
                    add(obligatory)
    return found


class Bench:
    """A network with several paths of p4jet switches from one tester back to it, as a context manager."""

    def __init__(self, paths: Mapping[str, Sequence[Step]], folder: Path, options: Options) -> None:
        count = sum(map(len, paths.values()))
        if count > SWITCHES_MAX:
            raise PlaceError(f"found {count} switches on all paths together, expected at most {SWITCHES_MAX}: embed fewer chains")
        self.paths, self.folder, self.options = paths, folder, options
        programs = programs_folder(options.programs) / "nf_catalogue"
        topology = Topology("loop")
        topology.add_host("tester", cpu=options.tester_cpu if is_root() else None)
        number = 0
        for place, path in enumerate(paths.values()):
            last = ("tester", 2 * place)
            for step in path:
                number += 1
                name = f"s{number}"
                if step.function == REFERENCE:
                    program, commands = PROGRAMS / "forward.p4", "table_add forward send 0 => 1\n"
                else:
                    switch = SWITCHES[step.function]
                    program, commands = programs / switch.program / f"{switch.program}.p4", switch.commands
                file = folder / f"{name}.entries"
                file.write_text(commands, encoding="ascii")
                # Without adaptation, so that no switch is compiled anew while another is measured.
                cpu = options.switch_cpu if is_root() else None
                topology.add_switch(name, program=program, commands=file, cpu=cpu, options={"no-adapt": True})
                topology.add_link(last, (name, 0), delay=step.delay_us * 1e-6)
                last = (name, 1)
            topology.add_link(last, ("tester", 2 * place + 1))
        self._lab = Lab(topology, folder=folder)
        self._trace = Trace(folder / "frames.pcap", options.size, clients=1).write()

    def __enter__(self) -> Bench:
        self._lab.__enter__()
        try:
            for path in self.paths:
                tester = self.tester(path)
                fault = tester.check(self._trace, count=10).fault()
                if fault:
                    raise PlaceError(f"path {path}: {fault}")
                tester.measure(self._trace, WARM_UP_SECONDS)
        except BaseException as error:
            self._lab.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lab.__exit__(None, None, None)

    def tester(self, path: str) -> Tester:
        place = list(self.paths).index(path)
        node = self._lab.node("tester")
        send, receive = node.interface(2 * place), node.interface(2 * place + 1)
        return Tester(node, self.folder, send=send, receive=receive, cpu=self.options.tester_cpu, back=("", ""))

    def measure(self, run: Run, rate_gbps: float, *, full_speed: bool) -> None:
        """Measures delay and rate of the path that the run names."""
        tester = self.tester(str(run.values["path"]))
        size = self.options.size
        found = tester.sample(self._trace, self.options.seconds, rate_gbps * 1e9 / (8 * size))
        if len(found.latencies) == 0:
            raise PlaceError(f"path {run.values['path']}: none of {found.sent} frames came back")
        delays = (1e6 * found.latencies).tolist()
        run.metric("median", stats.median(delays), "µs")
        run.metric("p99", stats.percentile(delays, 99), "µs")
        run.metric("mean", stats.mean(delays), "µs")
        run.metric("rate", found.throughput() / 1e9, "Gbit/s")
        run.metric("loss", 100 * found.loss, "%")
        run.sample("delay", delays, "µs")
        if full_speed:
            run.metric("rate_max", tester.measure(self._trace, FULL_SPEED_SECONDS).throughput() / 1e9, "Gbit/s")


def _measure(
    name: str, paths: Mapping[str, Sequence[Step]], rates: Mapping[str, float], full: set[str], store: Store, options: Options,
    out: Path, progress: Progress,
) -> tuple[int, list[Row]]:  # fmt: skip
    """Measures all paths in alternation; returns the session and its rows."""
    with tempfile.TemporaryDirectory(prefix="p4jet-loop-") as folder, Bench(paths, Path(folder), options) as bench:

        def role(run: Run) -> None:
            path = str(run.values["path"])
            bench.measure(run, rates.get(path, options.rate_gbps), full_speed=path in full)

        experiment = Experiment(
            name, {"path": list(paths)}, {"tester": role}, repetitions=options.repetitions, timeout=60 + 6 * options.seconds,
            source=repr((options, dict(paths))),
        )  # fmt: skip
        session = execute(experiment, store, resume=False, progress=progress, logs=out / "logs")
    rows = store.rows(session=session)
    failed = [row for row in rows if row["status"] != "ok"]
    if failed:
        raise PlaceError(f"{len(failed)} of {len(rows)} runs failed; the first: {failed[0]['reason']}")
    return session, rows


def _values(rows: Sequence[Row], path: str, metric: str) -> list[float]:
    """Returns a metric of a path, in the order of the repetitions."""
    own = sorted((row for row in rows if row["values"]["path"] == path), key=lambda row: row["repetition"])
    return [row["metrics"][metric].value for row in own if metric in row["metrics"]]


def _calibration_paths(functions: Sequence[str], links_us: Sequence[float], *, alone: bool) -> dict[str, list[Step]]:
    paths = {REFERENCE: [Step(REFERENCE)], "two references": [Step(REFERENCE), Step(REFERENCE)]}
    for name in functions:
        if alone:
            paths[name] = [Step(name)]
        paths[f"{REFERENCE} → {name}"] = [Step(REFERENCE), Step(name)]
    for delay in links_us:
        paths[f"two references, {delay:g} µs between"] = [Step(REFERENCE), Step(REFERENCE, delay)]
    return paths


def _passes(rows: Sequence[Row], functions: Sequence[str]) -> dict[str, list[float]]:
    reference = _values(rows, REFERENCE, "median")
    return {name: [both - one for both, one in zip(_values(rows, f"{REFERENCE} → {name}", "median"), reference)] for name in functions}


def calibrate(
    functions: Sequence[str], links_us: Sequence[float], store: Store, options: Options, out: Path, progress: Progress
) -> Calibration:
    """Measures what single functions and links take."""
    paths = _calibration_paths(functions, links_us, alone=True)
    full = {REFERENCE, *functions}
    _, rows = _measure("loop-profile", paths, {}, full, store, options, out, progress)
    alone = {name: _values(rows, name, "median") for name in functions}
    passes = _passes(rows, functions)
    base = [stats.mean([alone[name][k] - passes[name][k] for name in functions]) for k in range(options.repetitions)]
    direct = stats.median(_values(rows, "two references", "median"))
    crossings = {delay: stats.median(_values(rows, f"two references, {delay:g} µs between", "median")) - direct for delay in links_us}
    rates = {name: stats.median(_values(rows, name, "rate_max")) for name in full}
    return Calibration(alone, passes, base, crossings, rates)


def profile_text(name: str, found: Calibration, size: int, constructs: int) -> str:
    """Returns the profile of this type of switch as TOML."""

    def number(key: str, value: float, provenance: str, note: str = "") -> str:
        more = f', note = "{note}"' if note else ""
        return f'{key} = {{ value = {value:.6g}, provenance = "{provenance}"{more} }}'

    lines = [
        "version = 1", f'name = "{name}"', 'description = "A p4jet switch for each function"',
        'source = "measured by p4jet-place loop; medians"', 'kind = "cpu"', 'architectures = ["v1model"]', "", "[base_us]",
        number(str(size), found.base_us, "measured"), "", "[cost_us]",
        *(number(construct, 0, "assumed", "the externs have the whole delay of a function") for construct in CONSTRUCTS), "",
        "[limits]", number("rate_gbps", found.rates[REFERENCE], "measured", "a switch that only forwards"),
        number("constructs", constructs, "assumed"), "", "[economy]", number("power_w", 50, "assumed"),
        number("price_usd", 160, "assumed"),
    ]  # fmt: skip
    for function in found.passes:
        lines += ["", f"[externs.pass-{function}]", number("rate_gbps", found.rates[function], "measured")]
        lines += [number("latency_us", found.pass_us(function), "measured")]
    return "\n".join(lines) + "\n"


def functions_text(names: Sequence[str]) -> str:
    """Returns a catalogue: Table 5.5 with the extern that stands for a function's switch."""
    lines = ['source = "Harkous 2022, table 5.5; each function is a process, whose delay is that of an extern"']
    known = files.load_functions(files.CATALOGUE, entries=0)
    for name in names:
        lines += ["", f"[functions.{name}]", *(f"{construct} = {count}" for construct, count in known[name].counts.items())]
        lines += [f'externs = ["pass-{name}"]', 'architectures = ["v1model"]']
    return "\n".join(lines) + "\n"


def own_plans(found: Calibration, options: Options, out: Path) -> list[Placed]:
    """Makes two plans for two chains (`data/loop.toml`): in one, devices have room for a chain; in the other, the longer chain needs two.

    Writes all files of both into `out`.
    """
    names = list(SWITCHES)
    (out / "functions.toml").write_text(functions_text(names), encoding="utf-8")
    placed = []
    for title, constructs in CONSTRUCTS_OF.items():
        short = title.replace(" ", "-")
        profile = f"{short}-{PROFILE}"
        (out / profile).write_text(profile_text("p4jet", found, options.size, constructs), encoding="utf-8")
        inputs = load_inputs(files.DATA / "loop.toml")
        inputs.name, inputs.folder = short, out
        templates = [{**template, "rate_gbps": options.rate_gbps} for template in inputs.workload["templates"]]
        inputs = inputs.changed(
            cloud={"profiles": [profile], "frame_bytes": options.size, "fixed_tor_us": options.link_us},
            workload={"templates": templates},
        )
        cloud, workload = make_cloud(inputs), make_workload(inputs)
        # As the file names them: relative to the folder of the cloud's file.
        cloud.profiles = [profile]
        state = State(cloud, workload)
        log = run(state, workload, embed)
        plan = plan_of(state, workload, log)
        files.save_cloud(cloud, out / f"{short}-cloud.json")
        files.save_workload(workload, out / f"{short}-workload.json")
        files.save_plan(plan, out / f"{short}-plan.json")
        placed.append(Placed(title, cloud, workload, plan))
    return placed


def close(
    out: Path, options: Options, given: Placed | None, store: Store, progress: Progress = print
) -> tuple[tuple[Path, Path], list[dict[str, float | str]]]:
    """Measures the profile, brings plans up and writes the report; returns its paths and the results of all chains.

    `given` is a plan to bring up; ``None`` makes two plans from the profile that was just measured.
    """
    out.mkdir(parents=True, exist_ok=True)
    if given is None:
        functions, links = list(SWITCHES), [options.link_us]
    else:
        broken = check.violations(given.cloud, given.workload, given.plan)
        if broken:
            raise PlaceError(f"the plan has {len(broken)} broken constraints, expected none; the first is {broken[0]}")
        all_steps = [step for chain, place in given.chains() for step in steps(given.workload, given.cloud, chain, place)]
        if not all_steps:
            raise PlaceError("found no chain with a place in the plan, expected at least one")
        functions = list(dict.fromkeys(step.function for step in all_steps))
        links = list(dict.fromkeys(step.delay_us for step in all_steps if step.delay_us))
        options = replace(options, size=given.cloud.frame_bytes)
    progress("profile: one function at a time")
    calibration = calibrate(functions, links, store, options, out, progress)
    if calibration.disturbed:
        progress(f"warning: other programs disturb the measurement: {', '.join(calibration.disturbed)} came out as less than {DELAY_MIN_US} µs")
    plans = own_plans(calibration, options, out) if given is None else [given]
    if given is not None:
        (out / PROFILE).write_text(profile_text("p4jet", calibration, options.size, 1000), encoding="utf-8")
        (out / "functions.toml").write_text(functions_text(functions), encoding="utf-8")
    paths, rates, owners = {}, {}, {}
    for placed in plans:
        for chain, embedding in placed.chains():
            key = f"{placed.name}: {chain.name}"
            paths[key] = [
                Step(step.function, calibration.lab_delay_us(step.delay_us) if step.delay_us else 0.0)
                for step in steps(placed.workload, placed.cloud, chain, embedding)
            ]
            rates[key] = chain.rate_gbps
            owners[key] = placed, chain, embedding
    again = _calibration_paths(functions, [], alone=False)
    progress("plans: whole chains, and again single functions")
    session, rows = _measure("loop", {**paths, **again}, rates, set(paths), store, options, out, progress)
    passes = _passes(rows, functions)
    results: list[dict[str, float | str]] = []
    for key, (placed, chain, embedding) in owners.items():
        medians = _values(rows, key, "median")
        now = calibration.base_us + sum(
            stats.median(passes[step.function]) + (step.delay_us and step.delay_us + calibration.base_us)
            for step in steps(placed.workload, placed.cloud, chain, embedding)
        )
        results.append({
            "plan": placed.name, "chain": chain.name, "where": placed.where(chain, embedding), "key": key,
            "modelled_us": placed.delay_us(chain, embedding), "same_session_us": now, "measured_us": stats.mean(medians),
            "rate_gbps": chain.rate_gbps, "rate_max_gbps": placed.rate_gbps(chain, embedding),
        })  # fmt: skip
    report = _report(results, calibration, rows, plans, options, out, owners)
    progress(f"session {session} in {store.path}")
    return report.write(out), results


def _with_interval(values: Sequence[float], digits: int = 1) -> str:
    interval = stats.confidence_interval(values)
    middle = stats.mean(values)
    return f"{middle:.{digits}f}" if interval is None else f"{middle:.{digits}f} ± {(interval[1] - interval[0]) / 2:.{digits}f}"


def _range(values: Sequence[float]) -> str:
    return f"{stats.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def _report(
    results: Sequence[Mapping[str, float | str]], found: Calibration, rows: Sequence[Row], plans: Sequence[Placed], options: Options,
    out: Path, owners: Mapping[str, tuple[Placed, Chain, Embedding]],
) -> Report:  # fmt: skip
    report = Report("Placement: plans and p4jet switches")
    report.text(
        f"Each function is a p4jet switch, each link between two devices has the delay of the plan. Frames of {options.size} bytes. "
        f"{options.repetitions} repetitions in alternation; ± is the 95 % confidence interval of their mean (Student's t). **modelled** values come "
        "from the plan, whose profile was measured with single functions before; **measured** values from whole chains."
    )
    report.heading("Delays")
    cells: list[list[object]] = []
    for row in results:
        key = str(row["key"])
        modelled, measured, now = float(row["modelled_us"]), float(row["measured_us"]), float(row["same_session_us"])
        cells.append([
            row["plan"], row["chain"], row["where"], f"{modelled:.1f}", _with_interval(_values(rows, key, "median")),
            f"{100 * (measured / modelled - 1):+.1f} %", f"{100 * (measured / now - 1):+.1f} %", _with_interval(_values(rows, key, "p99")),
        ])  # fmt: skip
    headers = ["plan", "chain", "where", "plan (µs, modelled)", "median (µs, measured)", "difference", "to functions of the same session"]
    report.table([*headers, "99th percentile (µs, measured)"], cells)
    report.text(
        "The plan's profile and the chains were measured one after the other, so drift of the machine between them is part of the difference. "
        "The column after it compares with single functions that were measured in alternation with the chains. A plan has no percentiles."
    )
    differences = _placements(rows, owners, results)
    if differences:
        report.heading("The same chain on one device and on two")
        report.table(["chain", "plans", "difference (µs, modelled)", "difference (µs, measured)"], differences)
    report.heading("Rates")
    cells = []
    for row in results:
        key = str(row["key"])
        cells.append([
            row["plan"], row["chain"], f"{1e3 * float(row['rate_gbps']):.2f}", _with_interval([1e3 * x for x in _values(rows, key, "rate")], 2),
            f"{stats.mean(_values(rows, key, 'loss')):.2f} %", f"{1e3 * float(row['rate_max_gbps']):.0f}",
            _with_interval([1e3 * x for x in _values(rows, key, "rate_max")], 0),
        ])  # fmt: skip
    headers = ["plan", "chain", "plan (Mbit/s, modelled)", "arrived (Mbit/s, measured)", "lost (measured)"]
    report.table([*headers, "most (Mbit/s, modelled)", "most (Mbit/s, measured)"], cells)
    report.text(
        "The model charges a device with the rate of a chain once, whatever runs there, so its greatest rate is that of the slowest function "
        "alone. In the lab all switches of a chain share one processor."
    )
    report.heading("Profile (measured)")
    cells = [[name, _range(found.alone[name]), _range(found.passes[name]), f"{1e3 * found.rates[name]:.0f}"] for name in found.passes]
    report.table(["function", "alone (µs)", "behind another switch: pass (µs)", "most (Mbit/s)"], cells)
    links = "".join(
        f" A link of {delay:g} µs adds {took:.1f} µs to a path, so the lab emulates {found.lab_delay_us(delay):.1f} µs." for delay, took in found.crossings.items()
    )
    report.text(f"The median of the repetitions, and in parentheses the least and the greatest. Base delay: {_range(found.base)} µs.{links}")
    if found.disturbed:
        report.text(f"**Disturbed**: {', '.join(found.disturbed)} came out as less than {DELAY_MIN_US} µs and counts as that much.")
    report.heading("What this shows")
    report.text(
        "* Whether the delays of functions add up to that of their chain (Eq. 5.1), and whether another device costs what the model charges: the base "
        "delay, the fixed switches and the obligatory function.\n"
        "* Whether the demanded rate arrives.\n"
        "* Not: the delays of the thesis's devices, or anything under load. Functions on one device do not share a pass here, which is why the "
        "profile has their whole delay as that of an extern. Links between devices are emulated, and chains do not share switches or compete, "
        "because one is measured at a time."
    )
    figure = {str(row["key"]): _values(rows, str(row["key"]), "median") for row in results}
    plan_us = {str(row["key"]): [float(row["modelled_us"])] for row in results}
    boxes = {name: values for key in figure for name, values in ((f"{key}, modelled", plan_us[key]), (f"{key}, measured", figure[key]))}
    report.figure(plots.boxes(out / "plots" / "delays.svg", boxes, y_label="delay (µs)"), "Delays: the plan's, and the medians of the repetitions")
    report.heading("Machine")
    report.mapping(inventory.machine())
    return report


def _placements(
    rows: Sequence[Row], owners: Mapping[str, tuple[Placed, Chain, Embedding]], results: Sequence[Mapping[str, float | str]]
) -> list[list[object]]:
    """Compares equal chains of different plans, whose repetitions were measured in alternation."""
    modelled = {str(row["key"]): float(row["modelled_us"]) for row in results}
    found: list[list[object]] = []
    keys = list(owners)
    for place, one in enumerate(keys):
        for other in keys[place + 1 :]:
            (first, chain, here), (second, same, there) = owners[one], owners[other]
            if first is second or chain.functions != same.functions or len(set(here.devices)) == len(set(there.devices)):
                continue
            gaps = [b - a for a, b in zip(_values(rows, one, "median"), _values(rows, other, "median"))]
            found.append([
                " → ".join(chain.functions), f"{second.name} − {first.name}", f"{modelled[other] - modelled[one]:.1f}", _with_interval(gaps)
            ])  # fmt: skip
    return found


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the subcommand."""
    command = commands.add_parser("loop", help="bring a plan up with p4jet switches and compare", description=__doc__)
    command.add_argument("files", nargs="*", type=Path, metavar="CLOUD WORKLOAD PLAN", help="without them, two plans are made")
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of report, profile and plans")
    command.add_argument("--quick", action="store_true", help="3 repetitions of 0.3 s")
    command.add_argument("--repetitions", type=int, metavar="N", help="(default: 6)")
    command.add_argument("--seconds", type=float, metavar="S", help="of traffic for each path and repetition (default: 1)")
    command.add_argument("--size", type=int, metavar="B", help="frame size without plan (default: 256)")
    command.add_argument("--link-us", type=float, metavar="US", help="delay of the fixed switch without plan (default: 500)")
    command.add_argument("--switch-cpu", type=int, metavar="N", help="processor of all switches (default: the first)")
    command.add_argument("--tester-cpu", type=int, metavar="N", help="processor of the tester (default: the second)")
    command.add_argument("--programs", type=Path, metavar="DIR", help="the folder `programs` of a checkout")
    command.add_argument("--store", type=Path, default=default_path(), metavar="FILE", help="store of results (default: %(default)s)")
    command.set_defaults(action=_command)


def _command(args: argparse.Namespace) -> int:
    if len(args.files) not in (0, 3):
        raise PlaceError(f"found {len(args.files)} files, expected none, or three: cloud, workload and plan")
    plots.require()
    p4jet_binary()
    limits: dict[str, tuple[float, float]] = {
        "repetitions": (2, 1000), "seconds": (0.05, 600), "size": (SIZE_MIN, min(SIZE_MAX, 1500)), "link_us": (0, 1e6),
    }  # fmt: skip
    given = dict(QUICK) if args.quick else {}
    for name, (low, high) in limits.items():
        value = getattr(args, name)
        if value is not None:
            if not (math.isfinite(value) and low <= value <= high):
                raise PlaceError(f"--{name.replace('_', '-')}: found {value}, expected {low:g} to {high:g}")
            given[name] = value
    switch_cpu, tester_cpu = processors(args.switch_cpu, args.tester_cpu)
    options = replace(Options(switch_cpu=switch_cpu, tester_cpu=tester_cpu, programs=args.programs), **given)  # type: ignore[arg-type]
    placed = None
    if args.files:
        cloud, workload, plan = files.load_cloud(args.files[0]), files.load_workload(args.files[1]), files.load_plan(args.files[2])
        placed = Placed(os.path.splitext(args.files[2].name)[0], cloud, workload, plan)
    with Store(args.store) as store:
        (markdown, page), results = close(args.out, options, placed, store, progress=lambda text: print(text, flush=True))
    for row in results:
        modelled, measured = float(row["modelled_us"]), float(row["measured_us"])
        print(f"{row['key']} ({row['where']}): {modelled:.1f} µs modelled, {measured:.1f} µs measured, {100 * (measured / modelled - 1):+.1f} %")
    print(f"{markdown}\n{page}")
    return 0
