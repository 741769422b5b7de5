"""Networks of real namespaces: links, programs, captures, the command, and that nothing is left."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import PROGRAMS, ROOT
from lab_networks import ADDRESSES, SECONDS_MAX, needs_namespaces, needs_p4jet, p4jet_pair, pair, ping, runtime  # noqa: F401
from p4jet.lab import Lab, LabError, Topology
from p4jet.lab.capture import capture
from p4jet.lab.cli import main
from p4jet.lab.network import networks, python_environment
from p4jet.lab.switches.p4jet import binary

pytestmark = needs_namespaces


def toml_pair(folder: Path, kind: str = "bridge") -> Path:
    file = folder / "pair.toml"
    file.write_text(
        "".join(f'[hosts.{name}]\naddress = "{address}/24"\n[[links]]\nends = ["{name}", "s1"]\n' for name, address in ADDRESSES.items())
        + f'[switches.s1]\ntype = "{kind}"\n'
    )
    return file


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., "tuple[int, str, str]"]:
    """Runs p4jet-lab and returns its status, output and errors."""

    def run(*words: "str | Path", input: str = "") -> "tuple[int, str, str]":
        capfd.readouterr()
        monkeypatch.setattr("sys.stdin", io.StringIO(input))
        status = main(list(map(str, words)))
        return (status, *capfd.readouterr())

    return run


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + SECONDS_MAX
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@needs_p4jet
def test_p4jet_forwards_over_links_with_a_delay(tmp_path: Path) -> None:
    """One way of each link is delayed by the switch, the other by a wire."""
    with Lab(p4jet_pair(tmp_path, delay=0.01), folder=tmp_path / "logs") as lab:
        times = ping(lab)
        assert len(times) == 3 and min(times) >= 40.0, times
        assert lab.node("s1").interfaces == {1: "eth1", 2: "eth2"}
        assert "forwarding between" in (tmp_path / "logs/s1.log").read_text()
    assert not lab.is_up()


@needs_p4jet
def test_a_wire_limits_and_loses() -> None:
    topology = pair("bridge", loss=1.0)
    topology.links[1].loss = 0.0
    with Lab(topology) as lab:
        assert ping(lab) == []
    topology = pair("bridge", rate=1e6)
    with Lab(topology) as lab:
        # 1000 bytes and headers on four wires: 4 * 8 * 1042 / 1 Mbit/s.
        assert min(ping(lab, "-s1000")) >= 33.0


def test_programs_in_nodes(tmp_path: Path) -> None:
    with Lab(pair("bridge"), folder=tmp_path) as lab:
        node = lab.node("h1")
        assert node.run(["hostname"]).stdout == "h1\n"
        assert node.run(["cat"], input="text").stdout == "text"
        assert node.run(["sh", "-c", "exit 3"], check=False).returncode == 3
        assert node.run(["sh", "-c", "echo $SIGN"], env={"SIGN": "x"}).stdout == "x\n"
        assert node.run([sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"], cpu=0).stdout == "{0}\n"
        for argv, error in (
            (["no-such-program"], "h1: no-such-program: no-such-program: "),
            (["sh", "-c", "echo why >&2; exit 3"], "status 3: why"),
            (["sleep", "20"], "still ran after 0.1 s and was killed"),
        ):
            with pytest.raises(LabError, match=error):
                node.run(argv, timeout=0.1 if argv[0] == "sleep" else 10.0)
        process = node.spawn(["sh", "-c", "echo ready; sleep 100"])
        process.wait_for("ready", SECONDS_MAX)
        assert process.poll() is None and lives(process.pid)
        with pytest.raises(LabError, match="has not written 'more' after 0.1 s: ready"):
            process.wait_for("more", 0.1)
        pid = process.pid
        assert process.stop() == -signal.SIGTERM and not lives(pid)
        stubborn = node.spawn(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"])
        stubborn.wait_for("ready", SECONDS_MAX)
        assert stubborn.stop(0.2) == -signal.SIGKILL
        with pytest.raises(LabError, match="ended with status 4: gone"):
            node.spawn(["sh", "-c", "echo gone; exit 4"]).wait_for("ready", SECONDS_MAX)
        with open(os.devnull, "r+b") as null:
            forgotten = node.start(["sleep", "100"], (null.fileno(), null.fileno(), null.fileno()))
        pid = forgotten.pid
        del forgotten
        assert wait_until(lambda: not lives(pid))
        node.write("/proc/sys/net/ipv4/ip_forward", 1)
        assert node.run(["cat", "/proc/sys/net/ipv4/ip_forward"]).stdout == "1\n"
        assert lab.node("h2").run(["cat", "/proc/sys/net/ipv4/ip_forward"]).stdout == "0\n"
        for call in (
            lambda: node.write("/proc/sys/none", 1),
            lambda: node.netlink("link", "set", index="eth9", state="up"),
            lambda: lab.node("h9"),
            lambda: lab.running("h1"),
            lambda: lab.running("s1").mac_mirror(1, "02:00:00:00:00:02", "02:00:00:00:00:01"),
            lambda: lab.running("s1").forward(1, 7),
            lab.up,
        ):
            with pytest.raises(LabError):
                call()
        left = node.spawn(["sleep", "100"])
        pid = left.pid
    assert not lives(pid) and left.poll() == -signal.SIGKILL
    with pytest.raises(LabError, match="its network is not up"):
        node.run(["true"])


def test_a_switch_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    if binary() is None:
        pytest.skip("there is no p4jet")
    topology = p4jet_pair(tmp_path)
    (tmp_path / "s1.cmd").write_text("table_add nonsense\n")
    with pytest.raises(LabError, match="nonsense"):
        Lab(topology).up()
    topology.switches["s1"].program = None
    with pytest.raises(LabError, match="s1 has no program"):
        Lab(topology).up()


HOLDER = """
import os, sys, time
from p4jet.lab import Lab, Topology
with Lab(Topology.load(sys.argv[1])) as lab:
    process = lab.node("h1").spawn(["sleep", "100"])
    print(process.pid, *(lab.node(name).pid for name in ("h1", "h2", "s1")), flush=True)
    if sys.argv[2] == "with a child":
        # It inherits every descriptor, and lives on.
        if os.fork() == 0:
            os.close(1)
            time.sleep(5)
            os._exit(0)
    time.sleep(100)
