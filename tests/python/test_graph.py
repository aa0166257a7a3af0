"""Batches of a graph dataset: features and targets, from arrays that Python wrote."""

import numpy
import pytest

import millrace

PIPELINE = """
millrace: 1
dataset: g
source: {roots: train}
features: [x]
edge_features: [w]
targets: [y, z]
batch: {size: 2, remainder: keep}
"""


@pytest.fixture
def graph(tmp_path):
    folder = tmp_path / "g"
    millrace.write_graph(
        folder, edge_index=numpy.array([[0, 0, 1, 3], [1, 2, 3, 0]]),
        node_features={"x": numpy.arange(8, dtype="float32").reshape(4, 2)},
        edge_features={"w": numpy.array([10, 11, 12, 13], "uint8")},
        roots={"train": [1, 3, 2]},
        targets={"train": {"y": numpy.array([0.5, 1.5, 2.5]), "z": numpy.array([1, -2, 3], "int16")}})
    return folder


def check(batches):
    first, second = batches
    assert first["node"].tolist() == [1, 3, 0, 2, 3, 0, 1, 2]
    assert first["node_feature/x"].shape == (8, 2)
    numpy.testing.assert_array_equal(first["node_feature/x"].numpy()[:4], [[2, 3], [6, 7], [0, 1], [4, 5]])
    assert first["node_feature/x"].dimensions == ["nodes", "2"]
    assert first["edge_feature/w"].tolist() == [12, 13, 10, 11, 13, 10, 11, 12]
    assert first["target/y"].numpy().dtype == numpy.float64
    assert first["target/y"].tolist() == [0.5, 1.5] and second["target/y"].tolist() == [2.5]
    assert first["target/z"].numpy().dtype == numpy.int16
    assert first["target/z"].tolist() == [1, -2]


def test_features_and_targets_are_delivered_as_they_were_written(graph):
    check([batch for _, batch in millrace.reference(PIPELINE, graph).next_epoch()])


def test_a_daemon_serves_the_same_features_and_targets(graph):
    with millrace.local({"g": graph}, PIPELINE) as session:
        check([batch for _, batch in session.next_epoch()])


def test_a_daemon_serves_them_from_memory(graph):
    with millrace.local({"g": graph}, PIPELINE, in_memory=["g"]) as session:
        (graph / "node_feature" / "x.npy").write_bytes(b"changed")
        check([batch for _, batch in session.next_epoch()])
    with pytest.raises(millrace.Error, match="no dataset has the id 'h'"):
        millrace.local({"g": graph}, PIPELINE, in_memory=["h"])


def test_a_feature_that_is_not_there_is_named(graph):
    with pytest.raises(millrace.Error, match="no array node_feature/'z'; it has x"):
        millrace.reference(PIPELINE.replace("features: [x]", "features: [z]", 1), graph)


PLAIN = """
millrace: 1
dataset: g
source: {roots: train}
batch: {size: 3}
"""


def first(pipeline, folder, **options):
    session = millrace.reference(pipeline, folder, validate=True, **options)
    _, batch = next(iter(session.next_epoch()))
    return session, batch


def test_an_unlabelled_graph_has_no_labels_of_edges(graph):
    for edges in ("", "edges: {symmetrization: undirected}\n"):
        session, batch = first(PLAIN + edges, graph)
        assert "edge_label" not in batch
        assert session.spec.edges[0].label is None and session.spec.edge_labels == 1
    session, batch = first(PLAIN + "edges: {symmetrization: bidirectional, add_self_edges: true}\n",
                           graph)
    cut = slice(*batch["edge_splits"].tolist()[2:4])  # of node 2: itself alone
    assert batch["edge_label"].tolist()[cut] == [2]
    cut = slice(*batch["edge_splits"].tolist()[:2])
    assert batch["edge_label"].tolist()[cut] == [0] * 4 + [1] * 4 + [2] * 4
    assert session.spec.edges[0].label == "edge_label" and session.spec.edge_labels == 3


def test_places_of_edges_look_up_what_edge_features_gives(graph):
    session, batch = first(PLAIN + "edge_features: [w]\n"
                           "tensors: {seen: {lookup: edge, table: edge_feature/w}}\n"
                           "output: [edge, seen, edge_feature/w]\n", graph)
    assert batch["seen"].tolist() == batch["edge_feature/w"].tolist() == [
        10 + place for place in batch["edge"].tolist()]
    assert "node" not in batch and "edge" not in first(PLAIN, graph)[1]
    with pytest.raises(millrace.ConfigError, match="a drawing needs a tensor with a row for each"):
        millrace.viz.graph(batch, 0, session)
    with pytest.raises(millrace.Error, match=r"pipeline:7:\d+: output: edge: edges that are added"):
        millrace.reference(PLAIN + "edges: {add_self_edges: true}\noutput: [edge]\n", graph)


def test_a_graph_without_labels_is_drawn(graph, tmp_path):
    session, batch = first(PLAIN, graph)
    drawing = millrace.viz.graph(batch, 0, session)
    assert "<title>0 → 1</title>" in drawing and drawing.count("<circle") == 4
    millrace.write_graph(tmp_path / "h", edge_index=[[0, 0], [1, 1]], edge_label=[1, 0],
                         edge_labels=["cites", "writes"], node_label=[1, 0],
                         node_labels=["paper", "author"], roots={"train": [0]})
    session, batch = first(PLAIN.replace("size: 3", "size: 1"), tmp_path / "h")
    drawing = millrace.viz.graph(batch, 0, session)
    assert "0 → 1: writes" in drawing and "0: author" in drawing


def test_pyg_gets_no_edge_attributes_of_an_unlabelled_graph(graph):
    pytest.importorskip("torch_geometric")
    session, batch = first(PLAIN, graph, index_dtype="int64")
    data = millrace.pyg.to_batch(batch, session.spec)
    assert "edge_attr" not in data and data.edge_index.shape[1] == len(batch["edge_source"])
    assert [part.num_edges for part in data.to_data_list()] == [4, 4, 0]
    session, batch = first(PLAIN + "edge_features: [w]\n", graph, index_dtype="int64")
    data = millrace.pyg.to_batch(batch, session.spec)
    assert data.w.tolist() == batch["edge_feature/w"].tolist()
