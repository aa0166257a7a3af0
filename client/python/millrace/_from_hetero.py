"""What write_graph needs of PyTorch Geometric's HeteroData. Needs neither PyG nor torch itself."""

from __future__ import annotations

import typing

from ._node_types import list_name, typed_graph
from .errors import ConfigError


def from_hetero(data: typing.Any, lists: typing.Mapping[str, str],
                chosen: typing.Callable) -> dict[str, typing.Any]:
    """The arguments of write_graph for a HeteroData; see from_pyg. lists: the names of masks and of
    their lists. chosen: the nodes of a mask."""
    values = data.to_dict()
    counts, stores = {}, {}
    for kind in data.node_types:
        stores[kind] = {name: one for name, one in values[kind].items() if one is not None}
        counts[kind] = _count(data, kind, stores[kind])
    masks = {kind: {name: stores[kind].pop(name) for name in lists if name in stores[kind]}
             for kind in stores}
    masks = {kind: found for kind, found in masks.items() if found}
    labels = {kind: stores[kind].pop("y") for kind in masks if "y" in stores[kind]}
    edges, edge_features = {}, {}
    for kind in data.edge_types:
        store = {name: one for name, one in values[kind].items() if one is not None}
        if "edge_index" not in store:
            raise ConfigError(f"from_pyg: edges {kind} have no edge_index; they have "
                              f"{', '.join(store) or 'nothing'}")
        edges[kind] = store.pop("edge_index")
        for name, one in store.items():
            _require_rows(f"data{list(kind)}", name, one, edges[kind].shape[1])
            edge_features.setdefault(name, {})[kind] = one
    node_features = {}
    for kind, store in stores.items():
        for name, one in store.items():
            _require_rows(f"data[{kind!r}]", name, one, counts[kind])
            node_features.setdefault(name, {})[kind] = one
    made = typed_graph("from_pyg", counts, edges, node_features, edge_features)
    begin = 0
    for kind, count in counts.items():
        for name, mask in masks.get(kind, {}).items():
            found = list_name(kind, lists[name], len(masks) == 1)
            nodes = chosen(name, mask, count)
            made["roots"][found] = nodes + begin
            if kind in labels:
                _require_rows(f"data[{kind!r}]", "y", labels[kind], count)
                made["targets"][found] = {"y": labels[kind][nodes]}
        begin += count
    return made


def _count(data, kind, store):
    count = store.pop("num_nodes", None)
    if count is None:
        count = getattr(data[kind], "num_nodes", None)
    if count is None:
        raise ConfigError(f"from_pyg: the graph does not say how many nodes of type {kind} it has; "
                          f"set data[{kind!r}].num_nodes")
    return int(count)


def _require_rows(store, name, value, rows):
    if getattr(value, "ndim", 0) == 0 or value.shape[0] != rows:
        what = f"{value.shape[0]} rows" if getattr(value, "ndim", 0) else type(value).__name__
        raise ConfigError(f"from_pyg: {name} of {store} has {what}, expected {rows} rows; leave it "
                          f"out: del {store}.{name}")
