"""Every Python cell of the pages below docs runs, in order, and every import."""

import gzip
import importlib.util
import os
import pathlib
import re
import shlex
import subprocess

import pytest
from records import example, frame

from millrace import _binaries

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


def localised(line, folder):
    """A command of the page with this machine's folder, and datasets that are made here."""
    line = line.replace("/srv/plugins", str(folder))
    return line.replace("rotten_tomatoes", "./reviews").replace("mnist", "there_is_none")


def test_every_import_of_the_page_runs(tmp_path):
    text = (ROOT / "docs" / "import.md").read_text()
    for name, module in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", text, re.M | re.S):
        (tmp_path / name).write_text(module)
    (tmp_path / "old").mkdir()
    for name in ("part-0", "part-1"):
        (tmp_path / "old" / f"{name}.gz").write_bytes(gzip.compress(frame(example({"x": [1]}))))
    (tmp_path / "reviews").mkdir()
    (tmp_path / "reviews" / "train.csv").write_text("text,label\ngood,1\nbad,0\n")
    (block,) = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    sources = {}
    for line in block.splitlines():
        words = shlex.split(localised(line, tmp_path))
        done = subprocess.run([_binaries.path("millrace"), *words[1:]], cwd=tmp_path, timeout=300,
                              capture_output=True, text=True, check=False)
        framework = {"hf": "datasets", "tfds": "tensorflow_datasets"}.get(words[2])
        if framework and not importlib.util.find_spec(framework):
            assert f"need the package {framework}" in done.stderr
        elif words[2] == "tfds":  # its datasets come from the network
            assert "there_is_none cannot be opened" in done.stderr
        else:
            assert done.returncode == 0, f"{line}:\n{done.stderr}"
            sources[words[-1]] = done.stdout
    assert {"data/chess", "data/speech", "data/three"} <= set(sources)
    assert sources["data/speech"] in text
