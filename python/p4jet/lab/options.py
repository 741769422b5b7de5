"""The values that options of switch types can have.

A type declares each option with a check: a function that raises :class:`ValueError` with what it found and what it expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Check = Callable[[object], None]


def flag(value: object) -> None:
    """An option without a value: true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"found {value!r}; expected true or false")


def text(value: object) -> None:
    """Any text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"found {value!r}; expected a text")


def whole(low: int, high: int) -> Check:
    """A whole number, also as a text, as in the P4 tutorials."""

    def check(value: object) -> None:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_text = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20
        if not (is_number or is_text) or not low <= int(str(value)) <= high:
            raise ValueError(f"found {value!r}; expected a whole number from {low} to {high}")

    return check


def one_of(*choices: str) -> Check:
    """One of these texts."""

    def check(value: object) -> None:
        if value not in choices:
            raise ValueError(f"found {value!r}; expected {', '.join(choices[:-1])} or {choices[-1]}")

    return check


def texts(of: Callable[[str], object] = str) -> Check:
    """A list of texts, each of which `of` reads or refuses with :class:`ValueError`."""

    def check(value: object) -> None:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"found {value!r}; expected a list of texts")
        for one in value:
            of(one)

    return check


def address(value: object) -> None:
    """A port, such as 9090, or an address and a port."""
    number = re.fullmatch(r"(?:[0-9a-zA-Z_.-]+:|\[[0-9a-fA-F:.%]+\]:)?([0-9]{1,5})", str(value))
    if isinstance(value, bool) or not isinstance(value, (int, str)) or number is None or not 1 <= int(number[1]) <= 65535:
        raise ValueError(f"found {value!r}; expected a port, such as 9090, or an address and a port, such as 127.0.0.1:9090")


def or_flag(check: Check) -> Check:
    """What `check` takes, or true for the option's default, or false."""

    def both(value: object) -> None:
        if isinstance(value, bool):
            return
        try:
            check(value)
        except ValueError as error:
            raise ValueError(f"{error}; or true or false") from None

    return both
