"""The command p4jet-place, and what docs/place.md shows."""

import json
import re
import shlex
from pathlib import Path

import pytest

from conftest import ROOT
from p4jet.place import load_plan
from p4jet.place.cli import main

PAGE = ROOT / "docs/place.md"


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (session,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    compared = 0
    for step in ("\n" + session).split("\n$ ")[1:]:
        command, _, shown = step.partition("\n")
        words = shlex.split(command)
        assert words[0] == "p4jet-place"
        assert main(words[1:]) == 0, command
        # Times differ from run to run.
        said = re.sub(r"[0-9.]+ m?s\b", "T", capsys.readouterr().out)
        for line in re.sub(r"[0-9.]+ m?s\b", "T", shown).splitlines():
            assert line in said.splitlines(), command
            compared += 1
    assert compared >= 6
    report = (tmp_path / "report/report.md").read_text()
    assert (tmp_path / "report/report.html").stat().st_size > 10_000
    for row in (
        "| delays | ω and Δ of 7 functions | 35 values | 35 equal | reproduced |",
        "| greedy | order of types (Eq. 5.32) | CPU, NPU, ASIC, FPGA | CPU, NPU, ASIC, FPGA | reproduced |",
        "| scenario 2 | devices at about 200 (196) | 25 CPUs | 25 cpu | reproduced |",
        "| exp. 1 | functions, length 6: 10 µs / 100 µs / best effort | 78 / 126 / 162 | 78 / 126 / 162 | relation only |",
        "| exp. 3 | capacity at 0.5 / 1 | +125 % / +250 % | +125 % / +250 % | reproduced |",
        "same power for 2 of 2 chains",
    ):
        assert row in report


def test_the_python_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})


def test_the_profile_of_the_page_is_one(tmp_path: Path) -> None:
    from p4jet.place import load_profile

    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "page.toml").write_text(block)
    assert load_profile("page.toml", folder=tmp_path, frame_bytes=1500).rules


def test_the_page_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text()
    for command in ("generate", "plan", "embed", "check", "experiments", "loop"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        for option in re.findall(r"^  +(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE):
            assert f"`{option}" in text or f" {option} " in text, option


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sizes = ["cloud.racks=1", "cloud.servers_per_rack=2", "workload.chains=30"]
    assert main(["generate", "exp4", "--out", "."] + [word for size in sizes for word in ("--set", size)]) == 0
    return tmp_path


@pytest.mark.parametrize("method", ["exact", "heuristic", "agnostic", "together", "ilp", "greedy"])
def test_each_method_writes_a_plan_that_passes(folder: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--size-min", "9", "--rate-min", "1", "--rate-per", "chain"] if method == "greedy" else []
    assert main(["embed", "cloud.json", "workload.json", "--out", "plan.json", "--method", method, *more]) == 0
    assert main(["check", "cloud.json", "workload.json", "plan.json"]) == 0
    assert "0 broken constraints" in capsys.readouterr().out
    plan = load_plan("plan.json")
    assert len(plan.chains) + len(plan.rejected) == 30 and plan.method == method
    # Another rate of a link, and the checker objects.
    data = json.loads(Path("cloud.json").read_text())
    data["profiles"] = ["npu", "fpga", "asic", str(folder / "cpu.toml")]
    (folder / "cpu.toml").write_text(
        (ROOT / "python/p4jet/place/data/profiles/cpu.toml").read_text().replace('constructs = { value = 1000', 'constructs = { value = 1')
    )
    Path("cloud.json").write_text(json.dumps(data))
    assert main(["check", "cloud.json", "workload.json", "plan.json"]) == 1
    assert "Eq. 5.11" in capsys.readouterr().out


def test_a_given_plan_stays_and_improves(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(Path("workload.json").read_text())
    some = {**data, "chains": data["chains"][:10]}
    Path("some.json").write_text(json.dumps(some))
    assert main(["embed", "cloud.json", "some.json", "--out", "some-plan.json"]) == 0
    assert main(["embed", "cloud.json", "workload.json", "--given", "some-plan.json", "--out", "plan.json"]) == 0
    given, plan = load_plan("some-plan.json"), load_plan("plan.json")
    assert all(plan.chains[name] == embedding for name, embedding in given.chains.items()) and len(plan.chains) > 10
    assert main(["embed", "cloud.json", "some.json", "--improve", "3", "--exactly", "--out", "less.json"]) == 0
    assert re.search(r"[0-3] moves: \d+ W before, \d+ W now", capsys.readouterr().out)


def test_why_a_chain_is_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", "cloud.json", "workload.json", "--out", "plan.json", "--explain"]) == 0
    said = capsys.readouterr().out
    assert "These constraints exclude each other: 5.14 (extern throughput); 5.26 (ingress throughput)" in said
    assert "  5.14: extern[siphash24,tor1] by 1 Gbit/s" in said
    assert main(["embed", "cloud.json", "workload.json", "--out", "plan.json", "--moves", "2"]) == 0


def test_a_budget_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["generate", "vnf", "--out", "."]) == 0
    arguments = ["plan", "cloud.json", "workload.json", "--mu", "1", "--epsilon", "0", "--out", "plan.json"]
    assert main([*arguments, "--budget", "1000"]) == 1
    said = capsys.readouterr()
    assert "there is no plan" in said.err and "5.15: budget by 3000 $" in said.out
    assert not Path("plan.json").exists()
    assert main([*arguments, "--budget", "100000"]) == 0
    assert main(["check", "cloud.json", "workload.json", "plan.json", "--budget", "50000"]) == 1
    assert "Eq. 5.15, cloud: found $ 96500, expected at most $ 50000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("generate exp9 --out d", "found 'exp9', expected a file that ends in .toml or .json, or one of: exp1, exp2, exp3, exp4, vnf"),
        ("generate exp4 --out d --set racks=1", "--set: found 'racks=1', expected cloud.KEY=VALUE or workload.KEY=VALUE"),
        ("generate exp4 --out d --set cloud.rack=1", "--set: found 'cloud.rack', expected one of: cloud.racks"),
        ("generate exp4 --out d --set cloud.racks=many", "cloud.racks: found 'many', expected a whole number"),
        ("embed nowhere.json workload.json --out p", "nowhere.json: No such file or directory"),
        ("embed workload.json workload.json --out p", "kind: found 'workload', expected 'cloud'"),
        ("embed cloud.json workload.json --out p --method greedy", "greedy: found no --size-min, expected it"),
        ("embed cloud.json workload.json --out p --lp p.lp", "--lp: found method exact, expected ilp"),
        ("embed cloud.json workload.json --out p --method greedy --given p", "which starts with an empty cloud"),
        ("embed cloud.json workload.json --out /proc/nothing/p", "No such file or directory"),
        ("plan cloud.json workload.json --mu 1 --epsilon 1 --out p", "found no instances, expected at least one"),
        ("plan cloud.json workload.json --mu 1 --epsilon 0 --shared --out p", "--shared: found method counting, expected ilp"),
        ("experiments --out d --only exp9", "--only: found 'exp9', expected some of: delays, scenarios"),
        ("experiments --out d --racks 4,x", "--racks: found '4,x', expected numbers of racks"),
    ],
)
def test_errors(folder: Path, words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error


@pytest.mark.parametrize("words", ["", "embed", "plan c w --mu x --epsilon 1 --out p", "embed c w --out p --moves -1"])
def test_wrong_usage(words: str) -> None:
    with pytest.raises(SystemExit) as exit:
        main(words.split())
    assert exit.value.code == 2
