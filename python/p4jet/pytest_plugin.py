"""The pytest plugin: a fixture that makes switches, and assertions about packets.

    def test_forwards(p4jet_switch):
        switch = p4jet_switch("forward.p4")
        switch.table("forward").insert(["02:00:00:00:00:02"], "set_dest", port=2)
        assert_sent(switch, "eth dst=02:00:00:00:00:02 / ip / udp", 1, {2: ["eth dst=02:00:00:00:00:02 / ip / udp"]})
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from .packets import Frame, frame_bytes
from .program import Program
from .switch import Switch

_programs: dict[tuple[str, float], Program] = {}


def _compiled(path: str) -> Program:
    """Compiles a program once in a session, as long as its file does not change."""
    of = (os.path.abspath(path), os.stat(path).st_mtime)
    if of not in _programs:
        _programs[of] = Program(path)
    return _programs[of]


@pytest.fixture
def p4jet_switch(request: pytest.FixtureRequest) -> Callable[..., Switch]:
    """Returns a function that makes a new switch: its arguments are those of :class:`p4jet.Switch`.

    Relative paths start in the folder of the test. Programs are compiled once in a session.
    """

    def make(program: Program | str | os.PathLike[str], **options: Any) -> Switch:
        if isinstance(program, (str, os.PathLike)) and not (isinstance(program, str) and any(c in program for c in "\n{;")):
            program = _compiled(os.path.join(request.path.parent, os.fspath(program)))
        return Switch(program, **options)

    return make


def assert_sent(
    switch: Switch, frame: Frame, port: int, expected: Mapping[int, Sequence[Frame]]
) -> None:
    """Sends `frame` into `port` and asserts that exactly the `expected` frames leave: a list for each port.

    A failure shows each difference field by field (with scapy installed; otherwise byte by byte) and the trace of the packet.
    """
    __tracebackhide__ = True
    data = frame_bytes(frame)
    trace = switch.trace(data, port)
    sent = switch.send(data, port)
    wanted = {port: [frame_bytes(frame) for frame in frames] for port, frames in expected.items() if frames}
    got: dict[int, list[bytes]] = {}
    for packet in sent:
        got.setdefault(packet.port, []).append(packet.data)
    if got == wanted:
        return
    lines = []
    for number in sorted({*got, *wanted}):
        have, want = got.get(number, []), wanted.get(number, [])
        for index in range(max(len(have), len(want))):
            name = f"port {number}, frame {index + 1}"
            if index >= len(have):
                lines.append(f"{name}: expected {want[index].hex()}, nothing left")
            elif index >= len(want):
                lines.append(f"{name}: unexpected {have[index].hex()}")
            elif have[index] != want[index]:
                lines.append(f"{name}:")
                lines.extend(f"  {line}" for line in differences(want[index], have[index]))
    lines.extend(f"dropped: {why}" for why in sent.dropped)
    raise AssertionError("\n".join([*lines, "", "trace of the packet:", str(trace)]))


def assert_dropped(switch: Switch, frame: Frame, port: int = 0) -> None:
    """Sends `frame` into `port` and asserts that nothing leaves."""
    __tracebackhide__ = True
    assert_sent(switch, frame, port, {})


def differences(expected: bytes, found: bytes) -> list[str]:
    """Returns the fields in which two frames differ, one line each."""
    lines = []
    if len(expected) != len(found):
        lines.append(f"length: expected {len(expected)} bytes, found {len(found)}")
    try:
        fields = list(_fields(expected)), list(_fields(found))
    except ImportError:
        fields = [], []
    names = [name for name, _ in fields[0]]
    if names and names == [name for name, _ in fields[1]]:
        for (name, want), (_, have) in zip(*fields):
            if want != have:
                lines.append(f"{name}: expected {want}, found {have}")
        return lines
    for at, (want, have) in enumerate(zip(expected, found)):
        if want != have:
            lines.append(f"byte {at}: expected {want:02x}, found {have:02x}")
    return lines


def _fields(data: bytes) -> Any:
    from scapy.layers.l2 import Ether

    layer: Any = Ether(data)
    while layer:
        for of in layer.fields_desc:
            yield f"{layer.name}.{of.name}", of.i2repr(layer, layer.getfieldval(of.name))
        layer = layer.payload
