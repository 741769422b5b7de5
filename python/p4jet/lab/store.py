"""The store of results: one SQLite file for all experiments, days, commits and machines.

Several processes may write to one store: each run is stored in one transaction. The schema has a version, in SQLite's
``user_version``; another version is refused.
"""

from __future__ import annotations

import array
import csv as csv_format
import fcntl
import json
import math
import os
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypedDict

from . import stats
from .errors import LabError

VERSION = 1
"""Version of the schema."""

_BUSY_SECONDS = 60.0
"""How long a write waits for other writers."""

_SCHEMA = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    experiment TEXT NOT NULL,
    content TEXT NOT NULL,
    started TEXT NOT NULL,
    finished TEXT,
    "commit" TEXT NOT NULL,
    inventory TEXT NOT NULL
);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions(id),
    point TEXT NOT NULL,
    "values" TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    started TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    duration REAL NOT NULL,
    UNIQUE (session, point, repetition)
);
CREATE TABLE metrics (
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    unit TEXT NOT NULL,
    quality TEXT NOT NULL,
    PRIMARY KEY (run, name)
);
CREATE TABLE samples (
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    quality TEXT NOT NULL,
    doubles BLOB NOT NULL,
    PRIMARY KEY (run, name)
);
"""
# `point` is what `key` returns for `values`, which are in the order of the experiment. `doubles`: IEEE 754 binary64, little-endian.

MODELLED, LIMITED = "modelled", "limited by the generator"
QUALITIES = ("measured", MODELLED, LIMITED, f"{MODELLED}, {LIMITED}")
"""What a value can be: the switch's own measured figure; computed from a model; the generator's limit, not the switch's; or both."""


def both_qualities(*qualities: str) -> str:
    """Returns the quality of a value that comes from values of these qualities: what limits one of them limits it, too."""
    found = [part for part in (MODELLED, LIMITED) if any(part in quality for quality in qualities)]
    return ", ".join(found) or QUALITIES[0]


@dataclass(frozen=True)
class Metric:
    """A figure of one run."""

    value: float
    unit: str
    quality: str = "measured"
    """One of :data:`QUALITIES`."""


@dataclass(frozen=True)
class Samples:
    """A distribution that one run measured, such as latencies."""

    values: Sequence[float]
    unit: str
    quality: str = "measured"
    """One of :data:`QUALITIES`."""


class Row(TypedDict):
    """A run in the store."""

    session: int
    experiment: str
    commit: str
    values: dict[str, object]
    """The variables of the point."""
    repetition: int
    seed: int
    started: str
    """UTC, as ISO 8601."""
    status: str
    """``"ok"`` or ``"failed"``."""
    reason: str
    """Why the run failed; empty otherwise."""
    duration: float
    """Seconds."""
    metrics: dict[str, Metric]


class Session(TypedDict):
    """One execution of an experiment."""

    session: int
    experiment: str
    content: str
    """Hash of the experiment's content."""
    started: str
    """UTC, as ISO 8601."""
    finished: str | None
    """UTC, as ISO 8601; ``None`` if it was interrupted or still runs."""
    commit: str
    inventory: dict[str, object]
    ok: int
    """Number of runs that succeeded."""
    failed: int


@dataclass(frozen=True)
class Comparison:
    """One metric of one experiment at one point, on both sides."""

    experiment: str
    values: Mapping[str, object]
    """The variables that both sides share."""
    metric: str
    unit: str
    a: Sequence[float]
    b: Sequence[float]
    quality: str
    """That of both sides together: see :func:`both_qualities`."""
    sessions: tuple[frozenset[int], frozenset[int]]
    """The sessions that A and B come from."""
    difference: stats.Difference

    def middle(self, side: Sequence[float]) -> float:
        """Returns the mean of a side that the difference compares: geometric for a ratio, else arithmetic."""
        if self.difference.kind == "ratio":
            return math.exp(stats.mean([math.log(value) for value in side]))
        return stats.mean(side)


