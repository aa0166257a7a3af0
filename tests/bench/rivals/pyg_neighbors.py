"""PyTorch Geometric: neighbourhoods of 1,024 roots, fan-out 15 and 10, without replacement,
directed, on one thread.

Modes `sample` and `features` call the C++ kernel below NeighborLoader, of pyg-lib or torch-sparse,
without Python around it. PyG numbers nodes with 64 bits; `--bits 32` makes graph and batches of 32
bits, which only pyg-lib can.
"""

import warnings

warnings.filterwarnings("ignore")

# pylint: disable=wrong-import-position
import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler import NeighborSampler

import graph_dataset
import graph_rounds
import measure

HOPS = list(graph_dataset.HOPS)


class PygLib:
    packages = ("pyg_lib", "torch_geometric", "torch")

    def __init__(self):
        import pyg_lib  # noqa: F401, pylint: disable=unused-import
        self._sample = torch.ops.pyg.neighbor_sample

    def __call__(self, colptr, row, seeds):
        """Returns nodes, sources, targets and places of edges, as NeighborLoader gets them."""
        sources, targets, nodes, edges = self._sample(
            colptr, row, seeds, HOPS, None, None, None, None, True, False, True, False, "uniform",
            True)[:4]
        return nodes, sources, targets, edges


class TorchSparse:
    packages = ("torch_sparse", "torch_geometric", "torch")

    def __init__(self):
        import torch_geometric.typing
        import torch_sparse  # noqa: F401, pylint: disable=unused-import
        torch_geometric.typing.WITH_PYG_LIB = False
        self._sample = torch.ops.torch_sparse.neighbor_sample

    def __call__(self, colptr, row, seeds):
        return self._sample(colptr, row, seeds, HOPS, False, True)


LIBRARIES = {"pyg-lib": PygLib, "torch-sparse": TorchSparse}


def directly(library, colptr, row, roots, x):
    for seeds in roots.split(graph_dataset.BATCH):
        tensors = library(colptr, row, seeds)
        nodes = tensors[0]
        if x is not None:
            tensors = (*tensors, torch.index_select(x, 0, nodes))
        yield graph_rounds.Batch(len(nodes), len(tensors[1]), [t.numpy() for t in tensors])


def loader(colptr, row, roots, x):
    # The sampler gets rows as they are, for its way through `Data` would copy every edge twice.
    data = Data(x=x, edge_index=torch.empty((2, 0), dtype=torch.int64))
    sampler = NeighborSampler(data, num_neighbors=HOPS, is_sorted=True)
    sampler.colptr, sampler.row = colptr, row
    batches = NeighborLoader(data, HOPS, input_nodes=roots, neighbor_sampler=sampler,
                             batch_size=graph_dataset.BATCH, num_workers=1)
    for batch in batches:
        yield graph_rounds.Batch(batch.num_nodes, batch.edge_index.shape[1],
                                 [batch.n_id.numpy(), batch.edge_index.numpy(), batch.x.numpy()])


def check(graph, library, colptr, row, roots):
    """Compares some batches with the definition: a node is expanded once, in the hop after the one
    that met it first."""
    edges = expected = 0
    for seeds in roots.split(graph_dataset.BATCH)[:3]:
        nodes, sources, targets, _ = (t.numpy() for t in library(colptr, row, seeds))
        counts = np.bincount(targets, minlength=len(nodes))
        first = len(seeds)
        second = max(first, int(sources[targets < first].max(initial=-1)) + 1)
        wanted = np.zeros(len(nodes), np.int64)
        wanted[:first] = graph.expected(nodes[:first], 0)
        wanted[first:second] = graph.expected(nodes[first:second], 1)
        if (counts != wanted).any() or len(np.unique(nodes)) != len(nodes):
            raise SystemExit(f"{counts.sum()} edges, expected {wanted.sum()}")
        graph.check(nodes[sources], nodes[targets])
        edges += int(counts.sum())
        expected += int(wanted.sum())
    return {"edges": edges, "expected": expected}


def main():
    parsed = graph_rounds.options(library="pyg-lib", bits=64)
    torch.set_num_threads(1)
    torch.manual_seed(parsed.seed)
    library = LIBRARIES[parsed.library]()
    graph = graph_dataset.Graph(parsed.data, parsed.mapped)
    integer = {32: np.int32, 64: np.int64}[parsed.bits]
    colptr, row, roots = (torch.from_numpy(a.astype(integer, copy=False)) for a in (
        graph.indptr, graph.indices, graph.roots(parsed.roots, parsed.seed)))
    checked = check(graph, library, colptr, row, roots)
    x = None
    if parsed.mode != "sample":
        x = torch.from_numpy(graph.array(f"node_feature/{parsed.feature}"))
    batches = (loader(colptr, row, roots, x) if parsed.mode == "loader"
               else directly(library, colptr, row, roots, x))
    rounds, checksum = graph_rounds.run(batches, parsed, graph_dataset.BATCH)
    graph_rounds.report(parsed.library, parsed, rounds, checksum, checked,
                        {**measure.versions(*library.packages), "bits": parsed.bits})


if __name__ == "__main__":
    main()
