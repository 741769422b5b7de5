"""XDP programs written by hand: a MAC mirror and forwarding from port to port.

Run as a program in a node, this file loads such programs and attaches them:

    python -m p4jet.lab.switches.xdp '{"eth1": {"mirrors": [["02:00:00:00:00:02", "02:00:00:00:00:01"]], "out": "eth2"}}'

An interface with null gets a program that does nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import socket
import struct
import sys
from collections.abc import Sequence

from ..errors import LabError
from ..network import Node, python_program
from .base import NO_FUNCTION, SwitchType

XDP_DROP, XDP_TX = 1, 3
BPF_REDIRECT = 23
SYSCALLS = {"x86_64": 321, "aarch64": 280}


class Xdp(SwitchType):
    """Frames to a mirrored address are sent back, others leave by the port that `forward` names, or are dropped."""

    name = "xdp"
    title = "XDP, written by hand"
    order = 30
    functions = frozenset({"mac-mirror", "forward"})

    @classmethod
    def missing(cls) -> str | None:
        if os.geteuid() != 0:
            return "loading XDP programs needs root"
        return None if platform.machine() in SYSCALLS else f"unknown processor {platform.machine()}; expected {', '.join(SYSCALLS)}"

    @classmethod
    def version(cls) -> str:
        return f"Linux {platform.release()}"

    def lacks(self) -> str | None:
        return None if self.mirrors or self.forwards else NO_FUNCTION

    def start(self) -> None:
        outputs = dict(self.forwards)
        programs: dict[str, object] = {}
        for port, interface in self.node.interfaces.items():
            programs[interface] = {
                "mirrors": [[dst, src] for at, dst, src in self.mirrors if at == port],
                "out": self.node.interfaces[outputs[port]] if port in outputs else None,
            }
        self._attach(self.node, programs)
        self.receive_in_threads()
        for port in self.node.interfaces:
            # The other end of a veth takes redirected frames only if it receives by NAPI, and those of XDP_TX only if it
            # has a program, too (drivers/net/veth.c: veth_xdp_xmit, veth_xdp_flush).
            peer, interface = self.node.peers[port]
            peer.set_offloads(interface, gro=True)
            if any(at == port for at, _, _ in self.mirrors):
                self._attach(peer, {interface: None})
            # No thread receives there. It would share a processor with a generator that never sleeps, and lose half of the frames
            # to the ring of 256. Instead the processor that sends them takes them from the ring, and steers them (RPS).

    def _attach(self, node: Node, programs: dict[str, object]) -> None:
        node.run([*python_program("p4jet.lab.switches.xdp"), json.dumps(programs)])

    def stop(self) -> None:
        """Leaves the programs: they end with the network."""


def assemble(mirrors: Sequence[tuple[bytes, bytes]], out: int | None) -> bytes:
    """Returns the instructions of a program: a mirror for each pair of addresses, the interface to redirect other frames to."""
    code: list[bytes] = []

    def emit(opcode: int, dst: int = 0, src: int = 0, offset: int = 0, value: int = 0) -> None:
        code.append(struct.pack("<BBhI", opcode, dst | src << 4, offset, value & 0xFFFFFFFF))

    def halves(mac: bytes) -> tuple[int, int]:
        return int.from_bytes(mac[:4], sys.byteorder), int.from_bytes(mac[4:], sys.byteorder)

    # r2 = data_end, r3 = data, r4 = data + 14.
    emit(0x61, 2, 1, 4)
    emit(0x61, 3, 1, 0)
    emit(0xBF, 4, 3)
    emit(0x07, 4, value=14)
    # if r4 > r2: drop, the two instructions at the end.
    emit(0x2D, 4, 2, 10 * len(mirrors) + (4 if out is not None else 0))
    for dst, src in mirrors:
        (dst_low, dst_high), (src_low, src_high) = halves(dst), halves(src)
        # if *(u32 *)(r3 + 0) != dst[0:4] or *(u16 *)(r3 + 4) != dst[4:6]: next mirror.
        emit(0x61, 5, 3, 0)
        emit(0x56, 5, 0, 8, dst_low)
        emit(0x69, 5, 3, 4)
        emit(0x56, 5, 0, 6, dst_high)
        # Destination = src, source = dst.
        emit(0x62, 3, 0, 0, src_low)
        emit(0x6A, 3, 0, 4, src_high)
        emit(0x62, 3, 0, 6, dst_low)
        emit(0x6A, 3, 0, 10, dst_high)
        # return XDP_TX.
        emit(0xB7, 0, value=XDP_TX)
        emit(0x95)
    if out is not None:
        # return bpf_redirect(out, 0).
        emit(0xB7, 1, value=out)
        emit(0xB7, 2, value=0)
        emit(0x85, value=BPF_REDIRECT)
        emit(0x95)
    emit(0xB7, 0, value=XDP_DROP)
    emit(0x95)
    return b"".join(code)


def load(code: bytes) -> int:
    """Loads an XDP program (bpf(2), BPF_PROG_LOAD) and returns its descriptor. Raises :class:`LabError` with the verifier's log."""
    libc = ctypes.CDLL(None, use_errno=True)
    instructions = ctypes.create_string_buffer(code, len(code))
    license_name = ctypes.create_string_buffer(b"GPL")
    log = ctypes.create_string_buffer(65536)
    # linux/bpf.h, union bpf_attr: prog_type XDP = 6, insn_cnt, insns, license, log_level, log_size, log_buf.
    attributes = struct.pack(
        "<IIQQIIQ", 6, len(code) // 8, ctypes.addressof(instructions), ctypes.addressof(license_name), 1, len(log), ctypes.addressof(log)
    )
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    found: int = libc.syscall(SYSCALLS[platform.machine()], 5, buffer, 128)
    if found < 0:
        raise LabError(f"the kernel refuses the XDP program: {os.strerror(ctypes.get_errno())}: {log.value.decode()[-1500:]}")
    return found


def attach(interface: str, descriptor: int) -> None:
    """Attaches a program in the driver, not in generic mode. A program that is attached outlives this process."""
    from pyroute2 import IPRoute  # type: ignore[import-untyped]

    with IPRoute() as netlink:
        # XDP_FLAGS_DRV_MODE.
        netlink.link("set", index=socket.if_nametoindex(interface), xdp={"attrs": [("IFLA_XDP_FD", descriptor), ("IFLA_XDP_FLAGS", 4)]})


def main() -> None:
    for interface, of in json.loads(sys.argv[1]).items():
        if of is None:
            # return XDP_PASS.
            attach(interface, load(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0)))
            continue
        mirrors = [tuple(bytes.fromhex(mac.replace(":", "")) for mac in pair) for pair in of["mirrors"]]
        out = None if of["out"] is None else socket.if_nametoindex(of["out"])
        attach(interface, load(assemble([(dst, src) for dst, src in mirrors], out)))


if __name__ == "__main__":
    main()
