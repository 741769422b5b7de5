"""The closed loop: a plan becomes a network of p4jet switches."""

from pathlib import Path

import pytest

from conftest import PROGRAMS
from lab_networks import needs_namespaces, needs_p4jet, runtime  # noqa: F401
from p4jet.lab.dut import processors
from p4jet.lab.store import Store
from p4jet.place import PlaceError, load_cloud, load_plan, load_profile, load_workload
from p4jet.place.check import violations
from p4jet.place.cli import main
from p4jet.place.loop import SWITCHES, Calibration, Options, Placed, Step, close, own_plans, profile_text, steps

PASSES = {"FW": 20.0, "NAT": 21.0, "L3Fwd": 22.0, "L2Fwd": 23.0, "LB": 24.0}


def calibration() -> Calibration:
    """A machine on which everything takes a known time."""
    alone = {name: [passed + 10, passed + 10] for name, passed in PASSES.items()}
    rates = {**dict.fromkeys(PASSES, 0.5), "reference": 0.6}
    return Calibration(alone, {name: [passed, passed] for name, passed in PASSES.items()}, [10.0, 10.0], {500.0: 560.0}, rates)


def test_the_own_plans_are_sums_of_what_was_measured(tmp_path: Path) -> None:
    one, two = own_plans(calibration(), Options(), tmp_path)
    for placed in (one, two):
        assert not violations(placed.cloud, placed.workload, placed.plan)
        assert not placed.plan.rejected
    delays = {(placed.name, chain.name): placed.delay_us(chain, where) for placed in (one, two) for chain, where in placed.chains()}
    assert delays["one device", "chain1"] == pytest.approx(10 + 20 + 21 + 22)
    assert delays["one device", "chain2"] == pytest.approx(10 + 24 + 22)
    # L2Fwd, the fixed switch, and the base delay of the second device.
    assert delays["two devices", "chain1"] == pytest.approx(10 + 20 + 21 + 22 + 23 + 500 + 10)
    # The files can be used again.
    cloud, workload = load_cloud(tmp_path / "two-devices-cloud.json"), load_workload(tmp_path / "two-devices-workload.json")
    again = Placed("again", cloud, workload, load_plan(tmp_path / "two-devices-plan.json"))
    assert [again.delay_us(*pair) for pair in again.chains()] == [delays["two devices", "chain1"], delays["two devices", "chain2"]]


def test_a_chain_becomes_switches_with_the_delays_between_devices(tmp_path: Path) -> None:
    one, two = own_plans(calibration(), Options(), tmp_path)
    (chain, where), _ = one.chains()
    assert steps(one.workload, one.cloud, chain, where) == [Step("FW"), Step("NAT"), Step("L3Fwd")]
    (chain, where), _ = two.chains()
    found = steps(two.workload, two.cloud, chain, where)
    assert sorted(step.function for step in found) == ["FW", "L2Fwd", "L3Fwd", "NAT"]
    place = [step.function for step in found].index("L2Fwd")
    assert [step.delay_us for step in found] == [500.0 if k == place + 1 else 0.0 for k in range(4)]


def test_links_are_shortened_by_what_their_emulation_takes() -> None:
    # A path with the link takes 560 µs more; the model has 500 µs and the base delay.
    assert calibration().lab_delay_us(500) == pytest.approx(500 + 10 - 60)
    found = calibration()
    found.crossings[20.0] = 90.0
    with pytest.raises(PlaceError, match="links take at least 60 µs"):
        found.lab_delay_us(20)


def test_the_profile_is_one_and_has_what_was_measured(tmp_path: Path) -> None:
    found = calibration()
    (tmp_path / "p.toml").write_text(profile_text("p4jet", found, 256, 1000))
    profile = load_profile("p.toml", folder=tmp_path, frame_bytes=256)
    assert profile.base_us == 10 and profile.rate_gbps == 0.6
    assert {name: extern.latency_us for name, extern in profile.externs.items()} == {f"pass-{name}": value for name, value in PASSES.items()}
    # A disturbed machine.
    found.base = [-5.0, -5.0]
    assert found.disturbed == ["base delay"] and found.base_us > 0


@needs_namespaces
@needs_p4jet
def test_a_plan_is_brought_up_and_compared(tmp_path: Path) -> None:
    one, _ = own_plans(calibration(), Options(), tmp_path)
    one.workload.chains = [chain for chain in one.workload.chains if chain.name == "chain2"]
    del one.plan.chains["chain1"]
    switch_cpu, tester_cpu = processors(None, None)
    options = Options(repetitions=1, seconds=0.1, switch_cpu=switch_cpu, tester_cpu=tester_cpu, programs=PROGRAMS)
    with Store(tmp_path / "store.sqlite") as store:
        (markdown, page), results = close(tmp_path / "out", options, one, store, progress=lambda _: None)
        sessions = store.sessions()
    (row,) = results
    assert row["where"] == "rack1-server1: LB → L3Fwd"
    assert row["modelled_us"] == pytest.approx(10 + 24 + 22)
    # Two software switches, whatever the machine does meanwhile.
    assert 5 < float(row["measured_us"]) < 1e6
    assert [session["failed"] for session in sessions] == [0, 0]
    text = markdown.read_text()
    for part in ("modelled", "measured", "| one device | chain2 |", "lost (measured)", "What this shows"):
        assert part in text
    assert page.stat().st_size > 5_000
    assert load_profile("p4jet.toml", folder=tmp_path / "out", frame_bytes=256).externs.keys() == {"pass-LB", "pass-L3Fwd"}


def test_errors_say_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, _ = own_plans(calibration(), Options(), tmp_path)
    (chain, where), _ = one.chains()
    other = type(chain)(chain.name, ("FW", "VDecap", "L3Fwd"), chain.rate_gbps, chain.delay_us)
    with pytest.raises(PlaceError, match=f"found function 'VDecap'; the loop has frames for {', '.join(SWITCHES)}"):
        steps(one.workload, one.cloud, other, where)
    assert main(["loop", "cloud.json", "--out", str(tmp_path / "out")]) == 1
    assert "found 1 files, expected none, or three" in capsys.readouterr().err
