"""Results of experiments: statistics, the store, comparisons, plots, reports, and the commands that show them."""

import csv
import math
import random
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from p4jet.lab import inventory, plots, session_report, stats
from p4jet.lab.cli import main
from p4jet.lab.errors import LabError
from p4jet.lab.report import Report
from p4jet.lab.store import Metric, Samples, Selection, Store

PACKAGE = Path(stats.__file__).parents[2]


# ---- statistics ----


def test_statistics_of_known_values() -> None:
    values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
    assert stats.mean(values) == 5.0
    assert stats.sd(values) == pytest.approx(math.sqrt(32 / 7))
    assert stats.median(values) == 4.5
    assert [stats.percentile([1.0, 2.0, 3.0, 4.0], p) for p in (0, 25, 50, 100)] == [1.0, 1.75, 2.5, 4.0]
    # t(7) = 2.365: 5 -+ 2.365 * 2.138 / sqrt(8).
    assert stats.confidence_interval(values) == pytest.approx((3.2125, 6.7875), abs=1e-3)
    assert stats.confidence_interval([3.0]) is None and stats.sd([3.0]) == 0.0


def test_student_t_agrees_with_tables() -> None:
    # From tables with three decimals.
    for freedom, expected in ((1, 12.706), (5, 2.571), (5.9, 2.571), (30, 2.042), (31, 2.040), (60, 2.000), (120, 1.980), (1e6, 1.960)):
        assert stats.t_quantile(freedom) == pytest.approx(expected, abs=6e-4), freedom


@pytest.mark.parametrize("call", [stats.mean, stats.sd, stats.median])
def test_statistics_need_values(call: object) -> None:
    with pytest.raises(ValueError, match="found no values"):
        call([])  # type: ignore[operator]


def test_difference_is_a_ratio_of_positive_values_and_else_a_difference() -> None:
    a, b = [100.0, 110.0, 105.0, 95.0, 102.0, 98.0], [200.0, 220.0, 210.0, 190.0, 204.0, 196.0]
    ratio = stats.difference(a, b)
    assert (ratio.kind, ratio.verdict) == ("ratio", "higher")
    assert ratio.value == pytest.approx(2.0)
    assert ratio.low is not None and ratio.high is not None and 1.8 < ratio.low < 2.0 < ratio.high < 2.2
    inverse = stats.difference(b, a)
    assert (inverse.low, inverse.high) == (pytest.approx(1 / ratio.high), pytest.approx(1 / ratio.low))
    assert inverse.verdict == "lower"
    assert stats.difference(a, a).verdict == "no difference shown"
    assert stats.difference([1.0], [2.0, 2.1]).verdict == "too few runs"
    loss = stats.difference([0.0, 0.0, 0.0], [5.0, 6.0, 7.0])
    assert (loss.kind, loss.value, loss.verdict) == ("difference", 6.0, "higher")
    # Values that do not vary differ if they differ at all.
    assert stats.difference([3.0, 3.0], [3.0, 3.0]).verdict == "no difference shown"
    assert stats.difference([3.0, 3.0], [4.0, 4.0]).verdict == "higher"


def test_interval_of_equal_things_excludes_equality_in_about_one_of_twenty() -> None:
    chance = random.Random(1)
    wrong = 0
    for _ in range(1000):
        a, b = ([chance.lognormvariate(3, 0.3) for _ in range(6)] for _ in range(2))
        wrong += stats.difference(a, b).is_shown
    assert 25 <= wrong <= 75


# ---- the store ----


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results.sqlite")


def fill(
    store: Store, rates: dict[str, list[float]], *, commit: str = "a" * 40, host: str = "h", quality: str = "measured"
) -> int:
    """Stores a session of experiment `mirror` with one rate for each switch and repetition, for two sizes."""
    session, _ = store.open_session("mirror", "content", {"commit": commit, "host": host, "processor": "p", "kernel": "k"})
    for size in (64, 1500):
        for switch, values in rates.items():
            for repetition, value in enumerate(values, 1):
                store.add(
                    session, {"switch": switch, "size": size}, repetition, seed=1, duration=1.0,
                    metrics={"rate": Metric(value, "Mpps", quality), "loss": Metric(0.0, "%")},
                    samples={"latency": Samples([value, value + 1, 50 * value], "us")},
                )  # fmt: skip
    store.finish(session)
    return session


