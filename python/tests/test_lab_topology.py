"""Topologies: files, checks, pictures, and the tutorials' runtime files. Needs no root."""

import json
import re
import subprocess
import xml.etree.ElementTree
from pathlib import Path

import pytest

from conftest import PROGRAMS
from p4jet.lab import Lab, LabError, Link, Topology
from p4jet.lab.cli import main
from p4jet.lab.switches import types
from p4jet.lab.switches.p4jet import binary
from p4jet.lab.topology import UNITS_RATE, UNITS_TIME, quantity, set_programs
from p4jet.lab.tutorial import runtime_commands

TOML = """
name = "pair"
static_arp = true
[hosts.h1]
addresses = ["10.0.0.1/24", "2001:db8::1/64", "1@10.0.1.1/24"]
gateway = "10.0.0.254"
commands = ["true"]
cpu = 0
[hosts.h2]
address = "10.0.0.2/24"
mac = "02:00:00:00:00:AA"
[switches.s1]
program = "basic.p4"
options = { cores = 2, no-adapt = true }
[switches.s2]
type = "bridge"
[[links]]
ends = ["h1", "s1:4"]
delay = "5ms"
jitter = 0.001
loss = "1%"
rate = "10mbit"
queue = 100
mtu = 9000
[[links]]
ends = ["h1", "s2"]
[[links]]
ends = ["s1", "s2"]
[[links]]
ends = ["h2", "s1"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "basic.p4").write_text((PROGRAMS / "basic_l2" / "basic_l2.p4").read_text())
    return tmp_path


def loaded(folder: Path, text: str, name: str = "topology.toml") -> Topology:
    (folder / name).write_text(text)
    return Topology.load(folder / name)


def faults(topology: Topology) -> str:
    with pytest.raises(LabError) as caught:
        topology.check()
    return str(caught.value)


def test_toml(folder: Path) -> None:
    topology = loaded(folder, TOML)
    topology.check()
    assert topology.name == "pair" and topology.static_arp
    assert topology.hosts["h1"].port_addresses() == [(0, "10.0.0.1/24"), (0, "2001:db8::1/64"), (1, "10.0.1.1/24")]
    assert topology.hosts["h1"].cpu == 0
    assert topology.switches["s1"].program == folder / "basic.p4"
    assert topology.switches["s1"].options == {"cores": 2, "no-adapt": True}
    assert topology.links[0] == Link(("h1", None), ("s1", 4), 0.005, 0.001, 0.01, 10e6, 100, 9000)
    assert topology.links[0].describe() == "delay=5000000ns,jitter=1000000ns,loss=0.010000000,rate=10000000bit,depth=100"
    assert topology.mac("h2") == "02:00:00:00:00:aa"
    assert topology.mac("h1", 1) == "02:00:00:00:01:01"


def test_ports_are_numbered_around_those_that_are_given() -> None:
    topology = Topology("numbers")
    topology.add_host("h1")
    topology.add_switch("s1", type="bridge")
    topology.add_link("h1", "s1")
    topology.add_link("h1", "s1:1")
    topology.add_link(("h1", 0), ("s1", None))
    assert [(link.one, link.other) for link in topology.numbered()] == [
        (("h1", 1), ("s1", 2)),
        (("h1", 2), ("s1", 1)),
        (("h1", 0), ("s1", 3)),
    ]
    topology.check()


def test_every_fault_is_reported_at_once(folder: Path) -> None:
    text = faults(
        loaded(
            folder,
            """
            colour = "red"
            [hosts.h1]
            adress = "10.0.0.1/24"
            [hosts.h2]
            address = "10.0.0.2"
            mac = "01:00:00:00:00:01"
            gateway = "there"
            [switches.s1]
            type = "p4yet"
            cpu = 4096
            program = "nowhere.p4"
            [switches.s2]
            [[links]]
            ends = ["h1", "s1:1"]
            rate = "10 furlongs"
            [[links]]
            ends = ["h2", "s1:1"]
            loss = 2
            queue = 5
            [[links]]
            ends = ["h3", "s1:511"]
            [[links]]
            ends = ["h2"]
            """,
        )
    )
    for part in (
        "unknown key 'colour'; there are: name, static_arp, hosts, switches, links",
        "hosts.h1: unknown key 'adress'",
        "found '10.0.0.2'; expected an address with prefix length",
        "hosts.h2.mac: found '01:00:00:00:00:01'",
        "hosts.h2.gateway: found 'there'",
        "switches.s1.type: unknown type 'p4yet'; there are: p4jet, p4jet-xdp",
        "switches.s1.program: there is no file",
        "switches.s1.cpu: found 4096; the processors of this process are: ",
        "switches.s2: no link leads to it",
        "link 1.rate: found '10 furlongs'; expected a number, or a number with one of the units bit, kbit, mbit, gbit",
        "port 1 of s1 already has a link",
        "found loss 2.0; expected 0 to 1",
        "it has a queue but no rate",
        "unknown node 'h3'; there are: h1, h2, s1, s2",
        "found port 511 of s1; expected 0 to 510",
        "link 4.ends: found ['h2']; expected two ends",
    ):
        assert part in text
    assert text.startswith("topology topology has 16 faults:")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a =", "it is not TOML"),
        ('{"hosts": 3', "it is not JSON"),
        ("\x00\x01", "it is not TOML"),
        (b"\xff\xfe", "it is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_topology(tmp_path: Path, text: "str | bytes", error: str) -> None:
    file = tmp_path / "wrong"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(LabError, match=error):
        Topology.load(file)
    with pytest.raises(LabError, match="No such file"):
        Topology.load(tmp_path / "missing")


def test_json_of_the_wrong_form_is_reported(tmp_path: Path) -> None:
    text = faults(loaded(tmp_path, '{"hosts": 3, "links": [["h1", "s1-p1", []], 4, ["h1", "s1-px"]], "more": 1}'))
    assert "found 3; expected a table" in text
    assert "link 2: found 4; expected" in text
    assert "found end 's1-px'; expected a host, or a switch with its port, such as s1-p2" in text
    assert "unknown key 'more'" in text


@pytest.mark.parametrize("name", ["", "1a", "a/b", "a" * 21, "../x"])
def test_names_fit_paths_and_hosts(name: str) -> None:
    topology = Topology("names")
    topology.add_switch("s1", type="bridge")
    topology.add_host(name)
    topology.add_link((name, 0), "s1")
    assert "cannot name a node" in faults(topology)
    topology = Topology(name)
    assert "name: found" in faults(topology)


def test_two_nodes_of_one_name() -> None:
    topology = Topology("twice")
    topology.add_host("h1")
    with pytest.raises(LabError, match="h1 already exists"):
        topology.add_switch("h1")


def test_quantities() -> None:
    assert quantity("5ms", UNITS_TIME) == pytest.approx(0.005)
    assert quantity(3, UNITS_RATE) == 3.0
    assert quantity("2.5 gbit", UNITS_RATE) == 2.5e9
    for wrong in ("5", "ms", "5 m", True, [], float("nan"), None):
        with pytest.raises(ValueError, match="found"):
            quantity(wrong, UNITS_TIME)


def test_set_programs() -> None:
    topology = Topology("programs")
    topology.add_switch("s1")
    topology.add_switch("s2")
    set_programs(topology, ["s2=b.p4", "a.p4"])
    assert (topology.switches["s1"].program, topology.switches["s2"].program) == (Path("a.p4"), Path("b.p4"))
    with pytest.raises(LabError, match="unknown switch 's3'; there are: s1, s2"):
        set_programs(topology, ["s3=a.p4"])


def test_the_picture_has_every_node_and_link(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = loaded(folder, TOML)
    root = xml.etree.ElementTree.fromstring(topology.to_svg())
    names = {"svg": "http://www.w3.org/2000/svg"}
    texts = [text.text for text in root.findall("svg:text", names)]
    assert {"h1", "h2", "s1", "s2", "10.0.0.2/24", "bridge", "5 ± 1 ms, 1 % loss, 10 Mbit/s"} <= set(texts)
    assert len(root.findall("svg:line", names)) == 4
    assert main(["graph", str(folder / "topology.toml")]) == 0
    assert capsys.readouterr().out == topology.to_svg()


def test_the_types_of_switches() -> None:
    assert list(types())[:2] == ["p4jet", "p4jet-xdp"]
    others = {"bmv2", "bmv2-grpc", "bmv2-psa", "ovs", "ovs-afxdp", "ovs-dpdk", "swx", "bridge", "linux-forwarding", "xdp"}
    assert others <= set(types())
    for name, kind in types().items():
        assert kind.name == name and kind.title and kind.functions
        why = kind.missing()
        assert why is None or len(why) > 10


# ---- options and functions of types ----


def with_switch(kind: str, more: str, ports: int = 2) -> str:
    """A topology with a host at each port of switch x."""
    hosts = "".join(f"[hosts.h{number}]\n" for number in range(1, ports + 1))
    links = "".join(f'[[links]]\nends = ["h{number}", "x:{number}"]\n' for number in range(1, ports + 1))
    return f'{hosts}[switches.x]\ntype = "{kind}"\n{more}\n{links}'


@pytest.mark.parametrize(
    "kind, options, expected",
    [
        ("p4jet", "coers = 2", "options: type p4jet has no option 'coers'; there are: Wdisable, .*, cores, .*, stay"),
        ("p4jet-xdp", "cores = 0", "options.cores: found 0; expected a whole number from 1 to 1024"),
        ("p4jet", 'cores = "2x"', "options.cores: found '2x'; expected a whole number"),
        ("p4jet", "cores = true", "options.cores: found True; expected a whole number"),
        ("p4jet", 'engine = "fast"', "options.engine: found 'fast'; expected jit or interp"),
        ("p4jet", "log-level = 1", "options.log-level: found 1; expected error, warn, info or debug"),
        ("p4jet", 'no-adapt = "yes"', "options.no-adapt: found 'yes'; expected true or false"),
        ("p4jet", 'p4runtime = "x"', "options.p4runtime: found 'x'; expected a port, .*; or true or false"),
        ("p4jet", 'metrics = "127.0.0.1:70000"', "options.metrics: found '127.0.0.1:70000'; expected a port"),
        ("p4jet", "metrics = true", "options.metrics: found True; expected a port"),
        ("p4jet", "pipelined = 5", "options.pipelined: found 5; expected a whole number from 2 to 4; or true or false"),
        ("p4jet", "ring = 64", "options.ring: it needs the option pipelined, too"),
        ("p4jet", "device-id = 1", "options.device-id: it needs the option p4runtime, too"),
        ("p4jet", "cores = 2, pipelined = 2", "options: found cores and pipelined; expected one of them"),
        ("p4jet", "state = 5", "options.state: found 5; expected a text"),
        ("p4jet", 'commands = "f"', "options: type p4jet has no option 'commands'"),
        ("bmv2", "cores = 2", "options: type bmv2 has no option 'cores'; there are: arguments, device-id, queues"),
        ("bmv2", "p4runtime = 9559", "options: type bmv2 has no option 'p4runtime'; .*; types with it: p4jet, p4jet-xdp, bmv2-grpc"),
        ("bmv2", 'arguments = "--x"', "options.arguments: found '--x'; expected a list of texts"),
        ("bmv2-psa", "queues = 9", "options.queues: found 9; expected a whole number from 1 to 8"),
        ("linux-forwarding", 'routes = ["bogus"]', "options.routes: found 'bogus'; expected PREFIX via ADDRESS, such as"),
        ("linux-forwarding", 'routes = ["10.0.0.0/8 via x"]', "options.routes: found '10.0.0.0/8 via x'; expected PREFIX via ADDRESS"),
        ("linux-forwarding", 'addresses = ["10.0.0.1/24"]', "options.addresses: found '10.0.0.1/24'; expected PORT@ADDRESS/LENGTH"),
        ("linux-forwarding", 'addresses = ["7@10.0.0.1/24"]', "options.addresses: 7@10.0.0.1/24 is for port 7, which has no link; .*: 1, 2"),
        ("linux-forwarding", "addresses = [5]", r"options.addresses: found \[5\]; expected a list of texts"),
        *((kind, "x = 1", f"options: type {kind} has no option 'x'; there are: none") for kind in ("ovs", "swx", "bridge", "xdp", "linux-gateway")),
    ],
)
def test_wrong_options_are_faults(folder: Path, kind: str, options: str, expected: str) -> None:
    with pytest.raises(LabError, match=f"1 fault:\n  switches.x.{expected}"):
        loaded(folder, with_switch(kind, f"options = {{ {options} }}")).check()


def test_right_options_are_none(folder: Path) -> None:
    for kind, options in {
        "p4jet": 'cores = 2, no-adapt = true, stay = false, engine = "interp", p4runtime = true, device-id = "7", cpu-port = "510", Wdisable = true',
        "p4jet-xdp": 'pipelined = true, ring = 128, queues = 8, p4runtime = "[::1]:9559", metrics = 9090, frame-max = 65535, arch = "psa"',
        "bmv2-grpc": 'arguments = ["--max-retries", "3"], p4runtime = "localhost:9559", device-id = 0',
        "linux-forwarding": 'addresses = ["1@10.0.1.254/24"], routes = ["10.2.0.0/16 via 10.0.1.1", "default via 10.0.1.1"]',
    }.items():
        loaded(folder, with_switch(kind, f"options = {{ {options} }}")).check()


@pytest.mark.skipif(binary() is None, reason="there is no p4jet: set P4JET or build it")
def test_the_options_of_p4jet_are_those_of_p4jet_run() -> None:
    shown = subprocess.run([str(binary()), "run", "--help"], capture_output=True, text=True, timeout=20, check=True).stdout
    found = re.findall(r"^ +(?:-\w, )?--([\w-]+)(?: |\[|$)", shown, re.MULTILINE)
    of_the_lab = {"commands", "control", "no-control", "stdin", "help"}
    assert set(found) - of_the_lab == set(types()["p4jet"].options)


@pytest.mark.parametrize(
    "kind, ports, more, expected",
    [
        ("bridge", 2, 'function = "mac-mirror"', "function: found 'mac-mirror'; type bridge has: forward"),
        ("linux-gateway", 2, 'function = "forward"', "function: found 'forward'; type linux-gateway has: none of mac-mirror, forward"),
        ("xdp", 2, 'function = "l2"', "function: found 'l2'; type xdp has: mac-mirror, forward"),
        ("xdp", 2, 'function = "forward"\nports = [1, 9]', "ports: port 9 has no link; ports with links: 1, 2"),
        ("xdp", 2, 'function = "forward"\nports = [1, 1]', r"ports: found \[1, 1\]; expected each port once"),
        ("xdp", 3, 'function = "forward"\nports = [1, 2, 3]', r"ports: found \[1, 2, 3\]; expected pairs of ports, such as \[1, 2\] or"),
        ("xdp", 4, 'function = "forward"', "ports: found .*; expected pairs of ports, .*; ports with links: 1, 2, 3, 4"),
        ("xdp", 2, "ports = [1, 2]", 'ports: it has ports but no function; expected function = "mac-mirror" or "forward"'),
        ("p4jet", 2, 'function = "forward"\nprogram = "basic.p4"', "function: found a function and a program or runtime commands"),
        ("bridge", 3, 'function = "forward"\nports = [1, 2]', "function: a bridge forwards from port to port only if it has two; it has 3"),
    ],
)
def test_a_function_that_cannot_be(folder: Path, kind: str, ports: int, more: str, expected: str) -> None:
    with pytest.raises(LabError, match=f"1 fault:\n  switches.x.{expected}"):
        loaded(folder, with_switch(kind, more, ports)).check()


def test_other_faults_of_functions(folder: Path) -> None:
    text = faults(loaded(folder, with_switch("xdp", "function = 5\nports = [true]")))
    assert "switches.x.function: found 5; expected a string" in text and "switches.x.ports: found [True]; expected a list of whole numbers" in text
    topology = loaded(folder, with_switch("swx", "", 3))
    assert "switches.x: found 3 ports; SWX takes 1, 2, 4, 8 or another power of 2" in faults(topology)
    # A mirror answers hosts.
    topology = Topology("two")
    topology.add_switch("x", type="xdp", function="mac-mirror")
    topology.add_switch("y", type="bridge")
    topology.add_link("x", "y")
    assert "switches.x.ports: no host is at port 1, so a mirror has nobody to answer" in faults(topology)


@pytest.mark.parametrize("kind", [name for name, kind in types().items() if {"forward", "mac-mirror"} & kind.functions])
def test_each_type_takes_its_functions_from_the_file(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types()[kind], "missing", classmethod(lambda cls: None))
    if "forward" in types()[kind].functions:
        switch = Lab(loaded(folder, with_switch(kind, 'function = "forward"'))).running("x")
        assert switch.forwards == [(1, 2), (2, 1)] and switch.lacks() is None
        if kind != "bridge":
            text = with_switch(kind, 'function = "forward"\nports = [4, 1, 2, 3]', 4)
            assert Lab(loaded(folder, text)).running("x").forwards == [(4, 1), (1, 4), (2, 3), (3, 2)]
    if "mac-mirror" in types()[kind].functions:
        topology = loaded(folder, with_switch(kind, 'function = "mac-mirror"'))
        switch = Lab(topology).running("x")
        assert switch.mirrors == [(1, "02:00:00:00:00:02", topology.mac("h1")), (2, "02:00:00:00:00:02", topology.mac("h2"))]
        text = with_switch(kind, 'function = "mac-mirror"\nports = [2]')
        assert [port for port, _, _ in Lab(loaded(folder, text)).running("x").mirrors] == [2]


@pytest.mark.parametrize("kind", ["xdp", "swx", "linux-gateway"])
def test_a_type_that_does_nothing_by_itself_says_so_before_the_start(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(types()[kind], "missing", classmethod(lambda cls: None))
    monkeypatch.setattr(Lab, "_create", lambda self: pytest.fail("it has begun to start"))
    expected = "does what gateway" if kind == "linux-gateway" else 'set function = "forward" or "mac-mirror" in the file, or call forward'
    with pytest.raises(LabError, match=f"switches.x, type {kind}: .*{expected}"):
        Lab(loaded(folder, with_switch(kind, ""))).up()


# ---- the tutorials ----

TUTORIAL = {
    "hosts": {
        "h1": {
            "ip": "10.0.1.1/24",
            "mac": "08:00:00:00:01:11",
            "commands": ["route add default gw 10.0.1.10 dev eth0", "arp -i eth0 -s 10.0.1.10 08:00:00:00:01:00"],
        },
        "h2": {"ip": "10.0.2.2/24", "mac": "08:00:00:00:02:22", "commands": ["ip route add 10.0.1.0/24 dev eth0"]},
    },
    "switches": {"s1": {"runtime_json": "topo/s1-runtime.json"}, "s2": {"cpu_port": "510"}},
    "links": [["h1", "s1-p1"], ["s1-p2", "s2-p3", "5ms", 0.5], ["h2", "s2-p1", 2]],
}
RUNTIME = {
    "target": "bmv2",
    "bmv2_json": "build/router.json",
    "table_entries": [
        {"table": "MyIngress.lpm", "default_action": True, "action_name": "MyIngress.drop", "action_params": {}},
        {
            "table": "MyIngress.lpm",
            "match": {"hdr.h.a": ["10.0.1.1", 32]},
            "action_name": "MyIngress.send",
            "action_params": {"port": 1, "mac": "08:00:00:00:01:11"},
        },
        {"table": "lpm", "action_name": "drop", "match": {}, "action_params": {}},
        {
            "table": "MyIngress.many",
            "match": {"hdr.h.b": [5, 255], "hdr.h.c": [1, 7]},
            "priority": 10,
            "action_name": "MyIngress.drop",
            "action_params": {},
        },
    ],
    "multicast_group_entries": [
        {"multicast_group_id": 1, "replicas": [{"egress_port": 1, "instance": 1}, {"egress_port": 2, "instance": 1}]},
        {"multicast_group_id": 2, "replicas": [{"egress_port": 3, "instance": 7}]},
    ],
    "clone_session_entries": [
        {"clone_session_id": 100, "replicas": [{"egress_port": 2, "instance": 1}], "packet_length_bytes": 128},
    ],
}
ROUTER = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> a; bit<16> b; bit<8> c; bit<8> d; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t s) { state start { b.extract(hdr.h); transition accept; } }
control V(inout headers hdr, inout metadata m) { apply {} }
control MyIngress(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    action send(bit<48> mac, bit<9> port) { s.egress_spec = port; }
    table lpm { key = { hdr.h.a: lpm; } actions = { send; drop; } }
    table many { key = { hdr.h.b: ternary; hdr.h.c: range; hdr.h.d: ternary; } actions = { drop; } }
    apply { lpm.apply(); many.apply(); }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout metadata m) { apply {} }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), MyIngress(), E(), C(), D()) main;
"""


