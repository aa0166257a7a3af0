"""PyTorch Geometric: a delivered batch as a torch_geometric `Batch`. Edges are not copied.

    session = millrace.connect(…, index_dtype="int64")
    for step, batch in epoch:
        data = millrace.pyg.to_batch(batch, session.spec)

PyG numbers nodes by int64: open the session with index_dtype="int64".
"""

import torch
from torch_geometric.data import Batch, Data

from .errors import ConfigError

_NAMES = str.maketrans("/.", "__")

# Tensors of these are named by what follows: node_feature/x is x, as PyG has it.
_GROUPS = ("node_feature/", "edge_feature/", "target/")
_PYGS = ("edge_index", "batch", "ptr")  # names that have another meaning


def to_batch(batch, spec):
    """The batch as a torch_geometric `Batch`, with `edge_index`. `batch` and `ptr` tell graphs apart.
    Features and targets have the names that the pipeline has for them: `x`, `edge_attr`, `y`. If
    there are no features, `x` holds the values of nodes, if these are of one type and shape;
    `edge_attr` the labels of edges, if they have labels and there is no such feature. Every other
    tensor has its own name, with _ for each / and each dot. `to_data_list()` takes the batch apart
    again.

    If graphs are padded (`pad.graph`), the graphs of padding are graphs of the `Batch` too: `batch`
    and `ptr` have them, and `node_mask`, `edge_mask` and `graph_mask` tell them apart."""
    edges = spec.only_edges("PyG's Batch holds")
    if spec[edges.source].dtype != "int64":
        raise ConfigError('PyG numbers nodes by int64: open the session with index_dtype="int64"')
    nodes = batch[spec.node_splits].torch()
    sizes = nodes.diff()
    names = _names(spec)
    fields = {"edge_index": batch.stack([edges.source, edges.target]).torch()}
    slices = {"edge_index": batch[edges.splits].torch()}
    graphs = len(nodes) - 1
    none = torch.zeros(graphs, dtype=nodes.dtype)
    increments = {"edge_index": nodes[:-1]}
    taken = {*edges}
    if "edge_attr" in names.values():
        taken.discard(edges.label)
    elif edges.label is not None:
        fields["edge_attr"] = batch[edges.label].torch()
        slices["edge_attr"], increments["edge_attr"] = batch[edges.splits].torch(), none
    values = [batch[path].torch() for path in spec.node_values]
    features = any(path.startswith("node_feature/") for path in spec.node_values)
    if not features and len({(v.dtype, v.shape) for v in values}) == 1:
        fields["x"] = values[0] if len(values) == 1 else torch.stack(values, dim=1)
        slices["x"], increments["x"] = nodes, none
        taken.update(spec.node_values)
    rows = torch.arange(graphs + 1)
    for tensor in spec.tensors:
        if tensor.path in taken:
            continue
        name = names.get(tensor.path) or tensor.path.translate(_NAMES)
        fields[name] = batch[tensor.path].torch()
        if tensor.kind == "splits":
            continue
        slices[name] = batch[tensor.splits].torch() if tensor.splits else rows
        increments[name] = nodes[:-1] if spec.counts_nodes(tensor.path) else none
    made = Batch(_base_cls=Data, batch=torch.repeat_interleave(sizes), ptr=nodes, **fields)
    made._num_graphs = graphs
    made._slice_dict = slices
    made._inc_dict = increments
    return made


def _names(spec):
    """The names of features and targets, by path, where no other tensor has them."""
    names = {}
    for group in _GROUPS:
        for tensor in spec.tensors:
            name = tensor.path.removeprefix(group)
            if tensor.path.startswith(group) and name not in {*names.values(), *_PYGS}:
                names[tensor.path] = name
    others = {tensor.path.replace("/", "_") for tensor in spec.tensors if tensor.path not in names}
    return {path: name for path, name in names.items() if name not in others}
