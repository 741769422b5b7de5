"""Limits of p4jet.lab: of what programs write, of what is collected, of waits; and what killed commands leave behind."""

import fcntl
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import PROGRAMS, ROOT
from lab_networks import needs_namespaces, needs_p4jet, p4jet_pair, pair, runtime  # noqa: F401
from p4jet.lab import Lab, LabError, Topology, network, sweep
from p4jet.lab.cli import main
from p4jet.lab.commands_experiments import _workspace
from p4jet.lab.network import networks, python_environment
from p4jet.lab.runner import Experiment, Pattern, Run, SampleFile, Script, execute
from p4jet.lab.store import Samples, Selection, Store
from p4jet.lab.switches.p4jet import P4jet, binary
from p4jet.lab.tutorial import runtime_commands


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
    # The workloads' programs are those of the checkout.
    sweeping = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, env={**os.environ, **python_environment()})
    end = time.monotonic() + 20
    try:
        while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
            assert time.monotonic() < end and sweeping.poll() is None
            time.sleep(0.02)
        assert list((tmp_path / "out" / "work").iterdir())
        with pytest.raises(LabError, match="another p4jet-lab writes to"), _workspace(tmp_path / "out"):
            pass
    finally:
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


# ---- networks ----

BRIDGE = """
[hosts.h1]
address = "10.0.0.1/24"
[switches.s1]
type = "bridge"
[[links]]
ends = ["h1", "s1"]
"""


def test_the_runtime_folder_of_another_user_is_not_used(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a user could exchange folders for links, and have any folder removed."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(runtime, 65534, 65534)
    with network._Base() as base:
        assert base.path == Path("/tmp/p4jet-lab-0")
    os.chown(runtime, 0, 0)
    runtime.chmod(0o777)
    with network._Base() as base:
        assert base.path == Path("/tmp/p4jet-lab-0")
    runtime.chmod(0o700)
    with network._Base() as base:
        assert base.path == runtime / "p4jet-lab"
        victim = runtime / "victim"
        (victim / "x-1").mkdir(parents=True)
        # Exchanged after the check: what is removed is in the folder that was checked.
        (base.path / "x-1").mkdir()
        base.path.rename(runtime / "moved")
        base.path.symlink_to(victim)
        base.remove("x-1")
        assert (victim / "x-1").exists() and not (runtime / "moved" / "x-1").exists()
    for wrong, message in ((lambda: None, "is a link or a file"), (base.path.unlink, "")):
        wrong()
        if message:
            with pytest.raises(LabError, match=f"{message}.*XDG_RUNTIME_DIR"):
                networks()
    base.path.mkdir(mode=0o755)
    with pytest.raises(LabError, match="has mode 755, expected user 0 and mode 700: remove it, or set XDG_RUNTIME_DIR"):
        networks()
    base.path.chmod(0o700)


def test_a_lock_that_is_never_released_is_an_error(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "ANSWER_SECONDS", 0.2)
    networks()
    with open(runtime / "p4jet-lab" / ".lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(LabError, match="another process has locked .*lock for 0.2 s; is a p4jet-lab stopped"):
            networks()


@needs_namespaces
def test_output_without_end(tmp_path: Path) -> None:
    with Lab(pair("bridge"), folder=tmp_path) as lab:
        began = time.monotonic()
        with pytest.raises(LabError, match="wrote more than 64 MiB and was ended:"):
            lab.node("h1").run(["yes"], timeout=30.0)
        assert time.monotonic() - began < 10.0
        # A child that goes on is no reason to wait, and fills no disk.
        began = time.monotonic()
        done = lab.node("h1").run(["sh", "-c", "echo own; sleep 0.05; (sleep 0.5; echo child) & echo end"])
        assert done.stdout == "own\nend\n" and time.monotonic() - began < 5.0
        assert len(lab.node("h1").run(["head", "-c", "10000000", "/dev/zero"]).stdout) == 10_000_000
        with pytest.raises(LabError, match="arguments and environment take 30.... bytes, too many; put them into a file"):
            lab.node("h1").run(["echo", 300_000 * "x"])
    topology = pair("bridge")
    topology.hosts["h1"].commands = ["yes"]
    with pytest.raises(LabError, match="wrote more than 64 MiB"):
        Lab(topology).up()


@needs_namespaces
def test_one_of_several_at_once_comes_up(tmp_path: Path) -> None:
    (tmp_path / "pair.toml").write_text(BRIDGE)
    words = [sys.executable, "-m", "p4jet.lab", "up", str(tmp_path / "pair.toml")]
    environment = {**os.environ, **python_environment()}
    several = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) for _ in range(4)]
    errors = [process.communicate(timeout=30)[1] for process in several]
    try:
        assert sorted(process.returncode for process in several) == [0, 1, 1, 1], errors
        assert sorted("a network pair is already up" in error for error in errors) == [False, True, True, True]
    finally:
        main(["down", "--all"])


