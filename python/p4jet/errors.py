"""The exceptions of p4jet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Diagnostic:
    """An error or warning of the compiler, with its place in the source."""

    severity: str
    """``error``, ``warning`` or ``info``."""
    code: str | None
    """The stable name of its kind, such as ``unknown-name``; ``p4jet help errors`` lists them."""
    message: str
    file: str | None
    line: int | None
    """Line of the place, from 1; ``None`` without a place."""
    column: int | None
    """Column of the place in characters, from 1."""
    end: tuple[int, int] | None
    """Line and column of the first character after the place."""
    label: str
    """The text next to the place."""
    notes: tuple[str, ...]
    choices: tuple[str, ...]
    """Valid choices; the one that was probably meant comes first."""
    related: tuple[tuple[str | None, int | None, int | None, str], ...]
    """Other places: file, line, column, text."""

    @staticmethod
    def _parse(lines: str) -> tuple[Diagnostic, ...]:
        return tuple(Diagnostic._of(json.loads(line)) for line in lines.splitlines())

    @staticmethod
    def _of(fields: dict[str, Any]) -> Diagnostic:
        end = fields["end"]
        related = tuple((r["file"], r["line"], r["column"], r["message"]) for r in fields["related"])
        return Diagnostic(
            severity=fields["severity"],
            code=fields["code"],
            message=fields["message"],
            file=fields["file"],
            line=fields["line"],
            column=fields["column"],
            end=None if end is None else (end["line"], end["column"]),
            label=fields["label"],
            notes=tuple(fields["notes"]),
            choices=tuple(fields["choices"]),
            related=related,
        )


class P4jetError(Exception):
    """The base class of p4jet's exceptions."""


class CompileError(P4jetError):
    """A program that does not compile. Its text is what ``p4jet check`` prints."""

    diagnostics: tuple[Diagnostic, ...]
    """All errors and warnings, in the order of the text."""

    def __init__(self, text: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(text.rstrip("\n"))
        self.diagnostics = diagnostics


class SwitchError(P4jetError):
    """A request that the switch refuses. Its text is that of the binary, for a file with the place: ``FILE:LINE:COLUMN: message``."""

    code: str
    """A stable code, such as ``TABLE_FULL``, ``DUPLICATE_ENTRY`` or ``INVALID_ARGUMENT``."""
    entity: str | None
    """The object that refused, by its full name."""
    field: str | None
    """The wrong part of the request, such as ``action`` or ``key hdr.ipv4.dstAddr``."""
    choices: tuple[str, ...]
    """The valid choices, if the list is short."""
    file: str | None
    """The file of runtime commands or the packet test, as it was given; for a text ``commands`` or ``test``."""
    line: int | None
    """The line of the file or text, from 1."""
    column: int | None
    """The column of the wrong part in characters, from 1."""

    def __init__(
        self,
        text: str,
        code: str = "INVALID_ARGUMENT",
        entity: str | None = None,
        field: str | None = None,
        choices: tuple[str, ...] = (),
        line: int | None = None,
        *,
        file: str | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.entity = entity
        self.field = field
        self.choices = choices
        self.file = file
        self.line = line
        self.column = column

    @staticmethod
    def _of(error: dict[str, Any], file: str | None = None, lines: Sequence[str] = ()) -> SwitchError:
        """Makes the error of an answer. If the request was a file, its name and `lines` give the place."""
        text, line, column = error["text"], error.get("line"), None
        if file is not None and line is not None:
            if "span" in error and line <= len(lines):
                # The span is in bytes.
                column = len(lines[line - 1].encode()[: error["span"][0]].decode(errors="ignore")) + 1
            text = f"{file}:{line}:{'' if column is None else f'{column}:'} {text}"
        return SwitchError(
            text,
            error.get("code", "INVALID_ARGUMENT"),
            error.get("entity"),
            error.get("field"),
            tuple(error.get("choices", ())),
            line,
            file=file,
            column=column,
        )


class StfError(P4jetError, AssertionError):
    """A packet test that fails. Its text has the differences and the traces of the packets."""
