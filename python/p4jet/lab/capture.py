"""Captures the frames of a port in a pcap file."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

from .errors import LabError
from .network import Node

SNAPLEN = 1 << 17
"""Bytes; a kernel that leaves segmentation to the interface hands over 64 KiB and headers."""
SO_TIMESTAMPNS = 35
SOL_PACKET, PACKET_STATISTICS, PACKET_AUXDATA = 263, 6, 8
STATUS_VLAN_VALID = 0x10


def capture(node: Node, port: int, file: Path, *, count: int | None = None, seconds: float | None = None) -> tuple[int, int]:
    """Writes the frames that pass a port, in both directions, until one of the limits or :class:`KeyboardInterrupt`.

    Returns the number of frames in the file, and of those that the kernel dropped because they came too fast. A switch that uses XDP
    or AF_XDP takes frames before they can be captured at its own ports; capture at the other end of the link.
    """
    end = None if seconds is None else time.monotonic() + seconds
    captured = 0
    with node.packet_socket(port) as frames:
        frames.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        frames.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        frames.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        try:
            with open(file, "wb") as out:
                # pcap with nanoseconds, Ethernet.
                out.write(struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAPLEN, 1))
                out.flush()
                while (count is None or captured < count) and (end is None or time.monotonic() < end):
                    frames.settimeout(0.2 if end is None else min(0.2, max(0.001, end - time.monotonic())))
                    try:
                        frame, details, _, _ = frames.recvmsg(SNAPLEN, 256)
                    except TimeoutError:
                        out.flush()
                        continue
                    seconds_ns, frame = _read(frame, details)
                    out.write(struct.pack("=IIII", *seconds_ns, len(frame), len(frame)) + frame)
                    captured += 1
        except KeyboardInterrupt:
            pass
        except OSError as error:
            raise LabError(f"{file}: {error.strerror}") from error
        dropped = struct.unpack("II", frames.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
    return captured, int(dropped)


def _read(frame: bytes, details: list[tuple[int, int, bytes]]) -> tuple[tuple[int, int], bytes]:
    """Returns the time, in seconds and nanoseconds, and the frame with the VLAN tag that the kernel has taken out."""
    at = (0, 0)
    for level, kind, data in details:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            at = struct.unpack("qq", data[:16])
        elif (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            # linux/if_packet.h, tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid.
            status, _, _, _, _, tag, tag_type = struct.unpack("IIIHHHH", data[:20])
            if status & STATUS_VLAN_VALID:
                frame = frame[:12] + struct.pack("!HH", tag_type or 0x8100, tag) + frame[12:]
    return at, frame
