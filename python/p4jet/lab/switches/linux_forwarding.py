"""IPv4 forwarding of the Linux kernel."""

from __future__ import annotations

import ipaddress
import platform
from pathlib import Path

from ..errors import LabError
from ..network import Node
from ..options import texts
from ..rules import SWITCH_MAC, TESTER_MAC
from ..topology import Switch, Topology
from .base import SwitchType


class LinuxForwarding(SwitchType):
    """Options: ``addresses`` as those of hosts, ``["1@10.0.1.254/24"]``, and ``routes``, ``["10.2.0.0/16 via 10.0.2.1"]``.

    As a MAC mirror, and from port to port, it carries IPv4 only and decrements TTLs. `forward` takes frames that are sent to the
    MAC address of the port (:attr:`Node.macs`).
    """

    name = "linux-forwarding"
    title = "Linux IPv4 forwarding"
    order = 41
    functions = frozenset({"mac-mirror", "forward", "l3", "rules"})
    rule_kinds = frozenset({"exact", "lpm"})
    is_router = True
    options = {"addresses": texts(lambda text: _address(text)), "routes": texts(lambda text: _route(text))}

    def __init__(self, node: Node, spec: Switch, folder: Path) -> None:
        super().__init__(node, spec, folder)
        self.led: list[int] = []
        """The routing tables of :meth:`_lead` that are in use."""

    @classmethod
    def missing(cls) -> str | None:
        return None

    @classmethod
    def version(cls) -> str:
        return f"Linux {platform.release()}"

    @classmethod
    def faults(cls, spec: Switch, topology: Topology) -> list[str]:
        found = super().faults(spec, topology)
        where = f"switches.{spec.name}"
        links = topology.ports()[spec.name]
        have = ", ".join(map(str, sorted(links))) or "none"
        if not found:
            for text in _texts(spec, "addresses"):
                port = _address(text)[0]
                if port not in links:
                    found.append(f"{where}.options.addresses: {text} is for port {port}, which has no link; ports with links: {have}")
        if spec.function == "forward":
            for port in spec.ports or links:
                if port in links and links[port].describe():
                    found.append(f"{where}.function: forward needs a link without delay, jitter, loss and rate at port {port}")
        return found

    def start(self) -> None:
        node = self.node
        node.write("/proc/sys/net/ipv4/ip_forward", 1)
        for interface in ("all", *node.interfaces.values()):
            # What it forwards may come from where no route leads, and leave where it came from.
            for setting in ("rp_filter", "send_redirects"):
                node.write(f"/proc/sys/net/ipv4/conf/{interface}/{setting}", 0)
        for port, address in map(_address, _texts(self.spec, "addresses")):
            node.netlink("addr", "replace", index=node.interface(port), address=str(address.ip), prefixlen=address.network.prefixlen)
        for prefix, gateway in map(_route, _texts(self.spec, "routes")):
            node.netlink("route", "replace", dst=str(prefix), gateway=str(gateway))
        for port, dst, src in self.mirrors:
            node.netlink("link", "set", index=node.interface(port), address=dst)
            self._lead(port, port, src)
        for one, other in self.forwards:
            peer, interface = node.peers[other]
            ports = [port for port, name in peer.interfaces.items() if name == interface]
            if not ports:
                raise LabError(f"{self.spec.name}: forward needs a link without delay, jitter, loss and rate at port {other}")
            self._lead(one, other, peer.macs[ports[0]])

        if self.rules is not None:
            for port in node.interfaces:
                own, hop = self._hop(port)
                interface = node.interface(port)
                node.netlink("link", "set", index=interface, address=SWITCH_MAC)
                node.netlink("addr", "replace", index=interface, address=own, prefixlen=30)
                node.netlink("neigh", "replace", dst=hop, lladdr=TESTER_MAC, ifindex=interface, state=0x80)
            hop = self._hop(2)[1]
            routes = [
                f"route add {self.rules.address(number)}/{self.rules.length} via {hop}\n" for number in range(self.rules.count)
            ]
            node.run(["ip", "-batch", "-"], input="".join(routes), timeout=120)

    def update_rule(self, number: int, port: int) -> None:
        assert self.rules is not None
        prefix = f"{self.rules.address(number)}/{self.rules.length}"
        self.node.netlink("route", "replace", dst=prefix, gateway=self._hop(port)[1], oif=self.node.interface(port))

    def _hop(self, port: int) -> tuple[str, str]:
        """Returns the addresses of a port and of its next hop. RFC 5737: 192.0.2.0/24 is for documentation, so no packet is for them."""
        return f"192.0.{2 + port // 64}.{4 * (port % 64) + 1}", f"192.0.{2 + port // 64}.{4 * (port % 64) + 2}"

    def _lead(self, one: int, other: int, mac: str) -> None:
        """Lets all packets that come by one port leave by another to a MAC address, whatever their destination."""
        own, hop = self._hop(other)
        interface = self.node.interface(other)
        self.node.netlink("addr", "replace", index=interface, address=own, prefixlen=30)
        self.node.netlink("neigh", "replace", dst=hop, lladdr=mac, ifindex=interface, state=0x80)
        table = 1000 + one
        self.node.netlink("route", "replace", dst="default", gateway=hop, oif=interface, table=table)
        self.node.netlink("rule", "add", iifname=self.node.interface(one), table=table, priority=table)
        self.led.append(table)

    def stop(self) -> None:
        """Leaves addresses and routes, which a new start replaces; they end with the network."""
        while self.led:
            self.node.netlink("rule", "del", priority=self.led.pop())


def _texts(spec: Switch, option: str) -> list[str]:
    """Returns an option that :meth:`SwitchType.faults` has checked."""
    value = spec.options.get(option, [])
    assert isinstance(value, list)
    return value


def _address(text: str) -> tuple[int, ipaddress.IPv4Interface]:
    """Reads ``1@10.0.1.254/24``. Raises :class:`ValueError`."""
    port, _, address = text.partition("@")
    try:
        if not (port.isascii() and port.isdigit() and "/" in address):
            raise ValueError
        return int(port), ipaddress.IPv4Interface(address)
    except ValueError:
        raise ValueError(f"found {text!r}; expected PORT@ADDRESS/LENGTH, such as 1@10.0.1.254/24") from None


def _route(text: str) -> tuple[ipaddress.IPv4Network, ipaddress.IPv4Address]:
    """Reads ``10.2.0.0/16 via 10.0.2.1``. Raises :class:`ValueError`."""
    prefix, _, hop = text.partition(" via ")
    try:
        return ipaddress.IPv4Network("0.0.0.0/0" if prefix == "default" else prefix), ipaddress.IPv4Address(hop.strip())
    except ValueError:
        raise ValueError(f"found {text!r}; expected PREFIX via ADDRESS, such as 10.2.0.0/16 via 10.0.2.1") from None
