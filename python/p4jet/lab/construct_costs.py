"""The costs of constructs: the micro-benchmarks on every switch type that runs P4 programs, and on modelled devices.

Each program of the families of :mod:`p4jet.lab.constructs` runs on the switch; frames go from port 0 to port 1, and the tester takes
the latency of each. `p4jet profile fit` makes a profile of them. A modelled device draws the latencies from a profile.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from . import modelled
from .compare import latency
from .constructs import FAMILIES, FRAME_BYTES_MAX, Benchmark, capture, family
from .dut import CABLE, Bed
from .errors import LabError
from .modelled import ModelledDevice
from .runner import Experiment, Run
from .store import MODELLED, Store
from .switches import SwitchType, types
from .tester import Trace, p4jet_binary

SIZES = (256, 1000, 1500)
"""Those of the thesis. All programs run with the largest frames, the base also with the others: the size moves curves, and hardly
changes their slopes."""
SIZE_MIN = 254
"""The 14 headers and the stamp of the tester."""
BASE = "parse-1"
"""The program whose delay is the base delay."""
ALL = "all"
"""The point at which a modelled device takes all points at once: it has no drift."""
NO_PROGRAM = "the noise floor has no program"
OTHER_KIND = "switches take one point at a time, modelled devices all"
SAMPLES = "latency"
"""The distribution in the store; that of a modelled device also has the point in its name."""
THREADS = 4
"""To predict the means."""
CHECKED = 5
"""Frames that must come back one by one before latencies are taken."""
RETURNED_MIN = 0.9
"""Share of the frames that must come back."""
ORDERS = 200
"""Orders of the points to choose from."""
FIT_SECONDS = 120.0
CONSTRUCTS = ("parse", "modify", "copy", "remove", "add", "table")
"""In the order of ``p4jet predict --counts``."""
RMSE_MAX_US = 0.4
"""No line of the thesis has a larger root mean square error."""


@dataclass(frozen=True)
class Options:
    """What to measure."""

    switches: Sequence[str] = ()
    """Names of switch types."""
    devices: Sequence[ModelledDevice] = ()
    families: Sequence[str] = tuple(FAMILIES)
    sizes: Sequence[int] = SIZES
    """Bytes of a frame without its frame check sequence."""
    counts: int | None = None
    """How many counts of each family, spread evenly; ``None``: all."""
    packets: int = 2000
    """Of each point in each round."""
    rate: float = 10_000.0
    """Frames per second."""
    repetitions: int = 6
    """Rounds. Each measures all points once."""
    median: bool = False
    """Medians make the profile instead of means."""
    noise: str = modelled.NOISES[0]
    switch_cpu: int = 0
    tester_cpu: int = 1

    def quick(self) -> Options:
        """Returns options for a first look."""
        return replace(self, counts=4, packets=min(self.packets, 1000), repetitions=3)


def unsupported(name: str) -> str | None:
    """Returns why a switch type cannot run the micro-benchmarks, if its programs are the reason."""
    architecture = types()[name].architecture
    return None if architecture == "v1model" else f"its programs are for {architecture}, the micro-benchmarks for v1model"


def label(device: ModelledDevice) -> str:
    """Returns what a modelled device is called among switch types."""
    return f"modelled {device.name}"


def points(options: Options) -> dict[str, tuple[Benchmark, int]]:
    """Returns the programs with the sizes of their frames, by name and size, in the order in which they run.

    The order is mixed so that in no family the counts follow the time: drift of the machine does not look like a slope. Raises
    :class:`LabError` for unknown families and wrong sizes.
    """
    for size in options.sizes:
        if not SIZE_MIN <= size <= FRAME_BYTES_MAX:
            raise LabError(f"frame size: found {size}, expected {SIZE_MIN} to {FRAME_BYTES_MAX} bytes")
    largest = max(options.sizes)
    found: dict[str, tuple[Benchmark, int]] = {}
    for name in dict.fromkeys(("parse", *options.families)):
        if name not in FAMILIES:
            raise LabError(f"there is no family {name!r} of micro-benchmarks: there are {', '.join(FAMILIES)}")
        size = min(largest, FAMILIES[name].size_max)
        benchmarks = family(name, size=size)
        chosen = benchmarks if name in options.families else benchmarks[:1]
        if options.counts is not None and name != "fields" and len(chosen) > options.counts > 1:
            last = len(chosen) - 1
            chosen = [chosen[round(i * last / (options.counts - 1))] for i in range(options.counts)]
        found |= {f"{benchmark.name} {size}": (benchmark, size) for benchmark in chosen}
    for size in options.sizes:
        found[f"{BASE} {size}"] = family("parse", size=size)[0], size
    order = min((_shuffled(list(found), seed) for seed in range(ORDERS)), key=lambda order: _drift([found[name][0] for name in order]))
    return {name: found[name] for name in order}


def _shuffled(names: list[str], seed: int) -> list[str]:
    random.Random(seed).shuffle(names)
    return names


def _drift(order: Sequence[Benchmark]) -> float:
    """Returns the largest correlation between time and count in a family, 0 to 1."""
    worst = 0.0
    for series in {benchmark.series for benchmark in order}:
        places = [(place, benchmark.count) for place, benchmark in enumerate(order) if benchmark.series == series]
        times, counts = zip(*places)
        if len(set(counts)) > 2:
            worst = max(worst, abs(statistics.correlation(times, counts)))
    return worst


def experiment(options: Options, bed: Bed) -> Experiment:
    """Returns the experiment. `bed` has two links, the first at port 0."""
    found = points(options)
    devices = {label(device): device for device in options.devices}
    if len(devices) != len(options.devices):
        raise LabError(f"two profiles have the same name: {', '.join(device.name for device in options.devices)}")

    @cache
    def means() -> dict[str, dict[str, float]]:
        with ThreadPoolExecutor(THREADS) as pool:
            return dict(zip(found, pool.map(lambda point: expected(options.devices, point[0], point[1], bed.folder), found.values())))

    def skip(values: dict[str, object]) -> str | None:
        switch, point = values["switch"], str(values["point"])
        if (switch in devices) != (point == ALL):
            return OTHER_KIND
        return NO_PROGRAM if switch == CABLE and not point.startswith(f"{BASE} ") else None

    def measure(run: Run) -> None:
        device = devices.get(str(run.values["switch"]))
        if device is None:
            real(run, bed, found[str(run.values["point"])][0], options)
            return
        for point, mean in means().items():
            seed = run.seed * 2**32 + zlib.crc32(f"{device.name} {point}".encode())
            delays = device.delays_us(mean[device.name], options.packets, seed, options.noise)
            run.sample(f"{SAMPLES} {point}", delays, "µs", MODELLED)
            if point == f"{BASE} {max(options.sizes)}":
                run.metric("latency_mean", statistics.fmean(delays), "µs", MODELLED)

    switches = [*([CABLE] if options.switches else []), *options.switches, *devices]
    return Experiment(
        "constructs",
        # Switches alternate fastest, then the points, so that all of them see the same machine.
        {"switch": switches, "point": [*(found if options.switches else []), *([ALL] if devices else [])]},
        {"tester": measure},
        repetitions=options.repetitions,
        timeout=120 + 2 * options.packets / options.rate,
        skip=skip,
        source=repr(options),
    )


def write(benchmark: Benchmark, folder: Path) -> Path:
    """Writes program, runtime commands and frame of a benchmark beside each other, and returns the path of the program."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"{benchmark.name}-{len(benchmark.frame)}.p4"
    program.write_text(benchmark.program, encoding="ascii")
    program.with_suffix(".cmd").write_text(benchmark.commands, encoding="ascii")
    program.with_suffix(".pcap").write_bytes(capture(benchmark.frame))
    return program


