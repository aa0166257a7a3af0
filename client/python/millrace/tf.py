"""TensorFlow: a tf.data.Dataset of a session's epochs, and TF-GNN's GraphTensor.

    dataset = millrace.tf.dataset(session, epochs=10)
    graphs = dataset.map(lambda batch: millrace.tf.graph_tensor(batch, session.spec))
"""

import tensorflow

from ._epoch import micro_batches_of
from .errors import ConfigError


def signature(spec):
    """The TensorSpecs of an element of `dataset`, by path."""
    return {t.path: tensorflow.TensorSpec((t.rows, *t.inner), t.dtype) for t in spec.tensors}


def dataset(session, epochs=None):
    """A tf.data.Dataset whose elements are dicts of tensors, up to epoch `epochs` (without it)."""

    def elements():
        for epoch in session.epochs(epochs):
            for _, batch in epoch:
                for one in micro_batches_of(batch):
                    yield {path: _array(one[path]) for path in one}

    return tensorflow.data.Dataset.from_generator(elements, output_signature=signature(session.spec))


def _array(tensor):
    array = tensor.numpy()
    if tensor.dtype == "bfloat16":
        return array.view(tensorflow.bfloat16.as_numpy_dtype)
    return array


def ragged(batch, spec, path):
    """One tensor of an element as a RaggedTensor, cut by its splits."""
    splits = spec[path].splits
    if not splits:
        raise ConfigError(f"{path}: its rows are graphs, nothing cuts it")
    return tensorflow.RaggedTensor.from_row_splits(batch[path], batch[splits], validate=False)


def graph_tensor(batch, spec):
    """An element of `dataset` as a GraphTensor, with one component for each graph of the batch. A
    merged batch is one graph: tensors with a row for each example, such as `root`, are left out,
    and the element has them."""
    import tensorflow_gnn

    edges = spec.only_edges("a GraphTensor is made of")
    nodes = batch[spec.node_splits]
    adjacency = tensorflow_gnn.Adjacency.from_indices(
        source=("node", batch[edges.source]), target=("node", batch[edges.target]))
    features = {}
    for tensor in spec.tensors:
        if tensor.kind == "splits" or tensor.splits in (spec.node_splits, edges.splits):
            continue
        if spec.merged and not spec.of_shared_graph(tensor.path):
            continue
        features[tensor.path] = (ragged(batch, spec, tensor.path) if tensor.splits
                                 else batch[tensor.path])
    return tensorflow_gnn.GraphTensor.from_pieces(
        node_sets={"node": tensorflow_gnn.NodeSet.from_fields(
            sizes=_sizes(nodes),
            features={t.path: batch[t.path] for t in spec.tensors if t.splits == spec.node_splits})},
        edge_sets={"edge": tensorflow_gnn.EdgeSet.from_fields(
            sizes=_sizes(batch[edges.splits]),
            features={t.path: batch[t.path] for t in spec.tensors
                      if t.splits == edges.splits and t.path not in (edges.source, edges.target)},
            adjacency=adjacency)},
        context=tensorflow_gnn.Context.from_fields(features=features))


def _sizes(splits):
    return splits[1:] - splits[:-1]
