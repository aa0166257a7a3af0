"""Writes graph datasets (docs/guides/graphs.md). Needs numpy."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from collections.abc import Mapping, Sequence

from ._core import seal_graph
from ._graph_arrays import Array, File, Values, narrowed, read_array, whole_number
from .errors import ConfigError, DataError

_CHUNK = 1 << 24  # numbers that are checked at once
_MOST_NODES = (1 << 48) - 1
_EDGE_LABELS, _NODE_LABELS = 65_535, 1 << 24  # labels are below these if they have no names
_NAMES = re.compile(r"[a-z_]+(/[A-Za-z_][A-Za-z0-9_]{0,63}){0,2}")  # of arrays, and so of files


def write_graph(folder: str | os.PathLike, *, edge_index: Array = None, indptr: Array = None,
                indices: Array = None, num_nodes: int | None = None, rows: str = "source",
                undirected: bool = False, edge_label: Array = None, node_label: Array = None,
                edge_labels: Sequence[str] | None = None, node_labels: Sequence[str] | None = None,
                node_types: Mapping[str, int] | None = None,
                node_features: Mapping[str, Array] | None = None,
                edge_features: Mapping[str, Array] | None = None,
                roots: Mapping[str, Array] | None = None,
                targets: Mapping[str, Mapping[str, Array]] | None = None,
                graphs: Mapping[str, Array] | None = None) -> str:
    """Writes a graph dataset into a folder that is new or empty, and gives its digest.

    Arrays are numpy arrays, torch tensors, lists, paths of .npy files, or an ArrayFile. An array
    that is given as a path is hard-linked into the folder, or, if that is not possible, named by
    its absolute path; either way it must not change afterwards.

    edge_index: two rows of node numbers, sources and targets of all edges, in any order.
    indptr, indices: in place of edge_index, the edges sorted by row already.
    rows: "source" if a row has the edges that begin at its node, which closures follow; "target" if
        it has those that lead to its node, which message passing samples.
    undirected: adds, behind the given edges, the other direction of each edge that lacks it, with
        the same label and features. For edge_index only.
    edge_label, node_label: a number for each; edge_labels and node_labels are their names. With
        edge_label, the edges of a row are sorted by label, in their order within a label.
    node_types: in place of node_label and node_labels, for nodes that stand type after type: how
        many there are of each type, by its name. A node's number is that within its type, plus the
        nodes of the types before.
    node_features, edge_features: arrays by name, a row for each node or edge. Those of edges have
        the order of edge_index or indices, and are brought into the order of the rows.
    roots: lists of node numbers, by name; no masks. targets: for each list, arrays by name, with a
        row for each of its nodes; also for a list of graphs, and for "all", which means every node.
    graphs: for each list of small graphs the first node of each and, last, the end of the last one.
    """
    if rows not in ("source", "target"):
        raise ConfigError(f"rows={rows!r}: expected 'source' or 'target'")
    if node_types is not None:
        if node_label is not None or node_labels is not None:
            raise ConfigError("node_types: expected no node_label and node_labels beside it")
        node_label, node_labels, num_nodes = _typed(node_types, num_nodes)
    edge_labels = _label_names("edge_labels", edge_labels)
    node_labels = _label_names("node_labels", node_labels)
    given = {"node_label": read_array("node_label", node_label)}
    for group, arrays in (("node_feature", node_features), ("roots", roots), ("graphs", graphs)):
        for name, array in _items(group, arrays):
            given[f"{group}/{name}"] = read_array(f"{group}/{name}", array)
    for list_name, arrays in _items("targets", targets):
        for name, array in _items(f"targets[{list_name!r}]", arrays):
            given[f"targets/{list_name}/{name}"] = read_array(f"targets/{list_name}/{name}", array)
    of_edges = {"edge_label": read_array("edge_label", edge_label)}
    for name, array in _items("edge_feature", edge_features):
        of_edges[f"edge_feature/{name}"] = read_array(f"edge_feature/{name}", array)
    given = {name: array for name, array in given.items() if array is not None}
    of_edges = {name: array for name, array in of_edges.items() if array is not None}

    if (edge_index is None) == (indptr is None) or (indptr is None) != (indices is None):
        raise ConfigError("expected either edge_index, or indptr and indices")
    if edge_index is not None:
        nodes, edges = _sort(edge_index, of_edges, given, num_nodes, rows, undirected)
    else:
        if undirected:
            raise ConfigError("undirected=True: expected edge_index, not indptr and indices")
        nodes, edges = _rows(indptr, indices, of_edges, num_nodes)
    for name, array in given.items():
        if name.startswith("roots/"):
            given[name] = _roots(name, array, nodes)
        elif name.startswith("graphs/"):
            given[name] = _numbers(name, array, nodes + 1)
            _check_graphs(name, array, nodes)
    for name, array in {**given, **of_edges}.items():
        _check_rows(name, array, nodes, edges)
    _check_lists(given, targets)
    for name, array, names, most in (
            ("edge_label", of_edges.get("edge_label"), edge_labels, _EDGE_LABELS),
            ("node_label", given.get("node_label"), node_labels, _NODE_LABELS)):
        if array is not None:
            _numbers(name, array, most if names is None else len(names), narrow=False)
    return _write(pathlib.Path(folder), nodes, edges, rows, edge_labels, node_labels,
                  {**given, **of_edges})


def _typed(node_types, num_nodes):
    """Labels, their names and the number of nodes that stand type after type."""
    import numpy

    counts = []
    for name, count in _items("node_types", node_types):
        counts.append(whole_number(f"node_types[{name!r}]", count, most=_MOST_NODES))
    if num_nodes not in (None, sum(counts)):
        raise ConfigError(f"num_nodes={num_nodes}: node_types has {sum(counts)} nodes")
    dtype = numpy.uint8 if len(counts) <= 256 else numpy.uint32
    return (numpy.repeat(numpy.arange(len(counts), dtype=dtype), counts), list(node_types),
            sum(counts))


def _label_names(what, names):
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f"{what}: expected a list of names, got {type(names).__name__}")
    names = [str(name) for name in names]
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"{what}: {name!r} cannot be written as UTF-8") from error
    return names


def _items(what, arrays):
    if arrays is None:
        return ()
    if not isinstance(arrays, Mapping):
        raise ConfigError(f"{what}: expected arrays by name, got {type(arrays).__name__}")
    return arrays.items()


def _sort(edge_index, of_edges, given, num_nodes, rows, undirected):
    """Sorts edges by row. Adds indptr and indices to `given`, and brings the arrays of edges into
    the order of the rows. Returns the numbers of nodes and edges."""
    import numpy

    pairs = read_array("edge_index", edge_index).array
    if pairs.shape == (2, 0):
        pairs = pairs.astype(numpy.int64)  # empty lists have no type
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise ConfigError(f"edge_index: expected integers of shape [2, edges], got {pairs.dtype} "
                          f"{list(pairs.shape)}")
    nodes = _count_nodes(num_nodes, given, pairs)
    _check_range("edge_index", pairs.reshape(-1), nodes)
    if pairs.dtype == numpy.uint64:
        pairs = pairs.astype(numpy.int64)  # as bincount needs it
    row, other = (pairs[0], pairs[1]) if rows == "source" else (pairs[1], pairs[0])
    for name, array in of_edges.items():
        _check_length(name, array, pairs.shape[1], "edges")
    label = of_edges["edge_label"].array if "edge_label" in of_edges else None
    origin = None  # the given edge that an edge was made from; None: the same
    if undirected:
        missing = _missing(row, other, label)
        origin = numpy.concatenate([numpy.arange(len(row)), missing])
        row, other = (numpy.concatenate([row, other[missing]]),
                      numpy.concatenate([other, row[missing]]))
        label = None if label is None else label[origin]
    if not _is_sorted(row, label):
        order = (numpy.argsort(row, kind="stable") if label is None
                 else numpy.lexsort((label, row)))
        row, other = row[order], other[order]
        origin = order if origin is None else origin[order]
    if origin is not None and not numpy.array_equal(origin, numpy.arange(pairs.shape[1])):
        for name, array in of_edges.items():
            if isinstance(array, File):
                raise ConfigError(f"{name}: is given as a path, so its rows cannot be reordered; "
                                  f"give edges sorted by row, or the array itself")
            of_edges[name] = Values(array.array[origin], array.dtype)
    indptr = numpy.zeros(nodes + 1, numpy.int64)
    numpy.cumsum(numpy.bincount(row, minlength=nodes), out=indptr[1:])
    given["indptr"] = Values(indptr, "int64")
    given["indices"] = narrowed(other, nodes)
    return nodes, len(row)


def _rows(indptr, indices, of_edges, num_nodes):
    """Checks rows that are given. Adds them to `of_edges`. Returns the numbers of nodes and
    edges."""
    import numpy

    pointers = read_array("indptr", indptr)
    targets = read_array("indices", indices)
    for name, array in (("indptr", pointers), ("indices", targets)):
        empty = array.shape == (0,)
        if len(array.shape) != 1 or (array.array.dtype.kind not in "iu" and not empty):
            raise ConfigError(f"{name}: expected integers of one dimension, got {array.dtype} "
                              f"{list(array.shape)}")
    if pointers.shape[0] == 0:
        raise ConfigError("indptr: is empty, expected one number more than there are nodes")
    nodes, edges = pointers.shape[0] - 1, targets.shape[0]
    if num_nodes is not None and num_nodes != nodes:
        raise ConfigError(f"num_nodes={num_nodes}: indptr has {nodes} rows")
    values = pointers.array
    if int(values[0]) != 0 or int(values[-1]) != edges:
        raise ConfigError(f"indptr: goes from {values[0]} to {values[-1]}, expected from 0 to the "
                          f"{edges} of indices")
    for begin in range(0, nodes, _CHUNK):
        piece = numpy.asarray(values[begin:begin + _CHUNK + 1])
        falls = numpy.flatnonzero(piece[1:] < piece[:-1])
        if len(falls):
            raise ConfigError(f"indptr: falls after number {begin + int(falls[0])}")
    for name, array in of_edges.items():
        _check_length(name, array, edges, "edges")
    if "edge_label" in of_edges:
        _check_label_order(values, of_edges["edge_label"].array)
    if isinstance(pointers, Values):
        pointers = Values(values.astype(numpy.int64), "int64")
    of_edges["indptr"] = pointers
    of_edges["indices"] = _numbers("indices", targets, nodes)
    return nodes, edges


def _check_label_order(indptr, labels):
    import numpy

    for begin in range(0, len(labels), _CHUNK):
        piece = numpy.asarray(labels[begin:begin + _CHUNK + 1])
        falls = numpy.flatnonzero(piece[1:] < piece[:-1]) + begin + 1
        inside = falls[indptr[numpy.searchsorted(indptr, falls)] != falls]
        if len(inside):
            raise ConfigError(f"edge_label: falls within a row at edge {int(inside[0])}; give "
                              f"edge_index, which is sorted, or rows sorted by label")


def _missing(row, other, label):
    """The places of edges whose other direction is not there with the same label."""
    import numpy

    if len(row) and max(int(row.max()), int(other.max())) >= 1 << 32:
        raise ConfigError("undirected=True: expected fewer than 2^32 nodes")
    there = row.astype(numpy.uint64) << numpy.uint64(32) | other.astype(numpy.uint64)
    back = other.astype(numpy.uint64) << numpy.uint64(32) | row.astype(numpy.uint64)
    if label is None:
        return numpy.flatnonzero(~numpy.isin(back, there))
    missing = numpy.zeros(len(row), bool)
    for one in numpy.unique(label):
        at = numpy.flatnonzero(label == one)
        missing[at] = ~numpy.isin(back[at], there[at])
    return numpy.flatnonzero(missing)


def _is_sorted(row, label):
    falls = row[1:] < row[:-1]
    if label is not None:
        falls |= (row[1:] == row[:-1]) & (label[1:] < label[:-1])
    return not falls.any()


def _count_nodes(num_nodes, given, pairs):
    if num_nodes is not None:
        return whole_number("num_nodes", num_nodes, most=_MOST_NODES)
    for name, array in given.items():
        if name == "node_label" or name.startswith("node_feature/"):
            return array.shape[0]
    nodes = int(pairs.max()) + 1 if pairs.size else 0
    if nodes > _MOST_NODES:
        raise ConfigError(f"edge_index: there is a number {nodes - 1}, expected numbers below "
                          f"{_MOST_NODES}")
    return nodes


def _numbers(name, array, bound, narrow=True):
    """Numbers below `bound`, checked; those of nodes in the type that they are written with."""
    if narrow and array.shape == (0,) and isinstance(array, Values):
        return narrowed(array.array, bound)  # an empty list has no type
    if len(array.shape) != 1 or array.array.dtype.kind not in "iu":
        raise ConfigError(f"{name}: expected integers of one dimension, got {array.dtype} "
                          f"{list(array.shape)}")
    _check_range(name, array.array, bound)
    if isinstance(array, File) or not narrow:
        return array
    return narrowed(array.array, bound)


def _roots(name, array, nodes):
    """A list of nodes, checked, in the type that it is written with."""
    refuse_mask(name, array.array, nodes)
    return _numbers(name, array, nodes)


def refuse_mask(name, numbers, nodes):
    """Refuses what may be a mask of so many nodes, where their numbers are expected."""
    if numbers.dtype == bool:
        raise ConfigError(f"{name}: is a mask, expected the numbers of nodes, which are "
                          f"numpy.flatnonzero(mask)")
    if numbers.shape != (nodes,) or numbers.dtype.kind not in "iu" or nodes < 2:
        return
    least, most = int(numbers.min()), int(numbers.max())
    # 0 and 1, each once, are all nodes of a graph of two.
    if least < 0 or most > 1 or (nodes == 2 and least != most):
        return
    raise ConfigError(f"{name}: has a 0 or 1 for each of {nodes} nodes: is it a mask, or are these "
                      f"the numbers of nodes? Of a mask give numpy.flatnonzero(mask); a list of "
                      f"nodes 0 and 1 alone needs another length")


def _check_range(name, numbers, bound):
    import numpy

    for begin in range(0, len(numbers), _CHUNK):
        piece = numpy.asarray(numbers[begin:begin + _CHUNK])
        wrong = numpy.flatnonzero((piece < 0) | (piece >= bound))
        if len(wrong):
            at = int(wrong[0])
            raise ConfigError(f"{name}: number {begin + at} is {piece[at]}, expected 0 to below "
                              f"{bound}")


def _check_graphs(name, array, nodes):
    """Small graphs stand one after another. What may be the graph of each node is refused."""
    import numpy

    if array.shape[0] == 0:
        raise ConfigError(f"{name}: is empty, expected one number more than there are graphs")
    starts = numpy.asarray(array.array, numpy.int64)
    falls = numpy.flatnonzero(starts[1:] < starts[:-1])
    if len(falls):
        raise ConfigError(f"{name}: falls after number {int(falls[0])}")
    steps = numpy.diff(starts)
    if len(starts) == nodes and starts[0] == 0 and steps.max(initial=1) == 1 and not steps.all():
        raise ConfigError(f"{name}: has for each of {nodes} nodes the number before it, or one more: "
                          f"are these the graphs of the nodes, or the first nodes of graphs, many "
                          f"of them empty? Give the first node of each graph and the end of the "
                          f"last one, and leave out empty graphs")


def _check_lists(given, targets):
    """Each array of targets is of one list."""
    for name, arrays in _items("targets", targets):
        roots, graphs = given.get(f"roots/{name}"), given.get(f"graphs/{name}")
        if arrays and None not in (roots, graphs) and roots.shape[0] == graphs.shape[0] - 1:
            raise ConfigError(f"targets[{name!r}]: are they of roots/{name} or of graphs/{name}, "
                              f"which both have {roots.shape[0]} rows? Give one of them another "
                              f"name")


def _check_length(name, array, expected, what):
    if array.shape[0] != expected:
        raise ConfigError(f"{name}: has {array.shape[0]} rows, but there are {expected} {what}")


def _check_rows(name, array, nodes, edges):
    if name == "node_label" or name.startswith("node_feature/"):
        _check_length(name, array, nodes, "nodes")
    elif name == "edge_label" or name.startswith("edge_feature/"):
        _check_length(name, array, edges, "edges")


def _write(folder, nodes, edges, rows, edge_labels, node_labels, arrays):
    try:
        folder.mkdir(parents=True, exist_ok=True)
        empty = not any(folder.iterdir())
    except (OSError, ValueError) as error:
        raise ConfigError(f"folder {folder} cannot be made: {error}") from error
    if not empty:
        raise ConfigError(f"folder {folder} is not empty; choose another one")
    try:
        for name in arrays:
            if not _NAMES.fullmatch(name):
                raise DataError(f"array {name!r}: expected a name of letters, digits and _, which "
                                f"begins with no digit and has at most 64 characters")
        linked = {}
        described = {name: _place(folder, name, array, linked) for name, array in arrays.items()}
        return seal_graph(str(folder), nodes, edges, rows == "target", edge_labels, node_labels,
                          described)
    except BaseException:
        for entry in folder.iterdir():  # the folder was empty
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        raise


def _place(folder, name, array, linked):
    """Brings an array into the folder, and describes it for seal_graph."""
    if isinstance(array, Values):
        import numpy

        target = folder / f"{name}.npy"
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as file:
            numpy.save(file, array.array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        return f"{name}.npy", array.dtype, list(array.shape), 0, ""
    if array.path not in linked:
        linked[array.path] = _link(folder, name + pathlib.Path(array.path).suffix, array.path)
    path = linked[array.path]
    if array.tensor:
        return path, None, None, 0, array.tensor
    return path, array.dtype, list(array.shape), array.offset if array.raw else 0, ""


def _link(folder, name, path):
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, target)
    except OSError:  # another file system, or one without links
        return path
    return name