@pytest.fixture
def exercise(tmp_path: Path) -> Path:
    """A folder as those of the tutorials: files are named relative to it, and the topology is one folder below."""
    (tmp_path / "topo").mkdir()
    (tmp_path / "router.p4").write_text(ROUTER)
    (tmp_path / "topo/topology.json").write_text(json.dumps(TUTORIAL))
    (tmp_path / "topo/s1-runtime.json").write_text(json.dumps(RUNTIME))
    return tmp_path


def test_a_topology_of_the_tutorials(exercise: Path) -> None:
    topology = Topology.load(exercise / "topo/topology.json")
    topology.check()
    assert topology.name == "topo"
    assert topology.hosts["h1"].commands == [
        "ip route replace default via 10.0.1.10 dev eth0",
        "ip neigh replace 10.0.1.10 lladdr 08:00:00:00:01:00 dev eth0",
    ]
    assert topology.hosts["h2"].commands == ["ip route replace 10.0.1.0/24 dev eth0"]
    s1, s2 = topology.switches.values()
    assert s1.runtime == exercise / "topo/s1-runtime.json" and s1.program == exercise / "router.p4"
    assert s1.options == {"p4runtime": "127.0.0.1:50051", "device-id": 0}
    assert s2.options == {"p4runtime": "127.0.0.1:50052", "device-id": 1, "cpu-port": "510"}
    assert topology.links[0] == Link(("h1", None), ("s1", 1))
    assert topology.links[1] == Link(("s1", 2), ("s2", 3), delay=0.005, rate=0.5e6)
    assert topology.links[2].delay == pytest.approx(0.002)