"""


@pytest.mark.parametrize("child", ["without a child", "with a child"])
@pytest.mark.parametrize("victim", ["the process of the network", "the agent of a node"])
def test_kill_9_leaves_nothing(victim: str, child: str, tmp_path: Path, runtime: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(toml_pair(tmp_path)), child],
        stdout=subprocess.PIPE, text=True, env={**os.environ, **python_environment()},
    )
    assert holder.stdout is not None
    pids = [int(pid) for pid in holder.stdout.readline().split()]
    assert len(pids) == 4 and all(map(lives, pids)) and len(networks()) == 1
    os.kill(holder.pid if victim == "the process of the network" else pids[1], signal.SIGKILL)
    assert wait_until(lambda: not any(map(lives, pids)))
    holder.kill()
    holder.communicate(timeout=SECONDS_MAX)
    assert networks() == []
    assert [path.name for path in (runtime / "p4jet-lab").iterdir()] == [".lock"]


def test_the_command(tmp_path: Path, command: Callable[..., "tuple[int, str, str]"]) -> None:
    file = toml_pair(tmp_path)
    try:
        status, out, _ = command("up", file)
        assert status == 0 and out.startswith("pair: process")
        assert f"{os.getpid()}" not in out
        status, _, error = command("up", file)
        assert status == 1 and "a network pair is already up" in error
        assert command("up", file, "--name", "other")[0] == 0
        assert sorted(network.name for network in networks()) == ["other", "pair"]
        assert "several networks are up: choose one with --network; there are: other, pair" in command("exec", "h1", "true")[2]
        assert command("down", "-n", "other")[0] == 0
        assert command("exec", "h1", "ping", "-c1", "-W5", "h2")[0] == 0
        assert command("exec", "h1", "--", "sh", "-c", "echo out; echo error >&2; exit 7") == (7, "out\n", "error\n")
        assert command("exec", "h1", "sh", "-c", "kill -9 $$")[0] == 137
        assert "unknown node 'h7'; network pair has: h1, h2, s1" in command("exec", "h7", "true")[2]
        status, out, error = command("shell", input="nodes\nlinks\nh2 ping -c1 h1\npingall\nnonsense\n")
        for part in ("eth1, eth2", "h1:0 - s1:1", "1 received", "h1 -> h2\nh2 -> h1\n2 of 2 answered"):
            assert part in out
        assert status == 1 and "found 'nonsense'; expected a node" in error
        assert str(networks()[0].pid) in command("list")[1]
    finally:
        status, _, _ = command("down", "--all")
    assert status == 0
    assert "no network is up" in command("exec", "h1", "true")[2]


def test_ctrl_c_reaches_the_program(tmp_path: Path) -> None:
    with Lab(pair("bridge")):
        words = [sys.executable, "-m", "p4jet.lab", "exec", "h1", "sh", "-c", "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **python_environment()})
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=SECONDS_MAX)[0] == "caught\n" and process.returncode == 9


def test_capture(tmp_path: Path, command: Callable[..., "tuple[int, str, str]"]) -> None:
    import scapy.all  # type: ignore[import-untyped]

    with Lab(pair("bridge")) as lab:
        lab.node("h1").spawn(["ping", "-i0.1", "h2"])
        status, _, error = command("capture", "s1", "1", tmp_path / "s1.pcap", "--count", "4")
        assert status == 0 and "4 frames captured, 0 dropped by the kernel" in error
        packets = scapy.all.rdpcap(str(tmp_path / "s1.pcap"))
        assert len(packets) == 4 and all(packet["IP"].src in ADDRESSES.values() for packet in packets)
        assert abs(time.time() - float(packets[0].time)) < 60.0
        assert "no port 7; ports with links: 1, 2" in command("capture", "s1", "7", tmp_path / "s1.pcap")[2]
        assert "/nowhere/x: No such file" in command("capture", "s1", "1", "/nowhere/x")[2]
        assert command("capture", "s1", "1", tmp_path / "s1.pcap", "--seconds", "0.1")[0] == 0
        # A tag of VLAN 5, which the kernel takes out of the frame.
        tagged = bytes.fromhex("ffffffffffff 020000000001 8100 0005 1234") + bytes(50)
        process = threading.Thread(target=capture, args=(lab.node("h2"), 0, tmp_path / "h2.pcap"), kwargs={"seconds": 1.0})
        process.start()
        with lab.node("h1").packet_socket(0) as sender:
            while process.is_alive():
                sender.send(tagged)
                process.join(0.1)
        assert tagged in [bytes(packet) for packet in scapy.all.rdpcap(str(tmp_path / "h2.pcap"))]


def test_without_root(tmp_path: Path) -> None:
    """User nobody brings up a network, in a user namespace."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run without root already")
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    environment = {**os.environ, **python_environment(), "XDG_RUNTIME_DIR": "/nonexistent"}
    script = tmp_path / "script.py"
    try:
        subprocess.run([sys.executable, "-c", "import p4jet.lab"], check=True, capture_output=True, env=environment, **nobody)  # type: ignore[call-overload]
        subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], check=True, capture_output=True, **nobody)  # type: ignore[call-overload]
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"user nobody may not run Python or unshare here: {error}")
    text = toml_pair(tmp_path).read_text()
    script.write_text(
        "import pathlib, tempfile\nfrom p4jet.lab import Lab, Topology\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        f"    file = pathlib.Path(folder) / 'pair.toml'\n    file.write_text({text!r})\n"
        "    with Lab(Topology.load(file)) as lab:\n"
        "        print(lab.node('h1').run(['ping', '-c1', '-W5', 'h2']).stdout, lab.node('s1').run(['id', '-u']).stdout)\n"
    )
    result = subprocess.run(  # type: ignore[call-overload]
        [sys.executable, "-c", script.read_text()], capture_output=True, text=True, timeout=60, env=environment, cwd="/", **nobody
    )
    assert "1 received" in result.stdout and result.stdout.endswith("0\n\n"), result


