"""Every Python cell of the pages below docs runs, in order."""

import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])


def run_cells(page, names):
    """Runs the cells of a page, and returns how many there were."""
    text = (ROOT / "docs" / page).read_text()
    cells = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for number, cell in enumerate(cells):
        try:
            exec(compile(cell, f"cell {number}", "exec"), names)
        except Exception as error:
            pytest.fail(f"cell {number} of docs/{page}:\n{cell}\n{error!r}")
    return len(cells)


def test_a_graph_is_brought(tmp_path, capsys):
    names = {"folder": tmp_path / "graph"}
    assert run_cells("graph-datasets.md", names) == 1
    assert names["digest"] in capsys.readouterr().out
    assert (tmp_path / "graph" / "graph.json").exists()


def test_the_walk_through(dataset, capsys):
    names = {"data": str(dataset)}
    assert run_cells("python.md", names) >= 8
    out = capsys.readouterr().out
    assert "steps an epoch" in out and "waiting for batches" in out
    assert names["drawing"].startswith("<svg") and names["drawing"].rstrip().endswith("</svg>")
