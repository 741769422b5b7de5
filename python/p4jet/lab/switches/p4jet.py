"""p4jet, through AF_PACKET or AF_XDP."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from ..errors import LabError
from ..network import Node
from .base import SwitchType, first_line

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
READY = "forwarding between"
FRAME_MAX = 9216
"""What `p4jet run` takes without `--frame-max`."""


def binary() -> str | None:
    """Finds the program p4jet: $P4JET, on the PATH, or as a checkout builds it."""
    checkout = Path(__file__).resolve().parents[4] / "target/release/p4jet"
    for candidate in (os.environ.get("P4JET"), shutil.which("p4jet"), str(checkout)):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    return None


def start_wires(node: Node, ports: Sequence[tuple[str, str]], mtu: int) -> None:
    """Joins interfaces in pairs by links with these properties, which one p4jet emulates for the whole network."""
    program = binary()
    if program is None:
        raise LabError(f"links with delay, jitter, loss or rate need p4jet: {P4jet.missing()}")
    if len(ports) > 510:
        raise LabError(f"found {len(ports) // 2} links with delay, jitter, loss or rate; p4jet emulates at most 255")
    arguments = []
    for number, (interface, properties) in enumerate(ports):
        arguments += ["-i", f"{number}@{','.join(filter(None, [interface, properties]))}"]
    argv = [program, "run", str(PROGRAMS / "wire.p4"), "--no-control", "--no-adapt", *_frame_max(mtu), *arguments]
    process = node.spawn(argv, log=node.folder / "wires.log")
    process.wait_for(READY)


def _frame_max(mtu: int) -> list[str]:
    return ["--frame-max", str(min(mtu + 100, 65535))] if mtu + 100 > FRAME_MAX else []


class P4jet(SwitchType):
    """Options of the topology become those of `p4jet run`: ``{"cores": 2, "no-adapt": True}``."""

    name = "p4jet"
    title = "p4jet, AF_PACKET"
    order = 0
    functions = frozenset({"mac-mirror", "forward", "l2", "l3", "p4", "rules"})
    emulates_links = True
    options = None
    kind: ClassVar[str] = "packet"

    @classmethod
    def missing(cls) -> str | None:
        if binary() is None:
            return "p4jet is not on the PATH: build it with `cargo build --release` and set P4JET=target/release/p4jet"
        return None

    @classmethod
    def version(cls) -> str:
        return first_line([binary() or "p4jet", "--version"])

    @property
    def control(self) -> Path:
        """The socket for `p4jet ctl --socket`."""
        return self.node.runtime / f"{self.spec.name}.ctl"

    @property
    def p4runtime(self) -> str | None:
        value = self.spec.options.get("p4runtime", False)
        if value is False:
            return None
        text = "127.0.0.1:9559" if value is True else str(value)
        return text if ":" in text else f"127.0.0.1:{text}"

    def start(self) -> None:
        program = self.spec.program
        commands = []
        if self.spec.commands is not None:
            commands.append(self.spec.commands.read_text(encoding="utf-8"))
        if self.mirrors or self.forwards:
            if program is not None or (self.mirrors and self.forwards):
                raise LabError(f"{self.spec.name}: found two of a program, a MAC mirror and port forwarding; expected one")
            program = PROGRAMS / ("mac_mirror.p4" if self.mirrors else "forward.p4")
            commands += [f"table_add mirror set_mac {dst} => {dst} {src}\n" for _, dst, src in self.mirrors]
            commands += [f"table_add forward send {one} => {other}\n" for one, other in self.forwards]
        if program is None:
            raise LabError(f"{self.spec.name} has no program: name one in the topology, or give --program FILE")
        if self.spec.runtime is not None:
            from ..tutorial import runtime_commands

            commands.append(runtime_commands(program, self.spec.runtime))
        file = self.folder / f"{self.spec.name}.cmd"
        file.write_text("\n".join(commands), encoding="utf-8")
        argv = [binary() or "p4jet", "run", str(program), "--commands", str(file), "--control", str(self.control)]
        for port, interface in self.node.interfaces.items():
            argv += ["-i", f"{port}@{','.join(filter(None, [f'{self.kind}:{interface}', self.node.links[port].describe()]))}"]
        argv += _frame_max(max((link.mtu or 0 for link in self.node.links.values()), default=0))
        for name, value in self.spec.options.items():
            if value is not False:
                argv += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        self.spawn(argv, until=READY)

    def control_command(self, command: str, *, timeout: float = 30.0) -> str:
        """Runs a runtime command, such as ``table_dump ipv4_lpm``, and returns the answer. Raises :class:`LabError`."""
        argv = [binary() or "p4jet", "ctl", "--socket", str(self.control), command]
        return self.node.run(argv, timeout=timeout).stdout


class P4jetXdp(P4jet):
    name = "p4jet-xdp"
    title = "p4jet, AF_XDP"
    order = 1
    kind = "xdp"

    @classmethod
    def missing(cls) -> str | None:
        if os.geteuid() != 0:
            return "AF_XDP needs root"
        return super().missing()

    def start(self) -> None:
        super().start()
        self.receive_in_threads()
