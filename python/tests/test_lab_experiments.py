"""The experiments: traces, the tester, and a tiny comparison of two switches in real namespaces."""

import csv
import json
import os
import re
import struct
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import PROGRAMS
from p4jet.lab import LabError, compare, compare_report, gateway_workload, probe, scale, study_reports, sweep, tester, update
from p4jet.lab.cli import main
from p4jet.lab.dut import Bed, DeviceUnderTest, available
from p4jet.lab.rules import Rules
from p4jet.lab.runner import Run, execute
from p4jet.lab.store import Metric, Store
from p4jet.lab.switches.p4jet import binary
from p4jet.lab.tester import DST, SRC, Measurement, Trace
from p4jet.lab.thesis import FRAMING

needs_p4jet = pytest.mark.skipif(binary() is None, reason="there is no p4jet: set P4JET or build it")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces on chosen processors need root")


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


# ---- without a network ----


def test_a_trace_has_valid_frames_of_each_client_and_flow(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "t.pcap", 130, clients=300, flows=2).write(np.array([0x40000000, 0x40000100], dtype=np.uint32))
    frames = list(probe.frames(str(trace.path)))
    assert len(frames) == 600 and {len(frame) for frame in frames} == {130}
    assert all(checksum(frame[14:34]) == 0xFFFF for frame in frames)
    assert len({(frame[26:30], frame[34:36]) for frame in frames}) == 600
    assert frames[0][:12] == probe.mac(DST) + probe.mac(SRC)
    assert [frame[30:34].hex() for frame in frames[:3]] == ["40000000", "40000100", "40000000"]
    assert int.from_bytes(frames[0][16:18], "big") == 116 and int.from_bytes(frames[0][38:40], "big") == 96


@pytest.mark.parametrize("received, limited", [(1000, ", limited by the generator"), (500, "")])
def test_the_rate_with_framing_is_modelled_and_may_be_limited(received: int, limited: str, tmp_path: Path) -> None:
    class Fake:
        name, folder = "p4jet", tmp_path

        def check(self, trace: Trace) -> tester.Check:
            return tester.Check(50, 50, 0, 0, 0, 0, {})

        def warm_up(self, *_: object) -> None:
            pass

        def measure(self, *_: object, **__: object) -> Measurement:
            return Measurement(128, 1.0, 1000, received, 1000.0, float(received), None)

        sample = measure

    for point in (
        lambda run: compare.point(run, Fake(), Fake(), Trace(tmp_path / "t", 128), compare.Options(["p4jet"])),
        lambda run: scale.point(run, Fake(), Fake(), Rules("exact", 1), 1, scale.Options(["p4jet"])),
    ):
        run = Run({}, 1, 1, tmp_path)
        point(run)
        found = {name: metric.quality for name, metric in run.metrics.items()}
        assert found["throughput"] == "modelled" + limited
        assert found["received_rate"] == (limited.removeprefix(", ") or "measured")
    assert compare_report.limited([run.metrics["throughput"]]) == bool(limited)


def test_a_trace_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="found 59, expected 60"):
        Trace(tmp_path / "t.pcap", 59).write()
    with pytest.raises(LabError, match="2000000 clients"):
        Trace(tmp_path / "t.pcap", 64, clients=2_000_000).write()


def test_rates_with_and_without_framing() -> None:
    # 13.2 million frames of 64 bytes per second, as the thesis's generator sent.
    measured = Measurement(64, 1.0, sent=1000, received=950, offered_pps=13.2e6, received_pps=12.5e6, rate=None)
    assert measured.loss == pytest.approx(0.05) and not measured.is_limited
    assert measured.offered(FRAMING) == pytest.approx(13.2e6 * 8 * 88)
    assert measured.throughput() == pytest.approx(12.5e6 * 8 * 64)
    assert Measurement(64, 1.0, 1000, 995, 1e3, 1e3, None).is_limited
    assert not Measurement(64, 1.0, 1000, 989, 1e3, 1e3, None).is_limited
    assert Measurement(64, 1.0, 1000, 1000, 900.0, 900.0, 1000.0).is_limited