def expected(devices: Sequence[ModelledDevice], benchmark: Benchmark, size: int, folder: Path) -> dict[str, float]:
    """Returns the mean delay of a benchmark on each modelled device, in µs."""
    program = write(benchmark, folder)
    return modelled.expected(devices, program, program.with_suffix(".cmd"), size)


def real(run: Run, bed: Bed, benchmark: Benchmark, options: Options) -> None:
    """Measures the latencies of one program on a switch."""
    name = str(run.values["switch"])
    program = write(benchmark, bed.folder)

    def prepare(switch: SwitchType) -> None:
        switch.spec.program, switch.spec.commands = program, program.with_suffix(".cmd")

    with bed.use(name, None if name == CABLE else prepare, variant=program.stem) as dut:
        # The program may have written to the addresses.
        tester = dut.tester(back=("", ""), grows=0 if name == CABLE else benchmark.grows)
        trace = Trace(program.with_suffix(".pcap"), len(benchmark.frame), clients=1)
        fault = tester.check(trace, count=CHECKED).fault()
        if fault:
            raise LabError(f"pre-flight check of {benchmark.name}: {fault}")
        dut.warm_up(tester, trace)
        measured = tester.sample(trace, options.packets / options.rate, options.rate)
        if len(measured.latencies) < RETURNED_MIN * options.packets:
            raise LabError(f"{len(measured.latencies)} of {options.packets} frames came back: lower the rate")
        latency(run, SAMPLES, measured)


