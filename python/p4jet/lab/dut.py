"""A switch under test: a tester and one switch, joined by one or more links."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from .errors import LabError
from .network import Lab
from .switches import SwitchType, types
from .tester import DST, SRC, Tester, Trace
from .topology import Topology

CABLE = "cable"
"""Stands for no switch: generator and receiver at the two ends of a veth pair. What it shows is the tester's noise floor."""
CABLE_TITLE = "no switch (noise floor)"
WARM_UP_SECONDS = 0.3
"""Traffic after a switch has started, before anything is measured."""


def is_root() -> bool:
    """Returns whether the kernel lets this process bind its work to processors."""
    return os.geteuid() == 0


def title(name: str) -> str:
    """Returns a switch type's title for tables."""
    return CABLE_TITLE if name == CABLE else types()[name].title


def available(
    wanted: list[str] | None, function: str, unsupported: Callable[[str], str | None] = lambda _: None
) -> tuple[list[str], dict[str, str]]:
    """Returns the switch types that can run here and have `function`, and why the others are left out.

    `unsupported` tells why a type with the function is left out all the same. `wanted` chooses by name; ``None`` is all. Raises :class:`LabError` for an unknown name, or if none is left.
    """
    known = types()
    for name in wanted or []:
        if name not in known:
            raise LabError(f"unknown switch type {name}; there are: {', '.join(known)}")
    skipped: dict[str, str] = {}
    found: list[str] = []
    for name in dict.fromkeys(wanted or known):
        if function not in known[name].functions:
            why: str | None = "it runs no P4 programs" if function == "p4" else f"this type does not support {function}"
        else:
            why = unsupported(name) or known[name].missing()
        if why:
            skipped[name] = why
        else:
            found.append(name)
    if not found:
        raise LabError("no switch type can run here:\n" + "\n".join(f"  {name}: {why}" for name, why in skipped.items()))
    return found, skipped


class DeviceUnderTest:
    """Namespaces of a tester and a switch, as a context manager.

    All work for the switch, that of the kernel included, stays on `switch_cpu`; generator and receiver use `tester_cpu`. Without
    root, the kernel binds no work to processors, and only the tester's programs are bound. `prepare` says what the switch does,
    before it starts.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        prepare: Callable[[SwitchType], None] | None = None,
        *,
        links: int = 1,
        first_port: int = 1,
        mtu: int = 1500,
        switch_cpu: int,
        tester_cpu: int,
    ) -> None:
        self.name, self.folder, self.prepare = name, folder, prepare
        self.ports = range(first_port, first_port + links)
        self.mtu = mtu
        self.switch_cpu, self.tester_cpu = switch_cpu, tester_cpu
        self._stack = ExitStack()
        self._is_warm = False
        self.switch: SwitchType | None = None

    def __enter__(self) -> DeviceUnderTest:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _up(self) -> None:
        topology = Topology("dut")
        topology.add_host("tester", cpu=self.tester_cpu if is_root() else None)
        is_cable = self.name == CABLE
        if is_cable:
            topology.add_host("dut")
        else:
            topology.add_switch("dut", type=self.name, cpu=self.switch_cpu if is_root() else None)
        mtu = self.mtu if is_cable else max(self.mtu, types()[self.name].mtu)
        for port in self.ports:
            topology.add_link(("tester", port), ("dut", port), mtu=mtu)
        lab = Lab(topology, folder=self.folder)
        self.node = lab.node("tester")
        if not is_cable:
            self.switch = lab.running("dut")
            if self.prepare:
                self.prepare(self.switch)
        self._stack.enter_context(lab)
        if is_cable:
            self._cable()

    def _cable(self) -> None:
        self.node.netlink("link", "add", kind="veth", ifname="cable0", peer="cable1")
        for name in ("cable0", "cable1"):
            self.node.set_offloads(name)
            if is_root():
                self.node.set_cpu_of_reception(name, self.tester_cpu)
            self.node.netlink("link", "set", index=name, mtu=self.mtu, state="up")
        end = time.monotonic() + 5
        while not all(self.node.is_running(name) for name in ("cable0", "cable1")):
            if time.monotonic() > end:
                raise LabError("the veth pair of the tester is not up after 5 s")
            time.sleep(0.01)

    def tester(self, *, back: tuple[str, str] | None = None, grows: int = 0) -> Tester:
        """Returns the tester: it sends by the first port, and receives there too, or by the second if there are several links."""
        if self.name == CABLE:
            return Tester(self.node, self.folder, send="cable0", receive="cable1", cpu=self.tester_cpu, back=back or (DST, SRC))
        send, receive = self.node.interface(self.ports[0]), self.node.interface(self.ports[:2][-1])
        return Tester(self.node, self.folder, send=send, receive=receive, cpu=self.tester_cpu, back=back, grows=grows)

    def warm_up(self, tester: Tester, trace: Trace) -> None:
        """Sends the trace for a moment, once after the start: switches compile, and fill caches, when the first frames arrive."""
        if not self._is_warm:
            tester.measure(trace, WARM_UP_SECONDS)
            self._is_warm = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class Bed:
    """Networks for the runs of an experiment, one at a time. A network stays until a run needs another one, or a run fails.

    A switch that did not start once is not tried again: the runs that need it fail with the same reason.
    """

    def __init__(
        self, folder: Path, *, switch_cpu: int, tester_cpu: int, links: int = 1, first_port: int = 1, mtu: int = 1500
    ) -> None:
        self.folder, self.switch_cpu, self.tester_cpu = folder, switch_cpu, tester_cpu
        self.links, self.first_port, self.mtu = links, first_port, mtu
        folder.mkdir(parents=True, exist_ok=True)
        self._current: tuple[str, DeviceUnderTest] | None = None
        self._refused: dict[str, str] = {}

    @contextmanager
    def use(
        self, name: str, prepare: Callable[[SwitchType], None] | None = None, *, variant: str = ""
    ) -> Iterator[DeviceUnderTest]:
        """Gives the network with the switch type `name`. `variant` names what `prepare` does, if that varies."""
        key = f"{name} {variant}".strip()
        if key in self._refused:
            raise LabError(f"it did not start before: {self._refused[key]}")
        if self._current is None or self._current[0] != key:
            self.close()
            dut = DeviceUnderTest(
                name, self.folder / name, prepare, links=self.links, first_port=self.first_port, mtu=self.mtu,
                switch_cpu=self.switch_cpu, tester_cpu=self.tester_cpu,
            )  # fmt: skip
            try:
                dut.__enter__()
            except LabError as error:
                self._refused[key] = str(error)
                raise
            self._current = key, dut
        try:
            yield self._current[1]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the network, if there is one."""
        if self._current is not None:
            (_, dut), self._current = self._current, None
            dut.__exit__(None, None, None)

    def __enter__(self) -> Bed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def processors(switch: int | None, tester: int | None) -> tuple[int, int]:
    """Returns the processors of switch and tester, by default two different ones that this process may use.

    Raises :class:`LabError` for one that it may not use.
    """
    usable = sorted(os.sched_getaffinity(0))
    for cpu in (switch, tester):
        if cpu is not None and cpu not in usable:
            raise LabError(f"processor {cpu} cannot be used; there are: {', '.join(map(str, usable))}")
    first = next((cpu for cpu in usable if cpu != tester), usable[0]) if switch is None else switch
    second = next((cpu for cpu in usable if cpu != first), usable[0]) if tester is None else tester
    return first, second