def fake_tester(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **found: "float | None") -> tester.Tester:
    """Returns a tester to which `p4jet traffic` reports these figures."""

    class Node:
        def run(self, argv: "list[str]", **_: object) -> "subprocess.CompletedProcess[str]":
            return subprocess.CompletedProcess(argv, 0, json.dumps(found), "")

    monkeypatch.setattr(tester, "p4jet_binary", lambda: "p4jet")
    return tester.Tester(Node(), tmp_path, send="eth1")


def test_frames_that_the_full_ring_of_a_switch_refuses_are_offered_and_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As XDP on a veth pair: the kernel took 364 frames of 1050, and all of them came back.
    figures = {"seconds": 1.0, "sent": 364_000, "not_sent": 686_000, "received": 364_000, "sent_pps": 330e3, "received_pps": 331e3}
    figures["offered_pps"] = 951e3
    measured = fake_tester(tmp_path, monkeypatch, **figures).measure(Trace(tmp_path / "t.pcap", 68), 1.0)
    assert (measured.sent, measured.refused, measured.received) == (1_050_000, 686_000, 364_000)
    assert measured.loss == pytest.approx(686 / 1050) and not measured.is_limited
    assert measured.offered_pps == 951e3 and measured.received_pps == 331e3
    # At a constant rate, the generator has not missed it because frames were refused.
    figures |= {"sent": 600, "not_sent": 400, "received": 600, "offered_pps": 1000.0, "sent_pps": 600.0, "received_pps": 600.0}
    measured = fake_tester(tmp_path, monkeypatch, **figures).measure(Trace(tmp_path / "t.pcap", 68), 1.0, 1000.0)
    assert measured.offered_pps == pytest.approx(1000.0) and not measured.is_limited and measured.loss == pytest.approx(0.4)


def test_more_frames_than_were_offered_cannot_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"seconds": 1.0, "sent": 1100, "not_sent": 0, "received": 1100, "sent_pps": 1000.0, "received_pps": 1003.0}
    figures["offered_pps"] = 1000.0
    measured = fake_tester(tmp_path, monkeypatch, **figures).measure(Trace(tmp_path / "t.pcap", 68), 1.0)
    assert measured.received_pps == measured.offered_pps == 1000.0 and measured.is_limited
    figures |= {"sent": 0, "not_sent": 1000, "received": 0, "offered_pps": 1000.0, "sent_pps": 0.0, "received_pps": 0.0}
    with pytest.raises(LabError, match="eth1 refused all 1000 frames"):
        fake_tester(tmp_path, monkeypatch, **figures).measure(Trace(tmp_path / "t.pcap", 68), 1.0)


@pytest.mark.parametrize("types", range(1, 12))
def test_a_quick_comparison_takes_less_than_five_minutes(types: int) -> None:
    options = compare.Options([f"s{number}" for number in range(types)]).quick()
    runs = options.repetitions * len(options.sizes) * (types + 1)
    starts = options.repetitions * (types + 1) * compare.START_SECONDS
    seconds = starts + runs * (compare.POINT_SECONDS + options.seconds * compare.TRAFFIC_SHARE)
    assert options.sizes == [64, 512, 1500] and seconds <= 300


def test_responses_of_updates() -> None:
    kinds = [("time", "<i8"), ("number", "<u8"), ("interface", "<u2"), ("left", "u1"), ("good", "u1")]
    # Interface 0 sends, 1 is port 2, 2 is port 3. The update at 100 takes effect at 130, that at 200 never.
    frames = np.array([(90, 1, 0, 1, 1), (95, 1, 1, 0, 1), (120, 2, 1, 0, 1), (130, 3, 2, 0, 1), (140, 4, 2, 0, 1)], dtype=kinds)
    assert update.responses(frames, [(100, 105, 3), (200, 210, 2)]) == [(100, 105, 130, 120)]


def test_rules_have_addresses_of_their_own() -> None:
    assert Rules("exact", 3).addresses().tolist() == [0x40000000, 0x40000001, 0x40000002]
    lpm = Rules("lpm", 1 << 20)
    assert lpm.address(257) == "64.1.1.0" and int(lpm.addresses()[-1]) == 0x4FFFFF00
    with pytest.raises(LabError, match="found 0, expected 1 to"):
        Rules("ternary", 0)