@dataclass(frozen=True)
class Selection:
    """Runs that one side of a comparison consists of: those of sessions, days, commits, or values of variables."""

    text: str
    session: int | None = None
    day: str | None = None
    commit: str | None = None
    values: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str) -> Selection:
        """Reads ``12`` (a session), ``2026-07-31`` (a UTC day), ``a8f12d7`` (a commit), ``ovs`` (a switch), or ``size=64``.

        ``session=``, ``day=``, ``commit=`` and ``NAME=`` say it explicitly; commas join several conditions. Raises :class:`LabError`.
        """
        session: int | None = None
        day: str | None = None
        commit: str | None = None
        values: list[tuple[str, str]] = []
        for part in text.split(","):
            name, sign, value = part.strip().partition("=")
            if not sign:
                value = name
                if re.fullmatch(r"\d{1,6}", value):
                    name = "session"
                elif re.fullmatch(r"\d{4}-\d\d-\d\d", value):
                    name = "day"
                elif re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", value):
                    name = "commit"
                else:
                    name = "switch"
            if not value or not name:
                raise LabError(
                    f"found `{text}`; expected a session (12), a day (2026-07-31), a commit (a8f12d7), a switch (ovs) "
                    f"or a variable (size=64), several joined by commas"
                )
            if name == "session":
                # SQLite's numbers have 64 bits.
                if not value.isascii() or not value.isdigit() or len(value) > 18:
                    raise LabError(f"session={value[:40]}: expected a number; `p4jet-lab results list` shows them")
                session = int(value)
            elif name == "day":
                try:
                    datetime.strptime(value, "%Y-%m-%d")
                except ValueError:
                    raise LabError(f"day={value}: expected a day such as 2026-07-31") from None
                day = value
            elif name == "commit":
                commit = value
            else:
                values.append((name, value))
        return Selection(text, session, day, commit, tuple(values))

    def meaning(self) -> str:
        """Returns what this selects, with the kind of each condition."""
        conditions = [("session", self.session), ("day", self.day), ("commit", self.commit)]
        named = [f"{name} {value}" for name, value in conditions if value is not None]
        return ", ".join([*named, *(f"variable {name} = {value}" for name, value in self.values)])

    def takes(self, row: Row) -> bool:
        """Whether a run belongs to this side."""
        return (
            (self.session is None or row["session"] == self.session)
            and (self.day is None or row["started"].startswith(self.day))
            and (self.commit is None or row["commit"].startswith(self.commit))
            and all(name in row["values"] and text_of(row["values"][name]) == value for name, value in self.values)
        )


