"""The Python code in docs/python.md and python/README.md runs."""

import re
import shutil
from pathlib import Path

import pytest

from conftest import PROGRAMS, ROOT


@pytest.mark.parametrize("page", ["docs/python.md", "python/README.md"])
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    (tmp_path / "programs").symlink_to(PROGRAMS)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_the_complete_test_passes(pytester: pytest.Pytester) -> None:
    text = (ROOT / "docs/python.md").read_text()
    (block,) = (block for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if "def test_" in block)
    pytester.makepyfile(block)
    shutil.copytree(PROGRAMS / "basic_l2", pytester.path / "programs" / "basic_l2")
    pytester.runpytest_subprocess("-p", "p4jet.pytest_plugin").assert_outcomes(passed=1)
