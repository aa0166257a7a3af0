"""PyTorch Geometric: a delivered batch as a torch_geometric `Batch`. Edges are not copied.

    session = millrace.connect(…, index_dtype="int64")
    for step, batch in epoch:
        data = millrace.pyg.to_batch(batch, session.spec)

PyG numbers nodes by int64: open the session with index_dtype="int64".
"""

import torch
from torch_geometric.data import Batch, Data

from .errors import ConfigError


def to_batch(batch, spec):
    """The batch as a torch_geometric `Batch`. `x` holds the values of nodes, `edge_index` the edges
    and `edge_attr` their labels. `batch` and `ptr` tell graphs apart. Every other tensor has its
    own name, with _ for each /. `to_data_list()` takes the batch apart again."""
    if len(spec.edges) != 1:
        raise ConfigError(f"PyG's Batch holds one kind of edges, the spec has {len(spec.edges)}")
    (edges,) = spec.edges
    if spec[edges.source].dtype != "int64":
        raise ConfigError('PyG numbers nodes by int64: open the session with index_dtype="int64"')
    nodes = batch[spec.node_splits].torch()
    sizes = nodes.diff()
    values = [batch[path].torch() for path in spec.node_values]
    fields = {
        "x": values[0] if len(values) == 1 else torch.stack(values, dim=1),
        "edge_index": batch.stack([edges.source, edges.target]).torch(),
        "edge_attr": batch[edges.label].torch(),
    }
    slices = {"x": nodes, "edge_index": batch[edges.splits].torch(),
              "edge_attr": batch[edges.splits].torch()}
    none = torch.zeros(batch.num_graphs, dtype=nodes.dtype)
    increments = {"x": none, "edge_index": nodes[:-1], "edge_attr": none}
    taken = {*spec.node_values, spec.node_splits, *edges}
    rows = torch.arange(batch.num_graphs + 1)
    for tensor in spec.tensors:
        if tensor.path in taken:
            continue
        name = tensor.path.replace("/", "_")
        fields[name] = batch[tensor.path].torch()
        if tensor.kind == "splits":
            continue
        slices[name] = batch[tensor.splits].torch() if tensor.splits else rows
        increments[name] = nodes[:-1] if spec.counts_nodes(tensor.path) else none
    made = Batch(_base_cls=Data, batch=torch.repeat_interleave(sizes), ptr=nodes, **fields)
    made._num_graphs = batch.num_graphs
    made._slice_dict = slices
    made._inc_dict = increments
    return made
