"""A graph dataset as arrays (docs/formats/graph-dataset.md), for rivals that sample neighbourhoods. It
is read without Millrace.

`rows` of the dataset must be `target`: the row of a node has the edges into it, which is the form
(CSC) that PyG and GraphBolt sample from.
"""

import json
import pathlib

import numpy as np

HOPS = (15, 10)  # how many edges of a node are taken, hop after hop, from the roots on
BATCH = 1024
MOST_BATCHES = 4096  # enough for half a minute of sampling


class Graph:
    """`mapped`: arrays are mapped instead of loaded, for those that do not fit into memory."""

    def __init__(self, folder, mapped=False):
        self._folder = pathlib.Path(folder)
        self._mapped = mapped
        about = json.loads((self._folder / "graph.json").read_text())
        if about["rows"] != "target":
            raise SystemExit(f"{folder}: rows are '{about['rows']}', expected 'target'")
        self._arrays = about["arrays"]
        self.nodes, self.edges = about["nodes"], about["edges"]
        self.indptr = self.array("indptr").astype(np.int64, copy=False)
        self.indices = self.array("indices")

    def array(self, name):
        if name not in self._arrays:
            raise SystemExit(f"{self._folder}: no array {name}, only {', '.join(self._arrays)}")
        entry = self._arrays[name]
        # Private to this process, so that torch gets memory that it may write to.
        array = np.memmap(self._folder / entry["path"], entry["dtype"], "c", entry["offset"],
                          tuple(entry["shape"]))
        return array if self._mapped else np.array(array)

    def roots(self, name="", seed=0):
        """Roots of MOST_BATCHES batches: of a list, or else all nodes, in random orders one after
        another. The roots of a batch are distinct."""
        generator = np.random.default_rng(seed)
        nodes = np.unique(self.array(f"roots/{name}")) if name else self.nodes
        count = len(nodes) if name else nodes
        whole = min(count // BATCH, MOST_BATCHES) * BATCH
        if not whole:
            raise SystemExit(f"{count} roots, expected at least {BATCH}")
        orders = [generator.choice(nodes, whole, replace=False)
                  for _ in range(-(-MOST_BATCHES * BATCH // whole))]
        return np.concatenate(orders)[:MOST_BATCHES * BATCH].astype(np.int64)

    def expected(self, nodes, hop):
        """How many edges a hop takes from each of the nodes: all, or the fan-out if there are
        more."""
        return np.minimum(self.indptr[nodes + 1] - self.indptr[nodes], HOPS[hop])

    def check(self, sources, targets, tries=2000):
        """Ends the program unless some of the sampled edges (nodes of the dataset) are edges."""
        for at in np.random.default_rng(0).integers(0, len(sources), tries):
            row = self.indices[self.indptr[targets[at]]:self.indptr[targets[at] + 1]]
            if sources[at] not in row:
                raise SystemExit(f"no edge leads from {sources[at]} to {targets[at]}")
