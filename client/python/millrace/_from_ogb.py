"""What write_graph needs of the Open Graph Benchmark's graphs. Does not need the package ogb."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

from ._node_types import list_name, numbers_in_graph, typed_graph
from ._write_graph import _check_range, refuse_mask
from .errors import ConfigError

# As ogb's own adapter for PyG names them.
_NAMES = {"node_feat": "x", "edge_feat": "edge_attr"}


def from_ogb(graph: typing.Any, label: typing.Any,
             split_idx: Mapping[str, typing.Any] | None = None,
             undirected: bool = False) -> dict[str, typing.Any]:
    """The arguments of write_graph for what the Open Graph Benchmark's datasets give:

        dataset = ogb.nodeproppred.NodePropPredDataset("ogbn-arxiv")
        millrace.write_graph(folder, **millrace.from_ogb(*dataset[0], dataset.get_idx_split()))

    graph: the dict of a graph, also one with types of nodes and edges; or the list of them that
        ogb.graphproppred.GraphPropPredDataset has as `graphs`, with its `labels`.
    split_idx: the splits become lists of roots, or of small graphs, with targets `y`. Small graphs
        stand in the order of the splits. Without splits there are the feature `y`, or the list
        `all`.
    undirected: adds the other direction of each edge that lacks it. ogb itself adds it for some
        datasets.

    Rows are `target`. node_feat becomes `x`, edge_feat `edge_attr`, and other arrays keep their
    names. Targets of one column become arrays of one dimension.
    """
    if isinstance(graph, Mapping):
        made = (_typed if "edge_index_dict" in graph else _single)(graph, label, split_idx)
    elif isinstance(graph, Sequence) and all(isinstance(one, Mapping) for one in graph):
        made = _small_graphs(graph, label, split_idx)
    else:
        raise ConfigError(f"from_ogb: expected the dict of a graph, or a list of them, got "
                          f"{type(graph).__name__}")
    return {**made, "undirected": undirected}


def _single(graph, label, split_idx):
    nodes = int(graph["num_nodes"])
    made = {"edge_index": graph["edge_index"], "num_nodes": nodes, "rows": "target",
            "node_features": {}, "edge_features": {}, "roots": {}, "targets": {}}
    for name, value in _arrays(graph):
        made["node_features" if name.startswith("node_") else "edge_features"][
            _NAMES.get(name, name)] = value
    if label is not None:
        label = _flat(label, nodes, "nodes")
        if not split_idx:
            made["node_features"]["y"] = label
    for name, chosen in (split_idx or {}).items():
        made["roots"][name] = _numbers(name, chosen, nodes)
        if label is not None:
            made["targets"][name] = {"y": label[made["roots"][name]]}
    return made


def _typed(graph, label, split_idx):
    counts = {kind: int(count) for kind, count in graph["num_nodes_dict"].items()}
    edges = {kind: pairs for kind, pairs in graph["edge_index_dict"].items()}
    features = {"node": {}, "edge": {}}
    for name, arrays in graph.items():
        side = name.partition("_")[0]
        if name in ("num_nodes_dict", "edge_index_dict") or not arrays or side not in features:
            continue
        short = name.removesuffix("_dict")
        features[side][_NAMES.get(short, short)] = arrays
    label = {kind: _flat(one, counts[kind], f"nodes of type {kind}")
             for kind, one in (label or {}).items()}
    if label and not split_idx:
        features["node"]["y"] = label
    made = typed_graph("from_ogb", counts, edges, features["node"], features["edge"])
    starts, total = {}, 0
    for kind, count in counts.items():
        starts[kind], total = total, total + count
    for split, chosen in (split_idx or {}).items():
        for kind, nodes in chosen.items():
            name = list_name(kind, split, len(chosen) == 1)
            nodes = numbers_in_graph(f"from_ogb: {name}", nodes, starts[kind], counts[kind])
            made["roots"][name] = nodes
            if kind in label:
                made["targets"][name] = {"y": label[kind][nodes - starts[kind]]}
    return made


def _small_graphs(graphs, label, split_idx):
    import numpy

    label = None if label is None else _flat(label, len(graphs), "graphs")
    splits = ({name: _numbers(name, chosen, len(graphs)) for name, chosen in split_idx.items()}
              if split_idx else {"all": numpy.arange(len(graphs))})
    made = {"rows": "target", "node_features": {}, "edge_features": {}, "graphs": {}, "targets": {}}
    order = numpy.concatenate(list(splits.values()))
    chosen = [graphs[number] for number in order.tolist()]
    nodes = numpy.array([int(graph["num_nodes"]) for graph in chosen], numpy.int64)
    edges = numpy.array([graph["edge_index"].shape[1] for graph in chosen], numpy.int64)
    starts = numpy.concatenate([[0], numpy.cumsum(nodes)])
    made["num_nodes"] = int(starts[-1])
    pairs = numpy.concatenate([numpy.zeros((2, 0), numpy.int64),
                               *(graph["edge_index"] for graph in chosen)], axis=1)
    own = numpy.repeat(numpy.arange(len(chosen)), edges)  # the graph of each edge
    wrong = numpy.flatnonzero(((pairs < 0) | (pairs >= nodes[own])).any(axis=0))
    if len(wrong):
        at = int(own[wrong[0]])
        raise ConfigError(f"from_ogb: graph {order[at]} has the edge {pairs[:, wrong[0]].tolist()}, "
                          f"expected numbers of its {nodes[at]} nodes")
    made["edge_index"] = pairs + starts[own]
    for name, _ in _arrays(chosen[0]) if chosen else ():
        if any(graph.get(name) is None for graph in chosen):
            raise ConfigError(f"from_ogb: only some of the graphs have {name}")
        of_nodes = name.startswith("node_")
        for number, graph, rows in zip(order, chosen, nodes if of_nodes else edges, strict=True):
            if len(graph[name]) != rows:
                raise ConfigError(f"from_ogb: {name} of graph {number} has {len(graph[name])} rows, "
                                  f"expected {rows}")
        made["node_features" if of_nodes else "edge_features"][
            _NAMES.get(name, name)] = numpy.concatenate([graph[name] for graph in chosen])
    begin = 0
    for name, numbers in splits.items():
        made["graphs"][name] = starts[begin:begin + len(numbers) + 1]
        begin += len(numbers)
        if label is not None:
            made["targets"][name] = {"y": label[numbers]}
    return made


def _arrays(graph):
    return [(name, value) for name, value in graph.items()
            if value is not None and name.startswith(("node_", "edge_")) and name != "edge_index"]


def _flat(label, rows, what):
    import numpy

    label = numpy.asarray(label.detach().cpu() if hasattr(label, "detach") else label)
    if label.dtype.kind not in "biuf" or label.shape[:1] != (rows,):
        raise ConfigError(f"from_ogb: label is {label.dtype} {list(label.shape)}, expected numbers "
                          f"for each of {rows} {what}")
    return label[:, 0] if label.ndim == 2 and label.shape[1] == 1 else label


def _numbers(name, chosen, rows):
    """The nodes or graphs of a split."""
    import numpy

    chosen = numpy.asarray(chosen.detach().cpu() if hasattr(chosen, "detach") else chosen)
    refuse_mask(f"from_ogb: split {name}", chosen, rows)
    if chosen.size == 0:
        return chosen.astype(numpy.int64)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise ConfigError(f"from_ogb: split {name} is {chosen.dtype} {list(chosen.shape)}, expected "
                          f"numbers")
    _check_range(f"from_ogb: split {name}", chosen, rows)
    return chosen