def text_of(value: object) -> str:
    """Returns the text of a variable's value, as scripts see it: numbers as Python writes them, ``true`` and ``false``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def default_path() -> Path:
    """Returns ``$P4JET_LAB_STORE``, else ``p4jet-lab/results.sqlite`` in ``$XDG_DATA_HOME`` or ``~/.local/share``."""
    if named := os.environ.get("P4JET_LAB_STORE"):
        return Path(named)
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "p4jet-lab" / "results.sqlite"


class Store:
    """A store of results, which is created if it does not exist.

    Raises :class:`LabError` if the file cannot be opened, is no store, or has another version of the schema. Use it in the thread
    that opened it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._locks: dict[int, int] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._db.execute("PRAGMA foreign_keys = ON")
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise LabError(f"{self.path} cannot be used as a store of results: {error}") from error

    def _prepare(self) -> None:
        def found(question: str) -> int:
            return int(self._db.execute(question).fetchone()[0])

        if found("SELECT count(*) FROM sqlite_master") == 0:
            with self._write():
                # Another process may have created the tables in the meantime.
                if found("SELECT count(*) FROM sqlite_master") == 0:
                    for statement in _SCHEMA.split(";"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {VERSION}")
        version = found("PRAGMA user_version")
        if version != VERSION or found("SELECT count(*) FROM sqlite_master WHERE name = 'sessions'") == 0:
            raise LabError(
                f"{self.path}: found a database with schema version {version}, expected a store of results with version {VERSION}. "
                f"Use another file, or the version of p4jet that wrote it."
            )

    @contextmanager
    def _write(self) -> Iterator[None]:
        """One transaction. It takes the write lock at once, so that it waits for other writers instead of failing later."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise LabError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """Closes the file."""
        for session in list(self._locks):
            self.release(session)
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- writing ----

    def open_session(
        self, experiment: str, content: str, inventory: Mapping[str, object], *, resume: bool = True
    ) -> tuple[int, bool]:
        """Begins a session, or continues one. Returns its number and whether it is continued.

        With `resume`, the newest session with the same `experiment`, `content` hash, commit and host that is not finished, and that
        no other process works on, is continued. :meth:`finish` or :meth:`release` ends the work on it.
        """
        commit, host = str(inventory.get("commit", "unknown")), inventory.get("host")
        with self._write():
            for found in reversed(self.sessions(experiment)):
                same = found["content"] == content and found["commit"] == commit and found["inventory"].get("host") == host
                if resume and same and found["finished"] is None and self._lock(found["session"]):
                    return found["session"], True
            number = self._db.execute(
                'INSERT INTO sessions (experiment, content, started, "commit", inventory) VALUES (?, ?, ?, ?, ?)',
                (experiment, content, _now(), commit, json.dumps(inventory)),
            ).lastrowid
            assert number is not None
            self._lock(number)
            return number, False

    def _lock_path(self, session: int) -> Path:
        return self.path.with_name(f"{self.path.name}.session-{session}.lock")

    def _lock(self, session: int) -> bool:
        """Takes the lock of a session, which the kernel releases when this process ends. Returns whether nobody else has it."""
        file = os.open(self._lock_path(session), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._locks[session] = file
        return True

    def finish(self, session: int) -> None:
        """Marks a session as complete."""
        with self._write():
            self._db.execute("UPDATE sessions SET finished = ? WHERE id = ?", (_now(), session))
        # Only now: another process could hold the lock of a removed file, and a third that of a new one.
        self._lock_path(session).unlink(missing_ok=True)
        self.release(session)

    def release(self, session: int) -> None:
        """Ends the work on a session, which another process may then continue unless it is complete."""
        file = self._locks.pop(session, None)
        if file is not None:
            os.close(file)

    def done(self, session: int) -> set[tuple[str, int]]:
        """Returns the point (as :func:`key` writes it) and repetition of each run of a session that succeeded."""
        found = self._read("SELECT point, repetition FROM runs WHERE session = ? AND status = 'ok'", (session,))
        return {(point, repetition) for point, repetition in found}

    def add(
        self,
        session: int,
        values: Mapping[str, object],
        repetition: int,
        *,
        seed: int,
        duration: float,
        reason: str = "",
        metrics: Mapping[str, Metric] | None = None,
        samples: Mapping[str, Samples] | None = None,
    ) -> None:
        """Stores a run. A `reason` says that it failed. It replaces an earlier run of the same point and repetition."""
        with self._write():
            point = key(values)
            self._db.execute("DELETE FROM runs WHERE session = ? AND point = ? AND repetition = ?", (session, point, repetition))
            run = self._db.execute(
                'INSERT INTO runs (session, point, "values", repetition, seed, started, status, reason, duration) '
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (session, point, json.dumps(values), repetition, seed, _now(-duration), "failed" if reason else "ok", reason, duration),
            ).lastrowid
            self._db.executemany(
                "INSERT INTO metrics VALUES (?, ?, ?, ?, ?)",
                [(run, name, m.value, m.unit, m.quality) for name, m in (metrics or {}).items()],
            )
            self._db.executemany(
                "INSERT INTO samples VALUES (?, ?, ?, ?, ?)",
                [(run, name, s.unit, s.quality, _to_blob(s.values)) for name, s in (samples or {}).items()],
            )

    # ---- reading ----

    def _read(self, question: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(question, values).fetchall()
        except sqlite3.Error as error:
            raise LabError(f"{self.path} cannot be read: {error}") from error

    def _object(self, text: str, of: str) -> dict[str, Any]:
        """Reads a JSON object of the store. Raises :class:`LabError` if it is damaged."""
        try:
            found = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise LabError(f"{self.path} is damaged: {of} has {str(text)[:60]!r}, expected a JSON object; use a copy of the file, or another one")
        return found

    def sessions(self, experiment: str | None = None) -> list[Session]:
        """Returns the sessions, oldest first."""
        found = self._read(
            'SELECT s.id, s.experiment, s.content, s.started, s.finished, s."commit", s.inventory, '
            "(SELECT count(*) FROM runs WHERE session = s.id AND status = 'ok'), "
            "(SELECT count(*) FROM runs WHERE session = s.id AND status != 'ok') "
            "FROM sessions s WHERE ?1 IS NULL OR s.experiment = ?1 ORDER BY s.id",
            (experiment,),
        )
        return [
            Session(session=number, experiment=name, content=content, started=started, finished=finished, commit=commit,
                    inventory=self._object(inventory, f"session {number}"), ok=ok, failed=failed)
            for number, name, content, started, finished, commit, inventory, ok, failed in found
        ]  # fmt: skip

    def session(self, number: int) -> Session:
        """Returns a session. Raises :class:`LabError` if there is none with this number."""
        sessions = self.sessions()
        for session in sessions:
            if session["session"] == number:
                return session
        known = ", ".join(str(session["session"]) for session in sessions[-10:]) or "none"
        raise LabError(f"{self.path} has no session {number}; the newest are: {known}")

    def rows(self, *, experiment: str | None = None, session: int | None = None) -> list[Row]:
        """Returns the runs of an experiment or a session, in the order in which they were executed."""
        found = self._read(
            'SELECT r.id, r.session, s.experiment, s."commit", r."values", r.repetition, r.seed, r.started, r.status, r.reason, '
            "r.duration FROM runs r JOIN sessions s ON s.id = r.session "
            "WHERE (?1 IS NULL OR s.experiment = ?1) AND (?2 IS NULL OR s.id = ?2) ORDER BY r.id",
            (experiment, session),
        )
        metrics: dict[int, dict[str, Metric]] = {}
        for run, name, value, unit, quality in self._read(
            "SELECT m.run, m.name, m.value, m.unit, m.quality FROM metrics m JOIN runs r ON r.id = m.run "
            "JOIN sessions s ON s.id = r.session "
            "WHERE (?1 IS NULL OR s.experiment = ?1) AND (?2 IS NULL OR s.id = ?2) ORDER BY m.rowid",
            (experiment, session),
        ):
            metrics.setdefault(run, {})[name] = Metric(value, unit, quality)
        return [
            Row(session=of, experiment=name, commit=commit, values=self._object(values, f"a run of session {of}"), repetition=repetition, seed=seed,
                started=started, status=status, reason=reason, duration=duration, metrics=metrics.get(run, {}))
            for run, of, name, commit, values, repetition, seed, started, status, reason, duration in found
        ]  # fmt: skip

    def samples(self, session: int, name: str) -> list[tuple[dict[str, object], int, Samples]]:
        """Returns a distribution of each successful run of a session: variables, repetition, samples."""
        found = self._read(
            'SELECT r."values", r.repetition, d.unit, d.quality, d.doubles FROM samples d JOIN runs r ON r.id = d.run '
            "WHERE r.session = ? AND d.name = ? AND r.status = 'ok' ORDER BY r.id",
            (session, name),
        )
        return [
            (self._object(values, f"a run of session {session}"), repetition, Samples(_from_blob(doubles), unit, quality))
            for values, repetition, unit, quality, doubles in found
        ]

    def sample_names(self, session: int) -> list[str]:
        """Returns the names of the distributions of a session."""
        found = self._read(
            "SELECT DISTINCT d.name FROM samples d JOIN runs r ON r.id = d.run WHERE r.session = ? ORDER BY d.name", (session,)
        )
        return [name for (name,) in found]

    def csv(self, path: str | os.PathLike[str], session: int) -> None:
        """Writes a session as CSV, one row for each run: variables, metrics with unit, and the quality of each.

        Raises :class:`LabError` if the session does not exist or the file cannot be written.
        """
        self.session(session)
        rows = self.rows(session=session)
        variables = list(dict.fromkeys(name for row in rows for name in row["values"]))
        units = {(name, m.unit): None for row in rows for name, m in row["metrics"].items()}
        header = ["session", "experiment", "commit", "started", *variables, "repetition", "seed", "status", "reason", "duration (s)"]
        for name, unit in units:
            header += [f"{name} ({unit})" if unit else name, f"{name} quality"]
        try:
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = csv_format.writer(file)
                writer.writerow(header)
                for row in rows:
                    line: list[object] = [row["session"], row["experiment"], row["commit"], row["started"]]
                    line += [text_of(row["values"][name]) if name in row["values"] else "" for name in variables]
                    line += [row["repetition"], row["seed"], row["status"], row["reason"], round(row["duration"], 3)]
                    for name, unit in units:
                        metric = row["metrics"].get(name)
                        line += [metric.value, metric.quality] if metric is not None and metric.unit == unit else ["", ""]
                    writer.writerow(line)
        except OSError as error:
            raise LabError(f"{path}: {error.strerror}") from error

    def _sides(self, a: str | int, b: str | int, experiment: str | None) -> tuple[list[Selection], list[list[Row]]]:
        """Returns what the two sides of a comparison choose, and their runs. Raises :class:`LabError` as :meth:`compare` does."""
        sides = [Selection.parse(str(side)) for side in (a, b)]
        rows = [row for row in self.rows(experiment=experiment) if row["status"] == "ok"]
        within = f" of experiment {experiment}" if experiment else ""
        for side in sides:
            if not any(side.takes(row) for row in rows):
                raise LabError(
                    f"{self.path} has no successful runs{within} for `{side.text}` ({side.meaning()}); "
                    f"`p4jet-lab results list` shows the sessions, days and commits, `results show` the variables of a session"
                )
        if all(side.session is None and side.day is None and side.commit is None for side in sides):
            rows = _newest_with_both(rows, sides)
            if not rows:
                raise LabError(
                    f"{self.path}: no session has successful runs{within} of both `{sides[0].text}` and `{sides[1].text}`; "
                    f"name a session on each side, such as `session=1,{sides[0].text}`"
                )
        chosen = [[row for row in rows if side.takes(row)] for side in sides]
        both = sum(all(side.takes(row) for side in sides) for row in rows)
        if both:
            raise LabError(
                f"`{sides[0].text}` and `{sides[1].text}` choose {both} of the same runs ({len(chosen[0])} and {len(chosen[1])} in all); "
                f"a run cannot be compared with itself: add a condition to each side, such as `session=1,switch=ovs`"
            )
        return sides, chosen

    def unmatched(self, a: str | int, b: str | int, *, experiment: str | None = None) -> tuple[list[str], list[str]]:
        """Returns the points that only side A has, and those that only B has, which :meth:`compare` leaves out.

        At points that both have, these are metrics that only one has.
        """
        sides, chosen = self._sides(a, b, experiment)
        metrics: list[dict[str, set[str]]] = [{}, {}]
        for found, of in zip(chosen, metrics):
            for row in found:
                point = f"{row['experiment']} {key(_shared(row, sides))}"
                of.setdefault(point, set()).update(
                    f"{name} ({metric.unit})" if metric.unit else name for name, metric in row["metrics"].items()
                )
        left_out = []
        for own, other in (metrics, reversed(metrics)):
            points = [point for point in own if point not in other]
            more = {name for point in own if point in other for name in own[point] - other[point]}
            left_out.append([*points, *(f"metric {name}" for name in sorted(more))])
        return left_out[0], left_out[1]

    def compare(self, a: str | int, b: str | int, *, experiment: str | None = None) -> list[Comparison]:
        """Compares two sides: sessions, days, commits or switches, as :meth:`Selection.parse` reads them.

        A metric is compared at each point that both sides have, over their successful runs; :meth:`unmatched` names the others.
        Variables that a side chooses do not count. If both sides choose only by variables, they are taken from the newest session
        that has both, for each experiment, so that both ran interleaved. Raises :class:`LabError` if a side has no runs, if the sides
        share runs, or if they have nothing in common.
        """
        sides, chosen = self._sides(a, b, experiment)
        grouped: list[dict[tuple[str, str, str, str], list[tuple[int, Metric]]]] = []
        points: dict[str, dict[str, object]] = {}
        for found in chosen:
            groups: dict[tuple[str, str, str, str], list[tuple[int, Metric]]] = {}
            for row in found:
                values = _shared(row, sides)
                point = key(values)
                points[point] = values
                for name, metric in row["metrics"].items():
                    groups.setdefault((row["experiment"], point, name, metric.unit), []).append((row["session"], metric))
            grouped.append(groups)
        result = []
        for group in grouped[0]:
            if group in grouped[1]:
                of, point, name, unit = group
                metrics = grouped[0][group], grouped[1][group]
                left, right = ([metric.value for _, metric in side] for side in metrics)
                quality = both_qualities(*(metric.quality for side in metrics for _, metric in side))
                sessions = (frozenset(session for session, _ in metrics[0]), frozenset(session for session, _ in metrics[1]))
                result.append(
                    Comparison(of, points[point], name, unit, left, right, quality, sessions, stats.difference(left, right))
                )
        if not result:
            raise LabError(
                f"`{sides[0].text}` and `{sides[1].text}` have no point and metric in common: {_points(chosen[0])} against "
                f"{_points(chosen[1])}"
            )
        return result


def key(values: Mapping[str, object]) -> str:
    """Returns a point as canonical JSON."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def _shared(row: Row, sides: Sequence[Selection]) -> dict[str, object]:
    """Returns the variables of a run that no side of a comparison chooses."""
    free = {name for side in sides for name, _ in side.values}
    return {name: value for name, value in row["values"].items() if name not in free}


def _points(rows: Sequence[Row]) -> str:
    found = sorted({f"{row['experiment']} {key(row['values'])}" for row in rows})
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _newest_with_both(rows: Sequence[Row], sides: Sequence[Selection]) -> list[Row]:
    """Returns the runs of the newest session of each experiment in which both sides have runs."""
    newest: dict[str, int] = {}
    for row in rows:
        newest.setdefault(row["experiment"], 0)
    for name in newest:
        both = set.intersection(
            *({row["session"] for row in rows if row["experiment"] == name and side.takes(row)} for side in sides)
        )
        newest[name] = max(both, default=0)
    return [row for row in rows if row["session"] == newest[row["experiment"]]]


def _now(seconds: float = 0.0) -> str:
    """Returns the time, `seconds` later, in UTC as ISO 8601."""
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat(timespec="seconds")


def _to_blob(values: Sequence[float]) -> bytes:
    doubles = array.array("d", values)
    if sys.byteorder == "big":
        doubles.byteswap()
    return doubles.tobytes()


def _from_blob(blob: bytes) -> list[float]:
    doubles = array.array("d")
    if len(blob) % doubles.itemsize:
        raise LabError(f"the store is damaged: a distribution has {len(blob)} bytes, expected a multiple of {doubles.itemsize}")
    doubles.frombytes(blob)
    if sys.byteorder == "big":
        doubles.byteswap()
    return doubles.tolist()
