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


def test_every_page_with_cells_has_a_test_that_runs_them():
    # test_bring_your_data.py, test_language_models.py and test_ray.py run those that this file does
    # not.
    run = {"formats/tokens.md", "guides/bring-your-data.md", "guides/graphs.md",
           "guides/import.md", "guides/language-models.md", "guides/plugins.md", "guides/ray.md",
           "reference/python.md", "start/python.md"}
    docs = ROOT / "docs"
    found = {str(p.relative_to(docs)) for p in docs.rglob("*.md") if "```python" in p.read_text()}
    assert found == run


def test_a_graph_is_brought(tmp_path, capsys):
    names = {"folder": tmp_path / "graph"}
    assert run_cells("guides/graphs.md", names) == 1
    assert names["digest"] in capsys.readouterr().out
    assert (tmp_path / "graph" / "graph.json").exists()


def test_the_walk_through(dataset, capsys):
    names = {"data": str(dataset)}
    assert run_cells("start/python.md", names) + run_cells("reference/python.md", names) >= 8
    out = capsys.readouterr().out
    assert "steps per epoch" in out and "waiting for batches" in out
    assert names["drawing"].startswith("<svg") and names["drawing"].rstrip().endswith("</svg>")


def localised(line, folder):
    """A command of the page with this machine's folder, and datasets that are made here."""
    line = line.replace("/srv/plugins", str(folder))
    return line.replace("rotten_tomatoes", "./reviews").replace("mnist", "there_is_none")


def test_every_import_of_the_page_runs(tmp_path):
    text = (ROOT / "docs/guides/import.md").read_text()
    for name, module in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", text, re.M | re.S):
        (tmp_path / name).write_text(module)
    (tmp_path / "old").mkdir()
    for name in ("part-0", "part-1"):
        (tmp_path / "old" / f"{name}.gz").write_bytes(gzip.compress(frame(example({"x": [1]}))))
    (tmp_path / "reviews").mkdir()
    (tmp_path / "reviews" / "train.csv").write_text("text,label\ngood,1\nbad,0\n")
    block, _ = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    sources = {}
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(localised(line, tmp_path))
        done = subprocess.run([_binaries.path("millrace"), *words[1:]], cwd=tmp_path,
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


def bring_graphs(folder):
    """The files that the imports of graphs read."""
    import numpy
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    def save(name, **columns):
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / name)

    save("links.parquet", src=[0, 1, 1], dst=[1, 2, 0])
    (folder / "citations").mkdir()
    for part in ("a", "b"):
        save(f"citations/{part}.parquet", citing=[2, 1], cited=[0, 0], kind=["builds on", part],
             year=[2001, 1999])
    numpy.save(folder / "x.npy", numpy.ones((4, 2), "float32"))
    numpy.save(folder / "train.npy", numpy.array([2, 1]))
    (folder / "soc-pokec.txt.gz").write_bytes(gzip.compress(b"# from to\n0\t1\n1\t2\n"))
    (folder / "trust.csv").write_text("source,target,rating\nann,bob,9\nbob,eve,-2\n")
    (folder / "train.txt").write_text("eve\n")
    cora = folder / "datasets" / "cora"
    cora.mkdir(parents=True)
    numpy.save(cora / "edges.npy", numpy.array([[0, 1], [1, 0]]))
    (cora / "metadata.yaml").write_text(
        "graph: {nodes: [{num: 2}], edges: [{format: numpy, path: edges.npy}]}\n")


def test_every_import_of_a_graph_runs(tmp_path):
    text = (ROOT / "docs/guides/import.md").read_text()
    bring_graphs(tmp_path)
    _, block = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    lines = block.replace("\\\n", " ").splitlines()
    assert len(lines) == 6
    for line in lines:
        words = shlex.split(line.replace("ogbn-arxiv", "there_is_none"))
        done = subprocess.run([_binaries.path("millrace"), *words[1:]], cwd=tmp_path,
                              capture_output=True, text=True, check=False)
        if words[2] == "ogb":  # its datasets come from the network
            assert done.returncode == 2 and "there_is_none" in done.stderr
            continue
        assert done.returncode == 0, f"{line}:\n{done.stderr}"
        assert (tmp_path / words[-1] / "graph.json").exists()
        seen = subprocess.run([_binaries.path("millrace"), "inspect", words[-1]], cwd=tmp_path,
                              capture_output=True, text=True, check=False)
        assert seen.returncode == 0, seen.stderr


