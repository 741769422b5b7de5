"""The subcommands `run` and `results` of `p4jet-lab`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import plots, session_report
from .errors import LabError
from .report import cell_text
from .runner import Experiment, describe, execute
from .store import Comparison, Row, Session, Store, default_path, text_of

POINTS_MAX = 10
"""Points that `results compare` names as those of one side only."""


def register(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Adds the subcommands. The function in `action` of the parsed arguments executes one and returns the exit status."""
    run = subparsers.add_parser(
        "run", help="Executes an experiment from a TOML file.",
        description="Executes an experiment from a TOML file (docs/lab-experiments.md). The exit status is 1 if a run failed, 130 after Ctrl-C.",
    )  # fmt: skip
    run.add_argument("file", type=Path, metavar="FILE.toml")
    run.add_argument("--tags", default="", metavar="A,B", help="Tags that enable or disable roles and set variables.")
    run.add_argument("--only", action="append", default=[], metavar="VAR=VALUE", help="Only this value of a variable; repeatable.")
    run.add_argument("--repetitions", type=int, metavar="N", help="Instead of the file's; 6 if it has none.")
    run.add_argument("--out", type=Path, metavar="DIR", help="Folder for report.md, report.html, runs.csv, plots and logs.")
    run.add_argument("--new", action="store_true", help="Starts a new session instead of continuing an interrupted one.")
    _add_store(run)
    run.set_defaults(action=_run)

    results = subparsers.add_parser("results", help="Lists, shows, compares and exports results.")
    kinds = results.add_subparsers(dest="what", required=True, metavar="list|show|compare|csv|report")
    listed = kinds.add_parser("list", help="The sessions in the store.")
    listed.add_argument("--experiment", metavar="NAME")
    listed.set_defaults(action=_list)
    shown = kinds.add_parser("show", help="The results of a session.")
    shown.add_argument("session", type=int, nargs="?", help="Number; by default the newest.")
    shown.set_defaults(action=_show)
    compared = kinds.add_parser(
        "compare", help="Two sessions, days, commits or switches.",
        description="Compares A with B. Each is a session (12), a UTC day (2026-07-31), a commit (a8f12d7), a switch (ovs) or a "
        "variable (size=64); commas join conditions: commit=a8f12d7,switch=ovs.",
    )  # fmt: skip
    compared.add_argument("a", metavar="A")
    compared.add_argument("b", metavar="B")
    compared.add_argument("--experiment", metavar="NAME")
    compared.add_argument("--metric", action="append", metavar="NAME", help="Only this metric; repeatable.")
    compared.set_defaults(action=_compare)
    exported = kinds.add_parser("csv", help="A session as CSV, one row for each run.")
    exported.add_argument("session", type=int, nargs="?", help="Number; by default the newest.")
    exported.add_argument("--out", metavar="FILE", default="/dev/stdout", help="By default standard output.")
    exported.set_defaults(action=_csv)
    reported = kinds.add_parser("report", help="report.md, report.html, runs.csv and plots of a session.")
    reported.add_argument("session", type=int, nargs="?", help="Number; by default the newest.")
    reported.add_argument("--out", type=Path, metavar="DIR", required=True)
    reported.set_defaults(action=_report)
    for parser in (listed, shown, compared, exported, reported):
        _add_store(parser)


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, default=default_path(), metavar="FILE", help="Store of results (default: %(default)s).")


def _run(arguments: argparse.Namespace) -> int:
    only: dict[str, list[str]] = {}
    for text in arguments.only:
        name, sign, value = text.partition("=")
        if not sign:
            raise LabError(f"--only {text}: expected VAR=VALUE")
        only.setdefault(name, []).append(value)
    tags = frozenset(tag for tag in arguments.tags.split(",") if tag)
    experiment = Experiment.from_toml(arguments.file, tags=tags, only=only, repetitions=arguments.repetitions)
    if arguments.out is not None:
        plots.require()
    logs = arguments.out / "logs" if arguments.out is not None else None
    with Store(arguments.store) as store:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            session = execute(experiment, store, resume=not arguments.new, logs=logs)
        except KeyboardInterrupt:
            print("interrupted; the finished runs are stored, and the same command continues", file=sys.stderr)
            return 130
        finally:
            signal.signal(signal.SIGTERM, before)
        about = store.session(session)
        if arguments.out is not None:
            for path in session_report.write(store, session, arguments.out):
                print(f"wrote {path}")
        else:
            _print_runs(store.rows(session=session))
        print(f"session {session} in {store.path}: {about['ok']} runs succeeded, {about['failed']} failed")
    return 1 if about["failed"] else 0


def _open(arguments: argparse.Namespace) -> Store:
    if not arguments.store.exists():
        raise LabError(f"{arguments.store}: there is no store of results yet; `p4jet-lab run FILE.toml` creates it, --store names another")
    return Store(arguments.store)


