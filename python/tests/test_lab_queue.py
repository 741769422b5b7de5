"""The switch with a controller under load."""

import json
from pathlib import Path

import numpy as np
import pytest

from lab_networks import needs_namespaces, needs_p4jet, runtime  # noqa: F401
from p4jet.lab import queueing
from p4jet.lab.cli import main
from p4jet.lab.dut import processors
from p4jet.lab.errors import LabError
from p4jet.lab.queueing import Network, Options, Point, batches, experiment, points, replay, summary, write
from p4jet.lab.runner import execute
from p4jet.lab.store import Metric, Store

SERVICES = np.dtype([("number", "<u8"), ("arrival", "<i8"), ("begin", "<i8"), ("end", "<i8"), ("wanted", "<i8")])


def test_a_replay_is_an_ideal_queue() -> None:
    # Three new packets and a known one, 10 µs for each pass. The controller takes 100, 50 and 200 µs.
    left = np.array([0.0, 20.0, 30.0, 500.0])
    numbers = np.array([0, 1, 2, 3])
    served = np.zeros(3, SERVICES)
    served["number"], served["wanted"] = [0, 2, 3], [100_000, 50_000, 200_000]
    # The third waits until 110, leaves the controller at 160, and arrives at 170.
    assert replay(left, numbers, served, 10.0).tolist() == [120.0, 10.0, 140.0, 220.0]


def test_low_loads_take_less_time() -> None:
    options = Options(seconds=20)
    assert [round(options.seconds_at(load), 6) for load in (0.1, 0.6, 0.8, 0.9, 0.95)] == [4, 5, 10, 20, 20]
    assert options.rate(0.2, 0.9) == pytest.approx(2250)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(loads=(1.0,)), "loads: found 1, expected numbers above 0 up to 0.95"),
        (Options(shares=(0.0,)), "shares: found 0, expected numbers above 0 up to 1"),
        (Options(shares=(0.04,)), "found 11250 packets per second for a share of 0.04 and a load of 0.9, expected at most 5000"),
    ],
)
def test_wrong_options(options: Options, message: str) -> None:
    with pytest.raises(LabError, match=message):
        options.check()


def test_wrong_numbers_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["queue", "--loads", "0.5,1.5"])
    assert "`1.5`: expected a number from 0.01 to 0.95" in capsys.readouterr().err


def test_batches_are_parts_of_a_run() -> None:
    assert batches([1, 3, 10, 20, 0, 0, 5, 5, 7, 8, 9]) == [14 / 3, 10, 2.5, 6, 8.5]


@needs_p4jet
def test_predictions_use_the_measured_parameters() -> None:
    # An exponential service of 2 ms at a load of 0.5, all packets new, and a switch without delay: 4 ms (M/M/1).
    metrics = {"service": 2000.0, "service_deviation": 2000.0, "pass": 0.01, "pass_deviation": 0.001, "sojourn": 4400.0, "replay": 4000.0}
    row = {
        "values": {"load": 0.5, "share": 1.0, "law": "exponential"}, "status": "ok", "repetition": 1,
        "metrics": {name: Metric(value, "µs", "measured") for name, value in metrics.items()},
    }  # fmt: skip
    times = {("exponential", 1.0, 0.5): [[4000.0, 4200.0, 4400.0, 4600.0, 4800.0]]}
    (point,) = points([row], times, Options())  # type: ignore[list-item]
    assert point.simple == pytest.approx(4000, rel=1e-3) and point.refined == pytest.approx(4000, rel=1e-3)
    assert point.simulated is not None and abs(point.simulated - 4000) < 2 * point.simulated_half + 20
    assert point.error("refined") == pytest.approx(4000 / 4400 - 1, rel=1e-2)
    # With twice the service time, the load is 1: nothing is predicted but the replay.
    row["metrics"]["service"] = Metric(4000.0, "µs", "measured")  # type: ignore[index]
    (point,) = points([row], times, Options())  # type: ignore[list-item]
    assert point.predictions == {"replay": 4000.0} and point.error("simple") is None


def test_the_summary_counts_what_lies_in_the_interval() -> None:
    def point(refined: float) -> Point:
        return Point("exponential", 1.0, 0.5, 250.0, 0.5, [90.0, 100.0, 110.0], [101.0, 101.0, 101.0], 200.0, refined, 99.0, 1.0)

    said = summary([point(95.0), point(150.0)])
    assert "* refined: mean absolute error 27.5 %, from -5.0 to +50.0 %; 1 of 2 predictions" in said
    assert "* simple: mean absolute error 100.0 %" in said


@needs_namespaces
@needs_p4jet
def test_a_switch_with_a_controller(tmp_path: Path) -> None:
    switch_cpu, tester_cpu = processors(None, None)
    options = Options(
        laws=("deterministic",), shares=(0.5,), loads=(0.5,), service_us=1000.0, repetitions=2, seconds=1.5, switch_cpu=switch_cpu, tester_cpu=tester_cpu
    )
    with Store(tmp_path / "store.sqlite") as store:
        with Network(options, tmp_path) as bed:
            session = execute(experiment(options, bed), store, progress=lambda _: None)
        rows = store.rows(session=session)
        assert [row["reason"] for row in rows] == ["", ""]
        for row in rows:
            found = {name: metric.value for name, metric in row["metrics"].items()}
            assert found["lost"] == 0
            # 1000 packets per second for 0.3 s, the first tenth of which does not count.
            assert 150 < found["packets"] < 450
            # New packets take a service at least, known ones a pass.
            assert found["sojourn_new"] > 1000 and found["pass"] > 1
            assert found["sojourn_known"] < found["sojourn"] < found["sojourn_new"]
            # Other programs can make it longer.
            assert found["service"] > 950
            assert row["metrics"]["replay"].quality == "modelled" and row["metrics"]["sojourn"].quality == "measured"
        # The repetitions have other arrivals.
        assert rows[0]["metrics"]["packets"].value != rows[1]["metrics"]["packets"].value
        markdown, page = write(store, session, options, tmp_path / "out")
    text = markdown.read_text()
    for part in ("| deterministic | 0.5 | 0.5 |", "error of refined", "error of replay", "a service takes longer than wanted", "0 of "):
        assert part in text
    assert page.stat().st_size > 5000 and (tmp_path / "out" / "runs.csv").exists()


def test_the_report_needs_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "p4jet"
    script.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(queueing, "p4jet_binary", lambda: str(script))
    with pytest.raises(LabError, match="p4jet queue model: status 1: no"):
        queueing.predicted(["model"])
    script.write_text(f"#!/bin/sh\necho '{json.dumps([1])}'\n")
    assert queueing.predicted(["model"]) == [1]
