"""JAX: padded arrays of few shapes."""

import numpy
import pytest
from conftest import pipeline

import millrace

jax = pytest.importorskip("jax")


def test_arrays_are_the_tensors(dataset):
    session = millrace.reference(pipeline(), dataset)
    _, batch = next(iter(session.next_epoch()))
    for path, array in millrace.jax.arrays(batch).items():
        assert (numpy.asarray(array) == batch[path].numpy()).all()


def test_padding_adds_a_graph_and_changes_nothing(dataset):
    session = millrace.reference(pipeline(), dataset)
    shapes = set()
    for _, batch in session.next_epoch():
        padded = millrace.jax.padded(batch, session.spec)
        nodes = len(batch["node_label"])
        edges = len(batch["edge_source"])
        assert (numpy.asarray(padded["node_label"])[:nodes] == batch["node_label"].numpy()).all()
        for path in ("edge_source", "edge_target"):
            array = numpy.asarray(padded[path])
            assert (array[:edges] == batch[path].numpy()).all()
            assert (array[edges:] == nodes).all() and nodes < len(padded["node_label"])
        splits = numpy.asarray(padded["node_splits"])
        assert splits[-1] == len(padded["node_label"]) and (numpy.diff(splits) >= 0).all()
        shapes.add((len(padded["node_label"]), len(padded["edge_source"])))
    assert len(shapes) < len(session) / 2


def test_a_graphs_tuple_sums_up(dataset):
    session = millrace.reference(pipeline(), dataset)
    _, batch = next(iter(session.next_epoch()))
    graphs = millrace.jax.graphs_tuple(batch, session.spec)
    assert int(graphs.n_node.sum()) == len(graphs.nodes["node_label"])
    assert int(graphs.n_edge.sum()) == len(graphs.senders) == len(graphs.receivers)
    assert graphs._fields == ("nodes", "edges", "receivers", "senders", "globals", "n_node",
                              "n_edge")


@pytest.mark.parametrize("size", [1, 256, 257, 300, 1000, 1025, 5000])
def test_buckets_are_close_above(size):
    bucket = millrace.jax.bucket(size)
    assert size <= bucket and (bucket <= 1.26 * size or bucket == 256)
    assert millrace.jax.bucket(bucket) == bucket
