"""Regenerates the tables of the performance thesis that p4jet predict, p4jet queue and p4jet-place cover: `p4jet-lab thesis`.

The thesis is H. Harkous, TU München 2022; tables and sections are numbered as there or as in the summary (§4.1, 4.2, 4.6 to 4.9, 8.1).
Its printed values are in `data/performance.json`, in the profiles, in the catalogue of p4jet-place, and beside the experiments of
:mod:`p4jet.place.experiments`; nothing is written down twice. Each figure has a label, see :data:`LABELS`.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import constructs, inventory
from .errors import LabError
from .report import Report
from .switches.p4jet import programs_folder
from .tester import p4jet_binary

if TYPE_CHECKING:
    from ..place.experiments import Part

EXACT, SIMULATED, MODELLED, NOT = "exact", "simulated", "modelled", "not reproducible"
LABELS = {
    EXACT: "the published formula with the published inputs gives the printed value to its last digit, or the value is such an input",
    SIMULATED: "our event simulation with the published inputs",
    MODELLED: "our model gives the value, and differs from a measurement of the thesis, or needs inputs that the thesis does not give",
    NOT: "needs the devices, or does not follow from what is given",
}
NEEDS_DEVICE = "a measurement of the device"
COUNTS = ("parse", "modify", "copy", "remove", "add", "table")
PROFILES_OF_PLACEMENT = ("cpu", "npu", "fpga", "asic")
PROGRAMS = {
    "L2Fwd": "l2fwd", "L3Fwd": "l3fwd", "FW": "firewall", "VDecap": "vxlan_decap", "LB": "load_balancer", "Tunneling": "tunneling",
    "NAT": "nat",
}  # fmt: skip
"""The program of each function of T5.5 in programs/nf_catalogue."""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """Sizes; they decide how long it takes."""

    packets: int = 1_300_000
    """Of each simulated run."""
    runs: int = 5
    programs: Path | None = None
    racks: tuple[int, ...] = ()
    """Sizes of the clouds in experiment 5; by default those of the thesis."""
    is_quick: bool = False
    """Small experiments of placement."""


QUICK = Options(packets=20_000, runs=3, is_quick=True)


@dataclass(frozen=True)
class Figure:
    """A figure of the thesis beside ours."""

    what: str
    thesis: str
    ours: str
    label: str
    reason: str = ""

    def __post_init__(self) -> None:
        if self.label not in LABELS:
            raise LabError(f"figure {self.what}: found label {self.label!r}, expected one of: {', '.join(LABELS)}")


@dataclass
class Table:
    """A table of the thesis, or the figures of a section."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    text: str = ""

    def add(self, what: str, thesis: object, ours: object, label: str, reason: str = "") -> None:
        self.figures.append(Figure(what, str(thesis), str(ours), label, reason))


@cache
def published() -> dict[str, Any]:
    """Returns the content of `data/performance.json`."""
    data: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "performance.json").read_text(encoding="utf-8"))
    return data


def ask(*arguments: str, timeout: float = 600) -> Any:
    """Returns the JSON document of a p4jet command. Raises :class:`LabError`."""
    command = [p4jet_binary(), *arguments, "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(command)}: still ran after {timeout:g} s") from None
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


def estimate(profile: str, counts: Sequence[int]) -> float:
    """Returns the delay in µs by `p4jet predict` (Eq. 4.6)."""
    (found,) = ask("predict", "--profile", profile, f"--counts={','.join(map(str, counts))}")
    return float(found["us"])


@cache
def profile(name: str) -> dict[str, Any]:
    """Returns a shipped profile: of each number its value and provenance."""
    (found,) = ask("predict", "--profile", name, "--show")
    return dict(found)


