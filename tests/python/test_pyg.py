"""PyTorch Geometric's Batch and Data over delivered batches."""

import numpy
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


NODES = 400
NEIGHBORS = {"millrace": 1, "dataset": "g", "source": {"roots": "train"}, "shuffle": {"seed": 1},
             "closure": {"kind": "neighbors", "fanout": [5, 3]}, "batch": {"size": 32},
             "features": ["x"], "edge_features": ["edge_attr"], "targets": ["y"]}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A graph with lists of roots that repeat nodes, and its Data."""
    draw = torch.Generator().manual_seed(0)
    data = geometric.data.Data(
        x=torch.rand((NODES, 8), generator=draw), y=torch.randint(5, (NODES,), generator=draw),
        edge_index=torch.randint(NODES, (2, 5000), generator=draw))
    data.edge_attr = torch.stack([data.edge_index[0], data.edge_index[1]], dim=1)
    arrays = millrace.from_pyg(data)
    arrays["roots"] = {"train": numpy.arange(0, NODES, 3), "twice": numpy.arange(200) % 50}
    folder = tmp_path_factory.mktemp("neighbors") / "g"
    millrace.write_graph(folder, **arrays, edge_label=None)
    arrays["targets"] = {"twice": {"other": numpy.arange(200)}}
    millrace.write_graph(folder.parent / "other", **arrays, edge_label=numpy.arange(5000) % 3)
    return folder, data


def _without(of):
    """The pipeline without the keys that are None."""
    return {key: value for key, value in of.items() if value is not None}


def merged(folder, of=None, **options):
    session = millrace.reference(_without({**NEIGHBORS, **(of or {})}), folder, index_dtype="int64", **options)
    return session, next(iter(session.next_epoch()))[1]


def test_a_merged_batch_is_what_a_neighbor_loader_gives(written):
    folder, given = written
    session, batch = merged(folder)
    data = millrace.pyg.to_data(batch, session.spec)
    assert type(data) is geometric.data.Data and data.validate(raise_on_error=True)
    assert data.x.data_ptr() == batch["node_feature/x"].data_ptr
    assert data.edge_index.data_ptr() == batch["edge_source"].data_ptr
    assert data.y.data_ptr() == batch["target/y"].data_ptr
    assert data.batch_size == 32 and data.input_id.tolist() == batch.example_ids
    assert torch.equal(data.n_id[:32], 3 * data.input_id)
    assert torch.equal(data.x, given.x[data.n_id])
    assert torch.equal(data.y[:data.batch_size], given.y[data.n_id[:data.batch_size]])
    assert torch.equal(data.edge_attr, data.n_id[data.edge_index].T)
    assert sum(data.num_sampled_nodes) == data.num_nodes and len(data.num_sampled_nodes) == 3
    assert sum(data.num_sampled_edges) == data.num_edges and len(data.num_sampled_edges) == 2
    assert data.num_sampled_nodes[0] == 32
    try:
        loader = geometric.loader.NeighborLoader(given, [5, 3], torch.arange(0, NODES, 3), batch_size=32)
        theirs = next(iter(loader))
    except ImportError:
        return  # PyG has no sampler here
    assert set(theirs.keys()) - set(data.keys()) <= {"e_id"}
    for name in ("num_sampled_nodes", "num_sampled_edges", "batch_size"):
        assert type(data[name]) is type(theirs[name]), name
    for name in ("x", "y", "edge_index", "edge_attr", "n_id", "input_id"):
        assert data[name].dtype == theirs[name].dtype, name


def test_places_of_edges_are_there_if_the_pipeline_gives_them(written):
    folder, given = written
    session, batch = merged(folder, {"output": ["node_feature/x", "edge", "edge_source", "edge_target", "root"],
                                     "edge_features": None, "targets": None})
    data = millrace.pyg.to_data(batch, session.spec)
    order = torch.sort(given.edge_index[1], stable=True).indices  # of the dataset's edges
    ends = given.edge_index[:, order[data.e_id]]
    assert torch.equal(given.x[ends], data.x[data.edge_index])
    assert data.batch_size == 32 and "num_sampled_nodes" not in data and "n_id" not in data


def test_trimming_to_layers_changes_nothing_for_the_roots(written):
    session, batch = merged(written[0])
    data = millrace.pyg.to_data(batch, session.spec)
    torch.manual_seed(0)
    model = geometric.nn.GraphSAGE(8, 16, num_layers=2, out_channels=5).eval()
    whole = model(data.x, data.edge_index)[:data.batch_size]
    trimmed = model(data.x, data.edge_index, num_sampled_nodes_per_hop=data.num_sampled_nodes,
                    num_sampled_edges_per_hop=data.num_sampled_edges)[:data.batch_size]
    assert torch.allclose(whole, trimmed, atol=1e-6)


def test_without_a_limit_the_roots_get_what_the_whole_graph_gives_them(written):
    folder, given = written
    session, batch = merged(folder, {"closure": {"kind": "neighbors", "fanout": [-1, -1]}})
    data = millrace.pyg.to_data(batch, session.spec)
    torch.manual_seed(0)
    model = geometric.nn.GraphSAGE(8, 16, num_layers=2, out_channels=5).eval()
    whole = model(given.x, given.edge_index)[data.n_id[:data.batch_size]]
    assert torch.allclose(model(data.x, data.edge_index)[:data.batch_size], whole, atol=1e-5)


def test_examples_with_the_same_root_share_a_row(written):
    folder, given = written
    twice = {"source": {"roots": "twice"}, "batch": {"size": 200}}
    session, batch = merged(folder, twice)
    data = millrace.pyg.to_data(batch, session.spec)
    assert data.batch_size == 50 == data.num_sampled_nodes[0] and len(data.input_id) == 50
    assert torch.equal(data.root, torch.arange(50))
    assert torch.equal(data.y, given.y[data.n_id[:50]])
    assert data.input_id[0] == batch.example_ids[0]
    each = millrace.pyg.to_data(batch, session.spec, rows="examples")
    assert "batch_size" not in each and len(each.input_id) == 200
    assert torch.equal(each.y, given.y[each.n_id[each.root]])
    session, batch = merged(folder.parent / "other", {**twice, "targets": ["other"]})
    with pytest.raises(millrace.ConfigError, match='target/other differs .* rows="examples"'):
        millrace.pyg.to_data(batch, session.spec)
    each = millrace.pyg.to_data(batch, session.spec, rows="examples")
    assert torch.equal(each.other, each.input_id)


def test_edges_that_stand_by_label_are_not_counted_by_hop(written):
    session, batch = merged(written[0].parent / "other", {"edge_features": None})
    data = millrace.pyg.to_data(batch, session.spec)
    assert "num_sampled_edges" not in data and len(data.num_sampled_nodes) == 3
    assert torch.equal(data.edge_attr, batch["edge_label"].torch())
    assert (data.edge_attr.diff() >= 0).all()


def test_each_kind_of_batches_has_its_own_function(written):
    session, batch = merged(written[0])
    with pytest.raises(millrace.ConfigError, match="one graph: millrace.pyg.to_data"):
        millrace.pyg.to_batch(batch, session.spec)
    with pytest.raises(millrace.ConfigError, match="rows: expected .* got 'all'"):
        millrace.pyg.to_data(batch, session.spec, rows="all")
    session, batch = merged(written[0], {"closure": {**NEIGHBORS["closure"], "merge": False}})
    with pytest.raises(millrace.ConfigError, match="millrace.pyg.to_batch"):
        millrace.pyg.to_data(batch, session.spec)
    data = millrace.pyg.to_batch(batch, session.spec)
    assert data.num_graphs == 32 and data.hop_nodes.shape == (32, 3)
    one = data.to_data_list()[3]
    assert one.x.shape[0] == one.hop_nodes.sum() and one.y == data.y[3]
