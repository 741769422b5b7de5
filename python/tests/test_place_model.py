"""Profiles, functions, files and the generator of p4jet.place. Needs no root."""

import json
from pathlib import Path

import pytest

import p4jet.place
from p4jet.place import PlaceError, load_cloud, load_inputs, load_plan, load_workload, make_cloud, make_workload, save_cloud, save_plan, save_workload
from p4jet.place import check
from p4jet.place.files import load_functions, load_profile, shipped_profiles
from p4jet.place.generate import describe, presets
from p4jet.place.model import Chain, Embedding, Event, Plan, architecture, single_device_us
from place_clouds import FUNCTIONS, TYPES

KINDS = ("cpu", "npu", "fpga", "asic")


@pytest.mark.parametrize(
    ("name", "size", "delays"),
    [
        ("L2Fwd", 3, (0, 0.50, 0, 0)),
        ("L3Fwd", 5, (0, 1.11, 0.17, 0)),
        ("FW", 4, (0, 0.22, 0.34, 0)),
        ("Tunneling", 4, (0, 0.22, 0.34, 0)),
        ("VDecap", 16, (-1.08, 7.59, 1.07, 0)),
        ("LB", 4, (90, 40.22, 0.84, 0.2)),
        ("NAT", 6, (0, 1.22, 0.34, 0)),
    ],
)
def test_delays_of_functions_are_those_of_the_thesis(name: str, size: int, delays: tuple[float, ...]) -> None:
    function = FUNCTIONS[name]
    assert function.size == size
    for kind, delay in zip(KINDS, delays):
        assert TYPES[kind].function_us(function) == pytest.approx(delay, abs=1e-9)
        assert check.processing_us(TYPES[kind], function) == pytest.approx(delay, abs=1e-9)


@pytest.mark.parametrize(
    ("names", "delays"),
    [
        (("FW", "NAT", "L3Fwd"), (45.9, 10.00, 4.39, 2)),
        (("LB", "L3Fwd"), (135.9, 48.78, 4.55, 2.2)),
        (("FW", "LB", "L3Fwd"), (135.9, 49.0, 4.89, 2.2)),
    ],
)
def test_delays_of_chains_on_one_device(names: tuple[str, ...], delays: tuple[float, ...]) -> None:
    for kind, delay in zip(KINDS, delays):
        assert single_device_us(TYPES[kind], [FUNCTIONS[name] for name in names]) == pytest.approx(delay, abs=1e-9)


def test_pisa_and_psa_are_one_architecture() -> None:
    assert architecture("PISA") == architecture("psa")
    assert TYPES["asic"].accepts(FUNCTIONS["L3Fwd"])
    with pytest.raises(PlaceError, match="found architecture 'tna', expected one of: v1model, psa, sume"):
        architecture("tna")


PROFILE = """
version = 1
name = "agilio"
kind = "npu"
architectures = ["v1model"]
[base_us]
1500 = { value = 7.45, provenance = "measured" }
[cost_us]
parse = { value = 0.11, provenance = "fitted" }
modify = { value = 0.5, provenance = "fitted" }
copy = { value = 0.28, provenance = "fitted" }
remove = { value = 1.43, provenance = "fitted" }
add = { value = 1.59, provenance = "fitted" }
table = { value = 0.37, provenance = "fitted" }
[[rules]]
construct = "add"
above = 6
each_us = { value = 14.4, provenance = "fitted" }
[[rules]]
construct = "remove"
above = 7
once_us = { value = 17.68, provenance = "fitted" }
[limits]
rate_gbps = { value = 10, provenance = "assumed" }
constructs = { value = 500, provenance = "assumed", note = "assumed by the thesis" }
[economy]
power_w = { value = 65, provenance = "assumed" }
price_usd = { value = 500, provenance = "assumed" }
"""


