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


def test_a_feature_that_is_not_there_is_named(graph):
    with pytest.raises(millrace.Error, match="no array node_feature/'z'; it has x"):
        millrace.reference(PIPELINE.replace("features: [x]", "features: [z]", 1), graph)
