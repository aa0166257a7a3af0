"""TensorFlow: a tf.data.Dataset of a session, and GraphTensors."""

import pytest
from conftest import pipeline

import millrace

tf = pytest.importorskip("tensorflow")


def test_a_dataset_gives_every_batch(dataset):
    session = millrace.reference(pipeline(), dataset)
    expected = [batch["tactic"].tolist()
                for _, batch in millrace.reference(pipeline(), dataset).next_epoch()]
    given = list(millrace.tf.dataset(session, epochs=1))
    assert [element["tactic"].numpy().tolist() for element in given] == expected
    assert given[0]["node_label"].dtype == tf.int32


def test_a_graph_tensor_has_a_component_for_each_graph(dataset):
    pytest.importorskip("tensorflow_gnn")
    session = millrace.reference(pipeline(), dataset)
    graphs = millrace.tf.dataset(session, epochs=1).map(
        lambda batch: millrace.tf.graph_tensor(batch, session.spec))
    first = next(iter(graphs))
    assert int(first.num_components) == 16
    assert first.edge_sets["edge"].adjacency.source.shape == \
        first.edge_sets["edge"].adjacency.target.shape
