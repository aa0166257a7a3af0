"""Graphs of the Open Graph Benchmark as graph datasets, in the form that its loaders give."""

import json
import sys
import types

import numpy
import pytest

import millrace
from millrace._import import main as command

EDGES = numpy.array([[0, 1, 3], [1, 2, 0]])


def stored(folder):
    described = json.loads((folder / "graph.json").read_text())
    return described, {name: numpy.load(folder / one["path"]).tolist()
                       for name, one in described["arrays"].items()}


def single():
    return {"edge_index": EDGES, "edge_feat": None, "num_nodes": 4, "node_year": numpy.array([[1]] * 4),
            "node_feat": numpy.arange(8, dtype="float32").reshape(4, 2)}


LABEL = numpy.array([[3], [2], [1], [0]])
SPLIT = {"train": numpy.array([3, 0]), "valid": numpy.array([1]), "test": numpy.array([2])}


def test_a_graph_with_labels_and_splits(tmp_path):
    millrace.write_graph(tmp_path / "g", **millrace.from_ogb(single(), LABEL, SPLIT))
    described, read = stored(tmp_path / "g")
    assert described["rows"] == "target" and described["edges"] == 3
    assert read["indices"] == [3, 0, 1] and read["node_feature/x"][1] == [2, 3]
    assert read["roots/train"] == [3, 0] and read["targets/train/y"] == [0, 3]
    assert read["node_feature/node_year"] == [[1]] * 4
    given = millrace.from_ogb(single(), LABEL, undirected=True)
    millrace.write_graph(tmp_path / "h", **given)
    assert stored(tmp_path / "h")[0]["edges"] == 6
    assert stored(tmp_path / "h")[1]["node_feature/y"] == [3, 2, 1, 0]


def test_a_graph_with_types(tmp_path):
    graph = {"num_nodes_dict": {"author": 2, "paper": 3},
             "edge_index_dict": {("author", "writes", "paper"): numpy.array([[1], [2]])},
             "edge_feat_dict": {}, "node_feat_dict": {"paper": numpy.ones((3, 1), "float32")},
             "edge_reltype": {("author", "writes", "paper"): numpy.array([[7]])}}
    label = {"paper": numpy.array([[4], [5], [6]])}
    split = {"train": {"paper": numpy.array([2, 0])}}
    millrace.write_graph(tmp_path / "g", **millrace.from_ogb(graph, label, split))
    described, read = stored(tmp_path / "g")
    assert described["edge_labels"] == ["author__writes__paper"]
    assert read["roots/train"] == [4, 2] and read["targets/train/y"] == [6, 4]
    assert read["node_feature/x"] == [[0], [0], [1], [1], [1]]
    assert read["edge_feature/edge_reltype"] == [[7]]
    for message, wrong in (("train: is a mask", [True, False, True]),
                           ("train: has a 0 or 1 for each of 3 nodes: is it a mask", [1, 0, 1]),
                           ("train: number 0 is -1, expected 0 to below 3", [-1])):
        with pytest.raises(millrace.ConfigError, match=f"from_ogb: {message}"):
            millrace.from_ogb(graph, label, {"train": {"paper": numpy.array(wrong)}})


def small():
    return [{"edge_index": numpy.array([[0], [i]]), "num_nodes": i + 1,
             "edge_feat": numpy.array([[i]]), "node_feat": numpy.full((i + 1, 1), i)} for i in range(3)]


