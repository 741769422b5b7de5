"""Limits of p4jet.lab: of what programs write, of what is collected, of waits; and what killed commands leave behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab_networks import needs_p4jet
from p4jet.lab import LabError, sweep
from p4jet.lab.commands_experiments import _workspace
from p4jet.lab.network import python_environment
from p4jet.lab.runner import Run


def test_peers_of_a_sweep_report_a_rate(tmp_path: Path) -> None:
    commands, capture = tmp_path / "entries.cmd", tmp_path / "packets.pcap"
    run = Run({}, 1, 1, tmp_path)
    assert sweep.peer(run, 'echo hello; echo "{\\"mpps\\": $DURATION}"; echo done >&2', commands, capture, 2.5) == 2.5
    for command, expected in (("echo hello", "must be a JSON object with `mpps`"), ("exit 3", "status 3"), ("true", "must be a JSON object")):
        with pytest.raises(LabError, match=expected):
            sweep.peer(run, command, commands, capture, 1)
    run._clean()


@needs_p4jet
def test_a_killed_sweep_leaves_nothing(tmp_path: Path) -> None:
    """Neither a peer, which has left the process group, nor files, which the next command removes."""
    peer = f"peer=setsid sh -c 'echo $$ >{tmp_path}/pid; sleep 100; :'"
    words = [sys.executable, "-m", "p4jet.lab", "sweep", "--workloads", "l2", "--entries", "10", "--sizes", "64", "--seconds", "0.02"]
    words += ["--peer", peer, "--out", str(tmp_path / "out"), "--store", str(tmp_path / "r.sqlite")]
    sweeping = subprocess.Popen(words, stdout=subprocess.DEVNULL, env={**os.environ, **python_environment()})
    end = time.monotonic() + 20
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
        assert time.monotonic() < end and sweeping.poll() is None
        time.sleep(0.02)
    assert list((tmp_path / "out" / "work").iterdir())
    with pytest.raises(LabError, match="another p4jet-lab writes to"), _workspace(tmp_path / "out"):
        pass
    sweeping.kill()
    sweeping.wait(10)
    while Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists():
        assert time.monotonic() < end, "the peer lives"
        time.sleep(0.02)
    with _workspace(tmp_path / "out") as folder:
        assert list(folder.iterdir()) == []
    assert not folder.exists()
