"""The pytest plugin: a fixture that makes switches, and assertions about packets.

    def test_forwards(p4jet_switch):
        switch = p4jet_switch("forward.p4")
        switch.table("forward").insert(["02:00:00:00:00:02"], "set_dest", port=2)
        assert_sent(switch, "eth dst=02:00:00:00:00:02 / ip / udp", 1, {2: ["eth dst=02:00:00:00:00:02 / ip / udp"]})
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from .differences import differences, summary
from .packets import Frame, frame_bytes, frames_bytes
from .program import Program
from .switch import Switch, in_folder, run_stf
from .values import whole

__all__ = ["SwitchMaker", "assert_dropped", "assert_sent", "differences", "p4jet_switch"]

_programs: dict[tuple[str, float], Program] = {}


def _compiled(path: str) -> Program:
    """Compiles a program once in a session, as long as its file does not change."""
    of = (os.path.abspath(path), os.stat(path).st_mtime)
    if of not in _programs:
        _programs[of] = Program(path)
    return _programs[of]


@dataclass(frozen=True)
class SwitchMaker:
    """What the fixture :func:`p4jet_switch` is: a function that makes switches, and packet tests."""

    folder: Path
    """The folder of the test's file, where all relative paths start."""

    def __call__(self, program: Program | str | os.PathLike[str], **options: Any) -> Switch:
        """Makes a new switch. The arguments are those of :class:`p4jet.Switch`; programs are compiled once in a session."""
        return Switch(self._program(program), **{"folder": self.folder, **options})

    def run_stf(self, program: Program | str | os.PathLike[str], test: str | os.PathLike[str], **options: Any) -> int:
        """Runs a packet test as :func:`p4jet.run_stf` does."""
        return run_stf(self._program(program), test, **{"folder": self.folder, **options})

    def _program(self, program: Program | str | os.PathLike[str]) -> Program:
        if isinstance(program, Program):
            return program
        source = in_folder(self.folder, program)
        # A text stays as it is.
        return Program(source) if source is program else _compiled(os.fspath(source))


@pytest.fixture
def p4jet_switch(request: pytest.FixtureRequest) -> SwitchMaker:
    """Returns a function that makes a new switch: its arguments are those of :class:`p4jet.Switch`.

    Relative paths start in the folder of the test's file: those of the program, of ``commands``, of the switch's :meth:`Switch.load`,
    and of ``p4jet_switch.run_stf``. Programs are compiled once in a session.
    """
    return SwitchMaker(request.path.parent)


def assert_sent(
    switch: Switch, frame: Frame, port: int, expected: Mapping[int, Sequence[Frame]]
) -> None:
    """Sends `frame` into `port` and asserts that exactly the `expected` frames leave: a list for each port.

    A failure shows each difference by layer and field (with scapy installed; otherwise by bytes), the layers of frames that are
    missing or too many, and the trace of the packet. Raises :class:`TypeError` for a frame in the place of a list.
    """
    __tracebackhide__ = True
    data = frame_bytes(frame)
    wanted = _wanted(expected)
    trace = switch.trace(data, port)
    sent = switch.send(data, port)
    got: dict[int, list[bytes]] = {}
    for packet in sent:
        got.setdefault(packet.port, []).append(packet.data)
    if got == wanted:
        return
    lines = _mismatches(wanted, got)
    lines.extend(f"dropped: {why}" for why in sent.dropped)
    raise AssertionError("\n".join([*lines, "", "trace of the packet:", str(trace)]))


def assert_dropped(switch: Switch, frame: Frame, port: int = 0) -> None:
    """Sends `frame` into `port` and asserts that nothing leaves."""
    __tracebackhide__ = True
    assert_sent(switch, frame, port, {})


def _wanted(expected: Mapping[int, Sequence[Frame]]) -> dict[int, list[bytes]]:
    """Returns the bytes of the expected frames of each port that has any."""
    if not isinstance(expected, Mapping):
        raise TypeError(f"found a {type(expected).__name__}; expected the frames of each port: {{2: [frame]}}")
    wanted = {}
    for number, frames in expected.items():
        whole(number, "port", 0, 2**32 - 1, "expected the number of a port")
        try:
            found = frames_bytes(frames)
        except TypeError as error:
            raise TypeError(f"port {number}: {error}: {{{number}: [frame]}}") from None
        if found:
            wanted[number] = found
    return wanted


@dataclass(frozen=True)
class _Place:
    """A frame that is missing, or that should not be there."""

    port: int
    index: int
    data: bytes

    def __str__(self) -> str:
        return f"port {self.port}, frame {self.index + 1}"


def _mismatches(wanted: dict[int, list[bytes]], got: dict[int, list[bytes]]) -> list[str]:
    """Returns what distinguishes the frames that left from those that were expected."""
    lines: list[str] = []
    missing: list[_Place] = []
    extra: list[_Place] = []
    for port in sorted({*got, *wanted}):
        want, have = wanted.get(port, []), got.get(port, [])
        for kind, i, i_end, j, j_end in SequenceMatcher(None, want, have, autojunk=False).get_opcodes():
            if kind == "equal":
                continue
            while i < i_end and j < j_end:
                lines.append(f"port {port}, frame {j + 1}:")
                lines.extend(f"  {line}" for line in differences(want[i], have[j]))
                i, j = i + 1, j + 1
            missing += [_Place(port, index, want[index]) for index in range(i, i_end)]
            extra += [_Place(port, index, have[index]) for index in range(j, j_end)]
    for place in list(missing):
        twin = next((other for other in extra if other.data == place.data), None)
        if twin is not None:
            where = f"as frame {twin.index + 1}" if twin.port == place.port else f"by port {twin.port}"
            lines.append(f"{place}: this frame left {where} instead")
            missing.remove(place)
            extra.remove(twin)
    for place in missing:
        lines.append(f"{place}: expected, but nothing left:")
        lines.extend(f"  {line}" for line in summary(place.data))
    for number, place in enumerate(extra):
        lines.append(f"{place}: unexpected:")
        lines.extend(f"  {line}" for line in summary(place.data))
        if number < len(missing):
            lines.append(f"  compared with the frame expected at port {missing[number].port}:")
            lines.extend(f"    {line}" for line in differences(missing[number].data, place.data))
    return lines
