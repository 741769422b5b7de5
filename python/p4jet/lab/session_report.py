"""The report of any session: machine, results of each point with their spread, plots, failed runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import plots, stats
from .report import Report, cell_text, one_line
from .runner import describe
from .store import Metric, Row, Store, key, text_of

PLOT_SERIES_MAX = 16
"""With more series, a plot is unreadable and left out."""


def summary(rows: Sequence[Row]) -> tuple[list[str], list[list[object]]]:
    """Returns the headers and rows of a table: for each point and metric mean, 95 % interval, extremes, runs and quality."""
    variables = list(dict.fromkeys(name for row in rows for name in row["values"]))
    groups: dict[tuple[str, str, str], tuple[Row, list[Metric]]] = {}
    for row in rows:
        if row["status"] == "ok":
            for name, metric in row["metrics"].items():
                groups.setdefault((key(row["values"]), name, metric.unit), (row, []))[1].append(metric)
    table: list[list[object]] = []
    for (_, name, unit), (row, metrics) in groups.items():
        values = [metric.value for metric in metrics]
        interval = stats.confidence_interval(values)
        table.append([
            *(text_of(row["values"].get(variable, "")) for variable in variables), name, unit, stats.mean(values),
            f"{cell_text(interval[0])} to {cell_text(interval[1])}" if interval is not None else "(one run)",
            min(values), max(values), len(values), _qualities(metrics),
        ])  # fmt: skip
    return [*variables, "metric", "unit", "mean", "95 % interval", "min", "max", "runs", "quality"], table


def _qualities(metrics: Sequence[Metric]) -> str:
    """Returns the quality of values; if they have several, each with its number of runs."""
    counts = Counter(metric.quality for metric in metrics)
    if len(counts) == 1:
        return metrics[0].quality
    return "; ".join(f"{quality} ({count} of {len(metrics)})" for quality, count in counts.items())


def write(store: Store, session: int, folder: Path) -> tuple[Path, Path]:
    """Writes report.md, report.html, runs.csv and plots of a session into a folder. Returns the paths of the reports."""
    about = store.session(session)
    rows = store.rows(session=session)
    good = [row for row in rows if row["status"] == "ok"]
    report = Report(f"{about['experiment']}, session {session}")
    finished = f"finished {about['finished']}" if about["finished"] else "not finished"
    report.text(f"Started {about['started']}, {finished}. Commit {about['commit']}. {len(good)} runs succeeded, {len(rows) - len(good)} failed.")
    report.heading("Results")
    report.text(
        "Means over the repetitions, with 95 % confidence intervals by Student's t. Quality says whether a value was measured, "
        "modelled, limited by the generator instead of the switch, or both. Dots in plots are single runs, bars 95 % intervals."
    )
    report.table(*summary(rows))
    folder.mkdir(parents=True, exist_ok=True)
    for path, caption in [*_metric_plots(good, folder / "plots"), *_sample_plots(store, session, folder / "plots")]:
        report.figure(path, caption)
    _add_skipped(report, rows, about["inventory"])
    report.heading("Machine")
    report.mapping({name: value for name, value in about["inventory"].items() if name != "experiment"})
    store.csv(folder / "runs.csv", session)
    report.text("`runs.csv` has one row for each run.")
    return report.write(folder)


def _add_skipped(report: Report, rows: Sequence[Row], machine: Mapping[str, object]) -> None:
    settings = machine.get("experiment")
    left_out = settings.get("left out") if isinstance(settings, Mapping) else None
    failed: list[list[object]] = [
        [describe(row["values"]), row["repetition"], one_line(row["reason"])] for row in rows if row["status"] != "ok"
    ]
    if failed:
        report.heading("Failed runs")
        report.text("`runs.csv` has the whole messages.")
        report.table(["point", "repetition", "reason"], failed)
    if isinstance(left_out, Mapping) and left_out:
        report.heading("Left out")
        report.table(["point", "reason"], [[point, why] for point, why in left_out.items()])


def _metric_plots(rows: Sequence[Row], folder: Path) -> list[tuple[Path, str]]:
    """One plot for each metric: over the numeric variable with most values, a line for each combination of the others."""
    x = _axis(rows)
    varying = _varying(rows)
    found = []
    for name, unit in dict.fromkeys((name, metric.unit) for row in rows for name, metric in row["metrics"].items()):
        label = f"{name} ({unit})" if unit else name
        series: dict[str, dict[float, list[float]]] = {}
        groups: dict[str, list[float]] = {}
        for row in rows:
            metric = row["metrics"].get(name)
            if metric is None or metric.unit != unit:
                continue
            shown = {variable: value for variable, value in row["values"].items() if variable in varying}
            others = {variable: value for variable, value in shown.items() if variable != x}
            at = row["values"].get(x, 0) if x is not None else 0
            assert isinstance(at, (int, float))
            series.setdefault(describe(others) if others else name, {}).setdefault(float(at), []).append(metric.value)
            groups.setdefault(describe(shown), []).append(metric.value)
        path = folder / f"{_file_name(name)}.svg"
        if x is not None and len(series) <= PLOT_SERIES_MAX:
            values = sorted({at for points in series.values() for at in points})
            log_x = values[0] > 0 and values[-1] >= 8 * values[0]
            found.append((plots.lines(path, series, x_label=x, y_label=label, log_x=log_x), f"{label} by {x}"))
        elif len(groups) <= PLOT_SERIES_MAX:
            found.append((plots.boxes(path, groups, y_label=label), f"{label}, all runs"))
    return found


def _sample_plots(store: Store, session: int, folder: Path) -> list[tuple[Path, str]]:
    """A box plot and a CDF for each distribution; the repetitions of a point are pooled."""
    found = []
    varying = _varying(store.rows(session=session))
    for name in store.sample_names(session):
        groups: dict[str, list[float]] = {}
        unit = ""
        for values, _, samples in store.samples(session, name):
            shown = {variable: value for variable, value in values.items() if variable in varying}
            groups.setdefault(describe(shown), []).extend(samples.values)
            unit = samples.unit
        if len(groups) > PLOT_SERIES_MAX:
            continue
        label = f"{name} ({unit})" if unit else name
        low, high = min(map(min, groups.values())), max(map(max, groups.values()))
        is_log = low > 0 and high > 20 * low
        stem = _file_name(name)
        found.append((
            plots.boxes(folder / f"{stem}-boxes.svg", groups, y_label=label, log_y=is_log),
            f"{label}: median, quartiles, 1st and 99th percentile, extremes; all repetitions together",
        ))  # fmt: skip
        found.append((
            plots.cdf(folder / f"{stem}-cdf.svg", groups, x_label=label, log_x=is_log), f"{label}: distribution, all repetitions together",
        ))  # fmt: skip
    return found


def _varying(rows: Sequence[Row]) -> set[str]:
    """Returns the variables with several values: the others need no mention in plots."""
    names = {name for row in rows for name in row["values"]}
    return {name for name in names if len({text_of(row["values"].get(name, "")) for row in rows}) > 1}


def _axis(rows: Sequence[Row]) -> str | None:
    """Returns the numeric variable with the most values, if one has at least two."""
    best, most = None, 1
    for name in dict.fromkeys(name for row in rows for name in row["values"]):
        values = {row["values"][name] for row in rows if name in row["values"]}
        if len(values) > most and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            best, most = name, len(values)
    return best


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


