"""Experiments: scripts and functions in roles, run for each point of a sweep, with results in a store."""

from __future__ import annotations

import array
import hashlib
import inspect
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from . import _search, guard, inventory
from .errors import LabError
from .errors import describe as error_text
from .store import QUALITIES, Metric, Samples, Store, key, text_of

if TYPE_CHECKING:
    from .network import Node, Process

RESERVED = frozenset(
    "session experiment commit started repetition seed status reason duration day "
    "PATH HOME SHELL IFS ENV BASH_ENV TMPDIR PWD SEED REPETITION ROLE RUN_DIR P4JET P4JET_LAB_RUN LD_PRELOAD LD_LIBRARY_PATH "
    "UID EUID PPID BASHPID BASHOPTS SHELLOPTS RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME LINENO GROUPS OPTARG OPTIND".split()
)
"""Names that no variable may have: columns of results, and environment variables that scripts or shells need."""

RUNS_MAX = 100_000
"""Maximum number of runs of an experiment."""

SAMPLES_MAX = 10_000_000
"""Maximum number of values of a distribution."""

LOG_BYTES_MAX = 64 << 20
"""A script that writes more output fails."""

SAMPLE_FILE_BYTES_MAX = 256 << 20
"""Maximum size of a file with a distribution."""

_POLL_SECONDS = 0.02
"""How often the output of a script is read: the delay of an event."""
_STOP_SECONDS = 3.0
"""How long a script may take to end after SIGTERM."""
_GRACE_SECONDS = 5.0
"""How long roles may take to end after their run has failed."""

_RESULT = re.compile(r"RESULT\s+(\S+)\s+(\S+)(?:\s+(\S+))?(?:\s+(.*\S))?\s*")
_EVENT = re.compile(r"EVENT\s+(\S+)\s*")


@dataclass(frozen=True)
class Pattern:
    """A metric that a regular expression finds in the output of scripts: its first group is the value, of the last match."""

    name: str
    pattern: str
    unit: str = ""
    role: str | None = None
    """Whose output; ``None``: that of all roles."""
    quality: str = "measured"


@dataclass(frozen=True)
class SampleFile:
    """A distribution that scripts leave in a file of the run's folder: numbers separated by white space."""

    name: str
    file: str
    unit: str = ""
    quality: str = "measured"


@dataclass(frozen=True)
class Script:
    """What a role does, as a script."""

    command: str | tuple[str, ...]
    """Text for ``bash -euo pipefail``, or a program with its arguments."""
    waits: tuple[str, ...] = ()
    """Events that it awaits before it starts."""
    node: str | None = None
    """Host or switch of the experiment's topology on which it runs; ``None``: this machine."""
    is_background: bool = False
    """It is stopped when the other roles have ended, instead of being waited for."""
    tags: tuple[str, ...] = ()
    """The role exists only if all of these tags are given. ``-NAME``: only if NAME is not given."""
    timeout: float | None = None
    """Seconds; ``None``: the time limit of the run."""


Role = Callable[["Run"], None]
"""What a role does, as a function."""