def properties(options: Options, progress: Progress) -> list[Table]:
    """§4.1: what the devices are."""
    data = published()
    devices = Table("T2.1 Devices")
    for device, *cells in data["T2.1"]["rows"]:
        known = data["T2.1"]["profiles"].get(device)
        if known is None:
            devices.add(device, ", ".join(cells), "no profile", NOT, "facts about a device that the models do not use")
        else:
            shipped = profile(known)
            ours = f"profile {known}: {shipped['kind']}, {', '.join(shipped['architectures'])}"
            devices.add(device, ", ".join(cells), ours, EXACT, "an input" + ("; PISA here, PSA in T5.6, taken as one" if known == "asic" else ""))
    benchmarks = Table("T3.1 Micro-benchmarks")
    for what, family in data["T3.1"]["constructs"].items():
        count = len(constructs.family(family))
        benchmarks.add(what, "a family of programs", f"family {family}: {count} programs", EXACT, "generated by p4jet.lab.constructs (§3.3)")
    sizes = ", ".join(str(size) for size in data["T3.1"]["sizes"])
    benchmarks.add("frame sizes (B)", sizes, f"{sizes}, at most {max(of.size_max for of in constructs.FAMILIES.values())}", EXACT, "an input")
    relative = Table("T3.6 Relative properties", text="More + are better; t4p4s, Agilio, NetFPGA, Tofino. Ours is the order of the numbers in the profiles of T5.6.")
    shipped = {name: profile(name) for name in PROFILES_OF_PLACEMENT}
    keys: dict[str, tuple[Callable[[Mapping[str, Any]], float], bool]] = {
        "Throughput": (lambda of: float(of["limits"]["rate_gbps"]["value"]), True),
        "Forwarding latency": (lambda of: float(of["base_us"]["1500"]["value"]), False),
        "Resource availability": (lambda of: float(of["limits"]["constructs"]["value"]), True),
        "Price": (lambda of: float(of["economy"]["price_usd"]["value"]), False),
    }
    for what, marks in data["T3.6"]["rows"].items():
        if what not in keys:
            reason = "the profiles' σ order NPU before FPGA" if what == "Jitter" else "needs the devices or other literature"
            relative.add(what, " / ".join(marks), "–", NOT, reason)
            continue
        of, is_more_better = keys[what]
        values = [of(shipped[name]) for name in PROFILES_OF_PLACEMENT]
        better = sorted(values, reverse=not is_more_better)
        ranks = ["+" * (1 + better.index(value)) for value in values]
        ours = f"{' / '.join(ranks)} ({', '.join(f'{value:g}' for value in values)})"
        reason = "the order of T5.6" if ranks == marks else "NPU and FPGA have equal links in T5.6"
        relative.add(what, " / ".join(marks), ours, EXACT if ranks == marks else MODELLED, reason)
    return [devices, benchmarks, relative]


def construct_delays(options: Options, progress: Progress) -> list[Table]:
    """§4.2: delays of constructs, from the profiles."""
    table = Table(
        "4.2 Delays of constructs",
        text="In µs. The thesis describes figures of measurements in words; ours are estimates from the profiles, which were fitted to them.",
    )
    for figure in published()["4.2"]["figures"]:

        def at(count: int) -> float:
            counts = [figure["base"] - 1, 0, 0, 0, 0, 0]
            counts[COUNTS.index(figure["construct"])] = count
            return estimate(figure["device"], counts)

        begin, end = at(figure["from"]), at(figure["to"])
        one = 1 if figure["construct"] == "parse" else 0
        what = f"{figure['construct']} {figure['from'] + one} → {figure['to'] + one}, {figure['device']}"
        pairs = (("at_from", begin), ("at_to", end), ("rise", end - begin))
        reason = "; ".join(
            f"{name}: {ours - float(figure[key]):+.1f} µs" for (key, ours), name in zip(pairs, ("begin", "end", "rise")) if key in figure
        )
        table.add(what, figure["text"], f"{begin:.1f} → {end:.1f} ({end - begin:+.1f})", MODELLED, f"ours less the thesis's: {reason}" if reason else "the shape")
    for what, reason in published()["4.2"]["not_reproducible"].items():
        table.add(what, "measured", "–", NOT, reason)
    return [table]