def latencies(store: Store, session: int) -> Iterator[tuple[str, str, int, Sequence[float]]]:
    """Yields the latencies in µs of a session: switch, point, round, values."""
    for name in store.sample_names(session):
        if name == SAMPLES or name.startswith(f"{SAMPLES} "):
            for values, repetition, samples in store.samples(session, name):
                point = name.removeprefix(SAMPLES).strip() or str(values["point"])
                yield str(values["switch"]), point, repetition, samples.values


@dataclass(frozen=True)
class Fitted:
    """What `p4jet profile fit` made of the latencies of a switch."""

    switch: str
    """A switch type, or a modelled device."""
    measurements: Path
    profile: Path
    report: dict[str, Any]
    """Of ``p4jet profile fit --json``."""


def fit(store: Store, session: int, options: Options, folder: Path) -> list[Fitted]:
    """Writes NAME.csv with the latencies, and NAME.toml with the profile, of each switch of a session."""
    found = points(options)
    rows: dict[str, list[str]] = {}
    for switch, point, repetition, delays in latencies(store, session):
        benchmark, size = found[point]
        start = f"{benchmark.series},{benchmark.count},{size},{repetition},"
        rows.setdefault(switch, []).extend(f"{start}{delay:.4f}\n" for delay in delays)
    folder.mkdir(parents=True, exist_ok=True)
    devices = {label(device): device for device in options.devices}
    fitted = []
    for name in (*options.switches, *devices):
        if name not in rows:
            continue
        file = re.sub(r"[^A-Za-z0-9_-]+", "-", name)
        measurements, profile = folder / f"{file}.csv", folder / f"{file}.toml"
        measurements.write_text("family,count,frame_bytes,round,delay_us\n" + "".join(rows[name]), encoding="ascii")
        device = devices.get(name)
        description = f"drawn from the profile {device.name}" if device else f"{types()[name].title}, over veth pairs"
        words = ["--name", file, "--kind", device.kind if device else "cpu", "--description", description]
        argv = [p4jet_binary(), "profile", "fit", str(measurements), *words, "-o", str(profile), "--json"]
        done = subprocess.run([*argv, *(["--median"] if options.median else [])], capture_output=True, text=True, timeout=FIT_SECONDS)
        if done.returncode != 0:
            raise LabError(done.stderr.strip().removeprefix("error: "))
        fitted.append(Fitted(name, measurements, profile, json.loads(done.stdout)))
    return fitted


def differences(fitted: Fitted, device: ModelledDevice) -> dict[str, float]:
    """Returns the root mean square difference between the lines of two profiles, in µs, by construct.

    One is the profile that a modelled device follows, the other the one that was fitted to it.
    """
    found = {}
    for line in fitted.report["lines"]:
        if line["family"].startswith("fields-"):
            continue
        squares = []
        for count, _ in line["points"]:
            counts = [round(count) if construct == line["family"] else 0 for construct in CONSTRUCTS]
            words = ["--counts=" + ",".join(map(str, counts)), "--frame-bytes", str(line["frame_bytes"])]
            own, other = modelled.predict([*words, "--profile", device.profile, "--profile", str(fitted.profile)])
            squares.append((own["us"] - other["us"]) ** 2)
        found[line["family"]] = statistics.fmean(squares) ** 0.5
    return found
