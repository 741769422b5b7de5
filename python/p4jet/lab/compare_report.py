"""The report of `p4jet-lab compare`: tables in the shape of the thesis's Tables 5 to 8, with its values beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import plots, stats
from .compare import GATEWAY_ENTRIES, GATEWAY_PACKETS, STATISTICS, TUNNEL, Options, summary
from .dut import CABLE, WARM_UP_SECONDS, is_root, title
from .report import Report, one_line
from .runner import describe
from .store import LIMITED, Metric, Row, Store
from .switches import types
from .thesis import FRAMING, Mirror, mirrors, published

KERNEL = ("bridge", "linux-forwarding", "xdp")
"""Switch types that forward in the kernel. The others, except the cable, do in user space."""
XDP_GOAL = 0.9
"""Share of hand-written XDP's rate that p4jet with AF_XDP should reach."""

COUNTERPARTS = {
    "bmv2": "bmv2",
    "bmv2-grpc": "bmv2",
    "bmv2-psa": "bmv2",
    "ovs": "OVS-vanilla",
    "ovs-afxdp": "OVS-vanilla",
    "ovs-dpdk": "OVS-DPDK",
    "swx": "P4-DPDK",
    "p4jet": "P4-DPDK",
    "p4jet-xdp": "P4-DPDK",
}
"""The switch of the thesis that is shown beside each of ours: the same, or the nearest."""
NOTES = {
    "OVS-vanilla": "The thesis's OVS-vanilla uses the kernel's datapath; ours works in user space.",
    "P4-DPDK": "P4-DPDK is the thesis's compiled P4 switch (p4-dpdk-target 0.1.0, whose pipeline is DPDK SWX).",
}

FUNCTION_TITLES = {
    "mac-mirror": "the MAC mirror",
    "forward": "forwarding from port to port",
    "gateway-inbound": "a VXLAN gateway, inbound",
    "gateway-outbound": "a VXLAN gateway, outbound",
}

ROWS = (
    ("loss", "Loss (%)", "{:.2f}"),
    ("throughput", "Throughput (Gbit/s)", "{:.3f}"),
    ("throughput_of_frames", "Throughput without framing (Gbit/s)", "{:.3f}"),
    ("refused", "Refused: receive queue full (%)", "{:.2f}"),
    ("offered", "Offered (Gbit/s)", "{:.3f}"),
    ("received_rate", "Received (kpps)", "{:.1f}"),
    ("offered_rate", "Offered (kpps)", "{:.1f}"),
)


LIMITED_NOTE = (
    "\\* marks what was **limited by the generator**: at least 99 % of the offered frames came back at full speed, so the switch may be "
    "faster. \\*1/3 means that this was so in one run of three."
)


def limited(metrics: Sequence[Metric]) -> int:
    """Returns the number of figures that the generator limited."""
    return sum(LIMITED in metric.quality for metric in metrics)


def limited_mark(metrics: Sequence[Metric]) -> str:
    """Returns a star if the generator limited all figures, with their number if it limited some, else nothing."""
    count = limited(metrics)
    return "" if count == 0 else "\\*" if count == len(metrics) else f"\\*{count}/{len(metrics)}"