def test_rules_of_a_profile(tmp_path: Path) -> None:
    (tmp_path / "agilio.toml").write_text(PROFILE)
    kind = load_profile("agilio.toml", folder=tmp_path, frame_bytes=1500)
    assert kind.base_us + kind.construct_us("add", 10) == pytest.approx(74.59)
    assert kind.construct_us("add", 6) == pytest.approx(9.54)
    assert kind.construct_us("remove", 7) == pytest.approx(10.01)
    assert kind.construct_us("remove", 8) == pytest.approx(29.12)
    assert "limits.constructs" in kind.assumed and "cost_us.add" not in kind.assumed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1", "version = 2", "version: found 2, expected 1"),
        ('kind = "npu"', 'kind = "gpu"', "kind: found 'gpu', expected one of: cpu, npu, fpga, asic"),
        ('["v1model"]', '["tna"]', "architectures: found architecture 'tna'"),
        ("1500 =", "64 =", "base_us: found frame sizes 64, expected 1500"),
        ('value = 0.11, provenance = "fitted"', "value = 0.11", "cost_us.parse: found no provenance, expected one"),
        ('value = 0.11, provenance = "fitted"', 'value = 0.11, provenance = "guessed"', "provenance: found 'guessed', expected one of: measured"),
        ("value = 0.28", 'value = "0.28"', "cost_us.copy.value: found '0.28', expected a number"),
        ("value = 0.28", "value = nan", "cost_us.copy.value: found nan, expected a number"),
        ("price_usd", "prise_usd", "economy: found no price_usd, expected one"),
        ("[economy]", "[economy]\ncolour = 1", "economy: found unknown key 'colour', expected one of: power_w, price_usd"),
        ("[economy]", "[deviation_us]", "found no [economy], expected it with power_w and price_usd, which placement needs"),
        ("above = 6", "above = -6", "above: found -6, expected a whole number of at least 0"),
        ("once_us", "twice_us", "rules[1]: found neither each_us nor once_us"),
        ("[limits]", "[limits", "expected TOML or JSON"),
    ],
)
def test_faults_of_a_profile(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in PROFILE
    (tmp_path / "bad.toml").write_text(PROFILE.replace(old, new))
    with pytest.raises(PlaceError) as error:
        load_profile("bad.toml", folder=tmp_path, frame_bytes=1500)
    assert str(tmp_path / "bad.toml") in str(error.value) and message in str(error.value)


def test_unknown_profiles_and_functions() -> None:
    with pytest.raises(PlaceError, match=r"found 'gpu', expected a file that ends in \.toml or one of: asic, cpu, fpga, npu"):
        load_profile("gpu", frame_bytes=1500)
    assert {"asic", "cpu", "fpga", "npu"} <= set(shipped_profiles())
    with pytest.raises(PlaceError, match="found no entries, expected the number of table entries"):
        load_functions("thesis", entries=None)


@pytest.mark.parametrize("name", presets())
def test_presets_survive_files(name: str, tmp_path: Path) -> None:
    inputs = load_inputs(name)
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    save_cloud(cloud, tmp_path / "cloud.json")
    save_workload(workload, tmp_path / "workload.json")
    assert load_cloud(tmp_path / "cloud.json") == cloud
    assert load_workload(tmp_path / "workload.json") == workload
    plan = Plan("cloud", "workload", "exact", {"a": Embedding(("x", "y"), (("x", "z", "y"),))}, {"i": "x"}, ["b"], True)
    save_plan(plan, tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == plan
    # Every input is shown.
    shown = describe(inputs)
    assert all(f"cloud.{key} = " in shown for key in inputs.cloud)


def test_the_cloud_of_experiment_4() -> None:
    cloud = make_cloud(load_inputs("exp4"))
    numbers = {kind: sum(device.type == kind for device in cloud.devices.values()) for kind in KINDS}
    assert numbers == {"cpu": 160, "npu": 80, "fpga": 80, "asic": 4}


@pytest.mark.parametrize("key", ["racks", "pcie_gbps", "fabric_us", "ipu_ratio", "seed", "frame_bytes"])
def test_no_input_has_a_default(key: str) -> None:
    inputs = load_inputs("exp4")
    del inputs.cloud[key]
    with pytest.raises(PlaceError, match=f"found no {key}, expected one"):
        make_cloud(inputs)


@pytest.mark.parametrize("key", ["entries_per_function", "obligatory", "order", "seed", "chains", "best_effort_us"])
def test_no_input_of_a_workload_has_a_default(key: str) -> None:
    inputs = load_inputs("exp4")
    del inputs.workload[key]
    with pytest.raises(PlaceError, match=f"found no {key}, expected"):
        make_workload(inputs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"racks": 0}, "racks: found 0, expected a whole number of at least 1"),
        ({"racks": 9}, "arity: found 4 for 9 racks"),
        ({"ipu_ratio": 1.5}, "ipu_ratio: found 1.5, expected a number 0 to 1"),
        ({"fabric": "ring"}, "fabric: found 'ring', expected none, star, leaf-spine, fat-tree"),
        ({"asic_type": "gpu"}, "found type 'gpu', expected one of: cpu, npu, fpga, asic"),
        ({"colour": 1}, "found unknown key 'colour'"),
        ({"racks": 10**6}, "nodes, expected at most"),
    ],
)
def test_faults_of_inputs(values: dict[str, object], message: str) -> None:
    with pytest.raises(PlaceError) as error:
        make_cloud(load_inputs("exp4").changed(cloud=values))
    assert message in str(error.value)


