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


@pytest.mark.parametrize("source", ["proof_states", "definitions"])
def test_padding_adds_a_graph_and_changes_nothing(dataset, source):
    session = millrace.reference(pipeline(source=source), dataset)
    shapes = set()
    for _, batch in session.next_epoch():
        padded = {path: numpy.asarray(array)
                  for path, array in millrace.jax.padded(batch, session.spec).items()}
        nodes = len(batch["node_label"])
        assert padded["num_graphs"] == batch.num_graphs < len(padded["example_id"])
        assert nodes < len(padded["node_label"])
        for tensor in session.spec.tensors:
            own, filled = batch[tensor.path].numpy(), padded[tensor.path]
            assert (filled[:len(own)] == own).all()
            if tensor.kind == "splits":
                cut = next(t.path for t in session.spec.tensors if t.splits == tensor.path)
                assert (filled[len(own):] == len(padded[cut])).all()
            elif session.spec.counts_nodes(tensor.path):
                assert (filled[len(own):] == nodes).all()  # the first added node
            else:
                assert (filled[len(own):] == 0).all()
        shapes.add(tuple(sorted((path, array.shape) for path, array in padded.items())))
    assert len(shapes) <= len(session) / 2


@pytest.mark.parametrize("steps, most", [(4, 16), (1, 5)])
def test_a_compiled_function_is_compiled_for_few_shapes(dataset, steps, most):
    session = millrace.reference(pipeline(), dataset)

    @jax.jit
    def degrees(batch):
        real = jax.numpy.arange(len(batch["example_id"])) < batch["num_graphs"]
        count = jax.numpy.zeros(len(batch["node_label"]), int).at[batch["edge_target"]].add(1)
        graphs = jax.numpy.searchsorted(batch["node_splits"], jax.numpy.arange(len(count)), "right")
        each = jax.ops.segment_sum(count, graphs - 1, len(real))
        return jax.numpy.where(real, each, 0)

    for _, batch in session.next_epoch():
        got = numpy.asarray(degrees(millrace.jax.padded(batch, session.spec, steps=steps)))
        expected = numpy.diff(batch["edge_splits"].numpy())
        assert (got[:batch.num_graphs] == expected).all() and not got[batch.num_graphs:].any()
    assert degrees._cache_size() <= most < len(session) / 4


SIZES = {"nodes": 1100, "edges": 9000, "graphs": 20}


def test_a_compiled_function_is_compiled_once_for_padded_graphs(dataset):
    session = millrace.reference(pipeline(pad={"graph": SIZES}), dataset)

    @jax.jit
    def degrees(batch):
        count = jax.numpy.zeros(SIZES["nodes"], int).at[batch["edge_target"]].add(batch["edge_mask"])
        graphs = jax.numpy.searchsorted(batch["node_splits"], jax.numpy.arange(len(count)), "right")
        each = jax.ops.segment_sum(count, graphs - 1, SIZES["graphs"])
        return jax.numpy.where(batch["graph_mask"], each, -1)

    paths = ("edge_target", "edge_mask", "node_splits", "graph_mask")
    for _, batch in session.next_epoch():
        arrays = millrace.jax.padded(batch, session.spec)
        assert arrays["num_graphs"] == batch.num_graphs
        for tensor in session.spec.tensors:
            assert (numpy.asarray(arrays[tensor.path]) == batch[tensor.path].numpy()).all()
        got = numpy.asarray(degrees({path: arrays[path] for path in paths}))
        expected = numpy.diff(batch["edge_splits"].numpy())[:batch.num_graphs]
        assert (got[:batch.num_graphs] == expected).all() and (got[batch.num_graphs:] == -1).all()
    assert degrees._cache_size() == 1


