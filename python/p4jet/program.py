"""Compiled programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload

from . import _native
from .errors import CompileError, Diagnostic


@dataclass(frozen=True)
class KeyField:
    """A field of a table's key."""

    name: str
    """Its name, such as ``hdr.ipv4.dstAddr``."""
    kind: str
    """The match kind: ``exact``, ``lpm``, ``ternary``, ``range`` or ``optional``."""
    width: int
    """Its width in bits."""


@dataclass(frozen=True)
class Param:
    """A parameter of an action, or a field of a digest."""

    name: str
    width: int
    """Its width in bits."""


@dataclass(frozen=True)
class Action:
    """An action in the list of a table."""

    name: str
    params: tuple[Param, ...]
    default_only: bool
    """Entries cannot have it (``@defaultonly``)."""
    table_only: bool
    """It cannot be the default action (``@tableonly``)."""


@dataclass(frozen=True)
class Table:
    """A table of a program, or a parser value set: a table without actions."""

    name: str
    size: int
    """The largest number of entries."""
    key: tuple[KeyField, ...]
    actions: tuple[Action, ...]
    needs_priority: bool
    """Entries have a priority: a key field is ternary, range or optional."""
    const_default: bool
    const_entries: bool
    idle_timeout: bool
    """Entries can have an idle timeout."""
    profile: str | None
    """The action profile to whose members and groups entries refer."""
    direct_counters: tuple[str, ...]
    direct_meters: tuple[str, ...]

    @staticmethod
    def _of(fields: dict[str, Any]) -> Table:
        def params(listed: list[dict[str, Any]]) -> tuple[Param, ...]:
            return tuple(Param(param["name"], param["width"]) for param in listed)

        return Table(
            name=fields["name"],
            size=fields["size"],
            key=tuple(KeyField(field["name"], field["match"], field["width"]) for field in fields["key"]),
            actions=tuple(
                Action(
                    action["name"],
                    params(action["params"]),
                    action.get("default_only", False),
                    action.get("table_only", False),
                )
                for action in fields["actions"]
            ),
            needs_priority=fields["needs_priority"],
            const_default=fields["const_default"],
            const_entries=fields["const_entries"],
            idle_timeout=fields["idle_timeout"],
            profile=fields.get("profile"),
            direct_counters=tuple(fields["direct_counters"]),
            direct_meters=tuple(fields["direct_meters"]),
        )


class Complexity:
    """Counts of a program's constructs: of the whole program, and of each path of a packet.

    ``print(complexity)`` shows Markdown, and a notebook the graph of parsers and controls.
    """

    whole: dict[str, Any]
    """Counts of the whole program."""
    most: dict[str, Any]
    """The largest count on any path."""
    paths: list[dict[str, Any]]
    """Each path: its parser ``states``, ``tables`` and ``counts``."""
    depth: int
    """The largest number of tables on one path through the controls."""
    more_paths: bool
    """True if there may be more paths than `paths` has."""

    def __init__(self, fields: str, text: str, svg: str) -> None:
        parsed = json.loads(fields)
        self.whole = parsed["program"]
        self.most = parsed["most"]
        self.paths = parsed["paths"]
        self.depth = parsed["depth"]
        self.more_paths = parsed["paths_more"]
        self.svg = svg
        self._text = text

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        return f"<complexity: {len(self.paths)} paths, depth {self.depth}>"

    def _repr_svg_(self) -> str:
        return self.svg[self.svg.index("<svg") :]


class Program:
    """A compiled P4_16 program for v1model or PSA."""

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        name: str | None = None,
        include: Iterable[str | os.PathLike[str]] = (),
        define: Mapping[str, str | None] | Iterable[str] = (),
        arch: str = "auto",
    ) -> None:
        """Compiles a program.

        `source` is a path, or the text of a program: a string with a line break or a brace is text. `name` names a text in
        diagnostics. `include` lists folders that are searched for ``#include``, `define` macros: ``{"N": "4"}`` or ``["N=4"]``. `arch`
        is ``v1model``, ``psa``, or ``auto`` to detect it.

        Raises :class:`CompileError` with every diagnostic, or :class:`OSError`, such as :class:`FileNotFoundError`, if the file cannot be
        read.
        """
        text = None
        if isinstance(source, str) and any(mark in source for mark in "\n{;"):
            text, path = source, name or "program.p4"
        else:
            path = os.fspath(source)
        if isinstance(define, Mapping):
            define = [key if value is None else f"{key}={value}" for key, value in define.items()]
        try:
            self._native = _native.Program(path, text, [os.fspath(folder) for folder in include], list(define), arch)
        except _native.Diagnosed as error:
            lines, shown = error.args
            raise CompileError(shown, Diagnostic._parse(lines)) from None
        except OSError as error:
            raise _unreadable(path, error) from None
        schema = json.loads(self._native.schema())
        self._schema: dict[str, Any] = schema
        self.tables: dict[str, Table] = {table["name"]: Table._of(table) for table in schema["tables"]}
        """The tables by their full names, such as ``MyIngress.ipv4_lpm``."""
        self.value_sets: dict[str, Table] = {table["name"]: Table._of(table) for table in schema["value_sets"]}
        """The parser value sets."""
        self.actions: dict[str, Action] = {
            action.name: action for table in self.tables.values() for action in table.actions
        }
        """The actions of all tables."""

    @property
    def name(self) -> str:
        """The name: the file's without its extension."""
        return self._native.name

    @property
    def arch(self) -> str:
        """The architecture: ``v1model`` or ``psa``."""
        return self._native.arch

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The compiler's warnings."""
        return Diagnostic._parse(self._native.warnings()[0])

    @overload
    def p4info(self, format: Literal["text", "json"] = "text", *, entries: bool = False) -> str: ...
    @overload
    def p4info(self, format: Literal["binary"], *, entries: bool = False) -> bytes: ...
    def p4info(self, format: str = "text", *, entries: bool = False) -> str | bytes:
        """Returns P4Info for P4Runtime, or with `entries` the declared entries as a ``WriteRequest``.

        `format` is ``text`` (protobuf's text form), ``json`` or ``binary``.
        """
        try:
            message = self._native.p4info(format, entries)
        except _native.Diagnosed as error:
            lines, shown = error.args
            raise CompileError(shown, Diagnostic._parse(lines)) from None
        return bytes(message) if format == "binary" else bytes(message).decode()

    def complexity(self) -> Complexity:
        """Counts the constructs of the program and of each path of a packet."""
        fields, text = self._native.complexity()
        return Complexity(fields, text, self._native.svg())

    def __repr__(self) -> str:
        return f"<program {self.name} for {self.arch}: {len(self.tables)} tables>"


def _unreadable(path: str, error: OSError) -> OSError:
    """Returns why a file cannot be read as Python says it, with the class of the error and the file; `error` if Python can read it."""
    try:
        open(path, "rb").close()
    except OSError as found:
        return found
    return error