@needs_p4jet
def test_two_servers_at_one_address() -> None:
    topology = pair("p4jet")
    topology.add_switch("s2")
    topology.add_link("s1", "s2")
    for switch in topology.switches.values():
        switch.options["p4runtime"] = True
    with pytest.raises(LabError, match="s1 and s2 serve P4Runtime at 127.0.0.1:9559; controllers need an address for each"):
        Lab(topology)


@needs_p4jet
def test_an_exercise_of_the_tutorials(tmp_path: Path) -> None:
    """A router whose entries come from a runtime file, and the node for controllers."""
    program = (PROGRAMS / "simple_router" / "simple_router.p4").read_text()
    (tmp_path / "router.p4").write_text(program)
    hosts = {
        f"h{n}": {
            "ip": f"10.0.{n}.{n}/24",
            "mac": f"08:00:00:00:0{n}:{n}{n}",
            "commands": [f"route add default gw 10.0.{n}.10 dev eth0", f"arp -i eth0 -s 10.0.{n}.10 08:00:00:00:0{n}:00"],
        }
        for n in (1, 2)
    }
    topology = {"hosts": hosts, "switches": {"s1": {"runtime_json": "s1-runtime.json"}}, "links": [["h1", "s1-p1"], ["h2", "s1-p2"]]}
    entries = [
        entry
        for n in (1, 2)
        for entry in (
            {
                "table": "ingress.ipv4_lpm", "match": {"hdr.ipv4.dstAddr": [f"10.0.{n}.{n}", 32]},
                "action_name": "ingress.set_nhop", "action_params": {"nhop_ipv4": f"10.0.{n}.{n}", "port": n},
            },
            {
                "table": "ingress.forward", "match": {"meta.nhop_ipv4": f"10.0.{n}.{n}"},
                "action_name": "ingress.set_dmac", "action_params": {"dmac": f"08:00:00:00:0{n}:{n}{n}"},
            },
            {
                "table": "egress.send_frame", "match": {"standard_metadata.egress_port": n},
                "action_name": "egress.rewrite_mac", "action_params": {"smac": f"08:00:00:00:0{n}:00"},
            },
        )
    ]
    (tmp_path / "topology.json").write_text(json.dumps(topology))
    (tmp_path / "s1-runtime.json").write_text(json.dumps({"bmv2_json": "build/router.json", "table_entries": entries}))
    with Lab(Topology.load(tmp_path / "topology.json")) as lab:
        assert "1 received" in lab.node("h1").run(["ping", "-c1", "-W5", "h2"]).stdout
        connect = 'import socket; socket.create_connection(("127.0.0.1", 50051), timeout=5).sendall(b"PRI * HTTP/2.0"); print("ok")'
        assert lab.node("controller").run([sys.executable, "-c", connect]).stdout == "ok\n"


@needs_p4jet
def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., "tuple[int, str, str]"]) -> None:
    """The file, the commands and the Python code of docs/lab.md work."""
    text = (ROOT / "docs/lab.md").read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "programs").symlink_to(PROGRAMS)
    toml, function = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "function.toml").write_text(toml.replace(toml[toml.index("[switches") : toml.index("[[links]]")], function, 1))
    assert Topology.load(tmp_path / "function.toml").switches["s1"].function == "forward"
    Topology.load(tmp_path / "function.toml").check()
    (tmp_path / "pair.toml").write_text(toml)
    (tmp_path / "pair.cmd").write_text("".join(line + "\n" for line in text.splitlines() if line.startswith("table_add")))
    try:
        assert command("up", "pair.toml")[0] == 0
        status, out, _ = command("exec", "h1", "ping", "-c", "1", "-W5", "h2")
        assert status == 0 and float(out.partition("time=")[2].split()[0]) >= 10.0
    finally:
        assert command("down")[0] == 0
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    names: "dict[str, object]" = {}
    for block in blocks:
        exec(compile(block, "docs/lab.md", "exec"), names)
