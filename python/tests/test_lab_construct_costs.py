"""Micro-benchmarks on modelled devices and on p4jet, and the profiles that come from them."""

import statistics
from pathlib import Path

import pytest

from conftest import ROOT
from lab_networks import needs_namespaces, needs_p4jet, runtime  # noqa: F401
from p4jet.lab import LabError, construct_costs, construct_report
from p4jet.lab.cli import main
from p4jet.lab.construct_costs import CONSTRUCTS, Options, fit, label, points, unsupported
from p4jet.lab.constructs import FAMILIES, family
from p4jet.lab.dut import CABLE, Bed
from p4jet.lab.modelled import ModelledDevice, expected, predict
from p4jet.lab.runner import execute
from p4jet.lab.store import Store

DEVICES = ["t4p4s", "netfpga-sume", "agilio-cx"]
"""Those of section 3.8."""


def test_counts_do_not_follow_the_time() -> None:
    found = points(Options())
    wanted = {benchmark.name for name in FAMILIES for benchmark in family(name)}
    assert {benchmark.name for benchmark, _ in found.values()} == wanted
    assert {size for benchmark, size in found.values() if benchmark.name == "parse-1"} == {256, 1000, 1500}
    assert {size for benchmark, size in found.values() if benchmark.family == "add"} == {1300}
    order = [benchmark for benchmark, _ in found.values()]
    for name in FAMILIES:
        if name != "fields":
            places = [(place, benchmark.count) for place, benchmark in enumerate(order) if benchmark.family == name]
            assert abs(statistics.correlation(*zip(*places))) < 0.25, name
    assert points(Options()) == found
    few = points(Options(families=["table"], counts=4, sizes=[300]))
    assert sorted(few) == sorted(["parse-1 300", "table-0 300", "table-5 300", "table-9 300", "table-14 300"])


def test_wrong_options_are_named() -> None:
    with pytest.raises(LabError, match="'shift'.*parse, fields"):
        points(Options(families=["shift"]))
    with pytest.raises(LabError, match="found 253, expected 254 to 1500"):
        points(Options(sizes=[253]))
    assert unsupported("bmv2-psa") == "its programs are for psa, the micro-benchmarks for v1model"
    assert unsupported("p4jet") is None


@needs_p4jet
def test_types_that_run_no_programs_are_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status = main(["constructs", "--switches", "bridge,bmv2-psa,xdp", "--out", str(tmp_path), "--store", str(tmp_path / "s.db")])
    said = capsys.readouterr().err
    assert status == 1
    for name, why in (("bridge", "it runs no P4 programs"), ("xdp", "it runs no P4 programs"), ("bmv2-psa", "its programs are for psa")):
        assert f"{name}: {why}" in said, said


def device(deviation: float) -> ModelledDevice:
    return ModelledDevice("own", "own", "npu", deviation)


def test_delays_have_the_moments_of_the_profile() -> None:
    for noise in ("gamma", "normal"):
        delays = device(4.55).delays_us(45.9, 20_000, 1, noise)
        assert statistics.fmean(delays) == pytest.approx(45.9, abs=0.15)
        assert statistics.stdev(delays) == pytest.approx(4.55, rel=0.03)
        assert min(delays) > 0
        assert delays == device(4.55).delays_us(45.9, 20_000, 1, noise) != device(4.55).delays_us(45.9, 20_000, 2, noise)
    assert device(0.0).delays_us(2.5, 3, 1) == [2.5] * 3
    with pytest.raises(LabError, match="own: the profile predicts -1 µs"):
        device(1.0).delays_us(-1.0, 3, 1)


@needs_p4jet
def test_a_modelled_device_needs_a_single_path(tmp_path: Path) -> None:
    (tmp_path / "none.cmd").write_text("")
    program = ROOT / "programs/nf_catalogue/l3fwd_firewall/l3fwd_firewall.p4"
    with pytest.raises(LabError, match="packets leave it on paths with 2 different delays; a modelled device needs one"):
        expected([ModelledDevice.load("npu")], program, tmp_path / "none.cmd", 1500)
    with pytest.raises(LabError, match="cannot read this file"):
        ModelledDevice.load("no-such-device")


def rules(profile: dict) -> "dict[tuple[str, int, str], float]":
    return {(rule["construct"], rule["above"], key): rule[key]["value"] for rule in profile["rules"] for key in ("each_us", "once_us") if key in rule}


