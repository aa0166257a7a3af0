"""Graphs with several types of nodes and edges, as arguments of write_graph. Needs numpy."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping, Sequence

from ._graph_arrays import Values, read_array
from ._write_graph import _numbers, refuse_mask
from .errors import ConfigError


def typed_graph(what: str, counts: Mapping[str, int],
                edges: Mapping[Sequence[str], typing.Any],
                node_features: Mapping[str, Mapping[str, typing.Any]],
                edge_features: Mapping[str, Mapping[Sequence[str], typing.Any]],
                ) -> dict[str, typing.Any]:
    """The arguments of write_graph for nodes that stand type after type.

    counts: nodes of each type. edges: for each type of edges, which is three names, the two rows of
    node numbers within their types. Features are arrays by name and type: all types that have one
    need the same type and shape, and types without it have zeros. what: begins error messages.
    """
    import numpy

    starts, total = {}, 0
    for name, count in counts.items():
        starts[name], total = total, total + count
    indices, labels = [], []
    for number, (kind, pairs) in enumerate(edges.items()):
        name = edge_name(kind)
        pairs = read_array(f"{what}: edges {name}", pairs).array
        if pairs.ndim != 2 or pairs.shape[0] != 2 or (pairs.size and pairs.dtype.kind not in "iu"):
            raise ConfigError(f"{what}: edges {name}: expected integers of shape [2, edges], got "
                              f"{pairs.dtype} {list(pairs.shape)}")
        for end, node_type, ids in zip(("source", "target"), (kind[0], kind[2]), pairs, strict=True):
            if node_type not in counts:
                raise ConfigError(f"{what}: edges {name}: there are no nodes of type {node_type}; "
                                  f"there are {', '.join(counts)}")
            wrong = numpy.flatnonzero((ids < 0) | (ids >= counts[node_type]))
            if len(wrong):
                raise ConfigError(f"{what}: edges {name}: {end} {int(wrong[0])} is "
                                  f"{ids[wrong[0]]}, expected 0 to below {counts[node_type]}")
        indices.append(pairs.astype(numpy.int64) + [[starts[kind[0]]], [starts[kind[2]]]])
        labels.append(numpy.full(pairs.shape[1], number,
                                 numpy.uint8 if len(edges) <= 256 else numpy.uint16))
    made = {"edge_index": numpy.concatenate(indices or [numpy.zeros((2, 0), int)], axis=1),
            "rows": "target", "node_types": dict(counts), "node_features": {}, "edge_features": {},
            "roots": {}, "targets": {}}
    if edges:
        made["edge_label"] = numpy.concatenate(labels)
        made["edge_labels"] = [edge_name(kind) for kind in edges]
    for name, arrays in node_features.items():
        made["node_features"][name] = _stacked(f"{what}: {name}", arrays, counts, str)
    counts = {kind: index.shape[1] for kind, index in zip(edges, indices, strict=True)}
    for name, arrays in edge_features.items():
        made["edge_features"][name] = _stacked(f"{what}: {name}", arrays, counts, edge_name)
    return made


def edge_name(kind: Sequence[str]) -> str:
    """The label of a type of edges, such as paper__cites__paper."""
    return "__".join(kind)


def list_name(node_type: str, name: str, alone: bool) -> str:
    """The name of a list of nodes of a type. alone: no other type has such lists."""
    return name if alone else f"{re.sub('[^A-Za-z0-9_]', '_', node_type)}_{name}"


def numbers_in_graph(what: str, nodes: typing.Any, start: int, count: int) -> typing.Any:
    """The numbers in the graph of nodes that are given by their numbers within a type, which begins
    at `start` and has `count` nodes."""
    import numpy

    array = read_array(what, nodes)
    refuse_mask(what, array.array, count)
    return _numbers(what, array, count).array.astype(numpy.int64) + start


def _stacked(what, arrays, counts, name_of):
    """The rows of all types, one after another."""
    import numpy

    read = {kind: read_array(f"{what} of {name_of(kind)}", array) for kind, array in arrays.items()}
    first_kind, first = next(iter(read.items()))
    for kind, array in read.items():
        if array.shape[0] != counts[kind]:
            raise ConfigError(f"{what} of {name_of(kind)}: has {array.shape[0]} rows, expected "
                              f"{counts[kind]}")
        if (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
            raise ConfigError(
                f"{what}: is {array.dtype} {list(array.shape[1:])} of {name_of(kind)}, but "
                f"{first.dtype} {list(first.shape[1:])} of {name_of(first_kind)}: a graph dataset "
                "has one array for all types; pad the features to one shape, name them "
                "differently, or leave them out")
    stacked = numpy.zeros((sum(counts.values()), *first.shape[1:]), first.array.dtype)
    begin = 0
    for kind, count in counts.items():
        if kind in read:
            stacked[begin:begin + count] = read[kind].array
        begin += count
    return Values(stacked, first.dtype)