def test_runtime_files_become_runtime_commands(exercise: Path) -> None:
    assert runtime_commands(exercise / "router.p4", exercise / "topo/s1-runtime.json").splitlines() == [
        "table_set_default MyIngress.lpm MyIngress.drop",
        "table_add MyIngress.lpm MyIngress.send 10.0.1.1/32 => 08:00:00:00:01:11 1",
        "table_add MyIngress.lpm MyIngress.drop 0/0 =>",
        "table_add MyIngress.many MyIngress.drop 5&&&255 1->7 0&&&0 => 2147483637",
        "mc_mgrp_create 1",
        "mc_node_create 1 1 2",
        "mc_node_associate 1 0",
        "mc_mgrp_create 2",
        "mc_node_create 7 3",
        "mc_node_associate 2 1",
        "mirroring_add 100 2 128",
    ]


def test_the_switch_accepts_the_commands(exercise: Path) -> None:
    import p4jet

    switch = p4jet.Switch(exercise / "router.p4")
    switch.load(runtime_commands(exercise / "router.p4", exercise / "topo/s1-runtime.json"))
    assert len(switch.table("lpm").entries()) == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"table": "none"}, "found table 'none'; the program has: MyIngress.lpm, MyIngress.many"),
        ({"action_name": "none"}, "found action 'none'; the program has: MyIngress.send, MyIngress.drop"),
        ({"action_params": {"port": 1}}, "the parameter mac is missing"),
        ({"action_params": {"port": 1, "mac": 1, "x": 1}}, "unknown parameter 'x'; there are: mac, port"),
        ({"match": {"hdr.h.z": 1}}, "unknown match field 'hdr.h.z'; there are: hdr.h.a"),
        ({"match": {"hdr.h.a": 3}}, "entry 1 of table_entries"),
        ({"match": {"hdr.h.a": ["10.0.0.1 x", 3]}}, "found value '10.0.0.1 x'; expected a number or an address"),
    ],
)
def test_a_wrong_entry_is_named(exercise: Path, change: "dict[str, object]", error: str) -> None:
    entry = {**RUNTIME["table_entries"][1], **change}  # type: ignore[dict-item]
    file = exercise / "wrong.json"
    file.write_text(json.dumps({"table_entries": [entry]}))
    with pytest.raises(LabError, match="entry 1 of table_entries") as caught:
        runtime_commands(exercise / "router.p4", file)
    assert error in str(caught.value)


def test_a_wrong_runtime_file_is_named(exercise: Path) -> None:
    (exercise / "wrong.json").write_text("{")
    with pytest.raises(LabError, match="it is not JSON"):
        runtime_commands(exercise / "router.p4", exercise / "wrong.json")
    with pytest.raises(LabError, match="No such file"):
        runtime_commands(exercise / "router.p4", exercise / "missing.json")
    (exercise / "wrong.p4").write_text("header {\n")
    with pytest.raises(LabError, match="does not compile"):
        runtime_commands(exercise / "wrong.p4", exercise / "topo/s1-runtime.json")