def estimates(options: Options, progress: Progress) -> list[Table]:
    """§4.6: T4.1."""
    data = published()
    table = Table("T4.1 Validation of estimates", text="In µs. A program's path is the one whose counts p4jet's analyser finds equal to x.")
    folder = programs_folder(options.programs) / "nf_catalogue"
    for function in data["T4.1"]["functions"]:
        progress(f"  {function['name']}")
        program = str(folder / function["program"] / f"{function['program']}.p4")
        for place, device in enumerate(data["devices"]):
            measured, printed = function["measured"][place], function["estimated"][place]
            ours = estimate(device, function["counts"])
            table.add(f"{function['name']} on {device}: measured", measured, "–", NOT, NEEDS_DEVICE)
            error = f"{100 * (ours / measured - 1):+.2f} % from the measurement"
            table.add(f"{function['name']} on {device}: estimated", printed, f"{ours:.2f}", _if_equal(ours, printed, 1), f"Eq. 4.6; {error}")
            (found,) = ask("predict", program, "--profile", device)
            equal = [path for path in found["paths"] if path["x"] == function["counts"]]
            if not equal:
                raise LabError(f"{program}: found no path with the counts {function['counts']}, expected one")
            from_program = float(equal[0]["estimate"]["us"])
            table.add(
                f"{function['name']} on {device}: from the program", printed, f"{from_program:.2f}", _if_equal(from_program, printed, 1),
                f"{function['program']}.p4, path {equal[0]['path']}",
            )  # fmt: skip
    return [table]


def _if_equal(ours: float, printed: float, digits: int) -> str:
    """Returns the label of a value that should be the printed one, which has this number of digits after the point."""
    return EXACT if abs(ours - printed) <= 0.5 * 10**-digits + 1e-9 else MODELLED


def _models(device: str, function: str, controller_us: float, new_flows: float, *more: str) -> Any:
    """Returns the answer of `p4jet queue model` with the measured service times of T4.1."""
    return ask("queue", "model", *_parameters(device, function, controller_us, new_flows), *more)


def _parameters(device: str, function: str, controller_us: float, new_flows: float) -> list[str]:
    data = published()
    (of,) = [of for of in data["T4.1"]["functions"] if of["name"] == function]
    service = of["measured"][data["devices"].index(device)]
    deviation = profile(device)["deviation_us"]["value"]
    found = ["--service-us", f"{service:g}", "--deviation-us", f"{deviation:g}"]
    return [*found, "--controller-us", f"{controller_us:g}", "--new-flows", f"{new_flows:g}"]


