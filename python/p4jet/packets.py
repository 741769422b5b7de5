"""Packets that enter and leave switches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsBytes, TypeAlias, Union

from . import _native

if TYPE_CHECKING:
    from scapy.packet import Packet as ScapyPacket

Frame: TypeAlias = Union[bytes, bytearray, memoryview, str, SupportsBytes]
"""A frame: bytes, a scapy packet, or a text.

A text has hexadecimal digits, or layers such as ``ip dst=10.0.0.1 / tcp dport=80``, as ``p4jet trace`` takes them.
"""

FRAME_MAX = 65_535
"""Maximum number of bytes of a frame: `FRAME_MAX` of the crate p4jet-dataplane, which the native half checks, too."""


class Packet(NamedTuple):
    """A packet that left a switch."""

    port: int
    """The egress port."""
    data: bytes
    """The frame, from its first byte."""

    def __bytes__(self) -> bytes:
        return self.data

    def scapy(self) -> ScapyPacket:
        """Returns the frame as a scapy packet that begins with Ethernet. Needs scapy."""
        from scapy.layers.l2 import Ether

        return Ether(self.data)

    def __repr__(self) -> str:
        return f"Packet(port={self.port}, data=bytes.fromhex({self.data.hex()!r}))"


class Sent(list[Packet]):
    """The packets that one packet caused to leave, in order. It is a list, with the reasons why others were dropped."""

    dropped: tuple[str, ...]
    """One reason for each dropped packet or copy."""

    def __init__(self, packets: list[Packet], dropped: tuple[str, ...] = ()) -> None:
        super().__init__(packets)
        self.dropped = dropped

    def on(self, port: int) -> list[bytes]:
        """Returns the frames that left by this port."""
        return [packet.data for packet in self if packet.port == port]

    def __repr__(self) -> str:
        dropped = f", dropped={list(self.dropped)!r}" if self.dropped else ""
        return f"Sent({list(self)!r}{dropped})"


class Burst:
    """The packets that left during :meth:`Switch.send_many`, in order.

    It is a sequence of :class:`Packet`. For large bursts, `data`, `lengths` and `ports` are faster than its elements.
    """

    data: bytes
    """The frames one after the other."""
    lengths: memoryview
    """Bytes of each frame (``uint32``)."""
    ports: memoryview
    """Egress port of each frame (``uint32``)."""
    dropped: dict[str, int]
    """Number of dropped packets by reason."""

    def __init__(self, data: bytes, lengths: bytes, ports: bytes, dropped: dict[str, int]) -> None:
        self.data = data
        self.lengths = memoryview(lengths).cast("I")
        self.ports = memoryview(ports).cast("I")
        self.dropped = dropped
        self._starts: list[int] | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Packet]:
        start = 0
        for length, port in zip(self.lengths, self.ports):
            yield Packet(port, self.data[start : start + length])
            start += length

    def __getitem__(self, index: int) -> Packet:
        if self._starts is None:
            starts = [0]
            for length in self.lengths:
                starts.append(starts[-1] + length)
            self._starts = starts
        length = self.lengths[index]
        start = self._starts[range(len(self))[index]]
        return Packet(self.ports[index], self.data[start : start + length])

    def array(self) -> Any:
        """Returns the frames as a NumPy array of shape (packets, bytes) and type ``uint8``. All must have the same length."""
        import numpy

        lengths = set(self.lengths)
        if len(lengths) > 1:
            raise ValueError(f"frames of {len(lengths)} lengths, from {min(lengths)} to {max(lengths)} bytes: expected one length")
        width = lengths.pop() if lengths else 0
        return numpy.frombuffer(self.data, dtype=numpy.uint8).reshape(len(self), width)

    def __repr__(self) -> str:
        return f"<{len(self)} packets, {len(self.data)} bytes; dropped: {self.dropped}>"


def frame_bytes(frame: Frame) -> bytes:
    """Returns the bytes of a frame.

    Raises :class:`ValueError` for a text that describes none and for more than :data:`FRAME_MAX` bytes, :class:`TypeError` for anything
    that is no frame.
    """
    if isinstance(frame, bytes):
        data = frame
    elif isinstance(frame, str):
        data = bytes(_native.frame(frame))
    elif is_frame(frame):
        data = bytes(frame)
    else:
        raise TypeError(f"found {_shown(frame)}; expected a frame: bytes, a scapy packet, or a text")
    if len(data) > FRAME_MAX:
        raise ValueError(f"a frame of {len(data)} bytes: expected at most {FRAME_MAX}")
    return data


def frames_bytes(frames: Iterable[Frame]) -> list[bytes]:
    """Returns the bytes of each frame of a list. Raises :class:`TypeError` for a single frame, which Python could iterate over, too."""
    if isinstance(frames, str) or is_frame(frames) or not isinstance(frames, Iterable):
        raise TypeError(f"found {_shown(frames)}; expected a list of frames")
    return [frame_bytes(frame) for frame in frames]


def is_frame(found: object) -> bool:
    """Whether this is a frame in binary form: bytes, anything with a buffer, or an object with ``__bytes__`` such as a scapy packet."""
    if hasattr(found, "__bytes__"):
        return True
    try:
        memoryview(found)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _shown(found: object) -> str:
    """Returns a value and its type, shortened."""
    text = repr(found)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(found).__name__})"
