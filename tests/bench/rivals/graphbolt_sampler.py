"""DGL's GraphBolt: neighbourhoods of 1,024 roots, fan-out 15 and 10, without replacement, on one
thread.

It samples as its NeighborSampler does: the second hop begins at all nodes of the first one, roots
included, so that it takes up to 10 more edges of every root than PyG and Millrace. Mode `features`
takes rows by torch.index_select, which is several times as fast as GraphBolt's own
TorchBasedFeature.read. Mode `read` takes the latter, and so does `loader`.
"""

import warnings

warnings.filterwarnings("ignore")

# pylint: disable=wrong-import-position
import dgl.graphbolt as gb
import numpy as np
import torch

import graph_dataset
import graph_rounds
import measure


def sample(graph, seeds):
    """Returns the nodes of the batch, and a graph for each hop, the last hop first."""
    layers = []
    for fanout in graph_dataset.HOPS:
        layer = graph.sample_neighbors(seeds, torch.tensor([fanout]))
        nodes, compacted = gb.unique_and_compact_csc_formats(layer.sampled_csc, seeds)
        layers.insert(0, gb.SampledSubgraphImpl(
            sampled_csc=compacted, original_column_node_ids=seeds, original_row_node_ids=nodes,
            original_edge_ids=layer.original_edge_ids))
        seeds = nodes
    return seeds, layers


def count(nodes, layers, *features):
    arrays = [nodes.numpy(), *(f.numpy() for f in features)]
    for layer in layers:
        arrays += [layer.sampled_csc.indptr.numpy(), layer.sampled_csc.indices.numpy()]
    return graph_rounds.Batch(len(nodes), sum(len(s.sampled_csc.indices) for s in layers), arrays)


def directly(graph, roots, feature=None):
    for seeds in torch.from_numpy(roots).split(graph_dataset.BATCH):
        nodes, layers = sample(graph, seeds)
        if feature is None:
            yield count(nodes, layers)
        else:
            yield count(nodes, layers, feature(nodes))


def loader(graph, roots, feature):
    pipe = gb.ItemSampler(gb.ItemSet(torch.from_numpy(roots), names="seed_nodes"),
                          batch_size=graph_dataset.BATCH)
    pipe = pipe.sample_neighbor(graph, list(reversed(graph_dataset.HOPS)))
    pipe = pipe.fetch_feature(gb.BasicFeatureStore({("node", None, "x"): feature}),
                              node_feature_keys=["x"])
    for batch in gb.DataLoader(pipe, num_workers=1):
        yield count(batch.input_nodes, batch.sampled_subgraphs, batch.node_features["x"])


def check(data, graph, roots):
    """Compares some batches with the definition."""
    edges = expected = without_roots = 0
    for seeds in torch.from_numpy(roots).split(graph_dataset.BATCH)[:3]:
        _, layers = sample(graph, seeds)
        for hop, layer in enumerate(reversed(layers)):
            columns = layer.original_column_node_ids.numpy()
            counts = np.diff(layer.sampled_csc.indptr.numpy())
            wanted = data.expected(columns, hop)
            if (counts != wanted).any():
                raise SystemExit(f"hop {hop}: {counts.sum()} edges, expected {wanted.sum()}")
            sources = layer.original_row_node_ids.numpy()[layer.sampled_csc.indices.numpy()]
            data.check(sources, np.repeat(columns, counts))
            edges += int(counts.sum())
            expected += int(wanted.sum())
            without_roots += int(wanted.sum() if hop == 0 else wanted[len(seeds):].sum())
    return {"edges": edges, "expected": expected, "expected_without_roots_again": without_roots}


def main():
    parsed = graph_rounds.options()
    torch.set_num_threads(1)
    torch.manual_seed(parsed.seed)
    data = graph_dataset.Graph(parsed.data, parsed.mapped)
    graph = gb.fused_csc_sampling_graph(torch.from_numpy(data.indptr),
                                        torch.from_numpy(data.indices))
    roots = data.roots(parsed.roots, parsed.seed).astype(data.indices.dtype)
    checked = check(data, graph, roots)
    if parsed.mode == "sample":
        batches = directly(graph, roots)
    else:
        x = torch.from_numpy(data.array(f"node_feature/{parsed.feature}"))
        feature = gb.TorchBasedFeature(x)
        batches = {
            "features": lambda: directly(graph, roots, lambda n: torch.index_select(x, 0, n)),
            "read": lambda: directly(graph, roots, feature.read),
            "loader": lambda: loader(graph, roots, feature)}[parsed.mode]()
    rounds, checksum = graph_rounds.run(batches, parsed, graph_dataset.BATCH)
    graph_rounds.report("graphbolt", parsed, rounds, checksum, checked,
                        measure.versions("dgl", "torch"))


if __name__ == "__main__":
    main()
