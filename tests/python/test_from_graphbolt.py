"""Datasets of GraphBolt as graph datasets: raw ones, and preprocessed ones, whose graph is in a file
of torch.save. Such files are made here as torch makes them."""

import collections
import io
import json
import pickle
import sys
import types
import zipfile

import numpy
import pytest

import millrace
from millrace._import import main as command

yaml = pytest.importorskip("yaml")


def stored(folder):
    """graph.json, and the arrays by name, of whatever file."""
    described = json.loads((folder / "graph.json").read_text())
    read = {}
    for name, one in described["arrays"].items():
        read[name] = numpy.memmap(folder / one["path"], one["dtype"], "r", one["offset"],
                                  tuple(one["shape"])).tolist() if 0 not in one["shape"] else []
    return described, read


def save(folder, files):
    for name, array in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        numpy.save(folder / name, numpy.array(array))


def describe(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata.yaml").write_text(text)


TASK = """
tasks:
  - name: links
    train_set: [{data: [{name: node_pairs, format: numpy, path: set/pairs.npy}]}]
  - name: node_classification
    num_classes: 9
    train_set:
      - data:
          - {name: seed_nodes, format: numpy, in_memory: true, path: set/train.npy}
          - {name: labels, format: numpy, path: set/train-labels.npy}
    validation_set:
      - data: [{name: seed_nodes, format: numpy, path: set/valid.npy}]
"""
FEATURES = """
feature_data:
  - {domain: node, name: feat, format: numpy, in_memory: false, path: data/feat.npy}
"""
EDGE_FEATURE = "  - {domain: edge, name: w, format: numpy, path: data/w.npy}\n"
RAW = """
dataset_name: test
graph:
  nodes: [{num: 4}]
  edges: [{format: FORMAT, path: edges/e}]
"""
FILES = {"data/feat.npy": [[1.0], [2.0], [3.0], [4.0]], "data/w.npy": [5, 6, 7],
         "set/train.npy": [3, 0], "set/train-labels.npy": [8, 1], "set/valid.npy": [1],
         "set/pairs.npy": [[0, 1]]}
EDGES = [[0, 1, 3], [1, 2, 0]]


def require_graph(folder, expected_edges=True):
    described, read = stored(folder)
    assert described["rows"] == "target" and described["nodes"] == 4
    assert read["indptr"] == [0, 1, 2, 3, 3] and read["indices"] == [3, 0, 1]
    assert read["node_feature/feat"] == FILES["data/feat.npy"]
    assert read["roots/train"] == [3, 0] and read["roots/valid"] == [1]
    assert read["targets/train/labels"] == [8, 1]
    if expected_edges:
        assert read["edge_feature/w"] == [7, 5, 6]
    return described


@pytest.mark.parametrize("kind", ["numpy", "csv"])
def test_a_raw_dataset(tmp_path, kind):
    source = tmp_path / "gb"
    describe(source, RAW.replace("FORMAT", kind) + FEATURES + EDGE_FEATURE + TASK)
    save(source, FILES)
    (source / "edges").mkdir()
    if kind == "csv":
        (source / "edges" / "e").write_text("0,1\n1,2\n3,0")
    else:
        save(source, {"edges/e.npy": EDGES})
        describe(source, (source / "metadata.yaml").read_text().replace("edges/e}", "edges/e.npy}"))
    millrace.write_graph(tmp_path / "g", **millrace.from_graphbolt(source))
    described = require_graph(tmp_path / "g")
    linked = tmp_path / "g" / described["arrays"]["node_feature/feat"]["path"]
    assert linked.stat().st_ino == (source / "data" / "feat.npy").stat().st_ino


def test_the_command_imports_a_folder(tmp_path, capsys):
    source = tmp_path / "gb"
    describe(source, RAW.replace("FORMAT", "csv") + FEATURES + TASK)
    save(source, FILES)
    (source / "edges").mkdir()
    (source / "edges" / "e").write_text("0,1\n1,2\n3,0\n")
    assert command.main(["graphbolt", str(source), "--to", str(tmp_path / "g")]) == 0
    digest = require_graph(tmp_path / "g", False)["digest"]
    assert digest in capsys.readouterr().err
    assert command.main(["graphbolt", str(source), "--to", str(tmp_path / "g")]) == 2
    assert "is not empty; choose another one" in capsys.readouterr().err
    (source / "edges" / "e").write_text("0,1\n1\n")
    assert command.main(["graphbolt", str(source), "--to", str(tmp_path / "h")]) == 3
    assert "e: line 2: has 1 columns, expected at least 2" in capsys.readouterr().err


class _Storage:
    """A storage of torch, which persistent_id puts into a file of its own."""

    def __init__(self, array):
        self.array = array


class _Pickler(pickle._Pickler):
    def __init__(self, file, storages):
        super().__init__(file, 2)
        self.storages = storages

    def persistent_id(self, value):
        if not isinstance(value, _Storage):
            return None
        self.storages.append(value.array)
        name = {"int64": "LongStorage", "int32": "IntStorage", "uint8": "ByteStorage",
                "float32": "FloatStorage"}[value.array.dtype.name]
        return ("storage", getattr(sys.modules["torch"], name), str(len(self.storages) - 1), "cpu",
                value.array.size)


class _Tensor:
    def __init__(self, array):
        self.array = numpy.asarray(array)

    def __reduce__(self):
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return (sys.modules["torch._utils"]._rebuild_tensor_v2,
                (_Storage(numpy.ascontiguousarray(self.array)), 0, self.array.shape, strides, False,
                 collections.OrderedDict()))


@pytest.fixture
def torch_save(monkeypatch):
    """Saves what torch would, in the format of its version 2: a zip with data.pkl, in which tensors
    refer to files data/0, data/1, …, each at a multiple of 64 bytes."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in ("LongStorage", "IntStorage", "ByteStorage", "FloatStorage"):
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    torch.ScriptObject = type("ScriptObject", (), {
        "__module__": "torch", "__getstate__": lambda self: (
            self.state, "__torch__.torch.classes.graphbolt.FusedCSCSamplingGraph")})
    utils._rebuild_tensor_v2 = lambda: None
    utils._rebuild_tensor_v2.__module__ = "torch._utils"
    utils._rebuild_tensor_v2.__qualname__ = utils._rebuild_tensor_v2.__name__ = "_rebuild_tensor_v2"
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)

    def write(value, path):
        storages, stream = [], io.BytesIO()
        _Pickler(stream, storages).dump(value)
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("graph/data.pkl", stream.getvalue())
            for number, array in enumerate(storages):
                entry = zipfile.ZipInfo(f"graph/data/{number}")
                begin = archive.fp.tell() + 30 + len(entry.filename) + 4
                entry.extra = b"FB" + (-begin % 64).to_bytes(2, "little") + bytes(-begin % 64)
                archive.writestr(entry, array.tobytes())
    return write


class Graph:
    """GraphBolt's FusedCSCSamplingGraph: a Python object around one of TorchScript, which is saved
    as its state and the name of its type."""

    def __init__(self, state):
        self._c_csc_graph = sys.modules["torch"].ScriptObject()
        self._c_csc_graph.state = state


def tensors(values, dtype="int64"):
    return {name: _Tensor(numpy.array(one, dtype)) for name, one in values.items()}


PREPROCESSED = """
graph_topology: {type: FusedCSCSamplingGraph, path: preprocessed/graph.pt}
include_original_edge_id: true
"""


@pytest.mark.parametrize("edge_ids", [True, False])
def test_a_preprocessed_dataset_is_linked(tmp_path, torch_save, edge_ids):
    source = tmp_path / "gb"
    describe(source, RAW)  # is not read
    describe(source / "preprocessed", PREPROCESSED + FEATURES + (EDGE_FEATURE if edge_ids else "")
             + TASK)
    save(source, FILES)
    state = {"independent_tensors": tensors({"version_number": [6199], "indptr": [0, 1, 2, 3, 3],
                                             "indices": [3, 0, 1]})}
    if edge_ids:
        state["edge_attributes"] = tensors({"_ORIGINAL_EDGE_ID": [2, 0, 1]}, "int32")
    torch_save(Graph(state), source / "preprocessed" / "graph.pt")
    given = millrace.from_graphbolt(types.SimpleNamespace(_dataset_dir=str(source)))
    millrace.write_graph(tmp_path / "g", **given)
    described = require_graph(tmp_path / "g", edge_ids)
    for name in ("indptr", "indices"):  # both in the one file of torch
        one = described["arrays"][name]
        linked = tmp_path / "g" / one["path"]
        assert linked.stat().st_ino == (source / "preprocessed" / "graph.pt").stat().st_ino
        assert one["offset"] % 64 == 0


TYPED = """
feature_data:
  - {domain: node, type: paper, name: feat, format: numpy, path: data/paper.npy}
tasks:
  - name: t
    train_set:
      - {type: paper, data: [{name: seeds, format: numpy, path: set/paper.npy}]}
"""


def require_types(folder):
    described, read = stored(folder)
    assert described["node_labels"] == ["author", "paper"] and described["nodes"] == 5
    assert described["edge_labels"] == ["author__writes__paper", "paper__cites__paper"]
    assert read["indptr"] == [0, 0, 0, 2, 2, 3] and read["indices"] == [1, 4, 0]
    assert read["edge_label"] == [0, 1, 0]
    assert read["node_feature/feat"] == [[0], [0], [7], [8], [9]]
    assert read["roots/train"] == [4, 2]


def write_types(source):
    describe(source, """
graph:
  nodes: [{type: paper, num: 3}, {type: author, num: 2}]
  edges:
    - {type: "paper:cites:paper", format: numpy, path: edges/cites.npy}
    - {type: "author:writes:paper", format: csv, path: edges/writes.csv}
""" + TYPED)
    save(source, {"edges/cites.npy": [[2], [0]], "data/paper.npy": [[7], [8], [9]],
                  "set/paper.npy": [2, 0]})
    (source / "edges" / "writes.csv").write_text("0,2\n1,0\n")


def test_a_dataset_with_types(tmp_path, torch_save):
    source = tmp_path / "gb"
    write_types(source)
    millrace.write_graph(tmp_path / "raw", **millrace.from_graphbolt(source))
    require_types(tmp_path / "raw")
    for message, seeds in (("has a 0 or 1 for each of 3 nodes: is it a mask", [0, 1, 1]),
                           ("number 1 is 3, expected 0 to below 3", [2, 3])):
        save(source, {"set/paper.npy": seeds})
        with pytest.raises(millrace.ConfigError, match=f"from_graphbolt: train: {message}"):
            millrace.from_graphbolt(source)
    save(source, {"set/paper.npy": [2, 0]})
    describe(source / "preprocessed", PREPROCESSED + TYPED)
    state = {"independent_tensors": {
        **tensors({"indptr": [0, 0, 0, 2, 2, 3], "indices": [1, 4, 0], "node_type_offset": [0, 2, 5]}),
        "type_per_edge": _Tensor(numpy.array([0, 1, 0], "uint8"))},
        "node_type_to_id": tensors({"paper": 1, "author": 0}),
        "edge_type_to_id": tensors({"paper:cites:paper": 1, "author:writes:paper": 0})}
    torch_save(Graph(state), source / "preprocessed" / "graph.pt")
    millrace.write_graph(tmp_path / "done", **millrace.from_graphbolt(source))
    require_types(tmp_path / "done")


def test_what_cannot_be_brought_is_named(tmp_path, torch_save):
    def refused(message, error=millrace.ConfigError, **given):
        with pytest.raises(error, match=message):
            millrace.from_graphbolt(source, **given)

    source = tmp_path / "gb"
    refused("gb has no metadata.yaml, expected the folder of an OnDiskDataset")
    describe(source, "[1]")
    refused("metadata.yaml: expected a map with graph or graph_topology", millrace.DataError)
    describe(source, RAW.replace("FORMAT", "csv") + TASK)
    refused("e: No such file")
    save(source, FILES)
    (source / "edges").mkdir()
    (source / "edges" / "e").write_text("0,1\n")
    refused("there is no task 'x'; there are: links, node_classification", task="x")
    refused("has node_pairs, expected seed_nodes: sets of edges cannot be roots", task="links")
    describe(source / "preprocessed", PREPROCESSED + FEATURES + EDGE_FEATURE)
    (source / "preprocessed" / "graph.pt").write_bytes(b"no zip")
    refused("graph.pt: is no file of torch.save", millrace.DataError)
    torch_save({"a": 1}, source / "preprocessed" / "graph.pt")
    refused("graph.pt: has no graph, expected a FusedCSCSamplingGraph", millrace.DataError)
    torch_save(Graph({"independent_tensors": tensors({"indptr": [0], "indices": []})}),
               source / "preprocessed" / "graph.pt")
    refused("w of edges has the order of the raw edges, which .*preprocessed does not tell")


def test_a_file_of_torch_runs_no_code(tmp_path):
    from millrace._torch_file import Shown, read_torch_file

    class Evil:
        def __reduce__(self):
            return exec, ("raise SystemExit('was run')",)

    with zipfile.ZipFile(tmp_path / "evil.pt", "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps([Evil()], 2))
    shown, = read_torch_file(tmp_path / "evil.pt")
    assert isinstance(shown, Shown) and shown.arguments == ("raise SystemExit('was run')",)


def test_a_file_that_torch_saved_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    from millrace._torch_file import read_torch_file
    from millrace._graph_arrays import read_array

    values = [torch.arange(6).reshape(2, 3), torch.tensor([True, False]), torch.ones(3)[1:]]
    torch.save({"x": values, "y": torch.ones(2, dtype=torch.bfloat16)}, tmp_path / "x.pt")
    found = read_torch_file(tmp_path / "x.pt")
    for file, tensor in zip(found["x"], values, strict=True):
        assert (read_array("x", file).array == tensor.numpy()).all()
    assert found["y"].dtype == "bfloat16"


def test_the_dataset_of_graphbolt_is_understood(tmp_path):
    graphbolt = pytest.importorskip("dgl.graphbolt")
    source = tmp_path / "gb"
    describe(source, RAW.replace("FORMAT", "csv") + FEATURES + EDGE_FEATURE + TASK)
    save(source, FILES)
    (source / "edges").mkdir()
    (source / "edges" / "e").write_text("0,1\n1,2\n3,0\n")
    dataset = graphbolt.OnDiskDataset(str(source), include_original_edge_id=True)
    given = millrace.from_graphbolt(dataset)
    millrace.write_graph(tmp_path / "g", **given)
    _, read = stored(tmp_path / "g")
    assert read["indices"] == [3, 0, 1] and read["roots/train"] == [3, 0]
    assert numpy.ravel(read["edge_feature/w"]).tolist() == [7, 5, 6]
    typed = tmp_path / "typed"
    write_types(typed)
    # With a new pandas, this DGL cannot read types of edges from csv.
    save(typed, {"edges/writes.npy": [[0, 1], [2, 0]]})
    describe(typed, (typed / "metadata.yaml").read_text().replace("csv", "numpy").replace(
        "writes.numpy", "writes.npy"))
    graphbolt.OnDiskDataset(str(typed))
    assert (typed / "preprocessed" / "metadata.yaml").exists()
    millrace.write_graph(tmp_path / "h", **millrace.from_graphbolt(typed))
    require_types(tmp_path / "h")
