"""The error of :mod:`p4jet.lab`."""

from __future__ import annotations


class LabError(Exception):
    """A topology is wrong, or the machine refused something. The text says what was found, what was expected and what to do."""
