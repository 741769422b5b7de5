"""Open vSwitch in user space: with its own netdev datapath, AF_XDP or DPDK."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ..errors import LabError
from ..rules import SWITCH_MAC, TESTER_MAC
from .base import OverXdp, SwitchType, find, first_line

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
DPDK = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"


class Ovs(SwitchType):
    """Without `mac_mirror` and `forward` it learns stations (action NORMAL). Port N is OpenFlow port N + 1."""

    name = "ovs"
    title = "Open vSwitch, user space"
    order = 20
    functions = frozenset({"mac-mirror", "forward", "l2", "rules"})
    rule_kinds = frozenset({"exact", "lpm", "ternary"})
    daemon: ClassVar[tuple[str, ...]] = ("ovs-vswitchd",)
    package: ClassVar[str] = "openvswitch-switch"

    @classmethod
    def missing(cls) -> str | None:
        for program, *places in (cls.daemon, ("ovsdb-server",), ("ovsdb-tool",), ("ovs-vsctl",), ("ovs-ofctl",)):
            _, why = find(program, cls.package, *places)
            if why is not None:
                return why
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            return "it may not open /dev/net/tun, which Open vSwitch needs for its bridge: run p4jet-lab as root"
        return None if SCHEMA.exists() else f"there is no {SCHEMA}: install {cls.package}"

    @classmethod
    def version(cls) -> str:
        return first_line([cls._daemon(), "--version"])

    @classmethod
    def _daemon(cls) -> str:
        return find(cls.daemon[0], cls.package, *cls.daemon[1:])[0] or cls.daemon[0]

    @property
    def home(self) -> Path:
        return self.node.runtime / f"{self.spec.name}.ovs"

    def start(self) -> None:
        self.home.mkdir(exist_ok=True)
        database = self.home / "conf.db"
        database.unlink(missing_ok=True)
        (self.home / ".conf.db.~lock~").unlink(missing_ok=True)
        env = {"OVS_RUNDIR": str(self.home), "OVS_DBDIR": str(self.home), "OVS_LOGDIR": str(self.home)}
        self.node.run(["ovsdb-tool", "create", str(database), str(SCHEMA)])
        server = f"unix:{self.home}/db.sock"
        self.spawn(["ovsdb-server", str(database), f"--remote=p{server}", "--verbose=console:info"], until="ovsdb-server", env=env)
        self._wait_for(self.home / "db.sock")
        self.control("--no-wait", "init")
        for name, value in self.settings().items():
            self.control("--no-wait", "set", "Open_vSwitch", ".", f"other_config:{name}={value}")
        self.spawn([self._daemon(), server, "--pidfile"], until="(Open vSwitch)", env=env)
        self.control("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure")
        for port, interface in self.node.interfaces.items():
            name, *settings = self.port(port, interface)
            self.control("add-port", "br0", name, "--", "set", "interface", name, f"ofport_request={port + 1}", *settings)
            found = self.control("get", "interface", name, "ofport", "error").split()
            if found[0] != str(port + 1):
                raise LabError(f"{self.spec.name}: Open vSwitch cannot use {interface}: {' '.join(found[1:])}\n{self.processes[-1].output()[-1500:]}")
        flows = [
            f"in_port={port + 1},dl_dst={dst},actions=set_field:{dst}->eth_src,set_field:{src}->eth_dst,in_port"
            for port, dst, src in self.mirrors
        ]
        flows += [f"in_port={one + 1},actions=output:{other + 1}" for one, other in self.forwards]
        if self.rules is not None:
            flows += [self._rule(number, 2) for number in range(self.rules.count)]
        self.add_flows("\n".join(flows or ["actions=NORMAL"]) + "\n")

    def _rule(self, number: int, port: int) -> str:
        """Returns the flow of a rule. OpenFlow matches by mask and priority only, so the longer prefix gets the higher priority."""
        assert self.rules is not None
        priority = 1 + number % 65535 if self.rules.kind == "ternary" else self.rules.length
        match = f"priority={priority},ip,nw_dst={self.rules.address(number)}/{self.rules.mask}"
        return f"{match},actions=set_field:{SWITCH_MAC}->eth_src,set_field:{TESTER_MAC}->eth_dst,dec_ttl,output:{port + 1}"

    def update_rule(self, number: int, port: int) -> None:
        self.node.run(["ovs-ofctl", "--strict", "mod-flows", f"unix:{self.home}/br0.mgmt", self._rule(number, port)])

    def settings(self) -> Mapping[str, str]:
        """Returns what the database has to say before the daemon starts."""
        return {}

    def port(self, port: int, interface: str) -> list[str]:
        """Returns the name and the settings of an OVS interface."""
        return [interface]

    def control(self, *command: str) -> str:
        """Runs ovs-vsctl."""
        return self.node.run(["ovs-vsctl", f"--db=unix:{self.home}/db.sock", "--timeout=20", *command]).stdout

    def add_flows(self, flows: str) -> None:
        """Adds OpenFlow rules, one per line as `ovs-ofctl add-flows` takes them."""
        self.node.run(["ovs-ofctl", "add-flows", f"unix:{self.home}/br0.mgmt", "-"], input=flows, timeout=120)

    def _wait_for(self, path: Path) -> None:
        self.node.run(["sh", "-c", f"for i in $(seq 200); do [ -S {path} ] && exit 0; sleep 0.05; done; exit 1"], timeout=15)


class OvsXdp(OverXdp, Ovs):
    name = "ovs-afxdp"
    title = "Open vSwitch, AF_XDP"
    order = 21

    def port(self, port: int, interface: str) -> list[str]:
        return [interface, "type=afxdp"]


class OvsDpdk(Ovs):
    """With DPDK's af_packet devices: veth has no other driver. Needs no huge pages, and writes no files outside its folder."""

    name = "ovs-dpdk"
    title = "Open vSwitch, DPDK af_packet"
    order = 22
    daemon = ("ovs-vswitchd-dpdk", DPDK)
    package = "openvswitch-switch-dpdk"

    def settings(self) -> Mapping[str, str]:
        found = {"dpdk-init": "true", "dpdk-extra": "--no-huge --legacy-mem -m 512 --no-pci --no-shconf --no-telemetry"}
        if self.spec.cpu is not None:
            found["pmd-cpu-mask"] = found["dpdk-lcore-mask"] = f"{1 << self.spec.cpu:#x}"
        return found

    def port(self, port: int, interface: str) -> list[str]:
        return [f"p{port}", "type=dpdk", f"options:dpdk-devargs=net_af_packet{port},iface={interface}"]
