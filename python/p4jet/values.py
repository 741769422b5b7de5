"""Values of keys and parameters: from Python objects to the notation of runtime commands, and back."""

from __future__ import annotations

import ipaddress
from operator import index
from typing import TypeAlias, Union

from .errors import SwitchError

Value: TypeAlias = Union[int, str, bytes, ipaddress.IPv4Address, ipaddress.IPv6Address, bool]
"""A value: a number, bytes in network order, an address, or a text such as ``10.0.0.1`` or ``0x1f``."""

Match: TypeAlias = Union[Value, ipaddress.IPv4Network, ipaddress.IPv6Network, "tuple[Value, Value]", None]
"""A match of one key field.

======== ==========================================================================
exact    a value
lpm      ``(value, prefix_length)``, ``"10.0.0.0/8"``, a network, or a value (the whole width)
ternary  ``(value, mask)``, ``"1&&&0xf"``, a value (all bits), or ``None`` (anything)
range    ``(low, high)``, ``"1->5"``, a value (only this), or ``None`` (anything)
optional a value, or ``None`` (anything)
======== ==========================================================================
"""

KeyResult: TypeAlias = Union[int, "tuple[int, int]", None]
"""A match as the switch returns it: a number, ``(value, prefix_length)``, ``(value, mask)``, ``(low, high)``, or ``None``."""


def word(value: Value) -> str:
    """Returns the notation of a value."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return hex(int.from_bytes(value, "big"))
    if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return hex(int(value))
    try:
        return str(index(value))
    except TypeError:
        expected = "a number, bytes, an address, or a text such as 10.0.0.1"
        raise SwitchError(f"found {value!r}, expected {expected}") from None


def match_word(match: Match, kind: str, width: int, name: str) -> str:
    """Returns the notation of a match for a key field of this kind and width in bits."""
    ones = hex((1 << width) - 1)
    if isinstance(match, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
        if kind == "ternary":
            return f"{word(match.network_address)}&&&{hex(int(match.netmask))}"
        return f"{word(match.network_address)}/{match.prefixlen}"
    if isinstance(match, tuple):
        separators = {"lpm": "/", "ternary": "&&&", "range": "->", "optional": "&&&"}
        if kind not in separators or len(match) != 2:
            raise SwitchError(
                f"key {name}: found {match!r}, expected {_expected(kind)}", field=f"key {name}"
            )
        return word(match[0]) + separators[kind] + word(match[1])
    if match is None:
        wildcards = {"lpm": "0/0", "ternary": "0&&&0", "range": f"0->{ones}", "optional": "0&&&0"}
        if kind not in wildcards:
            raise SwitchError(f"key {name}: found None, expected {_expected(kind)}", field=f"key {name}")
        return wildcards[kind]
    text = word(match)
    if kind == "lpm" and "/" not in text:
        return f"{text}/{width}"
    if kind == "ternary" and "&&&" not in text:
        return f"{text}&&&{ones}"
    if kind == "range" and "->" not in text:
        return f"{text}->{text}"
    return text


def _expected(kind: str) -> str:
    return {
        "exact": "a value",
        "lpm": "a value, or (value, prefix length)",
        "ternary": "a value, (value, mask), or None for any value",
        "range": "a value, (low, high), or None for any value",
        "optional": "a value, or None for any value",
    }[kind]


def number(text: str) -> int:
    """Returns the number that a record of the switch contains."""
    return int(text, 0)


MICROSECONDS = 1_000_000
SECONDS_MAX = 1e9
"""The longest time that one call can take, some 31 years."""


def microseconds(seconds: float, what: str = "") -> int:
    """Returns a time in whole microseconds.

    Raises :class:`TypeError` for anything but a number, and :class:`ValueError` outside of 0 to :data:`SECONDS_MAX`; `what` begins both.
    """
    begin = what and f"{what}: "
    if not isinstance(seconds, (int, float)):
        raise TypeError(f"{begin}found {seconds!r} ({type(seconds).__name__}); expected a number of seconds")
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError(f"{begin}found {seconds} seconds, expected 0 or more" + (f", up to {SECONDS_MAX:g}" if seconds > 0 else ""))
    return round(seconds * MICROSECONDS)


def whole(found: object, what: str, low: int, high: float, expected: str) -> int:
    """Returns a whole number from `low` to `high`. Raises :class:`TypeError` or :class:`ValueError`; `what` names it."""
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise TypeError(f"{what}: found {found!r} ({type(found).__name__}); expected a whole number")
    number = index(found)
    if not low <= number <= high:
        raise ValueError(f"{what} {number}: {expected}")
    return number


def match_of(text: str, kind: str) -> KeyResult:
    """Returns the match that a record of the switch contains."""
    for separator in ("&&&", "->", "/"):
        if separator in text:
            low, high = (int(part, 0) for part in text.split(separator))
            if kind == "optional":
                return None if high == 0 else low
            return (low, high)
    return int(text, 0)
