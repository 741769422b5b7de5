"""The report of `p4jet-lab constructs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import plots, stats
from .compare_report import disturbances, left_out
from .construct_costs import RMSE_MAX_US, Fitted, Options, differences, fit, label, latencies
from .construct_costs import points as points_of
from .dut import CABLE, title
from .report import Report
from .store import Store


def write(store: Store, session: int, options: Options, skipped: Mapping[str, str], folder: Path) -> tuple[Path, ...]:
    """Writes measurements, profiles, plots and the report, and returns the paths of profiles and report."""
    about = store.session(session)
    fitted = fit(store, session, options, folder)
    report = Report("Costs of constructs")
    report.text(f"Session {session}, started {about['started']}, commit {about['commit'][:12]}. {about['ok']} runs succeeded, {about['failed']} failed.")
    if options.switches:
        disturbances(report, about["inventory"])
    _method(report, options)
    _base(report, store, session, fitted, options)
    for one in fitted:
        _lines(report, store, session, one, options, folder)
    if options.switches:
        left_out(report, store.rows(session=session), skipped)
    report.heading("Machine")
    report.mapping({name: value for name, value in about["inventory"].items() if name != "experiment"})
    store.csv(folder / "runs.csv", session)
    return (*(one.profile for one in fitted), *report.write(folder))


def shown(switch: str) -> str:
    """Returns what a switch is called in tables."""
    return switch if switch.startswith("modelled ") else title(switch)


def _method(report: Report, options: Options) -> None:
    report.heading("Method")
    report.text(
        f"Each program of a family has one construct more than the one before (Harkous 2022, section 3.3). {options.packets:,} frames "
        f"of each program in each of {options.repetitions} rounds; the points of a round are in an order in which no family's counts follow the "
        f"time, and the switches take turns, so that drift of the machine does not look like a slope. The delay of a point is the "
        f"{'median' if options.median else 'mean'} of a round, averaged over the rounds. Lines are least-squares lines, with a break "
        f"where that is significantly better. ± is half a 95 % confidence interval, from the lines of single rounds (of fewer than four: from the distances to the line). A slope whose interval "
        f"contains 0 is **not distinguishable from 0**: the profile then says 0."
    )
    if options.switches:
        report.text(
            f"**Measured**: latencies of real switches, from the tester's interface to the tester's interface by the kernel's time stamps, at "
            f"{options.rate:,.0f} frames per second. They contain two veth pairs and the wake-up of the switch's processor, which is most of the "
            f"base delay; the noise floor is what the tester measures over one veth pair without a switch."
        )
    if options.devices:
        report.text(
            f"**Modelled**: latencies of modelled devices are drawn from a {options.noise} distribution, with the mean that `p4jet predict` "
            f"estimates for the program and the standard deviation of the profile. Nothing of them is measured."
        )


def _base(report: Report, store: Store, session: int, fitted: Sequence[Fitted], options: Options) -> None:
    report.heading("Base delay")
    table: list[list[object]] = []
    floor: dict[int, list[float]] = {}
    sizes = points_of(options)
    for switch, point, _, delays in latencies(store, session):
        if switch == CABLE:
            floor.setdefault(sizes[point][1], []).append(_middle(delays, options))
    for size, found in sorted(floor.items()):
        table.append([title(CABLE), "measured", size, f"{stats.mean(found):.3f}", _half(found), "", ""])
    for one in fitted:
        fits = (one.report["distributions"] or {"fits": []})["fits"]
        for base in one.report["base"]:
            is_last = base is one.report["base"][-1]
            table.append([
                shown(one.switch), _quality(one), base["frame_bytes"], f"{base['us']:.3f}", _number(base["half_width"]),
                _number(base["deviation_us"]), ", ".join(found["distribution"] for found in fits[:3]) if is_last else "",
            ])  # fmt: skip
    report.table(["switch", "", "size (B)", "delay (µs)", "±", "standard deviation", "distributions, best first by AIC"], table)
    report.text("One parsed header and one table.")


def _middle(delays: Sequence[float], options: Options) -> float:
    return stats.median(delays) if options.median else stats.mean(delays)


def _quality(one: Fitted) -> str:
    return "modelled" if one.switch.startswith("modelled ") else "measured"


def _half(values: Sequence[float]) -> str:
    interval = stats.confidence_interval(values)
    return "" if interval is None else f"{(interval[1] - interval[0]) / 2:.3f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _lines(report: Report, store: Store, session: int, one: Fitted, options: Options, folder: Path) -> None:
    report.heading(f"{shown(one.switch)} ({_quality(one)})")
    device = next((device for device in options.devices if label(device) == one.switch), None)
    apart = differences(one, device) if device else {}
    table: list[list[object]] = []
    for line in one.report["lines"]:
        half = line["half_widths"]
        flat = "not distinguishable from 0" if line["may_be_flat"] else ""
        table.append([
            line["family"], line["frame_bytes"], f"{line['line']['slope']:+.4f}", "" if half is None else f"{half['slope']:.4f}", flat,
            _break(line), f"{line['line']['rmse']:.4f}", *([_number(apart.get(line["family"]))] if device else []),
        ])  # fmt: skip
    headers = ["family", "size (B)", "each (µs)", "±", "", "break", "RMSE (µs)"]
    report.table([*headers, *(["from its own profile (µs)"] if device else [])], table)
    if device:
        worst = max(apart.values(), default=0.0)
        verdict = "within" if worst <= RMSE_MAX_US else "**not within**"
        report.text(f"The lines of the fitted profile are {verdict} {RMSE_MAX_US} µs of those of the profile that the device follows (root mean square, at most {worst:.4f} µs).")
    for warning in one.report["warnings"]:
        report.text(f"* {warning}")
    report.text(f"The profile is {one.profile.name}: `p4jet predict PROGRAM --profile {one.profile.name}`.")
    _plot(report, store, session, one, options, folder)


def _break(line: Mapping[str, Any]) -> str:
    found, half = line["line"]["break"], line["half_widths"] or {}
    if found is None:
        return ""
    parts = []
    if found["slope"] != line["line"]["slope"]:
        parts.append(f"{found['slope']:+.4f} ± {half.get('slope_beyond', 0):.4f} each")
    if found["jump"] != 0:
        parts.append(f"{found['jump']:+.4f} ± {half.get('jump', 0):.4f} once")
    return f"above {found['above']:g}: " + ", ".join(parts)


def _plot(report: Report, store: Store, session: int, one: Fitted, options: Options, folder: Path) -> None:
    """Draws the delays of each round over the counts."""
    found = points_of(options)
    series: dict[str, dict[float, list[float]]] = {}
    for switch, point, _, delays in latencies(store, session):
        benchmark, size = found[point]
        if switch == one.switch and benchmark.family != "fields" and size == _size(one, benchmark.series):
            series.setdefault(benchmark.series, {}).setdefault(benchmark.count, []).append(_middle(delays, options))
    if series:
        path = plots.lines(folder / "plots" / f"{one.profile.stem}.svg", series, x_label="constructs", y_label="delay (µs)")
        report.figure(path, f"{shown(one.switch)}: delay by count, of each round and in the mean")


def _size(one: Fitted, family: str) -> int:
    return max((line["frame_bytes"] for line in one.report["lines"] if line["family"] == family), default=0)
