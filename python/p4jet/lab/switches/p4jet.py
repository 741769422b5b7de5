"""p4jet, through AF_PACKET or AF_XDP."""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ...packets import FRAME_MAX
from ..errors import LabError
from ..network import Node
from ..options import address, flag, one_of, or_flag, text, whole
from ..rules import SWITCH_MAC, TESTER_MAC, Rules
from ..topology import Switch, Topology
from .base import OverXdp, SwitchType, first_line

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
READY = "forwarding between"
FRAME_MAX_DEFAULT = 9216
"""What `p4jet run` takes without `--frame-max`."""


def binary() -> str | None:
    """Finds the program p4jet: $P4JET, on the PATH, or as a checkout builds it."""
    checkout = Path(__file__).resolve().parents[4] / "target/release/p4jet"
    for candidate in (os.environ.get("P4JET"), shutil.which("p4jet"), str(checkout)):
        if candidate and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None


def programs_folder(wanted: Path | None = None) -> Path:
    """Returns the folder of the shipped P4 programs: `wanted`, else that of this checkout, else ``./programs``."""
    candidates = [wanted] if wanted else [Path(__file__).resolve().parents[4] / "programs", Path("programs")]
    for folder in candidates:
        if (folder / "vxlan_gateway" / "vxlan_gateway.p4").exists():
            return folder
    raise LabError(f"there are no programs of p4jet in {' or '.join(map(str, candidates))}: run it in a checkout of p4jet")


@functools.cache
def _version(path: str) -> str:
    return first_line([path, "--version"])


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


def rule_commands(rules: Rules) -> list[str]:
    """Returns the runtime commands that install rules; rule N gets handle N."""
    if rules.kind == "register":
        return ["register_write port 0 2\n"]
    key = {"exact": "{}", "lpm": f"{{}}/{rules.length}", "ternary": f"{{}}&&&{rules.mask}"}[rules.kind]
    priority = " {}" if rules.kind == "ternary" else ""
    lines = f"table_add route send {key} => {SWITCH_MAC} {TESTER_MAC} 2{priority}\n"
    return [lines.format(rules.address(number), number + 1) for number in range(rules.count)]


def _frame_max(mtu: int) -> list[str]:
    return ["--frame-max", str(min(mtu + 100, FRAME_MAX))] if mtu + 100 > FRAME_MAX_DEFAULT else []