class Results:
    """The successful runs of a session, by switch and size."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.metrics: dict[tuple[str, int, str], list[Metric]] = {}
        for row in rows:
            if row["status"] == "ok":
                name, size = str(row["values"]["switch"]), int(str(row["values"]["size"]))
                for metric, value in row["metrics"].items():
                    self.metrics.setdefault((name, size, metric), []).append(value)
        self.switches = list(dict.fromkeys(name for name, _, _ in self.metrics))
        self.sizes = sorted({size for _, size, _ in self.metrics})

    def values(self, name: str, size: int, metric: str) -> list[float]:
        """Returns a figure of all repetitions."""
        return [metric.value for metric in self.metrics.get((name, size, metric), [])]

    def limited(self, name: str, size: int) -> int:
        """Returns the number of repetitions that the generator limited."""
        return limited(self.metrics.get((name, size, "received_rate"), []))

    def cell(self, name: str, size: int, metric: str, form: str) -> str:
        """Returns mean and range as text, with a star if the generator was the limit in any run."""
        values = self.values(name, size, metric)
        if not values:
            return ""
        star = limited_mark(self.metrics[name, size, metric])
        spread = f" ({form.format(min(values))}–{form.format(max(values))})" if len(values) > 1 else ""
        return form.format(stats.mean(values)) + star + spread


def write(store: Store, session: int, options: Options, skipped: Mapping[str, str], folder: Path) -> tuple[Path, Path]:
    """Writes report.md, report.html, runs.csv and plots; returns the paths of the reports."""
    rows = store.rows(session=session)
    results = Results(rows)
    about = store.session(session)
    is_mirror = options.function == "mac-mirror"
    report = Report(f"Comparison of switches: {FUNCTION_TITLES[options.function]}")
    report.text(
        f"Session {session}, started {about['started']}, commit {about['commit'][:12]}. {about['ok']} runs succeeded, {about['failed']} failed."
    )
    disturbances(report, about["inventory"])
    _measured(report, results, options, skipped)
    _goal(report, results, options)
    _method(report, options)
    _floor(report, results)
    plots_folder = folder / "plots"
    _rates(report, results, plots_folder)
    for name in results.switches:
        if name != CABLE:
            _one_switch(report, results, name, is_mirror)
    if is_mirror:
        _beside_the_thesis(report, results)
    _latency(report, store, session, results, options, plots_folder)
    if is_mirror:
        _environment(report)
    left_out(report, rows, skipped)
    report.heading("Machine")
    report.mapping({name: value for name, value in about["inventory"].items() if name != "experiment"})
    folder.mkdir(parents=True, exist_ok=True)
    store.csv(folder / "runs.csv", session)
    report.text("`runs.csv` has one row for each run.")
    return report.write(folder)


def disturbances(report: Report, machine: Mapping[str, object]) -> None:
    """Says what makes the results of this machine unreliable."""
    load, count = machine.get("load (1 min)"), machine.get("processors")
    if isinstance(load, (int, float)) and isinstance(count, int) and load > 0.5 * count:
        report.text(
            f"**Other programs disturbed this experiment**: when it began, the machine with {count} processors had a load of {load:g}. Repeat "
            f"it on an idle machine before you rely on it."
        )
    if not is_root():
        report.text(
            "**Measured without root**: the kernel bound no work to processors, so switch and tester disturbed each other. AF_XDP, XDP and "
            "Open vSwitch need root."
        )


def _measured(report: Report, results: Results, options: Options, skipped: Mapping[str, str]) -> None:
    """Says which switches were measured, and which were not."""
    function = "gateway" if options.function.startswith("gateway-") else options.function
    chosen = {*options.switches, *skipped}
    not_chosen = [name for name, kind in types().items() if name not in chosen and function in kind.functions]
    # Names, which `--switches` takes; titles contain commas.
    groups = (
        ("Measured", [name for name in options.switches if name in results.switches]),
        ("All runs failed", [name for name in options.switches if name not in results.switches]),
        ("Not chosen by `--switches`", not_chosen),
        ("Cannot run here, or not do this", list(skipped)),
    )
    report.text("\n".join(f"* **{what}**: {', '.join(names)}" for what, names in groups if names))


@dataclass(frozen=True)
class Verdict:
    """Whether one switch reaches a share of another's rate."""

    text: str
    """The ratio of received rates with its interval, or why there is none."""
    verdict: str
    """``"reached"``, ``"not reached"``, or ``"not decided"`` with the reason."""


def verdict(results: Results, one: str, other: str, size: int, goal: float) -> Verdict:
    """Compares the rates of `one` with those of `other`.

    Where the generator limited a run, the rate is the least that the switch forwards. So the ratio is then an upper bound for `one`
    against a limited `other`, which may hide that the goal is missed, and a lower bound for a limited `one`.
    """
    ours, theirs = results.values(one, size, "received_rate"), results.values(other, size, "received_rate")
    if not ours:
        return Verdict("no run succeeded", f"not decided: no run of {title(one)} succeeded")
    if not any(ours):
        return Verdict("received nothing", f"not reached: {title(one)} received nothing")
    found = stats.difference(theirs, ours)
    if found.kind != "ratio":
        return Verdict("some runs received nothing", "not decided: some runs received nothing")
    limited, other_limited = results.limited(one, size), results.limited(other, size)
    marks = ("≥ " if limited and not other_limited else "") + ("≤ " if other_limited and not limited else "")
    text = f"{marks}{found.value:.2f}"
    if found.low is None or found.high is None:
        return Verdict(f"{text} (no interval)", "not decided: an interval needs two runs of each")
    text += f" ({found.low:.2f}–{found.high:.2f})"
    if found.low >= goal:
        return Verdict(text, f"not decided: the generator limited {title(other)}" if other_limited else "reached")
    if found.high < goal:
        return Verdict(text, f"not decided: the generator limited {title(one)}" if limited else "not reached")
    return Verdict(text, "not decided: the interval includes the goal")


