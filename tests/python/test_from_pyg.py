"""Graphs of PyTorch Geometric as graph datasets. Where PyG is installed, its own classes are used."""

import json
import types

import numpy
import pytest

import millrace

EDGES = numpy.array([[0, 1, 3, 2], [1, 2, 0, 0]])


class Data:
    """What from_pyg reads of PyG's Data."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def to_dict(self):
        return dict(self.__dict__)

    @property
    def num_nodes(self):
        return len(self.x) if hasattr(self, "x") else None


def write(folder, data):
    given = millrace.from_pyg(data)
    millrace.write_graph(folder, **given)
    return given


def batches(folder, source, size=2):
    text = (f"millrace: 1\ndataset: g\nsource: {source}\nfeatures: [x]\ntargets: [y]\n"
            f"batch: {{size: {size}, remainder: keep}}\nclosure: {{max_subgraph_size: 1}}\n")
    return [batch for _, batch in millrace.reference(text, folder).next_epoch()]


def test_features_labels_and_masks_are_kept(tmp_path):
    x = numpy.arange(8, dtype="float32").reshape(4, 2)
    data = Data(x=x, edge_index=EDGES, y=numpy.array([3, 2, 1, 0]),
                edge_attr=numpy.array([[1.0], [2.0], [3.0], [4.0]]),
                train_mask=numpy.array([True, False, False, True]),
                val_mask=numpy.array([False, True, False, False]), test_mask=None)
    given = write(tmp_path / "g", data)
    assert given["rows"] == "target" and set(given["edge_features"]) == {"edge_attr"}
    assert given["roots"]["train"].tolist() == [0, 3] and set(given["roots"]) == {"train", "valid"}
    stored = json.loads((tmp_path / "g" / "graph.json").read_text())["arrays"]
    edges = numpy.load(tmp_path / "g" / stored["edge_feature/edge_attr"]["path"])
    assert edges.tolist() == [[3.0], [4.0], [1.0], [2.0]]  # by the nodes that edges lead to
    batch, = batches(tmp_path / "g", "{roots: train}")
    assert batch["target/y"].tolist() == [3, 0]
    numpy.testing.assert_array_equal(batch["node_feature/x"].numpy(), x[[0, 3]])


def test_a_batch_becomes_small_graphs(tmp_path):
    data = Data(x=numpy.ones((4, 1), "float32"), edge_index=numpy.array([[0, 3], [1, 2]]),
                y=numpy.array([0.5, 1.5]), batch=numpy.array([0, 0, 1, 1]),
                ptr=numpy.array([0, 2, 4]))
    given = write(tmp_path / "g", data)
    assert set(given["node_features"]) == {"x"}  # `batch` and `ptr` say what the graphs are
    batch, = batches(tmp_path / "g", "{graphs: all}")
    assert batch["target/y"].tolist() == [0.5, 1.5]
    assert batch["edge_source"].tolist() == [0, 3] and batch["edge_target"].tolist() == [1, 2]


def batch_of_single_nodes(**more):
    return Data(x=numpy.ones((4, 2), "float32"), edge_index=numpy.zeros((2, 0), int),
                ptr=numpy.arange(5), batch=numpy.arange(4), **more)


def test_with_as_many_graphs_as_nodes_a_tensor_may_be_of_either(tmp_path):
    data = batch_of_single_nodes(y=numpy.array([1, 2, 3, 4]))
    with pytest.raises(millrace.ConfigError, match=r"y has 4 rows: is it of the 4 nodes or of the 4 "
                                                   r"graphs\? .* of_graphs=\['y'\]"):
        millrace.from_pyg(data)
    made = millrace.from_pyg(data, of_graphs=["y"])
    assert set(made["node_features"]) == {"x"}  # PyG takes this one for a tensor of nodes
    millrace.write_graph(tmp_path / "g", **made)
    batch, = batches(tmp_path / "g", "{graphs: all}", size=4)
    assert batch["target/y"].tolist() == [1, 2, 3, 4]
    made = millrace.from_pyg(data, of_graphs=[])
    assert set(made["node_features"]) == {"x", "y"} and made["targets"] == {}


@pytest.mark.parametrize("of_graphs", ["y", ["z"], ["name"], ["short"]])
def test_what_is_of_no_graph_cannot_be_said_to_be(of_graphs):
    data = batch_of_single_nodes(y=numpy.zeros(4), name="a", short=numpy.zeros(3))
    with pytest.raises(millrace.ConfigError, match="of_graphs"):
        millrace.from_pyg(data, of_graphs=of_graphs)
    with pytest.raises(millrace.ConfigError, match="of_graphs"):
        millrace.from_pyg(papers(), of_graphs=["y"])


def test_a_batch_that_lost_its_ptr_has_its_graphs():
    data = Data(x=numpy.ones((4, 1), "float32"), edge_index=numpy.array([[0, 3], [1, 2]]),
                y=numpy.array([0.5, 1.5, 2.5]), batch=numpy.array([0, 0, 2, 2]))
    made = millrace.from_pyg(data)
    assert made["graphs"]["all"].tolist() == [0, 2, 2, 4] and set(made["targets"]["all"]) == {"y"}
    data.batch = numpy.array([0, 1, 0, 2])
    with pytest.raises(millrace.ConfigError, match="expected the nodes of a graph side by side"):
        millrace.from_pyg(data)


@pytest.mark.parametrize("message, values", [
    ("y has 3 rows, expected 4 for nodes; leave it out: del data.y", {"y": numpy.zeros(3)}),
    ("name has str, expected 4", {"name": "Cora"}),
    ("train_mask is bool .4, 10., expected bool .4.", {"train_mask": numpy.ones((4, 10), bool)}),
    ("train_mask is uint8 .4., expected bool .4.", {"train_mask": numpy.ones(4, "uint8")}),
])
def test_what_fits_neither_nodes_nor_edges_is_named(message, values):
    with pytest.raises(millrace.ConfigError, match=message):
        millrace.from_pyg(Data(x=numpy.ones((4, 1)), edge_index=EDGES, **values))


def test_a_graph_without_edges_or_size_is_refused():
    with pytest.raises(millrace.ConfigError, match="expected a Data with edge_index, got int"):
        millrace.from_pyg(1)
    with pytest.raises(millrace.ConfigError, match="set num_nodes"):
        millrace.from_pyg(Data(edge_index=EDGES))


def test_the_classes_of_pyg_are_understood(tmp_path):
    torch = pytest.importorskip("torch")
    data_module = pytest.importorskip("torch_geometric.data")
    data = data_module.Data(x=torch.ones(4, 2), edge_index=torch.tensor(EDGES),
                            y=torch.tensor([3, 2, 1, 0]))
    data.train_mask = torch.tensor([True, False, False, True])
    write(tmp_path / "g", data)
    assert batches(tmp_path / "g", "{roots: train}")[0]["target/y"].tolist() == [3, 0]
    several = data_module.Batch.from_data_list([data_module.Data(
        x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0.5]))] * 2)
    write(tmp_path / "h", several)
    assert batches(tmp_path / "h", "{graphs: all}")[0]["target/y"].tolist() == [0.5, 0.5]


class HeteroData:
    """What from_pyg reads of PyG's HeteroData."""

    def __init__(self, nodes, edges):
        self._nodes, self._edges = nodes, edges
        self.node_types, self.edge_types = list(nodes), list(edges)

    def to_dict(self):
        return {"_global_store": {}, **{kind: dict(store) for kind, store in self._nodes.items()},
                **{kind: dict(store) for kind, store in self._edges.items()}}

    def __getitem__(self, kind):
        store = self._nodes[kind]
        return types.SimpleNamespace(num_nodes=len(store["x"]) if "x" in store else None)