@needs_namespaces
def test_networks_of_programs_are_not_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.toml").write_text(BRIDGE)
    with Lab(pair("bridge")):
        assert main(["down"]) == 1
        assert "no network is from p4jet-lab up: choose one with --network; there are: pair" in capsys.readouterr().err
        assert main(["exec", "h2", "true"]) == 0
        try:
            assert main(["up", str(tmp_path / "one.toml"), "--name", "pair"]) == 0
            assert main(["exec", "h1", "true"]) == 0
            assert main(["exec", "h2", "true"]) == 1
            capsys.readouterr()
            assert main(["down"]) == 0
            assert re.fullmatch(r"ends pair, process \d+\n", capsys.readouterr().out)
            assert [running.is_from_up for running in networks()] == [False]
        finally:
            for running in networks():
                if running.is_from_up:
                    os.kill(running.pid, signal.SIGTERM)


@needs_namespaces
def test_modules_in_the_current_folder_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("random", "types", "json", "selectors", "runpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    lab = Lab(pair("xdp" if os.geteuid() == 0 else "bridge"))
    if os.geteuid() == 0:
        lab.running("s1").forward(1, 2)
    with lab:
        pass


@needs_namespaces
def test_a_damaged_description_does_not_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab(pair("bridge")) as lab, Lab(pair("bridge")):
        whole = (lab.runtime / "state.json").read_text()
        for text in (whole[:100], whole.replace('"name"', '"nam"'), "[]", "1", 100_000 * "["):
            (lab.runtime / "state.json").write_text(text)
            network._warn.cache_clear()
            assert [running.name for running in networks()] == ["pair"]
            assert "state.json is damaged" in capsys.readouterr().err
        (lab.runtime / "state.json").write_text(whole)


@needs_namespaces
@needs_p4jet
def test_a_switch_that_has_ended_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab(p4jet_pair(tmp_path)) as lab:
        assert main(["list"]) == 0 and "ended" not in capsys.readouterr().out
        lab.running("s1").processes[0].signal(signal.SIGKILL)
        lab.running("s1").processes[0].wait(5.0)
        assert main(["list"]) == 0 and re.search(r"s1 .*its program has ended", capsys.readouterr().out)


@needs_p4jet
def test_a_host_cannot_be_the_controller() -> None:
    topology = pair("p4jet")
    topology.switches["s1"].options["p4runtime"] = True
    topology.hosts["controller"] = topology.hosts.pop("h2")
    topology.hosts["controller"].name = "controller"
    topology.links[1].one = ("controller", None)
    with pytest.raises(LabError, match="controller names a node, but"):
        Lab(topology)


# ---- wrong input gets an error ----

NINES = 10_000 * "9"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"a = {NINES}", ""),
        ("a = " + 100_000 * "[", "nested too deeply"),
        ("roles.a.script = 'true'\nvariables.n = { from = nan, to = 3 }", "variables.n.from: found nan, expected a finite number"),
        ("roles.a.script = 'true'\nvariables.n = { from = 1, to = inf }", "variables.n.to: found inf, expected a finite number"),
        ("roles.a.script = 'true'\nvariables.n = { from = 1, to = 3, factor = inf }", "variables.n.factor: found inf"),
        (f"roles.a.script = 'true'\ntimeout = {400 * '9'}", "timeout: found inf, expected up to 86400 seconds"),
        (f"roles.a.script = 'true'\nroles.a.timeout = {400 * '9'}", "roles.a.timeout: found inf, expected up to 86400 seconds"),
    ],
)
def test_wrong_experiments(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(LabError, match=re.escape(fault) or None):
        Experiment.from_toml(tmp_path / "x.toml")


@pytest.mark.parametrize(
    "text",
    [
        f"a = {NINES}", "a = " + 100_000 * "[", 100_000 * '{"a":', '{"a": ' + NINES + "}",
        f"[[links]]\nends = ['a', 'b']\ndelay = {400 * '9'}",
    ],
)  # fmt: skip
def test_wrong_topologies(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(LabError):
        Topology.load(tmp_path / "x.toml").check()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"table_entries": 5}', "table_entries: found 5, expected a list of objects"),
        ('{"table_entries": [5]}', "entry 1 of table_entries: found 5, expected an object"),
        ("[]", "found [], expected a JSON object with the keys target, p4info"),
        ('{"bogus": 1}', "unknown key 'bogus'; there are: target, p4info"),
        (100_000 * "[", "nested too deeply"),
        ("[" + NINES + "]", ""),
    ],
)
def test_wrong_runtime_files(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "s1-runtime.json").write_text(text)
    with pytest.raises(LabError, match=re.escape(fault) or None):
        runtime_commands(PROGRAMS / "basic_l2" / "basic_l2.p4", tmp_path / "s1-runtime.json")


