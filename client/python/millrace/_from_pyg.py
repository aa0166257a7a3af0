"""What write_graph needs of PyTorch Geometric's graphs. Needs neither PyG nor torch itself."""

from __future__ import annotations

import typing
from collections.abc import Mapping

from ._from_hetero import from_hetero
from .errors import ConfigError

_LISTS = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}


def from_pyg(data: typing.Any) -> dict[str, typing.Any]:
    """The arguments of write_graph for a `Data` or `HeteroData` of PyTorch Geometric:

        millrace.write_graph(folder, **millrace.from_pyg(dataset[0]))

    Rows are `target`, as message passing samples. Every tensor with a row for each node, such as
    `x` and `y`, becomes a feature of nodes with its name, and every tensor named edge_… one of
    edges. The masks become the lists of roots `train`, `valid` and `test`.

    A `Batch`, such as Batch.from_data_list(dataset), becomes the list `all` of small graphs;
    tensors with a row for each graph become their targets.

    The nodes of a `HeteroData` stand type after type, and its types of edges become labels such as
    `paper__cites__paper`. A tensor that several types have needs one shape for all of them; types
    without it have zeros. If one type of nodes has masks, its lists are `train`, `valid` and `test`;
    otherwise they are `paper_train` and so on. `y` of a type with masks becomes their targets.
    """
    if hasattr(data, "node_types") and hasattr(data, "edge_types") and hasattr(data, "to_dict"):
        return from_hetero(data, _LISTS, _chosen)
    values = data.to_dict() if hasattr(data, "to_dict") else data
    if not isinstance(values, Mapping) or getattr(values.get("edge_index"), "ndim", 0) != 2:
        raise ConfigError(f"from_pyg: expected a Data with edge_index, got {type(data).__name__}")
    values = dict(values)
    edge_index = values.pop("edge_index")
    starts = values.pop("ptr", None)
    values.pop("batch", None)
    nodes = values.pop("num_nodes", None) or getattr(data, "num_nodes", None)
    if nodes is None:
        raise ConfigError("from_pyg: the graph does not say how many nodes it has; set num_nodes")
    made = {"edge_index": edge_index, "num_nodes": int(nodes), "rows": "target",
            "node_features": {}, "edge_features": {}, "roots": {}, "targets": {}}
    graphs = None if starts is None else len(starts) - 1
    if starts is not None:
        made["graphs"] = {"all": starts}
    for name, value in values.items():
        if value is None:
            continue
        rows = value.shape[0] if getattr(value, "ndim", 0) else None
        if name in _LISTS:
            made["roots"][_LISTS[name]] = _chosen(name, value, nodes)
        elif name.startswith("edge_") and rows == edge_index.shape[1]:
            made["edge_features"][name] = value
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


def _chosen(name, mask, nodes):
    """The nodes of a mask."""
    import numpy

    mask = numpy.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)
    if mask.dtype != bool or mask.shape != (nodes,):
        raise ConfigError(f"from_pyg: {name} is {mask.dtype} {list(mask.shape)}, expected bool "
                          f"[{nodes}]; choose one of several splits: data.{name} = "
                          f"data.{name}[:, 0]")
    return numpy.flatnonzero(mask)
