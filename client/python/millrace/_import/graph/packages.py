"""Datasets of other packages of graphs, through write_graph. They fit into memory, or are linked."""

import contextlib
import sys

from ... import _from_graphbolt, _from_ogb, _write_graph
from ...errors import ConfigError


def import_package(options):
    """Runs `millrace import graphbolt` or `ogb`. Returns what the user is told."""
    if options.source == "graphbolt":
        given = _from_graphbolt.from_graphbolt(options.folder)
    else:
        given = _from_ogb.from_ogb(*_ogb(options.name, options.root))
    digest = _write_graph.write_graph(options.to, **given)
    return f"{options.to}: digest {digest}"


def _ogb(name, root):
    """What from_ogb takes of a dataset of ogb, which downloads it unless it is there."""
    try:
        if name.startswith("ogbn-"):
            from ogb.nodeproppred import NodePropPredDataset as Dataset
        elif name.startswith("ogbg-"):
            from ogb.graphproppred import GraphPropPredDataset as Dataset
        else:
            raise ConfigError(f"{name}: expected a dataset ogbn-… or ogbg-…")
    except ModuleNotFoundError as error:
        raise ConfigError(f"millrace import ogb needs the package ogb, and {error.name} is not "
                          f"installed in {sys.executable}: pip install ogb", "NOT_FOUND") from error
    try:
        with contextlib.redirect_stdout(sys.stderr):
            dataset = Dataset(name, root=root)
            splits = dataset.get_idx_split()
    except Exception as error:
        raise ConfigError(f"{name} cannot be opened: {type(error).__name__}: {error}",
                          "NOT_FOUND") from error
    if name.startswith("ogbn-"):
        return (*dataset[0], splits)
    return dataset.graphs, dataset.labels, splits