class Run:
    """One run: one repetition of one point. Roles get it, in a thread each."""

    def __init__(
        self, values: dict[str, object], repetition: int, seed: int, folder: Path, *, timeout: float = 300.0, token: str = ""
    ) -> None:
        self.values = values
        """The variables of this point."""
        self.repetition = repetition
        """From 1."""
        self.seed = seed
        """For random numbers. It depends on the experiment's seed and the repetition, so that all points see the same traffic."""
        self.folder = folder
        """For files of this run. It is kept."""
        self.token = token or uuid.uuid4().hex
        """Marks the processes of this run: see :mod:`p4jet.lab.guard`."""
        self.cwd: Path | None = None
        """Where scripts start; ``None``: in the current folder."""
        self.metrics: dict[str, Metric] = {}
        self.samples: dict[str, Samples] = {}
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._changed = threading.Condition(threading.RLock())
        self._events: set[str] = set()
        self.failure: str | None = None
        """Why the run failed."""
        self._is_ending = False
        self._deferred: list[Callable[[], object]] = []
        self._waiting: set[str] = set()
        self._finished: set[str] = set()
        self._expected: set[str] | None = None
        """The roles that can raise events, if they are known: when all of them wait or have ended, waiting is in vain."""

    # ---- results ----

    def metric(self, name: str, value: float, unit: str = "", quality: str = "measured") -> None:
        """Records a figure. Raises :class:`LabError` if it has one of this name, or the value is no finite number."""
        self._check(name, quality)
        if not math.isfinite(value):
            raise LabError(f"metric {name}: found {value}, expected a finite number")
        with self._changed:
            if name in self.metrics:
                raise LabError(f"metric {name} was reported twice; report a distribution by `sample`")
            self.metrics[name] = Metric(float(value), unit, quality)

    def sample(self, name: str, values: Sequence[float], unit: str = "", quality: str = "measured") -> None:
        """Records a distribution, such as latencies. Raises :class:`LabError` if it is empty or has one of this name."""
        self._check(name, quality)
        doubles = [float(value) for value in values]
        if not 0 < len(doubles) <= SAMPLES_MAX:
            raise LabError(f"sample {name}: found {len(doubles)} values, expected 1 to {SAMPLES_MAX}")
        if not all(map(math.isfinite, doubles)):
            raise LabError(f"sample {name}: found a value that is not finite")
        with self._changed:
            if name in self.samples:
                raise LabError(f"sample {name} was reported twice")
            self.samples[name] = Samples(doubles, unit, quality)

    def _check(self, name: str, quality: str) -> None:
        if quality not in QUALITIES:
            raise LabError(f"{name}: found quality {quality!r}; expected one of: {', '.join(QUALITIES)}")
        if name in self.values or name in RESERVED:
            raise LabError(f"{name} cannot be the name of a result: it is the name of a variable or a column")

    # ---- events ----

    def event(self, name: str) -> None:
        """Raises an event. Roles that await it go on; an event that was raised stays raised."""
        with self._changed:
            self._events.add(name)
            self._changed.notify_all()

    def wait(self, name: str, timeout: float | None = None, *, role: str = "") -> None:
        """Waits for an event. Raises :class:`LabError` after `timeout` seconds, and at the end of the run's time."""
        end = self._deadline if timeout is None else min(self._deadline, time.monotonic() + timeout)
        with self._changed:
            if role:
                self._waiting.add(role)
            self._changed.notify_all()
            try:
                while name not in self._events:
                    raised = ", ".join(sorted(self._events)) or "none"
                    if self._is_ending:
                        raise LabError(f"the run ended while {role or 'a role'} waited for event {name}")
                    if self._expected is not None and self._expected <= self._finished | self._waiting:
                        raise LabError(f"nobody is left to raise event {name}, for which {role} waits; raised: {raised}")
                    left = end - time.monotonic()
                    if left <= 0:
                        raise LabError(f"event {name} was not raised in time; raised: {raised}")
                    self._changed.wait(left)
            finally:
                self._waiting.discard(role)

    # ---- scripts ----

    def script(
        self,
        command: str | Sequence[str],
        *,
        role: str,
        node: Node | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        patterns: Sequence[Pattern] = (),
        until: Callable[[], bool] | None = None,
    ) -> str:
        """Runs a script to its end and returns its output, standard output and standard error together.

        A text runs in ``bash -euo pipefail``, a sequence is a program with its arguments. The variables of the point are in its
        environment under their own names, and also SEED, REPETITION, ROLE and RUN_DIR (the run's folder), and `env`. A line
        ``RESULT NAME VALUE [UNIT [QUALITY]]`` reports a metric, ``EVENT NAME`` raises an event; `patterns` find metrics in the whole
        output. The script ends when `until` returns true. Its output is kept in `role`.log of the run's folder.

        Raises :class:`LabError` if it fails, or runs longer than `timeout` seconds or the run. Processes that it leaves behind end
        with the run.
        """
        argv = ["bash", "-euo", "pipefail", "-c", command] if isinstance(command, str) else list(command)
        if self.cwd is not None and node is not None:
            argv = ["bash", "-c", 'cd -- "$1" && shift && exec "$@"', "bash", str(self.cwd), *argv]
        env = {name: text_of(value) for name, value in self.values.items()} | dict(env or {})
        env |= {"SEED": str(self.seed), "REPETITION": str(self.repetition), "ROLE": role, "RUN_DIR": str(self.folder)}
        env[guard.VARIABLE] = self.token
        end = self._deadline if timeout is None else min(self._deadline, time.monotonic() + timeout)
        with self._changed:
            log = self._log(role)
            # A run that ends kills its scripts. None may start after that.
            if self._is_ending:
                raise LabError(f"{role}: the run ended before its script started")
            process: _Local | Process
            if node is None:
                process = _Local(argv, env, log, self.cwd)
                self.defer(process.end)
            else:
                process = node.spawn(argv, log=log, env=env)
        try:
            status = self._follow(process, role, log, end, timeout, until)
        except BaseException:
            process.stop(_STOP_SECONDS)
            raise
        if status != 0:
            how = f"was ended by signal {-status}" if status < 0 else f"failed with status {status}"
            raise LabError(f"{role} {how}; its last output:\n{_tail(log)}")
        if patterns:
            self._find(role, patterns, log)
        return log.read_text(encoding="utf-8", errors="replace")

    def _log(self, role: str) -> Path:
        """Returns and creates the file for the output of the next script of a role."""
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", role)
        for number in itertools.count(1):
            log = self.folder / (f"{name}.log" if number == 1 else f"{name}-{number}.log")
            if not log.exists():
                break
        log.touch()
        return log

    def _follow(
        self, process: _Local | Process, role: str, log: Path, end: float, timeout: float | None, until: Callable[[], bool] | None
    ) -> int:
        """Reads the output of a script until it ends. Returns its status, 0 if it was stopped because of `until`."""
        lines = _Lines(log)
        is_stopped = False
        while True:
            status = process.poll()
            # After the status, so that nothing that an ended script wrote is missed.
            if (size := log.stat().st_size) > LOG_BYTES_MAX:
                process.stop(_STOP_SECONDS)
                raise LabError(f"{role} wrote {size} bytes of output to {log}, more than {LOG_BYTES_MAX >> 20} MiB; its last output:\n{_tail(log)}")
            for line in lines.read(to_end=status is not None):
                self._line(role, line)
            if status is not None:
                return 0 if is_stopped else status
            why = self._why_stop(role, end, timeout)
            if why is not None:
                process.stop(_STOP_SECONDS)
                raise LabError(f"{why}; its last output:\n{_tail(log)}")
            if until is not None and until():
                is_stopped = True
                process.stop(_STOP_SECONDS)
            else:
                time.sleep(_POLL_SECONDS)

    def _why_stop(self, role: str, end: float, timeout: float | None) -> str | None:
        """Returns why a script must not go on, or ``None``."""
        if self._is_ending:
            return f"{role} was stopped because the run ended"
        if time.monotonic() > end:
            return f"{role} did not end within {self._timeout if timeout is None else timeout:g} s"
        return None

    def _line(self, role: str, line: str) -> None:
        word = line.partition(" ")[0].rstrip()
        if word == "EVENT":
            found = _EVENT.fullmatch(line)
            if not found:
                raise LabError(f"{role} wrote `{line}`; expected EVENT NAME")
            self.event(found[1])
        elif word == "RESULT":
            found = _RESULT.fullmatch(line)
            try:
                if not found:
                    raise ValueError
                self.metric(found[1], float(found[2]), found[3] or "", found[4] or "measured")
            except ValueError:
                raise LabError(f"{role} wrote `{line}`; expected RESULT NAME NUMBER [UNIT [QUALITY]]") from None

    def _find(self, role: str, patterns: Sequence[Pattern], log: Path) -> None:
        """Finds metrics in the output of a role. Raises :class:`LabError` also if that takes longer than the run."""
        expressions = [pattern.pattern for pattern in patterns]
        output = self.script([sys.executable, "-I", _search.__file__, str(log), *expressions], role=f"search-{role}")
        for pattern, found in zip(patterns, json.loads(output)):
            if found is None:
                if pattern.role is None:
                    continue  # Another role may have it: `_collect` checks.
                raise LabError(f"metric {pattern.name}: pattern {pattern.pattern!r} is not in the output of {role}:\n{_tail(log)}")
            try:
                value = float(found)
            except ValueError:
                raise LabError(f"metric {pattern.name}: found {found[:100]!r} in the output of {role}, expected a number") from None
            self.metric(pattern.name, value, pattern.unit, pattern.quality)

    # ---- the end ----

    def defer(self, call: Callable[[], object]) -> None:
        """Calls a function at the end of the run, whatever happens; the last one first."""
        with self._changed:
            self._deferred.append(call)

    def fail(self, reason: str) -> None:
        """Ends the run as failed. Only the first reason counts."""
        with self._changed:
            if self.failure is None and not self._is_ending:
                self.failure = reason
            self._is_ending = True
            self._changed.notify_all()

    def _role_ended(self, role: str) -> None:
        with self._changed:
            self._finished.add(role)
            self._changed.notify_all()

    def _clean(self) -> None:
        """Ends the scripts and calls what was deferred. A failure of one call does not keep the others from being called."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        left = guard.end_processes(self.token)
        faults = [f"{left} processes of its scripts cannot be ended"] if left else []
        while self._deferred:
            call = self._deferred.pop()
            try:
                call()
            except Exception as error:
                faults.append(f"cleaning up failed: {error_text(error)}")
        # What was deferred may have ended with a script.
        guard.end_processes(self.token)
        if faults:
            self.failure = "; ".join(([self.failure] if self.failure else []) + faults)


class _Local:
    """A program on this machine, in a process group of its own."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], log: Path, cwd: Path | None) -> None:
        try:
            with open(log, "wb") as out:
                self._process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **env}, cwd=cwd,
                    start_new_session=True,
                )  # fmt: skip
        except (OSError, ValueError) as error:
            raise LabError(f"{argv[0]} cannot be started: {error}") from error

    def poll(self) -> int | None:
        """Returns the exit status, negative for a signal, or ``None``.

        The process stays in the kernel's table until :meth:`end`, so that no other process group can get its number meanwhile.
        """
        if self._process.returncode is not None:
            return self._process.returncode
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def stop(self, timeout: float) -> None:
        """Ends the process group: SIGTERM, and after `timeout` seconds SIGKILL."""
        self._signal(signal.SIGTERM)
        end = time.monotonic() + timeout
        while self.poll() is None and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        self.end()

    def end(self) -> None:
        """Kills what is left of the process group."""
        self._signal(signal.SIGKILL)
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            raise LabError(f"process {self._process.pid} does not end, even by SIGKILL") from None

    def _signal(self, number: int) -> None:
        if self._process.returncode is None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass  # Another thread has just ended it.


