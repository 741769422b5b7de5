"""A program that runs inside a node of a lab: it checks what a switch does with frames, and takes time stamps.

It needs only the standard library, because it runs as ``python -I probe.py`` in the node's namespace.

``check`` sends frames of a capture slowly and compares what comes back. It prints one line of JSON.

``watch`` records the frames that `p4jet traffic` sends and receives, with the kernel's time stamps, until SIGINT or SIGTERM. It
reads them only at the end, so that it does not compete with the generator. Only frames whose number is a multiple of `--every`
are recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence

RECORD = struct.Struct("<qQHBB")
"""Of a frame: time in ns since 1970, number, interface (its place in `--interfaces`), 1 if it left, 1 if its MAC addresses are right."""

ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35
BUFFER = 256 << 20
"""Bytes of socket buffer for frames that wait to be read."""
MARK = b"\x50\x4a"
"""The stamp in the last 18 bytes of a frame of `p4jet traffic`: this mark, its number (8 bytes), its time (8 bytes)."""
STAMP = 18


def mac(text: str) -> bytes:
    """Returns the bytes of an address such as 02:00:00:00:00:01."""
    return bytes.fromhex(text.replace(":", ""))


def frames(path: str) -> Iterator[bytes]:
    """Yields the frames of a little-endian pcap file."""
    with open(path, "rb") as file:
        file.read(24)
        while header := file.read(16):
            yield file.read(struct.unpack("<IIII", header)[2])


def sampled(lengths: Sequence[int], every: int) -> bytes:
    """Returns a socket filter (classic BPF) for frames of `p4jet traffic` of these lengths.

    It takes those whose number is a multiple of `every`, a power of two.
    """
    program: list[tuple[int, int, int, int]] = []
    # Shorter ones first: a load beyond the end of a frame rejects it.
    ordered = sorted(set(lengths))
    reject = 5 * len(ordered)
    for block, length in enumerate(ordered):
        mark, number = length - STAMP, length - STAMP + 6
        program += [
            (0x28, 0, 0, mark),  # ldh [mark]
            (0x15, 0, 3, int.from_bytes(MARK, "big")),  # jeq MARK, else the next length
            (0x20, 0, 0, number),  # ld [the number's low 32 bits]
            (0x54, 0, 0, every - 1),  # and
            (0x15, reject - 5 * block - 4, 0, 0),  # jeq 0, accept; else the next length
        ]
    program += [(0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFF)]  # reject, accept
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def tap(interface: str, lengths: Sequence[int], every: int) -> tuple[socket.socket, bool]:
    """Opens a socket that sees what `interface` sends and receives; also returns if its buffer is as large as wanted."""
    import ctypes

    # No protocol until the filter is there, so that nothing else waits in the buffer.
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    program = sampled(lengths, every)
    code = ctypes.create_string_buffer(program)
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    try:
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        is_large = True
    except PermissionError:
        # Without root the limit is net.core.rmem_max, so the socket must be read while frames flow.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        is_large = False
    opened.bind((interface, ETH_P_ALL))
    opened.setblocking(False)
    return opened, is_large


def watch(args: argparse.Namespace) -> None:
    """Records frames until a signal or the time limit; writes the records and prints counts as JSON."""
    stop_read, stop_write = os.pipe()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os.write(stop_write, b"."))
    names = args.interfaces.split(",")
    lengths = [args.length, args.length + args.grows]
    taps = [tap(name, lengths, args.every) for name in names]
    sent, returned = mac(args.dst) + mac(args.src), mac(args.back_dst) + mac(args.back_src)
    records: list[bytes] = []

    def read(place: int, opened: socket.socket) -> None:
        buffer = bytearray(max(lengths) + 1)
        while len(records) < args.limit:
            try:
                length, ancillary, _, address = opened.recvmsg_into([buffer], socket.CMSG_SPACE(16))
            except BlockingIOError:
                return
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            left = address[2] == socket.PACKET_OUTGOING
            is_right = buffer[:12] == sent if left else returned in (b"", bytes(buffer[:12]))
            number = int.from_bytes(buffer[length - STAMP + 2 : length - STAMP + 10], "big")
            records.append(RECORD.pack(seconds * 10**9 + nanoseconds, number, place, left, is_right))

    print("watching", flush=True)
    end = time.monotonic() + args.seconds
    reads_now: list[int | socket.socket] = [stop_read, *(opened for opened, is_large in taps if not is_large)]
    while (remaining := end - time.monotonic()) > 0:
        ready, _, _ = select.select(reads_now, [], [], remaining)
        if stop_read in ready:
            break
        for place, (opened, _) in enumerate(taps):
            read(place, opened)
    dropped = 0
    for place, (opened, _) in enumerate(taps):
        read(place, opened)
        dropped += struct.unpack("II", opened.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
    with open(args.out, "wb") as file:
        file.writelines(records)
    print(json.dumps({"records": len(records), "dropped": dropped}), flush=True)


def check(args: argparse.Namespace) -> None:
    """Sends frames one by one, each after the answer to the one before or after a timeout, and prints what came back."""
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind((args.send, 0))
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    receiver.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    receiver.bind((args.receive, ETH_P_ALL))
    expected = mac(args.back_dst) + mac(args.back_src)
    result = {"sent": 0, "received": 0, "lost": 0, "bad_mac": 0, "changed": 0, "length": 0}
    example: dict[str, str] = {}
    end = time.monotonic() + args.seconds
    for number, frame in zip(range(args.count), frames(args.pcap)):
        # The number makes each frame distinct; other traffic of the node has no mark.
        frame = frame[:-STAMP] + MARK + number.to_bytes(8, "big") + bytes(8)
        sender.send(frame)
        result["sent"] += 1
        deadline = min(end, time.monotonic() + args.timeout)
        while (remaining := deadline - time.monotonic()) > 0:
            receiver.settimeout(remaining)
            try:
                answer = receiver.recv(65536)
            except TimeoutError:
                continue
            if answer[-STAMP:-8] != frame[-STAMP:-8]:
                continue
            result["received"] += 1
            if expected and answer[:12] != expected:
                result["bad_mac"] += 1
                example.setdefault("bad_mac", f"{answer[:6].hex(':')} from {answer[6:12].hex(':')}")
            if len(answer) != len(frame) + args.grows:
                result["length"] += 1
                example.setdefault("length", f"{len(answer)} bytes for {len(frame)}")
            elif not args.grows and answer[12:] != frame[12:]:
                result["changed"] += 1
                example.setdefault("changed", ",".join(str(i) for i in range(12, len(frame)) if answer[i] != frame[i]))
            break
        else:
            result["lost"] += 1
        if time.monotonic() >= end:
            break
    print(json.dumps({**result, "example": example}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="checks and time stamps inside a node")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("watch")
    one.set_defaults(act=watch)
    one.add_argument("--interfaces", required=True, help="names, separated by commas")
    one.add_argument("--length", type=int, required=True, help="bytes of a frame")
    one.add_argument("--every", type=int, default=1, help="a power of two")
    one.add_argument("--limit", type=int, default=1_000_000, help="maximum number of records")
    one.add_argument("--out", required=True)
    one.add_argument("--dst", required=True)
    one.add_argument("--src", required=True)
    two = commands.add_parser("check")
    two.set_defaults(act=check)
    two.add_argument("--send", required=True)
    two.add_argument("--receive", required=True)
    two.add_argument("--pcap", required=True)
    two.add_argument("--count", type=int, default=50)
    two.add_argument("--timeout", type=float, default=2.0, help="seconds to wait for one frame")
    for command in (one, two):
        command.add_argument("--back-dst", default="", help="destination address of returning frames; without it, any")
        command.add_argument("--back-src", default="")
        command.add_argument("--grows", type=int, default=0, help="bytes by which frames return longer")
        command.add_argument("--seconds", type=float, default=60, help="limit of the whole run")
    args = parser.parse_args()
    try:
        args.act(args)
    except OSError as error:
        sys.exit(f"probe: {error}")


if __name__ == "__main__":
    main()
