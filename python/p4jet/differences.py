"""What distinguishes two frames, in the words of the protocols: layers and fields with scapy, bytes without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ETHERNET_BYTES = 14
RANGES_MAX = 16
"""Ranges of bytes that are shown of two frames."""
BYTES_SHOWN = 16
"""Bytes of a range that are shown."""
FIELD_MAX = 32
"""Bytes of a field that are shown as a whole."""


@dataclass(frozen=True)
class Layer:
    """A layer of a frame."""

    name: str
    """As scapy calls it: ``802.1Q``."""
    fields: dict[str, str]
    """Each field as scapy prints it."""
    long: dict[str, bytes]
    """The fields that are long bytes, such as a payload."""


def differences(expected: bytes, found: bytes) -> list[str]:
    """Returns what distinguishes two frames, one line each; nothing if they are equal.

    With scapy, these are the fields of the layers that both have, up to the first layer that is another. Bytes are shown where no
    field differs, and without scapy.
    """
    if expected == found:
        return []
    lines = []
    if len(expected) != len(found):
        lines.append(f"length: expected {len(expected)} bytes, found {len(found)}")
    want, have = layers(expected), layers(found)
    by_field = list(_of_layers(want, have)) if want and have else []
    if by_field:
        return [*lines, *by_field]
    if want and have:
        lines.append("all fields are equal, but not the bytes that encode them:")
    return [*lines, *_of_bytes(expected, found)]


def summary(frame: bytes) -> list[str]:
    """Returns the layers of a frame with their fields, one line each; without scapy its bytes in one line."""
    found = layers(frame)
    if not found:
        return [frame.hex()]
    return [
        f"{name}: {', '.join(f'{field}={_short(value)}' for field, value in layer.fields.items())}"
        for name, layer in zip(_names(found, found), found)
    ]


def layers(frame: bytes) -> list[Layer]:
    """Returns the layers of a frame that begins with Ethernet; none without scapy, or of a frame that is too short."""
    try:
        from scapy.layers.l2 import Ether
    except ImportError:
        return []
    # Protocols register themselves when their modules are loaded.
    import scapy.layers.all  # noqa: F401

    if len(frame) < ETHERNET_BYTES:
        return []
    found = []
    layer: Any = Ether(frame)
    while layer:
        values = {of.name: (of, layer.getfieldval(of.name)) for of in layer.fields_desc}
        long = {name: value for name, (_, value) in values.items() if isinstance(value, bytes) and len(value) > FIELD_MAX}
        found.append(Layer(layer.name, {name: str(of.i2repr(layer, value)) for name, (of, value) in values.items()}, long))
        layer = layer.payload
    return found


def _names(one: list[Layer], other: list[Layer]) -> list[str]:
    """Returns a name for each layer of the first frame, which tells those apart of which a frame has several: inner IP, outer IP."""
    counts = Counter(layer.name for layer in one) | Counter(layer.name for layer in other)
    seen: Counter[str] = Counter()
    names = []
    for layer in one:
        seen[layer.name] += 1
        number, count = seen[layer.name], counts[layer.name]
        if count == 1:
            names.append(layer.name)
        elif count == 2:
            names.append(f"{'outer' if number == 1 else 'inner'} {layer.name}")
        else:
            names.append(f"{layer.name} {number}")
    return names


def _of_layers(want: list[Layer], have: list[Layer]) -> Iterator[str]:
    """Yields the fields that differ in the layers that both begin with, and the first layer that is another."""
    same = 0
    for name, one, other in zip(_names(want, have), want, have):
        if one.name != other.name:
            break
        same += 1
        for of in dict.fromkeys([*one.fields, *other.fields]):
            if one.fields.get(of) == other.fields.get(of):
                continue
            if of in one.long and of in other.long:
                yield from (f"{name}.{of}, {line}" for line in _of_bytes(one.long[of], other.long[of]))
                continue
            yield f"{name}.{of}: expected {_short(one.fields.get(of, 'nothing'))}, found {_short(other.fields.get(of, 'nothing'))}"
    if same < max(len(want), len(have)):
        left = [f"layer {found[same].name}" if same < len(found) else "the end" for found in (want, have)]
        after = f"after {_names(want, have)[same - 1]}: " if same else ""
        yield f"{after}expected {left[0]}, found {left[1].removeprefix('layer ')}"
        for what, found in (("expected", want), ("found", have)):
            if len(found) - same > 1:
                yield f"  {what} from there: {' / '.join(layer.name for layer in found[same:])}"


def _of_bytes(expected: bytes, found: bytes) -> Iterator[str]:
    """Yields the ranges of bytes that differ."""
    common = min(len(expected), len(found))
    ranges: list[tuple[int, int]] = []
    for at in range(common):
        if expected[at] != found[at]:
            if ranges and ranges[-1][1] == at:
                ranges[-1] = ranges[-1][0], at + 1
            else:
                ranges.append((at, at + 1))
    if len(expected) != len(found):
        ranges.append((common, max(len(expected), len(found))))
    for begin, end in ranges[:RANGES_MAX]:
        where = f"byte {begin}" if end - begin == 1 else f"bytes {begin} to {end - 1}"
        yield f"{where}: expected {_hex(expected[begin:end])}, found {_hex(found[begin:end])}"
    if len(ranges) > RANGES_MAX:
        yield f"and {len(ranges) - RANGES_MAX} more ranges of bytes"


def _hex(data: bytes) -> str:
    return (data[:BYTES_SHOWN].hex() + ("…" if len(data) > BYTES_SHOWN else "")) or "nothing"


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"