def test_runs_come_back_as_they_were_stored(store: Store) -> None:
    session, is_continued = store.open_session("e", "c", {"commit": "abc", "host": "h", "memory (GiB)": 7.8})
    assert not is_continued
    values = {"switch": "ovs", "size": 64, "fast": True, "rate": 0.1}
    store.add(session, values, 1, seed=5, duration=1.5, metrics={"x": Metric(1 / 3, "us", "modelled")}, samples={"l": Samples([0.1, 2], "us")})
    store.add(session, values, 2, seed=6, duration=0.5, reason="it broke")
    with Store(store.path) as again:
        first, second = again.rows(session=session)
        assert (first["values"], first["repetition"], first["seed"], first["status"], first["duration"]) == (values, 1, 5, "ok", 1.5)
        assert first["metrics"] == {"x": Metric(1 / 3, "us", "modelled")}
        assert (second["status"], second["reason"], second["metrics"]) == ("failed", "it broke", {})
        ((of, repetition, samples),) = again.samples(session, "l")
        assert (of, repetition, samples) == (values, 1, Samples([0.1, 2.0], "us"))
        (about,) = again.sessions()
        assert (about["ok"], about["failed"], about["finished"], about["inventory"]["memory (GiB)"]) == (1, 1, None, 7.8)
    # A repeated run replaces the failed one, with its figures.
    store.add(session, values, 2, seed=6, duration=0.5, metrics={"x": Metric(2, "us")})
    assert [row["status"] for row in store.rows()] == ["ok", "ok"]
    with pytest.raises(LabError, match="has no session 9; the newest are: 1"):
        store.session(9)


def test_only_an_interrupted_session_of_the_same_content_commit_and_host_is_continued(store: Store) -> None:
    machine = {"commit": "abc", "host": "h"}
    first, _ = store.open_session("e", "c", machine)
    store.release(first)
    for name, content, other, resume in (
        ("e", "c2", machine, True), ("e2", "c", machine, True), ("e", "c", {**machine, "commit": "d"}, True),
        ("e", "c", {**machine, "host": "i"}, True), ("e", "c", machine, False),
    ):  # fmt: skip
        session, is_continued = store.open_session(name, content, other, resume=resume)
        assert not is_continued
        store.finish(session)
    assert store.open_session("e", "c", machine) == (first, True)
    store.finish(first)
    assert store.open_session("e", "c", machine)[1] is False


WRITER = """
import sys
from p4jet.lab.store import Metric, Samples, Store
with Store(sys.argv[1]) as store:
    session, is_continued = store.open_session("e", "c", {"commit": "x", "host": "h"})
    for n in range(40):
        store.add(session, {"n": n}, 1, seed=1, duration=0.1, metrics={"x": Metric(n, "us")}, samples={"l": Samples([1.0] * 1000, "us")})
    store.finish(session)
"""


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.sqlite"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen(command, env={"PYTHONPATH": str(PACKAGE)}, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(writer.communicate(timeout=60)[1], writer.returncode) for writer in writers] == [("", 0)] * 3
    with Store(path) as store:
        assert [(s["session"], s["ok"], s["finished"] is not None) for s in store.sessions()] == [(n, 40, True) for n in (1, 2, 3)]
        assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [file.name for file in path.parent.iterdir()] == ["results.sqlite"]


