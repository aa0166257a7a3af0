"""PyTorch Geometric's ways to compute a forward closure, on one thread:

  khop      torch_geometric.utils.k_hop_subgraph (pure torch)
  neighbor  torch_sparse's neighbor_sample, the C++ kernel below NeighborLoader, called directly
  loader    NeighborLoader over it, one root a batch so that closures stay apart

The samplers take every neighbour, for as many hops as the deepest closure needs. The edges are
stored backwards, because the samplers walk against their direction.

This does less than Millrace: no size limit, edges not grouped by label, nothing packed, no
contexts, arguments or tactics.
"""

import random
import warnings

import numpy as np
import torch

import csr
import measure

warnings.filterwarnings("ignore")


class Graph:
    def __init__(self, arrays):
        offsets = arrays["offsets"]
        self.count = len(offsets) - 1
        self.colptr = torch.from_numpy(offsets)
        self.row = torch.from_numpy(arrays["targets"])
        col = torch.from_numpy(np.repeat(np.arange(self.count), np.diff(offsets)))
        self.edge_index = torch.stack([self.row, col])  # each edge leads from child to parent
        self.edge_label = torch.from_numpy(arrays["edge_labels"])
        self.node_label = torch.from_numpy(arrays["node_labels"])
        self.hops = int(arrays["depth"])


def khop(graph, roots):
    from torch_geometric.utils import k_hop_subgraph
    for root in roots:
        nodes, edges, _, mask = k_hop_subgraph(root, graph.hops, graph.edge_index,
                                               relabel_nodes=True, num_nodes=graph.count)
        yield graph.node_label[nodes], edges, graph.edge_label[mask]


def neighbor(graph, roots):
    import torch_sparse  # noqa: F401, pylint: disable=unused-import
    sample = torch.ops.torch_sparse.neighbor_sample
    hops = [-1] * graph.hops
    for root in roots:
        nodes, row, col, edges = sample(graph.colptr, graph.row, torch.tensor([root]), hops, False,
                                        True)
        yield graph.node_label[nodes], row, col, graph.edge_label[edges]


def loader(graph, roots):
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader
    data = Data(x=graph.node_label, edge_index=graph.edge_index, edge_attr=graph.edge_label)
    batches = NeighborLoader(data, num_neighbors=[-1] * graph.hops, batch_size=1,
                             input_nodes=torch.tensor(roots))
    for batch in batches:
        yield batch.x, batch.edge_index, batch.edge_attr


def main():
    parsed = measure.options(kind="khop")
    torch.set_num_threads(1)
    arrays = csr.load(parsed.csr)
    graph = Graph(arrays)
    roots = arrays["roots"].tolist()
    meter = measure.Meter(parsed.seconds, one_core=True)
    order = random.Random(parsed.seed)
    packages = ["torch", "torch_geometric"] + (["torch_sparse"] if parsed.kind != "khop" else [])
    while True:
        order.shuffle(roots)
        for tensors in {"khop": khop, "neighbor": neighbor, "loader": loader}[parsed.kind](graph,
                                                                                         roots):
            meter.touch(*(t.numpy() for t in tensors))
            if not meter.take():
                measure.emit("examples", meter.rate(), "examples/s", checksum=meter.checksum(),
                             **measure.versions(*packages))
                return


if __name__ == "__main__":
    main()
