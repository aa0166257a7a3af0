"""Merged batches: one graph that its examples share, and what the package makes of it."""

import numpy
import pytest

import millrace
from millrace._validate import check

NODES = 300
PIPELINE = {"millrace": 1, "dataset": "g", "source": {"roots": "train"}, "batch": {"size": 16},
            "closure": {"kind": "neighbors", "fanout": [4, 3]}, "features": ["x"], "targets": ["y"]}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("merged") / "g"
    draw = numpy.random.default_rng(0)
    millrace.write_graph(
        folder, edge_index=draw.integers(0, NODES, (2, 3000)), num_nodes=NODES, rows="target",
        node_features={"x": draw.random((NODES, 3), "float32")},
        roots={"train": draw.permutation(NODES)[:90], "twice": numpy.arange(90) % 40},
        targets={"train": {"y": numpy.arange(90)}, "twice": {"y": numpy.arange(90)}})
    return folder


def first_of(graph, of=None, **options):
    session = millrace.reference({**PIPELINE, **(of or {})}, graph, **options)
    return session, next(iter(session.next_epoch()))[1]


def test_it_is_one_graph_of_many_examples(graph):
    session, batch = first_of(graph)
    assert session.spec.merged
    assert (batch.num_graphs, batch.num_examples) == (1, 16)
    assert "1 graph of 16 examples" in repr(batch)
    plain, other = first_of(graph, {"closure": {"kind": "neighbors", "fanout": [4, 3], "merge": False}})
    assert not plain.spec.merged
    assert (other.num_graphs, other.num_examples) == (16, 16) and "16 graphs" in repr(other)


def test_a_row_has_what_is_its_examples_own(graph):
    session, batch = first_of(graph, {"source": {"roots": "twice"}, "batch": {"size": 90}})
    for row in (0, 50, 89):
        one = batch.row(row)
        assert set(one) == {"root", "example_id", "target/y"}
        assert one["example_id"] == batch.example_ids[row] == one["target/y"]
        assert batch["node"].numpy()[one["root"]] == one["example_id"] % 40
        assert session.provenance(batch, row)["example"] == batch.example_ids[row]
    with pytest.raises(IndexError, match="row 90: the batch has 90 examples"):
        batch.row(90)
    with pytest.raises(IndexError, match="row 90: the batch has 90 examples"):
        session.provenance(batch, 90)


def test_computed_tensors_of_its_examples_and_nodes(graph):
    tensors = {"narrow": {"cast": "target/y", "dtype": "float32"},
               "wide": {"cast": "node_feature/x", "dtype": "float64"}}
    session, batch = first_of(graph, {"tensors": tensors}, validate=True)
    assert len(batch["wide"]) == len(batch["node"]) and len(batch["narrow"]) == 16
    assert check(batch, session.spec) is None
    assert set(batch.row(1)) == {"root", "example_id", "narrow"}
    assert batch.row(1)["narrow"] == batch.example_ids[1]


def test_validation_knows_its_rows(graph):
    session, batch = first_of(graph, validate=True)
    assert check(batch, session.spec) is None

    class Broken:
        """The batch with another value in one place."""

        num_graphs, num_examples = batch.num_graphs, batch.num_examples

        def __init__(self, path, at, value):
            self.arrays = {name: batch[name].numpy() for name in batch}
            self.arrays[path] = self.arrays[path].copy()
            self.arrays[path][at] = value

        def __iter__(self):
            return iter(self.arrays)

        def __getitem__(self, path):
            array = self.arrays[path]
            return type("Tensor", (), {"numpy": lambda _: array})()

    nodes = len(batch["node"])
    for path, at, value, row in (("root", 5, nodes, 5), ("edge_source", 7, nodes, None),
                                 ("node_splits", 1, nodes - 1, None), ("node", 3, NODES, None),
                                 ("example_id", 2, 90, 2)):
        problem = check(Broken(path, at, value), session.spec)
        assert problem is not None and problem[0] == row, (path, problem)


def test_it_does_not_come_in_parts(graph):
    with pytest.raises(millrace.Error, match="micro=2: .*cannot be cut into parts"):
        first_of(graph, micro=2)


def test_a_drawing_needs_a_batch_of_one_example(graph):
    session, batch = first_of(graph)
    with pytest.raises(millrace.ConfigError, match="one graph, here of 16 examples"):
        millrace.viz.graph(batch, 0, session)
    assert "example 7: " in millrace.viz.graph(session.batch_of([7]), 0, session)


def test_jax_pads_it_to_two_graphs(graph):
    pytest.importorskip("jax")
    jraph = pytest.importorskip("jraph")
    session, batch = first_of(graph)
    padded = millrace.jax.padded(batch, session.spec)
    assert (padded["num_graphs"], padded["num_examples"]) == (1, 16)
    assert padded["root"].shape == padded["target/y"].shape == (16,)
    assert padded["hop_nodes"].shape == (2, 3) and padded["node_splits"].shape == (3,)
    graphs = jraph.GraphsTuple(*millrace.jax.graphs_tuple(batch, session.spec))
    assert jraph.get_graph_padding_mask(graphs).tolist() == [True, False]
    assert jraph.get_node_padding_mask(graphs).sum() == len(batch["node"])
    own = jraph.unpad_with_graphs(graphs)
    assert set(own.globals) == {"hop_nodes", "hop_edges"}
    assert (own.senders == batch["edge_source"].numpy()).all()


def test_a_graph_tensor_has_one_component(graph):
    pytest.importorskip("tensorflow")
    session, batch = first_of(graph)
    element = next(iter(millrace.tf.dataset(session, epochs=1)))
    assert element["hop_nodes"].shape == (1, 3) and element["root"].shape == (16,)
    pytest.importorskip("tensorflow_gnn")
    made = millrace.tf.graph_tensor(element, session.spec)
    assert int(made.num_components) == batch.num_graphs
    assert set(made.context.features) == {"hop_nodes", "hop_edges"}