def test_fabrics(tmp_path: Path) -> None:
    small = {"racks": 3, "servers_per_rack": 1}
    inputs = load_inputs("exp4").changed(cloud=small)
    assert len(make_cloud(inputs).switches) == 2 * 2 + 4
    for fabric, changes, switches in (("star", {}, 1), ("leaf-spine", {"spines": 2}, 2), ("none", {}, 0)):
        changed = inputs.changed(cloud={"fabric": fabric, **changes})
        del changed.cloud["arity"]
        if fabric == "none":
            del changed.cloud["fabric_us"], changed.cloud["fabric_gbps"]
        assert len(make_cloud(changed).switches) == switches
    (tmp_path / "ring.edges").write_text("tor1 tor2\ntor2 middle\nmiddle tor3\n")
    changed = inputs.changed(cloud={"fabric": "ring.edges"})
    del changed.cloud["arity"]
    changed.folder = tmp_path
    cloud = make_cloud(changed)
    assert list(cloud.switches) == ["middle"] and sum(link.one == "tor1" and link.other == "tor2" for link in cloud.links) == 1
    (tmp_path / "ring.edges").write_text("tor1 tor2\n")
    with pytest.raises(PlaceError, match="found no node tor3, expected all of tor1 to tor3"):
        make_cloud(changed)


def test_seeds_decide_which_racks_get_what() -> None:
    inputs = load_inputs("exp4").changed(cloud={"racks": 8, "asic_ratio": 0.5})

    def asics(seed: int) -> list[str]:
        return [name for name, device in make_cloud(inputs.changed(cloud={"seed": seed})).devices.items() if device.type == "asic"]

    assert asics(0) == ["tor1", "tor2", "tor3", "tor4"]
    assert asics(7) == asics(7) and asics(7) != asics(8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["links"].append({"ends": ["tor1", "nowhere"], "rate_gbps": 1}), "found no node 'nowhere'"),
        (lambda d: d["links"].append({"ends": ["tor1"], "rate_gbps": 1}), "found 1 nodes, expected two"),
        (lambda d: d["devices"].append(dict(d["devices"][0])), "found a second node"),
        (lambda d: d["devices"][0].update(type="gpu"), "found type 'gpu'"),
        (lambda d: d["devices"][0].update(tipe="gpu"), "found unknown key 'tipe'"),
        (lambda d: d.update(kind="workload"), "kind: found 'workload', expected 'cloud'"),
        (lambda d: d.update(frame_bytes=64), "found frame sizes 1500, expected 64"),
        (lambda d: d.pop("devices"), "found no devices, expected one"),
    ],
)
def test_faults_of_a_cloud(tmp_path: Path, change: object, message: str) -> None:
    save_cloud(make_cloud(load_inputs("exp1")), tmp_path / "cloud.json")
    data = json.loads((tmp_path / "cloud.json").read_text())
    change(data)  # type: ignore[operator]
    (tmp_path / "cloud.json").write_text(json.dumps(data))
    with pytest.raises(PlaceError) as error:
        load_cloud(tmp_path / "cloud.json")
    assert message in str(error.value) and "cloud" in str(error.value)


def test_workloads_with_events() -> None:
    inputs = load_inputs("exp4").changed(workload={"chains": 50, "arrivals_per_s": 2, "holding_s": 10})
    workload = make_workload(inputs)
    assert len(workload.events) == 100 and workload == make_workload(inputs)
    events = list(workload.events)
    workload.events[0] = Event(1e9, events[0].chain, True)
    with pytest.raises(PlaceError, match="expected the order of time"):
        workload.check()
    workload.events = events[::-1]
    with pytest.raises(PlaceError, match="event 0: found a departure of chain .*, expected its arrival before"):
        workload.check()
    workload.events.clear()
    workload.chains.append(Chain("chain1", ("Router",), 1, 1))
    with pytest.raises(PlaceError, match="found function 'Router', expected one of: L2Fwd"):
        workload.check()


@pytest.mark.parametrize("profile", shipped_profiles())
def test_profiles_are_those_of_the_binary(profile: str) -> None:
    of_binary = Path(__file__).parents[2] / "profiles" / f"{profile}.toml"
    assert of_binary.read_text() == (Path(p4jet.place.__file__).parent / "data" / "profiles" / f"{profile}.toml").read_text()
