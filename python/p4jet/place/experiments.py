"""Repeats the experiments of the thesis (§4.8 and 4.9 of the summary): `p4jet-place experiments`.

The inputs are the presets in `data/presets`; they say which numbers the thesis gives. Published values stand in this file beside the code that
computes ours. Powers and delays are modelled, times are measured on this machine.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..lab import plots
from ..lab.report import Report
from . import vnf
from .agnostic import Solver, by_labels, by_program, embed_by_trials
from .check import violations
from .errors import PlaceError
from .exact import Answer, embed
from .files import load_functions
from .generate import Inputs, describe, load_inputs, make_cloud, make_workload
from .greedy import Greedy, Settings, order
from .heuristic import embed_quickly
from .model import Chain, Cloud, Workload, single_device_us
from .online import Embedder, Log, plan_of, run
from .sfc import Program
from .state import Layout, State
from .together import embed_together

REPRODUCED, RELATION, NOT = "reproduced", "relation only", "not reproducible"
Progress = Callable[[str], None]
Series = dict[str, dict[float, list[float]]]


@dataclass(frozen=True)
class Row:
    """A published value beside ours."""

    experiment: str
    what: str
    thesis: str
    ours: str
    label: str
    reason: str = ""


@dataclass
class Part:
    """The result of one experiment."""

    title: str
    text: str = ""
    rows: list[Row] = field(default_factory=list)
    tables: list[tuple[str, Sequence[str], Sequence[Sequence[object]]]] = field(default_factory=list)
    figures: list[tuple[Path, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Options:
    """Sizes; they decide how long it takes."""

    racks: tuple[int, ...] = (4, 10, 20, 30)
    chains_per_rack: int = 375
    program_racks: tuple[int, ...] = (4, 10, 20, 30)
    program_chains: int = 4
    program_seconds: float = 60.0
    instances: tuple[int, ...] = tuple(range(7, 204, 7))
    step: int = 10


QUICK = Options(racks=(2,), chains_per_rack=90, program_racks=(2,), program_chains=2, instances=(7, 196), step=40)


DELAYS = {
    "L2Fwd": (3, 0, 0.50, 0, 0), "L3Fwd": (5, 0, 1.11, 0.17, 0), "FW": (4, 0, 0.22, 0.34, 0), "Tunneling": (4, 0, 0.22, 0.34, 0),
    "VDecap": (16, -1.08, 7.59, 1.07, 0), "LB": (4, 90, 40.22, 0.84, 0.2), "NAT": (6, 0, 1.22, 0.34, 0),
}  # fmt: skip
"""Of each function ω, then Δ in µs on CPU, NPU, FPGA and ASIC (§8.1 of the summary)."""
CHAINS = {
    ("FW", "NAT", "L3Fwd"): (45.9, 10.00, 4.39, 2),
    ("LB", "L3Fwd"): (135.9, 48.78, 4.55, 2.2),
    ("FW", "LB", "L3Fwd"): (135.9, 49.0, 4.89, 2.2),
}
"""Delays in µs of chains on one CPU, NPU, FPGA or ASIC (§8.1 of the summary)."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the subcommand."""
    command = commands.add_parser("experiments", help="repeat the experiments of the thesis")
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of report.md and report.html")
    command.add_argument("--only", help=f"some of: {', '.join(EXPERIMENTS)}")
    command.add_argument("--quick", action="store_true", help="small sizes, some seconds")
    command.add_argument("--racks", help="racks of experiment 5 (default 4,10,20,30)")
    command.add_argument("--chains-per-rack", type=int, help="chains that arrive in experiments 4 and 5 (default 375)")
    command.add_argument("--program-racks", help="racks at which the integer program runs too (default 4,10,20,30)")
    command.add_argument("--program-seconds", type=float, help="limit of each of its runs (default 60)")
    command.set_defaults(action=_command)