def _goal(report: Report, results: Results, options: Options) -> None:
    """Does p4jet lead, and how near is it to XDP?"""
    ours = [name for name in options.switches if name.startswith("p4jet")]
    others = [name for name in results.switches if name not in (*KERNEL, CABLE, *ours)]
    if not ours:
        return

    def rate(name: str, size: int) -> float:
        values = results.values(name, size, "received_rate")
        return stats.mean(values) if values else 0.0

    table: list[list[object]] = []
    verdicts: dict[str, list[str]] = {}
    for size in options.sizes:
        best = max(ours, key=lambda name: rate(name, size))
        rivals = [name for name in others if rate(name, size) > 0]
        cells: list[object] = [size, title(best) if rate(best, size) > 0 else "none received anything", "", "", ""]
        if rivals:
            rival = max(rivals, key=lambda name: rate(name, size))
            found = verdict(results, best, rival, size, 1.0)
            cells[2:4] = title(rival), found.text
            verdicts.setdefault(found.verdict, []).append(f"lead in user space, {size} bytes")
        elif rate(best, size) == 0:
            has_runs = any(results.values(name, size, "received_rate") for name in ours)
            why = "not reached: p4jet received nothing" if has_runs else "not decided: no run of p4jet succeeded"
            verdicts.setdefault(why, []).append(f"{size} bytes")
        if "p4jet-xdp" in ours and rate("xdp", size) > 0:
            found = verdict(results, "p4jet-xdp", "xdp", size, XDP_GOAL)
            cells[4] = found.text
            verdicts.setdefault(found.verdict, []).append(f"{XDP_GOAL} of XDP, {size} bytes")
        table.append(cells)
    if not verdicts:
        return
    report.heading("p4jet against the others")
    report.text(
        "The goal: p4jet leads every switch in user space at every size, and with AF_XDP reaches 0.9 of hand-written XDP. This is "
        "about the measured switches only.\n\n"
        + "\n".join(f"* **{verdict}**: {'; '.join(points)}" for verdict, points in sorted(verdicts.items(), reverse=True))
    )
    report.table(["size (B)", "fastest p4jet", "next in user space", "ratio of received rates", "p4jet, AF_XDP : XDP by hand"], table)
    report.text(
        "Ratios of geometric means, with 95 % confidence intervals. ≥: the generator was the limit of p4jet in a run, so the ratio may be "
        "higher. ≤: it was the limit of the other switch, so the ratio may be lower. If it limited both, nothing is decided."
    )


def _method(report: Report, options: Options) -> None:
    report.heading("Method")
    if options.function == "mac-mirror":
        does = "A switch returns each frame through the port it came from, with source and destination MAC address exchanged."
        joined, expected = "a veth pair", "the exchanged addresses"
    elif options.function.startswith("gateway-"):
        way = "begins a tunnel for each packet" if options.function == "gateway-inbound" else "ends the tunnel of each packet"
        does = (
            f"The gateway {way}, with {GATEWAY_ENTRIES} virtual addresses and {GATEWAY_ENTRIES} routes, {GATEWAY_PACKETS} packets in turn "
            f"instead of the trace below. Sizes are those of sent frames; {TUNNEL} bytes are added or removed. Too small a size stands for "
            f"the smallest that fits a tunnel."
        )
        joined, expected = "two veth pairs", "the right length"
    else:
        does = "A switch sends each frame from its first port out by its second. IPv4 forwarding of the kernel also replaces the addresses."
        joined, expected = "two veth pairs", "the right addresses"
    report.text(
        f"{does} Tester and switch are in two network namespaces of one machine, joined by {joined}. All work for the switch, that of the kernel "
        f"included, stays on processor {options.switch_cpu} (receive packet steering; NAPI threads for XDP, which would otherwise run "
        f"where the sender runs). Generator and receiver, `p4jet traffic` through AF_PACKET, use processor {options.tester_cpu}.\n\n"
        f"The trace has {options.clients:,} clients x {options.flows} flows x {options.packets} packets "
        f"({options.clients * options.flows * options.packets:,} packets): the frames of all flows in turn, in a loop, for as long as a "
        f"run takes ({options.clients * options.flows / 1e3:g} thousand distinct frames; a run may send a part of the trace, or more). "
        f"UDP, because the sequence number and the time in the last 18 bytes of a frame would overwrite the TCP header of small frames.\n\n"
        f"For each switch and size, {options.repetitions} times, switches in turn, after {WARM_UP_SECONDS:g} s of traffic to warm up:\n\n"
        f"* **Pre-flight check**: 50 frames one by one; all must come back, with {expected} (bad MAC 0).\n"
        f"* **Full speed**, {options.seconds:g} s: loss, received and offered rate. Loss is the share of offered frames that did not come back. "
        f"Offered is all that the generator gave to its interface, also what the kernel refused at once because the receive queue of the "
        f"switch's interface was full (a ring with XDP and AF_XDP, else the backlog of its processor).\n"
        f"* **Latency below saturation**, {0.5 * options.seconds:g} s at {options.latency_rate:,.0f} frames per second.\n"
        f"* **Latency at overload**, {0.3 * options.seconds:g} s at full speed.\n\n"
        f"Frame sizes exclude the frame check sequence. Rates in Gbit/s are **modelled**, unless they say that they are without framing: what a "
        f"wire would carry at the measured rate of frames, with {FRAMING} bytes of framing for each (preamble 8, gap 12, frame check "
        f"sequence 4). The kernel takes the times for latencies: when a frame is given to the "
        f"tester's interface, and when one arrives there. So they exclude the tester's programs.\n\n"
        f"Everything else is measured. {LIMITED_NOTE} Cells are means of the repetitions, with their range."
    )