def queues(options: Options, progress: Progress) -> list[Table]:
    """§4.7 and the tables of §8.1 about queues."""
    data = published()
    tables = []
    sizes = ["--packets", str(options.packets), "--runs", str(options.runs)]
    small = f"; {options.packets} packets per run, {options.runs} runs"
    statements = Table("4.7 Queueing models")
    progress("  151 cases, simple model")
    simple = ask("queue", "errors", "--model", "simple", *sizes)
    limit = data["4.7"]["deviation_simple_percent"]
    statements.add("simple model against simulation, average deviation", f"< {limit:g} %", f"{simple['mean_percent']:.2f} % of 151 cases", SIMULATED, "§3.13" + small)
    progress("  151 cases, refined model")
    refined = ask("queue", "errors", "--model", "refined", *sizes)
    limit = data["4.7"]["error_refined_percent"]
    above = [case for case in refined["cases"] if abs(case["error_percent"]) > limit]
    shown = "; ".join(
        f"{case['service_us']:g} µs, controller {case['controller_us']:g} µs, P_nf {case['new_flow_share']:g}, ρ_c {case['controller_load']:g}: "
        f"{case['error_percent']:+.1f} %" for case in sorted(above, key=lambda case: -abs(case["error_percent"]))[:2]
    )  # fmt: skip
    statements.add(
        "refined model, error below a load of 0.9", f"< {limit:g} %", f"{len(above)} of {len(refined['cases'])} cases above: {shown}", SIMULATED,
        "does not hold in two cases (§8.2 item 9)" + small,
    )  # fmt: skip
    statements.add("refined model against simulation, mean error", "–", f"{refined['mean_percent']:.2f} %", SIMULATED, "not printed" + small)
    for function, printed in data["4.7"]["low_load"].items():
        (row,) = _models("agilio-cx", function, 240, 0, "--load", "0.05")["rows"]
        ours = row["simple"]["us"]
        label = _if_equal(ours, printed, 1 if isinstance(printed, float) else 0)
        statements.add(f"agilio-cx, {function}, P_nf 0, load 0.05 (µs)", printed, f"{ours:.2f}", label, "Eq. 4.9")
    for name, controller, orders in (("slow", 10_000, "2 to 3"), ("average", 240, "1 to 2")):
        ratios = []
        for device in data["devices"]:
            # At a low load of both servers, so that all devices are stable.
            with_new, without = (_models(device, "L3Fwd", controller, share, "--load", "0.05")["rows"][0] for share in (1, 0))
            if with_new["simple"] and without["simple"]:
                ratios.append(with_new["simple"]["us"] / without["simple"]["us"])
        ours = f"×{min(ratios):.0f} to ×{max(ratios):.0f}"
        statements.add(
            f"P_nf 0 → 1, {name} controller: sojourn time rises by orders of magnitude", orders, ours, MODELLED, "L3Fwd at a load of 0.05; the loads are not given"
        )
    statements.add("fast controller, t4p4s: sojourn time (simple)", "up to 1000 µs", "–", NOT, "the load is not given, and the time has no bound near saturation")
    lower = [row for row in data["8.1 sojourn"]["rows"] if row["refined"] is not None and row["refined"] < row["simple"]]
    statements.add("refined below simple", "always", f"{len(lower)} of {len(lower)} stable cases of the table below", EXACT, "Eqs. 4.9 and 4.12")
    for of in data["4.7"]["unstable"]:
        wanted = {tuple(case) for case in of["cases"]}
        unstable = {}
        for device in data["devices"]:
            for function in data["4.7"]["low_load"]:
                for share in data["4.7"]["new_flows"]:
                    limit = _models(device, function, of["controller_us"], share, "--load", "0.01")["controller_load_limit"]
                    # The thesis's sweep ends at this load.
                    if limit < 0.95:
                        unstable[device, function, share] = limit
        ours = "; ".join(f"{device} {function} at {share:g} (ρ_c > {limit:.2f})" for (device, function, share), limit in unstable.items())
        what = f"unstable cases, controller of {of['controller_us']} µs"
        statements.add(what, of["text"], ours or "none", EXACT if unstable.keys() == wanted else MODELLED, "Eq. 4.13, loads up to 0.95")
    tables.append(statements)

    stability = Table("8.1 Stability limits", text="The largest load of the controller before the data plane is saturated; above 1 it is always stable.")
    for row in data["8.1 stability"]["rows"]:
        for column, printed in zip(data["8.1 stability"]["columns"], row["limits"], strict=True):
            device, _, function = column.partition(" ")
            found = _models(device, function or "L3Fwd", row["controller_us"], row["new_flows"], "--load", "0.01")
            ours = found["controller_load_limit"]
            what = f"{column}, controller {row['controller_us']} µs, P_nf {row['new_flows']:g}"
            stability.add(what, f"{printed:.3f}", f"{ours:.3f}", _if_equal(ours, printed, 3), "Eq. 4.13")
    tables.append(stability)

    sojourn = Table("8.1 Sojourn times", text="In µs, L3Fwd, ρ_c = 0.5, mean over all packets.")
    for row in data["8.1 sojourn"]["rows"]:
        progress(f"  {row['device']}, controller {row['controller_us']} µs")
        (found,) = _models(row["device"], "L3Fwd", row["controller_us"], row["new_flows"], "--load", "0.5")["rows"]
        for name, law, equation in (("simple", "exponential", "4.9"), ("refined", "erlang", "4.12")):
            what = f"{row['device']}, controller {row['controller_us']} µs, P_nf {row['new_flows']:g}, {name}"
            if row[name] is None:
                is_same = found[name] is None
                sojourn.add(what, "unstable", "unstable" if is_same else f"{found[name]['us']:.3f}", EXACT if is_same else MODELLED, f"Eq. {equation}")
                continue
            ours = found[name]["us"]
            sojourn.add(what, f"{row[name]:.3f}", f"{ours:.3f}", _if_equal(ours, row[name], 3), f"Eq. {equation}")
            parameters = _parameters(row["device"], "L3Fwd", row["controller_us"], row["new_flows"])
            (simulated,) = ask("queue", "simulate", *parameters, "--load", "0.5", "--law", law, *sizes)
            result = simulated["simulated"]
            sojourn.add(f"{what}: simulated", f"{row[name]:.3f}", f"{result['us']:.1f} ± {result['half_width_us']:.1f}", SIMULATED, f"{law} service{small}")
    tables.append(sojourn)
    return tables