def _command(args: argparse.Namespace) -> int:
    options = QUICK if args.quick else Options()
    if args.racks is not None:
        options = replace(options, racks=_numbers("--racks", args.racks))
    if args.program_racks is not None:
        options = replace(options, program_racks=_numbers("--program-racks", args.program_racks))
    if args.chains_per_rack is not None:
        if not 3 <= args.chains_per_rack <= 10_000:
            raise PlaceError(f"--chains-per-rack: found {args.chains_per_rack}, expected 3 to 10000")
        options = replace(options, chains_per_rack=args.chains_per_rack)
    if args.program_seconds is not None:
        if not 0 < args.program_seconds <= 3600:
            raise PlaceError(f"--program-seconds: found {args.program_seconds}, expected a number up to 3600")
        options = replace(options, program_seconds=args.program_seconds)
    wanted = args.only.split(",") if args.only else list(EXPERIMENTS)
    for name in wanted:
        if name not in EXPERIMENTS:
            raise PlaceError(f"--only: found {name!r}, expected some of: {', '.join(EXPERIMENTS)}")
    plots.require()
    markdown, page = repeat(args.out, options, wanted, progress=lambda text: print(text, flush=True))
    print(f"{markdown}\n{page}")
    return 0


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = text.split(",") if text else []
    if not all(part.isdecimal() and 1 <= int(part) <= 1000 for part in parts):
        raise PlaceError(f"{option}: found {text!r}, expected numbers of racks from 1 to 1000 with commas between them")
    return tuple(int(part) for part in parts)


def repeat(out: Path, options: Options, wanted: Sequence[str], *, progress: Progress) -> tuple[Path, Path]:
    """Runs experiments and writes the report; returns the paths of report.md and report.html."""
    begin = time.perf_counter()
    return write(out, perform(out, options, wanted, progress=progress), time.perf_counter() - begin)


def perform(out: Path, options: Options, wanted: Sequence[str], *, progress: Progress) -> list[Part]:
    """Runs experiments; their figures go to `out`/plots."""
    parts = []
    for name in wanted:
        progress(f"{name} …")
        parts.append(EXPERIMENTS[name](out / "plots", options, progress))
    return parts


def write(out: Path, parts: Sequence[Part], seconds: float) -> tuple[Path, Path]:
    """Writes the report of experiments that took `seconds`; returns the paths of report.md and report.html."""
    report = Report("Placement: the experiments of the thesis")
    report.text(
        "H. Harkous, Performance Modelling, Optimisation and Applications for P4 packet processors in clouds, TU München 2022, chapter 5. "
        "**reproduced**: the same value from the inputs that the thesis gives. **relation only**: the thesis does not give all inputs, or leaves "
        "a choice open; its statement about orders and shapes is compared. **not reproducible**: the value does not follow from what is given."
    )
    report.text(
        f"Times are processor times on this machine ({os.cpu_count()} processors, {_processor()}, Python {platform.python_version()}), powers and "
        f"delays are modelled. The experiments took {seconds:.0f} s."
    )
    report.heading("Summary")
    rows = [row for part in parts for row in part.rows]
    report.table(
        ["experiment", "what", "thesis", "here", "label", "reason"], [[r.experiment, r.what, r.thesis, r.ours, r.label, r.reason] for r in rows]
    )
    for part in parts:
        report.heading(part.title)
        if part.text:
            report.text(part.text)
        for title, headers, cells in part.tables:
            report.heading(title, level=3)
            report.table(headers, cells)
        for path, caption in part.figures:
            report.figure(path, caption)
    return report.write(out)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _inputs_text(inputs: Inputs) -> str:
    return "Inputs (where nothing else is said):\n\n" + "\n".join(f"* `{line}`" for line in describe(inputs).splitlines())