def test_a_damaged_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        session, _ = store.open_session("x", "c", {"commit": "c"})
        store.add(session, {"n": 1}, 1, seed=1, duration=1.0, samples={"s": Samples([1.0], "ms")})
    for column, wrong in (("samples SET doubles", b"123"), ('runs SET "values"', "{"), ("sessions SET inventory", 100_000 * "[")):
        with sqlite3.connect(path) as database:
            database.execute(f"UPDATE {column} = ?", (wrong,))
        database.close()
        with Store(path) as store, pytest.raises(LabError, match="damaged"):
            store.samples(session, "s")
            store.sessions()
    assert main(["results", "list", "--store", str(path)]) == 1 and "damaged: session 1 has" in capsys.readouterr().err
    with pytest.raises(LabError, match="expected a number"):
        Selection.parse(f"session={NINES}")


def test_wrong_arguments_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for words, fault in (
        (["--count", "-5"], "`-5`: expected a whole number above 0"),
        (["--seconds", "nan"], "`nan`: expected a number of seconds above 0"),
    ):
        with pytest.raises(SystemExit):
            main(["capture", "h1", "0", "x.pcap", *words])
        assert fault in capsys.readouterr().err
    monkeypatch.setenv("P4JET", "/bin/true")
    assert "so it is not p4jet: set P4JET" in str(P4jet.missing())
    monkeypatch.setenv("P4JET", str(tmp_path))
    assert binary() != str(tmp_path)
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert main(["list"]) == 1 and "the current folder has been removed" in capsys.readouterr().err


@needs_namespaces
def test_a_full_disk(tmp_path: Path, runtime: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    (tmp_path / "pair.toml").write_text(BRIDGE)
    disk = runtime / "disk"
    disk.mkdir()
    script = f"mount -t tmpfs -o size=64k,mode=700 none {disk} && (dd if=/dev/zero of={disk}/x bs=4k 2>&1; {sys.executable} -m p4jet.lab up {tmp_path}/pair.toml)"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, timeout=30,
        env={**os.environ, **python_environment(), "XDG_RUNTIME_DIR": str(disk)},
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.startswith("error: ") and "No space left on device" in done.stderr, done
    assert "Errno" not in done.stderr