def test_the_most_rules_are_found_by_halving(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    class Switch:
        def set_rules(self, rules: Rules) -> None:
            tried.append(rules.count)
            if rules.count > 300:
                raise LabError("out of memory")

    class Dut:
        def tester(self, **_: object) -> None:
            return None

    class FakeBed:
        @contextmanager
        def use(self, name: str, prepare, *, variant: str):
            prepare(Switch())
            yield Dut()

    # The switch drops the last of its rules silently if it has more than 100.
    monkeypatch.setattr(scale, "check", lambda dut, tester, rules, size: "1 of 3 frames were lost" if rules.count > 100 else None)
    assert scale.limit(FakeBed(), "p4jet", "exact", scale.Options(["p4jet"], rules_max=1000)) == 62
    assert tried == [1000, 500, 250, 125, 62]
    monkeypatch.setattr(scale, "check", lambda *_: "nothing arrives")
    with pytest.raises(LabError, match="works with no number of exact rules: .*1 rules: nothing arrives"):
        scale.limit(FakeBed(), "p4jet", "exact", scale.Options(["p4jet"], rules_max=8))


def test_gateway_workloads_are_reproducible(tmp_path: Path) -> None:
    for name in ("a", "b"):
        gateway_workload.write(tmp_path / name, "outbound", 100, 114, packets=50)
    for file in ("entries.cmd", "entries.swx", "packets.pcap"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert {len(frame) for frame in probe.frames(str(tmp_path / "a" / "packets.pcap"))} == {110}
    with pytest.raises(LabError, match="found 113 bytes, expected at least 114"):
        gateway_workload.write(tmp_path / "c", "outbound", 100, 113)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["compare", "--sizes", "64,x"], "`x`: expected a whole number from 60 to 1500"),
        (["compare", "--seconds", "nan"], "`nan`: expected a number from 0.05 to 600"),
        (["scale", "--kinds", "register"], "`register`: expected one of exact, lpm, ternary"),
        (["sweep", "--workloads", "l4"], "`l4`: expected one of gateway-inbound"),
    ],
)
def test_wrong_options_are_refused(arguments: "list[str]", expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert expected in capsys.readouterr().err


def test_unknown_switches_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--switches", "tofino"]) == 1
    assert "unknown switch type tofino; there are: p4jet" in capsys.readouterr().err
    assert available(["linux-forwarding", "bridge"], "mac-mirror")[1].keys() == {"bridge"}


@needs_p4jet
def test_a_sweep_has_the_points_of_its_axes(tmp_path: Path) -> None:
    options = sweep.Options(["l2"], [10, 20], [64, 128], [1], repetitions=1, seconds=0.02, programs=PROGRAMS)
    with Store(tmp_path / "r.sqlite") as store:
        session = execute(sweep.experiment(options, tmp_path), store, progress=lambda line: None)
        rows = store.rows(session=session)
    points = [(row["values"]["entries"], row["values"]["size"], row["status"]) for row in rows]
    assert points == [(10, 64, "ok"), (20, 64, "ok"), (10, 128, "ok")]
    assert all(row["metrics"]["rate"].value > 0.01 and row["metrics"]["wire_rate"].quality == "modelled" for row in rows)


RATES = {("p4jet", 64): [3.0, 3.1, 2.9], ("p4jet-xdp", 64): [4.0, 4.1, 3.9], ("ovs", 64): [1.0, 1.1, 0.9], ("xdp", 64): [4.0, 4.1, 3.9]}


def compared(tmp_path: Path, rates: "dict[tuple[str, int], list[float]]", limited: "dict[str, int]", **more: object) -> str:
    """Writes a report of rates by switch and size, of which the generator limited the first `limited`, and returns its text."""
    switches, sizes = list(dict.fromkeys(name for name, _ in rates)), sorted({size for _, size in rates})
    with Store(tmp_path / "r.sqlite") as store:
        session, _ = store.open_session("compare", "c", {"commit": "c", "host": "h"}, resume=False)
        for (name, size), values in rates.items():
            for repetition, value in enumerate(values, 1):
                quality = "limited by the generator" if repetition <= limited.get(name, 0) else "measured"
                metrics = {"received_rate": Metric(value, "kpps", quality), "loss": Metric(0.0, "%", quality)}
                store.add(session, {"size": size, "switch": name}, repetition, seed=1, duration=1.0, metrics=metrics)
        options = compare.Options(switches, sizes=sizes, repetitions=3)
        skipped = {"bmv2": "no simple_switch"}
        for point, reason in more.items():
            store.add(session, {"size": 64, "switch": point}, 1, seed=1, duration=1.0, reason=str(reason))
        return compare_report.write(store, session, options, skipped, tmp_path / "out")[0].read_text(encoding="utf-8")


def test_the_report_says_whether_p4jet_reaches_its_goal(tmp_path: Path) -> None:
    text = compared(tmp_path, RATES, {})
    assert "* **reached**: lead in user space, 64 bytes; 0.9 of XDP, 64 bytes" in text
    assert "| 64 | p4jet, AF_XDP | Open vSwitch, user space | 4.0" in text
    # What is measured, and what is not.
    assert "* **Measured**: p4jet, p4jet-xdp, ovs, xdp\n" in text
    assert re.search(r"\* \*\*Not chosen by `--switches`\*\*: .*ovs-dpdk", text) and "* **Cannot run here, or not do this**: bmv2" in text


@pytest.mark.parametrize(
    ("rates", "limited", "expected"),
    [
        # XDP may be faster than what the generator offers.
        (RATES, {"xdp": 1}, ["**not decided: the generator limited XDP", "| ≤ 1.00 ("]),
        (RATES, {"p4jet-xdp": 3}, ["**reached**: lead in user space, 64 bytes; 0.9 of XDP, 64 bytes", "| ≥ 1.00 ("]),
        (RATES | {("p4jet-xdp", 64): [2.0, 2.1, 1.9]}, {"p4jet-xdp": 1}, ["**not decided: the generator limited p4jet, AF_XDP**: 0.9 of XDP"]),
        (RATES | {("p4jet-xdp", 64): [2.0, 2.1, 1.9]}, {}, ["**not reached**: 0.9 of XDP, 64 bytes"]),
        ({key: values[:1] for key, values in RATES.items()}, {}, ["**not decided: an interval needs two runs of each**: lead in user space"]),
        (RATES | {("p4jet", 64): [0.0] * 3, ("p4jet-xdp", 64): [0.0] * 3}, {}, ["received nothing**: lead in user space, 64 bytes", "| none received anything |"]),
        ({("p4jet", 64): [], ("ovs", 64): [1.0] * 3}, {}, ["**not decided: no run of p4jet, AF_PACKET succeeded**: lead in", "failed**: p4jet\n"]),
        ({("p4jet", 64): []}, {}, ["**not decided: no run of p4jet succeeded**: 64 bytes"]),
        ({("p4jet", 64): [0.0] * 3, ("p4jet", 128): [1.0] * 3}, {}, ["**not reached: p4jet received nothing**: 64 bytes"]),
    ],
)  # fmt: skip
def test_a_goal_is_decided_only_by_what_was_measured(
    tmp_path: Path, rates: "dict[tuple[str, int], list[float]]", limited: "dict[str, int]", expected: "list[str]"
) -> None:
    text = compared(tmp_path, rates, limited)
    for part in expected:
        assert part in text, text[:2500]


def test_stars_say_how_many_runs_the_generator_limited(tmp_path: Path) -> None:
    text = compared(tmp_path, RATES, {"ovs": 1, "xdp": 3})
    assert "| Open vSwitch, user space | 1.0\\*1/3 (0.9–1.1) |" in text and "4.0\\* (3.9–4.1) |" in text
    assert "\\*1/3 means that this was so in one run of three" in text


def test_a_failed_run_takes_one_line_in_the_report(tmp_path: Path) -> None:
    text = compared(tmp_path, RATES, {}, swx="it did not start:\nTraceback (most recent call last):\n  File\nImportError: no module")
    assert "it did not start: … ImportError: no module |" in text and "Traceback" not in text
    assert "Traceback" in (tmp_path / "out" / "runs.csv").read_text(encoding="utf-8")


# ---- in namespaces ----


@needs_p4jet
@needs_root
def test_a_tiny_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", "--switches", "p4jet,linux-forwarding", "--sizes", "128", "--seconds", "0.2", "--repetitions", "1"]
    arguments += ["--latency-rate", "2000", "--clients", "100", "--out", str(tmp_path / "out"), "--store", str(tmp_path / "r.sqlite")]
    assert main(arguments) == 0, capsys.readouterr()
    with open(tmp_path / "out" / "runs.csv", encoding="utf-8") as file:
        rows = {row["switch"]: row for row in csv.DictReader(file)}
    assert rows.keys() == {"cable", "p4jet", "linux-forwarding"}
    for name, row in rows.items():
        figures = {key.partition(" (")[0]: value for key, value in row.items()}
        number = {key: float(value) for key, value in figures.items() if re.fullmatch(r"-?[0-9.]+(e[-+]\d+)?", value)}
        assert number["check_bad_mac"] == number["check_lost"] == number["latency_bad_mac"] == 0, name
        assert number["latency_loss"] <= 1, name
        assert 0 < number["latency_min"] <= number["latency_p25"] <= number["latency_p50"] <= number["latency_p99"] <= number["latency_max"]
        assert 0 < number["throughput_of_frames"] < number["throughput"]
        assert 0 <= number["refused"] <= number["loss"] + 0.01
        assert number["received_rate"] <= number["offered_rate"]
        assert number["throughput"] / number["throughput_of_frames"] == pytest.approx((128 + FRAMING) / 128)
        expected = "modelled" if row["received_rate quality"] == "measured" else "modelled, limited by the generator"
        assert row["offered quality"] == "modelled" and row["throughput quality"] == expected
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    for text in ("Noise floor", "limited by the generator", "thesis, Table 8, P4-DPDK, CX5: loss (%) | 78.24", "How the environments differ"):
        assert text in report
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "data:image/svg+xml;base64," in page and "src=\"plots/" not in page


@needs_p4jet
@needs_root
def test_the_check_notices_wrong_addresses_and_lost_frames(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "t.pcap", 64, clients=5).write()
    other = "02:00:00:00:00:07"
    with DeviceUnderTest("p4jet", tmp_path, lambda switch: switch.mac_mirror(1, DST, other), switch_cpu=0, tester_cpu=0) as dut:
        checked = dut.tester().check(trace)
        assert (checked.sent, checked.received, checked.bad_mac) == (5, 5, 5)
        assert checked.fault() == f"5 of 5 frames came back with wrong MAC addresses: {other} from {DST}"
        lost = Trace(tmp_path / "l.pcap", 64, clients=2, dst="02:00:00:00:00:09").write()
        assert dut.tester().check(lost, seconds=1).fault() is not None


@needs_p4jet
@needs_root
def test_updates_take_effect_under_traffic(tmp_path: Path) -> None:
    options = update.Options(["p4jet"], ["exact", "lpm"], [256], [5], updates=6, repetitions=1, switch_cpu=0, tester_cpu=0)
    run = update.experiment(options, None)
    points = [(point["switch"], point["kind"]) for point in run.points()]
    assert sorted(points) == [("cable", "exact"), ("p4jet", "exact"), ("p4jet", "lpm")]
    options = replace(options, kinds=["exact"])
    with Store(tmp_path / "r.sqlite") as store, Bed(tmp_path / "bed", switch_cpu=0, tester_cpu=0, links=3) as bed:
        session = execute(update.experiment(options, bed), store, progress=lambda line: None)
        rows = {row["values"]["switch"]: row for row in store.rows(session=session)}
        text = study_reports.update(store, session, options, {}, tmp_path / "out")[0].read_text(encoding="utf-8")
    assert {name: row["reason"] for name, row in rows.items()} == {"cable": "", "p4jet": ""}
    # A busy machine delays some beyond the next one.
    assert 3 <= rows["p4jet"]["metrics"]["updates"].value <= 6
    assert 0 < rows["p4jet"]["metrics"]["response_time_median"].value < 1000
    # 5 Mbit/s of 280 bytes: a frame every 0.448 ms.
    floor = rows["cable"]["metrics"]
    assert 0.3 < floor["frame_interval"].value < 0.9 and floor["frame_interval_max"].value >= floor["frame_interval"].value
    assert "## Noise floor" in text and "| 256 | 5 | 0." in text