def _delays(folder: Path, options: Options, progress: Progress) -> Part:
    """Tables of the summary's §8.1, which follow from T5.5 and T5.6."""
    part = Part("Delays of functions and chains (Eq. 5.1)")
    functions = load_functions("thesis", entries=0)
    types = make_cloud(load_inputs("vnf")).types
    cells, equal = [], 0
    for name, function in functions.items():
        ours = [float(function.size), *(types[kind].function_us(function) for kind in ("cpu", "npu", "fpga", "asic"))]
        equal += sum(abs(one - other) < 0.005 for one, other in zip(ours, DELAYS[name]))
        cells.append([name, *(f"{value:.4g}" for value in ours), ", ".join(f"{value:g}" for value in DELAYS[name])])
    part.tables.append(("Δ in µs and ω", ["function", "ω", "CPU", "NPU", "FPGA", "ASIC", "summary, §8.1"], cells))
    cells, same = [], 0
    for names, values in CHAINS.items():
        found = [single_device_us(types[kind], [functions[name] for name in names]) for kind in ("cpu", "npu", "fpga", "asic")]
        same += sum(abs(one - other) < 0.005 for one, other in zip(found, values))
        cells.append([" → ".join(names), *(f"{value:.2f}" for value in found), ", ".join(f"{value:g}" for value in values)])
    part.tables.append(("Chains on one device, in µs", ["chain", "CPU", "NPU", "FPGA", "ASIC", "summary, §8.1"], cells))
    part.rows.append(Row("delays", "ω and Δ of 7 functions", "35 values", f"{equal} equal", REPRODUCED if equal == 35 else NOT, "exact formula"))
    part.rows.append(Row("delays", "chains on one device", "12 values", f"{same} equal", REPRODUCED if same == 12 else NOT, "exact formula"))
    ratios = order(types)
    found_order = ", ".join(name.upper() for name, _ in ratios)
    label = REPRODUCED if found_order == "CPU, NPU, ASIC, FPGA" else NOT
    part.rows.append(Row("greedy", "order of types (Eq. 5.32)", "CPU, NPU, ASIC, FPGA", found_order, label, ", ".join(f"{r:.3f}" for _, r in ratios)))
    return part


def _scenarios(folder: Path, options: Options, progress: Progress) -> Part:
    """The four scenarios of PA-P4VNF-RA."""
    part = Part("PA-P4VNF-RA: four scenarios")
    inputs = load_inputs("vnf")
    part.text = (
        "Plans by counting; all are proven to be optimal unless marked with *. 𝔻max is the delay of the cheapest plan, ℂmax the cost of the "
        "fastest one, which the thesis does not say.\n\n" + _inputs_text(inputs)
    )
    cloud = make_cloud(inputs)
    goals: dict[str, Callable[[float, float], vnf.Goal]] = {
        "1: delay": lambda delay, cost: vnf.Goal(1, 0),
        "2: cost": lambda delay, cost: vnf.Goal(0, 1),
        "3: both": lambda delay, cost: vnf.Goal(0.5, 0.5, delay, cost),
        "3: both, ℂmax = $100k": lambda delay, cost: vnf.Goal(0.5, 0.5, delay, 100_000),
        "4: delay, $100k": lambda delay, cost: vnf.Goal(1, 0, budget_usd=100_000),
    }
    cells: list[list[object]] = []
    delays: Series = {name: {} for name in goals}
    costs: Series = {name: {} for name in goals}
    last: dict[tuple[str, int], vnf.Purchase] = {}
    for number, count in enumerate(options.instances):
        if number % 10 == 0:
            progress(f"  scenarios: {count} instances")
        changed = {**inputs.workload["instances"], "count": count}
        workload = make_workload(inputs.changed(workload={"instances": changed}))
        delay, cost = vnf.maxima(cloud, workload, seconds=20)
        row: list[object] = [count]
        for name, goal in goals.items():
            wanted = goal(delay, cost)
            found = vnf.plan(cloud, workload, wanted, seconds=20)
            last[name, count] = found
            if found.plan is None:
                row.append("none")
                continue
            broken = violations(cloud, workload, found.plan, budget_usd=wanted.budget_usd)
            if broken:
                raise PlaceError(f"scenario {name}: the plan breaks a constraint: {broken[0]}")
            row.append(", ".join(f"{n} {kind}" for kind, n in found.devices.items()) + ("" if found.is_proven else " *"))
            delays[name][count], costs[name][count] = [found.delay_us], [found.cost_usd]
        cells.append(row)
    part.tables.append(("Devices bought", ["instances", *goals], cells))
    part.figures.append((plots.lines(folder / "scenarios-delay.svg", delays, x_label="instances", y_label="𝔻 (µs)", log_y=True), "Total delay"))
    part.figures.append((plots.lines(folder / "scenarios-cost.svg", costs, x_label="instances", y_label="ℂ ($)", log_y=True), "Total cost"))

    def bought(name: str, count: int) -> str:
        found = last.get((name, count))
        return "not computed" if found is None or found.plan is None else ", ".join(f"{n} {kind}" for kind, n in found.devices.items())

    at = 196
    begins = (bought("4: delay, $100k", 7), bought("4: delay, $100k", 21))
    turns = (bought("4: delay, $100k", 84), bought("4: delay, $100k", 91))
    part.rows += [
        Row("scenario 1", f"devices at about 200 ({at})", "15 ASICs", bought("1: delay", at), RELATION,
            "all on ASICs; 13 hold the functions, and each further one only adds the delay of its L3Fwd"),
        Row("scenario 2", f"devices at about 200 ({at})", "25 CPUs", bought("2: cost", at), REPRODUCED if bought("2: cost", at) == "25 cpu" else NOT,
            "needs 1 Gbit/s for the L3Fwd of each device, and 193 to 200 functions"),
        Row("scenario 3", f"devices at about 200 ({at})", "22 NPUs", bought("3: both", at), RELATION,
            "22 devices too, but which depends on ℂmax, which is not given; with ℂmax = $100k: " + bought("3: both, ℂmax = $100k", at)),
        Row("scenario 4", "up to 22 functions", "1, then 2 ASICs",
            f"7: {bought('4: delay, $100k', 7)}; 21: {bought('4: delay, $100k', 21)}; 28: {bought('4: delay, $100k', 28)}",
            REPRODUCED if begins == ("1 asic", "2 asic") else RELATION, "steps of 7; FPGAs from 35 on"),
        Row("scenario 4", "until 90", "2 ASICs and up to 4 FPGAs, then 1 ASIC", f"84: {turns[0]}; 91: {turns[1]}",
            REPRODUCED if turns[0] == "2 asic, 4 fpga" and turns[1].startswith("1 asic") else RELATION, "steps of 7"),
        Row("scenario 4", "until 174", "1 ASIC and FPGAs", f"112: {bought('4: delay, $100k', 112)}; 147: {bought('4: delay, $100k', 147)}", RELATION,
            "1 ASIC and 12 FPGAs cannot hold 174 distinct functions (§8.2 item 2)"),
        Row("scenario 4", "199", "20 FPGAs", f"175: {bought('4: delay, $100k', 175)}; {at}: {bought('4: delay, $100k', at)}", RELATION,
            "20 FPGAs hold 199 only without a rate for L3Fwd, which contradicts scenarios 2 and 3 (§8.2 item 2)"),
    ]  # fmt: skip
    return part