def test_a_graphs_tuple_of_padded_graphs_has_the_padding_where_jraph_looks_for_it(dataset):
    session = millrace.reference(pipeline(pad={"graph": SIZES}), dataset)
    for _, batch in session.next_epoch():
        graphs = millrace.jax.graphs_tuple(batch, session.spec)
        own, nodes = batch.num_graphs, int(batch["node_mask"].numpy().sum())
        edges = int(batch["edge_mask"].numpy().sum())
        assert graphs.n_node.shape == (20,) and graphs.senders.shape == (9000,)
        assert (graphs.n_node[:own] == numpy.diff(batch["node_splits"].numpy())[:own]).all()
        assert graphs.n_node[own] == 1100 - nodes and not graphs.n_node[own + 1:].any()
        assert graphs.n_edge[own] == 9000 - edges and not graphs.n_edge[own + 1:].any()
        assert set(graphs.nodes) == {"node_label", "node_mask"} and "edge_mask" in graphs.edges
        try:
            import jraph
        except ImportError:
            continue
        tuple_ = jraph.GraphsTuple(*graphs)
        assert (jraph.get_graph_padding_mask(tuple_) == batch["graph_mask"].numpy()).all()
        assert (jraph.get_node_padding_mask(tuple_) == batch["node_mask"].numpy()).all()
        assert (jraph.get_edge_padding_mask(tuple_) == batch["edge_mask"].numpy()).all()


def test_a_graphs_tuple_is_jraphs(dataset):
    jraph = pytest.importorskip("jraph")
    session = millrace.reference(pipeline(), dataset)
    _, batch = next(iter(session.next_epoch()))
    plain = millrace.jax.graphs_tuple(batch, session.spec)
    assert plain._fields == jraph.GraphsTuple._fields
    graphs = jraph.GraphsTuple(*plain)
    assert int(graphs.n_node.sum()) == len(graphs.nodes["node_label"])
    assert int(graphs.n_edge.sum()) == len(graphs.senders) == len(graphs.receivers)
    mask = numpy.asarray(jraph.get_graph_padding_mask(graphs))
    assert mask.sum() == batch.num_graphs and mask[:batch.num_graphs].all()
    assert jraph.get_node_padding_mask(graphs).sum() == len(batch["node_label"])
    assert jraph.get_edge_padding_mask(graphs).sum() == len(batch["edge_source"])
    own = jraph.unpad_with_graphs(graphs)
    assert (own.globals["example_id"] == batch["example_id"].numpy()).all()
    assert (own.senders == batch["edge_source"].numpy()).all()
    assert (own.n_node == numpy.diff(batch["node_splits"].numpy())).all()


def test_a_jraph_network_runs_on_it(dataset):
    """Padding changes nothing: each graph gets the same result as in a batch of its own."""
    jraph = pytest.importorskip("jraph")
    session = millrace.reference(pipeline(4), dataset)
    _, batch = next(iter(session.next_epoch()))

    def run(graphs):
        features = jax.nn.one_hot(graphs.nodes["node_label"] % 7, 7)
        weights = 1.0 + graphs.edges["edge_label"][:, None] % 3
        network = jraph.InteractionNetwork(
            update_edge_fn=lambda edges, sent, received: edges * sent,
            update_node_fn=lambda nodes, received: nodes + received)
        out = network(graphs._replace(nodes=features, edges=weights, globals=None))
        segments = jax.numpy.repeat(jax.numpy.arange(len(graphs.n_node)), graphs.n_node,
                                    total_repeat_length=len(features))
        return jraph.segment_sum(out.nodes, segments, len(graphs.n_node))

    graphs = jraph.GraphsTuple(*millrace.jax.graphs_tuple(batch, session.spec))
    padded = run(graphs)[:batch.num_graphs]
    alone = run(jraph.unpad_with_graphs(graphs))
    assert alone.shape == padded.shape and float(alone.sum()) > 0
    assert (numpy.asarray(alone) == numpy.asarray(padded)).all()


@pytest.mark.parametrize("size", [1, 256, 257, 300, 1000, 1025, 5000])
def test_buckets_are_close_above(size):
    bucket = millrace.jax.bucket(size)
    assert size <= bucket and (bucket <= 1.26 * size or bucket == 256)
    assert millrace.jax.bucket(bucket) == bucket
