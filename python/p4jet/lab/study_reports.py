"""The reports of `p4jet-lab scale`, `update` and `sweep`, with the values of the studies that they follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from . import plots, stats
from . import scale as scale_experiment
from . import sweep as sweep_experiment
from . import update as update_experiment
from .compare_report import LIMITED_NOTE, disturbances, left_out, limited_mark
from .dut import CABLE, title
from .report import Report
from .store import Row, Store
from .thesis import published


def _good(rows: Sequence[Row], **values: object) -> list[Row]:
    """Returns the successful runs with these values of variables."""
    return [row for row in rows if row["status"] == "ok" and all(row["values"][name] == value for name, value in values.items())]


def _cell(rows: Sequence[Row], metric: str, form: str = "{:.3g}") -> str:
    """Returns mean and range of a metric as text, with a star if the generator was the limit in any run."""
    found = [row["metrics"][metric] for row in rows if metric in row["metrics"]]
    if not found:
        return ""
    values = [one.value for one in found]
    spread = f" ({form.format(min(values))}–{form.format(max(values))})" if len(values) > 1 else ""
    return form.format(stats.mean(values)) + limited_mark(found) + spread


def _begin(store: Store, session: int, name: str) -> tuple[Report, list[Row]]:
    about = store.session(session)
    report = Report(name)
    report.text(
        f"Session {session}, started {about['started']}, commit {about['commit'][:12]}. {about['ok']} runs succeeded, "
        f"{about['failed']} failed. Everything is measured, nothing modelled, unless it says otherwise."
    )
    disturbances(report, about["inventory"])
    return report, store.rows(session=session)


def _end(report: Report, store: Store, session: int, skipped: Mapping[str, str], folder: Path) -> tuple[Path, Path]:
    about = store.session(session)
    left_out(report, store.rows(session=session), skipped)
    report.heading("Machine")
    report.mapping({name: value for name, value in about["inventory"].items() if name != "experiment"})
    folder.mkdir(parents=True, exist_ok=True)
    store.csv(folder / "runs.csv", session)
    report.text("`runs.csv` has one row for each run.")
    return report.write(folder)


def _pooled(store: Store, session: int, name: str, variables: Sequence[str]) -> dict[tuple[object, ...], list[float]]:
    """Returns the samples of all repetitions by the values of variables."""
    pooled: dict[tuple[object, ...], list[float]] = {}
    for values, _, samples in store.samples(session, name):
        pooled.setdefault(tuple(values[variable] for variable in variables), []).extend(samples.values)
    return pooled


def scale(
    store: Store, session: int, options: scale_experiment.Options, skipped: Mapping[str, str], folder: Path
) -> tuple[Path, Path]:
    """Writes the report of `scale`."""
    report, rows = _begin(store, session, "Flow scalability")
    report.heading("Method")
    report.text(
        f"Switches route IPv4 by destination, with one table: exact addresses, prefixes or masks of 24 bits. R1F1 has one rule and one "
        f"flow; Rmax has the most rules, with one flow (F1), 1000 flows (F1k) or one for each rule (Fmax, as far as a capture of "
        f"{scale_experiment.CAPTURE_MAX >> 20} MiB holds them). Every flow hits a rule of its own. The most rules are searched by halving "
        f"from {options.rules_max:,}: the switch must start, and forward frames to its first, middle and last rule.\n\n"
        f"Frames have {options.size} bytes without frame check sequence. Rates at full speed for {options.seconds:g} s; latencies at "
        f"{options.latency_rate:,.0f} frames per second, by the kernel's time stamps at the tester's interfaces. Tester and switch have "
        f"a processor each. {options.repetitions} repetitions; cells have means and ranges. {LIMITED_NOTE} The noise floor is a "
        f"plain veth pair: the generator's ceiling, and the latency that the tester measures for nothing."
    )
    report.heading("Operable rules")
    table: list[list[object]] = []
    for name in options.switches:
        for kind in options.kinds:
            found = _good(rows, switch=name, kind=kind, case="RmaxF1")
            if found:
                most = int(found[0]["metrics"]["rules"].value)
                note = "the search began there" if most == options.rules_max else ""
                table.append([f"here: {title(name)}", kind, f"{options.rules_max:,}", f"{most:,}", note])
    data = published()["flow_scalability"]
    for theirs in data["max_rules"]:
        table.append([f"thesis: {theirs['target']}", theirs["match"], f"{theirs['documented']:,}", f"{theirs['operable']:,}", ""])
    report.table(["switch", "match", "documented, or begin of the search", "operable", ""], table)
    report.text(f"Thesis: {data['source']}.")
    report.heading("Rate and latency")
    table = []
    for name in (CABLE, *options.switches):
        for kind in options.kinds:
            for case in scale_experiment.CASES:
                found = _good(rows, switch=name, kind=kind, case=case)
                if found:
                    cells = [_cell(found, metric, form) for metric, form in (
                        ("rules", "{:.0f}"), ("flows", "{:.0f}"), ("received_rate", "{:.1f}"), ("latency_p50", "{:.1f}"),
                        ("latency_p25", "{:.1f}"), ("latency_p75", "{:.1f}"), ("latency_p99", "{:.1f}"),
                    )]  # fmt: skip
                    first = [title(name), "", ""] if name == CABLE else [title(name), kind, case]
                    table.append([*first, *(cell.partition(" ")[0] if i < 2 else cell for i, cell in enumerate(cells))])
    report.table(["switch", "match", "case", "rules", "flows", "kpps", "latency p50 (µs)", "p25", "p75", "p99"], table)
    medians = ", ".join(f"{target} {value} µs" for target, value in data["latency_us"].items() if target != "case")
    more = ", ".join(f"{target} +{value:g} µs" for target, value in data["more_flows_us"].items())
    report.text(f"Thesis, {data['latency_us']['case']}: {medians}. More rules change nothing; more flows: {more}.")
    pooled = _pooled(store, session, "latency", ["switch", "kind", "case"])
    for kind in options.kinds:
        groups = {
            title(CABLE) if name == CABLE else f"{title(str(name))}, {case}": values
            for (name, of, case), values in pooled.items()
            if of == kind or name == CABLE
        }
        if groups:
            path = plots.boxes(folder / "plots" / f"latency-{kind}.svg", groups, y_label="latency (µs)", log_y=True)
            report.figure(path, f"Latency with {kind} rules: median, quartiles, 1st and 99th percentile, extremes")
    _differences(report, data["environment"], "veth pairs on one machine, with the kernel's time stamps")
    return _end(report, store, session, skipped, folder)


def update(
    store: Store, session: int, options: update_experiment.Options, skipped: Mapping[str, str], folder: Path
) -> tuple[Path, Path]:
    """Writes the report of `update`."""
    report, rows = _begin(store, session, "Rule updates under traffic")
    report.heading("Method")
    report.text(
        f"Frames flow at a constant rate from port 1 to port 2. The controller redirects them to port 3 and back, "
        f"{options.updates} times in a run, at random times. T1 is before a change, T2 after it was accepted, T3 when the last "
        f"frame came from the old port, T4 when the first came from the new one, by the kernel's time stamps and one clock.\n\n"
        f"* **Response time** is T4 - T1, the time in which control and data plane disagree.\n"
        f"* **Update rate** is 1 / (T2 - T1), from the median.\n"
        f"* **Interruption** is T4 - T3.\n"
        f"* **Noise floor**: the time between two recorded frames, which no response time is finer than. The tester measures it over a "
        f"plain veth pair in every repetition; that of each switch is beside its results.\n\n"
        f"`exact` and `ternary` or `lpm` change a table's rule; `register` changes a register from which the program takes the port. p4jet "
        f"is changed over its control socket, Open vSwitch by `ovs-ofctl` (which includes the start of that program), the kernel by "
        f"netlink. Where less than {options.updates * options.repetitions} updates are counted, the others took effect later "
        f"than the next one, or after the traffic."
    )
    report.heading("Noise floor")
    gaps = _pooled(store, session, "frame_gap", ["size", "rate"])
    report.table(
        ["size (B)", "Mbit/s", "between frames p50 (ms)", "p99", "max"],
        [
            [size, rate, *(f"{stats.percentile(found, percent):.3f}" for percent in (50, 99, 100))]
            for size in options.sizes
            for rate in options.rates
            for found in [gaps.get((size, rate), [])]
            if found
        ],
    )
    report.heading("Results")
    table: list[list[object]] = []
    pooled = _pooled(store, session, "response_time", ["switch", "kind", "size", "rate"])
    for name in options.switches:
        for kind in options.kinds:
            for size in options.sizes:
                for rate in options.rates:
                    found = _good(rows, switch=name, kind=kind, size=size, rate=rate)
                    if not found:
                        continue
                    times = pooled[name, kind, size, rate]
                    table.append([
                        title(name), kind, size, rate, _cell(found, "frame_interval", "{:.3f}").partition(" ")[0], len(times), f"{stats.median(times):.3f}", f"{stats.mean(times):.3f}",
                        f"{stats.sd(times):.3f}", f"{max(times):.3f}", _cell(found, "interruption", "{:.3f}"),
                        _cell(found, "update_rate", "{:.0f}"),
                    ])  # fmt: skip
    report.table(
        ["switch", "rule", "size (B)", "Mbit/s", "between frames (ms)", "updates", "response p50 (ms)", "mean", "sd", "max", "interruption (ms)", "updates/s"], table
    )
    data = published()["rule_updates"]
    report.text(f"Thesis: {data['source']}, any of its loads:")
    report.table(
        ["target", "rule", "response (ms)", "sd below (ms)", "updates/s"],
        [
            [target, kind, _range(ends), data["response_time_sd_ms"][target], _range(data["updates_per_s"][target])]
            for target, kinds in data["response_time_ms"].items()
            for kind, ends in kinds.items()
        ],
    )
    groups: dict[str, list[float]] = {}
    for (switch, kind_of, _, _), values in pooled.items():
        groups.setdefault(f"{title(str(switch))}, {kind_of}", []).extend(values)
    path = plots.boxes(folder / "plots" / "response.svg", groups, y_label="response time (ms)", log_y=True)
    report.figure(path, "Response times, all sizes and rates: median, quartiles, 1st and 99th percentile, extremes")
    _differences(report, data["environment"], "veth pairs on one machine; switch and controller share its processors")
    return _end(report, store, session, skipped, folder)


def sweep(store: Store, session: int, options: sweep_experiment.Options, folder: Path) -> tuple[Path, Path]:
    """Writes the report of `sweep`."""
    report, rows = _begin(store, session, "Entries, frame sizes and cores over memory ports")
    report.heading("Method")
    report.text(
        f"`p4jet bench` plays a capture in a loop from memory to memory for {options.seconds:g} s: the speed of the program without "
        f"interfaces. No frame passes a veth pair: there is no tester, and so no noise floor of one. `p4jet bench` counts packets and takes "
        f"the time itself. Frame sizes include the frame check sequence. Rates in Gbit/s are **modelled**: what a wire would carry at the measured "
        f"rate, with {sweep_experiment.FRAMING} bytes of preamble and gap. A size too small for a tunnel stands for the smallest that fits. "
        f"{options.repetitions} repetitions; means and ranges."
    )
    folder.mkdir(parents=True, exist_ok=True)
    entries, cores = min(options.entries), min(options.cores)
    for workload in options.workloads:
        own = _good(rows, workload=workload)
        if not own:
            continue
        names = list(dict.fromkeys(str(row["values"]["switch"]) for row in own))
        smallest = min(int(str(row["values"]["size"])) for row in own)
        report.heading(workload)
        axes: tuple[tuple[str, str, dict[str, object]], ...] = (
            ("entries", "entries", {"size": smallest, "cores": cores}),
            ("size", "size (B)", {"entries": entries, "cores": cores}),
            ("cores", "cores", {"size": smallest, "entries": entries}),
        )
        for axis, label, fixed in axes:
            points: dict[float, list[Row]] = {}
            for row in _good(own, **fixed):
                points.setdefault(float(str(row["values"][axis])), []).append(row)
            if len(points) < 2:
                continue
            report.table(
                [label, "switch", "Mpps", "Gbit/s (modelled)", "memory (MiB)", "load time (s)"],
                [
                    [f"{at:g}" if axis != "entries" else f"{at:,.0f}", name, _cell(found, "rate", "{:.2f}"), _cell(found, "wire_rate", "{:.2f}"),
                     _cell(found, "memory", "{:.1f}").partition(" ")[0], _cell(found, "load_time", "{:.3f}").partition(" ")[0]]
                    for at, all_found in sorted(points.items())
                    for name in names
                    for found in [_good(all_found, switch=name)]
                    if found
                ],
            )  # fmt: skip
            series = {
                name: {at: [row["metrics"]["rate"].value for row in _good(found, switch=name)] for at, found in points.items()}
                for name in names
            }
            path = plots.lines(
                folder / "plots" / f"{workload}-{axis}.svg", series, x_label=label, y_label="Mpps", log_x=axis != "cores"
            )
            report.figure(path, f"{workload}: rate by {label}")
        cells = {
            (f"{row['values']['size']}", f"{row['values']['entries']}"): [
                other["metrics"]["rate"].value
                for other in _good(own, switch=sweep_experiment.P4JET, size=row["values"]["size"], entries=row["values"]["entries"], cores=cores)
            ]
            for row in _good(own, switch=sweep_experiment.P4JET, cores=cores)
        }
        if options.full and len(cells) > 1:
            path = plots.heat_map(
                folder / "plots" / f"{workload}-map.svg", cells, x_label="entries", y_label="size (B)", value_label="Mpps"
            )
            report.figure(path, f"{workload}: rate by frame size and entries, on {cores} core")
    data = published()["gateway"]
    report.heading("The study")
    report.text(f"{data['source']}.\n\n" + "\n".join(f"* {text}" for text in data["statements"]))
    _differences(report, data["environment"], "memory ports, no cards and no wire")
    return _end(report, store, session, {}, folder)


def _range(ends: Sequence[float]) -> str:
    return f"{ends[0]:g}–{ends[1]:g}"


def _differences(report: Report, theirs: Sequence[str], ours: str) -> None:
    report.heading("How the environments differ")
    report.text(f"The study: {'; '.join(theirs)}. Here: {ours}.")