def _experiment1(folder: Path, options: Options, progress: Progress) -> Part:
    part = Part("Experiment 1: length, rate and delay bound")
    inputs = load_inputs("exp1")
    part.text = _inputs_text(inputs)
    cloud = make_cloud(inputs)
    layout = Layout(cloud)
    kinds = {2: (("LB", "L3Fwd"), 1), 4: (("FW", "LB", "NAT", "L3Fwd"), 2), 6: (("FW", "VDecap", "Tunneling", "LB", "NAT", "L3Fwd"), 3)}
    bounds: dict[str, float | str] = {"10 µs": 10, "100 µs": 100, "best effort": "best-effort"}
    cells = []
    series: Series = {}
    counts: dict[tuple[int, str], int] = {}
    power_at_60: dict[tuple[int, str], float] = {}
    for length, (functions, rate) in kinds.items():
        for name, bound in bounds.items():
            template = {"functions": list(functions), "rate_gbps": rate, "delay_us": bound}
            workload = make_workload(inputs.changed(workload={"templates": [template], "chains": 200}))
            state = State(cloud, workload, layout=layout)
            log = run(state, workload, stop_at_reject=True)
            _sound(cloud, workload, state, log)
            counts[length, name] = log.functions
            powers = log.power_w[: len(state.chains)]
            series[f"length {length}, {name}"] = {float(length * (k + 1)): [power] for k, power in enumerate(powers)}
            if len(powers) * length >= 60:
                power_at_60[length, name] = powers[60 // length - 1]
            cells.append([length, name, len(state.chains), log.functions, state.power_w, power_at_60.get((length, name))])
    headers = ["length", "bound", "chains", "functions", "power (W)", "power at 60 functions (W)"]
    part.tables.append(("Chains until the first one finds no place", headers, cells))
    part.figures.append((plots.lines(folder / "exp1.svg", series, x_label="functions", y_label="power (W)"), "Power"))
    found = " / ".join(str(counts[6, name]) for name in bounds)
    reason = "SipHash is the limit; the cloud is not given and was inferred from these counts"
    part.rows.append(Row("exp. 1", "functions, length 6: 10 µs / 100 µs / best effort", "78 / 126 / 162", found, RELATION, reason))
    watts = " / ".join(f"{power_at_60[6, name]:g} W" if (6, name) in power_at_60 else "none" for name in ("10 µs", "100 µs"))
    reason = "no set of devices that meets 100 µs has 280 W without a CPU (§8.2 item 3); cloud and chains are not given"
    part.rows.append(Row("exp. 1", "power at 60 functions: 10 µs / 100 µs", "568 W / 280 W", watts, NOT, reason))
    return part


def _experiment2(folder: Path, options: Options, progress: Progress) -> Part:
    part = Part("Experiment 2: share of ASICs among the switches")
    inputs = load_inputs("exp2")
    part.text = (
        "All chains are embedded together, because one by one a CPU, which takes less power than an ASIC, is always added first. Where plan and "
        "bound have the same power, the plan is optimal.\n\n" + _inputs_text(inputs)
    )
    series: Series = {}
    ratios = (0.0, 0.25, 0.5, 0.75, 1.0)
    counts = range(options.step, 151, options.step)
    cells: list[list[object]] = [[count] for count in counts]
    follows: dict[float, list[int]] = {}
    proven = total = 0
    for ratio in ratios:
        changed = inputs.changed(cloud={"asic_ratio": ratio})
        cloud = make_cloud(changed)
        points: dict[float, list[float]] = {}
        for row, count in enumerate(counts):
            workload = make_workload(changed.changed(workload={"chains": count}))
            result = embed_together(cloud, workload, seconds=20)
            broken = violations(cloud, workload, result.plan)
            if broken:
                raise PlaceError(f"experiment 2: the plan breaks a constraint: {broken[0]}")
            points[float(count)] = [result.power_w]
            total += 1
            proven += result.plan.proven
            cells[row].append(f"{result.power_w:g}" + ("" if result.plan.proven else " *"))
            if any(cloud.devices[device].type == "cpu" for device in result.state.active()):
                follows.setdefault(ratio, []).append(count)
        series[f"r = {ratio:g}"] = points
    part.tables.append((f"Power in W ({proven} of {total} proven, * not proven)", ["chains", *(f"r = {ratio:g}" for ratio in ratios)], cells))
    part.figures.append((plots.lines(folder / "exp2.svg", series, x_label="chains", y_label="power (W)"), "Power"))
    firsts = " / ".join(f"≤ {min(follows[ratio])}" if ratio in follows else "none" for ratio in ratios[1:])
    full = " / ".join(str(max((c for c in counts if c < min(follows.get(ratio, [10**9]))), default=0)) for ratio in ratios[1:])
    reason = f"4 racks and two of three chains with LB are chosen so that an ASIC is full after 30; the first CPU joins at {firsts}"
    part.rows.append(Row("exp. 2", "chains until ASICs are full, r = 0.25 / 0.5 / 0.75 / 1", "30 / 60 / 90 / 120", full, RELATION, reason))
    types = make_cloud(inputs).types
    plain = types["asic"].rate_gbps / types["cpu"].rate_gbps
    extern = types["asic"].externs["siphash24"].rate_gbps / types["cpu"].externs["siphash24"].rate_gbps
    ours = f"×{plain:.1f} / ×{extern:.1f}"
    part.rows.append(Row("exp. 2", "ASIC against CPU: plain / with extern", "×11 / ×6", ours, REPRODUCED, "exact formula"))
    return part


def _experiment3(folder: Path, options: Options, progress: Progress) -> Part:
    part = Part("Experiment 3: share of racks with IPUs")
    inputs = load_inputs("exp3")
    part.text = _inputs_text(inputs)
    series: Series = {}
    capacity, power = {}, {}
    cells = []
    for ratio in (0.0, 0.5, 1.0):
        changed = inputs.changed(cloud={"ipu_ratio": ratio})
        cloud, workload = make_cloud(changed), make_workload(changed)
        state = State(cloud, workload)
        log = run(state, workload, stop_at_reject=True)
        _sound(cloud, workload, state, log)
        capacity[ratio] = len(state.chains)
        few = make_workload(changed.changed(workload={"chains": 20}))
        power[ratio] = embed_together(cloud, few, seconds=20).power_w
        series[f"IPU ratio {ratio:g}"] = {float(k + 1): [watts] for k, watts in enumerate(log.power_w[: len(state.chains)])}
        cells.append([f"{ratio:g}", capacity[ratio], f"{100 * (capacity[ratio] / capacity[0.0] - 1):+.0f} %", log.power_w[19], power[ratio]])
    headers = ["ratio", "chains", "change", "20 chains one by one (W)", "20 chains together (W)"]
    part.tables.append(("Chains until the first one finds no place", headers, cells))
    part.figures.append((plots.lines(folder / "exp3.svg", series, x_label="chains", y_label="power (W)"), "Power, one by one"))
    ours = " / ".join(f"{100 * (capacity[ratio] / capacity[0.0] - 1):+.0f} %" for ratio in (0.5, 1.0))
    label = REPRODUCED if ours == "+125 % / +250 %" else NOT
    reason = "does not depend on the number of servers; all chains contain LB"
    part.rows.append(Row("exp. 3", "capacity at 0.5 / 1", "+125 % / +250 %", ours, label, reason))
    watts = " / ".join(f"{power[ratio]:g} W" for ratio in (0.0, 0.5, 1.0))
    reason = "embedded together; one by one CPUs are always added first"
    part.rows.append(Row("exp. 3", "power of 20 chains falls with the ratio", "falls", watts, RELATION, reason))
    return part


def _sound(cloud: Cloud, workload: Workload, state: State, log: Log) -> None:
    broken = violations(cloud, workload, plan_of(state, workload, log))
    if broken:
        raise PlaceError(f"method {log.method}: the plan breaks a constraint: {broken[0]}")


def _racks(inputs: Inputs, racks: int, chains: int) -> Inputs:
    arity = 4
    while arity * arity // 2 < racks:
        arity += 2
    return inputs.changed(cloud={"racks": racks, "arity": arity}, workload={"chains": chains})


def _experiment4(folder: Path, options: Options, progress: Progress) -> Part:
    part = Part("Experiment 4: with and without knowledge of delays")
    racks = min(options.racks, default=4)
    inputs = _racks(load_inputs("exp4"), racks, options.chains_per_rack * racks)
    part.text = (
        "The agnostic baseline embeds without delay bounds, compares the delay with the bound, and excludes the combination of device types if "
        "it is too long. Both embed one by one with the exact method; for some chains both also use the integer program.\n\n" + _inputs_text(inputs)
    )
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    layout = Layout(cloud)
    state = State(cloud, workload, layout=layout)
    log = run(state, workload)
    _sound(cloud, workload, state, log)

    other = State(cloud, workload, layout=layout)
    trials, seconds, powers = [], [], []
    for number, chain in enumerate(workload.chains):
        if number % 500 == 0:
            progress(f"  agnostic: {number} of {len(workload.chains)}")
        result = embed_by_trials(other, chain, by_labels)
        trials.append(result.trials)
        seconds.append(result.solving_s)
        if result.embedding is not None:
            other.place(chain, result.embedding)
        powers.append(other.power_w)
    until = next((k for k, answer in enumerate(log.answers.values()) if answer.embedding is None), len(workload.chains))
    differences = [one / two - 1 for one, two in zip(powers[:until], log.power_w[:until]) if two]
    extra = statistics.mean(trials[:until]) - 1
    ratio = sum(seconds[:until]) / sum(log.seconds[:until])
    program = _program_ratio(cloud, workload, options) if racks in options.program_racks else None
    series: Series = {
        "aware": {float(k + 1): [log.power_w[k]] for k in range(0, len(workload.chains), max(1, len(workload.chains) // 60))},
        "agnostic": {float(k + 1): [powers[k]] for k in range(0, len(workload.chains), max(1, len(workload.chains) // 60))},
    }
    part.figures.append((plots.lines(folder / "exp4.svg", series, x_label="chains", y_label="power (W)"), "Power"))
    part.tables.append(
        (
            f"{racks} racks, the first {until} chains, which all find a place",
            ["what", "aware", "agnostic"],
            [
                ["trials per chain", 1, f"{1 + extra:.3f}"],
                ["solving time per chain (ms)", 1e3 * statistics.mean(log.seconds[:until]), 1e3 * statistics.mean(seconds[:until])],
                ["power after them (W)", log.power_w[until - 1], powers[until - 1]],
                ["functions of all arrivals", log.functions, sum(len(c.functions) for c, _ in other.chains.values())],
            ],
        )
    )
    difference = f"{100 * statistics.mean(differences):+.2f} % on average" if differences else "no power"
    part.rows.append(Row("exp. 4", "power, agnostic against aware", "almost the same", difference, RELATION, "the thesis shows a figure only"))
    reason = "among embeddings of equal power the solver's choice decides, which is not given"
    part.rows.append(Row("exp. 4", "extra trials per chain", "1.68", f"{extra:.2f}", RELATION, reason))
    times = f"×{ratio:.1f} (labels)" + (f", ×{program:.1f} (integer program)" if program is not None else "")
    reason = "follows from the trials; HiGHS solves the program without delays faster"
    part.rows.append(Row("exp. 4", "solving time, agnostic against aware", "×2.6", times, RELATION, reason))
    return part


def _program_ratio(cloud: Cloud, workload: Workload, options: Options) -> float | None:
    """Returns by how much more time trials take with the integer program, for chains in a half-full cloud."""
    state = State(cloud, workload)
    chains = workload.chains[: len(workload.chains) // 3]
    count = 3 * max(1, options.program_chains // 2)
    for chain in chains[:-count]:
        answer = embed(state, chain)
        if answer.embedding is not None:
            state.place(chain, answer.embedding)
    solver: Solver = by_program(options.program_seconds)
    aware = agnostic = 0.0
    for chain in chains[-count:]:
        begin = time.process_time()
        found = Program(state, [chain]).solve(seconds=options.program_seconds)
        aware += time.process_time() - begin
        agnostic += embed_by_trials(state, chain, solver, trials_max=20).solving_s
        if chain.name in found.embeddings:
            state.place(chain, found.embeddings[chain.name])
    return agnostic / aware if aware else None


def _experiment5(folder: Path, options: Options, progress: Progress) -> Part:
    part = Part("Experiment 5: exact method, heuristics and integer program by size")
    inputs = load_inputs("exp4")
    part.text = (
        f"{options.chains_per_rack} chains per rack arrive one by one, more than find a place. The integer program (HiGHS, one thread, "
        f"{options.program_seconds:g} s) solves {options.program_chains} of the arrivals in the state that the exact method has reached, building "
        "included; its power is compared. Functions *until reject* are those before the first chain without a place.\n\n" + _inputs_text(inputs)
    )
    published = {4: (435, 5), 10: (4137, 30), 20: (28500, 35), 30: (64000, 53)}
    times: list[list[object]] = []
    results: list[list[object]] = []
    compared = equal = 0
    series: Series = {}
    slowest = shares = greedy_share = 1.0
    worst_exact = worst_quick = 0.0
    unproven = 0
    for racks in options.racks:
        changed = _racks(inputs, racks, options.chains_per_rack * racks)
        cloud, workload = make_cloud(changed), make_workload(changed)
        layout = Layout(cloud)
        # What is there now stays: the garbage collector, whose pauses would be those of chains, need not look at it.
        gc.freeze()
        logs: dict[str, Log] = {}
        powers: dict[str, float] = {}
        program: dict[str, float] = {}
        sampled: set[str] = set()
        if racks in options.program_racks:
            places = [(k + 0.5) / options.program_chains for k in range(options.program_chains)]
            sampled = {workload.chains[int(place * len(workload.chains))].name for place in places}

        def compare(state: State, chain: Chain) -> Answer:
            nonlocal compared, equal
            answer = embed(state, chain)
            if chain.name in sampled:
                progress(f"  {racks} racks, integer program for {chain.name}")
                begin = time.process_time()
                found = Program(state, [chain]).solve(seconds=options.program_seconds)
                program[chain.name] = 1e3 * (time.process_time() - begin)
                if found.is_proven:
                    compared += 1
                    same = bool(found.embeddings) == (answer.embedding is not None)
                    equal += same and (not found.embeddings or abs(found.power_w - answer.power_w) < 1e-3)
            return answer

        state = State(cloud, workload, layout=layout)
        log = run(state, workload, compare)
        _sound(cloud, workload, state, log)
        logs["exact"], powers["exact"] = log, state.power_w
        unproven += sum(not answer.is_proven for answer in log.answers.values())
        sizes = min(sum(state.functions[name].size for name in chain.functions) for chain in workload.chains[:3])
        rate = min(chain.rate_gbps for chain in workload.chains[:3])
        for name in ("heuristic", "greedy, rate per chain", "greedy, rate per function"):
            progress(f"  {racks} racks, {name}")
            state = State(cloud, workload, layout=layout)
            method: Embedder = embed_quickly
            if name != "heuristic":
                method = _greedy(state, Settings(sizes, rate, name.endswith("function")))
            logs[name] = run(state, workload, method, method=name)
            _sound(cloud, workload, state, logs[name])
            powers[name] = state.power_w
        milliseconds = {name: sorted(1e3 * second for second in log.seconds) for name, log in logs.items()}
        worst_exact = max(worst_exact, milliseconds["exact"][-1])
        worst_quick = max(worst_quick, milliseconds["heuristic"][-1])
        row: list[object] = [racks, len(cloud.devices), len(workload.chains)]
        for name in ("exact", "heuristic"):
            values = milliseconds[name]
            row += [f"{statistics.mean(values):.2f}", f"{values[int(0.99 * (len(values) - 1))]:.2f}", f"{values[-1]:.1f}"]
        row += [f"{statistics.mean(milliseconds['greedy, rate per chain']):.2f}"]
        row += [f"{statistics.mean(program.values()):.0f} ({len(program)})" if program else "not run"]
        row += [" / ".join(map(str, published[racks])) if racks in published else ""]
        times.append(row)
        for name, values in milliseconds.items():
            series.setdefault(name, {})[float(racks)] = [statistics.mean(values)]
        if program:
            series.setdefault("integer program", {})[float(racks)] = list(program.values())
        for name, log in logs.items():
            results.append([racks, name, log.functions, f"{log.functions / logs['exact'].functions:.1%}", log.functions_until_reject, powers[name]])
        shares = min(shares, logs["heuristic"].functions / logs["exact"].functions)
        greedy_share = min(greedy_share, logs["greedy, rate per function"].functions / logs["exact"].functions)
        slowest = max(slowest, statistics.mean(program.values()) / statistics.mean(milliseconds["exact"]) if program else 0)
        if racks == 4:
            part.rows.append(
                Row(
                    "exp. 5", "functions at 4 racks, ILP / greedy", "2018 / 1480",
                    f"exact {logs['exact'].functions} ({logs['exact'].functions_until_reject} until reject), greedy "
                    f"{logs['greedy, rate per chain'].functions} (rate per chain) or {logs['greedy, rate per function'].functions} (per function)",
                    RELATION, "arrival order, end and rate accounting are not given (§8.2 item 1)",
                )
            )  # fmt: skip
    headers = ["racks", "devices", "chains", "exact: mean", "99 %", "max", "heuristic: mean", "99 %", "max", "greedy: mean"]
    headers += ["integer program: mean (n)", "thesis: ILP / greedy"]
    part.tables.append(("Processor time per chain in ms", headers, times))
    part.tables.append(("Functions that find a place", ["racks", "method", "functions", "of exact", "until reject", "power (W)"], results))
    part.figures.append((plots.lines(folder / "exp5.svg", series, x_label="racks", y_label="ms per chain", log_y=True), "Time per chain"))
    part.rows += [
        Row("exp. 5", "greedy embeds fewer than ILP", "26.6 % fewer", f"{1 - greedy_share:.1%} fewer (rate per function)", RELATION, "§8.2 item 1"),
        Row("exp. 5", "greedy is far faster than ILP", "×87 to ×1208", "see the table", RELATION, "other solver and machine"),
        Row("exp. 5", "exact method against integer program", "", f"same power for {equal} of {compared} chains; up to ×{slowest:.0f} faster", "",
            "not in the thesis"),
        Row("exp. 5", "exact method: slowest chain, proven", "", f"{worst_exact:.0f} ms, {unproven} not proven", "",
            "not in the thesis; aim: below 1 s"),
        Row("exp. 5", "heuristic: share of exact's functions, slowest chain", "", f"{shares:.1%}, {worst_quick:.0f} ms", "",
            "not in the thesis; aim: 95 %, 10 ms"),
    ]  # fmt: skip
    return part


def _greedy(state: State, settings: Settings) -> Embedder:
    greedy = Greedy(state, settings)
    return lambda _, chain: greedy.embed(chain)


EXPERIMENTS: dict[str, Callable[[Path, Options, Progress], Part]] = {
    "delays": _delays,
    "scenarios": _scenarios,
    "exp1": _experiment1,
    "exp2": _experiment2,
    "exp3": _experiment3,
    "exp4": _experiment4,
    "exp5": _experiment5,
}