class _Lines:
    """The lines that a growing file has got since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._rest = b""

    def read(self, *, to_end: bool) -> list[str]:
        """Returns the complete lines of the next MiB; `to_end` returns all, also an incomplete last one."""
        with open(self._path, "rb") as file:
            file.seek(self._size)
            new = file.read(LOG_BYTES_MAX if to_end else 1 << 20)
        self._size += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        if to_end:
            lines.append(self._rest)
        return [line.decode("utf-8", "replace") for line in lines]


@dataclass
class Experiment:
    """A sweep: roles, run for each combination of the variables' values, several times.

    Raises :class:`LabError`, with every fault, if it cannot be run.
    """

    name: str
    variables: Mapping[str, Sequence[object]]
    """The values of each variable: texts, numbers or booleans. The first variable alternates fastest."""
    roles: Mapping[str, Role | Script]
    repetitions: int = 6
    timeout: float = 300.0
    """Seconds for one run."""
    seed: int = 1
    tags: frozenset[str] = frozenset()
    """The tags that are given; they choose among the scripts."""
    prepare: Callable[[Run], None] | None = None
    """Called before the roles of each run; it may defer clean-up. The run's time has begun, but does not interrupt it."""
    skip: Callable[[dict[str, object]], str | None] | None = None
    """Returns why a point does not apply, or ``None``."""
    patterns: Sequence[Pattern] = ()
    sample_files: Sequence[SampleFile] = ()
    topology: Path | None = None
    """The network that is up during each run, for scripts with a `node`."""
    cwd: Path | None = None
    """Where scripts start; ``None``: in the current folder."""
    description: str = ""
    source: str = ""
    """What else determines results, such as the text of the experiment's file. It counts for :meth:`content`."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Points that do not apply, with the reason. :func:`execute` fills it."""

    def __post_init__(self) -> None:
        faults = []
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", self.name):
            faults.append(f"name: found {self.name!r}; expected letters, digits, `_`, `.` and `-`")
        for name, values in self.variables.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in RESERVED:
                faults.append(f"variables.{name}: this name is reserved, or no name for an environment variable")
            if not values:
                faults.append(f"variables.{name}: found no values, expected at least one")
            if wrong := [value for value in values if not isinstance(value, (str, int, float, bool))]:
                faults.append(f"variables.{name}: found {wrong[0]!r}; expected texts, numbers or booleans")
            elif len({text_of(value) for value in values}) < len(values):
                faults.append(f"variables.{name}: a value occurs twice")
        if self.repetitions < 1:
            faults.append(f"repetitions: found {self.repetitions}, expected at least 1")
        if not (0 < self.timeout <= 86_400):
            faults.append(f"timeout: found {self.timeout}, expected up to 86400 seconds")
        if math.prod(len(values) for values in self.variables.values()) * max(self.repetitions, 1) > RUNS_MAX:
            faults.append(f"variables: more than {RUNS_MAX} runs; choose fewer values or repetitions")
        active = self.active_roles()
        if not active:
            faults.append(f"roles: no role is left with the tags {', '.join(sorted(self.tags)) or '(none)'}")
        elif all(isinstance(role, Script) and role.is_background for role in active.values()):
            faults.append("roles: all are in the background; one role must decide when a run ends")
        for name, role in active.items():
            if isinstance(role, Script) and role.node is not None and self.topology is None:
                faults.append(f"roles.{name}.node: found {role.node!r}, but the experiment has no topology")
        for pattern in self.patterns:
            faults += pattern_faults(pattern, self.roles)
        results: list[Pattern | SampleFile] = [*self.patterns, *self.sample_files]
        for item in results:
            if item.quality not in QUALITIES:
                faults.append(f"{item.name}.quality: found {item.quality!r}; expected one of: {', '.join(QUALITIES)}")
            if item.name in self.variables or item.name in RESERVED:
                faults.append(f"metric {item.name}: this is the name of a variable or a column")
        if faults:
            raise LabError(f"experiment {self.name}:\n" + "\n".join(faults))

    def active_roles(self) -> dict[str, Role | Script]:
        """Returns the roles that the tags leave."""

        def is_active(role: Role | Script) -> bool:
            tags = role.tags if isinstance(role, Script) else ()
            return all((tag[1:] not in self.tags) if tag.startswith("-") else (tag in self.tags) for tag in tags)

        return {name: role for name, role in self.roles.items() if is_active(role)}

    def points(self) -> list[dict[str, object]]:
        """Returns the points that apply; the first variable alternates fastest."""
        points = []
        self.left_out = {}
        for values in itertools.product(*reversed(list(self.variables.values()))):
            point = dict(zip(self.variables, reversed(values)))
            why = self.skip(point) if self.skip is not None else None
            if why is None:
                points.append(point)
            else:
                self.left_out[describe(point)] = why
        return points

    def content(self) -> str:
        """Returns a hash of what determines the results: two sessions with the same hash executed the same."""
        roles = {name: repr(role) if isinstance(role, Script) else _source(role) for name, role in self.active_roles().items()}
        topology = self.topology.read_text(encoding="utf-8") if self.topology is not None else ""
        parts = [
            self.name, [[name, list(values)] for name, values in self.variables.items()], roles, self.repetitions, self.timeout,
            self.seed, sorted(self.tags), _source(self.prepare), _source(self.skip), repr(self.patterns), repr(self.sample_files),
            topology, self.source,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @staticmethod
    def from_toml(
        path: str | os.PathLike[str],
        *,
        tags: frozenset[str] = frozenset(),
        only: Mapping[str, Sequence[str]] | None = None,
        repetitions: int | None = None,
    ) -> Experiment:
        """Reads an experiment from a file; see docs/lab-experiments.md.

        `tags` enable or disable roles and set variables. `only` reduces variables to some of their values, given as text;
        `repetitions` replaces the file's. Raises :class:`LabError` with every fault and its key.
        """
        from .experiment_file import load

        return load(Path(path), tags, only or {}, repetitions)


def pattern_faults(pattern: Pattern, roles: Mapping[str, object]) -> list[str]:
    """Returns what is wrong with a pattern."""
    faults = []
    try:
        if re.compile(pattern.pattern).groups < 1:
            faults.append(f"metrics.{pattern.name}.pattern: found no group; put the number in parentheses, such as ([0-9.]+)")
    except (re.error, OverflowError, RecursionError) as error:
        faults.append(f"metrics.{pattern.name}.pattern: {pattern.pattern!r} is no regular expression: {error}")
    if pattern.role is not None and pattern.role not in roles:
        faults.append(f"metrics.{pattern.name}.role: found {pattern.role!r}; the roles are: {', '.join(roles)}")
    return faults


def describe(values: Mapping[str, object]) -> str:
    """Returns a point as text, such as ``switch=ovs size=64``."""
    return " ".join(f"{name}={text_of(value)}" for name, value in values.items()) or "(no variables)"


def execute(
    experiment: Experiment,
    store: Store,
    *,
    resume: bool = True,
    progress: Callable[[str], None] = print,
    logs: Path | None = None,
) -> int:
    """Executes an experiment and returns the number of its session.

    The repetitions are the outermost loop and the first variable the innermost, so that drift of the machine hits all values of it
    alike. With `resume`, an interrupted session of the same content, commit and host is continued: its successful runs are not
    repeated. A run that fails is stored with its reason, and the sweep goes on. Roles run in threads; when one fails or the time is
    up, the run ends, its scripts are killed and everything deferred is called. A function that does not end then is abandoned.
    Ctrl-C stores nothing of the current run, cleans up, and raises :class:`KeyboardInterrupt`.

    `logs` is the folder for the runs' folders; by default NAME.logs beside the store. `progress` gets a line for each run.
    """
    points = experiment.points()
    if not points:
        raise LabError(f"experiment {experiment.name}: no point applies: " + "; ".join(
            f"{point}: {why}" for point, why in list(experiment.left_out.items())[:5]
        ))  # fmt: skip
    for left_out, why in experiment.left_out.items():
        progress(f"left out: {left_out}: {why}")
    machine = inventory.machine()
    machine["experiment"] = {"seed": experiment.seed, "repetitions": experiment.repetitions, "tags": sorted(experiment.tags),
                             "left out": experiment.left_out}  # fmt: skip
    session, is_continued = store.open_session(experiment.name, experiment.content(), machine, resume=resume)
    try:
        done = store.done(session)
        if is_continued:
            progress(f"session {session} was interrupted; it continues after {len(done)} runs")
        total = len(points) * experiment.repetitions
        todo = [
            (point, repetition)
            for repetition in range(1, experiment.repetitions + 1)
            for point in points
            if (key(point), repetition) not in done
        ]
        base = uuid.uuid4().hex
        folder = logs or store.path.with_name(f"{store.path.stem}.logs")
        began = time.monotonic()
        with _guarded(base):
            for number, (point, repetition) in enumerate(todo):
                name = re.sub(r"[^A-Za-z0-9_.=-]+", "_", describe(point))[:150]
                place = folder / f"session-{session}" / f"{repetition}-{points.index(point) + 1}-{name}"
                run, duration = _run(experiment, point, repetition, place, f"{base}.{number}.")
                store.add(
                    session, point, repetition, seed=run.seed, duration=duration, reason=run.failure or "",
                    metrics=run.metrics, samples=run.samples,
                )  # fmt: skip
                left = (time.monotonic() - began) / (number + 1) * (len(todo) - number - 1)
                outcome = "failed: " + run.failure.splitlines()[0].removesuffix("; its last output:") if run.failure else "ok"
                progress(
                    f"{total - len(todo) + number + 1}/{total} {describe(point)} repetition {repetition}: {outcome} "
                    f"({duration:.1f} s); {seconds_text(left)} left"
                )
        store.finish(session)
    finally:
        store.release(session)
    return session


def seconds_text(seconds: float) -> str:
    """Returns a duration as people read it, such as ``2 min 5 s``."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _run(
    experiment: Experiment, point: dict[str, object], repetition: int, folder: Path, token: str
) -> tuple[Run, float]:
    """Executes one run. Returns it, and its duration in seconds."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise LabError(f"{folder}: {error.strerror}") from error
    seed = random.Random(f"{experiment.seed}/{repetition}").getrandbits(31)
    started = time.monotonic()
    run = Run(point, repetition, seed, folder, timeout=experiment.timeout, token=token)
    run.cwd = experiment.cwd
    try:
        _perform(experiment, run)
    except Exception as error:
        run.fail(error_text(error))
    finally:
        # A second Ctrl-C must not interrupt the clean-up.
        with _no_interrupts():
            run._clean()
    return run, time.monotonic() - started


def _perform(experiment: Experiment, run: Run) -> None:
    """Brings the network up, runs the roles to their end, and collects their results. Raises what goes wrong outside of roles."""
    nodes: Callable[[str], Node] | None = None
    if experiment.topology is not None:
        from .network import Lab
        from .topology import Topology

        lab = Lab(Topology.load(experiment.topology), folder=run.folder)
        run.defer(lab.down)
        lab.up()
        nodes = lab.node
    if experiment.prepare is not None:
        experiment.prepare(run)
    roles = experiment.active_roles()
    foreground = {name for name, role in roles.items() if not (isinstance(role, Script) and role.is_background)}
    if all(isinstance(role, Script) for role in roles.values()):
        run._expected = set(roles)

    def others_have_ended() -> bool:
        return foreground <= run._finished

    def perform(name: str, role: Role | Script) -> None:
        try:
            if isinstance(role, Script):
                for event in role.waits:
                    run.wait(event, role=name)
                patterns = [pattern for pattern in experiment.patterns if pattern.role in (None, name)]
                node = nodes(role.node) if role.node is not None and nodes is not None else None
                until = others_have_ended if role.is_background else None
                run.script(role.command, role=name, node=node, timeout=role.timeout, patterns=patterns, until=until)
            else:
                role(run)
        except Exception as error:
            run.fail(error_text(error))
        finally:
            run._role_ended(name)

    threads = [
        threading.Thread(target=perform, args=(name, role), name=name, daemon=True) for name, role in roles.items()
    ]
    for thread in threads:
        thread.start()
    # Scripts stop themselves in time and report their output. Only functions need the rest of the time.
    end = run._deadline + _STOP_SECONDS + 1.0
    with run._changed:
        while not run._is_ending and not set(roles) <= run._finished:
            if time.monotonic() > end:
                late = ", ".join(sorted(set(roles) - run._finished))
                run.fail(f"{late} did not end within {experiment.timeout:g} s")
            else:
                run._changed.wait(end - time.monotonic())
    end = time.monotonic() + _GRACE_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if run.failure is None:
        _collect(experiment, run)


def _collect(experiment: Experiment, run: Run) -> None:
    """Reads the files with distributions and checks that all declared results are there."""
    for item in experiment.sample_files:
        path = run.folder / item.file
        try:
            run.sample(item.name, _numbers(path), item.unit, item.quality)
        except OSError as error:
            raise LabError(f"sample {item.name}: {path}: {error.strerror}; a script should have written it to $RUN_DIR") from error
        except ValueError as error:
            raise LabError(f"sample {item.name}: {path}: expected numbers separated by white space: {error}") from error
    for pattern in experiment.patterns:
        if pattern.name not in run.metrics:
            raise LabError(f"metric {pattern.name}: pattern {pattern.pattern!r} is in the output of no role; see {run.folder}")
    if not run.metrics and not run.samples:
        raise LabError(f"the run reported no result; expected lines RESULT NAME VALUE UNIT, or metrics by patterns; see {run.folder}")


def _numbers(path: Path) -> array.array[float]:
    """Reads numbers separated by white space. Raises :class:`ValueError`, also for too large a file, and one that is none on a disk."""
    # A FIFO without a writer must not block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("found a folder, FIFO or device")
        if status.st_size > SAMPLE_FILE_BYTES_MAX:
            raise ValueError(f"found {status.st_size} bytes, expected at most {SAMPLE_FILE_BYTES_MAX >> 20} MiB")
        numbers = array.array("d")
        rest = b""
        left = status.st_size
        # In pieces, because each word takes much more memory than its number.
        while left > 0 and (new := file.read(min(left, 1 << 16))):
            left -= len(new)
            # A word may go on in the next piece.
            whole = rest + new
            end = max(whole.rfind(space) for space in (b" ", b"\n", b"\t", b"\r")) + 1
            words, rest = whole[:end], whole[end:]
            if len(rest) > 1000:
                raise ValueError(f"found a word that begins with {rest[:20].decode('ascii', 'replace')!r} and has more than 1000 bytes")
            numbers.extend(map(float, words.split()))
            if len(numbers) > SAMPLES_MAX:
                raise ValueError(f"found more than {SAMPLES_MAX} numbers")
        numbers.extend(map(float, rest.split()))
        return numbers


@contextmanager
def _guarded(token: str) -> Iterator[None]:
    """Lets a guard end all scripts if this process is killed: its standard input ends then."""
    process = subprocess.Popen(
        [sys.executable, "-I", guard.__file__, token], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        # Every run has ended its own processes, so that the guard has nothing left to do.
        process.kill()
        process.communicate()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ignores Ctrl-C and SIGTERM for a while. Only the main thread can, and only it gets them."""
    numbers = [signal.SIGINT, signal.SIGTERM] if threading.current_thread() is threading.main_thread() else []
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)


def _tail(log: Path) -> str:
    """Returns the last lines of a log, at most 15 and 1500 bytes."""
    with open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 1500))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-15:]) or "(no output)"


def _source(call: Callable[..., object] | None) -> str:
    """Returns the source text of a function, as part of the content of an experiment; its name where there is none."""
    if call is None:
        return ""
    try:
        return inspect.getsource(call)
    except (OSError, TypeError):
        return getattr(call, "__qualname__", type(call).__qualname__)
