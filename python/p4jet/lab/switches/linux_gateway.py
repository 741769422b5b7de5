"""The VXLAN gateway of the experiments, made of the Linux kernel's routes and VXLAN devices."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from .base import SwitchType


class LinuxGateway(SwitchType):
    """Does for IPv4 what programs/vxlan_gateway does with the entries of :mod:`p4jet.lab.gateway_workload`.

    Inbound, a route with four next hops for each virtual address, neighbours behind a VXLAN device, and its forwarding entries with
    VTEP and VNI; outbound, a VXLAN device for each VNI, and the routes. It has no drops by reason and no counts by back end.
    """

    name = "linux-gateway"
    title = "Linux, routes and VXLAN"
    order = 42
    functions = frozenset({"gateway"})

    @classmethod
    def missing(cls) -> str | None:
        return None

    @classmethod
    def version(cls) -> str:
        return f"Linux {platform.release()}"

    def lacks(self) -> str | None:
        return "it is only for the gateway of p4jet-lab compare, and does what gateway() asks for" if self.gateway_entries is None else None

    def start(self) -> None:
        assert self.gateway_entries is not None
        direction, file = self.gateway_entries
        lines = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
        node = self.node
        ends = [node.interface(port) for port in (0, 1)]
        # Virtual addresses come from where no route leads to them.
        for name in ("all", "default", *ends):
            node.write(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", 0)
        node.write("/proc/sys/net/ipv6/conf/default/disable_ipv6", 1)
        node.write("/proc/sys/net/ipv4/ip_forward", 1)
        ip, bridge = _inbound(lines, ends) if direction == "inbound" else _outbound(lines, ends)
        node.run(["ip", "-batch", "-"], input="".join(line + "\n" for line in ip), timeout=120)
        if bridge:
            node.run(["bridge", "-batch", "-"], input="".join(line + "\n" for line in bridge), timeout=120)

    def stop(self) -> None:
        """Leaves devices and routes: they end with the network."""


Lines = list[list[str]]


def _table(lines: Lines, name: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yields keys and action data of the entries of a table with an action: ``hosts_v4 balance``."""
    for words in lines:
        if " ".join(words[1:3]) == name:
            arrow = words.index("=>")
            yield words[3:arrow], words[arrow + 1 :]


def _address(hop: str) -> str:
    """Returns the address of a next hop, which p4jet's entries do not need."""
    number = int(hop)
    return f"172.{16 + number // 65536}.{number // 256 % 256}.{number % 256}"


def _begin(lines: Lines, ends: list[str]) -> tuple[list[str], dict[str, list[str]], str, str]:
    """Returns the first commands, the VTEPs, the own VTEP's address, and what all VXLAN devices have in common."""
    ((_, (_, own_mac)),) = [*_table(lines, "attachments external"), *_table(lines, "attachments underlay")]
    vteps = {keys[0]: data for keys, data in _table(lines, "encapsulations encapsulate_v4")}
    local = next(iter(vteps.values()))[3]
    device = f"local {local} dstport 4789 srcport 49152 65535 ttl 64 df set nolearning noudpcsum"
    return [f"link set {end} address {own_mac}" for end in ends], vteps, local, device


def _inbound(lines: Lines, ends: list[str]) -> tuple[list[str], list[str]]:
    """Returns commands of `ip` and of `bridge`."""
    commands, vteps, local, device = _begin(lines, ends)
    commands.append(f"addr add {local}/16 dev {ends[1]}")
    commands += [f"neigh add {data[4]} lladdr {data[1]} dev {ends[1]} nud permanent" for data in vteps.values()]
    commands.append(f"link add vx0 type vxlan id 100 {device}")
    hops = {keys[0]: data for keys, data in _table(lines, "next_hops tunnel")}
    commands.append(f"link set vx0 address {next(iter(hops.values()))[3]} mtu 1500 up")
    commands.append("addr add 172.31.255.254/12 dev vx0")
    stations = []
    for hop, (vtep, vni, _, _, mac) in hops.items():
        commands.append(f"neigh add {_address(hop)} lladdr {mac} dev vx0 nud permanent")
        stations.append(f"fdb add {mac} dev vx0 dst {vteps[vtep][4]} vni {vni} self permanent")
    members = [words[3] for words in lines if words[0] == "act_prof_create_member"]
    groups: dict[str, dict[str, bool]] = {}
    for words in lines:
        if words[0] == "act_prof_add_member_to_group":
            groups.setdefault(words[3], {})[members[int(words[2])]] = True
    pools = {words[2]: words[4] for words in lines if words[0] == "table_indirect_add_with_group"}
    for keys, data in _table(lines, "hosts_v4 balance"):
        ways = " ".join(f"nexthop via {_address(hop)} dev vx0" for hop in groups[pools[data[0]]])
        commands.append(f"route add {keys[1]}/32 {ways}")
    return commands, stations


def _outbound(lines: Lines, ends: list[str]) -> tuple[list[str], list[str]]:
    commands, _, local, device = _begin(lines, ends)
    commands += [f"addr add {local}/16 dev {ends[0]}", f"addr add 172.31.255.254/12 dev {ends[1]}"]
    for keys, data in _table(lines, "vnis into"):
        commands.append(f"link add vx{keys[0]} type vxlan id {keys[0]} {device}")
        commands.append(f"link set vx{keys[0]} address {data[2]} up")
    for keys, data in _table(lines, "next_hops local"):
        commands.append(f"neigh add {_address(keys[0])} lladdr {data[3]} dev {ends[1]} nud permanent")
    for keys, data in _table(lines, "routes_v4 to_next_hop"):
        commands.append(f"route add {keys[1]} via {_address(data[0])} dev {ends[1]}")
    return commands, []
