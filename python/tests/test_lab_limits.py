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
from p4jet.lab.runner import Experiment, Pattern, Run, SampleFile, Script, execute
from p4jet.lab.store import Store


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


# ---- what runs collect ----


def collected(tmp_path: Path, script: str, **options: object) -> str:
    """Returns the reason for which a run fails."""
    experiment = Experiment("x", {}, {"a": Script(script)}, repetitions=1, **options)  # type: ignore[arg-type]
    with Store(tmp_path / "r.sqlite") as store:
        (row,) = store.rows(session=execute(experiment, store, progress=lambda line: None))
    return row["reason"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("mkfifo $RUN_DIR/s", "found a folder, FIFO or device"),
        ("ln -s /dev/zero $RUN_DIR/s", "found a folder, FIFO or device"),
        ("truncate -s 3G $RUN_DIR/s", "found 3221225472 bytes, expected at most 256 MiB"),
        ("truncate -s 10M $RUN_DIR/s", "has more than 1000 bytes"),
        ("echo 1 two >$RUN_DIR/s", "could not convert string to float"),
        ("seq -s ' ' 100000 >$RUN_DIR/s", ""),
        ("echo 1 >$RUN_DIR/s; truncate -s 3G /dev/stdout", "wrote 3221225472 bytes of output"),
    ],
)
def test_files_with_distributions_are_limited(tmp_path: Path, script: str, reason: str) -> None:
    began = time.monotonic()
    found = collected(tmp_path, script, sample_files=[SampleFile("s", "s")], timeout=10.0)
    assert (reason in found if reason else found == "") and time.monotonic() - began < 10.0


def test_an_expression_that_takes_for_ever_is_ended(tmp_path: Path) -> None:
    pattern = Pattern("m", "^(a+)+b")
    began = time.monotonic()
    assert "search-a did not end within 1 s" in collected(tmp_path, f"echo {60 * 'a'}", patterns=[pattern], timeout=1.0)
    assert time.monotonic() - began < 6.0


def test_the_last_match_counts(tmp_path: Path) -> None:
    assert collected(tmp_path, "echo x 1; echo x 2; echo EVENT", patterns=[Pattern("m", "^x (.*)$", role="a")]) != ""
    assert collected(tmp_path, "echo x 1; echo x two", patterns=[Pattern("m", "^x (.*)$", role="a")]) == (
        "metric m: found 'two' in the output of a, expected a number"
    )
    assert collected(tmp_path, "echo x one; echo x 2", patterns=[Pattern("m", "^x (.*)$", role="a")]) == ""
