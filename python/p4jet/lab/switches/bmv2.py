"""bmv2, the reference switch: simple_switch, simple_switch_grpc and psa_switch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

from ..errors import LabError
from ..network import Process
from ..options import address, texts, whole
from .base import SwitchType, find, first_line
from .p4jet import PROGRAMS

PACKAGE = "bmv2 and p4c (https://github.com/p4lang/behavioral-model)"
START_SECONDS = 20.0


class Bmv2(SwitchType):
    """The program is P4 text, which p4c compiles, or p4c's JSON.

    Options: ``device-id``, ``queues`` (of each port), and ``arguments``, a list with which the command line ends; those of
    simple_switch_grpc also ``p4runtime``, the address of its server, and ``cpu-port``.
    """

    name = "bmv2"
    title = "bmv2 simple_switch"
    order = 10
    functions = frozenset({"mac-mirror", "forward", "l2", "l3", "p4"})
    options = {"arguments": texts(), "device-id": whole(0, 2**64 - 1), "queues": whole(1, 8)}
    program: ClassVar[str] = "simple_switch"
    client: ClassVar[str] = "simple_switch_CLI"
    compiler: ClassVar[str] = "p4c-bm2-ss"
    mirror: ClassVar[str] = "mac_mirror.p4"

    @classmethod
    def missing(cls) -> str | None:
        for program in (cls.program, cls.client, cls.compiler):
            _, why = find(program, PACKAGE)
            if why is not None:
                return why
        if "p4jet" in first_line([cls.program, "--version"]):
            return f"{cls.program} on the PATH is p4jet under that name, not bmv2"
        return None

    @classmethod
    def version(cls) -> str:
        return f"{cls.program} {first_line([cls.program, '--version'])}"

    @property
    def p4runtime(self) -> str | None:
        value = self.spec.options.get("p4runtime")
        return None if value is None else str(value)

    def start(self) -> None:
        program, commands = self.spec.program, []
        if self.spec.commands is not None:
            commands.append(self.spec.commands.read_text(encoding="utf-8"))
        if self.mirrors or self.forwards:
            if program is not None or (self.mirrors and self.forwards):
                raise LabError(f"{self.spec.name}: found two of a program, a MAC mirror and port forwarding; expected one")
            program = PROGRAMS / (self.mirror if self.mirrors else "forward.p4")
            commands += [f"table_add mirror set_mac {dst} => {dst} {src}\n" for _, dst, src in self.mirrors]
            commands += [f"table_add forward send {one} => {other}\n" for one, other in self.forwards]
        if program is None:
            raise LabError(f"{self.spec.name} has no program: name one in the topology, or give --program FILE")
        if self.spec.runtime is not None:
            from ..tutorial import runtime_commands

            commands.append(runtime_commands(program, self.spec.runtime))
        options = self.spec.options
        argv = [self.program, "--log-level", "off", "--thrift-port", "9090", "--device-id", str(options.get("device-id", 0))]
        # Its default is one path for all switches of the system.
        argv += ["--notifications-addr", f"ipc://{self.node.runtime}/{self.spec.name}.ipc"]
        for port, interface in self.node.interfaces.items():
            argv += ["-i", f"{port}@{interface}"]
        argv += [str(self._compiled(program)), "--"]
        if "queues" in options:
            argv += ["--priority-queues", str(options["queues"])]
        if self.p4runtime is not None:
            argv += ["--grpc-server-addr", self.p4runtime]
        if "cpu-port" in options:
            argv += ["--cpu-port", str(options["cpu-port"])]
        arguments = options.get("arguments", [])
        assert isinstance(arguments, list)
        argv += arguments
        process = self.spawn(argv if argv[-1] != "--" else argv[:-1])
        self._command("".join(commands), process)

    def _compiled(self, program: Path) -> Path:
        if program.suffix == ".json":
            return program
        output = self.folder / f"{self.spec.name}.json"
        self.node.run([self.compiler, "-o", str(output), str(program)], timeout=60.0)
        return output

    def _command(self, commands: str, process: Process) -> None:
        """Waits until the switch takes commands, and runs these."""
        end = time.monotonic() + START_SECONDS
        while True:
            found = self.node.run([self.client, "--thrift-port", "9090"], input=commands, check=False)
            if found.returncode == 0:
                break
            status = process.poll()
            if status is not None or time.monotonic() > end:
                raise LabError(f"{self.spec.name} takes no commands: {found.stdout}{found.stderr}\n{process.output()[-1500:]}")
            time.sleep(0.1)
        # The client's status is 0 even if a command fails.
        wrong = [line for line in found.stdout.splitlines() if any(word in line for word in ("Error:", "Invalid ", "Unknown "))]
        if wrong:
            raise LabError(f"{self.spec.name}: {self.client} reports:\n" + "\n".join(wrong[:10]))


class Bmv2Grpc(Bmv2):
    name = "bmv2-grpc"
    title = "bmv2 simple_switch_grpc"
    order = 11
    options = {**Bmv2.options, "p4runtime": address, "cpu-port": whole(1, 2**32 - 1)}
    program = "simple_switch_grpc"


class Bmv2Psa(Bmv2):
    name = "bmv2-psa"
    title = "bmv2 psa_switch"
    order = 12
    functions = frozenset({"mac-mirror", "p4"})
    architecture = "psa"
    program = "psa_switch"
    client = "psa_switch_CLI"
    compiler = "p4c-bm2-psa"
    mirror = "mac_mirror_psa.p4"
