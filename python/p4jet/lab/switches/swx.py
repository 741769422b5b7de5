"""DPDK SWX: the software switch pipeline of DPDK, run by its example dpdk-pipeline, over pcap devices."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from ..errors import LabError
from ..topology import Switch, Topology
from .base import NO_FUNCTION, SwitchType, find, first_line
from .p4jet import PROGRAMS

PACKAGE = "it from DPDK's source: meson setup -Dexamples=pipeline build && ninja -C build (build/examples/dpdk-pipeline)"
HEADER = "lib/pipeline/rte_swx_pipeline_internal.h"
HEADERS_DEBIAN = "/usr/include/x86_64-linux-gnu/dpdk:/usr/include/dpdk"
PROMPT = """
import socket, time
for attempt in range(500):
    try:
        with socket.create_connection(("127.0.0.1", 8086), timeout=50) as prompt:
            prompt.recv(100)
            break
    except ConnectionRefusedError:
        time.sleep(0.1)
"""
"""Waits until dpdk-pipeline answers."""


class Swx(SwitchType):
    """The pipeline is compiled with gcc when it starts, for which $RTE_INSTALL_DIR names DPDK's source."""

    name = "swx"
    title = "DPDK SWX, pcap device"
    order = 23
    functions = frozenset({"mac-mirror", "forward"})

    @classmethod
    def missing(cls) -> str | None:
        for program, package in (("dpdk-pipeline", PACKAGE), ("gcc", "gcc")):
            _, why = find(program, package)
            if why is not None:
                return why
        source = os.environ.get("RTE_INSTALL_DIR", "")
        if not source or not (Path(source) / HEADER).exists():
            return f"RTE_INSTALL_DIR does not name DPDK's source: there is no {source or '(unset)'}/{HEADER}"
        return None

    @classmethod
    def version(cls) -> str:
        version = Path(os.environ.get("RTE_INSTALL_DIR", "")) / "VERSION"
        return f"DPDK {version.read_text().strip()}" if version.exists() else first_line(["dpdk-pipeline", "--version"])

    @classmethod
    def faults(cls, spec: Switch, topology: Topology) -> list[str]:
        found = super().faults(spec, topology)
        count = len(topology.ports()[spec.name])
        if count & (count - 1):
            found.append(f"switches.{spec.name}: found {count} ports; SWX takes 1, 2, 4, 8 or another power of 2")
        return found

    def lacks(self) -> str | None:
        if self.mirrors and self.forwards:
            return "found a MAC mirror and port forwarding; type swx does one of them"
        return None if self.mirrors or self.forwards else NO_FUNCTION

    def start(self) -> None:
        ports = {port: number for number, port in enumerate(sorted(self.node.interfaces))}
        table = "mirror" if self.mirrors else "forward"
        entries = [f"match {_hex(dst)} action set_mac dst_addr {_hex(dst)} src_addr {_hex(src)}" for _, dst, src in self.mirrors]
        entries += [f"match {ports[one]:#x} action send port {ports[other]:#x}" for one, other in self.forwards]
        spec = PROGRAMS / ("mac_mirror.spec" if self.mirrors else "forward.spec")
        # Its command lines have at most 256 characters: short paths.
        home = self.node.runtime / f"{self.spec.name}.swx"
        home.mkdir(exist_ok=True)
        for name, lines in {
            "entries": entries,
            # Bursts of 1: dpdk-pipeline sends a burst only when it is full.
            "io": [
                *(f"port in {number} ethdev net_pcap{number} rxq 0 bsz 32" for number in ports.values()),
                *(f"port out {number} ethdev net_pcap{number} txq 0 bsz 1" for number in ports.values()),
            ],
            "script": [
                f"pipeline codegen {home}/spec {home}/p.c",
                f"pipeline libbuild {home}/p.c {home}/p.so",
                "mempool MEMPOOL0 buffer 2304 pool 32K cache 256 cpu 0",
                *(f"ethdev net_pcap{number} rxq 1 128 MEMPOOL0 txq 1 512 promiscuous on" for number in ports.values()),
                f"pipeline PIPELINE0 build lib {home}/p.so io {home}/io numa 0",
                f"pipeline PIPELINE0 table {table} add {home}/entries",
                "pipeline PIPELINE0 commit",
                "thread 1 pipeline PIPELINE0 enable",
            ],
        }.items():
            (home / name).write_text("\n".join(lines) + "\n", encoding="ascii")
        (home / "spec").write_text(spec.read_text(encoding="ascii"), encoding="ascii")
        processors = str(self.spec.cpu) if self.spec.cpu is not None else f"({','.join(map(str, sorted(os.sched_getaffinity(0))))})"
        argv = ["dpdk-pipeline", f"--lcores=0@{processors},1@{processors}", "--no-huge", "-m", "512", "--no-pci", "--no-shconf", "--no-telemetry"]
        for port, number in ports.items():
            interface = self.node.interfaces[port]
            # Its af_packet device refuses the MTU of 9000 that dpdk-pipeline asks for.
            argv += ["--vdev", f"net_pcap{number},rx_iface_in={interface},tx_iface={interface}"]
        process = self.spawn([*argv, "--", "-s", f"{home}/script"], env={"C_INCLUDE_PATH": HEADERS_DEBIAN})
        # It takes connections at its prompt only after the script.
        self.node.run([sys.executable, "-I", "-c", PROMPT], timeout=60.0)
        # A command that succeeds prints nothing; lines with a prefix are DPDK's log.
        wrong = [line for line in process.output().splitlines() if not re.match("[A-Z_]+: ", line)]
        if wrong:
            raise LabError(f"{self.spec.name}: dpdk-pipeline reports:\n" + "\n".join(wrong[:10]))


def _hex(mac: str) -> str:
    return "0x" + mac.replace(":", "")
