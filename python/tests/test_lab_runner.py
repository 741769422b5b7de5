"""The runner of experiments: points, order, roles, events, results, limits, clean-up, resumption, and experiments from TOML."""

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from conftest import ROOT
from p4jet.lab import guard, inventory
from p4jet.lab.errors import LabError
from p4jet.lab.runner import Experiment, Pattern, Run, SampleFile, Script, execute, seconds_text
from p4jet.lab.store import Row, Store

PACKAGE = Path(guard.__file__).parents[2]
EXAMPLES = ROOT / "python" / "examples"


machine = functools.cache(inventory.machine)


@pytest.fixture(autouse=True)
def quick_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the inventory once: it runs programs."""
    monkeypatch.setattr(inventory, "machine", lambda: dict(machine()))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results.sqlite")


def run_all(experiment: Experiment, store: Store, **options: object) -> list[Row]:
    """Executes an experiment and returns its runs."""
    session = execute(experiment, store, progress=lambda line: None, **options)  # type: ignore[arg-type]
    return store.rows(session=session)


def only(experiment: Experiment, store: Store) -> Row:
    (row,) = run_all(experiment, store)
    return row


def one(roles: dict[str, object], **options: object) -> Experiment:
    options.setdefault("timeout", 5.0)
    return Experiment("one", {}, roles, repetitions=1, **options)  # type: ignore[arg-type]


def wait_until(condition: "object", seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


# ---- points, order, seeds ----


def test_repetitions_are_outermost_and_the_first_variable_alternates(store: Store) -> None:
    def role(run: Run) -> None:
        run.metric("sum", float(str(run.values["size"])), "B")

    experiment = Experiment("order", {"switch": ["a", "b"], "size": [64, 128]}, {"client": role}, repetitions=2)
    rows = run_all(experiment, store)
    assert [(row["repetition"], row["values"]["switch"], row["values"]["size"]) for row in rows] == [
        (1, "a", 64), (1, "b", 64), (1, "a", 128), (1, "b", 128), (2, "a", 64), (2, "b", 64), (2, "a", 128), (2, "b", 128)
    ]  # fmt: skip
    # The points of a repetition share a seed; repetitions, and experiments with another seed, do not.
    seeds = {repetition: {row["seed"] for row in rows if row["repetition"] == repetition} for repetition in (1, 2)}
    assert len(seeds[1]) == len(seeds[2]) == 1 and seeds[1] != seeds[2]
    other = Experiment("order", {"switch": ["a"]}, {"client": lambda run: run.metric("x", 1)}, repetitions=1, seed=2)
    assert only(other, store)["seed"] not in seeds[1] | seeds[2]


def test_six_repetitions_by_default_and_points_that_do_not_apply(store: Store) -> None:
    lines: list[str] = []
    experiment = Experiment(
        "skip", {"n": [1, 2]}, {"client": lambda run: run.metric("x", 1.0)}, skip=lambda point: "odd" if point["n"] == 1 else None
    )
    session = execute(experiment, store, progress=lines.append)
    assert [row["values"]["n"] for row in store.rows(session=session)] == [2] * 6
    assert "left out: n=1: odd" in lines
    assert lines[-1].startswith("6/6 n=2 repetition 6: ok") and lines[-1].endswith("0 s left")
    taken = store.session(session)["inventory"]
    assert {"processor", "kernel", "memory (GiB)", "commit", "switches", "load (1 min)"} <= set(taken)
    never = Experiment("never", {"n": [1]}, {"client": lambda run: None}, skip=lambda point: "no card")
    with pytest.raises(LabError, match="no point applies: n=1: no card"):
        execute(never, store)


# ---- roles, events, results ----


def test_scripts_report_metrics_and_events_and_see_the_variables(store: Store) -> None:
    experiment = Experiment(
        "scripts", {"size": [64], "fast": [True], "text": ["two words; $(false)"]},
        {
            # The event comes after a delay, so that without waiting there is no file.
            "server": Script('sleep 0.2; echo RESULTS follow; echo "$text" > "$RUN_DIR/text"; echo EVENT READY; echo RESULT up 1'),
            "client": Script(
                'cat "$RUN_DIR/text"; echo "RESULT rate $((size * 2)) kpps limited by the generator"; echo "$ROLE $fast $REPETITION"; '
                'echo "RESULT used_seed $SEED"; printf "took 12.5 us\\ntook 13.5 us"; seq 1 100 > "$RUN_DIR/latency"',
                waits=("READY",),
            ),
        },
        repetitions=1, timeout=5.0, patterns=[Pattern("took", r"took ([0-9.]+)", "us", "client")],
        sample_files=[SampleFile("latency", "latency", "us")],
    )  # fmt: skip
    row = only(experiment, store)
    assert row["reason"] == ""
    found = {name: (m.value, m.unit, m.quality) for name, m in row["metrics"].items()}
    assert found == {
        "up": (1.0, "", "measured"), "rate": (128.0, "kpps", "limited by the generator"), "took": (13.5, "us", "measured"),
        "used_seed": (float(row["seed"]), "", "measured"),
    }  # fmt: skip
    ((values, repetition, samples),) = store.samples(row["session"], "latency")
    assert (values, repetition, samples.unit) == (row["values"], 1, "us")
    assert samples.values == [float(n) for n in range(1, 101)]
    log = next(store.path.parent.glob("results.logs/*/*/client.log")).read_text()
    assert log.startswith("two words; $(false)\n") and "client true 1" in log


def test_background_role_is_stopped_when_the_others_have_ended(store: Store) -> None:
    server = Script("trap 'echo RESULT served 3; exit 7' TERM; echo EVENT READY; sleep 60 & wait", is_background=True)
    row = only(one({"server": server, "client": Script("echo RESULT x 1", waits=("READY",))}), store)
    assert (row["status"], row["reason"], row["metrics"]["served"].value) == ("ok", "", 3.0)
    assert row["duration"] < 3


def test_functions_raise_and_await_events_and_run_scripts(store: Store) -> None:
    def server(run: Run) -> None:
        run.wait("ASKED", 2.0)
        run.event("ANSWERED")

    def client(run: Run) -> None:
        run.script(["sh", "-c", "echo EVENT ASKED"], role="client")
        run.wait("ANSWERED", 2.0)
        # The same role may run several scripts; each has its own log.
        run.metric("words", len(run.script("echo one two", role="client").split()))

    row = only(one({"server": server, "client": client}), store)
    assert row["reason"] == "" and row["metrics"]["words"].value == 2
    assert sorted(path.name for path in store.path.parent.glob("results.logs/*/*/*")) == ["client-2.log", "client.log"]


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        (Script("echo before; false; echo RESULT x 1"), "client failed with status 1; its last output:\nbefore"),
        (Script("echo $missing"), "client failed with status 1(27)?; its last output:.*missing: unbound variable"),
        (Script("false | cat; echo RESULT x 1"), "client failed with status 1"),
        (Script(("/no/such/program",)), "/no/such/program cannot be started"),
        (Script("echo RESULT x many"), r"client wrote `RESULT x many`; expected RESULT NAME NUMBER \[UNIT \[QUALITY\]\]"),
        (Script("echo RESULT x nan"), "metric x: found nan, expected a finite number"),
        (Script("echo RESULT x 1 s guessed"), "found quality 'guessed'; expected one of: measured, modelled, limited by the generator"),
        (Script("echo RESULT x 1; echo RESULT x 2"), "metric x was reported twice"),
        (Script("echo RESULT seed 2"), "seed cannot be the name of a result"),
        (Script("echo EVENT"), "client wrote `EVENT`; expected EVENT NAME"),
        (Script("true"), "the run reported no result"),
        (Script("echo RESULT x 1", waits=("NEVER",)), "nobody is left to raise event NEVER, for which client waits; raised: none"),
        (lambda run: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda run: run.wait("LATE", 0.05), "event LATE was not raised in time; raised: none"),
        (lambda run: run.sample("x", []), "sample x: found 0 values"),
    ],
)
def test_a_failure_is_stored_with_its_reason(store: Store, role: object, reason: str) -> None:
    row = only(one({"client": role}), store)
    assert row["status"] == "failed"
    assert re.search(reason, row["reason"], re.DOTALL), row["reason"]


def test_a_pattern_or_a_sample_that_is_not_there_fails_the_run(store: Store) -> None:
    script = {"client": Script("echo rate: -")}
    assert "pattern 'rate: ([0-9]+)' is not in the output of client:\nrate: -" in only(
        one(script, patterns=[Pattern("rate", "rate: ([0-9]+)", role="client")]), store
    )["reason"]
    assert "is in the output of no role" in only(one(script, patterns=[Pattern("rate", "rate: ([0-9]+)")]), store)["reason"]
    assert "found '-' in the output of client, expected a number" in only(
        one(script, patterns=[Pattern("rate", "rate: (.*)")]), store
    )["reason"]
    missing = only(one({"client": Script("echo RESULT x 1")}, sample_files=[SampleFile("latency", "none")]), store)
    assert re.search("sample latency: .*none: No such file", missing["reason"])


# ---- limits and clean-up ----


def processes(token: str) -> int:
    """Counts the processes whose command contains a token."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += token.encode() in path.read_bytes()
        except OSError:
            pass
    return count


