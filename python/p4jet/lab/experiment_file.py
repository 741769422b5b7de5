"""Reads experiments from TOML; docs/lab-experiments.md describes the format."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import LabError
from .runner import Experiment, Pattern, Role, SampleFile, Script
from .store import text_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VALUES_MAX = 10_000
"""Maximum number of values of a range."""

_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "a table"}


class _Table:
    """A table of the file. It collects the faults of all tables in one list, each with its key."""

    def __init__(self, content: Mapping[str, Any], where: str, faults: list[str]) -> None:
        self._content = content
        self._where = where
        self.faults = faults
        self._known: list[str] = []

    def fault(self, name: str, text: str) -> None:
        self.faults.append(f"{self._where}{name}: {text}")

    def get(self, name: str, kind: type, default: Any = None, *, is_needed: bool = False) -> Any:
        """Returns a value of the expected type, else notes a fault and returns the default."""
        self._known.append(name)
        if name not in self._content:
            if is_needed:
                self.fault(name, f"is missing; expected {_NAMES[kind]}")
            return default
        value = self._content[name]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if kind is float and is_number:
            try:
                return float(value)
            except OverflowError:
                return math.inf
        if not isinstance(value, kind) or (kind is int and not is_number):
            self.fault(name, f"found {value!r}, expected {_NAMES[kind]}")
            return default
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        values = self.get(name, list, [])
        if wrong := [value for value in values if not isinstance(value, str)]:
            self.fault(name, f"found {wrong[0]!r}, expected a list of texts")
            return ()
        return tuple(values)

    def tables(self, name: str) -> dict[str, _Table]:
        """Returns the tables within a table, by name."""
        found = {}
        for key, value in self.get(name, dict, {}).items():
            if isinstance(value, dict):
                found[key] = _Table(value, f"{self._where}{name}.{key}.", self.faults)
            else:
                self.fault(f"{name}.{key}", f"found {value!r}, expected a table")
        return found

    def end(self) -> None:
        """Notes the keys that nobody asked for."""
        for name in self._content:
            if name not in self._known:
                self.fault(name, f"is unknown; expected one of: {', '.join(self._known)}")


def load(path: Path, tags: frozenset[str], only: Mapping[str, Sequence[str]], repetitions: int | None) -> Experiment:
    """Reads an experiment: see :meth:`Experiment.from_toml`."""
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise LabError(f"{path} is no TOML: {error}") from error
    except RecursionError as error:
        raise LabError(f"{path}: its tables or lists are nested too deeply") from error
    faults: list[str] = []
    top = _Table(content, "", faults)
    name = top.get("name", str, path.stem)
    description = top.get("description", str, "")
    variables = _variables(top, "variables")
    settings: dict[str, Any] = {
        "repetitions": top.get("repetitions", int, 6),
        "timeout": top.get("timeout", float, 300.0),
        "seed": top.get("seed", int, 1),
    }
    topology = top.get("topology", str)
    roles = {role: _role(table) for role, table in top.tables("roles").items()}
    patterns = [_pattern(metric, table) for metric, table in top.tables("metrics").items()]
    samples = [_sample(sample, table) for sample, table in top.tables("samples").items()]
    exclude = _exclude(top, variables)
    known = {tag.removeprefix("-") for role in roles.values() for tag in role.tags}
    for tag, table in top.tables("tags").items():
        known.add(tag)
        _apply(tag, table, tag in tags, variables, settings)
    top.end()
    for tag in sorted(tags - known):
        faults.append(f"tag {tag} is unknown; the file has: {', '.join(sorted(known)) or 'none'}")
    if not roles and "roles" not in content:
        faults.append("roles: is missing; expected at least one table such as [roles.client] with `script`")
    if topology is not None and not (path.parent / topology).is_file():
        faults.append(f"topology: {path.parent / topology} is no file")
    _reduce(variables, only, faults)
    if repetitions is not None:
        settings["repetitions"] = repetitions
    if not faults:
        by_role: dict[str, Role | Script] = dict(roles)
        try:
            return Experiment(
                name, variables, by_role, **settings, tags=tags, skip=_skipper(exclude), patterns=patterns, sample_files=samples,
                topology=path.parent / topology if topology is not None else None, cwd=path.parent.absolute(),
                description=description, source=text,
            )  # fmt: skip
        except LabError as error:
            faults += str(error).splitlines()[1:]
    raise LabError(f"{path}:\n" + "\n".join(faults))


def _variables(table: _Table, name: str) -> dict[str, list[object]]:
    """Reads lists of values, single values, and ranges: ``{ from, to, step }`` or ``{ from, to, factor }``, with both ends."""
    found: dict[str, list[object]] = {}
    for variable, value in table.get(name, dict, {}).items():
        where = f"{name}.{variable}"
        if isinstance(value, list):
            found[variable] = value
        elif isinstance(value, dict):
            found[variable] = _range(_Table(value, f"{table._where}{where}.", table.faults))
        elif isinstance(value, (str, int, float)):
            found[variable] = [value]
        else:
            table.fault(where, f"found {value!r}; expected a list, a value, or a range such as {{ from = 1, to = 4, step = 1 }}")
    return found


def _range(table: _Table) -> list[object]:
    """Returns the values of a range. A wrong one gives a single value, so that other faults are found, too."""
    before = len(table.faults)
    start, end = (table.get(name, float, 0.0, is_needed=True) for name in ("from", "to"))
    step, factor = table.get("step", float), table.get("factor", float)
    table.end()
    numbers = {"from": start, "to": end, "step": step, "factor": factor}
    if wrong := [name for name, number in numbers.items() if number is not None and not math.isfinite(number)]:
        table.fault(wrong[0], f"found {numbers[wrong[0]]}, expected a finite number")
    elif step is not None and factor is not None:
        table.fault("step", "found also `factor`; expected one of them")
    elif step is not None and step <= 0:
        table.fault("step", f"found {step:g}, expected more than 0")
    elif factor is not None and (factor <= 1 or start <= 0):
        table.fault("factor", f"found {factor:g} from {start:g}; expected a factor above 1 and a start above 0")
    elif start > end:
        table.fault("to", f"found {end:g}, less than `from`, {start:g}")
    if len(table.faults) > before:
        return [0]
    values: list[object] = []
    for number in range(VALUES_MAX + 1):
        try:
            value = start * factor**number if factor is not None else start + (1.0 if step is None else step) * number
        except OverflowError:
            return values
        # The end belongs to the range, whatever rounding has done.
        if value > end * (1 + 1e-9) + 1e-12:
            return values
        values.append(int(value) if value == int(value) else round(value, 12))
    table.fault("to", f"the range has more than {VALUES_MAX} values")
    return [0]


def _role(table: _Table) -> Script:
    text, argv = table.get("script", str), table.texts("argv")
    if (text is None) == (not argv):
        table.fault("script", "expected either `script`, a text for bash, or `argv`, a list with a program and its arguments")
    role = Script(
        command=argv or text or "",
        waits=table.texts("waits"),
        node=table.get("node", str),
        is_background=table.get("background", bool, False),
        tags=table.texts("tags"),
        timeout=table.get("timeout", float),
    )
    if role.timeout is not None and not 0 < role.timeout <= 86_400:
        table.fault("timeout", f"found {role.timeout:g}, expected up to 86400 seconds")
    table.end()
    return role


def _pattern(name: str, table: _Table) -> Pattern:
    pattern = Pattern(
        name, table.get("pattern", str, "()", is_needed=True), table.get("unit", str, ""), table.get("role", str),
        table.get("quality", str, "measured"),
    )  # fmt: skip
    table.end()
    return pattern


def _sample(name: str, table: _Table) -> SampleFile:
    sample = SampleFile(
        name, table.get("file", str, "", is_needed=True), table.get("unit", str, ""), table.get("quality", str, "measured")
    )
    table.end()
    return sample


def _exclude(table: _Table, variables: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Reads the points that do not apply: a list of tables, each with the values of some variables."""
    found = []
    for number, entry in enumerate(table.get("exclude", list, [])):
        if not isinstance(entry, dict) or not entry:
            table.fault(f"exclude[{number}]", f"found {entry!r}; expected a table with values of variables")
            continue
        for name in entry:
            if name not in variables:
                table.fault(f"exclude[{number}].{name}", f"is no variable; there are: {', '.join(variables) or 'none'}")
        found.append(entry)
    return found