def _floor(report: Report, results: Results) -> None:
    report.heading("Noise floor")
    report.text(
        "Generator and receiver at the two ends of one veth pair, without a switch: the highest rate that the tester reaches, and the "
        "latency that it measures for nothing. With a switch, the kernel delivers frames to another processor, which costs the generator "
        "less or more, and a refused frame costs it little, so that it offers more; its offered rate is beside each result."
    )
    table = []
    for size in results.sizes:
        cells = [results.cell(CABLE, size, metric, form) for metric, form in (("offered_rate", "{:.1f}"), ("offered", "{:.3f}"))]
        cells += [results.cell(CABLE, size, f"latency_{name}", "{:.2f}") for name in ("p50", "p99", "max")]
        table.append([size, *cells])
    report.table(["size (B)", "ceiling (kpps)", "ceiling (Gbit/s)", "latency p50 (µs)", "p99 (µs)", "max (µs)"], table)


def _rates(report: Report, results: Results, folder: Path) -> None:
    report.heading("Loss and throughput")
    for metric, label, form in (ROWS[5], ROWS[1], ROWS[0]):
        names = [name for name in results.switches if name != CABLE or metric != "loss"]
        report.table(
            [label, *map(str, results.sizes)],
            [[title(name), *(results.cell(name, size, metric, form) for size in results.sizes)] for name in names],
        )
        series = {
            title(name): {float(size): results.values(name, size, metric) for size in results.sizes if results.values(name, size, metric)}
            for name in names
        }
        if any(series.values()):
            path = plots.lines(folder / f"{metric}.svg", series, x_label="frame size (B)", y_label=label, log_x=True)
            report.figure(path, f"{label} by frame size")


def _one_switch(report: Report, results: Results, name: str, is_mirror: bool) -> None:
    """A table in the shape of the thesis's, with the values of its counterpart."""
    report.heading(title(name), level=3)
    table: list[list[object]] = [
        [label, *(results.cell(name, size, metric, form) for size in results.sizes)] for metric, label, form in ROWS
    ]
    counterpart = COUNTERPARTS.get(name) if is_mirror else None
    for card in ("CX5", "SN1000"):
        of_size = {row.size: row for row in mirrors() if (row.switch, row.card) == (counterpart, card)}
        if of_size:
            name_there = f"thesis, Table {next(iter(of_size.values())).table}, {counterpart}, {card}"
            shown = [of_size.get(size) for size in results.sizes]
            table.append([f"{name_there}: loss (%)", *(f"{100 * row.loss:.2f}" if row else "" for row in shown)])
            table.append([f"{name_there}: throughput (Gbit/s)", *(f"{row.throughput / 1e9:.2f}" if row else "" for row in shown)])
    report.table(["frame (B)", *map(str, results.sizes)], table)
    if counterpart in NOTES:
        report.text(NOTES[counterpart])


