"""TensorFlow: a tf.data.Dataset of a session, and GraphTensors."""

import numpy
import pytest
from conftest import pipeline

import millrace

tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_a_dataset_gives_every_batch(connect, dataset, index_dtype):
    session = connect(index_dtype=index_dtype)
    given = iter(millrace.tf.dataset(session, epochs=2))
    count = 0
    for epoch in millrace.reference(pipeline(), dataset).epochs(2):
        for _, batch in epoch:
            element = next(given)
            assert list(element) == list(batch)
            for path in batch:
                assert (element[path].numpy() == batch[path].numpy()).all(), path
                assert element[path].dtype == session.spec[path].dtype
            count += 1
    assert next(given, None) is None and count == 2 * len(session)


def test_a_dataset_goes_on_where_the_session_is(dataset):
    session = millrace.reference(pipeline(), dataset)
    session.seek(1, 3)
    batches = list(millrace.tf.dataset(session, epochs=2))
    assert len(batches) == len(session) - 3
    assert batches[0]["example_id"].numpy().tolist() == \
        millrace.reference(pipeline(), dataset).batch_at(1, 3).example_ids


def test_parts_of_batches_come_one_by_one(dataset):
    session = millrace.reference(pipeline(), dataset, micro=4)
    given = [element["example_id"].numpy().tolist()
             for element in millrace.tf.dataset(session, epochs=1).take(8)]
    _, whole = next(iter(millrace.reference(pipeline(), dataset).next_epoch()))
    assert [len(part) for part in given] == [4] * 8
    assert sum(given[:4], []) == whole.example_ids


DEFINITIONS = {"millrace": 1, "dataset": "data", "source": "definitions", "batch": {"size": 16}}


@pytest.mark.parametrize("of", [pipeline(), pipeline(fields={"text": True}), DEFINITIONS])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_a_graph_tensor_has_a_component_for_each_graph(dataset, of, index_dtype):
    pytest.importorskip("tensorflow_gnn")
    session = millrace.reference(of, dataset, index_dtype=index_dtype)
    spec = session.spec
    graphs = millrace.tf.dataset(session, epochs=1).map(
        lambda batch: millrace.tf.graph_tensor(batch, spec))
    for graph, (_, batch) in zip(graphs, millrace.reference(of, dataset).next_epoch()):
        arrays = {path: batch[path].numpy() for path in batch}
        assert int(graph.num_components) == batch.num_graphs
        nodes, edges = graph.node_sets["node"], graph.edge_sets["edge"]
        assert (nodes.sizes.numpy() == numpy.diff(arrays["node_splits"])).all()
        assert (edges.sizes.numpy() == numpy.diff(arrays["edge_splits"])).all()
        assert (nodes["node_label"].numpy() == arrays["node_label"]).all()
        assert (edges["edge_label"].numpy() == arrays["edge_label"]).all()
        assert (edges.adjacency.source.numpy() == arrays["edge_source"]).all()
        assert (edges.adjacency.target.numpy() == arrays["edge_target"]).all()
        for tensor in spec.tensors:
            if tensor.path not in graph.context.features:
                assert tensor.kind == "splits" or tensor.path in (
                    "node_label", "edge_source", "edge_target", "edge_label")
            elif tensor.splits:
                feature = graph.context[tensor.path]
                assert (feature.values.numpy() == arrays[tensor.path]).all()
                assert (feature.row_splits.numpy() == arrays[tensor.splits]).all()
            else:
                assert (graph.context[tensor.path].numpy() == arrays[tensor.path]).all()


def test_a_layer_runs_on_graph_tensors(dataset):
    """The layer pools nodes to their graphs: each sum is that of the graph's own nodes."""
    tfgnn = pytest.importorskip("tensorflow_gnn")
    session = millrace.reference(pipeline(), dataset)
    batch = next(iter(millrace.tf.dataset(session, epochs=1)))
    graph = millrace.tf.graph_tensor(batch, session.spec)
    sums = tfgnn.pool_nodes_to_context(graph, "node", "sum", feature_name="node_label").numpy()
    expected = numpy.add.reduceat(batch["node_label"].numpy(), batch["node_splits"].numpy()[:-1])
    assert (sums == expected).all()