def test_other_files_and_other_versions_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to be one" * 100)
    with pytest.raises(LabError, match="text cannot be used as a store of results: file is not a database"):
        Store(text)
    for name, statement in (("other", "CREATE TABLE t (x)"), ("newer", "CREATE TABLE sessions (x); PRAGMA user_version = 2")):
        sqlite3.connect(tmp_path / name).executescript(statement)
        with pytest.raises(LabError, match="found a database with schema version [02], expected a store of results with version 1"):
            Store(tmp_path / name)
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="file/results cannot be used as a store"):
        Store(tmp_path / "file" / "results")


def test_csv_has_one_row_for_each_run_with_units_and_quality(store: Store, tmp_path: Path) -> None:
    session = fill(store, {"ovs": [2.5], "p4jet": [4.0]}, quality="limited by the generator")
    store.add(session, {"switch": "bridge", "size": 64}, 1, seed=1, duration=0.25, reason="no\nmodule, sorry")
    store.csv(tmp_path / "runs.csv", session)
    with open(tmp_path / "runs.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    assert (rows[1]["switch"], rows[1]["size"], rows[1]["rate (Mpps)"], rows[1]["rate quality"]) == (
        "p4jet", "64", "4.0", "limited by the generator"
    )  # fmt: skip
    assert (rows[4]["status"], rows[4]["reason"], rows[4]["rate (Mpps)"], rows[4]["duration (s)"]) == (
        "failed", "no\nmodule, sorry", "", "0.25"
    )  # fmt: skip


# ---- comparison ----

SLOW, FAST = [2.0, 2.1, 1.9, 2.05, 1.95, 2.0], [4.0, 4.2, 3.8, 4.1, 3.9, 4.0]


def test_sessions_days_commits_and_switches_are_compared(store: Store) -> None:
    first = fill(store, {"ovs": SLOW, "p4jet": FAST}, commit="1" * 40)
    second = fill(store, {"ovs": SLOW, "p4jet": [value * 1.5 for value in FAST]}, commit="2" * 40)
    sqlite3.connect(store.path).executescript(
        f"UPDATE runs SET started = '2026-01-0' || session || 'T10:00:00+00:00' WHERE session IN ({first}, {second})"
    )
    for a, b in ((str(first), str(second)), ("1111111", "2222222"), ("2026-01-01", "2026-01-02"), (f"session={first}", "commit=2")):
        found = {(c.values["switch"], c.values["size"], c.metric): c for c in store.compare(a, b)}
        assert len(found) == 2 * 2 * 2
        assert found["ovs", 64, "rate"].difference.verdict == "no difference shown"
        p4jet = found["p4jet", 1500, "rate"]
        assert (p4jet.difference.verdict, p4jet.unit, len(p4jet.a)) == ("higher", "Mpps", 6)
        assert p4jet.difference.value == pytest.approx(1.5) and p4jet.sessions == (frozenset({first}), frozenset({second}))
        assert found["p4jet", 64, "loss"].difference.kind == "difference"
    # Switches: within the newest session that has both.
    assert fill(store, {"ovs": SLOW}) == 3
    (rate, _, large, _) = store.compare("ovs", "p4jet")
    assert (rate.values, large.values, rate.sessions) == ({"size": 64}, {"size": 1500}, (frozenset({second}), frozenset({second})))
    assert rate.difference.value == pytest.approx(3.0)
    within = store.compare("session=1,switch=ovs", "session=1,switch=p4jet")[0]
    assert within.difference.value == pytest.approx(2.0)
    assert store.compare("size=64,switch=ovs", "size=1500,switch=ovs")[0].values == {}


BOTH = "modelled, limited by the generator"


@pytest.mark.parametrize(
    "one, other, expected",
    [
        ("limited by the generator", "measured", "limited by the generator"),
        ("measured", "modelled", "modelled"),
        ("measured", "measured", "measured"),
        # As stores have it in which a value has only one quality.
        ("limited by the generator", "modelled", BOTH),
        (BOTH, "measured", BOTH),
        (BOTH, BOTH, BOTH),
    ],
)
def test_a_comparison_has_the_qualities_of_both_sides(store: Store, one: str, other: str, expected: str) -> None:
    fill(store, {"ovs": SLOW}, quality=one)
    fill(store, {"ovs": SLOW}, quality=other)
    assert {c.metric: c.quality for c in store.compare(1, 2)} == {"rate": expected, "loss": "measured"}


