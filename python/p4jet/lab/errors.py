"""The error of :mod:`p4jet.lab`."""

from __future__ import annotations


class LabError(Exception):
    """A topology is wrong, or the machine refused something. The text says what was found, what was expected and what to do."""


def describe(error: BaseException) -> str:
    """Returns what went wrong as text for people."""
    if isinstance(error, LabError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return f"{type(error).__name__}: {error}"
