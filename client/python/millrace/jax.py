"""JAX: batches as arrays of few shapes, so that jit compiles few programs.

    for step, batch in epoch:
        arrays = millrace.jax.padded(batch, session.spec)

Added rows belong to one more graph, as in jraph's padding. A loss has to mask that graph away.
Batches of a pipeline with `pad.graph` have one shape already: `padded` and `arrays` give them as
they are, with their masks.
"""

import typing

import jax
import numpy


class GraphsTuple(typing.NamedTuple):
    """The fields of jraph's GraphsTuple, in its order: jraph.GraphsTuple(*this) makes one."""

    nodes: typing.Any
    edges: typing.Any
    receivers: typing.Any
    senders: typing.Any
    globals: typing.Any
    n_node: typing.Any
    n_edge: typing.Any


def bucket(size, smallest=256, steps=4):
    """The smallest of the sizes 2^k · (1 + i / steps) that is not below `size` or `smallest`."""
    if size <= smallest:
        return smallest
    power = 1 << (int(size - 1).bit_length() - 1)
    width = max(1, power // steps)
    return power + -(-(size - power) // width) * width


def arrays(batch):
    """Every tensor as it is, on JAX's default device. Without jax_enable_x64, JAX makes 32 bits of
    64."""
    return {path: _array(batch[path].dtype, batch[path].numpy()) for path in batch}


def _array(dtype, array):
    return jax.numpy.asarray(array.view(jax.numpy.bfloat16) if dtype == "bfloat16" else array)


_PIECES = "pieces+1"  # the rows of pack.cu_seqlens


def padded(batch, spec, smallest=256, steps=4):
    """Every tensor, filled up to the size of a bucket, "num_graphs" and "num_examples".

    Added nodes and edges belong to one more graph. Added edges join its first node to itself. All
    other added values are zeros. Added splits are the new number of rows, so that further graphs
    are empty; so are further pieces of packed rows. steps: number of sizes from one power of two to the next; fewer give more padding and
    fewer shapes. Nothing is added to a batch that `pad.graph` has padded. A merged batch has two
    graphs then: its own and that of padding.
    """
    counts = {"num_graphs": jax.numpy.asarray(batch.num_graphs),
              "num_examples": jax.numpy.asarray(batch.num_examples)}
    if spec.graph_pad:
        return {**counts, **arrays(batch)}
    # An example of a batch that is not merged is a graph.
    examples = bucket(batch.num_examples + (not spec.merged), min(smallest, 16), steps)
    graphs = 2 if spec.merged else examples
    rows, sizes = {}, {}
    for tensor in spec.tensors:
        if tensor.dimension == _PIECES:
            continue
        if tensor.kind == "splits":
            rows[tensor.path] = int(batch[tensor.path].numpy()[-1])
            # At least one node is added, which added edges can join.
            added = tensor.path in spec.all_node_splits
            sizes[tensor.path] = bucket(rows[tensor.path] + added, smallest, steps)
    out = counts
    for tensor in spec.tensors:
        array = batch[tensor.path].numpy()
        uncut = graphs if tensor.of_graphs else examples
        if tensor.dimension == _PIECES:
            filled = numpy.full(bucket(len(array), smallest, steps), array[-1], array.dtype)
        elif tensor.kind == "splits":
            filled = numpy.full(uncut + 1, sizes[tensor.path], array.dtype)
        else:
            fill = rows[tensor.node_splits] if tensor.node_splits else 0
            count = sizes[tensor.splits] if tensor.splits else uncut
            filled = numpy.full((count, *array.shape[1:]), fill, array.dtype)
        filled[:len(array)] = array
        out[tensor.path] = _array(tensor.dtype, filled)
    return out


def graphs_tuple(batch, spec, smallest=256, steps=4):
    """The padded batch in jraph's form. `nodes` and `edges` hold the tensors with a row for each of
    them, `globals` those with a row for each graph. The graph of padding comes right after the
    batch's own graphs, where jraph's masks look for it, and empty graphs come last. A merged batch
    is one graph: tensors with a row for each example, such as `root`, have no place in the tuple,
    and `padded` gives them."""
    edges = spec.only_edges("a GraphsTuple holds")
    values = padded(batch, spec, smallest, steps)
    return GraphsTuple(
        nodes={t.path: values[t.path] for t in spec.tensors if t.splits == spec.node_splits},
        edges={t.path: values[t.path] for t in spec.tensors
               if t.splits == edges.splits and t.path not in (edges.source, edges.target)},
        senders=values[edges.source],
        receivers=values[edges.target],
        globals={t.path: values[t.path] for t in spec.tensors
                 if not t.splits and t.kind != "splits" and t.of_graphs == spec.merged},
        n_node=_sizes(batch, spec, values, spec.node_splits),
        n_edge=_sizes(batch, spec, values, edges.splits),
    )


def _sizes(batch, spec, values, splits):
    """How many rows each graph has, the graph of padding where jraph has it."""
    if not spec.graph_pad:
        return jax.numpy.diff(values[splits])
    sizes = numpy.diff(batch[splits].numpy())
    first = batch.num_graphs
    sizes[first], sizes[-1] = sizes[-1], sizes[first]
    return jax.numpy.asarray(sizes)
