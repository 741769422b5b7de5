"""A p4jet switch with a controller under Poisson load, against the models of `p4jet queue`.

Packets of new flows go from the switch to the controller and back through the switch. The controller is the bottleneck: its service takes
milliseconds, a pass of the switch some 0.05 ms. The time of each packet from the source's interface to the sink's is compared with both models
(Eqs. 4.9 and 4.12), with `p4jet queue simulate`, and with a replay: the same arrivals and service times in an ideal first-come-first-served
queue. The replay tells what the machine adds from what is chance.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import plots, probe, queue_node, stats
from .dut import is_root
from .errors import LabError
from .network import Lab
from .report import Report
from .runner import Experiment, Run
from .store import Row, Store
from .switches.p4jet import PROGRAMS
from .tester import DST, SRC, p4jet_binary
from .topology import Topology

NODE = str(Path(queue_node.__file__).resolve())
PRIORITY_SOURCE, PRIORITY_SWITCH, PRIORITY_CONTROLLER = 20, 15, 10
"""Real-time priorities. The controller has the lowest, because it waits actively."""
WARM_UP = 0.1
"""The share of a run at its begin whose packets do not count: the queue is empty at first."""
BATCHES = 5
"""Parts of each run whose means give the confidence interval. They last long beside the time in which a queue forgets its length, which
is some 400 services at a load of 0.9, so that they are almost independent."""
DRAIN_SECONDS_MAX = 20.0
RATE_MAX = 5000.0
"""Packets per second that the source sends without being late for most."""

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Options:
    """Points and sizes."""

    laws: Sequence[str] = queue_node.LAWS
    shares: Sequence[float] = (0.2, 1.0)
    """Of new flows."""
    loads: Sequence[float] = (0.3, 0.6, 0.8, 0.9)
    """Of the controller, without what a service takes longer than its random time."""
    service_us: float = 2000.0
    repetitions: int = 6
    seconds: float = 20.0
    """Of a run at a load of 0.9. Lower loads take less, because they vary less; see :meth:`seconds_at`."""
    switch_cpu: int = 0
    tester_cpu: int = 1

    def quick(self) -> Options:
        """Returns what takes less than two minutes."""
        return replace(self, shares=self.shares[:1], loads=(0.5, 0.9), repetitions=2, seconds=8.0)

    def seconds_at(self, load: float) -> float:
        """Returns the duration of a run: in proportion to 1 / (1 - load), between a fifth and all of `seconds`."""
        return self.seconds * min(1.0, max(0.2, 0.1 / (1 - load)))

    def rate(self, share: float, load: float) -> float:
        """Returns the packets per second for this load of the controller."""
        return load / (share * self.service_us * 1e-6)

    def check(self) -> None:
        """Raises :class:`LabError` for values that cannot be measured."""
        if not all(0 < load <= 0.95 for load in self.loads):
            raise LabError(f"loads: found {', '.join(f'{load:g}' for load in self.loads)}, expected numbers above 0 up to 0.95")
        if not all(0 < share <= 1 for share in self.shares):
            raise LabError(f"shares: found {', '.join(f'{share:g}' for share in self.shares)}, expected numbers above 0 up to 1")
        fastest = self.rate(min(self.shares), max(self.loads))
        if fastest > RATE_MAX:
            raise LabError(
                f"found {fastest:.0f} packets per second for a share of {min(self.shares):g} and a load of {max(self.loads):g}, expected at most "
                f"{RATE_MAX:.0f}: choose a longer service or a greater share"
            )


@dataclass(frozen=True)
class Bed:
    """The network of the experiment: source and sink in one node, the switch, and the controller."""

    lab: Lab
    folder: Path
    is_real_time: bool
    """Whether the switch got a real-time priority."""


class Network:
    """Brings the network up, as a context manager that gives a :class:`Bed`."""

    def __init__(self, options: Options, folder: Path) -> None:
        topology = Topology("queue")
        # The kernel's work is not bound to a processor: the threads that this needs have no real-time priority.
        for name in ("source", "controller"):
            topology.add_host(name)
        topology.add_switch("s1", program=PROGRAMS / "queue.p4", options={"no-adapt": True})
        topology.add_link(("source", 0), ("s1", 0))
        topology.add_link(("source", 1), ("s1", 1))
        topology.add_link(("controller", 0), ("s1", 2))
        self._lab, self._options, self._folder = Lab(topology, folder=folder), options, folder
        self._stack = ExitStack()

    def __enter__(self) -> Bed:
        lab = self._stack.enter_context(self._lab)
        try:
            is_real_time = True
            for process in lab.running("s1").processes:
                for thread in os.listdir(f"/proc/{process.pid}/task"):
                    os.sched_setaffinity(int(thread), {self._options.switch_cpu})
                    try:
                        os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(PRIORITY_SWITCH))
                    except OSError:
                        is_real_time = False
        except BaseException:
            self._stack.close()
            raise
        return Bed(lab, self._folder, is_real_time)

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def experiment(options: Options, bed: Bed) -> Experiment:
    """Returns the experiment."""
    options.check()
    return Experiment(
        "queue",
        {"load": list(options.loads), "share": list(options.shares), "law": list(options.laws)},
        {"source": lambda run: measure(run, bed, options)},
        repetitions=options.repetitions,
        timeout=60 + 4 * options.seconds + DRAIN_SECONDS_MAX,
        source=repr(options),
    )


def measure(run: Run, bed: Bed, options: Options) -> None:
    """Runs one point: source, controller and probe; stores the times of all packets and of all services."""
    law, share, load = str(run.values["law"]), float(str(run.values["share"])), float(str(run.values["load"]))
    seconds = options.seconds_at(load)
    rate = options.rate(share, load)
    source, controller = bed.lab.node("source"), bed.lab.node("controller")
    frames, services = bed.folder / "frames.bin", bed.folder / "services.bin"
    for file in (frames, services):
        file.unlink(missing_ok=True)
    limit = str(seconds + DRAIN_SECONDS_MAX + 30)
    python = [sys.executable, "-I"]
    watch = [*python, probe.__file__, "watch", "--interfaces", f"{source.interface(0)},{source.interface(1)}", "--out", str(frames)]
    watch += ["--length", str(queue_node.LENGTH_MIN), "--dst", DST, "--src", SRC, "--seconds", limit]
    watcher = source.spawn(watch, log=bed.folder / "probe.log", cpu=options.tester_cpu)
    run.defer(lambda: watcher.stop(10))
    serve = [*python, NODE, "serve", "--law", law, "--mean-us", str(options.service_us), "--out", str(services)]
    serve += ["--interface", controller.interface(0), "--seed", str(run.seed + 1), "--seconds", limit, "--priority", str(PRIORITY_CONTROLLER)]
    server = controller.spawn(serve, log=bed.folder / "controller.log", cpu=options.tester_cpu)
    run.defer(lambda: server.stop(10))
    watcher.wait_for("watching", 20)
    server.wait_for("serving", 20)
    send = [*python, NODE, "send", "--rate", str(rate), "--share", str(share), "--seconds", str(seconds), "--seed", str(run.seed)]
    send += ["--interface", source.interface(0), "--priority", str(PRIORITY_SOURCE)]
    found = json.loads(source.run(send, timeout=seconds + 30, cpu=options.tester_cpu).stdout)
    # The controller's queue must be empty before it stops. At the end it has some ten packets, seldom a hundred.
    time.sleep(min(DRAIN_SECONDS_MAX, 0.2 + 100 * options.service_us * 1e-6))
    server.stop(10)
    watcher.stop(20)
    if not (frames.exists() and services.exists()):
        raise LabError(f"no records: {(watcher.output() + server.output()).strip()[-400:]}")
    dropped = json.loads(watcher.output().strip().splitlines()[-1])["dropped"]
    if dropped:
        raise LabError(f"the probe missed {dropped} frames: run as root for larger buffers, or lower the rate")
    seen = np.fromfile(frames, dtype=[("time", "<i8"), ("number", "<u8"), ("interface", "<u2"), ("left", "u1"), ("good", "u1")])
    served = np.fromfile(services, dtype=[("number", "<u8"), ("arrival", "<i8"), ("begin", "<i8"), ("end", "<i8"), ("wanted", "<i8")])
    left, back = seen[seen["left"] == 1], seen[seen["left"] == 0]
    _, at, arrived = np.intersect1d(left["number"], back["number"], return_indices=True)
    _, at_served, of_served = np.intersect1d(left["number"], served["number"], return_indices=True)
    if len(at) == 0 or len(of_served) < 10:
        raise LabError(f"found {len(at)} packets that came back and {len(of_served)} services, expected more: measure longer")
    sojourn = (back["time"][arrived] - left["time"][at]) / 1e3
    to_controller = (served["arrival"][of_served] - left["time"][at_served]) / 1e3
    # What the switch takes for a pass, apart from rare delays by the machine.
    a_pass = float(np.median(to_controller))
    low, high = np.percentile(to_controller, [16, 84])
    counts = left["time"][at] >= found["begin"] + WARM_UP * seconds * 1e9
    is_new = np.isin(left["number"][at], served["number"])
    replayed = replay(left["time"] / 1e3, left["number"], served, a_pass)[at]
    durations = (served["end"] - served["begin"]) / 1e3
    run.metric("sojourn", float(sojourn[counts].mean()), "µs")
    run.metric("sojourn_median", float(np.median(sojourn[counts])), "µs")
    run.metric("sojourn_p99", float(np.percentile(sojourn[counts], 99)), "µs")
    run.metric("sojourn_new", float(sojourn[counts & is_new].mean()), "µs")
    if (counts & ~is_new).any():
        run.metric("sojourn_known", float(sojourn[counts & ~is_new].mean()), "µs")
    run.metric("replay", float(replayed[counts].mean()), "µs", "modelled")
    run.metric("packets", int(counts.sum()), "packets")
    run.metric("lost", len(left) - len(at), "packets")
    run.metric("offered", rate, "pps")
    run.metric("pass", a_pass, "µs")
    run.metric("pass_deviation", float(high - low) / 2, "µs")
    run.metric("service", float(durations.mean()), "µs")
    run.metric("service_deviation", float(durations.std(ddof=1)), "µs")
    excess = durations - served["wanted"] / 1e3
    run.metric("service_excess", float(np.median(excess)), "µs")
    run.metric("service_excess_p99", float(np.percentile(excess, 99)), "µs")
    run.metric("source_late_p99", found["late_us"][1], "µs")
    run.metric("real_time", float(found["real_time"] and bed.is_real_time), "")
    run.sample("times", sojourn[counts].tolist(), "µs")


def replay(left: Times, numbers: npt.NDArray[Any], served: npt.NDArray[Any], a_pass: float) -> Times:
    """Returns the sojourn times in µs that the same packets have in an ideal queue with the same service times.

    `left` are the times in µs at which packets leave the source, `numbers` theirs, `a_pass` what each pass of the switch takes.
    """
    wanted = {int(number): duration / 1e3 for number, duration in zip(served["number"], served["wanted"])}
    free = 0.0
    found = np.full(len(left), a_pass)
    for place in np.argsort(left, kind="stable"):
        duration = wanted.get(int(numbers[place]))
        if duration is not None:
            arrival = left[place] + a_pass
            free = max(arrival, free) + duration
            found[place] = free + a_pass - left[place]
    return found


@dataclass(frozen=True)
class Point:
    """A point of the experiment: what was measured, in µs, and what was predicted from the parameters measured with it."""

    law: str
    share: float
    load: float
    rate: float
    """Packets per second."""
    controller_load: float
    """With the service times that the controller had."""
    measured: list[float]
    """The mean sojourn times of the batches of all repetitions."""
    replayed: list[float]
    """The mean of each repetition."""
    simple: float | None
    """``None``: unstable."""
    refined: float | None
    simulated: float | None
    simulated_half: float
    """Half of the 95 % confidence interval."""

    @property
    def mean(self) -> float:
        return stats.mean(self.measured)

    @property
    def predictions(self) -> dict[str, float]:
        """Returns the predictions that there are, by their names in the report."""
        all_of_them = {"simple": self.simple, "refined": self.refined, "simulated": self.simulated, "replay": stats.mean(self.replayed)}
        return {name: value for name, value in all_of_them.items() if value is not None}

    def error(self, name: str) -> float | None:
        """Returns by how much a prediction exceeds the measurement, relative to that."""
        return self.predictions[name] / self.mean - 1 if name in self.predictions else None


def batches(times: Sequence[float]) -> list[float]:
    """Returns the means of :data:`BATCHES` successive parts of the sojourn times of a run."""
    return [float(part.mean()) for part in np.array_split(np.asarray(times), BATCHES)]


def points(rows: Sequence[Row], times: Mapping[tuple[str, float, float], Sequence[Sequence[float]]], options: Options) -> list[Point]:
    """Computes the predictions for every point that was measured.

    `times` has the sojourn times of each run of a point: law, share of new flows, load.
    """
    groups: dict[tuple[str, float, float], list[Row]] = {}
    for row in rows:
        if row["status"] == "ok":
            at = row["values"]
            groups.setdefault((str(at["law"]), float(str(at["share"])), float(str(at["load"]))), []).append(row)
    found = []
    for (law, share, load), own in groups.items():
        own = sorted(own, key=lambda row: row["repetition"])

        def values(name: str) -> list[float]:
            return [row["metrics"][name].value for row in own]

        rate = options.rate(share, load)
        service, deviation, a_pass, pass_deviation = (
            stats.mean(values(name)) for name in ("service", "service_deviation", "pass", "pass_deviation")
        )
        common = ["--service-us", f"{a_pass:.6g}", "--deviation-us", f"{pass_deviation:.6g}", "--controller-us", f"{service:.6g}"]
        common += ["--controller-deviation-us", f"{deviation:.6g}", "--new-flows", f"{share:g}", "--rate-mpps", f"{rate / 1e6:.9g}", "--json"]
        (model,) = predicted(["model", *common])["rows"]
        simple, refined = (model[name] and float(model[name]["us"]) for name in ("simple", "refined"))
        simulated, half = None, 0.0
        if refined is not None:
            (row,) = predicted(["simulate", *common, "--law", law])
            simulated, half = row["simulated"]["us"], row["simulated"]["half_width_us"]
        found.append(
            Point(
                law, share, load, rate, rate * share * service / 1e6,
                [mean for run in times[law, share, load] for mean in batches(run)], values("replay"), simple, refined, simulated, half
            )
        )
    return sorted(found, key=lambda point: (options.laws.index(point.law), point.share, point.load))


def predicted(arguments: Sequence[str]) -> Any:
    """Returns the JSON document of `p4jet queue`. Raises :class:`LabError`."""
    command = [p4jet_binary(), "queue", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(command)}: still ran after 300 s") from None
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


def write(store: Store, session: int, options: Options, out: Path) -> tuple[Path, Path]:
    """Writes the report; returns the paths of report.md and report.html."""
    about = store.session(session)
    rows = store.rows(session=session)
    times: dict[tuple[str, float, float], list[Sequence[float]]] = {}
    for at, _, samples in store.samples(session, "times"):
        times.setdefault((str(at["law"]), float(str(at["share"])), float(str(at["load"]))), []).append(samples.values)
    found = points(rows, times, options)
    good = [row for row in rows if row["status"] == "ok"]

    def all_values(name: str) -> list[float]:
        return [row["metrics"][name].value for row in good if name in row["metrics"]]

    report = Report("A p4jet switch with a controller under load")
    report.text(
        f"Poisson arrivals; the controller's service takes {options.service_us:g} µs on average. {options.repetitions} repetitions, of "
        f"{options.seconds_at(min(options.loads)):g} s at the lowest and {options.seconds_at(max(options.loads)):g} s at the highest load, in "
        f"alternation. ± is half of the 95 % confidence interval (Student's t over {BATCHES} batches of each run). Times are means in µs from the source's interface to "
        "the sink's, of all packets, measured by the kernel's time stamps. The models get the service times of controller and switch that were "
        "measured in the same runs, never a sojourn time."
    )
    report.heading("Predicted and measured")
    report.text(
        "**simple** and **refined** are `p4jet queue model` (Eqs. 4.9 and 4.12, modelled), **simulated** is `p4jet queue simulate`, **replay** is an "
        "ideal queue with the very arrivals and service times of the runs (modelled). An error is prediction / measurement − 1."
    )
    cells: list[list[object]] = []
    for point in found:
        shown = {name: f"{value:.0f}" for name, value in point.predictions.items()}
        if "simulated" in shown:
            shown["simulated"] += f" ± {point.simulated_half:.0f}"
        errors = [point.error(name) for name in ("refined", "simulated", "replay")]
        cells.append([
            point.law, f"{point.share:g}", f"{point.load:g}", f"{point.controller_load:.3f}", f"{point.rate:.0f}",
            *(shown.get(name, "unstable") for name in ("simple", "refined", "simulated")), _with_interval(point.measured),
            *("" if error is None else f"{100 * error:+.1f} %" for error in errors),
        ])  # fmt: skip
    headers = ["service", "new flows", "load", "load with overhead", "packets/s", "simple", "refined", "simulated", "measured"]
    report.table([*headers, "error of refined", "error of simulated", "error of replay"], cells)
    report.text(summary(found))
    for law in dict.fromkeys(point.law for point in found):
        series: dict[str, dict[float, list[float]]] = {}
        for point in found:
            if point.law == law:
                name = f"{point.share:g} new flows"
                series.setdefault(f"measured, {name}", {})[point.load] = point.measured
                for kind in ("refined", "simulated"):
                    if kind in point.predictions:
                        series.setdefault(f"{kind}, {name}", {})[point.load] = [point.predictions[kind]]
        path = plots.lines(
            out / "plots" / f"sojourn-{law}.svg", series, x_label="load of the controller", y_label="mean sojourn time (µs)", log_y=True
        )
        report.figure(path, f"Mean sojourn time, {law} service")
    report.heading("Accuracy of the measurement")
    report.table(
        ["what", "median", "greatest of a run", "unit", "quality"],
        [
            [text, f"{stats.median(all_values(name)):.1f}", f"{max(all_values(name)):.1f}", "µs", "measured"]
            for text, name in (
                ("a service takes longer than wanted: median of a run", "service_excess"),
                ("the same, 99th percentile of a run", "service_excess_p99"),
                ("packets leave later than planned: 99th percentile of a run", "source_late_p99"),
                ("a pass of the switch: median of a run", "pass"),
            )
        ],
    )
    lost, real_time = sum(all_values("lost")), min(all_values("real_time"))
    report.text(
        f"{lost:.0f} of {sum(all_values('packets')):.0f} packets were lost. Source, switch and controller "
        + ("had real-time priorities." if real_time else "had **no** real-time priorities, so other programs disturb them: run as root.")
    )
    failed = [row for row in rows if row["status"] != "ok"]
    if failed:
        report.heading("Failed runs")
        report.table(["load", "share", "law", "reason"], [[*map(str, row["values"].values()), row["reason"]] for row in failed])
    report.heading("Machine")
    report.mapping({name: value for name, value in about["inventory"].items() if name != "experiment"})
    store.csv(out / "runs.csv", session)
    report.text("`runs.csv` has one row for each run.")
    return report.write(out)


def summary(found: Sequence[Point]) -> str:
    """Returns the errors of all points in a sentence for each prediction."""
    lines = []
    for name in ("simple", "refined", "simulated", "replay"):
        errors = [100 * error for point in found if (error := point.error(name)) is not None]
        if errors:
            inside = sum(_covers(point.measured, point.predictions[name]) for point in found if name in point.predictions)
            lines.append(
                f"* {name}: mean absolute error {stats.mean([abs(error) for error in errors]):.1f} %, from {min(errors):+.1f} to {max(errors):+.1f} %; "
                f"{inside} of {len(errors)} predictions are within the measurement's 95 % interval"
            )
    return "\n".join(lines)


def _covers(measured: Sequence[float], predicted: float) -> bool:
    interval = stats.confidence_interval(measured)
    return interval is not None and interval[0] <= predicted <= interval[1]


def _with_interval(values: Sequence[float]) -> str:
    interval = stats.confidence_interval(values)
    middle = stats.mean(values)
    return f"{middle:.0f} (one run)" if interval is None else f"{middle:.0f} ± {(interval[1] - interval[0]) / 2:.0f}"


def require() -> None:
    """Raises :class:`LabError` if this user cannot run the experiment."""
    p4jet_binary()
    plots.require()
    if not is_root():
        print("warning: without root there are no real-time priorities, so other programs disturb the measurement", file=sys.stderr)