def papers(**more):
    """Three papers and two authors."""
    return HeteroData(
        {"paper": {"x": numpy.arange(6, dtype="float32").reshape(3, 2), "y": numpy.array([5, 6, 7]),
                   "train_mask": numpy.array([True, False, True]),
                   "val_mask": numpy.array([False, True, False])},
         "author": {"x": numpy.full((2, 2), 9, "float32"), **more}},
        {("author", "writes", "paper"): {"edge_index": numpy.array([[1, 0, 1], [0, 2, 1]]),
                                         "edge_attr": numpy.array([1, 2, 3])},
         ("paper", "cites", "paper"): {"edge_index": numpy.array([[0, 2], [2, 0]])}})


def test_types_of_nodes_stand_one_after_another(tmp_path):
    write(tmp_path / "g", papers())
    described = json.loads((tmp_path / "g" / "graph.json").read_text())
    assert described["node_labels"] == ["paper", "author"] and described["nodes"] == 5
    assert described["edge_labels"] == ["author__writes__paper", "paper__cites__paper"]
    stored = {name: numpy.load(tmp_path / "g" / one["path"]).tolist()
              for name, one in described["arrays"].items()}
    assert stored["indptr"] == [0, 2, 3, 5, 5, 5] and stored["indices"] == [4, 2, 4, 3, 0]
    assert stored["edge_label"] == [0, 1, 0, 0, 1]
    assert stored["edge_feature/edge_attr"] == [1, 0, 3, 2, 0]  # types without it have zeros
    assert stored["node_feature/x"] == [[0, 1], [2, 3], [4, 5], [9, 9], [9, 9]]
    assert stored["roots/train"] == [0, 2] and stored["targets/train/y"] == [5, 7]
    assert set(stored) >= {"roots/valid"} and "node_feature/y" not in stored