# Stands for the package transformers, whose models come from the network.
TRANSFORMERS = """
class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, name):
        assert name == "gpt2"
        return lambda texts: {"input_ids": [list(text.encode()) for text in texts]}
"""


def write_texts(folder):
    """The files that the imports of texts read, and the module of the page. Returns the page."""
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    text = (ROOT / "docs/formats/tokens.md").read_text()
    (cell,) = re.findall(r"^```python\n# gpt2\.py\n(.*?)^```", text, re.M | re.S)
    (folder / "plugins").mkdir()
    for path in (folder, folder / "plugins"):
        (path / "gpt2.py").write_text(cell)
    (folder / "transformers.py").write_text(TRANSFORMERS)
    lines = b'{"text": "a b"}\n{"text": ""}\n'
    (folder / "web-0.jsonl").write_bytes(lines)
    (folder / "web-1.jsonl.gz").write_bytes(gzip.compress(lines))
    pyarrow.parquet.write_table(pyarrow.table({"body": ["c"]}), folder / "books.parquet")
    return text


def test_every_import_of_texts_runs(tmp_path):
    text = write_texts(tmp_path)
    (block,) = [block for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) if "import" in block]
    lines = block.replace("\\\n", " ").splitlines()
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line.replace("/srv/plugins", str(tmp_path / "plugins")))
        done = subprocess.run([_binaries.path("millrace"), *words[1:]], cwd=tmp_path, capture_output=True,
                              text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(
                                  [str(tmp_path), os.environ.get("PYTHONPATH", "")])})
        assert done.returncode == 0, f"{line}:\n{done.stderr}"
        assert done.stdout == "source: tokens\n"
        assert (tmp_path / words[-1] / "import.json").exists()
    names = {path.name for path in (tmp_path / "data/web").iterdir()}
    assert names == {"import.json", "web-0.bin", "web-0.idx", "web-1.bin", "web-1.idx"}
    assert (tmp_path / "data/web/web-0.bin").read_bytes() == b"".join(
        token.to_bytes(2, "little") for token in (*b"a b", 50256, 50256))


def test_the_errors_of_the_page_of_tokens_are_those_of_imports(tmp_path, monkeypatch, capsys):
    from millrace._import import main as command

    text = write_texts(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text("def f(texts):\n    return [[1]] * len(texts)\n")
    (tmp_path / "mine.py").write_text("def f(texts):\n    return [[1], [1, 70000]]\n")
    good = '{"text": "a"}\n'

    def said(file, content, *words):
        if content is not None:
            (tmp_path / file).write_text(content)
        assert command.main(["tokens", file, "--to", "out", *words]) == 3
        return capsys.readouterr().err.removeprefix("millrace: ")

    assert said("web-0.jsonl", good + '{"content": "a", "id": 1}\n', "--tokenizer", "plain:f") in text
    assert said("web-0.jsonl", good * 2, "--tokenizer", "mine:f") in text
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"body": ["a", None]}), tmp_path / "books.parquet")
    assert said("books.parquet", None, "--column", "body", "--tokenizer", "plain:f") in text


def test_the_errors_of_the_page_are_those_of_imports(tmp_path, monkeypatch, capsys):
    from millrace._import import main as command

    text = (ROOT / "docs/guides/import.md").read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "soc-pokec.txt.gz").write_bytes(gzip.compress(b"#\n" * 6 + b"0 x\n"))
    assert command.main(["edges", "soc-pokec.txt.gz", "--to", "out"]) == 3
    said = [capsys.readouterr().err]
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"source": [0] * 17 + [-1], "target": [0] * 18}),
                                "links.parquet")
    assert command.main(["parquet", "links.parquet", "--to", "out"]) == 3
    said.append(capsys.readouterr().err)
    for message in said:
        assert message.removeprefix("millrace: ") in text
