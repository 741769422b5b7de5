"""The report of the tables of the performance thesis."""

import re
from pathlib import Path

import pytest

from conftest import PROGRAMS, ROOT
from lab_networks import needs_p4jet
from p4jet.lab.cli import main
from p4jet.lab.errors import LabError
from p4jet.lab.performance_report import COUNTS, EXACT, LABELS, Figure, published

TABLES = [
    "T2.1 Devices", "T3.1 Micro-benchmarks", "T3.6 Relative properties", "4.2 Delays of constructs", "T4.1 Validation of estimates",
    "4.7 Queueing models", "8.1 Stability limits", "8.1 Sojourn times", "T5.5 Catalogue of functions", "T5.6 Catalogue of devices",
    "8.1 Delays of functions and chains (Eq. 5.1)", "4.8 Scenarios of PA-P4VNF-RA", "4.9 Experiments of PA-P4SFC-E",
    "T5.1 Placement in other publications",
]  # fmt: skip


def rows(text: str) -> "dict[str, list[list[str]]]":
    """Returns the rows of the table under each heading that has figures."""
    found = {}
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body.splitlines() if line.startswith("|")]
        if lines and lines[0][1:2] == ["thesis"]:
            found[title] = lines[2:]
    return found


@needs_p4jet
def test_the_report_has_every_table_and_each_figure_a_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--quick", "--packets", "2000", "--racks", "1", "--programs", str(PROGRAMS), "--out", str(tmp_path)]
    assert main(["thesis", *arguments]) == 0
    assert f"wrote {tmp_path}/report.html" in capsys.readouterr().out
    found = rows((tmp_path / "report.md").read_text())
    assert list(found) == TABLES
    for title, figures in found.items():
        assert figures, title
        for what, thesis, ours, label, _ in figures:
            assert what and thesis and ours, (title, what)
            assert label in LABELS, (title, what)
    labels = {title: [row[3] for row in figures] for title, figures in found.items()}
    # What formulas with published inputs give is exact: nothing here may become worse.
    for title in ("8.1 Stability limits", "T5.5 Catalogue of functions", "T5.6 Catalogue of devices", "8.1 Delays of functions and chains (Eq. 5.1)"):
        assert set(labels[title]) == {EXACT}, title
    assert set(labels["8.1 Sojourn times"]) == {EXACT, "simulated"}
    estimated = [row for row in found["T4.1 Validation of estimates"] if not row[0].endswith("measured")]
    assert len(estimated) == 18 and {row[3] for row in estimated} == {EXACT}
    unstable = [row for row in found["4.7 Queueing models"] if row[0].startswith("unstable")]
    assert len(unstable) == 3 and {row[3] for row in unstable} == {EXACT}
    assert "not reproducible" in labels["T4.1 Validation of estimates"]
    assert (tmp_path / "placement/report.md").exists()
    page = (tmp_path / "report.html").read_text()
    assert all(title in page for title in TABLES)


def test_the_printed_values_are_those_of_the_library() -> None:
    """`crates/predict` has T4.1 for its own tests; both must agree."""
    source = (ROOT / "crates/predict/src/thesis.rs").read_text()
    found = re.findall(
        r'Nf \{\s*name: "([^"]+)",\s*counts: \[([^]]+)\],\s*measured_us: \[([^]]+)\],\s*estimated_us: \[([^]]+)\]', source
    )
    ours = [
        (of["name"], of["counts"], of["measured"], of["estimated"]) for of in published()["T4.1"]["functions"]
    ]
    numbers = [(name, [int(x) for x in counts.split(",")], [float(x) for x in measured.split(",")], [float(x) for x in estimated.split(",")])
               for name, counts, measured, estimated in found]  # fmt: skip
    assert len(found) == 3 and numbers == ours
    assert re.search(r"DEVICES: \[&str; 3\] = \[([^]]+)\]", source)[1].replace('"', "").split(", ") == published()["devices"]  # type: ignore[index]


def test_the_data_are_consistent() -> None:
    data = published()
    assert {figure["construct"] for figure in data["4.2"]["figures"]} == set(COUNTS)
    assert {figure["device"] for figure in data["4.2"]["figures"]} == set(data["devices"])
    assert all(len(row["limits"]) == len(data["8.1 stability"]["columns"]) for row in data["8.1 stability"]["rows"])


def test_no_figure_without_a_label() -> None:
    with pytest.raises(LabError, match="figure x: found label '', expected one of: exact, simulated, modelled, not reproducible"):
        Figure("x", "1", "1", "")


@needs_p4jet
def test_some_sections(tmp_path: Path) -> None:
    assert main(["thesis", "--quick", "--sections", "constructs", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "report.md").read_text()
    assert list(rows(text)) == ["4.2 Delays of constructs"]
    # §3.8: ten added headers on the Agilio; the thesis measured 75.4 µs.
    assert "| add 6 → 10, agilio-cx | 16.2 → 75.4 | 17.3 → 74.9 (+57.6) | modelled |" in text
    assert not (tmp_path / "placement").exists()
    with pytest.raises(SystemExit):
        main(["thesis", "--sections", "nothing"])
