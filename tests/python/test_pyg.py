"""PyTorch Geometric's Batch over a delivered batch."""

import pytest
from conftest import pipeline

import millrace

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric")


def test_a_batch_without_a_copy(dataset):
    session = millrace.reference(pipeline(), dataset, index_dtype="int64")
    _, batch = next(iter(session.next_epoch()))
    data = millrace.pyg.to_batch(batch, session.spec)
    assert data.num_graphs == batch.num_graphs
    assert data.edge_index.data_ptr() == batch["edge_source"].data_ptr
    assert data.x.data_ptr() == batch["node_label"].data_ptr
    assert data.num_nodes == len(batch["node_label"])
    assert data.validate(raise_on_error=True)


def test_it_comes_apart_into_the_graphs_it_was_made_of(dataset):
    session = millrace.reference(pipeline(), dataset, index_dtype="int64")
    _, batch = next(iter(session.next_epoch()))
    data = millrace.pyg.to_batch(batch, session.spec)
    graphs = data.to_data_list()
    assert len(graphs) == batch.num_graphs
    again = geometric.data.Batch.from_data_list(graphs)
    for name in ("x", "edge_index", "edge_attr", "batch", "ptr", "tactic"):
        assert (again[name] == data[name]).all(), name
    for row, graph in enumerate(graphs):
        assert graph.edge_index.min() >= 0 and graph.edge_index.max() < graph.num_nodes
        assert graph.root.item() == 0
        assert graph.example_id.item() == batch.example_ids[row]


def test_a_layer_runs_on_it(dataset):
    session = millrace.reference(pipeline(), dataset, index_dtype="int64")
    _, batch = next(iter(session.next_epoch()))
    data = millrace.pyg.to_batch(batch, session.spec)
    embedding = torch.nn.Embedding(session.spec.node_labels, 8)
    layer = geometric.nn.RGCNConv(8, 8, session.spec.edge_labels)
    out = layer(embedding(data.x), data.edge_index, data.edge_attr)
    pooled = geometric.nn.global_mean_pool(out, data.batch)
    assert pooled.shape == (batch.num_graphs, 8) and torch.isfinite(pooled).all()
