"""`millrace import parquet` and `edges`: the arrays are those that write_graph gives for the same
edges, whatever memory there is, and an import goes on after a kill."""

import gzip
import io
import json
import os
import subprocess
import sys

import numpy
import pytest
from conftest import in_a_fork
from kills import Killed

import millrace
from millrace import _binaries
from millrace._import import journal as journals
from millrace._import import main as command


def run_import(*words, cwd):
    return subprocess.run([_binaries.path("millrace"), "import", *map(str, words)], cwd=cwd,
                          capture_output=True, text=True, timeout=120, check=False)


def imported(folder, *words):
    """Runs an import into folder/out in this process, which is faster, and expects success."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert command.main([*map(str, words), "--to", "out"]) == 0
    finally:
        os.chdir(before)
    return folder / "out"


def refused(capsys, folder, code, message, *words):
    """An import that gives this exit code and a message, and leaves no folder."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        capsys.readouterr()
        got = command.main([*map(str, words), "--to", "out"])
        text = capsys.readouterr().err
        assert message in text and got == code, f"{got}: {text}"
        assert text.startswith("millrace: ") and text.count("\n") == 1, text
        assert not (folder / "out").exists()
    finally:
        os.chdir(before)


def content(folder):
    """The bytes of every array, by its name, and what graph.json says besides their paths."""
    described = json.loads((folder / "graph.json").read_text())
    arrays = described.pop("arrays")
    return described, {name: (folder / one["path"]).read_bytes() for name, one in arrays.items()}


def same(imported_folder, written_folder):
    left, right = content(imported_folder), content(written_folder)
    assert left[0] == right[0] and set(left[1]) == set(right[1])
    for name, data in left[1].items():
        assert data == right[1][name], f"array {name} differs"


def save(path, columns, **options):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)


class Random:
    """A graph of a random shape: duplicates, self loops, empty rows and rows of many edges."""

    def __init__(self, seed):
        rng = self.rng = numpy.random.default_rng(seed)
        self.nodes = int(rng.choice([1, 3, 40, 700]))
        count = int(rng.choice([0, 1, 30, 800, 3000]))
        # Half of the edges are at the first few nodes.
        few = rng.integers(0, max(1, self.nodes // 20), (2, count))
        any_node = rng.integers(0, self.nodes, (2, count))
        self.edges = numpy.where(rng.random((2, count)) < 0.5, few, any_node)
        self.rows = ("source", "target")[seed % 2]
        self.undirected = bool(rng.integers(0, 2))
        self.label = rng.integers(0, 4, count).astype("int16") if rng.integers(0, 3) else None
        self.names = ["z", "é", "a b", "B"] if self.label is not None and rng.integers(0, 2) else None
        self.weight = rng.random(count).astype("float32") if rng.integers(0, 2) else None
        self.time = rng.integers(0, 99, (count, 2, 3)).astype("int8") if rng.integers(0, 2) else None
        self.memory = int(rng.choice([1000, 5000, 50_000, 1 << 20]))

    def write(self, folder):
        """What write_graph makes of it. Labels that are texts have numbers by their bytes."""
        label, names = self.label, None
        if self.names is not None:
            used = [self.names[number] for number in numpy.unique(label)]
            names = sorted(used, key=str.encode)
            label = numpy.array([names.index(self.names[one]) for one in label], "uint8")
        features = {"w": self.weight, "t": self.time}
        millrace.write_graph(
            folder, edge_index=self.edges, num_nodes=self.nodes, rows=self.rows,
            undirected=self.undirected, edge_label=label, edge_labels=names or None,
            edge_features={name: one for name, one in features.items() if one is not None})

    def words(self):
        """The arguments of an import."""
        return ["--rows", self.rows, "--nodes", self.nodes, "--memory", self.memory,
                *(["--undirected"] if self.undirected else [])]


def parquet_files(graph, folder):
    """Writes the edges into several files with many row groups. Returns the arguments."""
    pyarrow = pytest.importorskip("pyarrow")
    count = graph.edges.shape[1]
    columns = {"source": graph.edges[0].astype("int32"), "target": graph.edges[1].astype("uint64")}
    words = []
    if graph.label is not None:
        columns["kind"] = (graph.label if graph.names is None else
                           pyarrow.array([graph.names[one] for one in graph.label], pyarrow.string()))
        words += ["--edge-label", "kind"]
    if graph.weight is not None:
        columns["weight"] = graph.weight
        words += ["--edge-feature", "w=weight"]
    if graph.time is not None:
        kind = pyarrow.list_(pyarrow.list_(pyarrow.int8(), 3), 2)
        columns["t"] = pyarrow.array(graph.time.tolist(), kind)
        words += ["--edge-feature", "t"]
    table = pyarrow.table(columns)
    cuts = sorted(graph.rng.integers(0, count + 1, 2).tolist())
    for name, begin, end in zip("acb", [0, cuts[1], cuts[0]], [cuts[0], count, cuts[1]], strict=True):
        import pyarrow.parquet

        pyarrow.parquet.write_table(table.slice(begin, end - begin), folder / f"{name}.parquet",
                                    row_group_size=int(graph.rng.integers(1, 500)))
    return ["c.parquet", "a.parquet", "b.parquet", *words]


@pytest.mark.parametrize("seed", range(60))
def test_parquet_gives_what_write_graph_gives(tmp_path, seed):
    graph = Random(seed)
    graph.write(tmp_path / "expected")
    words = parquet_files(graph, tmp_path)
    same(imported(tmp_path, "parquet", *words, *graph.words()), tmp_path / "expected")