def planning(options: Options, progress: Progress, parts: Mapping[str, Part]) -> list[Table]:
    """§4.8: T5.5, T5.6 and the scenarios."""
    from ..place import experiments, files
    from ..place.model import single_device_us

    folder = programs_folder(options.programs) / "nf_catalogue"
    catalogue = Table("T5.5 Catalogue of functions", text="Parsed, modified, copied, removed, added headers, tables, of the thesis and of the program's path.")
    functions = files.load_functions(files.CATALOGUE, entries=0)
    for name, function in functions.items():
        progress(f"  {name}")
        printed = [function.counts[count] for count in COUNTS]
        x = [max(0, count - 1) if kind in ("parse", "table") else count for kind, count in zip(COUNTS, printed)]
        program = folder / PROGRAMS[name] / f"{PROGRAMS[name]}.p4"
        (found,) = ask("predict", str(program), "--profile", "asic")
        equal = [path["path"] for path in found["paths"] if path["x"] == x]
        ours = f"x = {x} (path {equal[0]})" if equal else "no such path"
        reason = "the program needs CRC-32 for SipHash, which v1model lacks" if function.externs else ""
        catalogue.add(f"{name} ({program.name})", ", ".join(map(str, printed)), ours, EXACT if equal else NOT, reason)
    devices = Table("T5.6 Catalogue of devices", text="CPU, NPU, FPGA, ASIC. The numbers of the thesis are those of the shipped profiles, which give each its provenance.")
    shipped = [profile(name) for name in PROFILES_OF_PLACEMENT]
    devices.add("architecture", " / ".join(", ".join(of["architectures"]) for of in shipped), "as the profiles", EXACT, "an input; PSA and PISA are one (§8.2 item 4)")
    for what, keys in (
        ("rate of a link (Gbit/s)", ("limits", "rate_gbps")), ("power (W)", ("economy", "power_w")), ("constructs", ("limits", "constructs")),
        ("price ($)", ("economy", "price_usd")), ("SipHash-2-4: rate (Gbit/s)", ("externs", "siphash24", "rate_gbps")),
        ("SipHash-2-4: delay (µs)", ("externs", "siphash24", "latency_us")), ("base delay (µs)", ("base_us", "1500")),
        *((f"{count} (µs)", ("cost_us", count)) for count in COUNTS),
    ):  # fmt: skip
        numbers = []
        for of in shipped:
            value: Any = of
            for key in keys:
                value = value[key]
            numbers.append(value)
        provenance = " / ".join(number["provenance"] for number in numbers)
        devices.add(what, " / ".join(f"{number['value']:g}" for number in numbers), "as the profiles", EXACT, f"an input: {provenance}")
    delays = Table("8.1 Delays of functions and chains (Eq. 5.1)", text="In µs on CPU, NPU, FPGA and ASIC.")
    types = {name: files.load_profile(name, frame_bytes=1500) for name in PROFILES_OF_PLACEMENT}
    _add_rows(delays, [parts["delays"]])
    for name, function in functions.items():
        size, *printed_us = experiments.DELAYS[name]
        values = [types[kind].function_us(function) for kind in PROFILES_OF_PLACEMENT]
        label = EXACT if function.size == size and all(map(_is_same, values, printed_us)) else MODELLED
        delays.add(f"{name}: ω, Δ", f"{size}: {_slashed(printed_us)}", f"{function.size}: {_slashed(values)}", label, "Eq. 5.1")
    for chain, chain_us in experiments.CHAINS.items():
        values = [single_device_us(types[kind], [functions[name] for name in chain]) for kind in PROFILES_OF_PLACEMENT]
        label = EXACT if all(map(_is_same, values, chain_us)) else MODELLED
        delays.add(" → ".join(chain), _slashed(chain_us), _slashed(values), label, "Eq. 5.1 and the base delay")
    scenarios = Table("4.8 Scenarios of PA-P4VNF-RA")
    _add_rows(scenarios, [parts["scenarios"]])
    return [catalogue, devices, delays, scenarios]


def _is_same(ours: float, printed: float) -> bool:
    return abs(ours - printed) < 0.005


def _slashed(values: Sequence[float]) -> str:
    return " / ".join(f"{round(value, 6):.6g}" for value in values)


