"""What all types of switches have in common."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ..errors import LabError
from ..network import Node, Process
from ..options import Check
from ..rules import SWITCH_MAC, Rules
from ..topology import FUNCTIONS, Switch, Topology

NO_FUNCTION = 'no function is chosen: set function = "forward" or "mac-mirror" in the file, or call forward() or mac_mirror()'


class SwitchType:
    """A kind of switch, and, as an object, one switch in its node.

    A subclass sets the class variables, and defines :meth:`missing`, :meth:`version` and :meth:`start`. :meth:`mac_mirror` and
    :meth:`forward` only note what :meth:`start` has to configure.
    """

    name: ClassVar[str] = ""
    """As in topologies: ``p4jet``."""
    title: ClassVar[str] = ""
    """As in tables: ``p4jet, AF_PACKET``."""
    order: ClassVar[int] = 100
    """Its place in lists."""
    functions: ClassVar[frozenset[str]] = frozenset()
    """What it can do: ``mac-mirror``, ``forward``, ``l2`` (learns stations), ``l3`` (routes IPv4), ``p4`` (runs a program), ``rules``
    (:meth:`set_rules`), ``gateway`` (:meth:`gateway`)."""
    rule_kinds: ClassVar[frozenset[str]] = frozenset()
    """Of the function ``rules``: the kinds of :mod:`p4jet.lab.rules` that :meth:`set_rules` takes."""
    mtu: ClassVar[int] = 1500
    """The MTU of its interfaces in measurements."""
    architecture: ClassVar[str] = "v1model"
    """Of the function ``p4``: that of the programs."""
    is_router: ClassVar[bool] = False
    """Whether `forward` takes only frames to the MAC address of the port, and replaces both addresses."""
    emulates_links: ClassVar[bool] = False
    """Whether the switch itself delays, loses and limits what it sends (:attr:`Node.links`)."""
    options: ClassVar[Mapping[str, Check]] = {}
    """The keys that `options` of a topology may have, each with the check of its value."""

    def __init__(self, node: Node, spec: Switch, folder: Path) -> None:
        self.node = node
        self.spec = spec
        self.folder = folder
        """For logs."""
        self.mirrors: list[tuple[int, str, str]] = []
        """Port, the mirror's MAC address, the generator's."""
        self.forwards: list[tuple[int, int]] = []
        self.rules: Rules | None = None
        self.gateway_entries: tuple[str, Path] | None = None
        """Direction and runtime commands of :meth:`gateway`."""
        self.processes: list[Process] = []

    @classmethod
    def missing(cls) -> str | None:
        """Returns why this type cannot run here and what to install, or ``None`` if it can."""
        raise NotImplementedError

    @classmethod
    def version(cls) -> str:
        """Returns the version, such as ``ovs-vswitchd 3.1.0``. Call it only if nothing is missing."""
        raise NotImplementedError

    @classmethod
    def faults(cls, spec: Switch, topology: Topology) -> list[str]:
        """Returns what is wrong with a switch of this type in a topology: options, function, ports. A subclass adds to it."""
        from . import types

        where = f"switches.{spec.name}"
        found = []
        for option, value in spec.options.items():
            if option not in cls.options:
                have = ", ".join(sorted(cls.options)) or "none"
                others = ", ".join(name for name, kind in types().items() if option in kind.options)
                more = f"; types with it: {others}" if others else ""
                found.append(f"{where}.options: type {cls.name} has no option {option!r}; there are: {have}{more}")
                continue
            try:
                cls.options[option](value)
            except ValueError as error:
                found.append(f"{where}.options.{option}: {error}")
        if "p4" not in cls.functions and (spec.program or spec.commands or spec.runtime):
            found.append(f"{where}: type {cls.name} runs no P4 programs and takes no runtime commands")
        return [*found, *(f"{where}.{fault}" for fault in cls._faults_of_function(spec, topology))]

    @classmethod
    def _faults_of_function(cls, spec: Switch, topology: Topology) -> Iterator[str]:
        if spec.function is None:
            if spec.ports:
                yield "ports: it has ports but no function; expected function = \"mac-mirror\" or \"forward\""
            return
        can = [function for function in FUNCTIONS if function in cls.functions]
        if spec.function not in can:
            yield f"function: found {spec.function!r}; type {cls.name} has: {', '.join(can) or 'none of ' + ', '.join(FUNCTIONS)}"
            return
        if spec.program or spec.commands or spec.runtime:
            yield "function: found a function and a program or runtime commands; expected one of both"
        links = topology.ports()[spec.name]
        ports = spec.ports or sorted(links)
        have = ", ".join(map(str, sorted(links))) or "none"
        for port in ports:
            if port not in links:
                yield f"ports: port {port} has no link; ports with links: {have}"
            elif spec.function == "mac-mirror" and topology.peer(spec.name, port)[0] not in topology.hosts:
                yield f"ports: no host is at port {port}, so a mirror has nobody to answer; name the ports with hosts"
        if len(set(ports)) < len(ports):
            yield f"ports: found {ports}; expected each port once"
        elif spec.function == "forward" and (len(ports) % 2 or (not spec.ports and len(ports) != 2)):
            yield f"ports: found {ports}; expected pairs of ports, such as [1, 2] or [1, 2, 3, 4]; ports with links: {have}"

    def take_function(self, topology: Topology) -> None:
        """Notes the function that the topology gives to this switch."""
        ports = self.spec.ports or sorted(self.node.interfaces)
        if self.spec.function == "mac-mirror":
            for port in ports:
                host, host_port = topology.peer(self.spec.name, port)
                self.mac_mirror(port, SWITCH_MAC, topology.mac(host, host_port or 0))
        elif self.spec.function == "forward":
            for one, other in zip(ports[::2], ports[1::2]):
                self.forward(one, other)
                self.forward(other, one)

    def lacks(self) -> str | None:
        """Returns what has to be said about this switch before it can start, or ``None``."""
        return None

    def start(self) -> None:
        """Starts the switch and returns once it forwards. Raises :class:`LabError`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ends the switch. Does nothing if it does not run."""
        while self.processes:
            self.processes.pop().stop()

    def mac_mirror(self, port: int, dst: str, src: str) -> None:
        """Lets frames to the MAC address `dst` leave by the port by which they came, addressed to `src`, from `dst`.

        Takes effect in :meth:`start`. Raises :class:`LabError` if the type cannot do that, or has no such port.
        """
        self._need("mac-mirror")
        self.node.interface(port)
        self.mirrors.append((port, dst, src))

    def forward(self, from_port: int, to_port: int) -> None:
        """Lets all frames that come by one port leave by another. Takes effect in :meth:`start`. Raises :class:`LabError`."""
        self._need("forward")
        for port in (from_port, to_port):
            self.node.interface(port)
        self.forwards.append((from_port, to_port))

    def set_rules(self, rules: Rules) -> None:
        """Installs rules, all of which send to port 2. Takes effect in :meth:`start`. Raises :class:`LabError`."""
        self._need("rules")
        if rules.kind not in self.rule_kinds:
            have = ", ".join(sorted(self.rule_kinds))
            raise LabError(f"{self.spec.name}: type {self.name} has no {rules.kind} rules; it has: {have}")
        self.rules = rules

    def gateway(self, direction: str, entries: Path) -> None:
        """Makes a VXLAN gateway of the entries of :mod:`p4jet.lab.gateway_workload`, from port 0 to port 1, in :meth:`start`.

        `direction` is ``inbound`` (tunnels begin) or ``outbound`` (they end). Raises :class:`LabError`.
        """
        self._need("gateway")
        self.gateway_entries = direction, entries

    def update_rule(self, number: int, port: int) -> None:
        """Lets a rule of :meth:`set_rules` send to another port, while the switch runs. Raises :class:`LabError`."""
        raise LabError(f"{self.spec.name}: type {self.name} cannot change rules")

    def _need(self, function: str) -> None:
        if function not in self.functions:
            have = ", ".join(sorted(self.functions))
            raise LabError(f"{self.spec.name}: type {self.name} has no function {function}; it has: {have}")

    @property
    def p4runtime(self) -> str | None:
        """The address and port of its P4Runtime server, ``127.0.0.1:9559``, if it has one."""
        return None

    # ---- for subclasses ----

    def spawn(
        self, argv: Sequence[str], *, until: str | None = None, timeout: float = 20.0, env: Mapping[str, str] | None = None
    ) -> Process:
        """Starts a program of the switch, which :meth:`stop` ends, and waits until its output contains `until`."""
        number = f"-{len(self.processes)}" if self.processes else ""
        process = self.node.spawn(argv, log=self.folder / f"{self.spec.name}{number}.log", env=env)
        self.processes.append(process)
        if until is not None:
            process.wait_for(until, timeout)
        return process

    def receive_in_threads(self) -> None:
        """Lets threads of the kernel receive the switch's frames, if it has a processor of its own."""
        if self.spec.cpu is not None:
            for interface in self.node.interfaces.values():
                self.node.receive_in_thread(interface, self.spec.cpu)


class OverXdp(SwitchType):
    """A switch in user space that receives through AF_XDP."""

    @classmethod
    def missing(cls) -> str | None:
        if os.geteuid() != 0:
            return "AF_XDP needs root"
        return super().missing()

    def start(self) -> None:
        super().start()
        self.receive_in_threads()


def find(program: str, package: str, *places: str) -> tuple[str, None] | tuple[None, str]:
    """Looks for a program on the PATH and in `places`. Returns its path, or why it is missing and what to install."""
    path = shutil.which(program) or next((place for place in places if os.access(place, os.X_OK)), None)
    return (path, None) if path else (None, f"{program} is not on the PATH: install {package}")


def first_line(argv: Sequence[str]) -> str:
    """Returns the first line that a program prints, for :meth:`SwitchType.version`."""
    try:
        output = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{' '.join(argv)}: {error}") from error
    return output.stdout.strip().partition("\n")[0]