def test_time_limit_ends_all_processes_also_those_in_other_sessions(store: Store) -> None:
    calls: list[str] = []

    def prepare(run: Run) -> None:
        run.defer(lambda: calls.append("first"))
        run.defer(lambda: 1 / 0)
        run.defer(lambda: calls.append("second"))

    # A duration that tells the processes from those of others.
    duration = f"987.{os.getpid()}1"
    script = Script(f"setsid sleep {duration} & (trap '' TERM; sleep {duration}) & echo started; sleep {duration}")
    started = time.monotonic()
    row = only(one({"client": script}, timeout=0.4, prepare=prepare), store)
    assert time.monotonic() - started < 5
    assert row["reason"].startswith("client did not end within 0.4 s; its last output:\nstarted")
    assert row["reason"].endswith("cleaning up failed: ZeroDivisionError: division by zero")
    assert calls == ["second", "first"]
    assert processes(duration) == 0


def test_processes_without_the_environment_end_with_their_group(store: Store) -> None:
    duration = f"987.{os.getpid()}3"
    row = only(one({"client": Script(f"env -i $(command -v sleep) {duration} & sleep 0.1; echo RESULT x 1")}), store)
    assert row["status"] == "ok"
    assert processes(duration) == 0


def test_a_failing_role_ends_the_others_and_the_sweep_goes_on(store: Store) -> None:
    client = Script("echo EVENT GO; sleep 0.1; test $n = 2; echo RESULT x 1")
    experiment = Experiment("n", {"n": [1, 2]}, {"client": client, "other": Script("sleep 1.2")}, repetitions=1, timeout=4.0)
    first, second = run_all(experiment, store)
    assert first["reason"].startswith("client failed with status 1") and first["duration"] < 1.1
    assert second["status"] == "ok" and second["metrics"]["x"].value == 1