class P4jet(SwitchType):
    """Options of the topology become those of `p4jet run`: ``{"cores": 2, "no-adapt": True}``."""

    name = "p4jet"
    title = "p4jet, AF_PACKET"
    order = 0
    functions = frozenset({"mac-mirror", "forward", "l2", "l3", "p4", "rules", "gateway"})
    rule_kinds = frozenset({"exact", "lpm", "ternary", "register"})
    emulates_links = True
    options = {
        "Wdisable": or_flag(text), "Werror": or_flag(text), "Winfo": or_flag(text), "Wwarn": or_flag(text),
        "allow-users": text, "arch": one_of("auto", "v1model", "psa"), "capture": text, "control-tcp": address,
        "cores": whole(1, 1024), "cpu-port": whole(1, 2**32 - 1), "device-id": whole(0, 2**64 - 1), "engine": one_of("jit", "interp"),
        "frame-max": whole(1024, FRAME_MAX), "grant-dir": text, "log": one_of("text", "json"), "log-file": text,
        "log-level": one_of("error", "warn", "info", "debug"), "metrics": address, "no-adapt": flag, "p4runtime": or_flag(address),
        "p4runtime-ca": text, "p4runtime-cert": text, "p4runtime-key": text, "pipelined": or_flag(whole(2, 4)), "queues": whole(1, 8),
        "ring": whole(64, 1 << 18), "state": text, "stay": flag,
    }  # fmt: skip
    """Those of `p4jet run`, except what the lab itself sets: ports, runtime commands and the control socket."""
    needs: ClassVar[Mapping[str, str]] = {
        "cpu-port": "p4runtime", "device-id": "p4runtime", "grant-dir": "control-tcp", "p4runtime-ca": "p4runtime",
        "p4runtime-cert": "p4runtime", "p4runtime-key": "p4runtime", "ring": "pipelined",
    }  # fmt: skip
    """Options that have an effect only with another."""
    kind: ClassVar[str] = "packet"

    @classmethod
    def missing(cls) -> str | None:
        path = binary()
        if path is None:
            return "p4jet is not on the PATH: build it with `cargo build --release` and set P4JET=target/release/p4jet"
        try:
            version = _version(path)
        except LabError as error:
            return str(error)
        return None if version.startswith("p4jet ") else f"{path} --version prints {version[:60]!r}, so it is not p4jet: set P4JET to p4jet"

    @classmethod
    def version(cls) -> str:
        return _version(binary() or "p4jet")

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

    @classmethod
    def faults(cls, spec: Switch, topology: Topology) -> list[str]:
        found = super().faults(spec, topology)
        where = f"switches.{spec.name}.options"
        given = {option for option, value in spec.options.items() if value is not False}
        found += [f"{where}.{one}: it needs the option {other}, too" for one, other in cls.needs.items() if one in given and other not in given]
        if {"cores", "pipelined"} <= given:
            found.append(f"{where}: found cores and pipelined; expected one of them")
        return found

    def start(self) -> None:
        program = self.spec.program
        commands = []
        if self.spec.commands is not None:
            commands.append(self.spec.commands.read_text(encoding="utf-8"))
        defines: list[str] = []
        programs = {"mac_mirror": self.mirrors, "forward": self.forwards, "rules": self.rules, "vxlan_gateway": self.gateway_entries}
        wanted = [name for name, is_wanted in programs.items() if is_wanted]
        if wanted:
            if program is not None or len(wanted) > 1:
                found = ", ".join(["a program"] * (program is not None) + wanted)
                raise LabError(f"{self.spec.name}: found {found}; a switch does one of these")
            program = PROGRAMS / f"{wanted[0]}.p4"
            if self.gateway_entries is not None:
                program = programs_folder() / "vxlan_gateway" / "vxlan_gateway.p4"
                commands.append(self.gateway_entries[1].read_text(encoding="ascii"))
            if self.rules is not None:
                defines = ["-D", "REGISTER" if self.rules.kind == "register" else f"KIND={self.rules.kind}"]
                commands += rule_commands(self.rules)
            commands += [f"table_add mirror set_mac {dst} => {dst} {src}\n" for _, dst, src in self.mirrors]
            commands += [f"table_add forward send {one} => {other}\n" for one, other in self.forwards]
        if program is None:
            raise LabError(f"{self.spec.name} has no program: name one in the topology, or give --program FILE")
        if self.spec.runtime is not None:
            from ..tutorial import runtime_commands

            commands.append(runtime_commands(program, self.spec.runtime))
        file = self.folder / f"{self.spec.name}.cmd"
        file.write_text("\n".join(commands), encoding="utf-8")
        argv = [binary() or "p4jet", "run", str(program), *defines, "--commands", str(file), "--control", str(self.control)]
        for port, interface in self.node.interfaces.items():
            argv += ["-i", f"{port}@{','.join(filter(None, [f'{self.kind}:{interface}', self.node.links[port].describe()]))}"]
        argv += _frame_max(max((link.mtu or 0 for link in self.node.links.values()), default=0))
        for name, value in self.spec.options.items():
            if value is not False:
                argv.append(f"--{name}" if value is True else f"--{name}={value}")
        # A million rules take time.
        self.spawn(argv, until=READY, timeout=20.0 if self.rules is None else 120.0)

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        super().stop()

    _connection: socket.socket | None = None

    def update_rule(self, number: int, port: int) -> None:
        assert self.rules is not None
        if self.rules.kind == "register":
            self.request(f"register_write port 0 {port}")
        else:
            self.request(f"table_modify route send {number} {SWITCH_MAC} {TESTER_MAC} {port}")

    def request(self, command: str) -> str:
        """Runs a runtime command over a connection that stays open, which takes less time than :meth:`control_command`."""
        if self._connection is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(30.0)
            connection.connect(str(self.control))
            self._connection = connection
        self._connection.sendall(json.dumps({"command": command}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._connection.recv(65536)
            if not part:
                raise LabError(f"{self.spec.name}: the switch has closed its control socket")
            answer += part
        found = json.loads(answer)
        if not found["ok"]:
            raise LabError(f"{self.spec.name}: {command}: {found['error']['text']}")
        return str(found.get("output", ""))

    def control_command(self, command: str, *, timeout: float = 30.0) -> str:
        """Runs a runtime command, such as ``table_dump ipv4_lpm``, and returns the answer. Raises :class:`LabError`."""
        argv = [binary() or "p4jet", "ctl", "--socket", str(self.control), command]
        return self.node.run(argv, timeout=timeout).stdout


class P4jetXdp(OverXdp, P4jet):
    name = "p4jet-xdp"
    title = "p4jet, AF_XDP"
    order = 1
    kind = "xdp"
