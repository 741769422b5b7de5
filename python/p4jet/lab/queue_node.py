"""Programs that run inside nodes of the experiment `p4jet-lab queue`: the source of packets, and the controller.

They need only the standard library, because they run as ``python -I queue_node.py`` in the node's namespace. Frames have the stamp of
:mod:`~p4jet.lab.probe`, which takes their times.

``send`` sends frames as a Poisson process. A random share of them belongs to new flows. It sleeps until the time of each frame, and
sends a frame that is late at once; the times that count are those of the probe.

``serve`` is the controller: a single server, first come, first served. A service begins when the packet has arrived, by the kernel's time
stamp, or when the packet before it has left, whatever is later. It lasts a random or constant time, and ends when the frame has been
sent back: sending begins so much earlier as it took on average before. The program sleeps up to :data:`SPIN_NS` before that, and then
waits actively. The records tell how long each service should have taken, and how long it took.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time

RECORD = struct.Struct("<Qqqqq")
"""Of a service: number of the frame, its arrival, the begin of the service, its end (ns since 1970), the wanted duration (ns)."""
MARK = b"\x50\x4a"
ETHER_TYPE = b"\x88\xb5"
"""For experiments in a local network (IEEE 802)."""
ADDRESSES = bytes.fromhex("020000000002" "020000000001")
STAMP = 18
LENGTH_MIN = 64

ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
BUFFER = 64 << 20
PR_SET_TIMERSLACK = 29
SPIN_NS = 150_000
"""How long before its time a program stops sleeping: a sleep ends some 50 µs late on a virtual machine."""
LAWS = ("exponential", "deterministic")


def prepare(priority: int) -> bool:
    """Asks for precise sleeps and a real-time priority; returns whether the kernel gave the latter."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError:
        return False
    return True


def sleep_until(when: int) -> None:
    """Sleeps until a time in ns since 1970, or returns at once."""
    left = when - time.time_ns()
    if left > 0:
        time.sleep(left / 1e9)


def wait_until(when: int) -> None:
    """Like :func:`sleep_until`, but awake at the end."""
    sleep_until(when - SPIN_NS)
    while time.time_ns() < when:
        pass


def send(args: argparse.Namespace) -> None:
    """Sends frames for `seconds`, then prints how many, and how late they were."""
    is_real_time = prepare(args.priority)
    rng = random.Random(args.seed)
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.bind((args.interface, 0))
    padding = bytes(args.length - 15 - STAMP)
    fronts = [ADDRESSES + ETHER_TYPE + bytes([is_new]) + padding + MARK for is_new in (0, 1)]
    begin = time.time_ns() + 20_000_000
    end = begin + int(args.seconds * 1e9)
    when = float(begin)
    late: list[int] = []
    sent = refused = 0
    while True:
        when += rng.expovariate(args.rate) * 1e9
        if when >= end:
            break
        front = fronts[rng.random() < args.share]
        sleep_until(int(when))
        now = time.time_ns()
        try:
            opened.send(front + sent.to_bytes(8, "big") + now.to_bytes(8, "big"))
        except OSError:
            refused += 1
        late.append(now - int(when))
        sent += 1
    late.sort()
    result: dict[str, object] = {"sent": sent, "refused": refused, "begin": begin, "end": end, "real_time": is_real_time}
    result["late_us"] = [late[int(share * (len(late) - 1))] / 1e3 for share in (0.5, 0.99)] if late else [0.0, 0.0]
    print(json.dumps(result), flush=True)


def serve(args: argparse.Namespace) -> None:
    """Serves frames until a signal or the time limit; then writes the records."""
    stop_read, stop_write = os.pipe()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os.write(stop_write, b"."))
    is_real_time = prepare(args.priority)
    rng = random.Random(args.seed)
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    try:
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    except PermissionError:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    opened.bind((args.interface, ETH_P_ALL))
    opened.setblocking(False)
    records: list[bytes] = []
    free = 0
    sending = 0.0  # ns that sending takes, on average
    space = socket.CMSG_SPACE(16)
    last = time.monotonic() + args.seconds
    awaited: list[int | socket.socket] = [opened, stop_read]
    print("serving", flush=True)
    while (remaining := last - time.monotonic()) > 0:
        try:
            frame, ancillary, _, _ = opened.recvmsg(2048, space)
        except BlockingIOError:
            ready, _, _ = select.select(awaited, [], [], remaining)
            if stop_read in ready:
                break
            continue
        if frame[12:14] != ETHER_TYPE or frame[-STAMP : 2 - STAMP] != MARK:
            continue
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
        arrival = seconds * 10**9 + nanoseconds
        wanted = int(args.mean_us * 1e3 * (rng.expovariate(1.0) if args.law == "exponential" else 1.0))
        begin = max(arrival, free)
        wait_until(begin + wanted - int(sending))
        before = time.time_ns()
        try:
            opened.send(frame)
        except OSError as error:
            sys.exit(f"the controller cannot send: {error}")
        free = time.time_ns()
        sending += 0.05 * (min(free - before, SPIN_NS) - sending)
        records.append(RECORD.pack(int.from_bytes(frame[2 - STAMP : 10 - STAMP], "big"), arrival, begin, free, wanted))
    with open(args.out, "wb") as file:
        file.writelines(records)
    print(json.dumps({"served": len(records), "real_time": is_real_time}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="the source and the controller of `p4jet-lab queue`")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("send")
    one.set_defaults(act=send)
    one.add_argument("--rate", type=float, required=True, help="frames per second")
    one.add_argument("--share", type=float, required=True, help="of new flows, 0 to 1")
    one.add_argument("--length", type=int, default=LENGTH_MIN, help="bytes of a frame")
    two = commands.add_parser("serve")
    two.set_defaults(act=serve)
    two.add_argument("--law", choices=LAWS, required=True)
    two.add_argument("--mean-us", type=float, required=True)
    two.add_argument("--out", required=True)
    for command in (one, two):
        command.add_argument("--interface", required=True)
        command.add_argument("--seed", type=int, required=True)
        command.add_argument("--seconds", type=float, required=True)
        command.add_argument("--priority", type=int, required=True)
    args = parser.parse_args()
    try:
        args.act(args)
    except OSError as error:
        sys.exit(f"queue_node: {error}")


if __name__ == "__main__":
    main()
