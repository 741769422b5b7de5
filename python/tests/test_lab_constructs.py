"""The micro-benchmarks of constructs: the analyser counts in each program what it is meant to have, and nothing else."""

import json
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from p4jet import Switch
from p4jet.lab import LabError
from p4jet.lab.constructs import FAMILIES, HEADERS, STACK_BYTES, Benchmark, family, frame, write
from p4jet.lab.switches.p4jet import binary

ALL = [benchmark for name in FAMILIES for benchmark in family(name)]


def constructs(benchmark: Benchmark, folder: Path) -> dict:
    """Returns the only path of the benchmark's packets on which every table hits and sets the port."""
    program = folder / f"{benchmark.name}.p4"
    program.write_text(benchmark.program)
    done = subprocess.run([binary(), "check", program, "--constructs", "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    report = json.loads(done.stdout)
    assert not report["paths_more"]
    lookups = [(path, path["counts"]["lookups"]) for path in report["paths"] if path["sent"]]
    (path,) = (path for path, ups in lookups if all(up["hit"] and up["action"].endswith(".set_port") for up in ups))
    return path


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> dict[str, dict]:
    if binary() is None:
        pytest.skip("there is no program p4jet: set P4JET, or build it")
    folder = tmp_path_factory.mktemp("constructs")
    with ThreadPoolExecutor(2) as pool:
        return dict(zip((b.name for b in ALL), pool.map(lambda b: constructs(b, folder), ALL)))


def test_there_are_seven_families_with_the_counts_of_the_thesis():
    assert list(FAMILIES) == ["parse", "fields", "modify", "copy", "remove", "add", "table"]
    counts = {name: [benchmark.count for benchmark in family(name)] for name in FAMILIES}
    assert counts["parse"] == list(range(1, 15))
    assert counts["modify"] == counts["table"] == list(range(15))
    assert counts["copy"] == counts["remove"] == counts["add"] == list(range(11))
    assert len({benchmark.name for benchmark in ALL}) == len(ALL)


def test_only_the_construct_differs(paths):
    for benchmark in ALL:
        assert paths[benchmark.name]["x"] == list(benchmark.x), benchmark.name
    for name, of in FAMILIES.items():
        vectors = [benchmark.x for benchmark in family(name)]
        varied = {i for i in range(6) if len({x[i] for x in vectors}) > 1}
        assert varied == (set() if of.construct is None else {of.construct}), name
        if of.construct is not None:
            assert [x[of.construct] - vectors[0][of.construct] for x in vectors] == list(range(len(vectors))), name


def test_fields_of_one_header_count_once(paths):
    written = {b.name: paths[b.name]["counts"]["fields_written"] for b in family("fields")}
    assert written == {b.name: b.count for b in family("fields")}
    assert sorted(written.values()) == [1, 1, 1, 2, 2, 2, 3]


def test_finer_counts_follow(paths):
    for benchmark in family("remove"):
        assert paths[benchmark.name]["counts"]["emitted_bytes"] == STACK_BYTES - 16 * benchmark.count
    for benchmark in family("add"):
        assert paths[benchmark.name]["counts"]["emitted_bytes"] == 76 + 16 * benchmark.count
    for benchmark in family("copy"):
        assert paths[benchmark.name]["counts"]["copied_bytes"] == 16 * benchmark.count
    lookups = paths["table-3"]["counts"]["lookups"]
    assert [(lookup["table"], lookup["key_bits"]) for lookup in lookups] == [("ingress.forward", 9)] + [(f"ingress.more{i}", 16) for i in range(3)]


@pytest.mark.parametrize("name", ["parse-1", "parse-14", "fields-ipv4-3", "modify-14", "copy-10", "remove-10", "add-10", "table-14"])
def test_packets_come_back(name, tmp_path):
    (benchmark,) = (benchmark for benchmark in ALL if benchmark.name == name)
    program = tmp_path / "program.p4"
    program.write_text(benchmark.program)
    switch = Switch(program)
    for line in benchmark.commands.splitlines():
        switch.command(line)
    (out,) = switch.send(benchmark.frame, port=benchmark.in_port)
    assert out.port == benchmark.out_port
    growth = {"remove": -16, "add": 16}.get(benchmark.family, 0) * benchmark.count
    data = bytes(out)
    assert len(data) == len(benchmark.frame) + growth
    # The message that a tester timestamps survives, except for fields that are modified.
    assert data[12:14] == b"\x08\x00" and data[36:38] == struct.pack("!H", 319) and data[42:46] == benchmark.frame[42:46]


def test_frames_are_right():
    for size in (STACK_BYTES, 256, 1000, 1500):
        data = frame(size)
        assert len(data) == size
        words = struct.unpack("!10H", data[14:34])
        assert sum(words) % 0xFFFF == 0 and words[1] == size - 14
        assert struct.unpack("!H", data[38:40]) == (size - 34,)
        assert data[76:92] == b"\1" * 16 and data[STACK_BYTES - 16 : STACK_BYTES] == b"\x0a" * 16
    assert frame(1300, 4)[76:] == bytes(1300 - 76)
    for wrong in ((235, 14), (1501, 14), (1000, 0), (1000, 15)):
        with pytest.raises(LabError, match="headers"):
            frame(*wrong)


def test_faults_are_named(tmp_path):
    with pytest.raises(LabError, match="'shift'.*parse, fields, modify"):
        family("shift")
    with pytest.raises(LabError, match="at most 1300 bytes, not 1500"):
        family("add", size=1500)
    programs = write(tmp_path / "out", size=1500)
    assert len(programs) == len(ALL) and all(p.with_suffix(".cmd").exists() and p.with_suffix(".pcap").exists() for p in programs)
    assert len(HEADERS) == 14
