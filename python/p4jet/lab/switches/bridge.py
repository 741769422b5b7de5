"""The Linux bridge."""

from __future__ import annotations

import platform

from ..errors import LabError
from ..topology import Switch, Topology
from .base import SwitchType


class Bridge(SwitchType):
    """It learns stations. `forward` needs exactly two ports, between which it floods."""

    name = "bridge"
    title = "Linux bridge"
    order = 40
    functions = frozenset({"forward", "l2"})

    @classmethod
    def missing(cls) -> str | None:
        return None

    @classmethod
    def version(cls) -> str:
        return f"Linux {platform.release()}"

    @classmethod
    def faults(cls, spec: Switch, topology: Topology) -> list[str]:
        found = super().faults(spec, topology)
        if spec.function == "forward" and (count := len(topology.ports()[spec.name])) > 2:
            found.append(f"switches.{spec.name}.function: a bridge forwards from port to port only if it has two; it has {count}")
        return found

    def start(self) -> None:
        if self.forwards and len(self.node.interfaces) != 2:
            raise LabError(f"{self.spec.name}: a bridge forwards from port to port only if it has two; it has {len(self.node.interfaces)}")
        # With multicast snooping the bridge would send frames of its own, IGMP reports.
        self.node.netlink("link", "add", ifname="br0", kind="bridge", br_mcast_snooping=0)
        for interface in self.node.interfaces.values():
            self.node.netlink("link", "set", index=interface, master="br0")
        self.node.netlink("link", "set", index="br0", state="up")
        self.is_up = True

    is_up = False

    def stop(self) -> None:
        if self.is_up:
            self.node.netlink("link", "del", index="br0")
            self.is_up = False