def test_small_graphs_stand_in_the_order_of_the_splits(tmp_path):
    label = numpy.array([[0.0], [0.1], [0.2]])
    split = {"train": numpy.array([2, 0]), "test": numpy.array([1])}
    millrace.write_graph(tmp_path / "g", **millrace.from_ogb(small(), label, split))
    _, read = stored(tmp_path / "g")
    assert read["graphs/train"] == [0, 3, 4] and read["graphs/test"] == [4, 6]
    assert read["targets/train/y"] == [0.2, 0.0] and read["targets/test/y"] == [0.1]
    assert read["node_feature/x"] == [[2], [2], [2], [0], [1], [1]]
    assert read["indptr"] == [0, 0, 0, 1, 2, 2, 3] and read["indices"] == [0, 3, 4]
    assert read["edge_feature/edge_attr"] == [[2], [0], [1]]
    millrace.write_graph(tmp_path / "h", **millrace.from_ogb(small(), label))
    assert stored(tmp_path / "h")[1]["graphs/all"] == [0, 1, 3, 6]


@pytest.mark.parametrize("message, given", [
    ("expected the dict of a graph, or a list of them, got int", (1, None)),
    (r"label is float64 \[3\], expected numbers for each of 4 nodes", (single(), numpy.zeros(3))),
    ("only some of the graphs have node_feat", ([*small(), {**small()[0], "node_feat": None}], None)),
    ("label is .*expected numbers for each of 3 graphs", (small(), [["a"], ["b"], ["c"]])),
    ("split train: has a 0 or 1 for each of 4 nodes: is it a mask",
     (single(), LABEL, {"train": numpy.array([0, 1, 1, 0])})),
    ("split train: is a mask", (small(), None, {"train": numpy.array([True, False, True])})),
    ("split train: number 1 is 3, expected 0 to below 3", (small(), None, {"train": [0, 3]})),
    (r"split train is float64 \[1\], expected numbers", (small(), None, {"train": [0.5]})),
    (r"graph 1 has the edge \[0, 2\], expected numbers of its 2 nodes",
     ([small()[0], {**small()[1], "edge_index": numpy.array([[0], [2]])}, small()[2]], None)),
    ("node_feat of graph 1 has 1 rows, expected 2",
     ([small()[0], {**small()[1], "node_feat": numpy.ones((1, 1))}, small()[2]], None)),
])
def test_what_does_not_fit_is_named(message, given):
    with pytest.raises(millrace.ConfigError, match=message):
        millrace.from_ogb(*given)


def test_the_command_takes_what_the_package_gives(tmp_path, monkeypatch, capsys):
    class Dataset:
        graphs, labels = small(), numpy.arange(3)

        def __init__(self, name, root):
            assert root == "there" and name in ("ogbn-a", "ogbg-b")
            print("Downloading")

        def get_idx_split(self):
            return SPLIT if len(self.graphs) == 4 else {"train": numpy.array([0, 2])}

        def __getitem__(self, number):
            return single(), LABEL

    for name, attribute in (("nodeproppred", "NodePropPredDataset"),
                            ("graphproppred", "GraphPropPredDataset")):
        module = types.ModuleType(f"ogb.{name}")
        setattr(module, attribute, Dataset)
        monkeypatch.setitem(sys.modules, f"ogb.{name}", module)
    monkeypatch.setitem(sys.modules, "ogb", types.ModuleType("ogb"))
    monkeypatch.setattr(Dataset, "get_idx_split", lambda self: {"train": numpy.array([0, 2])})
    for name in ("ogbn-a", "ogbg-b"):
        words = ["ogb", name, "--root", "there", "--to", str(tmp_path / name)]
        assert command.main(words) == 0
    assert stored(tmp_path / "ogbn-a")[1]["roots/train"] == [0, 2]
    assert stored(tmp_path / "ogbg-b")[1]["graphs/train"] == [0, 1, 4]
    assert "Downloading" not in capsys.readouterr().out
    assert command.main(["ogb", "ogbl-c", "--to", str(tmp_path / "c")]) == 2
    assert "ogbl-c: expected a dataset ogbn-… or ogbg-…" in capsys.readouterr().err


def test_the_package_that_is_missing_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ogb", None)
    assert command.main(["ogb", "ogbn-a", "--to", str(tmp_path / "a")]) == 2
    assert "needs the package ogb, and ogb" in capsys.readouterr().err
