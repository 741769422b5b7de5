"""Networks for the tests of p4jet.lab. They need root or user namespaces; tests are skipped with a message otherwise."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import PROGRAMS
from p4jet.lab import Lab, Topology
from p4jet.lab.network import networks
from p4jet.lab.switches.p4jet import binary

ADDRESSES = {"h1": "10.0.0.1", "h2": "10.0.0.2"}
SECONDS_MAX = 20.0
"""How long anything may take that the tests wait for."""


def _refused() -> "str | None":
    """Why the system allows no networks."""
    as_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    try:
        subprocess.run(["unshare", *as_user, "--net", "--mount", "--pid", "--fork", "true"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return str(getattr(error, "stderr", "") or error)
    return None


REFUSED = _refused()
needs_namespaces = pytest.mark.skipif(REFUSED is not None, reason=f"no network namespaces here: {REFUSED}")
needs_p4jet = pytest.mark.skipif(binary() is None, reason="there is no p4jet: set P4JET or build it")


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of networks for each test, so that those of other tests and users are not seen."""
    # Not in pytest's folder: paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="lab-", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)
        assert not networks(), "a test has left a network"


def pair(kind: str, **link: float) -> Topology:
    topology = Topology("pair", static_arp=True)
    topology.add_switch("s1", type=kind)
    for name, address in ADDRESSES.items():
        topology.add_host(name, f"{address}/24")
        topology.add_link(name, "s1", **link)  # type: ignore[arg-type]
    return topology


def p4jet_pair(folder: Path, **link: float) -> Topology:
    topology = pair("p4jet", **link)
    topology.switches["s1"].program = PROGRAMS / "basic_l2" / "basic_l2.p4"
    topology.switches["s1"].commands = folder / "s1.cmd"
    lines = [f"table_add forward set_dest {topology.mac(name)} => {port}\n" for port, name in enumerate(ADDRESSES, start=1)]
    (folder / "s1.cmd").write_text("".join(lines))
    return topology


def ping(lab: Lab, *options: str) -> "list[float]":
    """Pings from h1 to h2 and returns the round-trip times in milliseconds."""
    output = lab.node("h1").run(["ping", "-c3", "-i0.1", "-W1", *options, ADDRESSES["h2"]], check=False).stdout
    return [float(line.partition("time=")[2].split()[0]) for line in output.splitlines() if "time=" in line]
