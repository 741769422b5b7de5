"""The error of :mod:`p4jet.place`."""

from __future__ import annotations


class PlaceError(Exception):
    """A file or an argument is wrong, or a solver failed. The text names the place, what was found and what was expected."""
