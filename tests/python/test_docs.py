"""Every Python cell of docs/python.md runs, in order."""

import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])


def test_the_walk_through(dataset, capsys):
    text = (ROOT / "docs" / "python.md").read_text()
    cells = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(cells) >= 8
    names = {"data": str(dataset)}
    for number, cell in enumerate(cells):
        try:
            exec(compile(cell, f"cell {number}", "exec"), names)
        except Exception as error:
            pytest.fail(f"cell {number} of docs/python.md:\n{cell}\n{error!r}")
    out = capsys.readouterr().out
    assert "steps an epoch" in out and "waiting for batches" in out
    assert names["drawing"].startswith("<svg") and names["drawing"].rstrip().endswith("</svg>")