def test_both_qualities_are_shown(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = fill(store, {"ovs": SLOW}, quality=BOTH)
    store.csv(tmp_path / "runs.csv", session)
    with open(tmp_path / "runs.csv", encoding="utf-8") as file:
        assert {row["rate quality"] for row in csv.DictReader(file)} == {BOTH}
    assert main(["results", "show", str(session), "--store", str(store.path)]) == 0
    assert f" {BOTH}\n" in capsys.readouterr().out
    assert f"| 6 | {BOTH} |" in session_report.write(store, session, tmp_path / "out")[0].read_text()
    # Runs of one point that differ in quality.
    mixed, _ = store.open_session("mixed", "c", {})
    for repetition, quality in enumerate(["modelled", BOTH, "modelled"], 1):
        store.add(mixed, {"size": 64}, repetition, seed=1, duration=1.0, metrics={"rate": Metric(1.0 + repetition, "Gbit/s", quality)})
    (row,) = session_report.summary(store.rows(session=mixed))[1]
    assert row[-1] == f"modelled (2 of 3); {BOTH} (1 of 3)"


def test_what_cannot_be_compared_is_said(store: Store) -> None:
    fill(store, {"ovs": SLOW})
    fill(store, {"bridge": SLOW})
    for a, b, error in (
        ("1", "2", "have no point and metric in common: .*ovs.* against .*bridge"),
        ("1", "7", "no successful runs for `7` .session 7."),
        ("ovs", "none", "no successful runs for `none` .variable switch = none"),
        ("none", "ovs", "no successful runs for `none` .variable switch = none"),
        ("ovs", "bridge", "no session has successful runs of both `ovs` and `bridge`; name a session on each side"),
        ("1", "1", "`1` and `1` choose 12 of the same runs .12 and 12 in all.; a run cannot be compared with itself"),
        ("session=1,size=64", "ovs", "choose 6 of the same runs .6 and 12 in all."),
        ("", "1", "found ``; expected a session"),
        ("size=", "1", "found `size=`"),
        ("day=yesterday", "1", "expected a day such as 2026-07-31"),
        ("session=x", "1", "session=x: expected a number"),
    ):
        with pytest.raises(LabError, match=error):
            store.compare(a, b)


def test_what_only_one_side_has_is_named(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    first = fill(store, {"ovs": SLOW})
    second = fill(store, {"ovs": SLOW, "p4jet": FAST})
    store.add(first, {"switch": "ovs", "size": 9000}, 1, seed=1, duration=1.0, metrics={"rate": Metric(1.0, "Mpps")})
    store.add(first, {"switch": "ovs", "size": 64}, 7, seed=1, duration=1.0, metrics={"speed": Metric(1.0, "")})
    only_first = ['mirror {"size":9000,"switch":"ovs"}', "metric speed"]
    only_second = ['mirror {"size":64,"switch":"p4jet"}', 'mirror {"size":1500,"switch":"p4jet"}']
    assert store.unmatched(first, second) == (only_first, only_second)
    assert store.unmatched("session=2,switch=ovs", "session=2,switch=p4jet") == ([], [])
    assert main(["results", "compare", "1", "2", "--store", str(store.path)]) == 0
    text = capsys.readouterr().out
    assert f"Note: only A has {', '.join(only_first)}." in text and f"Note: only B has {', '.join(only_second)}." in text


def test_selections_are_recognized() -> None:
    assert Selection.parse("12").session == 12
    assert Selection.parse("2026-07-31").day == "2026-07-31"
    assert Selection.parse("a8f12d7").commit == "a8f12d7"
    assert Selection.parse("ovs-dpdk").values == (("switch", "ovs-dpdk"),)
    assert Selection.parse("day=2026-07-31, size=64").values == (("size", "64"),)


# ---- plots and reports ----


def test_plots_are_files_of_both_formats_and_show_spread(tmp_path: Path) -> None:
    series = {"p4jet": {64.0: [60.0, 61.0], 128.0: [50.0, 52.0]}, "single <b>": {64.0: [1.0], 128.0: [2.0]}}
    for suffix in (".svg", ".png"):
        made = [
            plots.lines(tmp_path / f"lines{suffix}", series, x_label="size (B)", y_label="rate", log_x=True, log_y=True),
            plots.boxes(tmp_path / f"boxes{suffix}", {"a": [1.0, 2.0, 9.0], "b": []}, y_label="us", log_y=True),
            plots.cdf(tmp_path / f"cdf{suffix}", {"a": [float(n) for n in range(1, 10_000)]}, x_label="us", log_x=True),
            plots.heat_map(
                tmp_path / "maps" / f"map{suffix}", {("a", "64"): [1.0, 2.0], ("b", "128"): [3.0]}, x_label="x", y_label="y",
                value_label="Mpps",
            ),
        ]  # fmt: skip
        starts = {".svg": b"<?xml", ".png": b"\x89PNG"}
        assert all(path.read_bytes().startswith(starts[suffix]) for path in made)
        before = made[0].read_bytes()
        plots.lines(made[0], series, x_label="size (B)", y_label="rate", log_x=True, log_y=True)
        assert made[0].read_bytes() == before
    text = (tmp_path / "lines.svg").read_text()
    assert "(single runs, no spread)" in text and "LineCollection" in text
    assert "± 0.71" in (tmp_path / "maps" / "map.svg").read_text()
    for call in (lambda: plots.boxes(tmp_path / "x.svg", {}, y_label=""), lambda: plots.cdf(tmp_path / "x.svg", {"a": []}, x_label="")):
        with pytest.raises(LabError, match="x.svg: found no values to plot"):
            call()
    with pytest.raises(LabError, match="found format '.jpg'; expected .svg or .png"):
        plots.boxes(tmp_path / "x.jpg", {"a": [1.0]}, y_label="")


def test_missing_matplotlib_is_said_before_the_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.toml").write_text(EXPERIMENT)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    store = tmp_path / "results.sqlite"
    assert main(["run", str(tmp_path / "x.toml"), "--out", str(tmp_path / "out"), "--store", str(store)]) == 1
    assert "plots need matplotlib" in capsys.readouterr().err and not store.exists()


def test_report_as_markdown_and_as_one_html_page(tmp_path: Path) -> None:
    report = Report("Title <1>")
    report.heading("Rates")
    report.text("Some **bold** `a < b` and [a link](https://example.org/x).\n\n* one\n* two\n  lines\n\n\\* **limited** 2\\*3\\*\\*4 `\\*`")
    report.table(["switch", "rate", "note"], [["a|b", 12.345678, None], ["<script>", 1_234_567.0, "x\ny"]])
    report.figure(plots.boxes(tmp_path / "elsewhere" / "box.svg", {"a": [1.0, 2.0]}, y_label="us"), 'A "box"')
    markdown, page = report.write(tmp_path / "out")
    text, html = markdown.read_text(), page.read_text()
    assert text.startswith("# Title <1>\n\n## Rates\n")
    assert "| switch | rate | note |\n| --- | ---: | --- |\n| a\\|b | 12.35 |  |\n| <script> | 1234567 | x y |" in text
    assert '![A "box"](plots/box.svg)' in text and (tmp_path / "out" / "plots" / "box.svg").is_file()
    assert "<h1>Title &lt;1&gt;</h1>" in html and "<script" not in html
    assert "Some <strong>bold</strong> <code>a &lt; b</code> and a link." in html
    assert "<p>* <strong>limited</strong> 2*3**4 <code>\\*</code></p>" in html
    assert "<li>one</li>\n<li>two lines</li>" in html
    # The page refers to no other file.
    assert re.findall(r"(?:src|href)=.{11}", html) == ['src="data:image']
    assert "http" not in re.sub(r'src="data:[^"]*"', "", html)
    with pytest.raises(LabError, match="found a row with 1 cells, expected 2"):
        report.table(["a", "b"], [["x"]])
    with pytest.raises(LabError, match="none.svg: there is no such file"):
        report.figure(tmp_path / "none.svg", "")


def test_report_of_a_session(store: Store, tmp_path: Path) -> None:
    session = fill(store, {"ovs": SLOW, "p4jet": FAST}, quality="limited by the generator")
    store.add(session, {"switch": "bridge", "size": 64}, 1, seed=1, duration=0.25, reason="no module")
    markdown, page = session_report.write(store, session, tmp_path / "out")
    text = markdown.read_text()
    assert "| ovs | 64 | rate | Mpps | 2 | 1.926 to 2.074 | 1.9 | 2.1 | 6 | limited by the generator |" in text
    assert "| switch=bridge size=64 | 1 | no module |" in text
    assert sorted(path.name for path in (tmp_path / "out" / "plots").iterdir()) == [
        "latency-boxes.svg", "latency-cdf.svg", "loss.svg", "rate.svg"
    ]  # fmt: skip
    assert page.read_text().count('src="data:image/svg+xml') == 4
    assert (tmp_path / "out" / "runs.csv").read_text().count("\n") == 26


# ---- the commands ----

EXPERIMENT = """
name = "quick"
timeout = 10
[variables]
switch = ["a", "b"]
[roles.client]
script = "echo RESULT rate $((100 + ${#switch} + RANDOM % 3)) kpps"
"""


def test_commands_run_list_show_compare_and_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "_switches", lambda: {})
    monkeypatch.setenv("P4JET_LAB_STORE", str(tmp_path / "results.sqlite"))
    file, out = tmp_path / "quick.toml", tmp_path / "out"
    file.write_text(EXPERIMENT)

    def command(*arguments: str, fails: bool = False) -> str:
        """Executes a command and returns its output; of one that fails, its error."""
        assert main(arguments) == (1 if fails else 0)
        output, errors = capsys.readouterr()
        assert bool(errors) == fails
        return errors or output

    assert "there is no store of results yet" in command("results", "list", fails=True)
    text = command("run", str(file), "--repetitions", "3", "--out", str(out))
    assert "6/6 switch=b repetition 3: ok" in text and "6 runs succeeded, 0 failed" in text
    assert {"report.md", "report.html", "runs.csv", "plots", "logs"} == {path.name for path in out.iterdir()}
    assert "a       rate    kpps" in command("run", str(file), "--only", "switch=a", "--repetitions", "1")
    listed = command("results", "list").splitlines()
    assert [line.split()[:2] for line in listed] == [["session", "experiment"], ["1", "quick"], ["2", "quick"]]
    assert command("results", "show").startswith("session 2: quick, started ")
    compared = command("results", "compare", "a", "b", "--metric", "rate")
    assert re.search(r"quick +\(no variables\) +rate +kpps +\S+ \(3\) +\S+ \(3\) ", compared)
    command("results", "csv", "1", "--out", str(tmp_path / "x.csv"))
    assert (tmp_path / "x.csv").read_text() == (out / "runs.csv").read_text()
    assert "report.html" in command("results", "report", "2", "--out", str(tmp_path / "again"))
    assert "--metric loss: both sides have only: rate" in command("results", "compare", "a", "b", "--metric", "loss", fails=True)
    assert "--only switch: expected VAR=VALUE" in command("run", str(file), "--only", "switch", fails=True)


def test_the_command_fails_if_a_run_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "_switches", lambda: {})
    file = tmp_path / "quick.toml"
    file.write_text(EXPERIMENT + "\nwaits = ['X']")
    assert main(["run", str(file), "--repetitions", "1", "--store", str(tmp_path / "results.sqlite")]) == 1
    output = capsys.readouterr().out
    assert "failed: nobody is left to raise event X" in output and "0 runs succeeded, 2 failed" in output
