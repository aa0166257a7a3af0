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


DEFINITIONS = {"millrace": 1, "dataset": "data", "source": "definitions", "batch": {"size": 16}}
UNDIRECTED = {"edges": {"symmetrization": "undirected", "add_self_edges": False}}


@pytest.mark.parametrize("of, micro", [
    (pipeline(), 1), (pipeline(**UNDIRECTED), 1), (pipeline(fields={"text": True}), 1),
    (pipeline(fields={"global_context": "full"}), 1), (DEFINITIONS, 1), (pipeline(), 3)])
def test_it_comes_apart_into_the_graphs_it_was_made_of(dataset, of, micro):
    session = millrace.reference(of, dataset, index_dtype="int64", micro=micro)
    _, given = next(iter(session.next_epoch()))
    for batch in given if micro > 1 else (given,):
        data = millrace.pyg.to_batch(batch, session.spec)
        graphs = data.to_data_list()
        assert len(graphs) == batch.num_graphs
        again = geometric.data.Batch.from_data_list(graphs)
        compared = 0
        for tensor in session.spec.tensors:
            # Node numbers are left out: from_data_list() shifts only those in edge_index.
            if tensor.path in data and tensor.kind != "splits" and not session.spec.counts_nodes(
                    tensor.path):
                assert torch.equal(again[tensor.path], data[tensor.path]), tensor.path
                compared += 1
        assert compared >= 2  # example_id, and other tensors of the source
        for name in ("x", "edge_index", "edge_attr", "batch", "ptr"):
            assert torch.equal(again[name], data[name]), name
        splits, nodes = batch["edge_splits"].numpy(), batch["node_splits"].numpy()
        for row, graph in enumerate(graphs):
            cut = slice(splits[row], splits[row + 1])
            assert graph.num_nodes == nodes[row + 1] - nodes[row]
            assert (graph.edge_index[0].numpy() == batch["edge_source"][cut] - nodes[row]).all()
            assert (graph.edge_index[1].numpy() == batch["edge_target"][cut] - nodes[row]).all()
            assert graph.example_id.item() == batch.example_ids[row]
            if "root" in batch:
                assert graph.root.item() == 0
                cut = batch["local_context_splits"].numpy()
                own = batch["local_context"].numpy()[cut[row]:cut[row + 1]] - nodes[row]
                assert (graph.local_context.numpy() == own).all()
                assert ((0 <= graph.local_context) & (graph.local_context < graph.num_nodes)).all()


def test_graphs_of_padding_are_graphs_with_masks(dataset):
    sizes = {"nodes": 1100, "edges": 9000, "graphs": 20}
    session = millrace.reference(pipeline(pad={"graph": sizes}), dataset, index_dtype="int64")
    plain = millrace.reference(pipeline(), dataset, index_dtype="int64")
    for (_, batch), (_, own) in zip(session.next_epoch(), plain.next_epoch(), strict=True):
        data = millrace.pyg.to_batch(batch, session.spec)
        assert data.validate(raise_on_error=True)
        assert data.num_graphs == 20 and data.num_nodes == 1100 and data.num_edges == 9000
        assert data.x.data_ptr() == batch["node_label"].data_ptr
        assert data.batch.shape == (1100,)
        assert torch.equal(data.graph_mask[data.batch], data.node_mask)
        assert torch.equal(data.edge_mask, data.node_mask[data.edge_index[0]])
        graphs = data.to_data_list()
        expected = millrace.pyg.to_batch(own, plain.spec).to_data_list()
        for graph, same in zip(graphs, expected):
            assert torch.equal(graph.x, same.x) and torch.equal(graph.edge_index, same.edge_index)
            assert graph.graph_mask.all() and graph.root == same.root
        assert all(not graph.graph_mask.any() for graph in graphs[own.num_graphs:])
        assert all(graph.num_nodes == 0 for graph in graphs[own.num_graphs:-1])


def test_numbers_of_nodes_have_to_be_int64(dataset):
    session = millrace.reference(pipeline(), dataset)
    _, batch = next(iter(session.next_epoch()))
    with pytest.raises(millrace.ConfigError, match="index_dtype"):
        millrace.pyg.to_batch(batch, session.spec)


def test_a_layer_runs_on_it(dataset):
    session = millrace.reference(pipeline(), dataset, index_dtype="int64")
    _, batch = next(iter(session.next_epoch()))
    data = millrace.pyg.to_batch(batch, session.spec)
    embedding = torch.nn.Embedding(session.spec.tables["node_labels"].rows, 8)
    layer = geometric.nn.RGCNConv(8, 8, session.spec.edge_labels)
    out = layer(embedding(data.x), data.edge_index, data.edge_attr)
    pooled = geometric.nn.global_mean_pool(out, data.batch)
    assert pooled.shape == (batch.num_graphs, 8) and torch.isfinite(pooled).all()


def test_a_graph_comes_back_with_the_names_that_it_had(tmp_path):
    given = geometric.data.Data(
        x=torch.arange(8.0).reshape(4, 2), y=torch.tensor([3, 2, 1, 0]),
        edge_index=torch.tensor([[1, 2, 3], [0, 1, 2]]), edge_attr=torch.tensor([[1.5], [2.5], [3.5]]))
    millrace.write_graph(tmp_path / "g", **millrace.from_pyg(given))
    session = millrace.reference(
        "millrace: 1\ndataset: g\nsource: {roots: all}\nfeatures: [x]\nedge_features: [edge_attr]\n"
        "targets: [y]\nbatch: {size: 2}\n", tmp_path / "g", index_dtype="int64")
    _, batch = next(iter(session.next_epoch()))
    data = millrace.pyg.to_batch(batch, session.spec)
    assert data.validate(raise_on_error=True)
    assert torch.equal(data.x, given.x[data.node]) and torch.equal(data.y, given.y[:2])
    second = data.to_data_list()[1]  # node 1 and what leads to it
    assert torch.equal(second.node, torch.tensor([1, 2, 3]))
    assert torch.equal(second.edge_index, torch.tensor([[1, 2], [0, 1]]))
    assert torch.equal(second.edge_attr, given.edge_attr[1:])
    assert "edge_label" not in second
    assert torch.equal(second.x, given.x[1:])