def _chosen(store: Store, number: int | None) -> Session:
    if number is not None:
        return store.session(number)
    sessions = store.sessions()
    if not sessions:
        raise LabError(f"{store.path} has no sessions yet; `p4jet-lab run FILE.toml` adds one")
    return sessions[-1]


def _list(arguments: argparse.Namespace) -> int:
    with _open(arguments) as store:
        rows: list[list[object]] = [
            [s["session"], s["experiment"], s["started"], s["commit"][:12] + ("-dirty" if s["commit"].endswith("-dirty") else ""),
             s["inventory"].get("host", ""), s["ok"], s["failed"], "" if s["finished"] else "not finished"]
            for s in store.sessions(arguments.experiment)
        ]  # fmt: skip
        _print_table(["session", "experiment", "started (UTC)", "commit", "host", "ok", "failed", ""], rows)
    return 0


def _show(arguments: argparse.Namespace) -> int:
    with _open(arguments) as store:
        session = _chosen(store, arguments.session)
        print(f"session {session['session']}: {session['experiment']}, started {session['started']}, commit {session['commit']}")
        _print_runs(store.rows(session=session["session"]))
    return 0


def _print_runs(rows: Sequence[Row]) -> None:
    """Prints the results of each point, and why runs have failed."""
    headers, table = session_report.summary(rows)
    if table:
        _print_table(headers, table)
    for row in rows:
        if row["status"] != "ok":
            print(f"failed: {describe(row['values'])} repetition {row['repetition']}: {row['reason']}")


def _compare(arguments: argparse.Namespace) -> int:
    with _open(arguments) as store:
        found = store.compare(arguments.a, arguments.b, experiment=arguments.experiment)
        if arguments.metric:
            names = list(dict.fromkeys(comparison.metric for comparison in found))
            for name in arguments.metric:
                if name not in names:
                    raise LabError(f"--metric {name}: both sides have only: {', '.join(names)}")
            found = [comparison for comparison in found if comparison.metric in arguments.metric]
        print(f"A: {arguments.a}\nB: {arguments.b}\n")
        _print_table(
            ["experiment", "point", "metric", "unit", "A", "B", "B to A", "95 % interval", "result", "quality"],
            [_comparison_row(comparison, _varying(found)) for comparison in found],
        )
        print(
            "\nA and B: geometric mean (number of runs), or the arithmetic mean where a value is not positive. "
            "B to A: ratio (x), or difference.\nInterval: Welch's t on the logarithms of the runs, or on the values."
        )
        for side, points in zip("AB", store.unmatched(arguments.a, arguments.b, experiment=arguments.experiment)):
            if points:
                more = f" and {len(points) - POINTS_MAX} more" if len(points) > POINTS_MAX else ""
                print(f"Note: only {side} has {', '.join(points[:POINTS_MAX])}{more}.")
        if len(found) >= 10:
            print(f"Of {len(found)} comparisons of equal things, about {len(found) / 20:.1f} show a difference by chance.")
        numbers = {session for comparison in found for side in comparison.sessions for session in side}
        machines = [session["inventory"] for session in store.sessions() if session["session"] in numbers]
        for name in ("host", "processor", "kernel"):
            different = sorted({str(machine.get(name)) for machine in machines})
            if len(different) > 1:
                print(f"Note: the runs come from different machines; {name}: {', '.join(different)}")
    return 0


def _varying(found: Sequence[Comparison]) -> set[str]:
    """Returns the variables that tell the points apart; all if there is only one point."""
    names = {name for comparison in found for name in comparison.values}
    several = {name for name in names if len({text_of(comparison.values.get(name, "")) for comparison in found}) > 1}
    return several or names


def _comparison_row(of: Comparison, names: set[str]) -> list[object]:
    mark = "x" if of.difference.kind == "ratio" else ""
    interval = ""
    if of.difference.low is not None:
        interval = f"{cell_text(of.difference.low)} to {cell_text(of.difference.high)}"
    means = [f"{cell_text(of.middle(side))} ({len(side)})" for side in (of.a, of.b)]
    sign = "+" if mark == "" and of.difference.value > 0 else ""
    value = f"{sign}{cell_text(of.difference.value)}{mark}"
    point = describe({name: value for name, value in of.values.items() if name in names})
    return [of.experiment, point, of.metric, of.unit, *means, value, interval, of.difference.verdict, of.quality]


def _csv(arguments: argparse.Namespace) -> int:
    with _open(arguments) as store:
        store.csv(arguments.out, _chosen(store, arguments.session)["session"])
    return 0


def _report(arguments: argparse.Namespace) -> int:
    with _open(arguments) as store:
        for path in session_report.write(store, _chosen(store, arguments.session)["session"], arguments.out):
            print(f"wrote {path}")
    return 0


def _print_table(headers: list[str], rows: list[list[object]]) -> None:
    texts = [headers, *([cell_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in texts) for column in range(len(headers))]
    for line in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
