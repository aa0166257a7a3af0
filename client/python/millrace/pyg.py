"""PyTorch Geometric: delivered batches as PyG's own loaders give them. Edges are not copied.

    session = millrace.connect(…, index_dtype="int64")
    for step, batch in epoch:
        data = millrace.pyg.to_batch(batch, session.spec)   # many graphs, as of a DataLoader
        data = millrace.pyg.to_data(batch, session.spec)    # one graph, as of a NeighborLoader

`to_data` is for merged batches (`closure: {kind: neighbors}`), `to_batch` for all others. PyG numbers
nodes by int64: open the session with index_dtype="int64".
"""

import torch
from torch_geometric.data import Batch, Data

from .errors import ConfigError

_NAMES = str.maketrans("/.", "__")

# Tensors of these are named by what follows: node_feature/x is x, as PyG has it.
_GROUPS = ("node_feature/", "edge_feature/", "target/")
# Names that have another meaning.
_PYGS = ("edge_index", "batch", "ptr", "n_id", "e_id", "input_id", "batch_size", "num_nodes",
         "num_sampled_nodes", "num_sampled_edges")
# Numbers in the dataset, by what a NeighborLoader calls them.
_IDS = {"node": "n_id", "edge": "e_id", "example_id": "input_id"}


def to_batch(batch, spec):
    """The batch as a torch_geometric `Batch`, with `edge_index`. `batch` and `ptr` tell graphs apart.
    Features and targets have the names that the pipeline has for them: `x`, `edge_attr`, `y`. If
    there are no features, `x` holds the values of nodes, if these are of one type and shape;
    `edge_attr` the labels of edges, if they have labels and there is no such feature. Every other
    tensor has its own name, with _ for each / and each dot. `to_data_list()` takes the batch apart
    again.

    If graphs are padded (`pad.graph`), the graphs of padding are graphs of the `Batch` too: `batch`
    and `ptr` have them, and `node_mask`, `edge_mask` and `graph_mask` tell them apart."""
    if spec.merged:
        raise ConfigError("to_batch: a merged batch is one graph: millrace.pyg.to_data gives it as a "
                          "NeighborLoader does; or write `closure: {merge: false}`")
    edges = _edges(spec, "PyG's Batch holds")
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


def to_data(batch, spec, rows="roots"):
    """A merged batch as the `Data` that a NeighborLoader gives, on which PyG's examples train as
    they are: the first `batch_size` nodes are the roots, `n_id` are the nodes' numbers in the dataset,
    `input_id` the example ids, and `num_sampled_nodes` and `num_sampled_edges` say how many of them
    came with each hop (`trim_to_layer`). `e_id`, the places of edges in the dataset, is there if the
    pipeline's `output` has `edge`. Features and targets have the names that the pipeline has for them,
    other tensors their own names, with _ for each / and each dot. No tensor is copied.

    Targets such as `y` have a row for each root, in the same order: a loss compares
    `out[:data.batch_size]` with `data.y`. If a list of roots repeats nodes, two examples of a batch
    can have the same root. It is one node, and the rows are those of its first example; ConfigError
    if those of the other example differ.

    rows: "examples" leaves such rows as they are, one for each example. There is no `batch_size`
    then; a loss compares `out[data.root]` with `data.y`.

    If the graph has several labels of edges, these stand by label, and not by hop. There is no
    `num_sampled_edges` then."""
    if rows not in ("roots", "examples"):
        raise ConfigError(f'to_data: rows: expected "roots" or "examples", got {rows!r}')
    if not spec.merged:
        raise ConfigError("to_data: these batches have a graph for each example: "
                          "millrace.pyg.to_batch gives all of them as a Batch")
    edges = _edges(spec, "PyG's Data holds")
    names = {**_names(spec), **_IDS}
    hops = {path: batch[path].torch()[0].tolist() for path in ("hop_nodes", "hop_edges") if path in batch}
    fields = {"edge_index": batch.stack([edges.source, edges.target]).torch()}
    taken = {edges.source, edges.target, edges.splits, spec.node_splits, *hops}
    if edges.label is not None and "edge_attr" not in names.values():
        names[edges.label] = "edge_attr"
    roots, root = _roots(batch, hops) if rows == "roots" else (None, None)
    for tensor in spec.tensors:
        if tensor.path in taken:
            continue
        value = batch[tensor.path].torch()
        if root is not None and tensor.kind == "dense" and not tensor.of_graphs:
            value = _first_rows(tensor.path, value, roots, root)
        fields[names.get(tensor.path) or tensor.path.translate(_NAMES)] = value
    if roots is not None:
        fields["batch_size"] = roots
    if "hop_nodes" in hops:
        fields["num_sampled_nodes"] = hops["hop_nodes"]
    if "hop_edges" in hops and _by_hop(spec):
        fields["num_sampled_edges"] = hops["hop_edges"]
    return Data(num_nodes=int(batch[spec.node_splits].torch()[-1]), **fields)


def _roots(batch, hops):
    """How many roots there are, and the root of each example: None if no two have the same."""
    root = batch["root"].torch() if "root" in batch else None
    if "hop_nodes" in hops:
        count = hops["hop_nodes"][0]
    else:
        count = None if root is None else len(root.unique())
    if count == batch.num_examples:
        return count, None
    if count is None or root is None:
        raise ConfigError("to_data: expected root in the output of the pipeline: it says which "
                          "examples have the same root")
    return count, root


def _first_rows(path, value, roots, root):
    """For each root the row of its first example."""
    examples = torch.arange(len(root), device=root.device)
    first = torch.full((roots,), len(root), device=root.device)
    first.scatter_reduce_(0, root, examples, "amin")
    chosen = value[first]
    if path not in ("root", "example_id"):
        same = chosen[root].view(torch.uint8) == value.view(torch.uint8)
        if not same.all():
            raise ConfigError(f'to_data: {path} differs between examples with the same root; give '
                              'rows="examples", and compare out[data.root] with all of their rows')
    return chosen


def _by_hop(spec):
    """Whether edges stand as they were drawn, hop after hop, and not by label."""
    return spec.edge_labels == 1 and spec.symmetrization == "none" and not spec.add_self_edges


def _edges(spec, whose):
    """The edges of an object of PyG."""
    edges = spec.only_edges(whose)
    if spec[edges.source].dtype != "int64":
        raise ConfigError('PyG numbers nodes by int64: open the session with index_dtype="int64"')
    return edges


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