def test_lists_of_several_types_have_their_names():
    made = millrace.from_pyg(papers(test_mask=numpy.array([False, True])))
    assert {name: nodes.tolist() for name, nodes in made["roots"].items()} == {
        "paper_train": [0, 2], "paper_valid": [1], "author_test": [4]}
    assert made["targets"]["paper_valid"]["y"].tolist() == [6]


@pytest.mark.parametrize("message, more", [
    (r"x: is float32 \[3\] of author, but float32 \[2\] of paper: a graph dataset has one array for all",
     {"x": numpy.zeros((2, 3), "float32")}),
    (r"z of data\['author'\] has 3 rows, expected 2 rows; leave it out: del data\['author'\].z",
     {"z": numpy.zeros(3)}),
    ("name of data.'author'. has str", {"name": "x"}),
])
def test_what_does_not_fit_a_type_is_named(message, more):
    with pytest.raises(millrace.ConfigError, match=message):
        millrace.from_pyg(papers(**more))


def test_edges_beyond_a_type_are_named():
    data = papers()
    data._edges[("paper", "cites", "paper")]["edge_index"] = numpy.array([[0, 3], [1, 1]])
    with pytest.raises(millrace.ConfigError, match="edges paper__cites__paper: source 1 is 3, expected 0"):
        millrace.from_pyg(data)
    del data._nodes["author"]["x"]
    with pytest.raises(millrace.ConfigError, match="set data.'author'..num_nodes"):
        millrace.from_pyg(data)


def test_the_hetero_data_of_pyg_is_understood(tmp_path):
    torch = pytest.importorskip("torch")
    module = pytest.importorskip("torch_geometric.data")
    data, fake = module.HeteroData(), papers()
    for kind, store in {**fake._nodes, **fake._edges}.items():
        for name, value in store.items():
            data[kind][name] = torch.tensor(value)
    write(tmp_path / "g", data)
    write(tmp_path / "h", fake)
    digests = [json.loads((tmp_path / name / "graph.json").read_text())["digest"] for name in "gh"]
    assert digests[0] == digests[1]