def _skipper(exclude: Sequence[Mapping[str, object]]) -> Callable[[dict[str, object]], str | None] | None:
    def skip(point: dict[str, object]) -> str | None:
        for entry in exclude:
            if all(text_of(point[name]) == text_of(value) for name, value in entry.items()):
                return "excluded by the file"
        return None

    return skip if exclude else None


def _apply(tag: str, table: _Table, is_given: bool, variables: dict[str, list[object]], settings: dict[str, Any]) -> None:
    """Checks what a tag sets, and sets it if the tag is given."""
    own = _variables(table, "variables")
    for name in own:
        if name not in variables:
            table.fault(f"variables.{name}", f"is no variable of the experiment; there are: {', '.join(variables) or 'none'}")
    new = {
        "repetitions": table.get("repetitions", int),
        "timeout": table.get("timeout", float),
        "seed": table.get("seed", int),
    }
    table.end()
    if is_given:
        variables.update({name: values for name, values in own.items() if name in variables})
        settings.update({name: value for name, value in new.items() if value is not None})


def _reduce(variables: dict[str, list[object]], only: Mapping[str, Sequence[str]], faults: list[str]) -> None:
    """Keeps the chosen values of variables."""
    for name, wanted in only.items():
        if name not in variables:
            faults.append(f"--only {name}: is no variable; there are: {', '.join(variables) or 'none'}")
            continue
        have = {text_of(value): value for value in variables[name]}
        for value in wanted:
            if value not in have:
                faults.append(f"--only {name}={value}: is no value of it; there are: {', '.join(have)}")
        variables[name] = [value for text, value in have.items() if text in wanted] or variables[name]