def embedding(options: Options, progress: Progress, parts: Mapping[str, Part]) -> list[Table]:
    """§4.9: the experiments of PA-P4SFC-E, and T5.1."""
    experiments = Table("4.9 Experiments of PA-P4SFC-E")
    _add_rows(experiments, [parts[name] for name in parts if name.startswith("exp")])
    others = Table("T5.1 Placement in other publications", text="VNF-OP, VNF-AAPC, P4NFV, Flightplan, the thesis.")
    for what, marks in published()["T5.1"]["rows"].items():
        others.add(what, " ".join(marks), "✓ (p4jet-place)", NOT, "statements about other publications; ours says what p4jet-place has")
    return [experiments, others]


def _add_rows(table: Table, parts: Sequence[Part]) -> None:
    """Adds the rows of experiments that compare with the thesis. Times of its solver and machine cannot be reproduced."""
    for part in parts:
        for row in part.rows:
            if not row.thesis:
                continue
            if "time" in row.what or "faster" in row.what:
                label, reason = NOT, f"a time of another solver and machine; {row.reason}"
            elif row.label == "reproduced":
                label, reason = EXACT, row.reason
            elif row.label == "relation only":
                label, reason = MODELLED, f"relation only: {row.reason}"
            else:
                label, reason = NOT, row.reason
            table.add(f"{row.experiment}: {row.what}", row.thesis, row.ours, label, reason)


SECTIONS = ("properties", "constructs", "estimates", "queues", "planning", "embedding")


def tables(out: Path, options: Options, wanted: Sequence[str], progress: Progress) -> dict[str, list[Table]]:
    """Computes the tables of sections. Placement also writes its own report into `out`/placement. Raises :class:`LabError`."""
    simple: dict[str, Callable[[Options, Progress], list[Table]]] = {
        "properties": properties, "constructs": construct_delays, "estimates": estimates, "queues": queues,
    }  # fmt: skip
    placing = {"planning": (planning, ("delays", "scenarios")), "embedding": (embedding, ("exp1", "exp2", "exp3", "exp4", "exp5"))}
    found: dict[str, list[Table]] = {}
    all_parts: list[Part] = []
    seconds = 0.0
    for name in wanted:
        progress(f"{name} …")
        if name in simple:
            found[name] = simple[name](options, progress)
            continue
        try:
            from ..place import experiments
        except ImportError as error:
            raise LabError(f"section {name} needs p4jet.place ({error}): pip install 'p4jet[place]', or choose other sections") from error
        function, names = placing[name]
        begin = time.perf_counter()
        sizes = experiments.QUICK if options.is_quick else experiments.Options()
        if options.racks:
            sizes = replace(sizes, racks=options.racks, program_racks=options.racks)
        parts = dict(zip(names, experiments.perform(out / "placement", sizes, names, progress=progress), strict=True))
        seconds += time.perf_counter() - begin
        all_parts += parts.values()
        found[name] = function(options, progress, parts)
    if all_parts:
        from ..place import experiments

        experiments.write(out / "placement", all_parts, seconds)
    return found


def write(out: Path, options: Options, wanted: Sequence[str] = SECTIONS, *, progress: Progress = print) -> tuple[Path, Path]:
    """Computes all tables and writes the report; returns the paths of report.md and report.html."""
    found = tables(out, options, wanted, progress)
    report = Report("Prediction and placement: the tables of the thesis")
    report.text(
        f"{published()['source']}. Each figure has one of these labels:\n\n" + "\n".join(f"* **{label}**: {text}" for label, text in LABELS.items())
    )
    everything = [figure for section in found.values() for table in section for figure in table.figures]
    report.table(["label", "figures"], [[label, sum(figure.label == label for figure in everything)] for label in LABELS])
    if options.is_quick:
        report.text("A quick run: few simulated packets and small clouds, so simulated and modelled figures scatter.")
    for section in found.values():
        for table in section:
            report.heading(table.name)
            if table.text:
                report.text(table.text)
            report.table(
                ["what", "thesis", "here", "label", "how, or why not"], [[f.what, f.thesis, f.ours, f.label, f.reason] for f in table.figures]
            )
    report.heading("Elsewhere")
    report.text(
        "§4.3 and 4.4 are those of `p4jet-lab scale` and `update`, 4.5 and 4.10 other studies. "
        + ("`placement/report.md` has the whole results of placement. " if {"planning", "embedding"} & found.keys() else "")
        + "`p4jet-lab queue` measures a switch with a controller, `p4jet-place loop` a plan; the thesis has neither."
    )
    report.heading("Machine")
    report.mapping(inventory.machine())
    return report.write(out)
