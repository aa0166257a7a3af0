"""Checks a batch against its spec. Needs numpy."""

import numpy


def check(batch, spec):
    """None if the batch keeps to its spec. Otherwise the first fault, as (row, what is wrong). The
    row is None if the fault is not in a single row."""
    expected = [tensor.path for tensor in spec.tensors]
    if list(batch) != expected:
        return None, f"expected the tensors {expected}, got {list(batch)}"
    graphs, examples = batch.num_graphs, batch.num_examples
    arrays = {path: batch[path].numpy() for path in batch}
    for tensor in spec.tensors:
        array = arrays[tensor.path]
        if str(array.dtype) != tensor.numpy_dtype:
            return None, f"{tensor.path}: expected {tensor.numpy_dtype}, got {array.dtype}"
        if not _has_extents(array.shape[1:], tensor.inner):
            return None, f"{tensor.path}: expected rows of {tensor.inner}, got {array.shape[1:]}"
        if tensor.rows not in (None, len(array)):
            return None, f"{tensor.path}: expected {tensor.rows} rows, got {len(array)}"
    if spec.graph_pad:
        problem = _check_masks(arrays, spec, graphs)
        if problem is not None:
            return problem
        arrays = {t.path: _own_rows(t, arrays, spec, graphs) for t in spec.tensors}
    for tensor in spec.tensors:
        array = arrays[tensor.path]
        own = graphs if tensor.of_graphs else examples
        if tensor.dimension == "pieces+1":
            problem = _check_ends(tensor.path, array)
        elif tensor.kind == "splits":
            problem = _check_splits(tensor.path, array, own)
        else:
            rows = arrays[tensor.splits][-1] if tensor.splits else own
            problem = None
            if len(array) != rows:
                problem = None, f"{tensor.path}: expected {rows} rows, got {len(array)}"
            else:
                problem = _check_values(tensor, array, arrays, spec.merged)
        if problem is not None:
            return _without_graph(problem, tensor.path, spec)
    for group in spec.edges:
        problem = _check_edges(group, arrays, spec)
        if problem is not None:
            return _without_graph(problem, group.source, spec)
    return None


def _without_graph(problem, path, spec):
    """The fault without its row, if that is the graph of a merged batch: it is no example's."""
    return (None, problem[1]) if spec.of_shared_graph(path) else problem


def _check_masks(arrays, spec, graphs):
    """Masks are true for the rows of the batch's own graphs, and the last graph ends the rows."""
    edges = spec.edges[0]
    for name, splits, rows in (("node_mask", edges.node_splits, spec.graph_pad.nodes),
                               ("edge_mask", edges.splits, spec.graph_pad.edges),
                               ("graph_mask", None, spec.graph_pad.graphs)):
        own = arrays[splits][graphs] if splits else graphs
        if arrays[name].sum() != own or not arrays[name][:own].all():
            return None, f"{name}: expected {own} times true and then false"
        if splits and arrays[splits][-1] != rows:
            return graphs, f"{splits}: expected {rows} in the end, got {arrays[splits][-1]}"
    return None


def _own_rows(tensor, arrays, spec, graphs):
    """A tensor without its rows of padding."""
    array = arrays[tensor.path]
    if tensor.kind == "splits":
        return array[:graphs + 1]
    if tensor.rows is None:
        return array
    return array[:arrays[tensor.splits][graphs] if tensor.splits else graphs]


def _has_extents(shape, inner):
    """None stands for any extent."""
    return len(shape) == len(inner) and all(
        wanted in (None, extent) for extent, wanted in zip(shape, inner, strict=True))


def _check_splits(path, splits, graphs):
    if len(splits) != graphs + 1 or splits[0] != 0:
        return None, f"{path}: expected {graphs + 1} numbers from 0, got {len(splits)}"
    falling = numpy.flatnonzero(numpy.diff(splits) < 0)
    return (int(falling[0]), f"{path} falls") if len(falling) else None


def _check_ends(path, ends):
    """Ends of pieces: each piece has elements."""
    if len(ends) == 0 or ends[0] != 0:
        return None, f"{path}: expected numbers from 0"
    return (None, f"{path} does not ascend") if (numpy.diff(ends) <= 0).any() else None


def _row(tensor_splits, arrays, element):
    if not tensor_splits:
        return int(element)
    return int(numpy.searchsorted(arrays[tensor_splits], element, side="right")) - 1


def _check_values(tensor, array, arrays, merged):
    """Integers are within their bounds; bools and floats have none."""
    if tensor.expansion.startswith("edge_"):
        return None  # edges are checked together
    if tensor.expansion == "node_offset":
        return _check_nodes(tensor.path, tensor.splits, arrays, tensor.node_splits, merged)
    if "int" not in tensor.packed_dtype:
        return None
    wrong = numpy.argwhere((array < tensor.min) | (array > tensor.max))
    if len(wrong) == 0:
        return None
    first = tuple(wrong[0])
    return (_row(tensor.splits, arrays, first[0]),
            f"{tensor.path}: expected {tensor.min} to {tensor.max}, got {array[first]}")


def _check_nodes(path, splits, arrays, node_splits, merged):
    values = arrays[path]
    nodes = arrays[node_splits]
    rows = numpy.arange(len(values))
    if splits:
        rows = numpy.repeat(numpy.arange(len(arrays[splits]) - 1), numpy.diff(arrays[splits]))
    graphs = numpy.zeros_like(rows) if merged else rows
    wrong = numpy.flatnonzero((values < nodes[graphs]) | (values >= nodes[graphs + 1]))
    if len(wrong) == 0:
        return None
    return int(rows[wrong[0]]), f"{path}: {values[wrong[0]]} is no node of its graph"


def _check_edges(group, arrays, spec):
    if group.label is not None:
        labels = arrays[group.label]
        wrong = numpy.flatnonzero((labels < 0) | (labels >= spec.edge_labels))
        if len(wrong):
            return (_row(group.splits, arrays, wrong[0]),
                    f"{group.label}: {labels[wrong[0]]} is no label below {spec.edge_labels}")
    places = (group.splits, arrays, group.node_splits, spec.merged)
    return _check_nodes(group.source, *places) or _check_nodes(group.target, *places)
