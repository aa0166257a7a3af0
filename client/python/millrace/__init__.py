"""Millrace: training batches of large graph datasets, built in C++ and streamed to each GPU.

    import millrace

    session = millrace.connect("127.0.0.1:7700", pipeline="train.yaml", job="first")
    for epoch in session.epochs(10):
        for step, batch in epoch:
            labels = batch["node_label"].torch()

docs/start/python.md has the rest.
"""

import importlib

from ._core import Batch, Tensor, __version__, load_batch
from ._epoch import Epoch
from ._from_graphbolt import from_graphbolt
from ._from_ogb import from_ogb
from ._from_pyg import from_pyg
from ._graph_arrays import ArrayFile
from ._open import connect, reference
from ._pairing import zip  # noqa: A004
from ._session import Session
from ._spec import Spec, TensorSpec
from ._write_graph import write_graph
from .errors import (
    Cancelled,
    ConfigError,
    ConnectionError,  # noqa: A004
    DataError,
    Error,
    InternalError,
    JobError,
    ResourceError,
)

__all__ = [
    "ArrayFile", "Batch", "Cancelled", "ConfigError", "ConnectionError", "DataError", "Epoch",
    "Error", "InternalError", "JobError", "LocalServer", "ResourceError", "Session", "Spec",
    "Tensor", "TensorSpec", "__version__", "connect", "from_graphbolt", "from_ogb", "from_pyg",
    "load_batch", "local", "reference", "write_graph", "zip",
]

_ADAPTERS = ("graph2tac", "jax", "pyg", "ray", "tf", "torch", "viz")
_LOCAL = ("LocalServer", "local")


def __getattr__(name):
    # These modules are imported only when they are asked for. Adapters import their framework, and
    # the local daemon's module imports much that a trainer does not need.
    if name in _ADAPTERS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _LOCAL:
        return getattr(importlib.import_module(f"{__name__}._local"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
