"""The example notebook runs from its first cell to its last."""

from typing import Any

from conftest import ROOT


def test_the_notebook_runs() -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook: Any = nbformat.read(ROOT / "python/examples/first_steps.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    kinds = {kind for output in outputs for kind in output.get("data", ())}
    # The picture of the program, the trace as a table, the plot.
    assert {"image/svg+xml", "text/html", "image/png"} <= kinds