def test_a_function_that_hangs_does_not_stop_the_sweep(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p4jet.lab.runner._GRACE_SECONDS", 0.1)
    monkeypatch.setattr("p4jet.lab.runner._STOP_SECONDS", -1.0)
    released = threading.Event()
    row = only(one({"client": lambda run: released.wait(20)}, timeout=0.2), store)
    released.set()
    assert row["reason"] == "client did not end within 0.2 s" and row["duration"] < 3


SWEEP = """
import sys
from p4jet.lab.runner import Experiment, Script, execute
from p4jet.lab.store import Store
client = Script("setsid sleep $LONG & echo RESULT x $n; touch $RUN_DIR/began; if [ $n = 3 ] && [ ! -e $GO ]; then sleep $LONG; fi")
execute(Experiment("sweep", {"n": [1, 2, 3]}, {"client": client}, repetitions=1, timeout=20.0), Store(sys.argv[1]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_cleans_up_and_is_resumed(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "results.sqlite"
    duration = f"987.{os.getpid()}2"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "GO": str(tmp_path / "go"), "LONG": duration}
    sweep = [sys.executable, "-c", SWEEP, str(path)]
    process = subprocess.Popen(sweep, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert wait_until(lambda: list(tmp_path.glob("results.logs/session-1/*n=3/began")))
    # A sweep that is under way is not resumed by another one.
    with Store(path) as store:
        assert len(store.rows()) == 2
        (running,) = store.sessions()
        assert store.open_session("sweep", running["content"], running["inventory"])[1] is False
    process.send_signal(number)
    output, errors = process.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors or number == signal.SIGKILL
    assert wait_until(lambda: processes(duration) == 0)
    with Store(path) as store:
        assert [row["values"]["n"] for row in store.rows()] == [1, 2]
        # Of the session that this test has opened.
        store.finish(2)
    (tmp_path / "go").touch()
    resumed = subprocess.run(sweep, env=environment, capture_output=True, text=True, timeout=20, check=True).stdout
    assert "session 1 was interrupted; it continues after 2 runs" in resumed
    assert resumed.splitlines()[1].startswith("3/3 n=3 repetition 1: ok")
    with Store(path) as store:
        assert [(row["session"], row["values"]["n"], row["status"]) for row in store.rows()] == [(1, n, "ok") for n in (1, 2, 3)]
        assert store.session(1)["finished"] is not None
        assert store.done(1) == {(f'{{"n":{n}}}', 1) for n in (1, 2, 3)}


def test_resumption_repeats_failures_and_other_content_is_another_session(store: Store) -> None:
    calls: list[object] = []

    def client(run: Run) -> None:
        calls.append(run.values["n"])
        if run.values["n"] == 2 and len(calls) == 2:
            raise LabError("not yet")
        if len(calls) == 3:
            raise KeyboardInterrupt
        run.metric("x", 1)

    def interrupted(run: Run) -> None:
        # As Ctrl-C does, in the main thread.
        if len(calls) == 2:
            raise KeyboardInterrupt

    experiment = Experiment("again", {"n": [1, 2, 3]}, {"client": client}, repetitions=1, prepare=interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(experiment, store, progress=lambda line: None)
    assert [(row["values"]["n"], row["status"]) for row in store.rows()] == [(1, "ok"), (2, "failed")]
    calls.append("between")
    other = Experiment("again", {"n": [1, 2]}, {"client": client}, repetitions=1, prepare=interrupted)
    assert {row["session"] for row in run_all(other, store)} == {2}
    rows = run_all(experiment, store)
    assert [(row["session"], row["values"]["n"], row["status"]) for row in rows] == [(1, 1, "ok"), (1, 2, "ok"), (1, 3, "ok")]
    # A complete session is not resumed: the experiment is executed again.
    assert {row["session"] for row in run_all(experiment, store)} == {3}


# ---- nodes of a network ----

NETWORK = """
name = "pair"
hosts.h1.addresses = ["10.0.0.1/24"]
hosts.h2.addresses = ["10.0.0.2/24"]
links = [{ ends = ["h1", "h2"] }]
"""

ON_NODES = """
topology = "pair.toml"
timeout = 20
[roles.server]
node = "h2"
background = true
script = 'cat /sys/class/net/eth0/address; echo EVENT READY; echo "RESULT in_folder $(ls pair.toml | wc -l)"; sleep 60'
[roles.client]
node = "h1"
waits = ["READY"]
script = "ping -q -c 2 -i 0.05 -W 2 10.0.0.2"
[metrics.received]
pattern = "([0-9]+) received"
"""


def test_scripts_run_on_the_hosts_of_a_topology(tmp_path: Path, store: Store) -> None:
    (tmp_path / "pair.toml").write_text(NETWORK)
    (tmp_path / "x.toml").write_text(ON_NODES)
    if shutil.which("ping") is None:
        pytest.skip("ping is not on the PATH")
    row = only(Experiment.from_toml(tmp_path / "x.toml", repetitions=1), store)
    if "no network namespaces" in row["reason"]:
        pytest.skip(row["reason"])
    assert row["reason"] == ""
    assert {name: metric.value for name, metric in row["metrics"].items()} == {"received": 2, "in_folder": 1}
    (tmp_path / "x.toml").write_text(ON_NODES.replace('"h2"', '"h3"'))
    assert "unknown node 'h3'; there are: h1, h2" in only(Experiment.from_toml(tmp_path / "x.toml", repetitions=1), store)["reason"]


# ---- experiments from TOML ----

GOOD = """
name = "sizes"
repetitions = 2
timeout = 5
seed = 7
exclude = [{ size = 128, kind = "b" }]

[variables]
kind = ["a", "b"]
size = { from = 64, to = 256, factor = 2 }
n = { from = 0, to = 0.3, step = 0.1 }

[roles.server]
script = "echo EVENT READY; sleep 20"
background = true
tags = ["-local"]

[roles.client]
argv = ["sh", "-c", "echo rate $size"]
waits = ["READY"]
tags = ["-local"]

[roles.alone]
script = "cat here.txt; echo rate $size"
tags = ["local"]

[metrics.rate]
pattern = "rate ([0-9]+)"
unit = "kpps"

[tags.local]
repetitions = 1
variables = { n = [3], kind = ["a"] }
"""


def test_an_experiment_from_toml(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "sizes.toml"
    file.write_text(GOOD)
    (tmp_path / "here.txt").write_text("here\n")
    experiment = Experiment.from_toml(file)
    assert experiment.variables == {"kind": ["a", "b"], "size": [64, 128, 256], "n": [0, 0.1, 0.2, 0.3]}
    assert (experiment.repetitions, experiment.timeout, experiment.seed) == (2, 5.0, 7)
    assert list(experiment.active_roles()) == ["server", "client"]
    assert len(experiment.points()) == 2 * 3 * 4 - 4 and len(experiment.left_out) == 4
    local = Experiment.from_toml(file, tags=frozenset({"local"}), only={"size": ["256", "64"]})
    assert local.content() != experiment.content()
    # Scripts start in the folder of the file.
    assert [(row["values"], row["metrics"]["rate"].value) for row in run_all(local, store)] == [
        ({"kind": "a", "size": size, "n": 3}, size) for size in (64, 256)
    ]
    few = Experiment.from_toml(file, only={"size": ["64"], "n": ["0.1"]}, repetitions=1)
    assert [row["reason"] for row in run_all(few, store)] == ["", ""]


BAD = """
repetitions = "six"
timeout = true
colour = "red"
topology = "none.toml"
exclude = [{ sise = 3 }, 4]

[variables]
size = { from = 64, to = 1, step = 1 }
n = { from = 1, to = 4, step = 0 }
k = { from = 1, to = 4, step = 1, factor = 2 }
m = { from = 1, to = 1e9 }

[roles.client]
script = "true"
argv = ["true"]
wait = ["READY"]
waits = [3]

[roles.server]
node = 3

[metrics.rate]
unit = 3

[tags.quick]
variables = { sise = [1] }
repetition = 1
"""


def test_wrong_toml_gives_every_fault_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(BAD)
    with pytest.raises(LabError) as caught:
        Experiment.from_toml(file, tags=frozenset({"quik"}), only={"size": ["3"], "sice": ["1"]})
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{file}:"
    assert sorted(lines[1:]) == sorted([
        "repetitions: found 'six', expected a whole number",
        "timeout: found True, expected a number",
        "colour: is unknown; expected one of: name, description, variables, repetitions, timeout, seed, topology, roles, metrics, "
        "samples, exclude, tags",
        f"topology: {tmp_path / 'none.toml'} is no file",
        "exclude[0].sise: is no variable; there are: size, n, k, m",
        "exclude[1]: found 4; expected a table with values of variables",
        "variables.size.to: found 1, less than `from`, 64",
        "variables.n.step: found 0, expected more than 0",
        "variables.k.step: found also `factor`; expected one of them",
        "variables.m.to: the range has more than 10000 values",
        "roles.client.script: expected either `script`, a text for bash, or `argv`, a list with a program and its arguments",
        "roles.client.wait: is unknown; expected one of: script, argv, waits, node, background, tags, timeout",
        "roles.client.waits: found 3, expected a list of texts",
        "roles.server.script: expected either `script`, a text for bash, or `argv`, a list with a program and its arguments",
        "roles.server.node: found 3, expected a text",
        "metrics.rate.pattern: is missing; expected a text",
        "metrics.rate.unit: found 3, expected a text",
        "tags.quick.variables.sise: is no variable of the experiment; there are: size, n, k, m",
        "tags.quick.repetition: is unknown; expected one of: variables, repetitions, timeout, seed",
        "tag quik is unknown; the file has: quick",
        "--only size=3: is no value of it; there are: 0",
        "--only sice: is no variable; there are: size, n, k, m",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x = ", "is no TOML: "),
        ("", "roles: is missing; expected at least one table such as [roles.client] with `script`"),
        ("roles.a = 3", "roles.a: found 3, expected a table"),
        ("roles.a.script = 'true'\nvariables.PATH = ['x']", "variables.PATH: this name is reserved"),
        ("roles.a.script = 'true'\nvariables.n = []", "variables.n: found no values"),
        ("roles.a.script = 'true'\nvariables.n = [1, 1]", "variables.n: a value occurs twice"),
        ("roles.a.script = 'true'\nvariables.n = [[1]]", "variables.n: found [1]; expected texts, numbers or booleans"),
        ("roles.a.script = 'true'\nvariables.n = 1979-05-27", "variables.n: found datetime.date(1979, 5, 27); expected a list"),
        ("repetitions = 0\nroles.a.script = 'true'", "repetitions: found 0, expected at least 1"),
        ("timeout = nan\nroles.a.script = 'true'", "timeout: found nan"),
        ("repetitions = 1000000\nroles.a.script = 'true'", "more than 100000 runs"),
        ("roles.a.script = 'true'\nroles.a.background = true", "roles: all are in the background"),
        ("roles.a.script = 'true'\nroles.a.tags = ['x']", "roles: no role is left with the tags (none)"),
        ("roles.a.script = 'true'\nroles.a.node = 'h1'", "roles.a.node: found 'h1', but the experiment has no topology"),
        ("roles.a.script = 'true'\nmetrics.m.pattern = 'rate'", "metrics.m.pattern: found no group"),
        ("roles.a.script = 'true'\nmetrics.m.pattern = '('", "metrics.m.pattern: '(' is no regular expression"),
        ("roles.a.script = 'true'\nmetrics.m = { pattern = '(.)', role = 'b' }", "metrics.m.role: found 'b'; the roles are: a"),
        ("roles.a.script = 'true'\nmetrics.m = { pattern = '(.)', quality = 'good' }", "m.quality: found 'good'; expected one of"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(LabError) as caught:
        Experiment.from_toml(tmp_path / "x.toml")
    assert fault in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="none.toml: No such file"):
        Experiment.from_toml(tmp_path / "none.toml")


def test_the_documented_experiments_run(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = sorted(ROOT.glob("docs/lab*.md"))
    blocks = [block for page in pages for block in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)]
    experiments = [block for block in blocks if "[roles." in block]
    assert experiments
    for block in experiments:
        (tmp_path / "x.toml").write_text(block)
        rows = run_all(Experiment.from_toml(tmp_path / "x.toml", tags=frozenset({"quick"}), repetitions=1), store)
        assert [row["reason"] for row in rows] == [""] * len(rows)
        assert {"rate", "fastest"} <= set(rows[0]["metrics"])


def test_the_examples_can_be_read_and_run(store: Store) -> None:
    for file in EXAMPLES.glob("*.toml"):
        if "[roles." in file.read_text():
            Experiment.from_toml(file)
    experiment = Experiment.from_toml(
        EXAMPLES / "frame_sizes.toml", tags=frozenset({"quick"}), only={"size": ["64"], "entries": ["100"]}, repetitions=1
    )
    if shutil.which(os.environ.get("P4JET", "p4jet")) is None:
        pytest.skip("the p4jet binary is neither in $P4JET nor on the PATH")
    (row,) = run_all(experiment, store)
    assert row["reason"] == "" and row["metrics"]["rate"].value > 0.1


def test_durations_are_readable() -> None:
    assert [seconds_text(s) for s in (0.2, 59.4, 125, 7260)] == ["0 s", "59 s", "2 min 5 s", "2 h 1 min"]