def _beside_the_thesis(report: Report, results: Results) -> None:
    report.heading("Beside the thesis")
    report.text(
        f"{published()['mac_mirror']['source']}. Rates in kpps with {FRAMING} bytes of framing; the offered load follows from throughput and "
        f"loss. Compare the shapes: a constant rate over the sizes means that packets limit a switch, not bytes."
    )
    rows: list[list[object]] = []
    for name in results.switches:
        for metric, label in (("received_rate", "received"), ("offered_rate", "offered")):
            rows.append([f"here: {title(name)}", label, *(results.cell(name, size, metric, "{:.0f}").partition(" ")[0] for size in results.sizes)])
    by: dict[tuple[str, str], dict[int, Mirror]] = {}
    for row in mirrors():
        by.setdefault((row.switch, row.card), {})[row.size] = row
    for (switch, card), of_size in by.items():
        shown = [of_size.get(size) for size in results.sizes]
        rows.append([f"thesis: {switch}, {card}", "received", *(f"{row.received_pps / 1e3:.0f}" if row else "" for row in shown)])
        rows.append([f"thesis: {switch}, {card}", "offered", *(f"{row.offered_pps / 1e3:.0f}" if row else "" for row in shown)])
    report.table(["switch", "kpps", *map(str, results.sizes)], rows)


def _latency(report: Report, store: Store, session: int, results: Results, options: Options, folder: Path) -> None:
    for name, heading in (
        ("latency", f"Latency below saturation ({options.latency_rate:,.0f} frames per second)"),
        ("latency_overload", "Latency at overload (the generator's full speed)"),
    ):
        pooled: dict[tuple[str, int], list[float]] = {}
        for values, _, samples in store.samples(session, name):
            pooled.setdefault((str(values["switch"]), int(str(values["size"]))), []).extend(samples.values)
        if not pooled:
            continue
        report.heading(heading)
        report.text(
            "Microseconds, of the frames that came back, all repetitions together. Loss is that of the same runs. The thesis has no table "
            "of latencies; its text says under 100 µs in most cases for P4-DPDK."
        )
        table: list[list[object]] = []
        for switch in results.switches:
            for size in results.sizes:
                if (switch, size) in pooled:
                    found = summary(pooled[switch, size])
                    loss = stats.mean(results.values(switch, size, f"{name}_loss"))
                    table.append([title(switch), size, *(f"{found[statistic]:.1f}" for statistic in STATISTICS), f"{loss:.2f}"])
        report.table(["switch", "size (B)", *STATISTICS, "loss (%)"], table)
        for size in results.sizes:
            groups = {title(switch): pooled[switch, size] for switch in results.switches if (switch, size) in pooled}
            if groups:
                path = plots.boxes(folder / f"{name}-{size}.svg", groups, y_label="latency (µs)", log_y=True)
                report.figure(path, f"{heading}, {size} bytes: median, quartiles, 1st and 99th percentile, extremes")


def _environment(report: Report) -> None:
    report.heading("How the environments differ")
    thesis = published()["mac_mirror"]
    report.table(
        ["", "thesis", "here"],
        [
            ["machines", "two servers, AMD EPYC 7763 with 64 cores each", "one machine; one processor for the tester, one for the switch"],
            ["link", "100 Gbit/s cable, ConnectX-5 or Alveo SN1000", "veth pair: memory of the kernel, no card, no wire"],
            ["kernel bypass", "DPDK drivers of the cards", "AF_XDP and AF_PACKET on veth"],
            ["generator", "Click, limited to about 13 Mpps by its tables", "p4jet traffic; see the noise floor"],
            ["frames", "TCP", "UDP"],
            ["latency", "at the offered load, with full queues", "below saturation and at overload, apart"],
            ["time stamps", "not said", "the kernel's, at the tester's interface"],
            ["repetitions", "6", "see above"],
        ],
    )
    report.text("The thesis's set-up: " + "; ".join(thesis["environment"]) + ".")


def left_out(report: Report, rows: Sequence[Row], skipped: Mapping[str, str]) -> None:
    """Reports the switches that were not measured, and the runs that failed."""
    if skipped:
        report.heading("Switches that were left out")
        report.table(["switch", "why"], [[title(name), why] for name, why in skipped.items()])
    failed: list[list[object]] = [
        [describe(row["values"]), row["repetition"], one_line(row["reason"])] for row in rows if row["status"] != "ok"
    ]
    if failed:
        report.heading("Failed runs")
        report.text("`runs.csv` has the whole messages.")
        report.table(["point", "repetition", "why"], failed)
