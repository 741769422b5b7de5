"""The types of switches in real networks. A type that is not installed is skipped with what is missing."""

import os
import sys
from pathlib import Path

import pytest

from lab_networks import needs_namespaces, needs_p4jet, p4jet_pair, pair, ping, runtime  # noqa: F401  A fixture for all tests.
from p4jet.lab import Lab, LabError, Topology
from p4jet.lab.switches import types
from p4jet.lab.switches.p4jet import binary

pytestmark = needs_namespaces


@pytest.mark.parametrize("kind", [name for name, kind in types().items() if "forward" in kind.functions and name != "linux-forwarding"])
def test_types_forward_from_port_to_port(kind: str) -> None:
    why = types()[kind].missing()
    if why is not None:
        pytest.skip(why)
    lab = Lab(pair(kind))
    lab.running("s1").forward(1, 2)
    lab.running("s1").forward(2, 1)
    with lab:
        assert ping(lab)
        # Segments arrive with right checksums only if the sender computes them.
        lab.node("h2").spawn([sys.executable, "-c", ECHO], cpu=0).wait_for("ready")
        assert lab.node("h1").run([sys.executable, "-c", SEND]).stdout == "20000\n"


@needs_p4jet
def test_functions_and_options_of_a_file(tmp_path: Path) -> None:
    """Hosts h1 to h4 at a p4jet switch that joins two pairs, and h5 at a mirror."""
    text = 'static_arp = true\n'
    for number in range(1, 6):
        text += f'[hosts.h{number}]\naddress = "10.0.0.{number}/24"\n[[links]]\nends = ["h{number}", "{"x" if number < 5 else "m"}:{number}"]\n'
    text += '[switches.x]\nfunction = "forward"\nports = [1, 2, 3, 4]\noptions = { pipelined = 2, ring = 128, no-adapt = true, stay = false }\n'
    text += '[switches.m]\nfunction = "mac-mirror"\n'
    (tmp_path / "pairs.toml").write_text(text)
    with Lab(Topology.load(tmp_path / "pairs.toml")) as lab:
        def reaches(one: str, other: int) -> bool:
            return lab.node(one).run(["ping", "-c1", "-W1", f"10.0.0.{other}"], check=False).returncode == 0

        assert reaches("h1", 2) and reaches("h4", 3) and not reaches("h1", 3)
        mirrored = lab.node("h5").run([sys.executable, "-c", MIRRORED, MIRROR, lab.topology.mac("h5"), STRANGER]).stdout
        assert mirrored == f"{lab.topology.mac('h5')} {MIRROR} True\n"


ECHO = """
import socket
with socket.create_server(("10.0.0.2", 7)) as server:
    print("ready", flush=True)
    client, _ = server.accept()
    while data := client.recv(65536):
        client.sendall(data)
"""
SEND = """
import socket
with socket.create_connection(("10.0.0.2", 7), timeout=10) as client:
    client.sendall(bytes(20000))
    client.shutdown(socket.SHUT_WR)
    print(sum(len(data) for data in iter(lambda: client.recv(65536), b"")))
"""

MIRROR, TESTER, STRANGER = "02:00:00:00:00:02", "02:00:00:00:00:01", "02:00:00:00:00:03"
MIRRORED = """
import socket, sys
station, own, stranger = (bytes.fromhex(mac.replace(":", "")) for mac in sys.argv[1:])
# An IPv4 packet with UDP: from and to documentation addresses, TTL 64.
packet = bytes.fromhex("4500002e000040004011") + bytes(2) + bytes([198, 51, 100, 1, 198, 51, 100, 2]) + bytes(26)
words = sum(int.from_bytes(packet[i:i + 2], "big") for i in range(0, 20, 2))
checksum = ~(words + (words >> 16)) & 0xFFFF
packet = packet[:10] + checksum.to_bytes(2, "big") + packet[12:]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800)) as port:
    port.bind(("eth0", 0x800))
    port.settimeout(0.1)
    for attempt in range(50):
        port.send(stranger + own + b"\\x08\\x00" + packet)
        port.send(station + own + b"\\x08\\x00" + packet)
        try:
            while True:
                frame, address = port.recvfrom(2000)
                if address[2] != socket.PACKET_OUTGOING:
                    print(frame[:6].hex(":"), frame[6:12].hex(":"), frame[26:34] == packet[12:20], flush=True)
                    sys.exit()
        except TimeoutError:
            pass
"""


@pytest.mark.parametrize("kind", [name for name, kind in types().items() if "mac-mirror" in kind.functions])
def test_mac_mirrors_exchange_the_addresses(kind: str) -> None:
    why = types()[kind].missing()
    if why is not None:
        pytest.skip(why)
    topology = Topology("mirror")
    topology.add_host("h1")
    topology.add_switch("s1", type=kind, cpu=0)
    topology.add_link("h1", "s1:1")
    lab = Lab(topology)
    lab.running("s1").mac_mirror(1, MIRROR, TESTER)
    with lab:
        answer = lab.node("h1").run([sys.executable, "-c", MIRRORED, MIRROR, TESTER, STRANGER]).stdout
        assert answer == f"{TESTER} {MIRROR} True\n"
        # A switch can be started again.
        lab.running("s1").stop()
        lab.running("s1").start()
        assert lab.node("h1").run([sys.executable, "-c", MIRRORED, MIRROR, TESTER, STRANGER]).stdout == answer


@needs_p4jet
@pytest.mark.parametrize("kind", ["bmv2", "bmv2-grpc"])
def test_the_command_lines_of_bmv2(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """p4jet takes them, so it stands for bmv2 where that is not installed."""
    (tmp_path / "bin").mkdir()
    for name in ("simple_switch", "simple_switch_grpc", "simple_switch_CLI", "p4c-bm2-ss"):
        (tmp_path / "bin" / name).symlink_to(Path(str(binary())).resolve())
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr("p4jet.lab.switches.bmv2.Bmv2.missing", lambda: None)
    topology = p4jet_pair(tmp_path)
    topology.switches["s1"].type = kind
    with Lab(topology) as lab:
        assert ping(lab)
    (tmp_path / "s1.cmd").write_text("table_add nonsense\n")
    with pytest.raises(LabError, match="nonsense"):
        Lab(topology).up()


def test_linux_routes(tmp_path: Path) -> None:
    topology = Topology("router")
    topology.add_switch("r1", type="linux-forwarding", options={"addresses": ["1@10.0.1.254/24", "2@10.0.2.254/24"]})
    topology.add_host("h1", "10.0.1.1/24", "2001:db8::1/64", gateway="10.0.1.254")
    topology.add_host("h2", "10.0.2.2/24", gateway="10.0.2.254", commands=[f"echo started > {tmp_path}/started"])
    topology.add_link("h1", "r1")
    topology.add_link("h2", "r1")
    with Lab(topology) as lab:
        assert "ttl=63" in lab.node("h1").run(["ping", "-c1", "-W5", "h2"]).stdout
        assert "2001:db8::1" in lab.node("h1").run(["ip", "-6", "addr"]).stdout
    assert (tmp_path / "started").read_text() == "started\n"
