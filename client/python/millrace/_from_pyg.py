"""What write_graph needs of PyTorch Geometric's graphs. Needs neither PyG nor torch itself."""

from __future__ import annotations

import typing
from collections.abc import Collection, Mapping

from ._from_hetero import from_hetero
from .errors import ConfigError

_LISTS = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}


# Tensors that PyG itself takes for those of nodes, whatever the number of their rows.
_OF_NODES = {"x", "pos", "feat", "node_type", "n_id"}


def from_pyg(data: typing.Any,
             of_graphs: Collection[str] | None = None) -> dict[str, typing.Any]:
    """The arguments of write_graph for a `Data` or `HeteroData` of PyTorch Geometric:

        millrace.write_graph(folder, **millrace.from_pyg(dataset[0]))

    Rows are `target`, as message passing samples. Every tensor with a row for each node, such as
    `x` and `y`, becomes a feature of nodes with its name, and every tensor named edge_… one of
    edges. The masks become the lists of roots `train`, `valid` and `test`.

    A `Batch`, such as Batch.from_data_list(dataset), becomes the list `all` of small graphs;
    tensors with a row for each graph become their targets. If a batch has as many graphs as nodes,
    `of_graphs` has to name the tensors that are of graphs.

    The nodes of a `HeteroData` stand type after type, and its types of edges become labels such as
    `paper__cites__paper`. A tensor that several types have needs one shape for all of them; types
    without it have zeros. If one type of nodes has masks, its lists are `train`, `valid` and `test`;
    otherwise they are `paper_train` and so on. `y` of a type with masks becomes their targets.
    """
    if hasattr(data, "node_types") and hasattr(data, "edge_types") and hasattr(data, "to_dict"):
        if of_graphs:
            raise ConfigError("from_pyg: of_graphs: a HeteroData becomes no list of small graphs")
        return from_hetero(data, _LISTS, _chosen)
    values = data.to_dict() if hasattr(data, "to_dict") else data
    if not isinstance(values, Mapping) or getattr(values.get("edge_index"), "ndim", 0) != 2:
        raise ConfigError(f"from_pyg: expected a Data with edge_index, got {type(data).__name__}")
    values = dict(values)
    edge_index = values.pop("edge_index")
    starts = _starts(values.pop("ptr", None), values.pop("batch", None))
    nodes = values.pop("num_nodes", None) or getattr(data, "num_nodes", None)
    if nodes is None:
        raise ConfigError("from_pyg: the graph does not say how many nodes it has; set num_nodes")
    made = {"edge_index": edge_index, "num_nodes": int(nodes), "rows": "target",
            "node_features": {}, "edge_features": {}, "roots": {}, "targets": {}}
    graphs = None if starts is None else len(starts) - 1
    _check_of_graphs(of_graphs, values, graphs)
    if starts is not None:
        made["graphs"] = {"all": starts}
    for name, value in values.items():
        if value is None:
            continue
        rows = value.shape[0] if getattr(value, "ndim", 0) else None
        if name in _LISTS:
            made["roots"][_LISTS[name]] = _chosen(name, value, nodes)
        elif name in (of_graphs or ()):
            made["targets"].setdefault("all", {})[name] = value
        elif name.startswith("edge_") and rows == edge_index.shape[1]:
            made["edge_features"][name] = value
        elif rows == nodes == graphs and of_graphs is None and name not in _OF_NODES:
            raise ConfigError(f"from_pyg: {name} has {rows} rows: is it of the {nodes} nodes or of "
                              f"the {graphs} graphs? Name those of graphs: from_pyg(data, "
                              f"of_graphs=[{name!r}]), or of_graphs=[] if there are none")
        elif rows == nodes:
            made["node_features"][name] = value
        elif graphs is not None and rows == graphs:
            made["targets"].setdefault("all", {})[name] = value
        else:
            what = type(value).__name__ if rows is None else f"{rows} rows"
            raise ConfigError(f"from_pyg: {name} has {what}, expected {nodes} for nodes"
                              + (f" or {graphs} for graphs" if graphs is not None else "")
                              + f"; leave it out: del data.{name}")
    return made


def _check_of_graphs(of_graphs, values, graphs):
    """The tensors that are said to be of graphs have a row for each."""
    if isinstance(of_graphs, str):
        raise ConfigError(f"from_pyg: of_graphs: expected a list of names, got {of_graphs!r}")
    for name in of_graphs or ():
        value = values.get(name)
        if graphs is None or getattr(value, "ndim", 0) == 0 or value.shape[0] != graphs:
            raise ConfigError(f"from_pyg: of_graphs: {name} is no tensor with a row for each graph "
                              "of a batch")


def _starts(ptr, batch):
    """The first node of each graph of a batch, and the end of the last one. None: it is no batch."""
    if ptr is not None or batch is None:
        return ptr
    import numpy

    graph = numpy.asarray(batch.detach().cpu() if hasattr(batch, "detach") else batch)
    if graph.ndim != 1 or (graph[1:] < graph[:-1]).any():
        raise ConfigError("from_pyg: batch: expected the nodes of a graph side by side, and graphs "
                          "in the order of their numbers")
    return numpy.searchsorted(graph, numpy.arange(graph.max(initial=-1) + 2))


def _chosen(name, mask, nodes):
    """The nodes of a mask."""
    import numpy

    mask = numpy.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)
    if mask.dtype != bool or mask.shape != (nodes,):
        raise ConfigError(f"from_pyg: {name} is {mask.dtype} {list(mask.shape)}, expected bool "
                          f"[{nodes}]; choose one of several splits: data.{name} = "
                          f"data.{name}[:, 0]")
    return numpy.flatnonzero(mask)
