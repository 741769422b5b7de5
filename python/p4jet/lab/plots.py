"""Plots of repeated measurements, as SVG or PNG files. None shows a mean without its spread.

Each function writes one file, whose name decides the format (``.svg`` or ``.png``), and returns its path. They raise
:class:`LabError` if matplotlib is missing, if there is nothing to plot, or if the file cannot be written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import stats
from .errors import LabError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
"""Distinguishable also with red-green blindness (Okabe and Ito), in turn for the series."""
MARKERS = "osD^vP*X"
CDF_POINTS_MAX = 2000
"""Points of a line of a CDF."""


def require() -> None:
    """Raises :class:`LabError` if matplotlib is missing: better before an experiment than after it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise LabError(f"plots need matplotlib ({error}): pip install 'p4jet[lab]'") from error


def lines(
    path: str | os.PathLike[str],
    series: Mapping[str, Mapping[float, Sequence[float]]],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> Path:
    """Draws, for each series, the repeated values at each x: their mean as a line, 95 % confidence intervals as bars, each value as a dot.

    With a single value there is no interval; the legend says so.
    """
    figure, axes = _figure(title)
    for number, (name, points) in enumerate(series.items()):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        xs = [x for x in sorted(points) if points[x]]
        if not xs:
            continue
        is_single = all(len(points[x]) == 1 for x in xs)
        label = f"{name} (single runs, no spread)" if is_single else name
        means = [stats.mean(points[x]) for x in xs]
        halves = []
        for x in xs:
            interval = stats.confidence_interval(points[x])
            halves.append(0.0 if interval is None else (interval[1] - interval[0]) / 2)
        # A bar must not reach the other side of 0 on a logarithmic axis.
        below = [min(half, middle * 0.999) if log_y and middle > 0 else half for half, middle in zip(halves, means)]
        axes.errorbar(xs, means, yerr=[below, halves], color=colour, marker=marker, markersize=4, capsize=3, label=label)
        dots = [(x, value) for x in xs for value in points[x]]
        axes.scatter([x for x, _ in dots], [value for _, value in dots], color=colour, s=8, alpha=0.4, linewidths=0)
    _some(bool(axes.lines), path)
    if log_x:
        axes.set_xscale("log", base=2)
        ticks = sorted({x for points in series.values() for x in points})
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    if log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.legend(fontsize="small")
    return _save(figure, axes, path, x_label, y_label)


def boxes(
    path: str | os.PathLike[str],
    groups: Mapping[str, Sequence[float]],
    *,
    y_label: str,
    x_label: str = "",
    title: str = "",
    log_y: bool = False,
) -> Path:
    """Draws a box for each group: median, quartiles, and whiskers from the 1st to the 99th percentile; dots are the extremes."""
    figure, axes = _figure(title, width=max(6.4, 0.7 * len(groups) + 1.5))
    shown = {name: values for name, values in groups.items() if len(values)}
    _some(bool(shown), path)
    boxes = []
    for name, values in shown.items():
        low, first, middle, third, high = (stats.percentile(values, percent) for percent in (1, 25, 50, 75, 99))
        ends = [min(values), max(values)]
        boxes.append({"label": name, "whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high, "fliers": ends})
    axes.bxp(
        boxes, patch_artist=True, boxprops={"facecolor": "#cfe3f0"}, medianprops={"color": COLOURS[1]}, flierprops={"markersize": 3}
    )
    if len(shown) > 4 or max(map(len, shown)) > 12:
        axes.tick_params(axis="x", rotation=40)
        for tick in axes.get_xticklabels():
            tick.set(horizontalalignment="right", rotation_mode="anchor")
    if log_y:
        axes.set_yscale("log")
    return _save(figure, axes, path, x_label, y_label)


def cdf(
    path: str | os.PathLike[str],
    series: Mapping[str, Sequence[float]],
    *,
    x_label: str,
    title: str = "",
    log_x: bool = False,
) -> Path:
    """Draws the empirical distribution function of each series: the share of values up to x."""
    figure, axes = _figure(title)
    for number, (name, values) in enumerate(series.items()):
        if not len(values):
            continue
        ordered = sorted(values)
        count = len(ordered)
        places = sorted({round(k * (count - 1) / (CDF_POINTS_MAX - 1)) for k in range(CDF_POINTS_MAX)})
        xs, ys = [ordered[place] for place in places], [(place + 1) / count for place in places]
        axes.step([xs[0], *xs], [0.0, *ys], where="post", color=COLOURS[number % len(COLOURS)], label=f"{name} (n = {count})")
    _some(bool(axes.lines), path)
    if log_x:
        axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.legend(fontsize="small", loc="lower right")
    return _save(figure, axes, path, x_label, "share of values")


def heat_map(
    path: str | os.PathLike[str],
    cells: Mapping[tuple[str, str], Sequence[float]],
    *,
    x_label: str,
    y_label: str,
    value_label: str,
    title: str = "",
) -> Path:
    """Draws the mean of each cell as a colour, and writes mean and standard deviation into it. Keys are (row, column)."""
    shown = {place: values for place, values in cells.items() if len(values)}
    rows, columns = (list(dict.fromkeys(place[side] for place in shown)) for side in (0, 1))
    figure, axes = _figure(title, width=max(6.4, 1.1 * len(columns) + 2), height=max(3.2, 0.5 * len(rows) + 1.8))
    _some(bool(shown), path)
    colours = [[stats.mean(shown[row, column]) if (row, column) in shown else float("nan") for column in columns] for row in rows]
    image = axes.imshow(colours, aspect="auto", cmap="viridis")
    averages = [stats.mean(values) for values in shown.values()]
    middle = (min(averages) + max(averages)) / 2
    for (row, column), values in shown.items():
        average = stats.mean(values)
        spread = f"± {stats.sd(values):.2g}" if len(values) > 1 else "(one run)"
        axes.text(
            columns.index(column), rows.index(row), f"{average:.3g}\n{spread}", ha="center", va="center", fontsize="small",
            color="black" if average > middle else "white",
        )  # fmt: skip
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    figure.colorbar(image, label=value_label)
    return _save(figure, axes, path, x_label, y_label, grid=False)


def _figure(title: str, *, width: float = 6.4, height: float = 4.2) -> tuple[Figure, Axes]:
    require()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Without pyplot: no display, and no state that threads share.
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, fontsize="medium")
    return figure, axes


def _some(is_something: bool, path: str | os.PathLike[str]) -> None:
    if not is_something:
        raise LabError(f"{os.fspath(path)}: found no values to plot")


def _save(
    figure: Figure, axes: Axes, path: str | os.PathLike[str], x_label: str, y_label: str, *, grid: bool = True
) -> Path:
    import matplotlib

    if grid:
        axes.grid(alpha=0.3)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    target = Path(path)
    if target.suffix not in (".svg", ".png"):
        raise LabError(f"{target}: found format {target.suffix or '(none)'!r}; expected .svg or .png")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # The same data give the same file.
        with matplotlib.rc_context({"svg.hashsalt": "p4jet"}):
            figure.savefig(target, dpi=150, metadata={"Date": None} if target.suffix == ".svg" else None)
    except OSError as error:
        raise LabError(f"{target}: {error.strerror}") from error
    return target