@needs_p4jet
def test_modelled_devices_yield_their_own_profiles(tmp_path: Path) -> None:
    profiles = [word for name in DEVICES for word in ("--profile", name)]
    words = ["constructs", *profiles, "--repetitions", "2", "--packets", "1500", "--sizes", "1500"]
    assert main([*words, "--out", str(tmp_path), "--store", str(tmp_path / "s.db")]) == 0
    report = (tmp_path / "report.md").read_text()
    for name in DEVICES:
        fitted = str(tmp_path / f"modelled-{name}.toml")
        own, found = predict(["--show", "--profile", name, "--profile", fitted])
        assert found["kind"] == own["kind"]
        assert found["base_us"]["1500"]["value"] == pytest.approx(own["base_us"]["1500"]["value"], abs=0.4)
        assert found["deviation_us"]["value"] == pytest.approx(own["deviation_us"]["value"], rel=0.06)
        for construct in CONSTRUCTS:
            cost = found["cost_us"][construct]
            assert cost["value"] == pytest.approx(own["cost_us"][construct]["value"], abs=0.04), construct
            assert cost["provenance"] == "fitted" and "(95 %)" in cost["note"]
        assert rules(found) == pytest.approx(rules(own), abs=0.1)
        section = report.partition(f"## modelled {name} (modelled)")[2].partition("\n## ")[0]
        assert "within 0.4 µs of those of the profile that the device follows" in section and "**not" not in section, section
        # A program that is not among the micro-benchmarks: T4.1.
        both = predict(["--counts=1,2,0,0,0,0", "--profile", name, "--profile", fitted])
        assert both[0]["us"] == pytest.approx(both[1]["us"], abs=0.4)
    assert set(rules(predict(["--show", "--profile", str(tmp_path / "modelled-agilio-cx.toml")])[0])) == {("add", 6, "each_us"), ("remove", 7, "once_us")}
    # Nothing of this counts as measured.
    with Store(tmp_path / "s.db") as store:
        (about,) = store.sessions("constructs")
        rows = store.rows(session=about["session"])
        names = store.sample_names(about["session"])
        qualities = {metric.quality for row in rows for metric in row["metrics"].values()}
        qualities |= {samples.quality for name in names for _, _, samples in store.samples(about["session"], name)}
    assert qualities == {"modelled"} and len(names) == len(points(Options(sizes=[1500])))
    assert "Nothing of them is measured" in report and "**Measured**" not in report
    assert (tmp_path / "modelled-agilio-cx.csv").read_text().startswith("family,count,frame_bytes,round,delay_us\n")


@needs_namespaces
@needs_p4jet
def test_p4jet_has_a_profile(tmp_path: Path) -> None:
    options = Options(["p4jet"], families=["add"], sizes=[1500], counts=2, packets=100, rate=2000.0, repetitions=1)
    lines: list[str] = []
    with Bed(tmp_path / "bed", switch_cpu=0, tester_cpu=0, links=2, first_port=0) as bed, Store(tmp_path / "s.db") as store:
        session = execute(construct_costs.experiment(options, bed), store, progress=lines.append, logs=tmp_path / "logs")
        assert [row["reason"] for row in store.rows(session=session) if row["status"] != "ok"] == []
        ran = {(row["values"]["switch"], row["values"]["point"]) for row in store.rows(session=session)}
        assert ran == {(CABLE, "parse-1 1500"), *(("p4jet", point) for point in ("parse-1 1500", "add-0 1300", "add-10 1300"))}
        (fitted,) = fit(store, session, options, tmp_path / "out")
        paths = construct_report.write(store, session, options, {"bridge": "it runs no P4 programs"}, tmp_path / "out")
    assert fitted.switch == "p4jet" and fitted.profile in paths
    (line,) = fitted.report["lines"]
    assert line["family"] == "add" and [count for count, _ in line["points"]] == [0, 10]
    profile = fitted.report["profile"]
    # Latencies over veth pairs, from some µs to some ms on a busy machine.
    assert 1 < profile["base_us"]["1500"]["value"] < 1e5
    assert profile["cost_us"]["copy"] == {"value": 0.0, "provenance": "assumed", "note": "not measured"}
    (estimate,) = predict(["--counts", "1,0,0,0,0,0", "--profile", str(fitted.profile)])
    assert estimate["us"] == pytest.approx(profile["base_us"]["1500"]["value"])
    report = (tmp_path / "out" / "report.md").read_text()
    assert "no switch (noise floor)" in report and "p4jet, AF_PACKET (measured)" in report and "it runs no P4 programs" in report


def test_modelled_devices_have_names_of_their_own(tmp_path: Path) -> None:
    options = Options(devices=[device(1.0), device(2.0)])
    with pytest.raises(LabError, match="two profiles have the same name: own, own"):
        construct_costs.experiment(options, Bed(tmp_path, switch_cpu=0, tester_cpu=0))
    assert label(device(1.0)) == "modelled own"
