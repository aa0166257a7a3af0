"""The arrays of a graph besides those of its edges: features of nodes, and lists of roots."""

import pathlib

import numpy

from ..._graph_arrays import read_array
from ..._write_graph import _check_rows, _place, _roots, refuse_mask
from ...errors import ConfigError, DataError
from .renumber import NAME


def open_arrays(node_arrays, roots, renumbered):
    """The arrays that a user named, by their names in the dataset. Files of arrays are not read.

    node_arrays: paths of .npy files, by name. roots: paths by name, of .npy files or of texts with
    a node on each line. renumbered: lines are ids, not numbers, and are read by place_arrays.
    """
    arrays = {f"node_feature/{name}": read_array(f"node_feature/{name}", path)
              for name, path in node_arrays}
    for name, path in roots:
        if path.endswith(".npy"):
            arrays[f"roots/{name}"] = read_array(f"roots/{name}", path)
        else:
            lines = _lines(path)
            arrays[f"roots/{name}"] = lines if renumbered else read_array(
                f"roots/{name}", _whole_numbers(path, lines))
    return arrays


def count_nodes(nodes, arrays):
    """How many nodes a graph has by what a user said. None: nothing was said."""
    if nodes is not None:
        return nodes
    return next((array.shape[0] for name, array in arrays.items()
                 if name.startswith("node_feature/")), None)


def place_arrays(folder, arrays, nodes, edges):
    """Links or writes arrays into the folder, and describes them for seal_graph."""
    described, linked = {}, {}
    numbers = None
    for name, array in arrays.items():
        if isinstance(array, list):
            _refuse_mask(name, array, nodes)
            numbers = _ids(folder) if numbers is None else numbers
            array = read_array(name, _found(name, array, numbers))
        if name.startswith("roots/"):
            array = _roots(name, array, nodes)
        _check_rows(name, array, nodes, edges)
        # A call before this one may have placed it already.
        for old in (folder / pathlib.Path(name).parent).glob(f"{pathlib.Path(name).name}.*"):
            old.unlink()
        described[name] = _place(folder, name, array, linked)
    return described


def _lines(path):
    try:
        with open(path, "rb") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "NOT_FOUND") from error
    return [line for line in lines if line and not line.startswith((b"#", b"%"))]


def _whole_numbers(path, lines):
    try:
        return numpy.array([int(line) for line in lines], numpy.int64)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path}: expected a node number on each line: {error}") from None


def _refuse_mask(name, ids, nodes):
    """Refuses ids that may be a mask."""
    if set(ids) <= {b"0", b"1"}:
        refuse_mask(name, numpy.array(ids, numpy.int64), nodes)


def _ids(folder):
    with open(folder / NAME, "rb") as file:
        return {line[:-1]: number for number, line in enumerate(file)}


def _found(name, ids, numbers):
    for one in ids:
        if one not in numbers:
            raise DataError(f"{name}: no edge has a node {one.decode(errors='replace')!r}")
    return numpy.array([numbers[one] for one in ids], numpy.int64)
